//! When a worker adds up what the clients of all workers take.
//!
//! A sum reads a cache line of every worker, which that worker writes all the time: with 64 workers these reads would be
//! most of a short turn of the loop. So a sum is made once in [`SUM_TIME`], and at once when this worker's own share has
//! changed by [`SUM_BYTES`]: what one visit can add is seen before the next one. Under `maxmemory-clients` each change of
//! the own share is summed at once, and a change of that limit as well: a client that is over it is closed before it is
//! served again, as by redis-server. A worker that has changed its share does not sleep past the time of its next sum.

use std::time::{Duration, Instant};

/// Time between two sums, at most while something changes.
const SUM_TIME: Duration = Duration::from_millis(10);
/// A change of the own share by which a sum is due at once.
const SUM_BYTES: u64 = 16 << 10;

/// The own share of a worker, and the limit that it is compared with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Share {
    /// Bytes of buffers, which count against `maxmemory`.
    pub(super) buffers: u64,
    /// Weights of clients, which count against `maxmemory-clients`.
    pub(super) weights: u64,
    /// `maxmemory-clients` in bytes, 0 for none.
    pub(super) max: u64,
}

/// When the last sum was made, and the worker's own share in it.
#[derive(Debug)]
pub(super) struct Sums {
    at: Instant,
    own: Share,
}

impl Sums {
    /// A sum was made now, of nothing.
    pub(super) fn new(now: Instant) -> Sums {
        Sums { at: now, own: Share::default() }
    }

    /// True if the next sum is to be made now; the caller makes it.
    #[inline]
    pub(super) fn is_due(&mut self, now: Instant, own: Share) -> bool {
        let is_limited = own.max > 0 && own.weights != self.own.weights || own.max != self.own.max;
        let is_due = is_limited
            || own.buffers.abs_diff(self.own.buffers) >= SUM_BYTES
            || now.duration_since(self.at) >= SUM_TIME;
        if is_due {
            *self = Sums { at: now, own };
        }
        is_due
    }

    /// Time until the next sum, if the own share has changed since the last one.
    pub(super) fn due_in(&self, now: Instant, buffers: u64) -> Option<Duration> {
        (buffers != self.own.buffers).then(|| SUM_TIME.saturating_sub(now.duration_since(self.at)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A share of these buffers, with no limit.
    fn share(buffers: u64) -> Share {
        Share { buffers, weights: buffers, max: 0 }
    }

    #[test]
    fn a_thousand_turns_make_one_sum() {
        let start = Instant::now();
        let mut sums = Sums::new(start);
        let turn = Duration::from_micros(10);
        let made = (1..=1000).filter(|&n| sums.is_due(start + turn * n, share(100 + u64::from(n % 7)))).count();
        assert_eq!(made, 1, "sums in 10 ms");
    }

    #[test]
    fn a_large_change_is_summed_at_once_and_a_small_one_before_long() {
        let start = Instant::now();
        let mut sums = Sums::new(start);
        assert!(!sums.is_due(start, share(SUM_BYTES - 1)));
        assert!(sums.is_due(start, share(SUM_BYTES)) && !sums.is_due(start, share(SUM_BYTES)));
        assert!(!sums.is_due(start, share(1)) && sums.is_due(start, share(0)));
        assert_eq!(sums.due_in(start, 0), None);
        assert_eq!(sums.due_in(start + SUM_TIME / 2, 1), Some(SUM_TIME / 2));
        assert!(sums.is_due(start + SUM_TIME, share(1)));
    }

    #[test]
    fn under_a_limit_each_change_of_weight_is_summed_at_once() {
        let start = Instant::now();
        let mut sums = Sums::new(start);
        let limited = |weights: u64, max: u64| Share { buffers: 0, weights, max };
        assert!(sums.is_due(start, limited(1000, 5000)), "the limit is new");
        assert!(!sums.is_due(start, limited(1000, 5000)));
        assert!(sums.is_due(start, limited(1001, 5000)));
        assert!(sums.is_due(start, limited(1001, 4000)));
        assert!(sums.is_due(start, limited(1001, 0)) && !sums.is_due(start, limited(7, 0)));
    }
}
