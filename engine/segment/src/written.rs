//! Which parts of an extent were ever written. The rest is zero and has no memory: readers, copies and files pass over it.
//!
//! ```text
//! a segment of an extent   | block 0 | block 1 | ..  | block 63 |      128 KB each, where a segment has 8 MB
//! its entry in the table     1         0               1               a bit is set before a byte of the block is written
//! ```
//! Bits are set under the lock of the value's shard, or by the one who fills the extent, and cleared when an extent begins.
//! A reader has that lock, or a pin. What is written while a pin counts lies behind the pinned bytes, or was kept before its bit
//! was set (`kept`), and what was kept is read in its place. So no order between the bits and the bytes is needed beyond
//! that of locks and pins.
//!
//! Not here: the slack's count and what stands before a value, which nobody asks for.

use std::ops::Range;

use crate::extent::OpenExtent;
use crate::log::Log;
use crate::memory::LogMemory;
use crate::pin::Pin;
use crate::table::{BLOCKS, SegmentState};

/// Bytes that [`OpenExtent::push`] looks at together: if all are zero, no page is touched for them.
const LOOKED_BYTES: usize = 4096;

impl LogMemory {
    fn block_bytes(&self) -> usize {
        self.geometry.segment_bytes / BLOCKS
    }

    /// Notes that bytes of an extent are going to be written, which are given by their offsets in the range of addresses.
    pub(crate) fn mark_written(&self, bytes: Range<usize>) {
        if bytes.is_empty() {
            return;
        }
        let block = self.block_bytes();
        let (first, last) = (bytes.start / block, (bytes.end - 1) / block);
        for segment in first / BLOCKS..=last / BLOCKS {
            let base = segment * BLOCKS;
            let (from, to) = (first.max(base) - base, last.min(base + BLOCKS - 1) - base);
            debug_assert!(from <= to && to < BLOCKS, "blocks {from} to {to} of a segment");
            self.table.entry(segment as u32).mark_written(u64::MAX >> (BLOCKS - 1 - to) & u64::MAX << from);
        }
    }

    /// Whether the block was ever written in which a byte of an extent lies, given by its offset in the range of addresses.
    pub(crate) fn is_written(&self, at: usize) -> bool {
        let block = at / self.block_bytes();
        self.table.entry((block / BLOCKS) as u32).written() >> (block % BLOCKS) & 1 == 1
    }

    /// The first block from `from` on, and before `end`, that was written, or was not; `end` if there is none.
    fn next_block(&self, from: usize, end: usize, written: bool) -> usize {
        let mut block = from;
        while block < end {
            let bits = self.table.entry((block / BLOCKS) as u32).written();
            let bits = if written { bits } else { !bits } >> (block % BLOCKS);
            if bits != 0 {
                return end.min(block + bits.trailing_zeros() as usize);
            }
            block = (block / BLOCKS + 1) * BLOCKS;
        }
        end
    }

    /// The first part of `bytes`, from offset `from` on, that may have been written: the bytes before it are zero. It is empty
    /// and at the end if there is none. Bytes that do not lie in an extent were all written.
    pub(crate) fn next_written(&self, bytes: &[u8], from: usize) -> Range<usize> {
        let at = (bytes.as_ptr() as usize).wrapping_sub(self.mapping.base() as usize);
        self.next_written_at(at, bytes.len(), from)
    }

    /// Like `next_written`, of `len` bytes that begin at an offset in the range of addresses.
    fn next_written_at(&self, at: usize, len: usize, from: usize) -> Range<usize> {
        let whole = from.min(len)..len;
        if whole.is_empty() || at >= self.geometry.reserve_bytes {
            return whole;
        }
        let state = self.table.entry((at / self.geometry.segment_bytes) as u32).state();
        if !matches!(state, SegmentState::Extent | SegmentState::Tail | SegmentState::Retired) {
            return whole;
        }
        let block = self.block_bytes();
        let end = (at + whole.end).div_ceil(block);
        let first = self.next_block((at + whole.start) / block, end, true);
        let behind = self.next_block(first, end, false);
        debug_assert!(first <= behind && behind <= end, "blocks {first} to {behind} of those before {end}");
        // A block may begin before the part that is asked for, or end behind the bytes.
        let place = |block_at: usize| (block_at * block).saturating_sub(at).clamp(whole.start, whole.end);
        place(first)..place(behind)
    }
}

impl Log {
    /// The first part of `bytes`, from offset `from` on, that may hold anything but zeros; it is empty and at their end if there
    /// is none. Of values in extents this passes over what was never written; all other bytes are one part.
    pub fn next_written(&self, bytes: &[u8], from: usize) -> Range<usize> {
        self.shared.memory.next_written(bytes, from)
    }

    /// Notes that a range of a value is going to be written that begins at `value` and lies in an extent.
    #[cold]
    pub(crate) fn mark_extent_written(&self, value: *const u8, range: Range<usize>) {
        let at = self.offset_of(value);
        assert!(range.start <= range.end && at < self.shared.memory.geometry.reserve_bytes, "{range:?} at {at}");
        self.shared.memory.mark_written(at + range.start..at + range.end);
    }
}

impl Pin {
    /// The first part of the pinned bytes, from offset `from` on, that may hold anything but zeros; it is empty and at their end if
    /// there is none.
    pub fn next_written(&self, from: usize) -> Range<usize> {
        let place = self.place();
        self.memory().next_written_at(place.start, place.len(), from)
    }
}

impl OpenExtent {
    /// Adds the value's next bytes. Pages that would get nothing but zeros are not touched.
    pub fn push(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let (some, rest) = bytes.split_at(bytes.len().min(LOOKED_BYTES));
            if varve_base::bits::first_other(some, 0).is_none() {
                self.skip(some.len());
            } else {
                self.rest()[..some.len()].copy_from_slice(some);
                self.advance(some.len());
            }
            bytes = rest;
        }
    }
}
