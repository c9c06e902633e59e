//! Leaves that grow, shrink, split and are joined.
//!
//! ```text
//!   object of a leaf    | leaf: head, tags, sizes, room, elements | slack                  |
//!                         what the log counts as alive              room that reclaim frees
//! ```
//! The object of a leaf that may grow has all the room of a full leaf, and the leaf is made longer in it by steps. Objects
//! of the size of each step were tried: growing wrote each element five to eight times, and all versions but the last lay
//! dead until reclaim came. Now a split writes one object: the leaf keeps its own, and the elements that go get another.
//!
//! A leaf that loses elements is made shorter where it lies: its object keeps the room, the log counts it as dead, and a
//! drain leaves it behind. It grows into it again, and takes in its buddy. Writing leaves anew for that was tried: a
//! command that removes half of a set doubled the memory in use, since nothing is reclaimed while it runs.
//!
//! Where a command is going to add many elements, ranges of hashes are split before the elements come and leaves are made
//! as large as they will be (`expect`): else each element is written five times in one command.

use smallvec::SmallVec;
use varve_base::Ref;
use varve_packed::Full;
use varve_packed::leaf::{LeafElement, PackedLeaf, PackedLeafMut, leaf_bytes};
use varve_segment::{NewObject, NewValue, Owner, SegmentClass};

use super::directory::{COUNT_MAX, DEPTH_MAX};
use super::{ELEMENT_MAX, Fit, LIMIT_MAX, LeafTable, NUMBER_BYTES, UNSPLIT_MAX, limit, open};
use crate::WriteCtx;
use crate::kinds;

/// A leaf of at least this many bytes is made shorter when 3/8 of it are free room: growing leaves a third.
const TRIM_FROM: usize = 256;

/// A leaf's bytes while it is written anew.
type Copied = SmallVec<[u8; LIMIT_MAX]>;

/// Elements of one command from which a table makes itself ready for them.
pub(super) const EXPECTED_MIN: usize = 64;
/// Of a leaf's limit, the part that elements which are expected fill on average: few leaves get more than their limit.
const FILL: (usize, usize) = (3, 4);
/// Bytes of a tag and a size in a leaf.
const ELEMENT_OVERHEAD: usize = 2;

/// The leaves of a table that is going to have many more elements soon: nothing while none are expected.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Expected {
    /// Elements that the table will have.
    len: usize,
    /// Depth of its leaves.
    depth: u8,
    /// Bytes of a leaf when it is written.
    leaf_bytes: usize,
}

impl LeafTable {
    /// Makes ready for `count` more elements of `bytes` bytes together, until [`LeafTable::settle`] is called. There may come
    /// fewer, in the same command.
    pub fn expect(&mut self, count: usize, bytes: usize) {
        // Fewer find room in the leaves that there are.
        if count < EXPECTED_MIN.max(self.len / 4) {
            return;
        }
        let (len, total) = (self.len + count, self.object_bytes as usize + bytes + count * ELEMENT_OVERHEAD);
        let limit = limit(len, total);
        debug_assert!(self.expected.len <= len, "{:?} was not settled, and {len} elements are expected", self.expected);
        let depth = (0..DEPTH_MAX).find(|&depth| total >> depth <= limit * FILL.0 / FILL.1).unwrap_or(DEPTH_MAX);
        self.expected = Expected { len, depth, leaf_bytes: Fit::shrunk(total >> depth).room.min(limit) };
    }

    /// [`LeafTable::expect`] for elements of these sizes.
    #[cold]
    pub(super) fn expect_all(&mut self, elements: impl Iterator<Item = usize>) {
        let here = |size| if size > ELEMENT_MAX { NUMBER_BYTES } else { size };
        let (count, bytes) = elements.fold((0, 0), |(count, bytes), size| (count + 1, bytes + here(size)));
        self.expect(count, bytes);
    }

    /// Follows the elements that were expected. Where much fewer have come, leaves are trimmed and joined.
    pub fn settle(&mut self, ctx: &mut WriteCtx<'_>) {
        let expected = std::mem::take(&mut self.expected);
        if self.len >= expected.len / 2 {
            return;
        }
        let mut next = Some(0);
        while let Some(at) = next {
            self.reshape(ctx, at);
            next = self.directory.walk(at, |_, _| false);
        }
    }

    /// Adds an element with this hash, which `push` adds to a leaf; `size` is the number of its bytes there. False, and
    /// nothing is done, if the leaf of the hash is full and is not to be split.
    #[inline]
    pub(super) fn put(
        &mut self,
        ctx: &mut WriteCtx<'_>,
        hash: u64,
        size: usize,
        push: impl Fn(&mut PackedLeafMut<'_>) -> Result<(), Full>,
    ) -> bool {
        self.before(ctx.read(), hash);
        self.len += 1;
        loop {
            let cell = self.directory.get(hash);
            let Some(r) = cell.leaf(ctx.log) else {
                if cell.depth() < self.expected.depth {
                    self.directory.split(hash, [(None, 0); 2]);
                    continue;
                }
                // A number in place of the element has a size of two bytes.
                let fit = self.fit(leaf_bytes(1, size, size) + 1, limit(1, size));
                let new = self.write_buffer(ctx, fit, SegmentClass::Ordinary, |buf| {
                    let mut leaf = PackedLeafMut::init(buf).expect("room for a head");
                    push(&mut leaf).expect("the leaf has room for its first element");
                });
                self.directory.set(hash, Some(new), 1);
                return true;
            };
            let mut object = ctx.access.open_mut(ctx.log, r);
            let mut leaf = PackedLeafMut::open(object.value_mut());
            let pushed = if cell.count() < COUNT_MAX { push(&mut leaf) } else { Err(Full { needed: usize::MAX }) };
            match pushed {
                Ok(()) => {
                    self.directory.set(hash, Some(r), cell.count() + 1);
                    return true;
                }
                Err(Full { needed }) if self.make_room(ctx, hash, size, needed) => {}
                Err(_) => {
                    self.len -= 1;
                    return false;
                }
            }
        }
    }

    /// Makes room for an element of `size` bytes in the leaf of a hash, which would take `needed` bytes with it: a larger
    /// leaf, or two of which one is asked again. False, and nothing is done, if it may be neither larger nor split.
    #[cold]
    fn make_room(&mut self, ctx: &mut WriteCtx<'_>, hash: u64, size: usize, needed: usize) -> bool {
        let cell = self.directory.get(hash);
        let r = cell.leaf(ctx.log).expect("a leaf that is full");
        if cell.depth() < self.expected.depth {
            self.spread(ctx, hash, r);
            return true;
        }
        let leaf = open(ctx.log, ctx.access, r);
        let most = limit(leaf.len() + 1, leaf.bytes() + size);
        // Hashes that have many bits in common would make the directory large: their leaf becomes larger instead.
        let may_split = cell.depth() < DEPTH_MAX && 1 << cell.depth() <= 64 * self.len;
        if needed <= most || !may_split && needed <= UNSPLIT_MAX {
            let new = self.enlarge(ctx, r, self.fit(needed, most));
            self.directory.set(hash, Some(new), cell.count());
        } else if may_split {
            self.split(ctx, hash, r, cell.depth());
        } else {
            return false;
        }
        true
    }

    /// Deals the elements of a leaf out to leaves of the depth that is expected.
    fn spread(&mut self, ctx: &mut WriteCtx<'_>, hash: u64, r: Ref) {
        let copied = Copied::from_slice(ctx.access.open(ctx.log, r).value());
        let leaf = PackedLeaf::open(&copied);
        assert!(self.directory.get(hash).depth() < self.expected.depth, "a leaf that is deep enough is spread");
        self.kill(ctx, r);
        self.directory.set(hash, None, 0);
        self.len -= leaf.len();
        for (tag, element) in leaf.iter() {
            let (hash, size) = (self.hash_of_element(ctx.read(), element), element_size(element).0);
            let fits = self.put(ctx, hash, size, |leaf| leaf.push_element(tag, element));
            assert!(fits, "what lay in one leaf has room in several");
            self.follow_due(ctx.read(), hash, element);
        }
    }

    /// The bytes of a leaf that needs `needed` bytes and is going to grow, as far as is expected if something is.
    fn fit(&self, needed: usize, most: usize) -> Fit {
        match self.expected.leaf_bytes.min(most) {
            bytes if bytes < needed => Fit::growing(needed, most),
            bytes => Fit::exact(needed).at_least(bytes),
        }
    }

    /// Gives a leaf a larger buffer: where it lies if its object has the room, else in another object.
    fn enlarge(&mut self, ctx: &mut WriteCtx<'_>, r: Ref, fit: Fit) -> Ref {
        let Some(bytes) = fit.value_in(ctx.access.open(ctx.log, r).room()) else {
            return self.rewrite(ctx, r, fit, SegmentClass::Ordinary);
        };
        let copied = Copied::from_slice(ctx.access.open(ctx.log, r).value());
        self.change_object(ctx, r, |object| {
            assert!(object.resize_value(bytes), "a leaf of {} bytes gets {bytes}", copied.len());
            PackedLeaf::open(&copied).copy_into(object.value_mut()).expect("a larger buffer");
        });
        r
    }

    /// Writes a leaf anew.
    pub(super) fn rewrite(&mut self, ctx: &mut WriteCtx<'_>, r: Ref, fit: Fit, class: SegmentClass) -> Ref {
        let copied = Copied::from_slice(ctx.access.open(ctx.log, r).value());
        let old = PackedLeaf::open(&copied);
        let new = self.write_buffer(ctx, fit, class, |buf| {
            old.copy_into(buf).expect("it has the bytes that it asked for");
        });
        self.kill(ctx, r);
        new
    }

    /// Writes the object of a leaf, whose value `fill` fills.
    fn write_buffer(
        &mut self,
        ctx: &mut WriteCtx<'_>,
        fit: Fit,
        class: SegmentClass,
        fill: impl FnOnce(&mut [u8]),
    ) -> Ref {
        let new = NewObject::new(kinds::LEAF, Owner::Collection(ctx.id.number()), b"", b"");
        let new = NewObject { value: NewValue::Stale(fit.value), room: fit.room, class, ..new };
        let r = ctx.appender.append(ctx.log, &new);
        fill(ctx.access.open_mut(ctx.log, r).value_mut());
        self.count_in(ctx.access, ctx.log, r)
    }

    /// Splits the leaf of a hash by the next bit of its elements' hashes. The lower half keeps the object.
    fn split(&mut self, ctx: &mut WriteCtx<'_>, hash: u64, r: Ref, depth: u8) {
        let copied = Copied::from_slice(ctx.access.open(ctx.log, r).value());
        let leaf = PackedLeaf::open(&copied);
        let is_upper = |element| self.hash_of_element(ctx.read(), element) >> (63 - depth) & 1 == 1;
        let upper: SmallVec<[bool; 128]> = leaf.iter().map(|(_, element)| is_upper(element)).collect();
        let half = |side| leaf.iter().zip(&upper).filter(move |&(_, &is)| is == side).map(|(element, _)| element);
        let counts = [false, true].map(|side| half(side).count());
        debug_assert!(leaf.len() > 1 || leaf.bytes() > 0, "a leaf that is split has elements");
        debug_assert_eq!(counts[0] + counts[1], leaf.len(), "each element is in one half");
        let refs = match counts {
            [_, 0] => [Some(r), None],
            [0, _] => [None, Some(r)],
            _ => {
                let fits = [false, true].map(|side| {
                    let (count, bytes, longest) = sizes(half(side));
                    self.fit(leaf_bytes(count, bytes, longest), limit(count, bytes))
                });
                let goes = self.write_elements(ctx, fits[1], || half(true));
                let stays = self.write_over(ctx, r, fits[0], &|| half(false));
                assert!(stays, "half of a leaf has room where all of it lay");
                [Some(r), Some(goes)]
            }
        };
        self.directory.split(hash, [(refs[0], counts[0]), (refs[1], counts[1])]);
        self.split_dues(hash, depth);
    }

    /// Writes a leaf of some elements.
    fn write_elements<'e, I: Iterator<Item = (u8, LeafElement<'e>)> + Clone>(
        &mut self,
        ctx: &mut WriteCtx<'_>,
        fit: Fit,
        elements: impl Fn() -> I,
    ) -> Ref {
        self.write_buffer(ctx, fit, SegmentClass::Ordinary, |buf| {
            PackedLeafMut::init_with(buf, elements()).expect("the leaf has room for all of them");
        })
    }

    /// Writes some elements over a leaf, in the room of its object; false, and nothing is done, if that is too little.
    fn write_over<'e, I: Iterator<Item = (u8, LeafElement<'e>)> + Clone>(
        &mut self,
        ctx: &mut WriteCtx<'_>,
        r: Ref,
        fit: Fit,
        elements: &impl Fn() -> I,
    ) -> bool {
        let Some(bytes) = fit.value_in(ctx.access.open(ctx.log, r).room()) else { return false };
        self.change_object(ctx, r, |object| {
            let has = object.value().len();
            if bytes < has {
                object.shorten_value(bytes);
            } else {
                assert!(object.resize_value(bytes), "a leaf of {has} bytes gets {bytes}");
            }
            PackedLeafMut::init_with(object.value_mut(), elements()).expect("the leaf has room for all of them");
        });
        true
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

    /// Follows removals from the leaf of a hash: gives up its free room where that is most of it, and joins it with its
    /// buddy.
    pub(super) fn reshape(&mut self, ctx: &mut WriteCtx<'_>, hash: u64) {
        if let Some(r) = self.directory.get(hash).leaf(ctx.log) {
            let leaf = open(ctx.log, ctx.access, r);
            let capacity = ctx.access.open(ctx.log, r).value().len();
            if capacity >= TRIM_FROM && leaf.room() > capacity * 3 / 8 && !self.joins_soon(hash, leaf) {
                self.trim(ctx, r);
            }
        }
        while self.join_if_small(ctx, hash) {}
    }

    /// Makes a leaf shorter where it lies, without free room.
    fn trim(&mut self, ctx: &mut WriteCtx<'_>, r: Ref) {
        let copied = Copied::from_slice(ctx.access.open(ctx.log, r).value());
        let leaf = PackedLeaf::open(&copied);
        let bytes = Fit::shrunk(leaf.copied_bytes()).value;
        debug_assert!(bytes < copied.len(), "a leaf with much room");
        self.change_object(ctx, r, |object| {
            object.shorten_value(bytes);
            leaf.copy_into(object.value_mut()).expect("the buffer has what it needs");
        });
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
                self.join_dues(hash);
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
        let all = || leaves[0].iter().chain(leaves[1].iter());
        let (count, bytes, longest) = sizes(all());
        let fit = Fit::shrunk(leaf_bytes(count, bytes, longest));
        let rooms = [own, other].map(|r| ctx.access.open(ctx.log, r).room());
        let (kept, dead) = if rooms[0] >= rooms[1] { (own, other) } else { (other, own) };
        let new = if self.write_over(ctx, kept, fit, &all) {
            kept
        } else {
            let new = self.write_elements(ctx, fit, all);
            self.kill(ctx, kept);
            new
        };
        self.kill(ctx, dead);
        self.directory.join(hash, Some(new), count);
        self.join_dues(hash);
        true
    }
}

/// Bytes of an element in a leaf, and the longest size that it needs a leaf's sizes to hold.
fn element_size(element: LeafElement<'_>) -> (usize, usize) {
    match element {
        LeafElement::Here(bytes) => (bytes.len(), bytes.len()),
        LeafElement::Elsewhere(_) => (NUMBER_BYTES, usize::MAX),
    }
}

/// Number of elements, their bytes in a leaf, and the longest size.
pub(super) fn sizes<'e>(elements: impl Iterator<Item = (u8, LeafElement<'e>)>) -> (usize, usize, usize) {
    elements.fold((0, 0, 0), |(count, bytes, longest), (_, element)| {
        let (size, wide_as) = element_size(element);
        (count + 1, bytes + size, longest.max(wide_as))
    })
}
