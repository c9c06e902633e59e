//! Reading a stream: ranges of IDs in both directions, positions, single entries.

use std::cmp::Ordering;

use super::{Stream, StreamEntry, StreamFacts, StreamId};
use crate::ReadCtx;
use crate::counted_tree::Leaf;

/// A stream to read.
#[derive(Clone, Copy)]
pub struct StreamReader<'a> {
    /// The stream.
    pub stream: &'a Stream,
    /// Opens its nodes.
    pub ctx: ReadCtx<'a>,
}

impl<'a> StreamReader<'a> {
    /// Shows the entries from one ID to another, both included, from the greatest down if `rev`, until `show` wants no
    /// more.
    pub fn range(&self, from: StreamId, to: StreamId, rev: bool, mut show: impl FnMut(StreamEntry<'a>) -> bool) {
        let StreamReader { stream, ctx } = *self;
        let mut next = stream.leaf_of(ctx, if rev { to } else { from });
        while let Some(leaf) = next.filter(|_| from <= to) {
            let node = stream.node(ctx, leaf);
            next = if rev { stream.tree.prev(leaf) } else { stream.tree.next(leaf) };
            if let Some(leaf) = next {
                ctx.log.line(stream.tree.leaf_ref(leaf)).fetch_pair();
            }
            let entries = node.entries().map(|(_, entry)| entry);
            let entries = entries.skip_while(|entry| entry.id < from).take_while(|entry| entry.id <= to);
            let wants_more = if rev {
                let entries: Vec<StreamEntry<'a>> = entries.collect();
                entries.into_iter().rev().all(&mut show)
            } else {
                entries.into_iter().all(&mut show)
            };
            let is_last = if rev { node.first() <= from } else { node.last() >= to };
            if !wants_more || is_last {
                return;
            }
        }
    }

    /// Whether there is an entry with this ID.
    pub fn has(&self, id: StreamId) -> bool {
        self.stream.find(self.ctx, id).is_some()
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
        let leaf = self.stream.tree.first()?;
        self.stream.node(self.ctx, leaf).entries().next().map(|(_, entry)| entry)
    }

    /// The entry with the greatest ID.
    pub fn last(&self) -> Option<StreamEntry<'a>> {
        let leaf = self.stream.tree.last()?;
        self.stream.node(self.ctx, leaf).entries().last().map(|(_, entry)| entry)
    }

    /// The facts of the stream beside its entries.
    pub fn facts(&self) -> StreamFacts {
        let first = self.first().map_or(StreamId::MIN, |entry| entry.id);
        let groups = self.stream.groups().map_or(0, |groups| groups.len());
        StreamFacts { len: self.stream.len(), first, state: self.stream.state(), groups }
    }

    /// Shows the nodes in order.
    pub fn for_each_node(&self, mut show: impl FnMut(super::StreamNode<'a>)) {
        let mut next = self.stream.tree.first();
        while let Some(leaf) = next {
            show(self.stream.node(self.ctx, leaf));
            next = self.stream.tree.next(leaf);
        }
    }
}

impl Stream {
    /// Number of entries with lesser IDs. O(log n), and the entries of a node.
    pub fn rank(&self, ctx: ReadCtx<'_>, id: StreamId) -> u64 {
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
