//! Rows of the commands of the server group that the server runs.
//!
//! Arity, flags, categories, key positions and argument names are those of Redis 7.0.15 (of Valkey for what is newer).

use varve_catalog::{Acl, ArgKind, Behaviour, Flags, Group, Row, Secret, arg, block, one_of, word};
use varve_exec::{Command, Exec, FileRows};

/// Directives whose values are secrets.
const SECRET_DIRECTIVES: &[&str] =
    &["masteruser", "masterauth", "requirepass", "tls-key-file-pass", "tls-client-key-file-pass"];

pub(super) const ROWS: FileRows = &[
    Command::container(Row::new("config", Group::Server, -2, "2.0.0").about("The configuration.", ""), CONFIG),
    Command::new(
        Exec::Server,
        Row::new("debug", Group::Server, -2, "1.0.0")
            .about("For tests of the server.", "")
            .flags(&[Flags::ADMIN, Flags::NOSCRIPT, Flags::LOADING, Flags::STALE, Flags::PROTECTED])
            .system(),
    ),
    Command::new(
        Exec::Server,
        Row::new("info", Group::Server, -1, "1.0.0")
            .about("Describes the server and its counters.", "O(1)")
            .flags(&[Flags::LOADING, Flags::STALE])
            .acl(&[Acl::DANGEROUS])
            .tips(&["nondeterministic_output", "request_policy:all_shards", "response_policy:special"])
            .history(&[("7.0.0", "Several sections.")])
            .args(&[arg("section", ArgKind::String).optional().multiple()])
            .behaviour(Behaviour::CONSTANT_TIME),
    ),
    Command::container(Row::new("latency", Group::Server, -2, "2.8.13").about("What took long.", ""), LATENCY),
    Command::new(
        Exec::Server,
        Row::new("monitor", Group::Server, 1, "1.0.0").about("Shows every command that the server runs.", "").flags(&[
            Flags::ADMIN,
            Flags::NOSCRIPT,
            Flags::LOADING,
            Flags::STALE,
        ]),
    ),
    Command::new(
        Exec::Server,
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
    ),
    Command::container(
        Row::new("slowlog", Group::Server, -2, "2.2.12").about("The commands that took long.", ""),
        SLOWLOG,
    ),
];

const CONFIG: FileRows = &[
    Command::new(
        Exec::Server,
        Row::sub("config|get", "get", Group::Server, -3, "2.0.0")
            .about("Answers parameters.", "O(N) in the parameters")
            .flags(&[Flags::ADMIN, Flags::NOSCRIPT, Flags::LOADING, Flags::STALE])
            .history(&[("7.0.0", "Several patterns.")])
            .args(&[block("parameter", &[arg("parameter", ArgKind::String)]).multiple()]),
    ),
    Command::new(
        Exec::Server,
        Row::sub("config|help", "help", Group::Server, 2, "5.0.0")
            .about("Lists the subcommands.", "O(1)")
            .flags(&[Flags::LOADING, Flags::STALE])
            .behaviour(Behaviour::CONSTANT_TIME),
    ),
    Command::new(
        Exec::Server,
        Row::sub("config|resetstat", "resetstat", Group::Server, 2, "2.0.0")
            .about("Sets the counters that INFO shows to zero.", "O(1)")
            .flags(&[Flags::ADMIN, Flags::NOSCRIPT, Flags::LOADING, Flags::STALE])
            .behaviour(Behaviour::CONSTANT_TIME),
    ),
    Command::new(
        Exec::Server,
        Row::sub("config|rewrite", "rewrite", Group::Server, 2, "2.8.0")
            .about("Writes the configuration to its file.", "O(1)")
            .flags(&[Flags::ADMIN, Flags::NOSCRIPT, Flags::LOADING, Flags::STALE])
            .behaviour(Behaviour::CONSTANT_TIME),
    ),
    Command::new(
        Exec::Server,
        Row::sub("config|set", "set", Group::Server, -4, "2.0.0")
            .about("Changes parameters.", "O(N) in the parameters")
            .flags(&[Flags::ADMIN, Flags::NOSCRIPT, Flags::LOADING, Flags::STALE])
            .tips(&["request_policy:all_nodes", "response_policy:all_succeeded"])
            .history(&[("7.0.0", "Several parameters.")])
            .args(&[block("parameter_value", &[arg("parameter", ArgKind::String), arg("value", ArgKind::String)])
                .multiple()])
            .secret(Secret::ValuesOf { first: 2, names: SECRET_DIRECTIVES }),
    ),
];

const LATENCY: FileRows = &[
    Command::new(
        Exec::Server,
        Row::sub("latency|doctor", "doctor", Group::Server, 2, "2.8.13")
            .about("Describes what took long.", "O(1)")
            .flags(&[Flags::ADMIN, Flags::NOSCRIPT, Flags::LOADING, Flags::STALE])
            .tips(&["nondeterministic_output", "request_policy:all_nodes", "response_policy:special"])
            .behaviour(Behaviour::CONSTANT_TIME),
    ),
    Command::new(
        Exec::Server,
        Row::sub("latency|graph", "graph", Group::Server, 3, "2.8.13")
            .about("Draws what took long.", "O(1)")
            .flags(&[Flags::ADMIN, Flags::NOSCRIPT, Flags::LOADING, Flags::STALE])
            .tips(&["nondeterministic_output", "request_policy:all_nodes", "response_policy:special"])
            .args(&[arg("event", ArgKind::String)])
            .behaviour(Behaviour::CONSTANT_TIME),
    ),
    Command::new(
        Exec::Server,
        Row::sub("latency|help", "help", Group::Server, 2, "2.8.13")
            .about("Lists the subcommands.", "O(1)")
            .flags(&[Flags::LOADING, Flags::STALE])
            .behaviour(Behaviour::CONSTANT_TIME),
    ),
    Command::new(
        Exec::Server,
        Row::sub("latency|histogram", "histogram", Group::Server, -2, "7.0.0")
            .about("How long the calls of commands took.", "O(N) in the commands answered")
            .flags(&[Flags::ADMIN, Flags::NOSCRIPT, Flags::LOADING, Flags::STALE])
            .tips(&["nondeterministic_output", "request_policy:all_nodes", "response_policy:special"])
            .args(&[arg("command", ArgKind::String).optional().multiple()]),
    ),
    Command::new(
        Exec::Server,
        Row::sub("latency|history", "history", Group::Server, 3, "2.8.13")
            .about("Lists when an event took long.", "O(1)")
            .flags(&[Flags::ADMIN, Flags::NOSCRIPT, Flags::LOADING, Flags::STALE])
            .tips(&["nondeterministic_output", "request_policy:all_nodes", "response_policy:special"])
            .args(&[arg("event", ArgKind::String)])
            .behaviour(Behaviour::CONSTANT_TIME),
    ),
    Command::new(
        Exec::Server,
        Row::sub("latency|latest", "latest", Group::Server, 2, "2.8.13")
            .about("Tells what took long last, by event.", "O(1)")
            .flags(&[Flags::ADMIN, Flags::NOSCRIPT, Flags::LOADING, Flags::STALE])
            .tips(&["nondeterministic_output", "request_policy:all_nodes", "response_policy:special"])
            .behaviour(Behaviour::CONSTANT_TIME),
    ),
    Command::new(
        Exec::Server,
        Row::sub("latency|reset", "reset", Group::Server, -2, "2.8.13")
            .about("Forgets what took long.", "O(1)")
            .flags(&[Flags::ADMIN, Flags::NOSCRIPT, Flags::LOADING, Flags::STALE])
            .tips(&["request_policy:all_nodes", "response_policy:all_succeeded"])
            .args(&[arg("event", ArgKind::String).optional().multiple()])
            .behaviour(Behaviour::CONSTANT_TIME),
    ),
];

const SLOWLOG: FileRows = &[
    Command::new(
        Exec::Server,
        Row::sub("slowlog|get", "get", Group::Server, -2, "2.2.12")
            .about("Lists the latest slow commands.", "O(N) in the entries answered")
            .flags(&[Flags::ADMIN, Flags::LOADING, Flags::STALE])
            .tips(&["request_policy:all_nodes", "nondeterministic_output"])
            .history(&[("4.0.0", "Address and name of the client.")])
            .args(&[arg("count", ArgKind::Integer).optional()]),
    ),
    Command::new(
        Exec::Server,
        Row::sub("slowlog|help", "help", Group::Server, 2, "6.2.0")
            .about("Lists the subcommands.", "O(1)")
            .flags(&[Flags::LOADING, Flags::STALE])
            .behaviour(Behaviour::CONSTANT_TIME),
    ),
    Command::new(
        Exec::Server,
        Row::sub("slowlog|len", "len", Group::Server, 2, "2.2.12")
            .about("Counts the slow commands kept.", "O(1)")
            .flags(&[Flags::ADMIN, Flags::LOADING, Flags::STALE])
            .tips(&["request_policy:all_nodes", "response_policy:agg_sum", "nondeterministic_output"])
            .behaviour(Behaviour::CONSTANT_TIME),
    ),
    Command::new(
        Exec::Server,
        Row::sub("slowlog|reset", "reset", Group::Server, 2, "2.2.12")
            .about("Forgets the slow commands.", "O(N) in the entries")
            .flags(&[Flags::ADMIN, Flags::LOADING, Flags::STALE])
            .tips(&["request_policy:all_nodes", "response_policy:all_succeeded"]),
    ),
];
