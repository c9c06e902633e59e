//! Argument grammar shared by all handlers: reading words, numbers and database numbers, and the HELP reply.
//!
//! A handler is three parts: the grammar reads `args` into a small value, the operation works on the keyspace, the
//! reply is written last. Whatever goes wrong in the first two is returned as a [`CommandError`]; the executor writes it.
//!
//! Not here: arity and unknown commands, which the executor answers before a handler runs.

use varve_base::number::parse_i64;
use varve_exec::{CmdResult, CommandError};
use varve_protocol::{Args, Reply};

use varve_store::Pick;

use crate::errors;

/// Names of commands, sections or settings that a request asks for at most.
pub const NAMES_MAX: usize = 1024;

/// The names that a request asks for, from argument `first` on.
///
/// # Errors
/// They are more than [`NAMES_MAX`].
pub fn asked_names(args: Args<'_>, first: usize) -> CmdResult<Args<'_>> {
    let names = args.skip(first);
    if names.len() > NAMES_MAX { Err(CommandError::too_many_names(NAMES_MAX)) } else { Ok(names) }
}

/// Reads a 64-bit integer.
#[inline]
pub fn integer(text: &[u8]) -> CmdResult<i64> {
    parse_i64(text).ok_or(CommandError::NOT_INTEGER)
}

/// Reads an integer of C's `int`, which is what database numbers are told in.
pub fn small_integer(text: &[u8]) -> CmdResult<i32> {
    let value = integer(text)?;
    i32::try_from(value).map_err(|_| errors::not_between(i32::MIN.into(), i32::MAX.into()))
}

/// Reads the number of a database below `databases`.
pub fn database(text: &[u8], databases: u32) -> CmdResult<u32> {
    let value = small_integer(text)?;
    u32::try_from(value).ok().filter(|db| *db < databases).ok_or(CommandError::DB_RANGE)
}

/// Whether an argument is this word, in any case.
#[inline]
pub fn is(argument: &[u8], word: &str) -> bool {
    argument.eq_ignore_ascii_case(word.as_bytes())
}

/// An argument as an error shows it: the peer's errors end such a text at a zero byte.
pub fn shown(argument: &[u8]) -> &[u8] {
    argument.split(|byte| *byte == 0).next().unwrap_or_default()
}

/// Milliseconds to whole seconds as TTL and EXPIRETIME round them.
pub fn rounded_seconds(ms: i64) -> i64 {
    ms.saturating_add(500) / 1000
}

/// Elements that are drawn before the reply's ceiling is looked at again.
const PART: usize = 4096;

/// A pick in parts, between which a command asks whether its reply has overflown: a client may ask for any number of
/// elements that may repeat. Different ones are bounded by the collection and stay one part.
pub fn parts(pick: Pick) -> impl Iterator<Item = Pick> {
    let (part, mut left) = match pick {
        Pick::Any(count) => (PART, count),
        Pick::Distinct(count) => (usize::MAX, count),
    };
    std::iter::from_fn(move || {
        let count = left.min(part);
        left -= count;
        let pick = if matches!(pick, Pick::Any(_)) { Pick::Any(count) } else { Pick::Distinct(count) };
        (count > 0).then_some(pick)
    })
}

/// Writes a HELP reply: the header that names the command, the lines, and HELP itself.
pub fn help(out: &mut Reply, command: &str, lines: &[&str]) {
    out.array(lines.len() + 3);
    out.simple(&format!("{command} <subcommand> [<arg> [value] [opt] ...]. Subcommands are:"));
    for line in lines {
        out.simple(line);
    }
    out.simple("HELP");
    out.simple("    Print this help.");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn picks_are_parted_if_elements_may_repeat() {
        assert_eq!(parts(Pick::Any(0)).count(), 0);
        let counts: Vec<Pick> = parts(Pick::Any(2 * PART + 1)).collect();
        assert_eq!(counts, [Pick::Any(PART), Pick::Any(PART), Pick::Any(1)]);
        assert_eq!(parts(Pick::Distinct(usize::MAX)).collect::<Vec<_>>(), [Pick::Distinct(usize::MAX)]);
    }
}
