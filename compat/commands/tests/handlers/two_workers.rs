//! Transactions of two workers on one store: busy shards and watched keys whose time comes stepped by hand, and transfers
//! that nobody sees half done.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use varve_base::rng::Rng;
use varve_commands::commands;
use varve_exec::batch::{Batch, TurnState};
use varve_exec::stats::CommandStats;
use varve_exec::{CommandTable, LargeArguments, Session, large_arguments};
use varve_protocol::{Parser, Reply, RequestLimits};
use varve_store::{LogGeometry, Options, Policy, Store, StoreWorker, Tx};

const NOW_MS: i64 = 1_795_000_000_000;

/// One worker with one connection.
struct Client {
    worker: StoreWorker,
    batch: Batch,
    parser: Parser,
    session: Session,
    commands: CommandTable,
    out: Reply,
    /// Each worker reads the clock by itself.
    now_ms: i64,
}

impl Client {
    fn new(store: &Arc<Store>, id: usize) -> Client {
        Client {
            worker: store.worker(id),
            batch: Batch::new(CommandStats::new(commands().ids())),
            parser: Parser::new(RequestLimits::default()),
            session: Session::new(id as u64 + 1, NOW_MS, true),
            commands: CommandTable::new(commands()),
            out: Reply::new(),
            now_ms: NOW_MS,
        }
    }

    /// One turn over inline requests; what it replied, how it ended, and the bytes that it took.
    fn turn(&mut self, input: &mut [u8]) -> (String, TurnState, usize) {
        let Client { worker, batch, parser, session, commands, out, now_ms } = self;
        let mark = out.mark();
        let turn = batch.turn(worker, commands, parser, session, *now_ms, input, &mut LargeArguments::default(), out);
        let reply = out.since(mark).map(String::from_utf8_lossy).collect();
        out.truncate(mark);
        (reply, turn.state, turn.consumed)
    }

    /// Turns until all of it is done.
    fn run(&mut self, requests: &str) -> String {
        let mut input = requests.replace('\n', "\r\n").into_bytes();
        let mut input = &mut input[..];
        let mut replies = String::new();
        while !input.is_empty() || self.session.is_ongoing() {
            let (reply, _, consumed) = self.turn(input);
            replies += &reply;
            input = &mut input[consumed..];
        }
        replies
    }

    /// Runs requests at this number of milliseconds from the start.
    fn at(&mut self, ms: i64, requests: &str) -> String {
        self.now_ms = NOW_MS + ms;
        self.run(requests)
    }

    /// All steps of the background that are due then.
    fn background(&mut self, ms: i64) {
        let now_ms = NOW_MS + ms;
        while self.worker.background(now_ms, Duration::from_millis(1)).is_some_and(|due| due <= now_ms) {}
    }
}

fn store() -> Arc<Store> {
    let geometry = LogGeometry { reserve_bytes: 8 << 30, ..LogGeometry::default() };
    Store::new(&Options { seed: 7, workers: 3, geometry, ..Options::default() }).expect("an address range")
}

#[test]
fn a_busy_shard_puts_exec_off_with_nothing_done() {
    let store = store();
    let mut client = Client::new(&store, 0);
    assert_eq!(client.run("SET a 1\nMULTI\nINCR a\nINCR b\n"), "+OK\r\n+OK\r\n+QUEUED\r\n+QUEUED\r\n");
    let (taken, wait_taken) = mpsc::channel();
    let (let_go, wait_go) = mpsc::channel::<()>();
    let other = {
        let store = Arc::clone(&store);
        thread::spawn(move || {
            let mut worker = store.worker(1);
            let mut tx = Tx::new(&store, worker.parts().1, 0);
            let shard = tx.shard_of(store.key(0, b"b").hash);
            tx.hold(&[shard]);
            taken.send(()).unwrap();
            wait_go.recv().unwrap();
            assert!(!tx.exists(&store.key(0, b"b")), "nothing was done while the shard was busy");
            tx.finish();
        })
    };
    wait_taken.recv().unwrap();
    for _ in 0..3 {
        let (reply, state, consumed) = client.turn(&mut b"EXEC\r\n".to_vec());
        assert!(matches!(state, TurnState::Busy), "{state:?}");
        assert_eq!((reply.as_str(), consumed), ("", 0));
    }
    let_go.send(()).unwrap();
    assert_eq!(client.run("EXEC\n"), "*2\r\n:2\r\n:1\r\n");
    other.join().unwrap();
    store.verify();
}

/// Runs `meanwhile` while another worker, on a thread of its own, is inside `stay`, which calls what it is given.
fn beside<R>(
    store: &Arc<Store>,
    stay: impl FnOnce(&mut StoreWorker, &dyn Fn()) + Send + 'static,
    meanwhile: impl FnOnce() -> R,
) -> R {
    let (taken, wait_taken) = mpsc::channel();
    let (let_go, wait_go) = mpsc::channel::<()>();
    let other = Arc::clone(store);
    let other = thread::spawn(move || {
        stay(&mut other.worker(1), &|| {
            taken.send(()).unwrap();
            wait_go.recv().unwrap();
        });
    });
    wait_taken.recv().unwrap();
    let done = meanwhile();
    let_go.send(()).unwrap();
    other.join().unwrap();
    done
}

/// Runs `meanwhile` while another worker holds the shard of this key.
fn while_held<R>(store: &Arc<Store>, key: &'static str, meanwhile: impl FnOnce() -> R) -> R {
    let hold = move |worker: &mut StoreWorker, stay: &dyn Fn()| {
        worker.inside(0, |tx| {
            let shard = tx.shard_of(tx.key(key.as_bytes()).hash);
            tx.hold(&[shard]);
            stay();
        });
    };
    beside(store, hold, meanwhile)
}

impl Client {
    /// Turns over requests whose shard is held; nothing may be done, and each turn comes back.
    fn is_put_off(&mut self, requests: &str) {
        let whole = requests.replace('\n', "\r\n").into_bytes();
        let mut input = whole.clone();
        for nth in 0..20 {
            let (reply, state, consumed) = self.turn(&mut input);
            assert!(matches!(state, TurnState::Busy), "turn {nth}: {state:?}");
            assert_eq!((reply.as_str(), consumed), ("", 0));
            assert_eq!(input, whole, "the request is as it was sent");
        }
    }
}

#[test]
fn no_request_waits_for_a_busy_shard() {
    let store = store();
    let mut client = Client::new(&store, 0);
    client.run("MULTI\nINCR a\nINCR b\n");
    while_held(&store, "a", || client.is_put_off("EXEC\n"));
    assert_eq!(client.session.busy_tries(), 20);
    assert_eq!(client.run("EXEC\n"), "*2\r\n:1\r\n:1\r\n");
    assert_eq!(client.session.busy_tries(), 0);
    while_held(&store, "a", || client.is_put_off("MSET b 2 a 2\n"));
    while_held(&store, "a", || client.is_put_off("SET \"a\" \"x \\x41\\\" y\"\n"));
    assert_eq!(client.run("SET \"a\" \"x \\x41\\\" y\"\nGET 'a'\n"), "+OK\r\n$6\r\nx A\" y\r\n");
}

/// Runs `meanwhile` while another worker holds all shards.
fn while_all_held<R>(store: &Arc<Store>, meanwhile: impl FnOnce() -> R) -> R {
    let hold = |worker: &mut StoreWorker, stay: &dyn Fn()| {
        worker.inside(0, |tx| {
            let all: Vec<u16> = (0..tx.store().shard_count() as u16).collect();
            tx.hold(&all);
            stay();
        });
    };
    beside(store, hold, meanwhile)
}

/// The worker of a write that needs room slept until the keys that may go were free, and its other connections waited as well.
#[test]
fn a_write_whose_room_is_held_is_put_back_and_its_worker_serves_others() {
    let store = store();
    let (mut client, mut transaction) = (Client::new(&store, 0), Client::new(&store, 2));
    let value = "v".repeat(1000);
    for n in 0..1000 {
        assert_eq!(client.run(&format!("SET old:{n} {value} EX 1000\n")), "+OK\r\n");
    }
    transaction.run(&format!("MULTI\nSET other {value}\nGET other\n"));
    store.set_limit(store.used_memory(), Policy::VolatileRandom);
    let mut beside = Session::new(9, NOW_MS, true);
    while_all_held(&store, || {
        for _ in 0..3 {
            client.is_put_off(&format!("SET new {value}\n"));
            std::mem::swap(&mut client.session, &mut beside);
            assert_eq!(client.run("PING\n"), "+PONG\r\n");
            std::mem::swap(&mut client.session, &mut beside);
        }
        transaction.is_put_off("EXEC\n");
    });
    assert_eq!(client.run(&format!("SET new {value}\nSTRLEN new\n")), "+OK\r\n:1000\r\n");
    assert_eq!(transaction.run("EXEC\n"), format!("*2\r\n+OK\r\n$1000\r\n{value}\r\n"));
    assert!(store.totals().evicted > 0, "there was room once the shards were free");
    store.verify();
}

/// SETRANGE finds only in the keyspace how much it needs, with its shard held. It is put back like one that has not begun; in a
/// transaction, which cannot be, it passes the limit by the part that a transaction may.
#[test]
fn growth_whose_room_is_held_is_put_back() {
    const GROWTH: usize = 100_000;
    const OLD: usize = 3 * GROWTH;
    let store = store();
    let (mut client, mut transaction) = (Client::new(&store, 0), Client::new(&store, 2));
    let value = "v".repeat(1000);
    for n in 0..4000 {
        assert_eq!(client.run(&format!("SET stays:{n} {value}\n")), "+OK\r\n");
    }
    // All keys that may go are one.
    assert_eq!(client.run(&format!("SET old x EX 1000\nSETRANGE old {OLD} x\nSET new x\n")).lines().count(), 3);
    transaction.run(&format!("MULTI\nSETRANGE other {GROWTH} x\n"));
    store.set_limit(store.used_memory() + 4000, Policy::VolatileRandom);
    while_held(&store, "old", || {
        client.is_put_off(&format!("SETRANGE new {GROWTH} x\n"));
        assert_eq!(client.run("STRLEN new\n"), ":1\r\n", "nothing was done");
        assert_eq!(transaction.run("EXEC\n"), format!("*1\r\n:{}\r\n", GROWTH + 1));
        assert_eq!(store.totals().evicted, 0);
    });
    store.set_limit(0, Policy::VolatileRandom);
    assert_eq!(client.run(&format!("SETRANGE new {GROWTH} x\n")), format!(":{}\r\n", GROWTH + 1));
    store.verify();
}

#[test]
fn a_request_with_a_large_argument_waits_parsed() {
    const LEN: usize = 300_000;
    let store = store();
    let mut client = Client::new(&store, 0);
    let mut head = format!("*3\r\n$3\r\nSET\r\n$1\r\na\r\n${LEN}\r\n").into_bytes();
    let (_, state, _) = client.turn(&mut head);
    assert!(matches!(state, TurnState::NeedInput { body: Some(_), .. }), "{state:?}");
    let mut extent = large_arguments::begin(&client.worker, LEN).expect("an extent");
    while !extent.rest().is_empty() {
        let part = extent.rest().len();
        extent.rest().fill(b'v');
        extent.advance(part);
    }
    let mut bodies = LargeArguments::default();
    bodies.push(extent.finish());
    client.parser.supply();
    let mut input = [&head[..], b"\r\nSTRLEN a\r\n"].concat();
    let mut turn = |input: &mut [u8]| {
        let Client { worker, batch, parser, session, commands, out, now_ms } = &mut client;
        let turn = batch.turn(worker, commands, parser, session, *now_ms, input, &mut bodies, out);
        (turn.state, turn.consumed)
    };
    while_held(&store, "a", || {
        for _ in 0..20 {
            let (state, consumed) = turn(&mut input);
            assert!(matches!(state, TurnState::Busy) && consumed == 0, "{state:?}");
        }
    });
    let (_, consumed) = turn(&mut input);
    assert_eq!(consumed, head.len() + 2);
    assert_eq!(client.run("STRLEN a\n"), ":300000\r\n");
    store.verify();
}

#[test]
fn a_shut_gate_stops_only_what_must_go_in() {
    let store = store();
    let mut client = Client::new(&store, 0);
    client.run("SET a 1\nMULTI\nGET a\n");
    let mut plain = Client::new(&store, 2);
    let alone = |worker: &mut StoreWorker, stay: &dyn Fn()| worker.exclusive(|_| stay());
    beside(&store, alone, || {
        assert_eq!(plain.run("PING\nECHO e\n"), "+PONG\r\n$1\r\ne\r\n");
        for requests in ["GET a\n", "DBSIZE\n", "KEYS *\n", "EXEC\n", "MSET a 1 b 2\n"] {
            plain.is_put_off(requests);
        }
        client.is_put_off("EXEC\n");
        // A command that is queued needs memory only, and there is some.
        assert_eq!(client.run("GET b\n"), "+QUEUED\r\n");
        assert_eq!(plain.session.busy_tries(), 0, "the gate is not a shard");
    });
    assert_eq!(client.run("EXEC\n"), "*2\r\n$1\r\n1\r\n$-1\r\n");
    assert_eq!(plain.run("DBSIZE\n"), ":1\r\n");
}

/// Whoever wants to be alone while another worker stays inside is put off, and all others get in between its tries.
#[test]
fn no_request_waits_for_a_worker_inside_the_gate() {
    let store = store();
    let (mut alone, mut other) = (Client::new(&store, 0), Client::new(&store, 2));
    alone.run("SET a 1\nMULTI\nDBSIZE\nFLUSHDB\n");
    let mut plain = Client::new(&store, 0);
    let inside = |worker: &mut StoreWorker, stay: &dyn Fn()| worker.inside(0, |_| stay());
    beside(&store, inside, || {
        plain.is_put_off("FLUSHALL\n");
        alone.is_put_off("EXEC\n");
        assert!(plain.session.busy_tries() >= 16, "it rests between further tries");
        assert_eq!(plain.run("PING\nGET a\n"), "+PONG\r\n$1\r\n1\r\n");
        assert_eq!(other.run("GET a\n"), "$1\r\n1\r\n");
    });
    assert_eq!(alone.run("EXEC\n"), "*2\r\n:1\r\n+OK\r\n");
    assert_eq!(plain.run("FLUSHALL\nDBSIZE\n"), "+OK\r\n:0\r\n");
}

impl Client {
    /// Turns until all of it is done, which wait for nothing.
    fn soon(&mut self, requests: &str) -> String {
        let mut input = requests.replace('\n', "\r\n").into_bytes();
        let (mut input, mut replies) = (&mut input[..], String::new());
        for _ in 0..50 {
            let (reply, state, consumed) = self.turn(input);
            assert!(!matches!(state, TurnState::Busy), "{requests} waits");
            replies += &reply;
            input = &mut input[consumed..];
            if input.is_empty() {
                return replies;
            }
        }
        panic!("{requests} takes more than 50 turns");
    }
}

/// A transaction of another worker may hold a shard for seconds: whoever looks at all shards is put back by it, or does not need it.
#[test]
fn issue_11_no_command_on_the_whole_keyspace_waits_for_a_shard_that_is_held() {
    let store = store();
    let mut client = Client::new(&store, 0);
    (0..50).for_each(|n| _ = client.run(&format!("SET key:{n} v\n")));
    let scan = |client: &mut Client, cursor: &mut String, seen: &mut usize| {
        let (reply, state, _) = client.turn(format!("SCAN {cursor} COUNT 1000\r\n").into_bytes().as_mut_slice());
        if matches!(state, TurnState::Busy) {
            assert_eq!(reply, "");
            return false;
        }
        *seen += reply.matches("key:").count();
        *cursor = reply.split("\r\n").nth(2).expect("a cursor").to_string();
        cursor != "0"
    };
    let (mut cursor, mut seen) = ("0".to_string(), 0);
    while_held(&store, "key:7", || {
        assert_eq!(client.soon("DBSIZE\n"), ":50\r\n");
        while scan(&mut client, &mut cursor, &mut seen) {}
        assert!(cursor != "0" && seen < 50, "{seen} keys up to {cursor}");
        assert!(!scan(&mut client, &mut cursor, &mut seen), "it does not pass");
        let draws = (0..2000).filter(|_| matches!(client.turn(&mut b"RANDOMKEY\r\n".to_vec()).1, TurnState::Busy));
        let busy = draws.count();
        assert!((1..1000).contains(&busy), "{busy} of 2000 draws fall on the shard");
        client.soon("MULTI\nDBSIZE\n");
        client.is_put_off("EXEC\n");
    });
    assert_eq!(client.run("EXEC\n"), "*1\r\n:50\r\n");
    while scan(&mut client, &mut cursor, &mut seen) {}
    assert_eq!((cursor.as_str(), seen), ("0", 50));
}

/// A transaction in which SORT follows no pattern holds the shards of its keys, and one that looks at all keys holds all shards:
/// neither needs a keyspace at rest.
#[test]
fn issue_11_a_transaction_that_reads_many_keys_does_not_run_alone() {
    let store = store();
    let mut client = Client::new(&store, 0);
    client.run("RPUSH l 3 1 2\nMSET w1 30 w2 20 w3 10\n");
    let sorted = "*3\r\n$1\r\n1\r\n$1\r\n2\r\n$1\r\n3\r\n";
    let plain = ["SORT l\n", "SORT_RO l LIMIT 0 3\n", "SORT l ASC\n"];
    while_held(&store, "w1", || {
        for sort in plain {
            assert_eq!(client.soon(&format!("MULTI\n{sort}EXEC\n")), format!("+OK\r\n+QUEUED\r\n*1\r\n{sorted}"));
        }
        client.soon("MULTI\nSORT l STORE to\nEXEC\n");
        client.soon("MULTI\nSORT l BY w*\n");
        client.is_put_off("EXEC\n");
        client.soon("DISCARD\n");
    });
    let inside = |worker: &mut StoreWorker, stay: &dyn Fn()| worker.inside(0, |_| stay());
    beside(&store, inside, || {
        let replies = client.soon("MULTI\nDBSIZE\nSORT l BY w*\nRANDOMKEY\nSCAN 0 COUNT 1000\nDEL w1\nDBSIZE\nEXEC\n");
        let (_, exec) = replies.split_once("*6\r\n").expect("six replies");
        assert!(exec.starts_with(":5\r\n*3\r\n$1\r\n3\r\n$1\r\n2\r\n$1\r\n1\r\n"), "{exec}");
        assert!(exec.ends_with(":1\r\n:4\r\n") && exec.contains("*2\r\n$1\r\n0\r\n*5\r\n"), "{exec}");
    });
    store.verify();
}

/// Transactions that will be long stand back for one who was refused beside such a one: by the number of their commands, or since
/// the last one of the same client was. Short ones do not.
#[test]
fn issue_11_long_transactions_stand_back_for_one_who_wants_to_be_alone() {
    let store = store();
    let (mut alone, mut slow, mut short) = (Client::new(&store, 0), Client::new(&store, 0), Client::new(&store, 2));
    let mut many = Client::new(&store, 2);
    for part in 0..50 {
        let members: Vec<String> = (0..1000).map(|n| format!("m{}", n * 50 + part)).collect();
        slow.run(&format!("RPUSH l {}\n", members.join(" ")));
    }
    slow.run("MULTI\nSORT l ALPHA LIMIT 0 1\nEXEC\nMULTI\nINCR slow\n");
    short.run("MULTI\nINCR short\n");
    many.run(&format!("MULTI\n{}", "INCR many\n".repeat(1024)));
    let inside = |worker: &mut StoreWorker, stay: &dyn Fn()| worker.inside(0, |_| stay());
    beside(&store, inside, || {
        let begun = Instant::now();
        for late in [&mut slow, &mut many] {
            let (reply, state, _) = alone.turn(&mut b"FLUSHALL\r\n".to_vec());
            assert!(matches!(state, TurnState::Busy) && reply.is_empty(), "{state:?}");
            let (reply, state, consumed) = late.turn(&mut b"EXEC\r\n".to_vec());
            // Whoever asks and does not come back is forgotten after 200 ms.
            let is_put_off = matches!(state, TurnState::Busy) && (reply.as_str(), consumed) == ("", 0);
            assert!(is_put_off || begun.elapsed() >= Duration::from_millis(200), "{state:?}");
        }
        assert_eq!(short.run("EXEC\n"), "*1\r\n:1\r\n");
    });
    assert_eq!(alone.run("FLUSHALL\n"), "+OK\r\n");
    assert_eq!(slow.run("EXEC\n"), "*1\r\n:1\r\n");
    assert!(many.run("EXEC\n").ends_with(":1024\r\n"));
}

#[test]
fn a_turn_ends_behind_a_long_command() {
    let store = store();
    let mut client = Client::new(&store, 0);
    for part in 0..50 {
        let members: Vec<String> = (0..1000).map(|n| format!("m{}", n * 50 + part)).collect();
        client.run(&format!("RPUSH l {}\n", members.join(" ")));
    }
    // Inside EXEC commands run whole.
    let mut input = "MULTI\r\nSORT l ALPHA LIMIT 0 1\r\nEXEC\r\n".repeat(5).into_bytes();
    let (mut rest, mut turns) = (&mut input[..], 0);
    while !rest.is_empty() {
        let (reply, _, consumed) = client.turn(rest);
        assert_eq!(reply.matches("m0").count(), 1, "one long command a turn: {reply}");
        rest = &mut rest[consumed..];
        turns += 1;
    }
    assert_eq!(turns, 5);
}

/// A client that watches `w`, which ends after 100 ms, and one on another worker.
fn watching() -> (Arc<Store>, Client, Client) {
    let store = store();
    let (mut a, b) = (Client::new(&store, 0), Client::new(&store, 1));
    assert_eq!(a.run("SET w 1 PX 100\nWATCH w\nMULTI\nSET done 1\n"), "+OK\r\n+OK\r\n+OK\r\n+QUEUED\r\n");
    (store, a, b)
}

const NOTHING_DONE: &str = "*-1\r\n:0\r\n";

#[test]
fn exec_before_a_watched_keys_time_runs() {
    let (_, mut a, mut b) = watching();
    b.background(99);
    assert_eq!(a.at(99, "EXEC\nEXISTS done\n"), "*1\r\n+OK\r\n:1\r\n");
}

/// The wheel of another worker, whose clock is ahead of the one that EXEC goes by.
#[test]
fn exec_finds_that_the_background_has_removed_a_watched_key() {
    for late in [50, 101] {
        let (store, mut a, mut b) = watching();
        a.background(50);
        // Whoever's the key's shard is, and this worker's as well.
        b.background(300);
        Client::new(&store, 2).background(300);
        a.background(300);
        assert_eq!((store.totals().expired, store.watched_keys()), (1, 0));
        assert_eq!(a.at(late, "EXEC\nEXISTS done\n"), NOTHING_DONE);
    }
}

#[test]
fn exec_itself_finds_that_a_watched_keys_time_has_come() {
    let (store, mut a, _) = watching();
    assert_eq!(a.at(101, "EXEC\nEXISTS done w\n"), NOTHING_DONE);
    assert_eq!((store.totals().expired, store.watched_keys()), (1, 0), "it is removed");
}

/// Its time comes while EXEC waits for a shard of another key.
#[test]
fn exec_that_found_a_shard_busy_looks_at_the_time_again() {
    let (store, mut a, mut b) = watching();
    let (held, is_held) = mpsc::channel();
    let (release, released) = mpsc::channel::<()>();
    thread::scope(|scope| {
        scope.spawn(move || {
            let mut tx = Tx::new(&store, b.worker.parts().1, 0);
            tx.hold(&[tx.shard_of_bytes(b"done")]);
            held.send(()).unwrap();
            released.recv().unwrap();
            tx.finish();
        });
        is_held.recv().unwrap();
        a.now_ms = NOW_MS + 99;
        let (reply, state, _) = a.turn(&mut b"EXEC\r\n".to_vec());
        assert!(matches!(state, TurnState::Busy) && reply.is_empty(), "{state:?}");
        release.send(()).unwrap();
    });
    assert_eq!(a.at(101, "EXEC\nEXISTS done\n"), NOTHING_DONE);
}

/// Another worker finds the key gone and makes a new one, the same as before; or only looks.
#[test]
fn a_watched_key_that_ended_and_was_made_again_is_another_one() {
    for other in ["SET w 1\n", "SET w 1 PX 100\n", "DEL w\n", "GET w\n", "INCR w\n", "RENAME v w\n", "COPY v w\n"] {
        let (_, mut a, mut b) = watching();
        b.at(0, "SET v 1\n");
        b.at(101, other);
        assert_eq!(a.at(50, "EXEC\nEXISTS done\n"), NOTHING_DONE, "{other}");
    }
}

/// Prolonged or made permanent in time: a change, as any.
#[test]
fn a_watched_key_whose_time_is_changed_is_touched() {
    for other in ["PEXPIRE w 1000\n", "PERSIST w\n", "GETEX w PERSIST\n", "GETEX w PX 9\n", "PEXPIREAT w 1\n"] {
        let (_, mut a, mut b) = watching();
        b.at(50, other);
        assert_eq!(a.at(60, "EXEC\nEXISTS done\n"), NOTHING_DONE, "{other}");
    }
}

/// A key whose time had ended when it was watched counts as absent then and later, whoever removes it.
#[test]
fn a_key_that_had_ended_when_it_was_watched_is_absent() {
    for (other, done) in [("DEL w\n", 1), ("GET w\n", 1), ("PING\n", 1), ("SET w 1\n", 0), ("APPEND w 1\n", 0)] {
        let store = store();
        let (mut a, mut b) = (Client::new(&store, 0), Client::new(&store, 1));
        a.run("SET w 1 PX 100\n");
        a.at(101, "WATCH w\nMULTI\nSET done 1\n");
        b.background(300);
        b.at(301, other);
        let reply = a.at(302, "EXEC\nEXISTS done\n");
        assert_eq!(reply, if done == 1 { "*1\r\n+OK\r\n:1\r\n" } else { NOTHING_DONE }, "{other}");
        assert_eq!(store.watched_keys(), 0);
    }
}

const ACCOUNTS: u64 = 12;
const START_SUM: i64 = 100 * ACCOUNTS as i64;
/// How long transfers are made, and for how long at most where few are done: the machine may be busy.
const ENOUGH: Duration = Duration::from_millis(700);
const LIMIT: Duration = Duration::from_secs(60);

/// Two workers move amounts between accounts, one under EXEC alone, one with WATCH; a third looks at all of them. Transactions
/// have a `wide` command in them, if any, for which the gate is held alone, or all shards.
fn transfers(wide: &str) {
    let seed = std::env::var("VARVE_SEED").ok().and_then(|s| s.parse().ok()).unwrap_or(20_261_121);
    println!("seed {seed}");
    let store = store();
    let stop = AtomicBool::new(false);
    let mut first = Client::new(&store, 0);
    for n in 0..ACCOUNTS {
        first.run(&format!("SET account:{n} 100\n"));
    }
    let (mut blind, careful) = (0u64, AtomicU64::new(0));
    thread::scope(|scope| {
        let second = scope.spawn(|| {
            let mut client = Client::new(&store, 1);
            let mut rng = Rng::seeded(seed + 1);
            while !stop.load(Relaxed) {
                careful.fetch_add(u64::from(careful_transfer(&mut client, &mut rng)), Relaxed);
            }
        });
        let reader = scope.spawn(|| {
            let mut client = Client::new(&store, 2);
            let all: Vec<String> = (0..ACCOUNTS).map(|n| format!("account:{n}")).collect();
            let gets: String = all.iter().map(|key| format!("GET {key}\n")).collect();
            while !stop.load(Relaxed) {
                assert_eq!(sum(&client.run(&format!("MGET {}\n", all.join(" ")))), START_SUM);
                let replies = client.run(&format!("MULTI\n{gets}{wide}EXEC\n"));
                let (_, exec) =
                    replies.split_once(&format!("*{}\r\n", ACCOUNTS + u64::from(!wide.is_empty()))).unwrap();
                assert_eq!(sum(exec), START_SUM);
            }
        });
        let mut rng = Rng::seeded(seed);
        let start = Instant::now();
        let is_enough = |blind| blind > 100 && careful.load(Relaxed) > 10 && start.elapsed() > ENOUGH;
        while !is_enough(blind) && start.elapsed() < LIMIT {
            let (from, to, amount) = (rng.below(ACCOUNTS), rng.below(ACCOUNTS), rng.below(9));
            let transfer = format!("DECRBY account:{from} {amount}\n{wide}INCRBY account:{to} {amount}\n");
            first.run(&format!("MULTI\n{transfer}EXEC\n"));
            blind += 1;
        }
        stop.store(true, Relaxed);
        second.join().unwrap();
        reader.join().unwrap();
    });
    let careful = careful.into_inner();
    assert!(blind > 100 && careful > 10, "{blind} and {careful} transfers");
    assert_eq!(store.watched_keys(), 0);
    store.verify();
}

/// Reads two accounts under WATCH and sets them anew, which loses no other's change; true if it was done.
fn careful_transfer(client: &mut Client, rng: &mut Rng) -> bool {
    let (from, to) = (rng.below(ACCOUNTS), rng.below(ACCOUNTS));
    if from == to {
        return false;
    }
    let read = client.run(&format!("WATCH account:{from} account:{to}\nMGET account:{from} account:{to}\n"));
    let values = numbers(&read);
    let (less, more) = (values[0] - 3, values[1] + 3);
    let reply = client.run(&format!("MULTI\nSET account:{from} {less}\nSET account:{to} {more}\nEXEC\n"));
    reply.ends_with("*2\r\n+OK\r\n+OK\r\n")
}

/// The numbers among bulk strings.
fn numbers(replies: &str) -> Vec<i64> {
    let mut lines = replies.split("\r\n");
    let mut found = Vec::new();
    while let Some(line) = lines.next() {
        if line.starts_with('$') {
            found.push(lines.next().unwrap().parse().unwrap());
        }
    }
    found
}

fn sum(replies: &str) -> i64 {
    numbers(replies).iter().sum()
}

#[test]
fn transfers_are_seen_whole() {
    transfers("");
}

#[test]
fn transfers_behind_the_closed_gate_are_seen_whole() {
    transfers("KEYS none\n");
}

#[test]
fn transfers_with_all_shards_held_are_seen_whole() {
    transfers("DBSIZE\n");
}

/// Issue 11: SORT BY and GET hold the shards of the keys that their patterns lead to, and no others.
#[test]
fn issue_11_sort_by_a_pattern_waits_for_no_other_shard() {
    let store = store();
    let (filled, wait_filled) = mpsc::channel();
    let (begin, wait_begin) = mpsc::channel::<()>();
    let (done, wait_done) = mpsc::channel();
    let sort = {
        let store = Arc::clone(&store);
        thread::spawn(move || {
            let mut client = Client::new(&store, 0);
            client.run("RPUSH l 3 1 2\nMSET w1 30 w2 20 w3 10 v1 one v2 two v3 three\n");
            filled.send(()).unwrap();
            wait_begin.recv().unwrap();
            done.send(client.run("SORT l BY w* GET v*\nSORT l BY w* GET # STORE to\nLRANGE to 0 -1\n")).unwrap();
        })
    };
    wait_filled.recv().unwrap();
    let used = ["l", "to", "w1", "w2", "w3", "v1", "v2", "v3"];
    let (taken, wait_taken) = mpsc::channel();
    let (let_go, wait_go) = mpsc::channel::<()>();
    let other = {
        let store = Arc::clone(&store);
        thread::spawn(move || {
            let mut worker = store.worker(1);
            let mut tx = Tx::new(&store, worker.parts().1, 0);
            let used = used.map(|key| tx.shard_of_bytes(key.as_bytes()));
            let others: Vec<u16> = (0..store.shard_count() as u16).filter(|id| !used.contains(id)).collect();
            tx.hold(&others);
            taken.send(()).unwrap();
            wait_go.recv().unwrap();
            tx.finish();
        })
    };
    wait_taken.recv().unwrap();
    begin.send(()).unwrap();
    let replies = wait_done.recv_timeout(Duration::from_secs(60));
    let_go.send(()).unwrap();
    other.join().unwrap();
    sort.join().unwrap();
    let expected = "*3\r\n$5\r\nthree\r\n$3\r\ntwo\r\n$3\r\none\r\n:3\r\n*3\r\n$1\r\n3\r\n$1\r\n2\r\n$1\r\n1\r\n";
    assert_eq!(replies.as_deref(), Ok(expected), "it does not wait for shards that it does not need");
}
