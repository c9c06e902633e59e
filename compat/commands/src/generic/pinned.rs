//! Writes into the middle of a large string that somebody reads where it lies.
//!
//! ```text
//!   SETBIT k ..     k's run is read by ranges --> the blocks of 64 KB that are about to change are copied --> written where it lies
//!                                                   |  more than some of them, or somebody is reading one: put back
//!
//!                   k's run is sent or filed  --> a part is copied .. the last one --> k adopts the copy, which is written to
//!                                                   |  between two parts others on k wait, all else goes on
//! ```
//! Blocks that were never written are not copied. Not here: a string that nobody reads, which is written to where it lies; one that is
//! short; commands inside EXEC and of scripts, which copy what they must at once.

use std::ops::Range;
use std::sync::Arc;

use varve_exec::{CmdResult, CommandError, Ctx, Occupied, OccupiedWork, Progress, WhileOccupied};
use varve_protocol::{Args, OwnedArgs, Reply};
use varve_store::{Key, StringForm, Ttl, Tx, Way};

use super::string_copy::{PART_BYTES, StringCopy};

/// A write to the string of the first key, whose arguments were checked and whose growth was admitted.
pub(crate) struct Write<'a> {
    pub(crate) args: Args<'a>,
    pub(crate) key: Key<'a>,
    /// The length of the longest string.
    pub(crate) string_bytes_max: usize,
}

/// Runs a write and replies.
pub(crate) type Run = fn(&mut Tx<'_>, &Write<'_>, &mut Reply) -> CmdResult;

/// Runs a write to these ranges of a string, which has `len` bytes, at once, or begins to copy the string before.
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
            Way::Later => return ctx.put_back(),
            Way::Never if len > PART_BYTES && copy_first(ctx, run) => return Ok(()),
            Way::Never => {}
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
    ctx.tx.admit_more(most as u64).map_err(|_| CommandError::OUT_OF_MEMORY)?;
    if !ctx.tx.is_patient() {
        return Ok(Way::Free);
    }
    let key = ctx.key(1);
    let len = ctx.tx.glance(&key).map_or(0, <[u8]>::len);
    Ok(ctx.tx.make_way(&key, ranges.filter(|range| range.end <= len)))
}

/// False, and nothing is done, if the write is to run at once.
#[cold]
fn copy_first(ctx: &mut Ctx<'_, '_>, run: Run) -> bool {
    let key = ctx.key(1);
    if !ctx.session.takes_parts() {
        return false;
    }
    let Some(copy) = StringCopy::begin(&mut ctx.tx, &key) else { return false };
    let Some(occupied) = Occupied::begin(&mut ctx.tx, &key) else { return false };
    let string_bytes_max = ctx.session.string_bytes_max();
    ctx.go_on_with(|args| {
        let work = CopyFirst { args: Arc::clone(args), string_bytes_max, run, copy: Some(copy) };
        Box::new(WhileOccupied { occupied, work })
    });
    true
}

/// A write that waits for the copy of its string.
struct CopyFirst {
    args: Arc<OwnedArgs>,
    string_bytes_max: usize,
    run: Run,
    /// The copy so far; the last part takes it.
    copy: Option<StringCopy>,
}

impl CopyFirst {
    /// Makes the copy the key's value, if the key still has the one that was copied: its time may have come, or databases have been
    /// emptied.
    fn adopt(&mut self, tx: &mut Tx<'_>, key: &Key<'_>) {
        let Some(copy) = self.copy.take() else { return };
        if copy.is_of(tx, key) {
            tx.adopt(key, &copy.finish(), Ttl::Keep, StringForm::Raw);
            tx.did_nothing(key);
        }
    }
}

impl OccupiedWork for CopyFirst {
    fn part(&mut self, occupied: &mut Occupied, tx: &mut Tx<'_>, out: &mut Reply) -> Progress {
        if let Some(copy) = self.copy.as_mut().filter(|copy| !copy.is_whole()) {
            copy.copy_some();
            return Progress::More;
        }
        let args = Arc::clone(&self.args);
        let key = tx.key(args.args().get(1));
        if !tx.try_hold_one(tx.shard_of(key.hash)) {
            return Progress::Busy;
        }
        self.adopt(tx, &key);
        occupied.end(tx, &key);
        let write = Write { args: args.args(), key, string_bytes_max: self.string_bytes_max };
        match (self.run)(tx, &write, out) {
            Ok(()) => Progress::Done,
            Err(error) => Progress::Failed(error),
        }
    }

    fn held_bytes(&self) -> usize {
        self.args.heap_bytes()
    }
}
