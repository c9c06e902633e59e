//! The `redis` object.

use crate::args::{Text, number, push_word, text};
use crate::errors::{
    ACL_COMMAND, BAD_ARGUMENT, LOG_ARGUMENTS, LOG_LEVEL, LOG_LEVEL_TYPE, NO_ARGUMENTS, OUTSIDE_SCRIPT, REPL_ARGUMENTS,
    REPL_FLAGS, RESP_ARGUMENTS, RESP_VERSION, SHA_ARGUMENTS, SINGLE_FIELD,
};
use crate::fault::{Fault, error_table};
use crate::host::{LogLevel, Replicate};
use crate::library::register;
use crate::raw::commands;
use crate::shared::Shared;
use crate::tick::tick_before;
use crate::values::error_parts;
use mlua::{Lua, MultiValue, Result, Table, Value};
use smallvec::SmallVec;
use std::rc::Rc;
use varve_base::sha1::sha1;
use varve_protocol::Resp;

/// Bytes of a line of `redis.log` that are written, as redis-server has it.
const LOG_BYTES_MAX: usize = 1024;
const REPL_NONE: i64 = 0;
const REPL_AOF: i64 = 1;
const REPL_REPLICA: i64 = 2;
const REPL_ALL: i64 = REPL_AOF | REPL_REPLICA;

/// The table `redis`.
pub(crate) fn table(lua: &Lua, shared: &Rc<Shared>) -> Result<Table> {
    let redis = base(lua, shared)?;
    let (call, pcall) = commands(lua, shared)?;
    redis.raw_set("call", call)?;
    redis.raw_set("pcall", pcall)?;
    add(lua, &redis, shared, "setresp", set_resp)?;
    add(lua, &redis, shared, "set_repl", set_repl)?;
    add(lua, &redis, shared, "acl_check_cmd", |_, shared, args| acl_check_cmd(shared, args))?;
    add(lua, &redis, shared, "sha1hex", sha1hex)?;
    add(lua, &redis, shared, "error_reply", |lua, _, args| single_field(lua, args, "err"))?;
    add(lua, &redis, shared, "status_reply", |lua, _, args| single_field(lua, args, "ok"))?;
    if !shared.settings.for_functions {
        add(lua, &redis, shared, "replicate_commands", |_, _, _| Ok(Value::Boolean(true)))?;
        // Both belong to redis-server's debugger, and do nothing outside of it.
        add(lua, &redis, shared, "breakpoint", |_, _, _| Ok(Value::Boolean(false)))?;
        add(lua, &redis, shared, "debug", |_, _, _| Ok(Value::Nil))?;
    }
    let numbers = [
        ("REPL_NONE", REPL_NONE),
        ("REPL_AOF", REPL_AOF),
        ("REPL_SLAVE", REPL_REPLICA),
        ("REPL_REPLICA", REPL_REPLICA),
        ("REPL_ALL", REPL_ALL),
    ];
    numbers.into_iter().try_for_each(|(name, n)| redis.raw_set(name, n))?;
    Ok(redis)
}

/// The table `redis` of a library that is being loaded.
pub(crate) fn loading_table(lua: &Lua, shared: &Rc<Shared>) -> Result<Table> {
    let redis = base(lua, shared)?;
    add(lua, &redis, shared, "register_function", |_, shared, args| register(shared, &args))?;
    Ok(redis)
}

/// The part of `redis` that is always there.
fn base(lua: &Lua, shared: &Rc<Shared>) -> Result<Table> {
    let redis = lua.create_table()?;
    add(lua, &redis, shared, "log", log)?;
    let numbers = [
        ("LOG_DEBUG", 0),
        ("LOG_VERBOSE", 1),
        ("LOG_NOTICE", 2),
        ("LOG_WARNING", 3),
        ("REDIS_VERSION_NUM", i64::from(shared.settings.version_number)),
    ];
    numbers.into_iter().try_for_each(|(name, n)| redis.raw_set(name, n))?;
    redis.raw_set("REDIS_VERSION", shared.settings.version)?;
    Ok(redis)
}

fn add(
    lua: &Lua,
    to: &Table,
    shared: &Rc<Shared>,
    name: &str,
    function: impl Fn(&Lua, &Shared, MultiValue) -> Result<Value> + 'static,
) -> Result<()> {
    let shared = Rc::clone(shared);
    to.raw_set(name, lua.create_function(move |lua, args: MultiValue| function(lua, &shared, args))?)
}

/// The command's words: strings, and numbers as C's `%.17g` writes them.
fn arguments(args: &MultiValue) -> Result<SmallVec<[Text; 8]>> {
    if args.is_empty() {
        return Err(Fault::reply(NO_ARGUMENTS));
    }
    args.iter().map(argument).collect()
}

fn argument(value: &Value) -> Result<Text> {
    let mut text = Vec::new();
    match value {
        Value::String(text) => return Ok(Text::Borrowed(text.as_bytes())),
        Value::Integer(n) => push_word(&mut text, *n as f64),
        Value::Number(n) => push_word(&mut text, *n),
        _ => return Err(Fault::reply(BAD_ARGUMENT)),
    }
    Ok(Text::Number(SmallVec::from_vec(text)))
}

fn log(lua: &Lua, shared: &Shared, args: MultiValue) -> Result<Value> {
    if args.len() < 2 {
        return Err(Fault::reply(LOG_ARGUMENTS));
    }
    let Some(level) = number(lua, &args[0]) else { return Err(Fault::reply(LOG_LEVEL_TYPE)) };
    let level = match level as i64 {
        0 => LogLevel::Debug,
        1 => LogLevel::Verbose,
        2 => LogLevel::Notice,
        3 => LogLevel::Warning,
        _ => return Err(Fault::reply(LOG_LEVEL)),
    };
    let mut line = Vec::new();
    for value in args.iter().skip(1) {
        // A value that is neither a string nor a number is left out, as redis-server does.
        if let Some(text) = text(value) {
            if !line.is_empty() {
                line.push(b' ');
            }
            line.extend_from_slice(text.as_ref());
        }
    }
    line.truncate(LOG_BYTES_MAX);
    shared.host.with(|host| host.log(level, &line));
    Ok(Value::Nil)
}

fn set_resp(lua: &Lua, shared: &Shared, args: MultiValue) -> Result<Value> {
    if args.len() != 1 {
        return Err(Fault::reply(RESP_ARGUMENTS));
    }
    let resp = match number(lua, &args[0]) {
        Some(2.0) => Resp::V2,
        Some(3.0) => Resp::V3,
        _ => return Err(Fault::reply(RESP_VERSION)),
    };
    shared.resp.set(resp);
    shared.host.with(|host| host.set_resp(resp));
    Ok(Value::Nil)
}

fn set_repl(lua: &Lua, shared: &Shared, args: MultiValue) -> Result<Value> {
    if args.len() != 1 {
        return Err(Fault::reply(REPL_ARGUMENTS));
    }
    let flags = number(lua, &args[0]).unwrap_or(0.0) as i64;
    if flags & !REPL_ALL != 0 {
        return Err(Fault::reply(REPL_FLAGS));
    }
    let replicate = Replicate { to_aof: flags & REPL_AOF != 0, to_replicas: flags & REPL_REPLICA != 0 };
    shared.host.with(|host| host.set_repl(replicate));
    Ok(Value::Nil)
}

fn acl_check_cmd(shared: &Shared, args: MultiValue) -> Result<Value> {
    let texts = arguments(&args)?;
    let slices: SmallVec<[&[u8]; 8]> = texts.iter().map(AsRef::as_ref).collect();
    match shared.host.with(|host| host.acl_check_cmd(&slices)) {
        Some(Some(allowed)) => Ok(Value::Boolean(allowed)),
        Some(None) => Err(Fault::reply(ACL_COMMAND)),
        None => Err(Fault::reply(OUTSIDE_SCRIPT)),
    }
}

fn sha1hex(lua: &Lua, shared: &Shared, args: MultiValue) -> Result<Value> {
    if args.len() != 1 {
        return Err(Fault::reply(SHA_ARGUMENTS));
    }
    let text = text(&args[0]);
    tick_before(lua, shared, text.as_ref().map_or(0, |text| text.as_ref().len()))?;
    let digest = sha1(text.as_ref().map_or(b"", AsRef::as_ref));
    let hex: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    Ok(Value::String(lua.create_string(hex)?))
}

/// `redis.error_reply` and `redis.status_reply`: a table of one field. Wrong arguments are returned as an error, not
/// raised.
fn single_field(lua: &Lua, args: MultiValue, field: &str) -> Result<Value> {
    let table = match args.front() {
        Some(Value::String(text)) if args.len() == 1 && field == "err" => {
            let text = text.as_bytes();
            let text = text.split(|byte| *byte == 0).next().unwrap_or_default();
            let (code, message) = error_parts(text.strip_prefix(b"-").unwrap_or(text));
            error_table(lua, &[code, message].concat(), false)?
        }
        Some(Value::String(text)) if args.len() == 1 => {
            let table = lua.create_table_with_capacity(0, 1)?;
            table.raw_set(field, text)?;
            table
        }
        _ => error_table(lua, SINGLE_FIELD, false)?,
    };
    Ok(Value::Table(table))
}
