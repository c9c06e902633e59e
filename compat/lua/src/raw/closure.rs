//! How functions on Lua's stack are made: each has the values at hand that it needs, its upvalues.

use crate::fault::Fault;
use crate::shared::Shared;
use crate::tick::tick;
use mlua::ffi;
use mlua::{Function, IntoLua, LightUserData, Lua, MultiValue, Result, Value, lua_CFunction, lua_State};
use std::ffi::c_int;
use std::rc::Rc;

/// The upvalues of all functions of this module, by their places.
pub(super) const SHARED: c_int = ffi::lua_upvalueindex(1);
/// A function that asks the host whether the script goes on.
pub(super) const TICK: c_int = ffi::lua_upvalueindex(2);
/// A function that ends the script for want of memory.
pub(super) const NO_MEMORY: c_int = ffi::lua_upvalueindex(3);
/// Names of fields. A string that is at hand need not be looked up.
pub(super) const OK: c_int = ffi::lua_upvalueindex(4);
pub(super) const ERR: c_int = ffi::lua_upvalueindex(5);
pub(super) const COUNTED: c_int = ffi::lua_upvalueindex(6);
pub(super) const DOUBLE: c_int = ffi::lua_upvalueindex(7);
pub(super) const MAP: c_int = ffi::lua_upvalueindex(8);
pub(super) const SET: c_int = ffi::lua_upvalueindex(9);
pub(super) const BIG_NUMBER: c_int = ffi::lua_upvalueindex(10);
pub(super) const VERBATIM: c_int = ffi::lua_upvalueindex(11);
pub(super) const FORMAT: c_int = ffi::lua_upvalueindex(12);
pub(super) const STRING: c_int = ffi::lua_upvalueindex(13);
/// The first upvalue that is one function's own.
pub(super) const OWN: c_int = ffi::lua_upvalueindex(14);

const NAMES: [&str; 10] = [
    "ok",
    "err",
    "ignore_error_stats_update",
    "double",
    "map",
    "set",
    "big_number",
    "verbatim_string",
    "format",
    "string",
];

/// A function with the common upvalues and these of its own. It must not outlive `shared`, which it does not count.
pub(super) fn closure(lua: &Lua, shared: &Rc<Shared>, function: lua_CFunction, own: Vec<Value>) -> Result<Function> {
    let pointer = LightUserData(Rc::as_ptr(shared).cast_mut().cast());
    let ours = Rc::clone(shared);
    let tick = lua.create_function(move |lua, ()| tick(lua, &ours))?;
    let no_memory = lua.create_function(|_, ()| Err::<(), _>(Fault::no_memory()))?;
    let mut values = MultiValue::new();
    values.extend([Value::LightUserData(pointer), Value::Function(tick), Value::Function(no_memory)]);
    for name in NAMES {
        values.push_back(name.into_lua(lua)?);
    }
    values.extend(own);
    // SAFETY: the values are on the stack, and the closure takes them off it; nothing in this frame is owned.
    unsafe { lua.exec_raw(values, move |state| ffi::lua_pushcclosure(state, function, ffi::lua_gettop(state))) }
}

/// The things that the functions of a state share.
///
/// # Safety
/// A function of [`closure`] runs.
pub(super) unsafe fn shared<'s>(state: *mut lua_State) -> &'s Shared {
    // SAFETY: the upvalue is the pointer that `closure` gave. The state goes before what it shares: `Inside` lists it first.
    unsafe { &*ffi::lua_touserdata(state, SHARED).cast::<Shared>() }
}
