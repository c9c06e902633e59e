//! Readers of a stream over several holds of the shard.
//!
//! Each is shown the entries of a range in order, as they were when it began ([`crate::sequence_readers`]). A node that
//! is about to change is handed over as it lies in the log.

use varve_segment::{Access, Log};

use super::{Leaf, Stream, StreamEntry, StreamNode};
use crate::handed::LentBytes;
use crate::sequence_readers::{self, LeafPart};
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

    /// A reader shares the groups, and the names of messages, as they are: bytes of what is changed of them are counted in its own, as long as it lives.
    pub fn lend_groups(&mut self, bytes: &ReaderBytes) {
        // Those that are gone are forgotten.
        self.lent.retain_mut(|lent| lent.leave(0));
        debug_assert!(self.lent.len() < 8, "{} walks have not let go of the groups", self.lent.len());
        let names_bytes = self.idempotence.as_ref().map_or(0, |kept| kept.bytes());
        if self.groups.is_some() || names_bytes > 0 {
            self.lent.push(LentBytes::new(bytes, self.group_bytes + names_bytes));
        }
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

    /// Shows a reader the next nodes, until `show` wants no more. Returns false when all was shown: the reader is forgotten
    /// then.
    pub fn read_on(
        &mut self,
        ctx: ReadCtx<'_>,
        (number, rev): (ReaderNumber, bool),
        mut show: impl FnMut(StreamPart<'_>) -> bool,
    ) -> bool {
        sequence_readers::read_nodes_on(&mut self.readers, &self.tree, ctx, number, |value, part| {
            let part = part_of(StreamNode::open(value), part, rev);
            (part.count as u64, show(part))
        })
    }
}

/// The entries of a node that belong to the range.
fn part_of(node: StreamNode<'_>, LeafPart { skip, left }: LeafPart, rev: bool) -> StreamPart<'_> {
    let skip = skip as usize;
    debug_assert!(skip < node.len(), "a part of {} entries behind {skip}", node.len());
    let count = (node.len() - skip).min(usize::try_from(left).unwrap_or(usize::MAX));
    StreamPart { node, skip, count, rev }
}
