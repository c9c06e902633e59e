//! The slices in which a script runs, and the commands of the server that it has run between two of them.
//!
//! ```text
//!   time of the system    | slice | rest | slice | rest, a command of the server in it | slice |
//!   the script's clock    | slice |      | slice |      that command                   | slice |
//! ```
//! How long a script and its commands take is read from the script's clock: it stands still while the worker serves others. Not
//! here: the worker between two slices (stage.rs).

use std::cell::Cell;
use std::time::{Duration, Instant};

use corosensei::Yielder;
use varve_protocol::{Args, Reply, Resp};

use crate::command::Command;
use crate::errors::CmdResult;
use crate::multi::Queued;

/// Time of a script after which it rests.
const SLICE: Duration = Duration::from_millis(1);

/// A script that rests.
pub(super) struct Rested {
    pub(super) why: Rest,
    /// Bytes of memory that it has in buffers, its request apart.
    pub(super) bytes: usize,
}

/// Why a script rests.
pub(super) enum Rest {
    /// Its slice is over.
    Slice,
    /// It has called a command that the server itself runs.
    Server(ServerCall),
}

/// The reply of the command that the server has run for a script, which goes on with it, and the time that the command took.
pub(super) type Answer = Option<(CmdResult<Reply>, Duration)>;

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
    yielder: Option<&'y Yielder<Answer, Rested>>,
    /// When the slice ends.
    until: Cell<Instant>,
    has_rested: Cell<bool>,
    /// Time of all rests, commands of the server apart.
    rests: Cell<Duration>,
    /// Bytes of the replies before the script's, in its transaction.
    reply_bytes: Cell<usize>,
}

impl<'y> Slices<'y> {
    /// One slice without an end, for a script that cannot rest: its worker serves nobody before it ends.
    pub(super) fn endless() -> Slices<'y> {
        Slices::new(None, Instant::now())
    }

    /// The slices of a script that begins now.
    pub(super) fn begin(yielder: &'y Yielder<Answer, Rested>, now: Instant) -> Slices<'y> {
        Slices::new(Some(yielder), now + SLICE)
    }

    fn new(yielder: Option<&'y Yielder<Answer, Rested>>, until: Instant) -> Slices<'y> {
        let (has_rested, rests) = (Cell::new(false), Cell::new(Duration::ZERO));
        Slices { yielder, until: Cell::new(until), has_rested, rests, reply_bytes: Cell::new(0) }
    }

    /// A script of a transaction begins, whose replies before it take `bytes` bytes.
    pub(super) fn follow_replies(&self, bytes: usize) {
        self.reply_bytes.set(bytes);
    }

    /// The script's clock: differences of its times are the time that the script has run.
    pub(super) fn clock(&self) -> Instant {
        self.on_clock(Instant::now())
    }

    /// This time, on the script's clock.
    pub(super) fn on_clock(&self, now: Instant) -> Instant {
        now - self.rests.get()
    }

    /// True if the script is to rest now.
    #[inline]
    pub(super) fn is_over(&self, now: Instant) -> bool {
        self.yielder.is_some() && now >= self.until.get()
    }

    /// True if the script has rested.
    pub(super) fn has_rested(&self) -> bool {
        self.has_rested.get()
    }

    /// True if the script may rest, and have the server run commands meanwhile.
    pub(super) fn may_rest(&self) -> bool {
        self.yielder.is_some()
    }

    /// Rests until the worker goes on with the script, which has `bytes` bytes in buffers.
    pub(super) fn rest(&self, bytes: usize) {
        let answer = self.suspend(Rest::Slice, bytes);
        debug_assert!(answer.is_none(), "nothing was asked");
    }

    /// Rests until the server has run this command, which replies like `out`.
    pub(super) fn ask(&self, command: &'static Command, args: Args<'_>, out: &Reply) -> CmdResult<Reply> {
        let (request, resp) = (Queued::new(command, args), out.resp());
        let answer = self.suspend(Rest::Server(ServerCall { command, request, resp }), args.bytes() + out.held_bytes());
        let (reply, took) = answer.expect("whoever goes on with the script has run its command");
        self.rests.set(self.rests.get().saturating_sub(took));
        reply
    }

    fn suspend(&self, why: Rest, bytes: usize) -> Answer {
        let yielder = self.yielder.expect("a script that may rest");
        self.has_rested.set(true);
        let begun = Instant::now();
        let answer = yielder.suspend(Rested { why, bytes: bytes + self.reply_bytes.get() });
        let now = Instant::now();
        self.rests.set(self.rests.get() + (now - begun));
        self.until.set(now + SLICE);
        answer
    }
}
