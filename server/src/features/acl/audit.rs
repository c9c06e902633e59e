//! ACL LOG: what was denied (state/log.rs).

use varve_catalog::{ArgKind, Group, Row, arg, one_of, word};
use varve_commands::grammar::integer;
use varve_exec::CmdResult;
use varve_exec::denials::Origin;

use super::ADMIN;
use super::state::log::Entry;
use crate::errors;
use crate::state::command::ServerCommand;
use crate::state::ctx::{After, ServerCtx};

/// Entries that are answered where no number is given.
const COUNT: usize = 10;

/// `ACL LOG [count | RESET]`
fn log(ctx: &mut ServerCtx<'_>) -> CmdResult<After> {
    if ctx.args.len() > 3 {
        return Err(errors::subcommand("ACL", ctx.args.get(1)));
    }
    if ctx.args.is(2, "RESET") {
        ctx.state.acl().log().reset();
        ctx.out.ok();
        return Ok(After::Done);
    }
    let count = ctx.args.opt(2).map(integer).transpose()?.map_or(COUNT, |count| count.max(0) as usize);
    let log = ctx.state.acl().log();
    ctx.out.array(log.iter().len().min(count));
    log.iter().take(count).for_each(|entry| reply(ctx, entry));
    Ok(After::Done)
}

fn reply(ctx: &mut ServerCtx<'_>, entry: &Entry) {
    let origin = match entry.event.origin {
        Origin::Client => "toplevel",
        Origin::Transaction => "multi",
        Origin::Script => "lua",
    };
    let out = &mut *ctx.out;
    out.map(7);
    out.bulk(b"count");
    out.integer(entry.count as i64);
    for (field, value) in [
        ("reason", entry.event.reason.name().as_bytes()),
        ("context", origin.as_bytes()),
        ("object", &entry.event.object),
        ("username", &entry.event.user),
    ] {
        out.bulk(field.as_bytes());
        out.bulk(value);
    }
    out.bulk(b"age-seconds");
    out.double((ctx.now.unix_ms - entry.at_ms) as f64 / 1000.0);
    out.bulk(b"client-info");
    out.bulk(entry.client.as_bytes());
}

pub(super) const LOG: ServerCommand = ServerCommand::new(
    log,
    Row::sub("acl|log", "log", Group::Server, -2, "6.0.0")
        .about("Answers what was denied, or forgets it.", "O(N) in the entries")
        .flags(ADMIN)
        .history(&[("7.2.0", "More fields in an entry.")])
        .args(&[one_of("operation", &[arg("count", ArgKind::Integer), word("reset", "RESET")]).optional()]),
);
