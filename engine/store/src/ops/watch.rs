//! WATCH and UNWATCH of keys whose shards are held.

use super::Tx;
use crate::state::clock::is_over;
use crate::state::key::Key;
use crate::state::watch::{NameWatch, Watch, Watcher};

impl Tx<'_> {
    /// Watches a key for `watcher`, once however often it is called; its shard is held. A key whose time has come
    /// is removed first, or hidden: it is not there.
    pub fn watch(&mut self, k: &Key<'_>, watcher: &Watcher) {
        let was_there = self.exists(k);
        let at = self.held.position(self.store.shard_of(k.hash));
        self.held.at_mut(at).watch(self.store.seed(), k, Watch { watcher: watcher.clone(), was_there });
    }

    /// Whether a key is there whose time has come; its shard is held. It stays.
    fn is_overdue(&self, k: &Key<'_>) -> bool {
        self.find(k).is_some_and(|(_, due)| is_over(due, self.local.now_ms()))
    }

    /// Has a shard, which is held, know of a watch of names of the selected database.
    pub fn watch_names(&mut self, shard: u16, watch: &NameWatch) {
        let (at, db) = (self.held.position(usize::from(shard)), self.physical);
        self.held.at_mut(at).watch_names(self.store.seed(), db, watch);
    }

    /// Takes a key's watcher back; its shard is held. True if the key was there when the watch began, and its time has come since; it
    /// stays. A change of it has touched the watcher.
    pub fn unwatch(&mut self, k: &Key<'_>, watcher: &Watcher) -> bool {
        let at = self.held.position(self.store.shard_of(k.hash));
        let watch = self.held.at_mut(at).unwatch(k, watcher);
        watch.is_some_and(|watch| watch.was_there) && self.is_overdue(k)
    }
}
