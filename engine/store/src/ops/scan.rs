//! Commands that look at one shard after the other: SCAN, RANDOMKEY.
//!
//! ```text
//!   a shard that the view keeps (EXEC)   looked at where it stands
//!   any other                            tried for; busy: the step ends before it, or nothing is done
//! ```
//! They never wait for a shard beside others: a transaction of another worker may hold it for seconds.

use varve_collection::SCAN_BYTES;

use super::Tx;
use crate::keyspace::walk::{EmitKey, ScanBudget};
use crate::state::key::Place;
use crate::state::types::Type;

/// Entries that one SCAN call looks at per key asked for, when other databases' or expired keys are in the way.
const SCAN_LOOKS_PER_KEY: usize = 4;
/// Entries that one SCAN call looks at in any case, about 0.2 ms of work: a small database beside a large one is scanned
/// in few calls.
const SCAN_LOOKS_MIN: usize = 4096;
/// Entries that RANDOMKEY draws before it looks for one.
const SAMPLES: usize = 64;

/// The result of a draw among all keys of a database.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Drawn {
    /// A key.
    Key(Vec<u8>),
    /// The database has none.
    Nothing,
    /// The shard that the draw fell on is busy.
    Busy,
}

impl Tx<'_> {
    /// SCAN's step over the selected database: emits some keys from `cursor` on, about `count`, and gives the next cursor, 0 at
    /// the end. A cursor beyond the last shard ends the scan. A step ends before a shard that is busy; None, and nothing is
    /// emitted, if it is the first one.
    pub fn scan(&mut self, cursor: u64, count: usize, emit: &mut dyn FnMut(&[u8], Type)) -> Option<u64> {
        let (shards, now_ms) = (self.store.shard_count(), self.now_ms());
        let mut place = Place(cursor);
        let looks = count.saturating_mul(SCAN_LOOKS_PER_KEY).max(SCAN_LOOKS_MIN);
        let mut left = ScanBudget { keys: count, looks, bytes: SCAN_BYTES };
        while place.shard() < shards && !left.is_spent() {
            if !self.reaches(place.shard()) {
                return (place.0 != cursor).then_some(place.0);
            }
            let shard = self.held.at(self.held.position(place.shard()));
            let emit: EmitKey<'_> = &mut |key, ty, _| emit(key, ty);
            let next = self.store.scan_shard(shard, (self.physical, now_ms), place, &mut left, emit);
            debug_assert!(next.0 > place.0, "a scan goes on");
            place = next;
        }
        Some(if place.shard() < shards { place.0 } else { 0 })
    }

    /// A key of the selected database at random.
    pub fn random_key(&mut self) -> Drawn {
        let (store, physical) = (self.store, self.physical);
        let total = store.len(self.db);
        if total == 0 {
            return Drawn::Nothing;
        }
        let mut skip = self.local.rng().below(total);
        for pass in 0..2 {
            for (id, cell) in store.cells().iter().enumerate() {
                let keys = cell.counts().get(physical).keys;
                if pass == 0 && skip >= keys {
                    skip -= keys;
                    continue;
                }
                match self.random_in(id) {
                    Drawn::Nothing => {}
                    drawn => return drawn,
                }
            }
        }
        Drawn::Nothing
    }

    /// A key at random of one shard: by sampling, or where samples hit other databases the first one behind a random
    /// place. The shard is held for some hundred entries at a time.
    fn random_in(&mut self, id: usize) -> Drawn {
        if !self.reaches(id) {
            return Drawn::Busy;
        }
        let (store, physical, now_ms) = (self.store, self.physical, self.now_ms());
        let shard = self.held.at(self.held.position(id));
        for _ in 0..SAMPLES {
            let Some(r) = shard.index().sample(self.local.rng()) else { return Drawn::Nothing };
            let mut found = None;
            if store.visit(shard, physical, now_ms, r, &mut |key, _, _| found = Some(key.to_vec())) {
                return found.map_or(Drawn::Nothing, Drawn::Key);
            }
        }
        let start = Place::of(id, self.local.rng().next_u64()).position();
        for (from, end) in [(start, u64::MAX), (0, start)] {
            let mut next = Some(from);
            while let Some(at) = next.filter(|at| *at <= end) {
                if !self.reaches(id) {
                    return Drawn::Busy;
                }
                let shard = self.held.at(self.held.position(id));
                let mut found = None;
                let mut show =
                    |key: &[u8], _: Type, _: Option<i64>| found = found.take().or_else(|| Some(key.to_vec()));
                next = store.some_buckets(shard, physical, now_ms, at, &mut show);
                if let Some(key) = found {
                    return Drawn::Key(key);
                }
                if shard.counts().get(physical).keys == 0 {
                    return Drawn::Nothing;
                }
            }
        }
        Drawn::Nothing
    }

    /// Holds a shard, and no other one unless the view keeps what it holds to the end; false if it is busy. A view whose commands
    /// cannot be put back has nobody beside it, and waits.
    fn reaches(&mut self, id: usize) -> bool {
        let id = id as u16;
        if self.atomic && self.held.has(id) {
            return true;
        }
        debug_assert!(!self.atomic, "a transaction that looks at all shards holds them");
        self.held.release();
        if self.patient {
            return self.try_hold_one(id);
        }
        self.hold(&[id]);
        true
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::keyspace::walk::tests::small_beside;

    #[test]
    fn a_small_database_is_scanned_in_few_calls_beside_a_large_one() {
        let (_, mut worker) = small_beside(100_000);
        let (mut cursor, mut calls, mut seen) = (0, 0, HashSet::new());
        while calls == 0 || cursor != 0 {
            calls += 1;
            let mut emit = |key: &[u8], _: Type| assert!(seen.insert(key.to_vec()));
            cursor = worker.inside(1, |tx| tx.scan(cursor, 10, &mut emit)).expect("nobody holds a shard");
        }
        // Some 390 entries in each of ten shards; 4 a key that was asked for made it about 100 calls.
        assert!(seen.len() == 10 && calls <= 4, "{} keys in {calls} calls", seen.len());
    }

    #[test]
    fn each_key_of_a_small_database_is_drawn_beside_a_large_one() {
        let (_, mut worker) = small_beside(20_000);
        let drawn: HashSet<Drawn> = (0..200).map(|_| worker.inside(1, |tx| tx.random_key())).collect();
        assert_eq!(drawn.iter().filter(|drawn| matches!(drawn, Drawn::Key(_))).count(), 10);
        assert_eq!(drawn.len(), 10);
        assert_eq!(worker.inside(2, |tx| tx.random_key()), Drawn::Nothing);
    }

    /// Shards that another worker holds are waited for by nobody: a scan comes up to the first of them.
    #[test]
    fn issue_11_a_scan_ends_before_a_busy_shard() {
        let (store, mut worker) = small_beside(1000);
        let held = store.cells()[7].lock.lock();
        std::thread::scope(|scope| {
            let work = scope.spawn(|| {
                let mut seen = 0;
                let (db, count) = (0, 1_000_000);
                let mut scan = |cursor| {
                    let emit: &mut dyn FnMut(&[u8], Type) = &mut |_, _| seen += 1;
                    worker.inside(db, |tx| {
                        tx.patient = true;
                        tx.scan(cursor, count, emit)
                    })
                };
                let cursor = scan(0).expect("seven shards are free");
                assert_eq!(Place(cursor).shard(), 7);
                assert_eq!(scan(cursor), None);
                assert_eq!(scan(Place::new(8, 0).0), Some(0), "those behind it are free");
                let drawn = (0..3000).filter(|_| {
                    let draw = |tx: &mut Tx<'_>| {
                        tx.patient = true;
                        tx.random_key()
                    };
                    worker.inside(db, draw) == Drawn::Busy
                });
                let busy = drawn.count();
                assert!((1..200).contains(&busy), "{busy} of 3000 draws fall on one of 256 shards");
                (seen, store.len(db))
            });
            let (seen, keys) = work.join().expect("it waits for no shard");
            assert_eq!(keys, 1000, "counts are read whoever holds the shard");
            assert_eq!(seen + held.counts().get(store.database_map().physical(0)).keys, 1000);
        });
    }
}
