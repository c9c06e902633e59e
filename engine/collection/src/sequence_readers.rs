//! Readers of a collection whose leaves have an order of their own: lists, sorted sets, streams.
//!
//! ```text
//!   when it begins    order:   the numbers of the leaves in the range, first to last      4 bytes a leaf
//!   leaf number       pending: one bit a number: the leaf is still to be shown, and as it was
//!   a change          of a pending leaf copies its bytes to `handed`, by its number, and takes the bit away
//! ```
//! The numbers stay with the leaves when reclaim moves them, so it has nothing to do here. A leaf that goes was handed
//! over before, and its number may be given out again: the bit is gone, so nobody takes the new leaf for the old one.
//! Leaves that are cut off keep numbers and objects. Lists and sorted sets hand them over before they kill them; a stream does
//! not kill them while somebody reads.
//!
//! Twenty thousand leaves (10 million short elements) are listed in some 30 us. What was handed over counts as memory of
//! the collection until it is shown. Not here: what a leaf's bytes are.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use varve_base::Ref;
use varve_segment::{Access, Log};

use crate::counted_tree::{CountedTree, Leaf};
use crate::handed::{HandedLeaf, HandedLeaves, ReaderBytes};
use crate::{Forgotten, ReadCtx, ReaderNumber};

/// Handed leaves, and objects that they name, that are given up in one step, when their reader wants no more.
const FORGOTTEN_MAX: usize = 256;

/// The readers of a collection.
#[derive(Default)]
pub(crate) struct SequenceReaders {
    /// A key that a command names thousands of times has as many readers.
    readings: BTreeMap<ReaderNumber, SequenceReading>,
    /// Bytes of all lists of leaves.
    list_bytes: usize,
    leaves: HandedLeaves,
}

/// One reader.
struct SequenceReading {
    bytes: ReaderBytes,
    /// The numbers of the leaves in the order in which they are shown.
    order: Vec<u32>,
    /// How many of them have been shown.
    shown: usize,
    /// By leaf number, 64 a word.
    pending: Vec<u64>,
    /// By leaf number. A tree: a table that grows would be moved as a whole, in one hold of the shard.
    handed: BTreeMap<u32, Arc<HandedLeaf>>,
    /// Elements of the first leaf that lie before the range.
    skip: u64,
    /// Elements that are still to be shown.
    left: u64,
    /// It wants no more.
    is_over: bool,
}

/// A leaf that is to be shown.
pub(crate) enum NextLeaf {
    /// It is in the tree as it was.
    Live(u32),
    /// It has changed since: as it was. It goes back by [`SequenceReaders::take_back`].
    Handed(Arc<HandedLeaf>),
}

/// The elements of a leaf that are to be shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LeafPart {
    /// Elements to pass over, in the order of showing.
    pub(crate) skip: u64,
    /// Elements to show at most.
    pub(crate) left: u64,
}

/// The readers as a collection has them: none while nobody reads.
pub(crate) type Readers = Option<Box<SequenceReaders>>;

/// Forgets a reader that wants no more, or a part of what was handed over to it; the last one ends the readers. Objects that
/// only it needed are given to `bury`.
pub(crate) fn end(readers: &mut Readers, number: ReaderNumber, bury: impl FnOnce(&mut HandedLeaves)) -> Forgotten {
    let Some(some) = readers else { return Forgotten::Unknown };
    let forgotten = some.forget(number);
    bury(some.leaves_mut());
    if some.is_empty() {
        *readers = None;
    }
    forgotten
}

/// Sees to it that readers have a node, whose elements all lie in it, as it is: it is about to change, or to go. The node is
/// handed over as it lies in the log.
#[inline(always)]
pub(crate) fn before(readers: &mut Readers, tree: &CountedTree, (log, access): (&Log, &Access), leaf: Leaf) {
    if let Some(readers) = readers {
        hand_node_over(readers, tree, (log, access), leaf);
    }
}

#[cold]
#[inline(never)]
fn hand_node_over(readers: &mut SequenceReaders, tree: &CountedTree, (log, access): (&Log, &Access), leaf: Leaf) {
    let node = access.open(log, tree.leaf_ref(leaf)).value();
    readers.hand_over(log, leaf.number(), node, std::iter::empty());
}

/// Shows a reader the next nodes, whose elements all lie in them, until `show`, which gives the number of elements that it
/// has taken and whether it wants more, wants no more. Returns false when all was shown: the reader is forgotten then.
pub(crate) fn read_nodes_on(
    readers: &mut Readers,
    tree: &CountedTree,
    ctx: ReadCtx<'_>,
    number: ReaderNumber,
    mut show: impl FnMut(&[u8], LeafPart) -> (u64, bool),
) -> bool {
    let some = readers.as_mut().expect("a reader that has begun");
    let is_left = loop {
        let Some((leaf, part)) = some.next(number) else { break false };
        if let Some(leaf) = some.upcoming(number).and_then(|leaf| tree.leaf(leaf)) {
            ctx.log.line(tree.leaf_ref(leaf)).fetch_pair();
        }
        let mut handed = None;
        let value = match leaf {
            NextLeaf::Live(leaf) => {
                let leaf = tree.leaf(leaf).expect("a leaf that is as it was");
                ctx.access.open(ctx.log, tree.leaf_ref(leaf)).value()
            }
            NextLeaf::Handed(leaf) => handed.insert(leaf).bytes(),
        };
        let (taken, wants_more) = show(value, part);
        handed.into_iter().for_each(|leaf| some.take_back(number, leaf));
        let is_left = some.note_shown(number, taken);
        if !wants_more || !is_left {
            break is_left;
        }
    };
    if !is_left {
        let forgotten = end(readers, number, |_| ());
        debug_assert_eq!(forgotten, Forgotten::Wholly, "all that was handed over was shown");
    }
    is_left
}

impl SequenceReading {
    fn bit(leaf: u32) -> (usize, u64) {
        (leaf as usize / 64, 1 << (leaf % 64))
    }

    fn is_pending(&self, leaf: u32) -> bool {
        let (word, bit) = SequenceReading::bit(leaf);
        self.pending.get(word).is_some_and(|word| word & bit != 0)
    }

    fn settle(&mut self, leaf: u32) {
        let (word, bit) = SequenceReading::bit(leaf);
        debug_assert!(self.is_pending(leaf), "a leaf is handed over or shown once");
        self.pending[word] &= !bit;
    }

    fn list_bytes(&self) -> usize {
        self.order.capacity() * size_of::<u32>() + self.pending.capacity() * size_of::<u64>()
    }
}

impl SequenceReaders {
    /// Adds a reader of `count` elements of a tree's leaves from position `first` on, towards the low end if `down`. Of a stream
    /// these may be none.
    pub(crate) fn begin(
        &mut self,
        tree: &CountedTree,
        reader: (ReaderNumber, ReaderBytes),
        (first, count): (u64, u64),
        down: bool,
    ) {
        if count == 0 {
            return self.add(reader, Vec::new(), 0, 0);
        }
        let last = if down { first + 1 - count } else { first + count - 1 };
        let (low_leaf, before) = tree.locate(first.min(last)).expect("a position below the length");
        let (high_leaf, offset) = tree.locate(first.max(last)).expect("a position below the length");
        let mut order = Vec::new();
        tree.list_numbers(low_leaf, high_leaf, &mut order);
        let mut skip = before;
        if down {
            order.reverse();
            skip = tree.count_of(high_leaf) - 1 - offset;
        }
        self.add(reader, order, skip, count);
    }

    /// Adds a reader of these leaves, in the order in which they are to be shown, of whose elements the first `skip` are
    /// passed over and `left` shown.
    fn add(&mut self, (number, bytes): (ReaderNumber, ReaderBytes), order: Vec<u32>, skip: u64, left: u64) {
        let words = order.iter().max().map_or(0, |&leaf| leaf as usize / 64 + 1);
        let mut pending = vec![0; words];
        for &leaf in &order {
            let (word, bit) = SequenceReading::bit(leaf);
            debug_assert!(pending[word] & bit == 0, "a leaf has one place");
            pending[word] |= bit;
        }
        let handed = BTreeMap::new();
        let reading = SequenceReading { bytes, order, shown: 0, pending, handed, skip, left, is_over: false };
        self.list_bytes += reading.list_bytes();
        reading.bytes.add(reading.list_bytes());
        let before = self.readings.insert(number, reading);
        debug_assert!(before.is_none(), "a reader has its own number");
    }

    /// Whether nobody reads any more.
    pub(crate) fn is_empty(&self) -> bool {
        self.readings.is_empty()
    }

    /// Bytes of all that readers have here.
    pub(crate) fn bytes(&self) -> usize {
        self.list_bytes + self.leaves.bytes()
    }

    /// Hands a leaf that is about to change, which names the objects of these numbers, over to the readers that have not
    /// come to it, in one copy.
    pub(crate) fn hand_over(&mut self, log: &Log, leaf: u32, bytes: &[u8], numbers: impl Iterator<Item = u64> + Clone) {
        let mut copy: Option<Arc<HandedLeaf>> = None;
        for reading in self.readings.values_mut().filter(|reading| !reading.is_over && reading.is_pending(leaf)) {
            let copy = copy.get_or_insert_with(|| self.leaves.make(log, bytes.into(), numbers.clone()));
            reading.settle(leaf);
            self.leaves.give(copy, &reading.bytes);
            let before = reading.handed.insert(leaf, Arc::clone(copy));
            debug_assert!(before.is_none(), "a leaf is handed over once");
        }
    }

    /// Copies a live leaf, which names objects of these numbers, for the reader that has come to it.
    pub(crate) fn keep(
        &mut self,
        log: &Log,
        number: ReaderNumber,
        bytes: &[u8],
        numbers: impl Iterator<Item = u64>,
    ) -> Arc<HandedLeaf> {
        let leaf = self.leaves.make(log, bytes.into(), numbers);
        let reading = self.readings.get(&number).expect("a reader that has begun");
        self.leaves.give(&leaf, &reading.bytes);
        leaf
    }

    /// Puts the leaf that a reader has come to back: its first `skip` elements were shown, others are not yet.
    pub(crate) fn put_back(&mut self, number: ReaderNumber, leaf: Arc<HandedLeaf>, skip: u64) {
        let reading = self.readings.get_mut(&number).expect("a reader that has begun");
        debug_assert!(reading.shown > 0 && reading.left > 0, "it has come to a leaf, and wants more of it");
        reading.shown -= 1;
        reading.skip = skip;
        reading.handed.insert(reading.order[reading.shown], leaf);
    }

    /// Where the object of a number in a handed leaf is now.
    pub(crate) fn object(&self, leaf: &HandedLeaf, number: u64) -> Ref {
        self.leaves.object(leaf, number)
    }

    /// The objects that readers may need beyond what the collection has itself.
    pub(crate) fn leaves_mut(&mut self) -> &mut HandedLeaves {
        &mut self.leaves
    }

    /// Takes a leaf back that was shown to a reader.
    pub(crate) fn take_back(&mut self, number: ReaderNumber, leaf: Arc<HandedLeaf>) {
        let reading = self.readings.get(&number).expect("a reader that has begun");
        self.leaves.take_back(leaf, &reading.bytes);
    }

    /// The next leaf of a reader, and which of its elements it wants; `None` when all were shown.
    pub(crate) fn next(&mut self, number: ReaderNumber) -> Option<(NextLeaf, LeafPart)> {
        let reading = self.readings.get_mut(&number).expect("a reader that has begun");
        let &leaf = reading.order.get(reading.shown).filter(|_| reading.left > 0)?;
        reading.shown += 1;
        let part = LeafPart { skip: std::mem::take(&mut reading.skip), left: reading.left };
        if reading.is_pending(leaf) {
            reading.settle(leaf);
            return Some((NextLeaf::Live(leaf), part));
        }
        let handed = reading.handed.remove(&leaf).expect("a leaf that is not as it was has been handed over");
        Some((NextLeaf::Handed(handed), part))
    }

    /// The leaf that comes next if it is as it was, to ask for it ahead.
    pub(crate) fn upcoming(&self, number: ReaderNumber) -> Option<u32> {
        let reading = self.readings.get(&number)?;
        reading.order.get(reading.shown).copied().filter(|&leaf| reading.is_pending(leaf))
    }

    /// Counts elements that a reader was shown; whether there are more.
    pub(crate) fn note_shown(&mut self, number: ReaderNumber, elements: u64) -> bool {
        let reading = self.readings.get_mut(&number).expect("a reader that has begun");
        debug_assert!(elements <= reading.left, "no more than it wants");
        reading.left -= elements;
        reading.left > 0
    }

    /// Forgets a reader that wants no more: first some of what was handed over to it, at last the reader.
    pub(crate) fn forget(&mut self, number: ReaderNumber) -> Forgotten {
        let Some(reading) = self.readings.get_mut(&number) else { return Forgotten::Unknown };
        reading.is_over = true;
        let mut forgotten = 0;
        while forgotten < FORGOTTEN_MAX {
            let Some((_, leaf)) = reading.handed.pop_last() else { break };
            forgotten += 1 + leaf.objects();
            self.leaves.take_back(leaf, &reading.bytes);
        }
        if !reading.handed.is_empty() {
            return Forgotten::Partly;
        }
        self.list_bytes -= reading.list_bytes();
        reading.bytes.sub(reading.list_bytes());
        self.readings.remove(&number);
        Forgotten::Wholly
    }

    /// Checks that each leaf that is to be shown is there, or was handed over; adds the objects that only readers have.
    pub(crate) fn verify(&self, is_there: impl Fn(u32) -> bool, live: &mut HashSet<Ref>) {
        let mut bytes = 0;
        for reading in self.readings.values() {
            for &leaf in &reading.order[reading.shown..] {
                assert!(
                    reading.is_over || reading.is_pending(leaf) != reading.handed.contains_key(&leaf),
                    "leaf {leaf} is as it was, or was handed over"
                );
                assert!(!reading.is_pending(leaf) || is_there(leaf), "leaf {leaf} goes only when it was handed over");
            }
            bytes += reading.list_bytes();
        }
        assert_eq!(bytes, self.list_bytes, "bytes of the lists of leaves");
        self.leaves.verify(self.readings.values().flat_map(|reading| reading.handed.values()), live);
    }
}
