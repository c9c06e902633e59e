//! Keys, and fields of hashes, whose time has come: the wheels of a worker's home shards fire them.
//!
//! A hash with fields that expire has one entry, filed by the first of them; its root knows the others.
//!
//! A shard's home worker is its number modulo the workers. On a replica its primary says when a key goes: there the wheels of keys
//! to which its own clients gave a time fire, and no others.

use std::time::Duration;

use smallvec::SmallVec;

use super::{Step, debt, page_cache, rest};
use crate::keyspace::expiry::FieldsLeft;
use crate::keyspace::shard::{NEVER, Shard, ShardCell};
use crate::keyspace::store::{EXPIRE_EFFORT_MAX, Store};
use crate::keyspace::worker::WorkerState;
use crate::state::clock::is_over;
use crate::state::key::{database_of, hash_of, wheel_bits};

/// Fired entries of a step at the least effort, looked up before the clock is read again.
const EXPIRY_ENTRIES: usize = 32;
/// How often the due times of the home shards are looked through, ms.
const DUE_CHECK_MS: i64 = 8;
/// How soon it is looked again whether the journal has room, ms.
const JOURNAL_WAITS_MS: i64 = 1;

/// Looks through the home shards' due times every few milliseconds; true if one has come. On the way, one
/// worker of all brings up to date what the background decides by.
pub(super) fn check_due(store: &Store, worker: &mut WorkerState, now_ms: i64) -> bool {
    if now_ms.abs_diff(worker.background().due_checked_ms) >= DUE_CHECK_MS as u64 {
        worker.background_mut().due_checked_ms = now_ms;
        if store.reclaimer().is_time_to_look(now_ms, DUE_CHECK_MS) {
            debt::follow_defrag(store, now_ms);
            page_cache::look_at_cached(store, now_ms);
            rest::look(store, now_ms);
            debt::look(store);
            store.ground().ask_again();
        }
        let still = if store.journal_is_full() { now_ms + JOURNAL_WAITS_MS } else { store.still_until() };
        let own = store.expires_own();
        let due = home_shards(store, worker).map(|id| due_of(&store.cells()[id], own)).min().unwrap_or(NEVER);
        let fires = own || store.expires_actively();
        worker.background_mut().next_due = (due != NEVER && fires).then_some(due.max(still));
    }
    worker.background().next_due.is_some_and(|t| t <= now_ms)
}

/// A lower bound of the next time in a shard, or of the next that a client of this replica has given a key.
fn due_of(cell: &ShardCell, own: bool) -> i64 {
    if own { cell.own_dates().due() } else { cell.due() }
}

/// The next home shard, round and round, where something is due. If the search always began at the first one, the last
/// ones would wait for as long as there is too much to do.
fn due_shard(store: &Store, worker: &mut WorkerState, now_ms: i64, own: bool) -> Option<usize> {
    let (first, count, step) = (worker.id(), store.cells().len(), store.workers());
    let from = worker.background().expiry_at.max(first);
    let mut round = (from..count).step_by(step).chain((first..from).step_by(step));
    let id = round.find(|&id| due_of(&store.cells()[id], own) <= now_ms)?;
    worker.background_mut().expiry_at = id + step;
    Some(id)
}

fn home_shards(store: &Store, worker: &WorkerState) -> impl Iterator<Item = usize> + use<> {
    (worker.id()..store.cells().len()).step_by(store.workers())
}

/// Removes some keys whose time has come from the next due home shard.
pub(super) fn step(store: &Store, worker: &mut WorkerState) -> Step {
    if store.stands_still(worker.now_ms()) || store.journal_is_full() {
        return Step::Done;
    }
    if store.expires_own() {
        return own_step(store, worker);
    }
    if !store.expires_actively() {
        return Step::Done;
    }
    let now = worker.now_ms();
    let Some(id) = due_shard(store, worker, now, false) else { return Step::Done };
    let cell = &store.cells()[id];
    let Some(mut shard) = cell.lock.try_lock() else { return Step::Busy };
    if cell.due() > 0 {
        store.expiry_lag.record(Duration::from_millis((now - cell.due()).max(0) as u64));
    }
    let mut due = std::mem::take(&mut worker.background_mut().due);
    due.clear();
    let more = shard.fire_wheel(now, entries_of(store.expire_effort()), &mut due);
    for &bits in &due {
        shard.index().prefetch(hash_with_bits(id, bits));
    }
    for &bits in &due {
        fire(store, worker, &mut shard, id, bits);
    }
    worker.background_mut().due = due;
    if !more && !shard.fires_again() {
        cell.set_due(shard.wheel().next_due(now).unwrap_or(NEVER));
    }
    shard.follow_index(store.ground(), id);
    Step::More
}

/// Removes some keys of the next home shard whose time a client of this replica has given, and has come.
fn own_step(store: &Store, worker: &mut WorkerState) -> Step {
    let now = worker.now_ms();
    let Some(id) = due_shard(store, worker, now, true) else { return Step::Done };
    let cell = &store.cells()[id];
    let Some(mut shard) = cell.lock.try_lock() else { return Step::Busy };
    let mut due = std::mem::take(&mut worker.background_mut().due);
    due.clear();
    shard.fire_own_dates(now, entries_of(store.expire_effort()), &mut due);
    for &bits in &due {
        fire_own(store, worker, &mut shard, id, bits);
    }
    worker.background_mut().due = due;
    shard.settle_own_dates(cell, now);
    shard.follow_index(store.ground(), id);
    Step::More
}

/// Removes the keys behind a fired entry whose time has come, and files again those whose time is to come.
fn fire_own(store: &Store, worker: &mut WorkerState, shard: &mut Shard, id: usize, bits: u64) {
    let now = worker.now_ms();
    loop {
        let mut again = None;
        let entry = shard.index().find_partial(bits, |r| {
            let object = shard.open(store.log(), r);
            let Some(due) = object.expiry_ms() else { return false };
            if wheel_bits(hash_of(store.seed(), database_of(&object), object.key())) != bits {
                return false;
            }
            if due > now {
                again = Some(again.map_or(due, |least: i64| least.min(due)));
            }
            due <= now
        });
        let Some(entry) = entry else {
            again.into_iter().for_each(|due| shard.refile_own_date(bits, due));
            return;
        };
        worker.expire_entry(store, shard, id, entry);
        worker.hand_on_of(store, shard);
    }
}

/// A quarter more for each degree of effort, as the peer looks at more keys: 104 at the greatest, some 50 us.
fn entries_of(effort: u32) -> usize {
    assert!((1..=EXPIRE_EFFORT_MAX).contains(&effort), "degrees of effort are 1 to 10");
    EXPIRY_ENTRIES + EXPIRY_ENTRIES / 4 * (effort as usize - 1)
}

/// Removes the keys behind a fired entry whose time has come, and files again those whose time is to come: they were
/// prolonged, or fired ahead of their time. An entry without a key does nothing.
fn fire(store: &Store, worker: &mut WorkerState, shard: &mut Shard, id: usize, bits: u64) {
    let now = worker.now_ms();
    loop {
        let (mut again, mut hashes) = (None, SmallVec::<[u32; 2]>::new());
        let entry = shard.index().find_partial(bits, |r| {
            let object = shard.open(store.log(), r);
            let hash = shard.fields_of(&object);
            let times = [object.expiry_ms(), hash.and_then(|(_, due)| due)];
            let due = times.into_iter().flatten().min();
            // Twelve bits of the tag match by chance too: such an entry is not this one's to remove.
            if due.is_none() && hash.is_none()
                || wheel_bits(hash_of(store.seed(), database_of(&object), object.key())) != bits
            {
                return false;
            }
            hashes.extend(hash.and_then(|(place, _)| place));
            match due {
                Some(t) if t > now => {
                    again = Some(again.map_or(t, |a: i64| a.min(t)));
                    false
                }
                due => due.is_some(),
            }
        });
        // The entry has come out: these hashes have none, or the one that is filed here.
        let filed_ms = if entry.is_none() { again.unwrap_or(NEVER) } else { NEVER };
        hashes.into_iter().for_each(|place| shard.note_filed(place, filed_ms));
        let Some(entry) = entry else {
            if let Some(t) = again {
                shard.refile(bits, t);
            }
            return;
        };
        let due = shard.open(store.log(), shard.index().get(entry)).expiry_ms();
        if is_over(due, now) {
            worker.expire_entry(store, shard, id, entry);
        } else if worker.expire_fields(store, shard, id, entry) == FieldsLeft::MoreDue {
            worker.hand_on_of(store, shard);
            return shard.fire_again(bits);
        }
        worker.hand_on_of(store, shard);
    }
}

/// A hash that falls in the bucket of a wheel entry; its tag is not whole.
fn hash_with_bits(shard: usize, bits: u64) -> u64 {
    (shard as u64) << 52 | (bits >> 12) << 16 | (bits & 0xfff)
}
