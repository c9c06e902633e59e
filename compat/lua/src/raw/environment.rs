//! `setfenv`, where `lua-enable-deprecated-api` is on. In redis-server all functions of the libraries are C, whose environment
//! nobody changes; some of ours are written in Lua (`sandbox/prelude.lua`), and are refused here.

use crate::fault::PRELUDE;
use crate::shared::Shared;
use mlua::ffi;
use mlua::{Function, Lua, Result, Value, lua_State};
use std::ffi::{CStr, c_int};
use std::mem::MaybeUninit;
use std::rc::Rc;

use super::closure::{OWN, closure};
use super::stack::push_text;

/// The upvalue that is Lua's own function.
const NATIVE: c_int = OWN;
const REFUSED: &[u8] = b"'setfenv' cannot change environment of given object";

/// A function in place of `native`, which is Lua's `setfenv`.
pub(crate) fn set_environment(lua: &Lua, shared: &Rc<Shared>, native: Function) -> Result<Function> {
    closure(lua, shared, set, vec![Value::Function(native)])
}

unsafe extern "C-unwind" fn set(state: *mut lua_State) -> c_int {
    // SAFETY: Lua runs it as a function of `closure`, with room for 20 values beyond its arguments; this frame owns nothing. Lua's
    // function is one of C without upvalues: run in this frame, it counts levels and names itself as if it had been called.
    unsafe {
        if is_ours(state) {
            ffi::luaL_where(state, 1);
            push_text(state, REFUSED);
            ffi::lua_concat(state, 2);
            ffi::lua_error(state);
        }
        match ffi::lua_tocfunction(state, NATIVE) {
            Some(native) => native(state),
            None => 0,
        }
    }
}

/// True if the first argument is a function of the prelude, or the level of one.
///
/// # Safety
/// `set` runs.
unsafe fn is_ours(state: *mut lua_State) -> bool {
    let mut about = MaybeUninit::<ffi::lua_Debug>::zeroed();
    let place = about.as_mut_ptr();
    // SAFETY: the caller's. Lua fills in what is asked for, here the source, whose text the function keeps; a level that there is not
    // is left to Lua's function, which complains. The structure has numbers and pointers only: zeros are values of it.
    unsafe {
        if ffi::lua_type(state, 1) == ffi::LUA_TFUNCTION {
            ffi::lua_pushvalue(state, 1);
            ffi::lua_getinfo(state, c">S".as_ptr(), place);
        } else {
            let level = ffi::lua_tonumber(state, 1);
            let found = level >= 1.0 && ffi::lua_getstack(state, level as c_int, place) != 0;
            if !found || ffi::lua_getinfo(state, c"S".as_ptr(), place) == 0 {
                return false;
            }
        }
        let source = (*place).source;
        !source.is_null() && CStr::from_ptr(source).to_bytes() == PRELUDE.as_bytes()
    }
}
