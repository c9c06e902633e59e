//! Connections that CLIENT PAUSE holds back until it ends or changes.
//!
//! Requests that they sent stay in their buffers; what they send on stays in their sockets. Those that were connected first
//! go on first. Not here: which commands are held back (`varve_exec::pause`).

use std::collections::BTreeMap;
use std::time::Duration;

use varve_exec::pause::Pause;

use crate::features::pubsub::state::{ConnId, ConnRef};
use crate::net::conn::{Conn, WaitReasons};
use crate::net::conns::Conns;
use crate::state::WorkerStats;

/// The paused connections of one worker.
#[derive(Debug, Default)]
pub(crate) struct PausedClients {
    /// By the client's id: one that closes is found without a look at all others.
    waiting: BTreeMap<u64, ConnId>,
    /// The pause that holds them.
    under: Pause,
}

impl PausedClients {
    /// The connection's next request is held back by this pause.
    #[cold]
    pub(crate) fn hold_back(&mut self, conn: &mut Conn, pause: Pause, stats: &WorkerStats) {
        conn.wait(WaitReasons::PAUSE);
        if self.waiting.is_empty() {
            self.under = pause;
        }
        let who = conn.who();
        self.waiting.insert(who.client, who.conn);
        self.publish(stats);
    }

    /// Lets all go on if the pause is another one by now, or over. A pause that is over holds nobody, whatever
    /// [`PausedClients::hold_back`] was called with.
    pub(crate) fn release(&mut self, conns: &mut Conns, now: impl FnOnce() -> Pause, stats: &WorkerStats) {
        if self.waiting.is_empty() {
            return;
        }
        let now = now();
        if now == self.under && now != Pause::None {
            return;
        }
        for (client, conn) in std::mem::take(&mut self.waiting) {
            conns.lift(ConnRef { conn, client }, WaitReasons::PAUSE);
        }
        self.publish(stats);
    }

    /// Time until they can go on by themselves, if there are any. The pause ends at `until_ms`, Unix time as `now_ms`.
    pub(crate) fn due_in(&self, until_ms: i64, now_ms: i64) -> Option<Duration> {
        let left_ms = until_ms.saturating_sub(now_ms).max(0);
        (!self.waiting.is_empty()).then(|| Duration::from_millis(left_ms as u64))
    }

    /// A connection is about to close.
    pub(crate) fn forget(&mut self, who: ConnRef, stats: &WorkerStats) {
        self.waiting.remove(&who.client);
        self.publish(stats);
    }

    fn publish(&self, stats: &WorkerStats) {
        stats.held.set(self.waiting.len() as u64);
    }
}
