//! SHUTDOWN and signals: saves if that is asked for, then ends the server.
//!
//! ```text
//!   SHUTDOWN, SIGTERM, SIGINT --> the gate alone: the walk to its end, the file on disk --> all workers end
//! ```
//! Nobody is served while the last save is written: a write that was answered is in it. If the save fails, the server
//! goes on.

use std::sync::Arc;
use std::time::Duration;

use varve_catalog::{Flags, Group, Row, one_of, word};
use varve_exec::checks::busy;
use varve_exec::{CmdResult, CommandError};
use varve_store::StoreWorker;

use super::save;
use crate::config::{Config, ShutdownOptions};
use crate::errors;
use crate::state::ServerState;
use crate::state::command::{ServerCommand, ServerRows};
use crate::state::ctx::{After, ServerCtx};

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
        return Err(errors::NO_SHUTDOWN);
    }
    tracing::warn!("User requested shutdown...");
    let options = ShutdownOptions { save: save.then_some(true).or(no_save.then_some(false)), force };
    let running = ctx.state.scripts().running().busy_for(ctx.config.script_busy_ms);
    if let Some(kind) = running.filter(|_| !no_save) {
        return Err(busy(kind));
    }
    match end(ctx.state, ctx.store, ctx.config, options) {
        Ending::Ends => Ok(After::Close),
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
    /// Others are inside the gate for long, like a script: to be tried again.
    Busy,
    /// The save has failed, and the server goes on.
    Failed,
}

/// How long the last save waits for others to leave the gate before its worker serves others for a turn.
const PATIENCE: Duration = Duration::from_millis(100);

/// Ends the server, after a save if one is asked for. The worker is outside the gate.
pub(crate) fn end(
    state: &Arc<ServerState>,
    worker: &mut StoreWorker,
    config: &Config,
    options: ShutdownOptions,
) -> Ending {
    // A file that is being loaded holds all there is.
    let saves = options.save.unwrap_or(!config.save.points.is_empty()) && !state.persist().loading.is_on();
    if !saves {
        save::cancel(state, u64::MAX);
        state.stop();
        return Ending::Ends;
    }
    let store = Arc::clone(worker.store());
    let Some(_alone) = store.gate().exclusive_within(worker.id(), PATIENCE) else { return Ending::Busy };
    // Behind a place of the primary's stream a restarted replica goes on.
    if !state.replication().replica().hold_instant(state.persist().aof.journal()) {
        return Ending::Busy;
    }
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
