//! The executor: one turn of one connection.
//!
//! ```text
//! input:   |req|req|req|....|partial
//!            1  parse all complete requests in place, look commands up, hash keys, prefetch buckets
//!            2  under try_lock: match tags, prefetch objects
//!            3  run in order: admit, hold shards, the handler writes the reply; the shards stay held if the next
//!               command needs the same
//!            4  release, park, leave the gate          (the caller writes all replies at once)
//! ```
//! Step 1 is batch/parse.rs; what a command leaves behind beside its reply is batch/account.rs.
//!
//! A turn ends after 64 commands, 64 KB of requests, 1 MB of replies or a millisecond. A request whose shard is busy ends it too, with nothing of that request
//! done. Nothing here allocates once the scratch space has grown to what the connections send.

use std::sync::Arc;
use std::time::Instant;

use varve_base::refusable;
use varve_catalog::Flags;
use varve_protocol::{Args, LargeArgument, LargeSlices, Mark, Parser, ProtocolError, Reply, Span};
use varve_store::{NotAdmitted, ShardSet, StoreWorker, Tx};

use crate::blocking;
use crate::checks::Denied;
use crate::command::{Command, CommandTable, Exec, Unresolved};
use crate::ctx::Ctx;
use crate::denials::DeniedRequest;
use crate::errors::{CmdResult, CommandError};
use crate::invoke::{Caller, Observers, Ran, WideCall};
use crate::large_arguments::{LargeArguments, Slices};
use crate::monitor::Seen;
use crate::multi::bytes_to_admit;
use crate::notify::{Events, Publisher};
use crate::pause::Pause;
use crate::sampled::Samples;
use crate::session::Session;
use crate::stats::{CommandStats, Slow, SpikeEvent};
use crate::waiting::{Blocked, Served};
use crate::{checks, last_command, tracking};

mod account;
mod alone;
mod go_on;
mod holding;
mod large;
mod noted;
mod parse;
mod prefetch;
mod preparse;
mod request;
mod script;
mod slices;
mod stage;
mod times;
mod transaction;

use account::{SharedTime, whole_ms};
use alone::{Place, run_unkeyed, stands_back};
use holding::{TRIES_MAX, hold, list_shards, names_frozen, take};
use noted::{LastReply, end_stretch};
use parse::{Recent, Tail, Work, wanted_body};
use prefetch::Prefetcher;
use preparse::Preparsed;
pub use preparse::PreparsedTurn;
pub use slices::ServerCall;
use stage::Scripts;
pub use stage::{EndedScript, RestingScript, ScriptParts};
pub use times::TurnTimes;
pub use transaction::Transaction;

/// Commands of one turn at most.
const TURN_COMMANDS: usize = 64;
/// Bytes of requests after which no further one joins the turn.
const TURN_BYTES: usize = 64 << 10;
/// Bytes of replies after which no further command runs in the turn: 64 GETs of 512 MB must not all be answered before
/// the caller sees how much waits to be sent.
const TURN_REPLY_BYTES: usize = 1 << 20;
/// How many commands in a row may keep the same shards held; long ones count more than once.
const KEEP_MAX: usize = 16;
/// This number of arguments counts as another command: twenty fields are set in the time of six short commands.
const KEEP_ARGS: usize = 8;
/// A request that misses less than this is read to its end as it is.
const BODY_WANT_MIN: usize = 1024;

/// Scratch space of a worker's turns, and its counters.
pub struct Batch {
    work: Work,
    preparsed: Preparsed,
    shards: ShardSet,
    observers: Observers,
    /// The commands that are held back (CLIENT PAUSE).
    pause: Pause,
    /// The commands that are refused.
    denied: Denied,
    prefetcher: Prefetcher,
    /// The worker's scripts; None: there are no commands that run any.
    scripts: Option<Box<Scripts>>,
    /// Commands found lately.
    recent: Recent,
    /// When turns and scripts make room for others.
    times: TurnTimes,
}

/// How a turn ended.
#[derive(Debug)]
pub struct Turn {
    /// Bytes of input that are done with.
    pub consumed: usize,
    /// Commands that ran.
    pub commands: usize,
    /// The state of the connection, which says what comes next.
    pub state: TurnState,
}

/// The state of a connection after a turn.
#[derive(Debug)]
pub enum TurnState {
    /// All complete requests are done; at least `want` more bytes are needed for the next.
    NeedInput {
        /// Bytes missing, as far as is known: sizes buffers.
        want: usize,
        /// A large body among them, its place relative to the input that is not consumed. The caller may read it into
        /// a run of its own, tell the parser so, and give it with the rest.
        body: Option<LargeArgument>,
    },
    /// The turn's budget is spent; there is more in the input.
    Yield,
    /// A shard is busy, or another worker is alone behind the gate; nothing of the next request has been done.
    Busy,
    /// CLIENT PAUSE holds the next request back; nothing of it has been done.
    Paused,
    /// The server runs this request, which counts as consumed, and goes on with the next turn.
    Server {
        /// The command, or its subcommand where it has such.
        command: &'static Command,
        /// Where the request starts in the input.
        start: usize,
        /// Its arguments, relative to `start`.
        spans: Vec<Span>,
    },
    /// The server runs this transaction, which has commands of its own in it ([`Transaction`]), and goes on with the
    /// next turn behind the request. If the gate is not to be had, the request is tried again: it is not consumed.
    Exec {
        /// EXEC.
        command: &'static Command,
        /// Bytes from what was consumed to the end of the request.
        bytes: usize,
    },
    /// The last command waits for its keys, and those behind it wait for its reply.
    Blocked(Blocked),
    /// The last command runs a script, which rests. The caller goes on with it, slice by slice, and ends it
    /// ([`Batch::end_script`]); the requests behind it wait for its reply.
    Script(RestingScript),
    /// The command that goes on waits for its link ([`Session::link`]).
    Linked,
    /// A client that is subscribed itself has published: it gets its own message before the reply, which begins at this
    /// mark.
    Published(Mark),
    /// Flush the output, then close. The reply of the command that ends the connection begins at this mark.
    Close(Mark),
    /// The next request is a line of another protocol, sent by somebody who does not know what is listening here: close at
    /// once, without a reply. Where a file is replayed: it names no command, or one with other arguments.
    Foreign,
}

/// Why running stopped before the last request.
enum Stop {
    Busy,
    /// Another worker is alone behind the gate.
    Shut,
    /// The next request is held back.
    Paused,
    Server(&'static Command),
    /// EXEC of a transaction that the server must run.
    Exec(&'static Command),
    Blocked(Blocked),
    /// A script rests, and its client waits for its end.
    Script(RestingScript),
    /// The connection ends; its last reply begins here.
    Close(Mark),
    /// The next request is a line of another protocol.
    Foreign,
    /// A client that is subscribed itself has published; its reply begins here.
    Published(Mark),
    /// The database changed: hashes computed before no longer hold.
    Selected,
    /// The replies are enough for one turn.
    Full,
    /// The last command goes on in the next turn.
    GoesOn,
}

impl Batch {
    /// Empty scratch space, with the counters that it feeds.
    pub fn new(stats: Arc<CommandStats>) -> Batch {
        Batch {
            work: Work::default(),
            preparsed: Preparsed::default(),
            shards: ShardSet::default(),
            observers: Observers::new(stats),
            pause: Pause::None,
            denied: Denied::NONE,
            prefetcher: Prefetcher::default(),
            scripts: None,
            recent: Recent::default(),
            times: TurnTimes::SERVED,
        }
    }

    /// The counters.
    pub fn stats(&self) -> &Arc<CommandStats> {
        &self.observers.stats
    }

    /// Sets when turns and scripts make room for others, and when samples are taken; else it is as in a server
    /// ([`TurnTimes::SERVED`]).
    pub fn set_times(&mut self, times: TurnTimes) {
        self.observers.sampling.set_times(times.samples.clone());
        self.times = times;
    }

    /// The commands that took long; whoever runs a turn takes them out.
    #[inline]
    pub fn slow(&mut self) -> &mut Slow {
        &mut self.observers.slow
    }

    /// The arguments of a parsed request.
    fn args_of<'t>(&'t self, n: usize, input: &'t [u8], outside: &'t LargeSlices<'t>) -> Args<'t> {
        self.work.args(&self.work.requests[n], input, outside)
    }

    /// Sets who publishes the worker's keyspace events and its clients' messages, and `of_scripts` those of its scripts, whose
    /// parts are set before: a script may rest between two of them.
    pub fn set_events<E>(&mut self, worker: &mut StoreWorker, events: E, of_scripts: E)
    where
        E: Events + Clone + Send + 'static,
    {
        if let Some(scripts) = &mut self.scripts {
            scripts.set_events(of_scripts);
        }
        worker.set_event_sink(Box::new(Publisher::new(events.clone())));
        self.observers.events = Some(Box::new(events));
    }

    /// Ends a command that the server ran, in the way in which all others are ended.
    pub fn after(&mut self, ran: Ran<'_>, caller: Caller<'_>, out: &mut Reply) {
        self.observers.after(ran, caller, None, out);
    }

    /// The replies to clients that waited, since the last call: to be given to their workers before the replies of the
    /// commands that served them leave.
    pub fn take_served(&mut self) -> Option<Vec<Served>> {
        (!self.observers.served.is_empty()).then(|| std::mem::take(&mut self.observers.served))
    }

    /// The requests that users had no right to, since the last call.
    #[inline]
    pub fn take_denials(&mut self) -> Option<Vec<DeniedRequest>> {
        self.observers.denials.take()
    }

    /// Holds commands back from now on, or no longer.
    #[inline]
    pub fn set_pause(&mut self, pause: Pause) {
        self.pause = pause;
    }

    /// Refuses commands from now on, or no longer.
    #[inline]
    pub fn set_denied(&mut self, denied: Denied) {
        self.denied = denied;
    }

    /// True if keys and fields whose time is over stay where a command meets them: nothing may change while writes are paused, and
    /// on some replicas ([`Denied::hides_overdue`]).
    #[inline]
    fn hides_overdue(&self, writes: bool) -> bool {
        self.pause != Pause::None || self.denied.hides_overdue(writes)
    }

    /// The pause that turns run under.
    pub fn pause(&self) -> Pause {
        self.pause
    }

    /// Notes every command that runs from now on, or not (MONITOR).
    #[inline]
    pub fn set_monitoring(&mut self, on: bool) {
        if on != self.observers.monitored.is_some() {
            self.observers.monitored = on.then(Vec::new);
        }
    }

    /// The commands noted since the last call, oldest first.
    pub fn take_monitored(&mut self) -> Option<Vec<Seen>> {
        self.observers.monitored.as_mut().filter(|seen| !seen.is_empty()).map(std::mem::take)
    }

    /// Parses and runs complete requests at the front of `input`, at most 64 commands or 64 KB. Replies go to `out`.
    /// `bodies` are those of the first request that lie elsewhere; when anything is consumed they are done with. The
    /// worker's time is `now_ms` and moves on behind commands that take a millisecond or more.
    #[allow(clippy::too_many_arguments, reason = "the parts of a connection and of a worker, borrowed apart")]
    pub fn turn(
        &mut self,
        worker: &mut StoreWorker,
        table: &CommandTable,
        parser: &mut Parser,
        session: &mut Session,
        now_ms: i64,
        input: &mut [u8],
        bodies: &mut LargeArguments,
        out: &mut Reply,
    ) -> Turn {
        worker.set_now(now_ms);
        worker.set_client(session.id());
        worker.set_no_touch(session.is_no_touch());
        if session.is_ongoing() {
            let out_max = out.len() + TURN_REPLY_BYTES;
            return self.go_on((worker, table), session, out, out_max);
        }
        let parsed = if bodies.is_empty() { None } else { bodies.take_parsed() };
        let slices = if bodies.is_empty() { Slices::new() } else { bodies.slices() };
        let out_max = out.len() + TURN_REPLY_BYTES;
        let outside = LargeSlices(&slices);
        let outside = if bodies.is_empty() { LargeSlices::NONE } else { &outside };
        let tail = self.parse(worker, table, parser, session, input, outside, parsed);
        let mut running =
            Running { batch: self, worker, table, session, input, bodies, outside, out, out_max, next: 0, spent_ns: 0 };
        let stop = running.all();
        let done = running.next;
        // The server may find that its command has to wait: it says itself whether that has run.
        // Nor has a script that rests run.
        let ran = done - usize::from(matches!(stop, Some(Stop::Server(_) | Stop::Script(_))));
        if ran > 0 {
            session.note_progress();
        }
        if let (Some(stop), 0) = (&stop, done) {
            self.put_off(stop, session, input);
            let parsed = self.work.parsed_large(outside);
            drop(slices);
            if let Some(parsed) = parsed {
                bodies.keep_parsed(parsed);
            }
        }
        let consumed = match (&stop, done.checked_sub(1)) {
            (None, _) => self.work.parsed_bytes,
            (Some(_), Some(last)) => self.work.requests[last].end,
            (Some(_), None) => 0,
        };
        if stop.is_some() {
            // Requests that were parsed beyond are parsed again, from their start, in the next turn.
            parser.reset();
        }
        let state = match stop {
            Some(stop) => self.state_after(stop, done),
            None => match tail {
                Tail::Partial { want } if want <= BODY_WANT_MIN => TurnState::NeedInput { want, body: None },
                Tail::Partial { want } => {
                    let body = wanted_body(parser, table, worker, &input[consumed..]);
                    TurnState::NeedInput { want, body }
                }
                Tail::More => TurnState::Yield,
                Tail::Error(error) => self.end_by(error, session, out),
            },
        };
        Turn { consumed, commands: self.work.count_commands(ran), state }
    }

    /// The state of a connection of whose requests `done` have run when something stopped the turn.
    fn state_after(&self, stop: Stop, done: usize) -> TurnState {
        match stop {
            Stop::Busy | Stop::Shut => TurnState::Busy,
            Stop::Paused => TurnState::Paused,
            Stop::Exec(command) => {
                let begin = done.checked_sub(1).map_or(0, |last| self.work.requests[last].end);
                TurnState::Exec { command, bytes: self.work.requests[done].end - begin }
            }
            Stop::Blocked(blocked) => TurnState::Blocked(blocked),
            Stop::Script(script) => TurnState::Script(script),
            Stop::Published(mark) => TurnState::Published(mark),
            Stop::Close(mark) => TurnState::Close(mark),
            Stop::Foreign => TurnState::Foreign,
            Stop::Selected | Stop::Full | Stop::GoesOn => TurnState::Yield,
            Stop::Server(command) => {
                let request = &self.work.requests[done - 1];
                let spans = self.work.spans[request.spans.clone()].to_vec();
                TurnState::Server { command, start: request.start, spans }
            }
        }
    }

    /// Ends a connection whose input breaks the protocol.
    #[cold]
    fn end_by(&mut self, error: ProtocolError, session: &mut Session, out: &mut Reply) -> TurnState {
        let mark = out.mark();
        self.observers.stats.refuse(&CommandError::owned(error.message()), mark, out);
        if session.drop_reply() {
            out.truncate(mark);
        }
        TurnState::Close(mark)
    }

    /// The request that the last turn handed to the server did not run: its bytes, those of the turn's input, are as they were
    /// sent.
    #[cold]
    pub fn put_back(&mut self, input: &mut [u8]) {
        self.work.restore(input);
    }

    /// None of the requests has run: keeps them as they can be tried again.
    #[cold]
    fn put_off(&mut self, stop: &Stop, session: &mut Session, input: &mut [u8]) {
        if matches!(stop, Stop::Busy) {
            session.note_busy();
        }
        self.work.restore(input);
    }
}

/// The running of a turn's requests.
struct Running<'t> {
    batch: &'t mut Batch,
    worker: &'t mut StoreWorker,
    table: &'t CommandTable,
    session: &'t mut Session,
    input: &'t [u8],
    /// Large arguments of the first request, which then is the only one.
    bodies: &'t LargeArguments,
    outside: &'t LargeSlices<'t>,
    out: &'t mut Reply,
    /// Length of `out` beyond which the turn ends.
    out_max: usize,
    /// First request that has not run.
    next: usize,
    /// Nanoseconds of the commands that were timed.
    spent_ns: u64,
}

impl Running<'_> {
    /// Runs requests in order until the last or until something stops it.
    fn all(&mut self) -> Option<Stop> {
        while let Some(request) = self.batch.work.requests.get(self.next) {
            let stop = match request.command {
                Ok(first @ Command { exec: Exec::Keys(_), .. }) if !self.session.is_queueing() => {
                    if self.bodies.is_empty() { self.on_shards(first) } else { self.on_shards_with_large(first) }
                }
                Err(Unresolved::Foreign) => Some(Stop::Foreign),
                Err(Unresolved::Empty) => self.empty(),
                command => {
                    let (full, pause) = (self.out.len() > self.out_max, self.pause_of(command));
                    if let Some(stop) = stands_back(full, pause, self.batch.denied, command, self.session) {
                        return Some(stop);
                    }
                    match command {
                        _ if self.session.is_queueing() => self.in_multi(),
                        Ok(Command { exec: Exec::Transaction(step), .. }) => self.transaction(*step),
                        Ok(d @ Command { exec: Exec::Script(run, _), .. }) => self.script(d, *run),
                        Ok(command) => self.other(command),
                        Err(unresolved) => self.unresolved(&unresolved),
                    }
                }
            };
            if stop.is_some() {
                return stop;
            }
            if self.spent_ns > self.batch.times.turn_ns {
                return Some(Stop::Full);
            }
        }
        None
    }

    /// Runs requests on keys, one after the other, inside the gate. A function of its own: among the parsing of a turn its
    /// loop has fewer registers.
    #[inline(never)]
    fn on_shards(&mut self, first: &'static Command) -> Option<Stop> {
        let (store, local) = self.worker.parts();
        let Some(_inside) = store.gate().try_enter(local.id()) else { return self.shut_out(first) };
        self.batch.work.follow_databases(store, self.session.db(), self.next, self.input, self.outside);
        let (pause, denied) = (self.batch.pause, self.batch.denied);
        let Batch { work, shards, observers, prefetcher, times, .. } = &mut *self.batch;
        // All commands up to the end of this stretch are on keys, and none of them changes what this is made of.
        let plain = self.session.is_plain() && (pause, denied) == (Pause::None, Denied::NONE) && observers.are_idle();
        let (each, insists) = (observers.slow.times_each(), self.session.busy_tries() >= TRIES_MAX);
        let tx = Tx::new(store, local, self.session.db()).patient();
        let (out, session, (input, outside)) = (&mut *self.out, &mut *self.session, (self.input, self.outside));
        let mut ctx = Ctx { row: first, args: Args::new(&[], &[]), keys: &[], bodies: self.bodies, tx, out, session };
        prefetcher.requests(&mut ctx.tx, work, self.next, |request| work.args(request, input, outside));
        let (mut clock, mut kept, mut stop, begin) = (SharedTime::start(), Kept(0), None, self.next);
        let mut last = LastReply::new(&observers.slow, &ctx, self.out_max);
        let mut samples = Samples::begin(observers, begin, work.requests.len());
        ctx.tx.set_overdue(ctx.session.overdue(pause != Pause::None));
        while let Some(request) = work.requests.get(self.next) {
            let Ok(d @ Command { exec: Exec::Keys(run), .. }) = request.command else { break };
            if last.passed(&ctx) || !plain {
                let full = last.note(&mut observers.slow, &ctx, self.next > begin);
                stop = stands_back(full, pause, denied, request.command, ctx.session);
                if stop.is_some() {
                    break;
                }
            }
            (ctx.args, ctx.keys) = (work.args(request, input, outside), &work.keys[request.keys.clone()]);
            last.mark = ctx.out.mark();
            ctx.session.begin_request(request.end - request.start);
            let may_run = may_run(plain, d, denied, observers, &mut ctx, &mut clock);
            if !may_run && !ctx.tx.take_put_back() {
                self.next += 1;
                continue;
            }
            kept.follow(&mut ctx, &mut clock);
            if !may_run || !hold(&mut ctx, d, shards, insists) {
                stop = Some(Stop::Busy);
                break;
            }
            let (apart, sample) = (d.timed || each, samples.begin_one(self.next));
            (self.next, ctx.row) = (self.next + 1, last_command::note(d));
            clock.settle_if(apart, &observers.stats);
            let result = run(&mut ctx);
            end_command(&mut ctx);
            if (!plain || result.is_err()) && !after(&mut ctx, result, last.mark, observers) {
                (self.next, stop) = (self.next - 1, Some(Stop::Busy));
                break;
            }
            clock.ran(d);
            samples.end_one(sample, observers, &ctx, (self.next, last.mark));
            if apart {
                self.spent_ns += took(&mut clock, d, observers, &mut ctx);
            }
            if ctx.tx.has_ready() {
                blocking::serve_ready(&mut ctx.tx, observers);
            }
            if ctx.session.ends_turn() || self.spent_ns > times.turn_ns {
                if !apart && ctx.session.is_ongoing() {
                    self.spent_ns += took(&mut clock, d, observers, &mut ctx);
                }
                stop = ended_by(ctx.session);
                break;
            }
        }
        samples.end(observers, self.next);
        end_stretch(&mut ctx, observers, work, begin..self.next, (input, outside), &mut last);
        clock.settle(&observers.stats);
        ctx.tx.finish();
        stop
    }

    /// Ends a request without a word: for CLIENT REPLY SKIP and CLIENT CACHING it is the command that they were for, although
    /// nobody counts or answers it.
    #[cold]
    fn empty(&mut self) -> Option<Stop> {
        self.next += 1;
        self.session.end_caching_of_unknown();
        self.session.drop_reply();
        None
    }

    /// Answers a request that names no command that can run.
    fn unresolved(&mut self, unresolved: &Unresolved) -> Option<Stop> {
        if self.session.replays() {
            return Some(Stop::Foreign);
        }
        let request = &self.batch.work.requests[self.next];
        self.next += 1;
        let args = self.batch.work.args(request, self.input, self.outside);
        self.session.begin_request(request.end - request.start);
        let mark = self.out.mark();
        let stats = &self.batch.observers.stats;
        if let Unresolved::Arity(d) = unresolved {
            stats.of(d).rejected.add(1);
            if d.is_exec() {
                self.session.leave_transaction(self.worker);
            }
        }
        stats.refuse(&unresolved.error(args), mark, self.out);
        match unresolved {
            Unresolved::Arity(d) => self.session.end_caching(d),
            _ => self.session.end_caching_of_unknown(),
        }
        if self.session.drop_reply() {
            self.out.truncate(mark);
        }
        None
    }

    /// Runs one request that holds no shards: it touches no key, or all of them.
    fn other(&mut self, d: &'static Command) -> Option<Stop> {
        let args = self.batch.work.args(&self.batch.work.requests[self.next], self.input, self.outside);
        let (denied, denials) = (self.batch.denied, &mut self.batch.observers.denials);
        let allowed = checks::admitted(d, args, self.session, denied, denials);
        let store = Arc::clone(self.worker.store());
        let waits = d.writes() && store.has_moving() || store.has_frozen() && names_frozen(d, args, &store, d.writes());
        let place = match allowed {
            // It would change keys that it does not name: those too that are on their way to another server. Or it names one
            // that another command works on.
            Ok(()) if waits => Err(Stop::Busy),
            Ok(()) => Place::take(d, &store, self.worker.id(), self.session.busy_tries()),
            Err(_) => Ok(Place::Outside),
        };
        let place = match place {
            Ok(place) => place,
            Err(stop) => return Some(stop),
        };
        let request = &self.batch.work.requests[self.next];
        self.next += 1;
        let args = self.batch.work.args(request, self.input, self.outside);
        self.session.begin_request(request.end - request.start);
        let mark = self.out.mark();
        if let Err(refusal) = allowed {
            self.batch.observers.stats.of(d).rejected.add(1);
            self.batch.observers.refused(d, &refusal, self.session, self.out);
            return None;
        }
        if matches!(d.exec, Exec::Server) {
            return Some(Stop::Server(d));
        }
        let db = self.session.db();
        let start = Instant::now();
        let call = WideCall { args, worker: self.worker, session: self.session, out: self.out };
        let observers = &mut self.batch.observers;
        let keeper = self.batch.scripts.as_deref_mut().map(Scripts::keeper);
        let Some(result) = run_unkeyed(d, call, (self.table, observers, keeper, self.batch.denied), place) else {
            self.next -= 1;
            self.out.truncate(mark);
            return Some(Stop::Busy);
        };
        let nanos = start.elapsed().as_nanos() as u64;
        self.spent_ns += nanos;
        let now_ms = self.worker.now_ms();
        let goes_on = self.session.is_ongoing();
        if goes_on {
            // Its time is counted at its end.
            self.session.note_part(nanos);
            self.batch.observers.stats.begin_parts(d, nanos);
        }
        let apart = (!goes_on).then_some(nanos);
        let ran = Ran { row: d, args, result, mark, nanos: apart, now_ms, is_pending: false };
        self.batch.observers.after(ran, Caller::Client(self.session), None, self.out);
        self.worker.set_now(self.worker.now_ms() + whole_ms(nanos));
        if self.session.ends_after_reply() {
            return Some(Stop::Close(mark));
        }
        if goes_on {
            return Some(Stop::GoesOn);
        }
        if self.session.is_blocked() {
            return self.session.take_blocked().map(Stop::Blocked);
        }
        if d.publishes() && self.session.is_subscribed() {
            return Some(Stop::Published(mark));
        }
        (db != self.session.db()).then_some(Stop::Selected)
    }
}

/// Why the last command of a session ends the turn, if it does: it waits, or goes on.
#[cold]
fn ended_by(session: &mut Session) -> Option<Stop> {
    let blocked = session.take_blocked().map(Stop::Blocked);
    blocked.or(session.is_ongoing().then_some(Stop::GoesOn))
}

/// Ends a client's command on keys, like [`Observers::after`]; false, and nothing is left of it, if it is put back.
#[cold]
fn after(ctx: &mut Ctx<'_, '_>, result: CmdResult, mark: Mark, observers: &mut Observers) -> bool {
    if ctx.tx.take_put_back() {
        ctx.out.truncate(mark);
        return false;
    }
    let Ctx { row, args, tx, session, out, .. } = ctx;
    if result.is_ok() && observers.monitored.is_none() && session.ends_quietly() {
        // Of all that follows a command, only this is left: a session that tracks comes here with each of its commands.
        // One that goes on and has let its shards go has seen to it before.
        if session.tracking().remembers() && (!session.is_ongoing() || tx.holds_shards()) {
            tracking::remember(row, *args, session.id(), tx.store());
        }
        return true;
    }
    let now_ms = tx.now_ms();
    let ran = Ran { row, args: *args, result, mark, nanos: None, now_ms, is_pending: false };
    observers.after(ran, Caller::Client(session), Some(tx), out);
    true
}

/// Hands on what a command has reported, if anything, the shards of its keys still held.
#[inline(always)]
fn end_command(ctx: &mut Ctx<'_, '_>) {
    ctx.tx.assert_reported();
    if ctx.tx.has_effects() {
        hand_on(ctx);
    }
}

#[inline(never)]
fn hand_on(ctx: &mut Ctx<'_, '_>) {
    let args = ctx.args;
    ctx.tx.end_command(&|words| args.iter().for_each(|arg| _ = words.add(arg)));
}

/// Room for what the arguments of a command on keys may need, made with no shard held.
#[inline]
fn admitted(slow: &mut Slow, ctx: &mut Ctx<'_, '_>) -> Result<(), NotAdmitted> {
    let bytes = bytes_to_admit(ctx.session.argument_bytes(), ctx.args.len(), ctx.keys.len());
    let start = slow.has_monitor().then(Instant::now);
    let denied = ctx.bodies.denied() || is_short_for(ctx.session);
    let admitted = if denied { Err(NotAdmitted::OutOfMemory) } else { ctx.tx.admit(bytes) };
    if let Some(start) = start {
        slow.note_spike(SpikeEvent::Eviction, ctx.tx.now_ms(), start.elapsed().as_nanos() as u64);
    }
    admitted
}

/// True while the system refuses memory, for a session whose writes may be refused: nodes of collections and tables are not the
/// log's, and writes that go on would use up what the process holds in reserve, and end it. A file or a primary's stream goes on.
#[inline]
fn is_short_for(session: &Session) -> bool {
    refusable::is_short() && !session.replays()
}

/// For how long shards are kept from command to command: commands, and what their arguments count for.
struct Kept(usize);

impl Kept {
    /// Lets the shards go if they were kept for long enough; another command follows.
    #[inline]
    fn follow(&mut self, ctx: &mut Ctx<'_, '_>, clock: &mut SharedTime) {
        if self.0 >= KEEP_MAX {
            ctx.tx.release();
            self.0 = 0;
            clock.let_go();
        }
        self.0 += 1 + ctx.args.len() / KEEP_ARGS;
    }
}

/// Whether a command may run: the session may, and there is room. One that may not has been answered, or is put back.
#[inline(always)]
fn may_run(
    plain: bool,
    d: &'static Command,
    denied: Denied,
    observers: &mut Observers,
    ctx: &mut Ctx<'_, '_>,
    clock: &mut SharedTime,
) -> bool {
    (plain || is_allowed(d, denied, observers, ctx))
        && (!d.flags.has(Flags::DENYOOM) || is_admitted(d, observers, ctx, clock))
}

/// Whether the session may run a command; one that it may not has been answered.
#[inline]
fn is_allowed(d: &'static Command, denied: Denied, observers: &mut Observers, ctx: &mut Ctx<'_, '_>) -> bool {
    if denied.replica.is_some() {
        // A pause changes nothing: what runs under it reads.
        ctx.tx.set_overdue(ctx.session.overdue(denied.hides_overdue(d.flags.has(Flags::WRITE))));
    }
    let admitted = checks::admitted(d, ctx.args, ctx.session, denied, &mut observers.denials);
    admitted.map_err(|refusal| refuse(&refusal, d, observers, ctx)).is_ok()
}

/// Whether a command is [`admitted`]; one that is not has been answered, or is put back while others hold what may be freed.
#[inline]
fn is_admitted(d: &'static Command, observers: &mut Observers, ctx: &mut Ctx<'_, '_>, clock: &mut SharedTime) -> bool {
    let admitted = admitted(&mut observers.slow, ctx);
    clock.skip(ctx.tx.take_room_ns());
    match admitted {
        Ok(()) => {}
        Err(NotAdmitted::OutOfMemory) => refuse(&CommandError::OUT_OF_MEMORY, d, observers, ctx),
        Err(NotAdmitted::Busy) => ctx.tx.put_back(),
    }
    admitted.is_ok()
}

/// Ends a command on keys that may not run.
#[cold]
fn refuse(refusal: &CommandError, d: &'static Command, observers: &mut Observers, ctx: &mut Ctx<'_, '_>) {
    observers.stats.of(d).rejected.add(1);
    observers.refused(d, refusal, ctx.session, ctx.out);
}

/// Counts a command that is timed by itself; returns its nanoseconds. One that waits is noted as slow when it is served.
fn took(clock: &mut SharedTime, d: &Command, observers: &mut Observers, ctx: &mut Ctx<'_, '_>) -> u64 {
    clock.skip(ctx.tx.take_room_ns());
    if ctx.session.is_blocked() {
        return clock.settle_waiting(&observers.stats);
    }
    let nanos = if ctx.session.is_ongoing() {
        // It is noted at its end.
        let nanos = clock.settle_part(&observers.stats);
        ctx.session.note_part(nanos);
        nanos
    } else {
        let nanos = clock.settle(&observers.stats);
        observers.slow.note(d, ctx.args, ctx.tx.now_ms(), nanos);
        nanos
    };
    ctx.tx.pass_ms(whole_ms(nanos));
    nanos
}
