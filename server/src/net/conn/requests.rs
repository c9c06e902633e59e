//! The requests of a connection that are not executed yet: reading them, and what is left of them after a turn.
//!
//! ```text
//!   socket --> the worker's scratch buffer      while the connection holds nothing: the usual case. A short half request
//!                                               is moved to its front before
//!          --> the connection's input           behind a long half request
//!          --> an extent of the store           the bytes of a large argument (large.rs)
//! ```
//!
//! Nothing is read while a whole request may lie here: a client that sends faster than its requests run is held back by
//! its socket. There is one exception, in [`super::Conn::may_read`].

use std::io;

use varve_exec::LargeArguments;
use varve_protocol::{LargeArgument, Parser, RequestLimits};

use super::input::{Input, MOVED_BYTES, Pool};
use super::large::Large;
use super::socket::Socket;

/// See the module's picture.
#[derive(Debug)]
pub(crate) struct Requests {
    parser: Parser,
    input: Input,
    /// Large arguments of the request that is not whole yet, which lie outside the input.
    large: Large,
    /// Bytes that the parser asked for at least.
    want: usize,
    /// A turn has not come to the end of what is here.
    unfinished: bool,
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
            unfinished: false,
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

    /// True if a whole request may lie here: something does, and no turn has come to its end.
    pub(crate) fn may_be_whole(&self) -> bool {
        self.unfinished && !self.input.is_empty()
    }

    /// A turn has come to the end of what is here: nothing, or half a request. Or it has not.
    #[inline]
    pub(crate) fn set_finished(&mut self, finished: bool) {
        self.unfinished = !finished;
    }

    /// True while a large argument comes: nothing is executed.
    pub(crate) fn is_filling(&self) -> bool {
        self.large.is_filling()
    }

    /// Bytes held that are not executed.
    pub(crate) fn waiting_bytes(&self) -> usize {
        self.input.len() + self.large.bytes()
    }

    /// Bytes beside [`Requests::held_bytes`] that the request takes when what it has announced is here: large arguments in
    /// the store, and the rest of one that is to lie in the input.
    pub(crate) fn announced_bytes(&self) -> usize {
        let comes = if self.input.is_empty() || self.large.is_filling() { 0 } else { self.input.len() + self.want };
        self.large.announced_bytes() + comes.saturating_sub(self.input.held_bytes())
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
        self.input.held_bytes() + self.parser.held_bytes()
    }

    /// True while the server itself runs a request of the connection.
    pub(crate) fn is_running(&self) -> bool {
        self.running_bytes > 0
    }

    /// The server itself runs a request of `bytes` bytes, or none any more (0).
    pub(crate) fn set_running(&mut self, bytes: usize) {
        self.running_bytes = bytes;
    }

    /// Reads once: into `scratch`, behind what is held and moves there; or into the input, behind what is too long to be
    /// moved.
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
        let held = self.input.len();
        if held > MOVED_BYTES {
            let count = socket.read(self.input.room(self.want, pool)?)?;
            self.input.filled(count.unwrap_or(0));
            return Ok(Reading { count, fresh: 0 });
        }
        let count = socket.read(&mut scratch[held..])?;
        let bytes = count.unwrap_or(0);
        let fresh = if bytes > 0 { self.input.move_to(scratch) + bytes } else { 0 };
        Ok(Reading { count, fresh })
    }

    /// True if a large argument could not be read on, since room for it could not be made.
    pub(crate) fn waits_for_room(&self) -> bool {
        self.large.waits_for_room()
    }

    /// The parser needs at least `want` bytes more.
    pub(crate) fn set_want(&mut self, want: usize) {
        self.want = want;
    }

    /// The parts that a turn works with: the parser, and the large arguments of the request.
    pub(super) fn parts(&mut self) -> (&mut Parser, &mut LargeArguments) {
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

    /// Puts a request back before all that is here, none of which was parsed since it was taken: it is tried again.
    #[cold]
    pub(crate) fn try_again(&mut self, request: Vec<u8>) {
        debug_assert!(!self.large.is_filling(), "nothing is parsed while a request is under way");
        self.input.put_before(request);
        self.unfinished = true;
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
