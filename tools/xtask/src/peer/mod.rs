//! The peer's own Tcl suite, with Varve in the place of its server.
//!
//! ```text
//! source archive -> .test-tools/peer-suite/ (fresh each run), src/redis-server -> varve-server, src/redis-cli -> the machine's
//! tests/peer-suite-skips.txt: unit | test | reason      -> one skip file a unit
//!                             unit | tag:NAME | reason  -> --tags -NAME: whole servers of the unit that fail outside of tests
//!                             unit | server:TEXT | reason -> a server of the unit, with all tests in it, that has this line outside
//!                                                            of tests and no tag of its own: cut out of our copy
//!                             tls unit | test | reason  -> left out by TLS alone
//! by TLS: --tls, certificates by the suite's own script, made once: .test-tools/peer-suite-tls/
//! runtest's lines: [ok] [err] [skip] [ignore] [exception]  -> the tally
//! ```
//!
//! Every server of the suite is bound to loopback, and a `hostname` of our own tells it that the machine has no other
//! address. A skip entry that names no test fails the run, so the list cannot outlive its reasons.

pub(crate) mod defragmenting;
mod edits;
pub(crate) mod sentinels;

use crate::setup;
use crate::shell::{Tally, command, follow, say, server_binary, step, tools_dir, workspace};
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The units that run. Of those about a cluster (`unit/cluster`, `unit/cluster-scripting`, `unit/cluster/links`,
/// `unit/cluster/misc`) each server begins with `cluster-enabled yes`: they run when there is a cluster mode.
const UNITS: &[&str] = &[
    PRINTS,
    "unit/type/string",
    "unit/type/incr",
    "unit/type/list",
    "unit/type/list-2",
    "unit/type/list-3",
    "unit/type/hash",
    "unit/type/set",
    "unit/type/zset",
    "unit/type/stream",
    "unit/type/stream-cgroups",
    "unit/geo",
    "unit/sort",
    "unit/bitops",
    "unit/bitfield",
    "unit/hyperloglog",
    "unit/keyspace",
    "unit/dump",
    "unit/scan",
    "unit/expire",
    "unit/protocol",
    "unit/quit",
    "unit/auth",
    "unit/acl",
    "unit/acl-v2",
    "unit/info",
    "unit/introspection",
    "unit/maxmemory",
    "unit/introspection-2",
    "unit/multi",
    "unit/pubsub",
    "unit/pubsubshard",
    "unit/tracking",
    "unit/slowlog",
    "unit/latency-monitor",
    "unit/pause",
    "unit/networking",
    "unit/obuf-limits",
    "unit/client-eviction",
    "unit/querybuf",
    "unit/pendingquerybuf",
    "unit/memefficiency",
    "unit/lazyfree",
    "unit/other",
    "unit/functions",
    "unit/scripting",
    "unit/aofrw",
    "unit/info-command",
    "unit/limits",
    "unit/replybufsize",
    "unit/oom-score-adj",
    "unit/violations",
    "unit/shutdown",
    "unit/wait",
    "integration/corrupt-dump",
    FUZZER,
    "integration/rdb",
    "integration/dismiss-mem",
    "integration/aof",
    "integration/aof-multi-part",
    ASSERTIONS,
    "integration/convert-zipmap-hash-on-load",
    "integration/convert-ziplist-hash-on-load",
    "integration/convert-ziplist-zset-on-load",
    "integration/logging",
    "integration/redis-cli",
    "integration/redis-benchmark",
    "integration/replication-2",
    "integration/replication-3",
    "integration/replication-4",
    "integration/replication-buffer",
    "integration/psync2",
    "integration/psync2-reg",
    "integration/psync2-pingoff",
    "integration/psync2-master-restart",
    "integration/block-repl",
    "integration/failover",
    "integration/shutdown",
];

/// The units that run when they are named, and in `long peer`: they wait for minutes.
pub(crate) const LONG_UNITS: &[&str] = &["integration/replication", "integration/replication-psync"];

/// Units whose tests count on the order in which requests of several connections were sent, or in which these were closed, and wait
/// for no reply between them: that is what one thread promises. Our own tests ask the same of several workers, and wait.
const ONE_WORKER: &[&str] = &[
    "unit/client-eviction",
    "unit/pubsub",
    "unit/pubsubshard",
    "unit/type/list",
    "unit/type/zset",
    "unit/type/stream",
    "unit/type/stream-cgroups",
    "integration/shutdown",
];
/// The unit that has no test with a name: it asserts, and its end is what counts. The peer's own run leaves it out, and it fails
/// there by itself: it starts a second server with the files of the first one, which the suite has removed.
const ASSERTIONS: &str = "integration/aof-race";
/// The unit that has no test at all: it prints the version of its server, and its end is what counts.
const PRINTS: &str = "unit/printver";
/// The unit that damages payloads at random, for as long as it is told to: 20 seconds, or 20 minutes.
const FUZZER: &str = "integration/corrupt-dump-fuzzer";
/// The arguments for 20 minutes: two tests, of which each is silent for half of that.
const FUZZER_AT_LENGTH: &[&str] = &["--accurate", "--timeout", "1500"];
/// The units with tests of large values, which the suite runs when it is told that there is room. Those of lists and sets are of
/// values beyond 4 GB, which are refused here.
pub(crate) const LARGE_UNITS: &[&str] = &["unit/violations", "unit/bitops"];
/// The arguments for these tests, which are silent for minutes.
const LARGE: &[&str] = &["--large-memory", "--timeout", "1500"];
/// Bytes that such a run wants to be free: a stream of 10 GB, a request of 1 GB, the 2 GB of its writer.
const LARGE_BYTES: u64 = 16 << 30;
/// Where the suite looks for free ports.
const PORTS_FROM: &str = "27111";
/// The beginning of an entry that leaves out all tests with a tag.
const TAG: &str = "tag:";
/// The beginning of an entry that leaves out a server.
const SERVER: &str = "server:";
/// Seconds without a finished test after which the suite gives up.
const SILENCE_LIMIT: &str = "120";

/// The unit that is about TLS: without it, its tests do nothing.
const TLS_UNIT: &str = "unit/tls";
/// The units that `test` runs by TLS: certificates and settings, ports that change, large requests and replies, users.
pub(crate) const TLS_UNITS_SHORT: &[&str] = &[TLS_UNIT, "unit/networking", "unit/type/string", "unit/acl"];

/// How the suite's clients reach its servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Over {
    Tcp,
    Tls,
}

/// The units to run.
#[derive(Debug)]
pub(crate) struct Choice {
    /// Their names; empty for all.
    pub(crate) units: Vec<String>,
    pub(crate) over: Over,
    /// The skip list is not used.
    pub(crate) no_skips: bool,
    /// Each unit runs in its long form: the one that damages payloads for 20 minutes, others with values of gigabytes.
    pub(crate) at_length: bool,
}

impl Choice {
    /// All units, or those of these names, with the skip list.
    pub(crate) fn of(units: &[&str], over: Over) -> Choice {
        Choice { units: units.iter().map(|&unit| unit.to_owned()).collect(), over, no_skips: false, at_length: false }
    }

    /// The unit that damages payloads, for 20 minutes.
    pub(crate) fn fuzzer_at_length() -> Choice {
        Choice { at_length: true, ..Choice::of(&[FUZZER], Over::Tcp) }
    }
}

/// The units that have tests of values of gigabytes, with these.
pub(crate) fn run_large() -> Tally {
    let about = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let available = about.lines().find_map(|line| line.strip_prefix("MemAvailable:")?.split_whitespace().next());
    let available = available.and_then(|kilobytes| kilobytes.parse::<u64>().ok()).unwrap_or(0) << 10;
    if available < LARGE_BYTES {
        let mut tally = Tally::default();
        tally.skip(format!("values of gigabytes want {} GB of free memory", LARGE_BYTES >> 30));
        return tally;
    }
    run(&Choice { at_length: true, ..Choice::of(LARGE_UNITS, Over::Tcp) })
}

struct Skip {
    unit: String,
    test: String,
    /// It counts by TLS alone.
    tls_only: bool,
}

/// A unit's tests that are left out.
#[derive(Default)]
struct LeftOut {
    names: BTreeSet<String>,
    /// Those of them that the unit must have. By TLS it leaves whole servers out itself, and tests of the list with them.
    checked: BTreeSet<String>,
}

impl LeftOut {
    fn of(skips: &[Skip], unit: &str, over: Over) -> LeftOut {
        let mut all = LeftOut::default();
        for skip in skips.iter().filter(|skip| skip.unit == unit && (over == Over::Tls || !skip.tls_only)) {
            all.names.insert(skip.test.clone());
            if skip.tls_only || over == Over::Tcp {
                all.checked.insert(skip.test.clone());
            }
        }
        all
    }
}

/// Runs the units, or all.
pub(crate) fn run_units(choice: &Choice) -> Tally {
    let skips = if choice.no_skips { Ok(Vec::new()) } else { read_skips() };
    let (suite, skips) = match prepare(choice.over).and_then(|suite| skips.map(|skips| (suite, skips))) {
        Ok(both) => both,
        Err(error) => return Tally::one("peer suite", Err(error)),
    };
    let mut tally = Tally::default();
    for skip in skips.iter().filter(|skip| !is_unit(&skip.unit)) {
        tally.fail(&format!("peer-suite-skips.txt: no unit {}", skip.unit));
    }
    let is_named = |unit: &&str| choice.units.iter().any(|wanted| wanted == unit);
    let units = UNITS.iter().chain((choice.over == Over::Tls).then_some(&TLS_UNIT));
    let units = units.filter(|unit| choice.units.is_empty() || is_named(unit));
    for unit in units.chain(LONG_UNITS.iter().filter(|unit| is_named(unit))) {
        let left_out = LeftOut::of(&skips, unit, choice.over);
        tally.add(step(unit, || or_again(unit, || one_unit(&suite, unit, choice, &left_out))));
    }
    tally
}

fn is_unit(name: &str) -> bool {
    UNITS.contains(&name) || LONG_UNITS.contains(&name) || name == TLS_UNIT
}

/// The source first, then the units.
pub(crate) fn run(choice: &Choice) -> Tally {
    setup::peer_source().and(|| run_units(choice))
}

fn read_skips() -> Result<Vec<Skip>, String> {
    let path = workspace().join("tests/peer-suite-skips.txt");
    let text = fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    let mut skips = Vec::new();
    for (number, line) in text.lines().enumerate().filter(|(_, line)| !line.starts_with('#') && !line.trim().is_empty())
    {
        let fields: Vec<&str> = line.split(" | ").map(str::trim).collect();
        let [unit, test, reason] = fields[..] else {
            return Err(format!("peer-suite-skips.txt:{}: not 'unit | test | reason'", number + 1));
        };
        // A leading slash would be a pattern for the suite: one entry names one test.
        if test.is_empty() || test.starts_with('/') || reason.len() < 8 {
            return Err(format!("peer-suite-skips.txt:{}: a test's name and a reason are needed", number + 1));
        }
        let (unit, tls_only) = unit.strip_prefix("tls ").map_or((unit, unit == TLS_UNIT), |unit| (unit, true));
        skips.push(Skip { unit: unit.into(), test: test.into(), tls_only });
    }
    Ok(skips)
}

fn prepare(over: Over) -> Result<PathBuf, String> {
    let server = server_binary();
    if !server.exists() {
        return Err(format!("{} is not there: build it first", server.display()));
    }
    let io = |error: std::io::Error| error.to_string();
    let suite = tools_dir().join("peer-suite");
    setup::unpack_source(&suite)?;
    symlink(fs::canonicalize(&server).map_err(io)?, suite.join("src/redis-server")).map_err(io)?;
    for tool in ["redis-cli", "redis-benchmark", "redis-check-aof"] {
        symlink(Path::new("/usr/bin").join(tool), suite.join("src").join(tool)).map_err(io)?;
    }
    fs::create_dir_all(suite.join("shims")).map_err(io)?;
    let hostname = suite.join("shims/hostname");
    fs::write(&hostname, "#!/bin/sh\necho 127.0.0.1\n").map_err(io)?;
    crate::shell::run(&mut command("chmod", &["755".as_ref(), hostname.as_os_str()]))?;
    if over == Over::Tls {
        certificates(&suite)?;
    }
    Ok(suite)
}

/// Gives the suite its certificates. They are kept, since the script takes long to find primes.
fn certificates(suite: &Path) -> Result<(), String> {
    let io = |error: std::io::Error| error.to_string();
    let (kept, wanted) = (tools_dir().join("peer-suite-tls"), suite.join("tests/tls"));
    if !kept.join("redis.crt").exists() {
        fs::create_dir_all(&wanted).map_err(io)?;
        // Parameters of a key exchange that is not spoken here: the script would look for others for minutes.
        fs::write(wanted.join("redis.dh"), "").map_err(io)?;
        crate::shell::run(command("utils/gen-test-certs.sh", &[] as &[&str]).current_dir(suite))?;
        return crate::shell::run(&mut command("cp", &["-r".as_ref(), wanted.as_os_str(), kept.as_os_str()]));
    }
    crate::shell::run(&mut command("cp", &["-r".as_ref(), kept.as_os_str(), wanted.as_os_str()]))
}

/// A run with failures is repeated once: many of the suite's tests wait for fixed times, which a busy machine does not keep.
/// A test that fails twice has failed.
fn or_again(name: &str, run: impl Fn() -> Tally) -> Tally {
    let first = run();
    if first.failed == 0 {
        return first;
    }
    say(&format!("{name}: once more, because of: {}", first.failures.join("; ")));
    let mut second = run();
    if second.failed == 0 {
        second.unsteady.extend(first.failures);
    }
    second
}

/// The suite's runner for one unit.
fn runner(suite: &Path, unit: &str, choice: &Choice, left_out: &LeftOut) -> Result<Command, String> {
    let skip_file = suite.join("skips");
    let (tags, names): (Vec<&String>, Vec<&String>) = left_out.names.iter().partition(|name| name.starts_with(TAG));
    let (servers, names): (Vec<&String>, Vec<&String>) = names.into_iter().partition(|name| name.starts_with(SERVER));
    for server in servers {
        cut_server(&suite.join(format!("tests/{unit}.tcl")), &server[SERVER.len()..])?;
    }
    edits::apply_all(unit, &suite.join(format!("tests/{unit}.tcl")))?;
    let text: String = names.iter().map(|name| format!("{name}\n")).collect();
    fs::write(&skip_file, text).map_err(|error| error.to_string())?;
    let path = std::env::var("PATH").unwrap_or_default();
    let mut runtest =
        command("./runtest", &["--single", unit, "--clients", "1", "--durable", "--config", "bind", "127.0.0.1"]);
    if ONE_WORKER.contains(&unit) {
        runtest.args(["--config", "io-threads", "1"]);
    }
    if choice.over == Over::Tls {
        runtest.arg("--tls");
    }
    runtest.args(["--baseport", PORTS_FROM, "--timeout", SILENCE_LIMIT, "--skipfile"]).arg(&skip_file);
    if choice.at_length {
        runtest.args(if unit == FUZZER { FUZZER_AT_LENGTH } else { LARGE });
    }
    if !tags.is_empty() {
        let denied: Vec<String> = tags.iter().map(|tag| format!("-{}", &tag[TAG.len()..])).collect();
        runtest.args(["--tags", &denied.join(" ")]);
    }
    runtest.current_dir(suite).env("PATH", format!("{}:{path}", suite.join("shims").display()));
    Ok(runtest)
}

/// Cuts the server with this text out of a unit, if it is there still: a unit may run twice.
fn cut_server(file: &Path, text: &str) -> Result<(), String> {
    let unit = fs::read_to_string(file).map_err(|error| error.to_string())?;
    match without_server(&unit, text) {
        Some(rest) => fs::write(file, rest).map_err(|error| error.to_string()),
        None => Ok(()),
    }
}

/// A unit without its outermost server that has this text; None if there is none.
fn without_server(unit: &str, text: &str) -> Option<String> {
    let at = unit.find(text)?;
    let begin = unit[..at].rfind("\nstart_server ")? + 1;
    let end = begin + unit[begin..].find("\n}\n")? + 3;
    (at < end).then(|| [&unit[..begin], &unit[end..]].concat())
}

fn one_unit(suite: &Path, unit: &str, choice: &Choice, left_out: &LeftOut) -> Tally {
    let mut runtest = match runner(suite, unit, choice, left_out) {
        Ok(runtest) => runtest,
        Err(error) => return Tally::one(unit, Err(error)),
    };
    let mut tally = Tally::default();
    let mut skipped = BTreeSet::new();
    let mut last = String::from("no test");
    let result = follow(&mut runtest, |line| {
        let line = plain(line);
        let Some((mark, rest)) = line.strip_prefix('[').and_then(|rest| rest.split_once("]: ")) else { return };
        match mark {
            "ok" => {
                tally.passed += 1;
                last = rest.to_string();
            }
            "TIMEOUT" => tally.fail(&format!("{unit}: no test has ended for {SILENCE_LIMIT} s, behind: {last}")),
            "err" | "exception" => tally.fail(&format!("{unit}: {rest}")),
            "skip" => {
                tally.skipped += 1;
                skipped.insert(rest.to_string());
            }
            "ignore" => {
                tally.skipped += 1;
                let tag = rest.rsplit_once("Tag: ").and_then(|(_, tag)| tag.strip_suffix(" denied"));
                skipped.extend(tag.map(|tag| format!("{TAG}{tag}")));
                say(&format!("skipped by the suite itself: {unit}: {rest}"));
            }
            _ => {}
        }
    });
    for name in left_out.checked.difference(&skipped).filter(|name| !name.starts_with(SERVER)) {
        tally.fail(&format!("peer-suite-skips.txt: {unit} has no test '{name}'"));
    }
    match result {
        Err(error) if tally.failed == 0 => tally.fail(&format!("{unit}: {error}")),
        Ok(_) if [ASSERTIONS, PRINTS].contains(&unit) && tally.failed == 0 => tally.passed += 1,
        _ if tally.passed + tally.failed + tally.skipped == 0 => tally.fail(&format!("{unit}: no test was run")),
        _ => {}
    }
    tally
}

/// A line without the colours of a terminal.
fn plain(line: &str) -> String {
    let mut out = String::new();
    let mut rest = line;
    while let Some((before, after)) = rest.split_once('\u{1b}') {
        out.push_str(before);
        rest = after.split_once('m').map_or("", |(_, rest)| rest);
    }
    out + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_are_taken_off() {
        assert_eq!(plain("[\u{1b}[0;32mok\u{1b}[0m]: SET (1 ms)"), "[ok]: SET (1 ms)");
    }

    #[test]
    fn a_server_is_cut_out_of_a_unit() {
        let unit = "a\nstart_server {x} {\n    r one\n}\nstart_server {y} {\n    r two\n    if 1 {\n    }\n}\nb\n";
        let rest = "a\nstart_server {x} {\n    r one\n}\nb\n";
        assert_eq!(without_server(unit, "r two").as_deref(), Some(rest));
        assert_eq!(without_server(rest, "r two"), None);
    }

    #[test]
    fn the_skip_list_is_well_formed() {
        assert!(read_skips().is_ok_and(|skips| skips.iter().all(|skip| is_unit(&skip.unit))));
    }
}
