//! Transactions in the executor: queueing between MULTI and EXEC, and EXEC.
//!
//! ```text
//!   EXEC: room for all that may need it
//!         reach Shards:    gate as a reader; all shards of all commands and of what is watched, ascending
//!               Exclusive: gate alone; each command takes its shards by itself, nobody else is there
//!               Server:    as Exclusive, but the server drives: Transaction::run gives it each command that is its own
//!         what is watched is compared, and watched no more
//!         commands one after the other, each with its reply; errors stop nothing
//! ```
//! The shard of a key is the same in every database, so SELECT among the commands changes no lock. Replies that CLIENT
//! REPLY turns off in the middle are missing from the array, as in Redis.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

use varve_base::number::parse_i64;
use varve_catalog::{Behaviour, Flags};
use varve_protocol::{Mark, Reply};
use varve_store::{ReadyKey, Store, StoreWorker, Tx};

use super::account::whole_ms;
use super::{Batch, KeyArg, Running, Stop};
use crate::command::{Command, CommandTable, Exec, Step};
use crate::errors::{CmdResult, CommandError};
use crate::large_arguments::LargeArguments;
use crate::monitor::Seen;
use crate::session::{ReplyMode, Session};
use crate::stats::SpikeEvent;
use crate::transaction::{Multi, Queued, Reach};
use crate::{Ctx, SessionCtx, WideCtx, blocking, checks, tracking};

/// Busy shards that EXEC meets before it waits for them: many shards are seldom all free at the first try.
const TRIES_MAX: u32 = 3;

/// Queued arguments lie in the queue, all of them.
static NO_BODIES: LargeArguments = LargeArguments::NONE;

impl Running<'_> {
    /// A request between MULTI and EXEC: queued, run at once, or refused, which spoils the transaction.
    #[cold]
    pub(super) fn in_multi(&mut self) -> Option<Stop> {
        let d = match self.batch.work.requests[self.next].command {
            Ok(d) if d.behaviour.has(Behaviour::NEVER_QUEUED) => match d.exec {
                Exec::Transaction(step) => return self.transaction(step),
                Exec::Keys(_) => {
                    return self.answer(d, false, Err(CommandError::WATCH_INSIDE));
                }
                _ => return self.other(),
            },
            Ok(d) => d,
            Err(_) => {
                self.spoil();
                return self.other();
            }
        };
        if let Err(refusal) = self.queueable(d) {
            self.spoil();
            self.batch.stats.of(d).rejected.add(1);
            return self.answer(d, false, Err(refusal));
        }
        let args = self.batch.args_of(self.next, self.input, self.outside);
        if let Some(multi) = &mut self.session.multi {
            self.session.queued_bytes += multi.push(d, args);
        }
        let (mark, out) = (self.out.mark(), &mut *self.out);
        self.next += 1;
        out.simple("QUEUED");
        self.session.last = Some(d);
        super::account::drop_muted(self.session, out, mark);
        None
    }

    fn spoil(&mut self) {
        if let Some(multi) = &mut self.session.multi {
            multi.spoilt = true;
        }
    }

    /// Whether a command may be queued. Any may need memory, for the queue itself.
    fn queueable(&mut self, d: &Command) -> CmdResult {
        if d.flags.has(Flags::NO_MULTI) {
            return Err(CommandError::IN_TRANSACTION);
        }
        checks::allowed(d, self.session)?;
        let request = &self.batch.work.requests[self.next];
        let bytes = (request.end - request.start) as u64;
        if self.bodies.denied() || !admit(self.worker, bytes) {
            return Err(CommandError::OUT_OF_MEMORY);
        }
        Ok(())
    }

    /// Ends a request of which nothing is left but its answer, OK or an error; `ran` says whether it counts as run.
    fn answer(&mut self, d: &'static Command, ran: bool, result: CmdResult) -> Option<Stop> {
        let (mark, stats) = (self.out.mark(), &self.batch.stats);
        self.next += 1;
        match result {
            Ok(()) => self.out.ok(),
            Err(error) if ran => stats.fail(d, &error, mark, self.out),
            Err(error) => stats.refuse(&error, mark, self.out),
        }
        super::finish(d, self.session, self.out, mark);
        if ran {
            self.batch.note_request(self.next - 1, d, self.input, self.outside, self.session);
        }
        None
    }

    /// MULTI, EXEC, DISCARD, UNWATCH.
    #[cold]
    pub(super) fn transaction(&mut self, step: Step) -> Option<Stop> {
        let Ok(d) = self.batch.work.requests[self.next].command else { unreachable!("the step is a command's") };
        if let Err(refusal) = checks::allowed(d, self.session) {
            self.batch.stats.of(d).rejected.add(1);
            if step == Step::Exec {
                self.session.leave_transaction(self.worker);
                return self.answer(d, false, Err(CommandError::exec_abort(&refusal)));
            }
            return self.answer(d, false, Err(refusal));
        }
        let queueing = self.session.multi.is_some();
        let start = Instant::now();
        match step {
            Step::Exec if queueing => {
                self.keep_word();
                return self.exec(d);
            }
            Step::Multi if !queueing => self.session.multi = Some(Box::default()),
            Step::Discard if queueing => self.session.leave_transaction(self.worker),
            Step::Unwatch => self.session.leave_transaction(self.worker),
            _ => {}
        }
        self.batch.stats.count(d, 1, start.elapsed().as_nanos() as u64);
        let result = match (step, queueing) {
            (Step::Multi, true) => Err(CommandError::NESTED_MULTI),
            (Step::Exec, _) => Err(CommandError::NO_MULTI_EXEC),
            (Step::Discard, false) => Err(CommandError::NO_MULTI_DISCARD),
            _ => Ok(()),
        };
        self.answer(d, true, result)
    }

    /// Remembers how the client wrote EXEC.
    fn keep_word(&mut self) {
        let request = &self.batch.work.requests[self.next];
        let name = &self.batch.work.spans[request.spans.start];
        let word = &self.input[request.start..][name.start..name.start + name.len];
        if let (Some(multi), Ok(word)) = (&mut self.session.multi, word.try_into()) {
            multi.word = word;
        }
    }

    /// EXEC of what was queued.
    fn exec(&mut self, d: &'static Command) -> Option<Stop> {
        let multi = self.session.multi.as_mut().expect("EXEC inside MULTI");
        if multi.admit_bytes > 0 && !admit(self.worker, multi.admit_bytes) {
            self.session.leave_transaction(self.worker);
            self.batch.stats.of(d).rejected.add(1);
            return self.answer(d, false, Err(CommandError::exec_abort(&CommandError::OUT_OF_MEMORY)));
        }
        if multi.spoilt {
            self.session.leave_transaction(self.worker);
            self.batch.stats.count(d, 1, 0);
            return self.answer(d, true, Err(CommandError::EXEC_ABORT));
        }
        let (db, reach) = (self.session.db, multi.reach);
        match reach {
            Reach::Shards => {
                if !self.exec_on_shards(d) {
                    return Some(Stop::Busy);
                }
                self.next += 1;
            }
            Reach::Exclusive => {
                self.next += 1;
                let store = Arc::clone(&self.worker.store);
                let _alone = store.gate().alone(self.worker.id());
                let mut t = Transaction::begin(d, self.worker, self.session, self.out);
                let own = t.run(self.batch, self.worker, self.table, self.session, self.out);
                assert!(own.is_none(), "a transaction with a command of the server's is the server's");
                t.end(self.batch, self.worker, self.session, self.out);
            }
            Reach::Server => {
                self.next += 1;
                return Some(Stop::Exec(d));
            }
        }
        if self.session.close_after_reply {
            return Some(Stop::Close);
        }
        (db != self.session.db).then_some(Stop::Selected)
    }

    /// Runs the transaction with all its shards held; false if one is busy, with nothing done.
    fn exec_on_shards(&mut self, d: &'static Command) -> bool {
        let Running { batch, worker, session, out, table, .. } = self;
        let store = Arc::clone(&worker.store);
        let _inside = store.gate().enter(worker.id());
        let multi = session.multi.as_mut().expect("EXEC inside MULTI");
        let keys = Keys::of(&multi.queue, &store, session.db);
        let mut tx = Tx::new(&store, &mut worker.local, session.db);
        let mut shards = std::mem::take(&mut batch.shards);
        shards.clear();
        shards.extend(keys.keys.iter().map(|key| tx.shard_of(key.hash)));
        if let Some(watching) = &session.watching {
            shards.extend(watching.keys().map(|(db, key)| tx.shard_of(tx.key_in(db, key).hash)));
        }
        shards.sort_unstable();
        shards.dedup();
        let patient = batch.work.patient || multi.tries >= TRIES_MAX;
        if patient {
            tx.hold(&shards);
        }
        let held = patient || tx.try_hold(&shards);
        let held = held && (!tx.any_waiters() || hold_for_waiters(&mut tx, &multi.queue, &mut shards, patient));
        batch.shards = shards;
        if !held {
            multi.tries += 1;
            return false;
        }
        let touched = compare(&mut tx, session);
        let mut t = Transaction::new(d, touched, session, out);
        tx.keep_held();
        t.stretch(batch, (tx, &keys), table, session, out);
        assert_eq!(t.next, t.queue.len(), "all of it runs on shards and sessions");
        t.end(batch, worker, session, out);
        true
    }
}

/// Whether `bytes` more may be used, room made for them if that must be; nothing is held.
fn admit(worker: &mut StoreWorker, bytes: u64) -> bool {
    let StoreWorker { store, local } = worker;
    let _inside = store.gate().enter(local.id());
    Tx::new(store, local, 0).admit(bytes).is_ok()
}

/// Takes also what serving those may need who wait for the keys that the commands may write.
#[cold]
fn hold_for_waiters(tx: &mut Tx<'_>, queue: &[Queued], shards: &mut Vec<u16>, patient: bool) -> bool {
    let mut keys: Vec<&[u8]> = Vec::new();
    for queued in queue.iter().filter(|queued| queued.command.flags.has(Flags::WRITE)) {
        let args = queued.args();
        let named = keys.len();
        if queued.command.for_each_key(args, |arg| keys.push(args.get(arg))).is_err() {
            keys.truncate(named);
        }
    }
    blocking::widen(tx, shards, || keys.iter().copied(), |tx, shards| super::take(tx, shards, patient))
}

/// Begins the unit of a transaction: ends the session's watching, all shards of its keys held; true if a key was touched or its time has come.
fn compare(tx: &mut Tx<'_>, session: &mut Session) -> bool {
    tx.begin_unit();
    let Some(watching) = session.watching.take() else { return false };
    session.watched_bytes = 0;
    for (db, bytes) in watching.keys() {
        let key = tx.key_in(db, bytes);
        // Removes it if its time has come, which is a touch.
        tx.exists(&key);
        tx.unwatch(&key, &watching.watcher);
    }
    tx.hand_on();
    watching.watcher.is_touched()
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
        let store = Arc::clone(&worker.store);
        let mut tx = Tx::new(&store, &mut worker.local, session.db);
        if let Some(watching) = &session.watching {
            let mut shards: Vec<u16> = watching.keys().map(|(db, key)| tx.shard_of(tx.key_in(db, key).hash)).collect();
            shards.sort_unstable();
            shards.dedup();
            tx.hold(&shards);
        }
        let touched = compare(&mut tx, session);
        tx.finish();
        let database_changes = store.database_changes();
        Transaction { alone: true, database_changes, ..Transaction::new(exec, touched, session, out) }
    }

    fn new(exec: &'static Command, touched: bool, session: &mut Session, out: &mut Reply) -> Transaction {
        let multi = *session.multi.take().expect("EXEC inside MULTI");
        let Multi { mut queue, word, .. } = multi;
        let (mark, muted) = (out.mark(), matches!(session.reply, ReplyMode::Off | ReplyMode::Skip));
        session.queued_bytes = 0;
        if touched {
            queue.clear();
            out.null_array();
        } else {
            out.array(queue.len());
        }
        if muted {
            out.truncate(mark);
        }
        session.in_exec = true;
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
    ) -> Option<&Queued> {
        let store = Arc::clone(&worker.store);
        loop {
            let keys = Keys::of(&self.queue[self.next..], &store, session.db);
            let tx = Tx::new(&store, &mut worker.local, session.db);
            self.stretch(batch, (tx, &keys), table, session, out);
            let queued = self.queue.get(self.next)?;
            self.next += 1;
            let d = queued.command;
            let (Exec::Exclusive(run) | Exec::Keyspace(run)) = d.exec else {
                return Some(&self.queue[self.next - 1]);
            };
            let before = Before { mark: out.mark(), start: Instant::now() };
            let result = run(&mut WideCtx { args: queued.args(), store: &store, worker, out, session });
            worker.park();
            super::end_wide_command(worker, session.db, queued.args());
            account(batch, queued, &before, &result, worker.now_ms(), session, out);
            mute(self.muted, session, out, before.mark);
        }
    }

    /// Runs commands on keys and on the session, up to one that is neither.
    fn stretch<'s>(
        &mut self,
        batch: &mut Batch,
        (tx, keys): (Tx<'s>, &'s Keys),
        table: &CommandTable,
        session: &'s mut Session,
        out: &'s mut Reply,
    ) {
        let databases = tx.databases();
        let nothing = Queued::args_of_nothing();
        let mut ctx = Ctx { command: self.exec, args: nothing, keys: &[], bodies: &NO_BODIES, tx, out, session };
        let mut shards = Vec::new();
        for range in &keys.ranges {
            // A transaction whose watched keys were touched has keys, and an empty queue.
            let Some(queued) = self.queue.get(self.next) else { break };
            let before = Before { mark: ctx.out.mark(), start: Instant::now() };
            ctx.command = queued.command;
            ctx.args = queued.args();
            ctx.keys = &keys.keys[range.clone()];
            ctx.session.argument_bytes = ctx.args.bytes();
            let result = match queued.command.exec {
                Exec::Keys(run) => {
                    if self.alone {
                        shards.clear();
                        shards.extend(ctx.keys.iter().map(|key| ctx.tx.shard_of(key.hash)));
                        shards.sort_unstable();
                        shards.dedup();
                        ctx.tx.hold(&shards);
                    }
                    let result = run(&mut ctx);
                    if ctx.session.tracking.on {
                        tracking::remember(queued.command, &mut ctx);
                    }
                    result
                }
                Exec::Session(run) => {
                    let Ctx { args, out, session, .. } = &mut ctx;
                    let events = batch.told.events.as_mut();
                    let result = run(&mut SessionCtx { args: *args, out, session, commands: table, databases, events });
                    ctx.tx.select(ctx.session.db);
                    result
                }
                // EXEC has ended the watching.
                Exec::Transaction(_) => {
                    ctx.out.ok();
                    Ok(())
                }
                _ => unreachable!("{} ends a stretch", queued.command.full_name),
            };
            self.next += 1;
            ctx.tx.assert_reported();
            super::end_command(&mut ctx);
            account(batch, queued, &before, &result, ctx.tx.now_ms(), ctx.session, ctx.out);
            mute(self.muted, ctx.session, ctx.out, before.mark);
        }
        let Ctx { mut tx, .. } = ctx;
        if self.alone {
            self.ready.append(&mut tx.take_ready());
        } else {
            tx.end_unit();
            if tx.has_ready() {
                blocking::serve_ready(&mut tx, &batch.stats, &mut batch.served);
            }
        }
        tx.finish();
    }

    /// Serves those who wait for keys that the transaction has made ready, as if it were one command. Where all shards
    /// were held, that is done.
    fn serve_waiters(&mut self, batch: &mut Batch, worker: &mut StoreWorker) {
        let store = Arc::clone(&worker.store);
        worker.end_unit();
        if !self.alone || self.ready.is_empty() && self.database_changes == store.database_changes() {
            return;
        }
        let ready = std::mem::take(&mut self.ready);
        blocking::recheck(&store, worker, ready, &batch.stats, &mut batch.served);
    }

    /// Ends a command that the server ran itself: its reply is dropped if it is not wanted.
    pub fn ran(&self, session: &Session, out: &mut Reply, mark: Mark) {
        mute(self.muted, session, out, mark);
    }

    /// True if the reply of a command is wanted now.
    pub fn wants(&self, session: &Session) -> bool {
        !is_mute(self.muted, session)
    }

    /// Ends EXEC: the session is an ordinary one again.
    pub fn end(mut self, batch: &mut Batch, worker: &mut StoreWorker, session: &mut Session, out: &mut Reply) {
        self.serve_waiters(batch, worker);
        session.in_exec = false;
        session.last = Some(self.exec);
        tracking::ran(session, self.exec);
        if let Some(seen) = &mut batch.told.monitored {
            seen.push(Seen::exec(self.word, session.db));
        }
        session.reply = match session.reply {
            ReplyMode::SkipNext => ReplyMode::Skip,
            ReplyMode::Skip => ReplyMode::On,
            other => other,
        };
        let nanos = self.start.elapsed().as_nanos() as u64;
        batch.stats.count(self.exec, 1, nanos);
        batch.slow.note_spike(SpikeEvent::Command, worker.now_ms(), nanos);
        batch.stats.processed.add(1);
        debug_assert!(out.since(self.mark).first() != Some(&b'-'), "EXEC replies an array or nothing");
        worker.set_now(worker.now_ms() + whole_ms(nanos));
    }
}

/// The keys of several commands.
struct Keys {
    keys: Vec<KeyArg>,
    /// Those of each command.
    ranges: Vec<Range<usize>>,
}

impl Keys {
    /// The keys of the commands up to the first one that is neither on keys nor on the session, hashed for the database
    /// that each will find selected, and which of them are whose.
    fn of(queue: &[Queued], store: &Store, mut db: u32) -> Keys {
        let (mut keys, mut ranges) = (Vec::new(), Vec::new());
        for queued in queue {
            let (d, args, first) = (queued.command, queued.args(), keys.len());
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
                    let index = parse_i64(args.get(1)).and_then(|n| u32::try_from(n).ok());
                    db = index.filter(|n| *n < store.databases()).unwrap_or(db);
                }
                Exec::Session(_) | Exec::Transaction(_) => {}
                _ => break,
            }
            ranges.push(first..keys.len());
        }
        Keys { keys, ranges }
    }
}

/// The state before a command.
struct Before {
    mark: Mark,
    start: Instant,
}

/// Counts a command of a transaction.
#[allow(clippy::too_many_arguments, reason = "the parts of a turn, borrowed apart")]
fn account(
    batch: &mut Batch,
    queued: &Queued,
    before: &Before,
    result: &CmdResult,
    now_ms: i64,
    session: &mut Session,
    out: &mut Reply,
) {
    let d = queued.command;
    let nanos = before.start.elapsed().as_nanos() as u64;
    batch.stats.count(d, 1, nanos);
    batch.stats.processed.add(1);
    if let Err(error) = result {
        batch.stats.fail(d, error, before.mark, out);
    }
    batch.slow.note(d, queued.args(), now_ms, nanos);
    session.last = Some(d);
    batch.told.note(d, queued.args(), session);
}

/// Drops the reply of a command of a transaction, if replies are off by now.
fn mute(muted: bool, session: &Session, out: &mut Reply, mark: Mark) {
    if is_mute(muted, session) {
        out.truncate(mark);
    }
}

fn is_mute(muted: bool, session: &Session) -> bool {
    muted && session.reply != ReplyMode::On || session.reply == ReplyMode::Off
}
