//! Readers that take longer than one hold of the shard: each is shown every element once, as it was when it began.
//!
//! ```text
//!   hashes   0 ............ cursor ..................................... 2^64
//!            shown          | leaf as it is | handed over | leaf as it is |
//!                                                 ^
//!            the first change in a leaf beyond the cursor copies the leaf's elements, with the range of its hashes
//! ```
//! A range of hashes that was handed over is shown from the copy, whatever its leaves become: later changes there find
//! the range and copy nothing. Leaves are split and joined by bits of the hash, so a leaf and a range are apart, or one
//! lies in the other. A leaf that was joined may have ranges in it: then the elements outside of them are copied, and
//! all becomes one range.
//!
//! A change hands over one leaf at most, some 4 KB, and the elements of it that have objects of their own. What was
//! handed over counts as memory of the table until the reader has passed it. Reclaim moves leaves and changes none, so
//! it hands nothing over. Not here: which client reads, and when a reader ends.

use std::collections::BTreeMap;

use smallvec::SmallVec;
use varve_base::hash::hash64;
use varve_packed::node::PackedEntry;

use super::{LeafTable, open};
use crate::{Forgotten, ReadCtx, ReaderNumber};

/// Bytes that a handed range takes beside its elements: its place in the map.
const RANGE_BYTES: usize = 64;
/// Ranges that are given up in one step, when their reader wants no more.
const RANGES_FORGOTTEN: usize = 256;
/// Bytes of the two lengths in front of an element that was handed over.
const LENGTHS: usize = 8;

/// The readers of a table.
#[derive(Default)]
pub(super) struct Readers {
    readings: Vec<Reading>,
    /// Bytes of all that was handed over and not shown.
    bytes: usize,
}

/// One reader.
struct Reading {
    number: ReaderNumber,
    /// The first hash that is not shown yet.
    cursor: u64,
    /// Ranges of hashes beyond the cursor that have changed since the reader began, by their first hash.
    handed: BTreeMap<u64, Handed>,
    /// It wants no more.
    is_over: bool,
}

/// A range of hashes with the elements that it had.
struct Handed {
    last: u64,
    /// Each element: length of its name, length of its value, both as 32 bits; name; value.
    elements: Vec<u8>,
}

/// The first and the last hash that has its first `depth` bits in common with `hash`.
fn range_of(hash: u64, depth: u8) -> (u64, u64) {
    let free = if depth == 0 { u64::MAX } else { (1 << (64 - depth)) - 1 };
    (hash & !free, hash | free)
}

impl Handed {
    fn bytes(&self) -> usize {
        self.elements.capacity() + RANGE_BYTES
    }

    fn push(&mut self, name: &[u8], value: &[u8]) {
        for part in [name, value] {
            let len = u32::try_from(part.len()).expect("a name and a value have less than 4 GB");
            self.elements.extend_from_slice(&len.to_le_bytes());
        }
        self.elements.extend_from_slice(name);
        self.elements.extend_from_slice(value);
    }

    fn for_each(&self, mut show: impl FnMut(&[u8], &[u8])) {
        let mut rest = &self.elements[..];
        while let Some((lengths, behind)) = rest.split_at_checked(LENGTHS) {
            let length = |at: usize| u32::from_le_bytes(lengths[at..at + 4].try_into().expect("four bytes")) as usize;
            let (name, behind) = behind.split_at(length(0));
            let (value, behind) = behind.split_at(length(4));
            show(name, value);
            rest = behind;
        }
        debug_assert!(rest.is_empty(), "an element was handed over whole");
    }
}

impl Reading {
    /// The range that has this hash and reaches to `last`.
    fn covering(&self, hash: u64, last: u64) -> Option<u64> {
        let (&first, handed) = self.handed.range(..=hash).next_back()?;
        (handed.last >= last).then_some(first)
    }

    /// Whether the hash is in a handed range.
    fn has(&self, hash: u64) -> bool {
        self.covering(hash, hash).is_some()
    }
}

impl LeafTable {
    /// Begins to read: the elements that are there now are shown by [`LeafTable::read_on`].
    pub fn begin_reading(&mut self, number: ReaderNumber) {
        let readers = self.readers.get_or_insert_default();
        debug_assert!(readers.readings.iter().all(|reading| reading.number != number), "a reader has its own number");
        readers.readings.push(Reading { number, cursor: 0, handed: BTreeMap::new(), is_over: false });
    }

    /// Forgets a reader that wants no more: first some of what was handed over to it, at last the reader.
    pub(crate) fn end_reading(&mut self, number: ReaderNumber) -> Forgotten {
        let Some(readers) = &mut self.readers else { return Forgotten::Unknown };
        let found = readers.readings.iter().position(|reading| reading.number == number);
        let Some(at) = found else { return Forgotten::Unknown };
        let reading = &mut readers.readings[at];
        reading.is_over = true;
        for _ in 0..RANGES_FORGOTTEN {
            let Some((_, handed)) = reading.handed.pop_last() else { break };
            readers.bytes -= handed.bytes();
        }
        if !reading.handed.is_empty() {
            return Forgotten::Partly;
        }
        readers.readings.swap_remove(at);
        if readers.readings.is_empty() {
            debug_assert_eq!(readers.bytes, 0, "what was handed over goes with its reader");
            self.readers = None;
        }
        Forgotten::Wholly
    }

    /// Whether somebody reads.
    pub(crate) fn is_read(&self) -> bool {
        self.readers.is_some()
    }

    /// Bytes of what was handed over to readers.
    #[inline]
    pub(super) fn handed_bytes(&self) -> usize {
        self.readers.as_ref().map_or(0, |readers| readers.bytes)
    }

    /// Hands the leaf of a hash over to all readers that have not come to it: it is about to change.
    #[cold]
    #[inline(never)]
    pub(super) fn hand_over(&mut self, ctx: ReadCtx<'_>, hash: u64) {
        let mut readers = self.readers.take().expect("the caller looked");
        let cell = self.directory.get(hash);
        let (first, last) = range_of(hash, cell.depth());
        for reading in &mut readers.readings {
            let first = first.max(reading.cursor);
            if reading.is_over || reading.cursor > last || reading.covering(first, last).is_some() {
                continue;
            }
            let mut all = Handed { last, elements: Vec::new() };
            if let Some(r) = cell.leaf(ctx.log) {
                let leaf = open(ctx.log, ctx.access, r);
                all.elements.reserve(leaf.bytes() + LENGTHS * leaf.len());
                for (_, element) in leaf.iter() {
                    let hash = self.form.hash(ctx, element);
                    if hash >= first && !reading.has(hash) {
                        let (name, value) = self.form.parts(ctx, element);
                        all.push(name.text(&mut [0; 20]), value.text(&mut [0; 20]));
                    }
                }
            }
            let within: SmallVec<[u64; 4]> = reading.handed.range(first..=last).map(at_first).collect();
            for part in within {
                let part = reading.handed.remove(&part).expect("a range that was found");
                readers.bytes -= part.bytes();
                all.elements.extend_from_slice(&part.elements);
            }
            all.elements.shrink_to_fit();
            readers.bytes += all.bytes();
            reading.handed.insert(first, all);
        }
        self.readers = Some(readers);
    }

    /// Shows a reader the elements of the next leaves, as they were when it began, until `show` says at the end of a leaf
    /// that it wants no more, or `leaves` leaves were looked at. All elements with hashes below the one that is returned
    /// have been shown, and no other; `None` is returned when all were, and the reader is forgotten.
    pub fn read_on(
        &mut self,
        ctx: ReadCtx<'_>,
        number: ReaderNumber,
        leaves: usize,
        mut show: impl FnMut(PackedEntry<'_>, PackedEntry<'_>) -> bool,
    ) -> Option<u64> {
        let mut readers = self.readers.take().expect("a reader that has begun");
        let at = readers.readings.iter().position(|reading| reading.number == number);
        let reading = &mut readers.readings[at.expect("a reader that has begun")];
        let (mut wants_more, mut looked, mut next) = (true, 0, Some(reading.cursor));
        while let Some(cursor) = next.filter(|_| wants_more && looked < leaves) {
            let mut show = |name: PackedEntry<'_>, value: PackedEntry<'_>| wants_more &= show(name, value);
            let (last, handed_bytes) = self.read_leaf(ctx, reading, &mut show);
            debug_assert!(last >= cursor, "a reader goes on");
            readers.bytes -= handed_bytes;
            next = last.checked_add(1);
            reading.cursor = next.unwrap_or(cursor);
            looked += 1;
        }
        self.readers = Some(readers);
        if next.is_none() {
            let forgotten = self.end_reading(number);
            debug_assert_eq!(forgotten, Forgotten::Wholly, "all that was handed over was shown");
        }
        next
    }

    /// Shows the leaf at a reader's cursor, or the handed range that it lies in. Returns the last hash of either, and the
    /// bytes of what had been handed over of it.
    fn read_leaf(
        &self,
        ctx: ReadCtx<'_>,
        reading: &mut Reading,
        show: &mut impl FnMut(PackedEntry<'_>, PackedEntry<'_>),
    ) -> (u64, usize) {
        let cursor = reading.cursor;
        let cell = self.directory.get(cursor);
        let (first, last) = range_of(cursor, cell.depth());
        let covering = reading.covering(cursor, last);
        if covering.is_none()
            && let Some(r) = cell.leaf(ctx.log)
        {
            self.fetch_leaf_at(ctx, last.wrapping_add(1));
            let is_whole = first == cursor && reading.handed.range(first..=last).next().is_none();
            for (_, element) in open(ctx.log, ctx.access, r).iter() {
                let is_live = is_whole || {
                    let hash = self.form.hash(ctx, element);
                    hash >= cursor && !reading.has(hash)
                };
                if is_live {
                    let (name, value) = self.form.parts(ctx, element);
                    show(name, value);
                }
            }
        }
        let (mut reached, mut bytes) = (last, 0);
        let within: SmallVec<[u64; 4]> =
            reading.handed.range(covering.unwrap_or(cursor)..=last).map(at_first).collect();
        for first in within {
            let handed = reading.handed.remove(&first).expect("a range that was found");
            handed.for_each(|name, value| show(PackedEntry::Bytes(name), PackedEntry::Bytes(value)));
            bytes += handed.bytes();
            reached = reached.max(handed.last);
        }
        (reached, bytes)
    }

    /// Asks for the leaf of a hash, which is read next.
    fn fetch_leaf_at(&self, ctx: ReadCtx<'_>, hash: u64) {
        if let Some(r) = self.directory.get(hash).leaf(ctx.log) {
            ctx.log.line(r).fetch_pair();
        }
    }

    /// Checks the readers and what was handed over to them.
    pub(super) fn verify_readers(&self, ctx: ReadCtx<'_>) {
        let Some(readers) = &self.readers else { return };
        assert!(!readers.readings.is_empty(), "a table without readers has no list of them");
        let mut bytes = 0;
        for reading in &readers.readings {
            let mut next = Some(reading.cursor);
            for (&first, handed) in &reading.handed {
                assert!(next.is_some_and(|next| first >= next) && handed.last >= first, "ranges are apart, and ahead");
                handed.for_each(|name, _| {
                    let hash = hash64(ctx.seed, name);
                    assert!((first..=handed.last).contains(&hash), "an element is in its range");
                });
                next = handed.last.checked_add(1);
                bytes += handed.bytes();
            }
        }
        assert_eq!(bytes, readers.bytes, "bytes of all that was handed over");
    }
}

fn at_first((&first, _): (&u64, &Handed)) -> u64 {
    first
}
