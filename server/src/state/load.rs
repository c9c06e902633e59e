//! How much each worker has to do, as whoever gives it connections sees it.
//!
//! ```text
//!   worker:   poll returns --wake--> work --> sleep --> poll        each tick: the share of the time that it worked
//!   acceptor: share + newcomers since, in steps of 10%; the fewest connections decide between equals
//!             a worker that has been at work for 50 ms without a look at its poll comes last
//! ```
//! Connections are placed by load and not by their number alone: the members of a pool differ, and those that work much
//! would meet on one worker by chance. A connection stays where it was placed.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// A worker that works for this long without a look at its poll runs a long command.
const STUCK_MS: i64 = 50;
/// The load that a newcomer is taken to bring until the worker has measured it: in a burst of connections not all go to
/// the worker that had least to do before it.
const NEWCOMER_PERMILLE: u64 = 10;
/// Loads that differ by less are equal.
const STEP_PERMILLE: u64 = 100;

/// See the module's picture.
#[derive(Debug, Default)]
pub(crate) struct Load {
    /// The share of its last interval in which the worker worked.
    busy_permille: AtomicU64,
    /// When it began to work, milliseconds of Unix time; 0 while it waits in its poll.
    awake_ms: AtomicI64,
    /// Connections that it was given since its last interval.
    newcomers: AtomicU64,
}

/// A worker's load as one number: the smaller, the better is it to give it a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Estimate {
    is_stuck: bool,
    steps: u64,
    connections: u64,
}

impl Load {
    /// The worker's poll has returned.
    #[inline]
    pub(crate) fn wake(&self, now_ms: i64) {
        self.awake_ms.store(now_ms, Relaxed);
    }

    /// The worker waits in its poll from now on.
    #[inline]
    pub(crate) fn sleep(&self) {
        self.awake_ms.store(0, Relaxed);
    }

    /// An interval has ended, in which the worker worked for `busy`.
    pub(crate) fn report(&self, busy: Duration, interval: Duration) {
        let permille = busy.as_micros() * 1000 / interval.as_micros().max(1);
        self.busy_permille.store((permille as u64).min(1000), Relaxed);
        self.newcomers.store(0, Relaxed);
    }

    /// The worker is given a connection.
    pub(crate) fn add_newcomer(&self) {
        self.newcomers.fetch_add(1, Relaxed);
    }

    /// The share of its last interval in which the worker worked.
    pub(crate) fn busy_permille(&self) -> u64 {
        self.busy_permille.load(Relaxed)
    }

    /// When the worker began to work, milliseconds of Unix time; 0 while it waits in its poll.
    pub(crate) fn awake_since_ms(&self) -> i64 {
        self.awake_ms.load(Relaxed)
    }

    /// True if the worker runs a long command.
    pub(crate) fn is_stuck(&self, now_ms: i64) -> bool {
        let awake_ms = self.awake_since_ms();
        awake_ms != 0 && now_ms - awake_ms > STUCK_MS
    }

    /// The load now, of a worker with this number of connections.
    pub(crate) fn estimate(&self, connections: u64, now_ms: i64) -> Estimate {
        let permille = self.busy_permille() + self.newcomers.load(Relaxed) * NEWCOMER_PERMILLE;
        Estimate { is_stuck: self.is_stuck(now_ms), steps: permille / STEP_PERMILLE, connections }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Gives out `count` connections; returns how many each worker has then.
    fn give(loads: &[Load], connections: &mut [u64], count: usize, now_ms: i64) {
        for _ in 0..count {
            let all = loads.iter().zip(connections.iter()).map(|(load, &n)| load.estimate(n, now_ms));
            let (worker, _) = all.enumerate().min_by_key(|(_, estimate)| *estimate).unwrap();
            loads[worker].add_newcomer();
            connections[worker] += 1;
        }
    }

    fn worked(load: &Load, permille: u64) {
        load.report(Duration::from_millis(permille), Duration::from_secs(1));
    }

    #[test]
    fn idle_workers_share_by_number() {
        let (loads, mut connections) = (std::array::from_fn::<Load, 4, _>(|_| Load::default()), [0; 4]);
        worked(&loads[0], 30);
        worked(&loads[3], 70);
        give(&loads, &mut connections, 8, 0);
        assert_eq!(connections, [2; 4]);
    }

    #[test]
    fn a_busy_worker_gets_nothing_while_others_are_idle() {
        let (loads, mut connections) = ([Load::default(), Load::default()], [1, 40]);
        worked(&loads[0], 900);
        give(&loads, &mut connections, 30, 0);
        assert_eq!(connections, [1, 70]);
        // A storm reaches both all the same.
        give(&loads, &mut connections, 1000, 0);
        assert!(connections[0] > 400, "{connections:?}");
    }

    #[test]
    fn a_worker_in_a_long_command_comes_last() {
        let (loads, mut connections) = ([Load::default(), Load::default()], [0, 100]);
        loads[0].wake(1000);
        worked(&loads[1], 1000);
        loads[1].wake(1040);
        give(&loads, &mut connections, 5, 1051);
        assert_eq!(connections, [0, 105]);
        loads[0].sleep();
        give(&loads, &mut connections, 5, 1052);
        assert_eq!(connections, [5, 105]);
    }
}
