//! The memory of a timing wheel: chains of 64-byte chunks, ten entries each.
//!
//! ```text
//!   one chunk, one cache line                               one entry: 48 bits, little-endian
//!   ┌─────┬─────┬─────┬─ ─ ─┬─────┬──────────┐              ┌────┬────┬────┬────┬────┬────┐
//!   │ e 0 │ e 1 │ e 2 │     │ e 9 │   link   │              │ b0 │ b1 │ b2 │ b3 │ b4 │ b5 │
//!   └─────┴─────┴─────┴─ ─ ─┴─────┴──────────┘              └────┴────┴────┴────┴────┴────┘
//!   0     6     12                60         64
//!                                            31                              4 3        0
//!                                     link   ├──────── next chunk (28) ──────┼─ count ──┤
//! ```
//!
//! A chain is named by its first chunk, and only that one may be less than full: entries are added and taken there. Chunks
//! stand in pages of 32 (2 KB), each with a mask of its free chunks. The lowest page with room serves first, so that the
//! last pages fall empty and are given back; one empty page is kept, so that a wheel that goes up and down by an entry does
//! not allocate. When less than a quarter is in use the wheel moves chunks down (`lower`), chain by chain.
//!
//! This file does not know what the chains are for, nor how many entries there are.

/// No chunk.
pub(super) const NONE: u32 = (1 << 28) - 1;

const ENTRIES: usize = 10;
const PAGE_CHUNKS: usize = 32;
/// A pool of fewer pages is not worth compacting.
const SPARSE_PAGES_MIN: usize = 8;
/// Random places that `sample` looks at. A pool is at least an eighth full but when it is small or being emptied.
const SAMPLE_TRIES: usize = 32;

#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Chunk {
    entries: [[u8; 6]; ENTRIES],
    link: u32,
}

const _: () = assert!(size_of::<Chunk>() == 64);

const EMPTY: Chunk = Chunk { entries: [[0; 6]; ENTRIES], link: NONE << 4 };

impl Chunk {
    #[inline]
    fn next(&self) -> u32 {
        self.link >> 4
    }

    #[inline]
    fn count(&self) -> usize {
        (self.link & 15) as usize
    }

    #[inline]
    fn set_next(&mut self, next: u32) {
        self.link = next << 4 | self.link & 15;
    }

    #[inline]
    fn get(&self, i: usize) -> u64 {
        let [a, b, c, d, e, f] = self.entries[i];
        u64::from_le_bytes([a, b, c, d, e, f, 0, 0])
    }

    #[inline]
    fn push(&mut self, bits: u64) {
        let [a, b, c, d, e, f, ..] = bits.to_le_bytes();
        self.entries[self.count()] = [a, b, c, d, e, f];
        self.link += 1;
    }
}

struct Page {
    chunks: Box<[Chunk; PAGE_CHUNKS]>,
    /// Bit i is set if chunk i is free.
    free: u32,
}

#[derive(Default)]
pub(super) struct Pool {
    pages: Vec<Page>,
    /// Bit i of the whole is set if page i has a free chunk.
    roomy: Vec<u64>,
    /// No word of `roomy` before this one has a bit set.
    roomy_from: u32,
    chunks_used: u32,
}

impl Pool {
    /// Adds an entry to the chain at `head` (or a new one, for `NONE`); the chain's head from now on.
    #[inline]
    pub(super) fn push(&mut self, head: u32, bits: u64) -> u32 {
        if head != NONE {
            let chunk = self.chunk_mut(head);
            if chunk.count() < ENTRIES {
                chunk.push(bits);
                return head;
            }
        }
        let at = self.alloc();
        let chunk = self.chunk_mut(at);
        chunk.link = head << 4;
        chunk.push(bits);
        at
    }

    /// The entry that was added last to the chain at `head`, of those still there.
    #[inline]
    pub(super) fn last(&self, head: u32) -> u64 {
        let chunk = self.chunk(head);
        chunk.get(chunk.count() - 1)
    }

    /// Moves up to `limit` entries of the chain's first chunk to `out`; the chain's head from now on.
    #[inline]
    pub(super) fn pop(&mut self, head: u32, limit: usize, out: &mut Vec<u64>) -> u32 {
        let chunk = self.chunk_mut(head);
        let count = chunk.count();
        let left = count - count.min(limit);
        out.extend((left..count).map(|i| chunk.get(i)));
        chunk.link = chunk.link & !15 | left as u32;
        if left > 0 {
            return head;
        }
        let next = chunk.next();
        self.free(head);
        next
    }

    /// An entry of the whole pool, each with the same chance (unless the pool is nearly empty); None if there is none.
    /// `random` gives 64 random bits at each call.
    pub(super) fn sample(&self, mut random: impl FnMut() -> u64) -> Option<u64> {
        if self.chunks_used == 0 {
            return None;
        }
        let places = (self.pages.len() * PAGE_CHUNKS * ENTRIES) as u128;
        for _ in 0..SAMPLE_TRIES {
            let place = ((u128::from(random()) * places) >> 64) as usize;
            let (at, i) = ((place / ENTRIES) as u32, place % ENTRIES);
            if self.is_used(at) && i < self.chunk(at).count() {
                return Some(self.chunk(at).get(i));
            }
        }
        let first = (random() % self.pages.len() as u64) as usize;
        let (after, before) = (first..self.pages.len(), 0..first);
        let page = after.chain(before).find(|&p| self.pages[p].free != u32::MAX)?;
        let chunk = &self.pages[page].chunks[self.pages[page].free.trailing_ones() as usize];
        Some(chunk.get((random() % chunk.count() as u64) as usize))
    }

    /// Bytes taken from the allocator.
    pub(super) fn bytes(&self) -> usize {
        self.pages.len() * size_of::<[Chunk; PAGE_CHUNKS]>()
            + self.pages.capacity() * size_of::<Page>()
            + self.roomy.capacity() * size_of::<u64>()
    }

    /// True if so little is in use that moving chunks down gives memory back.
    pub(super) fn is_sparse(&self) -> bool {
        self.pages.len() >= SPARSE_PAGES_MIN && (self.chunks_used as usize) * 4 < self.pages.len() * PAGE_CHUNKS
    }

    /// Below which chunk number compacting brings everything: twice what is in use.
    pub(super) fn compact_limit(&self) -> u32 {
        (self.chunks_used * 2).next_multiple_of(PAGE_CHUNKS as u32)
    }

    /// Moves the chunks of a chain that stand at `limit` or above further down: the chain's head from now on, and its chunks.
    pub(super) fn lower(&mut self, head: u32, limit: u32) -> (u32, usize) {
        let (mut new_head, mut before, mut at, mut seen) = (head, NONE, head, 0);
        while at != NONE {
            let next = self.chunk(at).next();
            let to = if at >= limit { self.move_down(at) } else { at };
            if before == NONE {
                new_head = to;
            } else {
                self.chunk_mut(before).set_next(to);
            }
            (before, at, seen) = (to, next, seen + 1);
        }
        (new_head, seen)
    }

    /// Calls `f` with every entry of a chain; its number of chunks.
    pub(super) fn for_each(&self, head: u32, mut f: impl FnMut(u64)) -> usize {
        let (mut at, mut chunks) = (head, 0);
        while at != NONE {
            let chunk = self.chunk(at);
            assert!(self.is_used(at), "chunk {at} is in a chain and free");
            assert!(chunk.count() > 0 && (at == head || chunk.count() == ENTRIES), "chunk {at} is not full");
            (0..chunk.count()).for_each(|i| f(chunk.get(i)));
            (at, chunks) = (chunk.next(), chunks + 1);
        }
        chunks
    }

    /// Checks masks and counts against each other; `chunks` is how many the chains have. O(pages).
    ///
    /// # Panics
    /// With what is wrong.
    pub(super) fn verify(&self, chunks: usize) {
        let used: usize = self.pages.iter().map(|p| p.free.count_zeros() as usize).sum();
        assert_eq!((used, chunks), (self.chunks_used as usize, used), "chunks in use; chunks in chains");
        for (i, page) in self.pages.iter().enumerate() {
            assert_eq!(self.roomy[i / 64] >> (i % 64) & 1 == 1, page.free != 0, "room of page {i}");
        }
        let beyond = (self.pages.len()..self.roomy.len() * 64).any(|i| self.roomy[i / 64] >> (i % 64) & 1 == 1);
        assert!(!beyond, "a page that is gone has room");
        assert!(self.roomy[..(self.roomy_from as usize).min(self.roomy.len())].iter().all(|&word| word == 0));
    }

    #[inline]
    fn chunk(&self, at: u32) -> &Chunk {
        &self.pages[at as usize / PAGE_CHUNKS].chunks[at as usize % PAGE_CHUNKS]
    }

    #[inline]
    fn chunk_mut(&mut self, at: u32) -> &mut Chunk {
        &mut self.pages[at as usize / PAGE_CHUNKS].chunks[at as usize % PAGE_CHUNKS]
    }

    fn is_used(&self, at: u32) -> bool {
        self.pages[at as usize / PAGE_CHUNKS].free >> (at as usize % PAGE_CHUNKS) & 1 == 0
    }

    /// A free chunk of the lowest page that has one.
    fn alloc(&mut self) -> u32 {
        let from = (self.roomy_from as usize).min(self.roomy.len());
        let word = match self.roomy[from..].iter().position(|&word| word != 0) {
            Some(ahead) => from + ahead,
            None => self.grow(),
        };
        self.roomy_from = word as u32;
        let page = word * 64 + self.roomy[word].trailing_zeros() as usize;
        let free = &mut self.pages[page].free;
        let i = free.trailing_zeros();
        *free &= *free - 1;
        if *free == 0 {
            self.roomy[word] &= self.roomy[word] - 1;
        }
        self.chunks_used += 1;
        (page * PAGE_CHUNKS) as u32 + i
    }

    /// Adds one page, all others being full; its word of `roomy`.
    fn grow(&mut self) -> usize {
        let page = self.pages.len();
        assert!((page + 1) * PAGE_CHUNKS <= NONE as usize, "a timing wheel of 16 GB");
        if page.is_multiple_of(64) {
            self.roomy.push(0);
        }
        self.roomy[page / 64] |= 1 << (page % 64);
        self.pages.push(Page { chunks: Box::new([EMPTY; PAGE_CHUNKS]), free: u32::MAX });
        page / 64
    }

    fn free(&mut self, at: u32) {
        let (page, i) = (at as usize / PAGE_CHUNKS, at as usize % PAGE_CHUNKS);
        debug_assert!(self.is_used(at), "chunk {at} is freed twice");
        self.pages[page].free |= 1 << i;
        self.roomy[page / 64] |= 1 << (page % 64);
        self.roomy_from = self.roomy_from.min((page / 64) as u32);
        self.chunks_used -= 1;
        if self.pages[page].free == u32::MAX && page + 2 >= self.pages.len() {
            self.trim();
        }
    }

    /// Gives the empty pages at the end back, all but one.
    fn trim(&mut self) {
        while let [.., before, last] = &self.pages[..]
            && before.free == u32::MAX
            && last.free == u32::MAX
        {
            self.pages.pop();
            let gone = self.pages.len();
            self.roomy[gone / 64] &= !(1 << (gone % 64));
            self.roomy.truncate(gone.div_ceil(64));
        }
        // Half of what is too much is kept, so that the next pages do not move the list again.
        if self.pages.capacity() > self.pages.len() * 4 {
            self.pages.shrink_to(self.pages.len() * 2);
            self.roomy.shrink_to(self.roomy.len() * 2);
        }
    }

    /// Copies a chunk to a lower place, if there is one, and frees it; where it is now.
    fn move_down(&mut self, from: u32) -> u32 {
        let to = self.alloc();
        if to >= from {
            self.free(to);
            return from;
        }
        *self.chunk_mut(to) = *self.chunk(from);
        self.free(from);
        to
    }
}
