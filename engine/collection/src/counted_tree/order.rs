//! The numbers of the leaves of a range, in order.

use super::{CountedTree, Leaf};

impl<R: Copy> CountedTree<R> {
    /// Appends the numbers of the leaves from one to another, both included, which follow each other in this order. Node by
    /// node: some hundred nanoseconds for 32 leaves.
    pub(crate) fn list_numbers(&self, first: Leaf, last: Leaf, numbers: &mut Vec<u32>) {
        let mut next = Some(first);
        while let Some(leaf) = next {
            let (node, index) = self.above(leaf);
            let node = self.node(node);
            let children = &node.children[index..node.len as usize];
            if let Some(end) = children.iter().position(|&child| child == last.number()) {
                numbers.extend_from_slice(&children[..=end]);
                return;
            }
            numbers.extend_from_slice(children);
            next = self.next(Leaf(children[children.len() - 1]));
        }
        debug_assert!(false, "the last leaf comes behind the first");
    }
}
