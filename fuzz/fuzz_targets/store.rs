//! Bytes become commands of two connections on two workers, run through the executor on segments of 4 KB, four shards and
//! a limit; between them the clock moves, background steps run, and what can be known of a reply is checked. At the end
//! log, index, counts and wheels are verified against each other.
//!
//! One byte chooses shards, limit and policy; then five bytes a command: its group, what, a key, another key, a number.
//! Not here: the replies of commands on lists, hashes, sets and sorted sets (the differential test compares them), and what
//! they do to the data (`world` compares that).

#![no_main]

use std::sync::Arc;
use std::time::Duration;

use libfuzzer_sys::fuzz_target;
use varve_commands::commands;
use varve_exec::batch::{Batch, TurnState};
use varve_exec::stats::CommandStats;
use varve_exec::{Blocked, CommandTable, LargeArguments, Session};
use varve_protocol::{Parser, Reply};
use varve_store::{Limits, LogGeometry, Options, PerType, Policy, SmallLimits, Store, StoreWorker, Type};

const COMMANDS_MAX: usize = 600;
const START_MS: i64 = 1_795_000_000_000;

fuzz_target!(|bytes: &[u8]| {
    let [shape, commands @ ..] = bytes else { return };
    let mut world = World::new(*shape);
    for command in commands.chunks_exact(5).take(COMMANDS_MAX) {
        world.step(command[0], command[1], command[2], command[3], usize::from(command[4]));
    }
    world.finish();
});

/// One worker with one connection.
struct Seat {
    worker: StoreWorker,
    batch: Batch,
    parser: Parser,
    session: Session,
    /// It waits for a key, until it is served or wants something else.
    blocked: Option<Blocked>,
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
        let geometry = LogGeometry {
            segment_bytes: 4096,
            piece_bytes: 256 << (shape % 3),
            extent_min_bytes: 1024,
            release_bytes: 4096,
            reserve_bytes: 64 << 20,
        };
        let shards = 1 << (shape / 4 % 3);
        let options =
            Options { databases: 4, workers: 2, shards, first_buckets: 2, seed: 7, geometry, ..Options::default() };
        let store = Store::new(&options).expect("an address range");
        let limit = [0, 64 << 10, 256 << 10, 1 << 20][usize::from(shape / 16 % 4)];
        store.set_limit(limit, if shape >= 128 { Policy::AllKeysRandom } else { Policy::NoEviction });
        let seats = (0..2)
            .map(|id| Seat {
                worker: store.worker(id),
                batch: Batch::new(CommandStats::new(commands().ids())),
                parser: Parser::new(varve_protocol::RequestLimits::default()),
                session: Session::new(id as u64, START_MS, true),
                blocked: None,
                pending: Vec::new(),
            })
            .collect();
        World { store, table: CommandTable::new(commands()), seats, now_ms: START_MS }
    }

    fn step(&mut self, group: u8, what: u8, one: u8, two: u8, number: usize) {
        let seat = usize::from(what >> 7);
        match what & 63 {
            60 => self.now_ms += number as i64,
            61 => drop(self.seats[seat].worker.background(self.now_ms, Duration::from_micros(number as u64))),
            62 => self.run(1 - seat),
            63 if number < 8 => self.settle(),
            59 if group % 8 == 7 => self.limits(number),
            what => {
                let words = match group % 4 {
                    0 => words(what, one, two, number, self.now_ms),
                    1 => lists(what, one, two, number),
                    2 => hashes_and_sets(what, one, two, number),
                    _ => sorted_sets(what, one, two, number),
                };
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
        if what & 64 == 0 || number.is_multiple_of(2) {
            self.run(seat);
        }
    }

    /// The limits at which encodings change, as CONFIG SET changes them.
    fn limits(&self, number: usize) {
        let few = number as u64 % 5;
        self.store.shapes().set(&Limits {
            list_fill: [-1, 1, 2, 8, -2, -5][number % 6],
            list_depth: few / 2,
            small: PerType::new(|ty| SmallLimits {
                entries: few * if ty == Type::Set { 3 } else { 2 },
                value_bytes: 64 >> few,
            }),
            ..Limits::default()
        });
        for ty in [Type::Hash, Type::Set, Type::Zset] {
            self.store.shapes().small(ty).set_outgrown_bytes([0, 40, 300, 8 << 10][number / 5 % 4]);
        }
    }

    /// Runs what a connection has sent, up to a command that blocks it.
    fn run(&mut self, seat: usize) {
        if self.seats[seat].pending.is_empty() {
            return;
        }
        self.unblock(seat);
        let mut input = std::mem::take(&mut self.seats[seat].pending);
        let mut rest = input.as_mut_slice();
        let mut out = Reply::new();
        while !rest.is_empty() {
            let Seat { worker, batch, parser, session, .. } = &mut self.seats[seat];
            let turn = batch.turn(
                worker,
                &self.table,
                parser,
                session,
                self.now_ms,
                rest,
                &mut LargeArguments::default(),
                &mut out,
            );
            rest = &mut rest[turn.consumed..];
            let served: Vec<_> = batch.take_served().into_iter().flatten().collect();
            match turn.state {
                TurnState::NeedInput { .. } | TurnState::Yield | TurnState::Published(_) | TurnState::Server { .. } => {
                }
                // Its commands of the server's are nobody's here.
                TurnState::Exec { .. } => session.leave_transaction(worker),
                TurnState::Blocked(blocked) => {
                    self.seats[seat].blocked = Some(blocked);
                    rest = &mut [];
                }
                state => panic!("one thread, whole requests: {state:?}"),
            }
            for served in served {
                let Seat { worker, blocked, .. } = &mut self.seats[served.worker];
                let waited = blocked.take().expect("only who waits is served");
                assert!(!waited.cancel(), "who is served is claimed");
                waited.forget(worker);
            }
        }
    }

    /// The time of a waiting connection is up.
    fn unblock(&mut self, seat: usize) {
        let Seat { worker, blocked, .. } = &mut self.seats[seat];
        if let Some(blocked) = blocked.take() {
            assert!(blocked.cancel(), "nobody has served it");
            blocked.forget(worker);
        }
    }

    fn settle(&mut self) {
        (0..2).for_each(|seat| self.run(seat));
        self.seats.iter_mut().for_each(|seat| seat.worker.park());
        self.store.verify();
    }

    fn finish(mut self) {
        self.settle();
        (0..2).for_each(|seat| self.unblock(seat));
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

/// An element: integers and words of all sizes.
fn element(n: usize) -> Vec<u8> {
    match n % 256 {
        n @ ..128 => (n * n).to_string().into_bytes(),
        n @ ..240 => vec![b'e'; n - 127],
        n => vec![n as u8; 40 * (n - 230)],
    }
}

/// Some elements, or many.
fn elements(two: u8, number: usize) -> impl Iterator<Item = Vec<u8>> {
    let many = if number < 252 { 1 + number % 7 } else { 150 };
    (0..many).map(move |n| element(usize::from(two) + n * (number | 1)))
}

/// A command from a line: `$a` and `$b` are keys, `$e` an element, `$n` a number, `$m` one that may be negative, `$*` elements,
/// `$%` pairs, `$#` pairs of score and member.
fn spelled(line: &str, one: u8, two: u8, number: usize) -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    for word in line.split(' ') {
        match word {
            "$a" => all.push(key(one)),
            "$b" => all.push(key(two)),
            "$e" => all.push(element(usize::from(two))),
            "$n" => all.push((number % 100).to_string().into_bytes()),
            "$m" => all.push((number as i64 - 128).to_string().into_bytes()),
            "$*" => all.extend(elements(two, number)),
            "$%" => all.extend(elements(two, number).flat_map(|e| [e.clone(), e])),
            "$#" => all.extend(elements(two, number).flat_map(|e| [(e.len() % 5).to_string().into_bytes(), e])),
            word => all.push(word.as_bytes().to_vec()),
        }
    }
    all
}

fn lists(what: u8, one: u8, two: u8, number: usize) -> Vec<Vec<u8>> {
    const LINES: [&str; 25] = [
        "RPUSH $a $*",
        "LPUSH $a $*",
        "RPUSHX $a $*",
        "LPOP $a",
        "RPOP $a",
        "LPOP $a $n",
        "RPOP $a $n",
        "LSET $a $m $e",
        "LINSERT $a BEFORE 4 $e",
        "LINSERT $a AFTER $e $e",
        "LREM $a $m $e",
        "LTRIM $a $m -3",
        "LMOVE $a $b LEFT RIGHT",
        "RPOPLPUSH $a $b",
        "LMPOP 2 $a $b RIGHT COUNT 3",
        "BLMOVE $a $b LEFT RIGHT 0",
        "BLPOP $a $b 0",
        "LRANGE $a $m -1",
        "LINDEX $a $m",
        "LPOS $a $e COUNT 0",
        "LLEN $a",
        "SORT $a ALPHA STORE $b",
        "RENAME $a $b",
        "COPY $a $b REPLACE",
        "DEL $a",
    ];
    spelled(LINES[usize::from(what) % LINES.len()], one, two, number)
}

fn hashes_and_sets(what: u8, one: u8, two: u8, number: usize) -> Vec<Vec<u8>> {
    const LINES: [&str; 32] = [
        "HSET $a $%",
        "HSET $a $% f $e",
        "HSETNX $a $e $e",
        "HDEL $a $*",
        "HINCRBY $a $n $m",
        "HINCRBYFLOAT $a $n 1.5",
        "HGETALL $a",
        "HMGET $a $*",
        "HRANDFIELD $a $m WITHVALUES",
        "HSCAN $a 0 COUNT 3",
        "HLEN $a",
        "SADD $a $*",
        "SADD $a $n $m 5 6",
        "SADD $a $*",
        "SREM $a $*",
        "SMOVE $a $b $e",
        "SPOP $a",
        "SPOP $a $n",
        "SRANDMEMBER $a $m",
        "SMISMEMBER $a $*",
        "SMEMBERS $a",
        "SINTERSTORE $a $b $a",
        "SUNIONSTORE $a $a $b",
        "SUNIONSTORE $b $a",
        "SDIFFSTORE $a $a $b",
        "SINTERCARD 2 $a $b",
        "SSCAN $a 0",
        "SORT $a ALPHA STORE $b",
        "RENAME $a $b",
        "COPY $a $b REPLACE",
        "MEMORY USAGE $a",
        "UNLINK $a $b",
    ];
    spelled(LINES[usize::from(what) % LINES.len()], one, two, number)
}

fn sorted_sets(what: u8, one: u8, two: u8, number: usize) -> Vec<Vec<u8>> {
    const LINES: [&str; 32] = [
        "ZADD $a $#",
        "ZADD $a $#",
        "ZADD $a NX $#",
        "ZADD $a XX CH $#",
        "ZADD $a GT $#",
        "ZADD $a INCR $m $e",
        "ZINCRBY $a 0.5 $e",
        "ZREM $a $*",
        "ZREM $a $*",
        "ZREMRANGEBYRANK $a $n -2",
        "ZREMRANGEBYSCORE $a (1 $n",
        "ZREMRANGEBYLEX $a [1 (5",
        "ZPOPMIN $a $n",
        "ZPOPMAX $a",
        "BZPOPMIN $a $b 0",
        "ZMPOP 2 $a $b MAX COUNT 3",
        "ZRANGE $a $m -1 WITHSCORES",
        "ZRANGE $a (1 +inf BYSCORE LIMIT 1 5",
        "ZRANGE $a + - BYLEX REV",
        "ZRANGESTORE $b $a 0 $m",
        "ZRANK $a $e",
        "ZMSCORE $a $*",
        "ZCOUNT $a -inf $n",
        "ZRANDMEMBER $a $m",
        "ZUNIONSTORE $a 2 $a $b WEIGHTS 2 1",
        "ZINTERSTORE $b 2 $a $b",
        "ZDIFFSTORE $b 2 $a $b",
        "ZSCAN $a 0",
        "SORT $a ALPHA STORE $b",
        "RENAME $a $b",
        "COPY $a $b REPLACE",
        "DEL $a",
    ];
    spelled(LINES[usize::from(what) % LINES.len()], one, two, number)
}
