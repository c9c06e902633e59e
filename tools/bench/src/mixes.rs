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

use crate::draw::{self, Draw};
use crate::load::{self, Op, Order, Sizes, Traffic};
use crate::point;
use crate::report::{self, Row};
use crate::turns::{both, median, push};
use std::io;
use std::ops::RangeInclusive;
use varve_base::hist::{Counts, Hist};
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
pub(crate) fn run(quick: bool, part: Option<&str>) -> io::Result<()> {
    let scale = match quick {
        true => Scale { keys_divisor: 100, requests: 2_000, turns: 1 },
        false => Scale { keys_divisor: 1, requests: 100_000, turns: 3 },
    };
    let mut rows = Vec::new();
    let wanted = |name: &str| part.is_none_or(|part| part == name);
    if wanted("alone") || wanted("mixes") {
        for set in &SETS {
            let servers = both(&[])?;
            let keys = set.keys / scale.keys_divisor;
            fill(&servers, set, keys)?;
            if wanted("alone") {
                alone(&servers, set, keys, &scale, &mut rows)?;
            }
            if wanted("mixes") {
                mixed(&servers, set, keys, &scale, &mut rows)?;
            }
        }
    }
    if wanted("append") {
        rows.push(point::set_at_limit(quick)?);
    }
    if rows.is_empty() {
        return Err(io::Error::other("no such part: alone, mixes, append"));
    }
    report::finish("mixes", &rows)
}

fn sizes(set: &Set) -> Sizes {
    Sizes { most: set.most.clone(), rest: 1024..=10_240, rest_percent: 5 }
}

fn fill(servers: &[Server], set: &Set, keys: u64) -> io::Result<()> {
    for server in servers {
        let load = load::Load {
            op: Op::Set,
            keys,
            key_bytes: set.key_bytes,
            sizes: sizes(set),
            order: Order::Sequence(0),
            connections: 4,
            pipeline: 100,
            requests: keys,
            seed: 1,
        };
        point::refuse_errors(&load::run(server.address(), &load)?)?;
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

/// CPU per request in microseconds, and what the clients waited.
fn measure(server: &Server, plan: Traffic, mix: &mut Mix<'_>) -> io::Result<(f64, Counts)> {
    let times = Hist::new();
    let before = server.cpu_ns()?;
    let outcome = load::drive_timed(server.address(), plan, &mut |out| mix.push(out), &times)?;
    let spent = server.cpu_ns()? - before;
    point::refuse_errors(&outcome)?;
    Ok((spent as f64 / 1000.0 / outcome.replies as f64, times.read()))
}

fn alone(servers: &[Server; 2], set: &Set, keys: u64, scale: &Scale, rows: &mut Vec<Row>) -> io::Result<()> {
    let draw = Draw::Uniform(keys);
    for (op, writes_percent) in [("GET", 0), ("SET", 100)] {
        let mut figures = [[Vec::new(), Vec::new()], [Vec::new(), Vec::new()]];
        for turn in 0..scale.turns {
            for (server, figures) in servers.iter().zip(&mut figures) {
                let plan = Traffic { connections: 1, pipeline: 1, requests: scale.requests };
                let (_, times) = measure(server, plan, &mut Mix::new(set, &draw, writes_percent, turn))?;
                figures[0].push(times.mean_ns() / 1000.0);
                figures[1].push(times.percentile_ns(99.0) as f64 / 1000.0);
            }
        }
        let [varve, peer] = figures.map(|figures| figures.map(median));
        for (at, what) in ["mean", "p99"].into_iter().enumerate() {
            let name = format!("one client, {} {op}: {what}", set.name);
            println!("{name}: {:.1} {:.1} us", varve[at], peer[at]);
            rows.push(Row { name, unit: "us", varve: varve[at], peer: peer[at], floor: None, target: None });
        }
    }
    Ok(())
}

fn mixed(servers: &[Server; 2], set: &Set, keys: u64, scale: &Scale, rows: &mut Vec<Row>) -> io::Result<()> {
    const FIGURES: [&str; 4] = ["CPU", "p50", "p99", "p99.9"];
    for (writes_percent, ratio) in [(50, "50:50"), (5, "95:5")] {
        for name in &draw::NAMES[..2] {
            let draw = Draw::named(name, keys);
            let mut figures: [[Vec<f64>; 4]; 2] = Default::default();
            for turn in 0..scale.turns {
                for (server, figures) in servers.iter().zip(&mut figures) {
                    let plan = Traffic { connections: CLIENTS, pipeline: 1, requests: scale.requests };
                    let (cpu, times) = measure(server, plan, &mut Mix::new(set, &draw, writes_percent, turn))?;
                    let waited = [50.0, 99.0, 99.9].map(|percent| times.percentile_ns(percent) as f64 / 1000.0);
                    figures.iter_mut().zip([cpu].into_iter().chain(waited)).for_each(|(all, one)| all.push(one));
                }
            }
            let [varve, peer] = figures.map(|figures| figures.map(median));
            for (at, what) in FIGURES.into_iter().enumerate() {
                let name = format!("{} {ratio} {name}: {what}", set.name);
                println!("{name}: {:.2} {:.2} us", varve[at], peer[at]);
                rows.push(Row { name, unit: "us", varve: varve[at], peer: peer[at], floor: None, target: None });
            }
        }
    }
    Ok(())
}
