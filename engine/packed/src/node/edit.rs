//! Changing a node: everything comes down to a gap that is opened or closed at one place.
//!
//! ```text
//!   open a gap of g bytes at `at`          start                at                end
//!                                          | front part         | back part       |
//!   the shorter part moves, if its end     | front part      |g | back part       |      front part to the left
//!   has room; else the other               | front part         |g | back part       |   back part to the right
//!   neither end has room, both together    the whole is laid out anew, maybe under a wider header
//! ```

use super::entry::{Coded, Encoded, PackedEntry, entry_at, size_at, size_before};
use super::header::{Form, Header};
use super::{EntryPos, Grow, Node, buffer_bytes, is_compressed, lay_out, write_node};
use crate::Full;

/// A node to change.
#[derive(Debug)]
pub struct NodeMut<'a> {
    buf: &'a mut [u8],
    head: Header,
}

impl<'a> NodeMut<'a> {
    /// Makes an empty node of `buf`, with its free room where it will `grow`.
    ///
    /// # Errors
    /// If `buf` is smaller than an empty node: `buffer_bytes(0)`.
    pub fn init(buf: &'a mut [u8], grow: Grow) -> Result<NodeMut<'a>, Full> {
        let head = lay_out(buf.len(), 0, 0, grow)?;
        head.write(buf);
        Ok(NodeMut { buf, head })
    }

    /// Opens a node that this crate wrote.
    ///
    /// # Panics
    /// If the header cannot be one.
    #[inline]
    pub fn open(buf: &'a mut [u8]) -> NodeMut<'a> {
        let head = Node::open(buf).head;
        NodeMut { buf, head }
    }

    /// Opens a node that this crate wrote; none if it is a compressed one.
    #[inline]
    pub fn open_plain(buf: &'a mut [u8]) -> Option<NodeMut<'a>> {
        if is_compressed(buf) { None } else { Some(NodeMut::open(buf)) }
    }

    /// The node, to read.
    #[inline]
    pub fn node(&self) -> Node<'_> {
        Node { buf: self.buf, head: self.head }
    }

    /// Adds an entry at the front.
    ///
    /// # Errors
    /// If there is no room; so with all changes below that add bytes. Nothing is changed then.
    #[inline]
    pub fn push_front(&mut self, entry: &impl Encoded) -> Result<(), Full> {
        let size = entry.size();
        if self.node().front_room() < size {
            self.slide(self.head.start, 0, size, 3)?;
        } else {
            self.head.start -= size;
        }
        self.put(self.head.start, entry);
        Ok(())
    }

    /// Adds an entry at the back.
    #[inline]
    pub fn push_back(&mut self, entry: &impl Encoded) -> Result<(), Full> {
        let size = entry.size();
        let at = if self.node().back_room() < size {
            self.slide(self.head.end, 0, size, 1)?
        } else {
            self.head.end += size;
            self.head.end - size
        };
        self.put(at, entry);
        Ok(())
    }

    /// Takes the first entry away. Its bytes can be read until the node is changed again.
    #[inline]
    pub fn pop_front(&mut self) -> Option<PackedEntry<'_>> {
        if self.head.count == 0 {
            return None;
        }
        let at = self.head.start;
        self.head.start += size_at(self.buf, at);
        self.head.count -= 1;
        debug_assert!((self.head.count == 0) == (self.head.start == self.head.end), "the bytes end with the entries");
        self.head.write(self.buf);
        Some(entry_at(self.buf, at))
    }

    /// Takes the last entry away. Its bytes can be read until the node is changed again.
    #[inline]
    pub fn pop_back(&mut self) -> Option<PackedEntry<'_>> {
        if self.head.count == 0 {
            return None;
        }
        self.head.end -= size_before(self.buf, self.head.end);
        self.head.count -= 1;
        debug_assert!((self.head.count == 0) == (self.head.start == self.head.end), "the bytes end with the entries");
        self.head.write(self.buf);
        Some(entry_at(self.buf, self.head.end))
    }

    /// Adds an entry before that at `place`; returns where the new one is.
    pub fn insert_before(&mut self, place: EntryPos, entry: &Coded<'_>) -> Result<EntryPos, Full> {
        let at = self.gap(place.0, 0, entry.size())?;
        self.put(at, entry);
        Ok(EntryPos(at))
    }

    /// Adds an entry after that at `place`; returns where the new one is.
    pub fn insert_after(&mut self, place: EntryPos, entry: &Coded<'_>) -> Result<EntryPos, Full> {
        assert!(self.node().has(place), "{place:?} is of another node");
        let after = place.0 + size_at(self.buf, place.0);
        self.insert_before(EntryPos(after), entry)
    }

    /// Puts another entry in the place of one; returns where it is.
    pub fn replace(&mut self, place: EntryPos, entry: &Coded<'_>) -> Result<EntryPos, Full> {
        debug_assert!(self.node().has(place), "{place:?} is of another node");
        let at = self.gap(place.0, size_at(self.buf, place.0), entry.size())?;
        self.head.count -= 1;
        self.put(at, entry);
        Ok(EntryPos(at))
    }

    /// Removes the entry at `place`; returns the place of the one that followed it.
    pub fn remove(&mut self, place: EntryPos) -> Option<EntryPos> {
        self.remove_range(place, 1)
    }

    /// Removes the entry at `place` and those behind it, `many` in all or as many as there are; returns the place of
    /// the one that followed them.
    pub fn remove_range(&mut self, place: EntryPos, many: usize) -> Option<EntryPos> {
        assert!(self.node().has(place), "{place:?} is of another node");
        let (mut end, mut gone) = (place.0, 0);
        while gone < many && end < self.head.end {
            end += size_at(self.buf, end);
            gone += 1;
        }
        self.cut(place.0, end, gone)
    }

    /// Removes the entries number `from..to`; finds both from the nearer end.
    ///
    /// # Panics
    /// If there are fewer than `to` entries.
    pub fn remove_indices(&mut self, from: usize, to: usize) {
        assert!(from <= to, "entries {from}..{to}");
        let (start, end) = (self.node().offset_of(from), self.node().offset_of(to));
        self.cut(start, end, to - from);
    }

    /// Removes everything; all room is where the node will `grow`.
    pub fn clear(&mut self, grow: Grow) {
        self.head = lay_out(self.buf.len(), 0, 0, grow).expect("a node has room for its header");
        self.head.write(self.buf);
    }

    /// Moves the entries from number `index` on into a new node in `into`.
    ///
    /// # Errors
    /// If `into` is too small for them.
    ///
    /// # Panics
    /// If there are fewer than `index` entries.
    pub fn split_at(&mut self, index: usize, into: &mut [u8], grow: Grow) -> Result<(), Full> {
        let at = self.node().offset_of(index);
        write_node(into, &self.buf[at..self.head.end], self.head.count - index, grow)?;
        self.head.end = at;
        self.head.count = index;
        self.head.write(self.buf);
        Ok(())
    }

    /// Adds all entries of another node behind the last.
    pub fn append(&mut self, other: Node<'_>) -> Result<(), Full> {
        let at = self.gap(self.head.end, 0, other.bytes())?;
        self.put_all(at, other);
        Ok(())
    }

    /// Adds all entries of another node before the first.
    pub fn prepend(&mut self, other: Node<'_>) -> Result<(), Full> {
        let at = self.gap(self.head.start, 0, other.bytes())?;
        self.put_all(at, other);
        Ok(())
    }

    /// Writes an entry into the gap at `at`, and the header.
    #[inline(always)]
    fn put(&mut self, at: usize, entry: &impl Encoded) {
        debug_assert!(self.head.start <= at && at + entry.size() <= self.head.end, "an entry is written into its gap");
        entry.write(&mut self.buf[at..]);
        self.head.count += 1;
        self.head.write(self.buf);
    }

    fn put_all(&mut self, at: usize, other: Node<'_>) {
        assert!(self.head.start <= at && at + other.bytes() <= self.head.end, "entries are written into their gap");
        self.buf[at..at + other.bytes()].copy_from_slice(other.entries());
        self.head.count += other.len();
        self.head.write(self.buf);
    }

    /// Removes the `gone` entries in `from..to`.
    fn cut(&mut self, from: usize, to: usize, gone: usize) -> Option<EntryPos> {
        assert!(from <= to && gone <= self.head.count, "{gone} of {} entries in {from}..{to}", self.head.count);
        let at = self.gap(from, to - from, 0).expect("removing needs no room");
        self.head.count -= gone;
        self.head.write(self.buf);
        (at < self.head.end).then_some(EntryPos(at))
    }

    /// Makes the `old` bytes at `at` a gap of `new` bytes and returns where it is. The header is not written yet.
    fn gap(&mut self, at: usize, old: usize, new: usize) -> Result<usize, Full> {
        let Header { start, end, .. } = self.head;
        assert!(start <= at && at + old <= end, "place {at} of entries in {start}..{end}");
        let front_shorter = at - start < end - (at + old);
        if new <= old {
            let less = old - new;
            if front_shorter {
                self.buf.copy_within(start..at, start + less);
                self.head.start += less;
                return Ok(at + less);
            }
            self.buf.copy_within(at + old..end, at + new);
            self.head.end -= less;
            return Ok(at);
        }
        let more = new - old;
        let (front_fits, back_fits) = (self.node().front_room() >= more, self.node().back_room() >= more);
        if front_fits && (front_shorter || !back_fits) {
            self.buf.copy_within(start..at, start - more);
            self.head.start -= more;
            return Ok(at - more);
        }
        if back_fits {
            self.buf.copy_within(at + old..end, at + new);
            self.head.end += more;
            return Ok(at);
        }
        self.slide(at, old, new, 2)
    }

    /// Lays the node out anew around a gap; `quarters` of the free room that is left go to the front.
    #[cold]
    fn slide(&mut self, at: usize, old: usize, new: usize, quarters: usize) -> Result<usize, Full> {
        let Header { start, end, .. } = self.head;
        let bytes = end - start - old + new;
        if self.node().room() + old < new {
            return Err(Full { needed: buffer_bytes(bytes) });
        }
        debug_assert!(quarters <= 4, "{quarters} quarters");
        let form = Form::for_buffer(self.buf.len());
        let spare = self.node().room() + old - new;
        let front = form.header_bytes() + spare * quarters / 4;
        let gap = front + (at - start);
        // The part that moves towards the other must not be moved before the other has made way.
        if gap + new > at + old {
            self.buf.copy_within(at + old..end, gap + new);
            self.buf.copy_within(start..at, front);
        } else {
            self.buf.copy_within(start..at, front);
            self.buf.copy_within(at + old..end, gap + new);
        }
        assert!(gap + new <= front + bytes, "a gap at {gap} of {bytes} bytes");
        self.head = Header { form, start: front, end: front + bytes, count: self.head.count };
        Ok(gap)
    }
}
