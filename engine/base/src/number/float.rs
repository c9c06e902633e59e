//! Doubles: the texts that Redis takes for a number, and the form in which it replies one (C's `%.17g`).

use super::scan::{Format, Rounded, Text, scan};
use std::io::Write;

const DOUBLE: Format = Format { bits: 53, least: -1074, most: 971 };

/// Reads a double as `strtod` would, the whole text: signs, exponents, hexadecimal, infinity; no spaces and no NaN.
/// A text that is not zero but too small, not infinite but too large, or longer than 5119 bytes, is refused.
pub fn parse_f64(text: &[u8]) -> Option<f64> {
    read(text).and_then(|(value, in_range)| in_range.then_some(value))
}

/// Parses like [`parse_f64`], but gives infinity for a number that is too large and zero for one that is too small.
pub fn parse_f64_clamped(text: &[u8]) -> Option<f64> {
    read(text).map(|(value, _)| value)
}

/// The nearest double, and whether the text is within what doubles can tell from zero and infinity.
fn read(text: &[u8]) -> Option<(f64, bool)> {
    // Most scores are whole numbers; the conversion rounds to the nearest too.
    if let Some(whole) = super::parse_i64(text) {
        return Some((whole as f64, true));
    }
    if let Some(value) = read_short(text) {
        return Some((value, true));
    }
    let (negative, value) = scan(text)?;
    let (magnitude, in_range) = match value {
        Text::Infinite => (f64::INFINITY, true),
        Text::Decimal { ref digits, .. } => {
            // The standard library rounds correctly and knows each form that `scan` let pass.
            let value = std::str::from_utf8(text).expect("scanned: ASCII only").parse::<f64>();
            let value = value.expect("scanned: a decimal number").abs();
            (value, value.is_finite() && (digits.is_empty() || value != 0.0))
        }
        Text::Binary { mantissa, exponent } => {
            let value = from_rounded(DOUBLE.round_big(&mantissa, exponent, false));
            (value, value.is_finite() && (mantissa.bits() == 0 || value != 0.0))
        }
    };
    Some((if negative { -magnitude } else { magnitude }, in_range))
}

/// Powers of ten that a double holds exactly.
const POWERS: [f64; 19] =
    [1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18];
/// Bytes of a number behind its sign whose digits fit in 64 bits.
const SHORT_MAX: usize = 19;

/// Reads digits with at most one point among them, if they are few: as a whole number they are a double without rounding, as
/// the power of ten is that their fraction has, and so the quotient is rounded once. Scores are written so, leading zeros
/// included; else this takes a tenth of a ZADD.
fn read_short(text: &[u8]) -> Option<f64> {
    let (negative, text) = match text {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        rest => (false, rest),
    };
    if text.len() > SHORT_MAX {
        return None;
    }
    let (mut whole, mut point) = (0, None);
    for (at, byte) in text.iter().enumerate() {
        match byte {
            b'0'..=b'9' => whole = whole * 10 + u64::from(byte - b'0'),
            b'.' if point.is_none() => point = Some(at),
            _ => return None,
        }
    }
    let fraction = point.map_or(0, |at| text.len() - at - 1);
    let digits = text.len() - usize::from(point.is_some());
    if digits == 0 || whole > 1 << f64::MANTISSA_DIGITS {
        return None;
    }
    let value = whole as f64 / POWERS[fraction];
    Some(if negative { -value } else { value })
}

fn from_rounded(rounded: Rounded) -> f64 {
    match rounded {
        Rounded::Finite(0, _) => 0.0,
        Rounded::Finite(mantissa, exponent) => {
            let normal = mantissa >> 52 != 0;
            let biased = if normal { (exponent - DOUBLE.least + 1) as u64 } else { 0 };
            f64::from_bits(biased << 52 | (mantissa & ((1 << 52) - 1)))
        }
        Rounded::Overflow => f64::INFINITY,
    }
}

/// The integer whose text is that of this double, if it is a whole number that 17 digits hold: no rounding is needed, and
/// they are what scores mostly are.
#[inline]
pub fn whole_f64(value: f64) -> Option<i64> {
    let whole = value.trunc() == value && value.abs() < 1e15 && (value != 0.0 || value.is_sign_positive());
    whole.then_some(value as i64)
}

/// Significant digits that tell all doubles apart.
const DIGITS_MAX: usize = 17;

/// Appends `value` as Redis replies a double: 17 significant digits without trailing zeros (C's `%.17g`).
pub fn push_f64(out: &mut Vec<u8>, value: f64) {
    match whole_f64(value) {
        Some(whole) => super::push_i64(out, whole),
        None => push_f64_rounded(out, value, DIGITS_MAX),
    }
}

/// Appends `value` rounded to this number of significant digits, 1 to 17, without trailing zeros (C's `%.14g` for 14).
pub fn push_f64_rounded(out: &mut Vec<u8>, value: f64, digits: usize) {
    assert!((1..=DIGITS_MAX).contains(&digits), "a double has 1 to 17 digits");
    if value.is_sign_negative() {
        out.push(b'-');
    }
    if !value.is_finite() {
        out.extend_from_slice(if value.is_nan() { b"nan" } else { b"inf" });
        return;
    }
    // "d.dddddddddddddddde-xx": one digit before the point. With one digit there is no point.
    let mut text = [0u8; 32];
    let mut rest = &mut text[..];
    write!(rest, "{:.*e}", digits - 1, value.abs()).expect("a double has at most 3 digits of exponent");
    let used = 32 - rest.len();
    let mark = text[..used].iter().position(|&b| b == b'e').expect("the form has an exponent");
    let exponent = std::str::from_utf8(&text[mark + 1..used]).ok().and_then(|e| e.parse().ok()).expect("its exponent");
    let mut all = [text[0]; DIGITS_MAX];
    if digits > 1 {
        all[1..digits].copy_from_slice(&text[2..mark]);
    }
    push_general(out, &all[..digits], exponent);
}

/// Appends C's `%g` form of `0.d1d2d3… * 10^(exponent + 1)`, the precision being the number of digits.
pub(super) fn push_general(out: &mut Vec<u8>, digits: &[u8], exponent: i32) {
    let precision = digits.len() as i32;
    let last = digits.iter().rposition(|&b| b != b'0').unwrap_or(0);
    let digits = &digits[..=last];
    if !(-4..precision).contains(&exponent) {
        out.push(digits[0]);
        if digits.len() > 1 {
            out.push(b'.');
            out.extend_from_slice(&digits[1..]);
        }
        write!(out, "e{}{:02}", if exponent < 0 { '-' } else { '+' }, exponent.unsigned_abs()).expect("a Vec takes it");
    } else if exponent < 0 {
        out.extend_from_slice(b"0.");
        out.resize(out.len() + (-exponent - 1) as usize, b'0');
        out.extend_from_slice(digits);
    } else {
        let whole = exponent as usize + 1;
        let split = whole.min(digits.len());
        out.extend_from_slice(&digits[..split]);
        out.resize(out.len() + whole - split, b'0');
        if split < digits.len() {
            out.push(b'.');
            out.extend_from_slice(&digits[split..]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(value: f64) -> String {
        let mut out = Vec::new();
        push_f64(&mut out, value);
        String::from_utf8(out).unwrap()
    }

    /// One division reads the number that the standard library reads.
    #[test]
    fn issue_11_short_numbers_are_rounded_once() {
        let mut rng = crate::rng::Rng::seeded(9);
        let mut shorts = 0;
        for _ in 0..100_000 {
            let digits = 1 + rng.below(20) as usize;
            let mut text: String = (0..digits).map(|_| char::from(b'0' + rng.below(10) as u8)).collect();
            if rng.below(3) > 0 {
                text.insert(rng.below(digits as u64 + 1) as usize, '.');
            }
            text.insert_str(0, ["", "-", "+"][rng.below(3) as usize]);
            let expected: f64 = text.parse().expect("a number");
            if let Some(value) = read_short(text.as_bytes()) {
                shorts += 1;
                assert_eq!(value.to_bits(), expected.to_bits(), "{text}");
            }
            assert_eq!(parse_f64(text.as_bytes()).map(f64::to_bits), Some(expected.to_bits()), "{text}");
        }
        assert!(shorts > 50_000, "{shorts} were short");
        for (text, short) in [("000000123456", true), ("5.", true), (".5", true), ("9007199254740992", true)] {
            assert_eq!(read_short(text.as_bytes()).is_some(), short, "{text}");
        }
        for text in ["", "-", ".", "1.2.3", "1e3", "0x10", "inf", "1 ", "9007199254740993", "00000000000000000001"] {
            assert_eq!(read_short(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn rounded() {
        // Each as C prints it with "%.14g" or "%.1g".
        let table = [
            (std::f64::consts::PI, 14, "3.1415926535898"),
            (1e14, 14, "1e+14"),
            (99_999_999_999_999.0, 14, "99999999999999"),
            (0.0, 14, "0"),
            (0.1, 14, "0.1"),
            (-0.0, 14, "-0"),
            (95.0, 1, "1e+02"),
            (-7.0, 1, "-7"),
            (f64::NEG_INFINITY, 3, "-inf"),
        ];
        for (value, digits, expected) in table {
            let mut out = Vec::new();
            push_f64_rounded(&mut out, value, digits);
            assert_eq!(String::from_utf8(out).unwrap(), expected);
        }
    }

    #[test]
    fn replies() {
        // Each as C prints it with "%.17g".
        let table = [
            (0.0, "0"),
            (-0.0, "-0"),
            (1.0, "1"),
            (-15.0, "-15"),
            (0.1, "0.10000000000000001"),
            (3.5, "3.5"),
            (1e15, "1000000000000000"),
            (1e16, "10000000000000000"),
            (1e17, "1e+17"),
            (123456789012345678.0, "1.2345678901234568e+17"),
            (1e100, "1e+100"),
            (1e-4, "0.0001"),
            (1e-5, "1.0000000000000001e-05"),
            (0.00012345, "0.00012344999999999999"),
            (f64::MAX, "1.7976931348623157e+308"),
            (f64::MIN_POSITIVE, "2.2250738585072014e-308"),
            (5e-324, "4.9406564584124654e-324"),
            (f64::INFINITY, "inf"),
            (f64::NEG_INFINITY, "-inf"),
            (f64::NAN, "nan"),
            (-f64::NAN, "-nan"),
            (9007199254740993.0, "9007199254740992"),
            (100.25, "100.25"),
        ];
        for (value, expected) in table {
            assert_eq!(text(value), expected);
        }
    }

    #[test]
    fn integers_read_as_their_decimals_do() {
        for bits in (0..64)
            .flat_map(|shift| [1u64 << shift, (1 << shift) - 1, (1 << shift) + 1, 0x1fff_ffff_ffff_ffff >> shift])
        {
            for whole in [bits as i64, (bits as i64).wrapping_neg()] {
                let (integer, decimal) = (whole.to_string(), format!("{whole}.0"));
                assert_eq!(parse_f64(integer.as_bytes()), parse_f64(decimal.as_bytes()), "{whole}");
                assert_eq!(whole_f64(whole as f64).is_some(), (whole as f64).abs() < 1e15, "{whole}");
            }
        }
    }

    #[test]
    fn texts() {
        let table = [
            ("1", 1.0),
            ("+1.5", 1.5),
            ("-0", -0.0),
            (".5", 0.5),
            ("5.", 5.0),
            ("1e3", 1000.0),
            ("1E-3", 0.001),
            ("inf", f64::INFINITY),
            ("-Infinity", f64::NEG_INFINITY),
            ("+INF", f64::INFINITY),
            ("0x10", 16.0),
            ("0x1.8p1", 3.0),
            ("0X.8P+1", 1.0),
            ("0x1p-1074", 5e-324),
            ("0x1.fffffffffffff8p0", 2.0),
            ("0x1.fffffffffffff7p0", f64::from_bits(0x3fff_ffff_ffff_ffff)),
            ("0x0", 0.0),
            ("0e999999999999999999999", 0.0),
            ("4.9e-324", 5e-324),
            ("1.7976931348623157e308", f64::MAX),
        ];
        for (text, value) in table {
            assert_eq!(parse_f64(text.as_bytes()).map(f64::to_bits), Some(f64::to_bits(value)), "{text}");
        }
        let long = |bytes: usize| "0".repeat(bytes - 1) + "7";
        assert_eq!((parse_f64(long(5119).as_bytes()), parse_f64(long(5120).as_bytes())), (Some(7.0), None));
        for bad in
            ["", "nan", " 1", "1 ", "1e400", "-1e400", "1e-400", "0x1p1024", "0x1p-1080", "abc", "1e", "0x", "1\0"]
        {
            assert_eq!(parse_f64(bad.as_bytes()), None, "{bad:?}");
        }
    }

    #[test]
    fn what_is_written_is_read() {
        let mut rng = crate::rng::Rng::seeded(11);
        for _ in 0..50_000 {
            let value = f64::from_bits(rng.next_u64());
            if value.is_finite() {
                assert_eq!(parse_f64(text(value).as_bytes()).map(f64::to_bits), Some(value.to_bits()));
            }
        }
    }
}
