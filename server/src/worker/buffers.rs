//! What connections and their buffers take: counted as it changes, part of `maxmemory`, bounded by `maxmemory-clients`.
//!
//! ```text
//!   after a visit, each second, at the end: Conn::counted_bytes -> the worker's sum -> all workers' sum -> the store
//!   all workers' sum over the bound: each worker closes its largest connection, until it is not
//! ```
//! Not here: bounds of one connection (serve.rs).

use super::Worker;
use crate::clients;
use crate::config::ClientMemory;

/// A connection's buffers are counted anew when they have changed by this much.
const STEP_BYTES: usize = 4 << 10;
/// The class of output limits whose connections are never closed for room.
const REPLICAS: usize = 1;

impl Worker {
    /// Counts what a connection takes, if that has changed by much.
    pub(super) fn count_buffers(&mut self, slot: usize) {
        let conn = &mut *self.conns[slot];
        let bytes = clients::memory(conn);
        let before = conn.counted_bytes;
        if before == 0 || bytes.abs_diff(before) >= STEP_BYTES {
            conn.counted_bytes = bytes;
            self.buffer_bytes = self.buffer_bytes + bytes - before;
            self.tell_buffers();
        }
    }

    /// A connection with so many counted bytes is gone.
    pub(super) fn uncount_buffers(&mut self, counted_bytes: usize) {
        self.buffer_bytes -= counted_bytes;
        self.tell_buffers();
    }

    /// Tells all others what this worker's connections take.
    pub(super) fn tell_buffers(&mut self) {
        let bytes = self.buffer_bytes + self.pool.bytes();
        self.shared.workers[self.index].stats.buffer_bytes.set(bytes as u64);
        // What is over the bound goes at once, and must not cost a key its place before.
        let total = self.shared.total(|stats| &stats.buffer_bytes);
        let limit = self.buffers_limit();
        self.shared.store.set_outside_bytes(if limit == 0 { total } else { total.min(limit) });
    }

    /// What all connections together may take, 0 for no bound.
    fn buffers_limit(&self) -> u64 {
        match self.config.client_memory {
            ClientMemory::Bytes(bytes) => bytes,
            ClientMemory::Percent(percent) => self.config.memory_bytes_max / 100 * u64::from(percent),
        }
    }

    /// Closes the connections that take most while all together take more than they may.
    pub(super) fn limit_buffers(&mut self) {
        let limit = self.buffers_limit();
        if limit == 0 {
            return;
        }
        while self.shared.total(|stats| &stats.buffer_bytes) > limit {
            let conns = self
                .conns
                .iter()
                .filter(|(_, conn)| !conn.session.no_evict && clients::Class::of(conn).limit() != REPLICAS);
            let largest = conns.max_by_key(|(_, conn)| conn.counted_bytes);
            let Some((slot, conn)) = largest.filter(|(_, conn)| conn.counted_bytes > 0) else { return };
            tracing::info!("Evicting client: {}", clients::line(conn, self.now.unix_ms));
            self.shared.workers[self.index].stats.evicted.add(1);
            self.close(slot);
        }
    }
}
