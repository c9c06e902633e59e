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

use std::fs::File;
use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use varve_rdb::format::{self, TooOld};
use varve_rdb::{LargeText, RdbBuffer};
use varve_store::{EffectSink, Pin, StoreWorker};

use super::aof::rewrite::{self, Base};
use super::aof::stream;
use super::rdb_file::{Beside, SaveFile, SavePlace};
use super::state::snapshot::{End, Next, Piece, Snapshot};
use super::state::{Outcome, UnderWay};
use crate::config::Config;
use crate::features::latency::state as latency;
use crate::features::pubsub::state::WorkWaiter;
use crate::features::replication::state::replicas::SyncFile;
use crate::state::{ServerState, work};
use crate::system::{cpus, error_text, random, version};

/// How often a save that is slowed down looks whether it is over.
const DELAY_STEP: Duration = Duration::from_millis(10);
/// How long the end of the process waits for an unfinished file to go.
const UNFINISHED_PATIENCE: Duration = Duration::from_secs(1);
/// Buckets that a walk passes at a time while nobody else runs.
const ALONE_BUCKETS: usize = 64;

/// Why no save was begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NotBegun {
    /// One is under way.
    UnderWay,
    /// The gate is not to be had: another worker is alone, or stays inside for longer than a batch.
    Busy,
    /// There is no thread to be had.
    NoThread,
}

/// The purpose of the walk of a save.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// The file that a start loads; these clients wait for it.
    File(Vec<WorkWaiter>),
    /// That file, for FLUSHALL: nobody waits, and clients who ask for a save do not find that one is under way.
    AfterFlush,
    /// That file, behind which the server ends.
    Last,
    /// The base of a rewrite of the append-only file.
    Base,
    /// The file that a start loads, which replicas that wait get.
    Replicas,
    /// A data set that replicas which wait are sent while it is written, and that leaves no file.
    SentToReplicas,
}

/// The work of the saver's thread.
struct Job {
    snapshot: Arc<Snapshot>,
    /// Keys, and keys with an expiry, of each logical database at the instant.
    counts: Vec<(u64, u64)>,
    /// The texts of the libraries of functions at the instant.
    libraries: Vec<Arc<[u8]>>,
    /// The version of the format that the file has; or why it cannot be written.
    version: Result<u16, TooOld>,
    used_bytes: u64,
    config: Arc<Config>,
    /// The base of the append-only file that is written, if it is one; or why it cannot be written.
    base: Option<io::Result<Base>>,
    /// Replicas get the file.
    for_replicas: bool,
    /// They are sent it while it is written, and it has no name.
    is_sent: bool,
    /// The number of the walk for which replicas wait; 0 if none do.
    walk: u64,
    /// The replication stream at the instant; None if none is kept.
    stream: Option<StreamPlace>,
}

/// A place of the replication stream.
struct StreamPlace {
    id: String,
    offset: u64,
    /// The database that its reader has selected.
    db: u32,
}

/// Begins a save whose data set the replicas get that wait for an instant: with `is_sent` while it is written, else its file.
pub(crate) fn begin_for_replicas(state: &Arc<ServerState>, worker: &mut StoreWorker, is_sent: bool) -> bool {
    let purpose = if is_sent { Purpose::SentToReplicas } else { Purpose::Replicas };
    begin(state, worker, purpose, 0).is_ok()
}

/// Begins a save. The worker is outside the gate, and was refused it `tries` times before.
pub(super) fn begin(
    state: &Arc<ServerState>,
    worker: &mut StoreWorker,
    purpose: Purpose,
    tries: u32,
) -> Result<(), NotBegun> {
    // Whoever tries again meanwhile leaves the gate to those that load.
    if state.persist().bars_saves() {
        return Err(NotBegun::Busy);
    }
    let Some(_alone) = state.store().gate().try_exclusive(worker.id(), tries) else {
        return Err(NotBegun::Busy);
    };
    if state.persist().bars_saves() {
        return Err(NotBegun::Busy);
    }
    let replica = state.replication().replica();
    // A replica's commands run in several workers: they come to a place of the stream that is the same in all of them.
    if !replica.hold_instant(state.persist().aof.journal()) {
        return Err(NotBegun::Busy);
    }
    let begun = begin_alone(state, purpose, true).map(drop);
    state.release_instant();
    begun
}

/// Begins a save like [`begin`], for a worker that is alone behind the gate. With `is_place`, the instant is a place of
/// the stream.
fn begin_alone(state: &Arc<ServerState>, purpose: Purpose, is_place: bool) -> Result<JoinHandle<Outcome>, NotBegun> {
    let (store, config) = (state.store(), state.config().snapshot());
    let place = SavePlace::of(&config);
    let counts = store.counts_of_all();
    let keys = counts.iter().map(|(keys, _)| keys).sum();
    let libraries = state.scripts().functions().texts();
    let is_dated = store.has_dated_fields();
    let (is_rewrite, gives_way) = (purpose == Purpose::Base, purpose == Purpose::AfterFlush);
    let (is_sent, is_last) = (purpose == Purpose::SentToReplicas, purpose == Purpose::Last);
    // A data set that is sent leaves no file, which is what the setting pins: a replica would else ask for it for ever.
    let version = format::version_for(config.save.version.filter(|_| !is_sent), is_dated);
    let for_replicas = is_sent || purpose == Purpose::Replicas;
    let (mut base, mut stream, mut walk) = (None, None, 0);
    let waiters = if let Purpose::File(waiters) = purpose { waiters } else { Vec::new() };
    let instant = || {
        let snapshot = Arc::new(Snapshot::new(store, config.save.compresses, is_rewrite, state.persist().queued()));
        let walks = store.begin_walk(snapshot.clone());
        let changes = store.totals().changes;
        base = (walks && is_rewrite).then(|| rewrite::at_instant(state, &config));
        walk = if walks && for_replicas { begin_walk(state) } else { 0 };
        stream = stream_at_instant(state).filter(|_| is_place && !is_rewrite);
        walks.then(|| UnderWay {
            snapshot,
            is_rewrite,
            leaves_file: !is_rewrite && !is_sent,
            for_replicas,
            is_last,
            gives_way,
            waiters,
            flushes: store.flushes(),
            began: Instant::now(),
            changes,
            keys,
        })
    };
    let snapshot = state.persist().begin(now_s(), is_last, instant).ok_or(NotBegun::UnderWay)?;
    let used_bytes = store.used_memory();
    let job =
        Job { snapshot, counts, libraries, version, used_bytes, config, base, for_replicas, is_sent, walk, stream };
    let saver = Arc::clone(state);
    let thread = std::thread::Builder::new().name("saver".to_owned()).spawn(move || {
        let cpus = &job.config.process.cpus;
        cpus::keep_thread_on(if is_rewrite { &cpus.rewrite } else { &cpus.save });
        save(&saver, place, &job)
    });
    thread.map_err(|error| {
        tracing::warn!("Can't save in background: {}", error_text(&error));
        cancel(state, u64::MAX);
        if for_replicas {
            give_replicas(state, walk, Err(error));
        }
        if is_rewrite {
            let aof = &state.persist().aof;
            aof.rewrites.end(Outcome::Failed, aof.waits_for_base());
        }
        let _ = state.persist().finish(Outcome::Failed, now_s());
        NotBegun::NoThread
    })
}

/// The instant of a walk is that of the replicas that wait for one. Gives its number.
fn begin_walk(state: &ServerState) -> u64 {
    let journal = state.persist().aof.journal();
    // The bytes of a primary stay as they are: their reader learns the database from the file.
    let follows = state.store().is_following();
    let walk = state.replication().begin_walk(if follows { journal.end() } else { journal.say_database_again() });
    stream::wake(state);
    walk
}

/// The replication stream at an instant that is a place of it, if one is kept.
fn stream_at_instant(state: &ServerState) -> Option<StreamPlace> {
    let (replication, journal) = (state.replication(), state.persist().aof.journal());
    replication.is_kept().then(|| StreamPlace {
        id: replication.ids().history().id,
        offset: replication.ids().offset(journal.end()),
        db: journal.db().unwrap_or(0),
    })
}

/// Gives the replicas of a walk their file, or takes leave of them. The save is under way still: another one would put
/// its file in the place of this one.
fn give_replicas(state: &ServerState, walk: u64, file: io::Result<File>) {
    let file = file.and_then(SyncFile::whole);
    if let Err(error) = &file
        && state.replication().in_walk() > 0
    {
        tracing::warn!("SYNC failed. Saving the data set for replicas: {}", error_text(error));
    }
    state.replication().end_walk(walk, file.ok());
    stream::wake(state);
}

/// Saves, and returns when the file is on disk: true then. The worker is alone behind the gate: nothing is changed
/// meanwhile, and nobody is served.
pub(crate) fn save_alone(state: &Arc<ServerState>, worker: &mut StoreWorker) -> bool {
    cancel(state, u64::MAX);
    finish_walk(worker, None);
    while state.persist().under_way().is_some() {
        std::thread::sleep(Duration::from_millis(1));
    }
    let is_place = state.replication().replica().hold_instant(state.persist().aof.journal());
    let Ok(thread) = begin_alone(state, Purpose::Last, is_place) else {
        state.release_instant();
        return false;
    };
    if let Some(snapshot) = state.persist().under_way() {
        finish_walk(worker, Some(&snapshot));
    }
    state.release_instant();
    thread.join().expect("the saver ends by returning") == Outcome::Saved
}

/// Makes all the steps that are left of the walk that is under way, as far as its snapshot has room.
fn finish_walk(worker: &mut StoreWorker, snapshot: Option<&Snapshot>) {
    while worker.walk_step(ALONE_BUCKETS) {
        while snapshot.is_some_and(|snapshot| !varve_store::Walker::has_room(snapshot)) {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

/// Gives the save that is under way up, if its instant lies before this count of FLUSHALLs: its file is removed, and it
/// ends with its walk.
pub(super) fn cancel(state: &ServerState, flushes: u64) {
    if let Some(snapshot) = state.persist().give_up(flushes) {
        abandon(state, &snapshot);
    }
}

/// Gives the save that is under way up, unless the server ends behind it.
pub(super) fn cancel_but_last(state: &ServerState) {
    if let Some(snapshot) = state.persist().give_up_but_last() {
        abandon(state, &snapshot);
    }
}

/// Gives the save that is under way up if it was begun for replicas of which none is left. A file that save points ask for as well
/// is written to its end, as in redis-server.
pub(crate) fn give_up_for_replicas(state: &ServerState, config: &Config) {
    let replication = state.replication();
    let keeps_file = !config.save.points.is_empty();
    let given_up = state.persist().give_up_for_replicas(keeps_file, || replication.in_walk() > 0);
    if let Some(snapshot) = given_up {
        tracing::warn!("No replica is left that waits for the data set: it is given up");
        abandon(state, &snapshot);
    }
}

/// The snapshot goes on to the end of its walk, and nothing of it is written any more.
fn abandon(state: &ServerState, snapshot: &Snapshot) {
    state.store().abandon_walk(snapshot);
    snapshot.abandon();
}

/// The process is about to end: gives the save that is under way up, and waits until its unfinished file is gone, or for
/// [`UNFINISHED_PATIENCE`].
pub(crate) fn drop_unfinished(state: &ServerState) {
    cancel(state, u64::MAX);
    let Ok(place) = SavePlace::of(&state.config().snapshot()) else { return };
    let until = Instant::now() + UNFINISHED_PATIENCE;
    while place.has_unfinished() && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// The saver's thread.
fn save(state: &ServerState, place: io::Result<SavePlace>, job: &Job) -> Outcome {
    let place = match &job.base {
        None => place,
        Some(Ok(base)) => base.save_place(),
        Some(Err(error)) => Err(io::Error::other(error.to_string())),
    };
    let path = place.as_ref().ok().map(|place| place.file().to_owned());
    let written = place.and_then(|place| write(state, place, job));
    if written.is_err() {
        abandon(state, &job.snapshot);
    }
    if let Some(base) = &job.base {
        let outcome = rewrite::end(state, base, written);
        while let Next::Piece(_) = job.snapshot.next() {}
        let _ = state.persist().finish(outcome, now_s());
        return outcome;
    }
    let outcome = match written {
        Ok(true) if job.is_sent => {
            tracing::info!(
                "Data set for replicas written; replicas that are still there: {}",
                state.replication().in_walk()
            );
            Outcome::Saved
        }
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
    if job.is_sent && outcome == Outcome::Saved {
        stream::wake(state);
    } else if job.for_replicas {
        let file = path.filter(|_| outcome == Outcome::Saved).map(File::open);
        give_replicas(state, job.walk, file.unwrap_or_else(|| Err(io::Error::other("it was given up"))));
    }
    let ended = state.persist().finish(outcome, now_s());
    match outcome {
        _ if !ended.waiters.is_empty() => reply(state, &ended.waiters, outcome == Outcome::Saved),
        Outcome::Saved => tracing::info!("Background saving terminated with success"),
        Outcome::Failed => tracing::warn!("Background saving error"),
        Outcome::Cancelled => {}
    }
    outcome
}

/// Has clients that wait for the end of a save replied to.
pub(super) fn reply(state: &ServerState, waiters: &[WorkWaiter], saved: bool) {
    waiters.iter().for_each(|waiter| work::done(state, *waiter, saved));
}

/// Writes the file; false if the snapshot was cut short. Then, and behind an error, what was written is removed.
fn write(state: &ServerState, place: SavePlace, job: &Job) -> io::Result<bool> {
    let settings = &job.config.save;
    let syncs = match &job.base {
        None => settings.syncs_as_it_grows,
        Some(_) => job.config.append.syncs_base_as_it_grows,
    };
    let version = match &job.base {
        // The file is read again, and its commands are the base.
        Some(Ok(base)) if base.is_commands() => Ok(job.version.unwrap_or_else(|too_old| too_old.needed)),
        _ => job.version,
    };
    let version = version.map_err(io::Error::other)?;
    let mut file = if job.is_sent { send(state, place, job)? } else { SaveFile::create(place, settings, syncs)? };
    let written = write_entries(state, &mut file, version, job);
    if let Ok(true) = written {
        return file.keep().map(|()| true);
    }
    state.note_spike(latency::Event::RdbUnlink, file.give_up(), job.config.latency_threshold_ms);
    written
}

/// Writes all entries; false if the snapshot was cut short.
fn write_entries(state: &ServerState, file: &mut SaveFile, version: u16, job: &Job) -> io::Result<bool> {
    file.begin(version, &mut about(job))?;
    loop {
        let keys = match job.snapshot.next() {
            Next::Piece(piece) => put(file, piece, &job.snapshot),
            Next::End(End::Whole) => break,
            Next::End(End::Emptied) => return Ok(false),
        };
        if job.snapshot.is_over() {
            return Ok(false);
        }
        let keys = keys?;
        if job.is_sent {
            stream::wake(state);
        }
        note_written(job, keys, job.config.save.key_save_delay_us);
        if job.snapshot.is_over() {
            return Ok(false);
        }
    }
    job.snapshot.set_written();
    Ok(!job.snapshot.is_over())
}

/// The file of a data set that replicas are sent while it is written.
fn send(state: &ServerState, place: SavePlace, job: &Job) -> io::Result<SaveFile> {
    let (file, sent) = SaveFile::sent(place, &job.config.save, random::hex(40)?)?;
    state.replication().send_walk(job.walk, &sent);
    stream::wake(state);
    Ok(file)
}

/// Writes entries that fill the queue while a large string is written; how many.
fn put_waiting(beside: &mut Beside<'_>, snapshot: &Snapshot) -> io::Result<usize> {
    let mut keys = 0;
    while snapshot.is_crowded()
        && let Some((mut encoded, some)) = snapshot.take_entries()
    {
        beside.put(&mut encoded)?;
        snapshot.give_back(encoded);
        keys += some;
    }
    Ok(keys)
}

/// A large string, which is written from where it lies: its key may change meanwhile.
struct Pinned(Pin);

impl LargeText for Pinned {
    fn len(&self) -> usize {
        self.0.len()
    }

    fn next_written(&self, from: usize) -> Range<usize> {
        self.0.next_written(from)
    }

    fn copy(&self, range: Range<usize>, to: &mut Vec<u8>) {
        self.0.each_part(range, |part| to.extend_from_slice(part));
    }
}

/// Writes a piece, and gives the number of its entries.
fn put(file: &mut SaveFile, piece: Piece, snapshot: &Snapshot) -> io::Result<usize> {
    let many_wait = snapshot.is_crowded();
    let (buffer, keys) = match piece {
        Piece::Entries { mut encoded, keys } => {
            file.put(&mut encoded, many_wait)?;
            (encoded, keys)
        }
        Piece::Part { mut encoded, goes_on } => {
            file.put_part(&mut encoded, many_wait, goes_on)?;
            (encoded, usize::from(!goes_on))
        }
        Piece::Large { mut head, bytes, counted: _counted } => {
            let mut keys = 1;
            file.put_large(&mut head, &Pinned(bytes), many_wait, &mut |beside| {
                if snapshot.is_over() {
                    return Err(io::Error::other("the save was given up"));
                }
                keys += put_waiting(beside, snapshot)?;
                Ok(())
            })?;
            head.clear();
            (head, keys)
        }
    };
    snapshot.give_back(buffer);
    Ok(keys)
}

/// The fields that say what wrote a file, and when.
pub(super) fn about_file(compresses: bool) -> RdbBuffer {
    let mut head = RdbBuffer::new(compresses);
    head.aux(b"redis-ver", version::REDIS_VERSION.as_bytes());
    head.aux(b"redis-bits", usize::BITS.to_string().as_bytes());
    head.aux(b"ctime", now_s().to_string().as_bytes());
    head
}

/// The fields about the file, the libraries of functions, and the databases' sizes, which a reader makes room for.
fn about(job: &Job) -> RdbBuffer {
    let mut head = about_file(job.config.save.compresses);
    head.aux(b"used-mem", job.used_bytes.to_string().as_bytes());
    if let Some(StreamPlace { id, offset, db }) = &job.stream {
        head.aux(b"repl-stream-db", db.to_string().as_bytes());
        head.aux(b"repl-id", id.as_bytes());
        head.aux(b"repl-offset", offset.to_string().as_bytes());
    }
    head.aux(b"aof-base", if job.base.is_some() { b"1" } else { b"0" });
    job.libraries.iter().for_each(|text| head.function(text));
    for (db, &(keys, volatile)) in (0..).zip(&job.counts) {
        if keys > 0 {
            head.select_db(db);
            head.resize_db(keys, volatile);
        }
    }
    head
}

/// Counts entries that are written. Where each is to take a time, it passes meanwhile, unless the save is given up.
fn note_written(job: &Job, keys: usize, delay_us: u64) {
    let (began, mut noted) = (Instant::now(), 0);
    let whole = Duration::from_micros(delay_us.saturating_mul(keys as u64));
    while let Some(left) = whole.checked_sub(began.elapsed()).filter(|left| !left.is_zero()) {
        if job.snapshot.sleep(left.min(DELAY_STEP)) {
            return;
        }
        let passed = (began.elapsed().as_micros() as u64 / delay_us).min(keys as u64) as usize;
        job.snapshot.add_written(passed - noted);
        noted = passed;
    }
    job.snapshot.add_written(keys - noted);
}

/// Unix time in seconds.
pub(super) fn now_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};

    use varve_rdb::{Event, Reader};
    use varve_store::{Options, Store, StringForm, Ttl};

    use super::super::state::snapshot::QueuedBytes;
    use super::*;
    use crate::config::SaveSettings;
    use crate::system::disk::Disk;
    use crate::system::disk::failing::FailingDisk;

    /// Bytes of a large string, and of the others, which fill the queue.
    const LARGE: usize = 24 << 20;
    const SMALL: usize = 100 << 10;
    const SMALL_KEYS: usize = 500;

    /// A save whose large string has changed, and comes first; the others wait behind it.
    struct Begun {
        snapshot: Arc<Snapshot>,
        queued: Arc<QueuedBytes>,
        disk: FailingDisk,
        file: SaveFile,
        large: Piece,
        _store: Arc<Store>,
    }

    fn begun() -> Begun {
        let store = Store::new(&Options { shards: 1, ..Options::default() }).expect("an address range");
        let mut worker = store.worker(0);
        let set = |worker: &mut StoreWorker, name: &str, value: &[u8]| {
            worker.inside(0, |tx| {
                let k = tx.key(name.as_bytes());
                tx.hold(&[tx.shard_of(k.hash)]);
                tx.set(&k, value, Ttl::Clear, StringForm::Auto);
            });
        };
        set(&mut worker, "large", &vec![b'l'; LARGE]);
        (0..SMALL_KEYS).for_each(|n| set(&mut worker, &format!("small {n}"), &vec![b's'; SMALL]));
        let queued = Arc::<QueuedBytes>::default();
        let snapshot = Arc::new(Snapshot::new(&store, false, false, &queued));
        assert!(store.begin_walk(snapshot.clone()));
        set(&mut worker, "large", b"another value");
        while worker.walk_step(1) {}
        let Next::Piece(large @ Piece::Large { .. }) = snapshot.next() else { panic!("it was shown first") };
        let disk = FailingDisk::default();
        let place = SavePlace::new(Arc::new(disk.clone()), "/d".into(), "/d/dump.rdb".into());
        let settings = SaveSettings { compresses: false, ..Config::default().save };
        let mut file = SaveFile::create(place, &settings, false).expect("no fault");
        file.begin(format::VERSION, &mut RdbBuffer::new(false)).expect("no fault");
        Begun { snapshot, queued, disk, file, large, _store: store }
    }

    fn bytes_of(disk: &FailingDisk, path: &Path) -> Vec<u8> {
        let mut bytes = Vec::new();
        io::Read::read_to_end(&mut disk.read(path).expect("it is there"), &mut bytes).expect("a disk in memory");
        bytes
    }

    /// Entries that fill the queue while a large string is written go to the side file: no writer waits for the string's end.
    #[test]
    fn issue_13_entries_that_fill_the_queue_do_not_wait_for_a_large_string() {
        let Begun { snapshot, queued, disk, mut file, large, _store } = begun();
        assert!(snapshot.is_crowded() && queued.is_full());
        let mut keys = put(&mut file, large, &snapshot).expect("no fault");
        assert!(keys > SMALL_KEYS / 4, "{keys} entries were written meanwhile");
        assert!(!queued.is_full());
        while let Next::Piece(piece) = snapshot.next() {
            keys += put(&mut file, piece, &snapshot).expect("no fault");
        }
        assert_eq!(keys, SMALL_KEYS + 1);
        file.keep().expect("no fault");
        let bytes = bytes_of(&disk, Path::new("/d/dump.rdb"));
        let (mut reader, mut names) = (Reader::new(&bytes[..]), std::collections::BTreeSet::new());
        loop {
            match reader.next_event().expect("a sound file") {
                Event::Key(head) => assert!(names.insert(head.key.to_vec()), "a key twice"),
                Event::End => break,
                _ => {}
            }
        }
        assert_eq!(names.len(), SMALL_KEYS + 1);
    }

    /// A save that is given up does not write a large string to its end.
    #[test]
    fn issue_13_a_save_that_is_given_up_leaves_a_large_string_at_once() {
        let Begun { snapshot, disk, mut file, large, _store, .. } = begun();
        snapshot.abandon();
        assert!(put(&mut file, large, &snapshot).is_err());
        let written = bytes_of(&disk, &PathBuf::from(format!("/d/temp-{}.rdb", std::process::id()))).len();
        assert!(written < 2 << 20, "{written} bytes of {LARGE}");
    }
}
