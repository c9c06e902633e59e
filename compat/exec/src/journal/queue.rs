//! The journal's queue: bytes that workers append and one thread takes.
//!
//! ```text
//!  positions, bytes since the journal was made:
//!     0 ........ released ........ synced ...... written ........ end
//!                |<--- kept by the thread that takes --->|<- queue ->|
//!     cut: a position behind which the bytes belong to a new file, or to another thread
//!
//!  chunk: whole requests, and the database that a reader of all before them has selected
//! ```
//! A file that begins with any chunk is whole once it selects that database, but for the later chunks of one unit: those are
//! appended together. So the thread that takes may go on in another file between any two takings.
//!
//! A command that changes a key part by part has its effects rendered as they come ([`EffectSink::prepare`]), into chunks of its
//! own that are appended at its end, as one transaction. Whoever reads the stream sees all of it or nothing.
//!
//! The lock is a leaf, held for a copy of at most [`COPY_BYTES_MAX`]: a longer unit is handed over as it is. A large argument
//! is not copied at all: its extent is pinned, and stays the memory that the store counts. The thread that takes is woken if
//! it sleeps and nobody has woken it.
//!
//! Writers wait while [`WAITING_BYTES_MAX`] are in memory, or [`PINNED_BYTES_MAX`] are pinned. The thread that takes may hand
//! chunks on to replicas, whose own limits bound what these keep.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use parking_lot::{Condvar, Mutex};
use varve_aof::{Note, StreamPlace, own_selection, put_request, select};
use varve_base::rank::{self, Rank};
use varve_store::{EffectSink, Prepared, Unit};

use super::chunk::{CHUNK_BYTES, Chunk, StreamMark};
use super::parts::Parts;
use super::stream::{Databases, EffectStream, render};

/// A unit longer than this is a chunk of its own.
const COPY_BYTES_MAX: usize = 16 << 10;
/// Bytes that may wait for the file before writers wait.
const WAITING_BYTES_MAX: u64 = 64 << 20;
/// Bytes of large arguments that may wait for the file before writers wait: two of the largest.
const PINNED_BYTES_MAX: u64 = 1 << 30;
/// Bytes of a stream between two marks.
const MARK_EVERY_BYTES: u64 = 1 << 20;
/// Emptied chunks that are kept.
const SPARE_MAX: usize = 16;

/// See the module's picture.
#[derive(Debug)]
pub struct Journal {
    tail: Mutex<Tail>,
    came: Condvar,
    /// The buffers that workers render into, each on cache lines of its own.
    rendered: Box<[Rendered]>,
    end: AtomicU64,
    synced: AtomicU64,
    released: AtomicU64,
    /// Bytes of large arguments that wait.
    pinned: Arc<AtomicU64>,
    /// A line with the time stands in front of the first unit of a second.
    timestamps: AtomicBool,
    /// The second of the last such line.
    stamped_s: AtomicI64,
}

#[derive(Debug, Default)]
#[repr(align(128))]
struct Rendered(Mutex<Chunk>);

#[derive(Debug, Default)]
struct Tail {
    stream: EffectStream,
    chunks: Vec<Chunk>,
    spare: Vec<Vec<u8>>,
    /// The line that stands in front of the next chunk in a file alone: no replica is sent it.
    note: Vec<u8>,
    /// The stream that the bytes are; None while they are nobody's.
    origin: Option<Origin>,
    /// The position of the last mark.
    marked_at: u64,
    end: u64,
    /// The cuts, oldest first; none lies before what was taken.
    cuts: Vec<(u64, Cut)>,
    /// The thread that takes sleeps, and nobody has woken it.
    sleeps: bool,
    /// It is to look at other things.
    poked: bool,
    /// Replicas are said nothing more.
    is_quiet: bool,
}

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
        Arc::new(Journal {
            tail: Mutex::default(),
            came: Condvar::new(),
            rendered: (0..workers).map(|_| Rendered::default()).collect(),
            end: AtomicU64::new(0),
            synced: AtomicU64::new(0),
            released: AtomicU64::new(0),
            pinned: Arc::default(),
            timestamps: AtomicBool::new(false),
            stamped_s: AtomicI64::new(0),
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

    /// Cuts the journal behind all units so far, at the position that is given. The gate is held alone, or nothing has been
    /// appended yet.
    pub fn cut(&self, cut: Cut) -> u64 {
        let _leaf = rank::enter(Rank::Leaf);
        let mut tail = self.tail.lock();
        self.stamped_s.store(0, Ordering::Relaxed);
        let at = tail.end;
        tail.cuts.push((at, cut));
        // A file says from its beginning on where in the stream it stands.
        if cut == Cut::NewFile {
            tail.mark();
        }
        self.wake(&mut tail);
        at
    }

    /// The bytes are this stream's from here on, or nobody's: files note that. The gate is held alone, or nothing is appended.
    pub fn set_origin(&self, origin: Option<Origin>) {
        let _leaf = rank::enter(Rank::Leaf);
        let mut tail = self.tail.lock();
        if origin.is_none() && tail.origin.is_some() {
            let db = tail.stream.db();
            tail.chunks.push(Chunk::mark(StreamMark::None, &Note::NoStream, db));
        }
        tail.origin = origin;
        tail.mark();
        self.wake(&mut tail);
    }

    /// The bytes from here on, the position that is given, are another server's: their reader has this database selected. The
    /// gate is held alone.
    pub fn follow_from(&self, db: u32) -> u64 {
        let _leaf = rank::enter(Rank::Leaf);
        let mut tail = self.tail.lock();
        if tail.stream.db() != Some(db) {
            // A file is in another one at this place; the stream does not say it.
            tail.note.extend(own_selection(db));
            tail.stream.follow(db);
        }
        tail.end
    }

    /// Appends bytes of another server's stream as they are: whole commands, which leave their reader in database `after`. Those
    /// at these places are messages, which a file has not.
    pub fn append_received(&self, bytes: Vec<u8>, messages: &[Range<usize>], after: u32) {
        let length = bytes.len() as u64;
        let mut received = Chunk::received(bytes, messages);
        let _leaf = rank::enter(Rank::Leaf);
        let mut tail = self.tail.lock();
        assert!(tail.stream.db().is_some(), "received bytes do not say their database where they begin");
        if length <= COPY_BYTES_MAX as u64 {
            tail.copy(&mut received);
        } else {
            received.db = tail.stream.db();
            tail.begin_chunk(received);
            tail.end += length;
        }
        tail.stream.follow(after);
        self.end.store(tail.end, Ordering::Release);
        self.wake(&mut tail);
    }

    /// The database that a reader of all bytes so far has selected; None if that is not known.
    pub fn db(&self) -> Option<u32> {
        let _leaf = rank::enter(Rank::Leaf);
        self.tail.lock().stream.db()
    }

    /// Has [`Journal::take`] return.
    pub fn poke(&self) {
        let mut tail = self.tail.lock();
        tail.poked = true;
        self.wake(&mut tail);
    }

    /// Takes what is there up to the next cut, waiting up to `wait` for something. `emptied` are chunks that were taken
    /// before and may be used again.
    pub fn take(&self, wait: Duration, emptied: &mut Vec<Vec<u8>>) -> Taken {
        emptied.retain(|chunk| chunk.capacity() == CHUNK_BYTES);
        let mut tail = self.tail.lock();
        let room = SPARE_MAX - tail.spare.len();
        let kept = emptied.len().min(room);
        tail.spare.extend(emptied.drain(..kept));
        if tail.chunks.is_empty() && tail.cuts.is_empty() && !tail.poked && !wait.is_zero() {
            tail.sleeps = true;
            self.came.wait_for(&mut tail, wait);
            tail.sleeps = false;
        }
        tail.poked = false;
        let (chunks, taken) = tail.take();
        // The rest of the emptied chunks goes back to the system without the lock: workers wait for it.
        drop(tail);
        emptied.clear();
        Taken { chunks: chunks.into_iter().map(Arc::new).collect(), ..taken }
    }

    /// Says nothing more to replicas by itself, or does again: before the last save, which is to have the stream's last offset.
    pub fn set_quiet(&self, quiet: bool) {
        self.tail.lock().is_quiet = quiet;
    }

    /// Appends a request to replicas that changes nothing, unless it is quiet. The position behind it.
    pub fn talk(&self, words: &[&[u8]]) -> u64 {
        let mut bytes = Vec::new();
        put_request(&mut bytes, words.iter().copied());
        let _leaf = rank::enter(Rank::Leaf);
        let said = Note::Said(words.iter().map(|word| word.to_vec()).collect());
        let mut tail = self.tail.lock();
        if tail.is_quiet {
            return tail.end;
        }
        let chunk = Chunk::talk(bytes, &said, tail.stream.db());
        tail.end += chunk.len() as u64;
        tail.chunks.push(chunk);
        self.end.store(tail.end, Ordering::Release);
        self.wake(&mut tail);
        tail.end
    }

    /// Has the next unit say its database, for a reader that begins at the position that is given. The gate is held alone.
    pub fn say_database_again(&self) -> u64 {
        let _leaf = rank::enter(Rank::Leaf);
        let mut tail = self.tail.lock();
        tail.stream = EffectStream::default();
        tail.end
    }

    /// The thread that takes has come this far.
    pub fn reached(&self, reached: Reached) {
        debug_assert!(reached.synced >= self.synced() && reached.synced <= self.end(), "positions only grow");
        self.released.store(reached.released, Ordering::Release);
        self.synced.store(reached.synced, Ordering::SeqCst);
    }

    fn wake(&self, tail: &mut Tail) {
        if std::mem::take(&mut tail.sleeps) {
            self.came.notify_one();
        }
    }

    /// A unit is about to be appended whose reader has the database of its first effect selected.
    fn begin_unit(&self, tail: &mut Tail, databases: Databases) {
        if self.timestamps.load(Ordering::Relaxed) {
            self.stamp(tail);
        }
        if tail.stream.db() != Some(databases.first) {
            let mut selection = Chunk::default();
            select(databases.first, &mut selection.bytes);
            tail.copy(&mut selection);
            tail.stream.follow(databases.first);
        }
    }

    /// A unit was appended; the position behind it.
    fn end_unit(&self, tail: &mut Tail, databases: Databases) -> u64 {
        tail.stream.follow(databases.last);
        let end = tail.end;
        self.end.store(end, Ordering::Release);
        self.wake(tail);
        end
    }

    /// Has the first unit of a second begin a chunk with a line with the time in front.
    #[cold]
    fn stamp(&self, tail: &mut Tail) {
        let now_s = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs() as i64);
        if now_s > self.stamped_s.load(Ordering::Relaxed) {
            self.stamped_s.store(now_s, Ordering::Relaxed);
            tail.note.extend(Note::Time(now_s).line());
        }
    }
}

impl Tail {
    /// Takes what is there up to the next cut.
    fn take(&mut self) -> (Vec<Chunk>, Taken) {
        if self.cuts.is_empty() {
            let taken = Taken { end: self.end, db: self.stream.db(), ..Taken::default() };
            return (std::mem::take(&mut self.chunks), taken);
        }
        let (end, cut) = self.cuts.remove(0);
        let mut at = self.end - self.chunks.iter().map(|chunk| chunk.len() as u64).sum::<u64>();
        let mut count = 0;
        while at < end {
            at += self.chunks[count].len() as u64;
            count += 1;
        }
        assert_eq!(at, end, "no chunk lies across a cut");
        let behind = self.chunks.split_off(count);
        let taken = Taken { end, cut: Some(cut), ..Taken::default() };
        (std::mem::replace(&mut self.chunks, behind), taken)
    }

    /// The chunk into which this number of bytes are copied.
    fn room(&mut self, bytes: usize) -> &mut Chunk {
        // A cut at the end: what lies before it belongs to another file.
        let is_cut = self.cuts.last().is_some_and(|(at, _)| *at == self.end);
        let has_room = |chunk: &Chunk| chunk.bytes.capacity() - chunk.bytes.len() >= bytes && !chunk.is_closed();
        let fits = self.chunks.last().is_some_and(has_room);
        if is_cut || !fits || !self.note.is_empty() {
            let spare = self.spare.pop().unwrap_or_else(|| Vec::with_capacity(CHUNK_BYTES));
            self.begin_chunk(Chunk::new(spare, self.stream.db()));
        }
        self.chunks.last_mut().expect("a chunk was pushed")
    }

    /// A chunk begins at the end.
    fn begin_chunk(&mut self, mut chunk: Chunk) {
        if self.end - self.marked_at >= MARK_EVERY_BYTES {
            self.mark();
        }
        chunk.set_note(std::mem::take(&mut self.note));
        self.chunks.push(chunk);
    }

    /// Has a file note where the stream is, if the bytes are one.
    fn mark(&mut self) {
        let Some(Origin { id, base, since }) = &self.origin else { return };
        self.marked_at = self.end;
        let offset = (base + self.end as i64) as u64;
        let place = StreamPlace { id: id.clone(), offset, since: *since, db: self.stream.db().unwrap_or(0) };
        self.chunks.push(Chunk::mark(StreamMark::At(offset), &Note::Stream(place), self.stream.db()));
    }

    /// Appends the chunks of one unit.
    fn append_chunks(&mut self, chunks: Vec<Chunk>, pinned: &Arc<AtomicU64>) {
        let mut is_first = true;
        for mut chunk in chunks {
            chunk.db = self.stream.db();
            chunk.count_pinned(pinned);
            let bytes = chunk.len() as u64;
            // A mark between two of them would speak of an offset in the middle of a transaction.
            if std::mem::take(&mut is_first) {
                self.begin_chunk(chunk)
            } else {
                self.chunks.push(chunk)
            }
            self.end += bytes;
        }
    }

    fn copy(&mut self, piece: &mut Chunk) {
        self.room(piece.bytes.len()).append(piece);
        self.end += piece.bytes.len() as u64;
    }
}

/// Whether a unit is short enough to be copied. A large argument may be shorter than that, where `varve-run-min-bytes` says so: the
/// journal refers to it all the same.
fn may_be_copied(unit: &Chunk) -> bool {
    unit.len() <= COPY_BYTES_MAX && unit.pinned_bytes() == 0
}

impl EffectSink for Journal {
    fn append(&self, worker: usize, unit: &Unit) -> u64 {
        let _leaf = rank::enter(Rank::Leaf);
        let mut rendered = self.rendered[worker].0.lock();
        rendered.clear();
        let databases = render(unit, &mut rendered);
        let mut tail = self.tail.lock();
        self.begin_unit(&mut tail, databases);
        if may_be_copied(&rendered) {
            tail.copy(&mut rendered);
        } else {
            tail.append_chunks(vec![std::mem::take(&mut *rendered)], &self.pinned);
        }
        self.end_unit(&mut tail, databases)
    }

    fn prepare(&self, unit: &Unit, prepared: &mut Option<Prepared>) {
        let mut parts = prepared.take().map_or_else(Box::default, Parts::of);
        parts.add(unit);
        *prepared = Some(Prepared { bytes: parts.bytes, effects: parts });
    }

    fn append_prepared(&self, prepared: Prepared) -> u64 {
        let (mut chunks, databases) = Parts::of(prepared).end();
        let _leaf = rank::enter(Rank::Leaf);
        let mut tail = self.tail.lock();
        self.begin_unit(&mut tail, databases);
        match &mut chunks[..] {
            [only] if may_be_copied(only) => tail.copy(only),
            _ => tail.append_chunks(chunks, &self.pinned),
        }
        self.end_unit(&mut tail, databases)
    }

    fn end(&self) -> u64 {
        self.end.load(Ordering::Acquire)
    }

    fn is_full(&self) -> bool {
        Journal::is_full(self)
    }
}

#[cfg(test)]
mod tests;
