//! The reference to an object of the segment log: a byte offset into the reserved address range.
//!
//! ```text
//!  63          48 47                        23 22                     0
//! +--------------+----------------------------+------------------------+
//! |      0       |          segment           |   offset in segment    |
//! +--------------+----------------------------+------------------------+
//! ```
//!
//! The cut between segment and offset belongs to the segment crate; here it is one number of 48 bits that is never
//! zero. A `Ref` promises that an object was once published there, so it cannot be made by safe code.

use std::fmt;
use std::num::NonZeroU64;

/// A reference to an object: a byte offset into the reserved range, 48 bits, never zero.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(transparent)]
pub struct Ref(NonZeroU64);

const _: () = assert!(size_of::<Option<Ref>>() == 8);

impl Ref {
    /// Number of bits that a reference may use.
    pub const BITS: u32 = 48;

    /// Makes a reference from its bits.
    ///
    /// # Safety
    /// `bits` must come from [`Ref::bits`] of a reference, or be the place of an object that its log has written
    /// (tests that follow no reference may use any number in range). In both cases `0 < bits < 2^48`.
    #[inline(always)]
    pub unsafe fn from_bits(bits: u64) -> Ref {
        debug_assert!(bits != 0 && bits >> Self::BITS == 0, "a Ref of {bits:#x}");
        // SAFETY: the caller vouches for a number that is not zero.
        Ref(unsafe { NonZeroU64::new_unchecked(bits) })
    }

    /// The offset in bytes, `1..2^48`.
    #[inline(always)]
    pub fn bits(self) -> u64 {
        self.0.get()
    }
}

impl fmt::Debug for Ref {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Ref({:#x})", self.bits())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_survive() {
        for bits in [1, 8, (1 << 23) + 16, (1 << 48) - 1] {
            // SAFETY: in range, never followed.
            assert_eq!(unsafe { Ref::from_bits(bits) }.bits(), bits);
        }
    }
}
