//! Delivery of the items in a worker's inbox to its connections, in slices.
//!
//! ```text
//!   inbox --> hub: who --> the message's bytes, made once --> outputs --> ready queue: one write a connection
//! ```
//!
//! At most [`SLICE`] deliveries a turn of the loop, so that ten thousand subscribers stop neither their worker nor, on
//! another one, the publisher. Not here: when a slice is due (worker/deliver.rs).

use std::sync::Arc;

use varve_protocol::Reply;

use super::state::{ConnId, ConnRef};
use super::state::{Delivery, Home, Hub, Item, Kind, Message, Name, Registry, Stale, What};
use crate::net::conn::Conn;
use crate::net::conns::Conns;

/// Deliveries of one turn of the loop.
const SLICE: usize = 64;

/// The connection that is being served, which has its output elsewhere.
pub(crate) struct Served<'o> {
    pub(crate) conn: ConnId,
    pub(crate) out: &'o mut Reply,
}

/// Delivers a slice. Returns the connections that got something into their own output.
pub(crate) fn deliver_slice(
    hub: &mut Hub,
    conns: &mut Conns,
    registry: &Registry,
    mut served: Option<Served<'_>>,
) -> Vec<ConnRef> {
    let own = hub.worker();
    let mut reached = Vec::with_capacity(SLICE);
    hub.deliver(registry, SLICE, |Delivery { to, what }| {
        let Some(conn) = conns.get_mut(to) else {
            assert!(matches!(what, What::Redirected(_)), "a closed connection listens to nothing");
            return;
        };
        match &mut served {
            Some(served) if served.conn == to.conn => give(conn, what, served.out, registry, own),
            _ => {
                let mut out = conn.take_output();
                out.set_resp(conn.session().resp());
                give(conn, what, &mut out, registry, own);
                conn.keep_output(out);
                reached.push(to);
            }
        }
    });
    reached
}

/// Writes what a connection gets, or passes it on to the connection that gets it in its place.
fn give(conn: &mut Conn, what: What<'_>, out: &mut Reply, registry: &Registry, own: usize) {
    match what {
        What::Message(message, pattern) => write_message(out, message, pattern),
        What::Line(line) => out.raw(line),
        What::Redirected(stale) => {
            if out.is_resp3() || conn.session().is_subscribed() {
                write_stale(out, stale);
            }
        }
        // Read while it did not broadcast: the change reaches it under its prefixes anyhow.
        What::Read(_) if conn.session().tracking().bcast => {}
        What::Read(stale) => pass_stale(conn, Some(stale), out, registry, own),
        What::Stale(stale) => pass_stale(conn, stale, out, registry, own),
    }
}

/// Sends stale keys (None: all keys) to a tracking connection, or to the connection that it redirects to.
fn pass_stale(conn: &mut Conn, stale: Option<&Arc<Stale>>, out: &mut Reply, registry: &Registry, own: usize) {
    let tracking = *conn.session().tracking();
    let all = Arc::new(Stale::All);
    let stale = stale.unwrap_or(&all);
    let own_left_out = if tracking.no_loop { stale.without(conn.session().id()).map(Arc::new) } else { None };
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
        Some(Home { worker, conn }) => {
            let to = ConnRef { conn, client: tracking.redirect };
            let item = Item::Redirected(to, Arc::clone(stale));
            registry.send(worker, own, item);
        }
        None => {
            conn.session_mut().note_broken_redirect();
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
