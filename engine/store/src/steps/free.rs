//! The background's work on big collections: dying ones are freed, tables on their way to another size moved on.
//!
//! ```text
//! DEL, overwrite, expiry, eviction, sweep --> root dying, id number queued
//! background: id number -> shard (try_lock) -> some objects killed -> ... -> id number given back
//!                                                                                   |
//! FLUSHALL --> all roots, their objects gone at once -----------------------> tables shed in steps
//! ```
//! A id number is in a worker's hands or in the queue, never both, so no two workers free one collection.

use std::sync::atomic::Ordering::Relaxed;

use crate::keyspace::store::Store;
use crate::keyspace::worker::Local;

/// Objects killed in one step with the shard locked: some ten microseconds.
const FREE_OBJECTS: usize = 64;
/// Buckets moved in one step.
const MOVE_BUCKETS: usize = 32;

impl Store {
    /// One step of freeing, of moving tables and of shedding; true while work that is not held up is left.
    pub(crate) fn collections_step(&self, local: &mut Local) -> bool {
        if !self.pending().any() {
            return false;
        }
        let mut left = self.free_step(local);
        left |= self.settle_table_step(local);
        left | self.pending().shrink_step()
    }

    /// Kills some objects of a dying collection; true if there was one.
    pub(crate) fn free_step(&self, local: &mut Local) -> bool {
        let Some(id) = self.pending().dying.lock().pop_front() else { return false };
        let at = self.collections().get(id).expect("a dying collection keeps its id");
        let Some(mut shard) = self.cells()[at.shard].lock.try_lock() else {
            self.pending().dying.lock().push_back(id);
            return true;
        };
        let empty = shard.with_root(self.ground(), &mut local.appender, at.place, |root, hands| {
            root.body.free_step(hands, FREE_OBJECTS)
        });
        if empty {
            let root = shard.take_root(at.place);
            debug_assert!(root.dying, "only what no key leads to is freed");
            self.table_bytes().fetch_sub(root.reported as u64, Relaxed);
            self.collections().give(id);
            drop(shard);
            self.pending().drop_later(root.body);
            self.pending().done();
        } else {
            self.pending().dying.lock().push_front(id);
        }
        true
    }

    /// Moves a collection's table on; true if there was one.
    fn settle_table_step(&self, local: &mut Local) -> bool {
        let Some(id) = self.pending().restless.lock().pop_front() else { return false };
        let Some(at) = self.collections().get(id) else {
            self.pending().done();
            return true;
        };
        let locked = self.cells()[at.shard].lock.try_lock();
        let Some(mut shard) = locked.filter(|_| self.collections().get(id) == Some(at)) else {
            self.pending().restless.lock().push_back(id);
            return true;
        };
        if !shard.find_root(at.place, id).is_some_and(|root| root.restless) {
            // Another collection has the number by now.
            self.pending().done();
            return true;
        }
        let left = shard.with_root(self.ground(), &mut local.appender, at.place, |root, hands| {
            if !root.dying {
                root.body.step(hands, MOVE_BUCKETS);
            }
            root.restless = !root.dying && root.body.wants_step();
            root.restless
        });
        if left {
            self.pending().restless.lock().push_front(id);
        } else {
            self.pending().done();
        }
        true
    }
}
