//! LPUSH, RPUSH, LPUSHX, RPUSHX; LPOP, RPOP; LMPOP.

use varve_base::number::parse_i64;
use varve_store::{Key, ListEnd};

use super::{end_of, popped, pushed, write_part};
use crate::Ctx;
use crate::grammar::{Fault, Outcome, is, settle};
use crate::notify::Class;

/// LPUSH key element [element ...]
pub fn lpush(ctx: &mut Ctx<'_, '_>) {
    push(ctx, ListEnd::Front, false);
}

/// RPUSH key element [element ...]
pub fn rpush(ctx: &mut Ctx<'_, '_>) {
    push(ctx, ListEnd::Back, false);
}

/// LPUSHX key element [element ...]
pub fn lpushx(ctx: &mut Ctx<'_, '_>) {
    push(ctx, ListEnd::Front, true);
}

/// RPUSHX key element [element ...]
pub fn rpushx(ctx: &mut Ctx<'_, '_>) {
    push(ctx, ListEnd::Back, true);
}

#[inline(always)]
fn push(ctx: &mut Ctx<'_, '_>, end: ListEnd, only_existing: bool) {
    let (key, args) = (ctx.key(1), ctx.args);
    let elements = (2..args.len()).map(|at| args.get(at));
    let outcome = ctx.tx.list_push(&key, end, elements, only_existing);
    if outcome.is_ok_and(|length| length > 0) {
        ctx.notify(Class::List, pushed(end), &key);
    }
    let outcome = outcome.map(|length| ctx.out.integer(length as i64)).map_err(Into::into);
    settle(ctx, outcome);
}

/// LPOP key [count]
pub fn lpop(ctx: &mut Ctx<'_, '_>) {
    let outcome = pop(ctx, ListEnd::Front, "lpop");
    settle(ctx, outcome);
}

/// RPOP key [count]
pub fn rpop(ctx: &mut Ctx<'_, '_>) {
    let outcome = pop(ctx, ListEnd::Back, "rpop");
    settle(ctx, outcome);
}

#[inline(always)]
fn pop(ctx: &mut Ctx<'_, '_>, end: ListEnd, name: &str) -> Outcome {
    let key = ctx.key(1);
    match ctx.args.len() {
        2 => {
            let out = &mut *ctx.out;
            if ctx.tx.list_pop(&key, end, |text| out.bulk(text))? {
                ctx.notify_taken(Class::List, popped(end), &key);
            } else {
                ctx.out.null();
            }
        }
        3 => {
            const RANGE: Fault = Fault::new("ERR value is out of range, must be positive");
            let count = parse_i64(ctx.args.get(2)).and_then(|n| u64::try_from(n).ok()).ok_or(RANGE)?;
            let out = &mut *ctx.out;
            let there = ctx.tx.list_pop_many(&key, end, count, |part| write_part(out, part))?;
            if !there {
                ctx.out.null_array();
            } else if count > 0 {
                ctx.notify_taken(Class::List, popped(end), &key);
            }
        }
        _ => return Err(Fault::arity(name)),
    }
    Ok(())
}

/// LMPOP numkeys key [key ...] LEFT|RIGHT [COUNT count]
pub fn lmpop(ctx: &mut Ctx<'_, '_>) {
    let outcome = pop_first(ctx);
    settle(ctx, outcome);
}

fn pop_first(ctx: &mut Ctx<'_, '_>) -> Outcome {
    let request = ManyKeys::parse(ctx, 1)?;
    for at in request.keys.clone() {
        let key = ctx.key(at);
        if pop_named(ctx, &key, &request)? {
            return Ok(());
        }
    }
    ctx.out.null_array();
    Ok(())
}

/// What LMPOP and BLMPOP ask for.
#[derive(Clone, Debug)]
pub(crate) struct ManyKeys {
    /// The arguments that are keys.
    pub(crate) keys: std::ops::Range<usize>,
    pub(crate) end: ListEnd,
    /// Elements at most.
    pub(crate) count: u64,
}

impl ManyKeys {
    /// Reads `numkeys key [key ...] LEFT|RIGHT [COUNT count]` from argument `at` on.
    pub(crate) fn parse(ctx: &Ctx<'_, '_>, at: usize) -> Outcome<ManyKeys> {
        const KEYS: Fault = Fault::new("ERR numkeys should be greater than 0");
        const COUNT: Fault = Fault::new("ERR count should be greater than 0");
        let number = parse_i64(ctx.args.get(at)).filter(|n| *n > 0).ok_or(KEYS)?;
        let first = at + 1;
        let left = ctx.args.len() - first;
        let keys = usize::try_from(number).ok().filter(|n| *n < left).ok_or(Fault::SYNTAX)?;
        let behind = first + keys;
        let end = end_of(ctx.args.get(behind))?;
        let (mut count, mut next) = (None, behind + 1);
        while next < ctx.args.len() {
            if count.is_some() || !is(ctx.args.get(next), "COUNT") || next + 1 == ctx.args.len() {
                return Err(Fault::SYNTAX);
            }
            count = Some(parse_i64(ctx.args.get(next + 1)).filter(|n| *n > 0).ok_or(COUNT)? as u64);
            next += 2;
        }
        Ok(ManyKeys { keys: first..behind, end, count: count.unwrap_or(1) })
    }
}

/// Pops from one of the lists and replies with its name and the elements; false, and nothing is written, without it.
pub(crate) fn pop_named(ctx: &mut Ctx<'_, '_>, key: &Key<'_>, request: &ManyKeys) -> Outcome<bool> {
    let (out, mut named) = (&mut *ctx.out, false);
    let done = ctx.tx.list_pop_many(key, request.end, request.count, |part| {
        if !std::mem::replace(&mut named, true) {
            out.array(2);
            out.bulk(key.bytes);
        }
        write_part(out, part);
    })?;
    if done {
        ctx.notify_taken(Class::List, popped(request.end), key);
    }
    Ok(done)
}
