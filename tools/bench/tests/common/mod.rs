//! The tests' way to the program: a tiny run into a folder, and its files.

use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use varve_testkit::server::varve_binary;
use varve_testkit::skip::{has_or_skipped, skipped};

/// True if there are servers to measure; else the test is skipped, which is said.
pub(crate) fn can_run() -> bool {
    if !has_or_skipped("redis-server") {
        return false;
    }
    let found = varve_binary().exists();
    if !found {
        skipped("there is no varve-server of a release build");
    }
    found
}

/// A tiny run of all experiments into a folder.
pub(crate) fn bench(folder: &Path) -> Command {
    let mut bench = Command::new(env!("CARGO_BIN_EXE_varve-bench"));
    bench.args(["all", "--tiny", "--into"]).arg(folder);
    bench
}

/// A file's JSON.
pub(crate) fn read(file: PathBuf) -> Value {
    let text = fs::read_to_string(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    serde_json::from_str(&text).expect("JSON")
}
