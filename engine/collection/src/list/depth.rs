//! Which nodes are squeezed: with a depth of 2,
//!
//! ```text
//!   front  [plain] [plain] [squeezed] [squeezed] ... [squeezed] [plain] [plain]  back
//! ```
//! The spine does not number its leaves by place, so a node's distance from an end is found by walking there, as far as
//! the depth. That is done when a node is added or removed, not when an element is.

use varve_base::Ref;
use varve_packed::node::{Grow, is_compressed};

use super::{End, Leaf, ListCtx, Quicklist, load, sizes, squeeze};

impl Quicklist {
    /// Makes the nodes near both ends plain and squeezes the next ones, after a node was added or removed.
    #[inline]
    pub(super) fn keep_depth(&mut self, t: &mut ListCtx<'_, '_>) {
        if t.shape.depth > 0 {
            self.keep_depth_at(t, End::Front);
            self.keep_depth_at(t, End::Back);
        }
    }

    fn keep_depth_at(&mut self, t: &mut ListCtx<'_, '_>, end: End) {
        let mut at = self.end(end);
        for _ in 0..t.shape.depth {
            let Some(leaf) = at else { return };
            self.unsqueezed(t, leaf);
            at = self.inward(leaf, end);
        }
        if let Some(leaf) = at {
            self.squeeze_if_inner(t, leaf);
        }
    }

    /// The next leaf on the way from an end to the other.
    pub(super) fn inward(&self, leaf: Leaf, end: End) -> Option<Leaf> {
        match end {
            End::Front => self.spine.next(leaf),
            End::Back => self.spine.prev(leaf),
        }
    }

    /// Whether at least `depth` nodes lie on either side; with a depth of 0, never.
    pub(super) fn is_inner(&self, leaf: Leaf, depth: usize) -> bool {
        let has = |end| {
            let mut at = Some(leaf);
            for _ in 0..depth {
                at = at.and_then(|leaf| self.inward(leaf, end));
            }
            at.is_some()
        };
        depth > 0 && has(End::Front) && has(End::Back)
    }

    /// Squeezes a node if it is far from both ends, plain, and worth it.
    pub(super) fn squeeze_if_inner(&mut self, t: &mut ListCtx<'_, '_>, leaf: Leaf) {
        let value = t.hands.access.open(t.hands.log, self.spine.leaf_ref(leaf)).value();
        if is_compressed(value) || !self.is_inner(leaf, t.shape.depth) {
            return;
        }
        load(value, &mut t.press.node, t.shape.roomy(sizes(value).1), Grow::Both);
        if let Some(size) = squeeze(t.press) {
            self.rewrite_leaf(t.hands, leaf, &t.press.other[..size]);
        }
    }

    /// Makes a node plain; gives where it lies.
    #[inline]
    pub(super) fn unsqueezed(&mut self, t: &mut ListCtx<'_, '_>, leaf: Leaf) -> Ref {
        let r = self.spine.leaf_ref(leaf);
        let value = t.hands.access.open(t.hands.log, r).value();
        if !is_compressed(value) {
            return r;
        }
        load(value, &mut t.press.node, t.shape.roomy(sizes(value).1), Grow::Both);
        self.rewrite_leaf(t.hands, leaf, &t.press.node);
        self.spine.leaf_ref(leaf)
    }
}
