//! Clients that wait for copies of what was written (WAIT, WAITAOF): whom to look at when a replica or the file has more.

use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use varve_exec::Awaited;

/// A client that waits, and its worker.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Waiter {
    pub(crate) worker: usize,
    pub(crate) client: u64,
    pub(crate) awaited: Awaited,
}

/// All of them.
#[derive(Debug, Default)]
pub(crate) struct Waiters {
    all: Mutex<Vec<Waiter>>,
    count: AtomicUsize,
}

impl Waiters {
    /// One more.
    pub(crate) fn add(&self, waiter: Waiter) {
        let mut all = self.all.lock();
        all.push(waiter);
        self.count.store(all.len(), Ordering::SeqCst);
    }

    /// A client waits no longer, if it did.
    #[inline]
    pub(crate) fn forget(&self, client: u64) {
        if self.count.load(Ordering::SeqCst) > 0 {
            let mut all = self.all.lock();
            all.retain(|waiter| waiter.client != client);
            self.count.store(all.len(), Ordering::SeqCst);
        }
    }

    /// Those for whom there are enough copies now: each is looked at by its worker, which forgets it then.
    #[inline]
    pub(crate) fn reached(&self, is_reached: impl Fn(Awaited) -> bool) -> Vec<Waiter> {
        if self.count.load(Ordering::SeqCst) == 0 {
            return Vec::new();
        }
        self.all.lock().iter().filter(|waiter| is_reached(waiter.awaited)).copied().collect()
    }
}
