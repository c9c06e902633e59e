//! The parts of a command that goes on over several turns, and waiters whose service was put off.

use std::time::Instant;

use smallvec::SmallVec;
use varve_catalog::Flags;
use varve_protocol::Reply;
use varve_store::{Overdue, StoreWorker, Tx, Words};

use super::account::whole_ms;
use super::{Batch, TRIES_MAX, Turn, TurnState, hold};
use crate::command::{Command, CommandTable, Exec};
use crate::ctx::{Ctx, KeyArg};
use crate::errors::{CmdResult, CommandError};
use crate::ongoing::{LeftCommand, LeftTurn, Ongoing, OngoingCommand, Progress};
use crate::pause::Pause;
use crate::session::Session;
use crate::{blocking, checks, last_command, tracking};

/// How often a command begins anew until it runs whole: keys that it keeps from writers change seldom.
const ANEW_MAX: u32 = 3;

/// The rest of a command that has let its keys go, and begins anew once writes are held back no longer.
struct LetGo;

impl Ongoing for LetGo {
    fn go_on(&mut self, _: &mut Tx<'_>, _: &mut Reply) -> Progress {
        Progress::Anew
    }

    fn kept_bytes(&self) -> usize {
        0
    }
}

impl Batch {
    /// Whether waiters are to be served that an earlier command has put off, since they were many, or whose key the store
    /// has removed by itself.
    #[inline]
    pub fn owes_service(&self, worker: &StoreWorker) -> bool {
        !self.observers.put_off.is_empty() || worker.has_gone()
    }

    /// Serves some of these waiters; false if nothing could be done at present. The worker holds nothing and is outside the gate.
    #[cold]
    pub fn serve_rest(&mut self, worker: &mut StoreWorker) -> bool {
        self.observers.put_off.append(&mut worker.take_gone());
        if self.holds_writes_back() {
            // Whoever waits for an element is served by a write.
            return false;
        }
        let (store, local) = worker.parts();
        let Some(_inside) = store.gate().try_enter(local.id()) else { return false };
        let mut tx = Tx::new(store, local, 0);
        let went_on = blocking::serve_rest(&mut tx, &mut self.observers);
        tx.finish();
        went_on
    }

    /// Goes on with the session's command until the turn's time or its room for replies is spent. The requests behind it
    /// are not looked at. A part of one that writes is held back and refused like a command that begins.
    #[cold]
    pub(super) fn go_on(
        &mut self,
        (worker, table): (&mut StoreWorker, &CommandTable),
        session: &mut Session,
        out: &mut Reply,
        out_max: usize,
    ) -> Turn {
        let mut ongoing = session.take_ongoing().expect("the caller looked");
        if ongoing.begins_anew {
            return self.begin_anew((worker, table), session, ongoing, out);
        }
        let writes = ongoing.writes();
        let may_wait = writes && !ongoing.is_bound_to_end();
        debug_assert!(!may_wait || ongoing.rest.occupied().is_none(), "a write that occupies its key comes to its end");
        let lets_go = self.pause != Pause::None || self.denied.lets_keys_go;
        if may_wait && lets_go && ongoing.rest.keeps_key() {
            ongoing.rest.abandon(worker);
            (ongoing.rest, ongoing.begins_anew) = (Box::new(LetGo), true);
            // It has met no change: this was none of its tries.
            ongoing.tries = ongoing.tries.saturating_sub(1);
        }
        if may_wait && self.pause != Pause::None {
            session.go_on(ongoing);
            return Turn { consumed: 0, commands: 0, state: TurnState::Paused };
        }
        let refused = if may_wait { checks::allowed(ongoing.row, session, self.denied).err() } else { None };
        let refused = refused.and_then(|error| ongoing.rest.refuse(error));
        // One that is brought to its end is waited for by those who would end that writes wait.
        let waits = refused.is_some() || may_wait && self.denied.writes_wait;
        let mut spent_ns = 0;
        let mut progress = refused.map_or(Progress::Busy, Progress::Failed);
        let (store, local) = worker.parts();
        let inside = if waits { None } else { store.gate().try_enter(local.id()) };
        if inside.is_some() {
            let mut tx = Tx::new(store, local, session.db());
            tx.set_overdue(session.overdue(self.hides_overdue(writes)));
            progress = self.parts(&mut ongoing, &mut tx, (out, out_max), &mut spent_ns);
            tx.finish();
        }
        drop(inside);
        ongoing.nanos += spent_ns;
        self.observers.stats.of(ongoing.row).nanos.add(spent_ns);
        worker.set_now(worker.now_ms() + whole_ms(spent_ns));
        let mut state = TurnState::Yield;
        match progress {
            Progress::Busy => {
                session.note_busy();
                session.go_on(ongoing);
                state = TurnState::Busy;
            }
            Progress::More | Progress::Waits => {
                if matches!(progress, Progress::Waits) {
                    state = TurnState::Linked;
                }
                session.note_progress();
                session.go_on(ongoing);
            }
            Progress::Anew => {
                ongoing.begins_anew = true;
                session.go_on(ongoing);
            }
            Progress::Done => self.end_parts(*ongoing, None, worker, session, out),
            Progress::Failed(error) => self.end_parts(*ongoing, Some(&error), worker, session, out),
        }
        Turn { consumed: 0, commands: 0, state }
    }

    /// True while commands that write wait: for the end of a pause, or of a change of this server's role.
    fn holds_writes_back(&self) -> bool {
        self.pause != Pause::None || self.denied.writes_wait
    }

    /// Runs parts until one is not followed by another at once, or the turn's time or its room for replies is spent.
    fn parts(
        &mut self,
        ongoing: &mut OngoingCommand,
        tx: &mut Tx<'_>,
        (out, out_max): (&mut Reply, usize),
        spent_ns: &mut u64,
    ) -> Progress {
        let begin = Instant::now();
        loop {
            let mark = out.mark();
            let progress = ongoing.rest.go_on(tx, out);
            if ongoing.muted {
                out.truncate(mark);
            }
            ongoing.reply_bytes += out.len_since(mark);
            ongoing.effect_bytes = self.follow_part(ongoing, tx);
            // A reader says for how long it held; else what is held now was held for the whole part.
            let whole_ns = begin.elapsed().as_nanos() as u64 - *spent_ns;
            let held_ns = tx.take_part_ns().or(tx.holds_shards().then_some(whole_ns));
            tx.release();
            if let Some(held_ns) = held_ns {
                self.observers.stats.holds.record_many_ns(held_ns, 1);
            }
            *spent_ns = begin.elapsed().as_nanos() as u64;
            if !matches!(progress, Progress::More) || out.len() > out_max || *spent_ns > self.times.parts_ns {
                return progress;
            }
        }
    }

    /// Ends a command that has replied all, or fails with an error.
    fn end_parts(
        &mut self,
        mut ongoing: OngoingCommand,
        failed: Option<&CommandError>,
        worker: &mut StoreWorker,
        session: &mut Session,
        out: &mut Reply,
    ) {
        session.note_progress();
        if let Some(error) = failed {
            let mark = out.mark();
            self.observers.stats.fail(ongoing.row, error, mark, out);
            if ongoing.muted {
                out.truncate(mark);
            }
        }
        ongoing.rest.abandon(worker);
        self.observers.stats.end_parts(ongoing.row, ongoing.nanos);
        let (row, args, now_ms) = (ongoing.row, ongoing.args.args(), worker.now_ms());
        self.observers.slow.note(row, args, now_ms, ongoing.nanos);
        self.observers.slow.note_reply(row, args, now_ms, ongoing.reply_bytes);
    }

    /// Begins a command anew that has met a change of what it had read; after some tries it runs whole.
    #[cold]
    fn begin_anew(
        &mut self,
        (worker, table): (&mut StoreWorker, &CommandTable),
        session: &mut Session,
        mut ongoing: Box<OngoingCommand>,
        out: &mut Reply,
    ) -> Turn {
        let turn = |state| Turn { consumed: 0, commands: 0, state };
        let command = table.of(ongoing.row);
        let is_paused = self.pause.holds(command, session);
        let waits = is_paused || self.denied.writes_wait && ongoing.row.writes();
        // It is checked like any command that begins: its user may have lost the right since, and the server refuse it now.
        let (args, denials) = (ongoing.args.args(), &mut self.observers.denials);
        if let Err(refusal) = checks::admitted(ongoing.row, args, session, self.denied, denials) {
            self.end_parts(*ongoing, Some(&refusal), worker, session, out);
            return turn(TurnState::Yield);
        }
        let (begin, mark) = (Instant::now(), out.mark());
        session.set_begins_anew(true, ongoing.tries + 1 >= ANEW_MAX);
        session.set_caching(ongoing.caches);
        let ran = if waits { None } else { self.run_anew(worker, command, session, &ongoing, out) };
        session.set_begins_anew(false, false);
        session.set_caching(false);
        if ongoing.muted {
            out.truncate(mark);
        }
        ongoing.nanos += begin.elapsed().as_nanos() as u64;
        let Some(result) = ran else {
            session.note_busy();
            session.go_on(ongoing);
            return turn(if is_paused { TurnState::Paused } else { TurnState::Busy });
        };
        session.note_progress();
        match session.take_ongoing() {
            Some(again) => {
                ongoing.tries += 1;
                // The rest has its own copy of the arguments: the first one goes.
                (ongoing.rest, ongoing.args, ongoing.begins_anew) = (again.rest, again.args, false);
                session.go_on(ongoing);
            }
            None => self.end_parts(*ongoing, result.err().as_ref(), worker, session, out),
        }
        turn(TurnState::Yield)
    }

    /// Runs the handler of a command that has gone on; None, and nothing is done, if a shard is busy.
    fn run_anew(
        &mut self,
        worker: &mut StoreWorker,
        command: &'static Command,
        session: &mut Session,
        ongoing: &OngoingCommand,
        out: &mut Reply,
    ) -> Option<CmdResult> {
        let Exec::Keys(run) = command.exec else { unreachable!("a command on keys goes on") };
        last_command::note(command);
        let (store, local) = worker.parts();
        let _inside = store.gate().try_enter(local.id())?;
        let (args, mut keys) = (ongoing.args.args(), SmallVec::<[KeyArg; 8]>::new());
        let named = command.for_each_key(args, |at| {
            keys.push(KeyArg { arg: at as u32, hash: store.key(session.db(), args.get(at)).hash });
        });
        debug_assert!(named.is_ok(), "the command has run with these keys");
        let mut tx = Tx::new(store, local, session.db()).patient();
        let writes = command.flags.has(Flags::WRITE);
        tx.set_overdue(session.overdue(self.hides_overdue(writes)));
        let (begin, insists) = (Instant::now(), session.busy_tries() >= TRIES_MAX);
        let mut ctx = Ctx::of_owned(command, tx, out, session);
        ctx.set_call(command, args, &keys);
        let mark = ctx.out.mark();
        let ran = hold(&mut ctx, command, &mut self.shards, insists).then(|| run(&mut ctx));
        let ran = ran.filter(|_| !ctx.tx.take_put_back());
        if ran.is_none() {
            ctx.out.truncate(mark);
        }
        let _ = self.follow_part(ongoing, &mut ctx.tx);
        if ctx.tx.holds_shards() {
            if ctx.session.tracking().remembers() {
                tracking::remember(command, args, ctx.session.id(), ctx.tx.store());
            }
            self.observers.stats.holds.record_many_ns(begin.elapsed().as_nanos() as u64, 1);
        }
        ctx.tx.finish();
        ran
    }

    /// Follows a part of a command, the shards that it used still held: its effects are handed on, and clients that wait
    /// for a key that it has made are served. Effects on a key that it still occupies stay with the key: gives their bytes.
    fn follow_part(&mut self, ongoing: &OngoingCommand, tx: &mut Tx<'_>) -> usize {
        let sent = |words: &mut Words<'_>| ongoing.args.args().iter().for_each(|arg| _ = words.add(arg));
        let mut kept = 0;
        match ongoing.rest.occupied() {
            _ if !tx.has_effects() => kept = ongoing.effect_bytes,
            Some(key) => kept = tx.end_part(key, &sent),
            None => tx.end_command(&sent),
        }
        if tx.has_ready() {
            blocking::serve_ready(tx, &mut self.observers);
        }
        kept
    }

    /// Goes on with a command whose client has left, for as long as a turn.
    #[cold]
    pub fn go_on_left(&mut self, worker: &mut StoreWorker, left: &mut LeftCommand) -> LeftTurn {
        let (store, local) = worker.parts();
        let Some(inside) = store.gate().try_enter(local.id()) else { return LeftTurn::Busy };
        let (mut out, mut spent_ns) = (Reply::new(), 0);
        let mut tx = Tx::new(store, local, left.db);
        if self.hides_overdue(true) {
            tx.set_overdue(Overdue::Hidden);
        }
        let progress = self.parts(&mut left.command, &mut tx, (&mut out, usize::MAX), &mut spent_ns);
        tx.finish();
        drop(inside);
        left.command.nanos += spent_ns;
        self.observers.stats.of(left.command.row).nanos.add(spent_ns);
        match progress {
            Progress::Busy => LeftTurn::Busy,
            Progress::More => LeftTurn::More,
            Progress::Waits | Progress::Done | Progress::Anew | Progress::Failed(_) => {
                left.command.rest.abandon(worker);
                self.observers.stats.end_parts(left.command.row, left.command.nanos);
                LeftTurn::Ended
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use varve_acl::{KnownCommands, RuleContext, User};
    use varve_catalog::{Group, KeyFlags, KeySpec, Row};
    use varve_protocol::{Parser, RequestLimits};
    use varve_store::{LogGeometry, Options, Store};

    use super::*;
    use crate::stats::CommandStats;
    use crate::{CommandSet, LargeArguments};

    /// How often the command has begun.
    static BEGUN: AtomicUsize = AtomicUsize::new(0);

    /// A rest that always finds its key changed.
    struct Changed;

    impl Ongoing for Changed {
        fn go_on(&mut self, _: &mut Tx<'_>, _: &mut Reply) -> Progress {
            Progress::Anew
        }

        fn kept_bytes(&self) -> usize {
            0
        }
    }

    fn copy_long(ctx: &mut Ctx<'_, '_>) -> CmdResult {
        BEGUN.fetch_add(1, Ordering::Relaxed);
        if ctx.session.takes_parts() {
            ctx.go_on(Box::new(Changed))
        } else {
            ctx.out.simple("OK")
        }
        Ok(())
    }

    const ROWS: &[Command] = &[Command::new(
        Exec::Keys(copy_long),
        Row::new("copylong", Group::Generic, 2, "1.0.0")
            .about("Copies.", "O(N)")
            .flags(&[Flags::WRITE])
            .keys(&[KeySpec::one(1, KeyFlags::RW.and(KeyFlags::UPDATE))]),
    )];

    /// A command that begins anew runs its handler again, so that a right is asked for which a user may have lost.
    #[test]
    fn issue_11_a_command_begins_anew_only_with_the_right_to_it() {
        let set = CommandSet::new(&[&[ROWS]]);
        let known = KnownCommands::new(set.rows());
        let context = RuleContext { commands: &known, all_channels: true };
        let geometry = LogGeometry { reserve_bytes: 1 << 30, ..LogGeometry::default() };
        let store = Store::new(&Options { seed: 3, geometry, ..Options::default() }).expect("a range");
        let (mut worker, table) = (store.worker(0), CommandTable::new(&set));
        let mut batch = Batch::new(CommandStats::new(set.ids()));
        let mut run = |lost_after: usize, is_muted: bool| {
            let (mut session, mut out) = (Session::new(1, 0, true), Reply::new());
            if is_muted {
                session.reply_off();
            }
            let mut parser = Parser::new(RequestLimits::default());
            let mut input = b"*2\r\n$8\r\ncopylong\r\n$1\r\nk\r\n".to_vec();
            BEGUN.store(0, Ordering::Relaxed);
            for turn in 0..20 {
                if turn == lost_after {
                    session.authenticate(Arc::new(User::new(b"nobody", &context)));
                }
                let none = &mut LargeArguments::default();
                let turn = batch.turn(&mut worker, &table, &mut parser, &mut session, 0, &mut input, none, &mut out);
                input.drain(..turn.consumed);
                if !session.is_ongoing() {
                    break;
                }
            }
            assert!(!session.is_ongoing(), "it ends");
            (out.to_vec(), BEGUN.load(Ordering::Relaxed))
        };
        assert_eq!(run(usize::MAX, false), (b"+OK\r\n".to_vec(), 1 + ANEW_MAX as usize));
        assert_eq!(run(usize::MAX, true), (Vec::new(), 1 + ANEW_MAX as usize), "no reply, where none is wanted");
        let (reply, begun) = run(1, false);
        assert!(reply.starts_with(b"-NOPERM"), "{}", String::from_utf8_lossy(&reply));
        assert_eq!(begun, 1, "the handler ran once");
        let denied = batch.take_denials().expect("the denial is noted");
        assert_eq!(denied.len(), 1);
    }
}
