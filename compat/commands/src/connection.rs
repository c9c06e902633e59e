//! Commands that touch only the connection's session: PING, ECHO, SELECT, QUIT; and publishing.

use varve_catalog::{Acl, ArgKind, Behaviour, Channels, Flags, Group, KeyFlags, KeySpec, Row, arg};
use varve_exec::{CmdResult, Command, CommandError, Exec, FileRows, SessionCtx};

use crate::grammar::database;

pub(crate) const ROWS: FileRows = &[PING, PUBLISH, SPUBLISH, ECHO, QUIT, SELECT];

/// `PING [message]`
fn ping(ctx: &mut SessionCtx<'_>) -> CmdResult {
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

const PING: Command = Command::new(
    Exec::Session(ping),
    Row::new("ping", Group::Connection, -1, "1.0.0")
        .about("Answers PONG, or the message given.", "O(1)")
        .flags(&[Flags::FAST])
        .acl(&[Acl::CONNECTION])
        .tips(&["request_policy:all_shards", "response_policy:all_succeeded"])
        .args(&[arg("message", ArgKind::String).optional()])
        .behaviour(Behaviour::WHILE_SUBSCRIBED.and(Behaviour::TELLS_HEALTH)),
);

/// The flags of commands that publish.
const PUBLISHING: &[Flags] = &[Flags::PUBSUB, Flags::LOADING, Flags::STALE, Flags::FAST];

/// `PUBLISH channel message`
fn publish(ctx: &mut SessionCtx<'_>) -> CmdResult {
    post(ctx, false)
}

const PUBLISH: Command = Command::new(
    Exec::Session(publish),
    Row::new("publish", Group::Pubsub, 3, "2.0.0")
        .about("Sends a message to a channel.", "O(N+M) in the channel's subscriptions and all patterns")
        .flags(PUBLISHING)
        .args(&[arg("channel", ArgKind::String), arg("message", ArgKind::String)])
        .channels(Channels::Published)
        .behaviour(Behaviour::PUBLISHES),
);

/// `SPUBLISH shardchannel message`
fn spublish(ctx: &mut SessionCtx<'_>) -> CmdResult {
    post(ctx, true)
}

const SPUBLISH: Command = Command::new(
    Exec::Session(spublish),
    Row::new("spublish", Group::Pubsub, 3, "7.0.0")
        .about("Sends a message to a shard channel.", "O(N) in the channel's subscriptions")
        .flags(PUBLISHING)
        .keys(&[KeySpec::one(1, KeyFlags::NOT_KEY)])
        .args(&[arg("shardchannel", ArgKind::String), arg("message", ArgKind::String)])
        .channels(Channels::Published)
        .behaviour(Behaviour::PUBLISHES),
);

fn post(ctx: &mut SessionCtx<'_>, shard: bool) -> CmdResult {
    let (channel, message) = (ctx.args.get(1), ctx.args.get(2));
    let receivers = ctx.publish(shard, channel, message);
    ctx.out.integer(receivers as i64);
    Ok(())
}

/// `ECHO message`
fn echo(ctx: &mut SessionCtx<'_>) -> CmdResult {
    ctx.out.bulk(&ctx.args[1]);
    Ok(())
}

const ECHO: Command = Command::new(
    Exec::Session(echo),
    Row::new("echo", Group::Connection, 2, "1.0.0")
        .about("Answers the message.", "O(1)")
        .flags(&[Flags::LOADING, Flags::STALE, Flags::FAST])
        .acl(&[Acl::CONNECTION])
        .args(&[arg("message", ArgKind::String)]),
);

/// `QUIT`: the connection ends after the reply.
fn quit(ctx: &mut SessionCtx<'_>) -> CmdResult {
    ctx.session.end_after_reply();
    ctx.out.ok();
    Ok(())
}

const QUIT: Command = Command::new(
    Exec::Session(quit),
    Row::new("quit", Group::Connection, -1, "1.0.0")
        .about("Ends the connection.", "O(1)")
        .flags(&[Flags::NOSCRIPT, Flags::LOADING, Flags::STALE, Flags::FAST, Flags::NO_AUTH, Flags::ALLOW_BUSY])
        .acl(&[Acl::CONNECTION])
        .behaviour(Behaviour::WHILE_SUBSCRIBED.and(Behaviour::NEVER_QUEUED)),
);

/// `SELECT index`
fn select(ctx: &mut SessionCtx<'_>) -> CmdResult {
    ctx.session.select(database(ctx.args.get(1), ctx.databases)?);
    ctx.out.ok();
    Ok(())
}

const SELECT: Command = Command::new(
    Exec::Session(select),
    Row::new("select", Group::Connection, 2, "1.0.0")
        .about("Makes a database the connection's.", "O(1)")
        .flags(&[Flags::LOADING, Flags::STALE, Flags::FAST])
        .acl(&[Acl::CONNECTION])
        .args(&[arg("index", ArgKind::Integer)])
        .behaviour(Behaviour::SELECTS),
);
