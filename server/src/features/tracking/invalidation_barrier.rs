//! Replies that wait for invalidations: keys that a connection's commands have made stale are with the connections that
//! keep copies of them before its replies leave, on whichever workers those are. With one thread this needs no waiting.
//!
//! ```text
//!   visit:           commands --stale keys, each with a share of the visit's latch--> inboxes of workers
//!                    replies stay in the output, the connection waits (WaitReasons::BARRIER)
//!   those workers:   deliver, write, drop their shares
//!   the last share:  wakes the worker, and the connection goes on
//! ```
//! Only writes of keys that somebody tracks pay for it: each such visit one way to the other worker and back.
//!
//! A tracking connection may have its messages sent to another one (REDIRECT), of a third worker: the share goes with them.
//! A connection that waits is written nothing, and does not keep others waiting: what it is to know stands behind replies of
//! its own that wait. So no connections wait for each other in a ring.
//!
//! Messages of channels do not pass the barrier, nor do changes that the store makes by itself (expiry, eviction in the
//! background).

use std::collections::HashMap;
use std::sync::Arc;

use crate::features::pubsub::state::{ConnRef, Latch, Registry};
use crate::net::conn::{Conn, WaitReasons};
use crate::net::conns::Conns;

/// The barrier of one worker: the latches that its waiting connections are behind, by client.
#[derive(Debug, Default)]
pub(crate) struct InvalidationBarrier {
    latches: HashMap<u64, usize>,
}

impl InvalidationBarrier {
    /// The replies of a connection of `worker` wait if its commands have made something stale that others keep.
    #[inline]
    pub(crate) fn stand_by(&mut self, conn: &mut Conn, registry: &Registry, worker: usize) {
        if registry.owes(worker)
            && let Some(latch) = registry.take_latch(worker)
        {
            self.wait(conn, latch);
        }
    }

    /// A connection that waits already runs nothing, but what it reads is admitted, and keys are evicted for that: it may
    /// be behind several latches.
    #[cold]
    fn wait(&mut self, conn: &mut Conn, latch: Arc<Latch>) {
        if latch.bind(conn.who()) {
            conn.wait(WaitReasons::BARRIER);
            *self.latches.entry(conn.who().client).or_default() += 1;
        }
    }

    /// A latch of this connection has opened: the connection goes on if that was its last one.
    #[cold]
    pub(crate) fn open(&mut self, conns: &mut Conns, who: ConnRef) {
        let left = self.latches.get_mut(&who.client).expect("a latch opens once");
        *left -= 1;
        if *left == 0 {
            self.latches.remove(&who.client);
            conns.lift(who, WaitReasons::BARRIER);
        }
    }
}
