//! Rows of the commands of the connection group that the server runs.
//!
//! Arity, flags, categories, key positions and argument names are those of Redis 7.0.15 (of Valkey for what is newer).

use varve_catalog::{Acl, ArgKind, Behaviour, Flags, Group, Row, Secret, arg, block, one_of, word};
use varve_exec::{Command, Exec, FileRows};

pub(super) const ROWS: FileRows = &[
    Command::new(
        Exec::Server,
        Row::new("auth", Group::Connection, -2, "1.0.0")
            .about("Authenticates the connection.", "O(N) in the user's passwords")
            .flags(&[Flags::NOSCRIPT, Flags::LOADING, Flags::STALE, Flags::FAST, Flags::NO_AUTH, Flags::ALLOW_BUSY])
            .acl(&[Acl::CONNECTION])
            .history(&[("6.0.0", "A user name before the password.")])
            .args(&[arg("username", ArgKind::String).since("6.0.0").optional(), arg("password", ArgKind::String)])
            .secret(Secret::AllArguments),
    ),
    Command::container(
        Row::new("client", Group::Connection, -2, "2.4.0").about("This connection and the others.", ""),
        CLIENT,
    ),
    Command::new(
        Exec::Server,
        Row::new("hello", Group::Connection, -1, "6.0.0")
            .about("Chooses the protocol version, with authentication and a name if wanted.", "O(1)")
            .flags(&[Flags::NOSCRIPT, Flags::LOADING, Flags::STALE, Flags::FAST, Flags::NO_AUTH, Flags::ALLOW_BUSY])
            .acl(&[Acl::CONNECTION])
            .history(&[("6.2.0", "Without arguments it describes the connection.")])
            .args(&[block(
                "arguments",
                &[
                    arg("protover", ArgKind::Integer),
                    block("username_password", &[arg("username", ArgKind::String), arg("password", ArgKind::String)])
                        .token("AUTH")
                        .optional(),
                    arg("clientname", ArgKind::String).token("SETNAME").optional(),
                ],
            )
            .optional()])
            .secret(Secret::Behind { word: "AUTH", first: 2, count: 2 }),
    ),
    Command::new(
        Exec::Server,
        Row::new("reset", Group::Connection, 1, "6.2.0")
            .about("Puts the connection back in its first state.", "O(1)")
            .flags(&[Flags::NOSCRIPT, Flags::LOADING, Flags::STALE, Flags::FAST, Flags::NO_AUTH, Flags::ALLOW_BUSY])
            .acl(&[Acl::CONNECTION])
            .behaviour(Behaviour::WHILE_SUBSCRIBED.and(Behaviour::NEVER_QUEUED)),
    ),
];

const CLIENT: FileRows = &[
    Command::new(
        Exec::Server,
        Row::sub("client|caching", "caching", Group::Connection, 3, "6.0.0")
            .about("Says whether the next command's keys are to be remembered.", "O(1)")
            .flags(&[Flags::NOSCRIPT, Flags::LOADING, Flags::STALE])
            .acl(&[Acl::CONNECTION])
            .args(&[one_of("mode", &[word("yes", "YES"), word("no", "NO")])])
            .behaviour(Behaviour::CONSTANT_TIME.and(Behaviour::KEEPS_CACHING)),
    ),
    Command::new(
        Exec::Server,
        Row::sub("client|getredir", "getredir", Group::Connection, 2, "6.0.0")
            .about("Answers who gets this connection's messages about stale keys.", "O(1)")
            .flags(&[Flags::NOSCRIPT, Flags::LOADING, Flags::STALE])
            .acl(&[Acl::CONNECTION])
            .behaviour(Behaviour::CONSTANT_TIME.and(Behaviour::KEEPS_CACHING)),
    ),
    Command::new(
        Exec::Server,
        Row::sub("client|tracking", "tracking", Group::Connection, -3, "6.0.0")
            .about("Turns client-side caching on or off.", "O(1), more with options")
            .flags(&[Flags::NOSCRIPT, Flags::LOADING, Flags::STALE])
            .acl(&[Acl::CONNECTION])
            .args(&[
                one_of("status", &[word("on", "ON"), word("off", "OFF")]),
                arg("client-id", ArgKind::Integer).token("REDIRECT").optional(),
                arg("prefix", ArgKind::String).token("PREFIX").optional().multiple().multiple_token(),
                word("bcast", "BCAST").optional(),
                word("optin", "OPTIN").optional(),
                word("optout", "OPTOUT").optional(),
                word("noloop", "NOLOOP").optional(),
            ])
            .behaviour(Behaviour::KEEPS_CACHING),
    ),
    Command::new(
        Exec::Server,
        Row::sub("client|trackinginfo", "trackinginfo", Group::Connection, 2, "6.2.0")
            .about("Describes the connection's client-side caching.", "O(1)")
            .flags(&[Flags::NOSCRIPT, Flags::LOADING, Flags::STALE])
            .acl(&[Acl::CONNECTION])
            .behaviour(Behaviour::CONSTANT_TIME.and(Behaviour::KEEPS_CACHING)),
    ),
    Command::new(
        Exec::Server,
        Row::sub("client|getname", "getname", Group::Connection, 2, "2.6.9")
            .about("Answers the connection's name.", "O(1)")
            .flags(&[Flags::NOSCRIPT, Flags::LOADING, Flags::STALE])
            .acl(&[Acl::CONNECTION])
            .behaviour(Behaviour::CONSTANT_TIME.and(Behaviour::KEEPS_CACHING)),
    ),
    Command::new(
        Exec::Server,
        Row::sub("client|help", "help", Group::Connection, 2, "5.0.0")
            .about("Lists the subcommands.", "O(1)")
            .flags(&[Flags::LOADING, Flags::STALE])
            .acl(&[Acl::CONNECTION])
            .behaviour(Behaviour::CONSTANT_TIME.and(Behaviour::KEEPS_CACHING)),
    ),
    Command::new(
        Exec::Server,
        Row::sub("client|id", "id", Group::Connection, 2, "5.0.0")
            .about("Answers the connection's number.", "O(1)")
            .flags(&[Flags::NOSCRIPT, Flags::LOADING, Flags::STALE])
            .acl(&[Acl::CONNECTION])
            .behaviour(Behaviour::CONSTANT_TIME.and(Behaviour::KEEPS_CACHING)),
    ),
    Command::new(
        Exec::Server,
        Row::sub("client|info", "info", Group::Connection, 2, "6.2.0")
            .about("Describes the connection.", "O(1)")
            .flags(&[Flags::NOSCRIPT, Flags::LOADING, Flags::STALE])
            .acl(&[Acl::CONNECTION])
            .tips(&["nondeterministic_output"])
            .behaviour(Behaviour::CONSTANT_TIME.and(Behaviour::KEEPS_CACHING)),
    ),
    Command::new(
        Exec::Server,
        Row::sub("client|kill", "kill", Group::Connection, -3, "2.4.0")
            .about("Ends connections.", "O(N) in the connections")
            .flags(&[Flags::ADMIN, Flags::NOSCRIPT, Flags::LOADING, Flags::STALE])
            .acl(&[Acl::CONNECTION])
            .history(&[
                ("2.8.12", "Filters."),
                ("2.8.12", "`ID`."),
                ("3.2.0", "Type `master`."),
                ("5.0.0", "Type `replica`, for which `slave` still stands."),
                ("6.2.0", "`LADDR`."),
            ])
            .args(&[one_of(
                "filter",
                &[
                    arg("ip:port", ArgKind::String).deprecated_since("2.8.12"),
                    one_of(
                        "new-format",
                        &[
                            arg("client-id", ArgKind::Integer).token("ID").since("2.8.12").optional(),
                            one_of(
                                "normal_master_slave_pubsub",
                                &[
                                    word("normal", "NORMAL"),
                                    word("master", "MASTER").since("3.2.0"),
                                    word("slave", "SLAVE"),
                                    word("replica", "REPLICA").since("5.0.0"),
                                    word("pubsub", "PUBSUB"),
                                ],
                            )
                            .token("TYPE")
                            .since("2.8.12")
                            .optional(),
                            arg("username", ArgKind::String).token("USER").optional(),
                            arg("ip:port", ArgKind::String).token("ADDR").optional(),
                            arg("ip:port", ArgKind::String).token("LADDR").since("6.2.0").optional(),
                            arg("yes/no", ArgKind::String).token("SKIPME").optional(),
                        ],
                    )
                    .multiple(),
                ],
            )])
            .behaviour(Behaviour::KEEPS_CACHING),
    ),
    Command::new(
        Exec::Server,
        Row::sub("client|list", "list", Group::Connection, -2, "2.4.0")
            .about("Describes the connections.", "O(N) in the connections")
            .flags(&[Flags::ADMIN, Flags::NOSCRIPT, Flags::LOADING, Flags::STALE])
            .acl(&[Acl::CONNECTION])
            .tips(&["nondeterministic_output"])
            .history(&[
                ("2.8.12", "Field `id`."),
                ("5.0.0", "`TYPE`."),
                ("6.0.0", "Field `user`."),
                ("6.2.0", "Fields `argv-mem`, `tot-mem`, `laddr` and `redir`, and `ID`."),
                ("7.0.0", "Fields `resp`, `multi-mem`, `rbs` and `rbp`."),
                ("7.0.3", "Field `ssub`."),
            ])
            .args(&[
                one_of(
                    "normal_master_replica_pubsub",
                    &[
                        word("normal", "NORMAL"),
                        word("master", "MASTER"),
                        word("replica", "REPLICA"),
                        word("pubsub", "PUBSUB"),
                    ],
                )
                .token("TYPE")
                .since("5.0.0")
                .optional(),
                block("id", &[arg("client-id", ArgKind::Integer).multiple()]).token("ID").since("6.2.0").optional(),
            ])
            .behaviour(Behaviour::KEEPS_CACHING),
    ),
    Command::new(
        Exec::Server,
        Row::sub("client|no-evict", "no-evict", Group::Connection, 3, "7.0.0")
            .about("Spares the connection when clients are evicted.", "O(1)")
            .flags(&[Flags::ADMIN, Flags::NOSCRIPT, Flags::LOADING, Flags::STALE])
            .acl(&[Acl::CONNECTION])
            .args(&[one_of("enabled", &[word("on", "ON"), word("off", "OFF")])])
            .behaviour(Behaviour::CONSTANT_TIME.and(Behaviour::KEEPS_CACHING)),
    ),
    Command::new(
        Exec::Server,
        Row::sub("client|no-touch", "no-touch", Group::Connection, 3, "7.2.0")
            .about("Stops the connection's reads from moving access times.", "O(1)")
            .flags(&[Flags::NOSCRIPT, Flags::LOADING, Flags::STALE, Flags::ALLOW_BUSY])
            .acl(&[Acl::CONNECTION])
            .args(&[one_of("enabled", &[word("on", "ON"), word("off", "OFF")])])
            .behaviour(Behaviour::CONSTANT_TIME.and(Behaviour::KEEPS_CACHING)),
    ),
    Command::new(
        Exec::Server,
        Row::sub("client|pause", "pause", Group::Connection, -3, "2.9.50")
            .about("Holds the commands of all connections back for a while.", "O(1)")
            .flags(&[Flags::ADMIN, Flags::NOSCRIPT, Flags::LOADING, Flags::STALE])
            .acl(&[Acl::CONNECTION])
            .history(&[("6.2.0", "Mode `WRITE`.")])
            .args(&[
                arg("timeout", ArgKind::Integer),
                one_of("mode", &[word("write", "WRITE"), word("all", "ALL")]).since("6.2.0").optional(),
            ])
            .behaviour(Behaviour::CONSTANT_TIME.and(Behaviour::KEEPS_CACHING)),
    ),
    Command::new(
        Exec::Server,
        Row::sub("client|unpause", "unpause", Group::Connection, 2, "6.2.0")
            .about("Lets the commands that were held back go on.", "O(N) in the connections that were held back")
            .flags(&[Flags::ADMIN, Flags::NOSCRIPT, Flags::LOADING, Flags::STALE])
            .acl(&[Acl::CONNECTION])
            .behaviour(Behaviour::KEEPS_CACHING),
    ),
    Command::new(
        Exec::Server,
        Row::sub("client|reply", "reply", Group::Connection, 3, "3.2.0")
            .about("Turns replies on or off, or skips one.", "O(1)")
            .flags(&[Flags::NOSCRIPT, Flags::LOADING, Flags::STALE])
            .acl(&[Acl::CONNECTION])
            .args(&[one_of("on_off_skip", &[word("on", "ON"), word("off", "OFF"), word("skip", "SKIP")])])
            .behaviour(Behaviour::CONSTANT_TIME.and(Behaviour::KEEPS_CACHING)),
    ),
    Command::new(
        Exec::Server,
        Row::sub("client|setinfo", "setinfo", Group::Connection, 4, "7.2.0")
            .about("Tells the server which library the client uses.", "O(1)")
            .flags(&[Flags::NOSCRIPT, Flags::LOADING, Flags::STALE, Flags::ALLOW_BUSY])
            .acl(&[Acl::CONNECTION])
            .tips(&["request_policy:all_nodes", "response_policy:all_succeeded"])
            .args(&[one_of(
                "attr",
                &[arg("libname", ArgKind::String).token("LIB-NAME"), arg("libver", ArgKind::String).token("LIB-VER")],
            )])
            .behaviour(Behaviour::CONSTANT_TIME.and(Behaviour::KEEPS_CACHING)),
    ),
    Command::new(
        Exec::Server,
        Row::sub("client|setname", "setname", Group::Connection, 3, "2.6.9")
            .about("Names the connection.", "O(1)")
            .flags(&[Flags::NOSCRIPT, Flags::LOADING, Flags::STALE])
            .acl(&[Acl::CONNECTION])
            .args(&[arg("connection-name", ArgKind::String)])
            .behaviour(Behaviour::CONSTANT_TIME.and(Behaviour::KEEPS_CACHING)),
    ),
    Command::new(
        Exec::Server,
        Row::sub("client|unblock", "unblock", Group::Connection, -3, "5.0.0")
            .about("Ends the wait of a client that is blocked.", "O(log N) in the clients")
            .flags(&[Flags::ADMIN, Flags::NOSCRIPT, Flags::LOADING, Flags::STALE])
            .acl(&[Acl::CONNECTION])
            .args(&[
                arg("client-id", ArgKind::Integer),
                one_of("timeout_error", &[word("timeout", "TIMEOUT"), word("error", "ERROR")]).optional(),
            ])
            .behaviour(Behaviour::KEEPS_CACHING),
    ),
];
