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
    /// Nothing more was read of it, since room for it could not be made.
    waits_for_room: bool,
}

impl Large {
    /// True while an argument is not whole.
    pub(super) fn is_filling(&self) -> bool {
        self.filling.is_some()
    }

    /// True if the last try to read could not make room: the next one is worth while some time later.
    pub(super) fn waits_for_room(&self) -> bool {
        self.waits_for_room
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
        self.waits_for_room = false;
        if let Some(Filling::Extent(extent)) = &mut self.filling {
            let bytes = extent.rest().len().min(READ_BYTES);
            match large_arguments::try_admit(store, bytes) {
                Some(true) => {}
                Some(false) => self.deny(),
                // Another worker is alone, or the journal is full: nothing is read until that is over.
                None => {
                    self.waits_for_room = true;
                    return Ok(None);
                }
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

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::unix::net::UnixStream;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

    use varve_store::{EffectSink, Options, Policy, Prepared, Store, Unit};

    use super::*;
    use crate::net::stream::{Ends, Stream};

    /// A journal that has no room, or has.
    struct Full(AtomicBool);

    impl EffectSink for Full {
        fn append(&self, _: usize, _: &Unit) -> u64 {
            1
        }

        fn prepare(&self, _: &Unit, _: &mut Option<Prepared>) {}

        fn append_prepared(&self, _: Prepared) -> u64 {
            1
        }

        fn end(&self) -> u64 {
            1
        }

        fn is_full(&self) -> bool {
            self.0.load(Relaxed)
        }
    }

    /// The worker tried the connection in each of its turns, and was never idle.
    #[test]
    fn issue_13_an_argument_that_waits_for_the_journal_says_so() {
        let store = Store::new(&Options::default()).expect("an address range");
        let full = Arc::new(Full(AtomicBool::new(true)));
        store.set_effect_sink(Arc::clone(&full) as Arc<dyn EffectSink>);
        store.keep_effects(true);
        let (mut worker, mut large) = (store.worker(0), Large::default());
        let (ours, mut theirs) = UnixStream::pair().expect("sockets");
        ours.set_nonblocking(true).expect("a socket");
        let mut socket = Socket::new(
            Stream::Unix(mio::net::UnixStream::from_std(ours)),
            Ends::Unix(std::path::Path::new("").into()),
            None,
        );
        theirs.write_all(&[1; 1000]).expect("room");
        assert!(large.begin(&mut worker, &[], 1 << 20));
        store.set_limit(1, Policy::AllKeysLru);
        let mut read = |large: &mut Large| large.read(&mut socket, &mut [0; 1000], &mut worker).expect("a socket");
        assert_eq!((read(&mut large), large.waits_for_room()), (None, true));
        full.0.store(false, Relaxed);
        assert_eq!(
            (read(&mut large), large.waits_for_room()),
            (Some(1000), false),
            "there is nothing to evict: dropped"
        );
    }
}
