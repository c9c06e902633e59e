//! The wall clock is set back an hour, and forward a day: expiry follows it, and nothing else does.
//!
//! libfaketime gives the server a wall clock of its own, read from a file, and leaves the steady clock alone.

#![forbid(unsafe_code)]

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use varve_testkit::{Client, Launch, RespValue, Server};

const HOUR_S: i64 = 3600;

/// A server whose wall clock can be set.
struct Shifted {
    server: Server,
    file: PathBuf,
}

impl Drop for Shifted {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.file);
    }
}

fn library() -> PathBuf {
    let folders = ["/usr/lib/x86_64-linux-gnu/faketime", "/usr/lib/aarch64-linux-gnu/faketime", "/usr/lib/faketime"];
    let found = folders.map(|folder| Path::new(folder).join("libfaketime.so.1")).into_iter().find(|path| path.exists());
    found.expect("libfaketime, of Debian's package faketime")
}

impl Shifted {
    fn start(name: &str) -> Shifted {
        let file = std::env::temp_dir().join(format!("varve-clock-{name}-{}", std::process::id()));
        fs::write(&file, "+0").expect("a file");
        let words = [
            "env".to_owned(),
            format!("LD_PRELOAD={}", library().display()),
            format!("FAKETIME_TIMESTAMP_FILE={}", file.display()),
            "FAKETIME_NO_CACHE=1".to_owned(),
            "FAKETIME_DONT_FAKE_MONOTONIC=1".to_owned(),
        ];
        let server = Launch::varve().under(words).config("timeout 600").start().expect("it starts");
        Shifted { server, file }
    }

    /// Sets the wall clock to this number of seconds beside the machine's, and waits until the server has seen it.
    fn shift(&self, seconds: i64) {
        let before = now_s(&mut self.server.client());
        fs::write(&self.file, format!("{seconds:+}")).expect("written");
        until("the clock is set", || now_s(&mut self.server.client()).abs_diff(before) > 600);
    }
}

fn integer(value: RespValue) -> i64 {
    match value {
        RespValue::Integer(number) => number,
        other => panic!("no number: {other:?}"),
    }
}

fn text(value: RespValue) -> String {
    match value {
        RespValue::Bulk(text) | RespValue::Simple(text) => String::from_utf8(text).expect("text"),
        other => panic!("no text: {other:?}"),
    }
}

fn now_s(client: &mut Client) -> i64 {
    let RespValue::Array(mut words) = client.cmd("TIME") else { panic!("no time") };
    text(words.swap_remove(0)).parse().expect("seconds")
}

fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(60);
    while !holds() {
        assert!(Instant::now() < end, "not within a minute: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Ages and idle times of all clients, seconds.
fn ages(client: &mut Client) -> Vec<i64> {
    let list = text(client.cmd("CLIENT LIST"));
    let words = list.split_whitespace().filter_map(|word| word.strip_prefix("age=").or(word.strip_prefix("idle=")));
    words.map(|word| word.parse().expect("seconds")).collect()
}

/// Waits, pauses and ages go on as if nothing had happened.
fn nothing_else_notices(shifted: &Shifted, idle: &mut Client) {
    let mut client = shifted.server.client();
    assert!(ages(&mut client).into_iter().all(|age| (0..600).contains(&age)), "{:?}", ages(&mut client));
    assert_eq!(client.cmd("BLPOP nowhere 0.05"), RespValue::NullArray, "a wait ends");
    assert_eq!(text(client.cmd("CLIENT PAUSE 50 WRITE")), "OK");
    assert_eq!(text(client.cmd("SET written 1")), "OK", "a pause ends");
    assert_eq!(text(client.cmd("SET short 1 PX 30")), "OK");
    let volatile = |client: &mut Client| text(client.cmd("INFO keyspace"));
    let before = volatile(&mut client);
    until("a key expires by itself", || volatile(&mut client) != before);
    assert_eq!(text(idle.cmd("PING")), "PONG", "nobody was idle for too long");
}

#[test]
fn the_clock_is_set_back_an_hour() {
    let shifted = Shifted::start("back");
    let (mut client, mut idle) = (shifted.server.client(), shifted.server.client());
    client.cmd("SET minute 1 EX 60");
    client.cmd("SET kept 1");
    shifted.shift(-HOUR_S);
    let left_s = integer(client.cmd("TTL minute"));
    assert!((HOUR_S..=HOUR_S + 60).contains(&left_s), "a time that was named is that time: {left_s}");
    nothing_else_notices(&shifted, &mut idle);
    // And forward to where it was: as if nothing had been.
    shifted.shift(0);
    assert!(integer(client.cmd("TTL minute")) <= 60);
    assert_eq!(integer(client.cmd("EXISTS kept")), 1);
}

#[test]
fn the_clock_is_set_forward_a_day() {
    let shifted = Shifted::start("forward");
    let (mut client, mut idle) = (shifted.server.client(), shifted.server.client());
    client.cmd("SET hour 1 EX 3600");
    client.cmd("SET month 1 EX 2592000");
    client.cmd("SET kept 1");
    shifted.shift(24 * HOUR_S);
    assert_eq!(integer(client.cmd("EXISTS hour month kept")), 2);
    until("it has gone by itself", || integer(client.cmd("DBSIZE")) == 2);
    nothing_else_notices(&shifted, &mut idle);
    let uptime = text(client.cmd("INFO server"));
    let uptime_s = uptime.lines().find_map(|line| line.strip_prefix("uptime_in_seconds:")).expect("a field");
    assert!(uptime_s.trim().parse::<i64>().expect("seconds") < 600, "{uptime_s}");
}
