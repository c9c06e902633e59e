//! Entries of watchers, waiters and frozen keys that are to go from shards, and whose shard was held by others.
//!
//! ```text
//!   the shard is free --> the entry goes now
//!   it is held        --> owed: tried again in each turn of the background, until the shard is free
//! ```
//! A script holds shards for as long as it runs, and it may rest on this very thread. So nobody waits here. Until they go,
//! the entries do no harm: a watcher that has ended is asked nothing, a waiter that waits no longer is passed over, and a
//! frozen key has those who wait for it tried again for a little longer.

use std::sync::Arc;

use super::store::Store;
use super::worker::{StoreWorker, WorkerState};
use crate::state::key::hash_of;
use crate::state::owed::OwedEntry;
use crate::state::waiters::Waiter;
use crate::state::watch::Watcher;

/// How often a busy shard is looked at before its entry is owed: about 20 us, longer than most commands.
const LOOKS: u32 = 1000;
/// How soon an entry that is owed is tried again, ms.
const AGAIN_MS: i64 = 1;

impl OwedEntry {
    /// Removes the entry; false if its shard is busy. The worker is inside the gate.
    fn remove(&self, store: &Store) -> bool {
        match self {
            OwedEntry::Watched { watcher, db, key } => {
                let key = store.key(*db, key);
                let shard = store.cells()[store.shard_of(key.hash)].lock.try_lock_for(LOOKS);
                shard.map(|mut shard| shard.unwatch(&key, watcher)).is_some()
            }
            OwedEntry::Waited { waiter, nth } => {
                let key = &waiter.keys[*nth];
                let shard = store.cells()[store.shard_of(hash_of(store.seed(), 0, key))].lock.try_lock_for(LOOKS);
                shard.map(|mut shard| shard.remove_waiter(key, waiter)).is_some()
            }
            OwedEntry::Frozen { key } => {
                let shard = store.cells()[store.shard_of(hash_of(store.seed(), 0, key))].lock.try_lock_for(LOOKS);
                let Some(was_frozen) = shard.map(|mut shard| shard.thaw(key)) else { return false };
                if let Some(how) = was_frozen {
                    store.count_thawed(how);
                }
                true
            }
        }
    }
}

impl StoreWorker {
    /// Ends a round of watching; the keys are given with their logical databases. Holds no more than one shard at a
    /// time. The caller is not inside the gate.
    pub fn unwatch<'k>(&mut self, watcher: &Watcher, keys: impl Iterator<Item = (u32, &'k [u8])>) {
        self.remove(keys.map(|(db, key)| OwedEntry::Watched { watcher: watcher.clone(), db, key: key.into() }));
    }

    /// Thaws keys whose command ended early. The worker holds nothing and is outside the gate.
    pub fn thaw<'k>(&mut self, keys: impl Iterator<Item = &'k [u8]>) {
        self.remove(keys.map(|key| OwedEntry::Frozen { key: key.into() }));
    }

    /// Removes the entries of a waiter that waits no longer. The worker holds nothing and is outside the gate.
    pub fn forget(&mut self, waiter: &Arc<Waiter>) {
        debug_assert!(!waiter.is_waiting(), "a client that waits is not forgotten");
        let all = 0..waiter.keys.len();
        self.remove(all.map(|nth| OwedEntry::Waited { waiter: Arc::clone(waiter), nth }));
    }

    /// Removes entries from their shards, now or later.
    fn remove(&mut self, entries: impl Iterator<Item = OwedEntry>) {
        let (store, local) = self.parts();
        let inside = store.gate().try_enter(local.id());
        local.owed.0.extend(entries.filter(|entry| inside.is_none() || !entry.remove(store)));
    }
}

impl WorkerState {
    /// Removes the entries that are owed and whose shards are free. Gives when to try again, milliseconds of Unix time; `None`
    /// if nothing is owed. The worker is outside the gate.
    #[inline]
    pub(crate) fn pay_owed(&mut self, store: &Store, now_ms: i64) -> Option<i64> {
        if self.owed.0.is_empty() { None } else { self.pay(store, now_ms) }
    }

    #[cold]
    fn pay(&mut self, store: &Store, now_ms: i64) -> Option<i64> {
        if let Some(_inside) = store.gate().try_enter(self.id()) {
            self.owed.0.retain(|entry| !entry.remove(store));
        }
        (!self.owed.0.is_empty()).then_some(now_ms + AGAIN_MS)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::Options;

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
        store.cells()[shard].lock.lock().watch(store.seed(), &key, &watcher);
        {
            let (store, local) = script.parts();
            let _inside = store.gate().enter(local.id());
            std::thread::scope(|scope| {
                let held = store.cells()[shard].lock.lock();
                let worker = &mut worker;
                scope
                    .spawn(move || {
                        worker.unwatch(&watcher, [(0, &b"watched"[..])].into_iter());
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
}
