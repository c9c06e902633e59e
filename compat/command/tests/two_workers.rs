//! Transactions of two workers on one store: busy shards stepped by hand, and transfers that nobody sees half done.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use varve_base::rng::Rng;
use varve_command::batch::{Batch, TurnState};
use varve_command::stats::CommandStats;
use varve_command::{Bodies, CommandTable, Session};
use varve_protocol::{Limits, Parser, Reply};
use varve_store::{Geometry, Options, Store, Tx, Worker};

const NOW_MS: i64 = 1_795_000_000_000;

/// One worker with one connection.
struct Client {
    worker: Worker,
    batch: Batch,
    parser: Parser,
    session: Session,
    commands: CommandTable,
    out: Reply,
}

impl Client {
    fn new(store: &Arc<Store>, id: usize) -> Client {
        Client {
            worker: store.worker(id),
            batch: Batch::new(CommandStats::new()),
            parser: Parser::new(Limits::default()),
            session: Session::new(id as u64 + 1, NOW_MS, true),
            commands: CommandTable::new(),
            out: Reply::new(),
        }
    }

    /// One turn over inline requests; what it replied, how it ended, and the bytes that it took.
    fn turn(&mut self, input: &mut [u8]) -> (String, TurnState, usize) {
        let Client { worker, batch, parser, session, commands, out } = self;
        let mark = out.mark();
        let turn = batch.turn(worker, commands, parser, session, NOW_MS, input, &Bodies::default(), out);
        let reply = String::from_utf8_lossy(out.since(mark)).into_owned();
        out.truncate(mark);
        (reply, turn.state, turn.consumed)
    }

    /// Turns until all of it is done.
    fn run(&mut self, requests: &str) -> String {
        let mut input = requests.replace('\n', "\r\n").into_bytes();
        let mut input = &mut input[..];
        let mut replies = String::new();
        while !input.is_empty() {
            let (reply, _, consumed) = self.turn(input);
            replies += &reply;
            input = &mut input[consumed..];
        }
        replies
    }
}

fn store() -> Arc<Store> {
    let geometry = Geometry { reserve_bytes: 8 << 30, ..Geometry::default() };
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
            let mut tx = Tx::new(&store, &mut worker.local, 0);
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

#[test]
fn exec_that_finds_a_shard_busy_too_often_waits_for_it() {
    let store = store();
    let mut client = Client::new(&store, 0);
    client.run("MULTI\nINCR a\nINCR b\n");
    let (taken, wait_taken) = mpsc::channel();
    let other = {
        let store = Arc::clone(&store);
        thread::spawn(move || {
            let mut worker = store.worker(1);
            let mut tx = Tx::new(&store, &mut worker.local, 0);
            let shard = tx.shard_of(store.key(0, b"a").hash);
            tx.hold(&[shard]);
            taken.send(()).unwrap();
            thread::sleep(Duration::from_millis(50));
            tx.finish();
        })
    };
    wait_taken.recv().unwrap();
    let turns = (1..).find(|_| client.turn(&mut b"EXEC\r\n".to_vec()).0 == "*2\r\n:1\r\n:1\r\n").unwrap();
    assert!(turns <= 4, "{turns} turns");
    other.join().unwrap();
}

const ACCOUNTS: u64 = 12;
const START_SUM: i64 = 100 * ACCOUNTS as i64;

/// Two workers move amounts between accounts, one under EXEC alone, one with WATCH; a third looks at all of them. With
/// `alone`, transactions have a command in them for which the gate is held alone.
fn transfers(alone: bool) {
    let seed = std::env::var("VARVE_SEED").ok().and_then(|s| s.parse().ok()).unwrap_or(20_261_121);
    println!("seed {seed}");
    let store = store();
    let stop = AtomicBool::new(false);
    let mut first = Client::new(&store, 0);
    for n in 0..ACCOUNTS {
        first.run(&format!("SET account:{n} 100\n"));
    }
    let wide = if alone { "DBSIZE\n" } else { "" };
    let (mut blind, mut careful) = (0u64, 0u64);
    thread::scope(|scope| {
        let second = scope.spawn(|| {
            let mut client = Client::new(&store, 1);
            let mut rng = Rng::seeded(seed + 1);
            let mut done = 0;
            while !stop.load(Relaxed) {
                done += u64::from(careful_transfer(&mut client, &mut rng));
            }
            done
        });
        let reader = scope.spawn(|| {
            let mut client = Client::new(&store, 2);
            let all: Vec<String> = (0..ACCOUNTS).map(|n| format!("account:{n}")).collect();
            let gets: String = all.iter().map(|key| format!("GET {key}\n")).collect();
            while !stop.load(Relaxed) {
                assert_eq!(sum(&client.run(&format!("MGET {}\n", all.join(" ")))), START_SUM);
                let replies = client.run(&format!("MULTI\n{gets}{wide}EXEC\n"));
                let (_, exec) = replies.split_once(&format!("*{}\r\n", ACCOUNTS + u64::from(alone))).unwrap();
                assert_eq!(sum(exec), START_SUM);
            }
        });
        let mut rng = Rng::seeded(seed);
        let until = Instant::now() + Duration::from_millis(700);
        while Instant::now() < until {
            let (from, to, amount) = (rng.below(ACCOUNTS), rng.below(ACCOUNTS), rng.below(9));
            let transfer = format!("DECRBY account:{from} {amount}\n{wide}INCRBY account:{to} {amount}\n");
            first.run(&format!("MULTI\n{transfer}EXEC\n"));
            blind += 1;
        }
        stop.store(true, Relaxed);
        careful = second.join().unwrap();
        reader.join().unwrap();
    });
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
    transfers(false);
}

#[test]
fn transfers_behind_the_closed_gate_are_seen_whole() {
    transfers(true);
}
