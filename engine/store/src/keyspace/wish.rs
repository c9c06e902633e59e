//! A wish: a try that was refused asks newcomers of another kind to stand back, so that it has its turn in the end.
//!
//! ```text
//!   63                             1        0
//!   │ until, ms of the wish's clock │ whose │        0: none
//! ```
//! Nobody waits for a wish, and nobody is told of it: newcomers look. Each further try that is refused renews it, and the first
//! one that is successful ends it. One that nobody renews lapses, since its client may be gone.

#[cfg(loom)]
use loom::sync::atomic::{AtomicU64, Ordering::Relaxed};
#[cfg(not(loom))]
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use std::time::Instant;

/// See the module's picture.
#[derive(Debug)]
pub(crate) struct Wish {
    word: AtomicU64,
    /// The beginning of its clock.
    epoch: Instant,
    /// Milliseconds for which it holds behind its last renewal.
    holds_ms: u64,
}

impl Wish {
    /// None yet; each one that is made holds for `holds_ms` milliseconds.
    pub(crate) fn new(holds_ms: u64) -> Wish {
        Wish { word: AtomicU64::new(0), epoch: Instant::now(), holds_ms }
    }

    /// The owner of the wish that holds now, as [`Wish::make`] was told; None without one.
    #[inline]
    pub(crate) fn whose(&self) -> Option<bool> {
        let word = self.word.load(Relaxed);
        if word == 0 { None } else { self.lasting(word) }
    }

    #[cold]
    fn lasting(&self, word: u64) -> Option<bool> {
        (self.now_ms() < word >> 1).then_some(word & 1 == 1)
    }

    /// Makes the wish, or renews it. Of two that are made at once one is lost, and made again with the next try.
    #[cold]
    pub(crate) fn make(&self, whose: bool) {
        self.word.store((self.now_ms() + self.holds_ms) << 1 | u64::from(whose), Relaxed);
    }

    /// Ends the wish, whoever's it is.
    #[inline]
    pub(crate) fn end(&self) {
        if self.word.load(Relaxed) != 0 {
            self.word.store(0, Relaxed);
        }
    }

    /// Milliseconds since it was set up; the time of models stands still.
    fn now_ms(&self) -> u64 {
        if cfg!(loom) { 0 } else { self.epoch.elapsed().as_millis() as u64 }
    }

    /// Has the wish that was made hold for an hour more, on a machine that stands still for a while.
    #[cfg(test)]
    pub(crate) fn prolong(&self) {
        let word = self.word.load(Relaxed);
        assert!(word != 0, "somebody has a wish");
        self.word.store(word + (3_600_000 << 1), Relaxed);
    }

    /// Lets as much time pass as a wish holds.
    #[cfg(test)]
    pub(crate) fn lapse(&mut self) {
        self.epoch -= std::time::Duration::from_millis(self.holds_ms);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wish_holds_until_it_ends_or_lapses() {
        let mut wish = Wish::new(3_600_000);
        assert_eq!(wish.whose(), None);
        for whose in [true, false] {
            wish.make(whose);
            assert_eq!(wish.whose(), Some(whose), "the last one that was made");
        }
        wish.end();
        assert_eq!(wish.whose(), None);
        wish.make(true);
        wish.lapse();
        assert_eq!(wish.whose(), None);
        wish.make(true);
        assert_eq!(wish.whose(), Some(true), "it is renewed");
    }
}
