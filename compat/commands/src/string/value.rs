//! A string whole: its reply, and how it is written so that the report of the change does it again.

use varve_exec::notify::{Again, Class, Effect, Words};
use varve_exec::{CmdResult, Ctx};
use varve_store::{Key, Removal, Ttl};

/// Replies with the string or null; true if there was one.
#[inline(always)]
pub(super) fn reply_value(ctx: &mut Ctx<'_, '_>, key: &Key<'_>) -> CmdResult<bool> {
    let large = ctx.tx.pin_min();
    match ctx.tx.get(key)? {
        None => {
            ctx.out.null();
            return Ok(false);
        }
        Some(value) if value.len() < large => ctx.out.bulk(value),
        Some(value) => {
            let whole = 0..value.len();
            ctx.reply_large(key, whole);
        }
    }
    Ok(true)
}

/// Sets the string to argument `arg`, which is done again by a SET of this key alone.
pub(super) fn write_as_set(ctx: &mut Ctx<'_, '_>, key: &Key<'_>, arg: usize, ttl: Ttl) {
    let (name, value) = (key.bytes, ctx.args.get(arg));
    let set = |words: &mut Words<'_>| {
        words.add(b"SET").add(name).add(value);
        if ttl == Ttl::Keep {
            words.add(b"KEEPTTL");
        }
    };
    write(ctx, key, arg, ttl, Again::Words(&set));
}

/// Sets the string to argument `arg`, which `again` does again if there is no time to live. A key whose time is over
/// already is gone: it is as if it had been set and had expired. Where a file is replayed it stays, for the commands behind.
pub(super) fn write(ctx: &mut Ctx<'_, '_>, key: &Key<'_>, arg: usize, ttl: Ttl, again: Again<'_>) {
    let Ttl::At(at) = ttl else { return ctx.set_to(key, arg, ttl, again) };
    if at <= ctx.tx.now_ms() && ctx.tx.ends_overdue() {
        return end_overdue(ctx, key, "set");
    }
    let value = ctx.args.get(arg);
    let until = |words: &mut Words<'_>| _ = words.add(b"SET").add(key.bytes).add(value).add(b"PXAT").number(at);
    ctx.set_to(key, arg, ttl, Again::Words(&until));
    ctx.did(key, Effect::event(Class::Generic, "expire"));
}

/// Removes a key that would have been written with a time to live which is over, and reports its `event` and its end.
pub(super) fn end_overdue(ctx: &mut Ctx<'_, '_>, key: &Key<'_>, event: &'static str) {
    let word = ctx.tx.store().lazyfree().word(Removal::Expired);
    let gone = |words: &mut Words<'_>| _ = words.add(word).add(key.bytes);
    let effect = if ctx.tx.remove(key) {
        Effect::words(Class::String, event, 1, &gone)
    } else {
        ctx.did(key, Effect::event(Class::New, "new"));
        Effect::event(Class::String, event)
    };
    ctx.did(key, effect);
    ctx.did(key, Effect::event(Class::Generic, "expire"));
    ctx.did(key, Effect::event(Class::Expired, "expired"));
}
