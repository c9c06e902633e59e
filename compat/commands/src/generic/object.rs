//! OBJECT: what is known of a value besides its content. Nothing here moves the access clock.

use varve_base::number::parse_i64;
use varve_catalog::{Acl, Behaviour, Flags, Group, KeyFlags, KeySpec, Row, key};
use varve_exec::{CmdResult, Command, Ctx, Exec, FileRows, SessionCtx};
use varve_store::{ObjectInfo, Store};

use crate::errors;
use crate::grammar::help;

pub(super) const ROWS: FileRows = &[OBJECT];

const OBJECT_ROWS: FileRows = &[OBJECT_ENCODING, OBJECT_IDLETIME, OBJECT_FREQ, OBJECT_REFCOUNT, OBJECT_HELP];

/// Redis shares the integers below this between all keys and tells a boundless count for them.
const SHARED_INTEGERS: i64 = 10_000;
const SHARED_COUNT: i64 = i32::MAX as i64;

/// OBJECT ENCODING key
fn object_encoding(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    match info(ctx) {
        Some(info) => ctx.out.bulk(info.encoding.as_bytes()),
        None => ctx.out.null(),
    }
    Ok(())
}

const OBJECT_ENCODING: Command = Command::new(
    Exec::Keys(object_encoding),
    Row::sub("object|encoding", "encoding", Group::Generic, 3, "2.2.3")
        .about("Answers how a value is stored.", "O(1)")
        .flags(&[Flags::READONLY])
        .acl(&[Acl::KEYSPACE])
        .keys(&[KeySpec::one(2, KeyFlags::RO)])
        .tips(&["nondeterministic_output"])
        .args(&[key("key", 0)])
        .behaviour(Behaviour::CONSTANT_TIME),
);

/// OBJECT IDLETIME key
fn object_idletime(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    match info(ctx) {
        Some(_) if ctx.tx.store().policy().counts_uses() => return Err(errors::IDLE_TIME_UNDER_LFU),
        Some(info) => ctx.out.integer(info.idle_s as i64),
        None => ctx.out.null(),
    }
    Ok(())
}

const OBJECT_IDLETIME: Command = Command::new(
    Exec::Keys(object_idletime),
    Row::sub("object|idletime", "idletime", Group::Generic, 3, "2.2.3")
        .about("Answers the seconds since a key was accessed.", "O(1)")
        .flags(&[Flags::READONLY])
        .acl(&[Acl::KEYSPACE])
        .keys(&[KeySpec::one(2, KeyFlags::RO)])
        .tips(&["nondeterministic_output"])
        .args(&[key("key", 0)])
        .behaviour(Behaviour::CONSTANT_TIME),
);

/// OBJECT FREQ key
fn object_freq(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    match info(ctx) {
        Some(info) if ctx.tx.store().policy().counts_uses() => ctx.out.integer(i64::from(info.freq)),
        Some(_) => return Err(errors::FREQUENCY_WITHOUT_LFU),
        None => ctx.out.null(),
    }
    Ok(())
}

const OBJECT_FREQ: Command = Command::new(
    Exec::Keys(object_freq),
    Row::sub("object|freq", "freq", Group::Generic, 3, "4.0.0")
        .about("Answers how often a key was accessed, on a logarithmic scale.", "O(1)")
        .flags(&[Flags::READONLY])
        .acl(&[Acl::KEYSPACE])
        .keys(&[KeySpec::one(2, KeyFlags::RO)])
        .tips(&["nondeterministic_output"])
        .args(&[key("key", 0)])
        .behaviour(Behaviour::CONSTANT_TIME),
);

/// OBJECT REFCOUNT key
fn object_refcount(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    let key = ctx.key(2);
    match info(ctx) {
        Some(info) => {
            let shares = shares_integers(ctx.tx.store());
            let count = refcount(&info, ctx.tx.glance(&key), shares);
            ctx.out.integer(count);
        }
        None => ctx.out.null(),
    }
    Ok(())
}

const OBJECT_REFCOUNT: Command = Command::new(
    Exec::Keys(object_refcount),
    Row::sub("object|refcount", "refcount", Group::Generic, 3, "2.2.3")
        .about("Answers the number of references to a value.", "O(1)")
        .flags(&[Flags::READONLY])
        .acl(&[Acl::KEYSPACE])
        .keys(&[KeySpec::one(2, KeyFlags::RO)])
        .tips(&["nondeterministic_output"])
        .args(&[key("key", 0)])
        .behaviour(Behaviour::CONSTANT_TIME),
);

/// The count that Redis would tell: every value is its key's own here, but clients may look for shared integers.
pub(crate) fn refcount(info: &ObjectInfo, value: Option<&[u8]>, shares: bool) -> i64 {
    let number = value.filter(|_| shares && info.encoding == "int" && !info.is_copy).and_then(parse_i64);
    if number.is_some_and(|n| (0..SHARED_INTEGERS).contains(&n)) { SHARED_COUNT } else { 1 }
}

/// Redis does not share integers where a limit's policy looks at how each key is used.
pub(crate) fn shares_integers(store: &Store) -> bool {
    store.limit_bytes() == 0 || !store.policy().looks_at_use()
}

fn info(ctx: &mut Ctx<'_, '_>) -> Option<ObjectInfo> {
    let key = ctx.key(2);
    let info = ctx.tx.object(&key);
    ctx.tx.note_lookup(info.is_some());
    info
}

/// OBJECT HELP
fn object_help(ctx: &mut SessionCtx<'_>) -> CmdResult {
    help(
        ctx.out,
        "OBJECT",
        &[
            "ENCODING <key>",
            "    Tell how the value of <key> is kept.",
            "FREQ <key>",
            "    Tell how often <key> was used of late, on a logarithmic scale. Needs an",
            "    LFU maxmemory policy.",
            "IDLETIME <key>",
            "    Tell the seconds since <key> was last used.",
            "REFCOUNT <key>",
            "    Tell how many holders the value of <key> has.",
        ],
    );
    Ok(())
}

const OBJECT_HELP: Command = Command::new(
    Exec::Session(object_help),
    Row::sub("object|help", "help", Group::Generic, 2, "6.2.0")
        .about("Lists the subcommands.", "O(1)")
        .flags(&[Flags::LOADING, Flags::STALE])
        .acl(&[Acl::KEYSPACE])
        .behaviour(Behaviour::CONSTANT_TIME),
);

const OBJECT: Command = Command::container(
    Row::new("object", Group::Generic, -2, "2.2.3").about("What is known of a key's value beside the value.", ""),
    OBJECT_ROWS,
);
