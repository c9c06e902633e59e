//! The two ends of a range, as requests write them.
//!
//! ```text
//!  ranks    0 -1          signed, negative from the end, both inside
//!  scores   1 (2 -inf     `(` leaves the score itself outside
//!  members  [a (b - +     `[` or `(` and the member; before all, behind all
//! ```
//! Scores are read with the liberties of C's `strtod`, which is what the peer reads bounds with: space in front, an
//! empty text for 0, an end at the first zero byte, a number too large for infinity and one too small for 0. (The
//! scores of ZADD take none of these.)

use varve_base::number::parse_f64_clamped;
use varve_exec::CmdResult;
use varve_protocol::Args;
use varve_store::{LexBound, ScoreBound, ZRange};

use crate::errors;
use crate::grammar::integer;

/// The kind of the ends of a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum By {
    Rank,
    Score,
    Lex,
}

/// The ends of a range. Ranks are told from either end until the length is known.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Bounds<'a> {
    Rank(i64, i64),
    Other(ZRange<'a>),
}

impl<'a> Bounds<'a> {
    /// Reads the bounds that arguments `at` and `at + 1` are. If they are `turned`, a high end of scores or members
    /// stands first; ranks stand in the order in which they count.
    pub(super) fn parse(args: &Args<'a>, at: usize, by: By, turned: bool) -> CmdResult<Bounds<'a>> {
        let (first, second) = (args.get(at), args.get(at + 1));
        let (low, high) = if turned { (second, first) } else { (first, second) };
        Ok(match by {
            By::Rank => Bounds::Rank(integer(first)?, integer(second)?),
            By::Score => {
                let bound = |text| score(text).ok_or(errors::BOUND_NO_FLOAT);
                Bounds::Other(ZRange::Score { min: bound(low)?, max: bound(high)? })
            }
            By::Lex => {
                let bound = |text| member(text).ok_or(errors::BOUND_NO_MEMBER);
                Bounds::Other(ZRange::Lex { min: bound(low)?, max: bound(high)? })
            }
        })
    }

    /// The range in a set of `length` members; a range of ranks ends with the last member.
    pub(super) fn within(self, length: usize) -> ZRange<'a> {
        let (start, stop) = match self {
            Bounds::Other(range) => return range,
            Bounds::Rank(start, stop) => (start, stop),
        };
        let length = length as i64;
        let place = |at: i64| if at < 0 { at.saturating_add(length) } else { at };
        let (start, stop) = (place(start).max(0), place(stop).min(length - 1));
        if stop < start {
            return ZRange::Rank { start: 1, stop: 0 };
        }
        ZRange::Rank { start: start as u64, stop: stop as u64 }
    }
}

/// A score, or one that is itself outside.
fn score(text: &[u8]) -> Option<ScoreBound> {
    let (open, number) = match text {
        [b'(', number @ ..] => (true, number),
        _ => (false, text),
    };
    Some(ScoreBound { value: strtod(number)?, open })
}

/// Reads a number as `strtod` does where the caller looks only at where it stopped.
fn strtod(text: &[u8]) -> Option<f64> {
    let text = text.split(|b| *b == 0).next().unwrap_or_default();
    if text.is_empty() {
        return Some(0.0);
    }
    let blank = |b: &u8| matches!(b, b' ' | b'\t'..=b'\r');
    let digits = &text[text.iter().position(|b| !blank(b))?..];
    parse_f64_clamped(digits)
}

/// A member, itself inside or outside, or an end of everything.
fn member(text: &[u8]) -> Option<LexBound<'_>> {
    match text {
        [b'-'] | [b'-', 0, ..] => Some(LexBound::Min),
        [b'+'] | [b'+', 0, ..] => Some(LexBound::Max),
        [b'[', member @ ..] => Some(LexBound::Incl(member)),
        [b'(', member @ ..] => Some(LexBound::Excl(member)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::{Bounds, strtod};
    use varve_store::ZRange;

    #[test]
    fn numbers_are_read_as_strtod_reads_them() {
        let table: [(&str, f64); 13] = [
            ("1.5", 1.5),
            ("", 0.0),
            ("\0x", 0.0),
            ("7\0x", 7.0),
            (" 7", 7.0),
            ("\t\n\x0b\x0c\r7", 7.0),
            ("1e999", f64::INFINITY),
            ("-1e999", f64::NEG_INFINITY),
            ("1e-999", 0.0),
            ("inf", f64::INFINITY),
            ("-Infinity", f64::NEG_INFINITY),
            ("0x10", 16.0),
            (".5", 0.5),
        ];
        for (text, value) in table {
            assert_eq!(strtod(text.as_bytes()), Some(value), "{text:?}");
        }
        for bad in [" ", "x", "1x", "1 ", "nan", "1e", "--1", "e", "\u{e9}"] {
            assert_eq!(strtod(bad.as_bytes()), None, "{bad:?}");
        }
    }

    #[test]
    fn ranks_are_placed_in_the_length() {
        let table = [
            (0, -1, Some((0, 9))),
            (0, 0, Some((0, 0))),
            (-3, -2, Some((7, 8))),
            (-100, 2, Some((0, 2))),
            (5, 100, Some((5, 9))),
            (100, 200, None),
            (3, 2, None),
            (0, -11, None),
            (i64::MIN, i64::MAX, Some((0, 9))),
            (i64::MAX, i64::MIN, None),
        ];
        for (start, stop, want) in table {
            let got = Bounds::Rank(start, stop).within(10);
            let (start, stop) = want.unwrap_or((1, 0));
            assert_eq!(got, ZRange::Rank { start, stop });
        }
    }
}
