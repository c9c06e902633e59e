//! The work that FLUSHALL and FLUSHDB leave: tables are given back, keys of a database that is gone are removed.

use super::Step;
use crate::keyspace::shard::Shard;
use crate::keyspace::store::Store;
use crate::state::detached::SweepPlace;
use crate::state::key::database_of;

/// Keys that a sweep step removes, and buckets that it looks at to find them: most of a shard may be other databases'.
const SWEEP_ENTRIES: usize = 64;
const SWEEP_BUCKETS: usize = 64;

/// Gives some of the detached tables and wheels back; true if there were any.
pub(super) fn drop_detached_step(store: &Store) -> Step {
    let detached = store.detached();
    Step::more(detached.any() && (detached.drop_table_step() | detached.drop_wheel_step()))
}

/// The result of a step of the sweep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "where keys are to go for others, it makes a difference who keeps them"]
pub(super) enum Swept {
    /// Keys were removed, or the last of a database's are gone.
    Some,
    /// No database is dying.
    Nothing,
    /// Another worker is sweeping at this moment.
    Elsewhere,
    /// Each shard that has keys of the dying database is held.
    Held,
    /// No shard has any, but some that are held count the database still.
    Counted,
}

/// Removes some keys of the first dying database, of a shard that is free. A held one is passed over, and looked at again when
/// all others have none left. Shards that do not know the database are not locked.
pub(super) fn some(store: &Store) -> Swept {
    if !store.database_map().owes_sweep() {
        return Swept::Nothing;
    }
    let Some(mut place) = store.detached().sweep.try_lock() else { return Swept::Elsewhere };
    // Asked with the sweep in hand: of a database that another worker is done with, nothing must move the place from
    // which the next one's begins.
    let Some(dying) = store.database_map().dying() else { return Swept::Nothing };
    let mut is_held = false;
    for _ in 0..=store.cells().len() {
        let Some(cell) = store.cells().get(place.shard) else {
            let is_over = !place.has_passed_held;
            place.begin_pass();
            if is_over {
                *place = SweepPlace::default();
                store.database_map().swept(dying);
                store.end_doubled_if_swept();
                return Swept::Some;
            }
            continue;
        };
        // The keys of a dying database only become fewer, whoever holds the shard.
        let Some(counted) = cell.counts().counted(dying) else {
            place.shard += 1;
            continue;
        };
        let Some(mut shard) = cell.lock.try_lock() else {
            is_held |= counted.keys > 0;
            place.has_passed_held = true;
            place.shard += 1;
            continue;
        };
        if shard.counts().get(dying).keys == 0 {
            shard.forget_database(dying);
            place.shard += 1;
            continue;
        }
        let position = place.position_mut(store.cells().len());
        // Behind the last position none are left, which the next step notes.
        *position = sweep_shard(store, &mut shard, dying, *position).unwrap_or(0);
        shard.follow_index(store.ground(), place.shard);
        return Swept::Some;
    }
    if is_held { Swept::Held } else { Swept::Counted }
}

/// Removes some keys of this database from a shard, from a position on; the position to go on from, if this was not the last.
fn sweep_shard(store: &Store, shard: &mut Shard, dying: u16, from: u64) -> Option<u64> {
    let mut doomed = smallvec::SmallVec::<[_; SWEEP_ENTRIES]>::new();
    let (mut next, mut buckets) = (Some(from), 0);
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
    next
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Options, StringForm, Ttl};

    /// Others hold each shard now and then: the sweep goes on in it where it was. From the beginning of its index on each time, it
    /// would need as many visits in a row as there are steps before its place, and in a large shard never come to the end.
    #[test]
    fn issue_11_a_shard_that_is_held_now_and_then_keeps_its_place() {
        const KEYS: usize = 20_000;
        let calls = |held_every: usize| {
            let store = Store::new(&Options { shards: 2, seed: 7, ..Options::default() }).expect("an address range");
            let mut worker = store.worker(0);
            for (db, n) in (0..2).flat_map(|db| (0..KEYS).map(move |n| (db, n))) {
                worker.inside(db, |tx| {
                    let name = format!("key:{n}").into_bytes();
                    let key = tx.key(&name);
                    tx.hold(&[tx.shard_of(key.hash)]);
                    tx.set(&key, b"v", Ttl::Clear, StringForm::Auto);
                });
            }
            worker.exclusive(|worker| store.flush_db(worker, 1));
            worker.park();
            let mut calls = 0;
            while store.database_map().owes_sweep() {
                calls += 1;
                assert!(calls < 10 * KEYS, "it ends");
                let held = calls.is_multiple_of(held_every).then(|| store.cells().iter().map(|cell| cell.lock.lock()));
                let held: Vec<_> = held.into_iter().flatten().collect();
                let swept = std::thread::scope(|scope| scope.spawn(|| some(&store)).join().expect("no panic"));
                assert!(held.is_empty() || swept != Swept::Some, "all shards are held");
            }
            store.verify();
            calls
        };
        let (undisturbed, disturbed) = (calls(usize::MAX), calls(10));
        assert!(undisturbed > KEYS / SWEEP_ENTRIES / 2, "{undisturbed} calls");
        assert!(disturbed * 10 < undisturbed * 12, "{disturbed} calls for {undisturbed}");
    }
}
