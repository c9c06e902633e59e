//! A connection's unparsed bytes.
//!
//! ```text
//!   0          start              end           bytes.len()            bytes.capacity()
//!   | consumed | not yet parsed   | room, touched | room, never touched |
//! ```
//!
//! A connection holds a buffer only while a request lies in it half, or while its requests wait. Up to [`MOVED_BYTES`]
//! of a half request go back to the worker's scratch buffer for the next read, so the buffer has the size of what is
//! held: 256 bytes, 1 KB, 4 KB, 16 KB or 64 KB. Longer ones grow by half, or to measure for a big argument. Growth is the
//! allocator's: large memory is mapped anew and not copied. Only the part that reads have reached is initialised, so a
//! buffer costs what came and not what it might take. Buffers of 64 KB go back to the worker's pool, all others are freed
//! when they are empty.

use std::io;

use varve_base::refusable::reserve_exact;

use super::socket::READ_BYTES;

/// Size of the buffers that a worker keeps for reuse.
pub(crate) const BUFFER_BYTES: usize = 64 * 1024;
/// The smallest buffer. Each size up to [`BUFFER_BYTES`] is four times the one below it.
const SMALLEST_BYTES: usize = 256;
/// A half request of up to this length is moved to the worker's scratch buffer for the next read.
pub(super) const MOVED_BYTES: usize = 16 * 1024;
/// A missing part at least this long gets room to measure; shorter ones grow the buffer by half.
const EXACT_BYTES: usize = 32 * 1024;
/// Room that a read into the buffer gets at least: reads of a few bytes behind a full buffer would cost a call each.
const ROOM_MIN_BYTES: usize = 4 * 1024;
/// Buffers that a worker keeps for reuse.
const POOLED: usize = 32;

/// The buffers of one worker that no connection holds at present.
#[derive(Debug, Default)]
pub(crate) struct Pool(Vec<Vec<u8>>);

impl Pool {
    /// An empty buffer for `len` bytes at least, of the smallest size that will do.
    fn take(&mut self, len: usize) -> Vec<u8> {
        let bytes = class(len);
        let pooled = if bytes == BUFFER_BYTES { self.0.pop() } else { None };
        pooled.unwrap_or_else(|| Vec::with_capacity(bytes))
    }

    fn give(&mut self, bytes: Vec<u8>) {
        if bytes.capacity() == BUFFER_BYTES && self.0.len() < POOLED {
            self.0.push(bytes);
        }
    }

    /// Bytes that the pool keeps, touched or not.
    pub(crate) fn bytes(&self) -> usize {
        self.0.len() * BUFFER_BYTES
    }
}

/// The size of a buffer for `len` bytes.
fn class(len: usize) -> usize {
    let mut bytes = SMALLEST_BYTES;
    while bytes < len && bytes < BUFFER_BYTES {
        bytes *= 4;
    }
    bytes.max(len)
}

/// See the module's picture.
#[derive(Debug, Default)]
pub(crate) struct Input {
    /// Its length is how far the buffer was ever written to.
    bytes: Vec<u8>,
    start: usize,
    end: usize,
}

impl Input {
    /// The bytes not yet parsed.
    pub(crate) fn data(&self) -> &[u8] {
        &self.bytes[self.start..self.end]
    }

    /// The bytes to parse, for the parser, which unescapes inline words in place.
    pub(crate) fn data_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[self.start..self.end]
    }

    /// Number of bytes not yet parsed.
    pub(crate) fn len(&self) -> usize {
        self.end - self.start
    }

    /// True if nothing is left to parse.
    pub(crate) fn is_empty(&self) -> bool {
        self.start == self.end
    }

    /// Bytes of memory that the buffer has touched.
    pub(crate) fn held_bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Room behind the data that is not used.
    pub(crate) fn free(&self) -> usize {
        self.bytes.capacity() - self.end
    }

    /// Takes a copy of `rest`, what a turn left of the scratch buffer.
    pub(crate) fn hold(&mut self, rest: &[u8], pool: &mut Pool) {
        assert!(self.is_empty(), "the scratch buffer is parsed only while the connection holds nothing");
        if rest.is_empty() {
            return;
        }
        if self.bytes.capacity() < rest.len() {
            let larger = pool.take(rest.len());
            pool.give(std::mem::replace(&mut self.bytes, larger));
        }
        let known = self.bytes.len().min(rest.len());
        self.bytes[..known].copy_from_slice(&rest[..known]);
        self.bytes.extend_from_slice(&rest[known..]);
        self.start = 0;
        self.end = rest.len();
    }

    /// Puts `bytes` before the data.
    #[cold]
    pub(crate) fn put_before(&mut self, mut bytes: Vec<u8>) {
        bytes.extend_from_slice(self.data());
        (self.start, self.end) = (0, bytes.len());
        self.bytes = bytes;
    }

    /// Gives the data away to the front of `scratch`, if it is short.
    pub(crate) fn move_to(&mut self, scratch: &mut [u8]) -> usize {
        let len = self.len();
        scratch[..len].copy_from_slice(self.data());
        self.consume(len);
        len
    }

    /// Room for a read, when at least `want` bytes more are needed. Never empty, and at most as long as one read.
    ///
    /// # Errors
    /// The system refuses the memory, of which a client decides how much it is.
    pub(crate) fn room(&mut self, want: usize, pool: &mut Pool) -> io::Result<&mut [u8]> {
        let want = want.max(ROOM_MIN_BYTES);
        if self.free() < want {
            self.make_room(want, pool)?;
        }
        assert!(self.free() >= want, "room was made");
        let to = self.bytes.capacity().min(self.end + READ_BYTES);
        if self.bytes.len() < to {
            self.bytes.resize(to, 0);
        }
        Ok(&mut self.bytes[self.end..to])
    }

    /// `count` bytes were read into the room. Room that was made for a read which found nothing is not charged: else two
    /// clients that sent the same would count 256 KB apart, by how their bytes were cut into reads.
    pub(crate) fn filled(&mut self, count: usize) {
        assert!(count <= self.bytes.len() - self.end, "a read cannot exceed its buffer");
        self.end += count;
        if count == 0 {
            self.bytes.truncate(self.end);
        }
    }

    /// Forgets what lies behind the first `count` bytes.
    pub(crate) fn truncate(&mut self, count: usize) {
        assert!(count <= self.len(), "only bytes that are here can be forgotten");
        self.end = self.start + count;
    }

    /// `count` bytes at the front are done.
    pub(crate) fn consume(&mut self, count: usize) {
        assert!(count <= self.len(), "only bytes that are here can be consumed");
        self.start += count;
        if self.start == self.end {
            self.start = 0;
            self.end = 0;
        }
    }

    /// Gives the buffer back if nothing lies in it, or exchanges it for a smaller one if little is left in it.
    pub(crate) fn release(&mut self, pool: &mut Pool) {
        if self.bytes.capacity() == 0 {
            return;
        }
        let len = self.len();
        if len == 0 {
            pool.give(std::mem::take(&mut self.bytes));
            self.start = 0;
            self.end = 0;
        } else if len <= MOVED_BYTES && class(len) < self.bytes.capacity() {
            let mut smaller = pool.take(len);
            smaller.extend_from_slice(self.data());
            pool.give(std::mem::replace(&mut self.bytes, smaller));
            self.start = 0;
            self.end = len;
        }
    }

    /// Moves the data to the front where that suffices and moves no more than was consumed; else the buffer grows: to
    /// measure for a large want, by half for small ones, so that copying stays linear in what is read.
    fn make_room(&mut self, want: usize, pool: &mut Pool) -> io::Result<()> {
        let len = self.len();
        if self.start >= len {
            self.bytes.copy_within(self.start..self.end, 0);
            self.start = 0;
            self.end = len;
        }
        if self.free() >= want {
            return Ok(());
        }
        let exact = self.end + want;
        let target = if want >= EXACT_BYTES { exact } else { exact.max(self.end + len / 2) };
        if target <= BUFFER_BYTES {
            let mut larger = pool.take(target);
            larger.truncate(0);
            larger.extend_from_slice(self.data());
            pool.give(std::mem::replace(&mut self.bytes, larger));
            self.start = 0;
            self.end = len;
        } else {
            self.bytes.truncate(self.end);
            reserve_exact(&mut self.bytes, target - self.end)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_has_the_size_of_what_it_holds() {
        let mut pool = Pool::default();
        for (len, capacity) in [(1, 256), (256, 256), (257, 1024), (5000, 16_384), (16_385, 65_536), (70_000, 70_000)] {
            let mut input = Input::default();
            input.hold(&vec![7; len], &mut pool);
            assert_eq!((input.bytes.capacity(), input.held_bytes(), input.len()), (capacity, len, len));
        }
    }

    #[test]
    fn a_large_want_is_met_exactly_and_costs_what_came() {
        let mut pool = Pool::default();
        let mut input = Input::default();
        input.hold(b"$600000\r\nabc", &mut pool);
        let mut want = 600_000;
        let room = input.room(want, &mut pool).unwrap().len();
        assert_eq!(room, READ_BYTES);
        assert_eq!(input.bytes.capacity(), 12 + want);
        assert!(input.held_bytes() <= 12 + READ_BYTES, "room that no read has reached is not touched");
        while want > 0 {
            let room = input.room(want, &mut pool).unwrap().len().min(want);
            input.filled(room);
            want -= room;
        }
        assert_eq!(input.len(), 12 + 600_000);
        input.consume(12 + 600_000);
        input.release(&mut pool);
        assert_eq!((input.held_bytes(), pool.bytes()), (0, 0));
    }

    #[test]
    fn a_read_that_finds_nothing_is_not_charged() {
        let (mut input, mut pool) = (Input::default(), Pool::default());
        let total = (1 << 20) + 14;
        while input.len() < total {
            let room = input.room(total - input.len(), &mut pool).unwrap().len();
            input.filled(room.min(total - input.len()));
        }
        input.room(2, &mut pool).unwrap();
        input.filled(0);
        assert_eq!(input.held_bytes(), total);
    }

    #[test]
    fn small_wants_copy_linearly() {
        let mut pool = Pool::default();
        let mut input = Input::default();
        input.hold(b"*", &mut pool);
        let mut moves = 0;
        for _ in 0..1_000_000 {
            let before = input.bytes.capacity();
            input.room(2, &mut pool).unwrap()[..2].copy_from_slice(b"xy");
            input.filled(2);
            moves += usize::from(input.bytes.capacity() != before);
        }
        assert!(moves < 30, "{moves} moves");
        assert_eq!(&input.data()[..5], b"*xyxy");
    }

    #[test]
    fn consumed_room_is_used_again() {
        let mut pool = Pool::default();
        let mut input = Input::default();
        input.hold(&[7; BUFFER_BYTES], &mut pool);
        input.consume(BUFFER_BYTES - 3);
        assert_eq!(input.free(), 0);
        input.room(100, &mut pool).unwrap();
        assert_eq!((input.bytes.capacity(), input.data()), (BUFFER_BYTES, &[7u8, 7, 7][..]));
    }

    #[test]
    fn bytes_that_are_put_before_the_others_come_first() {
        let (mut input, mut pool) = (Input::default(), Pool::default());
        input.put_before(b"ab".to_vec());
        assert_eq!(input.data(), b"ab");
        input.consume(1);
        input.put_before(b"cd".to_vec());
        assert_eq!(input.data(), b"cdb");
        input.room(2, &mut pool).unwrap()[..2].copy_from_slice(b"ef");
        input.filled(2);
        assert_eq!(input.data(), b"cdbef");
    }

    #[test]
    fn a_rest_does_not_keep_a_large_buffer() {
        let mut pool = Pool::default();
        let mut input = Input::default();
        input.hold(&[7; BUFFER_BYTES], &mut pool);
        input.consume(BUFFER_BYTES - 300);
        input.release(&mut pool);
        assert_eq!((input.bytes.capacity(), input.held_bytes(), input.data()), (1024, 300, &[7u8; 300][..]));
        assert_eq!(pool.bytes(), BUFFER_BYTES, "the large one is the pool's");
        // A long one may be large again when it grows.
        input.room(40_000, &mut pool).unwrap();
        assert_eq!((input.bytes.capacity(), pool.bytes()), (BUFFER_BYTES, 0));
    }

    /// Whatever is held, moved, read and consumed, the bytes come out in the order in which they went in.
    #[test]
    fn a_model_of_reading() {
        let mut random = varve_base::rng::Rng::seeded(11);
        let (mut pool, mut input, mut model) = (Pool::default(), Input::default(), Vec::new());
        let (mut scratch, mut next) = (vec![0; 2 * MOVED_BYTES], 0_u8);
        for _ in 0..20_000 {
            let most = if random.below(20) == 0 { 100_000 } else { 3000 };
            let count = random.below(most) as usize;
            let mut fresh = || {
                next = next.wrapping_add(1);
                next
            };
            if input.is_empty() {
                let rest: Vec<u8> = (0..count).map(|_| fresh()).collect();
                input.hold(&rest, &mut pool);
                model = rest;
            } else {
                let room = input.room(count, &mut pool).unwrap();
                let count = count.min(room.len());
                room[..count].fill_with(fresh);
                model.extend_from_slice(&room[..count]);
                input.filled(count);
            }
            assert!(input.data() == model);
            let done = random.below(model.len() as u64 + 1) as usize;
            input.consume(done);
            model.drain(..done);
            if random.below(3) == 0 {
                input.release(&mut pool);
            }
            if random.below(3) == 0 && input.len() <= MOVED_BYTES {
                let moved = input.move_to(&mut scratch);
                assert!(input.is_empty() && scratch[..moved] == model);
                input.hold(&scratch[..moved], &mut pool);
            }
            assert!(input.data() == model);
        }
    }
}
