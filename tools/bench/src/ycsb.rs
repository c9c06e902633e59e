//! `ycsb`: workloads A, B, C, D and F of YCSB, run by YCSB itself with a binding of this project (`tools/bench/ycsb`).
//!
//! | workload | requests | keys |
//! |---|---|---|
//! | A | half reads, half updates of one field | Zipf |
//! | B | 95% reads, 5% updates | Zipf |
//! | C | reads | Zipf |
//! | D | 95% reads, 5% new records | the newest most often |
//! | F | half reads, half a read and an update of the same record | Zipf |
//!
//! Without Java or Maven this project's own generator draws with YCSB's distributions, and its figures say so
//! ([`ycsb_like`](crate::ycsb_like)). A record is a hash of ten fields of 100 bytes. A request waits for its reply before the thread sends the next one. Workload E
//! reads ranges of keys, which hashes do not have.

use crate::grid::{Below, Grid, Quantity};
use crate::report::{Better, Findings};
use crate::{contenders, ycsb_like};
use std::collections::HashMap;
use std::io;
use std::process::Stdio;
use varve_testkit::Server;
use varve_testkit::java::Java;
use varve_testkit::process::has_program;
use varve_testkit::server::{target_dir, workspace};

/// Clients at once.
pub(crate) const THREADS: u64 = 16;

/// A workload's name, its shares of requests, and how keys are drawn.
pub(crate) struct Workload {
    pub(crate) name: &'static str,
    pub(crate) shares: &'static [(&'static str, f64)],
    pub(crate) keys: &'static str,
}

pub(crate) const WORKLOADS: [Workload; 5] = [
    Workload { name: "a", shares: &[("read", 0.5), ("update", 0.5)], keys: "zipfian" },
    Workload { name: "b", shares: &[("read", 0.95), ("update", 0.05)], keys: "zipfian" },
    Workload { name: "c", shares: &[("read", 1.0)], keys: "zipfian" },
    Workload { name: "d", shares: &[("read", 0.95), ("insert", 0.05)], keys: "latest" },
    Workload { name: "f", shares: &[("read", 0.5), ("readmodifywrite", 0.5)], keys: "zipfian" },
];

const FIGURES: [Quantity; 4] = [
    ("YCSB: throughput", "operations a second", Better::More),
    ("YCSB: server CPU", "microseconds of CPU per operation", Better::Less),
    ("YCSB: mean delay of reads", "microseconds", Better::Less),
    ("YCSB: 99th percentile of reads", "microseconds", Better::Less),
];

/// How big and how often.
pub(crate) struct Scale {
    pub(crate) records: u64,
    pub(crate) operations: u64,
    pub(crate) turns: u64,
}

/// Runs the experiment, or one workload of it, by YCSB; where that cannot be had, or with `own`, by our own generator.
///
/// # Errors
/// When a server cannot be started, or a request fails.
pub(crate) fn run(quick: bool, only: Option<&str>, own: bool) -> io::Result<Findings> {
    let scale = match quick {
        true => Scale { records: 5_000, operations: 10_000, turns: 1 },
        false => Scale { records: 200_000, operations: 500_000, turns: 3 },
    };
    let wanted: Vec<&Workload> = WORKLOADS.iter().filter(|one| only.is_none_or(|name| name == one.name)).collect();
    if wanted.is_empty() {
        return Err(io::Error::other("no such workload: a, b, c, d, f"));
    }
    let findings = Findings::new("ycsb", "Beyond the paper's Fig. 8: YCSB itself");
    let java = match own {
        true => Err("the own generator was asked for".to_string()),
        false => java(),
    };
    let java = match java {
        Ok(java) => java,
        Err(why) => return ycsb_like::run(findings, &scale, &wanted, &why),
    };
    let contenders = contenders::start(&[])?;
    for one in &contenders {
        contenders::spared(&one.name, one.role, client(&java, &one.server, "-load", &scale, &[]))?;
    }
    let mut grid = Grid::new(&FIGURES);
    for workload in wanted {
        let options = options(workload);
        let mut floor = ycsb_like::floor(workload, scale.records, &scale)?;
        grid.measure(
            format!("workload {}", workload.name.to_uppercase()),
            &contenders,
            scale.turns,
            &mut |server, _| measure(&java, server, &scale, &options),
            Some(Below { quantity: ycsb_like::CPU, cpu_us: &mut floor }),
        )?;
    }
    Ok(findings.with(grid.figures).note(format!(
        "YCSB 0.17.0: {} records of ten fields of 100 bytes, {} operations a run, {THREADS} threads, one request of each under \
         way. YCSB runs on the same cores as the server: its own CPU bounds the throughput, and delays are its. The \
         floor is asked by this project's own generator, since YCSB reads what replies say: as many requests of the same length, \
         but as fast as the floor answers them.",
        scale.records, scale.operations
    )))
}

/// YCSB, ready to run, or the reason why there is none.
fn java() -> Result<Java, String> {
    if let Some(program) = Java::PROGRAMS.into_iter().find(|name| !has_program(name)) {
        return Err(format!("there is no {program} on this machine"));
    }
    let ready = Java::ready(&workspace().join("tools/bench/ycsb"), "RespBinding.java", &target_dir().join("ycsb"));
    ready.map_err(|error| format!("it cannot be built: {}", error.to_string().lines().next().unwrap_or_default()))
}

/// The properties of a workload.
fn options(workload: &Workload) -> Vec<String> {
    let share = |kind: &str| workload.shares.iter().find(|(name, _)| *name == kind).map_or(0.0, |(_, share)| *share);
    let kinds = ["read", "update", "insert", "scan", "readmodifywrite"];
    let shares = kinds.iter().map(|kind| format!("{kind}proportion={}", share(kind)));
    shares.chain([format!("requestdistribution={}", workload.keys)]).collect()
}

fn measure(java: &Java, server: &Server, scale: &Scale, options: &[String]) -> io::Result<[f64; 4]> {
    let before = server.cpu_ns()?;
    let told = client(java, server, "-t", scale, options)?;
    let spent = server.cpu_ns()? - before;
    let figure = |part: &str, name: &str| {
        let found = told.get(&(part.to_string(), name.to_string())).copied();
        found.ok_or_else(|| io::Error::other(format!("YCSB says nothing of {part} {name}")))
    };
    Ok([
        figure("[OVERALL]", "Throughput(ops/sec)")?,
        spent as f64 / 1000.0 / scale.operations as f64,
        figure("[READ]", "AverageLatency(us)")?,
        figure("[READ]", "99thPercentileLatency(us)")?,
    ])
}

/// The numbers that a run of YCSB tells, by part and name.
type Told = HashMap<(String, String), f64>;

/// Runs YCSB's client.
fn client(java: &Java, server: &Server, phase: &str, scale: &Scale, options: &[String]) -> io::Result<Told> {
    let properties = [
        "workload=site.ycsb.workloads.CoreWorkload".to_string(),
        format!("recordcount={}", scale.records),
        format!("operationcount={}", scale.operations),
        format!("resp.port={}", server.port()),
    ];
    let mut command = java.command("site.ycsb.Client");
    command.args([phase, "-db", "RespBinding", "-threads", &THREADS.to_string()]);
    for property in properties.iter().chain(options) {
        command.args(["-p", property]);
    }
    let output = command.stdin(Stdio::null()).stderr(Stdio::piped()).output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    if !output.status.success() {
        return Err(io::Error::other(format!("YCSB: {text}{}", String::from_utf8_lossy(&output.stderr))));
    }
    read(&text)
}

/// Reads the lines that YCSB writes at its end.
fn read(text: &str) -> io::Result<Told> {
    let mut told = Told::new();
    for line in text.lines() {
        let parts: Vec<&str> = line.split(", ").collect();
        let [part, name, number] = parts[..] else { continue };
        if name.starts_with("Return=") && name != "Return=OK" {
            return Err(io::Error::other(format!("requests of YCSB failed: {line}")));
        }
        if let Ok(number) = number.parse() {
            told.insert((part.to_string(), name.to_string()), number);
        }
    }
    Ok(told)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shares_of_a_workload_make_a_whole() {
        for workload in &WORKLOADS {
            let whole: f64 = workload.shares.iter().map(|(_, share)| share).sum();
            assert!((whole - 1.0).abs() < 1e-9, "{}", workload.name);
        }
        let all = options(&WORKLOADS[3]);
        assert_eq!(all[..3], ["readproportion=0.95", "updateproportion=0", "insertproportion=0.05"]);
        assert_eq!(all[5], "requestdistribution=latest");
    }

    #[test]
    fn a_failed_request_is_no_figure() {
        let good = "[OVERALL], Throughput(ops/sec), 3759.39\n[READ], AverageLatency(us), 12.5\n[READ], Return=OK, 5\nnothing\n";
        let told = read(good).expect("all went well");
        assert_eq!(told[&("[READ]".to_string(), "AverageLatency(us)".to_string())], 12.5);
        assert!(read(&format!("{good}[READ], Return=NOT_FOUND, 1\n")).is_err());
    }
}
