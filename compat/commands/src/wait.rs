//! WAIT: waits for replicas to have what this client has written. There are none, so their number is 0 at once and stays
//! so: only the time, or CLIENT UNBLOCK, ends a wait for some.

use varve_base::number::parse_i64;
use varve_catalog::{Acl, ArgKind, Flags, Group, Row, arg};
use varve_exec::{CmdResult, Command, CommandError, Exec, FileRows, SessionCtx};

use crate::grammar::integer;

pub(crate) const ROWS: FileRows = &[WAIT];

/// `WAIT numreplicas timeout`
fn wait(ctx: &mut SessionCtx<'_>) -> CmdResult {
    let wanted = integer(ctx.args.get(1))?;
    let timeout_ms = parse_i64(ctx.args.get(2)).ok_or(CommandError::TIMEOUT_NOT_INTEGER)?;
    let timeout_ms = u64::try_from(timeout_ms).map_err(|_| CommandError::TIMEOUT_NEGATIVE)?;
    if wanted <= 0 || ctx.session.is_in_exec() {
        ctx.out.integer(0);
    } else {
        ctx.wait(timeout_ms);
    }
    Ok(())
}

const WAIT: Command = Command::new(
    Exec::Session(wait),
    Row::new("wait", Group::Generic, 3, "3.0.0")
        .about("Waits until this number of replicas has what the connection wrote.", "O(1)")
        .flags(&[Flags::NOSCRIPT])
        .acl(&[Acl::CONNECTION])
        .tips(&["request_policy:all_shards", "response_policy:agg_min"])
        .args(&[arg("numreplicas", ArgKind::Integer), arg("timeout", ArgKind::Integer)]),
);
