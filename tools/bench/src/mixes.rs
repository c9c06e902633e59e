//! `mixes`: one client alone, the paper's mixes with 50 clients, and SET that appends at a full keyspace.
//!
//! | part | what |
//! |---|---|
//! | alone | latency of GET and SET of one client that sends one request at a time |
//! | mixes | server CPU per request and latency: Tiny, Small, Large, half or a twentieth writes, uniform and Zipf, 50 clients |
//! | append | server CPU per SET of 16 to 128 B at random sizes at 80% of maxmemory, reclaim running |
//!
//! The sets are the paper's Table 4: keys of 8, 16, 128 B with values of 8-16, 16-128, 128-1024 B, and 1 to 10 KB for one
//! value in twenty. Latency is the client's, which shares the machine with the server.

use crate::contenders::{self, Contender};
use crate::draw::{self, Draw};
use crate::floor::Under;
use crate::grid::{Below, Grid, Quantity};
use crate::kept;
use crate::load::{self, Sizes, Traffic};
use crate::point;
use crate::published;
use crate::report::{Better, Findings, figures};
use crate::turns::push;
use std::io;
use std::ops::RangeInclusive;
use std::time::Instant;
use varve_base::hist::Hist;
use varve_testkit::{Random, Server};

const CLIENTS: usize = 50;

/// A set of the paper's Table 4, and how many of its keys are used.
struct Set {
    name: &'static str,
    key_bytes: usize,
    most: RangeInclusive<usize>,
    keys: u64,
}

const SETS: [Set; 3] = [
    Set { name: "tiny", key_bytes: 8, most: 8..=16, keys: 500_000 },
    Set { name: "small", key_bytes: 16, most: 16..=128, keys: 500_000 },
    Set { name: "large", key_bytes: 128, most: 128..=1024, keys: 200_000 },
];

/// How big and how often.
struct Scale {
    keys_divisor: u64,
    requests: u64,
    turns: u64,
}

/// Runs the experiment, or one part of it.
///
/// # Errors
/// When a server cannot be started, is lost, or answers an error.
pub(crate) fn run(quick: bool, part: Option<&str>) -> io::Result<Findings> {
    let scale = match quick {
        true => Scale { keys_divisor: 20, requests: 10_000, turns: 3 },
        // A million of each in all, as in the paper: one client has some 12 000 replies a second.
        false => Scale { keys_divisor: 1, requests: 333_334, turns: 3 },
    };
    let mut findings = Findings::new("mixes", "The paper's Fig. 7 and 8: delay and throughput");
    let wanted = |name: &str| part.is_none_or(|part| part == name);
    let (mut delays, mut mixes) = (Grid::new(&DELAYS), Grid::new(&FIGURES));
    if wanted("alone") || wanted("mixes") {
        for set in &SETS {
            let contenders = contenders::start(&[])?;
            let keys = set.keys / scale.keys_divisor;
            fill(&contenders, set, keys)?;
            if wanted("alone") {
                alone(&contenders, set, keys, &scale, &mut delays)?;
            }
            if wanted("mixes") {
                mixed(&contenders, set, keys, &scale, &mut mixes)?;
            }
        }
    }
    if wanted("alone") {
        delays.publish(0, |place| place.starts_with("tiny GET").then_some(published::DELAY_US));
        findings.add(kept::figures(delays.figures)?);
    }
    if wanted("mixes") {
        mixes.publish(0, |place| {
            let find = |(writes, draw, _): &&(usize, &str, [f64; 2])| place == mix_name("tiny", *writes, draw);
            published::THROUGHPUT.iter().find(find).map(|found| found.2)
        });
        findings.add(kept::figures(mixes.figures)?);
    }
    if wanted("append") {
        findings.add(figures("SET that appends at 80% of maxmemory", &point::set_at_limit(quick)?));
    }
    if findings.figures.is_empty() {
        return Err(io::Error::other("no such part: alone, mixes, append"));
    }
    Ok(findings
        .note(format!(
            "{} requests a run, {} runs; {CLIENTS} clients in the mixes, as the paper has them.",
            scale.requests, scale.turns
        ))
        .note("Requests have different lengths: the server that parses nothing is sent as many bytes a request as they have on average.")
        .lost(
            "The paper's bars for Small and Large, and its delays of writes: only the numbers in its text are at hand.",
        )
        .note("The mixes have the distributions of YCSB (Zipf with 0.99, uniform), drawn by this project; `ycsb` runs YCSB itself."))
}

fn sizes(set: &Set) -> Sizes {
    Sizes { most: set.most.clone(), rest: 1024..=10_240, rest_percent: 5 }
}

fn fill(contenders: &[Contender], set: &Set, keys: u64) -> io::Result<()> {
    for one in contenders {
        let load = point::fill(keys, set.key_bytes, &sizes(set));
        let filled = load::run(one.server.address(), &load).and_then(|outcome| point::refuse_errors(&outcome));
        contenders::spared(&one.name, one.role, filled)?;
    }
    Ok(())
}

/// Writes requests of a mix.
struct Mix<'s> {
    draw: &'s Draw,
    sizes: Sizes,
    writes_percent: usize,
    random: Random,
    key: Vec<u8>,
    value: Vec<u8>,
}

impl<'s> Mix<'s> {
    fn new(set: &Set, draw: &'s Draw, writes_percent: usize, seed: u64) -> Mix<'s> {
        let mut random = Random::new(seed);
        let value = (0..10_240).map(|_| b'a' + random.below(26) as u8).collect();
        Mix { draw, sizes: sizes(set), writes_percent, random, key: vec![0; set.key_bytes], value }
    }

    fn push(&mut self, out: &mut Vec<u8>) {
        let write = self.random.below(100) < self.writes_percent;
        load::write_key(&mut self.key, self.draw.key(&mut self.random));
        if write {
            let length = self.sizes.draw(&mut self.random);
            push(out, &[b"SET", &self.key, &self.value[..length]]);
        } else {
            push(out, &[b"GET", &self.key]);
        }
    }
}

/// A request's figures: one for each of [`FIGURES`].
fn measure(server: &Server, plan: Traffic, mix: &mut Mix<'_>) -> io::Result<[f64; 5]> {
    let times = Hist::new();
    let (before, begun) = (server.cpu_ns()?, Instant::now());
    let outcome = load::drive_timed(server.address(), plan, &mut |out| mix.push(out), &times)?;
    let (spent, took) = (server.cpu_ns()? - before, begun.elapsed());
    point::refuse_errors(&outcome)?;
    let (times, replies) = (times.read(), outcome.replies as f64);
    let [p50, p99, p999] = [50.0, 99.0, 99.9].map(|percent| times.percentile_ns(percent) as f64 / 1000.0);
    let mean = if plan.connections == 1 { times.mean_ns() / 1000.0 } else { replies / took.as_secs_f64() };
    Ok([mean, spent as f64 / 1000.0 / replies, p50, p99, p999])
}

/// The number of the quantity that is CPU, in both.
const CPU: usize = 1;
const DELAYS: [Quantity; 5] = [
    ("One client: mean delay (Fig. 7)", "microseconds from request to reply", Better::Less),
    ("One client: server CPU", "microseconds of CPU per request", Better::Less),
    ("One client: median delay", "microseconds", Better::Less),
    ("One client: 99th percentile", "microseconds", Better::Less),
    ("One client: 99.9th percentile", "microseconds", Better::Less),
];
const FIGURES: [Quantity; 5] = [
    ("50 clients: throughput (Fig. 8)", "requests a second", Better::More),
    ("50 clients: server CPU", "microseconds of CPU per request", Better::Less),
    ("50 clients: median delay", "microseconds", Better::Less),
    ("50 clients: 99th percentile", "microseconds", Better::Less),
    ("50 clients: 99.9th percentile", "microseconds", Better::Less),
];

fn alone(contenders: &[Contender], set: &Set, keys: u64, scale: &Scale, to: &mut Grid<5>) -> io::Result<()> {
    let draw = Draw::Uniform(keys);
    for (op, writes_percent) in [("GET", 0), ("SET", 100)] {
        let plan = Traffic { connections: 1, pipeline: 1, requests: scale.requests };
        let under = under(set, &draw, writes_percent)?;
        to.measure(
            format!("{} {op}", set.name),
            contenders,
            scale.turns,
            &mut |server, turn| measure(server, plan, &mut Mix::new(set, &draw, writes_percent, turn)),
            Some(Below { quantity: CPU, cpu_us: &mut || Ok(under.pace(plan)?.cpu_us) }),
        )?;
    }
    Ok(())
}

/// The floor under a mix.
fn under(set: &Set, draw: &Draw, writes_percent: usize) -> io::Result<Under> {
    let mut mix = Mix::new(set, draw, writes_percent, 0);
    Under::load(&mut |out| mix.push(out))
}

/// The place of a mix.
fn mix_name(set: &str, writes_percent: usize, draw: &str) -> String {
    format!("{set} {}:{writes_percent} {draw}", 100 - writes_percent)
}

fn mixed(contenders: &[Contender], set: &Set, keys: u64, scale: &Scale, to: &mut Grid<5>) -> io::Result<()> {
    for writes_percent in [50, 5] {
        for name in &draw::NAMES[..2] {
            let draw = Draw::named(name, keys);
            let plan = Traffic { connections: CLIENTS, pipeline: 1, requests: scale.requests };
            let under = under(set, &draw, writes_percent)?;
            to.measure(
                mix_name(set.name, writes_percent, name),
                contenders,
                scale.turns,
                &mut |server, turn| measure(server, plan, &mut Mix::new(set, &draw, writes_percent, turn)),
                Some(Below { quantity: CPU, cpu_us: &mut || Ok(under.pace(plan)?.cpu_us) }),
            )?;
        }
    }
    Ok(())
}
