//! The one scheduler of background work: steps on the workers, between batches.
//!
//! A worker calls [`StoreWorker::background`] once a turn of its loop. It runs rounds of steps until its budget (the
//! server gives 25 to 100 us) is spent or nothing is owed:
//!
//! ```text
//! expiry (home shards) -> index growth -> eviction over the limit -> reclaim -> release of extents and of cached pages
//! -> sweeps -> collections -> detached tables -> the walk
//! ```
//! Tests drive the same rounds by hand.

use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use super::drain::SLICE_OBJECTS;
use super::sweep::{self, Swept};
use super::{Slice, Step, debt, drain, expiry, free, index_growth, is_near, page_cache, room};
use crate::keyspace::store::Store;
use crate::keyspace::worker::{StoreWorker, WorkerState};

/// Buckets that one step of a walk passes: about 25 keys, some microseconds while their values are small.
const WALK_BUCKETS: usize = 4;
/// How soon a walk is looked at again whose walker has no room, ms: about the time in which a disk takes a megabyte.
const WALK_WAITS_MS: i64 = 1;
/// How soon it is looked again whether a shard is free whose keys are to be swept, ms.
const SWEEP_AGAIN_MS: i64 = 1;

/// Rounds in a row that meet busy locks and do nothing, until the worker rests, and for how long, ms. Each looks at other shards.
const BUSY_ROUNDS_MAX: u32 = 16;
const BUSY_AGAIN_MS: i64 = 1;

/// Bytes of freed runs that one step gives back to the system: one madvise of about 40 us.
const RELEASE_BYTES: usize = 256 << 10;

impl StoreWorker {
    /// Runs what is owed, for at most about `budget`. Gives when it wants to be called again, in milliseconds of Unix
    /// time: at once (a time not after `now_ms`) while work is left, `None` when nothing is planned.
    pub fn background(&mut self, now_ms: i64, budget: Duration) -> Option<i64> {
        self.set_now(now_ms);
        self.set_client(0);
        let (store, worker) = self.parts();
        let owed = worker.pay_owed(store, now_ms);
        let planned = self.owed_steps(now_ms, budget);
        owed.into_iter().chain(planned).min()
    }

    /// Runs the steps that are owed, like [`StoreWorker::background`].
    fn owed_steps(&mut self, now_ms: i64, budget: Duration) -> Option<i64> {
        let (store, worker) = self.parts();
        let due = expiry::check_due(store, worker, now_ms);
        if !due && !owes_any(store) && !room::owes_eviction(store, worker) {
            return worker.background().next_due.into_iter().chain(room::held_until_ms(worker)).min();
        }
        let Some(_inside) = store.gate().try_enter(worker.id()) else { return Some(now_ms) };
        let start = Instant::now();
        (worker.background_mut().slices, worker.background_mut().slices_spent) = (0, false);
        let left = rounds(store, worker, start, budget);
        worker.park(store);
        store.slices.record(start.elapsed());
        if left == Step::More || worker.background().slices_spent {
            return Some(now_ms);
        }
        if left == Step::Busy {
            // A script may rest for seconds with the locks that it holds.
            return Some(now_ms + BUSY_AGAIN_MS);
        }
        worker.background_mut().due_checked_ms = 0;
        expiry::check_due(store, worker, now_ms);
        let walk = store.walks().then_some(now_ms + WALK_WAITS_MS);
        let sweep = store.database_map().owes_sweep().then_some(now_ms + SWEEP_AGAIN_MS);
        let limit = room::held_until_ms(worker);
        worker.background().next_due.into_iter().chain(walk).chain(sweep).chain(limit).min()
    }
}

/// Rounds of steps until the budget is spent, but one at least, or until some rounds have met busy locks alone.
fn rounds(store: &Store, worker: &mut WorkerState, start: Instant, budget: Duration) -> Step {
    let (mut spent, mut busy) = (Duration::ZERO, 0);
    loop {
        let left = round(store, worker);
        busy = if left == Step::Busy { busy + 1 } else { 0 };
        let now = start.elapsed();
        store.rounds.record(now - spent);
        spent = now;
        if left == Step::Done || spent >= budget || busy >= BUSY_ROUNDS_MAX {
            return left;
        }
    }
}

/// Whether any work is owed. Every worker asks once a turn of its loop, so this writes nothing, takes no lock, and reads
/// nothing that each batch changes: whether reclaim is owed, which follows from sums of that kind, is looked at by one
/// worker every few milliseconds.
fn owes_any(store: &Store) -> bool {
    store.ground().growing().iter().any(|word| word.load(Relaxed) != 0)
        || store.reclaimer().owed.load(Relaxed)
        || page_cache::owes_decay(store)
        || store.log().owes_release()
        || store.database_map().owes_sweep()
        || store.detached().any()
        || store.pending().any()
        || store.walks()
        || store.ground().readers().any_gone()
}

/// One round of steps, one of each kind that is owed: whether one of them did something, or else met a lock that was busy.
fn round(store: &Store, worker: &mut WorkerState) -> Step {
    let steps = [
        expiry::step(store, worker),
        index_growth::step(store, worker),
        room::limit_step(store, worker),
        reclaim_step(store, worker),
        Step::more(store.log().release_step(RELEASE_BYTES)),
        page_cache::step(store, worker.now_ms()),
        sweep_step(store, worker),
        collections_step(store, worker),
        sweep::drop_detached_step(store),
        walk_step(store, worker),
    ];
    steps.into_iter().max().expect("there are steps")
}

/// Removes some keys of a database that was flushed, unless the walk under way has no room for them: they can wait. Where all that is
/// left is in shards that are held, this worker looks again a millisecond later, and not all the time.
fn sweep_step(store: &Store, worker: &mut WorkerState) -> Step {
    let now_ms = worker.now_ms();
    let waits = is_near(worker.background().sweep_again_ms, now_ms, SWEEP_AGAIN_MS);
    if !store.database_map().owes_sweep() || store.walker_is_full() || waits {
        return Step::Done;
    }
    match sweep::some(store) {
        Swept::Some => Step::More,
        Swept::Nothing => Step::Done,
        Swept::Elsewhere => Step::Busy,
        Swept::Held | Swept::Counted => {
            worker.background_mut().sweep_again_ms = now_ms + SWEEP_AGAIN_MS;
            Step::Done
        }
    }
}

/// Passes some buckets, if a walk is under way and its walker has room. Where the walk or the shard is busy, another round
/// tries again.
fn walk_step(store: &Store, worker: &mut WorkerState) -> Step {
    Step::more(store.owes_walk() && store.walk_step(worker, WALK_BUCKETS))
}

/// A step of each kind that collections owe. Three leaf locks are taken for it, so it is asked first whether any is owed.
fn collections_step(store: &Store, worker: &mut WorkerState) -> Step {
    if !store.pending().any() && !store.ground().readers().any_gone() {
        return Step::Done;
    }
    let steps = [
        free::reader_step(store, worker),
        free::step(store, worker),
        free::rehash_step(store, worker),
        Step::more(store.pending().shrink_step()),
        Step::more(store.pending().outlines().free_step()),
    ];
    steps.into_iter().max().expect("there are steps")
}

/// A slice of reclaim, as far as the debt has slices in this turn. Where a lock is busy, the work is left to the worker
/// that has the drain, or to the next turn.
fn reclaim_step(store: &Store, worker: &mut WorkerState) -> Step {
    let slices = debt::look(store);
    if worker.background().slices >= slices {
        worker.background_mut().slices_spent = slices > 0;
        return Step::Done;
    }
    worker.background_mut().slices += 1;
    let slice = drain::slice(store, worker, SLICE_OBJECTS, false);
    debt::count_background_slice(store, slice, &worker.background().tally);
    Step::more(matches!(slice, Slice::Progress | Slice::Drained))
}
