//! Output that waits for the append-only file, under `appendfsync always`: the end of the stream to the client, from mark to
//! mark.
//!
//! ```text
//!   bytes to the client:   sent | may be sent | from mark 1: until position 10 | from mark 2: until position 25 | ...
//!                                             the file is synced up to 12 --> mark 1 goes
//! ```
//! Requests are executed meanwhile: their replies stand behind, in their order, and the client waits for room like any other
//! when its unsent output is too much. Not here: who is woken when (persist/aof/waiting.rs).

use std::collections::VecDeque;

/// See the module's picture.
#[derive(Debug, Default)]
pub(super) struct Filed {
    /// Bytes that were ever sent.
    sent: u64,
    /// Marks, both of their numbers ascending.
    marks: VecDeque<Mark>,
}

#[derive(Debug)]
struct Mark {
    /// Number of the first byte that waits.
    from: u64,
    /// The position of the journal that it waits for.
    until: u64,
}

impl Filed {
    /// Number of the byte behind `unsent` bytes of output.
    #[inline]
    pub(super) fn end(&self, unsent: usize) -> u64 {
        self.sent + unsent as u64
    }

    /// Bytes were sent.
    #[inline]
    pub(super) fn note_sent(&mut self, bytes: usize) {
        debug_assert!(bytes <= self.sendable(), "nothing is sent that waits");
        self.sent += bytes as u64;
    }

    /// Bytes that may be sent now.
    #[inline]
    pub(super) fn sendable(&self) -> usize {
        self.marks.front().map_or(usize::MAX, |mark| mark.from.saturating_sub(self.sent) as usize)
    }

    /// Bytes behind number `from` wait until the journal is synced up to `until`. True if nothing waited.
    pub(super) fn hold(&mut self, from: u64, until: u64) -> bool {
        let was_empty = self.marks.is_empty();
        match self.marks.back_mut() {
            Some(last) if last.until >= until => {}
            // A reply that comes later, or none, stands there.
            Some(last) if last.from >= from => last.until = until,
            _ => self.marks.push_back(Mark { from, until }),
        }
        was_empty
    }

    /// The journal is synced up to here. Gives the position that the next bytes wait for.
    pub(super) fn let_go(&mut self, synced: u64) -> Option<u64> {
        while self.marks.front().is_some_and(|mark| mark.until <= synced) {
            self.marks.pop_front();
        }
        self.marks.front().map(|mark| mark.until)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_wait_from_mark_to_mark() {
        let mut filed = Filed::default();
        assert_eq!(filed.sendable(), usize::MAX);
        filed.note_sent(100);
        assert!(filed.hold(filed.end(20), 10));
        assert!(!filed.hold(filed.end(50), 10) && !filed.hold(filed.end(50), 9), "what stands behind waits anyhow");
        assert!(!filed.hold(filed.end(70), 25));
        assert_eq!(filed.sendable(), 20);
        filed.note_sent(15);
        assert_eq!((filed.sendable(), filed.let_go(9)), (5, Some(10)));
        assert_eq!((filed.let_go(12), filed.sendable()), (Some(25), 55));
        assert!(!filed.hold(filed.end(55), 30), "no reply came between: one mark");
        assert_eq!((filed.let_go(25), filed.sendable()), (Some(30), 55));
        assert_eq!((filed.let_go(30), filed.sendable()), (None, usize::MAX));
    }
}
