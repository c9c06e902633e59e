//! LSET, LINSERT, LREM, LTRIM.

use varve_store::ListEnd;

use crate::Ctx;
use crate::errors::{CmdResult, CommandError};
use crate::grammar::{integer, is};
use crate::notify::Class;

/// LSET key index element
pub fn lset(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    let key = ctx.key(1);
    // The key is looked at before the index is read.
    if !ctx.tx.list_exists(&key)? {
        return Err(CommandError::NO_KEY);
    }
    let index = integer(ctx.args.get(2))?;
    match ctx.tx.list_set(&key, index, ctx.args.get(3))? {
        Some(true) => {
            ctx.notify(Class::List, "lset", &key);
            ctx.out.ok();
        }
        _ => return Err(CommandError::new(&"ERR index out of range")),
    }
    Ok(())
}

/// LINSERT key BEFORE|AFTER pivot element
pub fn linsert(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    let before = is(ctx.args.get(2), "BEFORE");
    if !before && !is(ctx.args.get(2), "AFTER") {
        return Err(CommandError::SYNTAX);
    }
    let key = ctx.key(1);
    let reply = match ctx.tx.list_insert(&key, ctx.args.get(3), before, ctx.args.get(4))? {
        None => 0,
        Some(0) => -1,
        Some(length) => {
            ctx.notify(Class::List, "linsert", &key);
            length as i64
        }
    };
    ctx.out.integer(reply);
    Ok(())
}

/// LREM key count element
pub fn lrem(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    let (count, from) = match integer(ctx.args.get(2))? {
        0 => (u64::MAX, ListEnd::Front),
        n if n < 0 => (n.unsigned_abs(), ListEnd::Back),
        n => (n as u64, ListEnd::Front),
    };
    let key = ctx.key(1);
    let removed = ctx.tx.list_remove(&key, ctx.args.get(3), count, from)?;
    if removed > 0 {
        ctx.notify_taken(Class::List, "lrem", &key);
    }
    ctx.out.integer(removed as i64);
    Ok(())
}

/// LTRIM key start stop
pub fn ltrim(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    let (start, stop) = (integer(ctx.args.get(2))?, integer(ctx.args.get(3))?);
    let key = ctx.key(1);
    let there = ctx.tx.list_exists(&key)?;
    ctx.tx.list_trim(&key, start, stop)?;
    if there {
        ctx.notify_taken(Class::List, "ltrim", &key);
    }
    ctx.out.ok();
    Ok(())
}
