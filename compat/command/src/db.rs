//! Whole databases: DBSIZE, FLUSHDB, FLUSHALL, SWAPDB. And TIME.

use std::time::{SystemTime, UNIX_EPOCH};

use varve_protocol::Args;

use crate::grammar::{Fault, Outcome, is, small_integer};
use crate::{SessionCtx, WideCtx};

/// DBSIZE
pub fn dbsize(ctx: &mut WideCtx<'_>) {
    ctx.out.integer(ctx.store.len(ctx.session.db) as i64);
}

/// FLUSHDB [ASYNC | SYNC]
pub fn flushdb(ctx: &mut WideCtx<'_>) {
    match check_mode(&ctx.args) {
        Ok(()) => {
            ctx.store.flush_db(ctx.worker, ctx.session.db);
            ctx.out.ok();
        }
        Err(fault) => fault.reply(ctx.out),
    }
}

/// FLUSHALL [ASYNC | SYNC]
pub fn flushall(ctx: &mut WideCtx<'_>) {
    match check_mode(&ctx.args) {
        Ok(()) => {
            ctx.store.flush_all(ctx.worker);
            ctx.out.ok();
        }
        Err(fault) => fault.reply(ctx.out),
    }
}

/// Both modes do the same: the keys are gone at once, their memory is given back in steps.
fn check_mode(args: &Args<'_>) -> Outcome {
    match args.len() {
        1 => Ok(()),
        2 if is(args.get(1), "ASYNC") || is(args.get(1), "SYNC") => Ok(()),
        _ => Err(Fault::SYNTAX),
    }
}

/// SWAPDB index1 index2
pub fn swapdb(ctx: &mut WideCtx<'_>) {
    match two_databases(&ctx.args, ctx.store.databases()) {
        Ok((a, b)) => {
            if a != b {
                ctx.store.swap_db_at(ctx.worker.now_ms(), a, b);
            }
            ctx.out.ok();
        }
        Err(fault) => fault.reply(ctx.out),
    }
}

fn two_databases(args: &Args<'_>, databases: u32) -> Outcome<(u32, u32)> {
    let a = small_integer(args.get(1)).map_err(|_| Fault::new("ERR invalid first DB index"))?;
    let b = small_integer(args.get(2)).map_err(|_| Fault::new("ERR invalid second DB index"))?;
    let known = |n: i32| u32::try_from(n).ok().filter(|n| *n < databases).ok_or(Fault::DB_RANGE);
    Ok((known(a)?, known(b)?))
}

/// TIME: the system's clock, not the batch's, because it tells microseconds.
pub fn time(ctx: &mut SessionCtx<'_>) {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    ctx.out.array(2);
    ctx.out.bulk_i64(now.as_secs() as i64);
    ctx.out.bulk_i64(i64::from(now.subsec_micros()));
}
