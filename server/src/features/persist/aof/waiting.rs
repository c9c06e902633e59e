//! Replies that wait for the file, under `appendfsync always`: what a reply tells is on disk before it leaves.
//!
//! ```text
//!   visit: commands --> position behind the last effect of the shards that they touched
//!     synced already: the replies leave        else: the connection waits (WaitReasons::FILE), its replies in its output
//!   the file's thread has synced further --> wakes the worker --> those that waited for less go on
//! ```
//! A connection that only reads shards whose effects are synced does not wait.

use std::collections::{BinaryHeap, HashMap};

use super::super::state::aof::Aof;
use crate::features::pubsub::state::ConnRef;
use crate::net::conn::{Conn, WaitReasons};
use crate::net::conns::Conns;

/// The connections of one worker that wait.
#[derive(Debug, Default)]
pub(crate) struct WaitingForFile {
    heap: BinaryHeap<Waiting>,
    /// The greatest position that each client waits for: its replies may tell of more than when it began to wait.
    last: HashMap<u64, u64>,
}

#[derive(Debug, PartialEq, Eq)]
struct Waiting {
    until: u64,
    who: ConnRef,
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
    /// The replies of a connection wait until the file is synced up to `until`.
    #[inline]
    pub(crate) fn stand_by(&mut self, conn: &mut Conn, aof: &Aof, until: u64) {
        if until > aof.journal().synced() {
            conn.wait(WaitReasons::FILE);
            let last = self.last.entry(conn.who().client).or_insert(0);
            if until > *last {
                *last = until;
                self.heap.push(Waiting { until, who: conn.who() });
            }
        }
    }

    /// Lets those go on whose replies may leave.
    #[inline]
    pub(crate) fn release(&mut self, conns: &mut Conns, aof: &Aof) {
        if self.heap.is_empty() {
            return;
        }
        let synced = aof.journal().synced();
        while self.heap.peek().is_some_and(|waiting| waiting.until <= synced) {
            let Some(Waiting { who, until }) = self.heap.pop() else { return };
            if self.last.get(&who.client) == Some(&until) {
                self.last.remove(&who.client);
                conns.lift(who, WaitReasons::FILE);
            }
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
