//! Watched keys: which sessions want to know that a key has changed.
//!
//! ```text
//!  session: WATCH a b      Watcher (one flag) <--------+-------+
//!                                                      |       |
//!  shard of a: watched  hash -> [(db, "a", [flag]), ...]       |
//!  shard of b: watched  hash -> [(db, "b", [flag, another's])] +   set once, by the command that changes the key
//! ```
//! A shard without watched keys has no map: a change costs it one branch. The first change of a key sets the flags of
//! all that watch it and forgets them, so that later changes cost nothing. Flags are set and the map is changed with
//! the shard held; a worker that holds the shards of all its keys sees a flag that cannot change meanwhile.
//!
//! Entries carry physical databases. FLUSHDB and SWAPDB, which run alone, touch what was there before or is there after
//! and carry the rest over to the number that the logical database has from then on.
//!
//! A key whose time has come is removed when it is watched, unless nothing may be removed (a replica, a pause of writes). It counts as
//! absent then, and so do all that are overdue: if it goes, or SWAPDB brings one to an absent key's place, nothing has changed. Whether
//! the time of a key has come that was there is the session's to ask at EXEC.
//! Not here: which session watches what, and for how long (the command crate).

use smallvec::SmallVec;
use varve_base::Ref;
use varve_segment::Log;

use super::ground::Ground;
use super::shard::Shard;
use super::store::Store;
use crate::state::clock::is_over;
use crate::state::key::{Key, database_of, hash_of};
use crate::state::watch::{Entry, NameWatch, Watch, Watched, Watcher, Watchers};

impl Shard {
    /// A key of this shard has changed: sets the flags of the sessions that watch it.
    #[inline]
    pub(crate) fn touch(&mut self, log: &Log, hash: u64, db: u16, key: &[u8]) {
        if self.watched.is_some() {
            self.touch_watched(log, Key { bytes: key, hash, db });
        }
    }

    /// Touches a key like [`Shard::touch`], for callers without its hash.
    #[inline]
    pub(crate) fn touch_object(&mut self, log: &Log, r: Ref) {
        if let Some(watched) = &self.watched {
            let object = self.access.open(log, r);
            let (db, key) = (database_of(&object), object.key());
            let hash = hash_of(watched.seed, db, key);
            let bytes: SmallVec<[u8; 64]> = SmallVec::from_slice(key);
            self.touch_watched(log, Key { bytes: &bytes, hash, db });
        }
    }

    #[cold]
    fn touch_watched(&mut self, log: &Log, k: Key<'_>) {
        let taken = self.watched.as_mut().and_then(|watched| watched.take(k.hash, k.db, k.bytes));
        let left = taken.and_then(|entry| self.touch_watchers(log, &k, entry.watchers));
        let Some(watched) = &mut self.watched else { return };
        if let Some(left) = left {
            watched.of(&k).append(left);
        }
        watched.touch_names(k.db, k.bytes);
        self.drop_empty();
    }

    /// Touches watchers of a key that has changed, or has gone; gives those to which that is no change.
    fn touch_watchers(&self, log: &Log, k: &Key<'_>, mut watchers: Watchers) -> Option<Watchers> {
        if watchers.all_were_there() {
            watchers.touch();
            return None;
        }
        // To watchers of an absent key, what has gone was overdue when they came.
        let is_there = self.find(log, k).is_some();
        watchers.touch_if(|watch| watch.was_there || is_there);
        (!watchers.is_empty()).then_some(watchers)
    }

    fn drop_empty(&mut self) {
        if self.watched.as_ref().is_some_and(|watched| watched.is_empty()) {
            self.watched = None;
        }
    }

    pub(crate) fn watch(&mut self, seed: u64, k: &Key<'_>, watch: Watch) {
        self.watched.get_or_insert_with(|| Watched::new(seed)).of(k).add(watch);
    }

    pub(crate) fn watch_names(&mut self, seed: u64, db: u16, watch: &NameWatch) {
        self.watched.get_or_insert_with(|| Watched::new(seed)).add_names(watch.entry(db));
    }

    /// Takes a watcher back; gives its watch, if it was not touched.
    pub(crate) fn unwatch(&mut self, k: &Key<'_>, watcher: &Watcher) -> Option<Watch> {
        let removed = self.watched.as_mut()?.remove(k, watcher);
        self.drop_empty();
        removed
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
                entry.watchers.touch_if(|watch| watch.was_there && present);
                !entry.watchers.is_empty()
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

    /// Touches the watchers of the entries of `from` to which a key goes or, if `now_ms` is given, one comes that lives as a key of
    /// `to`; gives the others.
    fn touch_moved(
        &self,
        ground: &Ground,
        mut entries: Vec<Entry>,
        (from, to): (u16, u16),
        now_ms: Option<i64>,
    ) -> Vec<Entry> {
        entries.retain_mut(|entry| {
            let goes = self.has(ground, from, &entry.key, None);
            let comes = now_ms.is_some() && self.has(ground, to, &entry.key, now_ms);
            entry.watchers.touch_if(|watch| watch.was_there && goes || comes);
            !entry.watchers.is_empty()
        });
        entries
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
                let of_a = shard.touch_moved(self.ground(), of_a, (a, b), Some(now_ms));
                let of_b = shard.touch_moved(self.ground(), of_b, (b, a), Some(now_ms));
                shard.put_watched(self.seed(), b, of_a);
                shard.put_watched(self.seed(), a, of_b);
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
            let entries = shard.touch_moved(self.ground(), entries, (from, to), None);
            shard.put_watched(self.seed(), to, entries);
        }
    }

    /// Number of watched keys, for tests and figures; locks every shard in turn.
    pub fn watched_keys(&self) -> usize {
        let entries = |shard: &Shard| shard.watched.as_ref().map_or(0, |w| w.by_hash.values().map(|e| e.len()).sum());
        self.cells().iter().map(|cell| entries(&cell.lock.lock())).sum()
    }
}
