//! The pending entries of a group: those that its consumers were given and have not acknowledged, in the order of IDs.
//!
//! ```text
//!   inner node   | least ID, oldest delivery, consumers | node | .. up to 32         least ID below each child
//!                             |                                                      the least delivery time below it
//!   leaf         | cell | cell | .. up to 64                                         a bit for each consumer below it
//!
//!   narrow cell, 16 bytes   | ms u32 | seq u32 | delivered u32 | deliveries u16 | consumer u16 |    ms and time from the leaf's
//!   wide cell, 40 bytes     what does not fit: a leaf has cells of one kind                    bases on
//! ```
//! A search for entries that were delivered before some time, or that are a consumer's, passes over every subtree that
//! has none: among a million entries none of which is old enough it looks at one node. A search by time goes to the node
//! with the oldest delivery first. Of consumers whose numbers
//! differ by a multiple of 64 one bit knows, so a search may look at leaves in vain.
//!
//! A consumer that is deleted leaves its entries behind, which nobody is shown from then on; they are taken out in steps
//! ([`PendingTree::sweep`]). A subtree that has no others is passed over.
//!
//! Nodes are shared with copies of the tree (a file being written, COPY) and copied before they change.
//!
//! Not here: who the consumers are, and how many entries each has.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BinaryHeap};
use std::sync::Arc;

use super::StreamId;
use super::gone::{GoneConsumers, bit};

/// Cells of a leaf, and children of an inner node.
const LEAF: usize = 64;
const FAN: usize = 32;
/// A delivery may be this number of milliseconds earlier than all others of its leaf, twelve days, before the leaf is
/// written anew.
const EARLIER_MS: i64 = 1 << 30;

/// Entries that a sweep looks at for each that it may take out.
const SWEEP_LOOKS: usize = 4;

/// An entry that is pending.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PendingEntry {
    /// The entry's ID. The stream may not have it any more.
    pub id: StreamId,
    /// When it was delivered last, milliseconds of Unix time.
    pub time_ms: i64,
    /// How often it was delivered.
    pub count: u64,
    /// The number of its consumer.
    pub consumer: u32,
}

/// Which entries a search shows.
#[derive(Clone, Copy, Debug)]
pub struct PendingFilter {
    /// Only those of the consumer with this number.
    pub consumer: Option<u32>,
    /// Only those that were delivered then or before, milliseconds of Unix time.
    pub until_ms: i64,
}

impl PendingFilter {
    /// All entries.
    pub const ALL: PendingFilter = PendingFilter { consumer: None, until_ms: i64::MAX };

    fn takes(self, entry: PendingEntry) -> bool {
        entry.time_ms <= self.until_ms && self.consumer.is_none_or(|number| number == entry.consumer)
    }
}

/// See the head of the file.
#[derive(Clone, Debug)]
pub(super) struct PendingTree {
    root: Arc<Node>,
    /// All entries, those of deleted consumers included.
    len: u64,
    /// Bytes of all nodes.
    bytes: usize,
    /// Bytes of nodes that another tree has too and this one has no more, ever.
    left: u64,
    gone: GoneConsumers,
    /// The next entry that a sweep looks at.
    next_swept: StreamId,
}

#[derive(Clone, Debug)]
enum Node {
    Leaf(Leaf),
    Inner(Vec<Child>),
}

#[derive(Clone, Debug)]
struct Child {
    least: StreamId,
    /// No entry below was delivered earlier.
    oldest_ms: i64,
    /// Has the bits of all consumers below, and may have others.
    consumers: u64,
    node: Arc<Node>,
}

#[derive(Clone, Debug)]
enum Leaf {
    Narrow { base_ms: u64, base_time_ms: i64, cells: Vec<Narrow> },
    Wide(Vec<PendingEntry>),
}

#[derive(Clone, Copy, Debug)]
struct Narrow {
    ms: u32,
    seq: u32,
    time: u32,
    count: u16,
    consumer: u16,
}

const _: () = assert!(size_of::<Narrow>() == 16);

/// A place to which a search by time comes, the least time first.
struct Next<'a> {
    time_ms: i64,
    id: StreamId,
    what: What<'a>,
}

enum What<'a> {
    Node(&'a Node),
    Entry(PendingEntry),
}

impl Next<'_> {
    fn key(&self) -> (i64, StreamId) {
        (self.time_ms, self.id)
    }
}

impl Ord for Next<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        other.key().cmp(&self.key())
    }
}

impl PartialOrd for Next<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Next<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl Eq for Next<'_> {}

/// The result of a change below a node.
struct Changed {
    before: Option<PendingEntry>,
    after: Option<PendingEntry>,
    /// A node behind this one, which was split.
    right: Option<Child>,
}

impl PendingTree {
    /// A tree without entries.
    pub(super) fn new() -> PendingTree {
        let root = Node::Leaf(Leaf::Wide(Vec::new()));
        PendingTree {
            bytes: root.bytes(),
            root: Arc::new(root),
            len: 0,
            left: 0,
            gone: GoneConsumers::default(),
            next_swept: StreamId::MIN,
        }
    }

    /// Number of entries.
    pub(super) fn len(&self) -> u64 {
        debug_assert!(self.gone.entries() <= self.len, "entries of deleted consumers are entries");
        self.len - self.gone.entries()
    }

    /// Bytes of the nodes. O(1).
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Bytes of nodes that were shared with another tree until this one changed, all that there ever were. O(1).
    pub(super) fn left(&self) -> u64 {
        self.left
    }

    /// The entry with an ID. O(log n).
    pub(super) fn get(&self, id: StreamId) -> Option<PendingEntry> {
        let mut node = &*self.root;
        loop {
            match node {
                Node::Leaf(leaf) => {
                    let found = leaf.search(id).ok().map(|at| leaf.get(at));
                    return found.filter(|entry| !self.gone.has(entry.consumer));
                }
                Node::Inner(children) => node = &children[place(children, id)].node,
            }
        }
    }

    /// The entry with the least ID.
    pub(super) fn first(&self) -> Option<PendingEntry> {
        let mut first = None;
        self.scan(StreamId::MIN, PendingFilter::ALL, &mut |entry| {
            first = Some(entry);
            false
        });
        first
    }

    /// The entry with the greatest ID.
    pub(super) fn last(&self) -> Option<PendingEntry> {
        self.root.last(&self.gone)
    }

    /// Shows the entries from an ID on that the filter takes, until `show` wants no more.
    pub(super) fn scan(&self, from: StreamId, filter: PendingFilter, show: &mut dyn FnMut(PendingEntry) -> bool) {
        self.root.scan(from, filter, &self.gone, show);
    }

    /// At most `count` entries that were delivered then or before, milliseconds of Unix time: the oldest delivery first, of one
    /// time the least ID first. O(log n) an entry, whatever else is pending.
    pub(super) fn oldest(&self, until_ms: i64, count: usize) -> Vec<PendingEntry> {
        // A node stands before everything below it: no delivery there is older, and no ID less.
        let mut next = BinaryHeap::from([Next { time_ms: i64::MIN, id: StreamId::MIN, what: What::Node(&self.root) }]);
        let mut oldest = Vec::new();
        while oldest.len() < count
            && let Some(Next { what, .. }) = next.pop()
        {
            match what {
                What::Entry(entry) => oldest.push(entry),
                What::Node(Node::Leaf(leaf)) => {
                    let entries = (0..leaf.len()).map(|at| leaf.get(at));
                    let entries = entries.filter(|entry| entry.time_ms <= until_ms && !self.gone.has(entry.consumer));
                    next.extend(entries.map(|entry| Next {
                        time_ms: entry.time_ms,
                        id: entry.id,
                        what: What::Entry(entry),
                    }));
                }
                What::Node(Node::Inner(children)) => {
                    let due = children.iter();
                    let due = due.filter(|child| child.oldest_ms <= until_ms && !self.gone.has_all(child.consumers));
                    next.extend(due.map(|child| Next {
                        time_ms: child.oldest_ms,
                        id: child.least,
                        what: What::Node(&child.node),
                    }));
                }
            }
        }
        oldest
    }

    /// Makes what is pending of an ID what `change` makes of it: an entry more, another one, or none. O(log n).
    /// Returns what was there before.
    pub(super) fn change(
        &mut self,
        id: StreamId,
        change: impl FnOnce(Option<PendingEntry>) -> Option<PendingEntry>,
    ) -> Option<PendingEntry> {
        let (mut sums, gone) = (Sums::default(), &self.gone);
        let change = |before: Option<PendingEntry>| change(before.filter(|entry| !gone.has(entry.consumer)));
        let Changed { before, after, right } = change_below(&mut self.root, id, change, &mut sums);
        debug_assert!(after.is_none_or(|after| after.id == id), "an entry keeps its ID");
        self.len = self.len + u64::from(after.is_some()) - u64::from(before.is_some());
        if let Some(right) = right {
            let left = Child::of(Arc::clone(&self.root));
            let mut children = Vec::with_capacity(FAN / 4);
            children.extend([left, right]);
            let root = Node::Inner(children);
            sums.grown += root.bytes() as i64;
            self.root = Arc::new(root);
        }
        while let Node::Inner(children) = &*self.root
            && let [only] = &children[..]
        {
            let only = Arc::clone(&only.node);
            sums.grown -= self.root.bytes() as i64;
            self.root = only;
        }
        self.bytes = self.bytes.checked_add_signed(sums.grown as isize).expect("the bytes of all nodes");
        self.left += sums.left;
        debug_assert!(self.bytes > 0, "a tree has a node");
        match before {
            Some(entry) if self.gone.has(entry.consumer) => {
                self.gone.take(entry.consumer);
                None
            }
            before => before,
        }
    }

    /// A consumer with this number of entries is no more: they are shown to nobody. `others` has the bits of those who are. O(log n) in the deleted ones.
    pub(super) fn retire(&mut self, consumer: u32, entries: u64, others: u64) {
        self.gone.add(consumer, entries, others);
    }

    /// A consumer is new: entries with its bit may be its own.
    pub(super) fn meet(&mut self, consumer: u32) {
        self.gone.meet(consumer);
    }

    /// Whether entries of deleted consumers are left, or the numbers of such.
    pub(super) fn wants_sweep(&self) -> bool {
        self.gone.is_any()
    }

    /// Takes at most `entries` entries of deleted consumers out, and looks at some times as many. Returns the numbers that may be
    /// another consumer's now.
    pub(super) fn sweep(&mut self, entries: usize) -> Vec<u32> {
        let bits = self.gone.bits_of_all();
        let (mut found, mut looks, mut next) = (Vec::new(), entries.saturating_mul(SWEEP_LOOKS), None);
        if self.gone.entries() > 0 {
            self.root.look(self.next_swept, bits, &mut |entry| {
                if looks == 0 || found.len() == entries {
                    next = Some(entry.id);
                    return false;
                }
                looks -= 1;
                if self.gone.has(entry.consumer) {
                    found.push(entry.id);
                }
                true
            });
        }
        debug_assert!(found.len() <= entries, "a bounded step");
        self.next_swept = next.unwrap_or(StreamId::MIN);
        found.into_iter().for_each(|id| _ = self.change(id, |_| None));
        self.gone.take_free()
    }

    /// Gives back some `leaves` of a tree that nobody uses any more; true when none is left.
    pub(super) fn free_step(&mut self, leaves: usize) -> bool {
        let mut rest = Some(std::mem::replace(&mut self.root, Arc::new(Node::Leaf(Leaf::Wide(Vec::new())))));
        for _ in 0..leaves {
            rest = rest.and_then(pop_leaf);
        }
        let is_done = rest.is_none();
        rest.into_iter().for_each(|rest| self.root = rest);
        is_done
    }

    /// Panics if anything is inconsistent. O(N).
    pub(super) fn verify(&self) {
        let (mut len, mut before) = (0, None);
        let (bytes, mut left) = (self.root.verify(), BTreeMap::new());
        self.root.look(StreamId::MIN, u64::MAX, &mut |entry| {
            assert!(before < Some(entry.id), "pending entries in the order of their IDs");
            (len, before) = (len + 1, Some(entry.id));
            if self.gone.has(entry.consumer) {
                *left.entry(entry.consumer).or_insert(0) += 1;
            }
            true
        });
        assert_eq!((len, bytes), (self.len, self.bytes), "pending entries and their bytes");
        self.gone.verify(&left);
    }
}

/// The child below which an ID is, or would be.
fn place(children: &[Child], id: StreamId) -> usize {
    debug_assert!(!children.is_empty(), "an inner node has children");
    children.partition_point(|child| child.least <= id).saturating_sub(1)
}

/// Takes the last leaf below a node away: the node, if something is left of it that no other tree has. Of two who let go of one node
/// at once exactly one has it then: neither drops all that is below.
fn pop_leaf(node: Arc<Node>) -> Option<Arc<Node>> {
    let Some(Node::Inner(mut children)) = Arc::into_inner(node) else { return None };
    let last = children.pop().expect("an inner node has children");
    let (least, oldest_ms, consumers) = (last.least, last.oldest_ms, last.consumers);
    children.extend(pop_leaf(last.node).map(|node| Child { least, oldest_ms, consumers, node }));
    (!children.is_empty()).then(|| Arc::new(Node::Inner(children)))
}

/// The bytes that a change moves.
#[derive(Default)]
struct Sums {
    /// Bytes by which the tree grows; negative where it shrinks.
    grown: i64,
    /// Bytes of nodes that another tree has too and this one has no more.
    left: u64,
}

impl Sums {
    /// The tree replaces a node, or removes it.
    fn leave(&mut self, node: &Arc<Node>) {
        let bytes = node.bytes() as u64;
        debug_assert!(bytes > 0, "a node has bytes");
        if Arc::strong_count(node) > 1 {
            self.left += bytes;
        }
    }
}

fn change_below(
    node: &mut Arc<Node>,
    id: StreamId,
    change: impl FnOnce(Option<PendingEntry>) -> Option<PendingEntry>,
    sums: &mut Sums,
) -> Changed {
    // A node that others have too is copied, without its free room.
    let had = node.bytes() as i64;
    debug_assert!(had > 0, "a node has bytes");
    sums.leave(node);
    let node = Arc::make_mut(node);
    let changed = match node {
        Node::Leaf(leaf) => leaf.change(id, change),
        Node::Inner(children) => {
            let at = place(children, id);
            let mut changed = change_below(&mut children[at].node, id, change, sums);
            let split = changed.right.take();
            children[at].follow(&changed, split.is_some());
            match split {
                Some(right) => {
                    children.insert(at + 1, right);
                    if children.len() > FAN {
                        // Growth at the end leaves full nodes.
                        let from = if at + 2 == children.len() { FAN } else { FAN / 2 };
                        let right = Node::Inner(children.split_off(from));
                        sums.grown += right.bytes() as i64;
                        changed.right = Some(Child::of(Arc::new(right)));
                    }
                }
                None if changed.after.is_none() => tidy(children, at, sums),
                None => {}
            }
            changed
        }
    };
    if let Some(right) = &changed.right
        && let Node::Leaf(_) = node
    {
        sums.grown += right.node.bytes() as i64;
    }
    sums.grown += node.bytes() as i64 - had;
    changed
}

/// Removes a child that is empty, or joins one that is small with a neighbour.
fn tidy(children: &mut Vec<Child>, at: usize, sums: &mut Sums) {
    let (len, most) = children[at].node.fill();
    debug_assert!(len <= most, "{len} of {most} in a node");
    if len == 0 {
        sums.grown -= children.remove(at).node.bytes() as i64;
        return;
    }
    if len >= most / 4 {
        return;
    }
    let fits = |left: usize| {
        let right = left + 1;
        right < children.len() && children[left].node.fill().0 + children[right].node.fill().0 <= most * 3 / 4
    };
    let left = match at {
        at if fits(at) => at,
        at if at > 0 && fits(at - 1) => at - 1,
        _ => return,
    };
    let right = children.remove(left + 1);
    debug_assert!(right.least > children[left].least, "neighbours in order");
    sums.grown -= (right.node.bytes() + children[left].node.bytes()) as i64;
    sums.leave(&right.node);
    sums.leave(&children[left].node);
    let joined = Arc::make_mut(&mut children[left].node);
    match (joined, &*right.node) {
        (Node::Leaf(joined), Node::Leaf(right)) => {
            *joined =
                Leaf::of((0..joined.len()).map(|at| joined.get(at)).chain((0..right.len()).map(|at| right.get(at))));
        }
        (Node::Inner(joined), Node::Inner(right)) => joined.extend(right.iter().cloned()),
        _ => unreachable!("all leaves are on one level"),
    }
    sums.grown += children[left].node.bytes() as i64;
    let node = Arc::clone(&children[left].node);
    children[left] = Child::of(node);
}

impl Child {
    /// A node with what is known of it.
    fn of(node: Arc<Node>) -> Child {
        let mut child = Child { least: StreamId::MAX, oldest_ms: i64::MAX, consumers: 0, node };
        child.sum();
        child
    }

    fn sum(&mut self) {
        (self.least, self.oldest_ms, self.consumers) = (StreamId::MAX, i64::MAX, 0);
        let Child { least, oldest_ms, consumers, node } = self;
        match &**node {
            Node::Leaf(leaf) => (0..leaf.len()).for_each(|at| {
                let entry = leaf.get(at);
                (*least, *oldest_ms) = ((*least).min(entry.id), (*oldest_ms).min(entry.time_ms));
                *consumers |= bit(entry.consumer);
            }),
            Node::Inner(children) => children.iter().for_each(|child| {
                (*least, *oldest_ms) = ((*least).min(child.least), (*oldest_ms).min(child.oldest_ms));
                *consumers |= child.consumers;
            }),
        }
    }

    /// Brings up to date what is known of a node that has changed, and perhaps was split.
    fn follow(&mut self, changed: &Changed, was_split: bool) {
        let (before, after) = (changed.before, changed.after);
        let is_edge = before.is_some_and(|before| before.id == self.least || before.time_ms == self.oldest_ms);
        if was_split || is_edge {
            return self.sum();
        }
        if let Some(after) = after {
            self.least = self.least.min(after.id);
            self.oldest_ms = self.oldest_ms.min(after.time_ms);
            self.consumers |= bit(after.consumer);
        }
    }
}

impl Node {
    fn bytes(&self) -> usize {
        let cells = match self {
            Node::Leaf(Leaf::Narrow { cells, .. }) => cells.capacity() * size_of::<Narrow>(),
            Node::Leaf(Leaf::Wide(cells)) => cells.capacity() * size_of::<PendingEntry>(),
            Node::Inner(children) => children.capacity() * size_of::<Child>(),
        };
        cells + size_of::<Node>() + 2 * size_of::<usize>()
    }

    /// Cells or children, and the most of them.
    fn fill(&self) -> (usize, usize) {
        match self {
            Node::Leaf(leaf) => (leaf.len(), LEAF),
            Node::Inner(children) => (children.len(), FAN),
        }
    }

    /// Shows entries; false once `show` wants no more.
    fn scan(
        &self,
        from: StreamId,
        filter: PendingFilter,
        gone: &GoneConsumers,
        show: &mut dyn FnMut(PendingEntry) -> bool,
    ) -> bool {
        match self {
            Node::Leaf(leaf) => {
                let first = leaf.search(from).unwrap_or_else(|at| at);
                let entries = (first..leaf.len()).map(|at| leaf.get(at));
                entries.filter(|entry| filter.takes(*entry) && !gone.has(entry.consumer)).all(show)
            }
            Node::Inner(children) => children[place(children, from)..].iter().all(|child| {
                let is_other = filter.consumer.is_some_and(|number| child.consumers & bit(number) == 0);
                child.oldest_ms > filter.until_ms
                    || is_other
                    || gone.has_all(child.consumers)
                    || child.node.scan(from, filter, gone, show)
            }),
        }
    }

    /// Shows all entries, deleted consumers' too, below nodes that have one of these bits; false once `show` wants no more.
    fn look(&self, from: StreamId, bits: u64, show: &mut dyn FnMut(PendingEntry) -> bool) -> bool {
        match self {
            Node::Leaf(leaf) => {
                let first = leaf.search(from).unwrap_or_else(|at| at);
                (first..leaf.len()).map(|at| leaf.get(at)).all(show)
            }
            Node::Inner(children) => children[place(children, from)..]
                .iter()
                .all(|child| child.consumers & bits == 0 || child.node.look(from, bits, show)),
        }
    }

    /// The entry with the greatest ID.
    fn last(&self, gone: &GoneConsumers) -> Option<PendingEntry> {
        match self {
            Node::Leaf(leaf) => (0..leaf.len()).rev().map(|at| leaf.get(at)).find(|entry| !gone.has(entry.consumer)),
            Node::Inner(children) => children
                .iter()
                .rev()
                .filter(|child| !gone.has_all(child.consumers))
                .find_map(|child| child.node.last(gone)),
        }
    }

    /// Checks what is known of the children; bytes of all nodes.
    fn verify(&self) -> usize {
        let Node::Inner(children) = self else { return self.bytes() };
        assert!(!children.is_empty() && children.len() <= FAN, "{} children", children.len());
        let below = children.iter().map(|child| {
            let real = Child::of(Arc::clone(&child.node));
            assert_eq!((child.least, child.oldest_ms), (real.least, real.oldest_ms), "what is known of a child");
            assert_eq!(real.consumers & !child.consumers, 0, "no consumer is forgotten");
            child.node.verify()
        });
        below.sum::<usize>() + self.bytes()
    }
}

impl Leaf {
    /// A leaf of these entries, in narrow cells if all fit.
    fn of(entries: impl Iterator<Item = PendingEntry> + Clone) -> Leaf {
        let base_ms = entries.clone().map(|entry| entry.id.ms).min().unwrap_or(0);
        let base_time_ms = entries.clone().map(|entry| entry.time_ms).min().unwrap_or(0).saturating_sub(EARLIER_MS);
        let cells = entries.clone().map(|entry| narrow(base_ms, base_time_ms, entry)).collect::<Option<Vec<_>>>();
        match cells {
            Some(cells) => Leaf::Narrow { base_ms, base_time_ms, cells },
            None => Leaf::Wide(entries.collect()),
        }
    }

    fn len(&self) -> usize {
        match self {
            Leaf::Narrow { cells, .. } => cells.len(),
            Leaf::Wide(cells) => cells.len(),
        }
    }

    #[inline]
    fn get(&self, at: usize) -> PendingEntry {
        match self {
            Leaf::Narrow { base_ms, base_time_ms, cells } => {
                let Narrow { ms, seq, time, count, consumer } = cells[at];
                PendingEntry {
                    id: StreamId { ms: base_ms + u64::from(ms), seq: u64::from(seq) },
                    time_ms: base_time_ms + i64::from(time),
                    count: u64::from(count),
                    consumer: u32::from(consumer),
                }
            }
            Leaf::Wide(cells) => cells[at],
        }
    }

    /// Where the entry with an ID is, or else would be.
    fn search(&self, id: StreamId) -> Result<usize, usize> {
        let (mut low, mut high) = (0, self.len());
        while low < high {
            let middle = (low + high) / 2;
            match self.get(middle).id.cmp(&id) {
                Ordering::Less => low = middle + 1,
                Ordering::Equal => return Ok(middle),
                Ordering::Greater => high = middle,
            }
        }
        Err(low)
    }

    fn change(&mut self, id: StreamId, change: impl FnOnce(Option<PendingEntry>) -> Option<PendingEntry>) -> Changed {
        let found = self.search(id);
        let before = found.ok().map(|at| self.get(at));
        let after = change(before);
        let mut right = None;
        match (found, after) {
            (Ok(at), Some(entry)) => self.put(at, entry, true),
            (Ok(at), None) => self.remove(at),
            (Err(at), Some(entry)) => {
                self.put(at, entry, false);
                if self.len() > LEAF {
                    // Growth at the end leaves full leaves.
                    let from = if at == LEAF { LEAF } else { LEAF / 2 };
                    let behind = Leaf::of((from..self.len()).map(|at| self.get(at)));
                    self.truncate(from);
                    right = Some(Child::of(Arc::new(Node::Leaf(behind))));
                }
            }
            (Err(_), None) => {}
        }
        Changed { before, after, right }
    }

    /// Puts an entry in front of what is at a place, or in its place.
    fn put(&mut self, at: usize, entry: PendingEntry, replaces: bool) {
        debug_assert!(!replaces || self.get(at).id == entry.id, "an entry takes the place of its own");
        match self {
            Leaf::Narrow { base_ms, base_time_ms, cells } => {
                if let Some(cell) = narrow(*base_ms, *base_time_ms, entry) {
                    if replaces {
                        cells[at] = cell;
                    } else {
                        cells.insert(at, cell);
                    }
                    return;
                }
            }
            Leaf::Wide(cells) if !cells.is_empty() => {
                if replaces {
                    cells[at] = entry;
                } else {
                    cells.insert(at, entry);
                }
                return;
            }
            Leaf::Wide(_) => {}
        }
        let mut all: Vec<PendingEntry> = (0..self.len()).map(|at| self.get(at)).collect();
        if replaces {
            all[at] = entry;
        } else {
            all.insert(at, entry);
        }
        *self = Leaf::of(all.into_iter());
    }

    fn remove(&mut self, at: usize) {
        debug_assert!(at < self.len(), "a cell of the leaf");
        match self {
            Leaf::Narrow { cells, .. } => {
                cells.remove(at);
                relax(cells);
            }
            Leaf::Wide(cells) => {
                cells.remove(at);
                relax(cells);
            }
        }
    }

    fn truncate(&mut self, len: usize) {
        debug_assert!(len > 0 && len < self.len(), "a part of a leaf");
        match self {
            Leaf::Narrow { cells, .. } => {
                cells.truncate(len);
                cells.shrink_to(LEAF);
            }
            Leaf::Wide(cells) => {
                cells.truncate(len);
                cells.shrink_to(LEAF);
            }
        }
    }
}

/// Gives back room that is more than twice what is used.
fn relax<T>(cells: &mut Vec<T>) {
    if cells.capacity() > 2 * cells.len() + 8 {
        cells.shrink_to(cells.len() + cells.len() / 4);
    }
}

/// The narrow cell of an entry, if it fits.
#[inline]
fn narrow(base_ms: u64, base_time_ms: i64, entry: PendingEntry) -> Option<Narrow> {
    Some(Narrow {
        ms: entry.id.ms.checked_sub(base_ms)?.try_into().ok()?,
        seq: entry.id.seq.try_into().ok()?,
        time: entry.time_ms.checked_sub(base_time_ms)?.try_into().ok()?,
        count: entry.count.try_into().ok()?,
        consumer: entry.consumer.try_into().ok()?,
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use varve_base::rng::Rng;

    use super::*;

    type Model = BTreeMap<StreamId, PendingEntry>;

    fn entry(rng: &mut Rng, ids: u64) -> PendingEntry {
        let far = rng.below(200) == 0;
        let id = match rng.below(ids) {
            n if far => StreamId::new(n << 40, u64::MAX - n),
            n => StreamId::new(1_700_000_000_000 + n / 3, n % 3),
        };
        let time_ms =
            if rng.below(100) == 0 { rng.below(5) as i64 } else { 1_700_000_000_000 + rng.below(1000) as i64 };
        let count = if rng.below(100) == 0 { u64::MAX } else { rng.below(3) };
        PendingEntry { id, time_ms, count, consumer: rng.below(130) as u32 }
    }

    fn shown(tree: &PendingTree, from: StreamId, filter: PendingFilter) -> Vec<PendingEntry> {
        let mut all = Vec::new();
        tree.scan(from, filter, &mut |entry| {
            all.push(entry);
            true
        });
        all
    }

    fn compare(tree: &PendingTree, model: &Model, rng: &mut Rng) {
        tree.verify();
        assert_eq!(shown(tree, StreamId::MIN, PendingFilter::ALL), model.values().copied().collect::<Vec<_>>());
        assert_eq!((tree.first(), tree.last()), (model.values().next().copied(), model.values().last().copied()));
        let from = entry(rng, 2000).id;
        let consumer = (rng.below(2) == 0).then(|| rng.below(130) as u32);
        let filter = PendingFilter { consumer, until_ms: 1_700_000_000_000 + rng.below(1000) as i64 };
        let expected: Vec<PendingEntry> =
            model.range(from..).map(|(_, entry)| *entry).filter(|e| filter.takes(*e)).collect();
        assert_eq!(shown(tree, from, filter), expected);
        let count = rng.below(200) as usize;
        let mut by_time: Vec<PendingEntry> =
            model.values().filter(|entry| entry.time_ms <= filter.until_ms).copied().collect();
        by_time.sort_by_key(|entry| (entry.time_ms, entry.id));
        by_time.truncate(count);
        assert_eq!(tree.oldest(filter.until_ms, count), by_time);
        assert_eq!(tree.get(from), model.get(&from).copied());
    }

    #[test]
    fn pending_entries_against_a_map() {
        let seed = std::env::var("VARVE_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(22);
        println!("VARVE_SEED={seed}");
        let mut rng = Rng::seeded(seed);
        let (mut tree, mut model) = (PendingTree::new(), Model::new());
        let mut copies = Vec::new();
        for step in 0..20_000 {
            let grows = step % 8000 < 5000;
            let one = entry(&mut rng, 2000);
            if grows || rng.below(10) == 0 {
                assert_eq!(tree.change(one.id, |_| Some(one)), model.insert(one.id, one));
            } else {
                let id = model.range(one.id..).next().map_or(one.id, |(id, _)| *id);
                assert_eq!(tree.change(id, |_| None), model.remove(&id));
            }
            if step % 500 == 0 {
                compare(&tree, &model, &mut rng);
                copies.push((tree.clone(), model.clone()));
            }
        }
        copies.iter().for_each(|(tree, model)| compare(tree, model, &mut rng));
        model.into_keys().for_each(|id| _ = tree.change(id, |_| None));
        tree.verify();
        assert_eq!(tree.len(), 0);
    }

    #[test]
    fn entries_of_deleted_consumers_are_shown_to_nobody() {
        let seed = std::env::var("VARVE_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(23);
        println!("VARVE_SEED={seed}");
        let mut rng = Rng::seeded(seed);
        let (mut tree, mut model) = (PendingTree::new(), Model::new());
        let mut retired = Vec::new();
        for step in 0..30_000 {
            let one = entry(&mut rng, 2000);
            let is_free = |number: u32, retired: &Vec<u32>| !retired.contains(&number);
            match rng.below(200) {
                0 if retired.len() < 40 => {
                    let number = rng.below(130) as u32;
                    let own = model.values().filter(|entry| entry.consumer == number).count() as u64;
                    if own > 0 && is_free(number, &retired) {
                        let others = model.values().filter(|entry| entry.consumer != number);
                        tree.retire(number, own, others.fold(0, |bits, entry| bits | bit(entry.consumer)));
                        model.retain(|_, entry| entry.consumer != number);
                        retired.push(number);
                    }
                }
                1..20 => {
                    let free = tree.sweep(3);
                    retired.retain(|number| !free.contains(number));
                }
                20..80 => {
                    let id = model.range(one.id..).next().map_or(one.id, |(id, _)| *id);
                    assert_eq!(tree.change(id, |_| None), model.remove(&id));
                }
                _ if is_free(one.consumer, &retired) => {
                    tree.meet(one.consumer);
                    assert_eq!(tree.change(one.id, |_| Some(one)), model.insert(one.id, one));
                }
                _ => {}
            }
            if step % 300 == 0 {
                compare(&tree, &model, &mut rng);
            }
        }
        while tree.wants_sweep() {
            tree.sweep(100);
        }
        compare(&tree, &model, &mut rng);
        assert_eq!((tree.len, tree.gone.bits_of_all()), (model.len() as u64, 0), "nothing is left of them");
    }

    #[test]
    fn a_consumer_of_a_million_entries_is_deleted_at_once() {
        let mut tree = PendingTree::new();
        const COUNT: u64 = 1_000_000;
        for n in 0..COUNT {
            let entry =
                PendingEntry { id: StreamId::new(n, 0), time_ms: 5, count: 1, consumer: u32::from(n == COUNT - 1) };
            tree.change(entry.id, |_| Some(entry));
        }
        tree.retire(0, COUNT - 1, bit(1));
        // The one that is left stands in the last leaf: the search passes over all others.
        assert_eq!(tree.first().map(|entry| entry.consumer), Some(1));
        assert_eq!((tree.first(), tree.len()), (tree.last(), 1));
        let mut sweeps = 0;
        while tree.wants_sweep() {
            tree.sweep(1000);
            sweeps += 1;
        }
        assert!((1000..1010).contains(&sweeps), "{sweeps} steps");
        assert_eq!((tree.len, tree.first()), (1, tree.last()));
    }

    #[test]
    fn a_million_pending_entries_are_small_and_searched_in_a_few_steps() {
        let mut tree = PendingTree::new();
        const COUNT: u64 = 1_000_000;
        for n in 0..COUNT {
            let id = StreamId::new(1_700_000_000_000 + n / 4, n % 4);
            let entry =
                PendingEntry { id, time_ms: 1_700_000_000_000 + n as i64 / 4, count: 1, consumer: (n % 7) as u32 };
            tree.change(id, |_| Some(entry));
        }
        let each = tree.bytes() as f64 / COUNT as f64;
        assert!(each < 24.0, "{each} bytes an entry");
        let old = PendingFilter { until_ms: 1_699_999_999_999, ..PendingFilter::ALL };
        let Node::Inner(children) = &*tree.root else { panic!("a tree of some height") };
        assert!(children.iter().all(|child| child.oldest_ms > old.until_ms), "one look at the root is enough");
        assert!(shown(&tree, StreamId::MIN, old).is_empty());
        while !tree.free_step(100) {}
    }
}
