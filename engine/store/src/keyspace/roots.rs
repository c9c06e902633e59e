//! Work on the root of a big collection, under its shard's lock.

use std::sync::atomic::Ordering::Relaxed;

use varve_collection::{Collection, CollectionId, Forgotten, ReaderBytes, ReaderNumber, WriteCtx};
use varve_segment::Appender;

use super::ground::Ground;
use super::shard::{NEVER, Shard, ShardCell};
use crate::state::collections::RootLocation;
use crate::state::link::{Link, Root};
use crate::state::readers::CollectionReader;

impl Ground {
    /// Follows the size of a collection's tables after it was changed, and sees that they are moved on.
    #[inline(always)]
    pub(crate) fn follow_root(&self, root: &mut Root) {
        let bytes = root.held_bytes();
        if bytes != root.reported {
            self.table_bytes().fetch_add((bytes as u64).wrapping_sub(root.reported as u64), Relaxed);
            root.reported = bytes;
        }
        if !root.restless && !root.dying && root.body.wants_step() {
            root.restless = true;
            self.pending().enqueue_rehash(root.id);
        }
    }
}

impl Shard {
    /// Works on a root of this shard without a change of what its key holds: reclaim and freeing.
    #[inline]
    pub(crate) fn with_root<R>(
        &mut self,
        ground: &Ground,
        appender: &mut Appender,
        place: u32,
        work: impl FnOnce(&mut Root, &mut WriteCtx<'_>) -> R,
    ) -> R {
        let root = self.roots.get_mut(place);
        let id = root.id;
        let ctx = &mut WriteCtx { log: ground.log(), access: &mut self.access, appender, seed: ground.seed(), id };
        let done = work(root, ctx);
        ground.follow_root(root);
        done
    }

    /// The root of a collection, if it is at this place.
    pub(crate) fn find_root(&mut self, place: u32, id: CollectionId) -> Option<&mut Root> {
        self.roots.find(place, id)
    }

    /// Makes a big collection of new objects in this shard, whose number is `shard`: an id, the elements, a root.
    pub(crate) fn found_root(
        &mut self,
        ground: &Ground,
        appender: &mut Appender,
        shard: usize,
        build: impl FnOnce(&mut WriteCtx<'_>) -> Collection,
    ) -> Link {
        let id = ground.take_number(shard);
        let ctx = &mut WriteCtx { log: ground.log(), access: &mut self.access, appender, seed: ground.seed(), id };
        let body = build(ctx);
        self.place_root(ground, shard, id, body)
    }

    /// Puts elements that were built under an id of their own among the roots of this shard, whose number is `shard`.
    pub(crate) fn place_root(&mut self, ground: &Ground, shard: usize, id: CollectionId, body: Collection) -> Link {
        let place = self.roots.put(Box::new(Root {
            id,
            dying: false,
            kept_for_readers: false,
            unpublished: false,
            restless: false,
            dated: false,
            filed_ms: NEVER,
            reported: 0,
            body,
        }));
        ground.collections().set(id, RootLocation { shard, place });
        ground.follow_root(self.roots.get_mut(place));
        Link { id, place }
    }

    /// Takes a root out, to bring it to another shard or since it is empty.
    pub(crate) fn take_root(&mut self, ground: &Ground, place: u32) -> Box<Root> {
        self.set_dated(ground, place, false);
        self.roots.take(place)
    }

    /// Follows the times at which the fields of a hash expire, to whose root at `place` the key of this hash leads: files
    /// the key by the first of them, unless an entry that is not later is on the wheel. Of a key that is `new` there is none.
    pub(crate) fn follow_fields(
        &mut self,
        ground: &Ground,
        cell: &ShardCell,
        (hash, place): (u64, u32),
        new: bool,
        now_ms: i64,
    ) {
        let root = self.roots.get(place);
        debug_assert!(!root.dying && !root.unpublished, "a key leads to it");
        let (due, filed_ms) = (root.body.next_due_ms(), if new { NEVER } else { root.filed_ms });
        self.set_dated(ground, place, due.is_some());
        if let Some(due) = due {
            self.file_expiry(cell, hash, Some(filed_ms), due, now_ms);
            self.roots.get_mut(place).filed_ms = filed_ms.min(due);
        }
    }

    /// The wheel has given out the entry of the hash at a place, and has another one from now on, at this time.
    pub(crate) fn note_filed(&mut self, place: u32, at_ms: i64) {
        self.roots.get_mut(place).filed_ms = at_ms;
    }

    /// Counts the root at a place among those that have fields which expire, or no more.
    pub(super) fn set_dated(&mut self, ground: &Ground, place: u32, dated: bool) {
        let root = self.roots.get_mut(place);
        if root.dated != dated {
            root.dated = dated;
            self.dated = if dated { self.dated + 1 } else { self.dated - 1 };
            ground.count_dated(if dated { 1 } else { -1 });
        }
    }

    /// Puts a root that comes from another shard among the roots of this one, whose number is `shard`.
    pub(crate) fn adopt_root(&mut self, ground: &Ground, shard: usize, root: Box<Root>) -> Link {
        let id = root.id;
        let place = self.roots.put(root);
        ground.collections().set(id, RootLocation { shard, place });
        Link { id, place }
    }

    /// Begins to read the collection at a place over several holds of the shard, which is held now. What is kept for the
    /// reader is counted in `bytes`.
    pub(crate) fn begin_reading(
        &mut self,
        ground: &Ground,
        place: u32,
        bytes: ReaderBytes,
        begin: impl FnOnce(&mut Collection, (ReaderNumber, ReaderBytes)),
    ) -> CollectionReader {
        let root = self.roots.get_mut(place);
        debug_assert!(!root.dying, "a key leads to it");
        let reader = ground.readers().begin(root.id, bytes);
        begin(&mut root.body, reader.of_collection());
        ground.follow_root(root);
        reader
    }

    /// Has a new root stay without a key until it is released or the hold on it is dropped, as a reader's is.
    pub(crate) fn withhold_root(&mut self, ground: &Ground, place: u32) -> CollectionReader {
        let root = self.roots.get_mut(place);
        debug_assert!(!root.dying && !root.unpublished, "it was made just now");
        root.unpublished = true;
        ground.readers().begin(root.id, ReaderBytes::default())
    }

    /// A key is about to lead to a root that was withheld.
    pub(crate) fn release_root(&mut self, place: u32) {
        let root = self.roots.get_mut(place);
        assert!(root.unpublished && !root.body.is_empty(), "no key leads to an empty collection");
        root.unpublished = false;
    }

    /// Follows the end of a reader, which the collection at a place has forgotten: one that dies is freed behind its last.
    pub(crate) fn follow_reader_end(&mut self, ground: &Ground, place: u32) {
        let root = self.roots.get_mut(place);
        if root.kept_for_readers && !root.body.is_read() {
            root.kept_for_readers = false;
            ground.pending().mark_dying(root.id);
        }
        ground.follow_root(root);
    }

    /// Has the collection at a place, if it is there, forget a reader whose owner is gone; false if more is to be forgotten.
    pub(crate) fn forget_reader(
        &mut self,
        ground: &Ground,
        appender: &mut Appender,
        place: u32,
        (id, number): (CollectionId, ReaderNumber),
    ) -> bool {
        let Some(root) = self.roots.find(place, id) else { return true };
        if root.unpublished {
            // Whoever built it has given up.
            (root.unpublished, root.dying) = (false, true);
            ground.readers().forget();
            ground.pending().mark_dying(id);
            return true;
        }
        let forgotten = self.with_root(ground, appender, place, |root, ctx| root.body.end_reading(ctx, number));
        if forgotten == Forgotten::Wholly {
            ground.readers().forget();
        }
        self.follow_reader_end(ground, place);
        forgotten != Forgotten::Partly
    }
}
