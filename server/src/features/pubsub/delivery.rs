//! Delivery of the items in a worker's inbox to its connections, in slices.
//!
//! ```text
//!   inbox --> hub: who --> the messages' bytes, made once --> outputs, and the queue of those reached --> one write each
//! ```
//!
//! A turn of the loop delivers for [`TURN`] at most, so that ten thousand subscribers stop neither their worker nor, on
//! another one, the publisher. A slice also ends when a connection that takes what it is sent has [`AHEAD_BYTES`] unsent:
//! it is written before more is made for it. Not here: when a slice is due, and writing (worker/deliver.rs).

use std::sync::Arc;
use std::time::{Duration, Instant};

use varve_protocol::Reply;

use super::receivers::Receivers;
use super::state::{ConnId, ConnRef, Delivery, Home, Hub, Item, Latch, Receiver, Registry, Stale, What};
use crate::net::conn::Conn;
use crate::net::conns::Conns;

/// Time that one turn of the loop delivers, at most.
const TURN: Duration = Duration::from_millis(1);
/// Deliveries between two looks at the clock: a slice makes this number at least.
const CLOCK_EVERY: usize = 64;
/// Bytes that are given between two looks at the clock, about.
const CLOCK_BYTES: usize = 256 << 10;
/// A connection that takes what it is sent, and comes to this number of unsent bytes, is written before it gets more.
const AHEAD_BYTES: usize = 64 << 10;
/// Bytes of stale keys that are held back until a reply is complete: beyond, the client is told that all are.
const HELD_STALE_MAX: usize = 1 << 20;

/// The time that a turn of the loop still has for delivering.
#[derive(Debug, Default)]
pub(crate) struct DeliveryTime {
    spent: Duration,
}

impl DeliveryTime {
    /// A new turn begins.
    #[inline]
    pub(crate) fn begin_turn(&mut self) {
        self.spent = Duration::ZERO;
    }

    /// True if this turn has delivered for as long as it may.
    pub(crate) fn is_spent(&self) -> bool {
        self.spent >= TURN
    }
}

/// The connection that is being served, which has its output elsewhere.
pub(crate) struct Served<'o> {
    pub(crate) conn: ConnId,
    pub(crate) out: &'o mut Reply,
    /// Where stale keys go, if not there: behind the reply that it is being made.
    pub(crate) stale: Option<&'o mut Reply>,
}

/// Where a slice's deliveries go.
pub(crate) struct Place<'p> {
    pub(crate) conns: &'p mut Conns,
    pub(crate) registry: &'p Registry,
    /// The connections that get something into their own output.
    pub(crate) receivers: &'p mut Receivers,
    pub(crate) served: Option<Served<'p>>,
}

/// Delivers a slice: for what is left of the turn's time, and [`CLOCK_EVERY`] deliveries at least.
pub(crate) fn deliver_slice(hub: &mut Hub, place: Place<'_>, time: &mut DeliveryTime) {
    in_slice(hub, place, time, |hub, registry, slice| {
        hub.deliver(registry, slice);
    });
}

/// Gives a connection the last of the inbox's first `until` items, which it has published itself, ahead of what else is
/// owed ([`Hub::give_ahead`]). False if there is more to do in the next turn.
pub(crate) fn give_own(hub: &mut Hub, place: Place<'_>, time: &mut DeliveryTime, (who, until): (ConnRef, u64)) -> bool {
    in_slice(hub, place, time, |hub, registry, slice| hub.give_ahead(registry, who, until, slice))
}

fn in_slice<R>(
    hub: &mut Hub,
    place: Place<'_>,
    time: &mut DeliveryTime,
    deliver: impl FnOnce(&mut Hub, &Registry, &mut Slice<'_>) -> R,
) -> R {
    let begun = Instant::now();
    let until = begun + TURN.saturating_sub(time.spent);
    let (own, registry) = (hub.worker(), place.registry);
    let mut slice = Slice { place, own, until, deliveries: 0, bytes: 0, is_spent: false };
    let done = deliver(hub, registry, &mut slice);
    time.spent += begun.elapsed();
    done
}

struct Slice<'p> {
    place: Place<'p>,
    /// The worker.
    own: usize,
    until: Instant,
    /// Since the last look at the clock.
    deliveries: usize,
    bytes: usize,
    is_spent: bool,
}

impl Receiver for Slice<'_> {
    fn give(&mut self, delivery: Delivery<'_>) {
        let Delivery { to, what, latch } = delivery;
        let Place { conns, registry, receivers, served } = &mut self.place;
        let Some(conn) = conns.get_mut(to) else {
            // Its subscriptions end bit by bit.
            assert!(!matches!(what, What::Read(_) | What::Line(_)), "a closed connection tracks and monitors nothing");
            return;
        };
        let by = By { registry, own: self.own, latch };
        self.deliveries += 1;
        let session = conn.session();
        let redirect = session.tracking().redirect;
        let is_stale = what.is_stale_to(redirect == session.id());
        let is_for_others = redirect != 0 && redirect != session.id();
        let is_held = conn.holds_back(is_stale);
        if let Some(served) = served
            && served.conn == to.conn
            && !is_held
        {
            let apart = served.stale.as_deref_mut().filter(|_| is_stale);
            give(conn, what, apart.unwrap_or(served.out), &by);
            return;
        }
        let before = conn.unsent_bytes();
        match what {
            What::Messages(run, from) if !is_held => conn.write_output(|out| run.write(from, out)),
            what => {
                let mut out = conn.take_message_output(is_held);
                // While messages of any kind are held, the limits of output are theirs; stale keys alone have this one.
                let is_much = out.len() >= HELD_STALE_MAX && !conn.session().holds_messages();
                if is_held && is_stale && is_much && !is_for_others {
                    out = out.like();
                    give_all_stale(conn, &mut out);
                } else {
                    give(conn, what, &mut out, &by);
                }
                conn.keep_message_output(out, is_held);
            }
        }
        let unsent = conn.unsent_bytes();
        self.bytes += unsent.saturating_sub(before);
        self.is_spent |= before < AHEAD_BYTES && unsent >= AHEAD_BYTES && conn.may_write() && !is_held;
        receivers.add(conn);
    }

    fn is_spent(&mut self) -> bool {
        if self.deliveries >= CLOCK_EVERY || self.bytes >= CLOCK_BYTES {
            (self.deliveries, self.bytes) = (0, 0);
            self.is_spent |= Instant::now() >= self.until;
        }
        self.is_spent
    }

    fn close(&mut self, latch: Arc<Latch>) {
        self.place.receivers.close(latch);
    }
}

/// Where something is delivered, and who waits for it.
struct By<'b> {
    registry: &'b Registry,
    own: usize,
    latch: Option<&'b Arc<Latch>>,
}

/// Writes what a connection gets, or passes it on to the connection that gets it in its place.
fn give(conn: &mut Conn, what: What<'_>, out: &mut Reply, by: &By<'_>) {
    match what {
        What::Messages(run, from) => run.write(from, out),
        // CLIENT REPLY OFF holds back a monitor's lines and lets messages through, in redis-server too.
        What::Line(_) if conn.session().is_muted() => {}
        What::Line(line) => out.raw(line),
        What::Redirected(stale) => {
            if out.is_resp3() || conn.session().is_subscribed() {
                write_stale(out, stale);
            }
        }
        // Read while it did not broadcast: the change reaches it under its prefixes anyhow.
        What::Read(_) if conn.session().tracking().bcast => {}
        What::Read(stale) => pass_stale(conn, Some(stale), out, by),
        What::Stale(stale) => pass_stale(conn, stale, out, by),
    }
}

/// Sends stale keys (None: all keys) to a tracking connection, or to the connection that it redirects to. A user who may not
/// read a key does not learn of it: a connection that broadcasts is given all keys of its prefixes.
fn pass_stale(conn: &mut Conn, stale: Option<&Arc<Stale>>, out: &mut Reply, by: &By<'_>) {
    let tracking = *conn.session().tracking();
    let all = Arc::new(Stale::All);
    let stale = stale.unwrap_or(&all);
    let own_left_out = if tracking.no_loop { stale.without(conn.session().id()).map(Arc::new) } else { None };
    let stale = own_left_out.as_ref().unwrap_or(stale);
    let user = conn.session().user();
    let hides = tracking.bcast && !user.is_full();
    let hidden_left_out = hides.then(|| Arc::new(stale.of_keys(|key| user.may_read(key))));
    let stale = hidden_left_out.as_ref().unwrap_or(stale);
    if stale.is_empty() {
        return;
    }
    if tracking.redirect == 0 {
        if out.is_resp3() {
            write_stale(out, stale);
        }
        return;
    }
    match by.registry.home(tracking.redirect) {
        Some(Home { worker, conn }) => {
            let to = ConnRef { conn, client: tracking.redirect };
            let item = Item::Redirected(to, Arc::clone(stale));
            by.registry.pass_on(worker, by.own, item, 1, by.latch.cloned());
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

/// Tells a connection that keeps copies that every key is stale, in place of very many.
fn give_all_stale(conn: &Conn, out: &mut Reply) {
    if out.is_resp3() || conn.session().is_subscribed() {
        write_stale(out, &Stale::All);
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
