//! Rows of the commands that the server runs.

mod connection;
mod pubsub;
mod server;

use varve_exec::FileRows;

/// The rows of the files.
pub(crate) const ROWS: &[FileRows] = &[connection::ROWS, pubsub::ROWS, server::ROWS];
