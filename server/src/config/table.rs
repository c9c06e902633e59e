//! The table of directives, one row each, and a set of values for them.
//!
//! A row says what the directive is called, what it may hold, what it holds when nobody sets it (as in Redis 7.0.15),
//! and what it means here (`Role`). Varve's own directives stand at the end.
//!
//! Not here: `include`, `rename-command`, `user`, `loadmodule`, which are not settings (see `file.rs`).

use std::path::PathBuf;
use std::str::FromStr;

use varve_acl::UserLine;
use zeroize::{Zeroize, Zeroizing};

use super::grammar::{bytes_of, path_of};
use super::kind::Kind;
use super::special::Special;

/// The meaning of a directive for Varve.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// Varve acts on it.
    Live,
    /// Known and kept, of no meaning here or not yet: said once in the log when it is set.
    Accepted,
    /// Any value but the default asks for something that would go wrong in silence: refused.
    Missing(&'static str),
}

/// When a directive may be changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// By CONFIG SET.
    Any,
    /// By CONFIG SET where `enable-protected-configs` allows it.
    Protected,
    /// Only at start.
    Never,
}

/// One directive.
#[derive(Debug)]
pub(crate) struct Directive {
    pub(crate) name: &'static str,
    /// The older or newer name of the same thing.
    pub(crate) alias: Option<&'static str>,
    pub(crate) kind: Kind,
    /// The canonical text, except for the two that depend on the machine (see `Values::default`).
    pub(crate) default: &'static str,
    pub(crate) change: Change,
    /// Is not changed while data is being loaded.
    pub(crate) rests_while_loading: bool,
    /// CONFIG GET answers it for its exact name only.
    pub(crate) hidden: bool,
    /// CONFIG GET answers its alias for the exact name only.
    pub(crate) hides_alias: bool,
    pub(crate) role: Role,
}

impl Directive {
    const fn new(name: &'static str, kind: Kind, default: &'static str) -> Directive {
        let (alias, change, hidden, role) = (None, Change::Any, false, Role::Accepted);
        Directive { name, alias, kind, default, change, rests_while_loading: false, hidden, hides_alias: false, role }
    }
    const fn alias(self, alias: &'static str) -> Directive {
        Directive { alias: Some(alias), ..self }
    }
    /// A name that 7.0.15, which decides what patterns show, does not have.
    const fn newer_alias(self, alias: &'static str) -> Directive {
        Directive { alias: Some(alias), hides_alias: true, ..self }
    }
    const fn fixed(self) -> Directive {
        Directive { change: Change::Never, ..self }
    }
    const fn protected(self) -> Directive {
        Directive { change: Change::Protected, ..self }
    }
    const fn rests_while_loading(self) -> Directive {
        Directive { rests_while_loading: true, ..self }
    }
    const fn hidden(self) -> Directive {
        Directive { hidden: true, ..self }
    }
    const fn live(self) -> Directive {
        Directive { role: Role::Live, ..self }
    }
    const fn missing(self, what: &'static str) -> Directive {
        Directive { role: Role::Missing(what), ..self }
    }
}

const fn flag(name: &'static str, default: &'static str) -> Directive {
    Directive::new(name, Kind::Bool, default)
}
const fn int(name: &'static str, default: &'static str, min: i64, max: i64) -> Directive {
    Directive::new(name, Kind::Int { min, max }, default)
}
const fn memory(name: &'static str, default: &'static str, min: u64, max: u64) -> Directive {
    Directive::new(name, Kind::Memory { min, max }, default)
}
const fn text(name: &'static str, default: &'static str) -> Directive {
    Directive::new(name, Kind::Text, default)
}
const fn one_of(name: &'static str, words: &'static [&'static str], default: &'static str) -> Directive {
    Directive::new(name, Kind::Enum(words), default)
}
const fn special(name: &'static str, special: Special, default: &'static str) -> Directive {
    Directive::new(name, Kind::Special(special), default)
}
const fn file_name(
    directive: &'static str,
    what: &'static str,
    may_be_empty: bool,
    default: &'static str,
) -> Directive {
    special(directive, Special::FileName { directive, what, may_be_empty }, default)
}

const I32: i64 = i32::MAX as i64;
const U32: i64 = u32::MAX as i64;
const I64: i64 = i64::MAX;
const BYTES: u64 = i64::MAX as u64;
const PORT: i64 = 65535;
const MIB: u64 = 1 << 20;
const GUARD: &[&str] = &["no", "yes", "local"];
const CLUSTER: &str = "cluster mode is not available yet";

/// Every directive, sorted by name except for Varve's own.
#[rustfmt::skip]
pub(crate) static DIRECTIVES: &[Directive] = &[
    one_of("acl-pubsub-default", &["allchannels", "resetchannels"], "resetchannels").live(),
    text("aclfile", "").fixed().live(),
    int("acllog-max-len", "128", 0, I64).live(),
    int("active-defrag-cycle-max", "25", 1, 99).live(),
    int("active-defrag-cycle-min", "1", 1, 99).live(),
    memory("active-defrag-ignore-bytes", "104857600", 1, BYTES).live(),
    int("active-defrag-max-scan-fields", "1000", 1, I64),
    int("active-defrag-threshold-lower", "10", 0, 1000).live(),
    int("active-defrag-threshold-upper", "100", 0, 1000).live(),
    int("active-expire-effort", "1", 1, 10).live(),
    flag("activedefrag", "no").live(),
    flag("activerehashing", "yes"),
    flag("always-show-logo", "no").fixed(),
    flag("aof-disable-auto-gc", "no").live(),
    flag("aof-load-truncated", "yes").live(),
    flag("aof-rewrite-incremental-fsync", "yes").live(),
    flag("aof-timestamp-enabled", "no").live(),
    flag("aof-use-rdb-preamble", "yes").live(),
    text("aof_rewrite_cpulist", "").fixed().live(),
    file_name("appenddirname", "dirname", false, "appendonlydir").fixed().live(),
    file_name("appendfilename", "filename", false, "appendonly.aof").fixed().live(),
    one_of("appendfsync", &["everysec", "always", "no"], "everysec").live(),
    flag("appendonly", "no").rests_while_loading().live(),
    memory("auto-aof-rewrite-min-size", "67108864", 0, BYTES).live(),
    int("auto-aof-rewrite-percentage", "100", 0, I32).live(),
    text("bgsave_cpulist", "").fixed().live(),
    special("bind", Special::Bind, "* -::*").live(),
    text("bind-source-addr", "").live(),
    text("bio_cpulist", "").fixed().live(),
    int("busy-reply-threshold", "5000", 0, I64).alias("lua-time-limit").live(),
    special("client-output-buffer-limit", Special::OutputLimits,
        "normal 0 0 0 slave 268435456 67108864 60 pubsub 33554432 8388608 60").live(),
    memory("client-query-buffer-limit", "1073741824", MIB, BYTES).live(),
    flag("cluster-allow-pubsubshard-when-down", "yes"),
    flag("cluster-allow-reads-when-down", "no"),
    flag("cluster-allow-replica-migration", "yes"),
    int("cluster-announce-bus-port", "0", 0, PORT),
    special("cluster-announce-hostname", Special::HostName, ""),
    text("cluster-announce-ip", ""),
    int("cluster-announce-port", "0", 0, PORT),
    int("cluster-announce-tls-port", "0", 0, PORT),
    text("cluster-config-file", "nodes.conf").fixed(),
    flag("cluster-enabled", "no").fixed().missing(CLUSTER),
    memory("cluster-link-sendbuf-limit", "0", 0, u64::MAX),
    int("cluster-migration-barrier", "1", 0, I32),
    int("cluster-node-timeout", "15000", 0, I64),
    int("cluster-port", "0", 0, PORT).fixed(),
    one_of("cluster-preferred-endpoint-type", &["ip", "hostname", "unknown-endpoint"], "ip"),
    flag("cluster-replica-no-failover", "no").alias("cluster-slave-no-failover"),
    int("cluster-replica-validity-factor", "10", 0, I32).alias("cluster-slave-validity-factor"),
    flag("cluster-require-full-coverage", "yes"),
    // The four of Valkey 9 that have no older name.
    int("commandlog-large-reply-max-len", "128", 0, I64).hidden().live(),
    int("commandlog-large-request-max-len", "128", 0, I64).hidden().live(),
    int("commandlog-reply-larger-than", "1048576", -1, I64).hidden().live(),
    int("commandlog-request-larger-than", "1048576", -1, I64).hidden().live(),
    flag("crash-log-enabled", "yes").live(),
    flag("crash-memcheck-enabled", "yes"),
    flag("daemonize", "no").fixed().live(),
    int("databases", "16", 1, 32767).fixed().live(),
    file_name("dbfilename", "filename", true, "dump.rdb").protected().live(),
    special("dir", Special::Directory, "").protected().rests_while_loading().live(),
    flag("disable-thp", "yes").fixed(),
    flag("dynamic-hz", "yes"),
    one_of("enable-debug-command", GUARD, "no").fixed().live(),
    one_of("enable-module-command", GUARD, "no").fixed().live(),
    one_of("enable-protected-configs", GUARD, "no").fixed().live(),
    int("hash-max-listpack-entries", "512", 0, I64).alias("hash-max-ziplist-entries").live(),
    memory("hash-max-listpack-value", "64", 0, BYTES).alias("hash-max-ziplist-value").live(),
    memory("hll-sparse-max-bytes", "3000", 0, BYTES).live(),
    Directive::new("hz", Kind::Clipped { min: 0, max: I32, to: (1, 500) }, "10"),
    text("ignore-warnings", ""),
    int("io-threads", "", 1, 128).fixed().live(),
    flag("io-threads-do-reads", "no").fixed(),
    flag("jemalloc-bg-thread", "yes"),
    int("key-load-delay", "0", i32::MIN as i64, I32).hidden().live(),
    int("latency-monitor-threshold", "0", 0, I64).live(),
    flag("latency-tracking", "yes").live(),
    special("latency-tracking-info-percentiles", Special::Percentiles, "50 99 99.9").live(),
    flag("lazyfree-lazy-eviction", "no").live(),
    flag("lazyfree-lazy-expire", "no").live(),
    flag("lazyfree-lazy-server-del", "no"),
    flag("lazyfree-lazy-user-del", "no").live(),
    flag("lazyfree-lazy-user-flush", "no").live(),
    int("lfu-decay-time", "1", 0, I32).live(),
    int("lfu-log-factor", "10", 0, I32).live(),
    int("list-compress-depth", "0", 0, I32).live(),
    int("list-max-listpack-size", "-2", i32::MIN as i64, I32).alias("list-max-ziplist-size").live(),
    int("loading-process-events-interval-bytes", "2097152", 1024, I32).hidden(),
    text("logfile", "").fixed().live(),
    one_of("loglevel", &["debug", "verbose", "notice", "warning"], "notice").live(),
    text("masterauth", "").live(),
    text("masteruser", "").live(),
    int("maxclients", "10000", 1, U32).live(),
    memory("maxmemory", "0", 0, u64::MAX).live(),
    Directive::new("maxmemory-clients", Kind::MemoryOrPercent, "0").live(),
    int("maxmemory-eviction-tenacity", "10", 0, 100),
    special("maxmemory-policy", Special::Policy, "noeviction").live(),
    int("maxmemory-samples", "5", 1, I32).live(),
    int("min-replicas-max-lag", "10", 0, I32).alias("min-slaves-max-lag").live(),
    int("min-replicas-to-write", "0", 0, I32).alias("min-slaves-to-write").live(),
    flag("no-appendfsync-on-rewrite", "no").live(),
    special("notify-keyspace-events", Special::KeyspaceEvents, "").live(),
    special("oom-score-adj", Special::OomScore, "no").live(),
    special("oom-score-adj-values", Special::OomValues, "0 200 800").live(),
    text("pidfile", "").fixed().live(),
    int("port", "6379", 0, PORT).live(),
    special("proc-title-template", Special::Title, "{title} {listen-addr} {server-mode}").live(),
    one_of("propagation-error-behavior", &["ignore", "panic", "panic-on-replicas"], "ignore"),
    flag("protected-mode", "yes").live(),
    memory("proto-max-bulk-len", "536870912", MIB, BYTES).live(),
    flag("rdb-del-sync-files", "no").live(),
    int("rdb-key-save-delay", "0", i32::MIN as i64, I32).hidden().live(),
    flag("rdb-save-incremental-fsync", "yes").live(),
    flag("rdbchecksum", "yes").fixed().live(),
    flag("rdbcompression", "yes").live(),
    memory("repl-backlog-size", "1048576", 1, BYTES).live(),
    int("repl-backlog-ttl", "3600", 0, I64).live(),
    flag("repl-disable-tcp-nodelay", "no").live(),
    one_of("repl-diskless-load", &["disabled", "on-empty-db", "swapdb"], "disabled").rests_while_loading().live(),
    flag("repl-diskless-sync", "yes").live(),
    int("repl-diskless-sync-delay", "5", 0, I32).live(),
    int("repl-diskless-sync-max-replicas", "0", 0, I32).live(),
    int("repl-ping-replica-period", "10", 1, I32).alias("repl-ping-slave-period").live(),
    int("repl-timeout", "60", 1, I32).live(),
    text("replica-announce-ip", "").alias("slave-announce-ip").live(),
    int("replica-announce-port", "0", 0, PORT).alias("slave-announce-port").live(),
    flag("replica-announced", "yes").live(),
    flag("replica-ignore-disk-write-errors", "no"),
    flag("replica-ignore-maxmemory", "yes").alias("slave-ignore-maxmemory").live(),
    flag("replica-lazy-flush", "no").alias("slave-lazy-flush"),
    int("replica-priority", "100", 0, I32).alias("slave-priority").live(),
    flag("replica-read-only", "yes").alias("slave-read-only").live(),
    flag("replica-serve-stale-data", "yes").alias("slave-serve-stale-data").live(),
    special("replicaof", Special::Master, "").alias("slaveof").fixed().live(),
    text("requirepass", "").live(),
    one_of("sanitize-dump-payload", &["no", "yes", "clients"], "no"),
    special("save", Special::Save, "3600 1 300 100 60 10000").live(),
    text("server_cpulist", "").fixed().live(),
    int("set-max-intset-entries", "512", 0, I64).live(),
    flag("set-proc-title", "yes").fixed().live(),
    special("shutdown-on-sigint", Special::ShutdownOptions, "default").live(),
    special("shutdown-on-sigterm", Special::ShutdownOptions, "default").live(),
    int("shutdown-timeout", "10", 0, I32).live(),
    int("slowlog-log-slower-than", "10000", -1, I64).newer_alias("commandlog-execution-slower-than").live(),
    int("slowlog-max-len", "128", 0, I64).newer_alias("commandlog-slow-execution-max-len").live(),
    int("socket-mark-id", "0", 0, U32).fixed().live(),
    flag("stop-writes-on-bgsave-error", "yes").live(),
    memory("stream-node-max-bytes", "4096", 0, BYTES).live(),
    int("stream-node-max-entries", "100", 0, I64).live(),
    one_of("supervised", &["upstart", "systemd", "auto", "no"], "no").fixed().live(),
    flag("syslog-enabled", "no").fixed().live(),
    one_of("syslog-facility", &["user", "local0", "local1", "local2", "local3", "local4", "local5", "local6", "local7"],
        "local0").fixed().live(),
    text("syslog-ident", "redis").fixed().live(),
    int("tcp-backlog", "511", 0, I32).fixed().live(),
    int("tcp-keepalive", "300", 0, I32).live(),
    int("timeout", "0", 0, I32).live(),
    one_of("tls-auth-clients", &["no", "yes", "optional"], "yes").live(),
    // Of Valkey 9: CONFIG GET answers it for its exact name only, as long as 7.0.15 decides what `*` shows.
    one_of("tls-auth-clients-user", &["off", "CN", "URI"], "off").hidden().live(),
    text("tls-ca-cert-dir", "").live(),
    text("tls-ca-cert-file", "").live(),
    text("tls-cert-file", "").live(),
    text("tls-ciphers", "").live(),
    text("tls-ciphersuites", "").live(),
    text("tls-client-cert-file", "").live(),
    text("tls-client-key-file", "").live(),
    text("tls-client-key-file-pass", "").live(),
    flag("tls-cluster", "no").live(),
    text("tls-dh-params-file", ""),
    text("tls-key-file", "").live(),
    text("tls-key-file-pass", "").live(),
    int("tls-port", "0", 0, PORT).live(),
    flag("tls-prefer-server-ciphers", "no").live(),
    text("tls-protocols", "").live(),
    flag("tls-replication", "no").live(),
    int("tls-session-cache-size", "20480", 0, I32),
    int("tls-session-cache-timeout", "300", 0, I32).live(),
    flag("tls-session-caching", "yes").live(),
    int("tracking-table-max-keys", "1000000", 0, I64).live(),
    text("unixsocket", "").fixed().live(),
    Directive::new("unixsocketperm", Kind::Octal { max: 0o777 }, "0").fixed().live(),
    flag("use-exit-on-panic", "no").hidden().live(),
    special("watchdog-period", Special::Period { least: 200 }, "0").hidden().live(),
    int("zset-max-listpack-entries", "128", 0, I64).alias("zset-max-ziplist-entries").live(),
    memory("zset-max-listpack-value", "64", 0, BYTES).alias("zset-max-ziplist-value").live(),
    // Varve's own: the shape of the store, where 0 leaves it to the store; how reclaim chooses a segment.
    special("shards", Special::PowerOfTwo { max: 4096 }, "0").fixed().hidden().live(),
    special("varve-segment-bytes", Special::PowerOfTwo { max: 8 * MIB }, "0").fixed().hidden().live(),
    special("varve-piece-bytes", Special::PowerOfTwo { max: 8 * MIB }, "0").fixed().hidden().live(),
    special("varve-run-min-bytes", Special::PowerOfTwo { max: 8 * MIB }, "0").fixed().hidden().live(),
    // How long a client may take to authenticate, in seconds, where a password is set; 0: as long as it likes.
    int("unauthenticated-timeout", "60", 0, I32).hidden().live(),
    // Core dumps of the process have keys and values in them.
    flag("core-dumps-with-data", "no").fixed().hidden().live(),
    flag("figures-with-key-names", "yes").hidden().live(),
    // The port of /metrics; 0: none. Its addresses, and the names under which it answers beside them.
    int("metrics-port", "0", 0, PORT).fixed().hidden().live(),
    special("metrics-bind", Special::Bind, "127.0.0.1 -::1").fixed().hidden().live(),
    text("metrics-hosts", "").hidden().live(),
    // The version of RDB files and of DUMP's payloads.
    one_of("rdb-version", &["auto", "10", "12"], "auto").hidden().live(),
    // Names of messages, by which XADD adds none twice: settings of Redis 8.6.
    int("stream-idmp-duration", "100", 1, 86_400).hidden().live(),
    int("stream-idmp-maxsize", "100", 1, 10_000).hidden().live(),
    // How much of the append-only file stays for replicas that were away.
    memory("repl-history-size", "1073741824", 0, BYTES).hidden().live(),
    int("repl-history-ttl", "3600", 0, I64).hidden().live(),
    // The stream for slow replicas, on disk.
    memory("repl-spool-size", "8589934592", 0, BYTES).hidden().live(),
    // Scripts: their memory; functions of Lua that Debian's redis-server keeps back.
    memory("script-memory-limit", "268435456", 4 * MIB, BYTES).fixed().hidden().live(),
    flag("lua-enable-deprecated-api", "no").fixed().hidden().live(),
    one_of("reclaim-policy", &["original", "greedy", "modified"], "modified").hidden().live(),
];

/// Directives whose values are secrets.
pub(crate) const SECRET_DIRECTIVES: &[&str] =
    &["masteruser", "masterauth", "requirepass", "tls-key-file-pass", "tls-client-key-file-pass"];

/// The place in `DIRECTIVES` of a name or alias, in any case.
pub(crate) fn find(name: &[u8]) -> Option<usize> {
    let is = |known: &str| known.as_bytes().eq_ignore_ascii_case(name);
    DIRECTIVES.iter().position(|row| is(row.name) || row.alias.is_some_and(is))
}

/// The values of all settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Values {
    /// The canonical text of every directive, in the order of the table.
    texts: Vec<Vec<u8>>,
    /// The users that the lines of files declare.
    users: Vec<UserLine>,
}

impl Default for Values {
    fn default() -> Values {
        let of = |row: &Directive| match row.name {
            "io-threads" => default_workers().to_string().into_bytes(),
            "dir" => std::env::current_dir().map_or_else(|_| b".".to_vec(), |dir| bytes_of(&dir)),
            _ => row.default.as_bytes().to_vec(),
        };
        Values { texts: DIRECTIVES.iter().map(of).collect(), users: Vec::new() }
    }
}

/// One worker a core, as far as `io-threads` goes.
fn default_workers() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from).min(128)
}

/// Passwords leave nothing behind in memory.
impl Drop for Values {
    fn drop(&mut self) {
        let secret = |(_, row): &(&mut Vec<u8>, &Directive)| SECRET_DIRECTIVES.contains(&row.name);
        self.texts.iter_mut().zip(DIRECTIVES).filter(secret).for_each(|(text, _)| text.zeroize());
    }
}

impl Values {
    pub(crate) fn at(&self, row: usize) -> &[u8] {
        &self.texts[row]
    }

    pub(crate) fn put(&mut self, row: usize, canonical: Vec<u8>) {
        let before = std::mem::replace(&mut self.texts[row], canonical);
        if SECRET_DIRECTIVES.contains(&DIRECTIVES[row].name) {
            drop(Zeroizing::new(before));
        }
    }

    /// The users that the lines of files declare, in their order.
    pub(crate) fn users(&self) -> &[UserLine] {
        &self.users
    }

    /// A line declares a user, of whom there is none yet.
    pub(crate) fn declare_user(&mut self, line: UserLine) {
        self.users.push(line);
    }

    /// Sets a directive that must exist.
    pub(crate) fn set(&mut self, name: &str, canonical: Vec<u8>) {
        self.put(find(name.as_bytes()).expect("the name of a directive in the table"), canonical);
    }

    /// The canonical text of a directive that must exist.
    pub(crate) fn bytes(&self, name: &str) -> &[u8] {
        self.at(find(name.as_bytes()).expect("the name of a directive in the table"))
    }

    pub(crate) fn text(&self, name: &str) -> String {
        String::from_utf8_lossy(self.bytes(name)).into_owned()
    }

    pub(crate) fn yes(&self, name: &str) -> bool {
        self.bytes(name) == b"yes"
    }

    pub(crate) fn words(&self, name: &str) -> Vec<String> {
        self.text(name).split(' ').filter(|word| !word.is_empty()).map(str::to_owned).collect()
    }

    pub(crate) fn path(&self, name: &str) -> Option<PathBuf> {
        let bytes = self.bytes(name);
        (!bytes.is_empty()).then(|| path_of(bytes))
    }

    /// The value of a directive whose bounds in the table lie within `T`.
    pub(crate) fn number<T: FromStr>(&self, name: &str) -> T {
        self.text(name).parse().ok().expect("the table's bounds lie within the field's type")
    }

    /// A number; None for 0.
    pub(crate) fn above_zero(&self, name: &str) -> Option<u64> {
        Some(self.number(name)).filter(|&number| number > 0)
    }
}
