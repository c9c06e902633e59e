//! Figures of active defragmentation in Redis's terms, and of the process as the server reports them: for
//! INFO, MEMORY STATS and MEMORY DOCTOR.
//!
//! ```text
//!   dead over live at the threshold: on (since) ----------> below it, or switched off: total += now - since
//!                                     background slices: objects moved, objects found dead
//! ```
//! Defragmentation is what the background's reclaim does while `activedefrag` has it run; drains that writers need for
//! room do not count. Not here: the thresholds (`victim.rs`).

use std::sync::atomic::{AtomicI64, AtomicU32, AtomicU64, Ordering::Relaxed};

use varve_segment::Owner;

/// The work of active defragmentation since the start or the last [`crate::Store::reset_measures`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Defragged {
    /// The share of its time, in percent, that the background may spend on it now; 0 if it has nothing to do.
    pub running_percent: u32,
    /// Objects moved, and those of them that are keys.
    pub moved: u64,
    /// See `moved`.
    pub moved_keys: u64,
    /// Objects that turned out to be dead when they were about to move, and those of them that were keys.
    pub missed: u64,
    /// See `missed`.
    pub missed_keys: u64,
    /// How long there has been something to do, in ms: in all, and since it was last the case (0 if it is not).
    pub total_ms: u64,
    /// See `total_ms`.
    pub current_ms: u64,
}

/// The tally of a slice of a drain.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tally {
    moved: u64,
    moved_keys: u64,
    missed: u64,
    missed_keys: u64,
}

impl Tally {
    pub(crate) fn count(&mut self, owner: Owner, moved: bool) {
        let key = u64::from(matches!(owner, Owner::Database(_)));
        if moved {
            (self.moved, self.moved_keys) = (self.moved + 1, self.moved_keys + key);
        } else {
            (self.missed, self.missed_keys) = (self.missed + 1, self.missed_keys + key);
        }
    }
}

/// See the module's text.
#[derive(Debug, Default)]
pub(crate) struct DefragMeter {
    /// When it became active, ms of Unix time; 0 while it is not.
    since_ms: AtomicI64,
    percent: AtomicU32,
    total_ms: AtomicU64,
    moved: AtomicU64,
    moved_keys: AtomicU64,
    missed: AtomicU64,
    missed_keys: AtomicU64,
}

impl DefragMeter {
    /// The background may spend so much of its time on defragmentation from now on, 0 for none.
    pub(crate) fn follow(&self, percent: u32, now_ms: i64) {
        self.percent.store(percent, Relaxed);
        let since = self.since_ms.load(Relaxed);
        let next = if percent > 0 { now_ms } else { 0 };
        if (since == 0) == (next == 0) {
            return;
        }
        // Of several workers that see the change one counts it.
        if self.since_ms.compare_exchange(since, next, Relaxed, Relaxed).is_ok() && since != 0 {
            self.total_ms.fetch_add(now_ms.saturating_sub(since).max(0) as u64, Relaxed);
        }
    }

    pub(crate) fn is_active(&self) -> bool {
        self.since_ms.load(Relaxed) != 0
    }

    pub(crate) fn add(&self, tally: &Tally) {
        let pairs = [
            (&self.moved, tally.moved),
            (&self.moved_keys, tally.moved_keys),
            (&self.missed, tally.missed),
            (&self.missed_keys, tally.missed_keys),
        ];
        for (counter, count) in pairs.into_iter().filter(|pair| pair.1 > 0) {
            counter.fetch_add(count, Relaxed);
        }
    }

    pub(crate) fn read(&self, now_ms: i64) -> Defragged {
        let since = self.since_ms.load(Relaxed);
        let current_ms = if since == 0 { 0 } else { now_ms.saturating_sub(since).max(0) as u64 };
        Defragged {
            running_percent: if since == 0 { 0 } else { self.percent.load(Relaxed) },
            moved: self.moved.load(Relaxed),
            moved_keys: self.moved_keys.load(Relaxed),
            missed: self.missed.load(Relaxed),
            missed_keys: self.missed_keys.load(Relaxed),
            total_ms: self.total_ms.load(Relaxed) + current_ms,
            current_ms,
        }
    }

    pub(crate) fn reset(&self) {
        [&self.total_ms, &self.moved, &self.moved_keys, &self.missed, &self.missed_keys]
            .into_iter()
            .for_each(|counter| counter.store(0, Relaxed));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn active_time_adds_up_over_its_stretches() {
        let meter = DefragMeter::default();
        meter.follow(0, 100);
        assert_eq!(meter.read(200), Defragged::default());
        meter.follow(25, 1000);
        meter.follow(10, 1300);
        assert_eq!((meter.read(1500).total_ms, meter.read(1500).current_ms), (500, 500));
        assert_eq!(meter.read(1500).running_percent, 10);
        meter.follow(0, 2000);
        meter.follow(0, 2500);
        meter.follow(5, 3000);
        let read = meter.read(3100);
        assert_eq!((read.total_ms, read.current_ms, read.running_percent), (1100, 100, 5));
    }

    #[test]
    fn keys_are_counted_among_the_objects() {
        let (meter, mut tally) = (DefragMeter::default(), Tally::default());
        tally.count(Owner::Database(1), true);
        tally.count(Owner::Collection(1), true);
        tally.count(Owner::Collection(1), false);
        meter.add(&tally);
        meter.add(&tally);
        let read = meter.read(0);
        assert_eq!((read.moved, read.moved_keys, read.missed, read.missed_keys), (4, 2, 2, 0));
        meter.reset();
        assert_eq!(meter.read(0), Defragged::default());
    }
}
