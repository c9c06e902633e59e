//! The things that a primary does by the clock: instants for replicas that wait, the end of a save whose replicas have left,
//! PING, counting those that are near, and the end of a stream that nobody reads. On a replica all but the first two is for its
//! primary to do.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

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
    persist::give_up_for_replicas(state, config);
    if let Some(waiting) = waiting(state, now_ms)
        && persist.under_way().is_none()
        && !persist.loading.is_on()
    {
        let is_sent = config.replication.diskless && waiting.take_marks;
        // If the gate was not to be had, it is tried again.
        if (!is_sent || waiting.is_due(config)) && persist::begin_for_replicas(state, worker, is_sent) {
            let target = if is_sent { "replicas sockets" } else { "disk" };
            tracing::info!("Starting BGSAVE for SYNC with target: {target}");
        }
    }
    if now_ms - replication.looked_ms.load(Relaxed) < SECOND_MS {
        return;
    }
    replication.looked_ms.store(now_ms, Relaxed);
    let settings = &config.replication;
    replication.replicas().count_good(now_ms, settings.lag_ms());
    let period_ms = settings.ping_period_s as i64 * SECOND_MS;
    if replication.replica().follows() {
        // The primary says PING, and decides how long the stream is kept.
        return;
    }
    let is_alone = replication.replicas().all().is_empty();
    // While replicas are to get all that there is, nothing is added.
    let is_held = state.pauses().is_held();
    if !is_alone && !is_held && now_ms - replication.pinged_ms.load(Relaxed) >= period_ms {
        replication.pinged_ms.store(now_ms, Relaxed);
        persist.aof.journal().talk(&[b"PING"]);
    }
    let alone_ms = replication.alone_ms(now_ms);
    let ttl_ms = settings.backlog_ttl_s.saturating_mul(SECOND_MS as u64);
    if ttl_ms > 0 && alone_ms > ttl_ms && stream::end(state, worker) {
        let ttl_s = settings.backlog_ttl_s;
        tracing::info!("Replication backlog freed after {ttl_s} seconds without connected replicas.");
    }
}

/// The replicas that wait for an instant.
struct Waiting {
    count: usize,
    /// How long the first of them has waited.
    longest_ms: i64,
    /// All of them take a data set of unknown length.
    take_marks: bool,
}

impl Waiting {
    /// True if no others are waited for, who could share what is sent while it is written.
    fn is_due(&self, config: &Config) -> bool {
        let settings = &config.replication;
        let are_enough = settings.diskless_replicas_max > 0 && self.count >= settings.diskless_replicas_max;
        are_enough || self.longest_ms >= settings.diskless_delay_s as i64 * SECOND_MS
    }
}

/// The replicas that wait for an instant; None if there is none.
fn waiting(state: &ServerState, now_ms: i64) -> Option<Waiting> {
    let all = state.replication().replicas().all();
    let mut waiting = Waiting { count: 0, longest_ms: 0, take_marks: true };
    for replica in all.iter() {
        let now = replica.now();
        if matches!(now.stage, Stage::WaitsForWalk) {
            waiting.count += 1;
            waiting.longest_ms = waiting.longest_ms.max(now_ms - now.acked_ms);
            waiting.take_marks &= replica.takes_mark;
        }
    }
    (waiting.count > 0).then_some(waiting)
}
