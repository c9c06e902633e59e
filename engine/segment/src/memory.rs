//! The memory of a log: the reserved range of addresses, the table of its segments, and the counters over all of them.
//!
//! Pages of released segments are given back to the system or stay cached for the segments that are opened next: a page
//! that is there already costs a fraction of a page fault. This file does not decide which segment is used for what
//! (`space`), and knows no objects.

use std::ops::Range;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use varve_base::mem::Mapping;

use crate::geometry::LogGeometry;
use crate::table::{SegmentEntry, SegmentTable};

/// Segments from this size on ask for huge pages.
pub(crate) const HUGE_PAGE_BYTES: usize = 2 << 20;

/// The segments below this offset get huge pages only once they are sealed: the two megabytes that an open one may round
/// up to count in a store that is not much larger, and in one that is they do not.
pub(crate) const SMALL_PAGES_BELOW: usize = 96 << 20;

/// The range, its segments, and the counters over all segments.
#[derive(Debug)]
pub(crate) struct LogMemory {
    pub(crate) mapping: Mapping,
    pub(crate) geometry: LogGeometry,
    pub(crate) table: SegmentTable,
    used: AtomicU64,
    /// Release units whose pages are cached, over all segments.
    cached: AtomicU64,
    /// Segments opened so far.
    pub(crate) opens: AtomicU64,
    /// Segments above the last one in use, as of the last one taken or given back.
    pub(crate) ids_left: AtomicU32,
}

impl LogMemory {
    /// The memory of an empty log, in a range that was just reserved.
    pub(crate) fn new(mapping: Mapping, geometry: LogGeometry) -> LogMemory {
        assert!(
            mapping.len() >= geometry.reserve_bytes,
            "{} bytes are reserved for a log of {geometry:?}",
            mapping.len()
        );
        let segments = (geometry.reserve_bytes / geometry.segment_bytes) as u32;
        LogMemory {
            mapping,
            geometry,
            table: SegmentTable::new(),
            used: AtomicU64::new(0),
            cached: AtomicU64::new(0),
            opens: AtomicU64::new(0),
            ids_left: AtomicU32::new(segments),
        }
    }

    /// Bytes that count as used, over all segments.
    #[inline]
    pub(crate) fn used_bytes(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }

    /// Release units whose pages are cached, over all segments.
    pub(crate) fn cached_units(&self) -> u64 {
        self.cached.load(Ordering::Relaxed)
    }

    /// Tells the system which pages a segment is to have, when it is opened and when it is sealed. It may have been part of
    /// an extent before.
    pub(crate) fn advise_pages(&self, segment: u32, sealed: bool) {
        let bytes = self.geometry.segment_bytes;
        let at = segment as usize * bytes;
        let first = at < SMALL_PAGES_BELOW;
        if bytes >= HUGE_PAGE_BYTES && (first || !sealed) {
            self.mapping.prefer_huge_pages(at..at + bytes, sealed || !first);
        }
    }

    /// Asks for the pages of an extent, of which `value` (offsets in it) is about to be filled: huge pages only where all of one is.
    /// Else a value of 300 KB would have two megabytes, and the page of its slack's count two more.
    pub(crate) fn advise_extent(&self, segment: u32, count: u32, value: Range<usize>) {
        let bytes = self.geometry.segment_bytes;
        assert!(value.start <= value.end && value.end <= count as usize * bytes, "{value:?} of {count} segments");
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
    pub(crate) fn plan_to_cache(&self, entry: &SegmentEntry, units: Range<usize>) -> bool {
        if self.cached.load(Ordering::Relaxed) > self.geometry.cached_before_max() {
            return false;
        }
        self.cached.fetch_add(uncached_units(entry, units), Ordering::Relaxed);
        true
    }

    /// The drain was given up before it came to these.
    pub(crate) fn cancel_plan(&self, entry: &SegmentEntry, units: Range<usize>) {
        self.cached.fetch_sub(uncached_units(entry, units), Ordering::Relaxed);
    }

    /// Gives a release unit's memory back to the system.
    ///
    /// # Safety
    /// Nothing lives in it, and nobody refers to what died there.
    pub(crate) unsafe fn release_unit(&self, segment: u32, entry: &SegmentEntry, unit: usize) {
        let units = self.geometry.segment_bytes / self.geometry.release_bytes;
        assert!(unit < units, "release unit {unit} of {units}");
        if entry.cached.fetch_and(!(1 << unit), Ordering::Relaxed) & 1 << unit != 0 {
            self.cached.fetch_sub(1, Ordering::Relaxed);
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
                self.cached.fetch_sub(1, Ordering::Relaxed);
            }
        }
        cached & 1 << first != 0
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

/// Of these units, how many are not marked as kept.
fn uncached_units(entry: &SegmentEntry, units: Range<usize>) -> u64 {
    let cached = entry.cached.load(Ordering::Relaxed);
    units.filter(|unit| cached & 1 << unit == 0).count() as u64
}
