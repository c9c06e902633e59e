//! SET and its short forms, and DELIFEQ.

use varve_store::{Key, Ttl};

use super::get::reply_value;
use super::options::{Family, Life, Options, Unit, When};
use crate::Ctx;
use crate::errors::CmdResult;
use crate::notify::Class;

/// SET key value [NX | XX | IFEQ value] [GET] [EX s | PX ms | EXAT s | PXAT ms | KEEPTTL]
pub fn set(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    if ctx.args.len() == 3 {
        let key = ctx.key(1);
        ctx.set_to(&key, 2, Ttl::Clear);
        ctx.out.ok();
        return Ok(());
    }
    set_with_options(ctx)
}

fn set_with_options(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    let options = Options::parse(&ctx.args, 3, Family::Set)?;
    let ttl = options.life.ttl(ctx.tx.now_ms(), "set")?;
    let key = ctx.key(1);
    if options.get {
        reply_value(ctx, &key)?;
        if options.when == When::Always || fits(options.when, ctx.tx.peek(&key)?) {
            write(ctx, &key, 2, ttl);
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
        write(ctx, &key, 2, ttl);
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

/// Sets the string to argument `arg`; where its time is over already the key is gone, as if it had been set and had
/// expired.
pub(super) fn write(ctx: &mut Ctx<'_, '_>, key: &Key<'_>, arg: usize, ttl: Ttl) {
    match ttl {
        Ttl::At(at) if at <= ctx.tx.now_ms() => {
            ctx.tx.remove(key);
            ctx.notify(Class::String, "set", key);
            ctx.notify(Class::Generic, "expire", key);
            ctx.notify(Class::Expired, "expired", key);
        }
        ttl => {
            ctx.set_to(key, arg, ttl);
            if let Ttl::At(_) = ttl {
                ctx.notify(Class::Generic, "expire", key);
            }
        }
    }
}

/// SETNX key value
pub fn setnx(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    let key = ctx.key(1);
    let free = !ctx.tx.exists(&key);
    if free {
        ctx.set_to(&key, 2, Ttl::Clear);
    }
    ctx.out.integer(i64::from(free));
    Ok(())
}

/// SETEX key seconds value
pub fn setex(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    set_for(ctx, Unit::Seconds, "setex")
}

/// PSETEX key milliseconds value
pub fn psetex(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    set_for(ctx, Unit::Millis, "psetex")
}

fn set_for(ctx: &mut Ctx<'_, '_>, unit: Unit, command: &str) -> CmdResult {
    let ttl = Life::Until(unit, ctx.args.get(2)).ttl(ctx.tx.now_ms(), command)?;
    let key = ctx.key(1);
    write(ctx, &key, 3, ttl);
    ctx.out.ok();
    Ok(())
}

/// DELIFEQ key value
pub fn delifeq(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    let key = ctx.key(1);
    let equal = ctx.tx.peek(&key)? == Some(ctx.args.get(2));
    let done = equal && ctx.tx.remove(&key);
    if done {
        ctx.notify(Class::Generic, "del", &key);
    }
    ctx.out.integer(i64::from(done));
    Ok(())
}
