//! The index: hash to candidate references, in buckets of one cache line. It never sees a key.
//!
//! A [`IndexTable`] is one shard's part of the keyspace, or the fields of one big hash. Whoever asks brings the hash and
//! answers of each candidate whether it is the one; [`Rehash`] gives the hash of an entry again when it must move.
//!
//! ```text
//! hash  63      52 51                                  16 15             0
//!      +----------+--------------------------------------+----------------+
//!      |  shard   |      position in hash space (36)     |      tag       |
//!      +----------+--------------------------------------+----------------+
//! bucket = position * buckets / 2^36: buckets stand in the order of positions
//!
//!              home bucket ---- link ---> extension bucket (one of b + 1, 4, 9, 16, 25; its foreign entries only)
//!                               `-------> chain of overflow buckets
//!
//! growing:  positions   0 ............. split ............. 2^36
//!                       | new table     |  old table       |      an entry is in exactly one
//! ```
//!
//! | file | what |
//! |---|---|
//! | `hash_space` | positions, and the question for an entry's hash |
//! | `cell` | the kinds of entries |
//! | `bucket` | the bytes of one bucket |
//! | `pool` | overflow buckets of one table |
//! | `part` | one table of fixed size: find, put, remove |
//! | `table` | the public face |
//! | `geometry` | the sizes of tables |
//! | `growth` | moving from one table to the next, giving memory back |
//! | `drain` | emptying a table in steps |
//! | `walk` | scan, sample, for_each |
//! | `hint` | prefetching without the lock |
//! | `verify` | everything that must hold |
//!
//! The cost of a full table: 64 bytes for 7 cells at a load of 0.72 to 0.90, that is 10.2 to 12.7 bytes an entry, or with finer
//! growth 0.80 to 0.90 and 10.2 to 11.4.
//!
//! Not here: locks (a table belongs to whoever holds its shard), keys, and the opening of references.

mod bucket;
mod cell;
#[cfg(all(test, debug_assertions))]
mod contract_tests;
mod drain;
mod geometry;
mod growth;
mod hash_space;
mod hint;
mod part;
mod pool;
mod table;
mod verify;
mod walk;

pub use cell::{CellNumber, IndexCell};
pub use geometry::IndexGeometry;
pub use hash_space::{POSITION_BITS, POSITIONS, Rehash, position};
pub use hint::Hint;
pub use table::{IndexEntry, IndexTable, TableStats};
pub use verify::TableCensus;
