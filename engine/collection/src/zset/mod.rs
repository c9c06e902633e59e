//! Sorted sets: members with scores, in the order of (score, member).
//!
//! ```text
//!   small     one packed node of pairs, in order              `packed`
//!   big       SortedSet
//!             +-- elements   hash of the member -> Ref        `elements`; value = the bytes of the score
//!             +-- tree       (score, member) -> Ref           `tree` over `leaf`; scores are compared as `score`
//!                                                             says, members of equal ones by `key_prefix` and `fingerprints`
//! ```
//! Every element is in both, and what moves an element repoints both. A member costs the element's object (14 bytes beside
//! member and score bytes), about 11 in the index and 9 to 10 in the tree.
//!
//! Not here: keys, and when a small one becomes big (`tx::zsets`).

#[cfg(all(test, debug_assertions))]
mod contract_tests;
mod fingerprints;
mod key_prefix;
mod leaf;
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
use varve_segment::{Appender, ObjectHead};

use crate::field_table::FieldTable;
use crate::kinds;
use crate::{CollectionId, ReadCtx, WriteCtx};
use leaf::CELLS_MAX;
use score::{ScoreBytes, order_key, read_score};
use tree::{Probe, Tree};

pub use types::{LexBound, ScoreBound, ZAdd, ZAdded, ZRange, ZShown};

/// Removals at an end fetch the bucket of the element that is this number of elements further on.
const NEAR: usize = 4;
/// They fetch the object of the element that is this number of elements further on.
const FAR: usize = 12;

/// A big sorted set.
pub struct SortedSet {
    elements: FieldTable,
    tree: Tree,
    /// It dies, and its leaves go first: no cell is to be looked for any more.
    freeing: bool,
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

impl SortedSet {
    /// An empty sorted set for the collection with this number, which is about to get `expected` elements.
    pub fn new(id: CollectionId, expected: usize) -> SortedSet {
        SortedSet::with_leaves(id, expected, CELLS_MAX)
    }

    /// An empty set with leaves of at most `cells_max` cells.
    fn with_leaves(id: CollectionId, expected: usize, cells_max: usize) -> SortedSet {
        SortedSet { elements: FieldTable::new(id, expected), tree: Tree::new(cells_max), freeing: false }
    }

    /// One of the elements that `fill` pushes, about `expected` of them, in order and none twice.
    pub fn build(ctx: &mut WriteCtx<'_>, expected: usize, fill: impl FnOnce(&mut dyn FnMut(&[u8], f64))) -> SortedSet {
        SortedSet::build_with(SortedSet::new(ctx.id, expected), ctx, fill)
    }

    fn build_with(
        mut set: SortedSet,
        ctx: &mut WriteCtx<'_>,
        fill: impl FnOnce(&mut dyn FnMut(&[u8], f64)),
    ) -> SortedSet {
        let (id, mut refs) = (ctx.id, SmallVec::<[Ref; CELLS_MAX]>::new());
        fill(&mut |member, score| {
            refs.push(set.elements.insert(ctx, member, ScoreBytes::of(score).get()));
            if refs.len() == set.tree.cells_at_once() {
                let (reader, appender) = ctx.parts();
                set.tree.push_leaf(reader, appender, id, &refs);
                refs.clear();
            }
        });
        let (reader, appender) = ctx.parts();
        set.tree.push_leaf(reader, appender, id, &refs);
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

    /// Bytes of elements, leaves, index and tree. O(1).
    pub fn memory(&self) -> usize {
        (self.elements.object_bytes() + self.tree.object_bytes()) as usize + self.table_bytes()
    }

    /// Bytes of index and tree, and of this itself, which is not among the roots. O(1).
    pub fn table_bytes(&self) -> usize {
        size_of::<SortedSet>() + self.elements.table_bytes() + self.tree.table_bytes()
    }

    /// A member's score.
    #[inline]
    pub fn score(&self, ctx: ReadCtx<'_>, member: &[u8]) -> Option<f64> {
        self.elements.get(ctx, member).map(read_score)
    }

    /// Adds a member or changes its score, under conditions.
    pub fn add(&mut self, ctx: &mut WriteCtx<'_>, member: &[u8], score: f64, how: ZAdd) -> ZAdded {
        debug_assert!(!score.is_nan(), "no score is NaN");
        debug_assert!(!self.freeing, "a set that dies is not changed");
        let Some(found) = self.elements.find(ctx.read(), member) else {
            if how.xx {
                return ZAdded::Refused;
            }
            let r = self.elements.insert(ctx, member, ScoreBytes::of(score).get());
            self.tree.insert(ctx, order_key(score), member, r);
            return ZAdded::Added(score);
        };
        let kept = ctx.access.open(ctx.log, found.r).value();
        let (old, kept) = (read_score(kept), kept.len());
        debug_assert!(kept <= 8, "a score has up to eight bytes");
        let new = match judge(old, score, how) {
            Verdict::Put(new) => new,
            Verdict::Leave(outcome) => return outcome,
        };
        let pos = self.tree.find(ctx.read(), order_key(old), member, found.r);
        // The value never gets shorter, and longer once only: then it has all eight bytes.
        let bytes = ScoreBytes::of(new);
        let bytes = if bytes.get().len() <= kept { bytes.padded(kept) } else { bytes.padded(8) };
        debug_assert_eq!(read_score(bytes).to_bits(), new.to_bits(), "the bytes keep the score");
        if bytes.len() == kept && self.tree.update(ctx, pos, order_key(new), found.r) {
            self.elements.replace(ctx, found, bytes);
            return ZAdded::Updated(new);
        }
        self.tree.remove(ctx, pos, 1);
        let r = self.elements.replace(ctx, found, bytes);
        self.tree.insert(ctx, order_key(new), member, r);
        ZAdded::Updated(new)
    }

    /// Removes a member; true if it was there.
    pub fn remove(&mut self, ctx: &mut WriteCtx<'_>, member: &[u8]) -> bool {
        debug_assert!(!self.freeing, "a set that dies is not changed");
        let Some(found) = self.elements.find(ctx.read(), member) else { return false };
        let reader = ctx.read();
        let pos = self.tree.find(reader, order_key(reader.element(found.r).1), member, found.r);
        self.tree.remove(ctx, pos, 1);
        self.elements.remove_found(ctx, found);
        true
    }

    /// A member's rank from the low end, and its score.
    pub fn rank(&self, reader: ReadCtx<'_>, member: &[u8]) -> Option<(u64, f64)> {
        let found = self.elements.find(reader, member)?;
        let score = reader.element(found.r).1;
        let pos = self.tree.find(reader, order_key(score), member, found.r);
        Some((self.tree.rank(pos), score))
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

    /// Elements below a score, or up to and with it.
    fn before_score(&self, reader: ReadCtx<'_>, bound: ScoreBound, with: bool) -> u64 {
        let key = order_key(bound.value);
        self.tree.position(reader, &if with { Probe::PastKey(key) } else { Probe::Key(key) })
    }

    /// Elements that the low end of a range by member leaves out, or those that its high end (`high`) lets in.
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

    /// Member and score of an element of a sorted set.
    pub fn element<'a>(ctx: ReadCtx<'a>, r: Ref) -> (&'a [u8], f64) {
        ctx.element(r)
    }

    /// Shows `count` elements from `position` on, upwards or downwards.
    #[inline]
    pub fn walk(&self, reader: ReadCtx<'_>, position: u64, rev: bool, count: u64, mut emit: impl FnMut(&[u8], f64)) {
        self.tree.walk(reader, position, rev, count, |r| {
            let (member, score) = reader.element(r);
            emit(member, score);
        });
    }

    /// Shows the elements at the positions `from..to`, from the high end on if `rev`, and removes them, but not if they are
    /// all: those die with their key. Gives how many are left.
    pub fn take_span(
        &mut self,
        ctx: &mut WriteCtx<'_>,
        (from, to): (u64, u64),
        rev: bool,
        emit: &mut dyn FnMut(&[u8], f64),
    ) -> usize {
        debug_assert!(from <= to && to <= self.len() as u64, "positions {from}..{to} of {}", self.len());
        let left = self.len() - (to - from) as usize;
        if left > 0 {
            self.remove_span(ctx, (from, to), rev, emit);
            if from == 0 || rev {
                self.fetch_end(ctx, rev);
            }
        } else {
            self.walk(ctx.read(), if rev { to - 1 } else { from }, rev, to - from, emit);
        }
        left
    }

    /// Fetches what the next removals at an end are going to touch: the objects of those after some more, the buckets of
    /// those after a few more, whose objects were fetched before.
    #[inline]
    fn fetch_end(&self, ctx: &WriteCtx<'_>, rev: bool) {
        let reader = ctx.read();
        let [near, far] = self.tree.at_end(reader, rev, [NEAR, FAR]);
        if let Some(r) = far {
            ctx.log.line(r).fetch_pair();
        }
        if let Some(r) = near {
            self.elements.bucket_line(hash64(ctx.seed, reader.element(r).0)).fetch();
        }
    }

    /// Removes the elements at the positions `from..to` and shows each; from the high end on if `rev`.
    fn remove_span(
        &mut self,
        ctx: &mut WriteCtx<'_>,
        (from, mut to): (u64, u64),
        rev: bool,
        emit: &mut dyn FnMut(&[u8], f64),
    ) {
        // Too large to be handed about.
        let mut refs = SmallVec::new();
        while from < to {
            let pos = self.tree.run(ctx.read(), (from, to), rev, &mut refs);
            to -= refs.len() as u64;
            debug_assert!(!refs.is_empty() && from <= to, "each step removes some");
            refs.iter().for_each(|&r| ctx.log.prefetch(r));
            if rev {
                refs.reverse();
            }
            self.tree.remove(ctx, pos, refs.len());
            for (n, &r) in refs.iter().enumerate() {
                if let Some(&r) = refs.get(n + NEAR) {
                    self.elements.bucket_line(hash64(ctx.seed, ctx.read().element(r).0)).fetch();
                }
                let (member, score) = ctx.read().element(r);
                emit(member, score);
                let found = self.elements.find_ref(ctx.seed, member, r).expect("an element is in the index");
                self.elements.remove_found(ctx, found);
            }
        }
    }

    /// SCAN's step over the members, see [`FieldTable::scan`].
    pub fn scan(&self, ctx: ReadCtx<'_>, cursor: u64, count: usize, emit: &mut dyn FnMut(&[u8], f64)) -> u64 {
        self.elements.scan(ctx, cursor, count, &mut |member, score| emit(member, read_score(score)))
    }

    /// Moves the object that reclaim has come to: a leaf, or an element with its two cells.
    pub fn relocate(&mut self, ctx: &mut WriteCtx<'_>, head: &ObjectHead<'_>) -> bool {
        if head.kind == kinds::NODE {
            return self.tree.relocate(ctx, head);
        }
        debug_assert_eq!(head.kind, kinds::ELEMENT, "a leaf or an element");
        let Some(found) = self.elements.find_ref(ctx.seed, head.key, head.r) else { return false };
        if self.freeing {
            let new = ctx.relocate(head.r);
            self.elements.repoint(ctx, found, new, head.bytes);
            return true;
        }
        let reader = ctx.read();
        let pos = self.tree.find(reader, order_key(reader.element(head.r).1), head.key, head.r);
        let new = ctx.relocate(head.r);
        self.elements.repoint(ctx, found, new, head.bytes);
        self.tree.repoint(ctx, pos, new);
        true
    }

    /// True while the index of the members moves to another size, or should.
    pub fn wants_step(&self) -> bool {
        self.elements.wants_step()
    }

    /// Moves about `buckets` buckets of that index towards its other size.
    pub fn step(&mut self, ctx: &WriteCtx<'_>, buckets: usize) {
        self.elements.step(ctx, buckets);
    }

    /// Kills about `objects` leaves, and then elements; true when nothing is left.
    pub fn free_step(&mut self, ctx: &mut WriteCtx<'_>, objects: usize) -> bool {
        self.freeing = true;
        let killed = self.tree.free_leaves(ctx, objects);
        debug_assert!(killed == objects || self.tree.len() == 0, "elements are killed when no leaf is left");
        killed < objects && self.elements.free_step(ctx, objects - killed)
    }

    /// Gives back some of index and tree; true when nothing is left of them.
    pub fn shrink_step(&mut self) -> bool {
        self.elements.shrink_step() & self.tree.shrink_step()
    }

    /// Copies the elements as objects of the collection `id`.
    pub fn copy(&self, from: ReadCtx<'_>, appender: &mut Appender, id: CollectionId) -> SortedSet {
        let elements = self.elements.copy(from, appender, id);
        let mut tree = self.tree.fresh();
        let mut refs: SmallVec<[Ref; CELLS_MAX]> = SmallVec::new();
        self.tree.walk(from, 0, false, self.tree.len(), |r| {
            let copied = elements.find(from, from.element(r).0).expect("every element was copied");
            refs.push(copied.r);
            if refs.len() == tree.cells_at_once() {
                tree.push_leaf(from, appender, id, &refs);
                refs.clear();
            }
        });
        tree.push_leaf(from, appender, id, &refs);
        SortedSet { elements, tree, freeing: false }
    }

    /// Checks that index and tree hold the same elements, and each that it is sound. O(N).
    pub fn verify(&self, reader: ReadCtx<'_>, id: CollectionId, live: &mut HashSet<Ref>) {
        self.elements.verify(reader, id, live);
        if self.freeing {
            self.tree.leaves().for_each(|r| assert!(live.insert(r), "a leaf has one number"));
            return;
        }
        assert_eq!(self.tree.len(), self.len() as u64, "every element has a cell");
        let known = |r: Ref| {
            let found = self.elements.find_ref(reader.seed, reader.element(r).0, r);
            assert!(found.is_some(), "a cell leads to an element of the index");
        };
        self.tree.verify(reader, id, known, |r| assert!(live.insert(r), "a leaf has one number"));
    }
}
