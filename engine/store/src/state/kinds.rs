//! The meaning of the bits that the log keeps for its owner: kinds of key objects are types, tags of strings are forms.
//!
//! The kinds of parts of collections are in `varve_collection`, the tags of collections in `link::Encoding`.

use varve_segment::{ObjectKind, ObjectTag};

use super::types::Type;

pub(crate) const STRING: ObjectKind = ObjectKind::key(1);
pub(crate) const LIST: ObjectKind = ObjectKind::key(2);
pub(crate) const HASH: ObjectKind = ObjectKind::key(3);
pub(crate) const SET: ObjectKind = ObjectKind::key(4);
pub(crate) const ZSET: ObjectKind = ObjectKind::key(5);
pub(crate) const STREAM: ObjectKind = ObjectKind::key(6);

/// The type of a key object.
#[inline]
pub(crate) fn type_of_kind(kind: ObjectKind) -> Type {
    match kind {
        STRING => Type::String,
        LIST => Type::List,
        HASH => Type::Hash,
        SET => Type::Set,
        ZSET => Type::Zset,
        STREAM => Type::Stream,
        _ => unreachable!("the index of a shard holds key objects only"),
    }
}

/// The kind of a type's key objects.
#[inline]
pub(crate) fn kind_of(ty: Type) -> ObjectKind {
    match ty {
        Type::String => STRING,
        Type::List => LIST,
        Type::Hash => HASH,
        Type::Set => SET,
        Type::Zset => ZSET,
        Type::Stream => STREAM,
    }
}

/// How a string was made, which OBJECT ENCODING reports: the tag of a string's object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StringForm {
    /// From a client: an integer if it reads as one, else by its length.
    #[default]
    Auto,
    /// Never an integer, by its length.
    Plain,
    /// Changed in place.
    Raw,
    /// A copy: an integer if it reads as one, the key's own and never a shared one, else by its length.
    Own,
}

impl StringForm {
    /// The form that a string's tag means.
    #[inline]
    pub(crate) fn of(tag: ObjectTag) -> StringForm {
        match tag.bits() {
            0 => StringForm::Auto,
            1 => StringForm::Plain,
            2 => StringForm::Raw,
            _ => StringForm::Own,
        }
    }

    /// The tag of a string's object.
    #[inline]
    pub(crate) const fn tag(self) -> ObjectTag {
        match self {
            StringForm::Auto => ObjectTag::new(0),
            StringForm::Plain => ObjectTag::new(1),
            StringForm::Raw => ObjectTag::new(2),
            StringForm::Own => ObjectTag::new(3),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_and_back() {
        for ty in [Type::String, Type::List, Type::Hash, Type::Set, Type::Zset, Type::Stream] {
            assert!(type_of_kind(kind_of(ty)) == ty && kind_of(ty).is_key());
        }
        for form in [StringForm::Auto, StringForm::Plain, StringForm::Raw, StringForm::Own] {
            assert_eq!(StringForm::of(form.tag()), form);
        }
        assert_eq!(StringForm::default().tag(), ObjectTag::default());
    }
}
