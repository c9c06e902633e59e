//! Readers of a sorted set over several holds of the shard.
//!
//! Each is shown the members of a range in order, as they were when it began ([`crate::sequence_readers`]). A leaf that is
//! about to change is handed over as it lies in the log; a member that has an object of its own is kept by that object
//! ([`crate::handed`]). A live leaf with such members is handed to its reader before it is shown, so that showing may end
//! behind any of them.

use std::sync::Arc;

use varve_base::Ref;
use varve_packed::leaf::LeafElement;

use super::SortedSet;
use super::leaf::ScoredLeaf;
use crate::counted_tree::Leaf;
use crate::handed::HandedLeaf;
use crate::sequence_readers::{self, LeafPart, NextLeaf, SequenceReaders};
use crate::{Forgotten, ReadCtx, ReaderBytes, ReaderNumber, WriteCtx};

/// The members of a leaf that a reader was shown, and whether it wants more.
struct LeafShown {
    count: u64,
    wants_more: bool,
}

impl SortedSet {
    /// Begins to read `count` members from position `first` on, downwards if `rev`. What is kept for the reader is counted
    /// in its bytes.
    pub fn begin_reading(&mut self, reader: (ReaderNumber, ReaderBytes), first: u64, count: u64, rev: bool) {
        self.readers.get_or_insert_default().begin(&self.tree.counted, reader, (first, count), rev);
    }

    /// Forgets a reader that wants no more, or a part of what was handed over to it.
    pub(crate) fn end_reading(&mut self, ctx: &mut WriteCtx<'_>, number: ReaderNumber) -> Forgotten {
        sequence_readers::end(&mut self.readers, number, |leaves| leaves.bury(ctx))
    }

    /// Whether somebody reads.
    pub(crate) fn is_read(&self) -> bool {
        self.readers.is_some()
    }

    /// Sees to it that readers have a leaf as it is: it is about to change, or to go.
    #[inline(always)]
    pub(super) fn before(&mut self, ctx: ReadCtx<'_>, leaf: Leaf) {
        if self.readers.is_some() {
            self.hand_over(ctx, leaf);
        }
    }

    #[cold]
    #[inline(never)]
    fn hand_over(&mut self, ctx: ReadCtx<'_>, leaf: Leaf) {
        let readers = self.readers.as_mut().expect("the caller looked");
        let value = ctx.access.open(ctx.log, self.tree.counted.leaf_ref(leaf)).value();
        readers.hand_over(ctx.log, leaf.number(), value, ScoredLeaf::open(value).numbers());
    }

    /// Lets the object of a member go, which dies if no reader needs it.
    pub(super) fn let_go(&mut self, ctx: &mut WriteCtx<'_>, r: Ref) {
        let bytes = ctx.access.open(ctx.log, r).live_bytes();
        if self.readers.as_mut().is_some_and(|readers| readers.leaves_mut().let_go(r, bytes)) {
            self.object_bytes -= bytes as u64;
        } else {
            self.kill(ctx, r);
        }
    }

    /// Shows a reader the next members, downwards if `rev`, until `show` says at the end of a leaf, or behind a member that
    /// has an object of its own, that it wants no more. Returns false when all were shown: the reader is forgotten then.
    pub fn read_on(
        &mut self,
        ctx: &mut WriteCtx<'_>,
        (number, rev): (ReaderNumber, bool),
        mut show: impl FnMut(&[u8], f64) -> bool,
    ) -> bool {
        let mut readers = self.readers.take().expect("a reader that has begun");
        let is_left = loop {
            let Some((next, part)) = readers.next(number) else { break false };
            if let Some(leaf) = readers.upcoming(number).and_then(|leaf| self.tree.counted.leaf(leaf)) {
                ctx.log.line(self.tree.counted.leaf_ref(leaf)).fetch_pair();
            }
            let LeafShown { count, wants_more } = match next {
                NextLeaf::Live(leaf) => {
                    self.show_live(ctx.read(), &mut readers, (number, rev), (leaf, part), &mut show)
                }
                NextLeaf::Handed(leaf) => show_handed(ctx.read(), &mut readers, (number, rev), (leaf, part), &mut show),
            };
            let is_left = readers.note_shown(number, count);
            if !wants_more || !is_left {
                break is_left;
            }
        };
        readers.leaves_mut().bury(ctx);
        self.readers = Some(readers);
        if !is_left {
            let forgotten = self.end_reading(ctx, number);
            debug_assert_eq!(forgotten, Forgotten::Wholly, "all that was handed over was shown");
        }
        is_left
    }

    /// Shows a leaf that is as it was.
    fn show_live(
        &self,
        ctx: ReadCtx<'_>,
        readers: &mut SequenceReaders,
        (number, rev): (ReaderNumber, bool),
        (leaf, part): (u32, LeafPart),
        show: &mut impl FnMut(&[u8], f64) -> bool,
    ) -> LeafShown {
        let leaf = self.tree.counted.leaf(leaf).expect("a leaf that is as it was");
        let value = ctx.access.open(ctx.log, self.tree.counted.leaf_ref(leaf)).value();
        let opened = ScoredLeaf::open(value);
        if opened.numbers().next().is_some() {
            let kept = readers.keep(ctx.log, number, value, opened.numbers());
            return show_handed(ctx, readers, (number, rev), (kept, part), show);
        }
        let mut shown = LeafShown { count: 0, wants_more: true };
        each_of(opened, part, rev, |score, element| {
            shown.count += 1;
            shown.wants_more = show(ctx.member(element), score);
            true
        });
        shown
    }
}

/// Shows a leaf as it was when its reader began.
fn show_handed(
    ctx: ReadCtx<'_>,
    readers: &mut SequenceReaders,
    (number, rev): (ReaderNumber, bool),
    (leaf, part): (Arc<HandedLeaf>, LeafPart),
    show: &mut impl FnMut(&[u8], f64) -> bool,
) -> LeafShown {
    let opened = ScoredLeaf::open(leaf.bytes());
    let mut shown = LeafShown { count: 0, wants_more: true };
    each_of(opened, part, rev, |score, element| {
        shown.count += 1;
        let LeafElement::Elsewhere(own) = element else {
            shown.wants_more = show(ctx.member(element), score);
            return true;
        };
        shown.wants_more = show(ctx.access.open(ctx.log, readers.object(&leaf, own)).key(), score);
        shown.wants_more
    });
    let (passed, len) = (part.skip + shown.count, opened.len() as u64);
    debug_assert!(passed <= len && shown.count <= part.left, "no more than the leaf has, and the reader wants");
    if passed < len && shown.count < part.left {
        readers.put_back(number, leaf, passed);
    } else {
        readers.take_back(number, leaf);
    }
    shown
}

/// Shows the elements of a leaf that belong to the range, until `show` says that it is enough.
fn each_of<'l>(leaf: ScoredLeaf<'l>, part: LeafPart, rev: bool, mut show: impl FnMut(f64, LeafElement<'l>) -> bool) {
    let (skip, left) = (part.skip as usize, usize::try_from(part.left).unwrap_or(usize::MAX));
    debug_assert!(skip < leaf.len(), "a part of {} members behind {skip}", leaf.len());
    if rev {
        leaf.down_from(leaf.len() - skip).take(left).all(|(score, element)| show(score, element));
    } else {
        leaf.from(skip).take(left).all(|(score, element)| show(score, element));
    }
}
