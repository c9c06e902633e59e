//! One function a section. The order of the fields is Redis's.

use std::time::Instant;

use varve_commands::segments::utilisation;
use varve_scripts::ScriptMemory;
use varve_store::Defragged;

use super::facts::Facts;
use super::syncs::syncs;
use super::{Lines, human};
use crate::features::acl::state::log::Reason;
use crate::features::replication::state::replica::{Address, LinkFacts, LinkStage};
use crate::features::replication::state::replicas::{ReplicaNow, Stage};
use crate::state::WaitsOn;
use crate::system::version;

pub(super) fn server(facts: &Facts, out: &mut Lines) {
    let (server, config) = (&facts.server, &facts.config);
    out.put("redis_version", version::REDIS_VERSION);
    out.put("varve_version", version::VERSION);
    out.put("redis_git_sha1", version::GIT_SHA);
    out.put("redis_git_dirty", 0);
    out.put("redis_build_id", version::Build);
    out.put("redis_mode", "standalone");
    out.put("os", system());
    out.put("arch_bits", usize::BITS);
    out.put("monotonic_clock", "POSIX clock_gettime");
    out.put("multiplexing_api", "epoll");
    // A program that reads the version of GCC takes this for another compiler, as redis-server says of one.
    out.put("atomicvar_api", "rust-core");
    out.put("gcc_version", "0.0.0");
    out.put("process_id", std::process::id());
    out.put("process_supervised", server.supervised);
    out.put("run_id", &server.run_id);
    out.put("tcp_port", if config.port > 0 { config.port } else { config.tls.port });
    out.put("server_time_usec", server.now_us);
    out.put("uptime_in_seconds", server.uptime_s);
    out.put("uptime_in_days", server.uptime_s / 86_400);
    out.put("hz", config.hz);
    out.put("configured_hz", config.hz);
    out.put("lru_clock", (server.now_us / 1_000_000) & 0xff_ffff);
    out.put("executable", server.executable.display());
    out.put("config_file", server.config_file.as_ref().map(|file| file.display().to_string()).unwrap_or_default());
    out.put("io_threads_active", u8::from(config.workers > 1));
    out.put("io_threads", config.workers);
    if let Some(left_ms) = server.ends_in_ms {
        out.put("shutdown_in_milliseconds", left_ms);
    }
}

/// The system's name, release and machine as `uname` has them.
fn system() -> String {
    let read = |name: &str| std::fs::read_to_string(format!("/proc/sys/kernel/{name}")).unwrap_or_default();
    format!("{} {} {}", read("ostype").trim(), read("osrelease").trim(), std::env::consts::ARCH)
}

pub(super) fn clients(facts: &Facts, out: &mut Lines) {
    out.put("connected_clients", facts.clients.connected);
    out.put("cluster_connections", 0);
    out.put("maxclients", facts.config.max_clients);
    out.put("client_recent_max_input_buffer", facts.clients.input_peak_bytes);
    out.put("client_recent_max_output_buffer", facts.clients.output_peak_bytes);
    out.put("blocked_clients", facts.clients.blocked);
    out.put("tracking_clients", facts.clients.tracking);
    out.put("clients_in_timeout_table", facts.clients.blocked_with_timeout);
}

pub(super) fn memory(facts: &Facts, out: &mut Lines) {
    let memory = &facts.memory;
    used(facts, out);
    // The store's memory from the inside out: live objects, segments and tables in use, all that is mapped.
    out.put("allocator_allocated", memory.live_bytes);
    out.put("allocator_active", memory.used_bytes);
    out.put("allocator_resident", memory.opened_bytes.max(memory.used_bytes));
    out.bytes("total_system_memory", memory.system_bytes);
    scripts(&memory.scripts, out);
    out.bytes("maxmemory", facts.config.memory_bytes_max);
    out.put("maxmemory_policy", facts.config.policy.name());
    let resident = memory.opened_bytes.max(memory.used_bytes);
    ratio(out, "allocator_frag", memory.used_bytes, memory.live_bytes);
    ratio(out, "allocator_rss", resident, memory.used_bytes);
    ratio(out, "rss_overhead", memory.resident_bytes, resident);
    out.put("mem_fragmentation_ratio", quotient(memory.resident_bytes, memory.used_bytes));
    out.put("mem_fragmentation_bytes", memory.resident_bytes as i64 - memory.used_bytes as i64);
    let held_bytes = facts.replication.backlog_held_bytes;
    let backlog_bytes = held_bytes.min(facts.config.replication.backlog_bytes);
    // This would be a part of `used_memory`, which has nothing of what lies beyond the backlog's size.
    out.put("mem_not_counted_for_evict", 0);
    out.put("mem_replication_backlog", backlog_bytes);
    out.put("mem_total_replication_buffers", held_bytes);
    // All replicas share the stream: what they hold is what lies beyond the backlog's size.
    let is_followed = !facts.replication.replicas.is_empty();
    out.put("mem_clients_slaves", if is_followed { held_bytes - backlog_bytes } else { 0 });
    out.put("mem_clients_normal", memory.client_bytes);
    out.zeros(&["mem_cluster_links"]);
    out.put("mem_aof_buffer", facts.persistence.aof.buffer_bytes);
    out.put("mem_allocator", version::ALLOCATOR);
    out.put("active_defrag_running", memory.defragged.running_percent);
    out.put("lazyfree_pending_objects", memory.freeing_objects);
    out.put("lazyfreed_objects", memory.freed_objects);
}

fn used(facts: &Facts, out: &mut Lines) {
    let memory = &facts.memory;
    out.bytes("used_memory", memory.used_bytes);
    out.bytes("used_memory_rss", memory.resident_bytes);
    out.bytes("used_memory_peak", memory.peak_bytes);
    out.put("used_memory_peak_perc", percent(memory.used_bytes, memory.peak_bytes));
    let data = memory.used_bytes.saturating_sub(memory.overhead_bytes);
    out.put("used_memory_overhead", memory.overhead_bytes);
    out.put("used_memory_startup", memory.startup_bytes);
    out.put("used_memory_dataset", data);
    out.put("used_memory_dataset_perc", percent(data, memory.used_bytes.saturating_sub(memory.startup_bytes)));
}

/// The fields about scripts have redis-server's names: `lua` stands for the memory of the states in which EVAL runs.
fn scripts(memory: &ScriptMemory, out: &mut Lines) {
    for name in ["used_memory_lua", "used_memory_vm_eval"] {
        out.put(name, memory.state_bytes);
    }
    out.put("used_memory_lua_human", human(memory.state_bytes));
    out.put("used_memory_scripts_eval", memory.script_bytes);
    out.put("number_of_cached_scripts", memory.scripts);
    out.put("number_of_functions", memory.functions);
    out.put("number_of_libraries", memory.libraries);
    out.put("used_memory_vm_functions", memory.function_state_bytes);
    out.bytes("used_memory_vm_total", memory.state_bytes + memory.function_state_bytes);
    out.put("used_memory_functions", memory.library_bytes);
    out.bytes("used_memory_scripts", memory.script_bytes + memory.library_bytes);
}

fn ratio(out: &mut Lines, name: &str, whole: u64, part: u64) {
    out.put(&format!("{name}_ratio"), quotient(whole, part));
    out.put(&format!("{name}_bytes"), whole as i64 - part as i64);
}

fn quotient(whole: u64, part: u64) -> String {
    format!("{:.2}", if part == 0 { 0.0 } else { whole as f64 / part as f64 })
}

/// A share in percent, without the sign.
fn percent_of(part: u64, whole: u64) -> String {
    format!("{:.2}", if whole == 0 { 0.0 } else { part as f64 * 100.0 / whole as f64 })
}

fn percent(part: u64, whole: u64) -> String {
    format!("{:.2}%", if whole == 0 { 0.0 } else { part as f64 * 100.0 / whole as f64 })
}

pub(super) fn persistence(facts: &Facts, out: &mut Lines) {
    let (persistence, save) = (&facts.persistence, &facts.persistence.save);
    let seconds = |took: Option<u64>| took.map_or(-1, |seconds| seconds as i64);
    let (loads, serves) = (persistence.loading.is_some(), persistence.serves_beside);
    out.put("loading", u8::from(loads && !serves));
    out.put("async_loading", u8::from(loads && serves));
    // Nothing is forked and no page copied: old values that wait to be written are what a save takes beside the data.
    let (queued, peak) = save.queued_bytes;
    let now = |bytes: usize| if save.in_background { bytes } else { 0 };
    out.put("current_cow_peak", now(peak));
    out.put("current_cow_size", now(queued));
    out.put("current_cow_size_age", 0);
    out.put("current_fork_perc", percent_of(save.keys_done, save.keys_total));
    out.put("current_save_keys_processed", save.keys_done);
    out.put("current_save_keys_total", save.keys_total);
    out.put("rdb_changes_since_last_save", facts.stats.changes);
    out.put("rdb_bgsave_in_progress", u8::from(save.in_background));
    out.put("rdb_last_save_time", save.last_s);
    out.put("rdb_last_bgsave_status", if save.last_ok { "ok" } else { "err" });
    out.put("rdb_last_bgsave_time_sec", seconds(save.last_took_s));
    out.put("rdb_current_bgsave_time_sec", seconds(save.running_s));
    out.put("rdb_saves", save.count);
    out.put("rdb_last_cow_size", save.last_kept_bytes);
    out.put("rdb_last_load_keys_expired", persistence.loaded_expired);
    out.put("rdb_last_load_keys_loaded", persistence.loaded_keys);
    let aof = &persistence.aof;
    out.put("aof_enabled", u8::from(aof.enabled));
    let rewrite = &aof.rewrite;
    out.put("aof_rewrite_in_progress", u8::from(aof.is_rewriting));
    out.put("aof_rewrite_scheduled", u8::from(rewrite.scheduled));
    out.put("aof_last_rewrite_time_sec", seconds(rewrite.last_took_s));
    out.put("aof_current_rewrite_time_sec", seconds(rewrite.running_s));
    out.put("aof_last_bgrewrite_status", if rewrite.last_failed { "err" } else { "ok" });
    out.put("aof_rewrites", rewrite.count);
    out.put("aof_rewrites_consecutive_failures", rewrite.failures);
    out.put("aof_last_write_status", if aof.last_write_ok { "ok" } else { "err" });
    out.put("aof_last_cow_size", aof.last_kept_bytes);
    out.zeros(&["module_fork_in_progress", "module_fork_last_cow_size"]);
    if aof.enabled {
        out.put("aof_current_size", aof.current_bytes);
        out.put("aof_base_size", aof.base_bytes);
        out.put("aof_pending_rewrite", u8::from(rewrite.scheduled));
        out.put("aof_buffer_length", aof.buffer_bytes);
        out.put("aof_pending_bio_fsync", aof.syncs_under_way);
        out.put("aof_delayed_fsync", aof.delayed);
    }
    if let Some(loading) = &persistence.loading {
        out.put("loading_start_time", loading.began_s);
        out.put("loading_total_bytes", loading.total_bytes);
        out.put("loading_rdb_used_mem", loading.used_bytes);
        out.put("loading_loaded_bytes", loading.done_bytes);
        out.put("loading_loaded_perc", percent_of(loading.done_bytes, loading.total_bytes));
        out.put("loading_eta_seconds", loading.eta_s);
        out.put("loading_bytes_per_sec", loading.rate_bytes);
    }
}

pub(super) fn stats(facts: &Facts, out: &mut Lines) {
    let stats = &facts.stats;
    out.put("total_connections_received", stats.connections);
    out.put("total_commands_processed", stats.commands);
    out.put("instantaneous_ops_per_sec", stats.commands_per_s);
    out.put("total_net_input_bytes", stats.input_bytes);
    out.put("total_net_output_bytes", stats.output_bytes);
    out.put("total_net_repl_input_bytes", stats.replica_input_bytes);
    out.put("total_net_repl_output_bytes", stats.replica_output_bytes);
    let kilobytes = |bytes: u64| format!("{:.2}", bytes as f64 / 1024.0);
    out.put("instantaneous_input_kbps", kilobytes(stats.input_bytes_per_s));
    out.put("instantaneous_output_kbps", kilobytes(stats.output_bytes_per_s));
    out.put("instantaneous_input_repl_kbps", kilobytes(stats.replica_input_bytes_per_s));
    out.put("instantaneous_output_repl_kbps", kilobytes(stats.replica_output_bytes_per_s));
    out.put("rejected_connections", stats.rejected_connections);
    out.put("sync_full", facts.replication.full);
    out.put("sync_partial_ok", facts.replication.partial);
    out.put("sync_partial_err", facts.replication.refused);
    expiry(facts, out);
    out.put("keyspace_hits", stats.hits);
    out.put("keyspace_misses", stats.misses);
    out.put("pubsub_channels", stats.pubsub_channels);
    out.put("pubsub_patterns", stats.pubsub_patterns);
    out.put("pubsubshard_channels", stats.pubsub_shard_channels);
    out.zeros(&["latest_fork_usec", "total_forks"]);
    out.put("migrate_cached_sockets", stats.kept_links);
    out.put("slave_expires_tracked_keys", stats.own_dates);
    defragged(&facts.memory.defragged, out);
    out.put("tracking_total_keys", stats.tracking_keys);
    out.put("tracking_total_items", stats.tracking_items);
    out.put("tracking_total_prefixes", stats.tracking_prefixes);
    out.put("unexpected_error_replies", 0);
    out.put("total_error_replies", stats.error_replies);
    out.put("dump_payload_sanitizations", 0);
    out.put("total_reads_processed", stats.reads);
    out.put("total_writes_processed", stats.writes);
    // Every worker reads and writes for its own clients: with several, all of it is threaded.
    let threaded = facts.config.workers > 1;
    out.put("io_threaded_reads_processed", if threaded { stats.reads } else { 0 });
    out.put("io_threaded_writes_processed", if threaded { stats.writes } else { 0 });
    out.zeros(&["reply_buffer_shrinks", "reply_buffer_expands"]);
    for (reason, count) in Reason::ALL.iter().zip(stats.denied) {
        out.put(reason.field(), count);
    }
}

fn defragged(defragged: &Defragged, out: &mut Lines) {
    out.put("active_defrag_hits", defragged.moved);
    out.put("active_defrag_misses", defragged.missed);
    out.put("active_defrag_key_hits", defragged.moved_keys);
    out.put("active_defrag_key_misses", defragged.missed_keys);
    out.put("total_active_defrag_time", defragged.total_ms);
    out.put("current_active_defrag_time", defragged.current_ms);
}

fn expiry(facts: &Facts, out: &mut Lines) {
    let stats = &facts.stats;
    out.put("expired_keys", stats.expired_keys);
    out.put("expired_stale_perc", "0.00");
    out.zeros(&["expired_time_cap_reached_count", "expire_cycle_cpu_milliseconds"]);
    if let Some(lag_ms) = stats.expire_lag_ms {
        out.put("varve_expire_lag_ms", lag_ms);
    }
    out.put("expired_fields", stats.expired_fields);
    out.put("evicted_keys", stats.evicted_keys);
    out.put("evicted_clients", stats.evicted_clients);
    out.zeros(&["total_eviction_exceeded_time", "current_eviction_exceeded_time"]);
}

/// Whole seconds since then; -1 for never.
pub(super) fn seconds_since(then: Option<Instant>) -> i64 {
    then.map_or(-1, |then| then.elapsed().as_secs() as i64)
}

/// Whole seconds since a replica that is online has said that it is there; 0 before.
pub(super) fn lag_s(replica: &ReplicaNow, now_ms: i64) -> i64 {
    if matches!(replica.stage, Stage::Online) { (now_ms - replica.acked_ms).max(0) / 1000 } else { 0 }
}

/// The link of a replica to its primary.
fn following(facts: &Facts, primary: &Address, link: &LinkFacts, out: &mut Lines) {
    let (is_up, syncs) = (link.stage == LinkStage::Up, link.stage == LinkStage::Sync);
    out.put("role", "slave");
    out.put("master_host", &primary.host);
    out.put("master_port", primary.port);
    out.put("master_link_status", if is_up { "up" } else { "down" });
    out.put("master_last_io_seconds_ago", seconds_since(link.heard.filter(|_| is_up)));
    out.put("master_sync_in_progress", u8::from(syncs));
    // Bytes that a lost link has brought and that were not applied come again with the next.
    let read_offset = if is_up { link.read_offset } else { 0 };
    out.put("slave_read_repl_offset", read_offset.max(facts.replication.offset));
    out.put("slave_repl_offset", facts.replication.offset);
    if syncs {
        let (total, read) = link.sync_bytes;
        let percent = if total > 0 { read as f64 * 100.0 / total as f64 } else { 0.0 };
        out.put("master_sync_total_bytes", total);
        out.put("master_sync_read_bytes", read);
        out.put("master_sync_left_bytes", total as i64 - read as i64);
        out.put("master_sync_perc", format!("{percent:.2}"));
        out.put("master_sync_last_io_seconds_ago", seconds_since(link.heard));
    }
    if !is_up {
        out.put("master_link_down_since_seconds", seconds_since(link.down_since));
    }
    let settings = &facts.config.replica;
    out.put("slave_priority", settings.priority);
    out.put("slave_read_only", u8::from(settings.read_only));
    out.put("replica_announced", u8::from(settings.is_announced));
}

pub(super) fn replication(facts: &Facts, out: &mut Lines) {
    let (replication, settings) = (&facts.replication, &facts.config.replication);
    match &replication.primary {
        None => out.put("role", "master"),
        Some((primary, link)) => following(facts, primary, link, out),
    }
    out.put("connected_slaves", replication.replicas.len());
    if settings.needs_replicas() {
        out.put("min_slaves_good_slaves", replication.good_replicas);
    }
    for (nth, replica) in replication.replicas.iter().enumerate() {
        let (address, port, offset) = (&replica.address, replica.port, replica.acked);
        let state = replica.stage.name();
        let lag_s = lag_s(replica, replication.now_ms);
        out.put(&format!("slave{nth}"), format!("ip={address},port={port},state={state},offset={offset},lag={lag_s}"));
    }
    out.put("master_failover_state", replication.handing.name());
    out.put("master_replid", &replication.history.id);
    out.put("master_replid2", &replication.history.second_id);
    out.put("master_repl_offset", replication.offset);
    out.put("second_repl_offset", replication.history.second_end);
    out.put("repl_backlog_active", u8::from(replication.is_kept));
    out.put("repl_backlog_size", settings.backlog_bytes);
    out.put("repl_backlog_first_byte_offset", replication.backlog_first);
    out.put("repl_backlog_histlen", replication.backlog_bytes);
    out.put("repl_spool_bytes", replication.spool_bytes);
}

pub(super) fn cpu(facts: &Facts, out: &mut Lines) {
    let seconds = |us: u64| format!("{}.{:06}", us / 1_000_000, us % 1_000_000);
    out.put("used_cpu_sys", seconds(facts.cpu.system_us));
    out.put("used_cpu_user", seconds(facts.cpu.user_us));
    out.put("used_cpu_sys_children", seconds(facts.cpu.children_system_us));
    out.put("used_cpu_user_children", seconds(facts.cpu.children_user_us));
    out.put("used_cpu_sys_main_thread", seconds(facts.cpu.main_system_us));
    out.put("used_cpu_user_main_thread", seconds(facts.cpu.main_user_us));
}

pub(super) fn commandstats(facts: &Facts, out: &mut Lines) {
    for command in facts.commands.iter().filter(|command| command.calls + command.rejected > 0) {
        let (calls, us) = (command.calls, command.total_us);
        let mean = if calls == 0 { 0.0 } else { us as f64 / calls as f64 };
        let (rejected, failed) = (command.rejected, command.failed);
        out.put(
            &format!("cmdstat_{}", command.name),
            format!("calls={calls},usec={us},usec_per_call={mean:.2},rejected_calls={rejected},failed_calls={failed}"),
        );
    }
}

pub(super) fn errorstats(facts: &Facts, out: &mut Lines) {
    for error in &facts.errors {
        // A script may raise any word: these letters would end the field's name or its line.
        let word = error.word.replace(['#', ':', '\n', '\r'], "_");
        out.put(&format!("errorstat_{word}"), format!("count={}", error.count));
    }
}

pub(super) fn latencystats(facts: &Facts, out: &mut Lines) {
    for command in facts.commands.iter().filter(|command| !command.percentiles_ns.is_empty()) {
        let value = |&(percent, ns): &(f64, u64)| format!("p{percent}={:.3}", ns as f64 / 1000.0);
        let values: Vec<String> = command.percentiles_ns.iter().map(value).collect();
        out.put(&format!("latency_percentiles_usec_{}", command.name), values.join(","));
    }
}

/// Varve's own: nothing like it is Redis's.
pub(super) fn background(facts: &Facts, out: &mut Lines) {
    let background = &facts.background;
    let times = [
        ("background_slices", &background.slices),
        ("background_rounds", &background.rounds),
        ("lock_holds", &background.holds),
        ("expiry_lag", &background.expiry_lag),
    ];
    let waits = WaitsOn::ALL.iter().zip(&background.waits).map(|((_, word), counts)| (format!("wait_{word}"), counts));
    for (name, counts) in times.into_iter().map(|(name, counts)| (name.to_owned(), counts)).chain(waits) {
        let us = |ns: u64| ns as f64 / 1000.0;
        let percents = [50.0, 99.0, 99.9, 99.99];
        let text = percents.map(|percent| format!("p{percent}_us={:.3}", us(counts.percentile_ns(percent)))).join(",");
        out.put(&name, format!("count={},{text},max_us={:.3}", counts.count(), us(counts.max_ns())));
    }
    let (log, cost) = (&background.log, &background.cost);
    let states = [
        ("segments_open", log.open_segments),
        ("segments_sealed", log.sealed_segments),
        ("segments_draining", log.draining_segments),
        ("segments_runs", log.runs - log.retired_runs),
        ("segments_retired", log.retired_runs),
    ];
    states.iter().for_each(|(name, count)| out.put(name, count));
    out.put("segments_utilisation", utilisation(log));
    let (in_time, late) = log.made_ahead;
    out.put("memory_ahead", format!("in_time={in_time},late={late}"));
    out.put("index_keys", background.index.keys);
    out.put("index_cells", background.index.cells);
    out.put("index_load_percent", background.index.percent());
    out.put("index_load_percent_fullest_shard", background.fullest_index.percent());
    out.put("reclaim_policy", facts.config.reclaim.name());
    out.put("reclaim_victims", cost.victims);
    out.put("reclaim_cost", format!("{:.3}", cost.cost));
    out.put("reclaim_cost_mean", quotient((cost.cost * 1000.0) as u64, cost.victims * 1000));
    out.put("reclaim_live_bytes", cost.live_bytes);
    out.put("reclaim_moved_objects", background.moved_objects);
    for (nth, sync) in syncs(&facts.replication).iter().enumerate() {
        let (way, left_s) = (if sync.comes { "from" } else { "to" }, sync.left_s.map_or(-1, |left_s| left_s as i64));
        let total = sync.total_bytes.map_or(-1, |bytes| bytes as i64);
        let bytes = format!("bytes={},of={total},eta_seconds={left_s}", sync.done_bytes);
        out.put(&format!("sync{nth}"), format!("{way}={},{bytes}", sync.peer));
    }
}

pub(super) fn cluster(_: &Facts, out: &mut Lines) {
    out.put("cluster_enabled", 0);
}

pub(super) fn keyspace(facts: &Facts, out: &mut Lines) {
    for database in facts.databases.iter().filter(|database| database.keys > 0) {
        let (keys, expires, ttl) = (database.keys, database.volatile_keys, database.ttl_ms_mean);
        out.put(&format!("db{}", database.number), format!("keys={keys},expires={expires},avg_ttl={ttl}"));
    }
}
