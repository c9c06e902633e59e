//! The SLOWLOG family: reads and empties the ring of slow commands (slowlog.rs of the crate).

use super::integer;
use crate::host::{HostCtx, Outcome};

/// Entries that SLOWLOG GET shows where no count is given.
const SHOWN: usize = 10;

/// `SLOWLOG GET [count]`
pub(crate) fn get(ctx: &mut HostCtx<'_>) -> Outcome {
    if ctx.args.len() > 3 {
        let name = String::from_utf8_lossy(ctx.args.get(1));
        let text = format!("ERR unknown subcommand or wrong number of arguments for '{name}'. Try SLOWLOG HELP.");
        ctx.out.error(&text);
        return Outcome::Done;
    }
    let count = match ctx.args.opt(2).map(integer) {
        None => SHOWN,
        Some(Some(-1)) => usize::MAX,
        Some(Some(count)) if count >= 0 => count as usize,
        Some(_) => {
            ctx.out.error("ERR count should be greater than or equal to -1");
            return Outcome::Done;
        }
    };
    let log = ctx.shared.slowlog.lock();
    ctx.out.array(count.min(log.len()));
    for entry in log.iter().take(count) {
        ctx.out.array(6);
        ctx.out.integer(entry.id as i64);
        ctx.out.integer(entry.command.at_s);
        ctx.out.integer(entry.command.micros as i64);
        ctx.out.array(entry.command.args.len());
        entry.command.args.iter().for_each(|arg| ctx.out.bulk(arg));
        ctx.out.bulk(entry.peer.as_bytes());
        ctx.out.bulk(&entry.name);
    }
    Outcome::Done
}

/// `SLOWLOG LEN`
pub(crate) fn len(ctx: &mut HostCtx<'_>) -> Outcome {
    ctx.out.integer(ctx.shared.slowlog.lock().len() as i64);
    Outcome::Done
}

/// `SLOWLOG RESET`
pub(crate) fn reset(ctx: &mut HostCtx<'_>) -> Outcome {
    ctx.shared.slowlog.lock().reset();
    ctx.out.ok();
    Outcome::Done
}

/// `SLOWLOG HELP`
pub(crate) fn help(ctx: &mut HostCtx<'_>) -> Outcome {
    super::help(
        ctx.out,
        "SLOWLOG",
        &[
            "GET [<count>]",
            "    The latest entries, newest first (10 unless told, -1 for all). An entry is:",
            "    number, Unix time, duration in microseconds, arguments, client's address, client's name",
            "LEN",
            "    The number of entries.",
            "RESET",
            "    Forget all entries.",
        ],
    );
    Outcome::Done
}
