//! Errors that are raised inside a script, and their places.
//!
//! A Rust function cannot raise a table in Lua: it returns an error, which Lua carries as a value of its own kind. Each
//! place at which a script could catch one (`pcall`, `xpcall`, `coroutine.resume`) opens it first
//! (`sandbox/prelude.lua`), so that the script sees the table or the string that redis-server would have raised.

use crate::errors::{NO_MEMORY, with_code};
use mlua::debug::Debug;
use mlua::{Error, Lua, Result, Table, Value};
use std::fmt;

/// The file name (Lua's `source`) of the prelude, whose frames are no part of the script.
pub(crate) const PRELUDE: &str = "=\u{1}";
/// The way in which messages of errors name the prelude.
const PRELUDE_IN_TEXT: &[u8] = b"\x01:";

/// An error as a script, or whoever runs it, sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The table `{err = text}`.
    Reply {
        /// Code and text.
        text: Vec<u8>,
        /// The field `ignore_error_stats_update`.
        counted: bool,
    },
    /// A string, the position included.
    Text(Vec<u8>),
    /// Ends the script; nothing in it catches this.
    Fatal(Vec<u8>),
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&String::from_utf8_lossy(self.text_of()))
    }
}

impl std::error::Error for Fault {}

impl From<Fault> for Error {
    fn from(fault: Fault) -> Error {
        Error::external(fault)
    }
}

impl Fault {
    /// Code and text, or the text alone.
    pub(crate) fn text_of(&self) -> &[u8] {
        let (Fault::Reply { text, .. } | Fault::Text(text) | Fault::Fatal(text)) = self;
        text
    }

    /// The table `{err = text}`, which nothing has counted.
    pub(crate) fn reply(text: impl Into<Vec<u8>>) -> Error {
        Fault::Reply { text: text.into(), counted: false }.into()
    }

    /// A string with the position of the function that called, as `luaL_error` raises it.
    pub(crate) fn text(lua: &Lua, text: impl AsRef<[u8]>) -> Error {
        let mut full = position(lua, 1);
        full.extend_from_slice(text.as_ref());
        Fault::Text(full).into()
    }

    /// The end of the script for want of memory.
    pub(crate) fn no_memory() -> Error {
        Fault::Fatal(NO_MEMORY.into()).into()
    }

    /// The fault that an error carries. Errors of another kind are failures of this crate's own calls into Lua: for
    /// want of memory or of stack. They end the script.
    pub(crate) fn of(error: &Error) -> Fault {
        if let Some(fault) = error.downcast_ref::<Fault>() {
            return fault.clone();
        }
        match innermost(error) {
            Error::MemoryError(_) => Fault::Fatal(NO_MEMORY.into()),
            Error::RuntimeError(message) => Fault::Fatal(with_code(without_trace(message).as_bytes())),
            other => Fault::Fatal(with_code(other.to_string().as_bytes())),
        }
    }

    /// The value that a script sees in place of this fault. A fatal one is raised anew.
    pub(crate) fn opened(self, lua: &Lua) -> Result<Value> {
        match self {
            Fault::Reply { text, counted } => Ok(Value::Table(error_table(lua, &text, counted)?)),
            Fault::Text(text) => Ok(Value::String(lua.create_string(text)?)),
            Fault::Fatal(_) => Err(self.into()),
        }
    }
}

/// A message of the library for Lua without the frames that it lists behind. A finalizer of a script's raises where Lua happens to
/// collect.
pub(crate) fn without_trace(message: &str) -> &str {
    message.split("\nstack traceback:").next().unwrap_or_default()
}

fn innermost(error: &Error) -> &Error {
    match error {
        Error::CallbackError { cause, .. } | Error::WithContext { cause, .. } => innermost(cause),
        other => other,
    }
}

/// `{err = text}`, with the mark of an error that is counted already.
pub(crate) fn error_table(lua: &Lua, text: &[u8], counted: bool) -> Result<Table> {
    let table = lua.create_table_with_capacity(0, 2)?;
    table.raw_set("err", lua.create_string(text)?)?;
    if counted {
        table.raw_set("ignore_error_stats_update", true)?;
    }
    Ok(table)
}

/// A line of a script.
pub(crate) struct Place {
    /// The source without the letter that marks its kind: `user_script`.
    pub(crate) source: String,
    /// From 1.
    pub(crate) line: usize,
}

/// The innermost line of a script at or above `level`, 0 being the function of ours that runs. Functions of the prelude and
/// those in Rust and C have none.
pub(crate) fn place(lua: &Lua, level: usize) -> Option<Place> {
    (level..level + 64).map_while(|level| lua.inspect_stack(level, frame)).flatten().next()
}

/// An error with the place of the script, as C's functions raise it.
pub(crate) fn fault_in_script(lua: &Lua, message: &[u8]) -> mlua::Error {
    Fault::Text(placed(lua, message)).into()
}

/// A message with the place of the script before it.
pub(crate) fn placed(lua: &Lua, message: &[u8]) -> Vec<u8> {
    let mut text = match place(lua, 1) {
        Some(place) => format!("{}:{}: ", place.source, place.line).into_bytes(),
        None => Vec::new(),
    };
    text.extend_from_slice(message);
    text
}

fn frame(debug: &Debug<'_>) -> Option<Place> {
    let source = debug.source().source?;
    let line = debug.current_line().filter(|line| *line > 0)?;
    let is_script = source != PRELUDE && !source.starts_with("=[");
    is_script.then(|| Place { source: source.get(1..).unwrap_or_default().to_string(), line })
}

/// `user_script:3: ` if the function at this level is a script's, else nothing.
pub(crate) fn position(lua: &Lua, level: usize) -> Vec<u8> {
    let text = |debug: &Debug<'_>| {
        let line = debug.current_line().filter(|line| *line > 0)?;
        debug.source().short_src.map(|source| format!("{source}:{line}: ").into_bytes())
    };
    lua.inspect_stack(level, text).flatten().unwrap_or_default()
}

/// The message without the prelude's position, and true if it had one.
pub(crate) fn without_prelude(message: &[u8]) -> (&[u8], bool) {
    let rest = message.strip_prefix(PRELUDE_IN_TEXT);
    let end = rest.and_then(|rest| rest.windows(2).position(|two| two == b": "));
    match (rest, end) {
        (Some(rest), Some(end)) => (&rest[end + 2..], true),
        _ => (message, false),
    }
}
