//! Members taken from an end: ZPOPMIN, ZPOPMAX, ZMPOP.

use varve_catalog::{Acl, ArgKind, Flags, Group, KeySpec, Row, arg, key, one_of, word};
use varve_exec::notify::{Class, Effect, Words};
use varve_exec::{CmdResult, Command, CommandError, Ctx, Exec, FileRows};
use varve_protocol::Args;
use varve_store::{Key, Type};

use super::{ALL, TAKES, reply_pair};
use crate::errors;
use crate::grammar::{integer, is};

pub(super) const ROWS: FileRows = &[ZPOPMIN, ZPOPMAX, ZMPOP];

/// ZPOPMIN key [count]
fn zpopmin(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    pop(ctx, false)
}

const ZPOPMIN: Command = Command::new(
    Exec::Keys(zpopmin),
    Row::new("zpopmin", Group::SortedSet, -2, "5.0.0")
        .about("Takes the members of lowest score out.", "O(log(N)) a member taken")
        .flags(&[Flags::WRITE, Flags::FAST])
        .acl(&[Acl::SORTEDSET])
        .keys(&[KeySpec::one(1, TAKES)])
        .args(&[key("key", 0), arg("count", ArgKind::Integer).optional()]),
);

/// ZPOPMAX key [count]
fn zpopmax(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    pop(ctx, true)
}

const ZPOPMAX: Command = Command::new(
    Exec::Keys(zpopmax),
    Row::new("zpopmax", Group::SortedSet, -2, "5.0.0")
        .about("Takes the members of highest score out.", "O(log(N)) a member taken")
        .flags(&[Flags::WRITE, Flags::FAST])
        .acl(&[Acl::SORTEDSET])
        .keys(&[KeySpec::one(1, TAKES)])
        .args(&[key("key", 0), arg("count", ArgKind::Integer).optional()]),
);

fn pop(ctx: &mut Ctx<'_, '_>, max: bool) -> CmdResult {
    // Said of what is no integer too.
    if ctx.args.len() > 3 {
        return Err(CommandError::SYNTAX);
    }
    let count = ctx.args.opt(2);
    let most = count.map_or(Ok(1), |text| {
        integer(text).ok().and_then(|n| usize::try_from(n).ok()).ok_or(errors::MUST_BE_POSITIVE)
    })?;
    let key = ctx.key(1);
    if count.is_none() {
        return pop_one(ctx, &key, max);
    }
    let popped = ctx.tx.zset_range_len(&key, &ALL, false, 0, most)?;
    let Ctx { tx, out, .. } = ctx;
    let flat = !out.is_resp3();
    out.array(if flat { 2 * popped } else { popped });
    tx.zset_pop(&key, max, popped, &mut |member, score| {
        if flat {
            out.bulk(member);
            out.double(score);
        } else {
            reply_pair(out, member, score);
        }
    })?;
    if popped > 0 {
        ctx.did_taken(&key, Effect::sent(Class::Zset, event(max), popped as u64));
    }
    Ok(())
}

/// Takes one member, which is shown flat in RESP3 too, with one lookup of the key.
fn pop_one(ctx: &mut Ctx<'_, '_>, key: &Key<'_>, max: bool) -> CmdResult {
    let Ctx { tx, out, .. } = ctx;
    let popped = tx.zset_pop(key, max, 1, &mut |member, score| {
        out.array(2);
        out.bulk(member);
        out.double(score);
    })?;
    if popped == 0 {
        out.array(0);
    } else {
        ctx.did_taken(key, Effect::sent(Class::Zset, event(max), 1));
    }
    Ok(())
}

/// ZMPOP numkeys key [key ...] MIN | MAX [COUNT count]
fn zmpop(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    let plan = PopMany::parse(&ctx.args, 1)?;
    for at in plan.first..plan.first + plan.keys {
        let key = ctx.key(at);
        match ctx.tx.type_of(&key) {
            None => {}
            Some(Type::Zset) => return reply_popped(ctx, &key, &plan),
            Some(_) => return Err(CommandError::WRONG_TYPE),
        }
    }
    ctx.out.null_array();
    Ok(())
}

const ZMPOP: Command = Command::new(
    Exec::Keys(zmpop),
    Row::new("zmpop", Group::SortedSet, -4, "7.0.0")
        .about(
            "Takes members of lowest or highest score out of the first set that has any.",
            "O(K) in the keys, and O(log(N)) a member taken",
        )
        .flags(&[Flags::WRITE])
        .acl(&[Acl::SORTEDSET])
        .keys(&[KeySpec::counted(1, 1, TAKES)])
        .args(&[
            arg("numkeys", ArgKind::Integer),
            key("key", 0).multiple(),
            one_of("where", &[word("min", "MIN"), word("max", "MAX")]),
            arg("count", ArgKind::Integer).token("COUNT").optional(),
        ]),
);

/// The arguments of ZMPOP and BZMPOP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PopMany {
    /// The first key's argument.
    pub(crate) first: usize,
    /// Number of keys.
    pub(crate) keys: usize,
    /// From the high end.
    pub(crate) max: bool,
    /// How many members at most.
    pub(crate) count: usize,
}

impl PopMany {
    /// Reads a request whose number of keys is argument `at`.
    pub(crate) fn parse(args: &Args<'_>, at: usize) -> CmdResult<PopMany> {
        let positive = |at: usize| integer(args.get(at)).ok().and_then(|n| usize::try_from(n).ok()).filter(|n| *n > 0);
        let (first, keys) = (at + 1, positive(at).ok_or(errors::NUMKEYS_POSITIVE)?);
        let end = first.checked_add(keys).filter(|end| *end < args.len()).ok_or(CommandError::SYNTAX)?;
        let max = is(args.get(end), "MAX");
        if !max && !is(args.get(end), "MIN") {
            return Err(CommandError::SYNTAX);
        }
        let counts = args.is(end + 1, "COUNT") && end + 2 < args.len();
        let count = if counts { positive(end + 2).ok_or(errors::COUNT_POSITIVE)? } else { 1 };
        if args.len() > end + if counts { 3 } else { 1 } {
            return Err(CommandError::SYNTAX);
        }
        Ok(PopMany { first, keys, max, count })
    }
}

/// Takes from a set that is there, and replies as ZMPOP and BZMPOP do.
pub(crate) fn reply_popped(ctx: &mut Ctx<'_, '_>, key: &Key<'_>, plan: &PopMany) -> CmdResult {
    let Ctx { tx, out, .. } = ctx;
    let popped = tx.zset_range_len(key, &ALL, false, 0, plan.count)?;
    out.array(2);
    out.bulk(key.bytes);
    out.array(popped);
    tx.zset_pop(key, plan.max, popped, &mut |member, score| {
        out.array(2);
        out.bulk(member);
        out.double(score);
    })?;
    if popped > 0 {
        let name: &[u8] = if plan.max { b"ZPOPMAX" } else { b"ZPOPMIN" };
        let words = |words: &mut Words<'_>| _ = words.add(name).add(key.bytes).number(popped as i64);
        ctx.did_taken(key, Effect::words(Class::Zset, event(plan.max), popped as u64, &words));
    }
    Ok(())
}

fn event(max: bool) -> &'static str {
    if max { "zpopmax" } else { "zpopmin" }
}
