//! Whole databases: DBSIZE, FLUSHDB, FLUSHALL, SWAPDB. And TIME.

use std::time::{SystemTime, UNIX_EPOCH};

use varve_catalog::{Acl, ArgKind, Flags, Group, Row, arg, one_of, word};
use varve_exec::{CmdResult, Command, CommandError, Ctx, Exec, FileRows, SessionCtx, WideCtx};
use varve_protocol::Args;

use crate::errors;
use crate::grammar::{is, small_integer};

pub(crate) const ROWS: FileRows = &[DBSIZE, FLUSHDB, FLUSHALL, SWAPDB, TIME];

/// DBSIZE
fn dbsize(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    ctx.out.integer(ctx.tx.store().len(ctx.session.db()) as i64);
    Ok(())
}

const DBSIZE: Command = Command::new(
    Exec::Keyspace(dbsize),
    Row::new("dbsize", Group::Server, 1, "1.0.0")
        .about("Counts the keys of the database.", "O(1)")
        .flags(&[Flags::READONLY, Flags::FAST])
        .acl(&[Acl::KEYSPACE])
        .tips(&["request_policy:all_shards", "response_policy:agg_sum"]),
);

/// FLUSHDB [ASYNC | SYNC]
fn flushdb(ctx: &mut WideCtx<'_>) -> CmdResult {
    check_mode(&ctx.args)?;
    ctx.store.flush_db(ctx.worker, ctx.session.db());
    ctx.worker.did_whole();
    ctx.out.ok();
    Ok(())
}

const FLUSHDB: Command = Command::new(
    Exec::Exclusive(flushdb),
    Row::new("flushdb", Group::Server, -1, "1.0.0")
        .about("Empties the database.", "O(1), memory is freed in steps")
        .flags(&[Flags::WRITE])
        .acl(&[Acl::KEYSPACE, Acl::DANGEROUS])
        .tips(&["request_policy:all_shards", "response_policy:all_succeeded"])
        .history(&[("4.0.0", "`ASYNC`."), ("6.2.0", "`SYNC`.")])
        .args(&[
            one_of("async", &[word("async", "ASYNC").since("4.0.0"), word("sync", "SYNC").since("6.2.0")]).optional()
        ]),
);

/// FLUSHALL [ASYNC | SYNC]
fn flushall(ctx: &mut WideCtx<'_>) -> CmdResult {
    check_mode(&ctx.args)?;
    ctx.store.flush_all(ctx.worker);
    ctx.worker.did_whole();
    ctx.out.ok();
    Ok(())
}

const FLUSHALL: Command = Command::new(
    Exec::Exclusive(flushall),
    Row::new("flushall", Group::Server, -1, "1.0.0")
        .about("Empties all databases.", "O(1), memory is freed in steps")
        .flags(&[Flags::WRITE, Flags::ALL_DBS])
        .acl(&[Acl::KEYSPACE, Acl::DANGEROUS])
        .tips(&["request_policy:all_shards", "response_policy:all_succeeded"])
        .history(&[("4.0.0", "`ASYNC`."), ("6.2.0", "`SYNC`.")])
        .args(&[
            one_of("async", &[word("async", "ASYNC").since("4.0.0"), word("sync", "SYNC").since("6.2.0")]).optional()
        ]),
);

/// Both modes do the same: the keys are gone at once, their memory is given back in steps.
fn check_mode(args: &Args<'_>) -> CmdResult {
    match args.len() {
        1 => Ok(()),
        2 if is(args.get(1), "ASYNC") || is(args.get(1), "SYNC") => Ok(()),
        _ => Err(CommandError::SYNTAX),
    }
}

/// SWAPDB index1 index2
fn swapdb(ctx: &mut WideCtx<'_>) -> CmdResult {
    let (a, b) = two_databases(&ctx.args, ctx.store.databases())?;
    if a != b {
        ctx.store.swap_db_at(ctx.worker.now_ms(), a, b);
    }
    ctx.worker.did_whole();
    ctx.out.ok();
    Ok(())
}

const SWAPDB: Command = Command::new(
    Exec::Exclusive(swapdb),
    Row::new("swapdb", Group::Server, 3, "4.0.0")
        .about("Exchanges two databases.", "O(1)")
        .flags(&[Flags::WRITE, Flags::FAST])
        .acl(&[Acl::KEYSPACE, Acl::DANGEROUS])
        .args(&[arg("index1", ArgKind::Integer), arg("index2", ArgKind::Integer)]),
);

fn two_databases(args: &Args<'_>, databases: u32) -> CmdResult<(u32, u32)> {
    let a = small_integer(args.get(1)).map_err(|_| errors::FIRST_DB)?;
    let b = small_integer(args.get(2)).map_err(|_| errors::SECOND_DB)?;
    let known = |n: i32| u32::try_from(n).ok().filter(|n| *n < databases).ok_or(CommandError::DB_RANGE);
    Ok((known(a)?, known(b)?))
}

/// TIME: the system's clock, not the batch's, because it tells microseconds.
fn time(ctx: &mut SessionCtx<'_>) -> CmdResult {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    ctx.out.array(2);
    ctx.out.bulk_i64(now.as_secs() as i64);
    ctx.out.bulk_i64(i64::from(now.subsec_micros()));
    Ok(())
}

const TIME: Command = Command::new(
    Exec::Session(time),
    Row::new("time", Group::Server, 1, "2.6.0")
        .about("Answers the server's clock.", "O(1)")
        .flags(&[Flags::LOADING, Flags::STALE, Flags::FAST])
        .tips(&["nondeterministic_output"]),
);
