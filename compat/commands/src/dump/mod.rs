//! DUMP and RESTORE, and the bridge between the store's values and RDB's.
//!
//! ```text
//!  store's value ──put_value──▶ varve_rdb::RdbBuffer ──▶ DUMP's payload, a snapshot's file
//!  varve_rdb::Part ──Insertion──▶ store's value        RESTORE, a file that is loaded
//! ```
//! There is one bridge for all: a file and a payload of DUMP have the same values. Not here: files.

mod check;
mod commands;
mod encoding;
mod idempotence;
mod insertion;
mod long_restore;
mod measure;
mod outline;
mod restoring;
mod spent;
mod stream;
mod value;

pub(crate) use encoding::{LongDump, whole};
pub use idempotence::idempotence_of;
pub use insertion::Insertion;
pub use outline::OutlineEncoder;
pub use value::{begin_entry, begin_long_entry, kind_of, put_count, put_part, put_value};

use varve_exec::FileRows;

/// The rows of the files.
pub(crate) const ROWS: &[FileRows] = &[commands::ROWS];
