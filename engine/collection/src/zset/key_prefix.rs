//! Numbers that stand for members where scores are equal, so that few members have to be read to find a place among them.
//!
//! ```text
//!   member    e l e m e n t : 0 0 0 0 4 7 1 1 0 8 1 5
//!             `------ common prefix -------'`---- rest ------'      common prefix: what the members in question begin with, or most of them
//!                                   `- key prefix ... '          key prefix: the first bytes of the rest as a number, the first one
//!                                                          highest; zeros follow where it is short
//! ```
//! Where the rests are decimal, a digit takes four bits of the key prefix in place of eight, 1 for `0` to 10 for `9`; the first
//! byte that is none ends it.
//!
//! Whatever the common prefix, key prefixes never fall from a member to a greater one: those that do not begin with the common prefix are before all
//! that do, or behind them. Equal key prefixes tell nothing.
//!
//! Not here: who chooses a common prefix (`leaf`, `fingerprints`).

use std::cmp::Ordering;

use varve_base::mem::equal;

/// The longest common prefix that is kept.
pub(super) const COMMON_MAX: usize = 30;

/// The first bytes of some members.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CommonPrefix {
    len: u8,
    bytes: [u8; COMMON_MAX],
}

impl CommonPrefix {
    /// No bytes: every member begins with it.
    pub(super) const NONE: CommonPrefix = CommonPrefix { len: 0, bytes: [0; COMMON_MAX] };

    /// The bytes up to the most that are kept.
    pub(super) fn of(bytes: &[u8]) -> CommonPrefix {
        let len = bytes.len().min(COMMON_MAX);
        let mut common = CommonPrefix { len: len as u8, ..CommonPrefix::NONE };
        common.bytes[..len].copy_from_slice(&bytes[..len]);
        common
    }

    /// The bytes that two members both begin with, at most as many as are kept.
    pub(super) fn common(a: &[u8], b: &[u8]) -> CommonPrefix {
        CommonPrefix::of(&a[..a.iter().zip(b).take_while(|(a, b)| a == b).count()])
    }

    #[inline]
    pub(super) fn get(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }
}

/// The bytes behind the common prefix in a member; or on which side of all members with this prefix the member is.
#[inline(always)]
pub(super) fn rest<'m>(common: &[u8], member: &'m [u8]) -> Result<&'m [u8], Ordering> {
    match member.split_at_checked(common.len()) {
        Some((start, rest)) if equal(start, common) => Ok(rest),
        _ => Err(member.cmp(common)),
    }
}

/// The first eight bytes as a number.
#[inline(always)]
pub(super) fn key_prefix64(rest: &[u8]) -> u64 {
    if let Some(all) = rest.first_chunk() {
        return u64::from_be_bytes(*all);
    }
    // Two reads that overlap where it has less than eight.
    if let (Some(first), Some(last)) = (rest.first_chunk(), rest.last_chunk()) {
        let (first, last) = (u64::from(u32::from_be_bytes(*first)), u64::from(u32::from_be_bytes(*last)));
        return first << 32 | last << (64 - 8 * rest.len());
    }
    rest.iter().rev().fold(0, |key_prefix, &byte| key_prefix >> 8 | u64::from(byte) << 56)
}

/// How bytes become key prefixes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Alphabet {
    Bytes,
    /// Sixteen bytes from `/`, which is 0, to `9`; what is less than these is 0 too, what is greater 11, and ends the key prefix.
    Digits,
}

/// The byte that is 0 among the digits.
const ZERO: u8 = b'0' - 1;
/// The code for all bytes that follow the digits in order.
const BEHIND: u64 = 11;

impl Alphabet {
    /// The better one for rests of which these are the least and the greatest.
    pub(super) fn of(first: &[u8], last: &[u8]) -> Alphabet {
        let decimal = |rest: &[u8]| rest.iter().take(4).all(u8::is_ascii_digit);
        let both = decimal(first) && decimal(last) && digits(first) != digits(last);
        if both { Alphabet::Digits } else { Alphabet::Bytes }
    }

    /// The key prefix of what follows a common prefix.
    #[inline(always)]
    pub(super) fn key_prefix(self, rest: &[u8]) -> u64 {
        match self {
            Alphabet::Bytes => key_prefix64(rest),
            Alphabet::Digits => digits(rest),
        }
    }

    /// Bits of a key prefix that a byte takes.
    pub(super) fn bits(self) -> u32 {
        match self {
            Alphabet::Bytes => 8,
            Alphabet::Digits => 4,
        }
    }

    /// Whether none of these bytes ends a key prefix.
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
    let word = key_prefix64(bytes) | ZEROS.checked_shr(8 * bytes.len().min(8) as u32).unwrap_or(0);
    // The top bit of a byte comes where it is less than the digits, or greater. A carry comes only from such a byte.
    if (word.wrapping_sub(ZEROS) | word.wrapping_add(ABOVE) | word) & TOP != 0 {
        return None;
    }
    let word = word - ZEROS;
    let word = (word | word >> 4) & 0x00ff_00ff_00ff_00ff;
    let word = (word | word >> 8) & 0x0000_ffff_0000_ffff;
    Some((word | word >> 16) as u32)
}

/// Reads digits one by one, up to the first byte that is none.
fn mixed_digits(rest: &[u8]) -> u64 {
    let mut key_prefix = 0;
    for (&byte, at) in rest.iter().zip((0..u64::BITS).step_by(4)) {
        match byte {
            ZERO..=b'9' => key_prefix |= u64::from(byte - ZERO) << (60 - at),
            byte => {
                let end = if byte < ZERO { 0 } else { BEHIND };
                return key_prefix | end << (60 - at);
            }
        }
    }
    key_prefix
}

/// The first sixteen bytes as a number.
#[inline(always)]
pub(super) fn key_prefix128(rest: &[u8]) -> u128 {
    if let Some(all) = rest.first_chunk() {
        return u128::from_be_bytes(*all);
    }
    let (high, low) = rest.split_at(rest.len().min(8));
    u128::from(key_prefix64(high)) << 64 | u128::from(key_prefix64(low))
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
                let mut member = b"common:".to_vec();
                member.truncate(rng.below(7) as usize);
                let bytes = [b'0', b'5', b'9', b'/', 0, b'.', b':', 255];
                let some = 1 + rng.below(8);
                member.extend((0..rng.below(20)).map(|_| bytes[rng.below(some) as usize]));
                member
            })
            .collect();
        members.sort();
        for common in ["", "s", "common:", "common:0", "common:/9"] {
            let place = |member: &Vec<u8>| match rest(common.as_bytes(), member) {
                Err(Ordering::Less) => (0, 0, 0),
                Ok(rest) => (1, key_prefix128(rest), Alphabet::Bytes.key_prefix(rest)),
                Err(_) => (2, 0, 0),
            };
            assert!(members.iter().map(place).is_sorted(), "{common:?}");
            let rests = members.iter().filter_map(|member| rest(common.as_bytes(), member).ok());
            rests.clone().for_each(|rest| assert_eq!(digits(rest), mixed_digits(rest), "{rest:?}"));
            assert!(rests.map(|rest| Alphabet::Digits.key_prefix(rest)).is_sorted(), "{common:?}");
            for member in &members {
                assert_eq!(place(member).0 == 1, member.starts_with(common.as_bytes()));
                let (_, wide, narrow) = place(member);
                assert_eq!((wide >> 64) as u64, narrow, "{member:?}");
            }
        }
        assert_eq!(key_prefix64(b"ab"), 0x6162 << 48);
        assert_eq!(key_prefix64(b"abcdef"), 0x6162_6364_6566 << 16);
        assert_eq!(digits(b"0123456789"), 0x0012_3456_789a << 24);
        assert_eq!(digits(b"9:9"), 0xab << 56);
    }

    #[test]
    fn a_stem_is_what_is_common() {
        assert_eq!(CommonPrefix::common(b"element:1", b"element:27").get(), b"element:");
        assert_eq!(CommonPrefix::common(b"", b"x"), CommonPrefix::NONE);
        assert_eq!(CommonPrefix::common(&[7; 300], &[7; 300]).get(), [7; COMMON_MAX]);
    }
}
