//! DEL, UNLINK, EXISTS, TOUCH, TYPE, RANDOMKEY.

use varve_store::{Key, Tx};

use crate::errors::CmdResult;
use crate::notify::Class;
use crate::{Ctx, WideCtx};

/// DEL key [key ...]
pub fn del(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    count(ctx, remove);
    Ok(())
}

/// UNLINK key [key ...]: the same as DEL, which never frees more than a step while it is waited for.
pub fn unlink(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    count(ctx, remove);
    Ok(())
}

fn remove(tx: &mut Tx<'_>, key: &Key<'_>) -> bool {
    let there = tx.remove(key);
    if there {
        tx.notify(Class::Generic, "del", key);
    }
    there
}

/// EXISTS key [key ...]
pub fn exists(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    count(ctx, |tx, key| {
        let found = tx.exists(key);
        tx.note_read(key, found);
        found
    });
    Ok(())
}

/// TOUCH key [key ...]
pub fn touch(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    count(ctx, |tx, key| tx.touch(key));
    Ok(())
}

/// Replies with the number of arguments for which `act` is true, one named twice twice.
fn count(ctx: &mut Ctx<'_, '_>, act: impl Fn(&mut Tx<'_>, &Key<'_>) -> bool) {
    let mut sum = 0;
    for at in 1..ctx.args.len() {
        let key = ctx.key(at);
        sum += i64::from(act(&mut ctx.tx, &key));
    }
    ctx.out.integer(sum);
}

/// TYPE key
pub fn type_name(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    let key = ctx.key(1);
    let ty = ctx.tx.type_of(&key);
    ctx.tx.note_read(&key, ty.is_some());
    let name = ty.map_or("none", |ty| ty.name());
    ctx.out.simple(name);
    Ok(())
}

/// RANDOMKEY
pub fn randomkey(ctx: &mut WideCtx<'_>) -> CmdResult {
    match ctx.store.random_key(ctx.worker, ctx.session.db) {
        Some(key) => ctx.out.bulk(&key),
        None => ctx.out.null(),
    }
    Ok(())
}
