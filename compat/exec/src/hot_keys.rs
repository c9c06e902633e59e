//! The keys that commands use most: samples of the commands that run, always on.
//!
//! ```text
//!   commands   . . . . . * . . . . . . . . * . . . *      * is timed by itself, and stands for those since the last *
//!                        └─▶ one of its keys: calls, time, bytes of request and reply, each in a ranking (varve_base::heavy)
//! ```
//! A worker takes some 60 to 250 samples a second, or one of 1024 commands where more of them run, so that they cost less than a
//! thousandth of its time; between two samples a command costs a comparison. Old samples count less: each minute all weights are
//! halved. Not sampled: commands that name no keys, and those of clients that waited.
//!
//! While somebody collects (HOTKEYS START), commands are sampled at the ratio that was asked for, and these samples go into
//! rankings of their own as well, which do not age.

use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use varve_base::heavy::{Heavy, HeavyName, merge};
use varve_base::rng::Rng;
use varve_base::shared::SharedU32;

/// Commands between two samples on average, at most.
const GAP_MAX: u64 = 1024;
/// Samples that follow each other sooner than its begin are made rarer, later than its end more frequent.
pub(crate) const SAMPLE_TIMES: Range<Duration> = Duration::from_millis(4)..Duration::from_millis(16);
/// Time after which a sample counts half.
const HALF_LIFE: Duration = Duration::from_secs(60);

/// A worker's rankings, shared with whoever asks.
#[derive(Debug, Default)]
pub struct HotKeys {
    ranks: Mutex<Ranks>,
    /// Commands of which one is sampled for a collection; 0: nobody collects.
    ratio: SharedU32,
    collected: Mutex<Collected>,
}

/// The samples of a worker since HOTKEYS START.
#[derive(Debug, Default)]
struct Collected {
    nanos: Heavy,
    bytes: Heavy,
}

#[derive(Debug, Default)]
struct Ranks {
    calls: Heavy,
    nanos: Heavy,
    bytes: Heavy,
    /// The time that the weights are of, as they count, before `halved`.
    aged: Duration,
    halved: Option<Instant>,
}

/// A command that was sampled.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sample {
    /// Commands that it stands for.
    pub(crate) stands_for: u64,
    /// Its own time.
    pub(crate) nanos: u64,
    /// Bytes of its request and its reply.
    pub(crate) bytes: u64,
}

/// The heaviest keys of all workers. Weights are of a second.
#[derive(Debug, Default)]
pub struct Hottest {
    /// Calls a second, by key.
    pub calls: Vec<HeavyName>,
    /// Nanoseconds of command time a second, by key.
    pub nanos: Vec<HeavyName>,
    /// Bytes of requests and replies a second, by key.
    pub bytes: Vec<HeavyName>,
    /// Calls a second of all keys.
    pub all_calls: u64,
    /// Nanoseconds of command time a second of all keys.
    pub all_nanos: u64,
    /// Bytes of requests and replies a second of all keys.
    pub all_bytes: u64,
}

impl HotKeys {
    /// Adds a sample of the key with this hash and name.
    pub(crate) fn add(&self, now: Instant, db: u32, (hash, name): (u64, &[u8]), sample: Sample) {
        let mut ranks = self.ranks.lock().expect("no holder panics");
        ranks.age(now);
        let Sample { stands_for, nanos, bytes } = sample;
        ranks.calls.add(hash, db, name, stands_for);
        ranks.nanos.add(hash, db, name, nanos.saturating_mul(stands_for));
        ranks.bytes.add(hash, db, name, bytes.saturating_mul(stands_for));
        drop(ranks);
        // Relaxed: a sample at the edge of a collection may be in it or not.
        if self.ratio.load(Ordering::Relaxed) > 0 {
            let mut collected = self.collected.lock().expect("no holder panics");
            collected.nanos.add(hash, db, name, nanos);
            collected.bytes.add(hash, db, name, bytes);
        }
    }

    /// Collects from now on one of `ratio` commands, at least 1, beginning with nothing.
    pub fn collect(&self, ratio: u32) {
        assert!(ratio > 0, "a ratio is positive");
        *self.collected.lock().expect("no holder panics") = Collected::default();
        self.ratio.store(ratio, Ordering::Relaxed);
    }

    /// Collects no longer; what was collected stays.
    pub fn end_collection(&self) {
        self.ratio.store(0, Ordering::Relaxed);
    }

    /// Forgets what was collected.
    pub fn forget_collection(&self) {
        self.end_collection();
        *self.collected.lock().expect("no holder panics") = Collected::default();
    }

    /// Forgets all samples.
    pub fn clear(&self) {
        *self.ranks.lock().expect("no holder panics") = Ranks::default();
    }
}

impl Ranks {
    /// Has old weights count less.
    fn age(&mut self, now: Instant) {
        let mut halved = *self.halved.get_or_insert(now);
        while now.saturating_duration_since(halved) >= HALF_LIFE {
            [&mut self.calls, &mut self.nanos, &mut self.bytes].into_iter().for_each(Heavy::halve);
            self.aged = (self.aged + HALF_LIFE) / 2;
            halved += HALF_LIFE;
            if self.calls.total() == 0 {
                // Nothing is left to be halved, however long nobody came.
                (self.aged, halved) = (Duration::ZERO, now);
            }
        }
        self.halved = Some(halved);
    }

    /// The time that the weights are of.
    fn window(&self, now: Instant) -> Duration {
        self.aged + self.halved.map_or(Duration::ZERO, |halved| now.saturating_duration_since(halved))
    }
}

/// The heaviest keys of several workers, at most `count` in each ranking.
pub fn hottest<'h>(workers: impl IntoIterator<Item = &'h HotKeys>, now: Instant, count: usize) -> Hottest {
    let mut ranks: Vec<_> = workers.into_iter().map(|one| one.ranks.lock().expect("no holder panics")).collect();
    ranks.iter_mut().for_each(|one| one.age(now));
    let window_s = ranks.iter().map(|one| one.window(now)).max().unwrap_or_default().as_secs_f64().max(1.0);
    let rate = |weight: u64| (weight as f64 / window_s) as u64;
    let ranking = |of: fn(&Ranks) -> &Heavy| -> (Vec<HeavyName>, u64) {
        let mut names = merge(ranks.iter().map(|one| of(one)));
        names.truncate(count);
        for name in &mut names {
            (name.weight, name.error) = (rate(name.weight), rate(name.error));
        }
        (names, rate(ranks.iter().map(|one| of(one).total()).sum()))
    };
    let (calls, all_calls) = ranking(|ranks| &ranks.calls);
    let (nanos, all_nanos) = ranking(|ranks| &ranks.nanos);
    let (bytes, all_bytes) = ranking(|ranks| &ranks.bytes);
    Hottest { calls, nanos, bytes, all_calls, all_nanos, all_bytes }
}

/// The collections of several workers as one: nanoseconds and bytes of the sampled commands by key, heaviest first.
pub fn collected<'h>(workers: impl IntoIterator<Item = &'h HotKeys>) -> (Vec<HeavyName>, Vec<HeavyName>) {
    let parts: Vec<_> = workers.into_iter().map(|one| one.collected.lock().expect("no holder panics")).collect();
    (merge(parts.iter().map(|part| &part.nanos)), merge(parts.iter().map(|part| &part.bytes)))
}

/// When a worker takes samples.
#[derive(Debug)]
pub(crate) struct Sampling {
    /// The ratio of the collection under way, as it was seen last; 0: none.
    ratio: u32,
    /// Commands that run before the next sample.
    left: u64,
    /// Commands since the last sample.
    since: u64,
    /// Commands between two samples on average.
    gap: u64,
    /// The time between two samples that is aimed at.
    times: Range<Duration>,
    last: Option<Instant>,
    rng: Rng,
}

impl Default for Sampling {
    fn default() -> Sampling {
        Sampling { ratio: 0, left: 0, since: 0, gap: 1, times: SAMPLE_TIMES, last: None, rng: Rng::seeded(0x51ce) }
    }
}

impl Sampling {
    /// Sets the time between two samples that is aimed at; else it is [`SAMPLE_TIMES`].
    pub(crate) fn set_times(&mut self, times: Range<Duration>) {
        self.times = times;
    }

    /// The number of the request that is to be sampled, of `count` from number `next` on; `usize::MAX` if none is.
    #[inline]
    pub(crate) fn choose(&mut self, hot: &HotKeys, next: usize, count: usize) -> usize {
        let ratio = hot.ratio.load(Ordering::Relaxed);
        if ratio != self.ratio {
            self.follow(ratio);
        }
        if self.left < count as u64 { self.choose_one(next, count) } else { usize::MAX }
    }

    /// A collection has begun or ended.
    #[cold]
    fn follow(&mut self, ratio: u32) {
        self.ratio = ratio;
        self.gap = u64::from(ratio).max(1);
        self.left = self.rng.below(2 * self.gap - 1);
    }

    #[cold]
    fn choose_one(&mut self, next: usize, count: usize) -> usize {
        // A sample that is overdue is any of these requests: the first of a pipeline may be unlike those behind it.
        let overdue = self.left == 0 && self.ratio == 0;
        let at = if overdue { self.rng.below(count as u64) } else { self.left };
        next + at as usize
    }

    /// This number of commands ran without a sample among them.
    #[inline]
    pub(crate) fn pass(&mut self, commands: usize) {
        self.since += commands as u64;
        self.left = self.left.saturating_sub(commands as u64);
    }

    /// A sample is taken; gives the number of commands that it stands for.
    pub(crate) fn take(&mut self, now: Instant) -> u64 {
        let stands_for = std::mem::take(&mut self.since) + 1;
        let passed = self.last.replace(now).map_or(self.times.end, |last| now.saturating_duration_since(last));
        if self.ratio > 0 {
            self.gap = self.ratio.into();
        } else if passed < self.times.start {
            self.gap = (self.gap * 2).min(GAP_MAX);
        } else if passed > self.times.end {
            self.gap = (self.gap / 2).max(1);
        }
        self.left = self.rng.below(2 * self.gap - 1);
        stands_for
    }

    /// The number of one key of several, which stands for all.
    pub(crate) fn pick(&mut self, keys: usize) -> usize {
        self.rng.below(keys as u64) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(stands_for: u64) -> Sample {
        Sample { stands_for, nanos: 1000, bytes: 50 }
    }

    #[test]
    fn weights_are_of_a_second_and_old_ones_count_less() {
        let (hot, start) = (HotKeys::default(), Instant::now());
        (0..10).for_each(|s| hot.add(start + Duration::from_secs(s), 0, (1, b"a"), sample(100)));
        let now = start + Duration::from_secs(10);
        let found = hottest([&hot], now, 10);
        assert_eq!((found.calls[0].weight, found.all_calls), (100, 100), "1000 calls in 10 s");
        assert_eq!((found.nanos[0].weight, found.bytes[0].weight), (100_000, 5_000));
        // Half an hour later there is another key: the first one has no weight left.
        let later = now + Duration::from_secs(1800);
        hot.add(later, 0, (2, b"b"), sample(7));
        let found = hottest([&hot], later, 10);
        assert_eq!(found.calls.iter().map(|one| &one.name[..]).collect::<Vec<_>>(), [b"b"]);
    }

    #[test]
    fn a_rate_stays_what_it_is_over_many_half_lives() {
        let (hot, start) = (HotKeys::default(), Instant::now());
        for tenth in 0..6000 {
            hot.add(start + Duration::from_millis(tenth * 100), 0, (1, b"a"), sample(100));
        }
        let found = hottest([&hot], start + Duration::from_secs(600), 10);
        assert!((980..=1020).contains(&found.all_calls), "{} of 1000 calls a second", found.all_calls);
    }

    #[test]
    fn samples_stand_for_all_commands_and_are_rare_under_load() {
        let (hot, mut sampling) = (HotKeys::default(), Sampling::default());
        let (mut now, mut stood_for, mut taken, commands) = (Instant::now(), 0, 0, 1_000_000_u64);
        // A command a microsecond, in pipelines of 50.
        for _ in 0..commands / 50 {
            let (mut from, chosen) = (0, sampling.choose(&hot, 0, 50));
            for at in 0..50 {
                now += Duration::from_micros(1);
                if at == chosen {
                    sampling.pass(at - from);
                    stood_for += sampling.take(now);
                    (from, taken) = (at + 1, taken + 1);
                }
            }
            sampling.pass(50 - from);
        }
        assert_eq!(stood_for + sampling.since, commands);
        assert!((100..=1200).contains(&taken), "{taken} samples in a second");
    }

    #[test]
    fn nearly_every_command_is_sampled_while_they_are_few() {
        let (hot, mut sampling, mut now) = (HotKeys::default(), Sampling::default(), Instant::now());
        let mut taken = 0;
        for _ in 0..1000 {
            now += Duration::from_millis(5);
            if sampling.choose(&hot, 0, 1) == 0 {
                assert_eq!(sampling.take(now), 1);
                taken += 1;
            } else {
                sampling.pass(1);
            }
        }
        assert_eq!(taken, 1000);
    }

    #[test]
    fn a_collection_samples_as_it_was_asked_and_ends() {
        let (hot, mut sampling, now) = (HotKeys::default(), Sampling::default(), Instant::now());
        for (ratio, expected) in [(1, 10_000..=10_000), (10, 900..=1100)] {
            hot.collect(ratio);
            let mut taken = 0;
            for _ in 0..10_000 {
                match sampling.choose(&hot, 0, 1) {
                    0 => {
                        let stands_for = sampling.take(now);
                        hot.add(now, 0, (1, b"a"), sample(stands_for));
                        taken += 1;
                    }
                    _ => sampling.pass(1),
                }
            }
            assert!(expected.contains(&taken), "{taken} of 10 000 by a ratio of {ratio}");
            let (nanos, bytes) = collected([&hot]);
            assert_eq!((nanos[0].weight, bytes[0].weight), (1000 * taken, 50 * taken), "as sampled");
        }
        hot.end_collection();
        hot.add(now, 0, (1, b"a"), sample(1));
        assert!(collected([&hot]).0[0].weight <= 1_100_000, "it has ended");
        hot.forget_collection();
        assert_eq!(collected([&hot]).0, []);
    }
}
