//! The options of SET, GETEX, MSETEX, HGETEX and HSETEX: conditions, GET, and one way to say what becomes of the time to live.

use std::ops::Range;

use varve_base::hash::digest64;
use varve_base::number::HEX_DIGITS;
use varve_catalog::{ArgKind, Argument, arg, word};
use varve_exec::{CmdResult, CommandError};
use varve_protocol::Args;
use varve_store::Ttl;

use crate::errors;
use crate::grammar::{integer, is};

/// In a row, how GETEX and its kin name a new time to live, or take it away.
pub(crate) const TIME_OR_PERSIST: &[Argument] = &[
    arg("seconds", ArgKind::Integer).token("EX"),
    arg("milliseconds", ArgKind::Integer).token("PX"),
    arg("unix-time-seconds", ArgKind::UnixTime).token("EXAT"),
    arg("unix-time-milliseconds", ArgKind::UnixTime).token("PXAT"),
    word("persist", "PERSIST"),
];

/// In a row, how MSETEX and HSETEX name a time to live, or keep the one that is there.
pub(crate) const TIME_OR_KEEPTTL: &[Argument] = &[
    arg("seconds", ArgKind::Integer).token("EX"),
    arg("milliseconds", ArgKind::Integer).token("PX"),
    arg("unix-time-seconds", ArgKind::UnixTime).token("EXAT"),
    arg("unix-time-milliseconds", ArgKind::UnixTime).token("PXAT"),
    word("keepttl", "KEEPTTL"),
];

/// The command whose options are read: each takes some of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Family {
    Set,
    /// GETEX, HGETEX and INCREX.
    Getex,
    Msetex,
    Hsetex,
}

/// When SET acts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum When<'a> {
    Always,
    /// NX; of fields FNX.
    Absent,
    /// XX; of fields FXX.
    Present,
    /// IFEQ, IFNE, IFDEQ, IFDNE
    If(Condition<'a>),
}

/// A condition on the string that a key holds. Without a key those of what differs hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Condition<'a> {
    /// The text, or the digest as DIGEST answers it.
    than: &'a [u8],
    is_digest: bool,
    /// Whether the two are to be different.
    differs: bool,
}

impl<'a> Condition<'a> {
    /// The condition of these words; None if the first one is none.
    pub(crate) fn parse(word: &[u8], than: &'a [u8]) -> Option<Condition<'a>> {
        const WORDS: [(&str, bool, bool); 4] =
            [("IFEQ", false, false), ("IFNE", false, true), ("IFDEQ", true, false), ("IFDNE", true, true)];
        let (_, is_digest, differs) = WORDS.into_iter().find(|(name, ..)| is(word, name))?;
        Some(Condition { than, is_digest, differs })
    }

    /// Whether it holds for a string; None for a key that is not there.
    ///
    /// # Errors
    /// There is a string, and the condition has no digest to compare it with.
    pub(crate) fn holds(self, old: Option<&[u8]>) -> CmdResult<bool> {
        let Some(old) = old else { return Ok(self.differs) };
        if !self.is_digest {
            return Ok((old == self.than) != self.differs);
        }
        if self.than.len() != DIGEST_DIGITS {
            return Err(errors::DIGEST_LENGTH);
        }
        let is_equal = digest_text(old).eq_ignore_ascii_case(self.than);
        Ok(is_equal != self.differs)
    }
}

/// Digits of the text of a digest.
const DIGEST_DIGITS: usize = 16;

/// The digest of a string as text: XXH3 with 64 bits and without a seed, in hexadecimal digits, the same on every server.
pub(crate) fn digest_text(value: &[u8]) -> [u8; DIGEST_DIGITS] {
    let digest = digest64(value);
    std::array::from_fn(|at| HEX_DIGITS[(digest >> (4 * (DIGEST_DIGITS - 1 - at)) & 15) as usize])
}

/// Unit and origin of a time argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unit {
    Seconds,
    Millis,
    UnixSeconds,
    UnixMillis,
}

/// The change of the time to live.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Life<'a> {
    Unsaid,
    Keep,
    Persist,
    Until(Unit, &'a [u8]),
}

/// The options that were read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Options<'a> {
    pub(crate) when: When<'a>,
    /// The condition on the fields of a hash.
    pub(crate) fields: When<'a>,
    pub(crate) get: bool,
    pub(crate) life: Life<'a>,
}

impl<'a> Options<'a> {
    /// No option was read yet.
    pub(crate) const NONE: Options<'static> =
        Options { when: When::Always, fields: When::Always, get: false, life: Life::Unsaid };

    /// Reads the arguments of a range. The times are checked later, by [`Life::ttl`].
    pub(crate) fn parse(args: &Args<'a>, Range { start, end }: Range<usize>, family: Family) -> CmdResult<Options<'a>> {
        let (mut options, mut at) = (Options::NONE, start);
        while at < end {
            let next = (at + 1 < end).then(|| args.get(at + 1));
            let used = options.take(args.get(at), next, family).ok_or(CommandError::SYNTAX)?;
            at += used;
        }
        Ok(options)
    }

    /// Takes one option, perhaps with the argument behind it; gives how many arguments it took.
    pub(crate) fn take(&mut self, word: &[u8], next: Option<&'a [u8]>, family: Family) -> Option<usize> {
        let sets = family != Family::Getex;
        if sets && is(word, "NX") && matches!(self.when, When::Always | When::Absent) {
            self.when = When::Absent;
        } else if sets && is(word, "XX") && matches!(self.when, When::Always | When::Present) {
            self.when = When::Present;
        } else if family == Family::Hsetex && is(word, "FNX") && matches!(self.fields, When::Always | When::Absent) {
            self.fields = When::Absent;
        } else if family == Family::Hsetex && is(word, "FXX") && matches!(self.fields, When::Always | When::Present) {
            self.fields = When::Present;
        } else if family == Family::Set
            && let Some(condition) = next.and_then(|than| Condition::parse(word, than))
        {
            if self.when != When::Always {
                return None;
            }
            self.when = When::If(condition);
            return Some(2);
        } else if family == Family::Set && is(word, "GET") {
            self.get = true;
        } else if sets && is(word, "KEEPTTL") && matches!(self.life, Life::Unsaid | Life::Keep) {
            self.life = Life::Keep;
        } else if !sets && is(word, "PERSIST") && matches!(self.life, Life::Unsaid | Life::Persist) {
            self.life = Life::Persist;
        } else {
            return self.take_time(word, next);
        }
        Some(1)
    }

    /// A unit may be given again, the last time counts; two different ones exclude each other.
    fn take_time(&mut self, word: &[u8], next: Option<&'a [u8]>) -> Option<usize> {
        const UNITS: [(&str, Unit); 4] =
            [("EX", Unit::Seconds), ("PX", Unit::Millis), ("EXAT", Unit::UnixSeconds), ("PXAT", Unit::UnixMillis)];
        let (_, unit) = UNITS.into_iter().find(|(name, _)| is(word, name))?;
        match self.life {
            Life::Unsaid => {}
            Life::Until(before, _) if before == unit => {}
            _ => return None,
        }
        self.life = Life::Until(unit, next?);
        Some(2)
    }
}

impl Life<'_> {
    /// The expiry that a write sets; the error names `command`.
    pub(crate) fn ttl(self, now_ms: i64, command: &str) -> CmdResult<Ttl> {
        match self {
            Life::Unsaid | Life::Persist => Ok(Ttl::Clear),
            Life::Keep => Ok(Ttl::Keep),
            Life::Until(unit, text) => Ok(Ttl::At(deadline(text, unit, now_ms, command)?)),
        }
    }
}

/// The Unix time in milliseconds that a positive time argument means.
pub(crate) fn deadline(text: &[u8], unit: Unit, now_ms: i64, command: &str) -> CmdResult<i64> {
    deadline_from(1, text, unit, now_ms, command)
}

/// The Unix time in milliseconds that a time argument means, which is `least` or more.
pub(crate) fn deadline_from(least: i64, text: &[u8], unit: Unit, now_ms: i64, command: &str) -> CmdResult<i64> {
    let value = integer(text)?;
    let scale = if matches!(unit, Unit::Seconds | Unit::UnixSeconds) { 1000 } else { 1 };
    let origin = if matches!(unit, Unit::Seconds | Unit::Millis) { now_ms } else { 0 };
    let at = value.checked_mul(scale).and_then(|ms| ms.checked_add(origin));
    at.filter(|_| value >= least).ok_or_else(|| CommandError::expire_time(command))
}
