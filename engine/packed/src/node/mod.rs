//! A packed node: a sequence of entries with free room at both ends.
//!
//! ```text
//!   0        header                start                              end            length of the buffer
//!   +--------+---------------------+----------+----------+-----+------+--------------+
//!   | header | front room          | entry    | entry    | ... |      | back room    |
//!   +--------+---------------------+----------+----------+-----+------+--------------+
//! ```
//!
//! It is a list's node, or the whole of a small list, hash, set or sorted set. `header` and `entry` draw the rest.
//! The buffer may be longer than what the node uses, and may have been cut behind `end`: the node takes its capacity
//! from the slice that it is given, never from what it was.
//!
//! Cost: a push or pop at either end writes the entry and the header and moves nothing, as long as that end has room.
//! Where it has none and the other has, the entries slide, once for as much room as three quarters of what is free.
//! That is cheap as long as the free room is a fair part of the node; [`Node::front_room`] and [`Node::back_room`] are
//! for an owner that wants no slide at all. A change in the middle moves the shorter side.
//!
//! Whether a change fits depends on [`Node::room`] alone: changes that fit in it together fit one after the other.
//!
//! A node does not allocate, does not know its owner, and does not order its entries.

mod compress;
#[cfg(all(test, debug_assertions))]
mod contract_tests;
mod edit;
mod entry;
mod header;
#[cfg(test)]
mod tests;
mod walk;

pub use compress::{CompressedNode, Compressor, ExpandError, compress_bound, expand, is_compressed};
pub use edit::NodeMut;
pub use entry::{Coded, Encoded, PackedEntry, STRING_MAX, Short};

use crate::{Fault, Full};
use entry::{check_at, entry_at, size_at, size_before};
use header::{Form, Header};

/// Where a node will grow: how free room is shared when the entries are laid out anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Grow {
    /// At the front: all room there.
    Front,
    /// At the back: all room there.
    Back,
    /// At either end: half of it each.
    Both,
}

/// The place of an entry in a node, valid until the node is changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct EntryPos(usize);

/// Bytes of the smallest buffer for a node whose entries take `bytes`.
pub const fn buffer_bytes(bytes: usize) -> usize {
    if bytes + Form::Tiny.header_bytes() <= Form::Tiny.limit() {
        bytes + Form::Tiny.header_bytes()
    } else if bytes + Form::Small.header_bytes() <= Form::Small.limit() {
        bytes + Form::Small.header_bytes()
    } else {
        bytes + Form::Large.header_bytes()
    }
}

/// A node to read.
#[derive(Clone, Copy, Debug)]
pub struct Node<'a> {
    buf: &'a [u8],
    head: Header,
}

impl<'a> Node<'a> {
    /// Opens a node that this crate wrote.
    ///
    /// # Panics
    /// If the header cannot be one. Other damage panics where it is met: see [`Node::check`].
    #[inline(always)]
    pub fn open(buf: &'a [u8]) -> Node<'a> {
        let head = Header::read(buf);
        assert!(head.start <= head.end && head.end <= buf.len(), "the entries lie in the buffer");
        Node { buf, head }
    }

    /// Opens bytes of which nothing is known. O(N).
    pub fn check(buf: &'a [u8]) -> Result<Node<'a>, Fault> {
        let head = Header::check(buf)?;
        let (mut at, mut count) = (head.start, 0);
        while at < head.end {
            at += check_at(buf, at, head.end).map_err(|what| Fault { at, what })?;
            count += 1;
        }
        if count != head.count {
            return Err(Fault { at: 0, what: "the count is not that of the entries" });
        }
        Ok(Node { buf, head })
    }

    /// Panics if the node is not sound. O(N).
    pub fn verify(&self) {
        if let Err(fault) = Node::check(self.buf) {
            panic!("node of {} bytes: {} at {}", self.buf.len(), fault.what, fault.at);
        }
    }

    /// Number of entries.
    #[inline]
    pub fn len(&self) -> usize {
        self.head.count
    }

    /// Whether there is no entry.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.head.count == 0
    }

    /// Bytes of the entries.
    #[inline]
    pub fn bytes(&self) -> usize {
        self.head.end - self.head.start
    }

    /// Bytes from the start of the buffer to the end of the entries: what has to be kept of it.
    #[inline]
    pub fn used(&self) -> usize {
        self.head.end
    }

    /// Bytes of entries that can be added in this buffer, at most with a slide.
    #[inline]
    pub fn room(&self) -> usize {
        let form = Form::for_buffer(self.buf.len());
        let most = self.buf.len().min(form.limit()) - form.header_bytes();
        debug_assert!(self.bytes() <= most, "{} bytes of entries where {most} fit", self.bytes());
        most - self.bytes()
    }

    /// Bytes of entries that can be pushed at the front and move nothing.
    #[inline]
    pub fn front_room(&self) -> usize {
        debug_assert!(self.head.start >= self.head.form.header_bytes(), "the entries start in the header");
        self.head.start - self.head.form.header_bytes()
    }

    /// Bytes of entries that can be pushed at the back and move nothing.
    #[inline]
    pub fn back_room(&self) -> usize {
        self.buf.len().min(self.head.form.limit()) - self.head.end
    }

    /// Bytes of the smallest buffer in which the node would hold `more` bytes of entries than now.
    #[inline]
    pub fn needed_bytes(&self, more: usize) -> usize {
        buffer_bytes(self.bytes() + more)
    }

    /// Writes the node into another buffer, its free room where it will `grow`.
    ///
    /// # Errors
    /// If `into` is smaller than [`needed_bytes(0)`](Node::needed_bytes); then it is left alone.
    pub fn copy_into(&self, into: &mut [u8], grow: Grow) -> Result<(), Full> {
        write_node(into, self.entries(), self.head.count, grow)
    }

    /// Position of the first entry.
    #[inline]
    pub fn first(&self) -> Option<EntryPos> {
        (self.head.count > 0).then_some(EntryPos(self.head.start))
    }

    /// Position of the last entry.
    #[inline]
    pub fn last(&self) -> Option<EntryPos> {
        (self.head.count > 0).then(|| EntryPos(self.head.end - size_before(self.buf, self.head.end)))
    }

    /// Position of the entry after this one.
    #[inline]
    pub fn next(&self, place: EntryPos) -> Option<EntryPos> {
        debug_assert!(self.has(place), "{place:?} is of another node");
        let next = place.0 + size_at(self.buf, place.0);
        (next < self.head.end).then_some(EntryPos(next))
    }

    /// Position of the entry before this one.
    #[inline]
    pub fn prev(&self, place: EntryPos) -> Option<EntryPos> {
        debug_assert!(self.has(place), "{place:?} is of another node");
        (place.0 > self.head.start).then(|| EntryPos(place.0 - size_before(self.buf, place.0)))
    }

    /// Position of the entry number `index`, from 0. Walks from the nearer end.
    pub fn nth(&self, index: usize) -> Option<EntryPos> {
        (index < self.head.count).then(|| EntryPos(self.offset_of(index)))
    }

    /// The content of the entry at `place`.
    #[inline]
    pub fn get(&self, place: EntryPos) -> PackedEntry<'a> {
        debug_assert!(self.has(place), "{place:?} is of another node");
        entry_at(&self.buf[..self.head.end], place.0)
    }

    /// Bytes that the entry at `place` takes.
    #[inline]
    pub fn size(&self, place: EntryPos) -> usize {
        debug_assert!(self.has(place), "{place:?} is of another node");
        size_at(self.buf, place.0)
    }

    /// Searches forward for an equal entry, `from` one entry and then every `stride`th: 2 for the fields of pairs.
    /// Returns its place and how many entries lie between, 0 for `from` itself.
    pub fn find(&self, needle: &Coded<'_>, from: EntryPos, stride: usize) -> Option<(EntryPos, usize)> {
        debug_assert!(self.has(from) && stride > 0, "every {stride}th entry from {from:?}");
        walk::find(&self.buf[..self.head.end], needle, from.0, stride).map(|(at, passed)| (EntryPos(at), passed))
    }

    /// Searches backward for an equal entry, starting with `from` itself. Returns its place and how many entries lie
    /// between.
    pub fn rfind(&self, needle: &Coded<'_>, from: EntryPos) -> Option<(EntryPos, usize)> {
        debug_assert!(self.has(from), "{from:?} is of another node");
        walk::rfind(self.buf, needle, from.0, self.head.start).map(|(at, passed)| (EntryPos(at), passed))
    }

    /// All entries, from either end.
    #[inline]
    pub fn iter(&self) -> Iter<'a> {
        Iter { buf: self.buf, at: self.head.start, end: self.head.end, left: self.head.count }
    }

    /// The entry at `place` and all behind it.
    pub fn iter_from(&self, place: EntryPos) -> impl Iterator<Item = PackedEntry<'a>> + use<'a> {
        debug_assert!(self.has(place), "{place:?} is of another node");
        let (buf, mut at) = (&self.buf[..self.head.end], place.0);
        std::iter::from_fn(move || {
            (at < buf.len()).then(|| {
                let entry = entry_at(buf, at);
                at += size_at(buf, at);
                entry
            })
        })
    }

    /// True if the position lies among the entries.
    #[inline]
    fn has(&self, place: EntryPos) -> bool {
        (self.head.start..self.head.end).contains(&place.0)
    }

    /// The bytes of the entries.
    fn entries(&self) -> &'a [u8] {
        &self.buf[self.head.start..self.head.end]
    }

    /// Offset of entry `index`; that of `len` is the end.
    fn offset_of(&self, index: usize) -> usize {
        let Header { start, end, count, .. } = self.head;
        assert!(index <= count, "entry {index} of {count}");
        if index <= count / 2 {
            walk::forward(&self.buf[..end], start, index)
        } else {
            walk::backward(self.buf, end, start, count - index)
        }
    }
}

impl<'a> IntoIterator for &Node<'a> {
    type Item = PackedEntry<'a>;
    type IntoIter = Iter<'a>;

    fn into_iter(self) -> Iter<'a> {
        self.iter()
    }
}

/// Lays `entries` out in `into`.
fn write_node(into: &mut [u8], entries: &[u8], count: usize, grow: Grow) -> Result<(), Full> {
    let head = lay_out(into.len(), entries.len(), count, grow)?;
    into[head.start..head.end].copy_from_slice(entries);
    head.write(into);
    Ok(())
}

/// The header of a node of `bytes` of entries in a buffer of `capacity`.
fn lay_out(capacity: usize, bytes: usize, count: usize, grow: Grow) -> Result<Header, Full> {
    let needed = buffer_bytes(bytes);
    if capacity < needed {
        return Err(Full { needed });
    }
    let form = Form::for_buffer(capacity);
    let room = capacity.min(form.limit()) - form.header_bytes() - bytes;
    let front = match grow {
        Grow::Front => room,
        Grow::Back => 0,
        Grow::Both => room / 2,
    };
    debug_assert!(front <= room && count <= bytes, "{count} entries of {bytes} bytes, {front} of {room} in front");
    let start = form.header_bytes() + front;
    Ok(Header { form, start, end: start + bytes, count })
}

/// The entries of a node, from either end.
#[derive(Clone, Debug)]
pub struct Iter<'a> {
    buf: &'a [u8],
    at: usize,
    end: usize,
    left: usize,
}

impl<'a> Iterator for Iter<'a> {
    type Item = PackedEntry<'a>;

    #[inline]
    fn next(&mut self) -> Option<PackedEntry<'a>> {
        self.left = self.left.checked_sub(1)?;
        debug_assert!(self.at < self.end, "{} entries more than the bytes have", self.left + 1);
        let entry = entry_at(self.buf, self.at);
        self.at += size_at(self.buf, self.at);
        Some(entry)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl<'a> DoubleEndedIterator for Iter<'a> {
    #[inline]
    fn next_back(&mut self) -> Option<PackedEntry<'a>> {
        self.left = self.left.checked_sub(1)?;
        self.end -= size_before(self.buf, self.end);
        debug_assert!(self.at <= self.end, "the last entry begins before the first");
        Some(entry_at(self.buf, self.end))
    }
}

impl ExactSizeIterator for Iter<'_> {}
