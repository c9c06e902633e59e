//! Data sets for replicas that leave before they have them: what is written for nobody is given up.
//!
//! ```text
//!   SYNC, SYNC --> one save, slowed down --> one leaves: it goes on --> both have left: it is given up
//!                                            but for a file that save points ask for as well
//! ```
//! The replicas are connections of the test that send SYNC, and read as it suits them.

#![forbid(unsafe_code)]

use std::io::Read;
use std::thread;
use std::time::{Duration, Instant};

use varve_testkit::{Client, Launch, Server, figure, until};
use varve_tests::replicas::{LIMIT, assert_equal, field, follow};

/// Keys of the primary, each of which takes [`DELAY`] to save.
const KEYS: u64 = 200;
/// The keys that are saved while five ticks of the server pass, one each 100 ms.
const KEYS_OF_FIVE_TICKS: u64 = 10;
const DELAY: &str = "rdb-key-save-delay 50000";

/// A primary whose saves take ten seconds. It serves several replicas by one of them.
fn primary(lines: &[&str]) -> Server {
    let launch = Launch::varve().config(DELAY).config("repl-diskless-sync-delay 3600").config("repl-timeout 1");
    let launch = lines.iter().fold(launch, |launch, line| launch.config(*line));
    let server = launch.start().expect("a server");
    server.client().cmd(&format!("DEBUG POPULATE {KEYS}"));
    server
}

/// A replica that has asked for a data set, of unknown length if the primary likes, and reads nothing.
fn replica(primary: &Server) -> Client {
    let mut replica = primary.client();
    assert_eq!(replica.cmd("REPLCONF capa eof").text(), "OK");
    replica.queue(&["SYNC"]);
    replica.flush().expect("sent");
    replica
}

/// Waits until a save has written some more keys; it is under way then.
fn goes_on(client: &mut Client) {
    let done = figure(client, "current_save_keys_processed");
    until("it goes on", || {
        assert_eq!(figure(client, "rdb_bgsave_in_progress"), 1, "it was given up");
        figure(client, "current_save_keys_processed") >= done + KEYS_OF_FIVE_TICKS
    });
}

/// Waits until the save under way has ended; false if it was before its time.
fn ended_early(client: &mut Client) -> bool {
    let mut done = 0;
    until("it has ended", || {
        done = done.max(figure(client, "current_save_keys_processed"));
        figure(client, "rdb_bgsave_in_progress") == 0
    });
    done < KEYS
}

fn files(primary: &Server) -> Vec<String> {
    let entries = std::fs::read_dir(primary.dir()).expect("a folder").flatten();
    entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).filter(|name| name.ends_with("rdb")).collect()
}

/// Two replicas wait for one data set and leave, one behind the other. Returns when both have left.
fn two_leave(primary: &Server, client: &mut Client) {
    let first = replica(primary);
    until("it waits", || figure(client, "connected_slaves") == 1);
    let second = replica(primary);
    until("a save has begun", || figure(client, "rdb_bgsave_in_progress") == 1);
    until("both are there", || figure(client, "connected_slaves") == 2);
    drop(first);
    until("one has left", || figure(client, "connected_slaves") == 1);
    goes_on(client);
    drop(second);
    until("both have left", || figure(client, "connected_slaves") == 0);
}

#[test]
fn issue_17_a_data_set_that_is_sent_is_given_up_when_nobody_is_left() {
    let primary = primary(&["repl-diskless-sync yes", "repl-diskless-sync-max-replicas 2", "save 3600 1"]);
    let mut client = primary.client();
    two_leave(&primary, &mut client);
    assert!(ended_early(&mut client), "it was written to its end for nobody");
    assert!(primary.log().contains("No replica is left that waits for the data set"), "{}", primary.log());
    assert_eq!(field(&mut client, "persistence", "rdb_last_bgsave_status"), "ok");
    // The next one is whole.
    client.cmd("CONFIG SET rdb-key-save-delay 0 repl-diskless-sync-delay 0 repl-timeout 60");
    let next = Launch::varve().start().expect("a server");
    follow(&next, &primary);
    assert_equal(&next, &primary);
    assert_eq!(files(&primary), [""; 0]);
}

#[test]
fn issue_17_a_file_for_replicas_is_given_up_when_nobody_is_left() {
    let primary = primary(&["repl-diskless-sync no", "save \"\""]);
    let mut client = primary.client();
    // Both are there before the tick that begins the save.
    client.cmd("DEBUG PAUSE-CRON 1");
    let (first, second) = (replica(&primary), replica(&primary));
    until("both are there", || figure(&mut client, "connected_slaves") == 2);
    client.cmd("DEBUG PAUSE-CRON 0");
    until("a save has begun", || figure(&mut client, "rdb_bgsave_in_progress") == 1);
    drop(first);
    until("one has left", || figure(&mut client, "connected_slaves") == 1);
    goes_on(&mut client);
    drop(second);
    until("both have left", || figure(&mut client, "connected_slaves") == 0);
    assert!(ended_early(&mut client), "it was written to its end for nobody");
    assert_eq!(files(&primary), [""; 0], "neither a file nor an unfinished one");
    assert_eq!(field(&mut client, "persistence", "rdb_last_bgsave_status"), "ok");
    // One that a client has asked for is not the replicas'.
    assert!(!client.cmd("BGSAVE").is_error());
    goes_on(&mut client);
}

#[test]
fn issue_17_a_file_that_save_points_ask_for_is_written_without_replicas() {
    let primary = primary(&["repl-diskless-sync no", "save 3600 1"]);
    let mut client = primary.client();
    let replica = replica(&primary);
    until("a save has begun", || figure(&mut client, "rdb_bgsave_in_progress") == 1);
    drop(replica);
    until("it has left", || figure(&mut client, "connected_slaves") == 0);
    goes_on(&mut client);
    assert!(!primary.log().contains("it is given up"), "{}", primary.log());
    until("it is there", || files(&primary) == ["dump.rdb"]);
}

/// Nothing is begun for a replica that leaves while it waits for others.
#[test]
fn issue_17_no_data_set_is_begun_for_one_that_has_left() {
    let primary = primary(&["repl-diskless-sync-max-replicas 0"]);
    let mut client = primary.client();
    client.cmd("CONFIG SET repl-diskless-sync-delay 1 rdb-key-save-delay 0");
    let early = replica(&primary);
    until("it waits", || field(&mut client, "replication", "slave0").contains("state=wait_bgsave"));
    drop(early);
    until("it has left", || figure(&mut client, "connected_slaves") == 0);
    let next = Launch::varve().start().expect("a server");
    follow(&next, &primary);
    assert_equal(&next, &primary);
    assert_eq!(primary.log().matches("Starting BGSAVE for SYNC").count(), 1, "{}", primary.log());
}

/// A replica that takes nothing of a data set which is sent while it is written is disconnected after `repl-timeout`, whether the
/// data set is whole by then or not; one that takes some of it now and then, or waits for more of it, is not.
#[test]
fn issue_17_a_replica_that_takes_nothing_of_its_data_set_is_disconnected() {
    let lines = ["repl-diskless-sync yes", "repl-diskless-sync-max-replicas 1", "rdbcompression no", "save \"\""];
    let primary = primary(&lines);
    let mut client = primary.client();
    client.cmd(&format!("DEBUG POPULATE {KEYS} large 200000"));
    for delay in [0, 20_000] {
        client.cmd(&format!("CONFIG SET rdb-key-save-delay {delay}"));
        let silent = replica(&primary);
        until("it is there", || figure(&mut client, "connected_slaves") == 1);
        until("it is disconnected", || figure(&mut client, "connected_slaves") == 0);
        until("nothing goes on for it", || figure(&mut client, "rdb_bgsave_in_progress") == 0);
        drop(silent);
    }
    assert_eq!(primary.log().matches("Disconnecting timedout replica (full sync)").count(), 2, "{}", primary.log());
    // Less than a megabyte at a time, for more than three timeouts.
    client.cmd("CONFIG SET rdb-key-save-delay 0");
    let slow = replica(&primary);
    let begin = Instant::now();
    while begin.elapsed() < Duration::from_millis(3500) {
        let mut part = vec![0; 800_000];
        slow.stream().read_exact(&mut part).expect("more of the data set");
        thread::sleep(Duration::from_millis(100));
    }
    assert_eq!(figure(&mut client, "connected_slaves"), 1, "{}", primary.log());
    drop(slow);
    until("it has left", || figure(&mut client, "connected_slaves") == 0);
    // One that has taken all that there is.
    client.cmd("CONFIG SET rdb-key-save-delay 50000");
    let eager = replica(&primary);
    eager.stream().set_read_timeout(Some(LIMIT)).expect("a timeout");
    let begin = Instant::now();
    while begin.elapsed() < Duration::from_millis(3500) {
        assert!(eager.stream().read(&mut [0; 1 << 16]).expect("more of the data set") > 0, "{}", primary.log());
    }
}
