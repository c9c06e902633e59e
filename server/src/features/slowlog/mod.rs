//! The SLOWLOG family: reads and empties the ring of slow commands (slowlog.rs of the crate).

pub(crate) mod state;

use varve_base::number::parse_i64;
use varve_catalog::{ArgKind, Behaviour, Flags, Group, Row, arg};
use varve_commands::grammar::help as reply_help;
use varve_exec::CmdResult;

use crate::errors;
use crate::state::command::{ServerCommand, ServerRows};
use crate::state::ctx::{After, ServerCtx};

/// The commands of this matter.
pub(super) const ROWS: ServerRows = &[SLOWLOG];

const SLOWLOG: ServerCommand = ServerCommand::container(
    Row::new("slowlog", Group::Server, -2, "2.2.12").about("The commands that took long.", ""),
    &[SUBCOMMANDS],
);

const SUBCOMMANDS: ServerRows = &[GET, HELP, LEN, RESET];

/// Entries that SLOWLOG GET shows where no count is given.
const SHOWN: usize = 10;

/// `SLOWLOG GET [count]`
fn get(ctx: &mut ServerCtx<'_>) -> CmdResult<After> {
    if ctx.args.len() > 3 {
        return Err(errors::subcommand("SLOWLOG", ctx.args.get(1)));
    }
    let count = match ctx.args.opt(2).map(parse_i64) {
        None => SHOWN,
        Some(Some(-1)) => usize::MAX,
        Some(Some(count)) if count >= 0 => count as usize,
        Some(_) => return Err(errors::SLOWLOG_COUNT),
    };
    let log = ctx.state.slowlog();
    ctx.out.array(count.min(log.len()));
    for entry in log.iter().take(count) {
        ctx.out.array(6);
        ctx.out.integer(entry.id as i64);
        ctx.out.integer(entry.command.at_s);
        ctx.out.integer(entry.command.micros as i64);
        ctx.out.array(entry.command.args.len());
        entry.command.args.iter().for_each(|arg| ctx.out.bulk(arg));
        ctx.out.bulk(entry.peer.as_bytes());
        ctx.out.bulk(&entry.name);
    }
    Ok(After::Done)
}

const GET: ServerCommand = ServerCommand::new(
    get,
    Row::sub("slowlog|get", "get", Group::Server, -2, "2.2.12")
        .about("Lists the latest slow commands.", "O(N) in the entries answered")
        .flags(&[Flags::ADMIN, Flags::LOADING, Flags::STALE])
        .tips(&["request_policy:all_nodes", "nondeterministic_output"])
        .history(&[("4.0.0", "Address and name of the client.")])
        .args(&[arg("count", ArgKind::Integer).optional()]),
);

/// `SLOWLOG LEN`
fn len(ctx: &mut ServerCtx<'_>) -> CmdResult<After> {
    ctx.out.integer(ctx.state.slowlog().len() as i64);
    Ok(After::Done)
}

const LEN: ServerCommand = ServerCommand::new(
    len,
    Row::sub("slowlog|len", "len", Group::Server, 2, "2.2.12")
        .about("Counts the slow commands kept.", "O(1)")
        .flags(&[Flags::ADMIN, Flags::LOADING, Flags::STALE])
        .tips(&["request_policy:all_nodes", "response_policy:agg_sum", "nondeterministic_output"])
        .behaviour(Behaviour::CONSTANT_TIME),
);

/// `SLOWLOG RESET`
fn reset(ctx: &mut ServerCtx<'_>) -> CmdResult<After> {
    ctx.state.slowlog().reset();
    ctx.out.ok();
    Ok(After::Done)
}

const RESET: ServerCommand = ServerCommand::new(
    reset,
    Row::sub("slowlog|reset", "reset", Group::Server, 2, "2.2.12")
        .about("Forgets the slow commands.", "O(N) in the entries")
        .flags(&[Flags::ADMIN, Flags::LOADING, Flags::STALE])
        .tips(&["request_policy:all_nodes", "response_policy:all_succeeded"]),
);

/// `SLOWLOG HELP`
fn help(ctx: &mut ServerCtx<'_>) -> CmdResult<After> {
    reply_help(
        ctx.out,
        "SLOWLOG",
        &[
            "GET [<count>]",
            "    The latest entries, newest first (10 unless told, -1 for all). An entry is:",
            "    number, Unix time, duration in microseconds, arguments, client's address, client's name",
            "LEN",
            "    The number of entries.",
            "RESET",
            "    Forget all entries.",
        ],
    );
    Ok(After::Done)
}

const HELP: ServerCommand = ServerCommand::new(
    help,
    Row::sub("slowlog|help", "help", Group::Server, 2, "6.2.0")
        .about("Lists the subcommands.", "O(1)")
        .flags(&[Flags::LOADING, Flags::STALE])
        .behaviour(Behaviour::CONSTANT_TIME),
);
