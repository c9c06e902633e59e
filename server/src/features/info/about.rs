//! Facts of the process from its start on for INFO, and the counters at the last CONFIG RESETSTAT.

use std::path::PathBuf;
use std::sync::OnceLock;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use varve_base::shared::{SharedMutex, SharedU64};
use varve_scripts::ScriptMemory;
use varve_store::{ProcessMemory, Store};

use super::facts::StatFacts;
use super::peak::MemoryPeak;
use crate::system::memory::resident_bytes;
use crate::system::sys::heap_bytes;

/// One a process.
#[derive(Debug)]
pub(crate) struct About {
    pub(crate) executable: PathBuf,
    /// `no`, `systemd` or `upstart`.
    pub(crate) supervised: &'static str,
    /// `used_memory` before the first client.
    pub(crate) startup_bytes: u64,
    pub(crate) peak: MemoryPeak,
    baseline: SharedMutex<StatFacts>,
    /// When the allocator may be asked again to give memory back.
    next_trim: SharedMutex<Option<Instant>>,
    /// The most bytes that have been in use since then. Relaxed: a figure that no other data depends on.
    most_used: SharedU64,
}

static ABOUT: OnceLock<About> = OnceLock::new();

/// Notes what is true at the start, before the first client; the first call counts. The bytes that the program itself
/// takes count as used from now on, as those of redis-server do.
pub(crate) fn start(supervised: &'static str, store: &Store) {
    let about = ABOUT.get_or_init(|| About::new(supervised, store.used_memory() + heap_bytes()));
    store.set_outside_bytes(about.startup_bytes);
}

/// `used_memory` before the first client: a part of it for ever.
pub(crate) fn startup_bytes() -> u64 {
    about().startup_bytes
}

/// The facts that were noted.
pub(crate) fn about() -> &'static About {
    ABOUT.get_or_init(|| About::new("no", 0))
}

/// Notes the peak, and tells the store what the process takes; ten times a second.
pub(crate) fn report_memory(store: &Store, memory: &ScriptMemory) {
    let (about, used, resident) = (about(), store.used_memory(), resident_bytes());
    let peak_used = about.peak.raise(used);
    let (startup_used, scripts, libraries) = (about.startup_bytes, memory.script_bytes, memory.library_bytes);
    store.tell_process(ProcessMemory { resident, peak_used, startup_used, scripts, libraries });
    let most = about.most_used.fetch_max(used, Ordering::Relaxed).max(used);
    if resident > used + used / 20 + BESIDE_BYTES || most > used + used / 8 + FALLEN_BYTES {
        about.trim(used);
    }
}

/// Resident bytes beside what is in use, and a twentieth of it, from which on the allocator is asked what it keeps: tables
/// and roots of collections are its, and where few are left among many freed ones it gives nothing back by itself.
const BESIDE_BYTES: u64 = 12 << 20;
/// The allocator is asked as well when the bytes in use have fallen by this much, and an eighth of what is left, since it was
/// asked last. Without this, a sorted set of which 90% had been deleted left 1 MB of free pages beside 4 MB.
const FALLEN_BYTES: u64 = 1 << 20;
/// How long it is not asked again: some hundred times what it took.
const TRIM_PAUSE_MIN: Duration = Duration::from_secs(1);
const TRIM_PAUSE_TIMES: u32 = 300;

impl About {
    fn new(supervised: &'static str, startup_bytes: u64) -> About {
        About {
            executable: std::env::current_exe().unwrap_or_default(),
            supervised,
            startup_bytes,
            peak: MemoryPeak::default(),
            baseline: SharedMutex::default(),
            next_trim: SharedMutex::default(),
            most_used: SharedU64::new(0),
        }
    }

    /// Counters are shown from here on.
    pub(crate) fn reset(&self, counted: StatFacts, used_bytes: u64) {
        *self.baseline.lock() = counted;
        self.peak.reset(used_bytes);
    }

    /// Has the allocator give back what it keeps, on a thread of its own, unless it was asked not long ago.
    fn trim(&'static self, used: u64) {
        let mut next = self.next_trim.lock();
        if next.is_some_and(|next| Instant::now() < next) {
            return;
        }
        self.most_used.store(used, Ordering::Relaxed);
        // A minute, should it take longer than anybody would think.
        *next = Some(Instant::now() + Duration::from_secs(60));
        let work = || {
            let start = Instant::now();
            crate::system::sys::trim_heap();
            let pause = (start.elapsed() * TRIM_PAUSE_TIMES).max(TRIM_PAUSE_MIN);
            *self.next_trim.lock() = Some(Instant::now() + pause);
        };
        // Without a thread to be had there is more amiss than this.
        let _ = std::thread::Builder::new().name("trim".into()).spawn(work);
    }

    /// Where the counters stood at the last reset.
    pub(crate) fn baseline(&self) -> StatFacts {
        self.baseline.lock().clone()
    }
}
