//! The Lua state itself, and what its functions share with it.

use crate::errors::{NO_MEMORY, ScriptError};
use crate::fault::{Fault, Place};
use crate::host::{Control, Host};
use crate::lent::Lent;
use crate::replies::{Writer, error_of};
use crate::sandbox::{self, Doors};
use crate::shared::{Settings, Shared};
use crate::values::{Unlimited, list};
use crate::{api, bits};
use mlua::{HookTriggers, Lua, LuaOptions, Result, StdLib, Value, VmState};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use varve_protocol::{Reply, Resp};

/// The source name of scripts, as messages show it behind the `@`.
const SCRIPT_NAME: &[u8] = b"@user_script";
/// Libraries of Lua beside its base, which has coroutines. Of `os` the sandbox keeps `clock`.
const LIBRARIES: [StdLib; 4] = [StdLib::TABLE, StdLib::STRING, StdLib::MATH, StdLib::OS];

/// A compiled script of one state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LuaChunk(u32);

/// The name and the arguments with which a script is run.
#[derive(Clone, Copy, Debug)]
pub struct ScriptInput<'a> {
    /// Named in errors; for EVAL it is the digest.
    pub name: &'a [u8],
    /// KEYS.
    pub keys: &'a [&'a [u8]],
    /// ARGV.
    pub argv: &'a [&'a [u8]],
}

/// A Lua state and its scripts.
pub(crate) struct Inside {
    lua: Lua,
    doors: Doors,
    shared: Rc<Shared>,
    /// Numbers of chunks that were forgotten.
    free: Vec<u32>,
    next: u32,
}

impl Inside {
    /// A state with all libraries.
    pub(crate) fn new(settings: Settings) -> Result<Inside> {
        let libraries = LIBRARIES.into_iter().fold(StdLib::NONE, |all, one| all | one);
        let lua = Lua::new_with(libraries, LuaOptions::new().catch_rust_panics(true))?;
        let shared = Rc::new(Shared {
            settings,
            host: Lent::default(),
            resp: Cell::default(),
            reply: RefCell::default(),
            ended: RefCell::default(),
            stopped: Cell::default(),
        });
        let doors = sandbox::prepare(&lua, &shared)?;
        let ours = lua.create_table()?;
        ours.raw_set("redis", api::table(&lua, &shared)?)?;
        ours.raw_set("bit", bits::table(&lua)?)?;
        doors.seal(&lua, ours)?;
        lua.set_memory_limit(settings.memory_bytes_max)?;
        watch(&lua, &shared)?;
        Ok(Inside { lua, doors, shared, free: Vec::new(), next: 0 })
    }

    /// Collects what earlier scripts have left, if it is much: Lua does not collect when it meets its limit, and would
    /// else refuse memory to this script that nobody uses.
    fn tidy_up(&self) -> Result<()> {
        if self.lua.used_memory() > self.shared.settings.memory_bytes_max / 2 { self.lua.gc_collect() } else { Ok(()) }
    }

    /// Compiles a script and keeps it.
    pub(crate) fn compile(&mut self, body: &[u8]) -> Result<LuaChunk> {
        self.tidy_up()?;
        let function = sandbox::compile(&self.lua, body, SCRIPT_NAME)?;
        let number = self.free.pop().unwrap_or(self.next);
        self.doors.keep.call::<()>((number, function))?;
        self.next = self.next.max(number + 1);
        Ok(LuaChunk(number))
    }

    /// Lets go of a script.
    pub(crate) fn forget(&mut self, chunk: LuaChunk) {
        if self.doors.keep.call::<()>((chunk.0, Value::Nil)).is_ok() {
            self.free.push(chunk.0);
        }
    }

    /// Bytes that Lua uses.
    pub(crate) fn used_bytes(&self) -> usize {
        self.lua.used_memory()
    }

    /// Runs a script and writes its reply, or gives its error.
    pub(crate) fn run(
        &mut self,
        chunk: LuaChunk,
        input: ScriptInput<'_>,
        host: &mut dyn Host,
        out: &mut Reply,
    ) -> std::result::Result<(), ScriptError> {
        self.shared.resp.set(Resp::V2);
        self.shared.ended.replace(None);
        let ran = self.shared.host.lend(host, || {
            self.tidy_up()?;
            let (keys, argv) = {
                let room = Unlimited::new(&self.lua);
                (list(&self.lua, &room, input.keys)?, list(&self.lua, &room, input.argv)?)
            };
            self.doors.enter.call::<(bool, Value)>((chunk.0, keys, argv))
        });
        if let Some(text) = self.shared.stopped.take() {
            // The hook that raises at each instruction must not meet the next script.
            watch(&self.lua, &self.shared).map_err(|error| ScriptError::new(Fault::of(&error).to_string()))?;
            let place = self.shared.ended.take().and_then(|(_, place)| place);
            return Err(script_error(Fault::Fatal(text.into()), place, input.name));
        }
        self.finish(ran, input.name, out)
    }

    /// Writes the reply of a run, or makes its error.
    fn finish(
        &mut self,
        ran: Result<(bool, Value)>,
        name: &[u8],
        out: &mut Reply,
    ) -> std::result::Result<(), ScriptError> {
        let fail = |error: mlua::Error| script_error(Fault::of(&error), None, name);
        let value = match ran {
            Ok((true, value)) => value,
            Ok((false, _)) => {
                // Without an entry, the handler itself had no memory or no stack.
                let (fault, place) = self.shared.ended.take().unwrap_or((Fault::Fatal(NO_MEMORY.into()), None));
                return Err(script_error(fault, place, name));
            }
            Err(error) => return Err(fail(error)),
        };
        if let Some(fault) = error_of(&value).map_err(fail)? {
            return Err(script_error(fault, None, name));
        }
        let _room = Unlimited::new(&self.lua);
        let mark = out.mark();
        let written = Writer { out, resp: self.shared.resp.get() }.value(&value, 0);
        written.map_err(|error| {
            out.truncate(mark);
            fail(error)
        })
    }
}

/// Asks the host at each tick whether the script goes on: every `instructions_per_tick` instructions. The hook holds for coroutines too.
///
/// A script that is to stop could swallow the error: where the stack of C is used up, Lua puts another error in its place. So
/// from then on each instruction raises it again.
fn watch(lua: &Lua, shared: &Rc<Shared>) -> Result<()> {
    let triggers = HookTriggers::new().every_nth_instruction(shared.settings.instructions_per_tick);
    let shared = Rc::clone(shared);
    lua.set_global_hook(triggers, move |lua, _| {
        if shared.stopped.get().is_none()
            && let Some(Control::Stop(text)) = shared.host.with(|host| host.tick())
        {
            shared.stopped.set(Some(text));
            stop(lua, text)?;
        }
        shared.stopped.get().map_or(Ok(VmState::Continue), |text| Err(stop_error(text)))
    })
}

/// Raises the error at each instruction of this thread of Lua's, and of those that it makes.
fn stop(lua: &Lua, text: &'static str) -> Result<()> {
    lua.set_global_hook(HookTriggers::new().every_nth_instruction(1), move |_, _| Err(stop_error(text)))
}

fn stop_error(text: &str) -> mlua::Error {
    Fault::Fatal(text.into()).into()
}

/// The reply of an error; with its place, if it was raised in a script.
fn script_error(fault: Fault, place: Option<Place>, name: &[u8]) -> ScriptError {
    let (Fault::Reply { text, .. } | Fault::Text(text) | Fault::Fatal(text)) = &fault;
    let mut full = text.clone();
    if let Some(place) = place {
        full.extend_from_slice(b" script: ");
        full.extend_from_slice(name);
        full.extend_from_slice(format!(", on @{}:{}.", place.source, place.line).as_bytes());
    }
    let counted = matches!(fault, Fault::Reply { counted: true, .. });
    ScriptError { counted, ..ScriptError::new(full) }
}
