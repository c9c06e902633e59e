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
//! A turn ends after 64 commands, 64 KB of requests or 1 MB of replies. A request whose shard is busy ends it too, with nothing of that request
//! done. Nothing here allocates once the scratch space has grown to what the connections send.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use varve_catalog::Flags;
use varve_protocol::{Args, LargeArgument, LargeSlices, Parser, Reply, Span};
use varve_store::{StoreWorker, Tx};

use crate::blocking::{self, Blocked, Served};
use crate::command::{Command, CommandTable, Exec, Step, Unresolved};
use crate::errors::{CmdResult, CommandError};
use crate::large_arguments::{self, LargeArguments, Slices};
use crate::monitor::Seen;
use crate::notify::{Events, Publisher};
use crate::pause::Pause;
use crate::session::Session;
use crate::stats::{CommandStats, Slow, SpikeEvent};
use crate::transaction::KEY_OVERHEAD_BYTES;
use crate::{Ctx, SessionCtx, WideCtx, checks, tracking};

mod account;
mod parse;
mod prefetch;
mod preparse;
mod transaction;

use account::{SharedTime, drop_muted, finish, whole_ms};
pub use parse::KeyArg;
use parse::{Recent, Tail, Work};
use prefetch::Prefetcher;
use preparse::Preparsed;
pub use preparse::PreparsedTurn;
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
    shards: Vec<u16>,
    stats: Arc<CommandStats>,
    slow: Slow,
    told: Told,
    /// The commands that are held back (CLIENT PAUSE).
    pause: Pause,
    /// Replies to clients that waited, in the order in which they were served.
    served: Vec<Served>,
    prefetcher: Prefetcher,
    /// Commands found lately.
    recent: Recent,
}

/// Receivers of what commands do, beside the client.
#[derive(Default)]
struct Told {
    /// Publishes clients' messages.
    events: Option<Box<dyn Events + Send>>,
    /// The commands that ran in this turn, while somebody monitors.
    monitored: Option<Vec<Seen>>,
}

impl Told {
    /// Ends a command on keys, with its shards still held: events are published, the keys that a tracking client has read
    /// are remembered, the command is shown to monitors.
    #[inline]
    fn after(&mut self, d: &'static Command, ctx: &mut Ctx<'_, '_>) {
        end_command(ctx);
        if ctx.session.tracking.on {
            tracking::remember(d, ctx);
        }
        self.note(d, ctx.args, ctx.session);
    }

    /// Notes a command that ran, while somebody monitors.
    #[inline]
    fn note(&mut self, d: &Command, args: Args<'_>, session: &Session) {
        if let Some(seen) = &mut self.monitored {
            seen.extend(Seen::new(d, args, session.db));
        }
    }
}

/// How a turn ended.
#[derive(Debug)]
pub struct Turn {
    /// Bytes of input that are done with.
    pub consumed: usize,
    /// Commands that ran, or are for the server to run.
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
    /// A shard is busy; nothing of the next request has been done.
    Busy,
    /// CLIENT PAUSE holds the next request back; nothing of it has been done.
    Paused,
    /// The server runs this request, which counts as consumed, and goes on with the next turn.
    Server {
        /// The command, or its subcommand where it has such.
        descriptor: &'static Command,
        /// Where the request starts in the input.
        start: usize,
        /// Its arguments, relative to `start`.
        spans: Vec<Span>,
    },
    /// The server runs this transaction, which has commands of its own in it ([`Transaction`]), and goes on with the
    /// next turn. The request counts as consumed.
    Exec(&'static Command),
    /// The last command waits for its keys, and those behind it wait for its reply.
    Blocked(Blocked),
    /// Flush the output, then close.
    Close,
}

/// Why running stopped before the last request.
enum Stop {
    Busy,
    /// The next request is held back.
    Paused,
    Server(&'static Command),
    /// EXEC of a transaction that the server must run.
    Exec(&'static Command),
    Blocked(Blocked),
    Close,
    /// The database changed: hashes computed before no longer hold.
    Selected,
    /// The replies are enough for one turn.
    Full,
}

impl Batch {
    /// Empty scratch space, with the counters that it feeds.
    pub fn new(stats: Arc<CommandStats>) -> Batch {
        Batch {
            work: Work::default(),
            preparsed: Preparsed::default(),
            shards: Vec::new(),
            stats,
            slow: Slow::default(),
            told: Told::default(),
            pause: Pause::None,
            served: Vec::new(),
            prefetcher: Prefetcher::default(),
            recent: Recent::default(),
        }
    }

    /// The counters.
    pub fn stats(&self) -> &Arc<CommandStats> {
        &self.stats
    }

    /// The commands that took long; whoever runs a turn takes them out.
    #[inline]
    pub fn slow(&mut self) -> &mut Slow {
        &mut self.slow
    }

    /// The arguments of a parsed request.
    fn args_of<'t>(&'t self, n: usize, input: &'t [u8], outside: &'t LargeSlices<'t>) -> Args<'t> {
        self.work.args(&self.work.requests[n], input, outside)
    }

    /// Sets who publishes the worker's keyspace events and its clients' messages.
    pub fn set_events(&mut self, worker: &mut StoreWorker, events: impl Events + Clone + Send + 'static) {
        worker.set_event_sink(Box::new(Publisher::new(events.clone())));
        self.told.events = Some(Box::new(events));
    }

    /// The replies to clients that waited, since the last call: to be given to their workers before the replies of the
    /// commands that served them leave.
    pub fn take_served(&mut self) -> Option<Vec<Served>> {
        (!self.served.is_empty()).then(|| std::mem::take(&mut self.served))
    }

    /// Holds commands back from now on, or no longer.
    #[inline]
    pub fn set_pause(&mut self, pause: Pause) {
        self.pause = pause;
    }

    /// Notes every command that runs from now on, or not (MONITOR).
    #[inline]
    pub fn set_monitoring(&mut self, on: bool) {
        if on != self.told.monitored.is_some() {
            self.told.monitored = on.then(Vec::new);
        }
    }

    /// Notes a parsed request that ran, while somebody monitors.
    fn note_request(&mut self, n: usize, d: &Command, input: &[u8], outside: &LargeSlices<'_>, session: &Session) {
        if self.told.monitored.is_some() {
            let seen = Seen::new(d, self.args_of(n, input, outside), session.db);
            self.told.monitored.iter_mut().for_each(|noted| noted.extend(seen.clone()));
        }
    }

    /// The commands noted since the last call, oldest first.
    pub fn take_monitored(&mut self) -> Option<Vec<Seen>> {
        self.told.monitored.as_mut().filter(|seen| !seen.is_empty()).map(std::mem::take)
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
        bodies: &LargeArguments,
        out: &mut Reply,
    ) -> Turn {
        worker.set_now(now_ms);
        worker.set_client(session.id);
        worker.set_no_touch(session.no_touch);
        let slices = if bodies.is_empty() { Slices::new() } else { bodies.slices() };
        let out_max = out.len() + TURN_REPLY_BYTES;
        let outside = LargeSlices(&slices);
        let outside = if bodies.is_empty() { LargeSlices::NONE } else { &outside };
        let tail = self.parse(worker, table, parser, session.db, input, outside);
        let mut running =
            Running { batch: self, worker, table, session, input, bodies, outside, out, out_max, next: 0 };
        let stop = running.all();
        let done = running.next;
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
            Some(Stop::Busy) => TurnState::Busy,
            Some(Stop::Paused) => TurnState::Paused,
            Some(Stop::Exec(descriptor)) => TurnState::Exec(descriptor),
            Some(Stop::Blocked(blocked)) => TurnState::Blocked(blocked),
            Some(Stop::Close) => TurnState::Close,
            Some(Stop::Selected | Stop::Full) => TurnState::Yield,
            Some(Stop::Server(descriptor)) => {
                let request = &self.work.requests[done - 1];
                let spans = self.work.spans[request.spans.clone()].to_vec();
                TurnState::Server { descriptor, start: request.start, spans }
            }
            None => match tail {
                Tail::Partial { want } if want <= BODY_WANT_MIN => TurnState::NeedInput { want, body: None },
                Tail::Partial { want } => {
                    let body = large_arguments::wanted(parser, table, worker, &input[consumed..]);
                    TurnState::NeedInput { want, body }
                }
                Tail::More => TurnState::Yield,
                Tail::Paused => TurnState::Paused,
                Tail::Error(error) => {
                    self.stats.refuse(&CommandError::owned(error.message()), out.mark(), out);
                    TurnState::Close
                }
            },
        };
        Turn { consumed, commands: done, state }
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
}

impl Running<'_> {
    /// Runs requests in order until the last or until something stops it.
    fn all(&mut self) -> Option<Stop> {
        while let Some(request) = self.batch.work.requests.get(self.next) {
            if self.out.len() > self.out_max {
                return Some(Stop::Full);
            }
            if let Ok(d) = request.command
                && self.batch.pause.holds(d, self.session)
            {
                return Some(Stop::Paused);
            }
            let stop = match request.command {
                _ if self.session.multi.is_some() => self.in_multi(),
                Ok(first @ Command { exec: Exec::Keys(_), .. }) => self.on_shards(first),
                Ok(Command { exec: Exec::Transaction(step), .. }) => self.transaction(*step),
                _ => self.other(),
            };
            if stop.is_some() {
                return stop;
            }
        }
        None
    }

    /// Runs requests on keys, one after the other, inside the gate.
    fn on_shards(&mut self, first: &'static Command) -> Option<Stop> {
        let StoreWorker { store, local } = &mut *self.worker;
        let _inside = store.gate().enter(local.id());
        self.batch.work.follow_databases(store, self.session.db, self.next, self.input, self.outside);
        let pause = self.batch.pause;
        let Batch { work, shards, stats, slow, served, told, prefetcher, .. } = &mut *self.batch;
        // All commands up to the end of this stretch are on keys, and none of them changes what this is made of.
        let plain = self.session.is_plain() && pause == Pause::None && told.monitored.is_none() && !slow.times_each();
        let tx = Tx::new(store, local, self.session.db);
        let (out, session) = (&mut *self.out, &mut *self.session);
        let mut ctx =
            Ctx { command: first, args: Args::new(&[], &[]), keys: &[], bodies: self.bodies, tx, out, session };
        let (input, outside) = (self.input, self.outside);
        prefetcher.requests(&mut ctx.tx, work, self.next, |request| work.args(request, input, outside));
        let mut clock = SharedTime::start();
        let mut kept = 0;
        let mut stop = None;
        ctx.tx.keep_expired(pause != Pause::None);
        while let Some(request) = work.requests.get(self.next) {
            if ctx.out.len() > self.out_max {
                stop = Some(Stop::Full);
                break;
            }
            let Ok(d @ Command { exec: Exec::Keys(run), .. }) = request.command else { break };
            if !plain && pause.holds(d, ctx.session) {
                break;
            }
            ctx.command = d;
            ctx.args = work.args(request, input, outside);
            ctx.keys = &work.keys[request.keys.clone()];
            let mark = ctx.out.mark();
            ctx.session.argument_bytes = request.end - request.start;
            if (!plain || d.flags.has(Flags::DENYOOM)) && !admitted_or_refused(d, slow, stats, &mut ctx, &mut clock) {
                self.next += 1;
                continue;
            }
            if !hold(&mut ctx, d, shards, (&mut kept, &mut clock), work.patient) {
                stop = Some(Stop::Busy);
                break;
            }
            self.next += 1;
            let alone = d.timed || !plain && slow.times_each();
            if alone {
                clock.settle(stats);
            }
            let failed = run(&mut ctx).map_err(|error| stats.fail(d, &error, mark, ctx.out)).is_err();
            ctx.tx.assert_reported();
            if !plain || ctx.tx.has_effects() {
                told.after(d, &mut ctx);
            }
            clock.ran(d);
            if alone {
                clock.skip(ctx.tx.take_room_ns());
                took(clock.settle(stats), d, slow, &mut ctx);
            }
            if let Some(blocked) = serve(&mut ctx, d, stats, served) {
                stop = Some(Stop::Blocked(blocked));
                break;
            }
            if !plain || failed {
                finish(d, ctx.session, ctx.out, mark);
            }
            ctx.session.last = Some(d);
        }
        clock.settle(stats);
        ctx.tx.finish();
        stop
    }

    /// Runs one request that holds no shards: a refused one, or one that touches no key or all of them.
    fn other(&mut self) -> Option<Stop> {
        let Batch { work, stats, slow, served, told, .. } = &mut *self.batch;
        let request = &work.requests[self.next];
        self.next += 1;
        let args = work.args(request, self.input, self.outside);
        self.session.argument_bytes = request.end - request.start;
        let mark = self.out.mark();
        let d = match request.command {
            Ok(d) => d,
            Err(unresolved) => {
                if let Unresolved::Arity(d) = unresolved {
                    stats.of(d).rejected.add(1);
                    if let Exec::Transaction(Step::Exec) = d.exec {
                        self.session.leave_transaction(self.worker);
                    }
                }
                stats.refuse(&unresolved.error(args), mark, self.out);
                drop_muted(self.session, self.out, mark);
                return None;
            }
        };
        if let Err(refusal) = checks::allowed(d, self.session) {
            stats.of(d).rejected.add(1);
            stats.refuse(&refusal, mark, self.out);
            finish(d, self.session, self.out, mark);
            return None;
        }
        // A client that publishes and listens itself gets the message before the reply: the server sees to that.
        let to_itself = d.publishes() && self.session.subscriptions > 0;
        if matches!(d.exec, Exec::Server) || to_itself {
            return Some(Stop::Server(d));
        }
        let db = self.session.db;
        let start = Instant::now();
        let result =
            run_unkeyed(d, args, self.worker, self.table, self.session, self.out, (stats, served, &mut told.events));
        if let Err(error) = result {
            stats.fail(d, &error, mark, self.out);
        }
        let nanos = start.elapsed().as_nanos() as u64;
        stats.count(d, 1, nanos);
        slow.note(d, args, self.worker.now_ms(), nanos);
        finish(d, self.session, self.out, mark);
        self.batch.note_request(self.next - 1, d, self.input, self.outside, self.session);
        self.worker.set_now(self.worker.now_ms() + whole_ms(nanos));
        if self.session.close_after_reply {
            return Some(Stop::Close);
        }
        (db != self.session.db).then_some(Stop::Selected)
    }
}

/// Hands on what a command has reported, the shards of its keys still held.
#[inline]
fn end_command(ctx: &mut Ctx<'_, '_>) {
    let args = ctx.args;
    ctx.tx.end_command(&|words| args.iter().for_each(|arg| _ = words.add(arg)));
}

/// Hands on what a command on whole databases has reported, the gate still held.
#[inline]
fn end_wide_command(worker: &mut StoreWorker, db: u32, args: Args<'_>) {
    worker.end_command(db, &|words| args.iter().for_each(|arg| _ = words.add(arg)));
}

/// Whether a command on keys may run: authentication, and room for what its arguments may need, made with no shard held.
#[inline]
fn admitted(d: &Command, slow: &mut Slow, ctx: &mut Ctx<'_, '_>) -> CmdResult {
    checks::allowed(d, ctx.session)?;
    if !d.flags.has(Flags::DENYOOM) {
        return Ok(());
    }
    let bytes = ctx.session.argument_bytes as u64 + KEY_OVERHEAD_BYTES * (ctx.keys.len() as u64 + 1);
    let start = slow.has_monitor().then(Instant::now);
    let admitted = !ctx.bodies.denied() && ctx.tx.admit(bytes).is_ok();
    if let Some(start) = start {
        slow.note_spike(SpikeEvent::Eviction, ctx.tx.now_ms(), start.elapsed().as_nanos() as u64);
    }
    if admitted { Ok(()) } else { Err(CommandError::OUT_OF_MEMORY) }
}

/// Runs a command that names no keys to be held.
#[allow(clippy::too_many_arguments, reason = "the parts of a turn, borrowed apart")]
fn run_unkeyed(
    d: &'static Command,
    args: Args<'_>,
    worker: &mut StoreWorker,
    table: &CommandTable,
    session: &mut Session,
    out: &mut Reply,
    (stats, served, events): (&CommandStats, &mut Vec<Served>, &mut Option<Box<dyn Events + Send>>),
) -> CmdResult {
    if let Exec::Session(run) = d.exec {
        let databases = worker.store.databases();
        let events = events.as_mut();
        return run(&mut SessionCtx { args, out, session, commands: table, databases, events });
    }
    let store = Arc::clone(&worker.store);
    let (_alone, _inside);
    let run = match d.exec {
        Exec::Exclusive(run) => {
            _alone = store.gate().alone(worker.id());
            run
        }
        Exec::Keyspace(run) => {
            _inside = store.gate().enter(worker.id());
            run
        }
        _ => unreachable!("{} is run elsewhere", d.full_name),
    };
    let changes = store.database_changes();
    let result = run(&mut WideCtx { args, store: &store, worker, out, session });
    end_wide_command(worker, session.db, args);
    if changes != store.database_changes() {
        blocking::recheck(&store, worker, VecDeque::new(), stats, served);
    }
    worker.park();
    result
}

/// Takes the shards of a request's keys; false if one is busy and the request can wait.
#[inline]
fn hold(
    ctx: &mut Ctx<'_, '_>,
    d: &Command,
    shards: &mut Vec<u16>,
    (kept, clock): (&mut usize, &mut SharedTime),
    patient: bool,
) -> bool {
    if *kept >= KEEP_MAX {
        ctx.tx.release();
        *kept = 0;
        clock.let_go();
    }
    *kept += 1 + ctx.args.len() / KEEP_ARGS;
    let taken = if let [only] = ctx.keys {
        let shard = ctx.tx.shard_of(only.hash);
        if patient { take(&mut ctx.tx, &[shard], true) } else { ctx.tx.try_hold_one(shard) }
    } else {
        list_shards(ctx, shards);
        take(&mut ctx.tx, shards, patient)
    };
    taken && (!d.flags.has(Flags::WRITE) || !ctx.tx.any_waiters() || hold_for_waiters(ctx, shards, patient))
}

fn list_shards(ctx: &Ctx<'_, '_>, shards: &mut Vec<u16>) {
    shards.clear();
    shards.extend(ctx.keys.iter().map(|k| ctx.tx.shard_of(k.hash)));
    shards.sort_unstable();
    shards.dedup();
}

#[inline]
fn take(tx: &mut Tx<'_>, shards: &[u16], patient: bool) -> bool {
    if patient {
        tx.hold(shards);
        return true;
    }
    tx.try_hold(shards)
}

/// Takes also what serving those may need who wait for the keys of a command that is about to write.
#[cold]
fn hold_for_waiters(ctx: &mut Ctx<'_, '_>, shards: &mut Vec<u16>, patient: bool) -> bool {
    list_shards(ctx, shards);
    let (args, keys) = (ctx.args, ctx.keys);
    let bytes = || keys.iter().map(|key| args.get(key.arg as usize));
    blocking::widen(&mut ctx.tx, shards, bytes, |tx, shards| take(tx, shards, patient))
}

/// Admits a command like [`admitted`]. If it returns false, the error has been written.
#[inline]
fn admitted_or_refused(
    d: &'static Command,
    slow: &mut Slow,
    stats: &CommandStats,
    ctx: &mut Ctx<'_, '_>,
    clock: &mut SharedTime,
) -> bool {
    let admitted = admitted(d, slow, ctx);
    clock.skip(ctx.tx.take_room_ns());
    admitted.map_err(|refusal| refuse(&refusal, d, stats, ctx)).is_ok()
}

/// Ends a command on keys that may not run.
#[cold]
fn refuse(refusal: &CommandError, d: &'static Command, stats: &CommandStats, ctx: &mut Ctx<'_, '_>) {
    let mark = ctx.out.mark();
    stats.of(d).rejected.add(1);
    stats.refuse(refusal, mark, ctx.out);
    finish(d, ctx.session, ctx.out, mark);
}

/// A command that is timed by itself took so long.
fn took(nanos: u64, d: &Command, slow: &mut Slow, ctx: &mut Ctx<'_, '_>) {
    slow.note(d, ctx.args, ctx.tx.now_ms(), nanos);
    ctx.tx.pass_ms(whole_ms(nanos));
}

/// Serves the clients that wait for the keys of a command that has run. Returns the client's own wait if it has to wait itself.
#[inline]
fn serve(
    ctx: &mut Ctx<'_, '_>,
    d: &'static Command,
    stats: &CommandStats,
    served: &mut Vec<Served>,
) -> Option<Blocked> {
    if ctx.tx.has_ready() {
        blocking::serve_ready(&mut ctx.tx, stats, served);
    }
    if ctx.session.blocked.is_some() {
        ctx.session.last = Some(d);
        return ctx.session.blocked.take();
    }
    None
}
