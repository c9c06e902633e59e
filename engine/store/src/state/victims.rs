//! Plain data of the choice of victims: the formula and its settings, what reclaim has cost, and estimates of segments.
//!
//! Not here: the choice itself (`steps/victim.rs`).

use std::collections::HashMap;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering::Relaxed};

use varve_segment::SegmentInfo;

/// How the stability of a segment weighs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[repr(u8)]
pub enum Formula {
    /// The stability itself.
    Original = 0,
    /// The stability counts for nothing.
    Greedy = 1,
    /// The square root of the stability.
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

    pub(crate) fn weigh(self, lifetime_s: f64) -> f64 {
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
    pub(crate) cycle_min: u32,
    pub(crate) cycle_max: u32,
}

impl Defrag {
    /// Percentages of dead over live bytes (`lower` to `upper`), and of the time that may be spent on it at either.
    pub fn new(ignore_bytes: u64, lower_percent: u32, upper_percent: u32, cycle_min: u32, cycle_max: u32) -> Defrag {
        Defrag { ignore_bytes, lower_percent, upper_percent, cycle_min, cycle_max }
    }

    /// The share of its time, in percent, that the background spends at these numbers of dead and live bytes; 0 for
    /// none.
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
    pub(crate) formula: AtomicU8,
    pub(crate) defrag_on: AtomicU8,
    pub(crate) ignore_bytes: AtomicU64,
    pub(crate) lower: AtomicU32,
    pub(crate) upper: AtomicU32,
    pub(crate) cycle_min: AtomicU32,
    pub(crate) cycle_max: AtomicU32,
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

/// The cost of reclaim so far.
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
    pub(crate) victims: AtomicU64,
    /// Millionths.
    pub(crate) cost: AtomicU64,
    pub(crate) live_bytes: AtomicU64,
}

impl CostCounters {
    pub(crate) fn count(&self, chosen: &SegmentInfo) {
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

/// Estimates of segments, beside the drain and under its lock.
#[derive(Default)]
pub(crate) struct Seen {
    pub(crate) segments: HashMap<u32, Estimate>,
    /// When the first victim was chosen, ms of Unix time.
    pub(crate) began_ms: i64,
}

/// An estimate of one segment. It holds only while the segment is the same, which the time of its sealing shows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Estimate {
    pub(crate) sealed: u64,
    pub(crate) at_ms: i64,
    /// None if the objects had neither expiry nor a clock that holds the time of the last use.
    pub(crate) lifetime_s: Option<f64>,
    /// Part of the objects that are beyond the cutoff.
    pub(crate) beyond: f64,
}

impl Seen {
    pub(crate) fn clear(&mut self) {
        self.segments.clear();
    }

    pub(crate) fn of(&self, info: &SegmentInfo) -> Option<&Estimate> {
        self.segments.get(&info.segment).filter(|seen| seen.sealed == info.sealed)
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
