//! BullMQ's own test suite against Varve: queues, workers and flows that are made of scripts.
//!
//! ```text
//!   VARVE_BULLMQ, its source as an archive --unpacked, npm--> .test-tools/bullmq
//!   some of its files, or with VARVE_BULLMQ_WHOLE all --vitest--> port 6379, which clients/bullmq/port.js makes ours
//! ```
//! The suite is not part of the project: without the archive, or without npm, the test says so and passes.

#![forbid(unsafe_code)]

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use varve_testkit::process::has_program;
use varve_testkit::server::workspace;
use varve_testkit::skip::skipped;
use varve_testkit::{Launch, Server};

/// The files that run without VARVE_BULLMQ_WHOLE.
const SHORT: &[&str] = &["scripts", "script_loader", "bulk", "queue", "job", "flow", "worker"];
/// Files that ask for another server (PostgreSQL), another client of which there is no package for each machine, or a cluster
/// and an address with port 6379.
const LEFT_OUT: &[&str] = &["postgres-queue-backend", "valkey-glide-client", "cluster"];
/// The files of the configuration for ioredis.
const IOREDIS: &[&str] = &["connection", "ioredis-client", "sandboxed_process"];

/// Says a line past the test's capture.
fn say(line: &str) {
    let _ = writeln!(std::io::stderr(), "{line}");
}

fn text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// Runs what makes the suite ready.
fn prepare(command: &mut Command) {
    let output = command.stdin(Stdio::null()).output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(output.status.success(), "{command:?}: {}", text(&output));
}

/// The suite with its dependencies, made from the archive when it is not there.
fn suite(archive: &Path) -> PathBuf {
    let dir = workspace().join(".test-tools/bullmq");
    let ready = dir.join("ready");
    let stamp = format!("{} bytes", fs::metadata(archive).expect("the archive").len());
    if fs::read_to_string(&ready).ok() == Some(stamp.clone()) {
        return dir;
    }
    let _ = fs::remove_dir_all(&dir);
    fs::create_dir_all(&dir).expect("a directory below .test-tools");
    prepare(Command::new("tar").arg("-xzf").arg(archive).args(["--strip-components=1", "-C"]).arg(&dir));
    let install = ["install", "--ignore-scripts", "--no-audit", "--no-fund", "--legacy-peer-deps"];
    prepare(Command::new("npm").args(install).current_dir(&dir));
    // Sandboxed processes run the compiled form.
    for script in ["generate:raw:scripts", "transform:commands", "tsc:all"] {
        prepare(Command::new("npm").args(["run", script]).current_dir(&dir));
    }
    fs::write(ready, stamp).expect("written");
    dir
}

/// Runs files of the suite, or all of a configuration; the names of those that fail, and the lines of the run.
fn run(suite: &Path, server: &Server, config: &str, files: &[String]) -> (Vec<String>, String) {
    let mut vitest = Command::new("npx");
    vitest.args(["vitest", "run", "--no-file-parallelism", "--reporter=dot", "--config", config]);
    let left_out = LEFT_OUT.iter().map(|name| format!("--exclude=tests/{name}.test.ts"));
    vitest.args(left_out).args(files).current_dir(suite).stdin(Stdio::null());
    let preload = workspace().join("tests/clients/bullmq/port.js");
    vitest.env("NODE_OPTIONS", format!("--require={}", preload.display()));
    vitest.env("VARVE_PORT", server.port().to_string()).env("NO_COLOR", "1").env("REDIS_HOST", "127.0.0.1");
    let output = vitest.output().unwrap_or_else(|error| panic!("{vitest:?}: {error}"));
    let text = text(&output);
    let failed = text.lines().filter_map(|line| line.trim_start().strip_prefix("FAIL  ")?.split(' ').next());
    let mut failed: Vec<String> = failed.map(str::to_owned).collect();
    failed.sort();
    failed.dedup();
    if failed.is_empty() && !output.status.success() {
        failed.extend_from_slice(files);
    }
    (failed, text)
}

#[test]
fn queues_workers_and_flows() {
    let Some(archive) = std::env::var_os("VARVE_BULLMQ").map(PathBuf::from).filter(|path| path.is_file()) else {
        return skipped("BullMQ's suite needs its source, an archive that VARVE_BULLMQ names");
    };
    if !["node", "npm"].into_iter().all(has_program) {
        return skipped("BullMQ's suite needs node and npm, which are not on this machine");
    }
    let suite = suite(&archive);
    let server = Launch::varve().start().expect("varve-server starts");
    let files = |names: &[&str]| names.iter().map(|name| format!("tests/{name}.test.ts")).collect::<Vec<_>>();
    let runs = match std::env::var_os("VARVE_BULLMQ_WHOLE") {
        Some(_) => vec![("vitest.config.ts", Vec::new()), ("vitest.ioredis.config.ts", files(IOREDIS))],
        None => vec![("vitest.config.ts", files(SHORT))],
    };
    for (config, files) in runs {
        let (mut failed, mut text) = run(&suite, &server, config, &files);
        if !failed.is_empty() {
            // Many of the suite's tests wait for fixed times, which a busy machine does not keep.
            say(&format!("BullMQ: once more, because of: {}", failed.join(" ")));
            (failed, text) = run(&suite, &server, config, &failed);
        }
        assert!(failed.is_empty(), "{}\n{text}", failed.join(" "));
        let summary = text.lines().find(|line| line.trim_start().starts_with("Tests "));
        println!("BullMQ, {config}: {}", summary.unwrap_or_else(|| panic!("no summary:\n{text}")).trim());
    }
    assert_eq!(server.client().cmd("DEBUG VERIFY").text(), "OK");
}
