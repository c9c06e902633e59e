//! Entries of keys in shards that are to go once their shard is free (`keyspace/owed.rs`).

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

use super::waiters::Waiter;
use super::watch::Watcher;

/// The entries of one worker that are owed.
#[derive(Debug, Default)]
pub(crate) struct Owed {
    /// Those that were not tried for longest first.
    pub(crate) entries: VecDeque<OwedEntry>,
    /// Long lists of entries, none of which was tried.
    pub(crate) lists: VecDeque<OwedList>,
    /// The entries of the lists, about.
    pub(crate) listed: usize,
    /// When they are tried next, ms.
    pub(crate) again_ms: i64,
}

impl Owed {
    /// True if nothing is owed.
    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty() && self.lists.is_empty()
    }

    /// Takes the entry that comes next of those that lists hold. A list that has come to its end goes.
    pub(crate) fn next_of_lists(&mut self) -> Option<OwedEntry> {
        loop {
            let next = self.lists.front_mut()?.0.next();
            if next.is_some() {
                self.listed = self.listed.saturating_sub(1);
                return next;
            }
            self.lists.pop_front();
        }
    }
}

/// Entries that are made while they are removed: a client that watched millions of keys frees none of them before.
pub(crate) struct OwedList(pub(crate) Box<dyn Iterator<Item = OwedEntry> + Send>);

impl fmt::Debug for OwedList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OwedList").finish_non_exhaustive()
    }
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
