//! A leaf of a sorted set's tree: cells in order, each a reference to an element and 16 bits of its score's order key.
//!
//! ```text
//!   0          8       9          17         25
//!   +----------+-------+----------+----------+-----
//!   | origin   | shift | cell     | cell     | …         origin: u64, shift: u8, cells: u64, all little-endian
//!   +----------+-------+----------+----------+-----
//!
//!   cell   63              48 47                             0
//!         +------------------+-------------------------------+
//!         |  prefix          |  bits of the element's Ref    |
//!         +------------------+-------------------------------+
//!           (key >> shift) - origin
//! ```
//! Prefixes never fall from cell to cell, so a search reads elements only where prefixes are equal. They are exact: none
//! is cut off at either end. A key beyond what 16 bits reach moves the origin or widens the shift, for which the old
//! prefixes are enough: `(key >> s) >> d = key >> (s + d)`. Only making the shift finer again needs the keys themselves;
//! that is done when cells are dealt out anew and their prefixes have come to lie too close together ([`build`]).
//!
//! Four fixed bytes of the key would do as well for a search, but cost two bytes a cell more, and tell scores apart that
//! differ in their upper 20 bits of mantissa only: timestamps in one leaf would all be equal.
//!
//! This file knows bytes only: no log, no spine, and not which references are alive.

/// Bytes before the cells.
pub(super) const HEAD_BYTES: usize = 9;
/// Bytes of a cell.
pub(super) const CELL_BYTES: usize = 8;
/// The most cells that a leaf may be made for.
pub(super) const CELLS_MAX: usize = 128;

const REF_BITS: u32 = 48;
const REF_MASK: u64 = (1 << REF_BITS) - 1;
const PREFIX_MAX: u64 = 0xffff;
/// A new scale uses half of the prefixes, so that the keys that come next are likely to fit.
const SPREAD_WANTED: u64 = PREFIX_MAX / 2;
/// Cells that are dealt out with prefixes in so small a range get a finer scale.
const SPREAD_MIN: u64 = 1 << 11;

/// Bytes of a leaf of so many cells.
#[inline]
pub(super) const fn leaf_bytes(cells: usize) -> usize {
    HEAD_BYTES + cells * CELL_BYTES
}

/// How the prefixes of a leaf follow from the keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Scale {
    /// What prefix 0 stands for.
    origin: u64,
    /// Bits that the keys are shifted by.
    shift: u32,
}

/// Where a key stands to what the prefixes of a leaf can say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    Below,
    At(u64),
    Above,
}

impl Scale {
    /// The finest scale for keys from `first` to `last`, with room at either side.
    pub(super) fn covering(first: u64, last: u64) -> Scale {
        Scale { origin: 0, shift: 0 }.covering_shifted(first, last)
    }

    /// A scale for keys from `first` to `last`, both shifted as here: as fine as this one or coarser.
    fn covering_shifted(self, first: u64, last: u64) -> Scale {
        let mut more = 0;
        while (last >> more) - (first >> more) > SPREAD_WANTED {
            more += 1;
        }
        let (first, last) = (first >> more, last >> more);
        let margin = (PREFIX_MAX - (last - first)) / 2;
        Scale { origin: first.saturating_sub(margin), shift: self.shift + more }
    }

    #[inline]
    pub(super) fn place(self, key: u64) -> Place {
        match (key >> self.shift).checked_sub(self.origin) {
            None => Place::Below,
            Some(prefix) if prefix <= PREFIX_MAX => Place::At(prefix),
            Some(_) => Place::Above,
        }
    }

    /// The prefix of a key that is known to have one.
    #[inline]
    fn prefix(self, key: u64) -> u64 {
        match self.place(key) {
            Place::At(prefix) => prefix,
            other => panic!("a key that lies {other:?} the scale"),
        }
    }

    /// True if keys with one prefix are equal.
    #[inline]
    pub(super) fn is_whole(self) -> bool {
        self.shift == 0
    }
}

/// A leaf to read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cells<'a> {
    scale: Scale,
    cells: &'a [[u8; CELL_BYTES]],
}

impl<'a> Cells<'a> {
    /// Opens a leaf's value.
    ///
    /// # Panics
    /// If it cannot be one.
    #[inline]
    pub(super) fn open(value: &'a [u8]) -> Cells<'a> {
        let (head, rest) = value.split_at(HEAD_BYTES);
        let (cells, odd) = rest.as_chunks::<CELL_BYTES>();
        assert!(odd.is_empty() && head[8] < 64, "a leaf");
        let origin = u64::from_le_bytes(head[..8].try_into().expect("eight bytes"));
        Cells { scale: Scale { origin, shift: u32::from(head[8]) }, cells }
    }

    #[inline]
    pub(super) fn len(&self) -> usize {
        self.cells.len()
    }

    #[inline]
    pub(super) fn scale(&self) -> Scale {
        self.scale
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

    /// The cell with this reference.
    #[inline]
    pub(super) fn position(&self, bits: u64) -> Option<usize> {
        self.cells.iter().position(|cell| u64::from_le_bytes(*cell) & REF_MASK == bits)
    }

    /// The cells whose prefix is this one: from the first of them to behind the last.
    #[inline]
    pub(super) fn equal(&self, prefix: u64) -> (usize, usize) {
        let lo = self.cells.partition_point(|cell| u64::from_le_bytes(*cell) >> REF_BITS < prefix);
        let same = self.cells[lo..].iter().take_while(|cell| u64::from_le_bytes(**cell) >> REF_BITS == prefix);
        // Few are equal, or all: then it is worth another search.
        let few = same.take(4).count();
        if few < 4 {
            return (lo, lo + few);
        }
        (lo, lo + self.cells[lo..].partition_point(|cell| u64::from_le_bytes(*cell) >> REF_BITS == prefix))
    }

    /// The cells as they may be dealt out anew.
    pub(super) fn items(&self) -> impl Iterator<Item = Item> + use<'a> {
        let Cells { scale, cells } = *self;
        cells.iter().map(move |cell| {
            let cell = u64::from_le_bytes(*cell);
            Item { shifted: scale.origin + (cell >> REF_BITS), shift: scale.shift, bits: cell & REF_MASK }
        })
    }
}

/// A cell on its way from one leaf to another.
#[derive(Clone, Copy, Debug)]
pub(super) struct Item {
    /// The key, shifted; nothing of it if that is by 64.
    shifted: u64,
    shift: u32,
    /// The bits of the reference.
    pub(super) bits: u64,
}

impl Item {
    /// A cell of which only the element is known.
    pub(super) fn of_ref(bits: u64) -> Item {
        Item { shifted: 0, shift: u64::BITS, bits }
    }

    /// The key shifted by so much, which is no less than it is already.
    #[inline]
    fn shifted_by(&self, shift: u32) -> u64 {
        self.shifted.checked_shr(shift - self.shift).unwrap_or(0)
    }
}

/// Writes a leaf of these cells over the whole of `out`; `key_of` tells the key of an element, and is asked only if the
/// scale is to become finer.
pub(super) fn build(out: &mut [u8], items: &[Item], key_of: impl Fn(u64) -> u64) {
    assert_eq!(out.len(), leaf_bytes(items.len()), "a leaf's bytes");
    let (Some(first), Some(last)) = (items.first(), items.last()) else { panic!("a leaf has cells") };
    let shift = items.iter().map(|item| item.shift).max().expect("a leaf has cells");
    let (low, high) = (first.shifted_by(shift), last.shifted_by(shift));
    if shift > 0 && high - low < SPREAD_MIN {
        let (low, high) = (key_of(first.bits), key_of(last.bits));
        let scale = Scale::covering(low, high);
        let key_of = |bits| if low == high { low } else { key_of(bits) };
        return write(out, scale, items.iter().map(|item| scale.prefix(key_of(item.bits)) << REF_BITS | item.bits));
    }
    let scale = Scale { origin: 0, shift }.covering_shifted(low, high);
    let prefix = |item: &Item| item.shifted_by(scale.shift) - scale.origin;
    write(out, scale, items.iter().map(|item| prefix(item) << REF_BITS | item.bits));
}

/// Writes a leaf of one cell.
pub(super) fn build_one(out: &mut [u8; leaf_bytes(1)], key: u64, bits: u64) {
    let scale = Scale::covering(key, key);
    write(out, scale, std::iter::once(scale.prefix(key) << REF_BITS | bits));
}

fn write(out: &mut [u8], scale: Scale, cells: impl Iterator<Item = u64>) {
    write_head(out, scale);
    for (place, cell) in out[HEAD_BYTES..].chunks_exact_mut(CELL_BYTES).zip(cells) {
        place.copy_from_slice(&cell.to_le_bytes());
    }
}

fn write_head(value: &mut [u8], scale: Scale) {
    value[..8].copy_from_slice(&scale.origin.to_le_bytes());
    value[8] = scale.shift as u8;
}

/// Inserts a cell at `at` of a leaf whose last cell's bytes are free.
pub(super) fn insert(value: &mut [u8], at: usize, key: u64, bits: u64) {
    let end = value.len() - CELL_BYTES;
    let prefix = match Cells::open(&value[..end]).scale.place(key) {
        Place::At(prefix) => prefix,
        _ => reach(&mut value[..end], key).prefix(key),
    };
    let place = HEAD_BYTES + at * CELL_BYTES;
    value.copy_within(place..end, place + CELL_BYTES);
    value[place..place + CELL_BYTES].copy_from_slice(&(prefix << REF_BITS | bits).to_le_bytes());
}

/// Closes the gap of the cells `from..to`; the last cells' bytes are free then.
pub(super) fn remove(value: &mut [u8], from: usize, to: usize) {
    value.copy_within(leaf_bytes(to).., leaf_bytes(from));
}

/// Gives a cell another key and reference if it stays between its neighbours by their prefixes; the first and the last cell
/// never do.
pub(super) fn update(value: &mut [u8], at: usize, key: u64, bits: u64) -> bool {
    let cells = Cells::open(value);
    let Place::At(prefix) = cells.scale.place(key) else { return false };
    let stays = at > 0 && at + 1 < cells.len() && cells.prefix(at - 1) < prefix && prefix < cells.prefix(at + 1);
    if stays {
        value[leaf_bytes(at)..leaf_bytes(at + 1)].copy_from_slice(&(prefix << REF_BITS | bits).to_le_bytes());
    }
    stays
}

/// Puts another reference into a cell.
pub(super) fn set_bits(value: &mut [u8], at: usize, bits: u64) {
    let cell = Cells::open(value).cell(at) & !REF_MASK | bits;
    value[leaf_bytes(at)..leaf_bytes(at + 1)].copy_from_slice(&cell.to_le_bytes());
}

/// Changes the scale so that it has a prefix for `key`.
#[cold]
fn reach(value: &mut [u8], key: u64) -> Scale {
    let cells = Cells::open(value);
    let old = cells.scale;
    let key = key >> old.shift;
    let scale = if cells.len() == 0 {
        old.covering_shifted(key, key)
    } else {
        let (low, high) = (old.origin + cells.prefix(0), old.origin + cells.prefix(cells.len() - 1));
        old.covering_shifted(low.min(key), high.max(key))
    };
    for cell in value[HEAD_BYTES..].chunks_exact_mut(CELL_BYTES) {
        let number = u64::from_le_bytes((&*cell).try_into().expect("eight bytes"));
        let prefix = ((old.origin + (number >> REF_BITS)) >> (scale.shift - old.shift)) - scale.origin;
        cell.copy_from_slice(&(prefix << REF_BITS | number & REF_MASK).to_le_bytes());
    }
    write_head(value, scale);
    scale
}

#[cfg(test)]
mod tests {
    use super::*;
    use varve_base::rng::Rng;

    /// Every cell's prefix must be what its key says; the key of element `bits` is `keys[bits - 1]`.
    fn check(value: &[u8], keys: &[u64]) {
        let cells = Cells::open(value);
        for at in 0..cells.len() {
            let key = keys[cells.bits(at) as usize - 1];
            assert_eq!(cells.scale().place(key), Place::At(cells.prefix(at)));
            assert!(at == 0 || cells.prefix(at - 1) <= cells.prefix(at));
        }
    }

    #[test]
    fn prefixes_stay_exact_whatever_comes() {
        for seed in 0..200 {
            let mut rng = Rng::seeded(seed);
            let mut keys: Vec<u64> = Vec::new();
            let mut value = vec![0; leaf_bytes(1)];
            for n in 0..100 {
                let key = match seed % 5 {
                    0 => rng.next_u64(),
                    1 => (1 << 62) + n * 1000,
                    2 => (1 << 62) - n * 1_000_000,
                    3 => rng.below(3) * (u64::MAX / 2),
                    _ => rng.next_u64() >> rng.below(64),
                };
                keys.push(key);
                let bits = keys.len() as u64;
                if n == 0 {
                    build_one((&mut value[..]).try_into().unwrap(), key, bits);
                    continue;
                }
                let cells = Cells::open(&value);
                let at = (0..cells.len()).filter(|&at| keys[cells.bits(at) as usize - 1] <= key).count();
                value.resize(value.len() + CELL_BYTES, 0);
                insert(&mut value, at, key, bits);
                check(&value, &keys);
                assert_eq!(Cells::open(&value).position(bits), Some(at));
            }
            let mut items: Vec<Item> = Cells::open(&value).items().collect();
            while items.len() > 1 {
                items.truncate(items.len() / 2);
                let mut out = vec![0; leaf_bytes(items.len())];
                build(&mut out, &items, |bits| keys[bits as usize - 1]);
                check(&out, &keys);
                items = Cells::open(&out).items().collect();
            }
            remove(&mut value, 10, 40);
            value.truncate(leaf_bytes(70));
            check(&value, &keys);
        }
    }

    #[test]
    fn a_scale_becomes_finer_when_its_cells_crowd() {
        let keys: Vec<u64> = (0..64).map(|n| (1 << 60) + n * 7).collect();
        let crowded = |&key: &u64| Item { shifted: key >> 40, shift: 40, bits: key % (1 << 40) / 7 + 1 };
        let items: Vec<Item> = keys.iter().map(crowded).collect();
        let mut out = vec![0; leaf_bytes(64)];
        build(&mut out, &items, |bits| keys[bits as usize - 1]);
        check(&out, &keys);
        let cells = Cells::open(&out);
        assert!(cells.scale().is_whole());
        assert_eq!(cells.equal(cells.prefix(5)), (5, 6));
    }
}
