//! Rows of the connection group.
//!
//! Arity, flags, categories, key positions and argument names are those of Redis 7.0.15 (of Valkey for what is newer).

use crate::connection;
use crate::descriptor::{Acl, ArgKind, Descriptor, Flags, Group, Run, arg, block, one_of, word};

pub(super) const ROWS: &[Descriptor] = &[
    Descriptor::new("auth", Group::Connection, -2, "1.0.0", Run::Host)
        .about("Authenticates the connection.", "O(N) in the user's passwords")
        .flags(&[Flags::NOSCRIPT, Flags::LOADING, Flags::STALE, Flags::FAST, Flags::NO_AUTH, Flags::ALLOW_BUSY])
        .acl(&[Acl::CONNECTION])
        .history(&[("6.0.0", "A user name before the password.")])
        .args(&[arg("username", ArgKind::String).since("6.0.0").optional(), arg("password", ArgKind::String)]),
    Descriptor::new("client", Group::Connection, -2, "2.4.0", Run::Container)
        .about("This connection and the others.", "")
        .subcommands(CLIENT),
    Descriptor::new("echo", Group::Connection, 2, "1.0.0", Run::Session(connection::echo))
        .about("Answers the message.", "O(1)")
        .flags(&[Flags::LOADING, Flags::STALE, Flags::FAST])
        .acl(&[Acl::CONNECTION])
        .args(&[arg("message", ArgKind::String)]),
    Descriptor::new("hello", Group::Connection, -1, "6.0.0", Run::Host)
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
        .optional()]),
    Descriptor::new("ping", Group::Connection, -1, "1.0.0", Run::Session(connection::ping))
        .about("Answers PONG, or the message given.", "O(1)")
        .flags(&[Flags::FAST])
        .acl(&[Acl::CONNECTION])
        .tips(&["request_policy:all_shards", "response_policy:all_succeeded"])
        .args(&[arg("message", ArgKind::String).optional()]),
    Descriptor::new("quit", Group::Connection, -1, "1.0.0", Run::Session(connection::quit))
        .about("Ends the connection.", "O(1)")
        .flags(&[Flags::NOSCRIPT, Flags::LOADING, Flags::STALE, Flags::FAST, Flags::NO_AUTH, Flags::ALLOW_BUSY])
        .acl(&[Acl::CONNECTION]),
    Descriptor::new("reset", Group::Connection, 1, "6.2.0", Run::Host)
        .about("Puts the connection back in its first state.", "O(1)")
        .flags(&[Flags::NOSCRIPT, Flags::LOADING, Flags::STALE, Flags::FAST, Flags::NO_AUTH, Flags::ALLOW_BUSY])
        .acl(&[Acl::CONNECTION]),
    Descriptor::new("select", Group::Connection, 2, "1.0.0", Run::Session(connection::select))
        .about("Makes a database the connection's.", "O(1)")
        .flags(&[Flags::LOADING, Flags::STALE, Flags::FAST])
        .acl(&[Acl::CONNECTION])
        .args(&[arg("index", ArgKind::Integer)]),
];

/// Subcommands of CLIENT.
const CLIENT: &[Descriptor] = &[
    Descriptor::sub("client|caching", "caching", Group::Connection, 3, "6.0.0", Run::Host)
        .about("Says whether the next command's keys are to be remembered.", "O(1)")
        .flags(&[Flags::NOSCRIPT, Flags::LOADING, Flags::STALE])
        .acl(&[Acl::CONNECTION])
        .args(&[one_of("mode", &[word("yes", "YES"), word("no", "NO")])]),
    Descriptor::sub("client|getredir", "getredir", Group::Connection, 2, "6.0.0", Run::Host)
        .about("Answers who gets this connection's messages about stale keys.", "O(1)")
        .flags(&[Flags::NOSCRIPT, Flags::LOADING, Flags::STALE])
        .acl(&[Acl::CONNECTION]),
    Descriptor::sub("client|tracking", "tracking", Group::Connection, -3, "6.0.0", Run::Host)
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
        ]),
    Descriptor::sub("client|trackinginfo", "trackinginfo", Group::Connection, 2, "6.2.0", Run::Host)
        .about("Describes the connection's client-side caching.", "O(1)")
        .flags(&[Flags::NOSCRIPT, Flags::LOADING, Flags::STALE])
        .acl(&[Acl::CONNECTION]),
    Descriptor::sub("client|getname", "getname", Group::Connection, 2, "2.6.9", Run::Host)
        .about("Answers the connection's name.", "O(1)")
        .flags(&[Flags::NOSCRIPT, Flags::LOADING, Flags::STALE])
        .acl(&[Acl::CONNECTION]),
    Descriptor::sub("client|help", "help", Group::Connection, 2, "5.0.0", Run::Host)
        .about("Lists the subcommands.", "O(1)")
        .flags(&[Flags::LOADING, Flags::STALE])
        .acl(&[Acl::CONNECTION]),
    Descriptor::sub("client|id", "id", Group::Connection, 2, "5.0.0", Run::Host)
        .about("Answers the connection's number.", "O(1)")
        .flags(&[Flags::NOSCRIPT, Flags::LOADING, Flags::STALE])
        .acl(&[Acl::CONNECTION]),
    Descriptor::sub("client|info", "info", Group::Connection, 2, "6.2.0", Run::Host)
        .about("Describes the connection.", "O(1)")
        .flags(&[Flags::NOSCRIPT, Flags::LOADING, Flags::STALE])
        .acl(&[Acl::CONNECTION])
        .tips(&["nondeterministic_output"]),
    Descriptor::sub("client|kill", "kill", Group::Connection, -3, "2.4.0", Run::Host)
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
        )]),
    Descriptor::sub("client|list", "list", Group::Connection, -2, "2.4.0", Run::Host)
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
        ]),
    Descriptor::sub("client|no-evict", "no-evict", Group::Connection, 3, "7.0.0", Run::Host)
        .about("Spares the connection when clients are evicted.", "O(1)")
        .flags(&[Flags::ADMIN, Flags::NOSCRIPT, Flags::LOADING, Flags::STALE])
        .acl(&[Acl::CONNECTION])
        .args(&[one_of("enabled", &[word("on", "ON"), word("off", "OFF")])]),
    Descriptor::sub("client|no-touch", "no-touch", Group::Connection, 3, "7.2.0", Run::Host)
        .about("Stops the connection's reads from moving access times.", "O(1)")
        .flags(&[Flags::NOSCRIPT, Flags::LOADING, Flags::STALE, Flags::ALLOW_BUSY])
        .acl(&[Acl::CONNECTION])
        .args(&[one_of("enabled", &[word("on", "ON"), word("off", "OFF")])]),
    Descriptor::sub("client|pause", "pause", Group::Connection, -3, "2.9.50", Run::Host)
        .about("Holds the commands of all connections back for a while.", "O(1)")
        .flags(&[Flags::ADMIN, Flags::NOSCRIPT, Flags::LOADING, Flags::STALE])
        .acl(&[Acl::CONNECTION])
        .history(&[("6.2.0", "Mode `WRITE`.")])
        .args(&[
            arg("timeout", ArgKind::Integer),
            one_of("mode", &[word("write", "WRITE"), word("all", "ALL")]).since("6.2.0").optional(),
        ]),
    Descriptor::sub("client|unpause", "unpause", Group::Connection, 2, "6.2.0", Run::Host)
        .about("Lets the commands that were held back go on.", "O(N) in the connections that were held back")
        .flags(&[Flags::ADMIN, Flags::NOSCRIPT, Flags::LOADING, Flags::STALE])
        .acl(&[Acl::CONNECTION]),
    Descriptor::sub("client|reply", "reply", Group::Connection, 3, "3.2.0", Run::Host)
        .about("Turns replies on or off, or skips one.", "O(1)")
        .flags(&[Flags::NOSCRIPT, Flags::LOADING, Flags::STALE])
        .acl(&[Acl::CONNECTION])
        .args(&[one_of("on_off_skip", &[word("on", "ON"), word("off", "OFF"), word("skip", "SKIP")])]),
    Descriptor::sub("client|setinfo", "setinfo", Group::Connection, 4, "7.2.0", Run::Host)
        .about("Tells the server which library the client uses.", "O(1)")
        .flags(&[Flags::NOSCRIPT, Flags::LOADING, Flags::STALE, Flags::ALLOW_BUSY])
        .acl(&[Acl::CONNECTION])
        .tips(&["request_policy:all_nodes", "response_policy:all_succeeded"])
        .args(&[one_of(
            "attr",
            &[arg("libname", ArgKind::String).token("LIB-NAME"), arg("libver", ArgKind::String).token("LIB-VER")],
        )]),
    Descriptor::sub("client|setname", "setname", Group::Connection, 3, "2.6.9", Run::Host)
        .about("Names the connection.", "O(1)")
        .flags(&[Flags::NOSCRIPT, Flags::LOADING, Flags::STALE])
        .acl(&[Acl::CONNECTION])
        .args(&[arg("connection-name", ArgKind::String)]),
    Descriptor::sub("client|unblock", "unblock", Group::Connection, -3, "5.0.0", Run::Host)
        .about("Ends the wait of a client that is blocked.", "O(log N) in the clients")
        .flags(&[Flags::ADMIN, Flags::NOSCRIPT, Flags::LOADING, Flags::STALE])
        .acl(&[Acl::CONNECTION])
        .args(&[
            arg("client-id", ArgKind::Integer),
            one_of("timeout_error", &[word("timeout", "TIMEOUT"), word("error", "ERROR")]).optional(),
        ]),
];
