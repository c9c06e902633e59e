//! The tree of a list or a sorted set: a counted B+ tree over numbered leaves.
//!
//! ```text
//!                    +-----------------------------+
//!   level 2          | child: 7 | 2 |              |      a child of level 1 is a leaf,
//!                    | sum:  12 | 6 |              |      of a higher level a node one level down
//!                    +----|-------|----------------+
//!             +-----------+       +----------+
//!   +---------v-----------+       +----------v----------+
//!   | child: 0 | 3 | 1 |  | 7     | child: 4 | 2 |      | 2      level 1
//!   | sum:   5 | 4 | 3 |  |       | sum:   1 | 5 |      |
//!   +--------|------------+       +---------------------+
//!   leaf     v                            number of a leaf -> where its object lies, and its node of level 1
//! ```
//! A leaf is an object of the log that carries its number as key; everything else about it is here, so that moving the
//! object changes one cell. A leaf's elements are counted, and a keyed tree also keeps the least key of each leaf (its
//! `separator`). Both are kept in the node above, summed (or the least taken) on the way up.
//!
//! All steps are O(log n): a place among the elements to a leaf and back, neighbours, insertion, removal. Both ends are at
//! hand, and what their leaves gain or lose is noted beside the tree (`pending`) until another leaf becomes the end, so that
//! a push or pop costs one addition and touches no node.
//! Memory is three arenas, 12 bytes a leaf and 392 bytes a node of up to 32 children (648 with keys), full where leaves
//! were added at an end. Numbers of leaves that were freed are given out again, and their arenas do not shrink, because
//! objects and indexes elsewhere name leaves by them. Nodes are named in the tree only: the last one takes the number of one
//! that goes (`nodes`), so that of a tree that has lost most of its leaves little more than those 12 bytes stays.
//!
//! Leaves can be cut off at an end by any number at once (`cut`); they then wait in detached to be taken out.
//!
//! It does not open leaves: it knows neither the log nor what an element is.

pub(super) mod arena;
#[cfg(all(test, debug_assertions))]
mod contract_tests;
mod cut;
mod nodes;
mod order;
#[cfg(test)]
mod tests;

use std::cmp::Ordering;

use varve_base::Ref;

use arena::Arena;

/// Children of a node. With 64 a tree over some thousand leaves would be no lower, and a short list would pay twice.
const FAN: usize = 32;
/// A node with fewer children than this looks for a neighbour to join.
const FAN_MIN: usize = FAN / 4;
/// A joined node has at most this number of children, so that the next insertion does not split it again.
const JOINED_MAX: usize = FAN * 3 / 4;
/// Leaves in a chunk of an arena: 64 KB of references.
const LEAVES_SHIFT: usize = 13;
/// Nodes in a chunk of an arena: 50 KB.
const NODES_SHIFT: usize = 7;
/// The ends, as they are numbered.
const FIRST: usize = 0;
const LAST: usize = 1;
/// No node, no leaf, or no free cell.
const NONE: u32 = u32::MAX;

/// The number of a leaf of a tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Leaf(u32);

impl Leaf {
    /// The number, as the leaf's object carries it.
    #[inline]
    pub(crate) fn number(self) -> u32 {
        self.0
    }
}

/// A node of the tree. Children behind `len` mean nothing.
#[derive(Clone, Debug)]
struct Node {
    parent: u32,
    level: u16,
    len: u16,
    children: [u32; FAN],
    sums: [u64; FAN],
}

const _: () = assert!(size_of::<Node>() == 392);

/// A counted B+ tree over leaves; see the head of the file. `R` is where a leaf lies, a [`Ref`] but for tests.
#[derive(Clone, Debug)]
pub(crate) struct CountedTree<R = Ref> {
    /// By number; none of a free one.
    refs: Arena<Option<R>, LEAVES_SHIFT>,
    /// By number: the node of level 1; of a free leaf the next free one.
    parents: Arena<u32, LEAVES_SHIFT>,
    nodes: Arena<Node, NODES_SHIFT>,
    /// By node, the least key under each child. Empty unless keyed.
    separators: Arena<[u64; FAN], NODES_SHIFT>,
    keyed: bool,
    root: u32,
    free_leaf: u32,
    /// Nodes that the operation under way has emptied, linked by `parent`; none between operations.
    free_node: u32,
    /// Those in detached included.
    leaves: u32,
    count: u64,
    /// The first and the last leaf, `NONE` without any.
    ends: [u32; 2],
    /// Elements of these that the sums in the nodes do not have yet. With one leaf only those of the first are used.
    pending: [i64; 2],
    /// The parts that were cut off and not taken out yet.
    detached: Vec<cut::Subtree>,
}

impl<R: Copy> CountedTree<R> {
    /// An empty tree without keys: every `separator` is 0.
    pub(crate) fn new() -> CountedTree<R> {
        CountedTree {
            refs: Arena::new(),
            parents: Arena::new(),
            nodes: Arena::new(),
            separators: Arena::new(),
            keyed: false,
            root: NONE,
            free_leaf: NONE,
            free_node: NONE,
            leaves: 0,
            count: 0,
            ends: [NONE; 2],
            pending: [0; 2],
            detached: Vec::new(),
        }
    }

    /// An empty tree that keeps the least key of each leaf. Keys must not fall from one leaf to the next.
    pub(crate) fn keyed() -> CountedTree<R> {
        CountedTree { keyed: true, ..CountedTree::new() }
    }

    /// Number of leaves, those in detached included.
    #[inline]
    pub(crate) fn leaves(&self) -> usize {
        self.leaves as usize
    }

    /// Whether there is one leaf only, but for detached.
    #[inline]
    pub(crate) fn is_single(&self) -> bool {
        !self.is_bare() && self.ends[FIRST] == self.ends[LAST]
    }

    #[inline]
    fn is_bare(&self) -> bool {
        self.ends[FIRST] == NONE
    }

    /// Number of elements in all leaves.
    #[inline]
    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    /// Bytes of memory that the tree holds, besides itself. O(1).
    #[inline]
    pub(crate) fn bytes(&self) -> usize {
        self.refs.bytes()
            + self.parents.bytes()
            + self.nodes.bytes()
            + self.separators.bytes()
            + self.detached.capacity() * size_of::<cut::Subtree>()
    }

    /// Gives back some of the memory of a tree whose leaves are nobody's any more; true when none is left. Nothing else is to
    /// be asked of it from then on.
    pub(crate) fn shrink_step(&mut self) -> bool {
        // All together, as they grew: what the allocator can return to the system it then does bit by bit.
        self.refs.shrink() & self.parents.shrink() & self.nodes.shrink() & self.separators.shrink()
    }

    /// The first leaf.
    #[inline]
    pub(crate) fn first(&self) -> Option<Leaf> {
        (!self.is_bare()).then_some(Leaf(self.ends[FIRST]))
    }

    /// The last leaf.
    #[inline]
    pub(crate) fn last(&self) -> Option<Leaf> {
        (!self.is_bare()).then_some(Leaf(self.ends[LAST]))
    }

    /// The leaf after this one.
    pub(crate) fn next(&self, leaf: Leaf) -> Option<Leaf> {
        let (mut node, mut index) = self.above(leaf);
        while index + 1 == self.node(node).len as usize {
            (node, index) = self.climb(node)?;
        }
        let Node { level, children, .. } = self.node(node);
        Some(if *level == 1 { Leaf(children[index + 1]) } else { self.first_under(children[index + 1]) })
    }

    /// The leaf before this one.
    pub(crate) fn prev(&self, leaf: Leaf) -> Option<Leaf> {
        let (mut node, mut index) = self.above(leaf);
        while index == 0 {
            (node, index) = self.climb(node)?;
        }
        let Node { level, children, .. } = self.node(node);
        Some(if *level == 1 { Leaf(children[index - 1]) } else { self.last_under(children[index - 1]) })
    }

    /// The leaf of this number, if there is one.
    #[inline]
    pub(crate) fn leaf(&self, number: u32) -> Option<Leaf> {
        self.refs.get(number as usize)?.is_some().then_some(Leaf(number))
    }

    /// Where the leaf's object lies.
    #[inline]
    pub(crate) fn leaf_ref(&self, leaf: Leaf) -> R {
        self.refs[leaf.0 as usize].expect("a leaf of this tree")
    }

    /// Tells where the leaf's object lies now.
    #[inline]
    pub(crate) fn set_ref(&mut self, leaf: Leaf, place: R) {
        let cell = &mut self.refs[leaf.0 as usize];
        assert!(cell.is_some(), "a leaf of this tree");
        *cell = Some(place);
    }

    /// The leaf that holds the element at `position`, and how many of its elements come before it. None if there are
    /// fewer elements.
    pub(crate) fn locate(&self, position: u64) -> Option<(Leaf, u64)> {
        if position >= self.count {
            return None;
        }
        let (mut node, mut left) = (self.root, position);
        if self.pending[FIRST] != 0 {
            let first = Leaf(self.ends[FIRST]);
            if position < self.count_of(first) {
                return Some((first, position));
            }
            left = position.wrapping_sub_signed(self.pending[FIRST]);
        }
        loop {
            let Node { level, len, children, sums, .. } = self.node(node);
            let mut index = 0;
            // A position beyond all sums is in the last leaf.
            while index + 1 < *len as usize && left >= sums[index] {
                left -= sums[index];
                index += 1;
            }
            if *level == 1 {
                return Some((Leaf(children[index]), left));
            }
            node = children[index];
        }
    }

    /// Number of elements before the leaf.
    pub(crate) fn position_of(&self, leaf: Leaf) -> u64 {
        let (mut node, mut index) = self.above(leaf);
        let mut before = if leaf.0 == self.ends[FIRST] { 0 } else { 0u64.wrapping_add_signed(self.pending[FIRST]) };
        loop {
            before = before.wrapping_add(self.node(node).sums[..index].iter().sum::<u64>());
            match self.climb(node) {
                Some(up) => (node, index) = up,
                None => return before,
            }
        }
    }

    /// Number of elements in the leaf.
    #[inline]
    pub(crate) fn count_of(&self, leaf: Leaf) -> u64 {
        let (node, index) = self.above(leaf);
        let pending = self.end_of(leaf).map_or(0, |end| self.pending[end]);
        self.node(node).sums[index].checked_add_signed(pending).expect("no leaf has less than no elements")
    }

    /// Tells that the leaf has `delta` elements more.
    ///
    /// # Panics
    /// If the leaf has fewer than `-delta` elements. For a leaf at an end the panic comes when its count is asked for.
    #[inline(always)]
    pub(crate) fn add(&mut self, leaf: Leaf, delta: i64) {
        match self.end_of(leaf) {
            Some(end) => self.pending[end] += delta,
            None => self.spread(leaf, delta),
        }
        self.count = self.count.checked_add_signed(delta).expect("the sum of the leaves");
    }

    /// Which end the leaf is, if it is one.
    #[inline(always)]
    fn end_of(&self, leaf: Leaf) -> Option<usize> {
        if leaf.0 == self.ends[FIRST] {
            return Some(FIRST);
        }
        (leaf.0 == self.ends[LAST]).then_some(LAST)
    }

    /// Adds to the sums over a leaf.
    #[inline(never)]
    fn spread(&mut self, leaf: Leaf, delta: i64) {
        let (mut node, mut index) = self.above(leaf);
        loop {
            let sum = &mut self.nodes[node as usize].sums[index];
            *sum = sum.checked_add_signed(delta).expect("no leaf has less than no elements");
            match self.climb(node) {
                Some(up) => (node, index) = up,
                None => return,
            }
        }
    }

    /// Brings the sums up to date, before leaves are added or removed.
    fn flush_counts(&mut self) {
        for end in [FIRST, LAST] {
            let pending = std::mem::take(&mut self.pending[end]);
            if pending != 0 {
                self.spread(Leaf(self.ends[end]), pending);
            }
        }
    }

    /// Finds the ends anew.
    fn find_ends(&mut self) {
        debug_assert_eq!(self.pending, [0; 2], "the sums are up to date");
        let bare = self.root == NONE || self.node(self.root).len == 0;
        self.ends = if bare { [NONE; 2] } else { [self.first_under(self.root).0, self.last_under(self.root).0] };
    }

    /// Finds an end anew whose leaf has been taken out of `node`: its neighbour there, or the leaf at that end of the tree.
    fn find_end(&mut self, end: usize, node: u32) {
        debug_assert_eq!(self.pending, [0; 2], "the sums are up to date");
        let Node { level, len, children, .. } = self.node(node);
        if *level != 1 || *len == 0 {
            // The node has gone to its neighbour, or the tree has no leaf left.
            return self.find_ends();
        }
        self.ends[end] = if end == FIRST { children[0] } else { children[*len as usize - 1] };
    }

    /// The least key of the leaf; 0 where there are no keys.
    #[inline]
    pub(crate) fn separator(&self, leaf: Leaf) -> u64 {
        if !self.keyed {
            return 0;
        }
        let (node, index) = self.above(leaf);
        self.separators[node as usize][index]
    }

    /// Tells the least key of the leaf, which stays in order between its neighbours.
    pub(crate) fn set_separator(&mut self, leaf: Leaf, separator: u64) {
        assert!(self.keyed, "a tree with keys");
        let (node, index) = self.above(leaf);
        self.put_separator(node, index, separator);
    }

    /// The last leaf that begins before what is looked for, or with it; the first leaf if there is none such. `by_sep` tells
    /// how a least key compares, and `by_mark`, if there is such a thing, what else is known of the beginnings of leaves with
    /// the same least key; where that does not decide, `begins` looks into the leaf, and `fetch` is told which leaves may be
    /// looked into next. For a tree with keys.
    pub(crate) fn descend_by(
        &self,
        by_separator: impl Fn(u64) -> Ordering,
        by_fingerprint: Option<impl Fn(Leaf) -> Ordering>,
        mut begins: impl FnMut(Leaf) -> bool,
        fetch: impl Fn(Leaf),
    ) -> Option<Leaf> {
        if self.is_bare() {
            return None;
        }
        let mut node = self.root;
        loop {
            let Node { level, len, children, .. } = self.node(node);
            let separators = &self.separators[node as usize][..*len as usize];
            let (mut before, mut end) = equal_run(separators, &by_separator);
            let leaf =
                |index: usize| if *level == 1 { Leaf(children[index]) } else { self.first_under(children[index]) };
            if let Some(by_fingerprint) = &by_fingerprint
                && before < end
                && separators[before] == separators[end - 1]
            {
                let stop = end;
                let mut left = end - before;
                while left > 0 {
                    let half = left / 2;
                    let less = by_fingerprint(leaf(before + half)) == Ordering::Less;
                    before += if less { half + 1 } else { 0 };
                    left = if less { left - half - 1 } else { half };
                }
                end =
                    before + (before..stop).take_while(|&index| by_fingerprint(leaf(index)) == Ordering::Equal).count();
            }
            while before < end {
                let middle = before + (end - before) / 2;
                if before < middle {
                    fetch(leaf(before + (middle - before) / 2));
                }
                if middle + 1 < end {
                    fetch(leaf(middle + 1 + (end - middle - 1) / 2));
                }
                if begins(leaf(middle)) { before = middle + 1 } else { end = middle }
            }
            let index = before.saturating_sub(1);
            if *level == 1 {
                return Some(Leaf(children[index]));
            }
            node = children[index];
        }
    }

    /// The leaf that the next insertion will make: its object has to be written first, and carries the number.
    #[inline]
    pub(crate) fn upcoming(&self) -> Leaf {
        Leaf(if self.free_leaf == NONE { self.refs.len() as u32 } else { self.free_leaf })
    }

    /// Adds a leaf of `count` elements after `leaf`, or at the front: the one that [`CountedTree::upcoming`] told.
    pub(crate) fn insert_after(&mut self, leaf: Option<Leaf>, place: R, count: u32, separator: u64) -> Leaf {
        self.flush_counts();
        let new = self.take_leaf(place);
        debug_assert!(leaf != Some(new), "a new leaf has a number of its own");
        if self.root == NONE {
            self.root = self.take_node(1);
        }
        let (node, index) = match leaf {
            Some(leaf) => {
                let (node, index) = self.above(leaf);
                (node, index + 1)
            }
            None => (self.first_node(), 0),
        };
        self.insert_child(node, index, new.0, 0, separator);
        self.leaves += 1;
        let bare = self.is_bare();
        if leaf.is_none() {
            self.ends[FIRST] = new.0;
        }
        if bare || leaf.is_some_and(|leaf| leaf.0 == self.ends[LAST]) {
            self.ends[LAST] = new.0;
        }
        self.add(new, i64::from(count));
        new
    }

    /// Removes a leaf and returns where its object lies. Its number is free.
    pub(crate) fn remove(&mut self, leaf: Leaf) -> R {
        self.flush_counts();
        let (node, index) = self.above(leaf);
        let has = self.node(node).sums[index];
        debug_assert!(self.count >= has, "the sum of the leaves");
        if has > 0 {
            self.spread(leaf, -(has as i64));
            self.count -= has;
        }
        self.remove_child(node, index);
        self.lower_root();
        self.leaves -= 1;
        if let Some(end) = self.end_of(leaf) {
            self.find_end(end, node);
        }
        self.settle_nodes();
        self.give_leaf(leaf)
    }

    /// Panics if anything is inconsistent. O(N).
    pub(crate) fn verify(&self) {
        let mut seen = (0, 0);
        if self.root != NONE {
            assert_eq!(self.node(self.root).parent, NONE, "nothing lies above the root");
            self.verify_under(self.root, &mut seen);
        }
        let detached = self.detached_leaves().len();
        let ends = if seen.0 == 0 { [NONE; 2] } else { [self.first_under(self.root).0, self.last_under(self.root).0] };
        assert_eq!(self.ends, ends, "the ends");
        seen.1 = seen.1.checked_add_signed(self.pending[FIRST] + self.pending[LAST]).expect("a sum of counts");
        assert_eq!(seen, (self.leaves as usize - detached, self.count), "leaves and elements");
        assert_eq!(seen.0 + detached, self.refs.iter().flatten().count(), "every leaf is in the tree or in detached");
        assert_eq!(self.refs.len(), self.parents.len(), "cells");
        assert_eq!(self.separators.len(), if self.keyed { self.nodes.len() } else { 0 }, "keys");
        self.verify_nodes();
    }

    fn verify_under(&self, number: u32, seen: &mut (usize, u64)) {
        let node = self.node(number);
        assert!(node.len > 0 || (number == self.root && node.level == 1), "only the root of nothing is empty");
        if let Some(separators) = self.separators.get(number as usize) {
            assert!(separators[..node.len as usize].is_sorted(), "keys in order");
        }
        for index in 0..node.len as usize {
            let (child, before) = (node.children[index], seen.1);
            if node.level == 1 {
                assert_eq!(self.parents[child as usize], number, "the leaf's parent");
                *seen = (seen.0 + 1, seen.1 + node.sums[index]);
                continue;
            }
            let under = self.node(child);
            assert_eq!((under.parent, under.level), (number, node.level - 1), "the node's parent and level");
            if self.keyed {
                assert_eq!(
                    self.separators[number as usize][index], self.separators[child as usize][0],
                    "the least key below"
                );
            }
            self.verify_under(child, seen);
            assert_eq!(node.sums[index], seen.1 - before, "the sum below");
        }
    }

    #[inline]
    fn node(&self, node: u32) -> &Node {
        &self.nodes[node as usize]
    }

    /// The node above a leaf, and the leaf's position in it.
    #[inline]
    fn above(&self, leaf: Leaf) -> (u32, usize) {
        debug_assert!(self.refs[leaf.0 as usize].is_some(), "a leaf of this tree");
        let node = self.parents[leaf.0 as usize];
        (node, self.child_index(node, leaf.0))
    }

    /// The node above a node, and its position there; none above the root.
    #[inline]
    fn climb(&self, node: u32) -> Option<(u32, usize)> {
        let parent = self.node(node).parent;
        (parent != NONE).then(|| (parent, self.child_index(parent, node)))
    }

    /// The position of a child. The ends come first: most changes are there.
    #[inline]
    fn child_index(&self, node: u32, child: u32) -> usize {
        let node = self.node(node);
        let children = &node.children[..node.len as usize];
        let last = children.len() - 1;
        if children[last] == child {
            return last;
        }
        if children[0] == child {
            return 0;
        }
        // Four at a time: a stop at each would cost more than the others do.
        let (fours, rest) = children.as_chunks::<4>();
        let four = fours.iter().position(|four| four.iter().fold(false, |any, &c| any | (c == child)));
        let (from, among) = four.map_or((children.len() - rest.len(), rest), |four| (4 * four, &fours[four][..]));
        from + among.iter().position(|&c| c == child).expect("the parent knows its child")
    }

    fn first_node(&self) -> u32 {
        let mut node = self.root;
        while self.node(node).level > 1 {
            node = self.node(node).children[0];
        }
        node
    }

    #[inline]
    fn first_under(&self, mut node: u32) -> Leaf {
        while self.node(node).level > 1 {
            node = self.node(node).children[0];
        }
        Leaf(self.node(node).children[0])
    }

    #[inline]
    fn last_under(&self, mut node: u32) -> Leaf {
        loop {
            let Node { level, len, children, .. } = self.node(node);
            let last = children[*len as usize - 1];
            if *level == 1 {
                return Leaf(last);
            }
            node = last;
        }
    }

    /// Makes the only child of the root the root.
    fn lower_root(&mut self) {
        debug_assert!(self.root != NONE, "a tree with leaves has a root");
        while self.node(self.root).level > 1 && self.node(self.root).len == 1 {
            let old = self.root;
            self.root = self.node(old).children[0];
            self.nodes[self.root as usize].parent = NONE;
            self.give_node(old);
        }
    }

    /// Gives a leaf's number back.
    fn give_leaf(&mut self, leaf: Leaf) -> R {
        debug_assert!(self.free_leaf != leaf.0, "a number is given back once");
        self.parents[leaf.0 as usize] = self.free_leaf;
        self.free_leaf = leaf.0;
        self.refs[leaf.0 as usize].take().expect("a leaf of this tree")
    }

    fn take_leaf(&mut self, place: R) -> Leaf {
        let leaf = self.upcoming();
        if self.free_leaf == NONE {
            assert!(leaf.0 < NONE, "numbers of leaves have 32 bits");
            self.refs.push(Some(place));
            self.parents.push(NONE);
        } else {
            self.free_leaf = self.parents[leaf.0 as usize];
            self.refs[leaf.0 as usize] = Some(place);
        }
        leaf
    }

    fn set_parent(&mut self, level: u16, child: u32, parent: u32) {
        if level == 1 {
            self.parents[child as usize] = parent;
        } else {
            self.nodes[child as usize].parent = parent;
        }
    }

    /// Sets a key, and that of all nodes above whose least it is.
    fn put_separator(&mut self, mut node: u32, mut index: usize, separator: u64) {
        debug_assert!(self.keyed && index < self.node(node).len as usize, "a child of a tree with keys");
        loop {
            self.separators[node as usize][index] = separator;
            if index > 0 {
                return;
            }
            match self.climb(node) {
                Some(up) => (node, index) = up,
                None => return,
            }
        }
    }

    /// Adds a child to a node, which is split if it is full. The sums above are the caller's.
    fn insert_child(&mut self, node: u32, index: usize, child: u32, sum: u64, separator: u64) {
        debug_assert!(index <= self.node(node).len as usize, "among the children, or behind them");
        let (node, index) =
            if self.node(node).len as usize == FAN { self.split(node, index, sum, separator) } else { (node, index) };
        let Node { level, len, children, sums, .. } = &mut self.nodes[node as usize];
        let end = *len as usize;
        children.copy_within(index..end, index + 1);
        sums.copy_within(index..end, index + 1);
        children[index] = child;
        sums[index] = sum;
        *len += 1;
        let level = *level;
        self.set_parent(level, child, node);
        if self.keyed {
            self.separators[node as usize].copy_within(index..end, index + 1);
            self.put_separator(node, index, separator);
        }
    }

    /// Splits a full node, into which a child of `sum` and `separator` will go at `index`; returns where. Insertion at an end
    /// leaves the node full, so that growing at an end makes full nodes. Nodes above count the new child already.
    fn split(&mut self, node: u32, index: usize, sum: u64, separator: u64) -> (u32, usize) {
        let level = self.node(node).level;
        let cut = if index == 0 || index == FAN { index } else { FAN / 2 };
        let goes_right = index > cut || index == FAN;
        let right = self.take_node(level);
        let moved = self.move_children(node, cut, right) + if goes_right { sum } else { 0 };
        let right_separator = if cut == FAN {
            separator
        } else {
            self.separators.get(right as usize).map_or(0, |separators| separators[0])
        };
        if self.root == node {
            let left = &self.node(node).sums[..cut];
            let stays = left.iter().sum::<u64>() + if goes_right { 0 } else { sum };
            let least = self.separators.get(node as usize).map_or(0, |separators| separators[0]);
            self.root = self.take_node(level + 1);
            self.insert_child(self.root, 0, node, stays, least);
        } else {
            let (parent, at) = self.climb(node).expect("a node that is not the root");
            self.nodes[parent as usize].sums[at] -= moved;
        }
        let (parent, at) = self.climb(node).expect("a node that is not the root");
        self.insert_child(parent, at + 1, right, moved, right_separator);
        if goes_right { (right, index - cut) } else { (node, index) }
    }

    /// Moves the children from position `from` on behind those of another node; returns how many elements they have.
    fn move_children(&mut self, node: u32, from: usize, to: u32) -> u64 {
        debug_assert!(node != to && self.node(node).level == self.node(to).level, "two nodes of one level");
        let [source, target] = self.nodes.pair_mut(node as usize, to as usize);
        let (end, at) = (source.len as usize, target.len as usize);
        let many = end - from;
        debug_assert!(at + many <= FAN, "{} children in a node", at + many);
        target.children[at..at + many].copy_from_slice(&source.children[from..end]);
        target.sums[at..at + many].copy_from_slice(&source.sums[from..end]);
        source.len = from as u16;
        target.len += many as u16;
        let level = target.level;
        if self.keyed {
            let [source, target] = self.separators.pair_mut(node as usize, to as usize);
            target[at..at + many].copy_from_slice(&source[from..end]);
        }
        for index in at..at + many {
            self.set_parent(level, self.node(to).children[index], to);
        }
        self.node(to).sums[at..at + many].iter().sum()
    }

    /// Takes a child out of a node, which goes too if it was the last, or joins a neighbour if few are left. Sums above
    /// are the caller's.
    fn remove_child(&mut self, node: u32, index: usize) {
        debug_assert!(index < self.node(node).len as usize, "a child of this node");
        let Node { len, children, sums, .. } = &mut self.nodes[node as usize];
        let end = *len as usize;
        children.copy_within(index + 1..end, index);
        sums.copy_within(index + 1..end, index);
        *len -= 1;
        let left = end - 1;
        if self.keyed {
            self.separators[node as usize].copy_within(index + 1..end, index);
        }
        let Some((parent, at)) = self.climb(node) else { return };
        if left == 0 {
            self.give_node(node);
            return self.remove_child(parent, at);
        }
        if self.keyed && index == 0 {
            self.put_separator(node, 0, self.separators[node as usize][0]);
        }
        if left < FAN_MIN {
            self.join_neighbour(parent, at);
        }
    }

    /// Joins a child that is a node with one of its neighbours, if both fit in one.
    fn join_neighbour(&mut self, parent: u32, at: usize) {
        let Node { len, children, .. } = self.node(parent);
        let (last, children) = (*len as usize - 1, *children);
        let fits = |a: usize| (self.node(children[a]).len + self.node(children[a + 1]).len) as usize <= JOINED_MAX;
        let at = match at {
            at if at < last && fits(at) => at,
            at if at > 0 && fits(at - 1) => at - 1,
            _ => return,
        };
        let moved = self.move_children(children[at + 1], 0, children[at]);
        self.nodes[parent as usize].sums[at] += moved;
        self.give_node(children[at + 1]);
        self.remove_child(parent, at + 1);
    }
}

/// The keys that are equal to what is looked for: the first of them, and the place behind the last.
#[inline(always)]
fn equal_run(separators: &[u64], by_separator: &impl Fn(u64) -> Ordering) -> (usize, usize) {
    // All of them often are, or none.
    if let [first, .., last] = separators
        && by_separator(*first) == Ordering::Equal
        && by_separator(*last) == Ordering::Equal
    {
        return (0, separators.len());
    }
    let before = separators.partition_point(|&s| by_separator(s) == Ordering::Less);
    match separators.get(before) {
        Some(&separator) if by_separator(separator) == Ordering::Equal => {
            (before, before + separators[before..].partition_point(|&s| by_separator(s) == Ordering::Equal))
        }
        _ => (before, before),
    }
}
