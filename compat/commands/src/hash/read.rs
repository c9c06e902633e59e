//! HGET, HMGET, HLEN, HSTRLEN, HEXISTS: one look at a hash.

use varve_catalog::{Acl, ArgKind, Flags, Group, KeyFlags, KeySpec, Row, arg, key};
use varve_exec::{CmdResult, Command, Ctx, Exec, FileRows};
use varve_protocol::Reply;

pub(super) const ROWS: FileRows = &[HGET, HMGET, HLEN, HSTRLEN, HEXISTS];

/// HGET key field
fn hget(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    let (key, field) = (ctx.key(1), ctx.args.get(2));
    let out = &mut *ctx.out;
    ctx.tx.hash_get(&key, field, |value| bulk_or_null(out, value)).map_err(Into::into)
}

const HGET: Command = Command::new(
    Exec::Keys(hget),
    Row::new("hget", Group::Hash, 3, "2.0.0")
        .element(2)
        .about("Answers the value of a field.", "O(1)")
        .flags(&[Flags::READONLY, Flags::FAST])
        .acl(&[Acl::HASH])
        .keys(&[KeySpec::one(1, KeyFlags::RO.and(KeyFlags::ACCESS))])
        .args(&[key("key", 0), arg("field", ArgKind::String)]),
);

/// HMGET key field [field ...]
fn hmget(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    let (key, fields) = (ctx.key(1), ctx.args.skip(2));
    let out = &mut *ctx.out;
    out.array(fields.len());
    ctx.tx.hash_get_many(&key, fields.iter(), |value| bulk_or_null(out, value)).map_err(Into::into)
}

const HMGET: Command = Command::new(
    Exec::Keys(hmget),
    Row::new("hmget", Group::Hash, -3, "2.0.0")
        .element(2)
        .about("Answers the values of several fields.", "O(N) in the fields named")
        .flags(&[Flags::READONLY, Flags::FAST])
        .acl(&[Acl::HASH])
        .keys(&[KeySpec::one(1, KeyFlags::RO.and(KeyFlags::ACCESS))])
        .args(&[key("key", 0), arg("field", ArgKind::String).multiple()]),
);

/// A value, or the absent string.
#[inline]
pub(super) fn bulk_or_null(out: &mut Reply, value: Option<&[u8]>) {
    match value {
        Some(value) => out.bulk(value),
        None => out.null(),
    }
}

/// HLEN key
fn hlen(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    let key = ctx.key(1);
    ctx.tx.hash_len(&key).map(|len| ctx.out.integer(len as i64)).map_err(Into::into)
}

const HLEN: Command = Command::new(
    Exec::Keys(hlen),
    Row::new("hlen", Group::Hash, 2, "2.0.0")
        .about("Answers the number of fields of a hash.", "O(1)")
        .flags(&[Flags::READONLY, Flags::FAST])
        .acl(&[Acl::HASH])
        .keys(&[KeySpec::one(1, KeyFlags::RO)])
        .args(&[key("key", 0)]),
);

/// HSTRLEN key field
fn hstrlen(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    reply_len(ctx, |len| len.unwrap_or(0) as i64)
}

const HSTRLEN: Command = Command::new(
    Exec::Keys(hstrlen),
    Row::new("hstrlen", Group::Hash, 3, "3.2.0")
        .element(2)
        .about("Answers the length of a field's value.", "O(1)")
        .flags(&[Flags::READONLY, Flags::FAST])
        .acl(&[Acl::HASH])
        .keys(&[KeySpec::one(1, KeyFlags::RO)])
        .args(&[key("key", 0), arg("field", ArgKind::String)]),
);

/// HEXISTS key field
fn hexists(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    reply_len(ctx, |len| i64::from(len.is_some()))
}

const HEXISTS: Command = Command::new(
    Exec::Keys(hexists),
    Row::new("hexists", Group::Hash, 3, "2.0.0")
        .element(2)
        .about("Tells whether a hash has a field.", "O(1)")
        .flags(&[Flags::READONLY, Flags::FAST])
        .acl(&[Acl::HASH])
        .keys(&[KeySpec::one(1, KeyFlags::RO)])
        .args(&[key("key", 0), arg("field", ArgKind::String)]),
);

fn reply_len(ctx: &mut Ctx<'_, '_>, number: impl Fn(Option<usize>) -> i64) -> CmdResult {
    let (key, field) = (ctx.key(1), ctx.args.get(2));
    ctx.tx.hash_value_len(&key, field).map(|len| ctx.out.integer(number(len))).map_err(Into::into)
}
