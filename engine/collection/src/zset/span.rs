//! Ranges of members that are removed: few of them one by one, many by cutting their leaves off.
//!
//! ```text
//!   positions  from                                to            leaves that lie wholly in the range are cut off in O(log n);
//!              [ . . x x ] [ x x x x ] [ x x x x ] [ x . . ]     of those at its ends the members are taken out
//!   later      step: the cells of a leaf's members leave the index, its object dies, its number is free
//! ```
//! The cells of members that were cut off are in the index until their leaf is cleared. Whoever finds one sees that its leaf
//! has no place in the tree, and goes on: the member is not there, and may have come back in another leaf meanwhile. As long
//! as cells went at once, the removal of a million members held its shard for two hundred milliseconds.
//!
//! Not here: which positions a range has (`SortedSet::span`).

use smallvec::SmallVec;
use varve_base::hash::hash64;
use varve_packed::leaf::LeafElement;

use super::tree::TreePos;
use super::{LeafHashes, SortedSet, beside, leaf_tag};
use crate::counted_tree::Leaf;
use crate::{ReadCtx, WriteCtx};

/// Removals at an end fetch the bucket of the member that is this number of members further on.
const NEAR: usize = 4;
/// A range of as many members as this number of full leaves is cut out: of fewer, what is left for later is more work than
/// what is saved.
const CUT_FROM_LEAVES: u64 = 8;

impl SortedSet {
    /// Shows the members at the positions `from..to`, from the high end on if `rev`, and removes them, but not if they are
    /// all: those die with their key. Gives how many are left.
    pub fn take_span(
        &mut self,
        ctx: &mut WriteCtx<'_>,
        (from, to): (u64, u64),
        rev: bool,
        emit: &mut dyn FnMut(&[u8], f64),
    ) -> usize {
        debug_assert!(from <= to && to <= self.len() as u64, "positions {from}..{to} of {}", self.len());
        let left = self.len() - (to - from) as usize;
        if left == 0 || self.is_cut_out(to - from) {
            self.walk(ctx.read(), if rev { to - 1 } else { from }, rev, to - from, emit);
            return self.drop_span(ctx, (from, to));
        }
        self.remove_span(ctx, (from, to), rev, emit);
        if from == 0 || rev {
            self.fetch_end(ctx, rev);
        }
        left
    }

    /// Removes the members at the positions `from..to`, but not if they are all: those die with their key. Gives how many are
    /// left. O(log n), and for few of them O(their number).
    pub fn drop_span(&mut self, ctx: &mut WriteCtx<'_>, (from, to): (u64, u64)) -> usize {
        debug_assert!(from <= to && to <= self.len() as u64, "positions {from}..{to} of {}", self.len());
        let left = self.len() - (to - from) as usize;
        if left > 0 {
            let gone = if self.is_cut_out(to - from) { self.cut_leaves(ctx, (from, to)) } else { 0 };
            self.remove_span(ctx, (from, to - gone), false, &mut |_, _| {});
        }
        left
    }

    /// Whether a range of this number of members is cut out.
    fn is_cut_out(&self, members: u64) -> bool {
        members >= CUT_FROM_LEAVES * self.members_max as u64
    }

    /// Cuts the leaves off that lie wholly in `from..to`, which are not all positions; gives how many members they have.
    fn cut_leaves(&mut self, ctx: &WriteCtx<'_>, (from, to): (u64, u64)) -> u64 {
        let counted = &mut self.tree.counted;
        let (first, before) = counted.locate(from).expect("positions of the set");
        let low = if before > 0 { Some(first) } else { counted.prev(first) };
        let high = if to == counted.count() { None } else { counted.locate(to).map(|(leaf, _)| leaf) };
        let len = counted.count();
        match (low, high) {
            // All of the range lies in one leaf, which stays.
            (Some(low), Some(high)) if low == high => {}
            (Some(low), Some(high)) => counted.cut_between(low, high),
            (None, Some(high)) => counted.cut_before(high),
            (Some(low), None) => counted.cut_after(low),
            (None, None) => unreachable!("some members stay"),
        }
        debug_assert!(len - counted.count() <= to - from, "leaves that lie wholly in the range, of {:?}", ctx.id);
        len - counted.count()
    }

    /// Clears some of the leaves that were cut off. Those that somebody is to be shown are handed over before.
    pub(super) fn clear_cut_off(&mut self, ctx: &mut WriteCtx<'_>, leaves: usize) {
        debug_assert!(!self.freeing, "what dies is freed without its index");
        for _ in 0..leaves {
            let Some(leaf) = self.tree.counted.next_detached() else { return };
            let many = ctx.read().scored_leaf(self.tree.counted.leaf_ref(leaf)).len();
            self.show_and_forget(ctx, leaf, (0, many), false, &mut |_, _| {});
            let r = self.tree.counted.take_detached().expect("there is one");
            self.kill(ctx, r);
        }
    }

    /// Where a member with this hash and a number of its own lies in a leaf that was cut off.
    pub(super) fn find_cut_off(&self, reader: ReadCtx<'_>, hash: u64, number: LeafElement<'_>) -> Option<TreePos> {
        let mut found = None;
        self.index.find(hash, |leaf| {
            let leaf = self.tree.counted.leaf(leaf).filter(|&leaf| self.tree.counted.is_detached(leaf));
            found = leaf.and_then(|leaf| {
                let opened = reader.scored_leaf(self.tree.counted.leaf_ref(leaf));
                let index = opened.find(leaf_tag(hash), |element| element == number)?;
                Some(TreePos { leaf, index })
            });
            found.is_some()
        });
        found
    }

    /// Checks a leaf that was cut off, and that the index has its members; gives how many these are.
    pub(super) fn verify_cut_off(&self, reader: ReadCtx<'_>, leaf: Leaf) -> usize {
        let opened = reader.scored_leaf(self.tree.counted.leaf_ref(leaf));
        opened.verify();
        for member in opened.members() {
            let hash = hash64(reader.seed, reader.member(member.element));
            let cell = self.index.find(hash, |number| number == leaf.number());
            assert!(cell.is_some(), "the index has a member of leaf {} until it is cleared", leaf.number());
        }
        opened.len()
    }

    /// Fetches what the next removals at an end are going to touch: the bucket of the member that is some members further
    /// on, and the next leaf before this one is empty.
    #[inline]
    fn fetch_end(&self, ctx: &WriteCtx<'_>, rev: bool) {
        let (reader, counted) = (ctx.read(), &self.tree.counted);
        let Some(leaf) = (if rev { counted.last() } else { counted.first() }) else { return };
        let opened = self.tree.open(reader, leaf);
        if opened.len() <= NEAR {
            let next = beside(counted, leaf, rev);
            next.iter().for_each(|&next| ctx.log.line(counted.leaf_ref(next)).fetch_pair());
            return;
        }
        let member = reader.member(opened.element(if rev { opened.len() - 1 - NEAR } else { NEAR }));
        self.index.line(hash64(ctx.seed, member)).fetch();
    }

    /// Removes the members at the positions `from..to` and shows each; from the high end on if `rev`.
    pub(super) fn remove_span(
        &mut self,
        ctx: &mut WriteCtx<'_>,
        (from, mut to): (u64, u64),
        rev: bool,
        emit: &mut dyn FnMut(&[u8], f64),
    ) {
        while from < to {
            let (leaf, at) = self.tree.counted.locate(if rev { to - 1 } else { from }).expect("positions of the set");
            let (at, count) = (at as usize, usize::try_from(to - from).unwrap_or(usize::MAX));
            let of_leaf = self.tree.counted.count_of(leaf) as usize;
            let (at, end) = if rev {
                ((at + 1).saturating_sub(count), at + 1)
            } else {
                (at, at.saturating_add(count).min(of_leaf))
            };
            debug_assert!(at < end && end <= of_leaf, "members {at}..{end} of {of_leaf}");
            self.show_and_forget(ctx, leaf, (at, end), rev, emit);
            let left = self.take_out_run(ctx, leaf, at, end);
            if left > 0 && end - at > 1 {
                self.reshape(ctx, leaf);
            } else if left > 0 {
                self.after_removal(ctx, leaf, left);
            }
            to -= (end - at) as u64;
        }
    }

    /// Shows some members of a leaf, downwards if `rev`, and removes them from the index, and the objects that they have.
    fn show_and_forget(
        &mut self,
        ctx: &mut WriteCtx<'_>,
        leaf: Leaf,
        (from, to): (usize, usize),
        rev: bool,
        emit: &mut dyn FnMut(&[u8], f64),
    ) {
        self.before(ctx.read(), leaf);
        let (mut hashes, mut own) = (LeafHashes::new(), SmallVec::<[u64; 8]>::new());
        {
            let reader = ctx.read();
            // It may have been cut off.
            let opened = reader.scored_leaf(self.tree.counted.leaf_ref(leaf));
            let mut show = |(score, element): (f64, LeafElement<'_>)| {
                let member = match element {
                    LeafElement::Here(bytes) => bytes,
                    LeafElement::Elsewhere(number) => {
                        own.push(number);
                        reader.access.open(reader.log, reader.log.recall(number)).key()
                    }
                };
                let hash = hash64(reader.seed, member);
                self.index.line(hash).fetch();
                hashes.push(hash);
                emit(member, score);
            };
            if rev {
                opened.down_from(to).take(to - from).for_each(&mut show);
            } else {
                opened.from(from).take(to - from).for_each(&mut show);
            }
        }
        hashes.iter().for_each(|&hash| self.index.remove_of(hash, leaf));
        own.iter().for_each(|&number| self.let_go(ctx, ctx.log.recall(number)));
    }
}
