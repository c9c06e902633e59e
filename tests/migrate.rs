//! MIGRATE: keys move between Varve and redis-server, and what becomes of a key on its way.
//!
//! ```text
//!  client ──MIGRATE──▶ Varve ──RESTORE──▶ redis-server, or a target of the test's own that answers when it is told to
//! ```

#![forbid(unsafe_code)]

use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

use varve_testkit::tls::Certificates;
use varve_testkit::{Client, Launch, RespValue, Server, figure, until};

/// How long anything may take on a busy machine.
const LONG_MS: u64 = 60_000;

/// A server that takes part in MIGRATE only as far as the test says.
struct Target {
    listener: TcpListener,
}

impl Target {
    fn new() -> Target {
        Target { listener: TcpListener::bind("127.0.0.1:0").expect("a port") }
    }

    fn port(&self) -> u16 {
        self.listener.local_addr().expect("its address").port()
    }

    /// Takes a connection, and reads until all of `words` have come.
    fn read_until(&self, words: &[&str]) -> TcpStream {
        let (mut stream, _) = self.listener.accept().expect("a connection");
        stream.set_read_timeout(Some(Duration::from_millis(LONG_MS))).expect("a limit");
        let (mut got, mut room, mut left) = (Vec::new(), [0; 65536], words.to_vec());
        while !left.is_empty() {
            let count = stream.read(&mut room).expect("a request");
            assert!(count > 0, "closed before {left:?}");
            // A word may lie across two reads, and is shorter than what is kept of the one before.
            got.drain(..got.len().saturating_sub(64));
            got.extend_from_slice(&room[..count]);
            left.retain(|word| !got.windows(word.len()).any(|part| part == word.as_bytes()));
        }
        stream
    }
}

fn start() -> Server {
    Launch::varve().arg("--save").arg("").start().expect("Varve starts")
}

fn migrate(port: u16, key: &str, rest: &[&str]) -> Vec<String> {
    let mut words = vec!["MIGRATE".to_owned(), "127.0.0.1".into(), port.to_string(), key.into(), "0".into()];
    words.push(LONG_MS.to_string());
    words.extend(rest.iter().map(|&word| word.to_owned()));
    words
}

/// A reply as text, be it a number or not.
trait Said {
    fn said(&self) -> String;
}

impl Said for RespValue {
    fn said(&self) -> String {
        self.integer().map_or_else(|| self.text(), |number| number.to_string())
    }
}

/// Sends without waiting for the reply.
fn send(client: &mut Client, words: &[String]) {
    client.queue(words);
    client.flush().expect("sent");
}

/// Names are frozen in all databases: behind a move, those are tried who wait for a key of this name in another one. The server ended
/// where the keys were of several shards.
#[test]
fn issue_11_clients_that_wait_in_another_database_outlive_a_move_of_many_keys() {
    let (from, to) = (start(), start());
    let (mut client, mut waiter) = (from.client(), from.client());
    let names: Vec<String> = (0..40).map(|n| format!("key:{n}")).collect();
    names.iter().for_each(|name| assert_eq!(client.cmd(&format!("RPUSH {name} x")).integer(), Some(1)));
    assert_eq!(waiter.cmd("SELECT 1").text(), "OK");
    let mut wait = vec!["BLPOP".to_owned()];
    wait.extend(names.iter().cloned());
    wait.push("0".into());
    send(&mut waiter, &wait);
    until("it waits", || figure(&mut client, "blocked_clients") == 1);
    let port = to.port();
    let mut words = migrate(port, "", &["COPY", "KEYS"]);
    words.extend(names.iter().cloned());
    send(&mut client, &words);
    assert_eq!(client.read().expect("a reply").text(), "OK");
    assert_eq!(to.client().cmd("DBSIZE").integer(), Some(names.len() as i64));
    assert_eq!(client.cmd("SELECT 1").text(), "OK");
    assert_eq!(client.cmd("RPUSH key:7 there").integer(), Some(1));
    let popped = waiter.read().expect("a reply");
    let popped = popped.elements().expect("a key and an element");
    assert_eq!([popped[0].text(), popped[1].text()], ["key:7", "there"]);
}

/// Nothing comes for a moment. A reply that is only late is not seen: what follows would fail.
fn waits(client: &mut Client) {
    client.set_timeout(Duration::from_millis(100)).expect("a limit");
    let error = client.read().expect_err("no reply yet");
    assert!(matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut), "{error}");
    client.set_timeout(Duration::from_millis(LONG_MS)).expect("a limit");
}

fn digest(client: &mut Client, key: &str) -> String {
    client.cmd(&format!("DEBUG DIGEST-VALUE {key}")).said()
}

#[test]
fn values_of_every_type_move_there_and_back() {
    let allow = |launch: Launch| launch.arg("--enable-debug-command").arg("yes").arg("--save").arg("");
    let (ours, theirs) =
        (allow(Launch::varve()).start().expect("Varve"), allow(Launch::peer()).start().expect("the peer"));
    let (mut a, mut b) = (ours.client(), theirs.client());
    let mut names = Vec::new();
    for (at, count) in [3, 300, 20_000].into_iter().enumerate() {
        let long: Vec<String> = (0..count).map(|n| format!("element:{n}")).collect();
        for (name, pairs) in [("RPUSH", 1), ("SADD", 1), ("HSET", 2), ("ZADD", 2)] {
            let key = format!("{name}:{at}");
            for part in long.chunks(1000) {
                let mut words = vec![name.to_owned(), key.clone()];
                for (n, element) in part.iter().enumerate() {
                    match (name, pairs) {
                        ("ZADD", _) => words.extend([n.to_string(), element.clone()]),
                        (_, 2) => words.extend([element.clone(), format!("value {n}")]),
                        _ => words.push(element.clone()),
                    }
                }
                assert!(!a.call(&words).expect("a reply").is_error());
            }
            names.push(key);
        }
        let key = format!("SET:{at}");
        let value: String = long.concat();
        assert_eq!(a.call(&["SET", &key, &value, "PX", "10000000"]).expect("a reply").said(), "OK");
        names.push(key);
    }
    let digests: Vec<String> = names.iter().map(|name| digest(&mut a, name)).collect();
    let keys: Vec<&str> = ["KEYS", "missing"].into_iter().chain(names.iter().map(String::as_str)).collect();
    assert_eq!(a.call(&migrate(theirs.port(), "", &keys)).expect("a reply").said(), "OK");
    assert_eq!((a.cmd("DBSIZE").said(), b.cmd("DBSIZE").said()), ("0".into(), names.len().to_string()));
    let there: Vec<String> = names.iter().map(|name| digest(&mut b, name)).collect();
    assert_eq!(there, digests, "the same values at the other server");
    assert_ne!(b.cmd("PTTL SET:0").said(), "-1", "with their time to live");
    for name in &names {
        assert_eq!(b.call(&migrate(ours.port(), name, &[])).expect("a reply").said(), "OK", "{name}");
    }
    let back: Vec<String> = names.iter().map(|name| digest(&mut a, name)).collect();
    assert_eq!(back, digests, "and back");
    // A copy stays, and does not replace what is there unasked.
    assert_eq!(a.call(&migrate(theirs.port(), "SADD:1", &["COPY"])).expect("a reply").said(), "OK");
    let refused = a.call(&migrate(theirs.port(), "SADD:1", &[])).expect("a reply").said();
    assert_eq!(refused, "ERR Target instance replied with error: BUSYKEY Target key name already exists.");
    assert_eq!(a.cmd("EXISTS SADD:1").said(), "1");
    assert_eq!(a.call(&migrate(theirs.port(), "SADD:1", &["REPLACE"])).expect("a reply").said(), "OK");
    assert_eq!(a.cmd("EXISTS SADD:1").said(), "0");
    assert_eq!(a.call(&migrate(theirs.port(), "SADD:1", &[])).expect("a reply").said(), "NOKEY");
}

#[test]
fn who_changes_a_key_on_its_way_waits_and_others_go_on() {
    let (server, target) = (start(), Target::new());
    let (mut mover, mut other) = (server.client(), server.client());
    let mut writers: Vec<Client> = (0..4).map(|_| server.client()).collect();
    other.cmd("MSET moved 1 still 1");
    other.cmd("RPUSH list a");
    let (mut transaction, mut waiter, mut pusher) = (server.client(), server.client(), server.client());
    send(&mut waiter, &["BLMOVE", "source", "list", "LEFT", "RIGHT", "0"].map(str::to_owned));
    until("it waits", || figure(&mut other, "blocked_clients") == 1);
    send(&mut mover, &migrate(target.port(), "", &["KEYS", "moved", "list"]));
    let mut link = target.read_until(&["RESTORE", "moved", "list"]);
    for (writer, line) in
        writers.iter_mut().zip(["SET moved 2", "MSET free 1 moved 3", "RPUSH list b", "DEL list still"])
    {
        send(writer, &line.split(' ').map(str::to_owned).collect::<Vec<_>>());
        waits(writer);
    }
    // So does a transaction, and a push whose waiting client would write there.
    for line in ["MULTI", "INCR counter", "APPEND moved x"] {
        transaction.cmd(line);
    }
    send(&mut transaction, &["EXEC".to_owned()]);
    waits(&mut transaction);
    send(&mut pusher, &["RPUSH", "source", "pushed"].map(str::to_owned));
    waits(&mut pusher);
    // Reading goes on, and so does writing elsewhere.
    assert_eq!(
        (other.cmd("GET moved").said(), other.cmd("LRANGE list 0 -1").elements().expect("a list")[0].said()),
        ("1".into(), "a".into())
    );
    assert_eq!(other.cmd("SET elsewhere 1").said(), "OK");
    // One for SELECT, and one for the key that comes first.
    link.write_all(b"+OK\r\n+OK\r\n").expect("answered");
    waits(&mut writers[1]);
    link.write_all(b"+OK\r\n").expect("answered");
    assert_eq!(mover.read().expect("a reply").said(), "OK");
    for client in writers.iter_mut().chain([&mut transaction, &mut waiter, &mut pusher]) {
        assert!(!client.read().expect("a reply").is_error());
    }
    // Everything was done with keys that were not there.
    let moved = other.cmd("GET moved").said();
    assert!(["2", "2x", "3", "3x", "x"].contains(&moved.as_str()), "{moved}");
    assert_eq!(other.cmd("GET counter").said(), "1");
}

#[test]
fn a_key_stays_when_the_other_server_is_silent_refuses_or_goes() {
    let (server, target) = (start(), Target::new());
    let (mut mover, mut other) = (server.client(), server.client());
    other.cmd("SET k 1");
    // Silence.
    let mut silent = migrate(target.port(), "k", &[]);
    silent[5] = "200".into();
    send(&mut mover, &silent);
    let link = target.read_until(&["RESTORE"]);
    assert_eq!(mover.read().expect("a reply").said(), "IOERR error or timeout reading to target instance");
    drop(link);
    assert_eq!(
        (other.cmd("GET k").said(), other.cmd("APPEND k 1").said()),
        ("1".into(), "2".into()),
        "it can be changed"
    );
    // A refusal.
    send(&mut mover, &migrate(target.port(), "k", &[]));
    let mut link = target.read_until(&["RESTORE"]);
    link.write_all(b"+OK\r\n-OOM no room\r\n").expect("answered");
    assert_eq!(mover.read().expect("a reply").said(), "ERR Target instance replied with error: OOM no room");
    assert_eq!(other.cmd("APPEND k 1").said(), "3");
    // The end of the connection: the same socket is tried first, then a new one, and then no more.
    send(&mut mover, &migrate(target.port(), "k", &[]));
    assert!(link.read(&mut [0; 4096]).expect("the same socket") > 0);
    drop(link);
    drop(target.read_until(&["RESTORE"]));
    let reply = mover.read().expect("a reply").said();
    assert!(reply.starts_with("IOERR error or timeout"), "{reply}");
    assert_eq!(other.cmd("APPEND k 1").said(), "4");
    // Nobody listens there.
    let port = target.port();
    drop(target);
    let reply = mover.call(&migrate(port, "k", &[])).expect("a reply").said();
    assert!(reply.starts_with("IOERR error or timeout"), "{reply}");
    assert_eq!(other.cmd("GET k").said(), "1111");
}

#[test]
fn a_client_that_is_killed_leaves_its_key_free() {
    let (server, target) = (start(), Target::new());
    let (mut mover, mut other, mut writer) = (server.client(), server.client(), server.client());
    other.cmd("SET k 1");
    let id = mover.cmd("CLIENT ID").said();
    send(&mut mover, &migrate(target.port(), "k", &[]));
    let _link = target.read_until(&["RESTORE"]);
    send(&mut writer, &["APPEND", "k", "2"].map(str::to_owned));
    waits(&mut writer);
    assert_eq!(other.cmd(&format!("CLIENT KILL ID {id}")).said(), "1");
    assert_eq!(writer.read().expect("a reply").said(), "2");
    assert_eq!(other.cmd("GET k").said(), "12");
}

#[test]
fn what_may_change_any_key_waits_too() {
    let (server, target) = (start(), Target::new());
    let (mut mover, mut other) = (server.client(), server.client());
    let mut writers: Vec<Client> = (0..3).map(|_| server.client()).collect();
    other.cmd("SET k 1");
    send(&mut mover, &migrate(target.port(), "k", &[]));
    let mut link = target.read_until(&["RESTORE"]);
    for line in ["MULTI", "RENAME k k2", "DBSIZE"] {
        writers[0].cmd(line);
    }
    for line in ["MULTI", "APPEND k 2", "CONFIG GET port"] {
        writers[1].cmd(line);
    }
    for (writer, line) in writers.iter_mut().zip(["EXEC", "EXEC", "SWAPDB 0 1"]) {
        send(writer, &line.split(' ').map(str::to_owned).collect::<Vec<_>>());
        waits(writer);
    }
    link.write_all(b"+OK\r\n+OK\r\n").expect("answered");
    assert_eq!(mover.read().expect("a reply").said(), "OK");
    for writer in &mut writers {
        assert!(!writer.read().expect("a reply").is_error());
    }
    // The second transaction may have come first, and made the key anew.
    for db in [0, 1] {
        other.cmd(&format!("SELECT {db}"));
        assert_ne!(other.cmd("GET k2").said(), "1", "what has moved is not here under another name");
    }
}

/// The keys that are locked are those that move, whatever the words around them are.
#[test]
fn words_that_are_keys_and_keys_that_are_words() {
    let server = start();
    let mut client = server.client();
    for rest in [
        &["KEYS", "a", "KEYS", "b"][..],
        &["KEYS", "KEYS", "key"],
        &["AUTH2", "KEYS", "pw", "KEYS", "a"],
        &["AUTH", "KEYS", "COPY", "KEYS", "a", "AUTH"],
    ] {
        assert_eq!(client.call(&migrate(1, "", rest)).expect("a reply").said(), "NOKEY", "{rest:?}");
    }
    for rest in [&["AUTH2", "KEYS", "pw"][..], &["AUTH", "KEYS", "COPY"], &["AUTH2", "x", "KEYS", "REPLACE"]] {
        assert_eq!(client.call(&migrate(1, "key", rest)).expect("a reply").said(), "NOKEY", "{rest:?}");
    }
}

/// Many keys move, some of which end on the way, to a server that begins late; and one that closes behind its last answer.
#[test]
fn keys_that_end_on_the_way_hold_up_nobody() {
    let (server, target) = (start(), Target::new());
    let (mut mover, mut other) = (server.client(), server.client());
    // More than the sockets take.
    let big = "x".repeat(32 << 20);
    other.call(&["SET", "a-big", &big]).expect("set");
    let names: Vec<String> = (0..100).map(|n| format!("k{n}")).collect();
    for name in &names {
        other.cmd(&format!("SET {name} 1 PX 300"));
    }
    other.cmd("SET z 1");
    let keys: Vec<&str> = ["KEYS", "a-big", "z"].into_iter().chain(names.iter().map(String::as_str)).collect();
    send(&mut mover, &migrate(target.port(), "", &keys));
    until("the others have ended", || other.cmd("DBSIZE").integer() == Some(2));
    let mut link = target.read_until(&["RESTORE", "a-big", "\r\nz\r\n"]);
    link.write_all(b"+OK\r\n+OK\r\n+OK\r\n").expect("answered");
    drop(link);
    assert_eq!(mover.read().expect("a reply").said(), "OK");
    assert_eq!(other.cmd("DBSIZE").integer(), Some(0));
}

#[test]
fn a_client_that_wants_no_reply_gets_none() {
    let (server, target) = (start(), Target::new());
    let mut mover = server.client();
    mover.cmd("SET k 1");
    mover.queue(&["CLIENT", "REPLY", "SKIP"]);
    send(&mut mover, &migrate(target.port(), "k", &[]));
    let mut link = target.read_until(&["RESTORE"]);
    link.write_all(b"+OK\r\n-BUSYKEY it is there\r\n").expect("answered");
    assert_eq!(mover.cmd("ECHO next").said(), "next");
}

/// The effects of one command, each with its key's shard held: a write that waited for a key comes behind the key's end.
#[test]
fn the_file_has_the_writes_that_waited_behind_the_ends_of_their_keys() {
    let server = Launch::varve().arg("--save").arg("").arg("--appendonly").arg("yes").start().expect("Varve starts");
    let target = Target::new();
    let (mut mover, mut other) = (server.client(), server.client());
    let names: Vec<String> = (0..16).map(|n| format!("k{n:02}")).collect();
    let mut writers: Vec<Client> = names.iter().map(|_| server.client()).collect();
    names.iter().for_each(|name| _ = other.cmd(&format!("SET {name} old")));
    let keys: Vec<&str> = ["KEYS"].into_iter().chain(names.iter().map(String::as_str)).collect();
    send(&mut mover, &migrate(target.port(), "", &keys));
    let mut link = target.read_until(&names.iter().map(String::as_str).collect::<Vec<_>>());
    for (writer, name) in writers.iter_mut().zip(&names) {
        send(writer, &["SET".to_owned(), name.clone(), "new".into()]);
    }
    waits(&mut writers[15]);
    link.write_all(&b"+OK\r\n".repeat(17)).expect("answered");
    assert_eq!(mover.read().expect("a reply").said(), "OK");
    for writer in &mut writers {
        assert_eq!(writer.read().expect("a reply").said(), "OK");
    }
    other.cmd("SET end 1");
    let file = server.dir().join("appendonlydir/appendonly.aof.1.incr.aof");
    let text = || String::from_utf8_lossy(&std::fs::read(&file).expect("the file")).into_owned();
    until("all of it is in the file", || text().contains("\r\nend\r\n"));
    let text = text();
    for name in &names {
        let removed = text.find(&format!("DEL\r\n$3\r\n{name}\r\n")).expect("its end");
        let written = text.find(&format!("SET\r\n$3\r\n{name}\r\n$3\r\nnew")).expect("the write that waited");
        assert!(removed < written, "{name}: {text}");
    }
}

#[test]
fn the_file_and_transactions() {
    let server = Launch::varve().arg("--save").arg("").arg("--appendonly").arg("yes").start().expect("Varve starts");
    let target = Target::new();
    let (mut mover, mut other) = (server.client(), server.client());
    other.cmd("SET k 1");
    send(&mut mover, &migrate(target.port(), "k", &[]));
    let mut link = target.read_until(&["RESTORE"]);
    link.write_all(b"+OK\r\n+OK\r\n").expect("answered");
    assert_eq!(mover.read().expect("a reply").said(), "OK");
    other.cmd("SET k 2");
    send(&mut mover, &migrate(target.port(), "k", &["COPY"]));
    assert!(link.read(&mut [0; 4096]).expect("the same socket") > 0);
    link.write_all(b"+OK\r\n").expect("answered");
    assert_eq!(mover.read().expect("a reply").said(), "OK");
    let file = server.dir().join("appendonlydir/appendonly.aof.1.incr.aof");
    let text = || String::from_utf8_lossy(&std::fs::read(&file).expect("the file")).into_owned();
    until("all of it is in the file", || text().ends_with("$1\r\n2\r\n"));
    let (moves, deletes) = (text().matches("MIGRATE").count(), text().matches("DEL").count());
    assert_eq!((moves, deletes), (0, 1), "{}", text());
    other.cmd("MULTI");
    other.call(&migrate(target.port(), "k", &[])).expect("queued");
    let replies = other.cmd("EXEC");
    assert_eq!(replies.elements().expect("a list")[0].said(), "ERR Command not allowed inside a transaction");
}

/// `tls-cluster yes`: each server shows the other its certificate.
#[test]
fn keys_move_by_tls_where_the_setting_says_so() {
    let certificates = Certificates::make("migrate");
    let start = |launch: Launch, certificates: &Certificates| {
        launch.config("tls-cluster yes").start_tls(certificates).expect("it starts")
    };
    let ((ours, our_port), (theirs, their_port)) =
        (start(Launch::varve(), &certificates), start(Launch::peer(), &certificates));
    let (mut a, mut b) = (ours.client(), theirs.client());
    let large = "0123456789abcdef".repeat(500_000);
    for (key, value) in [("small", "value"), ("large", &large)] {
        assert_eq!(a.call(&["SET", key, value]).expect("a reply").said(), "OK");
        // The second goes over the socket that was kept.
        assert_eq!(a.call(&migrate(their_port, key, &[])).expect("a reply").said(), "OK");
        assert_eq!(
            (a.cmd(&format!("EXISTS {key}")).said(), b.cmd(&format!("EXISTS {key}")).said()),
            ("0".into(), "1".into())
        );
        assert_eq!(b.call(&migrate(our_port, key, &[])).expect("a reply").said(), "OK");
        assert_eq!(a.cmd(&format!("GET {key}")).text(), value);
    }
    // A port without TLS, and a server of another authority: an error, and the key stays.
    let foreign = Certificates::make("migrate-foreign");
    let (_other, other_port) = start(Launch::varve(), &foreign);
    for port in [theirs.port(), other_port] {
        let reply = a.call(&migrate(port, "small", &[])).expect("a reply").said();
        assert!(reply.starts_with("IOERR"), "{reply}");
        assert_eq!(a.cmd("EXISTS small").said(), "1");
    }
    // Without the setting it is as before.
    assert_eq!(a.cmd("CONFIG SET tls-cluster no").said(), "OK");
    assert_eq!(a.call(&migrate(theirs.port(), "small", &[])).expect("a reply").said(), "OK");
}
