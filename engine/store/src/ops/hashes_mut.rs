//! Hashes to change: fields set, added to and removed.
//!
//! A small hash is outgrown when it is written to and has more fields than `hash-max-listpack-entries`, or is given a field
//! or value of more than `hash-max-listpack-value` bytes. It becomes a big one with more bytes than its encoding may have in
//! the key's object. Neither goes back.

use smallvec::SmallVec;
use varve_base::number::{Extended, parse_i64};
use varve_collection::Collection;
use varve_collection::leaf_table::LeafTable;
use varve_packed::Full;
use varve_packed::leaf::pair::{self, LeafField, pair_size};
use varve_packed::leaf::{LEAF_ELEMENT_BYTES_MAX, PackedLeaf, PackedLeafMut, leaf_bytes};
use varve_packed::node::PackedEntry;

use super::Tx;
use super::hashes::{HashView, find_coded, find_field};
use super::writable::{REWRITTEN_AT_ONCE, Writable, leaf_bytes_of, sum_up_to};
use crate::state::key::Key;
use crate::state::link::Encoding;
use crate::state::shapes::SMALL_BYTES_MAX;
use crate::state::small::{here, leaf_tag};
use crate::state::types::{Type, WrongType};

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
        hash.set_kept(field, PackedEntry::Int(sum).text(&mut [0; 20]));
        Ok(sum)
    }

    /// Adds to the number in a field, 0 without the field; appends the sum's text to `text`. Gives when the field expires,
    /// which stays as it was.
    ///
    /// # Errors
    /// [`AddError`]; then nothing has changed.
    pub fn hash_add_float(
        &mut self,
        k: &Key<'_>,
        field: &[u8],
        by: Extended,
        text: &mut Vec<u8>,
    ) -> Result<Option<i64>, AddError> {
        let hash = self.hash_mut(k)?;
        let old = hash.get(field, |old| old.map_or(Some(Extended::ZERO), Extended::parse));
        let sum = old.ok_or(AddError::NoNumber)? + by;
        if !sum.is_finite() {
            return Err(AddError::Overflow);
        }
        let start = text.len();
        sum.push_human(text);
        Ok(hash.set_kept(field, &text[start..]))
    }

    /// Removes fields; gives the number of those that were there. The key goes with its last field.
    ///
    /// # Errors
    /// [`WrongType`] if the key holds another type.
    pub fn hash_remove<'f>(&mut self, k: &Key<'_>, fields: impl Iterator<Item = &'f [u8]>) -> Result<usize, WrongType> {
        Ok(self.hash_mut(k)?.remove(fields))
    }

    /// Shows the value of a field, and then removes the field if it is to be taken; no hit or miss is counted.
    ///
    /// # Errors
    /// [`WrongType`] if the key holds another type; then nothing is shown.
    pub fn hash_take_or_get(
        &mut self,
        k: &Key<'_>,
        field: &[u8],
        takes: bool,
        show: impl FnOnce(Option<&[u8]>),
    ) -> Result<(), WrongType> {
        if !takes {
            match self.hash_peek(k)? {
                Some(hash) => hash.get(field, show),
                None => show(None),
            }
            return Ok(());
        }
        let hash = self.hash_mut(k)?;
        let mut is_there = false;
        hash.get(field, |value| {
            is_there = value.is_some();
            show(value);
        });
        if is_there {
            hash.remove(std::iter::once(field));
        }
        Ok(())
    }

    /// Sets fields in order, each a field and its value; each goes on to expire when it would have.
    ///
    /// # Errors
    /// [`WrongType`] if the key holds another type.
    pub fn hash_set_kept<'p>(
        &mut self,
        k: &Key<'_>,
        mut pairs: impl Iterator<Item = (&'p [u8], &'p [u8])> + Clone,
    ) -> Result<(), WrongType> {
        let is_dated = self.open_mut(k, Type::Hash)?.is_some_and(|w| {
            HashView::open(&self.held, self.store, w.opened()).has_dates() || !w.is_big() && self.is_dated(&w)
        });
        if !is_dated {
            self.hash_set(k, pairs)?;
            return Ok(());
        }
        loop {
            let mut some = SmallVec::<[_; REWRITTEN_AT_ONCE]>::new();
            for (field, value) in pairs.by_ref().take(REWRITTEN_AT_ONCE) {
                some.push((field, value, self.hash_expiry(k, field)?.flatten()));
            }
            if some.is_empty() {
                return Ok(());
            }
            if !self.set_kept_at_once(k, &some)? {
                for pair in some {
                    self.hash_set_dated(k, std::iter::once(pair))?;
                }
            }
        }
    }
}

impl HashViewMut<'_, '_> {
    fn get<R>(&self, field: &[u8], show: impl FnOnce(Option<&[u8]>) -> R) -> R {
        match &self.w {
            Some(w) => HashView::open(&self.tx.held, self.tx.store, w.opened()).get(field, show),
            None => show(None),
        }
    }

    /// Sets a field, whose expiry stays as it is; gives that.
    fn set_kept(self, field: &[u8], value: &[u8]) -> Option<i64> {
        let HashViewMut { tx, w, .. } = &self;
        let fields = w.as_ref().map(|w| HashView::open(&tx.held, tx.store, w.opened()));
        match fields {
            Some(fields) if fields.has_dates() || w.as_ref().is_some_and(|w| !w.is_big() && tx.is_dated(w)) => {
                let kept = fields.expiry_ms(field).flatten();
                let HashViewMut { tx, k, .. } = self;
                let set = tx.hash_set_dated(k, std::iter::once((field, value, kept)));
                debug_assert!(set.is_ok(), "the key was opened as a hash");
                kept
            }
            _ => {
                self.set(std::iter::once((field, value)));
                None
            }
        }
    }

    /// Sets pairs; gives the number of new fields.
    #[inline]
    fn set<'p>(self, pairs: impl Iterator<Item = (&'p [u8], &'p [u8])> + Clone) -> usize {
        match self.w {
            Some(ref w) if w.is_big() => set_big(self.tx, self.k, w, pairs),
            Some(ref w) if self.tx.is_dated(w) => self.set_dated(pairs),
            _ => self.set_small(pairs),
        }
    }

    /// Sets pairs in a hash in its key's object that has fields which expire: those that are set do not.
    #[cold]
    fn set_dated<'p>(self, pairs: impl Iterator<Item = (&'p [u8], &'p [u8])>) -> usize {
        let set = self.tx.hash_set_dated(self.k, pairs.map(|(field, value)| (field, value, None)));
        set.expect("the key was opened as a hash")
    }

    /// Sets pairs in a hash that is small, or not there yet, and may become big on the way.
    fn set_small<'p>(self, mut pairs: impl Iterator<Item = (&'p [u8], &'p [u8])> + Clone) -> usize {
        let HashViewMut { tx, k, w } = self;
        let shape = tx.store.shapes().small(Type::Hash);
        let (entries_max, value_max) = (shape.entries(), shape.value_bytes());
        if pairs.clone().next().is_none() {
            return 0;
        }
        let fits = pairs.clone().all(|(field, value)| field.len().max(value.len()) as u64 <= value_max);
        let mut w = match w {
            Some(w) => w,
            None if fits => new_hash(tx, k, false, pairs.clone().take(entries_max.clamp(1, ROOM_PAIRS_MAX) as usize)),
            None => new_hash(tx, k, true, pairs.clone()),
        };
        let mut is_outgrown = !w.is_big() && tx.is_outgrown(&w);
        if !fits && !w.is_big() && !is_outgrown {
            outgrow(tx, k, &mut w);
            is_outgrown = true;
        }
        let mut new = 0;
        while !w.is_big()
            && let Some((field, value)) = pairs.next()
        {
            new += usize::from(set_in_leaf(tx, k, &mut w, (field, value), is_outgrown, &pairs));
            if !is_outgrown && !w.is_big() && tx.leaf(&w).len() as u64 > entries_max {
                outgrow(tx, k, &mut w);
                is_outgrown = true;
            }
        }
        if w.is_big() {
            new += tx.change_big(&w, |collection, ctx| collection.hash_mut().set_all(ctx, pairs));
        }
        tx.wrote(k);
        new
    }

    /// Removes fields, and the key with the last one; gives the number of those that were there.
    fn remove<'f>(self, fields: impl Iterator<Item = &'f [u8]>) -> usize {
        let HashViewMut { tx, k, w } = self;
        let Some(mut w) = w else { return 0 };
        if !w.is_big() && tx.is_dated(&w) {
            return remove_dated(tx, k, w, fields);
        }
        let (removed, left) = if w.is_big() {
            tx.change_big(&w, |collection, ctx| {
                let table = collection.hash_mut();
                (fields.filter(|field| table.remove(ctx, field)).count(), table.len())
            })
        } else {
            let seed = tx.store.seed();
            tx.change_leaf(&w, |leaf| {
                (fields.filter(|field| remove_in_leaf(leaf, seed, field)).count(), leaf.leaf().len())
            })
        };
        if left == 0 {
            tx.remove_opened(k, &w);
        } else if removed > 0 {
            tx.wrote(k);
            tx.shrink(k, &mut w);
        }
        removed
    }
}

/// Sets pairs in a big hash; gives the number of new fields.
#[inline]
fn set_big<'p>(
    tx: &mut Tx<'_>,
    k: &Key<'_>,
    w: &Writable,
    pairs: impl Iterator<Item = (&'p [u8], &'p [u8])> + Clone,
) -> usize {
    let new = tx.change_big(w, |collection, ctx| collection.hash_mut().set_all(ctx, pairs));
    tx.wrote(k);
    new
}

/// Makes an empty hash with room for these pairs, as far as they lie in its key's object; a big one if it is outgrown and
/// they are too many for that.
fn new_hash<'p>(
    tx: &mut Tx<'_>,
    k: &Key<'_>,
    is_outgrown: bool,
    pairs: impl Iterator<Item = (&'p [u8], &'p [u8])>,
) -> Writable {
    let most = tx.bytes_max(Type::Hash, is_outgrown);
    let room = match leaf_bytes_of(pairs.map(|(field, value)| pair_bytes(field, value)), most) {
        Err(_) if is_outgrown => {
            return tx.put_big(k, None, Type::Hash, |_| Collection::Hash(LeafTable::fields()));
        }
        Ok(room) | Err(room) => room,
    };
    let encoding = if is_outgrown { Encoding::Outgrown } else { Encoding::Small };
    tx.with_scratch(room, |tx, scratch| {
        PackedLeafMut::init(scratch).expect("there is room for a head");
        tx.put_small(k, None, Type::Hash, encoding, scratch)
    })
}

/// Bytes of a pair's element; of one that no leaf may have, more than any leaf may have.
fn pair_bytes(field: &[u8], value: &[u8]) -> usize {
    if field.len() > LEAF_ELEMENT_BYTES_MAX { SMALL_BYTES_MAX } else { pair_size(field, value) }
}

/// Bytes that a pair adds to a leaf.
fn element_bytes(field: &[u8], value: &[u8]) -> usize {
    let size = pair_bytes(field, value);
    leaf_bytes(1, size, size) - leaf_bytes(0, 0, 0)
}

/// Sets a field of a small hash, which becomes a big one if it may not have as many bytes; true if the field is new. The
/// pairs of `ahead` will come next.
#[inline]
fn set_in_leaf<'p>(
    tx: &mut Tx<'_>,
    k: &Key<'_>,
    w: &mut Writable,
    (field, value): (&[u8], &[u8]),
    is_outgrown: bool,
    ahead: &(impl Iterator<Item = (&'p [u8], &'p [u8])> + Clone),
) -> bool {
    let (seed, most) = (tx.store.seed(), tx.bytes_max(Type::Hash, is_outgrown));
    let ahead = || sum_up_to(most, ahead.clone().map(|(field, value)| element_bytes(field, value)));
    match tx.edit_leaf(k, w, most, ahead, |leaf| set_field(leaf, seed, field, value)) {
        Ok(is_new) => is_new,
        Err(_) => {
            spread(tx, k, w);
            tx.change_big(w, |collection, ctx| collection.hash_mut().set(ctx, field, value))
        }
    }
}

/// Sets a field in a leaf; true if it is new.
///
/// # Errors
/// If there is no room: the bytes that would be enough. Nothing is changed then.
#[inline]
fn set_field(leaf: &mut PackedLeafMut<'_>, seed: u64, field: &[u8], value: &[u8]) -> Result<bool, Full> {
    if field.len() > LEAF_ELEMENT_BYTES_MAX {
        return Err(Full { needed: usize::MAX });
    }
    let (coded, tag) = (LeafField::of(field), leaf_tag(seed, field));
    let found = find_coded(leaf.leaf(), tag, &coded);
    coded.with_value(value, |parts| match found {
        Some(pos) => leaf.replace(pos, parts).map(|()| false),
        None => leaf.push(tag, parts).map(|()| true),
    })
}

/// Bytes that a pair with a time adds to a leaf, at most.
pub(super) fn dated_bytes(field: &[u8], value: &[u8]) -> usize {
    element_bytes(field, value).saturating_add(DATED_MORE)
}

/// Bytes that a time and a wide size add to an element.
const DATED_MORE: usize = 8;

/// Sets a field in a leaf, and when it expires, if it does; true if it is new.
///
/// # Errors
/// If there is no room. Nothing is changed then.
pub(super) fn set_dated_field(
    leaf: &mut PackedLeafMut<'_>,
    seed: u64,
    (field, value): (&[u8], &[u8]),
    expiry_ms: Option<i64>,
) -> Result<bool, Full> {
    let Some(expiry_ms) = expiry_ms else { return set_field(leaf, seed, field, value) };
    if field.len() > LEAF_ELEMENT_BYTES_MAX {
        return Err(Full { needed: usize::MAX });
    }
    let (coded, tag) = (LeafField::of(field), leaf_tag(seed, field));
    let found = find_coded(leaf.leaf(), tag, &coded);
    coded.with_expiring(value, expiry_ms, |parts| match found {
        Some(pos) => leaf.replace(pos, parts).map(|()| false),
        None => leaf.push(tag, parts).map(|()| true),
    })
}

/// Removes fields of a hash in its key's object that has fields which expire.
#[cold]
fn remove_dated<'f>(tx: &mut Tx<'_>, k: &Key<'_>, w: Writable, fields: impl Iterator<Item = &'f [u8]>) -> usize {
    let (seed, mut w) = (tx.store.seed(), Some(w));
    let rewritten = tx.rewrite_fields(k, &mut w, (0, usize::MAX), |leaf| {
        let removed = fields.filter(|field| remove_in_leaf(leaf, seed, field)).count();
        (removed > 0).then(|| (removed, leaf.leaf().len()))
    });
    let Some((removed, left)) = rewritten else { return 0 };
    match w {
        Some(w) if left == 0 => tx.remove_opened(k, &w),
        _ => tx.wrote(k),
    }
    removed
}

/// Has a small hash named as a big one from now on, and makes it one if it has too many bytes for the key's object.
#[cold]
fn outgrow(tx: &mut Tx<'_>, k: &Key<'_>, w: &mut Writable) {
    tx.outgrow(w);
    if tx.leaf(w).copied_bytes() > tx.bytes_max(Type::Hash, true) {
        spread(tx, k, w);
    }
}

impl Tx<'_> {
    /// Makes a hash one that may have fields which expire.
    pub(super) fn make_dated(&mut self, k: &Key<'_>, w: &mut Writable) {
        if w.is_big() {
            return;
        }
        spread(self, k, w);
    }
}

/// Makes a small hash a big one.
#[cold]
fn spread(tx: &mut Tx<'_>, k: &Key<'_>, w: &mut Writable) {
    let leaf_bytes = tx.leaf_span(w);
    tx.make_big(k, w, |ctx, old| {
        let mut table = LeafTable::fields();
        for (_, element) in PackedLeaf::open(&old[..leaf_bytes]).iter() {
            let (field, value) = pair::split(here(element));
            let (field_text, value_text) = (&mut [0; 20], &mut [0; 20]);
            let (field, value) = (field.text(field_text), value.text(value_text));
            match pair::expiry_ms(here(element)) {
                Some(expiry_ms) => table.set_expiring(ctx, field, value, expiry_ms),
                None => table.set(ctx, field, value),
            };
        }
        Collection::Hash(table)
    });
}

/// Removes a field from a leaf; true if it was there.
fn remove_in_leaf(leaf: &mut PackedLeafMut<'_>, seed: u64, field: &[u8]) -> bool {
    let found = find_field(leaf.leaf(), seed, field);
    found.is_some_and(|pos| {
        leaf.remove(pos);
        true
    })
}
