//! The effects of a command that changes its key part by part, until it has ended.
//!
//! ```text
//!   chunks   MULTI  SADD k .. (256 members)  SADD k .. | SADD k ..  .. | ..  EXEC
//!                   \-- a part --/          \-- a part --/               \-- when it ends
//! ```
//! A chunk is full at some 64 KB, so that none is moved while it grows and the shard is held. Not here: when they are appended.

use varve_aof::put_request;
use varve_store::{Prepared, Unit};

use super::chunk::{CHUNK_BYTES, Chunk};
use super::stream::{Databases, render_part};

/// See the module's picture.
#[derive(Debug, Default)]
pub(super) struct Parts {
    chunks: Vec<Chunk>,
    databases: Option<Databases>,
    /// Bytes that they take.
    pub(super) bytes: usize,
}

impl Parts {
    /// Those that were prepared by a journal.
    pub(super) fn of(prepared: Prepared) -> Box<Parts> {
        prepared.effects.downcast().expect("a store has one journal, which has prepared it")
    }

    /// Adds the effects of a part.
    pub(super) fn add(&mut self, unit: &Unit) {
        if self.chunks.last().is_none_or(|last| last.bytes.len() >= CHUNK_BYTES) {
            self.chunks.push(Chunk::new(Vec::with_capacity(CHUNK_BYTES), None));
            self.bytes += CHUNK_BYTES;
        }
        let last = self.chunks.last_mut().expect("one was pushed");
        let before = last.bytes.capacity() + last.pinned_bytes();
        if self.databases.is_none() {
            put_request(&mut last.bytes, [b"MULTI".as_slice()].into_iter());
        }
        render_part(unit, last, &mut self.databases);
        self.bytes += last.bytes.capacity() + last.pinned_bytes() - before;
    }

    /// Ends the transaction: its chunks, and the databases of its first and last effects.
    pub(super) fn end(mut self) -> (Vec<Chunk>, Databases) {
        let last = self.chunks.last_mut().expect("a part has effects");
        put_request(&mut last.bytes, [b"EXEC".as_slice()].into_iter());
        (self.chunks, self.databases.expect("a part has effects"))
    }
}
