//! LMOVE and its old name for one of its cases, RPOPLPUSH.

use varve_store::ListEnd;

use super::{end_of, popped, pushed};
use crate::Ctx;
use crate::errors::CmdResult;
use crate::notify::Class;

/// LMOVE source destination LEFT|RIGHT LEFT|RIGHT
pub fn lmove(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    let ends = end_of(ctx.args.get(3)).and_then(|from| Ok((from, end_of(ctx.args.get(4))?)));
    ends.and_then(|(from, to)| move_one(ctx, from, to))
}

/// RPOPLPUSH source destination
pub fn rpoplpush(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    move_one(ctx, ListEnd::Back, ListEnd::Front)
}

/// Moves one element and replies with it, or with null without the source.
fn move_one(ctx: &mut Ctx<'_, '_>, from_end: ListEnd, to_end: ListEnd) -> CmdResult {
    let (source, destination) = (ctx.key(1), ctx.key(2));
    let out = &mut *ctx.out;
    if ctx.tx.list_move(&source, &destination, from_end, to_end, |text| out.bulk(text))? {
        ctx.notify(Class::List, pushed(to_end), &destination);
        ctx.notify_taken(Class::List, popped(from_end), &source);
    } else {
        ctx.out.null();
    }
    Ok(())
}
