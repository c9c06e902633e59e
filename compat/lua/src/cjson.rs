//! The library `cjson`: JSON as lua-cjson 2.1 reads and writes it, with redis-server's settings.
//!
//! Scripts may change the settings, for themselves: each run begins with those that redis-server starts with.

mod decode;
mod encode;

use crate::args::Checked;
use crate::errors::{ONE_ARGUMENT, TOO_MANY};
use crate::json_settings::Config;
use crate::shared::Shared;
use crate::tick::Pace;
use mlua::{Lua, MultiValue, Result, Table, Value};
use std::cell::Cell;
use std::rc::Rc;

/// A setting of the library.
type Field = fn(&mut Config) -> &mut i64;

/// Settings that are numbers, with their bounds.
const NUMBERS: [(&str, Field, i64, i64); 3] = [
    ("encode_max_depth", |config| &mut config.encode_depth, 1, i32::MAX as i64),
    ("decode_max_depth", |config| &mut config.decode_depth, 1, i32::MAX as i64),
    ("encode_number_precision", |config| &mut config.precision, 1, 14),
];
/// Settings that are words; the first two are false and true.
const WORDS: [(&str, Field, &[&str]); 3] = [
    ("encode_invalid_numbers", |config| &mut config.encode_invalid, &["off", "on", "null"]),
    ("decode_invalid_numbers", |config| &mut config.decode_invalid, &["off", "on"]),
    ("encode_keep_buffer", |config| &mut config.keep_buffer, &["off", "on"]),
];

/// The table `cjson` with these settings.
pub(crate) fn table(lua: &Lua, shared: &Rc<Shared>, config: &Rc<Cell<Config>>) -> Result<Table> {
    let library = lua.create_table()?;
    for (name, field, least, most) in NUMBERS {
        add(lua, &library, config, name, 1, move |args, config| {
            set_number(args, 1, field(config), (least, most)).map(|value| MultiValue::from_iter([value]))
        })?;
    }
    for (name, field, words) in WORDS {
        add(lua, &library, config, name, 1, move |args, config| {
            set_word(args, 1, field(config), words).map(|value| MultiValue::from_iter([value]))
        })?;
    }
    add(lua, &library, config, "encode_sparse_array", 3, |args, config| {
        let bounds = (0, i64::from(i32::MAX));
        let convert = set_word(args, 1, &mut config.sparse_convert, &["off", "on"])?;
        let ratio = set_number(args, 2, &mut config.sparse_ratio, bounds)?;
        let safe = set_number(args, 3, &mut config.sparse_safe, bounds)?;
        Ok(MultiValue::from_iter([convert, ratio, safe]))
    })?;
    let (ours, shared_too) = (Rc::clone(config), Rc::clone(shared));
    let encode = move |lua: &Lua, values: MultiValue| {
        let args = Checked { lua, values: &values, name: "encode" };
        if values.len() != 1 {
            return Err(args.bad(1, ONE_ARGUMENT));
        }
        encode::encode(lua, &Pace::new(lua, &shared_too), &ours.get(), args.get(1))
    };
    library.raw_set("encode", lua.create_function(encode)?)?;
    let (ours, shared_too) = (Rc::clone(config), Rc::clone(shared));
    let decode = move |lua: &Lua, values: MultiValue| {
        let args = Checked { lua, values: &values, name: "decode" };
        if values.len() != 1 {
            return Err(args.bad(1, ONE_ARGUMENT));
        }
        decode::decode(lua, &Pace::new(lua, &shared_too), &ours.get(), args.text(1)?.as_ref())
    };
    library.raw_set("decode", lua.create_function(decode)?)?;
    let shared = Rc::clone(shared);
    library.raw_set("new", lua.create_function(move |lua, ()| table(lua, &shared, &Rc::default()))?)?;
    library.raw_set("null", Value::NULL)?;
    library.raw_set("_NAME", "cjson")?;
    library.raw_set("_VERSION", "2.1.0")?;
    Ok(library)
}

/// A function that reads and changes settings, of at most `most` arguments.
fn add(
    lua: &Lua,
    library: &Table,
    config: &Rc<Cell<Config>>,
    name: &'static str,
    most: usize,
    set: impl Fn(&Checked<'_>, &mut Config) -> Result<MultiValue> + 'static,
) -> Result<()> {
    let config = Rc::clone(config);
    let function = move |lua: &Lua, values: MultiValue| {
        let args = Checked { lua, values: &values, name };
        if values.len() > most {
            return Err(args.bad(most + 1, TOO_MANY));
        }
        let mut changed = config.get();
        let shown = set(&args, &mut changed)?;
        config.set(changed);
        Ok(shown)
    };
    library.raw_set(name, lua.create_function(function)?)
}

fn set_number(args: &Checked<'_>, i: usize, field: &mut i64, (least, most): (i64, i64)) -> Result<Value> {
    if !args.get(i).is_nil() {
        let wanted = args.number(i)? as i64;
        if !(least..=most).contains(&wanted) {
            // The message names the first argument, whichever it is, as in the library that this follows.
            return Err(args.bad(1, &format!("expected integer between {least} and {most}")));
        }
        *field = wanted;
    }
    Ok(Value::Integer(*field))
}

fn set_word(args: &Checked<'_>, i: usize, field: &mut i64, words: &[&str]) -> Result<Value> {
    match args.get(i) {
        Value::Nil => {}
        Value::Boolean(on) => *field = i64::from(*on),
        _ => {
            let text = args.text(i)?;
            let found = words.iter().position(|word| word.as_bytes() == text.as_ref());
            let invalid = || args.bad(i, &format!("invalid option '{}'", String::from_utf8_lossy(text.as_ref())));
            *field = found.ok_or_else(invalid)? as i64;
        }
    }
    match (*field, words.get(*field as usize)) {
        (0 | 1, _) => Ok(Value::Boolean(*field == 1)),
        (_, word) => Ok(Value::String(args.lua.create_string(word.copied().unwrap_or_default())?)),
    }
}
