//! Everything that must hold of a table, checked entry by entry.

use crate::cell::IndexCell;
use crate::hash_space::{POSITIONS, Rehash, position};
use crate::part::Part;
use crate::table::{IndexTable, NEW, OLD};
use varve_base::group::Tag;

/// Where the entries of a table are; what `verify` counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct TableCensus {
    /// Entries in their home buckets.
    pub native: usize,
    /// Entries in cells borrowed of another bucket.
    pub foreign: usize,
    /// Entries in overflow buckets.
    pub chained: usize,
}

impl TableCensus {
    /// All entries.
    pub fn total(self) -> usize {
        self.native + self.foreign + self.chained
    }
}

impl<E: IndexCell> IndexTable<E> {
    /// Checks the whole table and panics with what is wrong: every entry is found from its hash, native bits, tags,
    /// links and counts are right, no overflow bucket is lost. Returns where the entries are.
    pub fn verify(&self, rehash: &impl Rehash<E>) -> TableCensus {
        let mut census = TableCensus::default();
        for side in [NEW, OLD] {
            let part = &self.parts[side];
            let check = Check { table: self, part, side, rehash };
            check.whole_part(&mut census);
        }
        assert_eq!(census.total(), self.len, "entries counted and entries known");
        let moving = self.split < POSITIONS;
        assert_eq!(moving, !self.parts[OLD].is_none(), "an old table exactly while entries move");
        if moving {
            assert_eq!(
                self.split,
                self.parts[OLD].first_position(self.moved),
                "the split is where the old table begins"
            );
            assert!(self.grow_at == 0, "an insert must move while there is something to move");
        }
        census
    }
}

/// One part under examination.
struct Check<'a, E, R> {
    table: &'a IndexTable<E>,
    part: &'a Part,
    side: usize,
    rehash: &'a R,
}

impl<E: IndexCell, R: Rehash<E>> Check<'_, E, R> {
    fn whole_part(&self, census: &mut TableCensus) {
        let mut chained_buckets = 0;
        for at in 0..self.part.count() {
            chained_buckets += self.bucket(at, census);
        }
        let pool = self.part.pool();
        assert_eq!(pool.used(), chained_buckets, "overflow buckets in use and in chains");
        // Chunks of a part that has been emptied, or is gone, go without a word to the free list.
        if !self.part.is_none() && (self.table.drained.is_none() || pool.used() > 0) {
            assert_eq!(
                pool.used() + pool.free_count(),
                pool.ids() as usize,
                "overflow buckets in use, free, and in all"
            );
        }
    }

    /// One bucket with what it borrows and its chain; returns the number of its overflow buckets.
    fn bucket(&self, at: u64, census: &mut TableCensus) -> usize {
        let bucket = self.part.bucket(at);
        for cell in bucket.head().valid() {
            let native = bucket.head().native().has(cell);
            let home = self.entry(E::of(bucket.get(cell)), bucket.head().tag(cell));
            assert_eq!(native, home == at, "bucket {at} cell {cell}: native bit of an entry at home in {home}");
            if native {
                census.native += 1;
            } else {
                assert_eq!(self.part.extension(home), Some(at), "bucket {at} cell {cell}: not the extension of {home}");
            }
        }
        assert!(
            bucket.head().native().all(|cell| bucket.head().valid().has(cell)),
            "bucket {at}: native but not valid"
        );
        self.borrowed(at, census);
        if self.side == OLD && at < self.table.moved {
            assert!(!bucket.is_linked() && bucket.head().native().is_empty(), "bucket {at} has moved and is not empty");
        }
        self.chain(at, census)
    }

    /// The link's count of borrowed cells.
    fn borrowed(&self, at: u64, census: &mut TableCensus) {
        let bucket = self.part.bucket(at);
        let Some(extension) = self.part.extension(at) else {
            assert_eq!(bucket.borrowed(), 0, "bucket {at}: cells borrowed nowhere");
            return;
        };
        assert_ne!(extension, at, "bucket {at} extends itself");
        let lender = self.part.bucket(extension);
        let hash_of = |cell| self.rehash.hash(E::of(lender.get(cell)), lender.head().tag(cell));
        let home_of = |cell| self.part.home(position(hash_of(cell)));
        let borrowed = lender.head().foreign().filter(|&cell| home_of(cell) == at).count();
        assert_eq!(bucket.borrowed(), borrowed, "bucket {at}: cells borrowed of {extension}");
        assert!(borrowed > 0, "bucket {at}: an extension without use");
        census.foreign += borrowed;
    }

    fn chain(&self, at: u64, census: &mut TableCensus) -> usize {
        let mut buckets = 0;
        for id in self.part.chain(at) {
            buckets += 1;
            assert!(buckets <= self.part.pool().used(), "bucket {at}: its chain runs in a circle");
            let bucket = self.part.pool().get(id);
            assert!(!bucket.head().valid().is_empty(), "overflow bucket {id} is empty");
            assert!(bucket.extension().is_none() && bucket.borrowed() == 0, "overflow bucket {id} has an extension");
            for cell in bucket.head().valid() {
                let home = self.entry(E::of(bucket.get(cell)), bucket.head().tag(cell));
                assert_eq!(home, at, "overflow bucket {id} cell {cell} in another chain");
                census.chained += 1;
            }
        }
        assert!(
            buckets == 0 || self.part.bucket(at).head().valid().is_full(),
            "bucket {at} has a chain and a free cell"
        );
        buckets
    }

    /// One entry: its tag, its side of the split, and that it is found. Returns its home.
    fn entry(&self, r: E, tag: Tag) -> u64 {
        let hash = self.rehash.hash(r, tag);
        assert_eq!(tag, Tag(hash as u16), "{r:?}: its tag");
        assert_eq!(self.side, usize::from(position(hash) >= self.table.split), "{r:?}: on the wrong side of the split");
        let found = self.table.find_ref(hash, r).unwrap_or_else(|| panic!("{r:?} with hash {hash:#x} is not found"));
        assert_eq!(self.table.get(found), r);
        self.part.home(position(hash))
    }
}
