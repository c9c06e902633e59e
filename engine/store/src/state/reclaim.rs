//! State of the drain under way, and of the bytes that it can free.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64};

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
    /// Bytes that draining cannot free, as of the last look: live ones, and large values dead or alive.
    pub(crate) live: AtomicU64,
    /// Of these, large values.
    pub(crate) runs: AtomicU64,
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
            live: AtomicU64::new(0),
            runs: AtomicU64::new(0),
        }
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
