//! The time as a worker knows it.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// The time, read once for many uses.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Now {
    /// Milliseconds of Unix time.
    pub(crate) unix_ms: i64,
    /// For durations.
    pub(crate) instant: Instant,
}

impl Now {
    pub(crate) fn read() -> Now {
        let unix = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Now { unix_ms: unix.as_millis() as i64, instant: Instant::now() }
    }
}
