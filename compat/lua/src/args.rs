//! Arguments of the functions that come from Rust, and the messages about wrong ones, which are those of Lua's C library.

use crate::fault::Fault;
use mlua::{Error, Lua, MultiValue, Result, Value};
use smallvec::SmallVec;
use varve_base::number::{push_f64, push_f64_rounded, push_i64};

/// Significant digits of a number that Lua makes a string of.
const NUMBER_DIGITS: usize = 14;

/// A string of Lua's, or the text of a number.
pub(crate) enum Text {
    /// Bytes of a string, which lives as long as this.
    Borrowed(mlua::BorrowedBytes),
    /// Digits.
    Number(SmallVec<[u8; 24]>),
}

impl AsRef<[u8]> for Text {
    fn as_ref(&self) -> &[u8] {
        match self {
            Text::Borrowed(text) => text,
            Text::Number(text) => text,
        }
    }
}

/// A number as C's `%.17g` writes it.
pub(crate) fn push_word(text: &mut Vec<u8>, n: f64) {
    const BOUND: f64 = (1_u64 << 53) as f64;
    // A negative zero has a sign, which an integer has not.
    if n.abs() < BOUND && (n as i64 as f64).to_bits() == n.to_bits() {
        push_i64(text, n as i64);
    } else {
        push_f64(text, n);
    }
}

/// The number that Lua makes of a number or of a numeral: what C's `strtod` takes, and hexadecimal integers.
pub(crate) fn number(lua: &Lua, value: &Value) -> Option<f64> {
    match value {
        Value::Integer(n) => Some(*n as f64),
        Value::Number(n) => Some(*n),
        Value::String(_) => lua.coerce_number(value.clone()).ok().flatten(),
        _ => None,
    }
}

/// The string that Lua makes of a string or a number.
pub(crate) fn text(value: &Value) -> Option<Text> {
    let number = match value {
        Value::String(bytes) => return Some(Text::Borrowed(bytes.as_bytes())),
        Value::Integer(n) => *n as f64,
        Value::Number(n) => *n,
        _ => return None,
    };
    let mut digits = Vec::new();
    push_f64_rounded(&mut digits, number, NUMBER_DIGITS);
    Some(Text::Number(SmallVec::from_vec(digits)))
}

/// The arguments of one call, by their numbers from 1.
pub(crate) struct Checked<'a> {
    pub(crate) lua: &'a Lua,
    pub(crate) values: &'a MultiValue,
    /// The function's name in messages.
    pub(crate) name: &'a str,
}

impl Checked<'_> {
    /// An argument; nil if there is none.
    pub(crate) fn get(&self, i: usize) -> &Value {
        self.values.get(i - 1).unwrap_or(&Value::Nil)
    }

    /// A number, or a string that is one.
    pub(crate) fn number(&self, i: usize) -> Result<f64> {
        number(self.lua, self.get(i)).ok_or_else(|| self.expected(i, "number"))
    }

    /// A number, or this one if there is none.
    pub(crate) fn number_or(&self, i: usize, default: f64) -> Result<f64> {
        if self.get(i).is_nil() { Ok(default) } else { self.number(i) }
    }

    /// A string, or the text of a number.
    pub(crate) fn text(&self, i: usize) -> Result<Text> {
        text(self.get(i)).ok_or_else(|| self.expected(i, "string"))
    }

    /// Complains of an argument.
    pub(crate) fn bad(&self, i: usize, why: &str) -> Error {
        Fault::text(self.lua, format!("bad argument #{i} to '{}' ({why})", self.name))
    }

    fn expected(&self, i: usize, kind: &str) -> Error {
        let got = match self.values.get(i - 1) {
            None => "no value",
            Some(Value::Integer(_)) => "number",
            Some(Value::LightUserData(_)) => "userdata",
            Some(value) => value.type_name(),
        };
        self.bad(i, &format!("{kind} expected, got {got}"))
    }
}
