//! Commands that touch only the connection's session: PING, ECHO, SELECT, QUIT; and publishing.

use crate::SessionCtx;

/// `PING [message]`
pub(crate) fn ping(ctx: &mut SessionCtx<'_>) {
    match ctx.args.len() {
        1 | 2 if ctx.session.only_listens() => {
            ctx.out.array(2);
            ctx.out.bulk(b"pong");
            ctx.out.bulk(ctx.args.opt(1).unwrap_or_default());
        }
        1 => ctx.out.simple("PONG"),
        2 => ctx.out.bulk(&ctx.args[1]),
        _ => ctx.out.error("ERR wrong number of arguments for 'ping' command"),
    }
}

/// `PUBLISH channel message`
pub(crate) fn publish(ctx: &mut SessionCtx<'_>) {
    post(ctx, false);
}

/// `SPUBLISH shardchannel message`
pub(crate) fn spublish(ctx: &mut SessionCtx<'_>) {
    post(ctx, true);
}

fn post(ctx: &mut SessionCtx<'_>, shard: bool) {
    let (channel, message) = (ctx.args.get(1), ctx.args.get(2));
    let receivers = ctx.events.as_mut().map_or(0, |events| events.message(shard, channel, message));
    ctx.out.integer(receivers as i64);
}

/// `ECHO message`
pub(crate) fn echo(ctx: &mut SessionCtx<'_>) {
    ctx.out.bulk(&ctx.args[1]);
}

/// `QUIT`: the connection ends after the reply.
pub(crate) fn quit(ctx: &mut SessionCtx<'_>) {
    ctx.session.close_after_reply = true;
    ctx.out.ok();
}

/// `SELECT index`
pub(crate) fn select(ctx: &mut SessionCtx<'_>) {
    let Some(index) = varve_base::number::parse_i64(&ctx.args[1]) else {
        return ctx.out.error("ERR value is not an integer or out of range");
    };
    if i32::try_from(index).is_err() {
        return ctx.out.error("ERR value is out of range, value must between -2147483648 and 2147483647");
    }
    match u32::try_from(index) {
        Ok(db) if db < ctx.databases => {
            ctx.session.db = db;
            ctx.out.ok();
        }
        _ => ctx.out.error("ERR DB index is out of range"),
    }
}
