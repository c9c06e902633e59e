//! The memory of a log: the reserved range of addresses, the table of its segments, and the counters over all of them.
//!
//! Pages of released segments are given back to the system or stay cached for the segments that are opened next: a page
//! that is there already costs a fraction of a page fault. This file does not decide which segment is used for what
//! (`space`), and knows no objects.

use std::io;
use std::ops::Range;
use std::sync::OnceLock;
use std::sync::atomic::Ordering;
use std::thread::Thread;

use varve_base::mem::Mapping;

use crate::geometry::LogGeometry;
use crate::table::{Granules, Live, SegmentEntry, SegmentState, SegmentTable};
use varve_base::shared::{SharedBool, SharedU32, SharedU64};

/// Segments from this size on ask for huge pages.
pub(crate) const HUGE_PAGE_BYTES: usize = 2 << 20;

/// Bytes that the system must have beside a part of the range that is opened.
const HEADROOM_BYTES: usize = 32 << 20;

/// The segments below this offset get huge pages only once they are sealed: the two megabytes that an open one may round
/// up to count in a store that is not much larger, and in one that is they do not.
pub(crate) const SMALL_PAGES_BELOW: usize = 96 << 20;

/// The range, its segments, and the counters over all segments.
#[derive(Debug)]
pub(crate) struct LogMemory {
    pub(crate) mapping: Mapping,
    pub(crate) geometry: LogGeometry,
    pub(crate) table: SegmentTable,
    pub(crate) granules: Granules,
    sums: Sums,
    gauges: Gauges,
    /// The thread that puts memory in place ahead of the frontiers, if the owner has one; see `ahead`.
    helper: OnceLock<Thread>,
}

/// Sums over all segments, which appends and deaths change.
#[repr(align(128))]
#[derive(Debug, Default)]
struct Sums {
    used: SharedU64,
    /// Of the used bytes, those of extents, dead or alive.
    extents: SharedU64,
    /// Of these, blocks that were written while somebody read them through a pin, as they were before.
    kept: SharedU64,
    /// Granules of live bytes in all segments but extents.
    live_granules: SharedU64,
    /// Bytes that owners have appended so far: all but what was relocated.
    written: SharedU64,
}

/// Figures that seldom change and that every admission of a write reads: apart from what each batch changes.
#[repr(align(128))]
#[derive(Debug)]
struct Gauges {
    /// Numbers that no segment or extent has, in the middle of the range, as of the last one taken or given back; 0 while
    /// `refused`.
    ids_left: SharedU32,
    /// The system has refused to open more of the range.
    refused: SharedBool,
    /// Release units whose pages are cached, over all segments.
    cached: SharedU64,
    /// Segments opened so far.
    opens: SharedU64,
    /// Its lower 16 bits are the present age: what lies in a segment of another one is dead; see `clear`.
    age: SharedU32,
    /// Dead extents whose memory is not released whole, blocks that nobody needs any more, and one more while a clearing is
    /// to be settled.
    releasing: SharedU64,
    /// Areas that were made too late, and ahead of the appenders.
    ahead: [SharedU64; 2],
}

impl LogMemory {
    /// The memory of an empty log, in a range that was just reserved.
    pub(crate) fn new(mapping: Mapping, geometry: LogGeometry) -> io::Result<LogMemory> {
        assert!(
            mapping.len() >= geometry.reserve_bytes,
            "{} bytes are reserved for a log of {geometry:?}",
            mapping.len()
        );
        let segments = (geometry.reserve_bytes / geometry.segment_bytes) as u32;
        Ok(LogMemory {
            mapping,
            geometry,
            table: SegmentTable::new(segments)?,
            granules: Granules::of_segment(geometry.segment_bytes),
            sums: Sums::default(),
            gauges: Gauges {
                ids_left: SharedU32::new(segments),
                refused: SharedBool::new(false),
                cached: SharedU64::new(0),
                opens: SharedU64::new(0),
                age: SharedU32::new(0),
                releasing: SharedU64::new(0),
                ahead: [const { SharedU64::new(0) }; 2],
            },
            helper: OnceLock::new(),
        })
    }

    /// Bytes that count as used, over all segments.
    #[inline]
    pub(crate) fn used_bytes(&self) -> u64 {
        self.sums.used.load(Ordering::Relaxed)
    }

    /// Of the used bytes, those of extents.
    pub(crate) fn extent_bytes(&self) -> u64 {
        self.sums.extents.load(Ordering::Relaxed)
    }

    /// Of the bytes of extents, those of blocks that are kept for pins.
    pub(crate) fn kept_bytes(&self) -> u64 {
        self.sums.kept.load(Ordering::Relaxed)
    }

    /// Counts the old bytes of a block, which are kept beside its extent.
    pub(crate) fn count_kept(&self, bytes: u64) {
        self.sums.kept.fetch_add(bytes, Ordering::Relaxed);
        self.sums.extents.fetch_add(bytes, Ordering::Relaxed);
        self.sums.used.fetch_add(bytes, Ordering::Relaxed);
    }

    /// The old bytes of a block are given back.
    pub(crate) fn uncount_kept(&self, bytes: u64) {
        let before = self.sums.kept.fetch_sub(bytes, Ordering::Relaxed);
        assert!(before >= bytes, "{bytes} bytes are given back of {before} that are kept");
        self.sums.extents.fetch_sub(bytes, Ordering::Relaxed);
        self.sums.used.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Granules of live bytes in all segments but extents.
    pub(crate) fn live_granules(&self) -> u64 {
        self.sums.live_granules.load(Ordering::Relaxed)
    }

    /// Bytes that owners have appended so far, what was relocated left out.
    pub(crate) fn written_bytes(&self) -> u64 {
        self.sums.written.load(Ordering::Relaxed)
    }

    /// An owner has appended `bytes` bytes.
    pub(crate) fn count_written(&self, bytes: u64) {
        self.sums.written.fetch_add(bytes, Ordering::Relaxed);
    }

    /// The live bytes of a segment have changed; `differ` of the granules has said that this counts.
    pub(crate) fn count_granules(&self, before: Live, after: Live) {
        let grown = self.granules.count(after).wrapping_sub(self.granules.count(before));
        self.sums.live_granules.fetch_add(grown, Ordering::Relaxed);
    }

    /// Release units whose pages are cached, over all segments.
    pub(crate) fn cached_units(&self) -> u64 {
        self.gauges.cached.load(Ordering::Relaxed)
    }

    /// Segments opened so far.
    pub(crate) fn opens(&self) -> u64 {
        self.gauges.opens.load(Ordering::Relaxed)
    }

    /// One segment more was opened.
    pub(crate) fn count_open(&self) {
        self.gauges.opens.fetch_add(1, Ordering::Relaxed);
    }

    /// The present age.
    pub(crate) fn age(&self) -> u16 {
        self.gauges.age.load(Ordering::Relaxed) as u16
    }

    /// Objects and bytes that live in a segment: none, if its age is over.
    pub(crate) fn live(&self, entry: &SegmentEntry) -> Live {
        let live = entry.live();
        if entry.age() == self.age() { live } else { Live::new(0, 0) }
    }

    /// Another age begins, in which nothing lives yet; at rest.
    pub(crate) fn begin_age(&self) {
        self.gauges.age.fetch_add(1, Ordering::Relaxed);
        self.sums.live_granules.store(0, Ordering::Relaxed);
    }

    /// Dead extents whose memory is not released whole, blocks that nobody needs, and one more while a clearing is to be
    /// settled.
    #[inline]
    pub(crate) fn releasing(&self) -> u64 {
        self.gauges.releasing.load(Ordering::Relaxed)
    }

    /// This number of dead extents or blocks more wait for their memory to be released, or a clearing for being settled.
    pub(crate) fn add_releasing(&self, count: u64) {
        self.gauges.releasing.fetch_add(count, Ordering::Relaxed);
    }

    /// The memory of a dead extent or of a block is released, or a clearing is settled.
    pub(crate) fn end_releasing(&self) {
        let before = self.gauges.releasing.fetch_sub(1, Ordering::Relaxed);
        assert!(before > 0, "an extent was released that had not died");
    }

    /// Numbers in the middle of the range; 0 while the system refuses to open more of it.
    #[inline]
    pub(crate) fn ids_left(&self) -> u32 {
        self.gauges.ids_left.load(Ordering::Relaxed)
    }

    /// True if the system has refused to open more of the range.
    pub(crate) fn is_refused(&self) -> bool {
        self.gauges.refused.load(Ordering::Relaxed)
    }

    /// Publishes how many numbers are left, and whether the system refuses memory for them; under the `space` mutex. What
    /// has not changed is not written: other threads read it all the time.
    pub(crate) fn publish_left(&self, ids_left: u32, refused: bool) {
        let shown = if refused { 0 } else { ids_left };
        if self.ids_left() != shown {
            self.gauges.ids_left.store(shown, Ordering::Relaxed);
        }
        if self.is_refused() != refused {
            self.gauges.refused.store(refused, Ordering::Relaxed);
        }
    }

    /// Makes a part of the range readable and writable, at the side of the segments or of the extents; false if the system
    /// refuses. Extents get small pages: a value of 300 KB would have two megabytes else, and the page of its slack's
    /// count two more.
    pub(crate) fn open(&self, range: Range<usize>, segments: bool) -> bool {
        // Held while the range is opened: what is refused first is the log, not a thread's stack or a table.
        let Ok(_headroom) = Mapping::zeroed(HEADROOM_BYTES) else { return false };
        if !segments && self.geometry.segment_bytes >= HUGE_PAGE_BYTES {
            self.mapping.prefer_huge_pages(range.clone(), false);
        }
        self.mapping.open(range).is_ok()
    }

    /// True if the system has memory for more than the log: what `open` asks for beside the range.
    pub(crate) fn has_headroom(&self) -> bool {
        Mapping::zeroed(HEADROOM_BYTES).is_ok()
    }

    /// Tells the system which pages a segment has, when it is opened and when it is sealed. The advice of the range holds
    /// for all but the first ones: advice of a segment's own would be a mapping of its own in the kernel, of which a
    /// process has 65 530.
    pub(crate) fn advise_pages(&self, segment: u32, sealed: bool) {
        let bytes = self.geometry.segment_bytes;
        let at = segment as usize * bytes;
        if bytes >= HUGE_PAGE_BYTES && at < SMALL_PAGES_BELOW {
            self.mapping.prefer_huge_pages(at..at + bytes, sealed);
        }
    }

    /// Decides, before a drain goes on, whether the memory of `units` of its segment will be kept for whoever opens the
    /// segment next: all of them or none, so that few segments hold what is kept. They count as kept from now on. `ahead` of
    /// the kept units are the appenders'.
    pub(crate) fn plan_to_cache(&self, entry: &SegmentEntry, units: Range<usize>, ahead: u64) -> bool {
        if self.gauges.cached.load(Ordering::Relaxed).saturating_sub(ahead) > self.geometry.cached_before_max() {
            return false;
        }
        self.gauges.cached.fetch_add(uncached_units(entry, units), Ordering::Relaxed);
        true
    }

    /// The drain was given up before it came to these.
    pub(crate) fn cancel_plan(&self, entry: &SegmentEntry, units: Range<usize>) {
        self.gauges.cached.fetch_sub(uncached_units(entry, units), Ordering::Relaxed);
    }

    /// From now on this thread puts memory in place ahead of the frontiers; the first one that says so.
    pub(crate) fn set_helper(&self, helper: Thread) {
        let first = self.helper.set(helper);
        debug_assert!(first.is_ok(), "a second thread wants to put memory in place");
    }

    /// The thread that puts memory in place ahead of the frontiers.
    pub(crate) fn helper(&self) -> Option<&Thread> {
        self.helper.get()
    }

    /// An area was made before an appender came to it, or too late.
    pub(crate) fn count_ahead(&self, in_time: bool) {
        self.gauges.ahead[usize::from(in_time)].fetch_add(1, Ordering::Relaxed);
    }

    /// Areas that were made before an appender came to them, and too late.
    pub(crate) fn made_ahead(&self) -> (u64, u64) {
        let [late, in_time] = self.gauges.ahead.each_ref().map(|count| count.load(Ordering::Relaxed));
        (in_time, late)
    }

    /// The release units that lie in these bytes of one segment, offsets into the range: a bit each. Nothing behind its end.
    fn units_in(&self, segment: u32, bytes: &Range<u64>) -> u64 {
        let begin = u64::from(segment) * self.geometry.segment_bytes as u64;
        assert!(begin <= bytes.start && bytes.start <= bytes.end, "units of {bytes:?} in segment {segment}");
        let unit = self.geometry.release_bytes as u64;
        let last = self.geometry.segment_bytes as u64 / unit;
        let (first, end) = ((bytes.start - begin).div_ceil(unit), ((bytes.end - begin) / unit).min(last));
        (first..end).fold(0, |units, nth| units | 1 << nth)
    }

    /// How many release units that lie in these bytes of a segment are kept.
    pub(crate) fn kept_units(&self, segment: u32, bytes: &Range<u64>) -> u64 {
        let kept = self.table.entry(segment).cached.load(Ordering::Relaxed);
        u64::from((kept & self.units_in(segment, bytes)).count_ones())
    }

    /// True if there is memory behind all release units that lie in these bytes of a segment, and nothing is written there.
    pub(crate) fn keeps(&self, segment: u32, bytes: &Range<u64>) -> bool {
        let units = self.units_in(segment, bytes);
        self.table.entry(segment).cached.load(Ordering::Relaxed) & units == units
    }

    /// Memory was put behind these bytes of a segment, in which nothing is written: whole release units of it count as kept.
    pub(crate) fn keep(&self, segment: u32, bytes: &Range<u64>) {
        let (entry, units) = (self.table.entry(segment), self.units_in(segment, bytes));
        let cut = if entry.state() == SegmentState::Free { 0 } else { entry.fill.load(Ordering::Relaxed) };
        assert!(cut <= bytes.start & (self.geometry.segment_bytes as u64 - 1), "{bytes:?} of {cut} bytes that are cut");
        assert!(units != 0 || bytes.end - bytes.start < 2 * self.geometry.release_bytes as u64, "{bytes:?} of no unit");
        let before = entry.cached.fetch_or(units, Ordering::Relaxed);
        self.gauges.cached.fetch_add(u64::from((units & !before).count_ones()), Ordering::Relaxed);
    }

    /// The first kept unit of a segment that begins at this offset into the range or behind it.
    pub(crate) fn kept_unit(&self, segment: u32, from: u64) -> Option<usize> {
        let behind = self.units_in(segment, &(from..u64::MAX));
        let kept = self.table.entry(segment).cached.load(Ordering::Relaxed) & behind;
        (kept != 0).then(|| kept.trailing_zeros() as usize)
    }

    /// Gives a release unit's memory back to the system.
    ///
    /// # Safety
    /// Nothing lives in it, and nobody refers to what died there.
    pub(crate) unsafe fn release_unit(&self, segment: u32, entry: &SegmentEntry, unit: usize) {
        let units = self.geometry.segment_bytes / self.geometry.release_bytes;
        assert!(unit < units, "release unit {unit} of {units}");
        if entry.cached.fetch_and(!(1 << unit), Ordering::Relaxed) & 1 << unit != 0 {
            self.gauges.cached.fetch_sub(1, Ordering::Relaxed);
        }
        let begin = segment as usize * self.geometry.segment_bytes + unit * self.geometry.release_bytes;
        // SAFETY: passed on to the caller.
        unsafe { self.mapping.release(begin..begin + self.geometry.release_bytes) };
    }

    /// The frontier of a segment moves (offsets into the range): kept units that it passes are not spare any more.
    /// Answers whether it starts in one.
    pub(crate) fn use_cached(&self, entry: &SegmentEntry, from: u64, to: u64) -> bool {
        let cached = entry.cached.load(Ordering::Relaxed);
        if cached == 0 {
            return false;
        }
        assert!(from < to && to - from <= self.geometry.segment_bytes as u64, "a piece of {from}..{to}");
        let mask = self.geometry.segment_bytes as u64 - 1;
        let unit = self.geometry.release_bytes as u64;
        let (first, end) = ((from & mask) / unit, (((to - 1) & mask) + 1) / unit);
        for passed in first..end {
            if cached & 1 << passed != 0 {
                entry.cached.fetch_and(!(1 << passed), Ordering::Relaxed);
                self.gauges.cached.fetch_sub(1, Ordering::Relaxed);
            }
        }
        cached & 1 << first != 0
    }

    pub(crate) fn count_used(&self, entry: &SegmentEntry, bytes: u64) {
        entry.used.fetch_add(bytes, Ordering::Relaxed);
        self.sums.used.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Counts used bytes of an extent.
    pub(crate) fn count_extent(&self, entry: &SegmentEntry, bytes: u64) {
        self.count_used(entry, bytes);
        self.count_written(bytes);
        self.sums.extents.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Takes used bytes of an extent off.
    pub(crate) fn uncount_extent(&self, entry: &SegmentEntry, bytes: u64) {
        self.uncount_used(entry, bytes);
        self.sums.extents.fetch_sub(bytes, Ordering::Relaxed);
    }

    pub(crate) fn uncount_used(&self, entry: &SegmentEntry, bytes: u64) {
        let old = entry.used.fetch_sub(bytes, Ordering::Relaxed);
        debug_assert!(old >= bytes, "{old} bytes used, {bytes} taken off");
        self.sums.used.fetch_sub(bytes, Ordering::Relaxed);
    }
}

/// Of these units, how many are not marked as kept.
fn uncached_units(entry: &SegmentEntry, units: Range<usize>) -> u64 {
    let cached = entry.cached.load(Ordering::Relaxed);
    units.filter(|unit| cached & 1 << unit == 0).count() as u64
}
