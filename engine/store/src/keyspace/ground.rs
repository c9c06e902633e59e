//! The part of the store that a shard knows: the log, the seed of hashes, sums, and what the background owes.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use varve_base::shared::SharedU64;
use varve_collection::CollectionId;
use varve_segment::Log;

use crate::state::collections::CollectionTable;
use crate::state::pending::PendingWork;
use crate::state::readers::ReaderList;

/// The parts of the store that shards need.
pub(crate) struct Ground {
    log: Log,
    seed: u64,
    /// Where the roots of big collections are.
    collections: CollectionTable,
    /// The pending work of the background on big collections.
    pending: PendingWork,
    /// Those who read big collections over several holds.
    readers: Arc<ReaderList>,
    /// Bytes of all index tables and wheels, of roots and their tables.
    table_bytes: SharedU64,
    /// One bit a shard: its index has growth or shrinking under way.
    growing: Box<[SharedU64]>,
    /// Hashes with fields that expire, in all databases.
    dated: SharedU64,
}

impl Ground {
    /// The ground of a store with this many shards.
    pub(crate) fn new(log: Log, seed: u64, shards: usize) -> Ground {
        Ground {
            log,
            seed,
            collections: CollectionTable::new(),
            pending: PendingWork::new(),
            readers: ReaderList::new(),
            table_bytes: SharedU64::new(0),
            growing: (0..shards.div_ceil(64)).map(|_| SharedU64::new(0)).collect(),
            dated: SharedU64::new(0),
        }
    }

    /// Number of hashes with fields that expire, in all databases.
    pub(crate) fn dated(&self) -> u64 {
        self.dated.load(Relaxed)
    }

    /// Counts hashes with fields that expire: this number more.
    pub(crate) fn count_dated(&self, more: i64) {
        self.dated.fetch_add(more as u64, Relaxed);
    }

    /// The segments.
    #[inline]
    pub(crate) fn log(&self) -> &Log {
        &self.log
    }

    /// The seed of the hashes of keys and elements.
    #[inline]
    pub(crate) fn seed(&self) -> u64 {
        self.seed
    }

    /// Where the roots of big collections are.
    #[inline]
    pub(crate) fn collections(&self) -> &CollectionTable {
        &self.collections
    }

    /// A number for a root that is about to be made ([`CollectionTable::take`]). Where numbers are short writes are refused
    /// from now on, with the error of the limit, as where the system has no memory.
    pub(crate) fn take_number(&self, shard: usize) -> CollectionId {
        let id = self.collections.take(shard);
        if self.collections.is_short() {
            self.log.refuse();
        }
        id
    }

    /// Lets writes in again that were refused for want of memory, if there is some now.
    pub(crate) fn ask_again(&self) {
        if self.collections.has_more() {
            self.log.ask_again();
        }
    }

    /// The pending work of the background on big collections.
    #[inline]
    pub(crate) fn pending(&self) -> &PendingWork {
        &self.pending
    }

    /// Those who read big collections over several holds.
    #[inline]
    pub(crate) fn readers(&self) -> &Arc<ReaderList> {
        &self.readers
    }

    /// Bytes of all index tables and wheels, of roots and their tables.
    #[inline]
    pub(crate) fn table_bytes(&self) -> &SharedU64 {
        &self.table_bytes
    }

    /// One bit a shard: its index has growth or shrinking under way.
    #[inline]
    pub(crate) fn growing(&self) -> &[SharedU64] {
        &self.growing
    }

    /// Marks a shard whose index is growing or shrinking, for the background.
    pub(crate) fn mark_growing(&self, id: usize) {
        self.growing[id / 64].fetch_or(1 << (id % 64), Relaxed);
    }

    /// The index of this shard neither grows nor shrinks any more.
    pub(crate) fn unmark_growing(&self, id: usize) {
        self.growing[id / 64].fetch_and(!(1 << (id % 64)), Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use varve_base::mem::ZeroedNumbers;
    use varve_segment::LogGeometry;

    use super::*;

    /// The process ended where the system refused cells for the numbers of collections.
    #[test]
    fn issue_11_writes_are_refused_while_the_numbers_of_collections_are_short() {
        static GIVES: AtomicBool = AtomicBool::new(true);
        let geometry = LogGeometry { reserve_bytes: 64 << 30, ..LogGeometry::default() };
        let mut ground = Ground::new(Log::new(geometry).expect("addresses"), 1, 1);
        ground.collections = CollectionTable::with_maker(|cells| match GIVES.swap(false, Relaxed) {
            true => ZeroedNumbers::new(cells),
            false => Err(std::io::ErrorKind::OutOfMemory.into()),
        });
        assert!(ground.log().has_addresses(100));
        ground.take_number(0);
        assert!(!ground.log().has_addresses(100), "the second chunk was refused");
        ground.ask_again();
        assert!(!ground.log().has_addresses(100), "and is refused again");
        GIVES.store(true, Relaxed);
        ground.ask_again();
        assert!(ground.log().has_addresses(100));
    }
}
