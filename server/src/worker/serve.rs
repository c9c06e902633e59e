//! One visit to a connection: write what waits, read once, execute one turn, write the replies. Several connections are
//! read before the first of them is executed: group.rs.
//!
//! ```text
//!   flush what waits --> read once --> one turn (64 commands or 64 KB) --> write the replies --> settle
//!                          |             |                                                        |
//!                 scratch buffer, or     Host: a handler of the server runs it,                   +-> ready queue: more
//!                 the connection's own   then the turn goes on with the rest                      +-> closed
//!                 with half a request    Ask: the connection waits for all workers                +-> idle: no buffers
//! ```
//!
//! A large argument of a command that may need memory is read straight into a run of segments (net/conn/large.rs).
//!
//! Sockets report edges, so what a visit leaves unread or unwritten must stand in the ready queue or be known to be
//! blocked. Bounded reads and turns keep one connection from starving the others.

use std::io;
use std::mem;
use std::ops::Range;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use varve_exec::Command;
use varve_exec::batch::{PreparsedTurn, TurnState};
use varve_exec::large_arguments as bodies;
use varve_exec::monitor::Seen;
use varve_exec::stats::SlowCommand;
use varve_exec::tracking;
use varve_protocol::{Args, LargeArgument, Reply};

use super::Worker;
use crate::features::clients::state::{ClientClass, Question};
use crate::features::slowlog::state::Entry;
use crate::features::{self, clients};
use crate::net::conn::{Conn, Filling, Flushed, Input, Phase, Pool, flush};
use crate::state::ctx::{After, ServerCtx};
use crate::state::{Now, ServerState};

/// Bytes read into a connection's own buffer in one visit.
const READ_BYTES: usize = 256 * 1024;
/// Memory that the worker's reply buffer keeps from one turn to the next.
const REPLY_KEEP_BYTES: usize = 128 * 1024;
/// Commands of the server itself that one visit runs.
const HOST_COMMANDS_MAX: u32 = 64;
/// Turns over what one read brought before its replies are written: a pipeline of 256 commands costs one write.
const TURNS_MAX: u32 = 4;
/// Replies from which on they are written before more is executed.
const WRITE_BYTES: usize = 64 * 1024;
/// Busy turns in a row after which the worker lets other threads run.
const BUSY_SPINS: u32 = 16;

/// A command that took so long has the clock read again for those after it.
const CLOCK_STEP: Duration = Duration::from_millis(1);

/// Why a turn ended.
#[derive(Debug)]
pub(super) enum Stop {
    /// All that is here is done.
    Idle,
    /// There is more, for a later turn.
    Again,
    /// A shard was busy.
    Busy,
    /// CLIENT PAUSE holds the next request back.
    Paused,
    /// Nothing more is to be executed.
    Close,
    /// A question to all workers.
    Ask(Question),
    /// The next request waits for a large argument, at this place of what is not done.
    Body(LargeArgument),
}

/// A connection that failed; the reason is of interest for the log only.
pub(super) struct Broken(io::Error);

impl Worker {
    /// See the module's picture.
    pub(super) fn visit(&mut self, slot: usize) {
        let served = match self.flush_waiting(slot) {
            Ok(()) if self.is_behind(slot) => return,
            Ok(()) => self.read(slot, 0).and_then(|fresh| self.serve(slot, fresh, None)),
            Err(broken) => Err(broken),
        };
        self.follow(slot, served);
    }

    /// What follows on what was done for a connection.
    pub(super) fn follow(&mut self, slot: usize, served: Result<Stop, Broken>) {
        match served {
            Ok(Stop::Ask(question)) => self.ask(slot, question),
            Ok(stop) => self.settle(slot, &stop),
            Err(Broken(error)) => {
                tracing::debug!("closing a client: {error}");
                self.close(slot);
            }
        }
    }

    /// Writes what waits in the connection's output.
    fn flush_waiting(&mut self, slot: usize) -> Result<(), Broken> {
        let conn = &mut *self.conns[slot];
        if !conn.output.is_empty() && conn.may_write() {
            let mut output = mem::take(&mut conn.output);
            self.write(slot, &mut output)?;
            if !output.is_empty() || self.state.outputs_kept.load(Ordering::Relaxed) {
                self.conns[slot].output = output;
            }
            self.conns[slot].balance();
        }
        Ok(())
    }

    /// Executes what lies in this part of the scratch buffer, or in the connection's own, and writes the replies.
    pub(super) fn serve(
        &mut self,
        slot: usize,
        fresh: Range<usize>,
        early: Option<PreparsedTurn>,
    ) -> Result<Stop, Broken> {
        let conn = &mut *self.conns[slot];
        let mut out = mem::take(if conn.output.is_empty() { &mut self.reply } else { &mut conn.output });
        let stop = self.execute(slot, fresh, early, &mut out);
        self.state.tracking.flush(self.index);
        self.stand_by(slot);
        self.deliver_behind_replies(slot, &mut out);
        if self.over_output_limit(slot, out.len()) {
            return Err(Broken(io::Error::other("more replies than the client may have unsent")));
        }
        self.write(slot, &mut out)?;
        if out.is_empty() {
            out.clear(REPLY_KEEP_BYTES);
            self.reply = out;
        } else {
            let peak = &self.state.workers[self.index].stats.output_peak_bytes;
            peak.raise(out.len() as u64);
            self.conns[slot].output = out;
        }
        Ok(stop)
    }

    /// Reads once, if there may be something. Returns what lies in the scratch buffer, from `at` on; what a connection
    /// with half a request gets goes to its own buffer.
    pub(super) fn read(&mut self, slot: usize, at: usize) -> Result<Range<usize>, Broken> {
        let conn = &mut *self.conns[slot];
        if !conn.may_read() {
            return Ok(at..at);
        }
        if conn.large.is_filling() {
            self.read_body(slot)?;
            return Ok(at..at);
        }
        let own = !conn.input.is_empty();
        let room = if own { conn.input.room(conn.want, &mut self.pool) } else { &mut self.scratch[at..] };
        let bound = room.len().min(READ_BYTES);
        let result = conn.stream.read(&mut room[..bound]);
        let count = self.count_read(slot, result, bound)?;
        let conn = &mut *self.conns[slot];
        if own {
            conn.input.filled(count);
            let stats = &self.state.workers[self.index].stats;
            stats.input_peak_bytes.raise(conn.input.len() as u64);
            return Ok(at..at);
        }
        Ok(at..at + count)
    }

    /// What a read of at most `bound` bytes came to: the bytes that are there.
    #[inline]
    fn count_read(&mut self, slot: usize, result: io::Result<usize>, bound: usize) -> Result<usize, Broken> {
        let conn = &mut *self.conns[slot];
        let count = match result {
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                conn.readable = false;
                return Ok(0);
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return Ok(0),
            Err(error) => return Err(Broken(error)),
        };
        conn.ended = count == 0;
        // A short read has emptied the socket, unless the peer's farewell lies behind the bytes.
        conn.readable = count > 0 && (count == bound || conn.hung_up);
        conn.session.active_ms = self.now.unix_ms;
        let stats = &self.state.workers[self.index].stats;
        stats.reads.add(1);
        stats.input_bytes.add(count as u64);
        Ok(count)
    }

    /// Reads once into the run of the large argument that is coming, after room for it was admitted; without room, into
    /// nothing.
    fn read_body(&mut self, slot: usize) -> Result<(), Broken> {
        let conn = &mut *self.conns[slot];
        if let Filling::Run(run) = conn.large.filling() {
            let bytes = run.rest().len().min(READ_BYTES);
            if !bodies::admit(&mut self.store, bytes) {
                conn.large.deny();
            }
        }
        let (result, bound) = match conn.large.filling() {
            Filling::Run(run) => {
                let bound = run.rest().len().min(READ_BYTES);
                (conn.stream.read(&mut run.rest()[..bound]), bound)
            }
            Filling::Dropping(left) => {
                let bound = self.scratch.len().min(*left);
                (conn.stream.read(&mut self.scratch[..bound]), bound)
            }
        };
        let count = self.count_read(slot, result, bound)?;
        let conn = &mut *self.conns[slot];
        match conn.large.filling() {
            Filling::Run(run) => run.advance(count),
            Filling::Dropping(left) => *left -= count,
        }
        let peak = &self.state.workers[self.index].stats.input_peak_bytes;
        peak.raise((conn.input.len() + conn.large.bytes()) as u64);
        if conn.large.is_whole() {
            conn.parser.supply();
            conn.want = 2;
        }
        Ok(())
    }

    /// Takes a large argument out of the connection's input, from where it begins: what there is of it goes into a run,
    /// what is missing is read into it.
    #[cold]
    fn take_body(&mut self, slot: usize, body: LargeArgument) {
        let conn = &mut *self.conns[slot];
        let begun = &conn.input.data()[body.at..];
        // All there but for the line's end: no run saves anything any more.
        if begun.len() >= body.len {
            return;
        }
        let Some(mut run) = bodies::begin(&self.store, body.len) else { return };
        if bodies::admit(&mut self.store, begun.len()) {
            run.rest()[..begun.len()].copy_from_slice(begun);
            run.advance(begun.len());
            conn.large.begin(run);
        } else {
            conn.large.begin_dropping(body.len - begun.len());
        }
        conn.input.truncate(body.at);
    }

    /// Executes one turn's worth of what is in this part of the scratch buffer or in the connection's own, and keeps the
    /// rest for the connection.
    fn execute(&mut self, slot: usize, fresh: Range<usize>, early: Option<PreparsedTurn>, out: &mut Reply) -> Stop {
        if self.conns[slot].large.is_filling() {
            return Stop::Idle;
        }
        let mut held = mem::take(&mut self.conns[slot].input);
        let mut scratch = mem::take(&mut self.scratch);
        let data = if fresh.is_empty() { held.data_mut() } else { &mut scratch[fresh.clone()] };
        let (done, stop) = self.turns(slot, data, early, out);
        keep(&mut held, &scratch[fresh], done, &mut self.pool);
        self.scratch = scratch;
        self.conns[slot].input = held;
        match stop {
            Stop::Body(body) => {
                self.take_body(slot, body);
                Stop::Idle
            }
            stop => stop,
        }
    }

    /// Turns over `data`, from one command of the server itself to the next. Returns the bytes done.
    fn turns(&mut self, slot: usize, data: &mut [u8], early: Option<PreparsedTurn>, out: &mut Reply) -> (usize, Stop) {
        let conn = &mut *self.conns[slot];
        if !conn.may_run() || data.is_empty() {
            conn.want = 1;
            return (0, Stop::Idle);
        }
        out.set_resp(conn.session.resp);
        self.batch.resume(early);
        let (mut done, mut turns) = (0, 0);
        for _ in 0..HOST_COMMANDS_MAX {
            let conn = &mut *self.conns[slot];
            self.batch.set_monitoring(self.state.monitors.any());
            self.batch.set_pause(self.state.pauses.now(self.now.unix_ms));
            let turn = self.batch.turn(
                &mut self.store,
                &self.table,
                &mut conn.parser,
                &mut conn.session,
                self.now.unix_ms,
                &mut data[done..],
                &conn.large.bodies,
                out,
            );
            if turn.consumed > 0 && !conn.large.bodies.is_empty() {
                conn.large.bodies.clear();
            }
            let part = &data[done..done + turn.consumed];
            done += turn.consumed;
            self.state.workers[self.index].stats.commands.add(turn.commands as u64);
            if self.store.now_ms() != self.now.unix_ms {
                self.now = Now::read();
            }
            self.account(slot);
            self.busy = if matches!(turn.state, TurnState::Busy) { self.busy + 1 } else { 0 };
            let stop = match turn.state {
                TurnState::NeedInput { want, body } => {
                    self.conns[slot].want = want;
                    body.map_or(Stop::Idle, Stop::Body)
                }
                TurnState::Yield => {
                    turns += 1;
                    if turns < TURNS_MAX && out.len() < WRITE_BYTES {
                        continue;
                    }
                    Stop::Again
                }
                TurnState::Busy => Stop::Busy,
                TurnState::Paused => Stop::Paused,
                TurnState::Blocked(blocked) => {
                    self.block(slot, blocked);
                    Stop::Idle
                }
                TurnState::Close => Stop::Close,
                TurnState::Exec(exec) => match self.transaction(slot, exec, out) {
                    Some(question) => Stop::Ask(question),
                    None if self.conns[slot].session.close_after_reply => Stop::Close,
                    None => continue,
                },
                TurnState::Server { descriptor, start, spans } => {
                    match self.host(slot, descriptor, Args::new(&part[start..], &spans), part.len() - start, out) {
                        After::Done => continue,
                        After::Close => Stop::Close,
                        After::Ask(question) => Stop::Ask(question),
                    }
                }
            };
            return (done, stop);
        }
        (done, Stop::Again)
    }

    /// What follows a turn: slow commands into the log, lines to monitors, replies to clients that waited.
    fn account(&mut self, slot: usize) {
        self.note_slow(slot);
        let conn = &*self.conns[slot];
        if let Some(seen) = self.batch.take_monitored() {
            self.state.monitors.tell(&self.state.pubsub, self.index, &conn.ends.peer(), &seen);
        }
        self.deliver();
    }

    /// Puts what took long into the slow log and the latency monitor.
    #[inline]
    fn note_slow(&mut self, slot: usize) {
        if let Some(slow) = self.batch.slow().take_commands() {
            add_slow(&self.state, self.config.slowlog_len_max, &self.conns[slot], slow);
        }
        if let Some(spikes) = self.batch.slow().take_spikes() {
            self.state.latency.lock().add_all(&spikes);
        }
    }

    /// Runs a command of the server itself, with the counting and timing that the batch does for all others.
    pub(super) fn host(
        &mut self,
        slot: usize,
        descriptor: &'static Command,
        args: Args<'_>,
        bytes: usize,
        out: &mut Reply,
    ) -> After {
        let conn = &mut *self.conns[slot];
        conn.request_bytes = bytes;
        conn.session.argument_bytes = args.bytes();
        conn.session.last = Some(descriptor);
        let mark = out.mark();
        let start = Instant::now();
        let mut ctx = ServerCtx {
            args,
            state: &self.state,
            config: &self.config,
            store: &mut self.store,
            hub: &mut self.hub,
            slot,
            conn,
            out,
            now: self.now,
        };
        let after = features::run(descriptor, &mut ctx).unwrap_or_else(|error| {
            self.batch.stats().fail(descriptor, &error, mark, out);
            After::Done
        });
        let may_push = self.conns[slot].listens() && !self.conns[slot].session.in_exec;
        if may_push && self.owes_delivery() {
            self.deliver_before_reply(slot, mark, out);
        }
        self.ran_for_host(slot, descriptor, args);
        let took = start.elapsed();
        let stats = self.batch.stats();
        stats.count(descriptor, 1, took.as_nanos() as u64);
        self.batch.slow().note(descriptor, args, self.now.unix_ms, took.as_nanos() as u64);
        self.note_slow(slot);
        if took >= CLOCK_STEP {
            self.now = Now::read();
        }
        let conn = &mut *self.conns[slot];
        let ends = !matches!(after, After::Ask(_)) && !conn.session.in_exec;
        if ends && conn.session.drop_reply() && !descriptor.confirms_always() {
            out.truncate(mark);
        }
        conn.request_bytes = if matches!(after, After::Ask(_)) { bytes } else { 0 };
        self.follow_config();
        after
    }

    /// What follows a command of the server itself, as the batch does it for all others.
    fn ran_for_host(&mut self, slot: usize, descriptor: &'static Command, args: Args<'_>) {
        let conn = &mut *self.conns[slot];
        tracking::ran(&mut conn.session, descriptor);
        if !self.state.monitors.any() {
            return;
        }
        if let Some(seen) = Seen::new(descriptor, args, conn.session.db) {
            self.state.monitors.tell(&self.state.pubsub, self.index, &conn.ends.peer(), &[seen]);
        }
    }

    /// Writes replies to the connection's socket as far as it takes them.
    fn write(&mut self, slot: usize, replies: &mut Reply) -> Result<(), Broken> {
        let conn = &mut *self.conns[slot];
        if replies.is_empty() || !conn.may_write() {
            return Ok(());
        }
        let done = flush(&conn.stream, replies).map_err(Broken)?;
        conn.blocked = done.end == Flushed::Blocked;
        let stats = &self.state.workers[self.index].stats;
        stats.writes.add(done.writes);
        stats.output_bytes.add(done.bytes as u64);
        Ok(())
    }

    /// What becomes of the connection after a visit.
    fn settle(&mut self, slot: usize, stop: &Stop) {
        self.wait_for_room(slot);
        let over_output = self.over_output_limit(slot, self.conns[slot].output.len());
        let over_query = self.over_query_limit(slot);
        let conn = &mut *self.conns[slot];
        conn.balance();
        // While a question is out its answer is still to come.
        if conn.phase != Phase::Waiting && (conn.session.close_after_reply || matches!(stop, Stop::Close)) {
            conn.phase = Phase::Closing;
        }
        let done = match conn.phase {
            Phase::Closing => true,
            Phase::Open => conn.ended && !conn.paused && matches!(stop, Stop::Idle),
            Phase::Blocked => conn.ended,
            Phase::Waiting => false,
        };
        if over_output || over_query || (done && conn.output.is_empty()) {
            self.close(slot);
            return;
        }
        let more = matches!(stop, Stop::Again | Stop::Busy) && conn.may_run();
        let writes = !conn.output.is_empty() && conn.may_write();
        if more || writes || conn.may_read() {
            self.queue(slot);
        }
        if matches!(stop, Stop::Busy) {
            self.yield_when_busy();
        }
        if matches!(stop, Stop::Paused) {
            self.hold_back(slot);
        }
        self.conns[slot].input.release(&mut self.pool);
        self.weigh(slot);
    }

    /// After several turns in a row that found a shard busy, its holder may need this core.
    fn yield_when_busy(&mut self) {
        if self.busy >= BUSY_SPINS {
            self.busy = 0;
            std::thread::yield_now();
        }
    }

    /// True if the connection has more unsent output, these bytes, than its class may have. As in Redis, what is over
    /// the limit is not even tried to be sent.
    pub(super) fn over_output_limit(&mut self, slot: usize, bytes: usize) -> bool {
        let conn = &mut *self.conns[slot];
        let limit = self.config.output_limits[ClientClass::of(conn).limit()];
        let waiting = bytes as u64;
        if limit.soft_bytes == 0 || waiting <= limit.soft_bytes {
            conn.soft_ms = None;
        } else if conn.soft_ms.is_none() {
            conn.soft_ms = Some(self.now.unix_ms);
        }
        let soft_ms = limit.soft_s as i64 * 1000;
        let too_long = conn.soft_ms.is_some_and(|since| self.now.unix_ms - since > soft_ms);
        let over = too_long || (limit.hard_bytes > 0 && waiting > limit.hard_bytes);
        if over {
            let line = clients::line(conn, self.now.unix_ms);
            tracing::warn!("Client {line} scheduled to be closed ASAP for overcoming of output buffer limits.");
            self.state.workers[self.index].stats.output_limit_closed.add(1);
        }
        over
    }

    /// True if the connection has sent more that waits than a client may.
    fn over_query_limit(&self, slot: usize) -> bool {
        let conn = &*self.conns[slot];
        let waiting = conn.input.len() + conn.large.bytes() + conn.session.queued_bytes;
        let over = waiting as u64 > self.config.query_buffer_bytes_max;
        if over {
            let line = clients::line(conn, self.now.unix_ms);
            let start = conn.input.data()[..conn.input.len().min(64)].escape_ascii();
            tracing::warn!(
                "Closing client that reached max query buffer length: {line} (qbuf initial bytes: \"{start}\")"
            );
            self.state.workers[self.index].stats.query_limit_closed.add(1);
        }
        over
    }
}

/// Keeps for the connection what is left: of the scratch buffer a copy, of its own buffer the rest where it lies.
fn keep(held: &mut Input, fresh: &[u8], done: usize, pool: &mut Pool) {
    if fresh.is_empty() {
        held.consume(done);
    } else {
        held.hold(&fresh[done..], pool);
    }
}

/// Puts slow commands of a connection into the log.
fn add_slow(state: &ServerState, len_max: u64, conn: &Conn, slow: Vec<SlowCommand>) {
    let mut log = state.slowlog.lock();
    for command in slow {
        log.add(Entry { id: 0, command, peer: conn.ends.peer(), name: conn.session.name.clone() }, len_max as usize);
    }
}
