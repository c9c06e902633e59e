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
    if value.ty() != Type::String {
        to.count(value.len());
    }
    value.for_each(&mut |part| match part {
        ValuePart::Whole(text) | ValuePart::Element(text) => to.string(text),
        ValuePart::Pair(field, value) => to.pair(field, value),
        ValuePart::Scored(member, score) => to.scored(member, score),
    });
}
