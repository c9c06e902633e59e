//! The segment table: what is known of each segment, readable by anybody at any time.
//!
//! ```text
//!             open            seal             choose              finish
//!   +--> Free -----> Open -----------> Sealed --------> Draining ----------> Free
//!   |     |                              ^                  |
//!   |     |                              +------------------+
//!   |     |                                    abandon
//!   |     | begin_extent       retire
//!   |     +----------> Extent -----> Retired --+     the extent's further segments: Free -> Tail -> Free
//!   +------------------------------------------+
//!                     free_extent
//!
//!   live   63      40 39                  0
//!         +----------+---------------------+   one number, so that an object's death is one atomic subtraction
//!         | objects  | bytes               |
//!         +----------+---------------------+
//! ```
//!
//! Each transition is one function, which checks where it comes from. All but `retire` happen under the log's `space`
//! mutex, which is also what makes an object's bytes visible to whoever finds its segment sealed. While pieces of a
//! segment are checked out, their whole length counts as live bytes and their objects do not count yet; so the bytes
//! never borrow from the objects, and both are exact when every appender has parked.
//!
//! A death changes the entry of its segment alone. Only when that crosses a border of 1/256 of a segment (a granule) are the
//! sums over all segments and the order of victims told: so they are at hand at any time, without a look at all
//! segments, and what lives seems to be more by half a granule a segment on average, 0.2%.
//!
//! The entries stand in one mapping that is as long as the range has segments. Only the pages that were reached have
//! memory.

use std::io;
use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering};

use varve_base::mem::{Mapping, PAGE_BYTES};

use crate::kind::SegmentClass;

/// The use of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum SegmentState {
    /// No memory behind it.
    Free = 0,
    /// Being appended to.
    Open = 1,
    /// Full, or closed early.
    Sealed = 2,
    /// Reclaim is moving its objects out.
    Draining = 3,
    /// Holds one large object, with the segments behind it.
    Extent = 4,
    /// Belongs to the extent before it.
    Tail = 5,
    /// An extent whose object is dead and whose memory is being released.
    Retired = 6,
}

impl SegmentState {
    fn from_bits(bits: u8) -> SegmentState {
        match bits {
            0 => SegmentState::Free,
            1 => SegmentState::Open,
            2 => SegmentState::Sealed,
            3 => SegmentState::Draining,
            4 => SegmentState::Extent,
            5 => SegmentState::Tail,
            _ => SegmentState::Retired,
        }
    }
}

const OBJECT: u64 = 1 << 40;

/// Blocks of a segment of an extent of which it is known whether they were written: a bit each.
pub(crate) const BLOCKS: usize = u64::BITS as usize;

/// Live objects and bytes, in one number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Live(u64);

impl Live {
    pub(crate) fn new(objects: u64, bytes: u64) -> Live {
        debug_assert!(objects < 1 << 23 && bytes < OBJECT, "{objects} objects of {bytes} bytes in one segment");
        Live((objects * OBJECT).wrapping_add(bytes))
    }

    pub(crate) fn bytes(self) -> u64 {
        self.0 & (OBJECT - 1)
    }

    /// Less than 0 while objects that are not counted yet have died.
    pub(crate) fn objects(self) -> i64 {
        self.0 as i64 >> 40
    }
}

/// Live bytes in steps of 1/256 of a segment, rounded up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Granules {
    shift: u32,
    /// The bits of `Live` that decide, the objects' left out.
    mask: u64,
}

impl Granules {
    pub(crate) fn of_segment(bytes: usize) -> Granules {
        let shift = bytes.trailing_zeros() - 8;
        Granules { shift, mask: (OBJECT - 1) >> shift << shift }
    }

    /// How many granules these live bytes are.
    pub(crate) fn count(self, live: Live) -> u64 {
        live.bytes().div_ceil(1 << self.shift)
    }

    /// True if two figures of one segment are not the same number of granules. Both are rounded up, and nothing at all is
    /// told apart from a little.
    #[inline(always)]
    pub(crate) fn differ(self, before: Live, after: Live) -> bool {
        (before.0.wrapping_sub(1) ^ after.0.wrapping_sub(1)) & self.mask != 0
    }

    /// Bytes of this many granules.
    pub(crate) fn bytes(self, count: u64) -> u64 {
        count << self.shift
    }
}

/// One segment. Offsets are relative to its begin; an extent's entry is its first segment's.
#[repr(align(64))]
#[derive(Debug, Default)]
pub(crate) struct SegmentEntry {
    live: AtomicU64,
    /// Bytes that count as used between `start` and `fill`.
    pub(crate) used: AtomicU64,
    /// Where the first object (or a drain that was given up) begins.
    pub(crate) start: AtomicU64,
    /// Where what has been cut into pieces ends. An extent: where the bytes end that its value has ever used.
    pub(crate) fill: AtomicU64,
    /// When it was sealed, counted in seals. Of an extent's segments, tails too: a bit for each block that was written.
    sealed_or_written: AtomicU64,
    /// Pieces that appenders hold.
    pub(crate) out: AtomicU32,
    /// Segments of an extent, this one included.
    pub(crate) extent_len: AtomicU32,
    pub(crate) pins: AtomicU32,
    /// A bit for each release unit whose memory is kept though nothing is in it, or not all of it is filled yet.
    pub(crate) cached: AtomicU64,
    state: AtomicU8,
    class: AtomicU8,
    /// The age in which its first object came; see `clear`.
    age: AtomicU16,
}

const _: () = assert!(size_of::<SegmentEntry>() == 64);

impl SegmentEntry {
    #[inline]
    pub(crate) fn state(&self) -> SegmentState {
        SegmentState::from_bits(self.state.load(Ordering::Relaxed))
    }

    pub(crate) fn class(&self) -> SegmentClass {
        SegmentClass::ALL[self.class.load(Ordering::Relaxed) as usize]
    }

    /// The age in which its first object came.
    pub(crate) fn age(&self) -> u16 {
        self.age.load(Ordering::Relaxed)
    }

    /// When it was sealed, counted in seals; None of what is not sealed.
    pub(crate) fn sealed_at(&self) -> Option<u64> {
        let sealed = matches!(self.state(), SegmentState::Sealed | SegmentState::Draining);
        sealed.then(|| self.sealed_or_written.load(Ordering::Relaxed))
    }

    /// The blocks of an extent's segment that were written.
    pub(crate) fn written(&self) -> u64 {
        self.sealed_or_written.load(Ordering::Relaxed)
    }

    /// Some blocks of an extent's segment are going to be written.
    pub(crate) fn mark_written(&self, blocks: u64) {
        let is_extent = matches!(self.state(), SegmentState::Extent | SegmentState::Tail);
        debug_assert!(is_extent, "blocks of a segment are marked that is {:?}", self.state());
        if self.written() & blocks != blocks {
            self.sealed_or_written.fetch_or(blocks, Ordering::Relaxed);
        }
    }

    /// Its first object comes in this age.
    pub(crate) fn set_age(&self, age: u16) {
        self.age.store(age, Ordering::Relaxed);
    }

    /// Acquires: a thread that sees no live objects sees all that their killers did. Whoever does not know that the segment
    /// is of the present age asks `LogMemory::live`.
    #[inline]
    pub(crate) fn live(&self) -> Live {
        Live(self.live.load(Ordering::Acquire))
    }

    /// Returns the figures before and after.
    #[inline]
    pub(crate) fn add_live(&self, live: Live) -> (Live, Live) {
        let before = self.live.fetch_add(live.0, Ordering::Relaxed);
        (Live(before), Live(before.wrapping_add(live.0)))
    }

    /// Returns the figures before and after. Releases: the counterpart of `live`.
    #[inline]
    pub(crate) fn sub_live(&self, live: Live) -> (Live, Live) {
        let before = self.live.fetch_sub(live.0, Ordering::Release);
        (Live(before), Live(before.wrapping_sub(live.0)))
    }

    /// Everything in it is dead, all at once.
    pub(crate) fn forget_live(&self) {
        self.live.store(0, Ordering::Release);
    }

    fn go(&self, from: SegmentState, to: SegmentState) {
        let was = self.state();
        assert!(was == from, "a segment goes from {was:?} to {to:?}");
        self.state.store(to as u8, Ordering::Relaxed);
    }

    /// A segment that was free has nothing of its life before.
    fn assert_empty(&self) {
        assert!(self.live() == Live::new(0, 0), "objects live in a free segment");
        assert!(self.used.load(Ordering::Relaxed) == 0, "bytes are used in a free segment");
        assert!(self.out.load(Ordering::Relaxed) == 0, "pieces of a free segment are out");
        assert!(self.pins.load(Ordering::Relaxed) == 0, "a free segment is pinned");
    }

    pub(crate) fn open(&self, class: SegmentClass, start: u64, age: u16) {
        self.go(SegmentState::Free, SegmentState::Open);
        self.assert_empty();
        self.set_age(age);
        self.class.store(class as u8, Ordering::Relaxed);
        self.start.store(start, Ordering::Relaxed);
        self.fill.store(start, Ordering::Relaxed);
    }

    pub(crate) fn seal(&self, seals: u64) {
        assert!(self.out.load(Ordering::Relaxed) == 0, "sealed with pieces out");
        self.go(SegmentState::Open, SegmentState::Sealed);
        self.sealed_or_written.store(seals, Ordering::Relaxed);
    }

    pub(crate) fn choose(&self) {
        self.go(SegmentState::Sealed, SegmentState::Draining);
    }

    pub(crate) fn abandon(&self, cursor: u64) {
        let start = self.start.swap(cursor, Ordering::Relaxed);
        assert!(
            start <= cursor && cursor <= self.fill.load(Ordering::Relaxed),
            "a drain of {start}.. ends at {cursor}"
        );
        self.go(SegmentState::Draining, SegmentState::Sealed);
    }

    pub(crate) fn finish(&self) {
        let live = self.live();
        assert!(live == Live::new(0, 0), "drained, and {} objects of {} bytes live", live.objects(), live.bytes());
        assert!(self.used.load(Ordering::Relaxed) == 0, "drained, and bytes used");
        self.go(SegmentState::Draining, SegmentState::Free);
    }

    pub(crate) fn begin_extent(&self, segments: u32, start: u64, fill: u64, age: u16) {
        assert!(segments > 0 && start <= fill, "an extent of {segments} segments, {start}..{fill} in use");
        self.go(SegmentState::Free, SegmentState::Extent);
        self.assert_empty();
        assert!(self.cached.load(Ordering::Relaxed) == 0, "an extent begins with pages of other objects");
        self.set_age(age);
        self.extent_len.store(segments, Ordering::Relaxed);
        self.start.store(start, Ordering::Relaxed);
        self.fill.store(fill, Ordering::Relaxed);
        self.used.store(fill - start, Ordering::Relaxed);
        self.sealed_or_written.store(0, Ordering::Relaxed);
    }

    pub(crate) fn begin_tail(&self) {
        assert!(self.cached.load(Ordering::Relaxed) == 0, "a tail begins with pages of other objects");
        self.go(SegmentState::Free, SegmentState::Tail);
        self.sealed_or_written.store(0, Ordering::Relaxed);
    }

    pub(crate) fn retire(&self) {
        self.go(SegmentState::Extent, SegmentState::Retired);
    }

    pub(crate) fn free_extent(&self) {
        assert!(self.live() == Live::new(0, 0), "a run is freed that lives");
        assert!(self.pins.load(Ordering::Relaxed) == 0, "an extent is freed that is pinned");
        self.used.store(0, Ordering::Relaxed);
        self.go(SegmentState::Retired, SegmentState::Free);
    }

    pub(crate) fn free_tail(&self) {
        self.go(SegmentState::Tail, SegmentState::Free);
    }
}

/// The entries of all segments that the range can have.
#[derive(Debug)]
pub(crate) struct SegmentTable {
    entries: Mapping,
    len: u32,
    /// Entries looked at, for tests of what looks at many.
    #[cfg(test)]
    pub(crate) looks: AtomicU64,
}

// A page of zeros is a page of free segments.
const _: () = assert!(SegmentState::Free as u8 == 0);

impl SegmentTable {
    /// The table of `len` free segments.
    pub(crate) fn new(len: u32) -> io::Result<SegmentTable> {
        let entries = Mapping::sparse(len as usize * size_of::<SegmentEntry>())?;
        entries.prefer_huge_pages(0..entries.len(), false);
        Ok(SegmentTable {
            entries,
            len,
            #[cfg(test)]
            looks: AtomicU64::new(0),
        })
    }

    /// The entry of a segment.
    #[inline]
    pub(crate) fn entry(&self, segment: u32) -> &SegmentEntry {
        assert!(segment < self.len, "segment {segment} of {}", self.len);
        #[cfg(test)]
        self.looks.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the mapping has room for `len` entries by `new`, is aligned to a page, lives as long as `self`, and was
        // zero at first, which is an entry: all fields are atomics.
        unsafe { &*self.entries.base().cast::<SegmentEntry>().add(segment as usize) }
    }

    /// Bytes of memory that the table takes, of which this many entries from either end were ever in use.
    pub(crate) fn bytes(&self, reached: [u32; 2]) -> usize {
        let pages = |entries: u32| (entries as usize * size_of::<SegmentEntry>()).next_multiple_of(PAGE_BYTES);
        reached.into_iter().map(pages).sum::<usize>().min(self.entries.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_free_at_first_and_counted_by_pages() {
        let table = SegmentTable::new(100_000).expect("address space");
        for segment in [0, 63, 99_999u32] {
            assert_eq!(table.entry(segment).state(), SegmentState::Free);
            table.entry(segment).pins.store(segment, Ordering::Relaxed);
        }
        assert!([0, 63, 99_999].iter().all(|&at| table.entry(at).pins.load(Ordering::Relaxed) == at));
        assert_eq!((table.bytes([0, 0]), table.bytes([1, 65])), (0, 4096 + 2 * 4096));
    }

    #[test]
    fn granules_are_rounded_up_and_their_borders_seen() {
        let granules = Granules::of_segment(8 << 20);
        let counts = [0, 1, 32 << 10, (32 << 10) + 1].map(|bytes| granules.count(Live::new(3, bytes)));
        assert_eq!(counts, [0, 1, 1, 2]);
        let mut rng = varve_base::rng::Rng::seeded(3);
        for _ in 0..10_000 {
            let live = || Live::new(0, 0);
            let [a, b] = [live(), live()].map(|_| Live::new(rng.below(9), rng.below(200) * 1024 + rng.below(2)));
            assert_eq!(granules.differ(a, b), granules.count(a) != granules.count(b), "{a:?} and {b:?}");
        }
    }

    #[test]
    fn objects_borrow_nothing_from_bytes() {
        let entry = SegmentEntry::default();
        entry.add_live(Live::new(0, 100));
        entry.sub_live(Live::new(1, 40));
        assert_eq!((entry.live().objects(), entry.live().bytes()), (-1, 60));
        entry.add_live(Live::new(1, 0));
        assert_eq!((entry.live().objects(), entry.live().bytes()), (0, 60));
    }

    #[test]
    #[should_panic(expected = "goes from Free to Draining")]
    fn arrows_are_checked() {
        SegmentEntry::default().choose();
    }
}
