//! A part of a reply buffer's stream: own bytes, and the values by reference that stand among them.
//!
//! ```text
//!  bytes   +OK\r\n $300000\r\n | \r\n :1\r\n
//!                              ^ at = 14
//!  pieces                      [ pinned value, 300000 bytes ]
//!  stream  = bytes[..14], value, bytes[14..]        sent, piece_sent: a position in this stream
//!
//!  Tail: its bytes are a vector, which is written to --freeze--> Full: a copy in pages of its own, which only goes
//! ```
//!
//! Places in a buffer count its own bytes from its beginning, over all of its chunks: `start` is the place of this one's
//! first byte. Not here: when a chunk is full, and the replies themselves.

use std::collections::VecDeque;
use std::io;
use std::ops::Deref;

use varve_base::page_bytes::PageBytes;

use super::pinned::{Pinned, ReplyPart};

/// Bytes of a value that are lent together.
const PART_BYTES: usize = 512 << 10;

/// A value that is sent from where it lies.
struct Piece {
    /// Offset in the bytes before which it stands: behind its head, so that none stands where a reply begins.
    at: usize,
    value: Box<dyn Pinned>,
}

impl Piece {
    fn len(&self) -> usize {
        self.value.len()
    }
}

/// See the module's picture.
#[derive(Default)]
pub(super) struct Chunk<B> {
    /// Own bytes of the buffer before this chunk.
    start: u64,
    /// Of its bytes, those that are sent.
    sent: usize,
    pub(super) bytes: B,
    pieces: VecDeque<Piece>,
    /// Bytes of the first piece that are sent.
    piece_sent: usize,
}

/// The chunk that is written to.
pub(super) type Tail = Chunk<Vec<u8>>;
/// A chunk that nothing is written to any more.
pub(super) type Full = Chunk<PageBytes>;

/// Bytes of a chunk: its own, and of values by reference.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Bytes {
    pub(super) own: usize,
    pub(super) pinned: usize,
}

impl<B: Deref<Target = [u8]>> Chunk<B> {
    /// The place of its first own byte.
    #[inline(always)]
    pub(super) fn start(&self) -> u64 {
        self.start
    }

    /// The place behind its last own byte.
    #[inline(always)]
    pub(super) fn end(&self) -> u64 {
        self.start + self.bytes.len() as u64
    }

    /// Gives its first own byte another place.
    pub(super) fn move_to(&mut self, start: u64) {
        self.start = start;
    }

    /// Own bytes that are not sent.
    #[inline(always)]
    pub(super) fn own_unsent(&self) -> usize {
        self.bytes.len() - self.sent
    }

    /// Bytes that are not sent.
    pub(super) fn unsent(&self) -> Bytes {
        let pinned: usize = self.pieces.iter().map(Piece::len).sum();
        Bytes { own: self.own_unsent(), pinned: pinned - self.piece_sent }
    }

    /// True if nothing of it is sent.
    pub(super) fn is_untouched(&self) -> bool {
        self.sent == 0 && self.piece_sent == 0
    }

    /// True if nothing is left to send.
    pub(super) fn is_sent(&self) -> bool {
        self.own_unsent() == 0 && self.pieces.is_empty()
    }

    /// Offset in its bytes of a place of this chunk.
    fn offset(&self, place: u64) -> usize {
        assert!((self.start..=self.end()).contains(&place), "a place of another chunk");
        (place - self.start) as usize
    }

    /// Own bytes from a place on, or all if it lies before this chunk.
    pub(super) fn since(&self, place: u64) -> &[u8] {
        &self.bytes[self.offset(place.max(self.start))..]
    }

    /// Bytes of values that stand behind a place, or of all if it lies before this chunk.
    pub(super) fn pinned_since(&self, place: u64) -> usize {
        let at = self.offset(place.max(self.start));
        self.pieces.iter().filter(|piece| piece.at > at).map(Piece::len).sum()
    }

    /// Its parts that are not sent, none of them empty, of values [`PART_BYTES`] at most.
    pub(super) fn parts(&self) -> impl Iterator<Item = ReplyPart<'_>> {
        let (mut own, mut nth, mut within) = (self.sent, 0, self.piece_sent);
        std::iter::from_fn(move || {
            loop {
                let piece = self.pieces.get(nth);
                let end = piece.map_or(self.bytes.len(), |piece| piece.at);
                if own < end {
                    return Some(ReplyPart::Slice(&self.bytes[std::mem::replace(&mut own, end)..end]));
                }
                let piece = piece?;
                if within < piece.len() {
                    let part = piece.value.read(within..piece.len().min(within + PART_BYTES));
                    within += part.len();
                    return Some(part);
                }
                (nth, within) = (nth + 1, 0);
            }
        })
    }

    /// The unsent bytes, if no value by reference is among them.
    #[inline]
    pub(super) fn as_one(&self) -> Option<&[u8]> {
        self.pieces.is_empty().then(|| &self.bytes[self.sent..])
    }

    /// Notes that its next bytes were sent, `n` at most: returns how many of each kind. Values that are sent whole are let
    /// go.
    pub(super) fn consume(&mut self, mut n: usize) -> Bytes {
        let mut done = Bytes::default();
        loop {
            let own_end = self.pieces.front().map_or(self.bytes.len(), |piece| piece.at);
            let own = n.min(own_end - self.sent);
            self.sent += own;
            done.own += own;
            n -= own;
            let Some(piece) = self.pieces.front() else { break };
            let len = piece.len();
            let from_piece = n.min(len - self.piece_sent);
            self.piece_sent += from_piece;
            done.pinned += from_piece;
            n -= from_piece;
            if self.piece_sent < len {
                break;
            }
            self.piece_sent = 0;
            self.pieces.pop_front();
        }
        done
    }

    fn shift_pieces(&mut self, at: usize, by: usize) {
        self.pieces.iter_mut().rev().take_while(|piece| piece.at > at).for_each(|piece| piece.at += by);
    }
}

impl Tail {
    /// Puts a value behind what is written.
    pub(super) fn push(&mut self, value: Box<dyn Pinned>) {
        self.pieces.push_back(Piece { at: self.bytes.len(), value });
    }

    /// The last `head` own bytes go before what stands from `place` on.
    pub(super) fn rotate(&mut self, place: u64, head: usize) {
        let at = self.offset(place);
        self.bytes[at..].rotate_right(head);
        self.shift_pieces(at, head);
    }

    /// Drops what was written since this place, which is not before what is sent; returns the bytes of values among it.
    pub(super) fn truncate(&mut self, place: u64) -> usize {
        let at = self.offset(place);
        assert!(at >= self.sent, "a mark of before the last sending");
        self.bytes.truncate(at);
        let dropped = self.pieces.split_off(self.pieces.partition_point(|piece| piece.at < at));
        dropped.iter().map(Piece::len).sum()
    }

    /// Takes away what was written since this place, which is not before what is sent.
    pub(super) fn split_off(&mut self, place: u64) -> Tail {
        let at = self.offset(place);
        assert!(at >= self.sent, "a mark of before the last sending");
        let mut pieces = self.pieces.split_off(self.pieces.partition_point(|piece| piece.at < at));
        pieces.iter_mut().for_each(|piece| piece.at -= at);
        Chunk { start: place, bytes: self.bytes.split_off(at), pieces, ..Chunk::default() }
    }

    /// Puts an untouched chunk's bytes and values behind its own.
    pub(super) fn append(&mut self, mut other: Tail) {
        let base = self.bytes.len();
        self.bytes.append(&mut other.bytes);
        self.pieces.extend(other.pieces.drain(..).map(|piece| Piece { at: piece.at + base, ..piece }));
    }

    /// Moves what is not sent, some own bytes at least, into a full chunk. The tail is empty then, stands behind it, and
    /// keeps `keep` bytes of its memory at most.
    ///
    /// # Errors
    /// If the system refuses the memory; nothing has moved.
    pub(super) fn freeze(&mut self, keep: usize) -> io::Result<Full> {
        let bytes = PageBytes::copy_of(&self.bytes[self.sent..])?;
        let mut pieces = std::mem::take(&mut self.pieces);
        pieces.iter_mut().for_each(|piece| piece.at -= self.sent);
        let (start, piece_sent) = (self.start + self.sent as u64, std::mem::take(&mut self.piece_sent));
        let full = Chunk { start, sent: 0, bytes, pieces, piece_sent };
        self.clear(keep);
        self.start = full.end();
        Ok(full)
    }

    /// Forgets what it holds, and keeps `keep` bytes of its memory at most.
    pub(super) fn clear(&mut self, keep: usize) {
        self.start = 0;
        self.sent = 0;
        if !self.pieces.is_empty() {
            self.pieces.clear();
            self.piece_sent = 0;
        }
        self.bytes.clear();
        if self.bytes.capacity() > keep {
            self.bytes.shrink_to(keep);
        }
    }
}

impl Full {
    /// Puts `head` before what stands from `place` on.
    ///
    /// # Errors
    /// If the system refuses the memory; nothing has changed.
    pub(super) fn insert(&mut self, place: u64, head: &[u8]) -> io::Result<()> {
        let at = self.offset(place);
        assert!(at >= self.sent, "what is sent stays as it is");
        self.bytes = PageBytes::copy_of(&[&self.bytes[..at], head, &self.bytes[at..]].concat())?;
        self.shift_pieces(at, head.len());
        Ok(())
    }

    /// Makes a tail of it again.
    pub(super) fn thaw(self) -> Tail {
        let Chunk { start, sent, bytes, pieces, piece_sent } = self;
        Chunk { start, sent, bytes: bytes.to_vec(), pieces, piece_sent }
    }
}
