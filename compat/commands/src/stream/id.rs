//! IDs as clients write them.
//!
//! ```text
//! 1526919030474-55    milliseconds, and the number among the entries of one
//! 1526919030474       the number follows from where it stands: the least, or the greatest
//! - +                 the least and the greatest ID          (5-1   behind, or before, this one
//! ```

use varve_base::number::{parse_i64, push_u64};
use varve_exec::CmdResult;
use varve_store::StreamId;

use crate::errors;

/// Longest text of an ID, in bytes.
const TEXT_MAX: usize = 127;

/// The text of an ID.
pub(crate) fn id_text(id: StreamId) -> Vec<u8> {
    let mut text = Vec::with_capacity(24);
    push_u64(&mut text, id.ms);
    text.push(b'-');
    push_u64(&mut text, id.seq);
    text
}

/// Reads an ID that names both ends as well; without its second part it gets this one.
pub(super) fn parse(text: &[u8], seq: u64) -> CmdResult<StreamId> {
    match text {
        b"-" => Ok(StreamId::MIN),
        b"+" => Ok(StreamId::MAX),
        _ => parse_strict(text, seq),
    }
}

/// Reads an ID.
pub(super) fn parse_strict(text: &[u8], seq: u64) -> CmdResult<StreamId> {
    if text.len() > TEXT_MAX {
        return Err(errors::STREAM_ID);
    }
    let (ms, rest) = match text.iter().position(|&byte| byte == b'-') {
        Some(at) => (&text[..at], Some(&text[at + 1..])),
        None => (text, None),
    };
    let ms = unsigned(ms).ok_or(errors::STREAM_ID)?;
    let seq = rest.map_or(Some(seq), unsigned).ok_or(errors::STREAM_ID)?;
    Ok(StreamId::new(ms, seq))
}

/// Reads one end of a range, which a parenthesis in front excludes.
pub(super) fn parse_end(text: &[u8], is_low: bool) -> CmdResult<StreamId> {
    let seq = if is_low { 0 } else { u64::MAX };
    let Some(excluded) = text.strip_prefix(b"(").filter(|rest| !rest.is_empty()) else { return parse(text, seq) };
    let id = parse_strict(excluded, seq)?;
    if is_low { id.next().ok_or(errors::STREAM_START) } else { id.prev().ok_or(errors::STREAM_END) }
}

/// A number of 64 bits without a sign, as redis-server reads it: what is no number of 64 bits with a sign goes to C's
/// `strtoull`, which takes spaces and a sign in front.
fn unsigned(text: &[u8]) -> Option<u64> {
    if let Some(n) = parse_i64(text) {
        return u64::try_from(n).ok();
    }
    let text = text.split(|byte| *byte == 0).next()?;
    let blank = text.iter().take_while(|byte| matches!(byte, b' ' | 9..=13)).count();
    let (is_negative, digits) = match &text[blank..] {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        rest => (false, rest),
    };
    if digits.is_empty() {
        return None;
    }
    let mut number = 0u64;
    for digit in digits {
        let digit = digit.is_ascii_digit().then(|| u64::from(digit - b'0'))?;
        number = number.checked_mul(10)?.checked_add(digit)?;
    }
    Some(if is_negative { number.wrapping_neg() } else { number })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_read_as_in_the_peer() {
        let id = |ms, seq| Some(StreamId::new(ms, seq));
        let cases: [(&[u8], Option<StreamId>); 12] = [
            (b"5-3", id(5, 3)),
            (b"5", id(5, 9)),
            (b"18446744073709551615-18446744073709551615", id(u64::MAX, u64::MAX)),
            (b"18446744073709551616-1", None),
            (b"-5", None),
            (b"5--3", None),
            (b"+5-03", id(5, 3)),
            (b"5- -3", id(5, 3u64.wrapping_neg())),
            (b"", None),
            (b"5-", None),
            (b"a-1", None),
            (b"5-1-2", None),
        ];
        for (text, want) in cases {
            assert_eq!(parse_strict(text, 9).ok(), want, "{}", text.escape_ascii());
        }
        assert_eq!(parse_end(b"(5-3", true).ok(), id(5, 4));
        assert_eq!(parse_end(b"(5", false).ok(), id(5, u64::MAX - 1));
        assert!(parse_end(b"(0-0", false).is_err() && parse_end(b"(+", true).is_err());
        assert_eq!(id_text(StreamId::MAX), b"18446744073709551615-18446744073709551615");
    }
}
