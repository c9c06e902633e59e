//! Replication: a second server that has what this one has.
//!
//! ```text
//!   state      the stream's identity, its last bytes, who follows it
//!   role.rs    ROLE      handing.rs    how a failover ends
//!   primary    PSYNC, SYNC, REPLCONF, FAILOVER; what is due by the clock        replica    REPLICAOF, SLAVEOF; the link to a primary
//! ```
//! The stream is the journal's bytes (`varve_exec::journal`): a replica puts its primary's there as they came. Not here: what INFO shows of it (`info`).

mod handing;
pub(crate) mod primary;
pub(crate) mod replica;
pub(crate) use replica::{at_start as follow_at_start, before_start};
mod role;
pub(crate) mod state;

use crate::state::command::ServerRows;

/// The commands of this matter.
pub(super) const ROWS: &[ServerRows] =
    &[primary::ROWS, primary::failover::ROWS, primary::wait::ROWS, role::ROWS, replica::ROWS];
