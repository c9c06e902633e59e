//! Thousands of clients that hang up while they wait, watch, track or are in the middle of a transaction or of a request:
//! every count goes back to zero, memory goes back, and no element goes to a client that is gone.

#![forbid(unsafe_code)]

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::process::Command;
use std::time::Duration;

use varve_testkit::{Client, Launch, RespValue, Server, figure, until};

/// Clients of each kind.
const OF_EACH: usize = 1000;

/// A kind of client: the requests that it sends, and the last bytes of the replies that show that they were run. A client
/// that waits gets no reply.
struct Kind {
    requests: &'static str,
    end: &'static [u8],
}

const KINDS: [Kind; 5] = [
    Kind { requests: "BLPOP q 0\r\n", end: b"" },
    Kind { requests: "BLMPOP 0 3 q other third LEFT\r\nSET late 1\r\n", end: b"" },
    Kind { requests: "WATCH hot q\r\nMULTI\r\nSET late 1\r\n", end: b"+QUEUED\r\n" },
    Kind { requests: "HELLO 3\r\nCLIENT TRACKING ON\r\nGET hot\r\nPING end\r\n", end: b"end\r\n" },
    Kind { requests: "HELLO 3\r\nCLIENT TRACKING ON BCAST PREFIX h PREFIX q\r\nPING end\r\n", end: b"end\r\n" },
];

fn start() -> Server {
    let wanted = KINDS.len() * OF_EACH + 1000;
    let me = std::process::id().to_string();
    let raised = Command::new("prlimit").args(["--pid", &me, &format!("--nofile={wanted}:")]).status();
    assert!(raised.is_ok_and(|status| status.success()), "this test needs {wanted} open files");
    Launch::varve().config("io-threads 4").start().expect("varve-server starts")
}

/// A client of this kind whose requests were run as far as they get.
fn arrive(server: &Server, kind: &Kind) -> TcpStream {
    let mut stream = TcpStream::connect(server.address()).expect("a connection");
    stream.set_read_timeout(Some(Duration::from_secs(60))).expect("set");
    stream.write_all(kind.requests.as_bytes()).expect("sent");
    let (mut replies, mut chunk) = (Vec::new(), [0; 4096]);
    while !replies.ends_with(kind.end) {
        let count = stream.read(&mut chunk).expect("replies");
        assert!(count > 0, "closed behind {:?}", replies.escape_ascii().to_string());
        replies.extend_from_slice(&chunk[..count]);
    }
    stream
}

/// Nothing is left of clients that are gone, and what they waited for stays where it is.
fn nothing_is_left(admin: &mut Client, used_bytes: u64) {
    until("the clients are gone", || figure(admin, "connected_clients") == 1);
    for field in ["blocked_clients", "tracking_clients", "tracking_total_keys", "tracking_total_items"] {
        assert_eq!(figure(admin, field), 0, "{field}");
    }
    assert_eq!(figure(admin, "tracking_total_prefixes"), 0);
    assert_eq!(admin.cmd("RPUSH q a b c"), RespValue::Integer(3));
    assert_eq!(admin.cmd("LLEN q"), RespValue::Integer(3), "an element went to a client that is gone");
    assert_eq!(admin.cmd("EXISTS late other third"), RespValue::Integer(0), "a client that is gone had a command run");
    assert_eq!(admin.cmd("DEL q"), RespValue::Integer(1));
    // The buffers that a worker keeps for the next clients are the rest.
    let most = used_bytes + (2 << 20);
    until("memory goes back", || figure(admin, "used_memory") <= most);
}

#[test]
fn waiters_watchers_and_trackers_that_leave_at_once_leave_nothing() {
    let server = start();
    let mut admin = server.client();
    assert_eq!(admin.cmd("SET hot 1").text(), "OK");
    let used_bytes = figure(&mut admin, "used_memory");
    for round in 0..3 {
        let streams: Vec<TcpStream> =
            KINDS.iter().flat_map(|kind| (0..OF_EACH).map(|_| arrive(&server, kind))).collect();
        until("the waiters wait", || figure(&mut admin, "blocked_clients") == 2 * OF_EACH as u64);
        assert_eq!(figure(&mut admin, "tracking_clients"), 2 * OF_EACH as u64);
        assert_eq!(
            (figure(&mut admin, "tracking_total_keys"), figure(&mut admin, "tracking_total_items")),
            (1, OF_EACH as u64)
        );
        match round {
            0 => drop(streams),
            // Half closed first: the server learns of the end while the client could still read.
            1 => streams.iter().for_each(|stream| stream.shutdown(Shutdown::Write).expect("shut down")),
            // With unread pushes in the socket the close becomes a reset.
            _ => {
                assert_eq!(admin.cmd("SET hot 2").text(), "OK");
                drop(streams);
            }
        }
        nothing_is_left(&mut admin, used_bytes);
    }
}

/// The dead readers of a key that others go on tracking are forgotten too, though the key never changes.
#[test]
fn trackers_that_leave_are_forgotten_while_others_track() {
    let server = start();
    let mut admin = server.client();
    assert_eq!(admin.cmd("SET hot 1").text(), "OK");
    let stays = arrive(&server, &KINDS[3]);
    for _ in 0..5 {
        drop((0..OF_EACH).map(|_| arrive(&server, &KINDS[3])).collect::<Vec<_>>());
        until("the clients are gone", || figure(&mut admin, "connected_clients") == 2);
    }
    until("only the client that stays is in the table", || figure(&mut admin, "tracking_total_items") == 1);
    assert_eq!(figure(&mut admin, "tracking_clients"), 1);
    drop(stays);
}

#[test]
fn clients_that_hang_up_at_every_byte_leave_nothing() {
    let server = start();
    let mut admin = server.client();
    assert_eq!(admin.cmd("SET hot 1").text(), "OK");
    let used_bytes = figure(&mut admin, "used_memory");
    let before = figure(&mut admin, "total_connections_received");
    for kind in &KINDS {
        for sent in 0..kind.requests.len() {
            let mut stream = TcpStream::connect(server.address()).expect("a connection");
            stream.write_all(&kind.requests.as_bytes()[..sent]).expect("sent");
        }
    }
    // Those that the server has not seen yet would come while the counts are read.
    let all = before + KINDS.iter().map(|kind| kind.requests.len() as u64).sum::<u64>();
    until("all have come", || figure(&mut admin, "total_connections_received") == all);
    nothing_is_left(&mut admin, used_bytes);
}

/// A client that reads nothing, and one that has left, keep nobody from being alone: what they have begun on a key comes to its end.
#[test]
fn issue_13_a_command_comes_to_its_end_for_a_client_that_does_not_read() {
    let server = Launch::varve().config("io-threads 1").start().expect("varve-server starts");
    let mut admin = server.client();
    assert_eq!(admin.call(&["SET", "big", &"v".repeat(1 << 20)]).expect("a reply").text(), "OK");
    let members: Vec<String> = (0..200_000).map(|n| format!("member:{n}")).collect();
    let mut adds = vec!["SADD", "set"];
    adds.extend(members.iter().map(String::as_str));
    for leaves in [false, true] {
        let mut silent = server.client();
        // More than the sockets take, and less than makes the server stop to run what comes next.
        (0..16).for_each(|_| silent.queue(&["GET", "big"]));
        silent.queue(&adds);
        silent.flush().expect("sent");
        until("it has begun", || admin.cmd("CLIENT LIST").text().contains("cmd=sadd"));
        let silent = (!leaves).then_some(silent);
        assert_eq!(admin.cmd("SWAPDB 0 1").text(), "OK", "there is a moment to be alone");
        assert_eq!(admin.cmd("SWAPDB 0 1").text(), "OK");
        assert_eq!(admin.cmd("SCARD set").integer(), Some(members.len() as i64), "it came to its end");
        assert_eq!(admin.cmd("DEL set").integer(), Some(1));
        drop(silent);
    }
}
