//! Collection ids: every big collection has one, which all its objects carry, and which says where its root is.
//!
//! ```text
//! chunk 0: 1024 cells   chunk 1: 2048   chunk 2: 4096 ...     each made when first needed, never moved
//! cell  63        48 47            32 31                 0
//!      +------------+----------------+--------------------+
//!      |     0      |  shard + 1     | place in its roots |      0: the number is free
//!      +------------+----------------+--------------------+
//! ```
//! A chunk is made when the chunk before it is begun, at the latest: if the system refuses it, or no chunk is left, there are
//! still as many numbers as the chunk under way has, and its owner refuses writes ([`CollectionTable::has_more`]) before those
//! run out. Cells are read by reclaim without a lock, and read again under the shard's: what they say changes only under the
//! locks of the shards concerned. Low numbers are given out first, since objects carry them in two bytes below 65536.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io;
use std::sync::OnceLock;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU64};

use varve_base::mem::ZeroedNumbers;
use varve_base::rank::{Rank, RankedMutex};
use varve_collection::CollectionId;

/// Cells of the first chunk.
pub(crate) const FIRST: u32 = 1024;
/// Chunks: 1024 * (2^22 - 1) numbers in all, over four thousand million.
pub(crate) const CHUNKS: usize = 22;
/// Numbers in all.
const NUMBERS: u32 = FIRST * ((1 << CHUNKS) - 1);
/// Numbers that are kept for commands which were let in, where there is no chunk to come: more than those make.
const SPARE: u32 = 1 << 20;
/// The place of a root that is still being made.
pub(crate) const NOWHERE: u32 = u32::MAX;

/// Where a root is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RootLocation {
    pub(crate) shard: usize,
    pub(crate) place: u32,
}

/// All collection numbers of a store.
pub(crate) struct CollectionTable {
    pub(crate) chunks: Box<[OnceLock<ZeroedNumbers>]>,
    /// Bytes of all chunks that are in use.
    pub(crate) bytes: AtomicU64,
    pub(crate) numbers: RankedMutex<Numbers>,
    /// The next chunk is not there. Relaxed: a hint, which is looked into under the lock.
    short: AtomicBool,
    /// Makes the cells of a chunk.
    make: fn(usize) -> io::Result<ZeroedNumbers>,
}

#[derive(Default)]
pub(crate) struct Numbers {
    pub(crate) free: BinaryHeap<Reverse<u32>>,
    /// Lowest number never given out.
    pub(crate) fresh: u32,
}

impl CollectionTable {
    pub(crate) fn new() -> CollectionTable {
        let chunks = (0..CHUNKS).map(|_| OnceLock::new()).collect();
        CollectionTable {
            chunks,
            bytes: AtomicU64::new(0),
            numbers: RankedMutex::new(Rank::Leaf, Numbers::default()),
            short: AtomicBool::new(false),
            make: ZeroedNumbers::new,
        }
    }

    /// A table whose chunks come from this function.
    #[cfg(test)]
    pub(crate) fn with_maker(make: fn(usize) -> io::Result<ZeroedNumbers>) -> CollectionTable {
        CollectionTable { make, ..CollectionTable::new() }
    }

    pub(crate) fn cell(&self, id: CollectionId) -> &AtomicU64 {
        let (chunk, place) = place_of(id.number());
        let cells = self.chunks[chunk].get().expect("a number is given out behind its chunk");
        &cells[place]
    }

    /// Makes a chunk; false if the system refuses it. Under the lock of the numbers, which all takers take: what OnceLock does
    /// is inside the standard library, where the thread sanitizer does not see it. The lock is one that many want: the cells,
    /// gigabytes of them at last, are touched when they are used.
    fn make_chunk(&self, chunk: usize) -> bool {
        let cells = &self.chunks[chunk];
        cells.get().is_some() || (self.make)((FIRST as usize) << chunk).is_ok_and(|made| cells.set(made).is_ok())
    }

    /// A number for a root that is about to be made in `shard`, which the caller has locked and keeps until [`CollectionTable::set`]:
    /// reclaim that meets the first of its objects finds the shard busy. When numbers run short ([`CollectionTable::has_more`]),
    /// the caller sees to it that no more commands are let in that make collections.
    pub(crate) fn take(&self, shard: usize) -> CollectionId {
        let mut numbers = self.numbers.lock();
        let id = match numbers.free.pop() {
            Some(Reverse(number)) => CollectionId::new(number),
            None => {
                let fresh = numbers.fresh;
                // The first chunk is smaller than what the system had to have for the log.
                let (chunk, place) = place_of(fresh);
                assert!(fresh < NUMBERS && self.make_chunk(chunk), "writes are refused before the numbers run out");
                numbers.fresh += 1;
                self.bytes.fetch_max(bytes_to(chunk), Relaxed);
                // Once in a thousand times: a chunk may be begun, or the last one come to its end.
                if place % FIRST as usize == 0 {
                    self.look_ahead(&numbers);
                }
                CollectionId::new(fresh)
            }
        };
        drop(numbers);
        self.set(id, RootLocation { shard, place: NOWHERE });
        id
    }

    /// Has the next chunk ready, or notes that numbers are short.
    fn look_ahead(&self, numbers: &Numbers) {
        let (chunk, _) = place_of(numbers.fresh.min(NUMBERS - 1));
        let ready = match chunk + 1 {
            next if next < CHUNKS => self.make_chunk(next),
            _ => NUMBERS - numbers.fresh >= SPARE,
        };
        self.short.store(!ready && numbers.free.len() < SPARE as usize, Relaxed);
    }

    /// False while numbers are short: as long as this is so, nothing may be let in that makes collections. Asks the system
    /// again then.
    #[inline]
    pub(crate) fn has_more(&self) -> bool {
        !self.short.load(Relaxed) || self.finds_more()
    }

    #[cold]
    fn finds_more(&self) -> bool {
        self.look_ahead(&self.numbers.lock());
        !self.short.load(Relaxed)
    }

    /// True if numbers were short when one was taken last.
    #[inline]
    pub(crate) fn is_short(&self) -> bool {
        self.short.load(Relaxed)
    }

    /// Sets where the root is now, under the locks of the shard that it leaves and the shard that it comes to.
    pub(crate) fn set(&self, id: CollectionId, at: RootLocation) {
        self.cell(id).store((at.shard as u64 + 1) << 32 | u64::from(at.place), Release);
    }

    /// Where the root is; `None` for a number that is free. Without the lock of that shard it may move at any time.
    pub(crate) fn get(&self, id: CollectionId) -> Option<RootLocation> {
        let (chunk, place) = place_of(id.number());
        let cell = self.chunks[chunk].get()?[place].load(Acquire);
        let shard = (cell >> 32).checked_sub(1)? as usize;
        Some(RootLocation { shard, place: cell as u32 })
    }

    /// Gives a number back; under the lock of the root's shard.
    pub(crate) fn give(&self, id: CollectionId) {
        // A thread that finds the number free must find its last objects dead.
        self.cell(id).store(0, Release);
        self.numbers.lock().free.push(Reverse(id.number()));
    }

    /// Numbers given out.
    pub(crate) fn used(&self) -> usize {
        let numbers = self.numbers.lock();
        numbers.fresh as usize - numbers.free.len()
    }

    /// All numbers are free again, in O(1); under the gate alone.
    pub(crate) fn clear(&self) {
        // The cells stay as they are: whoever takes a number sets its cell, and the log has no object left with another one.
        *self.numbers.lock() = Numbers::default();
    }

    /// Bytes of the chunks that are in use.
    #[inline]
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Relaxed)
    }
}

/// The chunk of a number, and its place there.
#[inline]
fn place_of(number: u32) -> (usize, usize) {
    let chunk = (number / FIRST + 1).ilog2();
    (chunk as usize, (number - ((1 << chunk) - 1) * FIRST) as usize)
}

/// Bytes of the chunks up to this one.
fn bytes_to(chunk: usize) -> u64 {
    u64::from(FIRST) * 8 * ((2 << chunk) - 1)
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::atomic::AtomicUsize;
    use std::sync::atomic::Ordering::Relaxed;

    use super::{CollectionId, CollectionTable, FIRST, NOWHERE, NUMBERS, RootLocation, SPARE, ZeroedNumbers, bytes_to};

    /// The system refuses a chunk: numbers go on to the end of the chunk before it, and they are short from its beginning on,
    /// until the system has given it.
    #[test]
    fn issue_11_numbers_are_short_long_before_they_run_out() {
        static CELLS_MAX: AtomicUsize = AtomicUsize::new(2 * FIRST as usize);
        let table = CollectionTable::with_maker(|cells| match cells <= CELLS_MAX.load(Relaxed) {
            true => ZeroedNumbers::new(cells),
            false => Err(io::ErrorKind::OutOfMemory.into()),
        });
        (0..FIRST).for_each(|_| _ = table.take(0));
        assert!(table.has_more() && table.bytes() == bytes_to(0));
        // The second chunk is begun, and the third one is refused.
        assert_eq!(table.take(0).number(), FIRST);
        assert!(table.is_short() && !table.has_more());
        (1..2 * FIRST).for_each(|_| _ = table.take(0));
        assert!(!table.has_more() && table.bytes() == bytes_to(1));
        CELLS_MAX.store(8 * FIRST as usize, Relaxed);
        assert!(table.has_more() && !table.is_short());
        assert_eq!(table.take(0).number(), 3 * FIRST);
        assert!(table.has_more(), "the chunk behind it is there");
    }

    /// Where there is no chunk to come, some numbers are kept; those that come back are as good.
    #[test]
    fn issue_11_the_last_numbers_are_kept() {
        let table = CollectionTable::with_maker(|_| Err(io::ErrorKind::OutOfMemory.into()));
        table.numbers.lock().fresh = NUMBERS - SPARE;
        assert!(table.finds_more());
        table.numbers.lock().fresh += 1;
        assert!(!table.finds_more());
        table.numbers.lock().fresh = NUMBERS;
        assert!(!table.finds_more());
        table.numbers.lock().free.extend((0..SPARE).map(std::cmp::Reverse));
        assert!(table.finds_more());
    }

    #[test]
    fn low_numbers_first_and_cells_that_stay() {
        let id = CollectionId::new;
        let table = CollectionTable::new();
        let count = 5 * FIRST;
        for n in 0..count {
            assert_eq!(table.get(id(n)), None);
            assert_eq!(table.take(5), id(n));
            assert_eq!(table.get(id(n)), Some(RootLocation { shard: 5, place: NOWHERE }));
            table.set(id(n), RootLocation { shard: n as usize % 256, place: !n });
        }
        for n in 0..count {
            assert_eq!(table.get(id(n)), Some(RootLocation { shard: n as usize % 256, place: !n }));
        }
        table.give(id(7));
        table.give(id(3));
        assert_eq!((table.get(id(3)), table.used()), (None, count as usize - 2));
        assert_eq!([0; 3].map(|shard| table.take(shard)), [id(3), id(7), id(count)]);
        table.clear();
        assert_eq!((table.used(), table.take(0)), (0, id(0)));
        assert_eq!(table.get(id(0)), Some(RootLocation { shard: 0, place: NOWHERE }));
    }
}
