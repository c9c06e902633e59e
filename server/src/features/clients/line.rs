//! A client as others see it: the line of CLIENT LIST and CLIENT INFO; and the bytes that it takes.
//!
//! ```text
//!   id=4 addr=127.0.0.1:50812 laddr=127.0.0.1:6379 fd=8 name= age=0 ... cmd=client|list user=default redir=-1 resp=2
//! ```
//!
//! Fields stand in Redis 7.0's order, all of them; those of features that connections do not have are constant. Not here:
//! asking the other workers (worker/ask_all_workers.rs), which connections a filter admits (filter.rs).

use std::borrow::Cow;
use std::fmt::Write;

use varve_protocol::Resp;

use crate::features::pubsub::state::Kind;
use crate::net::conn::{Conn, WaitReasons};
use crate::net::stream::Ends;

/// Bytes of a name that a line shows: CLIENT GETNAME replies with all of it.
const TEXT_BYTES_MAX: usize = 4096;

/// All bytes that a client costs: what the connection takes, values that are received or sent, and elements that are kept
/// for its reply as they were, which both lie in the store. What `maxmemory-clients` bounds, and CLIENT LIST shows. A value
/// that is received weighs from its first byte on what it is going to be: when it is whole its command runs at once, and
/// nobody has looked at its client.
#[inline]
pub(crate) fn weight(conn: &Conn) -> usize {
    let in_store = conn.requests().announced_bytes() + conn.output().pinned_bytes() + conn.session().kept_bytes();
    memory(conn) + in_store
}

/// Bytes that a connection takes: itself and its buffers.
pub(crate) fn memory(conn: &Conn) -> usize {
    let session = conn.session();
    let subscriptions = conn.subscriptions().map_or(0, |subscriptions| subscriptions.memory());
    let ongoing = session.ongoing_bytes() + conn.parts_bytes();
    let waiting = session.queued_bytes() + session.watched_bytes() + ongoing + session.waiting_bytes();
    let buffers = conn.requests().held_bytes() + conn.output_held_bytes() + conn.socket().tls_bytes();
    size_of::<Conn>() + session.text_bytes() + waiting + subscriptions + buffers
}

/// The connection's line, without a line feed. `now_ms` is milliseconds of Unix time.
pub(crate) fn line(conn: &Conn, now_ms: i64) -> String {
    let (session, ends) = (conn.session(), conn.socket().ends());
    let age = |since: i64| (now_ms - since).max(0) / 1000;
    let mut out = String::with_capacity(320);
    let (name, user) = (shown(session.name()), shown(session.user().name()));
    let command = session.last_command().map_or("NULL", |descriptor| descriptor.full_name);
    let argument_bytes = if conn.requests().is_running() { session.argument_bytes() } else { 0 };
    let (sending, by_reference) = (conn.output_held_bytes(), conn.output().pinned_bytes());
    let subscribed = |kind| conn.subscriptions().map_or(0, |subscriptions| subscriptions.of(kind).len());
    let [channels, patterns, shards] = [Kind::Channel, Kind::Pattern, Kind::Shard].map(subscribed);
    let redirect = if session.tracking().on { session.tracking().redirect as i64 } else { -1 };
    write!(out, "id={} addr={} laddr={} fd={}", session.id(), ends.peer(), ends.local(), conn.socket().fd())
        .and_then(|()| write!(out, " name={name} age={}", age(session.created_ms())))
        .and_then(|()| write!(out, " idle={} flags={} db={}", age(session.active_ms()), flags(conn), session.db()))
        .and_then(|()| {
            write!(
                out,
                " sub={channels} psub={patterns} ssub={shards} multi={}",
                session.queued().map_or(-1, |n| n as i64)
            )
        })
        .and_then(|()| {
            write!(out, " qbuf={} qbuf-free={}", conn.requests().unread_bytes(), conn.requests().free_bytes())
        })
        .and_then(|()| write!(out, " argv-mem={argument_bytes} multi-mem={} rbs=0 rbp=0", session.queued_bytes()))
        .and_then(|()| {
            write!(out, " obl=0 oll={} omem={}", u8::from(!conn.output().is_empty()), sending + by_reference)
        })
        .and_then(|()| write!(out, " tot-mem={} events={}", weight(conn) + argument_bytes, events(conn)))
        .and_then(|()| write!(out, " cmd={command} user={user} redir={redirect}"))
        .and_then(|()| write!(out, " resp={}", if session.resp() == Resp::V3 { 3 } else { 2 }))
        .expect("a String takes all that is written");
    out
}

/// A text of the client's. No limit bounds its length, and a line goes into logs, once for each request that is denied.
fn shown(text: &[u8]) -> Cow<'_, str> {
    String::from_utf8_lossy(&text[..text.len().min(TEXT_BYTES_MAX)])
}

/// The letters of `flags`, in the peer's order; N where there is none.
fn flags(conn: &Conn) -> String {
    let mut out = String::new();
    if conn.session().is_monitor() {
        out.push('O');
    }
    if conn.following().is_some() {
        out.push('S');
    }
    if conn.session().is_subscribed() {
        out.push('P');
    }
    if conn.session().queued().is_some() {
        out.push('x');
    }
    if conn.waits(WaitReasons::KEYS) || conn.waits(WaitReasons::PAUSE) {
        out.push('b');
    }
    let tracking = conn.session().tracking();
    let letters = [(tracking.on, 't'), (tracking.broken, 'R'), (tracking.bcast, 'B')];
    out.extend(letters.iter().filter(|(is, _)| *is).map(|(_, letter)| letter));
    if conn.session().is_touched() {
        out.push('d');
    }
    if conn.waits(WaitReasons::CLOSING) || conn.session().ends_after_reply() {
        out.push('c');
    }
    if matches!(conn.socket().ends(), Ends::Unix(_)) {
        out.push('U');
    }
    if conn.session().is_no_evict() {
        out.push('e');
    }
    if conn.session().is_no_touch() {
        out.push('T');
    }
    if out.is_empty() {
        out.push('N');
    }
    out
}

/// The events that the connection waits for: reading, and writing where the socket is full.
fn events(conn: &Conn) -> &'static str {
    match (conn.waits(WaitReasons::CLOSING), conn.socket().is_full()) {
        (false, false) => "r",
        (false, true) => "rw",
        (true, true) => "w",
        (true, false) => "",
    }
}
