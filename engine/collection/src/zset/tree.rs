//! The order of a sorted set's elements: leaves of cells under a counted tree.
//!
//! ```text
//!   tree     least keys, counts; fingerprints   (ordinary memory)
//!     |
//!   leaf      cells: 16 bits of key, Ref  (objects of the log, up to 128 cells each)
//!     |
//!   element   member, score               (objects of the log, found by hash as well)
//! ```
//! A least key of the tree is a lower bound: nothing in the leaf has a lesser key, nothing in the leaf before a greater
//! one. It does not follow when a leaf loses its first cell. A search goes down by key; elements are read only where keys
//! (in the tree) or prefixes (in the leaf) are equal. A leaf whose keys are all equal has prefixes of the members instead.
//! Where many leaves have one key, insertions have to look into them; when that has happened too often for the insertions
//! that there were, the leaves get fingerprints, or the fingerprints another common prefix (`fingerprints`).
//!
//! Leaves are kept full, since their free room is memory too. One that overflows is dealt out with up to four
//! neighbours, evenly, and only when those are full as well a leaf is added: 5 full ones become 6. At either end of the
//! tree the leaf is cut near that end, so that members which come in order leave full leaves behind. A leaf that has
//! fallen below half joins a neighbour as soon as one has few enough, which is not looked at for each cell that goes.
//!
//! Not here: the members' index (`SortedSet` has both), and what a range means.

use std::cmp::Ordering;

use smallvec::SmallVec;
use varve_base::Ref;
use varve_segment::{Appender, NewObject, NewValue, ObjectHead, Owner};

use super::fingerprints::LeafFingerprints;
use super::key_prefix::CommonPrefix;
use super::leaf::{
    self, BYTES_MAX, CELL_BYTES, CELLS_MAX, Cells, Item, LeafElements, PrefixPos, Source, head_bytes, head_room,
};
use super::score::{order_key, read_score};
use crate::counted_tree::{CountedTree, Leaf};
use crate::kinds;
use crate::{CollectionId, ReadCtx, WriteCtx};

/// Leaves that are dealt out together.
const WINDOW: usize = 5;
/// Cells that are dealt out at once: those of a window, rounded up to a size that `SmallVec` has.
const ITEMS_MAX: usize = 1024;
const _: () = assert!(WINDOW * CELLS_MAX <= ITEMS_MAX);
/// Full leaves keep 1/16 of their cells free when a window is dealt out without another leaf.
const SPARE: usize = 16;
/// A leaf that loses cells looks for a neighbour to join once per 1/16 of a full leaf, not at each cell.
const JOIN_PARTS: usize = 16;
/// From this number of leaves on, a leaf is made for as many cells as it may have; before, for a quarter more than it
/// needs.
const LEAVES_MANY: usize = 4;

/// Elements that are fetched ahead of a walk.
const AHEAD: usize = 8;

/// One insertion in this number may look into a leaf in vain.
const LOOKS_EACH: u32 = 4;
/// Fingerprints are made, or made anew, after this number of looks beyond that, and as many more for each leaf.
const LOOKS_MIN: u32 = 64;
/// Leaves that are fingerprinted in one go at most: a third of a millisecond. Fingerprints that were made before follow any growth.
const FINGERPRINTED_MAX: usize = 4096;
/// Leaves of which all are asked for the common prefix of the fingerprints; of more, all but the outermost.
const LEAVES_FEW: usize = 8;
/// Leaves whose first elements are fetched together.
const FIRSTS: usize = 32;

impl<'a> ReadCtx<'a> {
    #[inline]
    fn cells(self, leaf: Ref) -> Cells<'a> {
        Cells::open(self.access.open(self.log, leaf).value())
    }

    /// Member and score of an element.
    #[inline]
    pub(super) fn element(self, r: Ref) -> (&'a [u8], f64) {
        let object = self.access.open(self.log, r);
        (object.key(), read_score(object.value()))
    }

    #[inline]
    fn first_of(self, leaf: Ref) -> Ref {
        self.log.recall(self.cells(leaf).bits(0))
    }
}

impl<'a> LeafElements<'a> for ReadCtx<'a> {
    #[inline]
    fn key(self, bits: u64) -> u64 {
        order_key(self.element(self.log.recall(bits)).1)
    }

    #[inline]
    fn member(self, bits: u64) -> &'a [u8] {
        self.access.open(self.log, self.log.recall(bits)).key()
    }
}

/// A point between elements.
#[derive(Clone, Copy, Debug)]
pub(super) enum Probe<'a> {
    /// Before those of this key.
    Key(u64),
    /// Behind those of this key.
    PastKey(u64),
    /// Before this key and member.
    Element(u64, &'a [u8]),
    /// Before this member, if all keys are equal.
    Member(&'a [u8]),
    /// Behind this member, if all keys are equal.
    PastMember(&'a [u8]),
}

impl Probe<'_> {
    /// The member that the point is at, if members matter.
    #[inline]
    fn member(&self) -> Option<&[u8]> {
        match *self {
            Probe::Element(_, member) | Probe::Member(member) | Probe::PastMember(member) => Some(member),
            Probe::Key(_) | Probe::PastKey(_) => None,
        }
    }

    /// Is this element before the point?
    #[inline]
    fn is_behind(&self, member: &[u8], score: f64) -> bool {
        match *self {
            Probe::Key(key) => order_key(score) < key,
            Probe::PastKey(key) => order_key(score) <= key,
            Probe::Element(key, wanted) => (order_key(score), member) < (key, wanted),
            Probe::Member(wanted) => member < wanted,
            Probe::PastMember(wanted) => member <= wanted,
        }
    }

    /// Where a leaf of this least key begins: before the point, behind it, or only its first element can tell.
    #[inline]
    fn by_separator(&self, separator: u64) -> Ordering {
        match *self {
            Probe::Key(key) if separator < key => Ordering::Less,
            Probe::PastKey(key) if separator <= key => Ordering::Less,
            Probe::Key(_) | Probe::PastKey(_) => Ordering::Greater,
            Probe::Element(key, _) => separator.cmp(&key),
            Probe::Member(_) | Probe::PastMember(_) => Ordering::Equal,
        }
    }

    /// Does a leaf with this first element begin before the point, or with the element that the point is before?
    #[inline]
    fn is_behind_or_at(&self, member: &[u8], score: f64) -> bool {
        match *self {
            Probe::Element(key, wanted) => (order_key(score), member) <= (key, wanted),
            _ => self.is_behind(member, score),
        }
    }
}

/// The place of a cell.
#[derive(Clone, Copy, Debug)]
pub(super) struct TreePos {
    pub(super) leaf: Leaf,
    pub(super) at: usize,
}

/// See the head of the file.
pub(super) struct Tree {
    counted: CountedTree,
    /// The most cells of a leaf.
    cells_max: usize,
    /// Bytes of the leaves' objects.
    object_bytes: u64,
    fingerprints: Option<Box<LeafFingerprints>>,
    /// Leaves that insertions have looked into, [`LOOKS_EACH`] for one, less one for each insertion.
    looks: u32,
    /// From this number of looks on, fingerprints are to be made.
    looks_max: u32,
}

impl Tree {
    /// An empty tree with leaves of at most `cells_max` cells.
    pub(super) fn new(cells_max: usize) -> Tree {
        assert!((2..=CELLS_MAX).contains(&cells_max), "{cells_max} cells a leaf");
        Tree {
            counted: CountedTree::keyed(),
            cells_max,
            object_bytes: 0,
            fingerprints: None,
            looks: 0,
            looks_max: LOOKS_MIN * LOOKS_EACH,
        }
    }

    pub(super) fn len(&self) -> u64 {
        self.counted.count()
    }

    /// An empty tree with leaves of the same size.
    pub(super) fn fresh(&self) -> Tree {
        Tree::new(self.cells_max)
    }

    pub(super) fn object_bytes(&self) -> u64 {
        self.object_bytes
    }

    /// Bytes that are not in the log.
    pub(super) fn table_bytes(&self) -> usize {
        self.counted.bytes() + self.fingerprints.as_ref().map_or(0, |fingerprints| fingerprints.bytes())
    }

    /// The first cell that is not before the point, or the place behind the last cell of its leaf; `None` in an empty
    /// tree.
    fn seek(&self, reader: ReadCtx<'_>, probe: &Probe<'_>) -> Option<TreePos> {
        let (leaf, _) = self.seek_leaf(reader, probe)?;
        let cells = reader.cells(self.counted.leaf_ref(leaf));
        debug_assert_eq!(cells.len() as u64, self.counted.count_of(leaf), "the tree counts the cells");
        Some(TreePos { leaf, at: seek_cell(reader, cells, probe).0 })
    }

    /// The leaf of a point, and how many leaves had to be looked into to find it.
    #[inline]
    fn seek_leaf(&self, reader: ReadCtx<'_>, probe: &Probe<'_>) -> Option<(Leaf, u32)> {
        let mut looks = 0;
        let fingerprints = self
            .fingerprints
            .as_deref()
            .zip(probe.member())
            .map(|(fingerprints, member)| (fingerprints, fingerprints.key_prefix(member)));
        let leaf = self.counted.descend_by(
            |separator| probe.by_separator(separator),
            fingerprints.map(|(fingerprints, key_prefix)| move |leaf| fingerprints.compare(leaf, key_prefix)),
            |leaf| {
                looks += 1;
                let (member, score) = reader.element(reader.first_of(self.counted.leaf_ref(leaf)));
                probe.is_behind_or_at(member, score)
            },
            |leaf| reader.log.prefetch(self.counted.leaf_ref(leaf)),
        )?;
        Some((leaf, looks))
    }

    /// Elements before the point.
    pub(super) fn position(&self, reader: ReadCtx<'_>, probe: &Probe<'_>) -> u64 {
        self.seek(reader, probe).map_or(0, |pos| self.rank(pos))
    }

    /// Elements before a cell.
    pub(super) fn rank(&self, pos: TreePos) -> u64 {
        debug_assert!(pos.at as u64 <= self.counted.count_of(pos.leaf), "a cell of this leaf");
        self.counted.position_of(pos.leaf) + pos.at as u64
    }

    /// The cell of an element, whose key and member these are.
    pub(super) fn find(&self, reader: ReadCtx<'_>, key: u64, member: &[u8], r: Ref) -> TreePos {
        let (leaf, _) =
            self.seek_leaf(reader, &Probe::Element(key, member)).expect("a tree with an element has leaves");
        let cells = reader.cells(self.counted.leaf_ref(leaf));
        let at = cells.position(cells.place(key, member), r.bits()).expect("an element has a cell");
        debug_assert_eq!(reader.key(r.bits()), key, "the key of this element");
        TreePos { leaf, at }
    }

    /// Shows the elements from `position` on, upwards or downwards, `count` of them.
    pub(super) fn walk(&self, reader: ReadCtx<'_>, position: u64, rev: bool, count: u64, mut show: impl FnMut(Ref)) {
        let Some((mut leaf, at)) = self.counted.locate(position) else { return };
        let mut at = at as usize;
        let mut left = count;
        debug_assert!(position + count <= self.len() || rev, "{count} elements from {position} of {}", self.len());
        debug_assert!(!rev || count <= position + 1, "{count} elements down from {position}");
        loop {
            let cells = reader.cells(self.counted.leaf_ref(leaf));
            let here = if rev { at + 1 } else { cells.len() - at }.min(usize::try_from(left).unwrap_or(usize::MAX));
            let cell = |n: usize| reader.log.recall(cells.bits(if rev { at - n } else { at + n }));
            for n in 0..here.min(AHEAD) {
                reader.log.prefetch(cell(n));
            }
            for n in 0..here {
                if n + AHEAD < here {
                    reader.log.prefetch(cell(n + AHEAD));
                }
                show(cell(n));
            }
            left -= here as u64;
            if left == 0 {
                return;
            }
            let Some(next) = (if rev { self.counted.prev(leaf) } else { self.counted.next(leaf) }) else { return };
            leaf = next;
            at = if rev { reader.cells(self.counted.leaf_ref(leaf)).len() - 1 } else { 0 };
        }
    }

    /// The elements at these places counted from an end, as far as they are in its leaf or the one beside it.
    pub(super) fn at_end<const N: usize>(
        &self,
        reader: ReadCtx<'_>,
        rev: bool,
        places: [usize; N],
    ) -> [Option<Ref>; N] {
        let Some(leaf) = (if rev { self.counted.last() } else { self.counted.first() }) else { return [None; N] };
        let cells = reader.cells(self.counted.leaf_ref(leaf));
        let of = |cells: Cells<'_>, n: usize| {
            let at = if rev { (cells.len() - 1).checked_sub(n) } else { (n < cells.len()).then_some(n) };
            at.map(|at| reader.log.recall(cells.bits(at)))
        };
        places.map(|n| {
            of(cells, n).or_else(|| {
                let beside = (if rev { self.counted.prev(leaf) } else { self.counted.next(leaf) })?;
                of(reader.cells(self.counted.leaf_ref(beside)), n - cells.len())
            })
        })
    }

    /// Puts the elements at the positions `from..to` that lie in one leaf with the first of them, or with the last if `rev`,
    /// into `refs`; gives the place of the first.
    pub(super) fn run(
        &self,
        reader: ReadCtx<'_>,
        (from, to): (u64, u64),
        rev: bool,
        refs: &mut SmallVec<[Ref; CELLS_MAX]>,
    ) -> TreePos {
        let (leaf, at) = self.counted.locate(if rev { to - 1 } else { from }).expect("positions of the tree");
        let cells = reader.cells(self.counted.leaf_ref(leaf));
        let (at, count) = (at as usize, usize::try_from(to - from).unwrap_or(usize::MAX));
        let (at, end) = if rev {
            ((at + 1).saturating_sub(count), at + 1)
        } else {
            (at, (at.saturating_add(count)).min(cells.len()))
        };
        debug_assert!(at < end && end <= cells.len(), "cells {at}..{end} of {}", cells.len());
        refs.clear();
        for at in at..end {
            refs.push(reader.log.recall(cells.bits(at)));
        }
        TreePos { leaf, at }
    }

    /// Adds the cell of an element that is not there yet.
    pub(super) fn insert(&mut self, ctx: &mut WriteCtx<'_>, key: u64, member: &[u8], r: Ref) {
        let (reader, probe) = (ctx.read(), Probe::Element(key, member));
        let Some((leaf, looks)) = self.seek_leaf(reader, &probe) else {
            let mut bytes = [0; BYTES_MAX];
            let bytes = leaf::build(&mut bytes, &[Item::new(key, r.bits(), 0)], &[Source::KEYS], reader);
            let id = ctx.id;
            let (reader, appender) = ctx.parts();
            self.add_leaf(reader, (appender, id), None, bytes, key);
            return;
        };
        let cells = reader.cells(self.counted.leaf_ref(leaf));
        let (at, place) = seek_cell(reader, cells, &probe);
        debug_assert!(cells.len() <= self.cells_max, "a leaf of {} cells", cells.len());
        if cells.len() == self.cells_max {
            self.make_room(ctx, TreePos { leaf, at });
            return self.insert(ctx, key, member, r);
        }
        match place {
            PrefixPos::At(prefix) => self.put(ctx, TreePos { leaf, at }, prefix, r),
            _ => self.stretch(ctx, TreePos { leaf, at }, key, r),
        }
        if at == 0 && self.counted.first() == Some(leaf) {
            // Of the first leaf only the least key may have become too great, and the fingerprint.
            self.counted.set_separator(leaf, key.min(self.counted.separator(leaf)));
            self.fingerprints.iter_mut().for_each(|fingerprints| fingerprints.set_first(leaf));
        }
        self.looks = self.looks.saturating_add(looks * LOOKS_EACH).saturating_sub(1);
        if self.looks > self.looks_max {
            self.set_all_fingerprints(ctx.read());
        }
    }

    /// Puts a cell into a leaf that is not full and has a prefix for it.
    fn put(&mut self, ctx: &mut WriteCtx<'_>, TreePos { leaf, at }: TreePos, prefix: u64, r: Ref) {
        let mut object = ctx.access.open_mut(ctx.log, self.counted.leaf_ref(leaf));
        let len = object.value().len();
        debug_assert!(head_bytes(object.value()) + at * CELL_BYTES <= len, "in the leaf, or behind its last cell");
        if object.resize_value(len + CELL_BYTES) {
            leaf::insert(object.value_mut(), at, prefix, r.bits());
        } else {
            let mut bytes = [0; BYTES_MAX];
            let bytes = &mut bytes[..len + CELL_BYTES];
            bytes[..len].copy_from_slice(object.value());
            leaf::insert(bytes, at, prefix, r.bits());
            self.rewrite(ctx, leaf, bytes, self.room_for(bytes));
        }
        self.counted.add(leaf, 1);
    }

    /// Builds a leaf that is not full anew with a cell for which it has no prefix.
    #[cold]
    fn stretch(&mut self, ctx: &mut WriteCtx<'_>, TreePos { leaf, at }: TreePos, key: u64, r: Ref) {
        let reader = ctx.read();
        let cells = reader.cells(self.counted.leaf_ref(leaf));
        let mut items: SmallVec<[Item; CELLS_MAX]> = cells.items(0).collect();
        debug_assert!(items.len() < self.cells_max && at <= items.len(), "a leaf that is not full");
        items.insert(at, Item::new(key, r.bits(), 1));
        let mut bytes = [0; BYTES_MAX];
        let bytes = leaf::build(&mut bytes, &items, &[cells.source(), Source::KEYS], reader);
        self.refill(ctx, leaf, bytes);
    }

    /// Gives a cell another key and reference, if it stays where it is for sure; false if it may have to move.
    pub(super) fn update(&mut self, ctx: &mut WriteCtx<'_>, pos: TreePos, key: u64, r: Ref) -> bool {
        let mut object = ctx.access.open_mut(ctx.log, self.counted.leaf_ref(pos.leaf));
        leaf::update(object.value_mut(), pos.at, key, r.bits())
    }

    /// The element of a cell has moved.
    pub(super) fn repoint(&mut self, ctx: &mut WriteCtx<'_>, pos: TreePos, r: Ref) {
        let mut object = ctx.access.open_mut(ctx.log, self.counted.leaf_ref(pos.leaf));
        leaf::set_bits(object.value_mut(), pos.at, r.bits());
    }

    /// Removes the cells from `spot.at` on, `count` of them.
    pub(super) fn remove(&mut self, ctx: &mut WriteCtx<'_>, pos: TreePos, count: usize) {
        let TreePos { leaf, at } = pos;
        let old = self.counted.leaf_ref(leaf);
        let mut object = ctx.access.open_mut(ctx.log, old);
        let (cells, left) = (Cells::open(object.value()).len(), object.value().len() - count * CELL_BYTES);
        debug_assert!(at + count <= cells, "cells {at}..{} of {cells}", at + count);
        debug_assert_eq!(cells as u64, self.counted.count_of(leaf), "the tree counts the cells");
        if cells == count {
            self.object_bytes -= object.read().bytes() as u64;
            self.counted.remove(leaf);
            return ctx.access.kill(ctx.log, old);
        }
        leaf::remove(object.value_mut(), at, at + count);
        if !object.resize_value(left) {
            let mut bytes = [0; BYTES_MAX];
            let bytes = &mut bytes[..left];
            bytes.copy_from_slice(&object.value()[..left]);
            // It has become less than half full: with the room of a full one it would be written anew at each removal.
            self.rewrite(ctx, leaf, bytes, self.spare_room(bytes));
        }
        let left = cells - count;
        self.counted.add(leaf, -(count as i64));
        let part = (self.cells_max / JOIN_PARTS).max(1);
        if left < self.cells_max / 2 && left / part != (left + count) / part {
            self.join(ctx, leaf, left);
        }
    }

    /// Moves a leaf that reclaim has come to; false if it is not of this tree.
    pub(super) fn relocate(&mut self, ctx: &mut WriteCtx<'_>, head: &ObjectHead<'_>) -> bool {
        let Ok(number) = head.key.try_into().map(u32::from_le_bytes) else { return false };
        let Some(leaf) = self.counted.leaf(number).filter(|&leaf| self.counted.leaf_ref(leaf) == head.r) else {
            return false;
        };
        self.object_bytes -= head.bytes as u64;
        self.counted.set_ref(leaf, ctx.relocate(head.r));
        self.object_bytes += self.bytes_of(ctx.read(), leaf);
        true
    }

    /// Kills up to `objects` leaves, from the end; gives how many it killed.
    pub(super) fn free_leaves(&mut self, ctx: &mut WriteCtx<'_>, objects: usize) -> usize {
        for killed in 0..objects {
            let Some(leaf) = self.counted.last() else { return killed };
            self.object_bytes -= self.bytes_of(ctx.read(), leaf);
            let r = self.counted.remove(leaf);
            ctx.access.kill(ctx.log, r);
        }
        objects
    }

    /// Gives back some of the tree and the fingerprints; true when nothing is left of them.
    pub(super) fn shrink_step(&mut self) -> bool {
        self.counted.shrink_step() & self.fingerprints.as_mut().is_none_or(|fingerprints| fingerprints.shrink())
    }

    /// Adds a leaf at the end, of elements in order behind all that are there: `refs` of the same shard.
    pub(super) fn push_leaf(&mut self, reader: ReadCtx<'_>, appender: &mut Appender, id: CollectionId, refs: &[Ref]) {
        let Some(first) = refs.first() else { return };
        let items: SmallVec<[Item; CELLS_MAX]> = refs.iter().map(|r| Item::new(0, r.bits(), 0)).collect();
        debug_assert!(items.len() <= self.cells_max, "{} cells in a leaf", items.len());
        let mut bytes = [0; BYTES_MAX];
        let bytes = leaf::build(&mut bytes, &items, &[Source::REFS], reader);
        debug_assert!(
            self.counted.last().is_none_or(|last| self.counted.separator(last) <= reader.key(first.bits())),
            "in order"
        );
        self.add_leaf(reader, (appender, id), self.counted.last(), bytes, reader.key(first.bits()));
    }

    /// Cells of a leaf that is filled at once.
    pub(super) fn cells_at_once(&self) -> usize {
        self.cells_max - self.cells_max / 16
    }

    fn bytes_of(&self, reader: ReadCtx<'_>, leaf: Leaf) -> u64 {
        reader.access.open(reader.log, self.counted.leaf_ref(leaf)).bytes() as u64
    }

    /// Bytes that a leaf of these is given.
    fn room_for(&self, bytes: &[u8]) -> usize {
        let many = self.counted.leaves() >= LEAVES_MANY;
        if many { head_room(bytes) + self.cells_max * CELL_BYTES } else { self.spare_room(bytes) }
    }

    /// Bytes of a leaf with room for a quarter more cells than these are.
    fn spare_room(&self, bytes: &[u8]) -> usize {
        let cells = (bytes.len() - head_bytes(bytes)) / CELL_BYTES;
        debug_assert!(cells <= self.cells_max, "{cells} cells in a leaf");
        head_room(bytes) + (cells + cells / 4 + 2).min(self.cells_max) * CELL_BYTES
    }

    /// Writes a leaf that is to follow `after`; its first element has the key `separator`.
    fn add_leaf(
        &mut self,
        reader: ReadCtx<'_>,
        (appender, id): (&mut Appender, CollectionId),
        after: Option<Leaf>,
        bytes: &[u8],
        separator: u64,
    ) -> Leaf {
        let number = self.counted.upcoming().number().to_le_bytes();
        let new = NewObject {
            room: self.room_for(bytes),
            // A leaf that takes elements of others has the mark of the leaf before it.
            saved: after.is_some_and(|leaf| reader.access.open(reader.log, self.counted.leaf_ref(leaf)).saved()),
            ..NewObject::new(kinds::NODE, Owner::Collection(id.number()), &number, bytes)
        };
        let r = appender.append(reader.log, &new);
        let leaf = self.counted.insert_after(after, r, Cells::open(bytes).len() as u32, separator);
        self.object_bytes += self.bytes_of(reader, leaf);
        self.set_fingerprint(reader, leaf);
        leaf
    }

    /// Fingerprints a leaf with its first element, which has its least key.
    fn set_fingerprint(&mut self, reader: ReadCtx<'_>, leaf: Leaf) {
        if let Some(fingerprints) = &mut self.fingerprints {
            fingerprints.set(leaf, reader.element(reader.first_of(self.counted.leaf_ref(leaf))).0);
        }
    }

    /// Fingerprints all leaves, if another common prefix than before is found. Of a tree that has become large without fingerprints, as a copy
    /// does, none are made: going over all of its leaves would hold its shard for too long.
    #[cold]
    fn set_all_fingerprints(&mut self, reader: ReadCtx<'_>) {
        if self.counted.leaves() > FINGERPRINTED_MAX {
            self.looks_max = self.looks_max.saturating_mul(2);
            return;
        }
        let (few, ends) = (self.counted.leaves() < LEAVES_FEW, [self.counted.first(), self.counted.last()]);
        let mut common: Option<CommonPrefix> = None;
        self.each_first(reader, |leaf, member, _| {
            if few || !ends.contains(&Some(leaf)) {
                common = Some(
                    common
                        .map_or_else(|| CommonPrefix::of(member), |common| CommonPrefix::common(common.get(), member)),
                );
            }
        });
        let Some(common) = common else { return };
        if self.fingerprints.as_ref().is_some_and(|fingerprints| *fingerprints.common() == common) {
            self.looks_max = self.looks_max.saturating_mul(2);
            return;
        }
        let (mut fingerprints, mut moved) = (LeafFingerprints::new(common), Vec::new());
        self.each_first(reader, |leaf, member, key| {
            if ends[0] == Some(leaf) {
                return fingerprints.set_first(leaf);
            }
            fingerprints.set(leaf, member);
            // A fingerprint is of the same element as the least key.
            if key != self.counted.separator(leaf) {
                moved.push((leaf, key));
            }
        });
        moved.iter().for_each(|&(leaf, key)| self.counted.set_separator(leaf, key));
        self.fingerprints = Some(Box::new(fingerprints));
        self.looks = 0;
        self.looks_max = (LOOKS_MIN + self.counted.leaves() as u32 * LOOKS_EACH) * LOOKS_EACH;
    }

    /// Shows the first element of each leaf: member and key.
    fn each_first(&self, reader: ReadCtx<'_>, mut show: impl FnMut(Leaf, &[u8], u64)) {
        let mut next = self.counted.first();
        while let Some(leaf) = next {
            let leaves = std::iter::successors(Some(leaf), |&leaf| self.counted.next(leaf)).take(FIRSTS);
            let leaves: SmallVec<[Leaf; FIRSTS]> = leaves.collect();
            let places = leaves.iter().map(|&leaf| self.counted.leaf_ref(leaf));
            places.clone().for_each(|place| reader.log.prefetch(place));
            places.clone().for_each(|place| reader.log.prefetch(reader.first_of(place)));
            for (&leaf, place) in leaves.iter().zip(places) {
                let (member, score) = reader.element(reader.first_of(place));
                show(leaf, member, order_key(score));
            }
            next = self.counted.next(*leaves.last().expect("there is one"));
        }
    }

    /// Writes the object of a leaf anew, with so much room.
    #[cold]
    fn rewrite(&mut self, ctx: &mut WriteCtx<'_>, leaf: Leaf, bytes: &[u8], room: usize) {
        let old = self.counted.leaf_ref(leaf);
        self.object_bytes -= self.bytes_of(ctx.read(), leaf);
        debug_assert!(room >= bytes.len(), "{room} bytes for {}", bytes.len());
        let like = NewObject::like(&ctx.access.open(ctx.log, old));
        let r = ctx.appender.append(ctx.log, &NewObject { value: NewValue::Bytes(bytes), room, ..like });
        self.counted.set_ref(leaf, r);
        self.object_bytes += self.bytes_of(ctx.read(), leaf);
        ctx.access.kill(ctx.log, old);
    }

    /// Makes room in a full leaf, around it or beside it.
    #[cold]
    fn make_room(&mut self, ctx: &mut WriteCtx<'_>, pos: TreePos) {
        let TreePos { leaf, at } = pos;
        let full = self.cells_max;
        let few = (full / 16).max(1);
        if at == full && self.counted.next(leaf).is_none() {
            return self.redistribute(ctx, &[leaf], &[full - few, few]);
        }
        if at == 0 && self.counted.prev(leaf).is_none() {
            return self.redistribute(ctx, &[leaf], &[few, full - few]);
        }
        let leaves = self.window(leaf);
        debug_assert!(leaves.contains(&leaf) && leaves.len() <= WINDOW, "a leaf and its neighbours");
        let cells: usize = leaves.iter().map(|&leaf| self.counted.count_of(leaf) as usize).sum();
        let enough = leaves.len() * (full - (full / SPARE).max(1));
        debug_assert!(cells <= leaves.len() * full, "{cells} cells in {} leaves", leaves.len());
        let into = leaves.len() + usize::from(cells > enough);
        let counts: SmallVec<[usize; WINDOW + 1]> =
            (0..into).map(|n| cells / into + usize::from(n < cells % into)).collect();
        self.redistribute(ctx, &leaves, &counts);
    }

    /// A leaf and its neighbours, in order.
    fn window(&self, leaf: Leaf) -> SmallVec<[Leaf; WINDOW]> {
        let mut first = leaf;
        let mut leaves = SmallVec::new();
        let before = std::iter::successors(Some(leaf), |&leaf| self.counted.prev(leaf)).take(WINDOW);
        let behind = std::iter::successors(self.counted.next(leaf), |&leaf| self.counted.next(leaf)).take(WINDOW / 2);
        let wanted = WINDOW - behind.count();
        before.take(wanted).for_each(|leaf| first = leaf);
        leaves.extend(std::iter::successors(Some(first), |&leaf| self.counted.next(leaf)).take(WINDOW));
        leaves
    }

    /// Joins a leaf of few cells with a neighbour, if one has few enough.
    #[cold]
    fn join(&mut self, ctx: &mut WriteCtx<'_>, leaf: Leaf, cells: usize) {
        let most = self.cells_max - self.cells_max / 8;
        for (first, second) in [(Some(leaf), self.counted.next(leaf)), (self.counted.prev(leaf), Some(leaf))] {
            let (Some(first), Some(second)) = (first, second) else { continue };
            let other = if first == leaf { second } else { first };
            debug_assert!(first != second, "two leaves");
            let both = cells + self.counted.count_of(other) as usize;
            if both <= most {
                return self.redistribute(ctx, &[first, second], &[both]);
            }
        }
    }

    /// Deals the cells of neighbouring leaves out anew: `counts` for each leaf, more of them than leaves for new ones behind
    /// the last, fewer to remove the last ones.
    fn redistribute(&mut self, ctx: &mut WriteCtx<'_>, leaves: &[Leaf], counts: &[usize]) {
        let mut items: SmallVec<[Item; ITEMS_MAX]> = SmallVec::new();
        let mut sources: SmallVec<[Source; WINDOW]> = SmallVec::new();
        for (n, &leaf) in leaves.iter().enumerate() {
            let cells = ctx.read().cells(self.counted.leaf_ref(leaf));
            items.extend(cells.items(n));
            sources.push(cells.source());
        }
        assert_eq!(items.len(), counts.iter().sum::<usize>(), "every cell is dealt out once");
        for &leaf in leaves.iter().skip(counts.len()) {
            self.object_bytes -= self.bytes_of(ctx.read(), leaf);
            let r = self.counted.remove(leaf);
            ctx.access.kill(ctx.log, r);
        }
        let mut buffer = [0; BYTES_MAX];
        debug_assert!(
            counts.iter().all(|&count| (1..=self.cells_max).contains(&count)),
            "cells for each leaf: {counts:?}"
        );
        let (mut rest, mut last) = (&items[..], leaves[0]);
        for (n, &count) in counts.iter().enumerate() {
            let (mine, others) = rest.split_at(count);
            rest = others;
            let reader = ctx.read();
            let bytes = leaf::build(&mut buffer, mine, &sources, reader);
            let separator = reader.key(mine[0].bits());
            match leaves.get(n) {
                Some(&leaf) => {
                    self.refill(ctx, leaf, bytes);
                    last = leaf;
                    // The part before the first cut stays, and so do its separator and its fingerprint.
                    if n > 0 {
                        self.counted.set_separator(leaf, separator);
                        self.set_fingerprint(ctx.read(), leaf);
                    }
                }
                None => {
                    let id = ctx.id;
                    let (reader, appender) = ctx.parts();
                    last = self.add_leaf(reader, (appender, id), Some(last), bytes, separator);
                }
            }
        }
    }

    /// Gives a leaf other cells.
    fn refill(&mut self, ctx: &mut WriteCtx<'_>, leaf: Leaf, bytes: &[u8]) {
        debug_assert!((1..=self.cells_max).contains(&Cells::open(bytes).len()), "cells of a leaf");
        if !ctx.access.open_mut(ctx.log, self.counted.leaf_ref(leaf)).set_value(bytes) {
            self.rewrite(ctx, leaf, bytes, self.room_for(bytes));
        }
        self.counted.add(leaf, Cells::open(bytes).len() as i64 - self.counted.count_of(leaf) as i64);
    }

    /// Checks order, prefixes, least keys, counts and bytes; shows every element and every leaf. O(N).
    pub(super) fn verify(
        &self,
        reader: ReadCtx<'_>,
        id: CollectionId,
        mut element: impl FnMut(Ref),
        mut live: impl FnMut(Ref),
    ) {
        self.counted.verify();
        let (mut bytes, mut last) = (0, None);
        for leaf in std::iter::successors(self.counted.first(), |&leaf| self.counted.next(leaf)) {
            let r = self.counted.leaf_ref(leaf);
            let object = reader.access.open(reader.log, r);
            assert_eq!((object.kind(), object.owner()), (kinds::NODE, Owner::Collection(id.number())), "a leaf");
            assert_eq!(object.key(), leaf.number().to_le_bytes(), "a leaf carries its number");
            let cells = reader.cells(r);
            assert_eq!(cells.len() as u64, self.counted.count_of(leaf), "cells of a leaf");
            assert!((1..=self.cells_max).contains(&cells.len()), "a leaf of {} cells", cells.len());
            let separator = self.counted.separator(leaf);
            assert!(last.is_none_or(|(key, _)| key <= separator), "a least key under what is before the leaf");
            for at in 0..cells.len() {
                let r = reader.log.recall(cells.bits(at));
                let (member, score) = reader.element(r);
                let key = order_key(score);
                assert!(separator <= key, "a least key over what is in the leaf");
                assert!(last.is_none_or(|before| before < (key, member)), "elements in order");
                assert_eq!(
                    cells.place(key, member),
                    PrefixPos::At(cells.prefix(at)),
                    "a prefix is its key's, or its key_prefix"
                );
                if at == 0 || at + 1 == cells.len() {
                    let found = self.seek_leaf(reader, &Probe::Element(key, member));
                    assert_eq!(found.map(|(leaf, _)| leaf), Some(leaf), "a search ends where the element is");
                }
                last = Some((key, member));
                element(r);
            }
            live(r);
            bytes += object.bytes() as u64;
        }
        assert_eq!(bytes, self.object_bytes, "bytes of the leaves");
    }

    /// Whether there are fingerprints.
    #[cfg(test)]
    pub(super) fn has_fingerprints(&self) -> bool {
        self.fingerprints.is_some()
    }

    /// Leaves while the tree is being freed.
    pub(super) fn leaves(&self) -> impl Iterator<Item = Ref> {
        std::iter::successors(self.counted.first(), |&leaf| self.counted.next(leaf))
            .map(|leaf| self.counted.leaf_ref(leaf))
    }
}

/// The first cell of a leaf that is not before the point, and where that is by the prefixes.
fn seek_cell(reader: ReadCtx<'_>, cells: Cells<'_>, probe: &Probe<'_>) -> (usize, PrefixPos) {
    let (place, whole) = match *probe {
        Probe::Element(key, member) => (cells.place(key, member), false),
        Probe::Member(member) | Probe::PastMember(member) => (cells.place_of_member(member), false),
        Probe::Key(key) | Probe::PastKey(key) => cells.place_of_key(key),
    };
    let (mut before, mut end) = cells.at(place);
    if whole {
        return (if matches!(probe, Probe::Key(_)) { before } else { end }, place);
    }
    while before < end {
        let middle = before + (end - before) / 2;
        // Whichever element is asked for next is on its way meanwhile.
        if before < middle {
            reader.log.prefetch(reader.log.recall(cells.bits(before + (middle - before) / 2)));
        }
        if middle + 1 < end {
            reader.log.prefetch(reader.log.recall(cells.bits(middle + 1 + (end - middle - 1) / 2)));
        }
        let (member, score) = reader.element(reader.log.recall(cells.bits(middle)));
        if probe.is_behind(member, score) { before = middle + 1 } else { end = middle }
    }
    (before, place)
}
