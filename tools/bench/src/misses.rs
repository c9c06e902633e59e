//! `misses`: instructions and simulated cache misses of a GET and a SET, Varve's beside the peer's: the paper's Table 2.
//!
//! ```text
//!   server under callgrind, counting off --fill--> counting on --requests--> counts since then --> callgrind_annotate
//! ```
//! The simulated caches are fixed (32 KB of instructions, 32 KB of data, 8 MB for the last level, lines of 64 B), so that
//! figures of different machines can be compared. Callgrind sees a prefetch as nothing and counts the access that follows
//! as a miss: the figures are lines that are touched, not times that are waited.

use crate::contenders::{self, PEER};
use crate::load::{self, Load, Op, Order, Sizes};
use crate::report::{Better, Figure, Findings, Form, Role, Series, Table};
use crate::{kept, point, published, say};
use serde::{Deserialize, Serialize};
use std::cmp::Reverse;
use std::collections::HashMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use varve_testkit::{Launch, Server};

const KEY_BYTES: usize = 16;
const VALUE_BYTES: usize = 64;
const PIPELINE: usize = 100;
/// Functions and files that are shown of each server and command.
const LINES_SHOWN: usize = 20;
/// The line of all functions that are not named.
const REST: &str = "other";
/// Functions that are named beside those of the paper's table.
const FUNCTIONS_DRAWN: usize = 10;
/// The events of the table, as callgrind calls them: instructions, misses of reads and writes in the first and last level.
const EVENTS: [&str; 5] = ["Ir", "D1mr", "D1mw", "DLmr", "DLmw"];

/// The requests that are counted.
const OPS: [Op; 2] = [Op::Get, Op::Set];

struct Scale {
    keys: u64,
    requests: u64,
}

/// Runs the experiment.
///
/// # Errors
/// When valgrind is not there, a server cannot be started or is lost.
pub(crate) fn run(quick: bool) -> io::Result<Findings> {
    let scale = match quick {
        true => Scale { keys: 2_000, requests: 2_000 },
        false => Scale { keys: 500_000, requests: 100_000 },
    };
    let mut table = Table::new(&["instructions", "L1 read", "L1 write", "LL read", "LL write"]);
    let mut functions = Vec::new();
    for entrant in contenders::entrants(&[]) {
        let name = &entrant.name;
        let measured = kept::case(name, || {
            let profiles = std::env::temp_dir().join(format!("varve-misses-{}-{name}", std::process::id()));
            fs::create_dir_all(&profiles)?;
            let measured = measure(entrant.launch.clone(), &profiles, &scale);
            let _ = fs::remove_dir_all(&profiles);
            contenders::spared(name, entrant.role, measured)
        })?;
        let Some(measured) = measured else { continue };
        for (op, profile) in OPS.into_iter().zip(measured) {
            let events = EVENTS.map(|event| profile.total(event) as f64 / scale.requests as f64);
            table.add(format!("{}, {name}", format!("{op:?}").to_uppercase()), events.to_vec());
            functions.push((format!("{op:?} of {name}"), profile));
        }
    }
    for (what, profile) in &functions {
        for (by, part) in [("function", Line::name as fn(&Line) -> &str), ("source file", Line::file)] {
            say!("\n{what}: instructions and last-level misses per request by {by}");
            for (name, instructions, misses) in profile.sums(part).iter().take(LINES_SHOWN) {
                let each = |count: u64| count as f64 / scale.requests as f64;
                say!("{:>9.1} {:>7.3}  {name}", each(*instructions), each(*misses));
            }
        }
    }
    let better = |_: &str| Better::Less;
    let mut findings = Findings::new("misses", "The paper's Table 2: cache misses");
    findings.add([shares(&functions), own_shares(&functions)]);
    findings.add(table.apart("A request with pipeline 100", better));
    Ok(findings
        .note("Simulated caches (32 KB, 8 MB for the last level, lines of 64 B): figures of different machines compare. \
               Callgrind takes a prefetch for nothing, so the figures are lines that are touched, not times that are waited.")
        .lost("The paper's shares are of real cache misses by perf, on Redis 4.0.6 with a hash table that grew; simulated \
               misses of a server that has stopped growing have no dictRehash."))
}

/// The parts of the peer's last-level misses of a GET by function, beside the paper's Table 2.
fn shares(profiles: &[(String, Profile)]) -> Figure {
    let mut places: Vec<String> = published::CACHE_MISSES.iter().map(|(name, _)| (*name).to_string()).collect();
    let mut paper = Series::new("published: Redis 4.0.6", Role::Published);
    published::CACHE_MISSES.iter().enumerate().for_each(|(place, (_, part))| paper.push(place, *part));
    let measured = series_of(profiles, PEER, Role::Peer, &mut places);
    let mut figure = Figure::new("Cache misses by function", "percent of all misses", Better::Neither, Form::Dots);
    (figure.places, figure.series) = (places, vec![measured, paper]);
    figure.about(
        "Functions of the paper's table that a compiler has put into others, and those without a miss, have 0 here. The paper's \
         last line is the rest of its functions, and so is it here.",
    )
}

/// Varve's misses by function, in percent as well; the functions are its own.
fn own_shares(profiles: &[(String, Profile)]) -> Figure {
    let mut places = vec![REST.to_string()];
    let measured = series_of(profiles, "Varve", Role::Varve, &mut places);
    let mut figure =
        Figure::new("Varve's cache misses by function", "percent of all misses", Better::Neither, Form::Dots);
    (figure.places, figure.series) = (places, vec![measured]);
    figure
}

/// The last-level misses of a server's GETs by function, in percent: of the functions that have a place already, of those with the
/// most misses beside these, which get one, and of the rest.
fn series_of(profiles: &[(String, Profile)], server: &str, role: Role, places: &mut Vec<String>) -> Series {
    let mut series = Series::new(format!("{server}, GET"), role);
    let Some((_, profile)) = profiles.iter().find(|(what, _)| *what == format!("Get of {server}")) else {
        return series;
    };
    let all = (profile.total("DLmr") + profile.total("DLmw")).max(1) as f64;
    let mut misses: HashMap<&str, u64> = HashMap::new();
    for (name, _, count) in profile.sums(Line::name) {
        *misses.entry(plain(name)).or_default() += count;
    }
    let mut others: Vec<(&str, u64)> =
        misses.iter().map(|(name, count)| (*name, *count)).filter(|(name, _)| *name != REST).collect();
    others.retain(|(name, _)| places.iter().all(|place| place != name));
    others.sort_by_key(|&(name, count)| (Reverse(count), name));
    places.extend(others.into_iter().take(FUNCTIONS_DRAWN).map(|(name, _)| name.to_string()));
    let mut rest = 100.0;
    for (place, name) in places.iter().enumerate().filter(|(_, name)| *name != REST) {
        let part = misses.get(name.as_str()).map_or(0.0, |count| *count as f64 * 100.0 / all);
        rest -= part;
        series.push(place, part);
    }
    if let Some(place) = places.iter().position(|name| name == REST) {
        series.push(place, rest);
    }
    series
}

/// The name that the paper gives a function: one of the C library has its kind of machine in its own. A function without a name
/// belongs to the rest.
fn plain(name: &str) -> &str {
    if name.starts_with("0x") {
        return REST;
    }
    let bare = name.trim_start_matches('_');
    let kinds = ["_avx", "_evex", "_sse", "_erms"];
    match kinds.iter().filter_map(|kind| bare.find(kind)).min() {
        Some(end) if bare.len() < name.len() => &bare[..end],
        _ => name,
    }
}

/// Fills a server, then counts the requests of [`OPS`].
fn measure(launch: Launch, profiles: &Path, scale: &Scale) -> io::Result<Vec<Profile>> {
    let file = profiles.join("profile");
    let out = format!("--callgrind-out-file={}", file.display());
    let caches = ["--cache-sim=yes", "--I1=32768,8,64", "--D1=32768,8,64", "--LL=8388608,16,64"];
    let words = ["valgrind", "--tool=callgrind", "--instr-atstart=no", &out].into_iter().chain(caches);
    let server = launch.under(words).start()?;
    let sizes = Sizes::fixed(VALUE_BYTES);
    let fill = Load {
        op: Op::Set,
        keys: scale.keys,
        key_bytes: KEY_BYTES,
        sizes,
        order: Order::Sequence(0),
        connections: 1,
        pipeline: PIPELINE,
        requests: scale.keys,
        seed: 1,
    };
    point::refuse_errors(&load::run(server.address(), &fill)?)?;
    let mut measured = Vec::new();
    for (number, op) in OPS.into_iter().enumerate() {
        let load = Load { op, order: Order::Random, requests: scale.requests, ..fill.clone() };
        control(&server, &["--instr=on"])?;
        // Requests of the same kind fill the caches first.
        let warm = Load { requests: scale.requests / 10, seed: 2, ..load.clone() };
        point::refuse_errors(&load::run(server.address(), &warm)?)?;
        control(&server, &["--zero"])?;
        point::refuse_errors(&load::run(server.address(), &load)?)?;
        control(&server, &["--dump=measured"])?;
        control(&server, &["--instr=off"])?;
        let dump = file.with_extension((number + 1).to_string());
        measured.push(Profile::read(&dump)?);
    }
    Ok(measured)
}

fn control(server: &Server, words: &[&str]) -> io::Result<()> {
    let output = Command::new("callgrind_control").args(words).arg(server.pid().to_string()).output()?;
    let said = String::from_utf8_lossy(&output.stdout);
    if output.status.success() && !said.contains("Error") {
        return Ok(());
    }
    Err(io::Error::other(format!("callgrind_control {words:?}: {said}{}", String::from_utf8_lossy(&output.stderr))))
}

/// The output of callgrind_annotate on a profile.
#[derive(Debug, Serialize, Deserialize)]
struct Profile {
    events: Vec<String>,
    totals: Vec<u64>,
    lines: Vec<Line>,
}

/// A function's own counts.
#[derive(Debug, Serialize, Deserialize)]
struct Line {
    counts: Vec<u64>,
    function: String,
}

impl Profile {
    fn read(file: &PathBuf) -> io::Result<Profile> {
        let output = Command::new("callgrind_annotate").args(["--auto=no", "--threshold=99"]).arg(file).output()?;
        let text = String::from_utf8_lossy(&output.stdout);
        Profile::parse(&text).ok_or_else(|| io::Error::other(format!("{}: no profile\n{text}", file.display())))
    }

    /// The lines `Events shown`, `PROGRAM TOTALS` and those of functions; counts that are none are dots.
    fn parse(text: &str) -> Option<Profile> {
        let shown = text.lines().find_map(|line| line.strip_prefix("Events shown:"))?;
        let events: Vec<String> = shown.split_whitespace().map(String::from).collect();
        let mut lines: Vec<Line> = text
            .lines()
            .filter_map(|line| counts(line, events.len()))
            .map(|(counts, function)| Line { counts, function })
            .collect();
        let totals = lines.iter().position(|line| line.function == "PROGRAM TOTALS")?;
        let totals = lines.remove(totals).counts;
        Some(Profile { events, totals, lines })
    }

    fn place(&self, event: &str) -> usize {
        self.events.iter().position(|name| name == event).expect("callgrind counts caches")
    }

    fn total(&self, event: &str) -> u64 {
        self.totals[self.place(event)]
    }

    /// Instructions and last-level misses of lines of one name, the most instructions first.
    fn sums(&self, name: fn(&Line) -> &str) -> Vec<(&str, u64, u64)> {
        let [instructions, reads, writes] = ["Ir", "DLmr", "DLmw"].map(|event| self.place(event));
        let mut sums: HashMap<&str, (u64, u64)> = HashMap::new();
        for line in &self.lines {
            let sum = sums.entry(name(line)).or_default();
            sum.0 += line.counts[instructions];
            sum.1 += line.counts[reads] + line.counts[writes];
        }
        let mut sums: Vec<(&str, u64, u64)> = sums.into_iter().map(|(name, sum)| (name, sum.0, sum.1)).collect();
        sums.sort_by_key(|&(name, count, _)| (Reverse(count), name));
        sums
    }
}

impl Line {
    /// The function's name, without the file before it and the object behind it.
    fn name(&self) -> &str {
        let named = self.function.split_once(':').map_or(self.function.as_str(), |(_, name)| name);
        named.split(" [").next().unwrap_or(named)
    }

    /// The source file; where there is none, the object.
    fn file(&self) -> &str {
        match self.function.split_once(':') {
            Some(("???", named)) => named.rsplit_once('[').map_or("???", |(_, object)| object.trim_end_matches(']')),
            Some((file, _)) => file,
            None => "???",
        }
    }
}

/// Parses `1,234 (5.67%) . 89 (0.10%)  what`: a count for each event, and the name behind them.
fn counts(line: &str, events: usize) -> Option<(Vec<u64>, String)> {
    let mut rest = line.trim_start();
    let mut counts = Vec::new();
    while counts.len() < events {
        let (word, behind) = rest.split_once(' ')?;
        rest = behind.trim_start();
        counts.push(if word == "." { 0 } else { word.replace(',', "").parse().ok()? });
        if rest.starts_with('(') {
            rest = rest.split_once(')')?.1.trim_start();
        }
    }
    Some((counts, rest.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_are_named_as_in_the_paper_and_the_rest_is_summed() {
        assert_eq!(plain("__memcmp_avx2_movbe"), "memcmp");
        assert_eq!(plain("__memcpy_avx_unaligned_erms"), "memcpy");
        assert_eq!(
            (plain("_dictFind"), plain("dict_sse"), plain("0x0000000000034520")),
            ("_dictFind", "dict_sse", REST)
        );
        let text = "Events shown:     Ir DLmr DLmw\n50 100 . PROGRAM TOTALS\n10 30 . a.c:dictFind [/x]\n\
                    10 20 . ???:__memcmp_avx2_movbe [/y]\n10 15 . b.c:lookupKey [/x]\n10 5 . ???:0x00001 [/y]\n";
        let profiles = [(format!("Get of {PEER}"), Profile::parse(text).unwrap())];
        let figure = shares(&profiles);
        let of = |name: &str| figure.series[0].at(figure.places.iter().position(|place| place == name)?);
        let parts = ["dictFind", "memcmp", "lookupKey", "siphash", REST].map(|name| of(name).unwrap().median);
        assert_eq!(parts, [30.0, 20.0, 15.0, 0.0, 35.0]);
    }

    #[test]
    fn what_callgrind_annotate_prints_is_read() {
        let text = "Profiled target:  x\nEvents recorded:  Ir DLmr\nEvents shown:     Ir DLmr DLmw\n\
                    --------\nIr      DLmr\n--------\n1,500 (100.0%) 12 (100.0%) .  PROGRAM TOTALS\n\n\
                    1,000 (66.67%) 12 (100.0%) .  a.rs:f [/x]\n  500 (33.33%) .  .          ???:g (2) [/y]\n";
        let profile = Profile::parse(text).unwrap();
        assert_eq!((profile.total("Ir"), profile.total("DLmr"), profile.lines.len()), (1500, 12, 2));
        assert_eq!(profile.sums(Line::name), [("f", 1000, 12), ("g (2)", 500, 0)]);
        assert_eq!(profile.sums(Line::file), [("a.rs", 1000, 12), ("/y", 500, 0)]);
        assert!(Profile::parse("nothing").is_none());
    }
}
