//! From Lua to Redis: the value that a script returns becomes its reply.
//!
//! A table with one of the fields `err`, `ok`, `double`, `big_number`, `verbatim_string`, `map` or `set` is that kind of
//! reply, the first of them in this order; any other is an array up to its first nil. Metamethods are not asked.
//!
//! All of it is raising: the frames own nothing.

use crate::errors::{TOO_DEEP, without_last_line_ends};
use crate::shared::Shared;
use crate::tick::{Meter, VALUE_UNITS};
use mlua::ffi;
use mlua::lua_State;
use std::ffi::c_int;
use varve_protocol::{Reply, Resp};

use super::closure::{BIG_NUMBER, COUNTED, DOUBLE, ERR, FORMAT, MAP, OK, SET, STRING, VERBATIM};
use super::stack::{make_room, push_field, spend, text};
use super::{owns_nothing, settled};

/// Tables within each other that a reply may have.
const DEPTH_MAX: usize = 1000;
/// Values that a level of a reply has on the stack: key, value, what is looked up, and one to ask the host.
const LEVEL: c_int = 6;

/// Writes one reply.
pub(super) struct Writer<'w> {
    pub(super) state: *mut lua_State,
    /// Its host is told of errors among the values.
    pub(super) shared: &'w Shared,
    pub(super) out: &'w mut Reply,
    pub(super) meter: Meter,
}

/// An error that a table stands for.
#[derive(Clone, Copy)]
pub(super) struct Raised<'t> {
    /// Code and text.
    pub(super) text: &'t [u8],
    /// A command that the script called has replied it.
    pub(super) counted: bool,
}

/// The error that the value at `at` is, if it is one. Its text is on the stack, above the value, until that is taken away.
///
/// # Safety
/// A function of `closure` runs, and the stack has room for two values.
pub(super) unsafe fn error_of<'t>(state: *mut lua_State, at: c_int) -> Option<Raised<'t>> {
    // SAFETY: the caller's.
    unsafe {
        if ffi::lua_type(state, at) != ffi::LUA_TTABLE {
            return None;
        }
        if push_field(state, at, ERR) != ffi::LUA_TSTRING {
            ffi::lua_settop(state, -2);
            return None;
        }
        let text = before_zero(text(state, -1));
        let counted = push_field(state, at, COUNTED) == ffi::LUA_TBOOLEAN && ffi::lua_toboolean(state, -1) != 0;
        ffi::lua_settop(state, -2);
        Some(Raised { text, counted })
    }
}

impl Writer<'_> {
    /// Writes the value at `at`, an index from the bottom of the stack, `depth` tables deep. The stack is left as it was.
    ///
    /// # Safety
    /// A function of `closure` runs. Each of the writer's functions takes this for granted.
    pub(super) unsafe fn value(&mut self, at: c_int, depth: usize) {
        const { owns_nothing::<Writer<'_>>() };
        // A reply over its ceiling is an error in the end. A table that holds itself many times has no end of its own.
        if self.out.is_overflown() {
            return;
        }
        let state = self.state;
        // SAFETY: the caller's. Numbers are not converted in place: a key that is one is still the key.
        unsafe {
            make_room(state, LEVEL);
            spend(state, &self.meter, VALUE_UNITS);
            match ffi::lua_type(state, at) {
                ffi::LUA_TSTRING => self.out.bulk(text(state, at)),
                ffi::LUA_TNUMBER => self.out.integer(to_integer(ffi::lua_tonumber(state, at))),
                ffi::LUA_TBOOLEAN => match (self.shared.resp.get(), ffi::lua_toboolean(state, at) != 0) {
                    (Resp::V3, value) => self.out.boolean(value),
                    (Resp::V2, true) => self.out.integer(1),
                    (Resp::V2, false) => self.out.null(),
                },
                ffi::LUA_TTABLE if depth >= DEPTH_MAX => self.error(Raised { text: TOO_DEEP, counted: false }),
                ffi::LUA_TTABLE => {
                    let top = ffi::lua_gettop(state);
                    self.table(at, depth);
                    ffi::lua_settop(state, top);
                }
                _ => self.out.null(),
            }
        }
    }

    fn error(&mut self, error: Raised<'_>) {
        let Raised { text, counted } = error;
        let text = without_last_line_ends(text);
        settled(|| {
            self.out.error_bytes(text);
            self.shared.host.with(|host| host.note_reply_error(text, counted));
        });
    }

    /// Writes a table. What it pushes stays on the stack.
    ///
    /// # Safety
    /// The caller keeps what `value` asks for.
    unsafe fn table(&mut self, at: c_int, depth: usize) {
        let state = self.state;
        // SAFETY: the caller's. Each text is used while it is on the stack.
        unsafe {
            if let Some(error) = error_of(state, at) {
                return self.error(error);
            }
            if push_field(state, at, OK) == ffi::LUA_TSTRING {
                return self.status(before_zero(text(state, -1)));
            }
            ffi::lua_settop(state, -2);
            if push_field(state, at, DOUBLE) == ffi::LUA_TNUMBER {
                return self.out.double(ffi::lua_tonumber(state, -1));
            }
            ffi::lua_settop(state, -2);
            if push_field(state, at, BIG_NUMBER) == ffi::LUA_TSTRING {
                let digits = text(state, -1);
                return settled(|| self.out.big_number(&one_line(digits)));
            }
            ffi::lua_settop(state, -2);
            if push_field(state, at, VERBATIM) == ffi::LUA_TTABLE && self.verbatim() {
                return;
            }
            ffi::lua_settop(state, -2);
            if push_field(state, at, MAP) == ffi::LUA_TTABLE {
                return self.pairs(depth, true);
            }
            ffi::lua_settop(state, -2);
            if push_field(state, at, SET) == ffi::LUA_TTABLE {
                return self.pairs(depth, false);
            }
            ffi::lua_settop(state, -2);
            self.array(at, depth);
        }
    }

    fn status(&mut self, text: &[u8]) {
        if text.iter().any(|byte| is_line_end(*byte)) {
            settled(|| self.out.simple_bytes(&one_line(text)));
        } else {
            self.out.simple_bytes(text);
        }
    }

    /// Writes the verbatim string of the table on top of the stack; false if it has not both parts. Leaves the table on top.
    ///
    /// # Safety
    /// The caller keeps what `value` asks for.
    unsafe fn verbatim(&mut self) -> bool {
        let state = self.state;
        // SAFETY: the caller's. Both texts are on the stack.
        unsafe {
            let parts = ffi::lua_gettop(state);
            let both = push_field(state, parts, FORMAT) == ffi::LUA_TSTRING
                && push_field(state, parts, STRING) == ffi::LUA_TSTRING;
            if both {
                let (format, text) = (text(state, -2), text(state, -1));
                settled(|| self.out.verbatim(three_letters(format), text));
            }
            ffi::lua_settop(state, parts);
            both
        }
    }

    /// Writes the table on top of the stack as a map, or its keys as a set.
    ///
    /// # Safety
    /// The caller keeps what `value` asks for.
    unsafe fn pairs(&mut self, depth: usize, is_map: bool) {
        let state = self.state;
        let (from, mut len) = (self.out.defer(), 0);
        // SAFETY: the caller's. The key is one of the table's own.
        unsafe {
            let table = ffi::lua_gettop(state);
            ffi::lua_pushnil(state);
            while ffi::lua_next(state, table) != 0 {
                self.value(table + 1, depth + 1);
                if is_map {
                    self.value(table + 2, depth + 1);
                }
                ffi::lua_settop(state, table + 1);
                len += 1;
            }
        }
        if is_map { self.out.end_map(from, len) } else { self.out.end_set(from, len) }
    }

    /// # Safety
    /// The caller keeps what `value` asks for.
    unsafe fn array(&mut self, at: c_int, depth: usize) {
        let state = self.state;
        let (from, mut len) = (self.out.defer(), 0);
        // SAFETY: the caller's.
        unsafe {
            let element = ffi::lua_gettop(state) + 1;
            loop {
                ffi::lua_rawgeti_(state, at, len + 1);
                if ffi::lua_type(state, element) == ffi::LUA_TNIL {
                    break;
                }
                self.value(element, depth + 1);
                ffi::lua_settop(state, element - 1);
                len += 1;
            }
        }
        self.out.end_array(from, len as usize);
    }
}

/// A text up to its first zero byte, where redis-server takes it for a string of C.
fn before_zero(text: &[u8]) -> &[u8] {
    text.split(|byte| *byte == 0).next().unwrap_or_default()
}

fn is_line_end(byte: u8) -> bool {
    matches!(byte, b'\r' | b'\n')
}

/// A text without line ends, which would be read as protocol.
fn one_line(text: &[u8]) -> Vec<u8> {
    text.iter().map(|byte| if is_line_end(*byte) { b' ' } else { *byte }).collect()
}

/// The format of a verbatim string, which has three letters: what a script gives is cut, or followed by spaces.
fn three_letters(format: &[u8]) -> [u8; 3] {
    let given = one_line(before_zero(format));
    std::array::from_fn(|i| given.get(i).copied().unwrap_or(b' '))
}

/// The integer that C's conversion gives on the machines that run Redis: what does not fit is the least integer.
fn to_integer(n: f64) -> i64 {
    const BOUND: f64 = 9_223_372_036_854_775_808.0;
    if (-BOUND..BOUND).contains(&n) { n as i64 } else { i64::MIN }
}
