//! State of the drain under way.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering::Relaxed};

use varve_base::rank::{Rank, RankedMutex};
use varve_segment::{Drain, Log};

use super::meter::DefragMeter;
use super::victims::{CostCounters, Seen, Settings};

/// The drain under way.
pub(crate) struct Reclaimer {
    pub(crate) drain: RankedMutex<Draining>,
    /// How victims are chosen, and what they have cost.
    pub(crate) settings: Settings,
    pub(crate) cost: CostCounters,
    /// The objects that the background has moved for active defragmentation.
    pub(crate) meter: DefragMeter,
    pub(crate) cooling: PageCacheDecay,
    /// MEMORY PURGE has asked for all that is dead, and the background is at it.
    pub(crate) purging: AtomicBool,
    /// When a worker last looked at the figures that the background decides by, ms of Unix time.
    looked_ms: AtomicI64,
}

/// The drain under way, and what is known of the segments that it chooses from.
#[derive(Default)]
pub(crate) struct Draining {
    pub(crate) drain: Option<Drain>,
    pub(crate) seen: Seen,
}

/// Memory that is kept for new segments goes back where none is opened.
#[derive(Default)]
pub(crate) struct PageCacheDecay {
    /// Segments opened as of the last look, and since when that has been so, ms of Unix time.
    pub(crate) opens: AtomicU64,
    pub(crate) since_ms: AtomicI64,
    pub(crate) on: AtomicBool,
}

impl Reclaimer {
    pub(crate) fn new() -> Reclaimer {
        Reclaimer {
            drain: RankedMutex::new(Rank::Drain, Draining::default()),
            settings: Settings::new(),
            cost: CostCounters::default(),
            meter: DefragMeter::default(),
            cooling: PageCacheDecay::default(),
            purging: AtomicBool::new(false),
            looked_ms: AtomicI64::new(0),
        }
    }

    /// True for one worker of all, once in `every_ms`: that one looks at the figures that the background decides by.
    pub(crate) fn is_time_to_look(&self, now_ms: i64, every_ms: i64) -> bool {
        let last = self.looked_ms.load(Relaxed);
        now_ms.abs_diff(last) >= every_ms as u64
            && self.looked_ms.compare_exchange(last, now_ms, Relaxed, Relaxed).is_ok()
    }

    /// Gives the drain up; under the gate alone, before the log is cleared.
    pub(crate) fn reset(&self, log: &Log) {
        let mut draining = self.drain.lock();
        draining.seen.clear();
        if let Some(drain) = draining.drain.take() {
            log.abandon(drain);
        }
    }
}
