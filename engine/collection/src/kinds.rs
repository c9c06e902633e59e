//! The kinds of objects that big collections consist of, as the log knows them: four bits without a meaning.

use varve_segment::ObjectKind;

/// A member or field of a big collection, found by its key.
pub(crate) const ELEMENT: ObjectKind = ObjectKind::part(8);

/// A leaf of a leaf table.
pub(crate) const LEAF: ObjectKind = ObjectKind::part(10);

/// A part of a collection that is found by its number: a list's node, a tree's leaf.
pub(crate) const NODE: ObjectKind = ObjectKind::part(9);

/// An element that is its key alone: a long member of a big set or sorted set.
pub(crate) const MEMBER: ObjectKind = ObjectKind::BARE;
