//! The tools that people have, run against Varve: redis-cli, redis-benchmark, redis-py.

#![forbid(unsafe_code)]

use std::io::{BufRead, Write};
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};
use varve_testkit::server::workspace;
use varve_testkit::tls::Certificates;
use varve_testkit::{Launch, Server, until};

fn varve() -> Server {
    Launch::varve().start().expect("varve-server starts")
}

fn filled(keys: usize) -> Server {
    let server = varve();
    let mut client = server.client();
    for i in 0..keys {
        client.queue(&["SET".to_string(), format!("key:{i:05}"), "x".repeat(i % 100 + 1)]);
    }
    client.flush().expect("sent");
    for _ in 0..keys {
        assert_eq!(client.read().expect("a reply").text(), "OK");
    }
    server
}

fn cli(server: &Server, args: &[&str]) -> Command {
    let mut command = Command::new("redis-cli");
    command.args(["-h", "127.0.0.1", "-p", &server.port().to_string()]).args(args).stdin(Stdio::null());
    command
}

fn text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// Runs a program that never ends by itself for some time, then ends it by its pid; what it has printed.
fn run_for(mut command: Command, limit: Duration) -> String {
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("starts");
    let end = Instant::now() + limit;
    while Instant::now() < end && matches!(child.try_wait(), Ok(None)) {
        std::thread::sleep(Duration::from_millis(20));
    }
    let _ = child.kill();
    text(&child.wait_with_output().expect("its output"))
}

#[test]
fn redis_cli_one_command() {
    let server = varve();
    let run = |args: &[&str]| text(&cli(&server, args).output().expect("redis-cli runs")).trim().to_string();
    assert_eq!(run(&["SET", "a b", "1"]), "OK");
    assert_eq!(run(&["GET", "a b"]), "1");
    assert_eq!(run(&["INCR", "a b"]), "2");
    assert_eq!(run(&["-3", "--no-raw", "GET", "nothing"]), "(nil)");
    assert_eq!(run(&["-n", "3", "EXISTS", "a b"]), "0");
    assert!(run(&["GET"]).contains("wrong number of arguments"));
    assert!(run(&["INFO", "server"]).contains("redis_version:7.0.15"));
}

#[test]
fn redis_cli_interactive() {
    let server = varve();
    let mut child = cli(&server, &[]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("redis-cli runs");
    let script = b"SET k \"hello world\"\nGET k\nHELLO 3\nGET nothing\nSELECT 2\nDBSIZE\nQUIT\n";
    child.stdin.take().expect("its input").write_all(script).expect("written");
    let text = text(&child.wait_with_output().expect("its output"));
    assert!(text.contains("OK") && text.contains("hello world") && text.contains("7.0.15"), "{text}");
}

#[test]
fn redis_cli_on_a_terminal() {
    let server = varve();
    // `script` gives redis-cli a terminal: it then asks for COMMAND DOCS to offer hints.
    let line = format!("stty cols 80 rows 24; exec redis-cli -h 127.0.0.1 -p {}", server.port());
    let mut child = Command::new("script")
        .args(["-qec", &line, "/dev/null"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("script runs");
    let mut input = child.stdin.take().expect("its input");
    // A terminal's Enter is a carriage return.
    for line in ["SET k v\r", "GET k\r", "exit\r"] {
        std::thread::sleep(Duration::from_millis(500));
        input.write_all(line.as_bytes()).expect("written");
    }
    let end = Instant::now() + Duration::from_secs(10);
    while Instant::now() < end && matches!(child.try_wait(), Ok(None)) {
        std::thread::sleep(Duration::from_millis(20));
    }
    drop(input);
    let _ = child.kill();
    let text = text(&child.wait_with_output().expect("its output"));
    assert!(text.contains("\"v\"") && text.contains(&format!("127.0.0.1:{}>", server.port())), "{text}");
}

#[test]
fn redis_cli_scan() {
    let server = filled(5000);
    let output = cli(&server, &["--scan"]).output().expect("redis-cli runs");
    let mut keys: Vec<String> = String::from_utf8_lossy(&output.stdout).lines().map(String::from).collect();
    keys.sort();
    keys.dedup();
    assert_eq!((keys.len(), keys[0].as_str()), (5000, "key:00000"));
    let output = cli(&server, &["--scan", "--pattern", "key:0001?"]).output().expect("redis-cli runs");
    assert_eq!(text(&output).lines().count(), 10);
}

#[test]
fn redis_cli_bigkeys_and_memkeys() {
    let server = filled(3000);
    let big = text(&cli(&server, &["--bigkeys"]).output().expect("redis-cli runs"));
    assert!(big.contains("Sampled 3000 keys in the keyspace!") && big.contains("with 100 bytes"), "{big}");
    let memory = text(&cli(&server, &["--memkeys"]).output().expect("redis-cli runs"));
    assert!(memory.contains("Sampled 3000 keys in the keyspace!"), "{memory}");
}

#[test]
fn redis_cli_latency_and_stat() {
    let server = filled(100);
    let latency = run_for(cli(&server, &["--latency", "-i", "1", "--csv"]), Duration::from_secs(5));
    assert!(latency.split(',').count() >= 4, "{latency}");
    let port = server.port().to_string();
    let mut stat = Command::new("stdbuf");
    stat.args(["-oL", "redis-cli", "-h", "127.0.0.1", "-p", &port, "--stat", "-i", "0.2"]).stdin(Stdio::null());
    let stat = run_for(stat, Duration::from_millis(1500));
    assert!(stat.contains("keys") && stat.contains("100"), "{stat}");
}

#[test]
fn redis_cli_eval() {
    let server = varve();
    let script = server.dir().join("add.lua");
    let text_of = "redis.call('SET', KEYS[1], ARGV[1]) return {redis.call('STRLEN', KEYS[1]), KEYS[1], ARGV[2]}";
    std::fs::write(&script, text_of).expect("a file");
    let script = script.display().to_string();
    let said = text(&cli(&server, &["--eval", &script, "k", ",", "value", "b c"]).output().expect("redis-cli runs"));
    assert_eq!(said.lines().collect::<Vec<_>>(), ["5", "k", "b c"], "{said}");
    assert_eq!(server.client().cmd("GET k").text(), "value");
}

#[test]
fn redis_cli_pipe() {
    let server = varve();
    let mut child =
        cli(&server, &["--pipe"]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("redis-cli runs");
    let mut requests = Vec::new();
    for number in 0..50_000 {
        varve_testkit::client::encode(&mut requests, &["SET", &format!("key:{number}"), "x"]);
    }
    varve_testkit::client::encode(&mut requests, &["LPUSH", "key:1", "x"]);
    child.stdin.take().expect("its input").write_all(&requests).expect("written");
    let said = text(&child.wait_with_output().expect("its output"));
    assert!(said.contains("errors: 1, replies: 50001"), "{said}");
    assert_eq!(server.client().cmd("DBSIZE").integer(), Some(50_000));
}

#[test]
fn redis_cli_hotkeys() {
    let server = filled(100);
    let mut client = server.client();
    client.cmd("CONFIG SET maxmemory-policy allkeys-lfu");
    (0..2000).for_each(|_| client.queue(&["GET", "key:00042"]));
    client.flush().expect("sent");
    (0..2000).for_each(|_| drop(client.read().expect("a reply")));
    let said = text(&cli(&server, &["--hotkeys"]).output().expect("redis-cli runs"));
    assert!(said.contains("Sampled 100 keys in the keyspace!"), "{said}");
    assert!(said.contains("hot key found with counter") && said.contains("key:00042"), "{said}");
}

/// redis-cli copies the data set, or the functions alone, as a replica gets them: redis-server loads the file.
#[test]
fn redis_cli_rdb() {
    let server = filled(1000);
    let mut client = server.client();
    let library = "#!lua name=kept\nredis.register_function('answer', function() return 42 end)";
    assert_eq!(client.call(&["FUNCTION", "LOAD", library]).expect("a reply").text(), "kept");
    for (option, keys) in [("--rdb", 1000), ("--functions-rdb", 0)] {
        let folder = server.dir().join(option);
        std::fs::create_dir(&folder).expect("a folder");
        let file = folder.join("dump.rdb").display().to_string();
        let said = cli(&server, &[option, &file]).output().expect("redis-cli runs");
        assert!(said.status.success(), "{option}: {said:?}");
        let peer = Launch::peer().config(format!("dir {}", folder.display())).start().expect("redis-server loads it");
        let mut there = peer.client();
        assert_eq!(there.cmd("DBSIZE").integer(), Some(keys), "{option}");
        assert_eq!(there.cmd("FCALL answer 0").integer(), Some(42), "{option}");
        if keys > 0 {
            assert_eq!(there.cmd("DEBUG DIGEST"), client.cmd("DEBUG DIGEST"), "{option}");
        }
    }
}

/// redis-cli as a replica prints the stream of commands that replicas get, without the data set.
#[test]
fn redis_cli_as_a_replica() {
    let server = filled(10);
    let mut program = Command::new("stdbuf");
    let port = server.port().to_string();
    program.args(["-oL", "redis-cli", "-h", "127.0.0.1", "-p", &port, "--replica"]).stdin(Stdio::null());
    let mut child = program.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("starts");
    let mut client = server.client();
    until("a replica is there", || client.cmd("INFO replication").text().contains("state=online"));
    client.cmd("SET written meanwhile");
    let mut lines = std::io::BufReader::new(child.stdout.take().expect("piped")).lines();
    let found = lines.by_ref().map_while(Result::ok).find(|line| line.contains("written"));
    let _ = child.kill();
    let _ = child.wait();
    let found = found.expect("the command comes by the stream");
    assert!(found.to_lowercase().contains("set") && found.contains("meanwhile"), "{found}");
}

/// These look at the machine, at the pace of replies and at what eviction leaves. They print figures for as long as they run.
#[test]
fn redis_cli_measures() {
    let server = filled(100);
    let seconds = text(&cli(&server, &["--intrinsic-latency", "1"]).output().expect("redis-cli runs"));
    assert!(seconds.contains("total runs"), "{seconds}");
    let port = server.port().to_string();
    let lines = |options: &[&str]| {
        let mut program = Command::new("stdbuf");
        program.args(["-oL", "redis-cli", "-h", "127.0.0.1", "-p", &port]).args(options).stdin(Stdio::null());
        run_for(program, Duration::from_millis(2500))
    };
    let history = lines(&["--latency-history", "-i", "1"]);
    assert!(history.contains("samples") || history.split_whitespace().count() >= 4, "{history}");
    let simulated = lines(&["--lru-test", "1000"]);
    assert!(simulated.contains("Gets/sec") && simulated.contains("Hits"), "{simulated}");
}

fn benchmark(connections: &str, pipeline: &str, requests: &str) {
    let server = varve();
    let output = Command::new("redis-benchmark")
        .args(["-h", "127.0.0.1", "-p", &server.port().to_string(), "-t", "set,get,incr,mset,ping", "-r", "10000"])
        .args(["-c", connections, "-P", pipeline, "-n", requests, "--csv"])
        .stdin(Stdio::null())
        .output()
        .expect("redis-benchmark runs");
    let text = text(&output);
    assert!(output.status.success() && !text.contains("Error"), "{text}");
    // A head, two for PING (inline and bulk), SET, GET, INCR, MSET.
    assert_eq!(text.lines().filter(|line| line.starts_with('"')).count(), 7, "{text}");
    assert_eq!(server.client().cmd("PING").text(), "PONG");
}

#[test]
fn redis_benchmark_one_connection() {
    benchmark("1", "1", "2000");
}

#[test]
fn redis_benchmark_fifty_connections_pipelined() {
    benchmark("50", "16", "20000");
}

#[test]
fn redis_benchmark_a_thousand_connections() {
    benchmark("1000", "1", "20000");
}

#[test]
fn redis_benchmark_long_pipelines() {
    benchmark("50", "100", "50000");
}

fn python() -> PathBuf {
    std::env::var_os("VARVE_PYTHON").map_or_else(|| workspace().join(".test-tools/venv/bin/python"), PathBuf::from)
}

/// redis-py in a protocol, to a port; by TLS with these certificates.
fn redis_py(protocol: &str, port: u16, tls: Option<&Certificates>) {
    let mut program = Command::new(python());
    program.arg(workspace().join("tests/python/smoke.py")).args([&port.to_string(), protocol]);
    program.envs(tls.map(|certificates| ("VARVE_TLS", certificates.path(""))));
    let output =
        program.output().unwrap_or_else(|error| panic!("{}: {error}; cargo xtask test makes it", python().display()));
    assert!(output.status.success(), "{}", text(&output));
}

#[test]
fn redis_py_in_resp2() {
    redis_py("2", varve().port(), None);
}

#[test]
fn redis_py_in_resp3() {
    redis_py("3", varve().port(), None);
}

/// redis-cli, redis-benchmark and redis-py show the server a certificate, which it asks for.
#[test]
fn tools_by_tls() {
    let certificates = Certificates::make("tools");
    let (server, port) = Launch::varve().start_tls(&certificates).expect("varve-server starts");
    let path = |name: &str| certificates.path(name).display().to_string();
    let words = ["--cacert", &path("ca.crt"), "--cert", &path("client.crt"), "--key", &path("client.key")];
    let run = |program: &str, args: &[&str]| {
        let mut command = Command::new(program);
        command.args(["-h", "127.0.0.1", "-p", &port.to_string(), "--tls"]).args(words).args(args);
        text(&command.stdin(Stdio::null()).output().expect("it runs"))
    };
    assert_eq!(run("redis-cli", &["SET", "a b", "1"]).trim(), "OK");
    assert_eq!(run("redis-cli", &["-3", "INCR", "a b"]).trim(), "2");
    let figures = run("redis-benchmark", &["-q", "-n", "20000", "-c", "20", "-P", "16", "-d", "3000", "-t", "set,get"]);
    assert_eq!(figures.matches("requests per second").count(), 2, "{figures}");
    let mut without = Command::new("redis-cli");
    without.args(["-p", &port.to_string(), "--tls", "--cacert", &path("ca.crt"), "PING"]).stdin(Stdio::null());
    let refused = text(&without.output().expect("it runs"));
    assert!(!refused.contains("PONG"), "{refused}");
    for protocol in ["2", "3"] {
        redis_py(protocol, port, Some(&certificates));
    }
    assert_eq!(server.client().cmd("DEBUG VERIFY").text(), "OK");
}
