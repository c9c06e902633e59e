//! The libraries of functions of a server, and the one state of the language in which they live.
//!
//! ```text
//!   known  (locked for a look)                     state  (taken out by the one who has the place of scripts)
//!     library  name ─▶ text, functions    ◀─join─    the text runs once and registers functions ─▶ chunks
//!     function name ─▶ flags, chunk       ───────▶   FCALL runs the chunk
//! ```
//! Local variables of a library live from call to call, so that all workers use one state. It is used by one script at a
//! time, as everything that runs in scripts' place; nobody holds a lock meanwhile. Libraries come and go in that place as
//! well: a function that was found there stays as it is until the call is over.
//!
//! Names of functions are looked up in either case, names of libraries as they are.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

use smallvec::SmallVec;
use varve_base::counted::{CountedMutex, HeapBytes};
use varve_base::shared::{SharedBool, SharedMutex, SharedU64};
use varve_exec::{CmdResult, CommandError, ScriptKind, ScriptRules};
use varve_lua::{Host, LibraryFunction, LuaChunk, RandomNumbers, ScriptFlags, ScriptInput, ScriptName, State};
use varve_protocol::Reply;

use crate::errors;
use crate::given::Given;
use crate::hashes::TextHashes;
use crate::host::{LoadHost, ScriptHost, StateMemory};
use crate::metadata::Metadata;
use crate::running::Running;
use crate::settings::ScriptSettings;
use crate::shebang::rules;
use crate::words::quoted_words;

/// Bytes that a function takes beside its name, a guess.
const FUNCTION_BYTES: usize = 200;
/// Bytes of a name that is looked up without memory of its own.
const NAME_BYTES: usize = 64;

/// See the module's picture.
#[derive(Default)]
pub struct Functions {
    settings: ScriptSettings,
    random: Arc<RandomNumbers>,
    known: CountedMutex<Known>,
    state: SharedMutex<Option<State>>,
    /// The state is taken out.
    in_use: SharedBool,
    /// Bytes of the state when it was used last, or at the last tick of a function that runs.
    state_bytes: SharedU64,
}

impl std::fmt::Debug for Functions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Functions").finish_non_exhaustive()
    }
}

/// A library.
#[derive(Debug)]
pub(crate) struct Library {
    /// Letters, digits and underscores.
    pub(crate) name: Vec<u8>,
    /// The source text, first line included.
    pub(crate) text: Arc<[u8]>,
    /// In the order in which they were registered.
    pub(crate) functions: Vec<Arc<Function>>,
}

/// A function of a library.
#[derive(Debug)]
pub(crate) struct Function {
    /// Letters, digits and underscores.
    pub(crate) name: Vec<u8>,
    /// Any text.
    pub(crate) description: Option<Vec<u8>>,
    /// The flags that it declares.
    pub(crate) flags: ScriptFlags,
    /// The name of its library.
    library: Arc<[u8]>,
    chunk: LuaChunk,
    /// The words in quotes of its library, which may be names of commands.
    pub(crate) words: Arc<[Box<[u8]>]>,
    met_wide: SharedBool,
    /// Its library is not known any more.
    gone: SharedBool,
}

/// The fate of libraries that are there when others come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Policy {
    /// All go.
    Flush,
    /// They stay; one of the same name is an error.
    Append,
    /// They stay, but for those of the same names.
    Replace,
}

/// Why libraries are not loaded. Nothing is changed then.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum NotLoaded {
    /// A library that is known has one of their names, or a function of such a name.
    Taken(CommandError),
    /// One of them is wrong.
    Wrong(CommandError),
}

impl NotLoaded {
    /// The error that a client is replied with.
    pub(crate) fn into_error(self) -> CommandError {
        match self {
            NotLoaded::Taken(error) | NotLoaded::Wrong(error) => error,
        }
    }
}

impl From<CommandError> for NotLoaded {
    fn from(error: CommandError) -> NotLoaded {
        NotLoaded::Wrong(error)
    }
}

/// Numbers of libraries and functions, and the bytes that they take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct FunctionSizes {
    pub(crate) libraries: u64,
    pub(crate) functions: u64,
    pub(crate) library_bytes: u64,
    pub(crate) state_bytes: u64,
}

#[derive(Debug, Default)]
struct Known {
    libraries: BTreeMap<Vec<u8>, Arc<Library>>,
    /// By the name in lower case.
    functions: HashMap<Vec<u8>, Arc<Function>, TextHashes>,
    bytes: usize,
}

impl HeapBytes for Known {
    fn heap_bytes(&self) -> usize {
        self.bytes
    }
}

impl Function {
    /// The flags that its commands are bound by.
    pub(crate) fn rules(&self) -> ScriptRules {
        rules(self.flags)
    }

    /// True if it has met a command on the whole keyspace.
    pub(crate) fn has_met_wide(&self) -> bool {
        self.met_wide.load(Relaxed)
    }

    /// True if it is still the one of its name. In the place of scripts that stays so.
    pub(crate) fn is_current(&self) -> bool {
        !self.gone.load(Acquire)
    }
}

impl Library {
    /// It is not known any more: whoever has found one of its functions finds it out.
    fn end(&self) {
        self.functions.iter().for_each(|function| function.gone.store(true, Release));
    }

    fn bytes(&self) -> usize {
        let functions: usize = self.functions.iter().map(|function| function.name.len() + FUNCTION_BYTES).sum();
        self.text.len() + functions
    }
}

impl Functions {
    /// Those of a server that has none. Its scripts draw random numbers there too.
    pub(crate) fn new(settings: ScriptSettings, random: Arc<RandomNumbers>) -> Functions {
        Functions { settings, random, ..Functions::default() }
    }

    /// The function of this name, in either case.
    pub(crate) fn find(&self, name: &[u8]) -> Option<Arc<Function>> {
        let mut key: SmallVec<[u8; NAME_BYTES]> = SmallVec::from_slice(name);
        key.make_ascii_lowercase();
        self.known.lock().functions.get(&*key).cloned()
    }

    /// The libraries, in the order of their names.
    pub(crate) fn libraries(&self) -> Vec<Arc<Library>> {
        self.known.lock().libraries.values().cloned().collect()
    }

    /// The source texts of all libraries, in the order of their names: what a file keeps of them.
    pub fn texts(&self) -> Vec<Arc<[u8]>> {
        self.known.lock().libraries.values().map(|library| Arc::clone(&library.text)).collect()
    }

    /// Numbers and bytes.
    pub(crate) fn sizes(&self) -> FunctionSizes {
        let known = self.known.lock();
        FunctionSizes {
            libraries: known.libraries.len() as u64,
            functions: known.functions.len() as u64,
            library_bytes: known.bytes as u64,
            state_bytes: self.state_bytes.load(Relaxed),
        }
    }

    /// Bytes of the libraries and of the state.
    pub(crate) fn bytes(&self) -> u64 {
        self.known.bytes() as u64 + self.state_bytes.load(Relaxed)
    }

    /// The account of the state's memory, for whoever has the place of scripts.
    pub(crate) fn state_memory(&self) -> StateMemory<'_> {
        StateMemory { sum: &self.state_bytes, counted_bytes: self.state_bytes.load(Relaxed) }
    }

    /// Loads a library in the place of scripts; with `replace`, one of the same name goes. Gives its name.
    ///
    /// # Errors
    /// The library is wrong, or collides with another one. Nothing is changed then.
    pub(crate) fn load(&self, text: &[u8], replace: bool, host: &mut dyn Host) -> Result<Vec<u8>, NotLoaded> {
        let metadata = Metadata::parse(text)?;
        if !replace && self.known.lock().libraries.contains_key(&metadata.name) {
            return Err(NotLoaded::Taken(errors::library_exists(&metadata.name)));
        }
        let name = metadata.name.clone();
        let mut opened = self.open();
        let mut new = Known::default();
        opened.add(&mut new, text, metadata, host)?;
        opened.join(new, if replace { Policy::Replace } else { Policy::Append })?;
        Ok(name)
    }

    /// Loads several libraries in the place of scripts, all of them or none.
    ///
    /// # Errors
    /// One is wrong, or collides with another one.
    pub(crate) fn restore(&self, texts: &[Vec<u8>], policy: Policy, host: &mut dyn Host) -> Result<(), NotLoaded> {
        let mut opened = self.open();
        let mut new = Known::default();
        for text in texts {
            let added = Metadata::parse(text).and_then(|metadata| opened.add(&mut new, text, metadata, host));
            if let Err(error) = added {
                opened.forget(new.libraries.values());
                return Err(error.into());
            }
        }
        opened.join(new, policy)
    }

    /// Loads a library of a file that is being read: no script runs meanwhile. With `replace`, one of the same name goes.
    ///
    /// # Errors
    /// Why it cannot be loaded.
    pub fn load_of_file(&self, text: &[u8], replace: bool, running: &Running) -> Result<(), String> {
        let loaded = self.load(text, replace, &mut LoadHost { running });
        loaded.map(drop).map_err(|fault| String::from_utf8_lossy(fault.into_error().text()).into_owned())
    }

    /// Lets go of a library, in the place of scripts.
    ///
    /// # Errors
    /// There is none of this name.
    pub(crate) fn delete(&self, name: &[u8]) -> CmdResult {
        let mut opened = self.open();
        let library = self.known.lock().remove(name).ok_or(errors::NO_LIBRARY)?;
        opened.forget([&library].into_iter());
        Ok(())
    }

    /// Lets go of all libraries, in the place of scripts or while none runs.
    pub fn flush(&self) {
        let _opened = self.open();
        self.known.lock().clear();
    }

    /// None yet, beside these and with their settings: libraries are loaded there while these serve ([`Functions::swap_in`]).
    pub fn beside(&self) -> Functions {
        Functions::new(self.settings, Arc::clone(&self.random))
    }

    /// Has these libraries, with the state in which they live, in the place of its own ones, which `fresh` gets. No script runs.
    pub fn swap_in(&self, fresh: &Functions) {
        let (mut served, mut loaded) = (self.open(), fresh.open());
        std::mem::swap(&mut served.state, &mut loaded.state);
        let (mut old, mut new) = (self.known.lock(), fresh.known.lock());
        old.libraries.values().for_each(|library| library.end());
        std::mem::swap(&mut *old, &mut *new);
    }

    /// Runs a function in the place of scripts.
    ///
    /// # Errors
    /// It fails.
    pub(crate) fn run(
        &self,
        function: &Function,
        given: &Given<'_>,
        host: &mut ScriptHost<'_>,
        out: &mut Reply,
    ) -> CmdResult {
        let mut opened = self.open();
        let state = opened.state.as_mut().expect("the state in which the function was registered");
        let running = host.running;
        running.begin(ScriptKind::Function, host.calls.begun());
        let input =
            ScriptInput { name: ScriptName::Function(&function.name), keys: given.keys(), argv: given.arguments() };
        let result = state.run(function.chunk, input, &mut *host, out);
        running.end();
        if host.calls.has_met_wide() {
            function.met_wide.store(true, Relaxed);
        }
        result.map_err(errors::of_script)
    }

    /// Takes the state out. It is put back when the guard goes.
    fn open(&self) -> Opened<'_> {
        assert!(!self.in_use.swap(true, AcqRel), "one at a time uses the state of functions");
        Opened { functions: self, state: self.state.lock().take() }
    }
}

/// The state, taken out.
struct Opened<'f> {
    functions: &'f Functions,
    state: Option<State>,
}

impl Opened<'_> {
    /// Runs the code of a library and adds it to those that are to come.
    fn add(&mut self, new: &mut Known, text: &[u8], metadata: Metadata<'_>, host: &mut dyn Host) -> CmdResult {
        let Metadata { name, code } = metadata;
        if new.libraries.contains_key(&name) {
            return Err(errors::library_exists(&name));
        }
        if self.state.is_none() {
            let settings = self.functions.settings.of_state(true);
            let random = Arc::clone(&self.functions.random);
            self.state = Some(State::with_random(settings, random).map_err(errors::of_script)?);
        }
        let state = self.state.as_mut().expect("it was made");
        let registered = state.load_library(code, host).map_err(errors::of_script)?;
        let (words, owner): (Arc<[_]>, Arc<[u8]>) = (quoted_words(code).into(), name.as_slice().into());
        let function = |one: LibraryFunction| {
            let LibraryFunction { name, description, flags, chunk } = one;
            let (library, words) = (Arc::clone(&owner), Arc::clone(&words));
            Arc::new(Function {
                name,
                description,
                flags,
                library,
                chunk,
                words,
                met_wide: SharedBool::new(false),
                gone: SharedBool::new(false),
            })
        };
        let functions = registered.into_iter().map(function).collect();
        let library = Arc::new(Library { name, text: text.into(), functions });
        if let Some(twice) = library.functions.iter().find(|one| new.functions.contains_key(&key_of(one))) {
            let error = errors::function_exists(&twice.name);
            self.forget([&library].into_iter());
            return Err(error);
        }
        new.insert(library);
        Ok(())
    }

    /// Adds libraries to those that are known: all of them or none.
    fn join(&mut self, new: Known, policy: Policy) -> Result<(), NotLoaded> {
        let joined = self.functions.known.lock().join(&new, policy);
        match joined {
            Ok(gone) => self.forget(gone.iter()),
            Err(error) => {
                self.forget(new.libraries.values());
                return Err(NotLoaded::Taken(error));
            }
        }
        Ok(())
    }

    /// Lets go of the functions of libraries.
    fn forget(&mut self, gone: impl Iterator<Item: AsRef<Library>>) {
        let Some(state) = &mut self.state else { return };
        gone.for_each(|library| library.as_ref().functions.iter().for_each(|one| state.forget(one.chunk)));
    }
}

impl Drop for Opened<'_> {
    fn drop(&mut self) {
        let Opened { functions, state } = self;
        // Without libraries the next one begins in a state that none has used.
        let state = state.take().filter(|_| !functions.known.lock().libraries.is_empty());
        functions.state_bytes.store(state.as_ref().map_or(0, |state| state.used_bytes() as u64), Relaxed);
        *functions.state.lock() = state;
        functions.in_use.store(false, Release);
    }
}

/// The name by which a function is looked up.
fn key_of(function: &Function) -> Vec<u8> {
    function.name.to_ascii_lowercase()
}

impl Known {
    fn insert(&mut self, library: Arc<Library>) {
        for function in &library.functions {
            self.functions.insert(key_of(function), Arc::clone(function));
        }
        self.bytes += library.bytes();
        let before = self.libraries.insert(library.name.clone(), library);
        debug_assert!(before.is_none(), "a library that goes is removed first");
    }

    fn remove(&mut self, name: &[u8]) -> Option<Arc<Library>> {
        let library = self.libraries.remove(name)?;
        library.end();
        library.functions.iter().for_each(|function| _ = self.functions.remove(&key_of(function)));
        self.bytes -= library.bytes();
        Some(library)
    }

    fn clear(&mut self) {
        self.libraries.values().for_each(|library| library.end());
        *self = Known::default();
    }

    /// Adds libraries; gives those that have gone for them.
    fn join(&mut self, new: &Known, policy: Policy) -> CmdResult<Vec<Arc<Library>>> {
        let gone: HashSet<&[u8]> = match policy {
            Policy::Flush => self.libraries.keys().map(Vec::as_slice).collect(),
            Policy::Append | Policy::Replace => {
                let both = new.libraries.keys().filter(|name| self.libraries.contains_key(*name));
                both.map(Vec::as_slice).collect()
            }
        };
        if let (Policy::Append, Some(name)) = (policy, gone.iter().min()) {
            return Err(errors::restored_exists(name));
        }
        for (key, function) in &new.functions {
            if self.functions.get(key).is_some_and(|other| !gone.contains(&*other.library)) {
                return Err(errors::function_exists(&function.name));
            }
        }
        let names: Vec<Vec<u8>> = gone.into_iter().map(<[u8]>::to_vec).collect();
        let gone = names.iter().filter_map(|name| self.remove(name)).collect();
        new.libraries.values().for_each(|library| self.insert(Arc::clone(library)));
        Ok(gone)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn library(name: &str, functions: &[&str]) -> Vec<u8> {
        let register = |name: &&str| format!("redis.register_function('{name}', function() return 1 end) ");
        let code: String = functions.iter().map(register).collect();
        format!("#!lua name={name}\n{code}").into_bytes()
    }

    fn names(functions: &Functions) -> Vec<String> {
        let libraries = functions.libraries();
        libraries.iter().map(|library| String::from_utf8_lossy(&library.name).into_owned()).collect()
    }

    fn restore(functions: &Functions, texts: &[Vec<u8>], policy: Policy) -> Result<(), String> {
        let restored = functions.restore(texts, policy, &mut LoadHost { running: &Running::default() });
        restored.map_err(|fault| String::from_utf8_lossy(fault.into_error().text()).into_owned())
    }

    #[test]
    fn issue_17_libraries_that_were_loaded_beside_others_take_their_place() {
        let functions = Functions::default();
        let load = |functions: &Functions, name: &str, function: &str| {
            functions.load_of_file(&library(name, &[function]), false, &Running::default()).expect("a library");
        };
        load(&functions, "a", "f");
        let (old, fresh) = (functions.find(b"f").expect("a function"), functions.beside());
        load(&fresh, "a", "f");
        load(&fresh, "b", "g");
        assert!(old.is_current() && functions.find(b"g").is_none(), "they are not served yet");
        functions.swap_in(&fresh);
        assert!(!old.is_current() && functions.find(b"f").is_some_and(|new| new.is_current()));
        assert_eq!(names(&functions), ["a", "b"]);
        // A library that comes later lives in the same state.
        load(&functions, "c", "h");
        assert_eq!((functions.sizes().functions, names(&fresh)), (3, vec!["a".to_owned()]));
        functions.swap_in(&functions.beside());
        assert!(functions.find(b"f").is_none() && functions.sizes().state_bytes == 0);
    }

    #[test]
    fn several_libraries_come_together_or_not_at_all() {
        let functions = Functions::default();
        let (a, b) = (library("a", &["f", "g"]), library("b", &["h"]));
        assert_eq!(restore(&functions, &[a.clone(), b.clone()], Policy::Append), Ok(()));
        assert_eq!(names(&functions), ["a", "b"]);
        let sizes = functions.sizes();
        assert_eq!((sizes.libraries, sizes.functions), (2, 3));
        assert!(sizes.state_bytes > 0);
        let again = |policy| restore(&functions, &[library("c", &["i"]), a.clone()], policy);
        assert_eq!(again(Policy::Append), Err("ERR Library a already exists".to_owned()));
        assert_eq!((functions.sizes().library_bytes, names(&functions).len()), (sizes.library_bytes, 2));
        assert_eq!(again(Policy::Replace), Ok(()));
        assert_eq!(names(&functions), ["a", "b", "c"]);
        let taken = restore(&functions, &[library("a", &["H"])], Policy::Replace);
        assert_eq!(taken, Err("ERR Function H already exists".to_owned()));
        assert!(functions.find(b"F").is_some(), "the old library stays");
        let wrong = restore(&functions, &[library("d", &["j"]), b"#!lua name=e\nx".to_vec()], Policy::Flush);
        assert!(wrong.is_err_and(|text| text.starts_with("ERR Error compiling function")));
        assert_eq!(restore(&functions, &[library("d", &["h"])], Policy::Flush), Ok(()));
        assert_eq!(names(&functions), ["d"]);
        assert_eq!(
            restore(&functions, &[b.clone(), b], Policy::Flush),
            Err("ERR Library 'b' already exists".to_owned())
        );
        functions.flush();
        assert_eq!(functions.sizes(), FunctionSizes::default());
    }

    #[test]
    fn a_function_that_was_replaced_is_not_the_current_one() {
        let functions = Functions::default();
        let running = Running::default();
        let load = |replace| functions.load_of_file(&library("a", &["f"]), replace, &running);
        assert_eq!(load(false), Ok(()));
        assert_eq!(load(false), Err("ERR Library 'a' already exists".to_owned()));
        let found = functions.find(b"F").expect("it is there");
        assert!(found.is_current());
        assert_eq!(load(true), Ok(()));
        assert!(!found.is_current());
        let found = functions.find(b"f").expect("another one");
        let taken = restore(&functions, &[library("b", &["g", "F"])], Policy::Append);
        assert!(taken.is_err() && found.is_current(), "nothing has changed");
        assert_eq!(restore(&functions, &[library("a", &["f"])], Policy::Flush), Ok(()));
        assert!(!found.is_current());
        let found = functions.find(b"f").expect("a third one");
        functions.flush();
        assert!(!found.is_current() && functions.find(b"f").is_none());
        assert_eq!(load(false), Ok(()));
        assert!(functions.find(&b"f".repeat(1000)).is_none(), "a long name");
        assert!(functions.delete(b"A").is_err(), "libraries are named as they are");
        assert!(functions.delete(b"a").is_ok() && functions.find(b"f").is_none());
    }
}
