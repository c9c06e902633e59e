//! Long commands beside short ones at the memory limit, judged by the server's own histograms.
//!
//! ```text
//! alone    each long command once, nothing beside it: in how many holds of its shards was it done?
//! beside   two clients send the long commands in turns; two send GET, SET, INCR; keys are evicted all the while:
//!          lock holds by length, waits for held shards and for the gate by length
//! ```
//! No client's clock is asked: a client that shares the machine waits for the machine. The server's clock runs on as well while
//! a worker is off its core, with a shard held. A busy machine thus makes some holds longer by some tens of milliseconds, and
//! never makes them fewer. So the number of holds of a command is judged where nothing else runs, and beside others only those
//! that are longer than any turn of another process. VARVE_SOAK_SECONDS is how long the second part is (4).

#![forbid(unsafe_code)]

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::thread;
use std::time::{Duration, Instant};

use varve_testkit::server::free_port;
use varve_testkit::{Client, Launch, Server, figure};

/// Elements of each source.
const ELEMENTS: u64 = 200_000;
/// Bytes of the string that GETDEL takes.
const STRING_BYTES: usize = 16 << 20;
/// Bytes beyond the sources that the limit leaves: for the results of two clients, and for keys that are evicted.
const ROOM_BYTES: u64 = 64 << 20;
/// Elements that one hold works on at most: LREM, which spends two nanoseconds on each, looks at the most of them.
const ELEMENTS_A_HOLD: u64 = 20_000;
/// Clients that send long commands, and rounds of all of them that each makes at least.
const LONG_CLIENTS: usize = 2;
const ROUNDS_MIN: u64 = 1;
/// Holds longer than this, one of the limits of the histogram: what a command of these takes that holds its shards from its
/// beginning to its end, and longer than other processes keep a thread from its core.
const LONG_HOLD: &str = "0.067108864";
/// Holds longer than about a millisecond, and their share of all holds at most.
const SHORT_HOLD: &str = "0.001048576";
const SHARE_MAX: f64 = 0.05;
/// Runs of which one has to be without a fault.
const TRIES: usize = 3;

/// A long command: some first make the key `TO` that the last one works on.
struct Long {
    steps: &'static [&'static str],
    /// Holds in which the last step is done at least.
    holds_min: u64,
}

/// A command whose last step looks at this number of elements one by one, in all.
const fn long(steps: &'static [&'static str], looks_at: u64) -> Long {
    Long { steps, holds_min: looks_at / ELEMENTS_A_HOLD }
}

/// A command whose last step cuts elements off whole, and looks at none: one hold does it. Without any the histogram would know
/// nothing of it.
const fn cut(steps: &'static [&'static str]) -> Long {
    Long { steps, holds_min: 1 }
}

const LONG: [Long; 23] = [
    long(&["SMEMBERS s0"], ELEMENTS),
    long(&["HGETALL h0"], ELEMENTS),
    long(&["LRANGE l0 0 -1"], ELEMENTS),
    long(&["ZRANGE z0 0 -1 WITHSCORES"], ELEMENTS),
    long(&["SORT l0"], ELEMENTS),
    long(&["SORT s0 ALPHA DESC"], ELEMENTS),
    long(&["SORT l0 STORE TO"], ELEMENTS),
    long(&["SDIFF s0 s1"], ELEMENTS),
    long(&["SINTER s0 s1"], ELEMENTS),
    long(&["SINTERCARD 2 s0 s1"], ELEMENTS),
    long(&["SUNIONSTORE TO s0 s1"], 2 * ELEMENTS),
    long(&["SDIFFSTORE TO s0 s1"], ELEMENTS),
    long(&["ZUNIONSTORE TO 2 z0 z1"], 2 * ELEMENTS),
    long(&["ZINTERSTORE TO 2 z0 z1"], ELEMENTS),
    long(&["COPY h0 TO REPLACE"], ELEMENTS),
    long(&["COPY z0 TO REPLACE"], ELEMENTS),
    long(&["LPOS l0 none"], ELEMENTS),
    long(&["LREM l0 0 none"], ELEMENTS),
    long(&["LINSERT l0 BEFORE none it"], ELEMENTS),
    cut(&["COPY z0 TO REPLACE", "ZREMRANGEBYSCORE TO 100 599"]),
    long(&["COPY s0 TO REPLACE", "SPOP TO 100000"], ELEMENTS / 2),
    cut(&["COPY s0 TO REPLACE", "UNLINK TO"]),
    cut(&["COPY text TO REPLACE", "GETDEL TO"]),
];

/// KEYS is long by the keys there are, which are few until the limit is reached: it lists them shard by shard.
const LONG_KEYS: Long = Long { steps: &["KEYS none*"], holds_min: 100 };

/// A connection whose replies are thrown away as they come: a reply of megabytes costs the machine little.
struct Drain {
    stream: TcpStream,
    own_key: String,
    /// The last bytes of what came.
    tail: Vec<u8>,
    chunk: Vec<u8>,
}

impl Drain {
    fn new(server: &Server, own_key: &str) -> Drain {
        let stream = TcpStream::connect(server.address()).expect("a connection");
        stream.set_read_timeout(Some(Duration::from_secs(60))).expect("a timeout");
        Drain { stream, own_key: own_key.into(), tail: Vec::new(), chunk: vec![0; 256 << 10] }
    }

    /// Sends a command, and reads its reply and that of a PING behind it.
    fn run(&mut self, command: &str) {
        const END: &[u8] = b"+PONG\r\n";
        let words = command.split(' ').map(|word| if word == "TO" { &*self.own_key } else { word });
        let line = words.collect::<Vec<_>>().join(" ") + "\r\nPING\r\n";
        self.stream.write_all(line.as_bytes()).expect("sent");
        self.tail.clear();
        let mut begins = None;
        while !self.tail.ends_with(END) {
            let count = self.stream.read(&mut self.chunk).expect("a reply");
            assert!(count > 0, "{command}: the server has closed the connection");
            let got = &self.chunk[..count];
            begins.get_or_insert(got[0]);
            self.tail.extend_from_slice(&got[count.saturating_sub(200)..]);
            let surplus = self.tail.len().saturating_sub(200);
            self.tail.drain(..surplus);
        }
        assert_ne!(begins, Some(b'-'), "{command}: {}", String::from_utf8_lossy(&self.tail));
    }
}

/// The histograms at one time: the metrics of the server.
struct Metrics(String);

impl Metrics {
    fn now(port: u16) -> Metrics {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("the metrics port");
        stream.write_all(b"GET /metrics HTTP/1.0\r\nHost: localhost\r\n\r\n").expect("asked");
        let mut text = String::new();
        stream.read_to_string(&mut text).expect("an answer");
        Metrics(text)
    }

    fn number(&self, line: &str) -> u64 {
        let value = self.0.lines().find_map(|text| text.strip_prefix(line)?.strip_prefix(' '));
        value.and_then(|value| value.parse().ok()).unwrap_or_else(|| panic!("no {line} in {}", self.0))
    }

    /// Holds so far.
    fn holds(&self) -> u64 {
        self.number("varve_lock_hold_seconds_count")
    }

    /// Holds so far that were longer than one of the limits.
    fn holds_over(&self, limit_s: &str) -> u64 {
        self.holds() - self.number(&format!("varve_lock_hold_seconds_bucket{{le=\"{limit_s}\"}}"))
    }

    /// Waits for this ("shards", "gate") so far.
    fn waits(&self, on: &str) -> u64 {
        self.number(&format!("varve_wait_seconds_count{{for=\"{on}\"}}"))
    }

    /// Waits for this so far that were longer than one of the limits.
    fn waits_over(&self, on: &str, limit_s: &str) -> u64 {
        self.waits(on) - self.number(&format!("varve_wait_seconds_bucket{{for=\"{on}\",le=\"{limit_s}\"}}"))
    }
}

/// Makes the sources: sets and sorted sets of which half the members are in the other, a hash, a list, a string.
fn fill(client: &mut Client) {
    const STEP: u64 = 500;
    for first in (0..ELEMENTS).step_by(STEP as usize) {
        let line = |begin: &str, element: &dyn Fn(u64) -> String| {
            (first..first + STEP).fold(String::from(begin), |line, n| line + " " + &element(n))
        };
        for line in [
            line("SADD s0", &|n| format!("member:{n}")),
            line("SADD s1", &|n| format!("member:{}", n + ELEMENTS / 2)),
            line("ZADD z0", &|n| format!("{} member:{n}", n % 997)),
            line("ZADD z1", &|n| format!("{}.5 member:{}", n % 89, n + ELEMENTS / 2)),
            line("HSET h0", &|n| format!("field:{n} value:{n}")),
            line("RPUSH l0", &|n| (n * 7919 % 1_000_003).to_string()),
        ] {
            assert!(client.cmd(&line).integer().is_some(), "the sources are filled");
        }
    }
    let reply = client.cmd(&format!("SETRANGE text {} x", STRING_BYTES - 1));
    assert_eq!(reply.integer(), Some(STRING_BYTES as i64));
}

/// Writes keys that may be evicted until one was.
fn reach_limit(client: &mut Client) {
    let value = "v".repeat(900);
    let mut next = 0;
    while figure(client, "evicted_keys") == 0 {
        (next..next + 1000).for_each(|n| client.queue(&["SET", &format!("filler:{n}"), &value, "EX", "3000"]));
        client.flush().expect("sent");
        (0..1000).for_each(|_| assert_eq!(client.read().expect("a reply").text(), "OK"));
        next += 1000;
    }
}

fn start() -> (Server, u16) {
    let port = free_port().expect("a free port");
    let server = Launch::varve()
        .config("io-threads 2")
        .config("maxmemory-policy volatile-lru")
        .config(format!("metrics-port {port}"))
        .start()
        .expect("varve-server starts");
    (server, port)
}

/// Each command alone: it lets go of its shards often enough that no hold is of more than some thousands of elements.
fn count_holds(server: &Server, port: u16, commands: &[Long]) {
    let mut drain = Drain::new(server, "alone");
    for Long { steps, holds_min } in commands {
        let (last, before) = steps.split_last().expect("a step");
        before.iter().for_each(|step| drain.run(step));
        let begin = Metrics::now(port).holds();
        drain.run(last);
        let holds = Metrics::now(port).holds() - begin;
        println!("long_commands: {holds} holds: {last}");
        assert!(holds >= *holds_min, "{last} in {holds} holds, {holds_min} at least");
    }
}

/// One client's long commands until the time is over and it has made its rounds; the number of rounds.
fn send_long(server: &Server, own_key: &str, from: usize, end: Instant) -> u64 {
    let mut drain = Drain::new(server, own_key);
    for round in 0.. {
        if round >= ROUNDS_MIN && Instant::now() > end {
            return round;
        }
        for at in 0..LONG.len() {
            LONG[(from + at) % LONG.len()].steps.iter().for_each(|step| drain.run(step));
        }
        LONG_KEYS.steps.iter().for_each(|step| drain.run(step));
    }
    unreachable!("rounds end")
}

/// Short commands, which fill the store beyond its limit, until the long ones have ended; the commands that were answered.
fn send_short(server: &Server, name: &str, stop: &AtomicBool, count: &AtomicU64) {
    let mut client = server.client();
    let value = "v".repeat(900);
    let (own, counter) = (format!("own:{name}"), format!("counter:{name}"));
    assert_eq!(client.cmd(&format!("SET {own} {name}")).text(), "OK");
    for round in 1_u64.. {
        for n in 0..8 {
            client.queue(&["SET", &format!("filler:{name}:{}", round * 8 + n), &value, "EX", "3000"]);
        }
        client.queue(&["GET", &own]);
        client.queue(&["INCR", &counter]);
        client.flush().expect("sent");
        (0..8).for_each(|_| assert_eq!(client.read().expect("a reply").text(), "OK"));
        assert_eq!(client.read().expect("a reply").text(), name);
        assert_eq!(client.read().expect("a reply").integer(), Some(round as i64));
        count.fetch_add(10, SeqCst);
        if stop.load(SeqCst) {
            return;
        }
    }
}

/// Ends the short commands also if a long one has failed.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, SeqCst);
    }
}

/// Both kinds side by side; the rounds of long commands and the number of short ones.
fn run_beside(server: &Server, length: Duration) -> (u64, u64) {
    let (stop, short) = (AtomicBool::new(false), AtomicU64::new(0));
    let end = Instant::now() + length;
    let rounds = thread::scope(|scope| {
        for name in ["a", "b"] {
            let (stop, short) = (&stop, &short);
            scope.spawn(move || send_short(server, name, stop, short));
        }
        let _stop = Stop(&stop);
        let clients: Vec<_> = (0..LONG_CLIENTS)
            .map(|n| scope.spawn(move || send_long(server, &format!("long:{n}"), n * LONG.len() / LONG_CLIENTS, end)))
            .collect();
        clients.into_iter().map(|client| client.join().expect("long commands are answered")).sum()
    });
    (rounds, short.load(SeqCst))
}

/// Runs both kinds side by side at the limit.
///
/// # Errors
/// Names what was longer than it may be. Where other programs have the machine, a thread that is not running may be all of it: that does
/// not come again and again, and a command that keeps others waiting does.
fn hold_nobody_up(server: &Server, port: u16, client: &mut Client, length: Duration) -> Result<(), String> {
    assert_eq!(client.cmd("CONFIG RESETSTAT").text(), "OK");
    let (rounds, short) = run_beside(server, length);
    let metrics = Metrics::now(port);
    let (holds, over, long) = (metrics.holds(), metrics.holds_over(SHORT_HOLD), metrics.holds_over(LONG_HOLD));
    let background = client.cmd("INFO background").text();
    let lines = ["lock_holds", "wait_shards", "wait_gate", "background_slices"];
    let told = background.lines().filter(|line| lines.iter().any(|name| line.starts_with(name)));
    told.for_each(|line| println!("long_commands: {line}"));
    let evicted = figure(client, "evicted_keys");
    println!(
        "long_commands: {rounds} rounds of {} long commands, {short} short ones, evicted {evicted}; {holds} holds, over 1 ms {over}, over 67 ms {long}",
        LONG.len() + 1
    );
    assert!(evicted > 0, "room is made all the while");
    if over as f64 > holds as f64 * SHARE_MAX {
        return Err(format!("{over} of {holds} holds were longer than a millisecond"));
    }
    // A command that holds its shards from its beginning to its end does so in each round.
    if long >= rounds {
        return Err(format!("{long} holds were longer than {LONG_HOLD} s in {rounds} rounds"));
    }
    assert!(metrics.waits("shards") > 0, "long commands keep shards from others now and then");
    // Nor does a client wait in each round for one that keeps a shard, or the gate, from its beginning to its end.
    for on in ["shards", "gate"] {
        let (waits, long) = (metrics.waits(on), metrics.waits_over(on, LONG_HOLD));
        println!("long_commands: {waits} waits for {on}, over 67 ms {long}");
        if long >= rounds {
            return Err(format!("{long} of {waits} waits for {on} were longer than {LONG_HOLD} s in {rounds} rounds"));
        }
    }
    Ok(())
}

#[test]
fn issue_11_long_commands_hold_nobody_up_at_the_limit() {
    let seconds = std::env::var("VARVE_SOAK_SECONDS").ok().and_then(|text| text.parse().ok()).unwrap_or(4);
    let (server, port) = start();
    let mut client = server.client();
    fill(&mut client);
    count_holds(&server, port, &LONG);
    client.cmd("DEL alone");
    let limit = figure(&mut client, "used_memory") + ROOM_BYTES;
    assert_eq!(client.cmd(&format!("CONFIG SET maxmemory {limit}")).text(), "OK");
    reach_limit(&mut client);
    count_holds(&server, port, &[LONG_KEYS]);
    let mut verdict = Err(String::new());
    for _ in 0..TRIES {
        verdict = hold_nobody_up(&server, port, &mut client, Duration::from_secs(seconds));
        match &verdict {
            Ok(()) => break,
            Err(why) => println!("long_commands: {why}"),
        }
    }
    assert_eq!(verdict, Ok(()), "in each of {TRIES} runs");
    assert_eq!(client.cmd("SCARD s0").integer(), Some(ELEMENTS as i64));
    assert_eq!(client.cmd("LLEN l0").integer(), Some(ELEMENTS as i64));
    assert_eq!(client.cmd("DEBUG VERIFY").text(), "OK");
}
