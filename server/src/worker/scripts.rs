//! A script that has run for a while: it rests while its worker serves others, and has a slice in each turn of the loop.
//!
//! ```text
//!   turn: TurnState::Script --> the connection waits --> a slice a turn ... --> the reply, the connection goes on
//!                                                         between two: a command of the server (INFO) that it has called
//!
//!   share:  visits for 1 ms | slice | visits for 1 ms | slice | ...     a turn has several slices where it is long
//! ```
//! So a script has half of its worker's time, or all that others leave: one slice a turn would be little where a thousand
//! connections have a visit in each turn, and what it holds would stay held.
//!
//! A script that has to begin again elsewhere, and whose place there is taken, goes back to its connection as the request that
//! it was (`Batch::end_script`), so that pauses, rights and the rest are asked anew. Nothing runs meanwhile.
//!
//! If the client is gone meanwhile, the script runs to its end all the same: others may have seen what it has published. If
//! the server ends, so does the script.
//!
//! A worker's scripts are an author of their own of messages and stale keys (`Registry::scripts_of`): visits to other connections that
//! end while a script rests do not end the script's. The visit in which it begins ends there for the client's barrier; what is
//! pushed waits for the file behind the script's end.

use std::iter;
use std::time::{Duration, Instant};

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
use crate::state::ctx::{After, Part};

/// Time of visits after which a script that rests has a slice, which takes about as long.
const VISITS: Duration = Duration::from_millis(1);

/// A script that rests.
pub(super) struct ScriptAtRest {
    script: RestingScript,
    /// Its client.
    who: ConnRef,
    /// The position of the journal for which the commands before it waited, and so what scripts among them have pushed.
    until: u64,
    /// When it began to rest.
    since: Instant,
}

impl Worker {
    /// Goes on with the script that rests, if one does.
    #[inline]
    pub(super) fn go_on_with_script(&mut self) {
        if self.core.script.is_some()
            && !self.core.script_waits()
            && let Some(rests) = self.core.script.take()
        {
            self.run_slice(rests);
        }
    }

    /// Behind a visit: goes on with the script that rests if it has its share of the turn to get.
    #[inline]
    pub(super) fn share_turn_with_script(&mut self) {
        if self.core.script.as_ref().is_some_and(|rests| rests.since.elapsed() >= VISITS) {
            self.go_on_with_script();
        }
    }

    /// The server ends, and the script with it: it is told so at its next tick.
    pub(super) fn end_script_at_once(&mut self) {
        let Some(ScriptAtRest { mut script, .. }) = self.core.script.take() else { return };
        let ended = loop {
            if script.take_call().is_some() {
                script.answer(Err(CommandError::SCRIPT_REFUSED), Duration::ZERO);
            }
            match script.go_on() {
                Ok(ended) => break ended,
                Err(rests) => script = rests,
            }
        };
        self.core.end_script_of_nobody(ended);
    }

    #[cold]
    fn run_slice(&mut self, rests: ScriptAtRest) {
        let ScriptAtRest { mut script, who, until, .. } = rests;
        if let Some(call) = script.take_call() {
            let begun = Instant::now();
            let answer = self.core.run_for_script(who, &call);
            script.answer(answer, begun.elapsed());
        }
        script.set_monitoring(self.core.state.monitors().any());
        match script.go_on() {
            Ok(ended) => {
                self.core.store.await_also(until);
                self.end_script(ended, who);
            }
            Err(mut script) => {
                if let Some(conn) = self.core.conns.get_mut(who) {
                    conn.session_mut().note_script_bytes(script.bytes());
                    self.core.count(who.conn);
                    self.core.show_monitors(who.conn, &script.take_monitored());
                }
                self.core.script = Some(ScriptAtRest { script, who, until, since: Instant::now() });
            }
        }
    }

    /// Gives the client of a script that has ended its reply; or its request back, if that has to be tried again.
    fn end_script(&mut self, ended: EndedScript, who: ConnRef) {
        if !self.core.conns.is_there(who) {
            return self.core.end_script_of_nobody(ended);
        }
        self.core.catch_up(who.conn);
        self.core.conns.lift(who, WaitReasons::SCRIPT);
        let served = self.reply(who.conn, |core, _, out| {
            let session = core.conns[who.conn].session_mut();
            out.set_resp(session.resp());
            let again = core.batch.end_script(ended, &mut core.store, Some(session), out);
            core.conns[who.conn].put_behind(out);
            core.account(who.conn);
            let Some(request) = again else {
                core.stats().commands.add(1);
                return Stop::Again;
            };
            core.conns[who.conn].requests_mut().try_again(request);
            Stop::Busy
        });
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
        self.script = Some(ScriptAtRest { script, who: conn.who(), until: 0, since: Instant::now() });
    }

    /// The authors that what a visit publishes is counted for: this worker, and its scripts unless one rests, which waits for room by
    /// itself.
    #[inline]
    pub(super) fn authors(&self) -> impl Iterator<Item = usize> + use<> {
        let scripts = self.script.is_none().then(|| self.state.pubsub().scripts_of(self.index));
        iter::once(self.index).chain(scripts)
    }

    /// True if what visits have published fills some inbox so far that the connection that is served should wait.
    #[inline]
    pub(super) fn is_crowded(&self) -> bool {
        self.authors().any(|author| self.state.pubsub().is_crowded(author))
    }

    /// True if the script that rests has published more than others have delivered so far: it goes on when they have room, as
    /// connections do that publish. Where messages wait for the append-only file, they do so until the script's end, and it goes on.
    pub(super) fn script_waits(&self) -> bool {
        let (registry, author) = (self.state.pubsub(), self.state.pubsub().scripts_of(self.index));
        if self.script.is_none() || !registry.is_crowded(author) {
            return false;
        }
        let waits = !registry.has_room() && !registry.visits().await_files();
        if !waits {
            registry.take_crowded(author);
        }
        waits
    }

    /// True while a script of another connection rests: what the worker's scripts have pushed is not this one's.
    #[inline]
    pub(super) fn has_script_of_another(&self, id: ConnId) -> bool {
        self.script.as_ref().is_some_and(|rests| rests.who.conn != id)
    }

    /// A visit to this connection ends, whose commands wait for the journal up to `until`: so does what its scripts have pushed,
    /// unless one rests.
    #[inline]
    pub(super) fn end_visit_of_scripts(&mut self, id: ConnId, until: u64) {
        let registry = self.state.pubsub();
        match &mut self.script {
            None => registry.end_visit(registry.scripts_of(self.index), until),
            Some(rests) if rests.who.conn == id => rests.until = rests.until.max(until),
            Some(_) => {}
        }
    }

    /// Runs a command of the server that the script of this client has called: one that replies at once.
    ///
    /// # Errors
    /// It fails; or the client is gone, on whose behalf it would run.
    fn run_for_script(&mut self, who: ConnRef, call: &ServerCall) -> CmdResult<Reply> {
        if !self.conns.is_there(who) {
            return Err(CommandError::SCRIPT_REFUSED);
        }
        let mut out = Reply::new();
        out.set_resp(call.resp());
        match features::run(call.command(), &mut self.context(who.conn, call.args(), Part::Whole, &mut out))? {
            After::Done => Ok(out),
            After::Close | After::Wait | After::Busy | After::Ask(_) | After::Block(_) | After::More(_) => {
                Err(CommandError::SCRIPT_REFUSED)
            }
        }
    }

    /// Ends a script whose client is gone: it is not tried again.
    fn end_script_of_nobody(&mut self, ended: EndedScript) {
        // Nobody waits in its place for room for what it has published.
        self.state.pubsub().take_crowded(self.state.pubsub().scripts_of(self.index));
        if self.batch.end_script(ended, &mut self.store, None, &mut Reply::new()).is_none() {
            self.stats().commands.add(1);
        }
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
