//! HSET, HMSET, HSETNX, HDEL, HGETDEL: fields set and removed.

use super::read::bulk_or_null;
use crate::Ctx;
use crate::errors::{CmdResult, CommandError};
use crate::grammar::{integer, is};
use crate::notify::Class;

/// HSET key field value [field value ...]
pub fn hset(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    set_pairs(ctx, "hset").map(|new| ctx.out.integer(new as i64))
}

/// HMSET key field value [field value ...]
pub fn hmset(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    set_pairs(ctx, "hmset").map(|_| ctx.out.ok())
}

/// Sets the pairs from the third argument on; gives the number of fields that are new.
fn set_pairs(ctx: &mut Ctx<'_, '_>, name: &str) -> CmdResult<usize> {
    let args = ctx.args;
    if !args.len().is_multiple_of(2) {
        return Err(CommandError::arity(name));
    }
    let key = ctx.key(1);
    let pairs = (2..args.len()).step_by(2).map(|at| (args.get(at), args.get(at + 1)));
    let new = ctx.tx.hash_set(&key, pairs)?;
    ctx.notify(Class::Hash, "hset", &key);
    Ok(new)
}

/// HSETNX key field value
pub fn hsetnx(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    let (key, field, value) = (ctx.key(1), ctx.args.get(2), ctx.args.get(3));
    let done = ctx.tx.hash_set_new(&key, field, value);
    if done == Ok(true) {
        ctx.notify(Class::Hash, "hset", &key);
    }
    done.map(|new| ctx.out.integer(i64::from(new))).map_err(Into::into)
}

/// HDEL key field [field ...]
pub fn hdel(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    let (key, fields) = (ctx.key(1), ctx.args.skip(2));
    let removed = ctx.tx.hash_remove(&key, fields.iter());
    if removed.is_ok_and(|count| count > 0) {
        ctx.notify_taken(Class::Hash, "hdel", &key);
    }
    removed.map(|count| ctx.out.integer(count as i64)).map_err(Into::into)
}

/// HGETDEL key FIELDS numfields field [field ...]
pub fn hgetdel(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    const NO_FIELDS: CommandError =
        CommandError::new(&"ERR Mandatory argument FIELDS is missing or not at the right position");
    const NUMBER: CommandError = CommandError::new(&"ERR Number of fields must be a positive integer");
    const MISMATCH: CommandError =
        CommandError::new(&"ERR The `numfields` parameter must match the number of arguments");
    let (key, fields) = (ctx.key(1), ctx.args.skip(4));
    ctx.tx.hash_check(&key)?;
    if !is(ctx.args.get(2), "FIELDS") {
        return Err(NO_FIELDS);
    }
    let count = integer(ctx.args.get(3)).ok().filter(|n| *n > 0).ok_or(NUMBER)?;
    if count != fields.len() as i64 {
        return Err(MISMATCH);
    }
    let out = &mut *ctx.out;
    out.array(fields.len());
    let mut taken = 0;
    ctx.tx.hash_take(&key, fields.iter(), |value| {
        taken += usize::from(value.is_some());
        bulk_or_null(out, value);
    })?;
    if taken > 0 {
        ctx.notify_taken(Class::Hash, "hdel", &key);
    }
    Ok(())
}
