//! Which keys are asked for: all alike, by Zipf's law, or always the same one.

use varve_testkit::Random;

/// A way to draw keys.
pub(crate) enum Draw {
    /// Each of this number of keys as often as any other.
    Uniform(u64),
    Zipf(Zipf),
    /// Always the first.
    One,
}

/// The distributions by name.
pub(crate) const NAMES: [&str; 3] = ["uniform", "zipf", "one key"];
/// YCSB's exponent.
const THETA: f64 = 0.99;

impl Draw {
    /// The drawing that one of [`NAMES`] stands for, over `keys` keys.
    pub(crate) fn named(name: &str, keys: u64) -> Draw {
        match name {
            "uniform" => Draw::Uniform(keys),
            "zipf" => Draw::Zipf(Zipf::new(keys, THETA)),
            _ => Draw::One,
        }
    }

    /// The number of a key.
    pub(crate) fn key(&self, random: &mut Random) -> u64 {
        match self {
            Draw::Uniform(keys) => random.below(*keys as usize) as u64,
            Draw::Zipf(zipf) => zipf.rank(random),
            Draw::One => 0,
        }
    }
}

/// Ranks from 0, the `n`th with a chance of about 1 / (n + 1)^theta, drawn in O(1): Gray et al., "Quickly generating
/// billion-record synthetic databases" (1994). The first two are exact, the others follow the continuous law.
pub(crate) struct Zipf {
    keys: f64,
    theta: f64,
    /// Sum of 1 / n^theta over all keys.
    zeta: f64,
    alpha: f64,
    eta: f64,
}

impl Zipf {
    /// Over `keys` keys, at least 2; the exponent `theta` is between 0 and 1.
    pub(crate) fn new(keys: u64, theta: f64) -> Zipf {
        let zeta_of = |n: u64| (1..=n).map(|i| (i as f64).powf(-theta)).sum::<f64>();
        let (count, zeta) = (keys as f64, zeta_of(keys));
        let eta = (1.0 - (2.0 / count).powf(1.0 - theta)) / (1.0 - zeta_of(2) / zeta);
        Zipf { keys: count, theta, zeta, alpha: 1.0 / (1.0 - theta), eta }
    }

    fn rank(&self, random: &mut Random) -> u64 {
        let u = (random.next_u64() >> 11) as f64 / (1_u64 << 53) as f64;
        let scaled = u * self.zeta;
        if scaled < 1.0 {
            0
        } else if scaled < 1.0 + 0.5_f64.powf(self.theta) {
            1
        } else {
            let rank = self.keys * (self.eta * u - self.eta + 1.0).powf(self.alpha);
            (rank as u64).min(self.keys as u64 - 1)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_few_keys_get_most_of_zipf() {
        let draw = Draw::named("zipf", 100_000);
        let mut random = Random::new(5);
        let mut counts = vec![0_u32; 100_000];
        (0..200_000).for_each(|_| counts[draw.key(&mut random) as usize] += 1);
        let share = |count: u32| f64::from(count) / 200_000.0;
        let first = 1.0 / 12.77; // 1 / zeta(100 000, 0.99)
        assert!((share(counts[0]) / first - 1.0).abs() < 0.05, "{}", share(counts[0]));
        let fifth: f64 = counts[..20_000].iter().map(|&count| share(count)).sum();
        assert!((0.8..0.95).contains(&fifth), "a fifth of the keys gets {fifth}");
    }

    #[test]
    fn uniform_stays_below_and_one_is_one() {
        let mut random = Random::new(6);
        let uniform = Draw::named("uniform", 10);
        assert!((0..1000).all(|_| uniform.key(&mut random) < 10));
        assert_eq!(Draw::named("one key", 10).key(&mut random), 0);
    }
}
