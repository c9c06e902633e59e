//! Programs of client libraries, which lie in tests/clients: what they need is made ready, and they run against servers of their own.

#![allow(dead_code, reason = "each of the tests uses a part of it")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};
use varve_testkit::Launch;
use varve_testkit::java::Java;
use varve_testkit::made::made_once;
use varve_testkit::process::has_program;
use varve_testkit::server::workspace;
use varve_testkit::skip::skipped;
use varve_testkit::tls::Certificates;

/// How long a program may run; each takes some seconds.
const LIMIT: Duration = Duration::from_secs(300);

/// The folder of a program.
pub(crate) fn sources(name: &str) -> PathBuf {
    workspace().join("tests/clients").join(name)
}

/// A directory below .test-tools, made when it is not there.
pub(crate) fn tools(name: &str) -> PathBuf {
    let dir = workspace().join(".test-tools").join(name);
    fs::create_dir_all(&dir).expect("a directory below .test-tools");
    dir
}

/// True if all of a toolchain's programs are on the path; else a line says what is missing, past the test's capture.
pub(crate) fn present(client: &str, programs: &[&str]) -> bool {
    let missing = programs.iter().find(|name| !has_program(name));
    if let Some(missing) = missing {
        skipped(format_args!("{client} needs {missing}, which is not on this machine"));
    }
    missing.is_none()
}

fn text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// Runs what makes a program ready.
pub(crate) fn prepare(command: &mut Command) {
    let output = command.stdin(Stdio::null()).output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(output.status.success(), "{command:?}: {}", text(&output));
}

/// Runs a program against new servers on four workers, without TLS and with it; it must end by itself, with success and the
/// number of its checks.
pub(crate) fn run(client: &str, program: impl Fn() -> Command, protocol: Option<&str>) {
    let launch = Launch::varve().config("io-threads 4");
    let server = launch.start().expect("varve-server starts");
    run_once(client, program(), server.port(), protocol);
    assert_eq!(server.client().cmd("DEBUG VERIFY").text(), "OK");
    let certificates = Certificates::make(client);
    let (server, port) = launch.start_tls(&certificates).expect("varve-server starts");
    let mut program = program();
    program.env("VARVE_TLS", certificates.path(""));
    run_once(client, program, port, protocol);
    assert_eq!(server.client().cmd("DEBUG VERIFY").text(), "OK");
}

fn run_once(client: &str, mut program: Command, port: u16, protocol: Option<&str>) {
    program.arg(port.to_string()).args(protocol).stdin(Stdio::null());
    let mut child = program.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("starts");
    let end = Instant::now() + LIMIT;
    while Instant::now() < end && matches!(child.try_wait(), Ok(None)) {
        std::thread::sleep(Duration::from_millis(20));
    }
    let late = matches!(child.try_wait(), Ok(None));
    let _ = child.kill();
    let output = child.wait_with_output().expect("its output");
    let text = text(&output);
    assert!(!late && output.status.success(), "{client} in {protocol:?}: {}\n{text}", output.status);
    let summary = text.lines().find(|line| line.starts_with(client) && line.ends_with(" checks"));
    println!("{}, protocol {}", summary.unwrap_or_else(|| panic!("no summary:\n{text}")), protocol.unwrap_or("2"));
}

/// A program of node's, which lies in `main.js`, with the packages that its lock file names.
pub(crate) fn run_node(client: &str) {
    if !present(client, &["node", "npm"]) {
        return;
    }
    let (from, to) = (sources(client), tools(client));
    let names = ["package.json", "package-lock.json"];
    ready(&from, &to, &names, "node_modules/.package-lock.json", || {
        prepare(Command::new("npm").args(["ci", "--ignore-scripts"]).current_dir(&to));
    });
    let program = || {
        let mut program = Command::new("node");
        program.arg(from.join("main.js")).env("NODE_PATH", to.join("node_modules"));
        program
    };
    run(client, program, None);
}

/// A program in Java, which lies in `Main.java`, with the libraries that its `pom.xml` names, in both protocols.
pub(crate) fn run_java(client: &str) {
    let Some(program) = java(client) else { return };
    for protocol in ["2", "3"] {
        run(client, &program, Some(protocol));
    }
}

/// The command of a program in Java, made ready; none where its toolchain is missing.
pub(crate) fn java(client: &str) -> Option<impl Fn() -> Command + use<>> {
    if !present(client, &Java::PROGRAMS) {
        return None;
    }
    let ready = Java::ready(&sources(client), "Main.java", &tools(client));
    let java = ready.unwrap_or_else(|error| panic!("{client}: {error}"));
    Some(move || java.command("Main"))
}

/// [`made_once`] for tests, which end with what goes wrong.
pub(crate) fn ready(from: &Path, to: &Path, names: &[&str], made: &str, make: impl FnOnce()) {
    let done = made_once(from, to, names, made, || {
        make();
        Ok(())
    });
    done.expect("the files are copied");
}
