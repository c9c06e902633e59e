//! From the store's values to RDB's.

use varve_rdb::format::{MESSAGE_NAMES, TooOld};
use varve_rdb::{Kind, LastUse, Listpack, Payload, RdbBuffer};
use varve_store::{Before, StreamNode, Type, ValuePart};

use super::idempotence;
use super::outline::{self, pair};

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

/// Begins the entry of a key: the names of a stream's messages, its expiry, its last use, the type of its value, its name.
pub fn begin_entry(value: &Before<'_>, last_use: Option<LastUse>, to: &mut RdbBuffer) {
    if let Some(kept) = value.stream().as_ref().and_then(|stream| stream.idempotence()) {
        to.aux(MESSAGE_NAMES, &idempotence::bytes_of(kept, None, usize::MAX).0);
    }
    begin_long_entry(value, last_use, to);
}

/// Begins the entry of a key but for the names of a stream's messages: these stand before it
/// ([`OutlineEncoder::put_names`](super::OutlineEncoder::put_names)).
pub fn begin_long_entry(value: &Before<'_>, last_use: Option<LastUse>, to: &mut RdbBuffer) {
    match value.fields_due_ms() {
        Some(_) => to.begin_dated_hash(value.key(), value.expiry_ms(), last_use),
        None => to.begin(kind_of(value.ty()), value.key(), value.expiry_ms(), last_use),
    }
}

/// Begins the payload of a value, in the version that is pinned, if one is.
///
/// # Errors
/// That version has no place for it.
pub(super) fn begin_payload(value: &Before<'_>, pinned: Option<u16>) -> Result<Payload, TooOld> {
    let is_dated = value.fields_due_ms().is_some();
    if is_dated { Payload::dated_hash() } else { Payload::new(kind_of(value.ty())) }.pin(pinned)
}

/// Appends a value as it stands behind its type and key: the number of its elements, and these.
pub fn put_value(value: &Before<'_>, to: &mut RdbBuffer) {
    put_count(value, to);
    let least_ms = value.fields_due_ms();
    value.for_each(&mut |part| put_part(part, least_ms, to));
}

/// Appends the entries of a stream.
pub(super) fn put_entries(value: &Before<'_>, to: &mut RdbBuffer) {
    value.for_each(&mut |part| {
        if matches!(part, ValuePart::Entries(_)) {
            put_part(part, None, to);
        }
    });
}

/// Appends the number of parts of a value, which stands before them: of a stream its nodes. A string has none.
pub fn put_count(value: &Before<'_>, to: &mut RdbBuffer) {
    if let Some(stream) = value.stream() {
        to.count(stream.nodes as u64);
    } else if let Some(least_ms) = value.fields_due_ms() {
        to.count_dated(least_ms, value.len());
    } else if value.ty() != Type::String {
        to.count(value.len());
    }
}

/// Appends a part of a value; of a hash with fields that expire, `least_ms` is what [`Before::fields_due_ms`] was.
pub fn put_part(part: ValuePart<'_>, least_ms: Option<i64>, to: &mut RdbBuffer) {
    match part {
        ValuePart::Whole(text) | ValuePart::Element(text) => to.string(text),
        ValuePart::Pair(field, value, expiry_ms) => match least_ms {
            Some(least_ms) => to.dated_pair(least_ms, expiry_ms, field, value),
            None => to.pair(field, value),
        },
        ValuePart::Scored(member, score) => to.scored(member, score),
        ValuePart::Entries(node) => to.entries(pair(node.first()), &listpack_of(node)),
        ValuePart::Facts(facts) => outline::put_facts(facts, to),
        ValuePart::Groups(groups) => groups.iter().for_each(|(name, group)| outline::put_group(name, group, to)),
    }
}

/// The mark of an entry that has the node's master fields.
const SAME_FIELDS: i64 = 2;

/// A node as redis-server has it.
fn listpack_of(node: StreamNode<'_>) -> Listpack {
    let (mut to, first) = (Listpack::default(), node.first());
    to.integer(node.len() as i64);
    // Entries that were removed are not in it.
    to.integer(0);
    to.integer(node.master().len() as i64);
    node.master().for_each(|name| to.text(name));
    to.integer(0);
    node.for_each(|entry| {
        let (are_master, count) = (entry.fields.are_master(), entry.fields.len() as i64);
        to.integer(if are_master { SAME_FIELDS } else { 0 });
        to.integer(entry.id.ms.wrapping_sub(first.ms) as i64);
        to.integer(entry.id.seq.wrapping_sub(first.seq) as i64);
        if !are_master {
            to.integer(count);
        }
        for (name, value) in entry.fields {
            if !are_master {
                to.text(name);
            }
            to.text(value);
        }
        to.integer(if are_master { count + 3 } else { 2 * count + 4 });
    });
    to
}
