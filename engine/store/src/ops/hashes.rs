//! Hashes to read: a view that has resolved type and encoding, and the operations that ask it.
//!
//! ```text
//! small      one packed leaf of pairs in the key's object, in the order in which the fields came
//! big        LeafTable: pairs in packed leaves, in order of the fields' hashes
//! ```
//! Changes of a hash are in `hashes_mut`.

use varve_collection::ReadCtx;
use varve_collection::leaf_table::LeafTable;
use varve_packed::leaf::pair::{self, LeafField};
use varve_packed::leaf::{ElementPos, LEAF_ELEMENT_BYTES_MAX, PackedLeaf};
use varve_packed::node::PackedEntry;

use super::Tx;
use super::draw::{Lot, Pick};
use super::opened::{Opened, big};
use crate::keyspace::guards::ShardGuards;
use crate::keyspace::store::Store;
use crate::state::key::Key;
use crate::state::link::Encoding;
use crate::state::small::{here, leaf_of, leaf_tag, pairs_of, scan_leaf};
use crate::state::types::{Type, WrongType};

/// A hash to read, its shard held.
#[derive(Clone, Copy)]
pub(super) enum HashView<'a> {
    /// A small hash, and the seed of hashes.
    Leaf(PackedLeaf<'a>, u64),
    Big(&'a LeafTable, ReadCtx<'a>),
}

impl<'a> HashView<'a> {
    #[inline(always)]
    pub(super) fn open(held: &'a ShardGuards<'_>, store: &'a Store, opened: Opened) -> HashView<'a> {
        match opened.link {
            Some(link) => {
                let (collection, ctx) = big(held, store, opened.at, link);
                HashView::Big(collection.hash(), ctx)
            }
            None => {
                let object = held.at(opened.at.shard).open(store.log(), opened.at.r);
                HashView::Leaf(leaf_of(&object), store.seed())
            }
        }
    }

    /// Number of fields.
    pub(super) fn len(&self) -> usize {
        match self {
            HashView::Leaf(leaf, _) => leaf.len(),
            HashView::Big(fields, _) => fields.len(),
        }
    }

    /// Shows a field's value.
    #[inline]
    pub(super) fn get<R>(&self, field: &[u8], show: impl FnOnce(Option<&[u8]>) -> R) -> R {
        match *self {
            HashView::Big(fields, ctx) => match fields.get(ctx, field) {
                Some(value) => show(Some(value.text(&mut [0; 20]))),
                None => show(None),
            },
            HashView::Leaf(leaf, seed) => match find_field(leaf, seed, field) {
                Some(pos) => show(Some(pair::split(here(leaf.get(pos))).1.text(&mut [0; 20]))),
                None => show(None),
            },
        }
    }

    /// Whether there is a field of this name.
    pub(super) fn contains(&self, field: &[u8]) -> bool {
        self.get(field, |value| value.is_some())
    }

    /// When a field expires: `None` without the field, `Some(None)` if it does not.
    pub(super) fn expiry_ms(&self, field: &[u8]) -> Option<Option<i64>> {
        match *self {
            HashView::Big(fields, ctx) => fields.expiry_ms(ctx, field),
            HashView::Leaf(leaf, seed) => find_field(leaf, seed, field).map(|pos| pair::expiry_ms(here(leaf.get(pos)))),
        }
    }

    /// Whether fields of a big hash expire.
    pub(super) fn has_dates(&self) -> bool {
        matches!(self, HashView::Big(fields, _) if fields.next_due_ms().is_some())
    }

    /// Shows every field and value.
    fn for_each(&self, mut show: impl FnMut(&[u8], &[u8])) {
        match *self {
            HashView::Leaf(leaf, _) => each_pair(leaf, show),
            HashView::Big(fields, ctx) => fields.for_each(ctx, |field, value, _| {
                show(field.text(&mut [0; 20]), value.text(&mut [0; 20]));
            }),
        }
    }

    pub(super) fn lot(&self) -> Lot<'a> {
        match *self {
            HashView::Leaf(leaf, _) => Lot::Numbers(leaf.len()),
            HashView::Big(fields, ctx) => Lot::Leaves(fields, ctx),
        }
    }

    /// Shows the field and value with an id of [`HashView::lot`].
    pub(super) fn show(&self, id: u64, show: &mut impl FnMut(&[u8], &[u8])) {
        let (field, value) = match *self {
            HashView::Leaf(leaf, _) => pair::split(here(leaf.nth(id as usize))),
            HashView::Big(fields, ctx) => fields.element(ctx, id),
        };
        show(field.text(&mut [0; 20]), value.text(&mut [0; 20]));
    }
}

impl Tx<'_> {
    /// The hash at a key, to read; counts a hit or a miss.
    fn hash_view(&mut self, k: &Key<'_>) -> Result<Option<HashView<'_>>, WrongType> {
        let found = self.open_read(k, Type::Hash)?;
        Ok(found.map(|opened| HashView::open(&self.held, self.store, opened)))
    }

    /// The hash at a key, to read; no hit or miss is counted.
    pub(super) fn hash_peek(&mut self, k: &Key<'_>) -> Result<Option<HashView<'_>>, WrongType> {
        let found = self.open(k, Type::Hash)?;
        Ok(found.map(|opened| HashView::open(&self.held, self.store, opened)))
    }

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
        Ok(match self.open_read_inlined(k, Type::Hash)? {
            Some(opened) => HashView::open(&self.held, self.store, opened).get(field, show),
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
        match self.hash_view(k)? {
            Some(hash) => fields.for_each(|field| hash.get(field, &mut show)),
            None => fields.for_each(|_| show(None)),
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
        Ok(self.hash_view(k)?.map_or(0, |hash| hash.len()))
    }

    /// Number of fields, 0 without the key, and whether it may be so long that it is to be read over several holds
    /// ([`Tx::begin_reading`]). Counts a hit or miss.
    ///
    /// # Errors
    /// [`WrongType`] if the key holds another type.
    pub fn hash_size(&mut self, k: &Key<'_>) -> Result<(usize, bool), WrongType> {
        Ok(self.hash_view(k)?.map_or((0, false), |hash| (hash.len(), matches!(hash, HashView::Big(..)))))
    }

    /// Whether the key is absent or a hash; counts no hit or miss.
    ///
    /// # Errors
    /// [`WrongType`] if the key holds another type.
    pub fn hash_check(&mut self, k: &Key<'_>) -> Result<(), WrongType> {
        self.open(k, Type::Hash).map(|_| ())
    }

    /// Shows all fields and values. No hit or miss is counted.
    ///
    /// # Errors
    /// [`WrongType`] if the key holds another type.
    pub fn hash_for_each(&mut self, k: &Key<'_>, show: impl FnMut(&[u8], &[u8])) -> Result<(), WrongType> {
        if let Some(hash) = self.hash_peek(k)? {
            hash.for_each(show);
        }
        Ok(())
    }

    /// SCAN's step: shows some fields from `cursor` on, about `count`, and gives the next cursor, 0 at the end. A small
    /// hash is shown whole. No hit or miss is counted.
    ///
    /// # Errors
    /// [`WrongType`] if the key holds another type.
    pub fn hash_scan(
        &mut self,
        k: &Key<'_>,
        cursor: u64,
        count: usize,
        mut show: impl FnMut(&[u8], &[u8]),
    ) -> Result<u64, WrongType> {
        let Some(opened) = self.open(k, Type::Hash)? else { return Ok(0) };
        let object = self.held.at(opened.at.shard).open(self.store.log(), opened.at.r);
        let is_outgrown = Encoding::of(object.tag()) != Encoding::Small;
        let mut show = |(field, value): (PackedEntry<'_>, PackedEntry<'_>)| {
            show(field.text(&mut [0; 20]), value.text(&mut [0; 20]));
        };
        Ok(match HashView::open(&self.held, self.store, opened) {
            HashView::Big(fields, ctx) => fields.scan(ctx, cursor, count, &mut |field, value| show((field, value))),
            HashView::Leaf(leaf, seed) if is_outgrown => {
                scan_leaf(leaf, (seed, cursor, count), |pair| pair::split(pair).0, |pair| show(pair::split(pair)))
            }
            HashView::Leaf(leaf, _) => {
                pairs_of(leaf).for_each(show);
                0
            }
        })
    }

    /// Shows fields chosen at random, with their values; none without the key. No hit or miss is counted.
    ///
    /// # Errors
    /// [`WrongType`] if the key holds another type.
    pub fn hash_pick(&mut self, k: &Key<'_>, pick: Pick, mut show: impl FnMut(&[u8], &[u8])) -> Result<(), WrongType> {
        let Some(opened) = self.open(k, Type::Hash)? else { return Ok(()) };
        let hash = HashView::open(&self.held, self.store, opened);
        match pick {
            Pick::Distinct(count) if count >= hash.len() => hash.for_each(show),
            _ => hash.lot().pick(self.local.rng(), pick, |id| hash.show(id, &mut show)),
        }
        Ok(())
    }
}

/// The place of a field in the leaf of a small hash.
#[inline(always)]
pub(super) fn find_field(leaf: PackedLeaf<'_>, seed: u64, field: &[u8]) -> Option<ElementPos> {
    if field.len() > LEAF_ELEMENT_BYTES_MAX {
        return None;
    }
    find_coded(leaf, leaf_tag(seed, field), &LeafField::of(field))
}

/// [`find_field`] for a field that is encoded already, and its tag.
#[inline(always)]
pub(super) fn find_coded(leaf: PackedLeaf<'_>, tag: u8, field: &LeafField<'_>) -> Option<ElementPos> {
    leaf.find(tag, |element| field.is_of(here(element)))
}

/// Shows every field and value of a small hash, in order.
fn each_pair(leaf: PackedLeaf<'_>, mut show: impl FnMut(&[u8], &[u8])) {
    for (field, value) in pairs_of(leaf) {
        show(field.text(&mut [0; 20]), value.text(&mut [0; 20]));
    }
}
