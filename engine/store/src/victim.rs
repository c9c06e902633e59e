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
//! has lived long will live long. Only the few segments that lead by what is known are looked into, so a choice costs
//! some ten microseconds, once a segment.
//!
//! What a victim costs is counted as the paper's formula (2) has it: the sum of u over all victims.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering::Relaxed};

use varve_segment::{Drain, Head, Owner, SegmentInfo, State};

use crate::evict::Cutoff;
use crate::key::hash_of;
use crate::meter::Defragged;
use crate::policy::{Measure, idle_s};
use crate::store::Store;
use crate::worker::Local;

/// Objects looked at of a segment.
const OBJECTS: usize = 64;
/// Of the live objects of a small segment, at most one in so many is looked at.
const OBJECTS_PART: u64 = 16;
/// Segments looked into at one choice.
const LEADERS: usize = 4;
/// How long what was seen of a segment holds, ms: the resolution of clocks.
const FRESH_MS: i64 = 1000;
/// What a drain that evicts is taken to drop of a segment that was not looked into.
const BEYOND_USUAL: f64 = 0.15;

/// How the stability of a segment weighs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[repr(u8)]
pub enum Formula {
    /// As it is.
    Original = 0,
    /// Not at all.
    Greedy = 1,
    /// By its square root.
    #[default]
    Modified = 2,
}

impl Formula {
    /// All of them, by number.
    pub const ALL: [Formula; 3] = [Formula::Original, Formula::Greedy, Formula::Modified];

    /// Its name in the configuration.
    pub fn name(self) -> &'static str {
        match self {
            Formula::Original => "original",
            Formula::Greedy => "greedy",
            Formula::Modified => "modified",
        }
    }

    /// The formula of this name.
    pub fn named(name: &str) -> Option<Formula> {
        Formula::ALL.into_iter().find(|formula| formula.name() == name)
    }

    fn weigh(self, lifetime_s: f64) -> f64 {
        match self {
            Formula::Original => lifetime_s,
            Formula::Greedy => 1.0,
            Formula::Modified => lifetime_s.sqrt(),
        }
    }
}

/// When and how eagerly the background reclaims beyond what it does by itself: Redis's `active-defrag-*`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Defrag {
    /// Dead bytes below which nothing is done.
    pub ignore_bytes: u64,
    /// Dead bytes in percent of live ones at which it begins, and at which it does its utmost.
    pub lower_percent: u32,
    pub(crate) upper_percent: u32,
    cycle_min: u32,
    cycle_max: u32,
}

impl Defrag {
    /// Percentages of dead over live bytes (`lower` to `upper`), and of the time that may be spent on it at either.
    pub fn new(ignore_bytes: u64, lower_percent: u32, upper_percent: u32, cycle_min: u32, cycle_max: u32) -> Defrag {
        Defrag { ignore_bytes, lower_percent, upper_percent, cycle_min, cycle_max }
    }

    /// The share of its time, in percent, that the background spends with so many dead and live bytes; 0 for none.
    pub(crate) fn cycle(&self, dead: u64, live: u64) -> u32 {
        let percent = dead * 100 / live.max(1);
        if dead < self.ignore_bytes || percent < u64::from(self.lower_percent) {
            return 0;
        }
        let range = self.upper_percent.saturating_sub(self.lower_percent).max(1);
        let over = ((percent - u64::from(self.lower_percent)).min(range.into())) as u32;
        self.cycle_min + self.cycle_max.saturating_sub(self.cycle_min) * over / range
    }
}

/// Settings, changed while workers run.
#[derive(Default)]
pub(crate) struct Settings {
    formula: AtomicU8,
    defrag_on: AtomicU8,
    ignore_bytes: AtomicU64,
    lower: AtomicU32,
    upper: AtomicU32,
    cycle_min: AtomicU32,
    cycle_max: AtomicU32,
}

impl Settings {
    pub(crate) fn new() -> Settings {
        let settings = Settings::default();
        settings.formula.store(Formula::default() as u8, Relaxed);
        settings
    }

    pub(crate) fn formula(&self) -> Formula {
        Formula::ALL[usize::from(self.formula.load(Relaxed))]
    }

    pub(crate) fn set(&self, formula: Formula, defrag: Option<Defrag>) {
        self.formula.store(formula as u8, Relaxed);
        if let Some(defrag) = defrag {
            self.ignore_bytes.store(defrag.ignore_bytes, Relaxed);
            self.lower.store(defrag.lower_percent, Relaxed);
            self.upper.store(defrag.upper_percent, Relaxed);
            self.cycle_min.store(defrag.cycle_min, Relaxed);
            self.cycle_max.store(defrag.cycle_max, Relaxed);
        }
        self.defrag_on.store(u8::from(defrag.is_some()), Relaxed);
    }

    pub(crate) fn defrag(&self) -> Option<Defrag> {
        (self.defrag_on.load(Relaxed) != 0).then(|| Defrag {
            ignore_bytes: self.ignore_bytes.load(Relaxed),
            lower_percent: self.lower.load(Relaxed),
            upper_percent: self.upper.load(Relaxed),
            cycle_min: self.cycle_min.load(Relaxed),
            cycle_max: self.cycle_max.load(Relaxed),
        })
    }
}

/// What reclaim has cost so far.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ReclaimCost {
    /// Segments chosen.
    pub victims: u64,
    /// The paper's ReclaimCost: the sum over them of live over used bytes at the choice.
    pub cost: f64,
    /// Live bytes that they had: what was copied, but for what died or was evicted meanwhile.
    pub live_bytes: u64,
}

#[derive(Default)]
pub(crate) struct CostCounters {
    victims: AtomicU64,
    /// Millionths.
    cost: AtomicU64,
    live_bytes: AtomicU64,
}

impl CostCounters {
    fn count(&self, chosen: &SegmentInfo) {
        self.victims.fetch_add(1, Relaxed);
        self.cost.fetch_add(chosen.live_bytes.saturating_mul(1_000_000) / chosen.used.max(1), Relaxed);
        self.live_bytes.fetch_add(chosen.live_bytes, Relaxed);
    }

    pub(crate) fn read(&self) -> ReclaimCost {
        ReclaimCost {
            victims: self.victims.load(Relaxed),
            cost: self.cost.load(Relaxed) as f64 / 1e6,
            live_bytes: self.live_bytes.load(Relaxed),
        }
    }

    pub(crate) fn reset(&self) {
        [&self.victims, &self.cost, &self.live_bytes].into_iter().for_each(|counter| counter.store(0, Relaxed));
    }
}

/// What is known of segments, beside the drain and under its lock.
#[derive(Default)]
pub(crate) struct Seen {
    segments: HashMap<u32, Estimate>,
    /// When the first victim was chosen, ms of Unix time.
    began_ms: i64,
}

/// What was seen of one segment. It holds only while the segment is the same, told by when it was sealed.
#[derive(Clone, Copy, Debug)]
struct Estimate {
    sealed: u64,
    at_ms: i64,
    /// None if the objects had neither expiry nor a clock that tells of idle time.
    lifetime_s: Option<f64>,
    /// Part of the objects that are beyond the cutoff.
    beyond: f64,
}

impl Seen {
    pub(crate) fn clear(&mut self) {
        self.segments.clear();
    }

    fn of(&self, info: &SegmentInfo) -> Option<&Estimate> {
        self.segments.get(&info.segment).filter(|seen| seen.sealed == info.sealed)
    }
}

/// The formula over what is known.
struct Judge<'a> {
    formula: Formula,
    seen: &'a Seen,
    /// Mean seconds from one seal to the next.
    seal_s: f64,
    evicting: bool,
}

impl varve_segment::Policy for Judge<'_> {
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

impl Store {
    /// Chooses a victim; with a cutoff, for a drain that evicts what is beyond it.
    pub(crate) fn choose(&self, local: &mut Local, seen: &mut Seen, cutoff: Option<&Cutoff>) -> Option<Drain> {
        let segments = self.log.segments();
        let seals = self.log.seals();
        if seen.began_ms == 0 {
            seen.began_ms = local.now_ms;
        }
        let seal_s = (local.now_ms - seen.began_ms).max(1) as f64 / 1000.0 / seals.max(1) as f64;
        let formula = self.reclaim.settings.formula();
        let worth = worth(formula, &segments, cutoff.is_some());
        if formula != Formula::Greedy || cutoff.is_some() {
            let judge = Judge { formula, seen, seal_s, evicting: cutoff.is_some() };
            let mut scored: Vec<(f64, SegmentInfo)> = segments
                .iter()
                .filter(|info| info.state == State::Sealed && info.live_objects > 0 && worth(info))
                .map(|info| (varve_segment::Policy::score(&judge, info), *info))
                .collect();
            let leaders = LEADERS.min(scored.len());
            if leaders < scored.len() {
                scored.select_nth_unstable_by(leaders, |a, b| b.0.total_cmp(&a.0));
            }
            for (_, info) in &scored[..leaders] {
                let fresh = seen.of(info).is_some_and(|known| local.now_ms - known.at_ms < FRESH_MS);
                if !fresh {
                    let estimate = self.look_into(local, info, cutoff);
                    seen.segments.insert(info.segment, estimate);
                }
            }
        }
        let judge = Judge { formula, seen, seal_s, evicting: cutoff.is_some() };
        let drain = self.log.choose_victim_by(&judge, worth)?;
        seen.segments.remove(&drain.chosen().segment);
        self.reclaim.cost.count(drain.chosen());
        Some(drain)
    }

    /// Looks at some objects of a segment.
    fn look_into(&self, local: &mut Local, info: &SegmentInfo, cutoff: Option<&Cutoff>) -> Estimate {
        let wanted = OBJECTS.min((info.live_objects / OBJECTS_PART) as usize + 1);
        let measure = self.limit.policy().measure();
        let (mut looked, mut beyond) = (0, 0);
        let (mut known, mut sum_s) = (0, 0.0);
        self.log.peek(info.segment, wanted, |head: &Head<'_>| {
            let Owner::Database(db) = head.owner else { return };
            let hash = hash_of(self.seed, db, head.key);
            let Some(shard) = self.shards[self.shard_of(hash)].lock.try_lock() else { return };
            if shard.index.find_ref(hash, head.r).is_none() {
                return;
            }
            let object = shard.access.open(&self.log, head.r);
            looked += 1;
            beyond += usize::from(cutoff.is_some_and(|cutoff| self.is_beyond(cutoff, &object, local)));
            let until_evicted = || {
                let oldest_s = cutoff.filter(|_| measure == Measure::Idle)?.score;
                Some((oldest_s as f64 - f64::from(idle_s(object.clock(), local.now_ms))).abs())
            };
            let until_due = object.expiry_ms().map(|t| (t - local.now_ms).unsigned_abs() as f64 / 1000.0);
            if let Some(s) = until_due.or_else(until_evicted) {
                known += 1;
                sum_s += s;
            }
        });
        Estimate {
            sealed: info.sealed,
            at_ms: local.now_ms,
            lifetime_s: (known * 2 > looked).then(|| sum_s / f64::from(known)),
            beyond: if looked == 0 { BEYOND_USUAL } else { f64::from(beyond as u32) / f64::from(looked) },
        }
    }

    /// The share of its time, in percent, that active defragmentation has the background spend; 0 without it.
    pub(crate) fn defrag_cycle(&self, dead: u64, live: u64) -> u32 {
        self.reclaim.settings.defrag().map_or(0, |defrag| defrag.cycle(dead, live))
    }

    /// What active defragmentation has come to.
    pub fn defragged(&self, now_ms: i64) -> Defragged {
        self.reclaim.meter.read(now_ms)
    }

    /// Sets how victims are chosen, and whether the background reclaims earlier than by itself.
    pub fn set_reclaim(&self, formula: Formula, defrag: Option<Defrag>) {
        self.reclaim.settings.set(formula, defrag);
    }

    /// What reclaim has cost since the start or the last [`Store::reset_measures`].
    pub fn reclaim_cost(&self) -> ReclaimCost {
        self.reclaim.cost.read()
    }
}

/// Which segments may be drained. A stable one that is nearly full would be copied for next to nothing: what is less
/// than half as dead as the average waits, but under the formula that the paper wrote first.
fn worth(formula: Formula, segments: &[SegmentInfo], evicting: bool) -> impl Fn(&SegmentInfo) -> bool + use<> {
    let sealed = segments.iter().filter(|info| matches!(info.state, State::Sealed | State::Open));
    let (used, live) = sealed.fold((0, 0), |(used, live), info| (used + info.used, live + info.live_bytes));
    let half_dead = (used - live.min(used)) as f64 / used.max(1) as f64 / 2.0;
    move |info| {
        if evicting {
            return info.used > 0;
        }
        let dead = info.used.saturating_sub(info.live_bytes);
        dead > 0 && (formula == Formula::Original || dead as f64 >= info.used as f64 * half_dead)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formulas_are_found_by_number_and_name() {
        for (at, formula) in Formula::ALL.into_iter().enumerate() {
            assert_eq!((formula as usize, Formula::named(formula.name())), (at, Some(formula)));
        }
        assert_eq!(Settings::new().formula(), Formula::Modified);
    }

    #[test]
    fn defragmentation_grows_with_what_is_dead() {
        let defrag = Defrag::new(1000, 10, 100, 1, 25);
        assert_eq!(defrag.cycle(900, 1000), 0, "ignored");
        assert_eq!(defrag.cycle(1000, 20_000), 0, "below the lower threshold");
        assert_eq!(defrag.cycle(1000, 10_000), 1);
        assert_eq!(defrag.cycle(5500, 10_000), 13);
        assert_eq!(defrag.cycle(90_000, 10_000), 25);
        let settings = Settings::new();
        assert_eq!(settings.defrag(), None);
        settings.set(Formula::Greedy, Some(defrag));
        assert_eq!((settings.formula(), settings.defrag()), (Formula::Greedy, Some(defrag)));
    }
}
