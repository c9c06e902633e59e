//! Numbers that stand for members where scores are equal, so that few members have to be read to find a place among them.
//!
//! ```text
//!   member    e l e m e n t : 0 0 0 0 4 7 1 1 0 8 1 5
//!             `------ stem -------'`---- rest ------'      stem: what the members in question begin with, or most of them
//!                                   `- hint ... '          hint: the first bytes of the rest as a number, the first one
//!                                                          highest; zeros follow where it is short
//! ```
//! Where the rests are decimal, a digit takes four bits of the hint in place of eight, 1 for `0` to 10 for `9`; the first
//! byte that is none ends it.
//!
//! Whatever the stem, hints never fall from a member to a greater one: those that do not begin with the stem are before all
//! that do, or behind them. Equal hints tell nothing.
//!
//! Not here: who chooses a stem (`leaf`, `marks`).

use std::cmp::Ordering;

use varve_base::mem::equal;

/// The longest stem that is kept.
pub(super) const STEM_MAX: usize = 30;

/// The first bytes of some members.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CommonPrefix {
    len: u8,
    bytes: [u8; STEM_MAX],
}

impl CommonPrefix {
    /// No bytes: every member begins with it.
    pub(super) const NONE: CommonPrefix = CommonPrefix { len: 0, bytes: [0; STEM_MAX] };

    /// The bytes up to the most that are kept.
    pub(super) fn of(bytes: &[u8]) -> CommonPrefix {
        let len = bytes.len().min(STEM_MAX);
        let mut stem = CommonPrefix { len: len as u8, ..CommonPrefix::NONE };
        stem.bytes[..len].copy_from_slice(&bytes[..len]);
        stem
    }

    /// What two members both begin with, up to the most that is kept.
    pub(super) fn common(a: &[u8], b: &[u8]) -> CommonPrefix {
        CommonPrefix::of(&a[..a.iter().zip(b).take_while(|(a, b)| a == b).count()])
    }

    #[inline]
    pub(super) fn get(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }
}

/// What follows the stem in a member; or on which side of all that begin with it the member is.
#[inline(always)]
pub(super) fn rest<'m>(stem: &[u8], member: &'m [u8]) -> Result<&'m [u8], Ordering> {
    match member.split_at_checked(stem.len()) {
        Some((start, rest)) if equal(start, stem) => Ok(rest),
        _ => Err(member.cmp(stem)),
    }
}

/// The first eight bytes as a number.
#[inline(always)]
pub(super) fn hint64(rest: &[u8]) -> u64 {
    if let Some(all) = rest.first_chunk() {
        return u64::from_be_bytes(*all);
    }
    // Two reads that overlap where it has less than eight.
    if let (Some(first), Some(last)) = (rest.first_chunk(), rest.last_chunk()) {
        let (first, last) = (u64::from(u32::from_be_bytes(*first)), u64::from(u32::from_be_bytes(*last)));
        return first << 32 | last << (64 - 8 * rest.len());
    }
    rest.iter().rev().fold(0, |hint, &byte| hint >> 8 | u64::from(byte) << 56)
}

/// How bytes become hints.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Alphabet {
    Bytes,
    /// Sixteen bytes from `/`, which is 0, to `9`; what is less than these is 0 too, what is greater 11, and ends the hint.
    Digits,
}

/// The byte that is 0 among the digits.
const ZERO: u8 = b'0' - 1;
/// What stands for all bytes behind the digits.
const BEHIND: u64 = 11;

impl Alphabet {
    /// The better one for rests of which these are the least and the greatest.
    pub(super) fn of(first: &[u8], last: &[u8]) -> Alphabet {
        let decimal = |rest: &[u8]| rest.iter().take(4).all(u8::is_ascii_digit);
        let both = decimal(first) && decimal(last) && digits(first) != digits(last);
        if both { Alphabet::Digits } else { Alphabet::Bytes }
    }

    /// The hint of what follows a stem.
    #[inline(always)]
    pub(super) fn hint(self, rest: &[u8]) -> u64 {
        match self {
            Alphabet::Bytes => hint64(rest),
            Alphabet::Digits => digits(rest),
        }
    }

    /// Bits of a hint that a byte takes.
    pub(super) fn bits(self) -> u32 {
        match self {
            Alphabet::Bytes => 8,
            Alphabet::Digits => 4,
        }
    }

    /// Whether none of these bytes ends a hint.
    pub(super) fn reads(self, bytes: &[u8]) -> bool {
        self == Alphabet::Bytes || bytes.iter().all(|byte| (ZERO..=b'9').contains(byte))
    }
}

/// The first sixteen digits as a number.
#[inline]
fn digits(rest: &[u8]) -> u64 {
    let (high, low) = rest.split_at(rest.len().min(8));
    match (eight_digits(high), eight_digits(low)) {
        (Some(high), Some(low)) => u64::from(high) << 32 | u64::from(low),
        _ => mixed_digits(rest),
    }
}

/// The first eight bytes if all are digits, or there are no more.
#[inline(always)]
fn eight_digits(bytes: &[u8]) -> Option<u32> {
    const ZEROS: u64 = u64::from_ne_bytes([ZERO; 8]);
    const ABOVE: u64 = u64::from_ne_bytes([0x7f - b'9'; 8]);
    const TOP: u64 = u64::from_ne_bytes([0x80; 8]);
    let word = hint64(bytes) | ZEROS.checked_shr(8 * bytes.len().min(8) as u32).unwrap_or(0);
    // The top bit of a byte comes where it is less than the digits, or greater. A carry comes only from such a byte.
    if (word.wrapping_sub(ZEROS) | word.wrapping_add(ABOVE) | word) & TOP != 0 {
        return None;
    }
    let word = word - ZEROS;
    let word = (word | word >> 4) & 0x00ff_00ff_00ff_00ff;
    let word = (word | word >> 8) & 0x0000_ffff_0000_ffff;
    Some((word | word >> 16) as u32)
}

/// The same one by one, up to the first that is none.
fn mixed_digits(rest: &[u8]) -> u64 {
    let mut hint = 0;
    for (&byte, at) in rest.iter().zip((0..u64::BITS).step_by(4)) {
        match byte {
            ZERO..=b'9' => hint |= u64::from(byte - ZERO) << (60 - at),
            byte => {
                let end = if byte < ZERO { 0 } else { BEHIND };
                return hint | end << (60 - at);
            }
        }
    }
    hint
}

/// The first sixteen bytes as a number.
#[inline(always)]
pub(super) fn hint128(rest: &[u8]) -> u128 {
    if let Some(all) = rest.first_chunk() {
        return u128::from_be_bytes(*all);
    }
    let (high, low) = rest.split_at(rest.len().min(8));
    u128::from(hint64(high)) << 64 | u128::from(hint64(low))
}

#[cfg(test)]
mod tests {
    use super::*;
    use varve_base::rng::Rng;

    #[test]
    fn hints_are_in_the_order_of_the_members() {
        let mut rng = Rng::seeded(5);
        let mut members: Vec<Vec<u8>> = (0..400)
            .map(|_| {
                let mut member = b"stem:".to_vec();
                member.truncate(rng.below(7) as usize);
                let bytes = [b'0', b'5', b'9', b'/', 0, b'.', b':', 255];
                let some = 1 + rng.below(8);
                member.extend((0..rng.below(20)).map(|_| bytes[rng.below(some) as usize]));
                member
            })
            .collect();
        members.sort();
        for stem in ["", "s", "stem:", "stem:0", "stem:/9"] {
            let place = |member: &Vec<u8>| match rest(stem.as_bytes(), member) {
                Err(Ordering::Less) => (0, 0, 0),
                Ok(rest) => (1, hint128(rest), Alphabet::Bytes.hint(rest)),
                Err(_) => (2, 0, 0),
            };
            assert!(members.iter().map(place).is_sorted(), "{stem:?}");
            let rests = members.iter().filter_map(|member| rest(stem.as_bytes(), member).ok());
            rests.clone().for_each(|rest| assert_eq!(digits(rest), mixed_digits(rest), "{rest:?}"));
            assert!(rests.map(|rest| Alphabet::Digits.hint(rest)).is_sorted(), "{stem:?}");
            for member in &members {
                assert_eq!(place(member).0 == 1, member.starts_with(stem.as_bytes()));
                let (_, wide, narrow) = place(member);
                assert_eq!((wide >> 64) as u64, narrow, "{member:?}");
            }
        }
        assert_eq!(hint64(b"ab"), 0x6162 << 48);
        assert_eq!(hint64(b"abcdef"), 0x6162_6364_6566 << 16);
        assert_eq!(digits(b"0123456789"), 0x0012_3456_789a << 24);
        assert_eq!(digits(b"9:9"), 0xab << 56);
    }

    #[test]
    fn a_stem_is_what_is_common() {
        assert_eq!(CommonPrefix::common(b"element:1", b"element:27").get(), b"element:");
        assert_eq!(CommonPrefix::common(b"", b"x"), CommonPrefix::NONE);
        assert_eq!(CommonPrefix::common(&[7; 300], &[7; 300]).get(), [7; STEM_MAX]);
    }
}
