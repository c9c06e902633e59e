//! Client-side caching: which clients may hold copies of which keys, and sending them the keys that change.
//!
//! ```text
//!  a reading command of a tracking client:  table: key -> [client, client]          under the key's shard lock
//!  a change of the key:                     entry taken out -> inboxes of the clients' workers -> pushes
//!
//!  BCAST: a change -> each prefix that it begins with -> pending of the changing worker, by prefix and key
//!         before the worker's replies leave: one item a prefix -> inboxes -> one push a client
//! ```
//!
//! While no client tracks, a change costs one relaxed load (the store's observer is off). Messages stand behind replies
//! that were made before the change, since both are the connection's own worker's.
//!
//! Here: CLIENT TRACKING and its kin. Options are checked in Redis's order, and nothing changes unless all fit. Not here:
//! the modes' meaning for reads (`varve_exec::tracking`), delivery (worker/deliver.rs).

pub(crate) mod invalidation_barrier;
mod prefixes;
pub(crate) mod state;

use std::collections::BTreeSet;

use varve_base::refusable;
use varve_catalog::{Acl, ArgKind, Behaviour, Flags, Group, Row, arg, one_of, word};
use varve_commands::grammar::integer;
use varve_exec::tracking::Tracking;
use varve_exec::{CmdResult, CommandError};

use super::pubsub::state::{Kind, Name};
use crate::errors;
use crate::state::command::{ServerCommand, ServerRows};
use crate::state::ctx::{After, ServerCtx};

/// The subcommands of CLIENT in this matter.
pub(super) const CLIENT: ServerRows = &[CACHING, GETREDIR, TRACKING, TRACKINGINFO];

/// `CLIENT TRACKING ON | OFF [REDIRECT id] [PREFIX prefix ...] [BCAST] [OPTIN] [OPTOUT] [NOLOOP]`
fn tracking(ctx: &mut ServerCtx<'_>) -> CmdResult<After> {
    let (wanted, prefixes) = parse(ctx)?;
    if ctx.args.is(2, "ON") {
        if refusable::is_short() {
            return Err(CommandError::NO_MEMORY);
        }
        check(ctx, &wanted, &prefixes)?;
        enable(ctx, wanted, prefixes);
    } else if ctx.args.is(2, "OFF") {
        disable(ctx);
    } else {
        return Err(CommandError::SYNTAX);
    }
    ctx.out.ok();
    Ok(After::Done)
}

const TRACKING: ServerCommand = ServerCommand::new(
    tracking,
    Row::sub("client|tracking", "tracking", Group::Connection, -3, "6.0.0")
        .about("Turns client-side caching on or off.", "O(1), more with options")
        .flags(&[Flags::NOSCRIPT, Flags::LOADING, Flags::STALE])
        .acl(&[Acl::CONNECTION])
        .args(&[
            one_of("status", &[word("on", "ON"), word("off", "OFF")]),
            arg("client-id", ArgKind::Integer).token("REDIRECT").optional(),
            arg("prefix", ArgKind::String).token("PREFIX").optional().multiple().multiple_token(),
            word("bcast", "BCAST").optional(),
            word("optin", "OPTIN").optional(),
            word("optout", "OPTOUT").optional(),
            word("noloop", "NOLOOP").optional(),
        ])
        .behaviour(Behaviour::KEEPS_CACHING),
);

fn parse<'a>(ctx: &ServerCtx<'a>) -> CmdResult<(Tracking, Vec<&'a [u8]>)> {
    let args = ctx.args;
    let mut wanted = Tracking { on: true, ..Tracking::default() };
    let mut prefixes = Vec::new();
    let mut at = 3;
    while at < args.len() {
        let value = args.opt(at + 1);
        if let (true, Some(id)) = (args.is(at, "REDIRECT"), value) {
            if wanted.redirect != 0 {
                return Err(errors::REDIRECT_TWICE);
            }
            let id = integer(id)?;
            if ctx.state.pubsub().home(id as u64).is_none() {
                return Err(errors::REDIRECT_NO_CLIENT);
            }
            wanted.redirect = id as u64;
            at += 1;
        } else if let (true, Some(prefix)) = (args.is(at, "PREFIX"), value) {
            prefixes.push(prefix);
            at += 1;
        } else if args.is(at, "BCAST") {
            wanted.bcast = true;
        } else if args.is(at, "OPTIN") {
            wanted.opt_in = true;
        } else if args.is(at, "OPTOUT") {
            wanted.opt_out = true;
        } else if args.is(at, "NOLOOP") {
            wanted.no_loop = true;
        } else {
            return Err(CommandError::SYNTAX);
        }
        at += 1;
    }
    Ok((wanted, prefixes))
}

/// Whether the options fit each other and what the connection does already.
fn check(ctx: &ServerCtx<'_>, wanted: &Tracking, prefixes: &[&[u8]]) -> CmdResult {
    let now = ctx.conn.session().tracking();
    if !wanted.bcast && !prefixes.is_empty() {
        Err(errors::PREFIX_NEEDS_BCAST)
    } else if now.on && now.bcast != wanted.bcast {
        Err(errors::BCAST_FIXED)
    } else if wanted.bcast && (wanted.opt_in || wanted.opt_out) {
        Err(errors::BCAST_ALONE)
    } else if wanted.opt_in && wanted.opt_out {
        Err(errors::OPT_BOTH)
    } else if (wanted.opt_in && now.opt_out) || (wanted.opt_out && now.opt_in) {
        Err(errors::OPT_FIXED)
    } else {
        check_prefixes(ctx, prefixes)
    }
}

/// Prefixes of one connection may not overlap.
fn check_prefixes(ctx: &ServerCtx<'_>, prefixes: &[&[u8]]) -> CmdResult {
    let none = BTreeSet::new();
    let present = ctx.conn.subscriptions().map_or(&none, |subscriptions| subscriptions.of(Kind::Prefix));
    let Some(overlap) = prefixes::first_overlap(prefixes, present) else { return Ok(()) };
    let which = if overlap.is_present { "an existing" } else { "another provided" };
    Err(errors::prefix_overlap(overlap.new, which, overlap.other))
}

fn enable(ctx: &mut ServerCtx<'_>, wanted: Tracking, mut prefixes: Vec<&[u8]>) {
    let who = ctx.conn.who();
    let registry = &ctx.state.pubsub();
    if !ctx.conn.session().tracking().on {
        ctx.hub.track(registry, who, true);
        ctx.state.tracking().count_client(ctx.state.store(), who.client, true);
    }
    if wanted.bcast && prefixes.is_empty() {
        prefixes.push(b"");
    }
    for prefix in prefixes {
        let subscriptions = ctx.conn.subscriptions_mut();
        ctx.hub.subscribe(registry, Kind::Prefix, prefix, who, subscriptions);
    }
    ctx.conn.session_mut().track(wanted);
}

fn disable(ctx: &mut ServerCtx<'_>) {
    if !ctx.conn.session_mut().end_tracking() {
        return;
    }
    let who = ctx.conn.who();
    ctx.hub.track(ctx.state.pubsub(), who, false);
    ctx.state.tracking().count_client(ctx.state.store(), who.client, false);
    if let Some(subscriptions) = ctx.conn.some_subscriptions() {
        ctx.hub.unsubscribe_all(ctx.state.pubsub(), &[Kind::Prefix], who.client, subscriptions);
    }
    ctx.conn.count_subscriptions();
}

/// `CLIENT CACHING YES | NO`
fn caching(ctx: &mut ServerCtx<'_>) -> CmdResult<After> {
    let args = ctx.args;
    let tracking = ctx.conn.session().tracking();
    if !tracking.on {
        return Err(errors::CACHING_UNTRACKED);
    } else if args.is(2, "YES") && !tracking.opt_in {
        return Err(errors::CACHING_YES);
    } else if args.is(2, "NO") && !tracking.opt_out {
        return Err(errors::CACHING_NO);
    } else if !args.is(2, "YES") && !args.is(2, "NO") {
        return Err(CommandError::SYNTAX);
    }
    ctx.conn.session_mut().begin_caching();
    ctx.out.ok();
    Ok(After::Done)
}

const CACHING: ServerCommand = ServerCommand::new(
    caching,
    Row::sub("client|caching", "caching", Group::Connection, 3, "6.0.0")
        .about("Says whether the next command's keys are to be remembered.", "O(1)")
        .flags(&[Flags::NOSCRIPT, Flags::LOADING, Flags::STALE])
        .acl(&[Acl::CONNECTION])
        .args(&[one_of("mode", &[word("yes", "YES"), word("no", "NO")])])
        .behaviour(Behaviour::CONSTANT_TIME.and(Behaviour::KEEPS_CACHING)),
);

/// `CLIENT GETREDIR`
fn getredir(ctx: &mut ServerCtx<'_>) -> CmdResult<After> {
    ctx.out.integer(redirect(ctx.conn.session().tracking()));
    Ok(After::Done)
}

const GETREDIR: ServerCommand = ServerCommand::new(
    getredir,
    Row::sub("client|getredir", "getredir", Group::Connection, 2, "6.0.0")
        .about("Answers who gets this connection's messages about stale keys.", "O(1)")
        .flags(&[Flags::NOSCRIPT, Flags::LOADING, Flags::STALE])
        .acl(&[Acl::CONNECTION])
        .behaviour(Behaviour::CONSTANT_TIME.and(Behaviour::KEEPS_CACHING)),
);

/// The connection that messages go to, 0 for itself, -1 without tracking.
fn redirect(tracking: &Tracking) -> i64 {
    if tracking.on { tracking.redirect as i64 } else { -1 }
}

/// `CLIENT TRACKINGINFO`
fn trackinginfo(ctx: &mut ServerCtx<'_>) -> CmdResult<After> {
    let tracking = ctx.conn.session().tracking();
    let flags = [
        (!tracking.on, "off"),
        (tracking.on, "on"),
        (tracking.bcast, "bcast"),
        (tracking.opt_in, "optin"),
        (tracking.opt_in && tracking.caching, "caching-yes"),
        (tracking.opt_out, "optout"),
        (tracking.opt_out && tracking.caching, "caching-no"),
        (tracking.no_loop, "noloop"),
        (tracking.broken, "broken_redirect"),
    ];
    let set: Vec<&str> = flags.iter().filter(|(is, _)| *is).map(|(_, name)| *name).collect();
    let none = Default::default();
    let prefixes = ctx.conn.subscriptions().map_or(&none, |subscriptions| subscriptions.of(Kind::Prefix));
    let out = &mut *ctx.out;
    out.map(3);
    out.bulk(b"flags");
    out.set(set.len());
    set.iter().for_each(|name| out.bulk(name.as_bytes()));
    out.bulk(b"redirect");
    out.integer(redirect(tracking));
    out.bulk(b"prefixes");
    out.array(prefixes.len());
    prefixes.iter().for_each(|prefix: &Name| out.bulk(prefix));
    Ok(After::Done)
}

const TRACKINGINFO: ServerCommand = ServerCommand::new(
    trackinginfo,
    Row::sub("client|trackinginfo", "trackinginfo", Group::Connection, 2, "6.2.0")
        .about("Describes the connection's client-side caching.", "O(1)")
        .flags(&[Flags::NOSCRIPT, Flags::LOADING, Flags::STALE])
        .acl(&[Acl::CONNECTION])
        .behaviour(Behaviour::CONSTANT_TIME.and(Behaviour::KEEPS_CACHING)),
);
