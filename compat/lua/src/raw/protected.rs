//! `pcall` and `xpcall` of Lua's base library, with room for the value that they put before the results.
//!
//! Lua 5.1 has a function's results fill the room of a call, and then puts one value more there. That lies within the reserve of
//! its stack, but a build of Lua that checks its interface ends the process. Lua 5.2 asks for the room first, as these do. Found by
//! the fuzz target `lua`.

use mlua::ffi;
use mlua::{Lua, Result, lua_State};
use std::ffi::c_int;

/// Puts both functions in place of the base library's.
pub(crate) fn protect(lua: &Lua) -> Result<()> {
    let globals = lua.globals();
    // SAFETY: each keeps to the rules of a function of C: it raises nothing but Lua's errors, and its frame owns nothing.
    let (pcall, xpcall) = unsafe { (lua.create_c_function(pcall)?, lua.create_c_function(xpcall)?) };
    globals.raw_set("pcall", pcall)?;
    globals.raw_set("xpcall", xpcall)
}

unsafe extern "C-unwind" fn pcall(state: *mut lua_State) -> c_int {
    // SAFETY: Lua calls it with its own state. The frame owns nothing that an error would leave behind.
    unsafe {
        ffi::luaL_checkany(state, 1);
        let status = ffi::lua_pcall(state, ffi::lua_gettop(state) - 1, ffi::LUA_MULTRET, 0);
        ffi::luaL_checkstack_(state, 1, NO_ROOM.as_ptr());
        ffi::lua_pushboolean(state, c_int::from(status == ffi::LUA_OK));
        ffi::lua_insert(state, 1);
        ffi::lua_gettop(state)
    }
}

unsafe extern "C-unwind" fn xpcall(state: *mut lua_State) -> c_int {
    // SAFETY: as in `pcall`.
    unsafe {
        ffi::luaL_checkany(state, 2);
        ffi::lua_settop(state, 2);
        // The handler goes under the function.
        ffi::lua_insert(state, 1);
        let status = ffi::lua_pcall(state, 0, ffi::LUA_MULTRET, 1);
        ffi::luaL_checkstack_(state, 1, NO_ROOM.as_ptr());
        ffi::lua_pushboolean(state, c_int::from(status == ffi::LUA_OK));
        ffi::lua_replace(state, 1);
        ffi::lua_gettop(state)
    }
}

/// The rest of the error where a function returns as many values as a call may have: some 8000.
const NO_ROOM: &std::ffi::CStr = c"too many results";
