//! How many keys, and volatile keys, each physical database has in one shard.

use smallvec::SmallVec;

/// Keys and volatile keys of each physical database in this shard.
#[derive(Clone, Debug, Default)]
pub(crate) struct Counts(SmallVec<[DbCount; 2]>);

/// The counts of one database.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct DbCount {
    pub(crate) db: u16,
    pub(crate) keys: u64,
    pub(crate) volatile: u64,
}

impl Counts {
    /// The counts of a database, made at its first key.
    #[inline]
    pub(crate) fn of(&mut self, db: u16) -> &mut DbCount {
        let at = match self.0.iter().position(|c| c.db == db) {
            Some(at) => at,
            None => {
                self.0.push(DbCount { db, ..DbCount::default() });
                self.0.len() - 1
            }
        };
        &mut self.0[at]
    }

    pub(crate) fn get(&self, db: u16) -> DbCount {
        self.0.iter().find(|c| c.db == db).copied().unwrap_or(DbCount { db, ..DbCount::default() })
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &DbCount> {
        self.0.iter()
    }

    /// Drops the row of a database that is empty for good.
    pub(crate) fn forget(&mut self, db: u16) {
        debug_assert_eq!(self.get(db).keys, 0, "a forgotten database is empty");
        self.0.retain(|c| c.db != db);
    }

    /// Volatile keys of all databases.
    pub(crate) fn volatile(&self) -> u64 {
        self.0.iter().map(|c| c.volatile).sum()
    }
}
