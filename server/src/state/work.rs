//! Clients that wait for what the server does for them beside its commands: a save, a load, the change to a primary.
//!
//! ```text
//!   handler: waiter(ctx), kept by who does the work; waits(ctx)      done --> the reply, by the client's worker
//! ```

use super::ServerState;
use super::ctx::{After, ServerCtx};
use super::mail::Message;
use crate::features::pubsub::state::WorkWaiter;
use crate::net::conn::WaitReasons;

/// The client of a command, which is going to [wait](waits).
pub(crate) fn waiter(ctx: &ServerCtx<'_>) -> WorkWaiter {
    WorkWaiter { worker: ctx.store.id(), conn: ctx.conn.who() }
}

/// The client of a command waits from now on.
pub(crate) fn waits(ctx: &mut ServerCtx<'_>) -> After {
    ctx.conn.wait(WaitReasons::WORK);
    After::Wait
}

/// The work has ended, or has failed: the client is replied to, if it is still there.
pub(crate) fn done(state: &ServerState, waiter: WorkWaiter, done: bool) {
    state.workers()[waiter.worker].send(Message::WorkDone { conn: waiter.conn, done });
}
