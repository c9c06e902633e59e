//! A table of fixed size: buckets in one piece of memory, and the pool of their overflow buckets.
//!
//! ```text
//! put:     home has a free cell               -> there, native
//!          its extension has one              -> there, foreign, counted in the home's link
//!          a native of the extension can move
//!          to that one's own extension        -> in its place, foreign
//!          else                               -> the home's chain
//! ```
//!
//! The extension is chosen when first needed, the emptiest of five, and kept until the last borrowed cell is given
//! back. A bucket that has a chain has no free cell: `remove` refills it from the chain. Buckets below one page live on
//! the heap, more in a span of pages.

use crate::bucket::{Bucket, EXTENSION_REACH, EXTENSIONS};
use crate::cell::Word;
use crate::hash_space::{POSITION_BITS, position};
use crate::pool::Pool;
use std::alloc::Layout;
use std::io;
use std::ptr::NonNull;
use varve_base::group::{BucketHead, Mask, Tag};
use varve_base::mem::{Line, PAGE_BYTES};
use varve_base::span::PageSpan;

/// Most buckets of one part: a position times their number stays below 2^64.
pub(crate) const BUCKETS_MAX: u64 = (1 << 28) - 1;

/// Memory is given back behind the cursor of a move in steps of this many bytes.
pub(crate) const RELEASE_BYTES: usize = 256 << 10;

/// Memory is asked for ahead of the entries that move into a table in steps of this many bytes.
const POPULATE_BYTES: usize = 4 * PAGE_BYTES;

/// The first page is kept while a part is emptied: the last buckets borrow from the first ones.
const _: () = assert!((EXTENSION_REACH + 1) * 64 <= PAGE_BYTES as u64);

static NO_BUCKET: Bucket = Bucket::EMPTY;

/// Where the buckets live.
enum Memory {
    /// Nowhere: one shared bucket that stays empty stands in, so that a search needs no case of its own.
    None,
    Heap(Layout),
    Pages(PageSpan),
}

/// Where an entry is, as seen from its home.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum BucketKind {
    Home,
    Extension,
    Chain,
}

/// The place of an entry in a part.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct PartPos {
    pub(crate) home: u32,
    /// The bucket, or in a chain the overflow bucket.
    pub(crate) at: u32,
    pub(crate) place: BucketKind,
    pub(crate) cell: u8,
    /// Which of a table's two parts; the table's to set.
    pub(crate) side: u8,
}

/// The wanted entries at home in one home: an iterator, so that the question which one it is stands in the caller's loop. A
/// closure that is passed down is called, not inlined, where many ask the same: 30 instructions for each look for a key.
pub(crate) struct Candidates<'p, W> {
    part: &'p Part,
    home: u64,
    wanted: W,
    look: Look<'p>,
}

impl<W: Wanted> Iterator for Candidates<'_, W> {
    type Item = (PartPos, Word);

    #[inline(always)]
    fn next(&mut self) -> Option<(PartPos, Word)> {
        loop {
            let Look { bucket, at, place, .. } = self.look;
            if let Some(cell) = self.look.cells.next() {
                let spot = PartPos { home: self.home as u32, at, place, cell: cell as u8, side: 0 };
                return Some((spot, bucket.get(cell)));
            }
            if place == BucketKind::Home && !bucket.is_linked() {
                return None;
            }
            self.look = self.part.next_look(self.home, (place, at), self.wanted)?;
        }
    }
}

/// A bucket that is looked through for entries at home in one home.
struct Look<'p> {
    bucket: &'p Bucket,
    /// The candidates that are left in it.
    cells: Mask,
    /// The number of the bucket, like that of [`PartPos`].
    at: u32,
    place: BucketKind,
}

/// Which cells of a bucket are candidates, those that hold nothing included.
pub(crate) trait Wanted: Copy {
    fn among(self, head: &BucketHead) -> Mask;
}

impl Wanted for Tag {
    #[inline(always)]
    fn among(self, head: &BucketHead) -> Mask {
        head.with(self)
    }
}

pub(crate) struct Part {
    base: NonNull<Bucket>,
    count: u64,
    memory: Memory,
    pool: Pool,
    /// Bytes at the start, but for the first page, that the system has back.
    released: usize,
    /// Bytes at the start whose memory was asked for ([`Part::populate_to`]).
    populated: usize,
}

// SAFETY: a part owns its buckets as a Vec would; the stand-in of an empty part is never written.
unsafe impl Send for Part {}
// SAFETY: as above; nothing changes through a shared reference.
unsafe impl Sync for Part {}

impl Part {
    /// A part without memory. It holds nothing and nothing may be put into it.
    pub(crate) fn none() -> Part {
        Part {
            base: NonNull::from_ref(&NO_BUCKET),
            count: 1,
            memory: Memory::None,
            pool: Pool::default(),
            released: 0,
            populated: 0,
        }
    }

    /// A part of `count` empty buckets.
    ///
    /// # Errors
    /// If the system has no memory for them. Less than a page comes from the heap, whose end is the process's.
    pub(crate) fn new(count: u64) -> io::Result<Part> {
        assert!((1..=BUCKETS_MAX).contains(&count), "{count} buckets");
        let bytes = count as usize * 64;
        let (base, memory) = if bytes < PAGE_BYTES {
            let layout = Layout::array::<Bucket>(count as usize).expect("less than a page");
            // SAFETY: the layout is not empty, since there is at least one bucket.
            let base = unsafe { std::alloc::alloc_zeroed(layout) };
            (NonNull::new(base).unwrap_or_else(|| std::alloc::handle_alloc_error(layout)), Memory::Heap(layout))
        } else {
            let span = PageSpan::zeroed(bytes)?;
            (span.base(), Memory::Pages(span))
        };
        Ok(Part { base: base.cast(), count, memory, pool: Pool::default(), released: PAGE_BYTES, populated: 0 })
    }

    #[inline]
    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    pub(crate) fn address(&self) -> usize {
        self.base.addr().get()
    }

    #[inline]
    pub(crate) fn is_none(&self) -> bool {
        matches!(self.memory, Memory::None)
    }

    #[inline]
    pub(crate) fn pool(&self) -> &Pool {
        &self.pool
    }

    /// Becomes a part without memory, but for the overflow buckets, none of which is in use: they are freed in steps.
    pub(crate) fn retire(&mut self) {
        let pool = std::mem::take(&mut self.pool);
        *self = Part::none();
        self.pool = pool;
    }

    pub(crate) fn pool_mut(&mut self) -> &mut Pool {
        &mut self.pool
    }

    /// Bytes of all buckets.
    #[inline]
    pub(crate) fn size_bytes(&self) -> usize {
        match &self.memory {
            Memory::None => 0,
            Memory::Heap(layout) => layout.size(),
            Memory::Pages(span) => span.len(),
        }
    }

    /// Bytes of the buckets, without what was released.
    #[inline]
    pub(crate) fn bucket_bytes(&self) -> usize {
        if self.is_none() { 0 } else { self.size_bytes() - (self.released - PAGE_BYTES) }
    }

    /// The home bucket of a position.
    #[inline(always)]
    pub(crate) fn home(&self, position: u64) -> u64 {
        (position * self.count) >> POSITION_BITS
    }

    /// The first position at home in `bucket`, which may be one past the last.
    pub(crate) fn first_position(&self, bucket: u64) -> u64 {
        (bucket << POSITION_BITS).div_ceil(self.count)
    }

    #[inline(always)]
    pub(crate) fn bucket(&self, at: u64) -> &Bucket {
        debug_assert!(at < self.count, "bucket {at} of {}", self.count);
        // SAFETY: `at` is below the count: it is a home, or a step from one wrapped by `step`, or was checked by
        // `spot_bucket`.
        unsafe { self.base.add(at as usize).as_ref() }
    }

    #[inline(always)]
    pub(crate) fn bucket_mut(&mut self, at: u64) -> &mut Bucket {
        debug_assert!(at < self.count, "bucket {at} of {}", self.count);
        debug_assert!(!self.is_none(), "the stand-in is not for writing");
        // SAFETY: as in `bucket`. Writable: only `put` gives a part its first entry, and it asserts that there is
        // memory; everything else writes where entries are.
        unsafe { self.base.add(at as usize).as_mut() }
    }

    #[inline(always)]
    pub(crate) fn line(&self, at: u64) -> Line {
        Line::of(self.base.as_ptr().wrapping_add(at as usize))
    }

    #[inline(always)]
    pub(crate) fn prefetch(&self, at: u64) {
        self.line(at).fetch();
    }

    /// The bucket `by` further on.
    #[inline(always)]
    pub(crate) fn step(&self, from: u64, by: u64) -> u64 {
        let mut at = from + by;
        while at >= self.count {
            at -= self.count;
        }
        at
    }

    /// The extension bucket of `home`, if it has one.
    #[inline(always)]
    pub(crate) fn extension(&self, home: u64) -> Option<u64> {
        self.bucket(home).extension().map(|by| self.step(home, by))
    }

    /// The ids of the overflow buckets of `home`.
    pub(crate) fn chain(&self, home: u64) -> impl Iterator<Item = u32> + '_ {
        std::iter::successors(self.bucket(home).chain(), |&id| self.pool.get(id).chain())
    }

    /// The wanted entries at home in `home`.
    #[inline(always)]
    pub(crate) fn candidates<W: Wanted>(&self, home: u64, wanted: W) -> Candidates<'_, W> {
        let bucket = self.bucket(home);
        let cells = wanted.among(bucket.head()) & bucket.head().native();
        let look = Look { bucket, cells, at: home as u32, place: BucketKind::Home };
        Candidates { part: self, home, wanted, look }
    }

    /// The bucket with entries of `home` behind the one at this place, if there is one. Kept apart so that the common case
    /// stays small where it is inlined.
    #[inline(never)]
    fn next_look(&self, home: u64, (place, at): (BucketKind, u32), wanted: impl Wanted) -> Option<Look<'_>> {
        let is_linked = place != BucketKind::Home || self.bucket(home).is_linked();
        debug_assert!(is_linked, "nothing lies behind bucket {home}");
        let next = match place {
            BucketKind::Home => {
                if let Some(at) = self.extension(home) {
                    let bucket = self.bucket(at);
                    // The tag may be another home's: what is not at home here must not be found, else its removal would
                    // be counted here. The caller's question decides it, as it is about one entry.
                    let cells = wanted.among(bucket.head()) & bucket.head().foreign();
                    return Some(Look { bucket, cells, at: at as u32, place: BucketKind::Extension });
                }
                self.bucket(home).chain()
            }
            BucketKind::Extension => self.bucket(home).chain(),
            BucketKind::Chain => self.pool.get(at).chain(),
        };
        let at = next?;
        let bucket = self.pool.get(at);
        let cells = wanted.among(bucket.head()) & bucket.head().valid();
        Some(Look { bucket, cells, at, place: BucketKind::Chain })
    }

    /// The bucket of a spot that came from outside.
    #[inline(always)]
    pub(crate) fn spot_bucket(&self, spot: PartPos) -> &Bucket {
        let bucket = if spot.place == BucketKind::Chain {
            self.pool.get(spot.at)
        } else {
            assert!(u64::from(spot.at) < self.count, "a cell of another table");
            self.bucket(u64::from(spot.at))
        };
        assert!(bucket.head().valid().has(usize::from(spot.cell)), "a cell that is no longer valid");
        bucket
    }

    pub(crate) fn replace(&mut self, spot: PartPos, r: Word) {
        self.spot_bucket(spot);
        let bucket = if spot.place == BucketKind::Chain {
            self.pool.get_mut(spot.at)
        } else {
            self.bucket_mut(u64::from(spot.at))
        };
        bucket.set(usize::from(spot.cell), r);
    }

    /// Adds an entry at home in `home`.
    #[inline]
    pub(crate) fn put(&mut self, home: u64, tag: Tag, r: Word, displace: u32) {
        assert!(!self.is_none(), "nothing is put into a part without memory");
        let bucket = self.bucket_mut(home);
        match bucket.head().free().first() {
            Some(cell) => bucket.fill(cell, tag, true, r),
            None => self.put_beyond(home, tag, r, displace),
        }
    }

    #[cold]
    fn put_beyond(&mut self, home: u64, tag: Tag, r: Word, displace: u32) {
        if let Some(k) = self.find_room(home, displace) {
            let at = self.step(home, k * k);
            let cell = self.bucket(at).head().free().first().expect("room was found");
            self.bucket_mut(at).fill(cell, tag, false, r);
            self.bucket_mut(home).borrow_one(k);
            return;
        }
        // Rare: moves further on came round and freed a cell here without leaving room there.
        if let Some(cell) = self.bucket(home).head().free().first() {
            return self.bucket_mut(home).fill(cell, tag, true, r);
        }
        let first = self.bucket(home).chain();
        let with_room = self.chain(home).find(|&id| !self.pool.get(id).head().valid().is_full());
        let id = with_room.unwrap_or_else(|| {
            let id = self.pool.allocate();
            self.pool.get_mut(id).set_chain(first);
            self.bucket_mut(home).set_chain(Some(id));
            id
        });
        let bucket = self.pool.get_mut(id);
        let cell = bucket.head().free().first().expect("an overflow bucket with room");
        bucket.fill(cell, tag, true, r);
    }

    /// An extension of `home` with a free cell, made free by up to `displace` moves where it must be.
    fn find_room(&mut self, home: u64, displace: u32) -> Option<u64> {
        let has_room = |part: &Part, k: u64| !part.bucket(part.step(home, k * k)).head().valid().is_full();
        let current = self.bucket(home).extension_k();
        if current != 0 {
            let at = self.step(home, current * current);
            return (has_room(self, current) || self.make_room(at, displace)).then_some(current);
        }
        let others = (1..=EXTENSIONS).filter(|k| self.step(home, k * k) != home);
        let k = others.min_by_key(|k| self.bucket(self.step(home, k * k)).head().valid().count())?;
        if has_room(self, k) {
            return Some(k);
        }
        let k = (1..=EXTENSIONS).find(|k| {
            let at = self.step(home, k * k);
            at != home && self.make_room(at, displace)
        })?;
        // With a bound of two or more, a move further on may have given this bucket its extension.
        match self.bucket(home).extension_k() {
            0 => Some(k),
            now => has_room(self, now).then_some(now),
        }
    }

    /// Moves a native entry of the full bucket `at` to that bucket's own extension.
    fn make_room(&mut self, at: u64, displace: u32) -> bool {
        if displace == 0 || self.bucket(at).head().native().is_empty() {
            return false;
        }
        let Some(k) = self.find_room(at, displace - 1) else { return false };
        let to = self.step(at, k * k);
        // Making room further on may have come round to this bucket.
        if !self.bucket(at).head().valid().is_full() {
            return true;
        }
        let (Some(cell), Some(free)) = (self.bucket(at).head().native().first(), self.bucket(to).head().free().first())
        else {
            return false;
        };
        let (tag, r) = self.bucket_mut(at).take(cell);
        self.bucket_mut(to).fill(free, tag, false, r);
        self.bucket_mut(at).borrow_one(k);
        true
    }

    /// Removes the entry of a spot.
    pub(crate) fn remove(&mut self, spot: PartPos) -> Word {
        self.spot_bucket(spot);
        let (home, at, cell) = (u64::from(spot.home), u64::from(spot.at), usize::from(spot.cell));
        if spot.place == BucketKind::Chain {
            let (_, r) = self.pool.get_mut(spot.at).take(cell);
            self.unchain_if_empty(home, spot.at);
            return r;
        }
        let (_, r) = self.bucket_mut(at).take(cell);
        if spot.place == BucketKind::Extension {
            assert!(home < self.count, "a cell of another table");
            self.bucket_mut(home).give_back_one();
        }
        self.refill(at);
        r
    }

    /// Takes an entry of the bucket's chain, if it has one, into the cell that has become free.
    fn refill(&mut self, at: u64) {
        let Some(id) = self.bucket(at).chain() else { return };
        let from = self.pool.get_mut(id);
        let cell = from.head().valid().first().expect("no overflow bucket is empty");
        let (tag, r) = from.take(cell);
        let free = self.bucket(at).head().free().first().expect("a cell has become free");
        self.bucket_mut(at).fill(free, tag, true, r);
        self.unchain_if_empty(at, id);
    }

    fn unchain_if_empty(&mut self, home: u64, id: u32) {
        if !self.pool.get(id).head().valid().is_empty() {
            return;
        }
        let next = self.pool.get(id).chain();
        let before = self.chain(home).take_while(|&other| other != id).last();
        match before {
            Some(before) => self.pool.get_mut(before).set_chain(next),
            None => {
                assert_eq!(self.bucket(home).chain(), Some(id), "an overflow bucket of another chain");
                self.bucket_mut(home).set_chain(next);
            }
        }
        self.pool.release(id);
    }

    /// Shows every entry at home in `home` with its tag.
    pub(crate) fn each_at_home(&self, home: u64, hash_of: impl Fn(Word, Tag) -> u64, mut emit: impl FnMut(Word, Tag)) {
        let bucket = self.bucket(home);
        for cell in bucket.head().native() {
            emit(bucket.get(cell), bucket.head().tag(cell));
        }
        for (_, r, hash) in self.borrowed(home, hash_of) {
            emit(r, Tag(hash as u16));
        }
        for id in self.chain(home) {
            let bucket = self.pool.get(id);
            for cell in bucket.head().valid() {
                emit(bucket.get(cell), bucket.head().tag(cell));
            }
        }
    }

    /// The entries of `home` in its extension bucket: cell, reference, hash. The hash of a foreign entry gives its home.
    fn borrowed(&self, home: u64, hash_of: impl Fn(Word, Tag) -> u64) -> impl Iterator<Item = (usize, Word, u64)> {
        let at = self.extension(home).unwrap_or(home);
        let many = self.bucket(home).borrowed();
        let foreign = if many == 0 { BucketHead::EMPTY.foreign() } else { self.bucket(at).head().foreign() };
        foreign
            .map(move |cell| (cell, self.bucket(at).get(cell), self.bucket(at).head().tag(cell)))
            .map(move |(cell, r, tag)| (cell, r, hash_of(r, tag)))
            .filter(move |&(_, _, hash)| self.home(position(hash)) == home)
            .take(many)
    }

    /// Takes every entry at home in `home` out and hands it on with its hash.
    pub(crate) fn drain_home(
        &mut self,
        home: u64,
        hash_of: impl Fn(Word, Tag) -> u64,
        mut take: impl FnMut(u64, Word),
    ) {
        if let Some(at) = self.extension(home) {
            let mut cells = [0; 7];
            let mut many = 0;
            for (cell, r, hash) in self.borrowed(home, &hash_of) {
                cells[many] = cell;
                many += 1;
                take(hash, r);
            }
            for &cell in &cells[..many] {
                self.bucket_mut(at).take(cell);
                self.bucket_mut(home).give_back_one();
            }
            for _ in 0..many {
                self.refill(at);
            }
        }
        while let Some(id) = self.bucket(home).chain() {
            let bucket = self.pool.get_mut(id);
            for cell in bucket.head().valid() {
                let (tag, r) = bucket.take(cell);
                take(hash_of(r, tag), r);
            }
            self.unchain_if_empty(home, id);
        }
        for cell in self.bucket(home).head().native() {
            let (tag, r) = self.bucket_mut(home).take(cell);
            take(hash_of(r, tag), r);
        }
    }

    /// Has the memory in place for entries that move to homes up to this one. A page that is read first, for a free cell, is
    /// the system's page of zeroes, and the write behind that makes it another: two faults, and all processors on which the
    /// process runs are interrupted to forget the first. With two threads that was a tenth of the CPU of growing tables.
    pub(crate) fn populate_to(&mut self, home: u64) {
        let Memory::Pages(span) = &self.memory else { return };
        // An entry may go to the extension of its home, or send one from there to that one's.
        let end = ((home + 2 * EXTENSION_REACH + 1) as usize * 64).min(span.len());
        if end > self.populated {
            let end = end.next_multiple_of(POPULATE_BYTES).min(span.len());
            span.populate(self.populated..end);
            self.populated = end;
        }
    }

    /// Whether the memory of all buckets was asked for; so it is behind a move.
    pub(crate) fn is_populated(&self) -> bool {
        !matches!(&self.memory, Memory::Pages(span) if self.populated < span.len())
    }

    /// Gives memory back before `cursor`, the first bucket that still has entries at home.
    pub(crate) fn release_before(&mut self, cursor: u64) {
        let Memory::Pages(span) = &self.memory else { return };
        let end = self.released + RELEASE_BYTES;
        if (cursor as usize) * 64 >= end {
            // SAFETY: no reference into the buckets is held across this call, which has `&mut self`. Those before the
            // cursor hold nothing: their own entries have moved, and foreign ones come from before them, or wrapped
            // from the end into the first page, which is kept. Of a table that is being emptied they hold nothing at
            // all, and no link that leads to an entry; of one that is discarded nobody looks at them again, and a
            // look would find zeroes, which are empty buckets.
            unsafe { span.release(self.released..end) };
            self.released = end;
        }
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        if let Memory::Heap(layout) = self.memory {
            // SAFETY: `base` was allocated with this layout and is freed here only.
            unsafe { std::alloc::dealloc(self.base.as_ptr().cast(), layout) };
        }
    }
}
