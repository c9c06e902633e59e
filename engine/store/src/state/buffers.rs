//! The buffers that work lends itself from its worker. They keep their memory from one use to the next.
//!
//! Whoever lends a buffer takes it out of its field and puts it back: a use inside of another one begins with an empty
//! buffer of its own.

use varve_collection::list::CompressScratch;

/// A moved element's buffer that has more bytes than this is given back to the allocator.
const MOVED_BYTES_KEPT: usize = 256 << 10;

/// The buffers of a worker.
#[derive(Default)]
pub(crate) struct Buffers {
    /// A value that is written anew.
    pub(crate) value: Vec<u8>,
    /// Scratch with which lists compress and join nodes, from the first use on.
    pub(crate) compress: Option<Box<CompressScratch>>,
    /// An element on its way from one list to another.
    pub(crate) moved: Vec<u8>,
}

impl Buffers {
    /// Gives the memory of a large moved element back.
    pub(crate) fn shrink_moved(&mut self) {
        if self.moved.capacity() > MOVED_BYTES_KEPT {
            self.moved = Vec::new();
        }
    }
}
