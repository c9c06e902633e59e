//! A histogram of durations that any thread may record into and any other may read: background slices, lock holds.
//!
//! Log-linear: each power of two is cut in 16 equal buckets, so a bucket is at most 1/16 (6.25%) as wide as its values.
//!
//! ```text
//!   value in ns        40          p+1  p  p-1    p-4            0       p = place of the highest set bit, 4 <= p < 40
//!                      ┌────────────┬───┬─────────┬──────────────┐
//!                      │     0      │ 1 │   sub   │   left out   │       bucket = 16 * (p - 3) + sub
//!                      └────────────┴───┴─────────┴──────────────┘       values below 16 have a bucket each
//! ```
//!
//! Values of 2^40 ns (18 minutes) and more are counted in the last bucket. 592 counters of 8 bytes: 4.7 KB.
//!
//! **Why not hdrhistogram**: its histogram needs `&mut` to record, and its shared recorder costs a lock
//! and a queue of pieces at each reading. Here a record is one relaxed `fetch_add` on a line that normally only its worker
//! touches (and a load for the greatest value), so each worker has one and INFO adds them up without asking anybody.
//!
//! Readings taken while others record are not one instant: counts may be a few behind each other, none is ever lost. The sum
//! is not kept: the mean is computed from the buckets, which is as exact as the percentiles are. No bucket is looked at behind
//! that of the greatest value: most durations are short, and a scrape of metrics reads hundreds of histograms.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

const SUB_BITS: u32 = 4;
const SUBS: usize = 1 << SUB_BITS;
const VALUE_BITS: u32 = 40;
const BUCKETS: usize = SUBS * (VALUE_BITS - SUB_BITS + 1) as usize;

const _: () = assert!(BUCKETS == 592);

/// The histogram that is recorded into. Never moves once shared.
pub struct Hist {
    buckets: Box<[AtomicU64; BUCKETS]>,
    max_ns: AtomicU64,
}

/// A reading of one or several histograms.
#[derive(Clone)]
pub struct Counts {
    buckets: Box<[u64; BUCKETS]>,
    max_ns: u64,
}

impl Hist {
    /// An empty histogram.
    pub fn new() -> Hist {
        Hist { buckets: Box::new([const { AtomicU64::new(0) }; BUCKETS]), max_ns: AtomicU64::new(0) }
    }

    /// Counts one duration in nanoseconds.
    #[inline]
    pub fn record_ns(&self, ns: u64) {
        self.buckets[bucket(ns)].fetch_add(1, Ordering::Relaxed);
        if ns > self.max_ns.load(Ordering::Relaxed) {
            self.max_ns.fetch_max(ns, Ordering::Relaxed);
        }
    }

    /// Counts `times` durations of `ns` nanoseconds each.
    #[inline]
    pub fn record_many_ns(&self, ns: u64, times: u64) {
        self.buckets[bucket(ns)].fetch_add(times, Ordering::Relaxed);
        if ns > self.max_ns.load(Ordering::Relaxed) {
            self.max_ns.fetch_max(ns, Ordering::Relaxed);
        }
    }

    /// Counts one duration.
    #[inline]
    pub fn record(&self, duration: Duration) {
        self.record_ns(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX));
    }

    /// A reading of all that was recorded up to about now.
    pub fn read(&self) -> Counts {
        let mut counts = Counts::default();
        self.read_into(&mut counts);
        counts
    }

    /// Adds what was recorded up to about now to `counts`: merges the workers' histograms.
    pub fn read_into(&self, counts: &mut Counts) {
        let max_ns = self.max_ns.load(Ordering::Relaxed);
        let used = ..bucket(max_ns) + 1;
        for (sum, cell) in counts.buckets[used].iter_mut().zip(&self.buckets[used]) {
            *sum += cell.load(Ordering::Relaxed);
        }
        counts.max_ns = counts.max_ns.max(max_ns);
    }

    /// Starts again from nothing. What others record meanwhile counts before or after, but once.
    pub fn reset(&self) {
        // The greatest value goes first: a bucket that is filled behind it and stays would not be looked at.
        self.max_ns.store(0, Ordering::Relaxed);
        for cell in self.buckets.iter() {
            cell.swap(0, Ordering::Relaxed);
        }
    }
}

impl Counts {
    /// The buckets up to that of the greatest duration: all others are 0.
    fn used(&self) -> &[u64] {
        &self.buckets[..bucket(self.max_ns) + 1]
    }

    /// Number of durations.
    pub fn count(&self) -> u64 {
        self.used().iter().sum()
    }

    /// The greatest duration in nanoseconds, exact; 0 if there is none.
    pub fn max_ns(&self) -> u64 {
        self.max_ns
    }

    /// The mean in nanoseconds, from the middles of the buckets; 0 if there is none.
    pub fn mean_ns(&self) -> f64 {
        let sum: f64 = self.used().iter().enumerate().map(|(i, &n)| middle(i) * n as f64).sum();
        sum / self.count().max(1) as f64
    }

    /// The least duration (in nanoseconds, rounded up to its bucket's end, at most the greatest) that at least `percent` of
    /// all durations do not exceed; 0 if there is none.
    ///
    /// # Panics
    /// If `percent` is not within 0 to 100.
    pub fn percentile_ns(&self, percent: f64) -> u64 {
        assert!((0.0..=100.0).contains(&percent), "{percent} is not a percentage");
        let count = self.count();
        if count == 0 {
            return 0;
        }
        let wanted = ((percent / 100.0 * count as f64).ceil() as u64).clamp(1, count);
        let mut seen = 0;
        for (i, &n) in self.used().iter().enumerate() {
            seen += n;
            if seen >= wanted {
                return if i == BUCKETS - 1 { self.max_ns } else { (first(i + 1) - 1).min(self.max_ns) };
            }
        }
        self.max_ns
    }

    /// Number of durations below `ns`, exact where that is a power of two (or another first value of a bucket), else of
    /// those below its bucket.
    pub fn below_ns(&self, ns: u64) -> u64 {
        self.used().iter().take(bucket(ns)).sum()
    }

    /// [`Counts::below_ns`] of several limits, which ascend, by one pass over the buckets.
    pub fn below_each_ns<const N: usize>(&self, limits_ns: [u64; N]) -> [u64; N] {
        debug_assert!(limits_ns.is_sorted(), "limits ascend");
        let (used, mut at, mut below) = (self.used(), 0, 0);
        limits_ns.map(|limit| {
            let to = bucket(limit).min(used.len());
            below += used[at..to].iter().sum::<u64>();
            at = to;
            below
        })
    }

    /// Adds another reading to this one.
    pub fn merge(&mut self, other: &Counts) {
        for (sum, n) in self.buckets.iter_mut().zip(other.used()) {
            *sum += n;
        }
        self.max_ns = self.max_ns.max(other.max_ns);
    }
}

impl Default for Hist {
    fn default() -> Hist {
        Hist::new()
    }
}

impl Default for Counts {
    fn default() -> Counts {
        Counts { buckets: Box::new([0; BUCKETS]), max_ns: 0 }
    }
}

impl fmt::Debug for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Counts")
            .field("count", &self.count())
            .field("p50_ns", &self.percentile_ns(50.0))
            .field("p99_ns", &self.percentile_ns(99.0))
            .field("max_ns", &self.max_ns)
            .finish()
    }
}

impl fmt::Debug for Hist {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.read().fmt(f)
    }
}

#[inline]
fn bucket(ns: u64) -> usize {
    let ns = ns.min((1 << VALUE_BITS) - 1);
    if ns < SUBS as u64 {
        return ns as usize;
    }
    let place = ns.ilog2();
    let sub = (ns >> (place - SUB_BITS)) as usize & (SUBS - 1);
    SUBS * (place - SUB_BITS + 1) as usize + sub
}

/// The least value of a bucket.
fn first(bucket: usize) -> u64 {
    let (row, sub) = (bucket / SUBS, (bucket % SUBS) as u64);
    if row == 0 { sub } else { (SUBS as u64 + sub) << (row - 1) }
}

fn middle(bucket: usize) -> f64 {
    let width = if bucket < SUBS { 1 } else { 1u64 << (bucket / SUBS - 1) };
    first(bucket) as f64 + (width - 1) as f64 / 2.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_without_gap_and_narrow() {
        for i in 0..BUCKETS - 1 {
            assert_eq!(bucket(first(i)), i);
            assert_eq!(bucket(first(i + 1) - 1), i, "last value of bucket {i}");
            let width = first(i + 1) - first(i);
            assert!(width == 1 || width * 16 <= first(i));
        }
        assert_eq!(bucket((1 << VALUE_BITS) - 1), BUCKETS - 1);
        assert_eq!(bucket(u64::MAX), BUCKETS - 1);
    }

    #[test]
    fn percentiles_are_within_a_bucket() {
        let hist = Hist::new();
        (1..=100_000u64).for_each(|us| hist.record_ns(us * 1000));
        let counts = hist.read();
        assert_eq!((counts.count(), counts.max_ns()), (100_000, 100_000_000));
        for percent in [1.0, 50.0, 90.0, 99.0, 99.9] {
            let (got, exact) = (counts.percentile_ns(percent) as f64, percent * 1e6);
            assert!(got >= exact && got <= exact * 1.0626, "p{percent}: {got} for {exact}");
        }
        assert_eq!(counts.percentile_ns(100.0), 100_000_000);
        assert!((counts.mean_ns() / 50_000_500.0 - 1.0).abs() < 0.04);
        assert_eq!((counts.below_ns(1 << 10), counts.below_ns(1 << 20), counts.below_ns(0)), (1, 1048, 0));
        let limits = [0, 1 << 10, 1 << 10, 5000, 1 << 20, u64::MAX];
        assert_eq!(counts.below_each_ns(limits), limits.map(|limit| counts.below_ns(limit)));
    }

    #[test]
    fn nothing_recorded_is_zero_everywhere() {
        let counts = Hist::new().read();
        assert_eq!((counts.count(), counts.max_ns(), counts.percentile_ns(99.0)), (0, 0, 0));
        assert_eq!(counts.mean_ns(), 0.0);
    }

    #[test]
    fn workers_merge_and_a_reset_starts_again() {
        let workers = [Hist::new(), Hist::new()];
        workers[0].record(Duration::from_nanos(5));
        workers[1].record(Duration::from_secs(4000));
        let mut all = Counts::default();
        workers.iter().for_each(|hist| hist.read_into(&mut all));
        assert_eq!((all.count(), all.percentile_ns(50.0)), (2, 5));
        assert_eq!(all.percentile_ns(100.0), 4_000_000_000_000, "beyond the last bucket the greatest is known");
        let mut twice = all.clone();
        twice.merge(&all);
        assert_eq!(twice.count(), 4);
        workers[1].reset();
        assert_eq!((workers[1].read().count(), workers[1].read().max_ns()), (0, 0));
    }

    #[test]
    fn threads_lose_no_count() {
        let hist = Hist::new();
        std::thread::scope(|s| {
            for t in 0..4u64 {
                let hist = &hist;
                s.spawn(move || (0..10_000).for_each(|i| hist.record_ns(i * (t + 1))));
            }
        });
        assert_eq!(hist.read().count(), 40_000);
    }
}
