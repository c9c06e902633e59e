//! Writes into the middle of a large string that somebody reads where it lies.
//!
//! ```text
//!   SETBIT k ..     k's run is read, sent or filed --> the blocks of 64 KB that are about to change are copied --> written where it lies
//!                                                       |  more than some of them, or somebody is reading one: put back
//! ```
//! Blocks that were never written are not copied. A string whose SET has not ended with its argument is left alone for so long. Not
//! here: a string that nobody reads, which is written to where it lies; one that is short; commands inside EXEC and of scripts,
//! which copy what they must at once.

use std::ops::Range;

use varve_exec::{CmdResult, CommandError, Ctx};
use varve_protocol::{Args, Reply};
use varve_store::{Key, Tx, Way};

/// A write to the string of the first key, whose arguments were checked and whose growth was admitted.
pub(crate) struct Write<'a> {
    pub(crate) args: Args<'a>,
    pub(crate) key: Key<'a>,
    /// The length of the longest string.
    pub(crate) string_bytes_max: usize,
}

/// Runs a write and replies.
pub(crate) type Run = fn(&mut Tx<'_>, &Write<'_>, &mut Reply) -> CmdResult;

/// Runs a write to these ranges of a string, which has `len` bytes, or puts it back while their blocks are not free.
#[inline]
pub(crate) fn write(
    ctx: &mut Ctx<'_, '_>,
    len: usize,
    ranges: impl Iterator<Item = Range<usize>> + Clone,
    run: Run,
) -> CmdResult {
    if len > ctx.tx.pin_min() && ctx.tx.is_read_in_place(&ctx.key(1)) {
        let within = ranges.map(|range| range.start..range.end.min(len)).filter(|range| !range.is_empty());
        match make_way(ctx, len, within)? {
            Way::Free => {}
            Way::Later | Way::Never => return ctx.put_back(),
            Way::NoMemory => return Err(CommandError::NO_MEMORY),
        }
    }
    let (args, key, string_bytes_max) = (ctx.args, ctx.key(1), ctx.session.string_bytes_max());
    run(&mut ctx.tx, &Write { args, key, string_bytes_max }, ctx.out)
}

/// Bytes of a block that is copied, about.
const BLOCK_BYTES: usize = 64 << 10;

/// Makes way for a write to ranges of a string that somebody reads where it lies. A command that cannot be put back makes way
/// when it writes.
#[cold]
fn make_way(ctx: &mut Ctx<'_, '_>, len: usize, ranges: impl Iterator<Item = Range<usize>> + Clone) -> CmdResult<Way> {
    let most = ranges.clone().map(|range| range.len() + 2 * BLOCK_BYTES).sum::<usize>().min(len + BLOCK_BYTES);
    // The shards may be released for it and taken again.
    ctx.admit_more(most as u64)?;
    if !ctx.tx.is_patient() {
        return Ok(Way::Free);
    }
    let key = ctx.key(1);
    let len = ctx.tx.glance(&key).map_or(0, <[u8]>::len);
    Ok(ctx.tx.make_way(&key, ranges.filter(|range| range.end <= len)))
}
