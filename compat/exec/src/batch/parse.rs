//! The first pass of a turn: complete requests found in place, their commands looked up, their keys hashed and the
//! keys' buckets prefetched.

use std::ops::Range;

use varve_base::hash::GOLDEN_RATIO;
use varve_base::refusable;
use varve_catalog::{Flags, Group};
use varve_protocol::{Args, LargeArgument, LargeSlices, Parsed, Parser, ProtocolError, Span};
use varve_store::{Store, StoreWorker, VALUE_BYTES_MAX};

use super::{Batch, TURN_BYTES, TURN_COMMANDS};
use crate::command::{Command, CommandTable, Exec, Unresolved};
use crate::ctx::KeyArg;
use crate::large_arguments::ParsedLarge;
use crate::pause::Pause;
use crate::session::Session;

/// One parsed request.
#[derive(Debug)]
pub(super) struct Request {
    /// Where it starts in the input.
    pub(super) start: usize,
    /// Where the next one starts.
    pub(super) end: usize,
    pub(super) spans: Range<usize>,
    pub(super) keys: Range<usize>,
    pub(super) command: Result<&'static Command, Unresolved>,
}

/// The input behind the last complete request.
pub(super) enum Tail {
    Partial { want: usize },
    More,
    Error(ProtocolError),
}

/// The requests of one turn: found in place, their commands looked up, their keys hashed.
#[derive(Debug, Default)]
pub(super) struct Work {
    pub(super) spans: Vec<Span>,
    pub(super) requests: Vec<Request>,
    pub(super) keys: Vec<KeyArg>,
    /// Some request names an element of a collection.
    pub(super) names_elements: bool,
    /// The state of the database map that the keys were hashed by.
    pub(super) database_changes: u64,
    /// Bytes of the input that were parsed.
    pub(super) parsed_bytes: usize,
    /// The only request is an inline one with quotes, which parsing has rewritten: its bytes before, at the front.
    original: Vec<u8>,
    /// No further request joins the turn.
    alone: bool,
    /// The keys' objects were asked for already.
    pub(super) fetched: bool,
    /// Requests without a word among them.
    empty: usize,
}

/// Arguments for which there is room from one turn to the next, whatever came once.
const KEPT_ARGS: usize = 8 << 10;

/// Arguments for whose lists the memory is not asked for first: what the process holds in reserve has room for them.
const LISTED_ARGS: usize = 8 << 10;
/// Bytes of the lists that a command on data makes for an argument, at most: keys with their hashes, sources of a union and
/// views of them, each in a vector that doubles. None of them can be refused where it is made.
const LISTED_BYTES: usize = 320;
/// Bytes that another command keeps for an argument, at most: a watched key, a channel, a client that waits for a key, a value of
/// Lua. None of them can be refused where it is made.
const KEPT_BYTES: usize = 1024;
/// Bytes of a request of whose arguments copies may be made before the memory for these is asked for: what the process holds in
/// reserve has room for them.
const COPIED_BYTES: usize = 1 << 20;
/// How many copies a command makes of its arguments, at most: its request as long as it goes on, and the name and an element
/// for the work that it goes on with. None of them can be refused where it is made.
const COPIES: usize = 2;

impl Batch {
    /// Finds the complete requests of the input, their commands and their keys' hashes, behind those that were parsed
    /// preparsed.
    ///
    /// An inline request with quotes is unescaped in place, and one with bodies that lie elsewhere cannot be parsed twice:
    /// such a request makes a turn of its own. If it cannot run, the first gets its bytes back ([`Work::restore`]), and of
    /// the second it is kept where its arguments are: `parsed` is that of an earlier turn.
    ///
    /// An empty request is passed over, unless it ends what CLIENT REPLY SKIP or CLIENT CACHING has begun.
    #[allow(clippy::too_many_arguments, reason = "the parts of a turn, borrowed apart")]
    pub(super) fn parse(
        &mut self,
        worker: &StoreWorker,
        table: &CommandTable,
        parser: &mut Parser,
        session: &Session,
        input: &mut [u8],
        outside: &LargeSlices<'_>,
        parsed: Option<ParsedLarge>,
    ) -> Tail {
        self.recent.follow(table);
        let db = session.db();
        let Batch { work, recent, preparsed, .. } = self;
        if !preparsed.take_resumed() {
            work.clear(worker);
            if self.pause == Pause::None && outside.0.is_empty() && !parser.is_partial() {
                work.short_requests(worker, (table, recent), parser, db, input);
            }
        }
        if let Some(ParsedLarge { spans, len }) = parsed {
            work.spans = spans;
            work.resolve(worker, (table, recent), db, &input[..len], outside, 0, 0);
            work.parsed_bytes = len;
            work.alone = true;
        }
        // Where the input ends with a request of the common form, as it mostly does.
        if work.parsed_bytes == input.len() {
            return Tail::Partial { want: 1 };
        }
        work.other_requests(worker, (table, recent), parser, session, input, outside)
    }
}

impl Work {
    /// Nothing, at the front of an input.
    #[inline]
    pub(super) fn clear(&mut self, worker: &StoreWorker) {
        self.requests.clear();
        self.spans.clear();
        self.keys.clear();
        if self.spans.capacity() > KEPT_ARGS {
            self.spans.shrink_to(KEPT_ARGS);
            self.keys.shrink_to(KEPT_ARGS);
        }
        self.alone = false;
        self.original.clear();
        self.names_elements = false;
        self.fetched = false;
        self.empty = 0;
        self.parsed_bytes = 0;
        self.database_changes = worker.store().database_changes();
    }

    /// Gives the only request its bytes back, if parsing has rewritten them: it has not run, and is parsed again.
    #[inline]
    pub(super) fn restore(&mut self, input: &mut [u8]) {
        if let (false, Some(request)) = (self.original.is_empty(), self.requests.first()) {
            input[request.end - self.original.len()..request.end].copy_from_slice(&self.original);
        }
    }

    /// Where the arguments of the only request are, if some lie elsewhere: it has not run, and cannot be parsed again.
    pub(super) fn parsed_large(&mut self, outside: &LargeSlices<'_>) -> Option<ParsedLarge> {
        let request = self.requests.first().filter(|_| !outside.0.is_empty())?;
        Some(ParsedLarge { len: request.end, spans: std::mem::take(&mut self.spans) })
    }

    /// Fetches the buckets of the keys from the `from`th on: one right behind the other, so that their waits for
    /// translations overlap.
    #[inline]
    fn prefetch(&self, worker: &StoreWorker, from: usize) {
        self.keys[from..].iter().for_each(|key| worker.store().prefetch(key.hash));
    }

    /// The arguments of a request.
    #[inline(always)]
    pub(super) fn args<'w>(&'w self, request: &Request, input: &'w [u8], outside: &'w LargeSlices<'w>) -> Args<'w> {
        Args::with_large(&input[request.start..request.end], &self.spans[request.spans.clone()], outside)
    }

    /// Takes requests of the common form from the front of the input, up to the first of another one, and fetches their
    /// keys' buckets. No partial request may be held.
    ///
    /// Apart from the rest of a turn, its loop keeps what it needs in registers: 7 instructions a request less than inlined.
    #[inline(never)]
    pub(super) fn short_requests(
        &mut self,
        worker: &StoreWorker,
        (table, recent): (&CommandTable, &mut Recent),
        parser: &mut Parser,
        db: u32,
        input: &[u8],
    ) {
        let mut at = 0;
        while self.requests.len() < TURN_COMMANDS && at < TURN_BYTES {
            let (rest, first) = (&input[at..], self.spans.len());
            let Some(consumed) = parser.short_request(rest, &mut self.spans) else { break };
            self.resolve(worker, (table, recent), db, &rest[..consumed], LargeSlices::NONE, at, first);
            at += consumed;
        }
        self.parsed_bytes = at;
        self.prefetch(worker, 0);
    }

    /// Takes requests of any form from behind those that were parsed, as far as a turn goes.
    #[inline(never)]
    #[allow(clippy::too_many_arguments, reason = "the parts of a turn, borrowed apart")]
    fn other_requests(
        &mut self,
        worker: &StoreWorker,
        (table, recent): (&CommandTable, &mut Recent),
        parser: &mut Parser,
        session: &Session,
        input: &mut [u8],
        outside: &LargeSlices<'_>,
    ) -> Tail {
        let (known, db) = (self.keys.len(), session.db());
        let mut at = self.parsed_bytes;
        let tail = loop {
            if at == input.len() {
                break Tail::Partial { want: 1 };
            }
            let full = self.requests.len() == TURN_COMMANDS || at >= TURN_BYTES;
            // Looked at before parsing: unescaping may put anything in the place of the first byte.
            let once = input[at] != b'*' && changes_when_parsed(&input[at..], parser);
            if full || self.alone || once && !self.requests.is_empty() {
                break Tail::More;
            }
            let first = self.spans.len();
            if once {
                let line = input[at..].iter().position(|&b| b == b'\n').map_or(input.len(), |end| at + end + 1);
                self.original.clear();
                self.original.extend_from_slice(&input[at..line]);
            }
            match parser.parse(&mut input[at..], &mut self.spans) {
                Parsed::Request { consumed } => {
                    let bytes = &input[at..at + consumed];
                    if !has_memory(table, session, Args::with_large(bytes, &self.spans[first..], outside), consumed) {
                        break Tail::Error(ProtocolError::NoMemory);
                    }
                    self.alone = once || !outside.0.is_empty();
                    self.resolve(worker, (table, recent), db, bytes, outside, at, first);
                    at += consumed;
                }
                Parsed::Empty { consumed } => {
                    if !session.ends_quietly() {
                        self.add_empty(at..at + consumed);
                    }
                    at += consumed;
                }
                Parsed::Incomplete { want } => break Tail::Partial { want },
                Parsed::Error(error) => break Tail::Error(error),
            }
        };
        self.parsed_bytes = at;
        self.fetched &= self.keys.len() == known;
        self.prefetch(worker, known);
        tail
    }

    /// Looks a request's command up and hashes its keys.
    #[inline(always)]
    #[allow(clippy::too_many_arguments, reason = "a request, and what it is looked up in")]
    fn resolve(
        &mut self,
        worker: &StoreWorker,
        (table, recent): (&CommandTable, &mut Recent),
        db: u32,
        request: &[u8],
        outside: &LargeSlices<'_>,
        start: usize,
        first_span: usize,
    ) {
        let args = Args::with_large(request, &self.spans[first_span..], outside);
        let command = recent.resolve(table, request, args);
        let first_key = self.keys.len();
        if let Ok(d) = command
            && d.one_key
        {
            let hash = worker.store().key(db, args.get(1)).hash;
            self.keys.push(KeyArg { arg: 1, hash });
            self.names_elements |= d.element != 0;
        } else if let Ok(d) = command
            && let Exec::Keys(_) = d.exec
        {
            let list = &mut self.keys;
            let found = d.for_each_key(args, |arg| {
                let hash = worker.store().key(db, args.get(arg)).hash;
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

    /// How many of the first `done` requests are commands.
    #[inline]
    pub(super) fn count_commands(&self, done: usize) -> usize {
        if self.empty == 0 {
            return done;
        }
        self.requests[..done].iter().filter(|request| !matches!(request.command, Err(Unresolved::Empty))).count()
    }

    /// Takes a request without a word at these bytes of the input.
    #[cold]
    fn add_empty(&mut self, at: Range<usize>) {
        self.empty += 1;
        let (spans, keys) = (self.spans.len(), self.keys.len());
        let command = Err(Unresolved::Empty);
        self.requests.push(Request { start: at.start, end: at.end, spans: spans..spans, keys: keys..keys, command });
    }

    /// Inside the gate: hashes the keys from request `from` on again if, since they were parsed, a database came to stand
    /// for another.
    #[inline]
    pub(super) fn follow_databases(
        &mut self,
        store: &Store,
        db: u32,
        from: usize,
        input: &[u8],
        outside: &LargeSlices<'_>,
    ) {
        if self.database_changes == store.database_changes() {
            return;
        }
        self.database_changes = store.database_changes();
        for request in &self.requests[from..] {
            let bytes = &input[request.start..request.end];
            let args = Args::with_large(bytes, &self.spans[request.spans.clone()], outside);
            for key in &mut self.keys[request.keys.clone()] {
                key.hash = store.key(db, args.get(key.arg as usize)).hash;
            }
        }
    }
}

/// Commands found lately, by their names as they were written: a client uses few, and spells each in one way.
#[derive(Default)]
pub(super) struct Recent {
    /// The table in which they were found.
    edition: u64,
    found: [Option<Found>; RECENT],
}

/// A name of 1 to 8 bytes, behind which are zeros, its length, and its command, which is all that the name says.
#[derive(Clone, Copy)]
struct Found {
    word: u64,
    len: usize,
    command: &'static Command,
}

/// Names that are kept, a power of two.
const RECENT: usize = 16;

impl Recent {
    /// Forgets what was found in another table.
    #[inline]
    pub(super) fn follow(&mut self, table: &CommandTable) {
        if self.edition != table.edition() {
            *self = Recent { edition: table.edition(), ..Recent::default() };
        }
    }

    /// Resolves a name like [`CommandTable::resolve`], after a look at the names found lately.
    #[inline(always)]
    fn resolve(
        &mut self,
        table: &CommandTable,
        request: &[u8],
        args: Args<'_>,
    ) -> Result<&'static Command, Unresolved> {
        let Some((word, len)) = word(request, args) else { return table.resolve(args) };
        let place = &mut self.found[(word.wrapping_mul(GOLDEN_RATIO) >> (64 - RECENT.ilog2())) as usize];
        match place {
            Some(found) if found.word == word && found.len == len => {
                let d = found.command;
                if d.takes(args.len()) { Ok(d) } else { Err(Unresolved::Arity(d)) }
            }
            _ => {
                let command = table.resolve(args)?;
                // Neither a subcommand, which another argument names, nor a container.
                if command.subcommands.is_empty() && !command.is_subcommand() {
                    *place = Some(Found { word, len, command });
                }
                Ok(command)
            }
        }
    }
}

/// False if the system refuses the memory that a command needs beside its arguments, of which `bytes` are in the input.
#[inline]
fn has_memory(table: &CommandTable, session: &Session, args: Args<'_>, bytes: usize) -> bool {
    (args.len() <= LISTED_ARGS && bytes <= COPIED_BYTES && args.is_in_one()) || is_given(table, session, args)
}

#[cold]
fn is_given(table: &CommandTable, session: &Session, args: Args<'_>) -> bool {
    let command = table.resolve(args);
    let keeps = |command: &Command| {
        use Group::{Cluster, Connection, Hyperloglog, Pubsub, Scripting, Server, Transactions};
        let group = command.group;
        command.flags.has(Flags::BLOCKING)
            || matches!(group, Cluster | Connection | Hyperloglog | Pubsub | Scripting | Server | Transactions)
    };
    // Strings are written from where they lie, and the memory for that may be refused. What is replayed runs whole.
    let copies = |command: &Command| command.group != Group::String && !session.replays();
    let listed = match &command {
        _ if args.len() <= LISTED_ARGS => 0,
        Ok(command) if keeps(command) => args.len() * KEPT_BYTES,
        _ => args.len() * LISTED_BYTES,
    };
    let bytes = args.bytes();
    let copied = if bytes > COPIED_BYTES && command.is_ok_and(copies) { COPIES * bytes } else { 0 };
    refusable::is_given(listed + copied)
}

/// The name of a request as one word, and its length, if it has 1 to 8 bytes and the request is not shorter than that
/// behind it.
#[inline(always)]
fn word(request: &[u8], args: Args<'_>) -> Option<(u64, usize)> {
    let name = args.span(0)?;
    let bytes = request.get(name.start..)?.first_chunk::<8>()?;
    let unused = 8usize.checked_sub(name.len).filter(|unused| *unused < 8)?;
    Some((u64::from_le_bytes(*bytes) << (8 * unused) >> (8 * unused), name.len))
}

/// True if the request at the front, which does not begin with `*`, is an inline one with quotes, which parsing rewrites. A line
/// whose end is missing is not rewritten: of one that comes byte by byte only what is new is looked at.
#[cold]
fn changes_when_parsed(input: &[u8], parser: &Parser) -> bool {
    if parser.is_partial() && parser.in_multibulk() {
        return false;
    }
    let searched = parser.searched().min(input.len());
    let Some(end) = input[searched..].iter().position(|&b| b == b'\n') else { return false };
    input[..searched + end].iter().any(|b| matches!(b, b'"' | b'\''))
}

/// The body that the parser waits for, if it is to be read into a run: it is large enough for one, and the command may
/// need memory.
#[cold]
pub(super) fn wanted_body(
    parser: &Parser,
    table: &CommandTable,
    worker: &StoreWorker,
    request: &[u8],
) -> Option<LargeArgument> {
    let body = parser.body()?;
    let name = body.name?;
    let command = table.get(&request[name.start..name.start + name.len])?;
    let fits = body.len > worker.store().log().extent_min_bytes() && body.len <= VALUE_BYTES_MAX;
    (fits && command.flags.has(Flags::DENYOOM)).then_some(body)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{CmdResult, CommandSet, SessionCtx};
    use varve_catalog::{Group, Row};

    fn nothing(_: &mut SessionCtx<'_>) -> CmdResult {
        Ok(())
    }

    const fn row(name: &'static str, arity: i32) -> Command {
        Command::new(Exec::Session(nothing), Row::new(name, Group::Generic, arity, "1.0.0"))
    }

    const fn sub(full_name: &'static str, name: &'static str, arity: i32) -> Command {
        Command::new(Exec::Session(nothing), Row::sub(full_name, name, Group::Generic, arity, "1.0.0"))
    }

    const ROWS: &[Command] = &[
        row("get", 2),
        row("set", -3),
        row("ping", -1),
        row("getrange", 4),
        row("expireat", -3),
        row("incrbyfloat", 3),
        row("zrangebyscore", -4),
        row("command", -1).with(&[
            sub("command|count", "count", 2),
            sub("command|getkeys", "getkeys", -4),
            sub("command|getkeysandflags", "getkeysandflags", -4),
        ]),
        Command::container(Row::new("client", Group::Generic, -2, "1.0.0"), &[sub("client|id", "id", 2)]),
    ];

    /// The name of the command that a request leads to, in this table and among those found lately.
    fn found(recent: &mut Recent, table: &CommandTable, line: &str) -> String {
        let mut request = Vec::new();
        let mut spans = Vec::new();
        for word in line.split(' ') {
            spans.push(varve_protocol::Span { start: request.len(), len: word.len() });
            request.extend_from_slice(word.as_bytes());
            request.extend_from_slice(b"\r\n");
        }
        let args = Args::new(&request, &spans);
        recent.follow(table);
        let told = |found: Result<&'static Command, Unresolved>| format!("{:?}", found.map(|d| d.full_name));
        let known = told(recent.resolve(table, &request, args));
        assert_eq!(known, told(table.resolve(args)), "{line}");
        known
    }

    #[test]
    fn what_was_found_lately_is_what_the_table_finds() {
        let lines = [
            "GET key",
            "get key",
            "Get key",
            "get",
            "get key more",
            "set k v",
            "set k",
            "sethello k",
            "zrangebyscore k 1 2",
            "command getkeys get a",
            "command getkeysandflags get a",
            "command count",
            "command",
            "getrange k 0 1",
            "client id",
            "client",
            "client nonsense",
            "ping",
            "p",
            "expireat k 1",
            "incrbyfl k",
            "incrbyfloat k 1.5",
        ];
        let set = CommandSet::new(&[&[ROWS]]);
        let (mut table, mut recent) = (CommandTable::new(&set), Recent::default());
        for _ in 0..3 {
            lines.iter().for_each(|line| drop(found(&mut recent, &table, line)));
        }
        table.rename(b"get", b"fetch").unwrap();
        assert!(
            found(&mut recent, &table, "get key").contains("Err")
                && found(&mut recent, &table, "fetch k") == "Ok(\"get\")"
        );
        table.rename(b"set", b"").unwrap();
        lines.iter().for_each(|line| drop(found(&mut recent, &table, line)));
        let other = CommandTable::new(&set);
        assert_eq!(found(&mut recent, &other, "get key"), "Ok(\"get\")");
    }
}
