//! The CLIENT family, as far as it concerns one connection or asks all workers about theirs.
//!
//! LIST and KILL become questions (worker/ask_all_workers.rs); the rest reads or sets the connection's own session.

pub(crate) mod blocked;
pub(crate) mod evict_clients;
mod filter;
mod line;
pub(crate) mod state;

pub(crate) use line::line;

use varve_base::number::parse_i64;
use varve_commands::grammar::{help as reply_help, integer};
use varve_exec::{CmdResult, CommandError, Session};

use crate::errors;
use crate::state::ctx::{After, Handlers, ServerCtx};
use state::{ClientClass, Filter, Kill, Question, is_name};

/// The handlers, by the full names of their rows.
pub(super) const HANDLERS: Handlers = &[
    ("client|getname", getname),
    ("client|help", help),
    ("client|id", id),
    ("client|info", info),
    ("client|kill", kill),
    ("client|list", list),
    ("client|no-evict", no_evict),
    ("client|no-touch", no_touch),
    ("client|reply", reply),
    ("client|setinfo", setinfo),
    ("client|setname", setname),
    ("client|unblock", unblock),
];

/// `CLIENT ID`
fn id(ctx: &mut ServerCtx<'_>) -> CmdResult<After> {
    ctx.out.integer(ctx.conn.session.id() as i64);
    Ok(After::Done)
}

/// `CLIENT GETNAME`
fn getname(ctx: &mut ServerCtx<'_>) -> CmdResult<After> {
    match ctx.conn.session.name() {
        b"" => ctx.out.null(),
        name => ctx.out.bulk(name),
    }
    Ok(After::Done)
}

/// `CLIENT SETNAME connection-name`
fn setname(ctx: &mut ServerCtx<'_>) -> CmdResult<After> {
    let name = ctx.args.get(2);
    if !is_name(name) {
        return Err(errors::CLIENT_NAME);
    }
    ctx.conn.session.set_name(name);
    ctx.out.ok();
    Ok(After::Done)
}

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
    set(&mut ctx.conn.session, value);
    ctx.out.ok();
    Ok(After::Done)
}

/// `CLIENT INFO`
fn info(ctx: &mut ServerCtx<'_>) -> CmdResult<After> {
    let mut line = line(ctx.conn, ctx.now.unix_ms);
    line.push('\n');
    ctx.out.verbatim("txt", line.as_bytes());
    Ok(After::Done)
}

/// `CLIENT REPLY ON | OFF | SKIP`. Only ON replies.
fn reply(ctx: &mut ServerCtx<'_>) -> CmdResult<After> {
    let session = &mut ctx.conn.session;
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

/// `CLIENT NO-EVICT ON | OFF`
fn no_evict(ctx: &mut ServerCtx<'_>) -> CmdResult<After> {
    let on = switch(ctx)?;
    ctx.conn.session.set_no_evict(on);
    ctx.out.ok();
    Ok(After::Done)
}

/// `CLIENT NO-TOUCH ON | OFF`
fn no_touch(ctx: &mut ServerCtx<'_>) -> CmdResult<After> {
    let on = switch(ctx)?;
    ctx.conn.session.set_no_touch(on);
    ctx.out.ok();
    Ok(After::Done)
}

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

fn parse_list(ctx: &ServerCtx<'_>) -> CmdResult<Filter> {
    let args = ctx.args;
    let mut filter = Filter::default();
    if args.len() == 4 && args.is(2, "TYPE") {
        filter.class = Some(class(args.get(3))?);
    } else if args.len() > 3 && args.is(2, "ID") {
        let ids = args.skip(3).iter().map(|id| parse_i64(id).map(|id| id as u64));
        filter.ids = Some(ids.collect::<Option<_>>().ok_or(errors::CLIENT_ID)?);
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
            if value != b"default" {
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

/// `CLIENT HELP`
fn help(ctx: &mut ServerCtx<'_>) -> CmdResult<After> {
    reply_help(
        ctx.out,
        "CLIENT",
        &[
            "GETNAME",
            "    The name of this connection.",
            "ID",
            "    The number of this connection.",
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
