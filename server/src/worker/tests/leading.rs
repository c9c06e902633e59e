//! REPLICAOF NO ONE while what was received of the old primary is applied: the reply comes when this server leads.

use super::{Client, Server, request, wait_until};
use crate::features::replication::replica::tell_waiting;
use crate::features::replication::state::replica::Address;

/// A server that follows somebody, without a thread for the link: nothing is applied until the test says so.
fn follower() -> Server {
    let server = Server::start(2, "");
    let primary = Address { host: "127.0.0.1".to_owned(), port: 1 };
    server.state().replication().replica().want(Some(primary));
    server
}

/// A client that asks the server to lead, and waits for it, with a request behind that.
fn asking(server: &Server) -> Client {
    let mut asking = server.connect();
    asking.send(&[request(&["REPLICAOF", "NO", "ONE"]), request(&["PING"])].concat());
    wait_until("it is about to lead", || server.state().replication().replica().leaves());
    asking
}

#[test]
fn a_server_that_says_it_leads_does() {
    let server = follower();
    let (mut asking, mut other) = (asking(&server), server.connect());
    let replica = server.state().replication().replica();
    // A transaction does not wait: Sentinel's, which looks at INFO until it is so.
    other.send(&[&["MULTI"][..], &["REPLICAOF", "NO", "ONE"], &["EXEC"], &["ROLE"]].map(request).concat());
    other.expect(b"+OK\r\n+QUEUED\r\n*1\r\n+OK\r\n*3\r\n$6\r\nmaster\r\n:0\r\n*0\r\n");
    asking.stream.set_nonblocking(true).unwrap();
    let early = asking.stream.peek(&mut [0; 1]);
    assert_eq!(early.map_err(|error| error.kind()), Err(std::io::ErrorKind::WouldBlock), "a reply before it leads");
    asking.stream.set_nonblocking(false).unwrap();
    assert!(replica.lead(&replica.goal(), || {}));
    tell_waiting(server.state());
    asking.expect(b"+OK\r\n+PONG\r\n");
    other.ask(&["REPLICAOF", "NO", "ONE"], "+OK\r\n");
}

/// The later command wins, and the one that waited is replied to.
#[test]
fn a_client_that_waits_until_the_server_leads_is_told_that_it_follows_another_one() {
    let server = follower();
    let (mut asking, mut other) = (asking(&server), server.connect());
    let replica = server.state().replication().replica();
    other.ask(&["REPLICAOF", "127.0.0.1", "2"], "+OK\r\n");
    asking.expect(b"+OK\r\n+PONG\r\n");
    assert_eq!(replica.primary(), Some(Address { host: "127.0.0.1".to_owned(), port: 2 }));
    other.ask(&["REPLICAOF", "NO", "ONE"], "+OK\r\n");
    assert!(!replica.follows(), "it leads");
}
