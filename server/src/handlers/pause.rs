//! CLIENT PAUSE and UNPAUSE.

use varve_command::pause::Pause;

use super::integer;
use crate::host::{HostCtx, Outcome};
use crate::worker::{Message, Question};

/// `CLIENT PAUSE timeout [WRITE | ALL]`. Answered when every worker has ended the turn in which it heard of it.
pub(crate) fn pause(ctx: &mut HostCtx<'_>) -> Outcome {
    let args = ctx.args;
    if args.len() > 4 {
        ctx.out.error("ERR unknown subcommand or wrong number of arguments for 'PAUSE'. Try CLIENT HELP.");
        return Outcome::Done;
    }
    let kind = match args.opt(3) {
        None => Pause::All,
        Some(_) if args.is(3, "ALL") => Pause::All,
        Some(_) if args.is(3, "WRITE") => Pause::Writes,
        Some(_) => {
            ctx.out.error("ERR CLIENT PAUSE mode must be WRITE or ALL");
            return Outcome::Done;
        }
    };
    match integer(args.get(2)) {
        None => ctx.out.error("ERR timeout is not an integer or out of range"),
        Some(ms) if ms < 0 => ctx.out.error("ERR timeout is negative"),
        Some(ms) => {
            let now_ms = ctx.now.unix_ms;
            // As with the peer, a time beyond all times is one in the past.
            let until_ms = ctx.shared.pauses.begin(kind, now_ms.wrapping_add(ms), now_ms);
            ctx.shared.store.stand_still_until(until_ms);
            return Outcome::Ask(Question::Paused);
        }
    }
    Outcome::Done
}

/// `CLIENT UNPAUSE`
pub(crate) fn unpause(ctx: &mut HostCtx<'_>) -> Outcome {
    ctx.shared.pauses.end();
    ctx.shared.store.stand_still_until(0);
    ctx.shared.tell_all(|| Message::Refresh);
    ctx.out.ok();
    Outcome::Done
}
