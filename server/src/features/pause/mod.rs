//! CLIENT PAUSE and UNPAUSE.

pub(crate) mod paused;
pub(crate) mod state;

use varve_base::number::parse_i64;
use varve_exec::CmdResult;
use varve_exec::pause::Pause;

use crate::errors;
use crate::features::clients::state::Question;
use crate::state::ctx::{After, Handlers, ServerCtx};
use crate::state::mail::Message;

/// The handlers, by the full names of their rows.
pub(super) const HANDLERS: Handlers = &[("client|pause", pause), ("client|unpause", unpause)];

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
    let ms = parse_i64(args.get(2)).ok_or(errors::TIMEOUT_NOT_INTEGER)?;
    if ms < 0 {
        return Err(errors::TIMEOUT_NEGATIVE);
    }
    let now_ms = ctx.now.unix_ms;
    // As with redis-server, a time beyond all times is one in the past.
    let until_ms = ctx.state.pauses().begin(kind, now_ms.wrapping_add(ms), now_ms);
    ctx.state.store().stand_still_until(until_ms);
    Ok(After::Ask(Question::Paused))
}

/// `CLIENT UNPAUSE`
fn unpause(ctx: &mut ServerCtx<'_>) -> CmdResult<After> {
    ctx.state.pauses().end();
    ctx.state.store().stand_still_until(0);
    ctx.state.send_all(|| Message::Refresh);
    ctx.out.ok();
    Ok(After::Done)
}
