//! Reading a stream: ranges of IDs in both directions, positions, single entries.

use std::cmp::Ordering;

use super::{
    Groups, Idempotence, SmallStream, Stream, StreamEntry, StreamFacts, StreamGroup, StreamGroups, StreamId,
    StreamNode, StreamState,
};
use crate::ReadCtx;
use crate::counted_tree::Leaf;

/// A stream to read, big or small.
#[derive(Clone, Copy)]
pub enum StreamReader<'a> {
    /// Nodes under a tree, and what opens them.
    Big(&'a Stream, ReadCtx<'a>),
    /// One node at most.
    Small(SmallStream<'a>),
}

impl<'a> StreamReader<'a> {
    /// Number of entries.
    #[allow(clippy::len_without_is_empty, reason = "an empty stream is a key like any other")]
    pub fn len(&self) -> u64 {
        match self {
            StreamReader::Big(stream, _) => stream.len(),
            StreamReader::Small(small) => small.len(),
        }
    }

    /// Number of nodes. O(1), but for the moments behind a long trimming.
    pub fn nodes(&self) -> usize {
        match self {
            StreamReader::Big(stream, _) => stream.nodes(),
            StreamReader::Small(small) => usize::from(small.node().is_some()),
        }
    }

    /// The facts that do not follow from the entries.
    pub fn state(&self) -> StreamState {
        match self {
            StreamReader::Big(stream, _) => stream.state(),
            StreamReader::Small(small) => small.state(),
        }
    }

    /// The groups; none while there are none.
    pub fn groups(&self) -> Option<&'a Groups> {
        match self {
            StreamReader::Big(stream, _) => stream.groups(),
            StreamReader::Small(_) => None,
        }
    }

    /// The groups for another stream, none while there are none ([`Stream::shared_groups`]).
    pub fn shared_groups(&self) -> Option<StreamGroups> {
        match self {
            StreamReader::Big(stream, _) => stream.shared_groups(),
            StreamReader::Small(_) => None,
        }
    }

    /// The names of messages that are added once, if the stream was ever asked to keep such.
    pub fn idempotence(&self) -> Option<&'a Idempotence> {
        match self {
            StreamReader::Big(stream, _) => stream.idempotence(),
            StreamReader::Small(_) => None,
        }
    }

    /// The group of this name.
    pub fn group(&self, name: &[u8]) -> Option<&'a StreamGroup> {
        self.groups()?.get(name)
    }

    /// Shows the entries from one ID to another, both included, from the greatest down if `rev`, until `show` wants no
    /// more.
    pub fn range(&self, from: StreamId, to: StreamId, rev: bool, mut show: impl FnMut(StreamEntry<'a>) -> bool) {
        match *self {
            StreamReader::Small(small) => {
                if let Some(node) = small.node().filter(|_| from <= to) {
                    range_of(node, (from, to), rev, &mut show);
                }
            }
            StreamReader::Big(stream, ctx) => {
                let mut next = stream.leaf_of(ctx, if rev { to } else { from });
                while let Some(leaf) = next.filter(|_| from <= to) {
                    let node = stream.node(ctx, leaf);
                    next = if rev { stream.tree.prev(leaf) } else { stream.tree.next(leaf) };
                    if let Some(leaf) = next {
                        ctx.log.line(stream.tree.leaf_ref(leaf)).fetch_pair();
                    }
                    // A node's last ID is that of the greatest entry that it ever had: XSETID may have gone back behind that, so
                    // that the next node has lesser ones.
                    let begins_beyond = || next.is_none_or(|leaf| stream.node(ctx, leaf).first() > to);
                    let is_last = if rev { node.first() <= from } else { node.last() >= to && begins_beyond() };
                    if !range_of(node, (from, to), rev, &mut show) || is_last {
                        return;
                    }
                }
            }
        }
    }

    /// Whether there is an entry with this ID.
    pub fn has(&self, id: StreamId) -> bool {
        match self {
            StreamReader::Big(stream, ctx) => stream.find(*ctx, id).is_some(),
            StreamReader::Small(_) => self.get(id).is_some(),
        }
    }

    /// The entry with this ID.
    pub fn get(&self, id: StreamId) -> Option<StreamEntry<'a>> {
        let mut found = None;
        self.range(id, id, false, |entry| {
            found = Some(entry);
            false
        });
        found
    }

    /// The entry with the least ID.
    pub fn first(&self) -> Option<StreamEntry<'a>> {
        let node = match self {
            StreamReader::Big(stream, ctx) => stream.node(*ctx, stream.tree.first()?),
            StreamReader::Small(small) => small.node()?,
        };
        node.entries().next().map(|(_, entry)| entry)
    }

    /// The entry with the greatest ID.
    pub fn last(&self) -> Option<StreamEntry<'a>> {
        let node = match self {
            StreamReader::Big(stream, ctx) => stream.node(*ctx, stream.tree.last()?),
            StreamReader::Small(small) => small.node()?,
        };
        node.entries().last().map(|(_, entry)| entry)
    }

    /// The facts of the stream beside its entries.
    pub fn facts(&self) -> StreamFacts {
        match self {
            StreamReader::Small(small) => small.facts(),
            StreamReader::Big(stream, _) => {
                let first = self.first().map_or(StreamId::MIN, |entry| entry.id);
                let groups = stream.groups().map_or(0, |groups| groups.len());
                StreamFacts { len: stream.len(), first, state: stream.state(), groups }
            }
        }
    }

    /// Number of entries with lesser IDs. O(log n), and the entries of a node.
    pub fn rank(&self, id: StreamId) -> u64 {
        match self {
            StreamReader::Big(stream, ctx) => stream.rank(*ctx, id),
            StreamReader::Small(small) => small.rank(id),
        }
    }

    /// Shows the nodes in order.
    pub fn for_each_node(&self, mut show: impl FnMut(StreamNode<'a>)) {
        match self {
            StreamReader::Small(small) => small.node().into_iter().for_each(show),
            StreamReader::Big(stream, ctx) => {
                let mut next = stream.tree.first();
                while let Some(leaf) = next {
                    show(stream.node(*ctx, leaf));
                    next = stream.tree.next(leaf);
                }
            }
        }
    }
}

/// Shows the entries of a node from one ID to another, downwards if `rev`; false once `show` wants no more.
fn range_of<'a>(
    node: StreamNode<'a>,
    (from, to): (StreamId, StreamId),
    rev: bool,
    show: &mut impl FnMut(StreamEntry<'a>) -> bool,
) -> bool {
    let entries = node.entries().map(|(_, entry)| entry);
    let mut entries = entries.skip_while(|entry| entry.id < from).take_while(|entry| entry.id <= to);
    if rev {
        let entries: Vec<StreamEntry<'a>> = entries.collect();
        entries.into_iter().rev().all(show)
    } else {
        entries.all(show)
    }
}

impl Stream {
    /// Number of entries with lesser IDs. O(log n), and the entries of a node.
    pub(super) fn rank(&self, ctx: ReadCtx<'_>, id: StreamId) -> u64 {
        let Some(leaf) = self.leaf_of(ctx, id) else { return 0 };
        debug_assert!(self.tree.count_of(leaf) > 0, "no node is empty");
        let below = self.node(ctx, leaf).entries().take_while(|(_, entry)| entry.id < id).count();
        self.tree.position_of(leaf) + below as u64
    }

    /// The last node that begins with this ID or before it; the first node if there is none such.
    pub(super) fn leaf_of(&self, ctx: ReadCtx<'_>, id: StreamId) -> Option<Leaf> {
        self.tree.descend_by(
            |ms| ms.cmp(&id.ms),
            None::<fn(Leaf) -> Ordering>,
            |leaf| self.node(ctx, leaf).first() <= id,
            |leaf| ctx.log.line(self.tree.leaf_ref(leaf)).fetch_pair(),
        )
    }

    /// The node of the entry with an ID, where the entry begins there, and its bytes.
    pub(super) fn find(&self, ctx: ReadCtx<'_>, id: StreamId) -> Option<(Leaf, usize, usize)> {
        let leaf = self.leaf_of(ctx, id)?;
        let entries = self.node(ctx, leaf).entries();
        let mut at = entries.offset();
        for (bytes, entry) in entries {
            match entry.id.cmp(&id) {
                Ordering::Less => at += bytes,
                Ordering::Equal => return Some((leaf, at, bytes)),
                Ordering::Greater => return None,
            }
        }
        None
    }
}
