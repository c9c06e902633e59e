//! Fingerprints say where leaves begin without a look into them: for sets in which many scores are equal, so that
//! separators do not say it.
//!
//! ```text
//!   common prefix        of the first members of all leaves but the outermost
//!   fingerprints       number of a leaf -> key prefix of a member: all in the leaf have this one or a greater one, all in the leaf
//!                                   before this one or a lesser one, as far as they have the leaf's least key
//! ```
//! A fingerprint is set together with the least key, so that both are of one member, which need not be there any more. That of the
//! first leaf is 0 as soon as anything is put in front of its first member.
//!
//! Not here: when fingerprints are worth their 16 bytes a leaf, and when they want another common prefix (`tree`).

use std::cmp::Ordering;

use super::key_prefix::{CommonPrefix, key_prefix128, rest};
use crate::counted_tree::Leaf;
use crate::counted_tree::arena::Arena;

/// Fingerprints in a chunk of the arena: 64 KB.
const CHUNK_SHIFT: usize = 12;

/// See the head of the file.
pub(super) struct LeafFingerprints {
    common: CommonPrefix,
    fingerprints: Arena<u128, CHUNK_SHIFT>,
}

impl LeafFingerprints {
    pub(super) fn new(common: CommonPrefix) -> LeafFingerprints {
        LeafFingerprints { common, fingerprints: Arena::new() }
    }

    pub(super) fn common(&self) -> &CommonPrefix {
        &self.common
    }

    /// Bytes of memory, its own too.
    pub(super) fn bytes(&self) -> usize {
        size_of::<LeafFingerprints>() + self.fingerprints.bytes()
    }

    /// The bytes that decide a member's place among the fingerprints.
    #[inline]
    pub(super) fn key_prefix(&self, member: &[u8]) -> u128 {
        match rest(self.common.get(), member) {
            Ok(rest) => key_prefix128(rest),
            Err(Ordering::Less) => 0,
            Err(_) => u128::MAX,
        }
    }

    /// The fingerprint of a leaf beside a key prefix.
    #[inline]
    pub(super) fn compare(&self, leaf: Leaf, key_prefix: u128) -> Ordering {
        self.fingerprints[leaf.number() as usize].cmp(&key_prefix)
    }

    /// Tells with which member a leaf begins.
    pub(super) fn set(&mut self, leaf: Leaf, member: &[u8]) {
        self.put(leaf, self.key_prefix(member));
    }

    /// Tells that a leaf is before all others.
    pub(super) fn set_first(&mut self, leaf: Leaf) {
        self.put(leaf, 0);
    }

    fn put(&mut self, leaf: Leaf, fingerprint: u128) {
        let at = leaf.number() as usize;
        while self.fingerprints.len() <= at {
            self.fingerprints.push(0);
        }
        self.fingerprints[at] = fingerprint;
    }

    /// Gives back some of the memory; true when none is left.
    pub(super) fn shrink(&mut self) -> bool {
        self.fingerprints.shrink()
    }
}
