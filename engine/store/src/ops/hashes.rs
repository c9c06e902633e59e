//! Hashes: fields read, set, counted and removed.
//!
//! ```text
//! packed     | field | value | field | value | ...     one node, in the order in which the fields came
//! big        FieldTable: one object a field, found through an index of the hash's own
//! ```
//! A packed hash becomes big when it is written to and has more fields than `hash_entries`, or is given a field or
//! value of more than `hash_value` bytes, or has more than `SMALL_BYTES_MAX` bytes; a big one stays big. Whole hashes and
//! random fields are in `hashes_walk`.

use varve_base::number::{Extended, parse_i64};
use varve_collection::Collection;
use varve_collection::field_table::FieldTable;
use varve_packed::node::{Coded, EntryPos, Grow, Node, NodeMut, PackedEntry};

use super::{Found, Tx};
use crate::state::key::Key;
use crate::state::link::{Encoding, Link};
use crate::state::shapes::SMALL_BYTES_MAX;
use crate::state::types::{Type, WrongType};

/// Entries between a field and the next one.
const STRIDE: usize = 2;
/// Pairs of one command for which a new hash gets room at once, where the limits would let it hold more.
const ROOM_PAIRS_MAX: u64 = 512;

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

impl Tx<'_> {
    /// Shows a field's value, `None` if it is not there. Counts a hit or miss of the key.
    ///
    /// # Errors
    /// [`WrongType`] if the key holds another type.
    #[inline]
    pub fn hash_get<R>(
        &mut self,
        k: &Key<'_>,
        field: &[u8],
        show: impl FnOnce(Option<&[u8]>) -> R,
    ) -> Result<R, WrongType> {
        Ok(match self.look_read(k, Type::Hash)? {
            Some((p, Some(link))) => {
                let (body, ctx) = self.body_at(p, link);
                show(fields_of(body).get(ctx, field))
            }
            Some((p, None)) => show_packed(self.packed(p), field, show),
            None => show(None),
        })
    }

    /// Shows the values of several fields one after the other. Counts a hit or miss of the key.
    ///
    /// # Errors
    /// [`WrongType`] if the key holds another type; then nothing is shown.
    pub fn hash_get_many<'f>(
        &mut self,
        k: &Key<'_>,
        fields: impl Iterator<Item = &'f [u8]>,
        mut show: impl FnMut(Option<&[u8]>),
    ) -> Result<(), WrongType> {
        let place = self.typed_read(k, Type::Hash)?;
        for field in fields {
            match place {
                Some(p) => self.field_at(p, field, &mut show),
                None => show(None),
            }
        }
        Ok(())
    }

    /// Length of a field's value in bytes, `None` if it is not there. Counts a hit or miss of the key.
    ///
    /// # Errors
    /// [`WrongType`] if the key holds another type.
    pub fn hash_value_len(&mut self, k: &Key<'_>, field: &[u8]) -> Result<Option<usize>, WrongType> {
        self.hash_get(k, field, |value| value.map(<[u8]>::len))
    }

    /// Number of fields, 0 without the key. Counts a hit or miss.
    ///
    /// # Errors
    /// [`WrongType`] if the key holds another type.
    pub fn hash_len(&mut self, k: &Key<'_>) -> Result<usize, WrongType> {
        Ok(self.typed_read(k, Type::Hash)?.map_or(0, |p| self.hash_len_at(p)))
    }

    /// Whether the key is absent or a hash; counts no hit or miss.
    ///
    /// # Errors
    /// [`WrongType`] if the key holds another type.
    pub fn hash_check(&mut self, k: &Key<'_>) -> Result<(), WrongType> {
        self.typed(k, Type::Hash).map(|_| ())
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
        Ok(match self.look(k, Type::Hash)? {
            Some((p, Some(link))) => self.set_fields(k, p, link, pairs),
            found => self.set_pairs(k, found.map(|(p, _)| p), pairs),
        })
    }

    /// Sets a field unless it is there; whether it was set.
    ///
    /// # Errors
    /// [`WrongType`] if the key holds another type.
    pub fn hash_set_new(&mut self, k: &Key<'_>, field: &[u8], value: &[u8]) -> Result<bool, WrongType> {
        let place = self.typed(k, Type::Hash)?;
        let free = place.is_none_or(|p| self.field_at(p, field, |old| old.is_none()));
        if free {
            self.set_pairs(k, place, std::iter::once((field, value)));
        }
        Ok(free)
    }

    /// Adds to the integer in a field, 0 without the field; gives the sum.
    ///
    /// # Errors
    /// [`AddError`]; then nothing has changed.
    pub fn hash_add(&mut self, k: &Key<'_>, field: &[u8], by: i64) -> Result<i64, AddError> {
        let place = self.typed(k, Type::Hash)?;
        let number = |old: Option<&[u8]>| old.map_or(Some(0), parse_i64);
        let old = place.map_or(Some(0), |p| self.field_at(p, field, number)).ok_or(AddError::NoNumber)?;
        let sum = old.checked_add(by).ok_or(AddError::Overflow)?;
        let mut text = [0; 20];
        self.set_pairs(k, place, std::iter::once((field, PackedEntry::Int(sum).text(&mut text))));
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
        let place = self.typed(k, Type::Hash)?;
        let number = |old: Option<&[u8]>| old.map_or(Some(Extended::ZERO), Extended::parse);
        let old = place.map_or(Some(Extended::ZERO), |p| self.field_at(p, field, number));
        let sum = old.ok_or(AddError::NoNumber)? + by;
        if !sum.is_finite() {
            return Err(AddError::Overflow);
        }
        let start = text.len();
        sum.push_human(text);
        self.set_pairs(k, place, std::iter::once((field, &text[start..])));
        Ok(())
    }

    /// Removes fields; gives the number of those that were there. The key goes with its last field.
    ///
    /// # Errors
    /// [`WrongType`] if the key holds another type.
    pub fn hash_remove<'f>(&mut self, k: &Key<'_>, fields: impl Iterator<Item = &'f [u8]>) -> Result<usize, WrongType> {
        let Some(mut p) = self.typed(k, Type::Hash)? else { return Ok(0) };
        let (removed, left) = match self.encoding(p) {
            Some(Encoding::Big) => self.big(p, |body, hands| {
                let elements = fields_mut(body);
                (fields.filter(|field| elements.remove(hands, field)).count(), elements.len())
            }),
            _ => self.edit_packed(k, &mut p, 0, |node| {
                (fields.filter(|field| remove_packed(node, field)).count(), node.node().len())
            }),
        };
        if left == 0 {
            // The removal of the key is a change by itself.
            self.changed(k, removed as u64 - 1);
            self.remove_at(k, self.before(p));
        } else if removed > 0 {
            self.changed(k, removed as u64);
        }
        Ok(removed)
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
            match self.typed(k, Type::Hash)? {
                Some(p) => self.field_at(p, field, &mut show),
                None => show(None),
            }
            self.hash_remove(k, std::iter::once(field))?;
        }
        Ok(())
    }

    /// The fields of a hash that is there, without a lookup counted.
    pub(super) fn hash_len_at(&self, p: Found) -> usize {
        match self.encoding(p) {
            Some(Encoding::Big) => self.big_ref(p, |body, _| fields_of(body).len()),
            _ => self.packed(p).len() / STRIDE,
        }
    }

    /// Shows a field's value.
    #[inline]
    fn field_at<R>(&self, p: Found, field: &[u8], show: impl FnOnce(Option<&[u8]>) -> R) -> R {
        if self.encoding(p) == Some(Encoding::Big) {
            return self.big_ref(p, |body, ctx| show(fields_of(body).get(ctx, field)));
        }
        show_packed(self.packed(p), field, show)
    }

    /// Sets pairs in a big hash; gives the number of new fields.
    #[inline]
    fn set_fields<'p>(
        &mut self,
        k: &Key<'_>,
        p: Found,
        link: Link,
        pairs: impl Iterator<Item = (&'p [u8], &'p [u8])>,
    ) -> usize {
        let (new, set) = self.big_at(p, link, |body, hands| {
            let elements = fields_mut(body);
            pairs.fold((0, 0), |(new, set), (field, value)| {
                (new + usize::from(elements.set(hands, field, value)), set + 1)
            })
        });
        if set > 0 {
            self.changed_at(k, p, set);
        }
        new
    }

    /// Sets pairs in the hash at a place, or in a new one; gives the number of new fields.
    fn set_pairs<'p>(
        &mut self,
        k: &Key<'_>,
        place: Option<Found>,
        mut pairs: impl Iterator<Item = (&'p [u8], &'p [u8])> + Clone,
    ) -> usize {
        let entries_max = self.store.shapes().hash_entries();
        let value_max = self.store.shapes().hash_value();
        let fits = |(field, value): (&[u8], &[u8])| field.len().max(value.len()) as u64 <= value_max;
        if pairs.clone().next().is_none() {
            return 0;
        }
        let mut p = match place {
            Some(p) => p,
            None => self.new_hash(k, pairs.clone().take(entries_max.clamp(1, ROOM_PAIRS_MAX) as usize)),
        };
        let mut big = self.encoding(p) == Some(Encoding::Big);
        if !big && !pairs.clone().all(fits) {
            self.spread_hash(k, &mut p);
            big = true;
        }
        let (mut new, mut set) = (0, 0);
        while !big && let Some((field, value)) = pairs.next() {
            new += usize::from(self.set_packed(k, &mut p, field, value));
            set += 1;
            let node = self.packed(p);
            big = node.len() / STRIDE > entries_max as usize || node.bytes() > SMALL_BYTES_MAX;
            if big {
                self.spread_hash(k, &mut p);
            }
        }
        if big {
            self.big(p, |body, hands| {
                let elements = fields_mut(body);
                for (field, value) in pairs {
                    new += usize::from(elements.set(hands, field, value));
                    set += 1;
                }
            });
        }
        self.changed(k, set);
        new
    }

    /// Makes an empty hash with room for these pairs, as far as they stay packed.
    fn new_hash<'p>(&mut self, k: &Key<'_>, pairs: impl Iterator<Item = (&'p [u8], &'p [u8])>) -> Found {
        let value_max = self.store.shapes().hash_value();
        let mut bytes = 0;
        for (field, value) in pairs {
            if field.len().max(value.len()) as u64 > value_max {
                bytes = 0;
                break;
            }
            bytes += Coded::of(field).size() + Coded::of(value).size();
        }
        let mut scratch = self.local.lend_scratch();
        scratch.clear();
        scratch.resize(varve_packed::node::buffer_bytes(bytes.min(SMALL_BYTES_MAX)), 0);
        NodeMut::init(&mut scratch, Grow::Back).expect("an empty node fits");
        let p = self.put_small(k, None, Type::Hash, Encoding::Packed, &scratch);
        self.local.return_scratch(scratch);
        p
    }

    /// Sets a field of a packed hash; true if it is new.
    fn set_packed(&mut self, k: &Key<'_>, p: &mut Found, field: &[u8], value: &[u8]) -> bool {
        let (field, value) = (Coded::of(field), Coded::of(value));
        let node = self.packed(*p);
        let mut more = field.size() + value.size();
        if node.room() < more
            && let Some(spot) = value_spot(node, &field)
        {
            more = value.size().saturating_sub(node.size(spot));
        }
        self.edit_packed(k, p, more, |node| {
            const ROOM: &str = "the node has the room that was asked for";
            let spot = value_spot(node.node(), &field);
            match spot {
                Some(spot) => {
                    node.replace(spot, &value).expect(ROOM);
                }
                None => {
                    node.push_back(&field).expect(ROOM);
                    node.push_back(&value).expect(ROOM);
                }
            }
            spot.is_none()
        })
    }

    /// Makes a packed hash a big one.
    fn spread_hash(&mut self, k: &Key<'_>, p: &mut Found) {
        self.make_big(k, p, |hands, old| {
            let old = Node::open(old);
            let mut elements = FieldTable::new(hands.id, old.len() / STRIDE);
            each_pair(old, |field, value| {
                elements.insert(hands, field, value);
            });
            Collection::Hash(elements)
        });
    }
}

/// Shows a field's value in a packed hash.
#[inline]
fn show_packed<R>(node: Node<'_>, field: &[u8], show: impl FnOnce(Option<&[u8]>) -> R) -> R {
    match value_spot(node, &Coded::of(field)) {
        Some(spot) => show(Some(node.get(spot).text(&mut [0; 20]))),
        None => show(None),
    }
}

/// The place of a field's value in a packed hash.
#[inline]
fn value_spot(node: Node<'_>, field: &Coded<'_>) -> Option<EntryPos> {
    let (spot, _) = node.find(field, node.first()?, STRIDE)?;
    node.next(spot)
}

/// Removes a field of a packed hash; true if it was there.
fn remove_packed(node: &mut NodeMut<'_>, field: &[u8]) -> bool {
    let read = node.node();
    let spot = read.first().and_then(|first| read.find(&Coded::of(field), first, STRIDE));
    if let Some((spot, _)) = spot {
        node.remove_range(spot, STRIDE);
    }
    spot.is_some()
}

/// Shows every field and value of a packed hash, in order.
pub(super) fn each_pair(node: Node<'_>, mut show: impl FnMut(&[u8], &[u8])) {
    let mut entries = node.iter();
    while let (Some(field), Some(value)) = (entries.next(), entries.next()) {
        show(field.text(&mut [0; 20]), value.text(&mut [0; 20]));
    }
}

/// The elements of a big hash.
#[inline]
pub(super) fn fields_of(body: &Collection) -> &FieldTable {
    match body {
        Collection::Hash(elements) => elements,
        _ => unreachable!("the key object says that this is a hash"),
    }
}

#[inline]
fn fields_mut(body: &mut Collection) -> &mut FieldTable {
    match body {
        Collection::Hash(elements) => elements,
        _ => unreachable!("the key object says that this is a hash"),
    }
}
