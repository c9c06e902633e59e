//! Why a connection's requests are not executed at present: a set of reasons, each with an owner that adds it and lifts
//! it.
//!
//! | reason | from | until |
//! |---|---|---|
//! | OUTPUT | more unsent output than `PAUSE_BYTES` | half of it is written |
//! | PAUSE | CLIENT PAUSE holds the next request back | the pause ends or changes |
//! | INBOX | the connection has filled another worker's inbox with what it published | the inboxes have room |
//! | MESSAGES | it listens, and has published or was served: messages lie before its reply | they are delivered |
//! | BARRIER | others keep copies of what its commands changed | the invalidations are with them |
//! | QUESTION | a question of its is with all workers | all workers have answered |
//! | WORK | SAVE, DEBUG LOADAOF, REPLICAOF NO ONE | the file is on disk or could not be written, the data loaded, the server leads or follows another one |
//! | KEYS | a command of its waits for keys | it is served, unblocked, or its time is up |
//! | LINK | its command waits for another server | something has come of the link, or it has failed |
//! | SCRIPT | its script has run for a while, and rests | the script has ended |
//! | CLOSING | QUIT, a protocol error, CLIENT KILL of itself | never: it is closed when its output is written |
//!
//! Requests are executed while the set is empty. Where a whole request waits here, each reason but OUTPUT also holds back
//! reading: the client's socket then holds the client back. BARRIER holds back the writing of replies, and CLOSING holds back
//! all reading.

/// See the module's table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct WaitReasons(u16);

impl WaitReasons {
    /// Too much unsent output.
    pub(crate) const OUTPUT: WaitReasons = WaitReasons(1 << 0);
    /// CLIENT PAUSE.
    pub(crate) const PAUSE: WaitReasons = WaitReasons(1 << 1);
    /// Inboxes of other workers are full.
    pub(crate) const INBOX: WaitReasons = WaitReasons(1 << 2);
    /// Invalidations are on their way.
    pub(crate) const BARRIER: WaitReasons = WaitReasons(1 << 3);
    /// A question to all workers.
    pub(crate) const QUESTION: WaitReasons = WaitReasons(1 << 4);
    /// A command waits for keys.
    pub(crate) const KEYS: WaitReasons = WaitReasons(1 << 5);
    /// The connection ends.
    pub(crate) const CLOSING: WaitReasons = WaitReasons(1 << 6);
    /// Messages that are to stand before its reply are not delivered yet.
    pub(crate) const MESSAGES: WaitReasons = WaitReasons(1 << 7);
    /// The server does for it what takes a while.
    pub(crate) const WORK: WaitReasons = WaitReasons(1 << 8);
    /// Its command waits for another server.
    pub(crate) const LINK: WaitReasons = WaitReasons(1 << 9);
    /// Its script rests.
    pub(crate) const SCRIPT: WaitReasons = WaitReasons(1 << 10);

    /// True if nothing holds requests back.
    #[inline]
    pub(crate) fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// True if this reason is among them.
    #[inline]
    pub(crate) fn has(self, reason: WaitReasons) -> bool {
        debug_assert!(reason.0.is_power_of_two(), "one reason at a time is asked for");
        self.0 & reason.0 != 0
    }

    /// True if nothing is waited for but that the client takes its output.
    pub(crate) fn is_for_client(self) -> bool {
        self.0 & !(WaitReasons::OUTPUT.0 | WaitReasons::CLOSING.0) == 0
    }

    /// True if this reason is there and no other.
    #[inline]
    pub(crate) fn is_only(self, reason: WaitReasons) -> bool {
        self == reason
    }

    /// Adds a reason; false if it was there.
    pub(crate) fn add(&mut self, reason: WaitReasons) -> bool {
        let is_new = !self.has(reason);
        self.0 |= reason.0;
        is_new
    }

    /// Takes a reason away; false if it was not there. A connection that closes goes on closing.
    pub(crate) fn lift(&mut self, reason: WaitReasons) -> bool {
        assert!(reason != WaitReasons::CLOSING, "a connection that ends does not begin again");
        let was_there = self.has(reason);
        self.0 &= !reason.0;
        was_there
    }

    /// Adds or takes away a reason.
    #[inline]
    pub(crate) fn set(&mut self, reason: WaitReasons, on: bool) {
        if on {
            self.add(reason);
        } else if self.has(reason) {
            self.lift(reason);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [WaitReasons; 11] = [
        WaitReasons::SCRIPT,
        WaitReasons::LINK,
        WaitReasons::OUTPUT,
        WaitReasons::PAUSE,
        WaitReasons::INBOX,
        WaitReasons::BARRIER,
        WaitReasons::QUESTION,
        WaitReasons::KEYS,
        WaitReasons::CLOSING,
        WaitReasons::MESSAGES,
        WaitReasons::WORK,
    ];

    #[test]
    fn reasons_are_apart() {
        for (nth, reason) in ALL.into_iter().enumerate() {
            let mut waits = WaitReasons::default();
            assert!(waits.add(reason) && !waits.add(reason) && !waits.is_empty());
            for (other, &is_there) in ALL.iter().zip((0..ALL.len()).map(|n| n == nth).collect::<Vec<_>>().iter()) {
                assert_eq!(waits.has(*other), is_there, "{reason:?} {other:?}");
                assert_eq!(waits.is_only(*other), is_there, "{reason:?} {other:?}");
            }
        }
    }

    /// Whatever the order in which two reasons come and go, requests run again only when both are gone.
    #[test]
    fn it_runs_when_the_last_reason_is_lifted() {
        for first in ALL {
            for second in ALL.into_iter().filter(|second| *second != first) {
                let mut waits = WaitReasons::default();
                waits.add(first);
                waits.add(second);
                for reason in [first, second] {
                    if reason == WaitReasons::CLOSING {
                        continue;
                    }
                    assert!(waits.lift(reason) && !waits.has(reason));
                    assert!(!waits.lift(reason), "it is gone");
                }
                let closes = first == WaitReasons::CLOSING || second == WaitReasons::CLOSING;
                assert_eq!(waits.is_empty(), !closes);
            }
        }
    }

    #[test]
    fn set_follows_a_condition() {
        let mut waits = WaitReasons::default();
        for (on, empty) in [(false, true), (true, false), (true, false), (false, true)] {
            waits.set(WaitReasons::OUTPUT, on);
            assert_eq!((waits.has(WaitReasons::OUTPUT), waits.is_empty()), (on, empty));
        }
    }

    #[test]
    #[should_panic(expected = "does not begin again")]
    fn closing_is_not_lifted() {
        WaitReasons::default().lift(WaitReasons::CLOSING);
    }
}
