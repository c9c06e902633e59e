//! `redis.call`, `redis.pcall` and the entry into a script, on Lua's own stack: the ways between Lua and Rust that each script
//! goes. All other functions of ours are made with the library for Lua, which keeps a reference for each value.
//!
//! ```text
//!   Inside::run ─▶ lua_pcall ─▶ enter: KEYS, ARGV (lists.rs) ─▶ the script ─▶ its result is written (write.rs)
//!                                                     │
//!                              command: words ─▶ Host::call ─▶ a short reply is pushed
//!                                                     │        any other: lua_pcall ─▶ read (push.rs)
//!                                                     ▼
//!                                                  the value
//! ```
//! Lua leaves frames by `longjmp`, and no destructor runs in a frame that it passes. So:
//!
//! - A function of Lua's is named *raising* here if it may allocate, run code of Lua's, or raise. It is called only where no frame
//!   of ours between it and the next `lua_pcall` owns anything: such frames have numbers, pointers, and slices of what others own.
//!   The types that stand in these frames are `Copy` where they can be, and [`owns_nothing`] checks the others at compile time.
//! - Rust's own work, which may own memory meanwhile, is done in functions that call nothing of Lua's that is raising, and
//!   give back a plain value: [`settled`] runs them. A panic in them ends the process, since it could not pass Lua's frames.
//! - A reply lies in [`Shared`](crate::shared::Shared), not in a frame. A collection while its value is made may run a
//!   finalizer of the script's (`newproxy`, where `lua-enable-deprecated-api` is on), which may call `redis.call`: so a short
//!   reply is copied to the frame first, and while a long one is read, `Shared::reading` refuses other calls. It is read within a
//!   `lua_pcall`, so that whatever is raised, the mark is taken back.
//!
//! At the limit of its memory Lua raises an error itself. Before that, each value of ours asks whether there is room for it, and
//! ends the script if not.

#![allow(unsafe_code, reason = "Lua's own interface of C; each block says why it holds")]

mod closure;
mod command;
mod entry;
mod environment;
mod lists;
mod protected;
mod push;
mod stack;
mod write;

pub(crate) use command::commands;
pub(crate) use entry::Entry;
pub(crate) use environment::set_environment;
pub(crate) use lists::lists;
pub(crate) use protected::protect;

use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs Rust's own work between two of Lua's frames.
fn settled<R: Copy>(work: impl FnOnce() -> R) -> R {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|_| std::process::abort())
}

/// Refuses, at compile time, a type that a frame which Lua may leave must not have.
const fn owns_nothing<T>() {
    assert!(!std::mem::needs_drop::<T>(), "Lua would leave it behind");
}
