//! PageSpans: zeroed memory of whole pages for tables, cut from large mappings.
//!
//! ```text
//! region, one mapping of 16 MB
//! +------+-----------+------------+------+--------------------------------------+
//! | span | free      | span       | span | free: never touched, or given back   |
//! +------+-----------+------------+------+--------------------------------------+
//! ```
//! The kernel allows a process 65 530 mappings. If every table were one, some ten thousand collections of middle size
//! would use them up: neighbours that are mapped at different times merge, but each one that goes leaves a hole. So
//! tables share regions. A span that is dropped gives its memory back to the system at once; its addresses are joined with
//! their free neighbours. A region without spans is unmapped, but for one that is kept. Tables of over two megabytes have
//! a mapping of their own: as many of these as there may be mappings need more memory than machines have.
//!
//! The free stretches are found by their length, the shortest that is long enough first, in the logarithm of their number.
//! One lock for all threads, held for some hundred nanoseconds, or for a system call where a region comes or goes. Nothing
//! else is locked under it.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::ops::Range;
use std::ptr::NonNull;

use parking_lot::{Mutex, MutexGuard};

use crate::mem::{self, Mapping, PAGE_BYTES};

/// Bytes of a region; where the system refuses that, the smaller size.
const REGION_BYTES: [usize; 2] = [16 << 20, 4 << 20];
/// Longer ones have a mapping of their own.
const SPAN_MAX: usize = 2 << 20;
/// Regions without spans that are kept.
const EMPTY_MAX: usize = 1;

static POOL: Mutex<Pool> = Mutex::new(Pool::new());

/// Memory of whole pages that reads as zero at first.
#[derive(Debug)]
pub struct PageSpan {
    base: NonNull<u8>,
    len: usize,
    /// None: it is cut from a region.
    own: Option<Mapping>,
}

// SAFETY: a span owns its range of addresses as a Box owns its memory; it gives out raw pointers only.
unsafe impl Send for PageSpan {}
// SAFETY: as above; `release` is a system call that is safe to make from any thread.
unsafe impl Sync for PageSpan {}

impl PageSpan {
    /// A span of `len` bytes, rounded up to whole pages, that read as zero and can be written.
    ///
    /// # Errors
    /// If the system refuses the memory.
    pub fn zeroed(len: usize) -> io::Result<PageSpan> {
        assert!(len > 0, "an empty span");
        let len = len.next_multiple_of(PAGE_BYTES);
        if len > SPAN_MAX {
            let own = Mapping::zeroed(len)?;
            let base = NonNull::new(own.base()).expect("a mapping is not at zero");
            return Ok(PageSpan { base, len, own: Some(own) });
        }
        let base = pool().take(len)?;
        Ok(PageSpan { base, len, own: None })
    }

    /// The first address.
    #[inline(always)]
    pub fn base(&self) -> NonNull<u8> {
        self.base
    }

    /// Bytes, a multiple of the page size.
    #[inline(always)]
    #[allow(clippy::len_without_is_empty, reason = "a span is never empty")]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Asks for the memory behind `range`, whole pages, to be in place before it is touched. A hint.
    pub fn populate(&self, range: Range<usize>) {
        assert!(range.start <= range.end && range.end <= self.len, "{range:?} of {} bytes", self.len);
        // SAFETY: the range lies in this span, as was just checked.
        unsafe { mem::populate(self.base.as_ptr().add(range.start), range.len()) };
    }

    /// Gives the memory behind `range`, whole pages, back; the range stays and reads as zero.
    ///
    /// # Safety
    /// Nobody may hold a Rust reference into the range, and nobody may rely on what it held.
    pub unsafe fn release(&self, range: Range<usize>) {
        assert!(range.start <= range.end && range.end <= self.len, "{range:?} of {} bytes", self.len);
        // SAFETY: the range lies in this span, as was just checked; the rest is passed on to the caller.
        unsafe { mem::discard(self.base.as_ptr().add(range.start), range.len()) };
    }
}

impl Drop for PageSpan {
    fn drop(&mut self) {
        if self.own.is_none() {
            // SAFETY: the span ends; whoever still holds a pointer into it breaks its contract.
            unsafe { mem::discard(self.base.as_ptr(), self.len) };
            pool().give(self.base.addr().get(), self.len);
        }
    }
}

/// Bytes of all regions, and of these, those that are cut out as spans.
pub fn pool_bytes() -> (usize, usize) {
    let pool = pool();
    let all: usize = pool.regions.values().map(|region| region.mapping.len()).sum();
    (all, all - pool.by_place.values().sum::<usize>())
}

fn pool() -> MutexGuard<'static, Pool> {
    // A panic leaves the pool whole: nothing panics between two changes of it but a broken invariant.
    POOL.lock()
}

struct Region {
    mapping: Mapping,
    /// Bytes of it that are free.
    free: usize,
}

/// The regions and their free stretches.
struct Pool {
    /// By address.
    regions: BTreeMap<usize, Region>,
    /// Address and length of each free stretch. No two of one region touch.
    by_place: BTreeMap<usize, usize>,
    /// Length and address.
    by_len: BTreeSet<(usize, usize)>,
    /// Regions that are free as a whole.
    empty: usize,
}

impl Pool {
    const fn new() -> Pool {
        Pool { regions: BTreeMap::new(), by_place: BTreeMap::new(), by_len: BTreeSet::new(), empty: 0 }
    }

    fn take(&mut self, len: usize) -> io::Result<NonNull<u8>> {
        let found = self.by_len.range((len, 0)..).next().copied();
        let (free, at) = match found {
            Some(stretch) => stretch,
            None => self.add_region()?,
        };
        self.remove(at);
        self.insert(at + len, free - len);
        let (_, region) = self.regions.range_mut(..=at).next_back().expect("a free stretch lies in a region");
        self.empty -= usize::from(region.free == region.mapping.len());
        region.free -= len;
        // The pointer is made of the mapping's, so that it may be followed.
        let base = region.mapping.base().wrapping_add(at - region.mapping.base().addr());
        Ok(NonNull::new(base).expect("a mapping is not at zero"))
    }

    fn add_region(&mut self) -> io::Result<(usize, usize)> {
        let [large, small] = REGION_BYTES;
        let mapping = Mapping::zeroed(large).or_else(|_| Mapping::zeroed(small))?;
        mapping.prefer_huge_pages(0..mapping.len(), false);
        let (at, len) = (mapping.base().addr(), mapping.len());
        self.regions.insert(at, Region { mapping, free: len });
        self.insert(at, len);
        self.empty += 1;
        Ok((len, at))
    }

    fn give(&mut self, at: usize, len: usize) {
        let (&begin, region) = self.regions.range_mut(..=at).next_back().expect("a span lies in a region");
        let end = begin + region.mapping.len();
        assert!(at + len <= end, "a span of {len} bytes at {at:#x} lies in no region");
        region.free += len;
        let is_empty = region.free == region.mapping.len();
        let (mut at, mut len) = (at, len);
        if let Some((&before, &bytes)) = self.by_place.range(begin..at).next_back() {
            assert!(before + bytes <= at, "a span at {at:#x} is given back twice");
            if before + bytes == at {
                self.remove(before);
                (at, len) = (before, bytes + len);
            }
        }
        if let Some((&after, &bytes)) = self.by_place.range(at..end).next() {
            assert!(at + len <= after, "a span at {at:#x} is given back twice");
            if at + len == after {
                self.remove(after);
                len += bytes;
            }
        }
        if is_empty && self.empty >= EMPTY_MAX {
            self.regions.remove(&begin);
            return;
        }
        self.empty += usize::from(is_empty);
        self.insert(at, len);
    }

    fn insert(&mut self, at: usize, len: usize) {
        if len > 0 {
            self.by_place.insert(at, len);
            self.by_len.insert((len, at));
        }
    }

    fn remove(&mut self, at: usize) {
        let len = self.by_place.remove(&at).expect("a free stretch that was just found");
        self.by_len.remove(&(len, at));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;

    #[test]
    fn spans_are_zero_apart_and_given_back() {
        let mut rng = Rng::seeded(5);
        let mut spans: Vec<(PageSpan, u8)> = Vec::new();
        for round in 0..4000_u32 {
            if spans.len() > 60 && rng.below(2) == 0 {
                let (span, mark) = spans.swap_remove(rng.below(spans.len() as u64) as usize);
                // SAFETY: inside the span, which nobody else has.
                let ends = unsafe { (span.base().read(), span.base().add(span.len() - 1).read()) };
                assert_eq!(ends, (mark, mark), "another span has written here");
            } else {
                let span = PageSpan::zeroed(1 + rng.below(400_000) as usize).expect("memory");
                let mark = round as u8 | 1;
                // SAFETY: as above.
                unsafe {
                    for at in (0..span.len()).step_by(PAGE_BYTES) {
                        assert_eq!(span.base().add(at).read(), 0, "a span reads as zero");
                    }
                    span.base().write(mark);
                    span.base().add(span.len() - 1).write(mark);
                }
                spans.push((span, mark));
            }
        }
        let mut ranges: Vec<(usize, usize)> =
            spans.iter().map(|(span, _)| (span.base().addr().get(), span.len())).collect();
        ranges.sort_unstable();
        assert!(ranges.windows(2).all(|pair| pair[0].0 + pair[0].1 <= pair[1].0), "spans overlap");
        drop(spans);
        let pool = pool();
        assert!(pool.by_place.len() <= pool.regions.len() + 8, "neighbours are joined: {:?}", pool.by_place);
    }

    #[test]
    fn a_released_part_reads_as_zero_and_a_long_span_is_a_mapping() {
        let span = PageSpan::zeroed(SPAN_MAX + 1).expect("memory");
        assert!(span.own.is_some() && span.len() == SPAN_MAX + PAGE_BYTES);
        let span = PageSpan::zeroed(5 * PAGE_BYTES).expect("memory");
        // SAFETY: inside the span, no references held.
        unsafe {
            (0..5).for_each(|page| span.base().add(page * PAGE_BYTES).write(9));
            span.release(PAGE_BYTES..3 * PAGE_BYTES);
            let pages: Vec<u8> = (0..5).map(|page| span.base().add(page * PAGE_BYTES).read()).collect();
            assert_eq!(pages, [9, 0, 0, 9, 9]);
        }
    }
}
