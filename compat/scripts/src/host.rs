//! The host of a script: it answers the questions of the language.

use varve_exec::{ScriptCalls, ScriptKind};
use varve_lua::{Control, Host, LogLevel, Replicate};
use varve_protocol::{Reply, Resp};

use crate::errors;
use crate::running::Running;

/// The host of one script.
pub(crate) struct ScriptHost<'h> {
    pub(crate) calls: &'h mut dyn ScriptCalls,
    pub(crate) running: &'h Running,
    pub(crate) kind: ScriptKind,
}

impl Host for ScriptHost<'_> {
    fn call(&mut self, args: &[&[u8]], reply: &mut Reply) {
        self.calls.call(args, reply);
        if self.calls.has_written() {
            self.running.note_write();
        }
    }

    fn tick(&mut self) -> Control {
        if self.calls.is_over() {
            return Control::Stop(errors::BEGINS_AGAIN);
        }
        if self.running.is_abandoned() {
            // Half a script is not to be in the journal.
            self.calls.forget_effects();
            return Control::Stop(errors::SERVER_ENDS);
        }
        if !self.running.is_killed() {
            return Control::Go;
        }
        Control::Stop(match self.kind {
            ScriptKind::Script => errors::SCRIPT_KILLED,
            ScriptKind::Function => errors::FUNCTION_KILLED,
        })
    }

    fn log(&mut self, level: LogLevel, text: &[u8]) {
        let text = String::from_utf8_lossy(text);
        match level {
            LogLevel::Debug => tracing::trace!("{text}"),
            LogLevel::Verbose => tracing::debug!("{text}"),
            LogLevel::Notice => tracing::info!("{text}"),
            LogLevel::Warning => tracing::warn!("{text}"),
        }
    }

    fn set_resp(&mut self, resp: Resp) {
        self.calls.set_resp(resp);
    }

    fn set_repl(&mut self, replicate: Replicate) {
        self.calls.keep_effects(replicate.to_aof);
    }

    fn acl_check_cmd(&mut self, args: &[&[u8]]) -> Option<bool> {
        self.calls.may_call(args)
    }
}
