//! A stream, part by part: its entries node by node, then the rest.
//!
//! ```text
//! nodes    | number | master ID (a string of 16 bytes, high byte first) | listpack | ..
//! listpack   entries, deleted ones, master fields (their number, each, 0), then of each entry, deleted ones too:
//!            flags (1 deleted, 2 the master fields) | ms - master's | seq - master's
//!            | its fields (their number, each with its value; of the master fields the values) | entries of it here
//! tail     | length | last ID | from form 2: first ID, greatest deleted ID, entries added | groups | group ..
//! group    | name | last ID | from form 2: entries read | pending ones | each: ID, time, deliveries | consumers | consumer ..
//! consumer | name | seen | from form 3: active | pending ones | ID ..            times in 8 bytes, pending IDs in 16
//! form 5   | behind a group's consumers: pending ones that were given back | ID ..   shown as those of a consumer without name
//! form 4   | behind the groups: duration | most names | producers | producer .. | added | duplicates
//! producer | name | messages | each: name, ID
//! ```
//! Entries come in the order of their IDs, and none lies behind the last ID: whoever inserts them need not look. They are counted,
//! and the tail has that number: candidates of Redis 5.0 have gone on counting what XTRIM had removed, each later redis-server takes
//! their files, and hands the wrong length on.

use std::io::Read;

use crate::format::StreamTail;
use crate::read::fault::ReadFault;
use crate::read::packed::{Cursor, Entry, Form};
use crate::read::source::Source;

const DELETED: i64 = 1;
const SAME_FIELDS: i64 = 2;

/// A part of a stream.
pub(super) enum StreamItem {
    /// An entry: its ID and the number of its fields.
    Entry((u64, u64), u64),
    /// A field and its value.
    Pair(Entry, Entry),
    /// The facts that stand behind the entries.
    Tail(StreamTail),
    /// A group, whose name was read: the last ID, and the number of entries read, from form 2 on.
    Group((u64, u64), Option<i64>),
    /// An entry that is pending in the group: its ID, when it was delivered, and how often.
    Pending((u64, u64), i64, u64),
    /// A consumer of the group, whose name was read: when it was seen and when it was active.
    Consumer(i64, i64),
    /// A pending entry is the consumer's.
    Owned((u64, u64)),
    /// The names of messages, which were read.
    Names,
}

/// A stream that is being read.
#[derive(Debug)]
pub(super) struct StreamState {
    form: u8,
    nodes_left: u64,
    node: Option<NodeState>,
    /// Entries so far, and the IDs of the first and the last one.
    len: u64,
    first: (u64, u64),
    last: (u64, u64),
    /// None before the tail.
    behind: Option<Behind>,
}

/// How many things are left behind the tail: each counts down before what encloses it.
#[derive(Clone, Copy, Debug, Default)]
struct Behind {
    groups: u64,
    pending: u64,
    /// The number of the group's consumers stands behind its pending entries.
    counts_consumers: bool,
    /// The number of entries that were given back stands behind its consumers.
    counts_returned: bool,
    consumers: u64,
    owned: u64,
    /// Names of messages stand behind the groups.
    has_names: bool,
}

/// A node that is being read.
#[derive(Debug)]
struct NodeState {
    cursor: Cursor,
    base: (u64, u64),
    master: Vec<Entry>,
    /// Entries that are left, and deleted ones.
    live: u64,
    deleted: u64,
    /// Fields that are left of the entry that is being read, and how many it has.
    fields: Option<(u64, u64)>,
    is_same: bool,
}

impl StreamState {
    /// A stream of this form, whose number of nodes has been read.
    pub(super) fn begin(form: u8, nodes: u64) -> StreamState {
        StreamState { form, nodes_left: nodes, node: None, len: 0, first: (0, 0), last: (0, 0), behind: None }
    }

    /// The next part, None behind the last one. `blob` has the node that is being read, or the name of a group or consumer.
    pub(super) fn next<R: Read>(
        &mut self,
        source: &mut Source<R>,
        blob: &mut Vec<u8>,
        small: &mut Vec<u8>,
    ) -> Result<Option<StreamItem>, ReadFault> {
        loop {
            if let Some(node) = &mut self.node {
                match node.next(blob)? {
                    Some(item) => {
                        if let StreamItem::Entry(id, _) = item {
                            if id <= self.last {
                                return Err(ReadFault::Odd("the entries of a stream are not in order"));
                            }
                            if self.len == 0 {
                                self.first = id;
                            }
                            (self.len, self.last) = (self.len + 1, id);
                        }
                        return Ok(Some(item));
                    }
                    None => self.node = None,
                }
            } else if let Some(left) = self.nodes_left.checked_sub(1) {
                self.nodes_left = left;
                source.string(blob, small)?;
                let Some((ms, seq)) = blob.split_first_chunk::<8>().filter(|(_, seq)| seq.len() == 8) else {
                    return Err(ReadFault::Odd("a node of a stream has no ID"));
                };
                let seq = u64::from_be_bytes(seq.try_into().expect("eight bytes"));
                let base = (u64::from_be_bytes(*ms), seq);
                source.string(blob, small)?;
                self.node = Some(NodeState::open(base, blob)?);
            } else if self.behind.is_some() {
                return self.next_behind(source, blob, small);
            } else {
                return self.tail(source).map(|tail| Some(StreamItem::Tail(tail)));
            }
        }
    }

    fn tail<R: Read>(&mut self, source: &mut Source<R>) -> Result<StreamTail, ReadFault> {
        source.length()?;
        let mut id = || Ok::<_, ReadFault>((source.length()?, source.length()?));
        let last = id()?;
        let (first, max_deleted) = if self.form >= 2 { (id()?, id()?) } else { (self.first, (0, 0)) };
        let added = if self.form >= 2 { source.length()? } else { self.len };
        if last < self.last {
            return Err(ReadFault::Odd("a stream has entries behind its last ID"));
        }
        self.behind = Some(Behind { groups: source.length()?, has_names: self.form >= 4, ..Behind::default() });
        Ok(StreamTail { len: self.len, last, first, max_deleted, added })
    }
}

impl StreamState {
    /// The next part behind the tail.
    fn next_behind<R: Read>(
        &mut self,
        source: &mut Source<R>,
        name: &mut Vec<u8>,
        small: &mut Vec<u8>,
    ) -> Result<Option<StreamItem>, ReadFault> {
        let behind = self.behind.as_mut().expect("the tail has been read");
        if behind.owned > 0 {
            behind.owned -= 1;
            return Ok(Some(StreamItem::Owned(raw_id(source)?)));
        }
        if behind.pending > 0 {
            behind.pending -= 1;
            let (id, time_ms) = (raw_id(source)?, i64::from_le_bytes(source.array()?));
            return Ok(Some(StreamItem::Pending(id, time_ms, source.length()?)));
        }
        if std::mem::take(&mut behind.counts_consumers) {
            behind.consumers = source.length()?;
        }
        if behind.consumers > 0 {
            behind.consumers -= 1;
            source.string(name, small)?;
            let seen_ms = i64::from_le_bytes(source.array()?);
            let active_ms = if self.form >= 3 { i64::from_le_bytes(source.array()?) } else { seen_ms };
            behind.owned = source.length()?;
            return Ok(Some(StreamItem::Consumer(seen_ms, active_ms)));
        }
        if std::mem::take(&mut behind.counts_returned) {
            behind.owned = source.length()?;
            if behind.owned > 0 {
                name.clear();
                return Ok(Some(StreamItem::Consumer(0, 0)));
            }
        }
        let Some(groups) = behind.groups.checked_sub(1) else {
            let has_names = std::mem::take(&mut behind.has_names) && message_names(source, name, small)?;
            return Ok(has_names.then_some(StreamItem::Names));
        };
        behind.groups = groups;
        source.string(name, small)?;
        let last = (source.length()?, source.length()?);
        // Minus one, for a number that is not known, is written as the greatest.
        let read = if self.form >= 2 { Some(source.length()? as i64) } else { None };
        (behind.pending, behind.counts_consumers, behind.counts_returned) = (source.length()?, true, self.form >= 5);
        Ok(Some(StreamItem::Group(last, read)))
    }
}

/// Reads the names of messages, and puts them into `to` in the form of [`crate::format::MESSAGE_NAMES`]; false if nothing was
/// ever named and the limits are those that each stream has. A message counts as named when its ID says that it was added.
fn message_names<R: Read>(source: &mut Source<R>, to: &mut Vec<u8>, small: &mut Vec<u8>) -> Result<bool, ReadFault> {
    const FORM: u8 = 1;
    const COUNTS_AT: usize = 9;
    let (duration_s, names_max, producers) = (source.length()?, source.length()?, source.length()?);
    let limit = |number: u64| u32::try_from(number).map_err(|_| ReadFault::TooLong(number));
    to.clear();
    to.push(FORM);
    to.extend_from_slice(&limit(duration_s)?.to_le_bytes());
    to.extend_from_slice(&limit(names_max)?.to_le_bytes());
    to.extend_from_slice(&[0; 16]);
    let (mut producer, mut name) = (Vec::new(), Vec::new());
    for _ in 0..producers {
        source.string(&mut producer, small)?;
        let count = source.length()?;
        for _ in 0..count {
            source.string(&mut name, small)?;
            // The producer stands here with each of its names, and once in what is read.
            let more = producer.len() + name.len() + NAME_BYTES;
            if to.len() + more > NAMES_BYTES_MAX || to.try_reserve(more).is_err() {
                return Err(ReadFault::TooLong((to.len() + more) as u64));
            }
            for text in [&producer, &name] {
                let length = u32::try_from(text.len()).map_err(|_| ReadFault::TooLong(text.len() as u64))?;
                to.extend_from_slice(&length.to_le_bytes());
                to.extend_from_slice(text);
            }
            let (ms, seq) = (source.length()?, source.length()?);
            for number in [ms, seq, ms.min(i64::MAX as u64)] {
                to.extend_from_slice(&number.to_le_bytes());
            }
        }
    }
    let (added, duplicates) = (source.length()?, source.length()?);
    to[COUNTS_AT..COUNTS_AT + 8].copy_from_slice(&added.to_le_bytes());
    to[COUNTS_AT + 8..COUNTS_AT + 16].copy_from_slice(&duplicates.to_le_bytes());
    Ok(producers > 0 || added > 0 || duplicates > 0 || (duration_s, names_max) != USUAL_LIMITS)
}

/// Bytes that the names of one stream's messages may take, and those of a name beside its texts.
const NAMES_BYTES_MAX: usize = 1 << 30;
const NAME_BYTES: usize = 32;
/// Seconds for which a name is known and names that a producer may have, where nobody has set them.
const USUAL_LIMITS: (u64, u64) = (100, 100);

/// An ID of 16 bytes, high byte first.
fn raw_id<R: Read>(source: &mut Source<R>) -> Result<(u64, u64), ReadFault> {
    Ok((u64::from_be_bytes(source.array()?), u64::from_be_bytes(source.array()?)))
}

impl NodeState {
    fn open(base: (u64, u64), blob: &[u8]) -> Result<NodeState, ReadFault> {
        let mut cursor = Cursor::open(Form::Listpack, blob)?;
        let mut count = || number(&mut cursor, blob).and_then(unsigned);
        let (live, deleted, fields) = (count()?, count()?, count()?);
        if live == 0 {
            return Err(ReadFault::Odd("a node of a stream has no entries"));
        }
        let mut master = Vec::new();
        for _ in 0..fields {
            master.push(entry(&mut cursor, blob)?);
        }
        number(&mut cursor, blob)?;
        Ok(NodeState { cursor, base, master, live, deleted, fields: None, is_same: false })
    }

    fn next(&mut self, blob: &[u8]) -> Result<Option<StreamItem>, ReadFault> {
        loop {
            if let Some((left, count)) = self.fields {
                let Some(left) = left.checked_sub(1) else {
                    self.end_entry(count, blob)?;
                    continue;
                };
                self.fields = Some((left, count));
                let field = match self.is_same {
                    true => self.master[(count - 1 - left) as usize],
                    false => entry(&mut self.cursor, blob)?,
                };
                return Ok(Some(StreamItem::Pair(field, entry(&mut self.cursor, blob)?)));
            }
            if self.live + self.deleted == 0 {
                return match self.cursor.next_entry(blob)? {
                    None => Ok(None),
                    Some(_) => Err(ReadFault::Odd("a node of a stream has more entries than it says")),
                };
            }
            let (id, count, is_deleted) = self.begin_entry(blob)?;
            let left = if is_deleted { &mut self.deleted } else { &mut self.live };
            *left = left.checked_sub(1).ok_or(ReadFault::Odd("a node of a stream has other entries than it says"))?;
            if is_deleted {
                for _ in 0..if self.is_same { count } else { count.saturating_mul(2) } {
                    entry(&mut self.cursor, blob)?;
                }
                self.end_entry(count, blob)?;
                continue;
            }
            self.fields = Some((count, count));
            return Ok(Some(StreamItem::Entry(id, count)));
        }
    }

    /// Reads the front of an entry: its ID, the number of its fields, whether it is deleted.
    fn begin_entry(&mut self, blob: &[u8]) -> Result<((u64, u64), u64, bool), ReadFault> {
        let mut next = || number(&mut self.cursor, blob);
        let (flags, ms, seq) = (next()?, next()?, next()?);
        self.is_same = flags & SAME_FIELDS != 0;
        let count = if self.is_same { self.master.len() as u64 } else { next().and_then(unsigned)? };
        let id = (self.base.0.wrapping_add_signed(ms), self.base.1.wrapping_add_signed(seq));
        Ok((id, count, flags & DELETED != 0))
    }

    /// Reads the end of an entry: how many entries of the listpack it takes.
    fn end_entry(&mut self, count: u64, blob: &[u8]) -> Result<(), ReadFault> {
        self.fields = None;
        let expected = if self.is_same { count + 3 } else { 2 * count + 4 };
        if number(&mut self.cursor, blob).and_then(unsigned)? == expected {
            Ok(())
        } else {
            Err(ReadFault::Odd("an entry of a stream has another size than it says"))
        }
    }
}

fn entry(cursor: &mut Cursor, blob: &[u8]) -> Result<Entry, ReadFault> {
    cursor.next_entry(blob)?.ok_or(ReadFault::Odd("a node of a stream ends early"))
}

fn number(cursor: &mut Cursor, blob: &[u8]) -> Result<i64, ReadFault> {
    match entry(cursor, blob)? {
        Entry::Int(n) => Ok(n),
        Entry::Bytes(..) => Err(ReadFault::Odd("a node of a stream has a text in the place of a number")),
    }
}

fn unsigned(number: i64) -> Result<u64, ReadFault> {
    u64::try_from(number).map_err(|_| ReadFault::Odd("a node of a stream has a negative number of things"))
}
