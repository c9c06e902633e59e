//! Commands run in process through the executor: no socket, and a clock that stands still until it is moved.

use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use varve_commands::{commands, debug};
use varve_exec::batch::{Batch, TurnState, TurnTimes};
use varve_exec::checks::Denied;
use varve_exec::notify::{self, Events};
use varve_exec::pause::Pause;
use varve_exec::stats::{CommandStats, NotedFrom};
use varve_exec::{CommandTable, LargeArguments, LeftTurn, Session, WideCtx};
use varve_protocol::{Args, Parser, Reply, RequestLimits, Resp};
use varve_store::{
    EffectSink, Key, Limits, LogGeometry, NodeLimits, Options, Policy, Prepared, ReadBounds, Store, StoreWorker, Tx,
    Unit,
};

/// Milliseconds of Unix time at which a server starts.
const START_MS: i64 = 1_795_000_000_000;

/// Events that were published: channel and message.
#[derive(Clone, Default)]
struct Told(Arc<Mutex<Vec<String>>>);

impl Events for Told {
    fn publish(&mut self, _shard: bool, channel: &[u8], message: &[u8]) -> u64 {
        let text = format!("{} {}", String::from_utf8_lossy(channel), String::from_utf8_lossy(message));
        self.0.lock().unwrap().push(text);
        0
    }
}

/// The effects that were kept: units of effects, each a line.
#[derive(Clone, Default)]
pub(crate) struct Journal(Arc<Mutex<Vec<Vec<String>>>>);

impl Journal {
    /// The units since the last call.
    pub(crate) fn take(&self) -> Vec<Vec<String>> {
        std::mem::take(&mut *self.0.lock().unwrap())
    }
}

/// The effects of a unit, each a line.
fn lines(unit: &Unit) -> Vec<String> {
    let line = |words: Vec<&[u8]>| words.iter().map(|word| String::from_utf8_lossy(word)).collect::<Vec<_>>().join(" ");
    unit.effects().map(|(_, words)| line(words.collect())).collect()
}

impl EffectSink for Journal {
    fn append(&self, _worker: usize, unit: &Unit) -> u64 {
        let mut units = self.0.lock().unwrap();
        units.push(lines(unit));
        units.len() as u64
    }

    fn prepare(&self, unit: &Unit, prepared: &mut Option<Prepared>) {
        let before = prepared.take().map(|prepared| prepared.effects.downcast::<Vec<String>>().expect("our own"));
        let mut all = before.unwrap_or_default();
        all.extend(lines(unit));
        *prepared = Some(Prepared { bytes: all.iter().map(String::len).sum(), effects: all });
    }

    fn append_prepared(&self, prepared: Prepared) -> u64 {
        let mut units = self.0.lock().unwrap();
        units.push(*prepared.effects.downcast().expect("our own"));
        units.len() as u64
    }

    fn end(&self) -> u64 {
        self.0.lock().unwrap().len() as u64
    }

    fn is_full(&self) -> bool {
        false
    }
}

/// One store with one connection.
pub(crate) struct Server {
    store: Arc<Store>,
    worker: StoreWorker,
    batch: Batch,
    parser: Parser,
    session: Session,
    /// Further sessions, with their numbers.
    others: Vec<(usize, Session)>,
    told: Told,
    commands: CommandTable,
    out: Reply,
    now_ms: i64,
}

/// Does something while a second worker of the store holds all shards.
fn while_all_is_held(store: &Arc<Store>, act: impl FnOnce()) {
    let ((is_held, wait_held), (let_go, wait_end)) = (channel(), channel::<()>());
    let store = Arc::clone(store);
    let holder = std::thread::spawn(move || {
        store.worker(1).inside(0, |tx| {
            tx.hold(&(0..tx.store().shard_count() as u16).collect::<Vec<_>>());
            is_held.send(()).expect("the test waits");
            wait_end.recv().expect("the test says so");
        });
    });
    wait_held.recv().expect("the holder sends");
    act();
    let_go.send(()).expect("the holder waits");
    holder.join().expect("the holder ends");
}

impl Server {
    /// An empty store, a connection that replies in this version.
    pub(crate) fn new(resp: Resp) -> Server {
        Server::beside(resp, 1)
    }

    /// [`Server::new`] of which the worker is one of this number; the others are for threads of the test.
    pub(crate) fn beside(resp: Resp, workers: usize) -> Server {
        let geometry = LogGeometry { reserve_bytes: 8 << 30, ..LogGeometry::default() };
        let options = Options { seed: 7, workers, geometry, ..Options::default() };
        let store = Store::new(&options).expect("an address range");
        let mut worker = store.worker(0);
        let told = Told::default();
        let mut batch = Batch::new(CommandStats::new(commands().ids()));
        batch.set_events(&mut worker, told.clone(), told.clone());
        let mut out = Reply::new();
        out.set_resp(resp);
        Server {
            store,
            worker,
            batch,
            parser: Parser::new(RequestLimits::default()),
            session: Session::new(1, START_MS, true),
            others: Vec::new(),
            told,
            commands: CommandTable::new(commands()),
            out,
            now_ms: START_MS,
        }
    }

    /// Has nodes of streams take this number of entries.
    pub(crate) fn set_node_entries(&self, entries: u64) {
        let stream = NodeLimits { bytes: 4096, entries };
        self.store.shapes().set(&Limits { stream, ..Limits::default() });
    }

    /// Bytes of memory of the log.
    pub(crate) fn used_bytes(&self) -> u64 {
        self.store.log().used_bytes()
    }

    /// Moves the clock on.
    pub(crate) fn advance(&mut self, ms: i64) {
        self.now_ms += ms;
    }

    /// Keys found and not found, as INFO counts them.
    pub(crate) fn lookups(&self) -> (u64, u64) {
        let totals = self.store.totals();
        (totals.hits, totals.misses)
    }

    /// How often shards were held by one or more commands in a row.
    pub(crate) fn holds(&self) -> u64 {
        self.batch.stats().holds.read().count()
    }

    /// The calls of a command as INFO counts them: all, and those whose duration is in the histogram.
    pub(crate) fn calls(&self, name: &[u8]) -> (u64, u64) {
        let row = self.commands.get(name).expect("a command");
        let stat = self.batch.stats().of(row);
        (stat.calls.get(), stat.latency.get().map_or(0, |latency| latency.read().count()))
    }

    /// Has every command noted as slow, and takes those that were.
    pub(crate) fn take_slow(&mut self) -> Vec<Vec<Vec<u8>>> {
        self.batch.slow().set(NotedFrom { slow_us: 0, ..NotedFrom::default() });
        let slow = self.batch.slow().take_commands().unwrap_or_default();
        slow.into_iter().map(|command| command.args).collect()
    }

    /// Reads collections over several holds from other sizes on, one part a turn.
    pub(crate) fn read_in_parts(&mut self, bounds: ReadBounds) {
        self.store.set_read_bounds(bounds);
        self.batch.set_times(TurnTimes::STEPPED);
    }

    /// Has lists of short nodes, with all of them compressed but those at their ends if `compressed`.
    pub(crate) fn shorten_nodes(&mut self, compressed: bool) {
        let limits = Limits { list_fill: 20, list_depth: u64::from(compressed), ..Limits::default() };
        self.store.shapes().set(&limits);
    }

    /// Bytes of the string of a key that may hold anything but zeros.
    pub(crate) fn written_bytes(&mut self, key: &str) -> usize {
        let store = Arc::clone(&self.store);
        self.with_key(key, |tx, key| {
            let value = tx.glance(key).expect("a string");
            let (mut sum, mut done) = (0, 0);
            while done < value.len() {
                let written = store.log().next_written(value, done);
                (sum, done) = (sum + written.len(), written.end);
            }
            sum
        })
    }

    /// Bytes of blocks that were copied because somebody read them.
    pub(crate) fn kept_bytes(&self) -> u64 {
        self.store.log().kept_bytes()
    }

    /// Calls `f` with a key whose shard is held.
    pub(crate) fn with_key<R>(&mut self, key: &str, f: impl FnOnce(&mut Tx<'_>, &Key<'_>) -> R) -> R {
        self.worker.view(0, |tx| {
            let key = tx.key(key.as_bytes());
            assert!(tx.try_hold(&[tx.shard_of(key.hash)]), "one worker meets no busy shard");
            f(tx, &key)
        })
    }

    /// Whether somebody reads a collection over several holds.
    pub(crate) fn has_readers(&self) -> bool {
        self.store.has_readers()
    }

    /// Begins a command of another session, or goes on with it where no arguments are given, for one turn; its reply so
    /// far, and whether that is all. One that waits for a key which another command keeps has begun nothing.
    pub(crate) fn turn_as(&mut self, who: usize, args: &[&[u8]]) -> (Vec<u8>, bool) {
        self.switch(who);
        let mut input = if args.is_empty() { Vec::new() } else { request(args) };
        let mark = self.out.mark();
        let Server { worker, batch, parser, session, commands, out, .. } = self;
        let none = &mut LargeArguments::default();
        let turn = batch.turn(worker, commands, parser, session, self.now_ms, &mut input, none, out);
        let waits = matches!(turn.state, TurnState::Busy);
        let may_wait = self.store.has_frozen() || self.store.has_dated_hashes();
        assert!(!waits || may_wait, "one worker meets no busy shard");
        assert_eq!(turn.consumed, if waits { 0 } else { input.len() }, "a request begins in its first turn");
        let ended = !session.is_ongoing();
        let reply = self.out.since(mark).flatten().copied().collect();
        self.out.truncate(mark);
        self.switch(who);
        (reply, ended)
    }

    /// Whether the first turn of a command of another session has lost its reply, which may have this number of bytes.
    pub(crate) fn is_lost_under(&mut self, ceiling: usize, who: usize, args: &[&[u8]]) -> bool {
        self.switch(who);
        let (mut input, mut reply) = (request(args), Reply::new());
        reply.set_ceiling(ceiling);
        let Server { worker, batch, parser, session, commands, .. } = self;
        let none = &mut LargeArguments::default();
        batch.turn(worker, commands, parser, session, self.now_ms, &mut input, none, &mut reply);
        self.switch(who);
        reply.is_overflown()
    }

    /// Runs commands of the first session, whose replies wait to be sent.
    pub(crate) fn unsent(&mut self, requests: &[&[&[u8]]]) -> Reply {
        let mut out = Reply::new();
        for args in requests {
            let mut input = request(args);
            let Server { worker, batch, parser, session, commands, .. } = self;
            let none = &mut LargeArguments::default();
            let turn = batch.turn(worker, commands, parser, session, self.now_ms, &mut input, none, &mut out);
            assert_eq!(turn.consumed, input.len(), "each runs in one turn");
        }
        out
    }

    /// Runs a command of the first session that may be put back; how often it was, and its reply.
    pub(crate) fn run_put_back(&mut self, args: &[&[u8]]) -> (usize, Vec<u8>) {
        let (mut input, mark, mut times) = (request(args), self.out.mark(), 0);
        loop {
            let Server { worker, batch, parser, session, commands, out, .. } = self;
            let none = &mut LargeArguments::default();
            let turn = batch.turn(worker, commands, parser, session, self.now_ms, &mut input, none, out);
            if !matches!(turn.state, TurnState::Busy) {
                break;
            }
            assert_eq!(turn.consumed, 0, "a request that is put back stays");
            times += 1;
        }
        let reply = self.out.since(mark).flatten().copied().collect();
        self.out.truncate(mark);
        (times, reply)
    }

    /// Whether a command of another session is put back now; if not, it has run.
    pub(crate) fn is_put_back(&mut self, who: usize, args: &[&[u8]]) -> bool {
        self.switch(who);
        let (mut input, mark) = (request(args), self.out.mark());
        let Server { worker, batch, parser, session, commands, out, .. } = self;
        let none = &mut LargeArguments::default();
        let turn = batch.turn(worker, commands, parser, session, self.now_ms, &mut input, none, out);
        self.out.truncate(mark);
        self.switch(who);
        matches!(turn.state, TurnState::Busy)
    }

    /// Whether a command keeps others from a key.
    pub(crate) fn has_frozen(&self) -> bool {
        self.store.has_frozen()
    }

    /// Has the server hold commands back and refuse them, or no longer.
    pub(crate) fn restrain(&mut self, pause: Pause, denied: Denied) {
        self.batch.set_pause(pause);
        self.batch.set_denied(denied);
    }

    /// Keeps the effects of all commands from now on: units of effects, each of words.
    pub(crate) fn keep_effects(&mut self) -> Journal {
        let journal = Journal::default();
        self.store.set_effect_sink(Arc::new(journal.clone()));
        self.store.keep_effects(true);
        journal
    }

    /// Ends a connection in the middle of its reply.
    pub(crate) fn hang_up(&mut self, who: usize) {
        self.end_session(who);
        self.others.retain(|(number, _)| *number != who);
    }

    /// Runs a command; its reply.
    pub(crate) fn run(&mut self, args: &[&[u8]]) -> Vec<u8> {
        self.send(&mut request(args))
    }

    /// Runs a request like [`Server::run`], from another session on the same worker; 0 is the first.
    pub(crate) fn run_as(&mut self, who: usize, args: &[&[u8]]) -> Vec<u8> {
        self.switch(who);
        let reply = self.run(args);
        self.switch(who);
        reply
    }

    /// Exchanges the session with that of this number.
    fn switch(&mut self, who: usize) {
        if who == 0 {
            return;
        }
        let at = self.others.iter().position(|(number, _)| *number == who).unwrap_or_else(|| {
            self.others.push((who, Session::new(who as u64 + 1, START_MS, true)));
            self.others.len() - 1
        });
        std::mem::swap(&mut self.session, &mut self.others[at].1);
    }

    /// Ends a session as the server does when a connection ends; the turns in which its command goes on without it.
    pub(crate) fn end_session(&mut self, who: usize) -> usize {
        self.switch(who);
        let mut turns = 0;
        if let Some(mut left) = self.session.leave_ongoing(&mut self.worker) {
            turns = 1;
            while self.batch.go_on_left(&mut self.worker, &mut left) != LeftTurn::Ended {
                turns += 1;
            }
        }
        self.session.leave_transaction(&mut self.worker);
        self.switch(who);
        turns
    }

    /// Ends a session whose command goes on to give memory back, while another worker holds all shards for some turns.
    pub(crate) fn hang_up_while_all_is_held(&mut self, who: usize) {
        self.switch(who);
        let mut left = self.session.leave_ongoing(&mut self.worker).expect("it outlives its client");
        while_all_is_held(&Arc::clone(&self.store), || {
            for _ in 0..10 {
                assert_ne!(self.batch.go_on_left(&mut self.worker, &mut left), LeftTurn::Ended, "its shard is held");
            }
        });
        while self.batch.go_on_left(&mut self.worker, &mut left) != LeftTurn::Ended {}
        self.switch(who);
        self.others.retain(|(number, _)| *number != who);
    }

    /// Goes on with the command of another session for some turns, while another worker holds all shards; its reply.
    pub(crate) fn turns_while_all_is_held(&mut self, who: usize) -> Vec<u8> {
        self.switch(who);
        let mark = self.out.mark();
        while_all_is_held(&Arc::clone(&self.store), || {
            for _ in 0..10 {
                let Server { worker, batch, parser, session, commands, out, .. } = self;
                let none = &mut LargeArguments::default();
                batch.turn(worker, commands, parser, session, self.now_ms, &mut [], none, out);
            }
        });
        let reply = self.out.since(mark).flatten().copied().collect();
        self.out.truncate(mark);
        self.switch(who);
        reply
    }

    /// Number of keys that sessions watch.
    pub(crate) fn watched_keys(&self) -> usize {
        self.store.watched_keys()
    }

    /// Sets the memory limit.
    pub(crate) fn set_limit(&mut self, bytes: u64) {
        self.store.set_limit(bytes, Policy::NoEviction);
    }

    /// Sets the classes of events that are told.
    pub(crate) fn notify(&mut self, letters: &str) {
        self.store.set_event_mask(notify::mask(letters.as_bytes()));
    }

    /// The events since the last call: channel and message.
    pub(crate) fn events(&mut self) -> Vec<String> {
        std::mem::take(&mut *self.told.0.lock().unwrap())
    }

    /// Background steps, until nothing is owed now.
    pub(crate) fn background(&mut self) {
        while self.worker.background(self.now_ms, Duration::from_millis(1)).is_some_and(|due| due <= self.now_ms) {}
    }

    /// Runs what a client sends; all replies.
    pub(crate) fn send(&mut self, mut input: &mut [u8]) -> Vec<u8> {
        let mark = self.out.mark();
        while !input.is_empty() || self.session.is_ongoing() {
            let Server { worker, batch, parser, session, commands, out, .. } = self;
            let turn =
                batch.turn(worker, commands, parser, session, self.now_ms, input, &mut LargeArguments::default(), out);
            match turn.state {
                TurnState::Server { command, start, spans } => {
                    // DEBUG is the only command of the server that this crate runs.
                    assert_eq!(command.name, "debug", "{} needs a server", command.full_name);
                    let store = Arc::clone(&self.store);
                    let args = Args::new(&input[start..], &spans);
                    if let Err(error) =
                        debug::run(&mut WideCtx { row: &debug::ROW, args, store: &store, worker, out, session })
                    {
                        error.reply(out);
                    }
                }
                TurnState::Exec { command, .. } => panic!("{} of this transaction needs a server", command.name),
                TurnState::Close(_) | TurnState::Foreign => break,
                TurnState::NeedInput { .. } | TurnState::Yield | TurnState::Published(_) => {}
                TurnState::Blocked(blocked) => {
                    // Nobody else is there: its time is up at once.
                    assert!(blocked.cancel(), "nobody serves it");
                    blocked.forget(worker);
                    blocked.reply_timeout(out, &|_, _| unreachable!("these clients wait for keys"));
                }
                TurnState::Busy | TurnState::Paused => panic!("one worker meets no busy shard, and nobody pauses"),
                TurnState::Linked => panic!("a command that talks to another server needs one"),
                TurnState::Script(_) => panic!("there are no scripts here"),
            }
            input = &mut input[turn.consumed..];
        }
        let reply = self.out.since(mark).flatten().copied().collect();
        self.out.truncate(mark);
        reply
    }
}

/// A request as a client sends it.
fn request(args: &[&[u8]]) -> Vec<u8> {
    let mut request = format!("*{}\r\n", args.len()).into_bytes();
    for arg in args {
        request.extend_from_slice(format!("${}\r\n", arg.len()).as_bytes());
        request.extend_from_slice(arg);
        request.extend_from_slice(b"\r\n");
    }
    request
}

impl Drop for Server {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.worker.park();
            self.store.verify();
        }
    }
}
