//! The survey: each worker looks at the keys of its home shards in turn, a few at a call, and notes what it sees.
//!
//! It takes no shard that is held, and none for longer than some buckets take. It changes nothing, the keys' clocks included.
//! Two rounds begin at least a second apart: a small keyspace is not looked at all the time.

use std::collections::HashMap;

use varve_base::Ref;

use crate::keyspace::shard::Shard;
use crate::keyspace::store::Store;
use crate::keyspace::worker::StoreWorker;
use crate::state::clock::is_over;
use crate::state::key::{Place, database_of};
use crate::state::survey::{KeySeen, Survey, Surveyed};
use crate::state::types::Type;

/// Time between the beginnings of two rounds at least, milliseconds.
const ROUND_MS_MIN: i64 = 1000;
/// Shards without keys that one call passes.
const SHARDS_MAX: usize = 64;

impl StoreWorker {
    /// Looks at some keys of this worker's home shards: at about `looks`, where the last call has ended. Called about ten times a
    /// second.
    pub fn survey(&mut self, now_ms: i64, looks: usize) {
        let (store, worker) = self.parts();
        let (first, step, end) = (worker.id(), store.workers(), store.cells().len());
        let Some(_inside) = store.gate().try_enter(worker.id()) else { return };
        let mut left = looks;
        for _ in 0..SHARDS_MAX {
            let Some(place) = place(store, first, now_ms) else { return };
            // Another call finds a busy shard free.
            let Some(shard) = store.cells()[place.shard()].lock.try_lock() else { return };
            let mut survey = store.survey_of(first).lock();
            let next = look_from(store, &shard, &mut survey, place.position(), (now_ms, &mut left));
            survey.place = match next {
                Some(position) => Some(Place::new(place.shard(), position)),
                None => Some(place.shard() + step).filter(|&id| id < end).map(|id| Place::new(id, 0)),
            };
            if left == 0 {
                return;
            }
        }
    }
}

/// Where the worker looks next; None while it is too early for another round.
fn place(store: &Store, worker: usize, now_ms: i64) -> Option<Place> {
    let mut survey = store.survey_of(worker).lock();
    let early = now_ms.abs_diff(survey.began_ms) < ROUND_MS_MIN as u64;
    if survey.place.is_none() && !early {
        survey.begin_round(Place::new(worker, 0), now_ms);
    }
    survey.place
}

/// Looks at a shard's keys from a position on; gives the position behind them, None at the shard's end.
fn look_from(
    store: &Store,
    shard: &Shard,
    survey: &mut Survey,
    from: u64,
    (now_ms, left): (i64, &mut usize),
) -> Option<u64> {
    let hashes = shard.hashes(store.log(), store.seed());
    let mut next = Some(from);
    while let Some(at) = next.filter(|_| *left > 0) {
        next = shard.index().scan(at, &hashes, |r| {
            *left = left.saturating_sub(1);
            look(store, shard, survey, r, now_ms);
        });
    }
    next
}

fn look(store: &Store, shard: &Shard, survey: &mut Survey, r: Ref, now_ms: i64) {
    let object = shard.open(store.log(), r);
    let due_ms = object.expiry_ms();
    // A key of a flushed database that is being swept is nobody's.
    let Some(db) = store.database_map().logical(database_of(&object)).filter(|_| !is_over(due_ms, now_ms)) else {
        return;
    };
    let parts = shard.parts_bytes(store.log(), r);
    let (ty, bytes) = (Type::of_kind(object.kind()), shard.bytes_of(store.log(), &object, parts));
    survey.add(&KeySeen { db, name: object.key(), ty, bytes, due_ms }, now_ms);
}

impl Store {
    /// The looks of all workers as one; how much comes due within each of these spans, milliseconds. No shard is held.
    pub fn surveyed(&self, now_ms: i64, spans_ms: &[i64]) -> Surveyed {
        let mut sum = Surveyed::default();
        for worker in 0..self.workers() {
            self.survey_of(worker).lock().add_to(&mut sum, now_ms, spans_ms);
        }
        sum.sort();
        if self.hides_names() {
            sum.hide_names(|name| self.number_of_name(name));
        }
        sum
    }

    /// The mean time that is left to the keys of each logical database that do not live for ever, milliseconds, by its number:
    /// as the workers' last rounds have seen them. No shard is held.
    pub fn mean_times_left_ms(&self, now_ms: i64) -> HashMap<u32, u64> {
        let mut sums = HashMap::new();
        (0..self.workers()).for_each(|worker| self.survey_of(worker).lock().add_due(&mut sums));
        sums.into_iter().map(|(db, due)| (db, due.mean_left_ms(now_ms))).collect()
    }
}
