//! A script that runs, and its commands.
//!
//! ```text
//!   handler: finds and compiles the script
//!     begin: its place   token   gate as a reader, the token: others run beside it, but for its shards
//!                        alone   gate alone: it names a command on the whole keyspace, or stands in EXEC
//!            room for the request, unit of effects opened
//!     the language runs
//!       call: found? allowed in scripts, to the user, to this script?   no --> the error is the reply
//!             keys hashed, their shards added to those held, the command, what follows it
//!             the server's own: the script rests, the server runs it
//!   unit closed: the journal has all effects as one; those are served who wait for keys that are ready; shards let go
//! ```
//! A script keeps its shards to its end, so that all scripts and transactions stand in one order. It takes them as it meets
//! them, in any order: one at a time may (the token). A command on the whole keyspace cannot run beside others: a script that
//! meets one without having named it, and has changed nothing, begins again alone.
//!
//! Nothing blocks, time stands still, and no reply of a command goes to the client.
//!
//! Not here: the language, and what the script replies (the handler).

use std::collections::VecDeque;
use std::mem;
use std::sync::Arc;
use std::time::Instant;

use smallvec::SmallVec;
use varve_base::refusable;
use varve_catalog::Flags;
use varve_protocol::{Args, Mark, Reply, Resp};
use varve_store::gate::{ExclusiveGate, InsideGate, Newcomer};
use varve_store::{NotAdmitted, ReadyKey, ScriptToken, Store, StoreWorker, Tx, Words};

use super::holding::{names_frozen, sheds_due_fields_beside};
use super::request::Request;
use super::slices::Slices;
use super::{Batch, TRIES_MAX};
use crate::blocking;
use crate::checks::{self, Denied};
use crate::command::{Command, CommandTable, Exec, ScriptFn, Unresolved};
use crate::ctx::{Ctx, KeyArg};
use crate::denials::Origin;
use crate::errors::{CmdResult, CommandError};
use crate::invoke::{Caller, Observers, Ran, WideCall, invoke, invoke_wide};
use crate::large_arguments::LargeArguments;
use crate::last_command;
use crate::monitor::Seen;
use crate::multi::bytes_to_admit;
use crate::pause::Pause;
use crate::script::{Audience, Beginning, ScriptCalls, ScriptCtx, ScriptKeeper};
use crate::session::Session;
use crate::tracking;

impl Batch {
    /// The parts that run a transaction: the worker's own, but for what the handlers of scripts keep.
    pub(super) fn scripting<'b>(&'b mut self, table: &'b CommandTable, slices: &'b Slices<'b>) -> Scripting<'b> {
        let Batch { observers, scripts, denied, pause, .. } = self;
        let keeper = scripts.as_deref_mut().map(|scripts| scripts.keeper());
        let still = *pause != Pause::None;
        Scripting { table, observers, keeper, denied: *denied, still, slices, abandoned: false }
    }
}

/// The parts of a worker that run scripts.
pub(super) struct Scripting<'b> {
    pub(super) table: &'b CommandTable,
    pub(super) observers: &'b mut Observers,
    /// None: there are no commands that run scripts.
    pub(super) keeper: Option<&'b mut ScriptKeeper>,
    pub(super) denied: Denied,
    /// Nothing may change at present but by commands that were let in.
    pub(super) still: bool,
    pub(super) slices: &'b Slices<'b>,
    /// A script has been ended with the server: nothing runs behind it, and no effect of its unit is kept.
    pub(super) abandoned: bool,
}

/// Room that a script is lent, for the commands that it has run and for their replies.
pub(super) struct Room<'b> {
    pub(super) request: &'b mut Request,
    pub(super) scratch: &'b mut Reply,
}

impl Scripting<'_> {
    /// Runs a script that a client has called outside of a transaction, on a session of its own. None, and nothing is done, if
    /// its place is taken: then its request is tried again, with all that is asked before a request runs.
    pub(super) fn run_by_itself(
        mut self,
        command: (&'static Command, ScriptFn),
        (args, own): (Args<'_>, &mut Session),
        worker: &mut StoreWorker,
        out: &mut Reply,
        room: Room<'_>,
    ) -> Option<CmdResult> {
        let store = Arc::clone(worker.store());
        let (mut alone, db, resp) = (false, own.db(), own.resp());
        let Room { request, scratch } = room;
        loop {
            let mark = out.mark();
            let lines = self.observers.monitored.as_ref().map_or(0, Vec::len);
            let call = WideCall { args, worker: &mut *worker, session: &mut *own, out: &mut *out };
            let room = Room { request: &mut *request, scratch: &mut *scratch };
            let (result, end) = self.attempt(command, call, &store, Place::Free { alone }, room);
            match end {
                End::Ran => return Some(result),
                End::PutOff | End::MetWide => {}
            }
            out.truncate(mark);
            own.select(db);
            own.speak(resp);
            if let Some(seen) = &mut self.observers.monitored {
                seen.truncate(lines);
            }
            if end == End::PutOff {
                return None;
            }
            alone = true;
        }
    }

    /// Runs a script inside EXEC, the gate held alone. Keys that it makes ready go to `ready`, and its effects are part of the
    /// transaction's unit.
    pub(super) fn run_in_exec(
        &mut self,
        command: (&'static Command, ScriptFn),
        call: WideCall<'_>,
        ready: &mut VecDeque<ReadyKey>,
    ) -> CmdResult {
        let WideCall { args, worker, session, out } = call;
        let (store, mut own) = (Arc::clone(worker.store()), Session::of_script(session));
        let (mut request, mut scratch) = (Request::default(), Reply::new());
        let room = Room { request: &mut request, scratch: &mut scratch };
        let call = WideCall { args, worker, session: &mut own, out };
        let (result, end) = self.attempt(command, call, &store, Place::InExec(ready), room);
        assert_eq!(end, End::Ran, "the gate is held alone");
        result
    }

    /// The keeper for a command about scripts.
    pub(super) fn keeper(&mut self) -> &mut ScriptKeeper {
        self.keeper.as_deref_mut().expect("a server with commands of scripts has a stage")
    }

    /// `call` has the script's own session.
    fn attempt(
        &mut self,
        (d, run): (&'static Command, ScriptFn),
        call: WideCall<'_>,
        store: &Store,
        place: Place<'_>,
        room: Room<'_>,
    ) -> (CmdResult, End) {
        let WideCall { args, worker, session, out } = call;
        let replays = session.replays();
        let Scripting { table, observers, keeper, denied, still, slices, abandoned } = self;
        let keeper = keeper.as_deref_mut().expect("a server with commands of scripts has a stage");
        let mut calls = Calls {
            store,
            table,
            observers,
            denied: *denied,
            still: *still,
            slices,
            command: (d, args),
            place,
            tries: session.busy_tries(),
            at: At::Before(worker),
            held_from: None,
            hands: Some(Hands { out: room.scratch, session }),
            out_of_memory: false,
            read_only: false,
            allow_oom: false,
            written: false,
            request: mem::take(room.request),
            ended: None,
            read: None,
            ready: VecDeque::new(),
            changes: store.database_changes(),
            abandoned,
            has_error: false,
            end: End::Ran,
            met_wide: false,
        };
        last_command::note(d);
        let result = run(&mut ScriptCtx { row: d, args, out, replays, keeper, calls: &mut calls });
        *room.request = mem::take(&mut calls.request);
        let end = calls.finish();
        (result, end)
    }
}

/// Where a script may run.
enum Place<'c> {
    /// It has its place to find.
    Free {
        /// Alone behind the gate, whatever it names.
        alone: bool,
    },
    /// Inside EXEC, which holds the gate alone and serves whoever waits for keys that become ready.
    InExec(&'c mut VecDeque<ReadyKey>),
}

/// How an attempt to run a script has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// The script has run, or was refused.
    Ran,
    /// Its place was taken by others.
    PutOff,
    /// It has met a command on the whole keyspace, beside others.
    MetWide,
}

/// Where a script stands.
enum At<'c> {
    /// It has not begun.
    Before(&'c mut StoreWorker),
    /// Alone behind the gate: each command takes its shards, nobody else is there.
    Alone(&'c mut StoreWorker, Option<ExclusiveGate<'c>>),
    /// Beside others. The shards are let go first, then the token, then the gate.
    Beside(Tx<'c>, ScriptToken<'c>, InsideGate<'c>),
    /// It is over, or on the way from one to another.
    Nowhere,
}

/// The parts that the commands of a script are lent: where they reply to, and their session.
struct Hands<'c> {
    out: &'c mut Reply,
    session: &'c mut Session,
}

/// The commands of one script.
struct Calls<'c> {
    store: &'c Store,
    table: &'c CommandTable,
    observers: &'c mut Observers,
    denied: Denied,
    still: bool,
    slices: &'c Slices<'c>,
    /// The command that runs the script, and its request.
    command: (&'static Command, Args<'c>),
    place: Place<'c>,
    /// How often the request was refused before.
    tries: u32,
    at: At<'c>,
    /// When it began to keep others out: it took its first shard, or the gate alone. None inside EXEC, which counts its own hold.
    held_from: Option<Instant>,
    /// Always there between two commands.
    hands: Option<Hands<'c>>,
    /// There was no room when the script began.
    out_of_memory: bool,
    read_only: bool,
    allow_oom: bool,
    /// It has had a command run that may change something.
    written: bool,
    request: Request,
    /// When the last command ended.
    ended: Option<Instant>,
    /// The script's clock when it was read last, at a command's end or a tick.
    read: Option<Instant>,
    /// Keys that became ready for those who wait for them, where the gate is held alone.
    ready: VecDeque<ReadyKey>,
    /// The state of the database map before it.
    changes: u64,
    abandoned: &'c mut bool,
    /// Its reply has an error of its own among its values.
    has_error: bool,
    end: End,
    met_wide: bool,
}

/// Bytes that the reply of a command may have which a script calls: the longest string twice. It is in memory twice, as the
/// script's value as well.
const REPLY_BYTES_MAX: usize = 1 << 30;

impl ScriptCalls for Calls<'_> {
    fn begin(&mut self, beginning: Beginning<'_>) -> CmdResult {
        let Beginning { flags, read_only, alone, words } = beginning;
        self.read_only = read_only || flags.is_some_and(|flags| flags.no_writes);
        if !self.take_place(alone, words) {
            self.end = End::PutOff;
            return Err(CommandError::SCRIPT_PUT_OFF);
        }
        let (d, args) = self.command;
        if self.out_of_memory && d.flags.has(Flags::DENYOOM) {
            return Err(CommandError::OUT_OF_MEMORY);
        }
        // A command that runs no others is shown behind it, as all are.
        if let Some(seen) = self.observers.monitored.as_mut().filter(|_| d.flags.has(Flags::SKIP_MONITOR)) {
            seen.push(Seen::begun(d, args, self.hands.as_ref().map_or(0, |hands| hands.session.db())));
        }
        checks::script_allowed(flags, self.denied, self.out_of_memory)?;
        if read_only && flags.is_some_and(|flags| !flags.no_writes) {
            return Err(CommandError::SCRIPT_NOT_READ_ONLY);
        }
        self.allow_oom = flags.is_some_and(|flags| flags.allow_oom);
        Ok(())
    }

    fn call(&mut self, words: &[&[u8]], leave: &dyn Fn(bool) -> CmdResult, out: &mut Reply) {
        debug_assert!(!matches!(self.at, At::Before(_)), "a script begins before it calls");
        out.set_resp(self.session().resp());
        out.set_ceiling(REPLY_BYTES_MAX);
        let mut request = mem::take(&mut self.request);
        let mark = out.mark();
        let runnable = match request.try_set(words.iter().copied()) {
            true => self.runnable(request.args()),
            false => Err(CommandError::NO_MEMORY),
        };
        match runnable {
            Ok(d) => match leave(d.flags.has(Flags::WRITE)) {
                Ok(()) => self.run(d, &mut request, mark, out),
                // The error that ends the script is counted.
                Err(refusal) => refusal.reply(out),
            },
            // It begins again: nothing of this attempt stays.
            Err(refusal) if self.is_over() => refusal.reply(out),
            Err(refusal) => self.observers.stats.refuse(&refusal, mark, out),
        }
        self.request = request;
        if out.is_overflown() {
            out.clear(0);
            let mark = out.mark();
            self.observers.stats.refuse(&CommandError::SCRIPT_REPLY_TOO_LONG, mark, out);
        }
        // A command may take long, and the language counts its own instructions only.
        if let Some(end) = self.ended.take() {
            self.rest_after(end);
        }
    }

    fn is_over(&self) -> bool {
        self.end != End::Ran
    }

    fn has_met_wide(&self) -> bool {
        self.met_wide
    }

    fn set_resp(&mut self, resp: Resp) {
        self.session().speak(resp);
    }

    fn keep_effects_for(&mut self, audience: Audience) {
        match &mut self.at {
            At::Alone(worker, _) => worker.keep_effects_for(audience),
            At::Beside(tx, ..) => tx.keep_effects_for(audience),
            At::Before(_) | At::Nowhere => {}
        }
    }

    fn begin_again(&mut self) {
        debug_assert!(!self.written, "a script that has changed something goes on");
        self.end = End::PutOff;
    }

    fn report_sent(&mut self) {
        let (_, args) = self.command;
        let db = self.session().db();
        let sent = |words: &mut Words<'_>| args.iter().for_each(|arg| _ = words.add(arg));
        match &mut self.at {
            At::Alone(worker, _) => {
                worker.did_apart();
                worker.end_command(db, &sent);
            }
            At::Beside(tx, ..) => {
                tx.did_apart();
                tx.end_command(&sent);
            }
            At::Before(_) | At::Nowhere => unreachable!("a command that changes something has begun"),
        }
    }

    fn forget_effects(&mut self) {
        *self.abandoned = true;
        match &mut self.at {
            At::Alone(worker, _) => worker.forget_effects(),
            At::Beside(tx, ..) => tx.forget_effects(),
            At::Before(_) | At::Nowhere => {}
        }
    }

    fn note_reply_error(&mut self, text: &[u8], counted: bool) {
        let (d, _) = self.command;
        let stats = &self.observers.stats;
        if !counted {
            stats.count_error(text);
        }
        // The failed calls are redis-server's: one for each counted error, and one for all the other errors of the script.
        if counted || !mem::replace(&mut self.has_error, true) {
            stats.of(d).failed.add(1);
        }
    }

    fn may_call(&mut self, words: &[&[u8]]) -> Option<bool> {
        let mut request = Request::default();
        request.set(words.iter().copied());
        let d = self.table.lookup(request.args()).ok()?;
        Some(checks::permitted(d, request.args(), self.session()).is_ok())
    }

    fn tick(&mut self) {
        let now = Instant::now();
        self.read = Some(self.slices.on_clock(now));
        self.rest_after(now);
    }

    fn clock(&self) -> Instant {
        self.slices.clock()
    }

    fn begun(&self) -> Instant {
        match self.place {
            Place::Free { .. } => self.slices.begun(),
            // Commands of the transaction have run before it.
            Place::InExec(_) => Instant::now(),
        }
    }
}

/// Beginning, rests, and end.
impl<'c> Calls<'c> {
    /// Rests if the slice is over at this time. What the script holds is still held behind it.
    fn rest_after(&mut self, now: Instant) {
        if self.slices.is_over(now) && self.lets_others_on() {
            let reply_bytes = self.hands.as_ref().map_or(0, |hands| hands.out.held_bytes());
            self.slices.rest(self.request.held_bytes() + reply_bytes, &mut self.observers.monitored);
        }
    }

    /// Prepares for a rest: others may count the keys of the shards that are held. False if it has no place to rest in.
    fn lets_others_on(&mut self) -> bool {
        match &mut self.at {
            At::Beside(tx, ..) => tx.rest(),
            At::Alone(worker, _) => worker.park(),
            At::Before(_) | At::Nowhere => return false,
        }
        self.slices.tell_rest(self.store);
        true
    }

    /// Removes fields whose time has come, of the hashes that the script declares, before it begins. True if more are due, or shards
    /// are busy.
    #[cold]
    fn sheds_due_fields(&mut self) -> bool {
        let ((d, args), hides) = (self.command, self.hides_overdue());
        let session = &*self.hands.as_ref().expect("no command runs").session;
        let (db, overdue) = (session.db(), session.overdue(hides));
        let mut named = Vec::new();
        if d.for_each_key(args, |at| named.push((db, args.get(at)))).is_err() {
            return false;
        }
        let At::Before(worker) = &mut self.at else { unreachable!("a script begins once") };
        sheds_due_fields_beside(worker, &named, overdue, self.tries >= TRIES_MAX)
    }

    /// True if keys and fields whose time is over stay where the script meets them.
    fn hides_overdue(&self) -> bool {
        self.still || self.denied.hides_overdue(true)
    }

    /// Takes the script's place, if it is free; makes room, and opens the unit of its effects.
    fn take_place(&mut self, known_wide: bool, words: &[Box<[u8]>]) -> bool {
        // It may change keys that it does not name: those too that are on their way to another server.
        if !self.read_only && self.store.has_moving() {
            return false;
        }
        // It waits for the keys that it declares, if others work on them or keep them from writers.
        let (d, args) = self.command;
        let is_free = matches!(self.place, Place::Free { .. });
        if is_free && self.store.has_frozen() && names_frozen(d, args, self.store, !self.read_only) {
            return false;
        }
        if is_free && self.store.has_dated_hashes() && self.sheds_due_fields() {
            return false;
        }
        let At::Before(worker) = mem::replace(&mut self.at, At::Nowhere) else { unreachable!("a script begins once") };
        let bytes = bytes_to_admit(args.bytes(), args.len(), 0);
        let alone = match self.place {
            Place::InExec(_) => {
                self.out_of_memory = worker.admit(bytes).is_err();
                self.at = At::Alone(worker, None);
                return true;
            }
            Place::Free { alone } => {
                alone || known_wide || words.iter().any(|word| self.table.get(word).is_some_and(is_wide))
            }
        };
        let gate = self.store.gate();
        if alone {
            if !gate.is_open(worker.id()) {
                return false;
            }
            let Some(gate) = gate.try_exclusive(worker.id(), self.tries) else { return false };
            self.held_from = Some(Instant::now());
            self.out_of_memory = worker.admit(bytes).is_err();
            worker.begin_unit();
            self.changes = self.store.database_changes();
            self.at = At::Alone(worker, Some(gate));
            return true;
        }
        if gate.gives_way(Newcomer::Script) {
            return false;
        }
        let Some(gate) = gate.try_enter(worker.id()) else { return false };
        let Some(token) = self.store.try_token() else { return false };
        self.out_of_memory = match worker.admit_soon(bytes) {
            Err(NotAdmitted::Busy) => return false,
            admitted => admitted.is_err(),
        };
        worker.begin_unit();
        let (hides, session) = (self.hides_overdue(), self.session());
        let (db, overdue) = (session.db(), session.overdue(hides));
        let mut tx = Tx::new(self.store, worker.parts().1, db);
        tx.set_overdue(overdue);
        tx.gather(&token);
        self.at = At::Beside(tx, token, gate);
        true
    }

    /// Ends the script: closes its unit of effects, serves those who wait for keys that it has made ready, and counts its hold.
    fn finish(mut self) -> End {
        self.keep_effects_for(Audience::All);
        self.slices.end_rests(self.store);
        match mem::replace(&mut self.at, At::Nowhere) {
            At::Alone(worker, gate) => {
                match self.place {
                    Place::InExec(ready) => ready.append(&mut self.ready),
                    Place::Free { .. } => {
                        worker.end_unit();
                        let exchanged = self.changes != self.store.database_changes();
                        if exchanged || !self.ready.is_empty() {
                            blocking::serve_alone(worker, self.ready, exchanged, self.observers);
                        }
                    }
                }
                worker.park();
                drop(gate);
            }
            At::Beside(mut tx, token, gate) => {
                tx.end_unit();
                if tx.has_ready() {
                    blocking::serve_ready(&mut tx, self.observers);
                }
                tx.finish();
                drop(token);
                drop(gate);
            }
            At::Before(_) | At::Nowhere => {}
        }
        if let Some(from) = self.held_from {
            // Its rests as well: what it holds is held in them.
            self.observers.stats.holds.record_ns(from.elapsed().as_nanos() as u64);
        }
        self.end
    }

    fn session(&mut self) -> &mut Session {
        self.hands.as_mut().expect("no command runs").session
    }
}

/// True for a command that reads, in a script of a client that tracks what it reads.
fn reads_for_tracker(d: &Command, session: &Session) -> bool {
    session.tracking().remembers() && d.flags.has(Flags::READONLY)
}

/// True for a command that cannot run beside others: it does not name all its keys.
fn is_wide(d: &'static Command) -> bool {
    matches!(d.exec, Exec::Exclusive(_) | Exec::Keyspace(_) | Exec::Figures(_))
}

/// A command.
impl<'c> Calls<'c> {
    /// The command of a request, if the script may run it. The order of the reasons is redis-server's.
    fn runnable(&mut self, args: Args<'_>) -> CmdResult<&'static Command> {
        let d = self.table.resolve(args).map_err(|unresolved| match unresolved {
            Unresolved::Arity(d) => {
                self.observers.stats.of(d).rejected.add(1);
                CommandError::SCRIPT_ARITY
            }
            _ => CommandError::SCRIPT_UNKNOWN,
        })?;
        let denied = self.denied;
        let unheard = matches!(d.exec, Exec::Server) && !self.slices.may_rest();
        // Whatever its row says: commands on scripts would need the keeper that this script runs in.
        let of_scripts = matches!(d.exec, Exec::Keeper(_) | Exec::Script(..));
        let refusal = if d.flags.has(Flags::NOSCRIPT) || of_scripts || unheard {
            Err(CommandError::SCRIPT_REFUSED)
        } else if denied.hides_stale() && !d.flags.has(Flags::STALE) {
            Err(CommandError::SCRIPT_STALE)
        } else if self.read_only && d.changes() {
            Err(CommandError::SCRIPT_WRITES)
        } else {
            self.permitted(d, args).and_then(|()| checks::allowed(d, self.session(), denied))
        };
        let refusal = refusal.and_then(|()| self.check_room(d, args));
        refusal.inspect_err(|_| self.observers.stats.of(d).rejected.add(1))?;
        self.check_place(d)?;
        Ok(d)
    }

    /// Whether the client's user has the right to a command; a denial is noted.
    fn permitted(&mut self, d: &'static Command, args: Args<'_>) -> CmdResult {
        let Some(Hands { session, .. }) = &self.hands else { unreachable!("no command runs") };
        checks::permitted(d, args, session).map_err(|denial| {
            self.observers.denials.note(denial, d, args, session.user(), Origin::Script);
            CommandError::no_permission_in_script(denial)
        })
    }

    /// Whether there is room for a command. What was true when the script began holds to its end, and a script that has
    /// changed something goes on, since half of it would be worse than somewhat too much memory. A script without an end
    /// would take all: where the limit is passed by more than may be overdrawn, or there are no addresses, nothing is written.
    fn check_room(&self, d: &Command, args: Args<'_>) -> CmdResult {
        if !d.flags.has(Flags::DENYOOM) {
            return Ok(());
        }
        let refused = (self.out_of_memory || refusable::is_short()) && !self.allow_oom && !self.written;
        let bytes = bytes_to_admit(args.bytes(), args.len(), args.len());
        let fits = || {
            if self.allow_oom { self.store.log().has_addresses(bytes) } else { self.store.may_overdraw(bytes) }
        };
        if refused || !fits() { Err(CommandError::OUT_OF_MEMORY) } else { Ok(()) }
    }

    /// Whether a command may run where the script stands. If not, the script is over and begins again alone.
    fn check_place(&mut self, d: &'static Command) -> CmdResult {
        if self.end != End::Ran {
            return Err(CommandError::SCRIPT_PUT_OFF);
        }
        if !is_wide(d) || matches!(self.at, At::Alone(..)) {
            return Ok(());
        }
        self.met_wide = true;
        if self.written {
            self.observers.stats.of(d).rejected.add(1);
            return Err(CommandError::SCRIPT_WIDE);
        }
        self.end = End::MetWide;
        Err(CommandError::SCRIPT_PUT_OFF)
    }

    fn run(&mut self, d: &'static Command, request: &mut Request, mark: Mark, out: &mut Reply) {
        self.written |= d.flags.has(Flags::WRITE);
        match d.exec {
            _ if is_wide(d) => return self.run_wide(d, request.args(), mark, out),
            Exec::Server => return self.have_run(d, request.args(), mark, out),
            _ => {}
        }
        let Hands { out: scratch, session } = self.hands.take().expect("one command at a time");
        mem::swap(scratch, out);
        match mem::replace(&mut self.at, At::Nowhere) {
            At::Alone(worker, gate) => {
                {
                    let mut tx = Tx::new(self.store, worker.parts().1, session.db());
                    tx.set_overdue(session.overdue(self.hides_overdue()));
                    let mut ctx = Ctx::of_owned(d, tx, &mut *scratch, &mut *session);
                    self.run_on_keys(d, &mut ctx, request, mark);
                    let Ctx { mut tx, .. } = ctx;
                    self.ready.append(&mut tx.take_ready());
                    tx.finish();
                }
                self.at = At::Alone(worker, gate);
            }
            At::Beside(mut tx, token, gate) => {
                tx.select(session.db());
                let bodies = &NO_BODIES;
                let (args, keys) = (Args::new(&[], &[]), &[][..]);
                let mut ctx = Ctx { row: d, args, keys, bodies, tx, out: scratch, session };
                self.run_on_keys(d, &mut ctx, request, mark);
                let Ctx { tx, out: scratch, session, .. } = ctx;
                mem::swap(scratch, out);
                self.hands = Some(Hands { out: scratch, session });
                self.at = At::Beside(tx, token, gate);
                return;
            }
            At::Before(_) | At::Nowhere => unreachable!("a script begins before it calls"),
        }
        mem::swap(scratch, out);
        self.hands = Some(Hands { out: scratch, session });
    }

    /// Runs a command on the whole keyspace. No shard is held, nobody else is inside the gate.
    fn run_wide(&mut self, d: &'static Command, args: Args<'_>, mark: Mark, out: &mut Reply) {
        let start = Instant::now();
        self.read = None;
        let At::Alone(worker, _) = &mut self.at else { unreachable!("such a command runs alone") };
        let Some(Hands { session, .. }) = &mut self.hands else { unreachable!("one command at a time") };
        let call = WideCall { args, worker, session, out: &mut *out };
        let result = invoke_wide(d, self.store, call);
        let end = Instant::now();
        self.ended = Some(end);
        let (nanos, now_ms) = (Some((end - start).as_nanos() as u64), worker.now_ms());
        let ran = Ran { row: d, args, result, mark, nanos, now_ms, is_pending: false };
        if reads_for_tracker(d, session) {
            let (row, sent) = self.command;
            tracking::remember_keys(row, sent, session.id(), self.store);
        }
        self.observers.after(ran, Caller::Script(session), None, out);
    }

    /// Has the server run a command of its own, while the script rests.
    fn have_run(&mut self, d: &'static Command, args: Args<'_>, mark: Mark, out: &mut Reply) {
        let start = self.slices.clock();
        self.read = None;
        let rests = self.lets_others_on();
        debug_assert!(rests, "a script begins before it calls");
        let result = self
            .slices
            .ask(d, args, out, &mut self.observers.monitored)
            .map(|reply| reply.parts().for_each(|part| out.raw(&part)));
        let now = Instant::now();
        self.ended = Some(now);
        let nanos = Some((self.slices.on_clock(now) - start).as_nanos() as u64);
        let now_ms = match &mut self.at {
            At::Alone(worker, _) => worker.now_ms(),
            At::Beside(tx, ..) => tx.now_ms(),
            At::Before(_) | At::Nowhere => unreachable!("a script begins before it calls"),
        };
        let Some(Hands { session, .. }) = &mut self.hands else { unreachable!("one command at a time") };
        let ran = Ran { row: d, args, result, mark, nanos, now_ms, is_pending: false };
        self.observers.after(ran, Caller::Script(session), None, out);
    }

    /// Takes shards beside those that the script holds. One that another worker holds for long, like a transaction of thousands of
    /// commands, is waited for at rest, so that the script's own worker serves others. The script has `bytes` bytes in buffers.
    fn hold(&mut self, tx: &mut Tx<'_>, shards: &[u16], bytes: usize) {
        if !tx.gathers() || !self.slices.may_rest() {
            tx.hold(shards);
            return;
        }
        while !tx.gather_soon(shards) {
            tx.rest();
            self.slices.tell_rest(self.store);
            self.slices.rest(bytes, &mut self.observers.monitored);
        }
    }

    /// Runs a command on keys, whose shards it holds, or on the session.
    fn run_on_keys<'a>(&mut self, d: &'static Command, ctx: &mut Ctx<'_, 'a>, request: &'a mut Request, mark: Mark) {
        // The language has run for less than a tick since the clock was read: that is not worth another look.
        let start = self.read.take().unwrap_or_else(|| self.slices.clock());
        let held_bytes = request.held_bytes() + ctx.out.held_bytes();
        let Request { bytes, spans, keys, shards } = request;
        let args = Args::new(bytes, spans);
        keys.clear();
        let db = ctx.session.db();
        let hash = |arg: usize| KeyArg { arg: arg as u32, hash: self.store.key(db, args.get(arg)).hash };
        if d.for_each_key(args, |arg| keys.push(hash(arg))).is_err() {
            // The arguments name no keys: the handler finds the fault before it would touch one.
            keys.clear();
        }
        ctx.set_call(d, args, keys);
        super::list_shards(ctx, shards);
        let declared = reads_for_tracker(d, ctx.session).then_some(self.command);
        if let Some((row, sent)) = declared {
            // Nobody changes them before they are remembered. Added together: a set of shards is put in order at each time.
            let mut named: SmallVec<[u16; 8]> = SmallVec::new();
            let _ = row.for_each_key(sent, |at| named.push(ctx.tx.shard_of_bytes(sent.get(at))));
            shards.add(named);
        }
        // Shards that it has keep others out while it waits for the rest of them.
        let from = Instant::now();
        self.hold(&mut ctx.tx, shards, held_bytes);
        if d.flags.has(Flags::WRITE) && ctx.tx.any_waiters() {
            let names = ctx.names();
            ctx.tx.pass_occupied(names.clone());
            // A key that has been frozen since the script began: its move ends with an error.
            let _ = blocking::widen(
                &mut ctx.tx,
                shards,
                || names.clone(),
                |tx, shards| {
                    self.hold(tx, shards, held_bytes);
                    true
                },
            );
        }
        if self.held_from.is_none() && ctx.tx.gathers() && ctx.tx.holds_shards() {
            self.held_from = Some(from);
        }
        let result = invoke(d, ctx, self.table, self.observers);
        ctx.tx.assert_reported();
        let end = Instant::now();
        let on_clock = self.slices.on_clock(end);
        (self.ended, self.read) = (Some(end), Some(on_clock));
        let (nanos, now_ms) = ((on_clock - start).as_nanos() as u64, ctx.tx.now_ms());
        self.observers.sample_timed(ctx, nanos, mark);
        let Ctx { tx, session, out, .. } = ctx;
        if let Some((row, sent)) = declared {
            tracking::remember_keys(row, sent, session.id(), self.store);
        }
        let ran = Ran { row: d, args, result, mark, nanos: Some(nanos), now_ms, is_pending: false };
        self.observers.after(ran, Caller::Script(session), Some(tx), out);
    }
}

/// Words of scripts lie nowhere else.
static NO_BODIES: LargeArguments = LargeArguments::NONE;
