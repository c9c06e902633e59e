//! Thousands of clients that have not authenticated although a password is set: silent ones, half requests, floods that
//! read no reply, wrong passwords. What they take is bounded and costs nobody a key; those who know the password are
//! served; in the end all strangers are closed.

#![forbid(unsafe_code)]

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Command;
use std::time::Duration;

use varve_testkit::{Client, Launch, Server, figure, until};

/// Clients of each kind.
const OF_EACH: usize = 600;
const KINDS: [fn() -> Vec<u8>; 5] = [silent, one_byte, half_request, flood, wrong_passwords];
/// Bytes that all strangers together may have here.
const STRANGER_BYTES: u64 = 36 << 20;
const KEYS: usize = 20_000;
const MB: u64 = 1 << 20;

fn silent() -> Vec<u8> {
    Vec::new()
}

fn one_byte() -> Vec<u8> {
    b"*".to_vec()
}

/// 10 arguments of 16 KB, of which the last is not whole: all of them together would be 90 MB.
fn half_request() -> Vec<u8> {
    let argument = [b"$16384\r\n".to_vec(), vec![b'x'; 16_384], b"\r\n".to_vec()].concat();
    [b"*10\r\n".to_vec(), argument.repeat(9), b"$16384\r\nx".to_vec()].concat()
}

/// More replies than are kept for a stranger; its socket holds some of them.
fn flood() -> Vec<u8> {
    b"PING\r\n".repeat(20_000)
}

fn wrong_passwords() -> Vec<u8> {
    b"AUTH wrong\r\n".repeat(20)
}

/// Without a password; the one that asks is known from then on.
fn start() -> (Server, Client) {
    let wanted = KINDS.len() * OF_EACH + 1000;
    let me = std::process::id().to_string();
    let raised = Command::new("prlimit").args(["--pid", &me, &format!("--nofile={wanted}:")]).status();
    assert!(raised.is_ok_and(|status| status.success()), "this test needs {wanted} open files");
    let lines = ["io-threads 4", "maxmemory 32mb", "maxmemory-policy allkeys-lru", "unauthenticated-timeout 0"];
    let launch = lines.iter().fold(Launch::varve(), |launch, line| launch.config(*line));
    let server = launch.start().expect("varve-server starts");
    let mut known = server.client();
    assert_eq!(known.cmd("CONFIG SET requirepass secret").text(), "OK");
    (server, known)
}

fn connect(server: &Server) -> TcpStream {
    let stream = TcpStream::connect(server.address()).expect("a connection");
    stream.set_write_timeout(Some(Duration::from_secs(20))).expect("set");
    stream.set_read_timeout(Some(Duration::from_secs(60))).expect("set");
    stream
}

#[test]
fn thousands_of_strangers_are_bounded_and_harm_nobody() {
    let (server, mut known) = start();
    let value = "v".repeat(500);
    (0..KEYS).for_each(|n| assert_eq!(known.cmd(&format!("SET key:{n} {value}")).text(), "OK"));
    let (used, resident) = (figure(&mut known, "used_memory"), server.memory().expect("its memory").resident);
    let mut strangers = Vec::new();
    for nth in 0..OF_EACH {
        for kind in KINDS {
            let mut stream = connect(&server);
            // One that takes too much is closed while it sends.
            let _ = stream.write_all(&kind());
            strangers.push(stream);
        }
        if nth % 20 == 0 {
            assert_eq!(known.cmd("PING").text(), "PONG");
            assert_eq!(known.cmd(&format!("GET key:{nth}")).text(), value);
            let mut late = connect(&server);
            late.write_all(b"AUTH secret\r\nPING\r\n").expect("sent");
            let mut reply = [0; "+OK\r\n+PONG\r\n".len()];
            late.read_exact(&mut reply).expect("one who knows the password gets in");
            assert_eq!(&reply, b"+OK\r\n+PONG\r\n");
        }
    }
    // Half requests are closed while all strangers take too much.
    until("some are closed", || figure(&mut known, "connected_clients") <= (5 * OF_EACH - OF_EACH / 4) as u64);
    let now = server.memory().expect("its memory").resident;
    assert!(now < resident + STRANGER_BYTES + 64 * MB, "resident memory grew from {resident} to {now}");
    // On a busy machine some are closed later.
    until("strangers cost little of the limit", || figure(&mut known, "used_memory").saturating_sub(used) < 2 * MB);
    assert_eq!(figure(&mut known, "evicted_keys"), 0);
    // Those that wait are closed when their time is up.
    assert_eq!(known.cmd("CONFIG SET unauthenticated-timeout 1").text(), "OK");
    until("all are closed", || figure(&mut known, "connected_clients") == 1);
    assert_eq!(known.cmd("DBSIZE").integer(), Some(KEYS as i64));
    drop(strangers);
}
