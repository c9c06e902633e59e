//! A rival of the command line (`--rival`) is in all that a run writes: its figures in JSON and CSV, its version in the settings.
//!
//! ```text
//!   varve-bench all --tiny --only scripts --rival again='redis-server ...'  -->  settings.json, scripts.json, scripts.csv
//! ```
//! The rival is a second redis-server, since each machine that runs the tests has one.

mod common;

use common::{bench, can_run, read};
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::Command;

const PROGRAM: &str = "redis-server";
const NAME: &str = "again";

/// The version that the program says itself: `Redis server v=7.0.15 sha=...`.
fn version() -> String {
    let said = Command::new(PROGRAM).arg("--version").output().expect("it starts");
    let said = String::from_utf8_lossy(&said.stdout);
    let word = said.split_whitespace().find_map(|word| word.strip_prefix("v="));
    word.expect("it says its version").to_string()
}

/// Runs one tiny experiment into a folder.
fn run(folder: &Path) {
    let mut bench = bench(folder);
    bench.args(["--only", "scripts", "--rival"]).arg(format!("{NAME}={PROGRAM} --port {{port}} --save \"\""));
    let output = bench.output().expect("it starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn a_rival_is_in_the_figures_with_its_version() {
    if !can_run() {
        return;
    }
    let folder = std::env::temp_dir().join(format!("varve-rival-{}", std::process::id()));
    run(&folder);
    let settings = read(folder.join("settings.json"));
    let pair = settings.as_array().expect("pairs").iter().find(|pair| pair[0] == NAME).expect("the rival's version");
    assert_eq!(pair[1], Value::String(version()), "as INFO has it");
    let findings = read(folder.join("scripts.json"));
    let figures = findings["figures"].as_array().expect("figures");
    let of = |title: &str| {
        let figure = figures.iter().find(|figure| figure["title"] == title).unwrap_or_else(|| panic!("no {title}"));
        let series = figure["series"].as_array().expect("series");
        series.iter().find(|series| series["name"] == NAME).unwrap_or_else(|| panic!("no rival in {title}")).clone()
    };
    for title in ["Scripts: microseconds of CPU per operation", "Scripts: operations a second"] {
        let series = of(title);
        assert_eq!(series["role"], "Rival");
        let points = series["points"].as_array().expect("points");
        assert_eq!(points.len(), 4, "{title}: a value of each case: {points:?}");
        let is_measured = |point: &Value| point["value"]["median"].as_f64().is_some_and(|median| median > 0.0);
        assert!(points.iter().all(is_measured), "{title}: {points:?}");
    }
    let csv = fs::read_to_string(folder.join("scripts.csv")).expect("a CSV");
    let lines = csv.lines().filter(|line| line.contains(&format!(",{NAME},EVALSHA")));
    assert!(lines.count() >= 4, "two cases, CPU and rate of each: {csv}");
    let page = fs::read_to_string(folder.join("report.html")).expect("a report");
    assert!(page.contains(&format!("<dt>{NAME}</dt>")) && page.contains(&format!("<th>{NAME}</th>")));
    fs::remove_dir_all(&folder).expect("it is this test's own");
}
