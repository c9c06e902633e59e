//! A snapshot under way: the entries of a walk on their way from the workers to the thread that writes the file.
//!
//! ```text
//!  workers, a shard held        piece in the worker's hands --256 KB--> full pieces --> the saver's thread
//!    steps of the walk ---+     (RDB entries, nothing compressed)                    compresses, sums, writes
//!    keys about to change +     pieces with room, spare buffers <----------------------- emptied
//! ```
//! The queue is locked to take a piece and to put it back, never while an entry is encoded. A collection that takes
//! several holds of its shard has pieces of its own.
//!
//! ```text
//!  bytes on their way      0 ........... half .............. all
//!  steps of the walk       go on         wait               wait          (and while half lies pinned ahead of the saver)
//!  saver                   compresses    writes as it is, to a side file that is appended at the end
//!
//!  the same, and bytes that long collections keep as they were    0 ............ all
//!  keys that change                                               go on          commands that write are put back
//! ```
//! So a writer waits only where the disk is slower than the overwriting ([`QueuedBytes::is_full`]). The steps of the walk
//! ask only for what is on its way: they are what long collections are shown by, and nothing else frees what these keep.
//! A large string is not copied: its piece is a pin, which costs nothing until the string changes. Pins hold back the steps alone.
//! Of a string that changes, the pin keeps the blocks that were written, and all of one that is removed or replaced: these bytes
//! count like those that long collections keep.
//! A key whose time had come at the instant is saved as in redis-server, but left out where there is no room: expiry waits
//! for none, and whoever loads the file does not keep it. The base of an append-only file keeps each of them: a worker whose
//! clock is behind may find such a key alive, and the commands that follow the base speak of it.
//!
//! A piece of entries, and the first one of a long collection, begins with the database: pieces may stand in the file in
//! any order, but those of one collection stand in a row.
//!
//! Not here: files (`save.rs`), when a snapshot is made (`points.rs`).

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use parking_lot::Condvar;
use varve_base::rank::{self, Rank};
use varve_base::shared::{SharedBool, SharedMutex, SharedU64, SharedUsize};
use varve_commands::dump::{OutlineEncoder, begin_entry, begin_long_entry, put_count, put_part, put_value};
use varve_rdb::{LastUse, RdbBuffer};
use varve_store::{Before, KeptBytes, KeptForPins, KeyUse, PartSink, Pin, Store, UseMeter, ValuePart, Walker};

/// Bytes of a piece: a hundred of them fill the queue, and each is one write.
const PIECE_BYTES: usize = 256 << 10;
/// Bytes that may be on their way to the file, or be kept for it. Half of it is for keys that are about to change. With a stream that
/// waits behind the data set for a new replica it is to stay below 64 MB.
const QUEUE_BYTES: usize = 48 << 20;
/// Emptied buffers that are kept, and bytes of such a buffer.
const SPARE_MAX: usize = 8;
const SPARE_BYTES: usize = 1 << 20;

/// See the module's picture.
pub(crate) struct Snapshot {
    /// Logical databases by their physical numbers at the instant; None for those that were being swept.
    databases: Box<[Option<u32>]>,
    /// How the policy of the instant looks at the use of keys.
    uses: UseMeter,
    compress: bool,
    /// Unix time of the instant, ms. A key whose time had come by then may be left out; None if none may.
    drops_until_ms: Option<i64>,
    queue: SharedMutex<Queue>,
    arrived: Condvar,
    /// Bytes of the pieces that are full and not written yet; the server asks for it at each turn.
    queued_bytes: Arc<QueuedBytes>,
    /// Entries so far.
    keys: SharedU64,
    /// The saver has given up: entries are dropped.
    abandoned: SharedBool,
    /// All entries are written: only the end of the file is left to do.
    written: SharedBool,
}

impl std::fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Snapshot").field("keys", &self.keys()).finish_non_exhaustive()
    }
}

#[derive(Default)]
struct Queue {
    /// Pieces with room that no worker has in its hands: as many as workers have met here at most.
    open: Vec<OpenPiece>,
    full: VecDeque<Piece>,
    spare: Vec<RdbBuffer>,
    end: Option<End>,
}

/// A piece that is being filled with entries.
struct OpenPiece {
    encoded: RdbBuffer,
    keys: usize,
    /// Database of its last entry; None while it is empty.
    db: Option<u32>,
}

impl OpenPiece {
    /// Appends what stands in front of a value, but for the names of messages of a long stream.
    fn head(&mut self, db: u32, old: &Before<'_>, uses: UseMeter, is_long: bool) {
        if self.db != Some(db) {
            self.encoded.select_db(u64::from(db));
            self.db = Some(db);
        }
        self.keys += 1;
        let last_use = old.last_use(uses, now_ms()).map(|last_use| match last_use {
            KeyUse::Idle(seconds) => LastUse::Idle(seconds),
            KeyUse::Count(counter) => LastUse::Freq(counter),
        });
        let begin = if is_long { begin_long_entry } else { begin_entry };
        begin(old, last_use, &mut self.encoded);
    }
}

/// Some entries, or a part of one.
pub(crate) enum Piece {
    /// Entries.
    Entries { encoded: RdbBuffer, keys: usize },
    /// A part of the entry of a long collection; with `goes_on`, the next part follows in a later piece.
    Part { encoded: RdbBuffer, goes_on: bool },
    /// The entry of a large string: all that stands in front of its length, and its bytes, which count until it is dropped.
    Large { head: RdbBuffer, bytes: Pin, counted: PinnedBytes },
}

/// Bytes on their way to the file, of whichever snapshot is under way.
#[derive(Debug, Default)]
pub(crate) struct QueuedBytes {
    now: SharedUsize,
    /// Bytes of large strings that are pinned and not written yet: they are the keys', but for those in `old`.
    ahead: SharedUsize,
    /// Of them, those that pins keep and no key has any more.
    old: KeptForPins,
    /// Bytes that long collections keep as they were, until they are shown.
    kept: KeptBytes,
    /// The most on its way and kept since the snapshot began.
    peak: SharedUsize,
}

/// The bytes of a large string that is pinned, counted until this is dropped.
#[derive(Debug)]
pub(crate) struct PinnedBytes {
    queued: Arc<QueuedBytes>,
    bytes: usize,
}

impl PinnedBytes {
    fn new(queued: &Arc<QueuedBytes>, bytes: usize) -> PinnedBytes {
        queued.ahead.fetch_add(bytes, Relaxed);
        PinnedBytes { queued: Arc::clone(queued), bytes }
    }
}

impl Drop for PinnedBytes {
    fn drop(&mut self) {
        let before = self.queued.ahead.fetch_sub(self.bytes, Relaxed);
        debug_assert!(before >= self.bytes, "{} pinned bytes leave {before}", self.bytes);
    }
}

impl QueuedBytes {
    /// True while nothing more may come.
    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        self.all() >= QUEUE_BYTES
    }

    /// Bytes on their way, and kept.
    fn all(&self) -> usize {
        self.now.load(Relaxed) + self.kept.get() + self.old.get()
    }

    /// True while the steps of the walk are to wait for the queue.
    fn is_half_full(&self) -> bool {
        self.now.load(Relaxed) >= QUEUE_BYTES / 2
    }

    /// True while the steps of the walk are to pin no more strings.
    fn is_far_ahead(&self) -> bool {
        self.ahead.load(Relaxed) >= QUEUE_BYTES / 2
    }

    /// Bytes now, and the most since the snapshot began.
    pub(crate) fn read(&self) -> (usize, usize) {
        let now = self.all();
        (now, self.peak.fetch_max(now, Relaxed).max(now))
    }

    /// A snapshot begins. What one before it has left here it takes away itself.
    fn begin(&self) {
        self.peak.store(self.all(), Relaxed);
    }

    fn add(&self, bytes: usize) {
        self.now.fetch_add(bytes, Relaxed);
        self.peak.fetch_max(self.all(), Relaxed);
    }

    fn sub(&self, bytes: usize) {
        let before = self.now.fetch_sub(bytes, Relaxed);
        debug_assert!(before >= bytes, "{bytes} bytes leave a queue of {before}");
    }
}

impl Piece {
    fn bytes(&self) -> usize {
        match self {
            // The bytes of a large string are counted until it is written.
            Piece::Entries { encoded, .. } | Piece::Part { encoded, .. } | Piece::Large { head: encoded, .. } => {
                encoded.len()
            }
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
    /// A snapshot of the databases as they are now: the gate is held alone, and the walk begins before it is let go. One
    /// that is loaded before commands that follow `keeps_overdue` keys: those whose time has come.
    pub(crate) fn new(store: &Store, compress: bool, keeps_overdue: bool, queued_bytes: &Arc<QueuedBytes>) -> Snapshot {
        queued_bytes.begin();
        let physical = store.physical_databases();
        let mut databases = vec![None; usize::from(physical.iter().copied().max().unwrap_or(0)) + 1];
        (0..).zip(&physical).for_each(|(db, number)| databases[usize::from(*number)] = Some(db));
        Snapshot {
            databases: databases.into(),
            uses: store.use_meter(),
            compress,
            drops_until_ms: (!keeps_overdue).then(now_ms),
            queue: SharedMutex::default(),
            arrived: Condvar::new(),
            queued_bytes: Arc::clone(queued_bytes),
            keys: SharedU64::new(0),
            abandoned: SharedBool::new(false),
            written: SharedBool::new(false),
        }
    }

    /// Entries that are written.
    pub(crate) fn keys(&self) -> u64 {
        self.keys.load(Relaxed)
    }

    /// `keys` more entries are written.
    pub(crate) fn add_written(&self, keys: usize) {
        self.keys.fetch_add(keys as u64, Relaxed);
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

    /// Takes a piece of entries out that waits, and gives their number too; None if nothing but other pieces waits.
    pub(crate) fn take_entries(&self) -> Option<(RdbBuffer, usize)> {
        let mut queue = self.queue.lock();
        let at = queue.full.iter().position(|piece| matches!(piece, Piece::Entries { .. }))?;
        match queue.full.remove(at)? {
            Piece::Entries { encoded, keys } => {
                self.queued_bytes.sub(encoded.len());
                Some((encoded, keys))
            }
            _ => unreachable!("a piece of entries was found"),
        }
    }

    /// Takes the emptied buffer of a piece that is written.
    pub(crate) fn give_back(&self, buffer: RdbBuffer) {
        debug_assert!(buffer.is_empty(), "what is in it has been written");
        let mut queue = self.queue.lock();
        // The buffer of a large element is as large.
        if queue.spare.len() < SPARE_MAX && buffer.capacity() <= SPARE_BYTES {
            queue.spare.push(buffer);
        }
    }

    /// All entries are written.
    pub(crate) fn set_written(&self) {
        self.written.store(true, Relaxed);
    }

    /// True if all entries are written.
    pub(crate) fn is_written(&self) -> bool {
        self.written.load(Relaxed)
    }

    /// Drops what is on its way and what is still to come. The walk goes on to its end (`Store::abandon_walk`).
    pub(crate) fn abandon(&self) {
        self.abandoned.store(true, Relaxed);
        self.drop_full();
    }

    fn drop_full(&self) {
        let full = {
            let _leaf = rank::enter(Rank::Leaf);
            let mut queue = self.queue.lock();
            // A piece and its bytes leave together: a snapshot that begins behind this one finds the sum right.
            queue.full.iter().for_each(|piece| self.queued_bytes.sub(piece.bytes()));
            std::mem::take(&mut queue.full)
        };
        // A pin that goes takes locks.
        drop(full);
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

    /// The logical database of a key that is to be saved.
    fn database_of(&self, old: &Before<'_>) -> Option<u32> {
        // The keys of a database that is being swept are nobody's.
        let db = self.databases.get(usize::from(old.db())).copied().flatten()?;
        (!self.drops(old.expiry_ms()) && !self.abandoned.load(Relaxed)).then_some(db)
    }

    /// True if a key of this expiry is left out now, since there is no room.
    fn drops(&self, expiry_ms: Option<i64>) -> bool {
        let is_overdue = self.drops_until_ms.zip(expiry_ms).is_some_and(|(instant, at)| at <= instant);
        is_overdue && self.queued_bytes.is_full()
    }

    /// A piece with room, which the caller fills and puts back.
    fn take_open(&self) -> OpenPiece {
        let _leaf = rank::enter(Rank::Leaf);
        let mut queue = self.queue.lock();
        queue.open.pop().unwrap_or_else(|| OpenPiece { encoded: self.fresh(&mut queue), keys: 0, db: None })
    }

    /// Puts a piece back, which is on its way to the file once it is full.
    fn put_open(&self, piece: OpenPiece) {
        let _leaf = rank::enter(Rank::Leaf);
        let mut queue = self.queue.lock();
        if piece.encoded.len() >= PIECE_BYTES {
            self.push(&mut queue, Piece::Entries { encoded: piece.encoded, keys: piece.keys });
        } else {
            queue.open.push(piece);
        }
    }

    /// A buffer for a new piece.
    fn take_buffer(&self) -> RdbBuffer {
        let _leaf = rank::enter(Rank::Leaf);
        self.fresh(&mut self.queue.lock())
    }

    fn fresh(&self, queue: &mut Queue) -> RdbBuffer {
        queue.spare.pop().unwrap_or_else(|| RdbBuffer::new(self.compress))
    }

    /// Sends a piece on its way.
    fn send(&self, piece: Piece) {
        let _leaf = rank::enter(Rank::Leaf);
        self.push(&mut self.queue.lock(), piece);
    }

    fn push(&self, queue: &mut Queue, piece: Piece) {
        // A piece that was encoded when the saver gave up goes nowhere.
        if !self.abandoned.load(Relaxed) {
            self.queued_bytes.add(piece.bytes());
            queue.full.push_back(piece);
            self.arrived.notify_one();
        }
    }

    fn end(&self, end: End) {
        let _leaf = rank::enter(Rank::Leaf);
        let mut queue = self.queue.lock();
        debug_assert!(queue.end.is_none(), "a walk ends once");
        for OpenPiece { encoded, keys, .. } in std::mem::take(&mut queue.open) {
            self.push(&mut queue, Piece::Entries { encoded, keys });
        }
        queue.end = Some(end);
        self.arrived.notify_one();
    }
}

impl Walker for Snapshot {
    fn before(&self, old: &Before<'_>) {
        let Some(db) = self.database_of(old) else { return };
        let Some(bytes) = old.pin() else {
            let mut piece = self.take_open();
            piece.head(db, old, self.uses, false);
            put_value(old, &mut piece.encoded);
            return self.put_open(piece);
        };
        let mut piece = OpenPiece { encoded: self.take_buffer(), keys: 0, db: None };
        piece.head(db, old, self.uses, false);
        let counted = PinnedBytes::new(&self.queued_bytes, bytes.len());
        let bytes = bytes.counted_in(&self.queued_bytes.old);
        self.send(Piece::Large { head: piece.encoded, bytes, counted });
    }

    fn before_long(self: Arc<Self>, old: &Before<'_>) -> Option<Box<dyn PartSink>> {
        let db = self.database_of(old)?;
        let mut piece = OpenPiece { encoded: self.take_buffer(), keys: 0, db: None };
        piece.head(db, old, self.uses, true);
        put_count(old, &mut piece.encoded);
        let (outline, least_ms) = (old.stream().map(OutlineEncoder::new), old.fields_due_ms());
        Some(Box::new(LongEntry { encoded: piece.encoded, outline, least_ms, snapshot: self }))
    }

    fn before_all(&self) {
        self.end(End::Emptied);
        self.drop_full();
    }

    fn ended(&self) {
        self.end(End::Whole);
    }

    fn has_room(&self) -> bool {
        !self.queued_bytes.is_half_full() && !self.queued_bytes.is_far_ahead()
    }

    fn is_full(&self) -> bool {
        self.queued_bytes.is_full()
    }

    fn kept_bytes(&self) -> KeptBytes {
        self.queued_bytes.kept.clone()
    }
}

/// The entry of a long collection, whose elements come over several holds of its shard.
struct LongEntry {
    snapshot: Arc<Snapshot>,
    /// The piece that is being filled.
    encoded: RdbBuffer,
    /// The rest of a stream, which goes behind its entries.
    outline: Option<OutlineEncoder>,
    /// A time before which no field of a hash expires.
    least_ms: Option<i64>,
}

impl PartSink for LongEntry {
    fn begin(&mut self) -> bool {
        let Some(outline) = &mut self.outline else { return false };
        let mut encoded = self.snapshot.take_buffer();
        if outline.put_names(&mut encoded) {
            self.snapshot.send(Piece::Part { encoded, goes_on: true });
            return true;
        }
        self.snapshot.give_back(encoded);
        false
    }

    fn part(&mut self, part: ValuePart<'_>) {
        put_part(part, self.least_ms, &mut self.encoded);
    }

    fn hold_ended(&mut self) {
        if self.encoded.len() >= PIECE_BYTES {
            let encoded = std::mem::replace(&mut self.encoded, self.snapshot.take_buffer());
            self.snapshot.send(Piece::Part { encoded, goes_on: true });
        }
    }

    fn rest(&mut self) -> bool {
        let Some(outline) = &mut self.outline else { return false };
        let is_left = outline.put_some(&mut self.encoded);
        self.hold_ended();
        is_left
    }

    fn end(self: Box<Self>) {
        let LongEntry { snapshot, encoded, .. } = *self;
        snapshot.send(Piece::Part { encoded, goes_on: false });
    }
}

fn now_ms() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis() as i64
}

#[cfg(test)]
mod tests {
    use varve_commands::dump::idempotence_of;
    use varve_rdb::format::MESSAGE_NAMES;
    use varve_rdb::{Event, Reader};
    use varve_store::{
        Idempotence, IdempotenceLimits, Key, NamedMessage, Options, PendingEntry, StreamGroup, StreamId, StreamNeed,
        StreamWriter, Tx,
    };

    use super::*;

    fn piece(bytes: usize) -> Piece {
        let mut encoded = RdbBuffer::new(false);
        while encoded.len() < bytes {
            encoded.count(1);
        }
        Piece::Entries { encoded, keys: 1 }
    }

    #[test]
    fn a_snapshot_that_is_given_up_late_takes_away_its_own_bytes_alone() {
        let store = Store::new(&Options::default()).expect("an address range");
        let queued_bytes = Arc::<QueuedBytes>::default();
        let snapshot = |sent| {
            let snapshot = Snapshot::new(&store, false, false, &queued_bytes);
            snapshot.send(piece(sent));
            snapshot
        };
        let first = snapshot(1000);
        let second = snapshot(300);
        assert_eq!(queued_bytes.read().0, 1300);
        first.abandon();
        first.send(piece(50));
        assert_eq!(queued_bytes.read().0, 300, "those of the other one are left");
        second.abandon();
        assert_eq!(queued_bytes.read().0, 0);
    }

    #[test]
    fn overdue_keys_are_left_out_of_no_base_and_only_where_there_is_no_room() {
        let store = Store::new(&Options::default()).expect("an address range");
        let queued_bytes = Arc::<QueuedBytes>::default();
        let file = Snapshot::new(&store, false, false, &queued_bytes);
        let base = Snapshot::new(&store, false, true, &queued_bytes);
        let instant = file.drops_until_ms.expect("a file is not a base");
        let dropped = |snapshot: &Snapshot| [None, Some(1), Some(instant + 1)].map(|at| snapshot.drops(at));
        assert_eq!(dropped(&file), [false; 3]);
        queued_bytes.add(QUEUE_BYTES);
        assert_eq!(dropped(&file), [false, true, false], "a key that was alive at the instant stays");
        assert_eq!(dropped(&base), [false; 3]);
    }

    fn set_large(worker: &mut varve_store::StoreWorker, n: usize, bytes: usize) {
        worker.inside(0, |tx| {
            let name = format!("string {n}");
            let k = tx.key(name.as_bytes());
            tx.hold(&[tx.shard_of(k.hash)]);
            tx.set(&k, &vec![b'v'; bytes], varve_store::Ttl::Clear, varve_store::StringForm::Auto);
        });
    }

    /// Large strings that are overwritten fill the queue with all of their bytes until they are written, those that the walk had
    /// pinned before as well; until then these hold back the walk, and no writer.
    #[test]
    fn what_large_strings_keep_is_within_the_bound_of_a_save() {
        const BYTES: usize = 1 << 20;
        const STRINGS: usize = 200;
        let store = Store::new(&Options { shards: 1, ..Options::default() }).expect("an address range");
        let mut worker = store.worker(0);
        (0..STRINGS).for_each(|n| set_large(&mut worker, n, BYTES));
        let queued_bytes = Arc::<QueuedBytes>::default();
        let snapshot = Arc::new(Snapshot::new(&store, false, false, &queued_bytes));
        assert!(store.begin_walk(snapshot.clone()));
        while snapshot.has_room() {
            assert!(worker.walk_step(1), "the walk waits before it has pinned all");
        }
        let ahead = queued_bytes.ahead.load(Relaxed);
        assert!(ahead < QUEUE_BYTES / 2 + 16 * BYTES, "{ahead} bytes are pinned: a bucket's at most beyond the bound");
        assert!(!snapshot.is_full() && !snapshot.is_crowded(), "they cost nothing yet");
        let changed = (0..STRINGS).take_while(|&n| {
            set_large(&mut worker, n, BYTES);
            !queued_bytes.is_full()
        });
        let changed = changed.count();
        let (now, peak) = queued_bytes.read();
        assert!(now == peak && now < QUEUE_BYTES + 2 * BYTES, "{now} of {peak} bytes after {changed} changes");
        assert!((changed * BYTES).abs_diff(QUEUE_BYTES) <= BYTES, "{changed} were overwritten before writers wait");
        let pop = || {
            let waits = !snapshot.queue.lock().full.is_empty();
            waits.then(|| snapshot.next())
        };
        let (mut written, mut old) = (0, 0);
        while worker.walk_step(1) {
            while let Some(Next::Piece(piece)) = pop() {
                assert!(matches!(piece, Piece::Large { .. }), "all strings are large");
                let before = queued_bytes.old.get();
                drop(piece);
                let freed = before - queued_bytes.old.get();
                assert!([0, BYTES].contains(&freed), "{freed} old bytes counted until it was written");
                old += usize::from(freed > 0);
                written += 1;
            }
        }
        written += snapshot.queue.lock().full.len();
        snapshot.drop_full();
        assert_eq!(
            (written, old),
            (STRINGS, changed + 1),
            "each is shown once, and the last one that was overwritten filled the queue"
        );
        assert_eq!((queued_bytes.read().0, queued_bytes.ahead.load(Relaxed)), (0, 0));
    }

    /// Commands that write wait while long collections keep too much for a snapshot; the steps that show it go on.
    #[test]
    fn what_long_collections_keep_is_within_the_bound_of_a_save() {
        const FIELDS: usize = 90_000;
        let store = Store::new(&Options { shards: 1, ..Options::default() }).expect("an address range");
        let mut worker = store.worker(0);
        let set_all = |worker: &mut varve_store::StoreWorker, value: u8, stop: &mut dyn FnMut() -> bool| {
            for n in 0..FIELDS {
                worker.inside(0, |tx| {
                    let k = tx.key(b"hash");
                    tx.hold(&[tx.shard_of(k.hash)]);
                    let (field, value) = (n.to_le_bytes(), [value; 900]);
                    let _ = tx.hash_set(&k, [(&field[..], &value[..])].into_iter()).expect("a hash");
                });
                if stop() {
                    return;
                }
            }
        };
        set_all(&mut worker, b'1', &mut || false);
        let queued_bytes = Arc::<QueuedBytes>::default();
        let snapshot = Arc::new(Snapshot::new(&store, false, false, &queued_bytes));
        assert!(store.begin_walk(snapshot.clone()));
        set_all(&mut worker, b'2', &mut || queued_bytes.is_full());
        let (now, peak) = queued_bytes.read();
        assert!(queued_bytes.is_full() && now == peak, "it is as full as it was, {now} of {peak} bytes");
        assert!(now < QUEUE_BYTES + (64 << 10), "{now} bytes: one change keeps no more than a leaf");
        let mut encoded = 0;
        while worker.walk_step(1) {
            assert!(snapshot.has_room(), "what is kept holds no step back");
            while let Some(piece) = snapshot.queue.lock().full.pop_front() {
                encoded += piece.bytes();
                queued_bytes.sub(piece.bytes());
            }
        }
        assert!(encoded > FIELDS * 900, "all is shown: {encoded} bytes");
        assert!(!queued_bytes.is_full() && queued_bytes.kept.get() == 0);
    }

    /// The groups of a stream in a file: the pending entries of each are those of three consumers by turns.
    fn encoded_groups(groups: u64, each: u64) -> Vec<u8> {
        let mut to = RdbBuffer::new(false);
        for group in 0..groups {
            to.group(format!("group {group}").as_bytes(), (7, group), Some(group), each);
            (1..=each).for_each(|n| to.pending((1, n), 1000, n % 5));
            to.count(3);
            for consumer in 0..3 {
                let own = (1..=each).filter(|n| n % 3 == consumer);
                to.consumer(&[b'a' + consumer as u8], 900, own.clone().count() as u64);
                own.for_each(|n| to.raw_id((1, n)));
            }
        }
        to.bytes().to_vec()
    }

    /// Gives the stream at a key groups whose pending entries are as in [`encoded_groups`].
    fn add_groups(tx: &mut Tx<'_>, key: &Key<'_>, groups: u64, each: u64) {
        let add = |stream: &mut StreamWriter<'_, '_>| {
            for group in 0..groups {
                let name = format!("group {group}");
                assert!(stream.add_group(name.as_bytes(), StreamGroup::new(StreamId::new(7, group), Some(group))));
                stream.change_group(name.as_bytes(), |group| {
                    let numbers = [b"a", b"b", b"c"].map(|name| {
                        group.meet(name, 900, true);
                        group.consumer(name).expect("it was met").number()
                    });
                    for n in 1..=each {
                        let (id, consumer) = (StreamId::new(1, n), numbers[n as usize % 3]);
                        group.set_pending(PendingEntry { id, time_ms: 1000, count: n % 5, consumer });
                    }
                });
            }
        };
        tx.stream_mut_for(key, StreamNeed::Everything, add).expect("a stream");
    }

    /// The groups of a stream are encoded in steps of bounded length, whether its entries are many or few, while entries are
    /// acknowledged and claimed; the file has all as it was.
    #[test]
    fn issue_13_groups_are_saved_part_by_part_as_they_were() {
        const GROUPS: u64 = 4;
        const EACH: u64 = 50_000;
        for entries in [3, 5000] {
            let store = Store::new(&Options { shards: 1, ..Options::default() }).expect("an address range");
            let mut worker = store.worker(0);
            let with = |worker: &mut varve_store::StoreWorker, work: &mut dyn FnMut(&mut Tx<'_>, &Key<'_>)| {
                worker.inside(0, |tx| {
                    let k = tx.key(b"stream");
                    tx.hold(&[tx.shard_of(k.hash)]);
                    work(tx, &k);
                });
            };
            let mut whole = RdbBuffer::new(false);
            with(&mut worker, &mut |tx, k| {
                tx.make_stream(k, StreamNeed::Everything, |stream| {
                    (1..=entries).for_each(|n| stream.add(StreamId::new(1, n), [(&b"f"[..], &b"v"[..])].into_iter()));
                });
                add_groups(tx, k, GROUPS, EACH);
                whole.select_db(0);
                tx.look(k, |value| {
                    begin_entry(value, None, &mut whole);
                    put_value(value, &mut whole);
                });
            });
            assert!(whole.bytes().ends_with(&encoded_groups(GROUPS, EACH)));
            let snapshot = Arc::new(Snapshot::new(&store, false, false, &Arc::default()));
            assert!(store.begin_walk(snapshot.clone()));
            let (mut file, mut steps, mut most) = (Vec::new(), 0, 0);
            while worker.walk_step(1) {
                steps += 1;
                with(&mut worker, &mut |tx, k| {
                    let change = |group: &mut StreamGroup| {
                        let (id, consumer) = (StreamId::new(1, 30_000 + steps), 1);
                        assert!(group.acknowledge(StreamId::new(1, steps)));
                        group.set_pending(PendingEntry { id, time_ms: 2000, count: 9, consumer });
                    };
                    let done = tx.stream_mut(k, |stream| stream.change_group(b"group 3", change)).expect("a stream");
                    assert!(done.flatten().is_some());
                });
                while let Some(piece) = snapshot.queue.lock().full.pop_front() {
                    let (Piece::Part { encoded, .. } | Piece::Entries { encoded, .. }) = &piece else {
                        panic!("no string")
                    };
                    most = most.max(encoded.len());
                    file.extend_from_slice(encoded.bytes());
                }
            }
            // A step is at most a part of 2048 pending entries, or IDs of consumers, and the last 1024 of these.
            let least = 2 * GROUPS * EACH / (2048 + 1024);
            assert!(steps > least, "{steps} steps with {entries} entries");
            assert!(most < PIECE_BYTES + (128 << 10), "{most} bytes in one piece");
            let has_last_use = file.len() - whole.len();
            assert!(has_last_use < 16, "{has_last_use} bytes more");
            assert!(file.ends_with(&whole.bytes()[whole.bytes().len() - encoded_groups(GROUPS, EACH).len() - 20..]));
            store.verify();
        }
    }
    /// Gives the stream at a key names of messages with these numbers.
    fn add_names(worker: &mut varve_store::StoreWorker, numbers: std::ops::Range<u64>) {
        const LIMITS: IdempotenceLimits = IdempotenceLimits { duration_s: 100, names_max: 10_000 };
        worker.inside(0, |tx| {
            let k = tx.key(b"stream");
            tx.hold(&[tx.shard_of(k.hash)]);
            let add = |stream: &mut StreamWriter<'_, '_>| {
                for n in numbers {
                    let (producer, name, id) = (format!("p{}", n % 7), n.to_string(), StreamId::new(1, n));
                    let message = NamedMessage { producer: producer.as_bytes(), name: name.as_bytes(), id, time_ms: 9 };
                    stream.change_idempotence(|| Idempotence::new(LIMITS), |kept| kept.add(message, 9));
                }
            };
            tx.stream_mut_for(&k, StreamNeed::Everything, add).expect("a stream").expect("it is there");
        });
    }

    /// The names of a stream's messages stand in front of its entry, and are encoded in steps of bounded length while others
    /// come; the file has those that were there.
    #[test]
    fn issue_13_names_of_messages_are_saved_part_by_part_as_they_were() {
        const NAMES: u64 = 30_000;
        const FIELD_BYTES: usize = 64 << 10;
        let store = Store::new(&Options { shards: 1, ..Options::default() }).expect("an address range");
        let mut worker = store.worker(0);
        worker.inside(0, |tx| {
            let k = tx.key(b"stream");
            tx.hold(&[tx.shard_of(k.hash)]);
            tx.make_stream(&k, StreamNeed::Everything, |stream| {
                stream.add(StreamId::new(1, 1), [(&b"f"[..], &b"v"[..])].into_iter());
            });
        });
        add_names(&mut worker, 0..NAMES);
        let snapshot = Arc::new(Snapshot::new(&store, false, false, &Arc::default()));
        assert!(store.begin_walk(snapshot.clone()));
        let (mut file, mut steps) = (b"REDIS0010".to_vec(), 0);
        loop {
            let goes_on = worker.walk_step(1);
            while let Some(piece) = snapshot.queue.lock().full.pop_front() {
                let (Piece::Part { encoded, .. } | Piece::Entries { encoded, .. }) = &piece else {
                    panic!("no string")
                };
                file.extend_from_slice(encoded.bytes());
            }
            if !goes_on {
                break;
            }
            steps += 1;
            add_names(&mut worker, NAMES + steps..NAMES + steps + 1);
        }
        file.extend([&[0xff][..], &[0; 8]].concat());
        let (mut reader, mut fields, mut has_key) = (Reader::new(&file[..]), Vec::new(), false);
        loop {
            match reader.next_event().expect("a file that can be read") {
                Event::Aux { name: MESSAGE_NAMES, value } => {
                    assert!(!has_key, "names stand in front of their stream");
                    assert!(value.len() < FIELD_BYTES + 100, "{} bytes in one step", value.len());
                    fields.push(value.to_vec());
                }
                Event::Key(head) => has_key = head.key == b"stream",
                Event::End => break,
                _ => {}
            }
        }
        let bytes: usize = fields.iter().map(Vec::len).sum();
        assert!(has_key && fields.len() > 10 && bytes > 10 * FIELD_BYTES, "{} fields of {bytes} bytes", fields.len());
        assert!(steps > fields.len() as u64, "{steps} steps for {} fields", fields.len());
        let mut numbers = std::collections::BTreeSet::new();
        let kept = idempotence_of(fields.iter().map(Vec::as_slice)).expect("names");
        kept.for_each(|message| _ = numbers.insert(message.id.seq));
        assert!(numbers.into_iter().eq(0..NAMES), "the names of the instant");
        store.verify();
    }
}
