//! SHUTDOWN and signals: waits for replicas, saves if that is asked for, then ends the server.
//!
//! ```text
//!   SHUTDOWN, SIGTERM, SIGINT --> replicas have all, or have had `shutdown-timeout`: writes are held back meanwhile
//!                             --> the gate alone: the walk to its end, the file on disk --> all workers end
//! ```
//! Nobody is served while the last save is written: a write that was answered is in it. If the save fails, the server
//! goes on. SHUTDOWN ABORT has it go on while replicas are waited for.

use std::sync::Arc;
use std::time::Instant;

use varve_catalog::{Flags, Group, Row, one_of, word};
use varve_exec::checks::busy;
use varve_exec::{Blocked, CmdResult, CommandError};
use varve_store::{EffectSink, StoreWorker};

use super::save;
use super::state::leaving::Leaver;
use crate::config::{Config, ShutdownOptions};
use crate::errors;
use crate::features::pause::state::Hold;
use crate::state::command::{ServerCommand, ServerRows};
use crate::state::copies::{self, Wait};
use crate::state::ctx::{After, ServerCtx};
use crate::state::mail::Message;
use crate::state::{Now, ServerState};
use crate::system::error_text;

/// The commands of this part.
pub(super) const ROWS: ServerRows = &[SHUTDOWN];

/// `SHUTDOWN [NOSAVE | SAVE] [NOW] [FORCE] [ABORT]`. Replies only to an error.
fn shutdown(ctx: &mut ServerCtx<'_>) -> CmdResult<After> {
    let (mut save, mut no_save, mut now, mut force, mut abort) = (false, false, false, false, false);
    for at in 1..ctx.args.len() {
        match () {
            () if ctx.args.is(at, "SAVE") => save = true,
            () if ctx.args.is(at, "NOSAVE") => no_save = true,
            () if ctx.args.is(at, "NOW") => now = true,
            () if ctx.args.is(at, "FORCE") => force = true,
            () if ctx.args.is(at, "ABORT") => abort = true,
            () => return Err(CommandError::SYNTAX),
        }
    }
    if (save && no_save) || (abort && (save || no_save || now || force)) {
        return Err(CommandError::SYNTAX);
    }
    if abort {
        if !stay(ctx.state) {
            return Err(errors::NO_SHUTDOWN);
        }
        tracing::info!("Shutdown manually aborted.");
        ctx.out.ok();
        return Ok(After::Done);
    }
    tracing::warn!("User requested shutdown...");
    let options = ShutdownOptions { save: save.then_some(true).or(no_save.then_some(false)), force, now };
    let running = ctx.state.scripts().running().busy_for(ctx.config.script_busy_ms);
    if let Some(kind) = running.filter(|_| !no_save) {
        return Err(busy(kind));
    }
    let leaver = Leaver { worker: ctx.store.id(), client: ctx.conn.session().id() };
    match ask(ctx.state, ctx.store, ctx.config, options, Some(leaver)) {
        Ending::Ends => Ok(After::Close),
        Ending::Waits => Ok(After::Block(Blocked::for_end(ctx.conn.session().last_command().expect("it runs")))),
        Ending::Busy => Ok(After::Busy),
        Ending::Failed => Err(errors::SHUTDOWN_FAILED),
    }
}

const SHUTDOWN: ServerCommand = ServerCommand::new(
    shutdown,
    Row::new("shutdown", Group::Server, -1, "1.0.0")
        .about("Ends the server.", "O(N) in the keys when saving, else O(1)")
        .flags(&[Flags::ADMIN, Flags::NOSCRIPT, Flags::LOADING, Flags::STALE, Flags::NO_MULTI, Flags::ALLOW_BUSY])
        .history(&[("7.0.0", "`NOW`, `FORCE` and `ABORT`.")])
        .args(&[
            one_of("nosave_save", &[word("nosave", "NOSAVE"), word("save", "SAVE")]).optional(),
            word("now", "NOW").since("7.0.0").optional(),
            word("force", "FORCE").since("7.0.0").optional(),
            word("abort", "ABORT").since("7.0.0").optional(),
        ]),
);

/// How an attempt to end the server has gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// The server ends.
    Ends,
    /// Replicas are waited for: the server ends, or goes on, behind that.
    Waits,
    /// Others are inside the gate for long, like a script: to be tried again.
    Busy,
    /// The save has failed, and the server goes on.
    Failed,
}

/// Ends the server, or begins to wait for its replicas, and this client with it. The worker is outside the gate.
pub(crate) fn ask(
    state: &Arc<ServerState>,
    worker: &mut StoreWorker,
    config: &Config,
    options: ShutdownOptions,
    leaver: Option<Leaver>,
) -> Ending {
    let waits =
        !options.now && (state.persist().leaving.join(leaver) || wait_for_replicas(state, config, options, leaver));
    if waits {
        return Ending::Waits;
    }
    let ending = end(state, worker, config, options);
    if ending == Ending::Failed {
        tracing::warn!("Errors trying to shut down the server. Check the logs for more information.");
        stay(state);
    }
    ending
}

/// Begins to wait for replicas, if there are such as have not all; false if not.
fn wait_for_replicas(
    state: &Arc<ServerState>,
    config: &Config,
    options: ShutdownOptions,
    leaver: Option<Leaver>,
) -> bool {
    let wait = config.save.replicas_wait;
    let end = || state.replication().ids().offset(state.persist().aof.journal().end());
    if wait.is_zero() || state.replication().replicas().lagging(end()).is_empty() {
        return false;
    }
    let (leaving, until) = (&state.persist().leaving, Instant::now() + wait);
    let Some(number) = leaving.begin(until, leaver, || state.hold_writes(Hold::Shutdown)) else { return false };
    let waiter = Arc::clone(state);
    let run = move || {
        let is_wanted = || waiter.persist().leaving.is(number);
        let have_all = |end| waiter.replication().replicas().lagging(end).is_empty().then_some(());
        if !matches!(copies::wait(&waiter, Some(until), is_wanted, have_all), Wait::GivenUp) {
            waiter.workers()[0].send(Message::Shutdown(ShutdownOptions { now: true, ..options }));
        }
    };
    if let Err(error) = std::thread::Builder::new().name("shutdown".to_owned()).spawn(run) {
        tracing::warn!("Replicas are not waited for: {}", error_text(&error));
        stay(state);
        return false;
    }
    tracing::info!("Waiting for replicas before shutting down.");
    true
}

/// The server goes on, and all who wait for its end learn that; false if it did not wait.
fn stay(state: &ServerState) -> bool {
    let Some(leavers) = state.persist().leaving.cancel(|| state.release_writes(Hold::Shutdown)) else { return false };
    for Leaver { worker, client } in leavers {
        state.workers()[worker].send(Message::Stays { client });
    }
    state.replication().watchers().wake();
    true
}

/// Has the log say which replicas have not all.
fn log_replicas(state: &ServerState) {
    let now_ms = Now::read().steady_ms;
    let (replicas, end) = (state.replication().replicas(), state.persist().aof.journal().end());
    let (end, count) = (state.replication().ids().offset(end), replicas.all().len());
    if count == 0 {
        return;
    }
    let lagging = replicas.lagging(end);
    for replica in &lagging {
        let now = replica.now();
        let (behind, lag_s) = (end.saturating_sub(now.acked), (now_ms - now.acked_ms).max(0) / 1000);
        let (address, port, stage) = (&now.address, now.port, now.stage.name());
        tracing::warn!(
            "Lagging replica {address}:{port} reported offset {behind} behind master, lag={lag_s}, state={stage}."
        );
    }
    tracing::info!("{} of {count} replicas are in sync when shutting down.", count - lagging.len());
}

/// Ends the server, after a save if one is asked for. The worker is outside the gate.
fn end(state: &Arc<ServerState>, worker: &mut StoreWorker, config: &Config, options: ShutdownOptions) -> Ending {
    if state.persist().aof.waits_for_base() {
        if !options.force {
            log_replicas(state);
            tracing::warn!("Writing initial AOF, can't exit.");
            return Ending::Failed;
        }
        tracing::warn!("Writing initial AOF. Exit anyway.");
    }
    // A file that is being loaded holds all there is.
    let saves = options.save.unwrap_or(!config.save.points.is_empty()) && !state.persist().loading.is_on();
    if !saves {
        log_replicas(state);
        save::drop_unfinished(state);
        state.stop();
        return Ending::Ends;
    }
    let store = Arc::clone(worker.store());
    let Some(_alone) = store.gate().try_exclusive(worker.id(), 0) else { return Ending::Busy };
    // Behind a place of the primary's stream a restarted replica goes on.
    if !state.replication().replica().hold_instant(state.persist().aof.journal()) {
        return Ending::Busy;
    }
    log_replicas(state);
    tracing::info!("Saving the final RDB snapshot before exiting.");
    // The file has the offset of its instant: replicas that go beyond it could not go on behind the next start.
    state.persist().aof.journal().set_quiet(true);
    let saved = save::save_alone(state, worker);
    if !saved && !options.force {
        tracing::warn!("Error trying to save the DB, can't exit.");
        state.persist().aof.journal().set_quiet(false);
        return Ending::Failed;
    }
    if !saved {
        tracing::warn!("Error trying to save the DB, exiting anyway.");
    }
    // Before the others go on: they answer nothing more.
    state.stop();
    Ending::Ends
}
