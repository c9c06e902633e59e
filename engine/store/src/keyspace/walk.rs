//! The whole keyspace: SCAN, KEYS, RANDOMKEY, DBSIZE.
//!
//! A SCAN cursor is a place in hash space (`state/key.rs`), right whatever the tables do in between.

use varve_base::Ref;

use super::shard::Shard;
use super::store::Store;
use super::worker::StoreWorker;
use crate::state::clock::is_over;
use crate::state::key::{Place, database_of};
use crate::state::types::Type;

/// A receiver of keys: bytes, type, expiry in milliseconds of Unix time.
pub type EmitKey<'a> = &'a mut dyn FnMut(&[u8], Type, Option<i64>);

/// Entries that one SCAN call looks at per key asked for, when other databases' or expired keys are in the way.
const SCAN_LOOKS_PER_KEY: usize = 4;

impl Store {
    /// Number of keys in a logical database, expired ones included until they are removed.
    pub fn len(&self, db: u32) -> u64 {
        let physical = self.database_map().physical(db);
        self.cells().iter().map(|cell| cell.lock.lock().counts.get(physical).keys).sum()
    }

    /// True if a logical database holds no key.
    pub fn is_empty(&self, db: u32) -> bool {
        self.len(db) == 0
    }

    /// Keys and volatile keys of every logical database, in one pass over the shards.
    pub fn counts_of_all(&self) -> Vec<(u64, u64)> {
        let physical: Vec<u16> = (0..self.databases()).map(|db| self.database_map().physical(db)).collect();
        let mut logical = vec![None; usize::from(physical.iter().copied().max().unwrap_or(0)) + 1];
        physical.iter().enumerate().for_each(|(db, &physical)| logical[usize::from(physical)] = Some(db));
        let mut all = vec![(0, 0); physical.len()];
        for cell in self.cells() {
            for count in cell.lock.lock().counts.iter() {
                // The keys of a number that is being swept are nobody's.
                if let Some(&Some(db)) = logical.get(usize::from(count.db)) {
                    let (keys, volatile): &mut (u64, u64) = &mut all[db];
                    *keys += count.keys;
                    *volatile += count.volatile;
                }
            }
        }
        all
    }

    /// SCAN's step: emits some keys from `cursor` on, about `count`, and gives the next cursor, 0 at the end. A cursor
    /// beyond the last shard ends the scan.
    pub fn scan(
        &self,
        w: &mut StoreWorker,
        db: u32,
        cursor: u64,
        count: usize,
        emit: &mut dyn FnMut(&[u8], Type),
    ) -> u64 {
        let physical = self.database_map().physical(db);
        let (mut id, mut position) = (Place(cursor).shard(), Place(cursor).position());
        let (mut emitted, mut looked) = (0, 0);
        let looks_max = count.saturating_mul(SCAN_LOOKS_PER_KEY);
        let mut enough = false;
        while id < self.cells().len() && !enough {
            let shard = self.cells()[id].lock.lock();
            let mut next = (shard.counts.get(physical).keys > 0).then_some(position);
            while let (Some(at), false) = (next, enough) {
                next = shard.index.scan(at, &shard.hashes(self.log(), self.seed()), |r| {
                    looked += 1;
                    emitted +=
                        usize::from(self.visit(&shard, physical, w.now_ms(), r, &mut |key, ty, _| emit(key, ty)));
                });
                enough = emitted >= count || looked >= looks_max;
            }
            (id, position) = next.map_or((id + 1, 0), |at| (id, at));
        }
        if id < self.cells().len() { Place::new(id, position).0 } else { 0 }
    }

    /// Shows an entry if it is of this database and not expired; true if it did.
    fn visit(&self, shard: &Shard, physical: u16, now_ms: i64, r: Ref, emit: EmitKey<'_>) -> bool {
        let object = shard.access.open(self.log(), r);
        let shown = database_of(&object) == physical && !is_over(object.expiry_ms(), now_ms);
        if shown {
            emit(object.key(), Type::of_kind(object.kind()), object.expiry_ms());
        }
        shown
    }

    /// Visits every key of a logical database: key, type, expiry in milliseconds of Unix time.
    pub fn for_each_key(&self, w: &mut StoreWorker, db: u32, emit: EmitKey<'_>) {
        let physical = self.database_map().physical(db);
        for cell in self.cells() {
            let shard = cell.lock.lock();
            shard.index.for_each(|r| {
                self.visit(&shard, physical, w.now_ms(), r, emit);
            });
        }
    }

    /// A key of a logical database at random, None without any.
    pub fn random_key(&self, w: &mut StoreWorker, db: u32) -> Option<Vec<u8>> {
        let physical = self.database_map().physical(db);
        let total = self.len(db);
        if total == 0 {
            return None;
        }
        let mut skip = w.local.rng().below(total);
        for pass in 0..2 {
            for cell in self.cells() {
                let shard = cell.lock.lock();
                let keys = shard.counts.get(physical).keys;
                if pass == 0 && skip >= keys {
                    skip -= keys;
                    continue;
                }
                if let Some(key) = self.random_in(&shard, w, physical) {
                    return Some(key);
                }
            }
        }
        None
    }

    /// A key at random of one shard: by sampling, or the first that fits where samples hit other databases.
    fn random_in(&self, shard: &Shard, w: &mut StoreWorker, physical: u16) -> Option<Vec<u8>> {
        let now = w.now_ms();
        let mut found = None;
        for _ in 0..64 {
            let r = shard.index.sample(w.local.rng())?;
            if self.visit(shard, physical, now, r, &mut |key, _, _| found = Some(key.to_vec())) {
                return found;
            }
        }
        shard.index.for_each(|r| {
            if found.is_none() {
                self.visit(shard, physical, now, r, &mut |key, _, _| found = Some(key.to_vec()));
            }
        });
        found
    }
}
