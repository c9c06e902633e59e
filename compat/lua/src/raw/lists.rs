//! The globals KEYS and ARGV of scripts.
//!
//! ```text
//!   the text names it    made before the script runs
//!   it does not          not there; made when the script asks for it in another way: `_G['KE' .. 'YS']`, `pairs(_G)`, `loadstring`
//! ```
//! Two tables and their collection are a quarter of what a script costs that does nothing.

use crate::script::{NamedGlobals, ScriptInput};
use crate::shared::Shared;
use crate::tick::Meter;
use mlua::ffi;
use mlua::{Function, IntoLua, Lua, Result, Table, Value, lua_State};
use std::ffi::c_int;
use std::rc::Rc;

use super::closure::{self, OWN, closure};
use super::push::push_list;

/// The first of the upvalues of a function that sets the globals: their table, and two names.
const GLOBALS: c_int = OWN;
const NAMES: [(c_int, NamedGlobals); 2] = [(OWN - 1, NamedGlobals::KEYS), (OWN - 2, NamedGlobals::ARGV)];

/// The values that a function needs that sets the globals: its first own upvalues.
pub(super) fn upvalues(lua: &Lua, globals: &Table) -> Result<Vec<Value>> {
    Ok(vec![Value::Table(globals.clone()), "KEYS".into_lua(lua)?, "ARGV".into_lua(lua)?])
}

/// A function that makes those of the globals that are not there, if a script runs; it says whether one does.
pub(crate) fn lists(lua: &Lua, shared: &Rc<Shared>, globals: &Table) -> Result<Function> {
    closure(lua, shared, make, upvalues(lua, globals)?)
}

unsafe extern "C-unwind" fn make(state: *mut lua_State) -> c_int {
    // SAFETY: Lua runs it as the function of `lists`. A script runs while `Shared::input` is set, which points into the frame
    // that runs it. This frame owns nothing.
    unsafe {
        let shared = closure::shared(state);
        let input = shared.input.get();
        if !input.is_null() {
            let absent = shared.set_globals.get().others();
            set(state, shared, &Meter::default(), &*input, absent);
        }
        ffi::lua_pushboolean(state, c_int::from(!input.is_null()));
    }
    1
}

/// Prepares the globals for a script whose text names these of them. The others are not there. Raising.
///
/// # Safety
/// A function runs whose first own values are [`upvalues`], and the stack has room for five values.
pub(super) unsafe fn begin(
    state: *mut lua_State,
    shared: &Shared,
    meter: &Meter,
    input: &ScriptInput<'_>,
    named: NamedGlobals,
) {
    let set_before = shared.set_globals.get();
    let stale = set_before.both(named.others());
    // SAFETY: the caller's.
    unsafe {
        for (name, which) in NAMES {
            if stale.has(which) {
                ffi::lua_pushvalue(state, name);
                ffi::lua_pushnil(state);
                ffi::lua_rawset(state, GLOBALS);
            }
        }
        shared.set_globals.set(set_before.both(named));
        set(state, shared, meter, input, named);
    }
}

/// Sets these globals. Raising.
///
/// # Safety
/// As for [`begin`].
unsafe fn set(state: *mut lua_State, shared: &Shared, meter: &Meter, input: &ScriptInput<'_>, named: NamedGlobals) {
    // SAFETY: the caller's.
    unsafe {
        for ((name, which), texts) in NAMES.into_iter().zip([input.keys, input.argv]) {
            if named.has(which) {
                ffi::lua_pushvalue(state, name);
                push_list(state, shared, meter, texts);
                ffi::lua_rawset(state, GLOBALS);
                shared.set_globals.set(shared.set_globals.get().and(which));
            }
        }
    }
}
