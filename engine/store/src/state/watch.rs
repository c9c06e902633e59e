//! Watched keys: the flags of the sessions that watch them.
//!
//! ```text
//!  session: WATCH a b      Watcher (one flag) <--------+-------+
//!                                                      |       |
//!  shard of a: watched  hash -> [(db, "a", [flag]), ...]       |
//!  shard of b: watched  hash -> [(db, "b", [flag, another's])] +   set once, by the command that changes the key
//! ```

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use smallvec::SmallVec;

use super::key::Key;

/// One round of watching of one session: from its first WATCH to EXEC, DISCARD or UNWATCH.
#[derive(Clone, Debug, Default)]
pub struct Watcher(Arc<AtomicBool>);

impl Watcher {
    /// True if one of the keys was changed. Certain with the shards of all of them held; before that, a hint that is
    /// never wrong when it says yes.
    pub fn is_touched(&self) -> bool {
        self.0.load(Relaxed)
    }

    pub(crate) fn touch(&self) {
        self.0.store(true, Relaxed);
    }

    pub(crate) fn is(&self, other: &Watcher) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

/// A watched key.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) db: u16,
    pub(crate) key: Box<[u8]>,
    pub(crate) watchers: SmallVec<[Watcher; 1]>,
}

/// The watched keys of one shard.
#[derive(Debug)]
pub(crate) struct Watched {
    /// Of the key hash.
    pub(crate) seed: u64,
    pub(crate) by_hash: HashMap<u64, SmallVec<[Entry; 1]>>,
}

impl Watched {
    pub(crate) fn new(seed: u64) -> Box<Watched> {
        Box::new(Watched { seed, by_hash: HashMap::new() })
    }

    pub(crate) fn add(&mut self, k: &Key<'_>, watchers: impl Iterator<Item = Watcher>) {
        let entries = self.by_hash.entry(k.hash).or_default();
        let at = match entries.iter().position(|e| e.db == k.db && *e.key == *k.bytes) {
            Some(at) => at,
            None => {
                entries.push(Entry { db: k.db, key: k.bytes.into(), watchers: SmallVec::new() });
                entries.len() - 1
            }
        };
        entries[at].watchers.extend(watchers);
    }

    /// Takes a key out.
    pub(crate) fn take(&mut self, hash: u64, db: u16, key: &[u8]) -> Option<Entry> {
        let entries = self.by_hash.get_mut(&hash)?;
        let at = entries.iter().position(|e| e.db == db && *e.key == *key)?;
        let entry = entries.swap_remove(at);
        if entries.is_empty() {
            self.by_hash.remove(&hash);
        }
        Some(entry)
    }
}
