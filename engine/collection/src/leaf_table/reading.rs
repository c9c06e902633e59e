//! Readers that take longer than one hold of the shard: each is shown every element once, as it was when it began.
//!
//! ```text
//!   hashes   0 ............ cursor ..................................... 2^64
//!            shown          | leaf as it is | covered     | leaf as it is |
//!                                                 ^
//!            the first change in a leaf beyond the cursor copies the leaf, with the range of its hashes
//! ```
//! A covered range of hashes is shown from copies, whatever its leaves become: later changes there find it covered and
//! copy nothing. Leaves are split and joined by bits of the hash, so a leaf that was joined may be covered in part: then
//! what is left is copied, by elements. Copies stay apart when leaves are joined: a table that shrinks to one leaf would
//! else put all of them together in one command.
//!
//! A change hands over one leaf at most, some 4 KB, in one copy for all readers. Elements that have objects of their own
//! are not copied ([`crate::handed`]). A live leaf with such elements is handed to its reader before it is shown, so that
//! showing may end behind any of them. Reclaim moves leaves and changes none, so it hands nothing over. Not here: which
//! client reads, and when a reader ends.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use smallvec::SmallVec;
use varve_base::Ref;
use varve_packed::leaf::{LeafElement, PackedLeaf, PackedLeafMut, leaf_bytes};
use varve_packed::node::PackedEntry;

use super::directory::Cell;
use super::reshape::sizes;
use super::{LeafTable, open, tag};
use crate::handed::{HandedLeaf, HandedLeaves, ReaderBytes};
use crate::{Forgotten, ReadCtx, ReaderNumber, WriteCtx};

/// Handed leaves, and objects that they name, that are given up in one step, when their reader wants no more.
const FORGOTTEN_MAX: usize = 256;

/// The readers of a table.
#[derive(Default)]
pub(super) struct Readers {
    /// A key that a command names thousands of times has as many readers.
    readings: BTreeMap<ReaderNumber, Reading>,
    pub(super) leaves: HandedLeaves,
}

/// One reader.
struct Reading {
    bytes: ReaderBytes,
    /// The first hash that is not shown yet; where a copy is shown in part, its first one.
    cursor: u64,
    /// Ranges of hashes, first to last, that have changed beyond the cursor since the reader began, with a gap between two.
    covered: BTreeMap<u64, u64>,
    /// Copies of the elements in these ranges, by the first hash of each.
    handed: BTreeMap<u64, Handed>,
    /// It wants no more.
    is_over: bool,
}

/// The elements of a range of hashes as they were.
struct Handed {
    last: u64,
    leaf: Arc<HandedLeaf>,
    /// Elements that were shown.
    shown: usize,
}

/// A range of hashes, both ends in it.
type HashRange = (u64, u64);

/// The first and the last hash that has its first `depth` bits in common with `hash`.
pub(super) fn range_of(hash: u64, depth: u8) -> HashRange {
    let free = if depth == 0 { u64::MAX } else { (1 << (64 - depth)) - 1 };
    (hash & !free, hash | free)
}

impl Reading {
    /// The end of the covered range that the hash is in.
    fn covered_to(&self, hash: u64) -> Option<u64> {
        let (_, &last) = self.covered.range(..=hash).next_back()?;
        (last >= hash).then_some(last)
    }

    /// The first hash behind this one, and not behind `last`, that is covered.
    fn next_covered(&self, hash: u64, last: u64) -> Option<u64> {
        self.covered.range(hash..=last).next().map(|(&first, _)| first)
    }

    /// The parts of a range that are not covered. A leaf has few: each change of it leaves it covered, so there are no more
    /// than leaves that were joined since its last change.
    fn gaps(&self, first: u64, last: u64) -> SmallVec<[HashRange; 2]> {
        let (mut gaps, mut next) = (SmallVec::new(), Some(first));
        while let Some(at) = next.filter(|&at| at <= last) {
            next = match self.covered_to(at) {
                Some(covered) => covered.checked_add(1),
                None => {
                    let end = self.next_covered(at, last).map_or(last, |covered| covered - 1);
                    gaps.push((at, end));
                    end.checked_add(1)
                }
            };
        }
        gaps
    }

    /// Covers a range, which is not covered, and joins it with its neighbours.
    fn cover(&mut self, (first, mut last): HashRange) {
        debug_assert_eq!(self.gaps(first, last)[..], [(first, last)], "no part of a range is covered twice");
        let before = first.checked_sub(1).filter(|&before| self.covered_to(before).is_some());
        let begin = before.map_or(first, |before| *self.covered.range(..=before).next_back().expect("it is covered").0);
        if let Some(behind) = last.checked_add(1)
            && let Some(end) = self.covered.remove(&behind)
        {
            last = end;
        }
        self.covered.insert(begin, last);
    }

    /// Takes over what a range has had.
    fn take(&mut self, range: HashRange, leaf: Option<Arc<HandedLeaf>>, leaves: &mut HandedLeaves) {
        debug_assert!(range.0 >= self.cursor, "what is behind the cursor was shown");
        self.cover(range);
        if let Some(leaf) = leaf {
            leaves.give(&leaf, &self.bytes);
            self.handed.insert(range.0, Handed { last: range.1, leaf, shown: 0 });
        }
    }
}

impl LeafTable {
    /// Begins to read: the elements that are there now are shown by [`LeafTable::read_on`]. What is kept for the reader is
    /// counted in `bytes`.
    pub fn begin_reading(&mut self, number: ReaderNumber, bytes: ReaderBytes) {
        let readers = self.readers.get_or_insert_default();
        let (covered, handed) = (BTreeMap::new(), BTreeMap::new());
        let reading = Reading { bytes, cursor: 0, covered, handed, is_over: false };
        let before = readers.readings.insert(number, reading);
        debug_assert!(before.is_none(), "a reader has its own number");
    }

    /// Forgets a reader that wants no more: first some of what was handed over to it, at last the reader.
    pub(crate) fn end_reading(&mut self, ctx: &mut WriteCtx<'_>, number: ReaderNumber) -> Forgotten {
        let Some(readers) = &mut self.readers else { return Forgotten::Unknown };
        let Readers { readings, leaves } = &mut **readers;
        let Some(reading) = readings.get_mut(&number) else { return Forgotten::Unknown };
        reading.is_over = true;
        let mut forgotten = 0;
        while forgotten < FORGOTTEN_MAX {
            let Some((_, handed)) = reading.handed.pop_last() else { break };
            forgotten += 1 + handed.leaf.objects();
            leaves.take_back(handed.leaf, &reading.bytes);
        }
        leaves.bury(ctx);
        if !reading.handed.is_empty() {
            return Forgotten::Partly;
        }
        readings.remove(&number);
        if readings.is_empty() {
            debug_assert!(leaves.is_empty(), "what was handed over goes with its reader");
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
        self.readers.as_ref().map_or(0, |readers| readers.leaves.bytes())
    }

    /// Hands the leaf of a hash over to all readers that have not come to it: it is about to change.
    #[cold]
    #[inline(never)]
    pub(super) fn hand_over(&mut self, ctx: ReadCtx<'_>, hash: u64) {
        let mut readers = self.readers.take().expect("the caller looked");
        let Readers { readings, leaves } = &mut *readers;
        let cell = self.directory.get(hash);
        let (first, last) = range_of(hash, cell.depth());
        let mut copies = SmallVec::<[(HashRange, Option<Arc<HandedLeaf>>); 2]>::new();
        for reading in readings.values_mut().filter(|reading| !reading.is_over && reading.cursor <= last) {
            for gap in reading.gaps(first.max(reading.cursor), last) {
                let known = copies.iter().find(|(range, _)| *range == gap).map(|(_, copy)| copy.clone());
                let copy = known.unwrap_or_else(|| {
                    let copy = self.copy_of(ctx, cell, gap, gap == (first, last), leaves);
                    copies.push((gap, copy.clone()));
                    copy
                });
                reading.take(gap, copy, leaves);
            }
        }
        self.readers = Some(readers);
    }

    /// Copies the elements of a leaf whose hashes are in a range, all of them if that is the `whole` leaf; none if there are
    /// none.
    fn copy_of(
        &self,
        ctx: ReadCtx<'_>,
        cell: Cell,
        (first, last): HashRange,
        whole: bool,
        leaves: &mut HandedLeaves,
    ) -> Option<Arc<HandedLeaf>> {
        let leaf = open(ctx.log, ctx.access, cell.leaf(ctx.log)?);
        let number = |element| if let LeafElement::Elsewhere(number) = element { Some(number) } else { None };
        if whole {
            let mut bytes = vec![0; leaf.copied_bytes()];
            leaf.copy_into(&mut bytes).expect("it has the bytes that it asked for");
            let numbers = leaf.iter().filter_map(|(_, element)| number(element));
            return Some(leaves.make(ctx.log, bytes.into_boxed_slice(), numbers));
        }
        let is_in = |element| (first..=last).contains(&self.hash_of_element(ctx, element));
        let some: Vec<(u8, LeafElement<'_>)> = leaf.iter().filter(|&(_, element)| is_in(element)).collect();
        if some.is_empty() {
            return None;
        }
        let (count, bytes, longest) = sizes(some.iter().copied());
        let mut bytes = vec![0; leaf_bytes(count, bytes, longest)];
        let mut copy = PackedLeafMut::init(&mut bytes).expect("room for a head");
        for &(tag, element) in &some {
            copy.push_element(tag, element).expect("room for all of them");
        }
        Some(leaves.make(ctx.log, bytes.into_boxed_slice(), some.iter().filter_map(|&(_, element)| number(element))))
    }

    /// Shows a reader the elements of the next leaves, and when they expire, as they were when it began, until `show` says at the end of a leaf, or
    /// behind an element that has an object of its own, that it wants no more, or `most` leaves were looked at. All elements
    /// with hashes below the one that is returned have been shown, and no other if no element has an object of its own.
    /// `None` is returned when all were, and the reader is forgotten.
    pub fn read_on(
        &mut self,
        ctx: &mut WriteCtx<'_>,
        number: ReaderNumber,
        most: usize,
        mut show: impl FnMut(PackedEntry<'_>, PackedEntry<'_>, Option<i64>) -> bool,
    ) -> Option<u64> {
        let mut readers = self.readers.take().expect("a reader that has begun");
        let Readers { readings, leaves } = &mut *readers;
        let reading = readings.get_mut(&number).expect("a reader that has begun");
        let (mut wants_more, mut looked, mut next) = (true, 0, Some(reading.cursor));
        let mut show = |name: PackedEntry<'_>, value: PackedEntry<'_>, expiry_ms: Option<i64>| {
            wants_more &= show(name, value, expiry_ms);
            wants_more
        };
        let mut goes_on = true;
        while let Some(cursor) = next.filter(|_| goes_on && looked < most) {
            debug_assert!(cursor >= reading.cursor, "a reader goes on");
            reading.cursor = cursor;
            (next, goes_on) = match reading.covered_to(cursor) {
                Some(last) => self.read_handed(ctx.read(), reading, last, leaves, &mut show),
                None => self.read_live(ctx.read(), reading, leaves, &mut show),
            };
            looked += 1;
        }
        leaves.bury(ctx);
        reading.cursor = next.unwrap_or(reading.cursor);
        self.readers = Some(readers);
        if next.is_none() {
            let forgotten = self.end_reading(ctx, number);
            debug_assert_eq!(forgotten, Forgotten::Wholly, "all that was handed over was shown");
        }
        next
    }

    /// Shows the next copy of the covered range that a reader's cursor is in, and which ends at `last`. Returns the next hash,
    /// and whether the reader wants more.
    fn read_handed(
        &self,
        ctx: ReadCtx<'_>,
        reading: &mut Reading,
        last: u64,
        leaves: &mut HandedLeaves,
        show: &mut impl FnMut(PackedEntry<'_>, PackedEntry<'_>, Option<i64>) -> bool,
    ) -> (Option<u64>, bool) {
        let Some((&first, _)) = reading.handed.range(reading.cursor..=last).next() else {
            return (last.checked_add(1), true);
        };
        let mut handed = reading.handed.remove(&first).expect("a copy that was found");
        let copy = Arc::clone(&handed.leaf);
        let (leaf, mut wants_more) = (PackedLeaf::open(copy.bytes()), true);
        for (_, element) in leaf.iter().skip(handed.shown) {
            handed.shown += 1;
            let LeafElement::Elsewhere(number) = element else {
                let (name, value) = self.form.parts(ctx, element);
                wants_more = show(name, value, self.form.expiry_ms(ctx, element));
                continue;
            };
            let r = leaves.object(&handed.leaf, number);
            let (name, value) = self.form.own_parts(ctx, r);
            wants_more = show(name, value, ctx.access.open(ctx.log, r).expiry_ms());
            if !wants_more && handed.shown < leaf.len() {
                reading.handed.insert(first, handed);
                return (Some(first), false);
            }
        }
        debug_assert!(handed.shown == leaf.len(), "all of a copy was shown");
        let next = handed.last.checked_add(1);
        drop(copy);
        leaves.take_back(handed.leaf, &reading.bytes);
        (next, wants_more)
    }

    /// Shows what is not covered of the leaf at a reader's cursor, up to the first covered hash. Returns the next hash, and
    /// whether the reader wants more.
    fn read_live(
        &self,
        ctx: ReadCtx<'_>,
        reading: &mut Reading,
        leaves: &mut HandedLeaves,
        show: &mut impl FnMut(PackedEntry<'_>, PackedEntry<'_>, Option<i64>) -> bool,
    ) -> (Option<u64>, bool) {
        let cursor = reading.cursor;
        let cell = self.directory.get(cursor);
        let (first, end) = range_of(cursor, cell.depth());
        let last = reading.next_covered(cursor, end).map_or(end, |covered| covered - 1);
        debug_assert!((first..=end).contains(&cursor) && last >= cursor, "a part of the leaf at the cursor");
        let whole = (first, end) == (cursor, last);
        let Some(r) = cell.leaf(ctx.log) else { return (last.checked_add(1), true) };
        self.fetch_leaf_at(ctx, end.wrapping_add(1));
        let leaf = open(ctx.log, ctx.access, r);
        if leaf.iter().any(|(_, element)| matches!(element, LeafElement::Elsewhere(_))) {
            let copy = self.copy_of(ctx, cell, (cursor, last), whole, leaves);
            reading.take((cursor, last), copy, leaves);
            return (Some(cursor), true);
        }
        let mut wants_more = true;
        for (_, element) in leaf.iter() {
            if whole || (cursor..=last).contains(&self.hash_of_element(ctx, element)) {
                let (name, value) = self.form.parts(ctx, element);
                wants_more = show(name, value, self.form.expiry_ms(ctx, element));
            }
        }
        (last.checked_add(1), wants_more)
    }

    /// Whether there was an element of this name and hash when a reader began, which has not passed the hash.
    pub fn contained(&self, ctx: ReadCtx<'_>, number: ReaderNumber, (hash, name): (u64, &[u8])) -> bool {
        let readers = self.readers.as_ref().expect("a reader that has begun");
        let reading = readers.readings.get(&number).expect("a reader that has begun");
        debug_assert!(hash >= reading.cursor, "what was passed is not kept");
        if reading.covered_to(hash).is_none() {
            return self.find_named(ctx, hash, name).is_some();
        }
        let handed = reading.handed.range(..=hash).next_back().filter(|(_, handed)| handed.last >= hash);
        handed.is_some_and(|(_, Handed { leaf, .. })| {
            let is_it = |element| match element {
                LeafElement::Here(_) => self.form.name(ctx, element, |of| of == name),
                LeafElement::Elsewhere(number) => {
                    ctx.access.open(ctx.log, readers.leaves.object(leaf, number)).key() == name
                }
            };
            PackedLeaf::open(leaf.bytes()).find(tag(hash), is_it).is_some()
        })
    }

    /// A reader asks for no hashes below `below` any more: what was handed over to it of them is given up, at most 256
    /// leaves in one call.
    pub fn pass(&mut self, ctx: &mut WriteCtx<'_>, number: ReaderNumber, below: u64) {
        let Readers { readings, leaves } = &mut **self.readers.as_mut().expect("a reader that has begun");
        let reading = readings.get_mut(&number).expect("a reader that has begun");
        let mut passed = below.max(reading.cursor);
        for _ in 0..FORGOTTEN_MAX {
            let Some(first) = reading.handed.first_entry() else { break };
            if first.get().last >= passed {
                break;
            }
            leaves.take_back(first.remove().leaf, &reading.bytes);
        }
        if let Some((&first, _)) = reading.handed.first_key_value() {
            passed = passed.min(first);
        }
        reading.cursor = passed.max(reading.cursor);
        leaves.bury(ctx);
    }

    /// Asks for the leaf of a hash, which is read next.
    fn fetch_leaf_at(&self, ctx: ReadCtx<'_>, hash: u64) {
        if let Some(r) = self.directory.get(hash).leaf(ctx.log) {
            ctx.log.line(r).fetch_pair();
        }
    }

    /// Checks the readers and what was handed over to them, and adds the objects that only they have.
    pub(super) fn verify_readers(&self, ctx: ReadCtx<'_>, live: &mut HashSet<Ref>) {
        let Some(readers) = &self.readers else { return };
        assert!(!readers.readings.is_empty(), "a table without readers has no list of them");
        for reading in readers.readings.values() {
            let mut next = Some(reading.cursor);
            for (&first, Handed { last, leaf, .. }) in &reading.handed {
                assert!(next.is_some_and(|next| first >= next) && *last >= first, "ranges are apart, and ahead");
                assert!(reading.covered_to(first) >= Some(*last), "what was handed over is covered");
                for (_, element) in PackedLeaf::open(leaf.bytes()).iter() {
                    let hash = match element {
                        LeafElement::Here(_) => self.hash_of_element(ctx, element),
                        LeafElement::Elsewhere(number) => {
                            self.hash_of(ctx.seed, ctx.access.open(ctx.log, readers.leaves.object(leaf, number)).key())
                        }
                    };
                    assert!((first..=*last).contains(&hash), "an element is in its range");
                }
                next = last.checked_add(1);
            }
        }
        let all = readers.readings.values().flat_map(|reading| reading.handed.values().map(|handed| &handed.leaf));
        readers.leaves.verify(all, live);
    }
}
