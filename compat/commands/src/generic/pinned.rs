//! Writes into the middle of a large string that somebody reads where it lies: it is copied first, part by part, while the key is
//! occupied.
//!
//! ```text
//!   SETBIT k ..     k's run is pinned --> a part is copied .. the last one --> k adopts the copy, which is written to
//!                                           |  between two parts others on k wait, all else goes on
//! ```
//! Blocks that were never written are not copied. Not here: a string that nobody reads, which is written to where it lies; one that is
//! short; commands inside EXEC and of scripts, which copy it at once.

use std::sync::Arc;

use varve_exec::{CmdResult, Ctx, Occupied, Ongoing, Progress};
use varve_protocol::{Args, OwnedArgs, Reply};
use varve_store::{Key, OpenExtent, Pin, StoreWorker, StringForm, Ttl, Tx};

/// Bytes that are copied in one part: some hundred microseconds.
const PART_BYTES: usize = 1 << 20;

/// A write to the string of the first key, whose arguments were checked and whose growth was admitted.
pub(crate) struct Write<'a> {
    pub(crate) args: Args<'a>,
    pub(crate) key: Key<'a>,
    /// The length of the longest string.
    pub(crate) string_bytes_max: usize,
}

/// Runs a write and replies.
pub(crate) type Run = fn(&mut Tx<'_>, &Write<'_>, &mut Reply) -> CmdResult;

/// Runs a write at once, or begins to copy the string before, which has this number of bytes.
#[inline]
pub(crate) fn write(ctx: &mut Ctx<'_, '_>, len: usize, run: Run) -> CmdResult {
    if len > PART_BYTES && copy_first(ctx, run) {
        return Ok(());
    }
    let (args, key, string_bytes_max) = (ctx.args, ctx.key(1), ctx.session.string_bytes_max());
    run(&mut ctx.tx, &Write { args, key, string_bytes_max }, ctx.out)
}

/// False, and nothing is done, if the write is to run at once.
#[cold]
fn copy_first(ctx: &mut Ctx<'_, '_>, run: Run) -> bool {
    let key = ctx.key(1);
    if !ctx.session.takes_parts() || !ctx.tx.is_read_in_place(&key) {
        return false;
    }
    let Some(source) = ctx.tx.pin(&key) else { return false };
    let Some(copy) = ctx.tx.store().log().begin_extent(source.len()) else { return false };
    let Some(occupied) = Occupied::begin(&mut ctx.tx, &key) else { return false };
    let string_bytes_max = ctx.session.string_bytes_max();
    ctx.go_on_with(|args| {
        Box::new(CopyFirst { args: Arc::clone(args), string_bytes_max, run, occupied, source: Some((source, copy)) })
    });
    true
}

/// A write that waits for the copy of its string.
struct CopyFirst {
    args: Arc<OwnedArgs>,
    string_bytes_max: usize,
    run: Run,
    occupied: Occupied,
    /// The string as it was when the command began, and its copy so far; the last part takes them.
    source: Option<(Pin, OpenExtent)>,
}

impl CopyFirst {
    /// Copies some more; false if all is there.
    fn copy_some(&mut self) -> bool {
        let Some((source, copy)) = &mut self.source else { return false };
        let (done, mut left) = (copy.filled(), PART_BYTES);
        if done == source.len() {
            return false;
        }
        while left > 0 && copy.filled() < source.len() {
            let from = copy.filled();
            let written = source.next_written(from);
            copy.skip(written.start - from);
            let some = &source[written.start..written.end.min(written.start + left)];
            copy.rest()[..some.len()].copy_from_slice(some);
            copy.advance(some.len());
            left -= some.len();
        }
        true
    }

    /// Makes the copy the key's value, if the key still has the one that was copied: its time may have come, or databases have been
    /// emptied.
    fn adopt(&mut self, tx: &mut Tx<'_>, key: &Key<'_>) {
        let Some((source, copy)) = self.source.take() else { return };
        let copy = copy.finish();
        let is_same = |pin: Pin| std::ptr::eq(&pin[..], &source[..]);
        if tx.exists(key) && tx.pin(key).is_some_and(is_same) {
            tx.adopt(key, &copy, Ttl::Keep, StringForm::Raw);
            tx.did_nothing(key);
        }
    }
}

impl Ongoing for CopyFirst {
    fn go_on(&mut self, tx: &mut Tx<'_>, out: &mut Reply) -> Progress {
        if self.copy_some() {
            return Progress::More;
        }
        let args = Arc::clone(&self.args);
        let key = tx.key(args.args().get(1));
        if !tx.try_hold_one(tx.shard_of(key.hash)) {
            return Progress::Busy;
        }
        self.adopt(tx, &key);
        self.occupied.end(tx, &key);
        let write = Write { args: args.args(), key, string_bytes_max: self.string_bytes_max };
        match (self.run)(tx, &write, out) {
            Ok(()) => Progress::Done,
            Err(error) => Progress::Failed(error),
        }
    }

    fn is_half_done(&self) -> bool {
        true
    }

    fn held_bytes(&self) -> usize {
        self.args.heap_bytes()
    }

    fn kept_bytes(&self) -> usize {
        0
    }

    fn abandon(&mut self, worker: &mut StoreWorker) {
        self.occupied.abandon(worker);
    }
}
