//! The views that a shard's lock gives on the objects that were written.
//!
//! A view borrows the shard's `Access`: `Object` shares it, `ObjectMut` has it alone, so nobody can hold a value's
//! bytes while they change. This file knows no bytes of objects (`layout`) and no accounting (`log`).

use std::fmt;
use std::marker::PhantomData;
use std::ops::Range;

use varve_base::Ref;

use crate::kind::{NewObject, NewValue, ObjectKind, ObjectTag, Owner, SegmentClass};
use crate::layout::{First, ObjectPtr};
use crate::log::Log;
use crate::pin::Way;

/// The right to open the objects of one shard. It lives inside the shard's mutex, so its holder has locked the shard;
/// a Ref must be opened with the access of its own shard, which only the owner of both can know.
#[derive(Debug)]
pub struct Access(());

impl Log {
    /// The access of a new shard, for its mutex. An object must only ever be opened with one and the
    /// same access; what was built with an access of its own belongs to a shard's once that shard's lock has published it.
    pub fn access(&self) -> Access {
        Access::new()
    }
}

impl Access {
    pub(crate) fn new() -> Access {
        Access(())
    }

    /// Reads the object at `r`, which must be alive and of this shard.
    #[inline(always)]
    pub fn open<'a>(&'a self, log: &'a Log, r: Ref) -> Object<'a> {
        Object::at(log.place(r))
    }

    /// Opens the object at `r` to change it; it must be alive and of this shard.
    #[inline(always)]
    pub fn open_mut<'a>(&'a mut self, log: &'a Log, r: Ref) -> ObjectMut<'a> {
        ObjectMut { object: Object::at(log.place(r)), log, r }
    }

    /// Marks the object dead and stops counting it as alive. Nothing may lead to it any more. An extent's memory is queued
    /// for `release_step`. Panics if it was dead.
    #[inline]
    pub fn kill(&mut self, log: &Log, r: Ref) {
        log.kill(r);
    }
}

/// A view on an object under its shard's lock.
#[derive(Clone, Copy)]
pub struct Object<'a> {
    place: ObjectPtr,
    /// Decoded once: it never changes while the object lives.
    first: First,
    life: PhantomData<&'a [u8]>,
}

impl<'a> Object<'a> {
    #[inline(always)]
    fn at(place: ObjectPtr) -> Object<'a> {
        // SAFETY: `Access` was opened with the Ref of a published object that is alive.
        Object { place, first: unsafe { place.first() }, life: PhantomData }
    }

    /// True if the object was marked dead, which happens under its shard's lock. Reclaim alone opens objects of which it does
    /// not know this: their memory is still there.
    #[inline]
    pub fn is_dead(&self) -> bool {
        // SAFETY: the object was published, and its memory is not released while this view lives.
        unsafe { self.place.is_dead(&self.first) }
    }

    #[inline(always)]
    fn first(&self) -> First {
        self.first
    }

    /// Its kind.
    #[inline]
    pub fn kind(&self) -> ObjectKind {
        self.first().kind()
    }

    /// Its owner.
    #[inline]
    pub fn owner(&self) -> Owner {
        // SAFETY: as in `first`.
        unsafe { self.place.owner(&self.first()) }
    }

    /// Its key.
    #[inline]
    pub fn key(&self) -> &'a [u8] {
        // SAFETY: as in `first`; the key is immutable, and memory is released only after the object was killed, for
        // which this borrow of the access has to end.
        unsafe { self.place.key(&self.first()) }
    }

    /// Its value.
    #[inline]
    pub fn value(&self) -> &'a [u8] {
        let (begin, len) = self.value_span();
        // SAFETY: as in `key`, and the value changes only through a unique borrow of the same access.
        unsafe { std::slice::from_raw_parts(begin, len) }
    }

    /// Where the value begins, and its length in bytes. A change is written through this pointer, which comes from the
    /// mapping: a pointer taken from a shared slice may not be written through.
    #[inline(always)]
    fn value_span(&self) -> (*mut u8, usize) {
        let first = self.first();
        // SAFETY: the shard is locked; the value lies in the object.
        unsafe {
            let at = self.place.value_at(&first);
            let len = first.size() - self.place.slack(&first) - at;
            (self.place.0.add(at), len)
        }
    }

    /// When it expires, in ms of Unix time.
    #[inline]
    pub fn expiry_ms(&self) -> Option<i64> {
        // SAFETY: the shard is locked.
        unsafe { self.place.expiry_ms(&self.first()) }
    }

    /// The access clock, 24 bits; 0 for kinds that are no keys.
    #[inline]
    pub fn clock(&self) -> u32 {
        // SAFETY: the shard is locked.
        unsafe { self.place.clock(&self.first()) }
    }

    /// The owner's two bits.
    #[inline]
    pub fn tag(&self) -> ObjectTag {
        // SAFETY: the shard is locked.
        unsafe { self.place.tag(&self.first()) }
    }

    /// The owner's mark SAVED. It is for the walk of a snapshot: once the walk has written an object out, or once the object
    /// was written out early because it was about to change, the mark says that the walk does not show it again. A new
    /// object states it (`NewObject::saved`), and an object that takes another one's place keeps that one's.
    #[inline]
    pub fn saved(&self) -> bool {
        // SAFETY: the shard is locked.
        unsafe { self.place.saved(&self.first()) }
    }

    /// Bytes that the value may grow to in place.
    #[inline]
    pub fn room(&self) -> usize {
        let first = self.first();
        // SAFETY: the shard is locked.
        first.size() - unsafe { self.place.value_at(&first) }
    }

    /// Bytes of the whole object.
    #[inline]
    pub fn bytes(&self) -> usize {
        self.first().size()
    }

    /// Bytes of the object that are in use: all but the room that the value does not fill. What the log counts as alive.
    #[inline]
    pub fn live_bytes(&self) -> usize {
        let first = self.first();
        // SAFETY: the shard is locked.
        first.size() - unsafe { self.place.slack(&first) }
    }
}

impl fmt::Debug for Object<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Object")
            .field("kind", &self.kind())
            .field("owner", &self.owner())
            .field("key", &self.key().escape_ascii().to_string())
            .field("value_bytes", &self.value().len())
            .field("room", &self.room())
            .finish_non_exhaustive()
    }
}

impl<'a> NewObject<'a> {
    /// An object that takes the place of `old`: the same in all but its room, of which it has no more than the value needs.
    /// It goes to the segments of its expiry. What is to differ is stated over it: `NewObject { key, ..NewObject::like(&old) }`.
    #[inline]
    pub fn like(old: &Object<'a>) -> NewObject<'a> {
        let (value, expiry_ms) = (old.value(), old.expiry_ms());
        NewObject {
            kind: old.kind(),
            owner: old.owner(),
            key: old.key(),
            value: NewValue::Bytes(value),
            room: value.len(),
            expiry_ms,
            clock: old.clock(),
            tag: old.tag(),
            saved: old.saved(),
            class: if expiry_ms.is_some() { SegmentClass::Volatile } else { SegmentClass::Ordinary },
        }
    }
}

/// A view that may change the rest of an object.
pub struct ObjectMut<'a> {
    object: Object<'a>,
    log: &'a Log,
    r: Ref,
}

impl<'a> ObjectMut<'a> {
    /// To read it from now on.
    #[inline(always)]
    pub fn into_read(self) -> Object<'a> {
        self.object
    }
}

impl ObjectMut<'_> {
    /// To read it. The view may not outlive this borrow, or its value could change under it.
    #[inline]
    pub fn read(&self) -> Object<'_> {
        self.object
    }

    /// Its value.
    #[inline]
    pub fn value(&self) -> &[u8] {
        self.object.value()
    }

    /// Its value's bytes, to change in place. Panics if they are pinned.
    #[inline]
    pub fn value_mut(&mut self) -> &mut [u8] {
        assert!(!self.pinned(), "the value of a pinned extent would change");
        let (begin, len) = self.object.value_span();
        self.mark_written(0..len);
        // SAFETY: this view has the shard's access alone, and no pin reads the bytes.
        unsafe { std::slice::from_raw_parts_mut(begin, len) }
    }

    /// Makes way for a write to some bytes of the value: copies those that somebody reads through a pin, blocks of 1/128 segment
    /// (64 KB) each. Copies about `most` bytes at most, and takes their number from it. Panics if the value ends before the
    /// bytes do.
    #[inline]
    pub fn make_way(&mut self, range: Range<usize>, most: &mut usize) -> Way {
        let len = self.object.value_span().1;
        assert!(range.start <= range.end && range.end <= len, "{range:?} of a value of {len} bytes");
        if !self.pinned() {
            return Way::Free;
        }
        let at = self.log.offset_of(self.object.value_span().0);
        self.log.make_way(self.log.segment(self.r), at..at + len, at + range.start..at + range.end, most)
    }

    /// Writes `part` over the value's bytes from `at` on: of a value in an extent no other page is touched. Panics if they are
    /// pinned and no way was made for them in this hold of the shard, or end before the part does.
    pub fn write_value(&mut self, at: usize, part: &[u8]) {
        if self.pinned() {
            let from = self.log.offset_of(self.object.value_span().0) + at;
            self.log.write_beside_pins(self.log.segment(self.r), from..from + part.len());
        }
        self.bytes_mut(at..at + part.len()).copy_from_slice(part);
    }

    /// Makes a range of the value zero, of which nothing is touched that is.
    #[inline]
    fn clear(&mut self, range: Range<usize>) {
        if self.log.is_extent_size(self.object.bytes()) {
            self.clear_written(range);
        } else {
            self.bytes_mut(range).fill(0);
        }
    }

    /// Makes a range of a value in an extent zero.
    #[cold]
    fn clear_written(&mut self, range: Range<usize>) {
        let mut done = range.start;
        while done < range.end {
            let some = self.log.next_written(&self.object.value()[..range.end], done);
            if !some.is_empty() {
                self.bytes_mut(some.clone()).fill(0);
            }
            done = some.end;
        }
    }

    /// Some bytes of the value, which no pin reads, to be written. Panics if it ends before they do.
    fn bytes_mut(&mut self, range: Range<usize>) -> &mut [u8] {
        let (begin, len) = self.object.value_span();
        assert!(range.start <= range.end && range.end <= len, "{range:?} of a value of {len} bytes");
        self.mark_written(range.clone());
        // SAFETY: in the value; this view has the shard's access alone, and by the callers no pin reads these bytes.
        unsafe { std::slice::from_raw_parts_mut(begin.add(range.start), range.len()) }
    }

    /// Bytes of the value are going to be written.
    #[inline]
    fn mark_written(&self, range: Range<usize>) {
        if self.log.is_extent_size(self.object.bytes()) {
            self.log.mark_extent_written(self.object.value_span().0, range);
        }
    }

    /// Does somebody read these bytes where they lie? Then the value changes in place where way was made alone
    /// ([`ObjectMut::make_way`]), and at its end.
    #[inline]
    pub fn pinned(&self) -> bool {
        self.log.is_extent_size(self.object.bytes()) && self.log.pinned(self.r)
    }

    /// Sets the access clock: the low 24 bits count.
    #[inline]
    pub fn set_clock(&mut self, clock: u32) {
        // SAFETY: the shard is locked and this view is alone.
        unsafe { self.object.place.set_clock(&self.object.first(), clock) }
    }

    /// Sets the owner's two bits.
    #[inline]
    pub fn set_tag(&mut self, tag: ObjectTag) {
        // SAFETY: the shard is locked and this view is alone.
        unsafe { self.object.place.set_tag(&self.object.first(), tag) }
    }

    /// Sets the owner's mark SAVED.
    #[inline]
    pub fn set_saved(&mut self, saved: bool) {
        // SAFETY: the shard is locked and this view is alone.
        unsafe { self.object.place.set_saved(&self.object.first(), saved) }
    }

    /// Sets or removes the expiry, in ms of Unix time. False: the object has no room for it and must be written anew.
    /// Removing always works, and values of 4 KB and more always have room.
    pub fn set_expiry_ms(&mut self, expiry: Option<i64>) -> bool {
        let first = self.object.first();
        // SAFETY: the shard is locked and this view is alone; pinned values have a place for their expiry and stay.
        match unsafe { self.object.place.set_expiry_ms(&first, expiry) } {
            None => false,
            Some(0) => true,
            Some(grown) => {
                self.log.live_changed(self.r, grown as i64, self.log.is_extent_size(self.object.bytes()));
                true
            }
        }
    }

    /// Makes the value `len` bytes long in place; new bytes are zero. False, and nothing has changed, if it does not
    /// fit, if it would leave more than half the room unused, or if it is pinned: write a new object.
    pub fn resize_value(&mut self, len: usize) -> bool {
        let Some((old, dirty)) = self.resize(len) else { return false };
        if dirty > old {
            self.clear(old..dirty);
        }
        true
    }

    /// Makes the value shorter in place, to `len` bytes, however little of the room that leaves in use: a drain gives the rest
    /// back. For owners whose objects lose their content bit by bit, in commands that must not write.
    ///
    /// # Panics
    /// If the value is shorter already, or pinned.
    pub fn shorten_value(&mut self, len: usize) {
        let (first, old) = (self.object.first(), self.object.value().len());
        assert!(len <= old && !self.pinned(), "a value of {old} bytes is shortened to {len}");
        let in_extent = self.log.is_extent_size(first.size());
        // SAFETY: the shard is locked and this view is alone; the slack is a part of the room.
        unsafe { self.object.place.set_slack(&first, self.object.room() - len, in_extent) };
        self.log.live_changed(self.r, len as i64 - old as i64, in_extent);
    }

    /// Replaces the value in place, under the same conditions as `resize_value`.
    #[inline]
    pub fn set_value(&mut self, value: &[u8]) -> bool {
        if self.resize(value.len()).is_none() {
            return false;
        }
        self.value_mut().copy_from_slice(value);
        true
    }

    /// Writes `part` at `at`, which is the value's end or lies beyond it; zeros fill the gap. False, and nothing has
    /// changed, if it does not fit. A pinned value grows too: its pins end where it ended when they were made, and while
    /// they count it gets no shorter.
    pub fn extend_value(&mut self, at: usize, part: &[u8]) -> bool {
        assert!(at >= self.object.value().len(), "what stands already is not extended");
        let Some((old, dirty)) = self.resize_end(at + part.len()) else { return false };
        if self.pinned() {
            let value = self.log.offset_of(self.object.value_span().0);
            self.log.grow_beside_pins(self.log.segment(self.r), value + old..value + at + part.len());
        }
        // No pin reads beyond the old length.
        self.clear(old..dirty.min(at));
        self.bytes_mut(at..at + part.len()).copy_from_slice(part);
        true
    }

    /// Does `resize_end` if nobody reads the value through a pin.
    #[inline(always)]
    fn resize(&mut self, len: usize) -> Option<(usize, usize)> {
        if self.pinned() { None } else { self.resize_end(len) }
    }

    /// Changes the length and the accounting. Answers the old length, and the length up to which new bytes may be other
    /// than zero.
    #[inline(always)]
    fn resize_end(&mut self, len: usize) -> Option<(usize, usize)> {
        let first = self.object.first();
        let place = self.object.place;
        // SAFETY: the shard is locked and this view is alone.
        let (value_at, slack) = unsafe { (place.value_at(&first), place.slack(&first)) };
        let room = first.size() - value_at;
        debug_assert!(slack <= room, "{slack} bytes of slack in a room of {room}");
        let old = room - slack;
        if len == old {
            return Some((old, old));
        }
        let in_run = self.log.is_extent_size(first.size());
        let used = if in_run { self.log.extent_reach(self.r) - value_at } else { room };
        if len > room || (len < old && len < used / 2) {
            return None;
        }
        // SAFETY: as above; the new slack fits in the room. Behind what an extent has used all bytes stay zero, so that
        // growing need not touch them.
        unsafe { place.set_slack(&first, room - len, in_run) };
        self.log.live_changed(self.r, len as i64 - old as i64, in_run);
        if in_run {
            self.log.extent_grown(self.r, value_at + len);
        }
        Some((old, len.min(used)))
    }
}

impl fmt::Debug for ObjectMut<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.object.fmt(f)
    }
}
