//! Readers of a list over several holds of the shard.
//!
//! Each is shown the elements of a range in order, as they were when it began ([`crate::sequence_readers`]). A node that
//! is about to change is handed over as it lies in the log, compressed or not.

use varve_packed::node::Node;
use varve_segment::{Access, Log};

use super::{CompressScratch, End, Leaf, Quicklist, open};
use crate::sequence_readers::{LeafPart, NextLeaf};
use crate::{Forgotten, ReadCtx, ReaderBytes, ReaderNumber};

/// The elements of a node that a reader is shown.
#[derive(Clone, Copy, Debug)]
pub struct NodePart<'n> {
    /// The node.
    pub node: Node<'n>,
    /// The number of the first element that is shown, counted from the front; `None` for the one at the end where the
    /// range comes in.
    pub offset: Option<usize>,
    /// Number of elements at most.
    pub many: usize,
}

impl Quicklist {
    /// Begins to read `count` elements from position `first` on, towards the end that is not `from`. What is kept for the
    /// reader is counted in its bytes.
    pub fn begin_reading(&mut self, reader: (ReaderNumber, ReaderBytes), first: u64, count: u64, from: End) {
        let readers = self.readers.get_or_insert_default();
        readers.begin(&self.tree, reader, (first, count), from == End::Back);
    }

    /// Forgets a reader that wants no more, or a part of what was handed over to it.
    pub(crate) fn end_reading(&mut self, number: ReaderNumber) -> Forgotten {
        let Some(readers) = &mut self.readers else { return Forgotten::Unknown };
        let forgotten = readers.forget(number);
        if readers.is_empty() {
            self.readers = None;
        }
        forgotten
    }

    /// Whether somebody reads.
    pub(crate) fn is_read(&self) -> bool {
        self.readers.is_some()
    }

    /// Sees to it that readers have a node as it is: it is about to change, or to go.
    #[inline(always)]
    pub(super) fn before(&mut self, log: &Log, access: &Access, leaf: Leaf) {
        if self.readers.is_some() {
            self.hand_over(log, access, leaf);
        }
    }

    /// Hands a node over to the readers that have not come to it: it is about to change, or to go.
    #[cold]
    #[inline(never)]
    fn hand_over(&mut self, log: &Log, access: &Access, leaf: Leaf) {
        let readers = self.readers.as_mut().expect("the caller looked");
        let node = access.open(log, self.tree.leaf_ref(leaf)).value();
        readers.hand_over(log, leaf.number(), node, std::iter::empty());
    }

    /// Shows a reader the next nodes, until `show`, which returns the number of elements that it has taken and whether it
    /// wants more, wants no more. Returns false when all was shown: the reader is forgotten then.
    pub fn read_on(
        &mut self,
        ctx: ReadCtx<'_>,
        scratch: &mut CompressScratch,
        (number, from): (ReaderNumber, End),
        mut show: impl FnMut(NodePart<'_>) -> (u64, bool),
    ) -> bool {
        let mut readers = self.readers.take().expect("a reader that has begun");
        let is_left = loop {
            let Some((leaf, part)) = readers.next(number) else { break false };
            if let Some(leaf) = readers.upcoming(number).and_then(|leaf| self.tree.leaf(leaf)) {
                ctx.log.line(self.tree.leaf_ref(leaf)).fetch_pair();
            }
            let mut handed = None;
            let value = match leaf {
                NextLeaf::Live(leaf) => {
                    let leaf = self.tree.leaf(leaf).expect("a leaf that is as it was");
                    ctx.access.open(ctx.log, self.tree.leaf_ref(leaf)).value()
                }
                NextLeaf::Handed(leaf) => handed.insert(leaf).bytes(),
            };
            let node = open(value, &mut scratch.node);
            let (taken, wants_more) = show(part_of(node, part, from));
            handed.into_iter().for_each(|leaf| readers.take_back(number, leaf));
            let is_left = readers.note_shown(number, taken);
            if !wants_more || !is_left {
                break is_left;
            }
        };
        self.readers = Some(readers);
        if !is_left {
            let forgotten = self.end_reading(number);
            debug_assert_eq!(forgotten, Forgotten::Wholly, "all that was handed over was shown");
        }
        is_left
    }
}

/// The elements of a node that belong to the range.
fn part_of(node: Node<'_>, part: LeafPart, from: End) -> NodePart<'_> {
    let offset = (part.skip > 0).then_some(match from {
        End::Front => part.skip as usize,
        End::Back => node.len() - 1 - part.skip as usize,
    });
    let has = node.len() - part.skip as usize;
    NodePart { node, offset, many: has.min(usize::try_from(part.left).unwrap_or(usize::MAX)) }
}
