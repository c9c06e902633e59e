//! A shard: a part of the keyspace under one small mutex.
//!
//! ```text
//! ShardCell (128 bytes apart)
//!   hint      address and size of the index, readable without the lock, used to prefetch only
//!   due       lower bound of the next expiry in the wheel, so that idle shards are not locked for it
//!   lock ---> Shard { index, access, wheel, counts, roots, waiters }
//! ```
//! A shard's index, its objects' mutable halves and its wheel are touched only with the lock held; the token
//! [`Access`] inside the mutex is what opens a Ref.

use std::sync::atomic::{AtomicI64, Ordering::Relaxed};

use smallvec::SmallVec;
use varve_base::Ref;
use varve_index::{IndexEntry, IndexTable, Rehash};
use varve_segment::{Access, Log};

use super::ground::Ground;
use crate::state::key::{Key, database_of, hash_of, wheel_bits};
use crate::state::kinds;
use crate::state::link::{Encoding, Link};
use crate::state::roots::Roots;
use crate::state::waiters::Waiters;
use crate::state::watch::Watched;
use crate::state::wheel::Wheel;
use varve_base::rank::{Rank, RankedMutex};

/// How many entries an index that does not move may gain or lose before its size is told again.
const REPORT_EVERY: usize = 64;
/// Bytes of its tables that a shard has as it has its lock, whatever is in them: not counted, so that the limit of a
/// small store does not hang on how many shards its first keys fell into.
const OWN_BYTES: usize = 4 << 10;
/// No expiry is waiting.
pub(crate) const NEVER: i64 = i64::MAX;

/// One shard and what may be read of it without its lock.
#[repr(align(128))]
pub(crate) struct ShardCell {
    pub(crate) lock: RankedMutex<Shard>,
    pub(crate) hint: varve_index::Hint,
    due: AtomicI64,
}

/// What the lock guards.
pub(crate) struct Shard {
    pub(crate) index: IndexTable,
    pub(crate) access: Access,
    pub(crate) wheel: Wheel,
    pub(crate) counts: Counts,
    /// Big collections whose keys are here, and dying ones.
    pub(crate) roots: Roots,
    /// Keys that sessions watch; None without any.
    pub(crate) watched: Option<Box<Watched>>,
    /// Clients that wait for keys here.
    pub(crate) waiters: Option<Box<Waiters>>,
    /// Bytes of index and wheel that the store's sum already has, over `OWN_BYTES`.
    pub(crate) reported_bytes: usize,
    was_moving: bool,
}

/// Keys and volatile keys of each physical database in this shard.
#[derive(Debug, Default)]
pub(crate) struct Counts(SmallVec<[DbCount; 2]>);

/// The counts of one database.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct DbCount {
    pub(crate) db: u16,
    pub(crate) keys: u64,
    pub(crate) volatile: u64,
}

impl Counts {
    /// The counts of a database, made at its first key.
    #[inline]
    pub(crate) fn of(&mut self, db: u16) -> &mut DbCount {
        let at = match self.0.iter().position(|c| c.db == db) {
            Some(at) => at,
            None => {
                self.0.push(DbCount { db, ..DbCount::default() });
                self.0.len() - 1
            }
        };
        &mut self.0[at]
    }

    pub(crate) fn get(&self, db: u16) -> DbCount {
        self.0.iter().find(|c| c.db == db).copied().unwrap_or(DbCount { db, ..DbCount::default() })
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &DbCount> {
        self.0.iter()
    }

    /// Drops the row of a database that is empty for good.
    pub(crate) fn forget(&mut self, db: u16) {
        debug_assert_eq!(self.get(db).keys, 0, "a forgotten database is empty");
        self.0.retain(|c| c.db != db);
    }

    /// Volatile keys of all databases.
    pub(crate) fn volatile(&self) -> u64 {
        self.0.iter().map(|c| c.volatile).sum()
    }
}

/// Answers the index's question for the hash behind a Ref, which only the object's key can tell.
pub(crate) struct KeyHashes<'a> {
    pub(crate) log: &'a Log,
    pub(crate) access: &'a Access,
    pub(crate) seed: u64,
}

impl Rehash for KeyHashes<'_> {
    fn hash(&self, r: Ref) -> u64 {
        let object = self.access.open(self.log, r);
        hash_of(self.seed, database_of(&object), object.key())
    }

    fn prefetch(&self, r: Ref) {
        self.log.prefetch(r);
    }
}

impl ShardCell {
    pub(crate) fn new(id: usize, shards: usize, first_buckets: u32, access: Access) -> ShardCell {
        let shard_scale = (id as u32, shards as u32);
        let geometry = varve_index::IndexGeometry { first_buckets, shard_scale, ..Default::default() };
        let mut index = IndexTable::new(geometry);
        let hint = index.hint();
        let shard = Shard {
            index,
            access,
            wheel: Wheel::new(),
            counts: Counts::default(),
            roots: Roots::default(),
            watched: None,
            waiters: None,
            reported_bytes: 0,
            was_moving: false,
        };
        ShardCell { lock: RankedMutex::new(Rank::Shard(id as u32), shard), hint, due: AtomicI64::new(NEVER) }
    }

    /// Lower bound of the next expiry here, `NEVER` without one.
    pub(crate) fn due(&self) -> i64 {
        self.due.load(Relaxed)
    }

    pub(crate) fn set_due(&self, at: i64) {
        self.due.store(at, Relaxed);
    }
}

impl Shard {
    /// What hashes this shard's Refs.
    pub(crate) fn hashes<'a>(&'a self, log: &'a Log, seed: u64) -> KeyHashes<'a> {
        KeyHashes { log, access: &self.access, seed }
    }

    /// The entry of a key, expired or not.
    #[inline]
    pub(crate) fn find(&self, log: &Log, k: &Key<'_>) -> Option<IndexEntry> {
        self.index.find(k.hash, |r| k.is_of(&self.access.open(log, r)))
    }

    /// Adds an entry that is not there yet, with its counts.
    pub(crate) fn insert(&mut self, ground: &Ground, id: usize, k: &Key<'_>, r: Ref, volatile: bool) {
        let hashes = KeyHashes { log: ground.log(), access: &self.access, seed: ground.seed() };
        self.index.insert(k.hash, r, &hashes);
        self.follow_index(ground, id);
        let count = self.counts.of(k.db);
        count.keys += 1;
        count.volatile += u64::from(volatile);
    }

    /// Tells the store of the index's size and of growth under way, after the index changed.
    #[inline]
    pub(crate) fn follow_index(&mut self, ground: &Ground, id: usize) {
        let moving = self.index.is_moving();
        if !moving && !self.was_moving && !self.index.len().is_multiple_of(REPORT_EVERY) {
            return;
        }
        self.was_moving = moving;
        let bytes = (self.index.bytes() + self.wheel.bytes()).saturating_sub(OWN_BYTES);
        if bytes != self.reported_bytes {
            ground.table_bytes().fetch_add((bytes as u64).wrapping_sub(self.reported_bytes as u64), Relaxed);
            self.reported_bytes = bytes;
        }
        if moving || self.index.wants_move() {
            ground.mark_growing(id);
        }
    }

    /// Follows a key's change between volatile and not.
    #[inline]
    pub(crate) fn recount_volatile(&mut self, db: u16, before: Option<i64>, after: Option<i64>) {
        if before.is_some() != after.is_some() {
            let count = self.counts.of(db);
            count.volatile = if after.is_some() { count.volatile + 1 } else { count.volatile - 1 };
        }
    }

    /// Removes an entry and marks its object dead, and what it leads to dying.
    pub(crate) fn remove(&mut self, ground: &Ground, slot: IndexEntry) {
        let r = self.detach(ground.log(), slot);
        self.kill_key(ground, r);
    }

    /// Marks a key object dead that nothing leads to any more; a big collection is left to the background to free.
    pub(crate) fn kill_key(&mut self, ground: &Ground, r: Ref) {
        if let Some(link) = self.link_of(ground.log(), r) {
            self.roots.get_mut(link.place).dying = true;
            ground.pending().bury(link.id);
        }
        self.access.kill(ground.log(), r);
    }

    /// Where a key object's root is, if it is a big collection.
    #[inline]
    pub(crate) fn link_of(&self, log: &Log, r: Ref) -> Option<Link> {
        let object = self.access.open(log, r);
        let big = object.kind() != kinds::STRING && Encoding::of(object.tag()) == Encoding::Big;
        big.then(|| Link::read(object.value()))
    }

    /// Removes an entry with its counts and leaves its object alive, which nothing leads to any more.
    pub(crate) fn detach(&mut self, log: &Log, slot: IndexEntry) -> Ref {
        let r = self.index.remove(slot);
        self.touch_object(log, r);
        let object = self.access.open(log, r);
        let (db, volatile) = (database_of(&object), object.expiry_ms().is_some());
        let count = self.counts.of(db);
        debug_assert!(count.keys > 0, "a removed key was counted");
        count.keys -= 1;
        count.volatile -= u64::from(volatile);
        r
    }

    /// Files a key's expiry, unless an entry due no later is already on the wheel.
    pub(crate) fn file_expiry(&mut self, cell: &ShardCell, hash: u64, old: Option<i64>, at: i64, now_ms: i64) {
        if old.is_some_and(|t| t <= at) {
            return;
        }
        if self.wheel.is_empty() {
            // Tells the time to a wheel that may have stood still for long, so that entries are filed where they belong.
            let _ = self.wheel.advance(now_ms, 0, &mut Vec::new());
        }
        self.wheel.add(wheel_bits(hash), at);
        // Where most entries are stale the background is called at once, to rebuild.
        let due = if self.wheel.should_rebuild(self.counts.volatile() as usize) { 0 } else { at };
        if due < cell.due() {
            cell.set_due(due);
        }
    }
}
