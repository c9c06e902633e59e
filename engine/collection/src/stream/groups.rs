//! The groups of a stream: each gives every entry to one of its consumers, and remembers those that were not acknowledged.
//!
//! ```text
//!   Groups   name --> StreamGroup   last ID given | entries read, if known
//!                             consumers: name --> number, when seen, entries pending      number --> name      free numbers
//!                             pending entries: ID --> delivered when, how often, consumer's number   (`pending`)
//! ```
//! All of it is ordinary memory. It is shared with those that write it to a file or copy it, so that they need not hold the
//! shard. Of what changes meanwhile the nodes that lead to it are copied before: of the map of groups, of a group's consumers,
//! of its pending entries ([`SharedMap`], `pending`).
//!
//! Not here: the entries.

use std::sync::Arc;

use super::gone::bit;
use super::pending::{PendingEntry, PendingFilter, PendingTree};
use super::{StreamFacts, StreamId};
use crate::shared_map::{SharedMap, SharedMapIter};

/// Pending entries of a consumer that are taken out as it is removed; the others are in steps.
const SWEEP_AT_ONCE: usize = 64;
/// Consumers whose bits are looked at when one of them is removed, at most: of more, each bit counts as somebody's.
const CONSUMERS_LOOKED_AT: usize = 1024;
/// About the bytes of a node of a map for each of its entries, beside these.
const MAP_BYTES: usize = 24;

/// The groups of a stream, by name.
pub type Groups = SharedMap<Arc<[u8]>, StreamGroup>;

/// Groups, and the sums that a stream keeps of them: they are copied from stream to stream at the price of a counter.
#[derive(Clone, Debug, Default)]
pub struct StreamGroups {
    pub(super) all: Groups,
    /// Bytes of all groups, with their names.
    pub(super) bytes: usize,
    /// Names of those that may have entries of consumers that were removed; none nearly always.
    pub(super) sweeping: Vec<Arc<[u8]>>,
}

impl StreamGroups {
    /// Groups that no stream has yet. O(groups).
    pub fn new(all: Groups) -> StreamGroups {
        let sweeping = all.iter().filter(|(_, group)| group.wants_sweep()).map(|(name, _)| Arc::clone(name));
        StreamGroups { bytes: bytes_of(&all), sweeping: sweeping.collect(), all }
    }

    /// The groups by name.
    pub fn all(&self) -> &Groups {
        &self.all
    }

    /// Whether another has all of them too: what is dropped here costs nothing.
    pub fn is_shared(&self) -> bool {
        self.all.is_shared()
    }

    /// Takes some of the groups out, to give their memory back in steps; None when nothing is left.
    pub fn pop_leaf(&mut self) -> Option<Vec<(Arc<[u8]>, StreamGroup)>> {
        self.all.pop_leaf()
    }
}

/// Bytes of groups, with their names. O(groups).
pub(super) fn bytes_of(groups: &Groups) -> usize {
    groups.iter().map(|(name, group)| name.len() + group.bytes()).sum()
}

/// A group of consumers.
#[derive(Clone, Debug)]
pub struct StreamGroup {
    last: StreamId,
    read: Option<u64>,
    pending: PendingTree,
    consumers: Consumers,
    /// Bytes of the consumers.
    consumer_bytes: usize,
}

/// Bytes of a group.
#[derive(Clone, Copy, Debug)]
pub(super) struct GroupSize {
    /// Bytes that it has.
    pub(super) bytes: usize,
    /// Bytes that were shared with copies of the group until this one changed: all that there ever were.
    pub(super) left: u64,
}

/// The consumers of a group.
#[derive(Clone, Debug, Default)]
struct Consumers {
    by_name: SharedMap<Arc<[u8]>, Consumer>,
    /// By number.
    names: SharedMap<u32, Arc<[u8]>>,
    /// Numbers that were a consumer's, and may be another one's.
    free: SharedMap<u32, ()>,
    /// The least number that was never a consumer's.
    next: u32,
}

impl Consumers {
    /// Bytes of nodes that were shared with copies until these changed, all that there ever were.
    fn left(&self) -> u64 {
        self.by_name.left() + self.names.left() + self.free.left()
    }

    /// A number that is no consumer's.
    fn take_number(&mut self) -> u32 {
        let free = self.free.iter().next().map(|(number, ())| *number);
        match free {
            Some(number) => _ = self.free.remove(&number),
            None => self.next += 1,
        }
        let number = free.unwrap_or(self.next - 1);
        debug_assert!(!self.names.contains_key(&number), "the number was free");
        number
    }

    /// Gives a leaf of these maps back; false when nothing is left.
    fn free_leaf(&mut self) -> bool {
        self.by_name.pop_leaf().is_some() || self.names.pop_leaf().is_some() || self.free.pop_leaf().is_some()
    }
}

/// A consumer of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Consumer {
    number: u32,
    /// When it was last heard of, milliseconds of Unix time.
    pub seen_ms: i64,
    /// Number of its pending entries.
    pub pending: u64,
}

impl Consumer {
    /// Its number in the group, by which pending entries name it.
    pub fn number(&self) -> u32 {
        self.number
    }
}

impl StreamGroup {
    /// A group that has been given the entries up to this one, `read` of them if that is known.
    pub fn new(last: StreamId, read: Option<u64>) -> StreamGroup {
        let (pending, consumers) = (PendingTree::new(), Consumers::default());
        StreamGroup { last, read, pending, consumers, consumer_bytes: 0 }
    }

    /// The greatest ID that was given to a consumer.
    pub fn last(&self) -> StreamId {
        self.last
    }

    /// Number of entries that were given, if it is known.
    pub fn read(&self) -> Option<u64> {
        self.read
    }

    /// Sets the last ID and the number of entries that were given.
    pub fn set_last(&mut self, last: StreamId, read: Option<u64>) {
        (self.last, self.read) = (last, read);
    }

    /// Bytes of the group. O(1).
    pub fn bytes(&self) -> usize {
        size_of::<StreamGroup>() + MAP_BYTES + self.pending.bytes() + self.consumer_bytes
    }

    /// The group's size, and what it has left to its copies so far.
    pub(super) fn size(&self) -> GroupSize {
        GroupSize { bytes: self.bytes(), left: self.pending.left() + self.consumers.left() }
    }

    /// Number of pending entries.
    pub fn pending(&self) -> u64 {
        self.pending.len()
    }

    /// The pending entry with an ID.
    pub fn pending_at(&self, id: StreamId) -> Option<PendingEntry> {
        self.pending.get(id)
    }

    /// The pending entries with the least and the greatest ID.
    pub fn pending_ends(&self) -> Option<(PendingEntry, PendingEntry)> {
        self.pending.first().zip(self.pending.last())
    }

    /// Shows the pending entries from an ID on that the filter takes, until `show` wants no more.
    pub fn scan(&self, from: StreamId, filter: PendingFilter, mut show: impl FnMut(PendingEntry) -> bool) {
        self.pending.scan(from, filter, &mut show);
    }

    /// At most `count` pending entries that were delivered then or before, milliseconds of Unix time, the oldest delivery
    /// first. O(log n) an entry.
    pub fn oldest(&self, until_ms: i64, count: u64) -> Vec<PendingEntry> {
        self.pending.oldest(until_ms, usize::try_from(count).unwrap_or(usize::MAX))
    }

    /// A consumer.
    pub fn consumer(&self, name: &[u8]) -> Option<Consumer> {
        self.consumers.by_name.get(name).copied()
    }

    /// The consumers in the order of their names.
    pub fn consumers(&self) -> impl Iterator<Item = (&[u8], Consumer)> {
        named(self.consumers.by_name.iter())
    }

    /// Number of consumers.
    pub fn consumer_count(&self) -> usize {
        self.consumers.by_name.len()
    }

    /// The consumers behind a name, all of them without one, in the order of their names.
    pub fn consumers_behind(&self, name: Option<&[u8]>) -> impl Iterator<Item = (&[u8], Consumer)> {
        let by_name = &self.consumers.by_name;
        named(name.map_or_else(|| by_name.iter(), |name| by_name.behind(name)))
    }

    /// The name of the consumer with a number.
    pub fn name(&self, number: u32) -> &[u8] {
        self.consumers.names.get(&number).expect("a consumer of the group")
    }

    /// Adds a consumer, or notes that it was heard of if `hears` and it is there; true if it is new.
    pub fn meet(&mut self, name: &[u8], now_ms: i64, hears: bool) -> bool {
        let consumers = &mut self.consumers;
        if consumers.by_name.contains_key(name) {
            if hears && let Some(consumer) = consumers.by_name.get_mut(name) {
                consumer.seen_ms = now_ms;
            }
            return false;
        }
        let (shared, number) = (Arc::<[u8]>::from(name), consumers.take_number());
        let before = consumers.names.insert(number, Arc::clone(&shared));
        debug_assert!(before.is_none(), "the number was free");
        consumers.by_name.insert(shared, Consumer { number, seen_ms: now_ms, pending: 0 });
        self.pending.meet(number);
        self.consumer_bytes += consumer_bytes(name);
        true
    }

    /// Removes a consumer with its pending entries; how many these were. The entries are hidden at once, and taken out in steps
    /// ([`StreamGroup::sweep`]).
    pub fn remove_consumer(&mut self, name: &[u8]) -> Option<u64> {
        let consumer = self.consumer(name)?;
        let consumers = &mut self.consumers;
        consumers.by_name.remove(name);
        consumers.names.remove(&consumer.number);
        if consumer.pending == 0 {
            consumers.free.insert(consumer.number, ());
        } else {
            // Of more consumers than these each bit is taken to be somebody's: then searches look at more, and show no less.
            let others = match consumers.by_name.len() {
                ..=CONSUMERS_LOOKED_AT => consumers.by_name.values().fold(0, |bits, other| bits | bit(other.number)),
                _ => u64::MAX,
            };
            self.pending.retire(consumer.number, consumer.pending, others);
            self.sweep(SWEEP_AT_ONCE);
        }
        debug_assert!(self.consumer(name).is_none(), "it is gone");
        debug_assert!(self.consumer_bytes >= consumer_bytes(name), "the bytes of all consumers");
        self.consumer_bytes -= consumer_bytes(name);
        Some(consumer.pending)
    }

    /// Whether something is left of consumers that were removed.
    pub(super) fn wants_sweep(&self) -> bool {
        self.pending.wants_sweep()
    }

    /// Takes out at most `entries` pending entries of consumers that were removed.
    pub(super) fn sweep(&mut self, entries: usize) {
        let free = self.pending.sweep(entries);
        free.into_iter().for_each(|number| _ = self.consumers.free.insert(number, ()));
    }

    /// Shows at most `count` entries that the filter takes.
    pub fn scan_some(&self, from: StreamId, filter: PendingFilter, count: u64, mut show: impl FnMut(PendingEntry)) {
        let mut left = count;
        if left > 0 {
            self.scan(from, filter, |entry| {
                show(entry);
                left -= 1;
                left > 0
            });
        }
    }

    /// Makes an entry pending, in the place of what is pending of its ID. Its consumer is one of the group's.
    pub fn set_pending(&mut self, entry: PendingEntry) {
        debug_assert!(self.consumers.names.contains_key(&entry.consumer), "a consumer of the group");
        let before = self.pending.change(entry.id, |_| Some(entry));
        if before.is_some_and(|before| before.consumer == entry.consumer) {
            return;
        }
        if let Some(before) = before {
            self.add_to(before.consumer, -1);
        }
        self.add_to(entry.consumer, 1);
    }

    /// Ends that an entry is pending; false if it is not.
    pub fn acknowledge(&mut self, id: StreamId) -> bool {
        let Some(before) = self.pending.change(id, |_| None) else { return false };
        self.add_to(before.consumer, -1);
        true
    }

    fn add_to(&mut self, number: u32, delta: i64) {
        let Consumers { by_name, names, .. } = &mut self.consumers;
        let name = names.get(&number).expect("a consumer of the group");
        let consumer = by_name.get_mut(name).expect("a consumer of the group");
        consumer.pending = consumer.pending.checked_add_signed(delta).expect("the pending entries of a consumer");
    }

    /// The group is given an entry with a greater ID than the last one.
    pub(super) fn give(&mut self, id: StreamId, facts: &StreamFacts) {
        debug_assert!(id > self.last, "entries are given in the order of their IDs");
        self.read = match self.read {
            // A client may say any number, and files and replicas take none beyond i64.
            Some(read) if !facts.has_gaps_from(id) => Some((read + 1).min(i64::MAX as u64)),
            read if facts.state.added == 0 => read,
            _ => facts.count_up_to(id),
        };
        self.last = id;
    }

    /// Number of the stream's entries that were not given yet, if it is known.
    pub fn lag(&self, facts: &StreamFacts) -> Option<i64> {
        let added = facts.state.added as i64;
        match self.read {
            _ if added == 0 => Some(0),
            Some(read) if !facts.has_gaps_from(self.last) => Some(added.wrapping_sub(read as i64)),
            _ => facts.count_up_to(self.last).map(|read| added.wrapping_sub(read as i64)),
        }
    }

    /// Number of pending entries and consumers: what a writer of the group has to go through.
    pub fn parts(&self) -> u64 {
        self.pending() + self.consumers.by_name.len() as u64
    }

    /// Gives back some of a group that nobody uses any more; true when all is, or when what is left is another copy's too.
    pub fn free_step(&mut self, leaves: usize) -> bool {
        assert!(leaves > 0, "a step that gives nothing back has no end");
        self.pending.free_step(leaves) && !(0..leaves).all(|_| self.consumers.free_leaf())
    }

    /// Panics if anything is inconsistent. O(N).
    pub(super) fn verify(&self) {
        self.pending.verify();
        let Consumers { by_name, names, free, next } = &self.consumers;
        by_name.verify();
        names.verify();
        free.verify();
        assert!(free.iter().all(|(number, ())| !names.contains_key(number)), "a free number is nobody's");
        let mut counts = vec![0; *next as usize];
        self.scan(StreamId::MIN, PendingFilter::ALL, |entry| {
            counts[entry.consumer as usize] += 1;
            true
        });
        let mut bytes = 0;
        for (name, consumer) in self.consumers() {
            assert_eq!(self.name(consumer.number), name, "a number leads to its name");
            assert_eq!(consumer.pending, counts[consumer.number as usize], "pending entries of a consumer");
            bytes += consumer_bytes(name);
        }
        assert_eq!(counts.iter().sum::<u64>(), self.pending(), "every pending entry has a consumer");
        assert_eq!(bytes, self.consumer_bytes, "bytes of the consumers");
    }
}

/// Consumers with their names as bytes.
fn named<'a>(
    consumers: SharedMapIter<'a, Arc<[u8]>, Consumer>,
) -> impl Iterator<Item = (&'a [u8], Consumer)> + use<'a> {
    consumers.map(|(name, consumer)| (&**name, *consumer))
}

/// Bytes of a consumer of this name.
fn consumer_bytes(name: &[u8]) -> usize {
    let shared = name.len() + 2 * size_of::<usize>();
    shared + size_of::<Consumer>() + 2 * size_of::<Arc<[u8]>>() + MAP_BYTES
}

impl StreamFacts {
    /// Whether an entry with this ID or a greater one may be missing behind the first entry that is left.
    pub fn has_gaps_from(&self, id: StreamId) -> bool {
        let deleted = self.state.max_deleted;
        self.len > 0 && deleted != StreamId::MIN && self.first <= deleted && id <= deleted
    }

    /// Number of entries that were ever added up to an ID, where that follows from the other facts.
    pub fn count_up_to(&self, id: StreamId) -> Option<u64> {
        let StreamFacts { len, first, state, .. } = *self;
        if state.added == 0 {
            return Some(0);
        }
        if id == state.last || len == 0 && id < state.last {
            return Some(state.added);
        }
        let is_whole = state.max_deleted == StreamId::MIN || state.max_deleted < first;
        if id > state.last || !is_whole || id > first {
            return None;
        }
        Some(state.added.wrapping_sub(len).wrapping_add(u64::from(id == first)))
    }
}
