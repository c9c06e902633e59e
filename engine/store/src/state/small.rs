//! The value of a small collection: a packed node, a set of integers, a packed leaf or a leaf of members in the order of
//! their scores, each the whole buffer, free room included. A small stream's value has no free room, and neither has a hash's with
//! fields that expire.
//!
//! ```text
//! hash, dated    | packed leaf of pairs, some with their time | the least of these times, 6 bytes |
//! ```

use varve_base::hash::hash64;
use varve_collection::stream::SmallStream;
use varve_collection::zset::small::SmallZset;
use varve_packed::intset::IntSet;
use varve_packed::leaf::{LeafElement, PackedLeaf, PackedLeafMut, pair};
use varve_packed::node::{Grow, Node, PackedEntry};
use varve_segment::Object;

use super::link::Encoding;
use super::types::{SmallForm, Type};

/// Bits of a hash below those of a cursor.
const HASH_BITS_BELOW_CURSOR: u32 = 16;

/// The value of a small collection.
#[derive(Clone, Copy)]
pub(crate) enum Small<'a> {
    /// Lists.
    Packed(Node<'a>),
    /// Sets of nothing but integers.
    Integers(IntSet<'a>),
    /// Hashes, and sets that have other members too.
    Leaf(PackedLeaf<'a>),
    /// Hashes with fields that expire, and when the first of them does, in milliseconds of Unix time.
    Dated(PackedLeaf<'a>, i64),
    /// Sorted sets.
    Scored(SmallZset<'a>),
    /// Streams, and the bytes of the value.
    Stream(SmallStream<'a>, &'a [u8]),
}

impl<'a> Small<'a> {
    /// The value of a key's object; `None` for a string and for a big collection.
    pub(crate) fn of(object: &Object<'a>) -> Option<Small<'a>> {
        let value = object.value();
        match (Type::of_kind(object.kind()).row().small, Encoding::of(object.tag())) {
            (SmallForm::Plain, _) | (_, Encoding::Big) => None,
            (SmallForm::Entries, _) => Some(Small::Packed(Node::open(value))),
            (SmallForm::Stream, _) => Some(Small::Stream(SmallStream::open(value), value)),
            (SmallForm::Scored, _) => Some(Small::Scored(SmallZset::open(value))),
            (SmallForm::Fields, Encoding::Dated) => {
                let (leaf, due_ms) = split_dated(value);
                Some(Small::Dated(PackedLeaf::open(leaf), due_ms))
            }
            (SmallForm::Members, Encoding::Small) => Some(Small::Integers(IntSet::open(value))),
            (SmallForm::Members | SmallForm::Fields, _) => Some(Small::Leaf(PackedLeaf::open(value))),
        }
    }

    /// Entries, integers, members or fields.
    pub(crate) fn len(&self) -> usize {
        match self {
            Small::Packed(node) => node.len(),
            Small::Integers(set) => set.len(),
            Small::Leaf(leaf) | Small::Dated(leaf, _) => leaf.len(),
            Small::Scored(set) => set.len(),
            Small::Stream(stream, _) => stream.len() as usize,
        }
    }

    /// Bytes of a copy without free room.
    pub(crate) fn copied_bytes(&self) -> usize {
        match self {
            Small::Packed(node) => node.needed_bytes(0),
            Small::Integers(set) => set.copied_bytes(),
            Small::Leaf(leaf) => leaf.copied_bytes(),
            Small::Dated(leaf, _) => leaf.copied_bytes() + DUE_BYTES,
            Small::Scored(set) => set.copied_bytes(),
            Small::Stream(_, value) => value.len(),
        }
    }

    /// Writes a copy into `out`, which has at least [`Small::copied_bytes`] bytes; what is over is free room. A node gets
    /// that room where `grow` says.
    pub(crate) fn copy_into(&self, out: &mut [u8], grow: Grow) {
        debug_assert!(out.len() >= self.copied_bytes(), "{} bytes for a copy of {}", out.len(), self.copied_bytes());
        let copied = match self {
            Small::Packed(node) => node.copy_into(out, grow),
            Small::Integers(set) => set.copy_into(out),
            Small::Leaf(leaf) => leaf.copy_into(out),
            Small::Dated(leaf, due_ms) => {
                let (bytes, due) = out.split_last_chunk_mut::<DUE_BYTES>().expect("room for a time");
                due.copy_from_slice(&due_bytes(*due_ms));
                leaf.copy_into(bytes)
            }
            Small::Scored(set) => return set.copy_into(out),
            Small::Stream(_, value) => return out.copy_from_slice(value),
        };
        copied.expect("the copy has the bytes that it asked for");
    }

    /// Checks the bytes against the form that the type's small values have; `seed` is that of hashes. No small collection
    /// is empty, but for streams. O(N).
    pub(crate) fn verify(&self, form: SmallForm, seed: u64) {
        assert!(self.len() > 0 || form == SmallForm::Stream, "a small value of {form:?} is empty");
        match (self, form) {
            (Small::Stream(stream, _), SmallForm::Stream) => stream.verify(),
            (Small::Packed(node), SmallForm::Entries) => node.verify(),
            (Small::Scored(set), SmallForm::Scored) => set.verify(seed),
            (Small::Integers(set), SmallForm::Members) => set.verify(),
            (Small::Dated(leaf, due_ms), SmallForm::Fields) => {
                Small::Leaf(*leaf).verify(form, seed);
                assert_eq!(least_due(*leaf), Some(*due_ms), "the time of the first field to expire");
            }
            (Small::Leaf(leaf), SmallForm::Members | SmallForm::Fields) => {
                leaf.verify();
                for (tag, element) in leaf.iter() {
                    let name = if form == SmallForm::Members {
                        PackedEntry::Bytes(here(element))
                    } else {
                        pair::check(here(element)).expect("a field and its value");
                        pair::split(here(element)).0
                    };
                    assert_eq!(tag, leaf_tag(seed, name.text(&mut [0; 20])), "the tag is of the name's hash");
                }
            }
            _ => panic!("a value of {form:?} in another form"),
        }
    }
}

/// Bytes behind the leaf of a hash with fields that expire.
const DUE_BYTES: usize = 6;

fn due_bytes(due_ms: i64) -> [u8; DUE_BYTES] {
    debug_assert!((0..=pair::PAIR_EXPIRY_MAX).contains(&due_ms), "a field that expires at {due_ms}");
    *due_ms.to_le_bytes().first_chunk().expect("six of eight bytes")
}

/// The leaf of a dated hash's value, and when the first of its fields expires.
fn split_dated(value: &[u8]) -> (&[u8], i64) {
    let (leaf, due) = value.split_last_chunk::<DUE_BYTES>().expect("a time behind the leaf");
    let mut bytes = [0; 8];
    bytes[..DUE_BYTES].copy_from_slice(due);
    (leaf, i64::from_le_bytes(bytes))
}

/// The leaf of a small hash's object.
#[inline(always)]
pub(crate) fn leaf_of<'a>(object: &Object<'a>) -> PackedLeaf<'a> {
    PackedLeaf::open(&object.value()[..leaf_span(object)])
}

/// Bytes of the leaf in a small hash's value.
#[inline(always)]
pub(crate) fn leaf_span(object: &Object<'_>) -> usize {
    let behind = if Encoding::of(object.tag()) == Encoding::Dated { DUE_BYTES } else { 0 };
    object.value().len() - behind
}

/// When the first field of a small hash expires, in milliseconds of Unix time; `None` if none does, and for other objects.
#[inline]
pub(crate) fn due_of(object: &Object<'_>) -> Option<i64> {
    let is_dated = object.kind() == Type::Hash.kind() && Encoding::of(object.tag()) == Encoding::Dated;
    is_dated.then(|| split_dated(object.value()).1)
}

fn least_due(leaf: PackedLeaf<'_>) -> Option<i64> {
    elements_of(leaf).filter_map(pair::expiry_ms).min()
}

/// The value of a hash that has, or has had, fields which expire, and its encoding: without such fields it is an outgrown one.
pub(crate) fn dated_value(leaf: PackedLeaf<'_>) -> (Encoding, Vec<u8>) {
    let due_ms = least_due(leaf);
    let bytes = leaf.copied_bytes();
    let mut value = vec![0; bytes + if due_ms.is_some() { DUE_BYTES } else { 0 }];
    leaf.copy_into(&mut value[..bytes]).expect("the copy has the bytes that it asked for");
    match due_ms {
        Some(due_ms) => {
            value[bytes..].copy_from_slice(&due_bytes(due_ms));
            (Encoding::Dated, value)
        }
        None => (Encoding::Outgrown, value),
    }
}

/// The rest of a dated hash at `now_ms`, as [`dated_value`] gives it: `None` if no field is left. The names of the fields whose
/// time has come are shown.
pub(crate) fn without_due(
    object: &Object<'_>,
    now_ms: i64,
    mut show: impl FnMut(&[u8]),
) -> Option<(Encoding, Vec<u8>)> {
    let leaf = leaf_of(object);
    let is_due = |element: &[u8]| pair::expiry_ms(element).is_some_and(|due_ms| due_ms <= now_ms);
    let due = elements_of(leaf).filter(|element| is_due(element));
    due.for_each(|element| show(pair::split(element).0.text(&mut [0; 20])));
    let mut bytes = vec![0; leaf.copied_bytes()];
    let kept = leaf.iter().filter(|(_, element)| !is_due(here(*element)));
    let kept = PackedLeafMut::init_with(&mut bytes, kept).expect("a part of the leaf");
    (!kept.leaf().is_empty()).then(|| dated_value(kept.leaf()))
}

/// The byte of an element's hash by which the leaf of a small hash or set finds it.
#[inline]
pub(crate) fn leaf_tag(seed: u64, name: &[u8]) -> u8 {
    hash64(seed, name) as u8
}

/// The bytes of an element of a small value's leaf.
#[inline]
pub(crate) fn here(element: LeafElement<'_>) -> &[u8] {
    match element {
        LeafElement::Here(bytes) => bytes,
        LeafElement::Elsewhere(_) => unreachable!("a small value has all elements in its key's object"),
    }
}

/// A small set.
#[derive(Clone, Copy)]
pub(crate) enum SmallSet<'a> {
    /// One of nothing but integers.
    Integers(IntSet<'a>),
    /// One that has, or has had, other members too.
    Texts(PackedLeaf<'a>),
}

/// The members of a small set: integers in ascending order, texts in the order in which they came.
enum SmallSetMembers<I, T> {
    Integers(I),
    Texts(T),
}

impl<'a> SmallSet<'a> {
    /// The set whose value this is, a leaf or a set of integers.
    pub(crate) fn open(value: &'a [u8], is_leaf: bool) -> SmallSet<'a> {
        if is_leaf { SmallSet::Texts(PackedLeaf::open(value)) } else { SmallSet::Integers(IntSet::open(value)) }
    }

    /// Its members: integers in ascending order, texts in the order in which they came.
    #[inline]
    pub(crate) fn members(self) -> impl Iterator<Item = PackedEntry<'a>> {
        match self {
            SmallSet::Integers(set) => SmallSetMembers::Integers(set.iter().map(PackedEntry::Int)),
            SmallSet::Texts(leaf) => SmallSetMembers::Texts(elements_of(leaf).map(PackedEntry::Bytes)),
        }
    }
}

impl<'a, I, T> Iterator for SmallSetMembers<I, T>
where
    I: Iterator<Item = PackedEntry<'a>>,
    T: Iterator<Item = PackedEntry<'a>>,
{
    type Item = PackedEntry<'a>;

    #[inline]
    fn next(&mut self) -> Option<PackedEntry<'a>> {
        match self {
            SmallSetMembers::Integers(members) => members.next(),
            SmallSetMembers::Texts(members) => members.next(),
        }
    }

    /// All of them: the form is looked at once.
    #[inline]
    fn fold<B, F: FnMut(B, PackedEntry<'a>) -> B>(self, first: B, fold: F) -> B {
        match self {
            SmallSetMembers::Integers(members) => members.fold(first, fold),
            SmallSetMembers::Texts(members) => members.fold(first, fold),
        }
    }
}

/// The elements of a small value's leaf in the order in which they came.
#[inline]
fn elements_of<'a>(leaf: PackedLeaf<'a>) -> impl ExactSizeIterator<Item = &'a [u8]> {
    leaf.iter().map(|(_, element)| here(element))
}

/// SCAN's step over the elements of a leaf in their key's object, which are named by `name`: shows about `count` of those
/// whose hash lies at `cursor` or behind it, in the order of hashes, and gives the next cursor, 0 at the end. The cursor is the
/// leaf table's: a collection that outgrows its object between two steps goes on where it was.
pub(crate) fn scan_leaf<'a>(
    leaf: PackedLeaf<'a>,
    (seed, cursor, count): (u64, u64, usize),
    name: impl Fn(&'a [u8]) -> PackedEntry<'a>,
    mut show: impl FnMut(&'a [u8]),
) -> u64 {
    let position = |element| hash64(seed, name(element).text(&mut [0; 20])) >> HASH_BITS_BELOW_CURSOR;
    let rest = elements_of(leaf).map(|element| (position(element), element)).filter(|(at, _)| *at >= cursor);
    let mut rest: Vec<_> = rest.collect();
    rest.sort_unstable_by_key(|(at, _)| *at);
    let mut last = cursor;
    for (shown, (at, element)) in rest.into_iter().enumerate() {
        // Elements of one position are shown together: no cursor stands between them.
        if shown >= count && at != last {
            return at;
        }
        show(element);
        last = at;
    }
    0
}

/// The fields and values of a small hash's leaf, in the order in which the fields came.
#[inline]
pub(crate) fn pairs_of<'a>(leaf: PackedLeaf<'a>) -> impl ExactSizeIterator<Item = (PackedEntry<'a>, PackedEntry<'a>)> {
    elements_of(leaf).map(pair::split)
}
