//! Changing a leaf in the buffer that it has.

use super::{
    ELSEWHERE, ElementPos, HEAD_BYTES, LEAF_ELEMENT_BYTES_MAX, LeafElement, LeafHead, NARROW_MAX, NUMBER_BYTES,
    PackedLeaf, wide_size,
};
use crate::Full;

/// A leaf to change.
#[derive(Debug)]
pub struct PackedLeafMut<'a> {
    buf: &'a mut [u8],
    head: LeafHead,
}

impl<'a> PackedLeafMut<'a> {
    /// Makes an empty leaf of a buffer.
    ///
    /// # Errors
    /// If there is no room for a head.
    pub fn init(buf: &'a mut [u8]) -> Result<PackedLeafMut<'a>, Full> {
        if buf.len() < HEAD_BYTES {
            return Err(Full { needed: HEAD_BYTES });
        }
        let head = LeafHead::EMPTY;
        head.write(buf);
        Ok(PackedLeafMut { buf, head })
    }

    /// Makes a leaf of these elements, each with its tag, of a buffer.
    ///
    /// # Errors
    /// If there is no room for them. A leaf that may be no larger asks for `usize::MAX` bytes.
    pub fn init_with<'e, I>(buf: &'a mut [u8], elements: I) -> Result<PackedLeafMut<'a>, Full>
    where
        I: Iterator<Item = (u8, LeafElement<'e>)> + Clone,
    {
        let add = |head: LeafHead, (_, element): (u8, LeafElement<'_>)| match element {
            LeafElement::Here(bytes) => head.with(bytes.len(), false),
            LeafElement::Elsewhere(_) => head.with(NUMBER_BYTES, true),
        };
        let head = elements.clone().fold(LeafHead::EMPTY, add);
        if !head.is_in_bounds() {
            return Err(Full { needed: usize::MAX });
        }
        if head.needed() > buf.len() {
            return Err(Full { needed: head.needed() });
        }
        head.write(buf);
        let mut leaf = PackedLeafMut { buf, head };
        let mut end = leaf.buf.len();
        for (index, (tag, element)) in elements.enumerate() {
            debug_assert!(index < head.count, "the elements are the same when they come again");
            let number;
            let (bytes, elsewhere) = match element {
                LeafElement::Here(bytes) => (bytes, false),
                LeafElement::Elsewhere(n) => {
                    number = n.to_le_bytes();
                    (&number[..], true)
                }
            };
            leaf.buf[HEAD_BYTES + index] = tag;
            leaf.set_size(head.sizes_at() + index * head.width(), bytes.len(), elsewhere);
            leaf.buf[end - bytes.len()..end].copy_from_slice(bytes);
            end -= bytes.len();
        }
        Ok(leaf)
    }

    /// Opens a leaf that this crate wrote.
    ///
    /// # Panics
    /// If the head cannot be that of a leaf in this buffer.
    #[inline(always)]
    pub fn open(buf: &'a mut [u8]) -> PackedLeafMut<'a> {
        let head = PackedLeaf::open(buf).head;
        PackedLeafMut { buf, head }
    }

    /// The leaf, to read.
    #[inline(always)]
    pub fn leaf(&self) -> PackedLeaf<'_> {
        PackedLeaf { buf: self.buf, head: self.head }
    }

    /// Adds an element, made of `parts`, behind the others.
    ///
    /// # Errors
    /// If there is no room; nothing is changed then. A leaf that may be no larger asks for `usize::MAX` bytes.
    #[inline]
    pub fn push(&mut self, tag: u8, parts: &[&[u8]]) -> Result<(), Full> {
        self.push_as(tag, parts, false)
    }

    /// Adds an element behind the others that lies elsewhere, under this number.
    ///
    /// # Errors
    /// If there is no room, see [`PackedLeafMut::push`].
    pub fn push_elsewhere(&mut self, tag: u8, number: u64) -> Result<(), Full> {
        self.push_as(tag, &[&number.to_le_bytes()], true)
    }

    /// Adds an element as another leaf has it.
    ///
    /// # Errors
    /// If there is no room, see [`PackedLeafMut::push`].
    #[inline]
    pub fn push_element(&mut self, tag: u8, element: LeafElement<'_>) -> Result<(), Full> {
        match element {
            LeafElement::Here(bytes) => self.push(tag, &[bytes]),
            LeafElement::Elsewhere(number) => self.push_elsewhere(tag, number),
        }
    }

    #[inline(always)]
    fn push_as(&mut self, tag: u8, parts: &[&[u8]], elsewhere: bool) -> Result<(), Full> {
        let size = parts.iter().map(|part| part.len()).sum();
        let new = self.admit(self.head.with(size, elsewhere), size)?;
        if new.wide != self.head.wide {
            self.widen();
        }
        let (old, width) = (self.head, new.width());
        // The sizes make place for one more tag.
        self.buf.copy_within(old.sizes_at()..old.front(), new.sizes_at());
        self.buf[old.sizes_at()] = tag;
        self.set_size(new.front() - width, size, elsewhere);
        let at = self.buf.len() - new.bytes;
        debug_assert!(at >= new.front(), "the element lies over the sizes");
        write_parts(&mut self.buf[at..at + size], parts);
        self.set_head(new);
        Ok(())
    }

    /// Adds an element as another leaf has it, as number `index`: those from there on follow it.
    ///
    /// # Errors
    /// If there is no room, see [`PackedLeafMut::push`].
    ///
    /// # Panics
    /// If the leaf has fewer than `index` elements.
    #[inline]
    pub fn insert(&mut self, index: usize, tag: u8, element: LeafElement<'_>) -> Result<(), Full> {
        assert!(index <= self.head.count, "an element before number {index} of {}", self.head.count);
        match element {
            LeafElement::Here(bytes) => self.insert_as(index, tag, &[bytes], false),
            LeafElement::Elsewhere(number) => self.insert_as(index, tag, &[&number.to_le_bytes()], true),
        }
    }

    /// Adds an element as number `index`. A push is not made of this: SADD would take 4% more instructions.
    #[inline(always)]
    fn insert_as(&mut self, index: usize, tag: u8, parts: &[&[u8]], elsewhere: bool) -> Result<(), Full> {
        let size = parts.iter().map(|part| part.len()).sum();
        let new = self.admit(self.head.with(size, elsewhere), size)?;
        if new.wide != self.head.wide {
            self.widen();
        }
        let (old, width) = (self.head, new.width());
        let before = if index == old.count { old.bytes } else { self.leaf().bytes_before(index) };
        let end = self.buf.len() - before;
        self.move_below(end, end - size);
        debug_assert!(self.buf.len() - new.bytes >= new.front(), "the element lies over the sizes");
        write_parts(&mut self.buf[end - size..end], parts);
        // The sizes make place for one more tag, and those behind its own for its own as well.
        let size_at = old.sizes_at() + index * width;
        if index < old.count {
            self.buf.copy_within(size_at..old.front(), size_at + 1 + width);
            self.buf.copy_within(HEAD_BYTES + index..size_at, HEAD_BYTES + index + 1);
        } else {
            self.buf.copy_within(old.sizes_at()..old.front(), new.sizes_at());
        }
        self.buf[HEAD_BYTES + index] = tag;
        self.set_size(size_at + 1, size, elsewhere);
        self.set_head(new);
        Ok(())
    }

    /// Puts another content, made of `parts`, in the place of an element, which keeps its tag and its number.
    ///
    /// # Errors
    /// If there is no room; nothing is changed then. A leaf that may be no larger asks for `usize::MAX` bytes.
    pub fn replace(&mut self, pos: ElementPos, parts: &[&[u8]]) -> Result<(), Full> {
        self.replace_as(pos, parts, false)
    }

    /// Lets an element, which keeps its tag and its number in the leaf, lie elsewhere, under `number`.
    ///
    /// # Errors
    /// If there is no room, see [`PackedLeafMut::replace`].
    pub fn replace_elsewhere(&mut self, pos: ElementPos, number: u64) -> Result<(), Full> {
        self.replace_as(pos, &[&number.to_le_bytes()], true)
    }

    #[inline(always)]
    fn replace_as(&mut self, pos: ElementPos, parts: &[&[u8]], elsewhere: bool) -> Result<(), Full> {
        debug_assert_eq!(pos, self.leaf().pos(pos.index), "the position is of another leaf");
        let size: usize = parts.iter().map(|part| part.len()).sum();
        let bytes = self.head.bytes - pos.size + size;
        let wide = self.head.wide || elsewhere || size > NARROW_MAX;
        let new = self.admit(LeafHead { bytes, wide, ..self.head }, size)?;
        let end = pos.at + pos.size;
        self.move_below(pos.at, end - size);
        write_parts(&mut self.buf[end - size..end], parts);
        self.head.bytes = new.bytes;
        if new.wide != self.head.wide {
            self.widen();
        }
        self.set_size(new.sizes_at() + pos.index * new.width(), size, elsewhere);
        self.set_head(new);
        Ok(())
    }

    /// Removes an element; those behind it keep their order.
    pub fn remove(&mut self, pos: ElementPos) {
        debug_assert_eq!(pos, self.leaf().pos(pos.index), "the position is of another leaf");
        let (old, width) = (self.head, self.head.width());
        self.move_below(pos.at, pos.at + pos.size);
        let new = LeafHead { count: old.count - 1, bytes: old.bytes - pos.size, ..old };
        // Tags behind its own move by one, sizes before its own by one, those behind by one more size.
        let (tag, size) = (HEAD_BYTES + pos.index, old.sizes_at() + pos.index * width);
        self.buf.copy_within(tag + 1..size, tag);
        self.buf.copy_within(size + width..old.front(), size - 1);
        self.set_head(new);
    }

    /// Moves the elements below `from`, which are those that came later, so that they end at `to`.
    #[inline]
    fn move_below(&mut self, from: usize, to: usize) {
        let low = self.buf.len() - self.head.bytes;
        debug_assert!(low <= from && low + to >= from, "elements of {low}..{from} would end at {to}");
        if from != to {
            self.buf.copy_within(low..from, low + to - from);
        }
    }

    /// The head, if a leaf may have it, with an element of `size` bytes, and it fits in this buffer.
    #[inline]
    fn admit(&self, head: LeafHead, size: usize) -> Result<LeafHead, Full> {
        if !head.is_in_bounds() || size > LEAF_ELEMENT_BYTES_MAX {
            return Err(Full { needed: usize::MAX });
        }
        if head.needed() > self.buf.len() {
            return Err(Full { needed: head.needed() });
        }
        Ok(head)
    }

    /// Gives each size two bytes; there is room for that.
    #[cold]
    fn widen(&mut self) {
        let (at, count) = (self.head.sizes_at(), self.head.count);
        debug_assert!(!self.head.wide && self.head.needed() + count <= self.buf.len(), "no room for wide sizes");
        for index in (0..count).rev() {
            let size = u16::from(self.buf[at + index]);
            self.buf[at + 2 * index..][..2].copy_from_slice(&size.to_le_bytes());
        }
        self.set_head(LeafHead { wide: true, ..self.head });
    }

    /// Writes the size at `at`, as wide as the leaf's sizes are.
    #[inline]
    fn set_size(&mut self, at: usize, size: usize, elsewhere: bool) {
        if self.head.wide {
            let word = size as u16 | if elsewhere { ELSEWHERE } else { 0 };
            self.buf[at..at + 2].copy_from_slice(&word.to_le_bytes());
            debug_assert_eq!(wide_size(self.buf, at), size);
        } else {
            debug_assert!(size <= NARROW_MAX && !elsewhere, "{size} bytes in a narrow leaf");
            self.buf[at] = size as u8;
        }
    }

    #[inline]
    fn set_head(&mut self, head: LeafHead) {
        head.write(self.buf);
        self.head = head;
    }
}

#[inline]
fn write_parts(mut to: &mut [u8], parts: &[&[u8]]) {
    for part in parts {
        let (here, rest) = to.split_at_mut(part.len());
        here.copy_from_slice(part);
        to = rest;
    }
    debug_assert!(to.is_empty(), "the parts fill the element");
}
