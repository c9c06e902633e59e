//! Packed nodes, packed leaves and sets of integers: what a small collection, or a part of a big one, looks like in bytes.
//!
//! Byte formats only: everything here works on slices that are handed in, allocates nothing and knows neither the log
//! nor a reference. The owner of the bytes decides how many there are; a change that does not fit returns how many it needs.
//!
//! - [`node`]: a sequence of entries, each a string or an integer, readable and growing at both ends.
//! - [`leaf`]: elements of a hash or a set, each found by a byte of its hash.
//! - [`intset`]: integers in ascending order, 2, 4 or 8 bytes each.

#![forbid(unsafe_code)]

pub mod intset;
pub mod leaf;
pub mod node;

/// A change needs more room than the bytes handed in have. Nothing was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full {
    /// Bytes that the smallest buffer in which the change succeeds would have.
    pub needed: usize,
}

/// Bytes that are not what they should be, found by a `check`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Offset of the byte at which it showed.
    pub at: usize,
    /// The fault, in words.
    pub what: &'static str,
}
