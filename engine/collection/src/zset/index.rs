//! The way from a member to its leaf: an index whose cells name leaves by number.
//!
//! ```text
//!   hash of a member   63        52 51                 32 31      16 15             0
//!                     +------------+---------------------+----------+----------------+
//!                     |            |  place, 20 bits     |          |  tag, 16 bits  |
//!                     +------------+---------------------+----------+----------------+
//!   cell               tag  |  47      place      28 | 27     number of the leaf     0 |
//!
//!   hash in the table  51      place      32 | 31       tag        16 | 15       tag        0
//! ```
//! A leaf that moves changes one cell of the tree's table of leaves, and none here. A cell says the whole hash that its table
//! knows, so that a table which grows reads no member. Of the hash that are 36 bits; the tag stands for the low bits of the
//! position, which tell buckets apart only where there are millions of them.
//!
//! Two members may have the same cell: the same 36 bits and one leaf. Either cell is then right for both of them.
//!
//! Not here: where a leaf lies, and which of its members is meant.

use varve_base::group::Tag;
use varve_base::mem::Line;
use varve_index::{CellNumber, IndexEntry, IndexGeometry, IndexTable, Rehash, TableStats};

use crate::CollectionId;
use crate::counted_tree::Leaf;

/// Buckets of the first table of a set that becomes big at some hundred members.
const FIRST_BUCKETS: u32 = 24;
/// Buckets of the first table of a set that is big from its first member on, because that is a long one.
const FEW_BUCKETS: u32 = 2;
/// Members from which the first table is the larger one.
const MANY: usize = 64;
/// Sets grow at different sizes, so that many alike do not all get larger tables at one time.
const STAGGER: u32 = 16;
/// Large tables grow by little: their load stays over 0.80.
const GROWTH: f64 = 1.125;
/// Buckets that a scan looks at for each member asked for, where most of them are empty.
const SCAN_BUCKETS_EACH: usize = 10;

const LEAF_BITS: u32 = 28;
const PLACE_AT: u32 = 32;
const PLACE_MASK: u64 = (1 << 20) - 1;

/// The cell of members with this hash in this leaf.
#[inline(always)]
fn cell(hash: u64, leaf: Leaf) -> CellNumber {
    assert!(leaf.number() >> LEAF_BITS == 0, "leaf {} has no cell", leaf.number());
    CellNumber::new(place(hash) << LEAF_BITS | u64::from(leaf.number()))
}

#[inline(always)]
fn place(hash: u64) -> u64 {
    hash >> PLACE_AT & PLACE_MASK
}

/// The hash as the table knows it.
#[inline(always)]
fn table_hash(place: u64, tag: u16) -> u64 {
    debug_assert!(place <= PLACE_MASK, "a place of 20 bits");
    place << PLACE_AT | u64::from(tag) << 16 | u64::from(tag)
}

#[inline(always)]
fn of_member(hash: u64) -> u64 {
    table_hash(place(hash), hash as u16)
}

/// Whether a cell, found under the tag of a hash, is of members with this hash.
#[inline(always)]
fn has_hash(cell: CellNumber, hash: u64) -> bool {
    cell.get() >> LEAF_BITS == place(hash)
}

/// Gives the hash of a cell.
struct OfCell;

impl Rehash<CellNumber> for OfCell {
    #[inline]
    fn hash(&self, cell: CellNumber, tag: Tag) -> u64 {
        table_hash(cell.get() >> LEAF_BITS, tag.0)
    }
}

/// The number of a cell's leaf.
#[inline(always)]
fn number(cell: CellNumber) -> u32 {
    (cell.get() & ((1 << LEAF_BITS) - 1)) as u32
}

/// The members of a set by their hashes; see the head of the file.
pub(super) struct MemberIndex {
    table: IndexTable<CellNumber>,
}

/// A cell that a scan shows.
#[derive(Clone, Copy, Debug)]
pub(super) struct ScannedCell {
    /// The number of the leaf.
    pub(super) leaf: u32,
    place: u64,
    tag: u16,
}

impl ScannedCell {
    /// The tag of the member in its leaf.
    pub(super) fn leaf_tag(self) -> u8 {
        self.tag as u8
    }

    /// Whether the cell is of members with this hash.
    pub(super) fn has_hash(self, hash: u64) -> bool {
        self.place == place(hash) && self.tag == hash as u16
    }
}

impl MemberIndex {
    /// An empty index for the set of this number, which is about to get `expected` members.
    pub(super) fn new(id: CollectionId, expected: usize) -> MemberIndex {
        let shard_scale = (id.number() % STAGGER, STAGGER);
        let first_buckets = if expected < MANY { FEW_BUCKETS } else { FIRST_BUCKETS };
        debug_assert!(shard_scale.0 < shard_scale.1, "a part of the stagger");
        let geometry = IndexGeometry { first_buckets, growth: GROWTH, shard_scale, ..IndexGeometry::default() };
        MemberIndex { table: IndexTable::new(geometry) }
    }

    pub(super) fn len(&self) -> usize {
        self.table.len()
    }

    pub(super) fn bytes(&self) -> usize {
        self.table.bytes()
    }

    pub(super) fn stats(&self) -> TableStats {
        self.table.stats()
    }

    /// Where the bucket of a hash is.
    #[inline]
    pub(super) fn line(&self, hash: u64) -> Line {
        self.table.line(of_member(hash))
    }

    /// The entry of the member with this hash, which is in the first leaf that `is_in` says yes to, given its number.
    #[inline(always)]
    pub(super) fn find(&self, hash: u64, mut is_in: impl FnMut(u32) -> bool) -> Option<IndexEntry> {
        self.table.find(of_member(hash), |cell| has_hash(cell, hash) && is_in(number(cell)))
    }

    /// Adds a member of a leaf.
    #[inline]
    pub(super) fn insert(&mut self, hash: u64, leaf: Leaf) {
        self.table.insert(of_member(hash), cell(hash, leaf), &OfCell);
    }

    /// Removes a member that was found.
    pub(super) fn remove(&mut self, entry: IndexEntry) {
        debug_assert!(!self.table.is_empty(), "an entry that was found");
        self.table.remove(entry);
    }

    /// Removes a member of a leaf.
    pub(super) fn remove_of(&mut self, hash: u64, leaf: Leaf) {
        let entry = self.table.find_ref(of_member(hash), cell(hash, leaf)).expect("a member is in the index");
        self.table.remove(entry);
    }

    /// A member with this hash goes from one leaf to another.
    #[inline]
    pub(super) fn repoint(&mut self, hash: u64, from: Leaf, to: Leaf) {
        let entry = self.table.find_ref(of_member(hash), cell(hash, from)).expect("a member is in the index");
        self.table.replace(entry, cell(hash, to));
    }

    /// Shows cells from `cursor` on, about `count` of them, and gives the next cursor, 0 at the end. `show` gives the bytes that it has
    /// shown for a cell: they end the step too.
    pub(super) fn scan(&self, cursor: u64, count: usize, mut show: impl FnMut(ScannedCell) -> usize) -> u64 {
        let (mut shown, mut bytes, mut buckets) = (0, 0, count.saturating_mul(SCAN_BUCKETS_EACH));
        let mut next = Some(cursor);
        while let (Some(from), true) = (next, shown < count && bytes < crate::SCAN_BYTES && buckets > 0) {
            buckets -= 1;
            next = self.table.scan_tagged(from, &OfCell, |cell, tag| {
                shown += 1;
                bytes += show(ScannedCell { leaf: number(cell), place: cell.get() >> LEAF_BITS, tag: tag.0 });
            });
        }
        next.unwrap_or(0)
    }

    /// True while the table moves to another size, or should.
    #[inline]
    pub(super) fn wants_step(&self) -> bool {
        self.table.is_moving() || self.table.wants_move()
    }

    /// Moves about `buckets` buckets towards the table's other size.
    pub(super) fn step(&mut self, buckets: usize) {
        self.table.step(&OfCell, buckets);
    }

    /// Gives back some of the table, whose cells mean nothing any more; true when nothing is left of it.
    pub(super) fn discard_step(&mut self) -> bool {
        self.table.discard_step()
    }

    /// Panics if the table is not sound. O(N).
    pub(super) fn verify(&self) {
        self.table.verify(&OfCell);
    }
}
