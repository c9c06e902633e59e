//! Things that the functions of a state share with it.

use crate::fault::{Fault, Place};
use crate::json_settings::Config;
use crate::lent::Lent;
use crate::random::RandomNumbers;
use crate::script::{NamedGlobals, Registrations, ScriptInput};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use varve_protocol::{Reply, Resp};

/// The settings of a state.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Bytes that Lua may use in this state; a script that wants more ends with an error.
    pub memory_bytes_max: usize,
    /// Instructions of Lua between two calls of [`Host::tick`].
    pub instructions_per_tick: u32,
    /// `lua-enable-deprecated-api`: gives scripts `getfenv`, `setfenv` and `newproxy`.
    pub deprecated_api: bool,
    /// The state is for libraries of functions, not for scripts.
    pub for_functions: bool,
    /// `redis.REDIS_VERSION`.
    pub version: &'static str,
    /// `redis.REDIS_VERSION_NUM`.
    pub version_number: u32,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            memory_bytes_max: 256 << 20,
            instructions_per_tick: 2_000,
            deprecated_api: false,
            for_functions: false,
            version: "7.0.15",
            version_number: 0x0007_000f,
        }
    }
}

/// Things that the functions of a state share with it.
pub(crate) struct Shared {
    pub(crate) settings: Settings,
    /// Of all states of the server.
    pub(crate) random: Arc<RandomNumbers>,
    pub(crate) host: Lent,
    /// The version of the protocol that the script has set.
    pub(crate) resp: Cell<Resp>,
    /// Replies of commands, before they become values.
    pub(crate) reply: RefCell<Reply>,
    /// A reply of several parts in one piece.
    pub(crate) joined: RefCell<Vec<u8>>,
    /// A reply is being read where it lies: no command runs meanwhile.
    pub(crate) reading: Cell<bool>,
    /// Texts of numbers among a command's words.
    pub(crate) digits: Cell<Vec<u8>>,
    /// The error that ended the script, and where.
    pub(crate) ended: RefCell<Option<(Fault, Option<Place>)>>,
    /// Functions that the library being loaded has registered.
    pub(crate) registered: RefCell<Registrations>,
    /// The settings of `cjson`, which each run begins with anew.
    pub(crate) json: Rc<Cell<Config>>,
    /// A library is being loaded.
    pub(crate) loading: Cell<bool>,
    /// The error with which the host has stopped the script.
    pub(crate) stopped: Cell<Option<&'static str>>,
    /// The input of the script that runs; null while none does, and for a function, which has it as arguments.
    pub(crate) input: Cell<*const ScriptInput<'static>>,
    /// Those of KEYS and ARGV that are there, of this script or of the one before.
    pub(crate) set_globals: Cell<NamedGlobals>,
}

impl Shared {
    /// Of a state that has run nothing.
    pub(crate) fn new(settings: Settings, random: Arc<RandomNumbers>) -> Shared {
        Shared {
            settings,
            random,
            host: Lent::default(),
            resp: Cell::default(),
            reply: RefCell::default(),
            joined: RefCell::default(),
            reading: Cell::default(),
            digits: Cell::default(),
            ended: RefCell::default(),
            registered: RefCell::default(),
            loading: Cell::default(),
            json: Rc::default(),
            stopped: Cell::default(),
            input: Cell::new(std::ptr::null()),
            set_globals: Cell::default(),
        }
    }
}
