//! Counters of a worker: written by it alone, read by any thread, reset only on request.
//!
//! Sums over the workers may be some operations old, as every statistic is.

use varve_base::counter::Counter;

/// The counts of one worker in the store.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct StoreCounters {
    /// Reads that found their key.
    pub hits: Counter,
    /// Reads that did not.
    pub misses: Counter,
    /// Keys removed because their time had come.
    pub expired: Counter,
    /// Fields of hashes removed because their time had come.
    pub expired_fields: Counter,
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
    pub expired_fields: u64,
    pub evicted: u64,
    pub moved: u64,
    pub changes: u64,
}

impl StoreTotals {
    pub(crate) fn add(&mut self, c: &StoreCounters) {
        self.hits += c.hits.get();
        self.misses += c.misses.get();
        self.expired += c.expired.get();
        self.expired_fields += c.expired_fields.get();
        self.evicted += c.evicted.get();
        self.moved += c.moved.get();
        self.changes += c.changes.get();
    }
}
