//! Big collections: what a key object leads to once its value no longer fits one packed node.
//!
//! ```text
//! key object (List, Hash, Set, Zset)             Shard::roots (slab)                   segments
//! +--------------------------------+   place    +--------------------+   Refs    +--------------------+
//! | Packed    a packed node        |  +-------->| Root { slot, body }|---------->| elements, nodes    |
//! | Integers  a set of integers    |  |         +--------------------+           | owner: slot number |
//! | Big       slot u32, place u32 -|--+                   ^                      +--------------------+
//! +--------------------------------+                      | shard, place                   |
//!                                              Slots: slot -> where the root is  <-----------+ reclaim
//! ```
//! A root belongs to the lock of its key's shard. What reclaim comes across carries the slot number, through which the
//! root is found; RENAME to another shard moves the root and rewrites the slot's entry under both locks. A root whose
//! key is gone stays, dying, until the background has killed the last of its objects.
//!
//! | file | what |
//! |---|---|
//! | `slots` | slot numbers: where a root is |
//! | `roots` | the roots of one shard |
//! | `elements` | fields and members under an index of their own |
//! | `list` | nodes in order |
//! | `spine` | the counted tree that lists and sorted sets share |
//! | `zset` | sorted sets: elements, and a tree over them by (score, member) |
//! | `free` | the background's steps: dying roots, tables that want to move |

pub(crate) mod elements;
pub(crate) mod free;
pub(crate) mod list;
pub(crate) mod roots;
pub(crate) mod slots;
pub(crate) mod spine;
pub(crate) mod zset;

use std::collections::HashSet;

use varve_base::Ref;
use varve_index::TableStats;
use varve_segment::{Access, Appender, Class, Form, Head, Log};

use elements::Elements;
use list::Chain;
use zset::Ordered;

/// How a collection's key object holds its value; told by the object's form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Encoding {
    /// The value is a packed node.
    Packed,
    /// The value is a set of integers.
    Integers,
    /// The value says where the root is.
    Big,
}

impl Encoding {
    #[inline]
    pub(crate) fn of(form: Form) -> Encoding {
        match form {
            Form::Auto | Form::Own => Encoding::Packed,
            Form::Plain => Encoding::Integers,
            Form::Raw => Encoding::Big,
        }
    }

    #[inline]
    pub(crate) fn form(self) -> Form {
        match self {
            Encoding::Packed => Form::Auto,
            Encoding::Integers => Form::Plain,
            Encoding::Big => Form::Raw,
        }
    }
}

/// The value of a big collection's key object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Link {
    /// Slot number.
    pub(crate) slot: u32,
    /// Place among the roots of the key's shard.
    pub(crate) place: u32,
}

impl Link {
    #[inline]
    pub(crate) fn read(value: &[u8]) -> Link {
        let word = |at: usize| u32::from_le_bytes(value[at..at + 4].try_into().expect("four bytes"));
        Link { slot: word(0), place: word(4) }
    }

    pub(crate) fn bytes(self) -> [u8; 8] {
        let mut bytes = [0; 8];
        bytes[..4].copy_from_slice(&self.slot.to_le_bytes());
        bytes[4..].copy_from_slice(&self.place.to_le_bytes());
        bytes
    }
}

/// What an operation that changes a big collection works with. Its shard is locked: the access is that shard's.
pub(crate) struct Hands<'a> {
    pub(crate) log: &'a Log,
    pub(crate) access: &'a mut Access,
    pub(crate) appender: &'a mut Appender,
    /// Seed of the hash of elements.
    pub(crate) seed: u64,
    /// The collection's slot number: the owner of all its objects.
    pub(crate) slot: u32,
}

impl Hands<'_> {
    /// Moves an object out of reclaim's way; gives its new place.
    pub(crate) fn relocate(&mut self, r: Ref) -> Ref {
        self.appender.relocate(self.log, self.access, r, Class::Survivor)
    }
}

/// A big collection.
pub(crate) struct Root {
    pub(crate) slot: u32,
    /// Its key is gone: the background kills what it still has.
    pub(crate) dying: bool,
    /// It waits for the background already, to have its tables moved on.
    pub(crate) restless: bool,
    /// Bytes of tables that the store's sum already has.
    pub(crate) reported: usize,
    pub(crate) body: Body,
}

impl Root {
    /// Bytes of the root and its tables, as the store's sum has them.
    #[inline]
    pub(crate) fn held_bytes(&self) -> usize {
        self.body.table_bytes() + size_of::<Root>()
    }
}

/// What a big collection consists of.
pub(crate) enum Body {
    List(Chain),
    Hash(Elements),
    Set(Elements),
    Zset(Box<Ordered>),
}

impl Body {
    /// Bytes of the collection's objects in the log and of its tables. O(1).
    pub(crate) fn memory(&self) -> usize {
        match self {
            Body::List(c) => c.object_bytes() as usize + c.table_bytes(),
            Body::Hash(e) | Body::Set(e) => e.object_bytes() as usize + e.table_bytes(),
            Body::Zset(z) => z.memory(),
        }
    }

    /// Bytes of what is not in the log: tables, directories, inner nodes. O(1).
    #[inline]
    pub(crate) fn table_bytes(&self) -> usize {
        match self {
            Body::List(c) => c.table_bytes(),
            Body::Hash(e) | Body::Set(e) => e.table_bytes(),
            Body::Zset(z) => z.table_bytes(),
        }
    }

    /// Figures of the elements' index; a list has none.
    pub(crate) fn table_stats(&self) -> Option<TableStats> {
        match self {
            Body::List(_) => None,
            Body::Hash(e) | Body::Set(e) => Some(e.table_stats()),
            Body::Zset(z) => Some(z.table_stats()),
        }
    }

    /// Moves the object that reclaim has come to, with all that leads to it; false if this collection does not have it.
    pub(crate) fn relocate(&mut self, hands: &mut Hands<'_>, head: &Head<'_>) -> bool {
        match self {
            Body::List(c) => c.relocate(hands, head),
            Body::Hash(e) | Body::Set(e) => e.relocate(hands, head),
            Body::Zset(z) => z.relocate(hands, head),
        }
    }

    /// Kills about `objects` of the collection's objects, which no key leads to any more; true when none is left.
    pub(crate) fn free_step(&mut self, hands: &mut Hands<'_>, objects: usize) -> bool {
        match self {
            Body::List(c) => c.free_step(hands, objects),
            Body::Hash(e) | Body::Set(e) => e.free_step(hands, objects),
            Body::Zset(z) => z.free_step(hands, objects),
        }
    }

    /// The elements, where there are any.
    #[inline]
    pub(crate) fn elements(&self) -> Option<&Elements> {
        match self {
            Body::Hash(e) | Body::Set(e) => Some(e),
            Body::Zset(z) => Some(z.elements()),
            Body::List(_) => None,
        }
    }

    /// Gives back some of the memory of tables whose objects are gone; true when none is left. Nothing else is to be asked
    /// of the body from then on.
    pub(crate) fn shed_step(&mut self) -> bool {
        match self {
            Body::List(c) => c.shed_step(),
            Body::Hash(e) | Body::Set(e) => e.shed_step(),
            Body::Zset(z) => z.shed_step(),
        }
    }

    /// True if a table is on its way to another size, or should be, or nodes that were cut off are left.
    #[inline]
    pub(crate) fn wants_step(&self) -> bool {
        match self {
            Body::List(c) => c.wants_step(),
            Body::Hash(e) | Body::Set(e) => e.wants_step(),
            Body::Zset(z) => z.wants_step(),
        }
    }

    /// Moves a table on by about so many buckets, or kills so many nodes that were cut off.
    pub(crate) fn step(&mut self, hands: &mut Hands<'_>, buckets: usize) {
        match self {
            Body::List(c) => c.step(hands, buckets),
            Body::Hash(e) | Body::Set(e) => e.step(hands, buckets),
            Body::Zset(z) => z.step(hands, buckets),
        }
    }

    /// The same elements as objects of another slot. The access is that of this collection's shard.
    pub(crate) fn copy(&self, from: &Access, log: &Log, appender: &mut Appender, seed: u64, slot: u32) -> Body {
        match self {
            Body::List(c) => Body::List(c.copy(from, log, appender, slot)),
            Body::Hash(e) => Body::Hash(e.copy(from, log, appender, seed, slot)),
            Body::Set(e) => Body::Set(e.copy(from, log, appender, seed, slot)),
            Body::Zset(z) => Body::Zset(Box::new(z.copy(from, log, appender, seed, slot))),
        }
    }

    /// Checks everything and adds every live object's Ref. O(N).
    pub(crate) fn verify(&self, log: &Log, access: &Access, seed: u64, slot: u32, live: &mut HashSet<Ref>) {
        match self {
            Body::List(c) => c.verify(log, access, slot, live),
            Body::Hash(e) | Body::Set(e) => e.verify(log, access, seed, slot, live),
            Body::Zset(z) => z.verify(log, access, seed, slot, live),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Encoding, Link};

    #[test]
    fn links_and_encodings_read_back() {
        let link = Link { slot: 0x0102_0304, place: u32::MAX - 1 };
        assert_eq!(Link::read(&link.bytes()), link);
        for encoding in [Encoding::Packed, Encoding::Integers, Encoding::Big] {
            assert_eq!(Encoding::of(encoding.form()), encoding);
        }
    }
}
