//! A small sorted set: one leaf in its key's object, with all members in it.
//!
//! ```text
//!   value    a leaf, see `leaf`: scores, tags, members in the order of (score, member)
//! ```
//! A member is found by its tag, a place by two searches in the order: a packed node of pairs, which was here before, is
//! walked from its front for either, four times for a change of a score. Its rank is its index.
//!
//! A change that has no place in the bytes of the value, or whose score the leaf's scale has no difference for, has the leaf
//! written anew: [`SmallMembers`] says how many bytes that takes.
//!
//! Not here: where the value lies and how large it may be (the caller), and what a big one is (`SortedSet`).

use std::cmp::Ordering;

use smallvec::SmallVec;
use varve_base::hash::hash64;
use varve_packed::leaf::{LEAF_ELEMENT_BYTES_MAX, LEAF_ELEMENTS_MAX, LeafElement};

use super::leaf::{self, LeafBytes, LeafMember, ScoredLeaf};
use super::scores::{exact_key, in_order, order_key};
use super::types::{LexBound, ScoreBound, ZRange};
use super::{leaf_tag, rank_span};

/// Members that are written anew without an allocation.
const FEW: usize = 16;

/// A small sorted set to read.
#[derive(Clone, Copy, Debug)]
pub struct SmallZset<'a>(ScoredLeaf<'a>);

/// The members of a small sorted set while it is written anew.
#[derive(Clone, Debug)]
pub struct SmallMembers<'a>(SmallVec<[LeafMember<'a>; FEW]>);

/// The bytes of a member that lies in the leaf.
#[inline]
fn here(element: LeafElement<'_>) -> &[u8] {
    match element {
        LeafElement::Here(bytes) => bytes,
        LeafElement::Elsewhere(_) => unreachable!("a small sorted set has all members in its key's object"),
    }
}

/// Whether a leaf may have this member, whatever the leaf's size.
#[inline]
pub fn has_place(member: &[u8]) -> bool {
    member.len() <= LEAF_ELEMENT_BYTES_MAX
}

/// The member as a leaf has it.
#[inline]
fn coded(seed: u64, member: &[u8], score: f64) -> LeafMember<'_> {
    LeafMember { key: exact_key(score), tag: leaf_tag(hash64(seed, member)), element: LeafElement::Here(member) }
}

impl<'a> SmallZset<'a> {
    /// Opens a value that this module wrote.
    ///
    /// # Panics
    /// If it cannot be one.
    #[inline]
    pub fn open(value: &'a [u8]) -> SmallZset<'a> {
        SmallZset(ScoredLeaf::open(value))
    }

    /// Number of members.
    #[inline]
    #[allow(clippy::len_without_is_empty, reason = "an empty sorted set is no key")]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Bytes of a copy without free room.
    pub fn copied_bytes(&self) -> usize {
        leaf::bytes_used(self.0)
    }

    /// Writes a copy into `out`, which has at least [`SmallZset::copied_bytes`] bytes; what is over is free room.
    pub fn copy_into(&self, out: &mut [u8]) {
        leaf::copy(out, self.0);
    }

    /// A member's rank, from 0, and its score.
    #[inline]
    pub fn find(&self, seed: u64, member: &[u8]) -> Option<(usize, f64)> {
        let is = |element| here(element) == member;
        let at = self.0.find(leaf_tag(hash64(seed, member)), is)?;
        Some((at, self.0.score(at)))
    }

    /// The positions of a range from the low end: from the first to behind the last. `rev` turns ranks only. A range by
    /// member begins with the first one that is in it and ends before the next one that is not, whatever the scores.
    pub fn span(&self, range: &ZRange<'_>, rev: bool) -> (u64, u64) {
        let (from, to) = match *range {
            ZRange::Rank { start, stop } => return rank_span(start, stop, self.len() as u64, rev),
            ZRange::Score { min, max } => (self.before(min, min.open), self.before(max, !max.open)),
            ZRange::Lex { min, max } => {
                let from = self.0.from(0).take_while(|&(_, element)| !is_over(here(element), min)).count();
                (from, from + self.0.from(from).take_while(|&(_, element)| is_under(here(element), max)).count())
            }
        };
        (from as u64, to.max(from) as u64)
    }

    /// Members below a score, or up to and with it.
    fn before(&self, bound: ScoreBound, with: bool) -> usize {
        self.0.below(order_key(bound.value), with)
    }

    /// Shows `count` members from position `from` on, upwards or downwards.
    ///
    /// # Panics
    /// If `from` is behind the last member.
    pub fn walk(&self, from: u64, rev: bool, count: u64, emit: &mut dyn FnMut(&[u8], f64)) {
        let (at, count) = (from as usize, usize::try_from(count).unwrap_or(usize::MAX));
        debug_assert!(rev || at + count <= self.len(), "{count} members from {at} of {}", self.len());
        if rev {
            self.0.down_from(at + 1).take(count).for_each(|(score, element)| emit(here(element), score));
        } else {
            self.0.from(at).take(count).for_each(|(score, element)| emit(here(element), score));
        }
    }

    /// Shows every member in order.
    pub fn for_each(&self, mut show: impl FnMut(&[u8], f64)) {
        self.0.from(0).for_each(|(score, element)| show(here(element), score));
    }

    /// The members of this set, but without that of rank `without`, and with a new one.
    pub fn with(&self, seed: u64, without: Option<usize>, (member, score): (&'a [u8], f64)) -> SmallMembers<'a> {
        debug_assert!(without.is_none_or(|at| at < self.len()), "{without:?} of {}", self.len());
        let new = coded(seed, member, score);
        let mut members = SmallVec::with_capacity(self.len() + 1);
        members.extend(self.0.members().enumerate().filter(|&(at, _)| Some(at) != without).map(|(_, other)| other));
        let at = members.partition_point(|other| compare(other, &new).is_lt());
        members.insert(at, new);
        SmallMembers(members)
    }

    /// The members of this set without those of the ranks `from..to`.
    pub fn without(&self, (from, to): (u64, u64)) -> SmallMembers<'a> {
        let gone = from as usize..to as usize;
        debug_assert!(gone.start <= gone.end && gone.end <= self.len(), "{gone:?} of {}", self.len());
        let kept = self.0.members().enumerate().filter(|(at, _)| !gone.contains(at));
        SmallMembers(kept.map(|(_, member)| member).collect())
    }

    /// Panics if the bytes are not those of a small sorted set whose hashes have this seed. O(N).
    pub fn verify(&self, seed: u64) {
        self.0.verify();
        for member in self.0.members() {
            let tag = leaf_tag(hash64(seed, here(member.element)));
            assert_eq!(member.tag, tag, "the tag is of the member's hash");
        }
        assert!(self.0.members().is_sorted_by(|a, b| compare(a, b).is_lt()), "members in order, none twice");
    }
}

impl<'a> SmallMembers<'a> {
    /// Members that are in order.
    pub fn of(seed: u64, members: impl Iterator<Item = (&'a [u8], f64)>) -> SmallMembers<'a> {
        SmallMembers(members.map(|(member, score)| coded(seed, member, score)).collect())
    }

    /// Bytes that the members take; `None` if that is more than a leaf may have.
    pub fn bytes(&self) -> Option<usize> {
        self.bytes_with(std::iter::empty())
    }

    /// Bytes that the members take with some more, which are in any order; `None` if that is more than a leaf may have.
    pub fn bytes_with<'m>(&self, more: impl Iterator<Item = (&'m [u8], f64)> + Clone) -> Option<usize> {
        // Tags are of no weight.
        let more = more.map(|(member, score)| LeafMember {
            key: exact_key(score),
            tag: 0,
            element: LeafElement::Here(member),
        });
        let all = || self.0.iter().copied().chain(more.clone());
        let has_place = |member: LeafMember<'_>| leaf::size(member.element) <= LEAF_ELEMENT_BYTES_MAX;
        let may_be = all().all(has_place) && all().count() <= LEAF_ELEMENTS_MAX;
        may_be.then(|| LeafBytes::of(all()).needed)
    }

    /// Writes them into a value that has the bytes for it; what is over is free room.
    pub fn write(&self, value: &mut [u8]) {
        debug_assert!(self.0.is_sorted_by(|a, b| compare(a, b).is_lt()), "members in order, none twice");
        leaf::write(value, self.0.iter().copied());
    }
}

/// The order of (score, member).
fn compare(a: &LeafMember<'_>, b: &LeafMember<'_>) -> Ordering {
    in_order(a.key).cmp(&in_order(b.key)).then_with(|| here(a.element).cmp(here(b.element)))
}

fn is_over(member: &[u8], min: LexBound<'_>) -> bool {
    match min {
        LexBound::Min => true,
        LexBound::Max => false,
        LexBound::Incl(bound) => member >= bound,
        LexBound::Excl(bound) => member > bound,
    }
}

fn is_under(member: &[u8], max: LexBound<'_>) -> bool {
    match max {
        LexBound::Min => false,
        LexBound::Max => true,
        LexBound::Incl(bound) => member <= bound,
        LexBound::Excl(bound) => member < bound,
    }
}

/// Adds a member that is not there yet, where it belongs. False, and nothing is done, if it has no place in the value.
#[inline]
pub fn insert(value: &mut [u8], seed: u64, (member, score): (&[u8], f64)) -> bool {
    let set = SmallZset::open(value);
    debug_assert!(set.find(seed, member).is_none(), "a member is there once");
    let new = coded(seed, member, score);
    let (from, to) = set.0.run_of(in_order(new.key));
    let at = set.0.partition(from, to, |element| here(element) < member);
    leaf::insert(value, at, new, LEAF_ELEMENTS_MAX).is_ok()
}

/// Gives the member of rank `at` another score. False, and nothing is done, if there is no place for it in the value.
#[inline]
pub fn set_score(value: &mut [u8], seed: u64, at: usize, (member, score): (&[u8], f64)) -> bool {
    let set = SmallZset::open(value);
    debug_assert!(here(set.0.element(at)) == member, "the member of this rank");
    let key = exact_key(score);
    if set.0.stays(at, key) {
        return leaf::set_key(value, at, key);
    }
    // The member that was taken out leaves the bytes that it needs again: only the scale may have no place for it.
    if !set.0.has_difference(key) {
        return false;
    }
    leaf::remove(value, at);
    assert!(insert(value, seed, (member, score)), "a member fits where it was");
    true
}

/// Removes the member of rank `at`.
pub fn remove(value: &mut [u8], at: usize) {
    leaf::remove(value, at);
}

#[cfg(test)]
mod tests {
    use varve_base::rng::Rng;

    use super::super::types::{LexBound, ScoreBound, ZRange};
    use super::*;

    const SEED: u64 = 9;

    type Model = Vec<(f64, Vec<u8>)>;

    fn sort(model: &mut Model) {
        model.sort_by(|a, b| a.0.partial_cmp(&b.0).expect("no NaN").then_with(|| a.1.cmp(&b.1)));
    }

    fn random_score(rng: &mut Rng, kind: u64) -> f64 {
        match kind {
            0 => 7.0,
            1 => rng.below(50) as f64,
            2 => rng.below(1 << 40) as f64 / 7.0,
            _ => match rng.below(6) {
                0 => -0.0,
                1 => 0.0,
                2 => f64::INFINITY,
                3 => f64::NEG_INFINITY,
                4 => -(rng.below(100) as f64),
                _ => f64::from_bits(rng.next_u64() >> 2),
            },
        }
    }

    /// Writes a set anew with a member more, or with another score of it, in a value with some free room.
    fn anew(value: &mut Vec<u8>, rng: &mut Rng, without: Option<usize>, item: (&[u8], f64)) {
        let old = value.clone();
        let members = SmallZset::open(&old).with(SEED, without, item);
        let needed = members.bytes().expect("a small one");
        assert!(members.bytes_with([item].into_iter()) > Some(needed), "one more takes more");
        *value = vec![0xaa; needed + rng.below(40) as usize];
        members.write(value);
    }

    fn check(value: &[u8], model: &Model, rng: &mut Rng) {
        let set = SmallZset::open(value);
        set.verify(SEED);
        let mut shown = Vec::new();
        set.for_each(|member, score| shown.push((score.to_bits(), member.to_vec())));
        assert_eq!(shown, model.iter().map(|(score, member)| (score.to_bits(), member.clone())).collect::<Vec<_>>());
        for (rank, (score, member)) in model.iter().enumerate() {
            let (at, found) = set.find(SEED, member).expect("it is there");
            assert_eq!((at, found.to_bits()), (rank, score.to_bits()));
        }
        assert_eq!(set.find(SEED, b"nobody"), None);
        let bound =
            |rng: &mut Rng| ScoreBound { value: random_score(rng, rng.clone().below(4)), open: rng.below(2) == 0 };
        let (min, max) = (bound(rng), bound(rng));
        let over = |score: f64| if min.open { score > min.value } else { score >= min.value };
        let under = |score: f64| if max.open { score < max.value } else { score <= max.value };
        let (from, to) = set.span(&ZRange::Score { min, max }, false);
        assert_eq!((to - from) as usize, model.iter().filter(|(score, _)| over(*score) && under(*score)).count());
        if model.len() > 2 {
            let mut down = Vec::new();
            set.walk(2, true, 2, &mut |member, _| down.push(member.to_vec()));
            assert_eq!(down, [model[2].1.clone(), model[1].1.clone()]);
        }
    }

    #[test]
    fn a_small_set_is_what_a_sorted_list_is() {
        for round in 0..40 {
            let mut rng = Rng::seeded(round);
            let mut value = vec![0; 64];
            SmallMembers::of(SEED, std::iter::once((&b"first"[..], 1.0))).write(&mut value);
            let mut model = vec![(1.0, b"first".to_vec())];
            for _ in 0..150 {
                let n = rng.below(60);
                let member = vec![b'a' + (n % 26) as u8; n as usize * if n == 59 { 9 } else { 1 }];
                let score = random_score(&mut rng, round % 4);
                let there = model.iter().position(|(_, m)| *m == member);
                match there {
                    Some(at) if rng.below(3) == 0 && model.len() > 1 => {
                        remove(&mut value, at);
                        model.remove(at);
                    }
                    Some(at) => {
                        if !set_score(&mut value, SEED, at, (&member, score)) {
                            anew(&mut value, &mut rng, Some(at), (&member, score));
                        }
                        model[at].0 = score;
                    }
                    None => {
                        if !insert(&mut value, SEED, (&member, score)) {
                            anew(&mut value, &mut rng, None, (&member, score));
                        }
                        model.push((score, member));
                    }
                }
                sort(&mut model);
                check(&value, &model, &mut rng);
            }
            let (from, to) = (model.len() as u64 / 4, model.len() as u64 / 2);
            let old = value.clone();
            SmallZset::open(&old).without((from, to)).write(&mut value);
            model.drain(from as usize..to as usize);
            check(&value, &model, &mut rng);
        }
    }

    #[test]
    fn a_range_by_member_begins_with_the_first_that_is_in_it() {
        let members: [(&[u8], f64); 5] = [(b"a", 0.0), (b"b", 0.0), (b"d", 0.0), (b"e", 0.0), (b"c", 1.0)];
        let set = SmallMembers::of(SEED, members.into_iter());
        let mut value = vec![0; set.bytes().expect("a few")];
        set.write(&mut value);
        let span = |min, max| SmallZset::open(&value).span(&ZRange::Lex { min, max }, false);
        assert_eq!(span(LexBound::Incl(b"b"), LexBound::Incl(b"d")), (1, 3));
        assert_eq!(span(LexBound::Excl(b"b"), LexBound::Excl(b"d")), (2, 2));
        assert_eq!(span(LexBound::Min, LexBound::Max), (0, 5));
        assert_eq!(span(LexBound::Max, LexBound::Min), (5, 5));
        assert_eq!(span(LexBound::Incl(b"e"), LexBound::Max), (3, 5));
    }

    #[test]
    fn what_no_leaf_may_have_is_said() {
        let long = vec![b'x'; LEAF_ELEMENT_BYTES_MAX + 1];
        assert!(!has_place(&long) && has_place(&long[1..]));
        assert_eq!(SmallMembers::of(SEED, [(&long[..], 1.0)].into_iter()).bytes(), None);
        let mut value = vec![0; 40];
        SmallMembers::of(SEED, [(&b"a"[..], 1.0)].into_iter()).write(&mut value);
        assert!(!insert(&mut value, SEED, (&long, 1.0)), "it has no place");
    }
}
