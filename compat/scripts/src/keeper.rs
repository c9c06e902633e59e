//! A worker's part of scripts: its state of the language, and the scripts that are compiled in it.
//!
//! ```text
//!   Scripts (one a server)          Keeper (one a worker)
//!     cache: name -> text   ------>   chunks: name -> compiled, flags     compiled at the first use
//!     running                         state                               made at the first use
//! ```

use std::any::Any;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use varve_base::shared::SharedU64;
use varve_exec::{Beginning, CmdResult, ScriptCalls, ScriptKeeper, ScriptKind, ScriptRules};
use varve_lua::{LuaChunk, RandomNumbers, ScriptInput, ScriptName, State};
use varve_protocol::Reply;

use crate::cache::{Cache, Gone, Name, NameHashes};
use crate::errors;
use crate::functions::Functions;
use crate::given::Given;
use crate::host::{ScriptHost, StateMemory};
use crate::running::Running;
use crate::settings::ScriptSettings;
use crate::shebang;
use crate::words::quoted_words;

/// Bytes of the text of a script or library at most: its name is a SHA-1 of all of it, and it is compiled in one go, ten
/// milliseconds a megabyte with everybody else waiting.
pub(crate) const TEXT_MAX: usize = 4 << 20;

/// Looks at the length of a text that a client sends. A stream that is applied brings what its primary has, however long.
///
/// # Errors
/// It is too long.
pub(crate) fn check_text(text: &[u8], replays: bool) -> CmdResult {
    if text.len() > TEXT_MAX && !replays { Err(errors::TEXT_LENGTH) } else { Ok(()) }
}

/// The scripts of a server, shared by its workers.
#[derive(Debug, Default)]
pub struct Scripts {
    settings: ScriptSettings,
    cache: Cache,
    functions: Functions,
    running: Running,
    /// Scripts of all workers and functions draw from one sequence.
    random: Arc<RandomNumbers>,
    /// Bytes of all workers' states of the language.
    state_bytes: SharedU64,
}

/// The memory that scripts take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ScriptMemory {
    /// Scripts that are known.
    pub scripts: u64,
    /// Bytes of their texts.
    pub script_bytes: u64,
    /// Bytes of the states of the language, with what scripts have in them.
    pub state_bytes: u64,
    /// Libraries of functions.
    pub libraries: u64,
    /// Functions.
    pub functions: u64,
    /// Bytes of the libraries' texts and of what is known of their functions.
    pub library_bytes: u64,
    /// Bytes of the state in which functions live.
    pub function_state_bytes: u64,
}

impl Scripts {
    /// Those of a server that has run none.
    pub fn new(settings: ScriptSettings) -> Scripts {
        let random = Arc::<RandomNumbers>::default();
        let functions = Functions::new(settings, Arc::clone(&random));
        Scripts { settings, functions, random, ..Scripts::default() }
    }

    /// The script that runs.
    pub fn running(&self) -> &Running {
        &self.running
    }

    /// Bytes that a state of the language may take.
    pub(crate) fn state_bytes_max(&self) -> usize {
        usize::try_from(self.settings.state_bytes_max).unwrap_or(usize::MAX)
    }

    /// The libraries of functions.
    pub fn functions(&self) -> &Functions {
        &self.functions
    }

    /// Bytes that scripts and functions take. Reading them takes no lock.
    pub fn bytes(&self) -> u64 {
        self.cache.bytes() as u64 + self.state_bytes.load(Relaxed) + self.functions.bytes()
    }

    /// The memory that scripts and functions take, by its parts.
    pub fn memory(&self) -> ScriptMemory {
        let functions = self.functions.sizes();
        ScriptMemory {
            scripts: self.cache.len() as u64,
            script_bytes: self.cache.bytes() as u64,
            state_bytes: self.state_bytes.load(Relaxed),
            libraries: functions.libraries,
            functions: functions.functions,
            library_bytes: functions.library_bytes,
            function_state_bytes: functions.state_bytes,
        }
    }
}

/// A worker's part of scripts.
pub struct Keeper {
    shared: Arc<Scripts>,
    state: Option<State>,
    chunks: HashMap<Name, Compiled, NameHashes>,
    /// The cache's changes that `chunks` has followed.
    seen: u64,
    /// Bytes of the state that the sum of all workers has.
    counted_bytes: u64,
}

/// A script that is compiled.
struct Compiled {
    chunk: LuaChunk,
    flags: Option<ScriptRules>,
    /// It has met a command on the whole keyspace.
    alone: bool,
    /// The words in quotes, which may be names of commands.
    words: Box<[Box<[u8]>]>,
}

impl Keeper {
    /// The part of one worker.
    pub fn new(shared: Arc<Scripts>) -> Keeper {
        Keeper { shared, state: None, chunks: HashMap::default(), seen: 0, counted_bytes: 0 }
    }

    /// The keeper that a worker was given.
    pub(crate) fn of(keeper: &mut ScriptKeeper) -> &mut Keeper {
        let keeper: &mut dyn Any = keeper;
        keeper.downcast_mut().expect("workers keep scripts in a Keeper")
    }

    /// The scripts that are known.
    pub(crate) fn cache(&self) -> &Cache {
        &self.shared.cache
    }

    /// The script that runs.
    pub(crate) fn running(&self) -> &Running {
        &self.shared.running
    }

    /// The part that all workers share.
    pub(crate) fn shared(&self) -> &Scripts {
        &self.shared
    }

    /// Has the server know a script for good.
    ///
    /// # Errors
    /// It cannot be compiled.
    pub(crate) fn load(&mut self, name: Name, body: &[u8]) -> CmdResult {
        self.follow();
        if !self.chunks.contains_key(&name) {
            self.compile(name, body)?;
        }
        self.shared.cache.add(name, body, false);
        Ok(())
    }

    /// Forgets all scripts, and with them whatever they have left in the state.
    pub(crate) fn flush(&mut self) {
        self.shared.cache.flush();
        self.follow();
    }

    /// Makes a script ready to run. It is the `body` that is sent with the command, or one that is known.
    ///
    /// # Errors
    /// It cannot be compiled, or is not known.
    pub(crate) fn prepare(&mut self, name: Name, body: Option<&[u8]>) -> CmdResult {
        self.follow();
        if self.chunks.contains_key(&name) {
            return Ok(());
        }
        match body {
            Some(body) => {
                self.compile(name, body)?;
                self.shared.cache.add(name, body, true);
            }
            None => {
                let body = self.shared.cache.get(name).ok_or(errors::NO_SCRIPT)?;
                self.compile(name, &body)?;
            }
        }
        Ok(())
    }

    /// Runs a script that is ready.
    ///
    /// # Errors
    /// It may not run, or fails.
    pub(crate) fn run(
        &mut self,
        name: Name,
        given: &Given<'_>,
        read_only: bool,
        calls: &mut dyn ScriptCalls,
        out: &mut Reply,
    ) -> CmdResult {
        let Keeper { shared, state, chunks, counted_bytes, .. } = self;
        let Compiled { chunk, flags, alone, words } = chunks.get_mut(&name).expect("it was made ready");
        calls.begin(Beginning { flags: *flags, read_only, alone: *alone, words })?;
        let state = state.as_mut().expect("the state in which the script was compiled");
        let running = &shared.running;
        running.begin(ScriptKind::Script, calls.begun());
        let kind = ScriptKind::Script;
        let memory = StateMemory { sum: &shared.state_bytes, counted_bytes: *counted_bytes };
        let mut host = ScriptHost { calls: &mut *calls, running, kind, called: None, until: None, memory };
        let input =
            ScriptInput { name: ScriptName::Digest(name.digest()), keys: given.keys(), argv: given.arguments() };
        let result = state.run(*chunk, input, &mut host, out);
        *counted_bytes = host.memory.counted_bytes;
        running.end();
        *alone |= calls.has_met_wide();
        self.count();
        result.map_err(errors::of_script)
    }

    /// Forgets what is no longer known. Once nothing is, the state begins anew.
    fn follow(&mut self) {
        let cache = &self.shared.cache;
        if self.seen == cache.changes() {
            return;
        }
        let (gone, changes) = cache.gone_since(self.seen);
        self.seen = changes;
        let chunks = &mut self.chunks;
        let gone: Vec<Compiled> = match gone {
            Gone::These(names) => names.iter().filter_map(|name| chunks.remove(name)).collect(),
            Gone::Many => chunks.extract_if(|name, _| !cache.has(*name)).map(|(_, compiled)| compiled).collect(),
        };
        if let Some(state) = self.state.as_mut().filter(|_| !chunks.is_empty()) {
            gone.iter().for_each(|compiled| state.forget(compiled.chunk));
        }
        if self.chunks.is_empty() {
            self.state = None;
        }
        self.count();
    }

    /// Brings the sum of all workers' states up to date.
    fn count(&mut self) {
        let mut memory = StateMemory { sum: &self.shared.state_bytes, counted_bytes: self.counted_bytes };
        memory.count(self.state.as_ref().map_or(0, |state| state.used_bytes() as u64));
        self.counted_bytes = memory.counted_bytes;
    }

    fn compile(&mut self, name: Name, body: &[u8]) -> CmdResult {
        let (flags, code) = shebang::split(body)?;
        if self.state.is_none() {
            let (settings, random) = (self.shared.settings.of_state(false), Arc::clone(&self.shared.random));
            self.state = Some(State::with_random(settings, random).map_err(errors::of_script)?);
        }
        let state = self.state.as_mut().expect("it was made");
        let chunk = state.compile(code).map_err(errors::of_script)?;
        self.chunks.insert(name, Compiled { chunk, flags, alone: false, words: quoted_words(code) });
        Ok(())
    }
}
