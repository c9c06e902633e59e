//! ^C ends a run: it writes the report of what there is, and the same command goes on with the rest.
//!
//! ```text
//!   all --only commands --SIGINT in its middle--> commands.cases, a report that names it as not measured
//!   again ---------------------------------------> commands.json, with the values of the first run's cases
//! ```

mod common;

use common::{bench, can_run, read};
use serde_json::Value;
use std::fs;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// An experiment of some dozens of cases, so that there is time to stop it in their middle.
const NAME: &str = "commands";
const PATIENCE: Duration = Duration::from_secs(300);

fn run(folder: &Path) -> Command {
    let mut command = bench(folder);
    command.args(["--only", NAME]).stdout(Stdio::null()).stderr(Stdio::piped());
    command
}

/// The cases that a stopped run has kept: names and values.
fn cases(folder: &Path) -> Vec<(String, Value)> {
    let text = fs::read_to_string(folder.join(format!("{NAME}.cases"))).unwrap_or_default();
    let whole = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    whole.map(|line| (line["case"].as_str().expect("a name").to_string(), line["value"].clone())).collect()
}

/// Starts a run, and sends it a SIGINT when it has measured some cases: as a terminal does, to its servers as well.
fn stopped(folder: &Path) {
    let mut child = run(folder).process_group(0).spawn().expect("it starts");
    let begun = Instant::now();
    while cases(folder).len() < 2 {
        assert!(begun.elapsed() < PATIENCE, "no case was measured");
        assert!(child.try_wait().expect("a child").is_none(), "it ended before it was stopped");
        std::thread::sleep(Duration::from_millis(5));
    }
    let signal = format!("kill -INT -{}", child.id());
    assert!(Command::new("sh").args(["-c", &signal]).status().expect("a shell").success());
    let signalled = Instant::now();
    while child.try_wait().expect("a child").is_none() {
        if signalled.elapsed() > PATIENCE {
            let _ = child.kill();
            panic!("it did not end by itself");
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    let output = child.wait_with_output().expect("a child");
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(130), "the status of a program that ^C has ended: {text}");
}

/// Varve's requests a second in a case: by the case itself, and by the figures.
fn rate_of(case: &Value) -> f64 {
    case["per_s"][0]["median"].as_f64().expect("a rate")
}

fn rate_in(findings: &Value, place: &str) -> f64 {
    let figures = findings["figures"].as_array().expect("figures");
    let figure = figures.iter().find(|figure| figure["title"] == "Commands: operations a second").expect("rates");
    let number = figure["places"].as_array().expect("places").iter().position(|one| one == place).expect("the case");
    let points = figure["series"][0]["points"].as_array().expect("points");
    let point = points.iter().find(|point| point["place"] == number).expect("a value");
    point["value"]["median"].as_f64().expect("a rate")
}

#[test]
fn a_stopped_run_reports_and_goes_on() {
    if !can_run() {
        return;
    }
    let folder = std::env::temp_dir().join(format!("varve-stop-{}", std::process::id()));
    stopped(&folder);
    let kept = cases(&folder);
    assert!(kept.len() >= 2 && !folder.join(format!("{NAME}.json")).exists(), "{} cases", kept.len());
    let page = fs::read_to_string(folder.join("report.html")).expect("a report");
    let missing =
        page.split("Not measured yet: ").nth(1).and_then(|rest| rest.split("</p>").next()).expect("what misses");
    assert!(missing.contains(&format!("{NAME} ({} cases are measured", kept.len())), "{missing}");
    assert!(page.contains("(incomplete)</h2>") && page.contains(&kept[0].0), "the cases until now are drawn");
    let output = run(&folder).output().expect("it starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(!folder.join(format!("{NAME}.cases")).exists());
    let findings = read(folder.join(format!("{NAME}.json")));
    for (name, case) in &kept {
        let (first, last) = (rate_of(case), rate_in(&findings, name));
        assert!((first / last - 1.0).abs() < 1e-9, "{name} was measured again: {first} and {last}");
    }
    let page = fs::read_to_string(folder.join("report.html")).expect("a report");
    assert!(!page.contains("(incomplete)"));
    fs::remove_dir_all(&folder).expect("it is this test's own");
}
