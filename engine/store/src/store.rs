//! The store: what all workers share.
//!
//! ```text
//! Store
//!   gate       readers: batches of commands; alone: what must see the keyspace at rest
//!   log        the segments
//!   shards     256, or 64 a worker where that is more
//!   databases  logical -> physical numbers
//!   limit      maxmemory and policy, atomics
//! ```

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, AtomicU64, Ordering::Relaxed};

use varve_segment::{Geometry, Log};

use crate::collections::free::PendingWork;
use crate::collections::table::CollectionTable;
use crate::databases::Databases;
use crate::flush::Leftovers;
use crate::gate::Gate;
use crate::hist::Hist;
use crate::key::{Key, SHARDS_MAX, shard_of};
use crate::meter::{ProcessMemory, Told};
use crate::policy::Limit;
use crate::reclaim::Reclaimer;
use crate::shapes::Shapes;
use crate::shard::ShardCell;
use crate::stats::{StoreCounters, StoreTotals};
use crate::worker::Worker;

/// How a store is made.
#[derive(Clone, Debug)]
pub struct Options {
    /// Logical databases, 1 to 32767.
    pub databases: u32,
    /// Workers that will use it, at least 1.
    pub workers: usize,
    /// Shards, a power of two up to 4096; 0 chooses 256, or 64 a worker where that is more.
    pub shards: usize,
    /// Buckets of a shard's first index table.
    pub first_buckets: u32,
    /// Seed of the key hash; a process chooses it at random.
    pub seed: u64,
    /// Sizes of the segment log.
    pub geometry: Geometry,
}

impl Default for Options {
    fn default() -> Options {
        Options { databases: 16, workers: 1, shards: 0, first_buckets: 4, seed: 0, geometry: Geometry::default() }
    }
}

/// The whole store, shared by all workers.
pub struct Store {
    pub(crate) gate: Gate,
    pub(crate) log: Log,
    pub(crate) shards: Box<[ShardCell]>,
    pub(crate) databases: Databases,
    pub(crate) seed: u64,
    pub(crate) limit: Limit,
    pub(crate) reclaim: Reclaimer,
    pub(crate) leftovers: Leftovers,
    /// Where the roots of big collections are.
    pub(crate) slots: CollectionTable,
    /// What the background owes to big collections.
    pub(crate) chores: PendingWork,
    shapes: Shapes,
    /// Bytes of all index tables and wheels, of roots and their tables.
    pub(crate) table_bytes: AtomicU64,
    /// One bit a shard: its index has growth or shrinking under way.
    pub(crate) growing: Box<[AtomicU64]>,
    /// False while DEBUG SET-ACTIVE-EXPIRE 0 holds the wheels.
    pub(crate) active_expire: AtomicBool,
    /// Classes of events that somebody wants (`events.rs`).
    pub(crate) event_mask: AtomicU32,
    /// Until when nothing is expired or evicted, milliseconds of Unix time (CLIENT PAUSE).
    pub(crate) still_until: AtomicI64,
    /// Who wants to know of reads and changes (`observe.rs`).
    pub(crate) observed: crate::observe::Observed,
    counters: Box<[Arc<StoreCounters>]>,
    told: Told,
    /// Durations of the background's turns.
    pub slices: Hist,
    /// Durations of its rounds of steps: no lock is held for longer than one.
    pub rounds: Hist,
    /// By how much expired keys were late when their wheel was looked at.
    pub expiry_lag: Hist,
}

impl std::fmt::Debug for Store {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Store").field("shards", &self.shards.len()).finish_non_exhaustive()
    }
}

impl Store {
    /// A store, with the address range of its log reserved.
    ///
    /// # Errors
    /// If the system refuses the reservation.
    pub fn new(options: &Options) -> io::Result<Arc<Store>> {
        let shards = match options.shards {
            0 => (options.workers * 64).next_power_of_two().clamp(256, SHARDS_MAX),
            n => n,
        };
        assert!(shards.is_power_of_two() && shards <= SHARDS_MAX, "shards: a power of two up to 4096");
        let log = Log::new(options.geometry)?;
        let cells =
            (0..shards).map(|id| ShardCell::new(id, shards, options.first_buckets, log.access())).collect::<Box<[_]>>();
        Ok(Arc::new(Store {
            gate: Gate::new(options.workers),
            log,
            shards: cells,
            databases: Databases::new(options.databases),
            seed: options.seed,
            limit: Limit::new(),
            reclaim: Reclaimer::new(),
            leftovers: Leftovers::new(),
            slots: CollectionTable::new(),
            chores: PendingWork::new(),
            shapes: Shapes::default(),
            table_bytes: AtomicU64::new(0),
            growing: (0..shards.div_ceil(64)).map(|_| AtomicU64::new(0)).collect(),
            active_expire: AtomicBool::new(true),
            event_mask: AtomicU32::new(0),
            still_until: AtomicI64::new(0),
            observed: Default::default(),
            counters: (0..options.workers).map(|_| Arc::default()).collect(),
            told: Told::default(),
            slices: Hist::new(),
            rounds: Hist::new(),
            expiry_lag: Hist::new(),
        }))
    }

    /// The part of worker `id`, to be used by one thread; each id is asked for once.
    pub fn worker(self: &Arc<Self>, id: usize) -> Worker {
        Worker::new(Arc::clone(self), id, Arc::clone(&self.counters[id]))
    }

    /// Number of workers.
    pub(crate) fn workers(&self) -> usize {
        self.counters.len()
    }

    /// Number of logical databases.
    pub fn databases(&self) -> u32 {
        self.databases.count()
    }

    /// Counts the changes of what logical databases stand for (SWAPDB, FLUSHDB). Hashes of keys depend on it: those
    /// computed outside the gate hold inside it if the number, read before them, is still the same there.
    #[inline]
    pub fn database_changes(&self) -> u64 {
        self.databases.changes()
    }

    /// The key of these bytes in a logical database.
    #[inline]
    pub fn key<'k>(&self, db: u32, bytes: &'k [u8]) -> Key<'k> {
        Key::new(self.seed, self.databases.physical(db), bytes)
    }

    /// Fetches the bucket of a hash into the cache; no lock is needed.
    #[inline]
    pub fn prefetch(&self, hash: u64) {
        self.shards[self.shard_of(hash)].hint.prefetch(hash);
    }

    #[inline]
    pub(crate) fn shard_of(&self, hash: u64) -> usize {
        shard_of(hash, self.shards.len())
    }

    /// Marks a shard whose index is growing or shrinking, for the background.
    pub(crate) fn mark_growing(&self, id: usize) {
        self.growing[id / 64].fetch_or(1 << (id % 64), Relaxed);
    }

    pub(crate) fn unmark_growing(&self, id: usize) {
        self.growing[id / 64].fetch_and(!(1 << (id % 64)), Relaxed);
    }

    /// Bytes that `maxmemory` bounds: appended and not yet drained, index tables, wheels, roots and their tables, slots,
    /// connection buffers.
    pub fn used_memory(&self) -> u64 {
        let tables = self.table_bytes.load(Relaxed) + self.slots.bytes();
        self.log.used_bytes() + tables + self.limit.outside.load(Relaxed)
    }

    /// What the process takes, told by the server now and then.
    pub fn tell_process(&self, memory: ProcessMemory) {
        self.told.tell(memory);
    }

    /// What the process took when the server last told.
    pub fn process(&self) -> ProcessMemory {
        self.told.read()
    }

    /// Bytes of connection buffers and the like, part of `used_memory`.
    pub fn outside_bytes(&self) -> u64 {
        self.limit.outside.load(Relaxed)
    }

    /// Sums of all workers' counters.
    pub fn totals(&self) -> StoreTotals {
        let mut totals = StoreTotals::default();
        self.counters.iter().for_each(|c| totals.add(c));
        totals
    }

    /// Back to nothing: what background steps take, how late keys expire, what reclaim costs (CONFIG RESETSTAT).
    pub fn reset_measures(&self) {
        self.reclaim.cost.reset();
        self.reclaim.meter.reset();
        [&self.slices, &self.rounds, &self.expiry_lag].into_iter().for_each(Hist::reset);
    }

    /// Milliseconds by which the key that is due longest is late.
    pub fn expiry_lag_ms(&self, now_ms: i64) -> u64 {
        let due = self.shards.iter().map(|cell| cell.due()).filter(|&due| due > 0).min();
        due.map_or(0, |due| now_ms.saturating_sub(due).max(0) as u64)
    }

    /// Back to zero: hits, misses, expired, evicted.
    pub fn reset_totals(&self) {
        for c in &self.counters {
            [&c.hits, &c.misses, &c.expired, &c.evicted, &c.moved].into_iter().for_each(|c| c.reset());
        }
    }

    /// Expires and evicts nothing until this time, milliseconds of Unix time; 0 lets it go on at once.
    pub fn stand_still_until(&self, until_ms: i64) {
        self.still_until.store(until_ms, Relaxed);
    }

    /// True while nothing is expired or evicted.
    #[inline]
    pub(crate) fn stands_still(&self, now_ms: i64) -> bool {
        now_ms < self.still_until.load(Relaxed)
    }

    /// Lets the wheels remove expired keys by themselves, or not (DEBUG SET-ACTIVE-EXPIRE).
    pub fn set_active_expire(&self, on: bool) {
        self.active_expire.store(on, Relaxed);
    }

    /// The segment log, for what reports on it.
    pub fn log(&self) -> &Log {
        &self.log
    }

    /// The limits at which collections change their encoding; CONFIG SET changes them while workers run.
    #[inline]
    pub fn shapes(&self) -> &Shapes {
        &self.shapes
    }

    /// The gate, for the executor of batches.
    pub fn gate(&self) -> &Gate {
        &self.gate
    }
}
