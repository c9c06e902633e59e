//! Rows of the server group.
//!
//! Arity, flags, categories, key positions and argument names are those of Redis 7.0.15 (of Valkey for what is newer).

use crate::db;
use crate::descriptor::{
    Acl, ArgKind, Descriptor, Flags, Group, KeyFlags, KeySpec, Run, arg, block, key, one_of, word,
};
use crate::introspect;
use crate::lolwut;
use crate::memory;
use crate::segments;

pub(super) const ROWS: &[Descriptor] =
    &[
        Descriptor::new("command", Group::Server, -1, "2.8.13", Run::Session(introspect::command))
            .about("Describes all commands.", "O(N) in the commands")
            .flags(&[Flags::LOADING, Flags::STALE])
            .acl(&[Acl::CONNECTION])
            .tips(&["nondeterministic_output_order"])
            .subcommands(COMMAND),
        Descriptor::new("config", Group::Server, -2, "2.0.0", Run::Container)
            .about("The configuration.", "")
            .subcommands(CONFIG),
        Descriptor::new("dbsize", Group::Server, 1, "1.0.0", Run::Keyspace(db::dbsize))
            .about("Counts the keys of the database.", "O(1)")
            .flags(&[Flags::READONLY, Flags::FAST])
            .acl(&[Acl::KEYSPACE])
            .tips(&["request_policy:all_shards", "response_policy:agg_sum"]),
        Descriptor::new("debug", Group::Server, -2, "1.0.0", Run::Host)
            .about("For tests of the server.", "")
            .flags(&[Flags::ADMIN, Flags::NOSCRIPT, Flags::LOADING, Flags::STALE, Flags::PROTECTED])
            .system(),
        Descriptor::new("flushall", Group::Server, -1, "1.0.0", Run::Alone(db::flushall))
            .about("Empties all databases.", "O(1), memory is freed in steps")
            .flags(&[Flags::WRITE, Flags::ALL_DBS])
            .acl(&[Acl::KEYSPACE, Acl::DANGEROUS])
            .tips(&["request_policy:all_shards", "response_policy:all_succeeded"])
            .history(&[("4.0.0", "`ASYNC`."), ("6.2.0", "`SYNC`.")])
            .args(&[one_of("async", &[word("async", "ASYNC").since("4.0.0"), word("sync", "SYNC").since("6.2.0")])
                .optional()]),
        Descriptor::new("flushdb", Group::Server, -1, "1.0.0", Run::Alone(db::flushdb))
            .about("Empties the database.", "O(1), memory is freed in steps")
            .flags(&[Flags::WRITE])
            .acl(&[Acl::KEYSPACE, Acl::DANGEROUS])
            .tips(&["request_policy:all_shards", "response_policy:all_succeeded"])
            .history(&[("4.0.0", "`ASYNC`."), ("6.2.0", "`SYNC`.")])
            .args(&[one_of("async", &[word("async", "ASYNC").since("4.0.0"), word("sync", "SYNC").since("6.2.0")])
                .optional()]),
        Descriptor::new("info", Group::Server, -1, "1.0.0", Run::Host)
            .about("Describes the server and its counters.", "O(1)")
            .flags(&[Flags::LOADING, Flags::STALE])
            .acl(&[Acl::DANGEROUS])
            .tips(&["nondeterministic_output", "request_policy:all_shards", "response_policy:special"])
            .history(&[("7.0.0", "Several sections.")])
            .args(&[arg("section", ArgKind::String).optional().multiple()]),
        Descriptor::new("latency", Group::Server, -2, "2.8.13", Run::Container)
            .about("What took long.", "")
            .subcommands(LATENCY),
        Descriptor::new("lolwut", Group::Server, -1, "5.0.0", Run::Session(lolwut::lolwut))
            .about("Draws something.", "")
            .flags(&[Flags::READONLY, Flags::FAST])
            .args(&[arg("version", ArgKind::Integer).token("VERSION").optional()]),
        Descriptor::new("memory", Group::Server, -2, "4.0.0", Run::Container)
            .about("What the data takes.", "")
            .subcommands(MEMORY),
        Descriptor::new("monitor", Group::Server, 1, "1.0.0", Run::Host)
            .about("Shows every command that the server runs.", "")
            .flags(&[Flags::ADMIN, Flags::NOSCRIPT, Flags::LOADING, Flags::STALE]),
        Descriptor::new("segments", Group::Server, -1, "7.0.15", Run::Keyspace(segments::segments))
            .about("Lists the segments of the log.", "O(N) in the segments")
            .flags(&[Flags::ADMIN, Flags::LOADING, Flags::STALE])
            .tips(&["nondeterministic_output"])
            .args(&[one_of("subcommand", &[word("list", "LIST"), word("help", "HELP")]).optional()]),
        Descriptor::new("shutdown", Group::Server, -1, "1.0.0", Run::Host)
            .about("Ends the server.", "O(N) in the keys when saving, else O(1)")
            .flags(&[Flags::ADMIN, Flags::NOSCRIPT, Flags::LOADING, Flags::STALE, Flags::NO_MULTI, Flags::ALLOW_BUSY])
            .history(&[("7.0.0", "`NOW`, `FORCE` and `ABORT`.")])
            .args(&[
                one_of("nosave_save", &[word("nosave", "NOSAVE"), word("save", "SAVE")]).optional(),
                word("now", "NOW").since("7.0.0").optional(),
                word("force", "FORCE").since("7.0.0").optional(),
                word("abort", "ABORT").since("7.0.0").optional(),
            ]),
        Descriptor::new("slowlog", Group::Server, -2, "2.2.12", Run::Container)
            .about("The commands that took long.", "")
            .subcommands(SLOWLOG),
        Descriptor::new("swapdb", Group::Server, 3, "4.0.0", Run::Alone(db::swapdb))
            .about("Exchanges two databases.", "O(1)")
            .flags(&[Flags::WRITE, Flags::FAST])
            .acl(&[Acl::KEYSPACE, Acl::DANGEROUS])
            .args(&[arg("index1", ArgKind::Integer), arg("index2", ArgKind::Integer)]),
        Descriptor::new("time", Group::Server, 1, "2.6.0", Run::Session(db::time))
            .about("Answers the server's clock.", "O(1)")
            .flags(&[Flags::LOADING, Flags::STALE, Flags::FAST])
            .tips(&["nondeterministic_output"]),
    ];

/// Subcommands of COMMAND.
const COMMAND: &[Descriptor] = &[
    Descriptor::sub("command|count", "count", Group::Server, 2, "2.8.13", Run::Session(introspect::count))
        .about("Counts the commands.", "O(1)")
        .flags(&[Flags::LOADING, Flags::STALE])
        .acl(&[Acl::CONNECTION]),
    Descriptor::sub("command|docs", "docs", Group::Server, -2, "7.0.0", Run::Session(introspect::docs))
        .about("Documents commands.", "O(N) in the commands asked for")
        .flags(&[Flags::LOADING, Flags::STALE])
        .acl(&[Acl::CONNECTION])
        .tips(&["nondeterministic_output_order"])
        .args(&[arg("command-name", ArgKind::String).optional().multiple()]),
    Descriptor::sub("command|getkeys", "getkeys", Group::Server, -4, "2.8.13", Run::Session(introspect::getkeys))
        .about("Finds the keys in a request.", "O(N) in the request's arguments")
        .flags(&[Flags::LOADING, Flags::STALE])
        .acl(&[Acl::CONNECTION]),
    Descriptor::sub(
        "command|getkeysandflags",
        "getkeysandflags",
        Group::Server,
        -4,
        "7.0.0",
        Run::Session(introspect::getkeysandflags),
    )
    .about("Finds the keys in a request and what it does to them.", "O(N) in the request's arguments")
    .flags(&[Flags::LOADING, Flags::STALE])
    .acl(&[Acl::CONNECTION]),
    Descriptor::sub("command|help", "help", Group::Server, 2, "5.0.0", Run::Session(introspect::help))
        .about("Lists the subcommands.", "O(1)")
        .flags(&[Flags::LOADING, Flags::STALE])
        .acl(&[Acl::CONNECTION]),
    Descriptor::sub("command|info", "info", Group::Server, -2, "2.8.13", Run::Session(introspect::info))
        .about("Describes commands, all of them if none is named.", "O(N) in the commands asked for")
        .flags(&[Flags::LOADING, Flags::STALE])
        .acl(&[Acl::CONNECTION])
        .tips(&["nondeterministic_output_order"])
        .history(&[("7.0.0", "Without a name it describes all.")])
        .args(&[arg("command-name", ArgKind::String).optional().multiple()]),
    Descriptor::sub("command|list", "list", Group::Server, -2, "7.0.0", Run::Session(introspect::list))
        .about("Lists the names of commands.", "O(N) in the commands")
        .flags(&[Flags::LOADING, Flags::STALE])
        .acl(&[Acl::CONNECTION])
        .tips(&["nondeterministic_output_order"])
        .args(&[one_of(
            "filterby",
            &[
                arg("module-name", ArgKind::String).token("MODULE"),
                arg("category", ArgKind::String).token("ACLCAT"),
                arg("pattern", ArgKind::Pattern).token("PATTERN"),
            ],
        )
        .token("FILTERBY")
        .optional()]),
];

/// Subcommands of CONFIG.
const CONFIG: &[Descriptor] = &[
    Descriptor::sub("config|get", "get", Group::Server, -3, "2.0.0", Run::Host)
        .about("Answers parameters.", "O(N) in the parameters")
        .flags(&[Flags::ADMIN, Flags::NOSCRIPT, Flags::LOADING, Flags::STALE])
        .history(&[("7.0.0", "Several patterns.")])
        .args(&[block("parameter", &[arg("parameter", ArgKind::String)]).multiple()]),
    Descriptor::sub("config|help", "help", Group::Server, 2, "5.0.0", Run::Host)
        .about("Lists the subcommands.", "O(1)")
        .flags(&[Flags::LOADING, Flags::STALE]),
    Descriptor::sub("config|resetstat", "resetstat", Group::Server, 2, "2.0.0", Run::Host)
        .about("Sets the counters that INFO shows to zero.", "O(1)")
        .flags(&[Flags::ADMIN, Flags::NOSCRIPT, Flags::LOADING, Flags::STALE]),
    Descriptor::sub("config|rewrite", "rewrite", Group::Server, 2, "2.8.0", Run::Host)
        .about("Writes the configuration to its file.", "O(1)")
        .flags(&[Flags::ADMIN, Flags::NOSCRIPT, Flags::LOADING, Flags::STALE]),
    Descriptor::sub("config|set", "set", Group::Server, -4, "2.0.0", Run::Host)
        .about("Changes parameters.", "O(N) in the parameters")
        .flags(&[Flags::ADMIN, Flags::NOSCRIPT, Flags::LOADING, Flags::STALE])
        .tips(&["request_policy:all_nodes", "response_policy:all_succeeded"])
        .history(&[("7.0.0", "Several parameters.")])
        .args(&[
            block("parameter_value", &[arg("parameter", ArgKind::String), arg("value", ArgKind::String)]).multiple()
        ]),
];

/// Subcommands of MEMORY.
const MEMORY: &[Descriptor] = &[
    Descriptor::sub("memory|doctor", "doctor", Group::Server, 2, "4.0.0", Run::Keyspace(memory::memory_doctor))
        .about("Tells what is wrong with the use of memory.", "O(1)")
        .tips(&["nondeterministic_output", "request_policy:all_shards", "response_policy:special"]),
    Descriptor::sub("memory|help", "help", Group::Server, 2, "4.0.0", Run::Session(memory::memory_help))
        .about("Lists the subcommands.", "O(1)")
        .flags(&[Flags::LOADING, Flags::STALE]),
    Descriptor::sub(
        "memory|malloc-stats",
        "malloc-stats",
        Group::Server,
        2,
        "4.0.0",
        Run::Keyspace(memory::memory_malloc_stats),
    )
    .about("Describes the allocator.", "O(1)")
    .tips(&["nondeterministic_output", "request_policy:all_shards", "response_policy:special"]),
    Descriptor::sub("memory|purge", "purge", Group::Server, 2, "4.0.0", Run::Keyspace(memory::memory_purge))
        .about("Gives free memory back to the system.", "O(N) in the free memory")
        .tips(&["request_policy:all_shards", "response_policy:all_succeeded"]),
    Descriptor::sub("memory|stats", "stats", Group::Server, 2, "4.0.0", Run::Keyspace(memory::memory_stats))
        .about("Tells what memory is used for.", "O(1)")
        .tips(&["nondeterministic_output", "request_policy:all_shards", "response_policy:special"]),
    Descriptor::sub("memory|usage", "usage", Group::Server, -3, "4.0.0", Run::Store(memory::memory_usage))
        .about("Tells the bytes that a key takes.", "O(N) in the samples")
        .flags(&[Flags::READONLY])
        .keys(&[KeySpec::one(2, KeyFlags::RO)])
        .args(&[key("key", 0), arg("count", ArgKind::Integer).token("SAMPLES").optional()]),
];

/// Subcommands of LATENCY.
const LATENCY: &[Descriptor] = &[
    Descriptor::sub("latency|doctor", "doctor", Group::Server, 2, "2.8.13", Run::Host)
        .about("Describes what took long.", "O(1)")
        .flags(&[Flags::ADMIN, Flags::NOSCRIPT, Flags::LOADING, Flags::STALE])
        .tips(&["nondeterministic_output", "request_policy:all_nodes", "response_policy:special"]),
    Descriptor::sub("latency|graph", "graph", Group::Server, 3, "2.8.13", Run::Host)
        .about("Draws what took long.", "O(1)")
        .flags(&[Flags::ADMIN, Flags::NOSCRIPT, Flags::LOADING, Flags::STALE])
        .tips(&["nondeterministic_output", "request_policy:all_nodes", "response_policy:special"])
        .args(&[arg("event", ArgKind::String)]),
    Descriptor::sub("latency|help", "help", Group::Server, 2, "2.8.13", Run::Host)
        .about("Lists the subcommands.", "O(1)")
        .flags(&[Flags::LOADING, Flags::STALE]),
    Descriptor::sub("latency|histogram", "histogram", Group::Server, -2, "7.0.0", Run::Host)
        .about("How long the calls of commands took.", "O(N) in the commands answered")
        .flags(&[Flags::ADMIN, Flags::NOSCRIPT, Flags::LOADING, Flags::STALE])
        .tips(&["nondeterministic_output", "request_policy:all_nodes", "response_policy:special"])
        .args(&[arg("command", ArgKind::String).optional().multiple()]),
    Descriptor::sub("latency|history", "history", Group::Server, 3, "2.8.13", Run::Host)
        .about("Lists when an event took long.", "O(1)")
        .flags(&[Flags::ADMIN, Flags::NOSCRIPT, Flags::LOADING, Flags::STALE])
        .tips(&["nondeterministic_output", "request_policy:all_nodes", "response_policy:special"])
        .args(&[arg("event", ArgKind::String)]),
    Descriptor::sub("latency|latest", "latest", Group::Server, 2, "2.8.13", Run::Host)
        .about("Tells what took long last, by event.", "O(1)")
        .flags(&[Flags::ADMIN, Flags::NOSCRIPT, Flags::LOADING, Flags::STALE])
        .tips(&["nondeterministic_output", "request_policy:all_nodes", "response_policy:special"]),
    Descriptor::sub("latency|reset", "reset", Group::Server, -2, "2.8.13", Run::Host)
        .about("Forgets what took long.", "O(1)")
        .flags(&[Flags::ADMIN, Flags::NOSCRIPT, Flags::LOADING, Flags::STALE])
        .tips(&["request_policy:all_nodes", "response_policy:all_succeeded"])
        .args(&[arg("event", ArgKind::String).optional().multiple()]),
];

/// Subcommands of SLOWLOG.
const SLOWLOG: &[Descriptor] = &[
    Descriptor::sub("slowlog|get", "get", Group::Server, -2, "2.2.12", Run::Host)
        .about("Lists the latest slow commands.", "O(N) in the entries answered")
        .flags(&[Flags::ADMIN, Flags::LOADING, Flags::STALE])
        .tips(&["request_policy:all_nodes", "nondeterministic_output"])
        .history(&[("4.0.0", "Address and name of the client.")])
        .args(&[arg("count", ArgKind::Integer).optional()]),
    Descriptor::sub("slowlog|help", "help", Group::Server, 2, "6.2.0", Run::Host)
        .about("Lists the subcommands.", "O(1)")
        .flags(&[Flags::LOADING, Flags::STALE]),
    Descriptor::sub("slowlog|len", "len", Group::Server, 2, "2.2.12", Run::Host)
        .about("Counts the slow commands kept.", "O(1)")
        .flags(&[Flags::ADMIN, Flags::LOADING, Flags::STALE])
        .tips(&["request_policy:all_nodes", "response_policy:agg_sum", "nondeterministic_output"]),
    Descriptor::sub("slowlog|reset", "reset", Group::Server, 2, "2.2.12", Run::Host)
        .about("Forgets the slow commands.", "O(N) in the entries")
        .flags(&[Flags::ADMIN, Flags::LOADING, Flags::STALE])
        .tips(&["request_policy:all_nodes", "response_policy:all_succeeded"]),
];
