//! MONITOR: this connection gets a line for every command.

pub(crate) mod state;

use varve_catalog::{Flags, Group, Row};
use varve_exec::CmdResult;

use crate::errors;
use crate::state::command::{ServerCommand, ServerRows};
use crate::state::ctx::{After, ServerCtx};

/// The commands of this matter.
pub(super) const ROWS: ServerRows = &[MONITOR];

/// `MONITOR`: replied to once. Lines cannot stand between the replies of EXEC.
fn monitor(ctx: &mut ServerCtx<'_>) -> CmdResult<After> {
    if ctx.conn.session().is_in_exec() {
        return Err(errors::MONITOR_IN_EXEC);
    }
    if ctx.conn.session_mut().begin_monitoring() {
        ctx.hub.monitor(ctx.state.pubsub(), ctx.conn.who(), true);
        ctx.state.monitors().count(ctx.hub.worker(), true);
        ctx.out.ok();
    }
    Ok(After::Done)
}

const MONITOR: ServerCommand = ServerCommand::new(
    monitor,
    Row::new("monitor", Group::Server, 1, "1.0.0").about("Shows every command that the server runs.", "").flags(&[
        Flags::ADMIN,
        Flags::NOSCRIPT,
        Flags::LOADING,
        Flags::STALE,
    ]),
);
