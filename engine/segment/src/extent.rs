//! Large objects: each alone in an extent of whole segments, never moved, growing in place, freed in steps.
//!
//! ```text
//! segment n          n+1                n+2                n+3
//! +----------------------------------------------------------------------------+
//! | first part, key, rest: value ............ | never touched: zero      slack |
//! +----------------------------------------------------------------------------+
//! start                                    fill: the furthest that the value has reached
//!
//! begun, its key not known yet:
//! | front room, never touched | value ....>   |                                |
//!                    adopted: head, key, rest up to the value's first byte
//!                  <- renamed: another first part, which ends where the old one did
//! ```
//!
//! Counted as used: from `start` to `fill`, to the byte; the page that holds the slack's count is not. Addresses cost
//! nothing: a value that came from a socket gets twice what it needs, and an object whose room is more than its value as
//! much as the largest values need, so that what grows is copied once and not each time it has doubled. Where addresses
//! run short it is less. Between `fill` and the slack's count all bytes are zero, so growing does not touch them.
//!
//! A value that comes from a socket is counted as it comes: `OpenExtent` is filled, `FilledExtent` can be read and adopted, and
//! either dropped gives the extent back.
//!
//! Of each block of 1/64 segment it is known whether it was ever written (`written`): the pages of the others have no memory, and a
//! copy leaves them out.
//!
//! A pin keeps an extent's bytes readable without the lock (`pin`). If the object dies meanwhile, its memory is not released.
//!
//! A new name rewrites nothing but the first part: flags, clock, expiry and value stay where they are. Only a thread that has the
//! shards of both names locked may do it; reclaim, which reads first parts without locks, does not walk extents, and pins
//! read values alone.

use std::ops::{Deref, Range};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use varve_base::Ref;
use varve_base::mem::PAGE_BYTES;

use crate::kind::{NewObject, NewValue, ObjectKind, Owner};
use crate::layout::{OVERHEAD_MAX, Plan};
use crate::log::{Log, LogShared};
use crate::object::Access;
use crate::pin::{Pin, WholePin};
use crate::releases::Release;
use crate::space::exhausted;
use crate::table::{Live, SegmentEntry, SegmentState};

/// Addresses before the value of an extent, for its head and for longer names than its first. A value that gets a key of
/// more bytes is copied.
const FRONT_MAX: usize = 64 << 10;

/// An extent that is not yet, or not any more, somebody's: dropped, it is given back.
#[derive(Debug)]
struct Owned {
    shared: Arc<LogShared>,
    segment: u32,
    /// Offset of the value in the extent, and its length.
    front: usize,
    len: usize,
    adopted: AtomicBool,
}

impl Owned {
    /// Offset of the value in the range.
    fn at(&self) -> usize {
        self.segment as usize * self.shared.memory.geometry.segment_bytes + self.front
    }
}

impl Drop for Owned {
    fn drop(&mut self) {
        if !*self.adopted.get_mut() {
            self.shared.retire(self.segment);
        }
    }
}

/// An extent that is being filled, before its object exists. Dropped, it is given back.
#[derive(Debug)]
pub struct OpenExtent {
    extent: Owned,
    filled: usize,
}

impl OpenExtent {
    /// Bytes of the value.
    #[allow(clippy::len_without_is_empty, reason = "an extent is never empty")]
    pub fn len(&self) -> usize {
        self.extent.len
    }

    /// How many of them are there.
    pub fn filled(&self) -> usize {
        self.filled
    }

    /// The bytes that are missing, zero at first; pass to `advance` how many were written.
    pub fn rest(&mut self) -> &mut [u8] {
        // SAFETY: the extent belongs to this value alone, and what lies at `filled` and behind was shown to nobody else.
        unsafe {
            let begin = self.extent.shared.memory.mapping.base().add(self.extent.at() + self.filled);
            std::slice::from_raw_parts_mut(begin, self.extent.len - self.filled)
        }
    }

    /// `count` bytes more are there, and count as used from now on.
    pub fn advance(&mut self, count: usize) {
        let at = self.extent.at() + self.filled;
        self.skip(count);
        self.extent.shared.memory.mark_written(at..at + count);
    }

    /// `count` bytes more are there, which nobody has written: they are zero. They count as used like others.
    pub fn skip(&mut self, count: usize) {
        assert!(
            count <= self.extent.len - self.filled,
            "{count} bytes more than {} of {}",
            self.filled,
            self.extent.len
        );
        self.filled += count;
        let entry = self.extent.shared.memory.table.entry(self.extent.segment);
        entry.fill.store((self.extent.front + self.filled) as u64, Ordering::Relaxed);
        self.extent.shared.memory.count_extent(entry, count as u64);
    }

    /// The filled extent, to be read and adopted. Panics if bytes are missing.
    pub fn finish(self) -> FilledExtent {
        let OpenExtent { extent, filled } = self;
        assert!(filled == extent.len, "{filled} of {} bytes are there", extent.len);
        let pin = WholePin::new(&extent.shared, extent.segment, extent.at(), extent.len);
        FilledExtent { pin, extent }
    }
}

/// A value in an extent without a key: it can be read, and be made an object once, which it then keeps pinned. Dropped
/// without that, it is given back.
#[derive(Debug)]
pub struct FilledExtent {
    // Dropped first: the pin ends before the extent is retired.
    pin: WholePin,
    extent: Owned,
}

impl FilledExtent {
    /// Keeps the value readable whatever becomes of it.
    pub fn pin(&self) -> WholePin {
        self.pin.clone()
    }
}

impl Deref for FilledExtent {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.pin
    }
}

/// The addresses that an extent would have.
#[derive(Clone, Copy, Debug)]
struct Wish {
    bytes: usize,
    /// It is given up if more than one part in this number of all segments would be taken.
    part: usize,
    /// The object begins so that its `bytes` end where the extent does, if its first segment allows it.
    late: bool,
}

/// Bytes for the slack's count behind a value of the largest size; a multiple of a cache line, in which the value then begins.
const COUNT_ROOM: usize = 64;

impl LogShared {
    /// Addresses before a value, see `FRONT_MAX`.
    fn front_max(&self) -> usize {
        FRONT_MAX.min(self.memory.geometry.segment_bytes / 4)
    }

    /// Takes segments for `bytes` of an object, of which the first `counted` count as used, behind `front` bytes. None if more than
    /// one part in `wish.part` of all segments would then have been taken, or there is no room.
    fn begin_extent(&self, front: usize, wish: Wish, counted: usize) -> Option<(u32, usize)> {
        let Wish { bytes, part, late } = wish;
        assert!(counted <= bytes, "{counted} of {bytes} bytes");
        let segment_bytes = self.memory.geometry.segment_bytes;
        let count = (front + bytes + 1).div_ceil(segment_bytes) as u32;
        let mut space = self.space.lock();
        let left = space.ids.in_middle().saturating_sub(count) as usize;
        let all = self.memory.geometry.reserve_bytes / segment_bytes;
        if part > 1 && all - left > all / part {
            return None;
        }
        let segment = space.take_empty(&self.memory, count)?;
        // No Ref may be 0.
        let start = match late {
            true => (count as usize * segment_bytes - bytes).min(segment_bytes - 1),
            false if segment == 0 => front.max(1),
            false => front,
        };
        assert!(start < segment_bytes, "an object begins at {start} of its first segment");
        for tail in segment + 1..segment + count {
            self.memory.table.entry(tail).begin_tail();
        }
        let entry = self.memory.table.entry(segment);
        entry.begin_extent(count, start as u64, start as u64, self.memory.age());
        self.memory.count_extent(entry, counted as u64);
        entry.fill.store((start + counted) as u64, Ordering::Relaxed);
        Some((segment, start))
    }

    /// Writes a value into an extent at an offset in the range of addresses.
    ///
    /// # Safety
    /// The extent is the caller's alone, its memory is zero, and the value fits.
    unsafe fn fill_value(&self, at: usize, value: &NewValue<'_>) {
        // SAFETY: passed on to the caller.
        unsafe {
            match *value {
                NewValue::Bytes(bytes) => self.copy_written(at, bytes, 0..bytes.len()),
                NewValue::Patched { old, at: from, part } => {
                    self.copy_written(at, old, 0..from.min(old.len()));
                    self.copy_written(at + from, part, 0..part.len());
                    self.copy_written(at, old, from + part.len()..old.len());
                }
                NewValue::Zeroed(_) | NewValue::Stale(_) => {}
            }
        }
    }

    /// Copies a range of `bytes` into an extent in which they begin at an offset in the range of addresses, but for what was never
    /// written of another extent.
    ///
    /// # Safety
    /// The rules of `fill_value` hold: the extent at `at` has room for all of `bytes`, and is not the one in which they lie.
    unsafe fn copy_written(&self, at: usize, bytes: &[u8], range: Range<usize>) {
        let mut done = range.start;
        while done < range.end {
            let some = self.memory.next_written(&bytes[..range.end], done);
            debug_assert!(some.start >= done && some.end > done, "{some:?} of {range:?} comes next behind {done}");
            self.memory.mark_written(at + some.start..at + some.end);
            let from = &bytes[some.clone()];
            // SAFETY: the caller's extent has room for all of `bytes`, and is none in which they lie.
            unsafe {
                let to = self.memory.mapping.base().add(at + some.start);
                std::ptr::copy_nonoverlapping(from.as_ptr(), to, from.len());
            }
            done = some.end;
        }
    }

    fn free_extent(&self, segment: u32, entry: &SegmentEntry) {
        let count = entry.extent_len.load(Ordering::Relaxed);
        let mut space = self.space.lock();
        entry.free_extent();
        for tail in segment + 1..segment + count {
            self.memory.table.entry(tail).free_tail();
        }
        space.give_empty(&self.memory, segment, count);
    }
}

impl Log {
    /// Writes an object into an extent of its own.
    pub(crate) fn append_extent(&self, o: &NewObject<'_>) -> Ref {
        let shared = &self.shared;
        let need = OVERHEAD_MAX + o.key.len() + o.room;
        // An extent's rest has a length of 32 bits, and ends where its last segment does.
        let most = u32::MAX as usize - 2 * shared.memory.geometry.segment_bytes - FRONT_MAX;
        assert!(need <= most, "an object of {need} bytes");
        let value_at = Plan::extent_front(o);
        let used = value_at + o.value.len();
        let front = shared.front_max().saturating_sub(value_at);
        let (twice, growing) = ((2 * need).min(most), shared.memory.geometry.growing_bytes());
        // A value of the largest size ends in the page of the slack's count: it has one page less.
        let largest = match o.value.len() <= growing {
            true => Wish { bytes: value_at + growing + COUNT_ROOM, part: 4, late: true },
            false => Wish { bytes: twice, part: 4, late: false },
        };
        let (twice, least) = (Wish { bytes: twice, part: 2, late: false }, Wish { bytes: need, part: 1, late: false });
        let wishes = [largest, twice, least];
        let wishes = if o.room > o.value.len() { &wishes[..] } else { &wishes[2..] };
        let begun = wishes.iter().find_map(|&wish| shared.begin_extent(front, wish, used));
        let (segment, start) = begun.unwrap_or_else(|| exhausted(&shared.memory));
        let o = &NewObject { room: o.room.min(growing.max(o.value.len())), ..*o };
        let entry = shared.memory.table.entry(segment);
        let bytes = entry.extent_len.load(Ordering::Relaxed) as usize * shared.memory.geometry.segment_bytes;
        let plan = Plan::filling(o, bytes - start);
        assert!(start + plan.size() <= bytes, "an object of {} bytes at {start} of {bytes}", plan.size());
        let at = segment as usize * shared.memory.geometry.segment_bytes + start;
        entry.add_live(Live::new(1, (plan.size() - plan.slack) as u64));
        // SAFETY: the extent is ours alone until its Ref is published; its memory is fresh and zero; `start` is not 0 in
        // the first segment.
        unsafe {
            let r = Ref::from_bits(at as u64);
            plan.write_head(self.place(r).0, o);
            shared.fill_value(at + value_at, &o.value);
            r
        }
    }

    /// An extent for a value of `len` bytes whose key is not known yet, to be filled straight from where it comes from.
    /// The filled bytes count as used. None if too many addresses are taken already: values that may never come take no more
    /// then. Panics if `len` is not more than `extent_min_bytes`, or more than 1 GB.
    pub fn begin_extent(&self, len: usize) -> Option<OpenExtent> {
        let shared = &self.shared;
        assert!(self.is_extent_size(len) && len <= 1 << 30, "an extent for a value of {len} bytes");
        let wish = Wish { bytes: 2 * len, part: 2, late: false };
        let (segment, front) = shared.begin_extent(shared.front_max(), wish, 0)?;
        let extent = Owned { shared: shared.clone(), segment, front, len, adopted: AtomicBool::new(false) };
        Some(OpenExtent { extent, filled: 0 })
    }

    /// Keeps the value of an object in an extent readable as it is now without the lock, by ranges. None if the object is no such:
    /// copy its value.
    pub fn pin(&self, access: &Access, r: Ref) -> Option<Pin> {
        let object = access.open(self, r);
        if !self.is_extent_size(object.bytes()) {
            return None;
        }
        let value = object.value();
        assert!(
            self.entry(r).state() == SegmentState::Extent,
            "an object of an extent's size lies in a segment of others"
        );
        let at = value.as_ptr() as usize - self.shared.memory.mapping.base() as usize;
        Some(Pin::new(&self.shared, self.segment(r), at, value.len()))
    }

    /// True if somebody reads the value of an object through a pin: dead, it keeps its memory until the last pin goes.
    pub fn is_pinned(&self, access: &Access, r: Ref) -> bool {
        self.is_extent_size(access.open(self, r).bytes()) && self.pinned(r)
    }

    /// Gives the object in an extent another key and owner, where it lies; answers its new place, the old Ref is not to be
    /// used any more. None, and nothing has changed, if it is not in an extent, is a bare part, or the key is too long for the
    /// room before it: write a new object. The caller holds the locks of both keys' shards; from now on the new key's
    /// opens it.
    pub fn rename(&self, access: &mut Access, r: Ref, owner: Owner, key: &[u8]) -> Option<Ref> {
        let object = access.open(self, r);
        // A bare part in an extent would no longer have an extent's size with a shorter key.
        if !self.is_extent_size(object.bytes()) || object.kind() == ObjectKind::BARE {
            return None;
        }
        let (shared, entry) = (&self.shared, self.entry(r));
        // Only the first part is written: the rest of the object stays where it is.
        let o =
            NewObject { owner, key, value: NewValue::Zeroed(0), room: 0, expiry_ms: None, ..NewObject::like(&object) };
        // SAFETY: the access opens it.
        let old = unsafe { self.place(r).first() };
        let first = Plan::extent_first(&o);
        let start = (self.offset(r) + old.rest_at()).checked_sub(first)?;
        let base = r.bits() as usize - self.offset(r);
        if base + start == 0 || start >= shared.memory.geometry.segment_bytes {
            return None;
        }
        let plan = Plan::filling(&o, self.offset(r) + old.size() - start);
        assert!(plan.size() + start == self.offset(r) + old.size(), "an object ends where it ended under its old name");
        let grown = first as i64 - old.rest_at() as i64;
        entry.start.store(start as u64, Ordering::Relaxed);
        self.live_changed(r, grown, true);
        if grown >= 0 {
            shared.memory.count_extent(entry, grown as u64);
        } else {
            shared.memory.uncount_extent(entry, grown.unsigned_abs());
        }
        // SAFETY: the bytes from `start` to the rest are the extent's front and its old first part, which are read only
        // under the lock of its shard; the rest stays as it is.
        unsafe {
            let new = Ref::from_bits((base + start) as u64);
            plan.write_first(self.place(new).0, &o);
            Some(new)
        }
    }

    /// True if the memory of dead extents waits to be released, or a clearing to be settled. One relaxed load: every turn of
    /// every worker asks.
    #[inline]
    pub fn owes_release(&self) -> bool {
        self.shared.memory.releasing() > 0
    }

    /// Settles some of a clearing, or releases up to `bytes` (at least one release unit) of dead extents that are not pinned.
    /// True while more is left.
    #[inline]
    pub fn release_step(&self, bytes: usize) -> bool {
        self.owes_release() && self.release_some_bytes(bytes)
    }

    #[cold]
    fn release_some_bytes(&self, bytes: usize) -> bool {
        let shared = &self.shared;
        if self.settle_clearing() {
            return true;
        }
        let mut left = bytes.max(1);
        left = left.saturating_sub(shared.release_old(left));
        if left == 0 && shared.has_freed_old() {
            return true;
        }
        loop {
            let mut queue = shared.releases.lock();
            let ready =
                |release: &Release| shared.memory.table.entry(release.segment).pins.load(Ordering::Acquire) == 0;
            let Some(found) = queue.find(ready) else { return false };
            if left == 0 {
                return true;
            }
            let mut release = queue.take(found);
            drop(queue);
            let entry = shared.memory.table.entry(release.segment);
            while left > 0 && release.done < release.end {
                left = left.saturating_sub(self.release_some(&mut release, entry));
            }
            if release.done < release.end {
                shared.releases.lock().put_back(release);
            } else {
                self.finish_release(&release, entry);
            }
        }
    }

    /// Releases one unit; answers its bytes.
    fn release_some(&self, release: &mut Release, entry: &SegmentEntry) -> usize {
        let shared = &self.shared;
        let base = release.segment as usize * shared.memory.geometry.segment_bytes;
        let to = (release.done + shared.memory.geometry.release_bytes).min(release.end.next_multiple_of(PAGE_BYTES));
        // SAFETY: the object is dead, so no Ref leads here, and there are no pins and can be no new ones.
        unsafe { shared.memory.mapping.release(base + release.done..base + to) };
        let start = entry.start.load(Ordering::Relaxed) as usize;
        let counted = to.min(release.end).saturating_sub(release.done.max(start));
        shared.memory.uncount_extent(entry, counted as u64);
        let bytes = to - release.done;
        release.done = to;
        bytes
    }

    fn finish_release(&self, release: &Release, entry: &SegmentEntry) {
        let shared = &self.shared;
        let count = entry.extent_len.load(Ordering::Relaxed) as usize;
        let end = (release.segment as usize + count) * shared.memory.geometry.segment_bytes;
        assert!(release.done >= release.end, "an extent is freed before its memory is released");
        // SAFETY: as in `release_some`; this is the page of the slack's count.
        unsafe { shared.memory.mapping.release(end - PAGE_BYTES..end) };
        shared.free_extent(release.segment, entry);
        shared.memory.end_releasing();
    }
}

impl Log {
    /// Makes an object of a filled extent: `o.value` and `o.room` do not count, the value is the extent's. None, and nothing
    /// has changed, if the key is too long for the front room or if the extent has become an object already.
    pub(crate) fn adopt(&self, filled: &FilledExtent, o: &NewObject<'_>) -> Option<Ref> {
        let extent = &filled.extent;
        let shared = &extent.shared;
        assert!(Arc::ptr_eq(shared, &self.shared), "an extent of another log");
        let o = NewObject { value: NewValue::Zeroed(extent.len), room: extent.len, ..*o };
        let before = Plan::extent_front(&o);
        let base = extent.segment as usize * shared.memory.geometry.segment_bytes;
        let start = extent.front.checked_sub(before).filter(|start| base + start > 0)?;
        if extent.adopted.swap(true, Ordering::Relaxed) {
            return None;
        }
        let entry = shared.memory.table.entry(extent.segment);
        entry.start.store(start as u64, Ordering::Relaxed);
        shared.memory.count_extent(entry, before as u64);
        let bytes = entry.extent_len.load(Ordering::Relaxed) as usize * shared.memory.geometry.segment_bytes;
        let plan = Plan::filling(&o, bytes - start);
        assert!(start + plan.size() <= bytes, "an object of {} bytes at {start} of {bytes}", plan.size());
        if entry.age() != shared.memory.age() {
            // Begun before a clearing, which must not find that it lives before it finds that it is of this age.
            let _space = shared.space.lock();
            entry.set_age(shared.memory.age());
        }
        assert!(entry.live() == Live::new(0, 0), "extent {} is adopted twice", extent.segment);
        entry.add_live(Live::new(1, (plan.size() - plan.slack) as u64));
        // SAFETY: the extent is ours alone until its Ref is published; the head ends where the value begins.
        unsafe {
            let r = Ref::from_bits((base + start) as u64);
            let value = plan.write_head(self.place(r).0, &o);
            debug_assert!(value == self.place(r).0.add(before));
            Some(r)
        }
    }
}
