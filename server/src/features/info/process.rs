//! Figures that the system reports of this process's memory.

use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes of a page, as /proc/self/statm counts them on x86-64.
const PAGE_BYTES: u64 = 4096;

/// Resident memory of this process in bytes, 0 if the system does not say.
pub(crate) fn resident_bytes() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    resident(&statm)
}

fn resident(statm: &str) -> u64 {
    statm.split(' ').nth(1).and_then(|pages| pages.parse().ok()).unwrap_or(0) * PAGE_BYTES
}

/// Memory of the machine in bytes, 0 if the system does not say.
pub(crate) fn system_memory_bytes() -> u64 {
    let meminfo = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    total(&meminfo)
}

fn total(meminfo: &str) -> u64 {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:")).unwrap_or_default();
    line.trim().trim_end_matches(" kB").parse().unwrap_or(0) * 1024
}

/// The highest `used_memory` that anybody looked at: a tick does, and INFO.
#[derive(Debug, Default)]
pub(crate) struct MemoryPeak(AtomicU64);

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
    use super::{MemoryPeak, resident, resident_bytes, system_memory_bytes, total};

    #[test]
    fn the_systems_tables_are_understood() {
        assert_eq!(resident("5000 300 200 1 0 400 0\n"), 300 * 4096);
        assert_eq!(resident(""), 0);
        assert_eq!(total("MemTotal:       24684084 kB\nMemFree: 1 kB\n"), 24_684_084 * 1024);
        assert_eq!(total("nothing"), 0);
        assert!(resident_bytes() > 0 && system_memory_bytes() > resident_bytes());
    }

    #[test]
    fn a_peak_only_rises() {
        let peak = MemoryPeak::default();
        assert_eq!((peak.raise(5), peak.raise(3), peak.raise(7)), (5, 5, 7));
        peak.reset(2);
        assert_eq!(peak.raise(1), 2);
    }
}
