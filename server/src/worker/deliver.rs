//! When the items of the worker's inbox are delivered: a slice each turn of the loop, and around a connection's commands.
//!
//! A connection that listens is not served before it has got what was published until then: a client that knows of a
//! publishing finds the message before the reply to its next command. Not here: the delivery itself (features/pubsub).

use varve_protocol::{Mark, Reply};

use super::core::Core;
use crate::features::pubsub::delivery::{Served, deliver_slice};
use crate::features::pubsub::state::{ConnId, ConnRef};

impl Core {
    /// True if something lies in the inbox or is not delivered to everybody.
    #[inline]
    pub(super) fn owes_delivery(&self) -> bool {
        self.state.pubsub().inbox(self.index).pushed() != self.hub.done()
    }

    /// Delivers one slice.
    pub(super) fn fan_out(&mut self) {
        if self.owes_delivery() {
            self.deliver_slice(None);
        }
    }

    /// Delivers all that is owed after a connection that listens itself has published: what it gets stands before the
    /// reply, which is what `out` holds since `mark`.
    pub(super) fn deliver_before_reply(&mut self, conn: ConnId, mark: Mark, out: &mut Reply) {
        let reply = out.since(mark).to_vec();
        out.truncate(mark);
        while self.owes_delivery() {
            self.deliver_slice(Some(Served { conn, out }));
        }
        out.raw(&reply);
    }

    /// Delivers a slice after a connection that tracks has been served. Keys that its own commands made stale go out in one
    /// write with their replies: clients look for them, without waiting, before they use their copies.
    #[inline]
    pub(super) fn deliver_behind_replies(&mut self, conn: ConnId, out: &mut Reply) {
        let session = self.conns[conn].session();
        if session.tracking().on && !session.is_in_exec() && self.owes_delivery() {
            out.set_resp(session.resp());
            self.deliver_slice(Some(Served { conn, out }));
        }
    }

    fn deliver_slice(&mut self, served: Option<Served<'_>>) {
        let (registry, own, before) = (self.state.pubsub(), self.index, self.hub.done());
        let mine = if registry.owes(own) { registry.take_owed(own) } else { Vec::new() };
        let reached = deliver_slice(&mut self.hub, &mut self.conns, registry, served);
        self.barrier.relay(registry, own, before, &mine);
        for who @ ConnRef { conn, .. } in reached {
            if !self.conns.is_there(who) {
                continue;
            }
            if self.over_output_limit(conn, self.conns[conn].output().len()) {
                self.close(conn);
            } else {
                self.count(conn);
                self.conns.enqueue(conn);
            }
        }
    }

    /// True if the connection listens and has not got all that was published before its visit began; it is then put back.
    pub(super) fn is_behind(&mut self, id: ConnId) -> bool {
        let conn = &mut self.conns[id];
        if !conn.listens() {
            return false;
        }
        let behind = !conn.has_got(self.state.pubsub().inbox(self.index).pushed(), self.hub.done());
        if behind {
            self.conns.enqueue(id);
        }
        behind
    }
}
