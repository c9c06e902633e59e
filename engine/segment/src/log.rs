//! The log: the range, the table and the accounting, joined.
//!
//! `Log` is a handle; its clones share one log. The work is elsewhere: writing in `append`, large objects in `extent`,
//! moving out in `reclaim`, checking in `verify`.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::Thread;

use varve_base::Ref;
use varve_base::mem::{Line, Mapping};

use crate::fullness::rung_of;
use crate::geometry::LogGeometry;
use crate::kept::{Kept, OldBytes};
use crate::kind::SegmentClass;
use crate::layout::ObjectPtr;
use crate::leaf_lock::LeafLock;
use crate::memory::{HUGE_PAGE_BYTES, LogMemory, SMALL_PAGES_BELOW};
use crate::releases::Releases;
use crate::space::{Piece, Space};
use crate::table::{Granules, Live, SegmentEntry, SegmentState};

/// The part that all handles share. Lock order: its locks and those of the pins on an extent are leaves; a thread that holds
/// one of them takes no other lock.
#[derive(Debug)]
pub(crate) struct LogShared {
    pub(crate) memory: LogMemory,
    pub(crate) space: LeafLock<Space>,
    pub(crate) releases: LeafLock<Releases>,
    /// The pins on each extent that has some, by its first segment.
    pub(crate) pinned: LeafLock<HashMap<u32, Arc<LeafLock<Kept>>>>,
    /// Blocks that were kept for pins, and that nobody needs any more.
    pub(crate) freed_old: LeafLock<Vec<Arc<OldBytes>>>,
}

impl LogShared {
    /// Some of a segment has died, and its live bytes are another number of granules now. It may be free and in use again by
    /// now: then this files it where it belongs, which does no harm.
    #[cold]
    fn fall(&self, segment: u32, before: Live, after: Live) {
        self.memory.count_granules(before, after);
        let entry = self.memory.table.entry(segment);
        let used = entry.used.load(Ordering::Relaxed);
        let rung = |live: Live| {
            let granules = self.memory.granules;
            rung_of(granules.bytes(granules.count(live)), used)
        };
        if rung(before) != rung(after) {
            self.space.lock().file(&self.memory, segment, entry);
        }
    }

    /// Queues the memory of an extent that nobody can find any more.
    pub(crate) fn retire(&self, segment: u32) {
        let entry = self.memory.table.entry(segment);
        entry.retire();
        let end = entry.fill.load(Ordering::Relaxed) as usize;
        self.memory.add_releasing(1);
        self.releases.lock().push(segment, end);
    }
}

/// The segment log. Clones are handles on the same log.
#[derive(Clone, Debug)]
pub struct Log {
    base: *mut u8,
    segment_shift: u32,
    run_min: usize,
    granules: Granules,
    /// See `LogGeometry::spare_segments`.
    spare: u32,
    pub(crate) shared: Arc<LogShared>,
}

// SAFETY: the pointer is the base of the mapping that `shared` keeps; what lies behind it is shared by the rules on the
// crate's page.
unsafe impl Send for Log {}
// SAFETY: as above.
unsafe impl Sync for Log {}

/// One segment, for statistics and for the choice of a victim. Bytes and objects are exact when all appenders have
/// parked; before, pieces that are out count as live whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentInfo {
    /// Its number.
    pub segment: u32,
    /// Its state.
    pub state: SegmentState,
    /// The class of the objects that it takes; `Ordinary` for extents.
    pub class: SegmentClass,
    /// Bytes appended and not yet drained.
    pub used: u64,
    /// Bytes of objects that live.
    pub live_bytes: u64,
    /// Objects that live.
    pub live_objects: u64,
    /// How many segments had been sealed when it was; of an open one, how many have been by now.
    pub sealed: u64,
    /// Segments sealed since it was.
    pub age: u64,
    /// Pins on an extent.
    pub pins: u32,
}

/// The log in figures. Bytes are exact when all appenders have parked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogStats {
    /// Bytes appended and not yet drained: `Log::used_bytes`.
    pub used_bytes: u64,
    /// Bytes of objects that live.
    pub live_bytes: u64,
    /// Objects that live.
    pub live_objects: u64,
    /// Segments that are open, sealed or draining.
    pub segments: u32,
    /// Of these, open.
    pub open_segments: u32,
    /// Of these, sealed.
    pub sealed_segments: u32,
    /// Of these, draining.
    pub draining_segments: u32,
    /// Open, sealed and draining segments by utilisation: live over used bytes, in tenths.
    pub tenths: [u64; TENTHS],
    /// Open, sealed and draining segments by class, in the order of [`SegmentClass`].
    pub classes: [u32; SegmentClass::ALL.len()],
    /// Large objects in segments of their own.
    pub runs: u32,
    /// Of these, such that died and are given back in steps.
    pub retired_runs: u32,
    /// Bytes of large objects.
    pub run_bytes: u64,
    /// Of these, of those that died.
    pub retired_bytes: u64,
    /// Bytes of their blocks that were written while somebody read them, as they were before; beside `run_bytes`.
    pub kept_bytes: u64,
    /// Segments that those take.
    pub extent_segments: u32,
    /// Free segments among those in use, the middle of the range left out.
    pub free_segments: u32,
    /// Bytes of the reserved range that are open for use.
    pub opened_bytes: u64,
    /// Bytes of memory that are kept for new segments: resident, beyond those in use.
    pub cached_bytes: u64,
    /// Bytes of memory of the segment table.
    pub table_bytes: u64,
    /// Areas of two megabytes that [`Log::populate_ahead`] has put memory behind before an append came to them, and too late.
    pub made_ahead: (u64, u64),
}

/// Classes of segments by utilisation.
const TENTHS: usize = 10;
/// Segments that a report looks at in one hold of the lock: some ten microseconds.
const SEGMENTS_AT_ONCE: usize = 512;

impl LogStats {
    /// Counts a segment, of an extent the first one of `count`.
    fn count(&mut self, info: &SegmentInfo, count: u32) {
        self.live_bytes += info.live_bytes;
        self.live_objects += info.live_objects;
        match info.state {
            SegmentState::Open => self.open_segments += 1,
            SegmentState::Sealed => self.sealed_segments += 1,
            SegmentState::Draining => self.draining_segments += 1,
            SegmentState::Extent | SegmentState::Retired => {
                self.runs += 1;
                self.run_bytes += info.used;
                self.extent_segments += count;
                if info.state == SegmentState::Retired {
                    self.retired_runs += 1;
                    self.retired_bytes += info.used;
                }
                return;
            }
            SegmentState::Free | SegmentState::Tail => return,
        }
        self.segments += 1;
        self.classes[info.class as usize] += 1;
        // Pieces that are out count as live whole, and their bytes as used only later.
        let live_bytes = info.live_bytes.min(info.used);
        if let Some(tenth) = (live_bytes * TENTHS as u64).checked_div(info.used) {
            self.tenths[(tenth as usize).min(TENTHS - 1)] += 1;
        }
    }
}

impl Log {
    /// Reserves the range. Panics if the geometry makes no sense.
    pub fn new(geometry: LogGeometry) -> io::Result<Log> {
        geometry.check();
        let mapping = Mapping::reserve(geometry.reserve_bytes)?;
        if geometry.segment_bytes >= HUGE_PAGE_BYTES {
            // Objects are reached at random: with small pages nearly every one costs a walk of the page tables as well.
            // But for the first segments: see there.
            mapping.prefer_huge_pages(SMALL_PAGES_BELOW.min(mapping.len())..mapping.len(), true);
        }
        let base = mapping.base();
        let memory = LogMemory::new(mapping, geometry)?;
        // A system that gives no memory at all is known before the first write.
        let mut space = Space::new(&geometry);
        space.open_ahead(&memory);
        Ok(Log {
            base,
            granules: memory.granules,
            segment_shift: geometry.segment_bytes.trailing_zeros(),
            run_min: geometry.extent_min_bytes,
            spare: geometry.spare_segments(),
            shared: Arc::new(LogShared {
                memory,
                space: LeafLock::new(space),
                releases: LeafLock::new(Releases::default()),
                pinned: LeafLock::new(HashMap::new()),
                freed_old: LeafLock::new(Vec::new()),
            }),
        })
    }

    /// Leaves the objects out of core dumps of the process, or has them in those, as it is at first.
    ///
    /// # Errors
    /// The system's.
    pub fn set_in_core_dumps(&self, has: bool) -> io::Result<()> {
        self.shared.memory.mapping.set_in_core_dumps(has)
    }

    /// Objects of more bytes than this have an extent of their own.
    #[inline]
    pub fn extent_min_bytes(&self) -> usize {
        self.run_min
    }

    /// This number of appenders write at once. The piece that each of them parks is kept for it: else a burst that ends together
    /// would spend the pieces of most of them.
    pub fn expect_appenders(&self, count: usize) {
        self.shared.space.lock().expect_appenders(count);
    }

    /// The sizes that the log is cut by.
    pub fn geometry(&self) -> &LogGeometry {
        &self.shared.memory.geometry
    }

    /// Bytes appended and not yet drained, dead ones too, and fillers under a page. One relaxed load; what an appender
    /// holds and has not parked is missing, at most a piece a class.
    #[inline]
    pub fn used_bytes(&self) -> u64 {
        self.shared.memory.used_bytes()
    }

    /// Bytes appended so far by owners, what they relocated left out. Where it stands still nobody writes. One relaxed load;
    /// what an appender holds and has not parked is missing.
    #[inline]
    pub fn written_bytes(&self) -> u64 {
        self.shared.memory.written_bytes()
    }

    /// True if objects of `bytes` in all find addresses that the system has opened, each of them as large as it may be and
    /// rewritten in another place: an append that follows finds them. One relaxed load, unless few are left, an object may
    /// be large, or the system has refused memory.
    #[inline]
    pub fn has_addresses(&self, bytes: u64) -> bool {
        let plenty = self.shared.memory.ids_left() >= 2 * self.spare;
        (plenty && bytes <= self.run_min as u64) || self.finds_addresses(bytes)
    }

    #[cold]
    fn finds_addresses(&self, bytes: u64) -> bool {
        // Each run may begin a segment; a value that is moved may be as large as any.
        let (whole, spare) = ((bytes >> self.segment_shift) + 2, u64::from(self.spare));
        let all = spare + whole + 2 * bytes / self.run_min as u64;
        let mut space = self.shared.space.lock();
        space.ids.have(all, spare.max(whole)) && space.is_ready_for(&self.shared.memory, bytes, self.run_min as u64)
    }

    /// The system has refused memory for something that the owner needs for what it appends: `has_addresses` is false until it
    /// has some again.
    #[cold]
    pub fn refuse(&self) {
        self.shared.space.lock().refuse(&self.shared.memory);
    }

    /// From now on this thread is unparked when memory is wanted ahead of what is appended; it calls [`Log::populate_ahead`]
    /// then. Without such a thread an append waits for the system at each two megabytes.
    pub fn set_helper(&self, helper: Thread) {
        self.shared.memory.set_helper(helper);
    }

    /// Takes a piece, and wakes the thread that has memory put in place behind it, if that is wanted now.
    pub(crate) fn take_piece(&self, take: impl FnOnce(&mut Space, &LogMemory) -> Piece) -> Piece {
        let memory = &self.shared.memory;
        let mut space = self.shared.space.lock();
        let piece = take(&mut space, memory);
        let helper = space.take_wake(memory);
        drop(space);
        if let Some(helper) = helper {
            helper.unpark();
        }
        piece
    }

    /// Puts memory in place that an appender is going to come to; false if none is wanted. Takes milliseconds where the system
    /// has to find the memory, and holds no lock meanwhile.
    pub fn populate_ahead(&self) -> bool {
        let memory = &self.shared.memory;
        let Some(area) = self.shared.space.lock().take_wanted(memory) else { return false };
        // An appender may come here now, or the segment may be sealed, drained and an extent's by now: what is there does not
        // change.
        memory.mapping.touch(area.start as usize..area.end as usize);
        self.shared.space.lock().populated(memory, &area);
        true
    }

    /// Asks the system again if it has refused memory; to be called now and then.
    pub fn ask_again(&self) {
        if self.shared.memory.is_refused() {
            self.shared.space.lock().ask_again(&self.shared.memory);
        }
    }

    /// True if the system has refused memory when it was last asked.
    pub fn is_refused(&self) -> bool {
        self.shared.memory.is_refused()
    }

    /// Bytes of objects that live. Adds up all segments.
    pub fn live_bytes(&self) -> u64 {
        self.stats().live_bytes
    }

    /// Of the used bytes, those that no drain can free: what lives in segments, and extents whole; and of these, those of
    /// extents. Two loads. What lives is rounded up to 1/256 of each segment.
    pub fn unreclaimable_bytes(&self) -> (u64, u64) {
        let memory = &self.shared.memory;
        let extents = memory.extent_bytes();
        (memory.granules.bytes(memory.live_granules()) + extents, extents)
    }

    /// Fetches the first cache line of an object. A hint: no lock is needed.
    #[inline]
    pub fn prefetch(&self, r: Ref) {
        self.line(r).fetch();
    }

    /// Where an object begins, to be fetched.
    #[inline]
    pub fn line(&self, r: Ref) -> Line {
        Line::of(self.place(r).0)
    }

    /// The Ref whose bits an owner keeps in an object's value, where it takes six bytes. It is as if the owner had kept the Ref
    /// itself: rule 1 of the crate's page is his to uphold.
    ///
    /// # Panics
    /// If no Ref of this log has these bits.
    #[inline]
    pub fn recall(&self, bits: u64) -> Ref {
        assert!(bits != 0 && bits < self.shared.memory.geometry.reserve_bytes as u64, "bits {bits:#x} of no Ref");
        // SAFETY: the bits of a Ref that this log has given out, by the owner's word (rule 1), and in range.
        unsafe { Ref::from_bits(bits) }
    }

    /// Bytes of the reserved range that are open for use.
    pub fn opened_bytes(&self) -> u64 {
        self.shared.space.lock().opened(&self.shared.memory) as u64
    }

    /// The log in figures. Looks at all segments: for reports that somebody asks for by hand, and for checks. It is of one
    /// instant where nothing is written meanwhile.
    pub fn stats(&self) -> LogStats {
        let mut stats = {
            let space = self.shared.space.lock();
            LogStats {
                used_bytes: self.used_bytes(),
                kept_bytes: self.kept_bytes(),
                free_segments: space.ids.free_in_use(),
                opened_bytes: space.opened(&self.shared.memory) as u64,
                table_bytes: (self.shared.memory.table.bytes(space.ids.reached()) + space.fullness().bytes()) as u64,
                made_ahead: self.shared.memory.made_ahead(),
                cached_bytes: space.cached_segments().iter().map(|&id| self.cached_bytes_of(id)).sum(),
                ..LogStats::default()
            }
        };
        self.each_segment(|id, entry, seals| {
            stats.cached_bytes += self.cached_bytes_of(id);
            stats.count(&info(&self.shared.memory, id, seals), entry.extent_len.load(Ordering::Relaxed));
        });
        stats
    }

    /// Shows the segments in use, by number, and how many were sealed so far; of an extent the first segment. All segments of
    /// a large store are looked at for longer than an append may wait, so the lock is let go behind each
    /// [`SEGMENTS_AT_ONCE`].
    fn each_segment(&self, mut show: impl FnMut(u32, &SegmentEntry, u64)) {
        let mut next = Some(0);
        while let Some(from) = next.take() {
            let space = self.shared.space.lock();
            for (seen, (id, entry)) in space.segments(&self.shared.memory.table, from).enumerate() {
                if seen == SEGMENTS_AT_ONCE {
                    next = Some(id);
                    break;
                }
                show(id, entry, space.seals);
            }
        }
    }

    /// How many segments have been sealed so far: a segment's age is counted in these.
    pub fn seals(&self) -> u64 {
        self.shared.space.lock().seals
    }

    /// How many segments have been opened so far.
    pub fn opens(&self) -> u64 {
        self.shared.memory.opens()
    }

    /// True if memory is kept for segments to come.
    pub fn has_cached_pages(&self) -> bool {
        self.shared.memory.cached_units() > 0
    }

    /// All segments in use, by number; of an extent the first one.
    pub fn segments(&self) -> Vec<SegmentInfo> {
        let mut all = Vec::new();
        self.each_segment(|id, _, seals| all.push(info(&self.shared.memory, id, seals)));
        all
    }

    /// Memory that a segment keeps behind what is written in it.
    fn cached_bytes_of(&self, segment: u32) -> u64 {
        let units = self.shared.memory.table.entry(segment).cached.load(Ordering::Relaxed).count_ones();
        u64::from(units) * self.shared.memory.geometry.release_bytes as u64
    }

    /// Memory that is kept for new segments, with what is promised to the drain under way.
    pub(crate) fn cached_bytes(&self) -> usize {
        self.shared.memory.cached_units() as usize * self.shared.memory.geometry.release_bytes
    }

    #[inline(always)]
    pub(crate) fn place(&self, r: Ref) -> ObjectPtr {
        debug_assert!(r.bits() < self.shared.memory.geometry.reserve_bytes as u64);
        // SAFETY: a Ref is the offset of an object in the reserved range.
        ObjectPtr(unsafe { self.base.add(r.bits() as usize) })
    }

    #[inline(always)]
    pub(crate) fn entry(&self, r: Ref) -> &SegmentEntry {
        self.shared.memory.table.entry(self.segment(r))
    }

    /// The segment in which a Ref lies.
    #[inline(always)]
    pub(crate) fn segment(&self, r: Ref) -> u32 {
        (r.bits() >> self.segment_shift) as u32
    }

    /// The offset of a byte in the range of addresses.
    pub(crate) fn offset_of(&self, byte: *const u8) -> usize {
        byte as usize - self.base as usize
    }

    /// The offset of a Ref in its segment.
    #[inline(always)]
    pub(crate) fn offset(&self, r: Ref) -> usize {
        r.bits() as usize & (self.shared.memory.geometry.segment_bytes - 1)
    }

    /// True if an object of `bytes` bytes has an extent of its own.
    #[inline(always)]
    pub fn is_extent_size(&self, bytes: usize) -> bool {
        bytes > self.run_min
    }

    /// The death of an object, under its shard's lock.
    #[inline]
    pub(crate) fn kill(&self, r: Ref) {
        let place = self.place(r);
        let entry = self.entry(r);
        // SAFETY: the caller has the access of the object's shard, and the object lives. Reclaim may release its memory
        // as soon as it is marked, so everything is read before.
        let (size, live) = unsafe {
            let first = place.first();
            let live = Live::new(1, (first.size() - place.slack(&first)) as u64);
            place.set_dead(&first);
            (first.size(), live)
        };
        let (before, after) = entry.sub_live(live);
        if self.is_extent_size(size) {
            self.retire_extent(r);
        } else if self.granules.differ(before, after) {
            self.shared.fall(self.segment(r), before, after);
        }
    }

    #[inline(never)]
    pub(crate) fn pinned(&self, r: Ref) -> bool {
        // Acquires: the counterpart of a pin's end. The first pin of an extent needs the shard's lock, which the caller has.
        self.entry(r).pins.load(Ordering::Acquire) > 0
    }

    /// Up to where, from the object's begin, its value has ever reached.
    pub(crate) fn extent_reach(&self, r: Ref) -> usize {
        let fill = self.entry(r).fill.load(Ordering::Relaxed) as usize;
        debug_assert!(self.offset(r) < fill, "an extent ends at {fill} before its object at {}", self.offset(r));
        fill - self.offset(r)
    }

    /// The value now reaches up to `end` from the object's begin.
    pub(crate) fn extent_grown(&self, r: Ref, end: usize) {
        let entry = self.entry(r);
        let fill = (self.offset(r) + end) as u64;
        let bytes = entry.extent_len.load(Ordering::Relaxed) as u64 * self.shared.memory.geometry.segment_bytes as u64;
        assert!(fill <= bytes, "a value ends at {fill} of an extent of {bytes} bytes");
        let old = entry.fill.load(Ordering::Relaxed);
        if fill > old {
            entry.fill.store(fill, Ordering::Relaxed);
            self.shared.memory.count_extent(entry, fill - old);
        }
    }

    #[cold]
    pub(crate) fn retire_extent(&self, r: Ref) {
        if self.pinned(r) {
            self.shared.keep_for_pins(self.segment(r));
        }
        self.shared.retire(self.segment(r));
    }

    /// The live bytes of an object have changed by `by`.
    #[inline]
    pub(crate) fn live_changed(&self, r: Ref, by: i64, in_extent: bool) {
        let entry = self.entry(r);
        let change = Live::new(0, by.unsigned_abs());
        let (before, after) = if by >= 0 { entry.add_live(change) } else { entry.sub_live(change) };
        if !in_extent && self.granules.differ(before, after) {
            self.shared.fall(self.segment(r), before, after);
        }
    }
}

pub(crate) fn info(memory: &LogMemory, segment: u32, seals: u64) -> SegmentInfo {
    let entry = memory.table.entry(segment);
    let live = memory.live(entry);
    let state = entry.state();
    // A segment that is not sealed is as young as can be.
    let sealed = entry.sealed_at().unwrap_or(seals);
    SegmentInfo {
        segment,
        state,
        class: entry.class(),
        used: entry.used.load(Ordering::Relaxed),
        live_bytes: live.bytes(),
        live_objects: live.objects().max(0) as u64,
        sealed,
        age: seals.saturating_sub(sealed),
        pins: entry.pins.load(Ordering::Relaxed),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_count_states_and_tenths() {
        let info = |state, used, live_bytes| SegmentInfo {
            segment: 1,
            state,
            class: SegmentClass::Ordinary,
            used,
            live_bytes,
            live_objects: 1,
            sealed: 0,
            age: 0,
            pins: 0,
        };
        let mut stats = LogStats::default();
        for segment in [
            info(SegmentState::Open, 10, 65536),
            info(SegmentState::Sealed, 100, 0),
            info(SegmentState::Sealed, 100, 95),
            info(SegmentState::Draining, 100, 29),
            info(SegmentState::Extent, 1000, 1000),
            info(SegmentState::Retired, 500, 0),
            info(SegmentState::Tail, 0, 0),
        ] {
            stats.count(&segment, 3);
        }
        let segments = (stats.segments, stats.open_segments, stats.sealed_segments, stats.draining_segments);
        assert_eq!(segments, (4, 1, 2, 1));
        assert_eq!(stats.tenths, [1, 0, 1, 0, 0, 0, 0, 0, 0, 2]);
        assert_eq!(stats.classes, [4, 0, 0]);
        let runs = (stats.runs, stats.retired_runs, stats.extent_segments, stats.run_bytes, stats.retired_bytes);
        assert_eq!(runs, (2, 1, 6, 1500, 500));
    }
}
