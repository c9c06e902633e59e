//! The options of SET, GETEX, MSETEX, HGETEX and HSETEX: conditions, GET, and one way to say what becomes of the time to live.

use std::ops::Range;

use varve_exec::{CmdResult, CommandError};
use varve_protocol::Args;
use varve_store::Ttl;

use crate::grammar::{integer, is};

/// The command whose options are read: each takes some of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Family {
    Set,
    /// GETEX and HGETEX.
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
    /// IFEQ
    Equal(&'a [u8]),
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
    /// Reads the arguments of a range. The times are checked later, by [`Life::ttl`].
    pub(crate) fn parse(args: &Args<'a>, Range { start, end }: Range<usize>, family: Family) -> CmdResult<Options<'a>> {
        let mut options = Options { when: When::Always, fields: When::Always, get: false, life: Life::Unsaid };
        let mut at = start;
        while at < end {
            let next = (at + 1 < end).then(|| args.get(at + 1));
            let used = options.take(args.get(at), next, family).ok_or(CommandError::SYNTAX)?;
            at += used;
        }
        Ok(options)
    }

    /// Takes one option, perhaps with the argument behind it; gives how many arguments it took.
    fn take(&mut self, word: &[u8], next: Option<&'a [u8]>, family: Family) -> Option<usize> {
        let sets = family != Family::Getex;
        if sets && is(word, "NX") && matches!(self.when, When::Always | When::Absent) {
            self.when = When::Absent;
        } else if sets && is(word, "XX") && matches!(self.when, When::Always | When::Present) {
            self.when = When::Present;
        } else if family == Family::Hsetex && is(word, "FNX") && matches!(self.fields, When::Always | When::Absent) {
            self.fields = When::Absent;
        } else if family == Family::Hsetex && is(word, "FXX") && matches!(self.fields, When::Always | When::Present) {
            self.fields = When::Present;
        } else if family == Family::Set && is(word, "IFEQ") && self.when == When::Always {
            self.when = When::Equal(next?);
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
