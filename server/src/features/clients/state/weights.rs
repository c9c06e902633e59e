//! Weights of the clients of a worker: the bytes that each takes, by size.
//!
//! ```text
//!   class     0          1         2                 18
//!   bytes    < 64 KB   < 128 KB  < 256 KB  ...     from 8 GB on
//! ```
//!
//! A worker writes its own weights, at the end of each visit to a connection that changed them; every worker reads all of
//! them to learn whether the clients together are over `maxmemory-clients`, and who has the largest. Clients that are not
//! to be evicted weigh nothing.

use varve_base::counter::Counter;

/// Number of classes.
const CLASSES: usize = 19;
/// Of the first class, the binary logarithm of the bytes from which on the second begins, less one.
const FIRST: u32 = 15;

/// See the module's picture.
#[derive(Debug, Default)]
pub(crate) struct Weights {
    total: Counter,
    classes: [Counter; CLASSES],
}

impl Weights {
    /// A client weighs `after` bytes in place of `before`. Only the owning worker calls this.
    pub(crate) fn change(&self, before: usize, after: usize) {
        for counter in [&self.total, &self.classes[class(before)]] {
            counter.set(counter.get() - before as u64);
        }
        for counter in [&self.total, &self.classes[class(after)]] {
            counter.add(after as u64);
        }
    }

    /// Bytes of all its clients.
    pub(crate) fn total(&self) -> u64 {
        self.total.get()
    }

    /// The class of its largest client; None if nobody weighs anything.
    pub(crate) fn top(&self) -> Option<usize> {
        (0..CLASSES).rev().find(|&class| self.classes[class].get() > 0)
    }
}

/// The class of a client of `bytes` bytes.
pub(crate) fn class(bytes: usize) -> usize {
    let log = (bytes as u64).max(1).ilog2();
    (log.saturating_sub(FIRST) as usize).min(CLASSES - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_move_from_class_to_class() {
        let weights = Weights::default();
        assert_eq!((weights.total(), weights.top()), (0, None));
        weights.change(0, 1000);
        weights.change(0, 3 << 20);
        assert_eq!((weights.total(), weights.top()), (1000 + (3 << 20), Some(class(3 << 20))));
        weights.change(3 << 20, 100_000);
        assert_eq!(weights.top(), Some(class(100_000)));
        weights.change(100_000, 0);
        assert_eq!((weights.total(), weights.top()), (1000, Some(0)));
    }

    #[test]
    fn classes_are_powers_of_two() {
        assert_eq!([0, 1, 65_535, 65_536, 131_071, 131_072].map(class), [0, 0, 0, 1, 1, 2]);
        assert_eq!((class(8 << 30), class(usize::MAX)), (CLASSES - 1, CLASSES - 1));
    }
}
