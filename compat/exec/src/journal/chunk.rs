//! A piece of the journal: whole requests, of which large arguments lie elsewhere.
//!
//! ```text
//!   bytes    *3 $3 SET $1 k $536870912          \r\n *2 $3 DEL ..
//!                                      ^ pins: at this offset, the bytes of an extent
//!
//!   stream   positions count these bytes, and replicas get them
//!   file     #TS:1790000000 and these bytes       of talk: #SAID:PING
//!
//!   apart    stream   .. *3 $3 SET ..   *3 $7 PUBLISH ..        *1 $4 PING                           *2 $3 DEL ..
//!            file     .. *3 $3 SET ..   #SENT:*3 $7 PUBLISH ..  #SENT:*1 $4 PING #OWN:9 *3 $3 SET .. *2 $3 DEL ..
//! ```
//! Talk is what a primary says to its replicas and does not do: it stands in the stream, and a file has a note in its place. A
//! note is for readers of a file (the time, the database of a stream that goes on there): it stands in no stream. A mark is a note
//! alone, of how far the stream is. A request may be apart. One for replicas alone has notes in a file, which are made when the
//! file is written. One for the file alone has a PING in the stream, so that its position is its own. Not here: what the requests
//! are (`stream.rs`), and where the pieces go (`queue.rs`).

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};

use varve_aof::{Note, put_request, put_sent};
use varve_store::WholePin;

/// Whole requests, one behind the other.
#[derive(Debug, Default)]
pub struct Chunk {
    /// Their bytes, but for those that are pinned.
    pub bytes: Vec<u8>,
    /// The database that a reader of the file has selected before them; None if the file begins with them.
    pub db: Option<u32>,
    pins: Vec<Pinned>,
    counted: Option<Counted>,
    /// Its bytes stand in the stream alone.
    is_talk: bool,
    /// The bytes that stand in front of its own in a file.
    note: Vec<u8>,
    mark: Option<StreamMark>,
    /// The places where the stream and a file differ, in the order of the stream.
    apart: Vec<Apart>,
    /// How a file has it: made when it is asked for, and nobody asks where no file is kept.
    filed: OnceLock<Filed>,
}

/// A stretch of the stream that a file has otherwise.
#[derive(Debug)]
struct Apart {
    /// Where it is in the stream, bytes from the chunk's first one.
    stream: Range<usize>,
    /// The requests that the file alone has in its place.
    own: Vec<u8>,
}

/// A chunk's bytes in a file, behind its note.
#[derive(Debug)]
struct Filed {
    /// Bytes that the stream has not.
    bytes: Vec<u8>,
    pieces: Vec<FilePiece>,
    len: usize,
}

/// Bytes that lie together in a file.
#[derive(Debug)]
struct FilePiece {
    /// Bytes of the file before it, from the chunk's first one.
    at: usize,
    from: Source,
}

#[derive(Debug)]
enum Source {
    /// This stretch of the stream.
    Stream(Range<usize>),
    /// This stretch of [`Filed::bytes`].
    File(Range<usize>),
}

/// Where a stream is, as a file notes it between two chunks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamMark {
    /// This number of bytes of the stream lie before it.
    At(u64),
    /// The bytes behind it are in no stream.
    None,
}

/// Bytes of an extent that stand before byte number `at` of the others.
#[derive(Debug)]
struct Pinned {
    at: usize,
    pin: WholePin,
}

/// Pinned bytes that a journal counts until they are let go.
#[derive(Debug)]
struct Counted {
    bytes: AtomicU64,
    sum: Arc<AtomicU64>,
}

impl Counted {
    fn let_go(&self) {
        self.sum.fetch_sub(self.bytes.swap(0, Relaxed), Relaxed);
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.let_go();
    }
}

impl Chunk {
    /// Requests without large arguments.
    pub fn new(bytes: Vec<u8>, db: Option<u32>) -> Chunk {
        Chunk { bytes, db, ..Chunk::default() }
    }

    /// Requests of another server's stream, of which those at these places are for replicas alone.
    pub(super) fn received(bytes: Vec<u8>, messages: &[Range<usize>]) -> Chunk {
        let apart = messages.iter().map(|stream| Apart { stream: stream.clone(), own: Vec::new() }).collect();
        Chunk { apart, ..Chunk::new(bytes, None) }
    }

    /// Something that a primary says to its replicas.
    pub(super) fn talk(bytes: Vec<u8>, said: &Note, db: Option<u32>) -> Chunk {
        Chunk { is_talk: true, note: said.line(), ..Chunk::new(bytes, db) }
    }

    /// A note of where the stream is.
    pub(super) fn mark(mark: StreamMark, note: &Note, db: Option<u32>) -> Chunk {
        Chunk { mark: Some(mark), note: note.line(), db, ..Chunk::default() }
    }

    /// Where the stream is in front of it, if it says so: it has no bytes of the stream then.
    pub fn stream_mark(&self) -> Option<StreamMark> {
        self.mark
    }

    /// True if other bytes may not be put behind its own.
    pub(super) fn is_closed(&self) -> bool {
        self.is_talk || self.mark.is_some()
    }

    /// Puts these bytes in front of it in a file.
    pub(super) fn set_note(&mut self, note: Vec<u8>) {
        self.note = note;
    }

    /// Bytes in the stream: none of a mark.
    #[allow(clippy::len_without_is_empty, reason = "a chunk that was taken has a request, or is a mark")]
    pub fn len(&self) -> usize {
        self.bytes.len() + self.pinned_bytes()
    }

    /// Bytes that are pinned.
    pub fn pinned_bytes(&self) -> usize {
        self.pins.iter().map(|pinned| pinned.pin.len()).sum()
    }

    /// Puts the bytes of a large argument behind the others.
    pub(super) fn pin(&mut self, pin: WholePin) {
        self.pins.push(Pinned { at: self.bytes.len(), pin });
    }

    /// Counts the pinned bytes in `sum` from now on, until they are let go.
    pub(super) fn count_pinned(&mut self, sum: &Arc<AtomicU64>) {
        let bytes = self.pinned_bytes() as u64;
        if bytes > 0 {
            sum.fetch_add(bytes, Relaxed);
            self.counted = Some(Counted { bytes: AtomicU64::new(bytes), sum: Arc::clone(sum) });
        }
    }

    /// No writer waits for its pinned bytes any more, whoever still sends them.
    pub fn let_pinned_go(&self) {
        self.counted.iter().for_each(Counted::let_go);
    }

    /// Forgets everything.
    pub(super) fn clear(&mut self) {
        self.bytes.clear();
        self.pins.clear();
        self.apart.clear();
    }

    /// The bytes from number `from` of the stream on are for replicas alone.
    pub(super) fn set_apart(&mut self, from: usize) {
        self.apart.push(Apart { stream: from..self.len(), own: Vec::new() });
    }

    /// Puts requests behind the others that are for the file alone.
    pub(super) fn put_own(&mut self, own: Vec<u8>) {
        let from = self.len();
        put_request(&mut self.bytes, [b"PING".as_slice()].into_iter());
        self.apart.push(Apart { stream: from..self.len(), own });
    }

    /// Puts another piece behind it, which has no large arguments, and which no file has yet.
    pub(super) fn append(&mut self, other: &mut Chunk) {
        assert!(other.pins.is_empty(), "what is pinned is not copied");
        debug_assert!(self.filed.get().is_none() && other.filed.get().is_none(), "it is whole when a file has it");
        if !other.apart.is_empty() {
            let before = self.len();
            self.apart.extend(other.apart.drain(..).map(|Apart { stream, own }| {
                let stream = stream.start + before..stream.end + before;
                Apart { stream, own }
            }));
        }
        self.bytes.extend_from_slice(&other.bytes);
    }

    /// Puts a copy of another piece behind it, which has no large arguments, and to which no file is to listen any more.
    pub fn extend(&mut self, other: &Chunk) {
        assert!(other.pins.is_empty(), "what is pinned is not copied");
        self.bytes.extend_from_slice(&other.bytes);
    }

    /// Bytes in a file.
    pub fn file_len(&self) -> usize {
        let len = if self.apart.is_empty() { self.len() } else { self.filed().len };
        self.note.len() + if self.is_talk { 0 } else { len }
    }

    /// How a file has it.
    fn filed(&self) -> &Filed {
        self.filed.get_or_init(|| {
            let mut filed = Filed { bytes: Vec::new(), pieces: Vec::new(), len: 0 };
            let mut done = 0;
            for Apart { stream, own } in &self.apart {
                filed.add(Source::Stream(done..stream.start));
                let begin = filed.bytes.len();
                put_sent(self.parts_of(stream.clone()), &mut filed.bytes);
                if !own.is_empty() {
                    filed.bytes.extend(Note::Own(own.len() as u64).line());
                    filed.bytes.extend_from_slice(own);
                }
                filed.add(Source::File(begin..filed.bytes.len()));
                done = stream.end;
            }
            filed.add(Source::Stream(done..self.len()));
            filed
        })
    }

    /// The bytes of the file at this place behind the note, as far as they lie together.
    fn filed_part(&self, at: usize) -> &[u8] {
        let Filed { bytes, pieces, .. } = self.filed();
        let behind = pieces.partition_point(|piece| piece.at <= at);
        let Some(FilePiece { at: begin, from }) = behind.checked_sub(1).map(|nth| &pieces[nth]) else { return &[] };
        match from {
            Source::File(range) => &bytes[range.clone()][(at - begin).min(range.len())..],
            Source::Stream(range) => self.part_within((range.start + at - begin).min(range.end)..range.end),
        }
    }

    /// The bytes of a stretch of the stream, as far as they lie together.
    fn part_within(&self, range: Range<usize>) -> &[u8] {
        let part = self.part(range.start);
        &part[..part.len().min(range.len())]
    }

    fn parts_of(&self, range: Range<usize>) -> impl Iterator<Item = &[u8]> {
        in_parts(move |at| self.part_within((range.start + at).min(range.end)..range.end))
    }

    /// The bytes in a file from byte number `from` on, as far as they lie together: empty at the end alone.
    pub fn file_part(&self, from: usize) -> &[u8] {
        match self.note.get(from..) {
            Some(note) if !note.is_empty() => note,
            _ if self.is_talk => &[],
            _ if self.apart.is_empty() => self.part(from - self.note.len()),
            _ => self.filed_part(from - self.note.len()),
        }
    }

    /// All bytes in a file, in parts that lie together.
    pub fn file_parts(&self) -> impl Iterator<Item = &[u8]> {
        in_parts(|at| self.file_part(at))
    }

    /// The bytes of the stream from byte number `from` on, as far as they lie together: empty at the end alone.
    pub fn part(&self, from: usize) -> &[u8] {
        let mut pinned_before = 0;
        for Pinned { at, pin, .. } in &self.pins {
            let begin = at + pinned_before;
            if from < begin {
                return &self.bytes[from - pinned_before..*at];
            }
            if from < begin + pin.len() {
                return &pin[from - begin..];
            }
            pinned_before += pin.len();
        }
        &self.bytes[from - pinned_before..]
    }

    /// All bytes, in parts that lie together.
    pub fn parts(&self) -> impl Iterator<Item = &[u8]> {
        in_parts(|at| self.part(at))
    }
}

impl Filed {
    fn add(&mut self, from: Source) {
        let (Source::Stream(range) | Source::File(range)) = &from;
        let len = range.len();
        if len > 0 {
            self.pieces.push(FilePiece { at: self.len, from });
            self.len += len;
        }
    }
}

/// All parts, of which the one at a place is given.
fn in_parts<'c>(part: impl Fn(usize) -> &'c [u8]) -> impl Iterator<Item = &'c [u8]> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let part = part(at);
        at += part.len();
        (!part.is_empty()).then_some(part)
    })
}
