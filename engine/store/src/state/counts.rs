//! How many keys, and volatile keys, each physical database has in one shard.
//!
//! ```text
//!   row row                    in the shard's cell        a row: database + 1, keys, volatile keys; 0 for none
//!   row x 14                   searched one by one
//!   row x 16, row x 32, ..     found by the database's number: page of 256 databases ──▶ row
//! ```
//! The holder of the shard's lock writes them, anybody reads them: whoever counts keys waits for nobody. Rows stay where they are,
//! and one that is free is another database's later. Numbers of a command or transaction that is half done are seen as they are.
//! A write to a database costs the same however many others have keys in the shard.

use std::array;
use std::sync::OnceLock;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU32, AtomicU64};

/// Rows in the cell, which fill a cache line, and rows near it, which are searched one by one.
const ROWS: usize = 2;
const NEAR_ROWS: usize = 14;
/// Rows of the first far part; each later one has twice as many as the one before. All parts have more than there are databases.
const FAR_ROWS: u32 = 16;
const FAR_PARTS: usize = 13;
/// Databases of one page, and pages.
const PAGE_DATABASES: usize = 256;
const PAGES: usize = (u16::MAX as usize + 1) / PAGE_DATABASES;

/// Keys and volatile keys of each physical database in this shard.
#[derive(Debug, Default)]
#[repr(align(64))]
pub(crate) struct Counts {
    rows: [CountRow; ROWS],
    more: OnceLock<Box<MoreCounts>>,
}

/// The counts of a shard in which more than two databases have had keys.
#[derive(Debug, Default)]
struct MoreCounts {
    near: [CountRow; NEAR_ROWS],
    far: OnceLock<Box<FarCounts>>,
}

/// The counts of a shard in which many databases have had keys.
#[derive(Debug)]
struct FarCounts {
    parts: [OnceLock<Box<[CountRow]>>; FAR_PARTS],
    /// The row of each database in the parts, and 1; 0 for none.
    pages: [OnceLock<Box<[AtomicU32; PAGE_DATABASES]>>; PAGES],
    /// Rows that were taken at any time, and those of them that are free again.
    taken: AtomicU32,
    freed: AtomicU32,
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

    /// Gives the free row to a database. The shard is held.
    fn take(&self, owner: u32) {
        debug_assert_eq!(self.keys.load(Relaxed) + self.volatile.load(Relaxed), 0, "a free row counts nothing");
        self.owner.store(owner, Release);
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

impl FarCounts {
    fn new() -> FarCounts {
        FarCounts {
            parts: [const { OnceLock::new() }; FAR_PARTS],
            pages: array::from_fn(|_| OnceLock::new()),
            taken: AtomicU32::new(0),
            freed: AtomicU32::new(0),
        }
    }

    /// A row by its number; its part is made at its first row.
    fn row(&self, number: u32) -> &CountRow {
        let part = (number / FAR_ROWS + 1).ilog2();
        let first = FAR_ROWS * ((1 << part) - 1);
        let rows =
            self.parts[part as usize].get_or_init(|| (0..FAR_ROWS << part).map(|_| CountRow::default()).collect());
        &rows[(number - first) as usize]
    }

    /// The row of a database.
    fn find(&self, db: u16) -> Option<&CountRow> {
        let page = self.pages[usize::from(db) / PAGE_DATABASES].get()?;
        let number = page[usize::from(db) % PAGE_DATABASES].load(Acquire).checked_sub(1)?;
        Some(self.row(number)).filter(|row| row.owner.load(Acquire) == u32::from(db) + 1)
    }

    /// Gives a database that has none a row. The shard is held.
    fn take(&self, db: u16) -> &CountRow {
        let free = match self.freed.load(Relaxed) {
            0 => None,
            _ => (0..self.taken.load(Relaxed)).find(|number| self.row(*number).owner.load(Relaxed) == 0),
        };
        let number = match free {
            Some(number) => {
                self.freed.store(self.freed.load(Relaxed) - 1, Relaxed);
                number
            }
            None => self.taken.load(Relaxed),
        };
        let row = self.row(number);
        row.take(u32::from(db) + 1);
        if free.is_none() {
            // Release: a reader of this number finds the part.
            self.taken.store(number + 1, Release);
        }
        let page = self.pages[usize::from(db) / PAGE_DATABASES]
            .get_or_init(|| Box::new([const { AtomicU32::new(0) }; PAGE_DATABASES]));
        page[usize::from(db) % PAGE_DATABASES].store(number + 1, Release);
        row
    }

    fn rows(&self) -> impl Iterator<Item = &CountRow> {
        (0..self.taken.load(Acquire)).map(|number| self.row(number))
    }

    /// A row of these is free again. The shard is held.
    fn note_freed(&self) {
        self.freed.store(self.freed.load(Relaxed) + 1, Relaxed);
        debug_assert!(self.freed.load(Relaxed) <= self.taken.load(Relaxed), "no row is freed twice");
    }
}

impl Counts {
    /// The row of a database, made at its first key. The shard is held.
    #[inline]
    pub(crate) fn of(&self, db: u16) -> &CountRow {
        let owner = u32::from(db) + 1;
        match self.rows.iter().find(|row| row.owner.load(Relaxed) == owner) {
            Some(row) => row,
            None => self.find_more(db).unwrap_or_else(|| self.take(db)),
        }
    }

    /// The row of a database that has none in the cell.
    #[cold]
    fn find_more(&self, db: u16) -> Option<&CountRow> {
        let (owner, more) = (u32::from(db) + 1, self.more.get()?);
        let near = more.near.iter().find(|row| row.owner.load(Acquire) == owner);
        near.or_else(|| more.far.get()?.find(db))
    }

    fn find(&self, db: u16) -> Option<&CountRow> {
        let owner = u32::from(db) + 1;
        self.rows.iter().find(|row| row.owner.load(Acquire) == owner).or_else(|| self.find_more(db))
    }

    /// Gives a database that has none a row.
    #[cold]
    fn take(&self, db: u16) -> &CountRow {
        let is_free = |row: &&CountRow| row.owner.load(Relaxed) == 0;
        let near =
            self.rows.iter().find(is_free).or_else(|| self.more.get_or_init(Box::default).near.iter().find(is_free));
        match near {
            Some(row) => {
                row.take(u32::from(db) + 1);
                row
            }
            None => self.more.get_or_init(Box::default).far.get_or_init(|| Box::new(FarCounts::new())).take(db),
        }
    }

    /// The counts of a database; `None` of one that is not counted here.
    pub(crate) fn counted(&self, db: u16) -> Option<DbCount> {
        self.find(db).map(|_| self.get(db))
    }

    /// The counts of a database.
    pub(crate) fn get(&self, db: u16) -> DbCount {
        let count = self.find(db).and_then(CountRow::read).filter(|count| count.db == db);
        count.unwrap_or(DbCount { db, ..DbCount::default() })
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
        if let Some(row) = self.find(db) {
            self.free(row);
        }
    }

    /// No database has keys any more. The shard is held.
    pub(crate) fn clear(&self) {
        self.all_rows().filter(|row| row.owner.load(Relaxed) != 0).for_each(|row| self.free(row));
    }

    fn free(&self, row: &CountRow) {
        let is_near = |rows: &[CountRow]| rows.as_ptr_range().contains(&std::ptr::from_ref(row));
        row.keys.store(0, Release);
        row.volatile.store(0, Release);
        row.owner.store(0, Release);
        let more = self.more.get().filter(|more| !is_near(&self.rows) && !is_near(&more.near));
        if let Some(far) = more.and_then(|more| more.far.get()) {
            far.note_freed();
        }
    }

    fn all_rows(&self) -> impl Iterator<Item = &CountRow> {
        let near = self.more.get().into_iter().flat_map(|more| &more.near);
        let far = self.more.get().and_then(|more| more.far.get()).into_iter().flat_map(|far| far.rows());
        self.rows.iter().chain(near).chain(far)
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
        let owner_of_place = |place: usize| counts.all_rows().nth(place).map(|row| row.owner.load(Relaxed));
        assert_eq!((counts.get(70).keys, owner_of_place(3)), (2, Some(71)), "in the row that was free");
        counts.clear();
        assert_eq!(counts.iter().count(), 0);
    }

    /// A database's row was searched among those of all others: with thousands of them each write took a tenth of a millisecond.
    #[test]
    fn issue_11_a_row_is_found_among_those_of_all_databases_at_once() {
        let counts = Counts::default();
        let keys_of = |db: u16| 1 + i64::from(db % 7);
        (0..=u16::MAX).for_each(|db| counts.of(db).change(keys_of(db), 0));
        let before = ROWS_READ.get();
        assert!((0..=u16::MAX).all(|db| counts.get(db).keys == keys_of(db) as u64));
        assert_eq!(ROWS_READ.get() - before, usize::from(u16::MAX) + 1);
        for db in (0..=u16::MAX).step_by(1001) {
            counts.of(db).change(-keys_of(db), 0);
            counts.forget(db);
            assert_eq!(counts.get(db).keys, 0);
        }
        // The rows that are free are taken first.
        let rows = counts.all_rows().count();
        (0..=u16::MAX).step_by(1001).for_each(|db| counts.of(db).change(3, 1));
        assert_eq!((counts.all_rows().count(), counts.iter().count()), (rows, usize::from(u16::MAX) + 1));
        assert_eq!(counts.volatile(), (0..=u16::MAX).step_by(1001).count() as u64);
        counts.clear();
        assert_eq!((counts.iter().count(), counts.volatile()), (0, 0));
        counts.of(9).change(1, 1);
        assert_eq!(counts.get(9), DbCount { db: 9, keys: 1, volatile: 1 });
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
