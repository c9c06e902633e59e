//! A data set of a primary that is received beside what a replica has (`repl-diskless-load swapdb`): what clients see meanwhile, when
//! it is swapped in, and when it is not whole. Beside redis-server, which follows the same primary of the test.
//!
//! ```text
//!  a test --> "primary" --data set, stopped anywhere--> Varve, redis-server        equal replies at each stop
//! ```

#![forbid(unsafe_code)]

use std::net::TcpListener;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use varve_testkit::{Client, Launch, RespValue, Server};
use varve_tests::primary::{ID, Link};
use varve_tests::replicas::{assert_equal, field, follow, stop_following, wait};

/// The mark behind the data set.
const MARK: &str = "mmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmm";
/// Another history.
const OTHER_ID: &str = "fedcba9876543210fedcba9876543210fedcba98";

/// The file that a server has which ran these commands.
fn file_of(commands: &[&[&str]]) -> Vec<u8> {
    let server = Launch::varve().start().expect("Varve starts");
    let mut client = server.client();
    for command in commands {
        let reply = client.call(command).expect("a reply");
        assert!(!reply.is_error(), "{command:?}: {}", reply.text());
    }
    assert_eq!(client.cmd("SAVE").text(), "OK");
    std::fs::read(server.dir().join("dump.rdb")).expect("its file")
}

/// A library whose function gives this text.
fn library(text: &str) -> String {
    format!(
        "#!lua name=lib\nredis.register_function{{function_name='f', callback=function() return '{text}' end, flags={{'no-writes'}}}}"
    )
}

/// The data set that a replica has at first: keys of two databases, a stream, a library.
fn old_data() -> Vec<u8> {
    let library = library("old");
    file_of(&[
        &["SET", "k", "old"],
        &["SET", "gone", "1"],
        &["XADD", "s", "1-1", "a", "1"],
        &["FUNCTION", "LOAD", &library],
        &["SELECT", "3"],
        &["SET", "in-three", "1"],
    ])
}

/// The one that comes later: long values of all types among it, so that it takes many turns.
fn new_data() -> Vec<u8> {
    static MADE: OnceLock<Vec<u8>> = OnceLock::new();
    MADE.get_or_init(make_new_data).clone()
}

fn make_new_data() -> Vec<u8> {
    let library = library("new");
    let fill = "for i = 1, 20000 do redis.call('SADD', 'set', i, 'member ' .. i) redis.call('RPUSH', 'list', i) \
                redis.call('HSET', 'hash', i, i) redis.call('ZADD', 'zset', i, i) redis.call('SADD', 'ints', i) \
                redis.call('SET', 'key ' .. i, i) if i % 10 == 0 then redis.call('XADD', 'log', i .. '-1', 'a', i) end end \
                redis.call('XGROUP', 'CREATE', 'log', 'g', 0) redis.call('XREADGROUP', 'GROUP', 'g', 'c', 'STREAMS', 'log', '>') \
                redis.call('SET', 'big', string.rep('x', 3000000)) redis.call('SETRANGE', 'bigger', 20000000, 'end')";
    file_of(&[
        &["SET", "k", "new"],
        &["XADD", "s", "1-1", "a", "1"],
        &["XADD", "s", "2-1", "a", "2"],
        &["FUNCTION", "LOAD", &library],
        &["EVAL", fill, "0"],
        &["SELECT", "5"],
        &["SET", "in-five", "1"],
        &["PEXPIREAT", "in-five", "99999999999999"],
    ])
}

/// Answers a replica up to the head of a data set of this history.
fn begin(listener: &TcpListener, id: &str, offset: u64) -> (Link, Vec<String>) {
    let mut link = Link::accept(listener);
    let asked = link.greet();
    link.send(&head(id, offset));
    (link, asked)
}

/// The head of a data set of this history.
fn head(id: &str, offset: u64) -> Vec<u8> {
    format!("+FULLRESYNC {id} {offset}\r\n$EOF:{MARK}\r\n").into_bytes()
}

/// A replica of the test that has the old data, and its link, whose next request is an acknowledgement.
fn with_old_data(launch: Launch) -> (Server, TcpListener, Link) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let replica = launch.config("repl-diskless-load swapdb").config("save \"\"").start().expect("a server starts");
    let port = listener.local_addr().expect("an address").port();
    assert!(!replica.client().cmd(&format!("REPLICAOF 127.0.0.1 {port}")).is_error());
    let (mut link, _) = begin(&listener, ID, 100);
    link.send(&old_data());
    link.send(MARK.as_bytes());
    assert_eq!(link.acknowledged(), 100);
    (replica, listener, link)
}

/// A redis-server that looks after its clients each time that a kilobyte of a data set has come.
fn peer() -> Launch {
    Launch::peer().config("loading-process-events-interval-bytes 1024")
}

/// Waits until the replica loads data, in this way.
fn wait_loading(replica: &Server, name: &str) {
    let mut client = replica.client();
    wait("it loads", replica, || field(&mut client, "persistence", name) == "1");
}

fn wait_loaded(replica: &Server) {
    let mut client = replica.client();
    let mut is = |name| field(&mut client, "persistence", name) == "1";
    wait("it does not load", replica, || !is("loading") && !is("async_loading"));
}

/// Sends bytes slowly while something is done: redis-server serves its clients only each time that some have come.
fn trickling<T>(link: &mut Link, bytes: &[u8], work: impl FnOnce() -> T) -> T {
    let is_done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for piece in bytes.chunks(1100).take_while(|_| !is_done.load(Relaxed)) {
                link.send(piece);
                std::thread::sleep(Duration::from_millis(5));
            }
        });
        let done = work();
        is_done.store(true, Relaxed);
        done
    })
}

/// The data and the state as a client sees them.
fn seen(client: &mut Client) -> Vec<String> {
    let asked = [
        "GET k",
        "GET gone",
        "DBSIZE",
        "XRANGE s - +",
        "FCALL_RO f 0",
        "PING",
        "EVAL_RO return(1) 0",
        "REPLICAOF NO ONE",
        "BGSAVE",
        "BGREWRITEAOF",
        "SAVE",
        "FAILOVER",
        "CONFIG SET appendonly no",
        "CONFIG SET repl-diskless-load disabled",
        "CONFIG SET maxmemory-samples 7",
        "FUNCTION LIST",
        "SET k mine",
        "FLUSHALL",
        "SWAPDB 0 1",
        "FUNCTION FLUSH",
        "PUBLISH c m",
        "MULTI",
        "GET k",
        "EXEC",
    ];
    let mut all: Vec<_> = asked.iter().map(|line| format!("{line}: {}", show(&client.cmd(line)))).collect();
    for name in ["loading", "async_loading"] {
        all.push(format!("{name}: {}", field(client, "persistence", name)));
    }
    for name in ["role", "master_link_status", "master_sync_in_progress", "connected_slaves"] {
        all.push(format!("{name}: {}", field(client, "replication", name)));
    }
    let info = client.cmd("INFO persistence").text();
    all.push(format!("says how far it is: {}", info.contains("loading_loaded_bytes:")));
    all
}

fn show(reply: &RespValue) -> String {
    match reply {
        RespValue::Array(all) => format!("{:?}", all.iter().map(show).collect::<Vec<_>>()),
        RespValue::Integer(number) => number.to_string(),
        other => other.text(),
    }
}

/// The stops of a run: what clients see beside a data set that is half here, of this history, when its link is cut, and when the next
/// one is whole.
fn stops(launch: Launch, id: &str, name: &str) -> Vec<Vec<String>> {
    let (replica, listener, link) = with_old_data(launch);
    let mut client = replica.client();
    let mut stops = Vec::new();
    drop(link);
    let new = new_data();
    let (mut link, asked) = begin(&listener, id, 5000);
    assert_eq!(&asked[1..], [ID, "101"], "it asks for the stream behind what it has");
    link.send(&new[..new.len() / 4]);
    stops.push(trickling(&mut link, &new[new.len() / 4..new.len() / 4 * 3], || {
        wait_loading(&replica, name);
        seen(&mut client)
    }));
    drop(link);
    wait_loaded(&replica);
    let mut link = Link::accept(&listener);
    assert_eq!(&link.greet()[1..], [ID, "101"], "its place in the history is still there");
    stops.push(["GET k", "GET gone", "DBSIZE", "FCALL_RO f 0"].map(|line| show(&client.cmd(line))).to_vec());
    link.send(&head(id, 6000));
    link.send(&new);
    link.send(MARK.as_bytes());
    assert_eq!(link.acknowledged(), 6000);
    for line in [
        "GET k",
        "GET gone",
        "DBSIZE",
        "SCARD set",
        "LRANGE list 19990 -1",
        "HGET hash 777",
        "ZSCORE zset 20000",
        "STRLEN big",
    ] {
        stops.push(vec![show(&client.cmd(line))]);
    }
    for line in [
        "STRLEN bigger",
        "SISMEMBER ints 12345",
        "XLEN log",
        "XPENDING log g",
        "FCALL_RO f 0",
        "SELECT 3",
        "DBSIZE",
        "SELECT 5",
    ] {
        stops.push(vec![show(&client.cmd(line))]);
    }
    for line in ["DBSIZE", "PEXPIRETIME in-five", "DEBUG DIGEST"] {
        stops.push(vec![show(&client.cmd(line))]);
    }
    stops
}

#[test]
fn issue_17_old_data_is_served_beside_a_data_set_of_its_history() {
    let ours = stops(Launch::varve(), ID, "async_loading");
    let theirs = stops(peer(), ID, "async_loading");
    assert_eq!(ours, theirs);
}

#[test]
fn issue_17_old_data_of_another_history_is_kept_and_not_shown() {
    let ours = stops(Launch::varve(), OTHER_ID, "loading");
    let theirs = stops(peer(), OTHER_ID, "loading");
    assert_eq!(ours, theirs);
}

/// A data set that is damaged, or does not end where its primary says, changes nothing.
#[test]
fn issue_17_a_damaged_data_set_leaves_the_old_one_whole() {
    let (replica, listener, link) = with_old_data(Launch::varve());
    drop(link);
    let mut client = replica.client();
    let digest = client.cmd("DEBUG DIGEST").text();
    let new = new_data();
    let mut damaged = new.clone();
    let end = damaged.len();
    damaged[end - 1] ^= 1;
    let mut in_the_middle = new.clone();
    in_the_middle[end / 2] ^= 1;
    for data in [damaged, in_the_middle, b"no file at all".to_vec(), new[..end - 20].to_vec()] {
        let (mut link, asked) = begin(&listener, ID, 5000);
        assert_eq!(&asked[1..], [ID, "101"]);
        link.send(&data);
        link.send(MARK.as_bytes());
    }
    let (link, _) = begin(&listener, ID, 5000);
    wait_loading(&replica, "async_loading");
    assert_eq!(client.cmd("DEBUG DIGEST").text(), digest);
    assert_eq!(client.cmd("FCALL_RO f 0").text(), "old");
    assert!(replica.log().contains("Internal error in RDB"));
    drop(link);
}

/// Whoever watches, waits for or has cached a key learns of the swap.
#[test]
fn issue_17_clients_learn_of_the_swap() {
    let (replica, listener, link) = with_old_data(Launch::varve());
    drop(link);
    let [mut watches, mut waits, mut caches, mut client] = std::array::from_fn(|_| replica.client());
    watches.cmd("WATCH k");
    caches.cmd("HELLO 3");
    caches.cmd("CLIENT TRACKING ON");
    caches.cmd("GET k");
    waits.queue(&["XREAD", "BLOCK", "0", "STREAMS", "s", "1-1"]);
    waits.flush().expect("sent");
    wait("it waits", &replica, || field(&mut client, "clients", "blocked_clients") == "1");
    let (mut link, _) = begin(&listener, ID, 5000);
    link.send(&new_data());
    link.send(MARK.as_bytes());
    assert_eq!(link.acknowledged(), 5000);
    watches.cmd("MULTI");
    watches.cmd("GET k");
    assert!(watches.cmd("EXEC").is_null());
    assert!(
        show(&waits.read().expect("it is served")).contains("2-1")
            || field(&mut client, "clients", "blocked_clients") == "0"
    );
    let pushed = caches.read().expect("a message");
    assert!(show(&pushed).contains("nvalidate") || matches!(pushed, RespValue::Push(_)), "{pushed:?}");
}

/// While data is loaded beside it, a replica that may be written is emptied by its own clients: what comes stays whole.
#[test]
fn issue_17_flushes_of_clients_leave_what_comes_alone() {
    for flush in ["FLUSHALL", "FLUSHDB"] {
        let (replica, listener, link) = with_old_data(Launch::varve().config("replica-read-only no"));
        drop(link);
        let mut client = replica.client();
        let new = new_data();
        let (mut link, _) = begin(&listener, ID, 5000);
        link.send(&new[..new.len() / 2]);
        wait_loading(&replica, "async_loading");
        if flush == "FLUSHDB" {
            client.cmd("SELECT 3");
            client.cmd("FLUSHDB");
            client.cmd("SELECT 0");
        }
        assert_eq!(client.cmd(flush).text(), "OK");
        assert_eq!(client.cmd("SET k mine").text(), "OK");
        assert_eq!(client.cmd("DBSIZE").integer(), Some(1));
        link.send(&new[new.len() / 2..]);
        link.send(MARK.as_bytes());
        assert_eq!(link.acknowledged(), 5000);
        assert_eq!(client.cmd("GET k").text(), "new");
        assert_eq!(client.cmd("SCARD set").integer(), Some(40_000));
    }
}

/// A script that rests with shards held keeps no worker from the rest, and the data set comes to its end behind it.
#[test]
fn issue_17_a_script_beside_the_load_ends_first() {
    let launch = Launch::varve().config("busy-reply-threshold 10").config("io-threads 1");
    let (replica, listener, link) = with_old_data(launch);
    drop(link);
    let [mut runs, mut client] = std::array::from_fn(|_| replica.client());
    let keys: Vec<String> = (1..=64).map(|n| format!("key {n}")).collect();
    let mut words = vec!["EVAL_RO", "while true do end", "64"];
    words.extend(keys.iter().map(String::as_str));
    runs.queue(&words);
    runs.flush().expect("sent");
    wait("the script is busy", &replica, || client.cmd("GET k").text().starts_with("BUSY"));
    let (mut link, _) = begin(&listener, ID, 5000);
    link.send(&new_data());
    link.send(MARK.as_bytes());
    wait("it has begun", &replica, || replica.log().contains("Loading DB in memory"));
    assert_eq!(client.cmd("SCRIPT KILL").text(), "OK");
    assert_eq!(link.acknowledged(), 5000);
    assert_eq!(client.cmd("GET k").text(), "new");
}

/// A signal that comes to the link's thread while it waits for more of a data set, as the watchdog's alarm may, does not end the
/// link.
#[test]
fn issue_17_signals_to_the_links_thread_do_not_end_it() {
    let (replica, listener, link) = with_old_data(Launch::varve().config("watchdog-period 200"));
    drop(link);
    let (mut link, _) = begin(&listener, ID, 5000);
    let new = new_data();
    link.send(&new[..new.len() / 2]);
    wait_loading(&replica, "async_loading");
    // The system gives a signal to the thread whose number it was sent to, if that takes it.
    let path = replica.thread("replica").expect("a thread has the link");
    let number = path.file_name().expect("a number").to_string_lossy().into_owned();
    for _ in 0..50 {
        let sent = std::process::Command::new("kill").args(["-ALRM", &number]).status();
        assert!(sent.is_ok_and(|status| status.success()));
    }
    wait("the signals have come", &replica, || replica.log().contains("Received SIGALRM"));
    link.send(&new[new.len() / 2..]);
    link.send(MARK.as_bytes());
    assert_eq!(link.acknowledged(), 5000);
    assert_eq!(replica.client().cmd("GET k").text(), "new");
}

/// With `on-empty-db` a server without keys needs no file, and one with keys does.
#[test]
fn issue_17_an_empty_server_needs_no_file() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let replica = Launch::varve().config("repl-diskless-load on-empty-db").start().expect("Varve starts");
    let port = listener.local_addr().expect("an address").port();
    assert!(!replica.client().cmd(&format!("REPLICAOF 127.0.0.1 {port}")).is_error());
    for (offset, to) in [(100, "to parser"), (200, "to disk")] {
        let (mut link, _) = begin(&listener, ID, offset);
        link.send(&old_data());
        link.send(MARK.as_bytes());
        assert_eq!(link.acknowledged(), offset);
        assert_eq!(replica.client().cmd("GET k").text(), "old");
        assert!(replica.log().contains(to), "{}", replica.log());
    }
    assert!(replica.dir().join("dump.rdb").exists());
}

/// Both ends keep append-only files, and a replica of the replica asks for all data behind the swap.
#[test]
fn issue_17_files_and_further_replicas_follow_the_swap() {
    let folder_of = |server: &Server| std::fs::read_dir(server.dir().join("appendonlydir")).map_or(0, Iterator::count);
    let primary = Launch::peer().config("repl-diskless-sync-delay 0").start().expect("redis-server starts");
    let replica = Launch::varve().config("repl-diskless-load swapdb").config("appendonly yes").start().expect("Varve");
    let further = Launch::varve().config("repl-diskless-load swapdb").start().expect("Varve");
    let mut theirs = primary.client();
    theirs.cmd("SET k 1");
    follow(&replica, &primary);
    follow(&further, &replica);
    assert_equal(&replica, &primary);
    assert_equal(&further, &replica);
    for round in 0..3 {
        // More than the backlog has is missing when the link is made again.
        theirs.cmd("CONFIG SET repl-backlog-size 16384");
        theirs.cmd("MULTI");
        theirs.cmd("CLIENT KILL TYPE replica");
        (0..20).for_each(|n| _ = theirs.cmd(&format!("SET {round}:{n} {}", "v".repeat(16_384))));
        theirs.cmd("EXEC");
        wait("all data is asked for", &primary, || field(&mut theirs, "stats", "sync_full") == (round + 2).to_string());
        assert_equal(&replica, &primary);
        assert_equal(&further, &replica);
    }
    assert!(folder_of(&replica) > 0 && replica.log().contains("Swapping active DB with loaded DB"));
    let digest = theirs.cmd("DEBUG DIGEST").text();
    let mut client = replica.client();
    wait("the file has it all", &replica, || field(&mut client, "persistence", "aof_rewrite_in_progress") == "0");
    stop_following(&replica);
    assert_eq!(client.cmd("DEBUG LOADAOF").text(), "OK");
    assert_eq!(client.cmd("DEBUG DIGEST").text(), digest);
}
