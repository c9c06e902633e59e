//! The data set on its way to one replica: a thread reads its file ahead of the socket, so that no worker waits for a disk.
//!
//! ```text
//!   file, whole or being written --reader: parts--> some parts --> the replica's worker sends them (send.rs)
//!     nothing more is written, and all is read: the reader ends
//! ```
//! The bytes that it holds are bounded: what is not taken is not read. Not here: files of the stream (`courier.rs`).

use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;

use super::courier::Part;
use crate::features::persist::aof::stream;
use crate::features::replication::state::replicas::{Replica, SyncFile, Writing};
use crate::state::ServerState;
use crate::system::error_text;

/// Parts that are read ahead of the socket.
const PARTS_AHEAD: usize = 4;
/// Bytes that are read at a time.
const PART_BYTES: u64 = 128 << 10;
/// How long it waits for the file to have more.
const STEP: Duration = Duration::from_millis(5);

/// Starts a reader of this file for a replica.
///
/// # Errors
/// The system gives no thread.
pub(super) fn start(
    state: &Arc<ServerState>,
    replica: &Arc<Replica>,
    file: &Arc<SyncFile>,
) -> io::Result<Receiver<Part>> {
    let (sender, parts) = sync_channel(PARTS_AHEAD);
    let (state, replica, file) = (Arc::clone(state), Arc::clone(replica), Arc::clone(file));
    std::thread::Builder::new().name("data-reader".to_owned()).spawn(move || {
        if let Err(why) = run(&state, &replica, &file, &sender) {
            let _ = sender.send(Err(why));
        }
        drop(sender);
        stream::wake(&state);
    })?;
    Ok(parts)
}

/// Reads to the file's end, or until the replica has gone.
fn run(state: &ServerState, replica: &Arc<Replica>, file: &SyncFile, parts: &SyncSender<Part>) -> Result<(), String> {
    let mut read = 0;
    loop {
        // Whether it is whole is asked first: the bytes are all of it then.
        let writing = file.written().1;
        let mut part = vec![0; (file.written().0 - read).min(PART_BYTES) as usize];
        if !part.is_empty() {
            let done = file.file.read_exact_at(&mut part, read);
            done.map_err(|error| format!("reading its data set: {}", error_text(&error)))?;
            read += part.len() as u64;
            if parts.send(Ok(part)).is_err() {
                return Ok(());
            }
            stream::wake(state);
            continue;
        }
        match writing {
            Writing::Whole => return Ok(()),
            Writing::Lost => return Err("its data set could not be written".to_owned()),
            Writing::GoesOn if !state.replication().replicas().has(replica) => return Ok(()),
            Writing::GoesOn => std::thread::sleep(STEP),
        }
    }
}
