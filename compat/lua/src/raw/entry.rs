//! The entry into a script, or into a function of a library.

use crate::fault::Fault;
use crate::sandbox::Doors;
use crate::script::{LuaChunk, NamedGlobals, ScriptInput};
use crate::shared::Shared;
use crate::tick::Meter;
use mlua::ffi;
use mlua::{Lua, Result, Value, lua_State};
use std::ffi::{c_int, c_void};
use std::rc::Rc;
use varve_protocol::Reply;

use super::closure::{OWN, closure};
use super::lists;
use super::push::push_list;
use super::settled;
use super::write::{Levels, Writer, error_of};

/// The upvalue of `enter` behind those that set globals: the table of chunks.
const CHUNKS: c_int = OWN - 3;

/// The way into the scripts of a state.
pub(crate) struct Entry {
    /// The state's main thread.
    state: *mut lua_State,
    /// Lua's references to `enter` and to the handler of errors.
    enter: c_int,
    handler: c_int,
}

/// A run, as `enter` finds it in the frame of [`Entry::run`].
struct Run<'r> {
    shared: &'r Shared,
    chunk: LuaChunk,
    named: NamedGlobals,
    input: ScriptInput<'r>,
    out: &'r mut Reply,
    /// Tables of the reply that are open.
    levels: Levels,
    /// Its reply is written.
    replied: bool,
}

impl Entry {
    /// The way into a state that is made and has run nothing.
    pub(crate) fn new(lua: &Lua, shared: &Rc<Shared>, doors: &Doors) -> Result<Entry> {
        let mut own = lists::upvalues(lua, &doors.globals)?;
        own.push(Value::Table(doors.chunks.clone()));
        let enter = closure(lua, shared, enter, own)?;
        let refer = |function: &mlua::Function| {
            let mut reference = 0;
            let place = &raw mut reference;
            // SAFETY: the one argument is taken off the stack; `place` is there until this returns.
            unsafe { lua.exec_raw::<()>(function, |state| *place = ffi::luaL_ref(state, ffi::LUA_REGISTRYINDEX))? };
            Ok::<c_int, mlua::Error>(reference)
        };
        Ok(Entry { state: lua.state(), enter: refer(&enter)?, handler: refer(&doors.ended)? })
    }

    /// Runs a script, whose text names these globals, and writes its reply; false if it fails. Its error is in `Shared::ended` then, unless there was no memory
    /// for it, and a part of the reply may be written.
    pub(crate) fn run(
        &self,
        shared: &Shared,
        (chunk, named): (LuaChunk, NamedGlobals),
        input: ScriptInput<'_>,
        out: &mut Reply,
    ) -> bool {
        let state = self.state;
        let mut run = Run { shared, chunk, named, input, out, levels: Levels::new(), replied: false };
        if !shared.settings.for_functions {
            shared.input.set((&raw const run.input).cast());
        }
        // SAFETY: no function runs in this state, so that its stack has room for 20 values, and none of these raises. `run` is in
        // this frame, which `lua_pcall` comes back to.
        unsafe {
            let top = ffi::lua_gettop(state);
            ffi::lua_rawgeti_(state, ffi::LUA_REGISTRYINDEX, self.handler);
            ffi::lua_rawgeti_(state, ffi::LUA_REGISTRYINDEX, self.enter);
            ffi::lua_pushlightuserdata(state, (&raw mut run).cast::<c_void>());
            ffi::lua_pcall(state, 1, 0, top + 1);
            ffi::lua_settop(state, top);
        }
        shared.input.set(std::ptr::null());
        run.replied
    }
}

/// Runs the script of the [`Run`] to which its one argument points, and writes its result.
unsafe extern "C-unwind" fn enter(state: *mut lua_State) -> c_int {
    // SAFETY: `Entry::run` calls it with a pointer into its frame. This frame owns nothing.
    unsafe {
        let run = &mut *ffi::lua_touserdata(state, 1).cast::<Run<'_>>();
        let (shared, input, meter) = (run.shared, run.input, Meter::default());
        ffi::lua_rawgeti_(state, CHUNKS, run.chunk.0 as c_int);
        if shared.settings.for_functions {
            push_list(state, shared, &meter, input.keys);
            push_list(state, shared, &meter, input.argv);
            ffi::lua_call(state, 2, 1);
        } else {
            lists::begin(state, shared, &meter, &input, run.named);
            ffi::lua_call(state, 0, 1);
        }
        let result = ffi::lua_gettop(state);
        if let Some(error) = error_of(state, result) {
            settled(|| {
                let fault = Fault::Reply { text: error.text.to_vec(), counted: error.counted };
                *shared.ended.borrow_mut() = Some((fault, None));
            });
            return 0;
        }
        Writer { state, shared, out: run.out, levels: &mut run.levels, meter: Meter::default() }.reply();
        run.replied = true;
    }
    0
}
