//! Bitmaps: strings as arrays of bits, the first bit of a byte being its highest.
//!
//! ```text
//! bit     0 1 2 3 4 5 6 7   8 9 ...
//! byte  | 7 6 5 4 3 2 1 0 | 7 6 ...          offset / 8: the byte; 7 - offset % 8: the bit in it
//! ```
//! `bit` is one bit, `range` counts and searches bits, `combine` makes a string of others, `field` reads and writes
//! integers of any width. A value that has a run of its own is pinned and read in parts with no shard held, and what is
//! combined of such values is made in a run that the key adopts at the end. A string beyond which a bit is set grows by
//! zeros that are not written: the pages of a new run are zero.

mod bit;
mod combine;
mod field;
mod range;

use varve_base::number::parse_i64;
use varve_exec::{CmdResult, FileRows};
use varve_store::{Key, Tx};

use crate::errors;

/// The rows of the files.
pub(crate) const ROWS: &[FileRows] = &[bit::ROWS, combine::ROWS, field::ROWS, range::ROWS];

/// Bytes of a large value that are looked at in one part: some hundred microseconds.
const PART_BYTES: usize = 1 << 20;

/// Reads the offset of a bit below the bits of the longest string, `string_bytes_max` bytes.
fn bit_offset(text: &[u8], string_bytes_max: usize) -> CmdResult<u64> {
    parse_i64(text).and_then(|offset| offset_within(offset, string_bytes_max)).ok_or(errors::BIT_OFFSET)
}

fn offset_within(offset: i64, string_bytes_max: usize) -> Option<u64> {
    u64::try_from(offset).ok().filter(|offset| offset >> 3 < string_bytes_max as u64)
}

/// Longest string whose encoding may be another one than `raw`.
const EMBEDDED_MAX: usize = 44;

/// Follows a write command that has left a string as it was: it is `raw` from then on, as redis-server has it.
fn make_raw(tx: &mut Tx<'_>, key: &Key<'_>) -> CmdResult {
    let Some(&[first, ..]) = tx.peek(key)?.filter(|value| value.len() <= EMBEDDED_MAX) else { return Ok(()) };
    tx.set_range(key, 0, &[first])?;
    tx.did_nothing(key);
    Ok(())
}
