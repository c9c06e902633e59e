//! From RDB's values to the store's: a value is made from its parts, a batch of these at a time.
//!
//! ```text
//! part ─▶ batch (texts one behind the other) ─▶ when it is full, one operation of the store ─▶ the key's value grows
//! ```
//! So neither a collection of any size is in memory twice, nor does each element look for its key. The key must not exist
//! before; or the elements go to a collection that no key leads to yet, over several holds of its shard. Between two batches a key has part of its value, so a loader that lets go of its shard serves nobody meanwhile.
//! Whoever inserts reports the change of the key.

use varve_rdb::{Kind, Part, ReadFault};
use varve_store::{
    FIELD_EXPIRY_MS_MAX, Groups, Idempotence, Key, ListEnd, StreamGroups, StreamNeed, StreamWriter, StringForm, Ttl,
    Tx, Unpublished, VALUE_BYTES_MAX, WrongType,
};

use super::idempotence::idempotence_of;
use super::stream::{Batch, GroupMaker};

/// Bytes that a text costs at most beside its own.
const TEXT_BYTES: usize = 64;
/// Texts of a batch.
const BATCH_TEXTS: usize = 512;
/// Bytes of its texts from which on a batch is full.
const BATCH_BYTES: usize = 64 << 10;
/// Fields and values of one entry of a stream, at most: a node has them all, and its bytes are counted in 32 bits.
const ENTRY_TEXTS_MAX: usize = 1 << 26;

/// A value that is being inserted; kept from value to value for its memory.
#[derive(Debug)]
pub struct Insertion {
    kind: Kind,
    bytes: Vec<u8>,
    /// Where each text of the batch ends.
    ends: Vec<usize>,
    /// Scores of the batch's members.
    scores: Vec<f64>,
    /// When each field of the batch expires; empty while none does.
    dates: Vec<Option<i64>>,
    /// The entries that a stream's batch adds.
    entries: Batch,
    /// The groups of a stream.
    groups: GroupMaker,
    /// The names of a stream's messages.
    names: Option<Idempotence>,
    parts: u64,
}

impl Default for Insertion {
    fn default() -> Insertion {
        Insertion {
            kind: Kind::String,
            bytes: Vec::new(),
            ends: Vec::new(),
            scores: Vec::new(),
            dates: Vec::new(),
            entries: Batch::default(),
            groups: GroupMaker::default(),
            names: None,
            parts: 0,
        }
    }
}

impl Insertion {
    /// Begins a value.
    ///
    /// # Errors
    /// The store has no such values.
    pub fn begin(&mut self, kind: Kind) -> Result<(), ReadFault> {
        if kind == Kind::Module {
            return Err(ReadFault::Unsupported(kind.name()));
        }
        (self.kind, self.parts, self.groups, self.names) = (kind, 0, GroupMaker::default(), None);
        self.clear();
        Ok(())
    }

    /// Adds the next part to the value at the key, whose shard is held. The part may wait in the batch.
    ///
    /// # Errors
    /// An element comes twice, or the store does not take it; the key has part of its value then.
    #[inline]
    pub fn add(&mut self, tx: &mut Tx<'_>, key: &Key<'_>, part: Part<'_>) -> Result<(), ReadFault> {
        if let Part::Whole(text) = part {
            check(&part)?;
            tx.set(key, text, Ttl::Clear, StringForm::Auto);
            self.parts += 1;
            return Ok(());
        }
        if self.collect(part)? { self.flush(tx, key) } else { Ok(()) }
    }

    /// Has the next element wait in the batch; true if the batch is full, and must be added before anything else waits.
    ///
    /// # Errors
    /// The store does not take it.
    #[inline]
    pub(super) fn collect(&mut self, part: Part<'_>) -> Result<bool, ReadFault> {
        self.parts += 1;
        check(&part)?;
        match part {
            Part::Whole(_) => unreachable!("a string has no elements"),
            Part::Element(text) => self.push(text),
            Part::Pair(field, value) => {
                self.push(field);
                self.push(value);
                if !self.dates.is_empty() {
                    self.dates.push(None);
                }
            }
            Part::DatedPair(field, value, expiry_ms) => {
                self.dates.resize(self.ends.len() / 2, None);
                self.push(field);
                self.push(value);
                self.dates.push(Some(expiry_ms));
            }
            Part::Scored(member, score) => {
                self.push(member);
                self.scores.push(score);
            }
            Part::Entry(..) => self.entries.collect(part)?,
            Part::Tail(tail) => {
                self.groups.begin(&tail);
                self.entries.collect(part)?;
            }
            Part::Group(..) | Part::Pending(..) | Part::Consumer(..) | Part::Owned(_) => self.groups.collect(part)?,
            Part::Names(names) => self.names = Some(names_of(names)?),
        }
        if !self.entries.is_whole(self.ends.len()) {
            // XADD refuses an entry of more bytes too. A node of more texts could have more bytes than 32 bits count.
            let is_too_long = self.bytes.len() > VALUE_BYTES_MAX || self.ends.len() > ENTRY_TEXTS_MAX;
            return if is_too_long { Err(ReadFault::TooLong(self.bytes.len() as u64)) } else { Ok(false) };
        }
        Ok(self.ends.len() >= BATCH_TEXTS || self.bytes.len() >= BATCH_BYTES)
    }

    /// Adds what waits in the batch: the value is complete. Gives the number of its parts; without any there is no key.
    ///
    /// # Errors
    /// Those of [`Insertion::add`].
    pub fn end(&mut self, tx: &mut Tx<'_>, key: &Key<'_>) -> Result<u64, ReadFault> {
        self.flush(tx, key)?;
        Ok(self.parts)
    }

    /// A bound on the bytes that what waits in the batch takes in the store.
    pub(super) fn bytes(&self) -> u64 {
        (self.bytes.len() + self.ends.len() * TEXT_BYTES) as u64
    }

    /// Adds what waits in the batch to a collection that nobody sees yet; false, and nothing is done, if its shard is busy.
    ///
    /// # Errors
    /// An element comes twice, or a group cannot be so.
    pub(super) fn flush_unseen(&mut self, tx: &mut Tx<'_>, to: &mut Unpublished) -> Result<bool, ReadFault> {
        let count = self.ends.len();
        let mut groups = self.groups.finish()?;
        let texts = (0..count).map(|i| self.text(i));
        let new = match self.kind {
            Kind::Stream => {
                let done = tx.unpublished_stream(to, |stream| self.add_entries(stream, groups.take()));
                self.groups.put_back(groups);
                done.map(|()| count)
            }
            _ if count == 0 => return Ok(true),
            Kind::List => tx.unpublished_push(to, texts),
            Kind::Set => tx.unpublished_add(to, texts),
            Kind::Hash if self.dates.is_empty() => tx.unpublished_set(to, self.pairs()).map(|new| 2 * new),
            Kind::Hash => tx.unpublished_set_dated(to, self.dated_pairs()).map(|new| 2 * new),
            Kind::Zset => tx.unpublished_score(to, self.members()),
            Kind::String | Kind::Module => unreachable!("its parts do not wait"),
        };
        let Some(new) = new else { return Ok(false) };
        self.clear();
        if new == count { Ok(true) } else { Err(ReadFault::Duplicate) }
    }

    fn pairs(&self) -> impl ExactSizeIterator<Item = (&[u8], &[u8])> + Clone {
        (0..self.ends.len() / 2).map(|i| (self.text(2 * i), self.text(2 * i + 1)))
    }

    fn dated_pairs(&self) -> impl Iterator<Item = (&[u8], &[u8], Option<i64>)> {
        self.pairs().zip(&self.dates).map(|((field, value), &expiry_ms)| (field, value, expiry_ms))
    }

    fn members(&self) -> impl Iterator<Item = (&[u8], f64)> + Clone {
        self.scores.iter().enumerate().map(|(i, &score)| (self.text(i), score))
    }

    fn push(&mut self, text: &[u8]) {
        self.bytes.extend_from_slice(text);
        self.ends.push(self.bytes.len());
    }

    fn flush(&mut self, tx: &mut Tx<'_>, key: &Key<'_>) -> Result<(), ReadFault> {
        let groups = self.groups.finish()?;
        if self.ends.is_empty() && self.entries.is_empty() && groups.is_none() && self.names.is_none() {
            return Ok(());
        }
        let count = self.ends.len();
        let texts = (0..count).map(|i| self.text(i));
        let new = match self.kind {
            Kind::List => tx.list_push(key, ListEnd::Back, texts, false).map(|_| count),
            Kind::Set => tx.set_add(key, texts),
            Kind::Hash if self.dates.is_empty() => tx.hash_set(key, self.pairs()).map(|new| 2 * new),
            Kind::Hash => tx.hash_set_dated(key, self.dated_pairs()).map(|new| 2 * new),
            Kind::Zset => tx.zset_load(key, self.members()),
            Kind::Stream => {
                let need = match (&groups, &self.names) {
                    (Some(_), _) | (_, Some(_)) => StreamNeed::Everything,
                    (None, None) => {
                        let count = self.entries.entries.len();
                        StreamNeed::Entries { count, texts: self.ends.len(), bytes: self.bytes.len() }
                    }
                };
                let add = |stream: &mut StreamWriter<'_, '_>| self.add_entries(stream, groups);
                if tx.exists(key) {
                    tx.stream_mut_for(key, need, add).map(|_| count)
                } else {
                    tx.make_stream(key, need, add);
                    Ok(count)
                }
            }
            Kind::String | Kind::Module => unreachable!("its parts do not wait"),
        };
        self.clear();
        match new {
            Ok(new) if new == count => Ok(()),
            Ok(_) => Err(ReadFault::Duplicate),
            Err(WrongType) => Err(ReadFault::Odd("the key has a value already")),
        }
    }

    /// Adds what the batch of a stream has, and the groups.
    fn add_entries(&self, stream: &mut StreamWriter<'_, '_>, groups: Option<Groups>) {
        let mut at = 0;
        for &(id, fields) in &self.entries.entries {
            let end = at + 2 * fields;
            let pairs = (at / 2..end / 2).map(|i| (self.text(2 * i), self.text(2 * i + 1)));
            stream.add(id, pairs);
            at = end;
        }
        if let Some(state) = self.entries.state {
            stream.set_state(state);
        }
        if let Some(groups) = groups {
            stream.set_groups(StreamGroups::new(groups));
        }
        if let Some(names) = &self.names {
            stream.change_idempotence(|| names.clone(), |_| ());
        }
    }

    fn text(&self, i: usize) -> &[u8] {
        let start = if i == 0 { 0 } else { self.ends[i - 1] };
        &self.bytes[start..self.ends[i]]
    }

    fn clear(&mut self) {
        self.bytes.clear();
        self.bytes.shrink_to(4 * BATCH_BYTES);
        self.ends.clear();
        self.scores.clear();
        self.dates.clear();
        (self.entries, self.names) = (Batch::default(), None);
    }
}

/// Whether the store takes a part: what is no question of the format, but of our own bounds.
///
/// # Errors
/// A text is longer than the longest value, or a field expires later than any that is kept.
pub(super) fn check(part: &Part<'_>) -> Result<(), ReadFault> {
    let is_short = |text: &[u8]| match text.len() {
        ..=VALUE_BYTES_MAX => Ok(()),
        len => Err(ReadFault::TooLong(len as u64)),
    };
    match *part {
        Part::Whole(text) | Part::Element(text) | Part::Scored(text, _) => is_short(text),
        Part::DatedPair(.., expiry_ms) if expiry_ms > FIELD_EXPIRY_MS_MAX => {
            Err(ReadFault::Odd("a field expires beyond all times"))
        }
        Part::Pair(field, value) | Part::DatedPair(field, value, _) => is_short(field).and_then(|()| is_short(value)),
        Part::Entry(_, 0) => Err(ReadFault::Odd("an entry of a stream has no fields")),
        Part::Entry(..) | Part::Tail(_) => Ok(()),
        Part::Group(..) | Part::Pending(..) | Part::Consumer(..) | Part::Owned(_) => Ok(()),
        Part::Names(names) => names_of(names).map(drop),
    }
}

fn names_of(names: &[u8]) -> Result<Idempotence, ReadFault> {
    idempotence_of([names]).ok_or(ReadFault::Odd("the names of a stream's messages are damaged"))
}
