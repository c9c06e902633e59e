//! INFO: gathers the facts that its sections are written from.
//!
//! CONFIG RESETSTAT does not touch the workers' own counters: it remembers where they stood, and INFO subtracts that. Those
//! of commands and errors go back to zero. Not here: names and form (`info`).

use std::collections::BTreeMap;
use std::time::{SystemTime, UNIX_EPOCH};

use varve_command::Descriptor;
use varve_command::segments::Census;
use varve_store::hist::Counts;

use crate::config::Config;
use crate::host::{HostCtx, Outcome};
use crate::info::{
    self, BackgroundFacts, ClientFacts, CommandFacts, CpuFacts, DatabaseFacts, ErrorFacts, Facts, MemoryFacts,
    ServerFacts, StatFacts,
};
use crate::pubsub::Kind;
use crate::shared::Shared;
use crate::sys::{Whose, cpu_time};

/// `INFO [section ...]`
pub(crate) fn info(ctx: &mut HostCtx<'_>) -> Outcome {
    let text = info::render(ctx.args.skip(1).iter(), &facts(ctx.shared));
    ctx.out.verbatim("txt", text.as_bytes());
    Outcome::Done
}

/// CONFIG RESETSTAT
pub(crate) fn reset(shared: &Shared) {
    shared.workers.iter().for_each(|worker| worker.commands.reset());
    shared.store.reset_measures();
    info::about().reset(counted(shared), shared.store.used_memory());
}

fn facts(shared: &Shared) -> Facts {
    let counted = counted(shared);
    let changes = shared.store.totals().changes;
    let expire_lag_ms = Some(shared.store.expiry_lag_ms(now_ms()));
    let clients = ClientFacts {
        connected: shared.total(|stats| &stats.connected),
        blocked: shared.total(|stats| &stats.blocked) + shared.total(|stats| &stats.held),
        blocked_with_timeout: shared.total(|stats| &stats.blocked_with_timeout),
        input_peak_bytes: shared.peak(|stats| &stats.input_peak_bytes),
        output_peak_bytes: shared.peak(|stats| &stats.output_peak_bytes),
        tracking: shared.tracking.clients(),
    };
    let config = shared.config.snapshot();
    Facts {
        config: config.as_ref().clone(),
        server: server(shared),
        clients,
        memory: memory(shared),
        stats: StatFacts { changes, expire_lag_ms, ..counted.since(&info::about().baseline()) },
        cpu: cpu(),
        background: background(shared),
        commands: commands(shared, &config),
        errors: errors(shared),
        databases: databases(shared),
    }
}

fn now_ms() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis() as i64
}

fn server(shared: &Shared) -> ServerFacts {
    let about = info::about();
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    ServerFacts {
        run_id: shared.run_id.clone(),
        executable: about.executable.clone(),
        config_file: shared.config.file(),
        supervised: about.supervised,
        now_us: now.as_micros() as u64,
        started_s: about.started_s,
        uptime_s: shared.uptime_ms() / 1000,
    }
}

fn memory(shared: &Shared) -> MemoryFacts {
    let about = info::about();
    let (used_bytes, log) = (shared.store.used_memory(), shared.store.log().stats());
    let client_bytes = shared.total(|stats| &stats.buffer_bytes);
    MemoryFacts {
        used_bytes,
        peak_bytes: about.peak.raise(used_bytes),
        overhead_bytes: used_bytes.saturating_sub(log.used_bytes),
        startup_bytes: about.startup_bytes,
        resident_bytes: info::resident_bytes(),
        system_bytes: info::system_memory_bytes(),
        live_bytes: log.live_bytes,
        opened_bytes: log.opened_bytes,
        client_bytes,
        freeing_objects: 0,
        defragged: shared.store.defragged(now_ms()),
    }
}

/// The counters as they stand, since the start.
fn counted(shared: &Shared) -> StatFacts {
    let (totals, rates) = (shared.store.totals(), shared.rates());
    StatFacts {
        connections: shared.total(|stats| &stats.accepted),
        rejected_connections: shared.total(|stats| &stats.rejected),
        commands: shared.total(|stats| &stats.commands),
        commands_per_s: rates.commands,
        input_bytes: shared.total(|stats| &stats.input_bytes),
        output_bytes: shared.total(|stats| &stats.output_bytes),
        input_bytes_per_s: rates.input_bytes,
        output_bytes_per_s: rates.output_bytes,
        reads: shared.total(|stats| &stats.reads),
        writes: shared.total(|stats| &stats.writes),
        expired_keys: totals.expired,
        evicted_keys: totals.evicted,
        evicted_clients: shared.total(|stats| &stats.evicted),
        hits: totals.hits,
        misses: totals.misses,
        error_replies: shared.workers.iter().map(|worker| worker.commands.error_replies.get()).sum(),
        pubsub_channels: shared.pubsub.len(Kind::Channel),
        pubsub_patterns: shared.pubsub.len(Kind::Pattern),
        pubsub_shard_channels: shared.pubsub.len(Kind::Shard),
        tracking_keys: shared.tracking.keys(),
        tracking_items: shared.tracking.items(),
        tracking_prefixes: shared.tracking.prefixes(),
        ..StatFacts::default()
    }
}

fn background(shared: &Shared) -> BackgroundFacts {
    let store = &shared.store;
    let mut holds = Counts::default();
    shared.workers.iter().for_each(|worker| worker.commands.holds.read_into(&mut holds));
    BackgroundFacts {
        slices: store.slices.read(),
        rounds: store.rounds.read(),
        holds,
        expiry_lag: store.expiry_lag.read(),
        census: Census::of(store),
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

/// What the workers together counted of each command that was called or refused.
fn commands(shared: &Shared, config: &Config) -> Vec<CommandFacts> {
    let rows = varve_command::table::all().iter().flat_map(|row| std::iter::once(row).chain(row.subcommands));
    rows.map(|row| command(shared, config, row)).filter(|facts| facts.calls + facts.rejected > 0).collect()
}

fn command(shared: &Shared, config: &Config, row: &Descriptor) -> CommandFacts {
    let mut facts = CommandFacts { name: row.full_name.to_owned(), ..CommandFacts::default() };
    let mut nanos = 0;
    for worker in &shared.workers {
        let stat = worker.commands.of(row);
        facts.calls += stat.calls.get();
        facts.rejected += stat.rejected.get();
        facts.failed += stat.failed.get();
        nanos += stat.nanos.get();
    }
    facts.total_us = nanos / 1000;
    let latency = config.latency_tracking.then(|| latency_of(shared, row)).flatten();
    if let Some(latency) = latency.filter(|latency| latency.count() > 0) {
        let percentiles = config.latency_percentiles.iter();
        facts.percentiles_ns = percentiles.map(|&percent| (percent, latency.percentile_ns(percent))).collect();
    }
    facts
}

/// The durations of one command's calls over all workers; None if it was never called.
pub(super) fn latency_of(shared: &Shared, row: &Descriptor) -> Option<Counts> {
    let mut all: Option<Counts> = None;
    for hist in shared.workers.iter().filter_map(|worker| worker.commands.of(row).latency.get()) {
        hist.read_into(all.get_or_insert_default());
    }
    all
}

/// Error replies by their first word, over all workers.
fn errors(shared: &Shared) -> Vec<ErrorFacts> {
    let mut all = BTreeMap::new();
    for (word, count) in shared.workers.iter().flat_map(|worker| worker.commands.errors()) {
        *all.entry(word).or_default() += count;
    }
    all.into_iter().map(|(word, count)| ErrorFacts { word, count }).collect()
}

fn databases(shared: &Shared) -> Vec<DatabaseFacts> {
    let of = |number| {
        let (keys, volatile_keys) = shared.store.counts(number);
        DatabaseFacts { number, keys, volatile_keys, ttl_ms_mean: 0 }
    };
    (0..shared.store.databases()).map(of).filter(|database| database.keys > 0).collect()
}
