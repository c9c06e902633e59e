//! A snapshot under way: the entries of a walk on their way from the workers to the thread that writes the file.
//!
//! ```text
//!  workers, a shard held        open piece --256 KB--> full pieces ------> the saver's thread
//!    steps of the walk ---+     (RDB entries, nothing compressed)          compresses, sums, writes
//!    keys about to change +     spare buffers <----------------------------- emptied
//! ```
//! The steps of the walk wait while half of [`QUEUE_BYTES`] is on its way: the file is slower than they are. A key that is
//! about to change waits for nothing. A large string is not copied: its piece is a pin.
//!
//! Each piece begins with the database of its first entry, so that pieces may stand in the file in any order.
//!
//! Not here: files (`save.rs`), when a snapshot is made (`points.rs`).

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use varve_base::rank::{self, Rank};
use varve_commands::dump::{kind_of, put_value};
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
    /// Bytes of the pieces that are full and not written yet.
    queued_bytes: AtomicUsize,
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
    /// Whole entries, and perhaps the head of one whose value is the next piece.
    Entries { encoded: RdbBuffer, keys: usize },
    /// The bytes of a large string, whose head ends the piece before.
    Large(Pin),
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
    pub(crate) fn new(store: &Store, compress: bool) -> Snapshot {
        let physical = store.physical_databases();
        let mut databases = vec![None; usize::from(physical.iter().copied().max().unwrap_or(0)) + 1];
        (0..).zip(&physical).for_each(|(db, number)| databases[usize::from(*number)] = Some(db));
        let queue = Queue { open: RdbBuffer::new(compress), ..Queue::default() };
        Snapshot {
            databases: databases.into(),
            compress,
            queue: Mutex::new(queue),
            arrived: Condvar::new(),
            queued_bytes: AtomicUsize::new(0),
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
                self.queued_bytes.fetch_sub(piece.bytes(), Relaxed);
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
        queue.full.clear();
        self.queued_bytes.store(0, Relaxed);
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

    /// Closes the open piece.
    fn close(&self, queue: &mut Queue) {
        let fresh = queue.spare.pop().unwrap_or_else(|| RdbBuffer::new(self.compress));
        let encoded = std::mem::replace(&mut queue.open, fresh);
        let keys = std::mem::take(&mut queue.open_keys);
        queue.db = None;
        self.push(queue, Piece::Entries { encoded, keys });
    }

    fn push(&self, queue: &mut Queue, piece: Piece) {
        self.queued_bytes.fetch_add(piece.bytes(), Relaxed);
        queue.full.push_back(piece);
        self.arrived.notify_one();
    }

    fn end(&self, end: End) {
        let _leaf = rank::enter(Rank::Leaf);
        let mut queue = self.queue.lock();
        debug_assert!(queue.end.is_none(), "a walk ends once");
        if !queue.open.is_empty() {
            self.close(&mut queue);
        }
        queue.end = Some(end);
        self.arrived.notify_one();
    }
}

impl Walker for Snapshot {
    fn before(&self, old: &Before<'_>) {
        // The keys of a database that is being swept are nobody's.
        let Some(&Some(db)) = self.databases.get(usize::from(old.db())) else { return };
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
                self.close(&mut queue);
                self.push(&mut queue, Piece::Large(pin));
            }
            None => {
                head(old, &mut queue.open);
                put_value(old, &mut queue.open);
                if queue.open.len() >= PIECE_BYTES {
                    self.close(&mut queue);
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
        self.queued_bytes.load(Relaxed) < QUEUE_BYTES / 2
    }
}

fn head(old: &Before<'_>, to: &mut RdbBuffer) {
    to.begin(kind_of(old.ty()), old.key(), old.expiry_ms(), None);
}
