//! A number that one thread changes and all threads may read: counts, gauges, peaks.
//!
//! It is a relaxed atomic of which only the owning thread stores new values, so that counting is a plain load, an add and a
//! plain store. A sum over several counters may be some operations old, as every statistic is. This file does not know
//! what is counted.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A counter with one writer.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds `n`. Only the owning thread calls this, so a load and a store suffice.
    #[inline]
    pub fn add(&self, n: u64) {
        self.0.store(self.0.load(Relaxed).wrapping_add(n), Relaxed);
    }

    /// Raises the value to `value` if that is more (peaks). Only the owning thread calls this.
    #[inline]
    pub fn raise(&self, value: u64) {
        if value > self.0.load(Relaxed) {
            self.0.store(value, Relaxed);
        }
    }

    /// One part of the sum in the counter was `before` and is `after` now. Only the owning thread calls this.
    #[inline]
    pub fn change(&self, before: usize, after: usize) {
        self.set(self.get() + after as u64 - before as u64);
    }

    /// Sets the value. Only the owning thread calls this.
    #[inline]
    pub fn set(&self, value: u64) {
        self.0.store(value, Relaxed);
    }

    /// The value at some recent moment.
    #[inline]
    pub fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }

    /// Sets the value to zero, from any thread; an `add` of the owner at the same moment may win.
    pub fn reset(&self) {
        self.0.store(0, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_gauges_and_peaks() {
        let counter = Counter::default();
        counter.add(3);
        counter.add(4);
        assert_eq!(counter.get(), 7);
        counter.change(5, 2);
        counter.raise(3);
        assert_eq!(counter.get(), 4);
        counter.raise(9);
        assert_eq!(counter.get(), 9);
        counter.reset();
        counter.set(u64::MAX);
        counter.add(2);
        assert_eq!(counter.get(), 1, "it wraps");
    }
}
