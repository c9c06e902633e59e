//! The storm: 4 workers, 8 clients, every command at once on segments of 64 KB, at the memory limit, with tables that grow
//! and shrink; VARVE_STRESS_SECONDS of it under each policy (10). At the end DEBUG VERIFY and a clean shutdown.
//!
//! ```text
//! storm   allkeys-random: anything goes, FLUSHALL too; every request must be answered, and answered in form
//! siege   noeviction: nobody flushes what others keep; a client's own keys must say what it last wrote, shared counters
//!         (keys, fields, scores), a shared list and a shared stream with consumers must hold the sum of what was acknowledged, and SCAN must show every
//!         key that stays; transactions, waiting clients, channels and caches keep what they promise (sessions/mod.rs)
//! ```
//! The limits at which encodings change are changed all the time, and one save follows the other: each of its files is
//! whole. Long collections (giants/mod.rs) are changed, renamed, swapped and removed while saves show them. An append-only file is kept, and rewritten between two saves: another server that loads it has the same data.
//!
//! Replies of eight clients have no one order: their legality is tests/client_histories.rs's.

#![forbid(unsafe_code)]

mod giants;
mod sessions;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use sessions::{LISTENERS, Session, Sums};
use varve_rdb::{Event, Reader};
use varve_testkit::{Client, Launch, Random, RespValue, Server, seed};
use varve_tests::collections::Types;
use varve_tests::fill::may_make_minus_zero;
use varve_tests::generate::{Generator, Kind};
use varve_tests::kept::{await_rewrite, compare_with_file};

const CLIENTS: u64 = 8;
const LIMIT_BYTES: u64 = 8 << 20;
const KEYS: usize = 4000;
const COUNTERS: usize = 6;
const STEADY: usize = 40;

type Request = Vec<Vec<u8>>;

fn seconds() -> u64 {
    std::env::var("VARVE_STRESS_SECONDS").ok().and_then(|text| text.parse().ok()).unwrap_or(10)
}

fn request(line: &str) -> Request {
    line.split(' ').map(|word| word.as_bytes().to_vec()).collect()
}

fn start(policy: &str) -> Server {
    let launch = Launch::varve()
        .config("io-threads 4")
        .config("shards 16")
        .config("varve-segment-bytes 65536")
        .config("varve-piece-bytes 4096")
        .config("varve-run-min-bytes 8192")
        .config("client-output-buffer-limit pubsub 4mb 0 0")
        .config("appendonly yes")
        .config(format!("maxmemory {LIMIT_BYTES}"))
        .config(format!("maxmemory-policy {policy}"));
    launch.start().expect("varve-server starts")
}

/// State that the clients share.
#[derive(Default)]
struct Shared {
    stop: AtomicBool,
    commands: AtomicU64,
    errors: AtomicU64,
    refused: AtomicU64,
    raised: [AtomicU64; COUNTERS],
    /// Sums of all that was added to fields and to scores.
    fields: AtomicU64,
    scores: AtomicU64,
    /// Sums of the numbers pushed and popped.
    pushed: AtomicU64,
    popped: AtomicU64,
    /// Sums of the numbers added to the stream, and acknowledged.
    pushed_work: AtomicU64,
    done_work: AtomicU64,
    sums: Sums,
}

/// A client that fails ends the others too; its panic is the test's when the scope is left.
struct StopOnPanic<'a>(&'a AtomicBool);

impl Drop for StopOnPanic<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.store(true, Ordering::Relaxed);
        }
    }
}

/// Runs `work` on eight connections for the time; verifies and shuts down; the number of commands.
fn run(name: &str, policy: &str, work: fn(&mut Player), check: fn(&Server, &Shared)) {
    let seed = seed::seed(name);
    let mut server = start(policy);
    let shared = Shared::default();
    let length = Duration::from_secs(seconds());
    let keeps = policy == "noeviction";
    let start = Barrier::new(CLIENTS as usize + if keeps { LISTENERS } else { 0 });
    thread::scope(|scope| {
        let (server, shared, start) = (&server, &shared, &start);
        for id in 0..CLIENTS {
            scope.spawn(move || {
                let _guard = StopOnPanic(&shared.stop);
                let mut player = Player::new(server, shared, seed, id);
                player.session = keeps.then(|| Session::new(server, id));
                start.wait();
                while !shared.stop.load(Ordering::Relaxed) {
                    work(&mut player);
                }
                if let Some(session) = player.session.take() {
                    session.finish(&mut player.client, &shared.sums);
                }
            });
        }
        if keeps {
            for _ in 0..LISTENERS {
                scope.spawn(move || {
                    let _guard = StopOnPanic(&shared.stop);
                    sessions::listen(&mut server.client(), CLIENTS, || {
                        start.wait();
                    })
                });
            }
        } else {
            scope.spawn(move || {
                let _guard = StopOnPanic(&shared.stop);
                sessions::overhear(server, &shared.stop);
            });
        }
        scope.spawn(move || {
            let _guard = StopOnPanic(&shared.stop);
            saves(server, &shared.stop);
        });
        let end = Instant::now() + length;
        while Instant::now() < end && !shared.stop.load(Ordering::Relaxed) {
            thread::sleep(Duration::from_millis(50));
        }
        shared.stop.store(true, Ordering::Relaxed);
    });
    assert!(!server.ended(), "the server ended:\n{}", server.log());
    check(&server, &shared);
    compare_with_file(&server);
    reload(&server);
    check(&server, &shared);
    let info = server.client().cmd("INFO all").text();
    let figure = |name: &str| info.lines().find_map(|line| line.strip_prefix(name)).unwrap_or("?").trim().to_string();
    println!(
        "{name}: {} commands, {} errors, {} of them for memory, evicted {}, expired {}, used {} of {LIMIT_BYTES}, peak resident {} MB",
        shared.commands.load(Ordering::Relaxed),
        shared.errors.load(Ordering::Relaxed),
        shared.refused.load(Ordering::Relaxed),
        figure("evicted_keys:"),
        figure("expired_keys:"),
        figure("used_memory:"),
        server.memory().expect("its memory").peak >> 20,
    );
    finish(&mut server);
}

/// One save after the other, and a rewrite of the append-only file behind each; each file of a save is whole, and no key of it
/// comes twice.
fn saves(server: &Server, stop: &AtomicBool) {
    let (mut client, file) = (server.client(), server.dir().join("dump.rdb"));
    let mut files = 0;
    while !stop.load(Ordering::Relaxed) {
        let reply = client.cmd("BGSAVE").text();
        assert!(reply.contains("ackground sav"), "{reply}");
        while client.cmd("INFO persistence").text().contains("rdb_bgsave_in_progress:1") {
            thread::sleep(Duration::from_millis(2));
        }
        // FLUSHALL cancels a save.
        if let Ok(bytes) = std::fs::read(&file) {
            check_file(&bytes);
            files += 1;
        }
        let reply = client.cmd("BGREWRITEAOF").text();
        assert!(reply.contains("ackground append only file rewriting"), "{reply}");
        await_rewrite(&mut client);
    }
    assert!(files > 0, "a file was written");
}

fn check_file(bytes: &[u8]) {
    let (mut reader, mut db, mut keys) = (Reader::new(bytes), 0, BTreeSet::new());
    loop {
        match reader.next_event().expect("a file that can be read") {
            Event::SelectDb(number) => db = number,
            Event::Key(head) => assert!(keys.insert((db, head.key.to_vec())), "a key comes twice"),
            Event::End => return,
            _ => {}
        }
    }
}

/// Saves everything and loads it.
fn reload(server: &Server) {
    let mut client = server.client();
    assert_eq!(client.cmd("DEBUG RELOAD").text(), "OK", "{}", server.log());
}

/// Log against index, then the end.
fn finish(server: &mut Server) {
    let mut client = server.client();
    let verified = client.call(&["DEBUG", "VERIFY"]);
    assert_eq!(verified.map(|reply| reply.text()).unwrap_or_else(|e| format!("{e}: {}", server.log())), "OK");
    client.queue(&["SHUTDOWN", "NOSAVE"]);
    client.flush().expect("sent");
    assert_eq!(server.wait(Duration::from_secs(20)), Some(true), "the end is clean:\n{}", server.log());
}

/// One client: a connection, random numbers, and what it knows that its own keys hold.
struct Player<'s> {
    server: &'s Server,
    client: Client,
    random: Random,
    id: u64,
    shared: &'s Shared,
    generator: Generator,
    /// Mostly growing, then mostly shrinking.
    growing: bool,
    own: Vec<Option<Vec<u8>>>,
    /// The fields that its own hash should hold.
    fields: BTreeMap<Vec<u8>, Vec<u8>>,
    batch: Vec<Request>,
    /// Of a client that keeps something.
    session: Option<Session>,
}

impl<'s> Player<'s> {
    fn new(server: &'s Server, shared: &'s Shared, seed: u64, id: u64) -> Player<'s> {
        let mut client = server.client();
        let resp = 2 + (id % 2);
        client.call(&["HELLO", &resp.to_string()]).expect("HELLO");
        Player {
            server,
            client,
            random: Random::new(seed.wrapping_mul(31).wrapping_add(id)),
            id,
            shared,
            generator: Generator::new(seed.wrapping_mul(97).wrapping_add(id), resp as u8, Types::ALL),
            growing: true,
            own: vec![None; STEADY],
            fields: BTreeMap::new(),
            batch: Vec::new(),
            session: None,
        }
    }

    /// Sends the batch, gets as many replies.
    fn exchange(&mut self) -> Vec<RespValue> {
        let batch = std::mem::take(&mut self.batch);
        for request in &batch {
            self.client.queue(request);
        }
        self.client.flush().expect("sent");
        let mut replies = Vec::with_capacity(batch.len());
        for request in &batch {
            let reply = self.client.read();
            replies.push(
                reply.unwrap_or_else(|error| {
                    panic!("{}: {error}\n{}", varve_tests::run::line(request), self.server.log())
                }),
            );
        }
        self.shared.commands.fetch_add(batch.len() as u64, Ordering::Relaxed);
        let errors = replies.iter().filter(|reply| reply.is_error()).count();
        self.shared.errors.fetch_add(errors as u64, Ordering::Relaxed);
        let refused = replies.iter().filter(|reply| reply.is_error() && reply.text().starts_with("OOM")).count();
        self.shared.refused.fetch_add(refused as u64, Ordering::Relaxed);
        replies
    }

    fn key(&mut self) -> Vec<u8> {
        format!("key:{}", self.random.below(KEYS)).into_bytes()
    }

    fn value(&mut self) -> Vec<u8> {
        let len = match self.random.below(400) {
            0 => self.random.below(200_000),
            1..=4 => self.random.below(20_000),
            _ => self.random.below(300),
        };
        vec![b'a' + (self.random.below(26) as u8); len]
    }

    /// One command on the keys that all clients share, in a database that it may not select.
    fn shared_command(&mut self) -> Request {
        let (key, other) = (self.key(), self.key());
        let text = |what: &str| what.as_bytes().to_vec();
        let number = |n: usize| n.to_string().into_bytes();
        let write = if self.growing { 60 } else { 10 };
        if self.random.below(100) < write {
            let value = self.value();
            return match self.random.below(6) {
                0 => vec![text("SET"), key, value, text("PX"), number(1 + self.random.below(2000))],
                1 => vec![text("APPEND"), key, value],
                2 => vec![text("MSET"), key, value.clone(), other, value],
                3 => vec![text("SETRANGE"), key, number(self.random.below(3000)), value],
                4 => vec![text("MSETNX"), key, value.clone(), other, value],
                _ => vec![text("SET"), key, value],
            };
        }
        match self.random.below(14) {
            0 => vec![text("RENAME"), key, other],
            1 => vec![text("COPY"), key, other, text("DB"), number(self.random.below(4)), text("REPLACE")],
            2 => vec![text("MOVE"), key, number(self.random.below(4))],
            3 => vec![text("PEXPIRE"), key, number(self.random.below(500))],
            4 => vec![text("PERSIST"), key],
            5 | 6 => vec![text("GET"), key],
            7 => vec![text("MGET"), key, other],
            8 => vec![text("GETDEL"), key],
            9 => vec![text("COPY"), key, other, text("REPLACE")],
            10 => vec![text("EXPIRE"), key, number(100), text("NX")],
            11 => vec![text("GETEX"), key, text("PX"), number(1 + self.random.below(300))],
            _ => vec![text("UNLINK"), key, other],
        }
    }

    /// A command that concerns all keys, or none.
    fn wide_command(&mut self) -> Request {
        match self.random.below(20) {
            16 => request("CLIENT PAUSE 2 WRITE"),
            17 => request("LATENCY HISTOGRAM"),
            18 => request("PUBSUB CHANNELS *"),
            19 => request(&format!("CONFIG SET tracking-table-max-keys {}", self.random.below(200))),
            12 => request(&format!("CONFIG SET list-max-listpack-size {}", self.random.below(12) as i64 - 5)),
            13 => request(&format!("CONFIG SET hash-max-listpack-entries {}", self.random.below(100))),
            14 => request(&format!("CONFIG SET zset-max-listpack-entries {}", self.random.below(100))),
            15 => request(&format!("CONFIG SET list-compress-depth {}", self.random.below(3))),
            0 => request("KEYS key:1*"),
            1 => request("SWAPDB 1 2"),
            2 => request("SWAPDB 3 1"),
            3 if self.random.one_in(20) => request("FLUSHDB"),
            4 => request("RANDOMKEY"),
            5 => request("DBSIZE"),
            6 => request("INFO"),
            7 => request("CLIENT LIST"),
            8 => request("MEMORY STATS"),
            9 => request(&format!("CONFIG SET maxmemory {}", LIMIT_BYTES - (self.random.below(3) << 20) as u64)),
            10 => request("SLOWLOG GET"),
            _ => request("OBJECT ENCODING key:7"),
        }
    }

    /// A whole SCAN; the keys that it showed.
    fn scan(&mut self, pattern: &str) -> Vec<Vec<u8>> {
        let (mut cursor, mut keys) = (b"0".to_vec(), Vec::new());
        loop {
            let count = (1 + self.random.below(300)).to_string().into_bytes();
            let head = [b"SCAN".to_vec(), cursor, b"MATCH".to_vec(), pattern.into(), b"COUNT".to_vec(), count];
            self.batch.push(head.to_vec());
            let replies = self.exchange();
            let [next, list] = replies[0].elements().unwrap_or_else(|| panic!("SCAN: {:?}", replies[0])) else {
                panic!("SCAN: {:?}", replies[0])
            };
            keys.extend(list.elements().expect("keys").iter().filter_map(|key| key.bytes().map(<[u8]>::to_vec)));
            cursor = next.bytes().expect("a cursor").to_vec();
            if cursor == b"0" {
                return keys;
            }
        }
    }
}

/// A CONFIG SET that is not about encodings could lift the limit.
fn lifts(args: &[Vec<u8>]) -> bool {
    let encodings = ["list-", "hash-max-", "set-max-", "zset-max-"];
    let about = |name: &str| args.get(2).is_some_and(|word| word.to_ascii_lowercase().starts_with(name.as_bytes()));
    args[0].eq_ignore_ascii_case(b"config") && !encodings.into_iter().any(about)
}

/// A turn of a client that may do anything.
fn anything(p: &mut Player) {
    if p.id < 3 {
        let steps = (0..64).map(|_| p.generator.next_step()).filter(|step| step.kind == Kind::Call);
        let steps = steps.filter(|step| !may_make_minus_zero(&step.args));
        // Changing the protocol in the midst of a pipeline is the differential test's.
        p.batch = steps
            .map(|step| step.args)
            .filter(|args| !args[0].eq_ignore_ascii_case(b"hello") && !lifts(args))
            .collect();
    } else {
        p.growing ^= p.random.one_in(150);
        let most = if p.random.one_in(10) { 300 } else { 20 };
        let count = 1 + p.random.below(most);
        for _ in 0..count {
            let next = match p.random.below(100) {
                0 => p.wide_command(),
                1 => request(&format!("SELECT {}", p.random.below(4))),
                2 if p.random.one_in(200) => request("FLUSHALL"),
                3 | 4 => giants::command(&mut p.random, p.growing),
                _ => p.shared_command(),
            };
            p.batch.push(next);
        }
        if p.random.one_in(5) {
            let key = p.key();
            sessions::wrap(&mut p.random, &mut p.batch, &key);
        }
    }
    let batch = p.batch.clone();
    for (request, reply) in batch.iter().zip(p.exchange()) {
        let name = request[0].to_ascii_uppercase();
        let ok = reply == RespValue::Simple(b"QUEUED".to_vec())
            || match name.as_slice() {
                b"KEYS" | b"MGET" if !reply.is_error() => reply.elements().is_some(),
                b"APPEND" | b"UNLINK" | b"DBSIZE" => reply.integer().is_some() || reply.is_error(),
                _ => true,
            };
        assert!(ok, "{}: {reply:?}", varve_tests::run::line(request));
    }
    if p.random.one_in(40) {
        p.scan("*");
    }
}

/// A turn of a client that keeps something: what it wrote must stay.
fn keeping(p: &mut Player) {
    p.growing ^= p.random.one_in(100);
    p.batch.push(request("SELECT 0"));
    p.exchange();
    for _ in 0..8 {
        match p.random.below(9) {
            0 => raise(p),
            6..=8 => act(p),
            1 => raise_part(p),
            2 if p.random.one_in(2) => queue(p),
            2 => work(p),
            3 => own_field(p),
            _ => own_key(p),
        }
    }
    if p.random.one_in(60) {
        shown(p);
    }
    p.batch.push(request(&format!("SELECT {}", 1 + p.random.below(3))));
    for _ in 0..p.random.below(60) {
        let next = match p.random.below(60) {
            0 => p.wide_command(),
            1 => giants::command(&mut p.random, p.growing),
            _ => p.shared_command(),
        };
        // The shared databases are 1 to 3: what is sent to 0 would stand among what clients keep.
        if !(next.iter().any(|word| word == b"DB" || word == b"MOVE") && next.contains(&b"0".to_vec())) {
            p.batch.push(next);
        }
    }
    p.exchange();
}

/// Something that concerns more than data.
fn act(p: &mut Player) {
    let Some(session) = &mut p.session else { return };
    if let Some(raised) = session.act(&mut p.client, &mut p.random, &p.shared.sums, COUNTERS) {
        p.shared.raised[raised].fetch_add(1, Ordering::Relaxed);
    }
    p.shared.commands.fetch_add(3, Ordering::Relaxed);
}

fn raise(p: &mut Player) {
    let n = p.random.below(COUNTERS);
    p.batch.push(request(&format!("INCR counter:{n}")));
    if p.exchange()[0].integer().is_some() {
        p.shared.raised[n].fetch_add(1, Ordering::Relaxed);
    }
}

/// Raises a field of a hash or a score of a sorted set that all share; now and then it goes to another name meanwhile.
fn raise_part(p: &mut Player) {
    let (part, hash, elsewhere) = (p.random.below(2000), p.random.one_in(2), p.random.one_in(2));
    let (verb, name) = if hash { ("HINCRBY", "tally:hash") } else { ("ZINCRBY", "tally:zset") };
    let other = format!("{name} elsewhere");
    let names = if elsewhere { [other.as_str(), name] } else { [name, other.as_str()] };
    let words =
        if hash { vec![format!("field {part}"), "1".into()] } else { vec!["1".into(), format!("member {part}")] };
    let bytes = |text: &str| text.as_bytes().to_vec();
    p.batch
        .push([verb, names[0]].into_iter().map(bytes).chain(words.iter().map(|word| bytes(word))).collect::<Vec<_>>());
    if p.random.one_in(10) {
        p.batch.push([b"RENAMENX".to_vec(), bytes(names[0]), bytes(names[1])].to_vec());
    }
    if !p.exchange()[0].is_error() {
        let sum = if hash { &p.shared.fields } else { &p.shared.scores };
        sum.fetch_add(1, Ordering::Relaxed);
    }
}

/// Pushes numbers to a list that all share, or pops some, or moves one round.
fn queue(p: &mut Player) {
    let (grow, left) = (p.growing && p.random.below(10) < 7 || p.random.one_in(4), p.random.one_in(2));
    if p.random.one_in(3) {
        p.batch.push(request(if left { "LMOVE queue queue LEFT RIGHT" } else { "RPOPLPUSH queue queue" }));
        p.exchange();
    } else if grow {
        let numbers: Vec<u64> = (0..1 + p.random.below(5)).map(|_| p.random.next_u64() >> 30).collect();
        let words: Vec<String> = numbers.iter().map(|n| n.to_string()).collect();
        p.batch.push(request(&format!("{} queue {}", if left { "LPUSH" } else { "RPUSH" }, words.join(" "))));
        if !p.exchange()[0].is_error() {
            p.shared.pushed.fetch_add(numbers.iter().sum(), Ordering::Relaxed);
        }
    } else {
        let count = 1 + p.random.below(9);
        p.batch.push(request(&format!("{} queue {count}", if left { "LPOP" } else { "RPOP" })));
        p.shared.popped.fetch_add(sum(&p.exchange()[0]), Ordering::Relaxed);
    }
}

/// Adds numbers to a stream that all share, or takes some as a consumer of its one group: new ones, or those that others have
/// left. An entry counts for whoever has acknowledged it, and is removed then.
fn work(p: &mut Player) {
    let (consumer, count) = (format!("c{}", p.id), 1 + p.random.below(9));
    let verb = p.random.below(8);
    if verb < 3 && p.growing {
        let number = p.random.next_u64() >> 30;
        p.batch.push(request("XGROUP CREATE work g 0 MKSTREAM"));
        p.batch.push(request(&format!("XADD work * n {number}")));
        if !p.exchange()[1].is_error() {
            p.shared.pushed_work.fetch_add(number, Ordering::Relaxed);
        }
        return;
    }
    p.batch.push(request(&match verb {
        3 => format!("XAUTOCLAIM work g {consumer} 0 0 COUNT {count}"),
        4 => format!("XREADGROUP GROUP g {consumer} COUNT {count} CLAIM 0 STREAMS work >"),
        _ => format!("XREADGROUP GROUP g {consumer} COUNT {count} STREAMS work >"),
    }));
    let mut entries = Vec::new();
    entries_of(&p.exchange().remove(0), &mut entries);
    // Some are left pending, for others.
    entries.retain(|_| !p.random.one_in(5));
    for (id, _) in &entries {
        let ends =
            if p.random.one_in(2) { format!("XACKDEL work g DELREF IDS 1 {id}") } else { format!("XACK work g {id}") };
        p.batch.push(request(&ends));
        p.batch.push(request(&format!("XDEL work {id}")));
    }
    let replies = p.exchange();
    for ((_, number), reply) in entries.iter().zip(replies.chunks(2)) {
        let acknowledged = reply[0].integer() == Some(1)
            || reply[0].elements().is_some_and(|fates| fates.first().and_then(RespValue::integer) == Some(1));
        if acknowledged {
            p.shared.done_work.fetch_add(*number, Ordering::Relaxed);
        }
    }
}

/// The entries of a reply of any shape that have one field with a number: their IDs and numbers.
fn entries_of(reply: &RespValue, found: &mut Vec<(String, u64)>) {
    if let RespValue::Map(pairs) = reply {
        return pairs.iter().for_each(|(_, value)| entries_of(value, found));
    }
    let Some(parts) = reply.elements() else { return };
    if let [id, fields, ..] = parts
        && let (Some([_, number]), Some(_)) = (fields.elements(), id.bytes())
        && let Ok(number) = number.text().parse()
    {
        return found.push((id.text(), number));
    }
    parts.iter().for_each(|part| entries_of(part, found));
}

/// The sum of a list of numbers.
fn sum(reply: &RespValue) -> u64 {
    reply.elements().unwrap_or_default().iter().map(|n| n.text().parse::<u64>().expect("a number")).sum()
}

/// Changes the client's own hash, and looks at all of it now and then.
fn own_field(p: &mut Player) {
    let hash = format!("hash:{}", p.id).into_bytes();
    let (field, value) = (format!("field {}", p.random.below(300)).into_bytes(), p.value());
    let value = value[..value.len().min(2000)].to_vec();
    if p.random.one_in(30) {
        p.batch.push(vec![b"HGETALL".to_vec(), hash]);
        let reply = p.exchange().remove(0);
        let parts = reply.elements().map(<[RespValue]>::to_vec).unwrap_or_default();
        let words: Vec<Vec<u8>> = parts.iter().filter_map(|part| part.bytes().map(<[u8]>::to_vec)).collect();
        let found: BTreeMap<_, _> = words.chunks_exact(2).map(|pair| (pair[0].clone(), pair[1].clone())).collect();
        assert!(reply.elements().is_none() || found == p.fields, "the hash of client {}: {reply:?}", p.id);
    } else if p.growing || p.random.one_in(3) {
        p.batch.push(vec![b"HSET".to_vec(), hash, field.clone(), value.clone()]);
        if !p.exchange()[0].is_error() {
            p.fields.insert(field, value);
        }
    } else {
        p.batch.push(vec![b"HDEL".to_vec(), hash, field.clone()]);
        let there = p.fields.remove(&field).is_some();
        assert_eq!(p.exchange()[0].integer(), Some(i64::from(there)), "HDEL of client {}", p.id);
    }
}

fn own_name(id: u64, n: usize) -> Vec<u8> {
    format!("own:{id}:{n}").into_bytes()
}

/// Changes or reads one of the client's own keys, and compares.
fn own_key(p: &mut Player) {
    let n = p.random.below(STEADY);
    let (name, value) = (own_name(p.id, n), p.value());
    let known = p.own[n].clone();
    let verb = p.random.below(8);
    let command: Request = match verb {
        0 => vec![b"SET".to_vec(), name, value.clone()],
        1 => vec![b"SET".to_vec(), name, value.clone(), b"EX".to_vec(), b"1000".to_vec()],
        2 => vec![b"APPEND".to_vec(), name, value[..value.len().min(50)].to_vec()],
        3 => vec![b"EXPIRE".to_vec(), name, b"500".to_vec()],
        4 => vec![b"PERSIST".to_vec(), name],
        5 if p.random.one_in(4) => vec![b"DEL".to_vec(), name],
        6 => vec![b"GETSET".to_vec(), name, value.clone()],
        _ => vec![b"GET".to_vec(), name],
    };
    p.batch.push(command.clone());
    let reply = p.exchange().remove(0);
    if reply.is_error() {
        assert!(reply.text().starts_with("OOM"), "{}: {reply:?}", varve_tests::run::line(&command));
        return;
    }
    match command[0].as_slice() {
        b"SET" => p.own[n] = Some(value),
        b"APPEND" => {
            let whole = [known.unwrap_or_default(), command[2].clone()].concat();
            assert_eq!(reply.integer(), Some(whole.len() as i64), "{}", varve_tests::run::line(&command));
            p.own[n] = Some(whole).filter(|w| w.len() < 400_000);
            if p.own[n].is_none() {
                p.batch.push(vec![b"DEL".to_vec(), own_name(p.id, n)]);
                p.exchange();
            }
        }
        b"DEL" => p.own[n] = None,
        b"GETSET" | b"GET" => {
            let same = reply.bytes() == known.as_deref() && reply.is_null() == known.is_none();
            assert!(same, "{}: {reply:?}, not {:?}", varve_tests::run::line(&command), known.map(|v| v.len()));
            if command[0] == b"GETSET" {
                p.own[n] = Some(value);
            }
        }
        _ => {}
    }
}

/// SCAN and KEYS show each of the client's own keys; SCAN of one that nobody changes never shows another's.
fn shown(p: &mut Player) {
    let pattern = format!("own:{}:*", p.id);
    let mut scanned = p.scan(&pattern);
    scanned.sort();
    scanned.dedup();
    p.batch.push(request(&format!("KEYS {pattern}")));
    let replies = p.exchange();
    let keys = replies[0].elements().expect("KEYS");
    let mut keys: Vec<Vec<u8>> = keys.iter().filter_map(|key| key.bytes().map(<[u8]>::to_vec)).collect();
    keys.sort();
    let mut expected: Vec<Vec<u8>> = (0..STEADY).filter(|&n| p.own[n].is_some()).map(|n| own_name(p.id, n)).collect();
    expected.sort();
    assert_eq!((&scanned, &keys), (&expected, &expected), "SCAN and KEYS of {pattern}");
}

fn counters_hold(server: &Server, shared: &Shared) {
    let mut client = server.client();
    sessions::hold(&mut client, &shared.sums);
    for (n, raised) in shared.raised.iter().enumerate() {
        let reply = client.cmd(&format!("GET counter:{n}"));
        let found = reply.text().parse().unwrap_or(0_u64);
        assert_eq!(found, raised.load(Ordering::Relaxed), "an update of counter {n} was lost or made twice");
    }
    let mut both = |command: &str| {
        let [one, two] = ["", " elsewhere"].map(|end| {
            let words: Vec<Vec<u8>> = command.split(',').map(|w| w.replace('~', end).into_bytes()).collect();
            client.call(&words).expect("a reply")
        });
        sum(&one) + sum(&two)
    };
    assert_eq!(both("HVALS,tally:hash~"), shared.fields.load(Ordering::Relaxed), "sum of the fields");
    assert_eq!(
        both("LRANGE,queue~,0,-1") + shared.popped.load(Ordering::Relaxed),
        shared.pushed.load(Ordering::Relaxed)
    );
    let mut left = Vec::new();
    entries_of(&client.cmd("XRANGE work - +"), &mut left);
    let left: u64 = left.iter().map(|(_, number)| number).sum();
    assert_eq!(left + shared.done_work.load(Ordering::Relaxed), shared.pushed_work.load(Ordering::Relaxed), "work");
    let scores: u64 = ["tally:zset", "tally:zset elsewhere"]
        .map(|name| {
            let reply = client.call(&["ZRANGE", name, "0", "-1", "WITHSCORES"]).expect("a reply");
            let words: Vec<String> = reply.elements().unwrap_or_default().iter().map(RespValue::text).collect();
            words.chunks_exact(2).map(|pair| pair[1].parse::<u64>().expect("a score")).sum::<u64>()
        })
        .iter()
        .sum();
    assert_eq!(scores, shared.scores.load(Ordering::Relaxed), "sum of the scores");
}

#[test]
fn storm() {
    run("storm", "allkeys-random", anything, |_, _| {});
}

#[test]
fn siege() {
    run("siege", "noeviction", keeping, counters_hold);
}
