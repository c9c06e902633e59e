//! A connection's unparsed bytes.
//!
//! ```text
//!   0          start              end                 bytes.len()
//!   | consumed | not yet parsed   | room for the next read |
//! ```
//!
//! A connection holds a buffer only while a request lies in it half: between requests the worker reads into its own
//! scratch buffer. Buffers of the common size go back to the worker's pool; larger ones, made to measure for a big
//! argument, are freed when empty. All of `bytes` is initialised, so that no read needs unsafe code; a large buffer comes
//! from the system zeroed and costs nothing before it is touched.

/// Common size of a buffer, and of the scratch buffer's read.
pub(crate) const BUFFER_BYTES: usize = 64 * 1024;
/// A missing part at least this long gets room to measure; shorter ones grow the buffer by half.
const EXACT_BYTES: usize = 32 * 1024;
/// Buffers that a worker keeps for reuse.
const POOLED: usize = 32;

/// The buffers of one worker that no connection holds at present.
#[derive(Debug, Default)]
pub(crate) struct Pool(Vec<Vec<u8>>);

impl Pool {
    fn take(&mut self) -> Vec<u8> {
        self.0.pop().unwrap_or_else(|| vec![0; BUFFER_BYTES])
    }

    fn give(&mut self, bytes: Vec<u8>) {
        if bytes.len() == BUFFER_BYTES && self.0.len() < POOLED {
            self.0.push(bytes);
        }
    }

    /// Bytes that the pool keeps.
    pub(crate) fn bytes(&self) -> usize {
        self.0.len() * BUFFER_BYTES
    }
}

/// See the module's picture.
#[derive(Debug, Default)]
pub(crate) struct Input {
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

    /// Bytes held from the system, used or not.
    pub(crate) fn capacity(&self) -> usize {
        self.bytes.len()
    }

    /// Room behind the data that is not used.
    pub(crate) fn free(&self) -> usize {
        self.bytes.len() - self.end
    }

    /// Takes a copy of `rest`, what a turn left of the scratch buffer.
    pub(crate) fn hold(&mut self, rest: &[u8], pool: &mut Pool) {
        assert!(self.is_empty(), "the scratch buffer is read only while the connection holds nothing");
        if rest.is_empty() {
            return;
        }
        if self.bytes.len() < rest.len() {
            self.bytes = if rest.len() <= BUFFER_BYTES { pool.take() } else { vec![0; rest.len()] };
        }
        self.bytes[..rest.len()].copy_from_slice(rest);
        self.start = 0;
        self.end = rest.len();
    }

    /// Room for a read, when at least `want` bytes more are needed. Never empty.
    pub(crate) fn room(&mut self, want: usize, pool: &mut Pool) -> &mut [u8] {
        let want = want.max(1);
        if self.free() < want {
            self.make_room(want, pool);
        }
        assert!(self.free() >= want);
        &mut self.bytes[self.end..]
    }

    /// `count` bytes were read into the room.
    pub(crate) fn filled(&mut self, count: usize) {
        assert!(count <= self.free(), "a read cannot exceed its buffer");
        self.end += count;
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

    /// Gives the buffer back if nothing lies in it.
    pub(crate) fn release(&mut self, pool: &mut Pool) {
        if self.is_empty() && !self.bytes.is_empty() {
            pool.give(std::mem::take(&mut self.bytes));
            self.start = 0;
            self.end = 0;
        }
    }

    /// Moves the data to the front where that suffices, else to a larger buffer: to measure for a large want, by half for
    /// small ones, so that copying stays linear in what is read.
    fn make_room(&mut self, want: usize, pool: &mut Pool) {
        let len = self.len();
        if self.bytes.len() - len >= want && self.start >= len {
            self.bytes.copy_within(self.start..self.end, 0);
        } else {
            let target = if want >= EXACT_BYTES { len + want } else { (len + len / 2).max(len + want) };
            let mut larger = if target <= BUFFER_BYTES { pool.take() } else { vec![0; target] };
            larger[..len].copy_from_slice(self.data());
            pool.give(std::mem::replace(&mut self.bytes, larger));
        }
        self.start = 0;
        self.end = len;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_large_want_is_met_exactly_and_once() {
        let mut pool = Pool::default();
        let mut input = Input::default();
        input.hold(b"$600000\r\nabc", &mut pool);
        assert_eq!(input.capacity(), BUFFER_BYTES);
        let want = 600_000;
        assert_eq!(input.room(want, &mut pool).len(), want);
        assert_eq!(input.capacity(), 12 + want);
        input.filled(want);
        assert_eq!(input.len(), 12 + want);
        input.consume(12 + want);
        input.release(&mut pool);
        assert_eq!((input.capacity(), pool.bytes()), (0, BUFFER_BYTES));
    }

    #[test]
    fn small_wants_copy_linearly() {
        let mut pool = Pool::default();
        let mut input = Input::default();
        input.hold(b"*", &mut pool);
        let mut moves = 0;
        for _ in 0..1_000_000 {
            let before = input.capacity();
            input.room(2, &mut pool)[..2].copy_from_slice(b"xy");
            input.filled(2);
            moves += usize::from(input.capacity() != before);
        }
        assert!(moves < 20, "{moves} moves");
        assert_eq!(&input.data()[..5], b"*xyxy");
    }

    #[test]
    fn consumed_room_is_used_again() {
        let mut pool = Pool::default();
        let mut input = Input::default();
        input.hold(&[7; BUFFER_BYTES], &mut pool);
        input.consume(BUFFER_BYTES - 3);
        assert_eq!(input.free(), 0);
        input.room(100, &mut pool);
        assert_eq!((input.capacity(), input.data()), (BUFFER_BYTES, &[7u8, 7, 7][..]));
    }
}
