//! LPUSH, RPUSH, LPUSHX, RPUSHX; LPOP, RPOP; LMPOP.

use varve_base::number::parse_i64;
use varve_catalog::{Acl, ArgKind, Flags, Group, KeyFlags, KeySpec, Row, arg, key, one_of};
use varve_exec::notify::{Class, Effect, Words};
use varve_exec::{CmdResult, Command, CommandError, Ctx, Exec, FileRows};
use varve_store::{Key, ListEnd, ListPart, Tx};

use super::read::RestOfRange;
use super::{SIDES, end_of, popped, pushed, write_part};
use crate::errors;
use crate::generic::many_arguments::{self, Done, Each, Part, PartOfReply, run_in_parts};
use crate::grammar::is;

pub(super) const ROWS: FileRows = &[LPUSH, RPUSH, LPUSHX, RPUSHX, LPOP, RPOP, LMPOP];

/// LPUSH key element [element ...]
fn lpush(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    push(ctx, ListEnd::Front, false)
}

const LPUSH: Command = Command::new(
    Exec::Keys(lpush),
    Row::new("lpush", Group::List, -3, "1.0.0")
        .about("Adds elements at the front of a list, which is created if absent.", "O(N) in the elements added")
        .flags(&[Flags::WRITE, Flags::DENYOOM, Flags::FAST])
        .acl(&[Acl::LIST])
        .keys(&[KeySpec::one(1, KeyFlags::RW.and(KeyFlags::INSERT))])
        .history(&[("2.4.0", "Several elements.")])
        .args(&[key("key", 0), arg("element", ArgKind::String).multiple()]),
);

/// RPUSH key element [element ...]
fn rpush(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    push(ctx, ListEnd::Back, false)
}

const RPUSH: Command = Command::new(
    Exec::Keys(rpush),
    Row::new("rpush", Group::List, -3, "1.0.0")
        .about("Adds elements at the back of a list, which is created if absent.", "O(N) in the elements added")
        .flags(&[Flags::WRITE, Flags::DENYOOM, Flags::FAST])
        .acl(&[Acl::LIST])
        .keys(&[KeySpec::one(1, KeyFlags::RW.and(KeyFlags::INSERT))])
        .history(&[("2.4.0", "Several elements.")])
        .args(&[key("key", 0), arg("element", ArgKind::String).multiple()]),
);

/// LPUSHX key element [element ...]
fn lpushx(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    push(ctx, ListEnd::Front, true)
}

const LPUSHX: Command = Command::new(
    Exec::Keys(lpushx),
    Row::new("lpushx", Group::List, -3, "2.2.0")
        .about("Adds elements at the front of a list that exists.", "O(N) in the elements added")
        .flags(&[Flags::WRITE, Flags::DENYOOM, Flags::FAST])
        .acl(&[Acl::LIST])
        .keys(&[KeySpec::one(1, KeyFlags::RW.and(KeyFlags::INSERT))])
        .history(&[("4.0.0", "Several elements.")])
        .args(&[key("key", 0), arg("element", ArgKind::String).multiple()]),
);

/// RPUSHX key element [element ...]
fn rpushx(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    push(ctx, ListEnd::Back, true)
}

const RPUSHX: Command = Command::new(
    Exec::Keys(rpushx),
    Row::new("rpushx", Group::List, -3, "2.2.0")
        .about("Adds elements at the back of a list that exists.", "O(N) in the elements added")
        .flags(&[Flags::WRITE, Flags::DENYOOM, Flags::FAST])
        .acl(&[Acl::LIST])
        .keys(&[KeySpec::one(1, KeyFlags::RW.and(KeyFlags::INSERT))])
        .history(&[("4.0.0", "Several elements.")])
        .args(&[key("key", 0), arg("element", ArgKind::String).multiple()]),
);

#[inline(always)]
fn push(ctx: &mut Ctx<'_, '_>, end: ListEnd, only_existing: bool) -> CmdResult {
    let (key, args) = (ctx.key(1), ctx.args);
    if args.len() > many_arguments::FEW && push_in_parts(ctx, &key, end, only_existing)? {
        return Ok(());
    }
    let elements = (2..args.len()).map(|at| args.get(at));
    let length = ctx.tx.list_push(&key, end, elements, only_existing)?;
    if length > 0 {
        ctx.did(&key, Effect::sent(Class::List, pushed(end), args.len() as u64 - 2));
    }
    ctx.out.integer(length as i64);
    Ok(())
}

/// Begins to push many elements over several turns; false, and nothing is done, if they are to be pushed at once.
#[cold]
fn push_in_parts(ctx: &mut Ctx<'_, '_>, key: &Key<'_>, end: ListEnd, only_existing: bool) -> CmdResult<bool> {
    let each = if end == ListEnd::Front { &PUSH_FRONT_EACH } else { &PUSH_BACK_EACH };
    if only_existing && !ctx.tx.exists(key) {
        return Ok(false);
    }
    run_in_parts(ctx, 2, each)
}

const PUSH_FRONT_EACH: Each = Each {
    class: Class::List,
    event: "lpush",
    word: b"LPUSH",
    texts: 1,
    check: None,
    run: |tx, key, part| push_part(tx, key, part, ListEnd::Front),
    reply: many_arguments::reply_count,
};

const PUSH_BACK_EACH: Each = Each {
    event: "rpush",
    word: b"RPUSH",
    run: |tx, key, part| push_part(tx, key, part, ListEnd::Back),
    ..PUSH_FRONT_EACH
};

fn push_part(tx: &mut Tx<'_>, key: &Key<'_>, part: Part<'_>, end: ListEnd) -> CmdResult<Done> {
    let length = tx.list_push(key, end, part.texts.iter(), false)?;
    Ok(Done { reply: PartOfReply::Now(length as usize), changes: part.texts.len() })
}

/// LPOP key [count]
fn lpop(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    pop(ctx, ListEnd::Front, "lpop")
}

const LPOP: Command = Command::new(
    Exec::Keys(lpop),
    Row::new("lpop", Group::List, -2, "1.0.0")
        .about("Takes elements off the front.", "O(N) in the elements answered")
        .flags(&[Flags::WRITE, Flags::FAST])
        .acl(&[Acl::LIST])
        .keys(&[KeySpec::one(1, KeyFlags::RW.and(KeyFlags::ACCESS).and(KeyFlags::DELETE))])
        .history(&[("6.2.0", "A count.")])
        .args(&[key("key", 0), arg("count", ArgKind::Integer).since("6.2.0").optional()]),
);

/// RPOP key [count]
fn rpop(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    pop(ctx, ListEnd::Back, "rpop")
}

const RPOP: Command = Command::new(
    Exec::Keys(rpop),
    Row::new("rpop", Group::List, -2, "1.0.0")
        .about("Takes elements off the back.", "O(N) in the elements answered")
        .flags(&[Flags::WRITE, Flags::FAST])
        .acl(&[Acl::LIST])
        .keys(&[KeySpec::one(1, KeyFlags::RW.and(KeyFlags::ACCESS).and(KeyFlags::DELETE))])
        .history(&[("6.2.0", "A count.")])
        .args(&[key("key", 0), arg("count", ArgKind::Integer).since("6.2.0").optional()]),
);

#[inline(always)]
fn pop(ctx: &mut Ctx<'_, '_>, end: ListEnd, name: &str) -> CmdResult {
    let key = ctx.key(1);
    match ctx.args.len() {
        2 => {
            let out = &mut *ctx.out;
            if ctx.tx.list_pop(&key, end, |text| out.bulk(text))? {
                ctx.did_taken(&key, Effect::sent(Class::List, popped(end), 1));
            } else {
                ctx.out.null();
            }
        }
        3 => {
            let count =
                parse_i64(ctx.args.get(2)).and_then(|n| u64::try_from(n).ok()).ok_or(errors::MUST_BE_POSITIVE)?;
            if pop_in_parts(ctx, &key, (end, count), None)? {
                return Ok(());
            }
            let (out, mut taken) = (&mut *ctx.out, 0);
            let there = ctx.tx.list_pop_many(&key, end, count, |part| {
                taken += u64::from(matches!(part, ListPart::Element(_)));
                write_part(out, part);
            })?;
            if !there {
                ctx.out.null_array();
            } else if count > 0 {
                ctx.did_taken(&key, Effect::sent(Class::List, popped(end), taken));
            }
        }
        _ => return Err(CommandError::arity(name)),
    }
    Ok(())
}

/// Pops from a list and replies with the elements over several turns, behind the list's name if one is given; false, and
/// nothing is done, if they are to be replied at once.
fn pop_in_parts(
    ctx: &mut Ctx<'_, '_>,
    key: &Key<'_>,
    (end, count): (ListEnd, u64),
    name: Option<&[u8]>,
) -> CmdResult<bool> {
    if !ctx.session.takes_parts() || !ctx.tx.is_long(key) {
        return Ok(false);
    }
    let Some((taken, reader)) = ctx.tx.list_pop_in_parts(key, end, count)? else { return Ok(false) };
    if let Some(name) = name {
        ctx.out.array(2);
        ctx.out.bulk(name);
    }
    write_part(ctx.out, ListPart::Len(taken));
    did_pop(ctx, key, end, taken);
    ctx.go_on_behind(Box::new(RestOfRange(reader)));
    Ok(true)
}

/// Reports elements that were popped, which the pop of as many from this list does again.
fn did_pop(ctx: &mut Ctx<'_, '_>, key: &Key<'_>, end: ListEnd, taken: u64) {
    let name: &[u8] = if end == ListEnd::Front { b"LPOP" } else { b"RPOP" };
    let words = |words: &mut Words<'_>| _ = words.add(name).add(key.bytes).number(taken as i64);
    ctx.did_taken(key, Effect::words(Class::List, popped(end), taken, &words));
}

/// LMPOP numkeys key [key ...] LEFT|RIGHT [COUNT count]
fn lmpop(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    let request = ManyKeys::parse(ctx, 1)?;
    for at in request.keys.clone() {
        let key = ctx.key(at);
        if pop_named(ctx, &key, (request.end, request.count))? {
            return Ok(());
        }
    }
    ctx.out.null_array();
    Ok(())
}

const LMPOP: Command = Command::new(
    Exec::Keys(lmpop),
    Row::new("lmpop", Group::List, -4, "7.0.0")
        .about(
            "Takes elements off the first of several lists that has any.",
            "O(N+M) in the keys and the elements answered",
        )
        .flags(&[Flags::WRITE])
        .acl(&[Acl::LIST])
        .keys(&[KeySpec::counted(1, 1, KeyFlags::RW.and(KeyFlags::ACCESS).and(KeyFlags::DELETE))])
        .args(&[
            arg("numkeys", ArgKind::Integer),
            key("key", 0).multiple(),
            one_of("where", SIDES),
            arg("count", ArgKind::Integer).token("COUNT").optional(),
        ]),
);

/// The arguments of LMPOP.
struct ManyKeys {
    /// The arguments that are keys.
    keys: std::ops::Range<usize>,
    end: ListEnd,
    /// Elements at most.
    count: u64,
}

impl ManyKeys {
    /// Reads `numkeys key [key ...] LEFT|RIGHT [COUNT count]` from argument `at` on.
    fn parse(ctx: &Ctx<'_, '_>, at: usize) -> CmdResult<ManyKeys> {
        let number = parse_i64(ctx.args.get(at)).filter(|n| *n > 0).ok_or(errors::NUMKEYS_POSITIVE)?;
        let first = at + 1;
        let left = ctx.args.len() - first;
        let keys = usize::try_from(number).ok().filter(|n| *n < left).ok_or(CommandError::SYNTAX)?;
        let behind = first + keys;
        let end = end_of(ctx.args.get(behind))?;
        let (mut count, mut next) = (None, behind + 1);
        while next < ctx.args.len() {
            if count.is_some() || !is(ctx.args.get(next), "COUNT") || next + 1 == ctx.args.len() {
                return Err(CommandError::SYNTAX);
            }
            count = Some(parse_i64(ctx.args.get(next + 1)).filter(|n| *n > 0).ok_or(errors::COUNT_POSITIVE)? as u64);
            next += 2;
        }
        Ok(ManyKeys { keys: first..behind, end, count: count.unwrap_or(1) })
    }
}

/// Pops `count` elements at most from a list and replies with its name and the elements, as LMPOP and BLMPOP do; false, and
/// nothing is written, without the list.
pub(crate) fn pop_named(ctx: &mut Ctx<'_, '_>, key: &Key<'_>, (end, count): (ListEnd, u64)) -> CmdResult<bool> {
    if pop_in_parts(ctx, key, (end, count), Some(key.bytes))? {
        return Ok(true);
    }
    let (out, mut named, mut taken) = (&mut *ctx.out, false, 0);
    let done = ctx.tx.list_pop_many(key, end, count, |part| {
        if !std::mem::replace(&mut named, true) {
            out.array(2);
            out.bulk(key.bytes);
        }
        taken += u64::from(matches!(part, ListPart::Element(_)));
        write_part(out, part);
    })?;
    if done {
        did_pop(ctx, key, end, taken);
    }
    Ok(done)
}
