//! Work that the background owes to big collections: numbers of those that die or whose tables change size, and tables
//! without objects.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use varve_base::rank::{Rank, RankedMutex};
use varve_base::shared::SharedUsize;
use varve_collection::{Collection, CollectionId};

use super::outline::LeftOutlines;
use super::roots::Roots;

/// Roots that one step looks at which have no more to shed than it takes to drop them.
pub(crate) const SHED_ROOTS: usize = 16;

/// Ids of collections that the background has to see to.
pub(crate) struct PendingWork {
    pub(crate) dying: RankedMutex<VecDeque<CollectionId>>,
    pub(crate) restless: RankedMutex<VecDeque<CollectionId>>,
    pub(crate) dropped: RankedMutex<Dropped>,
    /// How much there is in all three, to be asked without a lock.
    pub(crate) owed: SharedUsize,
    /// Collections that were freed so far.
    freed: SharedUsize,
    /// Memory that outlines of streams have left, which counts in none of these.
    outlines: Arc<LeftOutlines>,
}

/// Collections that the background frees in steps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Freeing {
    /// Those that are on their way.
    pub pending: u64,
    /// Those that were freed since the start.
    pub freed: u64,
}

/// Structures that have memory and no objects any more.
#[derive(Default)]
pub(crate) struct Dropped {
    /// Roots of a store that was emptied at once, as its shards had them.
    pub(crate) roots: Vec<Roots>,
    /// The structures that are shrunk first.
    pub(crate) bodies: Vec<Collection>,
}

impl PendingWork {
    pub(crate) fn new() -> PendingWork {
        PendingWork {
            dying: RankedMutex::new(Rank::Leaf, VecDeque::new()),
            restless: RankedMutex::new(Rank::Leaf, VecDeque::new()),
            dropped: RankedMutex::new(Rank::Leaf, Dropped::default()),
            owed: SharedUsize::new(0),
            freed: SharedUsize::new(0),
            outlines: LeftOutlines::new(),
        }
    }

    /// See [`Freeing`].
    pub(crate) fn freeing(&self) -> Freeing {
        let dying = self.dying.lock().len();
        let dropped = self.dropped.lock();
        // Of a store that was emptied at once, the collections of a shard count as one.
        let pending = dying + dropped.bodies.len() + dropped.roots.len() + self.outlines.count();
        Freeing { pending: pending as u64, freed: self.freed.load(Relaxed) as u64 }
    }

    pub(crate) fn any(&self) -> bool {
        self.owed.load(Relaxed) > 0 || self.outlines.count() > 0
    }

    /// Memory that outlines of streams have left.
    pub(crate) fn outlines(&self) -> &Arc<LeftOutlines> {
        &self.outlines
    }

    pub(crate) fn mark_dying(&self, id: CollectionId) {
        self.owed.fetch_add(1, Relaxed);
        self.dying.lock().push_back(id);
    }

    pub(crate) fn enqueue_rehash(&self, id: CollectionId) {
        self.owed.fetch_add(1, Relaxed);
        self.restless.lock().push_back(id);
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
    pub(crate) fn drop_later(&self, body: Collection) {
        self.owed.fetch_add(1, Relaxed);
        self.dropped.lock().bodies.push(body);
    }

    /// Sheds some of what was dropped; true if there was anything.
    pub(crate) fn shrink_step(&self) -> bool {
        for n in 0..SHED_ROOTS {
            let mut dropped = self.dropped.lock();
            if let Some(mut body) = dropped.bodies.pop() {
                drop(dropped);
                if body.shrink_step() {
                    self.freed.fetch_add(1, Relaxed);
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

    pub(crate) fn done(&self) {
        self.owed.fetch_sub(1, Relaxed);
    }
}
