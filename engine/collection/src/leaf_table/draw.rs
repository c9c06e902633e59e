//! Elements by number, and at random.
//!
//! An element's number is the position of its leaf in hash space and its index there, valid until the table changes.
//!
//! Each element is drawn as often as any other. A random position leads to a leaf of depth d with probability 2^-d. Its
//! elements are dealt out to the 2^(D-d) cells that it would have at the greatest depth D, and the position says which of
//! these cells it is; a second random number below the greatest share of any cell says which of the cell's elements it is.
//! Where the cell has no such element, another position is drawn. So each element has the probability 2^-D / share.
//!
//! A table that is filled in order of hash (from SSCAN of another set) has deep leaves in one part and shallow ones in the
//! other: then nearly no position is good. After some tries, which all elements have the same chance in, an element's
//! number among all is drawn, and the pages' counts lead to it.

use varve_base::Ref;
use varve_base::hash::{GOLDEN_RATIO, mix64};
use varve_base::mem::Line;
use varve_base::rng::Rng;
use varve_packed::leaf::LeafElement;
use varve_packed::node::PackedEntry;
use varve_segment::Log;

use super::directory::{Cell, DEPTH_MAX};
use super::{Found, LeafTable, open};
use crate::{ReadCtx, WriteCtx};

/// Bits of an element's index in its leaf.
const INDEX_BITS: u32 = 10;
/// Positions that are tried until an element is counted off: a table that was filled at random needs two or three.
const TRIES_MAX: usize = 32;
/// Positions that are tried ahead, to fetch what will be looked at.
const TRIES_AHEAD: usize = 4;

/// The element at an index of the leaf at a position.
type Drawn = (u64, Cell, usize);

impl LeafTable {
    /// The number of an element drawn at random.
    pub fn sample(&self, rng: &mut Rng) -> u64 {
        let (at, cell, index) = self.draw(|below| rng.below(below));
        number(at, cell, index)
    }

    /// Draws an element.
    #[inline]
    pub(super) fn draw(&self, mut below: impl FnMut(u64) -> u64) -> Drawn {
        assert!(self.len > 0, "nothing is drawn from no element");
        let tried = (0..TRIES_MAX).find_map(|_| self.try_draw(&mut below));
        tried.unwrap_or_else(|| self.count_off(below(self.len as u64)))
    }

    /// The element of this number of all.
    #[cold]
    fn count_off(&self, nth: u64) -> Drawn {
        self.directory.nth(nth).expect("the pages count all elements")
    }

    /// Draws a position; the element there, if there is one.
    #[inline]
    fn try_draw(&self, below: &mut impl FnMut(u64) -> u64) -> Option<Drawn> {
        let at = below(1 << DEPTH_MAX) << (64 - DEPTH_MAX);
        let (deepest, share_max) = self.directory.bounds();
        let cell = self.directory.get(at);
        debug_assert!(cell.depth() <= deepest, "no leaf is deeper than the deepest cell");
        let more = deepest - cell.depth();
        let dealt = (at << cell.depth()) >> 1 >> (63 - more);
        let index = dealt + (below(share_max) << more);
        (index < cell.count() as u64).then_some((at, cell, index as usize))
    }

    /// The number of the element of this name.
    pub fn number_of(&self, ctx: ReadCtx<'_>, name: &[u8]) -> Option<u64> {
        let hash = self.hash_of(ctx.seed, name);
        let found = self.find_named(ctx, hash, name)?;
        Some(number(hash, self.directory.get(hash), found.pos.index()))
    }

    /// Shows every element's number.
    pub fn for_each_number(&self, mut show: impl FnMut(u64)) {
        self.directory.walk(0, |at, cell| {
            (0..cell.count()).for_each(|index| show(number(at, cell, index)));
            true
        });
    }

    /// Shows every element's number and name.
    pub fn for_each_number_and_name<'a>(&self, ctx: ReadCtx<'a>, mut show: impl FnMut(u64, PackedEntry<'a>)) {
        self.directory.walk(0, |at, cell| {
            if let Some(r) = cell.leaf(ctx.log) {
                for (index, (_, element)) in open(ctx.log, ctx.access, r).iter().enumerate() {
                    show(number(at, cell, index), self.form.parts(ctx, element).0);
                }
            }
            true
        });
    }

    /// Name and value of the element of a number.
    pub fn element<'a>(&self, ctx: ReadCtx<'a>, number: u64) -> (PackedEntry<'a>, PackedEntry<'a>) {
        let (leaf, index) = self.numbered(ctx.log, number);
        let leaf = leaf.expect("a numbered element has a leaf");
        self.form.parts(ctx, open(ctx.log, ctx.access, leaf).nth(index))
    }

    /// Asks for the leaf of the element of a number.
    #[inline]
    pub fn prefetch_number(&self, log: &Log, number: u64) {
        if let Some(leaf) = self.numbered(log, number).0 {
            log.prefetch(leaf);
        }
    }

    #[inline]
    fn numbered(&self, log: &Log, number: u64) -> (Option<Ref>, usize) {
        (self.directory.get(position(number)).leaf(log), (number & ((1 << INDEX_BITS) - 1)) as usize)
    }

    /// The bytes of a set's element.
    #[inline]
    pub(super) fn member_of<'a>(&self, ctx: ReadCtx<'a>, element: LeafElement<'a>) -> &'a [u8] {
        match element {
            LeafElement::Here(bytes) => bytes,
            LeafElement::Elsewhere(number) => ctx.access.open(ctx.log, ctx.log.recall(number)).key(),
        }
    }

    /// Where the cells lie that [`LeafTable::take_drawn`] looks at first.
    #[inline]
    pub fn draw_lines(&self, number: u64) -> [Line; 2] {
        let (mut below, (_, share_max)) = (draws(number), self.directory.bounds());
        [(); 2].map(|()| {
            let at = below(1 << DEPTH_MAX) << (64 - DEPTH_MAX);
            below(share_max);
            self.cell_line(at)
        })
    }

    /// Where the leaf begins that a number draws, if it is found soon.
    #[inline]
    pub fn drawn_line(&self, log: &Log, number: u64) -> Option<Line> {
        let mut below = draws(number);
        let drawn = (0..TRIES_AHEAD).find_map(|_| self.try_draw(&mut below));
        drawn.and_then(|(_, cell, _)| cell.leaf(log)).map(|r| log.line(r))
    }

    /// Takes out the member that a number draws, and shows it first; the last one is only shown. How many are left.
    #[inline]
    pub fn take_drawn(&mut self, ctx: &mut WriteCtx<'_>, number: u64, show: impl FnOnce(&[u8])) -> usize {
        let (at, cell, index) = self.draw(draws(number));
        let r = cell.leaf(ctx.log).expect("a leaf with elements");
        let leaf = open(ctx.log, ctx.access, r);
        let found = Found { leaf: r, pos: leaf.pos(index) };
        self.form.name(ctx.read(), leaf.get(found.pos), show);
        let left = self.len - 1;
        if left > 0 {
            self.take_out(ctx, at, found);
            self.after_removal(ctx, at);
        }
        left
    }

    /// Removes the elements of these numbers.
    pub fn remove_numbers(&mut self, ctx: &mut WriteCtx<'_>, mut numbers: Vec<u64>) {
        numbers.sort_unstable();
        // No leaf is joined before all elements are out: their numbers are of the leaves as they are now.
        for &number in numbers.iter().rev() {
            let (leaf, index) = self.numbered(ctx.log, number);
            let leaf = leaf.expect("a numbered element has a leaf");
            let pos = open(ctx.log, ctx.access, leaf).pos(index);
            self.take_out(ctx, position(number), Found { leaf, pos });
        }
        for of_leaf in numbers.chunk_by(|a, b| a >> INDEX_BITS == b >> INDEX_BITS) {
            self.reshape(ctx, position(of_leaf[0]));
        }
    }
}

/// The position in hash space of the leaf of a numbered element.
#[inline]
fn position(number: u64) -> u64 {
    number >> INDEX_BITS << (64 - DEPTH_MAX)
}

/// The number of the element at an index of the leaf whose range has the position `at`.
#[inline]
fn number(at: u64, cell: Cell, index: usize) -> u64 {
    debug_assert!(index < cell.count(), "element {index} of {}", cell.count());
    let first = if cell.depth() == 0 { 0 } else { at & (!0 << (64 - cell.depth())) };
    first >> (64 - DEPTH_MAX) << INDEX_BITS | index as u64
}

/// Random numbers below what is asked for, the same of the same number.
#[inline]
fn draws(mut number: u64) -> impl FnMut(u64) -> u64 {
    move |below| {
        let drawn = ((u128::from(number) * u128::from(below)) >> 64) as u64;
        number = mix64(number.wrapping_add(GOLDEN_RATIO));
        drawn
    }
}
