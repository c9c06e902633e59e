//! `fragmentation`: the paper's Table 1 (W1-W8) and Table 5 (W1-W4), scaled down, under allkeys-random.
//!
//! ```text
//! write "before" -> delete a part of it -> write "after", all at maxmemory -> live payload : resident, peak : limit, CPU
//! ```
//! Table 1 writes as much as the limit in each phase, Table 5 twice as much with keys of 100 bytes. Live payload is counted
//! in keys and values that are still there, by STRLEN of one written key in eight. redis-server from Debian is built
//! without active defragmentation, so it runs without; a peer that can is added by a flag and runs with it. The peer also runs
//! with the paper's other allocators, where their libraries are.

use crate::contenders::PEER;
use crate::load::{self, Load, Op, Order, Sizes};
use crate::report::{Better, Figure, Findings, Form, Role, Series, Target};
use crate::say;
use crate::turns::must;
use std::io;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;
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
struct Figures {
    /// Resident over live payload.
    resident: f64,
    /// Peak resident over the limit and 16 MB.
    peak: f64,
    cpu_s: f64,
}

/// One in this number of written keys is checked.
const LOOK_AT_ONE_IN: u64 = 8;
/// Bytes that a server may have resident beyond the limit.
const BESIDE_BYTES: f64 = (16 << 20) as f64;
const CONNECTIONS: usize = 4;
const PIPELINE: usize = 64;

/// A server of this experiment: the peer comes with several allocators.
struct Candidate {
    name: String,
    role: Role,
    launch: Launch,
}

/// The paper's allocators beside the peer's own, as libraries that are loaded first.
const ALLOCATORS: [(&str, &str); 2] =
    [("redis-server, libc", "libc.so.6"), ("redis-server, tcmalloc", "libtcmalloc_minimal.so.4")];

/// Varve, the peer, the peer with the paper's other allocators where their libraries are, and a server that defragments.
fn candidates(also: Option<PathBuf>) -> (Vec<Candidate>, Vec<String>) {
    let new = |name: &str, role, launch| Candidate { name: name.into(), role, launch };
    let mut all = vec![new("Varve", Role::Varve, Launch::varve()), new(PEER, Role::Peer, Launch::peer())];
    let mut lost = Vec::new();
    for (name, library) in ALLOCATORS {
        let launch = Launch::peer().under(["env".to_string(), format!("LD_PRELOAD={library}")]);
        match launch.start().and_then(|server| replaced(&server)) {
            Ok(true) => all.push(new(name, Role::Rival, launch)),
            _ => lost.push(format!(
                "{name}: {library} did not take the place of jemalloc (Debian has tcmalloc in libtcmalloc-minimal4)."
            )),
        }
    }
    if let Some(path) = also {
        let launch = Launch::binary(&path).config("activedefrag yes");
        all.push(new("defragmenting", Role::Rival, launch));
    } else {
        lost.push(
            "Active defragmentation: Debian's redis-server is built without it; --also runs one that has it.".into(),
        );
    }
    (all, lost)
}

/// True if another allocator serves the peer: jemalloc's own count of bytes then stays far below the server's. The loader
/// passes over a library that is not there.
fn replaced(server: &Server) -> io::Result<bool> {
    let info = must(&mut server.client(), "INFO memory")?.text();
    let field = |name: &str| {
        info.lines().find_map(|line| line.trim_end().strip_prefix(name)?.strip_prefix(':')?.parse::<f64>().ok())
    };
    let both = field("allocator_allocated").zip(field("used_memory"));
    Ok(both.is_some_and(|(jemalloc, used)| jemalloc < used / 2.0))
}

/// Quantities of a workload: resident over payload, peak over limit, CPU.
const QUANTITIES: [(&str, &str, Option<Target>); 3] = [
    ("memory", "resident bytes over payload", Some(Target::AtMost(1.0 / 0.85))),
    ("peak", "peak resident over limit and 16 MB", Some(Target::AtMost(1.05))),
    ("server CPU", "seconds of CPU", Some(Target::Ratio(1.0))),
];

/// Runs the experiment; `also` is a server that can defragment actively.
///
/// # Errors
/// When a server cannot be started or is lost.
pub(crate) fn run(quick: bool, only: Option<&str>, also: Option<PathBuf>) -> io::Result<Findings> {
    let limit: u64 = if quick { 96 << 20 } else { 1 << 30 };
    let (candidates, lost) = candidates(also);
    let mut findings = Findings::new("fragmentation", "The paper's Tables 1 and 5: memory under eviction");
    findings.lost = lost;
    for (table, title) in [("table 1 ", "Table 1, Fig. 1"), ("table 5 ", "Table 5, Fig. 5")] {
        let mut figures = QUANTITIES.map(|(what, unit, _)| {
            let mut figure = Figure::new(format!("{title}: {what}"), unit, Better::Less, Form::Dots);
            figure.series = candidates.iter().map(|one| Series::new(one.name.as_str(), one.role)).collect();
            figure
        });
        let wanted = |name: &str| name.starts_with(table) && only.is_none_or(|only| name.ends_with(only));
        for (place, workload) in workloads().iter().filter(|workload| wanted(workload.name)).enumerate() {
            for (number, one) in candidates.iter().enumerate() {
                let found = measure(one.launch.clone(), workload, limit)?;
                say!("{}, {}: {:.2} of its payload resident", workload.name, one.name, found.resident);
                for (figure, value) in figures.iter_mut().zip([found.resident, found.peak, found.cpu_s]) {
                    figure.series[number].push(place, value);
                }
            }
            for (figure, (_, _, target)) in figures.iter_mut().zip(QUANTITIES) {
                figure.places.push(workload.name.replace(table, ""));
                figure.targets.push(target);
            }
        }
        findings.add(figures.into_iter().filter(|figure| !figure.places.is_empty()));
    }
    if findings.figures.is_empty() {
        return Err(io::Error::other("no such workload: W1 to W8"));
    }
    Ok(findings
        .note(format!("maxmemory {} MB, allkeys-random; the paper has 10 GB.", limit >> 20))
        .note("One over a figure of memory is the paper's utilisation.")
        .lost("The heights of the paper's bars: only its text is at hand, which states their order."))
}

fn measure(launch: Launch, workload: &Workload, limit: u64) -> io::Result<Figures> {
    let settings = [format!("maxmemory {limit}"), "maxmemory-policy allkeys-random".into(), "io-threads 1".into()];
    let server = settings.iter().fold(launch, |launch, line| launch.config(line.as_str())).start()?;
    let start = server.cpu_ns()?;
    let first = phase(&server, workload, &workload.before, 0, limit)?;
    delete(&server, workload, first)?;
    let mut written = first;
    if let Some(after) = &workload.after {
        written += phase(&server, workload, after, first, limit)?;
    }
    let cpu_s = (server.cpu_ns()? - start) as f64 / 1e9;
    std::thread::sleep(Duration::from_millis(300));
    let memory = server.memory()?;
    let payload = payload(&server, workload.key_bytes, written)?;
    Ok(Figures {
        resident: memory.resident as f64 / payload,
        peak: memory.peak as f64 / (limit as f64 + BESIDE_BYTES),
        cpu_s,
    })
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
    let load = Load {
        op: Op::Set,
        keys: from + requests,
        key_bytes: workload.key_bytes,
        sizes: Sizes::range(sizes.clone()),
        order: Order::Sequence(from),
        connections: CONNECTIONS,
        pipeline: PIPELINE,
        requests,
        seed: from + 1,
    };
    let outcome = load::run(server.address(), &load)?;
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
    let mut client = server.client();
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
