//! The log: the range, the table and the accounting, joined.
//!
//! `Log` is a handle; its clones share one log. The work is elsewhere: writing in `append`, large objects in `run`,
//! moving out in `reclaim`, checking in `verify`.

use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use parking_lot::Mutex;
use varve_base::Ref;
use varve_base::mem::{Line, Mapping};

use crate::extent::Releases;
use crate::geometry::LogGeometry;
use crate::kind::SegmentClass;
use crate::layout::ObjectPtr;
use crate::object::Access;
use crate::space::Space;
use crate::table::{Live, SegmentEntry, SegmentState, SegmentTable};

/// Segments from this size on ask for huge pages.
const HUGE_PAGE_BYTES: usize = 2 << 20;

/// What all handles share. Lock order: `space` and `releases` are leaves; who holds one takes nothing more.
#[derive(Debug)]
pub(crate) struct LogShared {
    pub(crate) mapping: Mapping,
    pub(crate) geometry: LogGeometry,
    pub(crate) table: SegmentTable,
    pub(crate) space: Mutex<Space>,
    pub(crate) releases: Mutex<Releases>,
    used: AtomicU64,
    /// Release units that are kept, over all segments.
    warm: AtomicU64,
    /// Segments opened so far.
    pub(crate) opens: AtomicU64,
    /// Segments above the last one in use, as of the last one taken or given back.
    pub(crate) ids_left: AtomicU32,
}

impl LogShared {
    /// Tells the system which pages a segment is to have, when it is opened and when it is sealed. It may have been a
    /// run's before.
    pub(crate) fn advise_pages(&self, segment: u32, sealed: bool) {
        let bytes = self.geometry.segment_bytes;
        let at = segment as usize * bytes;
        let first = at < SMALL_PAGES_BELOW;
        if bytes >= HUGE_PAGE_BYTES && (first || !sealed) {
            self.mapping.prefer_huge_pages(at..at + bytes, sealed || !first);
        }
    }

    /// The same for a run, of which `value` (offsets in it) is about to be filled: huge pages only where all of one is.
    /// Else a value of 300 KB would have two megabytes, and the page of its slack's count two more.
    pub(crate) fn advise_extent(&self, segment: u32, count: u32, value: Range<usize>) {
        let bytes = self.geometry.segment_bytes;
        if bytes < HUGE_PAGE_BYTES {
            return;
        }
        let base = segment as usize * bytes;
        self.mapping.prefer_huge_pages(base..base + count as usize * bytes, false);
        let begin = (base + value.start).next_multiple_of(HUGE_PAGE_BYTES);
        let end = (base + value.end) / HUGE_PAGE_BYTES * HUGE_PAGE_BYTES;
        if end >= begin + 2 * HUGE_PAGE_BYTES {
            self.mapping.prefer_huge_pages(begin..end, true);
        }
    }

    /// Decides, before a drain goes on, whether the memory of `units` of its segment will be kept for whoever opens the
    /// segment next: all of them or none, so that few segments hold what is kept. They count as kept from now on.
    pub(crate) fn plan_to_keep(&self, entry: &SegmentEntry, units: Range<usize>) -> bool {
        if self.warm.load(Ordering::Relaxed) > self.geometry.warm_before_max() {
            return false;
        }
        self.warm.fetch_add(cold_units(entry, units), Ordering::Relaxed);
        true
    }

    /// The drain was given up before it came to these.
    pub(crate) fn unplan(&self, entry: &SegmentEntry, units: Range<usize>) {
        self.warm.fetch_sub(cold_units(entry, units), Ordering::Relaxed);
    }

    /// Gives a release unit's memory back to the system.
    ///
    /// # Safety
    /// Nothing lives in it, and nobody refers to what died there.
    pub(crate) unsafe fn release_unit(&self, segment: u32, entry: &SegmentEntry, unit: usize) {
        if entry.warm.fetch_and(!(1 << unit), Ordering::Relaxed) & 1 << unit != 0 {
            self.warm.fetch_sub(1, Ordering::Relaxed);
        }
        let begin = segment as usize * self.geometry.segment_bytes + unit * self.geometry.release_bytes;
        // SAFETY: passed on to the caller.
        unsafe { self.mapping.release(begin..begin + self.geometry.release_bytes) };
    }

    /// The frontier of a segment moves (offsets into the range): kept units that it passes are not spare any more.
    /// Answers whether it starts in one.
    pub(crate) fn pass_warm(&self, entry: &SegmentEntry, from: u64, to: u64) -> bool {
        let warm = entry.warm.load(Ordering::Relaxed);
        if warm == 0 {
            return false;
        }
        let mask = self.geometry.segment_bytes as u64 - 1;
        let unit = self.geometry.release_bytes as u64;
        let (first, end) = ((from & mask) / unit, (((to - 1) & mask) + 1) / unit);
        for passed in first..end {
            if warm & 1 << passed != 0 {
                entry.warm.fetch_and(!(1 << passed), Ordering::Relaxed);
                self.warm.fetch_sub(1, Ordering::Relaxed);
            }
        }
        warm & 1 << first != 0
    }

    pub(crate) fn count_used(&self, entry: &SegmentEntry, bytes: u64) {
        entry.used.fetch_add(bytes, Ordering::Relaxed);
        self.used.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(crate) fn uncount_used(&self, entry: &SegmentEntry, bytes: u64) {
        let old = entry.used.fetch_sub(bytes, Ordering::Relaxed);
        debug_assert!(old >= bytes, "{old} bytes used, {bytes} taken off");
        self.used.fetch_sub(bytes, Ordering::Relaxed);
    }
}

/// The segment log. Clones are handles on the same log.
#[derive(Clone, Debug)]
pub struct Log {
    base: *mut u8,
    segment_shift: u32,
    run_min: usize,
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
    /// What it is used for.
    pub state: SegmentState,
    /// Whose objects it takes; `Ordinary` for runs.
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
    /// Pins on a run.
    pub pins: u32,
}

/// The log in figures. Bytes are exact when all appenders have parked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogStats {
    /// As `Log::used_bytes`.
    pub used_bytes: u64,
    /// Bytes of objects that live.
    pub live_bytes: u64,
    /// Objects that live.
    pub live_objects: u64,
    /// Segments that are open, sealed or draining.
    pub segments: u32,
    /// Of these, open.
    pub open_segments: u32,
    /// Large objects in segments of their own.
    pub runs: u32,
    /// Segments that those take.
    pub extent_segments: u32,
    /// Free segments below the last one in use.
    pub free_segments: u32,
    /// Bytes of the reserved range that are open for use.
    pub opened_bytes: u64,
    /// Bytes of memory that are kept for new segments: resident, beyond those in use.
    pub warm_bytes: u64,
    /// Bytes of memory of the segment table.
    pub table_bytes: u64,
}

/// The segments below this offset get huge pages only once they are sealed: the two megabytes that an open one may round
/// up to count in a store that is not much larger, and in one that is they do not.
pub(crate) const SMALL_PAGES_BELOW: usize = 96 << 20;

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
        Ok(Log {
            base: mapping.base(),
            segment_shift: geometry.segment_bytes.trailing_zeros(),
            run_min: geometry.extent_min_bytes,
            spare: geometry.spare_segments(),
            shared: Arc::new(LogShared {
                mapping,
                geometry,
                table: SegmentTable::new(),
                space: Mutex::new(Space::new(&geometry)),
                releases: Mutex::new(Releases::default()),
                used: AtomicU64::new(0),
                warm: AtomicU64::new(0),
                opens: AtomicU64::new(0),
                ids_left: AtomicU32::new((geometry.reserve_bytes / geometry.segment_bytes) as u32),
            }),
        })
    }

    /// The access of a new shard, for its mutex. An object must only ever be opened with one and the same access.
    pub fn access(&self) -> Access {
        Access::new()
    }

    /// Objects of more bytes than this have a run of their own.
    #[inline]
    pub fn extent_min_bytes(&self) -> usize {
        self.run_min
    }

    /// The sizes that the log is cut by.
    pub fn geometry(&self) -> &LogGeometry {
        &self.shared.geometry
    }

    /// Bytes appended and not yet drained, dead ones too, and fillers under a page. One relaxed load; what an appender
    /// holds and has not parked is missing, at most a piece a class.
    #[inline]
    pub fn used_bytes(&self) -> u64 {
        self.shared.used.load(Ordering::Relaxed)
    }

    /// True if objects of `bytes` in all find addresses, each of them as large as it may be and rewritten in another place:
    /// who appends only after it was true finds them. One relaxed load, unless few are left.
    #[inline]
    pub fn has_addresses(&self, bytes: u64) -> bool {
        let plenty = self.shared.ids_left.load(Ordering::Relaxed) >= 2 * self.spare;
        (plenty && bytes <= self.run_min as u64) || self.finds_addresses(bytes)
    }

    #[cold]
    fn finds_addresses(&self, bytes: u64) -> bool {
        // Each run may begin a segment; a value that is moved may be as large as any.
        let (whole, spare) = ((bytes >> self.segment_shift) + 2, u64::from(self.spare));
        let all = spare + whole + 2 * bytes / self.run_min as u64;
        u64::from(self.shared.ids_left.load(Ordering::Relaxed)) >= all
            || self.shared.space.lock().ids.have(all, spare.max(whole))
    }

    /// Bytes of objects that live. Adds up all segments.
    pub fn live_bytes(&self) -> u64 {
        self.stats().live_bytes
    }

    /// Of the used bytes, those that no drain can free: what lives in segments, and runs whole; and of these, those of
    /// runs. Adds up all segments.
    pub fn unreclaimable_bytes(&self) -> (u64, u64) {
        let space = self.shared.space.lock();
        space.segments(&self.shared.table).fold((0, 0), |(all, runs), (_, entry)| match entry.state() {
            SegmentState::Extent | SegmentState::Retired => {
                let used = entry.used.load(Ordering::Relaxed);
                (all + used, runs + used)
            }
            _ => (all + entry.live().bytes(), runs),
        })
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

    /// The Ref whose bits an owner keeps in an object's value, where it takes six bytes. It is as if he had kept the Ref
    /// itself: rule 1 of the crate's page is his to uphold.
    ///
    /// # Panics
    /// If no Ref of this log has these bits.
    #[inline]
    pub fn recall(&self, bits: u64) -> Ref {
        assert!(bits != 0 && bits < self.shared.geometry.reserve_bytes as u64, "bits {bits:#x} of no Ref");
        // SAFETY: the bits of a Ref that this log has given out, by the owner's word (rule 1), and in range.
        unsafe { Ref::from_bits(bits) }
    }

    /// The log in figures. Looks at all segments.
    pub fn stats(&self) -> LogStats {
        let space = self.shared.space.lock();
        let mut stats = LogStats {
            used_bytes: self.used_bytes(),
            free_segments: space.ids.free_below_end(),
            opened_bytes: space.opened as u64,
            table_bytes: self.shared.table.bytes() as u64,
            ..LogStats::default()
        };
        let kept = |entry: &SegmentEntry| {
            let units = u64::from(entry.warm.load(Ordering::Relaxed).count_ones());
            units * self.shared.geometry.release_bytes as u64
        };
        stats.warm_bytes = space.warm().iter().map(|&id| kept(self.shared.table.entry(id))).sum();
        for (_, entry) in space.segments(&self.shared.table) {
            stats.warm_bytes += kept(entry);
            stats.live_bytes += entry.live().bytes();
            stats.live_objects += entry.live().objects().max(0) as u64;
            match entry.state() {
                SegmentState::Open => {
                    stats.segments += 1;
                    stats.open_segments += 1;
                }
                SegmentState::Sealed | SegmentState::Draining => stats.segments += 1,
                SegmentState::Extent | SegmentState::Retired => {
                    stats.runs += 1;
                    stats.extent_segments += entry.extent_len.load(Ordering::Relaxed);
                }
                SegmentState::Free | SegmentState::Tail => {}
            }
        }
        stats
    }

    /// How many segments have been sealed so far: a segment's age is counted in these.
    pub fn seals(&self) -> u64 {
        self.shared.space.lock().seals
    }

    /// How many segments have been opened so far.
    pub fn opens(&self) -> u64 {
        self.shared.opens.load(Ordering::Relaxed)
    }

    /// True if memory is kept for segments to come.
    pub fn has_cached_pages(&self) -> bool {
        self.shared.warm.load(Ordering::Relaxed) > 0
    }

    /// All segments in use, by number; of a run the first one.
    pub fn segments(&self) -> Vec<SegmentInfo> {
        let space = self.shared.space.lock();
        space.segments(&self.shared.table).map(|(id, entry)| info(id, entry, space.seals)).collect()
    }

    /// Memory that is kept for new segments.
    pub(crate) fn warm_bytes(&self) -> usize {
        self.shared.warm.load(Ordering::Relaxed) as usize * self.shared.geometry.release_bytes
    }

    #[inline(always)]
    pub(crate) fn place(&self, r: Ref) -> ObjectPtr {
        debug_assert!(r.bits() < self.shared.geometry.reserve_bytes as u64);
        // SAFETY: a Ref is the offset of an object in the reserved range.
        ObjectPtr(unsafe { self.base.add(r.bits() as usize) })
    }

    #[inline(always)]
    pub(crate) fn entry(&self, r: Ref) -> &SegmentEntry {
        self.shared.table.entry((r.bits() >> self.segment_shift) as u32)
    }

    /// The offset of a Ref in its segment.
    #[inline(always)]
    pub(crate) fn offset(&self, r: Ref) -> usize {
        r.bits() as usize & (self.shared.geometry.segment_bytes - 1)
    }

    /// Does an object of so many bytes have a run of its own?
    #[inline(always)]
    pub(crate) fn is_extent_size(&self, bytes: usize) -> bool {
        bytes > self.run_min
    }

    /// The death of an object, under its shard's lock.
    #[inline]
    pub(crate) fn kill(&self, r: Ref) {
        let place = self.place(r);
        let entry = self.entry(r);
        // SAFETY: the caller has the access of the object's shard, and the object lives. Reclaim may release its memory
        // as soon as it is marked, so everything is read before.
        let size = unsafe {
            let first = place.first();
            let live = Live::new(1, (first.size() - place.slack(&first)) as u64);
            place.set_dead(&first);
            entry.sub_live(live);
            first.size()
        };
        if self.is_extent_size(size) {
            self.retire_extent(r);
        }
    }

    /// The live bytes of an object have changed by so many.
    #[inline]
    pub(crate) fn live_changed(&self, r: Ref, by: i64) {
        let entry = self.entry(r);
        if by >= 0 {
            entry.add_live(Live::new(0, by as u64));
        } else {
            entry.sub_live(Live::new(0, by.unsigned_abs()));
        }
    }
}

/// Of these units, how many are not marked as kept.
fn cold_units(entry: &SegmentEntry, units: Range<usize>) -> u64 {
    let warm = entry.warm.load(Ordering::Relaxed);
    units.filter(|unit| warm & 1 << unit == 0).count() as u64
}

pub(crate) fn info(segment: u32, entry: &SegmentEntry, seals: u64) -> SegmentInfo {
    let live = entry.live();
    let state = entry.state();
    // The number that an open segment has is of its life before.
    let sealed = if state == SegmentState::Open { seals } else { entry.sealed_at.load(Ordering::Relaxed) };
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
