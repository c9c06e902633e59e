//! The plain data that an object is made from: its kind, owner, tag, segment class and value.
//!
//! The log gives a kind no meaning. It knows three properties of the four bits, and its users name the kinds:
//!
//! ```text
//! bits     0        1 .. 7                      8 .. 14                               15
//!          free     keys: have a database       parts: have a collection, no clock    filler
//!          memory   and an access clock         11, bare: key alone, no value
//! ```
//!
//! This file knows no bytes of objects (`layout`) and no memory.

/// The kind of an object, in four bits. The kinds from 1 to 7 are keys, the kinds from 8 to 14 are parts of collections.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct ObjectKind(u8);

impl ObjectKind {
    /// A part that is its key alone: it has no value, no room and no expiry, and costs five bytes beside its key in a
    /// collection under 65536.
    pub const BARE: ObjectKind = ObjectKind(11);

    /// The last of the key kinds.
    pub(crate) const LAST_KEY: ObjectKind = ObjectKind(7);

    /// Of the four bits, the one that parts have and keys have not.
    pub(crate) const PART_BIT: u8 = 0b1000;

    /// The bits of a filler, which is no object.
    pub(crate) const FILLER_BITS: u8 = 15;

    /// The kind of a key, 1 to 7: it is found by its name in a database, and has an access clock.
    ///
    /// # Panics
    /// If `number` is no such kind.
    pub const fn key(number: u8) -> ObjectKind {
        assert!(number >= 1 && number <= ObjectKind::LAST_KEY.0, "a key's kind is 1 to 7");
        ObjectKind(number)
    }

    /// The kind of a part of a collection, 8 to 14: it has no clock. 11 is [`ObjectKind::BARE`].
    ///
    /// # Panics
    /// If `number` is no such kind.
    pub const fn part(number: u8) -> ObjectKind {
        assert!(number >= ObjectKind::PART_BIT && number < ObjectKind::FILLER_BITS, "a part's kind is 8 to 14");
        ObjectKind(number)
    }

    /// True if the object is found by its name in a database.
    #[inline]
    pub const fn is_key(self) -> bool {
        self.0 <= ObjectKind::LAST_KEY.0
    }

    /// The four bits.
    #[inline]
    pub(crate) const fn bits(self) -> u8 {
        self.0
    }

    /// The kind with these bits; None if they are those of free memory or of a filler.
    #[inline]
    pub(crate) const fn from_bits(bits: u8) -> Option<ObjectKind> {
        debug_assert!(bits <= ObjectKind::FILLER_BITS, "a kind has four bits");
        if bits == 0 || bits >= ObjectKind::FILLER_BITS { None } else { Some(ObjectKind(bits)) }
    }
}

impl std::fmt::Debug for ObjectKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", if self.is_key() { "key" } else { "part" }, self.0)
    }
}

/// The owner of an object, which the object itself states.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Owner {
    /// A key of this physical database; the number 0 costs no bytes. For key kinds only.
    Database(u16),
    /// A part of the collection with this number, which takes two bytes if it is under 65536, else four. For parts only.
    Collection(u32),
}

/// Two bits that the owner of an object keeps in it. They may change in place, and every copy keeps them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct ObjectTag(u8);

impl ObjectTag {
    /// The tag with these bits, 0 to 3.
    ///
    /// # Panics
    /// If `bits` is more than 3.
    #[inline]
    pub const fn new(bits: u8) -> ObjectTag {
        assert!(bits <= 3, "a tag has two bits");
        ObjectTag(bits)
    }

    /// The bits, 0 to 3.
    #[inline]
    pub const fn bits(self) -> u8 {
        self.0
    }
}

/// The segments that an object is appended to: objects that die at like times share segments.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum SegmentClass {
    /// Objects without an expiry.
    #[default]
    Ordinary = 0,
    /// Objects with an expiry.
    Volatile = 1,
    /// Objects that reclaim has moved.
    Survivor = 2,
}

impl SegmentClass {
    /// All of them, in their order.
    pub const ALL: [SegmentClass; 3] = [SegmentClass::Ordinary, SegmentClass::Volatile, SegmentClass::Survivor];
}

/// The bytes of a value that is about to be written.
#[derive(Clone, Copy, Debug)]
pub enum NewValue<'a> {
    /// These.
    Bytes(&'a [u8]),
    /// These, with other ones written over them or behind them.
    Patched {
        /// The bytes that were there before.
        old: &'a [u8],
        /// Where the new bytes go; zeros fill the gap if that is beyond the old ones.
        at: usize,
        /// The new bytes.
        part: &'a [u8],
    },
    /// This many zeros.
    Zeroed(usize),
    /// This many bytes of whatever lies there: their owner records elsewhere which of them mean anything.
    Stale(usize),
}

impl NewValue<'_> {
    /// Bytes in all.
    #[inline]
    #[allow(clippy::len_without_is_empty, reason = "nobody asks")]
    pub fn len(&self) -> usize {
        match self {
            NewValue::Bytes(bytes) => bytes.len(),
            NewValue::Patched { old, at, part } => old.len().max(at + part.len()),
            NewValue::Zeroed(len) | NewValue::Stale(len) => *len,
        }
    }
}

/// An object to append. Key and room together stay under 4 GB.
#[derive(Clone, Copy, Debug)]
pub struct NewObject<'a> {
    /// Its kind.
    pub kind: ObjectKind,
    /// Its owner.
    pub owner: Owner,
    /// Its key; for a node, its number's bytes.
    pub key: &'a [u8],
    /// Its value.
    pub value: NewValue<'a>,
    /// Bytes that the value may grow to in place, at least its length. In an extent it gets more. 0 for a bare part.
    pub room: usize,
    /// When it expires, in ms of Unix time. None for a bare part.
    pub expiry_ms: Option<i64>,
    /// The access clock: the low 24 bits count. Parts have none.
    pub clock: u32,
    /// The owner's two bits.
    pub tag: ObjectTag,
    /// The owner's mark SAVED: see `Object::saved`. An object that takes the place of another one has that one's mark.
    pub saved: bool,
    /// Where to append it.
    pub class: SegmentClass,
}

impl<'a> NewObject<'a> {
    /// An object with no more room than its value needs, without an expiry, with tag 0, not SAVED.
    pub fn new(kind: ObjectKind, owner: Owner, key: &'a [u8], value: &'a [u8]) -> Self {
        NewObject {
            kind,
            owner,
            key,
            value: NewValue::Bytes(value),
            room: value.len(),
            expiry_ms: None,
            clock: 0,
            tag: ObjectTag::default(),
            saved: false,
            class: SegmentClass::Ordinary,
        }
    }
}
