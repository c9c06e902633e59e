//! The soak: long at the memory limit, while the policy of eviction, the formula of reclaim and defragmentation change.
//!
//! ```text
//! players   each keeps strings (to 3 MB, which grow in place), a hash, a list, a set and a sorted set beside a model of them,
//!           and writes, grows, expires and deletes what all share, more than the limit takes
//! director  another policy each while; two databases of copies are swapped and flushed while saves are under way; under
//!           allkeys-* what is kept may go, so what a player knows holds only from after such a time on
//! end       every kept byte compared, and what the append-only file has; DEBUG VERIFY; all keys deleted: what is used then is
//!           what was used at the start
//! ```
//! VARVE_SOAK_SECONDS is how long (3). With VARVE_SOAK_JUDGE set the server's own histograms of background slices and lock
//! holds must have a p99.99 of 500 us at most; VARVE_SOAK_UNDER are words to start the server with, as `chrt -f 1`, since
//! what a busy machine takes from a thread counts as well. `cargo xtask soak` sets the first two.

#![forbid(unsafe_code)]

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::thread;
use std::time::{Duration, Instant};

use varve_testkit::{Client, Launch, Random, RespValue, Server, seed};
use varve_tests::kept::compare_with_file;

const PLAYERS: u64 = 4;
const LIMIT_BYTES: u64 = 128 << 20;
/// Keys that all share: strings, and collections of each kind.
const FILL: usize = 400_000;
const SHARED: usize = 60;
/// Strings that each player keeps.
const STRINGS: usize = 20;
const STRING_MAX: usize = 3 << 20;
/// Microseconds that a slice or a lock hold may take; one in ten thousand may take longer.
const JUDGED_US: f64 = 500.0;
/// Bytes that may be in use beyond those at the start, once every key is gone: tables that keep a size, buffers.
const LEFT_BYTES_MAX: u64 = 1 << 20;

type Request = Vec<Vec<u8>>;
/// The asking player's check of an answer.
type Check = Box<dyn FnOnce(&mut Model, &RespValue)>;

fn words(parts: &[&[u8]]) -> Request {
    parts.iter().map(|part| part.to_vec()).collect()
}

/// State that all threads share.
struct Stage {
    stop: AtomicBool,
    /// Odd while keys that do not expire may be evicted.
    lossy: AtomicU64,
    commands: AtomicU64,
    refused: AtomicU64,
}

/// A player that fails ends the others too.
struct StopOnPanic<'a>(&'a AtomicBool);

impl Drop for StopOnPanic<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.store(true, SeqCst);
        }
    }
}

/// The values that a player's keys should hold.
#[derive(Default)]
struct Model {
    strings: BTreeMap<usize, Vec<u8>>,
    hash: BTreeMap<Vec<u8>, Vec<u8>>,
    list: VecDeque<Vec<u8>>,
    set: BTreeSet<Vec<u8>>,
    zset: BTreeMap<Vec<u8>, i64>,
}

struct Player<'s> {
    client: Client,
    random: Random,
    id: u64,
    stage: &'s Stage,
    model: Model,
    /// `lossy` as it was when the model began, None if the model has to begin anew.
    since: Option<u64>,
    growing: bool,
}

fn int(want: i64) -> Check {
    Box::new(move |_, reply| assert_eq!(reply.integer(), Some(want)))
}

impl<'s> Player<'s> {
    fn new(server: &Server, stage: &'s Stage, seed: u64, id: u64) -> Player<'s> {
        let random = Random::new(seed.wrapping_mul(31).wrapping_add(id));
        Player { client: server.client(), random, id, stage, model: Model::default(), since: None, growing: true }
    }

    fn name(&self, what: &str) -> Vec<u8> {
        format!("kept:{}:{what}", self.id).into_bytes()
    }

    fn string_name(&self, n: usize) -> Vec<u8> {
        self.name(&n.to_string())
    }

    /// All keys that the player keeps.
    fn names(&self) -> Vec<Vec<u8>> {
        let collections = ["hash", "list", "set", "zset"].map(|what| self.name(what));
        (0..STRINGS).map(|n| self.string_name(n)).chain(collections).collect()
    }

    fn exchange(&mut self, batch: &[Request]) -> Vec<RespValue> {
        batch.iter().for_each(|request| self.client.queue(request));
        self.client.flush().expect("sent");
        let replies: Vec<RespValue> = batch.iter().map(|_| self.client.read().expect("a reply")).collect();
        self.stage.commands.fetch_add(batch.len() as u64, SeqCst);
        let refused = replies.iter().filter(|reply| is_refusal(reply)).count();
        self.stage.refused.fetch_add(refused as u64, SeqCst);
        replies
    }

    /// Something of the player's own, then some of what all share.
    fn turn(&mut self) {
        let lossy = self.stage.lossy.load(SeqCst);
        if lossy % 2 == 1 {
            self.since = None;
        } else if self.since != Some(lossy) {
            let doomed: Request = std::iter::once(b"UNLINK".to_vec()).chain(self.names()).collect();
            self.exchange(&[doomed]);
            (self.model, self.since) = (Model::default(), Some(lossy));
        }
        let (request, check) = self.own();
        let mut batch = vec![request];
        self.growing ^= self.random.one_in(400);
        for _ in 0..self.random.below(40) {
            let next = self.shared();
            batch.push(next);
        }
        let replies = self.exchange(&batch);
        if self.since.is_none() || self.stage.lossy.load(SeqCst) != lossy {
            self.since = None;
        } else if !is_refusal(&replies[0]) {
            let text = format!("{} gives {:.200?}", varve_tests::run::line(&batch[0]), replies[0]);
            assert!(!replies[0].is_error(), "{text}");
            let model = &mut self.model;
            let told = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| check(model, &replies[0])));
            assert!(told.is_ok(), "{text}");
        }
    }

    /// A command on what the player keeps, and what its answer must be.
    fn own(&mut self) -> (Request, Check) {
        match self.random.below(8) {
            0..=3 => self.own_string(),
            4 => self.own_hash(),
            5 => self.own_list(),
            6 => self.own_set(),
            _ => self.own_zset(),
        }
    }

    fn own_string(&mut self) -> (Request, Check) {
        let n = self.random.below(STRINGS);
        let (name, old) = (self.string_name(n), self.model.strings.get(&n).cloned().unwrap_or_default());
        let number = |n: usize| n.to_string().into_bytes();
        let (full, len) = (old.len() > STRING_MAX, old.len() as i64);
        match self.random.below(10) {
            0 if !full => {
                let most = if self.random.one_in(4) { 1 << 20 } else { 5000 };
                let value = self.bytes(most);
                let request = vec![b"SET".to_vec(), name, value.clone()];
                (request, Box::new(move |model, _| _ = model.strings.insert(n, value)))
            }
            1..=3 if !full => {
                let tail = self.bytes(if old.len() > 50_000 { 30_000 } else { 3000 });
                let whole = [old, tail.clone()].concat();
                (vec![b"APPEND".to_vec(), name, tail], grown(n, whole))
            }
            4 | 5 if !full => {
                let (at, part) = (self.random.below(old.len() + 1000), self.bytes(20_000));
                let mut whole = old;
                whole.resize(whole.len().max(at + part.len()), 0);
                whole[at..at + part.len()].copy_from_slice(&part);
                (vec![b"SETRANGE".to_vec(), name, number(at), part], grown(n, whole))
            }
            6 if full || self.random.one_in(4) => {
                let there = i64::from(self.model.strings.contains_key(&n));
                let gone = move |model: &mut Model, reply: &RespValue| {
                    assert_eq!(reply.integer(), Some(there));
                    model.strings.remove(&n);
                };
                (words(&[b"UNLINK", &name]), Box::new(gone))
            }
            7..=9 if !old.is_empty() => {
                let from = self.random.below(old.len());
                let to = old.len().min(from + 1 + self.random.below(100_000));
                let part = old[from..to].to_vec();
                let request = vec![b"GETRANGE".to_vec(), name, number(from), number(to - 1)];
                (request, Box::new(move |_, reply| assert!(reply.bytes() == Some(&part[..]), "other bytes")))
            }
            _ => (words(&[b"STRLEN", &name]), int(len)),
        }
    }

    fn own_hash(&mut self) -> (Request, Check) {
        let (name, field) = (self.name("hash"), self.member());
        let old = self.model.hash.get(&field).cloned();
        match self.random.below(10) {
            0..=4 => {
                let most = if self.random.one_in(50) { 20_000 } else { 300 };
                let value = self.bytes(most);
                let request = words(&[b"HSET", &name, &field, &value]);
                let set = move |model: &mut Model, reply: &RespValue| {
                    assert_eq!(reply.integer(), Some(i64::from(old.is_none())));
                    model.hash.insert(field, value);
                };
                (request, Box::new(set))
            }
            5 | 6 => {
                let request = words(&[b"HDEL", &name, &field]);
                let gone = move |model: &mut Model, reply: &RespValue| {
                    assert_eq!(reply.integer(), Some(i64::from(old.is_some())));
                    model.hash.remove(&field);
                };
                (request, Box::new(gone))
            }
            7 => (words(&[b"HLEN", &name]), int(self.model.hash.len() as i64)),
            _ => {
                let same =
                    move |_: &mut Model, reply: &RespValue| assert!(reply.bytes() == old.as_deref(), "another value");
                (words(&[b"HGET", &name, &field]), Box::new(same))
            }
        }
    }

    fn own_list(&mut self) -> (Request, Check) {
        let name = self.name("list");
        let (left, len) = (self.random.one_in(2), self.model.list.len());
        let many = len > 20_000;
        match self.random.below(10) {
            0..=4 if !many => {
                let most = if self.random.one_in(100) { 20_000 } else { 200 };
                let element = self.bytes(most);
                let verb: &[u8] = if left { b"LPUSH" } else { b"RPUSH" };
                let request = words(&[verb, &name, &element]);
                let pushed = move |model: &mut Model, reply: &RespValue| {
                    match left {
                        true => model.list.push_front(element),
                        false => model.list.push_back(element),
                    }
                    assert_eq!(reply.integer(), Some(len as i64 + 1));
                };
                (request, Box::new(pushed))
            }
            5 | 6 => {
                let popped = move |model: &mut Model, reply: &RespValue| {
                    let want = if left { model.list.pop_front() } else { model.list.pop_back() };
                    assert!(reply.bytes() == want.as_deref(), "another element");
                };
                (words(&[if left { b"LPOP" } else { b"RPOP" }, &name]), Box::new(popped))
            }
            7 => (words(&[b"LLEN", &name]), int(len as i64)),
            _ => {
                let at = self.random.below(len + 1);
                let same = move |model: &mut Model, reply: &RespValue| {
                    assert!(reply.bytes() == model.list.get(at).map(Vec::as_slice), "another element");
                };
                (words(&[b"LINDEX", &name, at.to_string().as_bytes()]), Box::new(same))
            }
        }
    }

    fn own_set(&mut self) -> (Request, Check) {
        let (name, member) = (self.name("set"), self.member());
        let there = i64::from(self.model.set.contains(&member));
        match self.random.below(10) {
            0..=4 => {
                let request = words(&[b"SADD", &name, &member]);
                let added = move |model: &mut Model, reply: &RespValue| {
                    assert_eq!(reply.integer(), Some(1 - there));
                    model.set.insert(member);
                };
                (request, Box::new(added))
            }
            5 | 6 => {
                let request = words(&[b"SREM", &name, &member]);
                let gone = move |model: &mut Model, reply: &RespValue| {
                    assert_eq!(reply.integer(), Some(there));
                    model.set.remove(&member);
                };
                (request, Box::new(gone))
            }
            7 => (words(&[b"SCARD", &name]), int(self.model.set.len() as i64)),
            _ => (words(&[b"SISMEMBER", &name, &member]), int(there)),
        }
    }

    fn own_zset(&mut self) -> (Request, Check) {
        let (name, member) = (self.name("zset"), self.member());
        let old = self.model.zset.get(&member).copied();
        let score = self.random.below(3000) as i64;
        match self.random.below(10) {
            0..=4 => {
                let request = words(&[b"ZADD", &name, score.to_string().as_bytes(), &member]);
                let added = move |model: &mut Model, reply: &RespValue| {
                    assert_eq!(reply.integer(), Some(i64::from(old.is_none())));
                    model.zset.insert(member, score);
                };
                (request, Box::new(added))
            }
            5 | 6 => {
                let request = words(&[b"ZREM", &name, &member]);
                let gone = move |model: &mut Model, reply: &RespValue| {
                    assert_eq!(reply.integer(), Some(i64::from(old.is_some())));
                    model.zset.remove(&member);
                };
                (request, Box::new(gone))
            }
            7 => {
                let within = self.model.zset.values().filter(|&&s| s <= score).count();
                (words(&[b"ZCOUNT", &name, b"-inf", score.to_string().as_bytes()]), int(within as i64))
            }
            _ => {
                let same = move |_: &mut Model, reply: &RespValue| {
                    assert_eq!(reply.bytes().map(<[u8]>::to_vec), old.map(text))
                };
                (words(&[b"ZSCORE", &name, &member]), Box::new(same))
            }
        }
    }

    /// One of many members, so that collections become big and shrink again.
    fn member(&mut self) -> Vec<u8> {
        let most = if self.growing { 20_000 } else { 3000 };
        format!("member:{}", self.random.below(most)).into_bytes()
    }

    fn bytes(&mut self, most: usize) -> Vec<u8> {
        let (len, from) = (1 + self.random.below(most), self.random.next_u64());
        // Bytes that tell where they are, when that is not where they belong.
        (0..len as u64).map(|i| b'!' + (from.wrapping_add(i / 7).wrapping_mul(0x9e37_79b9) >> 20) as u8 % 90).collect()
    }

    /// A command on what all share.
    fn shared(&mut self) -> Request {
        let key = format!("fill:{}", self.random.below(FILL)).into_bytes();
        let number = |n: usize| n.to_string().into_bytes();
        let grows = if self.growing { 75 } else { 35 };
        if self.random.below(100) >= grows {
            return match self.random.below(8) {
                0 => words(&[b"GET", &key]),
                1 => vec![b"PEXPIRE".to_vec(), key, number(self.random.below(3000))],
                2 => self.shared_collection(),
                _ => words(&[b"UNLINK", &key]),
            };
        }
        match self.random.below(24) {
            0 => vec![b"APPEND".to_vec(), key, self.bytes(3000)],
            1 => vec![b"SETRANGE".to_vec(), key, number(self.random.below(5000)), self.bytes(2000)],
            2 => {
                // These grow without end, and die one day.
                let big = format!("big:{}", self.random.below(8)).into_bytes();
                if self.random.one_in(600) {
                    words(&[b"UNLINK", &big])
                } else {
                    vec![b"APPEND".to_vec(), big, self.bytes(30_000)]
                }
            }
            3 if self.random.one_in(30) => vec![b"SET".to_vec(), key, self.bytes(2 << 20)],
            3..=8 => self.shared_collection(),
            9..=14 => {
                vec![b"SET".to_vec(), key, self.bytes(1200), b"PX".to_vec(), number(1 + self.random.below(20_000))]
            }
            _ => vec![b"SET".to_vec(), key, self.bytes(900)],
        }
    }

    fn shared_collection(&mut self) -> Request {
        let n = self.random.below(SHARED);
        let name = |what: &str| format!("{what}:{n}").into_bytes();
        let (member, value) = (self.member(), self.bytes(100));
        if self.random.one_in(3000) {
            return words(&[b"UNLINK", &name(["h", "l", "s", "z"][self.random.below(4)])]);
        }
        let remove = !self.growing || self.random.one_in(4);
        match (self.random.below(8), remove) {
            (0, false) => words(&[b"HSET", &name("h"), &member, &value]),
            (0, true) => words(&[b"HDEL", &name("h"), &member]),
            (1, false) => words(&[b"RPUSH", &name("l"), &value]),
            (1, true) => words(&[b"LPOP", &name("l")]),
            (2, false) => words(&[b"SADD", &name("s"), &member]),
            (2, true) => words(&[b"SREM", &name("s"), &member]),
            (3, false) => words(&[b"ZADD", &name("z"), member.len().to_string().as_bytes(), &member]),
            (3, true) => words(&[b"ZREM", &name("z"), &member]),
            (4, _) => words(&[b"PEXPIRE", &name("h"), b"20000"]),
            (5, _) => words(&[b"ZINCRBY", &name("z"), b"3", &member]),
            (6, _) => words(&[b"LSET", &name("l"), b"-1", &value]),
            (7, _) if self.random.one_in(100) => self.whole_collection(n),
            _ => words(&[b"SMOVE", &name("s"), b"s:0", &member]),
        }
    }

    /// A shared collection changes its name, or is copied to another name or database.
    fn whole_collection(&mut self, n: usize) -> Request {
        let (kind, other) = (*self.random.pick(&["h", "l", "s", "z"]), self.random.below(SHARED));
        let [from, to] = [n, other].map(|n| format!("{kind}:{n}").into_bytes());
        match self.random.below(3) {
            0 => words(&[b"RENAME", &from, &to]),
            1 => words(&[b"COPY", &from, &to, b"REPLACE"]),
            _ => words(&[b"COPY", &from, &to, b"DB", [b"1", b"2"][self.random.below(2)], b"REPLACE"]),
        }
    }

    /// The elements of one of the player's collections.
    fn ask(&mut self, verb: &str, what: &str, rest: &[&str]) -> Vec<Vec<u8>> {
        let head = [verb.as_bytes().to_vec(), self.name(what)].into_iter();
        let request: Request = head.chain(rest.iter().map(|word| word.as_bytes().to_vec())).collect();
        let reply = self.client.call(&request).expect("a reply");
        reply.elements().expect("elements").iter().filter_map(|e| e.bytes().map(<[u8]>::to_vec)).collect()
    }

    /// Everything that is kept, if it is known; true if it is.
    fn compare_all(&mut self) -> bool {
        if self.since != Some(self.stage.lossy.load(SeqCst)) {
            return false;
        }
        for n in 0..STRINGS {
            let reply = self.client.call(&[b"GET".to_vec(), self.string_name(n)]).expect("a reply");
            assert!(reply.bytes() == self.model.strings.get(&n).map(Vec::as_slice), "string {n} of player {}", self.id);
        }
        let pairs = |flat: Vec<Vec<u8>>| -> BTreeMap<Vec<u8>, Vec<u8>> {
            flat.chunks_exact(2).map(|pair| (pair[0].clone(), pair[1].clone())).collect()
        };
        let hash = pairs(self.ask("HGETALL", "hash", &[]));
        assert!(hash == self.model.hash, "the hash of player {}", self.id);
        let list = self.ask("LRANGE", "list", &["0", "-1"]);
        assert!(self.model.list == list, "the list of player {}", self.id);
        let set: BTreeSet<Vec<u8>> = self.ask("SMEMBERS", "set", &[]).into_iter().collect();
        assert!(set == self.model.set, "the set of player {}", self.id);
        let zset = pairs(self.ask("ZRANGE", "zset", &["0", "-1", "WITHSCORES"]));
        let want: BTreeMap<Vec<u8>, Vec<u8>> = self.model.zset.iter().map(|(m, &s)| (m.clone(), text(s))).collect();
        assert!(zset == want, "the sorted set of player {}", self.id);
        true
    }
}

fn text(score: i64) -> Vec<u8> {
    score.to_string().into_bytes()
}

fn grown(n: usize, whole: Vec<u8>) -> Check {
    Box::new(move |model, reply| {
        assert_eq!(reply.integer(), Some(whole.len() as i64));
        model.strings.insert(n, whole);
    })
}

fn is_refusal(reply: &RespValue) -> bool {
    reply.is_error() && reply.text().starts_with("OOM")
}

/// The director's part while the players play: it sets each policy in turn, the other settings by chance.
fn direct(server: &Server, stage: &Stage, seed: u64, length: Duration) {
    const POLICIES: [&str; 8] = [
        "noeviction",
        "volatile-lru",
        "allkeys-random",
        "volatile-ttl",
        "allkeys-lru",
        "volatile-random",
        "allkeys-lfu",
        "volatile-lfu",
    ];
    let mut random = Random::new(seed);
    let (mut client, mut saver) = (server.client(), server.client());
    assert_eq!(saver.cmd("SELECT 1").text(), "OK");
    let begin = Instant::now();
    // At least one round, the last policy one under which what is kept stays.
    let rounds = 1 + length.as_secs() / 80;
    let each = length / (rounds as u32 * POLICIES.len() as u32);
    for at in 0..rounds as usize * POLICIES.len() {
        let policy = POLICIES[at % POLICIES.len()];
        let lossy = policy.starts_with("allkeys");
        if lossy {
            stage.lossy.fetch_add(1, SeqCst);
        }
        let mut set = |line: String| assert_eq!(client.cmd(&line).text(), "OK", "{line}");
        set(format!("CONFIG SET maxmemory-policy {policy}"));
        set(format!("CONFIG SET reclaim-policy {}", random.pick(&["original", "greedy", "modified"])));
        set(format!("CONFIG SET activedefrag {}", random.pick(&["yes", "no"])));
        while !stage.stop.load(SeqCst) && begin.elapsed() < each * (at as u32 + 1) {
            // A save is under way nearly all the time, or a rewrite.
            let (command, said) = match random.below(3) {
                0 if !is_judged() => ("BGREWRITEAOF", "append only file rewriting"),
                _ => ("BGSAVE SCHEDULE", "ackground sav"),
            };
            let reply = saver.cmd(command).text();
            assert!(reply.contains(said), "{command}: {reply}");
            // The players' own keys are in database 0.
            let wide = *random.pick(&["SWAPDB 1 2", "SWAPDB 2 1", "FLUSHDB"]);
            if random.one_in(10) {
                assert_eq!(saver.cmd(wide).text(), "OK", "{wide}");
            }
            thread::sleep(Duration::from_millis(20));
        }
        if lossy {
            set("CONFIG SET maxmemory-policy noeviction".into());
            stage.lossy.fetch_add(1, SeqCst);
        }
    }
    stage.stop.store(true, SeqCst);
}

/// Whether slices and lock holds are judged.
fn is_judged() -> bool {
    std::env::var_os("VARVE_SOAK_JUDGE").is_some()
}

fn start() -> Server {
    let launch = Launch::varve()
        .config("io-threads 2")
        .config(format!("maxmemory {LIMIT_BYTES}"))
        // Each command is timed by itself then, and what was slow is told at the end.
        .config("slowlog-log-slower-than 500")
        .config("slowlog-max-len 2000")
        // The thread of the file would take a core from those that are judged.
        .config(if is_judged() { "appendonly no" } else { "appendonly yes" });
    match std::env::var("VARVE_SOAK_UNDER") {
        Ok(under) => launch.under(under.split(' ')),
        Err(_) => launch,
    }
    .start()
    .expect("varve-server starts")
}

fn info(client: &mut Client, section: &str) -> String {
    client.cmd(&format!("INFO {section}")).text()
}

fn field(info: &str, name: &str) -> String {
    let line = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    line.unwrap_or_else(|| panic!("INFO has no {name}")).trim_end().to_owned()
}

fn used(client: &mut Client) -> u64 {
    field(&info(client, "memory"), "used_memory").parse().expect("a number")
}

/// The p99.99 of a histogram in INFO background, in microseconds.
fn nearly_all_us(line: &str) -> f64 {
    let (_, rest) = line.split_once("p99.99_us=").expect("a p99.99");
    rest.split(',').next().and_then(|number| number.parse().ok()).expect("a number")
}

/// Tells of the commands that took longest.
fn slowest(client: &mut Client) {
    let reply = client.cmd("SLOWLOG GET -1");
    let entry = |entry: &RespValue| -> Option<(i64, String)> {
        let [_, _, us, args, ..] = entry.elements()? else { return None };
        let args: Vec<String> = args.elements()?.iter().map(|arg| format!("{:.40}", arg.text())).collect();
        Some((us.integer()?, args.join(" ")))
    };
    let mut entries: Vec<(i64, String)> = reply.elements().unwrap_or_default().iter().filter_map(entry).collect();
    entries.sort();
    println!("soak: {} commands took 500 us or more", entries.len());
    entries.iter().rev().take(12).for_each(|(us, command)| println!("soak:   {us} us {command}"));
}

/// Tells of the histograms, and judges them if that was asked for.
fn judge(client: &mut Client, seconds: u64) {
    let info = info(client, "background");
    slowest(client);
    let mut slow = Vec::new();
    let told = [
        ("background_slices", JUDGED_US),
        ("background_rounds", f64::INFINITY),
        ("lock_holds", JUDGED_US),
        // Told alone: behind a wait may be a key that another command works on, or whoever wants to be alone.
        ("wait_shards", f64::INFINITY),
        ("wait_gate", f64::INFINITY),
        ("expiry_lag", f64::INFINITY),
    ];
    for (name, most_us) in told {
        let line = field(&info, name);
        println!("soak: {name} {line}");
        if nearly_all_us(&line) > most_us {
            slow.push(format!("{name} {line}"));
        }
    }
    assert!(!is_judged() || slow.is_empty(), "in {seconds} s: {slow:?}");
}

/// Deletes every key; what is then used must be what was used before there was any.
fn nothing_leaks(client: &mut Client, at_start: u64) {
    for line in ["SELECT 1", "FLUSHDB", "SELECT 2", "FLUSHDB", "SELECT 0"] {
        assert_eq!(client.cmd(line).text(), "OK", "{line}");
    }
    let mut cursor = b"0".to_vec();
    loop {
        let reply = client.call(&[b"SCAN".to_vec(), cursor, b"COUNT".to_vec(), b"1000".to_vec()]).expect("a reply");
        let [next, keys] = reply.elements().expect("a cursor and keys") else { panic!("SCAN: {reply:?}") };
        let keys: Request =
            keys.elements().expect("keys").iter().filter_map(|k| k.bytes().map(<[u8]>::to_vec)).collect();
        cursor = next.bytes().expect("a cursor").to_vec();
        if !keys.is_empty() {
            let doomed: Request = std::iter::once(b"UNLINK".to_vec()).chain(keys).collect();
            client.call(&doomed).expect("a reply");
        }
        if cursor == b"0" {
            break;
        }
    }
    let end = Instant::now() + Duration::from_secs(60);
    while used(client) > at_start + LEFT_BYTES_MAX {
        let stats = client.cmd("MEMORY MALLOC-STATS").text();
        assert!(Instant::now() < end, "{} bytes in use, {at_start} at the start:\n{stats}", used(client));
        thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(client.cmd("DBSIZE").integer(), Some(0));
}

#[test]
fn soak_at_the_limit() {
    let seconds = std::env::var("VARVE_SOAK_SECONDS").ok().and_then(|text| text.parse().ok()).unwrap_or(3);
    let seed = seed::seed("soak");
    let mut server = start();
    let mut client = server.client();
    let at_start = used(&mut client);
    let stage = Stage {
        stop: AtomicBool::new(false),
        lossy: AtomicU64::new(0),
        commands: AtomicU64::new(0),
        refused: AtomicU64::new(0),
    };
    // Behind the first save of the process its buffers are there.
    assert_eq!(client.cmd("SAVE").text(), "OK");
    thread::scope(|scope| {
        let (server, stage) = (&server, &stage);
        for id in 0..PLAYERS {
            scope.spawn(move || {
                let _guard = StopOnPanic(&stage.stop);
                let mut player = Player::new(server, stage, seed, id);
                while !stage.stop.load(SeqCst) {
                    player.turn();
                }
                player.compare_all();
            });
        }
        direct(server, stage, seed, Duration::from_secs(seconds));
    });
    assert!(!server.ended(), "the server ended:\n{}", server.log());
    let all = info(&mut client, "all");
    println!(
        "soak: {} commands, {} refused, evicted {}, expired {}, used {} of {LIMIT_BYTES}, moved {} objects of {} segments, peak resident {} MB",
        stage.commands.load(SeqCst),
        stage.refused.load(SeqCst),
        field(&all, "evicted_keys"),
        field(&all, "expired_keys"),
        field(&all, "used_memory"),
        field(&all, "reclaim_moved_objects"),
        field(&all, "reclaim_victims"),
        server.memory().expect("its memory").peak >> 20,
    );
    judge(&mut client, seconds);
    if !is_judged() {
        compare_with_file(&server);
    }
    let verified = client.call(&["DEBUG", "VERIFY"]).map(|reply| reply.text());
    assert_eq!(verified.unwrap_or_else(|error| format!("{error}: {}", server.log())), "OK");
    nothing_leaks(&mut client, at_start);
    let verified = client.call(&["DEBUG", "VERIFY"]).map(|reply| reply.text());
    assert_eq!(verified.unwrap_or_else(|error| format!("{error}: {}", server.log())), "OK");
    client.queue(&["SHUTDOWN", "NOSAVE"]);
    client.flush().expect("sent");
    assert_eq!(server.wait(Duration::from_secs(20)), Some(true), "the end is clean:\n{}", server.log());
}
