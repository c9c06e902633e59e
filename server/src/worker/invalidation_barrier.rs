//! Replies that wait until others have been told: what a connection's commands have made stale is with the connections
//! that keep copies of it before its replies leave, on whichever workers those are. With one thread it is so by itself.
//!
//! ```text
//!   visit:           commands --stale keys--> inboxes of workers; Registry::take_owed: the counts they must come to
//!                    replies stay in the output, the connection stands aside (Conn::awaits)
//!   those workers:   deliver, write, report how far they are, wake who waits
//!   a later turn:    the counts are reached: the connection goes on
//! ```
//! Only writes of keys that somebody tracks pay for it: each such visit one way to the other worker and back.
//!
//! A tracking connection may have its messages sent to another one (REDIRECT), of a third worker: what passes them on, a
//! relay, is delivered at once and settled when they have arrived. Connections wait until all is settled, relays for
//! deliveries only, so that no workers wait for each other in a ring.
//!
//! Not told in this sense: messages of channels, and what the store does by itself (expiry, eviction by the background).

use std::collections::VecDeque;

use super::{Ready, Worker};

/// Inboxes, and the counts that they must come to.
type Counts = Vec<(usize, u64)>;

/// See the module's text.
#[derive(Debug, Default)]
pub(super) struct InvalidationBarrier {
    waiting: Vec<Waiting>,
    /// Oldest first.
    relays: VecDeque<Relay>,
    /// What was last reported of the own inbox: items delivered, items settled.
    reported: (u64, u64),
}

/// A connection whose replies wait.
#[derive(Debug)]
struct Waiting {
    who: Ready,
    until: Counts,
}

/// Items that were passed on.
#[derive(Debug)]
struct Relay {
    /// Items of the own inbox that were delivered before.
    before: u64,
    until: Counts,
}

impl Worker {
    /// The connection's replies wait if its commands have made something stale that others keep.
    #[inline]
    pub(super) fn stand_by(&mut self, slot: usize) {
        if self.state.pubsub.owes(self.index) {
            self.stand_aside(slot);
        }
    }

    #[cold]
    fn stand_aside(&mut self, slot: usize) {
        let until = self.state.pubsub.take_owed(self.index);
        let conn = &mut self.conns[slot];
        let who = Ready { slot, id: conn.session.id };
        if !conn.awaits {
            conn.awaits = true;
            self.told.waiting.push(Waiting { who, until });
            return;
        }
        // It runs nothing, but what it reads is admitted, and keys are evicted for that.
        let waiting = self.told.waiting.iter_mut().find(|waiting| waiting.who == who).expect("it waits");
        waiting.until.extend(until);
    }

    /// What nobody waits for: made stale by the background.
    #[inline]
    pub(super) fn forget_owed(&mut self) {
        if self.state.pubsub.owes(self.index) {
            self.state.pubsub.take_owed(self.index);
        }
    }

    /// Notes that what has been owed since `mine` was taken out was passed on by a delivery.
    #[inline]
    pub(super) fn relay(&mut self, before: u64, mine: &Counts) {
        if self.state.pubsub.owes(self.index) {
            let until = self.state.pubsub.take_owed(self.index);
            self.told.relays.push_back(Relay { before, until });
        }
        mine.iter().for_each(|&(inbox, count)| self.state.pubsub.owe(self.index, inbox, count));
    }

    /// Reports how far the inbox is, all outputs written, and lets those go on whose wait is over.
    #[inline]
    pub(super) fn report_told(&mut self) {
        let idle = self.told.waiting.is_empty() && self.told.relays.is_empty();
        if !idle || self.told.reported.0 != self.hub.done() {
            self.look_who_is_told();
        }
    }

    fn look_who_is_told(&mut self) {
        let (registry, own, delivered) = (&self.state.pubsub, self.index, self.hub.done());
        let told = &mut self.told;
        let waited_for = told.waiting.iter().map(|w| &w.until).chain(told.relays.iter().map(|r| &r.until));
        registry.await_reports(own, waited_for.flatten().map(|&(inbox, _)| inbox).filter(|&inbox| inbox != own));
        let arrived = |&(inbox, count): &(usize, u64)| match inbox {
            _ if inbox == own => delivered >= count,
            _ => registry.inbox(inbox).delivered() >= count,
        };
        while told.relays.front().is_some_and(|relay| relay.until.iter().all(arrived)) {
            told.relays.pop_front();
        }
        let settled = told.relays.front().map_or(delivered, |relay| relay.before);
        if told.reported != (delivered, settled) {
            told.reported = (delivered, settled);
            registry.report(own, delivered, settled);
        }
        let is_over =
            |waiting: &mut Waiting| waiting.until.iter().all(|&(w, count)| registry.inbox(w).settled() >= count);
        let over: Vec<Waiting> = told.waiting.extract_if(.., is_over).collect();
        for Waiting { who: Ready { slot, id }, .. } in over {
            if let Some(conn) = self.conns.get_mut(slot).filter(|conn| conn.session.id == id) {
                conn.awaits = false;
                self.queue(slot);
            }
        }
    }
}
