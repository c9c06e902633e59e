//! The time as a worker knows it.
//!
//! Expiry goes by the wall clock, as clients name their times; everything that lasts (idle times, pauses, timeouts) goes by the
//! steady clock, which no operator sets back or forward.

use std::sync::LazyLock;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// Both clocks at the first reading of this process.
static FIRST: LazyLock<(i64, Instant)> = LazyLock::new(|| (wall_ms(), Instant::now()));

/// The time, read once for many uses.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Now {
    /// Milliseconds of Unix time, by the wall clock. It may jump.
    pub(crate) unix_ms: i64,
    /// Milliseconds of a clock that never jumps: it was the wall clock when the process began.
    pub(crate) steady_ms: i64,
    /// For durations.
    pub(crate) instant: Instant,
}

impl Now {
    pub(crate) fn read() -> Now {
        let (first_ms, first) = *FIRST;
        let instant = Instant::now();
        let steady_ms = first_ms + instant.saturating_duration_since(first).as_millis() as i64;
        Now { unix_ms: wall_ms(), steady_ms, instant }
    }
}

fn wall_ms() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis() as i64
}
