//! The peer's suite about Sentinel: five of redis-server's Sentinels watch five of our servers.
//!
//! ```text
//! runtest-sentinel: sentinel_0 .. 4 (the machine's redis-server under its other name)  --watch, promote-->  redis_0 .. 4 (Varve)
//! its lines: "HH:MM:SS> test: OK", "HH:MM:SS> test: FAILED: why", "FAILED: caught an error ..."  -> the tally
//! ```
//!
//! The suite has no list of tests to leave out: all of them run. A run takes two and a half minutes, nearly all of them spent
//! waiting for Sentinel's own periods.

use super::{Over, follow, or_again, plain, prepare};
use crate::shell::{Tally, command, step};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

/// The program that is a Sentinel when it is called by another name.
const SENTINEL: &str = "/usr/bin/redis-server";

/// The suite's name in the summary.
const NAME: &str = "peer suite about Sentinel";

/// Runs the suite.
pub(crate) fn run() -> Tally {
    step(NAME, || or_again(NAME, once))
}

fn once() -> Tally {
    let suite = match prepare(Over::Tcp).and_then(|suite| sentinel_of(&suite).map(|()| suite)) {
        Ok(suite) => suite,
        Err(error) => return Tally::one(NAME, Err(error)),
    };
    let mut runtest = command("./runtest-sentinel", &["--config", "bind", "127.0.0.1"]);
    runtest.current_dir(&suite);
    let mut tally = Tally::default();
    let mut unit = String::new();
    let result = follow(&mut runtest, |line| {
        let line = plain(line);
        if let Some(name) = line.strip_prefix("Testing unit: ") {
            name.clone_into(&mut unit);
        } else if let Some(verdict) = Verdict::of(&line) {
            match verdict {
                Verdict::Passed => tally.passed += 1,
                Verdict::Failed(why) => tally.fail(&format!("sentinel/{unit}: {why}")),
            }
        }
    });
    match result {
        Err(error) if tally.failed == 0 => tally.fail(&format!("{NAME}: {error}")),
        _ if tally.passed + tally.failed == 0 => tally.fail(&format!("{NAME}: no test was run")),
        _ => {}
    }
    tally
}

/// The suite's folder gets the program that plays Sentinel, and the folder that its servers work in.
fn sentinel_of(suite: &Path) -> Result<(), String> {
    let io = |error: std::io::Error| error.to_string();
    symlink(SENTINEL, suite.join("src/redis-sentinel")).map_err(io)?;
    fs::create_dir_all(suite.join("tests/sentinel/tmp")).map_err(io)
}

/// How a test has ended, by its line.
#[derive(Debug, PartialEq, Eq)]
enum Verdict<'l> {
    Passed,
    /// The line.
    Failed(&'l str),
}

impl Verdict<'_> {
    /// None for a line that is no end of a test.
    fn of(line: &str) -> Option<Verdict<'_>> {
        if line.contains("FAILED: ") || line.contains("WARNING: Aborting") || line.contains("ERROR: ") {
            return Some(Verdict::Failed(line));
        }
        (line.contains("> ") && line.ends_with(": OK")).then_some(Verdict::Passed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_told_apart() {
        assert_eq!(Verdict::of("22:24:29> info command with one sub-section: OK"), Some(Verdict::Passed));
        let failed = "22:24:29> Basic failover works: FAILED: (no one) context";
        assert_eq!(Verdict::of(failed), Some(Verdict::Failed(failed)));
        assert!(matches!(Verdict::of("FAILED: caught an error in the test x"), Some(Verdict::Failed(_))));
        for line in ["Starting redis #0 at port 30000", "GOOD! No errors.", "Cleaning up..."] {
            assert_eq!(Verdict::of(line), None, "{line}");
        }
    }
}
