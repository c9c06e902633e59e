//! HGETEX, HSETEX, HGETDEL: values of fields together with when these expire, or with their end.

use varve_catalog::{Acl, ArgKind, Argument, Flags, Group, KeyFlags, KeySpec, Row, arg, block, key, one_of, word};
use varve_exec::notify::{Class, Effect, Words};
use varve_exec::{CmdResult, Command, Ctx, Exec, FileRows};
use varve_protocol::Args;
use varve_store::{Key, REWRITTEN_AT_ONCE};

use super::expiry::{
    Changed, Dated, FIELDS, counted, did_end, did_expire, did_persist, fields_alone, find_fields, time_of,
};
use super::read::bulk_or_null;
use super::write::PAIRS;
use crate::generic::options::{Family, Life, Options, TIME_OR_KEEPTTL, TIME_OR_PERSIST, When};

pub(super) const ROWS: FileRows = &[HGETEX, HSETEX, HGETDEL];

/// HGETEX key [EX s | PX ms | EXAT s | PXAT ms | PERSIST] FIELDS numfields field [field ...]
fn hgetex(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    let args = ctx.args;
    let at = find_fields(&args, 2)?;
    let options = Options::parse(&args, 2..at, Family::Getex)?;
    let (fields, key) = (counted(&args, at, 1)?, ctx.key(1));
    ctx.tx.hash_len(&key)?;
    let until = match options.life {
        Life::Until(unit, text) => Some(time_of(text, unit, ctx.tx.now_ms(), "hgetex")?),
        _ => None,
    };
    let is_over = until.is_some_and(|until| until <= ctx.tx.now_ms()) && ctx.tx.ends_overdue();
    ctx.out.array(fields.len());
    let mut changed = Changed::new();
    let mut dated = Dated::new(until);
    for field in fields.iter() {
        let out = &mut *ctx.out;
        let mut found = false;
        ctx.tx.hash_take_or_get(&key, field, is_over, |value| {
            found = value.is_some();
            bulk_or_null(out, value);
        })?;
        let changes = match until {
            Some(_) => found,
            None => options.life == Life::Persist && dated.expiry(ctx, &key, field)?.flatten().is_some(),
        };
        if changes {
            changed.push(field);
            // A field that comes again is not written again: of few fields, those that wait are looked at.
            let is_few = fields.len() <= REWRITTEN_AT_ONCE;
            if !is_over && (is_few || dated.expiry(ctx, &key, field)? != Some(until)) {
                dated.add(ctx, &key, field)?;
            }
        }
    }
    dated.write(ctx, &key)?;
    match until {
        Some(_) if is_over => did_end(ctx, &key, &changed),
        Some(until) => did_expire(ctx, &key, until, &changed),
        None => did_persist(ctx, &key, &changed),
    }
    Ok(())
}

/// The ways to say when fields expire.
const fn times(others: &'static [Argument]) -> Argument {
    one_of("expiration", others).optional()
}

const HGETEX: Command = Command::new(
    Exec::Keys(hgetex),
    Row::new("hgetex", Group::Hash, -5, "8.0.0")
        .about("Answers the values of fields and sets when these expire.", "O(N) in the fields named")
        .flags(&[Flags::WRITE, Flags::FAST])
        .acl(&[Acl::HASH])
        .keys(&[KeySpec::one(1, KeyFlags::RW.and(KeyFlags::ACCESS).and(KeyFlags::UPDATE))])
        .args(&[key("key", 0), times(TIME_OR_PERSIST), FIELDS]),
);

/// HSETEX key [NX | XX] [FNX | FXX] [EX s | PX ms | EXAT s | PXAT ms | KEEPTTL] FIELDS numfields field value [field value ...]
fn hsetex(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    let args = ctx.args;
    let at = find_fields(&args, 2)?;
    let options = Options::parse(&args, 2..at, Family::Hsetex)?;
    let (fields, key) = (counted(&args, at, 2)?, ctx.key(1));
    ctx.tx.hash_check(&key)?;
    let exists = options.when == When::Always || ctx.tx.exists(&key) != (options.when == When::Absent);
    let until = match options.life {
        // Where the condition on the key fails even a bad time answers 0.
        Life::Until(unit, text) if exists => Some(time_of(text, unit, ctx.tx.now_ms(), "hsetex")?),
        _ => None,
    };
    let holds = exists && may_set(ctx, &key, options.fields, fields)?;
    if holds {
        let is_over = until.is_some_and(|until| until <= ctx.tx.now_ms()) && ctx.tx.ends_overdue();
        if is_over { end_fields(ctx, &key, fields)? } else { set_fields(ctx, &key, options.life, until, fields)? }
    }
    ctx.out.integer(i64::from(holds));
    Ok(())
}

/// Whether the condition on the fields holds for each of them.
fn may_set(ctx: &mut Ctx<'_, '_>, key: &Key<'_>, when: When<'_>, fields: Args<'_>) -> CmdResult<bool> {
    if when == When::Always {
        return Ok(true);
    }
    for at in (0..fields.len()).step_by(2) {
        let is_there = ctx.tx.hash_expiry(key, fields.get(at))?.is_some();
        if is_there != (when == When::Present) {
            return Ok(false);
        }
    }
    Ok(true)
}

fn set_fields(ctx: &mut Ctx<'_, '_>, key: &Key<'_>, life: Life<'_>, until: Option<i64>, fields: Args<'_>) -> CmdResult {
    let pairs = (0..fields.len()).step_by(2).map(|at| (fields.get(at), fields.get(at + 1)));
    if let Some(until) = until {
        ctx.tx.hash_set_dated(key, pairs.map(|(field, value)| (field, value, Some(until))))?;
    } else if life == Life::Keep {
        ctx.tx.hash_set_kept(key, pairs)?;
    } else {
        ctx.tx.hash_set(key, pairs)?;
    }
    let words = |words: &mut Words<'_>| {
        match until {
            Some(until) => _ = words.add(b"HSETEX").add(key.bytes).add(b"PXAT").number(until),
            None if life == Life::Keep => _ = words.add(b"HSETEX").add(key.bytes).add(b"KEEPTTL"),
            // In words that a Redis 7.0 knows.
            None => _ = words.add(b"HSET").add(key.bytes),
        }
        if until.is_some() || life == Life::Keep {
            words.add(b"FIELDS").number(fields.len() as i64 / 2);
        }
        fields.iter().for_each(|word| _ = words.add(word));
    };
    ctx.did(key, Effect::words(Class::Hash, "hset", fields.len() as u64 / 2, &words));
    if until.is_some() {
        ctx.did(key, Effect::event(Class::Hash, "hexpire"));
    }
    Ok(())
}

/// Ends fields that were to be set with a time that is over. The events are those of fields that are set and expire.
fn end_fields(ctx: &mut Ctx<'_, '_>, key: &Key<'_>, fields: Args<'_>) -> CmdResult {
    let names: Changed<'_> = (0..fields.len()).step_by(2).map(|at| fields.get(at)).collect();
    let removed = ctx.tx.hash_remove(key, names.iter().copied())?;
    ctx.did(key, Effect::event(Class::Hash, "hset"));
    ctx.did(key, Effect::event(Class::Hash, "hexpire"));
    if removed > 0 {
        did_end(ctx, key, &names);
        return Ok(());
    }
    ctx.did(key, Effect::event(Class::Hash, "hexpired"));
    if !ctx.tx.exists(key) {
        ctx.did(key, Effect::event(Class::Generic, "del"));
    }
    Ok(())
}

const HSETEX: Command = Command::new(
    Exec::Keys(hsetex),
    Row::new("hsetex", Group::Hash, -6, "8.0.0")
        .about("Sets fields of a hash, and when they expire.", "O(N) in the fields set")
        .flags(&[Flags::WRITE, Flags::DENYOOM, Flags::FAST])
        .acl(&[Acl::HASH])
        .keys(&[KeySpec::one(1, KeyFlags::RW.and(KeyFlags::INSERT))])
        .args(&[
            key("key", 0),
            one_of("condition", &[word("nx", "NX"), word("xx", "XX")]).optional(),
            one_of("fields-condition", &[word("fnx", "FNX"), word("fxx", "FXX")]).optional(),
            times(TIME_OR_KEEPTTL),
            block("fields", &[arg("numfields", ArgKind::Integer), PAIRS]).token("FIELDS"),
        ]),
);

/// HGETDEL key FIELDS numfields field [field ...]
fn hgetdel(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    let args = ctx.args;
    let (fields, key) = (fields_alone(&args)?, ctx.key(1));
    ctx.tx.hash_check(&key)?;
    ctx.out.array(fields.len());
    let mut taken = 0;
    for field in fields.iter() {
        let out = &mut *ctx.out;
        ctx.tx.hash_take_or_get(&key, field, true, |value| {
            taken += u64::from(value.is_some());
            bulk_or_null(out, value);
        })?;
    }
    if taken > 0 {
        let words = |words: &mut Words<'_>| {
            words.add(b"HDEL").add(key.bytes);
            fields.iter().for_each(|field| _ = words.add(field));
        };
        ctx.did_taken(&key, Effect::words(Class::Hash, "hdel", taken, &words));
    }
    Ok(())
}

const HGETDEL: Command = Command::new(
    Exec::Keys(hgetdel),
    Row::new("hgetdel", Group::Hash, -5, "8.0.0")
        .about("Answers the values of fields and removes these.", "O(N) in the fields named")
        .flags(&[Flags::WRITE, Flags::FAST])
        .acl(&[Acl::HASH])
        .keys(&[KeySpec::one(1, KeyFlags::RW.and(KeyFlags::ACCESS).and(KeyFlags::DELETE))])
        .args(&[key("key", 0), FIELDS]),
);
