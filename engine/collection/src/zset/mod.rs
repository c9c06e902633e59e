//! Sorted sets: members with scores, in the order of (score, member).
//!
//! ```text
//!   small     one leaf, in its key's object                   `small`, `leaf`
//!   big       SortedSet
//!             +-- tree     (score, member) -> leaf, counted     `tree`, `fingerprints`
//!             |             leaf: some dozens of members, packed `leaf`, `scores`; made and joined by `reshape`
//!             +-- index    hash of the member -> number of its leaf   `index`
//! ```
//! A member of 16 bytes with a whole score takes about 19 bytes in its leaf, which has 10% of free room, 11 in the index and
//! one in the tree. An object for each member, a cell for it in an index of objects and one in a tree took 14 bytes more.
//! A member over 1 KB has an object of its own, which its leaf names. Readers over several holds of the shard see the set as
//! it was when they began (`reading`). Long ranges are cut out in O(log n), and their leaves cleared in steps (`span`).
//!
//! Not here: keys, and when a small one becomes big (`tx::zsets`).

#[cfg(all(test, debug_assertions))]
mod contract_tests;
mod fingerprints;
mod index;
mod leaf;
mod reading;
mod reshape;
mod scores;
pub mod small;
mod span;
#[cfg(test)]
mod tests;
mod tree;
mod types;

use std::collections::HashSet;

use smallvec::SmallVec;
use varve_base::Ref;
use varve_base::hash::hash64;
use varve_base::mem::{Line, equal};
use varve_index::{IndexEntry, TableStats};
use varve_packed::leaf::LeafElement;
use varve_segment::{Appender, Log, NewObject, ObjectHead, ObjectKind, Owner};

use crate::counted_tree::{CountedTree, Leaf};
use crate::kinds;
use crate::leaf_table::{ELEMENT_MAX, LIMIT_MAX};
use crate::sequence_readers;
use crate::{CollectionId, ReadCtx, WriteCtx};
use index::MemberIndex;
use leaf::{LeafMember, ScoredLeaf};
use scores::{exact_key, in_order, order_key};
use tree::{Probe, Tree, TreePos};

pub use types::{LexBound, ScoreBound, ZAdd, ZAdded, ZRange, ZShown};

/// Most members of a leaf: more make the search of tags long, and a split.
const MEMBERS_MAX: usize = 128;
/// Clearing a leaf that was cut off takes as long as moving this number of buckets of the index: some 10 us.
const BUCKETS_A_LEAF: usize = 8;

/// Hashes of the members of a leaf, or of some of them.
type LeafHashes = SmallVec<[u64; MEMBERS_MAX]>;

/// A big sorted set.
pub struct SortedSet {
    index: MemberIndex,
    tree: Tree,
    /// Bytes of all objects, leaves and members of their own, that are in use: what the log counts as alive.
    object_bytes: u64,
    /// Most members of a leaf.
    members_max: usize,
    /// It dies: its leaves go first, and the index still has their members.
    freeing: bool,
    /// Those that are shown the set as it was; none nearly always.
    readers: sequence_readers::Readers,
}

/// A member that was found.
#[derive(Clone, Copy, Debug)]
struct Found<'a> {
    entry: IndexEntry,
    pos: TreePos,
    /// Its leaf, opened.
    leaf: ScoredLeaf<'a>,
}

impl Found<'_> {
    #[inline]
    fn score(&self) -> f64 {
        self.leaf.score(self.pos.index)
    }

    /// Whether the member stays where it is with the score of another key: it is before the next one, and behind the one
    /// before it.
    #[inline]
    fn stays(&self, key: u64) -> bool {
        let at = self.pos.index;
        at > 0 && at + 1 < self.leaf.len() && self.leaf.stays(at, key)
    }

    /// The number of the member's object, if it has one.
    fn own_number(&self) -> Option<u64> {
        match self.leaf.element(self.pos.index) {
            LeafElement::Here(_) => None,
            LeafElement::Elsewhere(number) => Some(number),
        }
    }
}

/// The effect of an addition on a member that is there.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Verdict {
    /// It gets this score, another than it had.
    Put(f64),
    /// Nothing.
    Leave(ZAdded),
}

/// Decides by the conditions of an addition what becomes of a member with score `old`.
pub fn judge(old: f64, score: f64, how: ZAdd) -> Verdict {
    if how.nx {
        return Verdict::Leave(ZAdded::Refused);
    }
    let new = if how.incr { old + score } else { score };
    if new.is_nan() {
        return Verdict::Leave(ZAdded::NotANumber);
    }
    if how.lt && new >= old || how.gt && new <= old {
        return Verdict::Leave(ZAdded::Refused);
    }
    if new == old { Verdict::Leave(ZAdded::Same(new)) } else { Verdict::Put(new) }
}

/// The positions of a range by rank, counted from the low end: from the first to behind the last.
pub(crate) fn rank_span(start: u64, stop: u64, len: u64, rev: bool) -> (u64, u64) {
    let end = stop.saturating_add(1).min(len);
    if start >= end {
        return (0, 0);
    }
    if rev { (len - end, len - start) } else { (start, end) }
}

/// The tag of a hash in a leaf.
#[inline(always)]
fn leaf_tag(hash: u64) -> u8 {
    hash as u8
}

impl SortedSet {
    /// An empty sorted set for the collection with this number, which is about to get `expected` members.
    pub fn new(id: CollectionId, expected: usize) -> SortedSet {
        SortedSet::with_leaves(id, expected, MEMBERS_MAX)
    }

    /// An empty set with leaves of at most `members_max` members.
    fn with_leaves(id: CollectionId, expected: usize, members_max: usize) -> SortedSet {
        assert!((2..=MEMBERS_MAX).contains(&members_max), "{members_max} members a leaf");
        SortedSet {
            index: MemberIndex::new(id, expected),
            tree: Tree::new(),
            object_bytes: 0,
            members_max,
            freeing: false,
            readers: None,
        }
    }

    /// A set of the members that `fill` pushes, about `expected` of them, in order and none twice.
    pub fn build(ctx: &mut WriteCtx<'_>, expected: usize, fill: impl FnOnce(&mut dyn FnMut(&[u8], f64))) -> SortedSet {
        let mut set = SortedSet::new(ctx.id, expected);
        fill(&mut |member, score| set.insert(ctx, member, score));
        set
    }

    /// Number of members.
    #[inline]
    #[allow(clippy::len_without_is_empty, reason = "an empty collection is no key")]
    pub fn len(&self) -> usize {
        self.tree.len() as usize
    }

    /// Figures of the members' index.
    pub fn table_stats(&self) -> TableStats {
        self.index.stats()
    }

    /// Bytes of leaves, long members, index and tree. O(1).
    pub fn memory(&self) -> usize {
        self.object_bytes as usize + self.table_bytes()
    }

    /// Live bytes of its objects in the log. O(1).
    pub fn object_bytes(&self) -> u64 {
        self.object_bytes
    }

    /// Bytes of index and tree, of what readers have, and of this itself, which is not among the roots. O(1).
    pub fn table_bytes(&self) -> usize {
        let readers = self.readers.as_ref().map_or(0, |readers| readers.bytes());
        size_of::<SortedSet>() + self.index.bytes() + self.tree.bytes() + readers
    }

    /// Where the bucket of a hash is.
    #[inline]
    pub fn cell_line(&self, hash: u64) -> Line {
        self.index.line(hash)
    }

    /// Where the leaf begins that a member with this hash may be in.
    #[inline]
    pub fn leaf_line(&self, log: &Log, hash: u64) -> Option<Line> {
        let mut line = None;
        self.index.find(hash, |number| {
            line = self.tree.counted.leaf(number).map(|leaf| log.line(self.tree.counted.leaf_ref(leaf)));
            true
        });
        line
    }

    /// Finds the member with these bytes and this hash.
    #[inline]
    fn find<'a>(&self, reader: ReadCtx<'a>, hash: u64, member: &[u8]) -> Option<Found<'a>> {
        self.find_element(reader, hash, |element| match element {
            LeafElement::Here(bytes) => equal(bytes, member),
            LeafElement::Elsewhere(_) => reader.member(element) == member,
        })
    }

    /// Finds the member with this hash that `is` says yes to.
    #[inline(always)]
    fn find_element<'a>(
        &self,
        reader: ReadCtx<'a>,
        hash: u64,
        mut is: impl FnMut(LeafElement<'a>) -> bool,
    ) -> Option<Found<'a>> {
        let mut found = None;
        let entry = self.index.find(hash, |number| {
            // A set that dies has cells of leaves that are gone, and any set those of leaves that were cut off.
            let Some(leaf) = self.tree.counted.leaf(number) else { return false };
            if self.tree.counted.is_detached(leaf) {
                return false;
            }
            let opened = self.tree.open(reader, leaf);
            found = opened.find(leaf_tag(hash), &mut is).map(|index| (TreePos { leaf, index }, opened));
            found.is_some()
        })?;
        found.map(|(pos, leaf)| Found { entry, pos, leaf })
    }

    /// A member's score.
    #[inline]
    pub fn score(&self, reader: ReadCtx<'_>, member: &[u8]) -> Option<f64> {
        self.find(reader, hash64(reader.seed, member), member).map(|found| found.score())
    }

    /// Adds a member that is not there.
    fn insert(&mut self, ctx: &mut WriteCtx<'_>, member: &[u8], score: f64) {
        let hash = hash64(ctx.seed, member);
        debug_assert!(self.find(ctx.read(), hash, member).is_none(), "a member is there once");
        let element = if member.len() <= ELEMENT_MAX {
            LeafElement::Here(member)
        } else {
            LeafElement::Elsewhere(self.write_own(ctx, member))
        };
        let new = LeafMember { key: exact_key(score), tag: leaf_tag(hash), element };
        let leaf = self.put(ctx, new, member);
        self.index.insert(hash, leaf);
    }

    /// Adds a member or changes its score, under conditions.
    pub fn add(&mut self, ctx: &mut WriteCtx<'_>, member: &[u8], score: f64, how: ZAdd) -> ZAdded {
        debug_assert!(!score.is_nan(), "no score is NaN");
        debug_assert!(!self.freeing, "a set that dies is not changed");
        let hash = hash64(ctx.seed, member);
        let Some(found) = self.find(ctx.read(), hash, member) else {
            if how.xx {
                return ZAdded::Refused;
            }
            self.insert(ctx, member, score);
            return ZAdded::Added(score);
        };
        let new = match judge(found.score(), score, how) {
            Verdict::Put(new) => new,
            Verdict::Leave(outcome) => return outcome,
        };
        let (pos, key, stays) = (found.pos, exact_key(new), found.stays(exact_key(new)));
        if !stays || !leaf::set_key(self.leaf_mut(ctx, pos.leaf).value_mut(), pos.index, key) {
            let element = match self.tree.open(ctx.read(), pos.leaf).element(pos.index) {
                LeafElement::Here(_) => LeafElement::Here(member),
                LeafElement::Elsewhere(number) => LeafElement::Elsewhere(number),
            };
            self.move_member(ctx, pos, (hash, member), LeafMember { key, tag: leaf_tag(hash), element });
        }
        ZAdded::Updated(new)
    }

    /// Takes a member out of its place and puts it, with another score, where it belongs.
    fn move_member(
        &mut self,
        ctx: &mut WriteCtx<'_>,
        pos: TreePos,
        (hash, bytes): (u64, &[u8]),
        member: LeafMember<'_>,
    ) {
        let left = self.take_out(ctx, pos);
        let to = self.put(ctx, member, bytes);
        if to == pos.leaf {
            return;
        }
        // Its cell is looked for anew: a split may have given the one that was found to a member with the same cell.
        self.index.repoint(hash, pos.leaf, to);
        if left > 0 {
            self.after_removal(ctx, pos.leaf, left);
        }
    }

    /// Removes a member; true if it was there.
    pub fn remove(&mut self, ctx: &mut WriteCtx<'_>, member: &[u8]) -> bool {
        debug_assert!(!self.freeing, "a set that dies is not changed");
        let Some(found) = self.find(ctx.read(), hash64(ctx.seed, member), member) else { return false };
        let (entry, pos, own) = (found.entry, found.pos, found.own_number());
        self.index.remove(entry);
        let left = self.take_out(ctx, pos);
        if left > 0 {
            self.after_removal(ctx, pos.leaf, left);
        }
        own.into_iter().for_each(|number| self.let_go(ctx, ctx.log.recall(number)));
        true
    }

    /// A member's rank from the low end, and its score.
    pub fn rank(&self, reader: ReadCtx<'_>, member: &[u8]) -> Option<(u64, f64)> {
        let found = self.find(reader, hash64(reader.seed, member), member)?;
        Some((self.tree.rank(found.pos), found.score()))
    }

    /// The positions of a range from the low end: from the first to behind the last. `rev` turns ranks only.
    pub fn span(&self, reader: ReadCtx<'_>, range: &ZRange<'_>, rev: bool) -> (u64, u64) {
        let (from, to) = match *range {
            ZRange::Rank { start, stop } => return rank_span(start, stop, self.tree.len(), rev),
            ZRange::Score { min, max } => {
                (self.before_score(reader, min, min.open), self.before_score(reader, max, !max.open))
            }
            ZRange::Lex { min, max } => (self.before_lex(reader, min, false), self.before_lex(reader, max, true)),
        };
        debug_assert!(from <= self.tree.len() && to <= self.tree.len(), "positions of this set");
        (from, to.max(from))
    }

    /// Members below a score, or up to and with it.
    fn before_score(&self, reader: ReadCtx<'_>, bound: ScoreBound, with: bool) -> u64 {
        let key = order_key(bound.value);
        self.tree.position(reader, &if with { Probe::PastKey(key) } else { Probe::Key(key) })
    }

    /// Members that the low end of a range by member leaves out, or those that its high end (`high`) lets in.
    fn before_lex(&self, reader: ReadCtx<'_>, bound: LexBound<'_>, high: bool) -> u64 {
        match bound {
            LexBound::Min => 0,
            LexBound::Max => self.tree.len(),
            LexBound::Incl(member) if high => self.tree.position(reader, &Probe::PastMember(member)),
            LexBound::Incl(member) => self.tree.position(reader, &Probe::Member(member)),
            LexBound::Excl(member) if high => self.tree.position(reader, &Probe::Member(member)),
            LexBound::Excl(member) => self.tree.position(reader, &Probe::PastMember(member)),
        }
    }

    /// Shows `count` members from `position` on, upwards or downwards.
    #[inline]
    pub fn walk(&self, reader: ReadCtx<'_>, position: u64, rev: bool, count: u64, mut emit: impl FnMut(&[u8], f64)) {
        debug_assert!(position + count <= self.tree.len() || rev, "{count} members from {position} of {}", self.len());
        debug_assert!(!rev || count <= position + 1, "{count} members down from {position}");
        let counted = &self.tree.counted;
        let Some((mut leaf, at)) = counted.locate(position) else { return };
        let (mut at, mut left) = (at as usize, count);
        loop {
            let opened = self.tree.open(reader, leaf);
            let here = if rev { at + 1 } else { opened.len() - at }.min(usize::try_from(left).unwrap_or(usize::MAX));
            left -= here as u64;
            let next = if left == 0 { None } else { beside(counted, leaf, rev) };
            next.iter().for_each(|&next| reader.log.line(counted.leaf_ref(next)).fetch_pair());
            if rev {
                opened.down_from(at + 1).take(here).for_each(|(score, element)| emit(reader.member(element), score));
            } else {
                opened.from(at).take(here).for_each(|(score, element)| emit(reader.member(element), score));
            }
            let Some(next) = next else { return };
            leaf = next;
            at = if rev { counted.count_of(leaf) as usize - 1 } else { 0 };
        }
    }

    /// Asks for the leaf of the member at a position.
    #[inline]
    pub fn prefetch_position(&self, log: &Log, position: u64) {
        if let Some((leaf, _)) = self.tree.counted.locate(position) {
            log.line(self.tree.counted.leaf_ref(leaf)).fetch_pair();
        }
    }

    /// SCAN's step over the members: shows some from `cursor` on, about `count`, and gives the next cursor, 0 at the end. A
    /// cursor is a position in hash space: a member that is there from the first call to the last is shown, whatever is
    /// split, joined or given another score between.
    pub fn scan(&self, reader: ReadCtx<'_>, cursor: u64, count: usize, emit: &mut dyn FnMut(&[u8], f64)) -> u64 {
        self.index.scan(cursor, count, |cell| {
            let leaf = self.tree.counted.leaf(cell.leaf).expect("a cell names a leaf");
            if self.tree.counted.is_detached(leaf) {
                return 0;
            }
            let (opened, mut bytes) = (self.tree.open(reader, leaf), 0);
            for index in opened.tagged(cell.leaf_tag()) {
                let member = reader.member(opened.element(index));
                // Others in the leaf may have the tag.
                if cell.has_hash(hash64(reader.seed, member)) {
                    bytes += member.len();
                    emit(member, opened.score(index));
                }
            }
            bytes
        })
    }

    /// Moves the object that reclaim has come to: a leaf, or a member that has an object of its own; false if it is not of
    /// this set.
    pub fn relocate(&mut self, ctx: &mut WriteCtx<'_>, head: &ObjectHead<'_>) -> bool {
        if head.kind == kinds::MEMBER {
            return self.relocate_own(ctx, head);
        }
        debug_assert_eq!(head.kind, kinds::NODE, "a leaf or a member");
        let Ok(number) = head.key.try_into().map(u32::from_le_bytes) else { return false };
        let counted = &self.tree.counted;
        let Some(leaf) = counted.leaf(number).filter(|&leaf| counted.leaf_ref(leaf) == head.r) else { return false };
        self.relocate_leaf(ctx, leaf);
        true
    }

    /// Moves the object that a member has, or had when a reader began.
    fn relocate_own(&mut self, ctx: &mut WriteCtx<'_>, head: &ObjectHead<'_>) -> bool {
        let number = LeafElement::Elsewhere(head.r.bits());
        let hash = hash64(ctx.seed, head.key);
        let found = self.find_element(ctx.read(), hash, |element| element == number).map(|found| found.pos);
        let Some(pos) = found.or_else(|| self.find_cut_off(ctx.read(), hash, number)) else {
            return self.readers.as_mut().is_some_and(|readers| readers.leaves_mut().relocate(ctx, head.r));
        };
        self.object_bytes -= ctx.access.open(ctx.log, head.r).live_bytes() as u64;
        let new = ctx.relocate(head.r);
        self.count_in(ctx.read(), new);
        self.readers.iter_mut().for_each(|readers| readers.leaves_mut().moved(head.r, new));
        let mut object = ctx.access.open_mut(ctx.log, self.tree.counted.leaf_ref(pos.leaf));
        leaf::set_number(object.value_mut(), pos.index, new.bits());
        true
    }

    /// True while the index of the members moves to another size, or should, or leaves that were cut off are left.
    pub fn wants_step(&self) -> bool {
        self.index.wants_step() || self.tree.counted.has_detached()
    }

    /// Moves about `buckets` buckets of that index towards its other size, and clears some of those leaves.
    pub fn step(&mut self, ctx: &mut WriteCtx<'_>, buckets: usize) {
        self.clear_cut_off(ctx, buckets / BUCKETS_A_LEAF);
        if self.index.wants_step() {
            self.index.step(buckets);
        }
    }

    /// Kills about `objects` leaves and members' objects; true when nothing is left.
    pub fn free_step(&mut self, ctx: &mut WriteCtx<'_>, objects: usize) -> bool {
        debug_assert!(!self.is_read(), "what somebody reads is not freed");
        self.freeing = true;
        let mut killed = 0;
        while killed < objects {
            let cut_off = self.tree.counted.next_detached();
            let Some(leaf) = cut_off.or_else(|| self.tree.counted.last()) else { break };
            let own: LeafHashes = self.own_numbers(ctx.read(), leaf).collect();
            own.iter().for_each(|&number| self.kill(ctx, ctx.log.recall(number)));
            match cut_off.and_then(|_| self.tree.counted.take_detached()) {
                Some(r) => self.kill(ctx, r),
                None => self.remove_leaf(ctx, leaf),
            }
            killed += 1 + own.len();
        }
        let empty = self.tree.counted.leaves() == 0;
        debug_assert!(!empty || self.object_bytes == 0, "freed when nothing is left");
        empty
    }

    /// The numbers of the members of a leaf that have objects of their own.
    fn own_numbers<'a>(&self, reader: ReadCtx<'a>, leaf: Leaf) -> impl Iterator<Item = u64> + use<'a> {
        reader.scored_leaf(self.tree.counted.leaf_ref(leaf)).numbers()
    }

    /// Gives back some of index and tree; true when nothing is left of them.
    pub fn shrink_step(&mut self) -> bool {
        self.index.discard_step() & self.tree.shrink_step()
    }

    /// Copies the members as objects of the collection `id`.
    pub fn copy(&self, from: ReadCtx<'_>, appender: &mut Appender, id: CollectionId) -> SortedSet {
        let mut copy = SortedSet::with_leaves(id, self.len(), self.members_max);
        for leaf in self.tree.leaves() {
            copy.push_copy(from, appender, id, self.tree.open(from, leaf));
        }
        debug_assert_eq!(copy.len(), self.len(), "every member was copied");
        copy
    }

    /// Adds a copy of a leaf behind all others.
    fn push_copy(&mut self, from: ReadCtx<'_>, appender: &mut Appender, id: CollectionId, leaf: ScoredLeaf<'_>) {
        let mut write = |set: &mut SortedSet, kind: ObjectKind, key: &[u8], value: &[u8]| {
            let new = NewObject::new(kind, Owner::Collection(id.number()), key, value);
            let r = appender.append(from.log, &new);
            set.count_in(from, r)
        };
        let mut value = SmallVec::<[u8; LIMIT_MAX]>::from_elem(0, leaf::bytes_used(leaf));
        leaf::copy(&mut value, leaf);
        for (index, member) in leaf.members().enumerate() {
            if let LeafElement::Elsewhere(_) = member.element {
                let own = write(self, kinds::MEMBER, from.member(member.element), b"");
                leaf::set_number(&mut value, index, own.bits());
            }
        }
        let (last, number) = (self.tree.counted.last(), self.tree.counted.upcoming().number());
        let r = write(self, kinds::NODE, &number.to_le_bytes(), &value);
        let separator = in_order(leaf.key(0));
        let new = self.tree.counted.insert_after(last, r, leaf.len() as u32, separator);
        let hashes: LeafHashes = leaf.members().map(|member| hash64(from.seed, from.member(member.element))).collect();
        hashes.iter().for_each(|&hash| self.index.line(hash).fetch());
        hashes.iter().for_each(|&hash| self.index.insert(hash, new));
    }

    /// Checks that index and tree hold the same members, and each that it is sound; adds every live object's Ref. O(N).
    pub fn verify(&self, reader: ReadCtx<'_>, id: CollectionId, live: &mut HashSet<Ref>) {
        if let Some(readers) = &self.readers {
            readers.verify(|leaf| self.tree.counted.leaf(leaf).is_some(), live);
        }
        let mut bytes = 0;
        let mut own = |r, kind, key: &[u8]| {
            let object = reader.access.open(reader.log, r);
            assert_eq!(object.kind(), kind, "an object of {id:?}");
            assert_eq!(object.owner(), Owner::Collection(id.number()), "an object carries its collection's id");
            assert!(key.is_empty() || object.key() == key, "a leaf carries its number");
            assert!(live.insert(r), "an object has one place only");
            bytes += object.live_bytes() as u64;
        };
        let cut_off = self.tree.counted.detached_leaves();
        for leaf in self.tree.leaves().chain(cut_off.iter().copied()) {
            own(self.tree.counted.leaf_ref(leaf), kinds::NODE, &leaf.number().to_le_bytes());
            self.own_numbers(reader, leaf).for_each(|number| own(reader.log.recall(number), kinds::MEMBER, b""));
        }
        assert_eq!(bytes, self.object_bytes, "bytes of the objects of {id:?}");
        self.tree.verify(reader);
        if self.freeing {
            return;
        }
        self.index.verify();
        let left = cut_off.iter().map(|&leaf| self.verify_cut_off(reader, leaf)).sum::<usize>();
        assert_eq!(self.index.len(), self.len() + left, "every member is in the index, and those that were cut off");
        for leaf in self.tree.leaves() {
            for (index, member) in self.tree.open(reader, leaf).members().enumerate() {
                let bytes = reader.member(member.element);
                let hash = hash64(reader.seed, bytes);
                assert_eq!(member.tag, leaf_tag(hash), "the tag is of the hash");
                let found = self.find(reader, hash, bytes).map(|found| found.pos);
                assert_eq!(found, Some(TreePos { leaf, index }), "the index leads to the member");
            }
        }
    }
}

/// The leaf after this one, or before it if `rev`.
fn beside(counted: &CountedTree, leaf: Leaf, rev: bool) -> Option<Leaf> {
    if rev { counted.prev(leaf) } else { counted.next(leaf) }
}
