//! Numbers to text and back, with the exact rules and forms that clients of Redis see.
//!
//! Here: 64-bit integers. `float` has doubles, `extended` the 80-bit numbers of INCRBYFLOAT. `scan` reads the text of
//! a floating-point number, decimal or hexadecimal, for both.

mod extended;
mod float;
mod scan;

pub use extended::Extended;
pub use float::{parse_f64, parse_f64_clamped, push_f64, push_f64_rounded, whole_f64};

/// The hexadecimal digits, in the small letters that Redis writes them in.
pub const HEX_DIGITS: &[u8; 16] = b"0123456789abcdef";

/// Longest text of a 64-bit integer: a sign and 19 digits, or 20 digits without sign.
pub const INT_TEXT_MAX: usize = 20;

/// Reads a signed integer in its one canonical form: no plus, no leading zero, no space, nothing behind it.
#[inline]
pub fn parse_i64(text: &[u8]) -> Option<i64> {
    let (negative, digits) = match text {
        [b'-', rest @ ..] => (true, rest),
        _ => (false, text),
    };
    if digits.is_empty() || digits.len() > 19 {
        return None;
    }
    if digits[0] == b'0' {
        return (text.len() == 1).then_some(0);
    }
    // 19 digits stay below 10^19, which an unsigned number of 64 bits holds.
    let mut value = 0u64;
    for &byte in digits {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        value = value * 10 + u64::from(digit);
    }
    if negative { (value <= 1 << 63).then(|| (value as i64).wrapping_neg()) } else { i64::try_from(value).ok() }
}

/// Number of decimal digits of `value`, 1 for zero.
#[inline]
pub fn digits(value: u64) -> usize {
    value.checked_ilog10().map_or(1, |log| log as usize + 1)
}

/// Appends the decimal form of `value`.
#[inline]
pub fn push_i64(out: &mut Vec<u8>, value: i64) {
    if value < 0 {
        out.push(b'-');
    }
    push_u64(out, value.unsigned_abs());
}

/// Appends the decimal form of `value`.
#[inline]
pub fn push_u64(out: &mut Vec<u8>, value: u64) {
    if value < 10 {
        out.push(b'0' + value as u8);
        return;
    }
    let mut text = [0u8; INT_TEXT_MAX];
    let start = write_back(&mut text, value);
    out.extend_from_slice(&text[start..]);
}

/// The decimal form of `value`, written at the end of `text`: no allocation.
#[inline]
pub fn write_i64(text: &mut [u8; INT_TEXT_MAX], value: i64) -> &[u8] {
    let mut at = match value.unsigned_abs() {
        digit @ 0..10 => {
            text[INT_TEXT_MAX - 1] = b'0' + digit as u8;
            INT_TEXT_MAX - 1
        }
        more => write_back(text, more),
    };
    if value < 0 {
        at -= 1;
        text[at] = b'-';
    }
    &text[at..]
}

/// Writes the decimal form of `value`, which is not 0, at the end of `text`; returns where it starts.
fn write_back(text: &mut [u8; INT_TEXT_MAX], mut value: u64) -> usize {
    const PAIRS: [[u8; 2]; 100] = {
        let mut pairs = [[0; 2]; 100];
        let mut n = 0;
        while n < 100 {
            pairs[n] = [b'0' + n as u8 / 10, b'0' + n as u8 % 10];
            n += 1;
        }
        pairs
    };
    let mut at = INT_TEXT_MAX;
    while value >= 10 {
        at -= 2;
        text[at..at + 2].copy_from_slice(&PAIRS[(value % 100) as usize]);
        value /= 100;
    }
    if value > 0 {
        at -= 1;
        text[at] = b'0' + value as u8;
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_integers_without_allocation() {
        let edges = [0, 1, 9, 10, 99, 100, 101, 12345, i64::MAX, i64::MIN, i64::MIN + 1];
        for value in edges.into_iter().flat_map(|n: i64| [n, n.wrapping_neg()]) {
            assert_eq!(write_i64(&mut [b'x'; INT_TEXT_MAX], value), value.to_string().as_bytes());
        }
    }

    #[test]
    fn integers_in_canonical_form_only() {
        for good in ["0", "1", "-1", "10", "9223372036854775807", "-9223372036854775808"] {
            assert_eq!(parse_i64(good.as_bytes()), Some(good.parse().unwrap()), "{good}");
        }
        let bad = [
            "",
            "-",
            "-0",
            "00",
            "01",
            "+1",
            " 1",
            "1 ",
            "1a",
            "a",
            "--1",
            "1.0",
            "9223372036854775808",
            "-9223372036854775809",
            "99999999999999999999",
            "18446744073709551616",
            "-01",
            "1\0",
        ];
        for bad in bad {
            assert_eq!(parse_i64(bad.as_bytes()), None, "{bad:?}");
        }
    }

    #[test]
    fn text_and_digits_agree_with_the_standard_library() {
        let mut rng = crate::rng::Rng::seeded(5);
        let edges = [0, 1, 9, 10, 11, 99, 100, 101, 999, 1000, u64::MAX, i64::MAX as u64, 1 << 63];
        let random = (0..20_000).map(|_| rng.next_u64()).map(|x| x >> (x & 63));
        for value in edges.into_iter().chain(random) {
            let mut out = Vec::new();
            push_u64(&mut out, value);
            assert_eq!(out, value.to_string().as_bytes());
            assert_eq!(digits(value), out.len());
            out.clear();
            push_i64(&mut out, value as i64);
            assert_eq!(out, (value as i64).to_string().as_bytes());
            assert_eq!(parse_i64(&out), Some(value as i64));
        }
    }
}
