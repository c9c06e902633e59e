//! A leaf of a sorted set's tree: cells in order, each a reference to an element and 16 bits of where it stands.
//!
//! ```text
//!              0          8       9          17         25
//!              +----------+-------+----------+----------+-----
//!   by score   | origin   | shift | cell     | cell     | …      origin: u64, shift: u8, cells: u64, all little-endian
//!              +----------+-------+----------+----------+-----
//!
//!              0          8            9       17       18        18 + n
//!              +----------+------------+-------+--------+---------+----------+-----
//!   by member  | origin   | 80 | shift | key   | n      | common prefix    | cell     | …      key: u64, n: u8, n bytes of common prefix
//!              +----------+------------+-------+--------+---------+----------+-----        (c0 | shift: key prefixes of digits)
//!
//!   cell   63              48 47                             0
//!         +------------------+-------------------------------+
//!         |  prefix          |  bits of the element's Ref    |
//!         +------------------+-------------------------------+
//!           (key >> shift) - origin           by score: the score's order key
//!           (key prefix >> shift) - origin          by member, where all scores are equal: see `key_prefix`
//! ```
//! Prefixes never fall from cell to cell, so a search reads elements only where prefixes are equal. They are exact: none
//! is cut off at either end. A leaf that has no prefix for what is to be inserted is built anew with an origin further away
//! or a wider shift, for which the old prefixes are enough: `(key >> s) >> d = key >> (s + d)`. Only making the shift finer
//! again needs the keys themselves; that is done when cells are dealt out anew and their prefixes have come to lie too close
//! together ([`build`]).
//!
//! Four fixed bytes of the key would do as well for a search, but cost two bytes a cell more, and tell scores apart that
//! differ in their upper 20 bits of mantissa only: timestamps in one leaf would all be equal.
//!
//! This file knows bytes only: no log, no tree, and not which references are alive.

use std::cmp::Ordering;

use smallvec::SmallVec;

use super::key_prefix::{Alphabet, COMMON_MAX, CommonPrefix, rest};

/// Bytes before the cells of a leaf by score.
const HEAD_BYTES: usize = 9;
/// Bytes of a leaf by member beside its cells and the common prefix.
const TIED_BYTES: usize = 9;
/// Beside the shift: the leaf is by member.
const TIED: u8 = 0x80;
/// Beside that: its key prefixes are of digits.
const DIGITS: u8 = 0x40;
/// Bytes of a cell.
pub(super) const CELL_BYTES: usize = 8;
/// The most cells that a leaf may be made for.
pub(super) const CELLS_MAX: usize = 128;
/// The most bytes of a leaf.
pub(super) const BYTES_MAX: usize = HEAD_BYTES + TIED_BYTES + COMMON_MAX + CELLS_MAX * CELL_BYTES;
/// Bytes by which the common prefix of a leaf may grow in place.
const COMMON_SPARE: usize = 4;
/// Leaves of fewer cells are by score when they are built.
const TIED_MIN: usize = 4;

const REF_BITS: u32 = 48;
const REF_MASK: u64 = (1 << REF_BITS) - 1;
const PREFIX_MAX: u64 = 0xffff;
/// A new scale uses half of the prefixes, so that the keys that come next are likely to fit.
const SPREAD_WANTED: u64 = PREFIX_MAX / 2;
/// Cells that are dealt out with prefixes in so small a range get a finer scale.
const SPREAD_MIN: u64 = 1 << 11;

/// How the prefixes of a leaf follow from the keys, or from the key prefixes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Scale {
    /// The value that prefix 0 stands for.
    origin: u64,
    /// Bits that the keys are shifted by.
    shift: u32,
}

/// Where an element stands to what the prefixes of a leaf can say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PrefixPos {
    /// Before all that has a prefix.
    Below,
    /// Among those with this prefix.
    At(u64),
    /// Behind all that has a prefix.
    Above,
    /// Anywhere: prefixes do not tell.
    Anywhere,
}

impl Scale {
    /// The finest scale for keys from `first` to `last`, with room at either side.
    fn covering(first: u64, last: u64) -> Scale {
        Scale { origin: 0, shift: 0 }.covering_shifted(first, last)
    }

    /// A scale for keys from `first` to `last`, both shifted as here: as fine as this one or coarser.
    fn covering_shifted(self, first: u64, last: u64) -> Scale {
        let mut more = 0;
        while (last >> more) - (first >> more) > SPREAD_WANTED {
            more += 1;
        }
        let (first, last) = (first >> more, last >> more);
        debug_assert!(first <= last && last - first <= SPREAD_WANTED, "keys {first}..={last}");
        let margin = (PREFIX_MAX - (last - first)) / 2;
        Scale { origin: first.saturating_sub(margin), shift: self.shift + more }
    }

    #[inline]
    fn place(self, key: u64) -> PrefixPos {
        match (key >> self.shift).checked_sub(self.origin) {
            None => PrefixPos::Below,
            Some(prefix) if prefix <= PREFIX_MAX => PrefixPos::At(prefix),
            Some(_) => PrefixPos::Above,
        }
    }

    /// The prefix of a key that is known to have one.
    #[inline]
    fn prefix(self, key: u64) -> u64 {
        match self.place(key) {
            PrefixPos::At(prefix) => prefix,
            other => panic!("a key that lies {other:?} the scale"),
        }
    }
}

/// The common prefix of a leaf whose cells are in the order of members.
#[derive(Clone, Copy, Debug)]
struct Tie<'a> {
    key: u64,
    alphabet: Alphabet,
    common: &'a [u8],
}

/// A leaf to read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cells<'a> {
    scale: Scale,
    tie: Option<Tie<'a>>,
    cells: &'a [[u8; CELL_BYTES]],
}

/// Bytes before the cells of a leaf.
#[inline]
pub(super) fn head_bytes(value: &[u8]) -> usize {
    if value[8] & TIED == 0 { HEAD_BYTES } else { HEAD_BYTES + TIED_BYTES + usize::from(value[17]) }
}

/// Bytes of the head with room for a longer common prefix: that of a leaf by member changes when its cells are dealt
/// out anew.
pub(super) fn head_room(value: &[u8]) -> usize {
    let common = head_bytes(value).saturating_sub(HEAD_BYTES + TIED_BYTES);
    head_bytes(value) + if value[8] & TIED == 0 { 0 } else { COMMON_SPARE.min(COMMON_MAX - common) }
}

#[inline]
fn word(value: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(value[at..at + 8].try_into().expect("eight bytes"))
}

impl<'a> Cells<'a> {
    /// Opens a leaf's value.
    ///
    /// # Panics
    /// If it cannot be one.
    #[inline]
    pub(super) fn open(value: &'a [u8]) -> Cells<'a> {
        let (head, rest) = value.split_at(head_bytes(value));
        let (cells, odd) = rest.as_chunks::<CELL_BYTES>();
        let shift = head[8] & !(TIED | DIGITS);
        assert!(odd.is_empty(), "a leaf");
        let alphabet = if head[8] & DIGITS == 0 { Alphabet::Bytes } else { Alphabet::Digits };
        let tied = || Tie { key: word(head, HEAD_BYTES), alphabet, common: &head[HEAD_BYTES + TIED_BYTES..] };
        let scale = Scale { origin: word(head, 0), shift: u32::from(shift) };
        Cells { scale, tie: (head[8] & TIED != 0).then(tied), cells }
    }

    #[inline]
    pub(super) fn len(&self) -> usize {
        self.cells.len()
    }

    #[inline]
    fn cell(&self, at: usize) -> u64 {
        u64::from_le_bytes(self.cells[at])
    }

    /// The prefix of a cell.
    #[inline]
    pub(super) fn prefix(&self, at: usize) -> u64 {
        self.cell(at) >> REF_BITS
    }

    /// The bits of the reference in a cell.
    #[inline]
    pub(super) fn bits(&self, at: usize) -> u64 {
        self.cell(at) & REF_MASK
    }

    /// Where elements of a key stand, as far as keys tell, and whether all at that place have this key.
    #[inline]
    pub(super) fn place_of_key(&self, key: u64) -> (PrefixPos, bool) {
        match self.tie {
            None => (self.scale.place(key), self.scale.shift == 0),
            Some(tie) => match key.cmp(&tie.key) {
                Ordering::Less => (PrefixPos::Below, true),
                Ordering::Greater => (PrefixPos::Above, true),
                Ordering::Equal => (PrefixPos::Anywhere, true),
            },
        }
    }

    /// Where an element stands.
    #[inline]
    pub(super) fn place(&self, key: u64, member: &[u8]) -> PrefixPos {
        match self.tie {
            None => self.scale.place(key),
            Some(tie) if tie.key == key => self.place_of_member(member),
            Some(tie) if key < tie.key => PrefixPos::Below,
            Some(_) => PrefixPos::Above,
        }
    }

    /// Where a member stands, if all have one key.
    #[inline]
    pub(super) fn place_of_member(&self, member: &[u8]) -> PrefixPos {
        let Some(tie) = self.tie else { return PrefixPos::Anywhere };
        match rest(tie.common, member) {
            Ok(rest) => self.scale.place(tie.alphabet.key_prefix(rest)),
            Err(Ordering::Less) => PrefixPos::Below,
            Err(_) => PrefixPos::Above,
        }
    }

    /// The cells at a place: from the first of them to behind the last.
    #[inline]
    pub(super) fn at(&self, place: PrefixPos) -> (usize, usize) {
        let prefix = match place {
            PrefixPos::Below => return (0, 0),
            PrefixPos::Above => return (self.len(), self.len()),
            PrefixPos::Anywhere => return (0, self.len()),
            PrefixPos::At(prefix) => prefix,
        };
        let lo = self.cells.partition_point(|cell| u64::from_le_bytes(*cell) >> REF_BITS < prefix);
        debug_assert!(prefix <= PREFIX_MAX, "a prefix of 16 bits");
        let same = self.cells[lo..].iter().take_while(|cell| u64::from_le_bytes(**cell) >> REF_BITS == prefix);
        // Few are equal, or all: then it is worth another search.
        let few = same.take(4).count();
        if few < 4 {
            return (lo, lo + few);
        }
        (lo, lo + self.cells[lo..].partition_point(|cell| u64::from_le_bytes(*cell) >> REF_BITS == prefix))
    }

    /// The cell with this reference, which is at this place.
    #[inline]
    pub(super) fn position(&self, place: PrefixPos, bits: u64) -> Option<usize> {
        let (lo, hi) = self.at(place);
        (lo..hi).find(|&at| self.bits(at) == bits)
    }

    /// The source of the cells' prefixes, for dealing them out anew.
    pub(super) fn source(&self) -> Source {
        Source {
            tie: self.tie.map(|tie| (tie.key, tie.alphabet, CommonPrefix::of(tie.common))),
            shift: self.scale.shift,
        }
    }

    /// The cells as they may be dealt out anew with others; theirs is the `source`th of the sources.
    pub(super) fn items(&self, source: usize) -> impl Iterator<Item = Item> + use<'a> {
        let Cells { scale, cells, .. } = *self;
        let source = (source as u64) << REF_BITS;
        cells.iter().map(move |cell| {
            let cell = u64::from_le_bytes(*cell);
            Item { known: scale.origin + (cell >> REF_BITS), tagged: source | cell & REF_MASK }
        })
    }
}

/// Where cells come from that are dealt out anew.
#[derive(Clone, Copy, Debug)]
pub(super) struct Source {
    /// Key, alphabet and common prefix, if the leaf was by member.
    tie: Option<(u64, Alphabet, CommonPrefix)>,
    /// The known part of its cells is shifted by this, from 0 for everything to 64 for nothing.
    shift: u32,
}

impl Source {
    /// Cells whose keys are known.
    pub(super) const KEYS: Source = Source { tie: None, shift: 0 };
    /// Cells of which only the elements are known.
    pub(super) const REFS: Source = Source { tie: None, shift: u64::BITS };

    /// How keys follow from what is known.
    fn keys(&self) -> KeyProjection {
        match self.tie {
            Some((key, ..)) => KeyProjection { right: 0, mask: 0, more: key, shift: 0 },
            None => KeyProjection { right: 0, mask: u64::MAX, more: 0, shift: self.shift },
        }
    }

    /// How key prefixes behind a common prefix follow from what is known.
    fn key_prefixes(&self, common: &[u8], alphabet: Alphabet) -> KeyProjection {
        const NOTHING: KeyProjection = KeyProjection { right: 0, mask: 0, more: 0, shift: u64::BITS };
        let own = match &self.tie {
            Some((_, own, common)) if *own == alphabet => common.get(),
            _ => return NOTHING,
        };
        if let Some(gone) = common.get(own.len()..) {
            // The first bytes of what is known have gone to the common prefix, if it was them that were known.
            let bits = if alphabet.reads(gone) { alphabet.bits() * gone.len() as u32 } else { u64::BITS };
            let left = u64::BITS.saturating_sub(self.shift + bits);
            let mask = 1u64.checked_shl(left).map_or(u64::MAX, |bit| bit - 1);
            return KeyProjection { mask, shift: u64::BITS - left, ..NOTHING };
        }
        let (front, moved) = (&own[common.len()..], alphabet.bits() * (own.len() - common.len()) as u32);
        let more = alphabet.key_prefix(front);
        if moved >= u64::BITS || !alphabet.reads(front) {
            return KeyProjection { more, shift: 0, ..NOTHING };
        }
        let shift = self.shift.saturating_sub(moved);
        KeyProjection { right: moved.saturating_sub(self.shift), mask: u64::MAX, more: more >> shift, shift }
    }
}

/// How a key or a key prefix follows from what is known of a cell.
#[derive(Clone, Copy, Debug)]
struct KeyProjection {
    right: u32,
    mask: u64,
    more: u64,
    /// The results are shifted by this.
    shift: u32,
}

impl KeyProjection {
    /// The key or the key prefix, as far as it is known.
    #[inline(always)]
    fn project(&self, known: u64) -> u64 {
        (known >> self.right) & self.mask | self.more
    }

    /// The prefix shifted by `wanted`, which is no less than it is already.
    #[inline]
    fn shifted_by(&self, wanted: u32, known: u64) -> u64 {
        debug_assert!(wanted >= self.shift, "no finer than what is known");
        self.project(known).checked_shr(wanted - self.shift).unwrap_or(0)
    }
}

/// A cell on its way from one leaf to another.
#[derive(Clone, Copy, Debug)]
pub(super) struct Item {
    /// The key, or the key prefix if the source was by member, shifted as there.
    known: u64,
    /// The number of the source above the bits of the reference.
    tagged: u64,
}

impl Item {
    /// A cell of this key, from [`Source::KEYS`] or, then the key is none, from [`Source::REFS`].
    pub(super) fn new(key: u64, bits: u64, source: usize) -> Item {
        debug_assert!(bits <= REF_MASK, "bits of a reference");
        debug_assert!(source < 1 << (64 - REF_BITS), "the number of a source has 16 bits");
        Item { known: key, tagged: (source as u64) << REF_BITS | bits }
    }

    #[inline]
    fn source(&self) -> usize {
        (self.tagged >> REF_BITS) as usize
    }

    /// The bits of the reference.
    #[inline]
    pub(super) fn bits(&self) -> u64 {
        self.tagged & REF_MASK
    }
}

/// LeafElements, told by the bits of their references.
pub(super) trait LeafElements<'e>: Copy {
    fn key(self, bits: u64) -> u64;
    fn member(self, bits: u64) -> &'e [u8];
}

type KeyProjections = SmallVec<[KeyProjection; 8]>;

/// Writes a leaf of these cells, which are in order; gives its bytes. LeafElements are asked about only where not enough is
/// known of them.
pub(super) fn build<'o, 'e>(
    out: &'o mut [u8; BYTES_MAX],
    items: &[Item],
    sources: &[Source],
    elements: impl LeafElements<'e>,
) -> &'o [u8] {
    let (Some(first), Some(last)) = (items.first(), items.last()) else { panic!("a leaf has cells") };
    debug_assert!(items.len() <= CELLS_MAX, "{} cells in a leaf", items.len());
    debug_assert!(items.iter().all(|item| item.source() < sources.len()), "cells come from the sources");
    let runs = items.chunk_by(|a, b| a.source() == b.source());
    let present = runs.fold(0u64, |present, run| present | 1 << run[0].source());
    let projections: KeyProjections = sources.iter().map(Source::keys).collect();
    let of_present = projections.iter().enumerate().filter(|(n, _)| present & 1 << n != 0);
    let shift = of_present.map(|(_, projection)| projection.shift).max().expect("cells have sources");
    let [mut low, mut high] = [first, last].map(|item| projections[item.source()].shifted_by(shift, item.known));
    debug_assert!(low <= high, "cells are in order");
    let scale = if shift > 0 && high - low < SPREAD_MIN {
        (low, high) = (elements.key(first.bits()), elements.key(last.bits()));
        Scale::covering(low, high)
    } else {
        Scale { origin: 0, shift }.covering_shifted(low, high)
    };
    if low == high && scale.shift == 0 && items.len() >= TIED_MIN {
        return build_tied(out, low, items, sources, elements);
    }
    write_head(out, scale);
    write_cells(out, HEAD_BYTES, items, &projections, scale, |bits| if low == high { low } else { elements.key(bits) })
}

/// Builds a leaf whose cells all have one key.
fn build_tied<'o, 'e>(
    out: &'o mut [u8; BYTES_MAX],
    key: u64,
    items: &[Item],
    sources: &[Source],
    elements: impl LeafElements<'e>,
) -> &'o [u8] {
    let [first, last] = [0, items.len() - 1].map(|at| elements.member(items[at].bits()));
    debug_assert!(first <= last, "members are in order");
    let common = CommonPrefix::common(first, last);
    let common = common.get();
    let alphabet = if sources.iter().any(|source| matches!(source.tie, Some((_, Alphabet::Bytes, _)))) {
        // Once there were other bytes than digits nearby, so that it does not change back and forth.
        Alphabet::Bytes
    } else {
        Alphabet::of(&first[common.len()..], &last[common.len()..])
    };
    let key_prefix = |member: &[u8]| alphabet.key_prefix(&member[common.len()..]);
    let (low, high) = (key_prefix(first), key_prefix(last));
    debug_assert!(low <= high, "key prefixes never fall");
    // A key that is known less well than this would put too many cells under one prefix: their members are read.
    let enough = ((high - low) / SPREAD_MIN).checked_ilog2().unwrap_or(0);
    let projections: KeyProjections = sources.iter().map(|source| source.key_prefixes(common, alphabet)).collect();
    let shift =
        projections.iter().map(|projection| projection.shift).filter(|&shift| shift <= enough).max().unwrap_or(0);
    let scale = Scale { origin: 0, shift }.covering_shifted(low >> shift, high >> shift);
    write_head(out, scale);
    out[8] |= TIED | if alphabet == Alphabet::Digits { DIGITS } else { 0 };
    out[9..17].copy_from_slice(&key.to_le_bytes());
    out[17] = common.len() as u8;
    let head = HEAD_BYTES + TIED_BYTES + common.len();
    out[HEAD_BYTES + TIED_BYTES..head].copy_from_slice(common);
    write_cells(out, head, items, &projections, scale, |bits| key_prefix(elements.member(bits)))
}

fn write_head(out: &mut [u8], scale: Scale) {
    out[..8].copy_from_slice(&scale.origin.to_le_bytes());
    out[8] = scale.shift as u8;
}

/// Writes the cells; `exact` tells the key or the key prefix of an element of which not enough is known.
fn write_cells<'o>(
    out: &'o mut [u8; BYTES_MAX],
    head: usize,
    items: &[Item],
    projections: &KeyProjections,
    scale: Scale,
    exact: impl Fn(u64) -> u64,
) -> &'o [u8] {
    let bytes = &mut out[..head + items.len() * CELL_BYTES];
    let (mut places, _) = bytes[head..].as_chunks_mut::<CELL_BYTES>();
    for run in items.chunk_by(|a, b| a.source() == b.source()) {
        let projection = projections[run[0].source()];
        let (mine, others) = places.split_at_mut(run.len());
        places = others;
        if projection.shift <= scale.shift {
            for (place, item) in mine.iter_mut().zip(run) {
                let prefix = (projection.project(item.known) >> (scale.shift - projection.shift)) - scale.origin;
                *place = (prefix << REF_BITS | item.bits()).to_le_bytes();
            }
        } else {
            for (place, item) in mine.iter_mut().zip(run) {
                *place = (scale.prefix(exact(item.bits())) << REF_BITS | item.bits()).to_le_bytes();
            }
        }
    }
    bytes
}

/// Inserts a cell at `at` of a leaf whose last cell's bytes are free.
pub(super) fn insert(value: &mut [u8], at: usize, prefix: u64, bits: u64) {
    debug_assert!(prefix <= PREFIX_MAX && bits <= REF_MASK, "a cell");
    let (head, end) = (head_bytes(value), value.len() - CELL_BYTES);
    debug_assert!(head + at * CELL_BYTES <= end, "in the leaf, or behind its last cell");
    let place = head + at * CELL_BYTES;
    value.copy_within(place..end, place + CELL_BYTES);
    value[place..place + CELL_BYTES].copy_from_slice(&(prefix << REF_BITS | bits).to_le_bytes());
}

/// Closes the gap of the cells `from..to`; the last cells' bytes are free then.
pub(super) fn remove(value: &mut [u8], from: usize, to: usize) {
    debug_assert!(from <= to && head_bytes(value) + to * CELL_BYTES <= value.len(), "cells {from}..{to} of the leaf");
    let head = head_bytes(value);
    value.copy_within(head + to * CELL_BYTES.., head + from * CELL_BYTES);
}

/// Gives a cell another key and reference if it stays between its neighbours by their prefixes; the first and the last cell
/// never do, nor any of a leaf by member.
pub(super) fn update(value: &mut [u8], at: usize, key: u64, bits: u64) -> bool {
    let cells = Cells::open(value);
    let (PrefixPos::At(prefix), None) = (cells.scale.place(key), cells.tie) else { return false };
    let stays = at > 0 && at + 1 < cells.len() && cells.prefix(at - 1) < prefix && prefix < cells.prefix(at + 1);
    if stays {
        put(value, at, prefix << REF_BITS | bits);
    }
    stays
}

/// Puts another reference into a cell.
pub(super) fn set_bits(value: &mut [u8], at: usize, bits: u64) {
    debug_assert!(bits <= REF_MASK, "bits of a reference");
    let cell = Cells::open(value).cell(at) & !REF_MASK | bits;
    put(value, at, cell);
}

fn put(value: &mut [u8], at: usize, cell: u64) {
    debug_assert!(head_bytes(value) + (at + 1) * CELL_BYTES <= value.len(), "a cell of the leaf");
    let place = head_bytes(value) + at * CELL_BYTES;
    value[place..place + CELL_BYTES].copy_from_slice(&cell.to_le_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;
    use varve_base::rng::Rng;

    /// Key and member of the element `bits` are the `bits - 1`th.
    #[derive(Clone, Copy)]
    struct All<'e>(&'e [(u64, Vec<u8>)]);

    impl<'e> All<'e> {
        fn of(self, bits: u64) -> &'e (u64, Vec<u8>) {
            &self.0[bits as usize - 1]
        }
    }

    impl<'e> LeafElements<'e> for All<'e> {
        fn key(self, bits: u64) -> u64 {
            self.of(bits).0
        }

        fn member(self, bits: u64) -> &'e [u8] {
            &self.of(bits).1
        }
    }

    /// Every cell's prefix must be what its element says, and the elements in order.
    fn check(value: &[u8], all: All<'_>) {
        let cells = Cells::open(value);
        for at in 0..cells.len() {
            let (key, member) = all.of(cells.bits(at));
            let place = PrefixPos::At(cells.prefix(at));
            assert_eq!(cells.place(*key, member), place);
            assert_eq!(cells.position(place, cells.bits(at)), Some(at));
            assert!(at == 0 || all.of(cells.bits(at - 1)) < all.of(cells.bits(at)));
        }
    }

    fn built(items: &[Item], sources: &[Source], all: All<'_>) -> Vec<u8> {
        let mut bytes = [0; BYTES_MAX];
        let value = build(&mut bytes, items, sources, all).to_vec();
        check(&value, all);
        value
    }

    fn key(rng: &mut Rng, kind: u64, n: u64) -> u64 {
        match kind {
            0 => rng.next_u64(),
            1 => (1 << 62) + n * 1000,
            2 => (1 << 62) - n * 1_000_000,
            3 => rng.below(3) * (u64::MAX / 2),
            4 => rng.next_u64() >> rng.below(64),
            _ => 1 << 63,
        }
    }

    fn member(rng: &mut Rng, kind: u64, n: u64) -> Vec<u8> {
        match kind {
            0 => format!("element:{:012}", rng.below(100_000)).into_bytes(),
            1 => (0..rng.below(4)).map(|_| [0, 255, b'x'][rng.below(3) as usize]).collect(),
            2 if !n.is_multiple_of(3) => {
                format!("{:05}{}", rng.below(30_000), ["", "x", "/7", "-"][n as usize % 4]).into_bytes()
            }
            2 => [vec![b'p'; rng.below(300) as usize], rng.next_u64().to_le_bytes().to_vec()].concat(),
            3 => [vec![7; 290], vec![rng.below(256) as u8; rng.below(10) as usize]].concat(),
            _ => format!("m{n}").into_bytes(),
        }
    }

    #[test]
    fn prefixes_stay_exact_whatever_comes() {
        for seed in 0..240 {
            let mut rng = Rng::seeded(seed);
            let (keys, members) = (seed % 6, seed / 6 % 5);
            let mut elements: Vec<(u64, Vec<u8>)> = Vec::new();
            let mut value = Vec::new();
            for n in 0..100 {
                let new = (key(&mut rng, keys, n), member(&mut rng, members, n));
                if elements.contains(&new) {
                    continue;
                }
                elements.push(new);
                let (all, bits) = (All(&elements), elements.len() as u64);
                let (key, member) = all.of(bits);
                if n == 0 {
                    value = built(&[Item::new(*key, bits, 0)], &[Source::KEYS], all);
                    continue;
                }
                let cells = Cells::open(&value);
                let at = (0..cells.len()).filter(|&at| all.of(cells.bits(at)) < all.of(bits)).count();
                if let PrefixPos::At(prefix) = cells.place(*key, member) {
                    value.resize(value.len() + CELL_BYTES, 0);
                    insert(&mut value, at, prefix, bits);
                } else {
                    let mut items: Vec<Item> = cells.items(0).collect();
                    items.insert(at, Item::new(*key, bits, 1));
                    value = built(&items, &[cells.source(), Source::KEYS], all);
                }
                check(&value, all);
            }
            deal_out(&value, All(&elements), &mut rng);
        }
    }

    /// Parts of a leaf, put together again in several ways.
    fn deal_out(value: &[u8], all: All<'_>, rng: &mut Rng) {
        let cells = Cells::open(value);
        let refs: Vec<u64> = (0..cells.len()).map(|at| cells.bits(at)).collect();
        for _ in 0..10 {
            let mut parts = Vec::new();
            let mut rest = &refs[..];
            while !rest.is_empty() && parts.len() < 5 {
                let (part, others) = rest.split_at(1 + rng.below(rest.len() as u64) as usize);
                rest = others;
                let items: Vec<Item> = part.iter().map(|&bits| Item::new(0, bits, 0)).collect();
                parts.push(built(&items, &[Source::REFS], all));
            }
            let sources: Vec<Source> = parts.iter().map(|part| Cells::open(part).source()).collect();
            let parts = parts.iter().enumerate();
            let items: Vec<Item> = parts.flat_map(|(n, part)| Cells::open(part).items(n).collect::<Vec<_>>()).collect();
            let (from, to) = (rng.below(items.len() as u64) as usize, items.len());
            let mut whole = built(&items[from..to], &sources, all);
            let count = Cells::open(&whole).len();
            let gone = rng.below(count as u64) as usize;
            remove(&mut whole, gone, gone + (count - gone) / 2);
            whole.truncate(whole.len() - (count - gone) / 2 * CELL_BYTES);
            check(&whole, all);
        }
    }

    #[test]
    fn a_scale_becomes_finer_when_its_cells_crowd() {
        let elements: Vec<(u64, Vec<u8>)> = (0..64).map(|n| ((1 << 60) + n * 7, Vec::new())).collect();
        let items: Vec<Item> = elements.iter().zip(1..).map(|((key, _), bits)| Item::new(key >> 40, bits, 0)).collect();
        let crowded = Source { tie: None, shift: 40 };
        let out = built(&items, &[crowded], All(&elements));
        let cells = Cells::open(&out);
        assert_eq!(cells.place_of_key(elements[5].0), (PrefixPos::At(cells.prefix(5)), true));
        assert_eq!(cells.at(PrefixPos::At(cells.prefix(5))), (5, 6));
    }

    #[test]
    fn members_of_equal_scores_are_told_apart() {
        let elements: Vec<(u64, Vec<u8>)> =
            (0..120u64).map(|n| (1 << 63, format!("element:{:012}", 47_000 + n * 3).into_bytes())).collect();
        let items: Vec<Item> = (1..=120).map(|bits| Item::new(0, bits, 0)).collect();
        let out = built(&items, &[Source::REFS], All(&elements));
        let cells = Cells::open(&out);
        let alike = (0..120).map(|at| {
            let (lo, hi) = cells.at(PrefixPos::At(cells.prefix(at)));
            hi - lo
        });
        assert!(alike.clone().max() <= Some(1), "{:?}", alike.collect::<Vec<_>>());
        assert_eq!(cells.place(1 << 63, b"element:00000001"), PrefixPos::Below);
        assert_eq!(cells.place(1 << 63, b"f"), PrefixPos::Above);
        assert_eq!((cells.place(1, b"f"), cells.place(u64::MAX, b"")), (PrefixPos::Below, PrefixPos::Above));
    }
}
