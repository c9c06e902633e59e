//! A big list: packed nodes, each an object of the log, in the order of a tree.
//!
//! ```text
//!   CountedTree (leaf number -> Ref, counts)     0         3         1         4         2
//!                                          |         |         |         |         |
//!   objects of kinds::NODE,            +----v----+----v----+----v----+----v----+----v----+
//!   key: the leaf number              | packed  | packed  | compressed| packed  | packed  |
//!                                     |    a b c| d e f   |  g h i  | huge j  | k l     |
//!                                     +---------+---------+---------+---------+---------+
//!                                      room here           no room    exact        room here
//! ```
//! A node made at an end may grow to a whole fill of entries like its first, its room where the list grows, so that a push
//! or pop there touches its own entry, the node's header and some counts. A node that has no room there is slid once if it
//! has much room at its other end, or made longer in its object; else the next node is begun. What the middle needs (splitting, joining small nodes) writes
//! nodes anew with a quarter more than they need. An entry that is larger than a fill has a node to itself.
//!
//! With a depth, nodes further from both ends than that are compressed. An end is never compressed once it was touched; all
//! else takes nodes as it finds them, so that settings may change at any time.
//!
//! | file | what |
//! |---|---|
//! | here | nodes: written, changed, given up; pushes and pops |
//! | `middle` | insertion, replacement, removal; joining |
//! | `read` | reading and searching |
//! | `reading` | readers over several holds of the shard, who see the list as it was when they began |
//! | `depth` | which nodes are compressed |
//! | `shape` | how large nodes get |
//!
//! A list does not know its key, and is never empty between commands.

mod depth;
mod middle;
mod read;
mod reading;
mod shape;
#[cfg(test)]
mod tests;

use std::collections::HashSet;

use varve_base::Ref;
use varve_packed::node::{
    Coded, CompressedNode, Compressor, Encoded, Grow, Node, NodeMut, PackedEntry, buffer_bytes, expand, is_compressed,
};
use varve_segment::{Access, Appender, Log, NewObject, NewValue, ObjectHead, Owner};

use crate::counted_tree::CountedTree;
use crate::kinds;
use crate::sequence_readers;
use crate::{CollectionId, ReadCtx, WriteCtx};

pub use crate::counted_tree::Leaf;
pub use middle::{RemovalPart, RemovedPart, insert_entry, remove_matches};
pub use read::{QuicklistReader, Search, emit_from};
pub use reading::NodePart;
pub use shape::Shape;

/// The part of a list's bytes that a new node has at once: of lists of a few nodes the last one is not full, on average.
const BEGUN_PART: usize = 16;
/// A node slides its entries only if its free room is at least this part of them.
const SLIDE_PART: usize = 16;
/// Nodes cut off by one command that it kills itself; the background kills the others.
const CUT_AT_ONCE: usize = 64;
/// Scratch larger than this is given back.
const SCRATCH_KEPT: usize = 256 << 10;

/// An end of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Where the element number 0 is.
    Front,
    /// Where the last element is.
    Back,
}

impl End {
    /// The other one.
    pub fn other(self) -> End {
        match self {
            End::Front => End::Back,
            End::Back => End::Front,
        }
    }

    fn grow(self) -> Grow {
        match self {
            End::Front => Grow::Front,
            End::Back => Grow::Back,
        }
    }
}

/// Scratch memory for compressing and joining nodes: one a worker.
#[derive(Default)]
pub struct CompressScratch {
    compressor: Compressor,
    /// A node that is being changed or read.
    node: Vec<u8>,
    /// A compressed node, or a second one.
    other: Vec<u8>,
}

impl CompressScratch {
    /// Gives back what a large node has left.
    pub fn relax(&mut self) {
        for scratch in [&mut self.node, &mut self.other] {
            if scratch.capacity() > SCRATCH_KEPT {
                *scratch = Vec::new();
            }
        }
    }
}

/// The context of an operation that changes a list.
pub struct ListCtx<'a, 'h> {
    /// The context that every change of a collection needs.
    pub write: &'a mut WriteCtx<'h>,
    /// Buffers for nodes that are compressed or joined.
    pub scratch: &'a mut CompressScratch,
    /// The settings of the moment.
    pub shape: Shape,
}

impl ListCtx<'_, '_> {
    fn value(&self, r: Ref) -> &[u8] {
        self.write.access.open(self.write.log, r).value()
    }
}

/// The outcome of putting an element into the node at an end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pushed {
    /// It is there.
    Yes,
    /// The node is full: a new one is to be begun, and nothing else.
    Full,
    /// More is to be seen to.
    No,
}

/// The state in which a pop has left an end's node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Popped {
    /// Other entries.
    One,
    /// Nothing: the node is to be dropped.
    Last,
}

/// A list of nodes.
pub struct Quicklist {
    tree: CountedTree,
    /// Bytes of all node objects that are in use: what the log counts as alive.
    object_bytes: u64,
    /// Those that are shown the list as it was; none nearly always.
    readers: sequence_readers::Readers,
}

impl Quicklist {
    /// An empty list, to be filled at once.
    pub fn empty() -> Quicklist {
        Quicklist { tree: CountedTree::new(), object_bytes: 0, readers: None }
    }

    /// A list whose first node is this one.
    pub fn of_node(ctx: &mut WriteCtx<'_>, node: &[u8]) -> Quicklist {
        let mut list = Quicklist::empty();
        let mut exact = Vec::new();
        debug_assert!(!is_compressed(node) && !Node::open(node).is_empty(), "a plain node with entries");
        compact(node, &mut exact);
        list.write_leaf(ctx, None, (NewValue::Bytes(&exact), exact.len()), Node::open(node).len(), false);
        list
    }

    /// Number of elements.
    #[inline]
    #[allow(clippy::len_without_is_empty, reason = "an empty collection is no key")]
    pub fn len(&self) -> u64 {
        self.tree.count()
    }

    /// Bytes of the nodes in the log that are in use.
    pub fn object_bytes(&self) -> u64 {
        self.object_bytes
    }

    /// Bytes of the tree, and of what readers have.
    #[inline]
    pub fn table_bytes(&self) -> usize {
        self.tree.bytes() + self.readers.as_ref().map_or(0, |readers| readers.bytes())
    }

    /// Whether there is one node only.
    #[inline]
    pub fn is_single(&self) -> bool {
        self.tree.is_single()
    }

    /// The only node, if it has become so small that the key's object may hold it: half of what makes a list, so that
    /// a list does not go back and forth.
    pub fn single<'a>(&self, ctx: ReadCtx<'a>, shape: Shape) -> Option<&'a [u8]> {
        let leaf = self.tree.first().filter(|_| self.is_single())?;
        debug_assert_eq!(Some(leaf), self.tree.last(), "the only node is the first and the last");
        let value = ctx.access.open(ctx.log, self.tree.leaf_ref(leaf)).value();
        let (entries, bytes) = sizes(value);
        shape.is_half(entries, bytes).then_some(value)
    }

    /// Adds an element at an end.
    #[inline]
    pub fn push(&mut self, ctx: &mut ListCtx<'_, '_>, end: End, entry: &Coded<'_>) {
        if let Some(leaf) = self.end(end)
            && self.push_into(ctx, leaf, end, entry)
        {
            return;
        }
        let after = match end {
            End::Front => None,
            End::Back => self.tree.last(),
        };
        self.begin_node(ctx.write, after, ctx.shape.fresh(entry.size()), end.grow(), entry);
        self.keep_depth(ctx);
    }

    /// Adds an element to an end's node if that has room at hand; else nothing is done, and the answer says why.
    #[inline(always)]
    pub fn push_in_place(
        &mut self,
        log: &Log,
        access: &mut Access,
        shape: &Shape,
        end: End,
        entry: &impl Encoded,
    ) -> Pushed {
        let Some(leaf) = self.end(end) else { return Pushed::No };
        if self.is_read() {
            return Pushed::No;
        }
        let mut object = access.open_mut(log, self.tree.leaf_ref(leaf));
        let Some(mut node) = NodeMut::open_plain(object.value_mut()) else { return Pushed::No };
        let (size, read) = (entry.size(), node.node());
        if !shape.takes(read.len(), read.bytes(), size) {
            return if shape.depth == 0 { Pushed::Full } else { Pushed::No };
        }
        let near = match end {
            End::Front => read.front_room(),
            End::Back => read.back_room(),
        };
        if near < size {
            return Pushed::No;
        }
        debug_assert_eq!(node.node().len() as u64, self.tree.count_of(leaf), "the tree counts the node's entries");
        push_at(&mut node, end, entry);
        self.tree.add(leaf, 1);
        Pushed::Yes
    }

    /// Adds an element in a new node at an end.
    pub fn push_in_new_node(&mut self, ctx: &mut WriteCtx<'_>, shape: &Shape, end: End, entry: &Coded<'_>) {
        let after = match end {
            End::Front => None,
            End::Back => self.tree.last(),
        };
        self.begin_node(ctx, after, shape.fresh(entry.size()), end.grow(), entry);
    }

    /// Takes the element at an end away if neither its node nor the list becomes so small that something follows from it;
    /// else nothing is done, and `emit` is given back.
    #[inline(always)]
    pub fn pop_in_place<F: FnOnce(PackedEntry<'_>)>(
        &mut self,
        log: &Log,
        access: &mut Access,
        shape: &Shape,
        end: End,
        emit: F,
    ) -> Result<Popped, F> {
        let Some(leaf) = self.end(end) else { return Err(emit) };
        if self.is_read() {
            return Err(emit);
        }
        let mut object = access.open_mut(log, self.tree.leaf_ref(leaf));
        let Some(mut node) = NodeMut::open_plain(object.value_mut()) else { return Err(emit) };
        let left = node.node().len() - 1;
        if left == 0 {
            if shape.depth > 0 || self.tree.leaves() < 3 || self.tree.has_detached() {
                return Err(emit);
            }
        } else if (looks_at_size(left, shape) && becomes_small(node.node(), end, shape))
            || (self.is_single() && shape.is_half(left, node.node().bytes()))
        {
            return Err(emit);
        }
        debug_assert_eq!(left as u64 + 1, self.tree.count_of(leaf), "the tree counts the node's entries");
        emit(pop_from(&mut node, end));
        self.tree.add(leaf, -1);
        Ok(if left > 0 { Popped::One } else { Popped::Last })
    }

    /// Drops the empty node that a pop has left at an end.
    pub fn drop_empty(&mut self, ctx: &mut WriteCtx<'_>, end: End) {
        let leaf = self.end(end).expect("there are other nodes");
        debug_assert_eq!(self.tree.count_of(leaf), 0, "only a node without entries is dropped");
        debug_assert!(self.tree.leaves() > 1, "a list keeps a node");
        let r = self.tree.remove(leaf);
        self.kill(ctx, r);
    }

    /// Takes the element at an end away.
    #[inline]
    pub fn pop(&mut self, ctx: &mut ListCtx<'_, '_>, end: End, emit: impl FnOnce(PackedEntry<'_>)) -> bool {
        let Some(leaf) = self.end(end) else { return false };
        self.before(ctx.write.log, ctx.write.access, leaf);
        let r = self.decompressed(ctx, leaf);
        debug_assert!(!is_compressed(ctx.value(r)), "entries are taken out of a plain node");
        let mut object = ctx.write.access.open_mut(ctx.write.log, r);
        let mut node = NodeMut::open(object.value_mut());
        emit(pop_from(&mut node, end));
        let left = node.node().len();
        self.tree.add(leaf, -1);
        if left == 0 {
            self.drop_leaf(ctx, leaf);
            self.keep_depth(ctx);
        } else if looks_at_size(left, &ctx.shape) {
            self.join_if_small(ctx, leaf);
        }
        true
    }

    /// Takes the first `count` elements from an end away, in the order of pops; all if there are fewer.
    pub fn take(&mut self, ctx: &mut ListCtx<'_, '_>, end: End, count: u64, mut emit: impl FnMut(PackedEntry<'_>)) {
        let mut left = count;
        while let Some(leaf) = self.end(end).filter(|_| left > 0) {
            let many = self.tree.count_of(leaf).min(left) as usize;
            debug_assert!(many > 0, "no node is empty");
            let node =
                open(ctx.write.access.open(ctx.write.log, self.tree.leaf_ref(leaf)).value(), &mut ctx.scratch.node);
            match end {
                End::Front => node.iter().take(many).for_each(&mut emit),
                End::Back => node.iter().rev().take(many).for_each(&mut emit),
            }
            self.cut(ctx, end, many as u64);
            left -= many as u64;
        }
    }

    /// Removes the first `count` elements from an end. Nodes that go whole are cut off at once and killed later, but for
    /// a few.
    pub fn cut(&mut self, ctx: &mut ListCtx<'_, '_>, end: End, count: u64) {
        let len = self.len();
        if count == 0 || count >= len {
            return self.cut_all(ctx, count);
        }
        let first_kept = if end == End::Front { count } else { len - 1 - count };
        let (leaf, _) = self.tree.locate(first_kept).expect("it stays");
        debug_assert!(0 < count && count < len, "some go and some stay");
        match end {
            End::Front => self.tree.cut_before(leaf),
            End::Back => self.tree.cut_after(leaf),
        }
        let gone = (count - (len - self.len())) as usize;
        let has = self.tree.count_of(leaf) as usize;
        debug_assert!(gone < has, "the element that is kept first is in this node");
        if gone > 0 {
            self.edit(ctx, leaf, 0, Grow::Both, |node| match end {
                End::Front => node.remove_indices(0, gone),
                End::Back => node.remove_indices(has - gone, has),
            });
            self.join_if_small(ctx, leaf);
        }
        if !self.is_read() {
            self.step(ctx.write, CUT_AT_ONCE);
        }
        self.keep_depth(ctx);
    }

    /// Removes everything or nothing.
    fn cut_all(&mut self, ctx: &mut ListCtx<'_, '_>, count: u64) {
        while let Some(leaf) = self.tree.first().filter(|_| count > 0) {
            self.drop_leaf(ctx, leaf);
        }
    }

    /// Whether nodes that were cut off are left.
    pub fn wants_step(&self) -> bool {
        self.tree.has_detached()
    }

    /// Kills at most `nodes` of the nodes that were cut off. Those that somebody is to be shown are handed over before: they
    /// count for the reader then, and a reader that never comes to its end keeps no more than was there when it began.
    pub fn step(&mut self, ctx: &mut WriteCtx<'_>, nodes: usize) {
        for _ in 0..nodes {
            let Some(leaf) = self.tree.next_detached() else { return };
            self.before(ctx.log, ctx.access, leaf);
            let r = self.tree.take_detached().expect("there is one");
            self.kill(ctx, r);
        }
    }

    /// Moves the node that reclaim has come to; false if the list does not have it.
    pub fn relocate(&mut self, ctx: &mut WriteCtx<'_>, head: &ObjectHead<'_>) -> bool {
        // It may be anything that died since reclaim read it, whose collection's number this one has now.
        let Ok(number) = head.key.try_into().map(u32::from_le_bytes) else { return false };
        let Some(leaf) = self.tree.leaf(number).filter(|leaf| self.tree.leaf_ref(*leaf) == head.r) else {
            return false;
        };
        debug_assert_eq!(
            ctx.access.open(ctx.log, head.r).owner(),
            Owner::Collection(ctx.id.number()),
            "a node of this list"
        );
        self.object_bytes -= ctx.access.open(ctx.log, head.r).live_bytes() as u64;
        let new = ctx.relocate(head.r);
        self.object_bytes += ctx.access.open(ctx.log, new).live_bytes() as u64;
        self.tree.set_ref(leaf, new);
        true
    }

    /// Kills about `objects` nodes; true when none is left.
    pub fn free_step(&mut self, ctx: &mut WriteCtx<'_>, objects: usize) -> bool {
        debug_assert!(!self.is_read(), "a list that somebody reads is not freed");
        for _ in 0..objects {
            let detached = self.tree.take_detached();
            let Some(r) = detached.or_else(|| self.tree.last().map(|leaf| self.tree.remove(leaf))) else { return true };
            self.kill(ctx, r);
        }
        debug_assert!(self.tree.leaves() > 0 || self.object_bytes == 0, "no bytes without nodes");
        self.tree.leaves() == 0
    }

    /// Gives back some of the tree; true when nothing is left of it.
    pub fn shrink_step(&mut self) -> bool {
        self.tree.shrink_step()
    }

    /// Copies the elements into nodes of the collection `id`.
    pub fn copy(&self, from: ReadCtx<'_>, appender: &mut Appender, id: CollectionId) -> Quicklist {
        let mut copy = Quicklist::empty();
        let mut next = self.tree.first();
        while let Some(leaf) = next {
            let value = from.access.open(from.log, self.tree.leaf_ref(leaf)).value();
            let number = copy.tree.upcoming().number().to_le_bytes();
            let r = appender.append(from.log, &node_object(id, &number, NewValue::Bytes(value)));
            copy.object_bytes += from.access.open(from.log, r).live_bytes() as u64;
            copy.tree.insert_after(copy.tree.last(), r, sizes(value).0 as u32, 0);
            next = self.tree.next(leaf);
        }
        copy
    }

    /// Checks everything and adds every live object's Ref. O(N).
    pub fn verify(&self, ctx: ReadCtx<'_>, id: CollectionId, live: &mut HashSet<Ref>) {
        self.tree.verify();
        if let Some(readers) = &self.readers {
            readers.verify(|leaf| self.tree.leaf(leaf).is_some(), live);
        }
        let leaves = std::iter::successors(self.tree.first(), |leaf| self.tree.next(*leaf));
        let detached = self.tree.detached_leaves();
        let mut bytes = 0;
        for leaf in leaves.clone().chain(detached) {
            let r = self.tree.leaf_ref(leaf);
            let object = ctx.access.open(ctx.log, r);
            assert_eq!(
                (object.kind(), object.owner()),
                (kinds::NODE, Owner::Collection(id.number())),
                "a node of {id:?}"
            );
            assert_eq!(object.key(), leaf.number().to_le_bytes(), "a node carries its number");
            assert!(live.insert(r), "a node is in one place only");
            bytes += object.live_bytes() as u64;
        }
        let mut scratch = Vec::new();
        for leaf in leaves {
            let node = open(ctx.access.open(ctx.log, self.tree.leaf_ref(leaf)).value(), &mut scratch);
            node.verify();
            assert!(!node.is_empty(), "no node is empty");
            assert_eq!(node.len() as u64, self.tree.count_of(leaf), "the tree counts the node's entries");
        }
        assert_eq!(bytes, self.object_bytes, "bytes of the nodes of {id:?}");
    }

    #[inline(always)]
    fn end(&self, end: End) -> Option<Leaf> {
        match end {
            End::Front => self.tree.first(),
            End::Back => self.tree.last(),
        }
    }

    /// Adds an entry at an end of a node, if the node takes it without moving others again and again.
    #[inline]
    fn push_into(&mut self, ctx: &mut ListCtx<'_, '_>, leaf: Leaf, end: End, entry: &Coded<'_>) -> bool {
        let (shape, size) = (ctx.shape, entry.size());
        debug_assert!(size > 0, "every entry has bytes");
        self.before(ctx.write.log, ctx.write.access, leaf);
        let mut object = ctx.write.access.open_mut(ctx.write.log, self.tree.leaf_ref(leaf));
        if is_compressed(object.value()) {
            return self.push_compressed(ctx, leaf, end, entry);
        }
        let node = Node::open(object.value());
        let bytes = node.bytes();
        if !shape.takes(node.len(), bytes, size) {
            return false;
        }
        let near = match end {
            End::Front => node.front_room(),
            End::Back => node.back_room(),
        };
        if near >= size || node.room() >= size.max(bytes / SLIDE_PART) {
            let mut node = NodeMut::open(object.value_mut());
            push_at(&mut node, end, entry);
            self.tree.add(leaf, 1);
            return true;
        }
        debug_assert!(node.len() as u64 == self.tree.count_of(leaf), "the tree counts the node's entries");
        // A node that is almost a fill is not written anew for the little that is left.
        if object.value().len() > shape.bytes - shape.bytes / 8 {
            return false;
        }
        self.edit(ctx, leaf, size, end.grow(), |node| push_at(node, end, entry));
        true
    }

    #[cold]
    fn push_compressed(&mut self, ctx: &mut ListCtx<'_, '_>, leaf: Leaf, end: End, entry: &Coded<'_>) -> bool {
        let (entries, bytes) = sizes(ctx.value(self.tree.leaf_ref(leaf)));
        let takes = ctx.shape.takes(entries, bytes, entry.size());
        debug_assert_eq!(entries as u64, self.tree.count_of(leaf), "a compressed node states its entries");
        if takes {
            self.edit(ctx, leaf, entry.size(), end.grow(), |node| push_at(node, end, entry));
        }
        takes
    }

    /// Makes a node with one entry, behind another node or in front of all, which may grow to `room` bytes where it lies. It
    /// has all of them at once in a long list, and in a short one a part that is small beside the list.
    fn begin_node(&mut self, ctx: &mut WriteCtx<'_>, after: Option<Leaf>, room: usize, grow: Grow, entry: &Coded<'_>) {
        let part = self.object_bytes as usize / BEGUN_PART;
        let capacity = part.max(buffer_bytes(entry.size())).min(room);
        debug_assert!(capacity >= buffer_bytes(entry.size()), "{capacity} bytes for an entry of {}", entry.size());
        let leaf = self.write_leaf(ctx, after, (NewValue::Stale(capacity), room), 1, false);
        let mut object = ctx.access.open_mut(ctx.log, self.tree.leaf_ref(leaf));
        let mut node = NodeMut::init(object.value_mut(), grow).expect("a node has room for its header");
        push_at(&mut node, if grow == Grow::Front { End::Front } else { End::Back }, entry);
    }

    /// Changes a node, which has room for `more` bytes of entries when `change` runs; if it has to be written anew for
    /// that, it will `grow`. A node that has become empty goes. Returns how many entries are left.
    fn edit(
        &mut self,
        ctx: &mut ListCtx<'_, '_>,
        leaf: Leaf,
        more: usize,
        grow: Grow,
        change: impl FnOnce(&mut NodeMut<'_>),
    ) -> usize {
        self.before(ctx.write.log, ctx.write.access, leaf);
        let r = self.tree.leaf_ref(leaf);
        let before = self.tree.count_of(leaf) as usize;
        debug_assert!(before > 0, "no node is empty");
        let mut object = ctx.write.access.open_mut(ctx.write.log, r);
        let in_place = !is_compressed(object.value()) && Node::open(object.value()).room() >= more;
        let mut node = if in_place {
            NodeMut::open(object.value_mut())
        } else {
            let bytes = sizes(object.value()).1 + more;
            let at_hand = if grow == Grow::Both { 0 } else { object.read().room().min(buffer_bytes(bytes) * 3 / 2) };
            let capacity = ctx.shape.roomy(bytes).max(at_hand);
            load(object.value(), &mut ctx.scratch.node, capacity, grow);
            NodeMut::open(&mut ctx.scratch.node)
        };
        change(&mut node);
        let (left, bytes) = (node.node().len(), node.node().bytes());
        debug_assert!(left <= before + 1, "a change adds one entry at most");
        self.tree.add(leaf, left as i64 - before as i64);
        if left == 0 {
            self.drop_leaf(ctx, leaf);
        } else if !in_place {
            self.write_loaded(ctx, leaf, grow);
        } else if left < before {
            self.shrink(ctx, leaf, bytes);
        }
        left
    }

    /// Writes a node anew that has become small for its room, but not one of a fill at an end, which may grow again.
    fn shrink(&mut self, ctx: &mut ListCtx<'_, '_>, leaf: Leaf, bytes: usize) {
        let is_end = Some(leaf) == self.tree.first() || Some(leaf) == self.tree.last();
        let value = ctx.write.access.open(ctx.write.log, self.tree.leaf_ref(leaf)).value();
        let capacity = ctx.shape.roomy(bytes);
        debug_assert!(!is_compressed(value), "a node that was changed in place is plain");
        debug_assert!(capacity >= buffer_bytes(bytes), "{capacity} bytes for {bytes} of entries");
        if value.len() > 2 * capacity && (!is_end || value.len() > ctx.shape.bytes) {
            load(value, &mut ctx.scratch.node, capacity, Grow::Both);
            self.write_loaded(ctx, leaf, Grow::Both);
        }
    }

    /// Writes the node in the scratch in the place of a leaf's old one, compressed if it is far from both ends. One that is
    /// going to `grow` at an end stays where it lies, as long as its object has the room.
    fn write_loaded(&mut self, ctx: &mut ListCtx<'_, '_>, leaf: Leaf, grow: Grow) {
        debug_assert_eq!(Node::open(&ctx.scratch.node).len() as u64, self.tree.count_of(leaf), "the node of this leaf");
        let compressed = self.is_inner(leaf, ctx.shape.depth).then(|| compress(ctx.scratch)).flatten();
        let value = match compressed {
            Some(size) => &ctx.scratch.other[..size],
            None => &ctx.scratch.node,
        };
        let mut object = ctx.write.access.open_mut(ctx.write.log, self.tree.leaf_ref(leaf));
        let before = object.read().live_bytes() as u64;
        let stays = grow != Grow::Both && value.len() > object.value().len() && object.set_value(value);
        if stays {
            self.object_bytes = self.object_bytes - before + object.read().live_bytes() as u64;
        } else {
            let room = if grow == Grow::Both { value.len() } else { value.len().max(ctx.shape.bytes) };
            self.rewrite_leaf(ctx.write, leaf, (value, room));
        }
    }

    /// Writes a node anew, which may grow to a number of bytes where it lies.
    fn rewrite_leaf(&mut self, ctx: &mut WriteCtx<'_>, leaf: Leaf, (value, room): (&[u8], usize)) {
        let old = self.tree.leaf_ref(leaf);
        let like = NewObject::like(&ctx.access.open(ctx.log, old));
        debug_assert_eq!(like.key, leaf.number().to_le_bytes(), "a node carries its number");
        let new = ctx.appender.append(ctx.log, &NewObject { value: NewValue::Bytes(value), room, ..like });
        self.object_bytes += ctx.access.open(ctx.log, new).live_bytes() as u64;
        self.tree.set_ref(leaf, new);
        self.kill(ctx, old);
    }

    /// Writes a new node, which may grow to a number of bytes where it lies; `saved` is the mark of the node that its entries
    /// come from.
    fn write_leaf(
        &mut self,
        ctx: &mut WriteCtx<'_>,
        after: Option<Leaf>,
        (value, room): (NewValue<'_>, usize),
        entries: usize,
        saved: bool,
    ) -> Leaf {
        debug_assert!(entries > 0, "no node is empty");
        let number = self.tree.upcoming().number().to_le_bytes();
        let r = ctx.appender.append(ctx.log, &NewObject { saved, room, ..node_object(ctx.id, &number, value) });
        self.object_bytes += ctx.access.open(ctx.log, r).live_bytes() as u64;
        self.tree.insert_after(after, r, entries as u32, 0)
    }

    fn drop_leaf(&mut self, ctx: &mut ListCtx<'_, '_>, leaf: Leaf) {
        self.before(ctx.write.log, ctx.write.access, leaf);
        let r = self.tree.remove(leaf);
        self.kill(ctx.write, r);
    }

    fn kill(&mut self, ctx: &mut WriteCtx<'_>, r: Ref) {
        debug_assert!(self.object_bytes >= ctx.access.open(ctx.log, r).live_bytes() as u64, "the bytes of all nodes");
        self.object_bytes -= ctx.access.open(ctx.log, r).live_bytes() as u64;
        ctx.access.kill(ctx.log, r);
    }
}

/// A node's object; if nothing else is said its room is its value, free room of the node included.
fn node_object<'a>(id: CollectionId, number: &'a [u8], value: NewValue<'a>) -> NewObject<'a> {
    let room = value.len();
    NewObject { value, room, ..NewObject::new(kinds::NODE, Owner::Collection(id.number()), number, &[]) }
}

/// Whether a node that a pop leaves with `entries` entries is checked for being small. Now and then is often
/// enough, and keeps the neighbour out of most pops.
#[inline]
fn looks_at_size(left: usize, shape: &Shape) -> bool {
    left <= shape.entries / 4 && left.is_power_of_two()
}

/// Whether a node is so small without its entry at an end that it should join a neighbour. A node whose fill is a number of
/// bytes has few large entries, so their number alone is small from the start: three in seven pops of 1 KB took the way of
/// a node that may be joined, and found it too large.
fn becomes_small(node: Node<'_>, end: End, shape: &Shape) -> bool {
    let place = match end {
        End::Front => node.first(),
        End::Back => node.last(),
    };
    let gone = node.size(place.expect("no node is empty"));
    debug_assert!(gone < node.bytes(), "other entries are left");
    shape.is_small(node.len() - 1, node.bytes() - gone)
}

/// Takes the entry at an end out of a node, which has one.
#[inline]
pub fn pop_from<'n>(node: &'n mut NodeMut<'_>, end: End) -> PackedEntry<'n> {
    let popped = match end {
        End::Front => node.pop_front(),
        End::Back => node.pop_back(),
    };
    popped.expect("no node is empty")
}

/// Adds an entry at an end of a node that has room for it.
#[inline(always)]
pub fn push_at(node: &mut NodeMut<'_>, end: End, entry: &impl Encoded) {
    let pushed = match end {
        End::Front => node.push_front(entry),
        End::Back => node.push_back(entry),
    };
    pushed.expect("room was made before");
}

/// Entries, and bytes of them, of a node as it lies in the log.
fn sizes(value: &[u8]) -> (usize, usize) {
    match CompressedNode::open(value) {
        Ok(compressed) => (compressed.len(), compressed.bytes()),
        Err(_) => (Node::open(value).len(), Node::open(value).bytes()),
    }
}

/// Writes a node without free room.
pub fn compact(node: &[u8], into: &mut Vec<u8>) {
    load(node, into, buffer_bytes(sizes(node).1), Grow::Back);
}

/// A node to read, expanded into `scratch` if it is compressed.
fn open<'a>(value: &'a [u8], scratch: &'a mut Vec<u8>) -> Node<'a> {
    if !is_compressed(value) {
        return Node::open(value);
    }
    load(value, scratch, buffer_bytes(sizes(value).1), Grow::Back);
    Node::open(scratch)
}

/// Lays a node out in `into`, which gets `capacity` bytes.
fn load(value: &[u8], into: &mut Vec<u8>, capacity: usize, grow: Grow) {
    debug_assert!(capacity >= buffer_bytes(sizes(value).1), "{capacity} bytes for a node of {}", sizes(value).1);
    into.clear();
    into.resize(capacity, 0);
    match CompressedNode::open(value) {
        Ok(compressed) => expand(compressed, into, grow).expect("a node that was compressed here"),
        Err(_) => Node::open(value).copy_into(into, grow).expect("the capacity was computed from the node"),
    }
}

/// Compresses the node in the scratch into its other buffer; the bytes of the result if it is worth it.
fn compress(scratch: &mut CompressScratch) -> Option<usize> {
    let CompressScratch { compressor, node, other } = scratch;
    let node = Node::open(node);
    other.resize(varve_packed::node::compress_bound(node.bytes()), 0);
    compressor.compress(node, other)
}
