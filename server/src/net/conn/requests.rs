//! The requests of a connection that are not executed yet: reading them, and what is left of them after a turn.
//!
//! ```text
//!   socket --> the worker's scratch buffer      while the connection holds nothing: the usual case
//!          --> the connection's input           behind half a request
//!          --> an extent of the store           the bytes of a large argument (large.rs)
//! ```

use std::io;

use varve_exec::LargeArguments;
use varve_protocol::{LargeArgument, Parser, RequestLimits};

use super::input::{Input, Pool};
use super::large::Large;
use super::socket::{READ_BYTES, Socket};

/// See the module's picture.
#[derive(Debug)]
pub(crate) struct Requests {
    parser: Parser,
    input: Input,
    /// Large arguments of the request that is not whole yet, which lie outside the input.
    large: Large,
    /// Bytes that the parser asked for at least.
    want: usize,
    /// Bytes of the request that the server itself runs at present: CLIENT LIST counts them as unread.
    running_bytes: usize,
}

/// One read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Reading {
    /// Bytes that came (0: the client has closed its side); None if the socket held nothing.
    pub(crate) count: Option<usize>,
    /// Bytes that lie in the scratch buffer; all others are the connection's.
    pub(crate) fresh: usize,
}

impl Requests {
    /// Of a connection that has said nothing yet.
    pub(super) fn new() -> Requests {
        Requests {
            parser: Parser::new(RequestLimits::default()),
            input: Input::default(),
            large: Large::default(),
            want: 0,
            running_bytes: 0,
        }
    }

    /// The parser takes arguments of `bulk_max` bytes at most; fewer and smaller requests of clients that are not
    /// authenticated.
    pub(super) fn set_limits(&mut self, bulk_max: usize, unauthenticated: bool) {
        self.parser.set_limits(RequestLimits { bulk_max, unauthenticated, ..RequestLimits::default() });
    }

    /// True if nothing is held: the next read goes to the scratch buffer.
    pub(crate) fn is_empty(&self) -> bool {
        self.input.is_empty() && !self.large.is_filling()
    }

    /// True while a large argument comes: nothing is executed.
    pub(crate) fn is_filling(&self) -> bool {
        self.large.is_filling()
    }

    /// Bytes held that are not executed.
    pub(crate) fn waiting_bytes(&self) -> usize {
        self.input.len() + self.large.bytes()
    }

    /// Bytes of large arguments that are here; they lie in the store.
    pub(crate) fn large_bytes(&self) -> usize {
        self.large.bytes()
    }

    /// Bytes that CLIENT LIST shows as unread.
    pub(crate) fn unread_bytes(&self) -> usize {
        self.waiting_bytes().saturating_sub(self.parser.passed_bytes()) + self.running_bytes
    }

    /// Room behind the input that is not used.
    pub(crate) fn free_bytes(&self) -> usize {
        self.input.free()
    }

    /// Memory of the input and of the parser.
    pub(crate) fn held_bytes(&self) -> usize {
        self.input.capacity() + self.parser.held_bytes()
    }

    /// The first bytes of the input, `most` at most.
    pub(crate) fn begin(&self, most: usize) -> &[u8] {
        &self.input.data()[..self.input.len().min(most)]
    }

    /// True while the server itself runs a request of the connection.
    pub(crate) fn is_running(&self) -> bool {
        self.running_bytes > 0
    }

    /// The server itself runs a request of `bytes` bytes, or none any more (0).
    pub(crate) fn set_running(&mut self, bytes: usize) {
        self.running_bytes = bytes;
    }

    /// Reads once: into `scratch`, or behind what is held.
    pub(crate) fn read(
        &mut self,
        socket: &mut Socket,
        scratch: &mut [u8],
        pool: &mut Pool,
        store: &mut varve_store::StoreWorker,
    ) -> io::Result<Reading> {
        if self.large.is_filling() {
            let count = self.large.read(socket, scratch, store)?;
            if self.large.is_whole() {
                self.parser.supply();
                self.want = 2;
            }
            return Ok(Reading { count, fresh: 0 });
        }
        let own = !self.input.is_empty();
        let room = if own { self.input.room(self.want, pool) } else { scratch };
        let bound = room.len().min(READ_BYTES);
        let count = socket.read(&mut room[..bound])?;
        let bytes = count.unwrap_or(0);
        if own {
            self.input.filled(bytes);
            return Ok(Reading { count, fresh: 0 });
        }
        Ok(Reading { count, fresh: bytes })
    }

    /// The parser needs at least `want` bytes more.
    pub(crate) fn set_want(&mut self, want: usize) {
        self.want = want;
    }

    /// The parts that a turn works with: the parser, and the large arguments of the request.
    pub(super) fn parts(&mut self) -> (&mut Parser, &LargeArguments) {
        (&mut self.parser, self.large.whole())
    }

    /// Requests have run: their large arguments are theirs, or given back.
    pub(crate) fn ran(&mut self) {
        self.large.clear();
    }

    /// Lends the input to a turn, which gives it back to [`Requests::put_back`].
    pub(crate) fn take_input(&mut self) -> Input {
        std::mem::take(&mut self.input)
    }

    /// Takes the input back, of which `done` bytes are executed.
    pub(crate) fn put_back(&mut self, mut input: Input, done: usize) {
        input.consume(done);
        self.input = input;
    }

    /// Keeps a copy of what a turn has left of the scratch buffer.
    pub(crate) fn keep(&mut self, rest: &[u8], pool: &mut Pool) {
        self.input.hold(rest, pool);
    }

    /// Takes a large argument out of the input, from where it begins: bytes that are here go into an extent, those that
    /// are missing are read into it.
    #[cold]
    pub(crate) fn take_large(&mut self, argument: &LargeArgument, store: &mut varve_store::StoreWorker) {
        let begun = &self.input.data()[argument.at..];
        // All there but for the line's end: no extent saves anything any more.
        if begun.len() < argument.len && self.large.begin(store, begun, argument.len) {
            self.input.truncate(argument.at);
        }
    }

    /// Gives the input's buffer back if nothing lies in it.
    pub(crate) fn release(&mut self, pool: &mut Pool) {
        self.input.release(pool);
    }
}
