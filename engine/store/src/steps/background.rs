//! The one scheduler of background work: steps on the workers, between batches.
//!
//! A worker calls [`Worker::background`] once a turn of its loop. It runs steps until its budget (100 us) is spent or
//! nothing is owed, each step bounded by itself, taking shards by `try_lock` only:
//!
//! ```text
//! expiry (home shards) -> index growth -> eviction over the limit -> reclaim -> release of runs and of memory that is
//! kept in vain -> sweeps -> collections
//! -> detached tables
//! ```
//! A shard's home worker is its number modulo the workers. Tests drive the same steps by hand.

use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use super::reclaim::Slice;
use crate::keyspace::shard::{NEVER, Shard};
use crate::keyspace::store::Store;
use crate::keyspace::worker::{Local, Worker};
use crate::state::events::EventClass;
use crate::state::key::{database_of, hash_of, wheel_bits};

/// Fired entries looked up before the clock is read again.
const EXPIRY_ENTRIES: usize = 32;
/// Buckets that one index step migrates.
const INDEX_BUCKETS: usize = 32;
/// Objects that one reclaim step settles.
const RECLAIM_OBJECTS: usize = 64;
/// Bytes of freed runs that one step gives back to the system: one madvise of about 40 us.
const RELEASE_BYTES: usize = 256 << 10;
/// How often the due times of the home shards are looked through, ms.
const DUE_CHECK_MS: i64 = 8;

impl Worker {
    /// Runs what is owed, for at most about `budget`. Gives when it wants to be called again, in milliseconds of Unix
    /// time: at once (a time not after `now_ms`) while work is left, `None` when nothing is planned.
    pub fn background(&mut self, now_ms: i64, budget: Duration) -> Option<i64> {
        self.set_now(now_ms);
        self.set_client(0);
        let store = &*self.store;
        let local = &mut self.local;
        let expiry = local.check_due(store, now_ms);
        if !expiry && !store.owes_any() && !store.owes_eviction(local) {
            return local.next_due;
        }
        let Some(_shared) = store.gate().try_enter(local.id) else { return Some(now_ms) };
        let start = Instant::now();
        (local.slices, local.slices_spent) = (0, false);
        let mut spent = Duration::ZERO;
        // One round at least, however little time there is.
        let left = loop {
            let left = store.step(local);
            let now = start.elapsed();
            store.rounds.record(now - spent);
            spent = now;
            if !left || spent >= budget {
                break left;
            }
        };
        local.appender.park(store.log());
        store.slices.record(start.elapsed());
        if left || local.slices_spent {
            return Some(now_ms);
        }
        local.due_checked_ms = 0;
        local.check_due(store, now_ms);
        local.next_due
    }
}

impl Local {
    /// Looks through the home shards' due times every few milliseconds; true if one has come.
    fn check_due(&mut self, store: &Store, now_ms: i64) -> bool {
        if now_ms.abs_diff(self.due_checked_ms) >= DUE_CHECK_MS as u64 {
            self.due_checked_ms = now_ms;
            store.look_at_live();
            store.follow_defrag(now_ms);
            store.look_at_kept(now_ms);
            let still = store.still_until();
            let due = self.home_shards(store).map(|id| store.cells()[id].due()).min().unwrap_or(NEVER);
            self.next_due = (due != NEVER && store.expires_actively()).then_some(due.max(still));
        }
        self.next_due.is_some_and(|t| t <= now_ms)
    }

    /// The next home shard, round and round, where something is due: from the first one always, the last ones would wait
    /// for as long as there is too much to do.
    fn due_shard(&mut self, store: &Store, now_ms: i64) -> Option<usize> {
        let (count, step, from) = (store.cells().len(), store.workers(), self.expiry_at.max(self.id));
        let mut round = (from..count).step_by(step).chain((self.id..from).step_by(step));
        let id = round.find(|&id| store.cells()[id].due() <= now_ms)?;
        self.expiry_at = id + step;
        Some(id)
    }

    fn home_shards(&self, store: &Store) -> impl Iterator<Item = usize> + use<> {
        (self.id..store.cells().len()).step_by(store.workers())
    }
}

impl Store {
    fn owes_any(&self) -> bool {
        self.ground().growing().iter().any(|word| word.load(Relaxed) != 0)
            || self.owes_reclaim()
            || self.owes_cooling()
            || self.log().owes_release()
            || self.database_map().dying().is_some()
            || self.detached().any_tables()
            || self.pending().any()
    }

    /// One round of steps, one of each kind that is owed; true while work that is not held up is left.
    pub(crate) fn step(&self, local: &mut Local) -> bool {
        let mut left = self.expiry_step(local);
        left |= self.index_step(local);
        left |= self.limit_step(local);
        left |= self.reclaim_step(local);
        left |= self.log().release_step(RELEASE_BYTES) | self.cool_step(local.now_ms);
        left |= self.sweep_step();
        left |= self.collections_step(local);
        left | self.drop_table_step()
    }

    /// A slice of reclaim, as far as the debt has slices in this turn; true while it has more.
    fn reclaim_step(&self, local: &mut Local) -> bool {
        let slices = self.reclaim_slices();
        if local.slices >= slices {
            local.slices_spent = slices > 0;
            return false;
        }
        local.slices += 1;
        let slice = self.reclaim_slice(local, RECLAIM_OBJECTS, false);
        self.count_background_slice(slice, &local.tally);
        matches!(slice, Slice::Progress | Slice::Drained)
    }

    /// Removes some keys whose time has come from the next due home shard.
    fn expiry_step(&self, local: &mut Local) -> bool {
        if !self.expires_actively() || self.stands_still(local.now_ms) {
            return false;
        }
        let now = local.now_ms;
        let Some(id) = local.due_shard(self, now) else { return false };
        let cell = &self.cells()[id];
        let Some(mut shard) = cell.lock.try_lock() else { return true };
        if cell.due() > 0 {
            self.expiry_lag.record(Duration::from_millis((now - cell.due()).max(0) as u64));
        }
        let mut due = std::mem::take(&mut local.due);
        due.clear();
        let more = shard.fire_wheel(now, EXPIRY_ENTRIES, &mut due);
        for &bits in &due {
            shard.index().prefetch(hash_with_bits(id, bits));
        }
        for &bits in &due {
            let expired = self.fire(&mut shard, local, bits, now);
            local.counters.expired.add(expired);
        }
        local.due = due;
        if !more {
            cell.set_due(shard.wheel().next_due(now).unwrap_or(NEVER));
        }
        shard.follow_index(self.ground(), id);
        true
    }

    /// Removes the keys behind a fired entry whose time has come, and files again those whose time is to come: they
    /// were prolonged, or fired ahead of their time. An entry without a key does nothing.
    fn fire(&self, shard: &mut Shard, local: &mut Local, bits: u64, now: i64) -> u64 {
        let mut expired = 0;
        loop {
            let mut again = None;
            let slot = shard.index().find_partial(bits, |r| {
                let object = shard.open(self.log(), r);
                let Some(t) = object.expiry_ms() else { return false };
                // Twelve bits of the tag match by chance too: such an entry is not this one's to remove.
                if wheel_bits(hash_of(self.seed(), database_of(&object), object.key())) != bits {
                    return false;
                }
                if t > now {
                    again = Some(again.map_or(t, |a: i64| a.min(t)));
                }
                t <= now
            });
            match slot {
                Some(slot) => {
                    local.report_removed(self, EventClass::Expired, shard, slot);
                    shard.remove(self.ground(), slot);
                    local.hand_on(self);
                    expired += 1;
                }
                None => {
                    if let Some(t) = again {
                        shard.refile(bits, t);
                    }
                    return expired;
                }
            }
        }
    }

    /// Migrates some buckets of an index that grows or shrinks.
    fn index_step(&self, local: &mut Local) -> bool {
        let words = self.ground().growing().len();
        for n in 0..words {
            let word = (local.turn as usize + n) % words;
            let bits = self.ground().growing()[word].load(Relaxed);
            if bits == 0 {
                continue;
            }
            // Workers start at different bits, so that they rarely meet at one shard.
            let first = (local.turn as u32 + local.id as u32 * 32) % 64;
            let id = word * 64 + ((first + bits.rotate_right(first).trailing_zeros()) % 64) as usize;
            local.turn += 1;
            let Some(mut shard) = self.cells()[id].lock.try_lock() else { return true };
            if !shard.step_index(self.ground(), INDEX_BUCKETS) {
                self.ground().unmark_growing(id);
            }
            shard.follow_index(self.ground(), id);
            return true;
        }
        false
    }
}

/// A hash that falls in the bucket of a wheel entry; its tag is not whole.
fn hash_with_bits(shard: usize, bits: u64) -> u64 {
    (shard as u64) << 52 | (bits >> 12) << 16 | (bits & 0xfff)
}
