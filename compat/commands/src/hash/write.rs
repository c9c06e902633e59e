//! HSET, HMSET, HSETNX, HDEL: fields set and removed.

use varve_catalog::{Acl, ArgKind, Argument, Flags, Group, KeyFlags, KeySpec, Row, arg, block, key};
use varve_exec::notify::{Class, Effect};
use varve_exec::{CmdResult, Command, CommandError, Ctx, Exec, FileRows};

use crate::generic::many_arguments::{self, Done, Each, PartOfReply, run_in_parts};

pub(super) const ROWS: FileRows = &[HSET, HMSET, HSETNX, HDEL];

pub(super) const PAIRS: Argument =
    block("field_value", &[arg("field", ArgKind::String), arg("value", ArgKind::String)]).multiple();

/// HSET key field value [field value ...]
fn hset(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    if are_many_pairs(ctx) && run_in_parts(ctx, 2, &SET_EACH)? {
        return Ok(());
    }
    set_pairs(ctx, "hset").map(|new| ctx.out.integer(new as i64))
}

/// Whether there are many pairs, and no field without a value.
#[inline]
fn are_many_pairs(ctx: &Ctx<'_, '_>) -> bool {
    ctx.args.len() > many_arguments::FEW && ctx.args.len().is_multiple_of(2)
}

const SET_EACH: Each = Each {
    class: Class::Hash,
    event: "hset",
    word: b"HSET",
    texts: 2,
    check: None,
    run: |tx, key, part| {
        let new = tx.hash_set(key, part.pairs())?;
        Ok(Done { reply: PartOfReply::More(new), changes: part.texts.len() / 2 })
    },
    reply: many_arguments::reply_count,
};

const HSET: Command = Command::new(
    Exec::Keys(hset),
    Row::new("hset", Group::Hash, -4, "2.0.0")
        .element(2)
        .about("Sets fields of a hash, which is created if absent.", "O(N) in the fields set")
        .flags(&[Flags::WRITE, Flags::DENYOOM, Flags::FAST])
        .acl(&[Acl::HASH])
        .keys(&[KeySpec::one(1, KeyFlags::RW.and(KeyFlags::UPDATE))])
        .history(&[("4.0.0", "Several fields and values.")])
        .args(&[key("key", 0), PAIRS]),
);

/// HMSET key field value [field value ...]
fn hmset(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    if are_many_pairs(ctx) && run_in_parts(ctx, 2, &MSET_EACH)? {
        return Ok(());
    }
    set_pairs(ctx, "hmset").map(|_| ctx.out.ok())
}

const MSET_EACH: Each = Each { reply: |out, _| out.ok(), ..SET_EACH };

const HMSET: Command = Command::new(
    Exec::Keys(hmset),
    Row::new("hmset", Group::Hash, -4, "2.0.0")
        .element(2)
        .about("Sets several fields.", "O(N) in the fields set")
        .flags(&[Flags::WRITE, Flags::DENYOOM, Flags::FAST])
        .acl(&[Acl::HASH])
        .keys(&[KeySpec::one(1, KeyFlags::RW.and(KeyFlags::UPDATE))])
        .deprecated("4.0.0", "`HSET` with multiple field-value pairs")
        .args(&[key("key", 0), PAIRS]),
);

/// Sets the pairs from the third argument on; gives the number of fields that are new.
fn set_pairs(ctx: &mut Ctx<'_, '_>, name: &str) -> CmdResult<usize> {
    let args = ctx.args;
    if !args.len().is_multiple_of(2) {
        return Err(CommandError::arity(name));
    }
    let key = ctx.key(1);
    let pairs = (2..args.len()).step_by(2).map(|at| (args.get(at), args.get(at + 1)));
    let new = ctx.tx.hash_set(&key, pairs)?;
    ctx.did(&key, Effect::sent(Class::Hash, "hset", (args.len() / 2 - 1) as u64));
    Ok(new)
}

/// HSETNX key field value
fn hsetnx(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    let (key, field, value) = (ctx.key(1), ctx.args.get(2), ctx.args.get(3));
    let done = ctx.tx.hash_set_new(&key, field, value);
    if done == Ok(true) {
        ctx.did(&key, Effect::sent(Class::Hash, "hset", 1));
    }
    done.map(|new| ctx.out.integer(i64::from(new))).map_err(Into::into)
}

const HSETNX: Command = Command::new(
    Exec::Keys(hsetnx),
    Row::new("hsetnx", Group::Hash, 4, "2.0.0")
        .element(2)
        .about("Sets a field unless the hash has it.", "O(1)")
        .flags(&[Flags::WRITE, Flags::DENYOOM, Flags::FAST])
        .acl(&[Acl::HASH])
        .keys(&[KeySpec::one(1, KeyFlags::RW.and(KeyFlags::INSERT))])
        .args(&[key("key", 0), arg("field", ArgKind::String), arg("value", ArgKind::String)]),
);

/// HDEL key field [field ...]
fn hdel(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    if ctx.args.len() > many_arguments::FEW && run_in_parts(ctx, 2, &REMOVE_EACH)? {
        return Ok(());
    }
    let (key, fields) = (ctx.key(1), ctx.args.skip(2));
    let removed = ctx.tx.hash_remove(&key, fields.iter());
    if let Ok(count @ 1..) = removed {
        ctx.did_taken(&key, Effect::sent(Class::Hash, "hdel", count as u64));
    }
    removed.map(|count| ctx.out.integer(count as i64)).map_err(Into::into)
}

const REMOVE_EACH: Each = Each {
    class: Class::Hash,
    event: "hdel",
    word: b"HDEL",
    texts: 1,
    check: None,
    run: |tx, key, part| Ok(Done::counted(tx.hash_remove(key, part.texts.iter())?)),
    reply: many_arguments::reply_count,
};

const HDEL: Command = Command::new(
    Exec::Keys(hdel),
    Row::new("hdel", Group::Hash, -3, "2.0.0")
        .element(2)
        .about("Removes fields of a hash.", "O(N) in the fields to remove")
        .flags(&[Flags::WRITE, Flags::FAST])
        .acl(&[Acl::HASH])
        .keys(&[KeySpec::one(1, KeyFlags::RW.and(KeyFlags::DELETE))])
        .history(&[("2.4.0", "Several fields.")])
        .args(&[key("key", 0), arg("field", ArgKind::String).multiple()]),
);
