//! The public face: one table as its users see it, be it one part or, while it grows, two.

use crate::cell::IndexCell;
use crate::geometry::IndexGeometry;
use crate::hash_space::{POSITIONS, Rehash, position};
use crate::hint::Hint;
use crate::part::{Part, PartPos, Wanted};
use std::marker::PhantomData;
use varve_base::Ref;
use varve_base::group::{BucketHead, CELLS, Mask, Tag};
use varve_base::mem::Line;

/// Index of the part that lives on, in `IndexTable::parts`.
pub(crate) const NEW: usize = 0;

/// Index of the part that entries leave.
pub(crate) const OLD: usize = 1;

/// Entries by hash.
///
/// Nothing is allocated before the first insert. All operations but `verify` and `for_each` are bounded: by the few
/// buckets that an insert moves, and by the length of a chain, which is that of the entries with equal hashes.
pub struct IndexTable<E = Ref> {
    /// Positions below it are in `parts[NEW]`, the others in `parts[OLD]`; all of them when nothing moves.
    pub(crate) split: u64,
    pub(crate) parts: [Part; 2],
    pub(crate) len: usize,
    /// From this many entries on an insert has more to do.
    pub(crate) grow_at: usize,
    /// Buckets of the old part that are done.
    pub(crate) moved: u64,
    /// Buckets that an insert moves.
    pub(crate) move_pace: u32,
    /// Buckets that are emptied of the part that is being emptied, once that has begun.
    pub(crate) drained: Option<u32>,
    /// The system has refused the next size.
    pub(crate) refused: bool,
    /// The system has refused a smaller size: none is asked for from this number of entries on.
    pub(crate) shrink_below: usize,
    /// Buckets for the entries that are expected, 0 while none are.
    pub(crate) expected: u64,
    pub(crate) geometry: IndexGeometry,
    pub(crate) hint: Option<Hint>,
    /// The kind of entry that all words stand for.
    kind: PhantomData<E>,
}

/// The place of an entry. Valid until the next call on `&mut` that is not `replace`.
///
/// One that is used later gives a wrong entry or panics; it never reaches outside of the table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct IndexEntry(PartPos);

const _: () = assert!(size_of::<Option<IndexEntry>>() == 12);

/// Figures of a table. All of them are at hand, none is counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct TableStats {
    /// Entries.
    pub entries: usize,
    /// Buckets of the table, the new one while it grows.
    pub buckets: u64,
    /// Buckets of the old table, 0 when nothing moves.
    pub old_buckets: u64,
    /// Of those, how many have been moved.
    pub moved_buckets: u64,
    /// Overflow buckets in use.
    pub overflow_buckets: usize,
    /// Bytes that the table holds of the system, see [`IndexTable::bytes`].
    pub bytes: usize,
}

/// Twelve bits of a tag, all that a timing wheel keeps of it.
#[derive(Clone, Copy)]
struct TagPart(u16);

impl Wanted for TagPart {
    #[inline(always)]
    fn among(self, head: &BucketHead) -> Mask {
        head.with_bits(Tag(self.0), 0x0fff)
    }
}

impl<E: IndexCell> IndexTable<E> {
    /// An empty table without memory.
    pub fn new(geometry: IndexGeometry) -> IndexTable<E> {
        let parts = [Part::none(), Part::none()];
        let (split, move_pace) = (POSITIONS, geometry.move_buckets);
        let (len, grow_at, moved, drained) = (0, 0, 0, None);
        let (refused, shrink_below, expected, hint, kind) = (false, usize::MAX, 0, None, PhantomData);
        IndexTable {
            split,
            parts,
            len,
            grow_at,
            moved,
            move_pace,
            drained,
            refused,
            shrink_below,
            expected,
            geometry,
            hint,
            kind,
        }
    }

    /// Entries.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no entries.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Bytes that the table holds of the system: buckets, without those that were given back or not yet reached while
    /// it grows, and overflow buckets.
    #[inline]
    pub fn bytes(&self) -> usize {
        let [new, old] = &self.parts;
        let mut bytes = old.bucket_bytes() + old.pool().bytes() + new.pool().bytes();
        if self.split < POSITIONS {
            let touched = (new.home(self.split) as usize + 1) * size_of::<crate::bucket::Bucket>();
            let untouched = new.size_bytes().saturating_sub(touched.next_multiple_of(varve_base::mem::PAGE_BYTES));
            bytes += new.bucket_bytes().saturating_sub(untouched);
        } else {
            bytes += new.bucket_bytes();
        }
        bytes
    }

    /// Entries per cell of the table's own size, 0 without a table.
    #[inline]
    pub fn load(&self) -> f64 {
        if self.parts[NEW].is_none() { 0.0 } else { self.len as f64 / (self.parts[NEW].count() as f64 * CELLS as f64) }
    }

    /// Asks for the home bucket of `hash`.
    #[inline]
    pub fn prefetch(&self, hash: u64) {
        self.line(hash).fetch();
    }

    /// Where the home bucket of `hash` is.
    #[inline]
    pub fn line(&self, hash: u64) -> Line {
        let position = position(hash);
        let part = &self.parts[self.side(position)];
        part.line(part.home(position))
    }

    /// The data that is needed to prefetch without holding the table; it stays right for this table's life.
    pub fn hint(&mut self) -> Hint {
        if self.hint.is_none() {
            self.hint = Some(Hint::new());
            self.publish_hint();
        }
        self.hint.clone().expect("it was just made")
    }

    #[inline(always)]
    fn side(&self, position: u64) -> usize {
        usize::from(position >= self.split)
    }

    #[inline(always)]
    fn wanted(&self, position: u64, wanted: impl Wanted) -> impl Iterator<Item = (IndexEntry, E)> {
        let side = self.side(position);
        let part = &self.parts[side];
        let candidates = part.candidates(part.home(position), wanted);
        candidates.map(move |(spot, word)| (IndexEntry(PartPos { side: side as u8, ..spot }), E::of(word)))
    }

    /// The entries that may have this hash: those with the same tag and, in nearly all cases, the same hash.
    #[inline(always)]
    pub fn candidates(&self, hash: u64) -> impl Iterator<Item = (IndexEntry, E)> {
        self.wanted(position(hash), Tag(hash as u16))
    }

    /// The entry with this hash of which `is_it` says so. It is asked for candidates with the same tag and, in nearly
    /// all cases, the same hash; it must say yes to an entry of this hash only.
    #[inline]
    pub fn find(&self, hash: u64, mut is_it: impl FnMut(E) -> bool) -> Option<IndexEntry> {
        self.candidates(hash).find(|&(_, r)| is_it(r)).map(|(entry, _)| entry)
    }

    /// The entry with this hash and exactly this reference.
    #[inline]
    pub fn find_ref(&self, hash: u64, r: E) -> Option<IndexEntry> {
        self.find(hash, |other| other == r)
    }

    /// The entry of which `is_it` says so, by 48 bits of its hash: `position << 12 | tag & 0xfff`. `is_it` must say yes
    /// only to an entry whose hash has these bits.
    pub fn find_partial(&self, bits48: u64, mut is_it: impl FnMut(E) -> bool) -> Option<IndexEntry> {
        debug_assert!(bits48 >> 48 == 0);
        let mut candidates = self.wanted(bits48 >> 12 & (POSITIONS - 1), TagPart(bits48 as u16 & 0x0fff));
        candidates.find(|&(_, r)| is_it(r)).map(|(entry, _)| entry)
    }

    /// The reference of an entry.
    #[inline]
    pub fn get(&self, entry: IndexEntry) -> E {
        E::of(self.parts[usize::from(entry.0.side & 1)].spot_bucket(entry.0).get(usize::from(entry.0.cell)))
    }

    /// Gives an entry another reference: the object has moved or is rewritten, its hash is the same.
    #[inline]
    pub fn replace(&mut self, entry: IndexEntry, r: E) {
        self.parts[usize::from(entry.0.side & 1)].replace(entry.0, r.word());
    }

    /// Removes an entry.
    pub fn remove(&mut self, entry: IndexEntry) -> E {
        let r = self.parts[usize::from(entry.0.side & 1)].remove(entry.0);
        self.len -= 1;
        E::of(r)
    }

    /// Adds an entry, which must not be there yet. While the table grows, moves a few buckets first.
    #[inline]
    pub fn insert(&mut self, hash: u64, r: E, rehash: &impl Rehash<E>) {
        if self.len >= self.grow_at {
            self.make_way(rehash);
        }
        let position = position(hash);
        let side = self.side(position);
        let part = &mut self.parts[side];
        part.put(part.home(position), Tag(hash as u16), r.word(), self.geometry.displace);
        self.len += 1;
    }

    /// Removes everything and gives all memory back at once.
    pub fn clear(&mut self) {
        drop(self.take());
    }

    /// Leaves an empty table and returns what was there. The hint stays with this one.
    pub fn take(&mut self) -> IndexTable<E> {
        let mut taken = std::mem::replace(self, IndexTable::new(self.geometry));
        self.hint = taken.hint.take();
        self.publish_hint();
        taken
    }

    /// Figures.
    pub fn stats(&self) -> TableStats {
        let [new, old] = &self.parts;
        let count = |part: &Part| if part.is_none() { 0 } else { part.count() };
        TableStats {
            entries: self.len,
            buckets: count(new),
            old_buckets: count(old),
            moved_buckets: self.moved,
            overflow_buckets: new.pool().used() + old.pool().used(),
            bytes: self.bytes(),
        }
    }
}
