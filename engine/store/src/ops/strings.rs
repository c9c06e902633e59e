//! Strings: read, replaced, grown.
//!
//! A write goes in place when the object's room takes it (and at least half of the room stays in use); else the new
//! value is appended and the old object dies. A value that grows gets a quarter more than it needs, so that a run of
//! appends costs amortised O(1) a byte.
//!
//! A large value lies in a run of segments of its own. It can be pinned, so that it is read where it lies with no
//! shard held; while it is, it grows in place, and a write into it copies the blocks of 64 KB that it touches first. One that came
//! from a socket straight into a run is
//! adopted as it is. These still copy or read much with the shards held: APPEND and SETRANGE their argument; APPEND
//! when it moves a value to twice the room; SETRANGE and its kin in EXEC and scripts the blocks that they touch of a value that is
//! pinned (elsewhere they are put back between some of them), or all of one that another command has just brought and not ended
//! with; COPY in EXEC and scripts; a new key too long for the room
//! before the value; comparisons (IFEQ, DELIFEQ, LCS); large arguments of commands inside EXEC, RESTORE's payload among
//! them, which were copied when they were queued, and are copied into the value and into the journal.

use std::ops::Range;

use varve_segment::{FilledExtent, NewObject, NewValue, ObjectMut, Owner, Pin, SegmentClass, Way};

use super::{Changing, Found, Tx};
use crate::state::events::EventClass;
use crate::state::form::StringForm;
use crate::state::key::Key;
use crate::state::request::Ttl;
use crate::state::types::{Type, WrongType};

impl Tx<'_> {
    /// A string for a reader: counts a hit or miss and moves the access clock.
    ///
    /// # Errors
    /// [`WrongType`] if the key holds another type.
    #[inline(always)]
    pub fn get(&mut self, k: &Key<'_>) -> Result<Option<&[u8]>, WrongType> {
        let Some(p) = self.live_inlined(k) else {
            self.missed(k);
            return Ok(None);
        };
        self.local.counters().hits.add(1);
        let object = self.used_at(p);
        if object.kind() == Type::String.kind() { Ok(Some(object.value())) } else { Err(WrongType) }
    }

    /// Counts a read of a key that is not there.
    #[cold]
    fn missed(&mut self, k: &Key<'_>) {
        self.local.counters().misses.add(1);
        self.emit(EventClass::Miss, "keymiss", k);
    }

    /// A string for a writer: no hit or miss is counted.
    ///
    /// # Errors
    /// [`WrongType`] if the key holds another type.
    pub fn peek(&mut self, k: &Key<'_>) -> Result<Option<&[u8]>, WrongType> {
        match self.live_whole(k) {
            Some(p) => {
                self.touch_at(p);
                self.string_at(p).map(Some)
            }
            None => Ok(None),
        }
    }

    /// A string for a report about it: None if the key holds another type. The access clock stays.
    pub fn glance(&mut self, k: &Key<'_>) -> Option<&[u8]> {
        let p = self.live_whole(k)?;
        self.string_at(p).ok()
    }

    /// Bytes of a value from which on it is worth the while to ask for a pin; every value in a run of its own has more.
    #[inline]
    pub fn pin_min(&self) -> usize {
        self.store.log().extent_min_bytes() / 4
    }

    /// Whether somebody reads a large value where it lies: a write into its middle copies what it is about to change.
    #[cold]
    pub fn is_read_in_place(&mut self, k: &Key<'_>) -> bool {
        let Some(p) = self.live_whole(k) else { return false };
        self.held.at_mut(p.shard).is_pinned(self.store.log(), p.r)
    }

    /// Makes way for writes to ranges of a large value, which ends behind them: a walk under way is shown it, and the blocks
    /// that somebody reads where they lie are copied, [`WAY_BYTES`] at most. Where it is not free afterwards, a command that can be put
    /// back is; each try comes further.
    #[cold]
    pub fn make_way(&mut self, k: &Key<'_>, ranges: impl Iterator<Item = Range<usize>>) -> Way {
        let Some(p) = self.live_whole(k) else { return Way::Free };
        let changing = self.before(p);
        let shard = self.held.at_mut(p.shard);
        let mut object = shard.open_mut(self.store.log(), p.r, changing.shown);
        let mut most = WAY_BYTES;
        ranges.map(|range| object.make_way(range, &mut most)).find(|way| *way != Way::Free).unwrap_or(Way::Free)
    }

    /// The bytes of a large value, readable after the shards are let go until the pin is dropped. None without the key,
    /// and for a value that has no run of its own. No hit or miss is counted, the access clock stays.
    #[cold]
    pub fn pin(&mut self, k: &Key<'_>) -> Option<Pin> {
        let p = self.live_whole(k)?;
        self.store.log().pin(self.held.at(p.shard).access(), p.r)
    }

    #[inline]
    fn string_at(&self, p: Found) -> Result<&[u8], WrongType> {
        let object = self.object_at(p);
        if object.kind() == Type::String.kind() { Ok(object.value()) } else { Err(WrongType) }
    }

    /// Sets a string, whatever the key held. An expiry that has already come removes nothing here: callers that want
    /// Redis's "a time in the past deletes" remove the key instead.
    pub fn set(&mut self, k: &Key<'_>, value: &[u8], ttl: Ttl, form: StringForm) {
        let old = self.live_inlined(k);
        self.set_found(k, old, value, ttl, form);
    }

    /// Sets a string to what `new` makes of it, of nothing without the key; the expiry stays. The key is looked for once.
    ///
    /// # Errors
    /// [`WrongType`] if the key holds another type, and those of `new`; the string is then as it was.
    pub fn rewrite<T: AsRef<[u8]>, E: From<WrongType>>(
        &mut self,
        k: &Key<'_>,
        form: StringForm,
        new: impl FnOnce(Option<&[u8]>) -> Result<T, E>,
    ) -> Result<T, E> {
        let old = self.live_inlined(k);
        let value = match old {
            Some(p) => self.string_at(p).map_err(E::from).and_then(|value| new(Some(value))),
            None => new(None),
        };
        match (&value, old) {
            (Ok(value), _) => self.set_found(k, old, value.as_ref(), Ttl::Keep, form),
            // It was looked at all the same.
            (Err(_), Some(p)) => self.touch_at(p),
            (Err(_), None) => {}
        }
        value
    }

    /// Sets a key like [`Tx::set`], after it was looked for.
    fn set_found(&mut self, k: &Key<'_>, old: Option<Found>, value: &[u8], ttl: Ttl, form: StringForm) {
        let expiry = self.expiry_after(old, ttl);
        let old = old.map(|p| self.before(p));
        let saved = match old.map(|old| self.overwrite(k, old, value, expiry, form)) {
            Some(Ok(())) => return,
            Some(Err(saved)) => saved,
            None => self.saved_of(k, None),
        };
        self.count_use(old.map(|old| old.found));
        let new = self.new_string(k, NewValue::Bytes(value), expiry, form, saved);
        let r = self.local.appender().append(self.store.log(), &new);
        self.publish(k, old, r, expiry);
    }

    /// Sets a key like [`Tx::set`] to a value that lies in an extent already, which becomes the key's without a copy.
    #[cold]
    pub fn adopt(&mut self, k: &Key<'_>, value: &FilledExtent, ttl: Ttl, form: StringForm) {
        let old = self.live_whole(k);
        let expiry = self.expiry_after(old, ttl);
        self.count_use(old);
        let old = old.map(|p| self.before(p));
        let new = self.new_string(k, NewValue::Zeroed(0), expiry, form, self.saved_of(k, old.as_ref()));
        let r = self.local.appender().adopt(self.store.log(), value, &new);
        self.publish(k, old, r, expiry);
    }

    /// Counts a use of what is about to be replaced, which passes its counter on.
    #[inline]
    fn count_use(&mut self, old: Option<Found>) {
        if let Some(p) = old.filter(|_| self.store.limit().lfu().is_some()) {
            self.touch_at(p);
        }
    }

    #[inline]
    fn expiry_after(&self, old: Option<Found>, ttl: Ttl) -> Option<i64> {
        match ttl {
            Ttl::Clear => None,
            Ttl::At(t) => Some(t),
            Ttl::Keep => old.and_then(|p| self.object_at(p).expiry_ms()),
        }
    }

    /// A string with no more room than its value.
    #[inline]
    fn new_string<'v>(
        &self,
        k: &Key<'v>,
        value: NewValue<'v>,
        expiry: Option<i64>,
        form: StringForm,
        saved: bool,
    ) -> NewObject<'v> {
        NewObject {
            kind: Type::String.kind(),
            owner: Owner::Database(k.db),
            key: k.bytes,
            room: value.len(),
            value,
            expiry_ms: expiry,
            clock: self.local.new_clock(self.store),
            tag: form.tag(),
            saved,
            class: class_of(expiry),
        }
    }

    /// Writes a value over a string's old one if its object takes it; else gives the object's mark SAVED.
    fn overwrite(
        &mut self,
        k: &Key<'_>,
        Changing { found: p, shown }: Changing,
        value: &[u8],
        expiry: Option<i64>,
        form: StringForm,
    ) -> Result<(), bool> {
        let store = self.store;
        let shard = self.held.at_mut(p.shard);
        let mut object = shard.open_mut(store.log(), p.r, shown);
        let before = object.read().expiry_ms();
        if object.read().kind() != Type::String.kind()
            || before.is_some() != expiry.is_some()
            || !object.resize_value(value.len())
            || (before != expiry && !object.set_expiry_ms(expiry))
        {
            return Err(object.read().saved());
        }
        object.value_mut().copy_from_slice(value);
        object.set_tag(form.tag());
        let clock = self.local.used_clock(store, object.read().clock());
        object.set_clock(clock);
        if let Some(t) = expiry {
            shard.file_expiry(&store.cells()[store.shard_of(k.hash)], k.hash, before, t, self.local.now_ms());
            self.note_own_date(k, t);
        }
        self.wrote(k);
        Ok(())
    }

    /// Bytes that the log needs where a write of a part makes a string `len` bytes long: 0 where it stays in the room that it has,
    /// and for a short one, which is admitted with its request.
    #[inline]
    pub(crate) fn growth_bytes(&mut self, k: &Key<'_>, len: usize) -> u64 {
        if len < self.store.log().extent_min_bytes() { 0 } else { self.moved_bytes(k, len) }
    }

    #[cold]
    fn moved_bytes(&mut self, k: &Key<'_>, len: usize) -> u64 {
        // A command that cannot be put back copies all of a value that is read, if there is no memory for its blocks.
        let moves = !self.is_patient() && self.is_read_in_place(k);
        let (old, room) = self.live_whole(k).map_or((0, 0), |p| {
            let object = self.object_at(p);
            (object.value().len(), object.room())
        });
        if len <= room && !moves { 0 } else { (grown_room(len.max(old)) + k.bytes.len()) as u64 }
    }

    /// Appends to a string, made if absent; gives the new length in bytes.
    ///
    /// # Errors
    /// [`WrongType`] if the key holds another type.
    pub fn append(&mut self, k: &Key<'_>, tail: &[u8]) -> Result<usize, WrongType> {
        let Some(p) = self.live_whole(k) else {
            self.set(k, tail, Ttl::Clear, StringForm::Auto);
            return Ok(tail.len());
        };
        let offset = self.string_at(p)?.len();
        // An empty tail too: the string is `raw` afterwards, and the change is seen.
        self.write_part(k, p, offset, tail);
        Ok(offset + tail.len())
    }

    /// Overwrites part of a string from `offset` on, zero-filled up to there; gives the new length in bytes.
    ///
    /// # Errors
    /// [`WrongType`] if the key holds another type.
    pub fn set_range(&mut self, k: &Key<'_>, offset: usize, part: &[u8]) -> Result<usize, WrongType> {
        let Some(place) = self.live_whole(k) else {
            let value = NewValue::Patched { old: &[], at: offset, part };
            let saved = self.saved_of(k, None);
            let new = with_room_to_grow(self.new_string(k, value, None, StringForm::Raw, saved));
            let r = self.local.appender().append(self.store.log(), &new);
            self.publish(k, None, r, None);
            return Ok(offset + part.len());
        };
        let len = self.string_at(place)?.len().max(offset + part.len());
        self.write_part(k, place, offset, part);
        Ok(len)
    }

    /// Writes `part` at `offset` of the string at `p`, growing it as needed; it is `raw` from then on.
    fn write_part(&mut self, k: &Key<'_>, p: Found, offset: usize, part: &[u8]) {
        let changing = self.before(p);
        let shard = self.held.at_mut(p.shard);
        let mut object = shard.open_mut(self.store.log(), p.r, changing.shown);
        let old_len = object.value().len();
        let in_place = if offset >= old_len {
            object.extend_value(offset, part)
        } else if object.resize_value(old_len.max(offset + part.len())) {
            object.write_value(offset, part);
            true
        } else {
            write_beside_readers(&mut object, offset, part)
        };
        if in_place {
            object.set_tag(StringForm::Raw.tag());
            let clock = self.local.used_clock(self.store, object.read().clock());
            object.set_clock(clock);
            self.wrote(k);
            return;
        }
        let object = self.held.at(p.shard).open(self.store.log(), p.r);
        let expiry = object.expiry_ms();
        let value = NewValue::Patched { old: object.value(), at: offset, part };
        let new = with_room_to_grow(self.new_string(k, value, expiry, StringForm::Raw, object.saved()));
        let r = self.local.appender().append(self.store.log(), &new);
        self.publish(k, Some(changing), r, expiry);
    }
}

/// Bytes that are copied to make way for a write, before its command is put back: some hundred microseconds.
const WAY_BYTES: usize = 512 << 10;

/// Writes over bytes of a value that somebody may be reading where it lies; false if that cannot be, or if it has no room. Waits for
/// readers of these bytes, who hold them for microseconds, unless the command has made way before.
#[cold]
fn write_beside_readers(object: &mut ObjectMut<'_>, at: usize, part: &[u8]) -> bool {
    let (old, room) = (object.value().len(), object.read().room());
    debug_assert!(at < old, "what is behind the value's end is nobody's");
    if !object.pinned() || at + part.len() > room {
        return false;
    }
    let (over, behind) = part.split_at(part.len().min(old - at));
    loop {
        match object.make_way(at..at + over.len(), &mut usize::MAX.clone()) {
            Way::Free => break,
            Way::Later => std::thread::yield_now(),
            Way::Never | Way::NoMemory => return false,
        }
    }
    object.write_value(at, over);
    let grows = behind.is_empty() || object.extend_value(old, behind);
    assert!(grows, "{} bytes at {at} of {old} do not fit in {room}", part.len());
    true
}

/// Asks for a quarter more than the value needs.
fn with_room_to_grow(new: NewObject<'_>) -> NewObject<'_> {
    NewObject { room: grown_room(new.room), ..new }
}

/// The room of a value that has grown to this length.
fn grown_room(len: usize) -> usize {
    len + len / 4
}

/// Volatile keys are kept together: they die together.
pub(super) fn class_of(expiry: Option<i64>) -> SegmentClass {
    if expiry.is_some() { SegmentClass::Volatile } else { SegmentClass::Ordinary }
}
