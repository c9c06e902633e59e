//! Hashes to change: fields set, added to and removed.
//!
//! A packed hash becomes big when it is written to and has more fields than `hash-max-listpack-entries`, or is given a field or value of
//! more than `hash-max-listpack-value` bytes, or has more than `SMALL_BYTES_MAX` bytes; a big one stays big.

use varve_base::number::{Extended, parse_i64};
use varve_collection::Collection;
use varve_collection::leaf_table::LeafTable;
use varve_packed::node::{Coded, Grow, Node, NodeMut, PackedEntry, buffer_bytes};

use super::Tx;
use super::hashes::{HashView, STRIDE, each_pair, value_pos};
use super::writable::Writable;
use crate::state::key::Key;
use crate::state::link::Encoding;
use crate::state::shapes::SMALL_BYTES_MAX;
use crate::state::types::{Type, WrongType};

/// Pairs of one command for which a new hash gets room at once, where the limits would let it hold more.
const ROOM_PAIRS_MAX: u64 = 512;
const ROOM: &str = "the node has the room that was asked for";

/// Why nothing was added to a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddError {
    /// The key holds another type.
    WrongType,
    /// The field holds no number.
    NoNumber,
    /// The sum would be out of range, or not finite.
    Overflow,
}

impl From<WrongType> for AddError {
    fn from(_: WrongType) -> AddError {
        AddError::WrongType
    }
}

/// The hash at a key, to change; without one, the first pair that is set makes it.
struct HashViewMut<'t, 's> {
    tx: &'t mut Tx<'s>,
    k: &'t Key<'t>,
    w: Option<Writable>,
}

impl<'s> Tx<'s> {
    fn hash_mut<'t>(&'t mut self, k: &'t Key<'t>) -> Result<HashViewMut<'t, 's>, WrongType> {
        let w = self.open_mut(k, Type::Hash)?;
        Ok(HashViewMut { tx: self, k, w })
    }

    /// Sets fields in order, each a field and its value; gives the number of those that were not there. The key is
    /// created if absent, unless there are no pairs.
    ///
    /// # Errors
    /// [`WrongType`] if the key holds another type.
    pub fn hash_set<'p>(
        &mut self,
        k: &Key<'_>,
        pairs: impl Iterator<Item = (&'p [u8], &'p [u8])> + Clone,
    ) -> Result<usize, WrongType> {
        let w = self.open_mut_inlined(k, Type::Hash)?;
        Ok(HashViewMut { tx: self, k, w }.set(pairs))
    }

    /// Sets a field unless it is there; whether it was set.
    ///
    /// # Errors
    /// [`WrongType`] if the key holds another type.
    pub fn hash_set_new(&mut self, k: &Key<'_>, field: &[u8], value: &[u8]) -> Result<bool, WrongType> {
        let hash = self.hash_mut(k)?;
        let free = hash.get(field, |old| old.is_none());
        if free {
            hash.set(std::iter::once((field, value)));
        }
        Ok(free)
    }

    /// Adds to the integer in a field, 0 without the field; gives the sum.
    ///
    /// # Errors
    /// [`AddError`]; then nothing has changed.
    pub fn hash_add(&mut self, k: &Key<'_>, field: &[u8], by: i64) -> Result<i64, AddError> {
        let hash = self.hash_mut(k)?;
        let old = hash.get(field, |old| old.map_or(Some(0), parse_i64)).ok_or(AddError::NoNumber)?;
        let sum = old.checked_add(by).ok_or(AddError::Overflow)?;
        let mut text = [0; 20];
        hash.set(std::iter::once((field, PackedEntry::Int(sum).text(&mut text))));
        Ok(sum)
    }

    /// Adds to the number in a field, 0 without the field; appends the sum's text to `text`.
    ///
    /// # Errors
    /// [`AddError`]; then nothing has changed.
    pub fn hash_add_float(
        &mut self,
        k: &Key<'_>,
        field: &[u8],
        by: Extended,
        text: &mut Vec<u8>,
    ) -> Result<(), AddError> {
        let hash = self.hash_mut(k)?;
        let old = hash.get(field, |old| old.map_or(Some(Extended::ZERO), Extended::parse));
        let sum = old.ok_or(AddError::NoNumber)? + by;
        if !sum.is_finite() {
            return Err(AddError::Overflow);
        }
        let start = text.len();
        sum.push_human(text);
        hash.set(std::iter::once((field, &text[start..])));
        Ok(())
    }

    /// Removes fields; gives the number of those that were there. The key goes with its last field.
    ///
    /// # Errors
    /// [`WrongType`] if the key holds another type.
    pub fn hash_remove<'f>(&mut self, k: &Key<'_>, fields: impl Iterator<Item = &'f [u8]>) -> Result<usize, WrongType> {
        Ok(self.hash_mut(k)?.remove(fields))
    }

    /// Shows the values of fields and removes these, one after the other; no hit or miss is counted.
    ///
    /// # Errors
    /// [`WrongType`] if the key holds another type; then nothing is shown.
    pub fn hash_take<'f>(
        &mut self,
        k: &Key<'_>,
        fields: impl Iterator<Item = &'f [u8]>,
        mut show: impl FnMut(Option<&[u8]>),
    ) -> Result<(), WrongType> {
        for field in fields {
            let hash = self.hash_mut(k)?;
            hash.get(field, &mut show);
            hash.remove(std::iter::once(field));
        }
        Ok(())
    }
}

impl HashViewMut<'_, '_> {
    fn get<R>(&self, field: &[u8], show: impl FnOnce(Option<&[u8]>) -> R) -> R {
        match &self.w {
            Some(w) => HashView::open(&self.tx.held, self.tx.store, w.opened()).get(field, show),
            None => show(None),
        }
    }

    /// Sets pairs; gives the number of new fields.
    #[inline]
    fn set<'p>(self, pairs: impl Iterator<Item = (&'p [u8], &'p [u8])> + Clone) -> usize {
        match self.w {
            Some(ref w) if w.is_big() => set_big(self.tx, self.k, w, pairs),
            _ => self.set_small(pairs),
        }
    }

    /// Sets pairs in a hash that is packed, or not there yet, and may become big on the way.
    fn set_small<'p>(self, mut pairs: impl Iterator<Item = (&'p [u8], &'p [u8])> + Clone) -> usize {
        let HashViewMut { tx, k, w } = self;
        let entries_max = tx.store.shapes().small(Type::Hash).entries();
        let value_max = tx.store.shapes().small(Type::Hash).value_bytes();
        let fits = |(field, value): (&[u8], &[u8])| field.len().max(value.len()) as u64 <= value_max;
        if pairs.clone().next().is_none() {
            return 0;
        }
        let mut w = match w {
            Some(w) => w,
            None => new_hash(tx, k, pairs.clone().take(entries_max.clamp(1, ROOM_PAIRS_MAX) as usize)),
        };
        if !pairs.clone().all(fits) {
            spread(tx, k, &mut w);
        }
        let mut new = 0;
        while !w.is_big()
            && let Some((field, value)) = pairs.next()
        {
            new += usize::from(set_packed(tx, k, &mut w, field, value));
            let node = tx.packed(&w);
            if node.len() / STRIDE > entries_max as usize || node.bytes() > SMALL_BYTES_MAX {
                spread(tx, k, &mut w);
            }
        }
        if w.is_big() {
            tx.change_big(&w, |collection, ctx| {
                let table = collection.hash_mut();
                for (field, value) in pairs {
                    new += usize::from(table.set(ctx, field, value));
                }
            });
        }
        tx.wrote(k);
        new
    }

    /// Removes fields, and the key with the last one; gives the number of those that were there.
    fn remove<'f>(self, fields: impl Iterator<Item = &'f [u8]>) -> usize {
        let HashViewMut { tx, k, w } = self;
        let Some(mut w) = w else { return 0 };
        let (removed, left) = if w.is_big() {
            tx.change_big(&w, |collection, ctx| {
                let table = collection.hash_mut();
                (fields.filter(|field| table.remove(ctx, field)).count(), table.len())
            })
        } else {
            tx.edit_packed(k, &mut w, 0, |node| {
                (fields.filter(|field| remove_packed(node, field)).count(), node.node().len())
            })
        };
        if left == 0 {
            tx.remove_opened(k, &w);
        } else if removed > 0 {
            tx.wrote(k);
        }
        removed
    }
}

/// Sets pairs in a big hash; gives the number of new fields.
#[inline]
fn set_big<'p>(tx: &mut Tx<'_>, k: &Key<'_>, w: &Writable, pairs: impl Iterator<Item = (&'p [u8], &'p [u8])>) -> usize {
    let new = tx.change_big(w, |collection, ctx| {
        let table = collection.hash_mut();
        pairs.fold(0, |new, (field, value)| new + usize::from(table.set(ctx, field, value)))
    });
    tx.wrote(k);
    new
}

/// Makes an empty hash with room for these pairs, as far as they stay packed.
fn new_hash<'p>(tx: &mut Tx<'_>, k: &Key<'_>, pairs: impl Iterator<Item = (&'p [u8], &'p [u8])>) -> Writable {
    let value_max = tx.store.shapes().small(Type::Hash).value_bytes();
    let mut bytes = 0;
    for (field, value) in pairs {
        if field.len().max(value.len()) as u64 > value_max {
            bytes = 0;
            break;
        }
        bytes += Coded::of(field).size() + Coded::of(value).size();
    }
    tx.with_scratch(buffer_bytes(bytes.min(SMALL_BYTES_MAX)), |tx, scratch| {
        NodeMut::init(scratch, Grow::Back).expect("an empty node fits");
        tx.put_small(k, None, Type::Hash, Encoding::Packed, scratch)
    })
}

/// Sets a field of a packed hash; true if it is new.
fn set_packed(tx: &mut Tx<'_>, k: &Key<'_>, w: &mut Writable, field: &[u8], value: &[u8]) -> bool {
    let (field, value) = (Coded::of(field), Coded::of(value));
    let node = tx.packed(w);
    let mut more = field.size() + value.size();
    if node.room() < more
        && let Some(pos) = value_pos(node, &field)
    {
        more = value.size().saturating_sub(node.size(pos));
    }
    tx.edit_packed(k, w, more, |node| {
        let pos = value_pos(node.node(), &field);
        match pos {
            Some(pos) => {
                node.replace(pos, &value).expect(ROOM);
            }
            None => {
                node.push_back(&field).expect(ROOM);
                node.push_back(&value).expect(ROOM);
            }
        }
        pos.is_none()
    })
}

/// Makes a packed hash a big one.
fn spread(tx: &mut Tx<'_>, k: &Key<'_>, w: &mut Writable) {
    tx.make_big(k, w, |ctx, old| {
        let old = Node::open(old);
        let mut table = LeafTable::fields();
        each_pair(old, |field, value| {
            table.set(ctx, field, value);
        });
        Collection::Hash(table)
    });
}

/// Removes a field of a packed hash; true if it was there.
fn remove_packed(node: &mut NodeMut<'_>, field: &[u8]) -> bool {
    let read = node.node();
    let pos = read.first().and_then(|first| read.find(&Coded::of(field), first, STRIDE));
    if let Some((pos, _)) = pos {
        node.remove_range(pos, STRIDE);
    }
    pos.is_some()
}
