//! Pipelines in which one command changes what another one's reply or message depends on: listening that ends behind a
//! command whose message is owed, CLIENT REPLY, CLIENT CACHING. The replies are redis-server's, but where it says so.

use super::tracking::{speak_resp3, stale};
use super::*;

/// Sends these commands at once, words apart by spaces, and expects these bytes; then the client answers again.
fn all_at_once(client: &mut Client, commands: &[&str], replies: &str) {
    let lines: Vec<u8> = commands.iter().flat_map(|line| request(&line.split(' ').collect::<Vec<_>>())).collect();
    client.send(&lines);
    client.expect(replies.as_bytes());
}

/// A client that speaks RESP3 and has run these commands.
fn prepared(server: &Server, commands: &[&str]) -> Client {
    let mut client = server.connect();
    speak_resp3(&mut client.stream);
    commands.iter().for_each(|line| client.send(&request(&line.split(' ').collect::<Vec<_>>())));
    let mut probe = Vec::new();
    client.send(&request(&["ECHO", "ready"]));
    while !probe.ends_with(b"$5\r\nready\r\n") {
        let mut byte = [0];
        client.stream.read_exact(&mut byte).unwrap();
        probe.push(byte[0]);
    }
    client
}

const SET_EVENT: &str = ">3\r\n$7\r\nmessage\r\n$18\r\n__keyevent@0__:set\r\n$1\r\nk\r\n";
const UNSUBSCRIBED: &str = ">3\r\n$11\r\nunsubscribe\r\n$18\r\n__keyevent@0__:set\r\n:0\r\n";

/// redis-server has the event before the reply of the command that made it; here it stands behind.
#[test]
fn an_event_of_its_own_command_comes_before_the_listening_ends() {
    let server = Server::start(2, "");
    let listens = ["CONFIG SET notify-keyspace-events KEA", "SUBSCRIBE __keyevent@0__:set"];
    for (last, reply) in [("UNSUBSCRIBE", UNSUBSCRIBED), ("RESET", "+RESET\r\n"), ("QUIT", "+OK\r\n")] {
        let mut client = prepared(&server, &listens);
        all_at_once(&mut client, &["SET k v", last], &format!("+OK\r\n{SET_EVENT}{reply}"));
        assert!(last != "QUIT" || client.is_closed());
    }
}

#[test]
fn its_own_stale_keys_come_before_tracking_ends() {
    let server = Server::start(2, "");
    for (last, reply) in [("CLIENT TRACKING OFF", "+OK\r\n"), ("RESET", "+RESET\r\n"), ("QUIT", "+OK\r\n")] {
        for mode in ["ON", "ON BCAST"] {
            let mut client = prepared(&server, &[&format!("CLIENT TRACKING {mode}"), "GET k"]);
            all_at_once(&mut client, &["SET k v", last], &format!("+OK\r\n{}{reply}", stale(&["k"])));
        }
    }
}

/// A message to the client itself stands before the reply of its transaction. redis-server has it inside the array, where
/// no client expects it.
#[test]
fn a_transaction_that_listens_and_leaves_gets_its_message() {
    let server = Server::start(2, "");
    let message = ">3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$1\r\nx\r\n";
    let queued = "+OK\r\n+QUEUED\r\n+QUEUED\r\n+QUEUED\r\n";
    let array = "*3\r\n>3\r\n$9\r\nsubscribe\r\n$1\r\nc\r\n:1\r\n:1\r\n>3\r\n$11\r\nunsubscribe\r\n$1\r\nc\r\n:0\r\n";
    let mut client = prepared(&server, &[]);
    let commands = ["MULTI", "SUBSCRIBE c", "PUBLISH c x", "UNSUBSCRIBE c", "EXEC", "PING"];
    all_at_once(&mut client, &commands, &format!("{queued}{message}{array}+PONG\r\n"));
    // And where the listening ends behind it.
    let mut client = prepared(&server, &["SUBSCRIBE c"]);
    let replies = format!("+OK\r\n+QUEUED\r\n*1\r\n:1\r\n{message}>3\r\n$11\r\nunsubscribe\r\n$1\r\nc\r\n:0\r\n");
    all_at_once(&mut client, &["MULTI", "PUBLISH c x", "EXEC", "UNSUBSCRIBE"], &replies);
}

#[test]
fn a_monitor_sees_its_last_commands() {
    let server = Server::start(2, "");
    let mut monitor = server.connect();
    monitor.ask(&["MONITOR"], "+OK\r\n");
    monitor.send(&[request(&["PING"]), request(&["QUIT"])].concat());
    assert_eq!(monitor.line(), "+PONG");
    assert!(monitor.line().ends_with("] \"PING\""));
    assert_eq!(monitor.line(), "+OK");
    assert!(monitor.is_closed());
    // Replies that are off hold back its lines.
    let mut muted = server.connect();
    muted.send(&[request(&["CLIENT", "REPLY", "OFF"]), request(&["MONITOR"]), request(&["PING"])].concat());
    muted.ask(&["CLIENT", "REPLY", "ON"], "+OK\r\n");
}

#[test]
fn replies_that_are_off_or_skipped() {
    let server = Server::start(1, "");
    let confirmed = ">3\r\n$9\r\nsubscribe\r\n$1\r\nc\r\n:1\r\n";
    let cases: &[(&[&str], &str)] = &[
        (&["CLIENT REPLY SKIP", "RESET", "ECHO a"], "$1\r\na\r\n"),
        (&["CLIENT REPLY OFF", "RESET", "ECHO a"], "+RESET\r\n$1\r\na\r\n"),
        (
            &["CLIENT REPLY OFF", "MULTI", "SUBSCRIBE c", "EXEC", "CLIENT REPLY ON", "ECHO a"],
            &format!("{confirmed}+OK\r\n$1\r\na\r\n"),
        ),
        (
            &["MULTI", "CLIENT REPLY OFF", "SUBSCRIBE c", "EXEC", "CLIENT REPLY ON"],
            &format!("+OK\r\n+QUEUED\r\n+QUEUED\r\n*2\r\n{confirmed}+OK\r\n"),
        ),
        (
            &["MULTI", "CLIENT REPLY OFF", "SUBSCRIBE c", "PING", "CLIENT REPLY ON", "PING", "EXEC"],
            &format!("+OK\r\n{}*5\r\n{confirmed}+OK\r\n+PONG\r\n", "+QUEUED\r\n".repeat(5)),
        ),
    ];
    for (commands, replies) in cases {
        let mut client = prepared(&server, &[]);
        all_at_once(&mut client, commands, replies);
        client.ask(&["ECHO", "end"], "$3\r\nend\r\n");
    }
}

/// A request without a word is the one that CLIENT REPLY SKIP and CLIENT CACHING were for. It is no command all the same.
#[test]
fn an_empty_request_ends_what_holds_for_one_command() {
    let server = Server::start(1, "");
    let cases = [
        ("CLIENT REPLY SKIP\r\n\r\nECHO a\r\n", "$1\r\na\r\n"),
        ("CLIENT REPLY SKIP\r\n*0\r\nECHO a\r\n", "$1\r\na\r\n"),
        ("CLIENT REPLY SKIP\r\nECHO x\r\n\r\nECHO a\r\n", "$1\r\na\r\n"),
        ("CLIENT REPLY SKIP\r\nMULTI\r\n\r\nPING\r\nEXEC\r\n", "+QUEUED\r\n*1\r\n+PONG\r\n"),
        ("CLIENT REPLY OFF\r\n\r\nECHO x\r\nCLIENT REPLY ON\r\n", "+OK\r\n"),
    ];
    for (requests, replies) in cases {
        let mut client = server.connect();
        client.send(requests.as_bytes());
        client.expect(replies.as_bytes());
        client.ask(&["ECHO", "end"], "$3\r\nend\r\n");
    }
    let mut client = prepared(&server, &["CLIENT TRACKING ON OPTIN"]);
    let before = server.state().total(|stats| &stats.commands);
    client.send(&[&b"CLIENT CACHING YES\r\n\r\n\r\n"[..], &request(&["GET", "k"])].concat());
    client.expect(b"+OK\r\n_\r\n");
    wait_until("its commands are counted", || server.state().total(|stats| &stats.commands) >= before + 2);
    assert_eq!(server.state().total(|stats| &stats.commands), before + 2);
    // The key is not remembered: nobody is told of the change.
    server.connect().ask(&["SET", "k", "v"], "+OK\r\n");
    client.ask(&["ECHO", "end"], "$3\r\nend\r\n");
}

/// CLIENT CACHING holds for one command, whatever becomes of it, but for those of the CLIENT family.
#[test]
fn caching_ends_with_the_next_command() {
    let server = Server::start(1, "");
    let mut client = prepared(&server, &["CLIENT TRACKING ON OPTIN"]);
    let mut other = server.connect();
    let mut holds_behind = |line: &str| {
        client.ask(&["CLIENT", "CACHING", "YES"], "+OK\r\n");
        client.send(&request(&line.split(' ').collect::<Vec<_>>()));
        if line.starts_with("BLPOP") {
            wait_until("it waits", || server.state().total(|stats| &stats.blocked) == 1);
            other.ask(&["RPUSH", "l", "a"], ":1\r\n");
            client.expect(b"*2\r\n$1\r\nl\r\n$1\r\na\r\n");
        } else {
            client.line();
        }
        client.send(&request(&["CLIENT", "TRACKINGINFO"]));
        let mut info = String::new();
        while !info.ends_with("$8\r\nprefixes\r\n*0\r\n") {
            info += &(client.line() + "\r\n");
        }
        info.contains("caching-yes")
    };
    let gone = ["FOO", "GET", "CLIENT FOO", "GET k", "PING", "BLPOP l 0"].map(&mut holds_behind);
    assert_eq!(gone, [false; 6]);
    assert_eq!(["CLIENT ID", "CLIENT ID x"].map(&mut holds_behind), [true; 2]);
}

#[test]
fn a_client_that_describes_itself_in_a_transaction() {
    let server = Server::start(1, "");
    let mut client = server.connect();
    client.send(&[request(&["MULTI"]), request(&["CLIENT", "INFO"]), request(&["EXEC"])].concat());
    client.expect(b"+OK\r\n+QUEUED\r\n*1\r\n");
    let _length = client.line();
    let line = client.line();
    assert!(line.contains(" flags=x ") && line.contains(" multi=1 ") && line.contains(" cmd=exec "), "{line}");
    let line = client.bulk(&["CLIENT", "INFO"]);
    assert!(line.contains(" flags=N ") && line.contains(" multi=-1 ") && line.contains(" multi-mem=0 "), "{line}");
}

/// A move into a set that is made by it: the member has left before the new key is there.
#[test]
fn events_of_a_move_stand_in_their_order() {
    let server = Server::start(1, "");
    let mut client = prepared(&server, &["SADD a x", "CONFIG SET notify-keyspace-events En$sg", "PSUBSCRIBE *"]);
    let events = [("srem", "a"), ("del", "a"), ("new", "b"), ("sadd", "b")].map(|(event, key)| {
        let channel = format!("__keyevent@0__:{event}");
        format!(">4\r\n$8\r\npmessage\r\n$1\r\n*\r\n${}\r\n{channel}\r\n$1\r\n{key}\r\n", channel.len())
    });
    client.ask(&["SMOVE", "a", "b", "x"], &format!(":1\r\n{}", events.concat()));
}
