//! The kinds of things that a table may hold: 48 bits a cell.
//!
//! ```text
//! Ref         the place of an object                 keys of a shard: the object says its hash
//! CellNumber  a number without a meaning here        members of a big sorted set: the number says the hash
//! ```
//! A bucket knows words only. A table has one kind of entry, and gives a word back as the kind that was put in.

use std::fmt::Debug;

use varve_base::Ref;

/// A number of 48 bits as an entry of a table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CellNumber(u64);

impl CellNumber {
    /// The entry of this number.
    ///
    /// # Panics
    /// If the number has more than 48 bits.
    #[inline(always)]
    pub fn new(number: u64) -> CellNumber {
        assert!(number >> Ref::BITS == 0, "a number of 48 bits, not {number:#x}");
        CellNumber(number)
    }

    /// The number.
    #[inline(always)]
    pub fn get(self) -> u64 {
        self.0
    }
}

/// Something that a table may hold: a `Ref` or a [`CellNumber`].
pub trait IndexCell: Copy + PartialEq + Debug + Stored {}

impl IndexCell for Ref {}
impl IndexCell for CellNumber {}

/// The bits of a cell that holds something.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Word(u64);

impl Word {
    /// The word that a bucket holds in its 48 bits.
    #[inline(always)]
    pub(crate) fn new(bits: u64) -> Word {
        debug_assert!(bits >> Ref::BITS == 0, "a word of {bits:#x}");
        Word(bits)
    }

    #[inline(always)]
    pub(crate) fn bits(self) -> u64 {
        self.0
    }
}

/// The way from an entry to its word and back. The crate does not export it: a `Ref` cannot be made of any number.
pub trait Stored {
    fn word(self) -> Word;
    fn of(word: Word) -> Self;
}

impl Stored for Ref {
    #[inline(always)]
    fn word(self) -> Word {
        Word::new(self.bits())
    }

    #[inline(always)]
    fn of(word: Word) -> Ref {
        debug_assert!(word.bits() != 0, "a Ref is never zero");
        // SAFETY: a table of Refs is given words of Refs only, by `insert` and `replace`, which take its own kind of
        // entry; `Bucket::get` gives back what `fill` and `set` have put there.
        unsafe { Ref::from_bits(word.bits()) }
    }
}

impl Stored for CellNumber {
    #[inline(always)]
    fn word(self) -> Word {
        Word::new(self.0)
    }

    #[inline(always)]
    fn of(word: Word) -> CellNumber {
        CellNumber(word.bits())
    }
}
