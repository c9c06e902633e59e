//! A stream of commands applied by one worker and by several: the same data, the same refusal.
//!
//! ```text
//!  random commands, some of several shards, in transactions, on the whole keyspace, refused
//!     --Router--> 1 worker    digest, messages, refusal   \
//!     --Router--> 2, 5        digest, messages, refusal   / equal      each worker on a thread of its own, stream cut anywhere
//!  and the journal of what was applied, applied by one worker, gives the same data again
//! ```

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use varve_base::rng::Rng;
use varve_commands::{commands, debug};
use varve_exec::CommandTable;
use varve_exec::apply::{Applier, ApplyWorker, Router};
use varve_exec::journal::Journal;
use varve_exec::notify::Events;
use varve_exec::stats::CommandStats;
use varve_exec::{Session, WideCtx};
use varve_protocol::{Args, Reply, Span};
use varve_store::{LogGeometry, Options, Store};

const NOW_MS: i64 = 1_795_000_000_000;
const STREAMS: u64 = 12;
const COMMANDS: usize = 3000;

fn put(stream: &mut Vec<u8>, words: &[&str]) {
    stream.extend_from_slice(format!("*{}\r\n", words.len()).as_bytes());
    for word in words {
        stream.extend_from_slice(format!("${}\r\n{word}\r\n", word.len()).as_bytes());
    }
}

/// A random command, with no error in it.
fn command(rng: &mut Rng, stream: &mut Vec<u8>) {
    let [s, t, l, m, h, z, y] = ["s", "s", "l", "l", "h", "z", "z"].map(|of| format!("{of}{}", rng.below(40)));
    let number = rng.below(1000).to_string();
    match rng.below(20) {
        0 => put(stream, &["SET", &s, &number]),
        1 => put(stream, &["APPEND", &s, &number]),
        2 => put(stream, &["MSET", &s, &number, &t, "pair", "s7", &number]),
        3 => put(stream, &["DEL", &s, &l]),
        4 => put(stream, &["COPY", &s, &t, "REPLACE"]),
        5 => put(stream, &["RPUSH", &l, &number, "x"]),
        6 => put(stream, &["LMOVE", &l, &m, "LEFT", "RIGHT"]),
        7 => put(stream, &["HSET", &h, &number, &s]),
        8 => put(stream, &["HDEL", &h, &number]),
        9 => put(stream, &["ZADD", &z, &number, &s]),
        10 => put(stream, &["ZUNIONSTORE", &z, "2", &z, &y]),
        11 => put(stream, &["PEXPIREAT", &s, "1796000000000"]),
        12 => put(stream, &["SELECT", &rng.below(3).to_string()]),
        13 if rng.below(20) == 0 => put(stream, &["SWAPDB", "0", "1"]),
        14 if rng.below(40) == 0 => put(stream, &["FLUSHDB"]),
        15 => put(stream, &["PING"]),
        16 => put(stream, &["set", &t, &"v".repeat(rng.below(3000) as usize)]),
        17 => put(stream, &["LTRIM", &l, "0", "9"]),
        18 => put(stream, &["SETRANGE", &t, &number, "in the middle"]),
        19 if rng.below(2) == 0 => put(stream, &[["PUBLISH", "SPUBLISH"][rng.below(2) as usize], &l, &number]),
        _ => put(stream, &["HSET", &h, "f", &number]),
    }
}

/// Commands and transactions; some streams have something in them that is refused.
fn stream(rng: &mut Rng) -> Vec<u8> {
    let mut stream = Vec::new();
    let bad = if rng.below(3) == 0 { rng.below(COMMANDS as u64) as usize } else { usize::MAX };
    let mut at = 0;
    while at < COMMANDS {
        if rng.below(12) == 0 {
            put(&mut stream, &["MULTI"]);
            (0..rng.below(5)).for_each(|_| command(rng, &mut stream));
            put(&mut stream, &[["EXEC", "DISCARD"][usize::from(rng.below(10) == 0)]]);
        } else {
            command(rng, &mut stream);
        }
        at += 1;
        if at == bad {
            // Several, so that more than one worker refuses one.
            for key in ["a", "b", "c", "d", "e", "f"] {
                match rng.below(4) {
                    0 => put(&mut stream, &["NONSENSE", key]),
                    1 => put(&mut stream, &["GET"]),
                    2 => put(&mut stream, &["SELECT", "99"]),
                    _ => {
                        put(&mut stream, &["SET", key, "text"]);
                        put(&mut stream, &["INCR", key]);
                    }
                }
            }
        }
    }
    stream
}

fn store(workers: usize) -> Arc<Store> {
    let geometry = LogGeometry { reserve_bytes: 8 << 30, ..LogGeometry::default() };
    Store::new(&Options { seed: 7, geometry, workers, shards: 256, ..Options::default() }).expect("an address range")
}

/// The messages of a stream, in the order in which listeners get them.
#[derive(Clone, Default)]
struct Messages(Arc<Mutex<Vec<String>>>);

impl Events for Messages {
    fn publish(&mut self, _shard: bool, channel: &[u8], message: &[u8]) -> u64 {
        let [channel, message] = [channel, message].map(String::from_utf8_lossy);
        self.0.lock().expect("nobody panics with it").push(format!("{channel} {message}"));
        0
    }
}

/// The outcome of a stream: the digest of all data, the messages, and the journal.
struct Applied {
    digest: Vec<u8>,
    messages: Vec<String>,
    journal: Vec<u8>,
}

/// Applies a stream that comes in pieces cut anywhere; what comes of it, or why it was refused.
fn apply(workers: usize, stream: &[u8], rng: &mut Rng) -> Result<Applied, String> {
    let (store, applier, ended) = (store(workers), Applier::new(workers), AtomicBool::new(false));
    let messages = Messages::default();
    let journal = Journal::new(workers);
    store.set_effect_sink(journal.clone());
    store.keep_effects(true);
    let table = CommandTable::new(commands());
    applier.begin(1000);
    let result = std::thread::scope(|scope| {
        for number in 0..workers {
            let (store, table, applier, ended, messages) = (&store, &table, &applier, &ended, messages.clone());
            scope.spawn(move || {
                let mut worker = store.worker(number);
                let mut share = ApplyWorker::new(number, CommandStats::new(commands().ids()), None, NOW_MS);
                share.set_events(&mut worker, messages);
                while !ended.load(Relaxed) {
                    if share.step(applier, &mut worker, table, NOW_MS).is_none() {
                        std::thread::yield_now();
                    }
                }
                worker.park();
            });
        }
        let (mut router, mut waiting, mut at, mut offset) = (Router::new(), Vec::new(), 0, 1000);
        let mut routed = Ok(());
        while at < stream.len() && routed.is_ok() && applier.wait_for_room() {
            let most = [10, 1000, 200_000][rng.below(3) as usize];
            let end = stream.len().min(at + 1 + rng.below(most) as usize);
            waiting.extend_from_slice(&stream[at..end]);
            at = end;
            let before = waiting.len();
            let pushed = router.push((&applier, &store, &table), offset, &mut waiting);
            offset += pushed.bytes as u64;
            waiting.drain(..pushed.bytes.min(waiting.len()));
            assert!(waiting.is_empty() || waiting.len() == before - pushed.bytes);
            routed = pushed.fault.map_or(Ok(()), Err);
            assert!(applier.applied() <= offset);
        }
        let result = applier.finish().and(routed);
        if result.is_ok() {
            assert_eq!((applier.applied(), offset), (1000 + stream.len() as u64, 1000 + stream.len() as u64));
        }
        ended.store(true, Relaxed);
        result
    });
    store.verify();
    let chunks = journal.take(Duration::ZERO, &mut Vec::new()).chunks;
    let mut journal = Vec::new();
    chunks.iter().flat_map(|chunk| chunk.parts()).for_each(|part| journal.extend_from_slice(&part));
    let messages = messages.0.lock().expect("nobody panics with it").clone();
    result.map(|()| Applied { digest: digest(&store), messages, journal })
}

fn digest(store: &Arc<Store>) -> Vec<u8> {
    let mut worker = store.worker(0);
    let (mut out, mut session) = (Reply::new(), Session::new(1, NOW_MS, true));
    let words = [b"DEBUG".as_slice(), b"DIGEST"];
    let mut spans = Vec::new();
    let mut at = 0;
    for word in words {
        spans.push(Span { start: at, len: word.len() });
        at += word.len();
    }
    let request = words.concat();
    let _alone = store.gate().exclusive(0);
    worker.set_now(NOW_MS);
    let args = Args::new(&request, &spans);
    let mut ctx = WideCtx { row: &debug::ROW, args, store, worker: &mut worker, session: &mut session, out: &mut out };
    debug::run(&mut ctx).expect("a digest");
    out.to_vec()
}

#[test]
fn several_workers_apply_what_one_applies() {
    let seed = std::env::var("VARVE_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(13);
    println!("VARVE_SEED={seed}");
    let (mut rng, mut refused) = (Rng::seeded(seed), 0);
    for _ in 0..STREAMS {
        let stream = stream(&mut rng);
        let one = apply(1, &stream, &mut rng).map(|applied| (applied.digest, applied.messages));
        for workers in [2, 5] {
            let several = apply(workers, &stream, &mut rng);
            let journal = several.as_ref().ok().map(|several| several.journal.clone());
            assert_eq!(several.map(|several| (several.digest, several.messages)), one, "{workers} workers");
            if let (Some(journal), Ok((digest, _))) = (journal, &one) {
                let again = apply(1, &journal, &mut rng).expect("nothing refused").digest;
                assert!(again == *digest, "the journal of {workers} workers");
            }
        }
        refused += usize::from(one.is_err());
    }
    println!("{refused} of {STREAMS} streams were refused");
}

/// A request without lengths was rewritten when it was parsed, and another one when a lane parsed it again: a replica of a primary that
/// sends one ended.
#[test]
fn a_request_without_lengths_ends_the_stream() {
    let mut whole = Vec::new();
    put(&mut whole, &["SET", "a", "1"]);
    for line in ["SET k \"v\\nDEL q\"\r\n", "SET k v\r\n", "PING\r\n"] {
        for before in [&b""[..], b"\r\n", &whole] {
            for workers in [1, 3] {
                let stream = [before, line.as_bytes()].concat();
                let result = apply(workers, &stream, &mut Rng::seeded(3)).map(|applied| applied.messages);
                let fault = result.expect_err("it is refused");
                assert!(fault.contains("Protocol error"), "{line:?}: {fault}");
            }
        }
    }
}
