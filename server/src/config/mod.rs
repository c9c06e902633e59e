//! The configuration: what the directives of a file, of the command line and of CONFIG SET come to.
//!
//! ```text
//!   file, stdin, command line ──> file.rs ──> Values (one canonical text a directive, table.rs)
//!   CONFIG SET ────────────────> live.rs ───────┤
//!                                               v
//!                                  Config: an immutable snapshot with typed fields, in an Arc
//! ```
//!
//! A directive is one row of `table::DIRECTIVES`; its kind (`kind.rs`, `special.rs`) turns the arguments of a line into
//! the canonical text that CONFIG GET answers. Whoever needs a setting takes a snapshot and reads a typed field; nobody
//! parses text afterwards. Workers keep the snapshot that they were last told of.
//!
//! Not here: the effect of a change on sockets, stores and logs (`live::Effects`, implemented by the server).

mod appending;
mod file;
mod grammar;
mod guide;
mod kind;
mod live;
mod metrics;
mod process;
mod replica;
mod replication;
mod rewrite;
mod saving;
mod special;
mod table;
mod title;
mod tls;

#[cfg(test)]
mod tests;

use std::net::IpAddr;
use std::path::PathBuf;

pub(crate) use appending::{AppendConfig, Fsync};
pub(crate) use file::{LoadError, Loaded, Loader};
pub(crate) use grammar::{is_pattern, memory, path_of};
pub use guide::{Changeable, Setting, settings};
pub(crate) use live::{Effects, Ineffective, Live};
pub(crate) use metrics::MetricsSettings;
pub(crate) use process::{OomScore, ProcessSettings};
pub(crate) use replica::{DisklessLoad, ReplicaSettings};
pub(crate) use replication::ReplicationSettings;
pub(crate) use rewrite::UserLines;
pub(crate) use saving::{SaveSettings, ShutdownOptions};
pub(crate) use special::OutputLimit;
pub(crate) use table::{SECRET_DIRECTIVES, Values};
pub(crate) use title::{TitleFacts, title};
pub(crate) use tls::{CertificateUser, ClientCertificates, Identity, TlsSettings};
use varve_scripts::ScriptSettings;
use varve_store::{Policy, Removal, Store, Type};
use zeroize::Zeroize;

use crate::system::logging::LogLevel;

/// The connections that may use a guarded command or directive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Guard {
    /// Nobody.
    No,
    /// Everybody.
    Yes,
    /// Connections from the loopback address or a Unix socket.
    Local,
}

/// A password in plain, which no log shows; its memory is overwritten when it goes.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Password(pub(crate) Vec<u8>);

impl Drop for Password {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

impl std::fmt::Debug for Password {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("(redacted)")
    }
}

/// The supervisor that started this process and waits to be notified that it is ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Supervised {
    No,
    Systemd,
    Upstart,
    /// Whichever of the two the environment shows.
    Auto,
}

/// One snapshot of every setting that Varve acts on. Units are in the names; the table has the bounds.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Config {
    /// TCP port, 0 for none.
    pub(crate) port: u16,
    /// Addresses to listen on. A leading `-` says that the address may be missing on this machine; `*` and `::*` (or
    /// `::`) are all IPv4 and all IPv6 addresses.
    pub(crate) bind: Vec<String>,
    /// Path of the Unix socket, if there is one.
    pub(crate) unix_socket: Option<PathBuf>,
    /// Mode bits of the Unix socket, 0 to leave what the umask gives.
    pub(crate) unix_socket_mode: u32,
    /// Length of the queue of connections not yet accepted.
    pub(crate) tcp_backlog: i32,
    /// Mark of listening sockets, 0 for none.
    pub(crate) socket_mark: u32,
    /// Local address of connections to other servers. A text that is no address is passed over, as in redis-server.
    pub(crate) source_address: Option<IpAddr>,
    /// Seconds between TCP keepalive probes, 0 for none.
    pub(crate) tcp_keepalive_s: u32,
    /// Seconds after which an idle client is closed, 0 for never.
    pub(crate) timeout_s: u32,
    /// Seconds after which a client that has not authenticated is closed, 0 for never. It matters where there is a password.
    pub(crate) unauthenticated_timeout_s: u32,
    /// Figures over HTTP.
    pub(crate) metrics: MetricsSettings,
    /// Most clients at once.
    pub(crate) max_clients: u32,
    /// Without a password, only loopback addresses are served.
    pub(crate) protected_mode: bool,
    /// The password of the default user as the directive has it, empty for none. What counts is what the users say.
    pub(crate) password: Password,
    /// Core dumps of the process have keys and values in them.
    pub(crate) core_dumps_with_data: bool,
    /// The file of the users, if there is one.
    pub(crate) acl_file: Option<PathBuf>,
    /// Entries that the log of denied requests keeps.
    pub(crate) acl_log_len_max: u64,
    /// Users begin with the right to all channels.
    pub(crate) all_channels: bool,
    /// Most bytes of requests that a client may have pending.
    pub(crate) query_buffer_bytes_max: u64,
    /// Longest bulk argument.
    pub(crate) bulk_bytes_max: u64,
    /// Limits on pending replies of normal, replica and pub/sub clients, in this order.
    pub(crate) output_limits: [OutputLimit; 3],
    /// Limit on the buffers of all clients together: bytes, or percent of `maxmemory`; 0 for none.
    pub(crate) client_memory: ClientMemory,
    /// Number of logical databases.
    pub(crate) databases: u32,
    /// Number of worker threads, at least 1.
    pub(crate) workers: usize,
    /// Number of shards (a power of two), None for the store's own choice.
    pub(crate) shards: Option<usize>,
    /// Bytes of a segment (a power of two), None for the store's own choice. For tests.
    pub(crate) segment_bytes: Option<u64>,
    /// Bytes of a piece of a segment, None for the store's own choice. For tests.
    pub(crate) piece_bytes: Option<u64>,
    /// Bytes from which an object has segments of its own, None for the store's own choice. For tests.
    pub(crate) run_min_bytes: Option<u64>,
    /// Limit on `used_memory`, 0 for none.
    pub(crate) memory_bytes_max: u64,
    pub(crate) policy: Policy,
    /// At what sizes collections change their encoding.
    pub(crate) shapes: varve_store::Limits,
    /// How reclaim chooses a segment.
    pub(crate) reclaim: varve_store::Formula,
    /// Whether the background reclaims earlier than by itself.
    pub(crate) defrag: Option<varve_store::Defrag>,
    /// How much of a background step goes to expiry, 1 to 10.
    pub(crate) expire_effort: u32,
    /// How eviction looks at keys.
    pub(crate) eviction: varve_store::Eviction,
    /// From which amounts on commands go into their logs and to the latency monitor.
    pub(crate) noted_from: varve_exec::stats::NotedFrom,
    /// Entries that the logs of slow commands, of large requests and of large replies keep.
    pub(crate) command_log_len_max: [u64; 3],
    /// Classes of keyspace events that are published, as the store takes them.
    pub(crate) event_mask: u32,
    /// Milliseconds from which on an event goes to the latency monitor; 0 for none.
    pub(crate) latency_threshold_ms: u64,
    /// Milliseconds after which a script keeps others from being served; 0: never.
    pub(crate) script_busy_ms: u64,
    /// The settings that scripts are bound by.
    pub(crate) scripts: ScriptSettings,
    /// Whether the time of each call goes into its command's histogram.
    pub(crate) latency_tracking: bool,
    /// Which percentiles of those INFO tells, 0 to 100 each.
    pub(crate) latency_percentiles: Vec<f64>,
    /// The removals that effects write as UNLINK: `lazyfree-lazy-user-del`, `-expire`, `-eviction`.
    pub(crate) lazy_removals: [(Removal, bool); 3],
    /// Whether FLUSHALL and FLUSHDB without a mode free in the background.
    pub(crate) lazy_user_flush: bool,
    /// The background turns a second that an operator asked for: INFO shows the number, nothing else reads it.
    pub(crate) hz: u32,
    pub(crate) log_level: LogLevel,
    /// Path of the log file, None for standard output.
    pub(crate) log_file: Option<PathBuf>,
    pub(crate) daemonize: bool,
    /// Path of the pid file, if one was asked for.
    pub(crate) pid_file: Option<PathBuf>,
    pub(crate) supervised: Supervised,
    /// Working directory.
    pub(crate) dir: PathBuf,
    /// The append-only file.
    pub(crate) append: AppendConfig,
    pub(crate) debug_command: Guard,
    /// The clients that may ask for a module, of which none can be loaded.
    pub(crate) module_command: Guard,
    pub(crate) protected_configs: Guard,
    /// Following a primary.
    pub(crate) replica: ReplicaSettings,
    /// How replicas are served.
    pub(crate) replication: ReplicationSettings,
    /// Most keys that are remembered for client-side caching, 0 for no limit.
    pub(crate) tracked_keys_max: usize,
    /// Saving and loading.
    pub(crate) save: SaveSettings,
    pub(crate) tls: TlsSettings,
    /// The process as the system sees it.
    pub(crate) process: ProcessSettings,
}

/// The value of `maxmemory-clients`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ClientMemory {
    Bytes(u64),
    /// Of `maxmemory`, 1 to 100.
    Percent(u8),
}

impl Config {
    /// The typed form of `values`, which the table has checked one by one.
    pub(crate) fn new(values: &Values) -> Config {
        Config {
            port: values.number("port"),
            bind: values.words("bind"),
            unix_socket: values.path("unixsocket"),
            unix_socket_mode: u32::from_str_radix(&values.text("unixsocketperm"), 8).expect("the table holds octal"),
            tcp_backlog: values.number("tcp-backlog"),
            socket_mark: values.number("socket-mark-id"),
            source_address: values.text("bind-source-addr").parse().ok(),
            tcp_keepalive_s: values.number("tcp-keepalive"),
            timeout_s: values.number("timeout"),
            metrics: MetricsSettings::new(values),
            unauthenticated_timeout_s: values.number("unauthenticated-timeout"),
            max_clients: values.number("maxclients"),
            protected_mode: values.yes("protected-mode"),
            password: Password(values.bytes("requirepass").to_vec()),
            core_dumps_with_data: values.yes("core-dumps-with-data"),
            acl_file: values.path("aclfile"),
            acl_log_len_max: values.number("acllog-max-len"),
            all_channels: values.bytes("acl-pubsub-default") == b"allchannels",
            query_buffer_bytes_max: values.number("client-query-buffer-limit"),
            bulk_bytes_max: values.number("proto-max-bulk-len"),
            output_limits: special::output_limits(values.bytes("client-output-buffer-limit")),
            client_memory: client_memory(&values.text("maxmemory-clients")),
            databases: values.number("databases"),
            workers: values.number("io-threads"),
            shards: values.above_zero("shards").map(|n| n as usize),
            segment_bytes: values.above_zero("varve-segment-bytes"),
            piece_bytes: values.above_zero("varve-piece-bytes"),
            run_min_bytes: values.above_zero("varve-run-min-bytes"),
            memory_bytes_max: values.number("maxmemory"),
            policy: Policy::named(&values.text("maxmemory-policy")).expect("the table holds names of policies"),
            shapes: shapes(values),
            reclaim: varve_store::Formula::named(&values.text("reclaim-policy")).expect("the table holds names"),
            defrag: values.yes("activedefrag").then(|| defrag(values)),
            expire_effort: values.number("active-expire-effort"),
            eviction: varve_store::Eviction {
                samples: values.number("maxmemory-samples"),
                lfu_log_factor: values.number("lfu-log-factor"),
                lfu_decay_min: values.number("lfu-decay-time"),
            },
            noted_from: noted_from(values),
            command_log_len_max: command_log_lengths(values),
            event_mask: varve_exec::notify::mask(values.bytes("notify-keyspace-events")),
            latency_threshold_ms: values.number("latency-monitor-threshold"),
            script_busy_ms: values.number("busy-reply-threshold"),
            scripts: script_settings(values),
            latency_tracking: values.yes("latency-tracking"),
            latency_percentiles: special::percentile_list(values.bytes("latency-tracking-info-percentiles")),
            lazy_removals: lazy_removals(values),
            lazy_user_flush: values.yes("lazyfree-lazy-user-flush"),
            hz: values.number("hz"),
            log_level: log_level(&values.text("loglevel")),
            log_file: values.path("logfile"),
            daemonize: values.yes("daemonize"),
            pid_file: values.path("pidfile"),
            supervised: supervised(&values.text("supervised")),
            dir: values.path("dir").unwrap_or_else(|| PathBuf::from(".")),
            append: AppendConfig::new(values),
            debug_command: guard(&values.text("enable-debug-command")),
            module_command: guard(&values.text("enable-module-command")),
            protected_configs: guard(&values.text("enable-protected-configs")),
            replica: ReplicaSettings::of(values),
            replication: ReplicationSettings::of(values),
            tracked_keys_max: values.number("tracking-table-max-keys"),
            save: SaveSettings::of(values),
            tls: TlsSettings::of(values),
            process: ProcessSettings::of(values),
        }
    }
}

impl Config {
    /// Gives the store its settings: at start, and after each change.
    pub(crate) fn apply_to(&self, store: &Store) {
        store.set_limit(self.memory_bytes_max, self.policy);
        store.set_eviction(&self.eviction);
        store.set_reclaim(self.reclaim, self.defrag);
        store.set_event_mask(self.event_mask);
        store.set_expire_effort(self.expire_effort);
        store.set_hides_names(!self.metrics.names);
        store.shapes().set(&self.shapes);
        self.lazy_removals.into_iter().for_each(|(removal, lazy)| store.lazyfree().set(removal, lazy));
    }

    /// Most bytes that all clients together may take, 0 for no limit.
    #[inline]
    pub(crate) fn client_bytes_max(&self) -> u64 {
        match self.client_memory {
            ClientMemory::Bytes(bytes) => bytes,
            ClientMemory::Percent(percent) => (u128::from(self.memory_bytes_max) * u128::from(percent) / 100) as u64,
        }
    }
}

impl Default for Config {
    fn default() -> Config {
        Config::new(&Values::default())
    }
}

fn lazy_removals(values: &Values) -> [(Removal, bool); 3] {
    [
        (Removal::Taken, values.yes("lazyfree-lazy-user-del")),
        (Removal::Expired, values.yes("lazyfree-lazy-expire")),
        (Removal::Evicted, values.yes("lazyfree-lazy-eviction")),
    ]
}

fn defrag(values: &Values) -> varve_store::Defrag {
    varve_store::Defrag::new(
        values.number("active-defrag-ignore-bytes"),
        values.number("active-defrag-threshold-lower"),
        values.number("active-defrag-threshold-upper"),
        values.number("active-defrag-cycle-min"),
        values.number("active-defrag-cycle-max"),
    )
}

/// Entries that each command log keeps at most.
fn command_log_lengths(values: &Values) -> [u64; 3] {
    ["slowlog-max-len", "commandlog-large-request-max-len", "commandlog-large-reply-max-len"]
        .map(|name| values.number(name))
}

fn script_settings(values: &Values) -> ScriptSettings {
    ScriptSettings {
        state_bytes_max: values.number("script-memory-limit"),
        deprecated_api: values.yes("lua-enable-deprecated-api"),
    }
}

/// From which amounts on commands go into their logs and to the latency monitor.
fn noted_from(values: &Values) -> varve_exec::stats::NotedFrom {
    varve_exec::stats::NotedFrom {
        slow_us: values.number("slowlog-log-slower-than"),
        spike_ms: values.number("latency-monitor-threshold"),
        request_bytes: values.number("commandlog-request-larger-than"),
        reply_bytes: values.number("commandlog-reply-larger-than"),
    }
}

/// The limits of encodings.
fn shapes(values: &Values) -> varve_store::Limits {
    varve_store::Limits {
        list_fill: values.number("list-max-listpack-size"),
        list_depth: values.number("list-compress-depth"),
        sketch_bytes: values.number("hll-sparse-max-bytes"),
        stream: varve_store::NodeLimits {
            bytes: values.number("stream-node-max-bytes"),
            entries: values.number("stream-node-max-entries"),
        },
        idempotence: varve_store::IdempotenceLimits {
            duration_s: values.number("stream-idmp-duration"),
            names_max: values.number("stream-idmp-maxsize"),
        },
        ..varve_store::Limits::default()
    }
    .with(Type::Hash, values.number("hash-max-listpack-entries"), values.number("hash-max-listpack-value"))
    .with(Type::Set, values.number("set-max-intset-entries"), 0)
    .with(Type::Zset, values.number("zset-max-listpack-entries"), values.number("zset-max-listpack-value"))
}

fn client_memory(text: &str) -> ClientMemory {
    match text.strip_suffix('%') {
        Some(percent) => ClientMemory::Percent(percent.parse().expect("the table holds a percentage")),
        None => ClientMemory::Bytes(text.parse().expect("the table holds a number")),
    }
}

fn log_level(text: &str) -> LogLevel {
    match text {
        "debug" => LogLevel::Debug,
        "verbose" => LogLevel::Verbose,
        "notice" => LogLevel::Notice,
        _ => LogLevel::Warning,
    }
}

fn supervised(text: &str) -> Supervised {
    match text {
        "systemd" => Supervised::Systemd,
        "upstart" => Supervised::Upstart,
        "auto" => Supervised::Auto,
        _ => Supervised::No,
    }
}

fn guard(text: &str) -> Guard {
    match text {
        "yes" => Guard::Yes,
        "local" => Guard::Local,
        _ => Guard::No,
    }
}
