//! Replies in RESP2 and RESP3.
//!
//! A reply buffer holds the replies of many commands, as a chain of chunks. Replies are written into the last one; when its
//! [`CHUNK_BYTES`] are used up, the next one begins:
//!
//! ```text
//!   full:  | sent . unsent | 128 KB | 128 KB | ... |   tail: | written here -->
//!            let go one by one as they are sent
//! ```
//! A chunk is copied once, into pages of its own, and then stays where it is, however much waits. A buffer in one piece
//! stopped its worker when it had to grow from 16 to 32 MB, or when the allocator gave back what a hundred of them had
//! left. A single string lies in one chunk, however long it is; a big value can also stand in it by reference and is sent
//! from where it lies (chunk.rs).
//!
//! A buffer has a ceiling: what would pass it is lost, and the buffer says so. No reply is so long that the program ends of it.
//!
//! Types that RESP2 lacks are written as Redis writes them there: maps as flat arrays, sets and pushes as arrays, doubles and big
//! numbers as bulk strings, booleans as integers, nulls as `$-1` or `*-1`. Not here: sockets, and when to send.

use std::collections::VecDeque;

use varve_base::mem::{FRAMED_MAX, FRAMED_ROOM, push_framed};
use varve_base::number::{INT_TEXT_MAX, digits, push_f64, push_i64, push_u64, whole_f64};
use varve_base::page_bytes::BLOCK_BYTES;
use varve_base::refusable::reserve_exact;

mod chunk;
mod pinned;

use chunk::{Chunk, Full, Tail};
pub use pinned::{Pinned, ReplyPart};

/// The version of the protocol.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Resp {
    /// RESP2, a new connection's.
    #[default]
    V2,
    /// RESP3, after HELLO 3.
    V3,
}

/// A place in the replies to return to.
#[derive(Clone, Copy, Debug)]
pub struct Mark(u64);

/// A place where the length of an aggregate is filled in later.
#[derive(Debug)]
#[must_use = "the aggregate's head is not written yet"]
pub struct Deferred {
    at: u64,
}

/// Writes replies and holds them until they are sent.
pub struct Reply {
    /// The chunk that is written to.
    tail: Tail,
    /// Unsent bytes that are not own bytes of the tail: those of full chunks, and values by reference.
    beside_bytes: usize,
    /// Own bytes that may wait to be sent.
    ceiling_bytes: usize,
    /// Something was lost: it would have passed the ceiling, or the system had no memory for it.
    overflown: bool,
    resp: Resp,
    /// The chunks before the tail, oldest first; none of them is sent whole.
    full: VecDeque<Full>,
    /// Memory of the full chunks, bytes.
    full_held_bytes: usize,
    /// Unsent bytes of values by reference.
    pinned_bytes: usize,
}

/// Longest head of a length or an integer: type, sign, 19 digits, CR LF.
const HEAD_MAX: usize = 24;
/// Memory of the tail that, once used up, is made a full chunk; a long string may need more. Full ones of this size are kept
/// for reuse.
const CHUNK_BYTES: usize = BLOCK_BYTES;
/// The heads of short strings, each with what follows it as zeros, and its length: most elements of collections are short.
const SHORT_HEADS: [([u8; 8], usize); FRAMED_MAX + 1] = {
    let mut heads = [([0; 8], 0); FRAMED_MAX + 1];
    let mut len = 0;
    while len <= FRAMED_MAX {
        let (tens, ones) = (b'0' + len as u8 / 10, b'0' + len as u8 % 10);
        heads[len] = match len {
            0..10 => ([b'$', ones, b'\r', b'\n', 0, 0, 0, 0], 4),
            _ => ([b'$', tens, ones, b'\r', b'\n', 0, 0, 0], 5),
        };
        len += 1;
    }
    heads
};

impl Default for Reply {
    fn default() -> Reply {
        Reply {
            tail: Chunk::default(),
            beside_bytes: 0,
            ceiling_bytes: usize::MAX,
            overflown: false,
            resp: Resp::default(),
            full: VecDeque::new(),
            full_held_bytes: 0,
            pinned_bytes: 0,
        }
    }
}

impl Reply {
    /// An empty buffer that writes RESP2 and has no ceiling.
    pub fn new() -> Reply {
        Reply::default()
    }

    /// An empty buffer that writes the version of this one, under its ceiling.
    pub fn like(&self) -> Reply {
        Reply { resp: self.resp, ceiling_bytes: self.ceiling_bytes, ..Reply::default() }
    }

    /// From now on at most about `bytes` of its own wait to be sent. Values by reference do not count, since they take no
    /// memory here.
    #[inline]
    pub fn set_ceiling(&mut self, bytes: usize) {
        self.ceiling_bytes = bytes;
    }

    /// Bytes of its own that may wait to be sent.
    #[inline]
    pub fn ceiling(&self) -> usize {
        self.ceiling_bytes
    }

    /// True if something was lost, because it would have passed the ceiling or because the system had no memory for it. The
    /// replies make no sense to the client any more, whose connection must end. Loops whose length a client chooses ask
    /// this, and stop.
    #[inline]
    pub fn is_overflown(&self) -> bool {
        self.overflown
    }

    /// True if a reply of `bytes` at least may be made. One that is sure to pass the ceiling is lost before it is begun.
    pub fn admits(&mut self, bytes: usize) -> bool {
        self.overflown |= bytes > self.ceiling_bytes.saturating_sub(self.own_unsent_bytes());
        !self.overflown
    }

    /// True if there is room for `more` bytes; false if they are lost.
    #[inline(always)]
    fn has_room(&mut self, more: usize) -> bool {
        self.tail.bytes.capacity() - self.tail.bytes.len() >= more || self.grow(more)
    }

    #[cold]
    #[inline(never)]
    fn grow(&mut self, more: usize) -> bool {
        let spare = self.ceiling_bytes.saturating_sub(self.own_unsent_bytes());
        if more > spare {
            self.overflown = true;
            return false;
        }
        let is_full = self.tail.bytes.capacity() >= CHUNK_BYTES && !self.tail.bytes.is_empty();
        if is_full && !self.freeze_tail() {
            return false;
        }
        let (len, capacity) = (self.tail.bytes.len(), self.tail.bytes.capacity());
        if capacity - len >= more {
            return true;
        }
        // The room doubles up to a chunk, and has no more than the ceiling admits.
        let doubled = capacity.max(HEAD_MAX).min(CHUNK_BYTES.saturating_sub(len));
        let fits = reserve_exact(&mut self.tail.bytes, more.max(doubled.min(spare))).is_ok();
        self.overflown |= !fits;
        fits
    }

    /// Makes what the tail holds a full chunk; false if there is no memory for it.
    fn freeze_tail(&mut self) -> bool {
        let own = self.tail.own_unsent();
        if own == 0 {
            return true;
        }
        let Ok(full) = self.tail.freeze(CHUNK_BYTES) else {
            self.overflown = true;
            return false;
        };
        self.beside_bytes += own;
        self.full_held_bytes += full.bytes.held_bytes();
        self.full.push_back(full);
        true
    }

    /// Bytes that are not sent, but for those of values by reference: those that a ceiling is about.
    pub fn own_unsent_bytes(&self) -> usize {
        self.len() - self.pinned_bytes
    }

    /// Writes bytes, or loses them.
    #[inline(always)]
    fn put(&mut self, bytes: &[u8]) {
        if self.has_room(bytes.len()) {
            self.tail.bytes.extend_from_slice(bytes);
        }
    }

    /// The version that is written.
    #[inline]
    pub fn resp(&self) -> Resp {
        self.resp
    }

    /// True if RESP3 is written.
    #[inline]
    pub fn is_resp3(&self) -> bool {
        self.resp == Resp::V3
    }

    /// Writes this version from now on.
    pub fn set_resp(&mut self, resp: Resp) {
        self.resp = resp;
    }

    /// `+text`; the text holds no line end.
    #[inline]
    pub fn simple(&mut self, text: &str) {
        self.simple_bytes(text.as_bytes());
    }

    /// Writes a status like [`Reply::simple`], for a text of a script's, which may be no UTF-8.
    #[inline]
    pub fn simple_bytes(&mut self, text: &[u8]) {
        debug_assert!(!text.iter().any(|byte| matches!(byte, b'\r' | b'\n')));
        if self.has_room(text.len() + 3) {
            self.tail.bytes.push(b'+');
            self.tail.bytes.extend_from_slice(text);
            self.tail.bytes.extend_from_slice(b"\r\n");
        }
    }

    /// `+OK`.
    #[inline]
    pub fn ok(&mut self) {
        self.put(b"+OK\r\n");
    }

    /// `-text`, code included (`ERR syntax error`). Line ends at either end are cut, within they become spaces.
    pub fn error(&mut self, text: &str) {
        self.error_bytes(text.as_bytes());
    }

    /// Writes an error like [`Reply::error`], for a text that quotes a request and so may be no UTF-8.
    pub fn error_bytes(&mut self, text: &[u8]) {
        let is_end = |b: &u8| matches!(b, b'\r' | b'\n');
        let from = text.iter().position(|b| !is_end(b)).unwrap_or(text.len());
        let to = text.iter().rposition(|b| !is_end(b)).map_or(from, |i| i + 1);
        if !self.has_room(to - from + 3) {
            return;
        }
        self.tail.bytes.push(b'-');
        self.tail.bytes.extend(text[from..to].iter().map(|b| if is_end(b) { b' ' } else { *b }));
        self.tail.bytes.extend_from_slice(b"\r\n");
    }

    /// `:n`.
    #[inline]
    pub fn integer(&mut self, n: i64) {
        self.head(b':', n);
    }

    /// A string of any bytes.
    #[inline]
    pub fn bulk(&mut self, bytes: &[u8]) {
        if let Some(&head) = SHORT_HEADS.get(bytes.len()) {
            if self.has_room(FRAMED_ROOM) {
                push_framed(&mut self.tail.bytes, head, bytes, *b"\r\n");
            }
        } else if self.has_room(bytes.len() + HEAD_MAX + 2) {
            self.push_head(b'$', bytes.len() as i64);
            self.tail.bytes.extend_from_slice(bytes);
            self.tail.bytes.extend_from_slice(b"\r\n");
        }
    }

    /// A string that is a number's text.
    #[inline]
    pub fn bulk_i64(&mut self, n: i64) {
        if self.has_room(HEAD_MAX + INT_TEXT_MAX + 2) {
            self.push_head(b'$', i64::from(n < 0) + digits(n.unsigned_abs()) as i64);
            push_i64(&mut self.tail.bytes, n);
            self.tail.bytes.extend_from_slice(b"\r\n");
        }
    }

    /// A string that is sent from where it lies.
    pub fn bulk_pinned(&mut self, value: Box<dyn Pinned>) {
        let len = value.len();
        self.bulk_pinned_parts(len, [value]);
    }

    /// A string of `len` bytes whose parts are sent from where they lie.
    pub fn bulk_pinned_parts(&mut self, len: usize, parts: impl IntoIterator<Item = Box<dyn Pinned>>) {
        if !self.has_room(HEAD_MAX + 2) {
            return;
        }
        self.push_head(b'$', len as i64);
        let mut left = len;
        for part in parts.into_iter().filter(|part| part.len() > 0) {
            left -= part.len();
            self.tail.push(part);
        }
        assert!(left == 0, "the parts of a string of {len} bytes have {left} too few");
        self.beside_bytes += len;
        self.pinned_bytes += len;
        self.tail.bytes.extend_from_slice(b"\r\n");
    }

    /// Bytes that are a reply already, sent from where they lie.
    pub fn raw_pinned(&mut self, value: Box<dyn Pinned>) {
        let len = value.len();
        if len > 0 {
            self.beside_bytes += len;
            self.pinned_bytes += len;
            self.tail.push(value);
        }
    }

    /// The absent string.
    #[inline]
    pub fn null(&mut self) {
        match self.resp {
            Resp::V2 => self.put(b"$-1\r\n"),
            Resp::V3 => self.put(b"_\r\n"),
        }
    }

    /// The absent array.
    pub fn null_array(&mut self) {
        match self.resp {
            Resp::V2 => self.put(b"*-1\r\n"),
            Resp::V3 => self.put(b"_\r\n"),
        }
    }

    /// Writes the head of an array of `n` elements.
    #[inline]
    pub fn array(&mut self, n: usize) {
        self.head(b'*', n as i64);
    }

    /// Writes the head of a map of `n` pairs.
    pub fn map(&mut self, n: usize) {
        match self.resp {
            Resp::V2 => self.head(b'*', 2 * n as i64),
            Resp::V3 => self.head(b'%', n as i64),
        }
    }

    /// Writes the head of a set of `n` members.
    pub fn set(&mut self, n: usize) {
        self.by_version(b'*', b'~', n);
    }

    /// Writes the head of a message out of turn, of `n` elements.
    pub fn push(&mut self, n: usize) {
        self.by_version(b'*', b'>', n);
    }

    /// Writes the head of `n` pairs that qualify the next value; RESP3 only, the caller asks [`Reply::resp`] first.
    pub fn attribute(&mut self, n: usize) {
        assert!(self.resp == Resp::V3, "RESP2 has no attributes");
        self.head(b'|', n as i64);
    }

    /// True or false; 1 or 0 in RESP2.
    pub fn boolean(&mut self, value: bool) {
        match self.resp {
            Resp::V2 => self.integer(i64::from(value)),
            Resp::V3 => self.put(if value { b"#t\r\n" } else { b"#f\r\n" }),
        }
    }

    /// A floating-point number, 17 digits at most; a string in RESP2.
    pub fn double(&mut self, value: f64) {
        if let (Resp::V2, Some(whole)) = (self.resp, whole_f64(value)) {
            return self.bulk_i64(whole);
        }
        let mut text = Vec::with_capacity(32);
        push_f64(&mut text, value);
        self.double_text(&text);
    }

    /// A floating-point number by its text; a string in RESP2.
    pub fn double_text(&mut self, text: &[u8]) {
        if self.resp == Resp::V2 {
            return self.bulk(text);
        }
        self.put(b",");
        self.put(text);
        self.put(b"\r\n");
    }

    /// A text and its format, three letters (`txt`, `mkd`); a plain string in RESP2.
    pub fn verbatim(&mut self, format: [u8; 3], text: &[u8]) {
        self.begin_verbatim(format, text.len());
        self.put(text);
        self.put(b"\r\n");
    }

    /// The beginning of a text of `len` bytes like that of [`Reply::verbatim`]. The text follows, then a line end.
    pub fn begin_verbatim(&mut self, format: [u8; 3], len: usize) {
        if self.resp == Resp::V2 {
            return self.head(b'$', len as i64);
        }
        self.head(b'=', len as i64 + 4);
        self.put(&format);
        self.put(b":");
    }

    /// An integer of any size, as its digits; a string in RESP2.
    pub fn big_number(&mut self, digits: &[u8]) {
        if self.resp == Resp::V2 {
            return self.bulk(digits);
        }
        self.put(b"(");
        self.put(digits);
        self.put(b"\r\n");
    }

    /// Bytes that are a reply already.
    pub fn raw(&mut self, bytes: &[u8]) {
        self.put(bytes);
    }

    /// Begins an aggregate whose length is known later: write the elements, then call one of the `end_*`. Aggregates
    /// begun later end earlier.
    pub fn defer(&mut self) -> Deferred {
        Deferred { at: self.tail.end() }
    }

    /// Makes an array of `n` elements of what was written since.
    pub fn end_array(&mut self, from: Deferred, n: usize) {
        self.end(from, b'*', n);
    }

    /// Makes a map of `n` pairs of what was written since.
    pub fn end_map(&mut self, from: Deferred, n: usize) {
        match self.resp {
            Resp::V2 => self.end(from, b'*', 2 * n),
            Resp::V3 => self.end(from, b'%', n),
        }
    }

    /// Makes a set of `n` members of what was written since.
    pub fn end_set(&mut self, from: Deferred, n: usize) {
        let kind = if self.resp == Resp::V2 { b'*' } else { b'~' };
        self.end(from, kind, n);
    }

    /// Makes a page of a scan of what was written since: an array of the next cursor and an array of `n` elements.
    pub fn end_page(&mut self, from: Deferred, next: u64, n: usize) {
        self.put_before(from, 2 * HEAD_MAX + HEAD_MAX + INT_TEXT_MAX + 2, |buf| {
            push_head(buf, b'*', 2);
            push_head(buf, b'$', digits(next) as i64);
            push_u64(buf, next);
            buf.extend_from_slice(b"\r\n");
            push_head(buf, b'*', n as i64);
        });
    }

    fn end(&mut self, from: Deferred, kind: u8, n: usize) {
        self.put_before(from, HEAD_MAX, |buf| push_head(buf, kind, n as i64));
    }

    /// Puts `head`, of `most` bytes at most, before what was written since `from`.
    fn put_before(&mut self, from: Deferred, most: usize, head: impl FnOnce(&mut Vec<u8>)) {
        if !self.has_room(most) {
            return;
        }
        if from.at >= self.tail.start() {
            let written = self.tail.bytes.len();
            head(&mut self.tail.bytes);
            let len = self.tail.bytes.len() - written;
            return self.tail.rotate(from.at, len);
        }
        let mut bytes = Vec::with_capacity(most);
        head(&mut bytes);
        self.insert(from.at, &bytes);
    }

    /// Puts `head` before what stands from a place of a full chunk on.
    #[cold]
    fn insert(&mut self, place: u64, head: &[u8]) {
        let nth = self.full_chunk_of(place).expect("places of the tail have their head put there");
        let before = self.full[nth].bytes.held_bytes();
        if self.full[nth].insert(place, head).is_err() {
            self.overflown = true;
            return;
        }
        self.beside_bytes += head.len();
        self.full_held_bytes = self.full_held_bytes - before + self.full[nth].bytes.held_bytes();
        for chunk in self.full.range_mut(nth + 1..) {
            chunk.move_to(chunk.start() + head.len() as u64);
        }
        self.tail.move_to(self.tail.start() + head.len() as u64);
    }

    /// The number of the full chunk that a place lies in; None if it lies in the tail.
    fn full_chunk_of(&self, place: u64) -> Option<usize> {
        if place >= self.tail.start() {
            return None;
        }
        let behind = self.full.partition_point(|chunk| chunk.start() <= place);
        Some(behind.checked_sub(1).expect("a place of before the last sending"))
    }

    fn by_version(&mut self, v2: u8, v3: u8, n: usize) {
        let kind = if self.resp == Resp::V2 { v2 } else { v3 };
        self.head(kind, n as i64);
    }

    /// Type byte, number, line end.
    #[inline]
    fn head(&mut self, kind: u8, n: i64) {
        if self.has_room(HEAD_MAX) {
            self.push_head(kind, n);
        }
    }

    /// Writes a head for which there is room.
    #[inline(always)]
    fn push_head(&mut self, kind: u8, n: i64) {
        push_head(&mut self.tail.bytes, kind, n);
    }

    /// Here, to return to with [`Reply::truncate`] or to look at what follows with [`Reply::since`].
    #[inline]
    pub fn mark(&self) -> Mark {
        Mark(self.tail.end())
    }

    /// Drops what was written since; nothing may have been sent meanwhile.
    pub fn truncate(&mut self, mark: Mark) {
        if let Some(nth) = self.full_chunk_of(mark.0) {
            self.full.truncate(nth + 1);
            self.tail = self.full.pop_back().expect("it was found").thaw();
            self.tail.truncate(mark.0);
            return self.recount();
        }
        let pinned = self.tail.truncate(mark.0);
        self.beside_bytes -= pinned;
        self.pinned_bytes -= pinned;
    }

    /// Own bytes written since, in parts, values by reference not among them.
    pub fn since(&self, mark: Mark) -> impl Iterator<Item = &[u8]> {
        let full = self.full_chunk_of(mark.0).map(|nth| self.full.range(nth..));
        let full = full.into_iter().flatten().map(move |chunk| chunk.since(mark.0));
        full.chain([self.tail.since(mark.0)])
    }

    /// Bytes written since, values by reference among them; none of them may have been sent.
    #[inline]
    pub fn len_since(&self, mark: Mark) -> usize {
        let own = (self.tail.end() - mark.0) as usize;
        if self.pinned_bytes == 0 { own } else { own + self.pinned_since(mark) }
    }

    #[cold]
    fn pinned_since(&self, mark: Mark) -> usize {
        let full = self.full_chunk_of(mark.0).map(|nth| self.full.range(nth..));
        full.into_iter().flatten().map(|chunk| chunk.pinned_since(mark.0)).sum::<usize>()
            + self.tail.pinned_since(mark.0)
    }

    /// The first byte written since: an error begins with `-`.
    pub fn first_since(&self, mark: Mark) -> Option<u8> {
        self.since(mark).flatten().next().copied()
    }

    /// Takes away what was written since, as replies of their own under the same ceiling; nothing may have been sent
    /// meanwhile. A loss counts for both.
    pub fn split_off(&mut self, mark: Mark) -> Reply {
        let mut rest = Reply { overflown: self.overflown, ..self.like() };
        match self.full_chunk_of(mark.0) {
            None => rest.tail = self.tail.split_off(mark.0),
            Some(nth) => {
                let behind = self.full.split_off(nth + 1);
                let tail = self.full.pop_back().expect("it was found").thaw();
                let behind_tail = std::mem::replace(&mut self.tail, tail);
                rest.tail = self.tail.split_off(mark.0);
                rest.freeze_tail();
                rest.full.extend(behind);
                rest.tail = behind_tail;
            }
        }
        self.recount();
        rest.recount();
        rest
    }

    /// Puts the replies of another buffer, of which nothing was sent, behind these. Full chunks are not copied.
    pub fn append(&mut self, mut other: Reply) {
        let is_untouched = other.full.front().map_or(other.tail.is_untouched(), Chunk::is_untouched);
        assert!(is_untouched, "replies that were sent stay where they are");
        self.overflown |= other.overflown;
        if !other.full.is_empty() {
            let spare = self.ceiling_bytes.saturating_sub(self.own_unsent_bytes());
            if other.own_unsent_bytes() > spare || !self.freeze_tail() {
                self.overflown = true;
                return;
            }
            for mut chunk in other.full.drain(..) {
                chunk.move_to(self.tail.start());
                self.tail.move_to(chunk.end());
                self.full.push_back(chunk);
            }
            self.recount();
        }
        if self.has_room(other.tail.bytes.len()) {
            let pinned = other.tail.unsent().pinned;
            self.tail.append(other.tail);
            self.beside_bytes += pinned;
            self.pinned_bytes += pinned;
        }
    }

    /// Adds up what the chunks hold, after some have come or gone.
    #[cold]
    fn recount(&mut self) {
        let (mut own, mut pinned) = (0, self.tail.unsent().pinned);
        for chunk in &self.full {
            let unsent = chunk.unsent();
            own += unsent.own;
            pinned += unsent.pinned;
        }
        self.beside_bytes = own + pinned;
        self.pinned_bytes = pinned;
        self.full_held_bytes = self.full.iter().map(|chunk| chunk.bytes.held_bytes()).sum();
    }

    /// Bytes that are not sent yet.
    #[inline]
    pub fn len(&self) -> usize {
        self.tail.own_unsent() + self.beside_bytes
    }

    /// True if all is sent.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes of memory that the buffer holds, values by reference not counted.
    #[inline]
    pub fn held_bytes(&self) -> usize {
        self.tail.bytes.capacity() + self.full_held_bytes
    }

    /// Bytes of values by reference that are not sent yet.
    #[inline]
    pub fn pinned_bytes(&self) -> usize {
        self.pinned_bytes
    }

    /// All parts that are not sent yet, none empty. Bytes of a value by reference are lent as long as their part is there.
    pub fn parts(&self) -> impl Iterator<Item = ReplyPart<'_>> {
        self.full.iter().flat_map(Chunk::parts).chain(self.tail.parts())
    }

    /// A copy of all bytes that are not sent yet.
    pub fn to_vec(&self) -> Vec<u8> {
        let mut all = Vec::with_capacity(self.len());
        self.parts().for_each(|part| all.extend_from_slice(&part));
        all
    }

    /// The unsent bytes, if they lie in one piece; None if they do not, or if there are none.
    #[inline]
    pub fn as_one(&self) -> Option<&[u8]> {
        if self.full.is_empty() { self.tail.as_one().filter(|bytes| !bytes.is_empty()) } else { None }
    }

    /// Notes that `n` bytes were sent; values and chunks that are sent whole are released.
    pub fn consume(&mut self, mut n: usize) {
        assert!(n <= self.len(), "more sent than there was");
        while n > 0
            && let Some(chunk) = self.full.front_mut()
        {
            let done = chunk.consume(n);
            n -= done.own + done.pinned;
            self.beside_bytes -= done.own + done.pinned;
            self.pinned_bytes -= done.pinned;
            if chunk.is_sent() {
                self.full_held_bytes -= chunk.bytes.held_bytes();
                self.full.pop_front();
            }
        }
        let done = self.tail.consume(n);
        self.beside_bytes -= done.pinned;
        self.pinned_bytes -= done.pinned;
        if self.is_empty() {
            self.tail.clear(usize::MAX);
        }
    }

    /// Drops all that is not sent, and with `keep` 0 the memory too: at most `keep` bytes of capacity stay.
    pub fn clear(&mut self, keep: usize) {
        if self.beside_bytes > 0 {
            self.full.clear();
            self.full_held_bytes = 0;
            self.beside_bytes = 0;
            self.pinned_bytes = 0;
        }
        self.overflown = false;
        self.tail.clear(keep);
    }
}

/// Type byte, number, line end.
#[inline(always)]
fn push_head(buf: &mut Vec<u8>, kind: u8, n: i64) {
    if let 0..=9 = n {
        return buf.extend_from_slice(&[kind, b'0' + n as u8, b'\r', b'\n']);
    }
    if let 10..=99 = n {
        let (tens, ones) = (n as u8 / 10, n as u8 % 10);
        return buf.extend_from_slice(&[kind, b'0' + tens, b'0' + ones, b'\r', b'\n']);
    }
    buf.push(kind);
    push_i64(buf, n);
    buf.extend_from_slice(b"\r\n");
}

impl std::fmt::Debug for Reply {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.parts()).finish()
    }
}

#[cfg(test)]
mod tests;
