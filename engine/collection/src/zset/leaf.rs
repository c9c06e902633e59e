//! A leaf of a sorted set: some dozens of members in the order of (score, member), packed.
//!
//! ```text
//!   0      8       9       10      12          12 + n*w                                       length of the value
//!   +------+-------+-------+-------+-----------+------------------------------------------------------+
//!   | base | shift | width | n     | n scores  | packed leaf of the members: tags, sizes, members     |
//!   +------+-------+-------+-------+-----------+------------------------------------------------------+
//!   score    a difference of `width` bytes, see `scores`
//!   tag      the lowest byte of the member's hash
//!   member   its bytes, or the number of an object of its own
//! ```
//! A score is found by its index: the scores of the leaf have one width. Four bytes of each score in front of its member were
//! thought of: a search for a score would then read the sizes, and equal scores would take their bytes.
//!
//! The value is as long as the object's room: the members lie at its end, so that those that are added move the front only.
//!
//! This file knows bytes only: no log, no tree, and not which numbers are alive.

use varve_packed::leaf::{LeafElement, PackedLeaf, PackedLeafMut, leaf_bytes};

use super::scores::{SCALE_BYTES, Scale, in_order, score_of};

/// Bytes before the scores.
const HEAD_BYTES: usize = SCALE_BYTES + 2;
/// Bytes of the number of a member that has an object of its own.
const NUMBER_BYTES: usize = 8;

/// A member as a leaf has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LeafMember<'a> {
    /// The exact key of its score.
    pub(super) key: u64,
    /// The lowest byte of its hash.
    pub(super) tag: u8,
    pub(super) element: LeafElement<'a>,
}

/// A leaf cannot be changed in the bytes that it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NoPlace;

/// A leaf to read.
#[derive(Clone, Copy, Debug)]
pub(super) struct ScoredLeaf<'a> {
    value: &'a [u8],
    scale: Scale,
    members: PackedLeaf<'a>,
}

/// The bytes of a leaf of these members: without free room, and those of the members alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LeafBytes {
    pub(super) needed: usize,
    pub(super) members: usize,
}

impl LeafBytes {
    pub(super) fn of<'e>(members: impl Iterator<Item = LeafMember<'e>> + Clone) -> LeafBytes {
        let width = Scale::of(members.clone().map(|member| member.key)).width();
        let (mut count, mut bytes, mut longest) = (0, 0, 0);
        for LeafMember { element, .. } in members {
            let wide_as = if let LeafElement::Here(bytes) = element { bytes.len() } else { usize::MAX };
            (count, bytes, longest) = (count + 1, bytes + size(element), longest.max(wide_as));
        }
        LeafBytes { needed: HEAD_BYTES + count * width + leaf_bytes(count, bytes, longest), members: bytes }
    }
}

#[inline(always)]
fn count_of(value: &[u8]) -> usize {
    u16::from_le_bytes([value[SCALE_BYTES], value[SCALE_BYTES + 1]]).into()
}

fn set_count(value: &mut [u8], count: usize) {
    debug_assert!(count <= usize::from(u16::MAX), "{count} members in a leaf");
    value[SCALE_BYTES..HEAD_BYTES].copy_from_slice(&(count as u16).to_le_bytes());
}

impl<'a> ScoredLeaf<'a> {
    /// Opens a leaf's value.
    ///
    /// # Panics
    /// If it cannot be one.
    #[inline]
    pub(super) fn open(value: &'a [u8]) -> ScoredLeaf<'a> {
        let scale = Scale::read(value);
        let members = PackedLeaf::open(&value[HEAD_BYTES + count_of(value) * scale.width()..]);
        debug_assert_eq!(members.len(), count_of(value), "each member has a score");
        ScoredLeaf { value, scale, members }
    }

    /// Number of members.
    #[inline]
    pub(super) fn len(&self) -> usize {
        self.members.len()
    }

    /// Bytes of the members alone.
    #[inline]
    pub(super) fn member_bytes(&self) -> usize {
        self.members.bytes()
    }

    /// Free bytes of the value.
    #[inline]
    pub(super) fn room(&self) -> usize {
        self.members.room()
    }

    /// The exact key of a member's score.
    #[inline(always)]
    pub(super) fn key(&self, index: usize) -> u64 {
        debug_assert!(index < self.len(), "member {index} of {}", self.len());
        let width = self.scale.width();
        let at = HEAD_BYTES + index * width;
        // Members follow the scores: eight bytes can be read of nearly every leaf.
        let difference = match self.value.get(at..at + 8) {
            Some(word) => u64::from_le_bytes(word.try_into().expect("eight bytes")) & self.scale.mask(),
            None => self.value[at..at + width].iter().rev().fold(0, |all, &byte| all << 8 | u64::from(byte)),
        };
        self.scale.key(difference)
    }

    /// A member's score.
    #[inline(always)]
    pub(super) fn score(&self, index: usize) -> f64 {
        score_of(self.key(index))
    }

    /// Number of members whose score has an order key below this one; with `with` also those that have this one.
    #[inline]
    pub(super) fn below(&self, order_key: u64, with: bool) -> usize {
        let is_below = |index| {
            let key = in_order(self.key(index));
            key < order_key || with && key == order_key
        };
        if self.scale.width() == 0 {
            return if is_below(0) { self.len() } else { 0 };
        }
        partition(0, self.len(), is_below)
    }

    /// The members that have this order key: from the first to behind the last.
    #[inline]
    pub(super) fn run_of(&self, order_key: u64) -> (usize, usize) {
        let from = self.below(order_key, false);
        // Mostly there is none of this key, or one.
        let mut to = from;
        while to < self.len() && in_order(self.key(to)) == order_key {
            to += 1;
            if to - from == 4 {
                return (from, self.below(order_key, true));
            }
        }
        (from, to)
    }

    /// Whether the member at an index stays where it is in this leaf with the score of another key.
    #[inline]
    pub(super) fn stays(&self, index: usize, key: u64) -> bool {
        let order_key = in_order(key);
        (index == 0 || in_order(self.key(index - 1)) < order_key)
            && (index + 1 == self.len() || order_key < in_order(self.key(index + 1)))
    }

    /// Whether the leaf's scale has a difference for this key.
    #[inline]
    pub(super) fn has_difference(&self, key: u64) -> bool {
        self.scale.difference(key).is_some()
    }

    /// The member at an index, without its score.
    #[inline]
    pub(super) fn element(&self, index: usize) -> LeafElement<'a> {
        self.members.nth(index)
    }

    /// The first index in `from..to` at which `is_before` is false; it is true before it, and false from it on.
    #[inline]
    pub(super) fn partition(
        &self,
        from: usize,
        to: usize,
        mut is_before: impl FnMut(LeafElement<'a>) -> bool,
    ) -> usize {
        partition(from, to, |index| is_before(self.members.nth(index)))
    }

    /// The index of the member with this tag that `is` says yes to.
    #[inline(always)]
    pub(super) fn find(&self, tag: u8, is: impl FnMut(LeafElement<'a>) -> bool) -> Option<usize> {
        self.members.find(tag, is).map(|pos| pos.index())
    }

    /// The indexes of all members with this tag.
    pub(super) fn tagged(&self, tag: u8) -> impl Iterator<Item = usize> {
        self.members.tagged(tag)
    }

    /// All members in order.
    pub(super) fn members(&self) -> impl Iterator<Item = LeafMember<'a>> + Clone + use<'a> {
        let leaf = *self;
        leaf.members.iter().enumerate().map(move |(index, (tag, element))| LeafMember {
            key: leaf.key(index),
            tag,
            element,
        })
    }

    /// The numbers of the members that have objects of their own.
    pub(super) fn numbers(&self) -> impl Iterator<Item = u64> + Clone + use<'a> {
        self.members.iter().filter_map(|(_, element)| match element {
            LeafElement::Here(_) => None,
            LeafElement::Elsewhere(number) => Some(number),
        })
    }

    /// Scores and members from an index on.
    #[inline]
    pub(super) fn from(&self, index: usize) -> impl Iterator<Item = (f64, LeafElement<'a>)> + use<'a> {
        let leaf = *self;
        leaf.members.from(index).zip(index..).map(move |(element, index)| (leaf.score(index), element))
    }

    /// Scores and members downwards from the one before `end`.
    #[inline]
    pub(super) fn down_from(&self, end: usize) -> impl Iterator<Item = (f64, LeafElement<'a>)> + use<'a> {
        let leaf = *self;
        leaf.members.down_from(end).zip((0..end).rev()).map(move |(element, index)| (leaf.score(index), element))
    }

    /// Panics if the leaf is not sound. O(N).
    pub(super) fn verify(&self) {
        self.members.verify();
        assert_eq!(self.len(), count_of(self.value), "each member has a score");
    }
}

/// The first number in `from..to` for which `is_before` is false; it is true before it, and false from it on.
#[inline(always)]
fn partition(mut from: usize, to: usize, mut is_before: impl FnMut(usize) -> bool) -> usize {
    debug_assert!(from <= to, "members {from}..{to}");
    let mut left = to - from;
    while left > 0 {
        let half = left / 2;
        if is_before(from + half) {
            from += half + 1;
            left -= half + 1;
        } else {
            left = half;
        }
    }
    from
}

/// Writes a leaf of these members, which are in order, into a value that has the bytes for it.
pub(super) fn write<'e>(value: &mut [u8], members: impl Iterator<Item = LeafMember<'e>> + Clone) {
    let scale = Scale::of(members.clone().map(|member| member.key));
    scale.write(value);
    let (mut at, width) = (HEAD_BYTES, scale.width());
    for member in members.clone() {
        let difference = scale.difference(member.key).expect("the scale is made for this score");
        value[at..at + width].copy_from_slice(&difference.to_le_bytes()[..width]);
        at += width;
    }
    let elements = members.map(|member| (member.tag, member.element));
    let count = PackedLeafMut::init_with(&mut value[at..], elements).expect("room for the members").leaf().len();
    debug_assert_eq!(at, HEAD_BYTES + count * width, "each member has a score");
    set_count(value, count);
}

/// Writes a leaf as it is into a longer or a shorter value, which has the bytes for it.
pub(super) fn copy(value: &mut [u8], from: ScoredLeaf<'_>) {
    debug_assert!(value.len() >= bytes_used(from), "{} bytes for a leaf", value.len());
    let at = HEAD_BYTES + from.len() * from.scale.width();
    value[..at].copy_from_slice(&from.value[..at]);
    from.members.copy_into(&mut value[at..]).expect("room for the members");
}

/// Bytes of a leaf without its free room.
#[inline]
pub(super) fn bytes_used(leaf: ScoredLeaf<'_>) -> usize {
    HEAD_BYTES + leaf.len() * leaf.scale.width() + leaf.members.copied_bytes()
}

/// Bytes of a member in a leaf, without its score, tag and size.
#[inline]
pub(super) fn size(element: LeafElement<'_>) -> usize {
    match element {
        LeafElement::Here(bytes) => bytes.len(),
        LeafElement::Elsewhere(_) => NUMBER_BYTES,
    }
}

/// Bytes of a leaf with a member more, without its free room; `None` if it is not for that leaf's scale.
pub(super) fn bytes_with(leaf: ScoredLeaf<'_>, member: LeafMember<'_>) -> Option<usize> {
    leaf.scale.difference(member.key)?;
    Some(HEAD_BYTES + (leaf.len() + 1) * leaf.scale.width() + leaf.members.needed_with(member.element)?)
}

/// Adds a member, which is to be number `index`; the leaf may have `most` members.
///
/// # Errors
/// If there is no room for it, or the scale has no difference for its score: the leaf has to be written anew. Nothing is
/// changed then.
#[inline]
pub(super) fn insert(value: &mut [u8], index: usize, member: LeafMember<'_>, most: usize) -> Result<(), NoPlace> {
    let leaf = ScoredLeaf::open(value);
    let (count, width) = (leaf.len(), leaf.scale.width());
    debug_assert!(index <= count, "a member before number {index} of {count}");
    if count >= most {
        return Err(NoPlace);
    }
    let needed = leaf.members.needed_with(member.element).ok_or(NoPlace)?;
    let difference = leaf.scale.difference(member.key).ok_or(NoPlace)?;
    let end = HEAD_BYTES + count * width;
    if end + width + needed > value.len() {
        return Err(NoPlace);
    }
    if width > 0 {
        let (at, front) = (HEAD_BYTES + index * width, end + leaf.members.front_bytes());
        value.copy_within(at..front, at + width);
        value[at..at + width].copy_from_slice(&difference.to_le_bytes()[..width]);
    }
    set_count(value, count + 1);
    let mut members = PackedLeafMut::open(&mut value[end + width..]);
    members.insert(index, member.tag, member.element).expect("room for the member");
    Ok(())
}

/// Removes the member at an index; how many are left.
#[inline]
pub(super) fn remove(value: &mut [u8], index: usize) -> usize {
    let leaf = ScoredLeaf::open(value);
    let (count, width) = (leaf.len(), leaf.scale.width());
    let end = HEAD_BYTES + count * width;
    debug_assert!(index < count, "member {index} of {count}");
    let pos = leaf.members.pos(index);
    let mut members = PackedLeafMut::open(&mut value[end..]);
    members.remove(pos);
    let front = end + members.leaf().front_bytes();
    let at = HEAD_BYTES + index * width;
    value.copy_within(at + width..front, at);
    set_count(value, count - 1);
    count - 1
}

/// Gives the member at an index the score of another key, under which it stays where it is; false if the scale has no
/// difference for it.
#[inline]
pub(super) fn set_key(value: &mut [u8], index: usize, key: u64) -> bool {
    let (scale, at) = (Scale::read(value), HEAD_BYTES + index * Scale::read(value).width());
    debug_assert!(index < count_of(value), "member {index} of {}", count_of(value));
    let Some(difference) = scale.difference(key) else { return false };
    value[at..at + scale.width()].copy_from_slice(&difference.to_le_bytes()[..scale.width()]);
    true
}

/// The object of the member at an index has another number now.
pub(super) fn set_number(value: &mut [u8], index: usize, number: u64) {
    let leaf = ScoredLeaf::open(value);
    let (at, pos) = (HEAD_BYTES + leaf.len() * leaf.scale.width(), leaf.members.pos(index));
    debug_assert!(matches!(leaf.element(index), LeafElement::Elsewhere(_)), "member {index} lies in the leaf");
    let mut members = PackedLeafMut::open(&mut value[at..]);
    members.replace_elsewhere(pos, number).expect("a number has the room of a number");
}

#[cfg(test)]
mod tests {
    use super::super::scores::exact_key;
    use super::*;
    use varve_base::rng::Rng;

    #[derive(Clone, Debug, PartialEq)]
    struct Owned {
        key: u64,
        tag: u8,
        element: Result<Vec<u8>, u64>,
    }

    impl Owned {
        fn member(&self) -> LeafMember<'_> {
            let element = match &self.element {
                Ok(bytes) => LeafElement::Here(bytes),
                Err(number) => LeafElement::Elsewhere(*number),
            };
            LeafMember { key: self.key, tag: self.tag, element }
        }
    }

    fn compare(value: &[u8], all: &[Owned]) {
        let leaf = ScoredLeaf::open(value);
        leaf.verify();
        assert!(leaf.members().eq(all.iter().map(Owned::member)));
        for (index, one) in all.iter().enumerate() {
            let order_key = in_order(one.key);
            assert_eq!((leaf.key(index), leaf.element(index)), (one.key, one.member().element));
            assert_eq!(leaf.below(order_key, false), all.iter().filter(|o| in_order(o.key) < order_key).count());
            assert_eq!(leaf.below(order_key, true), all.iter().filter(|o| in_order(o.key) <= order_key).count());
            let shown: Vec<_> = all.iter().map(|o| (score_of(o.key).to_bits(), o.member().element)).collect();
            let bits = |(score, element): (f64, _)| (score.to_bits(), element);
            assert!(leaf.from(index).map(bits).eq(shown[index..].iter().copied()));
            assert!(leaf.down_from(index).map(bits).eq(shown[..index].iter().rev().copied()));
        }
        assert!(bytes_used(leaf) + leaf.room() <= value.len(), "room is what is not used");
    }

    fn random(rng: &mut Rng, kind: u64) -> Owned {
        let score = match kind % 5 {
            0 => rng.below(50) as f64,
            1 => 7.0,
            2 => f64::from_bits(rng.next_u64() >> 2),
            3 => [0.0, -0.0, 1.0, -1.0][rng.below(4) as usize],
            _ => -(rng.below(1 << 20) as f64) / 8.0,
        };
        let element = match rng.below(20) {
            0 if kind > 10 => Err(rng.next_u64()),
            1 if kind > 10 => Ok(vec![b'x'; 200 + rng.below(200) as usize]),
            _ => Ok(rng.next_u64().to_string().into_bytes()),
        };
        Owned { key: exact_key(score), tag: rng.below(4) as u8, element }
    }

    #[test]
    fn a_leaf_is_what_a_sorted_list_is() {
        for seed in 0..60 {
            let mut rng = Rng::seeded(seed);
            let (mut all, mut value) = (Vec::<Owned>::new(), Vec::new());
            for _ in 0..150 {
                let one = random(&mut rng, seed % 20);
                let at = all.partition_point(|o| in_order(o.key) <= in_order(one.key));
                if all.len() > 1 && rng.below(3) == 0 {
                    let index = rng.below(all.len() as u64) as usize;
                    if rng.below(2) == 0 {
                        all.remove(index);
                        assert_eq!(remove(&mut value, index), all.len());
                    } else if let (Err(number), true) = (&mut all[index].element, true) {
                        *number += 1;
                        set_number(&mut value, index, *number);
                    } else if set_key(&mut value, index, all[index].key) {
                        compare(&value, &all);
                    }
                } else {
                    let before = value.clone();
                    let done = !all.is_empty() && insert(&mut value, at, one.member(), 200).is_ok();
                    all.insert(at, one);
                    if !done {
                        assert_eq!(value, before, "a refusal changes nothing");
                        let LeafBytes { needed, members } = LeafBytes::of(all.iter().map(Owned::member));
                        value = vec![0xa5; needed + rng.below(100) as usize];
                        write(&mut value, all.iter().map(Owned::member));
                        assert_eq!(ScoredLeaf::open(&value).member_bytes(), members);
                        assert_eq!(bytes_used(ScoredLeaf::open(&value)), needed);
                    }
                }
                compare(&value, &all);
                let mut copied = vec![0x5a; bytes_used(ScoredLeaf::open(&value)) + rng.below(20) as usize];
                copy(&mut copied, ScoredLeaf::open(&value));
                compare(&copied, &all);
            }
        }
    }
}
