//! SET and its short forms, and DELIFEQ.

use varve_store::{Form, Key, Ttl, Tx};

use super::options::{Family, Life, Options, Unit, When};
use crate::Ctx;
use crate::grammar::{Outcome, settle};

/// SET key value [NX | XX | IFEQ value] [GET] [EX s | PX ms | EXAT s | PXAT ms | KEEPTTL]
pub fn set(ctx: &mut Ctx<'_, '_>) {
    if ctx.args.len() == 3 {
        let (key, value) = (ctx.key(1), ctx.args.get(2));
        ctx.tx.set(&key, value, Ttl::Clear, Form::Auto);
        return ctx.out.ok();
    }
    let outcome = set_with_options(ctx);
    settle(ctx, outcome);
}

fn set_with_options(ctx: &mut Ctx<'_, '_>) -> Outcome {
    let options = Options::parse(&ctx.args, 3, Family::Set)?;
    let ttl = options.life.ttl(ctx.tx.now_ms(), "set")?;
    let key = ctx.key(1);
    if options.get {
        let fits = {
            let old = ctx.tx.get(&key)?;
            match old {
                Some(value) => ctx.out.bulk(value),
                None => ctx.out.null(),
            }
            fits(options.when, old)
        };
        if fits {
            write(&mut ctx.tx, &key, ctx.args.get(2), ttl);
        }
        return Ok(());
    }
    let go = match options.when {
        When::Always => true,
        When::Absent => !ctx.tx.exists(&key),
        When::Present => ctx.tx.exists(&key),
        When::Equal(_) => fits(options.when, ctx.tx.peek(&key)?),
    };
    if go {
        write(&mut ctx.tx, &key, ctx.args.get(2), ttl);
        ctx.out.ok();
    } else {
        ctx.out.null();
    }
    Ok(())
}

/// Whether the condition holds for what the key holds.
fn fits(when: When<'_>, old: Option<&[u8]>) -> bool {
    match when {
        When::Always => true,
        When::Absent => old.is_none(),
        When::Present => old.is_some(),
        When::Equal(wanted) => old == Some(wanted),
    }
}

/// Sets the string; where its time is over already the key is gone, as if it had been set and had expired.
pub(super) fn write(tx: &mut Tx<'_>, key: &Key<'_>, value: &[u8], ttl: Ttl) {
    match ttl {
        Ttl::At(at) if at <= tx.now_ms() => {
            tx.remove(key);
        }
        ttl => tx.set(key, value, ttl, Form::Auto),
    }
}

/// SETNX key value
pub fn setnx(ctx: &mut Ctx<'_, '_>) {
    let key = ctx.key(1);
    let free = !ctx.tx.exists(&key);
    if free {
        ctx.tx.set(&key, ctx.args.get(2), Ttl::Clear, Form::Auto);
    }
    ctx.out.integer(i64::from(free));
}

/// SETEX key seconds value
pub fn setex(ctx: &mut Ctx<'_, '_>) {
    let outcome = set_for(ctx, Unit::Seconds, "setex");
    settle(ctx, outcome);
}

/// PSETEX key milliseconds value
pub fn psetex(ctx: &mut Ctx<'_, '_>) {
    let outcome = set_for(ctx, Unit::Millis, "psetex");
    settle(ctx, outcome);
}

fn set_for(ctx: &mut Ctx<'_, '_>, unit: Unit, command: &str) -> Outcome {
    let ttl = Life::Until(unit, ctx.args.get(2)).ttl(ctx.tx.now_ms(), command)?;
    let key = ctx.key(1);
    write(&mut ctx.tx, &key, ctx.args.get(3), ttl);
    ctx.out.ok();
    Ok(())
}

/// DELIFEQ key value
pub fn delifeq(ctx: &mut Ctx<'_, '_>) {
    let outcome = delete_if_equal(ctx);
    settle(ctx, outcome);
}

fn delete_if_equal(ctx: &mut Ctx<'_, '_>) -> Outcome {
    let key = ctx.key(1);
    let equal = ctx.tx.peek(&key)? == Some(ctx.args.get(2));
    ctx.out.integer(i64::from(equal && ctx.tx.remove(&key)));
    Ok(())
}
