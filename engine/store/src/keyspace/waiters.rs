//! Entries of waiters that wait no longer are removed here, and keys are frozen.

use std::sync::Arc;

use varve_segment::Log;

use super::shard::Shard;
use super::store::Store;
use super::worker::StoreWorker;
use crate::state::key::{Key, hash_of};
use crate::state::types::Type;
use crate::state::waiters::{NextWaiter, Waiter};

impl Shard {
    /// Puts a waiter at the end of a key's queue.
    pub(crate) fn add_waiter(&mut self, key: &[u8], waiter: &Arc<Waiter>) {
        self.waiters.get_or_insert_default().add(key, waiter);
    }

    /// True if somebody waits in a logical database for this key to be of the type that it has.
    pub(crate) fn is_waited_for(&mut self, log: &Log, k: &Key<'_>, db: u32) -> bool {
        let Some(mut waiters) = self.waiters.take() else { return false };
        let type_of = || self.find(log, k).map(|entry| Type::of_kind(self.open(log, self.index.get(entry)).kind()));
        let any = waiters.any(k.bytes, db, type_of);
        self.waiters = Some(waiters);
        self.drop_waiters();
        any
    }

    /// The waiter that is next for a key in a logical database to be of this type; `holds` says whether its target's shard
    /// is held.
    pub(crate) fn next_waiter(
        &mut self,
        key: &[u8],
        db: u32,
        wants: Type,
        holds: impl FnOnce(&[u8]) -> bool,
    ) -> NextWaiter {
        let next = self.waiters.as_mut().and_then(|waiters| waiters.next(key, db, wants, holds));
        self.drop_waiters();
        next.unwrap_or(NextWaiter::Nobody)
    }

    /// Removes a waiter's entry for a key, if it is there.
    pub(crate) fn remove_waiter(&mut self, key: &[u8], waiter: &Waiter) {
        if let Some(waiters) = &mut self.waiters {
            waiters.remove(key, waiter);
        }
        self.drop_waiters();
    }

    /// Has commands that would change this key wait until [`Shard::thaw`].
    /// False if they wait already, for somebody else.
    #[must_use = "a key that is frozen for somebody else stays theirs"]
    pub(crate) fn freeze(&mut self, key: &[u8]) -> bool {
        self.waiters.get_or_insert_default().freeze(key)
    }

    /// Lets commands change this key again; false if they could.
    pub(crate) fn thaw(&mut self, key: &[u8]) -> bool {
        let was_frozen = self.waiters.as_mut().is_some_and(|waiters| waiters.thaw(key));
        self.drop_waiters();
        was_frozen
    }

    fn drop_waiters(&mut self) {
        if self.waiters.as_ref().is_some_and(|waiters| waiters.is_empty()) {
            self.waiters = None;
        }
    }
}

impl Store {
    /// True if one of these keys is frozen. The gate is held alone, and no shard.
    #[cold]
    pub fn any_frozen<'k>(&self, mut keys: impl Iterator<Item = &'k [u8]>) -> bool {
        let is_frozen = |key: &[u8]| {
            let shard = self.cells()[self.shard_of(hash_of(self.seed(), 0, key))].lock.lock();
            shard.waiters().is_some_and(|waiters| waiters.is_frozen(key))
        };
        self.has_frozen() && keys.any(is_frozen)
    }

    /// Thaws keys whose command ended early. The worker holds nothing and is outside the gate.
    pub fn thaw<'k>(&self, worker: &StoreWorker, keys: impl Iterator<Item = &'k [u8]>) {
        let _inside = self.gate().enter(worker.id());
        for key in keys {
            let id = self.shard_of(hash_of(self.seed(), 0, key));
            if self.cells()[id].lock.lock().thaw(key) {
                self.count_thawed();
            }
        }
    }

    /// Removes the entries of a waiter that waits no longer. The worker holds nothing and is outside the gate.
    pub fn forget(&self, worker: &StoreWorker, waiter: &Waiter) {
        debug_assert!(!waiter.is_waiting(), "a client that waits is not forgotten");
        let _inside = self.gate().enter(worker.id());
        for key in &waiter.keys {
            let id = self.shard_of(hash_of(self.seed(), 0, key));
            self.cells()[id].lock.lock().remove_waiter(key, waiter);
        }
    }
}
