//! The content of a collection's key object: its encoding, and where the root of a big one is.
//!
//! ```text
//! key object (List, Hash, Set, Zset)             Shard::roots (slab)                   segments
//! +--------------------------------+   place    +--------------------+   Refs    +--------------------+
//! | Small     the whole value      |  +-------->| Root { id, body }  |---------->| elements, nodes    |
//! | Outgrown  the whole value      |  |         +--------------------+           | owner: the number  |
//! | Dated     the whole value      |  |                   ^                      +--------------------+
//! | Big       id u32, place u32   -|--+                   |
//! +--------------------------------+                      | shard, place                   |
//!                                    CollectionTable: id -> where the root is  <-----------+ reclaim
//! ```
//! The limits of a small value that clients set decide what OBJECT ENCODING answers, and in which order the elements are
//! shown; bytes decide whether they lie in the key's object (`shapes.rs`). So a value beyond its limits is outgrown: it
//! answers as a big one and never goes back, and lies in the key's object as long as it has few bytes. The form of its
//! bytes follows from the type (`small.rs`).
//!
//! A root belongs to the lock of its key's shard. An object of a big collection carries the number, through which
//! reclaim finds the root; RENAME to another shard moves the root and rewrites the table's entry under both locks. A root
//! whose key is gone stays, dying, until the background has killed the last of its objects.

use varve_collection::{Collection, CollectionId};
use varve_segment::{Object, ObjectTag};

use super::types::Type;

/// How a collection's key object holds its value; the object's tag states it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Encoding {
    /// The value is the whole collection, and has been within the limits of a small one from the first.
    Small,
    /// The value is the whole collection, which is or has been beyond a limit: it is named as a big one.
    Outgrown,
    /// The value is a whole hash with fields that expire; it is named as a big one.
    Dated,
    /// The value says where the root is.
    Big,
}

impl Encoding {
    #[inline]
    pub(crate) fn of(tag: ObjectTag) -> Encoding {
        match tag.bits() {
            0 => Encoding::Small,
            1 => Encoding::Outgrown,
            2 => Encoding::Big,
            _ => Encoding::Dated,
        }
    }

    /// The tag of a collection's key object.
    #[inline]
    pub(crate) const fn tag(self) -> ObjectTag {
        match self {
            Encoding::Small => ObjectTag::new(0),
            Encoding::Outgrown => ObjectTag::new(1),
            Encoding::Big => ObjectTag::new(2),
            Encoding::Dated => ObjectTag::new(3),
        }
    }
}

/// The value of a big collection's key object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Link {
    /// The id of the collection.
    pub(crate) id: CollectionId,
    /// Place among the roots of the key's shard.
    pub(crate) place: u32,
}

impl Link {
    /// Where the root of a key's object is; `None` for a string and for a small collection.
    #[inline]
    pub(crate) fn of(object: &Object<'_>) -> Option<Link> {
        if object.kind() == Type::String.kind() { None } else { Link::of_collection(object) }
    }

    /// Where the root of a collection's object is; `None` for a small collection.
    #[inline(always)]
    pub(crate) fn of_collection(object: &Object<'_>) -> Option<Link> {
        (Encoding::of(object.tag()) == Encoding::Big).then(|| Link::read(object.value()))
    }

    #[inline]
    fn read(value: &[u8]) -> Link {
        let word = |at: usize| u32::from_le_bytes(value[at..at + 4].try_into().expect("four bytes"));
        Link { id: CollectionId::new(word(0)), place: word(4) }
    }

    pub(crate) fn bytes(self) -> [u8; 8] {
        let mut bytes = [0; 8];
        bytes[..4].copy_from_slice(&self.id.number().to_le_bytes());
        bytes[4..].copy_from_slice(&self.place.to_le_bytes());
        bytes
    }
}

/// A big collection.
pub(crate) struct Root {
    pub(crate) id: CollectionId,
    /// Its key is gone: the background kills what it still has.
    pub(crate) dying: bool,
    /// It dies, and the background has come to it while somebody read it: the last reader's end lists it again.
    pub(crate) kept_for_readers: bool,
    /// It is being built, and no key leads to it yet.
    pub(crate) unpublished: bool,
    /// It waits for the background already, to have its tables moved on.
    pub(crate) restless: bool,
    /// A key leads to it, and it has fields that expire.
    pub(crate) dated: bool,
    /// The wheel of its shard has an entry of its key that is not later than this, in milliseconds of Unix time.
    pub(crate) filed_ms: i64,
    /// Bytes of tables that the store's sum already has.
    pub(crate) reported: usize,
    pub(crate) body: Collection,
}

impl Root {
    /// Bytes of the root and its tables, as the store's sum has them.
    #[inline]
    pub(crate) fn held_bytes(&self) -> usize {
        self.body.table_bytes() + size_of::<Root>()
    }

    /// Bytes of the root, its tables and its objects in the log.
    pub(crate) fn memory(&self) -> usize {
        self.body.memory() + size_of::<Root>()
    }
}

#[cfg(test)]
mod tests {
    use super::{CollectionId, Encoding, Link};

    #[test]
    fn links_and_encodings_read_back() {
        let link = Link { id: CollectionId::new(0x0102_0304), place: u32::MAX - 1 };
        assert_eq!(Link::read(&link.bytes()), link);
        for encoding in [Encoding::Small, Encoding::Outgrown, Encoding::Dated, Encoding::Big] {
            assert_eq!(Encoding::of(encoding.tag()), encoding);
        }
    }
}
