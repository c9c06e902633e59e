//! A shard: a part of the keyspace under one small mutex.
//!
//! ```text
//! ShardCell (128 bytes apart)
//!   hint      address and size of the index, readable without the lock, used to prefetch only
//!   due       lower bound of the next expiry in the wheel, so that idle shards are not locked for it
//!   wanted    a script waits for the lock
//!   counts    of its keys, readable without the lock
//!   lock ---> Shard { index, access, wheel, counts, roots, waiters }
//! ```
//! A shard's index, its objects' mutable halves and its wheel are touched only with the lock held; the token [`Access`]
//! inside the mutex is what opens a Ref. Not here: what changes an object or ends it (`door.rs`).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering::Relaxed};
use std::time::Instant;

use varve_base::Ref;
use varve_base::group::Tag;
use varve_base::rank::{Rank, RankedGuard, RankedMutex};
use varve_collection::CollectionId;
use varve_index::{IndexEntry, IndexTable, Rehash};
use varve_segment::{Access, Log, Object};

use super::ground::Ground;
use crate::state::counts::Counts;
use crate::state::key::{Key, database_of, hash_of, wheel_bits};
use crate::state::link::{Link, Root};
use crate::state::listing::Listings;
use crate::state::own_dates::OwnDates;
use crate::state::roots::Roots;
use crate::state::small::due_of;
use crate::state::types::Type;
use crate::state::waiters::Waiters;
use crate::state::walker::Walking;
use crate::state::watch::Watched;
use crate::state::wheel::Wheel;

/// How many entries an index that does not move may gain or lose before its size is reported again.
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
    own_dates: OwnDates,
    /// A script waits for the lock: nobody else takes it.
    wanted: AtomicBool,
    /// The numbers of its keys, which the holder of the lock changes: whoever counts keys waits for nobody.
    counts: Arc<Counts>,
}

/// The content of a shard, which its lock guards.
pub(crate) struct Shard {
    pub(super) index: IndexTable,
    pub(super) access: Access,
    /// The walk that is under way and has not passed the shard; none nearly always (`walking.rs`).
    pub(super) walking: Option<Walking>,
    pub(super) wheel: Wheel,
    /// The keys to which clients of this replica have given a time (`own_dates.rs`).
    pub(super) own_wheel: Option<Box<Wheel>>,
    pub(super) counts: Arc<Counts>,
    /// Big collections whose keys are here, and dying ones.
    pub(super) roots: Roots,
    /// Hashes with fields that expire.
    pub(super) dated: usize,
    /// Small hashes with fields that expire.
    pub(super) small_dated: usize,
    /// Entries of the wheel that came out, of hashes of which more fields are due than one step removes.
    pub(super) overdue: Vec<u64>,
    /// Listings of names that have not passed the shard; None without any.
    pub(super) listings: Option<Box<Listings>>,
    /// Keys that sessions watch; None without any.
    pub(super) watched: Option<Box<Watched>>,
    /// Clients that wait for keys here.
    pub(super) waiters: Option<Box<Waiters>>,
    /// Bytes of index and wheel that the store's sum already has, over `OWN_BYTES`.
    pub(super) reported_bytes: usize,
    /// The position of the journal behind the last unit of a key of the shard.
    pub(crate) journal_end: u64,
    was_moving: bool,
}

/// Computes for the index the hash behind a Ref, from the key of its object.
pub(crate) struct KeyHashes<'a> {
    pub(crate) log: &'a Log,
    pub(crate) access: &'a Access,
    pub(crate) seed: u64,
}

impl KeyHashes<'_> {
    /// The hash of the key whose object is at `r`.
    #[inline]
    pub(crate) fn hash(&self, r: Ref) -> u64 {
        let object = self.access.open(self.log, r);
        hash_of(self.seed, database_of(&object), object.key())
    }
}

impl Rehash for KeyHashes<'_> {
    fn hash(&self, r: Ref, _: Tag) -> u64 {
        KeyHashes::hash(self, r)
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
        let (hint, counts) = (index.hint(), Arc::<Counts>::default());
        let shard = Shard {
            index,
            access,
            walking: None,
            wheel: Wheel::new(),
            counts: Arc::clone(&counts),
            roots: Roots::default(),
            dated: 0,
            small_dated: 0,
            own_wheel: None,
            overdue: Vec::new(),
            listings: None,
            watched: None,
            waiters: None,
            reported_bytes: 0,
            journal_end: 0,
            was_moving: false,
        };
        let lock = RankedMutex::new(Rank::Shard(id as u32), shard);
        ShardCell {
            lock,
            hint,
            due: AtomicI64::new(NEVER),
            own_dates: OwnDates::new(NEVER),
            wanted: AtomicBool::new(false),
            counts,
        }
    }

    /// Takes the lock for a command if it is free within `looks` looks at it, and no script waits for it: the holders of a shard
    /// that is asked for all the time would never let a script in.
    #[inline(always)]
    pub(crate) fn try_lock_for(&self, looks: u32) -> Option<RankedGuard<'_, Shard>> {
        if self.wanted.load(Relaxed) { None } else { self.lock.try_lock_for(looks) }
    }

    /// True while a script waits for the lock.
    #[cfg(test)]
    pub(crate) fn is_wanted(&self) -> bool {
        self.wanted.load(Relaxed)
    }

    /// Waits for the lock for a script until this time, like [`ShardCell::lock_for_script`]; behind that nobody else takes it
    /// until the script, which tries again, has got it.
    pub(crate) fn lock_for_script_by(&self, until: Instant) -> Option<RankedGuard<'_, Shard>> {
        loop {
            if let Some(guard) = self.lock.try_lock_beside() {
                if self.wanted.load(Relaxed) {
                    self.wanted.store(false, Relaxed);
                }
                return Some(guard);
            }
            self.wanted.store(true, Relaxed);
            if Instant::now() >= until {
                return None;
            }
            std::thread::yield_now();
        }
    }

    /// Waits for the lock for a script, which may hold other shards. The thread holds the token.
    pub(crate) fn lock_for_script(&self) -> RankedGuard<'_, Shard> {
        self.lock.try_lock_beside().unwrap_or_else(|| {
            self.wanted.store(true, Relaxed);
            let guard = self.lock.lock_beside();
            self.wanted.store(false, Relaxed);
            guard
        })
    }

    /// The numbers of keys in the shard, as they are now, whoever holds it.
    pub(crate) fn counts(&self) -> &Counts {
        &self.counts
    }

    /// Lower bound of the next expiry here, `NEVER` without one.
    pub(crate) fn due(&self) -> i64 {
        self.due.load(Relaxed)
    }

    pub(crate) fn set_due(&self, at: i64) {
        self.due.store(at, Relaxed);
    }

    /// The times that clients of this replica have given keys.
    pub(crate) fn own_dates(&self) -> &OwnDates {
        &self.own_dates
    }
}

impl Shard {
    /// The index of the shard's keys, to read.
    #[inline(always)]
    pub(crate) fn index(&self) -> &IndexTable {
        &self.index
    }

    /// The access that opens the shard's objects for reading.
    #[inline(always)]
    pub(crate) fn access(&self) -> &Access {
        &self.access
    }

    /// The object of a Ref of this shard, to read.
    #[inline(always)]
    pub(crate) fn open<'a>(&'a self, log: &'a Log, r: Ref) -> Object<'a> {
        self.access.open(log, r)
    }

    /// Bytes of the parts of a key's big collection; 0 for any other key.
    pub(crate) fn parts_bytes(&self, log: &Log, r: Ref) -> usize {
        self.link_of(log, r).map_or(0, |link| self.root(link.place).memory())
    }

    /// Bytes that a key takes: its object, but for the room of a large value, which has no memory before it is used; its share
    /// of the index; and the parts of its collection, as [`Shard::parts_bytes`] tells them.
    pub(crate) fn bytes_of(&self, log: &Log, object: &Object<'_>, parts: usize) -> usize {
        let is_run = object.bytes() > log.extent_min_bytes();
        let touched = if is_run { object.live_bytes() } else { object.bytes() };
        touched + self.index.bytes() / self.index.len().max(1) + parts
    }

    /// The root of a big collection, to read.
    #[inline(always)]
    pub(crate) fn root(&self, place: u32) -> &Root {
        self.roots.get(place)
    }

    /// The root of a collection at a place that may be out of date: `None` if another collection, or none, is there.
    #[inline]
    pub(crate) fn peek_root(&self, place: u32, id: CollectionId) -> Option<&Root> {
        self.roots.peek(place, id)
    }

    /// The numbers of keys in this shard.
    #[inline]
    pub(crate) fn counts(&self) -> &Counts {
        &self.counts
    }

    /// The wheel of this shard, to read.
    #[inline]
    pub(crate) fn wheel(&self) -> &Wheel {
        &self.wheel
    }

    /// The clients that wait for keys of this shard, if any do.
    #[inline]
    pub(crate) fn waiters(&self) -> Option<&Waiters> {
        self.waiters.as_deref()
    }

    /// True while nobody watches a key of this shard or waits for one.
    #[inline(always)]
    pub(crate) fn is_unobserved(&self) -> bool {
        self.watched.is_none() && self.waiters.is_none()
    }

    /// The hash function of this shard's Refs.
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
        self.note_came(k);
        self.follow_index(ground, id);
        self.counts.of(k.db).change(1, i64::from(volatile));
    }

    /// This number of keys is going to be there, 0 where none are expected any more.
    pub(crate) fn expect_keys(&mut self, ground: &Ground, id: usize, keys: usize) {
        self.index.expect(keys);
        if self.index.wants_move() {
            ground.mark_growing(id);
        }
    }

    /// Reports the index's size and growth under way to the store, after the index changed.
    #[inline]
    pub(crate) fn follow_index(&mut self, ground: &Ground, id: usize) {
        let moving = self.index.is_moving();
        if !moving && !self.was_moving && !self.index.len().is_multiple_of(REPORT_EVERY) {
            return;
        }
        self.was_moving = moving;
        if self.index.is_refused() {
            ground.log().refuse();
        }
        let bytes = (self.index.bytes() + self.wheel.bytes() + self.own_date_bytes()).saturating_sub(OWN_BYTES);
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
            self.counts.of(db).change(0, if after.is_some() { 1 } else { -1 });
        }
    }

    /// Where a key object's root is, if it is a big collection.
    #[inline]
    pub(crate) fn link_of(&self, log: &Log, r: Ref) -> Option<Link> {
        Link::of(&self.access.open(log, r))
    }

    /// Of a hash that is big, or has fields which expire: where its root is, and a time before which none of its fields expires, if
    /// it has such fields.
    #[inline]
    pub(crate) fn fields_of(&self, object: &Object<'_>) -> Option<(Option<u32>, Option<i64>)> {
        if object.kind() != Type::Hash.kind() {
            return None;
        }
        match Link::of_collection(object) {
            Some(link) => Some((Some(link.place), self.roots.get(link.place).body.next_due_ms())),
            None => due_of(object).map(|due_ms| (None, Some(due_ms))),
        }
    }

    /// Counts a small hash that has come to have fields which expire, or one that has none any more or goes.
    pub(crate) fn count_small_dated(&mut self, more: bool) {
        self.small_dated = if more { self.small_dated + 1 } else { self.small_dated - 1 };
    }

    /// True if a small hash has fields that expire.
    pub(crate) fn has_small_dated(&self) -> bool {
        self.small_dated > 0
    }

    /// Bytes of index and wheel that the store's sum has.
    pub(crate) fn table_bytes(&self) -> usize {
        self.reported_bytes
    }

    /// Forgets the counts of a database that is empty for good.
    pub(crate) fn forget_database(&mut self, db: u16) {
        self.counts.forget(db);
    }

    /// Moves an index that grows or shrinks on by some buckets; false if it need not go on.
    pub(crate) fn step_index(&mut self, ground: &Ground, buckets: usize) -> bool {
        let hashes = KeyHashes { log: ground.log(), access: &self.access, seed: ground.seed() };
        self.index.step(&hashes, buckets)
    }

    /// Takes entries that are due by `now_ms` out of the wheel, about `budget`; true if more are due. A wheel whose entries
    /// are mostly stale is emptied instead: the caller files those of keys that live again ([`Shard::refile`]).
    pub(crate) fn fire_wheel(&mut self, now_ms: i64, budget: usize, due: &mut Vec<u64>) -> bool {
        due.append(&mut self.overdue);
        if self.should_rebuild() {
            // Begins it; the entries come out through `advance`.
            let _ = self.wheel.drain_all(0, due);
        }
        self.wheel.advance(now_ms, budget, due).more
    }

    /// Has the entry of a hash come out again with the next step: more of its fields are due.
    pub(crate) fn fire_again(&mut self, bits: u64) {
        self.overdue.push(bits);
    }

    /// True if an entry waits for the next step.
    pub(crate) fn fires_again(&self) -> bool {
        !self.overdue.is_empty()
    }

    /// True if most entries of the wheel are of keys that have gone, or have another time.
    fn should_rebuild(&self) -> bool {
        self.wheel.should_rebuild(self.counts.volatile() as usize + self.dated + self.small_dated)
    }

    /// Files the entry of a key that lives again.
    pub(crate) fn refile(&mut self, bits: u64, at_ms: i64) {
        self.wheel.add(bits, at_ms);
    }

    /// Files a key's expiry, unless an entry due no later is already on the wheel.
    pub(crate) fn file_expiry(&mut self, cell: &ShardCell, hash: u64, old: Option<i64>, at: i64, now_ms: i64) {
        if old.is_some_and(|t| t <= at) {
            return;
        }
        if self.wheel.is_empty() {
            // Gives the time to a wheel that may have stood still for long, so that entries are filed where they belong.
            let _ = self.wheel.advance(now_ms, 0, &mut Vec::new());
        }
        self.wheel.add(wheel_bits(hash), at);
        // Where most entries are stale the background is called at once, to rebuild.
        let due = if self.should_rebuild() { 0 } else { at };
        if due < cell.due() {
            cell.set_due(due);
        }
    }
}
