//! The hosts of scripts, and of libraries that come from a file: they answer the questions of the language.

use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

use varve_base::shared::SharedU64;
use varve_exec::{Audience, CommandError, ScriptCalls, ScriptKind};
use varve_lua::{Control, Host, LogLevel, Replicate};
use varve_protocol::{Args, Reply, Resp};

use crate::errors;
use crate::running::Running;

/// The host of one script.
pub(crate) struct ScriptHost<'h> {
    pub(crate) calls: &'h mut dyn ScriptCalls,
    pub(crate) running: &'h Running,
    pub(crate) kind: ScriptKind,
    /// The function that is called, which others may ask for once it takes time.
    pub(crate) called: Option<Called<'h>>,
    /// The time of the script's clock at which it is ended: that of a library that is being loaded.
    pub(crate) until: Option<Instant>,
    /// The account of its state's memory.
    pub(crate) memory: StateMemory<'h>,
}

/// The bytes of one state of the language in a sum that the memory limit sees: brought up to date while a script runs, which
/// may take long and fill the state meanwhile.
pub(crate) struct StateMemory<'h> {
    /// The sum that the state is part of.
    pub(crate) sum: &'h SharedU64,
    /// The part of it that is this state's.
    pub(crate) counted_bytes: u64,
}

impl StateMemory<'_> {
    /// The state has this number of bytes now.
    pub(crate) fn count(&mut self, bytes: u64) {
        let before = std::mem::replace(&mut self.counted_bytes, bytes);
        // Wraps where it has shrunk, which comes to the same sum.
        self.sum.fetch_add(bytes.wrapping_sub(before), Relaxed);
    }
}

/// A call of a function.
pub(crate) struct Called<'h> {
    /// Its name, as it was registered.
    pub(crate) name: &'h [u8],
    /// The request.
    pub(crate) args: Args<'h>,
}

/// The error of a script that was ended.
fn killed(kind: ScriptKind) -> &'static str {
    match kind {
        ScriptKind::Script => errors::SCRIPT_KILLED,
        ScriptKind::Function => errors::FUNCTION_KILLED,
    }
}

impl Host for ScriptHost<'_> {
    fn call(&mut self, args: &[&[u8]], reply: &mut Reply) {
        // Whoever has ended the script was told that it has changed nothing: it changes nothing any more.
        let (running, killed) = (self.running, killed(self.kind));
        let leave = |writes: bool| {
            let goes_on = if writes { running.note_write() } else { !running.is_killed() };
            if goes_on { Ok(()) } else { Err(CommandError::owned(killed)) }
        };
        self.calls.call(args, &leave, reply);
    }

    fn tick(&mut self, state_bytes: usize) -> Control {
        // It may rest in the tick: others make room meanwhile by what it has.
        self.memory.count(state_bytes as u64);
        self.calls.tick();
        if self.calls.is_over() {
            return Control::Stop(errors::BEGINS_AGAIN);
        }
        if self.running.is_abandoned() {
            // Half a script is not to be in the journal.
            self.calls.forget_effects();
            return Control::Stop(errors::SERVER_ENDS);
        }
        if let Some(Called { name, args }) = self.called.take() {
            self.running.note_function(name, args);
        }
        if self.until.is_some_and(|until| self.calls.clock() >= until) {
            return Control::Stop(errors::LOAD_TIMEOUT);
        }
        if !self.running.is_killed() {
            return Control::Go;
        }
        Control::Stop(killed(self.kind))
    }

    fn log(&mut self, level: LogLevel, text: &[u8]) {
        write_log(level, text);
    }

    fn set_resp(&mut self, resp: Resp) {
        self.calls.set_resp(resp);
    }

    fn set_repl(&mut self, replicate: Replicate) {
        self.calls.keep_effects_for(match (replicate.to_aof, replicate.to_replicas) {
            (true, true) => Audience::All,
            (true, false) => Audience::File,
            (false, true) => Audience::Stream,
            (false, false) => Audience::Nobody,
        });
    }

    fn note_reply_error(&mut self, text: &[u8], counted: bool) {
        self.calls.note_reply_error(text, counted);
    }

    fn acl_check_cmd(&mut self, args: &[&[u8]]) -> Option<bool> {
        self.calls.may_call(args)
    }
}

/// The host of a library of a file: nothing but the end of the server ends it, and it has no commands.
pub(crate) struct LoadHost<'h> {
    pub(crate) running: &'h Running,
}

impl Host for LoadHost<'_> {
    fn call(&mut self, _args: &[&[u8]], _reply: &mut Reply) {
        unreachable!("a library that is loaded has no redis.call");
    }

    fn tick(&mut self, _state_bytes: usize) -> Control {
        if self.running.is_abandoned() { Control::Stop(errors::SERVER_ENDS) } else { Control::Go }
    }

    fn log(&mut self, level: LogLevel, text: &[u8]) {
        write_log(level, text);
    }

    fn set_resp(&mut self, _resp: Resp) {}

    fn set_repl(&mut self, _replicate: Replicate) {}

    fn note_reply_error(&mut self, _text: &[u8], _counted: bool) {}

    fn acl_check_cmd(&mut self, _args: &[&[u8]]) -> Option<bool> {
        None
    }
}

fn write_log(level: LogLevel, text: &[u8]) {
    let text = String::from_utf8_lossy(text);
    match level {
        LogLevel::Debug => tracing::trace!("{text}"),
        LogLevel::Verbose => tracing::debug!("{text}"),
        LogLevel::Notice => tracing::info!("{text}"),
        LogLevel::Warning => tracing::warn!("{text}"),
    }
}
