//! A collection of the keys that cost most: what was asked for, since when, and the sums of all commands meanwhile. One at a time.

use std::time::{Duration, Instant};

use varve_base::shared::SharedMutex;

/// By what keys are ranked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Metrics {
    /// Time of commands.
    pub(crate) cpu: bool,
    /// Bytes of requests and replies.
    pub(crate) net: bool,
}

/// A collection, as START asked for it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Collection {
    pub(crate) metrics: Metrics,
    /// Keys of a ranking.
    pub(crate) count: usize,
    /// Commands of which one is sampled.
    pub(crate) ratio: u32,
    /// It ends by itself after this time.
    pub(crate) lasts: Option<Duration>,
    pub(crate) began_unix_ms: i64,
    /// The sums as they were when it began.
    before: Sums,
}

impl Collection {
    /// Of each command, until it is ended.
    pub(crate) fn new(metrics: Metrics, count: usize, began_unix_ms: i64, before: Sums) -> Collection {
        Collection { metrics, count, ratio: 1, lasts: None, began_unix_ms, before }
    }
}

/// Sums over all commands since the start of the server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sums {
    /// Time of commands, microseconds.
    pub(crate) command_us: u64,
    /// Bytes read and written.
    pub(crate) net_bytes: u64,
    /// CPU of the process, microseconds.
    pub(crate) user_us: u64,
    pub(crate) system_us: u64,
}

impl Sums {
    /// The growth since `before`; counters may have been set to zero meanwhile.
    fn since(self, before: Sums) -> Sums {
        Sums {
            command_us: self.command_us.saturating_sub(before.command_us),
            net_bytes: self.net_bytes.saturating_sub(before.net_bytes),
            user_us: self.user_us.saturating_sub(before.user_us),
            system_us: self.system_us.saturating_sub(before.system_us),
        }
    }
}

/// A collection as GET tells it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Report {
    pub(crate) collection: Collection,
    pub(crate) is_active: bool,
    pub(crate) lasted: Duration,
    /// Of all commands meanwhile.
    pub(crate) sums: Sums,
}

/// The collection of the server, if there is one.
#[derive(Debug, Default)]
pub(crate) struct Collecting(SharedMutex<Option<Kept>>);

#[derive(Clone, Copy, Debug)]
struct Kept {
    collection: Collection,
    began: Instant,
    /// When it ended, and the sums then.
    ended: Option<(Instant, Sums)>,
}

impl Collecting {
    /// Begins a collection in place of one that has ended; false if one is under way.
    pub(crate) fn begin(&self, collection: Collection, now: Instant) -> bool {
        let mut kept = self.0.lock();
        if kept.is_some_and(|kept| kept.is_active(now)) {
            return false;
        }
        *kept = Some(Kept { collection, began: now, ended: None });
        true
    }

    /// Ends the collection; false if none is under way.
    pub(crate) fn end(&self, now: Instant, sums: Sums) -> bool {
        let mut kept = self.0.lock();
        let Some(kept) = kept.as_mut().filter(|kept| kept.ended.is_none()) else { return false };
        kept.ended = Some((now, sums));
        true
    }

    /// Ends the collection if its time is up; true if that has just happened.
    pub(crate) fn end_if_over(&self, now: Instant, sums: impl Fn() -> Sums) -> bool {
        let mut kept = self.0.lock();
        let Some(kept) = kept.as_mut().filter(|kept| kept.ended.is_none() && !kept.is_active(now)) else {
            return false;
        };
        kept.ended = Some((now, sums()));
        true
    }

    /// Forgets the collection; false if it is under way.
    pub(crate) fn forget(&self) -> bool {
        let mut kept = self.0.lock();
        if kept.is_some_and(|kept| kept.ended.is_none()) {
            return false;
        }
        *kept = None;
        true
    }

    /// The collection as it is now; None without one.
    pub(crate) fn report(&self, now: Instant, sums: impl Fn() -> Sums) -> Option<Report> {
        let kept = (*self.0.lock())?;
        let (end, at_end) = kept.ended.unwrap_or_else(|| (now, sums()));
        let lasted = end.saturating_duration_since(kept.began);
        let lasted = kept.collection.lasts.map_or(lasted, |lasts| lasted.min(lasts));
        let sums = at_end.since(kept.collection.before);
        Some(Report { collection: kept.collection, is_active: kept.ended.is_none(), lasted, sums })
    }
}

impl Kept {
    /// True while it collects: it was not ended, and its time is not up.
    fn is_active(&self, now: Instant) -> bool {
        let over = |lasts: Duration| now.saturating_duration_since(self.began) >= lasts;
        self.ended.is_none() && !self.collection.lasts.is_some_and(over)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn collection(seconds: Option<u64>) -> Collection {
        let sums = Sums { command_us: 10, ..Sums::default() };
        let lasts = seconds.map(Duration::from_secs);
        Collection { lasts, ..Collection::new(Metrics { cpu: true, net: false }, 10, 0, sums) }
    }

    #[test]
    fn one_collection_at_a_time() {
        let (collecting, now) = (Collecting::default(), Instant::now());
        assert!(collecting.report(now, Sums::default).is_none());
        assert!(!collecting.end(now, Sums::default()) && collecting.forget());
        assert!(collecting.begin(collection(None), now));
        assert!(!collecting.begin(collection(None), now), "one is under way");
        assert!(!collecting.forget(), "it is to be ended first");
        let later = now + Duration::from_secs(9);
        assert!(collecting.end(later, Sums { command_us: 25, ..Sums::default() }));
        let report = collecting.report(later + Duration::from_secs(9), Sums::default).expect("it is kept");
        assert!(!report.is_active);
        assert_eq!((report.lasted.as_secs(), report.sums.command_us), (9, 15));
        assert!(collecting.begin(collection(None), later), "in place of the one that has ended");
    }

    #[test]
    fn a_collection_ends_by_itself() {
        let (collecting, now) = (Collecting::default(), Instant::now());
        assert!(collecting.begin(collection(Some(5)), now));
        assert!(!collecting.end_if_over(now + Duration::from_secs(4), Sums::default));
        let late = now + Duration::from_secs(60);
        assert!(collecting.end_if_over(late, Sums::default) && !collecting.end_if_over(late, Sums::default));
        assert_eq!(collecting.report(late, Sums::default).expect("it is kept").lasted.as_secs(), 5);
    }
}
