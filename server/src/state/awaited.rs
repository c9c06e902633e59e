//! Copies that clients wait for (WAIT, WAITAOF): whether they are there, and who is looked at when there are more.
//!
//! The clients themselves stand in `replication/state/waiters.rs`; a replica's acknowledgement and the file's thread both ask
//! for a look.

use varve_exec::Awaited;

use super::ServerState;
use super::mail::Message;
use crate::config::Fsync;

/// Replicas that have what is awaited.
pub(crate) fn replicas(state: &ServerState, awaited: Awaited) -> u64 {
    let offset = state.replication().ids().offset(awaited.position);
    state.replication().replicas().acked(offset, awaited.files.is_some()) as u64
}

/// True if this server's append-only file has what is awaited.
pub(crate) fn is_filed(state: &ServerState, awaited: Awaited) -> bool {
    let append = &state.config().snapshot().append;
    // Where nobody syncs, nothing is known to be on disk.
    append.on && append.fsync != Fsync::No && state.persist().aof.journal().synced() >= awaited.position
}

/// True if there are as many copies as are awaited.
pub(crate) fn is_reached(state: &ServerState, awaited: Awaited) -> bool {
    replicas(state, awaited) >= awaited.replicas && (awaited.files != Some(true) || is_filed(state, awaited))
}

/// More copies may be there: clients that waited for them are looked at.
pub(crate) fn look(state: &ServerState) {
    for waiter in state.replication().waiters().take_reached(|awaited| is_reached(state, awaited)) {
        state.workers()[waiter.worker].send(Message::Copied { client: waiter.client });
    }
}
