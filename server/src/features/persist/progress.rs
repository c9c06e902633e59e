//! The progress of loading: what INFO and the log say of it.
//!
//! ```text
//!   Loading: 42.0% of 2048 MB, 180 MB/s, 7 seconds left      every 5 seconds
//! ```
//! An append-only file has several files, and one progress over all of them.

use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use super::state::Loading;
use crate::time_left::time_left_s;

/// Time between two lines of the log.
const REPORT_EVERY: Duration = Duration::from_secs(5);

/// See the module's picture.
#[derive(Debug)]
pub(super) struct Progress {
    began: Instant,
    reported: Instant,
    /// Bytes of the files before this one.
    before: u64,
}

impl Progress {
    /// One that begins at the bytes that have been read so far.
    pub(super) fn new(loading: &Loading) -> Progress {
        let now = Instant::now();
        Progress { began: now, reported: now, before: loading.done_bytes.load(Relaxed) }
    }

    /// The file has been read up to `offset`, in bytes: notes it, logs it now and then, and gives the bytes of all files.
    pub(super) fn come_to(&mut self, loading: &Loading, offset: u64) -> u64 {
        let done = self.before + offset;
        loading.done_bytes.store(done, Relaxed);
        if self.reported.elapsed() >= REPORT_EVERY {
            self.reported = Instant::now();
            let total = loading.total_bytes.load(Relaxed);
            tracing::info!("{}", line(offset, done, total, self.began.elapsed()));
        }
        done
    }
}

/// A line of the log: `offset` bytes were read in this time, which makes `done` of `total`.
fn line(offset: u64, done: u64, total: u64, elapsed: Duration) -> String {
    let total = total.max(done);
    let rate = offset as f64 / elapsed.as_secs_f64().max(0.001);
    let left_s = time_left_s(offset, offset + (total - done), elapsed.as_millis() as u64);
    format!(
        "Loading: {:.1}% of {} MB, {:.0} MB/s, {} seconds left",
        done as f64 * 100.0 / total.max(1) as f64,
        total >> 20,
        rate / (1 << 20) as f64,
        left_s.unwrap_or_default()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_the_rate_and_the_time_that_is_left() {
        let mb = 1 << 20;
        let text = line(40 * mb, 50 * mb, 90 * mb, Duration::from_secs(2));
        assert_eq!(text, "Loading: 55.6% of 90 MB, 20 MB/s, 2 seconds left");
        assert_eq!(line(0, 0, 0, Duration::ZERO), "Loading: 0.0% of 0 MB, 0 MB/s, 0 seconds left");
    }

    #[test]
    fn the_bytes_of_files_before_this_one_count() {
        let loading = Loading::default();
        loading.begin(0, 100);
        Progress::new(&loading).come_to(&loading, 30);
        Progress::new(&loading).come_to(&loading, 20);
        assert_eq!(loading.done_bytes.load(Relaxed), 50);
    }
}
