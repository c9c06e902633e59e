//! Fingerprints say where leaves begin without a look into them: for sets in which many scores are equal, so that
//! separators do not say it.
//!
//! ```text
//!   common prefix   of the first members of all leaves but the outermost
//!   fingerprint     number of a leaf -> key prefix of a member: all in the leaf have this one or a greater one, all in the leaf
//!                                       before it this one or a lesser one, as far as they have the leaf's least key
//!
//!   member          e l e m e n t : 0 0 0 0 4 7 1 1 0 8 1 5
//!                   `common prefix -'`---- rest ------'
//!                                   `- key prefix ... '     the first 16 bytes of the rest as a number, the first byte highest;
//!                                                           zeros follow where it is short
//! ```
//! A fingerprint is set together with the least key, so that both are of one member, which need not be there any more. That of
//! the first leaf is 0 as soon as anything is put in front of its first member.
//!
//! Whatever the common prefix, key prefixes never fall from a member to a greater one: those that do not begin with the common
//! prefix are before all that do, or behind them. Equal key prefixes tell nothing.
//!
//! Not here: when fingerprints are worth their 16 bytes a leaf, and when they want another common prefix (`tree`).

use std::cmp::Ordering;

use varve_base::mem::equal;

use crate::counted_tree::Leaf;
use crate::counted_tree::arena::Arena;

/// Fingerprints in a chunk of the arena: 64 KB.
const CHUNK_SHIFT: usize = 12;
/// The longest common prefix that is kept.
const COMMON_MAX: usize = 30;

/// The first bytes of some members.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CommonPrefix {
    len: u8,
    bytes: [u8; COMMON_MAX],
}

impl CommonPrefix {
    /// No bytes: every member begins with it.
    const NONE: CommonPrefix = CommonPrefix { len: 0, bytes: [0; COMMON_MAX] };

    /// The bytes up to the most that are kept.
    pub(super) fn of(bytes: &[u8]) -> CommonPrefix {
        let len = bytes.len().min(COMMON_MAX);
        let mut common = CommonPrefix { len: len as u8, ..CommonPrefix::NONE };
        common.bytes[..len].copy_from_slice(&bytes[..len]);
        common
    }

    /// The bytes that two members both begin with, at most as many as are kept.
    pub(super) fn common(a: &[u8], b: &[u8]) -> CommonPrefix {
        CommonPrefix::of(&a[..a.iter().zip(b).take_while(|(a, b)| a == b).count()])
    }

    #[inline]
    pub(super) fn get(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }

    /// The number that decides a member's place among others.
    #[inline]
    fn key_prefix(&self, member: &[u8]) -> u128 {
        match member.split_at_checked(self.get().len()) {
            Some((start, rest)) if equal(start, self.get()) => key_prefix128(rest),
            _ if member < self.get() => 0,
            _ => u128::MAX,
        }
    }
}

/// The first eight bytes as a number.
#[inline(always)]
fn key_prefix64(rest: &[u8]) -> u64 {
    if let Some(all) = rest.first_chunk() {
        return u64::from_be_bytes(*all);
    }
    // Two reads that overlap where it has less than eight.
    if let (Some(first), Some(last)) = (rest.first_chunk(), rest.last_chunk()) {
        let (first, last) = (u64::from(u32::from_be_bytes(*first)), u64::from(u32::from_be_bytes(*last)));
        return first << 32 | last << (64 - 8 * rest.len());
    }
    rest.iter().rev().fold(0, |key_prefix, &byte| key_prefix >> 8 | u64::from(byte) << 56)
}

/// The first sixteen bytes as a number.
#[inline(always)]
fn key_prefix128(rest: &[u8]) -> u128 {
    if let Some(all) = rest.first_chunk() {
        return u128::from_be_bytes(*all);
    }
    let (high, low) = rest.split_at(rest.len().min(8));
    u128::from(key_prefix64(high)) << 64 | u128::from(key_prefix64(low))
}

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

    /// The number that decides a member's place among the fingerprints.
    #[inline]
    pub(super) fn key_prefix(&self, member: &[u8]) -> u128 {
        self.common.key_prefix(member)
    }

    /// The fingerprint of a leaf beside a key prefix.
    #[inline]
    pub(super) fn compare(&self, leaf: Leaf, key_prefix: u128) -> Ordering {
        self.fingerprints[leaf.number() as usize].cmp(&key_prefix)
    }

    /// Notes with which member a leaf begins.
    pub(super) fn set(&mut self, leaf: Leaf, member: &[u8]) {
        self.put(leaf, self.key_prefix(member));
    }

    /// Notes that a leaf is before all others.
    pub(super) fn set_first(&mut self, leaf: Leaf) {
        self.put(leaf, 0);
    }

    /// Notes that a leaf begins where another one did.
    pub(super) fn copy(&mut self, from: Leaf, to: Leaf) {
        self.put(to, self.fingerprints[from.number() as usize]);
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

#[cfg(test)]
mod tests {
    use super::*;
    use varve_base::rng::Rng;

    #[test]
    fn key_prefixes_are_in_the_order_of_the_members() {
        let mut rng = Rng::seeded(5);
        let mut members: Vec<Vec<u8>> = (0..400)
            .map(|_| {
                let mut member = b"common:".to_vec();
                member.truncate(rng.below(7) as usize);
                let bytes = [b'0', b'5', b'9', b'/', 0, b'.', b':', 255];
                let some = 1 + rng.below(8);
                member.extend((0..rng.below(20)).map(|_| bytes[rng.below(some) as usize]));
                member
            })
            .collect();
        members.sort();
        for common in ["", "s", "common:", "common:0", "common:/9"] {
            let common = CommonPrefix::of(common.as_bytes());
            assert!(members.iter().map(|member| common.key_prefix(member)).is_sorted(), "{common:?}");
        }
        assert_eq!(key_prefix64(b"ab"), 0x6162 << 48);
        assert_eq!(key_prefix64(b"abcdef"), 0x6162_6364_6566 << 16);
        assert_eq!(key_prefix128(b"abcdefghij"), (0x6162_6364_6566_6768_u128 << 64) | (0x696a_u128 << 48));
    }

    #[test]
    fn a_common_prefix_is_what_is_common() {
        assert_eq!(CommonPrefix::common(b"element:1", b"element:27").get(), b"element:");
        assert_eq!(CommonPrefix::common(b"", b"x"), CommonPrefix::NONE);
        assert_eq!(CommonPrefix::common(&[7; 300], &[7; 300]).get(), [7; COMMON_MAX]);
    }
}
