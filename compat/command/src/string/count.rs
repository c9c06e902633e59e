//! Numbers kept in strings: INCR and its kin on 64-bit integers, INCRBYFLOAT on 80-bit floating point.

use varve_base::number::{Extended, INT_TEXT_MAX, write_i64};
use varve_store::Form;

use crate::Ctx;
use crate::grammar::{Fault, Outcome, integer, settle};
use crate::notify::Class;

/// INCR key
pub fn incr(ctx: &mut Ctx<'_, '_>) {
    let outcome = add(ctx, 1);
    settle(ctx, outcome);
}

/// DECR key
pub fn decr(ctx: &mut Ctx<'_, '_>) {
    let outcome = add(ctx, -1);
    settle(ctx, outcome);
}

/// INCRBY key increment
pub fn incrby(ctx: &mut Ctx<'_, '_>) {
    let outcome = integer(ctx.args.get(2)).and_then(|by| add(ctx, by));
    settle(ctx, outcome);
}

/// DECRBY key decrement
pub fn decrby(ctx: &mut Ctx<'_, '_>) {
    const OVERFLOW: Fault = Fault::new("ERR decrement would overflow");
    let outcome = integer(ctx.args.get(2)).and_then(|by| by.checked_neg().ok_or(OVERFLOW)).and_then(|by| add(ctx, by));
    settle(ctx, outcome);
}

/// Adds to the number that the key holds, 0 without the key; the expiry stays.
fn add(ctx: &mut Ctx<'_, '_>, by: i64) -> Outcome {
    const OVERFLOW: Fault = Fault::new("ERR increment or decrement would overflow");
    let key = ctx.key(1);
    let mut text = [0; INT_TEXT_MAX];
    let new = ctx.tx.rewrite(&key, Form::Auto, |old| {
        let new = old.map_or(Ok(0), integer)?.checked_add(by).ok_or(OVERFLOW)?;
        Ok::<_, Fault>(write_i64(&mut text, new))
    })?;
    ctx.notify(Class::String, "incrby", &key);
    ctx.out.raw(b":");
    ctx.out.raw(new);
    ctx.out.raw(b"\r\n");
    Ok(())
}

/// INCRBYFLOAT key increment
pub fn incrbyfloat(ctx: &mut Ctx<'_, '_>) {
    let outcome = add_float(ctx);
    settle(ctx, outcome);
}

fn add_float(ctx: &mut Ctx<'_, '_>) -> Outcome {
    const NOT_FINITE: Fault = Fault::new("ERR increment would produce NaN or Infinity");
    let number = |text: &[u8]| Extended::parse(text).ok_or(Fault::NOT_FLOAT);
    let key = ctx.key(1);
    let by = ctx.args.get(2);
    let text = ctx.tx.rewrite(&key, Form::Plain, |old| {
        let new = old.map_or(Ok(Extended::ZERO), number)? + number(by)?;
        if !new.is_finite() {
            return Err(NOT_FINITE);
        }
        let mut text = Vec::with_capacity(32);
        new.push_human(&mut text);
        Ok(text)
    })?;
    ctx.notify(Class::String, "incrbyfloat", &key);
    ctx.out.bulk(&text);
    Ok(())
}
