//! The settings of a primary: how it serves its replicas.

use super::table::Values;

/// See the module's text.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ReplicationSettings {
    /// Bytes of the stream that are kept for replicas to come back to.
    pub(crate) backlog_bytes: u64,
    /// Seconds for which the stream is kept while there is no replica; 0: for ever.
    pub(crate) backlog_ttl_s: u64,
    /// Bytes of increments of the append-only file that stay for them when a rewrite has replaced these, and the seconds for which
    /// they stay.
    /// Bytes of the stream on disk, at most, for replicas that are behind by more than memory is to hold; 0: memory holds it.
    pub(crate) spool_bytes: u64,
    pub(crate) history_bytes: u64,
    pub(crate) history_s: u64,
    /// Data sets are sent while they are written; the seconds for which other replicas that could share one are waited for, and
    /// the number of replicas for which none are, 0 for no such number.
    pub(crate) diskless: bool,
    pub(crate) diskless_delay_s: u64,
    pub(crate) diskless_replicas_max: usize,
    /// Bytes for a replica wait until a packet is full, or the replica has acknowledged the packet before.
    pub(crate) gathers_writes: bool,
    /// Seconds between two PINGs in the stream, at least 1.
    pub(crate) ping_period_s: u64,
    /// Seconds of silence after which a link between a primary and a replica is given up.
    pub(crate) timeout_s: u64,
    /// Replicas without which writes are refused, and the seconds within which they have said how far they are; either is 0
    /// where none are needed.
    pub(crate) replicas_min: usize,
    pub(crate) replicas_lag_s: u64,
}

impl ReplicationSettings {
    /// The time within which a replica has said how far it is that follows closely, milliseconds.
    pub(crate) fn lag_ms(&self) -> i64 {
        self.replicas_lag_s as i64 * 1000
    }

    /// The typed form of `values`.
    pub(super) fn of(values: &Values) -> ReplicationSettings {
        ReplicationSettings {
            backlog_bytes: values.number("repl-backlog-size"),
            backlog_ttl_s: values.number("repl-backlog-ttl"),
            spool_bytes: values.number("repl-spool-size"),
            history_bytes: values.number("repl-history-size"),
            history_s: values.number("repl-history-ttl"),
            diskless: values.yes("repl-diskless-sync"),
            diskless_delay_s: values.number("repl-diskless-sync-delay"),
            diskless_replicas_max: values.number("repl-diskless-sync-max-replicas"),
            gathers_writes: values.yes("repl-disable-tcp-nodelay"),
            ping_period_s: values.number("repl-ping-replica-period"),
            timeout_s: values.number("repl-timeout"),
            replicas_min: values.number("min-replicas-to-write"),
            replicas_lag_s: values.number("min-replicas-max-lag"),
        }
    }

    /// True if writes are refused without replicas.
    #[inline]
    pub(crate) fn needs_replicas(&self) -> bool {
        self.replicas_min > 0 && self.replicas_lag_s > 0
    }
}
