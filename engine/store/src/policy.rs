//! The limit, what makes room at it, and what each key's clock tells of its use.
//!
//! ```text
//!  23                    8 7             0
//! +-----------------------+---------------+
//! | seconds, modulo 2^24, of the last use |    all policies but LFU: 194 days
//! +-----------------------+---------------+
//! | minutes, modulo 2^16  |    counter    |    LFU: when the counter was last looked at (45 days), and the counter
//! +-----------------------+---------------+
//! ```
//! The counter grows with the logarithm of the uses: one more of them raises it with a chance of
//! 1 in `(counter - 5) * lfu-log-factor + 1`. It falls by one each `lfu-decay-time` minutes. New keys begin at 5, so that
//! they are not the first to go. After a change of policy a clock is read as what it was not written as, until it is used.
//!
//! Not here: who is evicted when (`evict.rs`, `reclaim.rs`).

use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering::Relaxed};

use varve_base::rng::Rng;

use crate::store::Store;
use crate::worker::Local;

/// What makes room when the limit is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Policy {
    /// Nothing: writes are refused.
    NoEviction = 0,
    /// Any key, at random.
    AllKeysRandom = 1,
    /// Of all keys those not used for longest.
    AllKeysLru = 2,
    /// Of all keys those least often used.
    AllKeysLfu = 3,
    /// Keys with an expiry, at random.
    VolatileRandom = 4,
    /// Of the keys with an expiry those not used for longest.
    VolatileLru = 5,
    /// Of the keys with an expiry those least often used.
    VolatileLfu = 6,
    /// Keys with an expiry, the next due first.
    VolatileTtl = 7,
}

/// What a policy judges a key by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Measure {
    /// Nothing: all are alike.
    Chance,
    /// Seconds since the last use.
    Idle,
    /// How often it is used.
    Uses,
    /// Time to live.
    Ttl,
}

impl Policy {
    /// All of them, by number.
    pub const ALL: [Policy; 8] = [
        Policy::NoEviction,
        Policy::AllKeysRandom,
        Policy::AllKeysLru,
        Policy::AllKeysLfu,
        Policy::VolatileRandom,
        Policy::VolatileLru,
        Policy::VolatileLfu,
        Policy::VolatileTtl,
    ];

    /// Its name in the configuration.
    pub fn name(self) -> &'static str {
        match self {
            Policy::NoEviction => "noeviction",
            Policy::AllKeysRandom => "allkeys-random",
            Policy::AllKeysLru => "allkeys-lru",
            Policy::AllKeysLfu => "allkeys-lfu",
            Policy::VolatileRandom => "volatile-random",
            Policy::VolatileLru => "volatile-lru",
            Policy::VolatileLfu => "volatile-lfu",
            Policy::VolatileTtl => "volatile-ttl",
        }
    }

    /// The policy of this name.
    pub fn named(name: &str) -> Option<Policy> {
        Policy::ALL.into_iter().find(|policy| policy.name() == name)
    }

    /// True if it evicts keys without an expiry too.
    pub fn takes_all_keys(self) -> bool {
        matches!(self, Policy::AllKeysRandom | Policy::AllKeysLru | Policy::AllKeysLfu)
    }

    /// True if keys' clocks count their uses.
    pub fn counts_uses(self) -> bool {
        self.measure() == Measure::Uses
    }

    /// True if it looks at how each key was used: in Redis integers are then not shared between keys.
    pub fn looks_at_use(self) -> bool {
        matches!(self.measure(), Measure::Uses | Measure::Idle)
    }

    pub(crate) fn measure(self) -> Measure {
        match self {
            Policy::NoEviction | Policy::AllKeysRandom | Policy::VolatileRandom => Measure::Chance,
            Policy::AllKeysLru | Policy::VolatileLru => Measure::Idle,
            Policy::AllKeysLfu | Policy::VolatileLfu => Measure::Uses,
            Policy::VolatileTtl => Measure::Ttl,
        }
    }
}

/// How eviction looks at keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Eviction {
    /// Keys that one is chosen from (`maxmemory-samples`), at least 1.
    pub samples: u32,
    /// How slowly the counter of uses grows (`lfu-log-factor`), below 2^31.
    pub lfu_log_factor: u32,
    /// Minutes in which it falls by one, below 2^31; 0 for never (`lfu-decay-time`).
    pub lfu_decay_min: u32,
}

impl Default for Eviction {
    fn default() -> Eviction {
        Eviction { samples: 5, lfu_log_factor: 10, lfu_decay_min: 1 }
    }
}

/// The memory limit and what belongs to it; changed by CONFIG SET while workers run.
pub(crate) struct Limit {
    /// Bytes; 0 is without limit.
    bytes: AtomicU64,
    policy: AtomicU8,
    samples: AtomicU32,
    /// `lfu-decay-time` in the low half, `lfu-log-factor` in the high one, and the top bit if the policy counts uses:
    /// one load tells a use of a key what to do.
    lfu: AtomicU64,
    /// Bytes that others than the store use and the limit covers: connection buffers.
    pub(crate) outside: AtomicU64,
}

const LFU_ON: u64 = 1 << 63;

impl Limit {
    pub(crate) fn new() -> Limit {
        let limit = Limit {
            bytes: AtomicU64::new(0),
            policy: AtomicU8::new(0),
            samples: AtomicU32::new(0),
            lfu: AtomicU64::new(0),
            outside: AtomicU64::new(0),
        };
        limit.set_eviction(&Eviction::default());
        limit
    }

    #[inline]
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Relaxed)
    }

    #[inline]
    pub(crate) fn policy(&self) -> Policy {
        Policy::ALL[usize::from(self.policy.load(Relaxed))]
    }

    pub(crate) fn samples(&self) -> u32 {
        self.samples.load(Relaxed)
    }

    pub(crate) fn set(&self, bytes: u64, policy: Policy) {
        self.bytes.store(bytes, Relaxed);
        self.policy.store(policy as u8, Relaxed);
        if policy.counts_uses() {
            self.lfu.fetch_or(LFU_ON, Relaxed);
        } else {
            self.lfu.fetch_and(!LFU_ON, Relaxed);
        }
    }

    pub(crate) fn set_eviction(&self, eviction: &Eviction) {
        assert!(eviction.samples > 0, "a key is chosen from at least one");
        assert!((eviction.lfu_log_factor | eviction.lfu_decay_min) >> 31 == 0, "both have 31 bits");
        self.samples.store(eviction.samples, Relaxed);
        let on = self.lfu.load(Relaxed) & LFU_ON;
        let factor = u64::from(eviction.lfu_log_factor) << 32;
        self.lfu.store(on | factor | u64::from(eviction.lfu_decay_min), Relaxed);
    }

    /// How uses are counted, if they are.
    #[inline]
    pub(crate) fn lfu(&self) -> Option<Lfu> {
        let bits = self.lfu.load(Relaxed);
        (bits & LFU_ON != 0).then_some(Lfu { log_factor: (bits >> 32) as u32 & 0x7fff_ffff, decay_min: bits as u32 })
    }
}

/// The counter of uses that a new key begins with.
const LFU_FIRST: u32 = 5;

/// How uses are counted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lfu {
    log_factor: u32,
    decay_min: u32,
}

impl Lfu {
    /// The clock of a key that is new now.
    fn first(now_ms: i64) -> u32 {
        minutes(now_ms) << 8 | LFU_FIRST
    }

    /// The counter as it is by now.
    pub(crate) fn counter(self, clock: u32, now_ms: i64) -> u8 {
        let passed = minutes(now_ms).wrapping_sub(clock >> 8) & 0xffff;
        let falls = passed.checked_div(self.decay_min).unwrap_or(0);
        (clock & 0xff).saturating_sub(falls) as u8
    }

    /// The clock after one more use.
    fn used(self, clock: u32, now_ms: i64, rng: &mut Rng) -> u32 {
        let mut counter = u32::from(self.counter(clock, now_ms));
        if counter < 255 {
            let above = u64::from(counter.saturating_sub(LFU_FIRST));
            let grows = rng.below(above * u64::from(self.log_factor) + 1) == 0;
            counter += u32::from(grows);
        }
        minutes(now_ms) << 8 | counter
    }
}

/// Minutes modulo 2^16.
fn minutes(now_ms: i64) -> u32 {
    (now_ms / 60_000) as u32 & 0xffff
}

/// Seconds modulo 2^24.
fn seconds(now_ms: i64) -> u32 {
    (now_ms / 1000) as u32 & 0xff_ffff
}

/// Seconds since the last use, for clocks that tell it.
pub(crate) fn idle_s(clock: u32, now_ms: i64) -> u32 {
    let idle = seconds(now_ms).wrapping_sub(clock) & 0xff_ffff;
    // Workers' times differ a little: what was used just ahead of now is not from half a year ago.
    if idle > 0xff_ff00 { 0 } else { idle }
}

impl Local {
    /// The clock of an object that is new.
    #[inline]
    pub(crate) fn new_clock(&self, store: &Store) -> u32 {
        if store.limit.lfu().is_some() { Lfu::first(self.now_ms) } else { seconds(self.now_ms) }
    }

    /// An object's clock after one more use.
    #[inline]
    pub(crate) fn used_clock(&mut self, store: &Store, clock: u32) -> u32 {
        match store.limit.lfu() {
            None => seconds(self.now_ms),
            Some(lfu) => lfu.used(clock, self.now_ms, &mut self.rng),
        }
    }
}

impl Store {
    /// Sets `maxmemory` in bytes (0: no limit) and what makes room at it.
    pub fn set_limit(&self, bytes: u64, policy: Policy) {
        self.limit.set(bytes, policy);
    }

    /// Sets how eviction looks at keys.
    pub fn set_eviction(&self, eviction: &Eviction) {
        self.limit.set_eviction(eviction);
    }

    /// `maxmemory` in bytes, 0 for none.
    pub fn limit_bytes(&self) -> u64 {
        self.limit.bytes()
    }

    /// What makes room at the limit.
    pub fn policy(&self) -> Policy {
        self.limit.policy()
    }

    /// Tells the bytes that connections' buffers use, which the limit covers.
    pub fn set_outside_bytes(&self, bytes: u64) {
        self.limit.outside.store(bytes, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR_MS: i64 = 3_600_000;

    #[test]
    fn policies_are_found_by_number_and_name() {
        for (at, policy) in Policy::ALL.into_iter().enumerate() {
            assert_eq!((policy as usize, Policy::named(policy.name())), (at, Some(policy)));
        }
        assert_eq!(Policy::named("allkeys"), None);
    }

    #[test]
    fn the_counter_grows_with_the_logarithm_and_falls_with_time() {
        let lfu = Lfu { log_factor: 10, decay_min: 1 };
        let mut rng = Rng::seeded(7);
        let mut clock = Lfu::first(HOUR_MS);
        assert_eq!(lfu.counter(clock, HOUR_MS), 5);
        (0..1000).for_each(|_| clock = lfu.used(clock, HOUR_MS, &mut rng));
        // About sqrt(2 * 1000 / 10) over the first.
        let reached = lfu.counter(clock, HOUR_MS);
        assert!((14..=24).contains(&reached), "{reached} after 1000 uses");
        assert_eq!(lfu.counter(clock, HOUR_MS + 4 * 60_000), reached - 4);
        assert_eq!(lfu.counter(clock, 2 * HOUR_MS), 0);
        assert_eq!(Lfu { decay_min: 0, ..lfu }.counter(clock, 2 * HOUR_MS), reached);
        (0..10_000_000).for_each(|_| clock = lfu.used(clock, HOUR_MS, &mut rng));
        assert_eq!(lfu.counter(clock, HOUR_MS), 255);
    }

    #[test]
    fn one_load_tells_how_uses_are_counted() {
        let limit = Limit::new();
        assert!(limit.lfu().is_none());
        limit.set(1, Policy::VolatileLfu);
        limit.set_eviction(&Eviction { samples: 3, lfu_log_factor: (1 << 31) - 1, lfu_decay_min: 9 });
        let lfu = limit.lfu().expect("the policy counts");
        assert_eq!((lfu.log_factor, lfu.decay_min, limit.samples()), ((1 << 31) - 1, 9, 3));
        limit.set(1, Policy::AllKeysLru);
        assert!(limit.lfu().is_none());
    }

    #[test]
    fn a_use_ahead_of_now_is_not_idle() {
        assert_eq!(idle_s(seconds(100_000), 107_000), 7);
        assert_eq!(idle_s(seconds(101_000), 100_000), 0);
    }
}
