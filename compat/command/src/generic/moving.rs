//! RENAME, RENAMENX, COPY, MOVE: a value under another name or in another database.

use varve_store::Key;

use crate::Ctx;
use crate::errors::{CmdResult, CommandError};
use crate::grammar::{database, is};
use crate::notify::Class;

const SAME: CommandError = CommandError::new(&"ERR source and destination objects are the same");

/// RENAME key newkey
pub fn rename(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    give_name(ctx, true).map(|_| ctx.out.ok())
}

/// RENAMENX key newkey
pub fn renamenx(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    give_name(ctx, false).map(|done| ctx.out.integer(i64::from(done)))
}

/// Renames; false if the new name is taken and may not be replaced.
fn give_name(ctx: &mut Ctx<'_, '_>, replace: bool) -> CmdResult<bool> {
    let (from, to) = (ctx.key(1), ctx.key(2));
    if !ctx.tx.exists(&from) {
        return Err(CommandError::NO_KEY);
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
pub fn copy(ctx: &mut Ctx<'_, '_>) -> CmdResult {
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
            return Err(CommandError::SYNTAX);
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
        ctx.tx.admit_more(bytes as u64).map_err(|_| CommandError::OUT_OF_MEMORY)?;
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
pub fn move_key(ctx: &mut Ctx<'_, '_>) -> CmdResult {
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
