//! Requests that a user had no right to: what is remembered of them until the server puts them into its log.
//!
//! ```text
//!   a request is denied --note--> Denials --take--> the server's log (ACL LOG)
//! ```
//! Not here: the rights (`varve_acl`), who asks for them (checks).

use std::sync::Arc;

use varve_acl::{Denial, User};
use varve_catalog::Row;
use varve_protocol::Args;

/// Where a request came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The client itself.
    Client,
    /// The client's transaction, while it is queued or runs.
    Transaction,
    /// A script.
    Script,
}

/// A request that was denied.
#[derive(Clone, Debug)]
pub struct DeniedRequest {
    /// The user who sent it.
    pub user: Arc<User>,
    /// The part that was denied.
    pub denial: Denial,
    /// Where it came from.
    pub origin: Origin,
    /// The name of the command, or the key or channel; see [`shown`].
    pub object: Vec<u8>,
}

/// Bytes of a client's text that a log keeps: of an argument, a key, a channel, a client's name.
const OBJECT_BYTES_MAX: usize = 128;
/// Denials that are remembered until they are taken: more than a turn has, so that only a long transaction loses some.
const DENIALS_MAX: usize = 128;

/// The denials since they were last taken, oldest first.
#[derive(Debug, Default)]
pub(crate) struct Denials(Vec<DeniedRequest>);

impl Denials {
    /// Remembers one.
    #[cold]
    pub(crate) fn note(&mut self, denial: Denial, row: &Row, args: Args<'_>, user: &Arc<User>, origin: Origin) {
        if self.0.len() < DENIALS_MAX {
            let object = match denial {
                Denial::Command => row.full_name.as_bytes().to_vec(),
                Denial::Key(at) | Denial::Channel(at) => shown(args.get(at)),
            };
            self.0.push(DeniedRequest { user: Arc::clone(user), denial, origin, object });
        }
    }

    /// Takes over those of another one, as far as there is room.
    #[inline]
    pub(crate) fn absorb(&mut self, other: &mut Denials) {
        if !other.0.is_empty() {
            self.0.append(&mut other.0);
            self.0.truncate(DENIALS_MAX);
        }
    }

    /// Takes them; None if there are none.
    #[inline]
    pub(crate) fn take(&mut self) -> Option<Vec<DeniedRequest>> {
        (!self.0.is_empty()).then(|| std::mem::take(&mut self.0))
    }
}

/// A text of the client's as a log keeps it, which no limit on memory counts: the first 128 bytes, and the number of those that are missing.
pub fn shown(name: &[u8]) -> Vec<u8> {
    match name.len().checked_sub(OBJECT_BYTES_MAX) {
        None | Some(0) => name.to_vec(),
        Some(more) => [&name[..OBJECT_BYTES_MAX], format!("... ({more} more bytes)").as_bytes()].concat(),
    }
}
