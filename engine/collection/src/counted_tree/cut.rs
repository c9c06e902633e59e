//! Cutting off all leaves before or after one, whatever their number, in O(log n).
//!
//! ```text
//!   cut_before(leaf)                 [ . . | x . ]            what lies left of the way from the root to the leaf goes to
//!                                   /  |    \                 detached: whole nodes, and leaves of the leaf's own node
//!                          [ . . ] [ . . ]  [ . | leaf . ]
//!                             detached              detached
//! ```
//! Detached parts no longer count and have no place, but their leaves keep their numbers and their objects, which may
//! still move, until they are taken out one by one.

use super::{CountedTree, FAN, Leaf, NONE};

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

    /// Whether there are leaves in detached.
    #[inline]
    pub(crate) fn has_detached(&self) -> bool {
        !self.detached.is_empty()
    }

    /// Takes a leaf out of detached: where its object lies. Its number is free.
    pub(crate) fn take_detached(&mut self) -> Option<R> {
        loop {
            let (level, child) = self.detached.pop()?;
            if level == 0 {
                self.leaves -= 1;
                return Some(self.give_leaf(Leaf(child)));
            }
            let node = self.node(child);
            let (len, children) = (node.len as usize, node.children);
            self.detach(level - 1, &children[..len]);
            self.give_node(child);
            self.settle_nodes();
        }
    }

    /// Puts children of a node into detached. Nothing lies above them from now on.
    fn detach(&mut self, level: u16, children: &[u32]) {
        if level > 0 {
            children.iter().for_each(|&child| self.set_parent(level + 1, child, NONE));
        }
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
            self.nodes[node as usize].sums[index] -= gone;
            let len = self.node(node).len as usize;
            let range = if before { 0..index } else { index + 1..len };
            gone += self.node(node).sums[range.clone()].iter().sum::<u64>();
            let below = self.node(node).level - 1;
            let children: [u32; FAN] = self.node(node).children;
            self.detach(below, &children[range.clone()]);
            let up = self.climb(node);
            self.close_gap(node, range);
            match up {
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

    fn close_gap(&mut self, node: u32, range: std::ops::Range<usize>) {
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
