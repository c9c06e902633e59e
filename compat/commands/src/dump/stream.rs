//! The batch of a stream that is being inserted: its entries, whose texts stand among the others, and the rest; and the
//! stream's groups, each of which is made whole beside it, and then handed over.

use varve_rdb::{Part, ReadFault, StreamTail};
use varve_store::{PendingEntry, StreamFacts, StreamGroup, StreamId, StreamState, StreamWriter};

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

/// Groups that are whole, from which on they are handed over: each costs a microsecond of the shard, about.
const READY_MAX: usize = 64;

/// The groups of a stream, made from their parts.
#[derive(Debug, Default)]
pub(super) struct GroupMaker {
    facts: StreamFacts,
    /// Those that are whole, and were not handed over.
    ready: Vec<(Box<[u8]>, StreamGroup)>,
    /// Bytes of these.
    ready_bytes: usize,
    open: Option<Box<OpenGroup>>,
    /// The pending entries of the group that comes, in the order of their IDs. Their room is kept from one group to the next.
    pending: Vec<MadeEntry>,
}

/// The ID of a pending entry, when it was delivered, in milliseconds of Unix time, and how often.
pub(super) type MadeEntry = (StreamId, i64, u64);

/// A group whose parts are coming.
#[derive(Debug)]
struct OpenGroup {
    name: Box<[u8]>,
    group: StreamGroup,
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
            self.pending.clear();
            self.open = Some(Box::new(OpenGroup { name: name.into(), group, consumer: 0 }));
            return Ok(());
        }
        let GroupMaker { open, pending, .. } = self;
        let OpenGroup { group, consumer, .. } = open.as_deref_mut().expect("a group begins with its name");
        match part {
            Part::Pending(id, time_ms, count) => {
                let id = id_of(id);
                if pending.last().is_some_and(|(before, ..)| *before >= id) {
                    return Err(ReadFault::Odd("the pending entries of a group are not in order"));
                }
                pending.try_reserve(1).map_err(|_| ReadFault::Memory)?;
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

    /// All parts of the group have come.
    ///
    /// # Errors
    /// It cannot be so.
    pub(super) fn close(&mut self) -> Result<(), ReadFault> {
        let Some(open) = self.open.take() else { return Ok(()) };
        let OpenGroup { name, group, .. } = *open;
        if group.pending() != self.pending.len() as u64 {
            return Err(ReadFault::Odd("a pending entry has no consumer"));
        }
        self.ready_bytes += group.bytes() + name.len();
        self.ready.push((name, group));
        Ok(())
    }

    /// Whether no more groups are to be made before those that are whole were handed over.
    pub(super) fn is_full(&self) -> bool {
        self.ready.len() >= READY_MAX
    }

    /// Whether there is nothing to hand over.
    pub(super) fn is_empty(&self) -> bool {
        self.ready.is_empty()
    }

    /// Bytes of the groups that are whole.
    pub(super) fn ready_bytes(&self) -> usize {
        self.ready_bytes
    }

    /// Bytes of memory of all that it has.
    pub(super) fn held_bytes(&self) -> usize {
        let open = self.open.as_ref().map_or(0, |open| open.group.bytes() + open.name.len());
        self.ready_bytes + open + self.pending.capacity() * size_of::<MadeEntry>()
    }

    /// The room of pending entries, once no more come.
    pub(super) fn take_pending(&mut self) -> Vec<MadeEntry> {
        std::mem::take(&mut self.pending)
    }

    /// Hands all groups over, whole or not, to a stream that nobody is going to see.
    pub(super) fn leave_to(&mut self, stream: &mut StreamWriter<'_, '_>) {
        self.hand_over(stream);
        if let Some(open) = self.open.take() {
            stream.add_group(&open.name, open.group);
        }
    }

    /// Hands the groups over that are whole; false if the stream has one of their names already.
    pub(super) fn hand_over(&mut self, stream: &mut StreamWriter<'_, '_>) -> bool {
        self.ready_bytes = 0;
        // No iterator of `all`: each group is handed over, also behind one that is not taken.
        self.ready.drain(..).fold(true, |taken, (name, group)| stream.add_group(&name, group) && taken)
    }
}

fn state_of(tail: &StreamTail) -> StreamState {
    StreamState { last: id_of(tail.last), max_deleted: id_of(tail.max_deleted), added: tail.added }
}

fn id_of((ms, seq): (u64, u64)) -> StreamId {
    StreamId::new(ms, seq)
}
