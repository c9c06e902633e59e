//! Watched keys: which sessions want to know that a key has changed.
//!
//! ```text
//!  session: WATCH a b      Watcher (one flag) <--------+-------+
//!                                                      |       |
//!  shard of a: watched  hash -> [(db, "a", [flag]), ...]       |
//!  shard of b: watched  hash -> [(db, "b", [flag, another's])] +   set once, by the command that changes the key
//! ```
//! A shard without watched keys has no map: a change costs it one branch. The first change of a key sets the flags of
//! all that watch it and forgets the key, so that later changes cost nothing. Flags are set and the map is changed with
//! the shard held; a worker that holds the shards of all its keys sees a flag that cannot change meanwhile.
//!
//! Entries carry physical databases. FLUSHDB and SWAPDB, which run alone, touch what was there before or is there after
//! and carry the rest over to the number that the logical database has from then on.
//!
//! A key whose time has come is removed when it is watched, so that an entry without a touch says: it is as it was then.
//! Not here: which session watches what, and for how long (the command crate).

use smallvec::SmallVec;
use varve_base::Ref;
use varve_segment::Log;

use super::ground::Ground;
use super::shard::Shard;
use super::store::Store;
use crate::state::clock::is_over;
use crate::state::key::{Key, database_of, hash_of};
use crate::state::watch::{Entry, NameWatch, Watched, Watcher};

impl Shard {
    /// A key of this shard has changed: sets the flags of the sessions that watch it.
    #[inline]
    pub(crate) fn touch(&mut self, hash: u64, db: u16, key: &[u8]) {
        if self.watched.is_some() {
            self.touch_watched(hash, db, key);
        }
    }

    /// Touches a key like [`Shard::touch`], for callers without its hash.
    #[inline]
    pub(crate) fn touch_object(&mut self, log: &Log, r: Ref) {
        if let Some(watched) = &self.watched {
            let object = self.access.open(log, r);
            let (db, key) = (database_of(&object), object.key());
            let hash = hash_of(watched.seed, db, key);
            let key: SmallVec<[u8; 64]> = SmallVec::from_slice(key);
            self.touch_watched(hash, db, &key);
        }
    }

    #[cold]
    fn touch_watched(&mut self, hash: u64, db: u16, key: &[u8]) {
        let Some(watched) = &mut self.watched else { return };
        if let Some(entry) = watched.take(hash, db, key) {
            entry.watchers.touch();
        }
        watched.touch_names(db, key);
        self.drop_empty();
    }

    fn drop_empty(&mut self) {
        if self.watched.as_ref().is_some_and(|watched| watched.is_empty()) {
            self.watched = None;
        }
    }

    pub(crate) fn watch(&mut self, seed: u64, k: &Key<'_>, watcher: &Watcher) {
        self.watched.get_or_insert_with(|| Watched::new(seed)).of(k).add(watcher.clone());
    }

    pub(crate) fn watch_names(&mut self, seed: u64, db: u16, watch: &NameWatch) {
        self.watched.get_or_insert_with(|| Watched::new(seed)).add_names(watch.entry(db));
    }

    pub(crate) fn unwatch(&mut self, k: &Key<'_>, watcher: &Watcher) {
        let Some(watched) = &mut self.watched else { return };
        watched.remove(k, watcher);
        self.drop_empty();
    }

    /// Takes out all watched keys of a database, whose names all count as changed.
    fn take_watched(&mut self, db: u16) -> Vec<Entry> {
        let Some(watched) = &mut self.watched else { return Vec::new() };
        let mut taken = Vec::new();
        watched.touch_all_names(Some(db));
        watched.by_hash.retain(|_, entries| {
            let (mine, others) = std::mem::take(entries).into_iter().partition(|e| e.db == db);
            *entries = others;
            let mut mine: SmallVec<[Entry; 1]> = mine;
            taken.extend(mine.drain(..));
            !entries.is_empty()
        });
        self.drop_empty();
        taken
    }

    /// Puts watched keys back, as keys of database `db`.
    fn put_watched(&mut self, seed: u64, db: u16, entries: Vec<Entry>) {
        for entry in entries {
            let key = Key { bytes: &entry.key, hash: hash_of(seed, db, &entry.key), db };
            self.watched.get_or_insert_with(|| Watched::new(seed)).of(&key).append(entry.watchers);
        }
    }

    /// Every watched key that is there is about to go.
    pub(crate) fn touch_present(&mut self, ground: &Ground) {
        let Some(watched) = self.watched.take() else { return };
        let mut left = watched;
        left.touch_all_names(None);
        left.by_hash.retain(|&hash, entries| {
            entries.retain(|entry| {
                let key = Key { bytes: &entry.key, hash, db: entry.db };
                let present = self.find(ground.log(), &key).is_some();
                if present {
                    entry.watchers.touch();
                }
                !present
            });
            !entries.is_empty()
        });
        self.watched = Some(left);
        self.drop_empty();
    }

    /// True if the key is there; with `now_ms`, and its time has not come.
    fn has(&self, ground: &Ground, db: u16, key: &[u8], now_ms: Option<i64>) -> bool {
        let k = Key { bytes: key, hash: hash_of(ground.seed(), db, key), db };
        let Some(entry) = self.find(ground.log(), &k) else { return false };
        let due = self.access.open(ground.log(), self.index.get(entry)).expiry_ms();
        now_ms.is_none_or(|now| !is_over(due, now))
    }

    /// Removes a key that is here, and whose time has come, before it is watched.
    fn remove_stale(&mut self, ground: &Ground, db: u16, key: &[u8]) {
        let k = Key { bytes: key, hash: hash_of(ground.seed(), db, key), db };
        if let Some(entry) = self.find(ground.log(), &k) {
            self.remove(ground, entry);
        }
    }

    /// Touches those of the entries of `from` that are there or, if `now_ms` is given, will be there as keys of `to`
    /// and live; gives the others.
    fn touch_moved(&self, ground: &Ground, entries: Vec<Entry>, from: u16, to: u16, now_ms: Option<i64>) -> Vec<Entry> {
        let (touched, kept): (Vec<_>, Vec<_>) = entries.into_iter().partition(|entry| {
            self.has(ground, from, &entry.key, None) || now_ms.is_some() && self.has(ground, to, &entry.key, now_ms)
        });
        touched.iter().for_each(|entry| entry.watchers.touch());
        kept
    }
}

impl Store {
    /// Each two of these physical numbers are about to be exchanged: every key of either database changes for the watchers in the
    /// other one.
    pub(crate) fn swap_watched(&self, pairs: &[(u16, u16)], now_ms: i64) {
        for cell in self.cells() {
            let mut shard = cell.lock.lock();
            if shard.watched.is_none() {
                continue;
            }
            for &(a, b) in pairs {
                let (of_a, of_b) = (shard.take_watched(a), shard.take_watched(b));
                let of_a = shard.touch_moved(self.ground(), of_a, a, b, Some(now_ms));
                let of_b = shard.touch_moved(self.ground(), of_b, b, a, Some(now_ms));
                for (db, kept) in [(b, of_a), (a, of_b)] {
                    kept.iter().for_each(|entry| shard.remove_stale(self.ground(), db, &entry.key));
                    shard.put_watched(self.seed(), db, kept);
                }
            }
        }
    }

    /// A logical database was given the empty physical number `to` in the place of `from`.
    pub(crate) fn retire_watched(&self, from: u16, to: u16) {
        for cell in self.cells() {
            let mut shard = cell.lock.lock();
            if shard.watched.is_none() {
                continue;
            }
            let entries = shard.take_watched(from);
            let entries = shard.touch_moved(self.ground(), entries, from, to, None);
            shard.put_watched(self.seed(), to, entries);
        }
    }

    /// Number of watched keys, for tests and figures; locks every shard in turn.
    pub fn watched_keys(&self) -> usize {
        let entries = |shard: &Shard| shard.watched.as_ref().map_or(0, |w| w.by_hash.values().map(|e| e.len()).sum());
        self.cells().iter().map(|cell| entries(&cell.lock.lock())).sum()
    }
}
