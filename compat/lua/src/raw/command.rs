//! `redis.call`, which raises an error, and `redis.pcall`, which returns it.

use crate::args::push_word;
use crate::errors::{BAD_ARGUMENT, NO_ARGUMENTS, OUTSIDE_SCRIPT};
use crate::shared::Shared;
use crate::values::integer;
use mlua::ffi;
use mlua::{Function, Lua, Result, Value, lua_State};
use smallvec::SmallVec;
use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;
use std::ops::Range;
use std::rc::Rc;
use varve_protocol::Reply;

use super::closure::{self, OK, OWN, closure};
use super::push::{Source, read};
use super::stack::{push_text, text};
use super::{owns_nothing, settled};

/// The upvalue that reads long replies.
const READ: c_int = OWN;
/// Bytes of the reply's buffer that are kept between calls.
const KEEP_BYTES: usize = 1 << 16;
/// Bytes of a reply's text that are copied to the frame.
const SHORT_MAX: usize = 512;

type Short = [MaybeUninit<u8>; SHORT_MAX];

/// `redis.call` and `redis.pcall`.
pub(crate) fn commands(lua: &Lua, shared: &Rc<Shared>) -> Result<(Function, Function)> {
    let read = closure(lua, shared, read, Vec::new())?;
    let make = |function| closure(lua, shared, function, vec![Value::Function(read.clone())]);
    Ok((make(call)?, make(pcall)?))
}

/// The value that a command's reply becomes.
#[derive(Clone, Copy)]
enum Got {
    /// A status; its bytes are in the frame.
    Status(usize),
    /// A string; its bytes are in the frame.
    Bulk(usize),
    Number(f64),
    /// There is no value.
    No,
    /// It is to be read where it lies.
    Long(Source),
}

unsafe extern "C-unwind" fn call(state: *mut lua_State) -> c_int {
    // SAFETY: Lua runs it as a function of `commands`.
    unsafe { command(state, true) }
}

unsafe extern "C-unwind" fn pcall(state: *mut lua_State) -> c_int {
    // SAFETY: Lua runs it as a function of `commands`.
    unsafe { command(state, false) }
}

/// # Safety
/// A function of [`commands`] runs.
unsafe fn command(state: *mut lua_State, raises: bool) -> c_int {
    const { owns_nothing::<Got>() };
    let mut short = [MaybeUninit::uninit(); SHORT_MAX];
    // SAFETY: a function of Lua's has room for 20 values beyond its arguments; this frame and its caller's own nothing. `ran`
    // has written as many bytes of `short` as it says.
    unsafe {
        let shared = closure::shared(state);
        match settled(|| ran(state, shared, &mut short)) {
            Got::Bulk(len) => push_text(state, &*(&raw const short[..len] as *const [u8])),
            Got::Number(n) => ffi::lua_pushnumber(state, n),
            Got::No => ffi::lua_pushboolean(state, 0),
            Got::Status(len) => {
                ffi::lua_createtable(state, 0, 1);
                ffi::lua_pushvalue(state, OK);
                push_text(state, &*(&raw const short[..len] as *const [u8]));
                ffi::lua_rawset(state, -3);
            }
            Got::Long(source) => return long(state, shared, source, raises),
        }
    }
    1
}

/// Reads a reply where it lies. Raising.
///
/// # Safety
/// A function of [`commands`] runs.
#[cold]
unsafe fn long(state: *mut lua_State, shared: &Shared, source: Source, raises: bool) -> c_int {
    let outer = shared.reading.replace(true);
    // SAFETY: the arguments go, so that there is room. `source` lives until `lua_pcall` returns, and what it points to as long:
    // calls in between are refused, since `reading` is set. `lua_pcall` raises nothing.
    let status = unsafe {
        ffi::lua_settop(state, 0);
        ffi::lua_pushvalue(state, READ);
        ffi::lua_pushlightuserdata(state, (&raw const source).cast_mut().cast::<c_void>());
        ffi::lua_pcall(state, 1, 1, 0)
    };
    shared.reading.set(outer);
    if !outer {
        settled(|| {
            shared.reply.borrow_mut().clear(KEEP_BYTES);
            shared.joined.take();
        });
    }
    if status != ffi::LUA_OK || raises && matches!(source, Source::Error { .. }) {
        // SAFETY: the value is on the stack: the error that was raised, or the one that the command has replied.
        unsafe { ffi::lua_error(state) }
    }
    1
}

/// Has the host run the command of the arguments.
fn ran(state: *mut lua_State, shared: &Shared, short: &mut Short) -> Got {
    let refused = |text: &'static str| Got::Long(Source::Error { text: text.as_bytes(), counted: false });
    if shared.reading.get() {
        return refused(OUTSIDE_SCRIPT);
    }
    let mut digits = shared.digits.take();
    digits.clear();
    // SAFETY: the strings are arguments, which stay on the stack while the function runs.
    let words = match unsafe { words(state, &mut digits) } {
        Ok(words) => words,
        Err(text) => return refused(text),
    };
    let mut reply = shared.reply.borrow_mut();
    reply.set_resp(shared.resp.get());
    let asked = shared.host.with(|host| host.call(&words, &mut reply));
    drop(words);
    shared.digits.set(digits);
    if asked.is_none() {
        return refused(OUTSIDE_SCRIPT);
    }
    let got = got(shared, &reply, short);
    if !matches!(got, Got::Long(_)) {
        reply.clear(KEEP_BYTES);
    }
    got
}

/// The command's words: strings, and numbers as C's `%.17g` writes them, which go to `digits`.
///
/// # Safety
/// The words are used while the function runs whose arguments they are.
unsafe fn words<'w>(
    state: *mut lua_State,
    digits: &'w mut Vec<u8>,
) -> std::result::Result<SmallVec<[&'w [u8]; 8]>, &'static str> {
    // SAFETY: the function's own stack.
    let count = unsafe { ffi::lua_gettop(state) };
    if count == 0 {
        return Err(NO_ARGUMENTS);
    }
    let mut words: SmallVec<[&[u8]; 8]> = SmallVec::new();
    let mut numbers: SmallVec<[(usize, Range<usize>); 8]> = SmallVec::new();
    for at in 1..=count {
        // SAFETY: there are as many values, and each is asked for its type first. Numbers are not converted in place.
        match unsafe { ffi::lua_type(state, at) } {
            // SAFETY: as above; the caller keeps it on the stack.
            ffi::LUA_TSTRING => words.push(unsafe { text(state, at) }),
            ffi::LUA_TNUMBER => {
                let start = digits.len();
                // SAFETY: as above.
                push_word(digits, unsafe { ffi::lua_tonumber(state, at) });
                numbers.push((words.len(), start..digits.len()));
                words.push(&[]);
            }
            _ => return Err(BAD_ARGUMENT),
        }
    }
    let digits: &'w [u8] = digits;
    numbers.into_iter().for_each(|(word, range)| words[word] = &digits[range]);
    Ok(words)
}

/// The value of a reply. A short one is copied.
fn got(shared: &Shared, reply: &Reply, short: &mut Short) -> Got {
    let Some(only) = reply.as_one() else { return Got::Long(join(shared, reply)) };
    let mut copied = |bytes: &[u8]| {
        short[..bytes.len()].write_copy_of_slice(bytes);
        bytes.len()
    };
    match only {
        [b'$', b'-', b'1', ..] => Got::No,
        [b':', line @ .., b'\r', b'\n'] => Got::Number(integer(line) as f64),
        [b'+', line @ .., b'\r', b'\n'] if line.len() <= SHORT_MAX => Got::Status(copied(line)),
        [b'$', rest @ .., b'\r', b'\n'] if rest.len() <= SHORT_MAX => match rest.iter().position(|byte| *byte == b'\r')
        {
            Some(end) => Got::Bulk(copied(&rest[end + 2..])),
            None => Got::Long(Source::Reply(only)),
        },
        [b'-', line @ ..] => {
            // A zero byte ends the text, as in C.
            let text = line.split(|byte| matches!(byte, b'\r' | 0)).next().unwrap_or_default();
            Got::Long(Source::Error { text, counted: true })
        }
        _ => Got::Long(Source::Reply(only)),
    }
}

/// A reply of several parts, or of none, in one piece.
fn join(shared: &Shared, reply: &Reply) -> Source {
    let limit = shared.settings.memory_bytes_max;
    if limit > 0 && reply.len() > limit {
        return Source::TooLong;
    }
    shared.joined.replace(reply.to_vec());
    // The place of the bytes stays until `joined` is changed.
    Source::Reply(shared.joined.borrow().as_slice())
}
