//! Parts of a set that are counted or removed: ZCOUNT, ZLEXCOUNT, ZREMRANGEBYRANK, ZREMRANGEBYSCORE, ZREMRANGEBYLEX.

use super::ALL;
use super::bounds::{Bounds, By};
use crate::Ctx;
use crate::errors::CmdResult;
use crate::notify::Class;

/// ZCOUNT key min max
pub fn zcount(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    count(ctx, By::Score)
}

/// ZLEXCOUNT key min max
pub fn zlexcount(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    count(ctx, By::Lex)
}

fn count(ctx: &mut Ctx<'_, '_>, by: By) -> CmdResult {
    let bounds = Bounds::parse(&ctx.args, 2, by, false)?;
    let key = ctx.key(1);
    // Neither scores nor members depend on the length.
    let count = ctx.tx.zset_count(&key, &bounds.within(0))?;
    ctx.out.integer(count as i64);
    Ok(())
}

/// ZREMRANGEBYRANK key start stop
pub fn zremrangebyrank(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    remove(ctx, By::Rank)
}

/// ZREMRANGEBYSCORE key min max
pub fn zremrangebyscore(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    remove(ctx, By::Score)
}

/// ZREMRANGEBYLEX key min max
pub fn zremrangebylex(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    remove(ctx, By::Lex)
}

fn remove(ctx: &mut Ctx<'_, '_>, by: By) -> CmdResult {
    let bounds = Bounds::parse(&ctx.args, 2, by, false)?;
    let key = ctx.key(1);
    let length = match bounds {
        Bounds::Rank(..) => ctx.tx.zset_range_len(&key, &ALL, false, 0, usize::MAX)?,
        Bounds::Other(_) => 0,
    };
    let removed = ctx.tx.zset_remove_range(&key, &bounds.within(length))?;
    if removed > 0 {
        let event = match by {
            By::Rank => "zremrangebyrank",
            By::Score => "zremrangebyscore",
            By::Lex => "zremrangebylex",
        };
        ctx.notify_taken(Class::Zset, event, &key);
    }
    ctx.out.integer(removed as i64);
    Ok(())
}
