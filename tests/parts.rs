//! Replies that come in parts over sockets: a client that reads slowly gets what was there when its command began,
//! whatever becomes of the key; nobody waits for it; nothing is left when it hangs up.

#![forbid(unsafe_code)]

use std::collections::HashSet;
use std::io::{BufReader, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::Duration;

use varve_testkit::{Client, Launch, RespValue, Server, figure, until};

/// Members of the set: its reply is far larger than what sockets hold.
const MEMBERS: usize = 600_000;

fn start() -> Server {
    Launch::varve().config("io-threads 2").start().expect("varve-server starts")
}

fn connect(server: &Server) -> TcpStream {
    let stream = TcpStream::connect(server.address()).expect("a connection");
    stream.set_read_timeout(Some(Duration::from_secs(60))).expect("set");
    stream
}

fn member(n: usize) -> String {
    format!("member:{n:020}")
}

fn fill(client: &mut Client, key: &str) {
    for first in (0..MEMBERS).step_by(1000) {
        let members: String = (first..first + 1000).map(|n| format!(" {}", member(n))).collect();
        assert_eq!(client.cmd(&format!("SADD {key}{members}")), RespValue::Integer(1000));
    }
}

/// The next line of a reply, without its end.
fn line(stream: &mut BufReader<TcpStream>) -> String {
    let mut line = Vec::new();
    while !line.ends_with(b"\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).expect("a line");
        line.push(byte[0]);
    }
    String::from_utf8(line[..line.len() - 2].to_vec()).expect("text")
}

/// The members of a reply, up to this number of them.
fn read_members(stream: &mut BufReader<TcpStream>, count: usize, members: &mut HashSet<String>) {
    for _ in 0..count {
        let length = line(stream);
        let text = line(stream);
        assert_eq!(length, format!("${}", text.len()));
        assert!(members.insert(text), "a member twice");
    }
}

#[test]
fn issue_11_a_slow_reader_gets_what_was_there_when_it_began() {
    let server = start();
    let mut admin = server.client();
    fill(&mut admin, "big");
    let mut slow = BufReader::new(connect(&server));
    slow.get_mut().write_all(b"SMEMBERS big\r\nPING behind\r\n").expect("sent");
    assert_eq!(line(&mut slow), format!("*{MEMBERS}"));
    let mut members = HashSet::new();
    read_members(&mut slow, 1000, &mut members);
    // All that may become of it: changed, renamed, read by another, deleted, and all databases emptied.
    for n in (0..MEMBERS).step_by(97) {
        admin.cmd(&format!("SREM big {}", member(n)));
        admin.cmd(&format!("SADD big new:{n}"));
    }
    assert_eq!(admin.cmd("RENAME big other").text(), "OK");
    assert_eq!(admin.cmd("SCARD other"), RespValue::Integer(MEMBERS as i64));
    read_members(&mut slow, 50_000, &mut members);
    assert_eq!(admin.cmd("DEL other"), RespValue::Integer(1));
    assert_eq!(admin.cmd("FLUSHALL").text(), "OK");
    assert_eq!(admin.cmd("DBSIZE"), RespValue::Integer(0));
    read_members(&mut slow, MEMBERS - 51_000, &mut members);
    assert!((0..MEMBERS).all(|n| members.contains(&member(n))), "all of the members at the beginning");
    assert_eq!((line(&mut slow), line(&mut slow)), ("$6".into(), "behind".into()));
}

#[test]
fn issue_11_a_reader_that_hangs_up_leaves_nothing() {
    let server = start();
    let mut admin = server.client();
    fill(&mut admin, "big");
    let mut slow = BufReader::new(connect(&server));
    slow.get_mut().write_all(b"SMEMBERS big\r\n").expect("sent");
    assert_eq!(line(&mut slow), format!("*{MEMBERS}"));
    assert_eq!(admin.cmd("DEL big"), RespValue::Integer(1));
    let kept = figure(&mut admin, "used_memory");
    assert!(kept > MEMBERS as u64 * 20, "{kept} bytes: what is read stays");
    drop(slow);
    until("its memory is given back", || figure(&mut admin, "used_memory") < kept / 4);
}

/// Replies of large strings that wait for their clients are of the instant of their commands, and a write to the string copies
/// the blocks that it touches.
#[test]
fn issue_14_a_string_that_is_being_sent_is_written_to_where_it_lies() {
    const BYTES: usize = 64 << 20;
    let server = start();
    let mut admin = server.client();
    admin.cmd(&format!("SETRANGE k {} x", BYTES - 1));
    for at in (0..BYTES).step_by(1 << 20) {
        admin.cmd(&format!("SETRANGE k {at} {}", "a".repeat(1 << 20)));
    }
    let mut readers = Vec::new();
    for round in 0..4 {
        let mut slow = BufReader::new(connect(&server));
        slow.get_mut().write_all(b"GET k\r\nPING behind\r\n").expect("sent");
        assert_eq!(line(&mut slow), format!("${BYTES}"));
        readers.push(slow);
        let used = figure(&mut admin, "used_memory");
        // One of these blocks is written anew for each reader, the others for one of them.
        for at in [50 << 20, (51 + round) << 20] {
            assert_eq!(admin.cmd(&format!("SETBIT k {} 1", (at + round) * 8 + 6)), RespValue::Integer(0));
            assert_eq!(admin.cmd(&format!("SETRANGE k {} {round}", at + round)), RespValue::Integer(BYTES as i64));
        }
        let more = figure(&mut admin, "used_memory").saturating_sub(used);
        assert!(more < 1 << 20, "{more} bytes more for two blocks of 64 KB");
    }
    for (round, mut slow) in readers.into_iter().enumerate() {
        let mut value = vec![0; BYTES];
        slow.read_exact(&mut value).expect("the string");
        assert_eq!((line(&mut slow), line(&mut slow), line(&mut slow)), ("".into(), "$6".into(), "behind".into()));
        let written = value.iter().enumerate().filter(|(_, byte)| **byte != b'a').map(|(at, byte)| (at, *byte));
        let expected = (0..round).flat_map(|n| [(n, 50), (n, 51 + n)].map(|(n, mb)| ((mb << 20) + n, b'0' + n as u8)));
        let mut expected: Vec<_> = expected.collect();
        expected.sort_unstable();
        assert_eq!(written.collect::<Vec<_>>(), expected, "reader {round}");
    }
    until("the copies are given back", || figure(&mut admin, "used_memory") < BYTES as u64 + (4 << 20));
    assert_eq!(admin.cmd("DEBUG VERIFY").text(), "OK");
}

/// A client that closes its sending side behind its request, as `nc -N` does, still gets the whole reply.
#[test]
fn issue_11_a_client_that_closes_its_sending_side_gets_the_whole_reply() {
    let server = start();
    let mut admin = server.client();
    fill(&mut admin, "big");
    for (request, count) in [("SMEMBERS big", MEMBERS), ("SUNION big big", MEMBERS)] {
        let mut stream = connect(&server);
        stream.write_all(format!("{request}\r\n").as_bytes()).expect("sent");
        stream.shutdown(Shutdown::Write).expect("half closed");
        let mut reader = BufReader::new(stream);
        assert_eq!(line(&mut reader), format!("*{count}"), "{request}");
        read_members(&mut reader, count, &mut HashSet::new());
        assert_eq!(reader.read(&mut [0]).expect("the end"), 0, "{request}: nothing follows");
    }
}

/// Messages that another client redirects to a reader stand behind its reply, not in the middle of it.
#[test]
fn issue_11_no_message_stands_in_a_reply_in_parts() {
    let server = start();
    let mut admin = server.client();
    fill(&mut admin, "big");
    let mut slow = BufReader::new(connect(&server));
    slow.get_mut().write_all(b"HELLO 3\r\nCLIENT ID\r\n").expect("sent");
    let id = loop {
        let line = line(&mut slow);
        if let Some(id) = line.strip_prefix(':').filter(|_| !line.is_empty())
            && admin.cmd("CLIENT LIST").text().contains(&format!("id={id} "))
            && slow.buffer().is_empty()
        {
            break id.to_string();
        }
    };
    let mut tracker = server.client();
    assert_eq!(tracker.cmd(&format!("CLIENT TRACKING ON BCAST REDIRECT {id}")).text(), "OK");
    slow.get_mut().write_all(b"SMEMBERS big\r\nPING behind\r\n").expect("sent");
    assert_eq!(line(&mut slow), format!("~{MEMBERS}"));
    let mut members = HashSet::new();
    for n in 0..100 {
        admin.cmd(&format!("SET key{n} value"));
        read_members(&mut slow, 1000, &mut members);
    }
    read_members(&mut slow, MEMBERS - 100_000, &mut members);
    let mut behind = Vec::new();
    while behind.last().is_none_or(|line| line != "behind") {
        behind.push(line(&mut slow));
    }
    let messages = behind.iter().filter(|line| *line == "invalidate").count();
    assert!(messages > 0, "the messages stand behind the reply: {behind:?}");
}
