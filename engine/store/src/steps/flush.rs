//! FLUSHALL, FLUSHDB, SWAPDB: whole databases at once, under the gate alone.
//!
//! FLUSHALL detaches every shard's table and wheel in O(shards) and condemns the log; freeing is steps. FLUSHDB gives the
//! database a fresh physical number and leaves the old one's keys to be swept in steps, unless it was the only
//! database with keys. While a client reads a collection over several holds, FLUSHALL does this with every database.

use std::sync::atomic::Ordering::Relaxed;

use super::sweep;
use crate::keyspace::shard::NEVER;
use crate::keyspace::store::Store;
use crate::keyspace::worker::StoreWorker;
use crate::state::detached::SweepPlace;

impl Store {
    /// Empties every database, as FLUSHALL does; under the gate alone.
    pub fn flush_all(&self, w: &mut StoreWorker) {
        let keys = self.counts_of_all().iter().map(|(keys, _)| keys).sum();
        w.parts().1.counters().changes.add(keys);
        self.empty_all(w);
        self.count_flush();
    }

    /// Empties every database. While a client reads a collection over several holds, its objects must stay, and so must the keys
    /// of fresh databases: then the keys of all databases are swept in steps. The walk under way ends otherwise, and its readers with it.
    fn empty_all(&self, w: &mut StoreWorker) {
        // Those who wait for a key of a stream's group learn that it is gone.
        self.database_map().changed();
        if self.has_other_readers() || self.has_fresh() {
            self.report_emptied(w.parts().1);
            (0..self.databases()).filter(|&db| !self.is_empty(db)).for_each(|db| self.retire(db));
            return;
        }
        self.end_walk();
        self.ground().readers().forget_gone();
        debug_assert!(!self.ground().readers().any(), "the objects that readers were to see go");
        self.report_emptied(w.parts().1);
        w.park();
        self.reclaimer().reset(self.log());
        let (mut roots, mut table_bytes) = (Vec::new(), 0);
        for (id, cell) in self.cells().iter().enumerate() {
            let mut shard = cell.lock.lock();
            let (table, of_shard, wheel) = shard.take_all(self.ground());
            roots.push(of_shard);
            cell.set_due(NEVER);
            shard.forget_own_dates(cell);
            shard.follow_index(self.ground(), id);
            table_bytes += shard.table_bytes() as u64;
            drop(shard);
            self.detached().add_table(table);
            if !wheel.is_empty() {
                self.detached().add_wheel(wheel);
            }
        }
        self.log().clear();
        // Without the roots, whose number does not matter here.
        self.table_bytes().store(table_bytes, Relaxed);
        self.pending().reset(roots);
        self.collections().clear();
        self.database_map().all_swept();
        *self.detached().sweep.lock() = SweepPlace::default();
    }

    /// Empties a logical database; under the gate alone.
    pub fn flush_db(&self, w: &mut StoreWorker, db: u32) {
        let counts = self.counts_of_all();
        w.parts().1.counters().changes.add(counts[db as usize].0);
        let others = counts.iter().enumerate().any(|(other, (keys, _))| other != db as usize && *keys > 0);
        // A walk goes on: it is shown the keys as they are swept.
        if !others && !self.walks() && !self.has_fresh() {
            self.empty_all(w);
            return;
        }
        self.report_emptied(w.parts().1);
        if counts[db as usize].0 > 0 {
            self.retire(db);
        }
    }

    /// Gives a logical database a fresh physical number and leaves the old one's keys to be swept.
    fn retire(&self, db: u32) {
        let old = self.database_map().physical(db);
        while !self.database_map().retire(db) {
            let _ = sweep::some(self);
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
        self.swap_watched(&[(self.database_map().physical(a), self.database_map().physical(b))], now_ms);
        self.database_map().swap(a, b);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use varve_segment::{LogGeometry, NewObject, Owner};

    use crate::keyspace::store::{Options, Store};
    use crate::state::types::Type;

    /// FLUSHALL stops everybody: the pages of wheels are given back behind it, one wheel a step.
    #[test]
    fn issue_11_flushall_leaves_the_wheels_to_steps() {
        const NOW: i64 = 1_000_000;
        let geometry = LogGeometry { reserve_bytes: 1 << 30, ..LogGeometry::default() };
        let store = Store::new(&Options { seed: 3, shards: 4, geometry, ..Options::default() }).expect("a range");
        let mut worker = store.worker(0);
        worker.set_now(NOW);
        for n in 0..4000 {
            let (name, due) = (format!("key {n}"), NOW + 1_000_000);
            let (k, (store, local)) = (store.key(0, name.as_bytes()), worker.parts());
            let new = NewObject::new(Type::String.kind(), Owner::Database(k.db), k.bytes, b"v");
            let r = local.appender().append(store.log(), &NewObject { expiry_ms: Some(due), ..new });
            let (id, cell) = (store.shard_of(k.hash), &store.cells()[store.shard_of(k.hash)]);
            let mut shard = cell.lock.lock();
            shard.insert(store.ground(), id, &k, r, true);
            shard.file_expiry(cell, k.hash, None, due, NOW);
        }
        worker.park();
        store.verify();
        let flushed = Arc::clone(&store);
        worker.exclusive(|worker| flushed.flush_all(worker));
        assert_eq!(store.detached().wheels(), 4, "no wheel was given back behind the gate");
        store.verify();
        for _ in 0..10_000 {
            let _ = worker.background(NOW, Duration::ZERO);
        }
        assert!(!store.detached().any(), "tables and wheels are given back in steps");
        store.verify();
    }
}
