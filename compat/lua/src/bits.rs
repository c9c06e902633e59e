//! The library `bit`: operations on 32-bit integers, with the results of LuaBitOp.

use crate::args::Checked;
use mlua::{Lua, MultiValue, Result, Table, Value};

/// Added to a double, this leaves the number modulo 2^32, rounded to nearest, in the low bits.
const MAGIC: f64 = 6_755_399_441_055_744.0;

/// An operation on two numbers.
type Pair = fn(u32, u32) -> u32;

/// An operation on one number.
type Single = fn(u32) -> u32;

/// Folded over any number of arguments.
const FOLDS: [(&str, Pair); 3] = [("band", |a, b| a & b), ("bor", |a, b| a | b), ("bxor", |a, b| a ^ b)];
/// A number and a count of bits, of which five bits count.
const SHIFTS: [(&str, Pair); 5] = [
    ("lshift", |a, n| a << n),
    ("rshift", |a, n| a >> n),
    ("arshift", |a, n| (a as i32 >> n) as u32),
    ("rol", |a, n| a.rotate_left(n)),
    ("ror", |a, n| a.rotate_right(n)),
];
/// Operations on one number.
const SINGLES: [(&str, Single); 3] = [("tobit", |a| a), ("bnot", |a| !a), ("bswap", u32::swap_bytes)];

/// The table `bit`.
pub(crate) fn table(lua: &Lua) -> Result<Table> {
    let bit = lua.create_table()?;
    for (name, fold) in FOLDS {
        let function = move |lua: &Lua, values: MultiValue| {
            let args = Checked { lua, values: &values, name };
            let mut all = bits(&args, 1)?;
            // From the last one on, as in the library of redis-server: of several bad arguments the last is complained of.
            for i in (2..=values.len()).rev() {
                all = fold(all, bits(&args, i)?);
            }
            Ok(signed(all))
        };
        bit.raw_set(name, lua.create_function(function)?)?;
    }
    for (name, shift) in SHIFTS {
        let function = move |lua: &Lua, values: MultiValue| {
            let args = Checked { lua, values: &values, name };
            Ok(signed(shift(bits(&args, 1)?, bits(&args, 2)? & 31)))
        };
        bit.raw_set(name, lua.create_function(function)?)?;
    }
    for (name, single) in SINGLES {
        let function =
            move |lua: &Lua, values: MultiValue| Ok(signed(single(bits(&Checked { lua, values: &values, name }, 1)?)));
        bit.raw_set(name, lua.create_function(function)?)?;
    }
    bit.raw_set("tohex", lua.create_function(to_hex)?)?;
    Ok(bit)
}

fn bits(args: &Checked<'_>, i: usize) -> Result<u32> {
    Ok((args.number(i)? + MAGIC).to_bits() as u32)
}

fn signed(bits: u32) -> Value {
    Value::Integer(i64::from(bits as i32))
}

/// The last digits, 8 if no number says how many; capital letters for a negative number.
fn to_hex(lua: &Lua, values: MultiValue) -> Result<String> {
    let args = Checked { lua, values: &values, name: "tohex" };
    let number = bits(&args, 1)?;
    let wanted = if values.len() < 2 { 8 } else { bits(&args, 2)? as i32 };
    let digits = wanted.unsigned_abs().min(8) as usize;
    let text = if wanted < 0 { format!("{number:08X}") } else { format!("{number:08x}") };
    Ok(text[8 - digits..].to_string())
}
