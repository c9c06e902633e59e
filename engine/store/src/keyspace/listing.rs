//! The names of all keys of a database at one instant, listed over several holds of the shards (KEYS).
//!
//! ```text
//! places, shard by shard      0 ........ cursor ................. end
//!                             passed     ahead: a key that goes is listed first; one that comes is noted, and not listed
//! ```
//! It begins with the gate held alone, in all shards at one instant. A shard that was passed knows nothing of it any more. While
//! no listing is under way, a key that comes or goes costs one test. Several may be under way, beside a walk: nothing is written
//! into objects. Whatever becomes of the database, its keys keep its physical number until they are swept.
//!
//! A listing that is dropped is forgotten by each shard with the next key that comes or goes there.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use varve_base::Ref;
use varve_base::rank::{Rank, RankedMutex};
use varve_segment::Log;

use super::shard::Shard;
use super::store::Store;
use crate::state::clock::is_over;
use crate::state::key::{Key, Place, database_of, hash_of};
use crate::state::listing::{CAME_BYTES, KeyListing, KeyNames, ListingState, Listings, Names, WantsName};

/// Bytes that a store has whose keys are all listed in one hold.
const LISTED_AT_ONCE_BYTES: u64 = 1 << 20;
/// Bytes of keys behind which a hold of a shard passes no further bucket.
const LISTED_BYTES: usize = 128 << 10;
/// Buckets that one hold of a shard passes: some 900 entries.
pub(crate) const LISTED_BUCKETS: usize = 128;
impl KeyListing {
    /// The shard that is to be listed next; `None` at the end.
    pub(crate) fn shard(&self, shards: usize) -> Option<usize> {
        Some(self.cursor().shard()).filter(|&shard| shard < shards)
    }

    /// The names that were listed, once it has come to its end.
    pub fn take_names(&self) -> KeyNames {
        std::mem::take(&mut self.shared.names.lock().listed)
    }

    /// Bytes of the names so far.
    pub fn held_bytes(&self) -> usize {
        let names = self.shared.names.lock();
        names.listed.held_bytes() + names.came_bytes
    }

    /// Lists the names of some buckets of the shard that is held, from the cursor on.
    pub(crate) fn pass(&self, id: usize, shard: &mut Shard, log: &Log) {
        let (shared, from) = (&self.shared, self.cursor());
        debug_assert_eq!(from.shard(), id, "the shard at the cursor");
        let keys = shard.counts.get(shared.db).keys;
        // From the beginning of a shard on it is known when the last key has been met.
        let mut unmet = if from.position() == 0 { keys } else { u64::MAX };
        let mut next = (keys > 0).then_some(from.position());
        {
            let (hashes, mut names) = (shard.hashes(log, shared.seed), shared.names.lock());
            let mut bytes = 0;
            for _ in 0..LISTED_BUCKETS {
                let Some(at) = next.filter(|_| unmet > 0 && bytes < LISTED_BYTES) else { break };
                next = shard.index.scan(at, &hashes, |r| {
                    let object = shard.access.open(log, r);
                    bytes += object.key().len();
                    // A table that has changed its size may have a bucket that begins before the place.
                    if database_of(&object) == shared.db && Place::of(id, hashes.hash(r)).position() >= at {
                        unmet -= 1;
                        if !is_over(object.expiry_ms(), shared.now_ms) {
                            names.list(shared, object.key());
                        }
                    }
                });
            }
        }
        let next = next.filter(|_| unmet > 0);
        shared.cursor.store(next.map_or(Place::new(id + 1, 0), |position| Place::new(id, position)).0, Relaxed);
        if next.is_none() {
            shard.forget_listing(&self.shared);
        }
    }
}

impl Shard {
    /// A key has come that was not there.
    #[inline(always)]
    pub(super) fn note_came(&mut self, k: &Key<'_>) {
        if self.listings.is_some() {
            self.note_came_listed(k);
        }
    }

    #[cold]
    #[inline(never)]
    fn note_came_listed(&mut self, k: &Key<'_>) {
        let Some(listings) = &mut self.listings else { return };
        let shard = listings.shard;
        let goes_on = listings.each(|shared| {
            if shared.concerns(shard, k.db, k.hash) && (shared.wants)(k.bytes) {
                let mut names = shared.names.lock();
                if names.came.insert(k.bytes.into()) {
                    names.came_bytes += k.bytes.len() + CAME_BYTES;
                }
            }
        });
        if !goes_on {
            self.listings = None;
        }
    }

    /// A key is about to go.
    #[inline(always)]
    pub(super) fn note_goes(&mut self, log: &Log, r: Ref) {
        if self.listings.is_some() {
            self.note_goes_listed(log, r);
        }
    }

    #[cold]
    #[inline(never)]
    fn note_goes_listed(&mut self, log: &Log, r: Ref) {
        let Some(listings) = &mut self.listings else { return };
        let (shard, object) = (listings.shard, self.access.open(log, r));
        let (db, name) = (database_of(&object), object.key());
        let goes_on = listings.each(|shared| {
            if !shared.concerns(shard, db, hash_of(shared.seed, db, name)) {
                return;
            }
            let mut names = shared.names.lock();
            if names.came.remove(name) {
                names.came_bytes -= name.len() + CAME_BYTES;
            } else if (shared.wants)(name) && !is_over(object.expiry_ms(), shared.now_ms) {
                names.listed.push(name);
            }
        });
        if !goes_on {
            self.listings = None;
        }
    }

    fn forget_listing(&mut self, passed: &Arc<ListingState>) {
        let Some(listings) = &mut self.listings else { return };
        listings.listings.retain(|listing| listing.strong_count() > 0 && !std::ptr::eq(listing.as_ptr(), &**passed));
        if listings.listings.is_empty() {
            self.listings = None;
        }
    }
}

impl Store {
    /// Begins to list the names of the keys of a logical database that are there now, and wanted. The gate is held alone.
    pub fn begin_listing(&self, db: u32, now_ms: i64, wants: WantsName) -> KeyListing {
        let shared = Arc::new(ListingState {
            db: self.database_map().physical(db),
            now_ms,
            seed: self.seed(),
            wants,
            cursor: AtomicU64::new(0),
            names: RankedMutex::new(Rank::Leaf, Names::default()),
        });
        for (shard, cell) in self.cells().iter().enumerate() {
            let mut held = cell.lock.lock();
            let listings = held.listings.get_or_insert_with(|| Box::new(Listings { shard, listings: Vec::new() }));
            listings.listings.retain(|listing| listing.strong_count() > 0);
            listings.listings.push(Arc::downgrade(&shared));
        }
        self.listings.fetch_add(1, Relaxed);
        KeyListing { shared, live: Arc::clone(&self.listings) }
    }

    /// True if a look at each key, of all databases, may take too long for one hold: the keys are many, or what the store has is, of
    /// which the keys may be the most.
    pub fn is_long_listing(&self) -> bool {
        let keys: u64 = self.counts_of_all().iter().map(|(keys, _)| keys).sum();
        keys >= self.ground().readers().bounds().long_elements
            || self.log().unreclaimable_bytes().0 > LISTED_AT_ONCE_BYTES
    }

    /// True while names of keys are listed: the keys must not go all at once.
    pub(crate) fn has_listings(&self) -> bool {
        self.listings.load(Relaxed) > 0
    }
}
