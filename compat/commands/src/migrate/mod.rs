//! MIGRATE: keys move to another server.
//!
//! ```text
//!   options    grammar
//!   command    the keys that are there                                    shards held
//!   transfer   the keys are frozen                                            one shard held for a moment
//!              greeting; for each key: value --> RESTORE --> reply --> DEL         one shard held for a moment, the link waits
//!              end: the keys are thawed, the client is answered
//! ```
//! While a key is on its way commands that would change it wait, others go on, and reading goes on too. A key is deleted when
//! the other server has said that it has it; whatever fails leaves it here. Not here: the link ([`varve_exec::link`]).

mod command;
mod options;
mod transfer;

use varve_exec::FileRows;

/// The rows of the files.
pub(crate) const ROWS: &[FileRows] = &[command::ROWS];
