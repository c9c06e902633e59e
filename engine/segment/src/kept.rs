//! The pins on one extent, and the blocks that were written while they counted: old bytes, kept for those that may still read
//! them.
//!
//! ```text
//!  instant       0              1                  2
//!  pins          a, b           c                  d
//!  block 5       | bytes, kept until 0 | bytes, kept until 1  | bytes in the extent
//!                                  ^ a write                ^ a write
//!  block 6       | bytes in the extent: never written, pins of all instants read them there
//! ```
//! A pin is of the instant at which it was made; a write to any block ends the instant. A version of a block is
//! kept until an instant: pins of this one and of earlier ones read it, down to the version before. Bytes go when no pin
//! needs them.
//!
//! A reader that finds no version for its instant reads the extent, and says so before: `reading`. A writer keeps the block
//! first, and writes only if nobody is reading it then. Readers that come later find what was kept. So a writer waits for
//! readers that were there before it, and for no others: a version that the extent still has (`is_live`) serves newer pins too.
//!
//! Plain data under a lock of the extent's own, which is held for no copy. Not here: who may write (`object`), where the
//! bytes come from (`pin`).

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use varve_base::page_bytes::PageBytes;

/// The bytes that a block of an extent had, from the first one on that belongs to the value.
#[derive(Debug)]
pub(crate) struct OldBytes {
    /// Where the first byte was, in the range of addresses.
    pub(crate) at: usize,
    pub(crate) bytes: PageBytes,
}

/// A block as it was; None if it was never written, and so all zero.
pub(crate) type OldBlock = Option<Arc<OldBytes>>;

/// A block as it was until an instant.
#[derive(Debug)]
struct Version {
    until: u64,
    bytes: OldBlock,
    /// The extent has the same bytes: nothing has been written to the block since.
    is_live: bool,
}

/// Bytes for a reader, which are in one place.
#[derive(Debug)]
pub(crate) enum Lent {
    /// They are in the extent, in these blocks, until `end_reading`.
    Live(Range<u64>),
    /// They were kept.
    Old(OldBlock),
}

/// The sum to which a pin adds the bytes that are kept for it.
#[derive(Debug)]
struct Account {
    number: u64,
    instant: u64,
    sum: Arc<AtomicUsize>,
    /// Bytes that it has added.
    bytes: usize,
    /// Bytes that it adds at most: those that the pin reads.
    most: usize,
}

impl Account {
    /// Adds bytes, as far as the pin reads them.
    fn add(&mut self, bytes: usize) {
        let more = bytes.min(self.most - self.bytes);
        self.bytes += more;
        self.sum.fetch_add(more, Relaxed);
    }
}

/// See the module's picture. Blocks are numbered through the range of addresses.
#[derive(Debug, Default)]
pub(crate) struct Kept {
    /// The present instant.
    now: u64,
    /// Instants that have pins which read by range, and how many.
    pins: BTreeMap<u64, u32>,
    /// Pins whose bytes may not change at all.
    whole: u32,
    versions: BTreeMap<u64, Vec<Version>>,
    /// Blocks that are being read in the extent, once for each reader.
    reading: Vec<Range<u64>>,
    /// The sums of pins that have one.
    accounts: Vec<Account>,
    /// Number of the next account.
    next_account: u64,
}

impl Kept {
    /// One more pin that reads by range: its instant. Nobody writes meanwhile: the lock of the extent's shard is held, or a pin on
    /// the whole counts.
    pub(crate) fn pin(&mut self) -> u64 {
        *self.pins.entry(self.now).or_default() += 1;
        self.now
    }

    /// One more pin of an instant that has one.
    pub(crate) fn pin_again(&mut self, instant: u64) {
        *self.pins.get_mut(&instant).expect("the pin that is cloned counts") += 1;
    }

    /// Adds to `sum` what is kept for a pin of this instant, of `most` bytes, from now on: the number of its account. The value
    /// is alive, and was not written since the pin was made.
    pub(crate) fn open_account(&mut self, instant: u64, most: usize, sum: &Arc<AtomicUsize>) -> u64 {
        debug_assert!(self.pins.contains_key(&instant), "an account of instant {instant} has no pin");
        let number = self.next_account;
        self.next_account += 1;
        self.accounts.push(Account { number, instant, sum: Arc::clone(sum), bytes: 0, most });
        number
    }

    /// The pin of an account goes, and takes what it has added with it.
    pub(crate) fn close_account(&mut self, number: u64) {
        let at = self.accounts.iter().position(|account| account.number == number).expect("an account closes once");
        let Account { sum, bytes, .. } = self.accounts.swap_remove(at);
        let before = sum.fetch_sub(bytes, Relaxed);
        debug_assert!(before >= bytes, "an account of {bytes} bytes in a sum of {before}");
    }

    /// The value is dead: nothing but pins keeps its bytes.
    pub(crate) fn die(&mut self) {
        self.accounts.iter_mut().for_each(|account| account.add(account.most));
    }

    /// A pin goes: the bytes that nobody needs any more.
    pub(crate) fn unpin(&mut self, instant: u64) -> Vec<Arc<OldBytes>> {
        let count = self.pins.get_mut(&instant).expect("a pin counts until it goes");
        *count -= 1;
        if *count > 0 {
            return Vec::new();
        }
        self.pins.remove(&instant);
        let (pins, mut freed) = (&self.pins, Vec::new());
        self.versions.retain(|_, versions| {
            // No other version was for pins of this instant.
            let nth = versions.partition_point(|version| version.until < instant);
            let Some(version) = versions.get(nth) else { return true };
            let from = if nth == 0 { 0 } else { versions[nth - 1].until + 1 };
            debug_assert!(from <= version.until, "versions until {} and {} in this order", from - 1, version.until);
            if pins.range(from..=version.until).next().is_none() {
                freed.extend(versions.remove(nth).bytes);
            }
            !versions.is_empty()
        });
        assert!(!self.pins.is_empty() || self.versions.is_empty(), "blocks are kept for nobody");
        freed
    }

    /// One more pin whose bytes may not change at all, or with `false` one less.
    pub(crate) fn count_whole(&mut self, comes: bool) {
        self.whole =
            if comes { self.whole + 1 } else { self.whole.checked_sub(1).expect("a pin counts until it goes") };
    }

    /// Whether no byte may change.
    pub(crate) fn is_whole(&self) -> bool {
        self.whole > 0
    }

    /// Lends bytes, some at least, to a pin of an instant: where they are, and where they end.
    pub(crate) fn lend(&mut self, instant: u64, bytes: Range<usize>, block_bytes: usize) -> (Lent, usize) {
        debug_assert!(self.pins.contains_key(&instant), "a reader of instant {instant} has no pin");
        assert!(!bytes.is_empty(), "no bytes are lent at {}", bytes.start);
        let blocks = blocks_of(&bytes, block_bytes);
        let newest = self.newest().expect("the reader has a pin");
        let kept = self.versions.range_mut(blocks.clone()).find_map(|(&block, versions)| {
            let last = versions.last_mut().expect("a block without versions is none");
            if last.is_live {
                last.until = last.until.max(newest);
            }
            let version = versions.iter().find(|version| version.until >= instant)?;
            Some((block, version.bytes.clone()))
        });
        match kept {
            Some((block, old)) if block == blocks.start => {
                (Lent::Old(old), bytes.end.min((block as usize + 1) * block_bytes))
            }
            behind => {
                let end_block = behind.map_or(blocks.end, |(block, _)| block);
                self.reading.push(blocks.start..end_block);
                (Lent::Live(blocks.start..end_block), bytes.end.min(end_block as usize * block_bytes))
            }
        }
    }

    /// A reader of these blocks in the extent has ended.
    pub(crate) fn end_reading(&mut self, blocks: &Range<u64>) {
        let at = self.reading.iter().position(|reading| reading == blocks).expect("a reader ends once");
        self.reading.swap_remove(at);
    }

    /// Of these blocks, the first `most` that must be kept before they are written.
    pub(crate) fn missing(&mut self, blocks: Range<u64>, most: usize) -> Vec<u64> {
        let Some(newest) = self.newest() else { return Vec::new() };
        blocks.filter(|&block| self.misses(block, newest)).take(most).collect()
    }

    fn newest(&self) -> Option<u64> {
        self.pins.last_key_value().map(|(instant, _)| *instant)
    }

    /// Whether the newest pin needs a block that the next write would change. A version that the extent still has is kept for it
    /// from now on.
    fn misses(&mut self, block: u64, newest: u64) -> bool {
        let Some(last) = self.versions.get_mut(&block).and_then(|versions| versions.last_mut()) else { return true };
        if last.is_live {
            last.until = last.until.max(newest);
        }
        last.until < newest
    }

    /// Keeps a block as the extent has it; the lock of the extent's shard is held since it was copied. False if no pin needs it
    /// any more.
    pub(crate) fn keep(&mut self, block: u64, bytes: OldBlock) -> bool {
        let Some(until) = self.newest().filter(|&newest| self.misses(block, newest)) else { return false };
        let held = bytes.as_ref().map_or(0, |old| old.bytes.held_bytes());
        let versions = self.versions.entry(block).or_default();
        let before = versions.last().map(|version| version.until);
        versions.push(Version { until, bytes, is_live: true });
        // Pins of earlier instants read a version that was kept before.
        let reads = |account: &&mut Account| before.is_none_or(|before| before < account.instant);
        self.accounts.iter_mut().filter(reads).for_each(|account| account.add(held));
        true
    }

    /// Whether nobody reads these blocks in the extent.
    pub(crate) fn is_free(&self, blocks: &Range<u64>) -> bool {
        !self.reading.iter().any(|reading| reading.start < blocks.end && blocks.start < reading.end)
    }

    /// These blocks are going to be written: each is kept, and nobody reads them.
    pub(crate) fn write(&mut self, blocks: Range<u64>) {
        assert!(self.whole == 0 && self.is_free(&blocks), "blocks {blocks:?} are written that are being read");
        let Some(newest) = self.newest() else { return };
        let mut kept = 0;
        for (_, versions) in self.versions.range_mut(blocks.clone()) {
            let last = versions.last_mut().expect("a block without versions is none");
            kept += u64::from(last.until >= newest);
            last.is_live = false;
        }
        assert!(kept == blocks.end - blocks.start, "{kept} of blocks {blocks:?} are kept");
        // A version may be of this instant, though its pin has gone since.
        self.now += 1;
    }

    /// The value grows into these blocks: what is kept of them is short for pins that are made from now on. Nobody reads the bytes that
    /// come, so none of these blocks need be kept for it.
    pub(crate) fn grow(&mut self, blocks: Range<u64>) {
        debug_assert!(blocks.start < blocks.end, "a value grows into no block, {blocks:?}");
        for (_, versions) in self.versions.range_mut(blocks) {
            versions.last_mut().expect("a block without versions is none").is_live = false;
        }
        self.now += 1;
    }

    /// Bytes that are kept, for a check against what is counted: each of them once.
    pub(crate) fn bytes(&self) -> usize {
        let old = self.versions.values().flatten().filter_map(|version| version.bytes.as_ref());
        let mut seen = BTreeSet::new();
        old.filter(|old| seen.insert(Arc::as_ptr(old))).map(|old| old.bytes.held_bytes()).sum()
    }
}

/// The blocks in which bytes of the range of addresses lie.
pub(crate) fn blocks_of(bytes: &Range<usize>, block_bytes: usize) -> Range<u64> {
    (bytes.start / block_bytes) as u64..bytes.end.div_ceil(block_bytes) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use varve_base::rng::Rng;

    const BLOCK: usize = 64;

    fn old(block: u64, byte: u8) -> OldBlock {
        let bytes = PageBytes::copy_of(&[byte; BLOCK]).expect("memory");
        Some(Arc::new(OldBytes { at: block as usize * BLOCK, bytes }))
    }

    fn byte_of(lent: &Lent) -> Option<u8> {
        match lent {
            Lent::Old(old) => Some(old.as_ref().map_or(0, |old| old.bytes[0])),
            Lent::Live(_) => None,
        }
    }

    /// Segments of 4 KB have blocks of 32 bytes, of which a range of 2^48 addresses has more than 32 bits count.
    #[test]
    fn blocks_far_up_in_the_range_of_addresses_are_told_apart() {
        let (mut kept, from, block_bytes) = (Kept::default(), (1 << 47) + 40, 32);
        let instant = kept.pin();
        let bytes = from..from + 100;
        let (lent, end) = kept.lend(instant, bytes.clone(), block_bytes);
        assert_eq!(end, bytes.end);
        let Lent::Live(blocks) = lent else { panic!("nothing was written") };
        assert_eq!(blocks, blocks_of(&bytes, block_bytes));
        assert!(kept.is_free(&blocks_of(&(100..140), block_bytes)) && !kept.is_free(&blocks));
        kept.end_reading(&blocks);
        assert!(kept.unpin(instant).is_empty());
    }

    /// Writes a block as an extent's owner does; false if somebody reads it.
    fn write(kept: &mut Kept, block: u64, before: u8) -> bool {
        for missing in kept.missing(block..block + 1, 1) {
            assert!(kept.keep(missing, old(missing, before)));
        }
        let is_free = kept.is_free(&(block..block + 1));
        if is_free {
            kept.write(block..block + 1);
        }
        is_free
    }

    #[test]
    fn a_writer_waits_for_readers_before_it_alone() {
        let mut kept = Kept::default();
        let first = kept.pin();
        let (lent, end) = kept.lend(first, 10..200, BLOCK);
        assert!(matches!(&lent, Lent::Live(blocks) if *blocks == (0..4)) && end == 200);
        assert!(!write(&mut kept, 2, 7), "it is being read");
        let (again, end) = kept.lend(first, 10..200, BLOCK);
        assert!(matches!(&again, Lent::Live(blocks) if *blocks == (0..2)) && end == 2 * BLOCK, "up to the kept block");
        assert_eq!(byte_of(&kept.lend(first, 130..200, BLOCK).0), Some(7));
        // Another block is written, so that this pin is of a later instant than what is kept of block 2.
        assert!(write(&mut kept, 9, 3));
        let newer = kept.pin();
        assert!(newer > first);
        assert_eq!(byte_of(&kept.lend(newer, 130..200, BLOCK).0), Some(7), "it reads nothing that a writer waits for");
        kept.end_reading(&(0..2));
        kept.end_reading(&(0..4));
        assert!(write(&mut kept, 2, 7), "nobody reads it");
        assert_eq!(byte_of(&kept.lend(newer, 130..200, BLOCK).0), Some(7));
        let newest = kept.pin();
        assert_eq!(byte_of(&kept.lend(newest, 130..140, BLOCK).0), None);
        kept.end_reading(&(2..3));
        let freed: Vec<usize> = [first, newer, newest].map(|instant| kept.unpin(instant).len()).into();
        assert_eq!(freed, [1, 1, 0], "block 9 for the first one alone, block 2 for both");
    }

    #[test]
    #[should_panic(expected = "0 of blocks 3..4 are kept")]
    fn a_block_is_kept_before_it_is_written() {
        let mut kept = Kept::default();
        kept.pin();
        kept.write(3..4);
    }

    #[test]
    #[should_panic(expected = "are written that are being read")]
    fn a_block_that_is_read_is_not_written() {
        let mut kept = Kept::default();
        let instant = kept.pin();
        kept.lend(instant, 0..BLOCK, BLOCK);
        kept.write(0..1);
    }

    /// Random pins and writes against copies of all blocks, one for each pin.
    #[test]
    fn each_pin_reads_what_was_there_when_it_was_made() {
        const BLOCKS: usize = 8;
        let seed = std::env::var("VARVE_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(0x9e37);
        println!("VARVE_SEED={seed}");
        let mut rng = Rng::seeded(seed);
        let mut kept = Kept::default();
        let (mut blocks, mut pins) = ([0u8; BLOCKS], Vec::<(u64, [u8; BLOCKS])>::new());
        for step in 0..20_000 {
            let block = rng.below(BLOCKS as u64) as usize;
            match rng.below(8) {
                0 if pins.len() < 12 => pins.push((kept.pin(), blocks)),
                1 if !pins.is_empty() => {
                    let (instant, _) = pins.swap_remove(rng.below(pins.len() as u64) as usize);
                    kept.unpin(instant);
                }
                2 if !pins.is_empty() => {
                    let pin = pins[rng.below(pins.len() as u64) as usize];
                    kept.pin_again(pin.0);
                    pins.push(pin);
                }
                // A writer that is put back.
                3 => {
                    for missing in kept.missing(0..BLOCKS as u64, 2) {
                        kept.keep(missing, old(missing, blocks[missing as usize]));
                    }
                }
                _ => {
                    assert!(write(&mut kept, block as u64, blocks[block]));
                    blocks[block] = rng.below(256) as u8;
                }
            }
            for (instant, copy) in &pins {
                let from = block * BLOCK;
                let (lent, end) = kept.lend(*instant, from..from + 1, BLOCK);
                assert_eq!((byte_of(&lent).unwrap_or(blocks[block]), end), (copy[block], from + 1), "step {step}");
                if let Lent::Live(blocks) = lent {
                    kept.end_reading(&blocks);
                }
            }
            assert!(kept.bytes() <= pins.len() * BLOCKS * 4096);
        }
        pins.into_iter().for_each(|(instant, _)| drop(kept.unpin(instant)));
        assert_eq!((kept.bytes(), kept.newest()), (0, None));
    }
}
