//! One bucket head in two 64-bit words of four 16-bit lanes: for every processor, and the reference in tests.

use super::BucketHead;

const ONES: u64 = 0x0001_0001_0001_0001;
const LOW: u64 = 0x7fff * ONES;

/// Cells whose tag equals.
#[inline(always)]
pub(super) fn equal(head: &BucketHead, tag: u16) -> u8 {
    equal_under(head, tag, u16::MAX)
}

/// Cells whose tag equals in the bits that are set in `bits`.
#[inline(always)]
pub(super) fn equal_under(head: &BucketHead, tag: u16, bits: u16) -> u8 {
    let t = &head.tags;
    let pack =
        |a: u16, b: u16, c: u16, d: u16| u64::from(a) | u64::from(b) << 16 | u64::from(c) << 32 | u64::from(d) << 48;
    // The eighth lane repeats the seventh and is cut off.
    let (low, high) = (pack(t[0], t[1], t[2], t[3]), pack(t[4], t[5], t[6], t[6]));
    let (tag, bits) = (u64::from(tag) * ONES, u64::from(bits) * ONES);
    zero_lanes((low ^ tag) & bits) | (zero_lanes((high ^ tag) & bits) & 0b111) << 4
}

/// Bit i is set where lane i is zero.
///
/// Adding 0x7fff carries into a lane's top bit unless its low bits are zero, and never out of the lane.
#[inline(always)]
fn zero_lanes(word: u64) -> u8 {
    let not_zero = ((word & LOW) + LOW) | word;
    let zero = (!not_zero >> 15) & ONES;
    // Bits 0, 16, 32, 48 come to 48, 49, 50, 51; no two products meet.
    (zero.wrapping_mul(1 << 48 | 1 << 33 | 1 << 18 | 1 << 3) >> 48) as u8 & 0xf
}
