//! Argument grammar shared by all handlers: reading arguments, and the faults that end a command.
//!
//! A handler is three parts: the grammar reads `args` into a small value, the operation works on the keyspace, the
//! reply is written last. Whatever goes wrong in the first two comes back as a [`Fault`] and is written by
//! [`settle`], so nothing is ever half replied.
//!
//! Not here: arity and unknown commands, which the dispatcher answers before a handler runs.

use std::borrow::Cow;

use varve_base::number::parse_i64;
use varve_protocol::Reply;
use varve_store::WrongType;

use crate::Ctx;

/// Why a command stops: the error's text, its code word included.
#[derive(Debug, PartialEq, Eq)]
pub struct Fault(Cow<'static, [u8]>);

/// What the parts of a handler give.
pub type Outcome<T = ()> = Result<T, Fault>;

impl Fault {
    /// An argument does not fit the command's grammar.
    pub const SYNTAX: Fault = Fault::new("ERR syntax error");
    /// An argument or a value is not a 64-bit integer in its canonical form.
    pub const NOT_INTEGER: Fault = Fault::new("ERR value is not an integer or out of range");
    /// An argument or a value is not a number.
    pub const NOT_FLOAT: Fault = Fault::new("ERR value is not a valid float");
    /// The key holds another type.
    pub const WRONG_TYPE: Fault = Fault::new("WRONGTYPE Operation against a key holding the wrong kind of value");
    /// The key must exist and does not.
    pub const NO_KEY: Fault = Fault::new("ERR no such key");
    /// A database number that the server does not have.
    pub const DB_RANGE: Fault = Fault::new("ERR DB index is out of range");
    /// A string would grow past the largest argument that a client may send.
    pub const TOO_LONG: Fault = Fault::new("ERR string exceeds maximum allowed size (proto-max-bulk-len)");

    /// The memory limit is reached.
    pub const OUT_OF_MEMORY: Fault = Fault::new("OOM command not allowed when used memory > 'maxmemory'.");

    /// A fault of this text.
    pub const fn new(text: &'static str) -> Fault {
        Fault(Cow::Borrowed(text.as_bytes()))
    }

    /// A fault whose text holds something of the request.
    pub fn owned(text: impl Into<Vec<u8>>) -> Fault {
        Fault(Cow::Owned(text.into()))
    }

    /// The command `name` got a number of arguments that it does not take.
    pub fn arity(name: &str) -> Fault {
        Fault::owned(format!("ERR wrong number of arguments for '{name}' command"))
    }

    /// A time to live that is not positive or does not fit, given to the command `name`.
    pub fn expire_time(name: &str) -> Fault {
        Fault::owned(format!("ERR invalid expire time in '{name}' command"))
    }

    /// Writes the error.
    pub fn reply(&self, out: &mut Reply) {
        out.error_bytes(&self.0);
    }
}

impl From<WrongType> for Fault {
    fn from(_: WrongType) -> Fault {
        Fault::WRONG_TYPE
    }
}

/// Writes the error of a handler that failed.
#[inline(always)]
pub fn settle(ctx: &mut Ctx<'_, '_>, outcome: Outcome) {
    if let Err(fault) = outcome {
        fault.reply(ctx.out);
    }
}

/// Reads a 64-bit integer.
#[inline]
pub fn integer(text: &[u8]) -> Outcome<i64> {
    parse_i64(text).ok_or(Fault::NOT_INTEGER)
}

/// Reads an integer of C's `int`, which is what database numbers are told in.
pub fn small_integer(text: &[u8]) -> Outcome<i32> {
    let value = integer(text)?;
    let (low, high) = (i32::MIN, i32::MAX);
    i32::try_from(value)
        .map_err(|_| Fault::owned(format!("ERR value is out of range, value must between {low} and {high}")))
}

/// Reads the number of a database below `databases`.
pub fn database(text: &[u8], databases: u32) -> Outcome<u32> {
    let value = small_integer(text)?;
    u32::try_from(value).ok().filter(|db| *db < databases).ok_or(Fault::DB_RANGE)
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
