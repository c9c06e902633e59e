//! HGET, HMGET, HLEN, HSTRLEN, HEXISTS: one look at a hash.

use varve_protocol::Reply;

use crate::Ctx;
use crate::grammar::settle;

/// HGET key field
pub fn hget(ctx: &mut Ctx<'_, '_>) {
    let (key, field) = (ctx.key(1), ctx.args.get(2));
    let out = &mut *ctx.out;
    let outcome = ctx.tx.hash_get(&key, field, |value| bulk_or_null(out, value)).map_err(Into::into);
    settle(ctx, outcome);
}

/// HMGET key field [field ...]
pub fn hmget(ctx: &mut Ctx<'_, '_>) {
    let (key, fields) = (ctx.key(1), ctx.args.skip(2));
    let out = &mut *ctx.out;
    let mark = out.mark();
    out.array(fields.len());
    let outcome = ctx.tx.hash_get_many(&key, fields.iter(), |value| bulk_or_null(out, value));
    if outcome.is_err() {
        ctx.out.truncate(mark);
    }
    settle(ctx, outcome.map_err(Into::into));
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
pub fn hlen(ctx: &mut Ctx<'_, '_>) {
    let key = ctx.key(1);
    let outcome = ctx.tx.hash_len(&key).map(|len| ctx.out.integer(len as i64)).map_err(Into::into);
    settle(ctx, outcome);
}

/// HSTRLEN key field
pub fn hstrlen(ctx: &mut Ctx<'_, '_>) {
    reply_len(ctx, |len| len.unwrap_or(0) as i64);
}

/// HEXISTS key field
pub fn hexists(ctx: &mut Ctx<'_, '_>) {
    reply_len(ctx, |len| i64::from(len.is_some()));
}

fn reply_len(ctx: &mut Ctx<'_, '_>, number: impl Fn(Option<usize>) -> i64) {
    let (key, field) = (ctx.key(1), ctx.args.get(2));
    let outcome = ctx.tx.hash_value_len(&key, field).map(|len| ctx.out.integer(number(len))).map_err(Into::into);
    settle(ctx, outcome);
}
