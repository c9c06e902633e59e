//! Threads that wait for what replicas acknowledge.

use std::sync::atomic::Ordering;
use std::thread::{self, Thread, ThreadId};

use varve_base::shared::{SharedMutex, SharedUsize};

/// The threads that look again whenever a replica has said how far it is.
#[derive(Debug, Default)]
pub(crate) struct Watchers {
    all: SharedMutex<Vec<Thread>>,
    count: SharedUsize,
}

impl Watchers {
    /// The calling thread is unparked from now on.
    pub(crate) fn begin(&self) {
        let mut all = self.all.lock();
        all.push(thread::current());
        self.count.store(all.len(), Ordering::SeqCst);
    }

    /// The calling thread is unparked no longer.
    pub(crate) fn end(&self) {
        let (mut all, own): (_, ThreadId) = (self.all.lock(), thread::current().id());
        all.retain(|thread| thread.id() != own);
        self.count.store(all.len(), Ordering::SeqCst);
    }

    /// Replicas may have more, or there is something else to look at.
    #[inline]
    pub(crate) fn wake(&self) {
        if self.count.load(Ordering::SeqCst) > 0 {
            self.all.lock().iter().for_each(Thread::unpark);
        }
    }
}
