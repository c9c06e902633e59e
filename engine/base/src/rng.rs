//! A small deterministic random number generator (xoshiro256**), seeded by one number.
//!
//! For sampling, eviction and tests. Not for secrets.

use crate::hash::GOLDEN_RATIO;

/// A generator; the same seed gives the same numbers on every machine.
#[derive(Clone, Debug)]
pub struct Rng {
    state: [u64; 4],
}

impl Rng {
    /// A generator whose whole state follows from `seed`.
    pub fn seeded(seed: u64) -> Rng {
        let mut x = seed;
        let state = std::array::from_fn(|_| {
            x = x.wrapping_add(GOLDEN_RATIO);
            let z = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            z ^ (z >> 31)
        });
        Rng { state }
    }

    /// The next 64 bits.
    #[inline]
    pub fn next_u64(&mut self) -> u64 {
        let [a, b, c, d] = self.state;
        let result = b.wrapping_mul(5).rotate_left(7).wrapping_mul(9);
        let (c, d) = (c ^ a, d ^ b);
        self.state = [a ^ d, b ^ c, c ^ (b << 17), d.rotate_left(45)];
        result
    }

    /// A number below `n`, with a bias under `n / 2^64`. `n` must not be zero.
    #[inline]
    pub fn below(&mut self, n: u64) -> u64 {
        assert!(n > 0, "no number is below 0");
        ((u128::from(self.next_u64()) * u128::from(n)) >> 64) as u64
    }

    /// A number in `0.0..1.0`, a multiple of `2^-53`.
    pub fn unit_f64(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn same_seed_same_numbers() {
        let (mut a, mut b, mut c) = (Rng::seeded(7), Rng::seeded(7), Rng::seeded(8));
        let first: Vec<u64> = (0..8).map(|_| a.next_u64()).collect();
        assert!(first.iter().all(|&x| x == b.next_u64()));
        assert!(first.iter().any(|&x| x != c.next_u64()));
    }

    #[test]
    fn below_stays_below_and_reaches_all() {
        let mut rng = Rng::seeded(1);
        let mut seen = [0u32; 10];
        for _ in 0..10_000 {
            seen[rng.below(10) as usize] += 1;
        }
        assert!(seen.iter().all(|&n| (800..1200).contains(&n)), "{seen:?}");
        assert!((0..100).all(|_| rng.below(1) == 0));
        assert!((0..100).all(|_| (0.0..1.0).contains(&rng.unit_f64())));
    }
}
