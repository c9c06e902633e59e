//! The highest memory that anybody saw.

use std::sync::atomic::Ordering;

use varve_base::shared::SharedU64;

/// The highest `used_memory` that anybody looked at: a tick does, and INFO.
#[derive(Debug, Default)]
pub(crate) struct MemoryPeak(SharedU64);

impl MemoryPeak {
    /// Takes a reading and gives the highest so far.
    pub(crate) fn raise(&self, used_bytes: u64) -> u64 {
        self.0.fetch_max(used_bytes, Ordering::Relaxed).max(used_bytes)
    }

    /// CONFIG RESETSTAT: the peak is what is used now.
    pub(crate) fn reset(&self, used_bytes: u64) {
        self.0.store(used_bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::MemoryPeak;

    #[test]
    fn a_peak_only_rises() {
        let peak = MemoryPeak::default();
        assert_eq!((peak.raise(5), peak.raise(3), peak.raise(7)), (5, 5, 7));
        peak.reset(2);
        assert_eq!(peak.raise(1), 2);
    }
}
