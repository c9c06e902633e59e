//! The parts of one worker: its appender, its counters, its random numbers, its time.

use std::collections::VecDeque;
use std::sync::Arc;

use varve_base::hash::GOLDEN_RATIO;
use varve_base::rng::Rng;
use varve_segment::Appender;

use super::store::Store;
use crate::state::background::BackgroundState;
use crate::state::buffers::Buffers;
use crate::state::effects::Reported;
use crate::state::owed::Owed;
use crate::state::ready::ReadyKey;
use crate::state::stats::StoreCounters;

/// One worker's part of the store; used by one thread.
pub struct StoreWorker {
    /// The store that it works on.
    pub(super) store: Arc<Store>,
    /// Its own things, apart so that the store can be borrowed beside them.
    pub(super) local: WorkerState,
}

/// A worker's own things.
pub struct WorkerState {
    id: usize,
    /// The number of the worker that it is a part of.
    home: usize,
    appender: Appender,
    rng: Rng,
    now_ms: i64,
    /// The connection that is served, 0 for none.
    pub(super) client: u64,
    /// The commands that run leave the access clocks of their keys as they are.
    no_touch: bool,
    counters: Arc<StoreCounters>,
    /// The effects that the running command has reported and that were not handed on yet.
    pub(super) reported: Reported,
    /// The position of the journal behind the last unit that was appended, until the shards of its keys have noted it.
    pub(super) appended: u64,
    /// The position of the journal for which the replies of the commands that ran lately wait.
    pub(super) awaited: u64,
    /// The background's state between its steps.
    background: BackgroundState,
    /// Time spent on making room since this was last asked, ns.
    room_ns: u64,
    /// The last admission that had to make room has found every lock busy.
    room_is_held: bool,
    /// The time of the turn in which admissions have removed keys of emptied databases for as long as they may, ms of Unix time.
    swept_ms: Option<i64>,
    /// How long the shard was held for the last part of a long command, ns; `None` once it was asked.
    part_ns: Option<u64>,
    buffers: Buffers,
    /// Keys that the store has removed by itself and for which somebody waits: who waits for a group of a stream is answered.
    pub(super) gone: VecDeque<ReadyKey>,
    /// Entries in shards that were held by others when they were to go.
    pub(super) owed: Owed,
}

impl std::fmt::Debug for StoreWorker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StoreWorker").field("id", &self.local.id).finish_non_exhaustive()
    }
}

impl Store {
    /// The part of worker `id`, to be used by one thread; each id is asked for once.
    pub fn worker(self: &Arc<Self>, id: usize) -> StoreWorker {
        StoreWorker::new(Arc::clone(self), (id, id))
    }

    /// The part of worker `id` on which its scripts run, to be used by the same thread; each id is asked for once. A script
    /// may rest inside the gate while the worker's first part is used.
    pub fn script_worker(self: &Arc<Self>, id: usize) -> StoreWorker {
        StoreWorker::new(Arc::clone(self), (self.workers() + id, id))
    }
}

impl StoreWorker {
    fn new(store: Arc<Store>, (id, home): (usize, usize)) -> StoreWorker {
        let counters = Arc::clone(store.counters(id));
        let rng = Rng::seeded(store.seed() ^ (id as u64 + 1).wrapping_mul(GOLDEN_RATIO));
        let local = WorkerState {
            id,
            home,
            appender: Appender::new(),
            rng,
            now_ms: 0,
            client: 0,
            no_touch: false,
            counters,
            reported: Reported::default(),
            appended: 0,
            awaited: 0,
            background: BackgroundState::new(id),
            room_ns: 0,
            room_is_held: false,
            swept_ms: None,
            part_ns: None,
            buffers: Buffers::default(),
            gone: VecDeque::new(),
            owed: Owed::default(),
        };
        StoreWorker { store, local }
    }

    /// The worker's number, from 0.
    pub fn id(&self) -> usize {
        self.local.id
    }

    /// The time of the batch that runs, milliseconds of Unix time.
    pub fn now_ms(&self) -> i64 {
        self.local.now_ms
    }

    /// Sets the time for what runs next: once a batch.
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

impl StoreWorker {
    /// The store, and the worker's own things beside it.
    #[inline(always)]
    pub fn parts(&mut self) -> (&Store, &mut WorkerState) {
        (&self.store, &mut self.local)
    }

    /// The store that it works on.
    #[inline]
    pub fn store(&self) -> &Arc<Store> {
        &self.store
    }

    /// Sets on whose behalf the next commands run: a connection's number, 0 for nobody's.
    #[inline]
    pub fn set_client(&mut self, client: u64) {
        self.local.client = client;
    }

    /// Sets whether the next commands leave the clocks of the keys that they use as they are (CLIENT NO-TOUCH).
    #[inline]
    pub fn set_no_touch(&mut self, no_touch: bool) {
        self.local.no_touch = no_touch;
    }
}

impl WorkerState {
    /// The number of this part, from 0: its seat at the gate. Parts for scripts have those behind all workers'.
    #[inline]
    pub fn id(&self) -> usize {
        self.id
    }

    /// The number of the worker whose part this is: to others, both parts are the same worker.
    #[inline]
    pub(crate) fn home(&self) -> usize {
        self.home
    }

    /// Gives the pieces of open segments back: the end of a batch that may have appended.
    #[inline]
    pub fn park(&mut self, store: &Store) {
        self.appender.park(store.log());
    }

    /// The pieces of open segments to which this worker appends.
    #[inline(always)]
    pub(crate) fn appender(&mut self) -> &mut Appender {
        &mut self.appender
    }

    /// The worker's random numbers.
    #[inline(always)]
    pub(crate) fn rng(&mut self) -> &mut Rng {
        &mut self.rng
    }

    /// The random numbers that are to come.
    #[inline]
    pub(crate) fn coming_draws(&self) -> Rng {
        self.rng.clone()
    }

    /// The time of the batch that runs, milliseconds of Unix time.
    #[inline(always)]
    pub(crate) fn now_ms(&self) -> i64 {
        self.now_ms
    }

    /// Moves the time of the batch on.
    #[inline]
    pub(crate) fn pass_ms(&mut self, ms: i64) {
        self.now_ms += ms;
    }

    /// True if what is served leaves the clocks of keys as they are.
    #[inline(always)]
    pub(crate) fn no_touch(&self) -> bool {
        self.no_touch
    }

    /// The effects that the running command has reported.
    #[inline(always)]
    pub(crate) fn reported(&self) -> &Reported {
        &self.reported
    }

    /// The effects that the running command has reported, for adding to them.
    #[inline(always)]
    pub(crate) fn reported_mut(&mut self) -> &mut Reported {
        &mut self.reported
    }

    /// The counts of this worker.
    #[inline(always)]
    pub(crate) fn counters(&self) -> &StoreCounters {
        &self.counters
    }

    /// The background's state between its steps.
    #[inline]
    pub(crate) fn background(&self) -> &BackgroundState {
        &self.background
    }

    /// The background's state between its steps, for changing it.
    #[inline]
    pub(crate) fn background_mut(&mut self) -> &mut BackgroundState {
        &mut self.background
    }

    /// Counts time spent on making room, ns.
    pub(crate) fn add_room_ns(&mut self, ns: u64) {
        self.room_ns += ns;
    }

    /// Nanoseconds that admissions have spent on making room since this was last asked.
    #[inline]
    pub(crate) fn take_room_ns(&mut self) -> u64 {
        std::mem::take(&mut self.room_ns)
    }

    /// Whether the last admission that had to make room has found every lock busy: the next one need not look on as long.
    pub(crate) fn room_is_held(&self) -> bool {
        self.room_is_held
    }

    /// Whether admissions have removed keys of emptied databases for as long as they may in this turn: many writers share that
    /// time.
    pub(crate) fn has_swept_in_this_turn(&self) -> bool {
        self.swept_ms == Some(self.now_ms)
    }

    /// An admission has removed such keys for as long as it may.
    pub(crate) fn note_swept(&mut self) {
        self.swept_ms = Some(self.now_ms);
    }

    pub(crate) fn set_room_is_held(&mut self, is_held: bool) {
        self.room_is_held = is_held;
    }

    /// Notes how long a shard was held for a part of a long command, ns.
    pub(crate) fn note_part_ns(&mut self, ns: u64) {
        self.part_ns = Some(ns);
    }

    /// How long a shard was held for the last part, if that was not asked since.
    pub(crate) fn take_part_ns(&mut self) -> Option<u64> {
        self.part_ns.take()
    }

    /// Runs `work` with the buffer of a value that is written anew, emptied.
    pub(crate) fn with_scratch<R>(&mut self, work: impl FnOnce(&mut WorkerState, &mut Vec<u8>) -> R) -> R {
        let mut scratch = std::mem::take(&mut self.buffers.value);
        scratch.clear();
        let done = work(self, &mut scratch);
        self.buffers.value = scratch;
        done
    }

    /// The buffers that work lends itself.
    #[inline(always)]
    pub(crate) fn buffers(&mut self) -> &mut Buffers {
        &mut self.buffers
    }
}
