//! The files of each release: the present server reads them, and finds in them what that release wrote.
//!
//! ```text
//!   data/releases/0.1.0/  dump.rdb   appendonlydir/ (base, increment, manifest)   digest
//! ```
//! `VARVE_RECORD=0.1.0` has the present server write the folder of that version, as `cargo xtask release` does; else all folders
//! are read. `VARVE_BEFORE` names the server of the release before, which reads the files that the present one writes: `cargo
//! xtask long releases`, and each release, build it from its commit.

#![forbid(unsafe_code)]

use std::fs;
use std::path::{Path, PathBuf};

use varve_testkit::server::workspace;
use varve_testkit::skip::skipped;
use varve_testkit::{Client, Launch, Server, figure, until};

const LIBRARY: &str = "#!lua name=kept\nredis.register_function('answer', function() return 42 end)";
/// 2100-01-01, milliseconds of Unix time: keys of these files live for longer than anybody keeps them.
const LATE_MS: &str = "4102444800000";

/// Commands for keys of every type, in their small forms and their large ones.
fn commands() -> Vec<Vec<Vec<u8>>> {
    let words = |line: &str| -> Vec<Vec<u8>> { line.split(' ').map(|word| word.as_bytes().to_vec()).collect() };
    let mut all: Vec<Vec<Vec<u8>>> = [
        "SET text value",
        "SET number 1234567890123",
        "SETBIT bits 100000 1",
        "SETBIT sparse 4000000 1",
        "PFADD sketch a b c d e f g",
        "RPUSH short a 1 -5 70000 b",
        "SADD integers 1 2 3 -9000000000",
        "SADD small a b c",
        "ZADD scores 1 a 2.5 b -inf c",
        "HSET object f v g 12",
        "GEOADD places 13.361389 38.115556 Palermo 15.087269 37.502669 Catania",
        "XADD log 1-1 a 1 b 2",
        "XADD log 1-2 a 1 b 2",
        "XADD log 2-1 other x",
        "XDEL log 1-2",
        "XGROUP CREATE log readers 0",
        "XREADGROUP GROUP readers one COUNT 1 STREAMS log >",
    ]
    .map(words)
    .to_vec();
    all.push(vec![b"SET".to_vec(), b"binary \x00\xff".to_vec(), (0..=255).collect()]);
    all.push(vec![b"SET".to_vec(), b"large".to_vec(), b"large ".repeat(6_000)]);
    for n in 0..1000 {
        all.push(words(&format!("RPUSH list element:{n}")));
        all.push(words(&format!("SADD set member:{n}")));
        all.push(words(&format!("ZADD zset {} member:{n}", f64::from(n) / 8.0)));
        all.push(words(&format!("HSET hash field:{n} value:{n}")));
        all.push(words(&format!("XADD stream {}-0 n {n}", n + 1)));
    }
    all.push(words(&format!("PEXPIREAT text {LATE_MS}")));
    all.push(words(&format!("PEXPIREAT hash {LATE_MS}")));
    all.push(words("SELECT 9"));
    all.push(words("SET elsewhere 1"));
    all.push(words("SELECT 0"));
    all.push(vec![b"FUNCTION".to_vec(), b"LOAD".to_vec(), LIBRARY.as_bytes().to_vec()]);
    all
}

fn write(client: &mut Client) {
    for command in commands() {
        let reply = client.call(&command).expect("a reply");
        assert!(!reply.is_error(), "{}: {}", command[0].escape_ascii(), reply.text());
    }
}

fn folder() -> PathBuf {
    workspace().join("tests/data/releases")
}

fn digest(server: &Server) -> String {
    let mut client = server.client();
    assert_eq!(client.cmd("FCALL answer 0").integer(), Some(42), "the library is there");
    assert_eq!(client.cmd("XPENDING log readers").elements().expect("figures")[0].integer(), Some(1));
    assert_eq!(client.cmd("PEXPIRETIME hash").integer(), LATE_MS.parse().ok());
    client.cmd("DEBUG DIGEST").text()
}

/// Has the present server write this folder.
fn record(to: &Path) {
    let _ = fs::remove_dir_all(to);
    fs::create_dir_all(to).expect("a folder");
    let server = Launch::varve().config("appendonly yes").start().expect("a server");
    let mut client = server.client();
    write(&mut client);
    assert_eq!(client.cmd("SAVE").text(), "OK");
    // The base has half of it, the increment the rest.
    client.cmd("BGREWRITEAOF");
    until("the base is there", || figure(&mut client, "aof_rewrite_in_progress") == 0);
    client.cmd("RPUSH short behind");
    client.cmd("LPOP short");
    client.cmd("RPOP short");
    client.cmd("LPUSH short a");
    let found = digest(&server);
    assert!(client.call(&["SHUTDOWN", "NOSAVE", "NOW"]).is_err(), "it ends without a reply");
    copy(&server.dir().join("dump.rdb"), &to.join("dump.rdb"));
    copy_folder(&server.dir().join("appendonlydir"), &to.join("appendonlydir"));
    fs::write(to.join("digest"), found + "\n").expect("a file");
}

fn copy(from: &Path, to: &Path) {
    fs::copy(from, to).unwrap_or_else(|error| panic!("{}: {error}", from.display()));
}

fn copy_folder(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("a folder");
    for entry in fs::read_dir(from).expect("files") {
        let entry = entry.expect("a file");
        copy(&entry.path(), &to.join(entry.file_name()));
    }
}

#[test]
fn issue_19_files_of_every_release_are_read() {
    if let Some(version) = std::env::var_os("VARVE_RECORD") {
        record(&folder().join(version.to_str().expect("a version")));
    }
    let mut releases = 0;
    for release in fs::read_dir(folder()).expect("releases") {
        let release = release.expect("a folder").path();
        let wanted = fs::read_to_string(release.join("digest")).expect("what it wrote");
        is_read(&release, wanted.trim_end(), Launch::varve);
        releases += 1;
    }
    assert!(releases > 0, "a release at least has files");
}

/// The files of this folder are read by a server that is launched so, both kinds of them.
fn is_read(release: &Path, wanted: &str, launch: impl Fn() -> Launch) {
    // A start keeps its files up to date: it gets copies.
    let name = release.file_name().expect("a name").to_string_lossy();
    let place = std::env::temp_dir().join(format!("varve-release-{}-{name}", std::process::id()));
    copy_folder(&release.join("appendonlydir"), &place.join("appendonlydir"));
    copy(&release.join("dump.rdb"), &place.join("dump.rdb"));
    for kept in ["appendonly no", "appendonly yes"] {
        let launch = launch().config(kept).config(format!("dir {}", place.display()));
        let server = launch.start().expect("the server loads it");
        assert_eq!(digest(&server), wanted, "{}, {kept}", release.display());
        assert_eq!(server.client().cmd("DBSIZE").integer(), Some(19));
    }
    fs::remove_dir_all(&place).expect("the copies");
}

#[test]
fn issue_19_the_release_before_reads_files_of_this_one() {
    let Some(before) = std::env::var_os("VARVE_BEFORE") else {
        skipped("VARVE_BEFORE names no server");
        return;
    };
    let place = std::env::temp_dir().join(format!("varve-present-{}", std::process::id()));
    record(&place);
    let wanted = fs::read_to_string(place.join("digest")).expect("what it wrote");
    is_read(&place, wanted.trim_end(), || Launch::binary(&before));
    fs::remove_dir_all(&place).expect("the files");
}
