//! Questions about all connections, more of them than a worker looks at in one turn of its loop.

use std::io::Read;

use super::{Client, Server, many_files, request, wait_until};

/// Connections: each line takes some microseconds, and a slice is a quarter of a millisecond.
const CLIENTS: usize = 900;

/// The reply to CLIENT LIST, which was asked before: its head, and its text.
fn list(client: &mut Client) -> (String, String) {
    let head = client.line();
    let length: usize = head[1..].parse().unwrap_or_else(|_| panic!("{head:?}"));
    let mut body = vec![0; length + 2];
    client.stream.read_exact(&mut body).unwrap();
    assert!(body.ends_with(b"\n\r\n"), "a line ends the text");
    body.truncate(length);
    (head, String::from_utf8(body).unwrap())
}

/// The ids of a list, in its order.
fn ids(list: &str) -> Vec<u64> {
    let id = |line: &str| line.strip_prefix("id=")?.split(' ').next()?.parse().ok();
    list.lines().map(|line| id(line).unwrap_or_else(|| panic!("{line:?}"))).collect()
}

fn connected(server: &Server) -> Vec<Client> {
    let mut clients: Vec<Client> = (0..CLIENTS).map(|_| server.connect()).collect();
    clients.iter_mut().for_each(|client| client.ask(&["PING"], "+PONG\r\n"));
    clients
}

#[test]
fn long_lists_are_whole_and_in_the_order_of_coming() {
    let _files = many_files();
    for workers in [1, 3] {
        let server = Server::start(workers, "");
        let mut clients = connected(&server);
        let (asking, others) = clients.split_at_mut(3);
        asking[1].ask(&["CLIENT", "SETNAME", "third"], "+OK\r\n");
        asking.iter_mut().for_each(|client| client.send(&request(&["CLIENT", "LIST"])));
        // Requests behind the question wait for its answer; others are served meanwhile.
        asking[0].send(&request(&["ECHO", "behind"]));
        others.iter_mut().for_each(|other| other.ask(&["ECHO", "x"], "$1\r\nx\r\n"));
        for client in &mut *asking {
            let (_, text) = list(client);
            let ids = ids(&text);
            assert_eq!(ids.len(), CLIENTS);
            assert!(ids.is_sorted_by(|a, b| a < b), "in the order of coming");
            assert!(text.contains(" name=third "));
        }
        asking[0].expect(b"$6\r\nbehind\r\n");
        // In RESP3 a list is a text, and inside EXEC it is one of the replies.
        asking[0].send(&[request(&["HELLO", "3"]), request(&["ECHO", "spoken"])].concat());
        while asking[0].line() != "spoken" {}
        asking[0].send(&[&["MULTI"][..], &["CLIENT", "LIST"], &["ECHO", "x"], &["EXEC"]].map(request).concat());
        asking[0].expect(b"+OK\r\n+QUEUED\r\n+QUEUED\r\n*2\r\n");
        let (head, text) = list(&mut asking[0]);
        assert!(head.starts_with('=') && text.starts_with("txt:id="), "{head:?}");
        asking[0].expect(b"$1\r\nx\r\n");
    }
}

#[test]
fn all_that_match_are_killed_and_nobody_else() {
    let _files = many_files();
    let server = Server::start(2, "");
    let mut clients = connected(&server);
    for client in clients.iter_mut().step_by(3) {
        client.ask(&["SUBSCRIBE", "c"], "*3\r\n$9\r\nsubscribe\r\n$1\r\nc\r\n:1\r\n");
    }
    let mut killer = server.connect();
    // Somebody who asks and hangs up leaves a question behind that nobody is told of.
    let mut gone = server.connect();
    gone.send(&request(&["CLIENT", "LIST"]));
    drop(gone);
    killer.ask(&["CLIENT", "KILL", "TYPE", "pubsub"], &format!(":{}\r\n", CLIENTS.div_ceil(3)));
    for (at, client) in clients.iter_mut().enumerate() {
        match at % 3 {
            0 => assert!(client.is_closed()),
            _ => client.ask(&["ECHO", "x"], "$1\r\nx\r\n"),
        }
    }
}

/// A client that is told that writes pause, or that a user has other rights, finds no script at work behind that which began before.
#[test]
fn a_pause_and_a_change_of_users_are_answered_behind_a_script() {
    let server = Server::start(1, "");
    let [mut runs, mut pauses, mut changes, mut other] = [(); 4].map(|()| server.connect());
    changes.ask(&["ACL", "SETUSER", "other", "on", "nopass"], "+OK\r\n");
    runs.send(&request(&["EVAL", "while true do end", "0"]));
    wait_until("the script runs", || server.state().scripts().running().busy_for(1).is_some());
    pauses.send(&request(&["CLIENT", "PAUSE", "1", "WRITE"]));
    changes.send(&request(&["ACL", "SETUSER", "other", "+get"]));
    // All of one worker: had they been answered, it would have been before these.
    (0..50).for_each(|_| other.ask(&["PING"], "+PONG\r\n"));
    for (waits, what) in [(&mut pauses, "pause"), (&mut changes, "change")] {
        waits.stream.set_nonblocking(true).unwrap();
        let mut bytes = [0; 64];
        let came = waits.stream.read(&mut bytes);
        let text = String::from_utf8_lossy(&bytes);
        assert!(came.is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock), "{what}: {text:?}");
        waits.stream.set_nonblocking(false).unwrap();
    }
    other.ask(&["SCRIPT", "KILL"], "+OK\r\n");
    assert!(runs.line().starts_with("-ERR Script killed by user"), "it was killed");
    pauses.expect(b"+OK\r\n");
    changes.expect(b"+OK\r\n");
}
