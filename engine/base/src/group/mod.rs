//! The head of an index bucket: two masks and seven tags, asked all at once.
//!
//! ```text
//! byte  0        1        2               4                    14              16
//!      +--------+--------+---------------+--  ...  ----------+---------------+
//!      | valid  | native |    tag 0      |                   |    tag 6      |
//!      +--------+--------+---------------+--  ...  ----------+---------------+
//! bit i of a mask speaks of tag i; bit 7 is always 0
//! ```
//!
//! The meaning of a question: look at each of the seven tags in turn, and set bit i of the answer where the tag equals.
//! `swar` does that on two 64-bit words and is the reference; `sse2` does it in one compare. Both are compiled on
//! x86-64 and pass the same tests; the feature `portable` makes the first the one in use.
//!
//! The use of tags and of native entries belongs to the index.

#[cfg(target_arch = "x86_64")]
#[cfg_attr(feature = "portable", allow(dead_code, reason = "compiled and tested everywhere, in use by one build"))]
mod sse2;
#[cfg_attr(
    all(target_arch = "x86_64", not(feature = "portable")),
    allow(dead_code, reason = "compiled and tested everywhere, in use by one build")
)]
mod swar;

#[cfg(all(target_arch = "x86_64", not(feature = "portable")))]
use sse2 as arch;
#[cfg(not(all(target_arch = "x86_64", not(feature = "portable"))))]
use swar as arch;

use std::ops::BitAnd;

/// Entries in one head.
pub const CELLS: usize = 7;

const ALL: u8 = (1 << CELLS) - 1;

/// The 16 bits of a hash by which the entries of one bucket are told apart.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Tag(pub u16);

/// A set of cells of one head.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Mask(u8);

impl Mask {
    /// Whether no cell is in it.
    #[inline(always)]
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Whether all seven cells are in it.
    #[inline(always)]
    pub fn is_full(self) -> bool {
        self.0 == ALL
    }

    /// How many cells are in it.
    #[inline(always)]
    pub fn count(self) -> usize {
        self.0.count_ones() as usize
    }

    /// The lowest cell in it.
    #[inline(always)]
    pub fn first(self) -> Option<usize> {
        if self.0 == 0 { None } else { Some(self.0.trailing_zeros() as usize) }
    }

    /// The cells that are not in it.
    #[inline(always)]
    pub fn others(self) -> Mask {
        Mask(!self.0 & ALL)
    }

    /// Whether `cell` is in it.
    #[inline(always)]
    pub fn has(self, cell: usize) -> bool {
        self.0 >> cell & 1 != 0
    }
}

impl BitAnd for Mask {
    type Output = Mask;

    #[inline(always)]
    fn bitand(self, other: Mask) -> Mask {
        Mask(self.0 & other.0)
    }
}

impl Iterator for Mask {
    type Item = usize;

    #[inline(always)]
    fn next(&mut self) -> Option<usize> {
        let cell = self.first()?;
        self.0 &= self.0 - 1;
        Some(cell)
    }
}

/// The first 16 bytes of a bucket. All zero is an empty one.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C, align(16))]
pub struct BucketHead {
    valid: u8,
    native: u8,
    tags: [u16; CELLS],
}

const _: () = assert!(size_of::<BucketHead>() == 16);

impl BucketHead {
    /// A head without entries.
    pub const EMPTY: BucketHead = BucketHead { valid: 0, native: 0, tags: [0; CELLS] };

    /// Cells that hold an entry.
    #[inline(always)]
    pub fn valid(&self) -> Mask {
        Self::mask(&self.valid)
    }

    /// Cells that hold an entry at home here.
    #[inline(always)]
    pub fn native(&self) -> Mask {
        Self::mask(&self.native)
    }

    /// Cells that hold an entry at home in another bucket.
    #[inline(always)]
    pub fn foreign(&self) -> Mask {
        self.valid() & self.native().others()
    }

    /// Cells that hold nothing.
    #[inline(always)]
    pub fn free(&self) -> Mask {
        self.valid().others()
    }

    /// The tag in `cell`; any value where the cell holds nothing.
    #[inline(always)]
    pub fn tag(&self, cell: usize) -> Tag {
        Tag(self.tags[cell])
    }

    /// Cells with this tag, those that hold nothing included: to be cut down by `native`, `foreign` or `valid`.
    #[inline(always)]
    pub fn with(&self, tag: Tag) -> Mask {
        Mask(arch::equal(self, tag.0))
    }

    /// Cells whose tag equals `tag` in the bits that are set in `bits`, those that hold nothing included.
    #[inline(always)]
    pub fn with_bits(&self, tag: Tag, bits: u16) -> Mask {
        Mask(arch::equal_under(self, tag.0, bits))
    }

    /// Reads one of the masks by itself.
    ///
    /// Volatile only so that it stays a load of one byte: else the compiler takes the masks out of the register in
    /// which the tags are compared, by shifts and a detour over the stack, which is slower than the compare.
    #[inline(always)]
    fn mask(byte: &u8) -> Mask {
        // SAFETY: a reference to an initialised byte is good to read.
        Mask(unsafe { std::ptr::from_ref(byte).read_volatile() })
    }

    /// Fills `cell`, which must be free.
    #[inline(always)]
    pub fn fill(&mut self, cell: usize, tag: Tag, native: bool) {
        debug_assert!(!self.valid().has(cell), "cell {cell} is taken");
        self.valid |= 1 << cell;
        self.native |= u8::from(native) << cell;
        self.tags[cell] = tag.0;
    }

    /// Empties `cell`, which must hold an entry.
    #[inline(always)]
    pub fn empty(&mut self, cell: usize) {
        debug_assert!(self.valid().has(cell), "cell {cell} is free");
        self.valid &= !(1 << cell);
        self.native &= !(1 << cell);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;

    fn random_head(rng: &mut Rng) -> BucketHead {
        let valid = rng.next_u64() as u8 & ALL;
        // Few different tags, with values at which carries between lanes would show.
        let values = [0, 1, 0x7fff, 0x8000, 0x8001, 0xffff, 0xfffe, rng.next_u64() as u16];
        let tags = std::array::from_fn(|_| values[rng.below(8) as usize]);
        BucketHead { valid, native: valid & rng.next_u64() as u8, tags }
    }

    /// The plain meaning of a search.
    fn naive(head: &BucketHead, tag: u16, bits: u16) -> u8 {
        (0..CELLS).filter(|&i| (head.tags[i] ^ tag) & bits == 0).map(|i| 1 << i).sum()
    }

    macro_rules! battery {
        ($name:ident, $arch:ident) => {
            #[test]
            fn $name() {
                let mut rng = Rng::seeded(42);
                for _ in 0..100_000 {
                    let head = random_head(&mut rng);
                    let near = head.tags[rng.below(7) as usize] ^ (1 << rng.below(17)) as u16;
                    for tag in [0, 0x8000, 0xffff, near, head.tags[0], head.tags[6]] {
                        assert_eq!($arch::equal(&head, tag), naive(&head, tag, 0xffff), "{head:?} {tag:#x}");
                        let bits = [0x0fff, 0, 0x8000, rng.next_u64() as u16][rng.below(4) as usize];
                        assert_eq!($arch::equal_under(&head, tag, bits), naive(&head, tag, bits), "{head:?} {tag:#x}");
                    }
                }
            }
        };
    }

    battery!(portable_twin, swar);
    #[cfg(target_arch = "x86_64")]
    battery!(sse2_compare, sse2);

    #[test]
    fn fill_and_empty() {
        let mut head = BucketHead::EMPTY;
        head.fill(3, Tag(9), true);
        head.fill(6, Tag(9), false);
        assert_eq!((head.with(Tag(9)) & head.valid()).collect::<Vec<_>>(), [3, 6]);
        assert_eq!((head.with(Tag(9)) & head.native()).collect::<Vec<_>>(), [3]);
        assert_eq!((head.with_bits(Tag(0xff09), 0xff) & head.foreign()).collect::<Vec<_>>(), [6]);
        assert_eq!(head.with(Tag(0)).count(), 5);
        assert!((head.with(Tag(0)) & head.valid()).is_empty());
        assert_eq!((head.free().first(), head.free().count()), (Some(0), 5));
        head.empty(3);
        assert_eq!(head.valid().collect::<Vec<_>>(), [6]);
        assert!(head.native().is_empty() && !head.valid().is_full());
    }
}
