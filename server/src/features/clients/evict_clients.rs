//! `maxmemory-clients`: the largest clients are closed while all together take too much. Without that setting half of the
//! machine's memory is too much (`state::room`).
//!
//! ```text
//!   visit, delivery --count--> the worker's weights ---+
//!                              the other workers' -----+--> over the limit, at the end of a turn of the loop:
//!                                                             the largest are here: close them, one after the other
//!                                                             they are elsewhere:   Message::EvictClients to their worker
//! ```
//! As in Redis the largest are those of the highest class (`state::weights`), in no order among themselves.

use super::line::{memory, weight};
use super::state::weights::class;
use crate::features::pubsub::state::ConnRef;
use crate::net::conn::{Conn, Counted};
use crate::net::conns::Conns;
use crate::state::{ServerState, WorkerHandle};

/// Counts what the connection takes now.
#[inline]
pub(crate) fn count(conn: &mut Conn, worker: &WorkerHandle) {
    let stays = conn.session().is_no_evict() || conn.following().is_some();
    let weight = if stays { 0 } else { weight(conn) };
    let (bytes, stranger_bytes) = charged(conn);
    let (before, now) = (conn.counted(), Counted { weight, bytes, stranger_bytes });
    if now != before {
        recount(before, now, worker);
        conn.set_counted(now);
    }
}

/// The bytes of a connection that count against `maxmemory`, and those that count among the strangers'. Lines that a
/// monitor does not read are in neither: its output limit bounds them, and they must not cost a key its place.
#[inline]
fn charged(conn: &Conn) -> (usize, usize) {
    let bytes = memory(conn);
    if !conn.session().is_authenticated() {
        return (0, bytes - size_of::<Conn>());
    }
    let unread = if conn.session().is_monitor() { conn.output().held_bytes() } else { 0 };
    (bytes - unread, 0)
}

/// A connection is closed.
pub(crate) fn forget(conn: &Conn, worker: &WorkerHandle) {
    recount(conn.counted(), Counted::default(), worker);
}

fn recount(before: Counted, now: Counted, worker: &WorkerHandle) {
    if now.bytes != before.bytes {
        worker.stats().buffer_bytes.change(before.bytes, now.bytes);
    }
    if now.stranger_bytes != before.stranger_bytes {
        worker.stats().stranger_bytes.change(before.stranger_bytes, now.stranger_bytes);
    }
    if now.weight != before.weight {
        worker.weights().change(before.weight, now.weight);
    }
}

/// Bytes of the clients of all workers together.
pub(crate) fn total(state: &ServerState) -> u64 {
    state.workers().iter().map(|worker| worker.weights().total()).sum()
}

/// The largest clients, if they are those of worker `own`. If they are another worker's it is told, once, and there are
/// none here.
#[cold]
pub(crate) fn largest(conns: &Conns, state: &ServerState, own: usize) -> Vec<ConnRef> {
    let workers = &state.workers();
    let Some(top) = workers.iter().filter_map(|worker| worker.weights().top()).max() else { return Vec::new() };
    if workers[own].weights().top() != Some(top) {
        let elsewhere = workers.iter().find(|worker| worker.weights().top() == Some(top));
        elsewhere.into_iter().for_each(WorkerHandle::ask_to_evict);
        return Vec::new();
    }
    let is_largest = |conn: &&Conn| conn.counted().weight > 0 && class(conn.counted().weight) == top;
    conns.iter().filter(is_largest).map(Conn::who).collect()
}
