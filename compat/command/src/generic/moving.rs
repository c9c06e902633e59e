//! RENAME, RENAMENX, COPY, MOVE: a value under another name or in another database.

use varve_store::Key;

use crate::Ctx;
use crate::grammar::{Fault, Outcome, database, is, settle};
use crate::notify::Class;

const SAME: Fault = Fault::new("ERR source and destination objects are the same");

/// RENAME key newkey
pub fn rename(ctx: &mut Ctx<'_, '_>) {
    let outcome = give_name(ctx, true).map(|_| ctx.out.ok());
    settle(ctx, outcome);
}

/// RENAMENX key newkey
pub fn renamenx(ctx: &mut Ctx<'_, '_>) {
    let outcome = give_name(ctx, false).map(|done| ctx.out.integer(i64::from(done)));
    settle(ctx, outcome);
}

/// Renames; false if the new name is taken and may not be replaced.
fn give_name(ctx: &mut Ctx<'_, '_>, replace: bool) -> Outcome<bool> {
    let (from, to) = (ctx.key(1), ctx.key(2));
    if !ctx.tx.exists(&from) {
        return Err(Fault::NO_KEY);
    }
    if !replace && ctx.tx.exists(&to) {
        return Ok(false);
    }
    if from.bytes != to.bytes {
        ctx.tx.rename(&from, &to);
        ctx.notify(Class::Generic, "rename_from", &from);
        ctx.notify(Class::Generic, "rename_to", &to);
    }
    Ok(true)
}

/// COPY source destination [DB number] [REPLACE]
pub fn copy(ctx: &mut Ctx<'_, '_>) {
    let outcome = duplicate(ctx);
    settle(ctx, outcome);
}

fn duplicate(ctx: &mut Ctx<'_, '_>) -> Outcome {
    let (mut db, mut replace) = (ctx.tx.db(), false);
    let mut at = 3;
    while at < ctx.args.len() {
        let word = ctx.args.get(at);
        if is(word, "REPLACE") {
            replace = true;
        } else if is(word, "DB") && at + 1 < ctx.args.len() {
            at += 1;
            db = database(ctx.args.get(at), ctx.tx.databases())?;
        } else {
            return Err(Fault::SYNTAX);
        }
        at += 1;
    }
    let (from, to) = (ctx.key(1), ctx.key_in_db(2, db));
    if same(&from, &to) {
        return Err(SAME);
    }
    let free = ctx.tx.touch(&from) && (replace || !ctx.tx.exists(&to));
    if free {
        // The request's own bytes do not bound this one. The shards may be let go for it.
        let bytes = ctx.tx.object(&from).map_or(0, |object| object.bytes);
        ctx.tx.admit_more(bytes as u64).map_err(|_| Fault::OUT_OF_MEMORY)?;
    }
    let free = free && (replace || !ctx.tx.exists(&to));
    let done = free && ctx.tx.copy(&from, &to);
    if done {
        ctx.notify(Class::Generic, "copy_to", &to);
    }
    ctx.out.integer(i64::from(done));
    Ok(())
}

fn same(a: &Key<'_>, b: &Key<'_>) -> bool {
    a.db == b.db && a.bytes == b.bytes
}

/// MOVE key db
pub fn move_key(ctx: &mut Ctx<'_, '_>) {
    let outcome = change_database(ctx);
    settle(ctx, outcome);
}

fn change_database(ctx: &mut Ctx<'_, '_>) -> Outcome {
    let db = database(ctx.args.get(2), ctx.tx.databases())?;
    if db == ctx.tx.db() {
        return Err(SAME);
    }
    let (from, to) = (ctx.key(1), ctx.key_in_db(1, db));
    let done = ctx.tx.exists(&from) && !ctx.tx.exists(&to) && ctx.tx.rename(&from, &to);
    if done {
        ctx.notify(Class::Generic, "move_from", &from);
        ctx.notify(Class::Generic, "move_to", &to);
    }
    ctx.out.integer(i64::from(done));
    Ok(())
}
