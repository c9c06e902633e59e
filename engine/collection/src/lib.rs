//! Big collections: what a key leads to once its value no longer fits one packed node.
//!
//! ```text
//!   Collection::List   Quicklist    counted tree of leaves ---> packed nodes            objects of the log
//!   Collection::Hash   LeafTable    directory by hash --------> leaves of pairs         objects of the log
//!   Collection::Set    LeafTable    directory by hash --------> leaves of members       objects of the log
//!   Collection::Zset   SortedSet    counted tree, and an index --> leaves of members  objects of the log
//!   Collection::Stream Stream       counted tree by ID -------> nodes of entries        objects of the log
//! ```
//! Every object of a collection carries the collection's number as its owner. Through that number the caller finds the
//! collection when reclaim comes across one of its objects.
//!
//! | module | what |
//! |---|---|
//! | [`list`] | lists: packed nodes in order |
//! | [`leaf_table`] | fields of hashes and members of sets in packed leaves, in order of their hashes |
//! | [`zset`] | sorted sets: packed leaves in the order of (score, member), and an index of the members; small ones in a packed node |
//! | [`stream`] | streams: nodes of entries in the order of their IDs |
//! | `counted_tree` | the counted B+ tree that lists, sorted sets and streams share |
//! | `handed` | what is kept for readers: leaves as they were |
//! | `shared_map` | an ordered map whose copies share what they have in common |
//! | `sequence_readers` | readers of leaves that have an order of their own |
//!
//! Not here: keys, databases, shards, locks, the clock. The caller holds whatever lock guards the collection, and lends the
//! log's tokens with each call ([`WriteCtx`]).

#![forbid(unsafe_code)]

mod counted_tree;
mod handed;
mod kinds;
pub mod leaf_table;
pub mod list;
mod sequence_readers;
mod shared_map;
pub mod stream;
pub mod zset;

use std::collections::HashSet;

use varve_base::Ref;
use varve_base::group::Tag;
use varve_base::hash::hash64;
use varve_base::mem::Line;
use varve_index::{Rehash, TableStats};
use varve_segment::{Access, Appender, Log, ObjectHead, Owner, SegmentClass};

pub use handed::{KeptBytes, ReaderBytes};
use leaf_table::LeafTable;
use list::Quicklist;
pub use shared_map::{SharedMap, SharedMapIter};
use stream::Stream;
use zset::SortedSet;

/// Bytes of names and values behind which a step of SCAN, HSCAN, SSCAN or ZSCAN ends, whatever its COUNT: the leaf or bucket that has
/// the last of them is shown whole. A pattern takes up to some ten nanoseconds a byte.
pub const SCAN_BYTES: usize = 128 << 10;

/// The number of a big collection: all its objects carry it as their owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CollectionId(u32);

impl CollectionId {
    /// The collection of this number.
    #[inline]
    pub const fn new(number: u32) -> CollectionId {
        CollectionId(number)
    }

    /// The number.
    #[inline]
    pub const fn number(self) -> u32 {
        self.0
    }
}

/// The number of a reader that is shown a collection over several holds of its shard. No two readers of a store have the
/// same one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ReaderNumber(u64);

impl ReaderNumber {
    /// The reader of this number.
    #[inline]
    pub const fn new(number: u64) -> ReaderNumber {
        ReaderNumber(number)
    }
}

/// How much of a reader that wants no more has been forgotten.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Forgotten {
    /// The collection does not know it.
    Unknown,
    /// A part of what was handed over to it: the rest is left for further calls.
    Partly,
    /// All of it.
    Wholly,
}

/// The context of an operation that reads a big collection. The access is that of the lock which guards the collection.
#[derive(Clone, Copy)]
pub struct ReadCtx<'a> {
    /// The log that holds the objects.
    pub log: &'a Log,
    /// Opens the objects of the collection.
    pub access: &'a Access,
    /// Seed of the hash of elements.
    pub seed: u64,
}

impl Rehash for ReadCtx<'_> {
    fn hash(&self, r: Ref, _: Tag) -> u64 {
        hash64(self.seed, self.access.open(self.log, r).key())
    }

    fn prefetch(&self, r: Ref) {
        self.log.prefetch(r);
    }
}

/// The context of an operation that changes a big collection. Its shard is locked: the access is that shard's.
pub struct WriteCtx<'a> {
    /// The log that holds the objects.
    pub log: &'a Log,
    /// Opens the objects of the collection, to read and to change them.
    pub access: &'a mut Access,
    /// Writes new objects.
    pub appender: &'a mut Appender,
    /// Seed of the hash of elements.
    pub seed: u64,
    /// The collection's number: the owner of all its objects.
    pub id: CollectionId,
}

impl WriteCtx<'_> {
    /// The context for reading the collection.
    #[inline]
    pub fn read(&self) -> ReadCtx<'_> {
        ReadCtx { log: self.log, access: self.access, seed: self.seed }
    }

    /// The context for reading the collection, and the appender for new objects beside it.
    #[inline]
    pub fn parts(&mut self) -> (ReadCtx<'_>, &mut Appender) {
        (ReadCtx { log: self.log, access: self.access, seed: self.seed }, self.appender)
    }

    /// Moves an object out of reclaim's way; gives its new place.
    pub fn relocate(&mut self, r: Ref) -> Ref {
        debug_assert_eq!(
            self.access.open(self.log, r).owner(),
            Owner::Collection(self.id.number()),
            "an object of the collection"
        );
        self.appender.relocate(self.log, self.access, r, SegmentClass::Survivor)
    }

    /// Moves an object out of reclaim's way and gives it another value, which means the same; gives its new place.
    pub(crate) fn relocate_with(&mut self, r: Ref, value: &[u8]) -> Ref {
        debug_assert_eq!(
            self.access.open(self.log, r).owner(),
            Owner::Collection(self.id.number()),
            "an object of the collection"
        );
        self.appender.relocate_with(self.log, self.access, r, SegmentClass::Survivor, Some(value))
    }
}

/// A big collection, by its structure.
pub enum Collection {
    /// A list.
    List(Quicklist),
    /// A hash: fields with values.
    Hash(LeafTable),
    /// A set: members without values.
    Set(LeafTable),
    /// A sorted set.
    Zset(Box<SortedSet>),
    /// A stream.
    Stream(Box<Stream>),
}

impl Collection {
    /// A hash without fields.
    pub fn empty_hash() -> Collection {
        Collection::Hash(LeafTable::fields())
    }

    /// The list; the key's object says that this is one.
    #[inline]
    pub fn list(&self) -> &Quicklist {
        let Collection::List(list) = self else { unreachable!("a list") };
        list
    }

    /// The list, to change.
    #[inline]
    pub fn list_mut(&mut self) -> &mut Quicklist {
        let Collection::List(list) = self else { unreachable!("a list") };
        list
    }

    /// The fields of the hash; the key's object says that this is one.
    #[inline]
    pub fn hash(&self) -> &LeafTable {
        let Collection::Hash(fields) = self else { unreachable!("a hash") };
        fields
    }

    /// The fields of the hash, to change.
    #[inline]
    pub fn hash_mut(&mut self) -> &mut LeafTable {
        let Collection::Hash(fields) = self else { unreachable!("a hash") };
        fields
    }

    /// The members of the set; the key's object says that this is one.
    #[inline]
    pub fn set(&self) -> &LeafTable {
        let Collection::Set(members) = self else { unreachable!("a set") };
        members
    }

    /// The members of the set, to change.
    #[inline]
    pub fn set_mut(&mut self) -> &mut LeafTable {
        let Collection::Set(members) = self else { unreachable!("a set") };
        members
    }

    /// The sorted set; the key's object says that this is one.
    #[inline]
    pub fn zset(&self) -> &SortedSet {
        let Collection::Zset(set) = self else { unreachable!("a sorted set") };
        set
    }

    /// The sorted set, to change.
    #[inline]
    pub fn zset_mut(&mut self) -> &mut SortedSet {
        let Collection::Zset(set) = self else { unreachable!("a sorted set") };
        set
    }

    /// The stream; the key's object says that this is one.
    #[inline]
    pub fn stream(&self) -> &Stream {
        let Collection::Stream(stream) = self else { unreachable!("a stream") };
        stream
    }

    /// The stream, to change.
    #[inline]
    pub fn stream_mut(&mut self) -> &mut Stream {
        let Collection::Stream(stream) = self else { unreachable!("a stream") };
        stream
    }

    /// True without elements: no key leads to such a one, except to a stream.
    pub fn is_empty(&self) -> bool {
        match self {
            Collection::List(c) => c.len() == 0,
            Collection::Hash(e) | Collection::Set(e) => e.len() == 0,
            Collection::Zset(z) => z.len() == 0,
            // A stream without entries is a key like any other.
            Collection::Stream(_) => false,
        }
    }

    /// Bytes of the collection's objects in the log and of its tables. O(1).
    pub fn memory(&self) -> usize {
        match self {
            Collection::List(c) => c.object_bytes() as usize + c.table_bytes(),
            Collection::Hash(e) | Collection::Set(e) => e.object_bytes() as usize + e.table_bytes(),
            Collection::Zset(z) => z.memory(),
            Collection::Stream(s) => s.object_bytes() as usize + s.table_bytes(),
        }
    }

    /// Bytes of what is not in the log: tables, directories, inner nodes. O(1).
    #[inline]
    pub fn table_bytes(&self) -> usize {
        match self {
            Collection::List(c) => c.table_bytes(),
            Collection::Hash(e) | Collection::Set(e) => e.table_bytes(),
            Collection::Zset(z) => z.table_bytes(),
            Collection::Stream(s) => s.table_bytes(),
        }
    }

    /// Figures of the elements' index; a list has none.
    pub fn table_stats(&self) -> Option<TableStats> {
        match self {
            Collection::List(_) | Collection::Stream(_) => None,
            Collection::Hash(e) | Collection::Set(e) => Some(e.table_stats()),
            Collection::Zset(z) => Some(z.table_stats()),
        }
    }

    /// Moves the object that reclaim has come to, with all that leads to it; false if this collection does not have it.
    pub fn relocate(&mut self, ctx: &mut WriteCtx<'_>, head: &ObjectHead<'_>) -> bool {
        match self {
            Collection::List(c) => c.relocate(ctx, head),
            Collection::Hash(e) | Collection::Set(e) => e.relocate(ctx, head),
            Collection::Zset(z) => z.relocate(ctx, head),
            Collection::Stream(s) => s.relocate(ctx, head),
        }
    }

    /// Kills about `objects` of the collection's objects, which no key leads to any more; true when none is left.
    pub fn free_step(&mut self, ctx: &mut WriteCtx<'_>, objects: usize) -> bool {
        match self {
            Collection::List(c) => c.free_step(ctx, objects),
            Collection::Hash(e) | Collection::Set(e) => e.free_step(ctx, objects),
            Collection::Zset(z) => z.free_step(ctx, objects),
            Collection::Stream(s) => s.free_step(ctx, objects),
        }
    }

    /// Where the table says which object an element with this hash is in: a bucket, or a directory's cell. A list has none.
    #[inline]
    pub fn table_line(&self, hash: u64) -> Option<Line> {
        match self {
            Collection::Hash(e) | Collection::Set(e) => Some(e.cell_line(hash)),
            Collection::Zset(z) => Some(z.cell_line(hash)),
            Collection::List(_) | Collection::Stream(_) => None,
        }
    }

    /// Where the object begins that an element with this hash may be in.
    #[inline]
    pub fn object_line(&self, log: &Log, hash: u64) -> Option<Line> {
        match self {
            Collection::Hash(e) | Collection::Set(e) => e.leaf_line(log, hash),
            Collection::Zset(z) => z.leaf_line(log, hash),
            Collection::List(_) | Collection::Stream(_) => None,
        }
    }

    /// Gives back some of the memory of tables whose objects are gone; true when none is left. Nothing else is to be asked
    /// of the body from then on.
    pub fn shrink_step(&mut self) -> bool {
        match self {
            Collection::List(c) => c.shrink_step(),
            Collection::Hash(e) | Collection::Set(e) => e.shrink_step(),
            Collection::Zset(z) => z.shrink_step(),
            Collection::Stream(s) => s.shrink_step(),
        }
    }

    /// True if a table is on its way to another size, or should be, or nodes that were cut off are left.
    #[inline]
    pub fn wants_step(&self) -> bool {
        match self {
            Collection::List(c) => c.wants_step(),
            // Leaves are split and joined by the commands that fill and empty them.
            Collection::Hash(_) | Collection::Set(_) => false,
            Collection::Zset(z) => z.wants_step(),
            Collection::Stream(s) => s.wants_step(),
        }
    }

    /// Moves a table on by about `buckets` buckets, or kills as many nodes that were cut off.
    pub fn step(&mut self, ctx: &mut WriteCtx<'_>, buckets: usize) {
        match self {
            Collection::List(c) => c.step(ctx, buckets),
            Collection::Hash(_) | Collection::Set(_) => {}
            Collection::Zset(z) => z.step(ctx, buckets),
            Collection::Stream(s) => s.step(ctx, buckets),
        }
    }

    /// Forgets a reader that wants no more, or a part of what was handed over to it: to be called until it is forgotten.
    pub fn end_reading(&mut self, ctx: &mut WriteCtx<'_>, number: ReaderNumber) -> Forgotten {
        match self {
            Collection::List(c) => c.end_reading(number),
            Collection::Hash(e) | Collection::Set(e) => e.end_reading(ctx, number),
            Collection::Zset(z) => z.end_reading(ctx, number),
            Collection::Stream(s) => s.end_reading(number),
        }
    }

    /// A time before which no field of a hash expires, in milliseconds of Unix time; `None` if none does, and for all else.
    #[inline]
    pub fn next_due_ms(&self) -> Option<i64> {
        if let Collection::Hash(fields) = self { fields.next_due_ms() } else { None }
    }

    /// Whether somebody reads the collection over several holds of the shard. What somebody reads is not freed.
    #[inline]
    pub fn is_read(&self) -> bool {
        match self {
            Collection::List(c) => c.is_read(),
            Collection::Hash(e) | Collection::Set(e) => e.is_read(),
            Collection::Zset(z) => z.is_read(),
            Collection::Stream(s) => s.is_read(),
        }
    }

    /// Copies the elements as objects of the collection `id`.
    pub fn copy(&self, from: ReadCtx<'_>, appender: &mut Appender, id: CollectionId) -> Collection {
        match self {
            Collection::List(c) => Collection::List(c.copy(from, appender, id)),
            Collection::Hash(e) => Collection::Hash(e.copy(from, appender, id)),
            Collection::Set(e) => Collection::Set(e.copy(from, appender, id)),
            Collection::Zset(z) => Collection::Zset(Box::new(z.copy(from, appender, id))),
            Collection::Stream(s) => Collection::Stream(Box::new(s.copy(from, appender, id))),
        }
    }

    /// Checks everything and adds every live object's Ref. O(N).
    pub fn verify(&self, ctx: ReadCtx<'_>, id: CollectionId, live: &mut HashSet<Ref>) {
        match self {
            Collection::List(c) => c.verify(ctx, id, live),
            Collection::Hash(e) | Collection::Set(e) => e.verify(ctx, id, live),
            Collection::Zset(z) => z.verify(ctx, id, live),
            Collection::Stream(s) => s.verify(ctx, id, live),
        }
    }
}
