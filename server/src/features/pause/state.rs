//! CLIENT PAUSE: what is held back, and until when. And holds: the server itself keeps writes back until something has ended.
//!
//! ```text
//!   PAUSE: stored here --> asked of all workers, so that each has come to the end of its turn --> OK
//!   each turn:             the executor is told what to hold back; a connection whose next request is held stands aside
//!   time is up, UNPAUSE:   each worker queues those that stood aside
//!
//!   kind   | 7 .. 4 | 3 shutdown | 2 failover | 1 0 clients' pause: none, writes, all |
//! ```
//! A pause that begins while another one lasts makes it stricter or longer, never shorter. CLIENT UNPAUSE ends what CLIENT PAUSE
//! began, and no hold. Not here: which commands are held (`varve_exec::pause`).

use std::sync::atomic::Ordering;

use varve_base::shared::{SharedI64, SharedMutex, SharedU8};
use varve_exec::pause::Pause;

/// The bits of a kind that clients have asked for.
const ASKED: u8 = 3;

/// Something of the server's own that holds writes back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Hold {
    /// FAILOVER: a replica is to have all that was written, and to take this server's place.
    Failover = 4,
    /// SHUTDOWN: replicas are to have all that was written.
    Shutdown = 8,
}

/// See the module's picture.
#[derive(Debug, Default)]
pub(crate) struct Pauses {
    /// See the module's picture.
    kind: SharedU8,
    /// When the clients' pause ends, milliseconds of the steady clock.
    until_ms: SharedI64,
    /// Held by who begins or ends a pause.
    change: SharedMutex<()>,
}

impl Pauses {
    /// Begins a pause, or adds it to the one that lasts; gives its end.
    pub(crate) fn begin(&self, pause: Pause, until_ms: i64, now_ms: i64) -> i64 {
        let _change = self.change.lock();
        let (mut kind, mut until) = (pause, until_ms);
        let asked = self.asked(self.kind.load(Ordering::Relaxed), now_ms);
        if asked != Pause::None {
            kind = kind.max(asked);
            until = until.max(self.until_ms.load(Ordering::Relaxed));
        }
        self.until_ms.store(until, Ordering::Relaxed);
        self.set(ASKED, kind as u8);
        until
    }

    /// Ends the clients' pause.
    pub(crate) fn end(&self) {
        let _change = self.change.lock();
        self.set(ASKED, 0);
    }

    /// Holds writes back until [`Pauses::release`].
    pub(crate) fn hold(&self, hold: Hold) {
        let _change = self.change.lock();
        self.set(hold as u8, hold as u8);
    }

    /// Holds writes back for this reason no longer.
    pub(crate) fn release(&self, hold: Hold) {
        let _change = self.change.lock();
        self.set(hold as u8, 0);
    }

    /// True while something of the server's own holds writes back.
    pub(crate) fn is_held(&self) -> bool {
        self.kind.load(Ordering::Acquire) & !ASKED != 0
    }

    /// Gives these bits of the kind this value. The changes are locked.
    fn set(&self, bits: u8, value: u8) {
        let others = self.kind.load(Ordering::Relaxed) & !bits;
        self.kind.store(others | value, Ordering::Release);
    }

    /// The commands that are held back at this time.
    #[inline]
    pub(crate) fn now(&self, now_ms: i64) -> Pause {
        match self.kind.load(Ordering::Acquire) {
            0 => Pause::None,
            kind => self.of(kind, now_ms),
        }
    }

    #[cold]
    fn of(&self, kind: u8, now_ms: i64) -> Pause {
        let held = if kind & !ASKED == 0 { Pause::None } else { Pause::Writes };
        self.asked(kind, now_ms).max(held)
    }

    fn asked(&self, kind: u8, now_ms: i64) -> Pause {
        match kind & ASKED {
            0 => Pause::None,
            _ if now_ms >= self.until_ms.load(Ordering::Relaxed) => Pause::None,
            1 => Pause::Writes,
            _ => Pause::All,
        }
    }

    /// When what is held back is held no longer, by itself: never while the server holds it.
    pub(crate) fn until_ms(&self) -> i64 {
        if self.is_held() { i64::MAX } else { self.until_ms.load(Ordering::Relaxed) }
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

    #[test]
    fn issue_17_what_the_server_holds_outlasts_what_clients_pause() {
        let pauses = Pauses::default();
        pauses.hold(Hold::Failover);
        assert_eq!((pauses.now(5), pauses.until_ms()), (Pause::Writes, i64::MAX));
        assert_eq!(pauses.begin(Pause::All, 100, 5), 100, "a hold has no end that a pause could have");
        assert_eq!((pauses.now(99), pauses.now(100)), (Pause::All, Pause::Writes));
        pauses.hold(Hold::Shutdown);
        pauses.end();
        pauses.release(Hold::Failover);
        assert_eq!((pauses.now(5), pauses.is_held()), (Pause::Writes, true));
        pauses.release(Hold::Shutdown);
        assert_eq!((pauses.now(5), pauses.until_ms()), (Pause::None, 100));
    }
}
