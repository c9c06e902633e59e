//! Client-side caching: which clients may hold copies of which keys, and telling them when a key changes.
//!
//! ```text
//!  a reading command of a tracking client:  table: key -> [client, client]          under the key's shard lock
//!  a change of the key:                     entry taken out -> inboxes of the clients' workers -> pushes
//!
//!  BCAST: a change -> each prefix that it begins with -> pending of the changing worker, by prefix and key
//!         before the worker's replies leave: one item a prefix -> inboxes -> one push a client
//! ```
//!
//! While nobody tracks, a change costs one relaxed load (the store's observer is off). Messages stand behind replies that
//! were made before the change, since both are the connection's own worker's. Not here: the commands
//! (handlers/tracking.rs), delivery (worker/deliver.rs).

mod table;

pub(crate) use table::Table;

use crate::pubsub::Name;

/// What changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Stale {
    /// These keys, each with the connection that changed it (0: none).
    Keys(Vec<(Name, u64)>),
    /// Every key.
    All,
}

impl Stale {
    /// What is left to tell a connection that does not want to hear of its own changes; None if that is all of it.
    pub(crate) fn without(&self, client: u64) -> Option<Stale> {
        match self {
            Stale::Keys(keys) if keys.iter().any(|(_, by)| *by == client) => {
                Some(Stale::Keys(keys.iter().filter(|(_, by)| *by != client).cloned().collect()))
            }
            _ => None,
        }
    }

    /// About the memory that the keys take.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Stale::Keys(keys) => keys.iter().map(|(key, _)| key.len() + 40).sum(),
            Stale::All => 0,
        }
    }

    /// True if there is nothing to tell.
    pub(crate) fn is_empty(&self) -> bool {
        matches!(self, Stale::Keys(keys) if keys.is_empty())
    }
}
