//! The backlog: the end of the stream in memory, once for all replicas.
//!
//! ```text
//!   positions   first ........... cursor of a slow replica .......... cursor of a quick one ... end
//!   pieces      | 64 KB | 64 KB | 3 KB | a large value, pinned | 16 KB, still growing |
//!               at least `repl-backlog-size` bytes, and all that some replica still needs
//! ```
//! Pieces are the journal's chunks, shared with the thread that writes them to a file. Small ones are copied behind each
//! other: a chunk of a quiet server is a few bytes in 64 KB. One that fills less than half of its buffer is copied, too. Where the
//! backlog is to be smaller than some chunks, they are copied in pieces of 16 KB, since only whole pieces are let go of. A large value that everybody has is let go of at once, and the
//! backlog begins behind it: it is memory of the store, which the store counts and could not free. Pieces are freed
//! when nobody waits for the backlog any more, and by a thread of their own where they are many.
//!
//! Not here: who needs what (`replicas.rs`), and what offsets are (`ids.rs`).

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use varve_base::shared::SharedMutex;
use varve_exec::journal::{Chunk, ChunkPart};
use varve_protocol::{Pinned, Reply, ReplyPart};

use crate::system::closed_aside::drop_aside;

/// Pieces shorter than this are copied behind each other, until they are as long together.
const JOIN_BYTES: usize = 16 << 10;
/// A backlog of fewer bytes has chunks cut into pieces of [`JOIN_BYTES`].
const CUT_BELOW_BYTES: u64 = 4 * (64 << 10);

/// Pieces that are let go of while others wait for the backlog.
const TRIM_PIECES: usize = 1024;
/// Bytes from which on pieces are freed by a thread of their own.
const ASIDE_BYTES: usize = 16 << 20;

/// See the module's picture.
#[derive(Debug, Default)]
pub(crate) struct Backlog(SharedMutex<Inner>);

#[derive(Debug, Default)]
struct Inner {
    pieces: VecDeque<Piece>,
    first: u64,
    end: u64,
    /// Bytes of pieces that do not lie in the store.
    held_bytes: usize,
}

#[derive(Debug)]
struct Piece {
    /// The position of its first byte.
    at: u64,
    chunk: Arc<Chunk>,
    /// Its share of [`Inner::held_bytes`].
    held_bytes: usize,
}

impl Piece {
    fn new(at: u64, chunk: Arc<Chunk>) -> Piece {
        Piece { at, held_bytes: chunk.held_bytes(), chunk }
    }

    fn end(&self) -> u64 {
        self.at + self.chunk.len() as u64
    }
}

/// Bytes of a piece, which are there and as they are while this is there.
#[derive(Debug)]
pub(crate) struct Stretch {
    chunk: Arc<Chunk>,
    from: usize,
    len: usize,
}

impl Stretch {
    /// Appends a copy of its bytes.
    pub(crate) fn copy_to(&self, out: &mut Reply) {
        self.chunk.parts_of(self.from..self.from + self.len).for_each(|part| out.raw(&part));
    }
}

impl Pinned for Stretch {
    fn len(&self) -> usize {
        self.len
    }

    fn read(&self, range: Range<usize>) -> ReplyPart<'_> {
        assert!(range.start <= range.end && range.end <= self.len, "{range:?} of {} bytes", self.len);
        match self.chunk.part(self.from + range.start..self.from + range.end) {
            ChunkPart::Own(bytes) => ReplyPart::Slice(bytes),
            ChunkPart::Pinned(bytes) => ReplyPart::Lent(Box::new(bytes)),
        }
    }
}

impl Backlog {
    /// It begins at this position, empty.
    pub(crate) fn begin(&self, at: u64) {
        let before = std::mem::replace(&mut *self.0.lock(), Inner { first: at, end: at, ..Inner::default() });
        // Nobody else may be inside the gate meanwhile.
        if !before.pieces.is_empty() {
            drop_aside(before.pieces);
        }
    }

    /// Takes chunks of the journal up to position `end`. Keeps the last `size` bytes, and all from the position on that `needed`
    /// gives, which is asked while nobody else looks: whoever has said before that it needs something then finds it here.
    pub(crate) fn put(&self, chunks: &[Arc<Chunk>], end: u64, size: u64, needed: impl Fn() -> u64) {
        let mut inner = self.0.lock();
        let mut at = end - chunks.iter().map(|chunk| chunk.len() as u64).sum::<u64>();
        for chunk in chunks {
            let next = at + chunk.len() as u64;
            // Bytes that were appended before the backlog began may have been on their way. A mark is for files.
            if next > inner.first && next > at {
                let is_cut = size < CUT_BELOW_BYTES && chunk.pinned_bytes() == 0 && chunk.len() > JOIN_BYTES;
                if is_cut { inner.add_cut(at, chunk) } else { inner.add(at, chunk) }
            }
            at = next;
        }
        inner.end = inner.end.max(end);
        drop(inner);
        self.let_go(size, needed);
    }

    /// The oldest chunk and its position, if more than `most` bytes lie behind it: somebody needs it still.
    pub(crate) fn oldest_beyond(&self, most: u64) -> Option<(u64, Arc<Chunk>)> {
        let inner = self.0.lock();
        let front = inner.pieces.front().filter(|front| inner.end - front.end() > most)?;
        Some((front.at, Arc::clone(&front.chunk)))
    }

    /// Lets go of all but the last `size` bytes, as far as nobody needs more than `needed` says.
    pub(crate) fn let_go(&self, size: u64, needed: impl Fn() -> u64) {
        let mut gone = Vec::new();
        let trim = |gone: &mut Vec<Piece>| {
            let mut inner = self.0.lock();
            let needed = needed();
            inner.trim(size, needed, gone)
        };
        while trim(&mut gone) {}
        let bytes: usize = gone.iter().map(|piece| piece.chunk.len()).sum();
        if bytes >= ASIDE_BYTES {
            drop_aside(gone);
        }
    }

    /// Lets go of the oldest chunk, which begins at this position: it lies elsewhere now.
    pub(crate) fn let_oldest_go(&self, at: u64) {
        let gone = {
            let mut inner = self.0.lock();
            let has = inner.pieces.front().is_some_and(|front| front.at == at);
            has.then(|| inner.pop())
        };
        drop(gone);
    }

    /// The positions of its first byte, and behind its last one.
    pub(crate) fn bounds(&self) -> (u64, u64) {
        let inner = self.0.lock();
        (inner.first, inner.end)
    }

    /// True if the byte at this position is there: `claim` is called then, before anything more is let go of.
    pub(crate) fn claim(&self, position: u64, claim: impl FnOnce()) -> bool {
        let inner = self.0.lock();
        let has = inner.first <= position;
        if has {
            claim();
        }
        has
    }

    /// Bytes of memory that it holds beside the store.
    pub(crate) fn held_bytes(&self) -> usize {
        self.0.lock().held_bytes
    }

    /// Stretches that follow each other from a position on, `bytes_max` bytes at most; None if the first byte is not there
    /// any more.
    pub(crate) fn read(&self, from: u64, bytes_max: usize) -> Option<Vec<Stretch>> {
        let inner = self.0.lock();
        if from < inner.first {
            return None;
        }
        let (mut at, mut left, mut stretches) = (from, bytes_max, Vec::new());
        let mut nth = inner.pieces.partition_point(|piece| piece.end() <= from);
        while let Some(piece) = inner.pieces.get(nth).filter(|_| left > 0) {
            let from = (at - piece.at) as usize;
            let len = (piece.chunk.len() - from).min(left);
            stretches.push(Stretch { chunk: Arc::clone(&piece.chunk), from, len });
            (at, left, nth) = (at + len as u64, left - len, nth + 1);
        }
        Some(stretches)
    }
}

impl Inner {
    fn add(&mut self, at: u64, chunk: &Arc<Chunk>) {
        let is_short = chunk.len() < JOIN_BYTES || chunk.held_bytes() > 2 * chunk.len();
        if !is_short || chunk.pinned_bytes() > 0 {
            self.push(Piece::new(at, Arc::clone(chunk)));
            return;
        }
        // A piece that a replica is being sent, or that a file waits for, is left as it is.
        let last = self.pieces.back_mut().filter(|last| last.end() == at && last.chunk.len() < JOIN_BYTES);
        if let Some(last) = last
            && let Some(joined) = Arc::get_mut(&mut last.chunk)
        {
            joined.extend(chunk);
            let held_bytes = joined.held_bytes();
            self.held_bytes += held_bytes - last.held_bytes;
            last.held_bytes = held_bytes;
            return;
        }
        let mut copy = Chunk::default();
        copy.extend(chunk);
        self.push(Piece::new(at, Arc::new(copy)));
    }

    fn push(&mut self, piece: Piece) {
        self.held_bytes += piece.held_bytes;
        self.pieces.push_back(piece);
    }

    /// Adds copies of the parts of a chunk without pins, as far as they lie behind the begin.
    fn add_cut(&mut self, at: u64, chunk: &Chunk) {
        let mut piece_at = at;
        for bytes in chunk.bytes.chunks(JOIN_BYTES) {
            let piece = Piece::new(piece_at, Arc::new(Chunk::new(bytes.to_vec(), None)));
            piece_at = piece.end();
            if piece_at > self.first {
                self.push(piece);
            }
        }
    }

    /// Puts pieces that nobody needs into `gone`, [`TRIM_PIECES`] at most; true if there are more.
    fn trim(&mut self, size: u64, needed: u64, gone: &mut Vec<Piece>) -> bool {
        for _ in 0..TRIM_PIECES {
            let is_unneeded = |front: &&Piece| {
                front.end() <= needed && (self.end - front.end() >= size || front.chunk.pinned_bytes() > 0)
            };
            if self.pieces.front().filter(is_unneeded).is_none() {
                return false;
            }
            gone.push(self.pop());
        }
        true
    }

    fn pop(&mut self) -> Piece {
        let piece = self.pieces.pop_front().expect("it is at the front");
        self.held_bytes -= piece.held_bytes;
        self.first = piece.end();
        piece
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chunk(byte: u8, len: usize) -> Arc<Chunk> {
        Arc::new(Chunk::new(vec![byte; len], None))
    }

    fn bytes_of(stretch: &Stretch) -> Vec<u8> {
        let mut copy = Reply::new();
        stretch.copy_to(&mut copy);
        assert_eq!(copy.len(), stretch.len());
        copy.to_vec()
    }

    fn read(backlog: &Backlog, from: u64) -> Vec<u8> {
        let parts = backlog.read(from, usize::MAX).expect("it is there");
        parts.iter().flat_map(bytes_of).collect()
    }

    #[test]
    fn it_keeps_its_size_and_what_is_needed() {
        let backlog = Backlog::default();
        backlog.begin(100);
        backlog.put(&[chunk(b'a', 90), chunk(b'b', 20)], 120, 1000, || u64::MAX);
        assert_eq!(backlog.bounds(), (100, 120));
        assert_eq!(read(&backlog, 100), [b'b'; 20], "what came before it began is not kept");
        assert!(backlog.read(99, 1).is_none());
        let long = chunk(b'c', JOIN_BYTES);
        backlog.put(std::slice::from_ref(&long), 120 + JOIN_BYTES as u64, 1000, || 110);
        assert_eq!(backlog.bounds().0, 100, "somebody is at 110");
        assert_eq!(Arc::strong_count(&long), 2, "it is not copied");
        backlog.put(&[chunk(b'd', 10)], 130 + JOIN_BYTES as u64, 1000, || u64::MAX);
        assert_eq!(backlog.bounds().0, 120, "whole pieces go");
        assert_eq!(backlog.held_bytes(), JOIN_BYTES + 10);
        assert_eq!(read(&backlog, 119 + JOIN_BYTES as u64), b"cdddddddddd");
    }

    /// A chunk's buffer counts, not what it is filled with; one that is mostly empty is not kept.
    #[test]
    fn issue_11_buffers_count_whole() {
        let backlog = Backlog::default();
        let of = |len: usize| {
            let mut bytes = Vec::with_capacity(4 * JOIN_BYTES);
            bytes.resize(len, b'x');
            Arc::new(Chunk::new(bytes, None))
        };
        let (sparse, dense) = (of(2 * JOIN_BYTES - 1), of(2 * JOIN_BYTES));
        let ends = [sparse.len() as u64, (sparse.len() + dense.len()) as u64];
        backlog.put(std::slice::from_ref(&sparse), ends[0], 1 << 20, || u64::MAX);
        assert_eq!((backlog.held_bytes(), Arc::strong_count(&sparse)), (sparse.len(), 1), "it is copied");
        backlog.put(std::slice::from_ref(&dense), ends[1], 1 << 20, || u64::MAX);
        assert_eq!((backlog.held_bytes(), Arc::strong_count(&dense)), (sparse.len() + 4 * JOIN_BYTES, 2));
        // Short ones that follow each other: the room that their piece grows by counts.
        let mut end = ends[1];
        for _ in 0..100 {
            end += 100;
            backlog.put(&[chunk(b'y', 100)], end, 1 << 20, || u64::MAX);
        }
        let held: usize = backlog.0.lock().pieces.iter().map(|piece| piece.chunk.bytes.capacity()).sum();
        assert_eq!(backlog.held_bytes(), held);
        backlog.let_go(0, || u64::MAX);
        assert_eq!((backlog.bounds(), backlog.held_bytes()), ((end, end), 0));
    }

    #[test]
    fn issue_17_what_lies_too_far_back_can_go_elsewhere() {
        let backlog = Backlog::default();
        for n in 0..10 {
            backlog.put(&[chunk(b'0' + n as u8, JOIN_BYTES)], (n + 1) * JOIN_BYTES as u64, 0, || 5);
        }
        let most = 8 * JOIN_BYTES as u64;
        let (at, oldest) = backlog.oldest_beyond(most).expect("nine lie behind it");
        assert_eq!((at, oldest.len()), (0, JOIN_BYTES));
        backlog.let_oldest_go(1);
        assert_eq!(backlog.bounds().0, 0, "another one has that position");
        backlog.let_oldest_go(at);
        assert_eq!((backlog.bounds().0, backlog.held_bytes()), (JOIN_BYTES as u64, 9 * JOIN_BYTES));
        assert!(backlog.oldest_beyond(most).is_none(), "eight lie behind the next one");
        let part = JOIN_BYTES as u64;
        backlog.let_go(2 * part, || 5 * part);
        assert_eq!(backlog.bounds().0, 5 * part, "somebody needs the rest");
        backlog.let_go(2 * part, || u64::MAX);
        assert_eq!((backlog.bounds().0, backlog.held_bytes()), (8 * part, 2 * JOIN_BYTES), "nobody does");
    }

    #[test]
    fn issue_17_a_small_backlog_is_no_longer_than_it_has_to_be() {
        let backlog = Backlog::default();
        let (size, long) = (JOIN_BYTES as u64, 4 * JOIN_BYTES as u64);
        backlog.begin(long / 2 + 7);
        for n in 0..6 {
            backlog.put(&[chunk(b'a' + n as u8, long as usize)], (n + 1) * long, size, || long + 1);
            assert_eq!(read(&backlog, backlog.bounds().0).len() as u64, (n + 1) * long - backlog.bounds().0);
        }
        assert_eq!(backlog.bounds().0, long, "somebody needs the byte behind it");
        assert_eq!(backlog.held_bytes() as u64, 5 * long);
        backlog.let_go(size, || u64::MAX);
        assert_eq!(backlog.bounds(), (6 * long - size, 6 * long));
        assert_eq!(read(&backlog, 6 * long - size), vec![b'f'; JOIN_BYTES]);
        backlog.put(&[chunk(b'x', 10)], 6 * long + 10, size, || u64::MAX);
        assert_eq!(backlog.bounds().0, 6 * long - size, "the rest alone is too short");
        let whole = chunk(b'z', long as usize);
        backlog.put(std::slice::from_ref(&whole), 7 * long + 10, CUT_BELOW_BYTES, || u64::MAX);
        assert_eq!(Arc::strong_count(&whole), 2, "where the backlog is longer, none is copied");
    }

    /// Whoever needs the backlog does not wait until all of a long one is let go of.
    #[test]
    fn much_goes_in_parts() {
        let (backlog, piece, part) = (Backlog::default(), chunk(b'x', JOIN_BYTES), JOIN_BYTES as u64);
        let count = 2 * TRIM_PIECES as u64 + 10;
        let chunks = vec![Arc::clone(&piece); count as usize];
        backlog.put(&chunks, count * part, count * part, || u64::MAX);
        drop(chunks);
        let mut gone = Vec::new();
        assert!(backlog.0.lock().trim(part, u64::MAX, &mut gone), "there is more");
        assert_eq!((gone.len(), backlog.bounds().0), (TRIM_PIECES, TRIM_PIECES as u64 * part));
        assert_eq!(gone.last().map(Piece::end), Some(backlog.bounds().0));
        backlog.let_go(part, || u64::MAX);
        assert_eq!((backlog.bounds(), backlog.held_bytes()), (((count - 1) * part, count * part), JOIN_BYTES));
        backlog.begin(7);
        assert_eq!((backlog.bounds(), backlog.held_bytes()), ((7, 7), 0));
    }

    #[test]
    fn short_pieces_lie_in_one() {
        let backlog = Backlog::default();
        for n in 0..3000_u64 {
            backlog.put(&[chunk(b'0' + (n % 10) as u8, 10)], (n + 1) * 10, 100_000, || u64::MAX);
        }
        let whole = read(&backlog, 0);
        assert_eq!(whole.len(), 30_000);
        assert!((0..3000).all(|n| whole[n * 10..n * 10 + 10].iter().all(|byte| *byte == b'0' + (n % 10) as u8)));
        assert!(backlog.0.lock().pieces.len() <= 2, "two of {JOIN_BYTES} bytes");
        let parts = backlog.read(5, 20).expect("it is there");
        assert_eq!(parts.iter().map(Stretch::len).sum::<usize>(), 20);
        backlog.put(&[chunk(b'x', 10)], 30_010, 100_000, || u64::MAX);
        assert_eq!(bytes_of(&parts[0]), whole[5..25], "a part that is being sent stays as it is");
        assert_eq!(read(&backlog, 29_999), b"9xxxxxxxxxx");
    }
}
