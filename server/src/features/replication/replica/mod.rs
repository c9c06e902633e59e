//! The replica's end: a thread of its own makes the link to the primary, receives its data and its stream, and has the workers
//! load the one and apply the other.
//!
//! ```text
//!  goal (REPLICAOF)   thread "replica"
//!   none --> a primary: all workers have ended their turns, the gate alone: effects are kept no longer
//!            +--> connect (link.rs) --> handshake --> +FULLRESYNC: data to a file, all data goes, load (sync.rs) --+
//!            |                                    +-> +CONTINUE -----------------------------------------------+---+
//!            |                                                                                                  v
//!            +----- 1 s, at once if it was up <--- the link ends <--- the stream: lanes, which workers run (stream.rs)
//!   a primary --> none: all that was received is applied, the gate alone: the history goes on under another id
//! ```
//! It is a thread and no connection of a worker: it reads the primary's data as the start's thread reads a file, waits for the
//! lanes where they have no room, and must send its word each second while a worker runs a long command.
//!
//! Not here: the data that others see (`state/replica.rs`), the lanes (`varve_exec::apply`, `worker`).

mod beside;
mod handshake;
mod link;
mod stream;
mod sync;

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use mio::{Poll, Waker};
use varve_base::number::parse_i64;
use varve_catalog::{ArgKind, Argument, Flags, Group, Row, arg, block, one_of, word};
use varve_exec::CmdResult;
use varve_store::{EffectSink, StoreWorker};

use super::handing::lead_noted;
use super::state::failover::Handing;
use super::state::replica::{Address, Goal, LinkStage};
use crate::config::Fsync;
use crate::errors;
use crate::features::persist::aof::stream as kept;
use crate::state::command::{ServerCommand, ServerRows};
use crate::state::ctx::{After, ServerCtx};
use crate::state::mail::Message;
use crate::state::{ServerState, errands, work};
use crate::system::{error_text, random, threads};
use handshake::Start;
use link::{End, Line};

/// The commands of this part.
pub(super) const ROWS: ServerRows = &[REPLICAOF, SLAVEOF];

/// Time before a link is made anew that never came up.
const AGAIN_AFTER: Duration = Duration::from_secs(1);
/// Digits of an id.
const ID_DIGITS: usize = 40;
/// Why replicas of this server have to ask again: they learn the new id then.
const ID_CHANGED: &str = "the replication id has changed";

/// `REPLICAOF NO ONE`, `REPLICAOF host port`
fn replicaof(ctx: &mut ServerCtx<'_>) -> CmdResult<After> {
    let replica = ctx.state.replication().replica();
    if ctx.state.replication().failover().stage() != Handing::None {
        return Err(errors::REPLICAOF_IN_FAILOVER);
    }
    if ctx.args.is(1, "NO") && ctx.args.is(2, "ONE") {
        if replica.primary().is_some() {
            lead_noted(ctx.state);
            tracing::info!("MASTER MODE enabled (user request from '{}')", asker(ctx));
        }
        // The new id is there behind the reply, where a failover's script looks for it. A transaction cannot wait: Sentinel's,
        // which asks INFO until the role has changed.
        if !ctx.conn.session().is_in_exec() && replica.await_lead(work::waiter(ctx)) {
            return Ok(work::waits(ctx));
        }
        ctx.out.ok();
        return Ok(After::Done);
    }
    let port = parse_i64(ctx.args.get(2)).ok_or(errors::MASTER_PORT)?;
    let port = u16::try_from(port).map_err(|_| errors::MASTER_PORT)?;
    let primary = Address { host: String::from_utf8_lossy(ctx.args.get(1)).into_owned(), port };
    if replica.is_followed(&primary.host, port) {
        ctx.out.simple("OK Already connected to specified master");
        return Ok(After::Done);
    }
    follow_noted(ctx.state, primary.clone()).map_err(|error| errors::replicaof(&error_text(&error)))?;
    tracing::info!("REPLICAOF {}:{port} enabled (user request from '{}')", primary.host, asker(ctx));
    ctx.out.ok();
    Ok(After::Done)
}

/// Follows this primary from now on, and the settings name it.
///
/// # Errors
/// There is no thread to be had.
pub(super) fn follow_noted(state: &Arc<ServerState>, primary: Address) -> io::Result<()> {
    follow(state, primary.clone())?;
    state.config().note_primary(Some((&primary.host, primary.port)));
    Ok(())
}

/// The client of a command, for the log.
pub(super) fn asker(ctx: &ServerCtx<'_>) -> String {
    let (session, ends) = (ctx.conn.session(), ctx.conn.socket().ends());
    let name = String::from_utf8_lossy(session.name());
    format!("id={} addr={} laddr={} name={name}", session.id(), ends.peer(), ends.local())
}

/// The master, or none.
const MASTER: &[Argument] = &[one_of(
    "args",
    &[
        block("host-port", &[arg("host", ArgKind::String), arg("port", ArgKind::Integer)]),
        block("no-one", &[word("no", "NO"), word("one", "ONE")]),
    ],
)];
/// The flags of both names.
const FLAGS: &[Flags] = &[Flags::ADMIN, Flags::NOSCRIPT, Flags::STALE, Flags::NO_ASYNC_LOADING];

const REPLICAOF: ServerCommand = ServerCommand::new(
    replicaof,
    Row::new("replicaof", Group::Server, 3, "5.0.0")
        .about("Makes the server a replica of another one, or a master.", "O(1)")
        .flags(FLAGS)
        .args(MASTER),
);

const SLAVEOF: ServerCommand = ServerCommand::new(
    replicaof,
    Row::new("slaveof", Group::Server, 3, "1.0.0")
        .about("Makes the server a replica of another one, or a master.", "O(1)")
        .flags(FLAGS)
        .deprecated("5.0.0", "`REPLICAOF`")
        .args(MASTER),
);

/// The settings may name a primary that is to be followed: the server is a replica before it loads its data.
pub(crate) fn before_start(state: &ServerState) {
    let config = state.config().snapshot();
    if let Some((host, port)) = config.replica.primary.clone() {
        state.replication().replica().want(Some(Address { host, port }));
        state.store().set_following(true, config.replica.ignores_limit);
    }
}

/// The settings may name a primary: it is followed from now on, once data is loaded.
///
/// # Errors
/// There is no thread to be had.
pub(crate) fn at_start(state: &Arc<ServerState>) -> io::Result<()> {
    match state.config().snapshot().replica.primary.clone() {
        Some((host, port)) => follow(state, Address { host, port }),
        None => Ok(()),
    }
}

/// Follows this primary from now on.
fn follow(state: &Arc<ServerState>, primary: Address) -> io::Result<()> {
    let (poll, waker) = Thread::poll()?;
    let replica = state.replication().replica();
    replica.want(Some(primary));
    tell_waiting(state);
    if replica.begin_thread(&waker) {
        let goal = replica.goal();
        let thread = Thread { state: Arc::clone(state), poll, waker, goal, cuts: replica.cuts() };
        threads::start("replica", move || thread.run()).inspect_err(|_| {
            replica.has_no_thread();
            tell_waiting(state);
        })?;
    }
    Ok(())
}

/// Replies to clients that have waited until the server leads, once it does, or follows another one by now.
pub(crate) fn tell_waiting(state: &ServerState) {
    state.replication().replica().take_waiting().into_iter().for_each(|waiter| work::done(state, waiter, true));
}

/// See the module's picture.
#[derive(Debug)]
struct Thread {
    state: Arc<ServerState>,
    poll: Poll,
    waker: Arc<Waker>,
    goal: Goal,
    /// Cuts of the link that were made.
    cuts: u64,
}

impl Thread {
    fn run(mut self) {
        loop {
            let state = Arc::clone(&self.state);
            let replica = state.replication().replica();
            self.goal = replica.goal();
            match self.goal.primary.clone() {
                Some(primary) => {
                    if self.begin_following() {
                        self.links_to(&primary);
                    }
                }
                None => {
                    self.leave();
                    tell_waiting(&state);
                    if replica.end_thread(&self.goal) {
                        return;
                    }
                }
            }
            if state.is_stopping() {
                return;
            }
        }
    }

    /// The server's own effects are kept no longer, and what it has is the state of its stream's end; false if something else is
    /// wanted meanwhile, or the server ends.
    fn begin_following(&mut self) -> bool {
        let state = Arc::clone(&self.state);
        // A turn or a command in parts that began before may still write; behind the answers none does. That may take as long as
        // another server keeps a MIGRATE waiting.
        let gives_up = || state.is_stopping() || state.replication().replica().goal() != self.goal;
        if !errands::settle(&state, Message::Follows, gives_up) {
            return false;
        }
        let state = Arc::clone(&self.state);
        let begun = self.alone(move |_| {
            if let Some(db) = state.persist().aof.journal().db() {
                state.replication().replica().set_stream_db(db);
            }
            state.store().set_following(true, state.config().snapshot().replica.ignores_limit);
            kept::follow_keeping(&state);
        });
        begun.is_some()
    }

    /// Makes links to a primary, one behind the other, until something else is wanted.
    fn links_to(&mut self, primary: &Address) {
        let state = Arc::clone(&self.state);
        let replica = state.replication().replica();
        loop {
            let end = self.link_to(primary);
            let was_up = replica.facts().stage == LinkStage::Up;
            replica.report(|facts| facts.stage = LinkStage::Down);
            let again = match end {
                End::Unwanted => return,
                End::Broken(reason) => {
                    tracing::warn!("{reason}");
                    Some(Instant::now() + if was_up { Duration::ZERO } else { AGAIN_AFTER })
                }
                End::Refused(reason) => {
                    replica.give_up(&self.goal);
                    tracing::warn!("{reason}. Replication stops here until REPLICAOF is given again");
                    None
                }
            };
            while again.is_none_or(|again| again > Instant::now()) {
                let left = again.map_or(AGAIN_AFTER, |again| again.saturating_duration_since(Instant::now()));
                if let Err(End::Unwanted) = self.wait(left) {
                    return;
                }
            }
        }
    }

    /// One link, to its end.
    fn link_to(&mut self, primary: &Address) -> End {
        let state = Arc::clone(&self.state);
        let replica = state.replication().replica();
        tracing::info!("Connecting to MASTER {}:{}", primary.host, primary.port);
        replica.report(|facts| facts.stage = LinkStage::Connecting);
        let until = Instant::now() + self.timeout();
        let up = Line::connect(self, primary, until).and_then(|mut line| {
            tracing::info!("MASTER <-> REPLICA sync started");
            replica.report(|facts| (facts.stage, facts.peer) = (LinkStage::Handshake, line.peer()));
            match handshake::shake(self, &mut line)? {
                Start::Continue { id } => {
                    if let Some(id) = id.filter(|id| *id != state.replication().ids().history().id) {
                        tracing::warn!("Master replication ID changed to {id}");
                        self.go_on_as(id)?;
                    }
                    tracing::info!("MASTER <-> REPLICA sync: Master accepted a Partial Resynchronization.");
                }
                Start::Full { id, offset } => sync::receive(self, &mut line, &id, offset)?,
            }
            Ok(line)
        });
        match up {
            Ok(line) => stream::follow(self, line),
            Err(end) => end,
        }
    }

    /// All that was received is applied, and the server is a primary: the history goes on under another id.
    fn leave(&mut self) {
        let Ok(id) = random::hex(ID_DIGITS) else {
            tracing::warn!("The system gives no random numbers: this server stays a replica");
            return;
        };
        let (state, goal) = (Arc::clone(&self.state), self.goal.clone());
        self.alone(move |_| {
            let replication = state.replication();
            // A replica that asks for the stream behind this finds the new id, and is not ended.
            replication.replica().lead(&goal, || {
                // A replica may come whose reader has another database selected.
                replication.ids().go_on_as(id, state.persist().aof.journal().say_database_again());
                kept::note_history(&state);
                replication.replicas().end_all(ID_CHANGED);
                kept::wake(&state);
                state.store().set_following(false, false);
                kept::follow_keeping(&state);
            });
        });
    }

    /// The history goes on under this id at the primary.
    ///
    /// # Errors
    /// The server ends.
    fn go_on_as(&self, id: String) -> Result<(), End> {
        let state = Arc::clone(&self.state);
        let done = self.alone(move |_| {
            state.replication().ids().go_on_as(id, state.persist().aof.journal().end());
            kept::note_history(&state);
            state.replication().replicas().end_all(ID_CHANGED);
            kept::wake(&state);
        });
        done.ok_or(End::Unwanted)
    }

    /// Has a worker do something alone behind the gate, and waits for what it gives; None if the server ends before.
    fn alone<T: Send + 'static>(&self, work: impl FnOnce(&mut StoreWorker) -> T + Send + 'static) -> Option<T> {
        errands::alone(&self.state, work, || self.state.is_stopping())
    }

    /// The time after which a silent link is given up.
    fn timeout(&self) -> Duration {
        self.state.config().snapshot().replica.timeout
    }

    /// The offset up to which the stream is applied.
    fn offset(&self) -> u64 {
        self.state.replication().ids().offset(self.state.persist().aof.journal().end())
    }

    /// The offset up to which the append-only file is synced; None where none is kept, or nobody syncs it.
    fn filed(&self) -> Option<u64> {
        let append = &self.state.config().snapshot().append;
        let aof = &self.state.persist().aof;
        if !aof.is_on() || aof.waits_for_base() || append.fsync == Fsync::No {
            return None;
        }
        let (ids, journal) = (self.state.replication().ids(), aof.journal());
        // A file that is synced up to a place before the stream has nothing of it.
        Some(ids.offset_of(journal.synced()).unwrap_or(0))
    }

    /// Bytes have come from the primary.
    fn note_heard(&self, bytes: usize) {
        self.state.replication().replica().note_received(bytes);
    }

    /// Looks whether the link is still wanted.
    ///
    /// # Errors
    /// It is not, or it is to be cut.
    fn look_at_goal(&mut self) -> Result<(), End> {
        self.state.sleep_out();
        let replica = self.state.replication().replica();
        if self.state.is_stopping() || replica.goal_number() != self.goal.number {
            return Err(End::Unwanted);
        }
        let cuts = replica.cuts();
        if std::mem::replace(&mut self.cuts, cuts) != cuts {
            return Err(End::Broken("The link to MASTER was cut by a client".to_owned()));
        }
        Ok(())
    }
}
