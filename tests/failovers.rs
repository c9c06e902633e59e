//! Failovers by Sentinel under load, in networks of the test's own: which writes are there behind them.
//!
//! ```text
//!   all is well --fault of the primary--> Sentinel makes a replica the primary --the fault ends--> all is well, clients rest
//!        writers: unique appends and rising registers, each with WAIT; readers                     |
//!                                                three servers with equal data, and the checker of histories
//! ```
//! VARVE_FAILOVERS says how many there are, of Varve and of redis-server 7.0.15 side by side; three of Varve's are the short form.

#![forbid(unsafe_code)]

mod outages;

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use outages::cluster::{Cluster, Program, connect, field_of};
use outages::faults::Fault;
use outages::history::{Contents, Key, Outcome, Round, check};
use outages::load::{self, Stage};
use outages::report::Report;
use outages::{BOXES, WRITERS};
use varve_testkit::{Client, Launch, Random, RespValue, seed};
use varve_tests::ending::SetAtEnd;
use varve_tests::network::inside;

/// Clients that read.
const READERS: usize = 2;
/// Writes that are answered at least before a fault, and behind it.
const WRITES: usize = 20;

/// The keys of a round, at one server.
fn contents(client: &mut Client, round: u64) -> Contents {
    let lists = std::array::from_fn(|nth| {
        let reply = client.cmd(&format!("LRANGE {} 0 -1", load::name(round, Key::List(nth))));
        reply.elements().expect("a list").iter().map(RespValue::text).collect()
    });
    let registers = std::array::from_fn(|writer| {
        let reply = client.cmd(&format!("GET {}", load::name(round, Key::Register(writer))));
        reply.bytes().map_or(0, |_| reply.text().parse().expect("a number"))
    });
    Contents { lists, registers }
}

/// A program's machines and all that was found out about them.
struct Trial {
    cluster: Cluster,
    random: Random,
    report: Report,
    /// The keys of each round at its end, at all three servers.
    settled: HashMap<u64, Contents>,
}

impl Trial {
    /// Starts machines whose network has this number.
    fn start(program: Program, number: u8, seed: u64) -> Trial {
        let cluster = Cluster::start(program, number);
        Trial { cluster, random: Random::new(seed), report: Report::default(), settled: HashMap::new() }
    }

    /// One fault and its failover, under load.
    fn round(&mut self, round: u64, fault: Fault) {
        let clock = Instant::now();
        let primary = self.cluster.healthy(clock);
        let (is_over, addresses) = (AtomicBool::new(false), self.cluster.addresses.clone());
        let answered = AtomicUsize::new(0);
        let stage = Stage { addresses: &addresses, clock, round, is_over: &is_over, answered: &answered };
        let seed = self.random.next_u64();
        let (struck, mut seen) = thread::scope(|scope| {
            let stage = &stage;
            let _over = SetAtEnd(stage.is_over);
            let writers: [_; WRITERS] =
                std::array::from_fn(|nth| scope.spawn(move || load::write(stage, nth, seed ^ nth as u64)));
            let readers: [_; READERS] =
                std::array::from_fn(|nth| scope.spawn(move || load::read(stage, seed ^ (100 + nth as u64))));
            stage.go_on(WRITES);
            let struck = self.fail_over(fault, primary);
            stage.go_on(WRITES);
            stage.is_over.store(true, Relaxed);
            let writes = writers.map(|writer| writer.join().expect("a writer")).concat();
            let reads = readers.map(|reader| reader.join().expect("a reader")).concat();
            (struck, Round { writes, reads, ..Round::default() })
        });
        let ns = |at: Instant| (at - clock).as_nanos() as u64;
        let switches = self.cluster.switches(struck);
        seen.promotions = switches.iter().map(|(at, place)| (ns(*at), *place)).collect();
        seen.killed = fault.is_kill().then_some((ns(struck), primary));
        if fault == Fault::KilledAndForgotten && switches.iter().any(|(_, place)| *place == primary) {
            // All servers have its empty data set by now.
            self.settled.clear();
            self.report.emptied += 1;
        }
        self.look(&mut seen, round, clock);
        let first = seen.writes.iter().filter(|write| {
            matches!(write.outcome, Outcome::Answered { .. })
                && write.history == seen.last_history
                && write.end > ns(struck)
        });
        let first = first
            .map(|write| write.end)
            .min()
            .unwrap_or_else(|| panic!("no write since:\n{}", self.cluster.text(clock)));
        let times = [seen.promotions[0].0, first].map(|at| (at - ns(struck)) / 1_000_000);
        let verdict = check(&seen);
        if seen.promotions.len() > 1 || !verdict.broken.is_empty() {
            println!(
                "{}, round {round}, {fault:?} of box {primary}:\n{}",
                self.cluster.name(),
                self.cluster.news(struck)
            );
        }
        let line = self.report.add(fault, times, verdict);
        println!("{}, round {round}, {line}", self.cluster.name());
    }

    /// Has the fault happen, waits until another server leads and all is well again; returns when it happened.
    fn fail_over(&mut self, fault: Fault, primary: usize) -> Instant {
        let replica = (primary + 1 + self.random.below(2)) % BOXES;
        thread::sleep(Duration::from_millis(100 + self.random.below(900) as u64));
        fault.prepare(&self.cluster, primary, replica);
        let struck = Instant::now();
        fault.strike(&mut self.cluster, primary, replica);
        let (_, leader) = self.cluster.switched(struck);
        thread::sleep(Duration::from_millis(self.random.below(1000) as u64));
        fault.heal(&mut self.cluster, primary, replica, leader);
        self.cluster.healthy(struck);
        struck
    }

    /// Looks at all three servers, which rest: they have the same, and what an earlier round had left.
    fn look(&mut self, seen: &mut Round, round: u64, clock: Instant) {
        let leader = self.cluster.healthy(clock);
        let mut client = connect(self.cluster.addresses.servers[leader]).expect("the primary");
        let info = client.cmd("INFO replication").text();
        field_of(&info, "master_replid").clone_into(&mut seen.last_history);
        seen.contents = contents(&mut client, round);
        self.settled.insert(round, seen.contents.clone());
        let mut earlier: Vec<u64> = self.settled.keys().copied().collect();
        earlier.sort_unstable();
        let earlier = *self.random.pick(&earlier);
        self.compare(&[round, earlier]);
    }

    /// Each server has in the keys of these rounds what was there at their ends.
    fn compare(&mut self, rounds: &[u64]) {
        for nth in 0..BOXES {
            let mut client = connect(self.cluster.addresses.servers[nth]).expect("a server");
            for round in rounds {
                if contents(&mut client, *round) != self.settled[round] {
                    self.report.broken.push(format!("box {nth} has other data in the keys of round {round}"));
                }
            }
        }
    }

    /// Looks at everything once more; the figures, and the promises that did not hold.
    fn end(mut self) -> (String, Vec<String>) {
        let rounds: Vec<u64> = self.settled.keys().copied().collect();
        self.cluster.healthy(Instant::now());
        self.compare(&rounds);
        (self.report.text(), self.report.broken)
    }
}

/// Runs rounds of all faults in turn, each time in another order; the promises that did not hold.
fn run(program: Program, number: u8, rounds: u64, seed: u64) -> Vec<String> {
    let mut trial = Trial::start(program, number, seed);
    let mut faults = Vec::new();
    for round in 0..rounds {
        if faults.is_empty() {
            faults = Fault::ALL.to_vec();
            let is_first = round == 0;
            if !is_first {
                (1..faults.len()).for_each(|nth| faults.swap(nth, trial.random.below(nth + 1)));
            }
        }
        let fault = faults.remove(0);
        trial.round(round, fault);
    }
    let (text, broken) = trial.end();
    println!("{}, {rounds} failovers:\n{text}", program.name);
    broken.iter().take(20).for_each(|line| println!("{}: broken: {line}", program.name));
    broken
}

#[test]
fn issue_17_failovers_lose_no_write_that_the_promoted_side_has() {
    if !inside("issue_17_failovers_lose_no_write_that_the_promoted_side_has") {
        return;
    }
    let rounds = std::env::var("VARVE_FAILOVERS").ok().map(|rounds| rounds.parse().expect("a number of failovers"));
    let seed = seed::seed("failovers");
    let varve = Program { name: "Varve", launch: || Launch::varve().config("io-threads 2") };
    let peer = Program { name: "redis-server", launch: Launch::peer };
    let broken = thread::scope(|scope| {
        let beside = rounds.map(|rounds| scope.spawn(move || run(peer, 2, rounds, seed)));
        let broken = run(varve, 1, rounds.unwrap_or(3), seed);
        if let Some(beside) = beside {
            let broken = beside.join().expect("redis-server's rounds");
            println!("redis-server: {} promises did not hold", broken.len());
        }
        broken
    });
    assert!(broken.is_empty(), "{} promises did not hold, the first is: {}", broken.len(), broken[0]);
}
