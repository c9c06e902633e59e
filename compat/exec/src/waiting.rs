//! A client that waits: what its connection keeps, and what the waiter carries for the thread that serves it.
//!
//! Plain data: how a client begins to wait, and how it is served, is in blocking.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use varve_acl::{Denial, User};
use varve_catalog::Row;
use varve_protocol::{Args, OwnedArgs, Reply, Resp};
use varve_store::{Key, StoreWorker, Tx, Waiter, Wants};

use crate::errors::{CmdResult, CommandError};
use crate::stats::{CommandStats, LoggedCommand};

/// The command of a waiter.
pub(crate) struct Task {
    pub(crate) resume: Box<dyn Resume>,
    pub(crate) args: OwnedArgs,
    pub(crate) resp: Resp,
    /// Bytes that its reply may come to.
    pub(crate) ceiling_bytes: usize,
    pub(crate) row: &'static Row,
    pub(crate) timeout_ms: u64,
}

/// The part of a blocking command that runs once one of its keys has something, for the client itself or on its behalf.
pub trait Resume: Send + Sync {
    /// Takes and replies. The key has what is wanted; its shard is held, and the target's.
    ///
    /// # Errors
    /// The command fails.
    fn resume(&self, tx: &mut Tx<'_>, args: Args<'_>, key: &Key<'_>, out: &mut Reply) -> CmdResult;
}

/// The wish of a client that waits.
#[derive(Clone, Debug)]
pub struct Wish {
    /// The thing that its command takes or reads.
    pub wants: Wants,
    /// The arguments that are its keys.
    pub keys: Range<usize>,
    /// The argument that names a destination.
    pub target: Option<usize>,
    /// Milliseconds; 0: for ever.
    pub timeout_ms: u64,
}

/// A client that waits, as its connection holds it.
#[derive(Clone, Debug)]
pub struct Blocked(WaitsFor);

/// The thing that ends a wait before its time is up.
#[derive(Clone, Debug)]
enum WaitsFor {
    /// One of its keys has something.
    Keys(Arc<Waiter>),
    /// Replicas, or files, have what was written: WAIT, WAITAOF.
    Copies { row: &'static Row, timeout_ms: u64, awaited: Awaited },
    /// The end of the server, or that it goes on: SHUTDOWN.
    End { row: &'static Row },
}

/// The copies of what was written that a client waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Awaited {
    /// Number of replicas.
    pub replicas: u64,
    /// Files, and not memory: None for memory, else whether the server's own file is one of them.
    pub files: Option<bool>,
    /// The position of the journal that they are to have.
    pub position: u64,
}

/// A reply to a client that waited.
#[derive(Debug)]
pub struct Served {
    /// Index of the worker that has its connection.
    pub worker: usize,
    /// Number of its connection.
    pub client: u64,
    /// The whole reply; if it has passed its ceiling, the connection ends.
    pub reply: Box<Reply>,
    /// The entry of its command in the slow log, if serving it took long.
    pub slow: Option<Box<LoggedCommand>>,
}

/// The command of a waiter.
pub(crate) fn task(waiter: &Waiter) -> &Task {
    waiter.task().expect("the tasks of all waiters are commands")
}

impl Blocked {
    /// The connection's hold on this waiter.
    pub(crate) fn new(waiter: Arc<Waiter>) -> Blocked {
        Blocked(WaitsFor::Keys(waiter))
    }

    /// A wait for copies; 0 milliseconds are for ever.
    pub fn for_copies(row: &'static Row, timeout_ms: u64, awaited: Awaited) -> Blocked {
        Blocked(WaitsFor::Copies { row, timeout_ms, awaited })
    }

    /// A wait for the end of the server.
    pub fn for_end(row: &'static Row) -> Blocked {
        Blocked(WaitsFor::End { row })
    }

    /// The copies that it waits for; None if it waits for something else.
    pub fn awaited(&self) -> Option<Awaited> {
        match self.0 {
            WaitsFor::Keys(_) | WaitsFor::End { .. } => None,
            WaitsFor::Copies { awaited, .. } => Some(awaited),
        }
    }

    /// Bytes that it takes, here and in the queues of its keys.
    pub(crate) fn bytes(&self) -> usize {
        match &self.0 {
            WaitsFor::Keys(waiter) => waiter.bytes() + size_of::<Task>() + task(waiter).args.heap_bytes(),
            WaitsFor::Copies { .. } | WaitsFor::End { .. } => 0,
        }
    }

    fn row(&self) -> &'static Row {
        match &self.0 {
            WaitsFor::Keys(waiter) => task(waiter).row,
            WaitsFor::Copies { row, .. } | WaitsFor::End { row } => row,
        }
    }

    /// After which time it waits no longer; None: never.
    pub fn timeout(&self) -> Option<Duration> {
        let ms = match &self.0 {
            WaitsFor::Keys(waiter) => task(waiter).timeout_ms,
            WaitsFor::Copies { timeout_ms, .. } => *timeout_ms,
            WaitsFor::End { .. } => 0,
        };
        (ms > 0).then(|| Duration::from_millis(ms))
    }

    /// The reason why the user of the client has no right to its request any more, if it has lost it.
    pub fn denial(&self, user: &User) -> Option<Denial> {
        match &self.0 {
            WaitsFor::Keys(waiter) => user.check(task(waiter).row, task(waiter).args.args()).err(),
            WaitsFor::Copies { .. } | WaitsFor::End { .. } => None,
        }
    }

    /// Replies that the user of the client has lost the right to its request, which counts as failed.
    pub fn reply_denied(&self, denial: Denial, stats: &CommandStats, out: &mut Reply) {
        let mark = out.mark();
        stats.fail(self.row(), &CommandError::no_permission(denial, self.row().full_name), mark, out);
    }

    /// Ends the wait; false if somebody serves the client, whose reply is on its way, or if it waits for the end of the server.
    #[must_use = "a client that is served gets no other reply"]
    pub fn cancel(&self) -> bool {
        match &self.0 {
            WaitsFor::Keys(waiter) => waiter.cancel(),
            WaitsFor::Copies { .. } => true,
            WaitsFor::End { .. } => false,
        }
    }

    /// Takes it out of the queues once it waits no longer. The worker holds nothing and is outside the gate.
    pub fn forget(&self, worker: &mut StoreWorker) {
        if let WaitsFor::Keys(waiter) = &self.0 {
            worker.forget(waiter);
        }
    }

    /// Replies that the time is up. `reached` replies how many copies there are.
    pub fn reply_timeout(&self, out: &mut Reply, reached: &dyn Fn(Awaited, &mut Reply)) {
        match &self.0 {
            WaitsFor::Keys(_) | WaitsFor::End { .. } => out.null_array(),
            WaitsFor::Copies { awaited, .. } => reached(*awaited, out),
        }
    }

    /// Replies an error that ends the wait, which counts as failed.
    pub fn reply_failed(&self, error: &CommandError, stats: &CommandStats, out: &mut Reply) {
        let mark = out.mark();
        stats.fail(self.row(), error, mark, out);
    }

    /// Counts a wait that CLIENT UNBLOCK ended, and replies an error; without `error`, what [`Blocked::reply_timeout`] does.
    pub fn reply_unblocked(
        &self,
        error: bool,
        stats: &CommandStats,
        out: &mut Reply,
        reached: &dyn Fn(Awaited, &mut Reply),
    ) {
        let mark = out.mark();
        if error {
            stats.fail(self.row(), &CommandError::UNBLOCKED, mark, out);
        } else {
            stats.of(self.row()).failed.add(1);
            self.reply_timeout(out, reached);
        }
    }
}
