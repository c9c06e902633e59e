//! What the background owes to big collections: dying ones are freed, tables on their way to another size moved on.
//!
//! ```text
//! DEL, overwrite, expiry, eviction, sweep --> root dying, slot number queued
//! background: slot number -> shard (try_lock) -> some objects killed -> ... -> slot number given back
//!                                                                                   |
//! FLUSHALL --> all roots, their objects gone at once -----------------------> tables shed in steps
//! ```
//! A slot number is in a worker's hands or in the queue, never both, so no two workers free one collection.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use super::Root;
use super::roots::Roots;
use super::table::RootLocation;
use crate::rank::{Rank, RankedMutex};
use crate::shard::Shard;
use crate::store::Store;
use crate::worker::Local;
use varve_collection::{Collection, WriteCtx};

/// Objects killed in one step with the shard locked: some ten microseconds.
const FREE_OBJECTS: usize = 64;
/// Roots that one step looks at which have no more to shed than it takes to drop them.
const SHED_ROOTS: usize = 16;
/// Buckets moved in one step.
const MOVE_BUCKETS: usize = 32;

/// Slot numbers that the background has to see to.
pub(crate) struct PendingWork {
    dying: RankedMutex<VecDeque<u32>>,
    restless: RankedMutex<VecDeque<u32>>,
    dropped: RankedMutex<Dropped>,
    /// How much there is in all three, to be asked without a lock.
    owed: AtomicUsize,
}

/// What has memory and no objects any more.
#[derive(Default)]
struct Dropped {
    /// Roots of a store that was emptied at once, as its shards had them.
    roots: Vec<Roots>,
    /// What is shed first.
    bodies: Vec<Collection>,
}

impl PendingWork {
    pub(crate) fn new() -> PendingWork {
        PendingWork {
            dying: RankedMutex::new(Rank::Leaf, VecDeque::new()),
            restless: RankedMutex::new(Rank::Leaf, VecDeque::new()),
            dropped: RankedMutex::new(Rank::Leaf, Dropped::default()),
            owed: AtomicUsize::new(0),
        }
    }

    pub(crate) fn any(&self) -> bool {
        self.owed.load(Relaxed) > 0
    }

    pub(crate) fn bury(&self, slot: u32) {
        self.owed.fetch_add(1, Relaxed);
        self.dying.lock().push_back(slot);
    }

    pub(crate) fn unsettle(&self, slot: u32) {
        self.owed.fetch_add(1, Relaxed);
        self.restless.lock().push_back(slot);
    }

    /// Everything at once was emptied, of which these roots are left; under the gate alone.
    pub(crate) fn reset(&self, roots: Vec<Roots>) {
        self.dying.lock().clear();
        self.restless.lock().clear();
        let mut dropped = self.dropped.lock();
        dropped.roots.extend(roots.into_iter().filter(|roots| !roots.is_empty()));
        self.owed.store(dropped.roots.len() + dropped.bodies.len(), Relaxed);
    }

    /// Leaves a body without objects to be shed.
    fn drop_later(&self, body: Collection) {
        self.owed.fetch_add(1, Relaxed);
        self.dropped.lock().bodies.push(body);
    }

    /// Sheds some of what was dropped; true if there was anything.
    fn shed_step(&self) -> bool {
        for n in 0..SHED_ROOTS {
            let mut dropped = self.dropped.lock();
            if let Some(mut body) = dropped.bodies.pop() {
                drop(dropped);
                if body.shed_step() {
                    self.done();
                    continue;
                }
                self.dropped.lock().bodies.push(body);
                return true;
            }
            let Some(roots) = dropped.roots.last_mut() else { return n > 0 };
            match roots.pop() {
                Some(root) => {
                    self.owed.fetch_add(1, Relaxed);
                    dropped.bodies.push(root.body);
                }
                None => {
                    dropped.roots.pop();
                    self.done();
                }
            }
        }
        true
    }

    fn done(&self) {
        self.owed.fetch_sub(1, Relaxed);
    }
}

impl Store {
    /// One step of freeing, of moving tables and of shedding; true while work that is not held up is left.
    pub(crate) fn collections_step(&self, local: &mut Local) -> bool {
        if !self.chores.any() {
            return false;
        }
        let mut left = self.free_step(local);
        left |= self.settle_table_step(local);
        left | self.chores.shed_step()
    }

    /// Kills some objects of a dying collection; true if there was one.
    pub(crate) fn free_step(&self, local: &mut Local) -> bool {
        let Some(slot) = self.chores.dying.lock().pop_front() else { return false };
        let at = self.slots.get(slot).expect("a dying collection keeps its slot");
        let Some(mut shard) = self.shards[at.shard].lock.try_lock() else {
            self.chores.dying.lock().push_back(slot);
            return true;
        };
        let empty = shard.with_root(self, local, at, |root, hands| root.body.free_step(hands, FREE_OBJECTS));
        if empty {
            let root = shard.roots.take(at.place);
            debug_assert!(root.dying, "only what no key leads to is freed");
            self.table_bytes.fetch_sub(root.reported as u64, Relaxed);
            self.slots.give(slot);
            drop(shard);
            self.chores.drop_later(root.body);
            self.chores.done();
        } else {
            self.chores.dying.lock().push_front(slot);
        }
        true
    }

    /// Moves a collection's table on; true if there was one.
    fn settle_table_step(&self, local: &mut Local) -> bool {
        let Some(slot) = self.chores.restless.lock().pop_front() else { return false };
        let Some(at) = self.slots.get(slot) else {
            self.chores.done();
            return true;
        };
        let locked = self.shards[at.shard].lock.try_lock();
        let Some(mut shard) = locked.filter(|_| self.slots.get(slot) == Some(at)) else {
            self.chores.restless.lock().push_back(slot);
            return true;
        };
        if !shard.roots.find(at.place, slot).is_some_and(|root| root.restless) {
            // Another collection has the number by now.
            self.chores.done();
            return true;
        }
        let left = shard.with_root(self, local, at, |root, hands| {
            if !root.dying {
                root.body.step(hands, MOVE_BUCKETS);
            }
            root.restless = !root.dying && root.body.wants_step();
            root.restless
        });
        if left {
            self.chores.restless.lock().push_front(slot);
        } else {
            self.chores.done();
        }
        true
    }

    /// Follows the size of a collection's tables after it was changed, and sees that they are moved on.
    #[inline]
    pub(crate) fn follow_root(&self, root: &mut Root) {
        let bytes = root.held_bytes();
        if bytes != root.reported {
            self.table_bytes.fetch_add((bytes as u64).wrapping_sub(root.reported as u64), Relaxed);
            root.reported = bytes;
        }
        if !root.restless && !root.dying && root.body.wants_step() {
            root.restless = true;
            self.chores.unsettle(root.slot);
        }
    }
}

impl Shard {
    /// Works on a root of this shard.
    #[inline]
    pub(crate) fn with_root<R>(
        &mut self,
        store: &Store,
        local: &mut Local,
        at: RootLocation,
        work: impl FnOnce(&mut Root, &mut WriteCtx<'_>) -> R,
    ) -> R {
        let root = self.roots.get_mut(at.place);
        let slot = root.slot;
        let (access, appender) = (&mut self.access, &mut local.appender);
        let done = work(root, &mut WriteCtx { log: &store.log, access, appender, seed: store.seed, slot });
        store.follow_root(root);
        done
    }
}
