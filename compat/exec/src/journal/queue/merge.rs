//! The merger: makes one row of chunks of all lanes.
//!
//! ```text
//!   lane 0   at 0 ....  at 300 ..          every position is in one lane: the next piece is the one that begins where
//!   lane 1        at 170 ...    at 420     the last one has ended. If no lane has it, it has been reserved and is not
//!   row      0 .. 170 .. 300 .. 420        there yet: what lies behind it waits for the next time.
//! ```
//! A run alone in its buffer is a chunk as it is; others are copied into chunks, which costs no worker anything.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use varve_aof::{Note, StreamPlace, own_selection, select};
use varve_base::lock::SpinGuard;

use super::super::chunk::{CHUNK_BYTES, Chunk, StreamMark};
use super::lane::{Apart, Copied, LANE_SPARE_MAX, Lane, Piece, Run};
use super::{Cut, Origin, may_be_copied};

/// Bytes of a stream between two marks.
const MARK_EVERY_BYTES: u64 = 1 << 20;
/// Emptied buffers that are kept.
const SPARE_MAX: usize = 32;
/// A run of fewer bytes is copied, though it is alone in its buffer: a chunk of its own would keep the whole buffer.
const WHOLE_MIN_BYTES: usize = CHUNK_BYTES / 8;

/// The position where a lane's first piece begins, and the lane: the lowest position is the greatest.
type Front = Reverse<(u64, Reverse<usize>)>;

/// See the module's picture.
#[derive(Debug, Default)]
pub(super) struct Merger {
    /// The position up to which all was merged.
    pub(super) at: u64,
    /// The database that a reader of all bytes so far has selected.
    pub(super) db: Option<u32>,
    /// The pieces of each lane that were not merged yet.
    lanes: Vec<VecDeque<Piece>>,
    chunks: Vec<Chunk>,
    spare: Vec<Vec<u8>>,
    /// The line that stands in front of the next chunk in a file alone: no replica is sent it.
    note: Vec<u8>,
    /// The stream that the bytes are; None while they are nobody's.
    origin: Option<Origin>,
    /// The position of the last mark.
    marked_at: u64,
}

impl Merger {
    /// One for this number of lanes.
    pub(super) fn new(lanes: usize) -> Merger {
        Merger { lanes: (0..lanes).map(|_| VecDeque::new()).collect(), ..Merger::default() }
    }

    /// True if something may be merged that is here already.
    pub(super) fn has_more(&self) -> bool {
        self.lanes.iter().any(|lane| lane.front().and_then(Piece::at) == Some(self.at))
    }

    /// Keeps emptied buffers, and takes out of `emptied` those that it keeps.
    pub(super) fn keep(&mut self, emptied: &mut Vec<Vec<u8>>) {
        let mut room = SPARE_MAX - self.spare.len();
        let mut is_kept = |buffer: &mut Vec<u8>| {
            let is_kept = room > 0 && buffer.capacity() == CHUNK_BYTES;
            room -= usize::from(is_kept);
            is_kept
        };
        self.spare.extend(emptied.extract_if(.., |buffer| is_kept(buffer)));
    }

    /// Takes the pieces of a lane, and gives it buffers for those that it has used.
    pub(super) fn collect(&mut self, nth: usize, mut lane: SpinGuard<'_, Lane>) {
        let mut pieces = std::mem::take(&mut lane.pieces);
        let wanted = pieces.len().min(LANE_SPARE_MAX).saturating_sub(lane.spare.len());
        let given = self.spare.len() - wanted.min(self.spare.len());
        lane.spare.extend(self.spare.drain(given..));
        // Its worker waits no longer.
        drop(lane);
        let before = &mut self.lanes[nth];
        if before.is_empty() { *before = pieces } else { before.append(&mut pieces) }
    }

    /// Merges what was collected up to the next cut, or as far as it is there: the chunks, and the cut behind them.
    pub(super) fn merge(&mut self) -> (Vec<Chunk>, Option<Cut>) {
        let mut fronts: BinaryHeap<Front> = (0..self.lanes.len()).filter_map(|nth| self.front(nth)).collect();
        let mut cut = None;
        while let Some(Reverse((at, Reverse(nth)))) = fronts.pop()
            && at == self.at
            && cut.is_none()
        {
            match self.lanes[nth].pop_front() {
                Some(Piece::Copied(copied)) => self.put_first(nth, copied),
                Some(Piece::Apart(_, apart)) => cut = self.put_apart(apart),
                None => unreachable!("it has a front"),
            }
            fronts.extend(self.front(nth));
        }
        (std::mem::take(&mut self.chunks), cut)
    }

    /// The first piece of a lane. Of two at one position that of the common lane, the last one, comes first: it has no bytes.
    fn front(&self, nth: usize) -> Option<Front> {
        self.lanes[nth].front().and_then(Piece::at).map(|at| Reverse((at, Reverse(nth))))
    }

    /// Puts the first run of a buffer; the others go back to their lane.
    fn put_first(&mut self, nth: usize, mut copied: Box<Copied>) {
        let run = copied.runs.pop_front().expect("an empty buffer does not come back");
        let Copied { chunk, runs, merged } = &mut *copied;
        self.put_selection(run.select);
        if runs.is_empty() && run.len as usize == chunk.bytes.len() && chunk.bytes.len() >= WHOLE_MIN_BYTES {
            chunk.db = self.db;
            self.begin_chunk(std::mem::take(chunk));
            return self.follow(&run);
        }
        let from = *merged;
        *merged += run.len as usize;
        self.room(run.len as usize).append_range(chunk, from..*merged);
        self.follow(&run);
        if copied.runs.is_empty() {
            copied.chunk.bytes.clear();
            self.keep(&mut vec![copied.chunk.bytes]);
        } else {
            self.lanes[nth].push_front(Piece::Copied(copied));
        }
    }

    /// The bytes of a run were put.
    fn follow(&mut self, run: &Run) {
        self.at += u64::from(run.len);
        self.db = Some(run.db);
        assert_eq!(self.at, run.end, "a run has the bytes that were reserved for it");
    }

    fn put_selection(&mut self, db: Option<u32>) {
        if let Some(db) = db {
            let mut selection = Chunk::default();
            select(db, &mut selection.bytes);
            self.copy(&mut selection);
            self.db = Some(db);
        }
    }

    /// Puts what stands by itself; a cut is handed back.
    fn put_apart(&mut self, apart: Apart) -> Option<Cut> {
        match apart {
            Apart::Unit(selection, mut chunks, db) => {
                self.put_selection(selection);
                match &mut chunks[..] {
                    [only] if may_be_copied(only) => self.copy(only),
                    _ => self.put_chunks(chunks),
                }
                self.db = Some(db);
            }
            Apart::Talk(mut chunk) => {
                chunk.db = self.db;
                self.at += chunk.len() as u64;
                self.chunks.push(*chunk);
            }
            Apart::Note(line) => self.note.extend(line),
            Apart::Follow(db) => {
                // A file is in another database at this place; the stream does not say it.
                self.note.extend(own_selection(db));
                self.db = Some(db);
            }
            Apart::Forget => self.db = None,
            Apart::Origin(origin) => {
                if origin.is_none() && self.origin.is_some() {
                    self.chunks.push(Chunk::mark(StreamMark::None, &Note::NoStream, self.db));
                }
                self.origin = origin.map(|origin| *origin);
                self.mark();
            }
            Apart::Mark => self.mark(),
            Apart::Cut(cut) => return Some(cut),
        }
        None
    }

    /// The chunk into which this number of bytes are copied.
    fn room(&mut self, bytes: usize) -> &mut Chunk {
        let has_room = |chunk: &Chunk| chunk.bytes.capacity() - chunk.bytes.len() >= bytes && !chunk.is_closed();
        if !self.chunks.last().is_some_and(has_room) || !self.note.is_empty() {
            let buffer = self.spare.pop().unwrap_or_else(|| Vec::with_capacity(CHUNK_BYTES));
            self.begin_chunk(Chunk::new(buffer, self.db));
        }
        self.chunks.last_mut().expect("a chunk was pushed")
    }

    /// A chunk begins where all was merged.
    fn begin_chunk(&mut self, mut chunk: Chunk) {
        if self.at - self.marked_at >= MARK_EVERY_BYTES {
            self.mark();
        }
        chunk.set_note(std::mem::take(&mut self.note));
        self.chunks.push(chunk);
    }

    /// Has a file note where the stream is, if the bytes are one.
    fn mark(&mut self) {
        let Some(Origin { id, base, since }) = &self.origin else { return };
        self.marked_at = self.at;
        let offset = (base + self.at as i64) as u64;
        let place = StreamPlace { id: id.clone(), offset, since: *since, db: self.db.unwrap_or(0) };
        self.chunks.push(Chunk::mark(StreamMark::At(offset), &Note::Stream(place), self.db));
    }

    /// Appends the chunks of one unit.
    fn put_chunks(&mut self, chunks: Vec<Chunk>) {
        let mut is_first = true;
        for mut chunk in chunks {
            chunk.db = self.db;
            let bytes = chunk.len() as u64;
            // A mark between two of them would speak of an offset in the middle of a transaction.
            if std::mem::take(&mut is_first) {
                self.begin_chunk(chunk)
            } else {
                self.chunks.push(chunk)
            }
            self.at += bytes;
        }
    }

    fn copy(&mut self, piece: &mut Chunk) {
        self.room(piece.bytes.len()).append(piece);
        self.at += piece.bytes.len() as u64;
    }
}
