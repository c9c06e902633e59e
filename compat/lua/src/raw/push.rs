//! From Redis to Lua: a reply becomes a value, keys and arguments become tables.
//!
//! ```text
//!  +text   {ok = text}      $-1, *-1  false        RESP3:  %  {map = {..}}      ,  {double = n}
//!  -text   {err = text}     $         string               ~  {set = {k=true}}  (  {big_number = digits}
//!  :n      number           *         list                 #  true, false       =  {verbatim_string = {format, string}}
//!                                                          _  nil
//! ```
//! All of it is raising: the frames own nothing.

use crate::shared::Shared;
use crate::tick::{Meter, VALUE_UNITS};
use crate::values::{double, error_parts, integer};
use mlua::ffi;
use mlua::lua_State;
use std::ffi::c_int;

use super::closure::{self, BIG_NUMBER, COUNTED, DOUBLE, ERR, FORMAT, MAP, OK, SET, STRING, VERBATIM};
use super::owns_nothing;
use super::stack::{admit, make_room, no_memory, push_text, spend};

/// Values that a level of a reply has on the stack, and one to ask the host.
const LEVEL: c_int = 6;

/// The bytes that become a value.
#[derive(Clone, Copy)]
pub(super) enum Source {
    /// A reply in either version of the protocol.
    Reply(*const [u8]),
    /// An error without its `-`, code included.
    Error {
        text: *const [u8],
        /// A command has replied it, which has counted it.
        counted: bool,
    },
    /// It is longer than the state's memory.
    TooLong,
}

/// Reads the [`Source`] to which its one argument points.
pub(super) unsafe extern "C-unwind" fn read(state: *mut lua_State) -> c_int {
    // SAFETY: `command` calls it with a pointer into its frame, which stays until this returns.
    unsafe {
        let shared = closure::shared(state);
        match *ffi::lua_touserdata(state, 1).cast::<Source>() {
            Source::Reply(bytes) => Reader { state, shared, rest: &*bytes, meter: Meter::default() }.value(),
            Source::Error { text, counted } => {
                admit(state, shared, text.len());
                push_error(state, &*text, counted);
            }
            Source::TooLong => no_memory(state),
        }
    }
    1
}

/// Pushes a list of strings: KEYS and ARGV.
///
/// # Safety
/// A function of [`closure`](closure::closure) runs.
pub(super) unsafe fn push_list(state: *mut lua_State, shared: &Shared, meter: &Meter, texts: &[&[u8]]) {
    // SAFETY: the caller's; a list takes three values.
    unsafe {
        ffi::lua_createtable(state, capacity(texts.len()), 0);
        for (i, text) in (1..).zip(texts) {
            admit(state, shared, text.len());
            spend(state, meter, VALUE_UNITS);
            push_text(state, text);
            ffi::lua_rawseti_(state, -2, i);
        }
    }
}

/// Pushes `{err = text}`, with the mark of an error that is counted already.
///
/// # Safety
/// A function of [`closure`](closure::closure) runs.
unsafe fn push_error(state: *mut lua_State, text: &[u8], counted: bool) {
    let (code, message) = error_parts(text);
    // SAFETY: the caller's; an error takes four values.
    unsafe {
        ffi::lua_createtable(state, 0, 2);
        ffi::lua_pushvalue(state, ERR);
        push_text(state, code);
        push_text(state, message);
        ffi::lua_concat(state, 2);
        ffi::lua_rawset(state, -3);
        if counted {
            ffi::lua_pushvalue(state, COUNTED);
            ffi::lua_pushboolean(state, 1);
            ffi::lua_rawset(state, -3);
        }
    }
}

/// The number of elements for which a table has room when it is made.
fn capacity(len: usize) -> c_int {
    c_int::try_from(len).unwrap_or(c_int::MAX)
}

/// Reads one reply.
struct Reader<'r> {
    state: *mut lua_State,
    shared: &'r Shared,
    rest: &'r [u8],
    meter: Meter,
}

impl<'r> Reader<'r> {
    /// Pushes the next value. An error is a table here; whoever asked decides if it is raised.
    ///
    /// # Safety
    /// `read` runs, and a whole reply lies behind the reader. Each of the reader's functions takes this for granted.
    unsafe fn value(&mut self) {
        const { owns_nothing::<Reader<'_>>() };
        let state = self.state;
        let line = self.line();
        let (kind, text) = line.split_first().unwrap_or((&b'_', b""));
        // SAFETY: the caller's; there is room for `LEVEL` values.
        unsafe {
            make_room(state, LEVEL);
            admit(state, self.shared, 0);
            spend(state, &self.meter, VALUE_UNITS);
            match kind {
                b'+' => self.field(OK, |_| push_text(state, text)),
                b'-' => push_error(state, text, true),
                b':' => ffi::lua_pushnumber(state, integer(text) as f64),
                b'$' | b'*' | b'>' if text == b"-1" => ffi::lua_pushboolean(state, 0),
                b'$' => {
                    let bytes = self.bytes(text);
                    push_text(state, bytes);
                }
                b'*' | b'>' => self.array(integer(text)),
                b'%' => self.field(MAP, |reader| reader.map(integer(text))),
                b'~' => self.field(SET, |reader| reader.set(integer(text))),
                b'#' => ffi::lua_pushboolean(state, c_int::from(text == b"t")),
                b',' => self.field(DOUBLE, |_| ffi::lua_pushnumber(state, double(text))),
                b'(' => self.field(BIG_NUMBER, |_| push_text(state, text)),
                b'=' => self.field(VERBATIM, |reader| reader.verbatim(text)),
                b'|' => {
                    // Attributes are beside the reply.
                    for _ in 0..2 * integer(text) {
                        self.value();
                        ffi::lua_settop(state, -2);
                    }
                    self.value();
                }
                _ => ffi::lua_pushnil(state),
            }
        }
    }

    /// Up to the next line end, which is passed.
    fn line(&mut self) -> &'r [u8] {
        let end = self.rest.iter().position(|byte| *byte == b'\r').unwrap_or(self.rest.len());
        let line = &self.rest[..end];
        self.rest = self.rest.get(end + 2..).unwrap_or_default();
        line
    }

    /// The bytes of a string whose length is `text`, and the line end behind them.
    ///
    /// # Safety
    /// The caller keeps what `value` asks for.
    unsafe fn bytes(&mut self, text: &[u8]) -> &'r [u8] {
        let len = (integer(text).max(0) as usize).min(self.rest.len());
        let bytes = &self.rest[..len];
        self.rest = self.rest.get(len + 2..).unwrap_or_default();
        // SAFETY: the caller's.
        unsafe { admit(self.state, self.shared, len) }
        bytes
    }

    /// Pushes a table of one field, whose value `push` pushes.
    ///
    /// # Safety
    /// The caller keeps what `value` asks for.
    unsafe fn field(&mut self, name: c_int, push: impl FnOnce(&mut Self) + Copy) {
        // SAFETY: the caller's.
        unsafe {
            ffi::lua_createtable(self.state, 0, 1);
            ffi::lua_pushvalue(self.state, name);
            push(self);
            ffi::lua_rawset(self.state, -3);
        }
    }

    /// # Safety
    /// The caller keeps what `value` asks for.
    unsafe fn array(&mut self, len: i64) {
        // A length is never more than the bytes behind it can hold.
        let len = (len.max(0) as usize).min(self.rest.len());
        // SAFETY: the caller's.
        unsafe {
            admit(self.state, self.shared, len * size_of::<f64>());
            ffi::lua_createtable(self.state, capacity(len), 0);
            for i in 1..=capacity(len) {
                self.value();
                ffi::lua_rawseti_(self.state, -2, i);
            }
        }
    }

    /// # Safety
    /// The caller keeps what `value` asks for.
    unsafe fn map(&mut self, len: i64) {
        // SAFETY: the caller's. No key is a NaN, which would be raised: a double is a table.
        unsafe {
            ffi::lua_createtable(self.state, 0, 0);
            for _ in 0..len {
                self.value();
                self.value();
                self.insert();
            }
        }
    }

    /// # Safety
    /// The caller keeps what `value` asks for.
    unsafe fn set(&mut self, len: i64) {
        // SAFETY: as for `map`.
        unsafe {
            ffi::lua_createtable(self.state, 0, 0);
            for _ in 0..len {
                self.value();
                ffi::lua_pushboolean(self.state, 1);
                self.insert();
            }
        }
    }

    /// Puts the key and the value on top of the stack into the table below them; a nil is left out.
    ///
    /// # Safety
    /// The caller keeps what `value` asks for.
    unsafe fn insert(&mut self) {
        // SAFETY: the caller's.
        unsafe {
            if ffi::lua_type(self.state, -2) == ffi::LUA_TNIL {
                ffi::lua_settop(self.state, -3);
            } else {
                ffi::lua_rawset(self.state, -3);
            }
        }
    }

    /// # Safety
    /// The caller keeps what `value` asks for.
    unsafe fn verbatim(&mut self, len: &[u8]) {
        let state = self.state;
        // SAFETY: the caller's.
        unsafe {
            let bytes = self.bytes(len);
            ffi::lua_createtable(state, 0, 2);
            ffi::lua_pushvalue(state, FORMAT);
            push_text(state, bytes.get(..3).unwrap_or_default());
            ffi::lua_rawset(state, -3);
            ffi::lua_pushvalue(state, STRING);
            push_text(state, bytes.get(4..).unwrap_or_default());
            ffi::lua_rawset(state, -3);
        }
    }
}
