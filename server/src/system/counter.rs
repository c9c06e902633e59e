//! Counters that one thread writes and all threads may read.

use std::sync::atomic::{AtomicU64, Ordering};

/// A counter that one thread writes and all may read.
#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    /// Adds `count`. Only the owning worker calls this, so a load and a store suffice.
    pub(crate) fn add(&self, count: u64) {
        self.0.store(self.0.load(Ordering::Relaxed).wrapping_add(count), Ordering::Relaxed);
    }

    /// Raises the counter to `value` if that is more (peaks).
    pub(crate) fn raise(&self, value: u64) {
        if value > self.0.load(Ordering::Relaxed) {
            self.0.store(value, Ordering::Relaxed);
        }
    }

    /// A part of a gauge is `after` in place of `before`. Only the owning worker calls this.
    pub(crate) fn change(&self, before: usize, after: usize) {
        self.set(self.get() + after as u64 - before as u64);
    }

    /// Sets a gauge.
    pub(crate) fn set(&self, value: u64) {
        self.0.store(value, Ordering::Relaxed);
    }

    /// The value at some recent moment.
    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}
