//! Commands that touch only the connection's session: PING, ECHO, SELECT, QUIT; and publishing.

use crate::SessionCtx;
use crate::errors::{CmdResult, CommandError};
use crate::grammar::database;

/// `PING [message]`
pub(crate) fn ping(ctx: &mut SessionCtx<'_>) -> CmdResult {
    match ctx.args.len() {
        1 | 2 if ctx.session.only_listens() => {
            ctx.out.array(2);
            ctx.out.bulk(b"pong");
            ctx.out.bulk(ctx.args.opt(1).unwrap_or_default());
        }
        1 => ctx.out.simple("PONG"),
        2 => ctx.out.bulk(&ctx.args[1]),
        _ => return Err(CommandError::arity("ping")),
    }
    Ok(())
}

/// `PUBLISH channel message`
pub(crate) fn publish(ctx: &mut SessionCtx<'_>) -> CmdResult {
    post(ctx, false)
}

/// `SPUBLISH shardchannel message`
pub(crate) fn spublish(ctx: &mut SessionCtx<'_>) -> CmdResult {
    post(ctx, true)
}

fn post(ctx: &mut SessionCtx<'_>, shard: bool) -> CmdResult {
    let (channel, message) = (ctx.args.get(1), ctx.args.get(2));
    let receivers = ctx.events.as_mut().map_or(0, |events| events.message(shard, channel, message));
    ctx.out.integer(receivers as i64);
    Ok(())
}

/// `ECHO message`
pub(crate) fn echo(ctx: &mut SessionCtx<'_>) -> CmdResult {
    ctx.out.bulk(&ctx.args[1]);
    Ok(())
}

/// `QUIT`: the connection ends after the reply.
pub(crate) fn quit(ctx: &mut SessionCtx<'_>) -> CmdResult {
    ctx.session.close_after_reply = true;
    ctx.out.ok();
    Ok(())
}

/// `SELECT index`
pub(crate) fn select(ctx: &mut SessionCtx<'_>) -> CmdResult {
    ctx.session.db = database(ctx.args.get(1), ctx.databases)?;
    ctx.out.ok();
    Ok(())
}
