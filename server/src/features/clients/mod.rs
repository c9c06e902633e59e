//! The CLIENT family, as far as it concerns one connection or asks all workers about theirs.
//!
//! LIST and KILL become questions (worker/ask_all_workers.rs); the rest reads or sets the connection's own session.

pub(crate) mod blocked;
pub(crate) mod evict_clients;
mod filter;
mod line;
pub(crate) mod on_show;
pub(crate) mod state;
pub(crate) mod strangers;

pub(crate) use line::line;

use varve_base::number::parse_i64;
use varve_catalog::{Acl, ArgKind, Behaviour, Flags, Group, Row, arg, block, one_of, word};
use varve_commands::grammar::{help as reply_help, integer};
use varve_exec::{CmdResult, CommandError, Session};

use crate::errors;
use crate::state::command::{ServerCommand, ServerRows};
use crate::state::ctx::{After, ServerCtx};
use state::{ClientClass, Filter, Kill, Question, is_name};

/// The subcommands of CLIENT in this matter.
pub(super) const CLIENT: ServerRows =
    &[CAPA, GETNAME, HELP, ID, IMPORT_SOURCE, INFO, KILL, LIST, NO_EVICT, NO_TOUCH, REPLY, SETINFO, SETNAME, UNBLOCK];

/// `CLIENT ID`
fn id(ctx: &mut ServerCtx<'_>) -> CmdResult<After> {
    ctx.out.integer(ctx.conn.session().id() as i64);
    Ok(After::Done)
}

const ID: ServerCommand = ServerCommand::new(
    id,
    Row::sub("client|id", "id", Group::Connection, 2, "5.0.0")
        .about("Answers the connection's number.", "O(1)")
        .flags(&[Flags::NOSCRIPT, Flags::LOADING, Flags::STALE])
        .acl(&[Acl::CONNECTION])
        .behaviour(Behaviour::CONSTANT_TIME.and(Behaviour::KEEPS_CACHING)),
);

/// `CLIENT GETNAME`
fn getname(ctx: &mut ServerCtx<'_>) -> CmdResult<After> {
    match ctx.conn.session().name() {
        b"" => ctx.out.null(),
        name => ctx.out.bulk(name),
    }
    Ok(After::Done)
}

const GETNAME: ServerCommand = ServerCommand::new(
    getname,
    Row::sub("client|getname", "getname", Group::Connection, 2, "2.6.9")
        .about("Answers the connection's name.", "O(1)")
        .flags(&[Flags::NOSCRIPT, Flags::LOADING, Flags::STALE])
        .acl(&[Acl::CONNECTION])
        .behaviour(Behaviour::CONSTANT_TIME.and(Behaviour::KEEPS_CACHING)),
);

/// `CLIENT SETNAME connection-name`
fn setname(ctx: &mut ServerCtx<'_>) -> CmdResult<After> {
    let name = ctx.args.get(2);
    if !is_name(name) {
        return Err(errors::CLIENT_NAME);
    }
    ctx.conn.session_mut().set_name(name);
    ctx.out.ok();
    Ok(After::Done)
}

const SETNAME: ServerCommand = ServerCommand::new(
    setname,
    Row::sub("client|setname", "setname", Group::Connection, 3, "2.6.9")
        .about("Names the connection.", "O(1)")
        .flags(&[Flags::NOSCRIPT, Flags::LOADING, Flags::STALE])
        .acl(&[Acl::CONNECTION])
        .args(&[arg("connection-name", ArgKind::String)])
        .behaviour(Behaviour::CONSTANT_TIME.and(Behaviour::KEEPS_CACHING)),
);

/// `CLIENT SETINFO LIB-NAME libname | LIB-VER libver`
fn setinfo(ctx: &mut ServerCtx<'_>) -> CmdResult<After> {
    let (option, value) = (ctx.args.get(2), ctx.args.get(3));
    let (set, name) = if ctx.args.is(2, "LIB-NAME") {
        (Session::set_library_name as fn(&mut Session, &[u8]), "lib-name")
    } else if ctx.args.is(2, "LIB-VER") {
        (Session::set_library_version as fn(&mut Session, &[u8]), "lib-ver")
    } else {
        return Err(errors::setinfo_option(option));
    };
    if !is_name(value) {
        return Err(errors::setinfo_value(name));
    }
    set(ctx.conn.session_mut(), value);
    ctx.out.ok();
    Ok(After::Done)
}

const SETINFO: ServerCommand = ServerCommand::new(
    setinfo,
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
);

/// `CLIENT INFO`
fn info(ctx: &mut ServerCtx<'_>) -> CmdResult<After> {
    let mut line = line(ctx.conn, ctx.now.steady_ms);
    line.push('\n');
    ctx.out.verbatim(*b"txt", line.as_bytes());
    Ok(After::Done)
}

const INFO: ServerCommand = ServerCommand::new(
    info,
    Row::sub("client|info", "info", Group::Connection, 2, "6.2.0")
        .about("Describes the connection.", "O(1)")
        .flags(&[Flags::NOSCRIPT, Flags::LOADING, Flags::STALE])
        .acl(&[Acl::CONNECTION])
        .tips(&["nondeterministic_output"])
        .behaviour(Behaviour::CONSTANT_TIME.and(Behaviour::KEEPS_CACHING)),
);

/// `CLIENT REPLY ON | OFF | SKIP`. Only ON replies.
fn reply(ctx: &mut ServerCtx<'_>) -> CmdResult<After> {
    let session = ctx.conn.session_mut();
    if ctx.args.is(2, "ON") {
        session.reply_on();
        ctx.out.ok();
    } else if ctx.args.is(2, "OFF") {
        session.reply_off();
    } else if ctx.args.is(2, "SKIP") {
        session.skip_next_reply();
    } else {
        return Err(CommandError::SYNTAX);
    }
    Ok(After::Done)
}

const REPLY: ServerCommand = ServerCommand::new(
    reply,
    Row::sub("client|reply", "reply", Group::Connection, 3, "3.2.0")
        .about("Turns replies on or off, or skips one.", "O(1)")
        .flags(&[Flags::NOSCRIPT, Flags::LOADING, Flags::STALE])
        .acl(&[Acl::CONNECTION])
        .args(&[one_of("on_off_skip", &[word("on", "ON"), word("off", "OFF"), word("skip", "SKIP")])])
        .behaviour(Behaviour::CONSTANT_TIME.and(Behaviour::KEEPS_CACHING)),
);

/// `CLIENT NO-EVICT ON | OFF`
fn no_evict(ctx: &mut ServerCtx<'_>) -> CmdResult<After> {
    let on = switch(ctx)?;
    ctx.conn.session_mut().set_no_evict(on);
    ctx.out.ok();
    Ok(After::Done)
}

const NO_EVICT: ServerCommand = ServerCommand::new(
    no_evict,
    Row::sub("client|no-evict", "no-evict", Group::Connection, 3, "7.0.0")
        .about("Spares the connection when clients are evicted.", "O(1)")
        .flags(&[Flags::ADMIN, Flags::NOSCRIPT, Flags::LOADING, Flags::STALE])
        .acl(&[Acl::CONNECTION])
        .args(&[one_of("enabled", &[word("on", "ON"), word("off", "OFF")])])
        .behaviour(Behaviour::CONSTANT_TIME.and(Behaviour::KEEPS_CACHING)),
);

/// `CLIENT NO-TOUCH ON | OFF`
fn no_touch(ctx: &mut ServerCtx<'_>) -> CmdResult<After> {
    let on = switch(ctx)?;
    ctx.conn.session_mut().set_no_touch(on);
    ctx.out.ok();
    Ok(After::Done)
}

const NO_TOUCH: ServerCommand = ServerCommand::new(
    no_touch,
    Row::sub("client|no-touch", "no-touch", Group::Connection, 3, "7.2.0")
        .about("Stops the connection's reads from moving access times.", "O(1)")
        .flags(&[Flags::NOSCRIPT, Flags::LOADING, Flags::STALE, Flags::ALLOW_BUSY])
        .acl(&[Acl::CONNECTION])
        .args(&[one_of("enabled", &[word("on", "ON"), word("off", "OFF")])])
        .behaviour(Behaviour::CONSTANT_TIME.and(Behaviour::KEEPS_CACHING)),
);

/// `CLIENT CAPA capability [capability...]`
///
/// A client says what it understands. The one capability that there is concerns the redirections of replicas, of which none
/// is ever sent; others are for servers to come.
fn capa(ctx: &mut ServerCtx<'_>) -> CmdResult<After> {
    ctx.out.ok();
    Ok(After::Done)
}

const CAPA: ServerCommand = ServerCommand::new(
    capa,
    Row::sub("client|capa", "capa", Group::Connection, -3, "8.0.0")
        .about("States what the client understands.", "O(1)")
        .flags(&[Flags::NOSCRIPT, Flags::LOADING, Flags::STALE, Flags::ALLOW_BUSY])
        .acl(&[Acl::CONNECTION])
        .args(&[arg("capability", ArgKind::String).multiple()])
        .behaviour(Behaviour::CONSTANT_TIME.and(Behaviour::KEEPS_CACHING)),
);

/// `CLIENT IMPORT-SOURCE ON | OFF`
///
/// It is for a server that imports another one's data, as the setting `import-mode` says, which is not there.
fn import_source(_: &mut ServerCtx<'_>) -> CmdResult<After> {
    Err(errors::NO_IMPORT_MODE)
}

const IMPORT_SOURCE: ServerCommand = ServerCommand::new(
    import_source,
    Row::sub("client|import-source", "import-source", Group::Connection, 3, "8.1.0")
        .about("Marks a client that brings another server's data; refused, since no data are imported so.", "O(1)")
        .flags(&[Flags::NOSCRIPT, Flags::LOADING, Flags::STALE])
        .acl(&[Acl::CONNECTION])
        .args(&[one_of("enabled", &[word("on", "ON"), word("off", "OFF")])])
        .behaviour(Behaviour::CONSTANT_TIME.and(Behaviour::KEEPS_CACHING)),
);

/// Argument 2 as ON or OFF.
fn switch(ctx: &ServerCtx<'_>) -> CmdResult<bool> {
    let on = ctx.args.is(2, "ON");
    if !on && !ctx.args.is(2, "OFF") {
        return Err(CommandError::SYNTAX);
    }
    Ok(on)
}

/// `CLIENT LIST [TYPE type] [ID id...]`
fn list(ctx: &mut ServerCtx<'_>) -> CmdResult<After> {
    parse_list(ctx).map(|filter| After::Ask(Question::List(filter)))
}

const LIST: ServerCommand = ServerCommand::new(
    list,
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
);

fn parse_list(ctx: &ServerCtx<'_>) -> CmdResult<Filter> {
    let args = ctx.args;
    let mut filter = Filter::default();
    if args.len() == 4 && args.is(2, "TYPE") {
        filter.class = Some(class(args.get(3))?);
    } else if args.len() > 3 && args.is(2, "ID") {
        let ids = args.skip(3).iter().map(|id| parse_i64(id).map(|id| id as u64));
        let mut ids = ids.collect::<Option<Vec<u64>>>().ok_or(errors::CLIENT_ID)?;
        ids.sort_unstable();
        filter.ids = Some(ids);
    } else if args.len() != 2 {
        return Err(CommandError::SYNTAX);
    }
    Ok(filter)
}

fn class(name: &[u8]) -> CmdResult<ClientClass> {
    ClientClass::from_name(name).ok_or_else(|| errors::client_type(name))
}

/// `CLIENT KILL address | option value...`
fn kill(ctx: &mut ServerCtx<'_>) -> CmdResult<After> {
    parse_kill(ctx).map(|kill| After::Ask(Question::Kill(kill)))
}

const KILL: ServerCommand = ServerCommand::new(
    kill,
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
);

fn parse_kill(ctx: &ServerCtx<'_>) -> CmdResult<Kill> {
    let args = ctx.args;
    let mut kill = Kill { filter: Filter::default(), skip_me: true, old_form: false };
    if args.len() == 3 {
        kill.filter.addr = Some(args.get(2).to_vec());
        kill.skip_me = false;
        kill.old_form = true;
        return Ok(kill);
    }
    let filter = &mut kill.filter;
    for at in (2..args.len()).step_by(2) {
        let value = args.opt(at + 1).ok_or(CommandError::SYNTAX)?;
        if args.is(at, "ID") {
            let id = parse_i64(value).filter(|id| *id > 0).ok_or(errors::CLIENT_ID_POSITIVE)?;
            filter.ids = Some(vec![id as u64]);
        } else if args.is(at, "TYPE") {
            filter.class = Some(class(value)?);
        } else if args.is(at, "ADDR") {
            filter.addr = Some(value.to_vec());
        } else if args.is(at, "LADDR") {
            filter.local_addr = Some(value.to_vec());
        } else if args.is(at, "USER") {
            if ctx.state.acl().users().get(value).is_none() {
                return Err(errors::no_user(value));
            }
            filter.user = Some(value.to_vec());
        } else if args.is(at, "SKIPME") && (args.is(at + 1, "YES") || args.is(at + 1, "NO")) {
            kill.skip_me = args.is(at + 1, "YES");
        } else {
            return Err(CommandError::SYNTAX);
        }
    }
    Ok(kill)
}

/// `CLIENT UNBLOCK client-id [TIMEOUT | ERROR]`
fn unblock(ctx: &mut ServerCtx<'_>) -> CmdResult<After> {
    let args = ctx.args;
    let error = match args.len() {
        3 => false,
        4 if args.is(3, "TIMEOUT") => false,
        4 if args.is(3, "ERROR") => true,
        4 => return Err(errors::UNBLOCK_REASON),
        _ => return Err(errors::subcommand("CLIENT", args.get(1))),
    };
    let client = integer(args.get(2))? as u64;
    Ok(After::Ask(Question::Unblock { client, error }))
}

const UNBLOCK: ServerCommand = ServerCommand::new(
    unblock,
    Row::sub("client|unblock", "unblock", Group::Connection, -3, "5.0.0")
        .about("Ends the wait of a client that is blocked.", "O(log N) in the clients")
        .flags(&[Flags::ADMIN, Flags::NOSCRIPT, Flags::LOADING, Flags::STALE])
        .acl(&[Acl::CONNECTION])
        .args(&[
            arg("client-id", ArgKind::Integer),
            one_of("timeout_error", &[word("timeout", "TIMEOUT"), word("error", "ERROR")]).optional(),
        ])
        .behaviour(Behaviour::KEEPS_CACHING),
);

/// `CLIENT HELP`
fn help(ctx: &mut ServerCtx<'_>) -> CmdResult<After> {
    reply_help(
        ctx.out,
        "CLIENT",
        &[
            "CAPA <capability> [...]",
            "    State what the client understands.",
            "GETNAME",
            "    The name of this connection.",
            "ID",
            "    The number of this connection.",
            "IMPORT-SOURCE ON|OFF",
            "    Bring another server's data; refused, since there is no import mode.",
            "INFO",
            "    What is known of this connection, on one line.",
            "KILL <ip:port>",
            "    Close the connection from this address.",
            "KILL <option> <value> [<option> <value> [...]]",
            "    Close the connections that pass all of:",
            "    * ADDR <ip:port>|<unixsocket>:0   the peer's address",
            "    * LADDR <ip:port>|<unixsocket>:0  the server's address",
            "    * ID <client-id>                  the connection's number",
            "    * TYPE NORMAL|MASTER|REPLICA|PUBSUB",
            "    * USER <username>                 who it is authenticated as",
            "    * SKIPME YES|NO                   spare this connection (default: yes)",
            "LIST [TYPE NORMAL|MASTER|REPLICA|PUBSUB] [ID <client-id> [...]]",
            "    What is known of connections, a line each.",
            "NO-EVICT ON|OFF",
            "    Keep this connection when clients take too much memory.",
            "NO-TOUCH ON|OFF",
            "    Leave the access times of keys that this connection reads.",
            "REPLY ON|OFF|SKIP",
            "    Which replies are sent to this connection.",
            "SETINFO LIB-NAME|LIB-VER <value>",
            "    Note the library that this connection uses.",
            "SETNAME <name>",
            "    Name this connection.",
            "UNBLOCK <client-id> [TIMEOUT|ERROR]",
            "    End the wait of a client that is blocked.",
        ],
    );
    Ok(After::Done)
}

const HELP: ServerCommand = ServerCommand::new(
    help,
    Row::sub("client|help", "help", Group::Connection, 2, "5.0.0")
        .about("Lists the subcommands.", "O(1)")
        .flags(&[Flags::LOADING, Flags::STALE])
        .acl(&[Acl::CONNECTION])
        .behaviour(Behaviour::CONSTANT_TIME.and(Behaviour::KEEPS_CACHING)),
);
