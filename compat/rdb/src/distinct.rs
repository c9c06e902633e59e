//! Whether a collection has an element twice: fields of a hash, members of a set or a sorted set.
//!
//! ```text
//! hash of a name   the first 4096 ──▶ one table
//!                  all others     ──▶ one of 1024 tables, by ten bits of the hash
//! ```
//! A reader has one part in memory at a time, so this keeps a hash of 64 bits for each name. Equal names are always found;
//! different ones agree by chance once in some hundred thousand collections of ten million elements, which are refused then.
//! A table that grows moves all of its hashes at once. Among many tables that is a small part of them.

use std::collections::HashSet;
use std::hash::{BuildHasher, BuildHasherDefault, Hasher, RandomState};

use varve_base::hash::hash64;

use crate::format::Kind;
use crate::read::{Part, ReadFault};

/// The names of a collection that is being read.
#[derive(Debug, Default)]
pub struct Distinct {
    /// The seed of the hashes, drawn for each value: nobody can make names that all have one place in the tables.
    seed: u64,
    few: Table,
    many: Vec<Table>,
    looks: bool,
}

type Table = HashSet<u64, BuildHasherDefault<AsItIs>>;

/// Names of the first table; its memory is kept from one value to the next.
const FEW_NAMES: usize = 1 << 12;
/// The other tables, and the bits of a hash that say which: a table takes the lowest bits for a place, the highest seven for a tag.
const TABLES: usize = 1 << 10;
const TABLE_BITS_AT: u32 = 46;
/// Tables whose memory one step gives back: some megabytes of ten million names.
const FREED_AT_ONCE: usize = 16;

/// A hash is its own hash.
#[derive(Debug, Default)]
struct AsItIs(u64);

impl Hasher for AsItIs {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, _: &[u8]) {
        unreachable!("what is hashed is a number")
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }
}

impl Distinct {
    /// Begins a value. A list may have an element twice.
    pub fn begin(&mut self, kind: Kind) {
        self.seed = RandomState::new().hash_one(0);
        self.looks = matches!(kind, Kind::Set | Kind::Zset | Kind::Hash);
        self.few.clear();
        self.few.shrink_to(FEW_NAMES);
        self.many = Vec::new();
    }

    /// Looks at the next part.
    ///
    /// # Errors
    /// Its name has come before, or the system refuses the memory to keep it.
    #[inline]
    pub fn add(&mut self, part: &Part<'_>) -> Result<(), ReadFault> {
        if !self.looks {
            return Ok(());
        }
        let (Part::Whole(name)
        | Part::Element(name)
        | Part::Pair(name, _)
        | Part::DatedPair(name, ..)
        | Part::Scored(name, _)) = part
        else {
            return Ok(());
        };
        if self.is_new(0, name)? { Ok(()) } else { Err(ReadFault::Duplicate) }
    }

    /// Keeps a name of something that the value has beside its elements; false if it has come before with this number, which says
    /// what it is the name of.
    ///
    /// # Errors
    /// The system refuses the memory.
    #[inline]
    pub fn is_new(&mut self, of: u64, name: &[u8]) -> Result<bool, ReadFault> {
        let hash = hash64(self.seed ^ of, name);
        let table = if self.few.len() < FEW_NAMES {
            &mut self.few
        } else {
            if self.few.contains(&hash) {
                return Ok(false);
            }
            if self.many.is_empty() {
                self.many.resize_with(TABLES, Table::default);
            }
            &mut self.many[(hash >> TABLE_BITS_AT) as usize % TABLES]
        };
        table.try_reserve(1).map_err(|_| ReadFault::Memory)?;
        Ok(table.insert(hash))
    }

    /// Bytes of memory that the names take.
    pub fn held_bytes(&self) -> usize {
        // A table has a byte beside each of its places, of which one in eight stays free.
        let bytes = |table: &Table| table.capacity() / 7 * 8 * (size_of::<u64>() + 1);
        bytes(&self.few) + self.many.iter().map(|table| bytes(table) + size_of::<Table>()).sum::<usize>()
    }

    /// Gives some of the memory back, of names that nobody asks for any more; true when all is.
    pub fn free_some(&mut self) -> bool {
        self.many.truncate(self.many.len().saturating_sub(FREED_AT_ONCE));
        if self.many.is_empty() {
            self.many = Vec::new();
        }
        self.many.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_may_come_once_in_a_set_and_twice_in_a_list() {
        let mut distinct = Distinct::default();
        distinct.begin(Kind::Hash);
        assert!(distinct.add(&Part::Pair(b"a", b"v")).is_ok());
        assert!(distinct.add(&Part::Pair(b"b", b"v")).is_ok());
        assert!(distinct.add(&Part::Pair(b"a", b"w")).is_err());
        distinct.begin(Kind::Set);
        assert!(distinct.add(&Part::Element(b"a")).is_ok());
        distinct.begin(Kind::List);
        assert!(distinct.add(&Part::Element(b"a")).is_ok());
        assert!(distinct.add(&Part::Element(b"a")).is_ok());
    }

    #[test]
    fn of_many_names_each_is_found_again_and_no_table_has_many() {
        const NAMES: u32 = 300_000;
        let mut distinct = Distinct::default();
        distinct.begin(Kind::Set);
        assert!((0..NAMES).all(|n| distinct.add(&Part::Element(&n.to_le_bytes())).is_ok()));
        assert!((0..NAMES).all(|n| distinct.add(&Part::Element(&n.to_le_bytes())).is_err()));
        let most = distinct.many.iter().map(HashSet::len).max().expect("tables");
        assert!(most < 2 * NAMES as usize / TABLES, "{most} names in one table, which it moves at once when it grows");
        let held = distinct.held_bytes();
        assert!((9 * NAMES as usize..30 * NAMES as usize).contains(&held), "{held} bytes");
        // A name of something else is another one.
        assert!(distinct.is_new(1, &7u32.to_le_bytes()).expect("memory"));
        assert!(!distinct.is_new(1, &7u32.to_le_bytes()).expect("memory"));
        let mut steps = 1;
        while !distinct.free_some() {
            steps += 1;
        }
        assert!(steps >= TABLES / FREED_AT_ONCE && distinct.held_bytes() < held / 10, "{steps} steps");
        distinct.begin(Kind::Set);
        assert!(distinct.add(&Part::Element(&7u32.to_le_bytes())).is_ok());
    }
}
