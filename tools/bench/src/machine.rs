//! The facts that a figure cannot be read without: machine, kernel, versions, commit, settings.

use crate::contenders;
use crate::report::FORM;
use crate::size::Size;
use std::fs;
use std::hash::{Hash, Hasher};
use std::io;
use std::path::PathBuf;
use std::process::Command;

/// Facts that may change from experiment to experiment of one report; [`moment`] tells an experiment's own. Machine and kernel
/// are among them: a full run takes many hours, of which each experiment is measured on one machine, and compares the servers
/// there.
pub(crate) const PASSING: [&str; 5] = ["load at the start", "commit", "kernel", "processor", "memory"];

/// Names and values, in the order of the report.
///
/// # Errors
/// When a server does not start.
pub(crate) fn facts(size: Size) -> io::Result<Vec<(String, String)>> {
    let mut facts = vec![
        ("size", size.word().to_string()),
        ("form", FORM.to_string()),
        ("processor", processor()),
        ("memory", memory()),
        ("kernel", kernel()),
        ("load at the start", read("/proc/loadavg")),
        ("commit", commit()),
        ("network", "loopback; the load generator runs on the same machine".into()),
        (
            "load generator",
            if cfg!(debug_assertions) { "a debug build: slower clients" } else { "a release build" }.into(),
        ),
        ("settings", "one worker (io-threads 1) and nothing kept on disk, but where an experiment says otherwise; everything else as it comes".into()),
    ];
    let versions = contenders::versions()?;
    facts.extend(versions.iter().map(|(name, version)| (name.as_str(), version.clone())));
    Ok(facts.into_iter().map(|(name, value)| (name.to_string(), value)).collect())
}

/// A sentence on the moment at which an experiment begins: a report may hold experiments of several days. Of the experiment a run
/// before has measured cases for `before_s` seconds.
pub(crate) fn moment(before_s: f64) -> String {
    let (load, machine) = (read("/proc/loadavg"), machine());
    let before =
        if before_s > 0.0 { " Some of its cases were measured before, on this machine by these programs." } else { "" };
    format!("Measured on {machine}, at commit {}, with a load of {load} before.{before}", commit())
}

/// Processor, memory and kernel.
fn machine() -> String {
    format!("{} with {} of memory, kernel {}", processor(), memory(), kernel())
}

/// The machine, the program under test and this one: figures of one experiment are of one of each. Programs are told by their
/// bytes: a version has many commits, and a commit many changes.
///
/// # Errors
/// When a program cannot be read.
pub(crate) fn under() -> io::Result<String> {
    let hash = |path: PathBuf| -> io::Result<u64> {
        let mut hash = std::hash::DefaultHasher::new();
        fs::read(path)?.hash(&mut hash);
        Ok(hash.finish())
    };
    let (server, bench) = (hash(varve_testkit::server::varve_binary())?, hash(std::env::current_exe()?)?);
    Ok(format!("{}, program {server:016x}, bench {bench:016x}", machine()))
}

/// The release of the kernel that runs.
fn kernel() -> String {
    read("/proc/sys/kernel/osrelease")
}

/// The first line of a file.
fn read(path: &str) -> String {
    fs::read_to_string(path).ok().and_then(|text| text.lines().next().map(str::to_string)).unwrap_or_default()
}

fn processor() -> String {
    let text = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = text.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": ").map(|(_, name)| name));
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    format!("{}, {cores} cores", model.unwrap_or("of unknown model"))
}

fn memory() -> String {
    let bytes = memory_bytes();
    format!("{:.0} GB", bytes as f64 / f64::from(1 << 30))
}

/// Bytes of the machine's memory; 0 where the system does not say.
pub(crate) fn memory_bytes() -> u64 {
    let total = read("/proc/meminfo");
    total.split_whitespace().nth(1).and_then(|kb| kb.parse::<u64>().ok()).unwrap_or(0) * 1024
}

/// The commit of the sources, and whether they have been changed since.
fn commit() -> String {
    let git = |args: &[&str]| {
        let output = Command::new("git").args(args).current_dir(varve_testkit::server::workspace()).output().ok()?;
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_string())
    };
    let Some(commit) = git(&["rev-parse", "--short=12", "HEAD"]) else { return "unknown".into() };
    match git(&["status", "--porcelain", "--untracked-files=no"]).as_deref() {
        Some("") => commit,
        _ => format!("{commit}, with changes"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_machine_is_described() {
        assert!(processor().ends_with("cores") && memory_bytes() > 1 << 28 && !commit().is_empty());
    }
}
