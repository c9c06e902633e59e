//! How others reach a worker, and what they may read of it: its mailbox and its counters.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64};

use varve_exec::stats::CommandStats;

use super::mail::Mailbox;
use crate::features::clients::state::weights::Weights;
use varve_base::counter::Counter;

/// The counters of a worker.
#[derive(Debug, Default)]
pub(crate) struct WorkerStats {
    /// Connections served now.
    pub(crate) connected: Counter,
    /// Connections accepted since the start or CONFIG RESETSTAT (counted by the accepting worker).
    pub(crate) accepted: Counter,
    /// Connections refused for `maxclients`.
    pub(crate) rejected: Counter,
    /// Connections that wait for keys now, and those of them with a timeout.
    pub(crate) blocked: Counter,
    pub(crate) blocked_with_timeout: Counter,
    /// Bytes read from sockets.
    pub(crate) input_bytes: Counter,
    /// Bytes written to sockets.
    pub(crate) output_bytes: Counter,
    /// Commands executed.
    pub(crate) commands: Counter,
    /// Reads and writes done for clients.
    pub(crate) reads: Counter,
    pub(crate) writes: Counter,
    /// Connections that CLIENT PAUSE holds back.
    pub(crate) held: Counter,
    /// Bytes that connections and the pool of buffers take.
    pub(crate) buffer_bytes: Counter,
    /// Largest input and output buffers seen, for INFO's `client_recent_max_*`.
    pub(crate) input_peak_bytes: Counter,
    pub(crate) output_peak_bytes: Counter,
    /// Connections closed because a buffer limit was passed.
    pub(crate) query_limit_closed: Counter,
    pub(crate) output_limit_closed: Counter,
    /// Connections closed because all together took too much.
    pub(crate) evicted: Counter,
}

/// How others reach a worker.
#[derive(Debug)]
pub(crate) struct WorkerHandle {
    pub(crate) mailbox: Mailbox,
    pub(crate) stats: WorkerStats,
    /// The worker's counts of each command.
    pub(crate) commands: Arc<CommandStats>,
    /// The weights of its clients.
    pub(crate) weights: Weights,
    /// It has been told that clients are to be evicted, and has not got to it.
    pub(crate) crowded: AtomicBool,
    /// Connections that were given to this worker and are not closed: what the accepting worker balances by, ahead of
    /// `stats.connected` by those still in the mailbox.
    pub(crate) assigned: AtomicU64,
}

impl WorkerHandle {
    pub(crate) fn new(mailbox: Mailbox) -> WorkerHandle {
        WorkerHandle {
            mailbox,
            stats: WorkerStats::default(),
            commands: CommandStats::new(varve_commands::commands()),
            weights: Weights::default(),
            crowded: AtomicBool::new(false),
            assigned: AtomicU64::new(0),
        }
    }
}
