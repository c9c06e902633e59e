//! A node of a stream: a listpack of entries.
//!
//! ```text
//! Master ─▶ Between ⇄ Fields          a live entry: each step a field and its value
//!              ⇅
//!           Deleted                   an entry that was deleted is passed over
//! ```
//! The master fields are not collected: they stand in the listpack, and each entry that has them reads them there again. Some
//! kilobytes of a compressed listpack may have millions of them.

use super::{StreamItem, Took};
use crate::read::fault::ReadFault;
use crate::read::packed::{Cursor, Entry, Form};

const DELETED: i64 = 1;
const SAME_FIELDS: i64 = 2;

/// Entries of the listpack that one step passes over.
const PASSED_MAX: u64 = 256;

/// A node that is being read.
#[derive(Debug)]
pub(super) struct NodeState {
    cursor: Cursor,
    base: (u64, u64),
    /// The master fields: where they begin, and their number.
    master: (Cursor, u64),
    /// Entries that are left, and deleted ones.
    live: u64,
    deleted: u64,
    at: Place,
    /// The entry that is being read has the master fields: the next one of them.
    same: Option<Cursor>,
}

/// The place in a node.
#[derive(Clone, Copy, Debug)]
enum Place {
    /// In the master fields, of which this number was not passed over.
    Master(u64),
    /// Between two entries.
    Between,
    /// In an entry: fields that are left, and all that it has.
    Fields(u64, u64),
    /// In a deleted entry: texts that are left, and the number of its fields.
    Deleted(u64, u64),
}

impl NodeState {
    /// A listpack at its first byte; `base` is the node's ID.
    pub(super) fn open(base: (u64, u64), blob: &[u8]) -> Result<NodeState, ReadFault> {
        let mut cursor = Cursor::open(Form::Listpack, blob)?;
        let mut count = || number(&mut cursor, blob).and_then(unsigned);
        let (live, deleted, fields) = (count()?, count()?, count()?);
        if live == 0 {
            return Err(ReadFault::Odd("a node of a stream has no entries"));
        }
        let (master, at) = ((cursor, fields), Place::Master(fields));
        Ok(NodeState { cursor, base, master, live, deleted, at, same: None })
    }

    /// The next part of the node's entries, and how many entries of the listpack were passed over before it, about.
    pub(super) fn next(&mut self, blob: &[u8]) -> Result<(Took, u64), ReadFault> {
        for passed in 0..PASSED_MAX {
            match self.at {
                Place::Master(left) => match left.checked_sub(1) {
                    Some(left) => {
                        entry(&mut self.cursor, blob)?;
                        self.at = Place::Master(left);
                    }
                    None => {
                        number(&mut self.cursor, blob)?;
                        self.at = Place::Between;
                    }
                },
                Place::Between if self.live + self.deleted == 0 => {
                    return match self.cursor.next_entry(blob)? {
                        None => Ok((Took::End, passed)),
                        Some(_) => Err(ReadFault::Odd("a node of a stream has more entries than it says")),
                    };
                }
                Place::Between => {
                    if let Some(item) = self.begin_entry(blob)? {
                        return Ok((Took::Item(item), passed));
                    }
                }
                Place::Fields(0, count) | Place::Deleted(0, count) => self.end_entry(count, blob)?,
                Place::Fields(left, count) => {
                    self.at = Place::Fields(left - 1, count);
                    let field = entry(self.same.as_mut().unwrap_or(&mut self.cursor), blob)?;
                    return Ok((Took::Item(StreamItem::Pair(field, entry(&mut self.cursor, blob)?)), passed));
                }
                Place::Deleted(left, count) => {
                    entry(&mut self.cursor, blob)?;
                    self.at = Place::Deleted(left - 1, count);
                }
            }
        }
        Ok((Took::More, PASSED_MAX))
    }

    /// Reads the front of an entry: its flags, its ID, the number of its fields. Gives the part unless it is deleted.
    fn begin_entry(&mut self, blob: &[u8]) -> Result<Option<StreamItem>, ReadFault> {
        let mut next = || number(&mut self.cursor, blob);
        let (flags, ms, seq) = (next()?, next()?, next()?);
        let (cursor, fields) = self.master;
        self.same = (flags & SAME_FIELDS != 0).then_some(cursor);
        let count = if self.same.is_some() { fields } else { next().and_then(unsigned)? };
        let id = (self.base.0.wrapping_add_signed(ms), self.base.1.wrapping_add_signed(seq));
        let is_deleted = flags & DELETED != 0;
        let left = if is_deleted { &mut self.deleted } else { &mut self.live };
        *left = left.checked_sub(1).ok_or(ReadFault::Odd("a node of a stream has other entries than it says"))?;
        if is_deleted {
            self.at = Place::Deleted(if self.same.is_some() { count } else { count.saturating_mul(2) }, count);
            return Ok(None);
        }
        self.at = Place::Fields(count, count);
        Ok(Some(StreamItem::Entry(id, count)))
    }

    /// Reads the end of an entry: how many entries of the listpack it takes.
    fn end_entry(&mut self, count: u64, blob: &[u8]) -> Result<(), ReadFault> {
        self.at = Place::Between;
        let expected = if self.same.take().is_some() { count + 3 } else { 2 * count + 4 };
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
