//! How the acceptor gives a TLS connection to a thread that does its handshake, and how many such a thread has.
//!
//! A connection is counted from here on until a worker has it or it is closed, so that half of a handshake is a client of
//! `maxclients` as any other. The lock is a leaf. Not here: handshakes (worker/handshakes.rs).

use std::sync::atomic::Ordering;

use mio::Waker;
use varve_base::shared::{SharedMutex, SharedU64};

use crate::net::conn::Newcomer;

/// See the module's text.
#[derive(Debug)]
pub(crate) struct Handshakes {
    queue: SharedMutex<Vec<Newcomer>>,
    waker: Waker,
    count: SharedU64,
}

impl Handshakes {
    /// `waker` wakes the thread.
    pub(crate) fn new(waker: Waker) -> Handshakes {
        Handshakes { queue: SharedMutex::default(), waker, count: SharedU64::new(0) }
    }

    /// Gives the thread a connection.
    pub(crate) fn begin(&self, newcomer: Newcomer) {
        self.count.fetch_add(1, Ordering::Relaxed);
        self.queue.lock().push(newcomer);
        self.wake();
    }

    /// The thread takes what it was given.
    pub(crate) fn take(&self) -> Vec<Newcomer> {
        std::mem::take(&mut *self.queue.lock())
    }

    /// One connection is closed, or a worker's: its handshake is over.
    pub(crate) fn end(&self) {
        let before = self.count.fetch_sub(1, Ordering::Relaxed);
        assert!(before > 0, "a handshake ends once");
    }

    /// Connections whose handshake is not over.
    pub(crate) fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }

    /// Wakes the thread.
    pub(crate) fn wake(&self) {
        self.waker.wake().expect("an event descriptor takes a count of one after it was read");
    }
}
