//! State of the drains under way.
//!
//! ```text
//!   group of workers --> its drain, one at a time      all groups --> what they know of segments: the next victim is chosen there
//! ```

use std::collections::VecDeque;
use std::sync::atomic::Ordering::Relaxed;

use varve_base::rank::{Rank, RankedMutex};
use varve_base::shared::{SharedBool, SharedI64, SharedU8, SharedU32, SharedU64};
use varve_segment::{Drain, Log};

use super::meter::DefragMeter;
use super::victims::{CostCounters, Seen, Settings};

/// The drains under way.
pub(crate) struct Reclaimer {
    /// One for each group of workers, worker `w` in group `w % groups`; none while its group drains nothing.
    drains: Box<[RankedMutex<Option<Drain>>]>,
    /// Segments that are being drained.
    under_way: SharedU32,
    /// Held also while objects of a segment are looked at that nobody drains: it is not chosen meanwhile.
    pub(crate) victims: RankedMutex<Victims>,
    /// How victims are chosen, and what they have cost.
    pub(crate) settings: Settings,
    pub(crate) cost: CostCounters,
    /// The objects that the background has moved for active defragmentation.
    pub(crate) meter: DefragMeter,
    pub(crate) cooling: PageCacheDecay,
    /// The purge that the background is at.
    pub(crate) purge: PurgeState,
    pub(crate) rest: Rest,
    /// There is enough dead for the background to reclaim, as of the last look.
    pub(crate) owed: SharedBool,
    /// When a worker last looked at the figures that the background decides by, ms of Unix time.
    looked_ms: SharedI64,
}

/// The knowledge of the segments from which victims are chosen.
#[derive(Default)]
pub(crate) struct Victims {
    pub(crate) seen: Seen,
    pub(crate) left: LeftVictims,
}

/// Victims that were left because the shards of their last objects were held. Between two victims that are chosen, one of
/// these is tried again.
#[derive(Default)]
pub(crate) struct LeftVictims {
    segments: VecDeque<u32>,
    /// One was just tried in vain: another victim is due.
    tried: bool,
}

/// Victims that may be left at once. Each keeps the pages of its last objects.
const LEFT_MAX: usize = 256;

impl LeftVictims {
    pub(crate) fn is_empty(&self) -> bool {
        self.segments.is_empty()
    }

    pub(crate) fn is_full(&self) -> bool {
        self.segments.len() >= LEFT_MAX
    }

    pub(crate) fn contains(&self, segment: u32) -> bool {
        self.segments.contains(&segment)
    }

    /// The one that is tried again next, if it is its turn.
    pub(crate) fn take_due(&mut self) -> Option<u32> {
        if std::mem::take(&mut self.tried) && !self.is_full() {
            return None;
        }
        self.segments.pop_front()
    }

    /// Adds a victim of which only busy objects are left.
    pub(crate) fn add(&mut self, segment: u32) {
        self.segments.push_back(segment);
        self.tried = true;
    }

    /// A victim was drained to its end: shards are free again.
    pub(crate) fn settled(&mut self) {
        self.tried = false;
    }

    fn clear(&mut self) {
        *self = LeftVictims::default();
    }
}

/// Memory that is kept for new segments goes back where none is opened.
#[derive(Default)]
pub(crate) struct PageCacheDecay {
    /// Segments opened as of the last look, and since when that has been so, ms of Unix time.
    pub(crate) opens: SharedU64,
    pub(crate) since_ms: SharedI64,
    pub(crate) on: SharedBool,
}

/// Nobody writes for some time: then what is dead is given back. See `steps/rest.rs`.
#[derive(Default)]
pub(crate) struct Rest {
    /// Bytes written and bytes alive as of the last look, and since when both have been so, ms of Unix time.
    pub(crate) written: SharedU64,
    pub(crate) live: SharedU64,
    pub(crate) since_ms: SharedI64,
    /// This rest has had its purge.
    pub(crate) purged: SharedBool,
}

/// The purge under way, of those that ask for all that is dead. A purge that was asked for outlives writes; one that a rest
/// has begun ends with the rest. One word has both, so that none is taken for the other.
#[derive(Default)]
pub(crate) struct PurgeState {
    purge: SharedU8,
    /// Victims drained since the kept bytes were last looked at, and how many those were ([`PurgeState::count_victim`]).
    victims: SharedU32,
    kept: SharedI64,
}

/// The one that has asked for the purge under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
enum Purge {
    None,
    Rest,
    Asked,
}

impl PurgeState {
    /// True while a purge is under way.
    #[inline]
    pub(crate) fn is_on(&self) -> bool {
        self.purge.load(Relaxed) != Purge::None as u8
    }

    /// MEMORY PURGE.
    pub(crate) fn ask(&self) {
        self.victims.store(0, Relaxed);
        self.purge.store(Purge::Asked as u8, Relaxed);
    }

    /// A rest begins one, if none is under way.
    pub(crate) fn begin_rest(&self) {
        self.victims.store(0, Relaxed);
        _ = self.purge.compare_exchange(Purge::None as u8, Purge::Rest as u8, Relaxed, Relaxed);
    }

    /// The rest is over, and its purge with it.
    pub(crate) fn end_rest(&self) {
        _ = self.purge.compare_exchange(Purge::Rest as u8, Purge::None as u8, Relaxed, Relaxed);
    }

    /// A victim was drained: `kept` are the bytes in use less all that clients have ever written, which drains alone make
    /// less. The purge ends if as many victims as there are segments have not freed `least` bytes: their copies lose as much
    /// again. Fewer say nothing, for the victims with the most dead do not come first.
    pub(crate) fn count_victim(&self, kept: i64, segments: u32, least: i64) {
        match self.victims.fetch_add(1, Relaxed) {
            0 => self.kept.store(kept, Relaxed),
            // Of groups whose victims end at once, one looks at what they have freed.
            before if before >= segments => {
                let judges = self.victims.compare_exchange(before + 1, 1, Relaxed, Relaxed).is_ok();
                if judges && kept > self.kept.swap(kept, Relaxed) - least {
                    self.end();
                }
            }
            _ => {}
        }
    }

    /// Nothing is left to purge.
    pub(crate) fn end(&self) {
        self.purge.store(Purge::None as u8, Relaxed);
    }
}

impl Reclaimer {
    /// For this number of groups of workers.
    pub(crate) fn new(groups: usize) -> Reclaimer {
        assert!(groups > 0, "there is a worker");
        Reclaimer {
            drains: (0..groups).map(|_| RankedMutex::new(Rank::Drain, None)).collect(),
            under_way: SharedU32::new(0),
            victims: RankedMutex::new(Rank::Victims, Victims::default()),
            settings: Settings::new(),
            cost: CostCounters::default(),
            meter: DefragMeter::default(),
            cooling: PageCacheDecay::default(),
            purge: PurgeState::default(),
            rest: Rest::default(),
            owed: SharedBool::new(false),
            looked_ms: SharedI64::new(0),
        }
    }

    /// True for one worker of all, once in `every_ms`: that one looks at the figures that the background decides by.
    pub(crate) fn is_time_to_look(&self, now_ms: i64, every_ms: i64) -> bool {
        let last = self.looked_ms.load(Relaxed);
        now_ms.abs_diff(last) >= every_ms as u64
            && self.looked_ms.compare_exchange(last, now_ms, Relaxed, Relaxed).is_ok()
    }

    /// The drain of a worker's group.
    pub(crate) fn drain_of(&self, worker: usize) -> &RankedMutex<Option<Drain>> {
        &self.drains[worker % self.drains.len()]
    }

    /// Those of all groups.
    pub(crate) fn drains(&self) -> impl Iterator<Item = &RankedMutex<Option<Drain>>> {
        self.drains.iter()
    }

    /// True while a segment is being drained, by whichever group.
    pub(crate) fn is_draining(&self) -> bool {
        self.under_way.load(Relaxed) > 0
    }

    /// Counts a segment that is being drained from now on; the lock of its drain is held.
    pub(crate) fn begun(&self) {
        self.under_way.fetch_add(1, Relaxed);
    }

    /// Counts a segment whose drain has ended; the lock of its drain is held.
    pub(crate) fn ended(&self) {
        let before = self.under_way.fetch_sub(1, Relaxed);
        debug_assert!(before > 0, "a drain that ends has begun");
    }

    /// Gives the drains up; under the gate alone, before the log is cleared.
    pub(crate) fn reset(&self, log: &Log) {
        for drain in &self.drains {
            if let Some(drain) = drain.lock().take() {
                log.abandon(drain);
                self.ended();
            }
        }
        let mut victims = self.victims.lock();
        victims.seen.clear();
        victims.left.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::PurgeState;

    /// A rest that had come to the end of its purge left a mark, by which the next write ended MEMORY PURGE.
    #[test]
    fn issue_11_a_write_ends_the_purge_of_a_rest_and_no_other() {
        let purge = PurgeState::default();
        purge.begin_rest();
        assert!(purge.is_on());
        purge.end();
        purge.ask();
        purge.end_rest();
        assert!(purge.is_on(), "nobody writes the end of a purge that was asked for");
        purge.begin_rest();
        purge.end_rest();
        assert!(purge.is_on(), "nor does a rest make it its own");
        purge.end();
        purge.begin_rest();
        purge.end_rest();
        assert!(!purge.is_on());
    }
}
