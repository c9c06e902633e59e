//! Scripts as their handlers see them: what a script is run with, and how it has commands run.
//!
//! ```text
//!   EVAL --> batch: gate, unit of effects --> handler(&mut ScriptCtx) --> the language runs
//!                                                 keeper: its state         |  redis.call
//!                                                                           v
//!                                             ScriptCalls::call: checks, shards, handler, what follows a command
//! ```
//! The executor knows no language: the handlers' crate keeps its state, one a worker, behind [`ScriptKeeper`].
//!
//! Not here: how a script's commands run (`batch/script.rs`).

use std::any::Any;
use std::time::Instant;

use varve_catalog::Row;
use varve_protocol::{Args, Reply, Resp};
pub use varve_store::Audience;

use crate::errors::CmdResult;
use crate::script_rules::ScriptRules;

/// The part of a worker that runs scripts: the handlers of scripts know its type.
pub type ScriptKeeper = dyn Any + Send;

/// The context of a command that runs a script.
pub struct ScriptCtx<'c> {
    /// The command that runs.
    pub row: &'static Row,
    /// The request; argument 0 is the name.
    pub args: Args<'c>,
    /// Where the reply goes.
    pub out: &'c mut Reply,
    /// A stream that is applied has brought it, no client.
    pub replays: bool,
    /// The worker's part of the handlers' own.
    pub keeper: &'c mut ScriptKeeper,
    /// Runs the script's commands.
    pub calls: &'c mut dyn ScriptCalls,
}

/// The context of a command about scripts, which runs none: SCRIPT LOAD.
pub struct KeeperCtx<'c> {
    /// The request; argument 0 is the name.
    pub args: Args<'c>,
    /// Where the reply goes.
    pub out: &'c mut Reply,
    /// The worker's part of the handlers' own.
    pub keeper: &'c mut ScriptKeeper,
    /// The kind of the script that has run for too long, if one has.
    pub busy: Option<ScriptKind>,
}

/// The kind of a script that runs, by which it is ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScriptKind {
    /// EVAL and its kin: SCRIPT KILL ends it.
    Script,
    /// FCALL: FUNCTION KILL ends it.
    Function,
}

/// A script as it is known before it runs.
pub struct Beginning<'b> {
    /// The flags that it declares; None: what it may do is seen at each of its commands.
    pub flags: Option<ScriptRules>,
    /// Its command promises that it changes nothing.
    pub read_only: bool,
    /// It has met a command on the whole keyspace before.
    pub alone: bool,
    /// The words of its text that may be names of commands, in lower case.
    pub words: &'b [Box<[u8]>],
}

/// How a script runs commands.
pub trait ScriptCalls {
    /// Begins to run a script.
    ///
    /// # Errors
    /// The script may not run, or not now: the handler returns the error, and whether there is a reply is not its matter.
    fn begin(&mut self, beginning: Beginning<'_>) -> CmdResult;
    /// Runs a command, whose first word is its name, and writes its reply, which may be an error. It is asked for `leave` when
    /// nothing else is against the command, with true for one that may change something; an error is the reply then.
    fn call(&mut self, words: &[&[u8]], leave: &dyn Fn(bool) -> CmdResult, out: &mut Reply);
    /// True once the script must end without a trace: it begins again where it can run. Whatever it still calls is refused.
    fn is_over(&self) -> bool;
    /// True if the script has met a command on the whole keyspace beside others: next time it is to begin alone.
    fn has_met_wide(&self) -> bool;
    /// The commands reply in this version of the protocol from now on; each script begins with RESP2.
    fn set_resp(&mut self, resp: Resp);
    /// The effects of the commands are for these readers of the journal from now on.
    fn keep_effects_for(&mut self, audience: Audience);
    /// The script is over and begins again: what it was found by is not true any more.
    fn begin_again(&mut self);
    /// The command itself, as it was sent, is an effect: what it has changed is no key.
    fn report_sent(&mut self);
    /// The script ends with the server: its effects do not go into the journal, nor do others of its transaction.
    fn forget_effects(&mut self);
    /// The script's reply has this error among its values: it counts, unless a command of the script has had it `counted`.
    fn note_reply_error(&mut self, text: &[u8], counted: bool);
    /// Whether the client's user may run this command; None if there is no such command.
    fn may_call(&mut self, words: &[&[u8]]) -> Option<bool>;
    /// To be called every now and then while the language runs, some hundred microseconds apart: once the script has run for a
    /// while, its worker does other things before this returns.
    fn tick(&mut self);
    /// A clock that stands still while the worker does other things: differences of its times are the time that the script has
    /// run.
    fn clock(&self) -> Instant;
    /// When the script began, on the clock of the system.
    fn begun(&self) -> Instant;
}
