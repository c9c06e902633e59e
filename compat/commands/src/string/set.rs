//! SET and its short forms; DELIFEQ and DELEX.

use varve_catalog::{
    Acl, ArgKind, Behaviour, Flags, Group, KeyFlags, KeySpec, Row, arg, delex_flags, key, one_of, set_flags, word,
};
use varve_exec::notify::{Again, Words};
use varve_exec::{CmdResult, Command, CommandError, Ctx, Exec, FileRows};
use varve_store::{Key, Removal, Ttl};

use super::value::{reply_value, write, write_as_set};
use crate::errors;
use crate::generic::options::{Condition, Family, Life, Options, Unit, When};
use crate::grammar::is;

pub(super) const ROWS: FileRows = &[SET, SETNX, SETEX, PSETEX, DELIFEQ, DELEX];

/// SET key value [NX | XX | IFEQ value | IFNE value | IFDEQ digest | IFDNE digest] [GET] [EX s | PX ms | EXAT s | PXAT ms | KEEPTTL]
fn set(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    if ctx.args.len() == 3 {
        let key = ctx.key(1);
        ctx.set_to(&key, 2, Ttl::Clear, Again::Sent);
        ctx.out.ok();
        return Ok(());
    }
    set_with_options(ctx)
}

const SET: Command = Command::new(
    Exec::Keys(set),
    Row::new("set", Group::String, -3, "1.0.0")
        .about("Sets a key to a string, whatever it held.", "O(1)")
        .flags(&[Flags::WRITE, Flags::DENYOOM])
        .acl(&[Acl::STRING])
        .keys(&[KeySpec::one(
            1,
            KeyFlags::RW.and(KeyFlags::ACCESS).and(KeyFlags::UPDATE).and(KeyFlags::VARIABLE_FLAGS),
        )
        .notes("RW and ACCESS due to the optional `GET` argument")])
        .history(&[
            ("2.6.12", "`EX`, `PX`, `NX` and `XX`."),
            ("6.0.0", "`KEEPTTL`."),
            ("6.2.0", "`GET`, `EXAT` and `PXAT`."),
            ("7.0.0", "`NX` goes together with `GET`."),
        ])
        .args(&[
            key("key", 0),
            arg("value", ArgKind::String),
            one_of("condition", &[word("nx", "NX"), word("xx", "XX")]).since("2.6.12").optional(),
            word("get", "GET").since("6.2.0").optional(),
            one_of(
                "expiration",
                &[
                    arg("seconds", ArgKind::Integer).token("EX").since("2.6.12"),
                    arg("milliseconds", ArgKind::Integer).token("PX").since("2.6.12"),
                    arg("unix-time-seconds", ArgKind::UnixTime).token("EXAT").since("6.2.0"),
                    arg("unix-time-milliseconds", ArgKind::UnixTime).token("PXAT").since("6.2.0"),
                    word("keepttl", "KEEPTTL").since("6.0.0"),
                ],
            )
            .optional(),
        ])
        .vary(set_flags)
        .behaviour(Behaviour::CONSTANT_TIME),
);

fn set_with_options(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    let options = Options::parse(&ctx.args, 3..ctx.args.len(), Family::Set)?;
    let ttl = options.life.ttl(ctx.tx.now_ms(), "set")?;
    let key = ctx.key(1);
    if options.get {
        // A condition that cannot be is refused before anything is replied.
        let holds = match options.when {
            When::If(condition) => condition.holds(ctx.tx.peek(&key)?)?,
            _ => true,
        };
        let was_there = reply_value(ctx, &key)?;
        let bars = match options.when {
            When::Absent => was_there,
            When::Present => !was_there,
            When::Always | When::If(_) => !holds,
        };
        if !bars {
            set_again(ctx, &key, &options, ttl);
        }
        return Ok(());
    }
    if ctx.meets_due_fields([ctx.key(1)]) {
        return ctx.put_back();
    }
    let go = match options.when {
        When::Always => true,
        When::Absent => !ctx.tx.exists(&key),
        When::Present => ctx.tx.exists(&key),
        When::If(condition) => condition.holds(ctx.tx.peek(&key)?)?,
    };
    if go {
        set_again(ctx, &key, &options, ttl);
        ctx.out.ok();
    } else {
        ctx.out.null();
    }
    Ok(())
}

/// Sets the string as SET was sent with options; it is done again without GET, and with an absolute time.
fn set_again(ctx: &mut Ctx<'_, '_>, key: &Key<'_>, options: &Options<'_>, ttl: Ttl) {
    let args = ctx.args;
    match options.when {
        When::If(_) => write_as_set(ctx, key, 2, ttl),
        _ if options.get && !matches!(ttl, Ttl::At(_)) => {
            let is_get = |at: usize| at > 2 && is(args.get(at), "GET");
            let without_get = |words: &mut Words<'_>| {
                (0..args.len()).filter(|at| !is_get(*at)).for_each(|at| _ = words.add(args.get(at)));
            };
            write(ctx, key, 2, ttl, Again::Words(&without_get));
        }
        _ => write(ctx, key, 2, ttl, Again::Sent),
    }
}

/// SETNX key value
fn setnx(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    if ctx.meets_due_fields([ctx.key(1)]) {
        return ctx.put_back();
    }
    let key = ctx.key(1);
    let free = !ctx.tx.exists(&key);
    if free {
        ctx.set_to(&key, 2, Ttl::Clear, Again::Sent);
    }
    ctx.out.integer(i64::from(free));
    Ok(())
}

const SETNX: Command = Command::new(
    Exec::Keys(setnx),
    Row::new("setnx", Group::String, 3, "1.0.0")
        .about("Sets a string if the key does not exist.", "O(1)")
        .flags(&[Flags::WRITE, Flags::DENYOOM, Flags::FAST])
        .acl(&[Acl::STRING])
        .keys(&[KeySpec::one(1, KeyFlags::OW.and(KeyFlags::INSERT))])
        .args(&[key("key", 0), arg("value", ArgKind::String)]),
);

/// SETEX key seconds value
fn setex(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    set_for(ctx, Unit::Seconds, "setex")
}

const SETEX: Command = Command::new(
    Exec::Keys(setex),
    Row::new("setex", Group::String, 4, "2.0.0")
        .about("Sets a string that expires after a number of seconds.", "O(1)")
        .flags(&[Flags::WRITE, Flags::DENYOOM])
        .acl(&[Acl::STRING])
        .keys(&[KeySpec::one(1, KeyFlags::OW.and(KeyFlags::UPDATE))])
        .args(&[key("key", 0), arg("seconds", ArgKind::Integer), arg("value", ArgKind::String)])
        .behaviour(Behaviour::CONSTANT_TIME),
);

/// PSETEX key milliseconds value
fn psetex(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    set_for(ctx, Unit::Millis, "psetex")
}

const PSETEX: Command = Command::new(
    Exec::Keys(psetex),
    Row::new("psetex", Group::String, 4, "2.6.0")
        .about("Sets a string that expires after a number of milliseconds.", "O(1)")
        .flags(&[Flags::WRITE, Flags::DENYOOM])
        .acl(&[Acl::STRING])
        .keys(&[KeySpec::one(1, KeyFlags::OW.and(KeyFlags::UPDATE))])
        .args(&[key("key", 0), arg("milliseconds", ArgKind::Integer), arg("value", ArgKind::String)])
        .behaviour(Behaviour::CONSTANT_TIME),
);

fn set_for(ctx: &mut Ctx<'_, '_>, unit: Unit, command: &str) -> CmdResult {
    let ttl = Life::Until(unit, ctx.args.get(2)).ttl(ctx.tx.now_ms(), command)?;
    let key = ctx.key(1);
    write(ctx, &key, 3, ttl, Again::Sent);
    ctx.out.ok();
    Ok(())
}

/// DELIFEQ key value
fn delifeq(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    let key = ctx.key(1);
    let equal = ctx.tx.peek(&key)? == Some(ctx.args.get(2));
    let done = equal && ctx.tx.remove(&key);
    if done {
        ctx.did_remove(&key, Removal::Deleted);
    }
    ctx.out.integer(i64::from(done));
    Ok(())
}

const DELIFEQ: Command = Command::new(
    Exec::Keys(delifeq),
    Row::new("delifeq", Group::String, 3, "9.0.0")
        .about("Removes a key if it holds this string.", "O(1)")
        .flags(&[Flags::WRITE, Flags::FAST])
        .acl(&[Acl::STRING])
        .keys(&[KeySpec::one(1, KeyFlags::RM.and(KeyFlags::ACCESS).and(KeyFlags::DELETE))])
        .args(&[key("key", 0), arg("value", ArgKind::String)]),
);

/// DELEX key [IFEQ value | IFNE value | IFDEQ digest | IFDNE digest]
fn delex(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    let (key, args) = (ctx.key(1), ctx.args);
    let go = match args.len() {
        2 => true,
        4 => {
            let old = ctx.tx.peek(&key).map_err(|_| errors::DELEX_TYPE)?;
            let condition = Condition::parse(args.get(2), args.get(3)).ok_or(errors::DELEX_CONDITION)?;
            old.is_some() && condition.holds(old)?
        }
        _ => return Err(CommandError::arity("delex")),
    };
    if ctx.meets_due_fields([ctx.key(1)]) {
        return ctx.put_back();
    }
    let done = go && ctx.tx.remove(&key);
    if done {
        ctx.did_remove(&key, Removal::Deleted);
    }
    ctx.out.integer(i64::from(done));
    Ok(())
}

const DELEX: Command = Command::new(
    Exec::Keys(delex),
    Row::new("delex", Group::String, -2, "8.4.0")
        .about("Removes a key if it holds a string for which a condition holds.", "O(1), by digest O(N)")
        .flags(&[Flags::WRITE, Flags::FAST])
        .acl(&[Acl::STRING])
        .keys(&[KeySpec::one(
            1,
            KeyFlags::RW.and(KeyFlags::ACCESS).and(KeyFlags::DELETE).and(KeyFlags::VARIABLE_FLAGS),
        )
        .notes("RW and ACCESS due to the optional condition")])
        .vary(delex_flags)
        .args(&[
            key("key", 0),
            one_of(
                "condition",
                &[
                    arg("ifeq-value", ArgKind::String).token("IFEQ"),
                    arg("ifne-value", ArgKind::String).token("IFNE"),
                    arg("ifdeq-digest", ArgKind::String).token("IFDEQ"),
                    arg("ifdne-digest", ArgKind::String).token("IFDNE"),
                ],
            )
            .optional(),
        ]),
);
