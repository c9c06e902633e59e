//! A large string copied part by part, with no shard held.
//!
//! ```text
//!   pinned source   |####|    |#######|   |##|     what was never written is passed over
//!   new run         |####|    |###...               a megabyte a part
//! ```
//! Not here: who takes the copy, and what becomes of a source that changes meanwhile.

use varve_store::{FilledExtent, Key, OpenExtent, Pin, Tx};

/// Bytes that are copied in one part: some hundred microseconds.
pub(crate) const PART_BYTES: usize = 1 << 20;

/// A copy of the string that a key had when it was begun.
pub(crate) struct StringCopy {
    source: Pin,
    copy: OpenExtent,
}

impl StringCopy {
    /// Begins to copy the string of a key whose shard is held. `None` if there is none, if it has no run of its own, or if too many
    /// addresses are taken for a second one.
    pub(crate) fn begin(tx: &mut Tx<'_>, key: &Key<'_>) -> Option<StringCopy> {
        let source = tx.pin(key)?;
        let copy = tx.store().log().begin_extent(source.len())?;
        Some(StringCopy { source, copy })
    }

    /// Whether all is copied.
    pub(crate) fn is_whole(&self) -> bool {
        self.copy.filled() == self.source.len()
    }

    /// Copies one part more.
    pub(crate) fn copy_some(&mut self) {
        let StringCopy { source, copy } = self;
        let mut left = PART_BYTES;
        while left > 0 && copy.filled() < source.len() {
            let from = copy.filled();
            let written = source.next_written(from);
            copy.skip(written.start - from);
            let end = written.end.min(written.start + left);
            source.each_part(written.start..end, |some| {
                copy.rest()[..some.len()].copy_from_slice(some);
                copy.advance(some.len());
            });
            left -= end - written.start;
        }
    }

    /// The whole copy, to be adopted.
    pub(crate) fn finish(self) -> FilledExtent {
        self.copy.finish()
    }
}
