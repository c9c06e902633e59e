//! Prefetching a bucket without holding the shard's lock.
//!
//! The table keeps copies of its address, size and split in atomics and stores them one by one, relaxed. A reader may
//! see a mixture of two states, or a table that has been freed. All it does with them is to compute an address and
//! prefetch it, which reads nothing and cannot fault: the worst outcome is a useless cache line.

use crate::hash_space::{POSITION_BITS, position};
use crate::part::Part;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use varve_base::group::CELLS;
use varve_base::mem::Line;

/// Where a table's buckets were a moment ago. Cheap to clone; any thread may use it.
#[derive(Clone, Debug)]
pub struct Hint(Arc<Published>);

/// One cache line: what a reader needs arrives at once.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Published {
    /// Positions below it are in part 0, the newer one, the others in part 1.
    split: AtomicU64,
    bases: [AtomicUsize; 2],
    counts: [AtomicU64; 2],
}

impl Hint {
    pub(crate) fn new() -> Hint {
        Hint(Arc::new(Published::default()))
    }

    /// Asks for the home bucket of `hash`.
    #[inline]
    pub fn prefetch(&self, hash: u64) {
        self.line(hash).fetch();
    }

    /// Where the home bucket of `hash` may be.
    #[inline]
    pub fn line(&self, hash: u64) -> Line {
        let position = position(hash);
        let side = usize::from(position >= self.0.split.load(Relaxed));
        let bucket = position.wrapping_mul(self.0.counts[side].load(Relaxed)) >> POSITION_BITS;
        let address = self.0.bases[side].load(Relaxed).wrapping_add((bucket as usize).wrapping_mul(64));
        Line::of(std::ptr::without_provenance::<u8>(address))
    }

    /// Entries that the table has cells for in its own buckets, as of a moment ago; while it grows, those of the new one.
    pub fn cells(&self) -> u64 {
        let [newer, _] = &self.0.counts;
        newer.load(Relaxed) * CELLS as u64
    }

    /// Stores where the buckets are now.
    pub(crate) fn set(&self, split: u64, parts: &[Part; 2]) {
        for ((part, base), count) in parts.iter().zip(&self.0.bases).zip(&self.0.counts) {
            base.store(part.address(), Relaxed);
            count.store(if part.is_none() { 0 } else { part.count() }, Relaxed);
        }
        self.set_split(split);
    }

    pub(crate) fn set_split(&self, split: u64) {
        self.0.split.store(split, Relaxed);
    }
}
