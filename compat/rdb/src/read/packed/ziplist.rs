//! Entries of a ziplist.
//!
//! ```text
//! size before   00..fd, or fe + 4 bytes
//! 00llllll      a string               11000000 + 2   11010000 + 4   11100000 + 8   integers of this number of bytes
//! 01llllll + 1  a string               11110000 + 3   11111110 + 1
//! 10...... + 4  a string, high first   1111nnnn       n - 1, for n from 1 to 13
//! ```

use super::{Cursor, Entry, Form, array, int};
use crate::read::fault::ReadFault;

/// The next entry.
pub(super) fn next(cursor: &mut Cursor, blob: &[u8]) -> Result<Option<Entry>, ReadFault> {
    let start = cursor.at;
    let early = || Form::Ziplist.damaged("an entry ends behind it");
    let (before, at) = match *blob.get(start).ok_or_else(early)? {
        0xff => return Ok(None),
        0xfe => (u32::from_le_bytes(array(blob, start + 1).ok_or_else(early)?) as usize, start + 5),
        short => (usize::from(short), start + 1),
    };
    if before != cursor.aside {
        return Err(Form::Ziplist.damaged("an entry has another size than the next one says"));
    }
    let first = *blob.get(at).ok_or_else(early)?;
    let number = |bytes: usize| -> Result<_, ReadFault> {
        Ok((Entry::Int(int(blob, at + 1, bytes).ok_or_else(early)?), at + 1 + bytes))
    };
    let string = |at: usize, length: usize| (Entry::Bytes(at, length), at.saturating_add(length));
    let (entry, end) = match first {
        0..0x40 => string(at + 1, usize::from(first)),
        0x40..0x80 => {
            let [_, low] = array(blob, at).ok_or_else(early)?;
            string(at + 2, usize::from(first & 0x3f) << 8 | usize::from(low))
        }
        0x80..0xc0 => string(at + 5, u32::from_be_bytes(array(blob, at + 1).ok_or_else(early)?) as usize),
        0xc0 => number(2)?,
        0xd0 => number(4)?,
        0xe0 => number(8)?,
        0xf0 => number(3)?,
        0xfe => number(1)?,
        0xf1..=0xfd => (Entry::Int(i64::from(first) - 0xf1), at + 1),
        _ => return Err(Form::Ziplist.damaged("an entry has no known encoding")),
    };
    if end >= blob.len() {
        return Err(early());
    }
    (cursor.at, cursor.aside) = (end, end - start);
    Ok(Some(entry))
}

#[cfg(test)]
pub(super) mod tests {
    /// A ziplist of encoded entries.
    pub(crate) fn blob(entries: &[&[u8]]) -> Vec<u8> {
        let mut blob = vec![0; 10];
        for entry in entries {
            let last = blob.len() as u32;
            blob[4..8].copy_from_slice(&last.to_le_bytes());
            blob.extend_from_slice(entry);
        }
        blob.push(0xff);
        let bytes = blob.len() as u32;
        blob[..4].copy_from_slice(&bytes.to_le_bytes());
        blob[8..10].copy_from_slice(&(entries.len() as u16).to_le_bytes());
        blob
    }
}
