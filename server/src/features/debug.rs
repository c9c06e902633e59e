//! DEBUG: what concerns the server itself; what concerns the keyspace is varve-command's.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use varve_command::WideCtx;

use crate::config::kind;
use crate::state::ctx::{After, ServerCtx};

/// `DEBUG subcommand [argument...]`
pub(crate) fn debug(ctx: &mut ServerCtx<'_>) -> After {
    let args = ctx.args;
    match (args.get(1).to_ascii_uppercase().as_slice(), args.len()) {
        (b"SLEEP", 3) => sleep(ctx),
        (b"LOG", 3) => {
            tracing::warn!("DEBUG LOG: {}", String::from_utf8_lossy(args.get(2)));
            ctx.out.ok();
        }
        (b"SEGFAULT", 2) => crate::system::sys::segfault(),
        (b"PANIC", 2) => panic!("called by DEBUG PANIC"),
        (b"CONFIG-REWRITE-FORCE-ALL", 2) => match ctx.state.config.rewrite(true) {
            Ok(()) => ctx.out.ok(),
            Err(text) => ctx.out.error(&text),
        },
        (b"QUICKLIST-PACKED-THRESHOLD", 3) => list_threshold(ctx),
        (b"SET-ACTIVE-EXPIRE", 3) => {
            ctx.state.store.set_active_expire(args.get(2) != b"0");
            ctx.out.ok();
        }
        (b"PAUSE-CRON", 3) => {
            ctx.state.ticks_paused.store(args.get(2) != b"0", Ordering::Relaxed);
            ctx.out.ok();
        }
        (b"REPLYBUFFER", 4) if args.is(2, "RESIZING") => {
            ctx.state.outputs_kept.store(args.get(3) == b"0", Ordering::Relaxed);
            ctx.out.ok();
        }
        _ => keyspace(ctx),
    }
    After::Done
}

/// Keeps this worker asleep, as Redis keeps its only thread.
fn sleep(ctx: &mut ServerCtx<'_>) {
    let text = std::str::from_utf8(ctx.args.get(2)).unwrap_or_default();
    let seconds = text.parse::<f64>().unwrap_or(0.0);
    if let Ok(duration) = Duration::try_from_secs_f64(seconds) {
        std::thread::sleep(duration);
    }
    ctx.out.ok();
}

/// The size from which a list's element has a node to itself; 0 means that of no element.
fn list_threshold(ctx: &mut ServerCtx<'_>) {
    match kind::memory(ctx.args.get(2)).filter(|bytes| *bytes <= THRESHOLD_MAX) {
        Some(0) => ctx.state.store.shapes().set_list_alone(u64::MAX),
        Some(bytes) => ctx.state.store.shapes().set_list_alone(bytes),
        None => return ctx.out.error("ERR argument must be a memory value bigger than 1 and smaller than 4gb"),
    }
    ctx.out.ok();
}

/// Greatest threshold that Redis takes.
const THRESHOLD_MAX: u64 = (4 << 30) - (1 << 20);

/// What needs the keyspace at rest, or nothing at all.
fn keyspace(ctx: &mut ServerCtx<'_>) {
    let store = Arc::clone(&ctx.state.store);
    // In a transaction the gate is held already.
    let _alone = (!ctx.conn.session.in_exec).then(|| store.gate().alone(ctx.store.id()));
    let session = &mut ctx.conn.session;
    let (args, worker, out) = (ctx.args, &mut *ctx.store, &mut *ctx.out);
    if let Err(error) = varve_command::debug::run(&mut WideCtx { args, store: &store, worker, out, session }) {
        error.reply(ctx.out);
    }
    ctx.store.park();
}
