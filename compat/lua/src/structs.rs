//! The library `struct`: numbers and strings to bytes and back, by a format of letters.
//!
//! ```text
//!  b B  1 byte    h H  2    i4 I4  as many as the number says, else 4    l L T  8    f d  floats    x  a zero
//!  s  up to a zero byte    c5  five bytes    c0  the whole string; when reading, as many as the number before says
//!  < >  little or big end first    !8  numbers lie at multiples of their size, at most 8
//! ```
//! Small letters are signed numbers.

use crate::args::Checked;
use crate::errors::{
    ALIGNMENT_START, DATA_SHORT, NO_SIZE_BEFORE, OFFSET_LEAST, SIZE_OVERFLOW, STRING_SHORT, UNFINISHED_STRING,
};
use crate::fault::Fault;
use crate::shared::Shared;
use crate::tick::Pace;
use mlua::{Lua, MultiValue, Result, Table, Value};
use std::rc::Rc;

/// Greatest size of an integer, bytes.
const INTEGER_BYTES_MAX: usize = 32;
/// The alignment of `!` without a number.
const ALIGNMENT: usize = 8;

/// The table `struct`.
pub(crate) fn table(lua: &Lua, shared: &Rc<Shared>) -> Result<Table> {
    let library = lua.create_table()?;
    let add = |name: &'static str, function: fn(&Lua, &Pace<'_>, MultiValue) -> Result<MultiValue>| {
        let shared = Rc::clone(shared);
        let paced = move |lua: &Lua, values: MultiValue| function(lua, &Pace::new(lua, &shared), values);
        library.raw_set(name, lua.create_function(paced)?)
    };
    add("pack", pack)?;
    add("unpack", unpack)?;
    add("size", size)?;
    Ok(library)
}

/// Reads a format letter by letter.
struct Format<'a> {
    args: &'a Checked<'a>,
    pace: &'a Pace<'a>,
    rest: &'a [u8],
    big: bool,
    alignment: usize,
}

/// A letter of the format.
struct Item {
    letter: u8,
    /// Bytes; 0 for letters without a size of their own.
    size: usize,
    /// Zeros before it.
    padding: usize,
}

impl<'a> Format<'a> {
    fn new(args: &'a Checked<'a>, pace: &'a Pace<'a>, text: &'a [u8]) -> Format<'a> {
        let rest = text.split(|byte| *byte == 0).next().unwrap_or_default();
        Format { args, pace, rest, big: false, alignment: 1 }
    }

    /// The next letter, for the place `at`; None at the end.
    fn next(&mut self, at: usize) -> Result<Option<Item>> {
        let Some((&letter, rest)) = self.rest.split_first() else { return Ok(None) };
        self.rest = rest;
        self.pace.value()?;
        let size = match letter {
            b'B' | b'b' | b'x' => 1,
            b'H' | b'h' => 2,
            b'L' | b'l' | b'T' | b'd' => 8,
            b'f' => 4,
            b'c' => self.number(1)?,
            b'i' | b'I' => {
                let size = self.number(4)?;
                if size > INTEGER_BYTES_MAX {
                    let text = format!("integral size {size} is larger than limit of {INTEGER_BYTES_MAX}");
                    return Err(Fault::text(self.args.lua, text));
                }
                size
            }
            _ => 0,
        };
        let step = size.min(self.alignment);
        let padding = if size == 0 || letter == b'c' { 0 } else { step.wrapping_sub(at & (step - 1)) & (step - 1) };
        Ok(Some(Item { letter, size, padding }))
    }

    /// Digits, or this number if there are none.
    fn number(&mut self, default: usize) -> Result<usize> {
        let digits = self.rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let (text, rest) = self.rest.split_at(digits);
        self.rest = rest;
        if text.is_empty() {
            return Ok(default);
        }
        let add = |number: i32, digit: &u8| number.checked_mul(10)?.checked_add(i32::from(*digit - b'0'));
        let number = text.iter().try_fold(0, add);
        number.map(|number| number as usize).ok_or_else(|| Fault::text(self.args.lua, SIZE_OVERFLOW))
    }

    /// A letter that moves nothing.
    fn control(&mut self, letter: u8) -> Result<()> {
        match letter {
            b' ' => {}
            b'>' => self.big = true,
            b'<' => self.big = false,
            b'!' => {
                let alignment = self.number(ALIGNMENT)?;
                if !alignment.is_power_of_two() {
                    let text = format!("{ALIGNMENT_START} {alignment} is not a power of 2");
                    return Err(Fault::text(self.args.lua, text));
                }
                self.alignment = alignment;
            }
            _ => return Err(self.args.bad(1, &format!("invalid format option '{}'", char::from(letter)))),
        }
        Ok(())
    }

    fn ordered<const N: usize>(&self, mut little: [u8; N]) -> [u8; N] {
        if self.big {
            little.reverse();
        }
        little
    }
}

fn pack(lua: &Lua, pace: &Pace<'_>, mut values: MultiValue) -> Result<MultiValue> {
    // The library that this follows has a nil behind its arguments, and complains of it.
    if !values.is_empty() {
        values.push_back(Value::Nil);
    }
    let args = Checked { lua, values: &values, name: "pack" };
    let text = args.text(1)?;
    let mut format = Format::new(&args, pace, text.as_ref());
    let room = pace.room();
    let mut out = Vec::new();
    let mut arg = 1;
    while let Some(item) = format.next(out.len())? {
        out.resize(out.len() + item.padding, 0);
        match item.letter {
            b'b' | b'B' | b'h' | b'H' | b'l' | b'L' | b'T' | b'i' | b'I' => {
                arg += 1;
                put_integer(&mut out, args.number(arg)?, item.size, format.big);
            }
            b'x' => out.push(0),
            b'f' => {
                arg += 1;
                out.extend_from_slice(&format.ordered((args.number(arg)? as f32).to_le_bytes()));
            }
            b'd' => {
                arg += 1;
                out.extend_from_slice(&format.ordered(args.number(arg)?.to_le_bytes()));
            }
            b'c' | b's' => {
                arg += 1;
                let text = args.text(arg)?;
                let text = text.as_ref();
                let size = if item.size == 0 { text.len() } else { item.size };
                // The count of the message is that of the next argument, as in the library that this follows.
                let part = text.get(..size).ok_or_else(|| args.bad(arg + 1, STRING_SHORT))?;
                room.admit(out.len() + size)?;
                out.extend_from_slice(part);
                out.extend((item.letter == b's').then_some(0));
            }
            letter => format.control(letter)?,
        }
    }
    room.admit(out.len())?;
    Ok(MultiValue::from_iter([Value::String(lua.create_string(out)?)]))
}

/// The low bytes of the number without its fraction; beyond eight bytes, zeros.
fn put_integer(out: &mut Vec<u8>, number: f64, size: usize, big: bool) {
    let bits = if number < 0.0 { number as i64 as u64 } else { number as u64 };
    let mut bytes = [0; INTEGER_BYTES_MAX];
    bytes[..8].copy_from_slice(&bits.to_le_bytes());
    if big {
        bytes[..size].reverse();
    }
    out.extend_from_slice(&bytes[..size]);
}

fn unpack(lua: &Lua, pace: &Pace<'_>, values: MultiValue) -> Result<MultiValue> {
    let args = Checked { lua, values: &values, name: "unpack" };
    let (text, data) = (args.text(1)?, args.text(2)?);
    let data = data.as_ref();
    let mut format = Format::new(&args, pace, text.as_ref());
    let mut at = match args.number_or(3, 1.0)? as i64 {
        0 => return Err(args.bad(3, OFFSET_LEAST)),
        from => usize::try_from(from.saturating_sub(1)).unwrap_or(usize::MAX),
    };
    let room = pace.room();
    let mut found: Vec<Value> = Vec::new();
    let short = || args.bad(2, DATA_SHORT);
    while let Some(mut item) = format.next(at)? {
        at = at.saturating_add(item.padding);
        let rest = data.get(at..).ok_or_else(short)?;
        let bytes = rest.get(..item.size).ok_or_else(short)?;
        room.admit(0)?;
        match item.letter {
            b'b' | b'B' | b'h' | b'H' | b'l' | b'L' | b'T' | b'i' | b'I' => {
                let signed = item.letter.is_ascii_lowercase();
                found.push(Value::Number(integer(bytes, signed, format.big)));
            }
            b'x' => {}
            b'f' => {
                let bytes = bytes.first_chunk().copied().unwrap_or_default();
                found.push(Value::Number(f32::from_le_bytes(format.ordered(bytes)).into()));
            }
            b'd' => {
                let bytes = bytes.first_chunk().copied().unwrap_or_default();
                found.push(Value::Number(f64::from_le_bytes(format.ordered(bytes))));
            }
            b'c' => {
                if item.size == 0 {
                    let size = found.pop().and_then(|last| crate::args::number(lua, &last));
                    let size = size.ok_or_else(|| Fault::text(lua, NO_SIZE_BEFORE))?;
                    item.size = if size < 0.0 { usize::MAX } else { size as usize };
                }
                let part = rest.get(..item.size).ok_or_else(short)?;
                room.admit(part.len())?;
                found.push(Value::String(lua.create_string(part)?));
            }
            b's' => {
                let end = rest.iter().position(|byte| *byte == 0);
                let end = end.ok_or_else(|| Fault::text(lua, UNFINISHED_STRING))?;
                room.admit(end)?;
                found.push(Value::String(lua.create_string(&rest[..end])?));
                item.size = end + 1;
            }
            letter => format.control(letter)?,
        }
        at += item.size;
    }
    found.push(Value::Integer(at as i64 + 1));
    Ok(found.into_iter().collect())
}

/// The eight low bytes as a number.
fn integer(bytes: &[u8], signed: bool, big: bool) -> f64 {
    let mut low = [0; 8];
    let len = bytes.len().min(8);
    if big {
        low[..len].copy_from_slice(&bytes[bytes.len() - len..]);
        low[..len].reverse();
    } else {
        low[..len].copy_from_slice(&bytes[..len]);
    }
    let bits = u64::from_le_bytes(low);
    let unused = 64 - 8 * len as u32;
    match (signed, unused) {
        (false, _) => bits as f64,
        (true, 64) => 0.0,
        (true, _) => (((bits << unused) as i64) >> unused) as f64,
    }
}

fn size(lua: &Lua, pace: &Pace<'_>, values: MultiValue) -> Result<MultiValue> {
    let args = Checked { lua, values: &values, name: "size" };
    let text = args.text(1)?;
    let mut format = Format::new(&args, pace, text.as_ref());
    let mut at = 0;
    while let Some(item) = format.next(at)? {
        at += item.padding;
        match item.letter {
            b's' => return Err(args.bad(1, "option 's' has no fixed size")),
            b'c' if item.size == 0 => return Err(args.bad(1, "option 'c0' has no fixed size")),
            letter if letter.is_ascii_alphanumeric() => {}
            letter => format.control(letter)?,
        }
        at += item.size;
    }
    Ok(MultiValue::from_iter([Value::Integer(at as i64)]))
}
