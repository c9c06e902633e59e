//! Collection ids: every big collection has one, which all its objects carry, and which says where its root is.
//!
//! ```text
//! chunk 0: 1024 cells   chunk 1: 2048   chunk 2: 4096 ...     each made when first needed, never moved
//! cell  63        48 47            32 31                 0
//!      +------------+----------------+--------------------+
//!      |     0      |  shard + 1     | place in its roots |      0: the number is free
//!      +------------+----------------+--------------------+
//! ```
//! Cells are read by reclaim without a lock, and read again under the shard's: what they say changes only under the
//! locks of the shards concerned. Low numbers are given out first, since objects carry them in two bytes below 65536.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::OnceLock;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use varve_base::mem::ZeroedNumbers;
use varve_base::rank::{Rank, RankedMutex};
use varve_collection::CollectionId;

/// Cells of the first chunk.
pub(crate) const FIRST: u32 = 1024;
/// Chunks: 1024 * (2^22 - 1) numbers in all, over four thousand million.
pub(crate) const CHUNKS: usize = 22;
/// The place of a root that is still being made.
pub(crate) const NOWHERE: u32 = u32::MAX;

/// Where a root is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RootLocation {
    pub(crate) shard: usize,
    pub(crate) place: u32,
}

/// All collection numbers of a store.
pub(crate) struct CollectionTable {
    pub(crate) chunks: Box<[OnceLock<ZeroedNumbers>]>,
    /// Bytes of all chunks.
    pub(crate) bytes: AtomicU64,
    pub(crate) numbers: RankedMutex<Numbers>,
}

#[derive(Default)]
pub(crate) struct Numbers {
    pub(crate) free: BinaryHeap<Reverse<u32>>,
    /// Lowest number never given out.
    pub(crate) fresh: u32,
}

impl CollectionTable {
    pub(crate) fn new() -> CollectionTable {
        let chunks = (0..CHUNKS).map(|_| OnceLock::new()).collect();
        CollectionTable { chunks, bytes: AtomicU64::new(0), numbers: RankedMutex::new(Rank::Leaf, Numbers::default()) }
    }

    pub(crate) fn cell(&self, id: CollectionId) -> &AtomicU64 {
        let number = id.number();
        let chunk = (number / FIRST + 1).ilog2();
        let first = ((1 << chunk) - 1) * FIRST;
        let cells = self.chunks[chunk as usize].get_or_init(|| {
            self.bytes.fetch_add((u64::from(FIRST) * 8) << chunk, Relaxed);
            // A lock that many want is held: the cells, gigabytes of them at last, are touched when they are used.
            ZeroedNumbers::new((FIRST as usize) << chunk).expect("memory for the numbers of collections")
        });
        &cells[(number - first) as usize]
    }

    /// A number for a root that is about to be made in `shard`, which the caller has locked and keeps until [`CollectionTable::set`]:
    /// reclaim that meets the first of its objects finds the shard busy.
    pub(crate) fn take(&self, shard: usize) -> CollectionId {
        let mut numbers = self.numbers.lock();
        let id = match numbers.free.pop() {
            Some(Reverse(number)) => CollectionId::new(number),
            None => {
                let id = CollectionId::new(numbers.fresh);
                assert!((numbers.fresh as usize) < FIRST as usize * ((1 << CHUNKS) - 1), "collection numbers run out");
                numbers.fresh += 1;
                // Made under this lock, which all takers take: what OnceLock does is inside the standard library, where the
                // thread sanitizer does not see it.
                self.cell(id);
                id
            }
        };
        drop(numbers);
        self.set(id, RootLocation { shard, place: NOWHERE });
        id
    }

    /// Sets where the root is now, under the locks of the shard that it leaves and the shard that it comes to.
    pub(crate) fn set(&self, id: CollectionId, at: RootLocation) {
        self.cell(id).store((at.shard as u64 + 1) << 32 | u64::from(at.place), Release);
    }

    /// Where the root is; `None` for a number that is free. Without the lock of that shard it may move at any time.
    pub(crate) fn get(&self, id: CollectionId) -> Option<RootLocation> {
        let cell = self.cell(id).load(Acquire);
        let shard = (cell >> 32).checked_sub(1)? as usize;
        Some(RootLocation { shard, place: cell as u32 })
    }

    /// Gives a number back; under the lock of the root's shard.
    pub(crate) fn give(&self, id: CollectionId) {
        // A thread that finds the number free must find its last objects dead.
        self.cell(id).store(0, Release);
        self.numbers.lock().free.push(Reverse(id.number()));
    }

    /// Numbers given out.
    pub(crate) fn used(&self) -> usize {
        let numbers = self.numbers.lock();
        numbers.fresh as usize - numbers.free.len()
    }

    /// All numbers are free again, in O(1); under the gate alone.
    pub(crate) fn clear(&self) {
        // The cells stay as they are: whoever takes a number sets its cell, and the log has no object left with another one.
        *self.numbers.lock() = Numbers::default();
    }

    /// Bytes of the cells.
    #[inline]
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::{CollectionId, CollectionTable, FIRST, NOWHERE, RootLocation};

    #[test]
    fn low_numbers_first_and_cells_that_stay() {
        let id = CollectionId::new;
        let table = CollectionTable::new();
        let count = 5 * FIRST;
        for n in 0..count {
            assert_eq!(table.get(id(n)), None);
            assert_eq!(table.take(5), id(n));
            assert_eq!(table.get(id(n)), Some(RootLocation { shard: 5, place: NOWHERE }));
            table.set(id(n), RootLocation { shard: n as usize % 256, place: !n });
        }
        for n in 0..count {
            assert_eq!(table.get(id(n)), Some(RootLocation { shard: n as usize % 256, place: !n }));
        }
        table.give(id(7));
        table.give(id(3));
        assert_eq!((table.get(id(3)), table.used()), (None, count as usize - 2));
        assert_eq!([0; 3].map(|shard| table.take(shard)), [id(3), id(7), id(count)]);
        table.clear();
        assert_eq!((table.used(), table.take(0)), (0, id(0)));
        assert_eq!(table.get(id(0)), Some(RootLocation { shard: 0, place: NOWHERE }));
    }
}
