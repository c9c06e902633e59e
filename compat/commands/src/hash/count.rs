//! HINCRBY, HINCRBYFLOAT: numbers in fields.

use varve_base::number::Extended;
use varve_catalog::{Acl, ArgKind, Flags, Group, KeyFlags, KeySpec, Row, arg, key};
use varve_exec::notify::{Class, Effect, Words};
use varve_exec::{CmdResult, Command, CommandError, Ctx, Exec, FileRows};
use varve_store::AddError;

use crate::errors;
use crate::grammar::integer;

pub(super) const ROWS: FileRows = &[HINCRBY, HINCRBYFLOAT];

/// HINCRBY key field increment
fn hincrby(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    let by = integer(ctx.args.get(3))?;
    let (key, field) = (ctx.key(1), ctx.args.get(2));
    let sum = ctx.tx.hash_add(&key, field, by).map_err(|error| match error {
        AddError::WrongType => CommandError::WRONG_TYPE,
        AddError::NoNumber => errors::FIELD_NO_INTEGER,
        AddError::Overflow => errors::INCREMENT_OVERFLOW,
    })?;
    ctx.did(&key, Effect::sent(Class::Hash, "hincrby", 1));
    ctx.out.integer(sum);
    Ok(())
}

const HINCRBY: Command = Command::new(
    Exec::Keys(hincrby),
    Row::new("hincrby", Group::Hash, 4, "2.0.0")
        .element(2)
        .about("Adds a number to the integer in a field, 0 without it.", "O(1)")
        .flags(&[Flags::WRITE, Flags::DENYOOM, Flags::FAST])
        .acl(&[Acl::HASH])
        .keys(&[KeySpec::one(1, KeyFlags::RW.and(KeyFlags::ACCESS).and(KeyFlags::UPDATE))])
        .args(&[key("key", 0), arg("field", ArgKind::String), arg("increment", ArgKind::Integer)]),
);

/// HINCRBYFLOAT key field increment
fn hincrbyfloat(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    let by = Extended::parse(ctx.args.get(3)).ok_or(CommandError::NOT_FLOAT)?;
    if !by.is_finite() {
        return Err(errors::VALUE_NOT_FINITE);
    }
    let (key, field) = (ctx.key(1), ctx.args.get(2));
    let mut text = Vec::with_capacity(32);
    let kept = ctx.tx.hash_add_float(&key, field, by, &mut text).map_err(|error| match error {
        AddError::WrongType => CommandError::WRONG_TYPE,
        AddError::NoNumber => errors::FIELD_NO_FLOAT,
        AddError::Overflow => errors::INCREMENT_NOT_FINITE,
    })?;
    let words = |words: &mut Words<'_>| {
        match kept {
            Some(_) => words.add(b"HSETEX").add(key.bytes).add(b"KEEPTTL").add(b"FIELDS").add(b"1"),
            None => words.add(b"HSET").add(key.bytes),
        };
        words.add(field).add(&text);
    };
    ctx.did(&key, Effect::words(Class::Hash, "hincrbyfloat", 1, &words));
    ctx.out.bulk(&text);
    Ok(())
}

const HINCRBYFLOAT: Command = Command::new(
    Exec::Keys(hincrbyfloat),
    Row::new("hincrbyfloat", Group::Hash, 4, "2.6.0")
        .element(2)
        .about("Adds a number to the floating-point number in a field, 0 without it.", "O(1)")
        .flags(&[Flags::WRITE, Flags::DENYOOM, Flags::FAST])
        .acl(&[Acl::HASH])
        .keys(&[KeySpec::one(1, KeyFlags::RW.and(KeyFlags::ACCESS).and(KeyFlags::UPDATE))])
        .args(&[key("key", 0), arg("field", ArgKind::String), arg("increment", ArgKind::Double)]),
);
