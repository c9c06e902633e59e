//! The batch of a stream that is being inserted: its entries, whose texts stand among the others, and the rest; and the
//! stream's groups, which no batch has a part of: they are made whole beside it.

use varve_rdb::{Part, ReadFault, StreamTail};
use varve_store::{Groups, PendingEntry, StreamFacts, StreamGroup, StreamId, StreamState};

/// See the module's text.
#[derive(Debug, Default)]
pub(super) struct Batch {
    /// Each entry with the number of its fields.
    pub(super) entries: Vec<(StreamId, usize)>,
    /// Texts that these entries have.
    texts: usize,
    /// The facts that come behind the last entry.
    pub(super) state: Option<StreamState>,
}

impl Batch {
    /// True without anything.
    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty() && self.state.is_none()
    }

    /// Whether the last entry has all of its texts.
    pub(super) fn is_whole(&self, texts: usize) -> bool {
        self.entries.is_empty() || self.texts == texts
    }

    /// Takes a part that is no pair and none of a group.
    ///
    /// # Errors
    /// The store does not take it.
    pub(super) fn collect(&mut self, part: Part<'_>) -> Result<(), ReadFault> {
        match part {
            Part::Entry(id, fields) => {
                let fields = usize::try_from(fields).map_err(|_| ReadFault::Odd("an entry has too many fields"))?;
                self.entries.push((id_of(id), fields));
                self.texts += 2 * fields;
            }
            Part::Tail(tail) => self.state = Some(state_of(&tail)),
            _ => unreachable!("a part of no stream, or of its groups"),
        }
        Ok(())
    }
}

/// The groups of a stream, made from their parts.
#[derive(Debug, Default)]
pub(super) struct GroupMaker {
    facts: StreamFacts,
    groups: Groups,
    open: Option<Box<OpenGroup>>,
}

/// A group whose parts are coming.
#[derive(Debug)]
struct OpenGroup {
    name: Box<[u8]>,
    group: StreamGroup,
    /// Its pending entries in the order of their IDs: when they were delivered, and how often.
    pending: Vec<(StreamId, i64, u64)>,
    /// The number of the consumer whose entries are coming.
    consumer: u32,
}

impl GroupMaker {
    /// The stream is this one.
    pub(super) fn begin(&mut self, tail: &StreamTail) {
        let StreamTail { len, first, .. } = *tail;
        self.facts = StreamFacts { len, first: id_of(first), state: state_of(tail), groups: 0 };
    }

    /// Takes the next part.
    ///
    /// # Errors
    /// The group cannot be so.
    pub(super) fn collect(&mut self, part: Part<'_>) -> Result<(), ReadFault> {
        if let Part::Group(name, last, read) = part {
            self.close()?;
            let last = id_of(last);
            // Old files do not have the number of entries read: it may follow from the stream.
            let read = match read {
                Some(read) => u64::try_from(read).ok(),
                None => self.facts.count_up_to(last),
            };
            let group = StreamGroup::new(last, read);
            let (name, pending) = (Box::from(name), Vec::new());
            self.open = Some(Box::new(OpenGroup { name, group, pending, consumer: 0 }));
            return Ok(());
        }
        let OpenGroup { group, pending, consumer, .. } =
            self.open.as_deref_mut().expect("a group begins with its name");
        match part {
            Part::Pending(id, time_ms, count) => {
                let id = id_of(id);
                if pending.last().is_some_and(|(before, ..)| *before >= id) {
                    return Err(ReadFault::Odd("the pending entries of a group are not in order"));
                }
                pending.push((id, time_ms, count));
            }
            Part::Consumer(name, seen_ms, _) => {
                if !group.meet(name, seen_ms, true) {
                    return Err(ReadFault::Odd("Duplicate stream consumer detected in a group"));
                }
                *consumer = group.consumer(name).expect("it was added").number();
            }
            Part::Owned(id) => {
                let id = id_of(id);
                let at = pending.binary_search_by_key(&id, |(id, ..)| *id);
                let at = at.map_err(|_| ReadFault::Odd("a consumer has an entry that is not pending"))?;
                let (id, time_ms, count) = pending[at];
                if group.pending_at(id).is_some() {
                    return Err(ReadFault::Odd("a pending entry has two consumers"));
                }
                group.set_pending(PendingEntry { id, time_ms, count, consumer: *consumer });
            }
            _ => unreachable!("a part of a group"),
        }
        Ok(())
    }

    fn close(&mut self) -> Result<(), ReadFault> {
        let Some(open) = self.open.take() else { return Ok(()) };
        let OpenGroup { name, group, pending, .. } = *open;
        if group.pending() != pending.len() as u64 {
            return Err(ReadFault::Odd("a pending entry has no consumer"));
        }
        match self.groups.insert(name.into(), group) {
            None => Ok(()),
            Some(_) => Err(ReadFault::Odd("a stream has a group twice")),
        }
    }

    /// The groups, if there are any; all their parts have come.
    ///
    /// # Errors
    /// The last group cannot be so.
    pub(super) fn finish(&mut self) -> Result<Option<Groups>, ReadFault> {
        self.close()?;
        let groups = std::mem::take(&mut self.groups);
        Ok(if groups.is_empty() { None } else { Some(groups) })
    }

    /// Takes groups back that were not used.
    pub(super) fn put_back(&mut self, groups: Option<Groups>) {
        self.groups = groups.unwrap_or_default();
    }
}

fn state_of(tail: &StreamTail) -> StreamState {
    StreamState { last: id_of(tail.last), max_deleted: id_of(tail.max_deleted), added: tail.added }
}

fn id_of((ms, seq): (u64, u64)) -> StreamId {
    StreamId::new(ms, seq)
}
