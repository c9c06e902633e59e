//! HGET, HMGET, HLEN, HSTRLEN, HEXISTS: one look at a hash.

use varve_protocol::Reply;

use crate::Ctx;
use crate::errors::CmdResult;

/// HGET key field
pub fn hget(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    let (key, field) = (ctx.key(1), ctx.args.get(2));
    let out = &mut *ctx.out;
    ctx.tx.hash_get(&key, field, |value| bulk_or_null(out, value)).map_err(Into::into)
}

/// HMGET key field [field ...]
pub fn hmget(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    let (key, fields) = (ctx.key(1), ctx.args.skip(2));
    let out = &mut *ctx.out;
    out.array(fields.len());
    ctx.tx.hash_get_many(&key, fields.iter(), |value| bulk_or_null(out, value)).map_err(Into::into)
}

/// A value, or the absent string.
#[inline]
pub(super) fn bulk_or_null(out: &mut Reply, value: Option<&[u8]>) {
    match value {
        Some(value) => out.bulk(value),
        None => out.null(),
    }
}

/// HLEN key
pub fn hlen(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    let key = ctx.key(1);
    ctx.tx.hash_len(&key).map(|len| ctx.out.integer(len as i64)).map_err(Into::into)
}

/// HSTRLEN key field
pub fn hstrlen(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    reply_len(ctx, |len| len.unwrap_or(0) as i64)
}

/// HEXISTS key field
pub fn hexists(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    reply_len(ctx, |len| i64::from(len.is_some()))
}

fn reply_len(ctx: &mut Ctx<'_, '_>, number: impl Fn(Option<usize>) -> i64) -> CmdResult {
    let (key, field) = (ctx.key(1), ctx.args.get(2));
    ctx.tx.hash_value_len(&key, field).map(|len| ctx.out.integer(number(len))).map_err(Into::into)
}
