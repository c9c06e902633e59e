//! `varve-top` beside a running server: its text for scripts, in each way in which it connects, and its screen.

#![forbid(unsafe_code)]

use std::io::{Read, Write};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::sync::OnceLock;

use varve_testkit::server::{free_port, target_dir, workspace};
use varve_testkit::tls::Certificates;
use varve_testkit::{Launch, Server, until};

/// The program, built once.
fn program() -> PathBuf {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    let build = || {
        let mut build = Command::new(env!("CARGO"));
        let built =
            build.args(["build", "--quiet", "--workspace", "--bin", "varve-top"]).current_dir(workspace()).status();
        assert!(built.is_ok_and(|status| status.success()), "varve-top is built");
        target_dir().join("debug/varve-top")
    };
    BUILT.get_or_init(build).clone()
}

fn top(args: &[&str]) -> Command {
    let mut command = Command::new(program());
    command.args(args).env_remove("REDISCLI_AUTH").stdin(Stdio::null());
    command
}

/// A view as text, after two looks.
fn once(args: &[&str]) -> Output {
    top(&[&["--once", "-i", "0.2"], args].concat()).output().expect("it runs")
}

fn out(output: &Output) -> String {
    let (said, complaint) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{said}{complaint}");
    said.into_owned()
}

/// The line of the error, with a status that says so.
fn complaint(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// A server with something in every view.
fn busy() -> Server {
    let server = Launch::varve().start().expect("a server");
    let mut client = server.client();
    client.cmd("CONFIG SET slowlog-log-slower-than 0");
    client.call(&["SET", "evil\x1b[2Jname", "x"]).expect("a reply");
    client.cmd("CONFIG SET slowlog-log-slower-than -1");
    for number in 0..20_000 {
        client.queue(&["SETEX", &format!("user:{}", number % 1000), "50", "a value"]);
    }
    client.flush().expect("sent");
    (0..20_000).for_each(|_| drop(client.read().expect("a reply")));
    server
}

#[test]
fn every_view_is_filled_and_fits() {
    let server = busy();
    let mut waiter = server.client();
    waiter.cmd("CLIENT SETNAME waiter");
    waiter.queue(&["BLPOP", "nothing", "0"]);
    waiter.flush().expect("sent");
    until("a client waits", || server.client().cmd("INFO clients").text().contains("blocked_clients:1"));
    // The samplers pass over keys bit by bit.
    until("keys were seen", || server.client().cmd("MEMORY PREFIXES").elements().is_some_and(|all| !all.is_empty()));
    let port = server.port().to_string();
    for (view, words) in [
        ("overview", &["commands/s", "CPU", "used memory", "Keys that are used most"][..]),
        ("commands", &["latency|histogram", "p99", "of time"]),
        ("segments", &[" segments, ", "of it lives"]),
        ("keys", &["user:", "Bytes by prefix", "Large keys", "within a minute"]),
        ("clients", &["waiter 127.0", "blpop", "keys"]),
        ("slow", &["evil\\x1b[2Jname x"]),
        ("files", &["last save", "follows nobody", "no replicas"]),
    ] {
        let text = out(&once(&["-p", &port, "--view", view]));
        words.iter().for_each(|word| assert!(text.contains(word), "{view}: {word}\n{text}"));
        assert_eq!(text.lines().count(), 24, "{view}\n{text}");
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{view}\n{text}");
        assert!(!text.contains('\x1b'), "{view}: a terminal obeys nothing in it\n{text}");
    }
    let wide = out(&once(&["-p", &port, "--view", "keys", "--width", "120", "--height", "40"]));
    assert_eq!(wide.lines().count(), 40, "{wide}");
}

#[test]
fn without_a_server_there_is_one_line_and_a_status() {
    let port = free_port().expect("a free port").to_string();
    let said = complaint(&once(&["-p", &port]));
    assert!(said.starts_with(&format!("varve-top: 127.0.0.1:{port}: ")), "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");
    let said = complaint(&once(&["-s", "/nowhere/socket"]));
    assert!(said.starts_with("varve-top: /nowhere/socket: "), "{said}");
}

#[test]
fn users_and_what_they_may_see() {
    let server = Launch::varve().start().expect("a server");
    let mut client = server.client();
    client.cmd("ACL SETUSER eve on >secret +info +auth ~*");
    client.cmd("ACL SETUSER default >other");
    let port = server.port().to_string();
    assert!(complaint(&once(&["-p", &port])).contains("NOAUTH"), "no password");
    assert!(complaint(&once(&["-p", &port, "-a", "wrong"])).contains("WRONGPASS"));
    let eve = ["-p", &port, "--user", "eve", "-a", "secret"];
    assert!(out(&once(&eve)).contains("the server refuses: NOPERM"), "she may not see keys");
    let mut by_environment = top(&["--once", "-i", "0.2", "-p", &port, "--view", "clients"]);
    let text = out(&by_environment.env("REDISCLI_AUTH", "other").output().expect("it runs"));
    assert!(text.contains("varve-top 127.0.0.1"), "it has a name in CLIENT LIST\n{text}");
}

#[test]
fn by_tls_and_by_a_socket() {
    let certificates = Certificates::make("top");
    let socket = std::env::temp_dir().join(format!("varve-top-{}", std::process::id()));
    let launch = Launch::varve().config(format!("unixsocket {}", socket.display()));
    let (_server, port) = launch.start_tls(&certificates).expect("a server");
    let (port, socket) = (port.to_string(), socket.display().to_string());
    let path = |name: &str| certificates.path(name).display().to_string();
    let (authority, certificate, key) = (path("ca.crt"), path("client.crt"), path("client.key"));
    let shows = ["-p", &port, "--tls", "--cert", &certificate, "--key", &key];
    assert!(out(&once(&[&shows[..], &["--cacert", &authority]].concat())).contains("commands/s"));
    assert!(out(&once(&[&shows[..], &["--insecure"]].concat())).contains("commands/s"));
    let said = complaint(&once(&[&shows[..], &["--cacert", &certificate]].concat()));
    assert!(said.contains("certificate"), "another authority is not believed: {said}");
    assert!(out(&once(&["-s", &socket])).contains(&socket));
}

/// Ends a program that has not ended by itself.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn the_screen_obeys_keys_and_leaves_the_terminal_as_it_was() {
    let server = busy();
    // `script` gives it a terminal, whose settings are printed before and after.
    let line =
        format!("stty cols 80 rows 24; stty -g; {} -p {}; stty -g; echo end", program().display(), server.port());
    let mut terminal = Command::new("script");
    terminal.args(["-qec", &line, "/dev/null"]).env("TERM", "xterm").stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = Ended(terminal.spawn().expect("script runs"));
    let (mut input, mut output) = (child.0.stdin.take().expect("piped"), child.0.stdout.take().expect("piped"));
    let mut seen = Vec::new();
    let mut read_until = |words: &str| {
        let mut chunk = [0; 4096];
        while !String::from_utf8_lossy(&seen).contains(words) {
            match output.read(&mut chunk) {
                Ok(got) if got > 0 => seen.extend_from_slice(&chunk[..got]),
                _ => panic!("no '{words}' in {}", String::from_utf8_lossy(&seen).escape_debug()),
            }
        }
    };
    read_until("percent of one core");
    input.write_all(b"6").expect("a key");
    read_until("Slow commands");
    input.write_all(b"q").expect("a key");
    read_until("end\r\n");
    let text = String::from_utf8_lossy(&seen);
    let settings: Vec<&str> = text.lines().filter(|line| line.split(':').count() > 20).collect();
    assert_eq!(settings.len(), 2, "{text:?}");
    let own = |line: &str| {
        line.split('\x1b').next_back().map(|rest| rest.rsplit(['h', 'l']).next().unwrap_or(rest).to_owned())
    };
    assert_eq!(own(settings[0]), own(settings[1]), "the terminal's settings");
    assert!(text.contains("\x1b[?1049h") && text.contains("\x1b[?1049l"), "the screen before is shown again: {text:?}");
}
