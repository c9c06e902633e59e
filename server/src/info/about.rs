//! What INFO knows of the process from its start on, and where the counters stood at the last CONFIG RESETSTAT.

use std::path::PathBuf;
use std::sync::OnceLock;
use std::time::{SystemTime, UNIX_EPOCH};

use parking_lot::Mutex;

use varve_store::{ProcessMemory, Store};

use super::{MemoryPeak, StatFacts, resident_bytes};

/// One a process.
#[derive(Debug)]
pub(crate) struct About {
    pub(crate) executable: PathBuf,
    /// `no`, `systemd` or `upstart`.
    pub(crate) supervised: &'static str,
    /// Unix time in seconds.
    pub(crate) started_s: u64,
    /// `used_memory` before the first client.
    pub(crate) startup_bytes: u64,
    pub(crate) peak: MemoryPeak,
    baseline: Mutex<StatFacts>,
}

static ABOUT: OnceLock<About> = OnceLock::new();

/// Notes what is true at the start; the first call counts.
pub(crate) fn start(supervised: &'static str, used_bytes: u64) {
    ABOUT.get_or_init(|| About::new(supervised, used_bytes));
}

/// What was noted.
pub(crate) fn about() -> &'static About {
    ABOUT.get_or_init(|| About::new("no", 0))
}

/// Notes the peak, and tells the store what the process takes; ten times a second.
pub(crate) fn tell_memory(store: &Store) {
    let about = about();
    let peak_used = about.peak.raise(store.used_memory());
    store.tell_process(ProcessMemory { resident: resident_bytes(), peak_used, startup_used: about.startup_bytes });
}

impl About {
    fn new(supervised: &'static str, startup_bytes: u64) -> About {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        About {
            executable: std::env::current_exe().unwrap_or_default(),
            supervised,
            started_s: now.as_secs(),
            startup_bytes,
            peak: MemoryPeak::default(),
            baseline: Mutex::default(),
        }
    }

    /// Counters are shown from here on.
    pub(crate) fn reset(&self, counted: StatFacts, used_bytes: u64) {
        *self.baseline.lock() = counted;
        self.peak.reset(used_bytes);
    }

    /// Where the counters stood at the last reset.
    pub(crate) fn baseline(&self) -> StatFacts {
        self.baseline.lock().clone()
    }
}
