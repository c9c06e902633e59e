//! Cutting off all leaves before or after one, or between two, whatever their number, in O(log n).
//!
//! ```text
//!   cut_before(leaf)                 [ . . | x . ]            what lies left of the way from the root to the leaf goes to
//!                                   /  |    \                 detached: whole nodes, and leaves of the leaf's own node
//!                          [ . . ] [ . . ]  [ . | leaf . ]
//!                             detached              detached
//! ```
//! Between two leaves it is the same along both ways, up to the node in which they meet. Detached parts no longer count and
//! have no place, but their leaves keep their numbers and their objects, which may still move, until they are taken out one
//! by one. Nothing lies above a detached part, so that the way up from a leaf says whether it was cut off.

use std::ops::Range;

use super::{CountedTree, FAN, FAN_MIN, Leaf, NONE};

/// A subtree that was cut off: its level (0: a leaf) and its number.
pub(super) type Subtree = (u16, u32);

impl<R: Copy> CountedTree<R> {
    /// Cuts off all leaves before this one.
    pub(crate) fn cut_before(&mut self, leaf: Leaf) {
        self.cut(leaf, true);
    }

    /// Cuts off all leaves after this one.
    pub(crate) fn cut_after(&mut self, leaf: Leaf) {
        self.cut(leaf, false);
    }

    /// Cuts off all leaves between two, of which `low` comes before `high`.
    pub(crate) fn cut_between(&mut self, low: Leaf, high: Leaf) {
        self.flush_counts();
        let (mut left, mut right) = (self.above(low), self.above(high));
        let (mut gone_left, mut gone_right) = (0, 0);
        while left.0 != right.0 {
            let len = self.node(left.0).len as usize;
            gone_left = self.detach_children(left, left.1 + 1..len, gone_left);
            gone_right = self.detach_children(right, 0..right.1, gone_right);
            let met = "two leaves of one tree have a node above both";
            (left, right) = (self.climb(left.0).expect(met), self.climb(right.0).expect(met));
        }
        debug_assert!(left.1 < right.1, "the two leaves are in order");
        self.nodes[right.0 as usize].sums[right.1] -= gone_right;
        let gone = gone_right + self.detach_children(left, left.1 + 1..right.1, gone_left);
        let mut up = self.climb(left.0);
        while let Some((node, index)) = up {
            self.nodes[node as usize].sums[index] -= gone;
            up = self.climb(node);
        }
        self.count -= gone;
        if self.keyed {
            let (node, index) = self.above(high);
            self.put_separator(node, index, self.separators[node as usize][index]);
        }
        // Ranges are cut off in the same tree again and again: it must not become one of nodes with a child each.
        [low, high].iter().for_each(|&leaf| self.join_above(leaf));
        self.lower_root();
        self.settle_nodes();
        self.find_ends();
    }

    /// Joins the nodes above a leaf that have few children left.
    fn join_above(&mut self, leaf: Leaf) {
        for level in 1.. {
            // The way up changes with each join.
            let mut node = self.parents[leaf.0 as usize];
            (1..level).for_each(|_| node = self.node(node).parent);
            let Some((parent, at)) = self.climb(node) else { return };
            if (self.node(node).len as usize) < FAN_MIN {
                self.join_neighbour(parent, at);
            }
        }
    }

    /// Detaches some children of a node, of whose child at the other place `gone` elements were detached; gives how many
    /// are detached below the node in all.
    fn detach_children(&mut self, (node, index): (u32, usize), range: Range<usize>, gone: u64) -> u64 {
        debug_assert!(!range.contains(&index), "the child on the way stays");
        self.nodes[node as usize].sums[index] -= gone;
        let below = self.node(node).level - 1;
        let children: [u32; FAN] = self.node(node).children;
        let detached = self.node(node).sums[range.clone()].iter().sum::<u64>();
        self.detach(below, &children[range.clone()]);
        self.close_gap(node, range);
        gone + detached
    }

    /// Whether there are leaves in detached.
    #[inline]
    pub(crate) fn has_detached(&self) -> bool {
        !self.detached.is_empty()
    }

    /// Whether a leaf of the tree was cut off.
    #[inline]
    pub(crate) fn is_detached(&self, leaf: Leaf) -> bool {
        self.has_detached() && self.ends_detached(leaf)
    }

    #[cold]
    fn ends_detached(&self, leaf: Leaf) -> bool {
        let mut node = self.parents[leaf.0 as usize];
        while node != NONE && self.node(node).parent != NONE {
            node = self.node(node).parent;
        }
        node != self.root
    }

    /// The leaf in detached that is taken out next.
    pub(crate) fn next_detached(&mut self) -> Option<Leaf> {
        loop {
            let (level, child) = *self.detached.last()?;
            if level == 0 {
                return Some(Leaf(child));
            }
            self.detached.pop();
            let node = self.node(child);
            let (len, children) = (node.len as usize, node.children);
            self.detach(level - 1, &children[..len]);
            self.give_node(child);
            self.settle_nodes();
        }
    }

    /// Takes a leaf out of detached: where its object lies. Its number is free.
    pub(crate) fn take_detached(&mut self) -> Option<R> {
        let leaf = self.next_detached()?;
        self.detached.pop();
        self.leaves -= 1;
        Some(self.give_leaf(leaf))
    }

    /// Puts children of a node into detached. Nothing lies above them from now on.
    fn detach(&mut self, level: u16, children: &[u32]) {
        children.iter().for_each(|&child| self.set_parent(level + 1, child, NONE));
        self.detached.extend(children.iter().map(|&child| (level, child)));
    }

    /// All leaves in detached. O(n).
    pub(crate) fn detached_leaves(&self) -> Vec<Leaf> {
        let mut left = self.detached.clone();
        let mut leaves = Vec::new();
        while let Some((level, child)) = left.pop() {
            if level == 0 {
                leaves.push(Leaf(child));
                continue;
            }
            let node = self.node(child);
            left.extend(node.children[..node.len as usize].iter().map(|&child| (level - 1, child)));
        }
        leaves
    }

    fn cut(&mut self, leaf: Leaf, before: bool) {
        self.flush_counts();
        let (mut node, mut index) = self.above(leaf);
        let mut gone = 0;
        debug_assert_eq!(self.pending, [0; 2], "the sums are up to date");
        loop {
            let len = self.node(node).len as usize;
            let range = if before { 0..index } else { index + 1..len };
            gone = self.detach_children((node, index), range, gone);
            match self.climb(node) {
                Some(up) => (node, index) = up,
                None => break,
            }
        }
        debug_assert!(gone <= self.count, "{gone} elements of {}", self.count);
        self.count -= gone;
        if self.keyed && before {
            let (node, index) = self.above(leaf);
            self.put_separator(node, index, self.separators[node as usize][index]);
        }
        self.lower_root();
        self.settle_nodes();
        self.find_ends();
    }

    fn close_gap(&mut self, node: u32, range: Range<usize>) {
        debug_assert!(range.end <= self.node(node).len as usize, "children of this node");
        let n = &mut self.nodes[node as usize];
        let len = n.len as usize;
        n.children.copy_within(range.end..len, range.start);
        n.sums.copy_within(range.end..len, range.start);
        n.len -= range.len() as u16;
        if self.keyed {
            self.separators[node as usize].copy_within(range.end..len, range.start);
        }
    }
}
