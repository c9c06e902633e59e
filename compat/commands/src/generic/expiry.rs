//! Time to live: EXPIRE and its kin set it, TTL and its kin tell it, PERSIST ends it.

use std::ops::Range;

use varve_catalog::{Acl, ArgKind, Argument, Flags, Group, KeyFlags, KeySpec, Row, arg, key, one_of, word};
use varve_exec::notify::{Again, Class, Effect, Words};
use varve_exec::{CmdResult, Command, CommandError, Ctx, Exec, FileRows};
use varve_protocol::Args;
use varve_store::{Key, Removal};

use crate::errors;
use crate::grammar::{integer, is, rounded_seconds, shown};

pub(super) const ROWS: FileRows = &[EXPIRE, PEXPIRE, EXPIREAT, PEXPIREAT, PERSIST, TTL, PTTL, EXPIRETIME, PEXPIRETIME];

/// The row of a command that sets a time to live, but for its arguments.
const fn expiring(name: &'static str, since: &'static str, summary: &'static str) -> Row {
    Row::new(name, Group::Generic, -3, since)
        .about(summary, "O(1)")
        .flags(&[Flags::WRITE, Flags::FAST])
        .acl(&[Acl::KEYSPACE])
        .keys(const { &[KeySpec::one(1, KeyFlags::RW.and(KeyFlags::UPDATE))] })
        .history(&[("7.0.0", "`NX`, `XX`, `GT` and `LT`.")])
}

/// The row of a command that tells a time to live.
const fn telling(name: &'static str, since: &'static str, summary: &'static str) -> Row {
    Row::new(name, Group::Generic, 2, since)
        .about(summary, "O(1)")
        .flags(&[Flags::READONLY, Flags::FAST])
        .acl(&[Acl::KEYSPACE])
        .keys(const { &[KeySpec::one(1, KeyFlags::RO.and(KeyFlags::ACCESS))] })
        .args(const { &[key("key", 0)] })
}

/// The argument behind the time.
pub(crate) const CONDITION: Argument =
    one_of("condition", &[word("nx", "NX"), word("xx", "XX"), word("gt", "GT"), word("lt", "LT")])
        .since("7.0.0")
        .optional();

/// EXPIRE key seconds [NX | XX | GT | LT]
fn expire(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    let now_ms = ctx.tx.now_ms();
    set_expiry(ctx, 1000, now_ms, "expire")
}

const EXPIRE: Command = Command::new(
    Exec::Keys(expire),
    expiring("expire", "1.0.0", "Lets a key expire after a number of seconds.").args(&[
        key("key", 0),
        arg("seconds", ArgKind::Integer),
        CONDITION,
    ]),
);

/// PEXPIRE key milliseconds [NX | XX | GT | LT]
fn pexpire(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    let now_ms = ctx.tx.now_ms();
    set_expiry(ctx, 1, now_ms, "pexpire")
}

const PEXPIRE: Command = Command::new(
    Exec::Keys(pexpire),
    expiring("pexpire", "2.6.0", "Lets a key expire after a number of milliseconds.").args(&[
        key("key", 0),
        arg("milliseconds", ArgKind::Integer),
        CONDITION,
    ]),
);

/// EXPIREAT key unix-seconds [NX | XX | GT | LT]
fn expireat(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    set_expiry(ctx, 1000, 0, "expireat")
}

const EXPIREAT: Command = Command::new(
    Exec::Keys(expireat),
    expiring("expireat", "1.2.0", "Lets a key expire at a Unix time in seconds.").args(&[
        key("key", 0),
        arg("unix-time-seconds", ArgKind::UnixTime),
        CONDITION,
    ]),
);

/// PEXPIREAT key unix-milliseconds [NX | XX | GT | LT]
fn pexpireat(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    set_expiry(ctx, 1, 0, "pexpireat")
}

const PEXPIREAT: Command = Command::new(
    Exec::Keys(pexpireat),
    expiring("pexpireat", "2.6.0", "Lets a key expire at a Unix time in milliseconds.").args(&[
        key("key", 0),
        arg("unix-time-milliseconds", ArgKind::UnixTime),
        CONDITION,
    ]),
);

/// The conditions that may stand behind the time.
#[derive(Default)]
pub(crate) struct Conditions {
    nx: bool,
    xx: bool,
    gt: bool,
    lt: bool,
}

impl Conditions {
    /// Reads the arguments of a range.
    pub(crate) fn parse(args: &Args<'_>, range: Range<usize>) -> CmdResult<Conditions> {
        let mut c = Conditions::default();
        for at in range {
            let word = args.get(at);
            let known = [("NX", &mut c.nx), ("XX", &mut c.xx), ("GT", &mut c.gt), ("LT", &mut c.lt)]
                .into_iter()
                .find(|(name, _)| is(word, name));
            match known {
                Some((_, flag)) => *flag = true,
                None => return Err(errors::unsupported_option(shown(word))),
            }
        }
        match c {
            Conditions { nx: true, xx, gt, lt } if xx || gt || lt => Err(errors::EXPIRE_NX),
            Conditions { gt: true, lt: true, .. } => Err(errors::EXPIRE_GT_LT),
            c => Ok(c),
        }
    }

    /// Whether a key or a field with the expiry `old` may get `new`. No expiry counts as one that is infinitely late.
    pub(crate) fn hold(&self, old: Option<i64>, new: i64) -> bool {
        let barred = (self.nx && old.is_some())
            || (self.xx && old.is_none())
            || (self.gt && old.is_none_or(|old| new <= old))
            || (self.lt && old.is_some_and(|old| new >= old));
        !barred
    }
}

fn set_expiry(ctx: &mut Ctx<'_, '_>, scale: i64, origin_ms: i64, command: &str) -> CmdResult {
    let conditions = Conditions::parse(&ctx.args, 3..ctx.args.len())?;
    let value = integer(ctx.args.get(2))?;
    let at = value.checked_mul(scale).and_then(|ms| ms.checked_add(origin_ms));
    let at = at.ok_or_else(|| CommandError::expire_time(command))?;
    let key = ctx.key(1);
    let done = match ctx.tx.expiry(&key) {
        Some(old) if conditions.hold(old, at) => {
            if at <= ctx.tx.now_ms() && ctx.tx.ends_overdue() {
                ctx.tx.remove(&key);
                ctx.did_remove(&key, Removal::Expired);
            } else {
                ctx.tx.set_expiry(&key, Some(at));
                did_expire(ctx, &key, at, scale == 1 && origin_ms == 0);
            }
            true
        }
        _ => false,
    };
    ctx.out.integer(i64::from(done));
    Ok(())
}

/// Reports an expiry, which PEXPIREAT sets again with the conditions that were sent: `sent` if it was PEXPIREAT itself.
fn did_expire(ctx: &mut Ctx<'_, '_>, key: &Key<'_>, at: i64, sent: bool) {
    let args = ctx.args;
    let words = |words: &mut Words<'_>| {
        words.add(b"PEXPIREAT").add(key.bytes).number(at);
        args.skip(3).iter().for_each(|word| _ = words.add(word));
    };
    let again = if sent { Again::Sent } else { Again::Words(&words) };
    ctx.did(key, Effect::new(Class::Generic, "expire", 1, again));
}

/// PERSIST key
fn persist(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    let key = ctx.key(1);
    let had = ctx.tx.expiry(&key).flatten().is_some();
    let done = had && ctx.tx.set_expiry(&key, None);
    if done {
        ctx.did(&key, Effect::sent(Class::Generic, "persist", 1));
    }
    ctx.out.integer(i64::from(done));
    Ok(())
}

const PERSIST: Command = Command::new(
    Exec::Keys(persist),
    Row::new("persist", Group::Generic, 2, "2.2.0")
        .about("Takes away a key's expiry.", "O(1)")
        .flags(&[Flags::WRITE, Flags::FAST])
        .acl(&[Acl::KEYSPACE])
        .keys(&[KeySpec::one(1, KeyFlags::RW.and(KeyFlags::UPDATE))])
        .args(&[key("key", 0)]),
);

/// TTL key
fn ttl(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    let now_ms = ctx.tx.now_ms();
    tell(ctx, |at| rounded_seconds(at - now_ms));
    Ok(())
}

const TTL: Command = Command::new(
    Exec::Keys(ttl),
    telling("ttl", "1.0.0", "Answers the seconds that a key has to live.")
        .tips(&["nondeterministic_output"])
        .history(&[("2.8.0", "-2 for a key that does not exist.")]),
);

/// PTTL key
fn pttl(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    let now_ms = ctx.tx.now_ms();
    tell(ctx, |at| at - now_ms);
    Ok(())
}

const PTTL: Command = Command::new(
    Exec::Keys(pttl),
    telling("pttl", "2.6.0", "Answers the milliseconds that a key has to live.")
        .tips(&["nondeterministic_output"])
        .history(&[("2.8.0", "-2 for a key that does not exist.")]),
);

/// EXPIRETIME key
fn expiretime(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    tell(ctx, rounded_seconds);
    Ok(())
}

const EXPIRETIME: Command = Command::new(
    Exec::Keys(expiretime),
    telling("expiretime", "7.0.0", "Answers the Unix time in seconds at which a key expires."),
);

/// PEXPIRETIME key
fn pexpiretime(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    tell(ctx, |at| at);
    Ok(())
}

const PEXPIRETIME: Command = Command::new(
    Exec::Keys(pexpiretime),
    telling("pexpiretime", "7.0.0", "Answers the Unix time in milliseconds at which a key expires."),
);

/// Replies -2 without the key, -1 without expiry.
fn tell(ctx: &mut Ctx<'_, '_>, show: impl Fn(i64) -> i64) {
    let key = ctx.key(1);
    let expiry = ctx.tx.expiry(&key);
    ctx.tx.note_read(&key, expiry.is_some());
    let value = match expiry {
        None => -2,
        Some(None) => -1,
        Some(Some(at)) => show(at),
    };
    ctx.out.integer(value);
}

#[cfg(test)]
mod tests {
    use super::Conditions;

    #[test]
    fn later_and_earlier_treat_no_expiry_as_infinite() {
        let gt = Conditions { gt: true, ..Conditions::default() };
        let lt = Conditions { lt: true, ..Conditions::default() };
        assert!(!gt.hold(None, i64::MAX) && lt.hold(None, i64::MAX));
        assert!(gt.hold(Some(5), 6) && !gt.hold(Some(5), 5));
        assert!(lt.hold(Some(5), 4) && !lt.hold(Some(5), 5));
    }
}
