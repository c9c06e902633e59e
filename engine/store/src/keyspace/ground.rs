//! The part of the store that a shard knows: the log, the seed of hashes, sums, and what the background owes.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use varve_base::shared::SharedU64;
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
