//! Entries of a listpack.
//!
//! ```text
//! 0nnnnnnn   7 bits, no sign           11110000 + 4 bytes   a string of this length
//! 10llllll   a string                  11110001 + 2 bytes   an integer
//! 110nnnnn + 1 byte   13 bits, sign    11110010 + 3 bytes
//! 1110llll + 1 byte   a string         11110011 + 4 bytes
//! 11111111   the end                   11110100 + 8 bytes
//! ```

use super::{Cursor, Entry, Form, array, int};
use crate::read::fault::ReadFault;

/// The next entry.
#[inline]
pub(super) fn next(cursor: &mut Cursor, blob: &[u8]) -> Result<Option<Entry>, ReadFault> {
    let start = cursor.at;
    let early = || Form::Listpack.damaged("an entry ends behind it");
    let first = *blob.get(start).ok_or_else(early)?;
    let (entry, bytes) = match first {
        0xff => return Ok(None),
        0..0x80 => (Entry::Int(i64::from(first)), 1),
        0x80..0xc0 => string(start + 1, usize::from(first & 0x3f), 1),
        0xc0..0xe0 => {
            let [_, low] = array(blob, start).ok_or_else(early)?;
            let n = i64::from(first & 0x1f) << 8 | i64::from(low);
            (Entry::Int(if n >= 1 << 12 { n - (1 << 13) } else { n }), 2)
        }
        0xe0..0xf0 => {
            let [_, low] = array(blob, start).ok_or_else(early)?;
            string(start + 2, usize::from(first & 0x0f) << 8 | usize::from(low), 2)
        }
        0xf0 => {
            let length = u32::from_le_bytes(array(blob, start + 1).ok_or_else(early)?);
            string(start + 5, length as usize, 5)
        }
        0xf1..=0xf4 => {
            let bytes = [2, 3, 4, 8][usize::from(first - 0xf1)];
            (Entry::Int(int(blob, start + 1, bytes).ok_or_else(early)?), 1 + bytes)
        }
        _ => return Err(Form::Listpack.damaged("an entry has no known encoding")),
    };
    let end = start.checked_add(bytes).ok_or_else(early)?;
    let (size, size_bytes) = backward(bytes);
    let found = blob.get(end..).and_then(|rest| rest.get(..size_bytes)).ok_or_else(early)?;
    if found != &size[..size_bytes] {
        return Err(Form::Listpack.damaged("an entry has another size than the one behind it"));
    }
    cursor.at = end + size_bytes;
    // The end mark is behind every entry.
    if cursor.at < blob.len() { Ok(Some(entry)) } else { Err(early()) }
}

fn string(at: usize, length: usize, front: usize) -> (Entry, usize) {
    (Entry::Bytes(at, length), front.saturating_add(length))
}

/// The size of an entry as it stands behind it: seven bits a byte, all bytes but the first with their high bit set.
fn backward(bytes: usize) -> ([u8; 5], usize) {
    let count = match bytes {
        0..128 => 1,
        128..16_383 => 2,
        16_383..2_097_151 => 3,
        2_097_151..268_435_455 => 4,
        _ => 5,
    };
    let mut text = [0; 5];
    for (i, byte) in text[..count].iter_mut().enumerate() {
        let part = (bytes >> (7 * (count - 1 - i))) as u8 & 0x7f;
        *byte = if i == 0 { part } else { part | 0x80 };
    }
    (text, count)
}

#[cfg(test)]
pub(super) mod tests {
    use super::backward;

    /// A listpack of entries that are encoded but for the size behind them.
    pub(crate) fn blob(entries: &[&[u8]]) -> Vec<u8> {
        let mut blob = vec![0; 6];
        for entry in entries {
            blob.extend_from_slice(entry);
            let (size, bytes) = backward(entry.len());
            blob.extend_from_slice(&size[..bytes]);
        }
        blob.push(0xff);
        let bytes = blob.len() as u32;
        blob[..4].copy_from_slice(&bytes.to_le_bytes());
        blob[4..6].copy_from_slice(&(entries.len() as u16).to_le_bytes());
        blob
    }
}
