//! A lane: what one worker has appended, in pieces with their positions, until they are taken.
//!
//! ```text
//!   Copied   bytes   SET a 1 | SET b 2 | SET c 3        a buffer of 64 KB
//!            runs    at 0, 2 units     at 170, 1 unit   units that have no other lane's between them are one run
//!   Apart    at 240  a long unit, or a thing that has no bytes: a cut, a note
//! ```
//! A lane belongs to one worker, so its lock is waited for only while the thread that takes exchanges the pieces. One lane more is
//! everybody's: talk, cuts, another server's stream. A unit that a file has otherwise than the stream is copied like others: with a
//! buffer for each unit behind one that is not copied, messages between writes took a hundred times their bytes. Not here: the
//! order over lanes (`merge.rs`).

use std::collections::VecDeque;
use std::mem::discriminant;

use super::super::chunk::{CHUNK_BYTES, Chunk};
use super::place::Reservation;
use super::{Cut, Origin};

/// Bytes of a buffer behind something that is not copied.
const SMALL_BYTES: usize = 4 << 10;
/// Buffers that a lane has at hand.
pub(super) const LANE_SPARE_MAX: usize = 4;

/// See the module's picture.
#[derive(Debug, Default)]
pub(super) struct Lane {
    /// The buffer that the worker renders into.
    pub(super) rendered: Chunk,
    /// The pieces, in the order of their positions.
    pub(super) pieces: VecDeque<Piece>,
    /// Empty buffers of [`CHUNK_BYTES`].
    pub(super) spare: Vec<Vec<u8>>,
}

/// Something that was appended.
#[derive(Debug)]
pub(super) enum Piece {
    /// Units that were copied.
    Copied(Box<Copied>),
    /// Another thing, at this position.
    Apart(u64, Apart),
}

/// Units in a buffer.
#[derive(Debug, Default)]
pub(super) struct Copied {
    pub(super) chunk: Chunk,
    pub(super) runs: VecDeque<Run>,
    /// Bytes of the runs that were merged.
    pub(super) merged: usize,
}

/// Units of a buffer, one behind the other in the journal as well.
#[derive(Clone, Copy, Debug)]
pub(super) struct Run {
    /// The position of its first byte, or of the SELECT in front of it.
    pub(super) at: u64,
    /// Its bytes, without that SELECT.
    pub(super) len: u32,
    /// The database of a SELECT in front of it.
    pub(super) select: Option<u32>,
    /// The database that is selected behind it.
    pub(super) db: u32,
    /// The position behind it.
    pub(super) end: u64,
}

/// A thing that is not copied, or has no bytes.
#[derive(Debug)]
pub(super) enum Apart {
    /// The chunks of one unit, behind a SELECT; the database that is selected behind them.
    Unit(Option<u32>, Vec<Chunk>, u32),
    /// Something that a primary says to its replicas.
    Talk(Box<Chunk>),
    /// A line in front of the next chunk, in a file alone.
    Note(Vec<u8>),
    /// A reader has this database selected, which nothing in the stream says.
    Follow(u32),
    /// The database of a reader is not known.
    Forget,
    /// The stream that the bytes are from here on.
    Origin(Option<Box<Origin>>),
    /// A file is to note where the stream is.
    Mark,
    /// A cut.
    Cut(Cut),
}

impl Lane {
    /// Copies a unit of [`CHUNK_BYTES`] at most, which was reserved this place, behind the others. The database `db` is selected
    /// behind it.
    pub(super) fn copy(&mut self, place: &Reservation, db: u32) {
        let Lane { rendered, pieces, spare } = self;
        let len = rendered.bytes.len();
        let room = |chunk: &Chunk| chunk.bytes.capacity() - chunk.bytes.len();
        let has_room = matches!(pieces.back(), Some(Piece::Copied(last)) if room(&last.chunk) >= len);
        if !has_room {
            // Behind something that is not copied there may be another such thing soon.
            let bytes = match pieces.back() {
                Some(Piece::Apart(..)) => SMALL_BYTES.max(len),
                _ => CHUNK_BYTES,
            };
            let buffer = spare.pop().unwrap_or_else(|| Vec::with_capacity(bytes));
            pieces.push_back(Piece::Copied(Box::new(Copied { chunk: Chunk::new(buffer, None), ..Copied::default() })));
        }
        let Some(Piece::Copied(last)) = pieces.back_mut() else { unreachable!("it is there, or was pushed") };
        last.chunk.append(rendered);
        match last.runs.back_mut() {
            Some(run) if run.end == place.at && !place.is_apart => {
                run.len += len as u32;
                (run.db, run.end) = (db, place.end);
            }
            _ => last.runs.push_back(Run { at: place.at, len: len as u32, select: place.select, db, end: place.end }),
        }
    }

    /// Puts something that has no bytes at this position. It takes the place of another one of its kind: where no thread takes, a
    /// server that changes its role again and again leaves one of each.
    pub(super) fn put_mark(&mut self, at: u64, mark: Apart) {
        let is_here = |piece: &Piece| matches!(piece, Piece::Apart(place, other) if *place == at && !matches!(other, Apart::Cut(_)));
        let here = self.pieces.iter().rev().take_while(|piece| is_here(piece)).count();
        let from = self.pieces.len() - here;
        let is_of_its_kind =
            |piece: &Piece| matches!(piece, Piece::Apart(_, other) if discriminant(other) == discriminant(&mark));
        if let Some(nth) = self.pieces.iter().skip(from).position(is_of_its_kind) {
            self.pieces.remove(from + nth);
        }
        self.push(at, mark);
    }

    /// Appends what stands by itself.
    pub(super) fn push(&mut self, at: u64, apart: Apart) {
        self.pieces.push_back(Piece::Apart(at, apart));
    }
}

impl Piece {
    /// The position where it begins; None if all of it was taken.
    pub(super) fn at(&self) -> Option<u64> {
        match self {
            Piece::Copied(copied) => copied.runs.front().map(|run| run.at),
            Piece::Apart(at, _) => Some(*at),
        }
    }
}
