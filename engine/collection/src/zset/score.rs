//! Scores as numbers that are compared, and as the bytes that an element keeps.
//!
//! ```text
//!   order key    score >= 0: its bits with the sign bit set      score < 0: its bits, all flipped      (-0 as 0)
//!
//!   bytes        63                          0
//!               +------------------+---------+
//!               | kept, low first  | 0 … 0   |     of the bits of the f64, whole bytes of zeros are left out
//!               +------------------+---------+     at the low end: 0 needs none, 100 two, 1000000 four, 0.1 eight
//! ```

/// A number that is in the order of the scores: less for the lesser, equal for equal ones (`-0` and `0` are).
#[inline]
pub(crate) fn order_key(score: f64) -> u64 {
    debug_assert!(!score.is_nan(), "NaN has no place in the order");
    // Adding zero makes -0 into 0 and nothing else into anything else.
    let bits = (score + 0.0).to_bits();
    if bits >> 63 == 0 { bits | 1 << 63 } else { !bits }
}

/// The bytes of a score.
#[derive(Clone, Copy, Debug)]
pub(super) struct ScoreBytes {
    bits: [u8; 8],
    zeros: usize,
}

impl ScoreBytes {
    #[inline]
    pub(super) fn of(score: f64) -> ScoreBytes {
        let bits = score.to_bits();
        ScoreBytes { bits: bits.to_le_bytes(), zeros: bits.trailing_zeros() as usize / 8 }
    }

    /// The fewest bytes that keep it.
    #[inline]
    pub(super) fn get(&self) -> &[u8] {
        &self.bits[self.zeros..]
    }

    /// Its last `len` bytes, which must not be fewer than it needs: the same score.
    #[inline]
    pub(super) fn padded(&self, len: usize) -> &[u8] {
        debug_assert!(len >= self.get().len(), "{len} bytes do not keep it");
        &self.bits[8 - len..]
    }
}

/// The score that these bytes keep.
#[inline]
pub(super) fn read_score(bytes: &[u8]) -> f64 {
    if let Ok(all) = bytes.try_into() {
        return f64::from_le_bytes(all);
    }
    assert!(bytes.len() < 8, "a score of {} bytes", bytes.len());
    let bits = bytes.iter().rev().fold(0u64, |bits, &b| bits << 8 | u64::from(b));
    f64::from_bits(if bytes.is_empty() { 0 } else { bits << (64 - 8 * bytes.len()) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use varve_base::rng::Rng;

    fn scores() -> Vec<f64> {
        let mut rng = Rng::seeded(3);
        let edges = [0.0, -0.0, 1.0, -1.0, 0.1, 1e6, 1e300, -1e300, f64::INFINITY, f64::NEG_INFINITY, f64::MAX, 5e-324];
        let random = (0..500).map(|_| f64::from_bits(rng.next_u64())).filter(|s| !s.is_nan());
        edges.into_iter().chain((-100..100).map(f64::from)).chain(random).collect()
    }

    #[test]
    fn keys_are_in_the_order_of_the_scores() {
        let all = scores();
        for &a in &all {
            for &b in &all {
                assert_eq!(a.partial_cmp(&b), Some(order_key(a).cmp(&order_key(b))), "{a} {b}");
            }
        }
    }

    #[test]
    fn bytes_keep_every_score_in_every_length() {
        for score in scores() {
            let bytes = ScoreBytes::of(score);
            for len in bytes.get().len()..=8 {
                assert_eq!(read_score(bytes.padded(len)).to_bits(), score.to_bits(), "{score} in {len}");
            }
        }
        assert_eq!([0.0, 100.0, 1e6, 0.1].map(|s| ScoreBytes::of(s).get().len()), [0, 2, 4, 8]);
    }
}
