//! The whole keyspace: KEYS, DBSIZE, and the keys of one shard for SCAN and RANDOMKEY (`ops/scan.rs`).
//!
//! A SCAN cursor is a place in hash space (`state/key.rs`), right whatever the tables do in between.

use std::ops::ControlFlow;

use varve_base::Ref;

use super::shard::Shard;
use super::store::Store;
use super::worker::StoreWorker;
use crate::state::clock::is_over;
use crate::state::key::{Place, database_of};
use crate::state::types::Type;

/// A receiver of keys: bytes, type, expiry in milliseconds of Unix time.
pub type EmitKey<'a> = &'a mut dyn FnMut(&[u8], Type, Option<i64>);

/// How full a shard's index is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IndexLoad {
    /// Keys of all databases, in overflow buckets too.
    pub keys: u64,
    /// Keys for which its buckets have cells; while it grows, the new ones. 0 without a table.
    pub cells: u64,
}

impl IndexLoad {
    /// Keys of a hundred cells: more than a hundred if overflow buckets hold many; 0 without a table.
    pub fn percent(&self) -> u64 {
        (self.keys * 100).checked_div(self.cells).unwrap_or(0)
    }
}

/// Buckets that a walk looks at with a shard held: some 900 entries.
const WALK_BUCKETS: usize = 128;

impl Store {
    /// Number of keys in a logical database, expired ones included until they are removed. It waits for nobody: of a command or
    /// transaction that runs at this moment it may count a part.
    pub fn len(&self, db: u32) -> u64 {
        let physical = self.database_map().physical(db);
        self.cells().iter().map(|cell| cell.counts().get(physical).keys).sum()
    }

    /// True if a logical database holds no key.
    pub fn is_empty(&self, db: u32) -> bool {
        self.len(db) == 0
    }

    /// Keys and volatile keys of every logical database, in one pass over the shards; it waits for nobody, like [`Store::len`].
    pub fn counts_of_all(&self) -> Vec<(u64, u64)> {
        let physical: Vec<u16> = (0..self.databases()).map(|db| self.database_map().physical(db)).collect();
        let mut logical = vec![None; usize::from(physical.iter().copied().max().unwrap_or(0)) + 1];
        physical.iter().enumerate().for_each(|(db, &physical)| logical[usize::from(physical)] = Some(db));
        let mut all = vec![(0, 0); physical.len()];
        for cell in self.cells() {
            for count in cell.counts().iter() {
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

    /// The fullness of each shard's index, in the order of the shards; it waits for nobody, like [`Store::len`].
    pub fn index_loads(&self) -> impl Iterator<Item = IndexLoad> + '_ {
        self.cells().iter().map(|cell| IndexLoad {
            keys: cell.counts().iter().map(|count| count.keys).sum(),
            cells: cell.hint.cells(),
        })
    }

    /// Emits keys of a shard, which is held, from a place on, until the budget is spent or some hundred entries were looked at;
    /// gives the place to go on from. A shard whose keys of the database have all been emitted is done.
    pub(crate) fn scan_shard(
        &self,
        shard: &Shard,
        (physical, now_ms): (u16, i64),
        from: Place,
        left: &mut ScanBudget,
        emit: EmitKey<'_>,
    ) -> Place {
        let keys = shard.counts.get(physical).keys;
        let hashes = shard.hashes(self.log(), self.seed());
        // From the beginning of a shard on it is known when the last key has been met.
        let mut unmet = if from.position() == 0 { keys } else { u64::MAX };
        let mut next = (keys > 0).then_some(from.position());
        for _ in 0..WALK_BUCKETS {
            let Some(at) = next.filter(|_| unmet > 0 && !left.is_spent()) else { break };
            next = shard.index.scan(at, &hashes, |r| {
                let object = shard.access.open(self.log(), r);
                left.looks = left.looks.saturating_sub(1);
                left.bytes = left.bytes.saturating_sub(object.key().len());
                unmet -= u64::from(database_of(&object) == physical);
                left.keys = left.keys.saturating_sub(usize::from(self.visit(shard, physical, now_ms, r, emit)));
            });
        }
        match next.filter(|_| unmet > 0) {
            Some(position) => Place::new(from.shard(), position),
            None => Place::new(from.shard() + 1, 0),
        }
    }

    /// Shows an entry if it is of this database and not expired; true if it did.
    pub(crate) fn visit(&self, shard: &Shard, physical: u16, now_ms: i64, r: Ref, emit: EmitKey<'_>) -> bool {
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
            let _ = self.visit_shard(&cell.lock.lock(), physical, w.now_ms(), emit);
        }
    }

    /// Visits every key of a database in a shard, and looks at no entry behind the last one; gives the number of entries
    /// that it has looked at.
    fn visit_shard(&self, shard: &Shard, physical: u16, now_ms: i64, emit: EmitKey<'_>) -> u64 {
        let (mut unmet, mut looked) = (shard.counts.get(physical).keys, 0);
        if unmet == 0 {
            return 0;
        }
        let _ = shard.index.try_for_each(|r| {
            looked += 1;
            unmet -= u64::from(database_of(&shard.access.open(self.log(), r)) == physical);
            self.visit(shard, physical, now_ms, r, emit);
            if unmet > 0 { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        });
        looked
    }

    /// Shows the keys of a database in the next buckets of a shard, and gives the position behind them.
    pub(crate) fn some_buckets(
        &self,
        shard: &Shard,
        physical: u16,
        now_ms: i64,
        from: u64,
        emit: EmitKey<'_>,
    ) -> Option<u64> {
        let hashes = shard.hashes(self.log(), self.seed());
        let mut next = Some(from);
        for _ in 0..WALK_BUCKETS {
            let Some(at) = next else { break };
            next = shard.index.scan(at, &hashes, |r| {
                self.visit(shard, physical, now_ms, r, emit);
            });
        }
        next
    }
}

/// How much a step of SCAN may still do.
pub(crate) struct ScanBudget {
    /// Keys to emit.
    pub(crate) keys: usize,
    /// Entries to look at, other databases' and expired ones included.
    pub(crate) looks: usize,
    /// Bytes of keys to look at, those that are emitted and the others.
    pub(crate) bytes: usize,
}

impl ScanBudget {
    pub(crate) fn is_spent(&self) -> bool {
        self.keys == 0 || self.looks == 0 || self.bytes == 0
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::sync::Arc;

    use varve_segment::{LogGeometry, NewObject, Owner};

    use super::*;
    use crate::keyspace::store::Options;
    use crate::state::counts::ROWS_READ;

    /// A store with this number of databases.
    fn store_of(databases: u32) -> (Arc<Store>, StoreWorker) {
        let geometry = LogGeometry { reserve_bytes: 1 << 30, ..LogGeometry::default() };
        let store = Store::new(&Options { seed: 3, geometry, databases, ..Options::default() });
        let store = store.expect("an address range");
        let worker = store.worker(0);
        (store, worker)
    }

    /// Writes the key number `n` of a database.
    fn set(worker: &mut StoreWorker, db: u32, n: usize) {
        let (store, local) = worker.parts();
        let name = format!("key {n}").into_bytes();
        let (k, id) = (store.key(db, &name), store.shard_of(store.key(db, &name).hash));
        let new = NewObject::new(Type::String.kind(), Owner::Database(k.db), k.bytes, b"v");
        let r = local.appender().append(store.log(), &new);
        store.cells()[id].lock.lock().insert(store.ground(), id, &k, r, false);
    }

    /// Ten keys in database 1 beside many in database 0.
    pub(crate) fn small_beside(many: usize) -> (Arc<Store>, StoreWorker) {
        let (store, mut worker) = store_of(Options::default().databases);
        (0..10).for_each(|n| set(&mut worker, 1, n));
        (0..many).for_each(|n| set(&mut worker, 0, n));
        worker.park();
        store.verify();
        (store, worker)
    }

    #[test]
    fn the_keys_of_a_small_database_are_found_without_a_look_at_other_shards() {
        let (store, _) = small_beside(100_000);
        let physical = store.database_map().physical(1);
        let (mut seen, mut looked) = (0, 0);
        for cell in store.cells() {
            looked += store.visit_shard(&cell.lock.lock(), physical, 0, &mut |_, _, _| seen += 1);
        }
        assert!(seen == 10 && looked < 10 * 500, "{seen} keys, {looked} entries looked at");
    }

    /// A report asked each database for its keys, and each of them looked at the counts of all others in every shard.
    #[test]
    fn a_report_about_ten_thousand_databases_reads_each_count_once() {
        const DATABASES: usize = 10_000;
        let (store, mut worker) = store_of(DATABASES as u32);
        (0..DATABASES).for_each(|db| set(&mut worker, db as u32, db));
        worker.park();
        let before = ROWS_READ.get();
        let counts = store.counts_of_all();
        let rows = ROWS_READ.get() - before;
        assert!(counts.len() == DATABASES && counts.iter().all(|count| *count == (1, 0)));
        // A shard has some free rows at most.
        assert!(rows <= DATABASES + 16 * store.cells().len(), "{rows} counts read of {DATABASES} databases");
        store.verify();
    }
}
