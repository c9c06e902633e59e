//! A client begins to wait: its command has found nothing, and stands in the queues of all its keys.

use std::sync::Arc;

use varve_base::refusable;
use varve_protocol::OwnedArgs;
use varve_store::{Waiter, Waiting};

use crate::ctx::Ctx;
use crate::errors::{CmdResult, CommandError};
use crate::waiting::{Blocked, Resume, Task, Wish};

/// Lets the client wait for the keys of its command, whose shards are held.
///
/// # Errors
/// The system refuses memory: nothing is kept for a client that waits.
pub fn block(ctx: &mut Ctx<'_, '_>, wish: &Wish, resume: Box<dyn Resume>) -> CmdResult {
    if refusable::is_short() {
        return Err(CommandError::NO_MEMORY);
    }
    let args = OwnedArgs::from(ctx.args);
    let (keys, target) = (wish.keys.clone().map(|at| ctx.args.get(at)), wish.target.map(|at| ctx.args.get(at)));
    let (resp, ceiling_bytes) = (ctx.out.resp(), ctx.out.ceiling());
    let task = Task { resume, args, resp, ceiling_bytes, row: ctx.row, timeout_ms: wish.timeout_ms };
    let who = Waiting { worker: ctx.tx.worker(), client: ctx.session.id(), db: ctx.tx.db() };
    let waiter = Arc::new(Waiter::new(who, wish.wants.clone(), keys, target, Box::new(task)));
    ctx.tx.wait(&waiter);
    ctx.session.block(Blocked::new(waiter));
    Ok(())
}
