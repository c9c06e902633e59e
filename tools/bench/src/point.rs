//! `point`: single keys with string values.
//!
//! | part | what |
//! |---|---|
//! | cpu | server CPU per GET and per SET at pipelines 1, 16, 100: 16 B keys, 64 B values, 2 M of them, one worker |
//! | reclaim | server CPU per SET of 16 to 128 B at random sizes over 2 M keys, at 80% of maxmemory, nothing evicted |
//! | memory | resident bytes a key beyond key and value, at start and for a set that grows |
//! | paper | the same for the paper's sets: [`crate::paper`] |
//!
//! The servers take turns within each figure, and a figure is the median of its turns: what else the machine does meets all
//! alike.

use crate::floor::Under;
use crate::load::{self, Load, Op, Order, Outcome, Sizes, Traffic};
use crate::report::{Findings, Role, Row, Target, Value, figures};
use crate::turns::{beside, must, pace, used_memory};
use crate::{contenders, kept, paper, say};
use std::io;
use std::time::Duration;
use varve_testkit::Server;

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
}

impl Scale {
    fn new(quick: bool) -> Scale {
        if quick {
            let counts = vec![10_000, 20_000];
            return Scale { keys: 20_000, requests: (5_000, 20_000), turns: 1, counts };
        }
        let counts = (5..=20).map(|tenths| tenths * 100_000).collect();
        Scale { keys: 2_000_000, requests: (400_000, 2_000_000), turns: 5, counts }
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
        rows.extend(set_at_limit(quick)?);
    }
    if wanted("memory") {
        memory(&scale, &mut rows)?;
    }
    if wanted("paper") {
        rows.extend(paper::rows(quick)?);
    }
    if rows.is_empty() {
        return Err(io::Error::other("no such part: cpu, reclaim, memory, paper"));
    }
    Ok(Findings::new("point", "Single keys").with(figures("Single keys", &rows)))
}

/// A load on all keys once, in order: a fill.
pub(crate) fn fill(keys: u64, key_bytes: usize, sizes: &Sizes) -> Load {
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
    let contenders = contenders::start(&[])?;
    let sizes = Sizes::fixed(VALUE_BYTES);
    for one in &contenders {
        let filled = load::run(one.server.address(), &fill(scale.keys, KEY_BYTES, &sizes));
        contenders::spared(&one.name, one.role, filled.and_then(|outcome| refuse_errors(&outcome)))?;
    }
    for op in [Op::Get, Op::Set] {
        for (pipeline, ratio) in PIPELINES {
            let requests = if pipeline == 1 { scale.requests.0 } else { scale.requests.1 };
            let load = |turn: u64| Load {
                op,
                keys: scale.keys,
                key_bytes: KEY_BYTES,
                sizes: sizes.clone(),
                order: Order::Random,
                connections: CONNECTIONS,
                pipeline,
                requests,
                seed: turn,
            };
            let name = format!("{op:?}, pipeline {pipeline}").to_uppercase().replace("PIPELINE", "pipeline");
            let plan = Traffic { connections: CONNECTIONS, pipeline, requests };
            let found = kept::case(&name, || {
                beside(&contenders, plan, scale.turns as u64, &|_| Ok(()), &|turn| load::writer(load(turn)))
            })?;
            rows.extend(found.rows(&name, Some(Target::Ratio(ratio))));
        }
    }
    Ok(())
}

/// SET at random sizes over a full keyspace: whatever a server does to keep within its limit is part of the figure.
///
/// # Errors
/// When a server cannot be started or is lost.
pub(crate) fn set_at_limit(quick: bool) -> io::Result<[Row; 2]> {
    let scale = &Scale::new(quick);
    let name = "SET, pipeline 16, at 80% of limit";
    let sizes = Sizes::range(16..=128);
    let mut load =
        Load { order: Order::Random, connections: CONNECTIONS, pipeline: 16, ..fill(scale.keys, KEY_BYTES, &sizes) };
    load.requests = scale.requests.1;
    let all = kept::case(name, || contenders::one_by_one(&[], &mut |server| at_limit(server, scale, &load)))?;
    // The first half is CPU, the second one the rate.
    let part =
        |from: fn(&[f64]) -> &[f64]| -> Vec<Value> { all.iter().map(|one| Value::of(from(one).to_vec())).collect() };
    let (cpu, per_s) = (part(|one| &one[..one.len() / 2]), part(|one| &one[one.len() / 2..]));
    let plan = Traffic { connections: CONNECTIONS, pipeline: 16, requests: load.requests };
    let under = Under::load(&mut *load::writer(load))?;
    let floors = (0..scale.turns).map(|_| Ok(under.pace(plan)?.cpu_us)).collect::<io::Result<Vec<f64>>>()?;
    let row = Row::new(name, "us of CPU", cpu).at_most(Target::Ratio(APPENDING_MAX));
    Ok([row.with("floor", Role::Floor, Value::of(floors)), Row::new(name, "/s", per_s)])
}

/// CPU of a SET in microseconds, turn by turn, and then SETs a second, on a server that is brought to 80% of its limit.
fn at_limit(server: &Server, scale: &Scale, load: &Load) -> io::Result<Vec<f64>> {
    refuse_errors(&load::run(server.address(), &fill(scale.keys, KEY_BYTES, &load.sizes))?)?;
    let mut client = server.connect()?;
    let used = used_memory(&mut client)? as u64;
    // Of few keys a fifth would not hold the buffers of the load's connections.
    let limit = (used * 5 / 4).max(used + (16 << 20));
    must(&mut client, &format!("CONFIG SET maxmemory {limit}"))?;
    must(&mut client, "CONFIG SET maxmemory-policy noeviction")?;
    // The first turn brings the server to its steady state: as many writes as there are keys.
    refuse_errors(&load::run(server.address(), &Load { requests: scale.keys, ..load.clone() })?)?;
    let (mut cpu, mut per_s) = (Vec::new(), Vec::new());
    let plan = Traffic { connections: load.connections, pipeline: load.pipeline, requests: load.requests };
    for turn in 0..scale.turns {
        let load = Load { seed: 100 + turn as u64, ..load.clone() };
        let pace = pace(server, plan, &mut *load::writer(load))?;
        cpu.push(pace.cpu_us);
        per_s.push(pace.per_s);
    }
    let (median, memory) = (Value::of(cpu.clone()), server.memory()?);
    say!("set at 80% of {} MB: {median:.3} us, peak resident {} MB", limit >> 20, memory.peak >> 20);
    Ok([cpu, per_s].concat())
}

fn memory(scale: &Scale, rows: &mut Vec<Row>) -> io::Result<()> {
    let all = kept::case("memory, 16 B + 32 B", || contenders::one_by_one(&[], &mut |server| growing(server, scale)))?;
    let mb = contenders::column(&all, 0);
    rows.push(Row::new("resident at start", "MB", mb).at_most(Target::AtMost(START_MB_MAX)));
    let worst = contenders::column(&all, 1);
    rows.push(Row::new("bytes a key, 16+32 B, worst", "B", worst).at_most(Target::AtMost(OVERHEAD_MAX)));
    for (number, count) in scale.counts.iter().enumerate() {
        say!("16 B + 32 B, {count} keys: {:.1?} bytes a key", contenders::column(&all, number + 2));
    }
    Ok(())
}

/// Megabytes of a server that has just started, the most bytes a key beyond key and value, and those at each count.
fn growing(server: &Server, scale: &Scale) -> io::Result<Vec<f64>> {
    let start = settled(server)?;
    let (mut there, mut each) = (0, Vec::new());
    for &count in &scale.counts {
        let mut load = fill(count - there, KEY_BYTES, &Sizes::fixed(32));
        load.order = Order::Sequence(there);
        refuse_errors(&load::run(server.address(), &load)?)?;
        there = count;
        each.push(overhead(settled(server)?, start, count, count * (KEY_BYTES as u64 + 32)));
    }
    let worst = each.iter().copied().fold(0.0, f64::max);
    Ok([start as f64 / f64::from(1 << 20), worst].into_iter().chain(each).collect())
}

/// Bytes a key beyond `payload`, which are keys and values.
pub(crate) fn overhead(now: u64, start: u64, keys: u64, payload: u64) -> f64 {
    (now as f64 - start as f64 - payload as f64) / keys as f64
}

/// Resident bytes once background work has had a moment and the buffers of the load's connections are gone.
///
/// # Errors
/// When the server is gone.
pub(crate) fn settled(server: &Server) -> io::Result<u64> {
    std::thread::sleep(Duration::from_millis(300));
    Ok(server.memory()?.resident)
}
