//! A client that waits: what its connection keeps, and what the waiter carries for whoever serves it.

use std::sync::Arc;
use std::time::Duration;

use varve_protocol::{OwnedArgs, Reply, Resp};
use varve_store::{Waiter, Waiting, Worker};

use super::call::Call;
use crate::Ctx;
use crate::command::Command;
use crate::errors::CommandError;
use crate::stats::CommandStats;

/// What a waiter carries: its command.
pub(super) struct Task {
    pub(super) call: Call,
    pub(super) args: OwnedArgs,
    pub(super) resp: Resp,
    pub(super) command: &'static Command,
}

/// A client that waits, as its connection holds it.
#[derive(Clone, Debug)]
pub struct Blocked(Arc<Waiter>);

/// A reply to a client that waited.
#[derive(Debug)]
pub struct Served {
    /// Worker of its connection.
    pub worker: usize,
    /// Number of its connection.
    pub client: u64,
    /// The whole reply.
    pub reply: Vec<u8>,
}

/// Lets the client wait for the keys of its command, whose shards are held.
pub(super) fn block(ctx: &mut Ctx<'_, '_>, call: Call) {
    let args = OwnedArgs::from(ctx.args);
    let known = crate::commands().commands().iter().find(|d| d.name == call.name);
    let command = known.expect("each blocking command has a row");
    let wants = call.wants;
    let (keys, target) = (call.keys.clone().map(|at| ctx.args.get(at)), call.target.map(|at| ctx.args.get(at)));
    let task = Task { call, args, resp: ctx.out.resp(), command };
    let who = Waiting { worker: ctx.tx.worker(), client: ctx.session.id, db: ctx.tx.db() };
    let waiter = Waiter::new(who, wants, keys, target, Box::new(task));
    let waiter = Arc::new(waiter);
    ctx.tx.wait(&waiter);
    ctx.session.blocked = Some(Blocked(waiter));
}

pub(super) fn task(waiter: &Waiter) -> &Task {
    waiter.task().expect("the tasks of all waiters are commands")
}

impl Blocked {
    /// After which time it waits no longer; None: never.
    pub fn timeout(&self) -> Option<Duration> {
        let ms = task(&self.0).call.timeout_ms;
        (ms > 0).then(|| Duration::from_millis(ms))
    }

    /// Ends the wait; false if somebody serves the client, whose reply is on its way.
    #[must_use = "a client that is served gets no other reply"]
    pub fn cancel(&self) -> bool {
        self.0.cancel()
    }

    /// Takes it out of the queues once it waits no longer. The worker holds nothing and is outside the gate.
    pub fn forget(&self, worker: &Worker) {
        worker.store.forget(worker, &self.0);
    }

    /// Replies that the time is up.
    pub fn reply_timeout(&self, out: &mut Reply) {
        out.null_array();
    }

    /// Counts a wait that CLIENT UNBLOCK ended, and replies an error or that the time is up.
    pub fn reply_unblocked(&self, error: bool, stats: &CommandStats, out: &mut Reply) {
        let mark = out.mark();
        if error {
            stats.fail(task(&self.0).command, &CommandError::UNBLOCKED, mark, out);
        } else {
            stats.of(task(&self.0).command).failed.add(1);
            self.reply_timeout(out);
        }
    }
}
