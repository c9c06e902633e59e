//! The CLIENT family, as far as it concerns one connection or asks all workers about theirs.
//!
//! LIST and KILL become questions (worker/ask_all_workers.rs); the rest reads or sets the connection's own session.

mod filter;
mod line;
pub(crate) mod state;

pub(crate) use line::{line, memory, weight};

use varve_command::ReplyMode;

use super::arguments::{self, integer, is_name};
use crate::state::ctx::{After, ServerCtx};
use state::{ClientClass, Filter, Kill, Question};

const SYNTAX: &str = "ERR syntax error";

/// `CLIENT ID`
pub(crate) fn id(ctx: &mut ServerCtx<'_>) -> After {
    ctx.out.integer(ctx.conn.session.id as i64);
    After::Done
}

/// `CLIENT GETNAME`
pub(crate) fn getname(ctx: &mut ServerCtx<'_>) -> After {
    match ctx.conn.session.name.as_slice() {
        b"" => ctx.out.null(),
        name => ctx.out.bulk(name),
    }
    After::Done
}

/// `CLIENT SETNAME connection-name`
pub(crate) fn setname(ctx: &mut ServerCtx<'_>) -> After {
    let name = ctx.args.get(2);
    if is_name(name) {
        ctx.conn.session.name = name.to_vec();
        ctx.out.ok();
    } else {
        ctx.out.error("ERR Client names cannot contain spaces, newlines or special characters.");
    }
    After::Done
}

/// `CLIENT SETINFO LIB-NAME libname | LIB-VER libver`
pub(crate) fn setinfo(ctx: &mut ServerCtx<'_>) -> After {
    let (option, value) = (ctx.args.get(2), ctx.args.get(3));
    let session = &mut ctx.conn.session;
    let (field, name) = if ctx.args.is(2, "LIB-NAME") {
        (&mut session.lib_name, "lib-name")
    } else if ctx.args.is(2, "LIB-VER") {
        (&mut session.lib_ver, "lib-ver")
    } else {
        ctx.out.error(&format!("ERR Unrecognized option '{}'", String::from_utf8_lossy(option)));
        return After::Done;
    };
    if is_name(value) {
        *field = value.to_vec();
        ctx.out.ok();
    } else {
        ctx.out.error(&format!("ERR {name} cannot contain spaces, newlines or special characters."));
    }
    After::Done
}

/// `CLIENT INFO`
pub(crate) fn info(ctx: &mut ServerCtx<'_>) -> After {
    let mut line = line(ctx.conn, ctx.now.unix_ms);
    line.push('\n');
    ctx.out.verbatim("txt", line.as_bytes());
    After::Done
}

/// `CLIENT REPLY ON | OFF | SKIP`. Only ON replies.
pub(crate) fn reply(ctx: &mut ServerCtx<'_>) -> After {
    let session = &mut ctx.conn.session;
    if ctx.args.is(2, "ON") {
        session.reply = ReplyMode::On;
        ctx.out.ok();
    } else if ctx.args.is(2, "OFF") {
        session.reply = ReplyMode::Off;
    } else if ctx.args.is(2, "SKIP") {
        if session.reply != ReplyMode::Off {
            session.reply = ReplyMode::SkipNext;
        }
    } else {
        ctx.out.error(SYNTAX);
    }
    After::Done
}

/// `CLIENT NO-EVICT ON | OFF`
pub(crate) fn no_evict(ctx: &mut ServerCtx<'_>) -> After {
    if let Some(on) = switch(ctx) {
        ctx.conn.session.no_evict = on;
    }
    After::Done
}

/// `CLIENT NO-TOUCH ON | OFF`
pub(crate) fn no_touch(ctx: &mut ServerCtx<'_>) -> After {
    if let Some(on) = switch(ctx) {
        ctx.conn.session.no_touch = on;
    }
    After::Done
}

/// Argument 2 as ON or OFF, replied to either way.
fn switch(ctx: &mut ServerCtx<'_>) -> Option<bool> {
    let on = ctx.args.is(2, "ON");
    if !on && !ctx.args.is(2, "OFF") {
        ctx.out.error(SYNTAX);
        return None;
    }
    ctx.out.ok();
    Some(on)
}

/// `CLIENT LIST [TYPE type] [ID id...]`
pub(crate) fn list(ctx: &mut ServerCtx<'_>) -> After {
    match parse_list(ctx) {
        Ok(filter) => After::Ask(Question::List(filter)),
        Err(text) => {
            ctx.out.error(&text);
            After::Done
        }
    }
}

fn parse_list(ctx: &ServerCtx<'_>) -> Result<Filter, String> {
    let args = ctx.args;
    let mut filter = Filter::default();
    if args.len() == 4 && args.is(2, "TYPE") {
        filter.class = Some(class(args.get(3))?);
    } else if args.len() > 3 && args.is(2, "ID") {
        let ids = args.skip(3).iter().map(|id| integer(id).map(|id| id as u64));
        filter.ids = Some(ids.collect::<Option<_>>().ok_or("ERR Invalid client ID")?);
    } else if args.len() != 2 {
        return Err(SYNTAX.to_owned());
    }
    Ok(filter)
}

fn class(name: &[u8]) -> Result<ClientClass, String> {
    ClientClass::from_name(name).ok_or_else(|| format!("ERR Unknown client type '{}'", String::from_utf8_lossy(name)))
}

/// `CLIENT KILL address | option value...`
pub(crate) fn kill(ctx: &mut ServerCtx<'_>) -> After {
    match parse_kill(ctx) {
        Ok(kill) => After::Ask(Question::Kill(kill)),
        Err(text) => {
            ctx.out.error(&text);
            After::Done
        }
    }
}

fn parse_kill(ctx: &ServerCtx<'_>) -> Result<Kill, String> {
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
        let value = args.opt(at + 1).ok_or(SYNTAX)?;
        if args.is(at, "ID") {
            let id = integer(value).filter(|id| *id > 0).ok_or("ERR client-id should be greater than 0")?;
            filter.ids = Some(vec![id as u64]);
        } else if args.is(at, "TYPE") {
            filter.class = Some(class(value)?);
        } else if args.is(at, "ADDR") {
            filter.addr = Some(value.to_vec());
        } else if args.is(at, "LADDR") {
            filter.local_addr = Some(value.to_vec());
        } else if args.is(at, "USER") {
            if value != b"default" {
                return Err(format!("ERR No such user '{}'", String::from_utf8_lossy(value)));
            }
            filter.user = Some(value.to_vec());
        } else if args.is(at, "SKIPME") && (args.is(at + 1, "YES") || args.is(at + 1, "NO")) {
            kill.skip_me = args.is(at + 1, "YES");
        } else {
            return Err(SYNTAX.to_owned());
        }
    }
    Ok(kill)
}

/// `CLIENT UNBLOCK client-id [TIMEOUT | ERROR]`
pub(crate) fn unblock(ctx: &mut ServerCtx<'_>) -> After {
    let args = ctx.args;
    let error = match args.len() {
        3 => false,
        4 if args.is(3, "TIMEOUT") => false,
        4 if args.is(3, "ERROR") => true,
        4 => {
            ctx.out.error("ERR CLIENT UNBLOCK reason should be TIMEOUT or ERROR");
            return After::Done;
        }
        _ => {
            let name = String::from_utf8_lossy(args.get(1));
            let text = format!("ERR unknown subcommand or wrong number of arguments for '{name}'. Try CLIENT HELP.");
            ctx.out.error(&text);
            return After::Done;
        }
    };
    match integer(args.get(2)) {
        Some(client) => After::Ask(Question::Unblock { client: client as u64, error }),
        None => {
            ctx.out.error("ERR value is not an integer or out of range");
            After::Done
        }
    }
}

/// `CLIENT HELP`
pub(crate) fn help(ctx: &mut ServerCtx<'_>) -> After {
    arguments::help(
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
    After::Done
}
