//! The times after which turns and scripts make room for others, and between samples.

use std::ops::Range;
use std::time::Duration;

use crate::hot_keys::SAMPLE_TIMES;

/// The time that is as good as none: no script runs for a year.
const YEAR: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// The times after which turns and scripts make room for others, and between samples. The clock is read for commands whose time
/// is not constant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TurnTimes {
    /// A turn ends behind the command that exceeds it, nanoseconds.
    pub(super) turn_ns: u64,
    /// A command that goes on ends its turn behind the part that exceeds it, nanoseconds.
    pub(super) parts_ns: u64,
    /// A script rests behind it.
    pub(super) slice: Duration,
    /// The time between two commands that are sampled for the rankings of keys.
    pub(super) samples: Range<Duration>,
}

impl TurnTimes {
    /// The times of a server: a millisecond each, and some milliseconds between samples.
    pub const SERVED: TurnTimes =
        TurnTimes { turn_ns: 1_000_000, parts_ns: 1_000_000, slice: Duration::from_millis(1), samples: SAMPLE_TIMES };
    /// Each part of a command that goes on is a turn, for tests that step through it.
    pub const STEPPED: TurnTimes = TurnTimes { parts_ns: 0, ..TurnTimes::SERVED };
    /// Nothing ends by time, and samples are as rare as they become, where instructions are counted: the speed of the machine
    /// says else how many turns there are, and how many samples.
    pub const ENDLESS: TurnTimes =
        TurnTimes { turn_ns: u64::MAX, parts_ns: u64::MAX, slice: YEAR, samples: YEAR..YEAR };
}
