//! `maxmemory-clients`: the largest clients are closed while all together take too much.
//!
//! ```text
//!   visit, delivery --weigh--> the worker's weights ---+
//!                              the other workers' -----+--> over the limit, at the end of a turn of the loop:
//!                                                             the largest are here: close them, one after the other
//!                                                             they are elsewhere:   Message::Crowded to their worker
//! ```
//! As in Redis the largest are those of the highest class (`clients::weight`), in no order among themselves.

use std::sync::atomic::Ordering;

use super::Worker;
use crate::features::clients;
use crate::features::clients::state::weights::class;
use crate::state::mail::Message;

impl Worker {
    /// Counts what the connection takes now.
    #[inline]
    pub(super) fn weigh(&mut self, slot: usize) {
        let conn = &mut self.conns[slot];
        let bytes = clients::memory(conn);
        if bytes != conn.counted_bytes {
            self.state.workers[self.index].stats.buffer_bytes.change(conn.counted_bytes, bytes);
            conn.counted_bytes = bytes;
        }
        let weight = if conn.session.no_evict { 0 } else { clients::weight(conn) };
        if weight != conn.weight {
            self.state.workers[self.index].weights.change(conn.weight, weight);
            conn.weight = weight;
        }
    }

    /// Closes clients while all together are over the limit, and tells the store what they take.
    #[inline]
    pub(super) fn limit_clients(&mut self) {
        let max = self.config.client_bytes_max();
        let weight = self.clients_weight();
        let pool = self.pool.bytes();
        if pool != self.tick.pool_bytes {
            self.state.workers[self.index].stats.buffer_bytes.change(self.tick.pool_bytes, pool);
            self.tick.pool_bytes = pool;
        }
        // What is over the limit goes at once, and must not cost a key its place before.
        let buffers = self.state.total(|stats| &stats.buffer_bytes) + self.state.pubsub.payload_bytes() as u64;
        self.state.store.set_outside_bytes(if max > 0 { buffers.min(max) } else { buffers });
        if max > 0 && weight > max {
            self.evict_clients(max);
        }
    }

    /// Another worker has found that the largest clients are here.
    pub(super) fn crowded(&mut self) {
        self.state.workers[self.index].crowded.store(false, Ordering::Release);
        self.limit_clients();
    }

    fn clients_weight(&self) -> u64 {
        self.state.workers.iter().map(|worker| worker.weights.total()).sum()
    }

    #[cold]
    fn evict_clients(&mut self, max: u64) {
        while self.clients_weight() > max {
            let workers = &self.state.workers;
            let Some(top) = workers.iter().filter_map(|worker| worker.weights.top()).max() else { return };
            if workers[self.index].weights.top() != Some(top) {
                let elsewhere = workers.iter().find(|worker| worker.weights.top() == Some(top));
                if let Some(worker) = elsewhere.filter(|worker| !worker.crowded.swap(true, Ordering::AcqRel)) {
                    worker.mailbox.send(Message::Crowded);
                }
                return;
            }
            let largest = self.conns.iter().filter(|(_, conn)| conn.weight > 0 && class(conn.weight) == top);
            let slots: Vec<usize> = largest.map(|(slot, _)| slot).collect();
            for slot in slots {
                if self.clients_weight() <= max {
                    return;
                }
                let line = clients::line(&self.conns[slot], self.now.unix_ms);
                tracing::info!("Evicting client: {line}");
                self.state.workers[self.index].stats.evicted.add(1);
                self.close(slot);
            }
        }
    }
}
