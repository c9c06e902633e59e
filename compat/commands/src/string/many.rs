//! Strings of several keys at once: MGET, MSET, MSETNX, MSETEX. All shards are held, so each is one instant.

use varve_catalog::{Acl, ArgKind, Flags, Group, KeyFlags, KeySpec, Row, arg, block, key, one_of, word};
use varve_exec::notify::Again;
use varve_exec::{CmdResult, Command, CommandError, Ctx, Exec, FileRows};
use varve_store::{Key, Ttl};

use super::value::{reply_value, write, write_as_set};
use crate::errors;
use crate::generic::options::{Family, Options, TIME_OR_KEEPTTL, When};

pub(super) const ROWS: FileRows = &[MGET, MSET, MSETNX, MSETEX];

/// MGET key [key ...]
fn mget(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    ctx.out.array(ctx.args.len() - 1);
    for at in 1..ctx.args.len() {
        let key = ctx.key(at);
        if reply_value(ctx, &key).is_err() {
            ctx.out.null();
        }
        if ctx.out.is_overflown() {
            break;
        }
    }
    Ok(())
}

const MGET: Command = Command::new(
    Exec::Keys(mget),
    Row::new("mget", Group::String, -2, "1.0.0")
        .about("Answers the strings of several keys.", "O(N) in the keys")
        .flags(&[Flags::READONLY, Flags::FAST])
        .acl(&[Acl::STRING])
        .keys(&[KeySpec::range(1, -1, 1, KeyFlags::RO.and(KeyFlags::ACCESS))])
        .tips(&["request_policy:multi_shard"])
        .args(&[key("key", 0).multiple()]),
);

/// MSET key value [key value ...]
fn mset(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    if ctx.args.len().is_multiple_of(2) {
        return Err(CommandError::arity("mset"));
    }
    write_pairs(ctx);
    ctx.out.ok();
    Ok(())
}

const MSET: Command = Command::new(
    Exec::Keys(mset),
    Row::new("mset", Group::String, -3, "1.0.1")
        .about("Sets several keys to strings.", "O(N) in the keys")
        .flags(&[Flags::WRITE, Flags::DENYOOM])
        .acl(&[Acl::STRING])
        .keys(&[KeySpec::range(1, -1, 2, KeyFlags::OW.and(KeyFlags::UPDATE))])
        .tips(&["request_policy:multi_shard", "response_policy:all_succeeded"])
        .args(&[block("key_value", &[key("key", 0), arg("value", ArgKind::String)]).multiple()]),
);

/// MSETNX key value [key value ...]
fn msetnx(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    if ctx.args.len().is_multiple_of(2) {
        return Err(CommandError::arity("msetnx"));
    }
    if meets_due_fields(ctx, 1, ctx.args.len()) {
        return ctx.put_back();
    }
    let free = !any_key(ctx, 1, ctx.args.len(), true);
    if free {
        write_pairs(ctx);
    }
    ctx.out.integer(i64::from(free));
    Ok(())
}

const MSETNX: Command = Command::new(
    Exec::Keys(msetnx),
    Row::new("msetnx", Group::String, -3, "1.0.1")
        .about("Sets several keys to strings if none of them exists.", "O(N) in the keys")
        .flags(&[Flags::WRITE, Flags::DENYOOM])
        .acl(&[Acl::STRING])
        .keys(&[KeySpec::range(1, -1, 2, KeyFlags::OW.and(KeyFlags::INSERT))])
        .tips(&["request_policy:multi_shard", "response_policy:agg_min"])
        .args(&[block("key_value", &[key("key", 0), arg("value", ArgKind::String)]).multiple()]),
);

/// [`Ctx::meets_due_fields`] of the keys at `first`, `first` + 2, …
fn meets_due_fields(ctx: &mut Ctx<'_, '_>, first: usize, end: usize) -> bool {
    if !ctx.tx.store().has_dated_hashes() {
        return false;
    }
    let keys: Vec<Key<'_>> = (first..end).step_by(2).map(|at| ctx.key(at)).collect();
    ctx.meets_due_fields(keys)
}

/// Whether one of the keys at `first`, `first` + 2, … exists (or, with `there` false, is missing).
fn any_key(ctx: &mut Ctx<'_, '_>, first: usize, end: usize, there: bool) -> bool {
    (first..end).step_by(2).any(|at| {
        let key = ctx.key(at);
        ctx.tx.exists(&key) == there
    })
}

/// Sets the pairs of MSET and MSETNX.
fn write_pairs(ctx: &mut Ctx<'_, '_>) {
    for at in (1..ctx.args.len()).step_by(2) {
        let key = ctx.key(at);
        write(ctx, &key, at + 1, Ttl::Clear, Again::Sent);
    }
}

/// MSETEX numkeys key value [key value ...] [NX | XX] [EX s | PX ms | EXAT s | PXAT ms | KEEPTTL]
fn msetex(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    let end = 2 + 2 * number_of_pairs(ctx.args.get(1), ctx.args.len() - 2)?;
    let options = Options::parse(&ctx.args, end..ctx.args.len(), Family::Msetex)?;
    let ttl = options.life.ttl(ctx.tx.now_ms(), "msetex")?;
    if meets_due_fields(ctx, 2, end) {
        return ctx.put_back();
    }
    let barred = match options.when {
        When::Absent => any_key(ctx, 2, end, true),
        When::Present => any_key(ctx, 2, end, false),
        _ => false,
    };
    if !barred {
        for at in (2..end).step_by(2) {
            let key = ctx.key(at);
            write_as_set(ctx, &key, at + 1, ttl);
        }
    }
    ctx.out.integer(i64::from(!barred));
    Ok(())
}

const MSETEX: Command = Command::new(
    Exec::Keys(msetex),
    Row::new("msetex", Group::String, -4, "9.1.0")
        .about("Sets several keys to strings, with a condition and an expiry for all.", "O(N) in the keys")
        .flags(&[Flags::WRITE, Flags::DENYOOM])
        .acl(&[Acl::STRING])
        .keys(&[KeySpec::counted(1, 2, KeyFlags::OW.and(KeyFlags::UPDATE))])
        .tips(&["request_policy:multi_shard", "response_policy:all_succeeded"])
        .args(&[
            arg("numkeys", ArgKind::Integer),
            block("data", &[key("key", 0), arg("value", ArgKind::String)]).multiple(),
            one_of("condition", &[word("nx", "NX"), word("xx", "XX")]).optional(),
            one_of("expiration", TIME_OR_KEEPTTL).optional(),
        ]),
);

/// Reads `numkeys`: positive, and with a pair behind it for each.
fn number_of_pairs(text: &[u8], behind: usize) -> CmdResult<usize> {
    let count = varve_base::number::parse_i64(text).and_then(|n| i32::try_from(n).ok()).filter(|n| *n > 0);
    let count = count.ok_or(errors::NUMKEYS_INVALID)? as usize;
    if behind / 2 < count { Err(CommandError::SYNTAX) } else { Ok(count) }
}
