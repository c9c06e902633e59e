//! The commands on keys of any type.
//!
//! `keys` tells whether and what they are and removes them, `expiry` their time to live, `moving` gives them another
//! name or database, `object` looks inside, `scan` walks over all of them, `sort` puts the
//! elements of one in order. `texts` and `order` are scratch space of commands that gather elements and sort
//! them, `building` is the result of one that stores it, `draw` draws many elements at random, `many_arguments` has commands
//! with thousands of them done in parts, `pinned` writes into large strings that are being read,
//! `growth` asks whether a string may grow.

pub(crate) mod building;
pub(crate) mod draw;
pub(crate) mod expiry;
pub(crate) mod growth;
mod keys;
pub(crate) mod many_arguments;
mod moving;
mod object;
pub(crate) mod options;
pub(crate) mod order;
pub(crate) mod pinned;
pub(crate) mod scan;
mod sort;
mod sort_far;
mod sort_parts;
mod sort_pattern;
mod sort_rows;
mod string_copy;
pub(crate) mod texts;

pub(crate) use object::{refcount, shares_integers};
use varve_exec::FileRows;

/// The rows of the files.
pub(crate) const ROWS: &[FileRows] = &[expiry::ROWS, keys::ROWS, moving::ROWS, object::ROWS, scan::ROWS, sort::ROWS];
