//! Which nodes are compressed: with a depth of 2,
//!
//! ```text
//!   front  [plain] [plain] [compressed] [compressed] ... [compressed] [plain] [plain]  back
//! ```
//! The tree does not number its leaves by place, so a node's distance from an end is found by walking there, as far as
//! the depth. That is done when a node is added or removed, not when an element is.

use varve_base::Ref;
use varve_packed::node::{Grow, is_compressed};

use super::{End, Leaf, ListCtx, Quicklist, compress, load, sizes};

/// Bytes of a node that is compressed, at most: a long one is an element of its own, and would hold its shard for two milliseconds a
/// megabyte, once for itself and again each time that it is read.
const COMPRESSED_BYTES_MAX: usize = 256 << 10;

impl Quicklist {
    /// Makes the nodes near both ends plain and compresses the next ones, after a node was added or removed.
    #[inline]
    pub(super) fn keep_depth(&mut self, ctx: &mut ListCtx<'_, '_>) {
        if ctx.shape.depth > 0 {
            self.keep_depth_at(ctx, End::Front);
            self.keep_depth_at(ctx, End::Back);
        }
    }

    fn keep_depth_at(&mut self, ctx: &mut ListCtx<'_, '_>, end: End) {
        let mut at = self.end(end);
        debug_assert!(ctx.shape.depth > 0, "without a depth nothing is compressed");
        for _ in 0..ctx.shape.depth {
            let Some(leaf) = at else { return };
            self.decompressed(ctx, leaf);
            at = self.inward(leaf, end);
        }
        if let Some(leaf) = at {
            self.compress_if_inner(ctx, leaf);
        }
    }

    /// The next leaf on the way from an end to the other.
    pub(super) fn inward(&self, leaf: Leaf, end: End) -> Option<Leaf> {
        match end {
            End::Front => self.tree.next(leaf),
            End::Back => self.tree.prev(leaf),
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

    /// Compresses a node if it is far from both ends, plain, and worth it.
    pub(super) fn compress_if_inner(&mut self, ctx: &mut ListCtx<'_, '_>, leaf: Leaf) {
        let value = ctx.write.access.open(ctx.write.log, self.tree.leaf_ref(leaf)).value();
        if is_compressed(value) || value.len() > COMPRESSED_BYTES_MAX || !self.is_inner(leaf, ctx.shape.depth) {
            return;
        }
        load(value, &mut ctx.scratch.node, ctx.shape.roomy(sizes(value).1), Grow::Both);
        debug_assert!(self.is_inner(leaf, ctx.shape.depth), "the ends stay plain");
        if let Some(size) = compress(ctx.scratch) {
            self.rewrite_leaf(ctx.write, leaf, (&ctx.scratch.other[..size], size));
        }
    }

    /// Makes a node plain; gives where it lies.
    #[inline]
    pub(super) fn decompressed(&mut self, ctx: &mut ListCtx<'_, '_>, leaf: Leaf) -> Ref {
        let r = self.tree.leaf_ref(leaf);
        let value = ctx.write.access.open(ctx.write.log, r).value();
        if !is_compressed(value) {
            return r;
        }
        load(value, &mut ctx.scratch.node, ctx.shape.roomy(sizes(value).1), Grow::Both);
        debug_assert!(!is_compressed(&ctx.scratch.node), "it was expanded");
        self.rewrite_leaf(ctx.write, leaf, (&ctx.scratch.node, ctx.scratch.node.len()));
        self.tree.leaf_ref(leaf)
    }
}
