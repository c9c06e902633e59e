//! The figures of INFO: plain data that the server fills in.

use std::path::PathBuf;

use varve_base::hist::Counts;
use varve_scripts::ScriptMemory;
use varve_store::{Defragged, IndexLoad, LogStats, ReclaimCost};

use crate::config::Config;
use crate::features::acl::state::log::Reason;
use crate::features::persist::state::SaveFacts;
use crate::features::persist::state::aof::AofFacts;
use crate::features::replication::state::ReplicationFacts;
use crate::state::WaitsOn;

/// All that the sections are written from.
#[derive(Clone, Debug, Default)]
pub(crate) struct Facts {
    pub(crate) config: Config,
    pub(crate) server: ServerFacts,
    pub(crate) clients: ClientFacts,
    pub(crate) memory: MemoryFacts,
    pub(crate) stats: StatFacts,
    pub(crate) persistence: PersistenceFacts,
    pub(crate) replication: ReplicationFacts,
    pub(crate) cpu: CpuFacts,
    pub(crate) background: BackgroundFacts,
    /// Commands that were called or refused, in any order.
    pub(crate) commands: Vec<CommandFacts>,
    pub(crate) errors: Vec<ErrorFacts>,
    /// Databases with at least one key, ascending.
    pub(crate) databases: Vec<DatabaseFacts>,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct ServerFacts {
    /// 40 hexadecimal digits, new at each start.
    pub(crate) run_id: String,
    pub(crate) executable: PathBuf,
    pub(crate) config_file: Option<PathBuf>,
    /// `no`, `systemd` or `upstart`.
    pub(crate) supervised: &'static str,
    /// Unix time in microseconds.
    pub(crate) now_us: u64,
    pub(crate) uptime_s: u64,
    /// How long replicas are waited for at most before the server ends; None while it does not.
    pub(crate) ends_in_ms: Option<u128>,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct ClientFacts {
    /// Without replicas.
    pub(crate) connected: u64,
    /// Those that wait for keys, and those of them with a timeout.
    pub(crate) blocked: u64,
    pub(crate) blocked_with_timeout: u64,
    pub(crate) input_peak_bytes: u64,
    pub(crate) output_peak_bytes: u64,
    /// Clients with client-side caching.
    pub(crate) tracking: usize,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct MemoryFacts {
    /// Bytes that `maxmemory` bounds: segments in use, tables, buffers.
    pub(crate) used_bytes: u64,
    pub(crate) peak_bytes: u64,
    /// Of the used bytes, those that no key would miss: tables, buffers, what was there at start.
    pub(crate) overhead_bytes: u64,
    /// Used bytes when the server had started.
    pub(crate) startup_bytes: u64,
    /// Resident memory of the process.
    pub(crate) resident_bytes: u64,
    /// Memory of the machine.
    pub(crate) system_bytes: u64,
    /// Bytes of live objects, a part of `used_bytes`.
    pub(crate) live_bytes: u64,
    /// Bytes of segments that are open for use or in use, whole segments counted.
    pub(crate) opened_bytes: u64,
    /// Buffers of clients.
    pub(crate) client_bytes: u64,
    /// Scripts, and the states that they run in.
    pub(crate) scripts: ScriptMemory,
    /// Collections that are being freed in the background.
    pub(crate) freeing_objects: u64,
    /// Collections that were freed so since the start or CONFIG RESETSTAT.
    pub(crate) freed_objects: u64,
    /// The figures of active defragmentation.
    pub(crate) defragged: Defragged,
}

/// Counters since the start or CONFIG RESETSTAT, and rates.
#[derive(Clone, Debug, Default)]
pub(crate) struct StatFacts {
    pub(crate) connections: u64,
    pub(crate) rejected_connections: u64,
    /// Times that clients of this replica have given keys, and that have not come.
    pub(crate) own_dates: u64,
    pub(crate) commands: u64,
    pub(crate) commands_per_s: u64,
    pub(crate) input_bytes: u64,
    pub(crate) output_bytes: u64,
    pub(crate) replica_input_bytes: u64,
    pub(crate) replica_output_bytes: u64,
    pub(crate) replica_input_bytes_per_s: u64,
    pub(crate) replica_output_bytes_per_s: u64,
    pub(crate) input_bytes_per_s: u64,
    pub(crate) output_bytes_per_s: u64,
    pub(crate) reads: u64,
    pub(crate) writes: u64,
    pub(crate) expired_keys: u64,
    /// Fields of hashes whose time has come.
    pub(crate) expired_fields: u64,
    pub(crate) evicted_keys: u64,
    /// Collections that the background has freed.
    pub(crate) freed_objects: u64,
    pub(crate) evicted_clients: u64,
    pub(crate) hits: u64,
    pub(crate) misses: u64,
    pub(crate) error_replies: u64,
    /// Channels, patterns and shard channels with a subscription.
    pub(crate) pubsub_channels: usize,
    pub(crate) pubsub_patterns: usize,
    pub(crate) pubsub_shard_channels: usize,
    /// Keys that clients may hold copies of, clients of all of them, and prefixes that are broadcast.
    pub(crate) tracking_keys: usize,
    pub(crate) tracking_items: usize,
    pub(crate) tracking_prefixes: usize,
    /// Counts of denied requests and logins since the start, by the places in `Reason::ALL`; CONFIG RESETSTAT leaves it.
    pub(crate) denied: [u64; Reason::ALL.len()],
    /// Sockets to other servers that are kept.
    pub(crate) kept_links: u64,
    /// Changes of keys since the last save.
    pub(crate) changes: u64,
    /// Longest time, in milliseconds, that a due key is still there; None if nobody measures it.
    pub(crate) expire_lag_ms: Option<u64>,
}

impl StatFacts {
    /// The counts since `before`; rates and other figures that are no counters stay as they are.
    pub(crate) fn since(&self, before: &StatFacts) -> StatFacts {
        StatFacts {
            connections: self.connections.saturating_sub(before.connections),
            rejected_connections: self.rejected_connections.saturating_sub(before.rejected_connections),
            commands: self.commands.saturating_sub(before.commands),
            input_bytes: self.input_bytes.saturating_sub(before.input_bytes),
            output_bytes: self.output_bytes.saturating_sub(before.output_bytes),
            replica_input_bytes: self.replica_input_bytes.saturating_sub(before.replica_input_bytes),
            replica_output_bytes: self.replica_output_bytes.saturating_sub(before.replica_output_bytes),
            reads: self.reads.saturating_sub(before.reads),
            writes: self.writes.saturating_sub(before.writes),
            expired_keys: self.expired_keys.saturating_sub(before.expired_keys),
            expired_fields: self.expired_fields.saturating_sub(before.expired_fields),
            evicted_keys: self.evicted_keys.saturating_sub(before.evicted_keys),
            freed_objects: self.freed_objects.saturating_sub(before.freed_objects),
            evicted_clients: self.evicted_clients.saturating_sub(before.evicted_clients),
            hits: self.hits.saturating_sub(before.hits),
            misses: self.misses.saturating_sub(before.misses),
            error_replies: self.error_replies.saturating_sub(before.error_replies),
            ..self.clone()
        }
    }
}

/// The background's work, and how long it and commands keep others waiting.
#[derive(Clone, Debug, Default)]
pub(crate) struct BackgroundFacts {
    /// Turns of the background, and the rounds of steps in them.
    pub(crate) slices: Counts,
    pub(crate) rounds: Counts,
    /// How long shards are locked for commands.
    pub(crate) holds: Counts,
    /// By how much expired keys are late.
    pub(crate) expiry_lag: Counts,
    /// How long connections have waited, in the order of [`WaitsOn::ALL`].
    pub(crate) waits: [Counts; WaitsOn::ALL.len()],
    pub(crate) log: LogStats,
    /// The index of all shards, and of the one that is fullest.
    pub(crate) index: IndexLoad,
    pub(crate) fullest_index: IndexLoad,
    pub(crate) cost: ReclaimCost,
    pub(crate) moved_objects: u64,
}

/// CPU time in microseconds.
#[derive(Clone, Debug, Default)]
pub(crate) struct CpuFacts {
    pub(crate) system_us: u64,
    pub(crate) user_us: u64,
    pub(crate) children_system_us: u64,
    pub(crate) children_user_us: u64,
    /// Of worker 0.
    pub(crate) main_system_us: u64,
    pub(crate) main_user_us: u64,
}

/// Saving and loading.
#[derive(Clone, Debug, Default)]
pub(crate) struct PersistenceFacts {
    pub(crate) save: SaveFacts,
    pub(crate) aof: AofFacts,
    /// While a file is being loaded.
    pub(crate) loading: Option<LoadingFacts>,
    /// Other data is served meanwhile.
    pub(crate) serves_beside: bool,
    /// Keys of the last file that was loaded, and those of them whose time had come.
    pub(crate) loaded_keys: u64,
    pub(crate) loaded_expired: u64,
}

/// The progress of loading.
#[derive(Clone, Debug, Default)]
pub(crate) struct LoadingFacts {
    /// Unix time in seconds.
    pub(crate) began_s: u64,
    pub(crate) total_bytes: u64,
    pub(crate) done_bytes: u64,
    /// Bytes of memory that the writer of the file used, as the file says.
    pub(crate) used_bytes: u64,
    /// Bytes a second.
    pub(crate) rate_bytes: u64,
    pub(crate) eta_s: u64,
}

/// One command's counters.
#[derive(Clone, Debug, Default)]
pub(crate) struct CommandFacts {
    /// As Redis prints it: `get`, `config|set`.
    pub(crate) name: String,
    pub(crate) calls: u64,
    /// Time in it, in microseconds.
    pub(crate) total_us: u64,
    /// Refused before it ran: arity, memory, authentication.
    pub(crate) rejected: u64,
    /// Ran and replied with an error.
    pub(crate) failed: u64,
    /// Percent of the calls, and the nanoseconds within which they ended; empty if this is not measured.
    pub(crate) percentiles_ns: Vec<(f64, u64)>,
}

/// Error replies that began with this word.
#[derive(Clone, Debug, Default)]
pub(crate) struct ErrorFacts {
    pub(crate) word: String,
    pub(crate) count: u64,
}

/// One database that is not empty.
#[derive(Clone, Debug, Default)]
pub(crate) struct DatabaseFacts {
    pub(crate) number: u32,
    pub(crate) keys: u64,
    /// Keys with a time to live.
    pub(crate) volatile_keys: u64,
    /// Mean time to live of those, 0 if nobody knows.
    pub(crate) ttl_ms_mean: u64,
}
