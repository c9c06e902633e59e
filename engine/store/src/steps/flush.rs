//! FLUSHALL, FLUSHDB, SWAPDB: whole databases at once, under the gate alone.
//!
//! FLUSHALL detaches every shard's table and condemns the log in O(shards); freeing is steps. FLUSHDB gives the
//! database a fresh physical number and leaves the old one's keys to be swept in steps, unless it was the only
//! database with keys.

use std::sync::atomic::Ordering::Relaxed;

use crate::keyspace::shard::NEVER;
use crate::keyspace::store::Store;
use crate::keyspace::worker::Worker;
use crate::state::key::database_of;

/// Keys that a sweep step removes, and buckets that it looks at to find them: most of a shard may be other databases'.
const SWEEP_ENTRIES: usize = 64;
const SWEEP_BUCKETS: usize = 64;

impl Store {
    /// Empties every database; under the gate alone.
    pub fn flush_all(&self, w: &mut Worker) {
        self.show_all();
        self.report_emptied(&w.local);
        w.local.appender.park(self.log());
        self.reclaimer().reset(self.log());
        let (mut roots, mut table_bytes) = (Vec::new(), 0);
        for (id, cell) in self.cells().iter().enumerate() {
            let mut shard = cell.lock.lock();
            let (table, of_shard) = shard.take_all(self.ground());
            roots.push(of_shard);
            cell.set_due(NEVER);
            shard.follow_index(self.ground(), id);
            table_bytes += shard.table_bytes() as u64;
            drop(shard);
            self.detached().tables.lock().push(table);
        }
        self.log().clear();
        self.look_at_live();
        // Without the roots, whose number does not matter here.
        self.table_bytes().store(table_bytes, Relaxed);
        self.pending().reset(roots);
        self.collections().clear();
        self.database_map().all_swept();
        *self.detached().sweep.lock() = (0, 0);
    }

    /// Empties a logical database; under the gate alone.
    pub fn flush_db(&self, w: &mut Worker, db: u32) {
        let others = (0..self.databases()).any(|other| other != db && !self.is_empty(other));
        if !others {
            self.flush_all(w);
            return;
        }
        self.report_emptied(&w.local);
        if self.is_empty(db) {
            return;
        }
        let old = self.database_map().physical(db);
        while !self.database_map().retire(db) {
            self.sweep_step();
        }
        self.retire_watched(old, self.database_map().physical(db));
    }

    /// Exchanges two logical databases; under the gate alone.
    pub fn swap_db(&self, a: u32, b: u32) {
        self.swap_db_at(i64::MIN, a, b);
    }

    /// Swaps databases like [`Store::swap_db`], at this time: for its watchers, a key whose time has come is gone
    /// already.
    pub fn swap_db_at(&self, now_ms: i64, a: u32, b: u32) {
        self.swap_watched(self.database_map().physical(a), self.database_map().physical(b), now_ms);
        self.database_map().swap(a, b);
    }

    /// Gives some of one detached table back; true if there was one.
    pub(crate) fn drop_table_step(&self) -> bool {
        let Some(mut table) = self.detached().tables.lock().pop() else { return false };
        if !table.discard_step() {
            self.detached().tables.lock().push(table);
        }
        true
    }

    /// Removes some keys of the first dying database; true while there is one.
    pub(crate) fn sweep_step(&self) -> bool {
        if self.database_map().dying().is_none() {
            return false;
        }
        let Some(mut at) = self.detached().sweep.try_lock() else { return true };
        // Asked with the sweep in hand: of a database that another worker is done with, nothing must move the place from
        // which the next one's begins.
        let Some(dying) = self.database_map().dying() else { return false };
        let (id, position) = *at;
        if id == self.cells().len() {
            *at = (0, 0);
            self.database_map().swept(dying);
            return true;
        }
        let Some(mut shard) = self.cells()[id].lock.try_lock() else { return true };
        if shard.counts().get(dying).keys == 0 {
            shard.forget_database(dying);
            *at = (id + 1, 0);
            return true;
        }
        let mut doomed = smallvec::SmallVec::<[_; SWEEP_ENTRIES]>::new();
        let (mut next, mut buckets) = (Some(position), 0);
        while let (Some(from), true) = (next, doomed.len() < SWEEP_ENTRIES && buckets < SWEEP_BUCKETS) {
            buckets += 1;
            let hashes = shard.hashes(self.log(), self.seed());
            next = shard.index().scan(from, &hashes, |r| {
                if database_of(&shard.open(self.log(), r)) == dying {
                    doomed.push((varve_index::Rehash::hash(&hashes, r), r));
                }
            });
        }
        for (hash, r) in doomed {
            let slot = shard.index().find_ref(hash, r).expect("just scanned");
            shard.remove(self.ground(), slot);
        }
        shard.follow_index(self.ground(), id);
        *at = next.map_or((id, 0), |position| (id, position));
        true
    }
}
