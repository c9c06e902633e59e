//! Consumers that were deleted and have pending entries left, which nobody is shown: how many each has, and the bits by which a search
//! passes over subtrees that have no other entries.
//!
//! Not here: the entries (`pending.rs`), and taking them out.

use std::collections::BTreeMap;

/// See the head of the file.
#[derive(Clone, Debug, Default)]
pub(super) struct GoneConsumers {
    /// The number of each, and how many entries it has.
    left: BTreeMap<u32, u64>,
    /// The numbers of those that have none left.
    free: Vec<u32>,
    /// Entries of all of them.
    entries: u64,
    /// The bits of all of them since there were none.
    all: u64,
    /// Bits that are of such consumers alone: a subtree without others has nothing to show.
    bits: u64,
}

/// The bit by which nodes know that a consumer may have entries below.
#[inline]
pub(super) fn bit(consumer: u32) -> u64 {
    1 << (consumer % 64)
}

impl GoneConsumers {
    /// Entries of all of them.
    #[inline]
    pub(super) fn entries(&self) -> u64 {
        self.entries
    }

    /// Whether a consumer is one of them, with entries left.
    #[inline]
    pub(super) fn has(&self, consumer: u32) -> bool {
        self.entries > 0 && self.left.contains_key(&consumer)
    }

    /// Whether consumers with these bits can be no others.
    #[inline]
    pub(super) fn has_all(&self, bits: u64) -> bool {
        self.entries > 0 && bits & !self.bits == 0
    }

    /// Bits of all that may have entries left, and perhaps some more.
    pub(super) fn bits_of_all(&self) -> u64 {
        self.all
    }

    /// Whether entries are left, or numbers that are free again ([`GoneConsumers::take_free`]).
    #[inline]
    pub(super) fn is_any(&self) -> bool {
        !self.left.is_empty() || !self.free.is_empty()
    }

    /// A consumer with this number of entries is deleted; `others` has the bits of those that are not. O(log n).
    pub(super) fn add(&mut self, consumer: u32, entries: u64, others: u64) {
        debug_assert!(entries > 0, "without entries there is nothing to hide");
        let before = self.left.insert(consumer, entries);
        debug_assert!(before.is_none(), "a consumer is deleted once");
        self.entries += entries;
        self.all |= bit(consumer);
        self.bits = self.all & !others;
        debug_assert!(self.entries >= self.left.len() as u64, "each has entries left");
    }

    /// A consumer is new: entries with its bit may be its own.
    pub(super) fn meet(&mut self, consumer: u32) {
        let is_gone = self.left.contains_key(&consumer) || self.free.contains(&consumer);
        debug_assert!(!is_gone, "a number is free once nothing is left of it");
        self.bits &= !bit(consumer);
    }

    /// An entry of one of them was taken out.
    pub(super) fn take(&mut self, consumer: u32) {
        debug_assert!(self.entries > 0, "an entry of a deleted consumer is counted");
        self.entries -= 1;
        let left = self.left.get_mut(&consumer).expect("it has entries left");
        *left -= 1;
        if *left == 0 {
            self.left.remove(&consumer);
            self.free.push(consumer);
        }
    }

    /// The numbers that may be another consumer's now, since the last call.
    pub(super) fn take_free(&mut self) -> Vec<u32> {
        let free = std::mem::take(&mut self.free);
        debug_assert!(free.iter().all(|number| !self.left.contains_key(number)), "nothing is left of them");
        if self.left.is_empty() {
            debug_assert_eq!(self.entries, 0, "entries of consumers that are gone");
            *self = GoneConsumers::default();
        }
        free
    }

    /// Panics unless these are the entries that are left of each.
    pub(super) fn verify(&self, left: &BTreeMap<u32, u64>) {
        assert_eq!(left.values().sum::<u64>(), self.entries, "entries of deleted consumers");
        assert_eq!(self.left, *left, "entries of each deleted consumer");
    }
}
