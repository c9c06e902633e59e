//! GET and the commands that read a whole string and then change the key: GETEX, GETDEL, GETSET. And STRLEN, DIGEST.

use varve_catalog::{Acl, ArgKind, Flags, Group, KeyFlags, KeySpec, Row, arg, key, one_of};
use varve_exec::notify::{Class, Effect, Words};
use varve_exec::{CmdResult, Command, Ctx, Exec, FileRows};

use super::value::{reply_value, write_as_set};
use crate::generic::options::{Family, Life, Options, TIME_OR_PERSIST, deadline, digest_text};
use varve_store::{Key, Removal, Ttl};

pub(super) const ROWS: FileRows = &[GET, GETDEL, GETSET, GETEX, STRLEN, DIGEST];

/// GET key
fn get(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    let key = ctx.key(1);
    reply_value(ctx, &key).map(|_| ())
}

const GET: Command = Command::new(
    Exec::Keys(get),
    Row::new("get", Group::String, 2, "1.0.0")
        .about("Answers a string.", "O(1)")
        .flags(&[Flags::READONLY, Flags::FAST])
        .acl(&[Acl::STRING])
        .keys(&[KeySpec::one(1, KeyFlags::RO.and(KeyFlags::ACCESS))])
        .args(&[key("key", 0)]),
);

/// GETDEL key
fn getdel(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    let key = ctx.key(1);
    reply_value(ctx, &key).map(|found| {
        if found {
            ctx.tx.remove(&key);
            ctx.did_remove(&key, Removal::Taken);
        }
    })
}

const GETDEL: Command = Command::new(
    Exec::Keys(getdel),
    Row::new("getdel", Group::String, 2, "6.2.0")
        .about("Answers a string and removes its key.", "O(1)")
        .flags(&[Flags::WRITE, Flags::FAST])
        .acl(&[Acl::STRING])
        .keys(&[KeySpec::one(1, KeyFlags::RW.and(KeyFlags::ACCESS).and(KeyFlags::DELETE))])
        .args(&[key("key", 0)]),
);

/// GETSET key value
fn getset(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    let key = ctx.key(1);
    reply_value(ctx, &key)?;
    write_as_set(ctx, &key, 2, Ttl::Clear);
    Ok(())
}

const GETSET: Command = Command::new(
    Exec::Keys(getset),
    Row::new("getset", Group::String, 3, "1.0.0")
        .about("Sets a string and answers the old one.", "O(1)")
        .flags(&[Flags::WRITE, Flags::DENYOOM, Flags::FAST])
        .acl(&[Acl::STRING])
        .keys(&[KeySpec::one(1, KeyFlags::RW.and(KeyFlags::ACCESS).and(KeyFlags::UPDATE))])
        .deprecated("6.2.0", "`SET` with the `!GET` argument")
        .args(&[key("key", 0), arg("value", ArgKind::String)]),
);

/// GETEX key [EX s | PX ms | EXAT s | PXAT ms | PERSIST]
fn getex(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    let options = Options::parse(&ctx.args, 2..ctx.args.len(), Family::Getex)?;
    let key = ctx.key(1);
    let now_ms = ctx.tx.now_ms();
    let large = ctx.tx.pin_min();
    let Some(value) = ctx.tx.get(&key)? else {
        ctx.out.null();
        return Ok(());
    };
    // The time is checked after the key is found: without the key even a bad one answers null.
    let at = match options.life {
        Life::Until(unit, text) => Some(deadline(text, unit, now_ms, "getex")?),
        _ => None,
    };
    if value.len() < large {
        ctx.out.bulk(value);
    } else {
        let whole = 0..value.len();
        ctx.reply_large(&key, whole);
    }
    match at {
        Some(at) => expire_at(ctx, &key, at),
        None if options.life == Life::Persist && ctx.tx.expiry(&key).flatten().is_some() => {
            ctx.tx.set_expiry(&key, None);
            let words = |words: &mut Words<'_>| _ = words.add(b"PERSIST").add(key.bytes);
            ctx.did(&key, Effect::words(Class::Generic, "persist", 1, &words));
        }
        None => {}
    }
    Ok(())
}

const GETEX: Command = Command::new(
    Exec::Keys(getex),
    Row::new("getex", Group::String, -2, "6.2.0")
        .about("Answers a string and sets or clears its expiry.", "O(1)")
        .flags(&[Flags::WRITE, Flags::FAST])
        .acl(&[Acl::STRING])
        .keys(&[KeySpec::one(1, KeyFlags::RW.and(KeyFlags::ACCESS).and(KeyFlags::UPDATE))
            .notes("RW and UPDATE because it changes the TTL")])
        .args(&[key("key", 0), one_of("expiration", TIME_OR_PERSIST).optional()]),
);

/// Sets the expiry, or removes the key if that time is over.
fn expire_at(ctx: &mut Ctx<'_, '_>, key: &Key<'_>, at: i64) {
    if at <= ctx.tx.now_ms() && ctx.tx.ends_overdue() {
        ctx.tx.remove(key);
        ctx.did_remove(key, Removal::Expired);
    } else {
        ctx.tx.set_expiry(key, Some(at));
        let words = |words: &mut Words<'_>| _ = words.add(b"PEXPIREAT").add(key.bytes).number(at);
        ctx.did(key, Effect::words(Class::Generic, "expire", 1, &words));
    }
}

/// STRLEN key
fn strlen(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    let key = ctx.key(1);
    let length = ctx.tx.get(&key).map(|value| value.map_or(0, <[u8]>::len));
    length.map(|n| ctx.out.integer(n as i64)).map_err(Into::into)
}

const STRLEN: Command = Command::new(
    Exec::Keys(strlen),
    Row::new("strlen", Group::String, 2, "2.2.0")
        .about("Answers the length of a string.", "O(1)")
        .flags(&[Flags::READONLY, Flags::FAST])
        .acl(&[Acl::STRING])
        .keys(&[KeySpec::one(1, KeyFlags::RO)])
        .args(&[key("key", 0)]),
);

/// DIGEST key
fn digest(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    let key = ctx.key(1);
    match ctx.tx.get(&key)? {
        None => ctx.out.null(),
        Some(value) => ctx.out.bulk(&digest_text(value)),
    }
    Ok(())
}

const DIGEST: Command = Command::new(
    Exec::Keys(digest),
    Row::new("digest", Group::String, 2, "8.4.0")
        .about("Answers the XXH3 hash of a string.", "O(N) where N is the length of the string")
        .flags(&[Flags::READONLY, Flags::FAST])
        .acl(&[Acl::STRING])
        .keys(&[KeySpec::one(1, KeyFlags::RO.and(KeyFlags::ACCESS))])
        .args(&[key("key", 0)]),
);
