//! REPLICAOF NO ONE while what was received of the old primary is applied: the reply comes when this server leads.

use super::{Server, request, wait_until};
use crate::features::replication::replica::tell_waiting;
use crate::features::replication::state::replica::Address;

#[test]
fn a_server_that_says_it_leads_does() {
    let server = Server::start(2, "");
    let (mut asking, mut other) = (server.connect(), server.connect());
    // No thread has a link here: the test is the one that has all applied.
    let replica = server.state().replication().replica();
    replica.want(Some(Address { host: "127.0.0.1".to_owned(), port: 1 }));
    asking.send(&[request(&["REPLICAOF", "NO", "ONE"]), request(&["PING"])].concat());
    wait_until("it is about to lead", || replica.leaves());
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
    let server = Server::start(2, "");
    let (mut asking, mut other) = (server.connect(), server.connect());
    let replica = server.state().replication().replica();
    replica.want(Some(Address { host: "127.0.0.1".to_owned(), port: 1 }));
    asking.send(&[request(&["REPLICAOF", "NO", "ONE"]), request(&["PING"])].concat());
    wait_until("it is about to lead", || replica.leaves());
    other.ask(&["REPLICAOF", "127.0.0.1", "2"], "+OK\r\n");
    asking.expect(b"+OK\r\n+PONG\r\n");
    assert_eq!(replica.primary(), Some(Address { host: "127.0.0.1".to_owned(), port: 2 }));
    other.ask(&["REPLICAOF", "NO", "ONE"], "+OK\r\n");
    assert!(!replica.follows(), "it leads");
}
