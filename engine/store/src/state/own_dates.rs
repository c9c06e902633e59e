//! The times that clients of a replica have given keys of a shard, as they are read without its lock.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::Relaxed};

/// How many there are, and when the first of them comes. The holder of the shard's lock writes it.
#[derive(Debug)]
pub(crate) struct OwnDates {
    due: AtomicI64,
    count: AtomicU64,
}

impl OwnDates {
    /// None, the first of which comes at `never`.
    pub(crate) fn new(never: i64) -> OwnDates {
        OwnDates { due: AtomicI64::new(never), count: AtomicU64::new(0) }
    }

    /// Lower bound of the next of them, milliseconds of Unix time.
    pub(crate) fn due(&self) -> i64 {
        self.due.load(Relaxed)
    }

    /// Their number.
    pub(crate) fn count(&self) -> u64 {
        self.count.load(Relaxed)
    }

    /// There is this number of them, the first of which comes at `due_ms`.
    pub(crate) fn set(&self, count: u64, due_ms: i64) {
        self.count.store(count, Relaxed);
        self.due.store(due_ms, Relaxed);
    }
}
