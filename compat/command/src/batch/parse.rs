//! The first pass of a turn: complete requests found in place, their commands looked up, their keys hashed and the
//! keys' buckets prefetched.

use std::ops::Range;

use varve_protocol::{Args, Outside, Parsed, Parser, ProtocolError};
use varve_store::{Store, Worker};

use super::{Batch, TURN_BYTES, TURN_COMMANDS};
use crate::descriptor::{Descriptor, Run};
use crate::pause::Pause;
use crate::table::{CommandTable, Unresolved};

/// A key of a request: which argument it is and its hash.
#[derive(Clone, Copy, Debug)]
pub struct KeyArg {
    /// Index of the argument.
    pub arg: u32,
    /// Its hash in the selected database.
    pub hash: u64,
}

/// One parsed request.
#[derive(Debug)]
pub(super) struct Request {
    /// Where it starts in the input.
    pub(super) start: usize,
    /// Where the next one starts.
    pub(super) end: usize,
    pub(super) spans: Range<usize>,
    pub(super) keys: Range<usize>,
    pub(super) command: Result<&'static Descriptor, Unresolved>,
}

/// What follows the last complete request.
pub(super) enum Tail {
    Partial {
        want: usize,
    },
    More,
    /// The next request must not be parsed before a pause ends.
    Paused,
    Error(ProtocolError),
}

impl Batch {
    /// Finds the complete requests of the input, their commands and their keys' hashes.
    ///
    /// An inline request with quotes is unescaped in place, so it must never be parsed twice, and neither must one with
    /// bodies that lie elsewhere: such a request makes a turn of its own, which waits for its shards in place of giving
    /// up.
    #[allow(clippy::too_many_arguments, reason = "the parts of a turn, borrowed apart")]
    pub(super) fn parse(
        &mut self,
        worker: &Worker,
        table: &CommandTable,
        parser: &mut Parser,
        db: u32,
        input: &mut [u8],
        outside: &Outside<'_>,
    ) -> Tail {
        self.requests.clear();
        self.spans.clear();
        self.keys.clear();
        self.patient = false;
        self.database_changes = worker.store.database_changes();
        let mut at = 0;
        let tail = loop {
            if at == input.len() {
                break Tail::Partial { want: 1 };
            }
            let full = self.requests.len() == TURN_COMMANDS || at >= TURN_BYTES;
            // Looked at before parsing: unescaping may put anything in the place of the first byte.
            let once = input[at] != b'*' && changes_when_parsed(&input[at..], parser);
            if full || self.patient || once && !self.requests.is_empty() {
                break Tail::More;
            }
            let first = self.spans.len();
            if self.pause != Pause::None && (once || !outside.0.is_empty()) {
                // It could not be parsed again when the pause ends.
                break if self.requests.is_empty() { Tail::Paused } else { Tail::More };
            }
            match parser.parse(&mut input[at..], &mut self.spans) {
                Parsed::Request { consumed } => {
                    self.patient = once || !outside.0.is_empty();
                    self.resolve(worker, table, db, &input[at..at + consumed], outside, at, first);
                    at += consumed;
                }
                Parsed::Empty { consumed } => at += consumed,
                Parsed::Incomplete { want } => break Tail::Partial { want },
                Parsed::Error(error) => break Tail::Error(error),
            }
        };
        self.parsed_bytes = at;
        // One right behind the other, so that their waits for translations overlap.
        self.keys.iter().for_each(|key| worker.store.prefetch(key.hash));
        tail
    }

    /// Looks a request's command up and hashes its keys.
    #[inline]
    #[allow(clippy::too_many_arguments, reason = "a request, and what it is looked up in")]
    fn resolve(
        &mut self,
        worker: &Worker,
        table: &CommandTable,
        db: u32,
        request: &[u8],
        outside: &Outside<'_>,
        start: usize,
        first_span: usize,
    ) {
        let args = Args::with_bodies(request, &self.spans[first_span..], outside);
        let command = table.resolve(args);
        let first_key = self.keys.len();
        if let Ok(d) = command
            && let Run::Store(_) = d.run
        {
            let list = &mut self.keys;
            let found = d.for_each_key(args, |arg| {
                let hash = worker.store.key(db, args.get(arg)).hash;
                list.push(KeyArg { arg: arg as u32, hash });
            });
            if found.is_err() {
                // The arguments name no keys: the handler finds the fault before it would touch one.
                list.truncate(first_key);
            }
        }
        self.requests.push(Request {
            start,
            end: start + request.len(),
            spans: first_span..self.spans.len(),
            keys: first_key..self.keys.len(),
            command,
        });
    }
}

impl Batch {
    /// Inside the gate: hashes the keys from request `from` on again if, since they were parsed, a database came to stand
    /// for another.
    #[inline]
    pub(super) fn follow_databases(
        &mut self,
        store: &Store,
        db: u32,
        from: usize,
        input: &[u8],
        outside: &Outside<'_>,
    ) {
        if self.database_changes == store.database_changes() {
            return;
        }
        self.database_changes = store.database_changes();
        for request in &self.requests[from..] {
            let bytes = &input[request.start..request.end];
            let args = Args::with_bodies(bytes, &self.spans[request.spans.clone()], outside);
            for key in &mut self.keys[request.keys.clone()] {
                key.hash = store.key(db, args.get(key.arg as usize)).hash;
            }
        }
    }
}

/// True if the request at the front, which does not begin with `*`, is an inline one with quotes, which parsing rewrites.
/// Of a partial one, whose start was seen before, nothing but its first byte is looked at.
#[cold]
fn changes_when_parsed(input: &[u8], parser: &Parser) -> bool {
    if parser.is_partial() && parser.in_multibulk() {
        return false;
    }
    let line = input.iter().position(|&b| b == b'\n').map_or(input, |end| &input[..end]);
    line.iter().any(|b| matches!(b, b'"' | b'\''))
}
