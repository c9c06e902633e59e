//! What is made of several sets: SINTER, SUNION and SDIFF, their STORE forms, SINTERCARD.

use smallvec::SmallVec;
use varve_base::number::parse_i64;
use varve_store::{Key, SetOp};

use super::reply_member;
use crate::Ctx;
use crate::errors::{CmdResult, CommandError};
use crate::grammar::is;
use crate::notify::Class;

type Keys<'a> = SmallVec<[Key<'a>; 8]>;

/// The request's keys from number `first` on, with the hashes that are known.
fn keys<'a>(ctx: &Ctx<'_, 'a>, first: usize) -> Keys<'a> {
    let keys = ctx.keys[first..].iter();
    keys.map(|key| ctx.tx.key_hashed(ctx.args.get(key.arg as usize), key.hash)).collect()
}

/// SINTER key [key ...]
pub fn sinter(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    show(ctx, SetOp::Intersection)
}

/// SUNION key [key ...]
pub fn sunion(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    show(ctx, SetOp::Union)
}

/// SDIFF key [key ...]
pub fn sdiff(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    show(ctx, SetOp::Difference)
}

fn show(ctx: &mut Ctx<'_, '_>, op: SetOp) -> CmdResult {
    let keys = keys(ctx, 0);
    let sets = ctx.tx.set_views(&keys)?;
    let (members, mut count) = (ctx.out.defer(), 0);
    sets.show(op, |member| {
        reply_member(ctx.out, member);
        count += 1;
        false
    });
    ctx.out.end_set(members, count);
    Ok(())
}

/// SINTERSTORE destination key [key ...]
pub fn sinterstore(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    store(ctx, SetOp::Intersection)
}

/// SUNIONSTORE destination key [key ...]
pub fn sunionstore(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    store(ctx, SetOp::Union)
}

/// SDIFFSTORE destination key [key ...]
pub fn sdiffstore(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    store(ctx, SetOp::Difference)
}

fn store(ctx: &mut Ctx<'_, '_>, op: SetOp) -> CmdResult {
    let (to, keys) = (ctx.key(1), keys(ctx, 1));
    // The request's own bytes do not bound the result. The shards may be let go for it.
    let bytes = ctx.tx.set_op_bytes(op, &keys)?;
    ctx.tx.admit_more(bytes).map_err(|_| CommandError::OUT_OF_MEMORY)?;
    let taken = ctx.is_taken(&to);
    let stored = ctx.tx.set_store(op, &to, &keys)?;
    let event = match op {
        SetOp::Intersection => "sinterstore",
        SetOp::Union => "sunionstore",
        SetOp::Difference => "sdiffstore",
    };
    ctx.notify_stored(Class::Set, event, &to, stored, taken);
    ctx.out.integer(stored as i64);
    Ok(())
}

/// SINTERCARD numkeys key [key ...] [LIMIT limit]
pub fn sintercard(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    const NUMKEYS: CommandError = CommandError::new(&"ERR numkeys should be greater than 0");
    const TOO_MANY: CommandError = CommandError::new(&"ERR Number of keys can't be greater than number of args");
    let number = parse_i64(ctx.args.get(1)).filter(|n| *n > 0).ok_or(NUMKEYS)?;
    let number = usize::try_from(number).ok().filter(|n| *n <= ctx.args.len() - 2).ok_or(TOO_MANY)?;
    let limit = limit(ctx, 2 + number)?;
    let keys = keys(ctx, 0);
    let mut count = 0;
    ctx.tx.set_views(&keys)?.show(SetOp::Intersection, |_| {
        count += 1;
        count == limit
    });
    ctx.out.integer(count);
    Ok(())
}

/// Reads LIMIT, the last one if there are several; 0 is none.
fn limit(ctx: &Ctx<'_, '_>, mut at: usize) -> CmdResult<i64> {
    const NEGATIVE: CommandError = CommandError::new(&"ERR LIMIT can't be negative");
    let mut limit = 0;
    while let Some(word) = ctx.args.opt(at) {
        let value = ctx.args.opt(at + 1).filter(|_| is(word, "LIMIT")).ok_or(CommandError::SYNTAX)?;
        limit = parse_i64(value).filter(|n| *n >= 0).ok_or(NEGATIVE)?;
        at += 2;
    }
    Ok(limit)
}
