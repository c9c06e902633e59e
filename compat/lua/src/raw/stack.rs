//! Small steps on Lua's stack.

use crate::shared::Shared;
use mlua::ffi;
use mlua::lua_State;
use std::ffi::{c_char, c_int};

use super::closure::{NO_MEMORY, TICK};
use crate::tick::Meter;
use crate::values::VALUE_BYTES;

/// Pushes a string. Raising.
///
/// # Safety
/// The stack has room for a value.
pub(super) unsafe fn push_text(state: *mut lua_State, text: &[u8]) {
    // SAFETY: the caller's; Lua copies the bytes.
    unsafe { ffi::lua_pushlstring_(state, text.as_ptr().cast::<c_char>(), text.len()) }
}

/// The bytes of the string at `at`.
///
/// # Safety
/// There is a string, and it is on the stack as long as the bytes are used.
pub(super) unsafe fn text<'t>(state: *mut lua_State, at: c_int) -> &'t [u8] {
    let mut len = 0;
    // SAFETY: the caller's. For a string, nothing is converted: the pointer is that of its own bytes, which end with a zero.
    unsafe {
        let bytes = ffi::lua_tolstring(state, at, &raw mut len);
        std::slice::from_raw_parts(bytes.cast::<u8>(), len)
    }
}

/// The type of the field of the table at `at` whose name is the upvalue `name`. The field is pushed.
///
/// # Safety
/// There is a table, and the stack has room for a value.
pub(super) unsafe fn push_field(state: *mut lua_State, at: c_int, name: c_int) -> c_int {
    // SAFETY: the caller's. A look at a table without metamethods raises nothing.
    unsafe {
        ffi::lua_pushvalue(state, name);
        ffi::lua_rawget_(state, at);
        ffi::lua_type(state, -1)
    }
}

/// Ends the script if its state has no room for a value of this many bytes. Raising.
///
/// # Safety
/// A function of this module runs, and the stack has room for a value.
pub(super) unsafe fn admit(state: *mut lua_State, shared: &Shared, bytes: usize) {
    let limit = shared.settings.memory_bytes_max;
    // SAFETY: the caller's. To count raises nothing.
    let used = unsafe { ffi::lua_gc(state, ffi::LUA_GCCOUNT, 0) } as usize * 1024;
    if limit > 0 && used.saturating_add(bytes).saturating_add(VALUE_BYTES) > limit {
        // SAFETY: the caller's.
        unsafe { no_memory(state) }
    }
}

/// Ends the script for want of memory. Raising.
///
/// # Safety
/// A function of this module runs, and the stack has room for a value.
#[cold]
pub(super) unsafe fn no_memory(state: *mut lua_State) {
    // SAFETY: the caller's; the upvalue is a function that raises.
    unsafe {
        ffi::lua_pushvalue(state, NO_MEMORY);
        ffi::lua_call(state, 0, 0);
    }
}

/// Counts units of work, and asks the host at times whether the script goes on. Raising.
///
/// # Safety
/// A function of this module runs, and the stack has room for a value.
#[inline]
pub(super) unsafe fn spend(state: *mut lua_State, meter: &Meter, units: usize) {
    if meter.is_due(units) {
        // SAFETY: the caller's; the upvalue is the tick's function.
        unsafe {
            ffi::lua_pushvalue(state, TICK);
            ffi::lua_call(state, 0, 0);
        }
    }
}

/// Makes room on the stack for this many values; ends the script if there is none. Raising.
///
/// # Safety
/// A function of this module runs.
pub(super) unsafe fn make_room(state: *mut lua_State, values: c_int) {
    // SAFETY: the caller's. Where a stack cannot grow, the frame's reserve of values is not used up: `no_memory` takes one.
    unsafe {
        if ffi::lua_checkstack(state, values) == 0 {
            no_memory(state);
        }
    }
}
