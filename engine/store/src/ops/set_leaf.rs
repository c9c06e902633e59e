//! Small sets whose members are not all integers: one packed leaf in the key's object.
//!
//! A set of integers becomes a leaf with its first member that is none, as long as it fits: Redis 7.0.15 has no small form
//! for sets of text, so such a set is outgrown from the first. A leaf becomes a big set when it would have more bytes
//! than an outgrown set may have.

use varve_collection::Collection;
use varve_collection::leaf_table::LeafTable;
use varve_packed::Full;
use varve_packed::leaf::{PackedLeaf, PackedLeafMut, leaf_bytes};
use varve_packed::node::PackedEntry;

use super::Tx;
use super::sets::find_member;
use super::writable::{Writable, sum_up_to};
use crate::state::key::Key;
use crate::state::link::Encoding;
use crate::state::small::{here, leaf_tag, members_of};
use crate::state::types::Type;

/// Bytes of an empty leaf.
const EMPTY_BYTES: usize = leaf_bytes(0, 0, 0);

/// Bytes of a leaf of these members; `None` if they are more than `most`.
fn bytes_of<'m>(members: impl Iterator<Item = &'m [u8]>, most: usize) -> Option<usize> {
    let (mut count, mut bytes, mut longest) = (0, 0, 0);
    for member in members {
        (count, bytes, longest) = (count + 1, bytes + member.len(), longest.max(member.len()));
        if leaf_bytes(count, bytes, longest) > most {
            return None;
        }
    }
    Some(leaf_bytes(count, bytes, longest))
}

/// Adds a member to a leaf unless it is there; whether it was added.
///
/// # Errors
/// If there is no room for it: the bytes that would be enough.
fn add_member(leaf: &mut PackedLeafMut<'_>, seed: u64, member: &[u8]) -> Result<bool, Full> {
    if find_member(leaf.leaf(), seed, member).is_some() {
        return Ok(false);
    }
    leaf.push(leaf_tag(seed, member), &[member]).map(|()| true)
}

impl Tx<'_> {
    /// Makes an empty set with room for these members, as far as they lie in a leaf.
    pub(super) fn new_leaf<'m>(&mut self, k: &Key<'_>, members: impl Iterator<Item = &'m [u8]>) -> Writable {
        let Some(bytes) = bytes_of(members, self.bytes_max(Type::Set, true)) else {
            return self.put_big(k, None, Type::Set, |_| Collection::Set(LeafTable::members()));
        };
        self.with_scratch(bytes, |tx, scratch| {
            PackedLeafMut::init(scratch).expect("there is room for a head");
            tx.put_small(k, None, Type::Set, Encoding::Outgrown, scratch)
        })
    }

    /// Adds a member to a set in a leaf, which may become a big one for that; whether it is new. The members of `ahead`
    /// will come next.
    #[inline]
    pub(super) fn add_to_leaf<'m>(
        &mut self,
        k: &Key<'_>,
        w: &mut Writable,
        member: &[u8],
        ahead: &(impl Iterator<Item = &'m [u8]> + Clone),
    ) -> bool {
        let (seed, most) = (self.store.seed(), self.bytes_max(Type::Set, true));
        let ahead =
            || sum_up_to(most, ahead.clone().map(|member| leaf_bytes(1, member.len(), member.len()) - EMPTY_BYTES));
        match self.edit_leaf(k, w, most, ahead, |leaf| add_member(leaf, seed, member)) {
            Ok(is_new) => is_new,
            Err(_) => {
                self.leave_leaf(k, w);
                self.change_big(w, |collection, ctx| collection.set_mut().add(ctx, member))
            }
        }
    }

    /// Turns a set in a leaf into a big one.
    #[cold]
    fn leave_leaf(&mut self, k: &Key<'_>, w: &mut Writable) {
        self.make_big(k, w, |ctx, old| {
            let mut table = LeafTable::members();
            for member in members_of(PackedLeaf::open(old)) {
                table.add(ctx, member);
            }
            Collection::Set(table)
        });
    }

    /// Turns a set of integers into a leaf; false, and nothing is done, if it has too many bytes for one.
    pub(super) fn integers_to_leaf(&mut self, k: &Key<'_>, w: &mut Writable) -> bool {
        let mut leaf = LeafBuild::new(self.store.seed(), self.bytes_max(Type::Set, true));
        if !self.integers(w).iter().all(|value| leaf.add(PackedEntry::Int(value).text(&mut [0; 20]))) {
            return false;
        }
        self.make_small(k, w, Encoding::Outgrown, &leaf.finish());
        true
    }

    /// Removes members from a set in a leaf: how many there were, and how many are left.
    pub(super) fn remove_from_leaf<'m>(
        &mut self,
        w: &Writable,
        members: impl Iterator<Item = &'m [u8]>,
    ) -> (usize, usize) {
        let seed = self.store.seed();
        self.change_leaf(w, |leaf| {
            let mut removed = 0;
            for member in members {
                if let Some(pos) = find_member(leaf.leaf(), seed, member) {
                    leaf.remove(pos);
                    removed += 1;
                }
            }
            (removed, leaf.leaf().len())
        })
    }

    /// Takes one member out at random, unless it is the last, and shows it. Gives how many are left.
    pub(super) fn pop_from_leaf(&mut self, w: &Writable, show: &mut impl FnMut(PackedEntry<'_>)) -> usize {
        let len = self.leaf(w).len();
        let at = self.local.rng().below(len as u64) as usize;
        show(PackedEntry::Bytes(here(self.leaf(w).nth(at))));
        if len > 1 {
            self.change_leaf(w, |leaf| leaf.remove(leaf.leaf().pos(at)));
        }
        len - 1
    }

    /// Removes the members of these numbers from a set in a leaf.
    pub(super) fn remove_numbers_from_leaf(&mut self, w: &Writable, mut numbers: Vec<u64>) {
        numbers.sort_unstable();
        self.change_leaf(w, |leaf| {
            numbers.iter().rev().for_each(|&at| leaf.remove(leaf.leaf().pos(at as usize)));
        });
    }
}

/// A leaf in the making, which is no key's yet.
pub(super) struct LeafBuild {
    seed: u64,
    most: usize,
    bytes: Vec<u8>,
}

impl LeafBuild {
    /// A leaf without members, which may have `most` bytes.
    pub(super) fn new(seed: u64, most: usize) -> LeafBuild {
        let mut bytes = vec![0; EMPTY_BYTES];
        PackedLeafMut::init(&mut bytes).expect("there is room for a head");
        LeafBuild { seed, most, bytes }
    }

    /// Adds a member, which may be there already. False, and nothing is done, if the leaf may not have as many bytes.
    pub(super) fn add(&mut self, member: &[u8]) -> bool {
        while let Err(Full { needed }) = add_member(&mut PackedLeafMut::open(&mut self.bytes), self.seed, member) {
            if needed > self.most {
                return false;
            }
            let mut larger = vec![0; needed * 2];
            self.leaf().copy_into(&mut larger).expect("a larger buffer");
            self.bytes = larger;
        }
        true
    }

    /// The leaf.
    pub(super) fn leaf(&self) -> PackedLeaf<'_> {
        PackedLeaf::open(&self.bytes)
    }

    /// The bytes of the leaf without free room.
    pub(super) fn finish(self) -> Vec<u8> {
        let mut exact = vec![0; self.leaf().copied_bytes()];
        self.leaf().copy_into(&mut exact).expect("it has the bytes that it asked for");
        exact
    }
}
