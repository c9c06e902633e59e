//! A key's clock: 24 bits about its use, read by the policies.
//!
//! ```text
//!  23                    8 7             0
//! +-----------------------+---------------+
//! | seconds, modulo 2^24, of the last use |    all policies but LFU: 194 days
//! +-----------------------+---------------+
//! | minutes, modulo 2^16  |    counter    |    LFU: when the counter last changed (45 days), and the counter
//! +-----------------------+---------------+
//! ```
//! The counter grows with the logarithm of the uses: one more use raises it with a chance of
//! 1 in `(counter - 5) * lfu-log-factor + 1`. It falls by one each `lfu-decay-time` minutes. New keys begin at 5, so that
//! they are not the first to go. After a change of policy, a clock is read by the new policy's rule, though it was written
//! by the old one's, until the key is used.

use varve_base::rng::Rng;

/// The counter of uses that a new key begins with.
pub(crate) const LFU_FIRST: u32 = 5;

/// The longest time without use, in seconds, that a clock tells from a use ahead of now.
const IDLE_MAX_S: u32 = 0xff_ff00;

/// How uses are counted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lfu {
    pub(crate) log_factor: u32,
    pub(crate) decay_min: u32,
}

impl Lfu {
    /// The clock of a key that is new now.
    pub(crate) fn first(now_ms: i64) -> u32 {
        minutes(now_ms) << 8 | LFU_FIRST
    }

    /// The counter as it is by now.
    pub(crate) fn counter(self, clock: u32, now_ms: i64) -> u8 {
        let passed = minutes(now_ms).wrapping_sub(clock >> 8) & 0xffff;
        let falls = passed.checked_div(self.decay_min).unwrap_or(0);
        (clock & 0xff).saturating_sub(falls) as u8
    }

    /// The clock after one more use.
    pub(crate) fn used(self, clock: u32, now_ms: i64, rng: &mut Rng) -> u32 {
        let mut counter = u32::from(self.counter(clock, now_ms));
        if counter < 255 {
            let above = u64::from(counter.saturating_sub(LFU_FIRST));
            let grows = rng.below(above * u64::from(self.log_factor) + 1) == 0;
            counter += u32::from(grows);
        }
        minutes(now_ms) << 8 | counter
    }
}

/// How a key was used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyUse {
    /// Seconds since its last use.
    Idle(u64),
    /// The logarithmic counter of its uses.
    Count(u8),
}

/// How a policy looks at the use of keys.
#[derive(Clone, Copy, Debug)]
pub struct UseMeter(pub(super) MeasuredUse);

/// The part of a key's use that counts.
#[derive(Clone, Copy, Debug)]
pub(super) enum MeasuredUse {
    Nothing,
    Idle,
    Count(Lfu),
}

impl UseMeter {
    /// The use that a clock states.
    pub(crate) fn read(self, clock: u32, now_ms: i64) -> Option<KeyUse> {
        match self.0 {
            MeasuredUse::Nothing => None,
            MeasuredUse::Idle => Some(KeyUse::Idle(u64::from(idle_s(clock, now_ms)))),
            MeasuredUse::Count(lfu) => Some(KeyUse::Count(lfu.counter(clock, now_ms))),
        }
    }
}

/// Minutes modulo 2^16.
pub(crate) fn minutes(now_ms: i64) -> u32 {
    (now_ms / 60_000) as u32 & 0xffff
}

/// Seconds modulo 2^24.
pub(crate) fn seconds(now_ms: i64) -> u32 {
    (now_ms / 1000) as u32 & 0xff_ffff
}

/// Seconds since the last use, for clocks that hold the time of the last use.
pub(crate) fn idle_s(clock: u32, now_ms: i64) -> u32 {
    let idle = seconds(now_ms).wrapping_sub(clock) & 0xff_ffff;
    // Workers' times differ a little: what was used just ahead of now is not from half a year ago.
    if idle > IDLE_MAX_S { 0 } else { idle }
}

/// The clock of a key that was used this number of seconds ago, or as long ago as a clock can say.
pub(crate) fn used_before(idle: u64, now_ms: i64) -> u32 {
    let idle = idle.min(IDLE_MAX_S.into()) as u32;
    seconds(now_ms).wrapping_sub(idle) & 0xff_ffff
}

/// True if a key with this expiry counts as gone at `now_ms`, milliseconds of Unix time.
#[inline(always)]
pub(crate) fn is_over(expiry_ms: Option<i64>, now_ms: i64) -> bool {
    expiry_ms.is_some_and(|t| t <= now_ms)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR_MS: i64 = 3_600_000;

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
    fn a_clock_of_long_ago_says_so() {
        for idle in [0, 1, 100_000, u64::from(IDLE_MAX_S)] {
            assert_eq!(u64::from(idle_s(used_before(idle, 50_000_000_000), 50_000_000_000)), idle);
        }
        assert_eq!(idle_s(used_before(u64::MAX, 50_000_000_000), 50_000_000_000), IDLE_MAX_S);
    }

    #[test]
    fn a_use_ahead_of_now_is_not_idle() {
        assert_eq!(idle_s(seconds(100_000), 107_000), 7);
        assert_eq!(idle_s(seconds(101_000), 100_000), 0);
    }
}
