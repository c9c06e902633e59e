//! Elements that find no place by the hash of their name.
//!
//! ```text
//!   name --hash64--> leaf that is full and is not to be split
//!        `--places--> another hash, drawn for this name alone ---> another leaf
//! ```
//! Hashes that begin with the same bits share a leaf, and no split parts those that are equal in all bits that the directory
//! looks at. The seed is secret and the hash does not lead back to it, so a client cannot look for such names: a thousand of
//! them are not met by chance. Should they come, each that its leaf does not take is given another hash, under which it
//! lies for as long as the table has it. All else follows hashes, and need not know.
//!
//! Chains of leaves were the other choice: each operation would have to follow them, and drawing and readers would have to
//! count them, for what never comes.

use std::collections::BTreeMap;

use varve_base::hash::{GOLDEN_RATIO, hash64, mix64};
use varve_packed::Full;
use varve_packed::leaf::{LeafElement, PackedLeafMut};

use super::{Found, LeafTable, open, tag};
use crate::{ReadCtx, WriteCtx};

/// Bytes of a name's place in the map, beside those of the name.
const PLACE_BYTES: usize = 48;

/// The hashes by which some elements lie, in place of those of their names.
#[derive(Clone, Default)]
pub(super) struct Crowded {
    places: BTreeMap<Box<[u8]>, u64>,
    /// Bytes of the names and their places.
    bytes: usize,
    /// Number of hashes that were drawn.
    drawn: u64,
}

/// The hash of a name.
#[inline(always)]
fn hash_of_name(seed: u64, name: &[u8]) -> u64 {
    #[cfg(test)]
    if seed == super::tests::EQUAL_HASHES {
        return seed;
    }
    hash64(seed, name)
}

impl LeafTable {
    /// The hash by which the element of a name lies, if there is one.
    #[inline(always)]
    pub(super) fn hash_of(&self, seed: u64, name: &[u8]) -> u64 {
        if self.crowded.is_some()
            && let Some(hash) = self.place_of(name)
        {
            return hash;
        }
        hash_of_name(seed, name)
    }

    /// The hash that was drawn for a name, if one was.
    #[cold]
    #[inline(never)]
    fn place_of(&self, name: &[u8]) -> Option<u64> {
        self.crowded.as_ref().and_then(|crowded| crowded.places.get(name).copied())
    }

    /// The hash by which an element lies.
    pub(super) fn hash_of_element(&self, ctx: ReadCtx<'_>, element: LeafElement<'_>) -> u64 {
        self.form.name(ctx, element, |name| self.hash_of(ctx.seed, name))
    }

    /// Whether each element lies by the hash of its name, so that tables of one seed have equal names at equal hashes.
    #[inline]
    pub fn is_by_name(&self) -> bool {
        self.crowded.is_none()
    }

    /// Bytes of the names that lie by another hash.
    #[inline]
    pub(super) fn crowded_bytes(&self) -> usize {
        self.crowded.as_ref().map_or(0, |crowded| crowded.bytes)
    }

    /// Adds an element with this name and hash, which `push` adds to a leaf under the tag that it is given; `size` is the
    /// number of its bytes there.
    #[inline(always)]
    pub(super) fn put_named(
        &mut self,
        ctx: &mut WriteCtx<'_>,
        (hash, name): (u64, &[u8]),
        size: usize,
        push: impl Fn(&mut PackedLeafMut<'_>, u8) -> Result<(), Full>,
    ) {
        if !self.put(ctx, hash, size, |leaf| push(leaf, tag(hash))) {
            self.put_apart(ctx, name, size, push);
        }
    }

    /// Adds an element by another hash than its name's, whose leaf is full.
    #[cold]
    #[inline(never)]
    fn put_apart(
        &mut self,
        ctx: &mut WriteCtx<'_>,
        name: &[u8],
        size: usize,
        push: impl Fn(&mut PackedLeafMut<'_>, u8) -> Result<(), Full>,
    ) {
        loop {
            let hash = self.draw_place(name);
            if self.put(ctx, hash, size, |leaf| push(leaf, tag(hash))) {
                return;
            }
        }
    }

    /// Gives a name another hash than it has.
    fn draw_place(&mut self, name: &[u8]) -> u64 {
        let crowded = self.crowded.get_or_insert_default();
        crowded.drawn += 1;
        let hash = mix64(crowded.drawn.wrapping_mul(GOLDEN_RATIO));
        if crowded.places.insert(name.into(), hash).is_none() {
            crowded.bytes += name.len() + PLACE_BYTES;
        }
        hash
    }

    /// Forgets the hash of an element that is about to be taken out, unless a reader may have to know it.
    #[cold]
    pub(super) fn forget_place(&mut self, ctx: ReadCtx<'_>, found: Found) {
        let Some(mut crowded) = self.crowded.take() else { return };
        if self.readers.is_none() {
            self.form.name(ctx, open(ctx.log, ctx.access, found.leaf).get(found.pos), |name| {
                if crowded.places.remove(name).is_some() {
                    crowded.bytes -= name.len() + PLACE_BYTES;
                }
            });
        }
        if !crowded.places.is_empty() {
            self.crowded = Some(crowded);
        }
    }
}
