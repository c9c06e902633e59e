//! The work that FLUSHALL and FLUSHDB leave: tables are given back, keys of a database that is gone are removed.

use super::Step;
use crate::keyspace::store::Store;
use crate::state::key::database_of;

/// Keys that a sweep step removes, and buckets that it looks at to find them: most of a shard may be other databases'.
const SWEEP_ENTRIES: usize = 64;
const SWEEP_BUCKETS: usize = 64;

/// Gives some of the detached tables and wheels back; true if there were any.
pub(super) fn drop_detached_step(store: &Store) -> Step {
    let detached = store.detached();
    Step::more(detached.any() && (detached.drop_table_step() | detached.drop_wheel_step()))
}

/// Removes some keys of the first dying database; true while there is one.
pub(super) fn step(store: &Store) -> Step {
    if !store.database_map().owes_sweep() {
        return Step::Done;
    }
    let Some(mut at) = store.detached().sweep.try_lock() else { return Step::Busy };
    // Asked with the sweep in hand: of a database that another worker is done with, nothing must move the place from
    // which the next one's begins.
    let Some(dying) = store.database_map().dying() else { return Step::Done };
    let (id, position) = *at;
    if id == store.cells().len() {
        *at = (0, 0);
        store.database_map().swept(dying);
        store.end_doubled_if_swept();
        return Step::More;
    }
    let Some(mut shard) = store.cells()[id].lock.try_lock() else { return Step::Busy };
    if shard.counts().get(dying).keys == 0 {
        shard.forget_database(dying);
        *at = (id + 1, 0);
        return Step::More;
    }
    let mut doomed = smallvec::SmallVec::<[_; SWEEP_ENTRIES]>::new();
    let (mut next, mut buckets) = (Some(position), 0);
    while let (Some(from), true) = (next, doomed.len() < SWEEP_ENTRIES && buckets < SWEEP_BUCKETS) {
        buckets += 1;
        let hashes = shard.hashes(store.log(), store.seed());
        next = shard.index().scan(from, &hashes, |r| {
            if database_of(&shard.open(store.log(), r)) == dying {
                doomed.push((hashes.hash(r), r));
            }
        });
    }
    for (hash, r) in doomed {
        let entry = shard.index().find_ref(hash, r).expect("just scanned");
        shard.remove(store.ground(), entry);
    }
    shard.follow_index(store.ground(), id);
    *at = next.map_or((id, 0), |position| (id, position));
    Step::More
}
