//! The connections of a worker that deliveries have reached, until they are written.
//!
//! ```text
//!   delivery --add, once--> | A | B | C | ...  --next--> written: one write for all that came meanwhile
//!   an item that somebody waits for is given to all --close--> its share is kept until those before it are written
//! ```
//! In the order in which they were reached: with many of them a turn of the loop writes some, and the others get more
//! before they are written. Not here: writing (worker/deliver.rs).

use std::collections::VecDeque;
use std::sync::Arc;

use super::state::{ConnRef, Latch};
use crate::net::conn::Conn;

/// See the module's picture.
#[derive(Debug, Default)]
pub(crate) struct Receivers {
    queue: VecDeque<ConnRef>,
    /// Connections that ever left the queue.
    written: u64,
    /// Shares, each with the count of written connections at which it ends.
    latches: VecDeque<(u64, Arc<Latch>)>,
}

impl Receivers {
    /// The connection has something to be written; it stands in the queue once.
    pub(crate) fn add(&mut self, conn: &mut Conn) {
        if conn.note_reached() {
            self.queue.push_back(conn.who());
        }
    }

    /// Keeps a share until all that are in the queue now are written.
    pub(crate) fn close(&mut self, latch: Arc<Latch>) {
        self.latches.push_back((self.written + self.queue.len() as u64, latch));
    }

    /// The next connection to be written, or to be left alone if it is gone.
    pub(crate) fn next(&mut self) -> Option<ConnRef> {
        let next = self.queue.pop_front()?;
        self.written += 1;
        Some(next)
    }

    /// A share whose connections are written.
    pub(crate) fn next_latch(&mut self) -> Option<Arc<Latch>> {
        let (due, _) = self.latches.front()?;
        if *due > self.written {
            return None;
        }
        self.latches.pop_front().map(|(_, latch)| latch)
    }

    /// True if nobody waits here.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.queue.is_empty() && self.latches.is_empty()
    }
}
