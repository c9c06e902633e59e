//! Bytes as a program in Lua, in a state of its own: one whole reply comes, the program ends when it is stopped, the state goes
//! on, and nothing that scripts share has changed. Lua itself is built with the address sanitizer too.
//!
//! The first byte chooses: a script or a library of functions, and whether the bytes are the text or choose it.

#![no_main]

#[path = "../../compat/lua/tests/sandbox/host/mod.rs"]
mod host;
#[path = "../../compat/lua/tests/sandbox/programs/mod.rs"]
mod programs;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| programs::try_out(bytes));
