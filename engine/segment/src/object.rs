//! Objects as the engine sees them: what to write, and the views that a shard's lock gives on what was written.
//!
//! A view borrows the shard's `Access`: `Object` shares it, `ObjectMut` has it alone, so nobody can hold a value's
//! bytes while they change. This file knows no bytes of objects (`layout`) and no accounting (`log`).

use std::fmt;
use std::marker::PhantomData;

use varve_base::Ref;

use crate::layout::{First, Place};
use crate::log::Log;

/// What an object is. Key kinds first: they have a clock and belong to a database; the others belong to a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
#[allow(missing_docs, reason = "the names say it")]
pub enum Kind {
    String = 1,
    List = 2,
    Hash = 3,
    Set = 4,
    Zset = 5,
    Stream = 6,
    /// A member or field of a big collection, found by its key.
    Element = 8,
    /// A part of a collection that is found by its number: list node, tree node.
    Node = 9,
    /// A chunk of an index.
    Table = 10,
    /// An element that is its key alone: a member of a big set. It has no value, no room and no expiry, and costs five
    /// bytes beside its key in a slot under 65536.
    Member = 11,
}

impl Kind {
    /// The last of the key kinds; 7 is free for one more.
    pub(crate) const LAST_KEY: Kind = Kind::Stream;

    /// Is it found by its name in a database?
    #[inline]
    pub const fn is_key(self) -> bool {
        self as u8 <= Kind::LAST_KEY as u8
    }

    #[inline]
    pub(crate) const fn from_bits(bits: u8) -> Option<Kind> {
        Some(match bits {
            1 => Kind::String,
            2 => Kind::List,
            3 => Kind::Hash,
            4 => Kind::Set,
            5 => Kind::Zset,
            6 => Kind::Stream,
            8 => Kind::Element,
            9 => Kind::Node,
            10 => Kind::Table,
            11 => Kind::Member,
            _ => return None,
        })
    }
}

/// Whom an object belongs to, from the object alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Owner {
    /// A key of this physical database; the number 0 costs no bytes. For key kinds only.
    Database(u16),
    /// A part of the big collection with this slot number, of two bytes if it is under 65536, else of four. For the
    /// other kinds only.
    Slot(u32),
}

/// How a string was made, which OBJECT ENCODING tells. To the log, two bits that move with the object, of any kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Form {
    /// From a client: an integer if it reads as one, else by its length.
    #[default]
    Auto = 0,
    /// Never an integer, by its length.
    Plain = 1,
    /// Changed in place.
    Raw = 2,
    /// As `Auto`, but a copy: an integer in it is the key's own, never a shared one.
    Own = 3,
}

impl Form {
    #[inline]
    pub(crate) const fn from_bits(bits: u8) -> Form {
        match bits {
            0 => Form::Auto,
            1 => Form::Plain,
            2 => Form::Raw,
            _ => Form::Own,
        }
    }
}

/// Objects with like fates share segments.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Class {
    /// What has no expiry.
    #[default]
    Ordinary = 0,
    /// What has one.
    Volatile = 1,
    /// What reclaim has moved.
    Survivor = 2,
}

impl Class {
    pub(crate) const ALL: [Class; 3] = [Class::Ordinary, Class::Volatile, Class::Survivor];
}

/// The bytes of a value that is about to be written.
#[derive(Clone, Copy, Debug)]
pub enum Value<'a> {
    /// These.
    Bytes(&'a [u8]),
    /// These, with other ones written over them or behind them.
    Patched {
        /// What was there before.
        old: &'a [u8],
        /// Where the new bytes go; zeros fill the gap if that is beyond the old ones.
        at: usize,
        /// The new bytes.
        part: &'a [u8],
    },
    /// So many zeros.
    Zeroed(usize),
    /// So many bytes of whatever lies there: for who says elsewhere which of them mean anything.
    Stale(usize),
}

impl Value<'_> {
    /// Bytes in all.
    #[inline]
    #[allow(clippy::len_without_is_empty, reason = "nobody asks")]
    pub fn len(&self) -> usize {
        match self {
            Value::Bytes(bytes) => bytes.len(),
            Value::Patched { old, at, part } => old.len().max(at + part.len()),
            Value::Zeroed(len) | Value::Stale(len) => *len,
        }
    }
}

/// An object to append. Key and room together stay under 4 GB.
#[derive(Clone, Copy, Debug)]
pub struct NewObject<'a> {
    /// What it is.
    pub kind: Kind,
    /// Whom it belongs to.
    pub owner: Owner,
    /// Its key; for a node, its number's bytes.
    pub key: &'a [u8],
    /// Its value.
    pub value: Value<'a>,
    /// Bytes that the value may grow to in place, at least its length. In a run it gets more. 0 for a member.
    pub room: usize,
    /// When it expires, in ms of Unix time. None for a member.
    pub expiry_ms: Option<i64>,
    /// The access clock: the low 24 bits count. Dropped for kinds that are no keys.
    pub clock: u32,
    /// How it was made.
    pub form: Form,
    /// Where to append it.
    pub class: Class,
}

impl<'a> NewObject<'a> {
    /// A string of database 0 with no more room than it needs and without an expiry.
    pub fn string(key: &'a [u8], value: &'a [u8]) -> Self {
        NewObject {
            kind: Kind::String,
            owner: Owner::Database(0),
            key,
            value: Value::Bytes(value),
            room: value.len(),
            expiry_ms: None,
            clock: 0,
            form: Form::Auto,
            class: Class::Ordinary,
        }
    }
}

/// The right to open the objects of one shard. It lives inside the shard's mutex, so who has it has locked the shard;
/// a Ref must be opened with the access of its own shard, which only the owner of both can know.
#[derive(Debug)]
pub struct Access(());

impl Access {
    pub(crate) fn new() -> Access {
        Access(())
    }

    /// Reads the object at `r`, which must be alive and of this shard.
    #[inline(always)]
    pub fn open<'a>(&'a self, log: &'a Log, r: Ref) -> Object<'a> {
        Object::at(log.place(r))
    }

    /// As `open`, to change it.
    #[inline(always)]
    pub fn open_mut<'a>(&'a mut self, log: &'a Log, r: Ref) -> ObjectMut<'a> {
        ObjectMut { object: Object::at(log.place(r)), log, r }
    }

    /// Marks the object dead and stops counting it as alive. Nothing may lead to it any more. A run's memory is queued
    /// for `release_step`. Panics if it was dead.
    #[inline]
    pub fn kill(&mut self, log: &Log, r: Ref) {
        log.kill(r);
    }
}

/// A view on an object under its shard's lock.
#[derive(Clone, Copy)]
pub struct Object<'a> {
    place: Place,
    /// Decoded once: it never changes while the object lives.
    first: First,
    life: PhantomData<&'a [u8]>,
}

impl<'a> Object<'a> {
    #[inline(always)]
    fn at(place: Place) -> Object<'a> {
        // SAFETY: `Access` was opened with the Ref of a published object that is alive.
        Object { place, first: unsafe { place.first() }, life: PhantomData }
    }

    #[inline(always)]
    fn first(&self) -> First {
        self.first
    }

    /// What it is.
    #[inline]
    pub fn kind(&self) -> Kind {
        self.first().kind()
    }

    /// Whom it belongs to.
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
        let first = self.first();
        // SAFETY: as in `key`, and the value changes only through a unique borrow of the same access.
        unsafe {
            let at = self.place.value_at(&first);
            let len = first.size() - self.place.slack(&first) - at;
            std::slice::from_raw_parts(self.place.0.add(at), len)
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

    /// How the string was made.
    #[inline]
    pub fn form(&self) -> Form {
        // SAFETY: the shard is locked.
        unsafe { self.place.form(&self.first()) }
    }

    /// Has the save that runs passed it? A bit for the owner's use, clear at first, that moves with the object.
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

    /// Bytes of the object, all told.
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
        assert!(!self.pinned(), "the value of a pinned run would change");
        let value = self.object.value();
        // SAFETY: this view has the shard's access alone, and no pin reads the bytes.
        unsafe { std::slice::from_raw_parts_mut(value.as_ptr().cast_mut(), value.len()) }
    }

    /// Is a reply still being sent from these bytes? Then the value cannot change in place, but for what is added at
    /// its end: write a new object.
    #[inline]
    pub fn pinned(&self) -> bool {
        self.log.is_run_size(self.object.bytes()) && self.log.pinned(self.r)
    }

    /// Sets the access clock: the low 24 bits count.
    #[inline]
    pub fn set_clock(&mut self, clock: u32) {
        // SAFETY: the shard is locked and this view is alone.
        unsafe { self.object.place.set_clock(&self.object.first(), clock) }
    }

    /// Sets how the string was made.
    #[inline]
    pub fn set_form(&mut self, form: Form) {
        // SAFETY: the shard is locked and this view is alone.
        unsafe { self.object.place.set_form(&self.object.first(), form) }
    }

    /// Sets the owner's bit.
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
                self.log.live_changed(self.r, grown as i64);
                true
            }
        }
    }

    /// Makes the value `len` bytes long in place; new bytes are zero. False, and nothing has changed, if it does not
    /// fit, if it would leave more than half the room unused, or if it is pinned: write a new object.
    pub fn resize_value(&mut self, len: usize) -> bool {
        let Some((old, dirty)) = self.resize(len) else { return false };
        if dirty > old {
            self.value_mut()[old..dirty].fill(0);
        }
        true
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
        let value = self.object.value();
        // SAFETY: this view has the shard's access alone, and no pin reads beyond the old length.
        let new = unsafe { std::slice::from_raw_parts_mut(value.as_ptr().add(old).cast_mut(), value.len() - old) };
        new[..dirty.min(at) - old].fill(0);
        new[at - old..].copy_from_slice(part);
        true
    }

    /// As `resize_end`, if nobody reads the value through a pin.
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
        let old = room - slack;
        if len == old {
            return Some((old, old));
        }
        let in_run = self.log.is_run_size(first.size());
        let used = if in_run { self.log.run_extent(self.r) - value_at } else { room };
        if len > room || (len < old && len < used / 2) {
            return None;
        }
        // SAFETY: as above; the new slack fits in the room. Behind what a run has used all bytes stay zero, so that
        // growing need not touch them.
        unsafe { place.set_slack(&first, room - len, in_run) };
        self.log.live_changed(self.r, len as i64 - old as i64);
        if in_run {
            self.log.run_grown(self.r, value_at + len);
        }
        Some((old, len.min(used)))
    }
}

impl fmt::Debug for ObjectMut<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.object.fmt(f)
    }
}
