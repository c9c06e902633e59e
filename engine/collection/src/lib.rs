//! Big collections: what a key leads to once its value no longer fits one packed node.
//!
//! ```text
//!   Collection::List   Quicklist    counted tree of leaves ---> packed nodes            objects of the log
//!   Collection::Hash   FieldTable   buckets of an index ------> field and value         objects of the log
//!   Collection::Set    FieldTable   buckets of an index ------> member                  objects of the log
//!   Collection::Zset   SortedSet    FieldTable, and a counted tree of leaves of cells   objects of the log
//! ```
//! Every object of a collection carries the collection's number as its owner. Through that number the caller finds the
//! collection when reclaim comes across one of its objects.
//!
//! | module | what |
//! |---|---|
//! | [`list`] | lists: packed nodes in order |
//! | [`field_table`] | fields and members under an index of their own |
//! | [`zset`] | sorted sets: a field table, and a tree over its elements by (score, member); small ones in a packed node |
//! | `counted_tree` | the counted B+ tree that lists and sorted sets share |
//!
//! Not here: keys, databases, shards, locks, the clock. The caller holds whatever lock guards the collection, and lends the
//! log's tokens with each call ([`WriteCtx`]).

#![forbid(unsafe_code)]

mod counted_tree;
pub mod field_table;
mod kinds;
pub mod list;
pub mod zset;

use std::collections::HashSet;

use varve_base::Ref;
use varve_index::TableStats;
use varve_segment::{Access, Appender, Log, ObjectHead, SegmentClass};

use field_table::FieldTable;
use list::Quicklist;
use zset::SortedSet;

/// What an operation that changes a big collection works with. Its shard is locked: the access is that shard's.
pub struct WriteCtx<'a> {
    /// The log that holds the objects.
    pub log: &'a Log,
    /// Opens the objects of the collection, to read and to change them.
    pub access: &'a mut Access,
    /// Writes new objects.
    pub appender: &'a mut Appender,
    /// Seed of the hash of elements.
    pub seed: u64,
    /// The collection's slot number: the owner of all its objects.
    pub slot: u32,
}

impl WriteCtx<'_> {
    /// Moves an object out of reclaim's way; gives its new place.
    pub fn relocate(&mut self, r: Ref) -> Ref {
        self.appender.relocate(self.log, self.access, r, SegmentClass::Survivor)
    }
}

/// What a big collection consists of.
pub enum Collection {
    /// A list.
    List(Quicklist),
    /// A hash: fields with values.
    Hash(FieldTable),
    /// A set: members without values.
    Set(FieldTable),
    /// A sorted set.
    Zset(Box<SortedSet>),
}

impl Collection {
    /// Bytes of the collection's objects in the log and of its tables. O(1).
    pub fn memory(&self) -> usize {
        match self {
            Collection::List(c) => c.object_bytes() as usize + c.table_bytes(),
            Collection::Hash(e) | Collection::Set(e) => e.object_bytes() as usize + e.table_bytes(),
            Collection::Zset(z) => z.memory(),
        }
    }

    /// Bytes of what is not in the log: tables, directories, inner nodes. O(1).
    #[inline]
    pub fn table_bytes(&self) -> usize {
        match self {
            Collection::List(c) => c.table_bytes(),
            Collection::Hash(e) | Collection::Set(e) => e.table_bytes(),
            Collection::Zset(z) => z.table_bytes(),
        }
    }

    /// Figures of the elements' index; a list has none.
    pub fn table_stats(&self) -> Option<TableStats> {
        match self {
            Collection::List(_) => None,
            Collection::Hash(e) | Collection::Set(e) => Some(e.table_stats()),
            Collection::Zset(z) => Some(z.table_stats()),
        }
    }

    /// Moves the object that reclaim has come to, with all that leads to it; false if this collection does not have it.
    pub fn relocate(&mut self, hands: &mut WriteCtx<'_>, head: &ObjectHead<'_>) -> bool {
        match self {
            Collection::List(c) => c.relocate(hands, head),
            Collection::Hash(e) | Collection::Set(e) => e.relocate(hands, head),
            Collection::Zset(z) => z.relocate(hands, head),
        }
    }

    /// Kills about `objects` of the collection's objects, which no key leads to any more; true when none is left.
    pub fn free_step(&mut self, hands: &mut WriteCtx<'_>, objects: usize) -> bool {
        match self {
            Collection::List(c) => c.free_step(hands, objects),
            Collection::Hash(e) | Collection::Set(e) => e.free_step(hands, objects),
            Collection::Zset(z) => z.free_step(hands, objects),
        }
    }

    /// The elements, where there are any.
    #[inline]
    pub fn elements(&self) -> Option<&FieldTable> {
        match self {
            Collection::Hash(e) | Collection::Set(e) => Some(e),
            Collection::Zset(z) => Some(z.elements()),
            Collection::List(_) => None,
        }
    }

    /// Gives back some of the memory of tables whose objects are gone; true when none is left. Nothing else is to be asked
    /// of the body from then on.
    pub fn shed_step(&mut self) -> bool {
        match self {
            Collection::List(c) => c.shed_step(),
            Collection::Hash(e) | Collection::Set(e) => e.shed_step(),
            Collection::Zset(z) => z.shed_step(),
        }
    }

    /// True if a table is on its way to another size, or should be, or nodes that were cut off are left.
    #[inline]
    pub fn wants_step(&self) -> bool {
        match self {
            Collection::List(c) => c.wants_step(),
            Collection::Hash(e) | Collection::Set(e) => e.wants_step(),
            Collection::Zset(z) => z.wants_step(),
        }
    }

    /// Moves a table on by about so many buckets, or kills so many nodes that were cut off.
    pub fn step(&mut self, hands: &mut WriteCtx<'_>, buckets: usize) {
        match self {
            Collection::List(c) => c.step(hands, buckets),
            Collection::Hash(e) | Collection::Set(e) => e.step(hands, buckets),
            Collection::Zset(z) => z.step(hands, buckets),
        }
    }

    /// The same elements as objects of another slot. The access is that of this collection's shard.
    pub fn copy(&self, from: &Access, log: &Log, appender: &mut Appender, seed: u64, slot: u32) -> Collection {
        match self {
            Collection::List(c) => Collection::List(c.copy(from, log, appender, slot)),
            Collection::Hash(e) => Collection::Hash(e.copy(from, log, appender, seed, slot)),
            Collection::Set(e) => Collection::Set(e.copy(from, log, appender, seed, slot)),
            Collection::Zset(z) => Collection::Zset(Box::new(z.copy(from, log, appender, seed, slot))),
        }
    }

    /// Checks everything and adds every live object's Ref. O(N).
    pub fn verify(&self, log: &Log, access: &Access, seed: u64, slot: u32, live: &mut HashSet<Ref>) {
        match self {
            Collection::List(c) => c.verify(log, access, slot, live),
            Collection::Hash(e) | Collection::Set(e) => e.verify(log, access, seed, slot, live),
            Collection::Zset(z) => z.verify(log, access, seed, slot, live),
        }
    }
}
