//! The order of a sorted set's elements: leaves of cells under a counted spine.
//!
//! ```text
//!   spine     least keys, counts; marks   (ordinary memory)
//!     |
//!   leaf      cells: 16 bits of key, Ref  (objects of the log, up to 128 cells each)
//!     |
//!   element   member, score               (objects of the log, found by hash as well)
//! ```
//! A least key of the spine is a lower bound: nothing in the leaf has a lesser key, nothing in the leaf before a greater
//! one. It does not follow when a leaf loses its first cell. A search goes down by key; elements are read only where keys
//! (in the spine) or prefixes (in the leaf) are equal. A leaf whose keys are all equal has prefixes of the members instead.
//! Where many leaves have one key, insertions have to look into them; when that has happened too often for the insertions
//! that there were, the leaves get marks, or the marks another stem (`marks`).
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
use varve_segment::{Access, Appender, Log, NewObject, NewValue, ObjectHead, ObjectTag, Owner, SegmentClass};

use super::hint::CommonPrefix;
use super::leaf::{
    self, BYTES_MAX, CELL_BYTES, CELLS_MAX, Cells, Item, LeafElements, PrefixPos, Source, head_bytes, head_room,
};
use super::marks::LeafFingerprints;
use super::score::{order_key, read_score};
use crate::WriteCtx;
use crate::counted_tree::{CountedTree, Leaf};
use crate::kinds;

/// Leaves that are dealt out together.
const WINDOW: usize = 5;
/// Cells that are dealt out at once: those of a window, rounded up to a size that `SmallVec` has.
const ITEMS_MAX: usize = 1024;
const _: () = assert!(WINDOW * CELLS_MAX <= ITEMS_MAX);
/// Of so many cells, one is left free in each leaf when a window is dealt out without another leaf.
const SPARE: usize = 16;
/// A leaf that loses cells looks for a neighbour to join once in so many parts of a full one, not at each of them.
const JOIN_PARTS: usize = 16;
/// From so many leaves on, leaves are made for as many cells as they may have; before, for a quarter more than they need.
const LEAVES_MANY: usize = 4;

/// Elements that are fetched ahead of a walk.
const AHEAD: usize = 8;

/// An insertion may look into one leaf in so many insertions for nothing.
const LOOKS_EACH: u32 = 4;
/// Marks are made, or made anew, after so many looks beyond that, and so many more a leaf that they cost.
const LOOKS_MIN: u32 = 64;
/// Leaves that are marked in one go at most: a third of a millisecond. Marks that were made before follow any growth.
const MARKED_MAX: usize = 4096;
/// Leaves of which all are asked for the stem of the marks; of more, all but the outermost.
const LEAVES_FEW: usize = 8;
/// Leaves whose first elements are fetched together.
const FIRSTS: usize = 32;

/// What opens a collection's objects to read them.
#[derive(Clone, Copy)]
pub(super) struct ReadCtx<'a> {
    pub(super) log: &'a Log,
    pub(super) access: &'a Access,
}

impl<'a> ReadCtx<'a> {
    #[inline]
    pub(super) fn of(hands: &'a WriteCtx<'_>) -> ReadCtx<'a> {
        ReadCtx { log: hands.log, access: hands.access }
    }

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

/// What writes leaves.
struct LeafWriter<'a> {
    log: &'a Log,
    appender: &'a mut Appender,
    slot: u32,
}

impl<'a> LeafWriter<'a> {
    fn of(hands: &'a mut WriteCtx<'_>) -> LeafWriter<'a> {
        LeafWriter { log: hands.log, appender: hands.appender, slot: hands.slot }
    }

    fn append(self, number: u32, bytes: &[u8], room: usize) -> Ref {
        let new = NewObject {
            kind: kinds::NODE,
            owner: Owner::Collection(self.slot),
            key: &number.to_le_bytes(),
            value: NewValue::Bytes(bytes),
            room,
            expiry_ms: None,
            clock: 0,
            tag: ObjectTag::default(),
            class: SegmentClass::Ordinary,
        };
        self.appender.append(self.log, &new)
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
    fn by_sep(&self, sep: u64) -> Ordering {
        match *self {
            Probe::Key(key) if sep < key => Ordering::Less,
            Probe::PastKey(key) if sep <= key => Ordering::Less,
            Probe::Key(_) | Probe::PastKey(_) => Ordering::Greater,
            Probe::Element(key, _) => sep.cmp(&key),
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
    spine: CountedTree,
    /// The most cells of a leaf.
    cells_max: usize,
    /// Bytes of the leaves' objects.
    object_bytes: u64,
    marks: Option<Box<LeafFingerprints>>,
    /// Leaves that insertions have looked into, [`LOOKS_EACH`] for one, less one for each insertion.
    looks: u32,
    /// From so many on there are marks to be made.
    looks_max: u32,
}

impl Tree {
    /// An empty tree with leaves of at most so many cells.
    pub(super) fn new(cells_max: usize) -> Tree {
        assert!((2..=CELLS_MAX).contains(&cells_max), "{cells_max} cells a leaf");
        Tree {
            spine: CountedTree::keyed(),
            cells_max,
            object_bytes: 0,
            marks: None,
            looks: 0,
            looks_max: LOOKS_MIN * LOOKS_EACH,
        }
    }

    pub(super) fn len(&self) -> u64 {
        self.spine.count()
    }

    /// An empty tree with leaves of the same size.
    pub(super) fn fresh(&self) -> Tree {
        Tree::new(self.cells_max)
    }

    pub(super) fn object_bytes(&self) -> u64 {
        self.object_bytes
    }

    /// Bytes that are not in the log.
    pub(super) fn spine_bytes(&self) -> usize {
        self.spine.bytes() + self.marks.as_ref().map_or(0, |marks| marks.bytes())
    }

    /// The first cell that is not before the point, or the place behind the last cell of its leaf; `None` in an empty
    /// tree.
    fn seek(&self, sight: ReadCtx<'_>, probe: &Probe<'_>) -> Option<TreePos> {
        let (leaf, _) = self.seek_leaf(sight, probe)?;
        let cells = sight.cells(self.spine.leaf_ref(leaf));
        Some(TreePos { leaf, at: seek_cell(sight, cells, probe).0 })
    }

    /// The leaf of a point, and how many leaves had to be looked into to find it.
    #[inline]
    fn seek_leaf(&self, sight: ReadCtx<'_>, probe: &Probe<'_>) -> Option<(Leaf, u32)> {
        let mut looks = 0;
        let marks = self.marks.as_deref().zip(probe.member()).map(|(marks, member)| (marks, marks.hint(member)));
        let leaf = self.spine.descend_by(
            |sep| probe.by_sep(sep),
            marks.map(|(marks, hint)| move |leaf| marks.compare(leaf, hint)),
            |leaf| {
                looks += 1;
                let (member, score) = sight.element(sight.first_of(self.spine.leaf_ref(leaf)));
                probe.is_behind_or_at(member, score)
            },
            |leaf| sight.log.prefetch(self.spine.leaf_ref(leaf)),
        )?;
        Some((leaf, looks))
    }

    /// Elements before the point.
    pub(super) fn position(&self, sight: ReadCtx<'_>, probe: &Probe<'_>) -> u64 {
        self.seek(sight, probe).map_or(0, |spot| self.rank(spot))
    }

    /// Elements before a cell.
    pub(super) fn rank(&self, spot: TreePos) -> u64 {
        self.spine.position_of(spot.leaf) + spot.at as u64
    }

    /// The cell of an element, whose key and member these are.
    pub(super) fn find(&self, sight: ReadCtx<'_>, key: u64, member: &[u8], r: Ref) -> TreePos {
        let (leaf, _) = self.seek_leaf(sight, &Probe::Element(key, member)).expect("a tree with an element has leaves");
        let cells = sight.cells(self.spine.leaf_ref(leaf));
        let at = cells.position(cells.place(key, member), r.bits()).expect("an element has a cell");
        TreePos { leaf, at }
    }

    /// Shows the elements from `position` on, upwards or downwards, `count` of them.
    pub(super) fn walk(&self, sight: ReadCtx<'_>, position: u64, rev: bool, count: u64, mut show: impl FnMut(Ref)) {
        let Some((mut leaf, at)) = self.spine.locate(position) else { return };
        let mut at = at as usize;
        let mut left = count;
        loop {
            let cells = sight.cells(self.spine.leaf_ref(leaf));
            let here = if rev { at + 1 } else { cells.len() - at }.min(usize::try_from(left).unwrap_or(usize::MAX));
            let cell = |n: usize| sight.log.recall(cells.bits(if rev { at - n } else { at + n }));
            for n in 0..here.min(AHEAD) {
                sight.log.prefetch(cell(n));
            }
            for n in 0..here {
                if n + AHEAD < here {
                    sight.log.prefetch(cell(n + AHEAD));
                }
                show(cell(n));
            }
            left -= here as u64;
            if left == 0 {
                return;
            }
            let Some(next) = (if rev { self.spine.prev(leaf) } else { self.spine.next(leaf) }) else { return };
            leaf = next;
            at = if rev { sight.cells(self.spine.leaf_ref(leaf)).len() - 1 } else { 0 };
        }
    }

    /// The elements at these places counted from an end, as far as they are in its leaf or the one beside it.
    pub(super) fn at_end<const N: usize>(&self, sight: ReadCtx<'_>, rev: bool, places: [usize; N]) -> [Option<Ref>; N] {
        let Some(leaf) = (if rev { self.spine.last() } else { self.spine.first() }) else { return [None; N] };
        let cells = sight.cells(self.spine.leaf_ref(leaf));
        let of = |cells: Cells<'_>, n: usize| {
            let at = if rev { (cells.len() - 1).checked_sub(n) } else { (n < cells.len()).then_some(n) };
            at.map(|at| sight.log.recall(cells.bits(at)))
        };
        places.map(|n| {
            of(cells, n).or_else(|| {
                let beside = (if rev { self.spine.prev(leaf) } else { self.spine.next(leaf) })?;
                of(sight.cells(self.spine.leaf_ref(beside)), n - cells.len())
            })
        })
    }

    /// Puts the elements at the positions `from..to` that lie in one leaf with the first of them, or with the last if `rev`,
    /// into `refs`; gives the place of the first.
    pub(super) fn run(
        &self,
        sight: ReadCtx<'_>,
        (from, to): (u64, u64),
        rev: bool,
        refs: &mut SmallVec<[Ref; CELLS_MAX]>,
    ) -> TreePos {
        let (leaf, at) = self.spine.locate(if rev { to - 1 } else { from }).expect("positions of the tree");
        let cells = sight.cells(self.spine.leaf_ref(leaf));
        let (at, count) = (at as usize, usize::try_from(to - from).unwrap_or(usize::MAX));
        let (at, end) = if rev {
            ((at + 1).saturating_sub(count), at + 1)
        } else {
            (at, (at.saturating_add(count)).min(cells.len()))
        };
        refs.clear();
        for at in at..end {
            refs.push(sight.log.recall(cells.bits(at)));
        }
        TreePos { leaf, at }
    }

    /// Adds the cell of an element that is not there yet.
    pub(super) fn insert(&mut self, hands: &mut WriteCtx<'_>, key: u64, member: &[u8], r: Ref) {
        let (sight, probe) = (ReadCtx::of(hands), Probe::Element(key, member));
        let Some((leaf, looks)) = self.seek_leaf(sight, &probe) else {
            let mut bytes = [0; BYTES_MAX];
            let bytes = leaf::build(&mut bytes, &[Item::new(key, r.bits(), 0)], &[Source::KEYS], sight);
            let WriteCtx { log, access, appender, slot, .. } = hands;
            self.add_leaf(ReadCtx { log, access }, (appender, *slot), None, bytes, key);
            return;
        };
        let cells = sight.cells(self.spine.leaf_ref(leaf));
        let (at, place) = seek_cell(sight, cells, &probe);
        if cells.len() == self.cells_max {
            self.make_way(hands, TreePos { leaf, at });
            return self.insert(hands, key, member, r);
        }
        match place {
            PrefixPos::At(prefix) => self.put(hands, TreePos { leaf, at }, prefix, r),
            _ => self.stretch(hands, TreePos { leaf, at }, key, r),
        }
        if at == 0 && self.spine.first() == Some(leaf) {
            // Of the first leaf only the least key may have become too great, and the mark.
            self.spine.set_sep(leaf, key.min(self.spine.sep(leaf)));
            self.marks.iter_mut().for_each(|marks| marks.set_first(leaf));
        }
        self.looks = self.looks.saturating_add(looks * LOOKS_EACH).saturating_sub(1);
        if self.looks > self.looks_max {
            self.mark_all(ReadCtx::of(hands));
        }
    }

    /// Puts a cell into a leaf that is not full and has a prefix for it.
    fn put(&mut self, hands: &mut WriteCtx<'_>, TreePos { leaf, at }: TreePos, prefix: u64, r: Ref) {
        let mut object = hands.access.open_mut(hands.log, self.spine.leaf_ref(leaf));
        let len = object.value().len();
        if object.resize_value(len + CELL_BYTES) {
            leaf::insert(object.value_mut(), at, prefix, r.bits());
        } else {
            let mut bytes = [0; BYTES_MAX];
            let bytes = &mut bytes[..len + CELL_BYTES];
            bytes[..len].copy_from_slice(object.value());
            leaf::insert(bytes, at, prefix, r.bits());
            self.rewrite(hands, leaf, bytes, self.room_for(bytes));
        }
        self.spine.add(leaf, 1);
    }

    /// Builds a leaf that is not full anew with a cell for which it has no prefix.
    #[cold]
    fn stretch(&mut self, hands: &mut WriteCtx<'_>, TreePos { leaf, at }: TreePos, key: u64, r: Ref) {
        let sight = ReadCtx::of(hands);
        let cells = sight.cells(self.spine.leaf_ref(leaf));
        let mut items: SmallVec<[Item; CELLS_MAX]> = cells.items(0).collect();
        items.insert(at, Item::new(key, r.bits(), 1));
        let mut bytes = [0; BYTES_MAX];
        let bytes = leaf::build(&mut bytes, &items, &[cells.source(), Source::KEYS], sight);
        self.refill(hands, leaf, bytes);
    }

    /// Gives a cell another key and reference, if it stays where it is for sure; false if it may have to move.
    pub(super) fn update(&mut self, hands: &mut WriteCtx<'_>, spot: TreePos, key: u64, r: Ref) -> bool {
        let mut object = hands.access.open_mut(hands.log, self.spine.leaf_ref(spot.leaf));
        leaf::update(object.value_mut(), spot.at, key, r.bits())
    }

    /// The element of a cell has moved.
    pub(super) fn repoint(&mut self, hands: &mut WriteCtx<'_>, spot: TreePos, r: Ref) {
        let mut object = hands.access.open_mut(hands.log, self.spine.leaf_ref(spot.leaf));
        leaf::set_bits(object.value_mut(), spot.at, r.bits());
    }

    /// Removes the cells from `spot.at` on, `count` of them.
    pub(super) fn remove(&mut self, hands: &mut WriteCtx<'_>, spot: TreePos, count: usize) {
        let TreePos { leaf, at } = spot;
        let old = self.spine.leaf_ref(leaf);
        let mut object = hands.access.open_mut(hands.log, old);
        let (cells, left) = (Cells::open(object.value()).len(), object.value().len() - count * CELL_BYTES);
        if cells == count {
            self.object_bytes -= object.read().bytes() as u64;
            self.spine.remove(leaf);
            return hands.access.kill(hands.log, old);
        }
        leaf::remove(object.value_mut(), at, at + count);
        if !object.resize_value(left) {
            let mut bytes = [0; BYTES_MAX];
            let bytes = &mut bytes[..left];
            bytes.copy_from_slice(&object.value()[..left]);
            // It has become less than half full: with the room of a full one it would be written anew at each removal.
            self.rewrite(hands, leaf, bytes, self.spare_room(bytes));
        }
        let left = cells - count;
        self.spine.add(leaf, -(count as i64));
        let part = (self.cells_max / JOIN_PARTS).max(1);
        if left < self.cells_max / 2 && left / part != (left + count) / part {
            self.join(hands, leaf, left);
        }
    }

    /// Moves a leaf that reclaim has come to; false if it is not of this tree.
    pub(super) fn relocate(&mut self, hands: &mut WriteCtx<'_>, head: &ObjectHead<'_>) -> bool {
        let Ok(number) = head.key.try_into().map(u32::from_le_bytes) else { return false };
        let Some(leaf) = self.spine.leaf(number).filter(|&leaf| self.spine.leaf_ref(leaf) == head.r) else {
            return false;
        };
        self.object_bytes -= head.bytes as u64;
        self.spine.set_ref(leaf, hands.relocate(head.r));
        self.object_bytes += self.bytes_of(ReadCtx::of(hands), leaf);
        true
    }

    /// Kills up to `objects` leaves, from the end; gives how many it killed.
    pub(super) fn fell(&mut self, hands: &mut WriteCtx<'_>, objects: usize) -> usize {
        for killed in 0..objects {
            let Some(leaf) = self.spine.last() else { return killed };
            self.object_bytes -= self.bytes_of(ReadCtx::of(hands), leaf);
            let r = self.spine.remove(leaf);
            hands.access.kill(hands.log, r);
        }
        objects
    }

    /// Gives back some of the spine and the marks; true when nothing is left of them.
    pub(super) fn shed_step(&mut self) -> bool {
        self.spine.shed_step() & self.marks.as_mut().is_none_or(|marks| marks.shed())
    }

    /// Adds a leaf at the end, of elements in order behind all that are there: `refs` of the same shard.
    pub(super) fn push_leaf(&mut self, sight: ReadCtx<'_>, appender: &mut Appender, slot: u32, refs: &[Ref]) {
        let Some(first) = refs.first() else { return };
        let items: SmallVec<[Item; CELLS_MAX]> = refs.iter().map(|r| Item::new(0, r.bits(), 0)).collect();
        let mut bytes = [0; BYTES_MAX];
        let bytes = leaf::build(&mut bytes, &items, &[Source::REFS], sight);
        self.add_leaf(sight, (appender, slot), self.spine.last(), bytes, sight.key(first.bits()));
    }

    /// Cells of a leaf that is filled at once.
    pub(super) fn cells_at_once(&self) -> usize {
        self.cells_max - self.cells_max / 16
    }

    fn bytes_of(&self, sight: ReadCtx<'_>, leaf: Leaf) -> u64 {
        sight.access.open(sight.log, self.spine.leaf_ref(leaf)).bytes() as u64
    }

    /// Bytes that a leaf of these is given.
    fn room_for(&self, bytes: &[u8]) -> usize {
        let many = self.spine.leaves() >= LEAVES_MANY;
        if many { head_room(bytes) + self.cells_max * CELL_BYTES } else { self.spare_room(bytes) }
    }

    /// Bytes of a leaf with room for a quarter more cells than these are.
    fn spare_room(&self, bytes: &[u8]) -> usize {
        let cells = (bytes.len() - head_bytes(bytes)) / CELL_BYTES;
        head_room(bytes) + (cells + cells / 4 + 2).min(self.cells_max) * CELL_BYTES
    }

    /// Writes a leaf that is to follow `after`; its first element has the key `sep`.
    fn add_leaf(
        &mut self,
        sight: ReadCtx<'_>,
        (appender, slot): (&mut Appender, u32),
        after: Option<Leaf>,
        bytes: &[u8],
        sep: u64,
    ) -> Leaf {
        let pen = LeafWriter { log: sight.log, appender, slot };
        let r = pen.append(self.spine.upcoming().number(), bytes, self.room_for(bytes));
        let leaf = self.spine.insert_after(after, r, Cells::open(bytes).len() as u32, sep);
        self.object_bytes += self.bytes_of(sight, leaf);
        self.mark(sight, leaf);
        leaf
    }

    /// Marks a leaf with its first element, which has its least key.
    fn mark(&mut self, sight: ReadCtx<'_>, leaf: Leaf) {
        if let Some(marks) = &mut self.marks {
            marks.set(leaf, sight.element(sight.first_of(self.spine.leaf_ref(leaf))).0);
        }
    }

    /// Marks all leaves, if another stem than before is found. Of a tree that has become large without marks, as a copy
    /// does, none are made: going over all of its leaves would hold its shard for too long.
    #[cold]
    fn mark_all(&mut self, sight: ReadCtx<'_>) {
        if self.spine.leaves() > MARKED_MAX {
            self.looks_max = self.looks_max.saturating_mul(2);
            return;
        }
        let (few, ends) = (self.spine.leaves() < LEAVES_FEW, [self.spine.first(), self.spine.last()]);
        let mut common: Option<CommonPrefix> = None;
        self.each_first(sight, |leaf, member, _| {
            if few || !ends.contains(&Some(leaf)) {
                common = Some(
                    common.map_or_else(|| CommonPrefix::of(member), |stem| CommonPrefix::common(stem.get(), member)),
                );
            }
        });
        let Some(stem) = common else { return };
        if self.marks.as_ref().is_some_and(|marks| *marks.stem() == stem) {
            self.looks_max = self.looks_max.saturating_mul(2);
            return;
        }
        let (mut marks, mut moved) = (LeafFingerprints::new(stem), Vec::new());
        self.each_first(sight, |leaf, member, key| {
            if ends[0] == Some(leaf) {
                return marks.set_first(leaf);
            }
            marks.set(leaf, member);
            // A mark is of the same element as the least key.
            if key != self.spine.sep(leaf) {
                moved.push((leaf, key));
            }
        });
        moved.iter().for_each(|&(leaf, key)| self.spine.set_sep(leaf, key));
        self.marks = Some(Box::new(marks));
        self.looks = 0;
        self.looks_max = (LOOKS_MIN + self.spine.leaves() as u32 * LOOKS_EACH) * LOOKS_EACH;
    }

    /// Shows the first element of each leaf: member and key.
    fn each_first(&self, sight: ReadCtx<'_>, mut show: impl FnMut(Leaf, &[u8], u64)) {
        let mut next = self.spine.first();
        while let Some(leaf) = next {
            let leaves = std::iter::successors(Some(leaf), |&leaf| self.spine.next(leaf)).take(FIRSTS);
            let leaves: SmallVec<[Leaf; FIRSTS]> = leaves.collect();
            let places = leaves.iter().map(|&leaf| self.spine.leaf_ref(leaf));
            places.clone().for_each(|place| sight.log.prefetch(place));
            places.clone().for_each(|place| sight.log.prefetch(sight.first_of(place)));
            for (&leaf, place) in leaves.iter().zip(places) {
                let (member, score) = sight.element(sight.first_of(place));
                show(leaf, member, order_key(score));
            }
            next = self.spine.next(*leaves.last().expect("there is one"));
        }
    }

    /// Writes the object of a leaf anew, with so much room.
    #[cold]
    fn rewrite(&mut self, hands: &mut WriteCtx<'_>, leaf: Leaf, bytes: &[u8], room: usize) {
        let old = self.spine.leaf_ref(leaf);
        self.object_bytes -= self.bytes_of(ReadCtx::of(hands), leaf);
        let r = LeafWriter::of(hands).append(leaf.number(), bytes, room);
        self.spine.set_ref(leaf, r);
        self.object_bytes += self.bytes_of(ReadCtx::of(hands), leaf);
        hands.access.kill(hands.log, old);
    }

    /// Makes room in a full leaf, around it or beside it.
    #[cold]
    fn make_way(&mut self, hands: &mut WriteCtx<'_>, spot: TreePos) {
        let TreePos { leaf, at } = spot;
        let full = self.cells_max;
        let few = (full / 16).max(1);
        if at == full && self.spine.next(leaf).is_none() {
            return self.deal(hands, &[leaf], &[full - few, few]);
        }
        if at == 0 && self.spine.prev(leaf).is_none() {
            return self.deal(hands, &[leaf], &[few, full - few]);
        }
        let leaves = self.window(leaf);
        let cells: usize = leaves.iter().map(|&leaf| self.spine.count_of(leaf) as usize).sum();
        let enough = leaves.len() * (full - (full / SPARE).max(1));
        let into = leaves.len() + usize::from(cells > enough);
        let counts: SmallVec<[usize; WINDOW + 1]> =
            (0..into).map(|n| cells / into + usize::from(n < cells % into)).collect();
        self.deal(hands, &leaves, &counts);
    }

    /// A leaf and its neighbours, in order.
    fn window(&self, leaf: Leaf) -> SmallVec<[Leaf; WINDOW]> {
        let mut first = leaf;
        let mut leaves = SmallVec::new();
        let before = std::iter::successors(Some(leaf), |&leaf| self.spine.prev(leaf)).take(WINDOW);
        let behind = std::iter::successors(self.spine.next(leaf), |&leaf| self.spine.next(leaf)).take(WINDOW / 2);
        let wanted = WINDOW - behind.count();
        before.take(wanted).for_each(|leaf| first = leaf);
        leaves.extend(std::iter::successors(Some(first), |&leaf| self.spine.next(leaf)).take(WINDOW));
        leaves
    }

    /// Joins a leaf of few cells with a neighbour, if one has few enough.
    #[cold]
    fn join(&mut self, hands: &mut WriteCtx<'_>, leaf: Leaf, cells: usize) {
        let most = self.cells_max - self.cells_max / 8;
        for (first, second) in [(Some(leaf), self.spine.next(leaf)), (self.spine.prev(leaf), Some(leaf))] {
            let (Some(first), Some(second)) = (first, second) else { continue };
            let other = if first == leaf { second } else { first };
            let both = cells + self.spine.count_of(other) as usize;
            if both <= most {
                return self.deal(hands, &[first, second], &[both]);
            }
        }
    }

    /// Deals the cells of neighbouring leaves out anew: `counts` for each leaf, more of them than leaves for new ones behind
    /// the last, fewer to remove the last ones.
    fn deal(&mut self, hands: &mut WriteCtx<'_>, leaves: &[Leaf], counts: &[usize]) {
        let mut items: SmallVec<[Item; ITEMS_MAX]> = SmallVec::new();
        let mut sources: SmallVec<[Source; WINDOW]> = SmallVec::new();
        for (n, &leaf) in leaves.iter().enumerate() {
            let cells = ReadCtx::of(hands).cells(self.spine.leaf_ref(leaf));
            items.extend(cells.items(n));
            sources.push(cells.source());
        }
        assert_eq!(items.len(), counts.iter().sum::<usize>(), "every cell is dealt out once");
        for &leaf in leaves.iter().skip(counts.len()) {
            self.object_bytes -= self.bytes_of(ReadCtx::of(hands), leaf);
            let r = self.spine.remove(leaf);
            hands.access.kill(hands.log, r);
        }
        let mut buffer = [0; BYTES_MAX];
        let (mut rest, mut last) = (&items[..], leaves[0]);
        for (n, &count) in counts.iter().enumerate() {
            let (mine, others) = rest.split_at(count);
            rest = others;
            let sight = ReadCtx::of(hands);
            let bytes = leaf::build(&mut buffer, mine, &sources, sight);
            let sep = sight.key(mine[0].bits());
            match leaves.get(n) {
                Some(&leaf) => {
                    self.refill(hands, leaf, bytes);
                    last = leaf;
                    // What is before the first one stays, and so do its least key and its mark.
                    if n > 0 {
                        self.spine.set_sep(leaf, sep);
                        self.mark(ReadCtx::of(hands), leaf);
                    }
                }
                None => {
                    let WriteCtx { log, access, appender, slot, .. } = hands;
                    last = self.add_leaf(ReadCtx { log, access }, (appender, *slot), Some(last), bytes, sep);
                }
            }
        }
    }

    /// Gives a leaf other cells.
    fn refill(&mut self, hands: &mut WriteCtx<'_>, leaf: Leaf, bytes: &[u8]) {
        if !hands.access.open_mut(hands.log, self.spine.leaf_ref(leaf)).set_value(bytes) {
            self.rewrite(hands, leaf, bytes, self.room_for(bytes));
        }
        self.spine.add(leaf, Cells::open(bytes).len() as i64 - self.spine.count_of(leaf) as i64);
    }

    /// Checks order, prefixes, least keys, counts and bytes; shows every element and every leaf. O(N).
    pub(super) fn verify(
        &self,
        sight: ReadCtx<'_>,
        slot: u32,
        mut element: impl FnMut(Ref),
        mut live: impl FnMut(Ref),
    ) {
        self.spine.verify();
        let (mut bytes, mut last) = (0, None);
        for leaf in std::iter::successors(self.spine.first(), |&leaf| self.spine.next(leaf)) {
            let r = self.spine.leaf_ref(leaf);
            let object = sight.access.open(sight.log, r);
            assert_eq!((object.kind(), object.owner()), (kinds::NODE, Owner::Collection(slot)), "a leaf");
            assert_eq!(object.key(), leaf.number().to_le_bytes(), "a leaf carries its number");
            let cells = sight.cells(r);
            assert_eq!(cells.len() as u64, self.spine.count_of(leaf), "cells of a leaf");
            assert!((1..=self.cells_max).contains(&cells.len()), "a leaf of {} cells", cells.len());
            let sep = self.spine.sep(leaf);
            assert!(last.is_none_or(|(key, _)| key <= sep), "a least key under what is before the leaf");
            for at in 0..cells.len() {
                let r = sight.log.recall(cells.bits(at));
                let (member, score) = sight.element(r);
                let key = order_key(score);
                assert!(sep <= key, "a least key over what is in the leaf");
                assert!(last.is_none_or(|before| before < (key, member)), "elements in order");
                assert_eq!(
                    cells.place(key, member),
                    PrefixPos::At(cells.prefix(at)),
                    "a prefix is its key's, or its hint"
                );
                if at == 0 || at + 1 == cells.len() {
                    let found = self.seek_leaf(sight, &Probe::Element(key, member));
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

    /// Whether there are marks.
    #[cfg(test)]
    pub(super) fn is_marked(&self) -> bool {
        self.marks.is_some()
    }

    /// Leaves while the tree is felled.
    pub(super) fn leaves(&self) -> impl Iterator<Item = Ref> {
        std::iter::successors(self.spine.first(), |&leaf| self.spine.next(leaf)).map(|leaf| self.spine.leaf_ref(leaf))
    }
}

/// The first cell of a leaf that is not before the point, and where that is by the prefixes.
fn seek_cell(sight: ReadCtx<'_>, cells: Cells<'_>, probe: &Probe<'_>) -> (usize, PrefixPos) {
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
            sight.log.prefetch(sight.log.recall(cells.bits(before + (middle - before) / 2)));
        }
        if middle + 1 < end {
            sight.log.prefetch(sight.log.recall(cells.bits(middle + 1 + (end - middle - 1) / 2)));
        }
        let (member, score) = sight.element(sight.log.recall(cells.bits(middle)));
        if probe.is_behind(member, score) { before = middle + 1 } else { end = middle }
    }
    (before, place)
}
