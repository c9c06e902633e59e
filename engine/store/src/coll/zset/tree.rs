//! The order of a sorted set's elements: leaves of cells under a counted spine.
//!
//! ```text
//!   spine     least keys, counts          (ordinary memory)
//!     |
//!   leaf      cells: 16 bits of key, Ref  (objects of the log, up to 128 cells each)
//!     |
//!   element   member, score               (objects of the log, found by hash as well)
//! ```
//! A least key of the spine is a lower bound: nothing in the leaf has a lesser key, nothing in the leaf before a greater
//! one. It does not follow when a leaf loses its first cell. A search goes down by key; elements are read only where keys
//! (in the spine) or prefixes (in the leaf) are equal.
//!
//! Leaves are kept full, since their free room is memory too. One that overflows is dealt out with up to four
//! neighbours, evenly, and only when those are full as well a leaf is added: 5 full ones become 6. At either end of the
//! tree the leaf is cut near that end, so that members which come in order leave full leaves behind. A leaf that has
//! fallen below half joins a neighbour as soon as one has few enough, which is not looked at for each cell that goes.
//!
//! Not here: the members' index (`Ordered` has both), and what a range means.

use std::cmp::Ordering;

use smallvec::SmallVec;
use varve_base::Ref;
use varve_segment::{Access, Appender, Class, Form, Head, Kind, Log, NewObject, Owner, Value};

use super::leaf::{self, CELL_BYTES, CELLS_MAX, Cells, Item, Place, leaf_bytes};
use super::score::{order_key, read_score};
use crate::coll::Hands;
use crate::coll::spine::{Leaf, Spine};

/// Leaves that are dealt out together.
const WINDOW: usize = 5;
/// Cells that are dealt out at once: those of a window, rounded up to a size that `SmallVec` has.
const ITEMS_MAX: usize = 1024;
const _: () = assert!(WINDOW * CELLS_MAX <= ITEMS_MAX);
/// Of so many cells, one is left free in each leaf when a window is dealt out without another leaf.
const SPARE: usize = 32;
/// A leaf that loses cells looks for a neighbour to join once in so many parts of a full one, not at each of them.
const JOIN_PARTS: usize = 16;
/// From so many leaves on, leaves are made for as many cells as they may have; before, for a quarter more than they need.
const LEAVES_MANY: usize = 4;

/// Elements that are fetched ahead of a walk.
const AHEAD: usize = 8;

/// What opens a collection's objects to read them.
#[derive(Clone, Copy)]
pub(super) struct Sight<'a> {
    pub(super) log: &'a Log,
    pub(super) access: &'a Access,
}

impl<'a> Sight<'a> {
    #[inline]
    pub(super) fn of(hands: &'a Hands<'_>) -> Sight<'a> {
        Sight { log: hands.log, access: hands.access }
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
    fn key(self, bits: u64) -> u64 {
        order_key(self.element(self.log.recall(bits)).1)
    }
}

/// What writes leaves.
struct Pen<'a> {
    log: &'a Log,
    appender: &'a mut Appender,
    slot: u32,
}

impl<'a> Pen<'a> {
    fn of(hands: &'a mut Hands<'_>) -> Pen<'a> {
        Pen { log: hands.log, appender: hands.appender, slot: hands.slot }
    }

    fn append(self, number: u32, bytes: &[u8], room: usize) -> Ref {
        let new = NewObject {
            kind: Kind::Node,
            owner: Owner::Slot(self.slot),
            key: &number.to_le_bytes(),
            value: Value::Bytes(bytes),
            room,
            expiry_ms: None,
            clock: 0,
            form: Form::Auto,
            class: Class::Ordinary,
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
    /// The key that the point is at, if keys matter.
    #[inline]
    fn key(&self) -> Option<u64> {
        match *self {
            Probe::Key(key) | Probe::PastKey(key) | Probe::Element(key, _) => Some(key),
            Probe::Member(_) | Probe::PastMember(_) => None,
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
pub(super) struct Spot {
    pub(super) leaf: Leaf,
    pub(super) at: usize,
}

/// See the head of the file.
pub(super) struct Tree {
    spine: Spine,
    /// The most cells of a leaf.
    cells_max: usize,
    /// Bytes of the leaves' objects.
    object_bytes: u64,
}

impl Tree {
    /// An empty tree with leaves of at most so many cells.
    pub(super) fn new(cells_max: usize) -> Tree {
        assert!((2..=CELLS_MAX).contains(&cells_max), "{cells_max} cells a leaf");
        Tree { spine: Spine::keyed(), cells_max, object_bytes: 0 }
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
        self.spine.bytes()
    }

    /// The first cell that is not before the point, or the place behind the last cell of its leaf; `None` in an empty
    /// tree.
    fn seek(&self, sight: Sight<'_>, probe: &Probe<'_>) -> Option<Spot> {
        let leaf = self.seek_leaf(sight, probe)?;
        let cells = sight.cells(self.spine.leaf_ref(leaf));
        Some(Spot { leaf, at: seek_cell(sight, cells, probe) })
    }

    #[inline]
    fn seek_leaf(&self, sight: Sight<'_>, probe: &Probe<'_>) -> Option<Leaf> {
        self.spine.descend_by(
            |sep| probe.by_sep(sep),
            |leaf| {
                let first = sight.cells(self.spine.leaf_ref(leaf)).bits(0);
                let (member, score) = sight.element(sight.log.recall(first));
                probe.is_behind_or_at(member, score)
            },
            |leaf| sight.log.prefetch(self.spine.leaf_ref(leaf)),
        )
    }

    /// Elements before the point.
    pub(super) fn position(&self, sight: Sight<'_>, probe: &Probe<'_>) -> u64 {
        self.seek(sight, probe).map_or(0, |spot| self.rank(spot))
    }

    /// Elements before a cell.
    pub(super) fn rank(&self, spot: Spot) -> u64 {
        self.spine.position_of(spot.leaf) + spot.at as u64
    }

    /// The cell of an element, whose key and member these are.
    pub(super) fn find(&self, sight: Sight<'_>, key: u64, member: &[u8], r: Ref) -> Spot {
        let leaf = self.seek_leaf(sight, &Probe::Element(key, member)).expect("a tree with an element has leaves");
        let at = sight.cells(self.spine.leaf_ref(leaf)).position(r.bits()).expect("an element has a cell");
        Spot { leaf, at }
    }

    /// Shows the elements from `position` on, upwards or downwards, `count` of them.
    pub(super) fn walk(&self, sight: Sight<'_>, position: u64, rev: bool, count: u64, mut show: impl FnMut(Ref)) {
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

    /// Puts the elements at the positions `from..to` that lie in one leaf with the first of them, or with the last if `rev`,
    /// into `refs`; gives the place of the first.
    pub(super) fn run(
        &self,
        sight: Sight<'_>,
        (from, to): (u64, u64),
        rev: bool,
        refs: &mut SmallVec<[Ref; CELLS_MAX]>,
    ) -> Spot {
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
        Spot { leaf, at }
    }

    /// Adds the cell of an element that is not there yet.
    pub(super) fn insert(&mut self, hands: &mut Hands<'_>, key: u64, member: &[u8], r: Ref) {
        let Some(spot) = self.seek(Sight::of(hands), &Probe::Element(key, member)) else {
            let mut bytes = [0; leaf_bytes(1)];
            leaf::build_one(&mut bytes, key, r.bits());
            self.add_leaf(Pen::of(hands), None, &bytes, key);
            self.object_bytes += self.bytes_of(Sight::of(hands), self.spine.first().expect("just added"));
            return;
        };
        let old = self.spine.leaf_ref(spot.leaf);
        let cells = Sight::of(hands).cells(old).len();
        if cells == self.cells_max {
            self.make_way(hands, spot);
            return self.insert(hands, key, member, r);
        }
        let mut object = hands.access.open_mut(hands.log, old);
        if object.resize_value(leaf_bytes(cells + 1)) {
            leaf::insert(object.value_mut(), spot.at, key, r.bits());
        } else {
            let mut bytes = [0; leaf_bytes(CELLS_MAX)];
            let bytes = &mut bytes[..leaf_bytes(cells + 1)];
            bytes[..leaf_bytes(cells)].copy_from_slice(object.value());
            leaf::insert(bytes, spot.at, key, r.bits());
            self.rewrite(hands, spot.leaf, bytes, self.room_for(cells + 1));
        }
        self.spine.add(spot.leaf, 1);
        if spot.at == 0 && key < self.spine.sep(spot.leaf) {
            self.spine.set_sep(spot.leaf, key);
        }
    }

    /// Gives a cell another key and reference, if it stays where it is for sure; false if it may have to move.
    pub(super) fn update(&mut self, hands: &mut Hands<'_>, spot: Spot, key: u64, r: Ref) -> bool {
        let mut object = hands.access.open_mut(hands.log, self.spine.leaf_ref(spot.leaf));
        leaf::update(object.value_mut(), spot.at, key, r.bits())
    }

    /// The element of a cell has moved.
    pub(super) fn repoint(&mut self, hands: &mut Hands<'_>, spot: Spot, r: Ref) {
        let mut object = hands.access.open_mut(hands.log, self.spine.leaf_ref(spot.leaf));
        leaf::set_bits(object.value_mut(), spot.at, r.bits());
    }

    /// Removes the cells from `spot.at` on, `count` of them.
    pub(super) fn remove(&mut self, hands: &mut Hands<'_>, spot: Spot, count: usize) {
        let Spot { leaf, at } = spot;
        let old = self.spine.leaf_ref(leaf);
        let mut object = hands.access.open_mut(hands.log, old);
        let left = Cells::open(object.value()).len() - count;
        if left == 0 {
            self.object_bytes -= object.read().bytes() as u64;
            self.spine.remove(leaf);
            return hands.access.kill(hands.log, old);
        }
        leaf::remove(object.value_mut(), at, at + count);
        if !object.resize_value(leaf_bytes(left)) {
            let mut bytes = [0; leaf_bytes(CELLS_MAX)];
            let bytes = &mut bytes[..leaf_bytes(left)];
            bytes.copy_from_slice(&object.value()[..leaf_bytes(left)]);
            // It has become less than half full: with the room of a full one it would be written anew at each removal.
            self.rewrite(hands, leaf, bytes, self.spare_room(left));
        }
        self.spine.add(leaf, -(count as i64));
        let part = (self.cells_max / JOIN_PARTS).max(1);
        if left < self.cells_max / 2 && left / part != (left + count) / part {
            self.join(hands, leaf, left);
        }
    }

    /// Moves a leaf that reclaim has come to; false if it is not of this tree.
    pub(super) fn relocate(&mut self, hands: &mut Hands<'_>, head: &Head<'_>) -> bool {
        let Ok(number) = head.key.try_into().map(u32::from_le_bytes) else { return false };
        let Some(leaf) = self.spine.leaf(number).filter(|&leaf| self.spine.leaf_ref(leaf) == head.r) else {
            return false;
        };
        self.object_bytes -= head.bytes as u64;
        self.spine.set_ref(leaf, hands.relocate(head.r));
        self.object_bytes += self.bytes_of(Sight::of(hands), leaf);
        true
    }

    /// Kills up to `objects` leaves, from the end; gives how many it killed.
    pub(super) fn fell(&mut self, hands: &mut Hands<'_>, objects: usize) -> usize {
        for killed in 0..objects {
            let Some(leaf) = self.spine.last() else { return killed };
            self.object_bytes -= self.bytes_of(Sight::of(hands), leaf);
            let r = self.spine.remove(leaf);
            hands.access.kill(hands.log, r);
        }
        objects
    }

    /// Gives back some of the spine; true when nothing is left of it.
    pub(super) fn shed_step(&mut self) -> bool {
        self.spine.shed_step()
    }

    /// Adds a leaf at the end, of elements in order behind all that are there: `refs` of the same shard.
    pub(super) fn push_leaf(&mut self, sight: Sight<'_>, appender: &mut Appender, slot: u32, refs: &[Ref]) {
        let pen = Pen { log: sight.log, appender, slot };
        let Some(first) = refs.first() else { return };
        let items: SmallVec<[Item; CELLS_MAX]> = refs.iter().map(|r| Item::of_ref(r.bits())).collect();
        let mut bytes = [0; leaf_bytes(CELLS_MAX)];
        let bytes = &mut bytes[..leaf_bytes(items.len())];
        leaf::build(bytes, &items, |bits| sight.key(bits));
        let last = self.spine.last();
        let leaf = self.add_leaf(pen, last, bytes, sight.key(first.bits()));
        self.object_bytes += self.bytes_of(sight, leaf);
    }

    /// Cells of a leaf that is filled at once.
    pub(super) fn cells_at_once(&self) -> usize {
        self.cells_max - self.cells_max / 16
    }

    fn bytes_of(&self, sight: Sight<'_>, leaf: Leaf) -> u64 {
        sight.access.open(sight.log, self.spine.leaf_ref(leaf)).bytes() as u64
    }

    /// Bytes that a leaf of so many cells is given.
    fn room_for(&self, cells: usize) -> usize {
        let many = self.spine.leaves() >= LEAVES_MANY;
        if many { leaf_bytes(self.cells_max) } else { self.spare_room(cells) }
    }

    /// Bytes of a leaf with room for a quarter more than so many cells.
    fn spare_room(&self, cells: usize) -> usize {
        leaf_bytes((cells + cells / 4 + 2).min(self.cells_max))
    }

    /// Writes the object of a leaf that is to follow `after`. Its bytes are not counted yet.
    fn add_leaf(&mut self, pen: Pen<'_>, after: Option<Leaf>, bytes: &[u8], sep: u64) -> Leaf {
        let cells = (bytes.len() - leaf_bytes(0)) / CELL_BYTES;
        let r = pen.append(self.spine.upcoming().number(), bytes, self.room_for(cells));
        self.spine.insert_after(after, r, cells as u32, sep)
    }

    /// Writes the object of a leaf anew, with so much room.
    #[cold]
    fn rewrite(&mut self, hands: &mut Hands<'_>, leaf: Leaf, bytes: &[u8], room: usize) {
        let old = self.spine.leaf_ref(leaf);
        self.object_bytes -= self.bytes_of(Sight::of(hands), leaf);
        let r = Pen::of(hands).append(leaf.number(), bytes, room);
        self.spine.set_ref(leaf, r);
        self.object_bytes += self.bytes_of(Sight::of(hands), leaf);
        hands.access.kill(hands.log, old);
    }

    /// Makes room in a full leaf, around it or beside it.
    #[cold]
    fn make_way(&mut self, hands: &mut Hands<'_>, spot: Spot) {
        let Spot { leaf, at } = spot;
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
    fn join(&mut self, hands: &mut Hands<'_>, leaf: Leaf, cells: usize) {
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
    fn deal(&mut self, hands: &mut Hands<'_>, leaves: &[Leaf], counts: &[usize]) {
        let mut items: SmallVec<[Item; ITEMS_MAX]> = SmallVec::new();
        for &leaf in leaves {
            items.extend(Sight::of(hands).cells(self.spine.leaf_ref(leaf)).items());
        }
        assert_eq!(items.len(), counts.iter().sum::<usize>(), "every cell is dealt out once");
        for &leaf in leaves.iter().skip(counts.len()) {
            self.object_bytes -= self.bytes_of(Sight::of(hands), leaf);
            let r = self.spine.remove(leaf);
            hands.access.kill(hands.log, r);
        }
        let mut buffer = [0; leaf_bytes(CELLS_MAX)];
        let (mut rest, mut last) = (&items[..], leaves[0]);
        for (n, &count) in counts.iter().enumerate() {
            let (mine, others) = rest.split_at(count);
            rest = others;
            let bytes = &mut buffer[..leaf_bytes(count)];
            let sight = Sight::of(hands);
            leaf::build(bytes, mine, |bits| sight.key(bits));
            let sep = if n > 0 { sight.key(mine[0].bits) } else { self.spine.sep(last) };
            last = match leaves.get(n) {
                Some(&leaf) => {
                    self.refill(hands, leaf, bytes, count, sep);
                    leaf
                }
                None => {
                    let leaf = self.add_leaf(Pen::of(hands), Some(last), bytes, sep);
                    self.object_bytes += self.bytes_of(Sight::of(hands), leaf);
                    leaf
                }
            };
        }
    }

    /// Gives a leaf other cells.
    fn refill(&mut self, hands: &mut Hands<'_>, leaf: Leaf, bytes: &[u8], count: usize, sep: u64) {
        if !hands.access.open_mut(hands.log, self.spine.leaf_ref(leaf)).set_value(bytes) {
            self.rewrite(hands, leaf, bytes, self.room_for(count));
        }
        self.spine.add(leaf, count as i64 - self.spine.count_of(leaf) as i64);
        if self.spine.sep(leaf) != sep {
            self.spine.set_sep(leaf, sep);
        }
    }

    /// Checks order, prefixes, least keys, counts and bytes; shows every element and every leaf. O(N).
    pub(super) fn verify(&self, sight: Sight<'_>, slot: u32, mut element: impl FnMut(Ref), mut live: impl FnMut(Ref)) {
        self.spine.verify();
        let (mut bytes, mut last) = (0, None);
        for leaf in std::iter::successors(self.spine.first(), |&leaf| self.spine.next(leaf)) {
            let r = self.spine.leaf_ref(leaf);
            let object = sight.access.open(sight.log, r);
            assert_eq!((object.kind(), object.owner()), (Kind::Node, Owner::Slot(slot)), "a leaf");
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
                assert_eq!(cells.scale().place(key), Place::At(cells.prefix(at)), "a prefix is its key's");
                last = Some((key, member));
                element(r);
            }
            live(r);
            bytes += object.bytes() as u64;
        }
        assert_eq!(bytes, self.object_bytes, "bytes of the leaves");
    }

    /// Leaves while the tree is felled.
    pub(super) fn leaves(&self) -> impl Iterator<Item = Ref> {
        std::iter::successors(self.spine.first(), |&leaf| self.spine.next(leaf)).map(|leaf| self.spine.leaf_ref(leaf))
    }
}

/// The first cell of a leaf that is not before the point.
fn seek_cell(sight: Sight<'_>, cells: Cells<'_>, probe: &Probe<'_>) -> usize {
    let (mut before, mut end) = match probe.key() {
        None => (0, cells.len()),
        Some(key) => match cells.scale().place(key) {
            Place::Below => return 0,
            Place::Above => return cells.len(),
            Place::At(prefix) => cells.equal(prefix),
        },
    };
    if cells.scale().is_whole() {
        match probe {
            Probe::Key(_) => return before,
            Probe::PastKey(_) => return end,
            _ => {}
        }
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
    before
}
