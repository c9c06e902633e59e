//! From Redis to Lua: a reply becomes a value, keys and arguments become tables.
//!
//! ```text
//!  +text   {ok = text}      $-1, *-1  false        RESP3:  %  {map = {..}}      ,  {double = n}
//!  -text   {err = text}     $         string               ~  {set = {k=true}}  (  {big_number = digits}
//!  :n      number           *         list                 #  true, false       =  {verbatim_string = {format, string}}
//!                                                          _  nil
//! ```

use crate::errors::{with_code, without_last_line_ends};
use crate::fault::{Fault, error_table};
use crate::tick::Pace;
use mlua::{Error, IntoLua, Lua, Result, Table, Value};

/// Bytes of Lua that a value in a table costs beside its text, roughly.
const VALUE_BYTES: usize = 40;

/// Keeps what Rust makes for a script within the memory of its state: Lua's own limit is off meanwhile, since each
/// allocation would be a protected call otherwise.
pub(crate) struct Unlimited<'a> {
    lua: &'a Lua,
    limit_bytes: usize,
}

impl<'a> Unlimited<'a> {
    /// Turns the limit off until this is dropped.
    pub(crate) fn new(lua: &'a Lua) -> Unlimited<'a> {
        // A state of ours always has an allocator that limits.
        let limit_bytes = lua.set_memory_limit(0).unwrap_or(0);
        Unlimited { lua, limit_bytes }
    }

    /// Refuses to make a value of this many bytes if the state has no room for it.
    pub(crate) fn admit(&self, bytes: usize) -> Result<()> {
        let wanted = self.lua.used_memory().saturating_add(bytes).saturating_add(VALUE_BYTES);
        if self.limit_bytes > 0 && wanted > self.limit_bytes { Err(Fault::no_memory()) } else { Ok(()) }
    }
}

impl Drop for Unlimited<'_> {
    fn drop(&mut self) {
        // It cannot fail where it could be turned off.
        let _ = self.lua.set_memory_limit(self.limit_bytes);
    }
}

/// A list of strings: KEYS and ARGV.
pub(crate) fn list(lua: &Lua, room: &Unlimited<'_>, pace: &Pace<'_>, texts: &[&[u8]]) -> Result<Table> {
    let table = lua.create_table_with_capacity(texts.len(), 0)?;
    for text in texts {
        room.admit(text.len())?;
        pace.value()?;
        table.raw_push(lua.create_string(text)?)?;
    }
    Ok(table)
}

/// Reads one reply, in either version of the protocol.
pub(crate) struct Reader<'a> {
    lua: &'a Lua,
    room: &'a Unlimited<'a>,
    pace: &'a Pace<'a>,
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(crate) fn new(lua: &'a Lua, room: &'a Unlimited<'a>, pace: &'a Pace<'a>, reply: &'a [u8]) -> Reader<'a> {
        Reader { lua, room, pace, rest: reply }
    }

    /// The next value. An error is a table here; whoever asked decides if it is raised.
    pub(crate) fn value(&mut self) -> Result<Value> {
        let line = self.line();
        let (kind, text) = line.split_first().unwrap_or((&b'_', b""));
        let lua = self.lua;
        self.room.admit(0)?;
        self.pace.value()?;
        match kind {
            b'+' => self.field("ok", lua.create_string(text)?),
            b'-' => Ok(Value::Table(error_table(lua, &error_text(text), true)?)),
            b':' => Ok(Value::Number(integer(text) as f64)),
            b'$' => self.bulk(text),
            b'*' | b'>' if text == b"-1" => Ok(Value::Boolean(false)),
            b'*' | b'>' => self.array(integer(text)).map(Value::Table),
            b'%' => self.map(integer(text)),
            b'~' => self.set(integer(text)),
            b'#' => Ok(Value::Boolean(text == b"t")),
            b',' => self.field("double", double(text)),
            b'(' => self.field("big_number", lua.create_string(text)?),
            b'=' => self.verbatim(text),
            b'|' => {
                // Attributes are beside the reply.
                (0..2 * integer(text)).try_for_each(|_| self.value().map(drop))?;
                self.value()
            }
            _ => Ok(Value::Nil),
        }
    }

    /// Up to the next line end, which is passed.
    fn line(&mut self) -> &'a [u8] {
        let end = self.rest.iter().position(|byte| *byte == b'\r').unwrap_or(self.rest.len());
        let line = &self.rest[..end];
        self.rest = self.rest.get(end + 2..).unwrap_or_default();
        line
    }

    /// The bytes of a string whose length is `text`, and the line end behind them.
    fn bytes(&mut self, text: &[u8]) -> &'a [u8] {
        let len = (integer(text).max(0) as usize).min(self.rest.len());
        let bytes = &self.rest[..len];
        self.rest = self.rest.get(len + 2..).unwrap_or_default();
        bytes
    }

    fn bulk(&mut self, len: &[u8]) -> Result<Value> {
        if len == b"-1" {
            return Ok(Value::Boolean(false));
        }
        let bytes = self.bytes(len);
        self.room.admit(bytes.len())?;
        Ok(Value::String(self.lua.create_string(bytes)?))
    }

    fn array(&mut self, len: i64) -> Result<Table> {
        // A length is never more than the bytes behind it can hold.
        let len = (len.max(0) as usize).min(self.rest.len());
        self.room.admit(len * size_of::<f64>())?;
        let table = self.lua.create_table_with_capacity(len, 0)?;
        for i in 1..=len {
            table.raw_set(i, self.value()?)?;
        }
        Ok(table)
    }

    fn map(&mut self, len: i64) -> Result<Value> {
        let table = self.lua.create_table()?;
        for _ in 0..len {
            let (key, value) = (self.value()?, self.value()?);
            if !key.is_nil() {
                table.raw_set(key, value)?;
            }
        }
        self.field("map", table)
    }

    fn set(&mut self, len: i64) -> Result<Value> {
        let table = self.lua.create_table()?;
        for _ in 0..len {
            let member = self.value()?;
            if !member.is_nil() {
                table.raw_set(member, true)?;
            }
        }
        self.field("set", table)
    }

    fn verbatim(&mut self, len: &[u8]) -> Result<Value> {
        let bytes = self.bytes(len);
        self.room.admit(bytes.len())?;
        let table = self.lua.create_table_with_capacity(0, 2)?;
        table.raw_set("format", self.lua.create_string(bytes.get(..3).unwrap_or_default())?)?;
        table.raw_set("string", self.lua.create_string(bytes.get(4..).unwrap_or_default())?)?;
        self.field("verbatim_string", table)
    }

    /// A table of one field.
    fn field(&self, name: &str, value: impl IntoLua) -> Result<Value> {
        let table = self.lua.create_table_with_capacity(0, 1)?;
        table.raw_set(name, value)?;
        Ok(Value::Table(table))
    }
}

/// The error that a command has replied, `-` and line end included. A zero byte ends its text, as in C.
pub(crate) fn reply_fault(reply: &[u8]) -> Error {
    let line = reply.split(|byte| matches!(byte, b'\r' | 0)).next().unwrap_or_default();
    Fault::Reply { text: error_text(line.strip_prefix(b"-").unwrap_or(line)), counted: true }.into()
}

/// An error's text with its code; one without a space has none. The message has no line ends around it.
pub(crate) fn error_text(text: &[u8]) -> Vec<u8> {
    let Some(end) = text.iter().position(|byte| *byte == b' ') else { return with_code(without_line_ends(text)) };
    let (code, message) = text.split_at(end + 1);
    [code, without_line_ends(message)].concat()
}

fn without_line_ends(text: &[u8]) -> &[u8] {
    let is_text = |byte: &u8| !matches!(byte, b'\r' | b'\n');
    let begin = text.iter().position(is_text).unwrap_or(text.len());
    without_last_line_ends(&text[begin..])
}

fn integer(text: &[u8]) -> i64 {
    varve_base::number::parse_i64(text).unwrap_or(0)
}

fn double(text: &[u8]) -> f64 {
    varve_base::number::parse_f64_clamped(text).unwrap_or(f64::NAN)
}
