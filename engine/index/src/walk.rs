//! Going through a table: scan in the order of hashes, sampling, and everything at once.
//!
//! A scan's cursor is a position in hash space, not a place in a table. Where a table has been cut into more or fewer
//! buckets meanwhile, the cursor may point into the middle of a bucket: the whole bucket is shown, so that an entry may
//! come twice, but none whose position is at or behind the cursor is passed over.

use crate::bucket::EXTENSION_REACH;
use crate::cell::IndexCell;
use crate::hash_space::{POSITIONS, Rehash};
use crate::table::{IndexTable, NEW, OLD};
use std::ops::{ControlFlow, Range};
use varve_base::group::{CELLS, Tag};
use varve_base::rng::Rng;

/// Random cells that `sample` looks at before it walks.
const SAMPLE_TRIES: usize = 128;

/// The buckets in which there may be entries: all but those that a move has emptied or not come to.
struct BucketRanges {
    /// The first of the new part.
    new: u64,
    /// Of the old part, these and the first few before them.
    old: Range<u64>,
    /// All of them, with overflow buckets.
    all: u64,
}

impl<E: IndexCell> IndexTable<E> {
    /// Shows the entries of the bucket that holds position `from`, and returns the position to go on from.
    pub fn scan(&self, from: u64, rehash: &impl Rehash<E>, mut emit: impl FnMut(E)) -> Option<u64> {
        self.scan_tagged(from, rehash, |entry, _| emit(entry))
    }

    /// Shows the entries of the bucket that holds position `from`, each with the tag of its hash, and returns the position
    /// to go on from.
    pub fn scan_tagged(&self, from: u64, rehash: &impl Rehash<E>, mut emit: impl FnMut(E, Tag)) -> Option<u64> {
        if from >= POSITIONS {
            return None;
        }
        let side = if from >= self.split { OLD } else { NEW };
        let part = &self.parts[side];
        let home = part.home(from);
        part.each_at_home(home, |word, tag| rehash.hash(E::of(word), tag), |word, tag| emit(E::of(word), tag));
        let end = part.first_position(home + 1);
        let next = if side == NEW { end.min(self.split) } else { end };
        (next < POSITIONS).then_some(next)
    }

    /// A random entry: each cell of the table is as likely as any other.
    ///
    /// In a table that is nearly empty, entries behind long gaps are likelier.
    pub fn sample(&self, rng: &mut Rng) -> Option<E> {
        if self.len == 0 {
            return None;
        }
        let ranges = self.bucket_ranges();
        for _ in 0..SAMPLE_TRIES {
            let found = self.try_cell(&ranges, rng.below(ranges.all * CELLS as u64));
            if found.is_some() {
                return found;
            }
        }
        let start = rng.below(ranges.all) * CELLS as u64;
        let end = ranges.all * CELLS as u64;
        (start..end).chain(0..start).find_map(|cell_number| self.try_cell(&ranges, cell_number))
    }

    /// The buckets in which there may be entries.
    #[inline]
    fn bucket_ranges(&self) -> BucketRanges {
        let [new, old] = &self.parts;
        if !self.is_moving() {
            let in_new = if new.is_none() { 0 } else { new.count() };
            return BucketRanges { new: in_new, old: 0..0, all: in_new + u64::from(new.pool().ids()) };
        }
        // Entries of a home lie in its bucket or in one of the next few, those of the last ones in the first.
        let in_new = (new.home(self.split) + 1 + EXTENSION_REACH).min(new.count());
        let wrapped = self.moved.min(EXTENSION_REACH);
        let pools = u64::from(new.pool().ids()) + u64::from(old.pool().ids());
        BucketRanges {
            new: in_new,
            old: self.moved..old.count(),
            all: in_new + (old.count() - self.moved) + wrapped + pools,
        }
    }

    /// The entry that a cell holds, if it is not empty. Cells are numbered through: those of the new part, of the old one behind
    /// its cursor, of the old one's first buckets, of overflow buckets.
    #[inline]
    fn try_cell(&self, ranges: &BucketRanges, cell_number: u64) -> Option<E> {
        let (number, cell) = (cell_number / CELLS as u64, (cell_number % CELLS as u64) as usize);
        let part = &self.parts[NEW];
        if number >= ranges.new {
            return self.far_cell(ranges, number - ranges.new, cell);
        }
        let bucket = part.bucket(number);
        bucket.head().valid().has(cell).then(|| E::of(bucket.get(cell)))
    }

    fn far_cell(&self, ranges: &BucketRanges, number: u64, cell: usize) -> Option<E> {
        let [new, old] = &self.parts;
        let behind = ranges.old.end - ranges.old.start;
        let wrapped = ranges.old.start.min(EXTENSION_REACH);
        let bucket = if number < behind {
            old.bucket(ranges.old.start + number)
        } else if number < behind + wrapped {
            old.bucket(number - behind)
        } else {
            let id = (number - behind - wrapped) as u32;
            let of_new = new.pool().ids();
            if id < of_new { new.pool().get(id) } else { old.pool().get(id - of_new) }
        };
        bucket.head().valid().has(cell).then(|| E::of(bucket.get(cell)))
    }

    /// Shows every entry, in no order.
    pub fn for_each(&self, mut f: impl FnMut(E)) {
        let _ = self.try_for_each(|r| {
            f(r);
            ControlFlow::Continue(())
        });
    }

    /// Shows entries, in no order, until `f` breaks off.
    pub fn try_for_each(&self, mut f: impl FnMut(E) -> ControlFlow<()>) -> ControlFlow<()> {
        for (side, part) in self.parts.iter().enumerate() {
            // The part behind the cursor is empty and its memory given back, but for what wrapped into the start.
            let skip = if side == OLD { EXTENSION_REACH..self.moved } else { 0..0 };
            for at in (0..part.count()).filter(|at| !skip.contains(at)) {
                let bucket = part.bucket(at);
                bucket.head().valid().try_for_each(|cell| f(E::of(bucket.get(cell))))?;
            }
            for id in 0..part.pool().ids() {
                let bucket = part.pool().get(id);
                bucket.head().valid().try_for_each(|cell| f(E::of(bucket.get(cell))))?;
            }
        }
        ControlFlow::Continue(())
    }
}
