//! Links that last although one of their ends is at something else for longer than `repl-timeout`, or wants something else of them.
//!
//! ```text
//!   primary, repl-timeout 3 --data set--> replica that loads for 8 s, one key each 20 ms: an empty line each second
//!   primary --stream--> replica under CLIENT PAUSE: receives, and applies nothing until that ends
//!   primary, its file is given up --stream out of that file--> replica: memory and the spool have the rest
//! ```

#![forbid(unsafe_code)]

use std::io::{Read, Write};
use std::net::TcpStream;

use varve_testkit::client::encode;
use varve_testkit::{Client, Launch, Server, figure, until};
use varve_tests::replicas::{LIMIT, assert_equal, caught_up, field, follow, stop_following};

/// Keys of the data set, each of which delays its loading.
const KEYS: usize = 400;

/// A primary that gives up a replica that is silent for three seconds, with data to load.
fn primary(launch: Launch, diskless: &str) -> Server {
    let launch =
        launch.config("repl-timeout 3").config("repl-ping-replica-period 1").config("repl-diskless-sync-delay 0");
    let primary = launch.config(format!("repl-diskless-sync {diskless}")).start().expect("a server");
    let mut client = primary.client();
    for n in 0..KEYS {
        client.cmd(&format!("SET key:{n} value:{n}"));
    }
    primary
}

/// Has a replica load for longer than its primary waits for one that is silent.
fn load_slowly(primary: &Server, replica: Launch) {
    let replica = replica.config("key-load-delay 20000").start().expect("a server");
    follow(&replica, primary);
    assert_equal(&replica, primary);
    let mut client = primary.client();
    assert_eq!(figure(&mut client, "sync_full"), 1, "the link lasts:\n{}\n{}", primary.log(), replica.log());
}

#[test]
fn issue_17_a_replica_that_loads_for_long_is_not_given_up() {
    let theirs = || Launch::peer().config("loading-process-events-interval-bytes 1024");
    std::thread::scope(|scope| {
        for diskless in ["yes", "no"] {
            scope.spawn(move || load_slowly(&primary(Launch::varve(), diskless), Launch::varve()));
            scope.spawn(move || load_slowly(&primary(Launch::varve(), diskless), theirs()));
            scope.spawn(move || load_slowly(&primary(Launch::peer(), diskless), Launch::varve()));
        }
    });
}

/// As at redis-server, CLIENT PAUSE holds the commands of a primary back like a client's.
#[test]
fn issue_17_a_paused_replica_applies_nothing() {
    let primary = Launch::peer().config("repl-diskless-sync-delay 0").start().expect("redis-server starts");
    let replicas = [Launch::peer(), Launch::varve()].map(|launch| launch.start().expect("a server"));
    let mut theirs = primary.client();
    for replica in &replicas {
        follow(replica, &primary);
        caught_up(replica, &primary);
        let mut client = replica.client();
        for unpauses in [true, false] {
            assert_eq!(client.cmd("CLIENT PAUSE 100000 WRITE").text(), "OK");
            theirs.cmd("SET k 1");
            theirs.cmd(&format!("SET l {}", "x".repeat(50_000)));
            assert_eq!(theirs.cmd("WAIT 1 300").integer(), Some(0), "it has not been done");
            assert!(client.cmd("GET k").is_null() && client.cmd("GET l").is_null(), "nothing is applied");
            if unpauses {
                client.cmd("CLIENT UNPAUSE");
                caught_up(replica, &primary);
                assert_eq!(client.cmd("GET k").text(), "1");
                theirs.cmd("DEL k l");
                caught_up(replica, &primary);
                continue;
            }
            // A server that is to lead does so before the pause ends.
            stop_following(replica);
            until("it leads", || field(&mut client, "replication", "role") == "master");
            client.cmd("CLIENT UNPAUSE");
            assert_eq!(client.cmd("SET own 1").text(), "OK");
            theirs.cmd("DEL k l");
        }
    }
}

/// The connection of a replica that asks for the stream behind an offset, and reads nothing more yet.
fn ask_for_stream(primary: &Server, id: &str, offset: u64) -> TcpStream {
    let mut stream = TcpStream::connect(primary.address()).expect("a connection");
    stream.set_read_timeout(Some(LIMIT)).expect("a timeout");
    let offset = (offset + 1).to_string();
    for (words, answer) in
        [(&["REPLCONF", "capa", "psync2"][..], "+OK".to_owned()), (&["PSYNC", id, &offset], format!("+CONTINUE {id}"))]
    {
        let (mut request, mut line, mut byte) = (Vec::new(), Vec::new(), [0]);
        encode(&mut request, words);
        stream.write_all(&request).expect("sent");
        while !line.ends_with(b"\r\n") {
            stream.read_exact(&mut byte).expect("an answer");
            line.push(byte[0]);
        }
        assert_eq!(String::from_utf8_lossy(&line).trim_end(), answer);
    }
    stream
}

/// A replica that is sent the stream out of the append-only file gets all of it when no file is kept any more: what follows
/// lies in memory, or in the spool if it is much.
#[test]
fn issue_17_the_end_of_the_file_ends_no_replica() {
    for behind in [10, 60_u64] {
        let lines =
            ["appendonly yes", "repl-backlog-size 100", "repl-diskless-sync-delay 0", "repl-ping-replica-period 3600"];
        let launch = lines.iter().fold(Launch::varve(), |launch, line| launch.config(*line));
        let primary = launch.start().expect("Varve starts");
        let first = Launch::peer().start().expect("redis-server starts");
        follow(&first, &primary);
        caught_up(&first, &primary);
        drop(first);
        let mut client = primary.client();
        let value = vec![b'v'; 1 << 20];
        let set = |client: &mut Client, n: u64| {
            client.call(&[b"SET".as_slice(), format!("k{}", n % 8).as_bytes(), &value]).expect("a reply");
        };
        let (id, offset) =
            (field(&mut client, "replication", "master_replid"), figure(&mut client, "master_repl_offset"));
        (0..80).for_each(|n| set(&mut client, n));
        let mut stream = ask_for_stream(&primary, &id, offset);
        assert_eq!(client.cmd("CONFIG SET appendonly no").text(), "OK");
        until("no file is kept", || figure(&mut client, "aof_enabled") == 0);
        (0..behind).for_each(|n| set(&mut client, n));
        let end = figure(&mut client, "master_repl_offset");
        let (mut left, mut room) = (end - offset, vec![0; 1 << 20]);
        while left > 0 {
            let most = left.min(room.len() as u64) as usize;
            let count = stream.read(&mut room[..most]).expect("the stream goes on");
            assert!(count > 0, "{left} bytes are missing:\n{}", primary.log());
            left -= count as u64;
        }
        assert_eq!(figure(&mut client, "sync_full"), 1, "it has gone on where it was");
    }
}
