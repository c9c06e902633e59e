//! The Lua state itself, and what its functions share with it.

use crate::errors::{COMPILING_LIBRARY, NO_FUNCTIONS, NO_MEMORY, REGISTERING, ScriptError};
use crate::fault::{Fault, Place, without_trace};
use crate::host::Host;
use crate::random::RandomNumbers;
use crate::raw::{Entry, lists, protect, set_environment};
use crate::sandbox::{self, Doors};
use crate::script::{LibraryFunction, LuaChunk, NamedGlobals, Registered, ScriptInput, ScriptName};
use crate::shared::{Settings, Shared};
use crate::tick::tick;
use crate::{api, bits, cjson, cmsgpack, structs};
use mlua::{Function, HookTriggers, Lua, LuaOptions, Result, StdLib, Value, VmState};
use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use varve_protocol::{Reply, Resp};

/// The source name of scripts, as messages show it behind the `@`.
const SCRIPT_NAME: &[u8] = b"@user_script";
/// The source name of libraries.
const LIBRARY_NAME: &[u8] = b"@user_function";
/// Libraries of Lua beside its base, which has coroutines. Of `os` the sandbox keeps `clock`.
const LIBRARIES: [StdLib; 4] = [StdLib::TABLE, StdLib::STRING, StdLib::MATH, StdLib::OS];

/// A result, or the error reply.
type Outcome<T> = std::result::Result<T, ScriptError>;

/// A Lua state and its scripts.
pub(crate) struct Inside {
    // Lua goes before `shared`, to which its functions point.
    lua: Lua,
    entry: Entry,
    doors: Doors,
    shared: Rc<Shared>,
    /// Numbers of chunks that were forgotten.
    free: Vec<u32>,
    next: u32,
    /// The globals that each chunk's text names.
    named: Vec<NamedGlobals>,
    /// Bytes that the last full collection has left in use.
    left_bytes: Cell<usize>,
}

impl Inside {
    /// A state with all libraries.
    pub(crate) fn new(settings: Settings, random: Arc<RandomNumbers>) -> Result<Inside> {
        let libraries = LIBRARIES.into_iter().fold(StdLib::NONE, |all, one| all | one);
        let lua = Lua::new_with(libraries, LuaOptions::new().catch_rust_panics(true))?;
        let shared = Rc::new(Shared::new(settings, random));
        if settings.deprecated_api {
            let globals = lua.globals();
            globals.raw_set("setfenv", set_environment(&lua, &shared, globals.raw_get("setfenv")?)?)?;
        }
        // The prelude stands on these.
        protect(&lua)?;
        let doors = sandbox::prepare(&lua, &shared, lists(&lua, &shared, &lua.globals())?)?;
        let ours = lua.create_table()?;
        ours.raw_set("redis", api::table(&lua, &shared)?)?;
        ours.raw_set("bit", bits::table(&lua)?)?;
        ours.raw_set("cjson", cjson::table(&lua, &shared, &shared.json)?)?;
        ours.raw_set("cmsgpack", cmsgpack::table(&lua, &shared)?)?;
        ours.raw_set("struct", structs::table(&lua, &shared)?)?;
        doors.seal(&lua, ours, api::loading_table(&lua, &shared)?)?;
        lua.set_memory_limit(settings.memory_bytes_max)?;
        watch(&lua, &shared)?;
        let entry = Entry::new(&lua, &shared, &doors)?;
        Ok(Inside {
            lua,
            entry,
            doors,
            shared,
            free: Vec::new(),
            next: 0,
            named: Vec::new(),
            left_bytes: Cell::default(),
        })
    }

    /// Collects what earlier scripts have left, if it is much: Lua does not collect when it meets its limit, and would
    /// else refuse memory to this script that nobody uses. Where more than half stays in use, it is done again once half of the
    /// rest is used: each script would else pay for a walk over all that is compiled, some hundred milliseconds.
    fn tidy_up(&self) -> Result<()> {
        let (limit, left) = (self.shared.settings.memory_bytes_max, self.left_bytes.get());
        let most = if left <= limit / 2 { limit / 2 } else { left + limit.saturating_sub(left) / 2 };
        if self.lua.used_memory() <= most {
            return Ok(());
        }
        // Those of the last script are still there: each script puts its own in their place, and to take them away each time
        // would cost 5% of a script that does nothing.
        for name in self.shared.set_globals.take().names() {
            self.doors.globals.raw_set(name, Value::Nil)?;
        }
        self.lua.gc_collect()?;
        self.left_bytes.set(self.lua.used_memory());
        Ok(())
    }

    /// Compiles a script and keeps it.
    pub(crate) fn compile(&mut self, body: &[u8]) -> Result<LuaChunk> {
        self.tidy_up()?;
        self.doors.show(&self.lua)?;
        let function = sandbox::compile(&self.lua, body, SCRIPT_NAME)?;
        self.keep(&function, NamedGlobals::in_text(body))
    }

    fn keep(&mut self, function: &Function, named: NamedGlobals) -> Result<LuaChunk> {
        let number = self.free.pop().unwrap_or(self.next);
        self.doors.keep.call::<()>((number, function))?;
        self.next = self.next.max(number + 1);
        self.named.resize(self.next as usize, NamedGlobals::default());
        self.named[number as usize] = named;
        Ok(LuaChunk(number))
    }

    /// Runs the code of a library, and keeps the functions that it registers.
    pub(crate) fn load(&mut self, code: &[u8], host: &mut dyn Host) -> Outcome<Vec<LibraryFunction>> {
        let ready = self.tidy_up().and_then(|()| self.doors.show(&self.lua));
        let chunk = ready.and_then(|()| sandbox::compile(&self.lua, code, LIBRARY_NAME));
        let chunk = chunk.and_then(|function| self.keep(&function, NamedGlobals::default()));
        let chunk = chunk.map_err(|error| compile_error(COMPILING_LIBRARY, &error))?;
        self.shared.registered.take();
        self.shared.loading.set(true);
        let ran = self.guarded(host, |inside| {
            inside.doors.loading.call::<()>(true)?;
            let (went, _): (bool, Value) = inside.doors.load.call(chunk.0)?;
            Ok(went)
        });
        self.shared.loading.set(false);
        // This takes the hook of a stopped run away, so it comes first.
        let outcome = self.outcome(ran).map_err(|(fault, _)| fault);
        let reset = self.doors.loading.call::<()>(false).map_err(|error| Fault::of(&error));
        let registered = self.shared.registered.take().into_list();
        self.forget(chunk);
        if let Err(fault) = outcome.and(reset) {
            return Err(ScriptError::new([REGISTERING, fault.text_of()].concat()));
        }
        if registered.is_empty() {
            return Err(ScriptError::new(NO_FUNCTIONS));
        }
        registered.into_iter().map(|one| self.keep_function(one)).collect()
    }

    fn keep_function(&mut self, one: Registered) -> Outcome<LibraryFunction> {
        let chunk = self
            .keep(&one.function, NamedGlobals::default())
            .map_err(|error| ScriptError::new(Fault::of(&error).text_of()))?;
        Ok(LibraryFunction { name: one.name, description: one.description, flags: one.flags, chunk })
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

    /// Runs a script, or a function of a library, and writes its reply or gives its error.
    pub(crate) fn run(
        &mut self,
        chunk: LuaChunk,
        input: ScriptInput<'_>,
        host: &mut dyn Host,
        out: &mut Reply,
    ) -> Outcome<()> {
        let mark = out.mark();
        let ran = self.guarded(host, |inside| {
            inside.tidy_up()?;
            let named = inside.named[chunk.0 as usize];
            Ok(inside.entry.run(&inside.shared, (chunk, named), input, out))
        });
        self.outcome(ran).map_err(|(fault, place)| {
            out.truncate(mark);
            script_error(fault, place, input.name)
        })
    }

    /// Runs code with the host at hand, in a state that remembers nothing of the run before. True: it has ended well.
    fn guarded(&mut self, host: &mut dyn Host, run: impl FnOnce(&Inside) -> Result<bool>) -> Result<bool> {
        self.shared.resp.set(Resp::V2);
        self.shared.json.take();
        self.shared.ended.replace(None);
        if self.shared.settings.deprecated_api {
            self.doors.show(&self.lua)?;
        }
        self.shared.host.lend(host, || run(self))
    }

    /// The error of a run and its place, if it has one.
    fn outcome(&self, ran: Result<bool>) -> std::result::Result<(), (Fault, Option<Place>)> {
        if let Some(text) = self.shared.stopped.take() {
            // The hook that raises at each instruction must not meet the next script.
            watch(&self.lua, &self.shared).map_err(|error| (Fault::of(&error), None))?;
            let place = self.shared.ended.take().and_then(|(_, place)| place);
            return Err((Fault::Fatal(text.into()), place));
        }
        match ran {
            Ok(true) => Ok(()),
            // Without an entry, the handler itself had no memory or no stack.
            Ok(false) => Err(self.shared.ended.take().unwrap_or((Fault::Fatal(NO_MEMORY.into()), None))),
            Err(error) => Err((Fault::of(&error), None)),
        }
    }
}

/// The error of code that could not be compiled.
pub(crate) fn compile_error(kind: &[u8], error: &mlua::Error) -> ScriptError {
    let text = match error {
        mlua::Error::SyntaxError { message, .. } => message.clone(),
        mlua::Error::MemoryError(_) => "not enough memory".to_owned(),
        mlua::Error::RuntimeError(message) => without_trace(message).to_owned(),
        other => other.to_string(),
    };
    ScriptError::new([kind, text.as_bytes()].concat())
}

/// Asks the host at each tick whether the script goes on: every `instructions_per_tick` instructions. The hook holds for coroutines too.
///
/// A script that is to stop could swallow the error: where the stack of C is used up, Lua puts another error in its place. So
/// from then on each instruction raises it again.
fn watch(lua: &Lua, shared: &Rc<Shared>) -> Result<()> {
    let triggers = HookTriggers::new().every_nth_instruction(shared.settings.instructions_per_tick);
    let shared = Rc::clone(shared);
    lua.set_global_hook(triggers, move |lua, _| tick(lua, &shared).map(|()| VmState::Continue))
}

/// The reply of an error; with its place, if it was raised in a script.
fn script_error(fault: Fault, place: Option<Place>, name: ScriptName<'_>) -> ScriptError {
    let mut full = fault.text_of().to_vec();
    if let Some(place) = place {
        full.extend_from_slice(b" script: ");
        name.push(&mut full);
        full.extend_from_slice(format!(", on @{}:{}.", place.source, place.line).as_bytes());
    }
    let counted = matches!(fault, Fault::Reply { counted: true, .. });
    ScriptError { counted, ..ScriptError::new(full) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_collection_is_not_done_for_each_script() {
        const LIMIT: usize = 8 << 20;
        let settings = Settings { memory_bytes_max: LIMIT, ..Settings::default() };
        let mut inside = Inside::new(settings, Arc::default()).unwrap();
        inside.lua.gc_stop();
        let body = format!("return '{}'", "x".repeat(50_000));
        let mut nth = 0;
        while inside.lua.used_memory() <= LIMIT * 5 / 8 {
            nth += 1;
            inside.compile(format!("{body} .. {nth}").as_bytes()).unwrap();
        }
        inside.lua.gc_collect().unwrap();
        let lasting = inside.lua.used_memory();
        assert!(lasting > LIMIT / 2, "what is compiled stays: {lasting} bytes");
        inside.tidy_up().unwrap();
        let litter = |bytes: usize| drop(inside.lua.create_string(vec![b'x'; bytes]).unwrap());
        litter(100_000);
        inside.tidy_up().unwrap();
        assert!(inside.lua.used_memory() >= lasting + 100_000, "nothing is collected for so little");
        litter((LIMIT - lasting) / 2);
        inside.tidy_up().unwrap();
        assert!(inside.lua.used_memory() < lasting + 50_000, "half of the rest was used");
    }
}
