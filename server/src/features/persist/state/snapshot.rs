//! A snapshot under way: the entries of a walk on their way from the workers to the thread that writes the file.
//!
//! ```text
//!  workers, a shard held        open piece --256 KB--> full pieces ------> the saver's thread
//!    steps of the walk ---+     (RDB entries, nothing compressed)          compresses, sums, writes
//!    keys about to change +     spare buffers <----------------------------- emptied
//! ```
//! ```text
//!  bytes on their way      0 ........... half .............. all
//!  steps of the walk       go on         wait               wait
//!  keys that change        go on         go on              commands that write are put back ([`QueuedBytes::is_full`])
//!  saver                   compresses    writes as it is, to a side file that is appended at the end
//! ```
//! So a writer waits only where the disk is slower than the overwriting. A large string is not copied: its piece is a pin.
//! A key whose time has come is left out: whoever loads the file would not keep it.
//!
//! A piece begins with the database of its first entry, unless it continues an entry: pieces may stand in the file in any
//! order, but one that continues stands behind the one before it.
//!
//! Not here: files (`save.rs`), when a snapshot is made (`points.rs`).

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use parking_lot::{Condvar, Mutex};
use varve_base::rank::{self, Rank};
use varve_commands::dump::{kind_of, put_count, put_part};
use varve_rdb::RdbBuffer;
use varve_store::{Before, Pin, Store, Walker};

/// Bytes of a piece: a hundred of them fill the queue, and each is one write.
const PIECE_BYTES: usize = 256 << 10;
/// Bytes that may be on their way to the file. Half of it is for keys that are about to change.
const QUEUE_BYTES: usize = 64 << 20;
/// Emptied buffers that are kept.
const SPARE_MAX: usize = 8;

/// See the module's picture.
pub(crate) struct Snapshot {
    /// Logical databases by their physical numbers at the instant; None for those that were being swept.
    databases: Box<[Option<u32>]>,
    compress: bool,
    queue: Mutex<Queue>,
    arrived: Condvar,
    /// Bytes of the pieces that are full and not written yet; the server asks for it at each turn.
    queued_bytes: Arc<QueuedBytes>,
    /// Entries so far.
    keys: AtomicU64,
    /// The saver has given up: entries are dropped.
    abandoned: AtomicBool,
}

impl std::fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Snapshot").field("keys", &self.keys()).finish_non_exhaustive()
    }
}

#[derive(Default)]
struct Queue {
    open: RdbBuffer,
    /// Entries of the open piece.
    open_keys: usize,
    /// Database of the open piece's last entry; None while it is empty.
    db: Option<u32>,
    full: VecDeque<Piece>,
    spare: Vec<RdbBuffer>,
    end: Option<End>,
}

/// Some entries, or the value of one.
pub(crate) enum Piece {
    /// Entries; with `goes_on`, the next piece continues the last of them.
    Entries { encoded: RdbBuffer, keys: usize, goes_on: bool },
    /// The bytes of a large string, whose head ends the piece before.
    Large(Pin),
}

/// Bytes on their way to the file, of whichever snapshot is under way.
#[derive(Debug, Default)]
pub(crate) struct QueuedBytes {
    now: AtomicUsize,
    /// The most since the snapshot began.
    peak: AtomicUsize,
}

impl QueuedBytes {
    /// True while nothing more may come.
    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        self.now.load(Relaxed) >= QUEUE_BYTES
    }

    /// True while the steps of the walk are to wait.
    fn is_half_full(&self) -> bool {
        self.now.load(Relaxed) >= QUEUE_BYTES / 2
    }

    /// Bytes now, and the most since the snapshot began.
    pub(crate) fn read(&self) -> (usize, usize) {
        (self.now.load(Relaxed), self.peak.load(Relaxed))
    }

    fn reset(&self) {
        self.now.store(0, Relaxed);
        self.peak.store(0, Relaxed);
    }

    fn add(&self, bytes: usize) {
        let now = self.now.fetch_add(bytes, Relaxed) + bytes;
        self.peak.fetch_max(now, Relaxed);
    }

    fn sub(&self, bytes: usize) {
        let before = self.now.fetch_sub(bytes, Relaxed);
        debug_assert!(before >= bytes, "{bytes} bytes leave a queue of {before}");
    }
}

impl Piece {
    fn bytes(&self) -> usize {
        match self {
            Piece::Entries { encoded, .. } => encoded.len(),
            // The value lies where it lay: its memory is counted as the key's.
            Piece::Large(_) => 0,
        }
    }
}

/// How a snapshot ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// All entries of the instant have been given.
    Whole,
    /// FLUSHALL came before.
    Emptied,
}

/// The next thing for the saver's thread.
pub(crate) enum Next {
    Piece(Piece),
    End(End),
}

impl Snapshot {
    /// A snapshot of the databases as they are now: the gate is held alone, and the walk begins before it is let go.
    pub(crate) fn new(store: &Store, compress: bool, queued_bytes: &Arc<QueuedBytes>) -> Snapshot {
        queued_bytes.reset();
        let physical = store.physical_databases();
        let mut databases = vec![None; usize::from(physical.iter().copied().max().unwrap_or(0)) + 1];
        (0..).zip(&physical).for_each(|(db, number)| databases[usize::from(*number)] = Some(db));
        let queue = Queue { open: RdbBuffer::new(compress), ..Queue::default() };
        Snapshot {
            databases: databases.into(),
            compress,
            queue: Mutex::new(queue),
            arrived: Condvar::new(),
            queued_bytes: Arc::clone(queued_bytes),
            keys: AtomicU64::new(0),
            abandoned: AtomicBool::new(false),
        }
    }

    /// Entries so far.
    pub(crate) fn keys(&self) -> u64 {
        self.keys.load(Relaxed)
    }

    /// The next piece, or the end, waited for.
    pub(crate) fn next(&self) -> Next {
        let mut queue = self.queue.lock();
        loop {
            if queue.end == Some(End::Emptied) {
                return Next::End(End::Emptied);
            }
            if let Some(piece) = queue.full.pop_front() {
                self.queued_bytes.sub(piece.bytes());
                return Next::Piece(piece);
            }
            match queue.end {
                Some(end) => return Next::End(end),
                None => self.arrived.wait(&mut queue),
            }
        }
    }

    /// Takes the emptied buffer of a piece that is written.
    pub(crate) fn give_back(&self, buffer: RdbBuffer) {
        debug_assert!(buffer.is_empty(), "what is in it has been written");
        let mut queue = self.queue.lock();
        if queue.spare.len() < SPARE_MAX {
            queue.spare.push(buffer);
        }
    }

    /// Drops what is on its way and what is still to come. The walk goes on to its end (`Store::abandon_walk`).
    pub(crate) fn abandon(&self) {
        self.abandoned.store(true, Relaxed);
        let mut queue = self.queue.lock();
        for piece in queue.full.drain(..) {
            self.queued_bytes.sub(piece.bytes());
        }
    }

    /// True if the snapshot has ended without all of its entries, or was given up.
    pub(crate) fn is_over(&self) -> bool {
        self.abandoned.load(Relaxed) || self.queue.lock().end == Some(End::Emptied)
    }

    /// Waits for the end of the snapshot for up to this time; true if it has ended without all of its entries.
    pub(crate) fn sleep(&self, time: Duration) -> bool {
        std::thread::sleep(time);
        self.is_over()
    }

    /// True if so much is on its way that compressing it would keep writers waiting.
    pub(crate) fn is_crowded(&self) -> bool {
        self.queued_bytes.is_half_full()
    }

    /// Closes the open piece; with `goes_on`, in the middle of an entry.
    fn close(&self, queue: &mut Queue, goes_on: bool) {
        let fresh = queue.spare.pop().unwrap_or_else(|| RdbBuffer::new(self.compress));
        let encoded = std::mem::replace(&mut queue.open, fresh);
        let keys = std::mem::take(&mut queue.open_keys);
        queue.db = None;
        self.push(queue, Piece::Entries { encoded, keys, goes_on });
    }

    /// Encodes a value. A large collection goes over many pieces, so that the saver has something to do before its end.
    fn value(&self, old: &Before<'_>, queue: &mut Queue) {
        put_count(old, &mut queue.open);
        old.for_each(&mut |part| {
            if queue.open.len() >= PIECE_BYTES {
                self.close(queue, true);
            }
            put_part(part, &mut queue.open);
        });
    }

    fn push(&self, queue: &mut Queue, piece: Piece) {
        self.queued_bytes.add(piece.bytes());
        queue.full.push_back(piece);
        self.arrived.notify_one();
    }

    fn end(&self, end: End) {
        let _leaf = rank::enter(Rank::Leaf);
        let mut queue = self.queue.lock();
        debug_assert!(queue.end.is_none(), "a walk ends once");
        if !queue.open.is_empty() {
            self.close(&mut queue, false);
        }
        queue.end = Some(end);
        self.arrived.notify_one();
    }
}

impl Walker for Snapshot {
    fn before(&self, old: &Before<'_>) {
        // The keys of a database that is being swept are nobody's.
        let Some(&Some(db)) = self.databases.get(usize::from(old.db())) else { return };
        if old.expiry_ms().is_some_and(|at| at <= now_ms()) {
            return;
        }
        let _leaf = rank::enter(Rank::Leaf);
        let mut queue = self.queue.lock();
        if self.abandoned.load(Relaxed) {
            return;
        }
        if queue.db != Some(db) {
            queue.open.select_db(u64::from(db));
            queue.db = Some(db);
        }
        self.keys.fetch_add(1, Relaxed);
        queue.open_keys += 1;
        match old.pin() {
            Some(pin) => {
                head(old, &mut queue.open);
                queue.open.count(pin.len() as u64);
                self.close(&mut queue, true);
                self.push(&mut queue, Piece::Large(pin));
            }
            None => {
                head(old, &mut queue.open);
                self.value(old, &mut queue);
                if queue.open.len() >= PIECE_BYTES {
                    self.close(&mut queue, false);
                }
            }
        }
    }

    fn before_all(&self) {
        self.end(End::Emptied);
    }

    fn ended(&self) {
        self.end(End::Whole);
    }

    fn has_room(&self) -> bool {
        !self.queued_bytes.is_half_full()
    }
}

fn head(old: &Before<'_>, to: &mut RdbBuffer) {
    to.begin(kind_of(old.ty()), old.key(), old.expiry_ms(), None);
}

fn now_ms() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis() as i64
}
