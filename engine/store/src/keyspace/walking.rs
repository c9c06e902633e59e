//! The steps of a walk over the keyspace (`state/walker.rs` has the picture): it begins in all shards, passes place by
//! place, and ends behind the last one.
//!
//! One walk is under way at a time, since an object has one mark. A walk that is abandoned goes on to its end and takes
//! the marks away: the next one begins behind it.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use smallvec::SmallVec;
use varve_base::Ref;

use super::ground::Ground;
use super::shard::Shard;
use super::store::Store;
use super::worker::{StoreWorker, WorkerState};
use crate::state::key::Place;
use crate::state::walker::{Walk, Walker, Walking};

/// Refs of a bucket and of its overflow, mostly.
const BUCKET_REFS: usize = 16;
/// Bytes of values after which a step passes no further bucket.
pub(super) const STEP_BYTES: usize = 64 << 10;

impl Store {
    /// Begins a walk: the walker is shown each key that is there now, once, by the steps of the walk or before the key
    /// changes. False, and nothing is begun, while another walk is under way. Takes the locks of all shards, one after
    /// the other: the gate is held alone if the walk is to have one instant for all of them.
    pub fn begin_walk(&self, walker: Arc<dyn Walker>) -> bool {
        let mut under_way = self.walk().lock();
        if under_way.is_some() {
            return false;
        }
        let walk = Arc::new(Walk::new(walker));
        for (shard, cell) in self.cells().iter().enumerate() {
            cell.lock.lock().walking = Some(Walking::new(&walk, shard));
        }
        *under_way = Some(walk);
        self.walks.store(true, Relaxed);
        true
    }

    /// True while a walk is under way.
    #[inline]
    pub fn walks(&self) -> bool {
        self.walks.load(Relaxed)
    }

    /// True if a step of the walk that is under way is to be made now: its walker has room. A walk that is in other hands
    /// is left alone.
    pub(crate) fn owes_walk(&self) -> bool {
        self.walks() && self.walk().try_lock().is_some_and(|walk| walk.as_ref().is_some_and(|walk| walk.may_go_on()))
    }

    /// True while nothing that can wait is to remove a key: the walker of the walk under way has no room for it. Also if
    /// the walk is in other hands, which may be filling the walker: what can wait asks again.
    pub(crate) fn walker_is_full(&self) -> bool {
        let is_full = |walk: &Arc<Walk>| walk.walker().is_some_and(Walker::is_full);
        self.walks() && self.walk().try_lock().is_none_or(|walk| walk.as_ref().is_some_and(is_full))
    }

    /// Shows some more elements of a long collection, or passes up to `buckets` buckets of one shard; false at the end of the walk, and without one. A shard or a walk that
    /// is in other hands is left for the next call.
    pub(crate) fn walk_step(&self, worker: &mut WorkerState, buckets: usize) -> bool {
        let Some(mut under_way) = self.walk().try_lock() else { return true };
        let Some(walk) = &*under_way else { return false };
        if self.long_step(worker, walk) {
            return true;
        }
        let place = walk.cursor();
        let Some(cell) = self.cells().get(place.shard()) else {
            walk.report_end();
            *under_way = None;
            self.walks.store(false, Relaxed);
            return false;
        };
        let Some(mut shard) = cell.lock.try_lock() else { return true };
        let mut next = Some(place.position());
        let mut bytes = 0;
        for _ in 0..buckets {
            let Some(from) = next.filter(|_| bytes < STEP_BYTES) else { break };
            next = shard.pass_bucket(self.ground(), from, &mut bytes);
        }
        match next {
            Some(position) => walk.pass(Place::new(place.shard(), position)),
            None => {
                walk.pass(Place::new(place.shard() + 1, 0));
                shard.walking = None;
            }
        }
        true
    }

    /// Shows this walker nothing more. The steps of its walk go on to the end; another walk is left alone.
    pub fn abandon_walk(&self, walker: &dyn Walker) {
        if let Some(walk) = self.walk().lock().as_ref().filter(|walk| walk.is_of(walker)) {
            walk.abandon();
        }
    }

    /// True if somebody beside the walk under way reads a collection over several holds, or lists names. Under the gate alone.
    pub(crate) fn has_other_readers(&self) -> bool {
        // A reader that goes meanwhile, with its walk given up, counts as if it stayed.
        let live = self.ground().readers().live();
        self.has_listings() || live > self.walk().lock().as_ref().map_or(0, |walk| walk.long_count())
    }

    /// Ends the walk that is under way since every database is about to be emptied: no object is left to be shown, or to
    /// have its mark taken away. Under the gate alone.
    pub(crate) fn end_walk(&self) {
        let Some(walk) = self.walk().lock().take() else { return };
        walk.drop_long();
        self.walks.store(false, Relaxed);
        for cell in self.cells() {
            cell.lock.lock().walking = None;
        }
        if let Some(walker) = walk.walker() {
            walker.before_all();
        }
    }
}

impl StoreWorker {
    /// Makes a step of the walk that is under way: shows its walker some more elements of a long collection, or passes up to
    /// `buckets` buckets; false at the end of the walk, and without one. The background makes such steps by itself while
    /// the walker has room.
    pub fn walk_step(&mut self, buckets: usize) -> bool {
        let (store, worker) = self.parts();
        store.walk_step(worker, buckets)
    }
}

impl Shard {
    /// Shows the walker the objects of the bucket at a position that have no mark, and takes the marks of the others
    /// away; gives the position behind the bucket, None at the end. The walk passes it before the shard is released.
    /// Adds the bytes that were copied for the walker to `bytes`.
    fn pass_bucket(&mut self, ground: &Ground, from: u64, bytes: &mut usize) -> Option<u64> {
        let log = ground.log();
        let mut refs = SmallVec::<[Ref; BUCKET_REFS]>::new();
        let hashes = self.hashes(log, ground.seed());
        // A table that has changed its size may have a bucket that begins before the position: those are passed.
        let next = self.index.scan(from, &hashes, |r| {
            if Place::of(0, hashes.hash(r)).position() >= from {
                refs.push(r);
            }
        });
        for r in refs {
            if self.open(log, r).saved() {
                self.set_mark(log, r, false);
            } else {
                *bytes += self.show_walker(ground, r);
            }
        }
        next
    }
}
