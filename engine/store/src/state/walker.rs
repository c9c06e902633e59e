//! A walker: what sees each object before it changes. A snapshot is one, and so is a reader that takes long.
//!
//! Not here: the calls (`keyspace/door.rs`).

use varve_collection::list::{CompressScratch, End, QuicklistReader};
use varve_collection::zset;
use varve_collection::{Collection, ReadCtx};
use varve_packed::node::{Node, PackedEntry};
use varve_segment::Object;

use super::key::database_of;
use super::small::Small;
use super::types::{SmallForm, Type};

/// Sees each object before it changes. Called with the object's shard held: it may take locks that are leaves, and waits
/// for nothing.
pub trait Walker: Send + Sync {
    /// The object is about to change or to be removed. Its bytes, and its elements, are as they were.
    fn before(&self, old: &Before<'_>);

    /// Every database is about to be emptied at once.
    fn before_all(&self);
}

/// A part of a value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ValuePart<'a> {
    /// A string.
    Whole(&'a [u8]),
    /// An element of a list, a member of a set.
    Element(&'a [u8]),
    /// A field of a hash and its value.
    Pair(&'a [u8], &'a [u8]),
    /// A member of a sorted set and its score.
    Scored(&'a [u8], f64),
}

/// An object that is about to change.
pub struct Before<'a> {
    object: Object<'a>,
    collection: Option<&'a Collection>,
    ctx: ReadCtx<'a>,
}

impl std::fmt::Debug for Before<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Before").field("db", &self.db()).finish_non_exhaustive()
    }
}

impl<'a> Before<'a> {
    /// The object, with its elements if they are a big collection.
    pub(crate) fn new(object: Object<'a>, collection: Option<&'a Collection>, ctx: ReadCtx<'a>) -> Before<'a> {
        Before { object, collection, ctx }
    }

    /// The physical number of the key's database.
    pub fn db(&self) -> u16 {
        database_of(&self.object)
    }

    /// The key.
    pub fn key(&self) -> &[u8] {
        self.object.key()
    }

    /// The type of its value.
    pub fn ty(&self) -> Type {
        Type::of_kind(self.object.kind())
    }

    /// The key's expiry in milliseconds of Unix time.
    pub fn expiry_ms(&self) -> Option<i64> {
        self.object.expiry_ms()
    }

    /// Shows the value: a string whole, a list from front to back, other collections in no order.
    pub fn for_each(&self, show: &mut dyn FnMut(ValuePart<'_>)) {
        match (self.collection, Small::of(&self.object)) {
            (Some(collection), _) => self.for_each_of(collection, show),
            (None, None) => show(ValuePart::Whole(self.object.value())),
            (None, Some(Small::Packed(node))) => self.for_each_packed(node, show),
            (None, Some(Small::Integers(integers))) => {
                integers.iter().for_each(|n| show(ValuePart::Element(PackedEntry::Int(n).text(&mut [0; 20]))));
            }
        }
    }

    fn for_each_packed(&self, node: Node<'_>, show: &mut dyn FnMut(ValuePart<'_>)) {
        if self.ty() == Type::Zset {
            return zset::packed::for_each(node, |member, score| show(ValuePart::Scored(member, score)));
        }
        let mut entries = node.iter();
        while let Some(entry) = entries.next() {
            let value = if self.ty().row().small == SmallForm::Pairs { entries.next() } else { None };
            match value {
                Some(value) => show(ValuePart::Pair(entry.text(&mut [0; 20]), value.text(&mut [0; 20]))),
                None => show(ValuePart::Element(entry.text(&mut [0; 20]))),
            }
        }
    }

    fn for_each_of(&self, collection: &Collection, show: &mut dyn FnMut(ValuePart<'_>)) {
        let ctx = self.ctx;
        match collection {
            Collection::List(list) => {
                let mut reader = QuicklistReader { list, ctx, scratch: &mut CompressScratch::default() };
                reader.range(0, list.len(), End::Front, |entry| show(ValuePart::Element(entry.text(&mut [0; 20]))));
            }
            Collection::Hash(fields) => fields.for_each(ctx, |field, value| show(ValuePart::Pair(field, value))),
            Collection::Set(members) => members.for_each(ctx, |member, _| show(ValuePart::Element(member))),
            Collection::Zset(set) => {
                set.walk(ctx, 0, false, set.len() as u64, |member, score| show(ValuePart::Scored(member, score)));
            }
        }
    }
}
