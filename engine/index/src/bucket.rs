//! One bucket: a cache line with seven entries.
//!
//! ```text
//! byte  0       1        2                         16                              58              64
//!      +-------+--------+--------- ... -----------+------------- ... -------------+---------------+
//!      | valid | native | tag 0 .. tag 6, 16 bits | word 0 .. 6, 48 bits each      | link, 48 bits |
//!      +-------+--------+--------- ... -----------+------------- ... -------------+---------------+
//!
//! link  47        38 37                                6 5         3 2          0
//!      +------------+-----------------------------------+-----------+------------+
//!      |     0      |  id + 1 of the first of the chain | borrowed  | extension  |
//!      +------------+-----------------------------------+-----------+------------+
//! ```
//!
//! - extension: 0 for none, else k for the bucket k^2 further on (wrapping), of which this one borrows cells;
//! - borrowed: how many cells it has borrowed there, 1 to 7; 0 exactly when there is no extension;
//! - chain: overflow buckets of this bucket's own entries. In an overflow bucket all entries count as native, the
//!   link's chain is the next one of the chain (or of the free list), and the rest of the link is zero.
//!
//! Integers are little-endian. A bucket of zeros is an empty one. All packed words are read and written here only.

use crate::cell::Word;
use varve_base::Ref;
use varve_base::group::{BucketHead, CELLS, Tag};

/// Buckets to look at for an extension: those 1, 4, 9, 16 and 25 further on.
pub(crate) const EXTENSIONS: u64 = 5;

/// The furthest that a borrowed cell lies behind its home, in buckets.
pub(crate) const EXTENSION_REACH: u64 = EXTENSIONS * EXTENSIONS;

const EXTENSION_BITS: u64 = 0b111;
const BORROWED_ONE: u64 = 1 << 3;
const BORROWED_BITS: u64 = 0b111 << 3;
const CHAIN_SHIFT: u32 = 6;
const WORD_MASK: u64 = (1 << Ref::BITS) - 1;
const REFS_AT: usize = 16;
const LINK_AT: usize = 58;

/// Seven entries and a link.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
pub(crate) struct Bucket {
    head: BucketHead,
    refs: [[u8; 6]; CELLS],
    link: [u8; 6],
}

const _: () = assert!(size_of::<Bucket>() == 64 && align_of::<Bucket>() == 64);
const _: () = assert!(std::mem::offset_of!(Bucket, refs) == REFS_AT && std::mem::offset_of!(Bucket, link) == LINK_AT);

impl Bucket {
    pub(crate) const EMPTY: Bucket = Bucket { head: BucketHead::EMPTY, refs: [[0; 6]; CELLS], link: [0; 6] };

    #[inline(always)]
    pub(crate) fn head(&self) -> &BucketHead {
        &self.head
    }

    /// The word in `cell`, which must hold an entry: it comes from a mask of this head, or from an `IndexEntry` that the
    /// table has checked.
    #[inline(always)]
    pub(crate) fn get(&self, cell: usize) -> Word {
        debug_assert!(self.head.valid().has(cell), "cell {cell} is free");
        // One wide read in place of six bytes; the last one ends at byte 60 of 64.
        const _: () = assert!(REFS_AT + 6 * (CELLS - 1) + 8 <= 64);
        // SAFETY: the eight bytes at `16 + 6 * cell` lie inside this bucket by the assertion above.
        let word =
            unsafe { std::ptr::from_ref(self).cast::<u8>().add(REFS_AT + 6 * cell).cast::<u64>().read_unaligned() };
        Word::new(u64::from_le(word) & WORD_MASK)
    }

    #[inline(always)]
    pub(crate) fn set(&mut self, cell: usize, r: Word) {
        debug_assert!(self.head.valid().has(cell), "cell {cell} is free");
        self.refs[cell] = low_bytes(r.bits());
    }

    /// Fills a free cell.
    #[inline(always)]
    pub(crate) fn fill(&mut self, cell: usize, tag: Tag, native: bool, r: Word) {
        self.head.fill(cell, tag, native);
        self.refs[cell] = low_bytes(r.bits());
    }

    /// Empties a cell and returns what it held.
    #[inline(always)]
    pub(crate) fn take(&mut self, cell: usize) -> (Tag, Word) {
        let entry = (self.head.tag(cell), self.get(cell));
        self.head.empty(cell);
        entry
    }

    /// Whether entries at home here are somewhere else.
    #[inline(always)]
    pub(crate) fn is_linked(&self) -> bool {
        self.link() != 0
    }

    /// The step to the extension bucket, if there is one: 1, 4, 9, 16 or 25.
    #[inline(always)]
    pub(crate) fn extension(&self) -> Option<u64> {
        let k = self.link() & EXTENSION_BITS;
        (k != 0).then_some(k * k)
    }

    /// How many cells of the extension bucket hold entries at home here.
    #[inline(always)]
    pub(crate) fn borrowed(&self) -> usize {
        ((self.link() & BORROWED_BITS) / BORROWED_ONE) as usize
    }

    /// Counts one more cell borrowed in the bucket `k^2` further on.
    pub(crate) fn borrow_one(&mut self, k: u64) {
        let (link, old) = (self.link(), self.link() & EXTENSION_BITS);
        assert!(old == k || (old == 0 && (1..=EXTENSIONS).contains(&k)), "extension {old} becomes {k}");
        assert!(self.borrowed() < CELLS, "more cells borrowed than there are");
        self.set_link((link & !EXTENSION_BITS | k) + BORROWED_ONE);
    }

    /// Counts one cell less; with the last one the extension goes.
    pub(crate) fn give_back_one(&mut self) {
        assert!(self.borrowed() > 0, "no cell is borrowed");
        let link = self.link() - BORROWED_ONE;
        self.set_link(if link & BORROWED_BITS == 0 { link & !EXTENSION_BITS } else { link });
    }

    /// The number of the extension, 0 for none.
    pub(crate) fn extension_k(&self) -> u64 {
        self.link() & EXTENSION_BITS
    }

    /// The first overflow bucket of the chain, or the next one in an overflow bucket.
    #[inline(always)]
    pub(crate) fn chain(&self) -> Option<u32> {
        ((self.link() >> CHAIN_SHIFT) as u32).checked_sub(1)
    }

    pub(crate) fn set_chain(&mut self, id: Option<u32>) {
        let rest = self.link() & (EXTENSION_BITS | BORROWED_BITS);
        let next = id.map_or(0, |id| u64::from(id) + 1);
        self.set_link(rest | next << CHAIN_SHIFT);
    }

    #[inline(always)]
    fn link(&self) -> u64 {
        // SAFETY: the last eight bytes of this bucket; they are initialised, and aligned as 56 is.
        let word = unsafe { std::ptr::from_ref(self).cast::<u64>().add(7).read() };
        u64::from_le(word) >> 16
    }

    fn set_link(&mut self, link: u64) {
        debug_assert!(link >> 48 == 0);
        self.link = low_bytes(link);
    }
}

#[inline(always)]
fn low_bytes(word: u64) -> [u8; 6] {
    let [a, b, c, d, e, f, _, _] = word.to_le_bytes();
    [a, b, c, d, e, f]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn r(bits: u64) -> Word {
        Word::new(bits)
    }

    #[test]
    fn slots_and_link_do_not_touch_each_other() {
        let mut bucket = Bucket::EMPTY;
        for cell in 0..CELLS {
            bucket.fill(cell, Tag(cell as u16), cell % 2 == 0, r(WORD_MASK - cell as u64));
        }
        assert!(!bucket.is_linked());
        bucket.borrow_one(5);
        bucket.borrow_one(5);
        bucket.set_chain(Some(u32::MAX - 1));
        for cell in 0..CELLS {
            assert_eq!(bucket.get(cell), r(WORD_MASK - cell as u64));
        }
        assert_eq!((bucket.extension(), bucket.borrowed(), bucket.chain()), (Some(25), 2, Some(u32::MAX - 1)));
        bucket.give_back_one();
        bucket.set_chain(None);
        assert_eq!((bucket.extension(), bucket.borrowed(), bucket.chain()), (Some(25), 1, None));
        bucket.give_back_one();
        assert!(!bucket.is_linked());
        assert_eq!(bucket.take(3), (Tag(3), r(WORD_MASK - 3)));
        bucket.fill(3, Tag(9), true, r(1));
        bucket.set(3, r(2));
        assert_eq!((bucket.get(2), bucket.get(3), bucket.get(4)), (r(WORD_MASK - 2), r(2), r(WORD_MASK - 4)));
    }

    #[test]
    #[should_panic(expected = "extension 2 becomes 3")]
    fn one_extension_only() {
        let mut bucket = Bucket::EMPTY;
        bucket.borrow_one(2);
        bucket.borrow_one(3);
    }
}
