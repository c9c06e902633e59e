//! The door: the one place through which an object's bytes are changed or its life ends.
//!
//! ```text
//! found key --before--> Shown --open_mut, change_root, replace, remove ..--> changed bytes
//!              |
//!              `-- a walk is under way and has not come to the object: its walker sees the object as it still is, with the
//!                  shard held, and the object is marked: it is not shown again
//! ```
//! Whatever changes an object asks for the proof [`Shown`], which only [`Shard::before`] makes: a walker (a snapshot, a
//! reader that takes long) sees each object before its first change, and its old bytes are still there. While no walk is
//! under way that costs one test.
//!
//! Not a change: the clock of a key (its last use), and what reclaim does. It moves an object, drops the free room of a
//! small collection, moves the table of a big one, and frees what no key leads to; what a key holds stays the same.

use std::sync::Arc;

use varve_base::Ref;
use varve_collection::{Collection, ReadCtx, WriteCtx};
use varve_index::{IndexEntry, IndexTable};
use varve_segment::{Access, Appender, Log, Object, ObjectMut, Owner, SegmentClass};

use super::ground::Ground;
use super::shard::Shard;
use super::walking::STEP_BYTES;
use crate::state::key::database_of;
use crate::state::link::{Link, Root};
use crate::state::roots::Roots;
use crate::state::small::due_of;
use crate::state::types::Type;
use crate::state::walker::Before;
use crate::state::wheel::Wheel;

/// Proof that the walker of a walk under way has seen the object that is about to change.
#[derive(Clone, Copy)]
#[must_use = "it is what a change asks for"]
pub(crate) struct Shown(());

/// The fate of the big collection of an object that is replaced.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum RootTransfer {
    /// It dies with the object.
    None,
    /// The new object leads to it.
    New,
}

impl Shown {
    /// The proof for an object that the command itself has just made: there are no old bytes.
    #[inline(always)]
    pub(crate) fn of_new() -> Shown {
        Shown(())
    }
}

impl Shard {
    /// Shows the walker an object that is about to change, unless it has been shown.
    #[inline(always)]
    pub(crate) fn before(&mut self, ground: &Ground, r: Ref) -> Shown {
        if self.walking.is_some() {
            self.show(ground, r);
        }
        Shown(())
    }

    #[cold]
    fn show(&mut self, ground: &Ground, r: Ref) {
        let log = ground.log();
        if self.marks_new(self.hashes(log, ground.seed()).hash(r)) && !self.open(log, r).saved() {
            self.show_walker(ground, r);
            self.set_mark(log, r, true);
        }
    }

    /// Shows the walker of the walk that is under way an object; of a long collection, its elements from now on. Gives the
    /// number of bytes that were copied for it, about; those of a whole step for a long list, whose reader notes the
    /// number of each node when it begins, and for other long collections too: they are shown before the walk goes on.
    pub(super) fn show_walker(&mut self, ground: &Ground, r: Ref) -> usize {
        let Some((walking, walker)) = self.walking.as_ref().and_then(|it| Some((it, it.walker()?))) else { return 0 };
        let old = self.shown(ground, r);
        if !old.is_long(ground.readers().bounds()) {
            walker.before(&old);
            return old.bytes_to_show();
        }
        let walk = Arc::clone(walking.walk());
        let bytes = walk.kept_bytes().reader();
        if let Some(sink) = walk.sink_of(&old.counted_in(&bytes)) {
            self.begin_long(ground, r, &walk, (sink, bytes));
            return STEP_BYTES;
        }
        0
    }

    /// True if the removal of a key would free nothing now: somebody reads its collection over several holds, or its large
    /// string through a pin, or the walk under way would from then on.
    pub(crate) fn is_kept_for_readers(&self, ground: &Ground, r: Ref) -> bool {
        let log = ground.log();
        match self.link_of(log, r) {
            Some(link) if self.roots.get(link.place).body.is_read() => return true,
            Some(_) => {}
            None if !log.is_extent_size(self.open(log, r).bytes()) => return false,
            None if log.is_pinned(&self.access, r) => return true,
            None => {}
        }
        if !self.marks_new(self.hashes(log, ground.seed()).hash(r)) || self.open(log, r).saved() {
            return false;
        }
        let old = self.shown(ground, r);
        old.may_be_pinned() || old.is_long(ground.readers().bounds())
    }

    /// An object as a walker is shown it.
    pub(crate) fn shown<'s>(&'s self, ground: &'s Ground, r: Ref) -> Before<'s> {
        let log = ground.log();
        let collection = self.link_of(log, r).map(|link| &self.roots.get(link.place).body);
        let ctx = ReadCtx { log, access: &self.access, seed: ground.seed() };
        Before::new(r, collection, ctx, ground.pending().outlines())
    }

    /// True if an object that is new at the place of this hash is born marked: a walk has not come to the place, and what
    /// is written now was not there when the walk began.
    #[inline]
    pub(crate) fn marks_new(&self, hash: u64) -> bool {
        self.walking.as_ref().is_some_and(|walking| walking.is_ahead(hash) && walking.walker().is_some())
    }

    /// Marks an object for the walk that is under way, or takes the mark away.
    pub(crate) fn set_mark(&mut self, log: &Log, r: Ref, mark: bool) {
        self.access.open_mut(log, r).set_saved(mark);
    }

    /// Opens an object to change it.
    #[inline(always)]
    pub(crate) fn open_mut<'a>(&'a mut self, log: &'a Log, r: Ref, _: Shown) -> ObjectMut<'a> {
        self.access.open_mut(log, r)
    }

    /// True if somebody reads the value where it lies.
    pub(crate) fn is_pinned(&mut self, log: &Log, r: Ref) -> bool {
        self.access.open_mut(log, r).pinned()
    }

    /// Writes a key's clock, which is no change.
    #[inline(always)]
    pub(crate) fn set_clock(&mut self, log: &Log, r: Ref, clock: u32) {
        self.access.open_mut(log, r).set_clock(clock);
    }

    /// Writes a key's clock as `next` makes it of the old one, and opens the object to read.
    #[inline(always)]
    pub(crate) fn use_object<'a>(&'a mut self, log: &'a Log, r: Ref, next: impl FnOnce(u32) -> u32) -> Object<'a> {
        let mut object = self.access.open_mut(log, r);
        let before = object.read().clock();
        let clock = next(before);
        if before != clock {
            object.set_clock(clock);
        }
        object.into_read()
    }

    /// Works on the root of a key that is about to change.
    #[inline]
    pub(crate) fn change_root<R>(
        &mut self,
        ground: &Ground,
        appender: &mut Appender,
        place: u32,
        _: Shown,
        work: impl FnOnce(&mut Root, &mut WriteCtx<'_>) -> R,
    ) -> R {
        self.with_root(ground, appender, place, work)
    }

    /// Changes a collection by what needs neither its tables nor room in the log.
    #[inline(always)]
    pub(crate) fn change_near(&mut self, place: u32, _: Shown) -> (&mut Collection, &mut Access) {
        (&mut self.roots.get_mut(place).body, &mut self.access)
    }

    /// Puts a new object in the place of a key's old one.
    #[inline]
    pub(crate) fn replace(&mut self, ground: &Ground, entry: IndexEntry, new: Ref, root: RootTransfer, _: Shown) {
        let old = self.index.get(entry);
        self.index.replace(entry, new);
        match root {
            RootTransfer::None => self.kill_key(ground, old),
            RootTransfer::New => self.access.kill(ground.log(), old),
        }
    }

    /// Removes an entry that the walker has not seen, and marks its object dead, and what it leads to dying.
    pub(crate) fn remove(&mut self, ground: &Ground, entry: IndexEntry) {
        let shown = self.before(ground, self.index.get(entry));
        self.remove_shown(ground, entry, shown);
    }

    /// Removes an entry and marks its object dead, and what it leads to dying.
    pub(crate) fn remove_shown(&mut self, ground: &Ground, entry: IndexEntry, shown: Shown) {
        let r = self.detach(ground.log(), entry, shown);
        self.kill_key(ground, r);
    }

    /// Removes an entry with its counts and leaves its object alive, which nothing leads to any more.
    pub(crate) fn detach(&mut self, log: &Log, entry: IndexEntry, _: Shown) -> Ref {
        let r = self.index.remove(entry);
        self.touch_object(log, r);
        self.note_goes(log, r);
        let object = self.access.open(log, r);
        let (db, volatile) = (database_of(&object), object.expiry_ms().is_some());
        self.counts.of(db).change(-1, -i64::from(volatile));
        r
    }

    /// Gives a detached object another owner and key, if its value can stay where it lies.
    pub(crate) fn rename_detached(&mut self, log: &Log, r: Ref, owner: Owner, key: &[u8]) -> Option<Ref> {
        log.rename(&mut self.access, r, owner, key)
    }

    /// Writes the link of a detached object anew, whose root has moved.
    pub(crate) fn relink_detached(&mut self, log: &Log, r: Ref, link: Link) {
        self.access.open_mut(log, r).value_mut().copy_from_slice(&link.bytes());
    }

    /// Marks a detached object dead, but not what it leads to.
    pub(crate) fn kill_detached(&mut self, log: &Log, r: Ref) {
        self.access.kill(log, r);
    }

    /// Marks a key object dead that nothing leads to any more; a big collection is left to the background to free.
    fn kill_key(&mut self, ground: &Ground, r: Ref) {
        let object = self.access.open(ground.log(), r);
        if object.kind() != Type::String.kind() {
            if let Some(link) = Link::of_collection(&object) {
                self.set_dated(ground, link.place, false);
                self.roots.get_mut(link.place).dying = true;
                ground.pending().mark_dying(link.id);
            } else if due_of(&object).is_some() {
                self.count_small_dated(false);
            }
        }
        self.access.kill(ground.log(), r);
    }

    /// Copies an object out of reclaim's way, with another value of the same content if one is given.
    pub(crate) fn relocate(&mut self, log: &Log, appender: &mut Appender, entry: IndexEntry, value: Option<&[u8]>) {
        let r = self.index.get(entry);
        let new = appender.relocate_with(log, &mut self.access, r, SegmentClass::Survivor, value);
        self.index.replace(entry, new);
    }

    /// Takes everything out of the shard: its table, its roots, its wheel. The caller has ended the walk that was under way
    /// (`Store::end_walk`).
    pub(crate) fn take_all(&mut self, ground: &Ground) -> (IndexTable, Roots, Wheel) {
        debug_assert!(self.walking.is_none(), "the walk has ended");
        // Of listings that were dropped: while one is under way the keys are swept one by one.
        self.listings = None;
        self.touch_present(ground);
        self.counts.clear();
        ground.count_dated(-(std::mem::take(&mut self.dated) as i64));
        self.small_dated = 0;
        self.overdue.clear();
        (self.index.take(), std::mem::take(&mut self.roots), self.wheel.take())
    }
}
