//! `loops`: the instructions of command loops, counted by callgrind and compared with what is recorded.
//!
//! ```text
//!   varve-loops NAME --callgrind--> instructions by object file --minus the C library's--> per operation
//!                                                                     tools/loops/counts.txt: at most 3% more
//! ```
//! Callgrind executes instructions itself, so neither what else runs nor the machine's speed changes a count. What would:
//!
//! - The C library has several `memcpy` and chooses by processor: what is executed in it is not counted.
//! - Another compiler makes other code: counts hold for the one that is recorded with them; with another, nothing is
//!   compared.
//! - A turn ends behind a millisecond, and so does a script's slice: here neither ends by time (`TurnTimes::ENDLESS`).
//! - Samples for the rankings of keys are some milliseconds apart: here one of 1024 commands is one (the same place).
//! - Incremental compilation and flags of one's own: neither is used for this build.
//!
//! A count that fell is told, not refused: recording anew (`cargo xtask loops --record`) keeps what was won.

use crate::shell::{Tally, build_programs, command, output, program, run, say, target_dir, workspace};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// By how many percent a count may grow.
const GROWTH_PERCENT_MAX: f64 = 3.0;
/// The loops of `varve-loops`.
const LOOPS: &[&str] = &[
    "get", "mget", "set", "incr", "hget", "list", "lpush", "lpop", "lnode", "lrange", "sadd", "hset", "hfew", "hmany",
    "sfew", "smany", "zfew", "zmany", "hmid", "hbig", "smid", "sbig", "zmid", "zbig", "spop", "zadd", "zpopmin",
    "zrange", "zties", "zscore", "zrank", "zrem", "exec", "served", "xadd", "xgroup", "hexpire", "hgetex", "rget",
    "rset", "rmget", "events", "tracked", "watched", "script", "fcall", "empty", "bare", "fresh", "lived",
];
/// A loop that may cost little more than another one.
struct Beside {
    name: &'static str,
    /// The loop that is judged, and the one beside it.
    loops: (&'static str, &'static str),
    percent_max: f64,
}

/// A store that has lived long, and a new one; commands of which some are sampled for the rankings of keys, and none.
const BESIDE: [Beside; 2] = [
    Beside { name: "a store that lived long", loops: ("lived", "fresh"), percent_max: 5.0 },
    Beside { name: "samples that are always taken", loops: ("get", "bare"), percent_max: 1.0 },
];
/// The function inside which is counted.
const TOGGLE: &str = "--toggle-collect=*measured_loop*";
/// Where the counts are.
const COUNTS: &str = "tools/loops/counts.txt";
const HEAD: &str = "\
# Instructions per operation of the loops of tools/loops, those in the C library not counted, and the compiler that they
# hold for. `cargo xtask loops` fails when one grows over 3%; `cargo xtask loops --record` writes this file anew: in the
# commit that changes them, with the reason.
";

/// Counts all loops and compares them with what is recorded, or records them.
pub(crate) fn all(record: bool) -> Tally {
    match counted(record) {
        Ok(tally) => tally,
        Err(error) => Tally::one("loops", Err(error)),
    }
}

fn counted(record: bool) -> Result<Tally, String> {
    let compiler = output(&mut command("rustc", &["--version"]))?.trim().to_string();
    let file = workspace().join(COUNTS);
    let recorded = Recorded::parse(&fs::read_to_string(&file).unwrap_or_default());
    if !record && recorded.compiler != compiler {
        say(&format!("loops: the counts hold for {}, this is {compiler}: nothing is compared", recorded.compiler));
        return Ok(Tally { skipped: LOOPS.len() as u64, ..Tally::default() });
    }
    build()?;
    let mut now = Recorded { compiler, counts: BTreeMap::new() };
    for name in LOOPS {
        now.counts.insert((*name).to_string(), count(name)?);
    }
    if record {
        fs::write(&file, now.text()).map_err(|error| format!("{}: {error}", file.display()))?;
    }
    let mut tally = Tally::default();
    for (name, count) in &now.counts {
        let before = recorded.counts.get(name).copied();
        say(&format!("loops: {name:<7} {count:>8.1} instructions per operation{}", change(before, *count)));
        let verdict = if record { Ok(()) } else { judge(before, *count) };
        tally.add(Tally::one(&format!("loop {name}"), verdict));
    }
    for rule in &BESIDE {
        tally.add(Tally::one(rule.name, rule.judge(&now.counts)));
    }
    Ok(tally)
}

/// Builds the loops as anybody would who sets nothing.
fn build() -> Result<(), String> {
    let mut build = build_programs(&["varve-loops"]);
    ["RUSTFLAGS", "CARGO_ENCODED_RUSTFLAGS", "CARGO_BUILD_RUSTFLAGS"]
        .iter()
        .for_each(|name| _ = build.env_remove(name));
    run(build.env("CARGO_INCREMENTAL", "0"))
}

/// Instructions per operation of a loop.
fn count(name: &str) -> Result<f64, String> {
    let dir = target_dir().join("loops");
    fs::create_dir_all(&dir).map_err(|error| format!("{}: {error}", dir.display()))?;
    let profile = dir.join(format!("{name}.callgrind"));
    let mut valgrind = command("valgrind", &["--tool=callgrind", "--quiet", TOGGLE]);
    valgrind.arg(format!("--callgrind-out-file={}", profile.display()));
    valgrind.arg(program("varve-loops")).arg(name);
    // The environment lies on the stack and moves addresses; it may also hold settings of the C library and of valgrind.
    valgrind.env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default());
    let said = output(&mut valgrind)?;
    let operations: f64 = said
        .split_once(" operations")
        .and_then(|(number, _)| number.parse().ok())
        .ok_or_else(|| format!("{name}: how many operations? {said}"))?;
    let text = fs::read_to_string(&profile).map_err(|error| format!("{}: {error}", profile.display()))?;
    let ours: u64 = by_object(&text).iter().filter(|(object, _)| !is_c_library(object)).map(|(_, count)| count).sum();
    if ours == 0 {
        return Err(format!("{name}: nothing was counted, see {}", profile.display()));
    }
    Ok(ours as f64 / operations)
}

fn is_c_library(object: &str) -> bool {
    let file = Path::new(object).file_name().unwrap_or_default().to_string_lossy();
    ["libc.", "libc-", "ld-", "libm.", "libpthread"].iter().any(|start| file.starts_with(start))
}

/// Sums a profile's own costs by object file.
///
/// ```text
///   ob=(3) /path/of/object      the object of what follows; later just ob=(3)
///   fn=(7) name
///   16 200                      200 instructions on line 16
///   calls=2 0                   the next line is what was called: the cost of others
///   17 5000
/// ```
fn by_object(profile: &str) -> BTreeMap<String, u64> {
    let mut names: BTreeMap<&str, &str> = BTreeMap::new();
    let mut sums = BTreeMap::new();
    let (mut object, mut called) = ("", false);
    for line in profile.lines() {
        if let Some(named) = line.strip_prefix("ob=").or(line.strip_prefix("cob=")) {
            let (id, name) = named.split_once(' ').unwrap_or((named, ""));
            if !name.is_empty() {
                names.insert(id, name);
            }
            if line.starts_with("ob=") {
                object = names.get(id).copied().unwrap_or_default();
            }
        } else if line.starts_with("calls=") {
            called = true;
        } else if line.starts_with(|first: char| first.is_ascii_digit() || "+-*".contains(first)) {
            let cost = line.split(' ').nth(1).and_then(|number| number.parse::<u64>().ok()).unwrap_or(0);
            if !std::mem::take(&mut called) {
                *sums.entry(object.to_string()).or_default() += cost;
            }
        }
    }
    sums
}

/// Refuses what grew too much, and what nobody has recorded.
fn judge(before: Option<f64>, now: f64) -> Result<(), String> {
    let anew = "if it must be so: cargo xtask loops --record";
    match before {
        None => Err(format!("no count is recorded; {anew}")),
        Some(before) if percent(before, now) > GROWTH_PERCENT_MAX => Err(format!(
            "{now:.1} instructions per operation, {:+.1}% of the {before:.1} recorded in {COUNTS}; {anew}",
            percent(before, now)
        )),
        Some(_) => Ok(()),
    }
}

impl Beside {
    /// Refuses a loop that costs too much more than the one beside it.
    fn judge(&self, counts: &BTreeMap<String, f64>) -> Result<(), String> {
        let &Beside { loops: (loaded, plain), percent_max, .. } = self;
        let [loaded, plain] = [loaded, plain].map(|name| counts.get(name).copied().unwrap_or(f64::INFINITY));
        let more = percent(plain, loaded);
        if more <= percent_max {
            Ok(())
        } else {
            Err(format!("{loaded:.1} instructions per operation, {more:+.1}% of {plain:.1}"))
        }
    }
}

fn percent(before: f64, now: f64) -> f64 {
    (now / before - 1.0) * 100.0
}

/// The text that compares a count with the recorded one.
fn change(before: Option<f64>, now: f64) -> String {
    let Some(before) = before else { return String::new() };
    let percent = percent(before, now);
    let hint = if percent < -GROWTH_PERCENT_MAX { ": record it, or it may be lost again" } else { "" };
    format!(" ({percent:+.1}% of the recorded {before:.1}){hint}")
}

/// The content of the file of counts.
#[derive(Debug, Default, PartialEq)]
struct Recorded {
    compiler: String,
    counts: BTreeMap<String, f64>,
}

impl Recorded {
    fn parse(text: &str) -> Recorded {
        let mut recorded = Recorded::default();
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            if line.starts_with("rustc ") {
                recorded.compiler = line.to_string();
            } else if let Some((name, Ok(count))) = line.split_once(' ').map(|(name, n)| (name, n.trim().parse())) {
                recorded.counts.insert(name.to_string(), count);
            }
        }
        recorded
    }

    fn text(&self) -> String {
        let lines: String = self.counts.iter().map(|(name, count)| format!("{name:<7} {count:>8.1}\n")).collect();
        format!("{HEAD}{}\n{lines}", self.compiler)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_may_not_grow_old() {
        let counts = |lived: f64| BTreeMap::from([("fresh".to_string(), 1000.0), ("lived".to_string(), lived)]);
        let [lived, sampled] = &BESIDE;
        assert!(lived.judge(&counts(1049.0)).is_ok() && lived.judge(&counts(900.0)).is_ok());
        assert!(lived.judge(&counts(1051.0)).is_err() && lived.judge(&BTreeMap::new()).is_err());
        let counts = |get: f64| BTreeMap::from([("bare".to_string(), 1000.0), ("get".to_string(), get)]);
        assert!(sampled.judge(&counts(1009.0)).is_ok() && sampled.judge(&counts(1011.0)).is_err());
    }

    #[test]
    fn own_costs_are_summed_by_object() {
        let profile = "version: 1\nevents: Ir\n\nob=(1) /a/varve-loops\nfl=(1) x.rs\nfn=(1) f\n16 200\n+1 5\n\
                       cob=(2) /lib/libc.so.6\ncfn=(2) memcpy\ncalls=2 0\n* 5000\n-3 7\n\nob=(2)\nfn=(2)\n0 5000\n\n\
                       ob=(1)\nfn=(3) g\n9 1\n\ntotals: 5213\n";
        let sums = by_object(profile);
        assert_eq!(sums["/a/varve-loops"], 213);
        assert_eq!(sums["/lib/libc.so.6"], 5000);
        assert!(is_c_library("/lib/x86_64-linux-gnu/libc.so.6") && is_c_library("/lib64/ld-linux-x86-64.so.2"));
        assert!(!is_c_library("/a/varve-loops"));
    }

    #[test]
    fn growth_is_refused_and_a_fall_is_told() {
        assert!(judge(Some(100.0), 102.9).is_ok() && judge(Some(100.0), 50.0).is_ok());
        assert!(judge(Some(100.0), 103.1).is_err() && judge(None, 1.0).is_err());
        assert!(change(Some(100.0), 96.0).contains("record it") && !change(Some(100.0), 98.0).contains("record it"));
    }

    #[test]
    fn counts_are_read_as_they_are_written() {
        let counts = BTreeMap::from([("get".to_string(), 612.3), ("zadd".to_string(), 1500.0)]);
        let recorded = Recorded { compiler: "rustc 1.95.0 (x 2026)".into(), counts };
        assert_eq!(Recorded::parse(&recorded.text()), recorded);
    }
}
