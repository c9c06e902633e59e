//! The context and the result of a handler of the server.

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
}

impl ServerCtx<'_> {
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
    /// All workers are asked; the reply comes when they have answered.
    Ask(Question),
}
