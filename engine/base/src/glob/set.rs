//! Sets of bytes in patterns, `[a-c\]x]`: the one place that knows how they are written.
//!
//! A set is asked in two ways. Where a byte is compared once, the set's members are walked through. Where a set is asked again
//! and again, a mask of all 256 bytes is made of it first.

use super::fold;

/// A part of a set.
#[derive(Clone, Copy)]
enum Member {
    /// One byte behind a backslash: its case counts, whatever the caller says.
    Escaped(u8),
    /// The bytes from the first to the second, compared as signed ones.
    Range(u8, u8),
}

impl Member {
    #[inline]
    fn holds(self, byte: u8, nocase: bool) -> bool {
        match self {
            Member::Escaped(escaped) => escaped == byte,
            Member::Range(low, high) => {
                let (low, high, byte) = (fold(low, nocase), fold(high, nocase), fold(byte, nocase));
                (low as i8..=high as i8).contains(&(byte as i8))
            }
        }
    }
}

/// Shows the members of the set that starts behind its `[`. Says whether the set is negated, and how many bytes of the pattern
/// it has, with its `]` if there is one.
#[inline]
fn members(set: &[u8], mut show: impl FnMut(Member)) -> (bool, usize) {
    let negated = set.first() == Some(&b'^');
    let mut at = usize::from(negated);
    loop {
        let (member, length) = match set[at..] {
            [b'\\', escaped, ..] => (Member::Escaped(escaped), 2),
            [b']', ..] => return (negated, at + 1),
            [] => return (negated, at),
            [from, b'-', to, ..] if from as i8 > to as i8 => (Member::Range(to, from), 3),
            [from, b'-', to, ..] => (Member::Range(from, to), 3),
            [plain, ..] => (Member::Range(plain, plain), 1),
        };
        show(member);
        at += length;
    }
}

/// Whether `byte` is in the set that starts behind its `[`, and the bytes of the pattern that the set has.
#[inline]
pub(super) fn holds(set: &[u8], byte: u8, nocase: bool) -> (bool, usize) {
    let mut found = false;
    let (negated, length) = members(set, |member| found |= member.holds(byte, nocase));
    (found != negated, length)
}

/// The bytes of the pattern that the set which starts behind its `[` has.
pub(super) fn length(set: &[u8]) -> usize {
    members(set, |_| {}).1
}

/// A set of bytes, a bit each, in the order of signed bytes.
#[derive(Clone, Copy, Default)]
pub(super) struct Mask([u64; 4]);

/// The bits of `A` to `Z` in the last word, and how much further `a` to `z` stand.
const UPPER: u64 = ((1 << 26) - 1) << 1;
const TO_LOWER: u32 = 32;

impl Mask {
    /// All bytes.
    pub(super) const ALL: Mask = Mask([u64::MAX; 4]);

    /// One byte, with its other case if case does not count.
    pub(super) fn of_byte(byte: u8, nocase: bool) -> Mask {
        let mut mask = Mask::default();
        mask.add(fold(byte, nocase), fold(byte, nocase));
        if nocase { mask.unfolded() } else { mask }
    }

    /// The set that starts behind its `[`, and the bytes of the pattern that it has.
    pub(super) fn of_set(set: &[u8], nocase: bool) -> (Mask, usize) {
        let (mut escaped, mut ranges) = (Mask::default(), Mask::default());
        let (negated, length) = members(set, |member| match member {
            Member::Escaped(byte) => escaped.add(byte, byte),
            Member::Range(low, high) => ranges.add(fold(low, nocase), fold(high, nocase)),
        });
        let ranges = if nocase { ranges.unfolded() } else { ranges };
        let flip = if negated { u64::MAX } else { 0 };
        (Mask(std::array::from_fn(|nth| (escaped.0[nth] | ranges.0[nth]) ^ flip)), length)
    }

    /// Adds the bytes from one to another; none if they stand in the other order, as they may once case is folded.
    fn add(&mut self, low: u8, high: u8) {
        let (low, high) = (usize::from(low ^ 0x80), usize::from(high ^ 0x80));
        for (nth, word) in self.0.iter_mut().enumerate() {
            let (from, to) = (low.max(nth * 64), high.min(nth * 64 + 63));
            if from <= to {
                *word |= (u64::MAX >> (63 - (to - from))) << (from - nth * 64);
            }
        }
    }

    /// Each capital letter is there if its small one is.
    fn unfolded(self) -> Mask {
        let Mask([first, second, third, last]) = self;
        Mask([first, second, third, (last & !UPPER) | ((last >> TO_LOWER) & UPPER)])
    }

    #[inline]
    pub(super) fn holds(&self, byte: u8) -> bool {
        let at = usize::from(byte ^ 0x80);
        self.0[at / 64] >> (at % 64) & 1 != 0
    }

    /// Its bytes.
    pub(super) fn bytes(&self) -> impl Iterator<Item = u8> {
        (0..=u8::MAX).filter(|byte| self.holds(*byte))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;

    #[test]
    fn a_mask_is_its_set() {
        let mut rng = Rng::seeded(11);
        let letters = b"AZaz[]^-\\@`{\x00\x7f\x80\xff";
        for _ in 0..2_000 {
            let set: Vec<u8> = (0..rng.below(8)).map(|_| letters[rng.below(letters.len() as u64) as usize]).collect();
            for nocase in [false, true] {
                let (mask, bytes) = Mask::of_set(&set, nocase);
                assert_eq!(bytes, length(&set));
                for byte in 0..=u8::MAX {
                    assert_eq!((mask.holds(byte), bytes), holds(&set, byte, nocase), "{set:?} {byte} {nocase}");
                }
            }
        }
    }

    #[test]
    fn a_byte_is_a_set_of_one() {
        for (byte, nocase) in (0..=u8::MAX).flat_map(|byte| [(byte, false), (byte, true)]) {
            let expected: Vec<u8> = (0..=u8::MAX).filter(|other| fold(*other, nocase) == fold(byte, nocase)).collect();
            assert_eq!(Mask::of_byte(byte, nocase).bytes().collect::<Vec<_>>(), expected);
        }
        assert_eq!(Mask::ALL.bytes().count(), 256);
    }
}
