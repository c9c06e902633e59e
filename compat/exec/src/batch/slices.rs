//! The slices in which a script runs, and the commands of the server that it has run between two of them. Not here: the worker
//! between two slices (stage.rs).

use std::cell::Cell;
use std::time::{Duration, Instant};

use corosensei::Yielder;
use varve_protocol::{Args, Reply, Resp};

use crate::command::Command;
use crate::errors::CmdResult;
use crate::multi::Queued;

/// Time of a script after which it rests.
const SLICE: Duration = Duration::from_millis(1);

/// Why a script rests.
pub(super) enum Rest {
    /// Its slice is over.
    Slice,
    /// It has called a command that the server itself runs.
    Server(ServerCall),
}

/// The reply of the command that the server has run for a script, which goes on with it.
pub(super) type Answer = Option<CmdResult<Reply>>;

/// A command of the server itself, like INFO, that a script has called.
pub struct ServerCall {
    command: &'static Command,
    request: Queued,
    resp: Resp,
}

impl ServerCall {
    /// The command.
    pub fn command(&self) -> &'static Command {
        self.command
    }

    /// The request; argument 0 is the name.
    pub fn args(&self) -> Args<'_> {
        self.request.args()
    }

    /// The protocol of the reply.
    pub fn resp(&self) -> Resp {
        self.resp
    }
}

/// The slices of a script.
pub(super) struct Slices<'y> {
    /// None: it never rests.
    yielder: Option<&'y Yielder<Answer, Rest>>,
    /// When the slice ends.
    until: Cell<Instant>,
    rested: Cell<bool>,
}

impl<'y> Slices<'y> {
    /// One slice without an end, for a script that cannot rest: its worker serves nobody before it ends.
    pub(super) fn endless() -> Slices<'y> {
        Slices { yielder: None, until: Cell::new(Instant::now()), rested: Cell::new(false) }
    }

    /// The slices of a script that begins now.
    pub(super) fn begin(yielder: &'y Yielder<Answer, Rest>, now: Instant) -> Slices<'y> {
        Slices { yielder: Some(yielder), until: Cell::new(now + SLICE), rested: Cell::new(false) }
    }

    /// True if the script is to rest now.
    #[inline]
    pub(super) fn is_over(&self, now: Instant) -> bool {
        self.yielder.is_some() && now >= self.until.get()
    }

    /// True if the script has rested.
    pub(super) fn has_rested(&self) -> bool {
        self.rested.get()
    }

    /// True if the script may rest, and have the server run commands meanwhile.
    pub(super) fn may_rest(&self) -> bool {
        self.yielder.is_some()
    }

    /// Rests until the worker goes on with the script.
    pub(super) fn rest(&self) {
        let answer = self.suspend(Rest::Slice);
        debug_assert!(answer.is_none(), "nothing was asked");
    }

    /// Rests until the server has run this command.
    pub(super) fn ask(&self, command: &'static Command, args: Args<'_>, resp: Resp) -> CmdResult<Reply> {
        let request = Queued::new(command, args);
        let answer = self.suspend(Rest::Server(ServerCall { command, request, resp }));
        answer.expect("whoever goes on with the script has run its command")
    }

    fn suspend(&self, rest: Rest) -> Answer {
        let yielder = self.yielder.expect("a script that may rest");
        self.rested.set(true);
        let answer = yielder.suspend(rest);
        self.until.set(Instant::now() + SLICE);
        answer
    }
}
