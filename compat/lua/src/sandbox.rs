//! The sandbox: which globals there are, and what keeps scripts from changing them.
//!
//! ```text
//!  new state ─▶ libraries of Lua, without what reaches outside ─▶ ours (`redis`, ..) ─▶ prelude.lua hides all of it behind
//!                                                                                      stand-ins ─▶ `_G` of all scripts
//! ```
//! The list of what must hold: `tests/sandbox/security.rs`.

use crate::errors::{UNKNOWN, with_code};
use crate::fault::{Fault, PRELUDE, place, placed, without_prelude};
use crate::patterns;
use crate::shared::Shared;
use crate::tick::{tick, tick_before};
use mlua::chunk::ChunkMode;
use mlua::{Function, Lua, LuaString, Result, Table, Value};
use std::rc::Rc;
use std::sync::Arc;

/// Globals of Lua's base library that a script must not reach.
const DENIED: &[&str] = &["dofile", "loadfile", "print", "newproxy", "getfenv", "setfenv"];
/// Of these, the ones that `lua-enable-deprecated-api` gives back.
const DEPRECATED: &[&str] = &["newproxy", "getfenv", "setfenv"];
/// The letter with which compiled code begins.
const BYTECODE: u8 = 0x1b;

/// The functions with which Rust enters Lua, and the tables that it needs for that.
pub(crate) struct Doors {
    /// Runs the code of a library: number to (true, result) or (false, message).
    pub(crate) load: Function,
    /// Says whether a library is being loaded, which sees other globals.
    pub(crate) loading: Function,
    /// Keeps a chunk under a number; nil forgets it.
    pub(crate) keep: Function,
    /// Hides the libraries.
    seal: Function,
    /// Handles an error that nothing in the script has caught.
    pub(crate) ended: Function,
    /// Chunks by their numbers.
    pub(crate) chunks: Table,
    /// The globals behind what scripts see.
    pub(crate) globals: Table,
    /// The table that scripts see as `_G`.
    seen: Table,
}

/// Loads the prelude into a new state, whose globals only have Lua's own libraries yet. `lists` makes KEYS and ARGV.
pub(crate) fn prepare(lua: &Lua, shared: &Rc<Shared>, lists: Function) -> Result<Doors> {
    let globals = lua.globals();
    let mut denied = DENIED.iter().filter(|name| !(shared.settings.deprecated_api && DEPRECATED.contains(name)));
    denied.try_for_each(|name| globals.raw_set(*name, Value::Nil))?;
    let native = lua.create_table()?;
    native.raw_set("opened", lua.create_function(|lua, value: Value| opened(lua, value))?)?;
    native.raw_set("mended", lua.create_function(mended)?)?;
    let ours = Rc::clone(shared);
    let ended = lua.create_function(move |lua, value: Value| ended(lua, &ours, value))?;
    native.raw_set("ended", &ended)?;
    let ours = Rc::clone(shared);
    native.raw_set("scan", lua.create_function(move |lua, args| patterns::scan(lua, &ours, args))?)?;
    let ours = Rc::clone(shared);
    native.raw_set("seek", lua.create_function(move |lua, args| patterns::seek(lua, &ours, args))?)?;
    let ours = Rc::clone(shared);
    native.raw_set("specials", lua.create_function(move |lua, args| patterns::specials(lua, &ours, args))?)?;
    let ours = Rc::clone(shared);
    native.raw_set("tick", lua.create_function(move |lua, ()| tick(lua, &ours))?)?;
    let random = Arc::clone(&shared.random);
    native.raw_set("draw", lua.create_function(move |_, ()| Ok(random.draw()))?)?;
    let random = Arc::clone(&shared.random);
    native.raw_set(
        "seed",
        lua.create_function(move |_, seed: i64| {
            random.seed(seed);
            Ok(())
        })?,
    )?;
    native.raw_set("lists", lists)?;
    let ours = Rc::clone(shared);
    native.raw_set("compile", lua.create_function(move |lua, args| compile_for_script(lua, &ours, args))?)?;
    let (seen, about) = (lua.create_table()?, lua.create_table()?);
    about.raw_set("__index", &globals)?;
    seen.set_metatable(Some(about))?;
    let prelude = lua.load(include_str!("sandbox/prelude.lua")).set_name(PRELUDE).set_environment(seen.clone());
    let (seal, load, keep, loading, chunks) = prelude.into_function()?.call((&globals, native, Value::NULL, &seen))?;
    Ok(Doors { load, loading, keep, seal, ended, chunks, globals, seen })
}

impl Doors {
    /// Hides the globals and these libraries, and makes the stand-in the globals of all code that is compiled from now on.
    pub(crate) fn seal(&self, lua: &Lua, libraries: Table, loading: Table) -> Result<()> {
        self.seal.call::<()>((libraries, loading))?;
        self.show(lua)
    }

    /// Makes `_G` the globals of all code that is compiled from now on: a script may have put a table of its own in its place, by
    /// `setfenv(0, ..)`.
    pub(crate) fn show(&self, lua: &Lua) -> Result<()> {
        lua.set_globals(self.seen.clone())
    }
}

/// Compiles text, never compiled code. Nothing is collected meanwhile: what the parser has made is not all within the
/// collector's sight (CVE-2025-49844).
pub(crate) fn compile(lua: &Lua, text: &[u8], name: &[u8]) -> Result<Function> {
    // A script's name ends at a zero byte, as in C.
    let name = name.split(|byte| *byte == 0).next().unwrap_or_default();
    let name = String::from_utf8_lossy(name);
    // Lua would see by the first letter that the code is compiled; behind a space it is a letter that has no place.
    let shifted = (text.first() == Some(&BYTECODE)).then(|| [b" ", text].concat());
    let text = shifted.as_deref().unwrap_or(text);
    lua.gc_stop();
    let function = lua.load(text).set_name(name).set_mode(ChunkMode::Text).into_function();
    lua.gc_restart();
    function
}

/// Bytes of a text that scripts may have compiled: those of the longest script.
const CODE_BYTES_MAX: usize = 4 << 20;

/// `loadstring` and `load` behind the prelude's checks: the function, or nil and a message. To compile takes no instructions of Lua's:
/// the host is asked before a long text.
fn compile_for_script(lua: &Lua, shared: &Shared, (text, name): (LuaString, LuaString)) -> Result<(Value, Value)> {
    let bytes = text.as_bytes().len();
    if bytes > CODE_BYTES_MAX {
        return Ok((Value::Nil, Value::String(lua.create_string("chunk is too long")?)));
    }
    tick_before(lua, shared, bytes)?;
    match compile(lua, &text.as_bytes(), &name.as_bytes()) {
        Ok(function) => Ok((Value::Function(function), Value::Nil)),
        Err(mlua::Error::SyntaxError { message, .. }) => Ok((Value::Nil, Value::String(lua.create_string(message)?))),
        Err(error) => Err(error),
    }
}

/// The value of an error as a script sees it.
fn opened(lua: &Lua, value: Value) -> Result<Value> {
    match value {
        Value::Error(error) => Fault::of(&error).opened(lua),
        other => Ok(other),
    }
}

/// A message with the place of the script's function in place of the prelude's. Runs while the stack still stands.
fn mended(lua: &Lua, value: Value) -> Result<Value> {
    if let Value::String(message) = &value
        && let (rest, true) = without_prelude(&message.as_bytes())
    {
        // Without memory for it the message stays as it is: an error of a handler would be handed to the handler.
        return Ok(lua.create_string(placed(lua, rest)).map_or(value.clone(), Value::String));
    }
    Ok(value)
}

/// An error that nothing in the script has caught: it is kept, with its place, for whoever ran the script.
fn ended(lua: &Lua, shared: &Shared, value: Value) -> Result<()> {
    let fault = match value {
        Value::Error(error) => match Fault::of(&error) {
            Fault::Text(text) => plain(&text),
            fault => fault,
        },
        Value::Table(table) => of_table(&table)?,
        other => plain(&mended(lua, other)?.to_string().map(String::into_bytes)?),
    };
    *shared.ended.borrow_mut() = Some((fault, place(lua, 1)));
    Ok(())
}

/// An error without a code.
fn plain(text: &[u8]) -> Fault {
    Fault::Reply { text: with_code(text), counted: false }
}

/// The error of a table that was raised or returned: its field `err`, and whether it is counted already.
pub(crate) fn of_table(table: &Table) -> Result<Fault> {
    let text = match table.raw_get::<Value>("err")? {
        Value::String(text) => text.as_bytes().split(|byte| *byte == 0).next().unwrap_or_default().to_vec(),
        _ => UNKNOWN.to_vec(),
    };
    let counted = matches!(table.raw_get("ignore_error_stats_update")?, Value::Boolean(true));
    Ok(Fault::Reply { text, counted })
}
