//! Bytes become commands of two connections on two workers, run through the executor on segments of 4 KB, four shards and
//! a limit; between them the clock moves, background steps run, and what can be known of a reply is checked. At the end
//! log, index, counts and wheels are verified against each other.
//!
//! One byte chooses shards, limit and policy; then four bytes a command: what, a key, another key, a number.

#![no_main]

use std::sync::Arc;
use std::time::Duration;

use libfuzzer_sys::fuzz_target;
use varve_command::batch::{Batch, TurnState};
use varve_command::stats::CommandStats;
use varve_command::{Bodies, CommandTable, Session};
use varve_protocol::{Limits, Parser, Reply};
use varve_store::{Geometry, Options, Policy, Store, Worker};

const COMMANDS_MAX: usize = 600;
const START_MS: i64 = 1_795_000_000_000;

fuzz_target!(|bytes: &[u8]| {
    let [shape, commands @ ..] = bytes else { return };
    let mut world = World::new(*shape);
    for command in commands.chunks_exact(4).take(COMMANDS_MAX) {
        world.step(command[0], command[1], command[2], usize::from(command[3]));
    }
    world.finish();
});

/// One worker with one connection.
struct Seat {
    worker: Worker,
    batch: Batch,
    parser: Parser,
    session: Session,
    /// Requests that are sent together.
    pending: Vec<u8>,
}

struct World {
    store: Arc<Store>,
    table: CommandTable,
    seats: Vec<Seat>,
    now_ms: i64,
}

impl World {
    fn new(shape: u8) -> World {
        let geometry = Geometry {
            segment_bytes: 4096,
            piece_bytes: 256 << (shape % 3),
            run_min_bytes: 1024,
            release_bytes: 4096,
            reserve_bytes: 64 << 20,
        };
        let shards = 1 << (shape / 4 % 3);
        let options = Options { databases: 4, workers: 2, shards, first_buckets: 2, seed: 7, geometry };
        let store = Store::new(&options).expect("an address range");
        let limit = [0, 64 << 10, 256 << 10, 1 << 20][usize::from(shape / 16 % 4)];
        store.set_limit(limit, if shape >= 128 { Policy::AllKeysRandom } else { Policy::NoEviction });
        let seats = (0..2)
            .map(|id| Seat {
                worker: store.worker(id),
                batch: Batch::new(CommandStats::new()),
                parser: Parser::new(Limits::default()),
                session: Session::new(id as u64, START_MS, true),
                pending: Vec::new(),
            })
            .collect();
        World { store, table: CommandTable::new(), seats, now_ms: START_MS }
    }

    fn step(&mut self, what: u8, one: u8, two: u8, number: usize) {
        let seat = usize::from(what >> 7);
        match what & 63 {
            60 => self.now_ms += number as i64,
            61 => drop(self.seats[seat].worker.background(self.now_ms, Duration::from_micros(number as u64))),
            62 => self.run(1 - seat),
            63 if number < 8 => self.settle(),
            what => {
                let words = words(what, one, two, number, self.now_ms);
                let pending = &mut self.seats[seat].pending;
                pending.extend_from_slice(format!("*{}\r\n", words.len()).as_bytes());
                for word in &words {
                    pending.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
                    pending.extend_from_slice(word);
                    pending.extend_from_slice(b"\r\n");
                }
            }
        }
        // One in four waits for company: a pipeline.
        if what & 64 == 0 || number % 2 == 0 {
            self.run(seat);
        }
    }

    /// Runs what a connection has sent.
    fn run(&mut self, seat: usize) {
        let Seat { worker, batch, parser, session, pending } = &mut self.seats[seat];
        let mut input = std::mem::take(pending);
        let mut rest = input.as_mut_slice();
        let mut out = Reply::new();
        while !rest.is_empty() {
            let turn = batch.turn(worker, &self.table, parser, session, self.now_ms, rest, &Bodies::default(), &mut out);
            match turn.state {
                TurnState::NeedInput { .. } | TurnState::Yield | TurnState::Host { .. } => {}
                // Its commands of the server's are nobody's here.
                TurnState::Exec(_) => session.leave_transaction(worker),
                state => panic!("one thread, whole requests: {state:?}"),
            }
            rest = &mut rest[turn.consumed..];
        }
    }

    fn settle(&mut self) {
        (0..2).for_each(|seat| self.run(seat));
        self.seats.iter_mut().for_each(|seat| seat.worker.park());
        self.store.verify();
    }

    fn finish(mut self) {
        self.settle();
        for seat in &mut self.seats {
            for _ in 0..20 {
                let _ = seat.worker.background(self.now_ms + 1_000_000, Duration::from_millis(1));
            }
        }
        self.settle();
    }
}

/// A key: mostly short, few of them; some long enough for a piece or a run of their own.
fn key(n: u8) -> Vec<u8> {
    let len = match n {
        250.. => 1500,
        240.. => 300,
        _ => 1 + usize::from(n % 3) * 7,
    };
    let mut key = vec![b'k'; len];
    key[0] = n;
    key
}

fn value(number: usize) -> Vec<u8> {
    let len = match number {
        252.. => 6000,
        240.. => 1200,
        _ => number,
    };
    vec![b'0' + (number % 10) as u8; len]
}

fn words(what: u8, one: u8, two: u8, number: usize, now_ms: i64) -> Vec<Vec<u8>> {
    let (a, b, v, n) = (key(one), key(two), value(number), number.to_string().into_bytes());
    let at = (now_ms + number as i64 - 40).to_string().into_bytes();
    let db = (number % 4).to_string().into_bytes();
    let w = |text: &str| text.as_bytes().to_vec();
    match what {
        0..=7 => vec![w("SET"), a, v],
        8 => vec![w("SET"), a, v, w("PX"), (1 + number).to_string().into_bytes()],
        9 => vec![w("SET"), a, v, w("KEEPTTL"), w("GET")],
        10 => vec![w("SET"), a, v, w("PXAT"), at],
        11 => vec![w("SETNX"), a, v],
        12 => vec![w("GETSET"), a, v],
        13 => vec![w("MSET"), a, v.clone(), b, v],
        14 => vec![w("MSETNX"), a, v.clone(), b, v],
        15..=17 => vec![w("APPEND"), a, v],
        18 => vec![w("SETRANGE"), a, (number * 9).to_string().into_bytes(), b],
        19 => vec![w("GET"), a],
        20 => vec![w("MGET"), a, b],
        21 => vec![w("GETDEL"), a],
        22 => vec![w("GETEX"), a, w("PXAT"), at],
        23 => vec![w("GETEX"), a, w("PERSIST")],
        24 => vec![w("INCRBY"), a, n],
        25 => vec![w("INCRBYFLOAT"), a, w("1.5")],
        26..=29 => vec![w("DEL"), a],
        30 => vec![w("UNLINK"), a, b],
        31 | 32 => vec![w("RENAME"), a, b],
        33 => vec![w("RENAMENX"), a, b],
        34 => vec![w("COPY"), a, b, w("DB"), db, w("REPLACE")],
        35 => vec![w("COPY"), a, b],
        36 => vec![w("MOVE"), a, db],
        37 | 38 => vec![w("PEXPIREAT"), a, at],
        39 => vec![w("PEXPIRE"), a, n, w("GT")],
        40 => vec![w("PERSIST"), a],
        41 => vec![w("PTTL"), a],
        42 => vec![w("OBJECT"), w("ENCODING"), a],
        43 => vec![w("SCAN"), n, w("COUNT"), w("3")],
        44 => vec![w("KEYS"), w("*")],
        45 => vec![w("RANDOMKEY")],
        46 => vec![w("DBSIZE")],
        47 | 48 => vec![w("SELECT"), db],
        49 => vec![w("SWAPDB"), db, w("1")],
        50 => vec![w("FLUSHDB")],
        51 if number < 16 => vec![w("FLUSHALL")],
        52 => vec![w("MEMORY"), w("USAGE"), a],
        53 => vec![w("LCS"), a, b, w("LEN")],
        54 => vec![w("TOUCH"), a, b],
        55 => vec![w("GETRANGE"), a, w("-5"), n],
        _ => vec![w("EXISTS"), a, b],
    }
}
