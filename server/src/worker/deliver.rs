//! When the items of the worker's inbox are delivered, and the writing of those that they reach.
//!
//! ```text
//!   turn of the loop:  visits --> a slice --> writes of those reached --> shares are dropped, waiting connections go on
//!                       | a connection that listens, or has published itself: a slice before, of the same turn's time
//! ```
//! A client may rely on these:
//! - All listeners of a channel see one order, in which the messages of one publisher have theirs.
//! - A message of the client's own stands before the reply to its PUBLISH, however much else is owed. Where more is owed
//!   than a turn delivers, it comes ahead of the others' messages, but for those of the same channel or pattern that were
//!   published before it: so the reply waits for nobody else's deliveries.
//! - Messages that were published before a client that waited for keys was served stand before its reply.
//! - No message stands inside another reply.
//! - Keys that a write made stale are with those who keep copies before the writer has its reply; where such a client is being
//!   sent a reply in parts, or waits for that of a transaction or a script, behind that reply, which may have the old value.
//! - What its own commands have brought to it is there before the same pipeline ends its listening, as far as a slice
//!   reaches: messages of its transaction stand before EXEC's reply, and its last ones before QUIT's.
//! - Under `appendfsync always`: what it gets tells of nothing that the append-only file does not have.
//! - Messages that were published before stand before a reply, unless more is owed than a turn delivers: then PING and
//!   UNSUBSCRIBE are answered at once, and messages of others come behind. So a flood keeps no listener from its answers.
//!
//! Not here: the delivery itself (features/pubsub).

use std::mem;
use std::time::{Duration, Instant};

use varve_protocol::{Mark, Reply};

use super::core::Core;
use crate::features::pubsub::delivery::{Place, Served, deliver_slice, give_own};
use crate::features::pubsub::state::{ConnId, ConnRef};
use crate::net::conn::WaitReasons;

/// Time that one turn of the loop writes to those reached, at most.
const TURN: Duration = Duration::from_millis(1);
/// Writes between two looks at the clock.
const CLOCK_EVERY: usize = 8;

impl Core {
    /// True if something lies in the inbox, is not delivered to everybody, or is not written.
    #[inline]
    pub(super) fn owes_delivery(&self) -> bool {
        self.hub.owes(self.state.pubsub()) || !self.receivers.is_empty()
    }

    /// The worker is about to wait: true if nothing has come meanwhile. Whatever comes from then on wakes it.
    #[inline]
    pub(super) fn may_rest(&mut self) -> bool {
        self.hub.rest(self.state.pubsub())
    }

    /// Delivers one slice and writes to those reached. Lets those connections go on whose replies waited for messages of
    /// their own, or for others to know, and those that waited for room in inboxes.
    #[inline]
    pub(super) fn fan_out(&mut self) {
        if self.hub.owes(self.state.pubsub()) {
            self.deliver_slice(None);
        }
        if !self.receivers.is_empty() {
            self.write_reached();
        }
        if self.held_replies.own_count() > 0 {
            self.give_all_own();
        }
        self.held_replies.release_served(&mut self.conns, self.hub.done());
        self.publishers.release(&mut self.conns, self.state.pubsub());
        for who in self.state.pubsub().inbox(self.index).opened().take() {
            self.barrier.open(&mut self.conns, who);
        }
    }

    /// A visit to this connection begins: if it listens, it gets what was published before, as far as the turn's time
    /// reaches.
    #[inline]
    pub(super) fn catch_up(&mut self, conn: ConnId) {
        if self.conns[conn].listens() && self.hub.owes(self.state.pubsub()) && !self.delivery_time.is_spent() {
            self.deliver_slice(None);
        }
    }

    /// A connection that listens itself has published: what it gets stands before the reply, which is what `out` holds
    /// since `mark`. True if not all is delivered, and the connection waits with its reply.
    pub(super) fn deliver_before_reply(&mut self, conn: ConnId, mark: Mark, out: &mut Reply) -> bool {
        let reply = out.split_off(mark);
        let until = self.state.pubsub().inbox(self.index).own_pushed();
        if self.hub.done() < until {
            self.deliver_slice(Some(Served { conn, out, stale: None }));
        }
        let who = self.conns[conn].who();
        let waits = !self.give_own(who, until, Some(Served { conn, out, stale: None }));
        if waits {
            self.held_replies.hold_own(&mut self.conns[conn], until, reply);
        } else {
            out.append(reply);
        }
        waits
    }

    /// Goes on with connections that wait for messages of their own, each once, as far as the turn's time reaches.
    #[cold]
    fn give_all_own(&mut self) {
        for nth in 0..self.held_replies.own_count() {
            if nth > 0 && self.delivery_time.is_spent() {
                break;
            }
            let Some(held) = self.held_replies.next_own() else { break };
            if self.conns.is_there(held.who) && !self.give_own(held.who, held.until, None) {
                self.held_replies.wait_on(held);
            } else {
                held.release(&mut self.conns);
            }
        }
    }

    /// Gives a connection the last of `until` items, its own message. False if there is more to do.
    fn give_own(&mut self, who: ConnRef, until: u64, served: Option<Served<'_>>) -> bool {
        if until <= self.hub.done() {
            return true;
        }
        let registry = self.state.pubsub();
        let place = Place { conns: &mut self.conns, registry, receivers: &mut self.receivers, served };
        give_own(&mut self.hub, place, &mut self.delivery_time, (who, until))
    }

    /// A command of the server is about to run, which may end what the connection listens to: a slice of what is owed stands
    /// before its reply. Else UNSUBSCRIBE would take from a client the messages of its own commands in the same pipeline.
    #[inline]
    pub(super) fn deliver_before_own(&mut self, conn: ConnId, out: &mut Reply) {
        if self.conns[conn].listens() {
            self.deliver_owed(Served { conn, out, stale: None });
        }
    }

    /// A command of the server is about to run inside EXEC: like [`Core::deliver_before_own`], but that stale keys go to `stale`, for
    /// behind EXEC's reply. In front of it, they would be about copies that the client is yet to make of that reply.
    pub(super) fn deliver_in_exec(&mut self, conn: ConnId, out: &mut Reply, stale: &mut Reply) {
        if self.conns[conn].listens() {
            self.deliver_owed(Served { conn, out, stale: Some(stale) });
        }
    }

    /// The connection ends: a slice of what it is owed stands before its last reply, which is what `out` holds since `mark`.
    pub(super) fn deliver_last(&mut self, conn: ConnId, mark: Mark, out: &mut Reply) {
        if self.conns[conn].listens() {
            let reply = out.split_off(mark);
            self.deliver_owed(Served { conn, out, stale: None });
            out.append(reply);
        }
    }

    #[cold]
    fn deliver_owed(&mut self, served: Served<'_>) {
        self.state.tracking().flush(self.index);
        if !self.has_script_of_another(served.conn) {
            self.state.tracking().flush(self.state.pubsub().scripts_of(self.index));
        }
        if self.hub.owes(self.state.pubsub()) {
            self.deliver_slice(Some(served));
        }
    }

    /// Delivers a slice after a connection that tracks has been served. Keys that its own commands made stale go out in one
    /// write with their replies: clients look for them, without waiting, before they use their copies.
    #[inline]
    pub(super) fn deliver_behind_replies(&mut self, conn: ConnId, out: &mut Reply) {
        let session = self.conns[conn].session();
        if session.tracking().on && !session.is_in_exec() && self.hub.owes(self.state.pubsub()) {
            out.set_resp(session.resp());
            self.deliver_slice(Some(Served { conn, out, stale: None }));
        }
    }

    fn deliver_slice(&mut self, served: Option<Served<'_>>) {
        let registry = self.state.pubsub();
        let place = Place { conns: &mut self.conns, registry, receivers: &mut self.receivers, served };
        deliver_slice(&mut self.hub, place, &mut self.delivery_time);
    }

    /// Writes to connections that were reached, for [`TURN`] at most, and drops the shares of what is written.
    fn write_reached(&mut self) {
        let until = Instant::now() + TURN;
        let mut writes = 0;
        while let Some(who) = self.receivers.next() {
            // To close a connection with megabytes unsent takes a millisecond by itself.
            writes += if self.write_receiver(who) { 1 } else { CLOCK_EVERY };
            if writes >= CLOCK_EVERY && mem::take(&mut writes) > 0 && Instant::now() >= until {
                break;
            }
        }
        let opened = self.state.pubsub().inbox(self.index).opened();
        while let Some(latch) = self.receivers.next_latch() {
            if let Some(who) = latch.end(opened) {
                self.barrier.open(&mut self.conns, who);
            }
        }
    }

    /// Writes to a connection that was reached; false if it is closed.
    fn write_receiver(&mut self, who: ConnRef) -> bool {
        let Some(conn) = self.conns.get_mut(who) else { return true };
        conn.note_written();
        let waited = conn.waits(WaitReasons::OUTPUT);
        if self.over_output(who.conn) || self.flush_waiting(who.conn).is_err() {
            self.close(who.conn);
            return false;
        }
        self.balance(who.conn);
        let conn = &mut self.conns[who.conn];
        let goes_on = waited && !conn.waits(WaitReasons::OUTPUT);
        if goes_on || conn.is_done() || (!conn.output().is_empty() && conn.may_write()) {
            self.conns.enqueue(who.conn);
        }
        self.count(who.conn);
        true
    }
}
