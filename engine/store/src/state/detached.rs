//! Tables that FLUSHALL detached, and the position of the sweep that FLUSHDB left to do.

use varve_base::rank::{Rank, RankedMutex};
use varve_index::IndexTable;

/// The tables that FLUSHALL and FLUSHDB left to free.
pub(crate) struct DetachedTables {
    /// Detached tables, given back one a step.
    pub(crate) tables: RankedMutex<Vec<IndexTable>>,
    /// Where the sweep of the first dying database stands: shard and position.
    pub(crate) sweep: RankedMutex<(usize, u64)>,
}

impl DetachedTables {
    pub(crate) fn new() -> DetachedTables {
        DetachedTables {
            tables: RankedMutex::new(Rank::Leaf, Vec::new()),
            sweep: RankedMutex::new(Rank::Drain, (0, 0)),
        }
    }

    /// True if detached tables wait to be given back.
    pub(crate) fn any_tables(&self) -> bool {
        !self.tables.lock().is_empty()
    }
}
