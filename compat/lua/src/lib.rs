//! Lua 5.1 as the scripts of Redis see it: a state, its sandbox, the `redis` object, and the libraries cjson, cmsgpack,
//! struct and bit.
//!
//! ```text
//!  EVAL, FCALL ──▶ State::compile, run, load_library, call_function
//!                     │            ▲ what redis.call wants        │ what the script returns
//!                     ▼            │                              ▼
//!                  Lua 5.1 ──▶ trait Host (commands, clock)    varve_protocol::Reply
//! ```
//! The state knows no store, no clients and no clock. Whoever runs a script lends it a [`Host`], which runs the commands
//! and decides how long the script may go on.

#![deny(unsafe_code)]

mod api;
mod args;
mod bits;
mod cjson;
mod cmsgpack;
mod errors;
mod fault;
mod host;
mod inside;
mod json_settings;
mod lent;
mod library;
mod nesting;
mod patterns;
mod random;
mod raw;
mod sandbox;
mod script;
mod shared;
mod shebang;
mod state;
mod structs;
mod tick;
mod values;

pub use errors::ScriptError;
pub use host::{Control, Host, LogLevel, Replicate};
pub use random::RandomNumbers;
pub use script::{LibraryFunction, LuaChunk, ScriptFlags, ScriptInput, ScriptName};
pub use shared::Settings;
pub use shebang::Shebang;
pub use state::State;
