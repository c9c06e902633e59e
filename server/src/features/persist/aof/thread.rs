//! The thread of the append-only file: takes what workers have appended, writes it, syncs when that is due.
//!
//! ```text
//!   always    take, write, sync, take ..: the next group is what came meanwhile
//!   everysec  take, write, rest, take ..; a second after the last sync, or with 32 MB unsynced: sync
//!   no        take, write, rest, take ..
//! ```
//! A write that fails refuses writes until one succeeds. A sync that fails is mended (`writer.rs`), tried again for
//! [`PATIENCE`]; after that writes are refused, and under `always`, where nothing may be acknowledged, the server ends.
//!
//! Not here: files (`writer.rs`).

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use varve_exec::journal::Reached;

use super::super::state::aof::{Aof, Order};
use super::writer::Writer;
use crate::config::Fsync;
use crate::state::ServerState;
use crate::system::error_text;

/// Time between two syncs under `everysec`.
const SECOND: Duration = Duration::from_secs(1);
/// Bytes that are synced though the second is not over: the rest of them is for what comes while the sync takes long.
const UNSYNCED_BYTES_MAX: u64 = 32 << 20;
/// Rest between two writes where nobody waits for them: so a write has more than one command.
const REST: Duration = Duration::from_millis(1);
/// Time between two tries on a disk that fails.
const RETRY: Duration = Duration::from_millis(100);
/// How long a sync may go on failing.
const PATIENCE: Duration = Duration::from_secs(5);

/// The disk has failed for too long to acknowledge anything.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct GivenUp;

/// The thread's work. The clock is its caller's.
#[derive(Debug)]
pub(super) struct Keeper<'a> {
    aof: &'a Aof,
    writer: Writer,
    synced_at: Instant,
    /// Since when the disk fails.
    failing_since: Option<Instant>,
    /// Bytes of the files before the one that is written.
    older_bytes: u64,
}

/// Runs until it is told to stop.
pub(super) fn run(state: &Arc<ServerState>, writer: Writer, older_bytes: u64) {
    let aof = &state.persist().aof;
    let mut keeper = Keeper::new(aof, writer, older_bytes, Instant::now());
    loop {
        let wait = keeper.wait(aof.fsync(), Instant::now());
        let stops = keeper.take(wait);
        if keeper.turn(aof.fsync(), stops, Instant::now()).is_err() {
            tracing::warn!("Can't recover from AOF write error when the AOF fsync policy is 'always'. Exiting...");
            std::process::exit(1);
        }
        if stops {
            return;
        }
        if keeper.failing_since.is_some() {
            std::thread::sleep(RETRY);
        } else if aof.fsync() != Fsync::Always {
            std::thread::sleep(REST);
        }
    }
}

impl<'a> Keeper<'a> {
    pub(super) fn new(aof: &'a Aof, writer: Writer, older_bytes: u64, now: Instant) -> Keeper<'a> {
        Keeper { aof, writer, synced_at: now, failing_since: None, older_bytes }
    }

    /// How long it may wait for something to write.
    fn wait(&self, fsync: Fsync, now: Instant) -> Duration {
        let unsynced = self.writer.written() > self.writer.synced();
        match fsync {
            _ if self.failing_since.is_some() => Duration::ZERO,
            Fsync::EverySecond if unsynced => (self.synced_at + SECOND).saturating_duration_since(now),
            _ => SECOND,
        }
    }

    /// Takes what was appended; true if the thread is to end.
    pub(super) fn take(&mut self, wait: Duration) -> bool {
        let taken = self.aof.journal().take(wait, self.writer.emptied());
        self.writer.put(taken);
        self.aof.take_orders().iter().any(|order| matches!(order, Order::Stop))
    }

    /// Writes and syncs what is due, and reports.
    ///
    /// # Errors
    /// The disk fails, and nothing may be acknowledged.
    pub(super) fn turn(&mut self, fsync: Fsync, stops: bool, now: Instant) -> Result<(), GivenUp> {
        self.writer.keep_unsynced(fsync != Fsync::No);
        let done = self.write_and_sync(fsync, stops, now);
        self.aof.reached(Reached { synced: self.writer.synced(), released: self.writer.released() });
        let given_up = match done {
            Ok(()) => {
                self.recover();
                false
            }
            Err(error) => self.fail(&error, fsync, now),
        };
        let writer = &self.writer;
        let (current_bytes, buffer_bytes) = (self.older_bytes + writer.file_bytes(), writer.end() - writer.written());
        let ok = self.failing_since.is_none();
        self.aof.report(|facts| {
            (facts.current_bytes, facts.buffer_bytes, facts.last_write_ok) = (current_bytes, buffer_bytes, ok);
        });
        if given_up { Err(GivenUp) } else { Ok(()) }
    }

    fn write_and_sync(&mut self, fsync: Fsync, stops: bool, now: Instant) -> io::Result<()> {
        if self.writer.is_broken() {
            let before = self.writer.file_bytes();
            self.writer.mend()?;
            self.older_bytes += before;
            tracing::warn!("A new increment of the append-only file has what the last sync may have lost");
            self.synced_at = now;
            return Ok(());
        }
        self.writer.write()?;
        let unsynced = self.writer.written() - self.writer.synced();
        let due = match fsync {
            _ if stops => true,
            Fsync::Always => true,
            Fsync::EverySecond => now.duration_since(self.synced_at) >= SECOND || unsynced >= UNSYNCED_BYTES_MAX,
            Fsync::No => false,
        };
        if due && unsynced > 0 {
            self.synced_at = now;
            self.writer.sync()?;
        }
        Ok(())
    }

    /// Something has failed; true if it has failed for too long to acknowledge anything.
    fn fail(&mut self, error: &io::Error, fsync: Fsync, now: Instant) -> bool {
        let since = *self.failing_since.get_or_insert_with(|| {
            tracing::warn!("Error writing to the AOF file: {}", error_text(error));
            now
        });
        let is_long = now.duration_since(since) >= PATIENCE;
        // Writes are refused at once when the file takes none; a sync is tried again on another file first.
        if !self.writer.is_broken() || is_long {
            self.aof.set_refusal(Some(error.raw_os_error().unwrap_or(libc::EIO)));
        }
        self.writer.is_broken() && is_long && fsync == Fsync::Always
    }

    fn recover(&mut self) {
        if self.failing_since.take().is_some() {
            tracing::warn!("AOF write error looks solved. The server can write again.");
            self.aof.set_refusal(None);
        }
    }
}
