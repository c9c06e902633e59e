//! DEBUG: what concerns the server itself; what concerns the keyspace is varve-commands'.

use std::sync::Arc;
use std::time::Duration;

use varve_exec::{CmdResult, CommandError, WideCtx};
use varve_store::gate::ExclusiveGate;
use varve_store::{Shapes, Store, Type};

use crate::config;
use crate::errors;
use crate::features::persist;
use crate::state::command::{ServerCommand, ServerRows};
use crate::state::ctx::{After, ServerCtx};
use crate::state::{Now, work};

/// The commands of this matter.
pub(super) const ROWS: ServerRows = &[DEBUG];

/// `DEBUG subcommand [argument...]`
fn debug(ctx: &mut ServerCtx<'_>) -> CmdResult<After> {
    let args = ctx.args;
    match (args.get(1).to_ascii_uppercase().as_slice(), args.len()) {
        (b"RELOAD", _) => return reload(ctx),
        (b"LOADAOF", 2) => return load_aof(ctx),
        (b"SLEEP", 3) => sleep_all(ctx, args.get(2)),
        (b"SLEEP-WORKER", 3) => sleep(args.get(2)),
        (b"LOG", 3) => tracing::warn!("DEBUG LOG: {}", String::from_utf8_lossy(args.get(2))),
        (b"SEGFAULT", 2) => crate::system::sys::segfault(),
        (b"PANIC", 2) => panic!("called by DEBUG PANIC"),
        (b"CONFIG-REWRITE-FORCE-ALL", 2) => ctx.state.config().rewrite(true, &ctx.state.acl().lines(ctx.config))?,
        (b"QUICKLIST-PACKED-THRESHOLD", 3) => ctx.state.store().shapes().set_list_alone(threshold(args.get(2))?),
        (b"SMALL-BYTES", 3) => small_bytes(ctx.state.store().shapes(), args.get(2))?,
        (b"SET-ACTIVE-EXPIRE", 3) => ctx.state.store().set_active_expire(args.get(2) != b"0"),
        (b"PAUSE-CRON", 3) => ctx.state.pause_ticks(args.get(2) != b"0"),
        (b"AOF-FLUSH-SLEEP", 3) => {
            let micros = varve_base::number::parse_i64(args.get(2)).and_then(|micros| u64::try_from(micros).ok());
            ctx.state.persist().aof.set_write_delay(Duration::from_micros(micros.unwrap_or(0)));
        }
        (b"REPLYBUFFER", 4) if args.is(2, "RESIZING") => {
            ctx.state.keep_outputs(args.get(3) == b"0");
        }
        _ => return keyspace(ctx),
    }
    ctx.out.ok();
    Ok(After::Done)
}

/// The row stands beside `varve_commands::debug::run`.
const DEBUG: ServerCommand = ServerCommand::new(debug, varve_commands::debug::ROW);

/// `DEBUG RELOAD [MERGE] [NOFLUSH] [NOSAVE]`: saves, empties everything and loads what was saved.
fn reload(ctx: &mut ServerCtx<'_>) -> CmdResult<After> {
    let (mut merge, mut flush, mut save) = (false, true, true);
    for at in 2..ctx.args.len() {
        match () {
            () if ctx.args.is(at, "MERGE") => merge = true,
            () if ctx.args.is(at, "NOFLUSH") => flush = false,
            () if ctx.args.is(at, "NOSAVE") => save = false,
            () => return Err(errors::RELOAD_OPTION),
        }
    }
    let store = Arc::clone(ctx.state.store());
    let Some(_alone) = alone(ctx, &store) else { return Ok(After::Busy) };
    refuse_while_loading(ctx)?;
    if save && !persist::save_alone(ctx.state, ctx.store) {
        return Err(errors::SAVE_FAILED);
    }
    if flush {
        store.flush_all(ctx.store);
        ctx.state.scripts().functions().flush();
    }
    ctx.store.set_now(ctx.now.unix_ms);
    persist::load::alone(ctx.state, ctx.store, merge).map_err(|_| errors::RELOAD_FAILED)?;
    ctx.store.park();
    ctx.out.ok();
    Ok(After::Done)
}

/// `DEBUG LOADAOF`: empties everything and loads the append-only file. Others are answered LOADING meanwhile.
fn load_aof(ctx: &mut ServerCtx<'_>) -> CmdResult<After> {
    if ctx.conn.session().is_in_exec() || ctx.state.persist().loading.is_on() {
        return Err(errors::LOADAOF_NOW);
    }
    let waiter = work::waiter(ctx);
    let tries = ctx.conn.session().busy_tries();
    let begun = persist::aof::reload::begin(ctx.state, ctx.store, waiter, tries);
    if !begun.map_err(|_| errors::LOADAOF_FAILED)? {
        return Ok(After::Busy);
    }
    Ok(work::waits(ctx))
}

/// `DEBUG SLEEP seconds`: keeps all workers asleep, and the link to a primary, as redis-server keeps its only thread: nobody is
/// answered meanwhile, and nothing is sent to replicas.
fn sleep_all(ctx: &ServerCtx<'_>, seconds: &[u8]) {
    let Some(time) = sleep_time(seconds) else { return };
    let time_ms = i64::try_from(time.as_millis()).unwrap_or(i64::MAX);
    ctx.state.sleep_until(Now::read().steady_ms.saturating_add(time_ms));
    std::thread::sleep(time);
}

/// `DEBUG SLEEP-WORKER seconds`, which redis-server does not have: keeps this worker asleep. For tests of others beside it.
fn sleep(seconds: &[u8]) {
    sleep_time(seconds).into_iter().for_each(std::thread::sleep);
}

/// The time that a client asks for, if it is one and not 0.
fn sleep_time(seconds: &[u8]) -> Option<Duration> {
    let seconds = std::str::from_utf8(seconds).unwrap_or_default().parse::<f64>().unwrap_or(0.0);
    Duration::try_from_secs_f64(seconds).ok().filter(|time| !time.is_zero())
}

/// Greatest threshold that Redis takes.
const THRESHOLD_MAX: u64 = (4 << 30) - (1 << 20);

/// The size in bytes from which a list's element has a node to itself; 0 means that of no element.
fn threshold(text: &[u8]) -> CmdResult<u64> {
    match config::memory(text).filter(|bytes| *bytes <= THRESHOLD_MAX) {
        Some(0) => Ok(u64::MAX),
        Some(bytes) => Ok(bytes),
        None => Err(errors::THRESHOLD),
    }
}

/// `DEBUG SMALL-BYTES bytes`, which redis-server does not have: hashes, sets and sorted sets beyond the settings of small ones
/// lie in their key's object up to this number of bytes. For tests that are to meet each form, and each change of form.
fn small_bytes(shapes: &Shapes, text: &[u8]) -> CmdResult {
    let bytes = config::memory(text).and_then(|bytes| usize::try_from(bytes).ok()).ok_or(errors::THRESHOLD)?;
    [Type::Hash, Type::Set, Type::Zset].iter().for_each(|&ty| shapes.small(ty).set_outgrown_bytes(bytes));
    Ok(())
}

/// The place of a subcommand alone behind the gate, which a transaction has taken already; `None` if it is not to be had now.
fn alone<'g>(ctx: &ServerCtx<'_>, store: &'g Store) -> Option<Option<ExclusiveGate<'g>>> {
    let session = ctx.conn.session();
    if session.is_in_exec() {
        return Some(None);
    }
    store.gate().try_exclusive(ctx.store.id(), session.busy_tries()).map(Some)
}

/// Refuses a subcommand that makes keys while a file is loaded: a key that is there when it comes in the file ends the loading, and
/// the server with it. The gate is held alone, behind which no loading begins.
fn refuse_while_loading(ctx: &ServerCtx<'_>) -> CmdResult {
    if ctx.state.persist().loading.is_on() { Err(CommandError::LOADING) } else { Ok(()) }
}

/// Runs the subcommands that need the keyspace at rest, or nothing at all.
fn keyspace(ctx: &mut ServerCtx<'_>) -> CmdResult<After> {
    let store = Arc::clone(ctx.state.store());
    let Some(_alone) = alone(ctx, &store) else { return Ok(After::Busy) };
    if ctx.args.is(1, "POPULATE") {
        refuse_while_loading(ctx)?;
    }
    let session = ctx.conn.session_mut();
    let (args, worker, out) = (ctx.args, &mut *ctx.store, &mut *ctx.out);
    let result = varve_commands::debug::run(&mut WideCtx {
        row: &varve_commands::debug::ROW,
        args,
        store: &store,
        worker,
        out,
        session,
    });
    ctx.store.park();
    result.map(|()| After::Done)
}
