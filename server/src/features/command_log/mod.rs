//! The SLOWLOG and COMMANDLOG families: they read and empty the logs of commands that stand out (state.rs). SLOWLOG is a face of
//! the log `slow`.

pub(crate) mod state;

use varve_base::number::parse_i64;
use varve_catalog::{ArgKind, Argument, Behaviour, Flags, Group, Row, arg, one_of, word};
use varve_commands::grammar::{help as reply_help, is};
use varve_exec::CmdResult;
use varve_exec::stats::CommandLog;

use crate::errors;
use crate::state::command::{ServerCommand, ServerRows};
use crate::state::ctx::{After, ServerCtx};

/// The commands of this matter.
pub(super) const ROWS: ServerRows = &[SLOWLOG, COMMANDLOG];

const SLOWLOG: ServerCommand = ServerCommand::container(
    Row::new("slowlog", Group::Server, -2, "2.2.12").about("The commands that took long.", ""),
    &[SLOW_SUBCOMMANDS],
);

const SLOW_SUBCOMMANDS: ServerRows = &[SLOWLOG_GET, SLOWLOG_HELP, SLOWLOG_LEN, SLOWLOG_RESET];

const COMMANDLOG: ServerCommand = ServerCommand::container(
    Row::new("commandlog", Group::Server, -2, "8.1.0")
        .about("The commands that took long, or had long requests or replies.", ""),
    &[SUBCOMMANDS],
);

const SUBCOMMANDS: ServerRows = &[GET, HELP, LEN, RESET];

/// Entries that SLOWLOG GET shows where no count is given.
const SHOWN: usize = 10;

/// The log that an argument names.
fn log_of(word: &[u8]) -> CmdResult<CommandLog> {
    let logs = [
        ("slow", CommandLog::Slow),
        ("large-request", CommandLog::LargeRequest),
        ("large-reply", CommandLog::LargeReply),
    ];
    let found = logs.into_iter().find(|(name, _)| is(word, name));
    found.map(|(_, log)| log).ok_or(errors::COMMANDLOG_TYPE)
}

/// Reads how many entries are wanted: -1 is all.
fn count_of(word: &[u8]) -> CmdResult<usize> {
    match parse_i64(word) {
        Some(-1) => Ok(usize::MAX),
        Some(count) if count >= 0 => Ok(count as usize),
        _ => Err(errors::SLOWLOG_COUNT),
    }
}

/// Replies with the newest entries of a log.
fn reply_entries(ctx: &mut ServerCtx<'_>, log: CommandLog, count: usize) {
    let mut logs = ctx.state.command_logs();
    let log = logs.of(log);
    ctx.out.array(count.min(log.len()));
    for entry in log.iter().take(count) {
        ctx.out.array(6);
        ctx.out.integer(entry.id as i64);
        ctx.out.integer(entry.command.at_s);
        ctx.out.integer(entry.command.amount as i64);
        ctx.out.array(entry.command.args.len());
        entry.command.args.iter().for_each(|arg| ctx.out.bulk(arg));
        ctx.out.bulk(entry.peer.as_bytes());
        ctx.out.bulk(&entry.name);
    }
}

/// `SLOWLOG GET [count]`
fn slowlog_get(ctx: &mut ServerCtx<'_>) -> CmdResult<After> {
    if ctx.args.len() > 3 {
        return Err(errors::subcommand("SLOWLOG", ctx.args.get(1)));
    }
    let count = ctx.args.opt(2).map_or(Ok(SHOWN), count_of)?;
    reply_entries(ctx, CommandLog::Slow, count);
    Ok(After::Done)
}

const SLOWLOG_GET: ServerCommand = ServerCommand::new(
    slowlog_get,
    Row::sub("slowlog|get", "get", Group::Server, -2, "2.2.12")
        .about("Lists the latest slow commands.", "O(N) in the entries answered")
        .flags(&[Flags::ADMIN, Flags::LOADING, Flags::STALE])
        .tips(&["request_policy:all_nodes", "nondeterministic_output"])
        .history(&[("4.0.0", "Address and name of the client.")])
        .args(&[arg("count", ArgKind::Integer).optional()]),
);

/// `SLOWLOG LEN`
fn slowlog_len(ctx: &mut ServerCtx<'_>) -> CmdResult<After> {
    reply_len(ctx, CommandLog::Slow)
}

fn reply_len(ctx: &mut ServerCtx<'_>, log: CommandLog) -> CmdResult<After> {
    ctx.out.integer(ctx.state.command_logs().of(log).len() as i64);
    Ok(After::Done)
}

const SLOWLOG_LEN: ServerCommand = ServerCommand::new(
    slowlog_len,
    Row::sub("slowlog|len", "len", Group::Server, 2, "2.2.12")
        .about("Counts the slow commands kept.", "O(1)")
        .flags(&[Flags::ADMIN, Flags::LOADING, Flags::STALE])
        .tips(&["request_policy:all_nodes", "response_policy:agg_sum", "nondeterministic_output"])
        .behaviour(Behaviour::CONSTANT_TIME),
);

/// `SLOWLOG RESET`
fn slowlog_reset(ctx: &mut ServerCtx<'_>) -> CmdResult<After> {
    empty(ctx, CommandLog::Slow)
}

fn empty(ctx: &mut ServerCtx<'_>, log: CommandLog) -> CmdResult<After> {
    ctx.state.command_logs().of(log).reset();
    ctx.out.ok();
    Ok(After::Done)
}

const SLOWLOG_RESET: ServerCommand = ServerCommand::new(
    slowlog_reset,
    Row::sub("slowlog|reset", "reset", Group::Server, 2, "2.2.12")
        .about("Forgets the slow commands.", "O(N) in the entries")
        .flags(&[Flags::ADMIN, Flags::LOADING, Flags::STALE])
        .tips(&["request_policy:all_nodes", "response_policy:all_succeeded"]),
);

/// `SLOWLOG HELP`
fn slowlog_help(ctx: &mut ServerCtx<'_>) -> CmdResult<After> {
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

const SLOWLOG_HELP: ServerCommand = ServerCommand::new(
    slowlog_help,
    Row::sub("slowlog|help", "help", Group::Server, 2, "6.2.0")
        .about("Lists the subcommands.", "O(1)")
        .flags(&[Flags::LOADING, Flags::STALE])
        .behaviour(Behaviour::CONSTANT_TIME),
);

/// The argument that names a log.
const LOG: Argument =
    one_of("type", &[word("slow", "SLOW"), word("large-request", "LARGE-REQUEST"), word("large-reply", "LARGE-REPLY")]);

/// `COMMANDLOG GET count type`
fn get(ctx: &mut ServerCtx<'_>) -> CmdResult<After> {
    let count = count_of(ctx.args.get(2))?;
    let log = log_of(ctx.args.get(3))?;
    reply_entries(ctx, log, count);
    Ok(After::Done)
}

const GET: ServerCommand = ServerCommand::new(
    get,
    Row::sub("commandlog|get", "get", Group::Server, 4, "8.1.0")
        .about("Lists the latest commands of a log.", "O(N) in the entries answered")
        .flags(&[Flags::ADMIN, Flags::LOADING, Flags::STALE])
        .tips(&["request_policy:all_nodes", "nondeterministic_output"])
        .args(&[arg("count", ArgKind::Integer), LOG]),
);

/// `COMMANDLOG LEN type`
fn len(ctx: &mut ServerCtx<'_>) -> CmdResult<After> {
    let log = log_of(ctx.args.get(2))?;
    reply_len(ctx, log)
}

const LEN: ServerCommand = ServerCommand::new(
    len,
    Row::sub("commandlog|len", "len", Group::Server, 3, "8.1.0")
        .about("Counts the commands that a log keeps.", "O(1)")
        .flags(&[Flags::ADMIN, Flags::LOADING, Flags::STALE])
        .tips(&["request_policy:all_nodes", "response_policy:agg_sum", "nondeterministic_output"])
        .args(&[LOG])
        .behaviour(Behaviour::CONSTANT_TIME),
);

/// `COMMANDLOG RESET type`
fn reset(ctx: &mut ServerCtx<'_>) -> CmdResult<After> {
    let log = log_of(ctx.args.get(2))?;
    empty(ctx, log)
}

const RESET: ServerCommand = ServerCommand::new(
    reset,
    Row::sub("commandlog|reset", "reset", Group::Server, 3, "8.1.0")
        .about("Forgets the commands of a log.", "O(N) in the entries")
        .flags(&[Flags::ADMIN, Flags::LOADING, Flags::STALE])
        .tips(&["request_policy:all_nodes", "response_policy:all_succeeded"])
        .args(&[LOG]),
);

/// `COMMANDLOG HELP`
fn help(ctx: &mut ServerCtx<'_>) -> CmdResult<After> {
    reply_help(
        ctx.out,
        "COMMANDLOG",
        &[
            "GET <count> <type>",
            "    The latest entries of a log, newest first (-1 for all). The logs are slow, large-request and large-reply.",
            "    An entry is: number, Unix time, duration in microseconds or bytes of the request or the reply, arguments,",
            "    client's address, client's name",
            "LEN <type>",
            "    The number of entries of a log.",
            "RESET <type>",
            "    Forget all entries of a log.",
        ],
    );
    Ok(After::Done)
}

const HELP: ServerCommand = ServerCommand::new(
    help,
    Row::sub("commandlog|help", "help", Group::Server, 2, "8.1.0")
        .about("Lists the subcommands.", "O(1)")
        .flags(&[Flags::LOADING, Flags::STALE])
        .behaviour(Behaviour::CONSTANT_TIME),
);
