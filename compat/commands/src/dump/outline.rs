//! A stream without its entries, encoded part by part: its facts and its groups, which stand behind the entries.
//!
//! ```text
//!   facts | group | pending entries, in order of IDs .. | consumer | its IDs .. | consumer | its IDs .. | group | ..
//!                     each ID is noted under its consumer ----------^--------------------^
//! ```
//! In a file the names of its messages stand in front of the entry, part by part too.
//!
//! The nodes of pending entries, of groups, of consumers and of names are shared with the stream, which copies those that it changes: no shard is held meanwhile, and
//! what is encoded is of the instant at which the outline was taken. When all is encoded, nodes that nobody else has are given
//! back part by part as well. Not here: entries (`value.rs`).

use std::collections::VecDeque;

use varve_rdb::format::MESSAGE_NAMES;
use varve_rdb::{RdbBuffer, StreamTail};
use varve_store::{NamePlace, PendingEntry, PendingFilter, StreamFacts, StreamGroup, StreamId, StreamOutline};

use super::idempotence;

/// Groups, pending entries, consumers and IDs of one part, about: some 100 us.
const PART: usize = 2048;
/// IDs of a consumer that lie together: those are not moved when more come.
const CHUNK: usize = 1024;
/// Bytes of names of one part, about.
const NAME_BYTES: usize = 64 << 10;
/// Nodes of pending entries, and leaves of groups, consumers and names, that are given back in one part.
const NODES: usize = 64;

/// A stream without its entries, on its way into a buffer.
#[derive(Debug)]
pub struct OutlineEncoder {
    outline: StreamOutline,
    has_facts: bool,
    /// The name of the group that was begun last.
    last: Option<Box<[u8]>>,
    open: Option<GroupEncoder>,
    is_whole: bool,
    names: Names,
}

/// How far the names of messages are encoded.
#[derive(Debug)]
enum Names {
    /// Nothing is.
    Unbegun,
    /// Those before this one are.
    From(NamePlace),
    Done,
}

impl OutlineEncoder {
    /// Nothing is encoded yet.
    pub fn new(outline: StreamOutline) -> OutlineEncoder {
        OutlineEncoder { outline, has_facts: false, last: None, open: None, is_whole: false, names: Names::Unbegun }
    }

    /// Appends a field with the next names of messages, which stand before the entry; false, and nothing is done, when none is
    /// left.
    pub fn put_names(&mut self, to: &mut RdbBuffer) -> bool {
        let from = match &self.names {
            Names::Unbegun => None,
            Names::From(place) => Some(place),
            Names::Done => return false,
        };
        let Some(kept) = self.outline.idempotence() else { return false };
        let (bytes, next) = idempotence::bytes_of(kept, from, NAME_BYTES);
        to.aux(MESSAGE_NAMES, &bytes);
        self.names = next.map_or(Names::Done, Names::From);
        true
    }

    /// Appends the next part, of bounded length, or gives memory back behind the last one; false when nothing is left to do.
    pub fn put_some(&mut self, to: &mut RdbBuffer) -> bool {
        if self.is_whole {
            return self.outline.let_go_some(NODES);
        }
        if !self.has_facts {
            put_facts(self.outline.facts, to);
            self.has_facts = true;
        }
        let mut left = PART;
        while left > 0 && !self.is_whole {
            if self.open.as_mut().is_some_and(|open| open.put_some(&mut left, to)) {
                continue;
            }
            self.open = None;
            match self.outline.group_behind(self.last.as_deref()) {
                None => self.is_whole = true,
                Some((name, group)) => {
                    self.open = Some(GroupEncoder::begin(name, group, to));
                    self.last = Some(name.into());
                    left = left.saturating_sub(1);
                }
            }
        }
        true
    }

    /// Bytes of what is noted for later parts, about.
    pub fn held_bytes(&self) -> usize {
        self.open.as_ref().map_or(0, |open| open.noted * size_of::<StreamId>())
    }
}

/// An ID as files have it.
pub(super) fn pair(id: StreamId) -> (u64, u64) {
    (id.ms, id.seq)
}

/// Appends the facts of a stream, which stand behind its entries.
pub(super) fn put_facts(facts: StreamFacts, to: &mut RdbBuffer) {
    let StreamFacts { len, first, state, .. } = facts;
    let (last, max_deleted) = (pair(state.last), pair(state.max_deleted));
    let tail = StreamTail { len, last, first: pair(first), max_deleted, added: state.added };
    to.stream_tail(&tail, facts.groups as u64);
}

/// Appends a group at once.
pub(super) fn put_group(name: &[u8], group: &StreamGroup, to: &mut RdbBuffer) {
    let (mut group, mut left) = (GroupEncoder::begin(name, group, to), usize::MAX);
    while group.put_some(&mut left, to) {}
}

/// A group on its way into a buffer.
#[derive(Debug)]
struct GroupEncoder {
    group: StreamGroup,
    next: Next,
    /// The IDs of pending entries by the number of their consumer, who names them again.
    owned: Vec<Owned>,
    /// The number of these IDs.
    noted: usize,
}

/// The part of a group that comes next.
#[derive(Debug)]
enum Next {
    /// The pending entries from this ID on.
    Pending(StreamId),
    /// The consumers behind this name; before them the IDs of the consumer with this number.
    Consumers(Option<Box<[u8]>>, Option<u32>),
}

#[derive(Debug, Default)]
struct Owned {
    ids: VecDeque<Vec<StreamId>>,
    len: u64,
}

impl Owned {
    fn push(&mut self, id: StreamId) {
        self.len += 1;
        match self.ids.back_mut().filter(|chunk| chunk.len() < CHUNK) {
            Some(chunk) => chunk.push(id),
            None => self.ids.push_back(vec![id]),
        }
    }
}

impl GroupEncoder {
    fn begin(name: &[u8], group: &StreamGroup, to: &mut RdbBuffer) -> GroupEncoder {
        to.group(name, pair(group.last()), group.read(), group.pending());
        GroupEncoder { group: group.clone(), next: Next::Pending(StreamId::MIN), owned: Vec::new(), noted: 0 }
    }

    /// Appends some more and takes it off `left`, by at most one chunk of IDs too much; false, and nothing is done, if the group has
    /// all of its parts.
    fn put_some(&mut self, left: &mut usize, to: &mut RdbBuffer) -> bool {
        match &mut self.next {
            Next::Pending(from) => {
                let from = *from;
                self.put_pending(from, left, to);
                true
            }
            Next::Consumers(_, owner @ Some(_)) => {
                let owned = owner.and_then(|number| self.owned.get_mut(number as usize));
                match owned.and_then(|owned| owned.ids.pop_front()) {
                    Some(ids) => {
                        ids.iter().for_each(|id| to.raw_id(pair(*id)));
                        *left = left.saturating_sub(ids.len());
                        self.noted -= ids.len();
                    }
                    None => *owner = None,
                }
                true
            }
            Next::Consumers(behind, owner) => {
                let Some((name, consumer)) = self.group.consumers_behind(behind.as_deref()).next() else {
                    return false;
                };
                let owned = self.owned.get(consumer.number() as usize).map_or(0, |owned| owned.len);
                to.consumer(name, consumer.seen_ms, owned);
                *left = left.saturating_sub(1);
                (*behind, *owner) = (Some(name.into()), Some(consumer.number()));
                true
            }
        }
    }

    fn put_pending(&mut self, from: StreamId, left: &mut usize, to: &mut RdbBuffer) {
        let GroupEncoder { group, next, owned, noted } = self;
        *next = Next::Consumers(None, None);
        group.scan(from, PendingFilter::ALL, |entry| {
            let PendingEntry { id, time_ms, count, consumer } = entry;
            if *left == 0 {
                *next = Next::Pending(id);
                return false;
            }
            *left -= 1;
            to.pending(pair(id), time_ms, count);
            let consumer = consumer as usize;
            owned.resize_with(owned.len().max(consumer + 1), Owned::default);
            owned[consumer].push(id);
            *noted += 1;
            true
        });
        if let Next::Consumers(..) = next {
            to.count(group.consumer_count() as u64);
        }
    }
}
