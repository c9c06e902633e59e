//! The thread of the append-only file: takes what workers have appended, writes it, syncs when that is due.
//!
//! ```text
//!   always    take, write, sync, take ..: the next group is what came meanwhile
//!   everysec  take, write, rest, take ..; a second after the last sync, or with 32 MB unsynced: sync
//!   no        take, write, rest, take ..
//!   a cut     all before it is written and synced, then a new increment begins, or the thread ends
//!   Rebase    a base is whole: it takes the place of all before its cut (writer.rs)
//! ```
//! A write that fails refuses writes until one succeeds. A sync that fails is mended (`writer.rs`), tried again for
//! [`PATIENCE`]; after that writes are refused, and under `always`, where nothing may be acknowledged, the server ends.
//!
//! The bytes that were taken go to replicas as well, before they are written (`stream.rs`). Not here: files (`writer.rs`).

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, channel};
use std::time::{Duration, Instant};

use varve_exec::journal::{Cut, Reached, Taken};
use varve_store::EffectSink;

use super::super::state::aof::{Aof, Order, Rebase};
use super::place::Place;
use super::writer::{PastBounds, Writer};
use super::{load, stream};
use crate::config::{Config, Fsync};
use crate::features::latency::state as latency;
use crate::state::ServerState;
use crate::system::closed_aside::drop_aside;
use crate::system::{cpus, error_text, threads};

/// Time between two syncs under `everysec`.
const SECOND: Duration = Duration::from_secs(1);
/// Bytes that are synced though the second is not over: the rest of them is for what comes while the sync takes long.
const UNSYNCED_BYTES_MAX: u64 = 32 << 20;
/// Rest between two writes where nobody waits for them: so a write has more than one command.
pub(super) const REST: Duration = Duration::from_millis(1);
/// Time between two tries on a disk that fails.
const RETRY: Duration = Duration::from_millis(100);
/// How long a sync may go on failing.
const PATIENCE: Duration = Duration::from_secs(5);

/// The disk has failed for too long to acknowledge anything.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct GivenUp;

/// The state that the thread begins with.
#[derive(Debug)]
pub(super) enum Begins {
    /// The folder was loaded: its last increment goes on once the sender of this is gone, when it is known whether a
    /// replication stream goes on with it. A thread that was faster gave up the files of that stream's past.
    Loaded(Box<Writer>, Receiver<()>),
    /// Effects are kept from this position of the journal on; the folder counts once a base is there.
    Waiting { place: Place, at: u64 },
}

/// How the file is synced at present.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Syncing {
    fsync: Fsync,
    /// `no-appendfsync-on-rewrite`, and something is being written in the background: what is written is as good as synced.
    rests: bool,
    /// Something is being written in the background.
    beside_save: bool,
}

/// The thread's work. The clock is its caller's.
#[derive(Debug)]
pub(super) struct Keeper<'a> {
    aof: &'a Aof,
    writer: Writer,
    synced_at: Instant,
    /// Since when the disk fails.
    failing_since: Option<Instant>,
    /// A base that is to take its place once the increment behind it has begun.
    rebase: Option<Rebase>,
    /// They wait until everything is written.
    for_written: Vec<SyncSender<()>>,
    /// Calls of the disk in this turn, for the latency monitor.
    took: Vec<(latency::Event, Duration)>,
    /// Which files stay that were replaced, and when that was last looked at.
    bounds: PastBounds,
    looked_at: Option<Instant>,
}

/// Starts the thread. The one before it, if there is one, has been told to end.
///
/// # Errors
/// There is no thread to be had.
pub(super) fn spawn(state: &Arc<ServerState>, folder: PathBuf, begins: Begins) -> io::Result<()> {
    let aof = &state.persist().aof;
    let (sender, orders) = channel();
    let (keeper, before, waits) = (Arc::clone(state), aof.take_thread(), matches!(begins, Begins::Waiting { .. }));
    let thread = threads::start("aof", move || {
        cpus::keep_thread_on(&keeper.config().snapshot().process.cpus.helpers);
        if let Some(before) = before {
            before.join().expect("the thread of the file ends by returning");
        }
        run(&keeper, begins, &orders);
    })?;
    aof.begin(thread, sender, folder, waits);
    Ok(())
}

/// Runs until the journal is cut for its end.
fn run(state: &Arc<ServerState>, begins: Begins, orders: &Receiver<Order>) {
    let aof = &state.persist().aof;
    let writer = match begins {
        Begins::Loaded(writer, waits) => {
            let told = waits.recv();
            debug_assert!(told.is_err(), "nothing is sent");
            *writer
        }
        Begins::Waiting { place, at } => match open(aof, &place, at, orders) {
            Some(writer) => writer,
            None => return,
        },
    };
    let mut keeper = Keeper::new(aof, writer, Instant::now());
    // Where a file was loaded, that is done: clients may come in before this thread runs.
    state.replication().set_past(Arc::clone(keeper.writer.past()));
    loop {
        let config = state.config().snapshot();
        keeper.bounds = past_bounds(state, &config);
        let syncing = Syncing::of(&config, state.persist().under_way().is_some());
        let wait = keeper.wait(syncing, Instant::now());
        keeper.take(wait, |taken| stream::feed(state, taken));
        let stops = loop {
            match orders.try_recv() {
                Ok(order) => keeper.obey(order),
                Err(error) => break error == TryRecvError::Disconnected,
            }
        };
        std::thread::sleep(aof.write_delay());
        if keeper.turn(syncing, Instant::now()).is_err() {
            tracing::warn!("Can't recover from AOF write error when the AOF fsync policy is 'always'. Exiting...");
            std::process::exit(1);
        }
        stream::note_synced(state);
        keeper.report_spikes(state, config.latency_threshold_ms);
        keeper.remove_history(&config, Instant::now());
        if keeper.writer.at_cut() == Some(Cut::End) {
            state.replication().set_past(Arc::default());
            return keeper.end();
        }
        // The end stands behind a cut that the disk does not let happen.
        if stops && keeper.failing_since.is_some() && keeper.writer.at_cut().is_some() {
            state.replication().set_past(Arc::default());
            keeper.end();
            return aof.drop_untaken();
        }
        if keeper.failing_since.is_some() {
            std::thread::sleep(RETRY);
        } else if syncing.fsync != Fsync::Always {
            std::thread::sleep(REST);
        }
    }
}

/// Opens the folder for a file that begins to be kept, until that succeeds; None if the file is not to be kept any more.
/// Writes are refused meanwhile.
fn open(aof: &Aof, place: &Place, at: u64, orders: &Receiver<Order>) -> Option<Writer> {
    let fails = |errno: Option<i32>| {
        aof.set_refusal(errno);
        aof.report(|facts| facts.last_write_ok = errno.is_none());
    };
    let mut complained = false;
    loop {
        match try_open(place, at) {
            Ok(writer) => {
                if complained {
                    tracing::warn!("The append-only file has begun. The server can write again.");
                    fails(None);
                    // The base that the folder waits for need not wait for as long as those that failed made it wait.
                    aof.rewrites.asked();
                }
                return Some(writer);
            }
            Err(error) if !complained => {
                complained = true;
                tracing::warn!("Can't begin the append-only file, trying again: {}", error_text(&error));
                fails(Some(error.raw_os_error().unwrap_or(libc::EIO)));
            }
            Err(_) => {}
        }
        if matches!(orders.try_recv(), Err(TryRecvError::Disconnected)) {
            fails(None);
            aof.drop_untaken();
            return None;
        }
        std::thread::sleep(RETRY);
    }
}

fn try_open(place: &Place, at: u64) -> io::Result<Writer> {
    place.make_folder()?;
    let found = load::read_manifest(place).map_err(io::Error::other)?;
    Writer::waiting(place.clone(), found, at)
}

/// Which files that were replaced stay, for replicas that come back.
pub(super) fn past_bounds(state: &ServerState, config: &Config) -> PastBounds {
    let (settings, replication) = (&config.replication, state.replication());
    match replication.is_kept() {
        false => PastBounds::NONE,
        true => PastBounds {
            bytes: settings.history_bytes,
            time: Duration::from_secs(settings.history_s),
            needed: replication.replicas().filed(),
        },
    }
}

impl Syncing {
    fn of(config: &Config, is_saving: bool) -> Syncing {
        let rests = config.append.no_sync_while_saving && is_saving;
        Syncing { fsync: config.append.fsync, rests, beside_save: is_saving }
    }
}

impl<'a> Keeper<'a> {
    pub(super) fn new(aof: &'a Aof, writer: Writer, now: Instant) -> Keeper<'a> {
        Keeper {
            aof,
            writer,
            synced_at: now,
            failing_since: None,
            rebase: None,
            for_written: Vec::new(),
            took: Vec::new(),
            bounds: PastBounds::NONE,
            looked_at: None,
        }
    }

    /// How long it may wait for something to write.
    fn wait(&self, syncing: Syncing, now: Instant) -> Duration {
        let unsynced = self.writer.unsynced_bytes() > 0;
        match syncing.fsync {
            _ if self.failing_since.is_some() || self.rebase.is_some() || !self.for_written.is_empty() => {
                Duration::ZERO
            }
            Fsync::EverySecond if unsynced => (self.synced_at + SECOND).saturating_duration_since(now),
            _ => SECOND,
        }
    }

    /// Takes what was appended, unless a cut is still to be done, and shows it to `feed`.
    pub(super) fn take(&mut self, wait: Duration, feed: impl FnOnce(&Taken)) {
        if self.writer.at_cut().is_none() {
            let taken = self.aof.journal().take(wait, self.writer.emptied());
            feed(&taken);
            self.writer.put(taken);
        }
    }

    fn obey(&mut self, order: Order) {
        match order {
            Order::Rebase(rebase) => self.rebase = Some(rebase),
            Order::Write(done) => self.for_written.push(done),
        }
    }

    /// Writes and syncs what is due, and reports.
    ///
    /// # Errors
    /// The disk fails, and nothing may be acknowledged.
    pub(super) fn turn(&mut self, syncing: Syncing, now: Instant) -> Result<(), GivenUp> {
        self.writer.keep_unsynced(syncing.fsync != Fsync::No && !syncing.rests);
        let was_full = self.aof.journal().is_full();
        let done = self.write_and_sync(syncing, now);
        // Replies that waited under `always` leave when the settings no longer ask for a sync.
        let nobody_syncs = syncing.rests || syncing.fsync == Fsync::No;
        let safe = if nobody_syncs { self.writer.written() } else { self.writer.synced() };
        // A position that once counted as synced goes on doing so.
        let synced = safe.max(self.aof.journal().synced());
        self.aof.reached(Reached { synced, released: self.writer.released() });
        let given_up = match done {
            Ok(()) => {
                self.recover();
                self.take_base();
                if self.writer.at_cut().is_none() && self.writer.written() == self.aof.journal().end() {
                    self.for_written.drain(..).for_each(|done| _ = done.send(()));
                }
                false
            }
            Err(error) => self.fail(&error, syncing.fsync, now),
        };
        let writer = &self.writer;
        let (current_bytes, buffer_bytes) = (writer.bytes(), writer.end() - writer.written());
        let ok = self.failing_since.is_none();
        self.aof.report(|facts| {
            (facts.current_bytes, facts.buffer_bytes, facts.last_write_ok) = (current_bytes, buffer_bytes, ok);
            facts.delayed += u64::from(was_full);
        });
        if given_up { Err(GivenUp) } else { Ok(()) }
    }

    fn write_and_sync(&mut self, syncing: Syncing, now: Instant) -> io::Result<()> {
        if self.writer.is_broken() {
            self.writer.mend()?;
            tracing::warn!("A new increment of the append-only file has what the last sync may have lost");
            self.synced_at = now;
        }
        let (began, before) = (Instant::now(), self.writer.written());
        let written = self.writer.write();
        if self.writer.written() > before {
            let beside =
                if syncing.beside_save { latency::Event::AofWriteBesideSave } else { latency::Event::AofWriteAlone };
            self.took.extend([latency::Event::AofWrite, beside].map(|event| (event, began.elapsed())));
        }
        written?;
        let unsynced = self.writer.unsynced_bytes();
        let due = match syncing.fsync {
            _ if self.writer.at_cut().is_some() => true,
            _ if syncing.rests => false,
            Fsync::Always => true,
            Fsync::EverySecond => now.duration_since(self.synced_at) >= SECOND || unsynced >= UNSYNCED_BYTES_MAX,
            Fsync::No => false,
        };
        if due && unsynced > 0 {
            self.synced_at = now;
            let began = Instant::now();
            self.aof.report(|facts| facts.syncs_under_way = 1);
            let synced = self.writer.sync();
            self.aof.report(|facts| facts.syncs_under_way = 0);
            if syncing.fsync == Fsync::Always {
                self.took.push((latency::Event::AofSync, began.elapsed()));
            }
            synced?;
        }
        match self.writer.at_cut() {
            Some(Cut::NewFile) => self.writer.roll(),
            Some(Cut::End) | None => Ok(()),
        }
    }

    /// Gives a base its place, if one is there and the increment behind it has begun.
    fn take_base(&mut self) {
        let Some(rebase) = self.rebase.take_if(|rebase| self.writer.has_begun(rebase.at)) else { return };
        if rebase.claimed.swap(true, Ordering::AcqRel) {
            return;
        }
        let began = Instant::now();
        let replaced = self.writer.rebase(&rebase.temp, rebase.form);
        self.took.push((latency::Event::AofRename, began.elapsed()));
        if replaced.is_ok() {
            self.aof.base_is_there();
            let bytes = self.writer.bytes();
            self.aof.report(|facts| (facts.current_bytes, facts.base_bytes) = (bytes, bytes));
        }
        let removed = replaced.and_then(|()| match rebase.keeps_history {
            true => Ok(Vec::new()),
            false => self.writer.remove_history(self.bounds),
        });
        // Nobody waits for the answer if the server ends.
        let _ = rebase.done.send(removed);
    }

    /// Gives the latency monitor the calls of the disk that took so long.
    fn report_spikes(&mut self, state: &ServerState, threshold_ms: u64) {
        for (event, took) in self.took.drain(..) {
            state.note_spike(event, took, threshold_ms);
        }
    }

    /// Removes files that were replaced while they were to be kept, and are no longer.
    fn remove_history(&mut self, config: &Config, now: Instant) {
        if self.looked_at.is_some_and(|last| now.duration_since(last) < SECOND) {
            return;
        }
        self.looked_at = Some(now);
        if config.append.keeps_history || self.writer.is_broken() {
            return;
        }
        match self.writer.remove_history(self.bounds) {
            // The last close of a file gives its room back: that may take long.
            Ok(handles) if !handles.is_empty() => drop_aside(handles),
            Ok(_) => {}
            Err(error) => tracing::warn!("Removing files that a rewrite has replaced: {}", error_text(&error)),
        }
    }

    /// Something has failed; true if it has failed for too long to acknowledge anything. A disk without room is waited for:
    /// what it has not taken stays in memory, and nothing of it is answered.
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
        self.writer.is_broken() && is_long && fsync == Fsync::Always && !is_without_room(error)
    }

    fn recover(&mut self) {
        if self.failing_since.take().is_some() {
            tracing::warn!("AOF write error looks solved. The server can write again.");
            self.aof.set_refusal(None);
        }
    }

    /// The file is not kept any more.
    fn end(mut self) {
        let (end, lost) = (self.writer.end(), self.writer.end() - self.writer.synced());
        if lost > 0 {
            tracing::warn!("The append-only file ends without its last {lost} bytes, which the disk has not taken");
            self.writer.past().forget();
        }
        self.writer.drop_unlisted();
        self.aof.set_refusal(None);
        // Nobody goes on waiting for a file that is not kept.
        self.aof.reached(Reached { synced: end, released: end });
    }
}

/// True if the disk has taken less than it was given since it is full, or a bound of the system is reached.
fn is_without_room(error: &io::Error) -> bool {
    use io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
    matches!(error.kind(), StorageFull | QuotaExceeded | FileTooLarge)
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use varve_base::rng::Rng;
    use varve_exec::journal::Origin;
    use varve_store::{Options, Store};

    use super::*;
    use crate::system::disk::Disk;
    use crate::system::disk::failing::{Call, FailingDisk};

    /// A store whose effects are appended to a journal.
    fn kept() -> (mio::Poll, Aof, Arc<Store>) {
        let poll = mio::Poll::new().expect("a poll");
        let waker = mio::Waker::new(poll.registry(), mio::Token(0)).expect("a waker");
        let aof = Aof::new(vec![Arc::new(waker)]);
        let store = Store::new(&Options::default()).expect("an address range");
        store.set_effect_sink(Arc::clone(aof.journal()) as Arc<dyn EffectSink>);
        store.keep_effects(true);
        (poll, aof, store)
    }

    /// A writer on a healthy disk, of an empty file.
    fn writer_on(disk: &FailingDisk, aof: &Aof) -> Writer {
        let place = Place { disk: Arc::new(disk.clone()), folder: PathBuf::new(), name: b"a.aof".to_vec() };
        Writer::open(place, varve_aof::Manifest::default(), aof.journal().end()).expect("a healthy disk")
    }

    /// To write again after a failed sync takes room: a full disk is waited for, one that fails otherwise is not.
    #[test]
    fn a_full_disk_ends_no_server_and_a_broken_one_does() {
        for is_full in [true, false] {
            let (_poll, aof, store) = kept();
            let disk = FailingDisk::default();
            let writer = writer_on(&disk, &aof);
            let (now, mut worker) = (Instant::now(), store.worker(0));
            let mut keeper = Keeper::new(&aof, writer, now);
            worker.did_whole();
            worker.end_command(0, &|words| _ = words.add(b"FLUSHALL"));
            keeper.take(Duration::ZERO, |_| {});
            let syncing = || Syncing { fsync: Fsync::Always, rests: false, beside_save: false };
            let fails = |_: u64, call| (call == Call::Sync).then(|| io::Error::from_raw_os_error(libc::EIO));
            disk.set_fault(fails);
            assert!(
                keeper.turn(syncing(), now).is_ok() && keeper.writer.is_broken(),
                "it is tried on another file first"
            );
            if is_full {
                disk.heal();
                disk.set_room(Some(0));
            }
            let given_up = keeper.turn(syncing(), now + PATIENCE).is_err();
            assert_eq!(given_up, !is_full, "a disk without room is waited for");
            if is_full {
                disk.set_room(None);
                assert!(keeper.turn(syncing(), now + PATIENCE * 2).is_ok());
                assert!(!keeper.writer.is_broken() && keeper.writer.synced() == keeper.writer.end());
                assert!(keeper.failing_since.is_none(), "writes are taken again");
            }
        }
    }

    /// A sync that fails under `everysec` is tried on another file, again and again, and writes go on meanwhile. After five
    /// seconds they are refused, and the server lives. What was not synced is in a new file as soon as the disk takes one: with
    /// it, and without a rewrite, writes are taken again.
    #[test]
    fn issue_13_every_second_a_failed_sync_refuses_writes_after_five_seconds_and_loses_nothing() {
        let (_poll, aof, store) = kept();
        let disk = FailingDisk::default();
        let writer = writer_on(&disk, &aof);
        let (now, mut worker) = (Instant::now(), store.worker(0));
        let mut keeper = Keeper::new(&aof, writer, now);
        let mut write = |keeper: &mut Keeper<'_>| {
            worker.did_whole();
            worker.end_command(0, &|words| _ = words.add(b"FLUSHALL"));
            keeper.take(Duration::ZERO, |_| {});
        };
        let syncing = Syncing { fsync: Fsync::EverySecond, rests: false, beside_save: false };
        disk.set_fault(|_, call| (call == Call::Sync).then(|| io::Error::from_raw_os_error(libc::EIO)));
        write(&mut keeper);
        let failed_at = now + SECOND;
        keeper.turn(syncing, failed_at).expect("the server lives");
        assert!(keeper.writer.is_broken() && aof.refusal().is_none(), "it is tried on another file first");
        write(&mut keeper);
        keeper.turn(syncing, failed_at + PATIENCE - RETRY).expect("the server lives");
        assert!(keeper.writer.is_broken() && aof.refusal().is_none(), "five seconds are not over");
        for late in [PATIENCE, PATIENCE * 20] {
            keeper.turn(syncing, failed_at + late).expect("the server lives");
            assert_eq!(aof.refusal(), Some(libc::EIO), "writes are refused");
            assert!(aof.journal().synced() < aof.journal().end(), "and nothing counts as synced");
        }
        disk.heal();
        keeper.turn(syncing, failed_at + PATIENCE * 21).expect("a healthy disk");
        assert!(aof.refusal().is_none() && !keeper.writer.is_broken(), "writes are taken again");
        assert_eq!(keeper.writer.synced(), aof.journal().end(), "all of it is synced");
        let crashed = disk.crash(&mut Rng::seeded(1));
        let place = Place { disk: Arc::new(crashed), folder: PathBuf::new(), name: b"a.aof".to_vec() };
        let manifest = load::read_manifest(&place).expect("a manifest");
        let count = |entry: &varve_aof::Entry| {
            let (mut bytes, length) = (Vec::new(), entry.length.unwrap_or(u64::MAX));
            let file = place.disk.read(&place.path(&entry.name)).expect("a file");
            file.take(length).read_to_end(&mut bytes).expect("it can be read");
            bytes.windows(8).filter(|text| *text == b"FLUSHALL").count()
        };
        assert_eq!(manifest.files().map(count).sum::<usize>(), 2, "a crash finds both commands, and each once");
    }

    /// An increment that another one follows is synced to its last byte, though that is of a mark, which has no
    /// position.
    #[test]
    fn a_mark_alone_is_synced_before_the_next_increment_begins() {
        let (_poll, aof, _store) = kept();
        let disk = FailingDisk::default();
        let writer = writer_on(&disk, &aof);
        let now = Instant::now();
        let mut keeper = Keeper::new(&aof, writer, now);
        aof.journal().set_origin(Some(Origin { id: "a".repeat(40), base: 0, since: 0 }));
        aof.journal().cut(Cut::NewFile);
        keeper.take(Duration::ZERO, |_| {});
        keeper
            .turn(Syncing { fsync: Fsync::EverySecond, rests: false, beside_save: false }, now)
            .expect("a healthy disk");
        let place = |disk: FailingDisk| Place { disk: Arc::new(disk), folder: PathBuf::new(), name: b"a.aof".to_vec() };
        let healthy = place(disk.clone());
        let manifest = load::read_manifest(&healthy).expect("a manifest");
        assert_eq!(manifest.increments().len(), 2);
        let first = healthy.path(&manifest.increments()[0].name);
        let bytes = disk.size(&first).expect("it is there");
        assert!(bytes > 0);
        for seed in 0..16 {
            let crashed = disk.crash(&mut Rng::seeded(seed));
            assert_eq!(crashed.size(&first).expect("it is there"), bytes, "seed {seed}");
        }
    }

    /// INFO's `aof_pending_bio_fsync`: the sync that is under way, seen from within the call.
    #[test]
    fn issue_13_a_sync_that_is_under_way_is_counted() {
        let (_poll, aof, store) = kept();
        let aof: &'static Aof = Box::leak(Box::new(aof));
        let disk = FailingDisk::default();
        let writer = writer_on(&disk, aof);
        let (now, mut worker) = (Instant::now(), store.worker(0));
        let mut keeper = Keeper::new(aof, writer, now);
        let seen = Arc::new(std::sync::atomic::AtomicU64::new(0));
        let within = Arc::clone(&seen);
        disk.set_fault(move |_, call| {
            let count = aof.facts().syncs_under_way;
            within.fetch_add(if call == Call::Sync { count } else { 100 * count }, Ordering::Relaxed);
            None
        });
        worker.did_whole();
        worker.end_command(0, &|words| _ = words.add(b"FLUSHALL"));
        keeper.take(Duration::ZERO, |_| {});
        let syncing = Syncing { fsync: Fsync::Always, rests: false, beside_save: false };
        keeper.turn(syncing, now).expect("a healthy disk");
        assert_eq!((seen.load(Ordering::Relaxed), aof.facts().syncs_under_way), (1, 0));
    }

    /// Each write, and each sync that replies wait for, is known to the latency monitor by redis-server's names.
    #[test]
    fn issue_13_calls_of_the_disk_have_names() {
        let (_poll, aof, store) = kept();
        let writer = writer_on(&FailingDisk::default(), &aof);
        let (now, mut worker) = (Instant::now(), store.worker(0));
        let mut keeper = Keeper::new(&aof, writer, now);
        let mut names = |fsync: Fsync, beside_save: bool, write: bool| {
            if write {
                worker.did_whole();
                worker.end_command(0, &|words| _ = words.add(b"FLUSHALL"));
            }
            keeper.take(Duration::ZERO, |_| {});
            keeper.turn(Syncing { fsync, rests: false, beside_save }, now).expect("a healthy disk");
            keeper.took.drain(..).map(|(event, _)| event.name()).collect::<Vec<_>>()
        };
        assert_eq!(names(Fsync::Always, false, true), ["aof-write", "aof-write-alone", "aof-fsync-always"]);
        assert_eq!(names(Fsync::Always, true, true), ["aof-write", "aof-write-active-child", "aof-fsync-always"]);
        assert_eq!(names(Fsync::EverySecond, false, true), ["aof-write", "aof-write-alone"]);
        assert!(names(Fsync::No, false, false).is_empty(), "nothing was written");
    }

    /// `no-appendfsync-on-rewrite`: while something is being saved nothing is synced, and replies leave all the same.
    #[test]
    fn issue_13_no_sync_beside_a_save_if_that_is_wanted() {
        let (_poll, aof, store) = kept();
        let disk = FailingDisk::default();
        let writer = writer_on(&disk, &aof);
        let (mut now, mut worker) = (Instant::now(), store.worker(0));
        let mut keeper = Keeper::new(&aof, writer, now);
        let syncs = Arc::new(std::sync::atomic::AtomicUsize::new(0));
        let count = Arc::clone(&syncs);
        disk.set_fault(move |_, call| {
            count.fetch_add(usize::from(call == Call::Sync), Ordering::Relaxed);
            None
        });
        let mut write = |fsync: Fsync, is_saving: bool| {
            let mut config = Config::default();
            (config.append.fsync, config.append.no_sync_while_saving) = (fsync, true);
            worker.did_whole();
            worker.end_command(0, &|words| _ = words.add(b"FLUSHALL"));
            keeper.take(Duration::ZERO, |_| {});
            now += SECOND;
            let before = syncs.load(Ordering::Relaxed);
            keeper.turn(Syncing::of(&config, is_saving), now).expect("a healthy disk");
            (syncs.load(Ordering::Relaxed) - before, aof.journal().synced() == aof.journal().end())
        };
        for fsync in [Fsync::Always, Fsync::EverySecond] {
            assert_eq!(write(fsync, false), (1, true), "{fsync:?}: nothing is being saved");
            assert_eq!(write(fsync, true), (0, true), "{fsync:?}: a save is under way");
            assert_eq!(write(fsync, false), (1, true), "{fsync:?}: the save has ended");
        }
    }
}
