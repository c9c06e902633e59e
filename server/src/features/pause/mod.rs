//! CLIENT PAUSE and UNPAUSE.

pub(crate) mod paused;
pub(crate) mod state;

use varve_base::number::parse_i64;
use varve_catalog::{Acl, ArgKind, Behaviour, Flags, Group, Row, arg, one_of, word};
use varve_exec::pause::Pause;
use varve_exec::{CmdResult, CommandError};

use crate::errors;
use crate::features::clients::state::Question;
use crate::state::command::{ServerCommand, ServerRows};
use crate::state::ctx::{After, ServerCtx};
use crate::state::mail::Message;

/// The subcommands of CLIENT in this matter.
pub(super) const CLIENT: ServerRows = &[PAUSE, UNPAUSE];

/// `CLIENT PAUSE timeout [WRITE | ALL]`. Answered when every worker has ended the turn in which it heard of it.
fn pause(ctx: &mut ServerCtx<'_>) -> CmdResult<After> {
    let args = ctx.args;
    if args.len() > 4 {
        return Err(errors::subcommand("CLIENT", b"PAUSE"));
    }
    let kind = match args.opt(3) {
        None => Pause::All,
        Some(_) if args.is(3, "ALL") => Pause::All,
        Some(_) if args.is(3, "WRITE") => Pause::Writes,
        Some(_) => return Err(errors::PAUSE_MODE),
    };
    let ms = parse_i64(args.get(2)).ok_or(CommandError::TIMEOUT_NOT_INTEGER)?;
    if ms < 0 {
        return Err(CommandError::TIMEOUT_NEGATIVE);
    }
    let now_ms = ctx.now.steady_ms;
    // As with redis-server, a time beyond all times is one in the past.
    ctx.state.pauses().begin(kind, now_ms.wrapping_add(ms), now_ms);
    ctx.state.hold_expiry(ctx.now);
    Ok(After::Ask(Question::Paused))
}

const PAUSE: ServerCommand = ServerCommand::new(
    pause,
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
);

/// `CLIENT UNPAUSE`
fn unpause(ctx: &mut ServerCtx<'_>) -> CmdResult<After> {
    ctx.state.pauses().end();
    ctx.state.hold_expiry(ctx.now);
    ctx.state.send_all(|| Message::Refresh);
    ctx.out.ok();
    Ok(After::Done)
}

const UNPAUSE: ServerCommand = ServerCommand::new(
    unpause,
    Row::sub("client|unpause", "unpause", Group::Connection, 2, "6.2.0")
        .about("Lets the commands that were held back go on.", "O(N) in the connections that were held back")
        .flags(&[Flags::ADMIN, Flags::NOSCRIPT, Flags::LOADING, Flags::STALE])
        .acl(&[Acl::CONNECTION])
        .behaviour(Behaviour::KEEPS_CACHING),
);
