//! The data of an append-only file: another server loads a copy of the folder, and has what the first one has.

use std::time::{Duration, Instant};
use std::{fs, thread};

use varve_testkit::{Client, Launch, Server};

use crate::folder::Folder;
use crate::replicas::differences;

/// How long keys whose time has come may be there still on one of both servers.
const LAG: Duration = Duration::from_secs(20);
/// How long a rewrite may take.
const REWRITE: Duration = Duration::from_secs(120);

/// Waits until no rewrite is under way, and none is asked for.
///
/// # Panics
/// That takes minutes.
pub fn await_rewrite(client: &mut Client) {
    let end = Instant::now() + REWRITE;
    loop {
        let info = client.cmd("INFO persistence").text();
        if info.contains("aof_rewrite_in_progress:0") && info.contains("aof_rewrite_scheduled:0") {
            return;
        }
        assert!(Instant::now() < end, "a rewrite does not end: {info}");
        thread::sleep(Duration::from_millis(2));
    }
}

/// Has another server load a copy of this one's append-only folder, and compares what both have. Nobody writes meanwhile. The
/// server's limit of memory is lifted.
///
/// # Panics
/// They differ, or the folder is not loaded.
pub fn compare_with_file(server: &Server) {
    let mut client = server.client();
    // A server at its limit would refuse the last write.
    let settings = ["auto-aof-rewrite-percentage 0", "appendfsync always", "maxmemory 0"];
    for setting in settings {
        assert_eq!(client.cmd(&format!("CONFIG SET {setting}")).text(), "OK", "{setting}");
    }
    await_rewrite(&mut client);
    // Its reply leaves when all that was appended before is in the file. Nothing else is in this database.
    for line in ["SELECT 15", "SET last written"] {
        assert_eq!(client.cmd(line).text(), "OK", "{line}");
    }
    let copy = Folder::new(&format!("kept-{}", server.port()));
    let (from, to) = (server.dir().join("appendonlydir"), copy.path().join("appendonlydir"));
    fs::create_dir_all(&to).expect("a folder for temporary files");
    for entry in fs::read_dir(&from).expect("the folder") {
        let name = entry.expect("an entry").file_name();
        fs::copy(from.join(&name), to.join(&name)).expect("room for a copy");
    }
    let launch = Launch::varve().config(copy.line()).config("appendonly yes");
    let loaded = launch.start().expect("the file is loaded");
    let mut other = loaded.client();
    let (end, mut digests) = (Instant::now() + LAG, [String::new(), String::from("none")]);
    // Keys expire on both, and not in the same millisecond.
    while digests[0] != digests[1] {
        if Instant::now() >= end {
            panic!("the file has other data than the server: {}", differences(&loaded, server));
        }
        digests = [&mut client, &mut other].map(|client| client.cmd("DEBUG DIGEST").text());
    }
    assert_eq!(client.cmd("DEL last").integer(), Some(1));
}
