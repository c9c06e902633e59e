//! A server gives its place away, or ends, and its replicas have all that it had answered: FAILOVER and SHUTDOWN, beside redis-server
//! 7.0.15.
//!
//! ```text
//!   a writer counts answered INCRs at the old primary --FAILOVER--> READONLY; the counter at the new primary is that number
//! ```
//! A replica that acknowledges nothing is the test's own, or a process that is stopped. The one that is to take the place is the
//! test's own where the link breaks at a step of the handshake; or a real one behind a relay, which loses its answer.

#![forbid(unsafe_code)]

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use varve_testkit::replica::Replica;
use varve_testkit::{Client, Launch, RespValue, Server};
use varve_tests::replicas::{LIMIT, assert_equal, caught_up, field, follow, stop_following, wait};

fn varve() -> Server {
    Launch::varve().config("repl-diskless-sync-delay 0").start().expect("Varve starts")
}

fn peer() -> Server {
    Launch::peer().config("repl-diskless-sync-delay 0").start().expect("redis-server starts")
}

fn state(server: &Server) -> String {
    field(&mut server.client(), "replication", "master_failover_state")
}

/// Sends without waiting for the reply.
fn send(client: &mut Client, words: &[&str]) {
    client.queue(words);
    client.flush().expect("sent");
}

/// Nothing comes for a moment.
fn assert_waits(client: &mut Client) {
    client.set_timeout(Duration::from_millis(50)).expect("a limit");
    let error = client.read().expect_err("no reply yet");
    assert!(matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut), "{error}");
    client.set_timeout(LIMIT).expect("a limit");
}

/// Both servers answer the same to all of these.
fn assert_same(lines: &[&str], ours: &Server, theirs: &Server) {
    for line in lines {
        assert_eq!(ours.client().cmd(line), theirs.client().cmd(line), "{line}");
    }
}

#[test]
fn issue_17_failover_refuses_what_redis_server_refuses() {
    let syntax = [
        "FAILOVER ABORT",
        "FAILOVER NONSENSE",
        "FAILOVER TO",
        "FAILOVER TO localhost",
        "FAILOVER TO localhost x",
        "FAILOVER TIMEOUT",
        "FAILOVER TIMEOUT x",
        "FAILOVER TIMEOUT 0",
        "FAILOVER TIMEOUT -1",
        "FAILOVER TIMEOUT 1 TIMEOUT 1",
        "FAILOVER FORCE FORCE",
        "FAILOVER ABORT TIMEOUT 1",
        "FAILOVER TO a 1 TO b 2",
    ];
    let plain = ["FAILOVER", "FAILOVER TIMEOUT 5", "FAILOVER FORCE", "FAILOVER TO localhost 1 FORCE TIMEOUT 5"];
    let (ours, theirs) = (varve(), peer());
    assert_same(&syntax, &ours, &theirs);
    assert_same(&plain, &ours, &theirs);
    let replicas = [peer(), peer()];
    for (replica, primary) in replicas.iter().zip([&ours, &theirs]) {
        follow(replica, primary);
        caught_up(replica, primary);
    }
    assert_same(&syntax, &ours, &theirs);
    let others =
        ["FAILOVER FORCE", "FAILOVER FORCE TIMEOUT 5", "FAILOVER TO localhost 1", "FAILOVER TO localhost 70000"];
    assert_same(&others, &ours, &theirs);
    // Both of them replicas.
    let above = peer();
    for server in [&ours, &theirs] {
        follow(server, &above);
        caught_up(server, &above);
    }
    assert_same(&plain, &ours, &theirs);
    let mut client = ours.client();
    let reply = client.cmd("PSYNC 0123456789012345678901234567890123456789 1 FAILOVER").text();
    assert_eq!(reply, "ERR PSYNC FAILOVER replid must match my replid.");
    stop_following(&ours);
    wait("it leads", &ours, || ours.client().cmd("SET a b").text() == "OK");
    let reply = ours.client().cmd("PSYNC 0123456789012345678901234567890123456789 1 FAILOVER").text();
    assert_eq!(reply, "ERR PSYNC FAILOVER can't be sent to a master.");
}

/// The last INCR that is answered, behind which writes are refused.
fn count_until_refused(server: &Server, is_on: &AtomicBool) -> i64 {
    let (mut client, mut last) = (server.client(), 0);
    while let Some(count) = client.cmd("INCR count").integer() {
        last = count;
        is_on.store(true, Relaxed);
    }
    last
}

/// The last INCR that is answered before the server gives its place away by FAILOVER.
fn count_through_failover(server: &Server, name: &str) -> i64 {
    let is_on = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let writing = scope.spawn(|| count_until_refused(server, &is_on));
        wait("there are writes", server, || is_on.load(Relaxed));
        assert_eq!(server.client().cmd("FAILOVER").text(), "OK", "{name}");
        writing.join().expect("the writer")
    })
}

#[test]
fn issue_17_a_failover_loses_nothing_that_was_answered() {
    for (name, old, new) in [
        ("Varve to Varve", varve as fn() -> Server, varve as fn() -> Server),
        ("Varve to redis-server", varve, peer),
        ("redis-server to Varve", peer, varve),
    ] {
        let (old, new) = (old(), new());
        follow(&new, &old);
        caught_up(&new, &old);
        let answered = count_through_failover(&old, name);
        wait("it is over", &old, || state(&old) == "no-failover");
        let mut client = new.client();
        assert_eq!(client.cmd("GET count").text(), answered.to_string(), "{name}: {}", new.log());
        assert_eq!(client.cmd("ROLE").elements().and_then(|role| role[0].bytes()), Some(&b"master"[..]), "{name}");
        assert_eq!(client.cmd("INCR count").integer(), Some(answered + 1), "{name}");
        assert_equal(&old, &new);
        let counts = [&old, &new].map(|server| field(&mut server.client(), "stats", "sync_full"));
        assert_eq!(counts, ["1", "0"], "{name}: nobody needed all data anew\n{}\n{}", old.log(), new.log());
    }
}

#[test]
fn issue_17_a_failover_that_finds_no_replica_in_time_changes_nothing() {
    let primary = varve();
    let mut client = primary.client();
    let _silent = Replica::connect(primary.address()).expect("a replica");
    wait("it is online", &primary, || field(&mut client, "replication", "slave0").contains("state=online"));
    client.cmd("SET k v");
    // It has not acknowledged that, and never will.
    let target = "FAILOVER TO 127.0.0.1 1";
    assert_eq!(client.cmd(target).text(), "OK");
    assert_eq!(state(&primary), "waiting-for-sync");
    assert_same_as_refused(&mut client);
    let mut writer = primary.client();
    send(&mut writer, &["SET", "k", "w"]);
    assert_waits(&mut writer);
    assert_eq!(client.cmd("GET k").text(), "v", "reads go on");
    assert_eq!(client.cmd("CLIENT UNPAUSE").text(), "OK");
    assert_waits(&mut writer);
    assert_eq!(client.cmd("FAILOVER ABORT").text(), "OK");
    assert_eq!(writer.read().expect("a reply").text(), "OK", "writes go on");
    assert_eq!(state(&primary), "no-failover");
    assert_eq!(client.cmd(&format!("{target} TIMEOUT 20")).text(), "OK");
    wait("the time is up", &primary, || state(&primary) == "no-failover");
    assert_eq!(client.cmd("SET k x").text(), "OK");
    assert!(primary.log().contains("Replica never caught up before timeout"));
    // Forced, it follows nonetheless, and finds nobody there: it leads again once that is given up.
    assert_eq!(client.cmd(&format!("{target} FORCE TIMEOUT 20")).text(), "OK");
    wait("it is under way", &primary, || state(&primary) == "failover-in-progress");
    assert_eq!(field(&mut client, "replication", "role"), "slave");
    assert_eq!(client.cmd("FAILOVER ABORT").text(), "OK");
    wait("it leads", &primary, || field(&mut client, "replication", "role") == "master");
    assert_eq!(client.cmd("SET k y").text(), "OK");
}

/// A failover lasts: others, and what would disturb it, are refused.
fn assert_same_as_refused(client: &mut Client) {
    for (line, reply) in [
        ("FAILOVER", "ERR FAILOVER already in progress."),
        ("REPLICAOF 127.0.0.1 1", "ERR REPLICAOF not allowed while failing over."),
        ("PSYNC ? -1", "NOMASTERLINK Can't SYNC while failing over"),
    ] {
        assert_eq!(client.cmd(line).text(), reply, "{line}");
    }
}

#[test]
fn issue_17_a_target_that_does_not_want_the_place_leaves_it() {
    let (primary, replica) = (varve(), peer());
    replica.client().cmd("ACL SETUSER default -psync");
    follow(&replica, &primary);
    caught_up(&replica, &primary);
    let mut client = primary.client();
    assert_eq!(client.cmd("FAILOVER").text(), "OK");
    wait("it was refused", &primary, || primary.log().contains("Failover target rejected psync request"));
    wait("it leads", &primary, || field(&mut client, "replication", "role") == "master");
    assert_eq!((client.cmd("SET k v").text(), state(&primary).as_str()), ("OK".to_owned(), "no-failover"));
    assert_equal(&replica, &primary);
    assert_eq!(field(&mut client, "stats", "sync_full"), "1", "its replica goes on where it was");
}

/// The requests of a primary that asks its replica to take its place.
const HANDSHAKE: [&str; 4] = ["PING", "REPLCONF", "REPLCONF", "PSYNC"];
/// The reply of a server that leads already.
const LEADS: &str = "-ERR PSYNC FAILOVER can't be sent to a master.";
/// The history that the stand-in goes on with.
const OTHER_ID: &str = "abcdefabcdefabcdefabcdefabcdefabcdefabcd";

fn port(listener: &TcpListener) -> u16 {
    listener.local_addr().expect("an address").port()
}

/// A replica of the test's own that has all of a primary's stream, and where it is asked to take its place.
struct StandIn(TcpListener);

impl StandIn {
    fn of(primary: &Server) -> StandIn {
        let (stand_in, mut stream) = StandIn::silent(primary);
        // It acknowledges what it is asked, until the primary ends.
        std::thread::spawn(move || while stream.next(LIMIT).is_ok() {});
        stand_in
    }

    /// One that acknowledges nothing behind its data set, and its stream.
    fn silent(primary: &Server) -> (StandIn, Replica) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let stream = Replica::connect_from(primary.address(), port(&listener)).expect("a replica");
        wait("it is online", primary, || {
            field(&mut primary.client(), "replication", "slave0").contains("state=online")
        });
        (StandIn(listener), stream)
    }

    /// The primary's next link.
    fn link(&self) -> Client {
        let mut link = Client::over(self.0.accept().expect("a link").0);
        link.set_timeout(LIMIT).expect("a limit");
        link
    }
}

/// Reads the next request of a link: its words.
fn request(link: &mut Client) -> Vec<String> {
    let request = link.read().expect("a request");
    let words = request.elements().expect("an array");
    words.iter().map(|word| String::from_utf8_lossy(word.bytes().expect("a word")).into_owned()).collect()
}

fn reply(link: &mut Client, line: &str) {
    link.queue_raw(format!("{line}\r\n").as_bytes());
    link.flush().expect("sent");
}

/// Answers all in front of PSYNC; the words of that.
fn asked(link: &mut Client) -> Vec<String> {
    loop {
        let words = request(link);
        if words[0] == "PSYNC" {
            return words;
        }
        reply(link, if words[0] == "PING" { "+PONG" } else { "+OK" });
    }
}

/// The link breaks behind this number of requests, of which the last is not answered.
fn break_behind(stand_in: &StandIn, requests: usize) {
    let mut link = stand_in.link();
    for (nth, name) in HANDSHAKE.iter().enumerate().take(requests) {
        assert_eq!(request(&mut link)[0], *name);
        if nth + 1 < requests {
            reply(&mut link, if *name == "PING" { "+PONG" } else { "+OK" });
        }
    }
}

/// It neither leads nor knows that the other one does.
fn assert_undecided(server: &Server) {
    let mut client = server.client();
    let now = ["role", "master_failover_state"].map(|name| field(&mut client, "replication", name));
    assert_eq!(now, ["slave", "failover-in-progress"], "{}", server.log());
}

/// The other one leads, for good.
fn assert_follows(server: &Server) {
    wait("the other one leads", server, || state(server) == "no-failover");
    let mut client = server.client();
    wait("the link is up", server, || field(&mut client, "replication", "master_link_status") == "up");
    assert_eq!(field(&mut client, "replication", "role"), "slave");
    assert!(client.cmd("SET k w").text().starts_with("READONLY"), "{}", server.log());
}

/// A primary whose replica, a stand-in, has all, and is asked to take its place. A client waits with a write.
fn handing_over() -> (Server, StandIn, Client) {
    let primary = varve();
    assert_eq!(primary.client().cmd("SET k v").text(), "OK");
    let stand_in = StandIn::of(&primary);
    let mut writer = primary.client();
    assert_eq!(primary.client().cmd("FAILOVER").text(), "OK");
    send(&mut writer, &["SET", "k", "held"]);
    (primary, stand_in, writer)
}

#[test]
fn issue_17_a_link_that_breaks_in_a_failover_leaves_one_primary() {
    // The answer to the last request is lost: the replica has taken the place, or the request never came to it.
    for (requests, has_taken) in [(0, false), (1, false), (2, false), (3, false), (4, false), (4, true)] {
        let (primary, stand_in, mut writer) = handing_over();
        break_behind(&stand_in, requests);
        let mut link = stand_in.link();
        assert_undecided(&primary);
        let words = asked(&mut link);
        assert_eq!(words.get(3).map(String::as_str), Some("FAILOVER"), "{words:?}");
        if has_taken {
            reply(&mut link, LEADS);
            let plain = request(&mut link);
            assert_eq!(plain, words[..3], "it goes on with the one that leads");
        }
        reply(&mut link, &format!("+CONTINUE {OTHER_ID}"));
        assert_follows(&primary);
        let held = writer.read().expect("a reply").text();
        assert!(held.starts_with("READONLY"), "behind {requests} requests: {held}");
        assert_eq!(primary.client().cmd("GET k").text(), "v");
    }
}

/// A target that was killed when it was asked may have started anew, as a primary without data: this server's data is not given
/// up for that.
#[test]
fn issue_17_a_target_that_leads_with_another_history_is_not_followed() {
    let (primary, stand_in, mut writer) = handing_over();
    break_behind(&stand_in, HANDSHAKE.len());
    for (answer, is_followed) in [(format!("+FULLRESYNC {OTHER_ID} 1"), false), (format!("+CONTINUE {OTHER_ID}"), true)]
    {
        let mut link = stand_in.link();
        let words = asked(&mut link);
        reply(&mut link, LEADS);
        assert_eq!(request(&mut link), words[..3]);
        reply(&mut link, &answer);
        if is_followed {
            assert_follows(&primary);
        } else {
            assert!(link.read().is_err(), "the link ends");
            assert_undecided(&primary);
        }
        assert_eq!(primary.client().cmd("GET k").text(), "v");
    }
    assert!(writer.read().expect("a reply").text().starts_with("READONLY"));
}

#[test]
fn issue_17_a_primary_leads_again_when_its_target_says_that_it_does_not() {
    let (primary, stand_in, mut writer) = handing_over();
    break_behind(&stand_in, HANDSHAKE.len());
    // Half of an answer, and errors that do not say whether the first question came through.
    for line in ["+CONTIN", "-NOPERM this user has no permissions", "-NOMASTERLINK Can't SYNC while failing over"] {
        let mut link = stand_in.link();
        asked(&mut link);
        reply(&mut link, line);
        assert!(link.read().is_err(), "the link ends behind {line}");
        assert_undecided(&primary);
    }
    let mut link = stand_in.link();
    request(&mut link);
    reply(&mut link, "-LOADING Redis is loading the dataset in memory");
    assert!(link.read().is_err(), "the link ends");
    assert_undecided(&primary);
    let mut link = stand_in.link();
    asked(&mut link);
    reply(&mut link, "-ERR PSYNC FAILOVER replid must match my replid.");
    assert_eq!(writer.read().expect("a reply").text(), "OK", "{}", primary.log());
    assert_eq!((primary.client().cmd("GET k").text(), state(&primary).as_str()), ("held".to_owned(), "no-failover"));
}

/// Whoever gives up the failover that was to decide it says that this server leads, and the log says what that means.
#[test]
fn issue_17_abort_behind_a_lost_answer_is_the_askers_decision() {
    let (primary, stand_in, mut writer) = handing_over();
    break_behind(&stand_in, HANDSHAKE.len());
    let _link = stand_in.link();
    assert_undecided(&primary);
    assert_eq!(primary.client().cmd("FAILOVER ABORT").text(), "OK");
    assert_eq!(writer.read().expect("a reply").text(), "OK");
    assert!(primary.log().contains("both may be masters now"), "{}", primary.log());
}

/// Carries what comes to `listener` to a server and back, and loses its first answer to PSYNC, with the connection.
fn relay_that_loses_an_answer(listener: TcpListener, server: &Server) {
    let (address, has_lost) = (server.address(), Arc::new(AtomicBool::new(false)));
    std::thread::spawn(move || {
        while let Ok((asker, _)) = listener.accept() {
            let answerer = TcpStream::connect(address).expect("the server listens");
            let both = || [&asker, &answerer].map(|end| end.try_clone().expect("a second handle"));
            let ([mut from, mut to], [mut back, mut source]) = (both(), both());
            std::thread::spawn(move || std::io::copy(&mut from, &mut to));
            let has_lost = Arc::clone(&has_lost);
            std::thread::spawn(move || {
                let mut bytes = [0; 1 << 10];
                while let Ok(count @ 1..) = source.read(&mut bytes) {
                    // Empty lines keep the link alive until there is one.
                    let line = bytes[..count].trim_ascii_start();
                    let is_answer = line.starts_with(b"+CONTINUE") || line.starts_with(b"+FULLRESYNC");
                    let is_lost = is_answer && !has_lost.swap(true, Relaxed);
                    if is_lost || back.write_all(&bytes[..count]).is_err() {
                        break;
                    }
                }
                let _ = (source.shutdown(Shutdown::Both), back.shutdown(Shutdown::Both));
            });
        }
    });
}

/// A replica that is reached through such a relay, and the relay's port.
fn follower_behind_a_relay(launch: Launch, primary: &Server) -> (Server, u16) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = port(&listener);
    let launch = launch.config(format!("replica-announce-port {port}")).config("repl-diskless-sync-delay 0");
    let replica = launch.start().expect("a server");
    relay_that_loses_an_answer(listener, &replica);
    follow(&replica, primary);
    caught_up(&replica, primary);
    (replica, port)
}

#[test]
fn issue_17_a_target_whose_answer_is_lost_leads_alone() {
    for launch in [Launch::varve as fn() -> Launch, Launch::peer] {
        let old = varve();
        let (new, _) = follower_behind_a_relay(launch(), &old);
        let answered = count_through_failover(&old, "through a relay");
        assert_follows(&old);
        assert!(old.log().contains("The failover target leads since it was asked before"), "{}", old.log());
        assert_eq!(new.client().cmd("INCR count").integer(), Some(answered + 1));
        assert_equal(&old, &new);
        assert_eq!(field(&mut new.client(), "stats", "sync_full"), "0", "it goes on where it was");
    }
}

/// FORCE gives up what the replica lacks, also where its answer is lost: the old primary takes the replica's data, and no write is
/// answered meanwhile that goes with its own.
#[test]
fn issue_17_a_forced_target_whose_answer_is_lost_leads_alone() {
    for launch in [Launch::varve as fn() -> Launch, Launch::peer] {
        let old = varve();
        let (new, port) = follower_behind_a_relay(launch(), &old);
        let mut client = old.client();
        assert_eq!(client.cmd("SET before 1").text(), "OK");
        caught_up(&new, &old);
        new.signal("STOP").expect("a signal");
        // More than the sockets between them hold: the replica lacks some of it.
        let long = vec![b'v'; 1 << 20];
        for n in 0..40 {
            assert_eq!(client.call(&[b"SET", format!("lost:{n}").as_bytes(), &long]).expect("a reply").text(), "OK");
        }
        assert_eq!(client.cmd(&format!("FAILOVER TO 127.0.0.1 {port} FORCE TIMEOUT 20")).text(), "OK");
        wait("it is under way", &old, || state(&old) == "failover-in-progress");
        let mut writer = old.client();
        send(&mut writer, &["SET", "lost:39", "held"]);
        assert_waits(&mut writer);
        new.signal("CONT").expect("a signal");
        assert_follows(&old);
        assert!(writer.read().expect("a reply").text().starts_with("READONLY"), "{}", old.log());
        let line = "The failover target leads since it was asked before: what it lacks is given up";
        assert!(old.log().contains(line), "{}", old.log());
        assert_eq!(new.client().cmd("SET behind 1").text(), "OK", "{}", new.log());
        assert_equal(&old, &new);
        assert_eq!(["before", "lost:39"].map(|key| client.cmd(&format!("EXISTS {key}")).integer()), [Some(1), Some(0)]);
        assert_eq!(old.log().matches("Full resync from master").count(), 1, "{}", old.log());
    }
}

/// A primary whose replica, a stand-in, has not all, and is to take its place nonetheless. A client waits with a write.
fn handing_over_by_force() -> (Server, StandIn, Replica, Client) {
    let primary = varve();
    let (stand_in, stream) = StandIn::silent(&primary);
    let mut client = primary.client();
    assert_eq!(client.cmd("SET k v").text(), "OK");
    let line = format!("FAILOVER TO 127.0.0.1 {} FORCE TIMEOUT 20", port(&stand_in.0));
    assert_eq!(client.cmd(&line).text(), "OK");
    send(&mut client, &["SET", "k", "held"]);
    (primary, stand_in, stream, client)
}

/// Behind a lost answer, a target that leads with all of its own data is followed only if it shows that they are this server's, as far
/// as it had acknowledged them: it may have started anew.
#[test]
fn issue_17_a_forced_target_is_followed_for_the_history_that_it_shows() {
    let (primary, stand_in, _stream, mut writer) = handing_over_by_force();
    let replica = field(&mut primary.client(), "replication", "slave0");
    let acked = replica.split(',').find_map(|word| word.strip_prefix("offset=")).expect("an offset");
    let acked: u64 = acked.parse().expect("a number");
    break_behind(&stand_in, HANDSHAKE.len());
    let id = field(&mut primary.client(), "replication", "master_replid");
    let info = |id: &str, end: u64| {
        let text = format!("# Replication\r\nrole:master\r\nmaster_replid2:{id}\r\nsecond_repl_offset:{end}\r\n");
        format!("${}\r\n{text}", text.len())
    };
    let mut refused = 0;
    for (shown, is_followed) in [
        ("-NOPERM this user has no permissions".to_owned(), false),
        ("$0\r\n".to_owned(), false),
        (info(&"0".repeat(40), acked + 1), false),
        (info(OTHER_ID, acked + 1), false),
        (info(&id, acked), false),
        (info(&id, acked + 1), true),
    ] {
        let mut link = stand_in.link();
        let words = asked(&mut link);
        assert_eq!(words.get(3).map(String::as_str), Some("FAILOVER"), "{words:?}");
        reply(&mut link, LEADS);
        assert_eq!(request(&mut link), ["INFO", "replication"]);
        reply(&mut link, &shown);
        assert_eq!(request(&mut link), words[..3]);
        reply(&mut link, &format!("+FULLRESYNC {OTHER_ID} 1"));
        if is_followed {
            wait("the other one leads", &primary, || state(&primary) == "no-failover");
            assert_eq!(field(&mut primary.client(), "replication", "role"), "slave");
            assert!(writer.read().expect("a reply").text().starts_with("READONLY"), "{}", primary.log());
        } else {
            assert!(link.read().is_err(), "the link ends behind {shown}");
            assert_undecided(&primary);
            refused += 1;
            let lines = || primary.log().matches("does not go on with this server's history").count();
            wait("the log says why", &primary, || lines() == refused);
        }
    }
}

#[test]
fn issue_17_shutdown_waits_for_replicas() {
    let (mut primary, replica) = (varve(), peer());
    let mut client = primary.client();
    client.cmd("CONFIG SET shutdown-timeout 300");
    follow(&replica, &primary);
    caught_up(&replica, &primary);
    replica.signal("STOP").expect("a signal");
    client.cmd("SET k last");
    let mut leaver = primary.client();
    send(&mut leaver, &["SHUTDOWN"]);
    let left = |client: &mut Client| field(client, "server", "shutdown_in_milliseconds").parse::<u64>().unwrap_or(0);
    wait("it waits", &primary, || left(&mut client) > 0);
    let mut writer = primary.client();
    send(&mut writer, &["SET", "k", "held"]);
    assert_waits(&mut writer);
    replica.signal("CONT").expect("a signal");
    assert!(leaver.read().is_err(), "no reply");
    assert!(writer.read().is_err(), "it was never made");
    assert_eq!(primary.wait(LIMIT), Some(true), "it ends well");
    wait("the replica has it", &replica, || replica.client().cmd("GET k").text() == "last");
    assert!(primary.log().contains("1 of 1 replicas are in sync when shutting down."), "{}", primary.log());
}

#[test]
fn issue_17_a_shutdown_that_waits_can_be_given_up() {
    let mut primary = varve();
    let mut client = primary.client();
    assert_eq!(client.cmd("SHUTDOWN ABORT").text(), "ERR No shutdown in progress.");
    client.cmd("CONFIG SET shutdown-timeout 300");
    let _silent = Replica::connect(primary.address()).expect("a replica");
    client.cmd("SET k v");
    let mut leavers = [primary.client(), primary.client()];
    leavers.iter_mut().for_each(|leaver| send(leaver, &["SHUTDOWN", "NOSAVE"]));
    wait("both wait", &primary, || field(&mut client, "clients", "blocked_clients") == "2");
    assert_eq!(client.cmd("SHUTDOWN ABORT").text(), "OK");
    for leaver in &mut leavers {
        assert_eq!(leaver.read().expect("a reply").text(), "ERR Errors trying to SHUTDOWN. Check logs.");
    }
    assert_eq!(client.cmd("SET k w").text(), "OK");
    // One that has waited for long enough ends without them.
    client.cmd("CONFIG SET shutdown-timeout 1");
    primary.signal("TERM").expect("a signal");
    assert_eq!(primary.wait(LIMIT), Some(true));
    assert!(primary.log().contains("0 of 1 replicas are in sync when shutting down."), "{}", primary.log());
    assert!(primary.log().contains("Lagging replica 127.0.0.1:1 reported offset"));
    let mut other = varve();
    let _silent = Replica::connect(other.address()).expect("a replica");
    other.client().cmd("SET k v");
    assert!(other.client().call(&["SHUTDOWN", "NOW"]).is_err(), "it waits for nobody");
    assert_eq!(other.wait(LIMIT), Some(true));
}

/// WAITAOF counts a replica's file once that is synced, and not before.
#[test]
fn issue_17_a_replica_says_how_far_its_file_is() {
    let primary = varve();
    let replica = Launch::varve().config("appendonly yes").config("appendfsync everysec").start().expect("Varve");
    follow(&replica, &primary);
    caught_up(&replica, &primary);
    let mut client = primary.client();
    client.cmd("SET k v");
    assert_eq!(client.cmd("WAITAOF 0 1 60000"), RespValue::Array(vec![RespValue::Integer(0), RespValue::Integer(1)]));
    let end = field(&mut client, "replication", "master_repl_offset");
    assert!(end.parse::<u64>().is_ok_and(|end| end > 0));
    replica.client().cmd("CONFIG SET appendfsync no");
    client.cmd("SET k w");
    let copies = |count| RespValue::Array(vec![RespValue::Integer(0), RespValue::Integer(count)]);
    assert_eq!(client.cmd("WAITAOF 0 1 1500"), copies(0), "nobody syncs it");
    replica.client().cmd("CONFIG SET appendfsync always");
    client.cmd("SET k x");
    assert_eq!(client.cmd("WAITAOF 0 1 60000"), copies(1));
}

/// A client may ask before there is a replica, and write more meanwhile: each replica that comes has what was written before. Its
/// file counts where it has one.
#[test]
fn issue_17_who_asks_before_there_is_a_replica_is_answered_when_there_is_one() {
    // Its file has a part of the journal that no replica is ever sent.
    let launch = Launch::varve().config("repl-diskless-sync-delay 0").config("appendonly yes");
    let primary = launch.start().expect("Varve");
    let mut writer = primary.client();
    let mut ask = |line: &str| {
        assert_eq!(writer.cmd("SET k v").text(), "OK");
        let mut client = primary.client();
        client.set_timeout(LIMIT).expect("a timeout");
        client.queue(&line.split(' ').collect::<Vec<_>>());
        client.flush().expect("sent");
        client
    };
    let (mut of_memory, mut of_file) = (ask("WAIT 1 0"), ask("WAITAOF 0 1 0"));
    let mut client = primary.client();
    wait("both wait", &primary, || field(&mut client, "clients", "blocked_clients") == "2");
    client.cmd("SET k w");
    let without = varve();
    follow(&without, &primary);
    assert_eq!(of_memory.read().expect("a reply").integer(), Some(1));
    let counted = |reply: &RespValue| reply.elements().map(|files| files[1].integer());
    assert_eq!(counted(&client.cmd("WAITAOF 0 1 100")), Some(Some(0)), "it keeps no file");
    assert_eq!(field(&mut client, "clients", "blocked_clients"), "1");
    let with = Launch::varve().config("appendonly yes").start().expect("Varve");
    follow(&with, &primary);
    assert_eq!(counted(&of_file.read().expect("a reply")), Some(Some(1)));
}
