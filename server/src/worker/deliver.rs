//! Delivery of what lies in the worker's inbox to its connections, in slices.
//!
//! ```text
//!   inbox --> hub: who --> the message's bytes, made once --> outputs --> ready queue: one write a connection
//! ```
//!
//! At most [`SLICE`] deliveries a turn of the loop, so that ten thousand subscribers stop neither their worker nor, on
//! another one, the publisher. A connection that listens is not served before it has got what was published until then:
//! a client that knows of a publishing finds the message before the reply to its next command.

use std::sync::Arc;

use varve_protocol::{Mark, Reply};

use super::Worker;
use crate::features::pubsub::state::{Delivery, Home, Item, Kind, Message, Name, Registry, Stale, What};
use crate::net::conn::Conn;

/// Deliveries of one turn of the loop.
const SLICE: usize = 64;
impl Worker {
    /// True if something lies in the inbox or is not delivered to everybody.
    #[inline]
    pub(super) fn owes_delivery(&self) -> bool {
        self.state.pubsub.inbox(self.index).pushed() != self.hub.done()
    }

    /// Delivers one slice.
    pub(super) fn fan_out(&mut self) {
        if self.owes_delivery() {
            self.deliver_slice(None);
        }
    }

    /// Delivers all that is owed after the connection in `slot`, which listens itself, has published: what it gets
    /// stands before the reply, which is what `out` holds since `mark`.
    pub(super) fn deliver_before_reply(&mut self, slot: usize, mark: Mark, out: &mut Reply) {
        let reply = out.since(mark).to_vec();
        out.truncate(mark);
        while self.owes_delivery() {
            self.deliver_slice(Some((slot, out)));
        }
        out.raw(&reply);
    }

    /// Delivers a slice after a connection that tracks has been served. What its own commands made stale goes out in one
    /// write with their replies: clients look for it, without waiting, before they use what they keep.
    #[inline]
    pub(super) fn deliver_behind_replies(&mut self, slot: usize, out: &mut Reply) {
        let session = &self.conns[slot].session;
        if session.tracking.on && !session.in_exec && self.owes_delivery() {
            out.set_resp(session.resp);
            self.deliver_slice(Some((slot, out)));
        }
    }

    /// Delivers a slice. The connection that is being served has its output elsewhere.
    fn deliver_slice(&mut self, mut served: Option<(usize, &mut Reply)>) {
        let (conns, registry, own) = (&mut self.conns, &self.state.pubsub, self.index);
        let (before, mine) = (self.hub.done(), if registry.owes(own) { registry.take_owed(own) } else { Vec::new() });
        let mut reached = Vec::with_capacity(SLICE);
        self.hub.deliver(registry, SLICE, |delivery| {
            let Delivery { slot, id, what } = delivery;
            let Some(conn) = conns.get_mut(slot).filter(|conn| conn.session.id == id) else {
                assert!(matches!(what, What::Redirected(_)), "a closed connection listens to nothing");
                return;
            };
            match &mut served {
                Some((served, out)) if *served == slot => give(conn, what, out, registry, own),
                _ => {
                    let mut out = std::mem::take(&mut conn.output);
                    out.set_resp(conn.session.resp);
                    give(conn, what, &mut out, registry, own);
                    conn.output = out;
                    reached.push((slot, id));
                }
            }
        });
        self.relay(before, &mine);
        for (slot, id) in reached {
            if self.conns.get(slot).is_none_or(|conn| conn.session.id != id) {
                continue;
            }
            if self.over_output_limit(slot, self.conns[slot].output.len()) {
                self.close(slot);
            } else {
                self.weigh(slot);
                self.queue(slot);
            }
        }
    }

    /// True if the connection listens and has not got all that was published before its visit began; it is then put back.
    pub(super) fn is_behind(&mut self, slot: usize) -> bool {
        let conn = &mut self.conns[slot];
        if !conn.listens() {
            return false;
        }
        let until = *conn.due.get_or_insert(self.state.pubsub.inbox(self.index).pushed());
        if self.hub.done() < until {
            self.queue(slot);
            return true;
        }
        conn.due = None;
        false
    }
}

/// Writes what a connection gets, or passes it on to the connection that gets it in its place.
fn give(conn: &mut Conn, what: What<'_>, out: &mut Reply, registry: &Registry, own: usize) {
    match what {
        What::Message(message, pattern) => write_message(out, message, pattern),
        What::Line(line) => out.raw(line),
        What::Redirected(stale) => {
            if out.is_resp3() || conn.session.subscriptions > 0 {
                write_stale(out, stale);
            }
        }
        // Read while it did not broadcast: under its prefixes it hears of the change anyhow.
        What::Read(_) if conn.session.tracking.bcast => {}
        What::Read(stale) => tell_stale(conn, Some(stale), out, registry, own),
        What::Stale(stale) => tell_stale(conn, stale, out, registry, own),
    }
}

/// Tells a tracking connection of stale keys (None: of all), or the connection that it redirects to.
fn tell_stale(conn: &mut Conn, stale: Option<&Arc<Stale>>, out: &mut Reply, registry: &Registry, own: usize) {
    let tracking = &mut conn.session.tracking;
    let all = Arc::new(Stale::All);
    let stale = stale.unwrap_or(&all);
    let own_left_out = if tracking.no_loop { stale.without(conn.session.id).map(Arc::new) } else { None };
    let stale = own_left_out.as_ref().unwrap_or(stale);
    if stale.is_empty() {
        return;
    }
    if tracking.redirect == 0 {
        if out.is_resp3() {
            write_stale(out, stale);
        }
        return;
    }
    match registry.home(tracking.redirect) {
        Some(Home { worker, slot }) => {
            let item = Item::Redirected(slot, tracking.redirect, Arc::clone(stale));
            registry.send(worker, own, item);
        }
        None => {
            tracking.broken = true;
            if out.is_resp3() {
                out.push(2);
                out.bulk(b"tracking-redir-broken");
                out.integer(tracking.redirect as i64);
            }
        }
    }
}

/// Writes stale keys: a push of its own in RESP3, a message of a channel in RESP2.
fn write_stale(out: &mut Reply, stale: &Stale) {
    if out.is_resp3() {
        out.push(2);
        out.bulk(b"invalidate");
    } else {
        out.push(3);
        out.bulk(b"message");
        out.bulk(b"__redis__:invalidate");
    }
    match stale {
        Stale::All => out.null(),
        Stale::Keys(keys) => {
            out.array(keys.len());
            keys.iter().for_each(|(key, _)| out.bulk(key));
        }
    }
}

/// Writes a message as its receiver gets it.
fn write_message(out: &mut Reply, message: &Message, pattern: Option<&Name>) {
    match pattern {
        Some(pattern) => {
            out.push(4);
            out.bulk(Kind::Pattern.message().as_bytes());
            out.bulk(pattern);
        }
        None => {
            out.push(3);
            out.bulk(message.kind.message().as_bytes());
        }
    }
    out.bulk(&message.channel);
    if message.payload.is_large() {
        out.bulk_pinned(Box::new(message.payload.clone()));
    } else {
        out.bulk(message.payload.as_ref());
    }
}
