//! The value of a small collection: a packed node, a set of integers or a packed leaf, each the whole buffer, free room
//! included.

use varve_packed::intset::IntSet;
use varve_packed::leaf::PackedLeaf;
use varve_packed::node::{Grow, Node};
use varve_segment::Object;

use super::link::Encoding;
use super::types::{SmallForm, Type};

/// The value of a small collection.
#[derive(Clone, Copy)]
pub(crate) enum Small<'a> {
    /// Lists, hashes, sorted sets.
    Packed(Node<'a>),
    /// Sets of nothing but integers.
    Integers(IntSet<'a>),
    /// Sets that have other members too.
    Leaf(PackedLeaf<'a>),
}

impl<'a> Small<'a> {
    /// The value of a key's object; `None` for a string and for a big collection.
    pub(crate) fn of(object: &Object<'a>) -> Option<Small<'a>> {
        if object.kind() == Type::String.kind() {
            return None;
        }
        match Encoding::of(object.tag()) {
            Encoding::Packed => Some(Small::Packed(Node::open(object.value()))),
            Encoding::Integers => Some(Small::Integers(IntSet::open(object.value()))),
            Encoding::Leaf => Some(Small::Leaf(PackedLeaf::open(object.value()))),
            Encoding::Big => None,
        }
    }

    /// Its encoding.
    pub(crate) fn encoding(&self) -> Encoding {
        match self {
            Small::Packed(_) => Encoding::Packed,
            Small::Integers(_) => Encoding::Integers,
            Small::Leaf(_) => Encoding::Leaf,
        }
    }

    /// Entries, integers or members.
    pub(crate) fn len(&self) -> usize {
        match self {
            Small::Packed(node) => node.len(),
            Small::Integers(set) => set.len(),
            Small::Leaf(leaf) => leaf.len(),
        }
    }

    /// Bytes of a copy without free room.
    pub(crate) fn copied_bytes(&self) -> usize {
        match self {
            Small::Packed(node) => node.needed_bytes(0),
            Small::Integers(set) => set.copied_bytes(),
            Small::Leaf(leaf) => leaf.copied_bytes(),
        }
    }

    /// Writes a copy into `out`, which has at least [`Small::copied_bytes`] bytes; what is over is free room. A node gets
    /// that room where `grow` says.
    pub(crate) fn copy_into(&self, out: &mut [u8], grow: Grow) {
        debug_assert!(out.len() >= self.copied_bytes(), "{} bytes for a copy of {}", out.len(), self.copied_bytes());
        let copied = match self {
            Small::Packed(node) => node.copy_into(out, grow),
            Small::Integers(set) => set.copy_into(out),
            Small::Leaf(leaf) => leaf.copy_into(out),
        };
        copied.expect("the copy has the bytes that it asked for");
    }

    /// Checks the bytes against the form that the type's small values have. No small collection is empty. O(N).
    pub(crate) fn verify(&self, form: SmallForm) {
        let whole = match (self, form) {
            (Small::Packed(node), SmallForm::Entries | SmallForm::Pairs) => {
                node.verify();
                form == SmallForm::Entries || node.len().is_multiple_of(2)
            }
            (Small::Integers(set), SmallForm::Members) => {
                set.verify();
                true
            }
            (Small::Leaf(leaf), SmallForm::Members) => {
                leaf.verify();
                true
            }
            _ => panic!("{:?} in a value of {form:?}", self.encoding()),
        };
        assert!(self.len() > 0 && whole, "{} entries of {form:?}", self.len());
    }
}
