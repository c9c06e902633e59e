//! redis-py's own test suite, with varve-server as its server.
//!
//! ```text
//! source archive -> .test-tools/redis-py-suite/tests (fresh each run; the library itself is the environment's)
//! tests/redis-py-skips.txt: pattern | reason  -> tests/python/redis_py_plugin.py marks those tests
//! RESP2: server, four workers, pytest --+ at the same time -> pytest's summary lines -> the tally
//! RESP3: server, one worker,   pytest --+
//! ```
//!
//! The tests of redis-py's cache, RESP3 only, look for an invalidation without waiting as soon as another connection's
//! write is answered. With several workers it is then on its way, but may not have come: there they would fail at times.
//!
//! The server has a port for TLS as well, with certificates where the suite looks for them: its own tests of TLS and those of
//! its cache by TLS go there.
//!
//! Tests that want a cluster or modules are left out by the suite's own markers. A skip that matches no test fails the run, so
//! the list cannot outlive its reasons.

use crate::certificates;
use crate::setup;
use crate::shell::{Tally, command, run, say, server_binary, step, tools_dir, workspace};
use std::fs;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The modules, below tests/; the same names below tests/test_asyncio are added where they are there.
const MODULES: &[&str] = &[
    "test_cache",
    "test_command_parser",
    "test_commands",
    "test_connect",
    "test_connection",
    "test_connection_pool",
    "test_credentials",
    "test_cwe_404",
    "test_encoding",
    "test_function",
    "test_hash",
    "test_helpers",
    "test_lock",
    "test_monitor",
    "test_multiprocessing",
    "test_parsers",
    "test_pipeline",
    "test_pubsub",
    "test_retry",
    "test_scripting",
    "test_ssl",
    "test_utils",
];

/// Where the suite looks for certificates, and the name of the server's.
const CERTIFICATES: &str = "dockers/standalone/tls";
const SERVER_NAME: &str = "redis";
/// Seconds that one test may take, and one protocol's run.
const TEST_LIMIT: &str = "--timeout=30";
const RUN_LIMIT: &str = "--session-timeout=300";
/// At most this number of failed tests is run once more.
const AGAIN_MAX: usize = 8;

/// The environment and the source first, then the suite. `words` go to pytest: modules, `-k`; none means everything.
pub(crate) fn run_all(words: &[String]) -> Tally {
    setup::python().and(|| step("redis-py suite", || suite(words)))
}

/// The suite in both protocols.
pub(crate) fn suite(words: &[String]) -> Tally {
    let suite = match prepare() {
        Ok(suite) => suite,
        Err(error) => return Tally::one("redis-py suite", Err(error)),
    };
    let mut tally = Tally::default();
    std::thread::scope(|scope| {
        let runs = ["2", "3"].map(|resp| {
            let suite = &suite;
            (resp, scope.spawn(move || one_protocol(suite, resp, words)))
        });
        for (resp, run) in runs {
            let name = format!("redis-py, RESP{resp}");
            match run.join().unwrap_or_else(|_| Err("the run panicked".into())) {
                Ok(text) => tally.add(again(&suite, resp, &name, count(&name, &text), &text)),
                Err(error) => tally.fail(&format!("{name}: {error}")),
            }
        }
    });
    tally
}

/// Runs a few tests that failed once more, alone: some of them wait for fixed times, which a busy machine does not keep. A
/// test that fails twice has failed.
fn again(suite: &Path, resp: &str, name: &str, first: Tally, text: &str) -> Tally {
    let failed = failed_tests(text);
    if failed.is_empty() || failed.len() > AGAIN_MAX || failed.len() as u64 != first.failed {
        return first;
    }
    say(&format!("{name}: once more: {}", failed.join(" ")));
    match one_protocol(suite, resp, &failed) {
        Ok(text) => {
            let mut second = count(name, &text);
            second.passed += first.passed;
            second.skipped += first.skipped;
            if second.failed == 0 {
                second.unsteady.extend(failed.iter().map(|test| format!("{name}: {test}")));
            }
            second
        }
        Err(_) => first,
    }
}

/// The names of failed tests, as pytest takes them.
fn failed_tests(text: &str) -> Vec<String> {
    let names = text.lines().filter_map(|line| line.strip_prefix("FAILED "));
    names.map(|line| line.split(" - ").next().unwrap_or(line).to_string()).collect()
}

fn prepare() -> Result<PathBuf, String> {
    let archive = setup::redis_py_archive()?;
    let io = |error: std::io::Error| error.to_string();
    let suite = tools_dir().join("redis-py-suite");
    if suite.exists() {
        fs::remove_dir_all(&suite).map_err(io)?;
    }
    fs::create_dir_all(&suite).map_err(io)?;
    // The directory stands first: what tar extracts after it goes there.
    let mut tar = command("tar", &["-C".as_ref(), suite.as_os_str(), "-xzf".as_ref(), archive.as_os_str()]);
    tar.args(["--strip-components=1", "--wildcards", "*/tests"]);
    run(&mut tar)?;
    certificates::make(&suite.join(CERTIFICATES), &[SERVER_NAME, "client"])?;
    Ok(suite)
}

/// Modules that are there.
fn modules(suite: &Path) -> Vec<String> {
    let below = |dir: &'static str| MODULES.iter().map(move |name| format!("{dir}/{name}"));
    let all = below("tests").chain(below("tests/test_asyncio"));
    let there = |name: &String| suite.join(name).exists();
    all.flat_map(|name| [format!("{name}.py"), name]).filter(there).collect()
}

fn one_protocol(suite: &Path, resp: &str, words: &[String]) -> Result<String, String> {
    let server = Server::start(suite, resp, if resp == "2" { "4" } else { "1" })?;
    let mut pytest = Command::new(setup::venv_python());
    pytest.args(["-m", "pytest", "-p", "redis_py_plugin", "-p", "no:cacheprovider", "-o", "asyncio_mode=auto"]);
    pytest.args(["-q", "-rfE", "--tb=short", "--disable-warnings", TEST_LIMIT, RUN_LIMIT, "--protocol", resp]);
    pytest.args(["-m", "not onlycluster and not redismod", "--redis-url"]);
    pytest.arg(format!("redis://127.0.0.1:{}/0", server.port));
    pytest.args(["--redis-ssl-url", &format!("rediss://127.0.0.1:{}", server.tls_port)]);
    if words.is_empty() {
        pytest.args(modules(suite)).env_remove("VARVE_SKIPS_PART");
    } else {
        pytest.args(words).env("VARVE_SKIPS_PART", "1");
    }
    pytest.env("PYTHONPATH", workspace().join("tests/python")).env("PYTHONDONTWRITEBYTECODE", "1");
    pytest.env("VARVE_SKIPS", workspace().join("tests/redis-py-skips.txt"));
    let output = pytest.current_dir(suite).stdin(Stdio::null()).output().map_err(|error| error.to_string())?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    Ok(text + &String::from_utf8_lossy(&output.stderr))
}

/// Reads pytest's last words: the failed tests' names and the line of counts.
fn count(name: &str, text: &str) -> Tally {
    let mut tally = Tally::default();
    for line in text.lines() {
        if line.starts_with("FAILED ") || line.starts_with("ERROR tests/") {
            tally.failures.push(format!("{name}: {line}"));
        }
    }
    let summary = text.lines().rev().find(|line| line.contains(" in ") && line.contains(" passed"));
    let counts = summary.and_then(|line| line.trim_matches('=').split(" in ").next()).unwrap_or_default();
    for part in counts.split(',') {
        let mut words = part.split_whitespace();
        let Some(number) = words.next().and_then(|word| word.parse::<u64>().ok()) else { continue };
        match words.next() {
            Some("passed" | "xpassed") => tally.passed += number,
            Some("failed" | "error" | "errors") => tally.failed += number,
            Some("skipped" | "xfailed") => tally.skipped += number,
            _ => {}
        }
    }
    if tally.passed == 0 && tally.failed == 0 {
        tally.fail(&format!("{name}: no test was run"));
    }
    if tally.failed > 0 {
        say(text);
    }
    say(&format!("{name}: {}", summary.unwrap_or("no summary")));
    tally
}

/// A server on a free port of loopback, ended by its pid.
struct Server {
    child: Child,
    port: u16,
    tls_port: u16,
}

impl Server {
    fn start(dir: &Path, name: &str, workers: &str) -> Result<Server, String> {
        let io = |error: std::io::Error| error.to_string();
        // Both at a time, so that they differ.
        let free = || TcpListener::bind((Ipv4Addr::LOCALHOST, 0));
        let (plain, tls) = (free().map_err(io)?, free().map_err(io)?);
        let (port, tls_port) = (plain.local_addr().map_err(io)?.port(), tls.local_addr().map_err(io)?.port());
        drop((plain, tls));
        let log = fs::File::create(dir.join(format!("server-resp{name}.log"))).map_err(io)?;
        let binary = server_binary();
        let mut server = Command::new(&binary);
        server.args(["--bind", "127.0.0.1", "--save", "", "--enable-debug-command", "yes", "--dir"]).arg(dir);
        server.args(["--io-threads", workers, "--port", &port.to_string()]).stdin(Stdio::null()).stdout(log);
        server.args(["--tls-port", &tls_port.to_string(), "--tls-auth-clients", "optional"]);
        let files = [("cert", SERVER_NAME, "crt"), ("key", SERVER_NAME, "key"), ("ca-cert", "ca", "crt")];
        for (setting, name, kind) in files {
            let path = dir.join(CERTIFICATES).join(format!("{name}.{kind}"));
            server.arg(format!("--tls-{setting}-file")).arg(path);
        }
        let child = server.spawn().map_err(|error| format!("{}: {error}; build it first", binary.display()))?;
        let server = Server { child, port, tls_port };
        let end = Instant::now() + Duration::from_secs(20);
        while TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_err() {
            if Instant::now() > end {
                return Err("the server does not answer".into());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(server)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_summary_is_counted() {
        let text = "....F\nFAILED tests/test_a.py::T::test_b - AssertionError\nERROR tests/test_a.py::test_c\n\
                    ERROR    asyncio:base_events.py:1771 Unclosed client\n\
                    1 failed, 3 passed, 5 skipped, 36 deselected, 4 xfailed, 2 xpassed, 388 warnings, 1 error in 6.93s\n";
        let tally = count("x", text);
        assert_eq!((tally.passed, tally.failed, tally.skipped), (5, 2, 9));
        assert_eq!(tally.failures.len(), 2);
        assert_eq!(count("x", "ImportError: no module").failed, 1);
    }
}
