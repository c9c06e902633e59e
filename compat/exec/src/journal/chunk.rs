//! A piece of the journal: whole requests, of which large arguments lie elsewhere.
//!
//! ```text
//!   bytes    *3 $3 SET $1 k $536870912          \r\n *2 $3 DEL ..
//!                                      ^ pins: at this offset, the bytes of an extent
//! ```
//! Not here: what the requests are (`stream.rs`), and where the pieces go (`queue.rs`).

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use varve_store::Pin;

/// Whole requests, one behind the other.
#[derive(Debug, Default)]
pub struct Chunk {
    /// Their bytes, but for those that are pinned.
    pub bytes: Vec<u8>,
    /// The database that a reader of the file has selected before them; None if the file begins with them.
    pub db: Option<u32>,
    pins: Vec<Pinned>,
}

/// Bytes of an extent that stand before byte number `at` of the others.
#[derive(Debug)]
struct Pinned {
    at: usize,
    pin: Pin,
    counted: Option<Counted>,
}

/// Pinned bytes that a journal counts until this is dropped.
#[derive(Debug)]
struct Counted {
    bytes: u64,
    sum: Arc<AtomicU64>,
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.sum.fetch_sub(self.bytes, Relaxed);
    }
}

impl Chunk {
    /// Requests without large arguments.
    pub fn new(bytes: Vec<u8>, db: Option<u32>) -> Chunk {
        Chunk { bytes, db, pins: Vec::new() }
    }

    /// Bytes in all.
    #[allow(clippy::len_without_is_empty, reason = "a chunk that was taken has a request")]
    pub fn len(&self) -> usize {
        self.bytes.len() + self.pinned_bytes()
    }

    /// Bytes that are pinned.
    pub(super) fn pinned_bytes(&self) -> usize {
        self.pins.iter().map(|pinned| pinned.pin.len()).sum()
    }

    /// Puts the bytes of a large argument behind the others.
    pub(super) fn pin(&mut self, pin: Pin) {
        self.pins.push(Pinned { at: self.bytes.len(), pin, counted: None });
    }

    /// Counts the pinned bytes in `sum` from now on, until they are let go.
    pub(super) fn count_pinned(&mut self, sum: &Arc<AtomicU64>) {
        for pinned in &mut self.pins {
            let bytes = pinned.pin.len() as u64;
            sum.fetch_add(bytes, Relaxed);
            pinned.counted = Some(Counted { bytes, sum: Arc::clone(sum) });
        }
    }

    /// Forgets everything.
    pub(super) fn clear(&mut self) {
        self.bytes.clear();
        self.pins.clear();
    }

    /// The bytes from byte number `from` on, as far as they lie together: empty at the end alone.
    pub fn part(&self, from: usize) -> &[u8] {
        let mut pinned_before = 0;
        for Pinned { at, pin, .. } in &self.pins {
            let begin = at + pinned_before;
            if from < begin {
                return &self.bytes[from - pinned_before..*at];
            }
            if from < begin + pin.len() {
                return &pin[from - begin..];
            }
            pinned_before += pin.len();
        }
        &self.bytes[from - pinned_before..]
    }

    /// All bytes, in parts that lie together.
    pub fn parts(&self) -> impl Iterator<Item = &[u8]> {
        let mut at = 0;
        std::iter::from_fn(move || {
            let part = self.part(at);
            at += part.len();
            (!part.is_empty()).then_some(part)
        })
    }
}
