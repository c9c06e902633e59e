//! Tables and wheels that FLUSHALL detached, and the position of the sweep that FLUSHDB left to do.

use std::sync::atomic::Ordering::Relaxed;

use varve_base::rank::{Rank, RankedMutex};
use varve_base::shared::SharedUsize;
use varve_index::IndexTable;

use super::wheel::Wheel;

/// The tables and wheels that FLUSHALL left to free, and the position of FLUSHDB's sweep.
pub(crate) struct DetachedTables {
    tables: RankedMutex<Vec<IndexTable>>,
    wheels: RankedMutex<Vec<Wheel>>,
    /// How many tables and wheels are left, those that a worker has in hand included: to be asked without a lock.
    owed: SharedUsize,
    /// Where the sweep of the first dying database stands.
    pub(crate) sweep: RankedMutex<SweepPlace>,
}

/// How far the sweep of a dying database has come.
#[derive(Debug, Default)]
pub(crate) struct SweepPlace {
    /// The next shard.
    pub(crate) shard: usize,
    /// The position in the index of each shard; none stand for 0. A shard that is passed over, since it is held, keeps its own: to
    /// come through a long index again would need as many visits in a row that do not find it held.
    positions: Vec<u64>,
    /// A shard before it was held and passed over: the sweep begins anew behind the last one.
    pub(crate) has_passed_held: bool,
}

impl SweepPlace {
    /// The position in the next shard's index, of this number of shards.
    pub(crate) fn position_mut(&mut self, shards: usize) -> &mut u64 {
        self.positions.resize(shards, 0);
        &mut self.positions[self.shard]
    }

    /// The first shard is the next again, each from its position on.
    pub(crate) fn begin_pass(&mut self) {
        (self.shard, self.has_passed_held) = (0, false);
    }
}

impl DetachedTables {
    pub(crate) fn new() -> DetachedTables {
        DetachedTables {
            tables: RankedMutex::new(Rank::Leaf, Vec::new()),
            wheels: RankedMutex::new(Rank::Leaf, Vec::new()),
            owed: SharedUsize::new(0),
            sweep: RankedMutex::new(Rank::Drain, SweepPlace::default()),
        }
    }

    /// True if detached tables or wheels wait to be given back. One relaxed load.
    #[inline]
    pub(crate) fn any(&self) -> bool {
        self.owed.load(Relaxed) > 0
    }

    /// Leaves a table to be given back in steps.
    pub(crate) fn add_table(&self, table: IndexTable) {
        self.owed.fetch_add(1, Relaxed);
        self.tables.lock().push(table);
    }

    /// Leaves a wheel to be given back.
    pub(crate) fn add_wheel(&self, wheel: Wheel) {
        self.owed.fetch_add(1, Relaxed);
        self.wheels.lock().push(wheel);
    }

    /// Gives some of one table back; true if there was one.
    pub(crate) fn drop_table_step(&self) -> bool {
        let Some(mut table) = self.tables.lock().pop() else { return false };
        if table.discard_step() {
            self.owed.fetch_sub(1, Relaxed);
        } else {
            self.tables.lock().push(table);
        }
        true
    }

    /// Gives one wheel back, page by page of 2 KB; true if there was one.
    pub(crate) fn drop_wheel_step(&self) -> bool {
        let wheel = self.wheels.lock().pop();
        if wheel.is_some() {
            self.owed.fetch_sub(1, Relaxed);
        }
        wheel.is_some()
    }

    /// Number of wheels that wait.
    #[cfg(test)]
    pub(crate) fn wheels(&self) -> usize {
        self.wheels.lock().len()
    }
}
