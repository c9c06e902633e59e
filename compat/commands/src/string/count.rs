//! Numbers kept in strings: INCR and its kin on 64-bit integers, INCRBYFLOAT on 80-bit floating point.

use varve_base::number::{Extended, INT_TEXT_MAX, write_i64};
use varve_catalog::{Acl, ArgKind, Flags, Group, KeyFlags, KeySpec, Row, arg, key};
use varve_exec::notify::{Class, Effect, Words};
use varve_exec::{CmdResult, Command, CommandError, Ctx, Exec, FileRows};
use varve_store::StringForm;

use crate::errors;
use crate::grammar::integer;

pub(super) const ROWS: FileRows = &[INCR, DECR, INCRBY, DECRBY, INCRBYFLOAT];

/// INCR key
fn incr(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    add(ctx, 1)
}

const INCR: Command = Command::new(
    Exec::Keys(incr),
    Row::new("incr", Group::String, 2, "1.0.0")
        .about("Adds one to an integer.", "O(1)")
        .flags(&[Flags::WRITE, Flags::DENYOOM, Flags::FAST])
        .acl(&[Acl::STRING])
        .keys(&[KeySpec::one(1, KeyFlags::RW.and(KeyFlags::ACCESS).and(KeyFlags::UPDATE))])
        .args(&[key("key", 0)]),
);

/// DECR key
fn decr(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    add(ctx, -1)
}

const DECR: Command = Command::new(
    Exec::Keys(decr),
    Row::new("decr", Group::String, 2, "1.0.0")
        .about("Takes one from an integer.", "O(1)")
        .flags(&[Flags::WRITE, Flags::DENYOOM, Flags::FAST])
        .acl(&[Acl::STRING])
        .keys(&[KeySpec::one(1, KeyFlags::RW.and(KeyFlags::ACCESS).and(KeyFlags::UPDATE))])
        .args(&[key("key", 0)]),
);

/// INCRBY key increment
fn incrby(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    integer(ctx.args.get(2)).and_then(|by| add(ctx, by))
}

const INCRBY: Command = Command::new(
    Exec::Keys(incrby),
    Row::new("incrby", Group::String, 3, "1.0.0")
        .about("Adds a number to an integer.", "O(1)")
        .flags(&[Flags::WRITE, Flags::DENYOOM, Flags::FAST])
        .acl(&[Acl::STRING])
        .keys(&[KeySpec::one(1, KeyFlags::RW.and(KeyFlags::ACCESS).and(KeyFlags::UPDATE))])
        .args(&[key("key", 0), arg("increment", ArgKind::Integer)]),
);

/// DECRBY key decrement
fn decrby(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    integer(ctx.args.get(2))
        .and_then(|by| by.checked_neg().ok_or(errors::DECREMENT_OVERFLOW))
        .and_then(|by| add(ctx, by))
}

const DECRBY: Command = Command::new(
    Exec::Keys(decrby),
    Row::new("decrby", Group::String, 3, "1.0.0")
        .about("Takes a number from an integer.", "O(1)")
        .flags(&[Flags::WRITE, Flags::DENYOOM, Flags::FAST])
        .acl(&[Acl::STRING])
        .keys(&[KeySpec::one(1, KeyFlags::RW.and(KeyFlags::ACCESS).and(KeyFlags::UPDATE))])
        .args(&[key("key", 0), arg("decrement", ArgKind::Integer)]),
);

/// Adds to the number that the key holds, 0 without the key; the expiry stays.
fn add(ctx: &mut Ctx<'_, '_>, by: i64) -> CmdResult {
    let key = ctx.key(1);
    let mut text = [0; INT_TEXT_MAX];
    let new = ctx.tx.rewrite(&key, StringForm::Auto, |old| {
        let new = old.map_or(Ok(0), integer)?.checked_add(by).ok_or(errors::INCREMENT_OVERFLOW)?;
        Ok::<_, CommandError>(write_i64(&mut text, new))
    })?;
    ctx.did(&key, Effect::sent(Class::String, "incrby", 1));
    ctx.out.raw(b":");
    ctx.out.raw(new);
    ctx.out.raw(b"\r\n");
    Ok(())
}

/// INCRBYFLOAT key increment
fn incrbyfloat(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    let number = |text: &[u8]| Extended::parse(text).ok_or(CommandError::NOT_FLOAT);
    let key = ctx.key(1);
    let by = ctx.args.get(2);
    let text = ctx.tx.rewrite(&key, StringForm::Plain, |old| {
        let new = old.map_or(Ok(Extended::ZERO), number)? + number(by)?;
        if !new.is_finite() {
            return Err(errors::INCREMENT_NOT_FINITE);
        }
        let mut text = Vec::with_capacity(32);
        new.push_human(&mut text);
        Ok(text)
    })?;
    let words = |words: &mut Words<'_>| _ = words.add(b"SET").add(key.bytes).add(&text).add(b"KEEPTTL");
    ctx.did(&key, Effect::words(Class::String, "incrbyfloat", 1, &words));
    ctx.out.bulk(&text);
    Ok(())
}

const INCRBYFLOAT: Command = Command::new(
    Exec::Keys(incrbyfloat),
    Row::new("incrbyfloat", Group::String, 3, "2.6.0")
        .about("Adds a number to a floating-point number.", "O(1)")
        .flags(&[Flags::WRITE, Flags::DENYOOM, Flags::FAST])
        .acl(&[Acl::STRING])
        .keys(&[KeySpec::one(1, KeyFlags::RW.and(KeyFlags::ACCESS).and(KeyFlags::UPDATE))])
        .args(&[key("key", 0), arg("increment", ArgKind::Double)]),
);
