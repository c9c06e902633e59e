//! Messages that clients of a primary publish: listeners of its replicas get them, behind the data that they tell of.
//!
//! ```text
//!   PUBLISH, SPUBLISH --> Varve --stream--> redis-server, Varve --stream--> redis-server     listeners at each
//!                           +--> append-only file: the lengths of the requests alone
//! ```

#![forbid(unsafe_code)]

use varve_testkit::{Client, Launch, RespValue, Server, figure, until};
use varve_tests::replicas::{Folder, assert_equal, caught_up, field, follow};

fn server(launch: Launch, lines: &[&str]) -> Server {
    let launch = launch.config("repl-diskless-sync-delay 0");
    lines.iter().fold(launch, |launch, line| launch.config(*line)).start().expect("a server")
}

/// A client that listens to channels `c` and `s` and to keyspace events.
fn listener(server: &Server) -> Client {
    let mut client = server.client();
    client.cmd("SUBSCRIBE c");
    client.cmd("PSUBSCRIBE __key*__:*");
    client.cmd("SSUBSCRIBE s");
    client
}

/// The next message: its kind, its channel and its text.
fn message(client: &mut Client) -> [String; 3] {
    let push = client.read().expect("a message");
    let words: Vec<String> = push.elements().expect("words").iter().map(RespValue::text).collect();
    words.try_into().expect("three words")
}

#[test]
fn issue_17_listeners_of_replicas_get_messages_in_order() {
    let primary = server(Launch::varve(), &["notify-keyspace-events KEA"]);
    let [theirs, ours, behind] = [Launch::peer(), Launch::varve(), Launch::peer()].map(|launch| server(launch, &[]));
    follow(&theirs, &primary);
    follow(&ours, &primary);
    caught_up(&ours, &primary);
    follow(&behind, &ours);
    caught_up(&behind, &primary);
    caught_up(&theirs, &primary);
    let mut listeners = [&theirs, &ours, &behind].map(|server| (listener(server), server.client()));
    let mut client = primary.client();
    assert_eq!(client.cmd("PUBLISH c first").integer(), Some(0), "nobody listens here");
    client.cmd("SPUBLISH s second");
    for words in ["MULTI", "SET k 1", "PUBLISH c third", "SET k 2", "EXEC"] {
        assert!(!client.cmd(words).is_error());
    }
    let script = "redis.call('SET', 'k', 3) redis.call('PUBLISH', 'c', 'fourth') return redis.call('SET', 'k', 4)";
    assert_eq!(client.call(&["EVAL", script, "1", "k"]).expect("a reply").text(), "OK");
    let binary = [b"a b\r\n\0".as_slice(), &vec![b'x'; 100_000]].concat();
    client.call(&[b"PUBLISH".as_slice(), b"c", &binary]).expect("a reply");
    client.queue(&["SET", "k", "5"]);
    client.queue(&["PUBLISH", "c", "last"]);
    client.flush().expect("sent");
    (0..2).for_each(|_| drop(client.read().expect("a reply")));
    for (listener, reader) in &mut listeners {
        let mut expect = |kind: &str, channel: &str, text: &str, value: Option<&str>| {
            assert_eq!(message(listener), [kind, channel, text], "messages come in their order");
            if let Some(value) = value {
                let found: i64 = reader.cmd("GET k").text().parse().expect("a number");
                assert!(found >= value.parse().expect("a number"), "what {text} tells of is there: {found}");
            }
        };
        expect("message", "c", "first", None);
        expect("smessage", "s", "second", None);
        expect("message", "c", "third", Some("2"));
        expect("message", "c", "fourth", Some("4"));
        expect("message", "c", &String::from_utf8_lossy(&binary), None);
        expect("message", "c", "last", Some("5"));
    }
    assert_equal(&theirs, &primary);
    assert_equal(&ours, &primary);
    assert_equal(&behind, &ours);
}

/// A replica has no message of its own clients in the stream.
#[test]
fn issue_17_messages_of_a_replica_stay_there() {
    let (primary, replica) = (server(Launch::varve(), &[]), server(Launch::varve(), &[]));
    follow(&replica, &primary);
    assert_equal(&replica, &primary);
    let behind = server(Launch::peer(), &[]);
    follow(&behind, &replica);
    caught_up(&behind, &primary);
    let mut listener = listener(&behind);
    replica.client().cmd("PUBLISH c own");
    primary.client().cmd("PUBLISH c shared");
    assert_eq!(message(&mut listener), ["message", "c", "shared"]);
    assert_equal(&behind, &replica);
}

/// A file has a message's length in its place: a replica that is sent the file, and a primary that starts from it, count the
/// same offsets.
#[test]
fn issue_17_messages_count_where_the_stream_is_read_from_a_file() {
    let folder = Folder::new("messages");
    let lines = ["appendonly yes", "appendfsync always", "repl-backlog-size 100", &folder.line()];
    let mut primary = server(Launch::varve(), &lines);
    let replica = server(Launch::peer(), &[]);
    follow(&replica, &primary);
    assert_equal(&replica, &primary);
    let (mut client, mut theirs) = (primary.client(), replica.client());
    theirs.cmd("REPLICAOF 127.0.0.1 1");
    until("the replica has left", || figure(&mut client, "connected_slaves") == 0);
    for n in 0..300 {
        client.cmd(&format!("SET k{n} v"));
        client.cmd(&format!("PUBLISH c {}", "m".repeat(n)));
    }
    let full = figure(&mut client, "sync_full");
    follow(&replica, &primary);
    assert_equal(&replica, &primary);
    assert_eq!(figure(&mut client, "sync_full"), full, "the file has the stream");
    client.cmd("PUBLISH c last");
    caught_up(&replica, &primary);
    theirs.cmd("REPLICAOF 127.0.0.1 1");
    let offset = field(&mut theirs, "replication", "slave_repl_offset");
    primary.signal("KILL").expect("killed");
    assert!(primary.wait(varve_tests::replicas::LIMIT).is_some(), "it ends");
    let primary = server(Launch::varve(), &lines);
    assert_eq!(field(&mut primary.client(), "replication", "master_repl_offset"), offset, "the offset goes on");
    follow(&replica, &primary);
    assert_equal(&replica, &primary);
    assert_eq!(figure(&mut primary.client(), "sync_full"), 0, "{}", primary.log());
}
