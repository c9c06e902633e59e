//! Saving to a file and loading from it: SAVE, BGSAVE, LASTSAVE, save points, SHUTDOWN.
//!
//! ```text
//!   BGSAVE, save points, SAVE --> save.rs: the instant, the walk (engine), the file
//!   start                     --> load.rs
//! ```
//! No process is forked: the workers walk the keyspace between their batches, and a key that changes is written as it was
//! at the instant. SAVE waits for the end, and only its own client does.

pub(crate) mod aof;
pub(crate) mod filtered;
mod insert;
mod insert_in_parts;
mod leftovers;
pub(crate) mod load;
pub(crate) mod load_beside;
mod points;
mod progress;
mod rdb_file;
mod save;
pub(crate) mod shutdown;
pub(crate) mod state;

pub(crate) use points::{follow, tick};
pub(crate) use save::{begin_for_replicas, drop_unfinished, give_up_for_replicas, save_alone};

use varve_base::refusable;
use varve_catalog::{Acl, Flags, Group, Row, word};
use varve_exec::checks::{Denied, WritesDenied};
use varve_exec::{CmdResult, CommandError};

use crate::config::Config;
use crate::errors;
use crate::features::pubsub::state::WorkWaiter;
use crate::state::command::{ServerCommand, ServerRows};
use crate::state::ctx::{After, ServerCtx};
use crate::state::{ServerState, work};
use save::{NotBegun, Purpose};
use state::Scheduled;

/// The commands of this matter.
pub(super) const ROWS: &[ServerRows] = &[&[BGSAVE, LASTSAVE, SAVE], aof::ROWS, shutdown::ROWS];

/// The commands that clients are refused at present.
#[inline]
pub(crate) fn denied(state: &ServerState, config: &Config) -> Denied {
    let persist = state.persist();
    let unsaved = persist.has_failed() && config.save.failure_stops_writes && !config.save.points.is_empty();
    let writes = match persist.aof.refusal() {
        _ if unsaved => Some(WritesDenied::Unsaved),
        Some(errno) => Some(WritesDenied::Unwritten(errno)),
        None => (!is_replicated(state, config)).then_some(WritesDenied::Unreplicated),
    };
    let replica = state.replication().replica();
    let lets_keys_go = replica.leaves();
    let writes_wait = persist.queued().is_full() || persist.aof.is_full() || lets_keys_go;
    let replica = replica.rules(config.replica.read_only, config.replica.serves_stale);
    let (loads, serves) = (persist.loading.is_on(), persist.loading.serves());
    let short = refusable::is_short();
    Denied {
        loading: loads && !serves,
        loading_beside: loads && serves,
        writes,
        writes_wait,
        lets_keys_go,
        busy: None,
        replica,
        short,
    }
}

/// True if as many replicas follow closely as must for writes.
#[inline]
fn is_replicated(state: &ServerState, config: &Config) -> bool {
    let settings = &config.replication;
    let replication = state.replication();
    !settings.needs_replicas()
        || replication.replica().follows()
        || replication.replicas().good() >= settings.replicas_min
}

/// `SAVE`: replies when the file is on disk.
fn save(ctx: &mut ServerCtx<'_>) -> CmdResult<After> {
    let waiter = work::waiter(ctx);
    if !begin(ctx, Some(waiter))? {
        return Ok(After::Busy);
    }
    Ok(work::waits(ctx))
}

/// Begins a save that a client asks for, which may wait for its end, or has it begin behind one that gives way to it. False,
/// and nothing is done, if the gate is not to be had.
fn begin(ctx: &mut ServerCtx<'_>, waiter: Option<WorkWaiter>) -> CmdResult<bool> {
    if ctx.state.persist().is_promised() {
        return Err(errors::SAVE_UNDER_WAY);
    }
    if ctx.state.persist().queue(waiter) {
        return Ok(true);
    }
    let purpose = Purpose::File(waiter.into_iter().collect());
    match save::begin(ctx.state, ctx.store, purpose, ctx.conn.session().busy_tries()) {
        Ok(()) => Ok(true),
        Err(NotBegun::Busy) => Ok(false),
        Err(NotBegun::UnderWay) => Err(errors::SAVE_UNDER_WAY),
        Err(NotBegun::NoThread) => Err(errors::SAVE_FAILED),
    }
}

const SAVE: ServerCommand = ServerCommand::new(
    save,
    Row::new("save", Group::Server, 1, "1.0.0")
        .about("Saves the data to the file and replies when that is done.", "O(N) in the keys")
        .flags(&[Flags::ADMIN, Flags::NOSCRIPT, Flags::NO_ASYNC_LOADING, Flags::NO_MULTI]),
);

/// `BGSAVE [SCHEDULE]`
fn bgsave(ctx: &mut ServerCtx<'_>) -> CmdResult<After> {
    if ctx.args.len() > 2 || ctx.args.len() == 2 && !ctx.args.is(1, "SCHEDULE") {
        return Err(CommandError::SYNTAX);
    }
    let persist = ctx.state.persist();
    let (in_exec, is_rewriting) = (ctx.conn.session().is_in_exec(), persist.is_rewriting());
    let waits = !persist.may_begin();
    if waits && !is_rewriting {
        return Err(errors::SAVE_UNDER_WAY);
    }
    if waits && !in_exec && ctx.args.len() == 1 {
        return Err(errors::REWRITE_BEFORE_SAVE);
    }
    if in_exec || waits {
        persist.schedule(Scheduled::ByClient);
        ctx.out.simple("Background saving scheduled");
        return Ok(After::Done);
    }
    if !begin(ctx, None)? {
        return Ok(After::Busy);
    }
    tracing::info!("Background saving started");
    ctx.out.simple("Background saving started");
    Ok(After::Done)
}

const BGSAVE: ServerCommand = ServerCommand::new(
    bgsave,
    Row::new("bgsave", Group::Server, -1, "1.0.0")
        .about("Saves the data to the file in the background.", "O(1)")
        .flags(&[Flags::ADMIN, Flags::NOSCRIPT, Flags::NO_ASYNC_LOADING])
        .history(&[("3.2.2", "`SCHEDULE`.")])
        .args(&[word("schedule", "SCHEDULE").since("3.2.2").optional()]),
);

/// `LASTSAVE`
fn lastsave(ctx: &mut ServerCtx<'_>) -> CmdResult<After> {
    ctx.out.integer(ctx.state.persist().last_s() as i64);
    Ok(After::Done)
}

const LASTSAVE: ServerCommand = ServerCommand::new(
    lastsave,
    Row::new("lastsave", Group::Server, 1, "1.0.0")
        .about("Answers the Unix time of the last successful save.", "O(1)")
        .flags(&[Flags::LOADING, Flags::STALE, Flags::FAST])
        .acl(&[Acl::ADMIN, Acl::DANGEROUS])
        .tips(&["nondeterministic_output"]),
);
