//! Tables and wheels that FLUSHALL detached, and the position of the sweep that FLUSHDB left to do.

use varve_base::rank::{Rank, RankedMutex};
use varve_index::IndexTable;

use super::wheel::Wheel;

/// The tables and wheels that FLUSHALL left to free, and the position of FLUSHDB's sweep.
pub(crate) struct DetachedTables {
    /// Detached tables, given back one a step.
    pub(crate) tables: RankedMutex<Vec<IndexTable>>,
    /// Detached wheels, given back one a step.
    pub(crate) wheels: RankedMutex<Vec<Wheel>>,
    /// Where the sweep of the first dying database stands: shard and position.
    pub(crate) sweep: RankedMutex<(usize, u64)>,
}

impl DetachedTables {
    pub(crate) fn new() -> DetachedTables {
        DetachedTables {
            tables: RankedMutex::new(Rank::Leaf, Vec::new()),
            wheels: RankedMutex::new(Rank::Leaf, Vec::new()),
            sweep: RankedMutex::new(Rank::Drain, (0, 0)),
        }
    }

    /// True if detached tables or wheels wait to be given back.
    pub(crate) fn any(&self) -> bool {
        !self.tables.lock().is_empty() || !self.wheels.lock().is_empty()
    }
}
