//! Members at random: SRANDMEMBER shows them, SPOP takes them out.

use varve_base::number::parse_i64;
use varve_store::Pick;

use super::reply_member;
use crate::Ctx;
use crate::errors::{CmdResult, CommandError};
use crate::grammar::integer;
use crate::notify::Class;

/// A count that must not be negative.
const POSITIVE: CommandError = CommandError::new(&"ERR value is out of range, must be positive");

/// SPOP key [count]
pub fn spop(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    match ctx.args.len() {
        2 => pop_one(ctx),
        3 => pop_many(ctx),
        _ => Err(CommandError::SYNTAX),
    }
}

fn pop_one(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    let key = ctx.key(1);
    if ctx.tx.set_pop(&key, 1, |member| reply_member(ctx.out, member))? == 0 {
        ctx.out.null();
    } else {
        ctx.notify_taken(Class::Set, "spop", &key);
    }
    Ok(())
}

fn pop_many(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    let count = parse_i64(ctx.args.get(2)).and_then(|n| u64::try_from(n).ok()).ok_or(POSITIVE)?;
    let key = ctx.key(1);
    let members = ctx.out.defer();
    let popped = ctx.tx.set_pop(&key, count, |member| reply_member(ctx.out, member))?;
    ctx.out.end_set(members, popped);
    if popped > 0 {
        // redis-server reads a set that goes whole as a union of one, which counts a lookup.
        if !ctx.tx.exists(&key) {
            ctx.tx.note_lookup(true);
        }
        ctx.notify_taken(Class::Set, "spop", &key);
    }
    Ok(())
}

/// SRANDMEMBER key [count]
pub fn srandmember(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    match ctx.args.len() {
        2 => show_one(ctx),
        3 => show_many(ctx),
        _ => Err(CommandError::SYNTAX),
    }
}

fn show_one(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    let key = ctx.key(1);
    match ctx.tx.set_view_and_rng(&key)? {
        (Some(set), rng) => set.pick(rng, Pick::Any(1), |member| reply_member(ctx.out, member)),
        (None, _) => ctx.out.null(),
    }
    Ok(())
}

fn show_many(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    let count = integer(ctx.args.get(2))?;
    if count == i64::MIN {
        let most = i64::MAX;
        return Err(CommandError::owned(format!("ERR value is out of range, value must between -{most} and {most}")));
    }
    let key = ctx.key(1);
    let (Some(set), rng) = ctx.tx.set_view_and_rng(&key)? else {
        ctx.out.array(0);
        return Ok(());
    };
    let many = usize::try_from(count.unsigned_abs()).unwrap_or(usize::MAX);
    let (pick, many) = match count {
        ..0 => (Pick::Any(many), many),
        0.. => (Pick::Distinct(many), many.min(set.len())),
    };
    ctx.out.array(many);
    set.pick(rng, pick, |member| reply_member(ctx.out, member));
    Ok(())
}
