//! Libraries of functions: they register their functions while they are loaded.
//!
//! ```text
//!  code ─▶ runs once, with `redis.register_function` and `redis.log` and nothing else ─▶ functions ─▶ FCALL
//! ```
//! The functions later see all globals of their state.

use crate::args::text;
use crate::errors::{
    FIRST_ARGUMENT, FLAG_UNKNOWN, FLAGS_TABLE, FUNCTION_NAME, FUNCTION_TWICE, NAMED_CALLBACK, NAMED_DESCRIPTION,
    NAMED_KEY, NAMED_NAME, NAMED_UNKNOWN, NO_CALLBACK, NO_NAME, ONLY_LOADING, ONLY_TABLE, REGISTER_ARGUMENTS,
    SECOND_ARGUMENT,
};
use crate::fault::Fault;
use crate::script::{Registered, ScriptFlags};
use crate::shared::Shared;
use mlua::{MultiValue, Result, Table, Value};

/// `redis.register_function`, which exists while a library is loaded.
pub(crate) fn register(shared: &Shared, args: &MultiValue) -> Result<Value> {
    if !shared.loading.get() {
        // A function of the library has kept the table `redis` of the loading.
        return Err(Fault::reply(ONLY_LOADING));
    }
    let registered = match args.len() {
        1 => match &args[0] {
            Value::Table(table) => by_name(table)?,
            _ => return Err(Fault::reply(ONLY_TABLE)),
        },
        2 => by_place(&args[0], &args[1])?,
        _ => return Err(Fault::reply(REGISTER_ARGUMENTS)),
    };
    let name = &registered.name;
    if name.is_empty() || !name.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'_') {
        return Err(Fault::reply(FUNCTION_NAME));
    }
    if !shared.registered.borrow_mut().add(registered) {
        return Err(Fault::reply(FUNCTION_TWICE));
    }
    Ok(Value::Nil)
}

fn by_place(name: &Value, function: &Value) -> Result<Registered> {
    let Value::Function(function) = function else { return Err(Fault::reply(SECOND_ARGUMENT)) };
    let name = owned(name).ok_or_else(|| Fault::reply(FIRST_ARGUMENT))?;
    Ok(Registered { name, description: None, flags: ScriptFlags::default(), function: function.clone() })
}

fn by_name(table: &Table) -> Result<Registered> {
    let (mut name, mut function, mut description, mut flags) = (None, None, None, ScriptFlags::default());
    for pair in table.pairs::<Value, Value>() {
        let (key, value) = pair?;
        let key = owned(&key).ok_or_else(|| Fault::reply(NAMED_KEY))?;
        match key.as_slice() {
            b"function_name" => name = Some(owned(&value).ok_or_else(|| Fault::reply(NAMED_NAME))?),
            b"description" => description = Some(owned(&value).ok_or_else(|| Fault::reply(NAMED_DESCRIPTION))?),
            b"callback" => match value {
                Value::Function(value) => function = Some(value),
                _ => return Err(Fault::reply(NAMED_CALLBACK)),
            },
            b"flags" => match value {
                Value::Table(names) => flags = read_flags(&names)?,
                _ => return Err(Fault::reply(FLAGS_TABLE)),
            },
            _ => return Err(Fault::reply(NAMED_UNKNOWN)),
        }
    }
    let name = name.ok_or_else(|| Fault::reply(NO_NAME))?;
    let function = function.ok_or_else(|| Fault::reply(NO_CALLBACK))?;
    Ok(Registered { name, description, flags, function })
}

fn read_flags(names: &Table) -> Result<ScriptFlags> {
    let mut flags = ScriptFlags::default();
    for i in 1.. {
        match names.raw_get(i)? {
            Value::Nil => break,
            Value::String(name) if flags.set(&name.as_bytes()) => {}
            _ => return Err(Fault::reply(FLAG_UNKNOWN)),
        }
    }
    Ok(flags)
}

fn owned(value: &Value) -> Option<Vec<u8>> {
    text(value).map(|text| text.as_ref().to_vec())
}
