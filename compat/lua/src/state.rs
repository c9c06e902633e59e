//! A state: scripts are compiled into it and run in it.
//!
//! ```text
//!  compile ─▶ LuaChunk (a number) ─▶ run: KEYS, ARGV ─▶ reply, or an error with its place
//! ```
//! A state runs one script at a time. Globals that a script could leave behind do not exist, so that scripts do not see each
//! other.

#![allow(unsafe_code, reason = "one line says that a state may move between threads")]

use crate::errors::{COMPILING, ScriptError};
use crate::fault::Fault;
use crate::host::Host;
use crate::inside::{Inside, compile_error};
use crate::random::RandomNumbers;
use crate::script::{LibraryFunction, LuaChunk, ScriptInput};
use crate::shared::Settings;
use std::sync::Arc;
use varve_protocol::Reply;

/// A Lua state for scripts.
pub struct State(Inside);

// SAFETY: everything that refers to the Lua state, or shares a count with it, is in `Inside`: what leaves it is bytes and
// numbers, and the functions of `redis` are owned by the Lua state itself. Lua and mlua keep nothing in a thread. mlua's
// own way to a state that may move takes a lock in each of its operations.
unsafe impl Send for State {}

impl State {
    /// A state with all libraries, which no script has used. Its random numbers are its own.
    ///
    /// # Errors
    /// The limit is less than the libraries need.
    pub fn new(settings: Settings) -> Result<State, ScriptError> {
        State::with_random(settings, Arc::default())
    }

    /// A state that draws its random numbers where others draw them too.
    ///
    /// # Errors
    /// The limit is less than the libraries need.
    pub fn with_random(settings: Settings, random: Arc<RandomNumbers>) -> Result<State, ScriptError> {
        Inside::new(settings, random).map(State).map_err(|error| ScriptError::new(Fault::of(&error).to_string()))
    }

    /// Compiles the body of a script, text only. Lines count from its first one.
    ///
    /// # Errors
    /// The code is wrong, or the state's memory does not suffice.
    pub fn compile(&mut self, body: &[u8]) -> Result<LuaChunk, ScriptError> {
        self.0.compile(body).map_err(|error| compile_error(COMPILING, &error))
    }

    /// Runs the code of a library once, behind its shebang. The functions that it registers run with [`State::run`], which
    /// gives them keys and arguments as two tables. The state's settings say that it is for functions.
    ///
    /// # Errors
    /// The code is wrong, raised an error, was stopped, or registered nothing. None of its functions stays.
    pub fn load_library(&mut self, code: &[u8], host: &mut dyn Host) -> Result<Vec<LibraryFunction>, ScriptError> {
        self.0.load(code, host)
    }

    /// Lets go of a compiled script; its number may be used again.
    pub fn forget(&mut self, chunk: LuaChunk) {
        self.0.forget(chunk);
    }

    /// Runs a script and writes its reply. Nothing is written if there is an error.
    ///
    /// # Errors
    /// The script raised or returned an error, or was stopped.
    pub fn run(
        &mut self,
        chunk: LuaChunk,
        input: ScriptInput<'_>,
        host: &mut dyn Host,
        out: &mut Reply,
    ) -> Result<(), ScriptError> {
        self.0.run(chunk, input, host, out)
    }

    /// Bytes that Lua uses in this state.
    pub fn used_bytes(&self) -> usize {
        self.0.used_bytes()
    }
}
