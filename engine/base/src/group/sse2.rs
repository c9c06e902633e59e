//! One bucket head in one SSE2 register: eight 16-bit lanes, the first of which is the two masks.

use super::BucketHead;
use std::arch::x86_64::{
    __m128i, _mm_and_si128, _mm_cmpeq_epi16, _mm_load_si128, _mm_movemask_epi8, _mm_packs_epi16, _mm_set1_epi16,
    _mm_setzero_si128,
};

/// Cells whose tag equals.
#[inline(always)]
pub(super) fn equal(head: &BucketHead, tag: u16) -> u8 {
    // SAFETY: SSE2 belongs to every x86-64.
    unsafe { cells(_mm_cmpeq_epi16(load(head), _mm_set1_epi16(tag as i16))) }
}

/// Cells whose tag equals in the bits that are set in `bits`.
#[inline(always)]
pub(super) fn equal_under(head: &BucketHead, tag: u16, bits: u16) -> u8 {
    // SAFETY: SSE2 belongs to every x86-64.
    unsafe {
        let lanes = _mm_and_si128(load(head), _mm_set1_epi16(bits as i16));
        cells(_mm_cmpeq_epi16(lanes, _mm_set1_epi16((tag & bits) as i16)))
    }
}

#[inline(always)]
fn load(head: &BucketHead) -> __m128i {
    // SAFETY: a BucketHead is 16 bytes without padding, aligned to 16.
    unsafe { _mm_load_si128(std::ptr::from_ref(head).cast()) }
}

/// One bit a lane, the lane of the masks dropped.
#[inline(always)]
fn cells(equal: __m128i) -> u8 {
    // SAFETY: SSE2 belongs to every x86-64.
    unsafe { (_mm_movemask_epi8(_mm_packs_epi16(equal, _mm_setzero_si128())) as u8) >> 1 }
}
