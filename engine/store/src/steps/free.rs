//! The background's work on big collections: dying ones are freed, tables on their way to another size moved on.
//!
//! ```text
//! DEL, overwrite, expiry, eviction, sweep --> root dying, number queued
//! background: number -> shard (try_lock) -> some objects killed -> ... -> number given back
//!                         |  ^                                                      |
//!                somebody reads it: kept until its last reader ends                 |
//! FLUSHALL --> all roots, their objects gone at once -----------------------> tables shed in steps
//! ```
//! A collection's number is in a worker's hands or in the queue, never both, so no two workers free one collection.

use std::sync::atomic::Ordering::Relaxed;

use super::Step;
use crate::keyspace::store::Store;
use crate::keyspace::worker::WorkerState;

/// Objects killed in one step with the shard locked: some ten microseconds.
const FREE_OBJECTS: usize = 64;
/// Buckets moved in one step.
const MOVE_BUCKETS: usize = 32;

/// Kills some objects of a dying collection; true if there was one.
pub(super) fn step(store: &Store, worker: &mut WorkerState) -> Step {
    let Some(id) = store.pending().dying.lock().pop_front() else { return Step::Done };
    let at = store.collections().get(id).expect("a dying collection keeps its id");
    let Some(mut shard) = store.cells()[at.shard].lock.try_lock() else {
        store.pending().dying.lock().push_back(id);
        return Step::Busy;
    };
    if let Some(root) = shard.find_root(at.place, id).filter(|root| root.body.is_read()) {
        root.kept_for_readers = true;
        store.pending().done();
        return Step::More;
    }
    let empty = shard
        .with_root(store.ground(), worker.appender(), at.place, |root, hands| root.body.free_step(hands, FREE_OBJECTS));
    if empty {
        let root = shard.take_root(store.ground(), at.place);
        debug_assert!(root.dying, "only what no key leads to is freed");
        store.table_bytes().fetch_sub(root.reported as u64, Relaxed);
        store.collections().give(id);
        drop(shard);
        store.pending().drop_later(root.body);
        store.pending().done();
    } else {
        store.pending().dying.lock().push_front(id);
    }
    Step::More
}

/// Has a collection forget a reader whose owner is gone; true if there was one.
pub(super) fn reader_step(store: &Store, worker: &mut WorkerState) -> Step {
    let readers = store.ground().readers();
    let Some((id, number)) = readers.take_gone() else { return Step::Done };
    let Some(at) = store.collections().get(id) else { return Step::More };
    let locked = store.cells()[at.shard].lock.try_lock();
    let Some(mut shard) = locked.filter(|_| store.collections().get(id) == Some(at)) else {
        readers.add_gone(id, number);
        return Step::Busy;
    };
    if !shard.forget_reader(store.ground(), worker.appender(), at.place, (id, number)) {
        readers.add_gone(id, number);
    }
    Step::More
}

/// Moves a collection's table on; true if there was one.
pub(super) fn rehash_step(store: &Store, worker: &mut WorkerState) -> Step {
    let Some(id) = store.pending().restless.lock().pop_front() else { return Step::Done };
    let Some(at) = store.collections().get(id) else {
        store.pending().done();
        return Step::More;
    };
    let locked = store.cells()[at.shard].lock.try_lock();
    let Some(mut shard) = locked.filter(|_| store.collections().get(id) == Some(at)) else {
        store.pending().restless.lock().push_back(id);
        return Step::Busy;
    };
    if !shard.find_root(at.place, id).is_some_and(|root| root.restless) {
        // Another collection has the number by now.
        store.pending().done();
        return Step::More;
    }
    let left = shard.with_root(store.ground(), worker.appender(), at.place, |root, hands| {
        if !root.dying {
            root.body.step(hands, MOVE_BUCKETS);
        }
        root.restless = !root.dying && root.body.wants_step();
        root.restless
    });
    if left {
        store.pending().restless.lock().push_front(id);
    } else {
        store.pending().done();
    }
    Step::More
}
