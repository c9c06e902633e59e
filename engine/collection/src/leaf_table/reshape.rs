//! Leaves that grow, shrink, split and are joined.
//!
//! ```text
//!   object of a leaf    | leaf: head, tags, sizes, room, elements | slack                  |
//!                         what the log counts as alive              room that reclaim frees
//! ```
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
use super::{ELEMENT_MAX, LIMITS, LeafTable, NUMBER_BYTES, limit, open};
use crate::WriteCtx;
use crate::kinds;

/// A leaf of at least this many bytes is written anew when most of it is free room.
const TRIM_FROM: usize = 256;

/// A leaf's bytes while it is written anew.
type Copied = SmallVec<[u8; LIMITS[2]]>;

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

/// The capacity of a leaf that needs `needed` bytes and is going to grow: a quarter more, up to its limit. A leaf over its
/// limit is one that cannot be split, and grows in the same way.
fn capacity(needed: usize, limit: usize) -> usize {
    let more = needed + needed / 4;
    if needed > limit { more } else { more.min(limit) }
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
        self.expected = Expected { len, depth, leaf_bytes: capacity(total >> depth, limit) };
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

    /// Adds an element with this hash, which `push` adds to a leaf; `size` is the number of its bytes there.
    #[inline]
    pub(super) fn put(
        &mut self,
        ctx: &mut WriteCtx<'_>,
        hash: u64,
        size: usize,
        push: impl Fn(&mut PackedLeafMut<'_>) -> Result<(), Full>,
    ) {
        self.before(ctx.read(), hash);
        self.len += 1;
        loop {
            let cell = self.directory.get(hash);
            let Some(r) = cell.leaf(ctx.log) else {
                if cell.depth() < self.expected.depth {
                    self.directory.split(hash, [(None, 0); 2]);
                    continue;
                }
                let needed = leaf_bytes(1, size, size) + 1;
                let bytes = needed.max(self.expected.leaf_bytes);
                let new = self.write_leaf(ctx, bytes, SegmentClass::Ordinary, |leaf| {
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
        if cell.depth() < self.expected.depth {
            return self.spread(ctx, hash, r);
        }
        let leaf = open(ctx.log, ctx.access, r);
        let most = limit(leaf.len() + 1, leaf.bytes() + size);
        // Hashes that have many bits in common would make the directory large: their leaf becomes larger instead.
        let may_split = cell.depth() < DEPTH_MAX && 1 << cell.depth() <= 64 * self.len;
        if needed <= most || !may_split && needed != usize::MAX {
            let wished = capacity(needed, most).max(self.expected.leaf_bytes.min(most));
            let room = ctx.access.open(ctx.log, r).room();
            let bytes = if needed <= room { wished.min(room) } else { wished };
            let new = self.enlarge(ctx, r, bytes);
            self.directory.set(hash, Some(new), cell.count());
        } else {
            self.split(ctx, hash, r, cell.depth());
        }
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
            let (hash, size) = (self.form.hash(ctx.read(), element), element_size(element).0);
            self.put(ctx, hash, size, |leaf| leaf.push_element(tag, element));
        }
    }

    /// Gives a leaf a larger buffer, of `bytes` bytes: where it lies if its object has the room, else in another object.
    fn enlarge(&mut self, ctx: &mut WriteCtx<'_>, r: Ref, bytes: usize) -> Ref {
        if bytes > ctx.access.open(ctx.log, r).room() {
            return self.rewrite(ctx, r, bytes, SegmentClass::Ordinary);
        }
        let copied = Copied::from_slice(ctx.access.open(ctx.log, r).value());
        self.change_object(ctx, r, |object| {
            assert!(object.resize_value(bytes), "a leaf of {} bytes gets {bytes}", copied.len());
            PackedLeaf::open(&copied).copy_into(object.value_mut()).expect("a larger buffer");
        });
        r
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
        let (count, bytes, longest) = sizes(elements());
        if count == 0 {
            return None;
        }
        let most = limit(count, bytes);
        let capacity = capacity(leaf_bytes(count, bytes, longest), most).max(self.expected.leaf_bytes.min(most));
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

    /// Follows removals from the leaf of a hash: gives up its free room where that is most of it, and joins it with its
    /// buddy.
    pub(super) fn reshape(&mut self, ctx: &mut WriteCtx<'_>, hash: u64) {
        if let Some(r) = self.directory.get(hash).leaf(ctx.log) {
            let leaf = open(ctx.log, ctx.access, r);
            let capacity = ctx.access.open(ctx.log, r).value().len();
            if capacity >= TRIM_FROM && leaf.room() > capacity / 3 && !self.joins_soon(hash, leaf) {
                self.trim(ctx, r);
            }
        }
        while self.join_if_small(ctx, hash) {}
    }

    /// Makes a leaf shorter where it lies, with a quarter of room.
    fn trim(&mut self, ctx: &mut WriteCtx<'_>, r: Ref) {
        let copied = Copied::from_slice(ctx.access.open(ctx.log, r).value());
        let leaf = PackedLeaf::open(&copied);
        let bytes = leaf.copied_bytes() + leaf.copied_bytes() / 4;
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
        let new = match self.take_in(ctx, [own, other], &all) {
            Some(kept) => Some(kept),
            None => {
                let new = self.write_elements(ctx, all);
                self.kill(ctx, own);
                self.kill(ctx, other);
                new
            }
        };
        self.directory.join(hash, new, count);
        true
    }

    /// Writes elements over one of two leaves, in the room of whose object they fit; the other leaf dies.
    fn take_in<'e, I: Iterator<Item = (u8, LeafElement<'e>)>>(
        &mut self,
        ctx: &mut WriteCtx<'_>,
        both: [Ref; 2],
        elements: &impl Fn() -> I,
    ) -> Option<Ref> {
        let (count, bytes, longest) = sizes(elements());
        let needed = leaf_bytes(count, bytes, longest);
        let rooms = both.map(|r| ctx.access.open(ctx.log, r).room());
        let (kept, dead) = if rooms[0] >= rooms[1] { (both[0], both[1]) } else { (both[1], both[0]) };
        let room = rooms[0].max(rooms[1]);
        debug_assert!(kept != dead && count <= COUNT_MAX, "{count} elements of {kept:?} and {dead:?}");
        if needed > room {
            return None;
        }
        self.change_object(ctx, kept, |object| {
            let (bytes, has) = (capacity(needed, limit(count, bytes)).min(room), object.value().len());
            if bytes < has {
                object.shorten_value(bytes);
            } else {
                assert!(object.resize_value(bytes), "a leaf of {has} bytes gets {bytes} of {room}");
            }
            let mut leaf = PackedLeafMut::init(object.value_mut()).expect("room for a head");
            for (tag, element) in elements() {
                leaf.push_element(tag, element).expect("the leaf has room for all of them");
            }
        });
        self.kill(ctx, dead);
        Some(kept)
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
fn sizes<'e>(elements: impl Iterator<Item = (u8, LeafElement<'e>)>) -> (usize, usize, usize) {
    elements.fold((0, 0, 0), |(count, bytes, longest), (_, element)| {
        let (size, wide_as) = element_size(element);
        (count + 1, bytes + size, longest.max(wide_as))
    })
}
