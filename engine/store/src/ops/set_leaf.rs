//! Small sets whose members are not all integers: one packed leaf in the key's object.
//!
//! A leaf becomes a big set with a member over [`MEMBER_MAX`] bytes, or when it would be longer than a leaf of a big set
//! may be. A set of integers becomes a leaf with its first member that is none, as long as it fits.

use varve_collection::Collection;
use varve_collection::leaf_table::{ELEMENT_MAX as MEMBER_MAX, LeafTable, limit};
use varve_packed::Full;
use varve_packed::leaf::{LeafElement, PackedLeaf, PackedLeafMut, leaf_bytes};
use varve_packed::node::PackedEntry;

use super::Tx;
use super::sets::{find_member, member_tag};
use super::writable::Writable;
use crate::state::key::Key;
use crate::state::link::Encoding;
use crate::state::types::Type;

/// Bytes of an empty leaf.
const EMPTY_BYTES: usize = 4;

/// Bytes of a leaf of these members; `None` if they are a big set.
pub(super) fn leaf_of<'m>(members: impl Iterator<Item = &'m [u8]>) -> Option<usize> {
    let (mut count, mut bytes, mut longest) = (0, 0, 0);
    for member in members {
        (count, bytes, longest) = (count + 1, bytes + member.len(), longest.max(member.len()));
        if longest > MEMBER_MAX || leaf_bytes(count, bytes, longest) > limit(count, bytes) {
            return None;
        }
    }
    Some(leaf_bytes(count, bytes, longest))
}

/// Adds a member to a leaf unless it is there; whether it was added.
///
/// # Errors
/// If there is no room for it: the bytes that would be enough.
pub(super) fn add_member(leaf: &mut PackedLeafMut<'_>, seed: u64, member: &[u8]) -> Result<bool, Full> {
    if find_member(leaf.leaf(), seed, member).is_some() {
        return Ok(false);
    }
    leaf.push(member_tag(seed, member), &[member]).map(|()| true)
}

/// True if a leaf may need this number of bytes for one more member.
pub(super) fn may_need(leaf: PackedLeaf<'_>, member: &[u8], needed: usize) -> bool {
    needed <= limit(leaf.len() + 1, leaf.bytes() + member.len())
}

impl Tx<'_> {
    /// True for a set in a leaf.
    #[inline]
    pub(super) fn is_leaf(&self, w: &Writable) -> bool {
        Encoding::of(self.object_at(w.opened().at).tag()) == Encoding::Leaf
    }

    /// The leaf of a small set.
    fn leaf(&self, w: &Writable) -> PackedLeaf<'_> {
        debug_assert!(self.is_leaf(w), "a set in a leaf");
        PackedLeaf::open(self.object_at(w.opened().at).value())
    }

    /// Whether a leaf may have such a member.
    pub(super) fn leaf_takes(&self, member: &[u8]) -> bool {
        member.len() <= MEMBER_MAX
    }

    /// Makes an empty set with room for these members, as far as they are a small set.
    pub(super) fn new_leaf<'m>(&mut self, k: &Key<'_>, members: impl Iterator<Item = &'m [u8]>) -> Writable {
        let Some(bytes) = leaf_of(members) else {
            return self.put_big(k, None, Type::Set, |_| Collection::Set(LeafTable::members()));
        };
        self.with_scratch(bytes, |tx, scratch| {
            PackedLeafMut::init(scratch).expect("there is room for a head");
            tx.put_small(k, None, Type::Set, Encoding::Leaf, scratch)
        })
    }

    /// Adds a member to a set in a leaf, which may become a big one for that; whether it is new.
    pub(super) fn add_to_leaf(&mut self, k: &Key<'_>, w: &mut Writable, member: &[u8]) -> bool {
        let seed = self.store.seed();
        loop {
            let Full { needed } = match self.change_leaf(w, |leaf| add_member(leaf, seed, member)) {
                Ok(is_new) => return is_new,
                Err(full) => full,
            };
            if !may_need(self.leaf(w), member, needed) {
                self.leave_leaf(k, w);
                return self.change_big(w, |collection, ctx| collection.set_mut().add(ctx, member));
            }
            self.resize(k, w, needed + needed / 4);
        }
    }

    /// Turns a set in a leaf into a big one.
    #[cold]
    pub(super) fn leave_leaf(&mut self, k: &Key<'_>, w: &mut Writable) {
        self.make_big(k, w, |ctx, old| {
            let mut table = LeafTable::members();
            for member in members_of(PackedLeaf::open(old)) {
                table.add(ctx, member);
            }
            Collection::Set(table)
        });
    }

    /// Turns a set of integers into a leaf; false, and nothing is done, if it is too long for one.
    pub(super) fn integers_to_leaf(&mut self, k: &Key<'_>, w: &mut Writable) -> bool {
        let seed = self.store.seed();
        let texts: Vec<Vec<u8>> =
            self.integers(w).iter().map(|n| PackedEntry::Int(n).text(&mut [0; 20]).to_vec()).collect();
        let Some(bytes) = leaf_of(texts.iter().map(Vec::as_slice)) else { return false };
        self.with_scratch(bytes, |tx, scratch| {
            let mut leaf = PackedLeafMut::init(scratch).expect("there is room for a head");
            for text in &texts {
                add_member(&mut leaf, seed, text).expect("the leaf has room for all of them");
            }
            tx.make_small(k, w, Encoding::Leaf, scratch);
        });
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
        let at = self.local.rng().below(len as u64);
        if let LeafElement::Here(member) = self.leaf(w).nth(at as usize) {
            show(PackedEntry::Bytes(member));
        }
        if len > 1 {
            self.remove_numbers_from_leaf(w, vec![at]);
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

    fn change_leaf<R>(&mut self, w: &Writable, change: impl FnOnce(&mut PackedLeafMut<'_>) -> R) -> R {
        debug_assert!(self.is_leaf(w), "a set in a leaf");
        let mut object = self.open_value_mut(w);
        change(&mut PackedLeafMut::open(object.value_mut()))
    }
}

/// A leaf in the making, which is no key's yet.
pub(super) struct LeafBuild {
    seed: u64,
    bytes: Vec<u8>,
}

impl LeafBuild {
    /// A leaf without members.
    pub(super) fn new(seed: u64) -> LeafBuild {
        let mut bytes = vec![0; EMPTY_BYTES];
        PackedLeafMut::init(&mut bytes).expect("there is room for a head");
        LeafBuild { seed, bytes }
    }

    /// Adds a member, which may be there already. False, and nothing is done, if the set becomes a big one with it.
    pub(super) fn add(&mut self, member: &[u8]) -> bool {
        if member.len() > MEMBER_MAX {
            return false;
        }
        while let Err(Full { needed }) = add_member(&mut PackedLeafMut::open(&mut self.bytes), self.seed, member) {
            if !may_need(PackedLeaf::open(&self.bytes), member, needed) {
                return false;
            }
            let mut larger = vec![0; needed + needed / 4];
            PackedLeaf::open(&self.bytes).copy_into(&mut larger).expect("a larger buffer");
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

/// The members of a small set's leaf.
pub(super) fn members_of<'a>(leaf: PackedLeaf<'a>) -> impl Iterator<Item = &'a [u8]> {
    leaf.iter().map(|(_, element)| match element {
        LeafElement::Here(member) => member,
        LeafElement::Elsewhere(_) => unreachable!("a small set has all members in its key's object"),
    })
}
