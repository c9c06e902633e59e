//! Saving and loading, over sockets: what one server saves, the other loads; a save is of one instant whatever is changed
//! meanwhile; what fails says so.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::{Duration, Instant};

use varve_rdb::{Event, Reader};
use varve_testkit::{Client, Launch, RespValue, Server};

const PROGRAM: &str = env!("CARGO_BIN_EXE_varve-server");

/// A directory that ends with the test.
struct Dir(PathBuf);

impl Dir {
    fn new() -> Dir {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let name = format!("varve-saves-{}-{}", std::process::id(), COUNT.fetch_add(1, Relaxed));
        let dir = std::env::temp_dir().join(name);
        fs::create_dir_all(&dir).expect("a directory of our own");
        Dir(dir)
    }

    fn file(&self) -> PathBuf {
        self.0.join("dump.rdb")
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn launch(launch: Launch, dir: &Path) -> Launch {
    launch.config(format!("dir {}", dir.display()))
}

fn ours(dir: &Dir) -> Server {
    launch(Launch::binary(PROGRAM), &dir.0).start().expect("varve-server starts")
}

fn peer(dir: &Dir) -> Server {
    launch(Launch::peer(), &dir.0).start().expect("redis-server starts")
}

fn text(reply: RespValue) -> String {
    match reply {
        RespValue::Simple(text) | RespValue::Error(text) => String::from_utf8_lossy(&text).into_owned(),
        RespValue::Bulk(text) => String::from_utf8_lossy(&text).into_owned(),
        other => panic!("no text: {other:?}"),
    }
}

/// Sends all lines at once, and compares the replies.
fn pipeline(client: &mut Client, lines: &[(&str, &str)]) {
    lines.iter().for_each(|(line, _)| client.queue(&line.split(' ').collect::<Vec<_>>()));
    client.flush().expect("it is sent");
    for (line, reply) in lines {
        assert_eq!(text(client.read().expect("a reply")), *reply, "{line}");
    }
}

fn digest(client: &mut Client) -> String {
    text(client.cmd("DEBUG DIGEST"))
}

/// A field of INFO persistence.
fn field(client: &mut Client, name: &str) -> String {
    let info = text(client.cmd("INFO persistence"));
    let line = info.lines().find_map(|line| line.strip_prefix(&format!("{name}:")));
    line.unwrap_or_else(|| panic!("{name} in {info}")).to_owned()
}

fn wait_until(what: &str, mut is: impl FnMut() -> bool) {
    let until = Instant::now() + Duration::from_secs(30);
    while !is() {
        assert!(Instant::now() < until, "in vain: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn wait_for_save(client: &mut Client) {
    wait_until("the save ends", || field(client, "rdb_bgsave_in_progress") == "0");
}

/// Keys of all types, small and large, in two databases, some with an expiry far away.
fn fill(client: &mut Client) {
    assert_eq!(text(client.cmd("DEBUG POPULATE 3000 key 40")), "OK");
    for n in 0..40 {
        for line in [
            format!("RPUSH list:{n} a 12 -70000 5000000000 {}", "x".repeat(n * 7)),
            format!("SADD ints:{n} 1 2 {n}00 -5"),
            format!("SADD set:{n} a b member:{n}"),
            format!("HSET hash:{n} f v n 17 long {}", "y".repeat(n * 9)),
            format!("ZADD zset:{n} 1.5 a -2 b inf c -inf d 0.1 e:{n}"),
            format!("EXPIRE set:{n} {}", 10_000 + n),
        ] {
            assert!(!client.cmd(&line).is_error(), "{line}");
        }
    }
    // Long enough to be saved over several holds of their shards.
    for n in 0..10_000 {
        client.queue(&["RPUSH", "big list", &format!("element {n}")]);
        client.queue(&["SADD", "big set", &format!("member {n}")]);
        client.queue(&["HSET", "big hash", &format!("field {n}"), &n.to_string()]);
        client.queue(&["ZADD", "big zset", &format!("{n}.25"), &format!("member {n}")]);
    }
    client.flush().expect("it is sent");
    (0..40_000).for_each(|_| assert!(!client.read().expect("a reply").is_error()));
    client.cmd("SETRANGE large 700000 end");
    client.cmd("SELECT 5");
    client.cmd("SET other database");
    client.cmd("PEXPIREAT other 9999999999999");
    client.cmd("SELECT 0");
}

/// A score of -0 has its sign in a sorted set that is no small one, and so it has behind a file that both servers load.
#[test]
fn issue_13_scores_of_negative_zero_are_loaded_as_redis_server_loads_them() {
    let many: String = (0..300).map(|n| format!(" -0 m{n}")).collect();
    let scores = [ours, peer].map(|start: fn(&Dir) -> Server| {
        let dir = Dir::new();
        let server = start(&dir);
        let mut client = server.client();
        for line in [
            format!("ZADD long 5 {} -0 a", "m".repeat(100)),
            format!("ZADD many 5 first{many}"),
            "ZADD small -0 a 5 b".to_owned(),
        ] {
            assert!(!client.cmd(&line).is_error(), "{line}");
        }
        let mut seen = Vec::new();
        for reload in ["PING", "DEBUG RELOAD", "DEBUG RELOAD"] {
            assert!(!client.cmd(reload).is_error());
            seen.extend(
                ["ZSCORE long a", "ZSCORE many m0", "ZSCORE many m299", "ZSCORE small a"]
                    .map(|line| text(client.cmd(line))),
            );
            seen.push(digest(&mut client));
        }
        seen
    });
    assert_eq!(scores[0], scores[1]);
    assert!(scores[0].contains(&"-0".to_owned()), "{:?}", scores[0]);
}

#[test]
fn redis_server_loads_what_was_saved_and_the_other_way_round() {
    let dir = Dir::new();
    let first = ours(&dir);
    let mut client = first.client();
    fill(&mut client);
    let saved = digest(&mut client);
    assert_eq!(text(client.cmd("SAVE")), "OK");
    let second = peer(&dir);
    let mut peer_client = second.client();
    assert_eq!(digest(&mut peer_client), saved, "redis-server has what we saved");
    assert_eq!(text(peer_client.cmd("SAVE")), "OK");
    drop(second);
    for again in ["DEBUG RELOAD NOSAVE", "DEBUG RELOAD"] {
        assert_eq!(text(client.cmd(again)), "OK");
        assert_eq!(digest(&mut client), saved, "{again}");
        assert_eq!(text(client.cmd("DEBUG VERIFY")), "OK");
    }
    let third = ours(&dir);
    let mut client = third.client();
    assert_eq!(digest(&mut client), saved, "it is loaded at the start");
    assert_eq!(field(&mut client, "rdb_last_load_keys_loaded"), "3206");
    assert_eq!(field(&mut client, "rdb_changes_since_last_save"), "0");
}

/// The programs with which people check the files of redis-server find nothing wrong with ours, in either form of a base.
#[test]
fn the_checks_of_redis_pass_what_was_written() {
    let check = |program: &str, file: PathBuf| {
        let checked = std::process::Command::new(program).arg(file).output();
        let checked = checked.expect("the program of Redis runs");
        let text = String::from_utf8_lossy(&checked.stdout).into_owned();
        assert!(checked.status.success(), "{program}: {text}");
        text
    };
    for preamble in ["yes", "no"] {
        let dir = Dir::new();
        let append = Launch::binary(PROGRAM).config("appendonly yes").config("aof-timestamp-enabled yes");
        let server = launch(append.config(format!("aof-use-rdb-preamble {preamble}")), &dir.0).start();
        let server = server.expect("varve-server starts");
        let mut client = server.client();
        fill(&mut client);
        (0..300).for_each(|n| assert!(!client.cmd(&format!("XADD stream {n}-1 f {n} g v")).is_error()));
        for line in ["XGROUP CREATE stream g 0", "XREADGROUP GROUP g c COUNT 100 STREAMS stream >", "XDEL stream 7-1"] {
            assert!(!client.cmd(line).is_error(), "{line}");
        }
        assert_eq!(text(client.cmd("SAVE")), "OK");
        assert!(check("redis-check-rdb", dir.file()).contains("RDB looks OK!"));
        assert!(!client.cmd("BGREWRITEAOF").is_error());
        wait_until("the rewrite ends", || field(&mut client, "aof_rewrite_in_progress") == "0");
        assert_eq!(field(&mut client, "aof_last_bgrewrite_status"), "ok");
        assert_eq!(text(client.cmd("SET behind the-base")), "OK");
        let _ = client.call(&["SHUTDOWN", "NOSAVE"]);
        wait_until("the server ends", || client.call(&["PING"]).is_err());
        let valid = check("redis-check-aof", dir.0.join("appendonlydir/appendonly.aof.manifest"));
        assert!(valid.contains("All AOF files and manifest are valid"), "{valid}");
    }
}

#[test]
fn a_save_is_of_one_instant_whatever_is_changed_meanwhile() {
    let dir = Dir::new();
    let server = ours(&dir);
    let mut client = server.client();
    fill(&mut client);
    let saved = digest(&mut client);
    // The saver waits behind its first entries until all of the changes are made.
    assert_eq!(text(client.cmd("CONFIG SET rdb-key-save-delay 200")), "OK");
    assert_eq!(text(client.cmd("BGSAVE")), "Background saving started");
    assert_eq!(text(client.cmd("BGSAVE")), "ERR Background save already in progress");
    assert_eq!(text(client.cmd("SAVE")), "ERR Background save already in progress");
    for n in 0..3000 {
        client.queue(&["SET", &format!("key:{n}"), "changed"]);
        client.queue(&["SET", &format!("new:{n}"), "new"]);
        client.queue(&["RENAME", &format!("key:{n}"), &format!("renamed:{}", 2999 - n)]);
    }
    for n in 0..2000 {
        client.queue(&["LPOP", "big list"]);
        client.queue(&["SREM", "big set", &format!("member {}", n * 5)]);
        client.queue(&["HSET", "big hash", &format!("field {}", n * 3), "changed", &format!("new {n}"), "field"]);
    }
    client.queue(&["DEL", "big set"]);
    client.queue(&["RENAME", "big hash", "gone"]);
    client.queue(&["ZADD", "big zset", "3", "one"]);
    client.queue(&["SWAPDB", "0", "5"]);
    client.queue(&["FLUSHDB"]);
    client.flush().expect("it is sent");
    (0..15_005).for_each(|_| assert!(client.read().is_ok()));
    assert_ne!(digest(&mut client), saved);
    wait_for_save(&mut client);
    assert_eq!(field(&mut client, "rdb_last_bgsave_status"), "ok");
    let second = peer(&dir);
    assert_eq!(digest(&mut second.client()), saved);
}

/// More is overwritten than the saver takes: old values wait for it up to a bound, then writers do.
#[test]
fn what_waits_for_the_saver_is_bounded() {
    const KEYS: usize = 3000;
    let dir = Dir::new();
    let server = ours(&dir);
    let mut client = server.client();
    assert_eq!(text(client.cmd(&format!("DEBUG POPULATE {KEYS} key 30000"))), "OK");
    client.cmd("SETRANGE large 2000000 end");
    let saved = digest(&mut client);
    assert_eq!(text(client.cmd("CONFIG SET rdb-key-save-delay 600")), "OK");
    assert_eq!(text(client.cmd("BGSAVE")), "Background saving started");
    client.queue(&["SET", "large", "new"]);
    for n in (0..KEYS).rev() {
        client.queue(&["SET", &format!("key:{n}"), "new"]);
    }
    client.flush().expect("it is sent");
    (0..=KEYS).for_each(|_| assert_eq!(text(client.read().expect("a reply")), "OK"));
    assert_eq!(field(&mut client, "rdb_bgsave_in_progress"), "1", "writers do not wait for its end");
    wait_for_save(&mut client);
    let peak: usize = field(&mut client, "rdb_last_cow_size").parse().expect("bytes");
    // On a busy machine the writer is not much faster than the saver, which waits between keys.
    assert!((8 << 20..68 << 20).contains(&peak), "{peak} bytes waited");
    let second = peer(&dir);
    assert_eq!(digest(&mut second.client()), saved);
}

/// INFO's `aof_last_cow_size` is of rewrites, and `rdb_last_cow_size` of saves.
#[test]
fn issue_13_what_a_rewrite_kept_is_shown_when_it_has_ended() {
    const KEYS: usize = 400;
    let dir = Dir::new();
    let server = launch(Launch::binary(PROGRAM).config("appendonly yes"), &dir.0).start().expect("varve-server starts");
    let mut client = server.client();
    assert_eq!(field(&mut client, "aof_last_cow_size"), "0");
    assert_eq!(text(client.cmd(&format!("DEBUG POPULATE {KEYS} key 30000"))), "OK");
    assert_eq!(text(client.cmd("CONFIG SET rdb-key-save-delay 2000")), "OK");
    assert!(!client.cmd("BGREWRITEAOF").is_error());
    for n in (0..KEYS).rev() {
        client.queue(&["SET", &format!("key:{n}"), "new"]);
    }
    client.flush().expect("it is sent");
    (0..KEYS).for_each(|_| assert_eq!(text(client.read().expect("a reply")), "OK"));
    wait_until("the rewrite ends", || field(&mut client, "aof_rewrite_in_progress") == "0");
    let kept: usize = field(&mut client, "aof_last_cow_size").parse().expect("bytes");
    assert!((2 << 20..16 << 20).contains(&kept), "{kept} bytes waited");
    assert_eq!(field(&mut client, "rdb_last_cow_size"), "0", "nothing was saved");
    assert_eq!(text(client.cmd("SAVE")), "OK");
    assert_eq!(field(&mut client, "aof_last_cow_size"), kept.to_string(), "a save is no rewrite");
}

#[test]
fn a_save_that_fails_is_reported_and_writes_are_refused_until_one_succeeds() {
    let dir = Dir::new();
    // There are save points, so whoever writes counts on files.
    let server = launch(Launch::binary(PROGRAM), &dir.0).config("save 3600 1").start().expect("varve-server starts");
    let mut client = server.client();
    client.cmd("SET k v");
    // The file's name is taken by a directory.
    fs::create_dir(dir.file()).expect("a directory in the way");
    assert_eq!(text(client.cmd("SAVE")), "ERR");
    assert_eq!(text(client.cmd("SET k v2")), "OK", "only a save in the background tells of a disk that is broken");
    assert_eq!(text(client.cmd("BGSAVE")), "Background saving started");
    wait_for_save(&mut client);
    assert_eq!(field(&mut client, "rdb_last_bgsave_status"), "err");
    for line in ["SET k v3", "PING", "DEL k"] {
        assert!(text(client.cmd(line)).starts_with("MISCONF Redis is configured to save RDB snapshots"), "{line}");
    }
    assert_eq!(text(client.cmd("GET k")), "v2");
    client.cmd("MULTI");
    assert!(text(client.cmd("SET k v3")).starts_with("MISCONF"));
    assert!(text(client.cmd("EXEC")).starts_with("EXECABORT"));
    assert_eq!(text(client.cmd("SHUTDOWN")), "ERR Errors trying to SHUTDOWN. Check logs.");
    assert_eq!(text(client.cmd("CONFIG SET stop-writes-on-bgsave-error no")), "OK");
    assert_eq!(text(client.cmd("SET k v3")), "OK");
    assert_eq!(text(client.cmd("CONFIG SET stop-writes-on-bgsave-error yes")), "OK");
    assert!(text(client.cmd("SET k v4")).starts_with("MISCONF"));
    fs::remove_dir(dir.file()).expect("it is empty");
    assert_eq!(text(client.cmd("BGSAVE")), "Background saving started");
    wait_for_save(&mut client);
    assert_eq!(text(client.cmd("SET k v4")), "OK");
    let left: Vec<_> =
        fs::read_dir(&dir.0).expect("the directory").map(|entry| entry.expect("a name").file_name()).collect();
    assert_eq!(left, ["dump.rdb"], "no temporary file is left");
}

/// As in redis-server, a last save that fails says nothing of saves in the background.
#[test]
fn a_shutdown_that_cannot_save_refuses_no_writes() {
    let dir = Dir::new();
    let server = launch(Launch::binary(PROGRAM), &dir.0).config("save 3600 1").start().expect("varve-server starts");
    let mut client = server.client();
    client.cmd("SET k v");
    // The file's name is taken by a directory.
    fs::create_dir(dir.file()).expect("a directory in the way");
    for _ in 0..2 {
        assert_eq!(text(client.cmd("SHUTDOWN")), "ERR Errors trying to SHUTDOWN. Check logs.");
        assert_eq!(field(&mut client, "rdb_last_bgsave_status"), "ok");
        assert_eq!((text(client.cmd("PING")), text(client.cmd("SET k v2"))), ("PONG".to_owned(), "OK".to_owned()));
    }
}

#[test]
fn a_server_with_save_points_keeps_its_data_when_it_is_ended() {
    let dir = Dir::new();
    let start = || launch(Launch::binary(PROGRAM), &dir.0).config("save 3600 1").start().expect("varve-server starts");
    let mut server = start();
    server.client().cmd("SET k 1");
    assert!(server.client().call(&["SHUTDOWN"]).is_err(), "no reply");
    assert_eq!(server.wait(Duration::from_secs(20)), Some(true));
    let mut server = start();
    assert_eq!(text(server.client().cmd("GET k")), "1");
    server.client().cmd("SET k 2");
    server.signal("TERM").expect("it is sent");
    assert_eq!(server.wait(Duration::from_secs(20)), Some(true));
    let mut server = start();
    assert_eq!(text(server.client().cmd("GET k")), "2");
    server.client().cmd("SET k 3");
    let _ = server.client().call(&["SHUTDOWN", "NOSAVE"]);
    assert_eq!(server.wait(Duration::from_secs(20)), Some(true));
    let server = start();
    let mut client = server.client();
    assert_eq!(text(client.cmd("GET k")), "2");
    // FLUSHALL empties the file too.
    assert_eq!(text(client.cmd("FLUSHALL")), "OK");
    assert_eq!(field(&mut client, "rdb_changes_since_last_save"), "0");
    wait_until("the empty file is there", || fs::metadata(dir.file()).is_ok_and(|about| about.len() < 150));
}

#[test]
fn a_save_begins_when_a_save_point_is_reached() {
    let dir = Dir::new();
    let server = launch(Launch::binary(PROGRAM), &dir.0).config("save 1 3").start().expect("varve-server starts");
    let mut client = server.client();
    client.cmd("MSET a 1 b 2");
    assert_eq!(field(&mut client, "rdb_changes_since_last_save"), "2");
    client.cmd("SET c 3");
    wait_until("a file is written", || dir.file().exists());
    wait_for_save(&mut client);
    assert_eq!(field(&mut client, "rdb_changes_since_last_save"), "0");
    assert!(server.log().contains("3 changes in 1 seconds. Saving..."), "{}", server.log());
}

#[test]
fn flushall_cancels_a_save() {
    let dir = Dir::new();
    let server = ours(&dir);
    let mut client = server.client();
    client.cmd("MSET a 1 b 2 c 3");
    client.cmd("CONFIG SET rdb-key-save-delay 10000000");
    client.cmd("BGSAVE");
    assert_eq!(field(&mut client, "rdb_bgsave_in_progress"), "1");
    client.cmd("FLUSHALL");
    wait_for_save(&mut client);
    assert_eq!(field(&mut client, "rdb_last_bgsave_status"), "ok");
    assert!(!dir.file().exists());
    client.cmd("CONFIG SET rdb-key-save-delay 0");
    client.cmd("MULTI");
    client.cmd("SET d 4");
    client.cmd("BGSAVE");
    let replies = client.cmd("EXEC");
    assert!(format!("{replies:?}").contains("Background saving scheduled") || !replies.is_error(), "{replies:?}");
    wait_until("it is saved behind the transaction", || dir.file().exists());
}

#[test]
fn whoever_asks_for_a_save_behind_flushall_has_one() {
    let dir = Dir::new();
    let server = launch(Launch::binary(PROGRAM), &dir.0).config("save 3600 1").start().expect("varve-server starts");
    let mut client = server.client();
    client.cmd("DEBUG POPULATE 500 key 40");
    client.cmd("CONFIG SET rdb-key-save-delay 10000");
    // The save that FLUSHALL cancels has not ended when the next one is asked for, nor has its own.
    pipeline(
        &mut client,
        &[
            ("BGSAVE", "Background saving started"),
            ("FLUSHALL", "OK"),
            ("SAVE", "OK"),
            ("SET a 1", "OK"),
            ("FLUSHALL", "OK"),
            ("BGSAVE", "Background saving started"),
            ("SET b 2", "OK"),
            ("FLUSHALL", "OK"),
            ("SET c 3", "OK"),
            ("SAVE", "OK"),
        ],
    );
    let second = peer(&dir);
    assert_eq!(text(second.client().cmd("GET c")), "3");
    assert_eq!(second.client().cmd("DBSIZE"), RespValue::Integer(1));
}

/// redis-server has written the empty file before FLUSHALL is answered, so that a rewrite finds nothing under way.
#[test]
fn issue_13_a_rewrite_behind_flushall_has_begun() {
    let dir = Dir::new();
    let server = launch(Launch::binary(PROGRAM), &dir.0).config("save 3600 1").start().expect("varve-server starts");
    let mut client = server.client();
    client.cmd("DEBUG POPULATE 500 key 40");
    client.cmd("CONFIG SET rdb-key-save-delay 10000");
    pipeline(
        &mut client,
        &[
            ("BGSAVE", "Background saving started"),
            ("FLUSHALL", "OK"),
            ("DEBUG POPULATE 100 key 40", "OK"),
            ("BGREWRITEAOF", "Background append only file rewriting started"),
            ("BGREWRITEAOF", "ERR Background append only file rewriting already in progress"),
            ("BGSAVE SCHEDULE", "Background saving scheduled"),
            ("SET a 1", "OK"),
        ],
    );
    wait_until("the rewrite ends", || field(&mut client, "aof_rewrite_in_progress") == "0");
    assert_eq!(field(&mut client, "aof_rewrites"), "1");
    wait_for_save(&mut client);
    let base = dir.0.join("appendonlydir/appendonly.aof.1.base.rdb");
    assert!(base.exists(), "{}", server.log());
}

#[test]
fn a_save_goes_where_it_was_when_it_began() {
    let (dir, other) = (Dir::new(), Dir::new());
    let server = launch(Launch::binary(PROGRAM), &dir.0).config("enable-protected-configs yes").start();
    let server = server.expect("varve-server starts");
    let mut client = server.client();
    client.cmd("DEBUG POPULATE 100 key 10");
    client.cmd("CONFIG SET rdb-key-save-delay 2000");
    assert_eq!(text(client.cmd("BGSAVE")), "Background saving started");
    assert_eq!(text(client.call(&["CONFIG", "SET", "dir", &other.0.display().to_string()]).expect("a reply")), "OK");
    assert_eq!(field(&mut client, "rdb_bgsave_in_progress"), "1");
    wait_for_save(&mut client);
    assert_eq!(field(&mut client, "rdb_last_bgsave_status"), "ok");
    assert!(dir.file().exists() && !other.file().exists());
    assert_eq!(fs::read_dir(&dir.0).expect("the directory").count(), 1, "no temporary file is left");
}

#[test]
fn the_use_of_keys_is_saved_as_the_policy_looks_at_it() {
    for (policy, option, object, value) in
        [("allkeys-lfu", "FREQ", "FREQ", 77), ("volatile-lru", "IDLETIME", "IDLETIME", 50_000)]
    {
        let dir = Dir::new();
        let with_policy = |start: Launch| launch(start, &dir.0).config(format!("maxmemory-policy {policy}"));
        // A counter of uses falls by itself.
        let with_policy = |start: Launch| with_policy(start).config("lfu-decay-time 0").start().expect("it starts");
        let first = with_policy(Launch::binary(PROGRAM));
        let mut client = first.client();
        client.cmd("SET from value");
        let RespValue::Bulk(payload) = client.cmd("DUMP from") else { panic!("a payload") };
        let number = value.to_string();
        client.queue(&[b"RESTORE".as_slice(), b"k", b"0", &payload, option.as_bytes(), number.as_bytes()]);
        client.flush().expect("it is sent");
        assert_eq!(text(client.read().expect("a reply")), "OK");
        let is_kept = |client: &mut Client| {
            let RespValue::Integer(now) = client.cmd(&format!("OBJECT {object} k")) else { panic!("a number") };
            assert!((value..value + 300).contains(&now), "{policy}: {now}");
        };
        is_kept(&mut client);
        assert_eq!(text(client.cmd("SAVE")), "OK");
        let second = with_policy(Launch::peer());
        let mut peer_client = second.client();
        is_kept(&mut peer_client);
        assert_eq!(text(peer_client.cmd("SAVE")), "OK");
        is_kept(&mut with_policy(Launch::binary(PROGRAM)).client());
    }
}

#[test]
fn a_damaged_file_is_refused_with_its_offset() {
    let dir = Dir::new();
    {
        let server = ours(&dir);
        let mut client = server.client();
        client.cmd("CONFIG SET rdbcompression no");
        client.cmd("SET key 0123456789012345678901234567890123456789");
        assert_eq!(text(client.cmd("SAVE")), "OK");
    }
    let whole = fs::read(dir.file()).expect("the file");
    let at = whole.windows(4).position(|bytes| bytes == b"0123").expect("the value");
    let mut flipped = whole.clone();
    flipped[at] ^= 1;
    // Nobody compares the checksum where `rdbchecksum` is off, neither here nor in redis-server.
    fs::write(dir.file(), &flipped).expect("it is written");
    for launch in [Launch::binary(PROGRAM), Launch::peer()] {
        let launch = launch.config("rdbchecksum no").config(format!("dir {}", dir.0.display()));
        let server = launch.start().expect("it is loaded");
        let mut client = server.client();
        assert_eq!(text(client.cmd("GET key")), "1123456789012345678901234567890123456789");
    }
    for (damaged, says) in [(flipped, "checksum"), (whole[..whole.len() - 20].to_vec(), "at byte")] {
        fs::write(dir.file(), damaged).expect("it is written");
        let output = std::process::Command::new(PROGRAM)
            .args(["--port", "0", "--unixsocket", "s.sock", "--dir"])
            .arg(&dir.0)
            .output()
            .expect("the program runs");
        let log = String::from_utf8_lossy(&output.stdout).to_lowercase();
        assert!(!output.status.success() && log.contains(says) && log.contains("fatal error loading the db"), "{log}");
    }
}

/// The number of files of data in this folder that are not whole. A manifest that a kill kept from its place is no such
/// file: it has one name, and the next manifest takes its place.
fn unfinished(dir: &Path) -> usize {
    let names = fs::read_dir(dir).expect("the folder").map(|entry| entry.expect("an entry").file_name());
    names.filter(|name| name.to_string_lossy().starts_with("temp-")).filter(|name| !is_manifest(name)).count()
}

fn is_manifest(name: &OsStr) -> bool {
    name.to_string_lossy().ends_with(".manifest")
}

/// A server that was killed could not remove its files; those of one that lives are not touched.
#[test]
fn what_a_killed_server_has_not_finished_goes_at_the_next_start() {
    let (dir, folder) = (Dir::new(), PathBuf::from("appendonlydir"));
    let folder = dir.0.join(folder);
    for rewrites in [false, true] {
        let slow = Launch::binary(PROGRAM).config("rdb-key-save-delay 100000").config("appendonly yes");
        let slow = slow.config("appendfsync always");
        let mut server = launch(slow, &dir.0).start().expect("varve-server starts");
        let mut client = server.client();
        assert_eq!(text(client.cmd("SET kept 1")), "OK");
        // It is in no append-only file.
        assert_eq!(text(client.cmd("DEBUG POPULATE 500 key 10")), "OK");
        let (command, place) = if rewrites { ("BGREWRITEAOF", &folder) } else { ("BGSAVE", &dir.0) };
        assert!(!client.cmd(command).is_error());
        wait_until("the file is begun", || unfinished(place) == 1);
        server.signal("KILL").expect("a signal");
        assert_eq!(server.wait(Duration::from_secs(20)), Some(false));
        assert_eq!(unfinished(place), 1, "nobody could remove it");
        let alive = place.join(format!("temp-{}.rdb", std::process::id()));
        fs::write(&alive, b"of a process that lives").expect("room");
        let again = launch(Launch::binary(PROGRAM).config("appendonly yes"), &dir.0).start().expect("it starts");
        assert_eq!((unfinished(place), alive.exists()), (1, true), "{}", again.log());
        assert_eq!(again.client().cmd("DBSIZE"), RespValue::Integer(1));
        fs::remove_file(alive).expect("it is there");
    }
}

/// However a server ends, but by a kill, it leaves no file that is not whole.
#[test]
fn an_unfinished_file_goes_with_its_server() {
    for signals in [0, 2] {
        let dir = Dir::new();
        // Without save points SIGINT saves nothing.
        let slow = Launch::binary(PROGRAM).config("rdb-key-save-delay 100000").config("save 3600 1");
        let mut server = launch(slow, &dir.0).start().expect("varve-server starts");
        let mut client = server.client();
        assert_eq!(text(client.cmd("DEBUG POPULATE 500 key 10")), "OK");
        if signals == 0 {
            assert!(!client.cmd("BGSAVE").is_error());
            wait_until("the file is begun", || unfinished(&dir.0) == 1);
            let _ = client.call(&["SHUTDOWN", "NOSAVE"]);
        } else {
            // The first one saves, and the second one has no patience for that.
            server.signal("INT").expect("a signal");
            wait_until("the file is begun", || unfinished(&dir.0) == 1);
            server.signal("INT").expect("a signal");
        }
        assert_eq!(server.wait(Duration::from_secs(20)), Some(signals == 0), "{}", server.log());
        assert_eq!(unfinished(&dir.0), 0);
    }
}

/// The version that the file's header has.
fn version(dir: &Dir) -> String {
    let file = fs::read(dir.file()).expect("the file");
    String::from_utf8_lossy(&file[5..9]).into_owned()
}

#[test]
fn a_pinned_version_is_written_or_the_save_fails() {
    let (dir, elsewhere) = (Dir::new(), Dir::new());
    let server = launch(Launch::binary(PROGRAM).config("stop-writes-on-bgsave-error no"), &dir.0);
    let server = server.start().expect("varve-server starts");
    let mut client = server.client();
    assert_eq!(client.cmd("HSET h f v g w"), RespValue::Integer(2));
    let save = |client: &mut Client| {
        let reply = client.cmd("SAVE");
        (reply.is_error(), version(&dir))
    };
    assert_eq!(save(&mut client), (false, "0010".to_owned()));
    client.cmd("CONFIG SET rdb-version 12");
    assert_eq!(save(&mut client), (false, "0012".to_owned()));
    let dumped = |client: &mut Client| match client.cmd("DUMP h") {
        RespValue::Bulk(payload) => Ok(payload[payload.len() - 10]),
        other => Err(text(other)),
    };
    assert_eq!(dumped(&mut client), Ok(12));
    client.cmd("CONFIG SET rdb-version 10");
    assert_eq!((save(&mut client), dumped(&mut client)), ((false, "0010".to_owned()), Ok(10)));

    // A field that expires has no place in version 10: nothing is left out, and the file of before stays.
    let before = fs::read(dir.file()).expect("the file");
    client.cmd("HEXPIRE h 10000 FIELDS 1 f");
    assert_eq!(save(&mut client), (true, "0010".to_owned()));
    assert_eq!(fs::read(dir.file()).expect("the file"), before);
    // A failed SAVE changes nothing of what is told of saves in the background; a failed BGSAVE does.
    assert_eq!(field(&mut client, "rdb_last_bgsave_status"), "ok");
    assert!(!client.cmd("BGSAVE").is_error());
    wait_until("the save has failed", || field(&mut client, "rdb_last_bgsave_status") == "err");
    assert_eq!(fs::read(dir.file()).expect("the file"), before);
    let reason = "rdb-version is 10, and fields of hashes that expire take version 12";
    assert_eq!(dumped(&mut client), Err(format!("ERR {reason}")));
    let other = ours(&elsewhere);
    let migrate = format!("MIGRATE 127.0.0.1 {} h 0 5000", other.port());
    assert_eq!((text(client.cmd(&migrate)), client.cmd("EXISTS h")), (format!("ERR {reason}"), RespValue::Integer(1)));
    assert!(server.log().contains(reason));

    client.cmd("CONFIG SET rdb-version auto");
    assert_eq!((save(&mut client), dumped(&mut client)), ((false, "0012".to_owned()), Ok(12)));
    // So it is with a hash that is no single object.
    (0..2000).for_each(|n| client.queue(&["HSET", "big", &format!("field {n}"), "v"]));
    client.flush().expect("it is sent");
    (0..2000).for_each(|_| assert_eq!(client.read().expect("a reply"), RespValue::Integer(1)));
    client.call(&["HEXPIRE", "big", "10000", "FIELDS", "1", "field 7"]).expect("a reply");
    client.cmd("HPERSIST h FIELDS 1 f");
    assert_eq!(save(&mut client), (false, "0012".to_owned()));
    client.cmd("DEL big");
    assert_eq!(save(&mut client), (false, "0010".to_owned()));
    client.cmd("HEXPIRE h 10000 FIELDS 1 f");
    assert_eq!(text(client.cmd(&migrate)), "OK");
    assert_eq!(other.client().cmd("HTTL h FIELDS 1 g"), RespValue::Array(vec![RespValue::Integer(-1)]));
}

/// The base of a rewrite is held to the pinned version where it is RDB, and not where it is commands.
#[test]
fn a_pinned_version_binds_bases_in_rdb_form() {
    let dir = Dir::new();
    let server = launch(Launch::binary(PROGRAM).config("appendonly yes").config("rdb-version 10"), &dir.0);
    let server = server.start().expect("varve-server starts");
    let mut client = server.client();
    for line in ["HSET h f v", "HEXPIRE h 10000 FIELDS 1 f"] {
        assert!(!client.cmd(line).is_error(), "{line}");
    }
    for (preamble, ends) in [("yes", "err"), ("no", "ok")] {
        client.cmd(&format!("CONFIG SET aof-use-rdb-preamble {preamble}"));
        assert!(!client.cmd("BGREWRITEAOF").is_error());
        wait_until("the rewrite ends", || field(&mut client, "aof_rewrite_in_progress") == "0");
        assert_eq!(field(&mut client, "aof_last_bgrewrite_status"), ends);
    }
}

/// A server that loads this directory's file, `delay_us` microseconds an entry, and a client of it.
fn start_loading(dir: &Dir, delay_us: &str) -> (std::process::Child, Client) {
    let probe = std::net::TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
    let port = probe.expect("a port").port();
    let child = std::process::Command::new(PROGRAM)
        .args(["--port", &port.to_string(), "--key-load-delay", delay_us, "--save", "", "--dir"])
        .arg(&dir.0)
        .stdout(std::process::Stdio::null())
        .spawn()
        .expect("the program runs");
    let mut client = None;
    wait_until("it listens", || {
        client = Client::connect(std::net::SocketAddr::from(([127, 0, 0, 1], port))).ok();
        client.is_some()
    });
    (child, client.expect("a connection"))
}

/// The memory that the writer of this directory's file used, as the file says.
fn used_memory_in(dir: &Dir) -> String {
    let file = fs::read(dir.file()).expect("the file");
    let mut reader = Reader::new(&file[..]);
    loop {
        match reader.next_event().expect("a sound file") {
            Event::Aux { name: b"used-mem", value } => return String::from_utf8_lossy(value).into_owned(),
            Event::End => panic!("the file does not say it"),
            _ => {}
        }
    }
}

#[test]
fn clients_are_told_that_data_is_being_loaded() {
    let dir = Dir::new();
    {
        let server = ours(&dir);
        let mut client = server.client();
        client.cmd("DEBUG POPULATE 200 key 10");
        assert_eq!(text(client.cmd("SAVE")), "OK");
    }
    let used = used_memory_in(&dir);
    let (mut child, mut client) = start_loading(&dir, "20000");
    for line in ["GET key:1", "PING", "DBSIZE"] {
        assert_eq!(text(client.cmd(line)), "LOADING Redis is loading the dataset in memory", "{line}");
    }
    assert_eq!(field(&mut client, "loading"), "1");
    wait_until("a rate is known", || {
        let rate = field(&mut client, "loading_bytes_per_sec");
        rate.parse::<u64>().expect("a number of bytes a second") > 0
    });
    assert_ne!(field(&mut client, "loading_eta_seconds"), "");
    assert_eq!(field(&mut client, "loading_rdb_used_mem"), used);
    assert_eq!(text(client.cmd("CONFIG SET key-load-delay 0")), "OK");
    wait_until("it is loaded", || text(client.cmd("PING")) == "PONG");
    assert_eq!(client.cmd("DBSIZE"), RespValue::Integer(200));
    let _ = client.call(&["SHUTDOWN", "NOSAVE"]);
    child.wait().expect("it ends");
}

/// Nanoseconds for which the worker of a process, which has one, has run.
fn worker_ns(pid: u32) -> u64 {
    let is_worker =
        |thread: &PathBuf| fs::read_to_string(thread.join("comm")).is_ok_and(|name| name.trim_end() == "worker-0");
    let mut worker = None;
    // Its socket listens before the thread has its name.
    wait_until("its worker runs", || {
        let threads = fs::read_dir(format!("/proc/{pid}/task")).expect("the process is there").flatten();
        worker = threads.map(|thread| thread.path()).find(is_worker);
        worker.is_some()
    });
    let worker = worker.expect("a worker");
    let ran = fs::read_to_string(worker.join("schedstat")).expect("its times");
    ran.split_whitespace().next().and_then(|ns| ns.parse().ok()).expect("a number")
}

/// A long value was inserted in one turn of its worker, which answered nobody meanwhile.
#[test]
fn issue_11_clients_are_answered_while_a_long_value_is_loaded() {
    const MEMBERS: usize = 400_000;
    let dir = Dir::new();
    {
        let server = ours(&dir);
        let mut client = server.client();
        for first in (0..MEMBERS).step_by(1000) {
            let members: String = (first..first + 1000).map(|n| format!(" member:{n}")).collect();
            assert_eq!(client.cmd(&format!("SADD big{members}")), RespValue::Integer(1000));
            client.cmd(&format!("RPUSH list{}", &members.replace("member", "element")));
        }
        for line in ["COPY big due", "PEXPIRE due 1000", "SET small v"] {
            assert!(!client.cmd(line).is_error(), "{line}");
        }
        assert_eq!(text(client.cmd("SAVE")), "OK");
        std::thread::sleep(Duration::from_secs(1));
    }
    let (mut child, mut client) = start_loading(&dir, "0");
    let (mut longest, mut before) = (0, worker_ns(child.id()));
    while text(client.cmd("PING")) != "PONG" {
        let now = worker_ns(child.id());
        (longest, before) = (longest.max(now - before), now);
    }
    assert!(longest < 300_000_000, "the worker has worked for {longest} ns between two answers");
    for (line, count) in [("SCARD big", MEMBERS), ("LLEN list", MEMBERS), ("DBSIZE", 3)] {
        assert_eq!(client.cmd(line), RespValue::Integer(count as i64), "{line}");
    }
    assert_eq!(text(client.cmd("LINDEX list 399999")), "element:399999");
    let _ = client.call(&["SHUTDOWN", "NOSAVE"]);
    child.wait().expect("it ends");
}

#[test]
fn a_server_that_loads_ends_when_it_is_told_to() {
    let dir = Dir::new();
    {
        let server = ours(&dir);
        let mut client = server.client();
        client.cmd("DEBUG POPULATE 300000 key 60");
        assert_eq!(text(client.cmd("SAVE")), "OK");
    }
    let before = fs::read(dir.file()).expect("the file");
    let (mut child, mut client) = start_loading(&dir, "0");
    let _ = client.call(&["SHUTDOWN", "NOSAVE"]);
    let mut ended = None;
    wait_until("it ends", || {
        ended = child.try_wait().expect("it is asked");
        ended.is_some()
    });
    assert!(ended.is_some_and(|status| status.success()), "{ended:?}");
    assert!(fs::read(dir.file()).expect("the file") == before, "the file stays as it was");
}

#[test]
fn a_string_of_zeros_takes_a_file_of_its_few_other_bytes() {
    let dir = Dir::new();
    let server = ours(&dir);
    let mut client = server.client();
    // 50 MB, and some others between them.
    client.cmd("SETBIT sparse 400000000 1");
    client.cmd("SETRANGE sparse 30000000 words");
    let before = digest(&mut client);
    assert_eq!(text(client.cmd("SAVE")), "OK");
    let bytes = fs::metadata(dir.file()).expect("the file").len();
    assert!(bytes < 1_000_000, "{bytes} bytes");
    drop((client, server));
    for server in [peer(&dir), ours(&dir)] {
        let mut client = server.client();
        wait_until("it is loaded", || !client.cmd("GET none").is_error());
        assert_eq!(digest(&mut client), before);
        assert_eq!(text(client.cmd("GETRANGE sparse 29999999 30000005")), "\0words\0");
    }
}

#[test]
fn a_long_string_is_in_memory_once_while_it_is_loaded() {
    let dir = Dir::new();
    let server = ours(&dir);
    let mut client = server.client();
    let mut noise = 1_u64;
    let mut letter = || {
        noise = noise.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        char::from(b'0' + (noise >> 33) as u8 % 64)
    };
    let megabyte: String = (0..1 << 20).map(|_| letter()).collect();
    let appended: usize = (0..64).map(|_| assert!(!client.cmd(&format!("APPEND long {megabyte}")).is_error())).count();
    let bytes = (appended * megabyte.len()) as u64;
    assert_eq!(text(client.cmd("SAVE")), "OK");
    let before = digest(&mut client);
    drop((client, server));
    let server = ours(&dir);
    let mut client = server.client();
    wait_until("it is loaded", || !client.cmd("GET none").is_error());
    let peak = server.memory().expect("the server runs").peak;
    assert!(peak < bytes * 8 / 5, "{peak} bytes for a string of {bytes}");
    assert_eq!(digest(&mut client), before);
}

/// A key that is loaded is no news, as in redis-server. Fields whose time has come in the file go behind the load, and are.
#[test]
fn issue_11_keys_that_are_loaded_are_not_new_and_due_fields_go_afterwards() {
    let dir = Dir::new();
    let server = ours(&dir);
    let (mut client, mut ear) = (server.client(), server.client());
    assert_eq!(text(client.cmd("CONFIG SET notify-keyspace-events AKEmn")), "OK");
    assert_eq!(text(client.cmd("DEBUG SET-ACTIVE-EXPIRE 0")), "OK");
    client.cmd("SET string 1");
    client.cmd("RPUSH list 1 2 3");
    client.cmd("HSET hash due 1 stays 2");
    client.cmd("HPEXPIRE hash 1 FIELDS 1 due");
    std::thread::sleep(Duration::from_millis(5));
    ear.cmd("PSUBSCRIBE __keyevent*");
    assert_eq!(text(client.cmd("DEBUG RELOAD")), "OK");
    // The first event of all is the one of the command that comes next.
    client.cmd("SET string 2");
    let mut heard = |events: &[&str]| {
        for event in events {
            let message = ear.read().expect("a message");
            let words: Vec<String> = message.elements().expect("its parts").iter().map(RespValue::text).collect();
            assert_eq!(format!("{} {}", words[2].replace("__keyevent@0__:", ""), words[3]), *event);
        }
    };
    heard(&["set string"]);
    assert_eq!(client.cmd("HLEN hash").integer(), Some(1));
    heard(&["hexpired hash"]);
    assert_eq!(text(client.cmd("DEBUG VERIFY")), "OK");
}

/// XADD with IDMP, of a message that has come before: the ID of its entry.
fn again(client: &mut Client, key: &str, name: &str) -> String {
    text(client.cmd(&format!("XADD {key} IDMP p {name} * f again")))
}

/// The names of messages are in files of every form. redis-server passes over what it does not know.
#[test]
fn names_of_messages_outlive_the_server() {
    let dir = Dir::new();
    let config = |preamble: &str| {
        let launch = launch(Launch::binary(PROGRAM), &dir.0);
        let launch = launch.config("appendonly yes").config(format!("aof-use-rdb-preamble {preamble}"));
        launch.config("stream-idmp-duration 86400")
    };
    let mut server = config("yes").start().expect("varve-server starts");
    let mut client = server.client();
    let mut ids = Vec::new();
    for key in ["short", "long"] {
        let entries = if key == "long" { 3_000 } else { 0 };
        (0..entries).for_each(|n| client.queue(&["XADD", key, "*", "field", &n.to_string()]));
        client.flush().expect("it is sent");
        (0..entries).for_each(|n| assert!(!client.read().expect("a reply").is_error(), "entry {n}"));
        ids.push((key, "a", text(client.cmd(&format!("XADD {key} IDMP p a * f 1")))));
        ids.push((key, "b", text(client.cmd(&format!("XADD {key} IDMP p b * f 1")))));
        assert_eq!(text(client.cmd("SET behind 1")), "OK");
    }
    // The entry of this one is gone at once, and the name stays.
    ids.push(("gone", "c", text(client.cmd("XADD gone MAXLEN 0 IDMP p c * f 1"))));
    let saved = digest(&mut client);
    for (then, preamble) in [("", "yes"), ("BGREWRITEAOF", "no"), ("BGREWRITEAOF", "yes"), ("DEBUG RELOAD", "yes")] {
        if !then.is_empty() {
            client.cmd(then);
            wait_until("the rewrite ends", || field(&mut client, "aof_rewrite_in_progress") == "0");
        }
        if then != "DEBUG RELOAD" {
            drop(client);
            drop(server);
            server = config(preamble).start().expect("varve-server starts");
            client = server.client();
        }
        for (key, name, id) in &ids {
            assert_eq!(again(&mut client, key, name), *id, "message {name} of {key} behind {then:?}");
        }
        assert_eq!(digest(&mut client), saved, "behind {then:?}");
    }
    assert_eq!(text(client.cmd("SAVE")), "OK");
    drop(server);
    let theirs = peer(&dir);
    assert_eq!(digest(&mut theirs.client()), saved, "redis-server has all but the names");
}
