//! FLUSHALL, FLUSHDB, SWAPDB: whole databases at once, under the gate alone.
//!
//! FLUSHALL detaches every shard's table and condemns the log in O(shards); freeing is steps. FLUSHDB gives the
//! database a fresh physical number and leaves the old one's keys to be swept in steps, unless it was the only
//! database with keys.

use std::sync::atomic::Ordering::Relaxed;

use super::sweep;
use crate::keyspace::shard::NEVER;
use crate::keyspace::store::Store;
use crate::keyspace::worker::StoreWorker;

impl Store {
    /// Empties every database; under the gate alone.
    pub fn flush_all(&self, w: &mut StoreWorker) {
        self.end_walk();
        self.report_emptied(w.parts().1);
        w.park();
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
        // Without the roots, whose number does not matter here.
        self.table_bytes().store(table_bytes, Relaxed);
        self.pending().reset(roots);
        self.collections().clear();
        self.database_map().all_swept();
        *self.detached().sweep.lock() = (0, 0);
    }

    /// Empties a logical database; under the gate alone.
    pub fn flush_db(&self, w: &mut StoreWorker, db: u32) {
        let counts = self.counts_of_all();
        let others = counts.iter().enumerate().any(|(other, (keys, _))| other != db as usize && *keys > 0);
        if !others {
            self.flush_all(w);
            return;
        }
        self.report_emptied(w.parts().1);
        if counts[db as usize].0 == 0 {
            return;
        }
        let old = self.database_map().physical(db);
        while !self.database_map().retire(db) {
            let _ = sweep::step(self);
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
}
