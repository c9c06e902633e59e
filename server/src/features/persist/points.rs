//! When a save begins by itself: at save points, and when BGSAVE has scheduled one, where worker 0 looks at each tick; and
//! behind FLUSHALL.

use std::sync::Arc;

use varve_store::StoreWorker;

use super::aof;
use super::save::{self, NotBegun, Purpose};
use super::state::Scheduled;
use crate::config::Config;
use crate::state::ServerState;

/// Begins a save if one is due. The worker is outside the gate.
pub(crate) fn tick(state: &Arc<ServerState>, worker: &mut StoreWorker, config: &Config) {
    if state.persist().is_due() || is_reached(state, config) {
        begin_due(state, worker);
    }
    aof::tick(state, worker, config);
}

fn begin_due(state: &Arc<ServerState>, worker: &mut StoreWorker) {
    let asked = state.persist().take_waiting();
    let purpose = asked.clone().map_or(Purpose::AfterFlush, Purpose::File);
    let waiters = asked.unwrap_or_default();
    match save::begin(state, worker, purpose, 0) {
        Ok(()) if waiters.is_empty() => tracing::info!("Background saving started"),
        Ok(()) => {}
        // It is tried again.
        Err(NotBegun::UnderWay | NotBegun::Busy) => state.persist().put_waiting(waiters),
        Err(NotBegun::NoThread) => save::reply(state, &waiters, false),
    }
}

/// Called behind each turn, outside the gate: follows FLUSHALL, and CONFIG SET appendonly.
#[inline]
pub(crate) fn follow(state: &Arc<ServerState>, worker: &mut StoreWorker, config: &Config) {
    aof::follow(state, worker);
    if state.persist().follow_flushes(state.store().flushes()) {
        flushed(state, worker, config);
    }
}

/// FLUSHALL has run: nobody wants the file any more that is being written, also if the walk has passed everything. Where
/// there are save points the file is to be as empty as the store, which redis-server sees to before it replies.
#[cold]
fn flushed(state: &Arc<ServerState>, worker: &mut StoreWorker, config: &Config) {
    save::cancel(state, state.store().flushes());
    if config.save.points.is_empty() {
        return;
    }
    state.persist().set_saved(state.store().totals().changes);
    // The save that was cancelled may still be about to remove its file.
    if save::begin(state, worker, Purpose::AfterFlush, 0).is_err() {
        state.persist().schedule(Scheduled::AfterFlush);
    }
}

/// True if a save point is reached: as many changes are as old.
fn is_reached(state: &ServerState, config: &Config) -> bool {
    if config.save.points.is_empty() || state.persist().loading.is_on() {
        return false;
    }
    let Some((changes, age_s)) = state.persist().unsaved(state.store().totals().changes, save::now_s()) else {
        return false;
    };
    let reached = config.save.points.iter().find(|point| changes >= u64::from(point.changes) && age_s > point.seconds);
    if let Some(point) = reached.filter(|_| changes > 0) {
        tracing::info!("{} changes in {} seconds. Saving...", point.changes, point.seconds);
        return true;
    }
    false
}
