//! Watched keys: the flags of the sessions that watch them.
//!
//! ```text
//!  session: WATCH a b      Watcher (one flag) <--------+-------+
//!                                                      |       |
//!  shard of a: watched  hash -> [(db, "a", [flag]), ...]       |
//!  shard of b: watched  hash -> [(db, "b", [flag, another's])] +   set once, by the command that changes the key
//!
//!  SORT BY w_*: in each shard     [(db, weakly: heads and tails of names, a flag)]
//! ```
//! A command that follows patterns to very many keys watches names by their heads and tails. Nobody takes such a watch out of
//! the shards: once its command has ended, the next change of a key in a shard does.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Weak};

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

    /// A number that no other watcher has at the same time.
    fn address(&self) -> usize {
        Arc::as_ptr(&self.0).addr()
    }
}

/// The beginning and the end of the names of keys, with anything between them.
pub type NamePattern = (Box<[u8]>, Box<[u8]>);

/// A watch of all keys whose names have one of some forms, of one database; it ends when it is dropped.
#[derive(Clone, Debug)]
pub struct NameWatch(Arc<Names>);

#[derive(Debug)]
pub(crate) struct Names {
    touched: AtomicBool,
    patterns: Box<[NamePattern]>,
}

impl NameWatch {
    /// Watches keys with names of these forms, once the shards know of it.
    pub fn new(patterns: impl IntoIterator<Item = NamePattern>) -> NameWatch {
        NameWatch(Arc::new(Names { touched: AtomicBool::new(false), patterns: patterns.into_iter().collect() }))
    }

    /// True if a key of such a name was changed in a shard that knows of the watch. Whoever reads a key, its shard held, and
    /// sees false afterwards, has read it as it was when its shard got to know of the watch.
    pub fn is_touched(&self) -> bool {
        self.0.touched.load(Relaxed)
    }

    pub(crate) fn entry(&self, db: u16) -> NameEntry {
        NameEntry { db, names: Arc::downgrade(&self.0) }
    }
}

/// A watch of names, as a shard knows it.
#[derive(Debug)]
pub(crate) struct NameEntry {
    db: u16,
    names: Weak<Names>,
}

impl NameEntry {
    /// Whether anybody watches these names still.
    fn is_live(&self) -> bool {
        self.names.strong_count() > 0
    }

    fn touch_if(&self, changes: impl FnOnce(&Names) -> bool) {
        if let Some(names) = self.names.upgrade()
            && changes(&names)
        {
            names.touched.store(true, Relaxed);
        }
    }
}

/// A watched key.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) db: u16,
    pub(crate) key: Box<[u8]>,
    pub(crate) watchers: Watchers,
}

/// The watch of a key by one watcher.
#[derive(Clone, Debug)]
pub(crate) struct Watch {
    pub(crate) watcher: Watcher,
    /// The key was there when the watch began. One whose time had come then, and which was hidden, was not: that it goes is no change
    /// to this watcher.
    pub(crate) was_there: bool,
}

/// The first eight watchers of a key lie in a row, those beyond in a tree: most keys have one.
const FEW: usize = 8;

/// The watchers of a key. Adding and removing one does not depend on how many there are.
#[derive(Debug, Default)]
pub(crate) struct Watchers {
    few: SmallVec<[Watch; 1]>,
    /// By the address of the flag.
    many: BTreeMap<usize, Watch>,
}

impl Watchers {
    /// Adds a watcher, unless it is there.
    pub(crate) fn add(&mut self, watch: Watch) {
        if self.few.iter().any(|other| other.watcher.is(&watch.watcher)) {
            return;
        }
        let address = watch.watcher.address();
        if self.few.len() < FEW && !self.many.contains_key(&address) {
            self.few.push(watch);
        } else {
            self.many.entry(address).or_insert(watch);
        }
    }

    /// Removes a watcher, if it is there, and gives its watch.
    pub(crate) fn remove(&mut self, watcher: &Watcher) -> Option<Watch> {
        match self.few.iter().position(|other| other.watcher.is(watcher)) {
            Some(at) => Some(self.few.swap_remove(at)),
            None => self.many.remove(&watcher.address()),
        }
    }

    /// True without any.
    pub(crate) fn is_empty(&self) -> bool {
        self.few.is_empty() && self.many.is_empty()
    }

    /// True if the key was there when each of them came.
    pub(crate) fn all_were_there(&self) -> bool {
        self.few.iter().chain(self.many.values()).all(|watch| watch.was_there)
    }

    /// Sets the flags of all.
    pub(crate) fn touch(&self) {
        self.few.iter().chain(self.many.values()).for_each(|watch| watch.watcher.touch());
    }

    /// Sets the flags of those to which this is a change, and forgets these watchers.
    pub(crate) fn touch_if(&mut self, changes: impl Fn(&Watch) -> bool) {
        let touched = |watch: &Watch| {
            let changes = changes(watch);
            if changes {
                watch.watcher.touch();
            }
            changes
        };
        self.few.retain(|watch| !touched(watch));
        self.many.retain(|_, watch| !touched(watch));
    }

    /// Takes all of another key's watchers.
    pub(crate) fn append(&mut self, others: Watchers) {
        others.few.into_iter().chain(others.many.into_values()).for_each(|watch| self.add(watch));
    }
}

/// The watched keys of one shard.
#[derive(Debug)]
pub(crate) struct Watched {
    /// Of the key hash.
    pub(crate) seed: u64,
    pub(crate) by_hash: HashMap<u64, SmallVec<[Entry; 1]>>,
    names: Vec<NameEntry>,
}

impl Watched {
    pub(crate) fn new(seed: u64) -> Box<Watched> {
        Box::new(Watched { seed, by_hash: HashMap::new(), names: Vec::new() })
    }

    /// True if nobody watches a key or a name any more.
    pub(crate) fn is_empty(&self) -> bool {
        self.by_hash.is_empty() && self.names.is_empty()
    }

    /// Has names watched, and forgets those that nobody watches any more.
    pub(crate) fn add_names(&mut self, entry: NameEntry) {
        self.names.retain(NameEntry::is_live);
        self.names.push(entry);
    }

    /// A key has changed: touches those that watch its name, and forgets names that nobody watches any more.
    pub(crate) fn touch_names(&mut self, db: u16, key: &[u8]) {
        let is_one = |(head, tail): &NamePattern| {
            key.len() >= head.len() + tail.len() && key.starts_with(head) && key.ends_with(tail)
        };
        for entry in self.names.iter().filter(|entry| entry.db == db) {
            entry.touch_if(|names| names.patterns.iter().any(is_one));
        }
        self.names.retain(NameEntry::is_live);
    }

    /// All keys of a database may change, those of all databases without one: touches those that watch any name there.
    pub(crate) fn touch_all_names(&mut self, db: Option<u16>) {
        let is_concerned = |entry: &NameEntry| db.is_none_or(|db| entry.db == db);
        self.names.iter().filter(|entry| is_concerned(entry)).for_each(|entry| entry.touch_if(|_| true));
        self.names.retain(|entry| !is_concerned(entry) && entry.is_live());
    }

    /// The watchers of a key, for adding to them.
    pub(crate) fn of(&mut self, k: &Key<'_>) -> &mut Watchers {
        let entries = self.by_hash.entry(k.hash).or_default();
        let at = match entries.iter().position(|e| e.db == k.db && *e.key == *k.bytes) {
            Some(at) => at,
            None => {
                entries.push(Entry { db: k.db, key: k.bytes.into(), watchers: Watchers::default() });
                entries.len() - 1
            }
        };
        &mut entries[at].watchers
    }

    /// Removes a watcher of a key, and the key with its last one; gives its watch, if it was there.
    pub(crate) fn remove(&mut self, k: &Key<'_>, watcher: &Watcher) -> Option<Watch> {
        let entries = self.by_hash.get_mut(&k.hash)?;
        let entry = entries.iter_mut().find(|e| e.db == k.db && *e.key == *k.bytes)?;
        let removed = entry.watchers.remove(watcher);
        if entry.watchers.is_empty() {
            self.take(k.hash, k.db, k.bytes);
        }
        removed
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_watched_by_their_ends_and_forgotten_with_their_watch() {
        let mut watched = Watched::new(1);
        let watch = |patterns: &[(&str, &str)]| {
            NameWatch::new(patterns.iter().map(|(head, tail)| (head.as_bytes().into(), tail.as_bytes().into())))
        };
        let (one, two) = (watch(&[("a", "z"), ("w_", "")]), watch(&[("", "")]));
        watched.add_names(one.entry(3));
        for (db, key) in [(3, "az_"), (3, "z"), (3, "w"), (4, "w_1"), (3, "a")] {
            watched.touch_names(db, key.as_bytes());
            assert!(!one.is_touched(), "{key} of {db}");
        }
        watched.touch_names(3, b"az");
        assert!(one.is_touched());
        watched.add_names(two.entry(4));
        drop(one);
        watched.touch_names(3, b"other");
        assert!(watched.names.len() == 1 && !two.is_touched());
        watched.touch_all_names(Some(4));
        assert!(two.is_touched() && watched.is_empty());
    }

    /// Which of several thousand watchers of one key leaves does not matter to the others: the row stays short, and the
    /// tree is searched by address.
    #[test]
    fn watchers_leave_in_any_order() {
        let key = Key { bytes: b"k", hash: 7, db: 0 };
        let mut watched = Watched::new(1);
        let all: Vec<Watcher> = (0..3000).map(|_| Watcher::default()).collect();
        for watcher in all.iter().chain(&all) {
            watched.of(&key).add(Watch { watcher: watcher.clone(), was_there: true });
        }
        let (gone, left): (Vec<_>, Vec<_>) = all.iter().enumerate().partition(|(n, _)| n % 3 != 0);
        gone.iter().rev().for_each(|(_, watcher)| _ = watched.remove(&key, watcher));
        let watchers = watched.of(&key);
        assert_eq!((watchers.few.len() + watchers.many.len(), watchers.few.len() <= FEW), (left.len(), true));
        watched.take(7, 0, b"k").expect("somebody watches it").watchers.touch();
        assert!(left.iter().all(|(_, w)| w.is_touched()) && !gone.iter().any(|(_, w)| w.is_touched()));
        watched.of(&key).add(Watch { watcher: all[0].clone(), was_there: true });
        watched.remove(&key, &all[0]);
        assert!(watched.by_hash.is_empty());
    }
}
