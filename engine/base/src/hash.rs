//! Hashing of keys: XXH3 with 64 bits and a seed that the process draws at random, and a last step that does not lead back.
//!
//! XXH3 ends with steps that can be undone: whoever learns bits of the hashes of keys that he has chosen (from the order of
//! SCAN, or from the time that look-ups take) could work out the seed, and then keys that all fall in one bucket. The last
//! step is a product with a secret factor whose halves are joined, so that neither seed nor factor follow from it. Cursors
//! are positions in the order of hashes; clients get them sealed (`seal48`).
//!
//! The hash of a key is never stored in a file nor sent to a peer, so its function may change between versions.

/// 2^64 divided by the golden ratio, odd: successive multiples lie far apart in all upper bits (Fibonacci hashing,
/// SplitMix64's step).
pub const GOLDEN_RATIO: u64 = 0x9e37_79b9_7f4a_7c15;

/// XXH3 of `bytes` without a seed, the same everywhere: for digests that clients compare, not for tables.
pub fn digest64(bytes: &[u8]) -> u64 {
    xxhash_rust::xxh3::xxh3_64(bytes)
}

/// XXH3 of `bytes` with a seed that is no secret, the same everywhere: for digests that files have, not for tables.
pub fn digest64_with(seed: u64, bytes: &[u8]) -> u64 {
    xxhash_rust::xxh3::xxh3_64_with_seed(bytes, seed)
}

/// The hash of `bytes` under `seed`.
#[inline]
pub fn hash64(seed: u64, bytes: &[u8]) -> u64 {
    one_way(seed, xxhash_rust::xxh3::xxh3_64_with_seed(bytes, seed))
}

/// A number that follows from `number` and the secret `seed`, and from which neither of them follows.
#[inline(always)]
fn one_way(seed: u64, number: u64) -> u64 {
    let product = u128::from(number ^ seed.rotate_left(32)) * u128::from((seed ^ GOLDEN_RATIO) | 1);
    product as u64 ^ (product >> 64) as u64
}

/// Numbers from here on are not sealed.
const SEALED_END: u64 = 1 << 48;
const HALF_BITS: u32 = 24;
const HALF_MASK: u64 = (1 << HALF_BITS) - 1;
/// Rounds of a Feistel network in which each half depends on all bits of both.
const ROUNDS: u64 = 4;

#[inline]
fn round(seed: u64, nth: u64, half: u64) -> u64 {
    one_way(seed ^ mix64(nth + 1), mix64(half)) >> (64 - HALF_BITS)
}

/// A number of 48 bits in another's place, under a secret `seed`: what is close together lies anywhere. 0 stays 0, and so
/// does a number of more than 48 bits stay what it is.
pub fn seal48(seed: u64, number: u64) -> u64 {
    let seal = |number: u64| {
        let halves = (number >> HALF_BITS, number & HALF_MASK);
        let (left, right) = (0..ROUNDS).fold(halves, |(l, r), nth| (r, l ^ round(seed, nth, r)));
        left << HALF_BITS | right
    };
    match number {
        0 | SEALED_END.. => number,
        _ => Some(seal(number)).filter(|&sealed| sealed != 0).unwrap_or_else(|| seal(0)),
    }
}

/// The number that [`seal48`] has put this one in the place of.
pub fn open48(seed: u64, sealed: u64) -> u64 {
    let open = |sealed: u64| {
        let halves = (sealed >> HALF_BITS, sealed & HALF_MASK);
        let (left, right) = (0..ROUNDS).rev().fold(halves, |(l, r), nth| (r ^ round(seed, nth, l), l));
        left << HALF_BITS | right
    };
    match sealed {
        0 | SEALED_END.. => sealed,
        _ => Some(open(sealed)).filter(|&number| number != 0).unwrap_or_else(|| open(0)),
    }
}

/// A bijective mix of 64 bits: every input bit reaches every output bit.
///
/// For numbers that must look random (a database's share of a hash, synthetic hashes in tests), not for keys.
#[inline]
pub const fn mix64(x: u64) -> u64 {
    let x = (x ^ (x >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93);
    let x = (x ^ (x >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93);
    x ^ (x >> 32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_and_bytes_matter() {
        assert_ne!(hash64(1, b"key"), hash64(2, b"key"));
        assert_ne!(hash64(1, b"key"), hash64(1, b"kez"));
        // The reference implementation's value for no bytes and no seed.
        assert_eq!(digest64(b""), 0x2d06_8005_38d3_94c2);
        assert_eq!(hash64(0, b""), one_way(0, digest64(b"")));
    }

    /// Each bit of the hashes of short keys, of which the last step makes something else, is set in half of them.
    #[test]
    fn hashes_of_short_keys_have_no_bias() {
        for seed in [0, 7, 0x1234_5678_9abc_def0] {
            let mut set = [0; 64];
            for n in 0..40_000u32 {
                let hash = hash64(seed, n.to_string().as_bytes());
                set.iter_mut().enumerate().for_each(|(bit, count)| *count += hash >> bit & 1);
            }
            // Six standard deviations.
            assert!(set.iter().all(|&count| (19_400..20_600).contains(&count)), "{set:?}");
        }
    }

    #[test]
    fn what_is_sealed_opens_and_lies_anywhere() {
        for seed in [0, 3, u64::MAX] {
            let numbers = (0..5000).chain([SEALED_END - 1, SEALED_END, u64::MAX, open48(seed, 1)]);
            for number in numbers {
                let sealed = seal48(seed, number);
                assert_eq!(open48(seed, sealed), number);
                assert_eq!((sealed == 0, sealed < SEALED_END), (number == 0, number < SEALED_END));
            }
            let ascending = (1..5000).filter(|&n| seal48(seed, n) < seal48(seed, n + 1)).count();
            assert!((2300..2700).contains(&ascending), "{ascending} of 5000 neighbours ascend");
        }
    }

    #[test]
    fn mix_spreads_single_bits() {
        for bit in 0..64 {
            let changed = (mix64(0x1234_5678) ^ mix64(0x1234_5678 ^ (1 << bit))).count_ones();
            assert!((12..=52).contains(&changed), "bit {bit} changes {changed} bits");
        }
    }
}
