//! A packed leaf: elements of a hash or a set, mostly some KB of them, each found by a tag, one byte of its hash.
//!
//! ```text
//!   0      4           4+n          4+n+w*n                                                  length of the buffer
//!   +------+-----------+------------+-------------------+-------------+-----+-----------+-----------+
//!   | head | n tags    | n sizes    |  free room        | element n-1 | ... | element 1 | element 0 |
//!   +------+-----------+------------+-------------------+-------------+-----+-----------+-----------+
//!   head   count: 12 bits, bytes of all elements: 3 high bits, wide: 1 bit | bytes of all elements: 16 low bits
//!   size   w = 1 byte each; w = 2 in a wide leaf: its elements may have over 255 bytes, or lie elsewhere
//!          (the top bit of the size: the element is the 8 bytes of a number that the owner of the leaf understands)
//! ```
//! Elements keep the order in which they came. Tags are compared many at a time; where an element begins is the sum of the
//! sizes before it, counted from the end of the buffer. Sizes written in front of each element were tried: a search then
//! reads each element before the one that it wants, which takes four times as long at 50 elements a leaf.
//!
//! A new element is written below the last one and moves only the sizes. Whether it fits depends on [`PackedLeaf::room`]
//! alone. The buffer may be longer than what is used: the leaf takes its capacity from the slice that it is given.
//!
//! A leaf does not allocate, does not know what its elements mean (`pair` reads those of hashes), and does not hash.

mod edit;
pub mod pair;
#[cfg(test)]
mod tests;

pub use edit::PackedLeafMut;

use crate::{Fault, Full};

/// Bytes of the head.
const HEAD_BYTES: usize = 4;
/// Most elements of a leaf.
pub const LEAF_ELEMENTS_MAX: usize = COUNT_BITS as usize;
/// Most bytes of all elements of a leaf.
pub const LEAF_BYTES_MAX: usize = (1 << 19) - 1;
/// Most bytes of an element in a leaf.
pub const LEAF_ELEMENT_BYTES_MAX: usize = 0x7fff;
/// The bits of a head's first half that hold the count.
const COUNT_BITS: u16 = 0xfff;
/// Where the high bits of the elements' bytes begin in a head's first half.
const HIGH_AT: u32 = 12;
/// The bit of a wide size that says that the element lies elsewhere.
const ELSEWHERE: u16 = 1 << 15;
/// Bytes of an element that lies elsewhere: those of its number.
const NUMBER_BYTES: usize = 8;
/// The largest size that one byte holds.
const NARROW_MAX: usize = u8::MAX as usize;
/// Sizes that are summed at once: their sums fit in four lanes of 16 bits.
const LANE_SIZES: usize = 8 * (u16::MAX as usize / (2 * NARROW_MAX));
/// The low byte of each lane of 16 bits.
const LOW_BYTES: u64 = 0x00ff_00ff_00ff_00ff;
/// The bit of a head's first half that says that sizes have two bytes.
const WIDE: u16 = 1 << 15;

/// The head, taken apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct LeafHead {
    count: usize,
    bytes: usize,
    wide: bool,
}

impl LeafHead {
    const EMPTY: LeafHead = LeafHead { count: 0, bytes: 0, wide: false };

    #[inline(always)]
    fn read(buf: &[u8]) -> LeafHead {
        let head: &[u8; HEAD_BYTES] = buf.first_chunk().expect("a leaf has a head");
        let first = u16::from_le_bytes([head[0], head[1]]);
        let (low, high) = (u16::from_le_bytes([head[2], head[3]]), (first & !WIDE) >> HIGH_AT);
        let bytes = usize::from(low) | usize::from(high) << u16::BITS;
        LeafHead { count: (first & COUNT_BITS).into(), bytes, wide: first & WIDE != 0 }
    }

    #[inline(always)]
    fn write(self, buf: &mut [u8]) {
        debug_assert!(self.count <= LEAF_ELEMENTS_MAX && self.bytes <= LEAF_BYTES_MAX, "{self:?} has no head");
        let high = ((self.bytes >> u16::BITS) as u16) << HIGH_AT;
        let first = self.count as u16 | high | if self.wide { WIDE } else { 0 };
        buf[..2].copy_from_slice(&first.to_le_bytes());
        buf[2..HEAD_BYTES].copy_from_slice(&(self.bytes as u16).to_le_bytes());
    }

    /// Bytes of a size.
    #[inline(always)]
    const fn width(self) -> usize {
        1 + self.wide as usize
    }

    /// Where the sizes begin.
    #[inline(always)]
    fn sizes_at(self) -> usize {
        HEAD_BYTES + self.count
    }

    /// Where the sizes end and the free room begins.
    #[inline(always)]
    const fn front(self) -> usize {
        HEAD_BYTES + self.count * (1 + self.width())
    }

    /// Bytes of the smallest buffer for such a leaf.
    #[inline(always)]
    const fn needed(self) -> usize {
        self.front() + self.bytes
    }

    /// The head with one element of `size` bytes more.
    #[inline(always)]
    fn with(self, size: usize, elsewhere: bool) -> LeafHead {
        let wide = self.wide || elsewhere || size > NARROW_MAX;
        LeafHead { count: self.count + 1, bytes: self.bytes + size, wide }
    }

    /// True if the numbers are no more than a head can hold.
    fn is_in_bounds(self) -> bool {
        self.count <= LEAF_ELEMENTS_MAX && self.bytes <= LEAF_BYTES_MAX
    }
}

/// The part of an element that its leaf has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeafElement<'a> {
    /// Its bytes.
    Here(&'a [u8]),
    /// The number under which the owner of the leaf finds it.
    Elsewhere(u64),
}

/// An element's number in its leaf, and where it lies; valid until the leaf is changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ElementPos {
    index: usize,
    /// Offset of its first byte.
    at: usize,
    size: usize,
    elsewhere: bool,
}

impl ElementPos {
    /// The number of the element, from 0.
    #[inline]
    pub fn index(self) -> usize {
        self.index
    }
}

/// Bytes of the smallest buffer for a leaf of `count` elements with `bytes` bytes together, of which the longest has
/// `longest`.
pub const fn leaf_bytes(count: usize, bytes: usize, longest: usize) -> usize {
    LeafHead { count, bytes, wide: longest > NARROW_MAX }.needed()
}

/// A leaf to read.
#[derive(Clone, Copy, Debug)]
pub struct PackedLeaf<'a> {
    buf: &'a [u8],
    head: LeafHead,
}

impl<'a> PackedLeaf<'a> {
    /// Opens a leaf that this crate wrote.
    ///
    /// # Panics
    /// If the head cannot be that of a leaf in this buffer. Other damage panics where it is met: see
    /// [`PackedLeaf::check`].
    #[inline(always)]
    pub fn open(buf: &'a [u8]) -> PackedLeaf<'a> {
        let head = LeafHead::read(buf);
        assert!(head.needed() <= buf.len(), "the elements lie in the buffer");
        PackedLeaf { buf, head }
    }

    /// Opens bytes of which nothing is known. O(N).
    ///
    /// # Errors
    /// If the head is damaged, or the sizes are not those of all the elements' bytes.
    pub fn check(buf: &'a [u8]) -> Result<PackedLeaf<'a>, Fault> {
        if buf.len() < HEAD_BYTES {
            return Err(Fault { at: 0, what: "no head" });
        }
        let head = LeafHead::read(buf);
        if head.needed() > buf.len() {
            return Err(Fault { at: 0, what: "more elements than bytes" });
        }
        let leaf = PackedLeaf { buf, head };
        if leaf.bytes_before(head.count) != head.bytes {
            return Err(Fault { at: head.sizes_at(), what: "the sizes are not those of the elements" });
        }
        if (0..head.count).any(|index| leaf.is_elsewhere(index) && leaf.size(index) != NUMBER_BYTES) {
            return Err(Fault { at: head.sizes_at(), what: "a number has eight bytes" });
        }
        Ok(leaf)
    }

    /// Panics if the leaf is not sound. O(N).
    pub fn verify(&self) {
        if let Err(fault) = PackedLeaf::check(self.buf) {
            panic!("leaf of {} bytes: {} at {}", self.buf.len(), fault.what, fault.at);
        }
    }

    /// Number of elements.
    #[inline]
    pub fn len(&self) -> usize {
        self.head.count
    }

    /// Whether there is no element.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.head.count == 0
    }

    /// Bytes of the elements, without their tags and sizes.
    #[inline]
    pub fn bytes(&self) -> usize {
        self.head.bytes
    }

    /// Bytes of the smallest buffer that holds the leaf.
    #[inline]
    pub fn copied_bytes(&self) -> usize {
        LeafHead { wide: self.head.wide && self.is_wide(), ..self.head }.needed()
    }

    /// Bytes of the smallest buffer in which an element of `size` bytes could be pushed; `None` if no leaf may be so large.
    #[inline]
    pub fn needed_to_push(&self, size: usize) -> Option<usize> {
        let head = self.head.with(size, false);
        (head.is_in_bounds() && size <= LEAF_ELEMENT_BYTES_MAX).then(|| head.needed())
    }

    /// Bytes of the smallest buffer in which this element could be added; `None` if no leaf may be so large.
    #[inline]
    pub fn needed_with(&self, element: LeafElement<'_>) -> Option<usize> {
        let (size, elsewhere) = match element {
            LeafElement::Here(bytes) => (bytes.len(), false),
            LeafElement::Elsewhere(_) => (NUMBER_BYTES, true),
        };
        let head = self.head.with(size, elsewhere);
        (head.is_in_bounds() && size <= LEAF_ELEMENT_BYTES_MAX).then(|| head.needed())
    }

    /// Bytes at the front of the buffer: head, tags and sizes. The elements lie at its end.
    #[inline]
    pub fn front_bytes(&self) -> usize {
        self.head.front()
    }

    /// Free bytes of the buffer.
    #[inline]
    pub fn room(&self) -> usize {
        debug_assert!(self.head.needed() <= self.buf.len(), "the elements lie in the buffer");
        self.buf.len() - self.head.needed()
    }

    /// Writes the leaf into another buffer.
    ///
    /// # Errors
    /// If `into` has fewer than [`copied_bytes`](PackedLeaf::copied_bytes) bytes; then it is left alone.
    pub fn copy_into(&self, into: &mut [u8]) -> Result<(), Full> {
        let needed = self.copied_bytes();
        if into.len() < needed {
            return Err(Full { needed });
        }
        let head = LeafHead { wide: needed == self.head.needed() && self.head.wide, ..self.head };
        head.write(into);
        into[HEAD_BYTES..head.sizes_at()].copy_from_slice(self.tags());
        if head.wide == self.head.wide {
            into[head.sizes_at()..head.front()].copy_from_slice(&self.buf[head.sizes_at()..head.front()]);
        } else {
            debug_assert!(!self.is_wide(), "an element of over {NARROW_MAX} bytes");
            (0..head.count).for_each(|n| into[head.sizes_at() + n] = self.size(n) as u8);
        }
        let (to, from) = (into.len() - head.bytes, self.buf.len() - head.bytes);
        debug_assert!(to >= head.front() && from >= self.head.front(), "elements lie over sizes");
        into[to..].copy_from_slice(&self.buf[from..]);
        Ok(())
    }

    /// Searches for the element with this tag that `is` says yes to.
    #[inline(always)]
    pub fn find(&self, tag: u8, mut is: impl FnMut(LeafElement<'a>) -> bool) -> Option<ElementPos> {
        self.tagged(tag).map(|index| self.pos(index)).find(|&pos| is(self.get(pos)))
    }

    /// The numbers of all elements with this tag.
    #[inline]
    pub fn tagged(&self, tag: u8) -> impl Iterator<Item = usize> + use<'a> {
        memchr::memchr_iter(tag, self.tags())
    }

    /// The position of element number `index`, from 0.
    ///
    /// # Panics
    /// If the leaf has fewer than `index` + 1 elements.
    #[inline]
    pub fn pos(&self, index: usize) -> ElementPos {
        assert!(index < self.head.count, "element {index} of {}", self.head.count);
        let size = self.size(index);
        let at = self.buf.len() - self.bytes_before(index) - size;
        debug_assert!(at >= self.head.front(), "element {index} lies over the sizes");
        ElementPos { index, at, size, elsewhere: self.is_elsewhere(index) }
    }

    /// The element at a position.
    #[inline(always)]
    pub fn get(&self, pos: ElementPos) -> LeafElement<'a> {
        debug_assert!(pos.index < self.head.count && pos == self.pos(pos.index), "{pos:?} is of another leaf");
        element(&self.buf[pos.at..pos.at + pos.size], pos.elsewhere)
    }

    /// The element number `index`.
    ///
    /// # Panics
    /// If the leaf has fewer than `index` + 1 elements.
    #[inline]
    pub fn nth(&self, index: usize) -> LeafElement<'a> {
        self.get(self.pos(index))
    }

    /// Each element with its tag, in the order in which they came.
    #[inline]
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (u8, LeafElement<'a>)> + Clone + use<'a> {
        let (leaf, mut end) = (*self, self.buf.len());
        leaf.tags().iter().enumerate().map(move |(index, &tag)| {
            let at = end - leaf.size(index);
            let bytes = &leaf.buf[at..end];
            end = at;
            (tag, element(bytes, leaf.is_elsewhere(index)))
        })
    }

    /// The elements from number `index` on, upwards.
    #[inline]
    pub fn from(&self, index: usize) -> impl Iterator<Item = LeafElement<'a>> + use<'a> {
        let (leaf, mut end) = (*self, self.buf.len() - self.bytes_before(index));
        (index..self.head.count).map(move |index| {
            let at = end - leaf.size(index);
            let bytes = &leaf.buf[at..end];
            end = at;
            element(bytes, leaf.is_elsewhere(index))
        })
    }

    /// The elements before number `end`, downwards from the last of them.
    #[inline]
    pub fn down_from(&self, end: usize) -> impl Iterator<Item = LeafElement<'a>> + use<'a> {
        debug_assert!(end <= self.head.count, "the elements before number {end} of {}", self.head.count);
        let (leaf, mut at) = (*self, self.buf.len() - self.bytes_before(end));
        (0..end).rev().map(move |index| {
            let end = at + leaf.size(index);
            let bytes = &leaf.buf[at..end];
            at = end;
            element(bytes, leaf.is_elsewhere(index))
        })
    }

    #[inline(always)]
    fn tags(&self) -> &'a [u8] {
        &self.buf[HEAD_BYTES..self.head.sizes_at()]
    }

    /// Size of element number `index`.
    #[inline(always)]
    fn size(&self, index: usize) -> usize {
        let at = self.head.sizes_at();
        if self.head.wide { wide_size(self.buf, at + 2 * index) } else { self.buf[at + index].into() }
    }

    /// Whether element number `index` lies elsewhere.
    #[inline(always)]
    fn is_elsewhere(&self, index: usize) -> bool {
        self.head.wide && self.buf[self.head.sizes_at() + 2 * index + 1] & (ELSEWHERE >> 8) as u8 != 0
    }

    /// Bytes of the elements before number `index`.
    #[inline(always)]
    fn bytes_before(&self, index: usize) -> usize {
        debug_assert!(index <= self.head.count, "the elements before number {index} of {}", self.head.count);
        let sizes = &self.buf[self.head.sizes_at()..][..index * self.head.width()];
        if self.head.wide {
            return sizes.chunks_exact(2).map(|size| wide_size(size, 0)).sum();
        }
        if index > LANE_SIZES {
            return sizes.iter().map(|&size| u32::from(size)).sum::<u32>() as usize;
        }
        // Eight sizes at a time in lanes of 16 bits. Behind the last sizes lies another one or an element, mostly.
        let (words, rest) = sizes.as_chunks::<8>();
        let add = |sums: u64, word: u64| sums + (word & LOW_BYTES) + (word >> 8 & LOW_BYTES);
        let mut sums = words.iter().fold(0, |sums, word| add(sums, u64::from_le_bytes(*word)));
        if !rest.is_empty() {
            let word = self.buf[self.head.sizes_at() + index - rest.len()..].first_chunk::<8>();
            let mut last = [0; 8];
            last[..rest.len()].copy_from_slice(rest);
            let mask = !(!0 << (8 * rest.len()));
            sums = add(sums, word.map_or(u64::from_le_bytes(last), |word| u64::from_le_bytes(*word) & mask));
        }
        let pairs = (sums & 0xffff_0000_ffff) + (sums >> 16 & 0xffff_0000_ffff);
        (pairs as u32 as usize) + (pairs >> 32) as usize
    }

    /// True if an element needs a wide size. O(N).
    fn is_wide(&self) -> bool {
        (0..self.head.count).any(|index| self.size(index) > NARROW_MAX || self.is_elsewhere(index))
    }
}

#[inline(always)]
fn wide_size(buf: &[u8], at: usize) -> usize {
    (u16::from_le_bytes([buf[at], buf[at + 1]]) & !ELSEWHERE).into()
}

#[inline(always)]
fn element(bytes: &[u8], elsewhere: bool) -> LeafElement<'_> {
    if elsewhere {
        return LeafElement::Elsewhere(u64::from_le_bytes(bytes.try_into().expect("a number has eight bytes")));
    }
    LeafElement::Here(bytes)
}
