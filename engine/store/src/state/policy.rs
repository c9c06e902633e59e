//! The limit, and what makes room at it.
//!
//! Not here: which key is evicted when (`steps/evict.rs`, `steps/reclaim.rs`), the clocks of keys (`clock.rs`).

use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering::Relaxed};

use super::clock::{Lfu, MeasuredUse, UseMeter};

/// The policy that makes room when the limit is reached.
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

/// The measure by which a policy judges a key.
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
    /// Bytes; 0 is without limit. With [`LIFTED`] no limit holds at present.
    pub(crate) bytes: AtomicU64,
    pub(crate) policy: AtomicU8,
    pub(crate) samples: AtomicU32,
    /// `lfu-decay-time` in the low half, `lfu-log-factor` in the high one, and the top bit if the policy counts uses:
    /// one load tells a use of a key what to do.
    pub(crate) lfu: AtomicU64,
    /// Bytes that others than the store use and the limit covers: connection buffers.
    pub(crate) outside: AtomicU64,
}

pub(crate) const LFU_ON: u64 = 1 << 63;
/// The bit of the limit's bytes that says that it does not hold at present: one load tells both.
const LIFTED: u64 = 1 << 63;

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

    /// The limit that holds at present, bytes; 0 for none.
    #[inline]
    pub(crate) fn bytes(&self) -> u64 {
        let bytes = self.bytes.load(Relaxed);
        if bytes & LIFTED == 0 { bytes } else { 0 }
    }

    /// The limit that is set, whether it holds or not, bytes.
    pub(crate) fn set_bytes(&self) -> u64 {
        self.bytes.load(Relaxed) & !LIFTED
    }

    /// Has the limit hold no longer, or hold again.
    pub(crate) fn lift(&self, lifted: bool) {
        if lifted {
            self.bytes.fetch_or(LIFTED, Relaxed);
        } else {
            self.bytes.fetch_and(!LIFTED, Relaxed);
        }
    }

    #[inline]
    pub(crate) fn policy(&self) -> Policy {
        Policy::ALL[usize::from(self.policy.load(Relaxed))]
    }

    pub(crate) fn samples(&self) -> u32 {
        self.samples.load(Relaxed)
    }

    pub(crate) fn set(&self, bytes: u64, policy: Policy) {
        let _ = self.bytes.fetch_update(Relaxed, Relaxed, |old| Some(old & LIFTED | bytes & !LIFTED));
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

    /// How the policy looks at the use of keys.
    pub(crate) fn use_meter(&self) -> UseMeter {
        let by_idle = self.policy().measure() == Measure::Idle;
        UseMeter(match self.lfu() {
            Some(lfu) => MeasuredUse::Count(lfu),
            None if by_idle => MeasuredUse::Idle,
            None => MeasuredUse::Nothing,
        })
    }

    /// How uses are counted, if they are.
    #[inline]
    pub(crate) fn lfu(&self) -> Option<Lfu> {
        let bits = self.lfu.load(Relaxed);
        (bits & LFU_ON != 0).then_some(Lfu { log_factor: (bits >> 32) as u32 & 0x7fff_ffff, decay_min: bits as u32 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policies_are_found_by_number_and_name() {
        for (at, policy) in Policy::ALL.into_iter().enumerate() {
            assert_eq!((policy as usize, Policy::named(policy.name())), (at, Some(policy)));
        }
        assert_eq!(Policy::named("allkeys"), None);
    }

    #[test]
    fn a_limit_that_is_set_while_it_is_lifted_holds_later() {
        let limit = Limit::new();
        limit.lift(true);
        limit.set(7, Policy::AllKeysLru);
        assert_eq!((limit.bytes(), limit.set_bytes()), (0, 7));
        limit.lift(false);
        assert_eq!((limit.bytes(), limit.set_bytes()), (7, 7));
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
}
