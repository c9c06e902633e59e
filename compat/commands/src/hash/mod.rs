//! The commands on hashes.
//!
//! `read` answers fields and values, `write` changes them, `count` adds to numbers in fields, `walk` goes over a whole
//! hash or picks fields at random.

mod count;
mod read;
mod walk;
mod write;

use varve_exec::FileRows;

/// The rows of the files.
pub(crate) const ROWS: &[FileRows] = &[count::ROWS, read::ROWS, walk::ROWS, write::ROWS];
