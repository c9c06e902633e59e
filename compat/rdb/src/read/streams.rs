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
//!
//! A step passes over a bounded number of things that are no part (deleted entries, master fields), and then says that there is more.

use std::io::Read;

mod behind;
mod names;
mod node;

use crate::format::StreamTail;
use crate::read::fault::ReadFault;
use crate::read::packed::Entry;
use crate::read::source::Source;
use crate::read::strings::Text;
use behind::Behind;
use node::NodeState;

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
    /// Names of messages, which were read.
    Names,
}

/// The end of a step.
pub(super) enum Took {
    Item(StreamItem),
    /// Something was passed over, or a part of a long string was read.
    More,
    End,
}

/// A stream that is being read.
#[derive(Debug)]
pub(super) struct StreamState {
    form: u8,
    nodes_left: u64,
    at: Place,
    /// Entries so far, and the IDs of the first and the last one.
    len: u64,
    first: (u64, u64),
    last: (u64, u64),
}

/// The place between two steps.
#[derive(Debug)]
enum Place {
    /// In front of a node, or of the tail.
    Between,
    /// In the ID of a node.
    NodeId,
    /// In the listpack of the node with this ID.
    Listpack((u64, u64)),
    Node(Box<NodeState>),
    Behind(Box<Behind>),
}

impl StreamState {
    /// A stream of this form, whose number of nodes has been read.
    pub(super) fn begin(form: u8, nodes: u64) -> StreamState {
        StreamState { form, nodes_left: nodes, at: Place::Between, len: 0, first: (0, 0), last: (0, 0) }
    }

    /// Bytes of memory that are no text's and no buffer's.
    pub(super) fn held_bytes(&self) -> usize {
        if let Place::Behind(behind) = &self.at { behind.held_bytes() } else { 0 }
    }

    /// The next part. `text` has the node that is being read, the name of a group or consumer, or names of messages.
    pub(super) fn next<R: Read>(
        &mut self,
        source: &mut Source<R>,
        text: &mut Text,
        small: &mut Vec<u8>,
    ) -> Result<Took, ReadFault> {
        match &mut self.at {
            Place::Between => match self.nodes_left.checked_sub(1) {
                Some(left) => {
                    (self.nodes_left, self.at) = (left, Place::NodeId);
                    if text.begin(source, small)? { self.listpack(source, text, small) } else { Ok(Took::More) }
                }
                None => self.tail(source).map(|tail| Took::Item(StreamItem::Tail(tail))),
            },
            Place::NodeId => match text.go_on(source, small)? {
                true => self.listpack(source, text, small),
                false => Ok(Took::More),
            },
            Place::Listpack(base) => {
                let base = *base;
                if text.go_on(source, small)? {
                    self.at = Place::Node(Box::new(NodeState::open(base, &text.bytes)?));
                }
                Ok(Took::More)
            }
            Place::Node(node) => {
                let (took, passed) = node.next(&text.bytes)?;
                source.worked(passed * ENTRY_WORK);
                match &took {
                    Took::Item(StreamItem::Entry(id, _)) => self.meet(*id)?,
                    Took::End => self.at = Place::Between,
                    Took::Item(_) | Took::More => {}
                }
                Ok(if matches!(took, Took::End) { Took::More } else { took })
            }
            Place::Behind(behind) => behind.next(source, text, small),
        }
    }

    /// Begins the listpack of the node whose ID was read.
    fn listpack<R: Read>(
        &mut self,
        source: &mut Source<R>,
        text: &mut Text,
        small: &mut Vec<u8>,
    ) -> Result<Took, ReadFault> {
        let Some((ms, seq)) = text.bytes.split_first_chunk::<8>().filter(|(_, seq)| seq.len() == 8) else {
            return Err(ReadFault::Odd("a node of a stream has no ID"));
        };
        let seq = u64::from_be_bytes(seq.try_into().expect("eight bytes"));
        let base = (u64::from_be_bytes(*ms), seq);
        self.at = Place::Listpack(base);
        if text.begin(source, small)? {
            self.at = Place::Node(Box::new(NodeState::open(base, &text.bytes)?));
        }
        Ok(Took::More)
    }

    /// Counts an entry, which comes in order.
    fn meet(&mut self, id: (u64, u64)) -> Result<(), ReadFault> {
        if id <= self.last {
            return Err(ReadFault::Odd("the entries of a stream are not in order"));
        }
        if self.len == 0 {
            self.first = id;
        }
        (self.len, self.last) = (self.len + 1, id);
        Ok(())
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
        self.at = Place::Behind(Box::new(Behind::new(self.form, source.length()?)));
        Ok(StreamTail { len: self.len, last, first, max_deleted, added })
    }
}

/// The work of passing over an entry of a listpack, in bytes that are expanded in that time.
const ENTRY_WORK: u64 = 32;
