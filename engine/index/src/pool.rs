//! The overflow buckets of one table: numbered, in chunks that do not move, the free ones in a list.
//!
//! ```text
//! chunk 0: [0][1][2][3]   chunk 1: [4] …        free -> 17 -> 3 -> …  (through the chain part of the link)
//! ```
//!
//! When the last bucket in use comes back all chunks are freed, at once if they are few; many, of which a table of millions
//! has some ten thousand, are kept for the table to free in steps. Who chains which bucket is the table's business.

use crate::bucket::Bucket;

/// Buckets of a chunk: every table has some in use at its fullest, so the unused buckets of a chunk count 256 times.
const CHUNK: usize = 4;

/// Chunks of a pool without use that are freed at once: some microseconds.
const FEW_CHUNKS: usize = 64;

/// Most overflow buckets of one table: an id + 1 has 32 bits.
const IDS: usize = u32::MAX as usize - CHUNK;

#[derive(Default)]
pub(crate) struct Pool {
    #[allow(clippy::vec_box, reason = "a chunk must not move when the list of chunks grows")]
    chunks: Vec<Box<[Bucket; CHUNK]>>,
    free: Option<u32>,
    used: usize,
}

impl Pool {
    /// An empty bucket.
    pub(crate) fn allocate(&mut self) -> u32 {
        if self.free.is_none() {
            self.add_chunk();
        }
        let id = self.free.expect("a chunk was just added");
        let bucket = self.get_mut(id);
        let next = bucket.chain();
        *bucket = Bucket::EMPTY;
        self.free = next;
        self.used += 1;
        id
    }

    fn add_chunk(&mut self) {
        let first = self.chunks.len() * CHUNK;
        assert!(first < IDS, "overflow buckets run out");
        let mut chunk = Box::new([Bucket::EMPTY; CHUNK]);
        for (i, bucket) in chunk.iter_mut().enumerate() {
            bucket.set_chain((i + 1 < CHUNK).then_some((first + i + 1) as u32));
        }
        self.chunks.push(chunk);
        self.free = Some(first as u32);
    }

    /// Takes a bucket without entries back.
    pub(crate) fn release(&mut self, id: u32) {
        self.release_kept(id);
        if self.used == 0 && self.chunks.len() <= FEW_CHUNKS {
            *self = Pool::default();
        }
    }

    /// Takes a bucket without entries back, and keeps the chunks however few they are: `free_chunks` frees them.
    pub(crate) fn release_kept(&mut self, id: u32) {
        assert!(self.used > 0, "more overflow buckets returned than taken");
        let free = self.free;
        let bucket = self.get_mut(id);
        assert!(bucket.head().valid().is_empty(), "overflow bucket {id} still has entries");
        bucket.set_chain(free);
        self.free = Some(id);
        self.used -= 1;
    }

    /// Frees `chunks` chunks of a pool of which nothing is in use; true when it has none left. Nothing may be allocated
    /// before that.
    pub(crate) fn free_chunks(&mut self, chunks: usize) -> bool {
        assert!(self.used == 0, "{} overflow buckets are in use", self.used);
        self.free = None;
        self.chunks.truncate(self.chunks.len().saturating_sub(chunks));
        self.chunks.is_empty()
    }

    /// Frees some chunks of a pool whose buckets mean nothing any more; true when it has none left.
    pub(crate) fn discard(&mut self) -> bool {
        self.used = 0;
        self.free_chunks(FEW_CHUNKS)
    }

    /// Whether there are chunks of which nothing is in use.
    pub(crate) fn is_idle(&self) -> bool {
        self.used == 0 && !self.chunks.is_empty()
    }

    #[inline]
    pub(crate) fn get(&self, id: u32) -> &Bucket {
        &self.chunks[id as usize / CHUNK][id as usize % CHUNK]
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, id: u32) -> &mut Bucket {
        &mut self.chunks[id as usize / CHUNK][id as usize % CHUNK]
    }

    /// Buckets in use.
    pub(crate) fn used(&self) -> usize {
        self.used
    }

    /// Ids below this one exist, in use or free; the free ones hold no entries.
    pub(crate) fn ids(&self) -> u32 {
        (self.chunks.len() * CHUNK) as u32
    }

    /// Memory that the pool holds, in bytes.
    #[inline]
    pub(crate) fn bytes(&self) -> usize {
        self.chunks.len() * size_of::<[Bucket; CHUNK]>() + self.chunks.capacity() * size_of::<Box<[Bucket; CHUNK]>>()
    }

    /// Counts the free list; panics if it runs in a circle.
    pub(crate) fn free_count(&self) -> usize {
        let (mut count, mut next) = (0, self.free);
        while let Some(id) = next {
            assert!(count < self.ids() as usize, "the free list runs in a circle");
            assert!(self.get(id).head().valid().is_empty(), "free overflow bucket {id} has entries");
            count += 1;
            next = self.get(id).chain();
        }
        count
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_come_back() {
        let mut pool = Pool::default();
        let ids: Vec<u32> = (0..101).map(|_| pool.allocate()).collect();
        let all = 101usize.next_multiple_of(CHUNK);
        assert_eq!((pool.used(), pool.free_count(), pool.ids() as usize), (101, all - 101, all));
        for &id in &ids[1..] {
            pool.release(id);
        }
        assert_eq!((pool.used(), pool.free_count()), (1, all - 1));
        let again = pool.allocate();
        assert!(again != ids[0] && pool.get(again).chain().is_none());
        pool.release(again);
        pool.release(ids[0]);
        assert_eq!((pool.used(), pool.ids(), pool.bytes()), (0, 0, 0));
    }

    #[test]
    fn many_chunks_are_freed_in_steps_or_used_again() {
        let mut pool = Pool::default();
        for _ in 0..2 {
            let ids: Vec<u32> = (0..10 * FEW_CHUNKS * CHUNK).map(|_| pool.allocate()).collect();
            ids.into_iter().for_each(|id| pool.release(id));
            assert_eq!((pool.is_idle(), pool.ids() as usize), (true, 10 * FEW_CHUNKS * CHUNK));
        }
        for step in 1..=10 {
            assert_eq!(pool.discard(), step == 10);
        }
        assert!(!pool.is_idle());
    }
}
