//! A small stream: what is known of it and its only node, as the value of its key's own object.
//!
//! ```text
//! +----------+----------------+--------------------+----------------+---------------------+
//! | what, u8 | last ID        | greatest deleted   | entries added  | node, or nothing    |
//! |          | ms, seq, 16 B  | ms, seq, 16 B      | 1 to 10 bytes  | (file `node`)       |
//! +----------+----------------+--------------------+----------------+---------------------+
//!  bit 0: the last ID is there; else it is the node's         bit 1: the greatest deleted ID is there; else there is none
//! ```
//! A stream of one short entry takes some 70 bytes so, and neither a tree nor a number. It has no groups. A change is made
//! on a copy ([`SmallStreamCopy`]), which is then written in the place of the value: a small stream has some hundred bytes.
//! Whether it stays small is asked before the change ([`SmallStreamCopy::serves`]), so that no change meets its end halfway.
//!
//! Not here: where the value lies, and how a small stream becomes a big one (`Stream::of_small`).

use super::node::{self, Encoded, StreamNode, number, put_number};
use super::{NodeLimits, StreamEntry, StreamFacts, StreamId, StreamState, Trim};

/// Most bytes of a small stream's value.
const SMALL_BYTES_MAX: usize = 1024;
/// Bytes that an entry takes beside its texts, at most: its length, the differences to the first ID, the number of its fields;
/// or in redis-server's node: its mark, the differences, the number of fields, its length.
const ENTRY_BYTES_MAX: usize = 48;
/// Bytes that a text takes beside its own, at most, in either node.
const TEXT_BYTES_MAX: usize = 11;
/// Bytes in front of the node, and of a node in front of its names, at most.
const FRONT_BYTES_MAX: usize = 96;
const HAS_LAST: u8 = 1;
const HAS_DELETED: u8 = 2;

/// The need of a change that a small stream may not meet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamNeed {
    /// Nothing: neither entries nor groups are added.
    Nothing,
    /// Room for entries.
    Entries {
        /// The number of entries.
        count: usize,
        /// Names and values of all of them.
        texts: usize,
        /// Bytes of these.
        bytes: usize,
    },
    /// Groups, names of messages, or entries of no known number.
    Everything,
}

/// A small stream, to read.
#[derive(Clone, Copy, Debug)]
pub struct SmallStream<'a> {
    state: StreamState,
    node: Option<StreamNode<'a>>,
}

/// A small stream that is being changed.
#[derive(Debug)]
pub struct SmallStreamCopy {
    state: StreamState,
    /// Empty without entries.
    node: Encoded,
}

impl StreamNeed {
    /// The room that an entry with these fields needs.
    pub fn entry<'f>(fields: impl ExactSizeIterator<Item = (&'f [u8], &'f [u8])>) -> StreamNeed {
        let texts = 2 * fields.len();
        StreamNeed::Entries { count: 1, texts, bytes: fields.map(|(name, value)| name.len() + value.len()).sum() }
    }
}

impl<'a> SmallStream<'a> {
    /// The stream whose value this is.
    pub fn open(value: &'a [u8]) -> SmallStream<'a> {
        let (&what, mut rest) = value.split_first().expect("a small stream has a first byte");
        debug_assert!(what & !(HAS_LAST | HAS_DELETED) == 0, "a small stream with marks {what}");
        let mut id = |mark: u8| {
            (what & mark != 0).then(|| {
                let (bytes, behind) = rest.split_first_chunk::<16>().expect("an ID of sixteen bytes");
                rest = behind;
                StreamId::of_bytes(bytes)
            })
        };
        let (last, max_deleted) = (id(HAS_LAST), id(HAS_DELETED).unwrap_or(StreamId::MIN));
        let (added, rest) = number(rest);
        let node = (!rest.is_empty()).then(|| StreamNode::open(rest));
        debug_assert!(node.is_none_or(|node| node.len() > 0), "a node has entries");
        let last = last.or(node.map(|node| node.last())).expect("without a node the last ID is there");
        SmallStream { state: StreamState { last, max_deleted, added }, node }
    }

    /// The facts that do not follow from the entries.
    pub fn state(&self) -> StreamState {
        self.state
    }

    /// The entries, if there are any.
    pub fn node(&self) -> Option<StreamNode<'a>> {
        self.node
    }

    /// Number of entries.
    #[allow(clippy::len_without_is_empty, reason = "an empty stream is a key like any other")]
    pub fn len(&self) -> u64 {
        self.node.map_or(0, |node| node.len() as u64)
    }

    /// The facts beside the entries.
    pub fn facts(&self) -> StreamFacts {
        let first = self.entries().next().map_or(StreamId::MIN, |entry| entry.id);
        StreamFacts { len: self.len(), first, state: self.state, groups: 0 }
    }

    /// The entries in order.
    pub(super) fn entries(&self) -> impl Iterator<Item = StreamEntry<'a>> + use<'a> {
        self.node.into_iter().flat_map(|node| node.entries()).map(|(_, entry)| entry)
    }

    /// Number of entries with lesser IDs.
    pub(super) fn rank(&self, id: StreamId) -> u64 {
        self.entries().take_while(|entry| entry.id < id).count() as u64
    }

    /// Panics if the bytes are not what this file makes.
    pub fn verify(&self) {
        if let Some(node) = self.node {
            node.verify();
            let last = self.entries().last().expect("no node is empty");
            assert!(last.id <= self.state.last, "an entry behind the last ID");
        }
    }
}

impl SmallStreamCopy {
    /// A stream that never had an entry.
    pub fn empty() -> SmallStreamCopy {
        SmallStreamCopy { state: StreamState::default(), node: Encoded::new() }
    }

    /// A copy of the stream whose value this is.
    pub fn of(value: &[u8]) -> SmallStreamCopy {
        let SmallStream { state, node } = SmallStream::open(value);
        SmallStreamCopy { state, node: node.map_or_else(Encoded::new, |node| Encoded::from_slice(node.0)) }
    }

    /// The stream, to read.
    pub fn read(&self) -> SmallStream<'_> {
        let node = (!self.node.is_empty()).then(|| StreamNode::open(&self.node));
        SmallStream { state: self.state, node }
    }

    /// Whether the stream stays small by a change that needs this. The entries go to the node that is there, where
    /// redis-server would put them too: if that is in doubt the answer is no.
    pub fn serves(&self, need: StreamNeed, limits: NodeLimits) -> bool {
        let StreamNeed::Entries { count, texts, bytes } = need else { return need == StreamNeed::Nothing };
        debug_assert!(texts >= 2 * count, "an entry has a field");
        // The names of the first entry stand twice in redis-server's node.
        let more = 2 * bytes + (2 * texts + 1) * TEXT_BYTES_MAX + count * ENTRY_BYTES_MAX;
        let node = self.read().node;
        let (had, entries, is_behind) = node
            .map_or((0, 0, true), |node| (node.peer_bytes(), node.len() + node.gone(), self.state.last >= node.last()));
        let fits = limits.bytes == 0 || had + ((more + FRONT_BYTES_MAX) as u64) < limits.bytes;
        let counts = limits.entries == 0 || (entries + count) as u64 <= limits.entries;
        let needed = FRONT_BYTES_MAX + self.node.len() + bytes + texts * TEXT_BYTES_MAX + count * ENTRY_BYTES_MAX;
        is_behind && fits && counts && needed <= SMALL_BYTES_MAX
    }

    /// Gives the stream other facts.
    pub fn set_state(&mut self, state: StreamState) {
        self.state = state;
    }

    /// Adds an entry with a greater ID than any other has ever had; room for it was asked for.
    pub fn add<'f>(&mut self, id: StreamId, fields: impl ExactSizeIterator<Item = (&'f [u8], &'f [u8])> + Clone) {
        debug_assert!(id > self.state.last, "entries come in the order of their IDs");
        (self.state.last, self.state.added) = (id, self.state.added.wrapping_add(1));
        if self.node.is_empty() {
            node::begin(id, fields, &mut self.node);
        } else {
            let mut encoded = Encoded::new();
            let peer = node::encode(StreamNode::open(&self.node), id, fields, &mut encoded);
            self.node.extend_from_slice(&encoded);
            node::count_added(&mut self.node, id, peer);
        }
        debug_assert!(self.node.len() <= SMALL_BYTES_MAX, "a node of {} bytes", self.node.len());
    }

    /// Removes the entry with an ID; false if there is none.
    pub fn remove(&mut self, id: StreamId) -> bool {
        let before = self.read().rank(id);
        if self.read().entries().nth(before as usize).is_none_or(|entry| entry.id != id) {
            return false;
        }
        self.state.max_deleted = self.state.max_deleted.max(id);
        self.take_out(before as usize, 1);
        true
    }

    /// Removes entries from the least ID on; the number of them. With `whole_nodes` the only node goes or stays, and it has
    /// at most as many entries.
    pub fn trim(&mut self, trim: Trim, whole_nodes: Option<u64>) -> u64 {
        let small = self.read();
        let (len, ever) = (small.len(), small.node.map_or(StreamId::MIN, |node| node.last()));
        let mut gone = match trim {
            Trim::ToLength(most) => len.saturating_sub(most),
            Trim::Below(id) => small.rank(id),
        };
        if let Some(limit) = whole_nodes {
            let goes = gone == len && len <= limit && !matches!(trim, Trim::Below(id) if ever >= id);
            gone = if goes { len } else { 0 };
        }
        debug_assert!(gone <= len, "{gone} of {len} entries");
        self.take_out(0, gone as usize);
        gone
    }

    /// Takes entries that stand in a row out of the node.
    fn take_out(&mut self, from: usize, count: usize) {
        let Some(node) = self.read().node else { return };
        if count == 0 {
            return;
        }
        debug_assert!(from + count <= node.len(), "{count} entries from {from} on");
        if count == node.len() {
            return self.node.clear();
        }
        let mut entries = node.entries();
        entries.by_ref().take(from).for_each(drop);
        let at = entries.offset();
        let bytes = entries.take(count).map(|(bytes, _)| bytes).sum();
        let left = node::remove(&mut self.node, at, bytes, count);
        self.node.truncate(left);
    }

    /// Writes the value.
    pub fn write(&self, out: &mut Vec<u8>) {
        let StreamState { last, max_deleted, added } = self.state;
        let has_last = self.read().node.is_none_or(|node| node.last() != last);
        let has_deleted = max_deleted != StreamId::MIN;
        out.clear();
        out.push(if has_last { HAS_LAST } else { 0 } | if has_deleted { HAS_DELETED } else { 0 });
        for (id, is_there) in [(last, has_last), (max_deleted, has_deleted)] {
            if is_there {
                out.extend_from_slice(&id.bytes());
            }
        }
        let mut count = Encoded::new();
        put_number(&mut count, added);
        out.extend_from_slice(&count);
        out.extend_from_slice(&self.node);
        debug_assert!(out.len() <= SMALL_BYTES_MAX, "a small value of {} bytes", out.len());
    }
}
