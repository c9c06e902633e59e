//! The SLOWLOG family: reads and empties the ring of slow commands (slowlog.rs of the crate).

pub(crate) mod state;

use varve_base::number::parse_i64;
use varve_commands::grammar::help as reply_help;
use varve_exec::CmdResult;

use crate::errors;
use crate::state::ctx::{After, Handlers, ServerCtx};

/// The handlers, by the full names of their rows.
pub(super) const HANDLERS: Handlers =
    &[("slowlog|get", get), ("slowlog|help", help), ("slowlog|len", len), ("slowlog|reset", reset)];

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

/// `SLOWLOG LEN`
fn len(ctx: &mut ServerCtx<'_>) -> CmdResult<After> {
    ctx.out.integer(ctx.state.slowlog().len() as i64);
    Ok(After::Done)
}

/// `SLOWLOG RESET`
fn reset(ctx: &mut ServerCtx<'_>) -> CmdResult<After> {
    ctx.state.slowlog().reset();
    ctx.out.ok();
    Ok(After::Done)
}

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
