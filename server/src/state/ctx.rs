//! The context and the result of a handler of the server.

use std::ops::Range;
use std::sync::Arc;

use varve_exec::Blocked;
use varve_protocol::{Args, Reply};

use super::{Now, ServerState};
use crate::config::{Config, Guard};
use crate::features::clients::state::Question;
use crate::features::pubsub::state::Hub;
use crate::net::conn::Conn;

/// The context of a handler.
pub(crate) struct ServerCtx<'c> {
    /// The request; argument 0 is the name.
    pub(crate) args: Args<'c>,
    pub(crate) state: &'c Arc<ServerState>,
    /// The configuration that this worker works by.
    pub(crate) config: &'c Arc<Config>,
    pub(crate) store: &'c mut varve_store::StoreWorker,
    /// The subscriptions of the worker's connections.
    pub(crate) hub: &'c mut Hub,
    pub(crate) conn: &'c mut Conn,
    pub(crate) out: &'c mut Reply,
    pub(crate) now: Now,
    /// The user's name of a login that has failed, for the log.
    pub(crate) failed_login: Option<Vec<u8>>,
    pub(crate) part: Part,
}

/// The part of a request that a handler deals with.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Part {
    /// All of it: inside EXEC and in scripts.
    Whole,
    /// The arguments from this one on, [`PART_MAX`] at most, if its command goes on in parts ([`After::More`]). 0 in the first part.
    From(usize),
}

/// Arguments that a part of a request deals with at most: some 0.3 ms.
const PART_MAX: usize = 512;

impl ServerCtx<'_> {
    /// The arguments from number `first` on that belong to this part.
    pub(crate) fn part(&self, first: usize) -> Range<usize> {
        let end = self.args.len();
        match self.part {
            Part::Whole => first..end,
            Part::From(done) => {
                let from = done.max(first);
                from..end.min(from + self.part_max())
            }
        }
    }

    /// Things that this part may do at most.
    pub(crate) fn part_max(&self) -> usize {
        if let Part::Whole = self.part { usize::MAX } else { PART_MAX }
    }

    /// Whether nothing of the request was done before.
    pub(crate) fn is_begin(&self) -> bool {
        matches!(self.part, Part::Whole | Part::From(0))
    }

    /// Whether the client may run what a setting guards.
    pub(crate) fn lets(&self, guard: Guard) -> bool {
        match guard {
            Guard::No => false,
            Guard::Yes => true,
            Guard::Local => self.conn.socket().ends().is_local(),
        }
    }
}

/// The connection's next state after a handler.
#[derive(Debug)]
pub(crate) enum After {
    /// It has replied; on with the next request.
    Done,
    /// The replies are sent, then the connection ends.
    Close,
    /// The reply comes with a message to its worker, for which the handler has it wait.
    Wait,
    /// The reply comes when there are copies, or the time is up.
    Block(Blocked),
    /// Another worker is alone behind the gate, or stays inside for longer than a batch: nothing was done, and the request is
    /// tried again.
    Busy,
    /// It has replied in part, and goes on from this argument on when its worker has looked after others. It cannot fail any
    /// more, and its replies come whatever CLIENT REPLY says ([`varve_catalog::Behaviour::CONFIRMS_ALWAYS`]) or come at its end.
    More(usize),
    /// All workers are asked; the reply comes when they have answered.
    Ask(Question),
}
