//! Entries of waiters that wait no longer are removed here.

use std::sync::Arc;

use super::shard::Shard;
use super::store::Store;
use super::worker::StoreWorker;
use crate::state::key::hash_of;
use crate::state::types::Type;
use crate::state::waiters::Waiter;

impl Shard {
    /// Puts a waiter at the end of a key's queue.
    pub(crate) fn add_waiter(&mut self, key: &[u8], waiter: &Arc<Waiter>) {
        self.waiters.get_or_insert_default().add(key, waiter);
    }

    /// The first waiter for a key in a logical database that wants this type and still waits.
    pub(crate) fn first_waiter(&mut self, key: &[u8], db: u32, wants: Type) -> Option<Arc<Waiter>> {
        let first = self.waiters.as_mut()?.first(key, db, wants);
        self.drop_waiters();
        first
    }

    /// Removes a waiter's entry for a key, if it is there.
    pub(crate) fn remove_waiter(&mut self, key: &[u8], waiter: &Waiter) {
        if let Some(waiters) = &mut self.waiters {
            waiters.remove(key, waiter);
        }
        self.drop_waiters();
    }

    fn drop_waiters(&mut self) {
        if self.waiters.as_ref().is_some_and(|waiters| waiters.is_empty()) {
            self.waiters = None;
        }
    }
}

impl Store {
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
