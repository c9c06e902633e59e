//! A script that has run for a while: it rests while its worker serves others, and has a slice in each turn of the loop.
//!
//! ```text
//!   turn: TurnState::Script --> the connection waits --> a slice a turn ... --> the reply, the connection goes on
//!                                                         between two: a command of the server (INFO) that it has called
//! ```
//! If the client is gone meanwhile, the script runs to its end all the same: others may have seen what it has published. If
//! the server ends, so does the script.

use varve_exec::batch::{EndedScript, RestingScript, ServerCall};
use varve_exec::{CmdResult, CommandError};
use varve_protocol::Reply;

use super::Worker;
use super::core::Core;
use super::run::Stop;
use crate::features;
use crate::features::persist;
use crate::features::pubsub::state::{ConnId, ConnRef};
use crate::net::conn::WaitReasons;
use crate::state::ctx::{After, ServerCtx};

impl Worker {
    /// Goes on with the script that rests, if one does.
    #[inline]
    pub(super) fn go_on_with_script(&mut self) {
        if let Some((script, who)) = self.core.script.take() {
            self.run_slice(script, who);
        }
    }

    /// The server ends, and the script with it: it is told so at its next tick.
    pub(super) fn end_script_at_once(&mut self) {
        let Some((mut script, _)) = self.core.script.take() else { return };
        let ended = loop {
            if script.take_call().is_some() {
                script.answer(Err(CommandError::SCRIPT_REFUSED));
            }
            match script.go_on() {
                Ok(ended) => break ended,
                Err(rests) => script = rests,
            }
        };
        self.core.end_script_of_nobody(ended);
    }

    #[cold]
    fn run_slice(&mut self, mut script: RestingScript, who: ConnRef) {
        if let Some(call) = script.take_call() {
            script.answer(self.core.run_for_script(who, &call));
        }
        match script.go_on() {
            Ok(ended) => self.end_script(ended, who),
            Err(script) => self.core.script = Some((script, who)),
        }
    }

    /// Gives the client of a script that has ended its reply.
    fn end_script(&mut self, ended: EndedScript, who: ConnRef) {
        if !self.core.conns.is_there(who) {
            return self.core.end_script_of_nobody(ended);
        }
        self.core.catch_up(who.conn);
        let served = self.reply(who.conn, |core, _, out| {
            let session = core.conns[who.conn].session_mut();
            out.set_resp(session.resp());
            core.batch.end_script(ended, &mut core.store, Some(session), out);
            core.account(who.conn);
            Stop::Again
        });
        self.core.conns.lift(who, WaitReasons::SCRIPT);
        self.finish_visit(who.conn, served);
    }
}

impl Core {
    /// The script of this connection rests.
    #[cold]
    pub(super) fn stand_by_script(&mut self, id: ConnId, script: RestingScript) {
        let conn = &mut self.conns[id];
        conn.wait(WaitReasons::SCRIPT);
        debug_assert!(self.script.is_none(), "a worker has one script under way");
        self.script = Some((script, conn.who()));
    }

    /// Runs a command of the server that the script of this client has called: one that replies at once.
    ///
    /// # Errors
    /// It fails; or the client is gone, on whose behalf it would run.
    fn run_for_script(&mut self, who: ConnRef, call: &ServerCall) -> CmdResult<Reply> {
        let Some(conn) = self.conns.get_mut(who) else { return Err(CommandError::SCRIPT_REFUSED) };
        let mut out = Reply::new();
        out.set_resp(call.resp());
        let mut ctx = ServerCtx {
            args: call.args(),
            state: &self.state,
            config: &self.config,
            store: &mut self.store,
            hub: &mut self.hub,
            conn,
            out: &mut out,
            now: self.now,
            failed_login: None,
        };
        match features::run(call.command(), &mut ctx)? {
            After::Done => Ok(out),
            After::Close | After::Wait | After::Busy | After::Ask(_) | After::Block(_) => {
                Err(CommandError::SCRIPT_REFUSED)
            }
        }
    }

    /// Ends a script whose client is gone.
    fn end_script_of_nobody(&mut self, ended: EndedScript) {
        self.batch.end_script(ended, &mut self.store, None, &mut Reply::new());
        // Their lines have no address any more, and are not to be found under the next client's.
        self.batch.slow().take_commands();
        self.batch.take_monitored();
        self.batch.take_denials();
        if let Some(spikes) = self.batch.slow().take_spikes() {
            self.state.latency().add_all(&spikes);
        }
        persist::follow(&self.state, &mut self.store, &self.config);
        self.deliver_served();
    }
}
