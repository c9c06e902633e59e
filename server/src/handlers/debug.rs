//! DEBUG: what concerns the server itself; what concerns the keyspace is varve-command's.

use std::time::Duration;

use crate::host::{HostCtx, Outcome};

/// `DEBUG subcommand [argument...]`
pub(crate) fn debug(ctx: &mut HostCtx<'_>) -> Outcome {
    let args = ctx.args;
    match (args.get(1).to_ascii_uppercase().as_slice(), args.len()) {
        (b"SLEEP", 3) => sleep(ctx),
        (b"LOG", 3) => {
            tracing::warn!("DEBUG LOG: {}", String::from_utf8_lossy(args.get(2)));
            ctx.out.ok();
        }
        (b"SEGFAULT", 2) => crate::sys::segfault(),
        (b"PANIC", 2) => panic!("called by DEBUG PANIC"),
        (b"CONFIG-REWRITE-FORCE-ALL", 2) => match ctx.shared.config.rewrite(true) {
            Ok(()) => ctx.out.ok(),
            Err(text) => ctx.out.error(&text),
        },
        _ => return keyspace(ctx),
    }
    Outcome::Done
}

/// Keeps this worker asleep, as Redis keeps its only thread.
fn sleep(ctx: &mut HostCtx<'_>) {
    let text = std::str::from_utf8(ctx.args.get(2)).unwrap_or_default();
    let seconds = text.parse::<f64>().unwrap_or(0.0);
    if let Ok(duration) = Duration::try_from_secs_f64(seconds) {
        std::thread::sleep(duration);
    }
    ctx.out.ok();
}

fn keyspace(ctx: &mut HostCtx<'_>) -> Outcome {
    ctx.out.error("ERR stub");
    Outcome::Done
}
