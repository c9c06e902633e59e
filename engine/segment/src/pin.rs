//! Pins: a large value's bytes, readable without the lock of its shard.
//!
//! ```text
//!  Pin        read(range) --> PinRead: in the extent, or a block that was kept    64 KB blocks, where a segment has 8 MB
//!  WholePin   one slice of all bytes, of an argument whose command has not ended: while it counts, none of them may change
//!
//!  writer     make_way --> the blocks that pins need are kept --> nobody reads them in the extent --> Free: write
//!                                                             `-> somebody does ----------------------> Later
//! ```
//! While an extent has pins of either kind its memory is not released and its value gets no shorter; it may grow behind
//! them. [`Pin`]s let the rest change: each reads what was there when it was made, of blocks that were written since out of
//! copies (`kept`). A reader holds a [`PinRead`] while it looks at some bytes, and waits for nothing meanwhile: a writer of
//! these bytes may wait for its end.
//!
//! Kept blocks count as used until their memory is given back, in steps, as that of dead extents is.

use std::ops::{Deref, Range};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use varve_base::page_bytes::PageBytes;

use crate::kept::{Kept, Lent, OldBlock, OldBytes, blocks_of};
use crate::leaf_lock::LeafLock;
use crate::log::{Log, LogShared};
use crate::memory::LogMemory;

/// Blocks of a segment that are kept one by one: two for each of which it is known whether it was written.
const KEPT_BLOCKS: usize = 128;
/// Bytes of the largest block.
const BLOCK_MAX: usize = (8 << 20) / KEPT_BLOCKS;

/// The bytes of a block that was never written.
static ZEROS: [u8; BLOCK_MAX] = [0; BLOCK_MAX];

/// Whether bytes of a value may be written where they lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// They may: whoever reads them has a copy, or nobody does.
    Free,
    /// Not yet: somebody is reading them in the extent at this moment, or more of them are to be copied first. Copies
    /// stay, so that the next try comes further.
    Later,
    /// Not while one of their pins counts, which needs all bytes to stay: a command that brought them has not ended. Write a new
    /// object, or try later.
    Never,
    /// The system has no memory for a copy.
    NoMemory,
}

impl LogShared {
    /// Bytes of a block that is kept.
    fn kept_block_bytes(&self) -> usize {
        self.memory.geometry.segment_bytes / KEPT_BLOCKS
    }

    /// One more pin on an extent: what is known of those. The lock of its shard is held, or nobody else has the extent, or another
    /// pin on it counts meanwhile.
    fn add_pin(&self, segment: u32) -> Arc<LeafLock<Kept>> {
        let mut pinned = self.pinned.lock();
        self.memory.table.entry(segment).pins.fetch_add(1, Ordering::Relaxed);
        Arc::clone(pinned.entry(segment).or_insert_with(|| Arc::new(LeafLock::new(Kept::default()))))
    }

    /// One pin less.
    fn sub_pin(&self, segment: u32) {
        let mut pinned = self.pinned.lock();
        // Releases: what was read through the pin was read before anybody may change or release it.
        let before = self.memory.table.entry(segment).pins.fetch_sub(1, Ordering::Release);
        assert!(before > 0, "a pin on extent {segment} ends that did not count");
        if before == 1 {
            pinned.remove(&segment);
        }
    }

    /// An extent's value is dead: what its pins read is kept for them alone.
    pub(crate) fn keep_for_pins(&self, segment: u32) {
        if let Some(kept) = self.kept_of(segment) {
            kept.lock().die();
        }
    }

    /// The pins on an extent and what they need; None if it has none.
    fn kept_of(&self, segment: u32) -> Option<Arc<LeafLock<Kept>>> {
        self.pinned.lock().get(&segment).map(Arc::clone)
    }

    /// Copies a block of an extent's value, whose bytes lie in this range of addresses; None if it was never written.
    fn copy_block(&self, block: u64, value: &Range<usize>) -> std::io::Result<OldBlock> {
        let bytes = self.kept_block_bytes();
        let at = (block as usize * bytes).max(value.start);
        let end = ((block as usize + 1) * bytes).min(value.end);
        assert!(at < end, "block {block} has no byte of the value at {value:?}");
        if !self.memory.is_written(at) {
            return Ok(None);
        }
        // SAFETY: bytes of a value; the caller has the lock of its shard, so nobody writes them.
        let found = unsafe { std::slice::from_raw_parts(self.memory.mapping.base().add(at), end - at) };
        Ok(Some(Arc::new(OldBytes { at, bytes: PageBytes::copy_of(found)? })))
    }

    /// Old bytes that nobody needs go back to the system by `release_step`.
    fn free_old(&self, freed: Vec<Arc<OldBytes>>) {
        if !freed.is_empty() {
            self.memory.add_releasing(freed.len() as u64);
            self.freed_old.lock().extend(freed);
        }
    }

    /// Whether old bytes wait to be given back.
    pub(crate) fn has_freed_old(&self) -> bool {
        !self.freed_old.lock().is_empty()
    }

    /// Gives some of the old bytes that nobody needs back, up to `bytes` or one more; how many that were.
    pub(crate) fn release_old(&self, bytes: usize) -> usize {
        let mut done = 0;
        while done < bytes {
            let Some(old) = self.freed_old.lock().pop() else { break };
            let held = old.bytes.held_bytes();
            debug_assert!(held > 0, "a copy of no bytes is none");
            drop(old);
            self.memory.uncount_kept(held as u64);
            self.memory.end_releasing();
            done += held;
        }
        done
    }

    /// Bytes that are kept for pins or wait to be released, found by a look at all of them.
    pub(crate) fn find_kept_bytes(&self) -> u64 {
        let all: Vec<_> = self.pinned.lock().values().map(Arc::clone).collect();
        let kept: usize = all.iter().map(|kept| kept.lock().bytes()).sum();
        let freed: usize = self.freed_old.lock().iter().map(|old| old.bytes.held_bytes()).sum();
        (kept + freed) as u64
    }
}

impl Log {
    /// Bytes of blocks that were written while somebody read them through a pin: used bytes beside those of segments.
    pub fn kept_bytes(&self) -> u64 {
        self.shared.memory.kept_bytes()
    }

    /// Makes way for a write to bytes of a value at `value` in the range of addresses, whose shard is locked, by copying the
    /// blocks that pins need, `most` bytes or one block at most. Takes what was copied from `most`.
    #[cold]
    pub(crate) fn make_way(&self, segment: u32, value: Range<usize>, bytes: Range<usize>, most: &mut usize) -> Way {
        let shared = &self.shared;
        debug_assert!(value.start <= bytes.start && bytes.end <= value.end, "{bytes:?} of a value at {value:?}");
        let Some(kept) = shared.kept_of(segment).filter(|_| !bytes.is_empty()) else { return Way::Free };
        let blocks = blocks_of(&bytes, shared.kept_block_bytes());
        let missing = {
            let mut kept = kept.lock();
            if kept.is_whole() {
                return Way::Never;
            }
            kept.missing(blocks.clone(), *most / shared.kept_block_bytes() + 1)
        };
        // Nothing is copied with the lock held: readers take it.
        for block in missing {
            if *most == 0 {
                return Way::Later;
            }
            let Ok(old) = shared.copy_block(block, &value) else { return Way::NoMemory };
            let held = old.as_ref().map_or(0, |old| old.bytes.held_bytes());
            *most = most.saturating_sub(held);
            shared.memory.count_kept(held as u64);
            if !kept.lock().keep(block, old) {
                shared.memory.uncount_kept(held as u64);
            }
        }
        let mut kept = kept.lock();
        if kept.is_free(&blocks) && kept.missing(blocks, 1).is_empty() { Way::Free } else { Way::Later }
    }

    /// Notes that bytes in the range of addresses are going to be written, for which way was made in this hold of the shard.
    #[cold]
    pub(crate) fn write_beside_pins(&self, segment: u32, bytes: Range<usize>) {
        if let Some(kept) = self.shared.kept_of(segment).filter(|_| !bytes.is_empty()) {
            kept.lock().write(blocks_of(&bytes, self.shared.kept_block_bytes()));
        }
    }

    /// Notes that a value grows into bytes in the range of addresses; its shard is locked.
    #[cold]
    pub(crate) fn grow_beside_pins(&self, segment: u32, bytes: Range<usize>) {
        if let Some(kept) = self.shared.kept_of(segment).filter(|_| !bytes.is_empty()) {
            kept.lock().grow(blocks_of(&bytes, self.shared.kept_block_bytes()));
        }
    }
}

/// Bytes of a large value as they were when this was made, readable after the shard's lock is gone, until this is dropped.
#[derive(Debug)]
pub struct Pin {
    shared: Arc<LogShared>,
    kept: Arc<LeafLock<Kept>>,
    segment: u32,
    instant: u64,
    at: usize,
    len: usize,
    /// The account of what is kept for it, if that is counted.
    account: Option<u64>,
}

/// Bytes that are kept for all pins that were given it, and that would be free without them, about: old blocks, and whole values
/// that are dead. A block that is kept for two of them counts twice.
#[derive(Clone, Debug, Default)]
pub struct KeptForPins(Arc<AtomicUsize>);

impl KeptForPins {
    /// Bytes that are kept now.
    #[inline]
    pub fn get(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

impl Pin {
    /// A pin on bytes of an extent, at an offset in the range of addresses; the lock of its shard is held, or nobody else has it, or
    /// a pin on the whole of it counts.
    pub(crate) fn new(shared: &Arc<LogShared>, segment: u32, at: usize, len: usize) -> Pin {
        assert!(at + len <= shared.memory.mapping.len(), "{len} bytes at {at} are pinned");
        let kept = shared.add_pin(segment);
        let instant = kept.lock().pin();
        Pin { shared: Arc::clone(shared), kept, segment, instant, at, len, account: None }
    }

    /// Has what is kept for this pin counted in `sum` until it is dropped; a clone of it counts nothing. The lock of the value's
    /// shard is held since the pin was made.
    pub fn counted_in(mut self, sum: &KeptForPins) -> Pin {
        assert!(self.account.is_none(), "a pin counts in one sum");
        self.account = Some(self.kept.lock().open_account(self.instant, self.len, &sum.0));
        self
    }

    pub(crate) fn memory(&self) -> &LogMemory {
        &self.shared.memory
    }

    /// Where the bytes are in the range of addresses.
    pub(crate) fn place(&self) -> Range<usize> {
        self.at..self.at + self.len
    }

    /// Bytes of the value.
    #[allow(
        clippy::len_without_is_empty,
        reason = "a key's object may have an extent for its key's sake, and nobody asks"
    )]
    pub fn len(&self) -> usize {
        self.len
    }

    /// A pin on the part of these bytes alone. Panics if the range reaches beyond them.
    pub fn part(mut self, range: Range<usize>) -> Pin {
        assert!(range.start <= range.end && range.end <= self.len, "{range:?} of {} bytes", self.len);
        self.at += range.start;
        self.len = range.len();
        self
    }

    /// The bytes from `range.start` on that lie together, up to `range.end`: fewer where a block begins or ends that was kept,
    /// but some. Who wants them long keeps a copy: a writer may wait until this is dropped.
    ///
    /// # Panics
    /// If the range is empty or reaches beyond the bytes.
    pub fn read(&self, range: Range<usize>) -> PinRead<'_> {
        assert!(range.start < range.end && range.end <= self.len, "{range:?} of {} bytes", self.len);
        let from = self.at + range.start;
        let bytes = from..self.at + range.end;
        let (lent, end) = self.kept.lock().lend(self.instant, bytes, self.shared.kept_block_bytes());
        PinRead { pin: self, lent, from, len: end - from }
    }

    /// Shows the bytes of a range, as many at a time as lie together, [`Pin::READ_BYTES`] at most.
    pub fn each_part(&self, range: Range<usize>, mut show: impl FnMut(&[u8])) {
        let mut done = range.start;
        while done < range.end {
            let part = self.read(done..range.end.min(done + Pin::READ_BYTES));
            show(&part);
            done += part.len();
        }
    }

    /// Bytes that are looked at together: some microseconds, for which a writer may wait.
    pub const READ_BYTES: usize = 64 << 10;
}

impl Clone for Pin {
    fn clone(&self) -> Pin {
        // This pin counts meanwhile, so the extent stays.
        let kept = self.shared.add_pin(self.segment);
        debug_assert!(Arc::ptr_eq(&kept, &self.kept), "an extent's pins are known in one place");
        kept.lock().pin_again(self.instant);
        Pin { shared: Arc::clone(&self.shared), kept, account: None, ..*self }
    }
}

impl Drop for Pin {
    fn drop(&mut self) {
        let freed = {
            let mut kept = self.kept.lock();
            self.account.into_iter().for_each(|account| kept.close_account(account));
            kept.unpin(self.instant)
        };
        self.shared.free_old(freed);
        self.shared.sub_pin(self.segment);
    }
}

/// Some bytes of a pinned value, while they are looked at.
#[derive(Debug)]
pub struct PinRead<'p> {
    pin: &'p Pin,
    lent: Lent,
    /// Where the first byte is, or was, in the range of addresses.
    from: usize,
    len: usize,
}

impl Deref for PinRead<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match &self.lent {
            // SAFETY: bytes of an extent's value, whose memory stays while the pin counts. They are written only behind
            // `Kept::write`, which refuses while these blocks are among those that are being read.
            Lent::Live(_) => unsafe {
                std::slice::from_raw_parts(self.pin.memory().mapping.base().add(self.from), self.len)
            },
            Lent::Old(Some(old)) => {
                debug_assert!(self.from >= old.at, "bytes from {} on of a copy from {} on", self.from, old.at);
                &old.bytes[self.from - old.at..][..self.len]
            }
            Lent::Old(None) => &ZEROS[..self.len],
        }
    }
}

impl Drop for PinRead<'_> {
    fn drop(&mut self) {
        if let Lent::Live(blocks) = &self.lent {
            self.pin.kept.lock().end_reading(blocks);
        }
    }
}

/// All bytes of a large value in one slice, which stay readable and as they are until this is dropped.
#[derive(Debug)]
pub struct WholePin {
    shared: Arc<LogShared>,
    kept: Arc<LeafLock<Kept>>,
    segment: u32,
    at: usize,
    len: usize,
}

impl WholePin {
    /// Like [`Pin::new`].
    pub(crate) fn new(shared: &Arc<LogShared>, segment: u32, at: usize, len: usize) -> WholePin {
        let kept = shared.add_pin(segment);
        kept.lock().count_whole(true);
        WholePin { shared: Arc::clone(shared), kept, segment, at, len }
    }

    /// A pin on the same bytes that lets them change when this one is gone.
    pub fn by_ranges(&self) -> Pin {
        // No shard need be held: nobody changes the bytes before this one ends.
        Pin::new(&self.shared, self.segment, self.at, self.len)
    }
}

impl Clone for WholePin {
    fn clone(&self) -> WholePin {
        WholePin::new(&self.shared, self.segment, self.at, self.len)
    }
}

impl Deref for WholePin {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: bytes of an extent's value; `value_mut`, `resize` and `make_way` refuse while the pin counts, `extend_value`
        // writes behind them, `release_step` waits.
        unsafe { std::slice::from_raw_parts(self.shared.memory.mapping.base().add(self.at), self.len) }
    }
}

impl Drop for WholePin {
    fn drop(&mut self) {
        self.kept.lock().count_whole(false);
        self.shared.sub_pin(self.segment);
    }
}
