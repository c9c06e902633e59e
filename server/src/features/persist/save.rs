//! Saving: the instant, the thread that writes the file, and the end.
//!
//! ```text
//!  a worker, the gate alone     begin: the walk begins in all shards --> thread "saver"
//!  workers, between batches     steps of the walk, keys that change --> pieces --> header, pieces, end, sync, rename
//!  saver                        finish: figures, the log, the client that waits
//! ```
//! A save that cannot be written, or is cancelled, goes on to the end of its walk, which takes the marks away: the next
//! one begins behind it.
//!
//! Not here: how a walk and its pieces work (`state/snapshot.rs`), what asks for a save (`mod.rs`, `points.rs`).

use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use varve_rdb::RdbBuffer;
use varve_store::{Store, StoreWorker};

use super::aof::rewrite::{self, Base};
use super::rdb_file::{SaveFile, file_name};
use super::state::snapshot::{End, Next, Piece, Snapshot};
use super::state::{Outcome, UnderWay, Waiter};
use crate::config::Config;
use crate::state::ServerState;
use crate::state::mail::Message;
use crate::system::{error_text, version};

/// How often a save that is slowed down looks whether it is over.
const DELAY_STEP: Duration = Duration::from_millis(10);
/// Bytes of a piece up to which its buffer is used again.
const USUAL_BYTES: usize = 1 << 20;
/// Buckets that a walk passes at a time while nobody else runs.
const ALONE_BUCKETS: usize = 64;

/// Why no save was begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NotBegun {
    /// One is under way.
    UnderWay,
    /// There is no thread to be had.
    NoThread,
}

/// The purpose of the walk of a save.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// The file that a start loads; a client may wait for it.
    File(Option<Waiter>),
    /// The base of a rewrite of the append-only file.
    Base,
}

/// The work of the saver's thread.
struct Job {
    snapshot: Arc<Snapshot>,
    /// Keys, and keys with an expiry, of each logical database at the instant.
    counts: Vec<(u64, u64)>,
    used_bytes: u64,
    config: Arc<Config>,
    /// The base of the append-only file that is written, if it is one; or why it cannot be written.
    base: Option<io::Result<Base>>,
}

/// Begins a save. The worker is outside the gate.
pub(super) fn begin(
    state: &Arc<ServerState>,
    worker: &mut StoreWorker,
    purpose: Purpose,
) -> Result<JoinHandle<()>, NotBegun> {
    worker.exclusive(|_| begin_alone(state, purpose))
}

/// Begins a save like [`begin`], for a worker that is alone behind the gate.
fn begin_alone(state: &Arc<ServerState>, purpose: Purpose) -> Result<JoinHandle<()>, NotBegun> {
    let (store, config) = (state.store(), state.config().snapshot());
    let counts = store.counts_of_all();
    let keys = counts.iter().map(|(keys, _)| keys).sum();
    let (mut base, waiter) = match purpose {
        Purpose::File(waiter) => (None, waiter),
        Purpose::Base => (None, None),
    };
    let instant = || {
        let snapshot = Arc::new(Snapshot::new(store, config.save.compresses, state.persist().queued()));
        let walks = store.begin_walk(snapshot.clone());
        let changes = store.totals().changes;
        let is_rewrite = purpose == Purpose::Base;
        base = (walks && is_rewrite).then(|| rewrite::at_instant(state, &config));
        walks.then(|| UnderWay { snapshot, is_rewrite, waiter, began: Instant::now(), changes, keys })
    };
    let snapshot = state.persist().begin(now_s(), instant).ok_or(NotBegun::UnderWay)?;
    let job = Job { snapshot, counts, used_bytes: store.used_memory(), config, base };
    let saver = Arc::clone(state);
    let thread = std::thread::Builder::new().name("saver".to_owned()).spawn(move || save(&saver, &job));
    thread.map_err(|error| {
        tracing::warn!("Can't save in background: {}", error_text(&error));
        cancel(state);
        if purpose == Purpose::Base {
            let aof = &state.persist().aof;
            aof.rewrites.end(Outcome::Failed, aof.waits_for_base());
        }
        let _ = state.persist().finish(Outcome::Failed, now_s());
        NotBegun::NoThread
    })
}

/// Saves, and returns when the file is on disk: true then. The worker is alone behind the gate: nothing is changed
/// meanwhile, and nobody is served.
pub(crate) fn save_alone(state: &Arc<ServerState>) -> bool {
    cancel(state);
    finish_walk(state.store(), None);
    while state.persist().under_way().is_some() {
        std::thread::sleep(Duration::from_millis(1));
    }
    let Ok(thread) = begin_alone(state, Purpose::File(None)) else { return false };
    if let Some(snapshot) = state.persist().under_way() {
        finish_walk(state.store(), Some(&snapshot));
    }
    thread.join().expect("the saver ends by returning");
    state.persist().facts().last_ok
}

/// Makes all the steps that are left of the walk that is under way, as far as its snapshot has room.
fn finish_walk(store: &Store, snapshot: Option<&Snapshot>) {
    while store.walk_step(ALONE_BUCKETS) {
        while snapshot.is_some_and(|snapshot| !varve_store::Walker::has_room(snapshot)) {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

/// Gives the save that is under way up: its file is removed, and it ends with its walk.
pub(super) fn cancel(state: &ServerState) {
    if let Some(snapshot) = state.persist().under_way() {
        state.store().abandon_walk();
        snapshot.abandon();
    }
}

/// The saver's thread.
fn save(state: &ServerState, job: &Job) {
    let written = write(job);
    if written.is_err() {
        state.store().abandon_walk();
        job.snapshot.abandon();
    }
    if let Some(base) = &job.base {
        let outcome = rewrite::end(state, base, written);
        while let Next::Piece(_) = job.snapshot.next() {}
        let _ = state.persist().finish(outcome, now_s());
        return;
    }
    let outcome = match written {
        Ok(true) => {
            tracing::info!("DB saved on disk");
            Outcome::Saved
        }
        Ok(false) => {
            tracing::warn!("Background saving was cancelled");
            Outcome::Cancelled
        }
        Err(error) => {
            tracing::warn!("Write error saving DB on disk: {}", error_text(&error));
            Outcome::Failed
        }
    };
    while let Next::Piece(_) = job.snapshot.next() {}
    let ended = state.persist().finish(outcome, now_s());
    if let Some(waiter) = ended.waiter {
        state.workers()[waiter.worker].send(Message::Saved { conn: waiter.conn, saved: outcome == Outcome::Saved });
    } else if outcome == Outcome::Saved {
        tracing::info!("Background saving terminated with success");
    } else if outcome == Outcome::Failed {
        tracing::warn!("Background saving error");
    }
}

/// Writes the file; false if the snapshot was cut short.
fn write(job: &Job) -> io::Result<bool> {
    let settings = &job.config.save;
    let path = match &job.base {
        None => file_name(&job.config),
        Some(base) => base.as_ref().map_err(|error| io::Error::other(error.to_string()))?.temp()?,
    };
    let syncs = match &job.base {
        None => settings.syncs_as_it_grows,
        Some(_) => job.config.append.syncs_base_as_it_grows,
    };
    let mut file = SaveFile::create(settings, syncs)?;
    file.begin(&mut about(job))?;
    loop {
        let keys = match job.snapshot.next() {
            Next::Piece(Piece::Entries { mut encoded, keys, goes_on }) => {
                let is_usual = encoded.len() <= USUAL_BYTES;
                file.put(&mut encoded, job.snapshot.is_crowded(), goes_on)?;
                // The buffer of a large element is as large.
                if is_usual {
                    job.snapshot.give_back(encoded);
                }
                keys
            }
            Next::Piece(Piece::Large(pin)) => file.put_large(&pin).map(|()| 0)?,
            Next::End(End::Whole) => break,
            Next::End(End::Emptied) => return Ok(false),
        };
        if settings.key_save_delay_us > 0 {
            delay(job, keys, settings.key_save_delay_us);
        }
        if job.snapshot.is_over() {
            return Ok(false);
        }
    }
    if job.snapshot.is_over() {
        return Ok(false);
    }
    file.keep_as(&path)?;
    Ok(true)
}

/// The fields about the file, and the databases' sizes, which a reader makes room for.
fn about(job: &Job) -> RdbBuffer {
    let mut head = RdbBuffer::new(false);
    head.aux(b"redis-ver", version::REDIS_VERSION.as_bytes());
    head.aux(b"redis-bits", usize::BITS.to_string().as_bytes());
    head.aux(b"ctime", now_s().to_string().as_bytes());
    head.aux(b"used-mem", job.used_bytes.to_string().as_bytes());
    head.aux(b"aof-base", if job.base.is_some() { b"1" } else { b"0" });
    for (db, &(keys, volatile)) in (0..).zip(&job.counts) {
        if keys > 0 {
            head.select_db(db);
            head.resize_db(keys, volatile);
        }
    }
    head
}

/// Waits as `rdb-key-save-delay` asks for this number of keys, or until the save is over.
fn delay(job: &Job, keys: usize, delay_us: u64) {
    let until = Instant::now() + Duration::from_micros(delay_us.saturating_mul(keys as u64));
    while let Some(left) = until.checked_duration_since(Instant::now()) {
        if job.snapshot.sleep(left.min(DELAY_STEP)) {
            return;
        }
    }
}

/// Unix time in seconds.
pub(super) fn now_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}
