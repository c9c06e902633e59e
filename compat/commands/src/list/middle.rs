//! LSET, LINSERT, LREM, LTRIM.

use varve_catalog::{Acl, ArgKind, Flags, Group, KeyFlags, KeySpec, Row, arg, key, one_of, word};
use varve_exec::notify::{Again, Class, Effect};
use varve_exec::{CmdResult, Command, CommandError, Ctx, Exec, FileRows};
use varve_store::ListEnd;

use super::steps::{self, Removal};
use crate::errors;
use crate::grammar::{integer, is};

pub(super) const ROWS: FileRows = &[LSET, LINSERT, LREM, LTRIM];

/// LSET key index element
fn lset(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    let key = ctx.key(1);
    // The key is looked at before the index is read.
    if !ctx.tx.list_exists(&key)? {
        return Err(CommandError::NO_KEY);
    }
    let index = integer(ctx.args.get(2))?;
    match ctx.tx.list_set(&key, index, ctx.args.get(3))? {
        Some(true) => {
            ctx.did(&key, Effect::sent(Class::List, "lset", 1));
            ctx.out.ok();
        }
        _ => return Err(errors::INDEX_RANGE),
    }
    Ok(())
}

const LSET: Command = Command::new(
    Exec::Keys(lset),
    Row::new("lset", Group::List, 4, "1.0.0")
        .about("Puts another element at a position.", "O(log N)")
        .flags(&[Flags::WRITE, Flags::DENYOOM])
        .acl(&[Acl::LIST])
        .keys(&[KeySpec::one(1, KeyFlags::RW.and(KeyFlags::UPDATE))])
        .args(&[key("key", 0), arg("index", ArgKind::Integer), arg("element", ArgKind::String)]),
);

/// LINSERT key BEFORE|AFTER pivot element
fn linsert(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    let before = is(ctx.args.get(2), "BEFORE");
    if !before && !is(ctx.args.get(2), "AFTER") {
        return Err(CommandError::SYNTAX);
    }
    if steps::insert_in_parts(ctx, before)? {
        return Ok(());
    }
    let key = ctx.key(1);
    let reply = match ctx.tx.list_insert(&key, ctx.args.get(3), before, ctx.args.get(4))? {
        None => 0,
        Some(0) => -1,
        Some(length) => {
            ctx.did(&key, Effect::sent(Class::List, "linsert", 1));
            length as i64
        }
    };
    ctx.out.integer(reply);
    Ok(())
}

const LINSERT: Command = Command::new(
    Exec::Keys(linsert),
    Row::new("linsert", Group::List, 5, "2.2.0")
        .about("Adds an element beside the first one equal to another.", "O(N) in the elements before it")
        .flags(&[Flags::WRITE, Flags::DENYOOM])
        .acl(&[Acl::LIST])
        .keys(&[KeySpec::one(1, KeyFlags::RW.and(KeyFlags::INSERT))])
        .args(&[
            key("key", 0),
            one_of("where", &[word("before", "BEFORE"), word("after", "AFTER")]),
            arg("pivot", ArgKind::String),
            arg("element", ArgKind::String),
        ]),
);

/// LREM key count element
fn lrem(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    let (count, from) = match integer(ctx.args.get(2))? {
        0 => (u64::MAX, ListEnd::Front),
        n if n < 0 => (n.unsigned_abs(), ListEnd::Back),
        n => (n as u64, ListEnd::Front),
    };
    let element = ctx.args.get(3);
    steps::remove(ctx, Removal { element, count, from })
}

const LREM: Command = Command::new(
    Exec::Keys(lrem),
    Row::new("lrem", Group::List, 4, "1.0.0")
        .about("Removes elements equal to one.", "O(N) in the elements compared")
        .flags(&[Flags::WRITE])
        .acl(&[Acl::LIST])
        .keys(&[KeySpec::one(1, KeyFlags::RW.and(KeyFlags::DELETE))])
        .args(&[key("key", 0), arg("count", ArgKind::Integer), arg("element", ArgKind::String)]),
);

/// LTRIM key start stop
fn ltrim(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    let (start, stop) = (integer(ctx.args.get(2))?, integer(ctx.args.get(3))?);
    let key = ctx.key(1);
    let there = ctx.tx.list_exists(&key)?;
    let removed = ctx.tx.list_trim(&key, start, stop)?;
    if there {
        let again = if removed > 0 { Again::Sent } else { Again::Covered };
        ctx.did_taken(&key, Effect::new(Class::List, "ltrim", removed, again));
    }
    ctx.out.ok();
    Ok(())
}

const LTRIM: Command = Command::new(
    Exec::Keys(ltrim),
    Row::new("ltrim", Group::List, 4, "1.0.0")
        .about(
            "Removes all elements but those from one position to another.",
            "O(N) in the elements removed, by whole nodes",
        )
        .flags(&[Flags::WRITE])
        .acl(&[Acl::LIST])
        .keys(&[KeySpec::one(1, KeyFlags::RW.and(KeyFlags::DELETE))])
        .args(&[key("key", 0), arg("start", ArgKind::Integer), arg("stop", ArgKind::Integer)]),
);
