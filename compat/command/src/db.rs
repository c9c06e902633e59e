//! Whole databases: DBSIZE, FLUSHDB, FLUSHALL, SWAPDB. And TIME.

use std::time::{SystemTime, UNIX_EPOCH};

use varve_protocol::Args;

use crate::errors::{CmdResult, CommandError};
use crate::grammar::{is, small_integer};
use crate::{SessionCtx, WideCtx};

/// DBSIZE
pub fn dbsize(ctx: &mut WideCtx<'_>) -> CmdResult {
    ctx.out.integer(ctx.store.len(ctx.session.db) as i64);
    Ok(())
}

/// FLUSHDB [ASYNC | SYNC]
pub fn flushdb(ctx: &mut WideCtx<'_>) -> CmdResult {
    check_mode(&ctx.args)?;
    ctx.store.flush_db(ctx.worker, ctx.session.db);
    ctx.out.ok();
    Ok(())
}

/// FLUSHALL [ASYNC | SYNC]
pub fn flushall(ctx: &mut WideCtx<'_>) -> CmdResult {
    check_mode(&ctx.args)?;
    ctx.store.flush_all(ctx.worker);
    ctx.out.ok();
    Ok(())
}

/// Both modes do the same: the keys are gone at once, their memory is given back in steps.
fn check_mode(args: &Args<'_>) -> CmdResult {
    match args.len() {
        1 => Ok(()),
        2 if is(args.get(1), "ASYNC") || is(args.get(1), "SYNC") => Ok(()),
        _ => Err(CommandError::SYNTAX),
    }
}

/// SWAPDB index1 index2
pub fn swapdb(ctx: &mut WideCtx<'_>) -> CmdResult {
    let (a, b) = two_databases(&ctx.args, ctx.store.databases())?;
    if a != b {
        ctx.store.swap_db_at(ctx.worker.now_ms(), a, b);
    }
    ctx.out.ok();
    Ok(())
}

fn two_databases(args: &Args<'_>, databases: u32) -> CmdResult<(u32, u32)> {
    let a = small_integer(args.get(1)).map_err(|_| CommandError::new(&"ERR invalid first DB index"))?;
    let b = small_integer(args.get(2)).map_err(|_| CommandError::new(&"ERR invalid second DB index"))?;
    let known = |n: i32| u32::try_from(n).ok().filter(|n| *n < databases).ok_or(CommandError::DB_RANGE);
    Ok((known(a)?, known(b)?))
}

/// TIME: the system's clock, not the batch's, because it tells microseconds.
pub fn time(ctx: &mut SessionCtx<'_>) -> CmdResult {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    ctx.out.array(2);
    ctx.out.bulk_i64(now.as_secs() as i64);
    ctx.out.bulk_i64(i64::from(now.subsec_micros()));
    Ok(())
}
