//! How much of what is owed one turn does: work that many may leave behind, and that nobody is to wait for.
//!
//! ```text
//!   items   0 ........ least ................................ owed / 128
//!           always     as long as the turn's millisecond lasts
//! ```
//! A share by items alone was tried, with a number for each millisecond since the turn before. It had turns of tens of thousands of items
//! behind a pause, and a turn that takes longer than its items were thought to has the next one do as many.

use std::time::{Duration, Instant};

/// A turn does this part of what is owed, so that what is owed does not grow without end, however fast it comes.
pub const PART: usize = 128;
/// A turn does no more than its least items for longer than this.
const LONGEST: Duration = Duration::from_millis(1);
/// Items between two looks at the clock: of the dearest ones, some 50 us.
const LOOK_EVERY: usize = 64;

/// The items that a turn does, one for each `next`, by their numbers: `least` at least, and up to a [`PART`] of what is owed within
/// a millisecond.
#[derive(Debug)]
pub struct Share {
    done: usize,
    least: usize,
    most: usize,
    /// None: all of its items are its least.
    begun: Option<Instant>,
}

impl Share {
    /// The share of a turn that begins now.
    pub fn of(owed: usize, least: usize) -> Share {
        let most = (owed / PART).max(least);
        Share { done: 0, least, most, begun: (most > least).then(Instant::now) }
    }
}

impl Iterator for Share {
    type Item = usize;

    #[inline]
    fn next(&mut self) -> Option<usize> {
        let nth = self.done;
        let is_over = nth >= self.most
            || nth >= self.least
                && (nth - self.least).is_multiple_of(LOOK_EVERY)
                && self.begun.is_some_and(|begun| begun.elapsed() >= LONGEST);
        if is_over {
            // It stays over: the clock is not asked again, whose next look would be some items later.
            self.most = nth;
            return None;
        }
        self.done += 1;
        Some(nth)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_grows_with_what_is_owed() {
        for (owed, expected) in [(0, 10), (PART * 10, 10), (PART * 50, 50), (PART * 50 + 1, 50)] {
            let all: Vec<usize> = Share::of(owed, 10).collect();
            assert_eq!(all, (0..expected).collect::<Vec<_>>(), "{owed} owed");
        }
    }

    #[test]
    fn a_share_ends_when_its_time_is_over() {
        // The clock of a busy machine may end it at once, but not before its least.
        let mut share = Share::of(usize::MAX, 10);
        assert!(share.by_ref().count() >= 10, "it ends by itself");
        assert_eq!(share.next(), None, "and stays over");
        let mut late = Share::of(usize::MAX, 10);
        std::thread::sleep(2 * LONGEST);
        assert_eq!(late.by_ref().count(), 10);
        assert_eq!(late.next(), None);
        let looks = (0..100).any(|_| {
            let mut later = Share::of(usize::MAX, 10);
            // It is over already where this thread has just been off its processor for long.
            let is_begun = later.by_ref().take(11).count() == 11;
            std::thread::sleep(2 * LONGEST);
            let left = later.count();
            assert_eq!(left, if is_begun { LOOK_EVERY - 1 } else { 0 }, "until the next look at the clock");
            is_begun
        });
        assert!(looks, "it goes on behind its least");
    }
}
