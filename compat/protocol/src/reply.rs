//! Replies in RESP2 and RESP3.
//!
//! A reply buffer holds the replies of many commands. Small ones are bytes of its own; a big value can stand in it by
//! reference and is sent from where it lies:
//!
//! ```text
//!  buf     +OK\r\n $300000\r\n | \r\n :1\r\n
//!                              ^ at = 14
//!  pieces                      [ pinned value, 300000 bytes ]
//!  stream  = buf[..14], value, buf[14..]        sent: a position in this stream
//! ```
//!
//! A buffer has a ceiling: what would pass it is lost, and the buffer says so. No reply is so long that the program ends of it.
//!
//! Types that RESP2 lacks are written as Redis writes them there: maps as flat arrays, sets and pushes as arrays, doubles and big
//! numbers as bulk strings, booleans as integers, nulls as `$-1` or `*-1`. Not here: sockets, and when to send.

use std::collections::VecDeque;
use std::io::IoSlice;
use varve_base::number::{INT_TEXT_MAX, digits, push_f64, push_i64, push_u64, whole_f64};

/// The version of the protocol.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Resp {
    /// RESP2, a new connection's.
    #[default]
    V2,
    /// RESP3, after HELLO 3.
    V3,
}

/// A value that is sent from where it lies; dropping it lets go of it.
pub type Pinned = Box<dyn AsRef<[u8]> + Send>;

struct Piece {
    /// Offset in the buffer before which it stands.
    at: usize,
    value: Pinned,
}

/// A place in the replies to return to.
#[derive(Clone, Copy, Debug)]
pub struct Mark {
    buf: usize,
    pieces: usize,
}

/// A place where the length of an aggregate is filled in later.
#[derive(Debug)]
#[must_use = "the aggregate's head is not written yet"]
pub struct Deferred {
    at: usize,
}

/// Writes replies and holds them until they are sent.
pub struct Reply {
    buf: Vec<u8>,
    /// Own bytes that may wait to be sent.
    ceiling_bytes: usize,
    /// Something was lost: it would have passed the ceiling, or the system had no memory for it.
    overflown: bool,
    resp: Resp,
    pieces: VecDeque<Piece>,
    pieces_bytes: usize,
    /// Bytes of `buf` that are sent.
    sent: usize,
    /// Bytes of the first piece that are sent.
    piece_sent: usize,
}

/// Longest head of a length or an integer: type, sign, 19 digits, CR LF.
const HEAD_MAX: usize = 24;
/// Sent bytes that stay in front of unsent ones before they are moved out.
const COMPACT_BYTES: usize = 64 << 10;

impl Default for Reply {
    fn default() -> Reply {
        Reply {
            buf: Vec::new(),
            ceiling_bytes: usize::MAX,
            overflown: false,
            resp: Resp::default(),
            pieces: VecDeque::new(),
            pieces_bytes: 0,
            sent: 0,
            piece_sent: 0,
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

    /// True if something was lost, because it would have passed the ceiling or because the system had no memory for it. The
    /// replies make no sense to the client any more, whose connection must end. Loops whose length a client chooses ask
    /// this, and stop.
    #[inline]
    pub fn is_overflown(&self) -> bool {
        self.overflown
    }

    /// True if there is room for `more` bytes; false if they are lost.
    #[inline(always)]
    fn has_room(&mut self, more: usize) -> bool {
        self.buf.capacity() - self.buf.len() >= more || self.grow(more)
    }

    #[cold]
    #[inline(never)]
    fn grow(&mut self, more: usize) -> bool {
        let spare = self.ceiling_bytes.saturating_sub(self.buf.len() - self.sent);
        // The room doubles, up to the ceiling.
        let room = more.max(spare.min(self.buf.capacity().max(HEAD_MAX)));
        let fits = more <= spare && self.buf.try_reserve_exact(room).is_ok();
        self.overflown |= !fits;
        fits
    }

    /// Writes bytes, or loses them.
    #[inline(always)]
    fn put(&mut self, bytes: &[u8]) {
        if self.has_room(bytes.len()) {
            self.buf.extend_from_slice(bytes);
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
        debug_assert!(!text.contains(['\r', '\n']));
        if self.has_room(text.len() + 3) {
            self.buf.push(b'+');
            self.buf.extend_from_slice(text.as_bytes());
            self.buf.extend_from_slice(b"\r\n");
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
        self.buf.push(b'-');
        self.buf.extend(text[from..to].iter().map(|b| if is_end(b) { b' ' } else { *b }));
        self.buf.extend_from_slice(b"\r\n");
    }

    /// `:n`.
    #[inline]
    pub fn integer(&mut self, n: i64) {
        self.head(b':', n);
    }

    /// A string of any bytes.
    #[inline]
    pub fn bulk(&mut self, bytes: &[u8]) {
        if self.has_room(bytes.len() + HEAD_MAX + 2) {
            self.push_head(b'$', bytes.len() as i64);
            self.buf.extend_from_slice(bytes);
            self.buf.extend_from_slice(b"\r\n");
        }
    }

    /// A string that is a number's text.
    #[inline]
    pub fn bulk_i64(&mut self, n: i64) {
        if self.has_room(HEAD_MAX + INT_TEXT_MAX + 2) {
            self.push_head(b'$', i64::from(n < 0) + digits(n.unsigned_abs()) as i64);
            push_i64(&mut self.buf, n);
            self.buf.extend_from_slice(b"\r\n");
        }
    }

    /// A string that is sent from where it lies.
    pub fn bulk_pinned(&mut self, value: Pinned) {
        let len = (*value).as_ref().len();
        self.head(b'$', len as i64);
        if len > 0 {
            self.pieces_bytes += len;
            self.pieces.push_back(Piece { at: self.buf.len(), value });
        }
        self.put(b"\r\n");
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
        if self.resp == Resp::V2 {
            return self.bulk(&text);
        }
        self.put(b",");
        self.put(&text);
        self.put(b"\r\n");
    }

    /// A text and its format, three letters (`txt`, `mkd`); a plain string in RESP2.
    pub fn verbatim(&mut self, format: &str, text: &[u8]) {
        assert!(format.len() == 3, "a format has three letters");
        if self.resp == Resp::V2 {
            return self.bulk(text);
        }
        self.head(b'=', text.len() as i64 + 4);
        self.put(format.as_bytes());
        self.put(b":");
        self.put(text);
        self.put(b"\r\n");
    }

    /// An integer of any size, as its digits; a string in RESP2.
    pub fn big_number(&mut self, digits: &str) {
        if self.resp == Resp::V2 {
            return self.bulk(digits.as_bytes());
        }
        self.put(b"(");
        self.put(digits.as_bytes());
        self.put(b"\r\n");
    }

    /// Bytes that are a reply already.
    pub fn raw(&mut self, bytes: &[u8]) {
        self.put(bytes);
    }

    /// Begins an aggregate whose length is known later: write the elements, then call one of the `end_*`. Aggregates
    /// begun later end earlier.
    pub fn defer(&mut self) -> Deferred {
        Deferred { at: self.buf.len() }
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
        let written = self.buf.len();
        self.array(2);
        if self.has_room(HEAD_MAX + INT_TEXT_MAX + 2) {
            self.push_head(b'$', digits(next) as i64);
            push_u64(&mut self.buf, next);
            self.buf.extend_from_slice(b"\r\n");
        }
        self.array(n);
        self.move_before(from, written);
    }

    fn end(&mut self, from: Deferred, kind: u8, n: usize) {
        let written = self.buf.len();
        self.head(kind, n as i64);
        self.move_before(from, written);
    }

    /// Moves what was written after `written` before what was written since `from`.
    fn move_before(&mut self, from: Deferred, written: usize) {
        let head = self.buf.len() - written;
        self.buf[from.at..].rotate_right(head);
        for piece in self.pieces.iter_mut().rev().take_while(|piece| piece.at > from.at) {
            piece.at += head;
        }
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
        if let 0..=9 = n {
            return self.buf.extend_from_slice(&[kind, b'0' + n as u8, b'\r', b'\n']);
        }
        if let 10..=99 = n {
            let (tens, ones) = (n as u8 / 10, n as u8 % 10);
            return self.buf.extend_from_slice(&[kind, b'0' + tens, b'0' + ones, b'\r', b'\n']);
        }
        self.buf.push(kind);
        push_i64(&mut self.buf, n);
        self.buf.extend_from_slice(b"\r\n");
    }

    /// Here, to return to with [`Reply::truncate`] or to look at what follows with [`Reply::since`].
    #[inline]
    pub fn mark(&self) -> Mark {
        Mark { buf: self.buf.len(), pieces: self.pieces.len() }
    }

    /// Drops what was written since; nothing may have been sent meanwhile.
    pub fn truncate(&mut self, mark: Mark) {
        assert!(mark.buf >= self.sent && mark.buf <= self.buf.len(), "a mark of before the last sending");
        self.buf.truncate(mark.buf);
        for piece in self.pieces.drain(mark.pieces..) {
            self.pieces_bytes -= (*piece.value).as_ref().len();
        }
    }

    /// Own bytes written since, values by reference not among them: an error begins with `-`.
    #[inline]
    pub fn since(&self, mark: Mark) -> &[u8] {
        &self.buf[mark.buf..]
    }

    /// Takes away what was written since, as replies of their own under the same ceiling; nothing may have been sent
    /// meanwhile. A loss counts for both.
    pub fn split_off(&mut self, mark: Mark) -> Reply {
        assert!(mark.buf >= self.sent && mark.buf <= self.buf.len(), "a mark of before the last sending");
        let mut tail = Reply { buf: self.buf.split_off(mark.buf), overflown: self.overflown, ..self.like() };
        tail.pieces.extend(self.pieces.drain(mark.pieces..).map(|piece| Piece { at: piece.at - mark.buf, ..piece }));
        tail.pieces_bytes = tail.pieces.iter().map(|piece| (*piece.value).as_ref().len()).sum();
        self.pieces_bytes -= tail.pieces_bytes;
        tail
    }

    /// Puts the replies of another buffer, of which nothing was sent, behind these.
    pub fn append(&mut self, mut other: Reply) {
        assert!(other.sent == 0 && other.piece_sent == 0, "replies that were sent stay where they are");
        self.overflown |= other.overflown;
        if !self.has_room(other.buf.len()) {
            return;
        }
        let base = self.buf.len();
        self.buf.append(&mut other.buf);
        self.pieces.extend(other.pieces.drain(..).map(|piece| Piece { at: piece.at + base, ..piece }));
        self.pieces_bytes += other.pieces_bytes;
    }

    /// Bytes that are not sent yet.
    #[inline]
    pub fn len(&self) -> usize {
        self.buf.len() - self.sent + self.pieces_bytes - self.piece_sent
    }

    /// True if all is sent.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes of memory that the buffer holds, values by reference not counted.
    #[inline]
    pub fn held_bytes(&self) -> usize {
        self.buf.capacity()
    }

    /// Bytes of values by reference that are not sent yet.
    #[inline]
    pub fn pinned_bytes(&self) -> usize {
        self.pieces_bytes - self.piece_sent
    }

    /// The next parts to send, in order, as many as `slices` takes: their number.
    pub fn slices<'a>(&'a self, slices: &mut [IoSlice<'a>]) -> usize {
        let mut n = 0;
        for part in self.parts().take(slices.len()) {
            slices[n] = IoSlice::new(part);
            n += 1;
        }
        n
    }

    /// All parts that are not sent yet, none empty.
    pub fn parts(&self) -> impl Iterator<Item = &[u8]> {
        let mut from = self.sent;
        let mut skip = self.piece_sent;
        let pairs = self.pieces.iter().flat_map(move |piece| {
            let own = &self.buf[from..piece.at];
            from = piece.at;
            [own, &(*piece.value).as_ref()[std::mem::take(&mut skip)..]]
        });
        let tail = &self.buf[self.pieces.back().map_or(self.sent, |piece| piece.at)..];
        pairs.chain([tail]).filter(|part| !part.is_empty())
    }

    /// Notes that `n` bytes were sent; values that are sent whole are released.
    pub fn consume(&mut self, mut n: usize) {
        assert!(n <= self.len(), "more sent than there was");
        while n > 0 {
            let own_end = self.pieces.front().map_or(self.buf.len(), |piece| piece.at);
            let own = n.min(own_end - self.sent);
            self.sent += own;
            n -= own;
            let Some(piece) = self.pieces.front() else { break };
            let len = (*piece.value).as_ref().len();
            let from_piece = n.min(len - self.piece_sent);
            self.piece_sent += from_piece;
            n -= from_piece;
            if self.piece_sent == len {
                self.pieces_bytes -= len;
                self.piece_sent = 0;
                self.pieces.pop_front();
            }
        }
        self.compact();
    }

    /// Drops all that is not sent, and with `keep` 0 the memory too: at most `keep` bytes of capacity stay.
    pub fn clear(&mut self, keep: usize) {
        self.pieces.clear();
        self.pieces_bytes = 0;
        self.piece_sent = 0;
        self.sent = 0;
        self.overflown = false;
        self.buf.clear();
        self.buf.shrink_to(keep);
    }

    fn compact(&mut self) {
        if self.is_empty() {
            self.buf.clear();
            self.sent = 0;
        } else if self.sent >= COMPACT_BYTES && self.sent >= self.buf.len() / 2 {
            self.buf.drain(..self.sent);
            self.pieces.iter_mut().for_each(|piece| piece.at -= self.sent);
            self.sent = 0;
        }
    }
}

impl std::fmt::Debug for Reply {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.parts().map(String::from_utf8_lossy)).finish()
    }
}

#[cfg(test)]
mod tests;
