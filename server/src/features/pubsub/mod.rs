//! The pubsub family: subscriptions of this connection, publishing, and what PUBSUB tells.
//!
//! Confirmations are one push a name (an array in RESP2), sent even where CLIENT REPLY has turned replies off. Not here:
//! delivery (worker/deliver.rs); refusing other commands while subscribed in RESP2 (the batch).

pub(crate) mod delivery;
pub(crate) mod held_replies;
pub(crate) mod listening;
pub(crate) mod publishers;
pub(crate) mod receivers;
pub(crate) mod state;

use varve_catalog::{ArgKind, Behaviour, Channels, Flags, Group, KeyFlags, KeySpec, Row, arg, block};
use varve_commands::grammar::help as reply_help;
use varve_exec::CmdResult;
use varve_protocol::Reply;

use crate::errors;
use crate::state::command::{ServerCommand, ServerRows};
use crate::state::ctx::{After, ServerCtx};
use state::Kind;

/// The commands of this matter.
pub(super) const ROWS: ServerRows =
    &[PSUBSCRIBE, PUBSUB, PUNSUBSCRIBE, SSUBSCRIBE, SUBSCRIBE, SUNSUBSCRIBE, UNSUBSCRIBE];

/// The flags of commands that subscribe and unsubscribe.
const LISTENING: &[Flags] = &[Flags::PUBSUB, Flags::NOSCRIPT, Flags::LOADING, Flags::STALE];
/// The flags of commands that ask.
const ASKING: &[Flags] = &[Flags::PUBSUB, Flags::LOADING, Flags::STALE];

const PUBSUB: ServerCommand = ServerCommand::container(
    Row::new("pubsub", Group::Pubsub, -2, "2.8.0").about("Who listens to what.", ""),
    &[SUBCOMMANDS],
);

const SUBCOMMANDS: ServerRows = &[CHANNELS, HELP, NUMPAT, NUMSUB, SHARDCHANNELS, SHARDNUMSUB];

/// The behaviour of commands that begin to listen.
const LISTENS: Behaviour = Behaviour::CONFIRMS_ALWAYS.and(Behaviour::WHILE_SUBSCRIBED).and(Behaviour::TAKES_MEMORY);

/// `SUBSCRIBE channel [channel ...]`
fn subscribe(ctx: &mut ServerCtx<'_>) -> CmdResult<After> {
    add(ctx, Kind::Channel)
}

const SUBSCRIBE: ServerCommand = ServerCommand::new(
    subscribe,
    Row::new("subscribe", Group::Pubsub, -2, "2.0.0")
        .about("Listens to channels.", "O(N) in the channels given")
        .flags(LISTENING)
        .args(&[arg("channel", ArgKind::String).multiple()])
        .channels(Channels::Listened)
        .behaviour(LISTENS),
);

/// `PSUBSCRIBE pattern [pattern ...]`
fn psubscribe(ctx: &mut ServerCtx<'_>) -> CmdResult<After> {
    add(ctx, Kind::Pattern)
}

const PSUBSCRIBE: ServerCommand = ServerCommand::new(
    psubscribe,
    Row::new("psubscribe", Group::Pubsub, -2, "2.0.0")
        .about("Listens to the channels whose names match.", "O(N) in the patterns given")
        .flags(LISTENING)
        .args(&[block("pattern", &[arg("pattern", ArgKind::Pattern)]).multiple()])
        .channels(Channels::Patterns)
        .behaviour(LISTENS),
);

/// `SSUBSCRIBE shardchannel [shardchannel ...]`
fn ssubscribe(ctx: &mut ServerCtx<'_>) -> CmdResult<After> {
    add(ctx, Kind::Shard)
}

const SSUBSCRIBE: ServerCommand = ServerCommand::new(
    ssubscribe,
    Row::new("ssubscribe", Group::Pubsub, -2, "7.0.0")
        .about("Listens to shard channels.", "O(N) in the channels given")
        .flags(LISTENING)
        .keys(&[KeySpec::range(1, -1, 1, KeyFlags::NOT_KEY)])
        .args(&[arg("shardchannel", ArgKind::String).multiple()])
        .channels(Channels::Listened)
        .behaviour(LISTENS),
);

/// `UNSUBSCRIBE [channel ...]`
fn unsubscribe(ctx: &mut ServerCtx<'_>) -> CmdResult<After> {
    remove(ctx, Kind::Channel)
}

const UNSUBSCRIBE: ServerCommand = ServerCommand::new(
    unsubscribe,
    Row::new("unsubscribe", Group::Pubsub, -1, "2.0.0")
        .about("Listens no longer to channels, all of them if none is named.", "O(N) in the channels given")
        .flags(LISTENING)
        .args(&[arg("channel", ArgKind::String).optional().multiple()])
        .behaviour(Behaviour::CONFIRMS_ALWAYS.and(Behaviour::WHILE_SUBSCRIBED)),
);

/// `PUNSUBSCRIBE [pattern ...]`
fn punsubscribe(ctx: &mut ServerCtx<'_>) -> CmdResult<After> {
    remove(ctx, Kind::Pattern)
}

const PUNSUBSCRIBE: ServerCommand = ServerCommand::new(
    punsubscribe,
    Row::new("punsubscribe", Group::Pubsub, -1, "2.0.0")
        .about("Listens no longer to patterns, all of them if none is named.", "O(N) in the patterns given")
        .flags(LISTENING)
        .args(&[arg("pattern", ArgKind::Pattern).optional().multiple()])
        .behaviour(Behaviour::CONFIRMS_ALWAYS.and(Behaviour::WHILE_SUBSCRIBED)),
);

/// `SUNSUBSCRIBE [shardchannel ...]`
fn sunsubscribe(ctx: &mut ServerCtx<'_>) -> CmdResult<After> {
    remove(ctx, Kind::Shard)
}

const SUNSUBSCRIBE: ServerCommand = ServerCommand::new(
    sunsubscribe,
    Row::new("sunsubscribe", Group::Pubsub, -1, "7.0.0")
        .about("Listens no longer to shard channels, all of them if none is named.", "O(N) in the channels given")
        .flags(LISTENING)
        .keys(&[KeySpec::range(1, -1, 1, KeyFlags::NOT_KEY)])
        .args(&[arg("shardchannel", ArgKind::String).optional().multiple()])
        .behaviour(Behaviour::CONFIRMS_ALWAYS.and(Behaviour::WHILE_SUBSCRIBED)),
);

fn add(ctx: &mut ServerCtx<'_>, kind: Kind) -> CmdResult<After> {
    if kind == Kind::Shard && ctx.conn.session().is_in_exec() {
        return Err(errors::SSUBSCRIBE_IN_EXEC);
    }
    let (who, part) = (ctx.conn.who(), ctx.part(1));
    for name in part.clone().map(|at| ctx.args.get(at)) {
        let subscriptions = ctx.conn.subscriptions_mut();
        ctx.hub.subscribe(ctx.state.pubsub(), kind, name, who, subscriptions);
        confirm(ctx.out, kind.subscribed(), Some(name), subscriptions.told(kind));
    }
    ctx.conn.count_subscriptions();
    Ok(behind(ctx, part.end))
}

/// The state behind a part that ends before argument `end`.
fn behind(ctx: &ServerCtx<'_>, end: usize) -> After {
    if end < ctx.args.len() { After::More(end) } else { After::Done }
}

fn remove(ctx: &mut ServerCtx<'_>, kind: Kind) -> CmdResult<After> {
    if ctx.args.len() == 1 {
        return Ok(remove_all(ctx, kind));
    }
    let (id, part) = (ctx.conn.session().id(), ctx.part(1));
    let subscriptions = ctx.conn.subscriptions_mut();
    for name in part.clone().map(|at| ctx.args.get(at)) {
        ctx.hub.unsubscribe(ctx.state.pubsub(), kind, name, id, subscriptions);
        confirm(ctx.out, kind.unsubscribed(), Some(name), subscriptions.told(kind));
    }
    ctx.conn.count_subscriptions();
    Ok(behind(ctx, part.end))
}

/// Ends the subscriptions of a kind, as many of them as belong to this part.
fn remove_all(ctx: &mut ServerCtx<'_>, kind: Kind) -> After {
    let (id, is_begin, most) = (ctx.conn.session().id(), ctx.is_begin(), ctx.part_max());
    let subscriptions = ctx.conn.subscriptions_mut();
    if is_begin && subscriptions.of(kind).is_empty() {
        confirm(ctx.out, kind.unsubscribed(), None, subscriptions.told(kind));
    }
    for _ in 0..most {
        let Some(name) = ctx.hub.unsubscribe_first(ctx.state.pubsub(), kind, id, subscriptions) else { break };
        confirm(ctx.out, kind.unsubscribed(), Some(&name), subscriptions.told(kind));
    }
    let is_done = subscriptions.of(kind).is_empty();
    ctx.conn.count_subscriptions();
    if is_done { After::Done } else { After::More(1) }
}

fn confirm(out: &mut Reply, what: &str, name: Option<&[u8]>, told: usize) {
    out.push(3);
    out.bulk(what.as_bytes());
    match name {
        Some(name) => out.bulk(name),
        None => out.null(),
    }
    out.integer(told as i64);
}

/// `PUBSUB CHANNELS [pattern]`
fn channels(ctx: &mut ServerCtx<'_>) -> CmdResult<After> {
    list(ctx, Kind::Channel)
}

const CHANNELS: ServerCommand = ServerCommand::new(
    channels,
    Row::sub("pubsub|channels", "channels", Group::Pubsub, -2, "2.8.0")
        .about("Lists the channels with subscriptions.", "O(N) in those channels")
        .flags(ASKING)
        .args(&[arg("pattern", ArgKind::Pattern).optional()]),
);

/// `PUBSUB SHARDCHANNELS [pattern]`
fn shardchannels(ctx: &mut ServerCtx<'_>) -> CmdResult<After> {
    list(ctx, Kind::Shard)
}

const SHARDCHANNELS: ServerCommand = ServerCommand::new(
    shardchannels,
    Row::sub("pubsub|shardchannels", "shardchannels", Group::Pubsub, -2, "7.0.0")
        .about("Lists the shard channels with subscriptions.", "O(N) in those channels")
        .flags(ASKING)
        .args(&[arg("pattern", ArgKind::Pattern).optional()]),
);

fn list(ctx: &mut ServerCtx<'_>, kind: Kind) -> CmdResult<After> {
    if ctx.args.len() > 3 {
        return Err(errors::subcommand("PUBSUB", ctx.args.get(1)));
    }
    let names = ctx.state.pubsub().names(kind, ctx.args.opt(2));
    ctx.out.array(names.len());
    names.iter().for_each(|name| ctx.out.bulk(name));
    Ok(After::Done)
}

/// `PUBSUB NUMSUB [channel ...]`
fn numsub(ctx: &mut ServerCtx<'_>) -> CmdResult<After> {
    counts(ctx, Kind::Channel)
}

const NUMSUB: ServerCommand = ServerCommand::new(
    numsub,
    Row::sub("pubsub|numsub", "numsub", Group::Pubsub, -2, "2.8.0")
        .about("Counts the subscriptions of channels.", "O(N) in the channels asked for")
        .flags(ASKING)
        .args(&[arg("channel", ArgKind::String).optional().multiple()]),
);

/// `PUBSUB SHARDNUMSUB [shardchannel ...]`
fn shardnumsub(ctx: &mut ServerCtx<'_>) -> CmdResult<After> {
    counts(ctx, Kind::Shard)
}

const SHARDNUMSUB: ServerCommand = ServerCommand::new(
    shardnumsub,
    Row::sub("pubsub|shardnumsub", "shardnumsub", Group::Pubsub, -2, "7.0.0")
        .about("Counts the subscriptions of shard channels.", "O(N) in the channels asked for")
        .flags(ASKING)
        .args(&[arg("shardchannel", ArgKind::String).optional().multiple()]),
);

fn counts(ctx: &mut ServerCtx<'_>, kind: Kind) -> CmdResult<After> {
    let names = ctx.args.skip(2);
    ctx.out.array(names.len() * 2);
    for name in names.iter() {
        ctx.out.bulk(name);
        ctx.out.integer(ctx.state.pubsub().count(kind, name) as i64);
    }
    Ok(After::Done)
}

/// `PUBSUB NUMPAT`
fn numpat(ctx: &mut ServerCtx<'_>) -> CmdResult<After> {
    ctx.out.integer(ctx.state.pubsub().len(Kind::Pattern) as i64);
    Ok(After::Done)
}

const NUMPAT: ServerCommand = ServerCommand::new(
    numpat,
    Row::sub("pubsub|numpat", "numpat", Group::Pubsub, 2, "2.8.0")
        .about("Counts the patterns with subscriptions.", "O(1)")
        .flags(ASKING)
        .behaviour(Behaviour::CONSTANT_TIME),
);

/// `PUBSUB HELP`
fn help(ctx: &mut ServerCtx<'_>) -> CmdResult<After> {
    reply_help(
        ctx.out,
        "PUBSUB",
        &[
            "CHANNELS [<pattern>]",
            "    The channels that somebody is subscribed to by name.",
            "NUMPAT",
            "    The number of different patterns that somebody is subscribed to.",
            "NUMSUB [<channel> ...]",
            "    The number of subscriptions by name of each of these channels.",
            "SHARDCHANNELS [<pattern>]",
            "    The shard channels that somebody is subscribed to.",
            "SHARDNUMSUB [<shardchannel> ...]",
            "    The number of subscriptions of each of these shard channels.",
        ],
    );
    Ok(After::Done)
}

const HELP: ServerCommand = ServerCommand::new(
    help,
    Row::sub("pubsub|help", "help", Group::Pubsub, 2, "6.2.0")
        .about("Lists the subcommands.", "O(1)")
        .flags(&[Flags::LOADING, Flags::STALE])
        .behaviour(Behaviour::CONSTANT_TIME),
);
