//! Readers of a stream over several holds of the shard.
//!
//! Each is shown the entries of a range in order, as they were when it began ([`crate::sequence_readers`]). A node that
//! is about to change is handed over as it lies in the log.

use varve_segment::{Access, Log};

use super::{Leaf, Stream, StreamEntry, StreamNode};
use crate::sequence_readers::{LeafPart, NextLeaf};
use crate::{Forgotten, ReadCtx, ReaderBytes, ReaderNumber};

/// The entries of a node that a reader is shown.
#[derive(Clone, Copy, Debug)]
pub struct StreamPart<'a> {
    /// The node.
    pub node: StreamNode<'a>,
    /// Entries that are passed over, in the direction of the reader.
    skip: usize,
    /// Entries that are shown.
    count: usize,
    rev: bool,
}

impl<'a> StreamPart<'a> {
    /// Number of entries that are shown.
    #[allow(clippy::len_without_is_empty, reason = "a reader is shown entries")]
    pub fn len(&self) -> usize {
        self.count
    }

    /// Shows the entries in the direction of the reader.
    pub fn for_each(&self, show: impl FnMut(StreamEntry<'a>)) {
        let entries = self.node.entries().map(|(_, entry)| entry);
        if self.rev {
            let entries: Vec<StreamEntry<'a>> = entries.collect();
            entries.into_iter().rev().skip(self.skip).take(self.count).for_each(show);
        } else {
            entries.skip(self.skip).take(self.count).for_each(show);
        }
    }
}

impl Stream {
    /// Begins to read `count` entries from position `first` on, downwards if `rev`. What is kept for the reader is counted
    /// in its bytes.
    pub fn begin_reading(&mut self, reader: (ReaderNumber, ReaderBytes), first: u64, count: u64, rev: bool) {
        self.readers.get_or_insert_default().begin(&self.tree, reader, (first, count), rev);
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

    #[cold]
    #[inline(never)]
    fn hand_over(&mut self, log: &Log, access: &Access, leaf: Leaf) {
        let readers = self.readers.as_mut().expect("the caller looked");
        let node = access.open(log, self.tree.leaf_ref(leaf)).value();
        readers.hand_over(log, leaf.number(), node, std::iter::empty());
    }

    /// Shows a reader the next nodes, until `show` wants no more. Returns false when all was shown: the reader is forgotten
    /// then.
    pub fn read_on(
        &mut self,
        ctx: ReadCtx<'_>,
        (number, rev): (ReaderNumber, bool),
        mut show: impl FnMut(StreamPart<'_>) -> bool,
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
            let part = part_of(StreamNode::open(value), part, rev);
            let wants_more = show(part);
            let is_left = readers.note_shown(number, part.count as u64);
            handed.into_iter().for_each(|leaf| readers.take_back(number, leaf));
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

/// The entries of a node that belong to the range.
fn part_of(node: StreamNode<'_>, LeafPart { skip, left }: LeafPart, rev: bool) -> StreamPart<'_> {
    let skip = skip as usize;
    debug_assert!(skip < node.len(), "a part of {} entries behind {skip}", node.len());
    let count = (node.len() - skip).min(usize::try_from(left).unwrap_or(usize::MAX));
    StreamPart { node, skip, count, rev }
}
