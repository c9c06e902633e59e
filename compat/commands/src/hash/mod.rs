//! The commands on hashes.
//!
//! `read` answers fields and values, `write` changes them, `count` adds to numbers in fields, `walk` goes over a whole
//! hash or picks fields at random. `expiry` sets and tells when fields expire, `expiring_values` reads and writes values
//! together with that.

mod count;
mod expiring_values;
mod expiry;
mod read;
mod walk;
mod write;

use varve_exec::FileRows;

/// The rows of the files.
pub(crate) const ROWS: &[FileRows] =
    &[count::ROWS, expiry::ROWS, expiring_values::ROWS, read::ROWS, walk::ROWS, write::ROWS];
