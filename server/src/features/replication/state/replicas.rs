//! The replicas of this server, as all threads see them: where each one is.
//!
//! ```text
//!   PSYNC --> WaitsForWalk --an instant--> InWalk --the file is whole, or has begun--> Gets --sent--> Online
//!    |                                       |  the file failed: Ends, the connection ends
//!    +--the backlog has what it needs: +CONTINUE ------------------------------------> Online
//! ```
//! A replica's worker sends it what its stage says (`worker/replicas.rs`), and is woken when there is more. The cursor is the
//! position of the stream that it is sent next: the backlog keeps all from there on. One that is far behind has no cursor: it
//! is sent the stream out of files or the spool, up to where the backlog has it (`primary/courier.rs`). Not here: bytes.

use std::fs::File;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use parking_lot::MutexGuard;
use varve_base::shared::{SharedBool, SharedMutex, SharedU8, SharedU64, SharedUsize};

use super::past::Past;
use super::peer::Peer;
use super::replica::Address;
use crate::system::closed_aside::ClosedAside;

/// A data set on its way to replicas, whole or being written.
#[derive(Debug)]
pub(crate) struct SyncFile {
    pub(crate) file: ClosedAside,
    /// The bytes that stand behind the data set, where replicas are not told its length before.
    pub(crate) mark: Option<String>,
    bytes: SharedU64,
    writing: SharedU8,
}

/// How far the writing of a data set is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Writing {
    /// It goes on.
    GoesOn = 0,
    /// All of it is there.
    Whole = 1,
    /// It ended before that.
    Lost = 2,
}

impl SyncFile {
    /// A file that is whole.
    pub(crate) fn whole(file: File) -> io::Result<SyncFile> {
        let bytes = SharedU64::new(file.metadata()?.len());
        Ok(SyncFile { file: file.into(), mark: None, bytes, writing: SharedU8::new(Writing::Whole as u8) })
    }

    /// A file that is being written, behind which this mark is sent.
    pub(crate) fn growing(file: File, mark: String) -> SyncFile {
        let (bytes, writing) = (SharedU64::new(0), SharedU8::new(Writing::GoesOn as u8));
        SyncFile { file: file.into(), mark: Some(mark), bytes, writing }
    }

    /// More bytes of it are written.
    pub(crate) fn grow(&self, bytes: u64) {
        self.bytes.fetch_add(bytes, Ordering::Release);
    }

    /// Nothing more is written: it is whole, or lost, whichever is said first.
    pub(crate) fn end(&self, how: Writing) {
        let _ = self.writing.compare_exchange(Writing::GoesOn as u8, how as u8, Ordering::AcqRel, Ordering::Acquire);
    }

    /// How far it is: bytes that can be read, all of them where it is whole.
    pub(crate) fn written(&self) -> (u64, Writing) {
        let writing = match self.writing.load(Ordering::Acquire) {
            0 => Writing::GoesOn,
            1 => Writing::Whole,
            _ => Writing::Lost,
        };
        (self.bytes.load(Ordering::Acquire), writing)
    }
}

/// The thing that a replica is about to get.
#[derive(Clone, Debug)]
pub(crate) enum Stage {
    /// The data set of an instant to come.
    WaitsForWalk,
    /// The data set of an instant, which is being written to a file.
    InWalk,
    /// That file, which may still be written, then the stream from the instant on.
    Gets(Arc<SyncFile>),
    /// The stream.
    Online,
    /// Nothing: why its connection ends.
    Ends(&'static str),
}

impl Stage {
    /// The word that INFO and the log have for it. As in redis-server, a data set that is sent while it is written is waited for
    /// until it is whole.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Stage::WaitsForWalk | Stage::InWalk | Stage::Ends(_) => "wait_bgsave",
            Stage::Gets(file) if file.written().1 == Writing::GoesOn => "wait_bgsave",
            Stage::Gets(_) => "send_bulk",
            Stage::Online => "online",
        }
    }
}

/// A replica.
#[derive(Debug)]
pub(crate) struct Replica {
    /// The worker that has its connection.
    pub(crate) worker: usize,
    /// It wants the data set and no stream behind it.
    pub(crate) wants_file_only: bool,
    /// It takes a data set of unknown length, with a mark behind it.
    pub(crate) takes_mark: bool,
    /// The position of the stream that it is sent next; `u64::MAX` while that is not known.
    cursor: SharedU64,
    /// The offset of the stream from which on it needs files; `u64::MAX` if it needs none.
    filed: SharedU64,
    /// The files that have it. They are its own: the server may keep none any more, or others.
    past: SharedMutex<Arc<Past>>,
    /// The position of the stream from which on it needs the spool; `u64::MAX` if it does not.
    spooled: SharedU64,
    /// The position behind the files that it is sent, from which on it will need memory or the spool; `u64::MAX` if it may
    /// find all in files.
    behind_files: SharedU64,
    now: SharedMutex<ReplicaNow>,
}

/// The part of a replica that changes.
#[derive(Clone, Debug)]
pub(crate) struct ReplicaNow {
    pub(crate) stage: Stage,
    /// The address and the port under which it says that it is reached.
    pub(crate) address: String,
    pub(crate) port: u16,
    /// The offset of the stream at the instant of its data set.
    pub(crate) instant: u64,
    /// The number of the walk that its data set is of; 0 if it is of none.
    pub(crate) walk: u64,
    /// The offset up to which it has the stream.
    pub(crate) acked: u64,
    /// The offset up to which its append-only file has it.
    pub(crate) filed: Option<u64>,
    /// When it last said so, milliseconds of the steady clock.
    pub(crate) acked_ms: i64,
    /// Bytes of its data set that it was sent.
    pub(crate) sent_bytes: u64,
    /// When the sending began, milliseconds of the steady clock.
    pub(crate) sent_since_ms: i64,
}

impl ReplicaNow {
    /// One that is sent nothing yet.
    pub(crate) fn online(address: String, port: u16, now_ms: i64) -> ReplicaNow {
        ReplicaNow {
            stage: Stage::Online,
            address,
            port,
            instant: 0,
            walk: 0,
            acked: 0,
            filed: None,
            acked_ms: now_ms,
            sent_bytes: 0,
            sent_since_ms: 0,
        }
    }

    /// True if it waits for the data set of this walk.
    pub(super) fn is_in(&self, walk: u64) -> bool {
        self.walk == walk && matches!(self.stage, Stage::InWalk)
    }

    /// True if it says that it is reached there.
    pub(crate) fn is_at(&self, place: &Address) -> bool {
        self.port == place.port && self.address.eq_ignore_ascii_case(&place.host)
    }
}

impl Replica {
    /// A replica that is reached at this address.
    pub(crate) fn new(worker: usize, peer: &Peer, now: ReplicaNow) -> Replica {
        let (wants_file_only, takes_mark) = (peer.wants_file_only, peer.takes_mark);
        Replica {
            worker,
            wants_file_only,
            takes_mark,
            cursor: SharedU64::new(u64::MAX),
            filed: SharedU64::new(u64::MAX),
            past: SharedMutex::default(),
            spooled: SharedU64::new(u64::MAX),
            behind_files: SharedU64::new(u64::MAX),
            now: SharedMutex::new(now),
        }
    }

    /// The part of it that changes.
    pub(crate) fn now(&self) -> MutexGuard<'_, ReplicaNow> {
        self.now.lock()
    }

    /// The position of the stream that it is sent next; `u64::MAX` while that is not known.
    pub(crate) fn cursor(&self) -> u64 {
        self.cursor.load(Ordering::Acquire)
    }

    /// The stream from this position on is needed, and nothing of it before.
    pub(crate) fn set_cursor(&self, position: u64) {
        self.cursor.store(position, Ordering::Release);
    }
}

impl Replica {
    /// The offset of the stream from which on it needs files; `u64::MAX` if it needs none.
    pub(crate) fn filed(&self) -> u64 {
        self.filed.load(Ordering::Acquire)
    }

    /// The stream from this offset on is needed out of files; `u64::MAX`: none of it is.
    pub(crate) fn set_filed(&self, offset: u64) {
        self.filed.store(offset, Ordering::Release);
    }

    /// Has it be sent the stream from this offset on out of files, if those that `past` gives have it; false if not. They are
    /// looked for when all can see that they are needed: they stay from then on.
    pub(crate) fn begin_filed(&self, offset: u64, past: impl FnOnce() -> Arc<Past>) -> bool {
        self.set_filed(offset);
        let past = past();
        let has = past.before(offset).is_some();
        if has {
            *self.past.lock() = past
        } else {
            self.end_filed()
        }
        has
    }

    /// It needs no files any more.
    pub(crate) fn end_filed(&self) {
        self.set_filed(u64::MAX);
        self.need(u64::MAX);
    }

    /// The files that it is sent: those of [`Replica::begin_filed`].
    pub(crate) fn past(&self) -> Arc<Past> {
        Arc::clone(&self.past.lock())
    }

    /// Files end at this position: it needs what follows out of memory or the spool. `u64::MAX`: that is not known to happen.
    pub(crate) fn need(&self, position: u64) {
        self.behind_files.store(position, Ordering::Release);
    }

    /// The position of the stream from which on it needs the spool; `u64::MAX` if it does not.
    pub(crate) fn spooled(&self) -> u64 {
        self.spooled.load(Ordering::Acquire)
    }

    /// The stream from this position on is needed out of the spool; `u64::MAX`: none of it is.
    pub(crate) fn set_spooled(&self, position: u64) {
        self.spooled.store(position, Ordering::Release);
    }

    /// The position from which on it needs the stream out of memory or the spool; `u64::MAX` if it needs neither.
    fn needed(&self) -> u64 {
        // Whoever leaves memory for the spool says so first: one of the two is seen.
        let cursor = self.cursor();
        cursor.min(self.spooled()).min(self.behind_files.load(Ordering::Acquire))
    }

    /// It gets the data set of an instant to come, unless its connection ends.
    pub(crate) fn await_walk(&self) {
        let mut now = self.now();
        if !matches!(now.stage, Stage::Ends(_)) {
            now.stage = Stage::WaitsForWalk;
        }
    }

    /// Its connection ends, and it needs nothing more.
    pub(crate) fn end(&self, why: &'static str) {
        self.now().stage = Stage::Ends(why);
        self.need(u64::MAX);
        self.set_spooled(u64::MAX);
        self.set_cursor(u64::MAX);
    }
}

/// All replicas, in the order in which they came.
#[derive(Debug)]
pub(crate) struct Replicas {
    all: SharedMutex<Vec<Arc<Replica>>>,
    of_worker: Box<[OfWorker]>,
    /// Replicas that are online and have acknowledged lately.
    good: SharedUsize,
}

/// The replicas of a worker.
#[derive(Debug, Default)]
struct OfWorker {
    count: SharedUsize,
    /// It is woken, and has not looked yet.
    is_woken: SharedBool,
}

impl Replicas {
    pub(crate) fn new(workers: usize) -> Replicas {
        let of_worker = (0..workers).map(|_| OfWorker::default()).collect();
        Replicas { all: SharedMutex::default(), of_worker, good: SharedUsize::new(0) }
    }

    /// One more.
    pub(crate) fn add(&self, replica: Arc<Replica>) {
        self.of_worker[replica.worker].count.fetch_add(1, Ordering::Relaxed);
        self.all.lock().push(replica);
    }

    /// The connection of a replica has ended.
    pub(crate) fn remove(&self, replica: &Arc<Replica>) {
        let mut all = self.all.lock();
        let before = all.len();
        all.retain(|other| !Arc::ptr_eq(other, replica));
        assert_eq!(all.len() + 1, before, "a replica leaves once");
        self.of_worker[replica.worker].count.fetch_sub(1, Ordering::Relaxed);
    }

    /// True while the connection of this one lasts.
    pub(crate) fn has(&self, replica: &Arc<Replica>) -> bool {
        self.all.lock().iter().any(|other| Arc::ptr_eq(other, replica))
    }

    /// The connections of all of them end: they have to ask again how to go on. [`Replicas::wake`] follows.
    pub(crate) fn end_all(&self, why: &'static str) {
        self.all.lock().iter().for_each(|replica| replica.now().stage = Stage::Ends(why));
    }

    /// All of them, locked. The lock is a leaf.
    pub(crate) fn all(&self) -> MutexGuard<'_, Vec<Arc<Replica>>> {
        self.all.lock()
    }

    /// The least position that some replica needs.
    pub(crate) fn needed(&self) -> u64 {
        self.all.lock().iter().map(|replica| replica.needed()).min().unwrap_or(u64::MAX)
    }

    /// The connections of those end that need something before this position.
    pub(crate) fn end_before(&self, position: u64, why: &'static str) {
        self.all.lock().iter().filter(|replica| replica.needed() < position).for_each(|replica| replica.end(why));
    }

    /// The least offset from which on some replica needs files.
    pub(crate) fn filed(&self) -> u64 {
        self.all.lock().iter().map(|replica| replica.filed()).min().unwrap_or(u64::MAX)
    }

    /// The workers that have replicas and are not woken: they count as woken.
    pub(crate) fn wake(&self) -> impl Iterator<Item = usize> {
        let sleeps = |of: &OfWorker| of.count.load(Ordering::Relaxed) > 0 && !of.is_woken.swap(true, Ordering::AcqRel);
        self.of_worker.iter().enumerate().filter(move |(_, of)| sleeps(of)).map(|(worker, _)| worker)
    }

    /// A worker that was woken looks now: it is woken again for what comes from here on.
    pub(crate) fn looks(&self, worker: usize) {
        self.of_worker[worker].is_woken.store(false, Ordering::SeqCst);
    }

    /// Replicas that have acknowledged this offset: in memory, or in their files.
    pub(crate) fn acked(&self, offset: u64, in_files: bool) -> usize {
        let has = |replica: &&Arc<Replica>| {
            let now = replica.now();
            let acked = if in_files { now.filed } else { Some(now.acked) };
            matches!(now.stage, Stage::Online) && acked.is_some_and(|acked| acked >= offset)
        };
        self.all.lock().iter().filter(has).count()
    }

    /// Replicas that have not acknowledged this offset, the stream's end. One that wants no stream is none of them.
    pub(crate) fn lagging(&self, end: u64) -> Vec<Arc<Replica>> {
        let lags = |replica: &&Arc<Replica>| !replica.wants_file_only && replica.now().acked != end;
        self.all.lock().iter().filter(lags).cloned().collect()
    }

    /// Counts the replicas that have acknowledged within `lag_ms`, for [`Replicas::good`].
    pub(crate) fn count_good(&self, now_ms: i64, lag_ms: i64) {
        let is_good = |replica: &&Arc<Replica>| {
            let now = replica.now();
            matches!(now.stage, Stage::Online) && now_ms - now.acked_ms <= lag_ms
        };
        let good = self.all.lock().iter().filter(is_good).count();
        self.good.store(good, Ordering::Relaxed);
    }

    /// Replicas that had acknowledged lately when they were last counted.
    #[inline]
    pub(crate) fn good(&self) -> usize {
        self.good.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_data_set_that_is_being_written_is_waited_for() {
        let file = Arc::new(SyncFile::growing(File::open("/dev/null").expect("it is there"), String::new()));
        let stage = Stage::Gets(Arc::clone(&file));
        assert_eq!(stage.name(), "wait_bgsave");
        file.end(Writing::Whole);
        assert_eq!(stage.name(), "send_bulk");
    }
}
