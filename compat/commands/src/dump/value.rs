//! From the store's values to RDB's.

use varve_rdb::{Kind, RdbBuffer};
use varve_store::{Before, Type, ValuePart};

/// The type in an RDB file that a type of the store is.
pub fn kind_of(ty: Type) -> Kind {
    match ty {
        Type::String => Kind::String,
        Type::List => Kind::List,
        Type::Set => Kind::Set,
        Type::Zset => Kind::Zset,
        Type::Hash => Kind::Hash,
        Type::Stream => Kind::Stream,
    }
}

/// Appends a value as it stands behind its type and key: the number of its elements, and these.
pub fn put_value(value: &Before<'_>, to: &mut RdbBuffer) {
    put_count(value, to);
    value.for_each(&mut |part| put_part(part, to));
}

/// Appends the number of parts of a value, which stands before them; a string has none.
pub fn put_count(value: &Before<'_>, to: &mut RdbBuffer) {
    if value.ty() != Type::String {
        to.count(value.len());
    }
}

/// Appends a part of a value.
pub fn put_part(part: ValuePart<'_>, to: &mut RdbBuffer) {
    match part {
        ValuePart::Whole(text) | ValuePart::Element(text) => to.string(text),
        ValuePart::Pair(field, value) => to.pair(field, value),
        ValuePart::Scored(member, score) => to.scored(member, score),
    }
}
