//! Changes in the middle of a list.
//!
//! ```text
//!   insertion into a node      fits: there
//!                              full, at its edge: into the neighbour, or a node between
//!                              full, in its middle: | a b c d | -> | a b | x | c d |, and x goes to the left part if it fits
//!   removal                    what is left small joins a neighbour with which it fills at most three quarters of a node
//! ```
//! Joining stops well below a whole fill, so that the next insertion does not split again.

use varve_packed::node::{Coded, Grow, Node, NodeMut, buffer_bytes, is_compressed};
use varve_segment::NewValue;

use super::read::each_match;
use super::{End, Leaf, ListCtx, Quicklist, load, open, push_at, sizes};

/// The part of a list from which elements are removed.
#[derive(Clone, Copy, Debug)]
pub struct RemovalPart {
    /// Elements from the end at which the removal has begun that were compared before, and are still there.
    pub passed: u64,
    /// Elements that are compared, about: no node is begun behind them.
    pub compare: u64,
}

/// The outcome of removing elements from a part of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RemovedPart {
    /// Elements that were removed.
    pub removed: u64,
    /// The next part's [`RemovalPart::passed`]; `None` if nothing is left to be compared.
    pub passed: Option<u64>,
}

impl Quicklist {
    /// Puts another element in the place of the one at a position, which there is.
    pub fn set(&mut self, ctx: &mut ListCtx<'_, '_>, position: u64, entry: &Coded<'_>) {
        let (leaf, offset) = self.tree.locate(position).expect("the caller compared with the length");
        self.before(ctx.write.log, ctx.write.access, leaf);
        let (at, r) = (offset as usize, self.tree.leaf_ref(leaf));
        debug_assert!(offset < self.tree.count_of(leaf), "the offset is inside the node");
        let mut object = ctx.write.access.open_mut(ctx.write.log, r);
        if !is_compressed(object.value()) {
            let mut node = NodeMut::open(object.value_mut());
            let place = node.node().nth(at).expect("the tree counts the node's entries");
            if entry.size() < ctx.shape.own_node_bytes && node.replace(place, entry).is_ok() {
                let bytes = node.node().bytes();
                return self.shrink(ctx, leaf, bytes);
            }
        }
        self.set_slowly(ctx, leaf, at, entry);
    }

    /// Sets an entry in a node that is compressed, full or too small for it, or an entry that needs a node of its own.
    fn set_slowly(&mut self, ctx: &mut ListCtx<'_, '_>, leaf: Leaf, at: usize, entry: &Coded<'_>) {
        let value = ctx.write.access.open(ctx.write.log, self.tree.leaf_ref(leaf)).value();
        let node = open(value, &mut ctx.scratch.node);
        debug_assert!(at < node.len(), "the offset is inside the node");
        let old = node.size(node.nth(at).expect("the tree counts the node's entries"));
        if node.len() == 1 || ctx.shape.takes(node.len() - 1, node.bytes() - old, entry.size()) {
            let more = entry.size().saturating_sub(old);
            self.edit(ctx, leaf, more, Grow::Both, |node| {
                let place = node.node().nth(at).expect("as before");
                node.replace(place, entry).expect("room was made before");
            });
            return;
        }
        self.edit(ctx, leaf, 0, Grow::Both, |node| node.remove_indices(at, at + 1));
        self.insert_at(ctx, leaf, at, entry);
    }

    /// Adds an element beside the one that was found as number `at` of a node.
    pub fn insert(&mut self, ctx: &mut ListCtx<'_, '_>, found: (Leaf, usize), before: bool, entry: &Coded<'_>) {
        let (leaf, at) = found;
        debug_assert!((at as u64) < self.tree.count_of(leaf), "the element that was found is in the node");
        self.insert_at(ctx, leaf, if before { at } else { at + 1 }, entry);
    }

    /// Adds an element beside the one at a position.
    pub fn insert_beside(&mut self, ctx: &mut ListCtx<'_, '_>, position: u64, before: bool, entry: &Coded<'_>) {
        let (leaf, offset) = self.tree.locate(position).expect("the caller compared with the length");
        self.insert(ctx, (leaf, offset as usize), before, entry);
    }

    /// Removes up to `count` elements equal to this one, beginning at an end; returns how many.
    pub fn remove(&mut self, ctx: &mut ListCtx<'_, '_>, needle: &Coded<'_>, count: u64, from: End) -> u64 {
        self.remove_some(ctx, needle, count, from, RemovalPart { passed: 0, compare: u64::MAX }).removed
    }

    /// Removes elements like [`Quicklist::remove`], from some of the list: whole nodes.
    pub fn remove_some(
        &mut self,
        ctx: &mut ListCtx<'_, '_>,
        needle: &Coded<'_>,
        count: u64,
        from: End,
        part: RemovalPart,
    ) -> RemovedPart {
        let (mut removed, mut compared) = (0, 0);
        let first = if from == End::Front { Some(part.passed) } else { self.len().checked_sub(part.passed + 1) };
        let mut next = first.and_then(|at| self.tree.locate(at)).map(|(leaf, _)| leaf);
        while let Some(leaf) = next.filter(|_| removed < count && compared < part.compare) {
            next = self.inward(leaf, from);
            compared += self.tree.count_of(leaf);
            let left = usize::try_from(count - removed).unwrap_or(usize::MAX);
            let gone = self.remove_in(ctx, leaf, needle, left, from);
            removed += gone;
            if gone > 0 && self.tree.leaf(leaf.number()).is_some() {
                // Only with what lies behind: what comes next has to stay where it is.
                let behind = self.inward(leaf, from.other());
                self.join_pair(ctx, behind, leaf, from);
            }
        }
        self.keep_depth(ctx);
        let passed = next.filter(|_| removed < count).map(|leaf| match from {
            End::Front => self.tree.position_of(leaf),
            End::Back => self.len() - self.tree.position_of(leaf) - self.tree.count_of(leaf),
        });
        RemovedPart { removed, passed }
    }

    /// Removes equal entries of one node.
    fn remove_in(&mut self, ctx: &mut ListCtx<'_, '_>, leaf: Leaf, needle: &Coded<'_>, count: usize, from: End) -> u64 {
        let value = ctx.write.access.open(ctx.write.log, self.tree.leaf_ref(leaf)).value();
        let mut any = false;
        each_match(open(value, &mut ctx.scratch.node), needle, from, |_| {
            any = true;
            false
        });
        if !any {
            return 0;
        }
        let before = self.tree.count_of(leaf);
        debug_assert!(before > 0, "no node is empty");
        let left = self.edit(ctx, leaf, 0, Grow::Both, |node| remove_matches(node, needle, count, from));
        debug_assert!((left as u64) < before, "an equal entry was seen");
        before - left as u64
    }

    /// Joins a node with a neighbour if it has become small.
    pub(super) fn join_if_small(&mut self, ctx: &mut ListCtx<'_, '_>, leaf: Leaf) {
        let (entries, bytes) = sizes(ctx.value(self.tree.leaf_ref(leaf)));
        if ctx.shape.is_small(entries, bytes) {
            let (prev, next) = (self.tree.prev(leaf), self.tree.next(leaf));
            if !self.join_pair(ctx, next, leaf, End::Back) {
                self.join_pair(ctx, prev, leaf, End::Front);
            }
        }
    }

    /// Joins a node with its neighbour towards the end `side`, if one of them is small and both fit in one.
    fn join_pair(&mut self, ctx: &mut ListCtx<'_, '_>, neighbour: Option<Leaf>, leaf: Leaf, side: End) -> bool {
        let Some(neighbour) = neighbour else { return false };
        // Told by the tree, before the neighbour is fetched: at the ends of a list it is full most of the time.
        if self.tree.count_of(leaf) + self.tree.count_of(neighbour) > ctx.shape.joined_entries() as u64 {
            return false;
        }
        let a = sizes(ctx.value(self.tree.leaf_ref(leaf)));
        let b = sizes(ctx.value(self.tree.leaf_ref(neighbour)));
        let any_small = ctx.shape.is_small(a.0, a.1) || ctx.shape.is_small(b.0, b.1);
        debug_assert!(neighbour != leaf, "a node has other neighbours than itself");
        if !any_small || !ctx.shape.joins(a, b) {
            return false;
        }
        self.before(ctx.write.log, ctx.write.access, leaf);
        let (left, right) = match side {
            End::Front => (neighbour, leaf),
            End::Back => (leaf, neighbour),
        };
        let value = |leaf| ctx.write.access.open(ctx.write.log, self.tree.leaf_ref(leaf)).value();
        load(value(left), &mut ctx.scratch.node, ctx.shape.roomy(a.1 + b.1), Grow::Back);
        let tail = open(value(right), &mut ctx.scratch.other);
        let moved = tail.len();
        debug_assert!(moved > 0, "no node is empty");
        NodeMut::open(&mut ctx.scratch.node).append(tail).expect("it has room for both");
        // The one that was worked on stays: who walks the list holds on to it.
        let (kept, gone) = (leaf, neighbour);
        debug_assert_eq!(Node::open(&ctx.scratch.node).len(), a.0 + b.0, "all entries of both nodes");
        self.drop_leaf(ctx, gone);
        let delta = if kept == left { moved } else { b.0 };
        self.tree.add(kept, delta as i64);
        self.write_loaded(ctx, kept, Grow::Both);
        self.keep_depth(ctx);
        true
    }

    /// Adds an entry before number `at` of a node, behind its last if `at` is the number of entries.
    fn insert_at(&mut self, ctx: &mut ListCtx<'_, '_>, leaf: Leaf, at: usize, entry: &Coded<'_>) {
        debug_assert!(at as u64 <= self.tree.count_of(leaf), "in the node, or behind its last entry");
        let (entries, bytes) = sizes(ctx.value(self.tree.leaf_ref(leaf)));
        if ctx.shape.takes(entries, bytes, entry.size()) {
            self.edit(ctx, leaf, entry.size(), Grow::Both, |node| insert_entry(node, at, entry));
            return;
        }
        if at > 0 && at < entries {
            self.split(ctx, leaf, at);
        }
        // The new entry goes between two nodes now: behind one of them, before the other, or into a third.
        let (left, right) =
            if at == 0 { (self.tree.prev(leaf), Some(leaf)) } else { (Some(leaf), self.tree.next(leaf)) };
        if !self.add_to(ctx, left, End::Back, entry) && !self.add_to(ctx, right, End::Front, entry) {
            let capacity = ctx.shape.roomy(entry.size());
            self.begin_node(ctx.write, left, capacity, Grow::Both, entry);
        }
        self.keep_depth(ctx);
        for leaf in [left, right].into_iter().flatten() {
            if self.tree.leaf(leaf.number()).is_some() {
                self.join_if_small(ctx, leaf);
            }
        }
    }

    /// Adds an entry at an end of a node if its fill takes it.
    fn add_to(&mut self, ctx: &mut ListCtx<'_, '_>, leaf: Option<Leaf>, end: End, entry: &Coded<'_>) -> bool {
        let Some(leaf) = leaf else { return false };
        let (entries, bytes) = sizes(ctx.value(self.tree.leaf_ref(leaf)));
        let takes = ctx.shape.takes(entries, bytes, entry.size());
        if takes {
            self.edit(ctx, leaf, entry.size(), Grow::Both, |node| push_at(node, end, entry));
        }
        takes
    }

    /// Moves the entries of a node from number `at` on into a new node behind it. Both get the room that they need.
    fn split(&mut self, ctx: &mut ListCtx<'_, '_>, leaf: Leaf, at: usize) {
        self.before(ctx.write.log, ctx.write.access, leaf);
        let object = ctx.write.access.open(ctx.write.log, self.tree.leaf_ref(leaf));
        let (value, saved) = (object.value(), object.saved());
        let (entries, bytes) = sizes(value);
        debug_assert!(0 < at && at < entries, "both parts have entries");
        load(value, &mut ctx.scratch.node, buffer_bytes(bytes), Grow::Both);
        let node = Node::open(&ctx.scratch.node);
        let places = std::iter::successors(node.first(), |place| node.next(*place));
        let head: usize = places.take(at).map(|place| node.size(place)).sum();
        debug_assert!(0 < head && head < bytes, "both parts have bytes");
        ctx.scratch.other.clear();
        ctx.scratch.other.resize(ctx.shape.roomy(bytes - head), 0);
        let whole = &mut NodeMut::open(&mut ctx.scratch.node);
        whole.split_at(at, &mut ctx.scratch.other, Grow::Both).expect("the bytes were counted");
        self.tree.add(leaf, at as i64 - entries as i64);
        let other = &ctx.scratch.other;
        let right = self.write_leaf(ctx.write, Some(leaf), (NewValue::Bytes(other), other.len()), entries - at, saved);
        load(&ctx.scratch.node, &mut ctx.scratch.other, ctx.shape.roomy(head), Grow::Both);
        std::mem::swap(&mut ctx.scratch.node, &mut ctx.scratch.other);
        self.write_loaded(ctx, leaf, Grow::Both);
        self.compress_if_inner(ctx, right);
    }
}

/// Adds an entry before number `at` of a node that has room for it.
pub fn insert_entry(node: &mut NodeMut<'_>, at: usize, entry: &Coded<'_>) {
    debug_assert!(node.node().room() >= entry.size(), "room was made before");
    debug_assert!(at <= node.node().len(), "in the node, or behind its last entry");
    match node.node().nth(at) {
        Some(place) => drop(node.insert_before(place, entry).expect("room was made before")),
        None => push_at(node, End::Back, entry),
    }
}

/// Removes up to `count` entries equal to `needle`, beginning at an end.
pub fn remove_matches(node: &mut NodeMut<'_>, needle: &Coded<'_>, mut count: usize, from: End) {
    let (mut next, mut left) = (node.node().first(), node.node().len());
    while count > 0 {
        let hit = match from {
            End::Front => next.and_then(|start| node.node().find(needle, start, 1)),
            End::Back => left
                .checked_sub(1)
                .and_then(|last| node.node().nth(last))
                .and_then(|start| node.node().rfind(needle, start)),
        };
        let Some((place, passed)) = hit else { return };
        left -= if from == End::Back { passed + 1 } else { 0 };
        next = node.remove(place);
        count -= 1;
    }
}
