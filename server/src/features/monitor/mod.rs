//! MONITOR: this connection gets a line for every command.

pub(crate) mod state;

use varve_exec::CmdResult;

use crate::state::ctx::{After, Handlers, ServerCtx};

/// The handlers, by the full names of their rows.
pub(super) const HANDLERS: Handlers = &[("monitor", monitor)];

/// `MONITOR`: replied to once.
fn monitor(ctx: &mut ServerCtx<'_>) -> CmdResult<After> {
    if ctx.conn.session.begin_monitoring() {
        ctx.hub.monitor(ctx.state.pubsub(), ctx.conn.who(), true);
        ctx.state.monitors().count(ctx.hub.worker(), true);
        ctx.out.ok();
    }
    Ok(After::Done)
}
