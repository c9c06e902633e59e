//! The pubsub family: subscriptions of this connection, publishing, and what PUBSUB tells.
//!
//! Confirmations are one push a name (an array in RESP2), sent even where CLIENT REPLY has turned replies off. Not here:
//! delivery (worker/deliver.rs); refusing other commands while subscribed in RESP2 (the batch).

pub(crate) mod delivery;
pub(crate) mod listening;
pub(crate) mod publishers;
pub(crate) mod state;

use varve_commands::grammar::help as reply_help;
use varve_exec::CmdResult;
use varve_protocol::Reply;

use crate::errors;
use crate::state::ctx::{After, Handlers, ServerCtx};
use state::{Kind, Name};

/// The handlers, by the full names of their rows.
pub(super) const HANDLERS: Handlers = &[
    ("psubscribe", psubscribe),
    ("pubsub|channels", channels),
    ("pubsub|help", help),
    ("pubsub|numpat", numpat),
    ("pubsub|numsub", numsub),
    ("pubsub|shardchannels", shardchannels),
    ("pubsub|shardnumsub", shardnumsub),
    ("punsubscribe", punsubscribe),
    ("ssubscribe", ssubscribe),
    ("subscribe", subscribe),
    ("sunsubscribe", sunsubscribe),
    ("unsubscribe", unsubscribe),
];

/// `SUBSCRIBE channel [channel ...]`
fn subscribe(ctx: &mut ServerCtx<'_>) -> CmdResult<After> {
    add(ctx, Kind::Channel)
}

/// `PSUBSCRIBE pattern [pattern ...]`
fn psubscribe(ctx: &mut ServerCtx<'_>) -> CmdResult<After> {
    add(ctx, Kind::Pattern)
}

/// `SSUBSCRIBE shardchannel [shardchannel ...]`
fn ssubscribe(ctx: &mut ServerCtx<'_>) -> CmdResult<After> {
    add(ctx, Kind::Shard)
}

/// `UNSUBSCRIBE [channel ...]`
fn unsubscribe(ctx: &mut ServerCtx<'_>) -> CmdResult<After> {
    remove(ctx, Kind::Channel)
}

/// `PUNSUBSCRIBE [pattern ...]`
fn punsubscribe(ctx: &mut ServerCtx<'_>) -> CmdResult<After> {
    remove(ctx, Kind::Pattern)
}

/// `SUNSUBSCRIBE [shardchannel ...]`
fn sunsubscribe(ctx: &mut ServerCtx<'_>) -> CmdResult<After> {
    remove(ctx, Kind::Shard)
}

fn add(ctx: &mut ServerCtx<'_>, kind: Kind) -> CmdResult<After> {
    if kind == Kind::Shard && ctx.conn.session.is_in_exec() {
        return Err(errors::SSUBSCRIBE_IN_EXEC);
    }
    let who = ctx.conn.who();
    for name in ctx.args.skip(1).iter() {
        let subscriptions = ctx.conn.subscriptions.get_or_insert_default();
        ctx.hub.subscribe(ctx.state.pubsub(), kind, name, who, subscriptions);
        confirm(ctx.out, kind.subscribed(), Some(name), subscriptions.told(kind));
    }
    ctx.conn.count_subscriptions();
    Ok(After::Done)
}

fn remove(ctx: &mut ServerCtx<'_>, kind: Kind) -> CmdResult<After> {
    let id = ctx.conn.session.id();
    let subscriptions = ctx.conn.subscriptions.get_or_insert_default();
    let names: Vec<Name> = match ctx.args.len() {
        1 => subscriptions.of(kind).iter().cloned().collect(),
        _ => ctx.args.skip(1).iter().map(Name::from).collect(),
    };
    for name in &names {
        ctx.hub.unsubscribe(ctx.state.pubsub(), kind, name, id, subscriptions);
        confirm(ctx.out, kind.unsubscribed(), Some(name), subscriptions.told(kind));
    }
    if names.is_empty() {
        confirm(ctx.out, kind.unsubscribed(), None, subscriptions.told(kind));
    }
    ctx.conn.count_subscriptions();
    Ok(After::Done)
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

/// `PUBSUB SHARDCHANNELS [pattern]`
fn shardchannels(ctx: &mut ServerCtx<'_>) -> CmdResult<After> {
    list(ctx, Kind::Shard)
}

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

/// `PUBSUB SHARDNUMSUB [shardchannel ...]`
fn shardnumsub(ctx: &mut ServerCtx<'_>) -> CmdResult<After> {
    counts(ctx, Kind::Shard)
}

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
