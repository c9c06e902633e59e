//! Where leaves begin, told without looking into them: for sets with so many equal scores that least keys do not tell.
//!
//! ```text
//!   stem        of the first members of all leaves but the outermost
//!   marks       number of a leaf -> hint of a member: all in the leaf have this one or a greater one, all in the leaf
//!                                   before this one or a lesser one, as far as they have the leaf's least key
//! ```
//! A mark is set together with the least key, so that both are of one member, which need not be there any more. That of the
//! first leaf is 0 as soon as anything is put in front of its first member.
//!
//! Not here: when marks are worth their 16 bytes a leaf, and when they want another stem (`tree`).

use std::cmp::Ordering;

use super::hint::{CommonPrefix, hint128, rest};
use crate::counted_tree::Leaf;
use crate::counted_tree::arena::Arena;

/// Marks in a chunk of the arena: 64 KB.
const CHUNK_SHIFT: usize = 12;

/// See the head of the file.
pub(super) struct LeafFingerprints {
    stem: CommonPrefix,
    marks: Arena<u128, CHUNK_SHIFT>,
}

impl LeafFingerprints {
    pub(super) fn new(stem: CommonPrefix) -> LeafFingerprints {
        LeafFingerprints { stem, marks: Arena::new() }
    }

    pub(super) fn stem(&self) -> &CommonPrefix {
        &self.stem
    }

    /// Bytes of memory, its own too.
    pub(super) fn bytes(&self) -> usize {
        size_of::<LeafFingerprints>() + self.marks.bytes()
    }

    /// What a member's place among the marks is told by.
    #[inline]
    pub(super) fn hint(&self, member: &[u8]) -> u128 {
        match rest(self.stem.get(), member) {
            Ok(rest) => hint128(rest),
            Err(Ordering::Less) => 0,
            Err(_) => u128::MAX,
        }
    }

    /// The mark of a leaf beside a hint.
    #[inline]
    pub(super) fn compare(&self, leaf: Leaf, hint: u128) -> Ordering {
        self.marks[leaf.number() as usize].cmp(&hint)
    }

    /// Tells with which member a leaf begins.
    pub(super) fn set(&mut self, leaf: Leaf, member: &[u8]) {
        self.put(leaf, self.hint(member));
    }

    /// Tells that a leaf is before all others.
    pub(super) fn set_first(&mut self, leaf: Leaf) {
        self.put(leaf, 0);
    }

    fn put(&mut self, leaf: Leaf, mark: u128) {
        let at = leaf.number() as usize;
        while self.marks.len() <= at {
            self.marks.push(0);
        }
        self.marks[at] = mark;
    }

    /// Gives back some of the memory; true when none is left.
    pub(super) fn shed(&mut self) -> bool {
        self.marks.shed()
    }
}
