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
use varve_store::Store;

use crate::command::Command;
use crate::errors::CmdResult;
use crate::monitor::Seen;
use crate::multi::Queued;

/// A script that rests.
pub(super) struct Rested {
    pub(super) why: Rest,
    /// Bytes of memory that it has in buffers, its request apart.
    pub(super) bytes: usize,
    /// Its commands since the last rest, for monitors.
    pub(super) seen: Vec<Seen>,
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

/// The things that a script goes on with.
#[derive(Default)]
pub(super) struct Resumed {
    pub(super) answer: Answer,
    /// Somebody monitors now.
    pub(super) is_monitored: bool,
}

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
    yielder: Option<&'y Yielder<Resumed, Rested>>,
    /// When the first one began.
    begun: Instant,
    /// The length of a slice.
    slice: Duration,
    /// When the slice ends.
    until: Cell<Instant>,
    /// The store knows that it rests.
    is_told: Cell<bool>,
    /// Time of all rests, commands of the server apart.
    rests: Cell<Duration>,
    /// Bytes of the replies before the script's, in its transaction.
    reply_bytes: Cell<usize>,
}

impl<'y> Slices<'y> {
    /// One slice without an end, for a script that cannot rest: its worker serves nobody before it ends.
    pub(super) fn endless() -> Slices<'y> {
        Slices::new(None, Instant::now(), Duration::ZERO)
    }

    /// The slices of a script that begins now, of this length.
    pub(super) fn begin(yielder: &'y Yielder<Resumed, Rested>, now: Instant, slice: Duration) -> Slices<'y> {
        Slices::new(Some(yielder), now, slice)
    }

    fn new(yielder: Option<&'y Yielder<Resumed, Rested>>, begun: Instant, slice: Duration) -> Slices<'y> {
        let (is_told, rests) = (Cell::new(false), Cell::new(Duration::ZERO));
        Slices { yielder, begun, slice, until: Cell::new(begun + slice), is_told, rests, reply_bytes: Cell::new(0) }
    }

    /// A script of a transaction begins, whose replies before it take `bytes` bytes.
    pub(super) fn follow_replies(&self, bytes: usize) {
        self.reply_bytes.set(bytes);
    }

    /// When the first slice began, on the clock of the system.
    pub(super) fn begun(&self) -> Instant {
        self.begun
    }

    /// The script's clock: differences of its times are the time that the script has run.
    pub(super) fn clock(&self) -> Instant {
        self.on_clock(Instant::now())
    }

    /// This time, on the script's clock.
    pub(super) fn on_clock(&self, now: Instant) -> Instant {
        now - self.rests.get()
    }

    /// Time of all rests so far, commands of the server apart: what the script holds is held in them as well.
    pub(super) fn rested(&self) -> Duration {
        self.rests.get()
    }

    /// True if the script is to rest now.
    #[inline]
    pub(super) fn is_over(&self, now: Instant) -> bool {
        self.yielder.is_some() && now >= self.until.get()
    }

    /// Tells the store, which tells the gate, that a rest follows; once until [`Slices::end_rests`].
    pub(super) fn tell_rest(&self, store: &Store) {
        debug_assert!(self.may_rest(), "what cannot rest does not");
        if !self.is_told.replace(true) {
            store.begin_rests();
        }
    }

    /// No rest follows. The gate is still held: behind it that word would be about others.
    pub(super) fn end_rests(&self, store: &Store) {
        if self.is_told.replace(false) {
            store.end_rests();
        }
    }

    /// True if the script may rest, and have the server run commands meanwhile.
    pub(super) fn may_rest(&self) -> bool {
        self.yielder.is_some()
    }

    /// Rests until the worker goes on with the script, which has `bytes` bytes in buffers. `monitored`: its commands since the
    /// last rest, if somebody monitors; the worker has them, and says whether somebody does now.
    pub(super) fn rest(&self, bytes: usize, monitored: &mut Option<Vec<Seen>>) {
        let answer = self.suspend(Rest::Slice, bytes, monitored);
        debug_assert!(answer.is_none(), "nothing was asked");
    }

    /// Rests until the server has run this command, which replies like `out`.
    pub(super) fn ask(
        &self,
        command: &'static Command,
        args: Args<'_>,
        out: &Reply,
        monitored: &mut Option<Vec<Seen>>,
    ) -> CmdResult<Reply> {
        let (request, resp) = (Queued::new(command, args), out.resp());
        let call = Rest::Server(ServerCall { command, request, resp });
        let answer = self.suspend(call, args.bytes() + out.held_bytes(), monitored);
        let (reply, took) = answer.expect("whoever goes on with the script has run its command");
        self.rests.set(self.rests.get().saturating_sub(took));
        reply
    }

    fn suspend(&self, why: Rest, bytes: usize, monitored: &mut Option<Vec<Seen>>) -> Answer {
        let yielder = self.yielder.expect("a script that may rest");
        let begun = Instant::now();
        let seen = monitored.take().unwrap_or_default();
        let rested = Rested { why, bytes: bytes + self.reply_bytes.get(), seen };
        let Resumed { answer, is_monitored } = yielder.suspend(rested);
        *monitored = is_monitored.then(Vec::new);
        let now = Instant::now();
        self.rests.set(self.rests.get() + (now - begun));
        self.until.set(now + self.slice);
        answer
    }
}
