//! From Lua to Redis: the value that a script returns becomes its reply.
//!
//! A table with one of the fields `err`, `ok`, `double`, `big_number`, `verbatim_string`, `map` or `set` is that kind of
//! reply, the first of them in this order; any other is an array up to its first nil. Metamethods are not asked.
//!
//! ```text
//!   Lua's stack   [table] [table] [map, key, value]  value  <- the value that is written next
//!   levels         array   array   map                      one for each table that is open; nothing recurses
//! ```
//! Tables may lie as deep in each other as redis-server's stack of Lua goes: values that lie deeper are errors, in their places.
//!
//! All of it is raising: the frames own nothing.

use crate::errors::{TOO_DEEP, without_last_line_ends};
use crate::nesting::has_room;
use crate::shared::Shared;
use crate::tick::{Meter, VALUE_UNITS};
use mlua::ffi;
use mlua::lua_State;
use smallvec::SmallVec;
use std::ffi::c_int;
use varve_protocol::{Deferred, Reply, Resp};

use super::closure::{BIG_NUMBER, COUNTED, DOUBLE, ERR, FORMAT, MAP, OK, SET, STRING, VERBATIM};
use super::stack::{make_room, push_field, spend, text};
use super::{owns_nothing, settled};

/// Values that redis-server has there before it writes: a handler of errors, and the script's value.
const SLOTS_FIRST: c_int = 2;
/// Values for which there is room above the one that is written: those of a pair, of a verbatim string, of a look at a field.
const ROOM: c_int = 4;
/// Open tables whose length is put before their values once these are written. Those that lie deeper are counted before, so
/// that a long reply is not moved once for each of thousands of tables.
const DEFERRED_MOST: usize = 8;

/// The tables that are open, the outermost one first.
pub(super) type Levels = SmallVec<[Level; 4]>;

/// Writes one reply.
pub(super) struct Writer<'w> {
    pub(super) state: *mut lua_State,
    /// Its host is told of errors among the values.
    pub(super) shared: &'w Shared,
    pub(super) out: &'w mut Reply,
    pub(super) levels: &'w mut Levels,
    pub(super) meter: Meter,
}

/// A table whose values are being written. It stands on Lua's stack; above it is the key that was written last, of a map and a set.
pub(super) struct Level {
    kind: Kind,
    /// Its place on Lua's stack.
    at: c_int,
    head: Head,
    /// Elements, pairs or members that are written.
    len: usize,
    /// Values that redis-server's stack has up to the table.
    slots: c_int,
    /// A pair's key is written, and its value is on top of the stack.
    in_pair: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Array,
    Map,
    Set,
}

/// The length of a table.
enum Head {
    /// It is put here at the end.
    Deferred(Deferred),
    /// It is written.
    Written(usize),
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
    /// Writes the value on top of the stack, and takes it away. A reply over its ceiling is left in the middle.
    ///
    /// # Safety
    /// A function of `closure` runs. Each of the writer's functions takes this for granted.
    pub(super) unsafe fn reply(&mut self) {
        const { owns_nothing::<Writer<'_>>() };
        const { owns_nothing::<Level>() };
        debug_assert!(self.levels.is_empty(), "one reply at a time");
        // SAFETY: the caller's.
        unsafe {
            self.value(SLOTS_FIRST);
            while let Some(level) = self.levels.pop() {
                // A reply over its ceiling is an error in the end. A table that holds itself many times has no end of its own.
                if self.out.is_overflown() {
                    return;
                }
                match level.kind {
                    Kind::Array => self.elements(level),
                    Kind::Map | Kind::Set => self.pairs(level),
                }
            }
        }
    }

    /// Writes the value on top of the stack and takes it away; a table that has values of its own is opened, and stays.
    ///
    /// # Safety
    /// The caller keeps what `reply` asks for.
    unsafe fn value(&mut self, slots: c_int) {
        let state = self.state;
        // SAFETY: the caller's. Numbers are not converted in place: a key that is one is still the key.
        unsafe {
            if !has_room(slots as usize, ROOM as usize) {
                self.error(Raised { text: TOO_DEEP, counted: false });
                return ffi::lua_settop(state, -2);
            }
            make_room(state, ROOM);
            spend(state, &self.meter, VALUE_UNITS);
            match ffi::lua_type(state, -1) {
                ffi::LUA_TSTRING => self.out.bulk(text(state, -1)),
                ffi::LUA_TNUMBER => self.out.integer(to_integer(ffi::lua_tonumber(state, -1))),
                ffi::LUA_TBOOLEAN => match (self.shared.resp.get(), ffi::lua_toboolean(state, -1) != 0) {
                    (Resp::V3, value) => self.out.boolean(value),
                    (Resp::V2, true) => self.out.integer(1),
                    (Resp::V2, false) => self.out.null(),
                },
                ffi::LUA_TTABLE => return self.table(slots),
                _ => self.out.null(),
            }
            ffi::lua_settop(state, -2);
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

    /// Writes the table on top of the stack and takes it away, or opens it.
    ///
    /// # Safety
    /// The caller keeps what `reply` asks for.
    unsafe fn table(&mut self, slots: c_int) {
        let state = self.state;
        // SAFETY: the caller's. There is room for `ROOM` values.
        unsafe {
            let at = ffi::lua_gettop(state);
            if self.simple(at) {
                return ffi::lua_settop(state, at - 1);
            }
            for (name, kind) in [(MAP, Kind::Map), (SET, Kind::Set)] {
                if push_field(state, at, name) == ffi::LUA_TTABLE {
                    // It takes the place of the table that it is a field of.
                    ffi::lua_replace(state, at);
                    return self.open(kind, at, slots);
                }
                ffi::lua_settop(state, at);
            }
            self.open(Kind::Array, at, slots);
        }
    }

    /// Writes the table at `at`, on top of the stack, if it stands for one value; true if it does. What it pushes stays on the stack
    /// then.
    ///
    /// # Safety
    /// The caller keeps what `reply` asks for.
    unsafe fn simple(&mut self, at: c_int) -> bool {
        let state = self.state;
        // SAFETY: the caller's. Each text is used while it is on the stack.
        unsafe {
            if let Some(error) = error_of(state, at) {
                self.error(error);
                return true;
            }
            if push_field(state, at, OK) == ffi::LUA_TSTRING {
                self.status(before_zero(text(state, -1)));
                return true;
            }
            ffi::lua_settop(state, at);
            if push_field(state, at, DOUBLE) == ffi::LUA_TNUMBER {
                self.out.double(ffi::lua_tonumber(state, -1));
                return true;
            }
            ffi::lua_settop(state, at);
            if push_field(state, at, BIG_NUMBER) == ffi::LUA_TSTRING {
                let digits = text(state, -1);
                settled(|| self.out.big_number(&one_line(digits)));
                return true;
            }
            ffi::lua_settop(state, at);
            if push_field(state, at, VERBATIM) == ffi::LUA_TTABLE && self.verbatim() {
                return true;
            }
            ffi::lua_settop(state, at);
            false
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
    /// The caller keeps what `reply` asks for.
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

    /// Begins the table at `at`, on top of the stack.
    ///
    /// # Safety
    /// The caller keeps what `reply` asks for.
    unsafe fn open(&mut self, kind: Kind, at: c_int, slots: c_int) {
        // SAFETY: the caller's; there is room for a key.
        unsafe {
            let head = if self.levels.len() < DEFERRED_MOST {
                Head::Deferred(self.out.defer())
            } else {
                let len = if kind == Kind::Array { self.count_elements(at) } else { self.count_pairs(at) };
                match kind {
                    Kind::Array => self.out.array(len),
                    Kind::Map => self.out.map(len),
                    Kind::Set => self.out.set(len),
                }
                Head::Written(len)
            };
            if kind != Kind::Array {
                ffi::lua_pushnil(self.state);
            }
            self.keep(Level { kind, at, head, len: 0, slots, in_pair: false });
        }
    }

    /// Goes on with this table later, when the one on top of the stack is written.
    fn keep(&mut self, level: Level) {
        settled(|| self.levels.push(level));
    }

    /// # Safety
    /// The caller keeps what `reply` asks for.
    unsafe fn count_elements(&mut self, at: c_int) -> usize {
        let (state, mut len) = (self.state, 0);
        // SAFETY: the caller's; there is room for the element, and for asking the host.
        unsafe {
            loop {
                ffi::lua_rawgeti_(state, at, c_int::try_from(len + 1).unwrap_or(c_int::MAX));
                let ends = ffi::lua_type(state, -1) == ffi::LUA_TNIL;
                ffi::lua_settop(state, at);
                if ends {
                    return len;
                }
                len += 1;
                spend(state, &self.meter, 1);
            }
        }
    }

    /// # Safety
    /// The caller keeps what `reply` asks for.
    unsafe fn count_pairs(&mut self, at: c_int) -> usize {
        let (state, mut len) = (self.state, 0);
        // SAFETY: the caller's; there is room for key and value, and for asking the host. The key is one of the table's own.
        unsafe {
            ffi::lua_pushnil(state);
            while ffi::lua_next(state, at) != 0 {
                ffi::lua_settop(state, at + 1);
                len += 1;
                spend(state, &self.meter, 1);
            }
        }
        len
    }

    /// Writes elements of an array up to the next one that is a table, or to the end.
    ///
    /// # Safety
    /// The caller keeps what `reply` asks for; the table is on top of the stack.
    unsafe fn elements(&mut self, mut level: Level) {
        let state = self.state;
        // SAFETY: the caller's; there is room for the element.
        unsafe {
            loop {
                ffi::lua_rawgeti_(state, level.at, c_int::try_from(level.len + 1).unwrap_or(c_int::MAX));
                let kind = ffi::lua_type(state, -1);
                let ends = match level.head {
                    Head::Deferred(_) => kind == ffi::LUA_TNIL,
                    Head::Written(len) => level.len == len,
                };
                if ends || self.out.is_overflown() {
                    return self.end(level);
                }
                level.len += 1;
                let slots = level.slots + 1;
                if kind == ffi::LUA_TTABLE {
                    self.keep(level);
                    return self.value(slots);
                }
                self.value(slots);
            }
        }
    }

    /// Writes pairs of a map, or members of a set, up to the next table among their values, or to the end.
    ///
    /// # Safety
    /// The caller keeps what `reply` asks for; the key that was written last, or nil, is on top of the stack, or the value of a pair.
    unsafe fn pairs(&mut self, mut level: Level) {
        let state = self.state;
        // SAFETY: the caller's; there is room for key, value and the key once more. The key is one of the table's own.
        unsafe {
            loop {
                if level.in_pair {
                    level.in_pair = false;
                } else {
                    let is_written = matches!(level.head, Head::Written(len) if level.len == len);
                    if is_written || self.out.is_overflown() || ffi::lua_next(state, level.at) == 0 {
                        return self.end(level);
                    }
                    level.len += 1;
                    level.in_pair = level.kind == Kind::Map;
                    if !level.in_pair {
                        ffi::lua_settop(state, level.at + 1);
                    }
                    ffi::lua_pushvalue(state, level.at + 1);
                }
                // Beside these, redis-server's stack has the table that the map is a field of.
                let slots = level.slots + 1 + ffi::lua_gettop(state) - level.at;
                if ffi::lua_type(state, -1) == ffi::LUA_TTABLE {
                    self.keep(level);
                    return self.value(slots);
                }
                self.value(slots);
            }
        }
    }

    /// Ends a table and takes it away, with all above it. One that a finalizer of the script's has made shorter since it was
    /// counted has nulls at its end.
    ///
    /// # Safety
    /// The caller keeps what `reply` asks for.
    unsafe fn end(&mut self, level: Level) {
        let Level { kind, at, head, len, .. } = level;
        // SAFETY: the caller's.
        unsafe { ffi::lua_settop(self.state, at - 1) }
        match (head, kind) {
            (Head::Deferred(from), Kind::Array) => self.out.end_array(from, len),
            (Head::Deferred(from), Kind::Map) => self.out.end_map(from, len),
            (Head::Deferred(from), Kind::Set) => self.out.end_set(from, len),
            (Head::Written(counted), kind) => {
                let values = if kind == Kind::Map { 2 } else { 1 };
                (0..values * counted.saturating_sub(len)).for_each(|_| self.out.null());
            }
        }
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
