//! INFO: gathers the facts that its sections are written from.
//!
//! CONFIG RESETSTAT does not touch the workers' own counters: it remembers where they stood, and INFO subtracts that. Those
//! of commands and errors go back to zero. Not here: names and form (the sections).

use std::collections::BTreeMap;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{SystemTime, UNIX_EPOCH};

use varve_base::hist::Counts;
use varve_exec::Command;
use varve_store::{EffectSink, IndexLoad};

use super::about::about;
use super::facts::{
    BackgroundFacts, ClientFacts, CommandFacts, CpuFacts, DatabaseFacts, ErrorFacts, Facts, LoadingFacts, MemoryFacts,
    PersistenceFacts, ServerFacts, StatFacts,
};
use crate::config::Config;
use crate::features::acl::state::log::Reason;
use crate::features::persist::state::SaveFacts;
use crate::features::persist::state::aof::AofFacts;
use crate::features::pubsub::state::Kind;
use crate::features::replication::state::ReplicationFacts;
use crate::state::{Now, ServerState, WaitsOn};
use crate::system::memory::{resident_bytes, system_memory_bytes};
use crate::system::sys::{Whose, cpu_time};
use crate::time_left::time_left_s;

/// Starts the counts that INFO shows from zero.
pub(super) fn reset(state: &ServerState) {
    for worker in state.workers() {
        worker.commands().reset();
        WaitsOn::ALL.iter().for_each(|(on, _)| worker.stats().waits.of(*on).reset());
    }
    state.store().reset_measures();
    state.replication().counts.reset();
    about().reset(counted(state), state.store().used_memory());
}

/// Facts that take long to gather: they are left out where nobody wants them. Monitoring asks for the others every second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Costly {
    /// Facts that look at all segments, and sums of the workers' histograms.
    pub(super) background: bool,
    /// The counts and histograms of all commands.
    pub(super) commands: bool,
}

impl Costly {
    pub(super) const ALL: Costly = Costly { background: true, commands: true };
}

/// Gathers all facts as they are now, of the costly ones those that are wanted.
pub(super) fn facts(state: &ServerState, wanted: Costly) -> Facts {
    let counted = counted(state);
    let save = state.persist().facts();
    let changes = state.store().totals().changes.saturating_sub(save.saved_changes);
    let expire_lag_ms = Some(state.store().expiry_lag_ms(now_ms()));
    let replicas = state.replication().replicas().all().len() as u64;
    let clients = ClientFacts {
        connected: state.total(|stats| &stats.connected).saturating_sub(replicas),
        blocked: state.total(|stats| &stats.blocked) + state.total(|stats| &stats.held),
        blocked_with_timeout: state.total(|stats| &stats.blocked_with_timeout),
        input_peak_bytes: state.peak(|stats| &stats.input_peak_bytes),
        output_peak_bytes: state.peak(|stats| &stats.output_peak_bytes),
        tracking: state.tracking().clients(),
    };
    let config = state.config().snapshot();
    Facts {
        config: config.as_ref().clone(),
        server: server(state),
        clients,
        memory: memory(state),
        stats: StatFacts {
            changes,
            expire_lag_ms,
            own_dates: state.store().own_dates(),
            ..counted.since(&about().baseline())
        },
        persistence: persistence(state, save),
        replication: replication(state),
        cpu: cpu(),
        background: if wanted.background { background(state) } else { BackgroundFacts::default() },
        commands: if wanted.commands { commands(state, &config) } else { Vec::new() },
        errors: errors(state),
        databases: databases(state),
    }
}

fn now_ms() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis() as i64
}

fn server(state: &ServerState) -> ServerFacts {
    let about = about();
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    ServerFacts {
        run_id: state.run_id().to_owned(),
        executable: about.executable.clone(),
        config_file: state.config().file(),
        supervised: about.supervised,
        now_us: now.as_micros() as u64,
        uptime_s: state.uptime_ms() / 1000,
        ends_in_ms: state.persist().leaving.left().map(|left| left.as_millis()),
    }
}

fn memory(state: &ServerState) -> MemoryFacts {
    let about = about();
    // INFO is asked for every second by monitoring: it looks at no segment.
    let (used_bytes, log) = (state.store().used_memory(), state.store().log());
    let client_bytes = state.total(|stats| &stats.buffer_bytes);
    let freeing = state.store().freeing();
    MemoryFacts {
        used_bytes,
        peak_bytes: about.peak.raise(used_bytes),
        overhead_bytes: used_bytes.saturating_sub(log.used_bytes()),
        startup_bytes: about.startup_bytes,
        resident_bytes: resident_bytes(),
        system_bytes: system_memory_bytes(),
        live_bytes: log.unreclaimable_bytes().0.min(log.used_bytes()),
        opened_bytes: log.opened_bytes(),
        client_bytes,
        scripts: state.scripts().memory(),
        freeing_objects: freeing.pending,
        freed_objects: freeing.freed.saturating_sub(about.baseline().freed_objects),
        defragged: state.store().defragged(now_ms()),
    }
}

/// The counters as they stand, since the start.
fn counted(state: &ServerState) -> StatFacts {
    let (totals, rates) = (state.store().totals(), state.rates());
    StatFacts {
        connections: state.accepting().accepted.get(),
        rejected_connections: state.accepting().rejected.get(),
        commands: state.total(|stats| &stats.commands),
        commands_per_s: rates.commands,
        input_bytes: state.total(|stats| &stats.input_bytes),
        output_bytes: state.total(|stats| &stats.output_bytes),
        replica_input_bytes: state.replication().replica().received_bytes(),
        replica_output_bytes: state.total(|stats| &stats.replica_output_bytes),
        replica_input_bytes_per_s: rates.replica_input_bytes,
        replica_output_bytes_per_s: rates.replica_output_bytes,
        input_bytes_per_s: rates.input_bytes,
        output_bytes_per_s: rates.output_bytes,
        reads: state.total(|stats| &stats.reads),
        writes: state.total(|stats| &stats.writes),
        expired_keys: totals.expired,
        expired_fields: totals.expired_fields,
        evicted_keys: totals.evicted,
        freed_objects: state.store().freeing().freed,
        evicted_clients: state.total(|stats| &stats.evicted),
        hits: totals.hits,
        misses: totals.misses,
        error_replies: state.workers().iter().map(|worker| worker.commands().error_replies.get()).sum(),
        pubsub_channels: state.pubsub().len(Kind::Channel),
        pubsub_patterns: state.pubsub().len(Kind::Pattern),
        pubsub_shard_channels: state.pubsub().len(Kind::Shard),
        tracking_keys: state.tracking().keys(),
        tracking_items: state.tracking().items(),
        denied: {
            let log = state.acl().log();
            Reason::ALL.map(|reason| log.count(reason))
        },
        kept_links: state.total(|stats| &stats.kept_links),
        tracking_prefixes: state.tracking().prefixes(),
        ..StatFacts::default()
    }
}

/// Both ends of replication as they stand.
pub(super) fn replication(state: &ServerState) -> ReplicationFacts {
    state.replication().facts(state.persist().aof.journal().end(), Now::read().steady_ms)
}

/// Saving and loading as they stand.
pub(super) fn persistence(state: &ServerState, save: SaveFacts) -> PersistenceFacts {
    let loading = &state.persist().loading;
    let now = loading.is_on().then(|| {
        let (began_s, done) = (loading.began_s.load(Relaxed), loading.done_bytes.load(Relaxed));
        let total_bytes = loading.total_bytes.load(Relaxed);
        let elapsed_s = (now_ms() as u64 / 1000).saturating_sub(began_s);
        // redis-server says one second where it knows nothing.
        let eta_s = time_left_s(done, total_bytes, elapsed_s * 1000).unwrap_or(1);
        let rate_bytes = done / elapsed_s.max(1);
        let used_bytes = loading.used_bytes.load(Relaxed);
        LoadingFacts { began_s, total_bytes, done_bytes: done, used_bytes, rate_bytes, eta_s }
    });
    // Asked twice: a rewrite that begins or ends in between is under way or scheduled, and is shown as one of the two.
    let was_rewriting = state.persist().is_rewriting();
    let aof = state.persist().aof.facts();
    let is_rewriting = was_rewriting || state.persist().is_rewriting();
    let enabled = state.config().snapshot().append.on;
    PersistenceFacts {
        save,
        aof: AofFacts { enabled, is_rewriting, ..aof },
        serves_beside: now.is_some() && loading.serves(),
        loading: now,
        loaded_keys: loading.keys.load(Relaxed),
        loaded_expired: loading.expired.load(Relaxed),
    }
}

fn background(state: &ServerState) -> BackgroundFacts {
    let store = &state.store();
    let mut holds = Counts::default();
    state.workers().iter().for_each(|worker| worker.commands().holds.read_into(&mut holds));
    let index = store.index_loads().fold(IndexLoad::default(), |sum, shard| IndexLoad {
        keys: sum.keys + shard.keys,
        cells: sum.cells + shard.cells,
    });
    BackgroundFacts {
        slices: store.slices.read(),
        rounds: store.rounds.read(),
        holds,
        expiry_lag: store.expiry_lag.read(),
        waits: WaitsOn::ALL.map(|(on, _)| {
            let mut counts = Counts::default();
            state.workers().iter().for_each(|worker| worker.stats().waits.of(on).read_into(&mut counts));
            counts
        }),
        log: store.log().stats(),
        index,
        fullest_index: store.index_loads().max_by_key(IndexLoad::percent).unwrap_or_default(),
        cost: store.reclaim_cost(),
        moved_objects: store.totals().moved,
    }
}

fn cpu() -> CpuFacts {
    let (all, children) = (cpu_time(Whose::Process), cpu_time(Whose::Children));
    // The thread that answers stands for the main thread: which one it is changes nothing that anybody could use.
    let main = cpu_time(Whose::Thread);
    CpuFacts {
        system_us: all.system_us,
        user_us: all.user_us,
        children_system_us: children.system_us,
        children_user_us: children.user_us,
        main_system_us: main.system_us,
        main_user_us: main.user_us,
    }
}

/// The counts of all workers for each command that was called or refused.
fn commands(state: &ServerState, config: &Config) -> Vec<CommandFacts> {
    let all = state.commands().each();
    all.map(|row| command(state, config, row)).filter(|facts| facts.calls + facts.rejected > 0).collect()
}

fn command(state: &ServerState, config: &Config, row: &Command) -> CommandFacts {
    let mut facts = CommandFacts { name: row.full_name.to_owned(), ..CommandFacts::default() };
    let mut nanos = 0;
    for worker in state.workers() {
        let stat = worker.commands().of(row);
        facts.calls += stat.calls.get();
        facts.rejected += stat.rejected.get();
        facts.failed += stat.failed.get();
        nanos += stat.nanos.get();
    }
    facts.total_us = nanos / 1000;
    let latency = config.latency_tracking.then(|| state.call_durations(row)).flatten();
    if let Some(latency) = latency.filter(|latency| latency.count() > 0) {
        let percentiles = config.latency_percentiles.iter();
        facts.percentiles_ns = percentiles.map(|&percent| (percent, latency.percentile_ns(percent))).collect();
    }
    facts
}

/// Error replies by their first word, over all workers.
fn errors(state: &ServerState) -> Vec<ErrorFacts> {
    let mut all = BTreeMap::new();
    for (word, count) in state.workers().iter().flat_map(|worker| worker.commands().errors()) {
        *all.entry(word).or_default() += count;
    }
    all.into_iter().map(|(word, count)| ErrorFacts { word, count }).collect()
}

/// The databases that are not empty.
pub(super) fn databases(state: &ServerState) -> Vec<DatabaseFacts> {
    let (counts, left_ms) = (state.store().counts_of_all(), state.store().mean_times_left_ms(now_ms()));
    let of = |(number, (keys, volatile_keys))| {
        // A round may be older than the end of the last such key.
        let ttl_ms_mean = if volatile_keys == 0 { 0 } else { left_ms.get(&number).copied().unwrap_or(0) };
        DatabaseFacts { number, keys, volatile_keys, ttl_ms_mean }
    };
    (0..).zip(counts).map(of).filter(|database| database.keys > 0).collect()
}
