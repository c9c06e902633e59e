//! `timeout`: who is idle, and who only waits.

use super::*;

/// Clients that wait for messages, for lines or for keys are not idle. redis-server spares the same ones.
#[test]
fn listeners_monitors_and_blocked_clients_are_spared() {
    let server = Server::start(2, "timeout 1");
    let mut spared: Vec<(&str, Client, Vec<u8>)> = Vec::new();
    for words in [&["SUBSCRIBE", "c"][..], &["PSUBSCRIBE", "c*"], &["SSUBSCRIBE", "c"]] {
        let mut client = server.connect();
        client.send(&request(words));
        let head = format!(
            "*3\r\n${}\r\n{}\r\n${}\r\n{}\r\n:1\r\n",
            words[0].len(),
            words[0].to_lowercase(),
            words[1].len(),
            words[1]
        );
        client.expect(head.as_bytes());
        spared.push((words[0], client, b"*3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$1\r\nm\r\n".to_vec()));
    }
    spared[1].2 = b"*4\r\n$8\r\npmessage\r\n$2\r\nc*\r\n$1\r\nc\r\n$1\r\nm\r\n".to_vec();
    spared[2].2 = b"*3\r\n$8\r\nsmessage\r\n$1\r\nc\r\n$1\r\nm\r\n".to_vec();
    let mut resp3 = server.connect();
    resp3.send(b"HELLO 3 SETNAME three\r\n");
    assert!(resp3.line().starts_with('%'));
    resp3.send(b"SUBSCRIBE c\r\n");
    while resp3.line() != ">3" {}
    resp3.expect(b"$9\r\nsubscribe\r\n$1\r\nc\r\n:1\r\n");
    spared.push(("RESP3", resp3, b">3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$1\r\nm\r\n".to_vec()));
    let mut blocked = server.connect();
    blocked.send(&request(&["BLPOP", "q", "0"]));
    wait_until("it waits", || server.state().total(|stats| &stats.blocked) == 1);
    spared.push(("BLPOP", blocked, b"*2\r\n$1\r\nq\r\n$1\r\nx\r\n".to_vec()));
    let mut monitor = server.connect();
    monitor.ask(&["MONITOR"], "+OK\r\n");
    // Each connection is looked at once a second: when the second of these is closed, all others were idle for longer
    // than a second when they were looked at last.
    for _ in 0..2 {
        assert!(server.connect().is_closed(), "an idle client is closed");
    }
    let mut other = server.connect();
    other.ask(&["PUBLISH", "c", "m"], ":3\r\n");
    other.ask(&["SPUBLISH", "c", "m"], ":1\r\n");
    other.ask(&["RPUSH", "q", "x"], ":1\r\n");
    for (what, client, message) in &mut spared {
        println!("{what}");
        client.expect(message);
    }
    let line = monitor.line();
    assert!(line.ends_with("\"PUBLISH\" \"c\" \"m\""), "{line}");
}
