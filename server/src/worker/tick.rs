//! What happens by the clock: each 100 ms a slice of the connections is looked at, and worker 0 samples the rates.
//!
//! Each connection is looked at once in [`SLICES`] ticks (a second), so that ten thousand idle ones cost a thousand looks
//! a tick. Looked for: idle longer than `timeout`, and output over its soft limit for too long (nothing else happens on
//! such a connection that would show it).

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::Worker;
use crate::features::info;
use crate::net::conn::Phase;

/// Time between two ticks.
const TICK: Duration = Duration::from_millis(100);
/// Ticks in which every connection is looked at once.
const SLICES: usize = 10;

/// When the next tick is, and where the last one stopped.
#[derive(Debug, Default)]
pub(super) struct Tick {
    due: Option<Instant>,
    /// Slot from which the next slice goes on.
    cursor: usize,
    /// Bytes of the pool of buffers that the worker's sum has.
    pub(super) pool_bytes: usize,
    /// Accepting failed for want of descriptors: the edge has passed, so it is tried again.
    pub(super) accept_again: bool,
}

impl Tick {
    /// Time until the next tick.
    pub(super) fn due_in(&self, now: Instant) -> Duration {
        self.due.map_or(Duration::ZERO, |due| due.saturating_duration_since(now))
    }
}

impl Worker {
    /// Does what is due.
    pub(super) fn tick(&mut self) {
        if self.tick.due_in(self.now.instant) > Duration::ZERO {
            return;
        }
        self.tick.due = Some(self.now.instant + TICK);
        if self.state.ticks_paused.load(Ordering::Relaxed) {
            return;
        }
        if self.index == 0 {
            self.state.sample_rates();
            info::tell_memory(&self.state.store);
        }
        if std::mem::take(&mut self.tick.accept_again) {
            self.accept_due = true;
        }
        self.look_at_slice();
    }

    fn look_at_slice(&mut self) {
        let slots = self.conns.capacity();
        let from = self.tick.cursor;
        let to = slots.min(from + slots.div_ceil(SLICES));
        let outputs_kept = self.state.outputs_kept.load(Ordering::Relaxed);
        for slot in from..to {
            let Some(conn) = self.conns.get_mut(slot) else { continue };
            if !outputs_kept && conn.output.is_empty() && conn.output.held_bytes() > 0 {
                conn.output.clear(0);
                self.weigh(slot);
            }
            let conn = &self.conns[slot];
            let idle_ms = self.now.unix_ms - conn.session.active_ms;
            let timeout_s = self.config.timeout_s;
            let may_idle = timeout_s > 0 && conn.phase != Phase::Blocked;
            if may_idle && idle_ms > i64::from(timeout_s) * 1000 {
                tracing::debug!("Closing idle client");
                self.close(slot);
            } else if self.over_output_limit(slot, self.conns[slot].output.len()) {
                self.close(slot);
            }
        }
        self.tick.cursor = to;
        if to == slots {
            self.tick.cursor = 0;
        }
    }
}
