//! The seed of a randomised test, and the small generator that it feeds.

use std::time::{SystemTime, UNIX_EPOCH};

/// The seed to use: VARVE_SEED if it is set, else one from the clock. It is printed with the test's name, so that a
/// failure can be run again.
///
/// # Panics
/// When VARVE_SEED is no number.
#[must_use]
pub fn seed(test: &str) -> u64 {
    let seed = match std::env::var("VARVE_SEED") {
        Ok(text) => text.parse().unwrap_or_else(|_| panic!("VARVE_SEED={text} is no number")),
        Err(_) => SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, |age| age.as_nanos() as u64 % 1_000_000_007),
    };
    println!("{test}: VARVE_SEED={seed}");
    seed
}

/// SplitMix64: one addition and a mix a number, the same numbers for the same seed for ever.
#[derive(Debug, Clone)]
pub struct Random(u64);

impl Random {
    /// Starts from a seed.
    #[must_use]
    pub fn new(seed: u64) -> Random {
        Random(seed)
    }

    /// The next 64 bits.
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `n`; 0 when `n` is 0.
    pub fn below(&mut self, n: usize) -> usize {
        ((u128::from(self.next_u64()) * n as u128) >> 64) as usize
    }

    /// True once in `n` times.
    pub fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    /// One of several.
    ///
    /// # Panics
    /// When there are none.
    pub fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len())]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn below_stays_below_and_reaches_all() {
        let mut random = Random::new(7);
        let mut seen = [false; 10];
        for _ in 0..1000 {
            seen[random.below(10)] = true;
        }
        assert!(seen.iter().all(|&s| s));
        assert_eq!(random.below(0), 0);
    }
}
