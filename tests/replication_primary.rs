//! Varve as a primary: redis-server 7.0.15 follows it, and has the same data at rest.
//!
//! ```text
//!   random commands of all types --> Varve --data set, stream--> redis-server   equal by DEBUG DIGEST
//!                                     |  links cut, the backlog too short, files begun and ended meanwhile, restarts
//! ```
//! At rest is when the replica has the stream up to the primary's offset, which both count in bytes.

#![forbid(unsafe_code)]

use std::io::Read;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use varve_testkit::{Client, Launch, RespValue, Server, figure, seed, until};
use varve_tests::collections::Types;
use varve_tests::fill::may_make_minus_zero;
use varve_tests::folder::Folder;
use varve_tests::generate::{Generator, Kind};
use varve_tests::replicas::{assert_equal, follow};

/// Steps of a random load.
const STEPS: usize = 20_000;
/// Commands of the generator that concern its own connection, the settings or other clients.
const OTHERS: &[&str] = &["client", "config", "hello", "auth", "reset", "quit", "debug", "command", "acl", "memory"];

fn primary(lines: &[&str]) -> Server {
    let launch =
        lines.iter().fold(Launch::varve().config("repl-diskless-sync-delay 0"), |launch, line| launch.config(*line));
    launch.start().expect("a server")
}

/// A redis-server that follows nobody yet.
fn peer() -> Server {
    let launch = Launch::peer().config("repl-diskless-load disabled").config("repl-timeout 120");
    launch.start().expect("redis-server 7.0.15")
}

/// The text of a field of INFO.
fn field(client: &mut Client, name: &str) -> String {
    let info = client.cmd("INFO everything").text();
    info.lines()
        .find_map(|line| line.trim_end().strip_prefix(name)?.strip_prefix(':').map(str::to_owned))
        .unwrap_or_default()
}

/// Waits until the replica has been as far as the primary once.
fn compare_offsets(primary: &Server, replica: &Server) {
    let (mut ours, mut theirs) = (primary.client(), replica.client());
    let offset = figure(&mut ours, "master_repl_offset");
    until("the replica has been there", || figure(&mut theirs, "slave_repl_offset") >= offset);
}

/// Runs random commands until it is to stop, or all steps are done. None makes a score of -0: a small sorted set keeps its sign
/// in redis-server's long form alone, which a replica that loads the data set does not take.
fn load(primary: &Server, salt: u64, stop: &AtomicBool) {
    let mut generator = Generator::new(seed::seed("commands of a primary") ^ salt, 2, Types::ALL);
    let mut client = primary.client();
    for _ in 0..STEPS {
        let step = generator.next_step();
        let name = String::from_utf8_lossy(&step.args[0]).to_lowercase();
        if step.kind != Kind::Call || OTHERS.contains(&&name[..]) || may_make_minus_zero(&step.args) {
            continue;
        }
        if stop.load(Relaxed) {
            return;
        }
        client.call(&step.args).unwrap_or_else(|error| panic!("{}: {error}", varve_tests::run::line(&step.args)));
    }
}

/// Runs `other` beside random commands of two clients.
fn under_load(primary: &Server, other: impl FnOnce()) {
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let loads = [1, 2].map(|salt| {
            let stop = &stop;
            scope.spawn(move || load(primary, salt, stop))
        });
        other();
        stop.store(true, Relaxed);
        for load in loads {
            load.join().expect("a load");
        }
    });
}

fn set(client: &mut Client, key: &str, value: &[u8]) {
    assert_eq!(client.call(&[b"SET", key.as_bytes(), value]).expect("a reply").text(), "OK");
}

#[test]
fn issue_17_a_replica_has_the_same_data() {
    let (primary, replica, late) = (primary(&[]), peer(), peer());
    let stop = AtomicBool::new(false);
    load(&primary, 0, &stop);
    under_load(&primary, || {
        follow(&replica, &primary);
        until("a replica is online", || field(&mut primary.client(), "slave0").contains("state=online"));
        thread::sleep(Duration::from_millis(300));
        follow(&late, &primary);
        until("a second one is", || field(&mut primary.client(), "slave1").contains("state=online"));
    });
    assert_equal(&replica, &primary);
    assert_equal(&late, &primary);
    let mut client = primary.client();
    assert_eq!(figure(&mut client, "connected_slaves"), 2);
    let role = client.cmd("ROLE");
    let replicas = role.elements().expect("an array")[2].elements().expect("replicas").len();
    assert_eq!(replicas, 2);
    assert_eq!(client.cmd("CLIENT LIST TYPE replica").text().matches(" flags=S ").count(), 2);
    // Large values are sent from where they lie.
    let long = vec![b'v'; 3 << 20];
    for n in 0..8 {
        set(&mut client, &format!("large:{n}"), &long);
        client.cmd(&format!("APPEND large:{n} x"));
    }
    assert_equal(&replica, &primary);
    assert_equal(&late, &primary);
    // No file is kept: the stream's thread is not the file's.
    client.cmd("BGREWRITEAOF");
    until("the base is there", || field(&mut client, "aof_rewrite_in_progress") == "0");
    set(&mut client, "last", b"1");
    assert_equal(&late, &primary);
}

#[test]
fn issue_17_a_cut_link_goes_on_where_it_was() {
    let (primary, replica) = (primary(&["repl-backlog-size 16mb"]), peer());
    follow(&replica, &primary);
    assert_equal(&replica, &primary);
    let mut client = primary.client();
    under_load(&primary, || {
        for _ in 0..3 {
            thread::sleep(Duration::from_millis(100));
            let before = figure(&mut client, "sync_partial_ok");
            assert_eq!(client.cmd("CLIENT KILL TYPE replica").integer(), Some(1));
            until("the replica is back", || figure(&mut client, "sync_partial_ok") > before);
            until("it is online", || field(&mut client, "slave0").contains("state=online"));
        }
    });
    assert_equal(&replica, &primary);
    // It asks for a part at first, of the history that it had as a primary.
    assert_eq!((figure(&mut client, "sync_full"), figure(&mut client, "sync_partial_err")), (1, 1));
    // A replica that was away for longer than the backlog reaches gets all data again.
    client.cmd("CONFIG SET repl-backlog-size 100");
    let mut theirs = replica.client();
    theirs.cmd("REPLICAOF 127.0.0.1 1");
    until("the replica has left", || figure(&mut client, "connected_slaves") == 0);
    (0..100).for_each(|n| set(&mut client, &format!("away:{n}"), &vec![b'a'; 1000]));
    follow(&replica, &primary);
    assert_equal(&replica, &primary);
    let counts = ["sync_full", "sync_partial_ok", "sync_partial_err"];
    assert_eq!([figure(&mut client, counts[0]), figure(&mut client, counts[2])], [2, 2]);
    assert_eq!(client.cmd("CONFIG RESETSTAT").text(), "OK");
    assert_eq!(counts.map(|count| figure(&mut client, count)), [0; 3], "they begin again");
}

/// A redis-server refuses what notes the name of a message: the transaction beside it is done.
#[test]
fn issue_17_names_of_messages_cost_a_redis_server_no_entry() {
    let (primary, replica) = (primary(&[]), peer());
    follow(&replica, &primary);
    assert_equal(&replica, &primary);
    let mut client = primary.client();
    for line in [
        "XADD s IDMP p first * a 1",
        "MULTI",
        "SET k 1",
        "XADD s IDMP p second * a 2",
        "XADD s IDMP p third * a 3",
        "EXEC",
        "HSETEX h FIELDS 1 f v",
    ] {
        assert!(!client.cmd(line).is_error(), "{line}");
    }
    compare_offsets(&primary, &replica);
    let mut theirs = replica.client();
    assert_eq!(theirs.cmd("XLEN s").integer(), Some(3));
    assert_eq!(["GET k", "HGET h f"].map(|line| theirs.cmd(line).text()), ["1", "v"]);
}

#[test]
fn issue_17_wait_counts_replicas_that_have_it() {
    let (primary, replica) = (primary(&["min-replicas-max-lag 2"]), peer());
    let mut client = primary.client();
    set(&mut client, "k", b"1");
    assert_eq!(client.cmd("WAIT 1 10").integer(), Some(0));
    client.cmd("CONFIG SET min-replicas-to-write 1");
    assert!(client.cmd("SET k 2").text().starts_with("NOREPLICAS"));
    follow(&replica, &primary);
    assert_equal(&replica, &primary);
    until("the replica counts", || client.cmd("SET k 3").text() == "OK");
    for n in 0..50 {
        set(&mut client, &format!("k{n}"), b"1");
        assert_eq!(client.cmd("WAIT 1 60000").integer(), Some(1));
        assert_eq!(replica.client().cmd(&format!("GET k{n}")).text(), "1");
    }
    assert_eq!(client.cmd("WAIT 2 10").integer(), Some(1), "there is one");
    replica.signal("STOP").expect("a signal");
    set(&mut client, "late", b"1");
    assert_eq!(client.cmd("WAIT 1 50").integer(), Some(0));
    let mut waiting = primary.client();
    waiting.queue(&["WAIT", "1", "0"]);
    waiting.flush().expect("a socket");
    until("a client waits", || figure(&mut client, "blocked_clients") == 1);
    until("writes are refused", || client.cmd("SET k 4").text().starts_with("NOREPLICAS"));
    replica.signal("CONT").expect("a signal");
    assert_eq!(waiting.read().expect("a reply").integer(), Some(1));
    assert_equal(&replica, &primary);
}

/// The file has what the stream has, less what the primary says to its replicas: whatever begins and ends when.
#[test]
fn issue_17_a_file_begins_and_ends_beside_the_stream() {
    let (primary, replica) = (primary(&["aof-timestamp-enabled yes"]), peer());
    let mut client = primary.client();
    client.cmd("CONFIG SET appendfsync always");
    under_load(&primary, || {
        client.cmd("CONFIG SET appendonly yes");
        until("the file counts", || field(&mut client, "aof_rewrite_in_progress") == "0");
        follow(&replica, &primary);
        until("the replica is online", || field(&mut client, "slave0").contains("state=online"));
        client.cmd("CONFIG SET appendonly no");
        thread::sleep(Duration::from_millis(100));
        client.cmd("CONFIG SET appendonly yes");
        until("the file counts again", || field(&mut client, "aof_rewrite_in_progress") == "0");
        client.cmd("BGREWRITEAOF");
        client.cmd("WAIT 1 1000");
        assert!(client.cmd("WAITAOF 1 0 60000").elements().is_some_and(|all| all[0].integer() == Some(1)));
    });
    assert_equal(&replica, &primary);
    until("the rewrite is over", || field(&mut client, "aof_rewrite_in_progress") == "0");
    set(&mut client, "last", b"1");
    client.cmd("WAIT 1 60000");
    let before = client.cmd("DEBUG DIGEST").text();
    assert_eq!(client.cmd("DEBUG LOADAOF").text(), "OK");
    assert_eq!(client.cmd("DEBUG DIGEST").text(), before, "the file has no more and no less");
}

#[test]
fn issue_17_redis_cli_takes_the_data_set_alone() {
    let primary = primary(&[]);
    let mut client = primary.client();
    (0..1000).for_each(|n| set(&mut client, &format!("key:{n}"), b"value"));
    let file = primary.dir().join("copy.rdb");
    let run = |words: &[&str]| {
        let port = primary.port().to_string();
        let done = Command::new("redis-cli").args(["-p", &port]).args(words).output().expect("redis-cli");
        assert!(
            done.status.success(),
            "{}{}",
            String::from_utf8_lossy(&done.stdout),
            String::from_utf8_lossy(&done.stderr)
        );
    };
    run(&["--rdb", file.to_str().expect("a path of text")]);
    until("nobody follows", || figure(&mut client, "connected_slaves") == 0);
    let copy = Launch::peer()
        .config(format!("dbfilename copy.rdb\ndir {}", primary.dir().display()))
        .start()
        .expect("redis-server");
    let [ours, theirs] = [&mut client, &mut copy.client()].map(|client| client.cmd("DEBUG DIGEST").text());
    assert_eq!(ours, theirs);
}

/// A primary that has its files in this folder.
fn primary_in(folder: &Folder, lines: &[&str]) -> Server {
    primary(&[&[&folder.line()[..], "repl-ping-replica-period 3600"], lines].concat())
}

/// The replica follows another server, which knows it: it gets what it has not, and no data set.
fn goes_on(primary: &Server, replica: &Server) {
    follow(replica, primary);
    assert_equal(replica, primary);
    let mut ours = primary.client();
    let counts = ["sync_full", "sync_partial_ok"].map(|name| figure(&mut ours, name));
    assert_eq!(counts, [0, 1], "{}", primary.log());
}

/// Ends a server by this request, once the replica has all that it has.
fn end(primary: Server, replica: &Server, request: &str) {
    let (mut ours, mut theirs) = (primary.client(), replica.client());
    until("the replica has all", || {
        figure(&mut ours, "master_repl_offset") == figure(&mut theirs, "slave_repl_offset")
    });
    end_alone(primary, request);
}

/// Ends a server by this request.
fn end_alone(mut primary: Server, request: &str) {
    let mut ours = primary.client();
    ours.queue(&request.split(' ').collect::<Vec<_>>());
    ours.flush().expect("a socket");
    assert!(primary.wait(Duration::from_secs(60)).is_some(), "it ends");
}

#[test]
fn issue_17_replicas_go_on_behind_a_restart_with_a_file_of_all_data() {
    let (folder, replica) = (Folder::new("rdb"), peer());
    let first = primary_in(&folder, &[]);
    follow(&replica, &first);
    assert_equal(&replica, &first);
    let mut client = first.client();
    let id = field(&mut client, "master_replid");
    end(first, &replica, "SHUTDOWN SAVE");
    let second = primary_in(&folder, &[]);
    let mut client = second.client();
    assert_eq!((field(&mut client, "master_replid2"), figure(&mut client, "second_repl_offset")), (id, 1));
    goes_on(&second, &replica);
    let stop = AtomicBool::new(false);
    load(&second, 3, &stop);
    // Keys whose time is over before the next start.
    client.cmd("DEBUG SET-ACTIVE-EXPIRE 0");
    for n in 0..300 {
        client.cmd(&format!("SELECT {}", n % 3));
        client.cmd(&format!("SET {n} v PX {}", if n % 2 == 0 { 1 } else { 1_000_000 }));
    }
    end(second, &replica, "SHUTDOWN SAVE");
    let third = primary_in(&folder, &[]);
    let mut client = third.client();
    assert!(figure(&mut client, "rdb_last_load_keys_expired") >= 150);
    assert!(figure(&mut client, "repl_backlog_histlen") > 150, "the replica is to learn that they are gone");
    goes_on(&third, &replica);
    set(&mut client, "last", b"1");
    assert_equal(&replica, &third);
}

#[test]
fn issue_17_replicas_go_on_behind_a_restart_with_an_append_only_file() {
    let lines = ["appendonly yes", "appendfsync always", "aof-timestamp-enabled yes"];
    let (folder, replica) = (Folder::new("aof"), peer());
    let stop = AtomicBool::new(false);
    let first = primary_in(&folder, &lines);
    // Bytes of before the first replica are in no stream.
    load(&first, 5, &stop);
    follow(&replica, &first);
    assert_equal(&replica, &first);
    load(&first, 6, &stop);
    first.client().cmd("WAIT 1 60000");
    end(first, &replica, "SHUTDOWN NOW");
    let mut next = primary_in(&folder, &lines);
    goes_on(&next, &replica);
    load(&next, 7, &stop);
    let mut client = next.client();
    client.cmd("BGREWRITEAOF");
    until("the rewrite is over", || field(&mut client, "aof_rewrite_in_progress") == "0");
    client.cmd("WAITAOF 1 0 60000");
    // Nothing was written behind the rewrite: its increment knows the offset all the same. The process gets no warning.
    until("the replica has all", || {
        figure(&mut client, "master_repl_offset") == figure(&mut replica.client(), "slave_repl_offset")
    });
    next.signal("KILL").expect("a signal");
    next.wait(Duration::from_secs(60));
    let last = primary_in(&folder, &lines);
    goes_on(&last, &replica);
    drop(last);
    // redis-server passes over what the file says of the stream.
    let other = Launch::peer().config(format!("dir {}", folder.path().display())).config("appendonly yes");
    let other = other.start().expect("redis-server loads it");
    let [ours, theirs] = [&other, &replica].map(|server| server.client().cmd("DEBUG DIGEST").text());
    assert_eq!(ours, theirs);
}

/// Files of the append-only file, and those among them that a rewrite has replaced.
fn files(folder: &Folder) -> (usize, usize) {
    let text =
        std::fs::read_to_string(folder.path().join("appendonlydir/appendonly.aof.manifest")).expect("a manifest");
    (text.lines().count(), text.lines().filter(|line| line.ends_with(" type h")).count())
}

/// Writes this number of keys of 10 KB.
fn write_much(primary: &Server, keys: usize) {
    let mut client = primary.client();
    for n in 0..keys {
        set(&mut client, &format!("much:{}", n % 50), format!("{n:10000}").as_bytes());
    }
}

/// A replica that was away while much was written, files were rewritten and the primary has started again, gets no data set.
#[test]
fn issue_17_a_replica_that_was_away_for_long_goes_on_out_of_files() {
    let lines = ["appendonly yes", "auto-aof-rewrite-percentage 0"];
    let (folder, replica) = (Folder::new("past"), peer());
    let first = primary_in(&folder, &lines);
    let mut client = first.client();
    follow(&replica, &first);
    write_much(&first, 100);
    assert_equal(&replica, &first);
    replica.client().cmd("REPLICAOF 127.0.0.1 1");
    until("the replica has left", || figure(&mut client, "connected_slaves") == 0);
    write_much(&first, 400);
    for _ in 0..2 {
        client.cmd("BGREWRITEAOF");
        until("the rewrite is over", || field(&mut client, "aof_rewrite_in_progress") == "0");
        write_much(&first, 300);
    }
    assert_eq!(files(&folder), (4, 2), "two increments are history");
    follow(&replica, &first);
    assert_equal(&replica, &first);
    let counts = |client: &mut Client| ["sync_full", "sync_partial_ok"].map(|name| figure(client, name));
    assert_eq!(counts(&mut client), [1, 1], "{}", first.log());
    // Another one away while the primary starts again.
    replica.client().cmd("REPLICAOF 127.0.0.1 1");
    until("the replica has left again", || figure(&mut client, "connected_slaves") == 0);
    write_much(&first, 300);
    client.cmd("BGREWRITEAOF");
    until("the rewrite is over", || field(&mut client, "aof_rewrite_in_progress") == "0");
    write_much(&first, 50);
    end_alone(first, "SHUTDOWN NOW");
    let second = primary_in(&folder, &lines);
    write_much(&second, 200);
    goes_on(&second, &replica);
    // Beyond its bounds it goes, and replicas of before get a data set.
    let mut client = second.client();
    replica.client().cmd("REPLICAOF 127.0.0.1 1");
    until("the replica has left once more", || figure(&mut client, "connected_slaves") == 0);
    write_much(&second, 200);
    client.cmd("BGREWRITEAOF");
    until("the rewrite is over", || field(&mut client, "aof_rewrite_in_progress") == "0");
    assert!(files(&folder).1 > 0);
    client.cmd("CONFIG SET repl-history-size 0");
    until("there is no history", || files(&folder) == (2, 0));
    follow(&replica, &second);
    assert_equal(&replica, &second);
    assert_eq!(counts(&mut client), [1, 1]);
    // redis-server loads a manifest with history.
    client.cmd("CONFIG SET repl-history-size 1gb");
    client.cmd("BGREWRITEAOF");
    until("the rewrite is over", || field(&mut client, "aof_rewrite_in_progress") == "0");
    assert_equal(&replica, &second);
    assert_eq!(files(&folder).1, 1);
    end_alone(second, "SHUTDOWN NOW");
    let other = Launch::peer().config(format!("dir {}", folder.path().display())).config("appendonly yes");
    let other = other.start().expect("redis-server loads it");
    let [ours, theirs] = [&other, &replica].map(|server| server.client().cmd("DEBUG DIGEST").text());
    assert_eq!(ours, theirs);
}

/// Has the append-only file rewritten.
fn rewrite(client: &mut Client) {
    client.cmd("BGREWRITEAOF");
    until("the rewrite is over", || field(client, "aof_rewrite_in_progress") == "0");
}

/// The files that a rewrite has replaced, the oldest one first, were written to last before this time.
fn set_ages(folder: &Folder, ages: &[Duration]) {
    let files = folder.path().join("appendonlydir");
    let manifest = std::fs::read_to_string(files.join("appendonly.aof.manifest")).expect("a manifest");
    let replaced = manifest.lines().filter(|line| line.ends_with(" type h")).map(|line| line.split(' ').nth(1));
    let replaced: Vec<_> = replaced.map(|name| files.join(name.expect("a name"))).collect();
    assert_eq!(replaced.len(), ages.len(), "{manifest}");
    for (path, age) in replaced.iter().zip(ages) {
        let file = std::fs::File::options().append(true).open(path).expect("a file");
        file.set_modified(SystemTime::now() - *age).expect("its time");
    }
}

/// Both leave their primary.
fn leave(primary: &Server, replicas: &[&Server; 2]) {
    replicas.iter().for_each(|replica| _ = replica.client().cmd("REPLICAOF 127.0.0.1 1"));
    let mut client = primary.client();
    until("the replicas have left", || figure(&mut client, "connected_slaves") == 0);
}

/// Replicas that were away for most of an hour go on out of increments, of which rewrites have retired some. These are gone when they
/// are too old or too long. Their times are set back here: nobody waits.
#[test]
fn issue_17_a_replica_that_was_away_for_an_hour_goes_on_and_for_two_gets_all_data() {
    const MINUTE: Duration = Duration::from_secs(60);
    let lines = ["appendonly yes", "auto-aof-rewrite-percentage 0", "repl-backlog-size 16kb"];
    let folder = Folder::new("hour");
    let (first, theirs, ours) = (primary_in(&folder, &lines), peer(), primary(&[]));
    let (mut client, replicas) = (first.client(), [&theirs, &ours]);
    let back = || replicas.iter().for_each(|replica| (follow(replica, &first), assert_equal(replica, &first)).1);
    let fulls = || figure(&mut first.client(), "sync_full");
    back();
    write_much(&first, 300);
    rewrite(&mut client);
    write_much(&first, 10);
    leave(&first, &replicas);
    let offset = figure(&mut client, "master_repl_offset");
    for _ in 0..2 {
        write_much(&first, 300);
        rewrite(&mut client);
    }
    write_much(&first, 300);
    assert_eq!(files(&folder), (5, 3), "three increments are history");
    assert!(figure(&mut client, "repl_backlog_first_byte_offset") > offset + (5 << 20), "memory does not reach back");
    // That of before they left is older than `repl-history-ttl`, and goes alone.
    set_ages(&folder, &[61 * MINUTE, 55 * MINUTE, 50 * MINUTE]);
    until("the oldest one is gone", || files(&folder).1 < 3);
    assert_eq!(files(&folder), (4, 2));
    back();
    assert_eq!([fulls(), figure(&mut client, "sync_partial_ok")], [2, 2], "{}", first.log());
    // Two hours: a data set is all that there is.
    leave(&first, &replicas);
    write_much(&first, 300);
    rewrite(&mut client);
    write_much(&first, 300);
    set_ages(&folder, &[130 * MINUTE, 125 * MINUTE, 120 * MINUTE]);
    until("there is no history", || files(&folder) == (2, 0));
    back();
    assert_eq!(fulls(), 4, "{}", first.log());
    // Of two increments of 3 MB each the newest one is within the size.
    client.cmd("CONFIG SET repl-history-size 4mb");
    leave(&first, &replicas);
    for _ in 0..2 {
        write_much(&first, 300);
        rewrite(&mut client);
    }
    until("the oldest one is gone", || files(&folder) == (3, 1));
    back();
    assert_eq!(fulls(), 6, "{}", first.log());
    // Settings that change hold for what is there.
    client.cmd("CONFIG SET repl-history-size 1gb repl-history-ttl 600");
    leave(&first, &replicas);
    write_much(&first, 300);
    rewrite(&mut client);
    write_much(&first, 300);
    set_ages(&folder, &[9 * MINUTE, 8 * MINUTE]);
    back();
    assert_eq!((files(&folder), fulls()), ((4, 2), 6), "{}", first.log());
    set_ages(&folder, &[11 * MINUTE, 9 * MINUTE]);
    until("the oldest one is gone", || files(&folder) == (3, 1));
    set_ages(&folder, &[11 * MINUTE]);
    until("there is no history", || files(&folder) == (2, 0));
}

/// Two replicas share a data set that is sent while it is written: it leaves no file, and is no save.
#[test]
fn issue_17_a_data_set_is_sent_while_it_is_written() {
    let folder = Folder::new("diskless");
    let lines = ["repl-diskless-sync-delay 3600", "repl-diskless-sync-max-replicas 2", "rdb-key-save-delay 20"];
    let (primary, replicas) = (primary_in(&folder, &lines), [peer(), peer()]);
    load(&primary, 8, &AtomicBool::new(false));
    write_much(&primary, 500);
    let mut client = primary.client();
    follow(&replicas[0], &primary);
    until("one waits for the other", || field(&mut client, "slave0").contains("state=wait_bgsave"));
    under_load(&primary, || {
        follow(&replicas[1], &primary);
        until("both are online", || {
            ["slave0", "slave1"].iter().all(|name| field(&mut client, name).contains("state=online"))
        });
    });
    replicas.iter().for_each(|replica| assert_equal(replica, &primary));
    assert_eq!(primary.log().matches("with target: replicas sockets").count(), 1, "{}", primary.log());
    assert_eq!(figure(&mut client, "rdb_saves"), 0);
    let files: Vec<_> =
        std::fs::read_dir(folder.path()).expect("a folder").flatten().map(|file| file.file_name()).collect();
    assert!(files.is_empty(), "{files:?}");
    // A data set that is given up ends the links, and begins anew.
    replicas[0].client().cmd("REPLICAOF NO ONE");
    until("one has left", || figure(&mut client, "connected_slaves") == 1);
    client.cmd("CONFIG SET repl-diskless-sync-max-replicas 1 rdb-key-save-delay 100000");
    replicas[0].client().cmd("FLUSHALL");
    follow(&replicas[0], &primary);
    until("it is sent", || figure(&mut client, "rdb_bgsave_in_progress") == 1);
    client.cmd("FLUSHALL");
    client.cmd("CONFIG SET rdb-key-save-delay 0");
    write_much(&primary, 60);
    replicas.iter().for_each(|replica| assert_equal(replica, &primary));
    // Others get the file of a save.
    client.cmd("CONFIG SET repl-diskless-sync no");
    replicas[0].client().cmd("REPLICAOF NO ONE");
    until("it has left again", || figure(&mut client, "connected_slaves") == 1);
    follow(&replicas[0], &primary);
    assert_equal(&replicas[0], &primary);
    assert!(primary.log().contains("with target: disk") && folder.path().join("dump.rdb").exists());
}

/// The answer to PSYNC that comes within a second is the first thing that a replica hears. Empty lines, by which it knows that its
/// primary is there, come before a later one.
#[test]
fn issue_17_no_empty_line_stands_before_an_answer_that_comes_at_once() {
    let primary = primary(&["save \"\""]);
    for n in 0..40 {
        let mut replica = primary.client();
        replica.queue(&["PSYNC", "?", "-1"]);
        let (begin, mut first) = (Instant::now(), [0]);
        replica.flush().expect("sent");
        replica.stream().read_exact(&mut first).expect("an answer");
        let is_at_once = begin.elapsed() < Duration::from_millis(900);
        assert!(first == *b"+" || !is_at_once, "{n}: {}", first.escape_ascii());
    }
    let mut client = primary.client();
    client.cmd("CONFIG SET repl-diskless-sync-delay 3600");
    let mut replica = primary.client();
    assert_eq!(replica.cmd("REPLCONF capa eof").text(), "OK");
    replica.queue(&["PSYNC", "?", "-1"]);
    replica.flush().expect("sent");
    let mut line = [0];
    replica.stream().read_exact(&mut line).expect("a sign");
    assert_eq!(line, *b"\n");
}

/// A replica that reads nothing for a while costs no memory beyond a bound where a file is kept, and no data set.
#[test]
fn issue_17_a_slow_replica_is_left_to_the_file() {
    let folder = Folder::new("slow");
    let lines = ["appendonly yes", "client-output-buffer-limit replica 0 0 0"];
    let (primary, replica) = (primary_in(&folder, &lines), peer());
    follow(&replica, &primary);
    assert_equal(&replica, &primary);
    replica.signal("STOP").expect("a signal");
    let mut client = primary.client();
    let mut most = 0;
    for _ in 0..12 {
        write_much(&primary, 500);
        most = most.max(figure(&mut client, "repl_backlog_histlen"));
    }
    until("memory is given back", || figure(&mut client, "repl_backlog_histlen") < 2 << 20);
    assert!(most < 40 << 20, "{most} bytes of 60 MB");
    replica.signal("CONT").expect("a signal");
    assert_equal(&replica, &primary);
    assert_eq!(figure(&mut client, "sync_full"), 1);
    // It is so while it loads its data set as well.
    load_slowly(&replica, &primary, &mut client);
    for _ in 0..12 {
        write_much(&primary, 500);
    }
    until("memory is given back", || figure(&mut client, "repl_backlog_histlen") < 2 << 20);
    assert_eq!(replica.client().cmd("CONFIG SET key-load-delay 0").text(), "OK");
    assert_equal(&replica, &primary);
    assert_eq!([figure(&mut client, "sync_full"), figure(&mut client, "repl_spool_bytes")], [2, 0]);
}

/// Has a replica follow anew, and be slow with the data set.
fn load_slowly(replica: &Server, primary: &Server, client: &mut Client) {
    assert_eq!(replica.client().cmd("REPLICAOF NO ONE").text(), "OK");
    until("it has left", || figure(client, "connected_slaves") == 0);
    let slow = "CONFIG SET key-load-delay 20000 loading-process-events-interval-bytes 1024";
    assert_eq!(replica.client().cmd(slow).text(), "OK");
    (0..200).for_each(|n| set(client, &format!("slow:{n}"), &[b'v'; 20_000]));
    // A history of its own, which the primary does not know.
    set(&mut replica.client(), "own", b"history");
    follow(replica, primary);
    until("it loads", || figure(client, "sync_full") == 2);
}

/// A replica that reads nothing for a while, without a file: the stream for it goes to a spool, which is gone when it has it.
#[test]
fn issue_17_a_slow_replica_has_its_stream_spooled() {
    let folder = Folder::new("spool");
    let (primary, replica) = (primary_in(&folder, &["save \"\""]), peer());
    follow(&replica, &primary);
    assert_equal(&replica, &primary);
    replica.signal("STOP").expect("a signal");
    let mut client = primary.client();
    let mut most = 0;
    for _ in 0..16 {
        write_much(&primary, 500);
        most = most.max(figure(&mut client, "mem_total_replication_buffers"));
    }
    let spooled = figure(&mut client, "repl_spool_bytes");
    assert!(spooled > 30 << 20, "80 MB were written, and sockets take a few: {spooled}\n{}", primary.log());
    assert!(most < 40 << 20, "{most} bytes in memory");
    // All of it is there for a replica that comes back.
    assert!(figure(&mut client, "repl_backlog_histlen") > 70 << 20);
    assert_eq!(std::fs::read_dir(folder.path()).expect("a folder").count(), 0, "its files have no name");
    replica.signal("CONT").expect("a signal");
    under_load(&primary, || compare_offsets(&primary, &replica));
    assert_equal(&replica, &primary);
    write_much(&primary, 1);
    until("the spool is gone", || figure(&mut client, "repl_spool_bytes") == 0);
    assert_eq!(figure(&mut client, "sync_full"), 1);
    // A replica that gets its data set meanwhile.
    load_slowly(&replica, &primary, &mut client);
    (0..10).for_each(|_| write_much(&primary, 500));
    assert!(figure(&mut client, "repl_spool_bytes") > 10 << 20);
    assert_eq!(replica.client().cmd("CONFIG SET key-load-delay 0").text(), "OK");
    assert_equal(&replica, &primary);
    write_much(&primary, 1);
    until("the spool is gone", || figure(&mut client, "repl_spool_bytes") == 0);
    assert_eq!(figure(&mut client, "sync_full"), 2);
}

/// Bytes that wait for a slow replica are shown as those of replicas; they are no part of `used_memory`, and nothing is evicted for
/// them.
#[test]
fn issue_17_bytes_that_wait_for_a_replica_are_shown_and_evict_nothing() {
    const KEYS: u64 = 100;
    const WRITES: usize = 20_000;
    let lines =
        ["repl-backlog-size 10kb", "maxmemory-policy allkeys-random", "client-output-buffer-limit replica 0 0 0"];
    let (primary, replica) = (primary(&lines), peer());
    let mut client = primary.client();
    (0..KEYS).for_each(|n| assert!(!client.cmd(&format!("SETRANGE key:{n} 100000 asdf")).is_error()));
    follow(&replica, &primary);
    assert_equal(&replica, &primary);
    assert_eq!(figure(&mut client, "mem_clients_slaves"), 0);
    let limit = figure(&mut client, "used_memory") + (32 << 10);
    assert_eq!(client.cmd(&format!("CONFIG SET maxmemory {limit}")).text(), "OK");
    replica.signal("STOP").expect("a signal");
    let text = "A".repeat(1000);
    for _ in 0..WRITES / 100 {
        (0..100).for_each(|_| client.queue(&["SETRANGE", "key:0", "0", &text]));
        client.flush().expect("sent");
        (0..100).for_each(|_| assert!(!client.read().expect("a reply").is_error()));
    }
    let waits = figure(&mut client, "mem_clients_slaves");
    assert!(waits > 2 << 20, "20 MB were written, and sockets take a few: {waits}");
    assert!(figure(&mut client, "used_memory") <= limit);
    assert_eq!((figure(&mut client, "evicted_keys"), client.cmd("DBSIZE").integer()), (0, Some(KEYS as i64)));
    assert_eq!(client.cmd("CLIENT KILL TYPE replica").integer(), Some(1));
    until("nothing waits", || figure(&mut client, "mem_clients_slaves") == 0);
    replica.signal("CONT").expect("a signal");
    assert_equal(&replica, &primary);
    assert_eq!(figure(&mut client, "evicted_keys"), 0);
}

/// A spool has a bound: a replica that would need more is disconnected, and nothing is kept for it.
#[test]
fn issue_17_a_replica_that_is_too_slow_for_the_spool_is_disconnected() {
    let (primary, replica) = (primary(&["repl-spool-size 20mb"]), peer());
    follow(&replica, &primary);
    assert_equal(&replica, &primary);
    replica.signal("STOP").expect("a signal");
    let mut client = primary.client();
    until("it is given up", || {
        write_much(&primary, 500);
        figure(&mut client, "connected_slaves") == 0
    });
    write_much(&primary, 1);
    until("nothing is kept for it", || {
        figure(&mut client, "repl_spool_bytes") == 0 && figure(&mut client, "repl_backlog_histlen") < 3 << 20
    });
    assert!(primary.log().contains("behind by more than repl-spool-size"), "{}", primary.log());
    replica.signal("CONT").expect("a signal");
    assert_equal(&replica, &primary);
    assert_eq!(figure(&mut client, "sync_full"), 2);
}

/// A replica whose file is slower than its link reads no more than memory may hold, and goes on when the file does.
#[test]
fn issue_17_a_replica_waits_for_its_file() {
    let folder = Folder::new("waits");
    let limited = ["bash", "-c", "trap '' XFSZ; ulimit -S -f 64; exec \"$@\"", "_"];
    let launch = Launch::varve().config(format!("dir {}", folder.path().display())).config("appendonly yes");
    let (primary, replica) = (primary(&[]), launch.under(limited).start().expect("a server"));
    follow(&replica, &primary);
    assert_equal(&replica, &primary);
    (0..24).for_each(|_| write_much(&primary, 500));
    let mut client = primary.client();
    until("most of it waits at the primary", || figure(&mut client, "repl_spool_bytes") > 10 << 20);
    let [all, has] = [(&primary, "master_repl_offset"), (&replica, "slave_repl_offset")]
        .map(|(server, name)| figure(&mut server.client(), name));
    assert!(all > 110 << 20 && has < 90 << 20, "{has} of {all} bytes, of which a file has 64 KB");
    let pid = replica.pid().to_string();
    let room = Command::new("prlimit").args(["--pid", &pid, "--fsize=unlimited:unlimited"]).status();
    assert!(room.expect("util-linux").success(), "prlimit");
    assert_equal(&replica, &primary);
    assert_eq!(figure(&mut client, "sync_full"), 1);
}

/// Requests that make no sense are refused in redis-server's words.
#[test]
fn issue_17_replconf_says_what_it_does_not_know() {
    let (primary, replica) = (primary(&[]), peer());
    let lines = [
        "REPLCONF listening-port",
        "REPLCONF listening-port x",
        "REPLCONF nothing 1",
        "REPLCONF listening-port 7 capa eof capa psync2 capa other",
        "REPLCONF rdb-only 1",
        "REPLCONF rdb-filter-only functions",
        "REPLCONF rdb-filter-only nothing",
        "PSYNC",
        "PSYNC ? x",
        "WAIT x 0",
        "WAIT 0 x",
        "WAIT 0 -1",
        "WAIT -1 0",
    ];
    for line in lines {
        assert_eq!(primary.client().cmd(line), replica.client().cmd(line), "{line}");
    }
    assert!(matches!(primary.client().cmd("WAITAOF 1 0 0"), RespValue::Error(_)));
    // The least offset there is asks for a data set, as -1 does.
    let _ = primary.client().call(&["PSYNC", "?", &i64::MIN.to_string()]);
    assert_eq!(primary.client().cmd("PING").text(), "PONG");
}
