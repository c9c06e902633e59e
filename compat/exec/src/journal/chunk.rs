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

use std::ops::{Deref, Range};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, OnceLock};

use varve_aof::{Note, put_request, put_sent};
use varve_base::shared::SharedU64;
use varve_store::{Pin, PinRead};

/// Bytes of a chunk into which units are copied.
pub(super) const CHUNK_BYTES: usize = 64 << 10;

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
    pin: Pin,
}

/// Bytes of a chunk that lie together, while they are looked at: a writer of a pinned value may wait until this is dropped.
#[derive(Debug)]
pub enum ChunkPart<'c> {
    /// The chunk's own.
    Own(&'c [u8]),
    /// Those of a large argument.
    Pinned(PinRead<'c>),
}

impl Deref for ChunkPart<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            ChunkPart::Own(bytes) => bytes,
            ChunkPart::Pinned(bytes) => bytes,
        }
    }
}

/// Pinned bytes that a journal counts until they are let go.
#[derive(Debug)]
struct Counted {
    bytes: SharedU64,
    sum: Arc<SharedU64>,
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

    /// Bytes of memory that it takes, but for those that are pinned, and for what a file has in place of some of them.
    pub fn held_bytes(&self) -> usize {
        self.bytes.capacity()
    }

    /// Bytes that are pinned.
    pub fn pinned_bytes(&self) -> usize {
        self.pins.iter().map(|pinned| pinned.pin.len()).sum()
    }

    /// Puts the bytes of a large argument behind the others.
    pub(super) fn pin(&mut self, pin: Pin) {
        self.pins.push(Pinned { at: self.bytes.len(), pin });
    }

    /// Counts the pinned bytes in `sum` from now on, until they are let go.
    pub(super) fn count_pinned(&mut self, sum: &Arc<SharedU64>) {
        let bytes = self.pinned_bytes() as u64;
        if bytes > 0 {
            sum.fetch_add(bytes, Relaxed);
            self.counted = Some(Counted { bytes: SharedU64::new(bytes), sum: Arc::clone(sum) });
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

    /// Puts another piece behind it, which has no large arguments, and which no file has yet. Of that piece the bytes stay.
    pub(super) fn append(&mut self, other: &mut Chunk) {
        debug_assert!(self.filed.get().is_none() && other.filed.get().is_none(), "it is whole when a file has it");
        self.append_range(other, 0..other.bytes.len());
    }

    /// Puts a copy of the bytes `range` of another piece behind it, which has no large arguments. The places of that piece where the
    /// stream and a file differ are asked for in order, and each once.
    pub(super) fn append_range(&mut self, other: &mut Chunk, range: Range<usize>) {
        assert!(other.pins.is_empty(), "what is pinned is not copied");
        let before = self.len();
        let count = other.apart.iter().take_while(|apart| apart.stream.end <= range.end).count();
        self.apart.extend(other.apart.drain(..count).map(|Apart { stream, own }| {
            debug_assert!(stream.start >= range.start, "a piece in front was passed over");
            let stream = stream.start - range.start + before..stream.end - range.start + before;
            Apart { stream, own }
        }));
        self.bytes.extend_from_slice(&other.bytes[range]);
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
    fn filed_part<'c>(&'c self, at: usize, room: &'c mut Vec<u8>) -> &'c [u8] {
        let Filed { bytes, pieces, .. } = self.filed();
        let behind = pieces.partition_point(|piece| piece.at <= at);
        let Some(FilePiece { at: begin, from }) = behind.checked_sub(1).map(|nth| &pieces[nth]) else { return &[] };
        match from {
            Source::File(range) => &bytes[range.clone()][(at - begin).min(range.len())..],
            Source::Stream(range) => self.copied_part((range.start + at - begin).min(range.end)..range.end, room),
        }
    }

    /// Bytes of the stream from `range.start` on, as far as they lie together: where they are pinned, a copy of some.
    fn copied_part<'c>(&'c self, range: Range<usize>, room: &'c mut Vec<u8>) -> &'c [u8] {
        match self.part(range) {
            ChunkPart::Own(bytes) => bytes,
            ChunkPart::Pinned(bytes) => {
                room.clear();
                room.extend_from_slice(&bytes[..bytes.len().min(Pin::READ_BYTES)]);
                room
            }
        }
    }

    /// The bytes in a file from byte number `from` on, as far as they lie together: empty at the end alone. Pinned bytes are
    /// copied into `room`, [`Pin::READ_BYTES`] of them at most: a disk may take long, and a writer of theirs does not wait for it.
    pub fn file_part<'c>(&'c self, from: usize, room: &'c mut Vec<u8>) -> &'c [u8] {
        match self.note.get(from..) {
            Some(note) if !note.is_empty() => note,
            _ if self.is_talk => &[],
            _ if self.apart.is_empty() => self.copied_part(from - self.note.len()..self.len(), room),
            _ => self.filed_part(from - self.note.len(), room),
        }
    }

    /// Shows all bytes in a file, as many at a time as [`Chunk::file_part`] has.
    ///
    /// # Errors
    /// The first one of `show`, which then sees no more.
    pub fn try_each_file_part<E>(&self, mut show: impl FnMut(&[u8]) -> Result<(), E>) -> Result<(), E> {
        let (mut at, mut room) = (0, Vec::new());
        loop {
            let part = self.file_part(at, &mut room);
            if part.is_empty() {
                return Ok(());
            }
            show(part)?;
            at += part.len();
        }
    }

    /// Shows all bytes of the stream, as [`Chunk::try_each_file_part`] shows those in a file.
    ///
    /// # Errors
    /// The first one of `show`, which then sees no more.
    pub fn try_each_part<E>(&self, mut show: impl FnMut(&[u8]) -> Result<(), E>) -> Result<(), E> {
        let (mut at, mut room) = (0, Vec::new());
        while at < self.len() {
            let part = self.copied_part(at..self.len(), &mut room);
            show(part)?;
            at += part.len();
        }
        Ok(())
    }

    /// The bytes of the stream from `range.start` on that lie together, up to `range.end`: some, if the range has any.
    pub fn part(&self, range: Range<usize>) -> ChunkPart<'_> {
        if range.is_empty() {
            return ChunkPart::Own(&[]);
        }
        let (from, mut pinned_before) = (range.start, 0);
        let own = |at: Range<usize>| ChunkPart::Own(&self.bytes[at.start..at.end.min(at.start + range.len())]);
        for Pinned { at, pin, .. } in &self.pins {
            let begin = at + pinned_before;
            if from < begin {
                return own(from - pinned_before..*at);
            }
            if from < begin + pin.len() {
                return ChunkPart::Pinned(pin.read(from - begin..pin.len().min(range.end - begin)));
            }
            pinned_before += pin.len();
        }
        own(from - pinned_before..self.bytes.len())
    }

    /// The bytes of a stretch of the stream, in parts that lie together.
    pub fn parts_of(&self, range: Range<usize>) -> impl Iterator<Item = ChunkPart<'_>> {
        let mut at = range.start;
        std::iter::from_fn(move || {
            let part = self.part(at..range.end.min(at + Pin::READ_BYTES));
            at += part.len();
            (!part.is_empty()).then_some(part)
        })
    }

    /// All bytes, in parts that lie together.
    pub fn parts(&self) -> impl Iterator<Item = ChunkPart<'_>> {
        self.parts_of(0..self.len())
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
