//! The end of a key, or of fields of a hash, whose time has come, found by a command, by the wheel or by a drain.

use varve_index::IndexEntry;

use super::shard::Shard;
use super::store::Store;
use super::worker::WorkerState;
use crate::state::effects::Again;
use crate::state::events::EventClass;
use crate::state::key::{database_of, hash_of};
use crate::state::link::Encoding;
use crate::state::small::without_due;

/// Leaves of a hash whose due fields are removed in one hold of the shard, if no more are due: some 500 us.
const LEAVES_MAX: usize = 256;
/// Leaves whose due fields are removed in one hold, if more than that are due. Fewer, since a command will come back for the
/// rest; but while fields fall due as fast as they are removed it has to find an end.
const LEAVES_OF_MANY: usize = 64;

/// The fate of a hash whose due fields were removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FieldsLeft {
    /// None of its fields is due.
    Alive,
    /// More of its fields are due.
    MoreDue,
    /// All of its fields were due: the key is gone.
    None,
}

impl WorkerState {
    /// Removes the key of an entry of shard `id`, whose time has come. It is reported as the store's own doing and
    /// counted; the caller hands the report on while it has the shard.
    pub(crate) fn expire_entry(&mut self, store: &Store, shard: &mut Shard, id: usize, entry: IndexEntry) {
        self.report_removed(store, EventClass::Expired, shard, entry);
        shard.remove(store.ground(), entry);
        shard.follow_index(store.ground(), id);
        self.counters().expired.add(1);
    }

    /// Removes fields whose time has come from the hash of an entry of shard `id`, a bounded number, and the key with
    /// the last one. Reported like [`WorkerState::expire_entry`], as one change.
    pub(crate) fn expire_fields(
        &mut self,
        store: &Store,
        shard: &mut Shard,
        id: usize,
        entry: IndexEntry,
    ) -> FieldsLeft {
        let (ground, now_ms, r) = (store.ground(), self.now_ms(), shard.index().get(entry));
        let Some(link) = shard.link_of(store.log(), r) else {
            return self.expire_small_fields(store, shard, id, entry);
        };
        let shown = shard.before(ground, r);
        let (mut names, mut ends) = (Vec::new(), Vec::new());
        let (left, due) = shard.change_root(ground, self.appender(), link.place, shown, |root, ctx| {
            let fields = root.body.hash_mut();
            let most = if fields.is_much_due(now_ms, LEAVES_MAX) { LEAVES_OF_MANY } else { LEAVES_MAX };
            fields.remove_due(ctx, now_ms, most, |name| {
                names.extend_from_slice(name);
                ends.push(names.len());
            });
            (fields.len(), fields.next_due_ms())
        });
        if !ends.is_empty() {
            self.report_fields(store, shard, entry, (&names, &ends), left == 0);
            self.counters().expired_fields.add(ends.len() as u64);
        }
        if left == 0 {
            shard.remove_shown(ground, entry, shown);
            shard.follow_index(ground, id);
            return FieldsLeft::None;
        }
        shard.set_dated(ground, link.place, due.is_some());
        if due.is_some_and(|due| due <= now_ms) { FieldsLeft::MoreDue } else { FieldsLeft::Alive }
    }

    /// [`WorkerState::expire_fields`] of a hash in its key's object.
    fn expire_small_fields(&mut self, store: &Store, shard: &mut Shard, id: usize, entry: IndexEntry) -> FieldsLeft {
        let (ground, now_ms, r) = (store.ground(), self.now_ms(), shard.index().get(entry));
        let shown = shard.before(ground, r);
        let (mut names, mut ends) = (Vec::new(), Vec::new());
        let left = without_due(&shard.open(store.log(), r), now_ms, |name| {
            names.extend_from_slice(name);
            ends.push(names.len());
        });
        if ends.is_empty() {
            return FieldsLeft::Alive;
        }
        self.report_fields(store, shard, entry, (&names, &ends), left.is_none());
        self.counters().expired_fields.add(ends.len() as u64);
        let Some((encoding, value)) = left else {
            shard.remove_shown(ground, entry, shown);
            shard.follow_index(ground, id);
            return FieldsLeft::None;
        };
        let mut object = shard.open_mut(store.log(), r, shown);
        object.shorten_value(value.len());
        object.value_mut().copy_from_slice(&value);
        object.set_tag(encoding.tag());
        if encoding != Encoding::Dated {
            shard.count_small_dated(false);
        }
        FieldsLeft::Alive
    }

    /// Reports fields that the store has removed by itself: their names, one behind the other, and where each ends. With
    /// the `last` of them the key goes.
    fn report_fields(
        &mut self,
        store: &Store,
        shard: &mut Shard,
        entry: IndexEntry,
        (names, ends): (&[u8], &[usize]),
        last: bool,
    ) {
        let object = shard.open(store.log(), shard.index().get(entry));
        let (db, key) = (database_of(&object), object.key().to_vec());
        self.emit(store, EventClass::Hash, "hexpired", db, &key);
        if last {
            self.emit(store, EventClass::Generic, "del", db, &key);
        }
        if store.has_journal()
            && let Some(db) = store.database_map().logical(db)
        {
            let removes = Again::Words(&|words| {
                words.add(b"HDEL").add(&key);
                let starts = std::iter::once(0).chain(ends.iter().copied());
                starts.zip(ends).for_each(|(start, &end)| _ = words.add(&names[start..end]));
            });
            self.keep_own(store, db, removes);
            if store.has_occupied() && shard.is_occupied(&key) {
                self.reported_mut().overtake(&key);
            }
        }
        self.report_gone(store, shard, entry);
        shard.touch(store.log(), hash_of(store.seed(), db, &key), db, &key);
    }
}
