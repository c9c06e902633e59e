//! The directory of a leaf table: the first bits of a hash lead to a leaf.
//!
//! ```text
//!   first bits of the hash        next bits, up to 10
//!   root: page numbers  ------->  page: cells  ------->  leaf: its Ref, its depth, its number of elements
//! ```
//! Extendible hashing in two levels. A leaf of depth d holds the elements whose hashes begin with the same d bits, and has
//! all cells that begin so. A page that is full of cells is split, and only then the root may double: the largest piece
//! of work is 1024 cells, and one root entry for each page. One flat directory was measured to stand for 10 ms when it
//! doubles at 100 million elements.
//!
//! A cell names a Ref, so that a look-up reads root, page and leaf, and nothing else. Its count makes drawing uniform
//! without looking at leaves. A range of hashes without an element has cells without a Ref.

use varve_base::Ref;
use varve_segment::Log;

/// Bits of the largest page: 8 KB.
const PAGE_BITS_MAX: u8 = 10;
/// Two pages of at most this many bits each become one.
const PAGE_BITS_JOIN: u8 = 7;
/// The first bits of a hash that a directory looks at. A position in hash space is a number of as many bits.
pub(super) const DEPTH_MAX: u8 = 48;

/// Most elements of a leaf: ten bits of a cell.
pub(super) const COUNT_MAX: usize = 1023;

const DEPTH_AT: u32 = Ref::BITS;
const COUNT_AT: u32 = DEPTH_AT + 6;
const _: () = assert!(COUNT_MAX >> (u64::BITS - COUNT_AT) == 0);

/// A leaf as the directory has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cell(u64);

impl Cell {
    /// The leaf at `r`, if there is one, with `count` elements, whose hashes have the first `depth` bits in common.
    pub(super) fn new(r: Option<Ref>, depth: u8, count: usize) -> Cell {
        debug_assert!(
            depth <= DEPTH_MAX && count <= COUNT_MAX && r.is_some() == (count > 0),
            "{r:?}, {depth}, {count}"
        );
        Cell(r.map_or(0, Ref::bits) | u64::from(depth) << DEPTH_AT | (count as u64) << COUNT_AT)
    }

    /// The leaf's object.
    #[inline(always)]
    pub(super) fn leaf(self, log: &Log) -> Option<Ref> {
        let bits = self.0 & ((1 << Ref::BITS) - 1);
        (bits != 0).then(|| log.recall(bits))
    }

    /// Bits that its hashes have in common.
    #[inline(always)]
    pub(super) fn depth(self) -> u8 {
        (self.0 >> DEPTH_AT) as u8 & 0x3f
    }

    /// Number of its elements.
    #[inline(always)]
    pub(super) fn count(self) -> usize {
        (self.0 >> COUNT_AT) as usize
    }
}

/// Some cells in a row, for hashes that have `depth` bits in common: 2^`bits` of them.
#[derive(Clone)]
struct Page {
    depth: u8,
    bits: u8,
    /// The greatest share of a cell: elements of a leaf divided among its cells, rounded up. Or more, as only a change of
    /// `bits` measures it anew.
    share: u16,
    /// Number of elements of its leaves.
    count: usize,
    cells: Vec<Cell>,
}

impl Page {
    /// Depth of a leaf that has one cell of its own.
    fn deepest(&self) -> u8 {
        self.depth + self.bits
    }

    /// The cells of the leaf of a hash: the first one, and how many.
    #[inline(always)]
    fn span(&self, hash: u64) -> (usize, usize) {
        let at = top_bits(hash << self.depth, self.bits);
        debug_assert!(self.cells[at].depth() >= self.depth, "a leaf lies in one page");
        let many = 1 << (self.deepest() - self.cells[at].depth());
        (at & !(many - 1), many)
    }

    /// The share of each of a leaf's cells.
    #[inline]
    fn share_of(&self, cell: Cell) -> u16 {
        share(cell.count(), self.deepest() - cell.depth()) as u16
    }

    /// Gives cells to a leaf; the caller has taken off the elements of those that had them.
    #[inline]
    fn fill(&mut self, first: usize, many: usize, cell: Cell) {
        debug_assert_eq!(many, 1 << (self.deepest() - cell.depth()), "all cells of a leaf, and no other");
        self.count += cell.count();
        self.cells[first..first + many].fill(cell);
        self.share = self.share.max(self.share_of(cell));
    }

    fn double(&mut self) {
        let cells = std::mem::take(&mut self.cells);
        self.cells = cells.iter().flat_map(|&cell| [cell, cell]).collect();
        self.bits += 1;
        self.measure();
    }

    /// Each leaf's cell, and its number among the cells of the page.
    fn leaves(&self) -> impl Iterator<Item = (usize, Cell)> + '_ {
        let deepest = self.deepest();
        let mut next = 0;
        std::iter::from_fn(move || {
            let (at, cell) = (next, *self.cells.get(next)?);
            next += 1 << (deepest - cell.depth());
            Some((at, cell))
        })
    }

    /// Measures the share anew.
    fn measure(&mut self) {
        self.share = self.cells.iter().map(|&cell| self.share_of(cell)).max().unwrap_or(0);
    }

    /// Halves the page as long as no leaf has a cell of its own; whether it did.
    fn shrink(&mut self) -> bool {
        let before = self.bits;
        while self.bits > 0 && self.cells.iter().all(|cell| cell.depth() < self.deepest()) {
            self.cells = self.cells.iter().copied().step_by(2).collect();
            self.bits -= 1;
        }
        self.measure();
        self.bits < before
    }
}

/// A leaf's elements divided among its cells, of which there are 2^`more` at some depth, rounded up.
#[inline]
fn share(count: usize, more: u8) -> u64 {
    (count as u64 + ((1 << more) - 1)) >> more
}

/// The first `bits` bits of a hash as a number.
#[inline(always)]
fn top_bits(hash: u64, bits: u8) -> usize {
    (hash >> 1 >> (63 - bits)) as usize
}

/// Pages that are given back at a time.
const PAGES_DISCARDED: usize = 64;

/// From hashes to leaves.
#[derive(Clone)]
pub(super) struct Directory {
    bits: u8,
    /// 2^`bits` numbers of pages.
    root: Vec<u32>,
    pages: Vec<Page>,
    /// Cells of all pages.
    cells: usize,
    /// Depth of the cells of the deepest page.
    deepest: u8,
    /// The greatest share of a cell at that depth, or more.
    share_max: u64,
}

impl Directory {
    /// The directory of no element.
    pub(super) fn new() -> Directory {
        let page = Page { depth: 0, bits: 0, share: 0, count: 0, cells: vec![Cell::new(None, 0, 0)] };
        Directory { bits: 0, root: vec![0], pages: vec![page], cells: 1, deepest: 0, share_max: 0 }
    }

    /// Bytes of root and pages.
    pub(super) fn bytes(&self) -> usize {
        self.root.capacity() * size_of::<u32>()
            + self.pages.capacity() * size_of::<Page>()
            + self.cells * size_of::<Cell>()
    }

    /// Number of cells of all pages.
    pub(super) fn cells(&self) -> usize {
        self.cells
    }

    /// Gives some pages back; true when none is left.
    pub(super) fn discard_step(&mut self) -> bool {
        self.pages.truncate(self.pages.len().saturating_sub(PAGES_DISCARDED));
        self.pages.is_empty()
    }

    #[inline(always)]
    fn page(&self, hash: u64) -> &Page {
        &self.pages[self.root[top_bits(hash, self.bits)] as usize]
    }

    /// The leaf of a hash.
    #[inline(always)]
    pub(super) fn get(&self, hash: u64) -> Cell {
        let page = self.page(hash);
        page.cells[top_bits(hash << page.depth, page.bits)]
    }

    /// Where the cell of a hash lies.
    #[inline(always)]
    pub(super) fn cell(&self, hash: u64) -> &Cell {
        let page = self.page(hash);
        &page.cells[top_bits(hash << page.depth, page.bits)]
    }

    /// Gives the leaf of a hash another object and count; its depth stays.
    #[inline]
    pub(super) fn set(&mut self, hash: u64, r: Option<Ref>, count: usize) {
        let page = &mut self.pages[self.root[top_bits(hash, self.bits)] as usize];
        let (first, many) = page.span(hash);
        let (depth, before) = (page.cells[first].depth(), page.cells[first].count());
        page.count -= before;
        page.fill(first, many, Cell::new(r, depth, count));
        self.share_max = self.share_max.max(share(count, self.deepest - depth));
    }

    /// Puts two leaves, each an object and a count, in the place of the one of a hash: the first for hashes whose next bit
    /// is 0.
    pub(super) fn split(&mut self, hash: u64, halves: [(Option<Ref>, usize); 2]) {
        let depth = self.get(hash).depth();
        assert!(depth < DEPTH_MAX, "a leaf of {depth} bits is not split");
        while self.page(hash).deepest() == depth {
            if self.page(hash).bits < PAGE_BITS_MAX {
                let number = self.root[top_bits(hash, self.bits)] as usize;
                self.pages[number].double();
                self.cells += self.pages[number].cells.len() / 2;
            } else {
                self.split_page(hash);
            }
        }
        let page = &mut self.pages[self.root[top_bits(hash, self.bits)] as usize];
        let (first, many) = page.span(hash);
        debug_assert!(many >= 2, "a leaf that is split has a cell for each half");
        page.count -= page.cells[first].count();
        for (half, (r, count)) in halves.into_iter().enumerate() {
            page.fill(first + half * many / 2, many / 2, Cell::new(r, depth + 1, count));
        }
        let (deepest, page_share) = (page.deepest(), usize::from(page.share));
        if deepest > self.deepest {
            self.measure();
        }
        self.share_max = self.share_max.max(share(page_share, self.deepest - deepest));
    }

    /// The buddy of the leaf of a hash, with which it may become one: a hash of it, and its cell.
    pub(super) fn buddy(&self, hash: u64) -> Option<(u64, Cell)> {
        let depth = self.get(hash).depth();
        if depth == self.page(hash).depth {
            return None;
        }
        let other = hash ^ 1 << (64 - depth);
        let cell = self.get(other);
        (cell.depth() == depth).then_some((other, cell))
    }

    /// Puts one leaf in the place of the one of a hash and its buddy.
    pub(super) fn join(&mut self, hash: u64, r: Option<Ref>, count: usize) {
        debug_assert!(self.buddy(hash).is_some(), "a leaf without a buddy is not joined");
        let page = &mut self.pages[self.root[top_bits(hash, self.bits)] as usize];
        let (first, many) = page.span(hash);
        let (depth, first) = (page.cells[first].depth() - 1, first & !(2 * many - 1));
        page.count -= page.cells[first].count() + page.cells[first + many].count();
        page.fill(first, 2 * many, Cell::new(r, depth, count));
        let before = page.cells.len();
        if page.shrink() {
            self.cells -= before - page.cells.len();
            self.join_pages(hash);
            self.measure();
        }
        self.share_max = self.share_max.max(share(count, self.deepest - depth));
    }

    /// Splits the page of a hash in two, for one bit more of the hash.
    fn split_page(&mut self, hash: u64) {
        if self.page(hash).depth == self.bits {
            self.root = self.root.iter().flat_map(|&number| [number, number]).collect();
            self.bits += 1;
        }
        let number = self.root[top_bits(hash, self.bits)] as usize;
        let new = self.pages.len() as u32;
        let page = &mut self.pages[number];
        debug_assert!(page.bits > 0, "a page of one cell is not split");
        let many = 1 << (self.bits - page.depth);
        let upper = page.cells.split_off(page.cells.len() / 2);
        page.cells.shrink_to_fit();
        page.depth += 1;
        page.bits -= 1;
        let mut upper = Page { depth: page.depth, bits: page.bits, share: page.share, count: 0, cells: upper };
        upper.count = upper.leaves().map(|(_, cell)| cell.count()).sum();
        page.count -= upper.count;
        let first = top_bits(hash, self.bits) & !(many - 1);
        self.root[first + many / 2..first + many].fill(new);
        self.pages.push(upper);
    }

    /// Makes one page of that of a hash and its neighbour, as long as both are small.
    fn join_pages(&mut self, hash: u64) {
        loop {
            let (number, depth) = (self.root[top_bits(hash, self.bits)] as usize, self.page(hash).depth);
            if depth == 0 || self.pages[number].bits > PAGE_BITS_JOIN {
                return;
            }
            let other = self.root[top_bits(hash ^ 1 << (64 - depth), self.bits)] as usize;
            if self.pages[other].depth != depth || self.pages[other].bits > PAGE_BITS_JOIN {
                return;
            }
            let is_upper = hash >> (64 - depth) & 1 == 1;
            let (low, high) = if is_upper { (other, number) } else { (number, other) };
            self.unite(low, high, hash);
        }
    }

    /// Appends page `high` to page `low`, and forgets it.
    fn unite(&mut self, low: usize, high: usize, hash: u64) {
        self.cells -= self.pages[low].cells.len() + self.pages[high].cells.len();
        while self.pages[low].bits < self.pages[high].bits {
            self.pages[low].double();
        }
        while self.pages[high].bits < self.pages[low].bits {
            self.pages[high].double();
        }
        let (cells, count) = (std::mem::take(&mut self.pages[high].cells), self.pages[high].count);
        debug_assert_eq!(cells.len(), self.pages[low].cells.len(), "both halves have as many cells");
        let page = &mut self.pages[low];
        page.cells.reserve_exact(cells.len());
        page.cells.extend(cells);
        self.cells += page.cells.len();
        page.count += count;
        page.depth -= 1;
        page.bits += 1;
        page.measure();
        let many = 1 << (self.bits - page.depth);
        let first = top_bits(hash, self.bits) & !(many - 1);
        self.root[first..first + many].fill(low as u32);
        self.forget_page(high);
        while self.bits > 0 && self.pages.iter().all(|page| page.depth < self.bits) {
            self.root = self.root.iter().copied().step_by(2).collect();
            self.bits -= 1;
        }
    }

    /// Takes a page out of the list; the last one takes its number.
    fn forget_page(&mut self, number: usize) {
        debug_assert!(!self.root.contains(&(number as u32)), "page {number} is still in the root");
        self.pages.swap_remove(number);
        let moved = self.pages.len() as u32;
        if number as u32 != moved {
            self.root.iter_mut().filter(|entry| **entry == moved).for_each(|entry| *entry = number as u32);
        }
        if self.pages.len() < self.pages.capacity() / 4 {
            self.pages.shrink_to_fit();
        }
    }

    /// Measures depth and share anew. O(pages).
    fn measure(&mut self) {
        self.deepest = self.pages.iter().map(Page::deepest).max().unwrap_or(0);
        let share_of = |page: &Page| share(page.share.into(), self.deepest - page.deepest());
        self.share_max = self.pages.iter().map(share_of).max().unwrap_or(0);
    }

    /// The bounds of drawing: the greatest depth of a cell, and the greatest share of one at that depth.
    #[inline]
    pub(super) fn bounds(&self) -> (u8, u64) {
        (self.deepest, self.share_max)
    }

    /// The leaf of element number `nth` of all, in the order of pages, and the element's number in it. The leaf is given by a
    /// position. O(pages).
    pub(super) fn nth(&self, mut nth: u64) -> Option<(u64, Cell, usize)> {
        let page = self.pages.iter().find(|page| {
            let here = nth < page.count as u64;
            nth -= if here { 0 } else { page.count as u64 };
            here
        })?;
        let (first, cell) = page.leaves().find(|(_, cell)| {
            let here = nth < cell.count() as u64;
            nth -= if here { 0 } else { cell.count() as u64 };
            here
        })?;
        let number = self.pages.iter().position(|other| std::ptr::eq(other, page))?;
        let entry = self.root.iter().position(|&entry| entry as usize == number)? as u64;
        let prefix = |value: u64, bits: u8| value << 1 << (63 - bits);
        let at = prefix(entry, self.bits) | prefix(first as u64, page.bits) >> page.depth;
        debug_assert_eq!(self.get(at), cell, "the position leads to the leaf");
        Some((at, cell, nth as usize))
    }

    /// Each leaf by the position of its first hash, in order of hash, from that of `from` on, until `visit` says that it
    /// is enough; gives where to go on.
    pub(super) fn walk(&self, from: u64, mut visit: impl FnMut(u64, Cell) -> bool) -> Option<u64> {
        let mut at = from;
        loop {
            let cell = self.get(at);
            let first = if cell.depth() == 0 { 0 } else { at & (!0 << (64 - cell.depth())) };
            let more = visit(first, cell);
            // The last leaf ends where numbers end.
            at = if cell.depth() == 0 { return None } else { first.checked_add(1 << (64 - cell.depth()))? };
            if !more {
                return Some(at);
            }
        }
    }

    /// Panics if the directory is not sound. O(cells).
    pub(super) fn verify(&self) {
        assert_eq!(self.root.len(), 1 << self.bits, "the root has an entry for each prefix");
        let cells: usize = self.pages.iter().map(|page| page.cells.capacity()).sum();
        assert_eq!(cells, self.cells, "cells of all pages");
        for (number, page) in self.pages.iter().enumerate() {
            assert_eq!(page.cells.len(), 1 << page.bits, "page {number}");
            assert!(page.depth <= self.bits && page.bits <= PAGE_BITS_MAX, "page {number} of {} bits", page.bits);
            let entries = self.root.iter().filter(|&&entry| entry as usize == number).count();
            assert_eq!(entries, 1 << (self.bits - page.depth), "entries of page {number}");
            let counts: usize = page.leaves().map(|(_, cell)| cell.count()).sum();
            assert_eq!(counts, page.count, "elements of page {number}");
            let mut at = 0;
            while at < page.cells.len() {
                let cell = page.cells[at];
                assert!((page.depth..=page.deepest()).contains(&cell.depth()), "page {number}: {cell:?}");
                let many = 1 << (page.deepest() - cell.depth());
                assert!(
                    at % many == 0 && page.cells[at..at + many].iter().all(|&c| c == cell),
                    "page {number} at {at}"
                );
                assert!(page.share_of(cell) <= page.share, "share of page {number}");
                let share = share(cell.count(), self.deepest - cell.depth());
                assert!(share <= self.share_max, "bounds of drawing: {cell:?}");
                at += many;
            }
        }
    }
}
