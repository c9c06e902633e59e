//! Replies that wait for invalidations: keys that a connection's commands have made stale are with the connections that
//! keep copies of them before its replies leave, on whichever workers those are. With one thread this needs no waiting.
//!
//! ```text
//!   visit:           commands --stale keys--> inboxes of workers; Registry::take_owed: the counts they must come to
//!                    replies stay in the output, the connection waits (WaitReasons::BARRIER)
//!   those workers:   deliver, write, report how far they are, wake the workers that wait
//!   a later turn:    the counts are reached: the connection goes on
//! ```
//! Only writes of keys that somebody tracks pay for it: each such visit one way to the other worker and back.
//!
//! A tracking connection may have its messages sent to another one (REDIRECT), of a third worker: the item that passes them
//! on, a relay, counts as delivered at once and as settled when the messages have arrived. Connections wait until all is
//! settled, relays for deliveries only, so that no workers wait for each other in a ring.
//!
//! Messages of channels do not pass the barrier, nor do changes that the store makes by itself (expiry, eviction in the
//! background).

use std::collections::VecDeque;

use crate::features::pubsub::state::ConnRef;
use crate::features::pubsub::state::Registry;
use crate::net::conn::{Conn, WaitReasons};
use crate::net::conns::Conns;

/// Inboxes, and the counts that they must come to.
pub(crate) type Counts = Vec<(usize, u64)>;

/// The barrier of one worker.
#[derive(Debug, Default)]
pub(crate) struct InvalidationBarrier {
    waiting: Vec<Waiting>,
    /// Oldest first.
    relays: VecDeque<Relay>,
    /// The last report of the own inbox.
    reported: Report,
}

/// How far an inbox is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Report {
    /// Items written to the connections that they are for.
    delivered: u64,
    /// Items of these that have arrived also where they were passed on to.
    settled: u64,
}

/// A connection whose replies wait.
#[derive(Debug)]
struct Waiting {
    who: ConnRef,
    until: Counts,
}

/// Items that were passed on.
#[derive(Debug)]
struct Relay {
    /// Items of the own inbox that were delivered before.
    before: u64,
    until: Counts,
}

impl InvalidationBarrier {
    /// The replies of a connection of `worker` wait if its commands have made something stale that others keep.
    #[inline]
    pub(crate) fn stand_by(&mut self, conn: &mut Conn, registry: &Registry, worker: usize) {
        if registry.owes(worker) {
            self.wait(conn, registry.take_owed(worker));
        }
    }

    #[cold]
    fn wait(&mut self, conn: &mut Conn, until: Counts) {
        let who = conn.who();
        if conn.wait(WaitReasons::BARRIER) {
            self.waiting.push(Waiting { who, until });
            return;
        }
        // It runs nothing, but what it reads is admitted, and keys are evicted for that.
        let waiting = self.waiting.iter_mut().find(|waiting| waiting.who == who).expect("it waits");
        waiting.until.extend(until);
    }

    /// Notes that items were passed on by a delivery: those that `worker` has owed since `mine` was taken out. `before`
    /// items of the own inbox had been delivered until then.
    #[inline]
    pub(crate) fn relay(&mut self, registry: &Registry, worker: usize, before: u64, mine: &Counts) {
        if registry.owes(worker) {
            let until = registry.take_owed(worker);
            self.relays.push_back(Relay { before, until });
        }
        mine.iter().for_each(|&(inbox, count)| registry.owe(worker, inbox, count));
    }

    /// Reports how far the inbox of `worker` is, all outputs written: `delivered` items. Lets those connections go on whose
    /// wait is over.
    #[inline]
    pub(crate) fn report(&mut self, conns: &mut Conns, registry: &Registry, worker: usize, delivered: u64) {
        let idle = self.waiting.is_empty() && self.relays.is_empty();
        if !idle || self.reported.delivered != delivered {
            self.look(registry, worker, delivered);
            let is_over =
                |waiting: &mut Waiting| waiting.until.iter().all(|&(w, count)| registry.inbox(w).settled() >= count);
            self.waiting.extract_if(.., is_over).for_each(|waiting| conns.lift(waiting.who, WaitReasons::BARRIER));
        }
    }

    fn look(&mut self, registry: &Registry, own: usize, delivered: u64) {
        let waited_for = self.waiting.iter().map(|w| &w.until).chain(self.relays.iter().map(|r| &r.until));
        registry.await_reports(own, waited_for.flatten().map(|&(inbox, _)| inbox).filter(|&inbox| inbox != own));
        let arrived = |&(inbox, count): &(usize, u64)| match inbox {
            _ if inbox == own => delivered >= count,
            _ => registry.inbox(inbox).delivered() >= count,
        };
        while self.relays.front().is_some_and(|relay| relay.until.iter().all(arrived)) {
            self.relays.pop_front();
        }
        let settled = self.relays.front().map_or(delivered, |relay| relay.before);
        let report = Report { delivered, settled };
        if self.reported != report {
            self.reported = report;
            registry.report(own, delivered, settled);
        }
    }
}
