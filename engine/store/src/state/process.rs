//! The process's memory as its server reports it, for INFO, MEMORY STATS and MEMORY DOCTOR.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The memory of the process as its server reports it; all 0 without a report.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProcessMemory {
    /// Resident bytes.
    pub resident: u64,
    /// The most that was ever in use (`Store::used_memory`), and what was when the server had started.
    pub peak_used: u64,
    /// See `peak_used`.
    pub startup_used: u64,
    /// Bytes of the texts of scripts, and of libraries of functions.
    pub scripts: u64,
    /// See `scripts`.
    pub libraries: u64,
}

/// The memory of the process, set by one thread and read by others.
#[derive(Debug, Default)]
pub(crate) struct ReportedMemory {
    pub(crate) resident: AtomicU64,
    pub(crate) peak_used: AtomicU64,
    pub(crate) startup_used: AtomicU64,
    pub(crate) scripts: AtomicU64,
    pub(crate) libraries: AtomicU64,
}

impl ReportedMemory {
    pub(crate) fn tell(&self, memory: ProcessMemory) {
        self.resident.store(memory.resident, Relaxed);
        self.peak_used.store(memory.peak_used, Relaxed);
        self.startup_used.store(memory.startup_used, Relaxed);
        self.scripts.store(memory.scripts, Relaxed);
        self.libraries.store(memory.libraries, Relaxed);
    }

    pub(crate) fn read(&self) -> ProcessMemory {
        ProcessMemory {
            resident: self.resident.load(Relaxed),
            peak_used: self.peak_used.load(Relaxed),
            startup_used: self.startup_used.load(Relaxed),
            scripts: self.scripts.load(Relaxed),
            libraries: self.libraries.load(Relaxed),
        }
    }
}
