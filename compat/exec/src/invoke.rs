//! One way to run a command, and what follows it, whoever had it run.
//!
//! ```text
//!                         runs by                       follows: Observers::after
//!  a client's request     batch (checks, room, shards)  error, events, tracking, MONITOR, count, slow log, CLIENT REPLY
//!  EXEC's commands        invoke, invoke_wide           the same, but for CLIENT REPLY: EXEC's own was turned off or not
//!  a script's commands    invoke, invoke_wide           the same, but for CLIENT REPLY
//!  the server's commands  the server's handler          the same
//!  a client that waited   blocking::Resume              error, time
//! ```
//! A plain request that succeeds and reports no event needs none of it: the batch counts it and goes on.

use std::collections::VecDeque;
use std::sync::Arc;

use varve_acl::Denial;
use varve_catalog::Row;
use varve_protocol::{Args, Mark, Reply};
use varve_store::{ReadyKey, Store, StoreWorker, Tx};

use crate::command::{Command, CommandTable, Exec, KeysFn, SessionCtx};
use crate::ctx::{Ctx, WideCtx};
use crate::denials::{Denials, Origin};
use crate::errors::{CmdResult, CommandError};
use crate::hot_keys::Sampling;
use crate::monitor::Seen;
use crate::notify::Events;
use crate::session::Session;
use crate::stats::{CommandStats, Slow};
use crate::waiting::Served;
use crate::{last_command, tracking};

/// The origin of a command. To come: a replica's master.
#[derive(Debug)]
pub enum Caller<'c> {
    /// A client's own request.
    Client(&'c mut Session),
    /// EXEC, one of whose commands it is.
    Exec {
        /// The client whose transaction it is.
        session: &'c mut Session,
        /// Replies were turned off when EXEC began: its own reply is dropped.
        muted: bool,
    },
    /// A script, one of whose commands it is: the script's own session.
    Script(&'c mut Session),
    /// Another client's command, on behalf of one that waited.
    Waiter,
}

/// A command that has run.
#[derive(Debug)]
pub struct Ran<'a> {
    /// The command's row.
    pub row: &'static Row,
    /// Its request.
    pub args: Args<'a>,
    /// The handler's result.
    pub result: CmdResult,
    /// The reply before it ran.
    pub mark: Mark,
    /// Its time, nanoseconds; None if it is counted with others that ran between two readings of the clock.
    pub nanos: Option<u64>,
    /// When it ran, milliseconds of Unix time.
    pub now_ms: i64,
    /// The reply is still to come.
    pub is_pending: bool,
}

/// Receivers of what commands do: counters, slow log, listeners to events, monitors; and clients that waited for keys.
pub(crate) struct Observers {
    pub(crate) stats: Arc<CommandStats>,
    pub(crate) slow: Slow,
    /// When commands are sampled for the rankings of keys.
    pub(crate) sampling: Sampling,
    /// Requests that users had no right to.
    pub(crate) denials: Denials,
    /// Publishes clients' messages.
    pub(crate) events: Option<Box<dyn Events + Send>>,
    /// The commands that ran in this turn, while somebody monitors.
    pub(crate) monitored: Option<Vec<Seen>>,
    /// Replies to clients that waited, in the order in which they were served.
    pub(crate) served: Vec<Served>,
    /// Keys that are ready whose waiters are served later.
    pub(crate) put_off: VecDeque<ReadyKey>,
}

/// Runs a command, whose row the context has, on keys whose shards are held, or one on the session, inside EXEC.
pub(crate) fn invoke(
    command: &Command,
    ctx: &mut Ctx<'_, '_>,
    commands: &CommandTable,
    observers: &mut Observers,
) -> CmdResult {
    last_command::note(ctx.row);
    match command.exec {
        Exec::Keys(run) | Exec::Keyspace(run) => run(ctx),
        Exec::Session(run) => {
            let databases = ctx.tx.databases();
            let Ctx { row, args, out, session, .. } = ctx;
            let events = observers.events.as_mut();
            let result = run(&mut SessionCtx { row, args: *args, out, session, commands, databases, events });
            ctx.tx.select(ctx.session.db());
            if ctx.row.publishes() && result.is_ok() {
                ctx.tx.did_publish();
            }
            result
        }
        // UNWATCH: EXEC has ended the watching.
        Exec::Transaction(_) => {
            ctx.out.ok();
            Ok(())
        }
        _ => unreachable!("{} is not run with shards held", command.full_name),
    }
}

/// Runs a command that looks at the shards one after the other, inside the gate; None, and nothing is done, if it is put back
/// since one is busy. Where it `may_wait`, the gate is held alone, and it is not.
pub(crate) fn invoke_on_shards(
    (command, run): (&'static Command, KeysFn),
    store: &Store,
    call: WideCall<'_>,
    may_wait: bool,
) -> Option<CmdResult> {
    let WideCall { args, worker, session, out } = call;
    let tx = Tx::new(store, worker.parts().1, session.db());
    let tx = if may_wait { tx } else { tx.patient() };
    let mut ctx = Ctx::of_owned(command, tx, out, session);
    ctx.set_call(command, args, &[]);
    let result = run(&mut ctx);
    let put_back = ctx.tx.take_put_back();
    ctx.tx.finish();
    (!put_back).then_some(result)
}

/// Runs a command on the whole keyspace: the gate is held as its row asks for, or alone, and no shard is.
pub(crate) fn invoke_wide(command: &'static Command, store: &Store, ctx: WideCall<'_>) -> CmdResult {
    let run = match command.exec {
        Exec::Exclusive(run) | Exec::Figures(run) => run,
        Exec::Keyspace(run) => {
            last_command::note(command);
            return invoke_on_shards((command, run), store, ctx, true).expect("nobody else holds a shard");
        }
        _ => unreachable!("{} does not run on the whole keyspace", command.full_name),
    };
    let WideCall { args, worker, session, out } = ctx;
    last_command::note(command);
    let result = run(&mut WideCtx { row: command, args, store, worker: &mut *worker, out, session: &mut *session });
    // Its reported effects are handed on while the gate is still held.
    worker.end_command(session.db(), &|words| args.iter().for_each(|arg| _ = words.add(arg)));
    worker.follow_all();
    worker.park();
    result
}

/// The parts that a command on the whole keyspace is run with.
pub(crate) struct WideCall<'c> {
    pub(crate) args: Args<'c>,
    pub(crate) worker: &'c mut StoreWorker,
    pub(crate) session: &'c mut Session,
    pub(crate) out: &'c mut Reply,
}

impl Caller<'_> {
    /// The session on which the command ran.
    fn session(&mut self) -> Option<&mut Session> {
        match self {
            Caller::Client(session) | Caller::Exec { session, .. } | Caller::Script(session) => Some(session),
            Caller::Waiter => None,
        }
    }

    /// Drops a reply that CLIENT REPLY has turned off.
    fn mute(&mut self, row: &Row, mark: Mark, out: &mut Reply) {
        let drops = match self {
            Caller::Client(session) => session.drop_reply() && !row.confirms_always(),
            Caller::Exec { session, muted } => session.is_muted_in_exec(*muted) && !row.confirms_always(),
            Caller::Script(_) | Caller::Waiter => false,
        };
        if drops {
            out.truncate(mark);
        }
    }
}

impl Observers {
    pub(crate) fn new(stats: Arc<CommandStats>) -> Observers {
        Observers {
            stats,
            slow: Slow::default(),
            sampling: Sampling::default(),
            denials: Denials::default(),
            events: None,
            monitored: None,
            served: Vec::new(),
            put_off: VecDeque::new(),
        }
    }

    /// Notes from now on what `other` notes.
    pub(crate) fn follow(&mut self, other: &Observers) {
        self.slow.follow(&other.slow);
        if self.monitored.is_some() != other.monitored.is_some() {
            self.monitored = other.monitored.is_some().then(Vec::new);
        }
    }

    /// Takes over what `other` has noted.
    pub(crate) fn absorb(&mut self, other: &mut Observers) {
        self.slow.absorb(&mut other.slow);
        self.denials.absorb(&mut other.denials);
        if let Some(seen) = &mut other.monitored {
            self.monitored.get_or_insert_default().append(seen);
        }
        self.served.append(&mut other.served);
        // To append nothing to a deque costs 80 instructions.
        if !other.put_off.is_empty() {
            self.put_off.append(&mut other.put_off);
        }
    }

    /// True if nobody looks at each command.
    #[inline]
    pub(crate) fn are_idle(&self) -> bool {
        self.monitored.is_none() && !self.slow.times_each()
    }

    /// Ends a command: its error is replied and counted; with the shards of its keys still held (`tx`), its effects
    /// are handed on and the keys that a tracking client has read are remembered; monitors see it; it is counted and
    /// perhaps logged as slow; last its reply is dropped, if replies are off.
    #[inline(never)]
    pub(crate) fn after(&mut self, ran: Ran<'_>, mut caller: Caller<'_>, tx: Option<&mut Tx<'_>>, out: &mut Reply) {
        let Ran { row, args, mark, now_ms, .. } = ran;
        let by_script = matches!(caller, Caller::Script(_));
        if let Err(error) = &ran.result {
            self.stats.fail(row, error, mark, out);
        }
        let Some(session) = caller.session() else {
            // The call was counted when its client began to wait.
            self.stats.count_served(row, ran.nanos.unwrap_or_default());
            if let Some(tx) = tx {
                tx.assert_reported();
                tx.hand_on();
            }
            return;
        };
        if let Some(tx) = tx {
            tx.end_command(&|words| args.iter().for_each(|arg| _ = words.add(arg)));
            // One that goes on and has let its shards go has seen to it before.
            let is_held = !session.is_ongoing() || tx.holds_shards();
            if session.tracking().remembers() && !by_script && is_held {
                tracking::remember(row, args, session.id(), tx.store());
            }
        }
        // Monitors do not see the command with which a client ends: redis-server does not show it either.
        let ends = session.ends_after_reply() && !session.is_in_exec();
        if let Some(seen) = self.monitored.as_mut().filter(|_| !ends) {
            let line = if by_script { Seen::by_script } else { Seen::new };
            seen.extend(line(row, args, session.db()));
        }
        match ran.nanos {
            Some(nanos) if session.is_blocked() => self.stats.count_waiting(row, nanos),
            Some(nanos) => {
                self.stats.count(row, 1, nanos);
                self.slow.note(row, args, now_ms, nanos);
            }
            None => {}
        }
        self.slow.note_reply(row, args, now_ms, out.len_since(mark));
        if self.slow.may_note_requests(args.bytes()) {
            self.slow.note_request(row, args, now_ms);
        }
        session.note_command(row);
        if ran.is_pending || session.is_blocked() {
            return;
        }
        session.end_caching(row);
        caller.mute(row, mark, out);
    }

    /// Ends a command of a transaction that runs, to which the user has lost the right since it was queued.
    #[cold]
    pub(crate) fn deny_queued(
        &mut self,
        (row, args): (&'static Row, Args<'_>),
        denial: Denial,
        (session, muted): (&mut Session, bool),
        out: &mut Reply,
    ) {
        let mark = out.mark();
        self.denials.note(denial, row, args, session.user(), Origin::Transaction);
        self.stats.refuse(&CommandError::no_permission_any_more(denial), mark, out);
        Caller::Exec { session, muted }.mute(row, mark, out);
    }

    /// Ends a request that was refused before it ran.
    #[cold]
    pub(crate) fn refused(
        &mut self,
        row: &'static Row,
        refusal: &CommandError,
        session: &mut Session,
        out: &mut Reply,
    ) {
        let mark = out.mark();
        self.stats.refuse(refusal, mark, out);
        session.note_command(row);
        session.end_caching(row);
        Caller::Client(session).mute(row, mark, out);
    }
}
