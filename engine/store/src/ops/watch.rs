//! WATCH and UNWATCH of keys whose shards are held.

use super::Tx;
use crate::state::key::Key;
use crate::state::watch::Watcher;

impl Tx<'_> {
    /// Watches a key for `watcher`, once however often it is called; its shard is held. A key whose time has come is
    /// removed first.
    pub fn watch(&mut self, k: &Key<'_>, watcher: &Watcher) {
        self.exists(k);
        let at = self.held.position(self.store.shard_of(k.hash));
        self.held.at_mut(at).watch(self.store.seed(), k, watcher);
    }

    /// Takes a key's watcher back; its shard is held.
    pub fn unwatch(&mut self, k: &Key<'_>, watcher: &Watcher) {
        let at = self.held.position(self.store.shard_of(k.hash));
        self.held.at_mut(at).unwatch(k, watcher);
    }
}
