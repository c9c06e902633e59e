//! 80-bit extended numbers in software: what C calls `long double` on x86, with which Redis does INCRBYFLOAT.
//!
//! ```text
//! value = (-1)^negative * mantissa * 2^exponent       mantissa: 64 bits, the top one set
//!                                                     exponent: -16445 ..= 16320 (of the last bit)
//! ```
//!
//! At the least exponent the top bit may be clear (subnormal numbers and zero). Rounding is to nearest, ties to even,
//! as the processor does. Only what those commands need exists: reading, comparing, adding, writing.

use super::float::push_general;
use super::scan::{Format, Rounded, Text, scan};
use num_bigint::BigUint;
use std::ops::{Add, Neg};

const EXTENDED: Format = Format { bits: 64, least: -16445, most: 16320 };

/// Digits behind the point of the human form.
const HUMAN_DIGITS: usize = 17;

/// An 80-bit extended floating-point number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extended {
    negative: bool,
    magnitude: Magnitude,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Magnitude {
    Finite { mantissa: u64, exponent: i32 },
    Infinite,
    Nan,
}

impl Extended {
    /// Zero.
    pub const ZERO: Extended =
        Extended { negative: false, magnitude: Magnitude::Finite { mantissa: 0, exponent: EXTENDED.least as i32 } };

    /// One.
    pub const ONE: Extended =
        Extended { negative: false, magnitude: Magnitude::Finite { mantissa: 1 << 63, exponent: -63 } };
    /// The greatest finite number.
    pub const MOST: Extended = Extended {
        negative: false,
        magnitude: Magnitude::Finite { mantissa: u64::MAX, exponent: EXTENDED.most as i32 },
    };
    /// The least finite number.
    pub const LEAST: Extended = Extended { negative: true, ..Extended::MOST };

    /// Reads a number as `strtold` would, the whole text, at most 5119 bytes. Infinity passes; NaN, a text that is not
    /// zero but too small, and one that is too large do not.
    pub fn parse(text: &[u8]) -> Option<Extended> {
        let (negative, value) = scan(text)?;
        let (rounded, zero) = match value {
            Text::Infinite => return Some(Extended { negative, magnitude: Magnitude::Infinite }),
            Text::Decimal { digits, exponent } => (EXTENDED.round_decimal(&digits, exponent), digits.is_empty()),
            Text::Binary { mantissa, exponent } => {
                (EXTENDED.round_big(&mantissa, exponent, false), mantissa.bits() == 0)
            }
        };
        match rounded {
            Rounded::Overflow => None,
            Rounded::Finite(0, _) if !zero => None,
            rounded => Some(Extended { negative, magnitude: Magnitude::from(rounded) }),
        }
    }

    /// Whether it is neither infinite nor NaN.
    pub fn is_finite(self) -> bool {
        matches!(self.magnitude, Magnitude::Finite { .. })
    }

    /// Whether it is less than another number: nothing is less than NaN, and zeros are equal.
    pub fn is_below(self, other: Extended) -> bool {
        let Extended { negative, magnitude } = self + -other;
        // Two numbers that differ have a difference that is not zero: the least numbers are as far apart as any difference goes.
        let is_zero = matches!(magnitude, Magnitude::Finite { mantissa: 0, .. });
        self != other && negative && !is_zero && magnitude != Magnitude::Nan
    }

    /// Appends Redis's human form: `%.17Lf` without trailing zeros and without a trailing point; no sign on zero.
    pub fn push_human(self, out: &mut Vec<u8>) {
        let Magnitude::Finite { mantissa, exponent } = self.magnitude else { return self.push_special(out) };
        let scaled = rounded_integer(BigUint::from(mantissa) * power_of_ten(HUMAN_DIGITS), exponent);
        let mut text = scaled.to_str_radix(10).into_bytes();
        if text.len() <= HUMAN_DIGITS {
            text.splice(0..0, std::iter::repeat_n(b'0', HUMAN_DIGITS + 1 - text.len()));
        }
        let point = text.len() - HUMAN_DIGITS;
        let used = point + text[point..].iter().rposition(|&b| b != b'0').map_or(0, |last| last + 1);
        let zero = text[..used] == *b"0";
        if self.negative && !zero {
            out.push(b'-');
        }
        out.extend_from_slice(&text[..point]);
        if used > point {
            out.push(b'.');
            out.extend_from_slice(&text[point..used]);
        }
    }

    /// Appends C's `%.17Lg` form.
    pub fn push_general(self, out: &mut Vec<u8>) {
        let Magnitude::Finite { mantissa, exponent } = self.magnitude else { return self.push_special(out) };
        if self.negative {
            out.push(b'-');
        }
        if mantissa == 0 {
            return out.push(b'0');
        }
        // A guess of the decimal exponent that is right or one too small; then there are 18 digits, not 17.
        let log2 = f64::from(exponent) + (mantissa as f64).log2();
        let mut tens = (log2 * std::f64::consts::LOG10_2 - 1e-6).floor() as i32;
        let mut text = scaled_digits(mantissa, exponent, 16 - tens);
        while text.len() > HUMAN_DIGITS {
            tens += 1;
            text = scaled_digits(mantissa, exponent, 16 - tens);
        }
        push_general(out, &text, tens);
    }

    fn push_special(self, out: &mut Vec<u8>) {
        if self.negative {
            out.push(b'-');
        }
        out.extend_from_slice(if self.magnitude == Magnitude::Nan { b"nan" } else { b"inf" });
    }
}

impl Neg for Extended {
    type Output = Extended;

    fn neg(self) -> Extended {
        Extended { negative: !self.negative, ..self }
    }
}

impl Add for Extended {
    type Output = Extended;

    fn add(self, other: Extended) -> Extended {
        use Magnitude::{Finite, Infinite, Nan};
        match (self.magnitude, other.magnitude) {
            (Nan, _) => self,
            (_, Nan) => other,
            (Infinite, Infinite) if self.negative != other.negative => Extended { negative: true, magnitude: Nan },
            (Infinite, _) => self,
            (_, Infinite) => other,
            (Finite { exponent: a, .. }, Finite { exponent: b, .. }) => {
                if a >= b {
                    self.add_finite(other)
                } else {
                    other.add_finite(self)
                }
            }
        }
    }
}

impl Extended {
    /// Adds a number whose exponent is not larger. The mantissas are 63 bits up in a wide number; what the smaller one
    /// loses below that is far behind the rounding place and only tells that the sum is not exact.
    fn add_finite(self, small: Extended) -> Extended {
        const ROOM: i32 = 63;
        let (Magnitude::Finite { mantissa: a, exponent: ea }, Magnitude::Finite { mantissa: b, exponent: eb }) =
            (self.magnitude, small.magnitude)
        else {
            unreachable!("both are finite")
        };
        let shift = (ea - eb).min(127);
        let (wide_a, wide_b) = (u128::from(a) << ROOM, u128::from(b) << ROOM);
        let (shifted, lost) = (wide_b >> shift, wide_b & ((1 << shift) - 1) != 0);
        let (negative, wide) = if self.negative == small.negative {
            (self.negative, wide_a + (shifted | u128::from(lost)))
        } else {
            let shifted = shifted | u128::from(lost);
            if wide_a >= shifted { (self.negative, wide_a - shifted) } else { (small.negative, shifted - wide_a) }
        };
        let magnitude = Magnitude::from(EXTENDED.round(wide, i64::from(ea - ROOM), false));
        // A difference of nothing is +0; a sum of zeros keeps their sign.
        Extended { negative: negative && (wide != 0 || self.negative == small.negative), magnitude }
    }
}

impl From<Rounded> for Magnitude {
    fn from(rounded: Rounded) -> Magnitude {
        match rounded {
            Rounded::Finite(mantissa, exponent) => {
                Magnitude::Finite { mantissa, exponent: i32::try_from(exponent).expect("an exponent of the format") }
            }
            Rounded::Overflow => Magnitude::Infinite,
        }
    }
}

fn power_of_ten(exponent: usize) -> BigUint {
    BigUint::from(10u32).pow(exponent as u32)
}

/// `number * 2^exponent` to the nearest integer, ties to even.
fn rounded_integer(number: BigUint, exponent: i32) -> BigUint {
    if exponent >= 0 {
        return number << exponent;
    }
    let cut = u64::from(exponent.unsigned_abs());
    round_half_even(&number >> cut, number.bit(cut - 1), number.trailing_zeros().is_some_and(|z| z + 1 < cut))
}

fn round_half_even(whole: BigUint, half: bool, more: bool) -> BigUint {
    let up = half && (more || whole.bit(0));
    whole + u32::from(up)
}

/// The digits of `mantissa * 2^exponent * 10^tens`, rounded to an integer.
fn scaled_digits(mantissa: u64, exponent: i32, tens: i32) -> Vec<u8> {
    let number = BigUint::from(mantissa);
    let power = power_of_ten(tens.unsigned_abs() as usize);
    let rounded = if tens >= 0 {
        rounded_integer(number * power, exponent)
    } else {
        assert!(exponent >= -64, "a number of more than 17 digits before the point");
        let (number, power) = (number << (exponent + 64), power << 64u32);
        let whole = &number / &power;
        let rest = (&number - &whole * &power) * 2u32;
        round_half_even(whole, rest >= power, rest != power)
    };
    rounded.to_str_radix(10).into_bytes()
}

#[cfg(test)]
mod tests;
