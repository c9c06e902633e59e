//! Entries of watchers, waiters and frozen keys that are to go from shards, and whose shard was held by others, or which are
//! many.
//!
//! ```text
//!   the shard is free --> the entry goes now
//!   it is held        --> owed: tried again in each turn of the background, until the shard is free
//!   beyond ROUND      --> owed: a list, some of which is made and tried in each turn of the background
//! ```
//! A script holds shards for as long as it runs, and it may rest on this very thread. So nobody waits here. Until they go,
//! the entries do no harm: a watcher that has ended is asked nothing, a waiter that waits no longer is passed over, and a
//! frozen key has those who wait for it tried again for a little longer.
//!
//! Nobody spins for them either: one look is waited for in a round, and [`ROUND`] entries are tried in one, so that a client
//! that watched a million keys takes a worker some microseconds a millisecond when it goes, and not a tenth of a second.

use std::collections::VecDeque;
use std::sync::Arc;

use varve_base::share::Share;

use super::store::Store;
use super::worker::{StoreWorker, WorkerState};
use crate::state::key::hash_of;
use crate::state::owed::{OwedEntry, OwedList};
use crate::state::ready::ReadyKey;
use crate::state::waiters::Waiter;
use crate::state::watch::Watcher;

/// How often the first busy shard of a round is looked at before its entry is owed: about 20 us, longer than most commands.
/// The others of the round are looked at once: the thread that holds one shard often holds many.
const LOOKS: u32 = 1000;
/// Entries that are tried in a round, where not very many are owed.
const ROUND: usize = 256;
/// Entries by themselves, put back since their shard is held, from which on those of lists stay there.
const LOOSE_MOST: usize = 2048;
/// How soon an entry that is owed is tried again, ms.
const AGAIN_MS: i64 = 1;

impl OwedEntry {
    /// Removes the entry; false if its shard was busy at each of `looks` looks. The worker is inside the gate. A key that was
    /// frozen, and for which somebody waits, is added to `ready`.
    fn remove(&self, store: &Store, looks: &mut u32, ready: &mut VecDeque<ReadyKey>) -> bool {
        let removed = self.remove_within(store, *looks, ready);
        if !removed {
            *looks = 0;
        }
        removed
    }

    fn remove_within(&self, store: &Store, looks: u32, ready: &mut VecDeque<ReadyKey>) -> bool {
        match self {
            OwedEntry::Watched { watcher, db, key } => {
                let key = store.key(*db, key);
                let shard = store.cells()[store.shard_of(key.hash)].lock.try_lock_for(looks);
                shard.map(|mut shard| shard.unwatch(&key, watcher)).is_some()
            }
            OwedEntry::Waited { waiter, nth } => {
                let key = &waiter.keys[*nth];
                let shard = store.cells()[store.shard_of(hash_of(store.seed(), 0, key))].lock.try_lock_for(looks);
                shard.map(|mut shard| shard.remove_waiter(*nth, waiter)).is_some()
            }
            OwedEntry::Frozen { key } => {
                let shard = store.cells()[store.shard_of(hash_of(store.seed(), 0, key))].lock.try_lock_for(looks);
                let Some(mut shard) = shard else { return false };
                if let Some(journal) = store.journal() {
                    shard.append_parts(journal, key);
                }
                if let Some(frozen) = shard.thaw(key) {
                    store.count_thawed(frozen.how);
                    let waited = shard.waiters().into_iter().flat_map(|waiters| waiters.databases(key));
                    ready.extend(waited.map(|db| ReadyKey { db, bytes: key.clone() }));
                }
                true
            }
        }
    }
}

impl StoreWorker {
    /// Ends a round of watching; the keys are given with their logical databases. Of many keys, some go now and the others in the
    /// background: a watcher that has ended is told nothing. Holds no more than one shard at a time. The caller is not inside the
    /// gate.
    pub fn unwatch(&mut self, watcher: &Watcher, keys: impl Iterator<Item = (u32, Box<[u8]>)> + Send + 'static) {
        let watcher = watcher.clone();
        self.remove(keys.map(move |(db, key)| OwedEntry::Watched { watcher: watcher.clone(), db, key }));
    }

    /// Thaws keys whose command ended early, all of them now whose shards are free. The worker holds nothing and is outside the
    /// gate.
    pub fn thaw<'k>(&mut self, keys: impl Iterator<Item = &'k [u8]>) {
        self.remove_some(keys.map(|key| OwedEntry::Frozen { key: key.into() }));
    }

    /// Removes the entries of a waiter that waits no longer. The worker holds nothing and is outside the gate.
    pub fn forget(&mut self, waiter: &Arc<Waiter>) {
        debug_assert!(!waiter.is_waiting(), "a client that waits is not forgotten");
        let waiter = Arc::clone(waiter);
        let all = 0..waiter.keys.len();
        self.remove(all.map(move |nth| OwedEntry::Waited { waiter: Arc::clone(&waiter), nth }));
    }

    /// Removes entries from their shards: those of a round now, if their shards are free, all others later.
    fn remove(&mut self, mut entries: impl Iterator<Item = OwedEntry> + Send + 'static) {
        self.remove_some(entries.by_ref().take(ROUND));
        if let Some(next) = entries.next() {
            let owed = &mut self.parts().1.owed;
            let entries = std::iter::once(next).chain(entries);
            owed.listed += entries.size_hint().0;
            owed.lists.push_back(OwedList(Box::new(entries)));
        }
    }

    /// Removes entries from their shards, now, or later where a shard is busy.
    fn remove_some(&mut self, entries: impl Iterator<Item = OwedEntry>) {
        let (store, local) = self.parts();
        let inside = store.gate().try_enter(local.id());
        let mut looks = LOOKS;
        local
            .owed
            .entries
            .extend(entries.filter(|entry| inside.is_none() || !entry.remove(store, &mut looks, &mut local.gone)));
    }
}

impl WorkerState {
    /// Removes the entries that are owed and whose shards are free. Gives when to try again, milliseconds of Unix time; `None`
    /// if nothing is owed. The worker is outside the gate.
    #[inline]
    pub(crate) fn pay_owed(&mut self, store: &Store, now_ms: i64) -> Option<i64> {
        if self.owed.is_empty() { None } else { Some(self.pay(store, now_ms)) }
    }

    #[cold]
    fn pay(&mut self, store: &Store, now_ms: i64) -> i64 {
        // A clock that was set back puts nothing off.
        if now_ms < self.owed.again_ms && self.owed.again_ms - now_ms <= AGAIN_MS {
            return self.owed.again_ms;
        }
        self.owed.again_ms = now_ms + AGAIN_MS;
        let Some(_inside) = store.gate().try_enter(self.id()) else { return self.owed.again_ms };
        let mut looks = LOOKS;
        let tried = self.owed.entries.len();
        for nth in Share::of(self.owed.listed + tried, ROUND) {
            // Those that were put back in this round are not tried again. Where somebody holds many shards for long, the entries of
            // lists stay there, where they take less memory than by themselves.
            let owed = &mut self.owed;
            let next = match () {
                () if nth < tried => owed.entries.pop_front(),
                () if owed.entries.len() < LOOSE_MOST => owed.next_of_lists(),
                () => None,
            };
            let Some(entry) = next else { break };
            if !entry.remove(store, &mut looks, &mut self.gone) {
                self.owed.entries.push_back(entry);
            }
        }
        self.owed.again_ms
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::Options;
    use crate::state::watch::Watch;

    /// A script may rest on the thread that is to remove an entry: a wait would never end.
    #[test]
    fn an_entry_in_a_held_shard_goes_when_the_shard_is_free() {
        let options = Options {
            seed: 5,
            geometry: crate::LogGeometry { reserve_bytes: 1 << 30, ..Default::default() },
            ..Options::default()
        };
        let store = Store::new(&options).expect("an address range");
        let (mut worker, mut script) = (store.worker(0), store.script_worker(0));
        let (watcher, key) = (Watcher::default(), store.key(0, b"watched"));
        let shard = store.shard_of(key.hash);
        let watch = Watch { watcher: watcher.clone(), was_there: false };
        store.cells()[shard].lock.lock().watch(store.seed(), &key, watch);
        {
            let (store, local) = script.parts();
            let _inside = store.gate().enter(local.id());
            std::thread::scope(|scope| {
                let held = store.cells()[shard].lock.lock();
                let worker = &mut worker;
                scope
                    .spawn(move || {
                        worker.unwatch(&watcher, [(0, Box::from(&b"watched"[..]))].into_iter());
                        assert_eq!(worker.background(7, Duration::ZERO), Some(8), "it is owed");
                    })
                    .join()
                    .expect("nobody waits");
                drop(held);
            });
        }
        assert_eq!(store.watched_keys(), 1);
        worker.background(8, Duration::ZERO);
        assert_eq!(store.watched_keys(), 0);
    }

    /// A store, and these keys that one watcher watches.
    fn watched(
        number: usize,
    ) -> (Arc<Store>, Watcher, impl Iterator<Item = (u32, Box<[u8]>)> + Send + Clone + 'static) {
        let options = Options {
            seed: 5,
            geometry: crate::LogGeometry { reserve_bytes: 1 << 30, ..Default::default() },
            ..Options::default()
        };
        let store = Store::new(&options).expect("an address range");
        let watcher = Watcher::default();
        let keys = (0..number).map(|nth| (0, nth.to_string().into_bytes().into_boxed_slice()));
        for (_, key) in keys.clone() {
            let key = store.key(0, &key);
            let watch = Watch { watcher: watcher.clone(), was_there: false };
            store.cells()[store.shard_of(key.hash)].lock.lock().watch(store.seed(), &key, watch);
        }
        (store, watcher, keys)
    }

    /// A client that watched many keys goes: its worker does something else, too.
    #[test]
    fn of_many_entries_a_round_goes_at_once() {
        let (store, watcher, keys) = watched(5 * ROUND + 1);
        let mut worker = store.worker(0);
        worker.unwatch(&watcher, keys);
        let mut counts = vec![store.watched_keys()];
        for now_ms in 7..12 {
            for _ in 0..3 {
                worker.background(now_ms, Duration::ZERO);
            }
            counts.push(store.watched_keys());
        }
        assert_eq!(counts, [4 * ROUND + 1, 3 * ROUND + 1, 2 * ROUND + 1, ROUND + 1, 1, 0]);
    }

    /// Clients make lists faster than the entries of such a round go: the rounds grow, by what their time allows.
    #[test]
    fn issue_11_the_more_is_owed_the_more_goes_in_a_round() {
        const EACH: usize = 4000;
        let (store, watcher, keys) = watched(EACH);
        let mut worker = store.worker(0);
        (0..200).for_each(|_| worker.unwatch(&watcher, keys.clone()));
        let (mut most, mut left) = (0, worker.parts().1.owed.listed);
        for now_ms in 0.. {
            if left == 0 {
                break;
            }
            // A long time between two rounds is no reason for a long one.
            worker.background(now_ms * 1000, Duration::ZERO);
            let now = worker.parts().1.owed.listed;
            assert!(left - now >= ROUND.min(left), "{} entries of {left}", left - now);
            assert!(left - now <= ROUND.max(left / varve_base::share::PART), "{} entries of {left}", left - now);
            (most, left) = (most.max(left - now), now);
        }
        assert!(most > ROUND, "no round did more than {most} entries");
        assert_eq!(store.watched_keys(), 0);
    }

    /// A client that watched many keys has left while a script holds them: a round tries some of them, and the next one comes a
    /// millisecond later, however often the worker's loop turns.
    #[test]
    fn many_entries_that_are_owed_are_tried_in_rounds() {
        let (store, watcher, keys) = watched(10 * ROUND);
        let mut worker = store.worker(0);
        {
            let mut script = store.script_worker(0);
            let (store, local) = script.parts();
            let _inside = store.gate().enter(local.id());
            std::thread::scope(|scope| {
                let held: Vec<_> = store.cells().iter().map(|cell| cell.lock.lock()).collect();
                let worker = &mut worker;
                scope.spawn(move || worker.unwatch(&watcher, keys)).join().expect("it ends");
                drop(held);
            });
        }
        assert_eq!(store.watched_keys(), 10 * ROUND);
        for round in 1..=10 {
            for _ in 0..3 {
                worker.background(7 + round, Duration::ZERO);
            }
            assert_eq!(store.watched_keys(), (10 - round as usize) * ROUND, "round {round}");
        }
    }
}
