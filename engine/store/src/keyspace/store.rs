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
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};

use varve_base::hash::{open48, seal48};
use varve_base::hist::Hist;
use varve_base::rank::{Rank, RankedMutex};
use varve_base::shared::{SharedBool, SharedI64, SharedU64};
use varve_segment::{Log, LogGeometry};

use super::databases::Databases;
use super::gate::Gate;
use super::ground::Ground;
use super::shard::ShardCell;
use super::token::{ScriptToken, Token};
use crate::state::collections::CollectionTable;
use crate::state::detached::DetachedTables;
use crate::state::effects::EffectSink;
use crate::state::key::{Key, SHARDS_MAX, hash_of, shard_of};
use crate::state::lazyfree::Lazyfree;
use crate::state::observe::Observed;
use crate::state::pending::{Freeing, PendingWork};
use crate::state::policy::Limit;
use crate::state::process::{ProcessMemory, ReportedMemory};
use crate::state::reclaim::Reclaimer;
use crate::state::shapes::Shapes;
use crate::state::stats::{StoreCounters, StoreTotals};
use crate::state::survey::Survey;
use crate::state::waiters::Freeze;
use crate::state::walker::Walk;

/// The parts of a worker: one for its connections' commands, the other for the script that it runs, which may rest while the
/// first one goes on.
const PARTS: usize = 2;

/// The greatest degree of [`Store::set_expire_effort`].
pub(crate) const EXPIRE_EFFORT_MAX: u32 = 10;

/// Workers that share a drain, by default. One drain copies 10 to 18 million objects a second, which at 80% full is room for two
/// or three million inserts.
const WORKERS_A_DRAIN: usize = 8;

/// How a store is made.
#[derive(Clone, Debug)]
pub struct Options {
    /// Logical databases, 1 to 32767.
    pub databases: u32,
    /// Workers that will use it, at least 1.
    pub workers: usize,
    /// Workers that share one drain, at least 1: as many drains run at once as there are such groups.
    pub workers_a_drain: usize,
    /// Shards, a power of two up to 4096; 0 chooses 256, or 64 a worker where that is more.
    pub shards: usize,
    /// Buckets of a shard's first index table.
    pub first_buckets: u32,
    /// Seed of the key hash; a process chooses it at random.
    pub seed: u64,
    /// Sizes of the segment log.
    pub geometry: LogGeometry,
}

impl Default for Options {
    fn default() -> Options {
        let (workers, workers_a_drain) = (1, WORKERS_A_DRAIN);
        let geometry = LogGeometry::default();
        Options { databases: 16, workers, workers_a_drain, shards: 0, first_buckets: 4, seed: 0, geometry }
    }
}

/// The whole store, shared by all workers.
pub struct Store {
    gate: Gate,
    ground: Ground,
    shards: Box<[ShardCell]>,
    databases: Databases,
    limit: Limit,
    reclaim: Reclaimer,
    detached: DetachedTables,
    /// The walk that is under way.
    walk: RankedMutex<Option<Arc<Walk>>>,
    /// A walk is under way: written with `walk` locked, read without.
    pub(super) walks: SharedBool,
    /// Listings of names that are under way.
    pub(super) listings: Arc<AtomicUsize>,
    shapes: Shapes,
    lazyfree: Lazyfree,
    /// How often FLUSHALL has run.
    flushes: SharedU64,
    /// Tickets that waiters have drawn.
    tickets: SharedU64,
    /// Keys that are frozen since they move to another server, in all shards. The gate knows of those that are occupied.
    moving: SharedU64,
    /// Keys that are frozen since a command makes something of them.
    sources: SharedU64,
    /// A script has it that runs beside others.
    token: Token,
    /// False while DEBUG SET-ACTIVE-EXPIRE 0 holds the wheels.
    active_expire: SharedBool,
    /// How much of a round goes to expiry, 1 to [`EXPIRE_EFFORT_MAX`].
    expire_effort: AtomicU32,
    /// A file is being loaded.
    pub(super) loading: SharedBool,
    /// Another server decides which keys go, and whether the limit holds meanwhile.
    pub(super) follows: SharedBool,
    pub(super) follows_unlimited: SharedBool,
    /// Two data sets are in memory: fresh databases are loaded, or what they leave is swept.
    pub(crate) is_doubled: SharedBool,
    /// Held while it is found out whether the limit holds.
    pub(super) lifting: RankedMutex<()>,
    /// Classes of events that somebody wants (`state::events`), and whether there is a journal (`state::effects`).
    pub(super) event_mask: AtomicU32,
    /// Until when nothing is expired or evicted, milliseconds of Unix time (CLIENT PAUSE).
    still_until: SharedI64,
    /// The journal, which keeps the effects of all changes.
    pub(super) journal: OnceLock<Arc<dyn EffectSink>>,
    /// The observer of reads and changes (`observe.rs`).
    pub(super) observed: Observed,
    counters: Box<[Arc<StoreCounters>]>,
    /// Each worker's looks at its keys.
    surveys: Box<[RankedMutex<Survey>]>,
    /// Numbers stand for the names of keys in figures about the keyspace.
    names_hidden: SharedBool,
    process: ReportedMemory,
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
    /// The token of scripts, if nobody has it. The worker is inside the gate and holds no shard.
    pub fn try_token(&self) -> Option<ScriptToken<'_>> {
        self.token.try_script()
    }

    /// A script, or a transaction, rests for the first time, inside the gate: nobody waits for all to leave until
    /// [`Store::end_rests`].
    pub fn begin_rests(&self) {
        self.gate.begin_rests();
    }

    /// The script or transaction that has rested ends.
    pub fn end_rests(&self) {
        self.gate.end_rests();
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
        // One script appends at a time, beside whatever the workers append.
        log.expect_appenders(options.workers + 1);
        let cells =
            (0..shards).map(|id| ShardCell::new(id, shards, options.first_buckets, log.access())).collect::<Box<[_]>>();
        Ok(Arc::new(Store {
            gate: Gate::new(options.workers * PARTS),
            ground: Ground::new(log, options.seed, shards),
            shards: cells,
            databases: Databases::new(options.databases),
            limit: Limit::new(),
            reclaim: Reclaimer::new(options.workers.div_ceil(options.workers_a_drain)),
            detached: DetachedTables::new(),
            walk: RankedMutex::new(Rank::Drain, None),
            walks: SharedBool::new(false),
            listings: Arc::default(),
            shapes: Shapes::default(),
            lazyfree: Lazyfree::default(),
            flushes: SharedU64::new(0),
            tickets: SharedU64::new(0),
            moving: SharedU64::new(0),
            sources: SharedU64::new(0),
            token: Token::default(),
            active_expire: SharedBool::new(true),
            expire_effort: AtomicU32::new(1),
            loading: SharedBool::new(false),
            follows: SharedBool::new(false),
            follows_unlimited: SharedBool::new(false),
            is_doubled: SharedBool::new(false),
            lifting: RankedMutex::new(Rank::Leaf, ()),
            event_mask: AtomicU32::new(0),
            journal: OnceLock::new(),
            still_until: SharedI64::new(0),
            observed: Observed::default(),
            counters: (0..options.workers * PARTS).map(|_| Arc::default()).collect(),
            surveys: (0..options.workers).map(|_| RankedMutex::new(Rank::Leaf, Survey::new(options.workers))).collect(),
            names_hidden: SharedBool::new(false),
            process: ReportedMemory::default(),
            slices: Hist::new(),
            rounds: Hist::new(),
            expiry_lag: Hist::new(),
        }))
    }

    /// The walk that is under way.
    pub(crate) fn walk(&self) -> &RankedMutex<Option<Arc<Walk>>> {
        &self.walk
    }

    /// How often FLUSHALL has run.
    #[inline]
    pub fn flushes(&self) -> u64 {
        self.flushes.load(Relaxed)
    }

    /// FLUSHALL has run.
    pub(crate) fn count_flush(&self) {
        self.flushes.fetch_add(1, Relaxed);
        self.forget_surveys();
    }

    /// Looks at keys begin anew: other keys are there.
    pub(crate) fn forget_surveys(&self) {
        self.surveys.iter().for_each(|survey| survey.lock().clear());
    }

    /// Has numbers stand for the names of keys in figures about the keyspace, or not.
    pub fn set_hides_names(&self, on: bool) {
        self.names_hidden.store(on, Relaxed);
    }

    /// True if numbers stand for the names of keys in figures.
    pub fn hides_names(&self) -> bool {
        self.names_hidden.load(Relaxed)
    }

    /// The number that stands for a name where names are hidden: `#` and eight digits in base 16, from which the name does not
    /// follow, since the hash has a secret seed.
    pub fn number_of_name(&self, name: &[u8]) -> Vec<u8> {
        format!("#{:08x}", hash_of(self.seed(), 0, name) >> 32).into_bytes()
    }

    /// This worker's looks at its keys.
    pub(crate) fn survey_of(&self, worker: usize) -> &RankedMutex<Survey> {
        &self.surveys[worker]
    }

    /// Number of workers.
    pub(crate) fn workers(&self) -> usize {
        self.counters.len() / PARTS
    }

    /// A ticket for a waiter: greater than all before. It is drawn with the shards of the waiter's keys held.
    pub(crate) fn next_ticket(&self) -> u64 {
        self.tickets.fetch_add(1, Relaxed)
    }

    /// Counts a key that was frozen, with its shard held.
    pub(crate) fn count_frozen(&self, how: Freeze) {
        match how {
            Freeze::Moving => _ = self.moving.fetch_add(1, Relaxed),
            Freeze::Source => _ = self.sources.fetch_add(1, Relaxed),
            Freeze::Occupied => self.gate().occupy(),
        }
    }

    /// Counts a frozen key less, with its shard held.
    pub(crate) fn count_thawed(&self, how: Freeze) {
        match how {
            Freeze::Moving => _ = self.moving.fetch_sub(1, Relaxed),
            Freeze::Source => _ = self.sources.fetch_sub(1, Relaxed),
            Freeze::Occupied => self.gate().vacate(),
        }
    }

    /// The journal, if there is one.
    pub(crate) fn journal(&self) -> Option<&dyn EffectSink> {
        self.journal.get().map(|journal| &**journal)
    }

    /// True if a hash that has a root has fields that expire: small ones are not counted here. With the gate held alone this
    /// does not change.
    pub fn has_dated_hashes(&self) -> bool {
        self.ground.dated() > 0
    }

    /// True if any hash has fields that expire, a small one as well. Takes the locks of all shards, one after the other: the gate
    /// is held alone if the answer is to be of one instant.
    pub fn has_dated_fields(&self) -> bool {
        self.has_dated_hashes() || self.cells().iter().any(|cell| cell.lock.lock().has_small_dated())
    }

    /// True if some key moves to another server. With the gate held alone this does not change.
    pub fn has_moving(&self) -> bool {
        self.moving.load(Relaxed) > 0
    }

    /// True if some key is occupied. While somebody is alone behind the gate none is.
    #[inline]
    pub fn has_occupied(&self) -> bool {
        self.gate().has_occupied()
    }

    /// True if some key is frozen. With the gate held alone this does not change.
    pub fn has_frozen(&self) -> bool {
        self.has_moving() || self.has_occupied() || self.sources.load(Relaxed) > 0
    }

    /// Which removals effects write as UNLINK.
    pub fn lazyfree(&self) -> &Lazyfree {
        &self.lazyfree
    }

    /// Number of shards.
    pub fn shard_count(&self) -> usize {
        self.shards.len()
    }

    /// Number of logical databases.
    pub fn databases(&self) -> u32 {
        self.databases.count()
    }

    /// The physical numbers of the logical databases, in their order: what [`crate::Before::db`] answers.
    pub fn physical_databases(&self) -> Vec<u16> {
        (0..self.databases()).map(|db| self.databases.physical(db)).collect()
    }

    /// Counts the changes of what logical databases stand for (SWAPDB, FLUSHDB), or of all that they have (FLUSHALL). Hashes of keys depend on it: those
    /// computed outside the gate hold inside it if the number, read before them, is still the same there.
    #[inline]
    pub fn database_changes(&self) -> u64 {
        self.databases.changes()
    }

    /// The key of these bytes in a logical database.
    #[inline]
    pub fn key<'k>(&self, db: u32, bytes: &'k [u8]) -> Key<'k> {
        Key::new(self.seed(), self.databases.physical(db), bytes)
    }

    /// The shard of a key, whatever its database.
    #[inline]
    pub fn shard_of_bytes(&self, key: &[u8]) -> u16 {
        self.shard_of(hash_of(self.seed(), 0, key)) as u16
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

    /// The part that shards know.
    #[inline]
    pub(crate) fn ground(&self) -> &Ground {
        &self.ground
    }

    /// All shards, by number.
    #[inline]
    pub(crate) fn cells(&self) -> &[ShardCell] {
        &self.shards
    }

    /// Where the roots of big collections are.
    #[inline]
    pub(crate) fn collections(&self) -> &CollectionTable {
        self.ground.collections()
    }

    /// The pending work of the background on big collections.
    #[inline]
    pub(crate) fn pending(&self) -> &PendingWork {
        self.ground.pending()
    }

    /// Bytes of all index tables and wheels, of roots and their tables.
    #[inline]
    pub(crate) fn table_bytes(&self) -> &SharedU64 {
        self.ground.table_bytes()
    }

    /// The map of databases.
    #[inline]
    pub(crate) fn database_map(&self) -> &Databases {
        &self.databases
    }

    /// `maxmemory` and its policy.
    #[inline]
    pub(crate) fn limit(&self) -> &Limit {
        &self.limit
    }

    /// The drain under way.
    #[inline]
    pub(crate) fn reclaimer(&self) -> &Reclaimer {
        &self.reclaim
    }

    /// The tables that FLUSHALL and FLUSHDB left to free.
    #[inline]
    pub(crate) fn detached(&self) -> &DetachedTables {
        &self.detached
    }

    /// The seed of the hashes of keys and elements.
    #[inline]
    pub(crate) fn seed(&self) -> u64 {
        self.ground.seed()
    }

    /// A cursor of a scan as clients see it: it shows nothing of the hashes of keys. 0 stays 0.
    pub fn seal_cursor(&self, cursor: u64) -> u64 {
        seal48(self.seed(), cursor)
    }

    /// The cursor that a client has named.
    pub fn open_cursor(&self, sealed: u64) -> u64 {
        open48(self.seed(), sealed)
    }

    /// The counters of a part of a worker.
    pub(super) fn counters(&self, worker: usize) -> &Arc<StoreCounters> {
        &self.counters[worker]
    }

    /// Bytes that `maxmemory` bounds: appended and not yet drained, index tables, wheels, roots and their tables, the
    /// table of collections, connection buffers.
    pub fn used_memory(&self) -> u64 {
        let tables = self.ground.table_bytes().load(Relaxed) + self.ground.collections().bytes();
        self.log().used_bytes() + tables + self.limit.outside.load(Relaxed)
    }

    /// Sets the memory of the process, which the server reports now and then.
    pub fn tell_process(&self, memory: ProcessMemory) {
        self.process.tell(memory);
    }

    /// The memory of the process when the server last reported it.
    pub fn process(&self) -> ProcessMemory {
        self.process.read()
    }

    /// Bytes of connection buffers and the like, part of `used_memory`.
    pub fn outside_bytes(&self) -> u64 {
        self.limit.outside.load(Relaxed)
    }

    /// Collections that are freed in the background.
    pub fn freeing(&self) -> Freeing {
        self.pending().freeing()
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

    /// Until when nothing is expired or evicted, milliseconds of Unix time.
    pub(crate) fn still_until(&self) -> i64 {
        self.still_until.load(Relaxed)
    }

    /// True unless the wheels are held (DEBUG SET-ACTIVE-EXPIRE 0, loading, following another server).
    pub(crate) fn expires_actively(&self) -> bool {
        self.may_expire() && !self.follows.load(Relaxed)
    }

    /// True unless all wheels are held (DEBUG SET-ACTIVE-EXPIRE 0, loading).
    pub(crate) fn may_expire(&self) -> bool {
        self.active_expire.load(Relaxed) && !self.loading.load(Relaxed)
    }

    /// This number of keys is going to be there: the shards' indexes get room for them at once, and keep it until other
    /// keys are expected, or none (0). Takes the locks of all shards, one after the other.
    pub fn expect_keys(&self, keys: u64) {
        // Some shards have more keys than others; one that is full grows like any.
        let each = keys.div_ceil(self.shards.len() as u64);
        let each = each + each / 16;
        for (id, cell) in self.shards.iter().enumerate() {
            cell.lock.lock().expect_keys(&self.ground, id, each as usize);
        }
    }

    /// Lets the wheels remove expired keys by themselves, or not (DEBUG SET-ACTIVE-EXPIRE).
    pub fn set_active_expire(&self, on: bool) {
        self.active_expire.store(on, Relaxed);
    }

    /// How much of each round of background steps goes to keys whose time has come, 1 to [`EXPIRE_EFFORT_MAX`].
    pub fn set_expire_effort(&self, effort: u32) {
        assert!((1..=EXPIRE_EFFORT_MAX).contains(&effort), "degrees of effort are 1 to 10");
        self.expire_effort.store(effort, Relaxed);
    }

    /// See [`Store::set_expire_effort`].
    pub(crate) fn expire_effort(&self) -> u32 {
        self.expire_effort.load(Relaxed)
    }

    /// The segment log, for what reports on it.
    #[inline]
    pub fn log(&self) -> &Log {
        self.ground.log()
    }

    /// The limits at which collections change their encoding; CONFIG SET changes them while workers run.
    #[inline]
    pub fn shapes(&self) -> &Shapes {
        &self.shapes
    }

    /// The gate, for the executor of batches.
    #[inline]
    pub fn gate(&self) -> &Gate {
        &self.gate
    }
}
