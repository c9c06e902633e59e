//! Fresh databases: a whole data set is loaded beside the one that is served, and takes its place at one instant.
//!
//! ```text
//!   begin_fresh --> loaders insert into fresh_database(db) --> swap_in_fresh: clients see it, the old data is swept in steps
//!                                                         --> drop_fresh: what was loaded is swept in steps
//! ```
//! Both data sets count as used memory. No limit holds meanwhile, up to the end of the sweep: keys of the one would go to make
//! room for the other.

use std::collections::HashSet;
use std::sync::atomic::Ordering::Relaxed;

use crate::keyspace::store::Store;
use crate::keyspace::worker::StoreWorker;

impl Store {
    /// Makes an empty database for each logical one, for loading beside it. False, and nothing is done, while too many that were
    /// emptied are still swept: it is tried again later.
    ///
    /// # Panics
    /// If there are fresh ones already.
    pub fn begin_fresh(&self) -> bool {
        let begun = self.database_map().begin_fresh();
        if begun {
            self.set_doubled(true);
        }
        begun
    }

    /// True while there are fresh databases.
    pub fn has_fresh(&self) -> bool {
        self.database_map().has_fresh()
    }

    /// The number by which loaders select the fresh database of a logical one. No client can select it, and no report of its keys
    /// reaches anybody.
    pub fn fresh_database(&self, db: u32) -> u32 {
        assert!(db < self.databases(), "the number of a logical database");
        db + self.databases()
    }

    /// Has the fresh databases take the places of all logical ones, and leaves the old keys to be swept; under the gate alone, at
    /// this time. Whoever watches a key that is in either data set finds it changed, caches of clients are stale as behind
    /// FLUSHALL, and whoever waits for a key is served behind this ([`StoreWorker::take_gone`]).
    pub fn swap_in_fresh(&self, w: &mut StoreWorker, now_ms: i64) {
        self.report_emptied(w.parts().1);
        let number = |db| self.database_map().physical(db);
        let pairs: Vec<_> = (0..self.databases()).map(|db| (number(db), number(self.fresh_database(db)))).collect();
        self.swap_watched(&pairs, now_ms);
        let used = self.used_numbers();
        self.database_map().swap_in_fresh(|number| !used.contains(&number));
        self.forget_surveys();
        w.note_all_waited();
        self.end_doubled_if_swept();
    }

    /// There are no fresh databases any more, and what was loaded into them is left to be swept. Nobody loads any more.
    pub fn drop_fresh(&self) {
        let used = self.used_numbers();
        self.database_map().drop_fresh(|number| !used.contains(&number));
        self.end_doubled_if_swept();
    }

    /// The physical numbers that some shard has, or had, keys of.
    fn used_numbers(&self) -> HashSet<u16> {
        self.cells().iter().flat_map(|cell| cell.counts().iter().map(|count| count.db)).collect()
    }

    /// Has the limit hold again, if there is one data set alone.
    pub(super) fn end_doubled_if_swept(&self) {
        if self.is_doubled.load(Relaxed) && !self.has_fresh() && !self.database_map().owes_sweep() {
            self.set_doubled(false);
        }
    }
}
