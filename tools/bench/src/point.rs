//! `point`: single keys with string values.
//!
//! | part | what |
//! |---|---|
//! | cpu | server CPU per GET and per SET at pipelines 1, 16, 100: 16 B keys, 64 B values, 2 M of them, one worker |
//! | reclaim | server CPU per SET of 16 to 128 B at random sizes over 2 M keys, at 80% of maxmemory, nothing evicted |
//! | memory | resident bytes a key beyond key and value, at start and for sets of several shapes |
//!
//! The servers take turns within each figure, and a figure is the median of its turns: what else the machine does meets all
//! alike.

use crate::floor::Floor;
use crate::load::{self, Load, Op, Order, Outcome, Sizes};
use crate::report::{Findings, Row, Target, Value, figures};
use crate::say;
use crate::turns::both;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;
use varve_testkit::{Server, process};

const CONNECTIONS: usize = 50;
const KEY_BYTES: usize = 16;
const VALUE_BYTES: usize = 64;
/// Pipelines and the part of the peer's CPU that Varve may take at most there.
const PIPELINES: [(usize, f64); 3] = [(1, 0.9), (16, 0.5), (100, 0.4)];
/// Part of the peer's CPU per SET that Varve may take at most at 80% of its limit.
const APPENDING_MAX: f64 = 0.5;
/// Resident bytes a key beyond key and value, at most.
const OVERHEAD_MAX: f64 = 24.0;
/// Resident at start, at most, in MB.
const START_MB_MAX: f64 = 16.0;

/// How big and how often.
struct Scale {
    keys: u64,
    /// requests of one turn at pipeline 1, and at longer ones
    requests: (u64, u64),
    turns: usize,
    /// of the fixed set, in steps
    counts: Vec<u64>,
    /// of the paper's sets
    paper_keys: u64,
}

impl Scale {
    fn new(quick: bool) -> Scale {
        if quick {
            let counts = vec![10_000, 20_000];
            return Scale { keys: 20_000, requests: (5_000, 20_000), turns: 1, counts, paper_keys: 5_000 };
        }
        let counts = (5..=20).map(|tenths| tenths * 100_000).collect();
        Scale { keys: 2_000_000, requests: (400_000, 2_000_000), turns: 5, counts, paper_keys: 500_000 }
    }
}

/// Runs the experiment, or one part of it.
///
/// # Errors
/// When a server cannot be started or is lost.
pub(crate) fn run(quick: bool, part: Option<&str>) -> io::Result<Findings> {
    let scale = Scale::new(quick);
    let wanted = |name: &str| part.is_none_or(|part| part == name);
    let mut rows = Vec::new();
    if wanted("cpu") {
        cpu(&scale, &mut rows)?;
    }
    if wanted("reclaim") {
        rows.push(set_at_limit(quick)?);
    }
    if wanted("memory") {
        memory(&scale, &mut rows)?;
    }
    if rows.is_empty() {
        return Err(io::Error::other("no such part: cpu, reclaim, memory"));
    }
    Ok(Findings::new("point", "Single keys").with(figures("Single keys", &rows)))
}

/// A load on all keys once, in order: a fill.
fn fill(keys: u64, key_bytes: usize, sizes: &Sizes) -> Load {
    Load {
        op: Op::Set,
        keys,
        key_bytes,
        sizes: sizes.clone(),
        order: Order::Sequence(0),
        connections: 4,
        pipeline: 100,
        requests: keys,
        seed: 1,
    }
}

/// Runs a load; the server's CPU per request in microseconds.
fn cpu_us(address: SocketAddr, pid: u32, load: &Load) -> io::Result<f64> {
    let before = process::cpu_ns(pid)?;
    let outcome = load::run(address, load)?;
    let spent = process::cpu_ns(pid)? - before;
    refuse_errors(&outcome)?;
    Ok(spent as f64 / 1000.0 / outcome.replies as f64)
}

/// A server that refuses is not measured.
///
/// # Errors
/// When replies were errors.
pub(crate) fn refuse_errors(outcome: &Outcome) -> io::Result<()> {
    if outcome.errors == 0 {
        return Ok(());
    }
    Err(io::Error::other(format!("{} of {} replies were errors", outcome.errors, outcome.replies)))
}

fn cpu(scale: &Scale, rows: &mut Vec<Row>) -> io::Result<()> {
    let servers = both(&[])?;
    let sizes = Sizes::fixed(VALUE_BYTES);
    for server in &servers {
        refuse_errors(&load::run(server.address(), &fill(scale.keys, KEY_BYTES, &sizes))?)?;
    }
    for op in [Op::Get, Op::Set] {
        let floor = Floor::start(load::request_bytes(op, KEY_BYTES, VALUE_BYTES))?;
        let places = servers.iter().map(|server| (server.address(), server.pid()));
        let places: Vec<(SocketAddr, u32)> = places.chain([(floor.address(), floor.pid())]).collect();
        for (pipeline, ratio) in PIPELINES {
            let requests = if pipeline == 1 { scale.requests.0 } else { scale.requests.1 };
            let mut figures = vec![Vec::new(); places.len()];
            for turn in 0..scale.turns {
                let load = Load {
                    op,
                    keys: scale.keys,
                    key_bytes: KEY_BYTES,
                    sizes: sizes.clone(),
                    order: Order::Random,
                    connections: CONNECTIONS,
                    pipeline,
                    requests,
                    seed: turn as u64,
                };
                for (place, figures) in places.iter().zip(&mut figures) {
                    figures.push(cpu_us(place.0, place.1, &load)?);
                }
            }
            let [varve, peer, floor] = [0, 1, 2].map(|i| Value::of(figures[i].clone()));
            let name = format!("{op:?} CPU, pipeline {pipeline}").to_lowercase();
            say!("{name}: varve {varve:.3} peer {peer:.3} floor {floor:.3} us");
            let target = Some(Target::Ratio(ratio));
            rows.push(Row { name, unit: "us", varve, peer, floor: Some(floor), target });
        }
    }
    Ok(())
}

/// SET at random sizes over a full keyspace: whatever a server does to keep within its limit is part of the figure.
///
/// # Errors
/// When a server cannot be started or is lost.
pub(crate) fn set_at_limit(quick: bool) -> io::Result<Row> {
    let scale = &Scale::new(quick);
    let sizes = Sizes::range(16..=128);
    let mut medians = Vec::new();
    for server in both(&[])? {
        refuse_errors(&load::run(server.address(), &fill(scale.keys, KEY_BYTES, &sizes))?)?;
        let mut client = server.client();
        let used = info_field(&client.cmd("INFO memory").text(), "used_memory")?;
        // Of few keys a fifth would not hold the buffers of the load's connections.
        let limit = (used * 5 / 4).max(used + (16 << 20));
        let reply = client.cmd(&format!("CONFIG SET maxmemory {limit} maxmemory-policy noeviction"));
        if reply.is_error() {
            return Err(io::Error::other(format!("CONFIG SET: {reply:?}")));
        }
        let mut load = Load {
            order: Order::Random,
            connections: CONNECTIONS,
            pipeline: 16,
            ..fill(scale.keys, KEY_BYTES, &sizes)
        };
        load.requests = scale.requests.1;
        // The first turn brings the server to its steady state: as many writes as there are keys.
        let _ = cpu_us(server.address(), server.pid(), &Load { requests: scale.keys, ..load.clone() })?;
        let mut figures = Vec::new();
        for turn in 0..scale.turns {
            load.seed = 100 + turn as u64;
            figures.push(cpu_us(server.address(), server.pid(), &load)?);
        }
        let memory = server.memory()?;
        say!(
            "set at 80% of {} MB: {:.3} us, peak resident {} MB",
            limit >> 20,
            Value::of(figures.clone()),
            memory.peak >> 20
        );
        medians.push(Value::of(figures));
    }
    let name = "set CPU, pipeline 16, at 80% of limit".to_string();
    let target = Some(Target::Ratio(APPENDING_MAX));
    Ok(Row { name, unit: "us", varve: medians[0], peer: medians[1], floor: None, target })
}

fn info_field(info: &str, name: &str) -> io::Result<u64> {
    info.lines()
        .find_map(|line| line.trim_end().strip_prefix(name)?.strip_prefix(':')?.parse().ok())
        .ok_or_else(|| io::Error::other(format!("INFO has no {name}")))
}

fn memory(scale: &Scale, rows: &mut Vec<Row>) -> io::Result<()> {
    let mut starts = Vec::new();
    let mut worst = [(0.0, 0); 2];
    let mut all = vec![Vec::new(); 2];
    for (i, server) in both(&[])?.into_iter().enumerate() {
        let start = settled(&server)?;
        starts.push(start as f64 / f64::from(1 << 20));
        let mut there = 0;
        for &count in &scale.counts {
            let mut load = fill(count - there, KEY_BYTES, &Sizes::fixed(32));
            load.order = Order::Sequence(there);
            refuse_errors(&load::run(server.address(), &load)?)?;
            there = count;
            let overhead = overhead(settled(&server)?, start, count, count * (KEY_BYTES as u64 + 32));
            all[i].push(overhead);
            if overhead > worst[i].0 {
                worst[i] = (overhead, count);
            }
        }
    }
    let mb = Some(Target::AtMost(START_MB_MAX));
    rows.push(Row {
        name: "resident at start".into(),
        unit: "MB",
        varve: starts[0].into(),
        peer: starts[1].into(),
        floor: None,
        target: mb,
    });
    for (&count, (&varve, &peer)) in scale.counts.iter().zip(all[0].iter().zip(&all[1])) {
        say!("16 B + 32 B, {count} keys: varve {varve:.1} peer {peer:.1} bytes a key");
    }
    let target = Some(Target::AtMost(OVERHEAD_MAX));
    let name = format!("bytes a key, 16+32 B, worst ({} keys)", worst[0].1);
    rows.push(Row { name, unit: "B", varve: worst[0].0.into(), peer: worst[1].0.into(), floor: None, target });
    for (name, key_bytes, most) in [("tiny", 8, 8..=16), ("small", 16, 16..=128), ("large", 128, 128..=1024)] {
        let sizes = Sizes { most, rest: 1024..=10_240, rest_percent: 5 };
        let mut figures = Vec::new();
        for server in both(&[])? {
            let start = settled(&server)?;
            let outcome = load::run(server.address(), &fill(scale.paper_keys, key_bytes, &sizes))?;
            refuse_errors(&outcome)?;
            let payload = outcome.value_bytes + scale.paper_keys * key_bytes as u64;
            figures.push(overhead(settled(&server)?, start, scale.paper_keys, payload));
        }
        let name = format!("bytes a key, the paper's {name} set");
        rows.push(Row { name, unit: "B", varve: figures[0].into(), peer: figures[1].into(), floor: None, target });
    }
    Ok(())
}

fn overhead(now: u64, start: u64, keys: u64, payload: u64) -> f64 {
    (now as f64 - start as f64 - payload as f64) / keys as f64
}

/// Resident bytes once background work has had a moment and the buffers of the load's connections are gone.
fn settled(server: &Server) -> io::Result<u64> {
    std::thread::sleep(Duration::from_millis(300));
    Ok(server.memory()?.resident)
}
