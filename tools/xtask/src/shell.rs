//! Running programs and counting what they report.

use crate::lanes;
use std::ffi::OsStr;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

/// Counts of passed, failed and skipped tests.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub(crate) passed: u64,
    pub(crate) failed: u64,
    pub(crate) skipped: u64,
    pub(crate) failures: Vec<String>,
    /// Tests that failed, and passed when they ran once more. They are among those that passed.
    pub(crate) unsteady: Vec<String>,
    /// Tests that had nothing to look at here, and why. They are among those that were skipped.
    pub(crate) skips: Vec<String>,
}

impl Tally {
    /// One step that passed or failed as a whole.
    pub(crate) fn one(name: &str, result: Result<(), String>) -> Tally {
        let mut tally = Tally::default();
        match result {
            Ok(()) => tally.passed = 1,
            Err(error) => tally.fail(&format!("{name}: {error}")),
        }
        tally
    }

    pub(crate) fn fail(&mut self, what: &str) {
        self.failed += 1;
        self.failures.push(what.to_string());
    }

    pub(crate) fn add(&mut self, other: Tally) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.skipped += other.skipped;
        self.failures.extend(other.failures);
        self.unsteady.extend(other.unsteady);
        self.skips.extend(other.skips);
    }

    /// Counts a test, or a part of one, that had nothing to look at here.
    pub(crate) fn skip(&mut self, what: String) {
        self.skipped += 1;
        self.skips.push(what);
    }

    /// Goes on only when nothing has failed so far: for steps that later ones need.
    pub(crate) fn and(mut self, next: impl FnOnce() -> Tally) -> Tally {
        if self.failed == 0 {
            self.add(next());
        }
        self
    }

    pub(crate) fn summary(&self) -> String {
        let skipped = if self.skipped > 0 { format!(", {} skipped", self.skipped) } else { String::new() };
        format!("{} passed, {} failed{skipped}", self.passed, self.failed)
    }
}

/// The root of the workspace.
pub(crate) fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).map_or_else(PathBuf::new, Path::to_path_buf)
}

/// The directory of files that tests need beside the workspace: they are fetched, never committed.
pub(crate) fn tools_dir() -> PathBuf {
    workspace().join(".test-tools")
}

/// Where cargo builds.
pub(crate) fn target_dir() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| workspace().join("target"), PathBuf::from)
}

/// The server under test: VARVE_SERVER, else what `cargo build --release` builds.
pub(crate) fn server_binary() -> PathBuf {
    std::env::var_os("VARVE_SERVER").map_or_else(|| program("varve-server"), PathBuf::from)
}

/// A command in the workspace's root.
pub(crate) fn command<A: AsRef<OsStr>>(program: &str, args: &[A]) -> Command {
    let mut command = Command::new(program);
    command.args(args).current_dir(workspace()).stdin(Stdio::null());
    command
}

/// Cargo, the one that runs this.
pub(crate) fn cargo(args: &[&str]) -> Command {
    command(&std::env::var("CARGO").unwrap_or_else(|_| "cargo".into()), args)
}

/// The command that builds these programs in release, for [`target_dir`]. Features of dependencies are those of the whole
/// workspace, whichever programs are asked for: with `-p` each choice has features of its own, and what differs at the bottom
/// (`digest`, `serde`, `mio`) has all crates above built once more.
pub(crate) fn build_programs(names: &[&str]) -> Command {
    let programs = names.iter().flat_map(|name| ["--bin", *name]);
    cargo(&["build", "--quiet", "--release", "--workspace"].into_iter().chain(programs).collect::<Vec<_>>())
}

/// One of the workspace's programs as [`build_programs`] builds it.
pub(crate) fn program(name: &str) -> PathBuf {
    target_dir().join("release").join(name)
}

/// Runs a command with its output shown.
///
/// # Errors
/// When it cannot be run or ends with a status other than 0.
pub(crate) fn run(command: &mut Command) -> Result<(), String> {
    let name = format!("{command:?}");
    lanes::collect_from(command)?;
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("{name}: {status}")),
        Err(error) => Err(format!("{name}: {error}")),
    }
}

/// Runs a command and returns what it printed on standard output.
///
/// # Errors
/// When it cannot be run or ends with a status other than 0.
pub(crate) fn output(command: &mut Command) -> Result<String, String> {
    let name = format!("{command:?}");
    let output = command.output().map_err(|error| format!("{name}: {error}"))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    if output.status.success() {
        Ok(text)
    } else {
        Err(format!("{name}: {}\n{text}{}", output.status, String::from_utf8_lossy(&output.stderr)))
    }
}

/// Runs a command whose lines are shown and handed to `line` as they come.
///
/// # Errors
/// When it cannot be run or ends with a status other than 0.
pub(crate) fn follow(command: &mut Command, mut line: impl FnMut(&str)) -> Result<(), String> {
    let name = format!("{command:?}");
    lanes::collect_from(command)?;
    let mut child = command.stdout(Stdio::piped()).spawn().map_err(|error| format!("{name}: {error}"))?;
    if let Some(stdout) = child.stdout.take() {
        for text in BufReader::new(stdout).split(b'\n').map_while(Result::ok) {
            let text = String::from_utf8_lossy(&text).into_owned();
            say(&text);
            line(&text);
        }
    }
    match child.wait() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("{name}: {status}")),
        Err(error) => Err(format!("{name}: {error}")),
    }
}

/// Prints a line, or keeps it for the end of the step where the step's output is collected.
pub(crate) fn say(line: &str) {
    lanes::say(line);
}

/// Says what begins, and how long it took.
pub(crate) fn step(name: &str, work: impl FnOnce() -> Tally) -> Tally {
    lanes::collected(name, || {
        say(&format!("== {name}"));
        let start = Instant::now();
        let tally = work();
        say(&format!("== {name}: {} ({:.1} s)", tally.summary(), start.elapsed().as_secs_f64()));
        tally
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_summary_has_the_plain_form() {
        let mut tally = Tally { passed: 3, ..Tally::default() };
        assert_eq!(tally.summary(), "3 passed, 0 failed");
        tally.skipped = 2;
        assert_eq!(tally.summary(), "3 passed, 0 failed, 2 skipped");
    }

    #[test]
    fn a_program_that_fails_is_a_failure() {
        assert!(run(&mut command("false", &[""])).is_err());
    }
}
