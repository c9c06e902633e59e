//! CLIENT PAUSE and UNPAUSE.

pub(crate) mod state;

use varve_command::pause::Pause;

use super::arguments::integer;
use crate::features::clients::state::Question;
use crate::state::ctx::{After, ServerCtx};
use crate::state::mail::Message;

/// `CLIENT PAUSE timeout [WRITE | ALL]`. Answered when every worker has ended the turn in which it heard of it.
pub(crate) fn pause(ctx: &mut ServerCtx<'_>) -> After {
    let args = ctx.args;
    if args.len() > 4 {
        ctx.out.error("ERR unknown subcommand or wrong number of arguments for 'PAUSE'. Try CLIENT HELP.");
        return After::Done;
    }
    let kind = match args.opt(3) {
        None => Pause::All,
        Some(_) if args.is(3, "ALL") => Pause::All,
        Some(_) if args.is(3, "WRITE") => Pause::Writes,
        Some(_) => {
            ctx.out.error("ERR CLIENT PAUSE mode must be WRITE or ALL");
            return After::Done;
        }
    };
    match integer(args.get(2)) {
        None => ctx.out.error("ERR timeout is not an integer or out of range"),
        Some(ms) if ms < 0 => ctx.out.error("ERR timeout is negative"),
        Some(ms) => {
            let now_ms = ctx.now.unix_ms;
            // As with the peer, a time beyond all times is one in the past.
            let until_ms = ctx.state.pauses.begin(kind, now_ms.wrapping_add(ms), now_ms);
            ctx.state.store.stand_still_until(until_ms);
            return After::Ask(Question::Paused);
        }
    }
    After::Done
}

/// `CLIENT UNPAUSE`
pub(crate) fn unpause(ctx: &mut ServerCtx<'_>) -> After {
    ctx.state.pauses.end();
    ctx.state.store.stand_still_until(0);
    ctx.state.tell_all(|| Message::Refresh);
    ctx.out.ok();
    After::Done
}
