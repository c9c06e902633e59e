//! A server changes its part in replication while commands are under way: what they change is in the stream, or is not done.
//!
//! ```text
//!   client --LREM of a long list, MIGRATE--> Varve --stream--> redis-server, its replica
//!                                              ^ REPLICAOF in the middle
//! ```
//! The new primary answers nothing, so that Varve keeps its data: it must be what its own replica has.

#![forbid(unsafe_code)]

use std::io::{Read, Write};
use std::net::TcpListener;
use std::time::Duration;

use varve_testkit::{Launch, Server};
use varve_tests::replicas::{LIMIT, assert_equal, assert_same_data, caught_up, field, follow, wait};

/// Elements that RPUSH adds at a time.
const PUSHED: usize = 1000;

fn pair() -> (Server, Server) {
    let primary = Launch::varve().config("io-threads 2").config("repl-diskless-sync-delay 0").start().expect("Varve");
    let replica = Launch::peer().start().expect("redis-server starts");
    follow(&replica, &primary);
    caught_up(&replica, &primary);
    (primary, replica)
}

/// Has a server follow somebody who never answers.
fn follow_nobody(server: &Server) -> TcpListener {
    let silent = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = silent.local_addr().expect("an address").port();
    assert_eq!(server.client().cmd(&format!("REPLICAOF 127.0.0.1 {port}")).text(), "OK");
    silent
}

/// Waits until the server keeps no effects of its own any more: all that it was about to write is in the stream.
fn has_switched(server: &Server) {
    wait("the link is tried", server, || server.log().contains("Connecting to MASTER"));
}

/// The replica has all of its primary's stream, which stands still, and the same data.
fn assert_replica_equal(replica: &Server, primary: &Server) {
    let (mut theirs, mut ours) = (replica.client(), primary.client());
    wait("the replica has the stream", replica, || {
        field(&mut theirs, "replication", "slave_repl_offset") == field(&mut ours, "replication", "master_repl_offset")
    });
    assert_same_data(replica, primary);
}

#[test]
fn issue_17_a_removal_in_parts_that_was_begun_before_replicaof_is_in_the_stream() {
    // The switch has to come in the middle: where the machine was too quick, a longer list is taken.
    for elements in [200_000, 800_000, 3_200_000] {
        let (primary, replica) = pair();
        let mut client = primary.client();
        let words: Vec<&str> = ["RPUSH", "k"].into_iter().chain((0..PUSHED).map(|n| ["x", "y"][n % 2])).collect();
        for _ in 0..elements / PUSHED {
            client.queue(&words);
        }
        client.flush().expect("sent");
        for _ in 0..elements / PUSHED {
            client.read().expect("a length");
        }
        caught_up(&replica, &primary);
        client.queue(&["LREM", "k", "0", "x"]);
        client.flush().expect("sent");
        let mut other = primary.client();
        wait("it has begun", &primary, || other.cmd("CLIENT LIST").text().contains("cmd=lrem"));
        let _silent = follow_nobody(&primary);
        client.set_timeout(Duration::from_millis(1)).expect("a limit");
        let is_in_the_middle = client.read().is_err();
        if !is_in_the_middle {
            continue;
        }
        client.set_timeout(LIMIT).expect("a limit");
        assert_eq!(client.read().expect("a number").integer(), Some(elements as i64 / 2), "it is brought to its end");
        has_switched(&primary);
        assert_eq!(other.cmd("RPUSH k z").text(), "READONLY You can't write against a read only replica.");
        assert_replica_equal(&replica, &primary);
        return;
    }
    panic!("no removal was long enough to be met in its middle");
}

/// A client may leave behind its command: what the command does is in the stream of the primary that was.
#[test]
fn issue_17_a_removal_whose_client_has_left_is_in_the_stream() {
    let (primary, replica) = pair();
    let mut client = primary.client();
    let words: Vec<&str> = ["RPUSH", "k"].into_iter().chain((0..PUSHED).map(|n| ["x", "y"][n % 2])).collect();
    (0..2000).for_each(|_| client.queue(&words));
    client.flush().expect("sent");
    (0..2000).for_each(|_| _ = client.read().expect("a length"));
    client.queue(&["LREM", "k", "0", "x"]);
    client.flush().expect("sent");
    let mut other = primary.client();
    wait("it has begun", &primary, || other.cmd("CLIENT LIST").text().contains("cmd=lrem"));
    drop(client);
    let _silent = follow_nobody(&primary);
    has_switched(&primary);
    assert_eq!(other.cmd("LLEN k").integer(), Some(1_000_000), "it came to its end");
    assert_replica_equal(&replica, &primary);
}

/// A script that writes for long: all of it is in the stream. A transaction that was queued before is refused whole, as by
/// redis-server.
#[test]
fn issue_17_a_script_goes_on_to_its_end_and_a_queued_transaction_is_refused() {
    let (primary, replica) = pair();
    let peer = Launch::peer().start().expect("redis-server starts");
    let (mut queued, mut queued_there) = (primary.client(), peer.client());
    for line in ["MULTI", "SET queued 1", "GET queued"] {
        assert_eq!(queued.cmd(line), queued_there.cmd(line), "{line}");
    }
    let mut client = primary.client();
    let script = "for i = 1, 400000 do redis.call('SET', 'key:' .. i % 1000, i) end return redis.call('DBSIZE')";
    client.queue(&["EVAL", script, "0"]);
    client.flush().expect("sent");
    let mut other = primary.client();
    wait("it has begun", &primary, || other.cmd("CLIENT LIST").text().contains("cmd=eval"));
    let _silent = follow_nobody(&primary);
    assert_eq!(client.read().expect("a number").integer(), Some(1000), "the script is brought to its end");
    has_switched(&primary);
    let _silent_there = follow_nobody(&peer);
    assert_eq!(queued.cmd("EXEC"), queued_there.cmd("EXEC"));
    assert!(other.cmd("GET queued").is_null());
    assert_replica_equal(&replica, &primary);
}

#[test]
fn issue_17_a_key_that_is_on_its_way_to_another_server_goes_from_the_replicas_as_well() {
    let (primary, replica) = pair();
    let target = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = target.local_addr().expect("an address").port().to_string();
    let mut client = primary.client();
    client.cmd("SET moves v");
    client.cmd("SET stays v");
    assert_equal(&replica, &primary);
    client.queue(&["MIGRATE", "127.0.0.1", &port, "moves", "0", "60000"]);
    client.flush().expect("sent");
    let (mut stream, _) = target.accept().expect("a connection");
    stream.set_read_timeout(Some(LIMIT)).expect("a limit");
    let (mut asked, mut room) = (Vec::new(), [0; 4096]);
    while !asked.windows(7).any(|part| part == b"RESTORE") {
        let count = stream.read(&mut room).expect("the key");
        assert!(count > 0, "the link is open");
        asked.extend_from_slice(&room[..count]);
    }
    let _silent = follow_nobody(&primary);
    assert!(!primary.log().contains("Connecting to MASTER"), "the switch waits for the command");
    let replies = if asked.windows(6).any(|part| part == b"SELECT") { &b"+OK\r\n+OK\r\n"[..] } else { b"+OK\r\n" };
    stream.write_all(replies).expect("answered");
    assert_eq!(client.read().expect("a reply").text(), "OK");
    has_switched(&primary);
    assert!(client.cmd("GET moves").is_null(), "it has moved");
    assert_replica_equal(&replica, &primary);
}

/// A MIGRATE whose target answers nothing is brought to its end, although the server is told to follow and then to lead meanwhile:
/// writes waited for it, and it waited for writes.
#[test]
fn issue_17_a_server_leads_again_while_a_key_is_on_its_way() {
    let server = Launch::varve().config("io-threads 2").start().expect("Varve");
    let target = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = target.local_addr().expect("an address").port().to_string();
    let (mut client, mut other) = (server.client(), server.client());
    client.cmd("SET moves v");
    client.queue(&["MIGRATE", "127.0.0.1", &port, "moves", "0", "2000"]);
    client.flush().expect("sent");
    let _stream = target.accept().expect("a connection");
    let _silent = follow_nobody(&server);
    assert_eq!(other.cmd("REPLICAOF NO ONE").text(), "OK");
    assert_eq!(other.cmd("SET k v").text(), "OK");
    let reply = client.read().expect("a reply");
    assert!(reply.is_error() && reply.text().contains("IOERR"), "{reply:?}");
    assert_eq!(client.cmd("GET moves").text(), "v");
    assert_eq!(client.cmd("SET moves w").text(), "OK");
}
