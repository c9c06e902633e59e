//! The bytes that a replica is sent next, as its stage says.
//!
//! ```text
//!   WaitsForWalk   nothing
//!   InWalk         +FULLRESYNC id offset, once
//!   Gets           the same, $length, the file in parts; or $EOF:mark, the file as far as it is written .., the mark
//!   Online         the stream from the cursor on, in parts; without a cursor out of files or the spool, until the backlog has
//!                  the rest
//! ```
//! Not here: sockets (`worker/replicas.rs`).

use std::sync::Arc;
use std::sync::mpsc::{Receiver, TryRecvError};

use varve_protocol::{Pinned, Reply};

use super::{courier, reader};
use crate::features::replication::state::peer::Following;
use crate::features::replication::state::replicas::{Stage, SyncFile};
use crate::state::ServerState;
use crate::system::error_text;

/// Bytes of the stream that are sent at a time.
const STREAM_BYTES: usize = 256 << 10;
/// Parts of the stream shorter than this are copied.
const COPY_BYTES: usize = 8 << 10;

/// Why a replica's connection ends.
#[derive(Debug)]
pub(crate) struct Ends(pub(crate) String);

/// Writes what the replica is sent next to `out`, which is empty. All that was written before is sent.
pub(crate) fn next(
    state: &Arc<ServerState>,
    following: &mut Following,
    out: &mut Reply,
    now_ms: i64,
) -> Result<(), Ends> {
    let (stage, instant) = {
        let now = following.shared.now();
        (now.stage.clone(), now.instant)
    };
    if !following.is_greeted && matches!(stage, Stage::InWalk | Stage::Gets(_)) {
        following.is_greeted = true;
        if !following.is_old {
            out.simple(&format!("FULLRESYNC {} {instant}", state.replication().ids().history().id));
        }
    }
    match stage {
        Stage::WaitsForWalk | Stage::InWalk => Ok(()),
        Stage::Gets(file) => send_file(state, following, &file, out, now_ms),
        Stage::Online => send_stream(state, following, out),
        Stage::Ends(why) => Err(Ends(why.to_owned())),
    }
}

/// The next part of the data set, and behind its end the stage that follows.
fn send_file(
    state: &Arc<ServerState>,
    following: &mut Following,
    file: &Arc<SyncFile>,
    out: &mut Reply,
    now_ms: i64,
) -> Result<(), Ends> {
    if !following.has_head {
        following.has_head = true;
        match &file.mark {
            None => out.raw(format!("${}\r\n", file.written().0).as_bytes()),
            Some(mark) => out.raw(format!("$EOF:{mark}\r\n").as_bytes()),
        }
        let started = reader::start(state, &following.shared, file);
        following.parts = Some(started.map_err(|error| Ends(format!("its thread: {}", error_text(&error))))?);
        let mut now = following.shared.now();
        (now.sent_bytes, now.sent_since_ms) = (0, now_ms);
        return Ok(());
    }
    match following.parts.as_ref().map(Receiver::try_recv) {
        Some(Ok(Ok(part))) => {
            following.shared.now().sent_bytes += part.len() as u64;
            out.raw_pinned(Box::new(part));
        }
        Some(Ok(Err(why))) => return Err(Ends(why)),
        Some(Err(TryRecvError::Empty)) => {}
        Some(Err(TryRecvError::Disconnected)) | None => return end_file(following, file, out, now_ms),
    }
    Ok(())
}

/// The replica was sent all of its data set.
fn end_file(following: &mut Following, file: &SyncFile, out: &mut Reply, now_ms: i64) -> Result<(), Ends> {
    let Following { shared, is_marked, .. } = following;
    if let Some(mark) = file.mark.as_ref().filter(|_| !*is_marked) {
        *is_marked = true;
        shared.now().acked_ms = now_ms;
        out.raw(mark.as_bytes());
        return Ok(());
    }
    if shared.wants_file_only {
        return Err(Ends("it wanted the data set alone, and has it".to_owned()));
    }
    if *is_marked {
        // redis-server looks for the mark at the end of what it has read: nothing may stand behind it yet.
        return Ok(());
    }
    let mut now = shared.now();
    (now.stage, now.acked_ms) = (Stage::Online, now_ms);
    tracing::info!("Synchronization with replica {}:{} succeeded", now.address, now.port);
    Ok(())
}

/// The next part of the stream that lies in files.
fn send_filed(state: &Arc<ServerState>, following: &mut Following, out: &mut Reply) -> Result<(), Ends> {
    let shared = &following.shared;
    if following.parts.is_none() {
        let started = courier::start(state, shared);
        following.parts = Some(started.map_err(|error| Ends(format!("its thread: {}", error_text(&error))))?);
    }
    match following.parts.as_ref().map(Receiver::try_recv) {
        Some(Ok(Ok(part))) => out.raw_pinned(Box::new(part)),
        Some(Ok(Err(why))) => return Err(Ends(why)),
        Some(Err(TryRecvError::Disconnected)) => {
            following.parts = None;
            return send_stream(state, following, out);
        }
        Some(Err(TryRecvError::Empty)) | None => {}
    }
    Ok(())
}

/// The next part of the stream.
fn send_stream(state: &Arc<ServerState>, following: &mut Following, out: &mut Reply) -> Result<(), Ends> {
    let shared = &following.shared;
    if shared.filed() != u64::MAX || shared.spooled() != u64::MAX || following.parts.is_some() {
        return send_filed(state, following, out);
    }
    let cursor = shared.cursor();
    let Some(stretches) = state.replication().backlog().read(cursor, STREAM_BYTES) else {
        if state.replication().leave_to_spool(shared) {
            return send_filed(state, following, out);
        }
        return Err(Ends("what it is to be sent next is not there any more".to_owned()));
    };
    let mut sent = 0;
    for stretch in stretches {
        let bytes = stretch.len();
        sent += bytes as u64;
        if bytes < COPY_BYTES { stretch.copy_to(out) } else { out.raw_pinned(Box::new(stretch)) }
    }
    following.shared.set_cursor(cursor + sent);
    Ok(())
}
