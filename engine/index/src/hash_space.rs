//! Positions in hash space: 36 bits of a hash, by which the buckets of a table are ordered.

use varve_base::Ref;

/// Bits of the position in hash space.
pub const POSITION_BITS: u32 = 36;

/// Positions in hash space: `0..POSITIONS`.
pub const POSITIONS: u64 = 1 << POSITION_BITS;

/// Gives the hash of an entry again. Given to operations that move entries.
pub trait Rehash {
    /// The hash under which `r` was inserted.
    fn hash(&self, r: Ref) -> u64;

    /// Announces that the hash of `r` will be asked for soon.
    #[inline]
    fn prefetch(&self, r: Ref) {
        let _ = r;
    }
}

/// The position in hash space of a hash.
#[inline(always)]
pub fn position(hash: u64) -> u64 {
    hash >> 16 & (POSITIONS - 1)
}
