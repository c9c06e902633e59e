//! Kinds of a directive's value, and its canonical text: the one that CONFIG GET answers and CONFIG REWRITE writes.
//!
//! Messages of `Kind::parse` are seen by clients and must be those of Redis 7.0.15. Kinds with a grammar of their own
//! are in `special.rs`.

use super::grammar::{Refusal, integer, memory, not_one_of, strict_i64};
use super::special::{Special, backquoted};

/// The kind of a directive's value. Bounds are inclusive.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Kind {
    /// `yes` or `no`.
    Bool,
    /// A decimal integer.
    Int { min: i64, max: i64 },
    /// A decimal integer, which is then brought into the narrower range `to`.
    Clipped { min: i64, max: i64, to: (i64, i64) },
    /// An octal integer (mode bits).
    Octal { max: u32 },
    /// Bytes: a decimal number with a unit (`b`, `k` = 1000, `kb` = 1024, `m`, `mb`, `g`, `gb`).
    Memory { min: u64, max: u64 },
    /// Bytes, or `N%` with N from 0 to 100.
    MemoryOrPercent,
    /// One of these words.
    Enum(&'static [&'static str]),
    /// Any bytes.
    Text,
    /// A grammar of its own.
    Special(Special),
}

impl Kind {
    /// Checks the arguments of a directive and gives the canonical text. `current` is the value so far, on which the
    /// directives that change only a part of theirs build.
    pub(crate) fn parse(self, arguments: &[Vec<u8>], current: &[u8]) -> Result<Vec<u8>, Refusal> {
        if let Kind::Special(special) = self {
            return special.parse(arguments, current);
        }
        let [argument] = arguments else {
            return Err("wrong number of arguments".into());
        };
        match self {
            Kind::Bool => one_of(&["yes", "no"], argument).ok_or_else(|| "argument must be 'yes' or 'no'".into()),
            Kind::Int { min, max } => integer(argument, min, max).map(as_text),
            Kind::Clipped { min, max, to: (low, high) } => {
                integer(argument, min, max).map(|number| as_text(number.clamp(low, high)))
            }
            Kind::Octal { max } => octal(argument, max),
            Kind::Memory { min, max } => {
                let bytes = memory(argument).ok_or("argument must be a memory value")?;
                within(bytes, min, max)
            }
            Kind::MemoryOrPercent => memory_or_percent(argument),
            Kind::Enum(words) => one_of(words, argument).ok_or_else(|| not_one_of(words)),
            Kind::Text => Ok(argument.clone()),
            Kind::Special(_) => unreachable!("handled above"),
        }
    }

    /// The values in words, for documents. A bound that is that of a machine's number is left out.
    pub(super) fn in_words(self) -> String {
        let open = |max: i64| [i64::from(i32::MAX), i64::from(u32::MAX), i64::MAX].contains(&max);
        match self {
            Kind::Bool => backquoted(&["yes", "no"]),
            Kind::Int { min, .. } if min == i64::from(i32::MIN) => "a number".into(),
            Kind::Int { min, max } if open(max) => format!("a number from {min}"),
            Kind::Int { min, max } | Kind::Clipped { to: (min, max), .. } => format!("a number from {min} to {max}"),
            Kind::Octal { max } => format!("an octal number up to {max:o}"),
            Kind::Memory { min: 0 | 1, .. } => "bytes, as in `100mb`".into(),
            Kind::Memory { min, .. } => format!("bytes, as in `100mb`, {min} at least"),
            Kind::MemoryOrPercent => "bytes, as in `100mb`, or `5%`".into(),
            Kind::Enum(words) => backquoted(words),
            Kind::Text => "text".into(),
            Kind::Special(special) => special.in_words(),
        }
    }

    /// Whether the value of a line or of CONFIG SET is a list of words.
    pub(crate) fn takes_many(self) -> bool {
        matches!(self, Kind::Special(special) if special.takes_many())
    }
}

fn one_of(words: &[&str], argument: &[u8]) -> Option<Vec<u8>> {
    let word = words.iter().find(|word| word.as_bytes().eq_ignore_ascii_case(argument))?;
    Some(word.as_bytes().to_vec())
}

fn as_text(number: i64) -> Vec<u8> {
    number.to_string().into_bytes()
}

fn within(number: u64, min: u64, max: u64) -> Result<Vec<u8>, Refusal> {
    if number < min || number > max {
        return Err(format!("argument must be between {min} and {max} inclusive").into());
    }
    Ok(number.to_string().into_bytes())
}

fn octal(argument: &[u8], max: u32) -> Result<Vec<u8>, Refusal> {
    let refused = "argument couldn't be parsed as an octal number";
    let text = std::str::from_utf8(argument).map_err(|_| refused)?;
    if text.starts_with('+') {
        return Err(refused.into());
    }
    let number = i64::from_str_radix(text, 8).map_err(|_| refused)?;
    match u32::try_from(number) {
        Ok(mode) if mode <= max => Ok(format!("{mode:o}").into_bytes()),
        _ => Err(format!("argument must be between 0 and {max:o} inclusive").into()),
    }
}

fn memory_or_percent(argument: &[u8]) -> Result<Vec<u8>, Refusal> {
    let refused = "argument must be a memory or percent value";
    let Some(percent) = argument.strip_suffix(b"%") else {
        let bytes = memory(argument).ok_or(refused)?;
        return within(bytes, 0, i64::MAX as u64);
    };
    match strict_i64(percent) {
        None | Some(i64::MIN..=-1) => Err(refused.into()),
        Some(0) => Ok(b"0".to_vec()),
        Some(number @ 1..=100) => Ok(format!("{number}%").into_bytes()),
        Some(_) => Err("percentage argument must be less or equal to 100".into()),
    }
}
