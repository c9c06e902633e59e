//! Test programs of a `cargo test`: counts of what they print, failed tests, and a second try for these.
//!
//! A test that fails runs once more, alone: a machine with much other work may keep a test waiting for longer than it
//! allows. What fails twice has failed. What passes then is named in front of the summary, since it is a defect as well, of
//! the test or of what it tests.

use crate::shell::{Tally, follow, say};
use std::process::Command;

/// Lines that are kept of what a failed test printed.
const SAID_MAX: usize = 40;

/// Failed tests that run once more, at most: where more fail, it is not the machine.
const AGAIN_MAX: usize = 5;

/// Reads the output of test programs: counts, names of failed tests, and the beginning of what those printed.
#[derive(Default)]
struct Harness {
    tally: Tally,
    /// The failed tests' names.
    failed: Vec<String>,
    /// In the list of names at the end of a program's output.
    listed: bool,
    /// Lines kept of the failed test whose output this is.
    said: Option<usize>,
}

impl Harness {
    fn line(&mut self, name: &str, line: &str) {
        if let Some(rest) = line.strip_prefix("test result: ") {
            (self.listed, self.said) = (false, None);
            for part in rest.split(['.', ';']) {
                let mut words = part.split_whitespace();
                if let (Some(number), Some(what)) = (words.next().and_then(|n| n.parse::<u64>().ok()), words.next()) {
                    match what {
                        "passed" => self.tally.passed += number,
                        "failed" => self.tally.failed += number,
                        "ignored" => self.tally.skipped += number,
                        _ => {}
                    }
                }
            }
        } else if let Some(why) = skip(line) {
            self.tally.skip(format!("{name}: {why}"));
        } else if line == "failures:" {
            (self.listed, self.said) = (true, None);
        } else if line.starts_with("---- ") && line.ends_with(" stdout ----") {
            self.said = Some(0);
            self.tally.failures.push(format!("{name}: {line}"));
        } else if let Some(count) = self.said.as_mut().filter(|count| **count < SAID_MAX) {
            *count += 1;
            self.tally.failures.push(line.to_string());
        } else if let Some(test) = line.strip_prefix("    ").filter(|_| self.listed) {
            self.failed.push(test.to_string());
            self.tally.failures.push(format!("{name}: {test}"));
        }
    }
}

/// Why a test says that it is skipped. With one test at a time its name stands before that, in the same line.
fn skip(line: &str) -> Option<&str> {
    line.strip_prefix("skipped: ")
        .or_else(|| line.strip_prefix("test ")?.split_once(" ... skipped: ").map(|(_, why)| why))
}

/// Runs `cargo test` with these arguments and counts its tests; the few that fail run once more.
pub(crate) fn cargo_test(name: &str, command: &mut Command) -> Tally {
    let (first, failed) = followed(name, command);
    if failed.is_empty() || failed.len() > AGAIN_MAX || failed.len() as u64 != first.failed {
        return first;
    }
    say(&format!("{name}: once more: {}; the first time:", failed.join(" ")));
    first.failures.iter().for_each(|line| say(line));
    let (second, _) = followed(name, &mut only(command, &failed));
    if second.failed > 0 || second.passed < first.failed {
        return first;
    }
    Tally {
        passed: first.passed + first.failed,
        skipped: first.skipped,
        skips: first.skips,
        unsteady: failed.iter().map(|test| format!("{name}: {test}")).collect(),
        ..Tally::default()
    }
}

/// Counts of one run, and the names of the tests that failed in it.
fn followed(name: &str, command: &mut Command) -> (Tally, Vec<String>) {
    let mut harness = Harness::default();
    let result = follow(command, |line| harness.line(name, line));
    let mut tally = harness.tally;
    if let (Err(error), 0) = (result, tally.failed) {
        tally.fail(&format!("{name}: {error}"));
    }
    (tally, harness.failed)
}

/// Makes the command run these tests alone.
fn only(command: &Command, tests: &[String]) -> Command {
    let mut again = Command::new(command.get_program());
    again.args(command.get_args()).stdin(std::process::Stdio::null());
    if !command.get_args().any(|word| word == "--") {
        again.arg("--");
    }
    again.arg("--exact").args(tests);
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => again.env(name, value),
            None => again.env_remove(name),
        };
    }
    if let Some(folder) = command.get_current_dir() {
        again.current_dir(folder);
    }
    again
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shell::command;

    const FAILS: &str = "echo 'failures:'; echo '    a::b'; echo; \
        echo 'test result: FAILED. 3 passed; 1 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.01s'; exit 1";

    #[test]
    fn results_of_all_programs_are_added() {
        assert!(cargo_test("x", &mut command("false", &[""])).failed == 1);
        let text =
            "echo 'test result: FAILED. 3 passed; 2 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.01s'";
        let tally = cargo_test("x", &mut command("sh", &["-c", text]));
        assert_eq!((tally.passed, tally.failed, tally.skipped), (3, 2, 1));
    }

    #[test]
    fn a_test_that_fails_twice_has_failed() {
        let tally = cargo_test("x", &mut command("sh", &["-c", FAILS]));
        assert_eq!((tally.passed, tally.failed, tally.skipped), (3, 1, 1));
        assert_eq!((tally.failures, tally.unsteady.len()), (vec!["x: a::b".to_owned()], 0));
    }

    #[test]
    fn a_test_that_passes_the_second_time_is_named() {
        // The second run is asked for that test alone: the shell finds the names behind its own words.
        let passes = "echo 'test result: ok. 1 passed; 0 failed; 0 ignored'";
        let text = format!("if [ \"$*\" = '-- --exact a::b' ]; then {passes}; else {FAILS}; fi");
        let tally = cargo_test("x", &mut command("sh", &["-c", &text, "sh"]));
        assert_eq!((tally.passed, tally.failed, tally.skipped), (4, 0, 1));
        assert_eq!((tally.failures.len(), tally.unsteady), (0, vec!["x: a::b".to_owned()]));
    }

    #[test]
    fn a_second_run_without_the_test_does_not_count() {
        let text = format!("if [ $# -gt 1 ]; then echo 'test result: ok. 0 passed; 0 failed'; else {FAILS}; fi");
        assert_eq!(cargo_test("x", &mut command("sh", &["-c", &text, "sh"])).failed, 1);
    }

    #[test]
    fn tests_that_say_that_they_are_skipped_are_counted_and_named() {
        let text = "echo 'skipped: there is no x'; echo 'test a::b ... skipped: nor y'; echo ok; echo 'test c ... ok'; \
            echo 'test result: ok. 3 passed; 0 failed; 1 ignored'";
        let tally = cargo_test("x", &mut command("sh", &["-c", text]));
        assert_eq!((tally.passed, tally.failed, tally.skipped), (3, 0, 3));
        assert_eq!(tally.skips, ["x: there is no x", "x: nor y"]);
    }

    #[test]
    fn failed_tests_are_named_with_what_they_said() {
        let mut harness = Harness::default();
        let text = "running 2 tests\n\nfailures:\n\n---- a::b stdout ----\nit broke\n\n\nfailures:\n    a::b\n\n\
                    test result: FAILED. 1 passed; 1 failed; 0 ignored\n    not this";
        text.lines().for_each(|line| harness.line("x", line));
        assert_eq!(harness.tally.failures, ["x: ---- a::b stdout ----", "it broke", "", "", "x: a::b"]);
        assert_eq!((harness.tally.passed, harness.tally.failed, harness.failed), (1, 1, vec!["a::b".to_owned()]));
    }
}
