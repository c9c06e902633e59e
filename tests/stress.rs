//! Four workers, eight clients, all commands at once, memory at its limit: VARVE_STRESS_SECONDS of it (10).
//!
//! Nothing is compared: replies of eight clients have no one order. What must hold: every request is answered, nobody is
//! disconnected, the limit is kept, and the server's own check of log against index (DEBUG VERIFY) passes at the end.

#![forbid(unsafe_code)]

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use varve_testkit::{Launch, Random, Server, seed};
use varve_tests::generate::{Generator, Kind};

const CLIENTS: u64 = 8;
const LIMIT_BYTES: u64 = 64 << 20;
/// What may come on top of the limit: 16 MB and 5% (the design's figure), and what a sanitizer or a debug build adds.
const RESIDENT_MAX: u64 = LIMIT_BYTES + LIMIT_BYTES / 20 + (48 << 20);

/// Random commands of all groups.
fn commands(server: &Server, seed: u64, stop: &AtomicBool, count: &AtomicU64) {
    let mut generator = Generator::new(seed, 2 + (seed % 2) as u8);
    let mut client = server.client();
    while !stop.load(Ordering::Relaxed) {
        let steps: Vec<_> = (0..64).map(|_| generator.next_step()).filter(|step| step.kind == Kind::Call).collect();
        // Clients that change the protocol or end others' connections have their place elsewhere.
        let steps: Vec<_> = steps.iter().filter(|step| !step.args[0].eq_ignore_ascii_case(b"client")).collect();
        for step in &steps {
            client.queue(&step.args);
        }
        client.flush().expect("sent");
        for step in &steps {
            client.read().unwrap_or_else(|error| panic!("{}: {error}", varve_tests::run::line(&step.args)));
        }
        count.fetch_add(steps.len() as u64, Ordering::Relaxed);
    }
}

/// Writes of many keys, growing and shrinking, so that tables and segments come and go.
fn waves(server: &Server, seed: u64, stop: &AtomicBool, count: &AtomicU64) {
    let mut random = Random::new(seed);
    let mut client = server.client();
    let mut wave = 0;
    while !stop.load(Ordering::Relaxed) {
        let grow = wave % 4 != 3;
        for _ in 0..100 {
            let key = format!("wave:{}:{}", seed, random.below(50_000)).into_bytes();
            if grow {
                let length = if random.one_in(500) { 300_000 } else { random.below(600) };
                client.queue(&[b"SET".to_vec(), key, vec![b'x'; length]]);
            } else {
                client.queue(&[b"UNLINK".to_vec(), key]);
            }
        }
        client.flush().expect("sent");
        for _ in 0..100 {
            let reply = client.read().expect("a reply");
            assert!(!reply.is_error() || reply.text().starts_with("OOM"), "{reply:?}");
        }
        count.fetch_add(100, Ordering::Relaxed);
        wave += usize::from(random.one_in(200));
    }
}

#[test]
fn four_workers_and_eight_clients_at_the_limit() {
    let seconds = std::env::var("VARVE_STRESS_SECONDS").ok().and_then(|text| text.parse().ok()).unwrap_or(10);
    let seed = seed::seed("stress");
    let launch = Launch::varve().config("io-threads 4").config(format!("maxmemory {LIMIT_BYTES}"));
    let mut server = launch.config("maxmemory-policy allkeys-random").start().expect("varve-server starts");
    let (stop, count) = (AtomicBool::new(false), AtomicU64::new(0));
    thread::scope(|scope| {
        for client in 0..CLIENTS {
            let (server, stop, count) = (&server, &stop, &count);
            let work = if client % 2 == 0 { commands } else { waves };
            scope.spawn(move || {
                // A client that fails ends the others too; its panic is the test's when the scope is left.
                let guard = StopOnPanic(stop);
                work(server, seed + client, stop, count);
                drop(guard);
            });
        }
        let end = Instant::now() + Duration::from_secs(seconds);
        while Instant::now() < end && !stop.load(Ordering::Relaxed) {
            thread::sleep(Duration::from_millis(100));
        }
        stop.store(true, Ordering::Relaxed);
    });
    assert!(!server.ended(), "the server ended:\n{}", server.log());
    let memory = server.memory().expect("its memory");
    println!("{} commands in {seconds} s, peak resident {} MB", count.load(Ordering::Relaxed), memory.peak >> 20);
    assert!(
        memory.peak <= RESIDENT_MAX,
        "peak resident {} MB over a limit of {}",
        memory.peak >> 20,
        LIMIT_BYTES >> 20
    );
    let mut client = server.client();
    client.set_timeout(Duration::from_secs(120)).expect("set");
    assert_eq!(client.cmd("PING").text(), "PONG");
    if client.cmd("INFO server").text().contains("varve_version") {
        assert_eq!(client.cmd("DEBUG VERIFY").text(), "OK");
    }
}

struct StopOnPanic<'a>(&'a AtomicBool);

impl Drop for StopOnPanic<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.store(true, Ordering::Relaxed);
        }
    }
}
