//! Replies that wait for the file, under `appendfsync always`: what a reply tells is on disk before it leaves.
//!
//! ```text
//!   visit: commands --> position behind the last effect of the shards that they touched
//!     synced already: the replies leave        else: they stay in the output (net/conn/filed.rs), and requests behind run
//!   the file's thread has synced further --> wakes the worker --> replies that waited for less are sent
//! ```
//! The replies of a connection that only reads shards whose effects are synced do not wait.

use std::collections::BinaryHeap;
use std::time::Instant;

use varve_base::hist::Hist;

use super::super::state::aof::Aof;
use crate::features::pubsub::state::ConnRef;
use crate::net::conn::Conn;
use crate::net::conns::Conns;

/// The connections of one worker whose output waits, each once.
#[derive(Debug, Default)]
pub(crate) struct WaitingForFile {
    heap: BinaryHeap<Waiting>,
}

#[derive(Debug, PartialEq, Eq)]
struct Waiting {
    /// Its first bytes that wait do so for this position, or for a greater one since.
    until: u64,
    who: ConnRef,
    since: Instant,
}

impl Ord for Waiting {
    /// The one that waits for least is the greatest.
    fn cmp(&self, other: &Waiting) -> std::cmp::Ordering {
        other.until.cmp(&self.until).then(other.who.client.cmp(&self.who.client))
    }
}

impl PartialOrd for Waiting {
    fn partial_cmp(&self, other: &Waiting) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl WaitingForFile {
    /// Output of a connection behind byte number `from` waits until the file is synced up to `until`.
    #[inline]
    pub(crate) fn stand_by(&mut self, conn: &mut Conn, aof: &Aof, from: u64, until: u64) {
        if until > aof.journal().synced() && conn.hold_output(from, until) {
            self.heap.push(Waiting { until, who: conn.who(), since: Instant::now() });
        }
    }

    /// Lets the connections go on whose replies may leave, and notes how long they have waited.
    #[inline]
    pub(crate) fn release(&mut self, conns: &mut Conns, aof: &Aof, times: &Hist) {
        if self.heap.is_empty() {
            return;
        }
        let synced = aof.journal().synced();
        while self.heap.peek().is_some_and(|waiting| waiting.until <= synced) {
            let Some(Waiting { who, since, .. }) = self.heap.pop() else { return };
            let Some(conn) = conns.get_mut(who) else { continue };
            let now = Instant::now();
            times.record(now - since);
            if let Some(until) = conn.let_output_go(synced) {
                self.heap.push(Waiting { until, who, since: now });
            }
            conns.enqueue(who.conn);
        }
    }

    /// The worker is about to wait: false if it need not, since some may go on, or what waits until `other` is synced may.
    #[inline]
    pub(crate) fn may_rest(&self, aof: &Aof, worker: usize, other: Option<u64>) -> bool {
        let first = self.heap.peek().map(|waiting| waiting.until);
        let Some(first) = first.into_iter().chain(other).min() else { return true };
        let synced = aof.journal().synced();
        synced < first && aof.wait_beyond(worker, synced)
    }
}
