//! The types: one table, from which everything that depends on a type alone follows.
//!
//! ```text
//! row of a type     kind of its key objects (1 to 7: the log knows the number, not the meaning)
//!                   name for TYPE, names of its encodings for OBJECT ENCODING
//!                   form of its small value, limits at which a small value is told as a big one
//!                   bytes up to which one beyond these limits still is one object
//! ```
//! A row makes the variant of [`Type`]: there is no type without a row. Not here: the operations of a type (`ops`), its
//! big form (`varve_collection`).

use std::ops::{Index, IndexMut};

use varve_packed::node::Grow;
use varve_segment::ObjectKind;

/// The row of a type.
pub(crate) struct TypeRow {
    /// The name that TYPE answers.
    name: &'static str,
    /// The names that OBJECT ENCODING answers for a small value and for a big one, as Redis 7.0.15 has them. A string's
    /// name follows from its bytes.
    pub(crate) encodings: (&'static str, &'static str),
    /// The form of a small value.
    pub(crate) small: SmallForm,
    /// The limits of a small value that hold until settings say otherwise.
    pub(crate) limits: SmallLimits,
    /// Most bytes of a value beyond these limits in the key's own object.
    pub(crate) outgrown_bytes_max: usize,
}

/// The form of a type's small value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SmallForm {
    /// The value is bytes of the client.
    Plain,
    /// A packed node, one entry an element.
    Entries,
    /// The facts of a stream, and a node of its entries.
    Stream,
    /// A leaf of members in the order of their scores.
    Scored,
    /// A packed leaf of fields and values.
    Fields,
    /// A set of integers; a packed leaf of members if it is outgrown.
    Members,
}

/// The limits of a small value. A value beyond one of them is told as a big one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SmallLimits {
    /// Most elements.
    pub entries: u64,
    /// Most bytes of an element's field, value or member.
    pub value_bytes: u64,
}

impl SmallLimits {
    /// For types that have other limits, or none.
    const UNUSED: SmallLimits = SmallLimits { entries: 0, value_bytes: 0 };
}

macro_rules! types {
    ($($ty:ident = $kind:literal, $row:expr;)*) => {
        /// The type of a key's value. Its number is that of the kind of its key objects.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u8)]
        #[allow(missing_docs, reason = "the names say it")]
        pub enum Type { $($ty = $kind,)* }

        impl Type {
            /// All types, in the order of their numbers.
            pub const ALL: [Type; [$($kind),*].len()] = [$(Type::$ty),*];

            /// The row of a type.
            #[inline]
            pub(crate) const fn row(self) -> &'static TypeRow {
                match self { $(Type::$ty => &$row,)* }
            }

            /// The kind of a type's key objects.
            #[inline(always)]
            pub(crate) const fn kind(self) -> ObjectKind {
                match self { $(Type::$ty => const { ObjectKind::key($kind) },)* }
            }
        }
    };
}

types! {
    String = 1, TypeRow {
        name: "string",
        encodings: ("", ""),
        small: SmallForm::Plain,
        limits: SmallLimits::UNUSED,
        outgrown_bytes_max: 0,
    };
    // The limits of a list are those of a quicklist's node (`shapes.rs`).
    List = 2, TypeRow {
        name: "list",
        encodings: ("quicklist", "quicklist"),
        small: SmallForm::Entries,
        limits: SmallLimits::UNUSED,
        outgrown_bytes_max: 0,
    };
    Hash = 3, TypeRow {
        name: "hash",
        encodings: ("listpack", "hashtable"),
        small: SmallForm::Fields,
        limits: SmallLimits { entries: 512, value_bytes: 64 },
        outgrown_bytes_max: 8 << 10,
    };
    // A set of integers has no limit of bytes: its members have 8 at most.
    Set = 4, TypeRow {
        name: "set",
        encodings: ("intset", "hashtable"),
        small: SmallForm::Members,
        limits: SmallLimits { entries: 512, value_bytes: 0 },
        outgrown_bytes_max: 8 << 10,
    };
    Zset = 5, TypeRow {
        name: "zset",
        encodings: ("listpack", "skiplist"),
        small: SmallForm::Scored,
        limits: SmallLimits { entries: 128, value_bytes: 64 },
        outgrown_bytes_max: 8 << 10,
    };
    Stream = 6, TypeRow {
        name: "stream",
        encodings: ("stream", "stream"),
        small: SmallForm::Stream,
        limits: SmallLimits::UNUSED,
        outgrown_bytes_max: 0,
    };
}

impl Type {
    /// The name that TYPE answers.
    pub fn name(self) -> &'static str {
        self.row().name
    }

    /// The type of a key object.
    ///
    /// # Panics
    /// If no type has this kind: the index of a shard holds key objects only.
    #[inline]
    pub(crate) fn of_kind(kind: ObjectKind) -> Type {
        Type::ALL.into_iter().find(|ty| ty.kind() == kind).expect("an entry of a shard's index is a key")
    }

    /// The ends at which a small value's node gets free room: lists grow at both, all others at the back.
    #[inline]
    pub(crate) fn grows_at(self) -> Grow {
        if self.row().small == SmallForm::Entries { Grow::Both } else { Grow::Back }
    }
}

/// One value for each type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PerType<T>([T; Type::ALL.len()]);

impl<T> PerType<T> {
    /// The value that `of` gives for each type.
    pub fn new(of: impl FnMut(Type) -> T) -> PerType<T> {
        PerType(Type::ALL.map(of))
    }
}

impl<T> Index<Type> for PerType<T> {
    type Output = T;

    #[inline(always)]
    fn index(&self, ty: Type) -> &T {
        &self.0[ty as usize - 1]
    }
}

impl<T> IndexMut<Type> for PerType<T> {
    fn index_mut(&mut self, ty: Type) -> &mut T {
        &mut self.0[ty as usize - 1]
    }
}

/// The key holds a value of another type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WrongType;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_without_a_gap_and_lead_back() {
        for (at, ty) in Type::ALL.into_iter().enumerate() {
            assert_eq!(ty as usize, at + 1, "{ty:?} is at its place");
            assert!(Type::of_kind(ty.kind()) == ty && ty.kind().is_key());
        }
        let names = PerType::new(Type::name);
        assert_eq!((names[Type::String], names[Type::Stream]), ("string", "stream"));
    }
}
