//! YCSB's workloads by this project's own generator, for machines on which YCSB itself cannot run. Its figures are not YCSB's.
//!
//! ```text
//!   records   hashes of ten fields of 100 bytes, as the binding of YCSB has them
//!   keys      Zipf with 0.99 over scattered keys; "latest": the same from the newest record backwards
//!   requests  HGETALL; HSET of one field; HSET of a new record; HGETALL and HSET of one record (read-modify-write)
//! ```
//! One thread sends over as many connections as YCSB has threads, one request of each under way; the two requests of a
//! read-modify-write are on two connections.

use crate::contenders;
use crate::draw::Draw;
use crate::floor::Under;
use crate::grid::{Below, Grid, Quantity};
use crate::load::{self, Traffic};
use crate::point::refuse_errors;
use crate::report::{Better, Findings};
use crate::turns::{push, text};
use crate::ycsb::{Scale, THREADS, Workload};
use std::io;
use std::time::Instant;
use varve_base::hist::Hist;
use varve_testkit::{Random, Server};

const FIELDS: usize = 10;
const FIELD_BYTES: usize = 100;
/// The number of the quantity that is CPU.
pub(crate) const CPU: usize = 1;
const FIGURES: [Quantity; 4] = [
    ("Own generator with YCSB's distributions: throughput", "operations a second", Better::More),
    ("Own generator with YCSB's distributions: server CPU", "microseconds of CPU per operation", Better::Less),
    ("Own generator with YCSB's distributions: mean delay of requests", "microseconds", Better::Less),
    ("Own generator with YCSB's distributions: 99th percentile of requests", "microseconds", Better::Less),
];

/// Runs the workloads, and says in the report that this is not YCSB, and why.
///
/// # Errors
/// When a server cannot be started, or a request fails.
pub(crate) fn run(findings: Findings, scale: &Scale, wanted: &[&Workload], why: &str) -> io::Result<Findings> {
    let contenders = contenders::start(&[])?;
    for one in &contenders {
        fill(&one.server, scale.records)?;
    }
    let mut grid = Grid::new(&FIGURES);
    // Records that the workloads before have added; all contenders have the same.
    let mut records = scale.records;
    for workload in wanted {
        let plan = traffic(scale);
        let (begins, mut floor) = (records, floor(workload, records, scale)?);
        grid.measure(
            format!("workload {}, own generator", workload.name.to_uppercase()),
            &contenders,
            scale.turns,
            &mut |server, turn| {
                let mut generator = Generator::new(workload, begins, turn);
                let figures = measure(server, plan, &mut generator)?;
                records = records.max(generator.records);
                Ok(figures)
            },
            Some(Below { quantity: CPU, cpu_us: &mut floor }),
        )?;
    }
    Ok(findings
        .with(grid.figures)
        .note(format!(
            "Not YCSB itself: this project's own generator with YCSB's distributions and records, {} records of ten fields of \
             100 bytes, {} requests a run over {THREADS} connections.",
            scale.records, scale.operations
        ))
        .lost(format!("YCSB itself: {why}. Its workloads were drawn by this project's own generator.")))
}

/// The traffic of YCSB: each of its threads is a connection here, with one request under way.
fn traffic(scale: &Scale) -> Traffic {
    Traffic { connections: THREADS as usize, pipeline: 1, requests: scale.operations }
}

/// Starts the floor under a workload's requests, and returns what measures it: microseconds of CPU of an operation.
///
/// # Errors
/// When the floor does not start.
pub(crate) fn floor(
    workload: &Workload,
    records: u64,
    scale: &Scale,
) -> io::Result<impl FnMut() -> io::Result<f64> + use<>> {
    let (mut sample, plan) = (Generator::new(workload, records, 0), traffic(scale));
    let under = Under::load(&mut |out| sample.push(out))?;
    let requests = requests_an_operation(workload);
    Ok(move || Ok(under.pace(plan)?.cpu_us * requests))
}

/// Requests of an operation, on average: a read-modify-write has two.
fn requests_an_operation(workload: &Workload) -> f64 {
    let both = workload.shares.iter().find(|(kind, _)| *kind == "readmodifywrite");
    1.0 + both.map_or(0.0, |(_, share)| *share)
}

fn fill(server: &Server, records: u64) -> io::Result<()> {
    let mut next = 0;
    let plan = Traffic { connections: 4, pipeline: 50, requests: records };
    refuse_errors(&load::drive(server.address(), plan, &mut |out| {
        insert(out, next);
        next += 1;
    })?)
}

fn key(number: u64) -> Vec<u8> {
    format!("user{number}").into_bytes()
}

fn field(number: usize) -> Vec<u8> {
    format!("field{number}").into_bytes()
}

/// Writes a whole record.
fn insert(out: &mut Vec<u8>, number: u64) {
    let parts: Vec<Vec<u8>> =
        (0..FIELDS).flat_map(|at| [field(at), text(number * FIELDS as u64 + at as u64, FIELD_BYTES)]).collect();
    let key = key(number);
    let mut words: Vec<&[u8]> = vec![b"HSET", &key];
    words.extend(parts.iter().map(Vec::as_slice));
    push(out, &words);
}

/// The requests of a workload.
struct Generator<'w> {
    workload: &'w Workload,
    draw: Draw,
    random: Random,
    /// Records that there are, with those that it has added.
    records: u64,
    /// Operations that it has begun.
    operations: u64,
    /// The record whose read was written, and whose update is next.
    modified: Option<u64>,
    value: Vec<u8>,
}

impl<'w> Generator<'w> {
    fn new(workload: &'w Workload, records: u64, seed: u64) -> Generator<'w> {
        let (draw, value) = (Draw::named("zipf", records), text(seed, FIELD_BYTES));
        Generator { workload, draw, random: Random::new(seed), records, operations: 0, modified: None, value }
    }

    /// Writes the next request.
    fn push(&mut self, out: &mut Vec<u8>) {
        if let Some(record) = self.modified.take() {
            return self.update(out, record);
        }
        self.operations += 1;
        match self.kind() {
            "insert" => {
                insert(out, self.records);
                self.records += 1;
            }
            "update" => {
                let record = self.record();
                self.update(out, record);
            }
            kind => {
                let record = self.record();
                push(out, &[b"HGETALL", &key(record)]);
                self.modified = (kind == "readmodifywrite").then_some(record);
            }
        }
    }

    /// A kind of request, by the workload's shares.
    fn kind(&mut self) -> &'static str {
        let mut at = self.random.below(1000) as f64 / 1000.0;
        let kinds = self.workload.shares;
        let chosen = kinds.iter().find(|(_, share)| {
            at -= share;
            at < 0.0
        });
        chosen.or(kinds.last()).map_or("read", |(kind, _)| kind)
    }

    /// A record that is there.
    fn record(&mut self) -> u64 {
        let rank = self.draw.key(&mut self.random);
        match self.workload.keys {
            "latest" => self.records.saturating_sub(1 + rank),
            // Records that are asked for often lie among the others.
            _ => rank.wrapping_mul(varve_base::hash::GOLDEN_RATIO) % self.records,
        }
    }

    fn update(&mut self, out: &mut Vec<u8>, record: u64) {
        let at = self.random.below(FIELDS);
        push(out, &[b"HSET", &key(record), &field(at), &self.value]);
    }
}

/// Operations a second, CPU of one, and the delays of requests.
fn measure(server: &Server, plan: Traffic, generator: &mut Generator<'_>) -> io::Result<[f64; 4]> {
    let times = Hist::new();
    let (before, begun) = (server.cpu_ns()?, Instant::now());
    let outcome = load::drive_timed(server.address(), plan, &mut |out| generator.push(out), &times)?;
    let (spent, took) = (server.cpu_ns()? - before, begun.elapsed());
    refuse_errors(&outcome)?;
    let (times, operations) = (times.read(), generator.operations as f64);
    let p99 = times.percentile_ns(99.0) as f64 / 1000.0;
    Ok([operations / took.as_secs_f64(), spent as f64 / 1000.0 / operations, times.mean_ns() / 1000.0, p99])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ycsb::WORKLOADS;

    /// The words of each request that a workload writes, and the generator behind them.
    fn requests(workload: &Workload, count: usize) -> (Vec<Vec<String>>, Generator<'_>) {
        let mut generator = Generator::new(workload, 1000, 7);
        let all = (0..count).map(|_| {
            let mut out = Vec::new();
            generator.push(&mut out);
            let text = String::from_utf8(out).unwrap();
            text.lines().filter(|line| !line.starts_with(['*', '$'])).map(str::to_string).collect()
        });
        let all = all.collect();
        (all, generator)
    }

    #[test]
    fn shares_and_records_are_those_of_the_workloads() {
        for workload in &WORKLOADS {
            let (all, generator) = requests(workload, 4000);
            let reads = all.iter().filter(|words| words[0] == "HGETALL").count() as f64;
            let inserts = all.iter().filter(|words| words.len() == 2 + 2 * FIELDS).count() as f64;
            let share = |kind: &str| workload.shares.iter().find(|one| one.0 == kind).map_or(0.0, |one| one.1);
            // A read-modify-write is a read and an update.
            let both = share("readmodifywrite");
            let wanted = [(share("read") + both) / (1.0 + both), share("insert") / (1.0 + both)];
            for (got, wanted) in [reads, inserts].into_iter().zip(wanted) {
                assert!((got / 4000.0 - wanted).abs() < 0.03, "{}: {got} of 4000, not {wanted}", workload.name);
            }
            assert_eq!(generator.records, 1000 + inserts as u64, "{}", workload.name);
            let operations = 4000.0 / requests_an_operation(workload);
            assert!((generator.operations as f64 - operations).abs() < 100.0, "{}", workload.name);
        }
    }

    #[test]
    fn the_newest_records_are_read_most_often() {
        let (all, generator) = requests(&WORKLOADS[3], 4000);
        let read =
            |words: &Vec<String>| (words[0] == "HGETALL").then(|| words[1]["user".len()..].parse::<u64>().unwrap());
        let reads: Vec<u64> = all.iter().filter_map(read).collect();
        assert!(reads.iter().all(|record| *record < generator.records));
        let late = reads.iter().filter(|record| **record >= 900).count();
        assert!(late * 2 > reads.len(), "{late} of {} reads are of the newest tenth", reads.len());
    }
}
