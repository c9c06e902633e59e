//! The sizes of a table: how many buckets it has at first, and how many after it has grown or shrunk.
//!
//! Sizes are `first * 1.25^(generation + i / shards)` buckets, so that of many shards filled alike only a few grow at a
//! time. A full table holds 6.3 entries a bucket and a new one takes 7.875 for each old bucket, so at least 0.64 buckets
//! must move an insert, else the new one would overfill. `move_buckets` is 2: then the new table starts its life at a
//! load of 0.78, and what is still to be moved of the old one never passes 0.97.
//!
//! From 512 buckets on the factor may be smaller: with 1.125 the load stays over 0.80, which costs 10.2 to 11.4 bytes an
//! entry in place of 10.2 to 12.7, and twice as much moving. An insert then moves as many buckets as leave at
//! least half of the room that the new size adds: 3 for 1.125, 5 where the rounding to pages makes it 1.07.
//!
//! How many entries may move to make room for one, measured on 200 000 entries just before growth (load 0.90):
//!
//! | bound | entries in overflow buckets | overflow buckets a bucket | entries in an extension |
//! |---|---|---|---|
//! | 0 | 3.3% | 0.129 | 13% |
//! | 1 | 1.9% | 0.075 | 16% |
//! | 2 | 1.3% | 0.051 | 19% |
//! | 3 | 1.0% | 0.039 | 20% |
//! | 4 | 0.9% | 0.034 | 21% |
//!
//! Over all loads that a growing table passes through (0.72 to 0.90) a bound of 2 leaves 0.6% in overflow buckets.

use crate::part::BUCKETS_MAX;
use varve_base::group::CELLS;

/// Load at which a table grows.
const LOAD_MAX: f64 = 0.90;

/// Load below which a table shrinks.
pub(crate) const LOAD_MIN: f64 = 0.50;

/// Load that a shrunk table has at most.
const LOAD_SHRUNK: f64 = 0.75;

/// How much a table grows, one of under `FINE_FROM` buckets always.
const GROWTH: f64 = 1.25;

/// From this many buckets on a table grows by its geometry's factor.
const FINE_FROM: f64 = 512.0;

/// Buckets of one page.
const PAGE_BUCKETS: u64 = (varve_base::mem::PAGE_BYTES / size_of::<crate::bucket::Bucket>()) as u64;

/// The figures that decide a table's sizes.
#[derive(Clone, Copy, Debug)]
pub struct IndexGeometry {
    /// Buckets of the first table, at least 1.
    pub first_buckets: u32,
    /// How much a table of 512 buckets or more grows, over 1; a smaller one grows by 1.25.
    pub growth: f64,
    /// This is shard `.0` of `.1`: its sizes are those of `.0 / .1` of a generation later.
    pub shard_scale: (u32, u32),
    /// How many entries may move to make room for one.
    pub displace: u32,
    /// How many buckets an insert moves while the table grows or shrinks, at least 1; more, up to 8, where the new table
    /// would fill up before all have moved.
    pub move_buckets: u32,
}

impl Default for IndexGeometry {
    fn default() -> IndexGeometry {
        IndexGeometry { first_buckets: 4, growth: GROWTH, shard_scale: (0, 1), displace: 2, move_buckets: 2 }
    }
}

impl IndexGeometry {
    /// The usual geometry of shard `i` of `shards`.
    pub fn shard(i: u32, shards: u32) -> IndexGeometry {
        assert!(i < shards, "shard {i} of {shards}");
        IndexGeometry { shard_scale: (i, shards), ..IndexGeometry::default() }
    }

    /// Buckets of a table of this generation.
    pub(crate) fn buckets(&self, generation: u32) -> u64 {
        let power = f64::from(generation) + f64::from(self.shard_scale.0) / f64::from(self.shard_scale.1);
        let first = f64::from(self.first_buckets);
        let coarse = ((FINE_FROM / first).ln() / GROWTH.ln()).clamp(0.0, power);
        let buckets = (first * GROWTH.powf(coarse) * self.growth.powf(power - coarse)).round() as u64;
        // Whole pages: what the system would round up to serves as buckets, so that small tables waste nothing.
        let whole = if buckets > PAGE_BUCKETS { buckets.next_multiple_of(PAGE_BUCKETS) } else { buckets };
        whole.clamp(1, BUCKETS_MAX)
    }

    /// The first size over `buckets`.
    pub(crate) fn larger(&self, buckets: u64) -> u64 {
        self.first(|size| size > buckets)
    }

    /// The first size that holds this many entries and does not grow.
    pub(crate) fn fitting(&self, entries: usize) -> u64 {
        self.first(|size| entries_max(size) >= entries)
    }

    /// The size that a table of this many entries shrinks to.
    pub(crate) fn shrunk(&self, entries: usize) -> u64 {
        self.first(|size| size as f64 * CELLS as f64 * LOAD_SHRUNK >= entries as f64)
    }

    /// The first size that will do, or the largest.
    fn first(&self, will_do: impl Fn(u64) -> bool) -> u64 {
        (0..)
            .map(|generation| self.buckets(generation))
            .find(|&size| will_do(size) || size == BUCKETS_MAX)
            .expect("a size")
    }
}

/// Entries at which a table of this many buckets grows.
pub(crate) fn entries_max(buckets: u64) -> usize {
    if buckets == BUCKETS_MAX { usize::MAX } else { (buckets as f64 * CELLS as f64 * LOAD_MAX) as usize }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_staggered_and_never_stand_still() {
        let mut size = IndexGeometry { first_buckets: 1, ..IndexGeometry::default() }.buckets(0);
        for _ in 0..40 {
            let next = IndexGeometry { first_buckets: 1, ..IndexGeometry::default() }.larger(size);
            assert!(next > size && next <= size * 2 + PAGE_BUCKETS);
            size = next;
        }
        let sizes: Vec<u64> = (0..256).map(|i| IndexGeometry::shard(i, 256).buckets(30)).collect();
        assert!(sizes.is_sorted() && (sizes[255] as f64) < sizes[0] as f64 * GROWTH + PAGE_BUCKETS as f64);
        assert!(sizes.iter().all(|size| size.is_multiple_of(PAGE_BUCKETS)), "whole pages");
        assert_eq!(IndexGeometry::default().larger(BUCKETS_MAX - 1), BUCKETS_MAX);
        assert_eq!(entries_max(100), 630);
    }

    #[test]
    fn large_tables_may_grow_in_finer_steps() {
        let fine = IndexGeometry { growth: 1.125, ..IndexGeometry::default() };
        let mut size = fine.buckets(0);
        while size < 10_000_000 {
            let next = fine.larger(size);
            assert!(next > size);
            if size > 8 * PAGE_BUCKETS {
                assert!((1.07..1.24).contains(&(next as f64 / size as f64)), "{size} grows to {next}");
            }
            size = next;
        }
    }
}
