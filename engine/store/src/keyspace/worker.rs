//! The parts of one worker: its appender, its counters, its random numbers, its time.

use std::sync::Arc;

use varve_base::rng::Rng;
use varve_segment::Appender;

use super::store::Store;
use crate::state::effects::Reported;
use crate::state::stats::StoreCounters;

/// One worker's part of the store; used by one thread.
pub struct Worker {
    /// The store that it works on.
    pub store: Arc<Store>,
    /// Its own things, apart so that the store can be borrowed beside them.
    pub local: Local,
}

/// A worker's own things.
pub struct Local {
    pub(crate) id: usize,
    pub(crate) appender: Appender,
    pub(crate) rng: Rng,
    pub(crate) now_ms: i64,
    /// The connection that is served, 0 for none.
    pub(crate) client: u64,
    /// The commands that run leave the access clocks of their keys as they are.
    pub(crate) no_touch: bool,
    pub(crate) counters: Arc<StoreCounters>,
    /// The effects that the running command has reported and that were not handed on yet.
    pub(crate) reported: Reported,
    /// The cutoff of a drain that evicts.
    pub(crate) cutoff: Option<crate::state::candidates::Cutoff>,
    /// Keys drawn for eviction.
    pub(crate) candidates: crate::state::candidates::Candidates,
    /// The store is over its limit and nothing helped: when to try again, ms of Unix time.
    pub(crate) limit_retry_ms: i64,
    /// Time spent on making room since somebody asked, ns.
    pub(crate) room_ns: u64,
    /// Slices of reclaim done in this turn of the background.
    pub(crate) slices: u32,
    /// The tally of the last of them.
    pub(crate) tally: crate::state::meter::Tally,
    /// There were no more for this turn.
    pub(crate) slices_spent: bool,
    /// Scratch for hashes that the wheel fires.
    pub(crate) due: Vec<u64>,
    /// Scratch for a value that is written anew.
    pub(crate) scratch: Vec<u8>,
    /// Scratch memory for compressing and joining nodes of lists, from the first use on.
    pub(crate) press: Option<Box<varve_collection::list::CompressScratch>>,
    /// An element on its way from one list to another.
    pub(crate) moved: Vec<u8>,
    /// Turns the background round over the shards.
    pub(crate) turn: u64,
    /// The home shard after the last one in which something was due.
    pub(crate) expiry_at: usize,
    /// Lower bound of the next expiry in the home shards, as of the last look.
    pub(crate) next_due: Option<i64>,
    /// When that look was, ms of Unix time.
    pub(crate) due_checked_ms: i64,
}

impl std::fmt::Debug for Worker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Worker").field("id", &self.local.id).finish_non_exhaustive()
    }
}

impl Store {
    /// The part of worker `id`, to be used by one thread; each id is asked for once.
    pub fn worker(self: &Arc<Self>, id: usize) -> Worker {
        Worker::new(Arc::clone(self), id, Arc::clone(self.counters(id)))
    }
}

impl Worker {
    fn new(store: Arc<Store>, id: usize, counters: Arc<StoreCounters>) -> Worker {
        let rng = Rng::seeded(store.seed() ^ (id as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let local = Local {
            id,
            appender: Appender::new(),
            rng,
            now_ms: 0,
            client: 0,
            no_touch: false,
            counters,
            reported: Reported::default(),
            cutoff: None,
            candidates: Default::default(),
            limit_retry_ms: 0,
            room_ns: 0,
            slices: 0,
            tally: Default::default(),
            slices_spent: false,
            due: Vec::new(),
            scratch: Vec::new(),
            press: None,
            moved: Vec::new(),
            turn: 0,
            expiry_at: id,
            next_due: None,
            due_checked_ms: 0,
        };
        Worker { store, local }
    }

    /// The worker's number, from 0.
    pub fn id(&self) -> usize {
        self.local.id
    }

    /// The time of the batch that runs, milliseconds of Unix time.
    pub fn now_ms(&self) -> i64 {
        self.local.now_ms
    }

    /// Sets the time for what runs next: once a batch, by whoever read the clock.
    #[inline]
    pub fn set_now(&mut self, now_ms: i64) {
        self.local.now_ms = now_ms;
    }

    /// Gives the pieces of open segments back: the end of a batch that may have appended.
    #[inline]
    pub fn park(&mut self) {
        self.local.appender.park(self.store.log());
    }
}

impl Local {
    /// The worker's number, from 0.
    pub fn id(&self) -> usize {
        self.id
    }

    /// Parks like [`Worker::park`], for callers that have borrowed the store.
    #[inline]
    pub fn park(&mut self, store: &Store) {
        self.appender.park(store.log());
    }
}
