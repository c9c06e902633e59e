//! A request that a script keeps for itself: the one that runs it, or the command that it has called.
//!
//! ```text
//!   bytes   | E V A L | r e t u r n   1 | 0 |     words one behind the other
//!   spans   | 0, 4    | 4, 8            | 12, 1 | where each begins, and its length
//!   keys    numbers of the words that are keys, and their hashes; shards: those of these keys
//! ```
//! Its buffers stay from one command to the next. Not here: how a request runs (script.rs).

use varve_base::refusable;
use varve_protocol::{Args, Span};
use varve_store::ShardSet;

use crate::ctx::KeyArg;
use crate::journal::put_request;

/// A command's words one behind the other, its keys and their shards. The buffers stay from one command to the next.
#[derive(Default)]
pub(super) struct Request {
    pub(super) bytes: Vec<u8>,
    pub(super) spans: Vec<Span>,
    pub(super) keys: Vec<KeyArg>,
    pub(super) shards: ShardSet,
}

/// Bytes of a request beside those of its words, a word, about.
const WORD_BYTES: usize = 16;

/// Bytes of words for which room is kept from one script to the next.
const KEPT_BYTES: usize = 64 << 10;
/// Words and keys for which room is kept from one script to the next.
const KEPT_WORDS: usize = 1024;

impl Request {
    /// Takes these words if the system gives the memory for them.
    #[must_use]
    pub(super) fn try_set<'w>(&mut self, words: impl Iterator<Item = &'w [u8]> + Clone) -> bool {
        let (mut count, mut bytes) = (0, 0);
        for word in words.clone() {
            (count, bytes) = (count + 1, bytes + word.len());
        }
        self.bytes.clear();
        self.spans.clear();
        let given =
            refusable::reserve_exact(&mut self.bytes, bytes).and_then(|()| refusable::reserve(&mut self.spans, count));
        if given.is_ok() {
            self.set(words);
        }
        given.is_ok()
    }

    /// Takes these words.
    pub(super) fn set<'w>(&mut self, words: impl Iterator<Item = &'w [u8]>) {
        self.bytes.clear();
        self.spans.clear();
        for word in words {
            self.spans.push(Span { start: self.bytes.len(), len: word.len() });
            self.bytes.extend_from_slice(word);
        }
    }

    pub(super) fn args(&self) -> Args<'_> {
        Args::new(&self.bytes, &self.spans)
    }

    /// Bytes of memory that it has.
    pub(super) fn held_bytes(&self) -> usize {
        let Request { bytes, spans, keys, .. } = self;
        bytes.capacity() + spans.capacity() * size_of::<Span>() + keys.capacity() * size_of::<KeyArg>()
    }

    /// Empties it, and lets memory go beyond what most requests need.
    pub(super) fn clear(&mut self) {
        self.bytes.clear();
        self.bytes.shrink_to(KEPT_BYTES);
        self.spans.clear();
        self.spans.shrink_to(KEPT_WORDS);
        self.keys.clear();
        self.keys.shrink_to(KEPT_WORDS);
    }

    /// The request as a client sends it.
    pub(super) fn to_resp(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.bytes.len() + WORD_BYTES * (1 + self.spans.len()));
        put_request(&mut bytes, self.args().iter());
        bytes
    }
}
