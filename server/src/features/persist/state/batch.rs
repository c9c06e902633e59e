//! Entries of a file on their way from the thread that reads it to the workers, which insert them.
//!
//! ```text
//!  loader: reads the file, cuts it into entries    batch, batch .. up to QUEUE_BYTES   workers: decode, insert
//!                          push (waits for room) ------------------------------------> take, then done
//! ```
//! An entry's value stands in the batch as it stands in the file: whoever inserts it decodes it, so that several do. A large
//! string is the exception: it is read piece by piece to where the store keeps it, so that it is in memory once.
//!
//! A batch that is inserted beside data which is served, or that has a long value, is taken, worked on for a moment and put back,
//! until it is whole.
//!
//! Not here: reading and inserting (`load.rs`, `insert.rs`).

use std::collections::VecDeque;
use std::io::{self, Read};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use parking_lot::Condvar;
use varve_base::shared::{SharedBool, SharedMutex};
use varve_commands::dump::Insertion;
use varve_rdb::{Dialect, LastUse, ValueReader};
use varve_store::FilledExtent;

/// Bytes of a batch: some milliseconds of one worker.
pub(crate) const BATCH_BYTES: usize = 256 << 10;
/// A batch of more bytes has a value that would keep its worker from its clients for longer than a turn may.
const LONG_BYTES: usize = 2 * BATCH_BYTES;
/// Why loading ends early when the server does.
pub(crate) const SERVER_ENDS: &str = "the server ends";
/// Bytes of batches that wait; one that has more waits alone, since a value is read whole.
const QUEUE_BYTES: usize = 8 << 20;

/// One entry of a batch.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) db: u64,
    /// Where the key is in the batch's bytes.
    pub(crate) key: Range<usize>,
    pub(crate) value: Value,
    /// The names of a stream's messages, as the fields before the entry have them.
    pub(crate) message_names: Vec<Vec<u8>>,
    pub(crate) type_number: u8,
    /// Milliseconds of Unix time.
    pub(crate) expiry_ms: Option<i64>,
    /// When the key was used, if the file says it.
    pub(crate) last_use: Option<LastUse>,
    /// Offset in the file behind the entry.
    pub(crate) offset: u64,
}

/// The value of an entry.
#[derive(Debug)]
pub(crate) enum Value {
    /// Where it is in the batch's bytes, as it stands in the file.
    Raw(Range<usize>),
    /// A large string, which the loader has read to where it stays.
    Large(FilledExtent),
}

/// How far a batch is inserted over several turns.
#[derive(Debug, Default)]
pub(crate) struct Begun {
    /// The batch's bytes, which a value that is open reads.
    pub(crate) bytes: Arc<Vec<u8>>,
    /// The first entry that is not inserted.
    pub(crate) next: usize,
    /// The value of that entry, of which a part is inserted.
    pub(crate) open: Option<ValueReader<SharedBytes>>,
    /// Kept from value to value for its memory.
    pub(crate) insertion: Insertion,
}

/// Some of a batch's bytes, to be read.
#[derive(Debug)]
pub(crate) struct SharedBytes {
    bytes: Arc<Vec<u8>>,
    left: Range<usize>,
}

impl SharedBytes {
    /// These bytes of a batch.
    pub(crate) fn new(bytes: &Arc<Vec<u8>>, part: Range<usize>) -> SharedBytes {
        assert!(part.end <= bytes.len(), "the part lies in the batch");
        SharedBytes { bytes: Arc::clone(bytes), left: part }
    }
}

impl Read for SharedBytes {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = buffer.len().min(self.left.len());
        buffer[..count].copy_from_slice(&self.bytes[self.left.start..][..count]);
        self.left.start += count;
        Ok(count)
    }
}

/// Some entries in the order of the file.
#[derive(Debug)]
pub(crate) struct Batch {
    pub(crate) dialect: Dialect,
    pub(crate) bytes: Vec<u8>,
    pub(crate) entries: Vec<Entry>,
    /// How far it is inserted, if that takes several turns.
    pub(crate) begun: Option<Box<Begun>>,
}

impl Batch {
    /// An empty one.
    pub(crate) fn new(dialect: Dialect) -> Batch {
        let bytes = Vec::with_capacity(BATCH_BYTES + BATCH_BYTES / 8);
        Batch { dialect, bytes, entries: Vec::new(), begun: None }
    }
}

impl Batch {
    /// Whether it is inserted over several turns, since it has a long value.
    pub(crate) fn is_long(&self) -> bool {
        self.begun.is_some() || self.bytes.len() > LONG_BYTES
    }

    /// Bytes of memory that it takes.
    fn memory(&self) -> usize {
        let shared = self.begun.as_ref().map_or(0, |begun| begun.bytes.capacity());
        self.bytes.capacity() + shared + self.entries.capacity() * size_of::<Entry>()
    }
}

/// See the module's picture.
#[derive(Debug, Default)]
pub(crate) struct Batches {
    queue: SharedMutex<Queue>,
    changed: Condvar,
    /// Something waits: what idle workers ask.
    any: SharedBool,
}

#[derive(Debug, Default)]
struct Queue {
    waiting: VecDeque<Batch>,
    waiting_bytes: usize,
    /// Batches that were taken and are not done.
    taken: usize,
    /// Why an entry could not be inserted.
    refused: Option<String>,
}

impl Batches {
    /// Puts a batch, once there is room.
    ///
    /// # Errors
    /// Why an entry of an earlier one could not be inserted.
    pub(crate) fn push(&self, batch: Batch) -> Result<(), String> {
        let mut queue = self.queue.lock();
        let bytes = batch.memory();
        while !queue.waiting.is_empty() && queue.waiting_bytes + bytes > QUEUE_BYTES && queue.refused.is_none() {
            self.changed.wait(&mut queue);
        }
        queue.refused.clone().map_or(Ok(()), Err)?;
        queue.waiting_bytes += bytes;
        queue.waiting.push_back(batch);
        self.any.store(true, Relaxed);
        Ok(())
    }

    /// Waits until all batches are inserted.
    ///
    /// # Errors
    /// Why an entry could not be inserted.
    pub(crate) fn finish(&self) -> Result<(), String> {
        let mut queue = self.queue.lock();
        while (queue.taken > 0 || !queue.waiting.is_empty()) && queue.refused.is_none() {
            self.changed.wait(&mut queue);
        }
        queue.refused.clone().map_or(Ok(()), Err)
    }

    /// The load has ended, or is given up: entries that wait are forgotten, and what was wrong with one. Waits until nobody inserts
    /// any. The end of the server stays.
    pub(crate) fn clear(&self) {
        let mut queue = self.queue.lock();
        loop {
            queue.waiting.clear();
            queue.waiting_bytes = 0;
            self.any.store(false, Relaxed);
            if queue.taken == 0 {
                break;
            }
            self.changed.wait(&mut queue);
        }
        queue.refused = queue.refused.take().filter(|reason| reason == SERVER_ENDS);
    }

    /// Nobody inserts any more: who pushes or waits is told so.
    pub(crate) fn stop(&self) {
        self.queue.lock().refused.get_or_insert_with(|| SERVER_ENDS.to_owned());
        self.changed.notify_all();
    }

    /// A batch to insert; None if none waits. [`Batches::done`] follows.
    pub(crate) fn take(&self) -> Option<Batch> {
        if !self.any.load(Relaxed) {
            return None;
        }
        let mut queue = self.queue.lock();
        let batch = queue.waiting.pop_front();
        if let Some(batch) = &batch {
            queue.taken += 1;
            queue.waiting_bytes -= batch.memory();
        }
        self.any.store(!queue.waiting.is_empty(), Relaxed);
        self.changed.notify_all();
        batch
    }

    /// A batch that was taken is inserted in part: it is the next that is taken.
    pub(crate) fn put_back(&self, batch: Batch) {
        let mut queue = self.queue.lock();
        assert!(queue.taken > 0, "what is put back was taken");
        queue.taken -= 1;
        queue.waiting_bytes += batch.memory();
        queue.waiting.push_front(batch);
        self.any.store(true, Relaxed);
        self.changed.notify_all();
    }

    /// A batch that was taken is inserted, or was refused.
    pub(crate) fn done(&self, result: Result<(), String>) {
        let mut queue = self.queue.lock();
        assert!(queue.taken > 0, "what is done was taken");
        queue.taken -= 1;
        if let Err(reason) = result {
            queue.refused.get_or_insert(reason);
        }
        self.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

    use super::*;

    fn batch(bytes: usize) -> Batch {
        Batch { dialect: Dialect::OURS, bytes: vec![0; bytes], entries: Vec::new(), begun: None }
    }

    #[test]
    fn issue_17_what_waits_when_a_load_is_given_up_is_in_no_later_one() {
        let batches = Arc::new(Batches::default());
        (0..3).for_each(|_| batches.push(batch(10)).expect("nobody refuses"));
        let taken = batches.take().expect("one waits");
        let clearing = {
            let batches = Arc::clone(&batches);
            std::thread::spawn(move || batches.clear())
        };
        while batches.any.load(Relaxed) {
            std::thread::yield_now();
        }
        assert!(!clearing.is_finished(), "one is still inserted");
        batches.put_back(taken);
        clearing.join().expect("no panic");
        assert!(batches.take().is_none() && batches.finish() == Ok(()));
    }

    #[test]
    fn issue_17_a_batch_that_is_put_back_is_the_next() {
        let batches = Batches::default();
        [1, 2].into_iter().for_each(|bytes| batches.push(batch(bytes)).expect("nobody refuses"));
        for _ in 0..3 {
            let first = batches.take().expect("one waits");
            assert_eq!(first.memory(), 1);
            batches.put_back(first);
        }
        assert_eq!(batches.queue.lock().waiting_bytes, 3);
        for bytes in [1, 2] {
            assert_eq!(batches.take().map(|batch| batch.memory()), Some(bytes));
            batches.done(Ok(()));
        }
        assert_eq!((batches.finish(), batches.queue.lock().waiting_bytes), (Ok(()), 0));
    }

    #[test]
    fn batches_wait_up_to_their_bytes_and_a_large_one_alone() {
        let (batches, pushed) = (Arc::new(Batches::default()), Arc::new(AtomicUsize::new(0)));
        let lengths = [QUEUE_BYTES / 2, QUEUE_BYTES / 2, 1, 3 * QUEUE_BYTES, 2];
        let loader = {
            let (batches, pushed) = (Arc::clone(&batches), Arc::clone(&pushed));
            std::thread::spawn(move || {
                for length in lengths {
                    batches.push(batch(length)).expect("nobody refuses");
                    pushed.fetch_add(1, SeqCst);
                }
                batches.finish()
            })
        };
        let mut inserted = 0;
        while inserted < lengths.len() {
            let Some(batch) = batches.take() else {
                std::thread::yield_now();
                continue;
            };
            assert_eq!(batch.memory(), lengths[inserted]);
            let waits: usize = batches.queue.lock().waiting.iter().map(Batch::memory).sum();
            assert!(waits <= QUEUE_BYTES || batches.queue.lock().waiting.len() == 1, "{waits} bytes wait");
            inserted += 1;
            batches.done(Ok(()));
        }
        assert_eq!(loader.join().expect("no panic"), Ok(()));
        assert_eq!((pushed.load(SeqCst), batches.queue.lock().waiting_bytes), (lengths.len(), 0));
    }
}
