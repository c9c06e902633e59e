//! Entries of keys in shards that are to go once their shard is free (`keyspace/owed.rs`).

use std::collections::VecDeque;
use std::sync::Arc;

use super::waiters::Waiter;
use super::watch::Watcher;

/// The entries of one worker that are owed.
#[derive(Debug, Default)]
pub(crate) struct Owed {
    /// Those that were not tried for longest first.
    pub(crate) entries: VecDeque<OwedEntry>,
    /// When they are tried next, ms.
    pub(crate) again_ms: i64,
}

/// An entry of a key in its shard.
#[derive(Debug)]
pub(crate) enum OwedEntry {
    /// A watcher of the key in a logical database.
    Watched { watcher: Watcher, db: u32, key: Box<[u8]> },
    /// The key of this number of those that the waiter waited for.
    Waited { waiter: Arc<Waiter>, nth: usize },
    /// The key is frozen.
    Frozen { key: Box<[u8]> },
}
