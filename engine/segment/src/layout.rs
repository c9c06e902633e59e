//! The bytes of one object, and the only code that knows them.
//!
//! ```text
//! |<-------------- first part ----------------->|<------------------ rest: `room` bytes ------------------->|
//! +------+---------+---------+--------+---------+-------+---------+----------+--------------------+---------+
//! | head | owner   | key len | room   | key     | flags | clock   | expiry   | value              | slack   |
//! | 1    | 0 2 4   | 1 4     | 0..=4  | key len | 1     | 0 3     | 0 6 8    | what is left       | 0..     |
//! +------+---------+---------+--------+---------+-------+---------+----------+--------------------+---------+
//!
//! head     7       6        5   4        3..0          owner: 2 bytes more with OWNED than without, counted from 0 for
//!        +-------+--------+------------+------+               a key kind, whose database number it is, and from 2 for
//!        | OWNED | LONG   | room width | kind |               every other, whose collection it is
//!        |       | KEY    | - 1        |      |        key length: 4 bytes with LONG, else 1
//!        +-------+--------+------------+------+        room: 1 to 4 bytes
//!
//! bare     head (kind 11, room width bits clear), owner, key length, key, flags: no room is written, since it is always
//!          the byte of the flags
//!
//! flags    7       6   5    4   3     2   1     0      tag: two bits of the owner
//!        +-------+--------+---------+---------+------+ expiry: 0 none, 1 six bytes, 2 eight bytes,
//!        | SAVED | tag    | expiry  | slack   | DEAD |         3 eight bytes of place that hold nothing
//!        +-------+--------+---------+---------+------+ slack: 0 none, 1 counted in the last byte, 2 in the last four
//!
//! filler   head (kind 15), room, `room` bytes of anything; or, with LONG KEY set, the head byte alone
//! ```
//!
//! All numbers are little-endian and lie at any address. The value's length is stored nowhere: it is the room minus
//! what stands before the value minus the slack, so a short key without expiry costs 7 bytes (head, key length, room,
//! flags, clock), and a bare part 5 (head, 2 of owner, key length, flags). Only key kinds have a clock: eviction
//! ages whole keys, never their parts. The last byte(s) of the slack count it, themselves included. A key's value
//! whose room is `PLACE_FROM` or more always has eight bytes for an expiry, so that setting one never moves more than
//! that many bytes.
//!
//! The first part is written before the object is published and never again until its memory is released; the object's
//! size follows from it alone. The rest belongs to the lock of the object's shard, but for the DEAD bit (see the
//! crate's page). No accessor reads past an object's end. This file knows nothing of segments, and checks nothing that
//! its callers vouch for.

use std::sync::atomic::{AtomicU8, Ordering};

use crate::kind::{NewObject, NewValue, ObjectKind, ObjectTag, Owner};

const KIND: u8 = 0b0000_1111;
const ROOM_SHIFT: u32 = 4;
const LONG: u8 = 0b0100_0000;
const OWNED: u8 = 0b1000_0000;
const FILLER: u8 = ObjectKind::FILLER_BITS;
const BARE: u8 = ObjectKind::BARE.bits();
const LAST_KEY: u8 = ObjectKind::LAST_KEY.bits();
const PART: u8 = ObjectKind::PART_BIT;
const _: () = assert!(LAST_KEY < PART && BARE & PART != 0 && FILLER <= KIND);

const DEAD: u8 = 0b0000_0001;
const SLACK_SHIFT: u32 = 1;
const EXPIRY_SHIFT: u32 = 3;
const TAG_SHIFT: u32 = 5;
const SAVED_SHIFT: u32 = 7;
const SAVED: u8 = 1 << SAVED_SHIFT;

const EXPIRY_NONE: u8 = 0;
const EXPIRY_SIX: u8 = 1;
const EXPIRY_EIGHT: u8 = 2;
const EXPIRY_PLACE: u8 = 3;
const EXPIRY_BYTES: [usize; 4] = [0, 6, 8, 8];

/// The fields of the flags do not overlap and fill the byte.
const _: () = assert!(
    DEAD | 3 << SLACK_SHIFT | 3 << EXPIRY_SHIFT | 3 << TAG_SHIFT | SAVED == 0xff && SLACK_SHIFT + 2 == EXPIRY_SHIFT
);
/// An expiry that is removed in place leaves its bytes as the place of another one.
const _: () = assert!(EXPIRY_BYTES[EXPIRY_EIGHT as usize] == EXPIRY_BYTES[EXPIRY_PLACE as usize]);

/// From this room on, a value keeps a place for an expiry.
pub(crate) const PLACE_FROM: usize = 4096;
/// The most bytes that stand before a key.
const FIRST_MAX: usize = 1 + 4 + 4 + 4;
/// The most bytes that stand between a key and its value.
const REST_HEAD_MAX: usize = 1 + 3 + 8;
/// The most bytes that an object needs beyond its key and its room.
pub(crate) const OVERHEAD_MAX: usize = FIRST_MAX + REST_HEAD_MAX;

/// Reads `width` (1 to 4) bytes as a little-endian number.
#[inline(always)]
unsafe fn load(at: *const u8, width: usize) -> usize {
    debug_assert!((1..=4).contains(&width), "a number of {width} bytes");
    // SAFETY: the caller vouches for `width` readable bytes; arrays of bytes have no alignment.
    unsafe {
        match width {
            1 => at.read() as usize,
            2 => u16::from_le_bytes(at.cast::<[u8; 2]>().read()) as usize,
            3 => u16::from_le_bytes(at.cast::<[u8; 2]>().read()) as usize | (at.add(2).read() as usize) << 16,
            _ => u32::from_le_bytes(at.cast::<[u8; 4]>().read()) as usize,
        }
    }
}

/// Writes the low `width` (1 to 4) bytes of a number.
#[inline(always)]
unsafe fn store(at: *mut u8, width: usize, number: usize) {
    debug_assert!((1..=4).contains(&width), "a number of {width} bytes");
    let bytes = (number as u32).to_le_bytes();
    // SAFETY: the caller vouches for `width` writable bytes.
    unsafe {
        match width {
            1 => at.write(bytes[0]),
            2 => at.cast::<[u8; 2]>().write([bytes[0], bytes[1]]),
            3 => at.cast::<[u8; 3]>().write([bytes[0], bytes[1], bytes[2]]),
            _ => at.cast::<[u8; 4]>().write(bytes),
        }
    }
}

/// Bytes that hold `number`: 1 to 4.
#[inline]
fn width_of(number: usize) -> usize {
    match number {
        0..=0xff => 1,
        0x100..=0xffff => 2,
        0x1_0000..=0xff_ffff => 3,
        _ => {
            assert!(number <= u32::MAX as usize, "an object of {number} bytes");
            4
        }
    }
}

/// Bytes of the owner: 0 or 2 for a key, 2 or 4 for a part.
#[inline(always)]
fn owner_bytes(head: u8) -> usize {
    2 * ((head >> 7) + ((head & PART) >> 3)) as usize
}

#[inline(always)]
fn rest_head(kind_bits: u8) -> usize {
    if kind_bits <= LAST_KEY { 4 } else { 1 }
}

#[inline]
fn slack_form(slack: usize) -> u8 {
    match slack {
        0 => 0,
        1..=255 => 1,
        _ => 2,
    }
}

/// A decoded first part.
#[derive(Clone, Copy, Debug)]
pub(crate) struct First {
    head: u8,
    /// Offset of the key in the object.
    pub(crate) key_at: usize,
    pub(crate) key_len: usize,
    /// Bytes of the rest.
    pub(crate) room: usize,
}

impl First {
    /// Offset of the rest in the object.
    #[inline(always)]
    pub(crate) fn rest_at(&self) -> usize {
        self.key_at + self.key_len
    }

    /// Bytes of the object.
    #[inline(always)]
    pub(crate) fn size(&self) -> usize {
        self.rest_at() + self.room
    }

    #[inline]
    pub(crate) fn kind(&self) -> ObjectKind {
        match ObjectKind::from_bits(self.head & KIND) {
            Some(kind) => kind,
            None => no_object(self.head),
        }
    }
}

#[cold]
#[inline(never)]
fn no_object(head: u8) -> ! {
    panic!("a Ref that leads to no object (head {head:#04x}): it was kept after its object died")
}

/// Where an object begins. Every method asks that an object does begin there and that the caller may touch the part
/// in question: the first part of any published object, the rest under its shard's lock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ObjectPtr(pub(crate) *mut u8);

/// The content of a segment at one place, as a walk finds it.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Item {
    /// This many bytes without an object.
    Filler(usize),
    Object(First),
}

impl ObjectPtr {
    #[inline(always)]
    unsafe fn number(self, at: usize, width: usize) -> usize {
        // SAFETY: passed on to the caller.
        unsafe { load(self.0.add(at), width) }
    }

    #[inline(always)]
    pub(crate) unsafe fn first(self) -> First {
        // SAFETY: each read lies in the first part, whose form the head byte gives.
        unsafe {
            let head = self.0.read();
            if head <= LAST_KEY {
                // The common case: a key of database 0, its length and its room of a byte each.
                return First { head, key_at: 3, key_len: self.number(1, 1), room: self.number(2, 1) };
            }
            let owner = owner_bytes(head);
            let key_width = if head & LONG == 0 { 1 } else { 4 };
            let key_len = self.number(1 + owner, key_width);
            if head & KIND == BARE {
                return First { head, key_at: 1 + owner + key_width, key_len, room: 1 };
            }
            let room_width = ((head >> ROOM_SHIFT) & 3) as usize + 1;
            let room = self.number(1 + owner + key_width, room_width);
            First { head, key_at: 1 + owner + key_width + room_width, key_len, room }
        }
    }

    /// The object or filler here. Panics if there can be neither.
    #[inline]
    pub(crate) unsafe fn item(self) -> Item {
        // SAFETY: an object or a filler begins here, and the filler's head says whether it has a length.
        unsafe {
            let head = self.0.read();
            if head & KIND != FILLER {
                let first = self.first();
                first.kind();
                return Item::Object(first);
            }
            if head & LONG != 0 {
                return Item::Filler(1);
            }
            let width = ((head >> ROOM_SHIFT) & 3) as usize + 1;
            Item::Filler(1 + width + self.number(1, width))
        }
    }

    /// Writes a filler of exactly `len` bytes, of which it touches at most five.
    pub(crate) unsafe fn write_filler(self, len: usize) {
        assert!(len > 0, "an empty filler");
        // SAFETY: the caller owns `len` bytes here.
        unsafe {
            if len == 1 {
                return self.0.write(FILLER | LONG);
            }
            let width = (1..=4).find(|&w| width_of(len.saturating_sub(1 + w)) <= w).expect("under 4 GB");
            self.0.write(FILLER | ((width as u8 - 1) << ROOM_SHIFT));
            store(self.0.add(1), width, len - 1 - width);
        }
    }

    #[inline]
    pub(crate) unsafe fn owner(self, first: &First) -> Owner {
        // SAFETY: in the first part.
        unsafe {
            if first.head & KIND > LAST_KEY {
                Owner::Collection(self.number(1, owner_bytes(first.head)) as u32)
            } else if first.head & OWNED != 0 {
                Owner::Database(self.number(1, 2) as u16)
            } else {
                Owner::Database(0)
            }
        }
    }

    /// The key, for as long as the caller can vouch for the object.
    #[inline]
    pub(crate) unsafe fn key<'a>(self, first: &First) -> &'a [u8] {
        debug_assert!(first.key_at <= FIRST_MAX, "a key at {}", first.key_at);
        // SAFETY: immutable while the object exists.
        unsafe { std::slice::from_raw_parts(self.0.add(first.key_at), first.key_len) }
    }

    /// The flags byte, which is only ever touched as an atomic.
    #[inline(always)]
    unsafe fn flags<'a>(self, first: &First) -> &'a AtomicU8 {
        // SAFETY: the rest of an object has at least this byte, and nobody takes a plain reference to it.
        unsafe { AtomicU8::from_ptr(self.0.add(first.rest_at())) }
    }

    /// Is it marked dead? May be asked without the lock: once set it stays, and then everything that its killer did
    /// before is visible.
    #[inline]
    pub(crate) unsafe fn is_dead(self, first: &First) -> bool {
        // SAFETY: the flags byte exists and is atomic.
        unsafe { self.flags(first).load(Ordering::Acquire) & DEAD != 0 }
    }

    /// Marks it dead: the last touch of an object. Panics if it was dead already.
    #[inline]
    pub(crate) unsafe fn set_dead(self, first: &First) {
        // SAFETY: under the shard's lock nobody else writes the flags.
        unsafe {
            let flags = self.flags(first);
            let old = flags.load(Ordering::Relaxed);
            assert!(old & DEAD == 0, "killed twice");
            flags.store(old | DEAD, Ordering::Release);
        }
    }

    #[inline(always)]
    pub(crate) unsafe fn flag_bits(self, first: &First) -> u8 {
        // SAFETY: as `flags`.
        unsafe { self.flags(first).load(Ordering::Relaxed) }
    }

    #[inline]
    unsafe fn set_bits(self, first: &First, mask: u8, bits: u8) {
        // SAFETY: under the shard's lock nobody else writes the flags.
        unsafe {
            let flags = self.flags(first);
            flags.store(flags.load(Ordering::Relaxed) & !mask | bits, Ordering::Relaxed);
        }
    }

    /// Unused bytes at the object's end.
    #[inline]
    pub(crate) unsafe fn slack(self, first: &First) -> usize {
        // SAFETY: the count stands inside the slack, which its form says is long enough.
        unsafe {
            let slack = match self.flag_bits(first) >> SLACK_SHIFT & 3 {
                0 => 0,
                1 => self.number(first.size() - 1, 1),
                _ => self.number(first.size() - 4, 4),
            };
            debug_assert!(slack < first.room, "{slack} bytes of slack in a rest of {}", first.room);
            slack
        }
    }

    /// Sets the slack's count. With `clear`, the bytes of the old count become zero first.
    pub(crate) unsafe fn set_slack(self, first: &First, slack: usize, clear: bool) {
        debug_assert!(slack < first.room, "{slack} bytes of slack in a rest of {}", first.room);
        let form = slack_form(slack);
        // SAFETY: the counts lie inside the old and the new slack.
        unsafe {
            let end = self.0.add(first.size());
            if clear {
                let old = [0, 1, 4][(self.flag_bits(first) >> SLACK_SHIFT & 3) as usize];
                std::ptr::write_bytes(end.sub(old), 0, old);
            }
            match form {
                0 => {}
                1 => store(end.sub(1), 1, slack),
                _ => store(end.sub(4), 4, slack),
            }
            self.set_bits(first, 3 << SLACK_SHIFT, form << SLACK_SHIFT);
        }
    }

    /// Offset of the value in the object.
    #[inline]
    pub(crate) unsafe fn value_at(self, first: &First) -> usize {
        // SAFETY: the flags may be read under the lock.
        let form = unsafe { self.flag_bits(first) } >> EXPIRY_SHIFT & 3;
        first.rest_at() + rest_head(first.head & KIND) + EXPIRY_BYTES[form as usize]
    }

    /// The clock's 24 bits; 0 for what has none.
    #[inline]
    pub(crate) unsafe fn clock(self, first: &First) -> u32 {
        if first.head & KIND > LAST_KEY {
            return 0;
        }
        // SAFETY: key kinds have three bytes of clock behind the flags.
        unsafe { self.number(first.rest_at() + 1, 3) as u32 }
    }

    #[inline]
    pub(crate) unsafe fn set_clock(self, first: &First, clock: u32) {
        if first.head & KIND <= LAST_KEY {
            // SAFETY: as `clock`, under the lock.
            unsafe { store(self.0.add(first.rest_at() + 1), 3, clock as usize) }
        }
    }

    #[inline]
    pub(crate) unsafe fn tag(self, first: &First) -> ObjectTag {
        // SAFETY: the flags may be read under the lock.
        ObjectTag::new(unsafe { self.flag_bits(first) } >> TAG_SHIFT & 3)
    }

    #[inline]
    pub(crate) unsafe fn set_tag(self, first: &First, tag: ObjectTag) {
        // SAFETY: under the lock.
        unsafe { self.set_bits(first, 3 << TAG_SHIFT, tag.bits() << TAG_SHIFT) }
    }

    #[inline]
    pub(crate) unsafe fn saved(self, first: &First) -> bool {
        // SAFETY: the flags may be read under the lock.
        unsafe { self.flag_bits(first) & SAVED != 0 }
    }

    #[inline]
    pub(crate) unsafe fn set_saved(self, first: &First, saved: bool) {
        // SAFETY: under the lock.
        unsafe { self.set_bits(first, SAVED, if saved { SAVED } else { 0 }) }
    }

    #[inline]
    pub(crate) unsafe fn expiry_ms(self, first: &First) -> Option<i64> {
        // SAFETY: the form says how many bytes of expiry stand behind the clock.
        unsafe {
            let form = self.flag_bits(first) >> EXPIRY_SHIFT & 3;
            if form == EXPIRY_NONE || form == EXPIRY_PLACE {
                return None;
            }
            let at = first.rest_at() + rest_head(first.head & KIND);
            let low = self.number(at, 4) as u64;
            let width = EXPIRY_BYTES[form as usize] - 4;
            Some((low | (self.number(at + 4, width) as u64) << 32) as i64)
        }
    }

    /// Sets or removes the expiry in place, moving the value where the expiry's width changes. Answers how many bytes
    /// the slack lost (less than 0: gained), or None if it has not enough.
    pub(crate) unsafe fn set_expiry_ms(self, first: &First, expiry: Option<i64>) -> Option<isize> {
        // SAFETY: everything lies in the rest, which the caller holds locked; the slack bounds the move.
        unsafe {
            let old = self.flag_bits(first) >> EXPIRY_SHIFT & 3;
            let new = match expiry {
                None if old >= EXPIRY_EIGHT => EXPIRY_PLACE,
                None => EXPIRY_NONE,
                Some(_) if old >= EXPIRY_EIGHT => EXPIRY_EIGHT,
                Some(ms) => expiry_form(ms),
            };
            let grown = EXPIRY_BYTES[new as usize] as isize - EXPIRY_BYTES[old as usize] as isize;
            let slack = self.slack(first);
            if grown > slack as isize {
                return None;
            }
            if grown != 0 {
                let from = self.value_at(first);
                let len = first.size() - slack - from;
                std::ptr::copy(self.0.add(from), self.0.offset(from as isize + grown), len);
                self.set_slack(first, (slack as isize - grown) as usize, false);
            }
            self.set_bits(first, 3 << EXPIRY_SHIFT, new << EXPIRY_SHIFT);
            if let Some(ms) = expiry {
                write_expiry(self.0.add(first.rest_at() + rest_head(first.head & KIND)), new, ms);
            }
            Some(grown)
        }
    }
}

#[inline]
fn expiry_form(ms: i64) -> u8 {
    if (0..1 << 48).contains(&ms) { EXPIRY_SIX } else { EXPIRY_EIGHT }
}

#[inline]
unsafe fn write_expiry(at: *mut u8, form: u8, ms: i64) {
    debug_assert!(
        form == EXPIRY_EIGHT || (form == EXPIRY_SIX && expiry_form(ms) == EXPIRY_SIX),
        "{ms} ms in form {form}"
    );
    // SAFETY: the caller owns the bytes of this form.
    unsafe {
        store(at, 4, ms as usize);
        store(at.add(4), EXPIRY_BYTES[form as usize] - 4, (ms as u64 >> 32) as usize);
    }
}

/// The sizes of an object that is about to be written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    head: u8,
    flags: u8,
    key_at: usize,
    /// Bytes before the rest.
    first: usize,
    /// Bytes of the rest.
    room: usize,
    pub(crate) slack: usize,
}

impl Plan {
    /// For an object with exactly the room it asks for.
    #[inline]
    pub(crate) fn new(o: &NewObject<'_>) -> Plan {
        Plan::with_expiry(o, Plan::expiry_bits(o), None)
    }

    /// For an object alone in an extent, which gets every byte up to `capacity`, but for a bare part, which has no room.
    pub(crate) fn filling(o: &NewObject<'_>, capacity: usize) -> Plan {
        if o.kind == ObjectKind::BARE {
            return Plan::new(o);
        }
        let expiry = if o.expiry_ms.is_some() { EXPIRY_EIGHT } else { EXPIRY_PLACE };
        Plan::with_expiry(o, expiry, Some(capacity))
    }

    /// Bytes between an object's begin and its value, in an extent.
    pub(crate) fn extent_front(o: &NewObject<'_>) -> usize {
        let plan = Plan::filling(o, u32::MAX as usize);
        plan.first + rest_head(plan.head & KIND) + EXPIRY_BYTES[(plan.flags >> EXPIRY_SHIFT & 3) as usize]
    }

    /// Bytes of an object's first part, in an extent.
    pub(crate) fn extent_first(o: &NewObject<'_>) -> usize {
        Plan::filling(o, u32::MAX as usize).first
    }

    #[inline(always)]
    fn expiry_bits(o: &NewObject<'_>) -> u8 {
        match o.expiry_ms {
            None if o.room < PLACE_FROM || !o.kind.is_key() => EXPIRY_NONE,
            None => EXPIRY_PLACE,
            Some(_) if o.room >= PLACE_FROM => EXPIRY_EIGHT,
            Some(ms) => expiry_form(ms),
        }
    }

    #[inline(always)]
    fn with_expiry(o: &NewObject<'_>, expiry: u8, capacity: Option<usize>) -> Plan {
        let value = o.value.len();
        assert!(value <= o.room, "a value of {value} bytes in a room of {}", o.room);
        assert!(o.key.len() <= u32::MAX as usize, "a key of {} bytes", o.key.len());
        let kind = o.kind.bits();
        let (owned, owner_bytes) = match o.owner {
            Owner::Database(0) => (0, 0),
            Owner::Database(_) => (OWNED, 2),
            Owner::Collection(0..=0xffff) => (0, 2),
            Owner::Collection(_) => (OWNED, 4),
        };
        debug_assert!(o.kind.is_key() == matches!(o.owner, Owner::Database(_)), "{:?} of {:?}", o.kind, o.owner);
        let (long, key_bytes) = if o.key.len() <= 255 { (0, 1) } else { (LONG, 4) };
        let before = rest_head(kind) + EXPIRY_BYTES[expiry as usize];
        let fixed = 1 + owner_bytes + key_bytes + o.key.len();
        let (room, width) = match capacity {
            None if kind == BARE => {
                assert!(o.room == 0 && o.expiry_ms.is_none(), "a bare part has neither value nor expiry");
                (1, 0)
            }
            None => (before + o.room, width_of(before + o.room)),
            Some(capacity) => ((capacity - fixed - 4).min(u32::MAX as usize), 4),
        };
        debug_assert!(before + o.room <= room, "an object of a rest of {} in {room} bytes", before + o.room);
        let slack = room - before - value;
        Plan {
            head: owned | long | (width.max(1) as u8 - 1) << ROOM_SHIFT | kind,
            flags: u8::from(o.saved) << SAVED_SHIFT
                | o.tag.bits() << TAG_SHIFT
                | expiry << EXPIRY_SHIFT
                | slack_form(slack) << SLACK_SHIFT,
            key_at: 1 + owner_bytes + key_bytes + width,
            first: fixed + width,
            room,
            slack,
        }
    }

    /// Bytes of the object.
    #[inline(always)]
    pub(crate) fn size(&self) -> usize {
        self.first + self.room
    }

    /// Writes the object, but for the value's zeros if `fresh` says that they are there already.
    #[inline]
    pub(crate) unsafe fn write(&self, at: *mut u8, o: &NewObject<'_>, fresh: bool) {
        // SAFETY: the caller owns `size()` bytes at `at`, and the plan was made for this object.
        unsafe {
            let value = self.write_head(at, o);
            match o.value {
                NewValue::Bytes(bytes) => std::ptr::copy_nonoverlapping(bytes.as_ptr(), value, bytes.len()),
                NewValue::Patched { old, at, part } => {
                    let head = old.len().min(at);
                    std::ptr::copy_nonoverlapping(old.as_ptr(), value, head);
                    if !fresh {
                        std::ptr::write_bytes(value.add(head), 0, at - head);
                    }
                    std::ptr::copy_nonoverlapping(part.as_ptr(), value.add(at), part.len());
                    let tail = old.get(at + part.len()..).unwrap_or_default();
                    std::ptr::copy_nonoverlapping(tail.as_ptr(), value.add(at + part.len()), tail.len());
                }
                NewValue::Zeroed(len) if !fresh => std::ptr::write_bytes(value, 0, len),
                NewValue::Zeroed(_) | NewValue::Stale(_) => {}
            }
        }
    }

    /// Writes the first part alone.
    #[inline(always)]
    pub(crate) unsafe fn write_first(&self, at: *mut u8, o: &NewObject<'_>) {
        // SAFETY: as `write`.
        unsafe {
            at.write(self.head);
            let mut to = at.add(1);
            match o.owner {
                Owner::Database(0) => {}
                Owner::Database(number) => {
                    store(to, 2, number as usize);
                    to = to.add(2);
                }
                Owner::Collection(number) => {
                    let width = owner_bytes(self.head);
                    store(to, width, number as usize);
                    to = to.add(width);
                }
            }
            let key_width = if self.head & LONG == 0 { 1 } else { 4 };
            store(to, key_width, o.key.len());
            if self.head & KIND != BARE {
                store(to.add(key_width), ((self.head >> ROOM_SHIFT) & 3) as usize + 1, self.room);
            }
            std::ptr::copy_nonoverlapping(o.key.as_ptr(), at.add(self.key_at), o.key.len());
        }
    }

    /// Writes all but the value, and answers where the value goes.
    #[inline(always)]
    pub(crate) unsafe fn write_head(&self, at: *mut u8, o: &NewObject<'_>) -> *mut u8 {
        // SAFETY: as `write`.
        unsafe {
            self.write_first(at, o);
            let mut to = at.add(self.first);
            AtomicU8::from_ptr(to).store(self.flags, Ordering::Relaxed);
            to = to.add(1);
            if o.kind.is_key() {
                store(to, 3, o.clock as usize);
                to = to.add(3);
            }
            let expiry = self.flags >> EXPIRY_SHIFT & 3;
            if let Some(ms) = o.expiry_ms {
                write_expiry(to, expiry, ms);
            }
            debug_assert!(
                self.first + rest_head(o.kind.bits()) + self.slack <= self.size(),
                "the slack lies in the rest"
            );
            let end = at.add(self.size());
            match self.slack {
                0 => {}
                1..=255 => store(end.sub(1), 1, self.slack),
                _ => store(end.sub(4), 4, self.slack),
            }
            to.add(EXPIRY_BYTES[expiry as usize])
        }
    }
}

#[cfg(test)]
#[path = "layout_tests.rs"]
mod tests;
