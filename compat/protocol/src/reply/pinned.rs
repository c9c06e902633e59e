//! Values that are sent from where they lie.
//!
//! A value may change while its bytes wait to be sent, and must be sent as it was. Its owner lends some of the bytes at a time, and
//! keeps those as they are for so long. Nothing is lent while somebody waits for a client or a disk. Not here: the replies around.

use std::ops::{Deref, Range};

/// A value that is sent from where it lies; dropping it lets go of it.
#[allow(clippy::len_without_is_empty, reason = "an empty value is not sent from where it lies, and nobody asks")]
pub trait Pinned: Send {
    /// Bytes of the value.
    fn len(&self) -> usize;

    /// The bytes from `range.start` on that lie together, up to `range.end`: some, if the range has any.
    ///
    /// # Panics
    /// If the range reaches beyond the value.
    fn read(&self, range: Range<usize>) -> ReplyPart<'_>;
}

/// A value that never changes.
impl<T: AsRef<[u8]> + Send> Pinned for T {
    fn len(&self) -> usize {
        self.as_ref().len()
    }

    fn read(&self, range: Range<usize>) -> ReplyPart<'_> {
        ReplyPart::Slice(&self.as_ref()[range])
    }
}

/// Bytes that lie together, while they are looked at.
pub enum ReplyPart<'r> {
    /// They stay where they are.
    Slice(&'r [u8]),
    /// They were lent: a writer may wait until this is dropped.
    Lent(Box<dyn Deref<Target = [u8]> + 'r>),
}

impl Deref for ReplyPart<'_> {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        match self {
            ReplyPart::Slice(bytes) => bytes,
            ReplyPart::Lent(bytes) => bytes,
        }
    }
}

impl std::fmt::Debug for ReplyPart<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.escape_ascii())
    }
}
