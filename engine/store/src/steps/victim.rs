//! Which segment is drained next: the paper's formula (1), its stability estimated from objects.
//!
//! ```text
//!   benefit   (1 - u)   Original: Lifetime
//!   ------- = ------- * Greedy:   1                u         live bytes over used bytes; where the drain evicts, less
//!    cost        u      Modified: sqrt(Lifetime)             the share of objects beyond the cutoff
//! ```
//! **Lifetime**, in seconds, is the mean over up to 64 objects at the front of the segment, seen when a victim is chosen:
//! of the time to expiry where they expire, under LRU policies of the time until they would be evicted if nobody used
//! them. Segments of neither kind, and those that no object was seen of yet, count the time since they were sealed: what
//! has lived long will live long. The log offers some segments of each share of live bytes, and of these only the few that
//! lead by what is known are looked into: so a choice costs some ten microseconds, once a segment, however many segments
//! there are.
//!
//! The cost of victims is counted by the paper's formula (2): the sum of u over all victims.

use varve_segment::{Drain, LogGeometry, ObjectHead, Owner, SegmentInfo, SegmentState};

use super::evict;
use crate::keyspace::store::Store;
use crate::keyspace::worker::WorkerState;
use crate::state::candidates::Cutoff;
use crate::state::clock::idle_s;
use crate::state::key::hash_of;
use crate::state::policy::Measure;
use crate::state::reclaim::LeftVictims;
use crate::state::victims::{Estimate, Formula, Seen};

/// Objects looked at of a segment.
const OBJECTS: usize = 64;
/// Of the live objects of a small segment, at most one in this number is looked at.
const OBJECTS_PART: u64 = 16;
/// Segments looked into at one choice.
const LEADERS: usize = 4;
/// How long what was seen of a segment holds, ms: the resolution of clocks.
const FRESH_MS: i64 = 1000;
/// The share of a segment that a drain which evicts is expected to drop, where the segment was not looked into.
const BEYOND_USUAL: f64 = 0.15;

/// The formula over what is known.
struct Judge<'a> {
    formula: Formula,
    seen: &'a Seen,
    /// Mean seconds from one seal to the next.
    seal_s: f64,
    evicting: bool,
}

impl varve_segment::VictimPolicy for Judge<'_> {
    fn score(&self, segment: &SegmentInfo) -> f64 {
        let seen = self.seen.of(segment);
        let beyond = if self.evicting { seen.map_or(BEYOND_USUAL, |seen| seen.beyond) } else { 0.0 };
        let live = segment.live_bytes as f64 / segment.used.max(1) as f64;
        let u = (live * (1.0 - beyond)).clamp(1e-9, 1.0);
        let since_sealed = || (segment.age as f64 + 1.0) * self.seal_s;
        let lifetime_s = seen.and_then(|seen| seen.lifetime_s).unwrap_or_else(since_sealed);
        (1.0 - u) / u * self.formula.weigh(lifetime_s.max(1e-3))
    }
}

/// Chooses a victim; with a cutoff, for a drain that evicts what is beyond it.
pub(crate) fn choose(
    store: &Store,
    worker: &mut WorkerState,
    seen: &mut Seen,
    left: &LeftVictims,
    cutoff: Option<&Cutoff>,
) -> Option<Drain> {
    let segments = store.log().candidates();
    let seals = store.log().seals();
    if seen.began_ms == 0 {
        seen.began_ms = worker.now_ms();
    }
    let seal_s = (worker.now_ms() - seen.began_ms).max(1) as f64 / 1000.0 / seals.max(1) as f64;
    let formula = store.reclaimer().settings.formula();
    let is_worth = worth(store, formula, cutoff.is_some());
    let worth = |info: &SegmentInfo| !left.contains(info.segment) && is_worth(info);
    if formula != Formula::Greedy || cutoff.is_some() {
        let judge = Judge { formula, seen, seal_s, evicting: cutoff.is_some() };
        let mut scored: Vec<(f64, SegmentInfo)> = segments
            .iter()
            .filter(|info| info.state == SegmentState::Sealed && info.live_objects > 0 && worth(info))
            .map(|info| (varve_segment::VictimPolicy::score(&judge, info), *info))
            .collect();
        let leaders = LEADERS.min(scored.len());
        if leaders < scored.len() {
            scored.select_nth_unstable_by(leaders, |a, b| b.0.total_cmp(&a.0));
        }
        for (_, info) in &scored[..leaders] {
            let fresh = seen.of(info).is_some_and(|known| worker.now_ms() - known.at_ms < FRESH_MS);
            if !fresh {
                let estimate = look_into(store, worker, info, cutoff);
                seen.segments.insert(info.segment, estimate);
            }
        }
    }
    let judge = Judge { formula, seen, seal_s, evicting: cutoff.is_some() };
    let drain = store.log().choose_victim_by(&judge, worth)?;
    seen.segments.remove(&drain.chosen().segment);
    store.reclaimer().cost.count(drain.chosen());
    Some(drain)
}

/// Looks at some objects of a segment.
fn look_into(store: &Store, worker: &mut WorkerState, info: &SegmentInfo, cutoff: Option<&Cutoff>) -> Estimate {
    let wanted = OBJECTS.min((info.live_objects / OBJECTS_PART) as usize + 1);
    let measure = store.limit().policy().measure();
    let (mut looked, mut beyond) = (0, 0);
    let (mut known, mut sum_s) = (0, 0.0);
    store.log().peek(info.segment, wanted, |head: &ObjectHead<'_>| {
        let Owner::Database(db) = head.owner else { return };
        let hash = hash_of(store.seed(), db, head.key);
        let Some(shard) = store.cells()[store.shard_of(hash)].lock.try_lock() else { return };
        if shard.index().find_ref(hash, head.r).is_none() {
            return;
        }
        let object = shard.open(store.log(), head.r);
        looked += 1;
        beyond += usize::from(cutoff.is_some_and(|cutoff| evict::is_beyond(store, cutoff, &object, worker)));
        let until_evicted = || {
            let oldest_s = cutoff.filter(|_| measure == Measure::Idle)?.score;
            Some((oldest_s as f64 - f64::from(idle_s(object.clock(), worker.now_ms()))).abs())
        };
        let until_due = object.expiry_ms().map(|t| (t - worker.now_ms()).unsigned_abs() as f64 / 1000.0);
        if let Some(s) = until_due.or_else(until_evicted) {
            known += 1;
            sum_s += s;
        }
    });
    Estimate {
        sealed: info.sealed,
        at_ms: worker.now_ms(),
        lifetime_s: (known * 2 > looked).then(|| sum_s / f64::from(known)),
        beyond: if looked == 0 { BEYOND_USUAL } else { f64::from(beyond as u32) / f64::from(looked) },
    }
}

/// Which segments may be drained. A stable one that is nearly full would be copied for next to nothing: what is less
/// than half as dead as the average waits, but under the formula that the paper wrote first. For MEMORY PURGE and the purge of a
/// store at rest, one must be more dead than packing may leave it again: values of 1975 bytes leave 2.8% of each piece, and a store
/// of them was copied round and round for as long as nobody wrote.
fn worth(store: &Store, formula: Formula, evicting: bool) -> impl Fn(&SegmentInfo) -> bool + use<> {
    let (live, extents) = store.log().unreclaimable_bytes();
    let used = store.log().used_bytes().saturating_sub(extents);
    let live = live - extents;
    let half_dead = (used - live.min(used)) as f64 / used.max(1) as f64 / 2.0;
    let packing = if store.reclaimer().purge.is_on() { 1.0 / LogGeometry::LOST_PART as f64 } else { 0.0 };
    move |info| {
        if evicting {
            return info.used > 0;
        }
        let dead = info.used.saturating_sub(info.live_bytes);
        let share = dead as f64 / info.used.max(1) as f64;
        share > packing && (formula == Formula::Original || share >= half_dead)
    }
}
