//! Executing a connection's requests: turns of the executor, and between them the commands of the server itself.
//!
//! ```text
//!   data --> turn --> Yield: the next turn    Server: a handler runs, the next turn    Exec: a transaction
//!              +----> all else ends it: input is missing, a shard is busy, the connection waits or ends
//! ```

use std::time::{Duration, Instant};

use varve_exec::batch::{PreparsedTurn, Turn, TurnState};
use varve_exec::checks::Denied;
use varve_exec::denials;
use varve_exec::monitor::Seen;
use varve_exec::pause::Pause;
use varve_exec::stats::LoggedCommand;
use varve_exec::{Caller, Command, Ran};
use varve_protocol::{Args, LargeArgument, Reply};

use super::core::Core;
use crate::features;
use crate::features::clients::state::Question;
use crate::features::command_log::state::Entry;
use crate::features::persist;
use crate::features::pubsub::state::ConnId;
use crate::net::conn::Parts;
use crate::state::Now;
use crate::state::ctx::{After, Part, ServerCtx};

/// Time from the end of its first turn after which a visit begins no further turn.
const VISIT_TIME: Duration = Duration::from_millis(1);
/// Bytes of replies from which on they are written before more is executed.
const WRITE_BYTES: usize = 64 * 1024;
/// Unsent bytes of a reply that comes in parts from which on no further part is made.
pub(super) const UNSENT_MAX: usize = 256 * 1024;
/// A command that took this long has the clock read again for those after it.
const CLOCK_STEP: Duration = Duration::from_millis(1);

/// Why a visit executes nothing more.
#[derive(Debug)]
pub(super) enum Stop {
    /// All whole requests that are here are done.
    Idle,
    /// The connection waits, and what is here waits with it.
    Waits,
    /// There is more, for a later turn.
    Again,
    /// A shard was busy.
    Busy,
    /// CLIENT PAUSE holds the next request back.
    Paused,
    /// Nothing more is to be executed.
    Close,
    /// The client speaks another protocol.
    Foreign,
    /// A question to all workers.
    Ask(Question),
    /// The next request waits for a large argument, at this place of what is not done.
    Large(LargeArgument),
}

impl Core {
    /// Whether a connection may begin turns, with these replies that are not sent: if so, whether the command that
    /// goes on does so whatever its client does. A command of the server that goes on makes its next
    /// part.
    fn may_begin(&mut self, id: ConnId, is_empty: bool, out: &mut Reply) -> Result<bool, Stop> {
        let conn = &mut self.conns[id];
        let is_ongoing = conn.is_ongoing();
        let is_bound = is_ongoing && conn.is_bound_to_go_on();
        if is_ongoing && out.len() > UNSENT_MAX && !is_bound {
            // The socket, once it takes more, has the connection visited again.
            return Err(Stop::Waits);
        }
        let is_empty = is_empty && !is_ongoing;
        if !conn.may_go_on() || is_empty {
            conn.requests_mut().set_want(1);
            return Err(if is_empty { Stop::Idle } else { Stop::Waits });
        }
        out.set_resp(self.conns[id].session().resp());
        self.go_on_in_parts(id, out).map_or(Ok(is_bound), Err)
    }

    /// Turns over `data`, from one command of the server itself to the next. Returns the bytes done.
    pub(super) fn turns(
        &mut self,
        id: ConnId,
        data: &mut [u8],
        early: Option<PreparsedTurn>,
        out: &mut Reply,
    ) -> (usize, Stop) {
        let is_bound = match self.may_begin(id, data.is_empty(), out) {
            Ok(is_bound) => is_bound,
            Err(stop) => return (0, stop),
        };
        self.batch.resume(early);
        let (mut done, mut clock) = (0, VisitClock::default());
        loop {
            if !self.follow_users(id) {
                return (done, Stop::Close);
            }
            // The command has let its key go, or has ended, and what comes next waits for the client.
            if is_bound && !self.conns[id].may_go_on() {
                return (done, Stop::Waits);
            }
            let turn = self.turn(id, &mut data[done..], out);
            self.conns[id].end_parts(out);
            let part = &data[done..done + turn.consumed];
            done += turn.consumed;
            let stop = match turn.state {
                TurnState::Yield => self.is_crowded().then_some(Stop::Again),
                TurnState::Server { command, start, spans } => {
                    self.deliver_before_own(id, out);
                    let (args, bytes) = (Args::new(&part[start..], &spans), part.len() - start);
                    let after = self.run_own(id, OwnRequest { command, args, bytes, exec_muted: None }, out);
                    if let After::Busy = after {
                        self.batch.put_back(&mut data[done - turn.consumed..]);
                        return (done - bytes, Stop::Busy);
                    }
                    self.stats().commands.add(1);
                    self.conns[id].session_mut().note_progress();
                    match after {
                        After::Block(blocked) => Some(self.stop(id, TurnState::Blocked(blocked))),
                        After::More(next) => {
                            let parts = Parts::new(command, args, next, self.conns[id].session().user());
                            Some(self.keep_parts(id, parts))
                        }
                        after => stop_after(after),
                    }
                }
                TurnState::Published(mark) => self.deliver_before_reply(id, mark, out).then_some(Stop::Again),
                TurnState::Close(mark) => {
                    self.deliver_last(id, mark, out);
                    Some(Stop::Close)
                }
                TurnState::Exec { command, bytes } => match self.transaction(id, command, out) {
                    None => Some(Stop::Busy),
                    Some(question) => {
                        done += bytes;
                        self.stats().commands.add(1);
                        let ends = || self.conns[id].session().ends_after_reply().then_some(Stop::Close);
                        question.map(Stop::Ask).or_else(ends)
                    }
                },
                state => Some(self.stop(id, state)),
            };
            if let Some(stop) = stop {
                return (done, stop);
            }
            if out.len() >= WRITE_BYTES || clock.is_over() {
                return (done, Stop::Again);
            }
        }
    }

    /// Tells the executor what is held back and refused at present; a link to a replica is not paused.
    pub(super) fn restrain(&mut self, is_replica: bool) {
        let pause = match () {
            () if self.state.is_stopping() => Pause::All,
            () if is_replica => Pause::None,
            () => self.state.pauses().now(self.now.steady_ms),
        };
        self.batch.set_pause(pause);
        let busy = self.state.scripts().running().busy_for(self.config.script_busy_ms);
        self.batch.set_denied(Denied { busy, ..persist::denied(&self.state, &self.config) });
    }

    /// One turn, and its counts.
    fn turn(&mut self, id: ConnId, data: &mut [u8], out: &mut Reply) -> Turn {
        self.batch.set_monitoring(self.state.monitors().any());
        // A replica says how far it is.
        self.restrain(self.conns[id].following().is_some());
        let conn = &mut self.conns[id];
        let was_ongoing = conn.session().is_ongoing();
        let (parser, large, session) = conn.turn_parts();
        let (store, table, now_ms) = (&mut self.store, &self.table, self.now.unix_ms);
        let turn = self.batch.turn(store, table, parser, session, now_ms, data, large, out);
        if turn.consumed > 0 {
            conn.requests_mut().ran();
        }
        self.stats().commands.add(turn.commands as u64);
        if self.store.now_ms() != self.now.unix_ms {
            self.now = Now::read();
        }
        self.account(id);
        if was_ongoing && !self.conns[id].session().is_ongoing() {
            self.settle_links();
            // Its client could ask for nothing meanwhile.
            self.conns[id].session_mut().note_activity(self.now.steady_ms);
        }
        self.busy = if matches!(turn.state, TurnState::Busy) { self.busy.wrapping_add(1) } else { 0 };
        turn
    }

    /// The stop that follows a turn's end.
    fn stop(&mut self, id: ConnId, state: TurnState) -> Stop {
        match state {
            TurnState::NeedInput { want, body } => {
                self.conns[id].requests_mut().set_want(want);
                body.map_or(Stop::Idle, Stop::Large)
            }
            TurnState::Busy => Stop::Busy,
            TurnState::Paused => Stop::Paused,
            TurnState::Blocked(blocked) => {
                let waits_for_copies = blocked.awaited().is_some();
                self.blocked.block(&mut self.conns[id], blocked, self.state.workers()[self.index].stats());
                if waits_for_copies {
                    self.look_for_copies(self.conns[id].session().id());
                }
                Stop::Waits
            }
            TurnState::Linked => {
                self.stand_by_link(id);
                Stop::Waits
            }
            TurnState::Script(script) => {
                self.stand_by_script(id, script);
                Stop::Waits
            }
            TurnState::Foreign => Stop::Foreign,
            TurnState::Yield
            | TurnState::Exec { .. }
            | TurnState::Published(_)
            | TurnState::Close(_)
            | TurnState::Server { .. } => unreachable!("the caller ends these"),
        }
    }

    /// Ends a turn or a transaction, outside the gate: replies go to clients that waited, beside what [`Core::report`] does.
    pub(super) fn account(&mut self, id: ConnId) {
        persist::follow(&self.state, &mut self.store, &self.config);
        self.report(id);
        self.deliver_served();
    }

    /// Commands that stand out go into their logs, lines to monitors.
    fn report(&mut self, id: ConnId) {
        self.note_slow(id);
        if let Some(denials) = self.batch.take_denials() {
            self.log_denials(id, denials);
        }
        if let Some(seen) = self.batch.take_monitored() {
            self.show_monitors(id, &seen);
        }
    }

    /// Sends lines of commands of this connection to all monitors.
    pub(super) fn show_monitors(&self, id: ConnId, seen: &[Seen]) {
        if !seen.is_empty() {
            let address = self.conns[id].socket().ends().peer();
            self.state.monitors().send(self.state.pubsub(), self.index, &address, seen);
        }
    }

    /// Puts commands that stand out into their logs, and what took long into the latency monitor.
    #[inline]
    fn note_slow(&mut self, id: ConnId) {
        if let Some(slow) = self.batch.slow().take_commands() {
            self.log_slow(id, slow);
        }
        if let Some(spikes) = self.batch.slow().take_spikes() {
            self.state.latency().add_all(&spikes);
        }
    }

    /// Puts commands of a connection into their logs.
    #[cold]
    pub(super) fn log_slow(&self, id: ConnId, slow: impl IntoIterator<Item = LoggedCommand>) {
        let conn = &self.conns[id];
        let mut logs = self.state.command_logs();
        for command in slow {
            let (peer, name) = (conn.socket().ends().peer(), denials::shown(conn.session().name()));
            let len_max = self.config.command_log_len_max[command.log as usize];
            logs.of(command.log).add(Entry { id: 0, command, peer, name }, len_max as usize);
        }
    }

    /// The context of a handler of the server, for a part of a request of this connection.
    pub(super) fn context<'c>(
        &'c mut self,
        id: ConnId,
        args: Args<'c>,
        part: Part,
        out: &'c mut Reply,
    ) -> ServerCtx<'c> {
        ServerCtx {
            args,
            state: &self.state,
            config: &self.config,
            store: &mut self.store,
            hub: &mut self.hub,
            conn: &mut self.conns[id],
            out,
            now: self.now,
            failed_login: None,
            part,
        }
    }

    /// The stop of a command of the server that goes on in parts: with the next of them, or, where the system refuses memory for the
    /// rest, with the end of the connection, whose request is done in part.
    #[cold]
    fn keep_parts(&mut self, id: ConnId, rest: Option<Parts>) -> Stop {
        let Some(rest) = rest else { return Stop::Close };
        self.conns[id].keep_parts(Box::new(rest));
        Stop::Again
    }

    /// Runs the next part of a command of the server, if one goes on; the visit's end if there is more of it.
    #[inline]
    fn go_on_in_parts(&mut self, id: ConnId, out: &mut Reply) -> Option<Stop> {
        let parts = self.conns[id].take_parts()?;
        self.run_part(id, parts, out)
    }

    #[cold]
    fn run_part(&mut self, id: ConnId, mut parts: Box<Parts>, out: &mut Reply) -> Option<Stop> {
        // The rights that it began with may be lost.
        if !self.follow_users(id) || !parts.allows(self.conns[id].session().user()) {
            return Some(Stop::Close);
        }
        let (command, args, next) = parts.rest();
        match features::run(command, &mut self.context(id, args, Part::From(next), out)) {
            Ok(After::Done) => {
                // Its client could ask for nothing meanwhile.
                self.conns[id].session_mut().note_activity(self.now.steady_ms);
                None
            }
            Ok(After::More(next)) => {
                parts.go_on_from(next);
                self.conns[id].keep_parts(parts);
                Some(Stop::Again)
            }
            other => unreachable!("a further part of {} has ended with {other:?}", command.full_name),
        }
    }

    /// Runs a command of the server itself. What follows it is the executor's account, as for all others.
    pub(super) fn run_own(&mut self, id: ConnId, request: OwnRequest<'_>, out: &mut Reply) -> After {
        let OwnRequest { command, args, bytes, exec_muted } = request;
        let conn = &mut self.conns[id];
        conn.requests_mut().set_running(bytes);
        conn.session_mut().begin_request(args.bytes());
        conn.session_mut().note_command(command);
        let mark = out.mark();
        let start = Instant::now();
        let part = if exec_muted.is_some() { Part::Whole } else { Part::From(0) };
        let mut ctx = self.context(id, args, part, out);
        let (after, result) = match features::run(command, &mut ctx) {
            Ok(after) => (after, Ok(())),
            Err(error) => (After::Done, Err(error)),
        };
        let failed_login = ctx.failed_login.take();
        if let After::Busy = after {
            self.conns[id].requests_mut().set_running(0);
            self.conns[id].session_mut().note_busy();
            return after;
        }
        let took = start.elapsed();
        if let Some(user) = failed_login {
            self.log_login(id, user, args);
        }
        // Whether a CONFIG SET of the slow log's threshold is slow goes by the new one.
        self.follow_config();
        let is_pending = matches!(after, After::Ask(_) | After::Wait | After::Block(_));
        let conn = &mut self.conns[id];
        conn.requests_mut().set_running(if is_pending { bytes } else { 0 });
        let session = conn.session_mut();
        let caller = match exec_muted {
            Some(muted) => Caller::Exec { session, muted },
            None => Caller::Client(session),
        };
        let mut nanos = Some(took.as_nanos() as u64);
        if let After::Block(_) = after {
            // Its duration is known when it is served, and counts for nothing if its time is up.
            self.state.workers()[self.index].commands().count_waiting(command, nanos.take().unwrap_or_default());
        }
        let now_ms = self.now.unix_ms;
        // A MONITOR may have begun or ended since the turn began.
        self.batch.set_monitoring(self.state.monitors().any());
        self.batch.after(Ran { row: command, args, result, mark, nanos, now_ms, is_pending }, caller, out);
        self.report(id);
        if took >= CLOCK_STEP {
            self.now = Now::read();
        }
        after
    }
}

/// The time of one visit. It begins with the second turn: most visits have one, and read no clock.
#[derive(Default)]
struct VisitClock(Option<Instant>);

impl VisitClock {
    /// True if no further turn is to begin.
    fn is_over(&mut self) -> bool {
        let now = Instant::now();
        now.duration_since(*self.0.get_or_insert(now)) >= VISIT_TIME
    }
}

/// A request that the server itself runs.
pub(super) struct OwnRequest<'a> {
    pub(super) command: &'static Command,
    pub(super) args: Args<'a>,
    /// Length of the request as it was sent.
    pub(super) bytes: usize,
    /// Inside EXEC: whether EXEC's own reply is dropped.
    pub(super) exec_muted: Option<bool>,
}

/// How a visit goes on after a command of the server itself; None: with the next request.
fn stop_after(after: After) -> Option<Stop> {
    match after {
        After::Done => None,
        After::Close => Some(Stop::Close),
        After::Wait | After::Block(_) => Some(Stop::Waits),
        After::Busy => Some(Stop::Busy),
        After::Ask(question) => Some(Stop::Ask(question)),
        After::More(_) => unreachable!("the caller keeps the rest of the request"),
    }
}
