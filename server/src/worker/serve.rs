//! One visit to a connection: write what waits, read once, execute one turn, write the replies. Several connections are
//! read before the first of them is executed: group.rs.
//!
//! ```text
//!   flush what waits --> read once --> turns, for 1 ms or 64 KB of replies --> write the replies --> place the client
//!                          |             |                                                            |
//!        scratch buffer, or the          Server: a handler of the server runs it,                     +-> ready queue: more
//!        connection's own behind half    then the turn goes on with the rest                          +-> closed
//!        a request. Not while whole      Ask: the connection waits for all workers                    +-> idle: no buffers
//!        requests wait
//! ```
//!
//! A large argument of a command that may need memory is read straight into an extent (net/conn/large.rs).
//!
//! Sockets report edges, so a connection with something unread or unwritten must stand in the ready queue or be known to be
//! blocked. Bounded reads and visits keep one connection from starving the others.

use std::io;
use std::mem;
use std::ops::Range;
use std::time::Duration;

use varve_exec::batch::PreparsedTurn;
use varve_protocol::Reply;

use super::core::Core;
use super::resting::BUSY_TRIES;
use super::run::{Stop, UNSENT_MAX};
use super::{Buffers, Worker};
use crate::config::Fsync;
use crate::features::pubsub::state::ConnId;
use crate::net::conn::{Pool, WaitReasons};

/// Bytes that the worker's reply buffer keeps from one turn to the next.
const REPLY_KEEP_BYTES: usize = 128 * 1024;
/// Busy turns in a row after which the worker lets other threads run.
const BUSY_SPINS: u32 = 16;
/// Time of turns in a row that met a shut gate after which a worker sleeps before it.
const SHUT_LONG: Duration = Duration::from_millis(1);
/// For how long a worker sleeps before a shut gate, at most, before it looks after its other clients.
const SHUT_MAX: Duration = Duration::from_micros(500);

/// A connection that failed; the reason is of interest for the log only.
pub(super) struct Broken(pub(super) io::Error);

impl Worker {
    /// See the module's picture.
    pub(super) fn visit(&mut self, id: ConnId) {
        self.core.catch_up(id);
        let served = match self.core.flush_waiting(id) {
            Ok(()) if self.core.conns[id].following().is_some() => self.visit_replica(id),
            Ok(()) => self.read(id, 0).and_then(|fresh| self.serve(id, fresh, None)),
            Err(broken) => Err(broken),
        };
        self.finish_visit(id, served);
    }

    /// Acts on the result of serving a connection.
    pub(super) fn finish_visit(&mut self, id: ConnId, served: Result<Stop, Broken>) {
        self.core.note_replica(id);
        match served {
            Ok(Stop::Ask(question)) => {
                self.core.ask(id, question);
                self.place_client(id, &Stop::Waits);
            }
            Ok(stop) => self.place_client(id, &stop),
            Err(Broken(error)) => {
                tracing::debug!("closing a client: {error}");
                // Nobody waits in its place for room for what it has published.
                self.core.authors().for_each(|author| _ = self.core.state.pubsub().take_crowded(author));
                self.core.close(id);
            }
        }
    }

    /// A visit to a replica: it is sent what there is, and says how far it is. What would be replied to it would stand in the
    /// stream.
    #[cold]
    fn visit_replica(&mut self, id: ConnId) -> Result<Stop, Broken> {
        self.core.feed(id)?;
        let fresh = self.read(id, 0)?;
        if !fresh.is_empty() {
            self.core.hear_replica(id);
        }
        let Worker { core, buffers: Buffers { scratch, reply, pool, .. }, .. } = self;
        let stop = core.execute(id, &mut scratch[fresh], pool, None, reply);
        let is_replied = !reply.is_empty();
        if is_replied {
            core.log_reply_to_replica(id, reply);
        }
        reply.clear(REPLY_KEEP_BYTES);
        match stop {
            stop if is_replied => {
                if let Stop::Ask(question) = stop {
                    core.abandon(core.conns[id].who(), [question]);
                }
                Err(Broken(io::Error::other("a replica has asked for something that is replied to")))
            }
            Stop::Foreign => Err(core.refuse_foreign(id)),
            stop => Ok(stop),
        }
    }

    /// Executes requests that lie in this part of the scratch buffer, or in the connection's own, and writes the replies:
    /// from the worker's buffer, which stays where it is, or behind replies that are unsent.
    pub(super) fn serve(
        &mut self,
        id: ConnId,
        fresh: Range<usize>,
        early: Option<PreparsedTurn>,
    ) -> Result<Stop, Broken> {
        self.reply(id, |core, (scratch, pool), out| core.execute(id, &mut scratch[fresh], pool, early, out))
    }

    /// Runs something for a connection and writes the replies.
    #[inline]
    pub(super) fn reply(
        &mut self,
        id: ConnId,
        run: impl FnOnce(&mut Core, (&mut [u8], &mut Pool), &mut Reply) -> Stop,
    ) -> Result<Stop, Broken> {
        let Worker { core, buffers: Buffers { scratch, reply, pool, .. }, .. } = self;
        let conn = &mut core.conns[id];
        let from = conn.output_place(conn.output().len());
        let mut unsent = if conn.output().is_empty() { None } else { Some(conn.take_output()) };
        let keeps_room = unsent.is_some() && core.state.outputs_kept();
        let out = unsent.as_mut().unwrap_or(reply);
        out.set_ceiling(core.reply_ceiling(id));
        let stop = run(core, (scratch, pool), out);
        let written = match stop {
            Stop::Foreign => Err(core.refuse_foreign(id)),
            // A command that waited for the gate while the last save was written is in no file: it is not answered.
            _ if core.state.is_stopping() => Err(Broken(io::Error::other("the server ends"))),
            _ => core.send_replies(id, from, out),
        };
        if written.is_ok() && (!out.is_empty() || keeps_room) {
            let output = mem::take(out);
            core.stats().output_peak_bytes.raise(output.len() as u64);
            core.conns[id].keep_output(output);
        }
        reply.clear(REPLY_KEEP_BYTES);
        match (written, stop) {
            // The reply is lost, and the connection with it: who is to be closed is closed nevertheless.
            (Err(broken), Stop::Ask(question)) => {
                core.abandon(core.conns[id].who(), [question]);
                Err(broken)
            }
            (written, stop) => written.map(|()| stop),
        }
    }

    /// Reads once, if there may be something. Returns the part of the scratch buffer that was filled, from `at` on; bytes
    /// for a connection with half a request go to its own buffer.
    pub(super) fn read(&mut self, id: ConnId, at: usize) -> Result<Range<usize>, Broken> {
        let Worker { core, buffers, .. } = self;
        let conn = &mut core.conns[id];
        if !conn.may_read() {
            return Ok(at..at);
        }
        if !conn.session().is_authenticated() && core.strangers_take_too_much() {
            // It is read in the next turn: the largest are closed at the end of this one, in which many may have come.
            return Ok(at..at);
        }
        let conn = &mut core.conns[id];
        let scratch = &mut buffers.scratch[at..];
        let reading = conn.read(scratch, &mut buffers.pool, &mut core.store);
        let reading = reading.map_err(Broken)?;
        let Some(count) = reading.count else { return Ok(at..at) };
        conn.session_mut().note_activity(core.now.steady_ms);
        // Settings may have changed since the turn began, before the client sent this.
        core.follow_config();
        let conn = &mut core.conns[id];
        let stats = &core.state.workers()[core.index].stats();
        stats.reads.add(1);
        stats.input_bytes.add(count as u64);
        stats.input_peak_bytes.raise((conn.requests().waiting_bytes() + reading.fresh) as u64);
        Ok(at..at + reading.fresh)
    }

    /// Closes the connection after a visit, or puts it where it goes on from.
    fn place_client(&mut self, id: ConnId, stop: &Stop) {
        let Worker { core, buffers, .. } = self;
        match stop {
            Stop::Busy => core.yield_when_busy(),
            Stop::Paused => core.hold_back(id),
            _ => {}
        }
        core.note_visit(id, matches!(stop, Stop::Busy));
        for author in core.authors() {
            core.publishers.wait_for_room(&mut core.conns[id], core.state.pubsub(), author);
        }
        let over_output = core.over_output(id) || core.over_stranger_limit(id);
        let over_query = core.over_query_limit(id);
        core.balance(id);
        let conn = &mut core.conns[id];
        let closes = conn.session().ends_after_reply() || matches!(stop, Stop::Close);
        if closes && !conn.waits(WaitReasons::QUESTION) {
            conn.wait(WaitReasons::CLOSING);
        }
        if over_output || over_query || (conn.is_done() && conn.output().is_empty()) {
            core.close(id);
            return;
        }
        let rests = matches!(stop, Stop::Busy) && conn.session().busy_tries() >= BUSY_TRIES
            || conn.may_read() && conn.requests().waits_for_room();
        // A reply in parts that waited for room has it, and the socket, which took all, reports nothing.
        let has_room = conn.output().len() <= UNSENT_MAX || conn.is_bound_to_go_on();
        let goes_on = conn.is_ongoing() && has_room;
        let more = (goes_on || matches!(stop, Stop::Again | Stop::Busy)) && conn.may_go_on() && !rests;
        let writes = !conn.output().is_empty() && conn.may_write();
        if rests {
            core.resting.add(conn.who(), core.now.instant);
        }
        if more || writes || conn.may_read() && !rests {
            core.conns.enqueue(id);
        }
        core.conns[id].requests_mut().release(&mut buffers.pool);
        core.count(id);
    }
}

impl Core {
    /// Executes one turn's worth of the requests in `fresh`, a part of the scratch buffer, or in the connection's own, and
    /// keeps the rest for the connection.
    fn execute(
        &mut self,
        id: ConnId,
        fresh: &mut [u8],
        pool: &mut Pool,
        early: Option<PreparsedTurn>,
        out: &mut Reply,
    ) -> Stop {
        let requests = self.conns[id].requests_mut();
        if requests.is_filling() {
            return Stop::Idle;
        }
        let stop = if fresh.is_empty() {
            let mut input = requests.take_input();
            let (done, stop) = self.turns(id, input.data_mut(), early, out);
            self.conns[id].requests_mut().put_back(input, done);
            stop
        } else {
            let (done, stop) = self.turns(id, fresh, early, out);
            self.conns[id].requests_mut().keep(&fresh[done..], pool);
            stop
        };
        let requests = self.conns[id].requests_mut();
        requests.set_finished(matches!(stop, Stop::Idle | Stop::Large(_)));
        match stop {
            Stop::Large(argument) => {
                requests.take_large(&argument, &mut self.store);
                Stop::Idle
            }
            stop => stop,
        }
    }

    /// Writes the output that waits in the connection.
    pub(super) fn flush_waiting(&mut self, id: ConnId) -> Result<(), Broken> {
        let conn = &mut self.conns[id];
        if !conn.output().is_empty() && conn.may_write() {
            let mut output = conn.take_output();
            self.write(id, &mut output)?;
            if !output.is_empty() || self.state.outputs_kept() {
                self.conns[id].keep_output(output);
            }
            self.balance(id);
        }
        Ok(())
    }

    /// Sends the replies of a visit, which stand behind byte number `from`, after everybody who must know of its changes first.
    fn send_replies(&mut self, id: ConnId, from: u64, out: &mut Reply) -> Result<(), Broken> {
        self.state.tracking().flush(self.index);
        self.barrier.stand_by(&mut self.conns[id], self.state.pubsub(), self.index);
        if !self.has_script_of_another(id) {
            let scripts = self.state.pubsub().scripts_of(self.index);
            self.state.tracking().flush(scripts);
            self.barrier.stand_by(&mut self.conns[id], self.state.pubsub(), scripts);
        }
        self.file_before_replies(id, from);
        self.deliver_behind_replies(id, out);
        // The connection's own output is out here; messages may wait behind a reply.
        let unsent = out.len() + self.conns[id].unsent_bytes();
        if self.over_output_limit(id, unsent, out.is_overflown()) {
            return Err(Broken(io::Error::other("more replies than the client may have unsent")));
        }
        let session = self.conns[id].session();
        if session.ends_after_reply() {
            // Once its client has the reply, nobody finds it any more: a redirection to it is broken.
            self.state.pubsub().leave(session.id());
        }
        self.write(id, out)
    }

    /// The replies wait for the append-only file if that is how it is kept, and so does all that the visit has published:
    /// they tell of changes.
    #[inline]
    fn file_before_replies(&mut self, id: ConnId, from: u64) {
        let until = self.store.take_awaited();
        self.state.pubsub().end_visit(self.index, until);
        self.end_visit_of_scripts(id, until);
        if until > 0 && self.config.append.fsync == Fsync::Always {
            self.filed.stand_by(&mut self.conns[id], &self.state.persist().aof, from, until);
        }
    }

    /// A client speaks another protocol: its connection ends, and the log says so, once a minute.
    #[cold]
    fn refuse_foreign(&mut self, id: ConnId) -> Broken {
        if self.state.may_warn_of_foreign(self.now.steady_ms) {
            let peer = self.conns[id].socket().ends().peer();
            tracing::warn!(
                "Possible SECURITY ATTACK detected. A client sent POST or Host:, as a browser does that was made to speak \
                 to this server in place of a web server. Connection from {peer} aborted."
            );
        }
        Broken(io::Error::other("another protocol"))
    }

    /// Writes replies to the connection's socket as far as it takes them.
    fn write(&mut self, id: ConnId, replies: &mut Reply) -> Result<(), Broken> {
        let conn = &mut self.conns[id];
        if replies.is_empty() || !conn.may_write() {
            return Ok(());
        }
        let done = conn.write(replies).map_err(Broken)?;
        let is_replica = conn.following().is_some();
        let stats = self.stats();
        stats.writes.add(done.writes);
        let sent = if is_replica { &stats.replica_output_bytes } else { &stats.output_bytes };
        sent.add(done.bytes as u64);
        // A client that takes its output is at work, although it asks for nothing meanwhile: `timeout` spares it.
        if done.bytes > 0 {
            self.conns[id].session_mut().note_activity(self.now.steady_ms);
        }
        Ok(())
    }

    /// After several turns in a row that found a shard busy, or the gate shut, the holder may need this core.
    fn yield_when_busy(&mut self) {
        if self.busy == 0 || !self.busy.is_multiple_of(BUSY_SPINS) {
            return;
        }
        if self.busy == BUSY_SPINS {
            self.busy_since = self.now.instant;
        }
        // The gate is mostly shut for some ten microseconds, and whoever sleeps before it holds up the next that want to be alone.
        let is_long = self.now.instant - self.busy_since >= SHUT_LONG;
        self.is_shut_out = is_long && !self.state.store().gate().is_open(self.index);
        if !self.is_shut_out {
            std::thread::yield_now();
        }
    }

    /// Behind a turn of the loop whose connections have found the gate shut: sleeps until it opens, but for a worker whose own
    /// script rests behind it. Once a turn, however many connections wait.
    #[inline]
    pub(super) fn sleep_when_shut_out(&mut self) {
        if std::mem::take(&mut self.is_shut_out) && self.script.is_none() {
            self.state.store().gate().await_open(self.index, SHUT_MAX);
        }
    }
}
