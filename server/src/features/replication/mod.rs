//! Replication: a second server that has what this one has.
//!
//! ```text
//!   state      the stream's identity, which both ends share
//!   role.rs    ROLE           replica    REPLICAOF, SLAVEOF
//! ```
//! The stream is the journal's bytes (`varve_exec::journal`). Not here: what INFO shows of it (`info`).

mod replica;
mod role;
pub(crate) mod state;

use crate::state::command::ServerRows;

/// The commands of this matter.
pub(super) const ROWS: &[ServerRows] = &[role::ROWS, replica::ROWS];
