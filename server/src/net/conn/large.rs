//! A large argument on its way from the socket into an extent (segments of its own), and those of the same request before
//! it.
//!
//! ```text
//!   None -- the parser waits for an argument that may have an extent --> Filling ---- whole ----> None, arguments + 1
//!                                                                          | no memory
//!                                                                          v
//!                                                                      Dropping -- whole ----> None, refused when it runs
//! ```
//!
//! While an argument comes, the connection's input holds what precedes it, and nothing is executed. Bytes that have come
//! count as used memory of the store and as unread input of the client. Dropped with the connection, all of it is given
//! back.

use std::io;

use varve_exec::{LargeArguments, large_arguments};
use varve_store::OpenExtent;

use super::socket::{READ_BYTES, Socket};

/// The place that an argument's bytes go to.
#[derive(Debug)]
enum Filling {
    /// The extent.
    Extent(OpenExtent),
    /// None: this number of bytes more are read and forgotten.
    Dropping(usize),
}

/// See the module's picture.
#[derive(Debug, Default)]
pub(super) struct Large {
    /// The arguments that are whole.
    whole: LargeArguments,
    /// The one that comes.
    filling: Option<Filling>,
}

impl Large {
    /// True while an argument is not whole.
    pub(super) fn is_filling(&self) -> bool {
        self.filling.is_some()
    }

    /// The arguments that are whole.
    pub(super) fn whole(&mut self) -> &mut LargeArguments {
        &mut self.whole
    }

    /// The request that they belong to has run.
    pub(super) fn clear(&mut self) {
        if !self.whole.is_empty() {
            self.whole.clear();
        }
    }

    /// Bytes that are here, in extents.
    pub(super) fn bytes(&self) -> usize {
        let coming = match &self.filling {
            Some(Filling::Extent(extent)) => extent.filled(),
            _ => 0,
        };
        coming + self.whole.bytes()
    }

    /// Bytes that the request's arguments take when the one that comes is whole.
    pub(super) fn announced_bytes(&self) -> usize {
        let coming = match &self.filling {
            Some(Filling::Extent(extent)) => extent.len(),
            _ => 0,
        };
        coming + self.whole.bytes()
    }

    /// An argument of `len` bytes begins, of which `begun` have come already. False if no extent is to be had: it is read
    /// as any other input.
    pub(super) fn begin(&mut self, store: &mut varve_store::StoreWorker, begun: &[u8], len: usize) -> bool {
        assert!(self.filling.is_none(), "one argument at a time");
        let Some(mut extent) = large_arguments::begin(store, len) else { return false };
        // While another worker is alone, these few bytes are taken without being admitted.
        if large_arguments::try_admit(store, begun.len()).unwrap_or(true) {
            extent.rest()[..begun.len()].copy_from_slice(begun);
            extent.advance(begun.len());
        } else {
            self.whole.deny();
        }
        // Once a request is denied, all that comes of it is dropped.
        let left = len - begun.len();
        self.filling = Some(if self.whole.denied() { Filling::Dropping(left) } else { Filling::Extent(extent) });
        true
    }

    /// Reads once into the extent of the argument that is coming, after room for it was admitted; without room, into
    /// `scratch`, and forgets it. None if the socket holds nothing.
    pub(super) fn read(
        &mut self,
        socket: &mut Socket,
        scratch: &mut [u8],
        store: &mut varve_store::StoreWorker,
    ) -> io::Result<Option<usize>> {
        if let Some(Filling::Extent(extent)) = &mut self.filling {
            let bytes = extent.rest().len().min(READ_BYTES);
            match large_arguments::try_admit(store, bytes) {
                Some(true) => {}
                Some(false) => self.deny(),
                // Another worker is alone: nothing is read until it has finished.
                None => return Ok(None),
            }
        }
        match self.filling.as_mut().expect("an argument is coming") {
            Filling::Extent(extent) => {
                let bound = extent.rest().len().min(READ_BYTES);
                let count = socket.read(&mut extent.rest()[..bound])?;
                extent.advance(count.unwrap_or(0));
                Ok(count)
            }
            Filling::Dropping(left) => {
                let bound = scratch.len().min(*left);
                let count = socket.read(&mut scratch[..bound])?;
                *left -= count.unwrap_or(0);
                Ok(count)
            }
        }
    }

    /// There is no memory for the rest of the argument: the request's arguments so far are let go.
    fn deny(&mut self) {
        self.whole.deny();
        if let Some(Filling::Extent(extent)) = &self.filling {
            self.filling = Some(Filling::Dropping(extent.len() - extent.filled()));
        }
    }

    /// True, once, if the argument that came is whole.
    pub(super) fn is_whole(&mut self) -> bool {
        let whole = match &self.filling {
            Some(Filling::Extent(extent)) => extent.filled() == extent.len(),
            Some(Filling::Dropping(left)) => *left == 0,
            None => false,
        };
        if whole {
            match self.filling.take() {
                Some(Filling::Extent(extent)) => self.whole.push(extent.finish()),
                _ => self.whole.push_dropped(),
            }
        }
        whole
    }
}
