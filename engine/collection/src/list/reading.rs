//! Readers of a list over several holds of the shard.
//!
//! Each is shown the elements of a range in order, as they were when it began ([`crate::sequence_readers`]). A node that
//! is about to change is handed over as it lies in the log, compressed or not.

use varve_packed::node::Node;
use varve_segment::{Access, Log};

use super::{CompressScratch, End, Leaf, Quicklist, open};
use crate::sequence_readers::{self, LeafPart};
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
        sequence_readers::end(&mut self.readers, number, |_| ())
    }

    /// Whether somebody reads.
    pub(crate) fn is_read(&self) -> bool {
        self.readers.is_some()
    }

    /// Sees to it that readers have a node as it is: it is about to change, or to go.
    #[inline(always)]
    pub(super) fn before(&mut self, log: &Log, access: &Access, leaf: Leaf) {
        sequence_readers::before(&mut self.readers, &self.tree, (log, access), leaf);
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
        sequence_readers::read_nodes_on(&mut self.readers, &self.tree, ctx, number, |value, part| {
            show(part_of(open(value, &mut scratch.node), part, from))
        })
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
