//! Counters of a worker: written by it alone, read by whoever asks, never reset under its feet except by asking.
//!
//! Each is a relaxed atomic that only its worker stores to, so that counting is a plain add; sums over the workers may
//! be some operations old, as every statistic is.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A counter with one writer.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds `n`; for the owning worker only.
    #[inline]
    pub fn add(&self, n: u64) {
        self.0.store(self.0.load(Relaxed).wrapping_add(n), Relaxed);
    }

    /// The value.
    pub fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }

    /// Back to zero; a concurrent `add` may win.
    pub fn reset(&self) {
        self.0.store(0, Relaxed);
    }
}

/// What one worker has counted in the store.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct StoreCounters {
    /// Reads that found their key.
    pub hits: Counter,
    /// Reads that did not.
    pub misses: Counter,
    /// Keys removed because their time had come.
    pub expired: Counter,
    /// Keys removed for room.
    pub evicted: Counter,
    /// Objects that reclaim copied.
    pub moved: Counter,
    /// Writes since the start: what INFO calls changes since the last save.
    pub changes: Counter,
}

/// Sums over all workers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "as in StoreCounters")]
pub struct StoreTotals {
    pub hits: u64,
    pub misses: u64,
    pub expired: u64,
    pub evicted: u64,
    pub moved: u64,
    pub changes: u64,
}

impl StoreTotals {
    pub(crate) fn add(&mut self, c: &StoreCounters) {
        self.hits += c.hits.get();
        self.misses += c.misses.get();
        self.expired += c.expired.get();
        self.evicted += c.evicted.get();
        self.moved += c.moved.get();
        self.changes += c.changes.get();
    }
}
