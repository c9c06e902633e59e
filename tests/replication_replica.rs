//! Varve as a replica: of redis-server 7.0.15, under random load of all types and with links that are cut; and of a primary that
//! sends what it should not.
//!
//! ```text
//!  random commands --> redis-server --stream--> Varve      at rest: equal offsets, equal digests
//!  a test          --> "primary" of the test  --> Varve    damaged data, unknown commands, questions
//! ```

#![forbid(unsafe_code)]

use std::net::TcpListener;
use std::time::{Duration, Instant};

use varve_testkit::client::encode;
use varve_testkit::{Client, Launch, RespValue, Server, seed};
use varve_tests::fill::fill;
use varve_tests::folder::Folder;
use varve_tests::primary::{ID, Link, empty_file};
use varve_tests::replicas::{LIMIT, assert_equal, caught_up, field, follow, stop_following, wait};

/// Commands of a round.
const COMMANDS: usize = 4_000;

fn peer() -> Server {
    Launch::peer().config("repl-diskless-sync-delay 0").start().expect("redis-server starts")
}

fn varve() -> Server {
    Launch::varve().start().expect("Varve starts")
}

fn is_in_log(server: &Server, text: &str) -> bool {
    server.log().contains(text)
}

#[test]
fn a_replica_of_redis_server_has_its_data_whatever_happens_to_the_link() {
    let first = seed::seed("a replica of redis-server");
    let (primary, replica) = (peer(), varve());
    fill(&primary, first, COMMANDS);
    follow(&replica, &primary);
    assert_equal(&replica, &primary);
    for round in 1..=3 {
        std::thread::scope(|scope| {
            let filling = scope.spawn(|| fill(&primary, first + round, COMMANDS));
            while !filling.is_finished() {
                let (server, kind) = if round % 2 == 0 { (&primary, "replica") } else { (&replica, "master") };
                server.client().cmd(&format!("CLIENT KILL TYPE {kind}"));
                std::thread::sleep(Duration::from_millis(50));
            }
        });
        assert_equal(&replica, &primary);
    }
    assert!(is_in_log(&replica, "Successful partial resynchronization with master."));
    // Another one, with other data: a full synchronisation again.
    let other = peer();
    fill(&other, first + 100, COMMANDS);
    follow(&replica, &other);
    assert_equal(&replica, &other);
    stop_following(&replica);
    assert!(!replica.client().cmd("SET a b").is_error());
}

/// CLIENT KILL means the link as well, by the address of its other end.
#[test]
fn issue_17_the_link_is_cut_by_its_address() {
    let (primary, replica) = (varve(), varve());
    follow(&replica, &primary);
    caught_up(&replica, &primary);
    let (address, mut client) = (format!("127.0.0.1:{}", primary.port()), replica.client());
    assert_eq!(client.cmd("CLIENT KILL ADDR 127.0.0.1:1").integer(), Some(0));
    assert_eq!(client.cmd(&format!("CLIENT KILL ADDR {address} TYPE normal")).integer(), Some(0));
    for (nth, line) in ["", "ADDR ", "TYPE master ADDR "].iter().enumerate() {
        let reply = client.cmd(&format!("CLIENT KILL {line}{address}"));
        assert!(reply.text() == "OK" || reply.integer() == Some(1), "{line}: {}", reply.text());
        let partial = (nth + 1).to_string();
        wait("it comes again", &primary, || field(&mut primary.client(), "stats", "sync_partial_ok") == partial);
        caught_up(&replica, &primary);
    }
}

#[test]
fn data_that_comes_from_a_file_is_loaded_as_well() {
    let primary = Launch::peer().config("repl-diskless-sync no").start().expect("redis-server starts");
    let replica = Launch::varve().config(format!("replicaof 127.0.0.1 {}", primary.port())).start().expect("Varve");
    fill(&primary, seed::seed("from a file"), COMMANDS);
    assert_equal(&replica, &primary);
    assert!(is_in_log(&replica, "bytes from master to disk"));
    let mut client = replica.client();
    assert_eq!(client.cmd("CONFIG GET replicaof").elements().map(<[RespValue]>::len), Some(2));
    assert_eq!(client.cmd("ROLE").elements().and_then(|role| role[3].bytes()), Some(&b"connected"[..]));
}

#[test]
fn a_replica_is_read_only_and_says_so() {
    let (primary, replica) = (peer(), varve());
    let mut client = replica.client();
    client.cmd("SET before 1");
    let role = |client: &mut Client| client.cmd("HELLO").elements().map(|all| all[11].text());
    assert_eq!(role(&mut client).as_deref(), Some("master"));
    follow(&replica, &primary);
    assert_eq!(role(&mut client).as_deref(), Some("replica"));
    caught_up(&replica, &primary);
    primary.client().cmd("SET k v");
    caught_up(&replica, &primary);
    assert_eq!(client.cmd("GET k").text(), "v");
    assert!(client.cmd("GET before").is_null(), "the data that was there is gone");
    let refusal = "READONLY You can't write against a read only replica.";
    assert_eq!(client.cmd("SET k w").text(), refusal);
    assert!(
        client.call(&["EVAL", "return redis.call('SET', 'k', 'w')", "0"]).expect("a reply").text().contains(refusal)
    );
    client.cmd("MULTI");
    assert_eq!(client.cmd("SET k w").text(), refusal);
    assert!(client.cmd("EXEC").text().starts_with("EXECABORT"));
    client.cmd("CONFIG SET replica-read-only no");
    assert_eq!(client.cmd("SET own 1").text(), "OK");
    assert!(primary.client().cmd("GET own").is_null());
    client.cmd("CONFIG SET replica-serve-stale-data no");
    assert_eq!(client.cmd("GET own").text(), "1");
    drop(primary);
    wait("the link is down", &replica, || field(&mut replica.client(), "replication", "master_link_status") == "down");
    let refusal = "MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.";
    assert_eq!(client.cmd("GET own").text(), refusal);
    assert_eq!(client.cmd("PING").text(), refusal);
    stop_following(&replica);
    assert_eq!(client.cmd("GET own").text(), "1");
    assert_eq!(client.cmd("SET own 2").text(), "OK");
}

#[test]
fn the_primary_decides_when_a_key_goes() {
    let (primary, replica) = (peer(), varve());
    follow(&replica, &primary);
    let (mut theirs, mut ours) = (primary.client(), replica.client());
    theirs.cmd("DEBUG SET-ACTIVE-EXPIRE 0");
    theirs.cmd("SET k v PX 20");
    theirs.cmd("SET stays v");
    caught_up(&replica, &primary);
    wait("the time of the key is over", &replica, || ours.cmd("GET k").is_null());
    assert_eq!(ours.cmd("DBSIZE").integer(), Some(2), "it is hidden, and there");
    for look in ["DEBUG OBJECT k", "DEBUG DIGEST-VALUE k", "DEBUG DIGEST"] {
        assert!(!ours.cmd(look).is_error(), "{look}");
        assert_eq!(ours.cmd("DBSIZE").integer(), Some(2), "{look} removes nothing");
    }
    assert_eq!(ours.cmd("EXISTS k stays").integer(), Some(1));
    wait("it is over at the primary", &primary, || theirs.cmd("GET k").is_null());
    caught_up(&replica, &primary);
    assert_eq!(ours.cmd("DBSIZE").integer(), Some(1));
    // Both a key and the command that finds it over: the stream has its order.
    theirs.cmd("SET n 1 PX 1");
    std::thread::sleep(Duration::from_millis(5));
    theirs.cmd("INCR n");
    theirs.cmd("PERSIST n");
    assert_equal(&replica, &primary);
}

#[test]
fn clients_of_a_replica_learn_of_what_the_stream_does() {
    let (primary, replica) = (peer(), varve());
    follow(&replica, &primary);
    caught_up(&replica, &primary);
    let (mut theirs, mut reader, mut listener, mut cache) =
        (primary.client(), replica.client(), replica.client(), replica.client());
    reader.queue(&["XREAD", "BLOCK", "0", "STREAMS", "s", "$"]);
    reader.flush().expect("sent");
    listener.cmd("CONFIG SET notify-keyspace-events KEA");
    listener.cmd("SUBSCRIBE news __keyevent@0__:set");
    listener.read().expect("the second subscription");
    cache.cmd("HELLO 3");
    cache.cmd("CLIENT TRACKING ON");
    cache.cmd("GET cached");
    wait("the reader waits", &replica, || field(&mut replica.client(), "clients", "blocked_clients") == "1");
    theirs.cmd("XADD s 1-1 f v");
    assert!(format!("{:?}", reader.read().expect("the entry")).contains("1-1"));
    theirs.cmd("PUBLISH news hello");
    assert!(format!("{:?}", listener.read().expect("a message")).contains("hello"));
    theirs.cmd("SET cached 2");
    assert!(format!("{:?}", listener.read().expect("an event")).contains("cached"));
    assert!(format!("{:?}", cache.read().expect("an invalidation")).contains("invalidate"));
}

#[test]
fn clients_that_wait_are_let_go_when_the_server_becomes_a_replica() {
    let (primary, replica) = (peer(), varve());
    let mut waiter = replica.client();
    waiter.queue(&["BLPOP", "k", "0"]);
    waiter.flush().expect("sent");
    wait("the client waits", &replica, || field(&mut replica.client(), "clients", "blocked_clients") == "1");
    follow(&replica, &primary);
    let text = "UNBLOCKED force unblock from blocking operation, instance state changed (master -> replica?)";
    assert_eq!(waiter.read().expect("a reply").text(), text);
    assert!(waiter.read().is_err(), "its connection ends");
}

#[test]
fn a_replica_that_keeps_an_append_only_file_has_the_stream_in_it() {
    let primary = peer();
    let replica = Launch::varve().config("appendonly yes").start().expect("Varve starts");
    let first = seed::seed("a file of received commands");
    fill(&primary, first, COMMANDS);
    follow(&replica, &primary);
    caught_up(&replica, &primary);
    let mut client = replica.client();
    wait("the file begins anew", &replica, || field(&mut client, "persistence", "aof_rewrite_in_progress") == "0");
    fill(&primary, first + 1, COMMANDS);
    client.cmd("BGREWRITEAOF");
    fill(&primary, first + 2, COMMANDS);
    assert_equal(&replica, &primary);
    // The stream waits while the file is loaded, and goes on behind it.
    assert!(!client.cmd("DEBUG LOADAOF").is_error());
    fill(&primary, first + 3, COMMANDS);
    assert_equal(&replica, &primary);
    stop_following(&replica);
    wait("it leads", &replica, || client.cmd("SET last 1").text() == "OK");
    let digest = client.cmd("DEBUG DIGEST").text();
    assert!(!client.cmd("DEBUG LOADAOF").is_error());
    assert_eq!(client.cmd("DEBUG DIGEST").text(), digest, "the file has all of it");
}

/// Files say where in the stream they end: a replica asks for what is behind that, in the database that is selected there.
#[test]
fn issue_17_a_replica_that_starts_again_goes_on_where_its_files_end() {
    let first = seed::seed("a replica that starts again");
    for (name, lines, killed) in [
        ("rdb", &["save 3600 1"][..], false),
        ("aof", &["appendonly yes", "appendfsync always"], false),
        ("killed", &["appendonly yes", "appendfsync always"], true),
        ("rewritten", &["appendonly yes", "appendfsync always"], true),
    ] {
        let (primary, folder) = (peer(), Folder::new(name));
        let start = || {
            let launch =
                Launch::varve().config(format!("replicaof 127.0.0.1 {}", primary.port())).config(folder.line());
            lines.iter().fold(launch, |launch, line| launch.config(*line)).start().expect("Varve starts")
        };
        let mut replica = start();
        fill(&primary, first, COMMANDS);
        assert_equal(&replica, &primary);
        let mut theirs = primary.client();
        theirs.cmd("SELECT 5");
        theirs.cmd("SET before 1");
        caught_up(&replica, &primary);
        if name == "rewritten" {
            replica.client().cmd("BGREWRITEAOF");
            let rewrites = || field(&mut replica.client(), "persistence", "aof_rewrite_in_progress") == "1";
            wait("the rewrite is over", &replica, || !rewrites());
        }
        if killed {
            replica.signal("KILL").expect("killed");
        } else {
            let mut client = replica.client();
            client.queue(&["SHUTDOWN"]);
            client.flush().expect("sent");
        }
        assert!(replica.wait(LIMIT).is_some(), "it ends");
        theirs.cmd("SET behind 1");
        let replica = start();
        assert_eq!(replica.client().cmd("ROLE").elements().and_then(|role| role[0].bytes()), Some(&b"slave"[..]));
        fill(&primary, first + 1, COMMANDS);
        theirs.cmd("SELECT 5");
        theirs.cmd("SET last 1");
        assert_equal(&replica, &primary);
        assert_eq!(field(&mut theirs, "stats", "sync_full"), "1", "{name}: {}", replica.log());
    }
}

/// A replica of the test itself, and the listener.
fn replica_of_test() -> (Server, TcpListener) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let replica = varve();
    let port = listener.local_addr().expect("an address").port();
    assert!(!replica.client().cmd(&format!("REPLICAOF 127.0.0.1 {port}")).is_error());
    (replica, listener)
}

/// A replica that has an empty data set of the test, up to offset 1000, and its link.
fn synced_replica_of_test() -> (Server, TcpListener, Link) {
    let (replica, listener) = replica_of_test();
    let mut link = Link::accept(&listener);
    link.greet();
    link.full_sync(1000, &empty_file());
    assert_eq!(link.acknowledged(), 1000);
    (replica, listener, link)
}

#[test]
fn a_command_that_fails_here_stops_replication_and_not_the_server() {
    let library = ["FUNCTION", "LOAD", "#!lua name=lib\nerror('wrong')"];
    let refused =
        [&["NONSENSE", "k"][..], &["INCR", "text"], &["SELECT", "99"], &["CONFIG", "SET", "port", "1"], &library];
    for words in refused {
        let (replica, listener, mut link) = synced_replica_of_test();
        link.command(&["SELECT", "0"]);
        link.command(&["SET", "text", "abc"]);
        link.command(words);
        link.command(&["APPEND", "text", "d"]);
        wait("replication stops", &replica, || is_in_log(&replica, "Replication stops here"));
        let mut client = replica.client();
        assert!(client.cmd("GET text").text().starts_with("abc"), "what stands before is applied");
        assert_eq!(field(&mut client, "replication", "master_link_status"), "down");
        let again = format!("REPLICAOF 127.0.0.1 {}", listener.local_addr().expect("an address").port());
        for stops_before in [false, true] {
            if stops_before {
                stop_following(&replica);
            }
            assert_eq!(client.cmd(&again).text(), "OK");
            let request = Link::accept(&listener).greet();
            assert_ne!(request[1], ID, "the next link brings all data anew");
            assert_eq!(client.cmd(&again).text(), "OK Already connected to specified master");
        }
        stop_following(&replica);
        assert_eq!(client.cmd("SET own 1").text(), "OK");
    }
}

/// Bytes that are no command end the link and not the server. All that stands before them is applied once, whether it comes in one
/// piece with them or not, and the next link goes on behind it.
#[test]
fn issue_17_a_damaged_stream_ends_the_link_behind_its_last_whole_command() {
    for together in [false, true] {
        let (replica, listener, mut link) = synced_replica_of_test();
        let (mut stream, mut client) = (Vec::new(), replica.client());
        for words in [&["SELECT", "0"][..], &["SET", "k", "v"], &["APPEND", "k", "w"]] {
            encode(&mut stream, words);
        }
        let offset = 1000 + stream.len() as u64;
        if !together {
            link.send(&std::mem::take(&mut stream));
            while link.acknowledged() < offset {}
        }
        stream.extend(b"*1\r\n$x\r\n");
        link.send(&stream);
        let _ = link.rest();
        let mut link = Link::accept(&listener);
        let line = format!("Protocol error from master behind offset {offset}: ");
        assert!(is_in_log(&replica, &line), "{line}\n{}", replica.log());
        assert_eq!(client.cmd("PING").text(), "PONG");
        assert_eq!(link.greet()[1..], [ID.to_owned(), (offset + 1).to_string()], "{together}: {}", replica.log());
        assert_eq!(client.cmd("GET k").text(), "vw");
        link.send(b"+CONTINUE\r\n");
        let offset = offset + link.command(&["APPEND", "k", "x"]) as u64;
        while link.acknowledged() < offset {}
        assert_eq!(client.cmd("GET k").text(), "vwx");
    }
}

/// Clients of a replica that may be written have changed its libraries, so that commands of the stream about them fail. They are
/// passed over, as in redis-server: the replica keeps what its clients made, and all other commands are applied.
#[test]
fn issue_17_libraries_of_a_replicas_own_clients_stop_no_replication() {
    let library = |name: &str, function: &str, text: &str| {
        format!("#!lua name={name}\nredis.register_function('{function}', function() return '{text}' end)")
    };
    let maker = varve();
    let mut client = maker.client();
    client.call(&["FUNCTION", "LOAD", &library("lib", "f", "theirs")]).expect("a reply");
    let payload = client.cmd("FUNCTION DUMP").bytes().expect("a payload").to_vec();
    let (replica, _listener, mut link) = synced_replica_of_test();
    let mut client = replica.client();
    client.cmd("CONFIG SET replica-read-only no");
    client.call(&["FUNCTION", "LOAD", &library("lib", "f", "own")]).expect("a reply");
    let mut offset = 1000 + link.command(&["SELECT", "0"]) as u64;
    let mut restore = Vec::new();
    encode(&mut restore, &[&b"FUNCTION"[..], b"RESTORE", &payload]);
    link.send(&restore);
    offset += restore.len() as u64;
    for words in [
        &["FUNCTION", "LOAD", &library("lib", "f", "theirs")][..],
        &["FUNCTION", "LOAD", &library("other", "F", "theirs")],
        &["FUNCTION", "DELETE", "none"],
        &["FUNCTION", "LOAD", &library("third", "g", "theirs")],
        &["SET", "behind", "1"],
    ] {
        offset += link.command(words) as u64;
    }
    while link.acknowledged() < offset {}
    assert_eq!(client.cmd("GET behind").text(), "1");
    assert_eq!([client.cmd("FCALL f 0").text(), client.cmd("FCALL g 0").text()], ["own", "theirs"]);
    assert_eq!(replica.log().matches("is passed over").count(), 4, "{}", replica.log());
    // A command that replaces a library, or takes one away, is done as it stands.
    offset += link.command(&["FUNCTION", "LOAD", "REPLACE", &library("lib", "f", "newest")]) as u64;
    offset += link.command(&["FUNCTION", "DELETE", "third"]) as u64;
    while link.acknowledged() < offset {}
    assert_eq!(client.cmd("FCALL f 0").text(), "newest");
    assert!(client.cmd("FCALL g 0").is_error());
    // A client of its own is told.
    assert!(client.cmd("FUNCTION DELETE third").is_error());
}

/// DEBUG SLEEP stops a replica's link as well as its workers: the primary hears nothing meanwhile.
#[test]
fn issue_17_a_replica_that_sleeps_acknowledges_nothing() {
    let (replica, _listener, mut link) = synced_replica_of_test();
    let mut client = replica.client();
    client.queue(&["DEBUG", "SLEEP", "4"]);
    client.flush().expect("sent");
    // One word may have been on its way; each is due a second behind the one before.
    let mut longest = Duration::ZERO;
    for _ in 0..3 {
        let begin = Instant::now();
        link.acknowledged();
        longest = longest.max(begin.elapsed());
    }
    assert!(longest > Duration::from_millis(2500), "{longest:?} between two words");
    assert_eq!(client.read().expect("a reply").text(), "OK");
}

#[test]
fn issue_17_a_primary_that_is_silent_in_the_handshake_is_given_up() {
    let (replica, listener) = replica_of_test();
    replica.client().cmd("CONFIG SET repl-timeout 1");
    let _silent = Link::accept(&listener);
    wait("it is given up", &replica, || is_in_log(&replica, "Timeout connecting to the MASTER..."));
    let mut link = Link::accept(&listener);
    link.greet();
    link.full_sync(7, &empty_file());
    assert_eq!(link.acknowledged(), 7);
}

#[test]
fn damaged_data_is_asked_for_again() {
    let (replica, listener) = replica_of_test();
    let mut damaged = empty_file();
    let end = damaged.len();
    damaged[end - 1] ^= 1;
    for data in [damaged, b"no file at all".to_vec()] {
        let mut link = Link::accept(&listener);
        assert_eq!(link.greet().len(), 3);
        link.full_sync(5, &data);
    }
    let mut link = Link::accept(&listener);
    link.greet();
    link.full_sync(7, &empty_file());
    assert_eq!(link.acknowledged(), 7);
    assert!(is_in_log(&replica, "Failed trying to load the MASTER synchronization DB from disk"));
}

#[test]
fn offsets_count_whole_transactions_and_the_next_link_begins_behind_them() {
    let (replica, listener) = replica_of_test();
    let mut link = Link::accept(&listener);
    let request = link.greet();
    assert_eq!(request[0], "PSYNC");
    link.full_sync(100, &empty_file());
    assert_eq!(link.acknowledged(), 100);
    let mut offset = 100 + link.command(&["SELECT", "3"]) + link.command(&["SET", "a", "1"]) + link.command(&["PING"]);
    let before = offset;
    link.command(&["MULTI"]);
    link.command(&["SET", "a", "2"]);
    while link.acknowledged() < before as u64 {}
    // The transaction is not whole: the next link has it from its begin.
    drop(link);
    let mut link = Link::accept(&listener);
    assert_eq!(link.greet()[1..], [ID.to_owned(), (before + 1).to_string()]);
    link.send(b"+CONTINUE fedcba9876543210fedcba9876543210fedcba98\r\n");
    for words in [&["MULTI"][..], &["SET", "a", "2"], &["SET", "b", "2"], &["EXEC"]] {
        offset += link.command(words);
    }
    while link.acknowledged() < offset as u64 {}
    let mut client = replica.client();
    client.cmd("SELECT 3");
    assert_eq!((client.cmd("GET a").text(), client.cmd("GET b").text()), ("2".to_owned(), "2".to_owned()));
    assert_eq!(field(&mut client, "replication", "master_replid2"), ID);
    assert_eq!(field(&mut client, "replication", "second_repl_offset"), (before + 1).to_string());
}

#[test]
fn a_primary_that_is_gone_is_looked_for_again() {
    let (replica, listener) = replica_of_test();
    for refusal in ["-LOADING Redis is loading the dataset in memory", "-NOMASTERLINK Can't SYNC while not connected"] {
        let mut link = Link::accept(&listener);
        link.greet();
        link.send(format!("{refusal}\r\n").as_bytes());
    }
    let mut link = Link::accept(&listener);
    link.greet();
    link.full_sync(0, &empty_file());
    assert_eq!(link.acknowledged(), 0);
    // REPLICAOF of somebody who does not answer ends this link at once.
    let silent = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = silent.local_addr().expect("an address").port();
    replica.client().cmd(&format!("REPLICAOF 127.0.0.1 {port}"));
    let _ = link.rest();
    stop_following(&replica);
    wait("it leads", &replica, || replica.client().cmd("SET a 1").text() == "OK");
}

/// Flags of scripts count on a replica as they do at redis-server: what writes is refused, and what may meet old data.
#[test]
fn issue_15_flags_of_scripts_count_on_a_replica() {
    let servers = [varve(), peer()];
    let library = "#!lua name=l\n\
        redis.register_function{function_name='plain', callback=function() return 1 end}\n\
        redis.register_function{function_name='reads', callback=function() return 1 end, flags={'no-writes'}}\n\
        redis.register_function{function_name='old', callback=function() return redis.call('get', 'x') end, \
        flags={'no-writes', 'allow-stale'}}";
    let requests: &[&[&str]] = &[
        &["EVAL", "return 1", "0"],
        &["EVAL", "return redis.call('set', 'x', 1)", "1", "x"],
        &["EVAL_RO", "return redis.call('get', 'x')", "1", "x"],
        &["EVAL", "#!lua\nreturn 1", "0"],
        &["EVAL_RO", "#!lua\nreturn 1", "0"],
        &["EVAL", "#!lua flags=allow-stale\nreturn 1", "0"],
        &["EVAL", "#!lua flags=no-writes\nreturn redis.call('get', 'x')", "1", "x"],
        &["EVAL", "#!lua flags=no-writes,allow-stale\nreturn redis.call('get', 'x')", "1", "x"],
        &["EVAL", "#!lua flags=no-writes,allow-stale\nreturn redis.call('echo', 'x')", "0"],
        &["FCALL", "plain", "0"],
        &["FCALL", "reads", "0"],
        &["FCALL_RO", "old", "0"],
    ];
    let answers = |shows_stale: &str, limit: &str| {
        let [ours, theirs] = [0, 1].map(|at| {
            let mut client = servers[at].client();
            client.cmd(&format!("CONFIG SET replica-serve-stale-data {shows_stale} maxmemory {limit}"));
            let mut ask = |words: &[&str]| format!("{words:?} {:?}", client.call(words).expect("a reply"));
            let alone: Vec<String> = requests.iter().map(|words| ask(words)).collect();
            let queued = requests.iter().flat_map(|words| [&["MULTI"][..], words, &["EXEC"]]).map(ask);
            (alone, queued.collect::<Vec<_>>())
        });
        assert_eq!(ours, theirs, "{shows_stale}, {limit}");
    };
    // Requests that are queued while all may run, and have their EXEC when something may not.
    let queue = || {
        let queued = |server: &Server, words: &[&str]| {
            let mut client = server.client();
            assert_eq!(client.cmd("MULTI").text(), "OK");
            assert_eq!(client.call(words).expect("a reply").text(), "QUEUED");
            client
        };
        servers.each_ref().map(|server| requests.iter().map(|words| queued(server, words)).collect::<Vec<_>>())
    };
    let end = |clients: [Vec<Client>; 2], what: &str| {
        let [ours, theirs] = clients.map(|clients| {
            let ends = clients.into_iter().zip(requests);
            ends.map(|(mut client, words)| format!("{words:?} {:?}", client.cmd("EXEC"))).collect::<Vec<_>>()
        });
        assert_eq!(ours, theirs, "{what}");
    };
    for server in &servers {
        assert_eq!(server.client().call(&["FUNCTION", "LOAD", library]).expect("a reply").text(), "l");
    }
    answers("yes", "0");
    let queued = queue();
    answers("yes", "1");
    end(queued, "EXEC over the limit");
    servers.iter().for_each(|server| assert_eq!(server.client().cmd("CONFIG SET maxmemory 0").text(), "OK"));
    let (of_shown, of_hidden) = (queue(), queue());
    for server in &servers {
        server.client().cmd("CONFIG SET maxmemory 0");
        assert_eq!(server.client().cmd("REPLICAOF 127.0.0.1 1").text(), "OK");
    }
    answers("yes", "0");
    end(of_shown, "EXEC on a replica");
    answers("no", "0");
    end(of_hidden, "EXEC on a replica that hides its data");
    answers("no", "1");
}

/// A pinned version is one of files: a data set on its way to a replica has the version that its data needs.
#[test]
fn issue_13_a_pinned_version_keeps_no_replica_out() {
    let (primary, replica) = (varve(), varve());
    let mut client = primary.client();
    assert_eq!(client.cmd("CONFIG SET rdb-version 10 repl-diskless-sync-delay 0").text(), "OK");
    client.cmd("HSET h f 1 g 2");
    assert!(!client.cmd("HEXPIRE h 1000 FIELDS 1 f").is_error());
    assert!(client.cmd("SAVE").is_error(), "the file has no place for it");
    follow(&replica, &primary);
    assert_equal(&replica, &primary);
    let left = replica.client().cmd("HTTL h FIELDS 2 f g");
    let [RespValue::Integer(left), RespValue::Integer(-1)] = left.elements().expect("two") else { panic!("{left:?}") };
    assert!(*left > 900, "{left} seconds");
}

/// A client of a replica that may be written gives keys a time: this server removes them, and leaves its primary's alone.
#[test]
fn issue_17_a_replica_removes_the_keys_to_which_its_clients_gave_a_time() {
    let primary = peer();
    let mut theirs = primary.client();
    theirs.cmd("DEBUG SET-ACTIVE-EXPIRE 0");
    let replicas = [varve(), Launch::peer().start().expect("redis-server starts")];
    for replica in &replicas {
        follow(replica, &primary);
        let mut ours = replica.client();
        ours.cmd("CONFIG SET replica-read-only no");
        theirs.cmd("SET theirs v PX 1");
        theirs.cmd("SET both v PX 1");
        caught_up(replica, &primary);
        let expired = |ours: &mut Client| field(ours, "stats", "expired_keys").parse::<u64>().expect("a number");
        let before = expired(&mut ours);
        ours.cmd("SELECT 5");
        for line in [
            "SET own v PX 1",
            "SET longer v EX 1000",
            "RPUSH list a",
            "PEXPIRE list 1",
            "SET kept v PX 1",
            "PERSIST kept",
        ] {
            assert!(!ours.cmd(line).is_error(), "{line}");
        }
        ours.cmd("RPUSH dumped a");
        let payload = ours.call(&["DUMP", "dumped"]).expect("a reply");
        let RespValue::Bulk(payload) = payload else { panic!("{payload:?}") };
        ours.cmd("DEL dumped");
        let restore: [&[u8]; 4] = [b"RESTORE", b"restored", b"1", &payload];
        assert!(!ours.call(&restore).expect("a reply").is_error());
        assert!(!ours.call(&["EVAL", "redis.call('SET', 'script', 'v', 'PX', 1)", "0"]).expect("a reply").is_error());
        ours.cmd("MULTI");
        ours.cmd("SETEX multi 1 v");
        ours.cmd("EXEC");
        wait("what is due has gone", replica, || expired(&mut ours) >= before + 5);
        wait("one is left", replica, || field(&mut replica.client(), "stats", "slave_expires_tracked_keys") == "1");
        assert!(
            (1..=2).contains(&ours.cmd("DBSIZE").integer().expect("a number")),
            "longer, and kept if it was in time"
        );
        ours.cmd("SELECT 0");
        assert_eq!(ours.cmd("DBSIZE").integer(), Some(2), "the primary's stay where they are");
        stop_following(replica);
        wait("they go as well", replica, || replica.client().cmd("DBSIZE").integer() == Some(0));
    }
}
