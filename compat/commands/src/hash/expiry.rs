//! Time to live of fields: HEXPIRE and its kin set it, HTTL and its kin tell it, HPERSIST ends it.
//!
//! Where Redis 8 and Valkey 9 answer differently, the answer is that of Valkey 9.1: the texts about `numfields`, and a time of 0,
//! which ends a field at once. A field expires at a time of 48 bits at most; Valkey takes more.

use smallvec::SmallVec;
use varve_catalog::{Acl, ArgKind, Argument, Flags, Group, KeyFlags, KeySpec, Row, arg, block, key};
use varve_exec::notify::{Class, Effect, Words};
use varve_exec::{CmdResult, Command, CommandError, Ctx, Exec, FileRows};
use varve_protocol::Args;
use varve_store::{FIELD_EXPIRY_MS_MAX, Key, REWRITTEN_AT_ONCE};

use crate::errors;
use crate::generic::expiry::{CONDITION, Conditions};
use crate::generic::options::{Unit, deadline_from};
use crate::grammar::{integer, is, rounded_seconds};

pub(super) const ROWS: FileRows =
    &[HEXPIRE, HPEXPIRE, HEXPIREAT, HPEXPIREAT, HTTL, HPTTL, HEXPIRETIME, HPEXPIRETIME, HPERSIST];

/// The fields behind the word FIELDS and their number.
pub(super) const FIELDS: Argument =
    block("fields", &[arg("numfields", ArgKind::Integer), arg("field", ArgKind::String).multiple()]).token("FIELDS");

/// The place of the word FIELDS, from `first` on. Something stands behind it.
pub(super) fn find_fields(args: &Args<'_>, first: usize) -> CmdResult<usize> {
    let found = (first..args.len() - 1).find(|&at| is(args.get(at), "FIELDS"));
    found.ok_or(errors::FIELDS_NUMBER)
}

/// The fields behind the number that follows FIELDS at `at`: as many fields as it says, each with `words` words.
pub(super) fn counted<'a>(args: &Args<'a>, at: usize, words: usize) -> CmdResult<Args<'a>> {
    let (count, fields) = (integer(args.get(at + 1))?, args.skip(at + 2));
    let is_right = count > 0 && count.checked_mul(words as i64) == Some(fields.len() as i64);
    if is_right { Ok(fields) } else { Err(errors::FIELDS_NUMBER) }
}

/// The fields of a command whose arguments behind the key are the word FIELDS, the number of fields, and these.
pub(super) fn fields_alone<'a>(args: &Args<'a>) -> CmdResult<Args<'a>> {
    if is(args.get(2), "FIELDS") { counted(args, 2, 1) } else { Err(CommandError::SYNTAX) }
}

/// The time at which fields expire, in milliseconds of Unix time.
pub(super) fn time_of(text: &[u8], unit: Unit, now_ms: i64, command: &str) -> CmdResult<i64> {
    let at = deadline_from(0, text, unit, now_ms, command)?;
    if at > FIELD_EXPIRY_MS_MAX { Err(CommandError::expire_time(command)) } else { Ok(at) }
}

/// The row of a command that sets a time to live, but for its arguments.
const fn expiring(name: &'static str, summary: &'static str) -> Row {
    Row::new(name, Group::Hash, -6, "7.4.0")
        .about(summary, "O(N) in the fields named")
        .flags(&[Flags::WRITE, Flags::FAST])
        .acl(&[Acl::HASH])
        .keys(const { &[KeySpec::one(1, KeyFlags::RW.and(KeyFlags::UPDATE))] })
}

/// HEXPIRE key seconds [NX | XX | GT | LT] FIELDS numfields field [field ...]
fn hexpire(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    expire(ctx, Unit::Seconds, "hexpire")
}

const HEXPIRE: Command = Command::new(
    Exec::Keys(hexpire),
    expiring("hexpire", "Lets fields of a hash expire after a number of seconds.").args(&[
        key("key", 0),
        arg("seconds", ArgKind::Integer),
        CONDITION,
        FIELDS,
    ]),
);

/// HPEXPIRE key milliseconds [NX | XX | GT | LT] FIELDS numfields field [field ...]
fn hpexpire(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    expire(ctx, Unit::Millis, "hpexpire")
}

const HPEXPIRE: Command = Command::new(
    Exec::Keys(hpexpire),
    expiring("hpexpire", "Lets fields of a hash expire after a number of milliseconds.").args(&[
        key("key", 0),
        arg("milliseconds", ArgKind::Integer),
        CONDITION,
        FIELDS,
    ]),
);

/// HEXPIREAT key unix-seconds [NX | XX | GT | LT] FIELDS numfields field [field ...]
fn hexpireat(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    expire(ctx, Unit::UnixSeconds, "hexpireat")
}

const HEXPIREAT: Command = Command::new(
    Exec::Keys(hexpireat),
    expiring("hexpireat", "Lets fields of a hash expire at a Unix time in seconds.").args(&[
        key("key", 0),
        arg("unix-time-seconds", ArgKind::UnixTime),
        CONDITION,
        FIELDS,
    ]),
);

/// HPEXPIREAT key unix-milliseconds [NX | XX | GT | LT] FIELDS numfields field [field ...]
fn hpexpireat(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    expire(ctx, Unit::UnixMillis, "hpexpireat")
}

const HPEXPIREAT: Command = Command::new(
    Exec::Keys(hpexpireat),
    expiring("hpexpireat", "Lets fields of a hash expire at a Unix time in milliseconds.").args(&[
        key("key", 0),
        arg("unix-time-milliseconds", ArgKind::UnixTime),
        CONDITION,
        FIELDS,
    ]),
);

/// Sets when fields expire, each if it meets the conditions. Replies for each: -2 without it, 0 if it does not meet them, 1
/// if it was set, 2 if the time is over and the field is gone.
fn expire(ctx: &mut Ctx<'_, '_>, unit: Unit, command: &str) -> CmdResult {
    let args = ctx.args;
    let at = find_fields(&args, 3)?;
    let conditions = Conditions::parse(&args, 3..at)?;
    let fields = counted(&args, at, 1)?;
    let until = time_of(args.get(2), unit, ctx.tx.now_ms(), command)?;
    let key = ctx.key(1);
    ctx.tx.hash_check(&key)?;
    let is_over = until <= ctx.tx.now_ms() && ctx.tx.ends_overdue();
    ctx.out.array(fields.len());
    let mut changed = Changed::new();
    let mut dated = Dated::new(Some(until));
    for field in fields.iter() {
        let answer = match dated.expiry(ctx, &key, field)? {
            None => -2,
            Some(old) if !conditions.hold(old, until) => 0,
            Some(old) => {
                changed.push(field);
                if is_over {
                    ctx.tx.hash_remove(&key, std::iter::once(field))?;
                    2
                } else {
                    // A field that comes again is not written again.
                    if old != Some(until) {
                        dated.add(ctx, &key, field)?;
                    }
                    1
                }
            }
        };
        ctx.out.integer(answer);
    }
    dated.write(ctx, &key)?;
    if is_over {
        did_end(ctx, &key, &changed);
    } else {
        did_expire(ctx, &key, until, &changed);
    }
    Ok(())
}

/// Fields of a hash that are to expire at one time, or not at all: some are written at once, since a small hash is written anew for
/// each write.
pub(super) struct Dated<'a> {
    until: Option<i64>,
    waiting: SmallVec<[&'a [u8]; REWRITTEN_AT_ONCE]>,
}

impl<'a> Dated<'a> {
    pub(super) fn new(until: Option<i64>) -> Dated<'a> {
        Dated { until, waiting: SmallVec::new() }
    }

    /// When a field of the hash expires, as [`Tx::hash_expiry`] says it: what waits is as if it were written.
    pub(super) fn expiry(&self, ctx: &mut Ctx<'_, '_>, key: &Key<'_>, field: &[u8]) -> CmdResult<Option<Option<i64>>> {
        if self.waiting.contains(&field) { Ok(Some(self.until)) } else { Ok(ctx.tx.hash_expiry(key, field)?) }
    }

    /// Adds a field that the hash has, unless it waits.
    pub(super) fn add(&mut self, ctx: &mut Ctx<'_, '_>, key: &Key<'_>, field: &'a [u8]) -> CmdResult {
        if self.waiting.contains(&field) {
            return Ok(());
        }
        self.waiting.push(field);
        if self.waiting.len() == REWRITTEN_AT_ONCE { self.write(ctx, key) } else { Ok(()) }
    }

    /// Writes what waits.
    pub(super) fn write(&mut self, ctx: &mut Ctx<'_, '_>, key: &Key<'_>) -> CmdResult {
        if !self.waiting.is_empty() {
            ctx.tx.hash_set_expiries(key, &self.waiting, self.until)?;
            self.waiting.clear();
        }
        Ok(())
    }
}

/// Fields that a command has changed.
pub(super) type Changed<'a> = SmallVec<[&'a [u8]; 8]>;

/// Adds fields behind the word FIELDS and their number.
fn add_fields(words: &mut Words<'_>, fields: &[&[u8]]) {
    words.add(b"FIELDS").number(fields.len() as i64);
    fields.iter().for_each(|field| _ = words.add(field));
}

/// Reports that fields expire at a time.
pub(super) fn did_expire(ctx: &mut Ctx<'_, '_>, key: &Key<'_>, until: i64, fields: &[&[u8]]) {
    if fields.is_empty() {
        return;
    }
    let words = |words: &mut Words<'_>| {
        words.add(b"HPEXPIREAT").add(key.bytes).number(until);
        add_fields(words, fields);
    };
    ctx.did(key, Effect::words(Class::Hash, "hexpire", fields.len() as u64, &words));
}

/// Reports that fields have ended, since they were given a time that is over.
pub(super) fn did_end(ctx: &mut Ctx<'_, '_>, key: &Key<'_>, fields: &[&[u8]]) {
    if fields.is_empty() {
        return;
    }
    let words = |words: &mut Words<'_>| {
        words.add(b"HDEL").add(key.bytes);
        fields.iter().for_each(|field| _ = words.add(field));
    };
    ctx.did_taken(key, Effect::words(Class::Hash, "hexpired", fields.len() as u64, &words));
}

/// Reports that fields do not expire any more.
pub(super) fn did_persist(ctx: &mut Ctx<'_, '_>, key: &Key<'_>, fields: &[&[u8]]) {
    if fields.is_empty() {
        return;
    }
    let words = |words: &mut Words<'_>| {
        words.add(b"HPERSIST").add(key.bytes);
        add_fields(words, fields);
    };
    ctx.did(key, Effect::words(Class::Hash, "hpersist", fields.len() as u64, &words));
}

/// HPERSIST key FIELDS numfields field [field ...]
fn hpersist(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    let args = ctx.args;
    let (fields, key) = (fields_alone(&args)?, ctx.key(1));
    ctx.tx.hash_check(&key)?;
    ctx.out.array(fields.len());
    let mut changed = Changed::new();
    let mut dated = Dated::new(None);
    for field in fields.iter() {
        let answer = match dated.expiry(ctx, &key, field)? {
            None => -2,
            Some(None) => -1,
            Some(Some(_)) => {
                dated.add(ctx, &key, field)?;
                changed.push(field);
                1
            }
        };
        ctx.out.integer(answer);
    }
    dated.write(ctx, &key)?;
    did_persist(ctx, &key, &changed);
    Ok(())
}

const HPERSIST: Command = Command::new(
    Exec::Keys(hpersist),
    Row::new("hpersist", Group::Hash, -5, "7.4.0")
        .about("Takes away the expiry of fields of a hash.", "O(N) in the fields named")
        .flags(&[Flags::WRITE, Flags::FAST])
        .acl(&[Acl::HASH])
        .keys(&[KeySpec::one(1, KeyFlags::RW.and(KeyFlags::UPDATE))])
        .args(&[key("key", 0), FIELDS]),
);

/// The row of a command that tells a time to live.
const fn telling(name: &'static str, summary: &'static str) -> Row {
    Row::new(name, Group::Hash, -5, "7.4.0")
        .about(summary, "O(N) in the fields named")
        .flags(&[Flags::READONLY, Flags::FAST])
        .acl(&[Acl::HASH])
        .keys(const { &[KeySpec::one(1, KeyFlags::RO.and(KeyFlags::ACCESS))] })
        .args(const { &[key("key", 0), FIELDS] })
}

/// HTTL key FIELDS numfields field [field ...]
fn httl(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    let now_ms = ctx.tx.now_ms();
    tell(ctx, |at| rounded_seconds(at - now_ms))
}

const HTTL: Command = Command::new(
    Exec::Keys(httl),
    telling("httl", "Answers the seconds that fields of a hash have to live.").tips(&["nondeterministic_output"]),
);

/// HPTTL key FIELDS numfields field [field ...]
fn hpttl(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    let now_ms = ctx.tx.now_ms();
    tell(ctx, |at| at - now_ms)
}

const HPTTL: Command = Command::new(
    Exec::Keys(hpttl),
    telling("hpttl", "Answers the milliseconds that fields of a hash have to live.").tips(&["nondeterministic_output"]),
);

/// HEXPIRETIME key FIELDS numfields field [field ...]
fn hexpiretime(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    tell(ctx, rounded_seconds)
}

const HEXPIRETIME: Command = Command::new(
    Exec::Keys(hexpiretime),
    telling("hexpiretime", "Answers the Unix times in seconds at which fields of a hash expire."),
);

/// HPEXPIRETIME key FIELDS numfields field [field ...]
fn hpexpiretime(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    tell(ctx, |at| at)
}

const HPEXPIRETIME: Command = Command::new(
    Exec::Keys(hpexpiretime),
    telling("hpexpiretime", "Answers the Unix times in milliseconds at which fields of a hash expire."),
);

/// Replies for each field -2 without it, -1 if it does not expire, else what `show` makes of its time.
fn tell(ctx: &mut Ctx<'_, '_>, show: impl Fn(i64) -> i64) -> CmdResult {
    let args = ctx.args;
    let fields =
        fields_alone(&args).map_err(|error| if integer(args.get(3)).is_ok() { CommandError::SYNTAX } else { error })?;
    let key = ctx.key(1);
    ctx.tx.hash_len(&key)?;
    ctx.out.array(fields.len());
    for field in fields.iter() {
        let answer = match ctx.tx.hash_expiry(&key, field)? {
            None => -2,
            Some(None) => -1,
            Some(Some(at)) => show(at),
        };
        ctx.out.integer(answer);
    }
    Ok(())
}
