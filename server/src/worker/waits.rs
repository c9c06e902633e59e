//! How long requests and replies wait for what others hold: shards, the gate, or the client itself, which does not read.
//!
//! ```text
//!   a visit ends busy --> shards, or the gate while another worker is alone or wants to be
//!     the next visit that does not end so --> the time goes into the worker's histogram
//!   unsent output beyond its limit --> socket --> half of it is taken
//! ```
//! A connection that closes while it waits counts for nothing. Not here: waits for the append-only file's sync, which are
//! measured where they are kept (`persist/aof/waiting.rs`).

use std::collections::HashMap;
use std::time::Instant;

use super::core::Core;
use crate::features::pubsub::state::ConnId;
use crate::state::{WaitTimes, WaitsOn};

/// The connections of a worker that wait, and since when.
#[derive(Debug, Default)]
pub(super) struct Waits(HashMap<(ConnId, WaitsOn), Instant>);

impl Waits {
    /// The connection waits from now on, unless it does already.
    fn begin(&mut self, id: ConnId, on: WaitsOn) {
        self.0.entry((id, on)).or_insert_with(Instant::now);
    }

    /// The connection waits no longer, if it did.
    fn end(&mut self, id: ConnId, on: WaitsOn, times: &WaitTimes) {
        if let Some(since) = self.0.remove(&(id, on)) {
            times.of(on).record(since.elapsed());
        }
    }
}

impl Core {
    /// A visit of a connection has ended: busy, if its next request has met a shard or the gate that somebody else holds.
    #[inline]
    pub(super) fn note_visit(&mut self, id: ConnId, is_busy: bool) {
        if is_busy || !self.waits.0.is_empty() {
            self.note_wait(id, is_busy);
        }
    }

    #[cold]
    fn note_wait(&mut self, id: ConnId, is_busy: bool) {
        let (on, other) = match self.state.store().gate().is_open(self.index) {
            true => (WaitsOn::Shards, WaitsOn::Gate),
            false => (WaitsOn::Gate, WaitsOn::Shards),
        };
        let times = &self.state.workers()[self.index].stats().waits;
        // The first try of a request: those before it have run.
        if !is_busy || self.conns[id].session().busy_tries() <= 1 {
            self.waits.end(id, on, times);
            self.waits.end(id, other, times);
        }
        // One wait has one name, whatever it meets in its course.
        if is_busy && !self.waits.0.contains_key(&(id, other)) {
            self.waits.begin(id, on);
        }
    }

    /// Has a connection wait as its unsent output asks.
    #[inline]
    pub(super) fn balance(&mut self, id: ConnId) {
        if let Some(waits) = self.conns[id].balance() {
            let times = &self.state.workers()[self.index].stats().waits;
            if waits { self.waits.begin(id, WaitsOn::Socket) } else { self.waits.end(id, WaitsOn::Socket, times) }
        }
    }

    /// A connection closes.
    #[inline]
    pub(super) fn forget_waits(&mut self, id: ConnId) {
        if !self.waits.0.is_empty() {
            for (on, _) in WaitsOn::ALL {
                self.waits.0.remove(&(id, on));
            }
        }
    }
}
