//! The part of the stream that lies in files, for one replica: a thread reads it, so that no worker waits for a disk.
//!
//! ```text
//!   increments of the append-only file --reads, sifts--+
//!   the spool -------------------------reads-----------+--> some parts --> the replica's worker sends them
//!     at the end of files of which no more are written: the spool, if it has what follows
//!     near the end of the stream: the backlog has the rest, and keeps it from here on; the courier ends
//! ```
//! The place from which on it still needs files is known to all (`Replica::filed`, `Replica::spooled`): they stay until
//! then. Not here: which files there are (`state/past.rs`, `state/spool.rs`).

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;

use varve_aof::Sieve;

use crate::features::persist::aof::stream;
use crate::features::replication::state::past::Past;
use crate::features::replication::state::replicas::Replica;
use crate::state::ServerState;
use crate::system::error_text;

/// Parts that are read ahead of the socket.
const PARTS_AHEAD: usize = 8;
/// Bytes of a file that are read at a time.
const PART_BYTES: usize = 128 << 10;
/// How long it waits for the file to have more.
const STEP: Duration = Duration::from_millis(5);

/// Bytes of the stream, or why there are no more.
pub(crate) type Part = Result<Vec<u8>, String>;

/// Starts a courier for a replica that needs the stream out of files or out of the spool.
///
/// # Errors
/// The system gives no thread.
pub(super) fn start(state: &Arc<ServerState>, replica: &Arc<Replica>) -> io::Result<Receiver<Part>> {
    let (sender, parts) = sync_channel(PARTS_AHEAD);
    let (state, replica) = (Arc::clone(state), Arc::clone(replica));
    let past = replica.past();
    std::thread::Builder::new().name("courier".to_owned()).spawn(move || {
        let mut courier = Courier { state: &state, replica: &replica, past: &past, parts: sender };
        let ran = match (replica.filed(), replica.spooled()) {
            (u64::MAX, position) => courier.run_spool(position),
            (offset, _) => courier.run(offset),
        };
        if let Err(why) = ran {
            let _ = courier.parts.send(Err(why));
        }
        drop(courier);
        stream::wake(&state);
    })?;
    Ok(parts)
}

fn gone() -> String {
    "what it is to be sent next is in no file any more".to_owned()
}

struct Courier<'c> {
    state: &'c ServerState,
    replica: &'c Arc<Replica>,
    past: &'c Past,
    parts: SyncSender<Part>,
}

impl Courier<'_> {
    /// Reads from this offset on, until the backlog has the rest or the replica has gone.
    fn run(&mut self, mut offset: u64) -> Result<(), String> {
        let mark = self.past.before(offset).ok_or_else(gone)?;
        let (mut sieve, mut seq, mut at) = (Sieve::default(), mark.seq, mark.at);
        let mut file = None;
        let (mut bytes, mut out) = (vec![0; PART_BYTES], Vec::new());
        loop {
            // The next one is looked for first: whatever this one has then, it will have no more.
            let next = self.past.next(seq);
            let known = self.past.file(seq).ok_or_else(gone)?;
            let left = known.bytes.saturating_sub(at).min(PART_BYTES as u64) as usize;
            if left == 0 {
                match next {
                    Some(next) => (seq, at, file) = (next, 0, None),
                    None if self.is_at_end(offset) => return Ok(()),
                    None => match self.spooled_from(offset) {
                        Some(position) => return self.run_spool(position),
                        None => std::thread::sleep(STEP),
                    },
                }
                continue;
            }
            if file.is_none() {
                let mut opened = File::open(&known.path).map_err(|error| error_text(&error))?;
                opened.seek(SeekFrom::Start(at)).map_err(|error| error_text(&error))?;
                file = Some(opened);
            }
            let source = file.as_mut().expect("it was opened");
            source.read_exact(&mut bytes[..left]).map_err(|error| error_text(&error))?;
            at += left as u64;
            let sifted = sieve.push(&bytes[..left], &mut out);
            let end = sieve.offset().unwrap_or(mark.offset);
            let news = end.saturating_sub(offset).min(out.len() as u64) as usize;
            out.drain(..out.len() - news);
            if !out.is_empty() {
                let is_there = self.parts.send(Ok(std::mem::take(&mut out))).is_ok();
                self.replica.set_filed(end);
                stream::wake(self.state);
                if !is_there {
                    return Ok(());
                }
            }
            offset = offset.max(end);
            sifted.map_err(|fault| format!("its file cannot be read on: {fault:?}"))?;
            if self.is_at_end(offset) {
                return Ok(());
            }
        }
    }

    /// The position of this offset if the spool has what follows, of which the replica is sent from now on.
    fn spooled_from(&self, offset: u64) -> Option<u64> {
        let replication = self.state.replication();
        let position = replication.ids().position(offset as i64)?;
        replication.spool().file_at(position)?;
        self.replica.set_spooled(position);
        self.replica.end_filed();
        Some(position)
    }

    /// Reads the spool from this position on, until the backlog has the rest or the replica has gone.
    fn run_spool(&mut self, mut position: u64) -> Result<(), String> {
        let replication = self.state.replication();
        loop {
            let Some(file) = replication.spool().file_at(position) else {
                if replication.keep_from_position(self.replica, position) {
                    self.replica.set_spooled(u64::MAX);
                    replication.trim_spool();
                    return Ok(());
                }
                // Bytes that the backlog had may have come here in between.
                if !replication.replicas().has(self.replica) || replication.spool().file_at(position).is_none() {
                    return Err(gone());
                }
                continue;
            };
            let mut part = vec![0; PART_BYTES];
            let count = file.read(position, &mut part).map_err(|error| error_text(&error))?;
            part.truncate(count);
            if self.parts.send(Ok(part)).is_err() {
                return Ok(());
            }
            position += count as u64;
            self.replica.set_spooled(position);
            stream::wake(self.state);
        }
    }

    /// True if the backlog has all behind this offset, which it keeps from now on; or if nobody wants it any more.
    fn is_at_end(&self, offset: u64) -> bool {
        let replication = self.state.replication();
        if !replication.replicas().has(self.replica) {
            return true;
        }
        let is_there = replication.keep_from(self.replica, offset);
        if is_there {
            self.replica.end_filed();
        }
        is_there
    }
}
