//! Sorted sets: members with scores, in the order of (score, member).
//!
//! ```text
//!   small     one packed node of pairs, in order              `packed`
//!   big       SortedSet
//!             +-- elements   hash of the member -> Ref        `elements`; value = the bytes of the score
//!             +-- tree       (score, member) -> Ref           `tree` over `leaf`; scores are compared as `score`
//!                                                             says, members of equal ones by `hint` and `marks`
//! ```
//! Every element is in both, and what moves an element repoints both. A member costs the element's object (14 bytes beside
//! member and score bytes), about 11 in the index and 9 to 10 in the tree.
//!
//! Not here: keys, and when a small one becomes big (`tx::zsets`).

mod hint;
mod leaf;
mod marks;
pub mod packed;
mod score;
#[cfg(test)]
mod tests;
mod tree;
mod types;

use std::collections::HashSet;

use smallvec::SmallVec;
use varve_base::Ref;
use varve_base::hash::hash64;
use varve_index::TableStats;
use varve_segment::{Access, Appender, Log, ObjectHead};

use crate::WriteCtx;
use crate::field_table::FieldTable;
use crate::kinds;
use leaf::CELLS_MAX;
use score::{ScoreBytes, order_key, read_score};
use tree::{Probe, ReadCtx, Tree};

pub use types::{LexBound, ScoreBound, ZAdd, ZAdded, ZRange, ZShown};

/// Removals at an end fetch the bucket of the element after so many more.
const NEAR: usize = 4;
/// And the object of the one after so many more.
const FAR: usize = 12;

/// A big sorted set.
pub struct SortedSet {
    elements: FieldTable,
    tree: Tree,
    /// It dies, and its leaves go first: no cell is to be looked for any more.
    felled: bool,
}

/// What an addition does to a member that is there.
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

impl SortedSet {
    /// No elements yet, for the collection with this slot number, which will at once have so many.
    pub fn new(slot: u32, expected: usize) -> SortedSet {
        SortedSet::with_leaves(slot, expected, CELLS_MAX)
    }

    /// The same with leaves of at most `cells_max` cells.
    fn with_leaves(slot: u32, expected: usize, cells_max: usize) -> SortedSet {
        SortedSet { elements: FieldTable::new(slot, expected), tree: Tree::new(cells_max), felled: false }
    }

    /// One of the elements that `fill` pushes, about `expected` of them, in order and none twice.
    pub fn build(
        hands: &mut WriteCtx<'_>,
        expected: usize,
        fill: impl FnOnce(&mut dyn FnMut(&[u8], f64)),
    ) -> SortedSet {
        SortedSet::build_with(SortedSet::new(hands.slot, expected), hands, fill)
    }

    fn build_with(
        mut set: SortedSet,
        hands: &mut WriteCtx<'_>,
        fill: impl FnOnce(&mut dyn FnMut(&[u8], f64)),
    ) -> SortedSet {
        let mut refs: SmallVec<[Ref; CELLS_MAX]> = SmallVec::new();
        fill(&mut |member, score| {
            refs.push(set.elements.insert(hands, member, ScoreBytes::of(score).get()));
            if refs.len() == set.tree.cells_at_once() {
                set.tree.push_leaf(ReadCtx { log: hands.log, access: hands.access }, hands.appender, hands.slot, &refs);
                refs.clear();
            }
        });
        set.tree.push_leaf(ReadCtx { log: hands.log, access: hands.access }, hands.appender, hands.slot, &refs);
        set
    }

    /// The members by name.
    #[inline]
    pub fn elements(&self) -> &FieldTable {
        &self.elements
    }

    /// Number of members.
    #[allow(clippy::len_without_is_empty, reason = "an empty collection is no key")]
    pub fn len(&self) -> usize {
        self.elements.len()
    }

    /// Figures of the members' index.
    pub fn table_stats(&self) -> TableStats {
        self.elements.table_stats()
    }

    /// Bytes of elements, leaves, index and spine. O(1).
    pub fn memory(&self) -> usize {
        (self.elements.object_bytes() + self.tree.object_bytes()) as usize + self.table_bytes()
    }

    /// Bytes of index and spine, and of this itself, which is not among the roots. O(1).
    pub fn table_bytes(&self) -> usize {
        size_of::<SortedSet>() + self.elements.table_bytes() + self.tree.spine_bytes()
    }

    /// A member's score.
    #[inline]
    pub fn score(&self, log: &Log, access: &Access, seed: u64, member: &[u8]) -> Option<f64> {
        self.elements.get(log, access, seed, member).map(read_score)
    }

    /// Adds a member or changes its score, under conditions.
    pub fn add(&mut self, hands: &mut WriteCtx<'_>, member: &[u8], score: f64, how: ZAdd) -> ZAdded {
        let Some(found) = self.elements.find(hands.log, hands.access, hands.seed, member) else {
            if how.xx {
                return ZAdded::Refused;
            }
            let r = self.elements.insert(hands, member, ScoreBytes::of(score).get());
            self.tree.insert(hands, order_key(score), member, r);
            return ZAdded::Added(score);
        };
        let kept = hands.access.open(hands.log, found.r).value();
        let (old, kept) = (read_score(kept), kept.len());
        let new = match judge(old, score, how) {
            Verdict::Put(new) => new,
            Verdict::Leave(outcome) => return outcome,
        };
        let spot = self.tree.find(ReadCtx::of(hands), order_key(old), member, found.r);
        // The value never gets shorter, and longer once only: then it has all eight bytes.
        let bytes = ScoreBytes::of(new);
        let bytes = if bytes.get().len() <= kept { bytes.padded(kept) } else { bytes.padded(8) };
        if bytes.len() == kept && self.tree.update(hands, spot, order_key(new), found.r) {
            self.elements.replace(hands, found, member, bytes);
            return ZAdded::Updated(new);
        }
        self.tree.remove(hands, spot, 1);
        let r = self.elements.replace(hands, found, member, bytes);
        self.tree.insert(hands, order_key(new), member, r);
        ZAdded::Updated(new)
    }

    /// Removes a member; true if it was there.
    pub fn remove(&mut self, hands: &mut WriteCtx<'_>, member: &[u8]) -> bool {
        let Some(found) = self.elements.find(hands.log, hands.access, hands.seed, member) else { return false };
        let sight = ReadCtx::of(hands);
        let spot = self.tree.find(sight, order_key(sight.element(found.r).1), member, found.r);
        self.tree.remove(hands, spot, 1);
        self.elements.remove_found(hands, found);
        true
    }

    /// A member's rank from the low end, and its score.
    pub fn rank(&self, log: &Log, access: &Access, seed: u64, member: &[u8]) -> Option<(u64, f64)> {
        let found = self.elements.find(log, access, seed, member)?;
        let sight = ReadCtx { log, access };
        let score = sight.element(found.r).1;
        let spot = self.tree.find(sight, order_key(score), member, found.r);
        Some((self.tree.rank(spot), score))
    }

    /// The positions of a range from the low end: from the first to behind the last. `rev` turns ranks only.
    pub fn span(&self, log: &Log, access: &Access, range: &ZRange<'_>, rev: bool) -> (u64, u64) {
        let sight = ReadCtx { log, access };
        let (from, to) = match *range {
            ZRange::Rank { start, stop } => return rank_span(start, stop, self.tree.len(), rev),
            ZRange::Score { min, max } => {
                (self.before_score(sight, min, min.open), self.before_score(sight, max, !max.open))
            }
            ZRange::Lex { min, max } => (self.before_lex(sight, min, false), self.before_lex(sight, max, true)),
        };
        (from, to.max(from))
    }

    /// Elements below a score, or up to and with it.
    fn before_score(&self, sight: ReadCtx<'_>, bound: ScoreBound, with: bool) -> u64 {
        let key = order_key(bound.value);
        self.tree.position(sight, &if with { Probe::PastKey(key) } else { Probe::Key(key) })
    }

    /// Elements that the low end of a range by member leaves out, or those that its high end (`high`) lets in.
    fn before_lex(&self, sight: ReadCtx<'_>, bound: LexBound<'_>, high: bool) -> u64 {
        match bound {
            LexBound::Min => 0,
            LexBound::Max => self.tree.len(),
            LexBound::Incl(member) if high => self.tree.position(sight, &Probe::PastMember(member)),
            LexBound::Incl(member) => self.tree.position(sight, &Probe::Member(member)),
            LexBound::Excl(member) if high => self.tree.position(sight, &Probe::Member(member)),
            LexBound::Excl(member) => self.tree.position(sight, &Probe::PastMember(member)),
        }
    }

    /// Shows `count` elements from `position` on, upwards or downwards.
    #[inline]
    pub fn walk(
        &self,
        (log, access): (&Log, &Access),
        position: u64,
        rev: bool,
        count: u64,
        mut emit: impl FnMut(&[u8], f64),
    ) {
        let sight = ReadCtx { log, access };
        self.tree.walk(sight, position, rev, count, |r| {
            let (member, score) = sight.element(r);
            emit(member, score);
        });
    }

    /// Shows the elements at the positions `from..to`, from the high end on if `rev`, and removes them, but not if they are
    /// all: those die with their key. Gives how many are left.
    pub fn take_span(
        &mut self,
        hands: &mut WriteCtx<'_>,
        (from, to): (u64, u64),
        rev: bool,
        emit: &mut dyn FnMut(&[u8], f64),
    ) -> usize {
        let left = self.len() - (to - from) as usize;
        if left > 0 {
            self.remove_span(hands, (from, to), rev, emit);
            if from == 0 || rev {
                self.fetch_end(hands, rev);
            }
        } else {
            self.walk((hands.log, hands.access), if rev { to - 1 } else { from }, rev, to - from, emit);
        }
        left
    }

    /// Fetches what the next removals at an end are going to touch: the objects of those after some more, the buckets of
    /// those after a few more, whose objects were fetched before.
    #[inline]
    fn fetch_end(&self, hands: &WriteCtx<'_>, rev: bool) {
        let sight = ReadCtx::of(hands);
        let [near, far] = self.tree.at_end(sight, rev, [NEAR, FAR]);
        if let Some(r) = far {
            hands.log.line(r).fetch_pair();
        }
        if let Some(r) = near {
            self.elements.bucket_line(hash64(hands.seed, sight.element(r).0)).fetch();
        }
    }

    /// Removes the elements at the positions `from..to` and shows each; from the high end on if `rev`.
    fn remove_span(
        &mut self,
        hands: &mut WriteCtx<'_>,
        (from, mut to): (u64, u64),
        rev: bool,
        emit: &mut dyn FnMut(&[u8], f64),
    ) {
        // Too large to be handed about.
        let mut refs = SmallVec::new();
        while from < to {
            let spot = self.tree.run(ReadCtx::of(hands), (from, to), rev, &mut refs);
            to -= refs.len() as u64;
            refs.iter().for_each(|&r| hands.log.prefetch(r));
            if rev {
                refs.reverse();
            }
            self.tree.remove(hands, spot, refs.len());
            for (n, &r) in refs.iter().enumerate() {
                if let Some(&r) = refs.get(n + NEAR) {
                    self.elements.bucket_line(hash64(hands.seed, ReadCtx::of(hands).element(r).0)).fetch();
                }
                let (member, score) = ReadCtx::of(hands).element(r);
                emit(member, score);
                let found = self.elements.find_ref(hands.seed, member, r).expect("an element is in the index");
                self.elements.remove_found(hands, found);
            }
        }
    }

    /// SCAN's step over one bucket, as that of the elements.
    pub fn scan(
        &self,
        from: u64,
        log: &Log,
        access: &Access,
        seed: u64,
        emit: &mut dyn FnMut(&[u8], f64),
    ) -> Option<u64> {
        self.elements.scan(from, log, access, seed, &mut |member, score| emit(member, read_score(score)))
    }

    /// Moves the object that reclaim has come to: a leaf, or an element with its two cells.
    pub fn relocate(&mut self, hands: &mut WriteCtx<'_>, head: &ObjectHead<'_>) -> bool {
        if head.kind == kinds::NODE {
            return self.tree.relocate(hands, head);
        }
        let Some(found) = self.elements.find_ref(hands.seed, head.key, head.r) else { return false };
        if self.felled {
            let new = hands.relocate(head.r);
            self.elements.repoint(hands, found, new, head.bytes);
            return true;
        }
        let sight = ReadCtx::of(hands);
        let spot = self.tree.find(sight, order_key(sight.element(head.r).1), head.key, head.r);
        let new = hands.relocate(head.r);
        self.elements.repoint(hands, found, new, head.bytes);
        self.tree.repoint(hands, spot, new);
        true
    }

    /// True while the index of the members moves to another size, or should.
    pub fn wants_step(&self) -> bool {
        self.elements.wants_step()
    }

    /// Moves about `buckets` buckets of that index towards its other size.
    pub fn step(&mut self, hands: &WriteCtx<'_>, buckets: usize) {
        self.elements.step(hands, buckets);
    }

    /// Kills about `objects` leaves, and then elements; true when nothing is left.
    pub fn free_step(&mut self, hands: &mut WriteCtx<'_>, objects: usize) -> bool {
        self.felled = true;
        let killed = self.tree.fell(hands, objects);
        killed < objects && self.elements.free_step(hands, objects - killed)
    }

    /// Gives back some of index and spine; true when nothing is left of them.
    pub fn shed_step(&mut self) -> bool {
        self.elements.shed_step() & self.tree.shed_step()
    }

    /// The same elements as objects of another slot.
    pub fn copy(&self, from: &Access, log: &Log, appender: &mut Appender, seed: u64, slot: u32) -> SortedSet {
        let elements = self.elements.copy(from, log, appender, seed, slot);
        let mut tree = self.tree.fresh();
        let sight = ReadCtx { log, access: from };
        let mut refs: SmallVec<[Ref; CELLS_MAX]> = SmallVec::new();
        self.tree.walk(sight, 0, false, self.tree.len(), |r| {
            let copied = elements.find(log, from, seed, sight.element(r).0).expect("every element was copied");
            refs.push(copied.r);
            if refs.len() == tree.cells_at_once() {
                tree.push_leaf(sight, appender, slot, &refs);
                refs.clear();
            }
        });
        tree.push_leaf(sight, appender, slot, &refs);
        SortedSet { elements, tree, felled: false }
    }

    /// Checks that index and tree hold the same elements, and each that it is sound. O(N).
    pub fn verify(&self, log: &Log, access: &Access, seed: u64, slot: u32, live: &mut HashSet<Ref>) {
        self.elements.verify(log, access, seed, slot, live);
        if self.felled {
            self.tree.leaves().for_each(|r| assert!(live.insert(r), "a leaf has one number"));
            return;
        }
        let sight = ReadCtx { log, access };
        assert_eq!(self.tree.len(), self.len() as u64, "every element has a cell");
        let known = |r: Ref| {
            let found = self.elements.find_ref(seed, sight.element(r).0, r);
            assert!(found.is_some(), "a cell leads to an element of the index");
        };
        self.tree.verify(sight, slot, known, |r| assert!(live.insert(r), "a leaf has one number"));
    }
}
