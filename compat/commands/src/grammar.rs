//! Argument grammar shared by all handlers: reading words, numbers and database numbers, and the HELP reply.
//!
//! A handler is three parts: the grammar reads `args` into a small value, the operation works on the keyspace, the
//! reply is written last. Whatever goes wrong in the first two is returned as a [`CommandError`]; the executor writes it.
//!
//! Not here: arity and unknown commands, which the executor answers before a handler runs.

use varve_base::number::parse_i64;
use varve_exec::{CmdResult, CommandError};
use varve_protocol::Reply;

use crate::errors;

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
