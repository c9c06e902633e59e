//! The journal's queue: bytes that workers append and one thread takes.
//!
//! ```text
//!  positions, bytes since the journal was made:
//!     0 ........ released ........ synced ...... written ........ end
//!                |<--- kept by the thread that takes --->|<- queue ->|
//!     cut: a position behind which the bytes belong to a new file, or to another thread
//!
//!  worker:  render, reserve a place (place.rs), put the bytes into its own lane (lane.rs)
//!  thread that takes:  one row of chunks out of all lanes (merge.rs)
//!  chunk:  whole requests, and the database that a reader of all before them has selected
//! ```
//! A file that begins with any chunk is whole once it selects that database, but for the later chunks of one unit: those are
//! taken together. So the thread that takes may go on in another file between any two takings.
//!
//! A command that changes a key part by part has its effects rendered as they come ([`EffectSink::prepare`]), into chunks of its
//! own that are appended at its end, as one transaction. Whoever reads the stream sees all of it or nothing.
//!
//! Workers have in common what a reservation writes, and nothing else: with one queue under one lock, two threads appended
//! 1.1 times as much as one. A unit of at most [`COPY_BYTES_MAX`] is copied; a longer one is handed over as it is. A large
//! argument is not copied at all: its extent is pinned, and stays the memory that the store counts. The thread that takes is
//! woken if it sleeps and nobody has woken it.
//!
//! Writers wait while [`WAITING_BYTES_MAX`] are in memory, or [`PINNED_BYTES_MAX`] are pinned. The thread that takes may hand
//! chunks on to replicas, whose own limits bound what these keep.

mod lane;
mod merge;
mod place;

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use varve_aof::{Note, put_request};
use varve_base::lock::{SpinGuard, SpinMutex};
use varve_base::rank::{self, Rank};
use varve_base::shared::{SharedBool, SharedMutex, SharedU64};
use varve_store::{EffectSink, Prepared, Unit};

use self::lane::{Apart, Lane};
use self::merge::Merger;
use self::place::{Place, Reserved};
use super::chunk::Chunk;
use super::parts::Parts;
use super::stream::{Databases, render};

/// A unit longer than this is a chunk of its own.
const COPY_BYTES_MAX: usize = 16 << 10;
/// Looks at a lane that is held before it is left for the next time: some microseconds.
const LANE_LOOKS: u32 = 100;
/// Bytes that may wait for the file before writers wait.
const WAITING_BYTES_MAX: u64 = 64 << 20;
/// Bytes of large arguments that may wait for the file before writers wait: two of the largest.
const PINNED_BYTES_MAX: u64 = 1 << 30;

/// See the module's picture.
#[derive(Debug)]
pub struct Journal {
    place: Place,
    /// A lane for each worker, each on cache lines of its own, and a last one for what no worker's command does.
    lanes: Box<[OwnLines]>,
    /// The thread that takes has it.
    merger: SharedMutex<Merger>,
    synced: SharedU64,
    released: SharedU64,
    /// Bytes of large arguments that wait.
    pinned: Arc<SharedU64>,
    /// A line with the time stands in front of the first unit of a second.
    timestamps: SharedBool,
}

#[derive(Debug, Default)]
#[repr(align(128))]
struct OwnLines(SpinMutex<Lane>);

/// Which stream the bytes of a journal are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    /// The id of its history, 40 hexadecimal digits.
    pub id: String,
    /// The offset of position 0: it is negative where the journal is older than the stream.
    pub base: i64,
    /// The offset from which on all bytes were appended, here or before a restart.
    pub since: u64,
}

/// The thing that begins at a position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// The bytes behind it belong to a new file.
    NewFile,
    /// The thread that takes ends there: the bytes behind it are another one's.
    End,
}

/// Bytes that were taken.
#[derive(Debug, Default)]
pub struct Taken {
    /// The bytes, in their order.
    pub chunks: Vec<Arc<Chunk>>,
    /// The position behind them.
    pub end: u64,
    /// The database that is selected behind them; None before the first of all, and at a cut.
    pub db: Option<u32>,
    /// The cut behind them.
    pub cut: Option<Cut>,
}

/// How far the thread that takes has come: positions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reached {
    /// Up to here the bytes outlive a crash of the machine.
    pub synced: u64,
    /// Up to here the bytes are no longer in memory.
    pub released: u64,
}

impl Journal {
    /// An empty journal to which this number of workers append.
    pub fn new(workers: usize) -> Arc<Journal> {
        let lanes = workers + 1;
        Arc::new(Journal {
            place: Place::default(),
            lanes: (0..lanes).map(|_| OwnLines::default()).collect(),
            merger: SharedMutex::new(Merger::new(lanes)),
            synced: SharedU64::new(0),
            released: SharedU64::new(0),
            pinned: Arc::default(),
            timestamps: SharedBool::new(false),
        })
    }

    /// The position up to which the bytes outlive a crash of the machine. In one order with whatever the caller has
    /// stored before: a worker that is about to sleep says so first and looks then.
    #[inline]
    pub fn synced(&self) -> u64 {
        self.synced.load(Ordering::SeqCst)
    }

    /// Bytes in memory, without those that are pinned.
    pub fn waiting_bytes(&self) -> u64 {
        let waiting = self.end().saturating_sub(self.released.load(Ordering::Relaxed));
        waiting.saturating_sub(self.pinned.load(Ordering::Relaxed))
    }

    /// True if writers are to wait: the file is slower than they are.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.waiting_bytes() >= WAITING_BYTES_MAX || self.pinned.load(Ordering::Relaxed) >= PINNED_BYTES_MAX
    }

    /// Has a line with the time stand in front of the first unit of each second, or not.
    pub fn set_timestamps(&self, on: bool) {
        self.timestamps.store(on, Ordering::Relaxed);
    }

    /// The lane of what no worker's command does.
    fn common(&self) -> SpinGuard<'_, Lane> {
        self.lanes.last().expect("it is there without workers").0.lock()
    }

    /// Cuts the journal behind all units so far, at the position that is given. The gate is held alone, or nothing has been
    /// appended yet. From the end of a thread that takes on nothing is said to replicas, until [`Journal::begin`]: the next one
    /// begins at that position.
    pub fn cut(&self, cut: Cut) -> u64 {
        let leaf = rank::enter(Rank::Leaf);
        let (mut lane, mut reserved) = (self.common(), self.place.lock());
        reserved.stamped_s = 0;
        put_here(&mut lane, &mut reserved, Apart::Cut(cut));
        match cut {
            Cut::End => reserved.is_ended = true,
            // A file says from its beginning on where in the stream it stands.
            Cut::NewFile => put_here(&mut lane, &mut reserved, Apart::Mark),
        }
        let at = reserved.end;
        drop((reserved, lane, leaf));
        self.poke();
        at
    }

    /// A thread takes from here on: replicas may be said something again.
    pub fn begin(&self) {
        self.place.lock().is_ended = false;
    }

    /// The bytes are this stream's from here on, or nobody's: files note that. The gate is held alone, or nothing is appended.
    pub fn set_origin(&self, origin: Option<Origin>) {
        let leaf = rank::enter(Rank::Leaf);
        let (mut lane, mut reserved) = (self.common(), self.place.lock());
        put_here(&mut lane, &mut reserved, Apart::Origin(origin.map(Box::new)));
        drop((reserved, lane, leaf));
        self.poke();
    }

    /// The bytes from here on, the position that is given, are another server's: their reader has this database selected. The
    /// gate is held alone.
    pub fn follow_from(&self, db: u32) -> u64 {
        let _leaf = rank::enter(Rank::Leaf);
        let (mut lane, mut reserved) = (self.common(), self.place.lock());
        if reserved.db != Some(db) {
            put_here(&mut lane, &mut reserved, Apart::Follow(db));
            reserved.db = Some(db);
        }
        reserved.end
    }

    /// Appends bytes of another server's stream as they are: whole commands, which leave their reader in database `after`. Those
    /// at these places are messages, which a file has not.
    pub fn append_received(&self, bytes: Vec<u8>, messages: &[Range<usize>], after: u32) {
        let received = Chunk::received(bytes, messages);
        let _leaf = rank::enter(Rank::Leaf);
        let (lane, mut reserved) = (self.common(), self.place.lock());
        assert!(reserved.db.is_some(), "received bytes do not say their database where they begin");
        reserved.db = Some(after);
        self.put(lane, reserved, received.len(), Apart::Unit(None, vec![received], after));
    }

    /// Reserves this number of bytes at the end for something that is not copied; the position behind it.
    fn put(
        &self,
        mut lane: SpinGuard<'_, Lane>,
        mut reserved: SpinGuard<'_, Reserved>,
        bytes: usize,
        apart: Apart,
    ) -> u64 {
        let (at, wakes) = (reserved.end, self.place.advance(&mut reserved, bytes));
        drop(reserved);
        lane.push(at, apart);
        drop(lane);
        if wakes {
            self.place.wake();
        }
        at + bytes as u64
    }

    /// The database that a reader of all bytes so far has selected; None if that is not known.
    pub fn db(&self) -> Option<u32> {
        let _leaf = rank::enter(Rank::Leaf);
        self.place.lock().db
    }

    /// Has [`Journal::take`] return.
    pub fn poke(&self) {
        self.place.poke();
    }

    /// Takes what is there up to the next cut, waiting up to `wait` for something. `emptied` are chunks that were taken
    /// before and may be used again.
    pub fn take(&self, wait: Duration, emptied: &mut Vec<Vec<u8>>) -> Taken {
        let mut merger = self.merger.lock();
        merger.keep(emptied);
        let wait = if merger.has_more() { Duration::ZERO } else { wait };
        self.place.await_more(merger.at, wait);
        let (common, workers) = self.lanes.split_last().expect("the common lane is there without workers");
        for (nth, lane) in workers.iter().enumerate() {
            // One that renders a long unit has reserved no place for it. Whatever it has reserved is missed, and comes next time.
            if let Some(lane) = lane.0.try_lock_for(LANE_LOOKS) {
                merger.collect(nth, lane);
            }
        }
        // The common lane comes last: a worker's unit that was appended behind a cut is found with the cut.
        merger.collect(workers.len(), common.0.lock());
        let (chunks, cut) = merger.merge();
        // The rest of the emptied chunks goes back to the system.
        emptied.clear();
        let db = if cut.is_none() { merger.db } else { None };
        Taken { chunks: chunks.into_iter().map(Arc::new).collect(), end: merger.at, db, cut }
    }

    /// Says nothing more to replicas by itself, or does again: before the last save, which is to have the stream's last offset.
    pub fn set_quiet(&self, quiet: bool) {
        self.place.lock().is_quiet = quiet;
    }

    /// Appends a request to replicas that changes nothing, unless it is quiet or nobody takes. The position behind it.
    pub fn talk(&self, words: &[&[u8]]) -> u64 {
        let mut bytes = Vec::new();
        put_request(&mut bytes, words.iter().copied());
        let said = Note::Said(words.iter().map(|word| word.to_vec()).collect());
        let chunk = Box::new(Chunk::talk(bytes, &said, None));
        let _leaf = rank::enter(Rank::Leaf);
        let (lane, reserved) = (self.common(), self.place.lock());
        if reserved.is_quiet || reserved.is_ended {
            return reserved.end;
        }
        self.put(lane, reserved, chunk.len(), Apart::Talk(chunk))
    }

    /// Has the next unit say its database, for a reader that begins at the position that is given. The gate is held alone.
    pub fn say_database_again(&self) -> u64 {
        let _leaf = rank::enter(Rank::Leaf);
        let (mut lane, mut reserved) = (self.common(), self.place.lock());
        reserved.db = None;
        put_here(&mut lane, &mut reserved, Apart::Forget);
        reserved.end
    }

    /// The thread that takes has come this far.
    pub fn reached(&self, reached: Reached) {
        debug_assert!(reached.synced >= self.synced() && reached.synced <= self.end(), "positions only grow");
        self.released.store(reached.released, Ordering::Release);
        self.synced.store(reached.synced, Ordering::SeqCst);
    }

    /// Appends a unit to a lane, by a copy of what was rendered there or as these chunks; the position behind it.
    fn append_to(&self, mut lane: SpinGuard<'_, Lane>, mut chunks: Option<Vec<Chunk>>, databases: Databases) -> u64 {
        let bytes = |chunks: &[Chunk]| chunks.iter().map(Chunk::len).sum();
        let len = chunks.as_deref().map_or(lane.rendered.len(), bytes);
        // They are counted first: they never seem to be bytes in memory.
        chunks.iter_mut().flatten().for_each(|chunk| chunk.count_pinned(&self.pinned));
        let place = self.place.reserve(len, databases, self.timestamps.load(Ordering::Relaxed));
        if let Some(second) = place.stamp_s {
            lane.push(place.at, Apart::Note(Note::Time(second).line()));
        }
        match chunks {
            None => lane.copy(&place, databases.last),
            Some(chunks) => lane.push(place.at, Apart::Unit(place.select, chunks, databases.last)),
        }
        drop(lane);
        if place.wakes {
            self.place.wake();
        }
        place.end
    }
}

/// Puts something that has no bytes at the end.
fn put_here(lane: &mut Lane, reserved: &mut Reserved, apart: Apart) {
    match apart {
        Apart::Cut(_) => lane.push(reserved.end, apart),
        _ => lane.put_mark(reserved.end, apart),
    }
    reserved.is_marked = true;
}

/// Whether a unit is short enough to be copied. A large argument may be shorter than that, where `varve-run-min-bytes` says so: the
/// journal refers to it all the same.
fn may_be_copied(unit: &Chunk) -> bool {
    unit.len() <= COPY_BYTES_MAX && unit.pinned_bytes() == 0
}

impl EffectSink for Journal {
    fn append(&self, worker: usize, unit: &Unit) -> u64 {
        let _leaf = rank::enter(Rank::Leaf);
        let mut lane = self.lanes[worker].0.lock();
        lane.rendered.clear();
        let databases = render(unit, &mut lane.rendered);
        let chunks = (!may_be_copied(&lane.rendered)).then(|| vec![std::mem::take(&mut lane.rendered)]);
        self.append_to(lane, chunks, databases)
    }

    fn prepare(&self, unit: &Unit, prepared: &mut Option<Prepared>) {
        let mut parts = prepared.take().map_or_else(Box::default, Parts::of);
        parts.add(unit);
        *prepared = Some(Prepared { bytes: parts.bytes, effects: parts });
    }

    fn append_prepared(&self, prepared: Prepared) -> u64 {
        let (chunks, databases) = Parts::of(prepared).end();
        let _leaf = rank::enter(Rank::Leaf);
        self.append_to(self.common(), Some(chunks), databases)
    }

    fn end(&self) -> u64 {
        self.place.end()
    }

    fn is_full(&self) -> bool {
        Journal::is_full(self)
    }
}

#[cfg(test)]
mod tests;
