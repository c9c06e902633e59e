//! PageBytes: a copy of some bytes in pages of their own, for what waits long and in large amounts.
//!
//! ```text
//!   copy_of --> | bytes | rest of the last page |      a span (span.rs): beside the allocator's heap
//!   dropped --> kept for the next one, if it is a block and few are kept; else its memory goes back to the system
//! ```
//! In the allocator's heap a gigabyte of buffers leaves a gigabyte of holes, and giving these back takes half a second in
//! which nobody allocates. Here each goes by itself. Not here: bytes that are going to change.

use std::io;
use std::ops::Deref;

use parking_lot::{Mutex, MutexGuard};

use crate::span::PageSpan;

/// Bytes of a block, the size that is kept for reuse: pages that were touched already cost no fault.
pub const BLOCK_BYTES: usize = 128 << 10;
/// Blocks that are kept at most, by all threads together.
pub const SPARE_MAX: usize = 16;

static SPARE: Mutex<Vec<PageSpan>> = Mutex::new(Vec::new());

/// See the module's picture.
#[derive(Debug)]
pub struct PageBytes {
    /// None once it is dropped.
    span: Option<PageSpan>,
    len: usize,
}

impl PageBytes {
    /// A copy of `bytes`, at least one.
    ///
    /// # Errors
    /// If the system refuses the memory.
    pub fn copy_of(bytes: &[u8]) -> io::Result<PageBytes> {
        assert!(!bytes.is_empty(), "no bytes need no pages");
        let is_block = bytes.len() <= BLOCK_BYTES && bytes.len() > BLOCK_BYTES / 2;
        let spare = if is_block { spare().pop() } else { None };
        let wanted = if is_block { BLOCK_BYTES } else { bytes.len() };
        let span = spare.map_or_else(|| PageSpan::zeroed(wanted), Ok)?;
        assert!(span.len() >= bytes.len(), "{} bytes do not fit into {}", bytes.len(), span.len());
        // SAFETY: the span has room for them, as was just checked, and nobody else has it.
        unsafe { span.base().as_ptr().copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
        Ok(PageBytes { span: Some(span), len: bytes.len() })
    }

    /// Bytes of memory that it takes.
    pub fn held_bytes(&self) -> usize {
        self.span().len()
    }

    fn span(&self) -> &PageSpan {
        self.span.as_ref().expect("it is there until it is dropped")
    }
}

impl Deref for PageBytes {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        // SAFETY: `copy_of` has written this number of bytes, and nothing changes them.
        unsafe { std::slice::from_raw_parts(self.span().base().as_ptr(), self.len) }
    }
}

impl Drop for PageBytes {
    fn drop(&mut self) {
        let Some(span) = self.span.take() else { return };
        if span.len() == BLOCK_BYTES {
            let mut spare = spare();
            if spare.len() < SPARE_MAX {
                spare.push(span);
            }
        }
    }
}

/// A leaf: nothing else is locked under it.
fn spare() -> MutexGuard<'static, Vec<PageSpan>> {
    // Nothing panics while it is held.
    SPARE.lock()
}
