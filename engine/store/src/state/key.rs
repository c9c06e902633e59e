//! Keys and the bits of their hash.
//!
//! ```text
//!  63        52 51                            16 15        0
//! +------------+--------------------------------+-----------+
//! |   shard    |     position in hash space     |    tag    |
//! +------------+--------------------------------+-----------+
//!    12 bits               36 bits                 16 bits
//! ```
//! Shard, bucket and tag come from different bits, so that keys of one shard spread over its buckets and keys of one
//! bucket over the tags. A physical database number other than 0 is mixed into the low 52 bits only: a key lies in the
//! same shard in every database, so MOVE and COPY between databases take one lock.

use varve_base::hash::{GOLDEN_RATIO, hash64};
use varve_base::mem::equal;
use varve_segment::{Object, Owner};

/// The most shards that the hash has bits for.
pub const SHARDS_MAX: usize = 1 << (64 - SHARD_SHIFT);
const SHARD_SHIFT: u32 = 52;
const LOW_MASK: u64 = (1 << SHARD_SHIFT) - 1;

/// A key with what was computed of it: its hash and its physical database.
#[derive(Clone, Copy, Debug)]
pub struct Key<'k> {
    /// The key's bytes.
    pub bytes: &'k [u8],
    /// The 64-bit hash, database mixed in.
    pub hash: u64,
    /// The physical database number.
    pub db: u16,
}

impl<'k> Key<'k> {
    /// Hashes `bytes` for physical database `db` under the process's `seed`.
    #[inline]
    pub(crate) fn new(seed: u64, db: u16, bytes: &'k [u8]) -> Key<'k> {
        Key { bytes, hash: hash_of(seed, db, bytes), db }
    }

    /// True if the key object is this key's.
    #[inline(always)]
    pub(crate) fn is_of(&self, object: &Object<'_>) -> bool {
        equal(object.key(), self.bytes) && database_of(object) == self.db
    }
}

/// The hash of a key in a physical database.
#[inline]
pub(crate) fn hash_of(seed: u64, db: u16, bytes: &[u8]) -> u64 {
    mix_database(hash64(seed, bytes), db)
}

/// Mixes a physical database number into a key's hash; its own inverse, since it only xors.
#[inline]
pub(crate) fn mix_database(hash: u64, db: u16) -> u64 {
    if db == 0 { hash } else { hash ^ (u64::from(db).wrapping_mul(GOLDEN_RATIO) >> 8 & LOW_MASK) }
}

/// The shard of a hash among `shards`, a power of two.
#[inline]
pub(crate) fn shard_of(hash: u64, shards: usize) -> usize {
    (hash >> SHARD_SHIFT) as usize & (shards - 1)
}

/// The 48 bits by which the timing wheel and the index find a key again: position and the low 12 bits of the tag.
#[inline]
pub(crate) fn wheel_bits(hash: u64) -> u64 {
    (((hash >> 16) & POSITION_MASK) << 12) | (hash & 0xfff)
}

/// Bits of a position in hash space.
const POSITION_BITS: u32 = 36;
const POSITION_MASK: u64 = (1 << POSITION_BITS) - 1;

/// A place in the order of a walk over all keys: a shard, and a position in its hash space. No table matters to it.
///
/// ```text
///  63       48 47        36 35                      0
/// +-----------+------------+-------------------------+
/// |     0     |   shard    |  position in the shard  |
/// +-----------+------------+-------------------------+
/// ```
/// It stays below 2^53, so that clients which keep numbers as doubles keep it whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place(pub(crate) u64);

impl Place {
    /// A position of a shard.
    pub(crate) fn new(shard: usize, position: u64) -> Place {
        Place((shard as u64) << POSITION_BITS | position)
    }

    /// The place of a key with this hash, whose shard has this number.
    pub(crate) fn of(shard: usize, hash: u64) -> Place {
        Place::new(shard, (hash >> 16) & POSITION_MASK)
    }

    /// The number of the shard. A cursor of a client may name one that there is not.
    pub(crate) fn shard(self) -> usize {
        (self.0 >> POSITION_BITS) as usize
    }

    /// The position in the shard.
    pub(crate) fn position(self) -> u64 {
        self.0 & POSITION_MASK
    }
}

/// The physical database of a key object.
#[inline]
pub(crate) fn database_of(object: &Object<'_>) -> u16 {
    match object.owner() {
        Owner::Database(db) => db,
        Owner::Collection(_) => unreachable!("the index of a shard holds key objects only"),
    }
}

#[cfg(test)]
mod tests {
    use super::{hash_of, mix_database, shard_of, wheel_bits};

    #[test]
    fn a_key_lies_in_one_shard_in_every_database() {
        for n in 0..1000u32 {
            let key = n.to_le_bytes();
            let home = hash_of(7, 0, &key);
            for db in [1u16, 2, 15, 9999, u16::MAX] {
                let other = hash_of(7, db, &key);
                assert_ne!(home, other);
                assert_eq!(shard_of(home, 4096), shard_of(other, 4096));
                assert_eq!(mix_database(other, db), home);
            }
        }
    }

    #[test]
    fn wheel_bits_fit_in_48() {
        assert_eq!(wheel_bits(u64::MAX), (1 << 48) - 1);
        assert_eq!(wheel_bits(0x1234), 0x234);
    }
}
