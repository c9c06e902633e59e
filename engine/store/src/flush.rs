//! FLUSHALL, FLUSHDB, SWAPDB: whole databases at once, under the gate alone.
//!
//! FLUSHALL detaches every shard's table and condemns the log in O(shards); freeing is steps. FLUSHDB gives the
//! database a fresh physical number and leaves the old one's keys to be swept in steps, unless it was the only
//! database with keys.

use std::sync::atomic::Ordering::Relaxed;

use varve_index::Table;

use crate::rank::{Rank, RankedMutex};
use crate::shard::{NEVER, database_of};
use crate::store::Store;
use crate::worker::Worker;

/// Keys that a sweep step removes, and buckets that it looks at to find them: most of a shard may be other databases'.
const SWEEP_ENTRIES: usize = 64;
const SWEEP_BUCKETS: usize = 64;

/// What FLUSHALL and FLUSHDB left to do.
pub(crate) struct Leftovers {
    /// Detached tables, given back one a step.
    tables: RankedMutex<Vec<Table>>,
    /// Where the sweep of the first dying database stands: shard and position.
    sweep: RankedMutex<(usize, u64)>,
}

impl Leftovers {
    pub(crate) fn new() -> Leftovers {
        Leftovers { tables: RankedMutex::new(Rank::Leaf, Vec::new()), sweep: RankedMutex::new(Rank::Drain, (0, 0)) }
    }

    /// True if detached tables wait to be given back.
    pub(crate) fn any_tables(&self) -> bool {
        !self.tables.lock().is_empty()
    }
}

impl Store {
    /// Empties every database; under the gate alone.
    pub fn flush_all(&self, w: &mut Worker) {
        self.report_emptied(&w.local);
        w.local.appender.park(&self.log);
        self.reclaim.reset(&self.log);
        let (mut roots, mut table_bytes) = (Vec::new(), 0);
        for (id, cell) in self.shards.iter().enumerate() {
            let mut shard = cell.lock.lock();
            shard.touch_present(self);
            let table = shard.index.take();
            shard.wheel.clear();
            shard.counts = Default::default();
            roots.push(std::mem::take(&mut shard.roots));
            cell.set_due(NEVER);
            shard.follow_index(self, id);
            table_bytes += shard.reported_bytes as u64;
            drop(shard);
            self.leftovers.tables.lock().push(table);
        }
        self.log.clear();
        self.look_at_live();
        // Without the roots, whose number does not matter here.
        self.table_bytes.store(table_bytes, Relaxed);
        self.chores.reset(roots);
        self.slots.clear();
        self.databases.all_swept();
        *self.leftovers.sweep.lock() = (0, 0);
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
        let old = self.databases.physical(db);
        while !self.databases.retire(db) {
            self.sweep_step();
        }
        self.retire_watched(old, self.databases.physical(db));
    }

    /// Exchanges two logical databases; under the gate alone.
    pub fn swap_db(&self, a: u32, b: u32) {
        self.swap_db_at(i64::MIN, a, b);
    }

    /// As [`Store::swap_db`], at this time: to who watches a key, one whose time has come is as good as gone.
    pub fn swap_db_at(&self, now_ms: i64, a: u32, b: u32) {
        self.swap_watched(self.databases.physical(a), self.databases.physical(b), now_ms);
        self.databases.swap(a, b);
    }

    /// Gives some of one detached table back; true if there was one.
    pub(crate) fn drop_table_step(&self) -> bool {
        let Some(mut table) = self.leftovers.tables.lock().pop() else { return false };
        if !table.discard_step() {
            self.leftovers.tables.lock().push(table);
        }
        true
    }

    /// Removes some keys of the first dying database; true while there is one.
    pub(crate) fn sweep_step(&self) -> bool {
        if self.databases.dying().is_none() {
            return false;
        }
        let Some(mut at) = self.leftovers.sweep.try_lock() else { return true };
        // Asked with the sweep in hand: of a database that another worker is done with, nothing must move the place from
        // which the next one's begins.
        let Some(dying) = self.databases.dying() else { return false };
        let (id, position) = *at;
        if id == self.shards.len() {
            *at = (0, 0);
            self.databases.swept(dying);
            return true;
        }
        let Some(mut shard) = self.shards[id].lock.try_lock() else { return true };
        if shard.counts.get(dying).keys == 0 {
            shard.counts.forget(dying);
            *at = (id + 1, 0);
            return true;
        }
        let mut doomed = smallvec::SmallVec::<[_; SWEEP_ENTRIES]>::new();
        let (mut next, mut buckets) = (Some(position), 0);
        while let (Some(from), true) = (next, doomed.len() < SWEEP_ENTRIES && buckets < SWEEP_BUCKETS) {
            buckets += 1;
            let hashes = shard.hashes(&self.log, self.seed);
            next = shard.index.scan(from, &hashes, |r| {
                if database_of(&shard.access.open(&self.log, r)) == dying {
                    doomed.push((varve_index::Rehash::hash(&hashes, r), r));
                }
            });
        }
        for (hash, r) in doomed {
            let slot = shard.index.find_ref(hash, r).expect("just scanned");
            shard.remove(self, slot);
        }
        shard.follow_index(self, id);
        *at = next.map_or((id, 0), |position| (id, position));
        true
    }
}
