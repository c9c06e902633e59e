//! The journal without a file: what workers append goes to replicas alone. And the way from the journal's thread to them.
//!
//! ```text
//!   a file is kept        thread.rs    takes, hands on to the backlog, writes, syncs
//!   a stream alone        here         takes, hands on to the backlog
//!   neither               no thread, and nothing is appended
//! ```
//! One thread takes from the journal at a time: the next one begins behind the cut that ends the one before it.

use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use varve_aof::StreamPlace;
use varve_exec::journal::{Chunk, Cut, Reached, Taken};
use varve_store::{EffectSink, StoreWorker};

use super::thread::REST;
use crate::state::mail::Message;
use crate::state::{ServerState, awaited};
use crate::system::{error_text, random, threads};

/// How long the thread waits for something to take.
const WAIT: Duration = Duration::from_secs(1);

/// Why no stream has begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoStream {
    /// The gate is not to be had.
    Busy,
    /// The system gives no thread, or no random number.
    Refused,
}

/// Has effects kept for replicas, if they are not; the gate was tried for `tries` times before. The worker is outside the gate.
pub(crate) fn begin(state: &Arc<ServerState>, worker: &mut StoreWorker, tries: u32) -> Result<(), NoStream> {
    if state.replication().is_kept() {
        return Ok(());
    }
    let Some(_alone) = state.store().gate().try_exclusive(worker.id(), tries) else {
        return Err(NoStream::Busy);
    };
    // Another worker may have had the gate before.
    if state.replication().is_kept() {
        return Ok(());
    }
    let aof = &state.persist().aof;
    let refused = |error: io::Error| {
        tracing::warn!("Can't begin the replication stream: {}", error_text(&error));
        NoStream::Refused
    };
    let id = random::hex(40).map_err(refused)?;
    if !aof.is_on() {
        aof.begin_stream(spawn(state).map_err(refused)?);
    }
    state.replication().begin(id, aof.journal().say_database_again());
    note_history(state);
    follow_keeping(state);
    Ok(())
}

/// The stream of before the start goes on, which a file has noted: replicas that have all of it need no data set. A primary's id
/// is another one, since nobody knows whether what others had of it was all in that file. No clients are served yet.
///
/// # Errors
/// The system gives no thread, or no random number.
pub(in super::super) fn carry_on(state: &Arc<ServerState>, carried: &StreamPlace) -> io::Result<()> {
    let (aof, id) = (&state.persist().aof, random::hex(40)?);
    if !aof.is_on() {
        aof.begin_stream(spawn(state)?);
    }
    match state.store().is_following() {
        true => state.replication().carry_on_following(carried, aof.journal().follow_from(carried.db)),
        false => state.replication().carry_on(id, carried, aof.journal().say_database_again()),
    }
    note_history(state);
    follow_keeping(state);
    tracing::info!("The replication stream goes on at offset {} with the history {}", carried.offset, carried.id);
    Ok(())
}

/// The history of the stream is another one from here on: files note that. The gate is held alone, or no clients are served.
pub(crate) fn note_history(state: &ServerState) {
    state.persist().aof.journal().set_origin(state.replication().ids().origin());
}

/// Has the bytes of a primary, which begin in database `db`, kept for replicas, if they are not. The gate is held alone.
///
/// # Errors
/// The system gives no thread.
pub(crate) fn begin_following(state: &Arc<ServerState>, db: u32) -> io::Result<()> {
    let aof = &state.persist().aof;
    let at = aof.journal().follow_from(db);
    if !state.replication().is_kept() {
        if !aof.is_on() {
            aof.begin_stream(spawn(state)?);
        }
        state.replication().begin_following(at);
        note_history(state);
    }
    Ok(())
}

/// The history that the stream was is not this server's any more: nothing of it is kept, and replicas have to ask again. The gate
/// is held alone.
pub(crate) fn lose(state: &ServerState, id: String) {
    let (replication, aof) = (state.replication(), &state.persist().aof);
    replication.end(id, aof.journal().end());
    note_history(state);
    replication.replicas().end_all("the data that it has a copy of is given up");
    wake(state);
    if !aof.is_on() {
        aof.stop();
    }
}

/// The effects of this server's own are kept while a file or replicas want them and no other server decides what changes. The
/// gate is held alone.
pub(crate) fn follow_keeping(state: &ServerState) {
    let (store, has_replicas) = (state.store(), state.replication().is_kept());
    let leads = !store.is_following();
    store.keep_effects(leads && (state.persist().aof.is_on() || has_replicas));
    store.stream_journal(leads && has_replicas);
    store.file_journal(state.persist().aof.is_on());
}

/// Keeps no effects for replicas any more, of which there are none. False, and nothing is done, if the gate is not to be had
/// or a replica has come. The worker is outside the gate.
pub(crate) fn end(state: &Arc<ServerState>, worker: &mut StoreWorker) -> bool {
    let Ok(id) = random::hex(40) else { return false };
    let Some(_alone) = state.store().gate().try_exclusive(worker.id(), 0) else { return false };
    let aof = &state.persist().aof;
    if !state.replication().end_if_alone(id, aof.journal().end()) {
        return false;
    }
    note_history(state);
    if !aof.is_on() {
        aof.stop();
    }
    follow_keeping(state);
    true
}

/// Starts the thread that takes where no file is kept: behind the end of the one before it, if there is one.
pub(super) fn spawn(state: &Arc<ServerState>) -> io::Result<JoinHandle<()>> {
    let (feeder, before) = (Arc::clone(state), state.persist().aof.take_thread());
    threads::start("stream", move || {
        if let Some(before) = before {
            before.join().expect("the journal's thread ends by returning");
        }
        run(&feeder);
    })
}

/// Runs until the journal is cut for its end.
fn run(state: &ServerState) {
    state.persist().aof.note_feeding();
    let journal = state.persist().aof.journal();
    let mut emptied = Vec::new();
    loop {
        let taken = journal.take(WAIT, &mut emptied);
        feed(state, &taken);
        let (end, cut) = (taken.end, taken.cut);
        for chunk in taken.chunks {
            chunk.let_pinned_go();
            if let Ok(Chunk { mut bytes, .. }) = Arc::try_unwrap(chunk) {
                bytes.clear();
                emptied.push(bytes);
            }
        }
        state.persist().aof.reached(Reached { synced: end, released: end });
        if cut == Some(Cut::End) {
            return;
        }
        std::thread::sleep(REST);
    }
}

/// Hands what was taken on to replicas.
pub(super) fn feed(state: &ServerState, taken: &Taken) {
    let replication = state.replication();
    if taken.chunks.is_empty() || !replication.is_kept() {
        return;
    }
    replication.put(&taken.chunks, taken.end);
    wake(state);
}

/// The file is synced further: clients that wait for it are looked at.
pub(super) fn note_synced(state: &ServerState) {
    state.replication().replica().note_synced();
    awaited::look(state);
}

/// Has the workers that have replicas look what there is for these.
pub(crate) fn wake(state: &ServerState) {
    state.replication().replicas().wake().for_each(|worker| state.workers()[worker].send(Message::Stream));
}
