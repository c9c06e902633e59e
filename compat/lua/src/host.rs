//! The questions of a script to whoever runs it.

use varve_protocol::{Reply, Resp};

/// Runs the commands of a script and decides how long it may go on. It is lent to the state for one run.
pub trait Host {
    /// Runs a command and writes its reply, errors included, into the empty `reply`, whose version of the protocol is the
    /// one that the script has set. `args` is never empty; its first element is the command's name.
    fn call(&mut self, args: &[&[u8]], reply: &mut Reply);

    /// Called each time the script has run [`crate::Settings::instructions_per_tick`] instructions of Lua. Lua uses this
    /// number of bytes in the state of the script at present.
    fn tick(&mut self, state_bytes: usize) -> Control;

    /// `redis.log`: a line for the server's log.
    fn log(&mut self, level: LogLevel, text: &[u8]);

    /// `redis.setresp`: the version of the protocol in which the next replies of [`Host::call`] are written.
    fn set_resp(&mut self, resp: Resp);

    /// `redis.set_repl`: whither the effects of the next commands go.
    fn set_repl(&mut self, replicate: Replicate);

    /// The script's reply has this error among its values; it was `counted` already where a command that the script called has
    /// replied it.
    fn note_reply_error(&mut self, text: &[u8], counted: bool);

    /// `redis.acl_check_cmd`: true if the script's user may run this command; None if there is no such command.
    fn acl_check_cmd(&mut self, args: &[&[u8]]) -> Option<bool>;
}

/// Whether a script goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Control {
    /// It goes on.
    Go,
    /// It ends with this error (code included), which no `pcall` of the script catches.
    Stop(&'static str),
}

/// The levels of `redis.log`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogLevel {
    /// `redis.LOG_DEBUG`.
    Debug,
    /// `redis.LOG_VERBOSE`.
    Verbose,
    /// `redis.LOG_NOTICE`.
    Notice,
    /// `redis.LOG_WARNING`.
    Warning,
}

/// Whither the effects of a script's commands go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Replicate {
    /// Into the append-only file (`redis.REPL_AOF`).
    pub to_aof: bool,
    /// To the replicas (`redis.REPL_REPLICA`).
    pub to_replicas: bool,
}
