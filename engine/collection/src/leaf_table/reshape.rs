//! Leaves that grow, shrink, split and are joined.

use smallvec::SmallVec;
use varve_base::Ref;
use varve_packed::Full;
use varve_packed::leaf::{LeafElement, PackedLeaf, PackedLeafMut, leaf_bytes};
use varve_segment::{NewObject, NewValue, Owner, SegmentClass};

use super::directory::{COUNT_MAX, DEPTH_MAX};
use super::{LIMITS, LeafTable, limit, open};
use crate::WriteCtx;
use crate::kinds;

/// A leaf of at least this many bytes is written anew when most of it is free room.
const TRIM_FROM: usize = 256;

/// A leaf's bytes while it is written anew.
type Copied = SmallVec<[u8; LIMITS[2]]>;

/// The capacity of a leaf that needs `needed` bytes and is going to grow: a quarter more, up to its limit.
fn capacity(needed: usize, limit: usize) -> usize {
    (needed + needed / 4).min(limit.max(needed))
}

impl LeafTable {
    /// Adds an element with this hash, which `push` adds to a leaf; `size` is the number of its bytes there.
    #[inline]
    pub(super) fn put(
        &mut self,
        ctx: &mut WriteCtx<'_>,
        hash: u64,
        size: usize,
        push: impl Fn(&mut PackedLeafMut<'_>) -> Result<(), Full>,
    ) {
        self.len += 1;
        loop {
            let cell = self.directory.get(hash);
            let Some(r) = cell.leaf(ctx.log) else {
                let needed = leaf_bytes(1, size, size) + 1;
                let new = self.write_leaf(ctx, capacity(needed, 0), SegmentClass::Ordinary, |leaf| {
                    push(leaf).expect("the leaf has room for its first element");
                });
                return self.directory.set(hash, Some(new), 1);
            };
            let mut object = ctx.access.open_mut(ctx.log, r);
            let mut leaf = PackedLeafMut::open(object.value_mut());
            let pushed = if cell.count() < COUNT_MAX { push(&mut leaf) } else { Err(Full { needed: usize::MAX }) };
            match pushed {
                Ok(()) => return self.directory.set(hash, Some(r), cell.count() + 1),
                Err(Full { needed }) => self.make_room(ctx, hash, size, needed),
            }
        }
    }

    /// Makes room for an element of `size` bytes in the leaf of a hash, which would take `needed` bytes with it: a larger
    /// leaf, or two of which one is asked again.
    #[cold]
    fn make_room(&mut self, ctx: &mut WriteCtx<'_>, hash: u64, size: usize, needed: usize) {
        let cell = self.directory.get(hash);
        let r = cell.leaf(ctx.log).expect("a leaf that is full");
        let leaf = open(ctx.log, ctx.access, r);
        let most = limit(leaf.len() + 1, leaf.bytes() + size);
        // Hashes that have many bits in common would make the directory large: their leaf becomes larger instead.
        let may_split = cell.depth() < DEPTH_MAX && 1 << cell.depth() <= 64 * self.len;
        if needed <= most || !may_split && needed != usize::MAX {
            let new = self.rewrite(ctx, r, capacity(needed, most), SegmentClass::Ordinary);
            self.directory.set(hash, Some(new), cell.count());
        } else {
            self.split(ctx, hash, r, cell.depth());
        }
    }

    /// Writes a leaf anew with `bytes` bytes, or as many as it needs.
    pub(super) fn rewrite(&mut self, ctx: &mut WriteCtx<'_>, r: Ref, bytes: usize, class: SegmentClass) -> Ref {
        let copied = Copied::from_slice(ctx.access.open(ctx.log, r).value());
        let old = PackedLeaf::open(&copied);
        let new = self.write_buffer(ctx, bytes.max(old.copied_bytes()), class, |buf| {
            old.copy_into(buf).expect("it has the bytes that it asked for");
        });
        self.kill(ctx, r);
        new
    }

    /// Writes a leaf of `bytes` bytes, which `fill` fills.
    fn write_leaf(
        &mut self,
        ctx: &mut WriteCtx<'_>,
        bytes: usize,
        class: SegmentClass,
        fill: impl FnOnce(&mut PackedLeafMut<'_>),
    ) -> Ref {
        self.write_buffer(ctx, bytes, class, |buf| fill(&mut PackedLeafMut::init(buf).expect("room for a head")))
    }

    fn write_buffer(
        &mut self,
        ctx: &mut WriteCtx<'_>,
        bytes: usize,
        class: SegmentClass,
        fill: impl FnOnce(&mut [u8]),
    ) -> Ref {
        let new = NewObject::new(kinds::LEAF, Owner::Collection(ctx.id.number()), b"", b"");
        let new = NewObject { value: NewValue::Stale(bytes), room: bytes, class, ..new };
        let r = ctx.appender.append(ctx.log, &new);
        fill(ctx.access.open_mut(ctx.log, r).value_mut());
        self.count_in(ctx.access, ctx.log, r)
    }

    /// Splits the leaf of a hash by the next bit of its elements' hashes.
    fn split(&mut self, ctx: &mut WriteCtx<'_>, hash: u64, r: Ref, depth: u8) {
        let copied = Copied::from_slice(ctx.access.open(ctx.log, r).value());
        let leaf = PackedLeaf::open(&copied);
        let is_upper = |element| self.form.hash(ctx.read(), element) >> (63 - depth) & 1 == 1;
        let upper: SmallVec<[bool; 128]> = leaf.iter().map(|(_, element)| is_upper(element)).collect();
        let halves = [false, true].map(|side| {
            let elements = || leaf.iter().zip(&upper).filter(move |&(_, &is)| is == side).map(|(element, _)| element);
            let new = self.write_elements(ctx, elements);
            (new, elements().count())
        });
        debug_assert!(leaf.len() > 1 || leaf.bytes() > 0, "a leaf that is split has elements");
        debug_assert_eq!(halves[0].1 + halves[1].1, leaf.len(), "each element is in one half");
        self.kill(ctx, r);
        self.directory.split(hash, halves);
    }

    /// Writes a leaf of some elements with room to grow; none if there are no elements.
    fn write_elements<'e, I: Iterator<Item = (u8, LeafElement<'e>)>>(
        &mut self,
        ctx: &mut WriteCtx<'_>,
        elements: impl Fn() -> I,
    ) -> Option<Ref> {
        let (mut count, mut bytes, mut longest) = (0, 0, 0);
        for (_, element) in elements() {
            let (size, wide_as) = match element {
                LeafElement::Here(bytes) => (bytes.len(), bytes.len()),
                LeafElement::Elsewhere(_) => (super::NUMBER_BYTES, usize::MAX),
            };
            (count, bytes, longest) = (count + 1, bytes + size, longest.max(wide_as));
        }
        if count == 0 {
            return None;
        }
        let capacity = capacity(leaf_bytes(count, bytes, longest), limit(count, bytes));
        Some(self.write_leaf(ctx, capacity, SegmentClass::Ordinary, |leaf| {
            for (tag, element) in elements() {
                leaf.push_element(tag, element).expect("the leaf has room for all of them");
            }
        }))
    }

    /// Follows the removal of one element from the leaf of a hash. Whether another form is due is looked at with every
    /// fourth element, and with each of the last few.
    #[inline]
    pub(super) fn after_removal(&mut self, ctx: &mut WriteCtx<'_>, hash: u64) {
        let count = self.directory.get(hash).count();
        if count.is_multiple_of(4) || count < 4 {
            self.reshape(ctx, hash);
        }
    }

    /// Follows removals from the leaf of a hash: writes it anew without its free room where that is most of it, and joins
    /// it with its buddy.
    pub(super) fn reshape(&mut self, ctx: &mut WriteCtx<'_>, hash: u64) {
        if let Some(r) = self.directory.get(hash).leaf(ctx.log) {
            let (leaf, count) = (open(ctx.log, ctx.access, r), self.directory.get(hash).count());
            let capacity = ctx.access.open(ctx.log, r).value().len();
            if capacity >= TRIM_FROM && leaf.room() > capacity / 3 && !self.joins_soon(hash, leaf) {
                let needed = leaf.copied_bytes();
                let new = self.rewrite(ctx, r, needed + needed / 4, SegmentClass::Ordinary);
                self.directory.set(hash, Some(new), count);
            }
        }
        while self.join_if_small(ctx, hash) {}
    }

    /// True if the leaf of a hash and its buddy have, by the average of its own elements, at most 5/8 of a leaf.
    fn joins_soon(&self, hash: u64, leaf: PackedLeaf<'_>) -> bool {
        let Some((_, buddy)) = self.directory.buddy(hash) else { return false };
        let both = leaf.bytes() * (leaf.len() + buddy.count()) / leaf.len().max(1);
        both + 3 * (leaf.len() + buddy.count()) <= limit(leaf.len(), leaf.bytes()) * 5 / 8
    }

    /// Joins the leaf of a hash and its buddy if both are small; whether it did.
    fn join_if_small(&mut self, ctx: &mut WriteCtx<'_>, hash: u64) -> bool {
        let Some((_, buddy)) = self.directory.buddy(hash) else { return false };
        let own = self.directory.get(hash);
        let count = own.count();
        let (own, other) = match (own.leaf(ctx.log), buddy.leaf(ctx.log)) {
            (Some(own), Some(other)) => (own, other),
            (own, other) => {
                self.directory.join(hash, own.or(other), count + buddy.count());
                return true;
            }
        };
        if !self.joins_soon(hash, open(ctx.log, ctx.access, own)) {
            return false;
        }
        let both = [own, other].map(|r| Copied::from_slice(ctx.access.open(ctx.log, r).value()));
        let leaves = [PackedLeaf::open(&both[0]), PackedLeaf::open(&both[1])];
        let count = leaves[0].len() + leaves[1].len();
        debug_assert_eq!(count, self.directory.get(hash).count() + buddy.count(), "elements of both leaves");
        let bytes = leaves[0].bytes() + leaves[1].bytes();
        if 3 * count + bytes > limit(count, bytes) * 3 / 4 {
            return false;
        }
        let new = self.write_elements(ctx, || leaves[0].iter().chain(leaves[1].iter()));
        self.kill(ctx, own);
        self.kill(ctx, other);
        self.directory.join(hash, new, count);
        true
    }
}
