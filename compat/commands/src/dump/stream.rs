//! The batch of a stream that is being inserted: its entries, whose texts stand among the others, and the rest.

use varve_rdb::{Part, ReadFault};
use varve_store::{StreamId, StreamState};

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

    /// Takes a part that is no pair.
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
            Part::Tail(tail) => {
                let (last, max_deleted) = (id_of(tail.last), id_of(tail.max_deleted));
                self.state = Some(StreamState { last, max_deleted, added: tail.added });
            }
            _ => return Err(ReadFault::Unsupported("stream with consumer groups")),
        }
        Ok(())
    }
}

fn id_of((ms, seq): (u64, u64)) -> StreamId {
    StreamId::new(ms, seq)
}
