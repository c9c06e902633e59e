//! From RDB's values to the store's: a value is made from its parts, a batch of these at a time.
//!
//! ```text
//! part ─▶ batch (texts one behind the other) ─▶ when it is full, one operation of the store ─▶ the key's value grows
//! ```
//! So neither a collection of any size is in memory twice, nor does each element look for its key. The key must not exist
//! before; or the elements go to a collection that no key leads to yet, over several holds of its shard. Between two batches a key has part of its value, so a loader that lets go of its shard serves nobody meanwhile.
//! Whoever inserts reports the change of the key. A stream's groups are handed over some at a time, each of them whole.

use std::ops::Range;

use varve_rdb::{Kind, Part, ReadFault};
use varve_store::{Idempotence, Key, ListEnd, StreamNeed, StreamWriter, StringForm, Ttl, Tx, Unpublished, WrongType};

use super::check::Check;
use super::idempotence::add_names;
use super::stream::{Batch, GroupMaker, MadeEntry};

/// Bytes that a text costs at most beside its own.
const TEXT_BYTES: usize = 64;
/// Texts of a batch.
const BATCH_TEXTS: usize = 512;
/// Bytes of its texts from which on a batch is full.
const BATCH_BYTES: usize = 64 << 10;
/// Leaves of a hash whose due fields are removed at once, at most (`engine/store/src/keyspace/expiry.rs`). A batch whose fields are
/// all due is removed whole by that, when the next batch comes: of one with more fields a part would stay.
const DUE_LEAVES: usize = 256;
const _: () = assert!(
    BATCH_TEXTS / 2 <= DUE_LEAVES,
    "the fields of a batch lie in no more leaves than are looked at for due fields"
);

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
    /// The names of a stream's messages, which the stream gets when all are there.
    names: Option<Idempotence>,
    check: Check,
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
            check: Check::default(),
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
        self.check = Check::default();
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
            self.check.part(&part)?;
            tx.set(key, text, Ttl::Clear, StringForm::Auto);
            self.parts += 1;
            return Ok(());
        }
        if self.collect(part)? { self.flush(tx, key, false) } else { Ok(()) }
    }

    /// Has the next element wait in the batch; true if the batch is full, and is to be added before anything else waits.
    ///
    /// # Errors
    /// The store does not take it.
    #[inline]
    pub(super) fn collect(&mut self, part: Part<'_>) -> Result<bool, ReadFault> {
        self.parts += 1;
        self.check.part(&part)?;
        match part {
            Part::Whole(_) => unreachable!("a string has no elements"),
            Part::Element(text) => self.push(text)?,
            Part::Pair(field, value) => {
                self.push(field)?;
                self.push(value)?;
                if !self.dates.is_empty() {
                    self.dates.push(None);
                }
            }
            Part::DatedPair(field, value, expiry_ms) => {
                self.dates.resize(self.ends.len() / 2, None);
                self.push(field)?;
                self.push(value)?;
                self.dates.push(Some(expiry_ms));
            }
            Part::Scored(member, score) => {
                self.push(member)?;
                self.scores.push(score);
            }
            Part::Entry(..) => self.entries.collect(part)?,
            Part::Tail(tail) => {
                self.groups.begin(&tail);
                self.entries.collect(part)?;
            }
            Part::Group(..) | Part::Pending(..) | Part::Consumer(..) | Part::Owned(_) => self.groups.collect(part)?,
            Part::Names(names) => {
                let names = add_names(self.names.take(), names);
                self.names = Some(names.ok_or(ReadFault::Odd("the names of a stream's messages are damaged"))?);
            }
        }
        if !self.entries.is_whole(self.ends.len()) {
            return Ok(false);
        }
        Ok(self.ends.len() >= BATCH_TEXTS || self.bytes.len() >= BATCH_BYTES || self.groups.is_full())
    }

    /// All parts have been collected.
    ///
    /// # Errors
    /// The last group of a stream cannot be so.
    pub(super) fn complete(&mut self) -> Result<(), ReadFault> {
        self.groups.close()
    }

    /// Adds what waits in the batch: the value is complete. Gives the number of its parts; without any there is no key.
    ///
    /// # Errors
    /// Those of [`Insertion::add`].
    pub fn end(&mut self, tx: &mut Tx<'_>, key: &Key<'_>) -> Result<u64, ReadFault> {
        self.complete()?;
        self.flush(tx, key, true)?;
        Ok(self.parts)
    }

    /// A bound on the bytes that what waits in the batch takes in the store.
    pub(super) fn bytes(&self) -> u64 {
        let names = self.names.as_ref().map_or(0, Idempotence::bytes);
        (self.bytes.len() + self.ends.len() * TEXT_BYTES + self.groups.ready_bytes() + names) as u64
    }

    /// Bytes of memory of what waits in the batch.
    pub(super) fn held_bytes(&self) -> usize {
        let names = self.names.as_ref().map_or(0, Idempotence::bytes);
        let texts = self.bytes.capacity() + self.ends.capacity() * size_of::<usize>();
        let beside = self.scores.capacity() * size_of::<f64>() + self.dates.capacity() * size_of::<Option<i64>>();
        texts + beside + self.groups.held_bytes() + names
    }

    /// Adds what waits in the batch to a collection that nobody sees yet; false, and nothing is done, if its shard is busy. With the
    /// last batch (`is_last`) a stream gets the names of its messages.
    ///
    /// # Errors
    /// An element comes twice, or a group.
    pub(super) fn flush_unseen(
        &mut self,
        tx: &mut Tx<'_>,
        to: &mut Unpublished,
        is_last: bool,
    ) -> Result<bool, ReadFault> {
        let (count, all) = (self.ends.len(), 0..self.ends.len());
        let new = match self.kind {
            Kind::Stream => tx.unpublished_stream(to, |stream| self.add_entries(stream, is_last)),
            _ if count == 0 => return Ok(true),
            Kind::List => tx.unpublished_push(to, self.texts(all)),
            Kind::Set => tx.unpublished_add(to, self.texts(all)),
            Kind::Hash if self.dates.is_empty() => tx.unpublished_set(to, self.pairs(all)).map(|new| 2 * new),
            Kind::Hash => tx.unpublished_set_dated(to, self.dated_pairs(all)).map(|new| 2 * new),
            Kind::Zset => tx.unpublished_score(to, self.members(all)),
            Kind::String | Kind::Module => unreachable!("its parts do not wait"),
        };
        let Some(new) = new else { return Ok(false) };
        self.clear();
        if new == count { Ok(true) } else { Err(ReadFault::Duplicate) }
    }

    /// Hands what is made of a stream's groups and names over to a stream that nobody is going to see: its background gives their
    /// memory back in steps. False, and nothing is done, if its shard is busy.
    pub(super) fn leave_to(&mut self, tx: &mut Tx<'_>, to: &mut Unpublished) -> bool {
        if self.kind != Kind::Stream {
            return true;
        }
        let Insertion { groups, names, .. } = self;
        let left = tx.unpublished_stream(to, |stream| {
            groups.leave_to(stream);
            if let Some(names) = names.take() {
                stream.change_idempotence(|| names, |_| ());
            }
        });
        left.is_some()
    }

    /// The room of a stream's pending entries, which is to be given back in steps, once no more come.
    pub(super) fn take_pending(&mut self) -> Vec<MadeEntry> {
        self.groups.take_pending()
    }

    fn texts(&self, range: Range<usize>) -> impl Iterator<Item = &[u8]> + Clone {
        range.map(|i| self.text(i))
    }

    fn pairs(&self, range: Range<usize>) -> impl ExactSizeIterator<Item = (&[u8], &[u8])> + Clone {
        (range.start / 2..range.end / 2).map(|i| (self.text(2 * i), self.text(2 * i + 1)))
    }

    fn dated_pairs(&self, range: Range<usize>) -> impl Iterator<Item = (&[u8], &[u8], Option<i64>)> {
        let dates = &self.dates[range.start / 2..range.end / 2];
        self.pairs(range).zip(dates).map(|((field, value), &expiry_ms)| (field, value, expiry_ms))
    }

    fn members(&self, range: Range<usize>) -> impl Iterator<Item = (&[u8], f64)> + Clone {
        range.map(|i| (self.text(i), self.scores[i]))
    }

    /// Has a text wait. An entry of a stream may have millions of them.
    #[inline]
    fn push(&mut self, text: &[u8]) -> Result<(), ReadFault> {
        self.bytes.try_reserve(text.len()).map_err(|_| ReadFault::Memory)?;
        self.ends.try_reserve(1).map_err(|_| ReadFault::Memory)?;
        self.bytes.extend_from_slice(text);
        self.ends.push(self.bytes.len());
        Ok(())
    }

    /// Adds what waits, one operation for each batch of it. With the last of it (`is_last`) a stream gets the names of its messages.
    fn flush(&mut self, tx: &mut Tx<'_>, key: &Key<'_>, is_last: bool) -> Result<(), ReadFault> {
        if self.kind == Kind::Stream {
            let done = self.flush_stream(tx, key, is_last);
            self.clear();
            return done;
        }
        let (count, mut done) = (self.ends.len(), Ok(()));
        for start in (0..count).step_by(BATCH_TEXTS) {
            let range = start..count.min(start + BATCH_TEXTS);
            let wanted = range.len();
            let new = match self.kind {
                Kind::List => tx.list_push(key, ListEnd::Back, self.texts(range), false).map(|_| wanted),
                Kind::Set => tx.set_add(key, self.texts(range)),
                Kind::Hash if self.dates.is_empty() => tx.hash_set(key, self.pairs(range)).map(|new| 2 * new),
                Kind::Hash => tx.hash_set_dated(key, self.dated_pairs(range)).map(|new| 2 * new),
                Kind::Zset => tx.zset_load(key, self.members(range)),
                Kind::Stream | Kind::String | Kind::Module => unreachable!("it has no elements that wait"),
            };
            done = done.and(match new {
                Ok(new) if new == wanted => Ok(()),
                Ok(_) => Err(ReadFault::Duplicate),
                Err(WrongType) => Err(TAKEN),
            });
        }
        self.clear();
        done
    }

    fn flush_stream(&mut self, tx: &mut Tx<'_>, key: &Key<'_>, is_last: bool) -> Result<(), ReadFault> {
        let has_names = is_last && self.names.is_some();
        if self.entries.is_empty() && self.groups.is_empty() && !has_names {
            return Ok(());
        }
        let count = self.ends.len();
        let need = if has_names || !self.groups.is_empty() {
            StreamNeed::Everything
        } else {
            StreamNeed::Entries { count: self.entries.entries.len(), texts: count, bytes: self.bytes.len() }
        };
        let add = |stream: &mut StreamWriter<'_, '_>| self.add_entries(stream, is_last);
        let new = if tx.exists(key) {
            tx.stream_mut_for(key, need, add).map_err(|WrongType| TAKEN)?.expect("the key is there")
        } else {
            tx.make_stream(key, need, add)
        };
        if new == count { Ok(()) } else { Err(ReadFault::Duplicate) }
    }

    /// Adds what the batch of a stream has, and the groups that are whole; how many texts these were, or a number that no
    /// batch has if the stream has a group already.
    fn add_entries(&mut self, stream: &mut StreamWriter<'_, '_>, is_last: bool) -> usize {
        let mut at = 0;
        for &(id, fields) in &self.entries.entries {
            let end = at + 2 * fields;
            stream.add(id, self.pairs(at..end));
            at = end;
        }
        if let Some(state) = self.entries.state {
            stream.set_state(state);
        }
        let is_new = self.groups.hand_over(stream);
        if is_last && let Some(names) = self.names.take() {
            stream.change_idempotence(|| names, |_| ());
        }
        if is_new { self.ends.len() } else { usize::MAX }
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
        self.entries = Batch::default();
    }
}

const TAKEN: ReadFault = ReadFault::Odd("the key has a value already");
