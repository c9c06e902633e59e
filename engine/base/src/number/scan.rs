//! The text of a floating-point number taken apart, by the rules of C's `strtod`, and rounding to a binary format.
//!
//! The whole text must be the number: no spaces, nothing behind it. NaN is not a number here.

use num_bigint::BigUint;

/// A number as its text says it, exact.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Text {
    /// `inf` or `infinity` in any case.
    Infinite,
    /// `digits * 10^exponent`. Digits without leading zeros; empty for zero.
    Decimal { digits: Vec<u8>, exponent: i64 },
    /// `mantissa * 2^exponent`.
    Binary { mantissa: BigUint, exponent: i64 },
}

/// Bounds that no exponent in a text has to pass: far outside every format, far inside `i64`.
const EXPONENT_BOUND: i64 = 1 << 40;

/// Bytes of a text that is read as a number, at most: as many as redis-server reads for a long double. Its doubles may be longer, and
/// take as long to read.
pub(super) const TEXT_MAX: usize = 5 * 1024 - 1;

/// Reads a number; the sign comes first in the result.
pub(super) fn scan(text: &[u8]) -> Option<(bool, Text)> {
    if text.len() > TEXT_MAX {
        return None;
    }
    let (negative, rest) = match text {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        rest => (false, rest),
    };
    let value = match rest {
        [b'0', b'x' | b'X', hex @ ..] => scan_hex(hex)?,
        [b'0'..=b'9' | b'.', ..] => scan_decimal(rest)?,
        _ if rest.eq_ignore_ascii_case(b"inf") || rest.eq_ignore_ascii_case(b"infinity") => Text::Infinite,
        _ => return None,
    };
    Some((negative, value))
}

fn scan_decimal(text: &[u8]) -> Option<Text> {
    let (mut digits, point, rest) = mantissa(text, u8::is_ascii_digit)?;
    let exponent = exponent(rest, b'e')?.saturating_sub(point);
    let zeros = digits.iter().take_while(|&&b| b == b'0').count();
    digits.drain(..zeros);
    Some(Text::Decimal { digits, exponent })
}

fn scan_hex(text: &[u8]) -> Option<Text> {
    let (digits, point, rest) = mantissa(text, u8::is_ascii_hexdigit)?;
    let mantissa = BigUint::parse_bytes(&digits, 16)?;
    Some(Text::Binary { mantissa, exponent: exponent(rest, b'p')?.saturating_sub(4 * point) })
}

/// Splits off digits with at most one point: the digits, how many of them stand behind the point, the rest.
fn mantissa(text: &[u8], is_digit: fn(&u8) -> bool) -> Option<(Vec<u8>, i64, &[u8])> {
    let whole = text.iter().take_while(|b| is_digit(b)).count();
    let (before, mut rest) = text.split_at(whole);
    let mut digits = before.to_vec();
    let mut fraction = 0;
    if let [b'.', behind @ ..] = rest {
        fraction = behind.iter().take_while(|b| is_digit(b)).count();
        digits.extend_from_slice(&behind[..fraction]);
        rest = &behind[fraction..];
    }
    (!digits.is_empty()).then_some((digits, fraction as i64, rest))
}

/// Reads nothing (0) or `mark`, a sign and digits, to the end of the text.
fn exponent(text: &[u8], mark: u8) -> Option<i64> {
    let [first, rest @ ..] = text else { return Some(0) };
    let (negative, digits) = match rest {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        rest => (false, rest),
    };
    if first.to_ascii_lowercase() != mark || digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let bounded = |sum: i64, &b: &u8| (sum * 10 + i64::from(b - b'0')).min(EXPONENT_BOUND);
    let value = digits.iter().fold(0, bounded);
    Some(if negative { -value } else { value })
}

/// A binary format: how many bits a mantissa has and the exponents of its last bit.
pub(super) struct Format {
    pub(super) bits: u32,
    /// Exponent of the last bit of the smallest numbers.
    pub(super) least: i64,
    /// Exponent of the last bit of the largest numbers.
    pub(super) most: i64,
}

/// The result of rounding: `mantissa * 2^exponent`, or more than the format holds.
#[derive(Debug, PartialEq, Eq, Clone, Copy)]
pub(super) enum Rounded {
    Finite(u64, i64),
    Overflow,
}

impl Format {
    /// Rounds `(wide + something below 1 if inexact) * 2^exponent` to nearest, ties to even. The mantissa has all its
    /// bits unless the number is at the format's lower end.
    ///
    /// An inexact `wide` must have at least two bits more than the mantissa, else the half could not be told.
    pub(super) fn round(&self, wide: u128, exponent: i64, inexact: bool) -> Rounded {
        if wide == 0 {
            return Rounded::Finite(0, self.least);
        }
        let length = i64::from(128 - wide.leading_zeros());
        debug_assert!(!inexact || length >= i64::from(self.bits) + 2);
        let mut target = (exponent + length - i64::from(self.bits)).max(self.least);
        let cut = target - exponent;
        let mut mantissa = match cut {
            ..=0 => wide << -cut,
            1..=127 => {
                let (kept, rest, half) = (wide >> cut, wide & ((1 << cut) - 1), 1u128 << (cut - 1));
                let up = rest > half || (rest == half && (inexact || kept & 1 == 1));
                kept + u128::from(up)
            }
            128 => u128::from(wide > 1 << 127 || (wide == 1 << 127 && inexact)),
            _ => 0,
        };
        if mantissa >> self.bits != 0 {
            mantissa >>= 1;
            target += 1;
        }
        if target > self.most {
            return Rounded::Overflow;
        }
        Rounded::Finite(u64::try_from(mantissa).expect("a mantissa has at most 64 bits"), target)
    }

    /// Rounds `big * 2^exponent`, as `round`.
    pub(super) fn round_big(&self, big: &BigUint, exponent: i64, inexact: bool) -> Rounded {
        let cut = big.bits().saturating_sub(128);
        let wide = u128::try_from(big >> cut).expect("cut to 128 bits");
        let lost = cut > 0 && big.trailing_zeros().is_some_and(|zeros| zeros < cut);
        self.round(wide, exponent + cut as i64, inexact || lost)
    }

    /// Rounds `digits * 10^exponent`, digits without leading zeros.
    pub(super) fn round_decimal(&self, digits: &[u8], exponent: i64) -> Rounded {
        // Place of the first digit; outside of these bounds it decides alone, and no big number must be made.
        let first = exponent.saturating_add(digits.len() as i64);
        if digits.is_empty() || first < -5_000 {
            return Rounded::Finite(0, self.least);
        }
        if first > 5_000 {
            return Rounded::Overflow;
        }
        let number = BigUint::parse_bytes(digits, 10).expect("only digits");
        let power = BigUint::from(10u32).pow(exponent.unsigned_abs() as u32);
        if exponent >= 0 {
            return self.round_big(&(number * power), 0, false);
        }
        let shift = (power.bits() + 68).saturating_sub(number.bits());
        let shifted = number << shift;
        let quotient = &shifted / &power;
        let inexact = &quotient * &power != shifted;
        self.round_big(&quotient, -(shift as i64), inexact)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_that_are_no_numbers() {
        let bad = [
            "", "-", "+", ".", "e1", ".e1", "1e", "1e+", "1 ", " 1", "0x", "0x.", "0xp1", "0x1p", "0x1p+", "nan",
            "-nan", "nan(1)", "infi", "infinit", "1\0", "1..2", "1e5.0", "--1", "+-1", "0x1e+1", "1p3", "1,5", "in",
            "0x1g",
        ];
        for bad in bad {
            assert_eq!(scan(bad.as_bytes()), None, "{bad:?}");
        }
    }

    #[test]
    fn rounds_to_even_at_both_ends() {
        let tiny = Format { bits: 3, least: -4, most: 2 };
        assert_eq!(tiny.round(0b1001, 0, false), Rounded::Finite(0b100, 1));
        assert_eq!(tiny.round(0b1011, 0, false), Rounded::Finite(0b110, 1));
        assert_eq!(tiny.round(0b1111, 0, false), Rounded::Finite(0b100, 2));
        assert_eq!(tiny.round(0b11111, 0, false), Rounded::Overflow);
        assert_eq!(tiny.round(1, -4, false), Rounded::Finite(1, -4));
        assert_eq!(tiny.round(1, -5, false), Rounded::Finite(0, -4));
        assert_eq!(tiny.round(3, -5, false), Rounded::Finite(2, -4));
        assert_eq!(tiny.round(u128::MAX, -132, false), Rounded::Finite(1, -4));
        assert_eq!(tiny.round(1, -1000, false), Rounded::Finite(0, -4));
    }
}
