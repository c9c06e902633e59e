//! The order of a sorted set's leaves: least keys and counts in a counted tree, and where a point lies in it.
//!
//! ```text
//!   tree     least keys, counts; fingerprints                      (ordinary memory)
//!     |
//!   leaf      scores, tags, members in order: see `leaf`           (objects of the log, up to 4 KB)
//! ```
//! A least key of the tree is a lower bound: nothing in the leaf has a lesser key, nothing in the leaf before a greater
//! one. It does not follow when a leaf loses its first member. A search goes down by key; leaves are read only where least
//! keys are equal. Where many leaves have one key, insertions have to look into them; when that has happened too often for
//! the insertions that there were, the leaves get fingerprints, or the fingerprints another common prefix (`fingerprints`).
//!
//! Not here: what is written to leaves (`reshape`), the members' index (`SortedSet` has both), and what a range means.

use std::cmp::Ordering;

use smallvec::SmallVec;
use varve_base::Ref;
use varve_packed::leaf::LeafElement;

use super::fingerprints::{CommonPrefix, LeafFingerprints};
use super::leaf::ScoredLeaf;
use super::scores::in_order;
use crate::ReadCtx;
use crate::counted_tree::{CountedTree, Leaf};

/// One insertion in this number may look into a leaf in vain.
const LOOKS_EACH: u32 = 4;
/// Fingerprints are made, or made anew, after this number of looks beyond that, and as many more for each leaf.
const LOOKS_MIN: u32 = 64;
/// Leaves that are fingerprinted in one go at most: a third of a millisecond. Fingerprints that were made before follow any
/// growth.
const FINGERPRINTED_MAX: usize = 4096;
/// Leaves of which all are asked for the common prefix of the fingerprints; of more, all but the outermost.
const LEAVES_FEW: usize = 8;
/// Leaves whose first members are fetched together.
const FIRSTS: usize = 32;

impl<'a> ReadCtx<'a> {
    /// The leaf whose object is at `r`.
    #[inline(always)]
    pub(super) fn scored_leaf(self, r: Ref) -> ScoredLeaf<'a> {
        ScoredLeaf::open(self.access.open(self.log, r).value())
    }

    /// The bytes of a member.
    #[inline(always)]
    pub(super) fn member(self, element: LeafElement<'a>) -> &'a [u8] {
        match element {
            LeafElement::Here(bytes) => bytes,
            LeafElement::Elsewhere(number) => self.access.open(self.log, self.log.recall(number)).key(),
        }
    }
}

/// A point between members.
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

    /// Where a leaf of this least key begins: before the point, behind it, or only its first member can tell.
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

    /// Does a leaf with this first key and member begin before the point, or with the member that the point is before?
    #[inline]
    fn is_behind_or_at(&self, key: u64, member: &[u8]) -> bool {
        match *self {
            Probe::Key(wanted) => key < wanted,
            Probe::PastKey(wanted) => key <= wanted,
            Probe::Element(wanted, other) => (key, member) <= (wanted, other),
            Probe::Member(other) => member < other,
            Probe::PastMember(other) => member <= other,
        }
    }

    /// The index of the first member of a leaf that is not before the point.
    #[inline]
    fn index_in(&self, reader: ReadCtx<'_>, leaf: ScoredLeaf<'_>) -> usize {
        let (from, to) = match *self {
            Probe::Key(key) => return leaf.below(key, false),
            Probe::PastKey(key) => return leaf.below(key, true),
            Probe::Element(key, _) => leaf.run_of(key),
            Probe::Member(_) | Probe::PastMember(_) => (0, leaf.len()),
        };
        leaf.partition(from, to, |element| match *self {
            Probe::PastMember(other) => reader.member(element) <= other,
            Probe::Element(_, other) | Probe::Member(other) => reader.member(element) < other,
            Probe::Key(_) | Probe::PastKey(_) => false,
        })
    }
}

/// The place of a member, or between two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TreePos {
    pub(super) leaf: Leaf,
    pub(super) index: usize,
}

/// See the head of the file.
pub(super) struct Tree {
    pub(super) counted: CountedTree,
    fingerprints: Option<Box<LeafFingerprints>>,
    /// Leaves that insertions have looked into, [`LOOKS_EACH`] for one, less one for each insertion.
    looks: u32,
    /// From this number of looks on, fingerprints are to be made.
    looks_max: u32,
}

impl Tree {
    /// A tree without leaves.
    pub(super) fn new() -> Tree {
        Tree { counted: CountedTree::keyed(), fingerprints: None, looks: 0, looks_max: LOOKS_MIN * LOOKS_EACH }
    }

    /// Number of members in all leaves.
    #[inline]
    pub(super) fn len(&self) -> u64 {
        self.counted.count()
    }

    /// Bytes of tree and fingerprints.
    pub(super) fn bytes(&self) -> usize {
        self.counted.bytes() + self.fingerprints.as_ref().map_or(0, |fingerprints| fingerprints.bytes())
    }

    /// The leaf of a number, opened.
    #[inline(always)]
    pub(super) fn open<'a>(&self, reader: ReadCtx<'a>, leaf: Leaf) -> ScoredLeaf<'a> {
        let opened = reader.scored_leaf(self.counted.leaf_ref(leaf));
        debug_assert_eq!(opened.len() as u64, self.counted.count_of(leaf), "the tree counts the members");
        opened
    }

    /// The first place that is not before the point, or that behind the last member of its leaf; `None` in an empty tree.
    #[inline]
    pub(super) fn seek(&self, reader: ReadCtx<'_>, probe: &Probe<'_>) -> Option<TreePos> {
        let (leaf, _) = self.seek_leaf(reader, probe)?;
        Some(TreePos { leaf, index: probe.index_in(reader, self.open(reader, leaf)) })
    }

    /// Does [`Tree::seek`] for a member that is going to be added, and counts the looks.
    #[inline]
    pub(super) fn seek_new(&mut self, reader: ReadCtx<'_>, probe: &Probe<'_>) -> Option<TreePos> {
        let (leaf, looks) = self.seek_leaf(reader, probe)?;
        self.looks = self.looks.saturating_add(looks * LOOKS_EACH).saturating_sub(1);
        if self.looks > self.looks_max {
            // Least keys may rise, so that another leaf is the right one.
            self.set_all_fingerprints(reader);
            return self.seek(reader, probe);
        }
        Some(TreePos { leaf, index: probe.index_in(reader, self.open(reader, leaf)) })
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
                let (key, member) = self.first(reader, leaf);
                probe.is_behind_or_at(key, member)
            },
            |leaf| reader.log.prefetch(self.counted.leaf_ref(leaf)),
        )?;
        Some((leaf, looks))
    }

    /// Key and bytes of the first member of a leaf.
    pub(super) fn first<'a>(&self, reader: ReadCtx<'a>, leaf: Leaf) -> (u64, &'a [u8]) {
        let leaf = reader.scored_leaf(self.counted.leaf_ref(leaf));
        debug_assert!(leaf.len() > 0, "no leaf is empty");
        (in_order(leaf.key(0)), reader.member(leaf.element(0)))
    }

    /// Members before the point.
    pub(super) fn position(&self, reader: ReadCtx<'_>, probe: &Probe<'_>) -> u64 {
        self.seek(reader, probe).map_or(0, |pos| self.rank(pos))
    }

    /// Members before a place.
    pub(super) fn rank(&self, pos: TreePos) -> u64 {
        debug_assert!(pos.index as u64 <= self.counted.count_of(pos.leaf), "a place in this leaf");
        debug_assert!(self.counted.count() > 0, "a place in a set with members");
        self.counted.position_of(pos.leaf) + pos.index as u64
    }

    /// Notes that a leaf begins with its first member from now on: what is before it is before this member, and all that is
    /// in it is not.
    pub(super) fn begin(&mut self, reader: ReadCtx<'_>, leaf: Leaf) {
        let (key, member) = self.first(reader, leaf);
        self.counted.set_separator(leaf, key);
        self.fingerprints.iter_mut().for_each(|fingerprints| fingerprints.set(leaf, member));
    }

    /// Notes that a member of this key was put in front of all others in the first leaf, whose least key may be too great now,
    /// and its fingerprint.
    pub(super) fn begin_first(&mut self, leaf: Leaf, key: u64) {
        debug_assert_eq!(self.counted.first(), Some(leaf), "the first leaf");
        self.counted.set_separator(leaf, key.min(self.counted.separator(leaf)));
        self.fingerprints.iter_mut().for_each(|fingerprints| fingerprints.set_first(leaf));
    }

    /// Notes that a leaf begins where the one behind it began until now.
    pub(super) fn begin_as(&mut self, leaf: Leaf, behind: Leaf) {
        debug_assert_eq!(self.counted.next(leaf), Some(behind), "neighbours");
        self.counted.set_separator(leaf, self.counted.separator(behind));
        self.fingerprints.iter_mut().for_each(|fingerprints| fingerprints.copy(behind, leaf));
    }

    /// Fingerprints all leaves, if another common prefix than before is found. Of a tree that has become large without
    /// fingerprints, as a copy does, none are made: going over all of its leaves would hold its shard for too long.
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
            // A fingerprint is of the same member as the least key.
            if key != self.counted.separator(leaf) {
                moved.push((leaf, key));
            }
        });
        moved.iter().for_each(|&(leaf, key)| self.counted.set_separator(leaf, key));
        self.fingerprints = Some(Box::new(fingerprints));
        self.looks = 0;
        self.looks_max = (LOOKS_MIN + self.counted.leaves() as u32 * LOOKS_EACH) * LOOKS_EACH;
    }

    /// Shows the first member of each leaf: its bytes and its key.
    fn each_first(&self, reader: ReadCtx<'_>, mut show: impl FnMut(Leaf, &[u8], u64)) {
        let mut next = self.counted.first();
        while let Some(leaf) = next {
            let leaves = std::iter::successors(Some(leaf), |&leaf| self.counted.next(leaf)).take(FIRSTS);
            let leaves: SmallVec<[Leaf; FIRSTS]> = leaves.collect();
            leaves.iter().for_each(|&leaf| reader.log.prefetch(self.counted.leaf_ref(leaf)));
            for &leaf in &leaves {
                let (key, member) = self.first(reader, leaf);
                show(leaf, member, key);
            }
            next = self.counted.next(*leaves.last().expect("there is one"));
        }
    }

    /// All leaves in order.
    pub(super) fn leaves(&self) -> impl Iterator<Item = Leaf> {
        std::iter::successors(self.counted.first(), |&leaf| self.counted.next(leaf))
    }

    /// Gives back some of the tree and the fingerprints; true when nothing is left of them.
    pub(super) fn shrink_step(&mut self) -> bool {
        self.counted.shrink_step() & self.fingerprints.as_mut().is_none_or(|fingerprints| fingerprints.shrink())
    }

    /// Checks the order of all members, least keys and counts. O(N).
    pub(super) fn verify(&self, reader: ReadCtx<'_>) {
        self.counted.verify();
        let mut last: Option<(u64, &[u8])> = None;
        for leaf in self.leaves() {
            let opened = self.open(reader, leaf);
            opened.verify();
            assert!(opened.len() > 0, "no leaf is empty");
            let separator = self.counted.separator(leaf);
            assert!(last.is_none_or(|(key, _)| key <= separator), "a least key under what is before the leaf");
            for member in opened.members() {
                let (key, bytes) = (in_order(member.key), reader.member(member.element));
                assert!(separator <= key, "a least key over what is in the leaf");
                assert!(last.is_none_or(|before| before < (key, bytes)), "members in order");
                last = Some((key, bytes));
            }
            for index in [0, opened.len() - 1] {
                let (key, bytes) = (in_order(opened.key(index)), reader.member(opened.element(index)));
                let found = self.seek(reader, &Probe::Element(key, bytes));
                assert_eq!(found, Some(TreePos { leaf, index }), "a search ends where the member is");
            }
        }
    }

    /// Whether there are fingerprints.
    #[cfg(test)]
    pub(super) fn has_fingerprints(&self) -> bool {
        self.fingerprints.is_some()
    }
}
