//! Transactions in the executor: queueing between MULTI and EXEC, and EXEC.
//!
//! ```text
//!   EXEC: room for all that may need it
//!         reach Shards:    gate as a reader; all shards of all commands and of what is watched, ascending
//!               AllShards: the same, with all shards there are: SCAN, DBSIZE, SORT by other keys
//!               Exclusive: gate alone; each command takes its shards by itself, nobody else is there
//!               Server:    as Exclusive, but the server takes the gate and drives: Transaction::run gives it each command that
//!                          is its own
//!         what is watched is compared, and watched no more
//!         commands one after the other, each with its reply; errors stop nothing
//! ```
//! One that will be long stands back while somebody wants to be alone behind the gate and was refused. Where its shards are held
//! it runs on the stage, like a script: it rests with all that it holds, and its worker serves others (stage.rs).
//!
//! The shard of a key is the same in every database, so SELECT among the commands changes no lock. Replies that CLIENT
//! REPLY turns off in the middle are missing from the array, as in Redis.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use varve_base::number::parse_i64;
use varve_catalog::{Behaviour, Flags};
use varve_protocol::{Args, Mark, Reply};
use varve_store::gate::Newcomer;
use varve_store::{ReadyKey, ShardSet, Store, StoreWorker, Tx};

use super::account::whole_ms;
use super::holding::{sheds_due_fields_beside, sheds_due_fields_in};
use super::script::Scripting;
use super::slices::Slices;
use super::{Batch, Running, Stop, TRIES_MAX, is_short_for};
use crate::command::{Command, CommandTable, Exec, Step};
use crate::ctx::{Ctx, KeyArg};
use crate::errors::{CmdResult, CommandError};
use crate::invoke::{Caller, Observers, Ran, WideCall, invoke, invoke_wide};
use crate::large_arguments::{try_admit, try_admit_transaction};
use crate::monitor::Seen;
use crate::multi::{Multi, Queued, Reach};
use crate::script::KeeperCtx;
use crate::script_rules::ScriptRules;
use crate::session::Session;
use crate::stats::SpikeEvent;
use crate::{blocking, checks};

/// Commands of a transaction from which it is taken to stay inside the gate for longer than a batch: a short one takes about a
/// microsecond.
const LONG_COMMANDS: usize = 1024;
/// Nanoseconds after which a transaction was a long one; the next one of its client is taken to be like it.
const LONG_NANOS: u64 = 1_000_000;

impl Running<'_> {
    /// A request between MULTI and EXEC: queued, run at once, or refused, which spoils the transaction.
    #[cold]
    pub(super) fn in_multi(&mut self) -> Option<Stop> {
        let d = match self.batch.work.requests[self.next].command {
            Ok(d) if d.behaviour.has(Behaviour::NEVER_QUEUED) => match d.exec {
                Exec::Transaction(step) => return self.transaction(step),
                Exec::Keys(_) => return self.refuse(d, CommandError::WATCH_INSIDE),
                _ => return self.other(d),
            },
            Ok(d) => d,
            Err(unresolved) => {
                self.spoil();
                return self.unresolved(&unresolved);
            }
        };
        let rules = self.rules_of(d);
        match self.queueable(d, rules) {
            None => return Some(self.without_room()),
            Some(Ok(())) => {}
            Some(Err(refusal)) => {
                self.spoil();
                return self.reject(d, refusal);
            }
        }
        let args = self.batch.args_of(self.next, self.input, self.outside);
        if !self.session.queue(d, rules, args, reach_of(d, args)) {
            self.spoil();
            return self.reject(d, CommandError::OUT_OF_MEMORY);
        }
        let (mark, out) = (self.out.mark(), &mut *self.out);
        self.next += 1;
        out.simple("QUEUED");
        self.session.note_command(d);
        if self.session.drop_reply() {
            out.truncate(mark);
        }
        None
    }

    fn spoil(&mut self) {
        if let Some(multi) = self.session.multi_mut() {
            multi.spoilt = true;
        }
    }

    /// Whether a command may be queued, which runs a script with these flags; None while room for it cannot be made. Any may need
    /// memory, for the queue itself.
    fn queueable(&mut self, d: &Command, rules: Option<ScriptRules>) -> Option<CmdResult> {
        if d.flags.has(Flags::NO_MULTI) {
            return Some(Err(CommandError::IN_TRANSACTION));
        }
        let request = &self.batch.work.requests[self.next];
        let args = self.batch.work.args(request, self.input, self.outside);
        let (denied, denials) = (self.batch.denied, &mut self.batch.observers.denials);
        let admitted = checks::admitted(d, args, self.session, denied, denials);
        if let Err(refusal) = admitted.and_then(|()| checks::flags_allowed(rules, denied)) {
            return Some(Err(refusal));
        }
        let bytes = (request.end - request.start) as u64;
        let admitted = !self.bodies.denied() && try_admit(self.worker, bytes as usize)?;
        Some(if admitted { Ok(()) } else { Err(CommandError::OUT_OF_MEMORY) })
    }

    /// Why a request waits for which room cannot be made at present: the gate is shut, or others hold what may be freed.
    fn without_room(&self) -> Stop {
        if self.is_shut_out() { Stop::Shut } else { Stop::Busy }
    }

    /// Ends a request that the executor itself has run: its answer is OK or an error.
    fn answer(&mut self, d: &'static Command, nanos: u64, result: CmdResult) -> Option<Stop> {
        let mark = self.out.mark();
        if result.is_ok() {
            self.out.ok();
        }
        let args = self.batch.work.args(&self.batch.work.requests[self.next], self.input, self.outside);
        self.next += 1;
        let now_ms = self.worker.now_ms();
        let ran = Ran { row: d, args, result, mark, nanos: Some(nanos), now_ms, is_pending: false };
        self.batch.observers.after(ran, Caller::Client(self.session), None, self.out);
        None
    }

    /// Ends a request that may not run, and counts that.
    pub(super) fn reject(&mut self, d: &'static Command, refusal: CommandError) -> Option<Stop> {
        self.batch.observers.stats.of(d).rejected.add(1);
        self.refuse(d, refusal)
    }

    /// Ends a request that may not run.
    fn refuse(&mut self, d: &'static Command, refusal: CommandError) -> Option<Stop> {
        self.next += 1;
        self.batch.observers.refused(d, &refusal, self.session, self.out);
        None
    }

    /// MULTI, EXEC, DISCARD, UNWATCH.
    #[cold]
    pub(super) fn transaction(&mut self, step: Step) -> Option<Stop> {
        let Ok(d) = self.batch.work.requests[self.next].command else { unreachable!("the step is a command's") };
        let denied = self.batch.denied;
        let queued = || if step == Step::Exec { checks::queued_allowed(self.session, denied) } else { Ok(()) };
        let args = self.batch.work.args(&self.batch.work.requests[self.next], self.input, self.outside);
        let denials = &mut self.batch.observers.denials;
        let admitted = checks::admitted(d, args, self.session, denied, denials);
        if let Err(refusal) = admitted.and_then(|()| queued()) {
            if step == Step::Exec {
                self.session.leave_transaction(self.worker);
                return self.reject(d, CommandError::exec_abort(&refusal));
            }
            return self.reject(d, refusal);
        }
        if self.is_shut_out() {
            return Some(Stop::Shut);
        }
        let queueing = self.session.is_queueing();
        let start = Instant::now();
        match step {
            Step::Exec if queueing => {
                self.keep_word();
                return self.exec(d);
            }
            Step::Multi if !queueing => self.session.begin_multi(),
            Step::Discard if queueing => self.session.leave_transaction(self.worker),
            Step::Unwatch => self.session.leave_transaction(self.worker),
            _ => {}
        }
        let result = match (step, queueing) {
            (Step::Multi, true) => Err(CommandError::NESTED_MULTI),
            (Step::Exec, _) => Err(CommandError::NO_MULTI_EXEC),
            (Step::Discard, false) => Err(CommandError::NO_MULTI_DISCARD),
            _ => Ok(()),
        };
        self.answer(d, start.elapsed().as_nanos() as u64, result)
    }

    /// Remembers how the client wrote EXEC.
    fn keep_word(&mut self) {
        let request = &self.batch.work.requests[self.next];
        let name = &self.batch.work.spans[request.spans.start];
        let word = &self.input[request.start..][name.start..name.start + name.len];
        if let (Some(multi), Ok(word)) = (self.session.multi_mut(), word.try_into()) {
            multi.word = word;
        }
    }

    /// EXEC of what was queued.
    fn exec(&mut self, d: &'static Command) -> Option<Stop> {
        let is_short = is_short_for(self.session);
        let multi = self.session.multi_mut().expect("EXEC inside MULTI");
        let admitted = multi.admit_bytes == 0 || {
            let Some(admitted) = try_admit_transaction(self.worker, multi.admit_bytes as usize) else {
                return Some(self.without_room());
            };
            admitted && !is_short
        };
        if !admitted {
            self.session.leave_transaction(self.worker);
            return self.reject(d, CommandError::exec_abort(&CommandError::OUT_OF_MEMORY));
        }
        if multi.spoilt {
            self.session.leave_transaction(self.worker);
            return self.answer(d, 0, Err(CommandError::EXEC_ABORT));
        }
        let (reach, db, mark) = (multi.reach, self.session.db(), self.out.mark());
        match reach {
            Reach::Shards | Reach::AllShards => {
                if let Err(stop) = self.exec_on_shards(d) {
                    return Some(stop);
                }
            }
            Reach::Exclusive => {
                if self.is_shut_out() {
                    return Some(Stop::Shut);
                }
                // Fields of a frozen key stay: its move would end with an error.
                let store = self.worker.store();
                if meets_frozen(store, self.session) || store.has_dated_hashes() && self.sheds_due_fields() {
                    return Some(Stop::Busy);
                }
                if self.queue_runs_script() && !self.session.replays() {
                    if let Some(stop) = self.exec_on_stage(d, false) {
                        return Some(stop);
                    }
                } else if let Some(stop) = self.exec_alone(d) {
                    return Some(stop);
                }
            }
            Reach::Server => {
                // A key that is frozen behind this look is watched, and its move ends with an error.
                let store = self.worker.store();
                if meets_frozen(store, self.session) || store.has_dated_hashes() && self.sheds_due_fields() {
                    return Some(Stop::Busy);
                }
                return Some(Stop::Exec(d));
            }
        }
        if self.session.ends_after_reply() {
            return Some(Stop::Close(mark));
        }
        (db != self.session.db()).then_some(Stop::Selected)
    }

    /// True if a script is among the commands that are queued.
    fn queue_runs_script(&self) -> bool {
        let mut queue = self.session.multi().into_iter().flat_map(|multi| &multi.queue);
        queue.any(|queued| matches!(self.table.of(queued.row).exec, Exec::Script(..)))
    }

    /// Runs the transaction, the gate held alone.
    fn exec_alone(&mut self, d: &'static Command) -> Option<Stop> {
        let Running { batch, worker, session, out, table, .. } = self;
        let slices = Slices::endless();
        let mut parts = batch.scripting(table, &slices);
        let Some(nanos) = run_alone(d, &mut parts, worker, session, out) else { return Some(Stop::Busy) };
        self.next += 1;
        self.spent_ns += nanos;
        None
    }

    /// Removes fields whose time has come, of the hashes that the queued commands name, while others run beside: the commands
    /// find few of them once the gate is held alone. True if more are due, or shards are busy.
    #[cold]
    fn sheds_due_fields(&mut self) -> bool {
        let Running { batch, worker, session, table, .. } = self;
        let multi = session.multi().expect("EXEC inside MULTI");
        let named = named_in(&multi.queue, table, worker.store(), session);
        // Where nothing may change, fields stay as keys do: the commands only hide them.
        let overdue = session.overdue(batch.hides_overdue(true));
        sheds_due_fields_beside(worker, &named, overdue, session.busy_tries() >= TRIES_MAX)
    }

    /// Runs the transaction with all its shards held; one that will be long on the stage, where it rests now and then.
    ///
    /// # Errors
    /// A shard is busy, or the gate is shut, with nothing done; or it rests.
    fn exec_on_shards(&mut self, d: &'static Command) -> Result<(), Stop> {
        let multi = self.session.multi().expect("EXEC inside MULTI");
        if multi.queue.len() >= LONG_COMMANDS || self.session.has_long_transactions {
            // One that needs all shards may have made the wish itself.
            let gate = self.worker.store().gate();
            if multi.reach == Reach::Shards && gate.gives_way(Newcomer::Long) {
                return Err(Stop::Busy);
            }
            if self.batch.has_stage() && !self.session.replays() {
                return self.exec_on_stage(d, true).map_or(Ok(()), Err);
            }
        }
        let Running { batch, worker, session, out, table, spent_ns, next, .. } = self;
        let slices = Slices::endless();
        let mut shards = std::mem::take(&mut batch.shards);
        let ran =
            run_on_shards(d, &mut batch.scripting(table, &slices), &mut shards, (&mut **worker, &mut **session), out);
        batch.shards = shards;
        *spent_ns += ran?;
        *next += 1;
        Ok(())
    }
}

/// Runs the transaction of a session with all its shards held. Gives the nanoseconds that it took.
///
/// # Errors
/// A shard is busy, or the gate is shut, with nothing done.
pub(super) fn run_on_shards(
    d: &'static Command,
    parts: &mut Scripting<'_>,
    shards: &mut ShardSet,
    (worker, session): (&mut StoreWorker, &mut Session),
    out: &mut Reply,
) -> Result<u64, Stop> {
    let (store, table, slices) = (Arc::clone(worker.store()), parts.table, parts.slices);
    let Some(_inside) = store.gate().try_enter(worker.id()) else { return Err(Stop::Shut) };
    let multi = session.multi().expect("EXEC inside MULTI");
    let (all, insists) = (multi.reach == Reach::AllShards, session.busy_tries() >= TRIES_MAX);
    let keys = Keys::of(&multi.queue, table, &store, session);
    let mut tx = Tx::new(&store, worker.parts().1, session.db());
    tx.set_overdue(session.overdue(parts.still || parts.denied.hides_overdue(true)));
    if all {
        shards.fill(0..store.shard_count() as u16);
    } else {
        shards.fill(keys.keys.iter().map(|key| tx.shard_of(key.hash)));
        if let Some(watching) = session.watching() {
            shards.add(watching.keys().map(|(db, key)| tx.shard_of(tx.key_in(db, key).hash)));
        }
    }
    let held = super::take(&mut tx, shards, insists)
        && (!tx.any_waiters() || hold_for_waiters(&mut tx, &multi.queue, shards, insists));
    if !held {
        if all && insists {
            // Some shard is held by one of the long transactions.
            store.gate().ask_for_room();
        }
        return Err(Stop::Busy);
    }
    if all && insists {
        store.gate().had_room();
    }
    if store.has_occupied() && meets_occupied(&tx, &multi.queue, &keys) {
        tx.finish();
        return Err(Stop::Busy);
    }
    // One look at the keys of all commands: a bound for each command would be none for a queue of many.
    if store.has_dated_hashes() && sheds_due_fields_in(&mut tx, &named_in(&multi.queue, table, &store, session)) {
        tx.finish();
        return Err(Stop::Busy);
    }
    let touched = compare(&mut tx, session);
    let mut t = Transaction::new(d, touched, session, out);
    tx.keep_held();
    t.stretch(parts.observers, Held { tx, keys: &keys }, (table, Some(slices)), session, out);
    assert_eq!(t.next, t.queue.len(), "all of it runs on shards and sessions");
    slices.end_rests(&store);
    Ok(t.end_with((parts.observers, slices.rested()), worker, session, out))
}

/// Runs the transaction of a session with the gate held alone. Gives the nanoseconds that it took; None, and nothing is done,
/// if the gate is not to be had.
pub(super) fn run_alone(
    d: &'static Command,
    parts: &mut Scripting<'_>,
    worker: &mut StoreWorker,
    session: &mut Session,
    out: &mut Reply,
) -> Option<u64> {
    let store = Arc::clone(worker.store());
    let _alone = store.gate().try_exclusive(worker.id(), session.busy_tries())?;
    if meets_frozen(&store, session) {
        return None;
    }
    let mut t = Transaction::begin(d, worker, session, out);
    let own = t.run_with(parts, worker, session, out);
    assert!(own.is_none(), "a transaction with a command of the server's is the server's");
    Some(t.end_with((parts.observers, parts.slices.rested()), worker, session, out))
}

/// True if the queued commands would change a key that is frozen, or may change any, or would use one that is occupied. No
/// shard is held.
fn meets_frozen(store: &Store, session: &Session) -> bool {
    let meets = |multi: &Multi| {
        multi.queue.iter().any(|queued| {
            let (args, mut keys) = (queued.args(), Vec::new());
            let told = queued.row.for_each_key(args, |arg| keys.push(args.get(arg)));
            if !queued.row.writes() {
                return store.any_occupied(keys.into_iter());
            }
            let any = queued.row.flags.has(Flags::TOUCHES_ARBITRARY_KEYS) || told.is_err() || keys.is_empty();
            any && store.has_moving() || store.any_frozen(keys.into_iter())
        })
    };
    store.has_frozen() && session.multi().is_some_and(meets)
}

/// How a transaction must run that has this command with these arguments.
fn reach_of(command: &Command, args: Args<'_>) -> Reach {
    match command.exec {
        Exec::Server => Reach::Server,
        Exec::Exclusive(_) | Exec::Figures(_) => Reach::Exclusive,
        Exec::Script(..) | Exec::Keeper(_) => Reach::Exclusive,
        Exec::Keyspace(_) => Reach::AllShards,
        _ if command.uses_unnamed_keys(args) => Reach::AllShards,
        _ => Reach::Shards,
    }
}

/// Takes also what serving those may need who wait for the keys that the commands may write.
#[cold]
fn hold_for_waiters(tx: &mut Tx<'_>, queue: &[Queued], shards: &mut ShardSet, insists: bool) -> bool {
    let mut keys: Vec<&[u8]> = Vec::new();
    for queued in queue.iter().filter(|queued| queued.row.flags.has(Flags::WRITE)) {
        let args = queued.args();
        let named = keys.len();
        if queued.row.for_each_key(args, |arg| keys.push(args.get(arg))).is_err() {
            keys.truncate(named);
        }
    }
    blocking::widen(tx, shards, || keys.iter().copied(), |tx, shards| super::take(tx, shards, insists))
}

/// Whether another command works on a key of one of the commands, whose shards are held.
#[cold]
fn meets_occupied(tx: &Tx<'_>, queue: &[Queued], keys: &Keys) -> bool {
    queue.iter().zip(&keys.ranges).any(|(queued, range)| {
        let args = queued.args();
        tx.any_occupied(keys.keys[range.clone()].iter().map(|key| args.get(key.arg as usize)))
    })
}

/// Begins the transaction's unit of effects and ends the session's watching, all shards of its keys held; true if a key
/// was touched or its time has come. It removes none: a replica, and a server whose writes are paused, must not.
fn compare(tx: &mut Tx<'_>, session: &mut Session) -> bool {
    tx.begin_unit();
    session.take_watching().is_some_and(|watching| watching.end(tx))
}

/// A transaction that runs: its commands, and where it stands.
pub struct Transaction {
    exec: &'static Command,
    /// EXEC as the client wrote it.
    word: [u8; 4],
    queue: Vec<Queued>,
    next: usize,
    /// The gate is held alone, and each command takes its shards; else they are all held.
    alone: bool,
    start: Instant,
    /// Keys that became ready for those who wait for them, where the gate is held alone.
    ready: VecDeque<ReadyKey>,
    /// The state of the database map before it.
    database_changes: u64,
    /// EXEC's own reply is dropped, the head of the array with it.
    muted: bool,
    /// Before EXEC.
    mark: Mark,
}

impl Transaction {
    /// Takes the session's transaction, compares what it watches and begins the reply. The gate is held alone.
    pub fn begin(
        exec: &'static Command,
        worker: &mut StoreWorker,
        session: &mut Session,
        out: &mut Reply,
    ) -> Transaction {
        let touched = worker.view(session.db(), |tx| {
            if let Some(watching) = session.watching() {
                let shards: ShardSet = watching.keys().map(|(db, key)| tx.shard_of(tx.key_in(db, key).hash)).collect();
                tx.hold(&shards);
            }
            compare(tx, session)
        });
        let database_changes = worker.store().database_changes();
        Transaction { alone: true, database_changes, ..Transaction::new(exec, touched, session, out) }
    }

    fn new(exec: &'static Command, touched: bool, session: &mut Session, out: &mut Reply) -> Transaction {
        let (mark, muted) = (out.mark(), session.is_muted());
        let Multi { mut queue, word, .. } = session.begin_exec(exec);
        if touched {
            queue.clear();
            out.null_array();
        } else {
            out.array(queue.len());
        }
        if muted {
            out.truncate(mark);
        }
        let ready = VecDeque::new();
        Transaction {
            exec,
            word,
            queue,
            next: 0,
            alone: false,
            start: Instant::now(),
            ready,
            database_changes: 0,
            muted,
            mark,
        }
    }

    /// Runs commands up to the next one that is the server's, which it gives; None when all have run. The gate is held
    /// alone.
    pub fn run(
        &mut self,
        batch: &mut Batch,
        worker: &mut StoreWorker,
        table: &CommandTable,
        session: &mut Session,
        out: &mut Reply,
    ) -> Option<(&'static Command, &Queued)> {
        self.run_with(&mut batch.scripting(table, &Slices::endless()), worker, session, out)
    }

    /// Runs commands like [`Transaction::run`], with these parts.
    fn run_with(
        &mut self,
        parts: &mut Scripting<'_>,
        worker: &mut StoreWorker,
        session: &mut Session,
        out: &mut Reply,
    ) -> Option<(&'static Command, &Queued)> {
        let (store, table) = (Arc::clone(worker.store()), parts.table);
        while !parts.abandoned {
            let keys = Keys::of(&self.queue[self.next..], table, &store, session);
            let mut tx = Tx::new(&store, worker.parts().1, session.db());
            tx.set_overdue(session.overdue(parts.still || parts.denied.hides_overdue(true)));
            self.stretch(parts.observers, Held { tx, keys: &keys }, (table, None), session, out);
            let queued = self.queue.get(self.next)?;
            self.next += 1;
            let d = table.of(queued.row);
            if let Err(denial) = checks::permitted(d, queued.args(), session) {
                parts.observers.deny_queued((d, queued.args()), denial, (session, self.muted), out);
                continue;
            }
            if matches!(d.exec, Exec::Server) {
                return Some((d, &self.queue[self.next - 1]));
            }
            let (args, mark, start) = (queued.args(), out.mark(), parts.slices.clock());
            let call = WideCall { args, worker: &mut *worker, session: &mut *session, out: &mut *out };
            let result = match d.exec {
                Exec::Script(run, _) => {
                    parts.slices.follow_replies(call.out.held_bytes());
                    parts.run_in_exec((d, run), call, &mut self.ready)
                }
                Exec::Keeper(run) => {
                    let busy = parts.denied.busy;
                    run(&mut KeeperCtx { args, out: call.out, keeper: parts.keeper(), busy })
                }
                _ => invoke_wide(d, &store, call),
            };
            let (nanos, now_ms) = (Some((parts.slices.clock() - start).as_nanos() as u64), worker.now_ms());
            let ran = Ran { row: d, args, result, mark, nanos, now_ms, is_pending: false };
            let caller = Caller::Exec { session: &mut *session, muted: self.muted };
            parts.observers.after(ran, caller, None, out);
        }
        // The rest of it would be in the file, without its beginning.
        self.queue.truncate(self.next);
        None
    }

    /// Runs commands on keys and on the session, up to one that is neither; with `slices` it rests behind a command where one is
    /// over.
    fn stretch<'s>(
        &mut self,
        observers: &mut Observers,
        held: Held<'s>,
        (table, slices): (&CommandTable, Option<&Slices<'_>>),
        session: &'s mut Session,
        out: &'s mut Reply,
    ) {
        let Held { tx, keys } = held;
        let mut ctx = Ctx::of_owned(self.exec, tx, out, session);
        let (mut shards, mut start) = (ShardSet::default(), Instant::now());
        for range in &keys.ranges {
            // A transaction whose watched keys were touched has keys, and an empty queue.
            let Some(queued) = self.queue.get(self.next) else { break };
            let mark = ctx.out.mark();
            let command = table.of(queued.row);
            if let Err(denial) = checks::permitted(command, queued.args(), ctx.session) {
                observers.deny_queued((command, queued.args()), denial, (ctx.session, self.muted), ctx.out);
                self.next += 1;
                continue;
            }
            ctx.set_call(command, queued.args(), &keys.keys[range.clone()]);
            if self.alone && matches!(command.exec, Exec::Keys(_)) {
                super::list_shards(&ctx, &mut shards);
                ctx.tx.hold(&shards);
            }
            let result = invoke(command, &mut ctx, table, observers);
            ctx.tx.assert_reported();
            self.next += 1;
            // One reading of the clock ends a command and begins the next.
            let end = Instant::now();
            let (nanos, now_ms) = ((end - start).as_nanos() as u64, ctx.tx.now_ms());
            start = end;
            observers.sample_timed(&ctx, nanos, mark);
            let Ctx { row, args, tx, session, out, .. } = &mut ctx;
            let ran = Ran { row, args: *args, result, mark, nanos: Some(nanos), now_ms, is_pending: false };
            let caller = Caller::Exec { session, muted: self.muted };
            observers.after(ran, caller, Some(tx), out);
            if let Some(slices) = slices.filter(|slices| slices.is_over(end)) {
                ctx.tx.rest();
                slices.tell_rest(ctx.tx.store());
                slices.rest(ctx.out.held_bytes(), &mut observers.monitored);
                start = Instant::now();
            }
        }
        let Ctx { mut tx, .. } = ctx;
        if self.alone {
            self.ready.append(&mut tx.take_ready());
        } else {
            tx.end_unit();
            if tx.has_ready() {
                blocking::serve_ready(&mut tx, observers);
            }
        }
        tx.finish();
    }

    /// Serves those who wait for keys that the transaction has made ready, as if it were one command. Where all shards
    /// were held, that is done.
    fn serve_waiters(&mut self, observers: &mut Observers, worker: &mut StoreWorker) {
        let store = Arc::clone(worker.store());
        worker.end_unit();
        let exchanged = self.database_changes != store.database_changes();
        if self.alone && (exchanged || !self.ready.is_empty()) {
            blocking::serve_alone(worker, std::mem::take(&mut self.ready), exchanged, observers);
        }
    }

    /// EXEC's own reply is dropped: see [`Caller::Exec`].
    pub fn is_muted(&self) -> bool {
        self.muted
    }

    /// True if the reply of a command is wanted now.
    pub fn wants(&self, session: &Session) -> bool {
        !session.is_muted_in_exec(self.muted)
    }

    /// Ends EXEC: the session is an ordinary one again. Returns the nanoseconds that it took.
    pub fn end(self, batch: &mut Batch, worker: &mut StoreWorker, session: &mut Session, out: &mut Reply) -> u64 {
        self.end_with((&mut batch.observers, Duration::ZERO), worker, session, out)
    }

    /// Ends EXEC like [`Transaction::end`]; it has rested for `rested`.
    fn end_with(
        mut self,
        (observers, rested): (&mut Observers, Duration),
        worker: &mut StoreWorker,
        session: &mut Session,
        out: &mut Reply,
    ) -> u64 {
        // Its shards were held from its beginning on, in its rests as well.
        let held = self.start.elapsed();
        self.serve_waiters(observers, worker);
        session.end_exec();
        session.end_caching(self.exec);
        if let Some(seen) = &mut observers.monitored {
            seen.push(Seen::exec(self.word, session.db()));
        }
        let nanos = held.saturating_sub(rested).as_nanos() as u64;
        session.has_long_transactions = nanos >= LONG_NANOS;
        observers.stats.count(self.exec, 1, nanos);
        observers.stats.holds.record_ns(held.as_nanos() as u64);
        observers.slow.note_spike(SpikeEvent::Command, worker.now_ms(), nanos);
        debug_assert!(out.first_since(self.mark) != Some(b'-'), "EXEC replies an array or nothing");
        worker.set_now(worker.now_ms() + whole_ms(nanos));
        nanos
    }
}

/// The logical database that a queued SELECT will select, if it does. One that the user may not run changes nothing.
fn selected_by(d: &Command, args: Args<'_>, store: &Store, session: &Session) -> Option<u32> {
    checks::permitted(d, args, session).ok()?;
    let index = parse_i64(args.get(1)).and_then(|n| u32::try_from(n).ok());
    index.filter(|n| *n < store.databases())
}

/// The keys that queued commands on keys name, and those that scripts among them declare, each with the logical database that will be
/// selected. A command of the server or a script may select another one: this is for a look at hashes that do not mind it.
fn named_in<'q>(queue: &'q [Queued], table: &CommandTable, store: &Store, session: &Session) -> Vec<(u32, &'q [u8])> {
    let (mut named, mut db) = (Vec::new(), session.db());
    for queued in queue {
        let (d, args, first) = (table.of(queued.row), queued.args(), named.len());
        match d.exec {
            Exec::Session(_) if d.behaviour.has(Behaviour::SELECTS) => {
                db = selected_by(d, args, store, session).unwrap_or(db);
            }
            Exec::Keys(_) | Exec::Script(..) => {
                let told = d.for_each_key(args, |arg| named.push((db, args.get(arg))));
                named.truncate(if told.is_ok() { named.len() } else { first });
            }
            _ => {}
        }
    }
    named
}

/// The keys of several commands.
struct Keys {
    keys: Vec<KeyArg>,
    /// Those of each command.
    ranges: Vec<Range<usize>>,
}

impl Keys {
    /// The keys of the commands up to the first one that is neither on keys, or shards, nor on the session, hashed for the database
    /// that each will find selected, and which of them are whose. A SELECT that the user may not run changes nothing; the user stays
    /// the same up to a command of the server.
    fn of(queue: &[Queued], table: &CommandTable, store: &Store, session: &Session) -> Keys {
        let (mut keys, mut ranges, mut db) = (Vec::new(), Vec::new(), session.db());
        for queued in queue {
            let (d, args, first) = (table.of(queued.row), queued.args(), keys.len());
            match d.exec {
                Exec::Keys(_) => {
                    let found = d.for_each_key(args, |arg| {
                        keys.push(KeyArg { arg: arg as u32, hash: store.key(db, args.get(arg)).hash });
                    });
                    if found.is_err() {
                        // The arguments name no keys: the handler finds the fault before it would touch one.
                        keys.truncate(first);
                    }
                }
                Exec::Session(_) if d.behaviour.has(Behaviour::SELECTS) => {
                    db = selected_by(d, args, store, session).unwrap_or(db);
                }
                Exec::Session(_) | Exec::Transaction(_) | Exec::Keyspace(_) => {}
                _ => break,
            }
            ranges.push(first..keys.len());
        }
        Keys { keys, ranges }
    }
}

/// A store whose shards are held, and the keys of commands that are to run.
struct Held<'s> {
    tx: Tx<'s>,
    keys: &'s Keys,
}
