//! Members taken from an end: ZPOPMIN, ZPOPMAX, ZMPOP.

use varve_catalog::{Acl, ArgKind, Flags, Group, KeySpec, Row, arg, key, one_of, word};
use varve_exec::notify::{Class, Effect, Words};
use varve_exec::{CmdResult, Command, CommandError, Ctx, Exec, FileRows, Ongoing, Progress};
use varve_protocol::{Args, Reply};
use varve_store::{Key, Tx, Type, ZsetReader};

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
    let texts_each = if ctx.out.is_resp3() { 1 } else { 2 };
    if let Some((popped, rest)) = pop_in_parts(ctx, &key, (max, most), reply_pair)? {
        ctx.out.array(texts_each * popped);
        ctx.did_taken(&key, Effect::sent(Class::Zset, event(max), popped as u64));
        ctx.go_on_behind(rest);
        return Ok(());
    }
    let popped = ctx.tx.zset_range_len(&key, &ALL, false, 0, most)?;
    let Ctx { tx, out, .. } = ctx;
    out.array(texts_each * popped);
    tx.zset_pop(&key, max, popped, &mut |member, score| reply_pair(out, member, score))?;
    if popped > 0 {
        ctx.did_taken(&key, Effect::sent(Class::Zset, event(max), popped as u64));
    }
    Ok(())
}

/// Members that were taken out and are still to be replied.
struct RestOfPop {
    reader: ZsetReader,
    form: fn(&mut Reply, &[u8], f64),
}

/// Takes members out whose reply takes several turns: how many, and the rest of the command. `None`, and nothing is done, if
/// they are to be replied at once.
fn pop_in_parts(
    ctx: &mut Ctx<'_, '_>,
    key: &Key<'_>,
    (max, most): (bool, usize),
    form: fn(&mut Reply, &[u8], f64),
) -> CmdResult<Option<(usize, Box<dyn Ongoing>)>> {
    if !ctx.session.takes_parts() || !ctx.tx.is_long(key) {
        return Ok(None);
    }
    let popped = ctx.tx.zset_pop_in_parts(key, max, most)?;
    Ok(popped.map(|(count, reader)| (count, Box::new(RestOfPop { reader, form }) as Box<dyn Ongoing>)))
}

impl Ongoing for RestOfPop {
    fn go_on(&mut self, tx: &mut Tx<'_>, out: &mut Reply) -> Progress {
        tx.read_members_on(&mut self.reader, |member, score| (self.form)(out, member, score)).into()
    }

    fn writes(&self) -> bool {
        false
    }

    fn kept_bytes(&self) -> usize {
        self.reader.kept_bytes()
    }
}

/// Takes one member, which is shown flat in RESP3 too, with one lookup of the key.
fn pop_one(ctx: &mut Ctx<'_, '_>, key: &Key<'_>, max: bool) -> CmdResult {
    let Ctx { tx, out, .. } = ctx;
    let popped = tx.zset_pop(key, max, 1, &mut |member, score| reply_one(out, member, score))?;
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
            Some(Type::Zset) => return pop_named(ctx, &key, (plan.max, plan.count)),
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

/// The arguments of ZMPOP.
struct PopMany {
    /// The first key's argument.
    first: usize,
    /// Number of keys.
    keys: usize,
    /// From the high end.
    max: bool,
    /// How many members at most.
    count: usize,
}

impl PopMany {
    /// Reads a request whose number of keys is argument `at`.
    fn parse(args: &Args<'_>, at: usize) -> CmdResult<PopMany> {
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

/// Takes `count` members at most from a set that is there, those of the highest scores if `max`, and replies with its name and
/// the members, as ZMPOP and BZMPOP do.
pub(crate) fn pop_named(ctx: &mut Ctx<'_, '_>, key: &Key<'_>, (max, count): (bool, usize)) -> CmdResult {
    let in_parts = pop_in_parts(ctx, key, (max, count), reply_one)?;
    let popped = match &in_parts {
        Some((popped, _)) => *popped,
        None => ctx.tx.zset_range_len(key, &ALL, false, 0, count)?,
    };
    let Ctx { tx, out, .. } = ctx;
    out.array(2);
    out.bulk(key.bytes);
    out.array(popped);
    if in_parts.is_none() {
        tx.zset_pop(key, max, popped, &mut |member, score| reply_one(out, member, score))?;
    }
    if popped > 0 {
        let name: &[u8] = if max { b"ZPOPMAX" } else { b"ZPOPMIN" };
        let words = |words: &mut Words<'_>| _ = words.add(name).add(key.bytes).number(popped as i64);
        ctx.did_taken(key, Effect::words(Class::Zset, event(max), popped as u64, &words));
    }
    if let Some((_, rest)) = in_parts {
        ctx.go_on_behind(rest);
    }
    Ok(())
}

/// Replies a member as one of several of ZMPOP, which redis-server does alike in both protocols.
fn reply_one(out: &mut Reply, member: &[u8], score: f64) {
    out.array(2);
    out.bulk(member);
    out.double(score);
}

fn event(max: bool) -> &'static str {
    if max { "zpopmax" } else { "zpopmin" }
}
