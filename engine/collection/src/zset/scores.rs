//! Scores as numbers that are compared, and as a leaf keeps them: a column of differences.
//!
//! ```text
//!   order key    score >= 0: its bits with the sign bit set      score < 0: its bits, all flipped      (-0 as 0)
//!   exact key    the same, but -0 is one less than 0: from it the score comes back with its sign
//!
//!   difference   (exact key - base) >> shift, in `width` bytes: nothing of it is cut off at either end
//! ```
//! The scores of one leaf are near each other: whole numbers below 2^20 take one byte each in a leaf of a million members,
//! equal scores take none, and random ones up to seven.
//!
//! Not here: where the column lies (`leaf`).

/// Bytes of a scale before a column: base, shift, width.
pub(super) const SCALE_BYTES: usize = 10;

/// The exact key of -0, which is equal to 0 in the order.
const MINUS_ZERO: u64 = (1 << 63) - 1;

/// A number that is in the order of the scores: less for the lesser, equal for equal ones (`-0` and `0` are).
#[inline]
pub(crate) fn order_key(score: f64) -> u64 {
    in_order(exact_key(score))
}

/// The order key, but for -0: each score has an exact key of its own.
#[inline]
pub(super) fn exact_key(score: f64) -> u64 {
    debug_assert!(!score.is_nan(), "NaN has no place in the order");
    let bits = score.to_bits();
    if bits >> 63 == 0 { bits | 1 << 63 } else { !bits }
}

/// The order key of an exact key.
#[inline(always)]
pub(super) fn in_order(exact: u64) -> u64 {
    if exact == MINUS_ZERO { MINUS_ZERO + 1 } else { exact }
}

/// The score of an exact key.
#[inline]
pub(super) fn score_of(exact: u64) -> f64 {
    f64::from_bits(if exact >> 63 == 1 { exact & !(1 << 63) } else { !exact })
}

/// How the differences of a column follow from the exact keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Scale {
    base: u64,
    shift: u8,
    width: u8,
}

impl Scale {
    /// The scale of fewest bytes for these exact keys.
    pub(super) fn of(keys: impl Iterator<Item = u64> + Clone) -> Scale {
        let (low, high) = keys.clone().fold((u64::MAX, 0), |(low, high), key| (key.min(low), key.max(high)));
        let bits = keys.fold(0, |bits, key| bits | key.wrapping_sub(low));
        if bits == 0 {
            return Scale { base: low, shift: 0, width: 0 };
        }
        let shift = bits.trailing_zeros();
        let width = (u64::BITS - ((high - low) >> shift).leading_zeros()).div_ceil(8);
        debug_assert!((1..=8).contains(&width), "a difference of {width} bytes");
        Scale { base: low, shift: shift as u8, width: width as u8 }
    }

    /// Bytes of a difference.
    #[inline(always)]
    pub(super) fn width(self) -> usize {
        self.width.into()
    }

    /// Reads the scale at the front of a leaf.
    #[inline(always)]
    pub(super) fn read(value: &[u8]) -> Scale {
        let head: &[u8; SCALE_BYTES] = value.first_chunk().expect("a leaf has a head");
        let [base @ .., shift, width] = head;
        let scale = Scale { base: u64::from_le_bytes(*base), shift: *shift, width: *width };
        assert!(scale.width <= 8 && scale.shift < 64, "a damaged scale: {scale:?}");
        scale
    }

    pub(super) fn write(self, value: &mut [u8]) {
        value[..8].copy_from_slice(&self.base.to_le_bytes());
        value[8..SCALE_BYTES].copy_from_slice(&[self.shift, self.width]);
    }

    /// The difference of a key, if this scale has one for it.
    #[inline]
    pub(super) fn difference(self, key: u64) -> Option<u64> {
        debug_assert!(self.shift < 64, "a shift of {}", self.shift);
        let difference = key.checked_sub(self.base)?;
        let short = difference >> self.shift;
        let exact = short << self.shift == difference;
        (exact && short & !self.mask() == 0).then_some(short)
    }

    /// The key of a difference.
    #[inline(always)]
    pub(super) fn key(self, difference: u64) -> u64 {
        self.base + (difference << self.shift)
    }

    /// The bits that a difference may have.
    #[inline(always)]
    pub(super) fn mask(self) -> u64 {
        if self.width == 0 { 0 } else { !0 >> (64 - 8 * u32::from(self.width)) }
    }
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
            assert_eq!(score_of(exact_key(a)).to_bits(), a.to_bits());
            for &b in &all {
                assert_eq!(a.partial_cmp(&b), Some(order_key(a).cmp(&order_key(b))), "{a} {b}");
            }
        }
        assert_eq!(exact_key(-0.0), MINUS_ZERO);
    }

    #[test]
    fn a_scale_keeps_every_key_it_is_made_for() {
        let (all, mut rng) = (scores(), Rng::seeded(5));
        for _ in 0..500 {
            let some: Vec<u64> =
                (0..1 + rng.below(20)).map(|_| exact_key(all[rng.below(all.len() as u64) as usize])).collect();
            let scale = Scale::of(some.iter().copied());
            let mut head = [0; SCALE_BYTES];
            scale.write(&mut head);
            assert_eq!(Scale::read(&head), scale);
            for &key in &some {
                assert_eq!(scale.difference(key).map(|difference| scale.key(difference)), Some(key));
            }
            for &score in &all {
                let key = exact_key(score);
                assert!(scale.difference(key).is_none_or(|difference| scale.key(difference) == key));
            }
        }
        let width = |some: &[f64]| Scale::of(some.iter().map(|&score| exact_key(score))).width();
        assert_eq!((width(&[7.0, 7.0]), width(&[1000.0, 1040.0]), width(&[1e6, 1e6 + 301.0])), (0, 1, 2));
        assert_eq!((width(&[-40.0, -41.0]), width(&[0.25, 0.250_1]), width(&[-1.0, 1.0])), (1, 5, 8));
    }
}
