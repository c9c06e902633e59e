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
use super::writable::{Writable, leaf_bytes_of, sum_up_to, with_room};
use crate::keyspace::store::Store;
use crate::state::key::Key;
use crate::state::link::Encoding;
use crate::state::small::{SmallSet, here, leaf_tag};
use crate::state::types::Type;

/// Bytes of an empty leaf.
const EMPTY_BYTES: usize = leaf_bytes(0, 0, 0);

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
        let Ok(bytes) = leaf_bytes_of(members.map(<[u8]>::len), self.bytes_max(Type::Set, true)) else {
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
                self.leave_small(k, w);
                self.change_big(w, |collection, ctx| collection.set_mut().add(ctx, member))
            }
        }
    }

    /// Turns a small set into a big one.
    #[cold]
    fn leave_small(&mut self, k: &Key<'_>, w: &mut Writable) {
        let is_leaf = self.is_outgrown(w);
        self.make_big(k, w, |ctx, old| {
            let mut table = LeafTable::members();
            SmallSet::open(old, is_leaf).members().for_each(|member| {
                table.add(ctx, member.text(&mut [0; 20]));
            });
            Collection::Set(table)
        });
    }

    /// Turns a set of integers into a leaf, or into a big set if it has too many bytes for one.
    #[cold]
    pub(super) fn leave_integers(&mut self, k: &Key<'_>, w: &mut Writable) {
        let mut leaf = LeafBuild::new(self.store);
        let fits = SmallSet::Integers(self.integers(w)).members().all(|member| leaf.add(member.text(&mut [0; 20])));
        if fits { self.make_small(k, w, Encoding::Outgrown, &leaf.finish()) } else { self.leave_small(k, w) }
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
    /// A leaf without members, which may have as many bytes as that of a key.
    pub(super) fn new(store: &Store) -> LeafBuild {
        let mut bytes = vec![0; EMPTY_BYTES];
        PackedLeafMut::init(&mut bytes).expect("there is room for a head");
        LeafBuild { seed: store.seed(), most: store.shapes().small(Type::Set).outgrown_bytes(), bytes }
    }

    /// Adds a member, which may be there already. False, and nothing is done, if the leaf may not have as many bytes.
    pub(super) fn add(&mut self, member: &[u8]) -> bool {
        while let Err(Full { needed }) = add_member(&mut PackedLeafMut::open(&mut self.bytes), self.seed, member) {
            let Some(bytes) = with_room(needed, self.most, || needed) else { return false };
            let mut larger = vec![0; bytes];
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

#[cfg(test)]
mod tests {
    use super::*;

    /// A leaf that a STORE command made could have twice the bytes that one may have which grows by SADD.
    #[test]
    fn issue_12_a_leaf_that_is_built_keeps_to_its_limit() {
        const MOST: usize = 8 << 10;
        for member_bytes in 8..60 {
            let mut bytes = vec![0; EMPTY_BYTES];
            PackedLeafMut::init(&mut bytes).expect("room for a head");
            let mut leaf = LeafBuild { seed: 1, most: MOST, bytes };
            let added = (0..MOST).take_while(|n| leaf.add(format!("{n:0member_bytes$}").as_bytes())).count();
            let built = leaf.finish().len();
            assert_eq!(built, leaf_bytes(added, added * member_bytes, member_bytes));
            assert!(
                built <= MOST && built + member_bytes + 2 > MOST,
                "{built} bytes of {added} members of {member_bytes}"
            );
        }
    }
}
