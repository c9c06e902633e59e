//! Hashing of keys: XXH3 with 64 bits and a seed that the process draws at random.
//!
//! The hash of a key is never stored in a file nor sent to a peer, so its function may change between versions.

/// 2^64 divided by the golden ratio, odd: successive multiples lie far apart in all upper bits (Fibonacci hashing,
/// SplitMix64's step).
pub const GOLDEN_RATIO: u64 = 0x9e37_79b9_7f4a_7c15;

/// The XXH3 hash of `bytes` under `seed`.
#[inline]
pub fn hash64(seed: u64, bytes: &[u8]) -> u64 {
    xxhash_rust::xxh3::xxh3_64_with_seed(bytes, seed)
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
    fn known_values() {
        // The reference implementation's value for no bytes and no seed.
        assert_eq!(hash64(0, b""), 0x2d06_8005_38d3_94c2);
        assert_ne!(hash64(1, b"key"), hash64(2, b"key"));
    }

    #[test]
    fn mix_spreads_single_bits() {
        for bit in 0..64 {
            let changed = (mix64(0x1234_5678) ^ mix64(0x1234_5678 ^ (1 << bit))).count_ones();
            assert!((12..=52).contains(&changed), "bit {bit} changes {changed} bits");
        }
    }
}
