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
use crate::state::key::Place;
use crate::state::walker::{Walk, Walker, Walking};

/// Refs of a bucket and of its overflow, mostly.
const BUCKET_REFS: usize = 16;

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

    /// Passes up to `buckets` buckets of one shard; false at the end of the walk, and without one. A shard or a walk that
    /// is in other hands is left for the next call.
    pub fn walk_step(&self, buckets: usize) -> bool {
        let Some(mut under_way) = self.walk().try_lock() else { return true };
        let Some(walk) = &*under_way else { return false };
        let place = walk.cursor();
        let Some(cell) = self.cells().get(place.shard()) else {
            walk.report_end();
            *under_way = None;
            self.walks.store(false, Relaxed);
            return false;
        };
        let Some(mut shard) = cell.lock.try_lock() else { return true };
        let mut next = Some(place.position());
        for _ in 0..buckets {
            let Some(from) = next else { break };
            next = shard.pass_bucket(self.ground(), from);
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

    /// Shows the walker of the walk that is under way nothing more. Its steps go on to the end.
    pub fn abandon_walk(&self) {
        if let Some(walk) = &*self.walk().lock() {
            walk.abandon();
        }
    }

    /// Ends the walk that is under way since every database is about to be emptied: no object is left to be shown, or to
    /// have its mark taken away. Under the gate alone.
    pub(crate) fn end_walk(&self) {
        let Some(walk) = self.walk().lock().take() else { return };
        self.walks.store(false, Relaxed);
        for cell in self.cells() {
            cell.lock.lock().walking = None;
        }
        if let Some(walker) = walk.walker() {
            walker.before_all();
        }
    }
}

impl Shard {
    /// Shows the walker the objects of the bucket at a position that have no mark, and takes the marks of the others
    /// away; gives the position behind the bucket, None at the end. The walk passes it before the shard is released.
    fn pass_bucket(&mut self, ground: &Ground, from: u64) -> Option<u64> {
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
                self.show_walker(ground, r);
            }
        }
        next
    }
}
