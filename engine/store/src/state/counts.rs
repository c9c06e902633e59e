//! How many keys, and volatile keys, each physical database has in one shard.
//!
//! ```text
//!   row row more ──▶ row row more ──▶ ..       a row: database + 1, keys, volatile keys; 0 for none
//! ```
//! The holder of the shard's lock writes them, anybody reads them: whoever counts keys waits for nobody. Rows stay where they are,
//! and one that is free is another database's later. Numbers of a command or transaction that is half done are seen as they are.

use std::sync::OnceLock;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU32, AtomicU64};

/// Rows of one part: a part fills a cache line.
const ROWS: usize = 2;

/// Keys and volatile keys of each physical database in this shard.
#[derive(Debug, Default)]
#[repr(align(64))]
pub(crate) struct Counts {
    rows: [CountRow; ROWS],
    more: OnceLock<Box<Counts>>,
}

/// The counts of one database, which the holder of the shard's lock changes.
#[derive(Debug, Default)]
pub(crate) struct CountRow {
    /// The database's number and 1; 0 while the row is free.
    owner: AtomicU32,
    keys: AtomicU64,
    volatile: AtomicU64,
}

/// The counts of one database.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct DbCount {
    pub(crate) db: u16,
    pub(crate) keys: u64,
    pub(crate) volatile: u64,
}

#[cfg(test)]
thread_local! {
    /// Rows that this thread has read: the cost of a report about all databases.
    pub(crate) static ROWS_READ: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

impl CountRow {
    /// This number of keys more, or fewer, and of volatile keys. The shard is held.
    #[inline]
    pub(crate) fn change(&self, keys: i64, volatile: i64) {
        // Release: who sees the count of a new owner sees the owner.
        let add = |count: &AtomicU64, more: i64| count.store(count.load(Relaxed).wrapping_add_signed(more), Release);
        debug_assert!(self.keys.load(Relaxed).checked_add_signed(keys).is_some(), "a removed key was counted");
        debug_assert!(self.volatile.load(Relaxed).checked_add_signed(volatile).is_some(), "so was a volatile one");
        add(&self.keys, keys);
        add(&self.volatile, volatile);
    }

    /// The counts of the row's database; None if the row is free, or changes its owner at this moment.
    fn read(&self) -> Option<DbCount> {
        #[cfg(test)]
        ROWS_READ.set(ROWS_READ.get() + 1);
        let owner = self.owner.load(Acquire);
        let (keys, volatile) = (self.keys.load(Acquire), self.volatile.load(Acquire));
        let is_same = owner != 0 && self.owner.load(Relaxed) == owner;
        is_same.then(|| DbCount { db: (owner - 1) as u16, keys, volatile })
    }
}

impl Counts {
    /// The row of a database, made at its first key. The shard is held.
    #[inline]
    pub(crate) fn of(&self, db: u16) -> &CountRow {
        let owner = u32::from(db) + 1;
        match self.rows.iter().find(|row| row.owner.load(Relaxed) == owner) {
            Some(row) => row,
            None => self.of_later(owner),
        }
    }

    #[cold]
    fn of_later(&self, owner: u32) -> &CountRow {
        if let Some(row) = self.all_rows().find(|row| row.owner.load(Relaxed) == owner) {
            return row;
        }
        let mut part = self;
        loop {
            if let Some(row) = part.rows.iter().find(|row| row.owner.load(Relaxed) == 0) {
                debug_assert_eq!(row.keys.load(Relaxed) + row.volatile.load(Relaxed), 0, "a free row counts nothing");
                row.owner.store(owner, Release);
                return row;
            }
            part = part.more.get_or_init(Box::default);
        }
    }

    /// The counts of a database.
    pub(crate) fn get(&self, db: u16) -> DbCount {
        self.iter().find(|count| count.db == db).unwrap_or(DbCount { db, ..DbCount::default() })
    }

    /// The counts of all databases that have some.
    pub(crate) fn iter(&self) -> impl Iterator<Item = DbCount> {
        self.all_rows().filter_map(CountRow::read)
    }

    /// Volatile keys of all databases.
    pub(crate) fn volatile(&self) -> u64 {
        self.all_rows().map(|row| row.volatile.load(Relaxed)).sum()
    }

    /// Frees the row of a database that is empty for good. The shard is held.
    pub(crate) fn forget(&self, db: u16) {
        debug_assert_eq!(self.get(db).keys, 0, "a forgotten database is empty");
        self.forget_all(|owner| owner == u32::from(db) + 1);
    }

    /// No database has keys any more. The shard is held.
    pub(crate) fn clear(&self) {
        self.forget_all(|_| true);
    }

    fn forget_all(&self, which: impl Fn(u32) -> bool) {
        for row in self.all_rows().filter(|row| which(row.owner.load(Relaxed))) {
            row.keys.store(0, Release);
            row.volatile.store(0, Release);
            row.owner.store(0, Release);
        }
    }

    fn all_rows(&self) -> impl Iterator<Item = &CountRow> {
        std::iter::successors(Some(self), |part| part.more.get().map(|more| &**more)).flat_map(|part| &part.rows)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn databases_have_rows_of_their_own_which_are_used_again() {
        let counts = Counts::default();
        for db in 0..9 {
            counts.of(db).change(i64::from(db) + 1, 1);
        }
        let expected = |db: u16| DbCount { db, keys: u64::from(db) + 1, volatile: 1 };
        assert!((0..9).all(|db| counts.get(db) == expected(db)));
        assert_eq!((counts.volatile(), counts.iter().count()), (9, 9));
        counts.of(3).change(-4, -1);
        counts.forget(3);
        assert_eq!(counts.get(3), DbCount { db: 3, keys: 0, volatile: 0 });
        counts.of(70).change(2, 0);
        assert_eq!((counts.get(70).keys, counts.all_rows().count()), (2, 10), "in the row that was free");
        counts.clear();
        assert_eq!(counts.iter().count(), 0);
    }

    /// Rows pass from one database to another, each of which only ever has the same number of keys.
    #[test]
    fn whoever_reads_while_rows_change_their_owner_sees_no_counts_of_another_one() {
        let counts = Counts::default();
        let done = AtomicU32::new(0);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for round in 0..20_000u16 {
                    let db = round % 5;
                    counts.of(db).change(100 + i64::from(db), 0);
                    counts.of(db).change(-100 - i64::from(db), 0);
                    counts.forget(db);
                }
                done.store(1, Release);
            });
            while done.load(Acquire) == 0 {
                for count in counts.iter() {
                    assert!([0, 100 + u64::from(count.db)].contains(&count.keys), "{count:?}");
                }
            }
        });
    }
}
