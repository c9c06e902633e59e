//! From Lua to Redis: the value that a script returns becomes its reply.
//!
//! A table with one of the fields `err`, `ok`, `double`, `map`, `set`, `big_number` or `verbatim_string` is that kind of
//! reply; any other is an array up to its first nil. Metamethods are not asked.

use crate::errors::{TOO_DEEP, without_last_line_ends};
use crate::fault::Fault;
use crate::host::{Control, Host};
use crate::sandbox::of_table;
use crate::tick::{Meter, VALUE_UNITS, stop_error};
use mlua::{LuaString, Result, Table, Value};
use varve_protocol::{Reply, Resp};

/// Tables within each other that a reply may have.
const DEPTH_MAX: usize = 1000;

/// The kinds of reply that a table can stand for.
enum Kind {
    Error(Fault),
    Status(LuaString),
    Double(f64),
    Map(Table),
    Set(Table),
    BigNumber(LuaString),
    Verbatim(LuaString, LuaString),
    Array,
}

/// Writes replies; `resp` is the version that the script has set.
pub(crate) struct Writer<'a> {
    pub(crate) out: &'a mut Reply,
    pub(crate) resp: Resp,
    /// Is told of errors among the values, and asked at times whether the script goes on.
    pub(crate) host: &'a mut dyn Host,
    pub(crate) meter: Meter,
}

/// The error that the script's result is, if it is one.
pub(crate) fn error_of(value: &Value) -> Result<Option<Fault>> {
    match value {
        Value::Table(table) if has_error(table)? => of_table(table).map(Some),
        _ => Ok(None),
    }
}

fn has_error(table: &Table) -> Result<bool> {
    Ok(matches!(table.raw_get::<Value>("err")?, Value::String(_)))
}

impl Writer<'_> {
    /// Writes one value, `depth` tables deep.
    pub(crate) fn value(&mut self, value: &Value, depth: usize) -> Result<()> {
        if self.meter.is_due(VALUE_UNITS)
            && let Control::Stop(text) = self.host.tick()
        {
            return Err(stop_error(text));
        }
        match value {
            Value::String(text) => self.out.bulk(&text.as_bytes()),
            Value::Integer(n) => self.out.integer(*n),
            Value::Number(n) => self.out.integer(to_integer(*n)),
            Value::Boolean(value) => match (self.resp, value) {
                (Resp::V3, _) => self.out.boolean(*value),
                (Resp::V2, true) => self.out.integer(1),
                (Resp::V2, false) => self.out.null(),
            },
            Value::Table(_) if depth >= DEPTH_MAX => self.error(TOO_DEEP, false),
            Value::Table(table) => return self.table(table, depth),
            _ => self.out.null(),
        }
        Ok(())
    }

    fn error(&mut self, text: &[u8], counted: bool) {
        self.out.error_bytes(text);
        self.host.note_reply_error(text, counted);
    }

    fn table(&mut self, table: &Table, depth: usize) -> Result<()> {
        match kind(table)? {
            Kind::Error(fault) => {
                let counted = matches!(fault, Fault::Reply { counted: true, .. });
                self.error(without_last_line_ends(fault.text_of()), counted);
            }
            Kind::Status(text) => self.out.simple_bytes(&one_line(before_zero(&text.as_bytes()))),
            Kind::Double(n) => self.out.double(n),
            Kind::BigNumber(text) => self.out.big_number(&one_line(&text.as_bytes())),
            Kind::Verbatim(format, text) => self.out.verbatim(three_letters(&format), &text.as_bytes()),
            Kind::Map(map) => {
                let (from, mut len) = (self.out.defer(), 0);
                for pair in map.pairs::<Value, Value>() {
                    let (key, value) = pair?;
                    self.value(&key, depth + 1)?;
                    self.value(&value, depth + 1)?;
                    len += 1;
                }
                self.out.end_map(from, len);
            }
            Kind::Set(set) => {
                let (from, mut len) = (self.out.defer(), 0);
                for pair in set.pairs::<Value, Value>() {
                    self.value(&pair?.0, depth + 1)?;
                    len += 1;
                }
                self.out.end_set(from, len);
            }
            Kind::Array => {
                let (from, mut len) = (self.out.defer(), 0);
                loop {
                    let value = table.raw_get::<Value>(len + 1)?;
                    if value.is_nil() {
                        break;
                    }
                    self.value(&value, depth + 1)?;
                    len += 1;
                }
                self.out.end_array(from, len);
            }
        }
        Ok(())
    }
}

fn kind(table: &Table) -> Result<Kind> {
    if has_error(table)? {
        return of_table(table).map(Kind::Error);
    }
    if let Value::String(text) = table.raw_get("ok")? {
        return Ok(Kind::Status(text));
    }
    match table.raw_get("double")? {
        Value::Number(n) => return Ok(Kind::Double(n)),
        Value::Integer(n) => return Ok(Kind::Double(n as f64)),
        _ => {}
    }
    if let Value::Table(map) = table.raw_get("map")? {
        return Ok(Kind::Map(map));
    }
    if let Value::Table(set) = table.raw_get("set")? {
        return Ok(Kind::Set(set));
    }
    if let Value::String(digits) = table.raw_get("big_number")? {
        return Ok(Kind::BigNumber(digits));
    }
    if let Value::Table(parts) = table.raw_get("verbatim_string")?
        && let (Value::String(format), Value::String(text)) = (parts.raw_get("format")?, parts.raw_get("string")?)
    {
        return Ok(Kind::Verbatim(format, text));
    }
    Ok(Kind::Array)
}

/// A text up to its first zero byte, where redis-server takes it for a string of C.
fn before_zero(text: &[u8]) -> &[u8] {
    text.split(|byte| *byte == 0).next().unwrap_or_default()
}

/// A text without line ends, which would be read as protocol.
fn one_line(text: &[u8]) -> Vec<u8> {
    text.iter().map(|byte| if matches!(byte, b'\r' | b'\n') { b' ' } else { *byte }).collect()
}

/// The format of a verbatim string, which has three letters: what a script gives is cut, or followed by spaces.
fn three_letters(format: &LuaString) -> [u8; 3] {
    let given = one_line(before_zero(&format.as_bytes()));
    std::array::from_fn(|i| given.get(i).copied().unwrap_or(b' '))
}

/// The integer that C's conversion gives on the machines that run Redis: what does not fit is the least integer.
fn to_integer(n: f64) -> i64 {
    const BOUND: f64 = 9_223_372_036_854_775_808.0;
    if (-BOUND..BOUND).contains(&n) { n as i64 } else { i64::MIN }
}
