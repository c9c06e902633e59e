//! The things that a primary does by the clock: instants for replicas that wait, PING, counting those that are near, and the end of a
//! stream that nobody reads.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use varve_exec::batch::ALONE_PATIENCE;
use varve_store::StoreWorker;

use crate::config::Config;
use crate::features::persist;
use crate::features::persist::aof::stream;
use crate::features::replication::state::replicas::Stage;
use crate::state::ServerState;

/// Milliseconds between two looks at what is due each second.
const SECOND_MS: i64 = 1000;

/// Called by one worker at each tick, at this time of the steady clock, outside the gate.
#[inline]
pub(crate) fn tick(state: &Arc<ServerState>, worker: &mut StoreWorker, config: &Config, now_ms: i64) {
    if state.replication().is_kept() {
        look(state, worker, config, now_ms);
    }
}

#[cold]
fn look(state: &Arc<ServerState>, worker: &mut StoreWorker, config: &Config, now_ms: i64) {
    let (replication, persist) = (state.replication(), state.persist());
    let waits = replication.replicas().all().iter().any(|replica| matches!(replica.now().stage, Stage::WaitsForWalk));
    if waits && persist.under_way().is_none() && !persist.loading.is_on() {
        // If the gate was not to be had, it is tried again.
        if persist::begin_for_replicas(state, worker) {
            tracing::info!("Starting BGSAVE for SYNC with target: disk");
        }
    }
    if now_ms - replication.looked_ms.load(Relaxed) < SECOND_MS {
        return;
    }
    replication.looked_ms.store(now_ms, Relaxed);
    let settings = &config.replication;
    replication.replicas().count_good(now_ms, settings.replicas_lag_s as i64 * SECOND_MS);
    let period_ms = settings.ping_period_s as i64 * SECOND_MS;
    let is_alone = replication.replicas().all().is_empty();
    if !is_alone && now_ms - replication.pinged_ms.load(Relaxed) >= period_ms {
        replication.pinged_ms.store(now_ms, Relaxed);
        persist.aof.journal().talk(&[b"PING"]);
    }
    let alone_ms = replication.alone_ms(now_ms);
    let ttl_ms = settings.backlog_ttl_s.saturating_mul(SECOND_MS as u64);
    if ttl_ms > 0 && alone_ms > ttl_ms && stream::end(state, worker, ALONE_PATIENCE) {
        let ttl_s = settings.backlog_ttl_s;
        tracing::info!("Replication backlog freed after {ttl_s} seconds without connected replicas.");
    }
}
