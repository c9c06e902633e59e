//! CLIENT PAUSE: what is held back, and until when.
//!
//! ```text
//!   PAUSE: stored here --> asked of all workers, so that each has come to the end of its turn --> OK
//!   each turn:             the executor is told what to hold back; a connection whose next request is held stands aside
//!   time is up, UNPAUSE:   each worker queues those that stood aside
//! ```
//! A pause that begins while another one lasts makes it stricter or longer, never shorter. Not here: which commands are
//! held (`varve_exec::pause`).

use std::sync::atomic::{AtomicI64, AtomicU8, Ordering};

use parking_lot::Mutex;
use varve_exec::pause::Pause;

/// See the module's picture.
#[derive(Debug, Default)]
pub(crate) struct Pauses {
    /// 0: none, 1: writes, 2: all.
    kind: AtomicU8,
    /// Milliseconds of Unix time.
    until_ms: AtomicI64,
    /// Held by who begins or ends a pause.
    change: Mutex<()>,
}

impl Pauses {
    /// Begins a pause, or adds it to the one that lasts; gives its end.
    pub(crate) fn begin(&self, pause: Pause, until_ms: i64, now_ms: i64) -> i64 {
        let _change = self.change.lock();
        let (mut kind, mut until) = (pause as u8, until_ms);
        if self.now(now_ms) != Pause::None {
            kind = kind.max(self.kind.load(Ordering::Relaxed));
            until = until.max(self.until_ms.load(Ordering::Relaxed));
        }
        self.until_ms.store(until, Ordering::Relaxed);
        self.kind.store(kind, Ordering::Release);
        until
    }

    /// Ends the pause.
    pub(crate) fn end(&self) {
        let _change = self.change.lock();
        self.kind.store(Pause::None as u8, Ordering::Release);
    }

    /// The commands that are held back at this time.
    #[inline]
    pub(crate) fn now(&self, now_ms: i64) -> Pause {
        match self.kind.load(Ordering::Acquire) {
            0 => Pause::None,
            _ if now_ms >= self.until_ms.load(Ordering::Relaxed) => Pause::None,
            1 => Pause::Writes,
            _ => Pause::All,
        }
    }

    /// When the pause ends by itself.
    pub(crate) fn until_ms(&self) -> i64 {
        self.until_ms.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_pause_never_shortens_the_first() {
        let pauses = Pauses::default();
        assert_eq!(pauses.begin(Pause::All, 100, 0), 100);
        assert_eq!(pauses.begin(Pause::Writes, 50, 0), 100);
        assert_eq!((pauses.now(99), pauses.now(100)), (Pause::All, Pause::None));
        assert_eq!(pauses.begin(Pause::Writes, 150, 100), 150);
        assert_eq!(pauses.now(100), Pause::Writes);
        pauses.end();
        assert_eq!(pauses.now(100), Pause::None);
    }
}
