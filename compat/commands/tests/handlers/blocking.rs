//! Blocking commands on several workers that are stepped by hand: who is served by whom, in which order, and once.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, mpsc};
use std::thread;

use varve_commands::commands;
use varve_exec::batch::{Batch, TurnState, TurnTimes};
use varve_exec::notify::{self, Events};
use varve_exec::pause::Pause;
use varve_exec::stats::CommandStats;
use varve_exec::{Blocked, CommandTable, LargeArguments, LeftTurn, Session};
use varve_protocol::{Parser, Reply, RequestLimits};
use varve_store::{LogGeometry, Options, ReadBounds, Store, StoreWorker, Tx};

const NOW_MS: i64 = 1_795_000_000_000;

/// One worker with one connection, whose number is the worker's and one.
struct Hand {
    worker: StoreWorker,
    batch: Batch,
    session: Session,
    parser: Parser,
    blocked: Option<Blocked>,
}

/// Keyspace events of all workers, `event key`, in the order in which they were published: with the shards held, which
/// is the order of the effects.
#[derive(Clone, Default)]
struct Journal(Arc<Mutex<Vec<String>>>);

impl Events for Journal {
    fn publish(&mut self, _shard: bool, channel: &[u8], message: &[u8]) -> u64 {
        let event = std::str::from_utf8(channel).expect("text").rsplit(':').next().expect("an event").to_owned();
        let key = String::from_utf8_lossy(message);
        self.0.lock().expect("nobody panics with it").push(format!("{event} {key}"));
        0
    }
}

/// A store and its workers.
struct Bench {
    store: Arc<Store>,
    hands: Vec<Hand>,
    table: CommandTable,
    /// Replies to clients that waited, in the order in which they were served.
    served: Vec<(usize, String)>,
    journal: Journal,
}

impl Bench {
    fn new(workers: usize) -> Bench {
        let geometry = LogGeometry { reserve_bytes: 1 << 30, ..LogGeometry::default() };
        let store =
            Store::new(&Options { seed: 5, workers, geometry, ..Options::default() }).expect("an address range");
        let journal = Journal::default();
        let hand = |id: usize| {
            let (mut worker, mut batch) = (store.worker(id), Batch::new(CommandStats::new(commands().ids())));
            batch.set_events(&mut worker, journal.clone(), journal.clone());
            let session = Session::new(id as u64 + 1, NOW_MS, true);
            Hand { worker, batch, session, parser: Parser::new(RequestLimits::default()), blocked: None }
        };
        let hands = (0..workers).map(hand).collect();
        Bench { store, hands, table: CommandTable::new(commands()), served: Vec::new(), journal }
    }

    /// One turn of a worker over one inline request: its reply; None if it blocked or a shard was busy.
    fn turn(&mut self, at: usize, line: &str) -> (TurnState, Vec<u8>) {
        let Hand { worker, batch, session, parser, .. } = &mut self.hands[at];
        let mut input = format!("{line}\r\n").into_bytes();
        let mut out = Reply::new();
        let mut bodies = LargeArguments::default();
        let turn = batch.turn(worker, &self.table, parser, session, NOW_MS, &mut input, &mut bodies, &mut out);
        for served in batch.take_served().into_iter().flatten() {
            assert_eq!(served.worker + 1, served.client as usize);
            let waited = self.hands[served.worker].blocked.take().expect("only who waits is served");
            assert!(!waited.cancel(), "a served client is claimed");
            waited.forget(&mut self.hands[served.worker].worker);
            self.served.push((served.worker, String::from_utf8(served.reply.to_vec()).expect("text")));
        }
        let bytes = out.to_vec();
        (turn.state, bytes)
    }

    /// Runs a command that replies at once.
    fn run(&mut self, at: usize, line: &str, reply: &str) {
        let (state, bytes) = self.turn(at, line);
        assert!(matches!(state, TurnState::NeedInput { .. } | TurnState::Yield), "{line}: {state:?}");
        assert_eq!(bytes.escape_ascii().to_string(), reply.as_bytes().escape_ascii().to_string(), "{line}");
    }

    /// Runs a command that blocks.
    fn block(&mut self, at: usize, line: &str) {
        match self.turn(at, line) {
            (TurnState::Blocked(blocked), bytes) if bytes.is_empty() => self.hands[at].blocked = Some(blocked),
            other => panic!("{line} did not block: {other:?}"),
        }
    }

    fn expect_served(&mut self, wanted: &[(usize, &str)]) {
        let served = std::mem::take(&mut self.served);
        let served: Vec<(usize, &str)> = served.iter().map(|(at, reply)| (*at, reply.as_str())).collect();
        assert_eq!(served, wanted);
    }

    /// Wants events from now on.
    fn keep_journal(&self) {
        self.store.set_event_mask(notify::mask(b"EA"));
    }

    fn expect_journal(&self, effects: &[String]) {
        assert_eq!(std::mem::take(&mut *self.journal.0.lock().expect("nobody panics with it")), effects);
    }

    fn calls(&self, command: &str) -> (u64, u64) {
        let d = self.table.get(command.as_bytes()).expect("a command");
        let stats = self.hands.iter().map(|hand| hand.batch.stats().of(d));
        stats.fold((0, 0), |sum, stat| (sum.0 + stat.calls.get(), sum.1 + stat.failed.get()))
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        if !thread::panicking() {
            self.hands.iter_mut().for_each(|hand| hand.worker.park());
            self.store.verify();
        }
    }
}

/// RPUSH k with a waiter BLMOVE k d and a waiter BLPOP d on a third worker: the pusher serves both, each once, whichever
/// of the two shards comes first, and the effects have one order, which is the peer's.
#[test]
fn a_push_serves_a_move_whose_destination_somebody_waits_for() {
    for (k, d) in [("k", "d"), ("d", "k"), ("x1", "x2"), ("x2", "x1")] {
        let mut bench = Bench::new(3);
        bench.keep_journal();
        bench.block(0, &format!("BLMOVE {k} {d} LEFT RIGHT 0"));
        bench.block(2, &format!("BLPOP {d} 0"));
        bench.run(1, &format!("RPUSH {k} v"), ":1\r\n");
        let popped = format!("*2\r\n${}\r\n{d}\r\n$1\r\nv\r\n", d.len());
        bench.expect_served(&[(0, "$1\r\nv\r\n"), (2, &popped)]);
        let effects = [("rpush", k), ("rpush", d), ("lpop", k), ("del", k), ("lpop", d), ("del", d)];
        bench.expect_journal(&effects.map(|(event, key)| format!("{event} {key}")));
        bench.run(1, &format!("EXISTS {k} {d}"), ":0\r\n");
        assert_eq!((bench.calls("blmove"), bench.calls("blpop")), ((1, 0), (1, 0)));
    }
}

/// A client that has waited for a stream is given all that came at once.
#[test]
fn issue_11_a_reader_that_has_waited_is_given_all_that_came() {
    for line in ["XREAD BLOCK 0 STREAMS t 0", "XREADGROUP GROUP g c BLOCK 0 STREAMS t >"] {
        let mut bench = Bench::new(2);
        bench.run(1, "XGROUP CREATE from g 0 MKSTREAM", "+OK\r\n");
        for n in 1001..=2500 {
            bench.run(1, &format!("XADD from 1-{n} f {n}"), &format!("$6\r\n1-{n}\r\n"));
        }
        bench.run(1, "XGROUP CREATE t g 0 MKSTREAM", "+OK\r\n");
        bench.block(0, line);
        bench.run(1, "RENAME from t", "+OK\r\n");
        let entry = |n: u32| format!("*2\r\n$6\r\n1-{n}\r\n*2\r\n$1\r\nf\r\n$4\r\n{n}\r\n");
        let reply = "*1\r\n*2\r\n$1\r\nt\r\n*1500\r\n".to_string() + &(1001..=2500).map(entry).collect::<String>();
        bench.expect_served(&[(0, &reply)]);
    }
}

/// Has the last worker hold `d`'s shard, finds `RPUSH k v` put back for that, and looks at what there is meanwhile.
fn refuse_push(bench: &mut Bench, look: impl FnOnce(&mut Bench)) {
    let store = Arc::clone(&bench.store);
    let mut other = bench.hands.pop().expect("the last worker").worker;
    let (held, is_held) = mpsc::channel();
    let (release, released) = mpsc::channel::<()>();
    thread::scope(|s| {
        s.spawn(move || {
            let _inside = store.gate().enter(other.id());
            let mut tx = Tx::new(&store, other.parts().1, 0);
            tx.hold(&[tx.shard_of_bytes(b"d")]);
            held.send(()).expect("the test is there");
            released.recv().expect("the test is there");
            tx.finish();
        });
        is_held.recv().expect("the thread is there");
        let (state, reply) = bench.turn(1, "RPUSH k v");
        assert!(matches!(state, TurnState::Busy), "{state:?}");
        assert!(reply.is_empty());
        look(bench);
        release.send(()).expect("the thread is there");
    });
}

/// While the destination's shard is busy the push has not happened: nobody sees the element before it is moved.
#[test]
fn a_push_waits_for_the_destination_of_who_waits() {
    let mut bench = Bench::new(3);
    bench.block(0, "BLMOVE k d LEFT RIGHT 0");
    refuse_push(&mut bench, |bench| bench.run(1, "EXISTS k", ":0\r\n"));
    bench.run(1, "RPUSH k v", ":1\r\n");
    bench.expect_served(&[(0, "$1\r\nv\r\n")]);
    bench.run(1, "LRANGE d 0 -1", "*1\r\n$1\r\nv\r\n");
}

/// The destination's shard is busy: the push releases all shards, comes back and takes it with the others. Then
/// both are served, and what follows the push in a transaction comes before.
#[test]
fn a_push_that_comes_back_for_the_destination_serves_each_once() {
    let mut bench = Bench::new(4);
    bench.keep_journal();
    bench.block(0, "BLMOVE k d LEFT RIGHT 0");
    bench.block(2, "BLPOP d 0");
    refuse_push(&mut bench, |bench| {
        bench.expect_journal(&[]);
        bench.expect_served(&[]);
    });
    bench.run(1, "MULTI", "+OK\r\n");
    bench.run(1, "RPUSH k v", "+QUEUED\r\n");
    bench.run(1, "SET s 1", "+QUEUED\r\n");
    bench.run(1, "EXEC", "*2\r\n:1\r\n+OK\r\n");
    bench.expect_served(&[(0, "$1\r\nv\r\n"), (2, "*2\r\n$1\r\nd\r\n$1\r\nv\r\n")]);
    let effects = ["rpush k", "set s", "rpush d", "lpop k", "del k", "lpop d", "del d"];
    bench.expect_journal(&effects.map(str::to_owned));
    assert_eq!((bench.calls("blmove"), bench.calls("blpop")), ((1, 0), (1, 0)));
}

#[test]
fn first_come_first_served_across_workers() {
    let mut bench = Bench::new(4);
    bench.block(2, "BLPOP a b 0");
    bench.block(0, "BRPOP b a 0");
    bench.block(3, "BLMPOP 0 2 b a RIGHT COUNT 5");
    bench.run(1, "RPUSH a 1 2 3 4", ":4\r\n");
    bench.expect_served(&[
        (2, "*2\r\n$1\r\na\r\n$1\r\n1\r\n"),
        (0, "*2\r\n$1\r\na\r\n$1\r\n4\r\n"),
        (3, "*2\r\n$1\r\na\r\n*2\r\n$1\r\n3\r\n$1\r\n2\r\n"),
    ]);
    bench.run(1, "EXISTS a b", ":0\r\n");
    bench.run(1, "RPUSH b 1", ":1\r\n");
    bench.expect_served(&[]);
}

#[test]
fn of_several_keys_the_first_that_has_something() {
    let mut bench = Bench::new(2);
    bench.run(0, "RPUSH b 1", ":1\r\n");
    bench.run(0, "RPUSH c 2", ":1\r\n");
    bench.run(1, "BLPOP a c b 0", "*2\r\n$1\r\nc\r\n$1\r\n2\r\n");
    bench.run(0, "SET a x", "+OK\r\n");
    let wrong = "-WRONGTYPE Operation against a key holding the wrong kind of value\r\n";
    bench.run(1, "BLPOP a b 0", wrong);
    bench.run(1, "BLPOP b a 0", "*2\r\n$1\r\nb\r\n$1\r\n1\r\n");
}

#[test]
fn a_destination_of_another_type_ends_the_wait_with_an_error() {
    let mut bench = Bench::new(3);
    bench.block(0, "BLMOVE k d LEFT RIGHT 0");
    bench.block(1, "BLPOP k 0");
    bench.run(2, "SET d x", "+OK\r\n");
    bench.run(2, "RPUSH k v w", ":2\r\n");
    bench.expect_served(&[
        (0, "-WRONGTYPE Operation against a key holding the wrong kind of value\r\n"),
        (1, "*2\r\n$1\r\nk\r\n$1\r\nv\r\n"),
    ]);
    bench.run(2, "LRANGE k 0 -1", "*1\r\n$1\r\nw\r\n");
    assert_eq!(bench.calls("blmove"), (1, 1));
}

#[test]
fn a_key_of_another_type_serves_nobody() {
    let mut bench = Bench::new(2);
    bench.block(0, "BLPOP k 0");
    bench.run(1, "SET k v", "+OK\r\n");
    bench.run(1, "RPUSH l 1", ":1\r\n");
    bench.expect_served(&[]);
    bench.run(1, "RENAME l k", "+OK\r\n");
    bench.expect_served(&[(0, "*2\r\n$1\r\nk\r\n$1\r\n1\r\n")]);
}

/// Commands of many arguments go on over many turns, one part in each.
fn one_part_a_turn(bench: &mut Bench) {
    bench.store.set_read_bounds(ReadBounds { long_elements: 200, hold_elements: 40 });
    bench.hands.iter_mut().for_each(|hand| hand.batch.set_times(TurnTimes::STEPPED));
}

/// Runs a command of many arguments part by part: nobody is served before the last one.
fn run_in_parts(bench: &mut Bench, at: usize, line: &str, reply: &str) {
    let mut bytes = bench.turn(at, line).1;
    let mut turns = 1;
    while bench.hands[at].session.is_ongoing() {
        bench.expect_served(&[]);
        bytes.extend(bench.turn(at, "").1);
        turns += 1;
    }
    assert!(turns > 5, "{turns} turns");
    assert_eq!(String::from_utf8(bytes).expect("text"), reply);
}

/// Elements, each behind a score if they are scored.
fn many(scored: bool) -> String {
    (0..1500).map(|n| if scored { format!(" {n} {n}") } else { format!(" {n}") }).collect()
}

/// While many elements are pushed the last one so far is not the one that BRPOP is to get.
#[test]
fn issue_11_who_waits_is_served_behind_the_last_of_many_elements() {
    let mut bench = Bench::new(4);
    one_part_a_turn(&mut bench);
    bench.block(0, "BRPOP k 0");
    bench.block(2, "BLMPOP 0 1 k LEFT");
    bench.block(3, "BZPOPMAX z 0");
    run_in_parts(&mut bench, 1, &format!("RPUSH k{}", many(false)), ":1500\r\n");
    bench.expect_served(&[(0, "*2\r\n$1\r\nk\r\n$4\r\n1499\r\n"), (2, "*2\r\n$1\r\nk\r\n*1\r\n$1\r\n0\r\n")]);
    run_in_parts(&mut bench, 1, &format!("ZADD z{}", many(true)), ":1500\r\n");
    bench.expect_served(&[(3, "*3\r\n$1\r\nz\r\n$4\r\n1499\r\n$4\r\n1499\r\n")]);
    bench.run(1, "LLEN k", ":1498\r\n");
    bench.run(1, "ZCARD z", ":1499\r\n");
    // All scores are read before the first member is added.
    bench.turn(1, &format!("ZADD z{} x y", many(true)));
    assert_eq!(bench.turn(1, "").1, b"-ERR value is not a valid float\r\n");
    bench.run(1, "ZCARD z", ":1499\r\n");
}

/// The client that pushes hangs up: its command goes on to its end, and a client that waits is served then.
#[test]
fn issue_13_a_client_that_waits_is_served_behind_a_push_whose_client_hangs_up() {
    let mut bench = Bench::new(2);
    one_part_a_turn(&mut bench);
    bench.block(0, "BLPOP k 0");
    bench.turn(1, &format!("RPUSH k{}", many(false)));
    bench.turn(1, "");
    let Hand { worker, batch, session, .. } = &mut bench.hands[1];
    assert!(session.is_ongoing() && !batch.owes_service(worker), "it is not done");
    let mut left = session.leave_ongoing(worker).expect("it has changed its key");
    while batch.go_on_left(worker, &mut left) != LeftTurn::Ended {}
    bench.run(1, "PING", "+PONG\r\n");
    bench.run(1, "LLEN k", ":1499\r\n");
    bench.expect_served(&[(0, "*2\r\n$1\r\nk\r\n$1\r\n0\r\n")]);
}

/// A client waits to move an element to a list to which many are being pushed: it is served behind them, whatever makes its own
/// list ready.
#[test]
fn issue_13_a_move_to_a_list_that_is_worked_on_is_served_behind_that() {
    let mut bench = Bench::new(3);
    one_part_a_turn(&mut bench);
    bench.block(0, "BLMOVE src dst LEFT RIGHT 0");
    bench.turn(2, &format!("RPUSH src{}", many(false)));
    bench.turn(1, &format!("RPUSH dst{}", many(false)));
    while bench.hands[2].session.is_ongoing() {
        bench.turn(2, "");
    }
    assert!(bench.hands[1].session.is_ongoing(), "the target is worked on");
    bench.expect_served(&[]);
    let serve_rest = |bench: &mut Bench| {
        let Hand { worker, batch, .. } = &mut bench.hands[2];
        assert!(batch.owes_service(worker), "somebody waits");
        batch.serve_rest(worker)
    };
    assert!(!serve_rest(&mut bench), "its worker may rest");
    bench.expect_served(&[]);
    assert!(bench.hands[1].session.is_ongoing(), "the target is worked on");
    while bench.hands[1].session.is_ongoing() {
        bench.turn(1, "");
    }
    // Its element moves by a write, and writes are held back for a while.
    bench.hands[2].batch.set_pause(Pause::Writes);
    assert!(!serve_rest(&mut bench));
    bench.expect_served(&[]);
    bench.hands[2].batch.set_pause(Pause::None);
    assert!(serve_rest(&mut bench));
    bench.run(2, "PING", "+PONG\r\n");
    bench.expect_served(&[(0, "$1\r\n0\r\n")]);
    bench.run(1, "LINDEX dst -1", "$1\r\n0\r\n");
    bench.run(1, "LINDEX dst -2", "$4\r\n1499\r\n");
}

#[test]
fn moves_in_a_ring_end() {
    let mut bench = Bench::new(4);
    bench.block(0, "BLMOVE a b LEFT RIGHT 0");
    bench.block(1, "BLMOVE b c LEFT RIGHT 0");
    bench.block(2, "BLMOVE c a LEFT RIGHT 0");
    bench.run(3, "RPUSH a v", ":1\r\n");
    bench.expect_served(&[(0, "$1\r\nv\r\n"), (1, "$1\r\nv\r\n"), (2, "$1\r\nv\r\n")]);
    bench.run(3, "LRANGE a 0 -1", "*1\r\n$1\r\nv\r\n");
}

#[test]
fn databases_are_exchanged_under_who_waits() {
    let mut bench = Bench::new(3);
    bench.run(0, "SELECT 1", "+OK\r\n");
    bench.block(0, "BLMOVE k d LEFT RIGHT 0");
    bench.run(2, "SELECT 1", "+OK\r\n");
    bench.block(2, "BLPOP d 0");
    bench.run(1, "RPUSH k v", ":1\r\n");
    bench.expect_served(&[]);
    bench.run(1, "SWAPDB 0 1", "+OK\r\n");
    bench.expect_served(&[(0, "$1\r\nv\r\n"), (2, "*2\r\n$1\r\nd\r\n$1\r\nv\r\n")]);
}

#[test]
fn who_is_cancelled_is_not_served() {
    let mut bench = Bench::new(3);
    bench.block(0, "BLPOP k 0");
    bench.block(1, "BLPOP k 0");
    assert!(bench.hands[0].blocked.take().expect("it waits").cancel());
    bench.run(2, "RPUSH k v", ":1\r\n");
    bench.expect_served(&[(1, "*2\r\n$1\r\nk\r\n$1\r\nv\r\n")]);
}

#[test]
fn nothing_blocks_inside_exec() {
    let mut bench = Bench::new(1);
    let lines = ["BLPOP k 0", "BLMPOP 0 1 k LEFT", "BLMOVE k d LEFT LEFT 0", "BRPOPLPUSH k d 0"];
    exec(&mut bench, 0, &lines, "*4\r\n*-1\r\n*-1\r\n$-1\r\n$-1\r\n");
}

/// Runs a transaction; every command is queued, the reply is EXEC's.
fn exec(bench: &mut Bench, at: usize, lines: &[&str], reply: &str) {
    bench.run(at, "MULTI", "+OK\r\n");
    for line in lines {
        bench.run(at, line, "+QUEUED\r\n");
    }
    bench.run(at, "EXEC", reply);
}

#[test]
fn a_transaction_serves_once_in_the_order_of_its_pushes() {
    let mut bench = Bench::new(4);
    bench.block(0, "BLPOP a b 0");
    bench.block(1, "BLMOVE a c LEFT RIGHT 0");
    bench.block(2, "BLPOP c 0");
    exec(&mut bench, 3, &["RPUSH b 1", "RPUSH a 2", "RPUSH b 3"], "*3\r\n:1\r\n:1\r\n:2\r\n");
    bench.expect_served(&[
        (0, "*2\r\n$1\r\nb\r\n$1\r\n1\r\n"),
        (1, "$1\r\n2\r\n"),
        (2, "*2\r\n$1\r\nc\r\n$1\r\n2\r\n"),
    ]);
    bench.run(3, "LRANGE b 0 -1", "*1\r\n$1\r\n3\r\n");
}

#[test]
fn what_a_transaction_takes_back_serves_nobody() {
    let mut bench = Bench::new(2);
    bench.block(0, "BLPOP a 0");
    exec(&mut bench, 1, &["RPUSH a 1", "DEL a"], "*2\r\n:1\r\n:1\r\n");
    bench.expect_served(&[]);
    exec(&mut bench, 1, &["RPUSH a 1", "BLPOP a 0", "BLPOP a 0"], "*3\r\n:1\r\n*2\r\n$1\r\na\r\n$1\r\n1\r\n*-1\r\n");
    bench.expect_served(&[]);
    exec(&mut bench, 1, &["SET a x", "DEL a", "RPUSH a 2"], "*3\r\n+OK\r\n:1\r\n:1\r\n");
    bench.expect_served(&[(0, "*2\r\n$1\r\na\r\n$1\r\n2\r\n")]);
}

/// With SWAPDB among them the commands run under the gate alone, each with its own shards.
#[test]
fn a_transaction_that_exchanges_databases() {
    let mut bench = Bench::new(4);
    bench.block(0, "BLMOVE k d LEFT RIGHT 0");
    bench.run(2, "SELECT 1", "+OK\r\n");
    bench.block(2, "BLPOP d k 0");
    let lines = ["RPUSH k v", "RPUSH x y", "SWAPDB 0 1"];
    exec(&mut bench, 1, &lines, "*3\r\n:1\r\n:1\r\n+OK\r\n");
    bench.expect_served(&[(2, "*2\r\n$1\r\nk\r\n$1\r\nv\r\n")]);
    exec(&mut bench, 1, &["SWAPDB 0 1", "RPUSH k v"], "*2\r\n+OK\r\n:1\r\n");
    bench.expect_served(&[(0, "$1\r\nv\r\n")]);
    bench.run(1, "LRANGE d 0 -1", "*1\r\n$1\r\nv\r\n");
}

/// Poppers, movers and pushers on a thread each, with random pauses of the scheduler: every element comes out once.
#[test]
fn no_element_is_lost_or_doubled() {
    const POPPERS: usize = 4;
    const ELEMENTS: usize = 4_000;
    let mut bench = Bench::new(POPPERS + 3);
    let (sender, receiver) = mpsc::channel::<varve_exec::Served>();
    let (nobody, _) = mpsc::channel();
    let (senders, inboxes): (Vec<_>, Vec<_>) = (0..POPPERS).map(|_| mpsc::channel::<Vec<u8>>()).unzip();
    let table = &bench.table;
    let mut hands = bench.hands.drain(..POPPERS + 2);
    let poppers: Vec<Hand> = hands.by_ref().take(POPPERS).collect();
    let pushers: Vec<Hand> = hands.collect();
    let mut all = thread::scope(|s| {
        let popping: Vec<_> = poppers
            .into_iter()
            .zip(inboxes)
            .enumerate()
            .map(|(at, (hand, inbox))| {
                let sender = sender.clone();
                s.spawn(move || pop_all(hand, table, at, &inbox, &sender))
            })
            .collect();
        for (at, hand) in pushers.into_iter().enumerate() {
            let sender = sender.clone();
            s.spawn(move || push_all(hand, table, at, ELEMENTS / 2, &sender));
        }
        drop(sender);
        s.spawn(move || {
            for served in receiver {
                // A popper that has ended waits for nothing.
                senders[served.worker].send(served.reply.to_vec()).expect("who is served is there");
            }
        });
        popping.into_iter().flat_map(|thread| thread.join().expect("a popper")).collect::<Vec<_>>()
    });
    // A waiter that took a stop from one end may have left elements behind the other.
    let last = bench.hands.last_mut().expect("one more worker");
    for line in ["LRANGE q 0 -1", "LRANGE r 0 -1"] {
        let reply = String::from_utf8(step(last, table, line, &nobody).expect("a reply")).expect("text");
        all.extend(reply.split("\r\n").filter(|line| line.starts_with('e')).map(str::to_owned));
    }
    let mut counts = BTreeMap::new();
    for element in all {
        *counts.entry(element).or_insert(0) += 1;
    }
    counts.remove("stop");
    assert_eq!(counts.len(), ELEMENTS);
    assert!(counts.values().all(|count| *count == 1));
}

/// Runs a request until it has replied or blocked.
fn step(
    hand: &mut Hand,
    table: &CommandTable,
    line: &str,
    served: &mpsc::Sender<varve_exec::Served>,
) -> Option<Vec<u8>> {
    loop {
        let Hand { worker, batch, session, parser, .. } = &mut *hand;
        let (mut input, mut out) = (format!("{line}\r\n").into_bytes(), Reply::new());
        let turn =
            batch.turn(worker, table, parser, session, NOW_MS, &mut input, &mut LargeArguments::default(), &mut out);
        for reply in batch.take_served().into_iter().flatten() {
            served.send(reply).expect("the post is there");
        }
        match turn.state {
            TurnState::Busy => thread::yield_now(),
            TurnState::Blocked(blocked) => {
                hand.blocked = Some(blocked);
                return None;
            }
            _ => return Some(out.to_vec()),
        }
    }
}

/// Half of the poppers take from q, half from where the others' elements are moved to; until it sees a stop.
fn pop_all(
    mut hand: Hand,
    table: &CommandTable,
    at: usize,
    inbox: &mpsc::Receiver<Vec<u8>>,
    served: &mpsc::Sender<varve_exec::Served>,
) -> Vec<String> {
    let lines = ["BLPOP q r 0", "BRPOP r q 0", "BLMPOP 0 2 q r LEFT", "BLPOP r q 0"];
    let mut elements = Vec::new();
    loop {
        let reply = step(&mut hand, table, lines[at], served).unwrap_or_else(|| {
            let reply = inbox.recv().expect("who waits is served");
            hand.blocked.take().expect("it waits").forget(&mut hand.worker);
            reply
        });
        let text = String::from_utf8(reply).expect("text");
        let element = text.trim_end().rsplit("\r\n").next().expect("a line").to_owned();
        let stop = element == "stop";
        elements.push(element);
        if stop {
            return elements;
        }
    }
}

/// Pushes its elements to q or r in turn, some by way of a move, and at the end a stop for each two poppers.
fn push_all(mut hand: Hand, table: &CommandTable, at: usize, count: usize, served: &mpsc::Sender<varve_exec::Served>) {
    let mut run = |line: &str| assert!(step(&mut hand, table, line, served).is_some(), "{line} does not block");
    for n in 0..count {
        match n % 3 {
            0 => run(&format!("RPUSH q e{at}:{n}")),
            1 => run(&format!("LPUSH r e{at}:{n}")),
            _ => {
                run(&format!("RPUSH own{at} e{at}:{n}"));
                run(&format!("BLMOVE own{at} q LEFT LEFT 0"));
            }
        }
    }
    for key in ["q", "r"] {
        run(&format!("RPUSH {key} stop"));
    }
}
