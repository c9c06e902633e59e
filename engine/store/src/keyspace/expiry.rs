//! The end of a key whose time has come, found by a command, by the wheel or by a drain.

use varve_index::IndexEntry;

use super::shard::Shard;
use super::store::Store;
use super::worker::WorkerState;
use crate::state::events::EventClass;

impl WorkerState {
    /// Removes the key of an entry of shard `id`, whose time has come. It is reported as the store's own doing and
    /// counted; the caller hands the report on while it has the shard.
    pub(crate) fn expire_entry(&mut self, store: &Store, shard: &mut Shard, id: usize, entry: IndexEntry) {
        self.report_removed(store, EventClass::Expired, shard, entry);
        shard.remove(store.ground(), entry);
        shard.follow_index(store.ground(), id);
        self.counters().expired.add(1);
    }
}
