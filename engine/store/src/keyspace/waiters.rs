//! Entries of waiters that wait no longer are removed here.

use std::sync::Arc;

use super::shard::Shard;
use super::store::Store;
use super::worker::StoreWorker;
use crate::state::key::hash_of;
use crate::state::waiters::Waiter;

impl Shard {
    /// Puts a waiter at the end of a key's queue.
    pub(crate) fn add_waiter(&mut self, key: &[u8], waiter: &Arc<Waiter>) {
        self.waiters.get_or_insert_default().add(key, waiter);
    }

    /// Takes the waiter at a position of a key's queue out of it.
    pub(crate) fn take_waiter(&mut self, key: &[u8], db: u32, position: usize) -> Option<Arc<Waiter>> {
        let waiters = self.waiters.as_mut()?;
        let taken = waiters.edit(key, db, |fifo| fifo.remove(position));
        if waiters.keys.is_empty() {
            self.waiters = None;
        }
        taken.flatten()
    }

    /// Removes a waiter's entry for a key, if it is there.
    fn forget(&mut self, key: &[u8], waiter: &Waiter) {
        let Some(waiters) = &mut self.waiters else { return };
        waiters.edit(key, waiter.who.db, |fifo| fifo.retain(|other| !std::ptr::eq(&**other, waiter)));
        if waiters.keys.is_empty() {
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
            self.cells()[id].lock.lock().forget(key, waiter);
        }
    }
}
