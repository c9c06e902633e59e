//! A command that goes on over several turns of its connection: its shards are let go between two parts of its reply.
//!
//! ```text
//!   handler: the reply's head, Ctx::go_on(rest) --> turn ends --> rest.go_on .. rest.go_on --> ended, the next request
//!                                                    |  between two parts: replies are written, others are served
//! ```
//! The reply of one that reads is of one instant, that of its handler: it holds readers of the collections that it replies with
//! ([`varve_store::CollectionReader`]). One that writes makes what is new where nobody sees it ([`varve_store::Unpublished`]) and
//! changes its key in its last part, whose effects are handed on like any command's. It ends with its connection. One that
//! takes elements out of a key (LPOP, ZPOPMIN) takes them all in its handler, and holds a reader of them: what follows is a
//! reply alone, and a client that goes has taken what it was not shown.
//!
//! One whose change takes long occupies its key ([`crate::Occupied`]) and works on it part by part: other commands on this
//! key wait, those on others of the shard do not. Each part reports what it has done as a change of its own; the journal gets
//! them together at the end ([`crate::Occupied`]). It never waits for its client: its reply is made aside, and comes at the
//! end. It goes on if its client has left ([`crate::LeftCommand`]).
//!
//! A command that stores what it makes of other keys watches them ([`crate::Sources`]). Its last part changes its key only if they
//! are as they were when it read them, so that it is done at one instant, and the journal has it there as it was sent. Else it
//! begins anew, and keeps writers from these keys. If they change nevertheless, it runs whole after some tries. Inside EXEC
//! commands run whole.
//!
//! Messages that come while a command reads stand behind its reply, those among them that tell a client which caches of
//! stale keys: ahead of the reply, such a message would be about nothing that the client has, and the client would keep what
//! comes then. A command that is going to change a key replies nothing before its end, and messages go ahead of it.

use std::sync::Arc;

use varve_catalog::{Flags, Row};
use varve_protocol::{OwnedArgs, Reply};
use varve_store::{NotAdmitted, ReadOn, StoreWorker, Tx};

use crate::errors::CommandError;
use crate::link::Link;
use crate::occupied::Occupied;
use crate::sources::Sources;

/// The rest of a command.
pub trait Ongoing: Send {
    /// Replies some more, with one shard held for some hundred microseconds at most.
    fn go_on(&mut self, tx: &mut Tx<'_>, out: &mut Reply) -> Progress;

    /// Whether it is going to change a key, if its command is one that writes: it is held back and refused like a command
    /// that begins.
    fn writes(&self) -> bool {
        true
    }

    /// Whether it has changed its key in part, or works on it while others are kept from it ([`crate::Occupied`]): it is brought to
    /// its end then, although commands that write are held back or refused at present.
    fn is_half_done(&self) -> bool {
        false
    }

    /// The server refuses it from now on: the error that ends it at once. None if it has memory to give back in steps before it fails
    /// with that error; it writes no more then.
    fn refuse(&mut self, error: CommandError) -> Option<CommandError> {
        Some(error)
    }

    /// The key that it occupies and changes part by part, if it does.
    fn occupied(&self) -> Option<&[u8]> {
        None
    }

    /// Its client leaves: whether it goes on nevertheless, as one that has changed its key in part, or has much memory to give back
    /// in steps.
    fn outlives_client(&mut self) -> bool {
        self.occupied().is_some()
    }

    /// The keys of which it makes something, if others change them meanwhile.
    fn sources(&self) -> Option<&Sources> {
        None
    }

    /// Whether it keeps others from a key at present: it goes on then whatever its client does, and replies nothing.
    fn keeps_key(&self) -> bool {
        self.occupied().is_some() || self.sources().is_some_and(Sources::keeps)
    }

    /// Bytes that it keeps for its reply, but for its arguments: they count as memory of the connection.
    fn held_bytes(&self) -> usize {
        0
    }

    /// Bytes that collections keep for its readers ([`varve_store::CollectionReader::kept_bytes`]): the store counts them,
    /// and the limits of the connection are asked with them.
    fn kept_bytes(&self) -> usize;

    /// The link for which it waits when its last part has ended with [`Progress::Waits`].
    fn link(&self) -> Option<Arc<Link>> {
        None
    }

    /// It ends: lets go of what it keeps in the store, if it did not get to its last part. The worker holds nothing and is
    /// outside the gate.
    fn abandon(&mut self, _worker: &mut StoreWorker) {}
}

/// How a part of a command has ended.
#[derive(Debug)]
pub enum Progress {
    /// A shard is busy, or others hold what would make room: nothing was done.
    Busy,
    /// There is more to do.
    More,
    /// There is nothing to do until something has come of its link.
    Waits,
    /// The reply is complete.
    Done,
    /// A key that it watched has changed, its watching has ended, and nothing was done or replied: it begins anew.
    Anew,
    /// The command has failed, nothing was replied before.
    Failed(CommandError),
}

impl From<ReadOn> for Progress {
    fn from(read: ReadOn) -> Progress {
        match read {
            ReadOn::Busy => Progress::Busy,
            ReadOn::More(_) => Progress::More,
            ReadOn::All => Progress::Done,
        }
    }
}

impl From<NotAdmitted> for Progress {
    fn from(refusal: NotAdmitted) -> Progress {
        match refusal {
            NotAdmitted::OutOfMemory => Progress::Failed(CommandError::OUT_OF_MEMORY),
            NotAdmitted::Busy => Progress::Busy,
        }
    }
}

/// Work on an occupied key, which goes on over several turns.
pub trait OccupiedWork: Send {
    /// Does some more, like [`Ongoing::go_on`]. The last part ends the occupation.
    fn part(&mut self, occupied: &mut Occupied, tx: &mut Tx<'_>, out: &mut Reply) -> Progress;

    /// Bytes that it keeps, but for the command's arguments: they count as memory of the connection.
    fn held_bytes(&self) -> usize;

    /// Bytes that collections keep for its readers.
    fn kept_bytes(&self) -> usize {
        0
    }
}

/// A command that works on an occupied key: it is brought to its end, also if its client goes.
#[derive(Debug)]
pub struct WhileOccupied<W> {
    /// Its key.
    pub occupied: Occupied,
    /// The rest of its work.
    pub work: W,
}

impl<W: OccupiedWork> Ongoing for WhileOccupied<W> {
    fn go_on(&mut self, tx: &mut Tx<'_>, out: &mut Reply) -> Progress {
        self.work.part(&mut self.occupied, tx, out)
    }

    fn is_half_done(&self) -> bool {
        true
    }

    fn occupied(&self) -> Option<&[u8]> {
        self.occupied.key()
    }

    fn held_bytes(&self) -> usize {
        self.work.held_bytes()
    }

    fn kept_bytes(&self) -> usize {
        self.work.kept_bytes()
    }

    fn abandon(&mut self, worker: &mut StoreWorker) {
        self.occupied.abandon(worker);
    }
}

/// A command that goes on, as its session holds it.
pub(crate) struct OngoingCommand {
    pub(crate) row: &'static Row,
    pub(crate) args: Arc<OwnedArgs>,
    pub(crate) rest: Box<dyn Ongoing>,
    /// Its client wants no reply: CLIENT REPLY was off, or skipped this one, when it began.
    pub(crate) muted: bool,
    /// CLIENT CACHING held for it when it began.
    pub(crate) caches: bool,
    /// The time of its parts so far.
    pub(crate) nanos: u64,
    /// Bytes of its reply behind the first part.
    pub(crate) reply_bytes: usize,
    /// Bytes of its effects so far, which are handed on at its end.
    pub(crate) effect_bytes: usize,
    /// How often it has begun before.
    pub(crate) tries: u32,
    /// It is to begin anew: its rest has ended.
    pub(crate) begins_anew: bool,
}

impl OngoingCommand {
    /// Bytes that it keeps.
    pub(crate) fn bytes(&self) -> usize {
        self.args.heap_bytes() + self.rest.held_bytes() + self.effect_bytes
    }

    /// True if its next part changes a key.
    pub(crate) fn writes(&self) -> bool {
        self.row.flags.has(Flags::WRITE) && self.rest.writes()
    }

    /// True if it changes keys and is brought to its end whatever is refused meanwhile. A command with a link is one: refused in
    /// the middle, a key would be at both servers.
    pub(crate) fn is_bound_to_end(&self) -> bool {
        !self.begins_anew && self.writes() && (self.rest.is_half_done() || self.rest.link().is_some())
    }
}

impl std::fmt::Debug for OngoingCommand {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OngoingCommand").field("row", &self.row.full_name).finish_non_exhaustive()
    }
}

/// How a turn of a [`LeftCommand`] has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeftTurn {
    /// Its shard is busy: it is tried again a little later.
    Busy,
    /// There is more to do.
    More,
    /// It has come to its end.
    Ended,
}

/// A command whose client has left while it changes a key part by part, or that has much memory to give back: it goes on to its end,
/// in each turn of its worker. A client of redis-server cannot stop a command either.
#[derive(Debug)]
pub struct LeftCommand {
    pub(crate) command: Box<OngoingCommand>,
    /// The database that its client had selected.
    pub(crate) db: u32,
}

impl LeftCommand {
    /// A command that outlives its client; nobody reads its reply any more.
    pub(crate) fn new(mut command: Box<OngoingCommand>, db: u32) -> LeftCommand {
        command.muted = true;
        LeftCommand { command, db }
    }

    /// Bytes that it keeps.
    pub fn bytes(&self) -> usize {
        self.command.bytes()
    }
}
