//! Members of one set: SADD, SREM, SISMEMBER, SMISMEMBER, SMEMBERS, SCARD. And SMOVE.

use varve_store::SetView;

use super::reply_member;
use crate::Ctx;
use crate::errors::CmdResult;
use crate::notify::Class;

/// SADD key member [member ...]
pub fn sadd(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    let key = ctx.key(1);
    let added = ctx.tx.set_add(&key, ctx.args.skip(2).iter());
    if added.is_ok_and(|count| count > 0) {
        ctx.notify(Class::Set, "sadd", &key);
    }
    reply_count(ctx, added.map_err(Into::into))
}

/// SREM key member [member ...]
pub fn srem(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    let key = ctx.key(1);
    let removed = ctx.tx.set_remove(&key, ctx.args.skip(2).iter());
    if removed.is_ok_and(|count| count > 0) {
        ctx.notify_taken(Class::Set, "srem", &key);
    }
    reply_count(ctx, removed.map_err(Into::into))
}

fn reply_count(ctx: &mut Ctx<'_, '_>, outcome: CmdResult<usize>) -> CmdResult {
    outcome.map(|count| ctx.out.integer(count as i64))
}

/// SCARD key
pub fn scard(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    let key = ctx.key(1);
    let len = ctx.tx.set_view(&key).map(|set| set.map_or(0, |set| set.len()));
    reply_count(ctx, len.map_err(Into::into))
}

/// SISMEMBER key member
pub fn sismember(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    let (key, member) = (ctx.key(1), ctx.args.get(2));
    let there = ctx.tx.set_view(&key).map(|set| usize::from(has(set, member)));
    reply_count(ctx, there.map_err(Into::into))
}

#[inline]
fn has(set: Option<SetView<'_>>, member: &[u8]) -> bool {
    set.is_some_and(|set| set.contains(member))
}

/// SMISMEMBER key member [member ...]
pub fn smismember(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    let (key, members) = (ctx.key(1), ctx.args.skip(2));
    let set = ctx.tx.set_view(&key)?;
    ctx.out.array(members.len());
    members.iter().for_each(|member| ctx.out.integer(i64::from(has(set, member))));
    Ok(())
}

/// SMEMBERS key
pub fn smembers(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    let key = ctx.key(1);
    match ctx.tx.set_view(&key)? {
        None => ctx.out.set(0),
        Some(set) => {
            ctx.out.set(set.len());
            set.for_each(|member| reply_member(ctx.out, member));
        }
    }
    Ok(())
}

/// SMOVE source destination member
pub fn smove(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    let (from, to) = (ctx.key(1), ctx.key(2));
    let moved = ctx.tx.set_move(&from, &to, ctx.args.get(3));
    if moved == Ok(true) && from.bytes != to.bytes {
        ctx.notify_taken(Class::Set, "srem", &from);
        ctx.notify(Class::Set, "sadd", &to);
    }
    reply_count(ctx, moved.map(usize::from).map_err(Into::into))
}
