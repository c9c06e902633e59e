//! Which lane a command of the stream goes to.
//!
//! ```text
//!   keys of one lane               that lane
//!   keys of several lanes          a work of its own, of all of them
//!   MULTI .. EXEC                  the lanes of all its commands, as one command
//!   any key may be touched         all lanes
//!   no key                         the first lane
//!   a message                      the first lane, and the lanes of its transaction: when all before it is applied
//!   a question to the reader       no lane: the caller answers it
//! ```
//! Not here: what the commands do, and what is wrong with one: it goes to a lane, which refuses it.

use std::ops::Range;

use varve_base::number::parse_i64;
use varve_catalog::{Behaviour, Flags};
use varve_protocol::{Args, Parsed, Parser, RequestLimits, Span};
use varve_store::Store;

use super::queue::{Applier, Chunk, LaneSet, WorkerSet};
use crate::command::{Command, CommandTable, Exec, Step};

/// Bytes of commands after which a chunk is given to its lane.
const CHUNK_BYTES: usize = 64 << 10;

/// See the module's table.
#[derive(Debug)]
pub struct Router {
    parser: Parser,
    spans: Vec<Span>,
    /// The database that is selected where the stream was routed to.
    db: u32,
    /// The commands since MULTI.
    open: Option<Open>,
    /// For each lane what is gathered for it.
    gathered: Vec<Gathered>,
    /// In the order of the stream, as far as a lane is concerned.
    works: Vec<(LaneSet, Chunk)>,
    /// Empty chunks.
    spare: Vec<Chunk>,
    /// The stream's writer has asked its reader something.
    asked: bool,
    /// The caller needs all bytes itself.
    copies: bool,
    /// Where messages stand in the stream, if the caller needs all bytes itself: since it has asked last.
    messages: Vec<Range<u64>>,
}

/// The outcome of [`Router::push`].
#[derive(Debug)]
pub struct RoutedBytes {
    /// Bytes of the commands that were routed.
    pub bytes: usize,
    /// The workers that have something to do.
    pub workers: WorkerSet,
    /// The fault of the bytes behind these commands, if they are no command.
    pub fault: Option<String>,
}

/// A transaction whose EXEC has not come.
#[derive(Debug)]
struct Open {
    bytes: Vec<u8>,
    offsets: Vec<u64>,
    lanes: LaneSet,
    /// Where its last message stands.
    posts: Option<u64>,
    /// The database that is selected once it has run.
    db: u32,
}

/// Commands for one lane.
#[derive(Debug, Default)]
struct Gathered {
    chunk: Chunk,
    /// The database that is selected behind them.
    db: u32,
}

impl Gathered {
    /// Puts commands behind the others that begin with `from` selected and leave `to` behind.
    fn put(&mut self, bytes: &[u8], offsets: &[u64], (from, to): (u32, u32)) {
        let chunk = &mut self.chunk;
        chunk.bytes.extend_from_slice(bytes);
        chunk.offsets.extend_from_slice(offsets);
        let end = chunk.bytes.len();
        match chunk.stretches.last_mut() {
            Some(last) if self.db == from => last.0 = end,
            _ => chunk.stretches.push((end, from)),
        }
        self.db = to;
    }
}

/// The effect of a command on the routing.
enum Routed {
    To(LaneSet),
    /// It publishes a message.
    Posts,
    Selects(u32),
    Begins,
    Runs,
    Discards,
}

impl Router {
    /// For a stream whose first command finds database 0 selected.
    pub fn new() -> Router {
        Router::in_database(0)
    }

    /// For a stream whose first command finds this database selected.
    pub fn in_database(db: u32) -> Router {
        let limits = RequestLimits { bulk_max: usize::MAX, ..RequestLimits::default() };
        let parser = Parser::new(limits);
        Router {
            parser,
            spans: Vec::new(),
            db,
            open: None,
            gathered: Vec::new(),
            works: Vec::new(),
            spare: Vec::new(),
            asked: false,
            copies: false,
            messages: Vec::new(),
        }
    }

    /// Long commands are copied too: the caller needs their bytes itself.
    #[must_use]
    pub fn copying(self) -> Router {
        Router { copies: true, ..self }
    }

    /// Where the messages before `end` stand in the stream that were not given yet, if the router copies.
    pub fn take_messages(&mut self, end: u64) -> Vec<Range<u64>> {
        let before = self.messages.partition_point(|message| message.end <= end);
        self.messages.drain(..before).collect()
    }

    /// Where the transaction begins that is open, which no lane has; None if there is none.
    pub fn open_at(&self) -> Option<u64> {
        self.open.as_ref().and_then(|open| open.offsets.first().copied())
    }

    /// The database that is selected where the stream was routed to.
    pub fn db(&self) -> u32 {
        self.db
    }

    /// Whether the stream's writer has asked its reader how far it is, since the last call.
    pub fn take_asked(&mut self) -> bool {
        std::mem::take(&mut self.asked)
    }

    /// Routes the whole commands at the front of `bytes`, which stand at `offset` of the stream. What follows a command of which a
    /// part is missing comes again with the next call, in front of the rest.
    pub fn push(
        &mut self,
        (applier, store, table): (&Applier, &Store, &CommandTable),
        offset: u64,
        bytes: &mut Vec<u8>,
    ) -> RoutedBytes {
        self.gathered.resize_with(applier.lanes(), Gathered::default);
        let mut at = 0;
        let fault = loop {
            // A lane parses it again, and one without lengths would be another request then: parsing rewrites its quotes.
            if bytes.get(at).is_some_and(|first| !matches!(first, b'*' | b'\r' | b'\n')) {
                break Some("Protocol error: expected '*' at the begin of a command".to_owned());
            }
            match self.next(&mut bytes[at..]) {
                Parsed::Request { consumed } => {
                    let routed = self.route(&bytes[at..at + consumed], (store, table));
                    let place = offset + at as u64;
                    let Some(routed) = routed else {
                        self.asked = true;
                        at += consumed;
                        continue;
                    };
                    if self.copies && matches!(routed, Routed::Posts) {
                        self.messages.push(place..place + consumed as u64);
                    }
                    if consumed == bytes.len() && consumed > CHUNK_BYTES && self.open.is_none() && !self.copies {
                        self.put_large(routed, place, std::mem::take(bytes));
                    } else {
                        self.put(routed, place, &bytes[at..at + consumed]);
                    }
                    at += consumed;
                }
                Parsed::Empty { consumed } => at += consumed,
                Parsed::Incomplete { .. } => break None,
                Parsed::Error(error) => break Some(String::from_utf8_lossy(&error.message()).into_owned()),
            }
            if at >= bytes.len() {
                break None;
            }
        };
        (0..self.gathered.len()).for_each(|lane| self.flush(lane));
        let routed = self.open_at().unwrap_or(offset + at as u64);
        let workers = applier.push(&mut self.works, routed, &mut self.spare);
        RoutedBytes { bytes: at, workers, fault }
    }

    fn next(&mut self, input: &mut [u8]) -> Parsed {
        self.spans.clear();
        let short = if self.parser.is_partial() { None } else { self.parser.short_request(input, &mut self.spans) };
        match short {
            Some(consumed) => Parsed::Request { consumed },
            None => self.parser.parse(input, &mut self.spans),
        }
    }

    /// Where a request goes; None if it is a question to the stream's reader.
    fn route(&self, request: &[u8], (store, table): (&Store, &CommandTable)) -> Option<Routed> {
        let args = Args::new(request, &self.spans);
        // A lane says what is wrong with it.
        let Ok(command) = table.resolve(args) else { return Some(Routed::To(LaneSet::one(0))) };
        Some(match command.exec {
            Exec::Server if command.behaviour.has(Behaviour::ASKS_REPLICAS) => return None,
            Exec::Transaction(Step::Multi) => Routed::Begins,
            Exec::Transaction(Step::Exec) => Routed::Runs,
            Exec::Transaction(Step::Discard) => Routed::Discards,
            Exec::Keys(_) if !command.flags.has(Flags::TOUCHES_ARBITRARY_KEYS) => {
                Routed::To(self.of_keys(command, args, store))
            }
            Exec::Session(_) if command.behaviour.has(Behaviour::SELECTS) => selected(args, store),
            Exec::Session(_) if command.publishes() => Routed::Posts,
            Exec::Session(_) => Routed::To(LaneSet::one(0)),
            _ => Routed::To(self.all()),
        })
    }

    fn all(&self) -> LaneSet {
        LaneSet::all(self.gathered.len())
    }

    /// The lanes of a command's keys.
    #[inline]
    fn of_keys(&self, command: &Command, args: Args<'_>, store: &Store) -> LaneSet {
        let (mut lanes, count) = (LaneSet::default(), self.gathered.len());
        let found = command.for_each_key(args, |arg| {
            lanes.add(LaneSet::one(usize::from(store.shard_of_bytes(args.get(arg))) % count));
        });
        match found {
            Ok(()) if lanes.first().is_some() => lanes,
            Ok(()) => LaneSet::one(0),
            Err(_) => self.all(),
        }
    }

    fn put(&mut self, routed: Routed, offset: u64, request: &[u8]) {
        if let Some(open) = &mut self.open {
            open.bytes.extend_from_slice(request);
            open.offsets.push(offset);
            match routed {
                Routed::To(lanes) => open.lanes.add(lanes),
                Routed::Posts => {
                    open.lanes.add(LaneSet::one(0));
                    open.posts = Some(offset);
                }
                Routed::Selects(db) => open.db = db,
                Routed::Begins => {}
                Routed::Runs => self.close(),
                Routed::Discards => {
                    open.db = self.db;
                    self.close();
                }
            }
            return;
        }
        match routed {
            Routed::Selects(db) => self.db = db,
            Routed::To(lanes) => self.gather((lanes, None), request, &[offset], self.db),
            Routed::Posts => self.gather((LaneSet::one(0), Some(offset)), request, &[offset], self.db),
            Routed::Runs | Routed::Discards => self.gather((LaneSet::one(0), None), request, &[offset], self.db),
            Routed::Begins => {
                let (bytes, offsets) = (request.to_vec(), vec![offset]);
                self.open = Some(Open { bytes, offsets, lanes: LaneSet::default(), posts: None, db: self.db });
            }
        }
    }

    /// A long command that is alone in its buffer is not copied.
    #[cold]
    fn put_large(&mut self, routed: Routed, offset: u64, request: Vec<u8>) {
        let Routed::To(lanes) = routed else { return self.put(routed, offset, &request) };
        lanes.iter().for_each(|lane| self.flush(lane));
        let stretches = vec![(request.len(), self.db)];
        self.works.push((lanes, Chunk { bytes: request, stretches, offsets: vec![offset], follows: None }));
    }

    /// The transaction is whole.
    fn close(&mut self) {
        let Some(Open { bytes, offsets, lanes, posts, db }) = self.open.take() else { return };
        let lanes = if lanes.first().is_some() { lanes } else { LaneSet::one(0) };
        self.gather((lanes, posts), &bytes, &offsets, db);
        self.db = db;
    }

    /// Puts commands, behind which database `to` is selected, where their lanes find them. They follow all before an offset.
    fn gather(&mut self, (lanes, follows): (LaneSet, Option<u64>), bytes: &[u8], offsets: &[u64], to: u32) {
        let from = self.db;
        if let Some(lane) = lanes.only() {
            if self.gathered[lane].chunk.follows.is_some() != follows.is_some() {
                self.flush(lane);
            }
            if self.gathered[lane].chunk.is_bare() {
                self.gathered[lane].chunk = self.spare.pop().unwrap_or_default();
            }
            self.gathered[lane].put(bytes, offsets, (from, to));
            self.gathered[lane].chunk.follows = follows;
            if self.gathered[lane].chunk.bytes.len() >= CHUNK_BYTES {
                self.flush(lane);
            }
            return;
        }
        lanes.iter().for_each(|lane| self.flush(lane));
        let mut alone = Gathered::default();
        alone.put(bytes, offsets, (from, to));
        alone.chunk.follows = follows;
        self.works.push((lanes, alone.chunk));
    }

    fn flush(&mut self, lane: usize) {
        let chunk = &mut self.gathered[lane].chunk;
        if !chunk.offsets.is_empty() {
            self.works.push((LaneSet::one(lane), std::mem::take(chunk)));
        }
    }
}

impl Default for Router {
    fn default() -> Router {
        Router::new()
    }
}

/// The database that a command selects. One that there is not is for a lane to refuse.
fn selected(args: Args<'_>, store: &Store) -> Routed {
    let db = args.opt(1).and_then(parse_i64).and_then(|number| u32::try_from(number).ok());
    db.filter(|db| *db < store.databases()).map_or(Routed::To(LaneSet::one(0)), Routed::Selects)
}
