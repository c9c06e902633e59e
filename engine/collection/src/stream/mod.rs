//! A stream: nodes of entries, each an object of the log, in the order of a tree keyed by ID.
//!
//! ```text
//!   CountedTree (leaf number -> Ref, counts,     0           1           2
//!   keyed by the milliseconds of first IDs)      |           |           |
//!   objects of kinds::NODE,             +--------v-+---------v-+---------v-+
//!   key: the leaf number               | 100 entries | 100 entries | 17, room |
//!                                      +-------------+-------------+----------+
//! ```
//! Entries are added at the end only, and the last node alone has room. A node ends where redis-server's would end
//! (`node`), since clients see that: by `XTRIM ~`, and by XINFO STREAM. An entry that is removed is taken out of its node
//! at once. Neighbours that have become small together are joined, but for the last node.
//!
//! | file | what |
//! |---|---|
//! | here | adding, removing, trimming; nodes written and given up |
//! | `groups`, `pending` | groups of consumers; their entries that were not acknowledged |
//! | `id` | the ID of an entry |
//! | `idempotence` | names that producers give to messages, so that none is added twice |
//! | `node` | the bytes of a node |
//! | `read` | ranges of IDs, positions |
//! | `small` | a stream of some entries and without groups, in the value of its key |
//! | `reading` | readers over several holds of the shard, which see the entries as they were when they began |
//!
//! A stream may be empty: its key stays. It does not know its key, and no clock makes its IDs. One of some entries and
//! without groups is no tree, but the value of its key (`small`).

mod gone;
mod groups;
mod id;
mod idempotence;
mod node;
mod pending;
mod read;
mod reading;
mod small;
#[cfg(test)]
mod tests;

use std::collections::HashSet;
use std::sync::Arc;

use varve_base::Ref;
use varve_segment::{Appender, NewObject, NewValue, ObjectHead, Owner};

use crate::counted_tree::{CountedTree, Leaf};
use crate::handed::LentBytes;
use crate::kinds;
use crate::sequence_readers;
use crate::{CollectionId, ReadCtx, WriteCtx};

use groups::GroupSize;
pub use groups::{Consumer, Groups, StreamGroup, StreamGroups};
pub use id::StreamId;
pub use idempotence::{Idempotence, IdempotenceCounts, IdempotenceFigures, IdempotenceLimits, NamePlace, NamedMessage};
use node::Encoded;
pub use node::{StreamEntry, StreamFields, StreamNode};
pub use pending::{PendingEntry, PendingFilter};
pub use read::StreamReader;
pub use reading::StreamPart;
pub use small::{SmallStream, SmallStreamCopy, StreamNeed};

/// Nodes cut off by one command that it kills itself; the background kills the others.
const CUT_AT_ONCE: usize = 64;
/// Pending entries of removed consumers that a step takes out for each node that it may kill.
const SWEEP_PART: usize = 4;
/// One in this number of bytes of a node that ended may stay free room.
const SLACK_PART: usize = 8;
/// Two neighbours are joined if they have at most this part of the entries, and of the bytes, that a node may have.
const JOIN_PART: u64 = 2;
/// Most entries and bytes of a node where the settings have no limit, for joining.
const UNLIMITED_NODE: NodeLimits = NodeLimits { bytes: 4096, entries: 100 };

/// How large nodes get: `stream-node-max-bytes` and `stream-node-max-entries`. Zero is no limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeLimits {
    /// Bytes from which on an entry goes to a new node, as redis-server counts them.
    pub bytes: u64,
    /// Entries of a node, those that were removed included.
    pub entries: u64,
}

/// The entries that a trimming removes, from the least ID on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trim {
    /// All but this number with the greatest IDs.
    ToLength(u64),
    /// Those with lesser IDs.
    Below(StreamId),
}

/// The facts of a stream that do not follow from its entries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StreamState {
    /// The greatest ID that the stream has ever had, or was given.
    pub last: StreamId,
    /// The greatest ID that was deleted; trimming does not count.
    pub max_deleted: StreamId,
    /// Entries that were ever added.
    pub added: u64,
}

/// The facts of a stream beside its entries, as files have them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StreamFacts {
    /// Number of entries.
    pub len: u64,
    /// The ID of the first entry; the least ID without entries.
    pub first: StreamId,
    /// The facts that do not follow from the entries.
    pub state: StreamState,
    /// Number of groups.
    pub groups: usize,
}

/// The entries of a stream.
pub struct Stream {
    tree: CountedTree,
    /// Bytes of all node objects.
    object_bytes: u64,
    state: StreamState,
    /// None without any.
    groups: Option<Groups>,
    /// Bytes of the groups.
    group_bytes: usize,
    /// Names of messages that are added once; none nearly always.
    idempotence: Option<Box<Idempotence>>,
    /// Groups that were destroyed, whose memory is given back in steps.
    gone: Vec<StreamGroup>,
    /// Groups that may have entries of consumers that were removed; none nearly always.
    sweeping: Vec<Arc<[u8]>>,
    /// Bytes of the groups and names that readers share; none nearly always.
    lent: Vec<LentBytes>,
    /// Those that are shown the entries as they were; none nearly always.
    readers: sequence_readers::Readers,
}

impl NodeLimits {
    /// Whether a node takes an entry whose names and values have `payload` bytes together.
    fn takes(self, node: StreamNode<'_>, payload: u64) -> bool {
        let most = if self.bytes == 0 { 1 << 30 } else { self.bytes.min(1 << 30) };
        node.peer_bytes() + payload < most && (self.entries == 0 || ((node.len() + node.gone()) as u64) < self.entries)
    }

    /// Bytes for a node that is written anew because it grows.
    fn roomy(self, needed: usize) -> usize {
        let most = if self.bytes == 0 { usize::MAX } else { self.bytes as usize };
        (2 * needed).min(most).max(needed + needed / SLACK_PART)
    }

    /// Whether two nodes with these entries and bytes together should be one.
    fn joins(self, entries: usize, bytes: usize) -> bool {
        let or = |limit, other| if limit == 0 { other } else { limit };
        entries as u64 <= or(self.entries, UNLIMITED_NODE.entries) / JOIN_PART
            && bytes as u64 <= or(self.bytes, UNLIMITED_NODE.bytes) / JOIN_PART
    }
}

impl Stream {
    /// A stream without entries.
    pub fn empty() -> Stream {
        Stream {
            tree: CountedTree::keyed(),
            object_bytes: 0,
            state: StreamState::default(),
            groups: None,
            group_bytes: 0,
            idempotence: None,
            gone: Vec::new(),
            sweeping: Vec::new(),
            lent: Vec::new(),
            readers: None,
        }
    }

    /// A big stream of what a small one has.
    pub fn of_small(ctx: &mut WriteCtx<'_>, small: SmallStream<'_>) -> Stream {
        let mut stream = Stream { state: small.state(), ..Stream::empty() };
        if let Some(node) = small.node() {
            stream.begin_node(ctx, node.first(), node.0, node.len());
        }
        debug_assert_eq!(stream.len(), small.len(), "it has the entries of the small one");
        stream
    }

    /// Number of entries.
    #[inline]
    #[allow(clippy::len_without_is_empty, reason = "an empty stream is a key like any other")]
    pub fn len(&self) -> u64 {
        self.tree.count()
    }

    /// Number of nodes. O(1), but for the moments behind a long trimming.
    pub fn nodes(&self) -> usize {
        match (self.tree.first(), self.tree.last()) {
            (Some(first), Some(last)) if self.tree.has_detached() => {
                let mut numbers = Vec::new();
                self.tree.list_numbers(first, last, &mut numbers);
                numbers.len()
            }
            (None, _) => 0,
            _ => self.tree.leaves(),
        }
    }

    /// Bytes of the nodes in the log.
    pub fn object_bytes(&self) -> u64 {
        self.object_bytes
    }

    /// Bytes of the stream itself, its tree, and what readers have.
    #[inline]
    pub fn table_bytes(&self) -> usize {
        size_of::<Stream>()
            + self.tree.bytes()
            + self.group_bytes
            + self.idempotence.as_ref().map_or(0, |kept| kept.bytes())
            + self.readers.as_ref().map_or(0, |readers| readers.bytes())
    }

    /// The facts that do not follow from the entries.
    #[inline]
    pub fn state(&self) -> StreamState {
        self.state
    }

    /// Gives the stream other facts; the last ID is not below that of an entry.
    pub fn set_state(&mut self, state: StreamState) {
        self.state = state;
    }

    /// Adds an entry with a greater ID than any other has ever had.
    pub fn add<'f>(
        &mut self,
        ctx: &mut WriteCtx<'_>,
        limits: NodeLimits,
        id: StreamId,
        fields: impl ExactSizeIterator<Item = (&'f [u8], &'f [u8])> + Clone,
    ) {
        debug_assert!(id > self.state.last, "entries come in the order of their IDs");
        let payload = fields.clone().map(|(name, value)| (name.len() + value.len()) as u64).sum();
        (self.state.last, self.state.added) = (id, self.state.added.wrapping_add(1));
        let mut encoded = Encoded::new();
        if let Some(leaf) = self.tree.last() {
            let node = self.node(ctx.read(), leaf);
            // XSETID may have gone back behind an entry that was removed from this node.
            if limits.takes(node, payload) && id > node.last() {
                let peer = node::encode(node, id, fields, &mut encoded);
                return self.append(ctx, limits, leaf, id, (&encoded, peer));
            }
            self.fit(ctx, leaf, SLACK_PART);
        }
        node::begin(id, fields, &mut encoded);
        self.begin_node(ctx, id, &encoded, 1);
    }

    /// Adds a node of another stream, whose entries come behind all others; gives their number. Of the facts the last ID
    /// follows, the others come at the end ([`Stream::set_state`]).
    pub fn append_node(&mut self, ctx: &mut WriteCtx<'_>, node: &[u8]) -> usize {
        let node = StreamNode::open(node);
        debug_assert!(
            self.tree.last().is_none_or(|leaf| self.node(ctx.read(), leaf).last() < node.first()),
            "in order"
        );
        let number = self.tree.upcoming().number().to_le_bytes();
        let r = ctx.appender.append(ctx.log, &node_object(ctx.id, &number, node.0));
        self.object_bytes += ctx.access.open(ctx.log, r).bytes() as u64;
        self.tree.insert_after(self.tree.last(), r, node.len() as u32, node.first().ms);
        self.state.last = self.state.last.max(node.last());
        node.len()
    }

    /// Removes the entry with an ID; false if there is none.
    pub fn remove(&mut self, ctx: &mut WriteCtx<'_>, limits: NodeLimits, id: StreamId) -> bool {
        let Some((leaf, at, bytes)) = self.find(ctx.read(), id) else { return false };
        self.state.max_deleted = self.state.max_deleted.max(id);
        if self.tree.count_of(leaf) == 1 {
            self.drop_leaf(ctx, leaf);
            return true;
        }
        self.take_out(ctx, leaf, (at, bytes), 1);
        if Some(leaf) != self.tree.last() {
            self.fit(ctx, leaf, 1);
            self.join_if_small(ctx, limits, leaf);
        }
        true
    }

    /// Removes entries from the least ID on; the number of them. With `whole_nodes` only nodes all of whose entries are to
    /// go are removed, and no node that makes it more than `limit` entries.
    pub fn trim(&mut self, ctx: &mut WriteCtx<'_>, trim: Trim, whole_nodes: Option<u64>) -> u64 {
        let len = self.len();
        let mut gone = match trim {
            Trim::ToLength(most) => len.saturating_sub(most),
            Trim::Below(id) => self.rank(ctx.read(), id),
        };
        if let Some(limit) = whole_nodes {
            gone = self.whole_nodes(gone);
            if let (Trim::Below(id), true) = (trim, gone > 0) {
                gone = self.without_later(ctx.read(), gone, id);
            }
            gone = gone.min(self.whole_nodes(limit.min(len)));
        }
        self.cut_front(ctx, gone);
        debug_assert_eq!(self.len() + gone, len, "as many entries went as are counted");
        gone
    }

    /// The first `count` entries, as far as they are whole nodes.
    fn whole_nodes(&self, count: u64) -> u64 {
        self.tree.locate(count).map_or(self.len(), |(_, offset)| count - offset)
    }

    /// The first `gone` entries, which are whole nodes, without the last of these if it ever had an ID that is not below.
    fn without_later(&self, ctx: ReadCtx<'_>, gone: u64, id: StreamId) -> u64 {
        let (leaf, _) = self.tree.locate(gone - 1).expect("an entry that is there");
        if self.node(ctx, leaf).last() < id { gone } else { gone - self.tree.count_of(leaf) }
    }

    /// Removes the first `count` entries. Nodes that go whole are cut off at once and killed later, but for a few.
    fn cut_front(&mut self, ctx: &mut WriteCtx<'_>, count: u64) {
        if count == 0 {
            return;
        }
        debug_assert!(count <= self.len(), "{count} entries of {}", self.len());
        let Some((leaf, offset)) = self.tree.locate(count) else {
            let last = self.tree.last().expect("a stream with entries");
            self.tree.cut_before(last);
            self.drop_leaf(ctx, last);
            return self.step(ctx, CUT_AT_ONCE);
        };
        if Some(leaf) != self.tree.first() {
            self.tree.cut_before(leaf);
        }
        if offset > 0 {
            let value = self.value(ctx.read(), leaf);
            let entries = StreamNode::open(value).entries();
            let at = entries.offset();
            let bytes = entries.take(offset as usize).map(|(bytes, _)| bytes).sum();
            self.take_out(ctx, leaf, (at, bytes), offset as usize);
        }
        self.step(ctx, CUT_AT_ONCE);
    }

    /// Takes `count` entries of `bytes` bytes out of a node, which has others.
    fn take_out(&mut self, ctx: &mut WriteCtx<'_>, leaf: Leaf, (at, bytes): (usize, usize), count: usize) {
        debug_assert!(self.tree.count_of(leaf) > count as u64, "a node that is left has entries");
        self.before(ctx.log, ctx.access, leaf);
        let mut object = ctx.access.open_mut(ctx.log, self.tree.leaf_ref(leaf));
        let left = node::remove(object.value_mut(), at, bytes, count);
        object.shorten_value(left);
        self.tree.add(leaf, -(count as i64));
    }

    /// Adds an entry to the last node.
    fn append(
        &mut self,
        ctx: &mut WriteCtx<'_>,
        limits: NodeLimits,
        leaf: Leaf,
        id: StreamId,
        (encoded, peer): (&[u8], u64),
    ) {
        self.before(ctx.log, ctx.access, leaf);
        debug_assert_eq!(Some(leaf), self.tree.last(), "entries are added at the end");
        let mut object = ctx.access.open_mut(ctx.log, self.tree.leaf_ref(leaf));
        let at = object.value().len();
        if !object.extend_value(at, encoded) {
            self.rewrite_with(ctx, leaf, encoded, limits.roomy(at + encoded.len()));
            object = ctx.access.open_mut(ctx.log, self.tree.leaf_ref(leaf));
        }
        node::count_added(object.value_mut(), id, peer);
        self.tree.add(leaf, 1);
    }

    /// Begins a node behind the others, with as much room as the one before has needed.
    fn begin_node(&mut self, ctx: &mut WriteCtx<'_>, id: StreamId, value: &[u8], entries: usize) {
        debug_assert_eq!(StreamNode::open(value).len(), entries, "a node has as many entries as are counted");
        let last = self.tree.last();
        let like = last.map_or(0, |leaf| self.value(ctx.read(), leaf).len());
        let number = self.tree.upcoming().number().to_le_bytes();
        let object =
            NewObject { room: value.len().max(like + like / SLACK_PART), ..node_object(ctx.id, &number, value) };
        let r = ctx.appender.append(ctx.log, &object);
        self.object_bytes += ctx.access.open(ctx.log, r).bytes() as u64;
        self.tree.insert_after(last, r, entries as u32, id.ms);
    }

    /// Writes a node anew without free room if it has more than one in `part` of its bytes.
    fn fit(&mut self, ctx: &mut WriteCtx<'_>, leaf: Leaf, part: usize) {
        let object = ctx.access.open(ctx.log, self.tree.leaf_ref(leaf));
        let (value, room) = (object.value(), object.room());
        debug_assert!(room >= value.len(), "a value lies in its room");
        if room - value.len() > value.len() / part {
            self.rewrite_with(ctx, leaf, &[], value.len());
        }
    }

    /// Joins a node with a neighbour if both are small; the last node stays as it is.
    fn join_if_small(&mut self, ctx: &mut WriteCtx<'_>, limits: NodeLimits, leaf: Leaf) {
        let last = self.tree.last();
        let pairs = [(Some(leaf), self.tree.next(leaf)), (self.tree.prev(leaf), Some(leaf))];
        for (left, right) in pairs {
            let (Some(left), Some(right)) = (left, right) else { continue };
            let entries = (self.tree.count_of(left) + self.tree.count_of(right)) as usize;
            let bytes = self.value(ctx.read(), left).len() + self.value(ctx.read(), right).len();
            if Some(right) != last && limits.joins(entries, bytes) {
                return self.join(ctx, left, right);
            }
        }
    }

    fn join(&mut self, ctx: &mut WriteCtx<'_>, left: Leaf, right: Leaf) {
        debug_assert!(self.tree.next(left) == Some(right), "neighbours");
        self.before(ctx.log, ctx.access, left);
        let mut joined = Encoded::from_slice(self.value(ctx.read(), left));
        let mut encoded = Encoded::new();
        for (_, entry) in self.node(ctx.read(), right).entries() {
            let peer = node::encode(StreamNode::open(&joined), entry.id, entry.fields, &mut encoded);
            joined.extend_from_slice(&encoded);
            node::count_added(&mut joined, entry.id, peer);
        }
        debug_assert_eq!(StreamNode::open(&joined).len() as u64, self.tree.count_of(left) + self.tree.count_of(right));
        node::close(&mut joined);
        let moved = self.tree.count_of(right);
        self.drop_leaf(ctx, right);
        let number = left.number().to_le_bytes();
        let new = ctx.appender.append(ctx.log, &node_object(ctx.id, &number, &joined));
        self.install(ctx, left, new);
        self.tree.add(left, moved as i64);
    }

    /// Writes a node anew with `part` behind it, in a room of `room` bytes.
    fn rewrite_with(&mut self, ctx: &mut WriteCtx<'_>, leaf: Leaf, part: &[u8], room: usize) {
        let object = ctx.access.open(ctx.log, self.tree.leaf_ref(leaf));
        let old = object.value();
        let value = NewValue::Patched { old, at: old.len(), part };
        let new = ctx.appender.append(ctx.log, &NewObject { value, room, ..NewObject::like(&object) });
        self.install(ctx, leaf, new);
    }

    /// Gives a node another object.
    fn install(&mut self, ctx: &mut WriteCtx<'_>, leaf: Leaf, new: Ref) {
        let old = self.tree.leaf_ref(leaf);
        let object = ctx.access.open(ctx.log, new);
        debug_assert_eq!(object.key(), leaf.number().to_le_bytes(), "a node carries its number");
        self.object_bytes += object.bytes() as u64;
        self.tree.set_ref(leaf, new);
        self.kill(ctx, old);
    }

    fn drop_leaf(&mut self, ctx: &mut WriteCtx<'_>, leaf: Leaf) {
        self.before(ctx.log, ctx.access, leaf);
        let r = self.tree.remove(leaf);
        self.kill(ctx, r);
    }

    fn kill(&mut self, ctx: &mut WriteCtx<'_>, r: Ref) {
        let bytes = ctx.access.open(ctx.log, r).bytes() as u64;
        debug_assert!(self.object_bytes >= bytes, "the bytes of all nodes");
        self.object_bytes -= bytes;
        ctx.access.kill(ctx.log, r);
    }

    /// The groups; none while there are none.
    pub fn groups(&self) -> Option<&Groups> {
        self.groups.as_ref()
    }

    /// Number of names of messages, of groups, of their pending entries and of their consumers, counted as far as `most`.
    pub fn parts_behind(&self, most: u64) -> u64 {
        let mut parts = self.idempotence.as_ref().map_or(0, |kept| kept.names());
        let mut groups = self.groups.iter().flat_map(|groups| groups.values());
        while parts < most
            && let Some(group) = groups.next()
        {
            parts += 1 + group.parts();
        }
        parts
    }

    /// The group of this name.
    pub fn group(&self, name: &[u8]) -> Option<&StreamGroup> {
        self.groups.as_ref()?.get(name)
    }

    /// Adds a group; false, and nothing is done, if there is one of this name.
    pub fn add_group(&mut self, name: &[u8], group: StreamGroup) -> bool {
        if self.group(name).is_some() {
            return false;
        }
        self.group_bytes += group.bytes() + name.len();
        let before =
            copying(self.groups.get_or_insert_default(), &mut self.lent, |groups| groups.insert(name.into(), group));
        debug_assert!(before.is_none(), "the name is new");
        true
    }

    /// Gives a stream without groups these.
    pub fn set_groups(&mut self, groups: StreamGroups) {
        debug_assert!(self.groups.is_none() && !groups.all.is_empty(), "groups for a stream that has none");
        debug_assert!(groups.bytes > 0, "a group has bytes");
        self.sweeping = groups.sweeping;
        self.groups = Some(groups.all);
        self.group_bytes += groups.bytes;
    }

    /// The groups for another stream, none while there are none: they share what they have until one of both changes it.
    pub fn shared_groups(&self) -> Option<StreamGroups> {
        let bytes = self.group_bytes - self.gone.iter().map(StreamGroup::bytes).sum::<usize>();
        self.groups.clone().map(|all| StreamGroups { all, bytes, sweeping: self.sweeping.clone() })
    }

    /// Removes a group; false if there is none of this name.
    pub fn remove_group(&mut self, name: &[u8]) -> bool {
        let Some(groups) = &mut self.groups else { return false };
        let Some(group) = copying(groups, &mut self.lent, |groups| groups.remove(name)) else { return false };
        leave(&mut self.lent, group.bytes());
        if groups.is_empty() {
            self.groups = None;
        }
        debug_assert!(self.group_bytes >= name.len() + group.bytes(), "the bytes of all groups");
        self.group_bytes -= name.len();
        self.gone.push(group);
        self.free_gone(CUT_AT_ONCE);
        true
    }

    /// The names of messages that are added once, if the stream was ever asked to keep such.
    pub fn idempotence(&self) -> Option<&Idempotence> {
        self.idempotence.as_deref()
    }

    /// Changes these names, which `begin` makes if there are none.
    pub fn change_idempotence<R>(
        &mut self,
        begin: impl FnOnce() -> Idempotence,
        change: impl FnOnce(&mut Idempotence) -> R,
    ) -> R {
        let kept = self.idempotence.get_or_insert_with(|| Box::new(begin()));
        let (left, bytes) = (kept.left(), kept.bytes());
        let done = change(kept);
        debug_assert!(kept.left() >= left, "{} bytes are left to copies, and {left} were", kept.left());
        leave(&mut self.lent, (kept.left() - left) as usize + bytes.saturating_sub(kept.bytes()));
        done
    }

    /// Changes the group of this name; None if there is none.
    pub fn change_group<R>(&mut self, name: &[u8], change: impl FnOnce(&mut StreamGroup) -> R) -> Option<R> {
        let Stream { groups, lent, sweeping, .. } = self;
        let (done, had, has) = copying(groups.as_mut()?, lent, |groups| {
            let group = groups.get_mut(name)?;
            let (had, was_sweeping) = (group.size(), group.wants_sweep());
            let done = change(group);
            if group.wants_sweep() && !was_sweeping {
                sweeping.push(name.into());
            }
            Some((done, had, group.size()))
        })?;
        self.resize(had, has);
        Some(done)
    }

    /// A group has another size.
    fn resize(&mut self, had: GroupSize, has: GroupSize) {
        debug_assert!(self.group_bytes >= had.bytes, "the bytes of all groups");
        debug_assert!(has.left >= had.left, "{} bytes are left to copies, and {} were", has.left, had.left);
        self.group_bytes = self.group_bytes - had.bytes + has.bytes;
        // A reader may have alone what the group has no more: names of consumers among it.
        leave(&mut self.lent, (has.left - had.left) as usize + had.bytes.saturating_sub(has.bytes));
    }

    /// Takes out some pending entries of consumers that were removed.
    fn sweep(&mut self, entries: usize) {
        let Stream { groups, lent, sweeping, .. } = self;
        let (Some(groups), Some(name)) = (groups, sweeping.last()) else { return sweeping.clear() };
        let swept = copying(groups, lent, |groups| {
            // It may have been destroyed meanwhile, and be there again.
            groups.get(name).filter(|group| group.wants_sweep())?;
            let group = groups.get_mut(name)?;
            let had = group.size();
            group.sweep(entries);
            Some((had, group.size()))
        });
        match swept {
            Some((had, has)) => self.resize(had, has),
            None => _ = self.sweeping.pop(),
        }
    }

    /// Gives entries to a group: those behind its last one, at most `count`, with the least IDs. Each is shown, and becomes
    /// pending for the consumer unless there is none. Nothing happens without the group.
    pub fn deliver<'a>(
        &'a mut self,
        ctx: ReadCtx<'a>,
        name: &[u8],
        (consumer, now_ms): (Option<u32>, i64),
        count: u64,
        mut show: impl FnMut(StreamEntry<'_>),
    ) {
        let Some(mut groups) = self.groups.take() else { return };
        let before = groups.left();
        if let Some(group) = groups.get_mut(name) {
            let had = group.size();
            let reader = StreamReader::Big(self, ctx);
            let (facts, mut left) = (reader.facts(), count);
            if let Some(from) = group.last().next().filter(|_| count > 0) {
                reader.range(from, StreamId::MAX, false, |entry| {
                    group.give(entry.id, &facts);
                    if let Some(consumer) = consumer {
                        group.set_pending(PendingEntry { id: entry.id, time_ms: now_ms, count: 1, consumer });
                    }
                    show(entry);
                    left -= 1;
                    left > 0
                });
            }
            let has = group.size();
            self.resize(had, has);
        }
        leave(&mut self.lent, (groups.left() - before) as usize);
        self.groups = Some(groups);
    }

    /// Gives back memory of groups that are gone, some `leaves` of their pending entries.
    fn free_gone(&mut self, leaves: usize) {
        let Some(last) = self.gone.last_mut() else { return };
        if last.free_step(leaves) {
            self.group_bytes -= last.bytes();
            self.gone.pop();
            if self.gone.is_empty() {
                self.gone = Vec::new();
            }
        }
    }

    /// Whether nodes that were cut off are left, and nobody may read them, or groups or consumers that are gone.
    pub fn wants_step(&self) -> bool {
        self.tree.has_detached() && !self.is_read() || !self.gone.is_empty() || !self.sweeping.is_empty()
    }

    /// Kills at most `nodes` of the nodes that were cut off, and gives back memory of groups that are gone. While somebody reads
    /// the nodes stay.
    pub fn step(&mut self, ctx: &mut WriteCtx<'_>, nodes: usize) {
        self.free_gone(nodes);
        self.sweep(SWEEP_PART * nodes);
        for _ in 0..if self.is_read() { 0 } else { nodes } {
            let Some(r) = self.tree.take_detached() else { return };
            self.kill(ctx, r);
        }
    }

    /// Moves the node that reclaim has come to; false if the stream does not have it.
    pub fn relocate(&mut self, ctx: &mut WriteCtx<'_>, head: &ObjectHead<'_>) -> bool {
        // It may be anything that died since reclaim read it, whose collection's number this one has now.
        let Ok(number) = head.key.try_into().map(u32::from_le_bytes) else { return false };
        let Some(leaf) = self.tree.leaf(number).filter(|leaf| self.tree.leaf_ref(*leaf) == head.r) else {
            return false;
        };
        debug_assert!(self.object_bytes >= head.bytes as u64, "the bytes of all nodes");
        let new = ctx.relocate(head.r);
        self.object_bytes -= head.bytes as u64;
        self.object_bytes += ctx.access.open(ctx.log, new).bytes() as u64;
        self.tree.set_ref(leaf, new);
        true
    }

    /// Kills about `objects` nodes; true when none is left.
    pub fn free_step(&mut self, ctx: &mut WriteCtx<'_>, objects: usize) -> bool {
        debug_assert!(!self.is_read(), "a stream that somebody reads is not freed");
        for _ in 0..objects {
            let detached = self.tree.take_detached();
            let Some(r) = detached.or_else(|| self.tree.last().map(|leaf| self.tree.remove(leaf))) else { return true };
            self.kill(ctx, r);
        }
        debug_assert!(self.tree.leaves() > 0 || self.object_bytes == 0, "no bytes without nodes");
        self.tree.leaves() == 0
    }

    /// Gives back some of the groups, then of the names of messages, then of the tree; true when nothing is left of them. What
    /// somebody else has too stays with it.
    pub fn shrink_step(&mut self) -> bool {
        self.lent.clear();
        // Groups that are left in the map are counted no more.
        self.group_bytes = self.gone.iter().map(StreamGroup::bytes).sum();
        for _ in 0..CUT_AT_ONCE {
            if !self.gone.is_empty() {
                self.free_gone(1);
            } else if let Some(groups) = self.groups.as_mut().and_then(Groups::pop_leaf) {
                self.gone.extend(groups.into_iter().map(|(_, group)| group));
                self.group_bytes = self.gone.iter().map(StreamGroup::bytes).sum();
            } else if self.idempotence.as_mut().is_none_or(|kept| kept.free_step(1)) {
                (self.groups, self.idempotence) = (None, None);
                return self.tree.shrink_step();
            }
        }
        false
    }

    /// Copies the entries into nodes of the collection `id`.
    pub fn copy(&self, from: ReadCtx<'_>, appender: &mut Appender, id: CollectionId) -> Stream {
        let mut copy = Stream { state: self.state, idempotence: self.idempotence.clone(), ..Stream::empty() };
        if let Some(groups) = self.shared_groups() {
            copy.set_groups(groups);
        }
        let mut next = self.tree.first();
        while let Some(leaf) = next {
            let value = self.value(from, leaf);
            let number = copy.tree.upcoming().number().to_le_bytes();
            let r = appender.append(from.log, &node_object(id, &number, value));
            copy.object_bytes += from.access.open(from.log, r).bytes() as u64;
            let (count, first) = (self.tree.count_of(leaf) as u32, StreamNode::open(value).first());
            copy.tree.insert_after(copy.tree.last(), r, count, first.ms);
            next = self.tree.next(leaf);
        }
        debug_assert_eq!(copy.len(), self.len(), "a copy has all entries");
        copy
    }

    /// Checks everything and adds every live object's Ref. O(N).
    pub fn verify(&self, ctx: ReadCtx<'_>, id: CollectionId, live: &mut HashSet<Ref>) {
        self.groups.iter().for_each(Groups::verify);
        self.groups.iter().flat_map(|groups| groups.values()).for_each(StreamGroup::verify);
        self.idempotence.iter().for_each(|kept| kept.verify());
        let gone = self.gone.iter().map(StreamGroup::bytes).sum::<usize>();
        assert_eq!(
            self.groups.as_ref().map_or(0, groups::bytes_of) + gone,
            self.group_bytes,
            "bytes of the groups of {id:?}"
        );
        self.tree.verify();
        if let Some(readers) = &self.readers {
            readers.verify(|leaf| self.tree.leaf(leaf).is_some(), live);
        }
        let leaves = std::iter::successors(self.tree.first(), |leaf| self.tree.next(*leaf));
        let mut bytes = 0;
        for leaf in leaves.clone().chain(self.tree.detached_leaves()) {
            let r = self.tree.leaf_ref(leaf);
            let object = ctx.access.open(ctx.log, r);
            let owner = Owner::Collection(id.number());
            assert_eq!((object.kind(), object.owner()), (kinds::NODE, owner), "a node of {id:?}");
            assert_eq!(object.key(), leaf.number().to_le_bytes(), "a node carries its number");
            assert!(live.insert(r), "a node is in one place only");
            bytes += object.bytes() as u64;
        }
        let mut before = StreamId::MIN;
        for leaf in leaves {
            let node = self.node(ctx, leaf);
            node.verify();
            assert_eq!(node.len() as u64, self.tree.count_of(leaf), "the tree counts the node's entries");
            assert_eq!(node.first().ms, self.tree.separator(leaf), "the tree knows where the node begins");
            let (_, last) = node.entries().last().expect("no node is empty");
            assert!(before < node.first() && last.id <= self.state.last, "nodes in the order of their IDs");
            before = last.id;
        }
        assert_eq!(bytes, self.object_bytes, "bytes of the nodes of {id:?}");
    }

    fn value<'a>(&self, ctx: ReadCtx<'a>, leaf: Leaf) -> &'a [u8] {
        ctx.access.open(ctx.log, self.tree.leaf_ref(leaf)).value()
    }

    fn node<'a>(&self, ctx: ReadCtx<'a>, leaf: Leaf) -> StreamNode<'a> {
        StreamNode::open(self.value(ctx, leaf))
    }
}

/// A node's object, without free room.
fn node_object<'a>(id: CollectionId, number: &'a [u8], value: &'a [u8]) -> NewObject<'a> {
    let owner = Owner::Collection(id.number());
    NewObject { value: NewValue::Bytes(value), room: value.len(), ..NewObject::new(kinds::NODE, owner, number, &[]) }
}

/// Changes the map of groups, of which nodes are copied that somebody else has too.
fn copying<R>(groups: &mut Groups, lent: &mut Vec<LentBytes>, change: impl FnOnce(&mut Groups) -> R) -> R {
    let before = groups.left();
    let done = change(groups);
    leave(lent, (groups.left() - before) as usize);
    done
}

/// The stream does not have these bytes of its groups any more.
fn leave(lent: &mut Vec<LentBytes>, bytes: usize) {
    if bytes > 0 {
        lent.retain_mut(|lent| lent.leave(bytes));
    }
}
