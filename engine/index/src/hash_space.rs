//! Positions in hash space: 36 bits of a hash, by which the buckets of a table are ordered.

use varve_base::Ref;
use varve_base::group::Tag;

/// Bits of the position in hash space.
pub const POSITION_BITS: u32 = 36;

/// Positions in hash space: `0..POSITIONS`.
pub const POSITIONS: u64 = 1 << POSITION_BITS;

/// Gives the hash of an entry again. Given to operations that move entries.
pub trait Rehash<E = Ref> {
    /// The hash under which `entry` was inserted; its lowest 16 bits are `tag`.
    fn hash(&self, entry: E, tag: Tag) -> u64;

    /// Announces that the hash of `entry` will be asked for soon.
    #[inline]
    fn prefetch(&self, entry: E) {
        let _ = entry;
    }
}

/// The position in hash space of a hash.
#[inline(always)]
pub fn position(hash: u64) -> u64 {
    hash >> 16 & (POSITIONS - 1)
}
