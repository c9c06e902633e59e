//! `fragmentation`: the paper's Table 1 (W1-W8) and Table 5 (W1-W4), scaled down, under allkeys-random.
//!
//! ```text
//! write "before" -> delete a part of it -> write "after", all at maxmemory -> live payload : resident, peak : limit, CPU
//! ```
//! Table 1 writes as much as the limit in each phase, Table 5 twice as much with keys of 100 bytes. Live payload is counted
//! in keys and values that are still there, by STRLEN of one written key in eight. The paper's Redis of Table 5 defragmented
//! actively. redis-server from Debian is built without that: `cargo xtask bench` builds one from Debian's source that can, and it
//! runs beside the peer in Table 5. In Table 1 the peer runs with the paper's other allocators, where their libraries are; that
//! one of them serves it is seen in /proc/PID/maps and in what jemalloc counts. The floor is sent as many requests of the same
//! mean length.

use crate::contenders::{self, Entrant};
use crate::floor::Under;
use crate::load::{self, Load, Op, Order, Sizes, Traffic};
use crate::report::{Better, Figure, Findings, Form, Role, Series, Target};
use crate::turns::must;
use crate::{kept, machine, say};
use serde::{Deserialize, Serialize};
use std::fs;
use std::io;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use varve_testkit::{Launch, Random, Server, client};

/// One workload of the paper.
struct Workload {
    name: &'static str,
    key_bytes: usize,
    /// Bytes written in a phase, over the limit.
    times: u64,
    before: RangeInclusive<usize>,
    delete_percent: usize,
    after: Option<RangeInclusive<usize>>,
}

const fn table1(
    name: &'static str,
    before: RangeInclusive<usize>,
    delete_percent: usize,
    after: Option<RangeInclusive<usize>>,
) -> Workload {
    Workload { name, key_bytes: 16, times: 1, before, delete_percent, after }
}

const fn table5(
    name: &'static str,
    before: RangeInclusive<usize>,
    delete_percent: usize,
    after: RangeInclusive<usize>,
) -> Workload {
    Workload { name, key_bytes: 100, times: 2, before, delete_percent, after: Some(after) }
}

fn workloads() -> Vec<Workload> {
    vec![
        table1("table 1 W1", 100..=100, 0, None),
        table1("table 1 W2", 100..=100, 0, Some(130..=130)),
        table1("table 1 W3", 100..=100, 50, Some(130..=130)),
        table1("table 1 W4", 100..=100, 90, Some(130..=130)),
        table1("table 1 W5", 100..=200, 0, None),
        table1("table 1 W6", 100..=200, 0, Some(200..=1000)),
        table1("table 1 W7", 100..=200, 50, Some(200..=1000)),
        table1("table 1 W8", 100..=200, 90, Some(200..=1000)),
        table5("table 5 W1", 100..=100, 0, 130..=130),
        table5("table 5 W2", 100..=100, 50, 130..=130),
        table5("table 5 W3", 100..=200, 0, 200..=1000),
        table5("table 5 W4", 100..=200, 50, 200..=1000),
    ]
}

/// The figures of a server.
#[derive(Clone, Copy, Serialize, Deserialize)]
struct Figures {
    /// Resident over live payload.
    resident: f64,
    /// Peak resident over the limit and 16 MB.
    peak: f64,
    /// CPU a write, of the whole run.
    cpu_us: f64,
    /// Writes a second of both phases.
    per_s: f64,
}

/// One in this number of written keys is checked.
const LOOK_AT_ONE_IN: u64 = 8;
/// Bytes that a server may have resident beyond the limit.
const BESIDE_BYTES: f64 = (16 << 20) as f64;
const CONNECTIONS: usize = 4;
const PIPELINE: usize = 64;

/// The paper's allocators beside the peer's own, as libraries that are loaded first.
const ALLOCATORS: [(&str, &str); 2] =
    [("redis-server, libc", "libc.so.6"), ("redis-server, tcmalloc", "libtcmalloc_minimal.so.4")];

/// How the paper's Redis was set, "to start memory clean up when there is more than 10% of fragmentation", with the CPU that Redis
/// 4.0 gave to it. Limits in MB of what fragmentation must be are left out: a small run has less than the default.
const DEFRAGMENTING: [&str; 5] = [
    "activedefrag yes",
    "active-defrag-threshold-lower 10",
    "active-defrag-ignore-bytes 1mb",
    "active-defrag-cycle-min 25",
    "active-defrag-cycle-max 75",
];

/// Varve, the peer and the rivals, the peer with the paper's other allocators where their libraries are, and one that
/// defragments, the paper's of Table 5; then what is missing.
fn candidates(settings: &[String], choice: &Choice) -> io::Result<(Vec<Entrant>, Vec<String>)> {
    let mut all = contenders::entrants(settings);
    let mut lost = Vec::new();
    let allocators = if choice.ten_gb { &[][..] } else { &ALLOCATORS };
    for &(name, library) in allocators {
        let launch = Launch::peer().under(["env".to_string(), format!("LD_PRELOAD={library}")]);
        let one = Entrant::configured(name, Role::Rival, launch, settings);
        if serves(&one.start()?.server, library)? {
            all.push(one);
        } else {
            lost.push(format!(
                "{name}: {library} is not on this machine (Debian has tcmalloc in libtcmalloc-minimal4)."
            ));
        }
    }
    if choice.table == Some(1) {
        return Ok((all, lost));
    }
    if let Some(path) = choice.also.clone().or_else(varve_testkit::server::defragmenting_binary) {
        let launch = DEFRAGMENTING.iter().fold(Launch::binary(path), |launch, line| launch.config(*line));
        all.push(Entrant::configured(DEFRAGMENTED, Role::Rival, launch, settings));
    } else {
        lost.push(
            "Active defragmentation in Table 5: Debian's redis-server is built without it. `cargo xtask bench fragmentation` \
             builds one that has it from Debian's source; --also names one."
                .into(),
        );
    }
    Ok((all, lost))
}

/// True if the library is loaded and serves the peer in jemalloc's place; false if the loader has passed over it since it is not
/// there.
///
/// # Errors
/// When it is loaded, and jemalloc serves nevertheless: jemalloc's own count of bytes then is not far below the server's.
fn serves(server: &Server, library: &str) -> io::Result<bool> {
    if !is_mapped(&fs::read_to_string(format!("/proc/{}/maps", server.pid()))?, library) {
        return Ok(false);
    }
    let info = must(&mut server.connect()?, "INFO memory")?.text();
    let field = |name: &str| {
        info.lines().find_map(|line| line.trim_end().strip_prefix(name)?.strip_prefix(':')?.parse::<f64>().ok())
    };
    match field("allocator_allocated").zip(field("used_memory")) {
        Some((jemalloc, used)) if jemalloc < used / 2.0 => Ok(true),
        counts => Err(io::Error::other(format!(
            "{library} is loaded first, yet jemalloc serves redis-server: allocated and used bytes are {counts:?}"
        ))),
    }
}

/// True if a process with these `/proc/PID/maps` has loaded a library of this name, or a version of it.
fn is_mapped(maps: &str, library: &str) -> bool {
    let file = |line: &str| line.split_whitespace().nth(5).and_then(|path| path.rsplit('/').next()).map(str::to_owned);
    maps.lines()
        .filter_map(file)
        .any(|file| file.strip_prefix(library).is_some_and(|rest| rest.is_empty() || rest.starts_with('.')))
}

/// Quantities of a workload: resident over payload, peak over limit, CPU, rate.
const QUANTITIES: [(&str, &str, Better, Option<Target>); 4] = [
    ("memory", "resident bytes over payload", Better::Less, Some(Target::AtMost(1.0 / 0.85))),
    ("peak", "peak resident over limit and 16 MB", Better::Less, Some(Target::AtMost(1.05))),
    ("server CPU", "microseconds of CPU per write", Better::Less, Some(Target::Ratio(1.0))),
    ("writes", "writes a second", Better::More, None),
];

/// How to run the experiment.
#[derive(Default)]
pub(crate) struct Choice {
    /// Only this workload, of both tables.
    pub(crate) only: Option<String>,
    /// Only this table: 1 or 5.
    pub(crate) table: Option<u32>,
    /// The limit in GB, in place of that of the size.
    pub(crate) gigabytes: Option<u64>,
    /// A server that can defragment actively.
    pub(crate) also: Option<PathBuf>,
    /// It is the part [`TEN_GB`].
    pub(crate) ten_gb: bool,
}

/// The part that is Table 5 at the paper's own limit. Each workload writes 40 GB to each server, so that the peer has only its own
/// allocator there: with the paper's other two it would take more than 90 minutes.
pub(crate) const TEN_GB: &str = "10gb";

impl Choice {
    /// The part [`TEN_GB`], with this workload alone, if one is named.
    pub(crate) fn ten_gb(workload: Option<&str>) -> Choice {
        Choice {
            only: workload.map(String::from),
            table: Some(5),
            gigabytes: Some(10),
            ten_gb: true,
            ..Choice::default()
        }
    }
}

/// Runs the experiment.
///
/// # Errors
/// When a server cannot be started or is lost, or the machine has not twice the limit's memory.
pub(crate) fn run(quick: bool, choice: &Choice) -> io::Result<Findings> {
    let limit = choice.gigabytes.map_or(if quick { 48 << 20 } else { 1 << 30 }, |gigabytes| gigabytes << 30);
    let name = match &choice.only {
        _ if !choice.ten_gb => "fragmentation".into(),
        Some(workload) => format!("fragmentation-{TEN_GB}-{}", workload.to_lowercase()),
        None => format!("fragmentation-{TEN_GB}"),
    };
    let mut findings = Findings::new(&name, "The paper's Tables 1 and 5: memory under eviction");
    if limit * 2 > machine::memory_bytes() {
        if choice.ten_gb {
            // It belongs to a run of all, on machines of any memory.
            return Ok(
                findings.lost(format!("A limit of {} GB: it needs a machine with twice that memory.", limit >> 30))
            );
        }
        return Err(io::Error::other(format!("{} MB as limit need a machine with twice that memory", limit >> 20)));
    }
    let settings = [format!("maxmemory {limit}"), "maxmemory-policy allkeys-random".into()];
    let (all, lost) = candidates(&settings, choice)?;
    findings.lost = lost;
    for (number, title) in [(1, "Table 1, Fig. 1"), (5, "Table 5, Fig. 5")] {
        let table = format!("table {number} ");
        let wanted = |name: &str| {
            name.starts_with(&table)
                && choice.only.as_ref().is_none_or(|only| name.ends_with(only))
                && choice.table.is_none_or(|wanted| wanted == number)
        };
        let candidates: Vec<&Entrant> = all.iter().filter(|one| one.name != DEFRAGMENTED || number == 5).collect();
        let workloads: Vec<Workload> = workloads().into_iter().filter(|workload| wanted(workload.name)).collect();
        let mut of_table = Table::new(title, &workloads, &candidates);
        if number == 5 {
            of_table.figures = of_table.figures.map(|figure| figure.about(OF_TABLE_5));
        }
        let measured = of_table.measure(&workloads, &candidates, limit);
        kept::or_unfinished(measured, || of_table.drawn())?;
        findings.add(kept::figures(of_table.drawn())?);
    }
    if findings.figures.is_empty() {
        return Err(io::Error::other("no such workload: W1 to W8 of table 1, W1 to W4 of table 5"));
    }
    Ok(findings
        .note(format!(
            "maxmemory {} MB, allkeys-random; the paper has 10 GB, which `cargo xtask bench fragmentation --part {TEN_GB}` runs.",
            limit >> 20
        ))
        .note("One over a figure of memory is the paper's utilisation. CPU is that of both phases and of the deletion, over the writes.")
        .lost("The heights of the paper's bars: only its text is at hand, which states their order."))
}

/// The figures of one of the paper's tables.
struct Table {
    figures: [Figure; 4],
    floor: Series,
}

impl Table {
    fn new(title: &str, workloads: &[Workload], candidates: &[&Entrant]) -> Table {
        let figures = QUANTITIES.map(|(what, unit, better, target)| {
            let places = workloads.iter().map(|workload| workload.name.rsplit(' ').next().unwrap_or_default());
            let mut figure = Figure::new(format!("{title}: {what}"), unit, better, Form::Dots).over("", places);
            figure.targets = vec![target; workloads.len()];
            figure.series = candidates.iter().map(|one| Series::new(one.name.as_str(), one.role)).collect();
            figure
        });
        Table { figures, floor: Series::new("floor", Role::Floor) }
    }

    fn measure(&mut self, workloads: &[Workload], candidates: &[&Entrant], limit: u64) -> io::Result<()> {
        for (place, workload) in workloads.iter().enumerate() {
            for (number, one) in candidates.iter().enumerate() {
                let name = format!("{}, {}", workload.name, one.name);
                let found =
                    kept::case(&name, || contenders::spared(&one.name, one.role, measure(one, workload, limit)))?;
                let Some(found) = found else { continue };
                say!("{name}: {:.2} of its payload resident", found.resident);
                let values = [found.resident, found.peak, found.cpu_us, found.per_s];
                for (figure, value) in self.figures.iter_mut().zip(values) {
                    figure.series[number].push(place, value);
                }
            }
            self.floor.push(place, kept::case(&format!("{}, floor", workload.name), || floor_us(workload))?);
        }
        Ok(())
    }

    /// The figures with what is measured until now; none where there is nothing.
    fn drawn(&self) -> Vec<Figure> {
        let mut figures = self.figures.clone();
        figures[2].series.push(self.floor.clone());
        let has_values = |figure: &Figure| figure.series.iter().any(|series| !series.points.is_empty());
        figures.into_iter().filter(has_values).collect()
    }
}

/// The series of the server that defragments.
const DEFRAGMENTED: &str = "redis-server, defragmenting";

/// The sentences that Table 5 needs.
const OF_TABLE_5: &str = "The paper's Redis of this table defragmented actively. Debian's redis-server is built without that: the \
                          one called defragmenting is built from Debian's source with the jemalloc in it, which can, and is set as \
                          the paper says, from 10% on. What it does beside the writes counts as CPU of a write; memory is looked at \
                          0.3 s after the last one.";

/// CPU of the floor in microseconds for a write of this length, mean of the phases.
fn floor_us(workload: &Workload) -> io::Result<f64> {
    let mut spent = Vec::new();
    for sizes in [Some(&workload.before), workload.after.as_ref()].into_iter().flatten() {
        let under = Under::load(&mut *load::writer(writes(workload, sizes, 0, 1)))?;
        spent.push(under.pace(Traffic { connections: CONNECTIONS, pipeline: PIPELINE, requests: 200_000 })?.cpu_us);
    }
    Ok(spent.iter().sum::<f64>() / spent.len() as f64)
}

fn measure(one: &Entrant, workload: &Workload, limit: u64) -> io::Result<Figures> {
    let server = one.start()?.server;
    let (start, begun) = (server.cpu_ns()?, Instant::now());
    let first = phase(&server, workload, &workload.before, 0, limit)?;
    let mut took = begun.elapsed();
    delete(&server, workload, first)?;
    let mut written = first;
    if let Some(after) = &workload.after {
        let begun = Instant::now();
        written += phase(&server, workload, after, first, limit)?;
        took += begun.elapsed();
    }
    let cpu_us = (server.cpu_ns()? - start) as f64 / 1000.0 / written as f64;
    std::thread::sleep(Duration::from_millis(300));
    let memory = server.memory()?;
    let payload = payload(&server, workload.key_bytes, written)?;
    Ok(Figures {
        resident: memory.resident as f64 / payload,
        peak: memory.peak as f64 / (limit as f64 + BESIDE_BYTES),
        cpu_us,
        per_s: written as f64 / took.as_secs_f64(),
    })
}

/// Writes of new keys.
fn writes(workload: &Workload, sizes: &RangeInclusive<usize>, from: u64, requests: u64) -> Load {
    Load {
        op: Op::Set,
        keys: from + requests,
        key_bytes: workload.key_bytes,
        sizes: Sizes::range(sizes.clone()),
        order: Order::Sequence(from),
        connections: CONNECTIONS,
        pipeline: PIPELINE,
        requests,
        seed: from + 1,
    }
}

/// Writes new keys until the phase's bytes are written; returns the number of keys.
fn phase(
    server: &Server,
    workload: &Workload,
    sizes: &RangeInclusive<usize>,
    from: u64,
    limit: u64,
) -> io::Result<u64> {
    let mean = (workload.key_bytes + usize::midpoint(*sizes.start(), *sizes.end())) as u64;
    let requests = limit * workload.times / mean;
    let outcome = load::run(server.address(), &writes(workload, sizes, from, requests))?;
    if outcome.errors > 0 {
        return Err(io::Error::other(format!("{} of {} writes were refused", outcome.errors, outcome.replies)));
    }
    Ok(requests)
}

/// Deletes this part of the keys that were written, spread over all.
fn delete(server: &Server, workload: &Workload, written: u64) -> io::Result<()> {
    if workload.delete_percent == 0 {
        return Ok(());
    }
    let mut random = Random::new(3);
    let doomed: Vec<u64> = (0..written).filter(|_| random.below(100) < workload.delete_percent).collect();
    let mut next = doomed.iter();
    let plan = load::Traffic { connections: CONNECTIONS, pipeline: PIPELINE, requests: doomed.len() as u64 };
    load::drive(server.address(), plan, &mut |out| {
        let key = key(workload.key_bytes, *next.next().expect("as many as there are requests"));
        client::encode(out, &[b"DEL".as_slice(), &key]);
    })?;
    Ok(())
}

/// Bytes of the keys and values that are there, from a sample.
fn payload(server: &Server, key_bytes: usize, written: u64) -> io::Result<f64> {
    let mut client = server.connect()?;
    let mut sum = 0;
    let numbers: Vec<u64> = (0..written).step_by(LOOK_AT_ONE_IN as usize).collect();
    for part in numbers.chunks(1000) {
        for &number in part {
            client.queue(&[b"STRLEN".as_slice(), &key(key_bytes, number)]);
        }
        client.flush()?;
        for _ in part {
            let len = client.read()?.integer().unwrap_or(0) as u64;
            sum += if len > 0 { len + key_bytes as u64 } else { 0 };
        }
    }
    Ok((sum * LOOK_AT_ONE_IN) as f64)
}

/// A key as the load writes it.
fn key(bytes: usize, number: u64) -> Vec<u8> {
    let mut key = vec![0; bytes];
    load::write_key(&mut key, number);
    key
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loaded_library_is_seen_in_the_maps() {
        let maps = "7f00-7f01 r-xp 00000000 08:01 12   /usr/lib/x86_64-linux-gnu/libtcmalloc_minimal.so.4.5.16\n\
                    7f02-7f03 rw-p 00000000 00:00 0 \n7ffc-7ffd rw-p 00000000 00:00 0   [stack]\n";
        assert!(is_mapped(maps, "libtcmalloc_minimal.so.4"));
        assert!(!is_mapped(maps, "libc.so.6") && !is_mapped(maps, "[stack"));
        assert!(!is_mapped(&maps.replace("so.4.5.16", "so.45"), "libtcmalloc_minimal.so.4"), "another version");
        let own = fs::read_to_string("/proc/self/maps").unwrap();
        assert!(is_mapped(&own, "libc.so.6"));
    }
}
