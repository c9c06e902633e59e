//! MurmurHash2 of 64 bits with redis-server's seed: the hash of a HyperLogLog's elements, which has to be the same on every
//! server. Public domain, by Austin Appleby; eight bytes a step, low byte first.

const SEED: u64 = 0xadc8_3b19;
const MULTIPLIER: u64 = 0xc6a4_a793_5bd1_e995;
const SHIFT: u32 = 47;

/// The hash of an element.
pub(super) fn hash(element: &[u8]) -> u64 {
    let mut hash = SEED ^ (element.len() as u64).wrapping_mul(MULTIPLIER);
    let mut words = element.chunks_exact(8);
    for word in &mut words {
        let mut word = u64::from_le_bytes(word.try_into().expect("eight bytes")).wrapping_mul(MULTIPLIER);
        word = (word ^ word >> SHIFT).wrapping_mul(MULTIPLIER);
        hash = (hash ^ word).wrapping_mul(MULTIPLIER);
    }
    let rest = words.remainder();
    if !rest.is_empty() {
        let mut word = [0; 8];
        word[..rest.len()].copy_from_slice(rest);
        hash = (hash ^ u64::from_le_bytes(word)).wrapping_mul(MULTIPLIER);
    }
    hash = (hash ^ hash >> SHIFT).wrapping_mul(MULTIPLIER);
    hash ^ hash >> SHIFT
}
