//! Time of commands: shared out among those of a turn, or measured one by one.

use std::time::{Duration, Instant};

use varve_catalog::Row;

use crate::command::Command;
use crate::stats::CommandStats;

/// By how much a command that took so long moves the time of those after it.
pub(super) fn whole_ms(nanos: u64) -> i64 {
    (nanos / 1_000_000) as i64
}

/// Time of a turn, shared out evenly among the commands that ran between two readings of the clock.
pub(super) struct SharedTime {
    start: Instant,
    /// Commands since then, as runs of the same one.
    last: Option<&'static Command>,
    same: u64,
    ran: u64,
    /// How often the shards were let go in between.
    let_go: u64,
    runs: smallvec::SmallVec<[(&'static Command, u64); 8]>,
}

impl SharedTime {
    pub(super) fn start() -> SharedTime {
        SharedTime { start: Instant::now(), last: None, same: 0, ran: 0, let_go: 0, runs: smallvec::SmallVec::new() }
    }

    /// So much of it went into making room for a command before it held anything: as in the peer, that is no command's.
    #[inline]
    pub(super) fn skip(&mut self, nanos: u64) {
        if nanos > 0 {
            self.start += Duration::from_nanos(nanos);
        }
    }

    /// The shards that were kept from command to command are let go.
    #[inline]
    pub(super) fn let_go(&mut self) {
        self.let_go += 1;
    }

    /// A command ran.
    #[inline]
    pub(super) fn ran(&mut self, d: &'static Command) {
        self.ran += 1;
        match self.last {
            Some(last) if std::ptr::eq(last, d) => self.same += 1,
            last => {
                if let Some(last) = last {
                    self.runs.push((last, self.same));
                }
                (self.last, self.same) = (Some(d), 1);
            }
        }
    }

    /// Reads the clock behind the first part of a command, the last one that ran: counts a call of it, whose duration is
    /// known at its end, and those that ran before it since the last reading; gives its share of the nanoseconds. A command
    /// whose cost may be any is timed by itself, so that nothing ran before it.
    #[cold]
    pub(super) fn settle_part(&mut self, stats: &CommandStats) -> u64 {
        let (nanos, goes_on) = (self.start.elapsed().as_nanos() as u64, self.last.expect("the command that goes on"));
        let (each, holds) = (nanos / self.ran, self.let_go + 1);
        stats.holds.record_many_ns(nanos / holds, holds);
        stats.begin_parts(goes_on, each);
        for (d, calls) in self.runs.drain(..).chain([(goes_on, self.same - 1)]).filter(|(_, calls)| *calls > 0) {
            stats.count(d, calls, each * calls);
        }
        *self = SharedTime::start();
        each
    }

    /// Reads the clock and counts what ran since the last reading; gives the nanoseconds between.
    pub(super) fn settle(&mut self, stats: &CommandStats) -> u64 {
        self.settle_by(stats, CommandStats::count)
    }

    /// Settles before a command that is timed by itself.
    #[inline]
    pub(super) fn settle_if(&mut self, apart: bool, stats: &CommandStats) {
        if apart {
            self.settle(stats);
        }
    }

    /// Like [`SharedTime::settle`], where one command has run, which waits.
    #[cold]
    pub(super) fn settle_waiting(&mut self, stats: &CommandStats) -> u64 {
        debug_assert_eq!(self.ran, 1, "a command that may wait is timed by itself");
        self.settle_by(stats, |stats, d, _, nanos| stats.count_waiting(d, nanos))
    }

    #[inline]
    fn settle_by(&mut self, stats: &CommandStats, count: impl Fn(&CommandStats, &Row, u64, u64)) -> u64 {
        if self.ran == 0 {
            self.start = Instant::now();
            return 0;
        }
        let now = Instant::now();
        let nanos = now.saturating_duration_since(self.start).as_nanos() as u64;
        self.start = now;
        let each = nanos / self.ran;
        let holds = std::mem::take(&mut self.let_go) + 1;
        stats.holds.record_many_ns(nanos / holds, holds);
        for (d, calls) in self.runs.drain(..).chain(self.last.map(|d| (d, self.same))) {
            count(stats, d, calls, each * calls);
        }
        (self.last, self.same, self.ran) = (None, 0, 0);
        nanos
    }
}
