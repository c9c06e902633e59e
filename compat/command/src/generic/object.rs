//! OBJECT: what is known of a value besides its content. Nothing here moves the access clock.

use varve_base::number::parse_i64;
use varve_store::{ObjectInfo, Store};

use crate::errors::{CmdResult, CommandError};
use crate::grammar::help;
use crate::{Ctx, SessionCtx};

/// Redis shares the integers below this between all keys and tells a boundless count for them.
const SHARED_INTEGERS: i64 = 10_000;
const SHARED_COUNT: i64 = i32::MAX as i64;

/// OBJECT ENCODING key
pub fn object_encoding(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    match info(ctx) {
        Some(info) => ctx.out.bulk(info.encoding.as_bytes()),
        None => ctx.out.null(),
    }
    Ok(())
}

/// OBJECT IDLETIME key
pub fn object_idletime(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    const LFU: CommandError = CommandError::new(
        &"ERR An LFU maxmemory policy is selected, idle time not tracked. Please note that when switching between \
         policies at runtime LRU and LFU data will take some time to adjust.",
    );
    match info(ctx) {
        Some(_) if ctx.tx.store().policy().counts_uses() => return Err(LFU),
        Some(info) => ctx.out.integer(info.idle_s as i64),
        None => ctx.out.null(),
    }
    Ok(())
}

/// OBJECT FREQ key
pub fn object_freq(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    const NO_LFU: CommandError = CommandError::new(
        &"ERR An LFU maxmemory policy is not selected, access frequency not tracked. Please note that when switching \
         between policies at runtime LRU and LFU data will take some time to adjust.",
    );
    match info(ctx) {
        Some(info) if ctx.tx.store().policy().counts_uses() => ctx.out.integer(i64::from(info.freq)),
        Some(_) => return Err(NO_LFU),
        None => ctx.out.null(),
    }
    Ok(())
}

/// OBJECT REFCOUNT key
pub fn object_refcount(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    let key = ctx.key(2);
    match info(ctx) {
        Some(info) => {
            let shares = shares_integers(ctx.tx.store());
            let count = refcount(&info, ctx.tx.glance(&key), shares);
            ctx.out.integer(count);
        }
        None => ctx.out.null(),
    }
    Ok(())
}

/// The count that Redis would tell: every value is its key's own here, but clients may look for shared integers.
pub(crate) fn refcount(info: &ObjectInfo, value: Option<&[u8]>, shares: bool) -> i64 {
    let number = value.filter(|_| shares && info.encoding == "int" && !info.is_copy).and_then(parse_i64);
    if number.is_some_and(|n| (0..SHARED_INTEGERS).contains(&n)) { SHARED_COUNT } else { 1 }
}

/// Redis does not share integers where a limit's policy looks at how each key is used.
pub(crate) fn shares_integers(store: &Store) -> bool {
    store.limit_bytes() == 0 || !store.policy().looks_at_use()
}

fn info(ctx: &mut Ctx<'_, '_>) -> Option<ObjectInfo> {
    let key = ctx.key(2);
    let info = ctx.tx.object(&key);
    ctx.tx.note_lookup(info.is_some());
    info
}

/// OBJECT HELP
pub fn object_help(ctx: &mut SessionCtx<'_>) -> CmdResult {
    help(
        ctx.out,
        "OBJECT",
        &[
            "ENCODING <key>",
            "    Tell how the value of <key> is kept.",
            "FREQ <key>",
            "    Tell how often <key> was used of late, on a logarithmic scale. Needs an",
            "    LFU maxmemory policy.",
            "IDLETIME <key>",
            "    Tell the seconds since <key> was last used.",
            "REFCOUNT <key>",
            "    Tell how many holders the value of <key> has.",
        ],
    );
    Ok(())
}
