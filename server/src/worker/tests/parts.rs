//! Replies in parts for clients that are told of things meanwhile, and for those that want no replies.

use std::sync::atomic::{AtomicBool, Ordering};

use super::reading::set_fields;
use super::tracking::{speak_resp3, stale};
use super::*;

/// Fields of the hash, each with a value of a thousand bytes: its reply has more than the sockets take, and many parts.
const FIELDS: usize = 20_000;
/// Bytes of a field in the reply: its name, and its value.
const FIELD_BYTES: usize = "$11\r\nfield000000\r\n$1000\r\n\r\n".len() + 1000;

/// Holds of shards so far, at all workers.
fn holds(server: &Server) -> u64 {
    server.state().workers().iter().map(|worker| worker.commands().holds.read().count()).sum()
}

#[test]
fn issue_11_messages_stand_behind_a_reply_in_parts() {
    let server = Server::start(2, "");
    let (mut reader, mut writer) = (server.connect(), server.connect());
    set_fields(&mut writer, FIELDS, "v", 100);
    speak_resp3(&mut reader.stream);
    reader.ask(&["CLIENT", "SETNAME", "reader"], "+OK\r\n");
    reader.ask(&["CLIENT", "TRACKING", "on"], "+OK\r\n");
    reader.ask(&["SUBSCRIBE", "c"], ">3\r\n$9\r\nsubscribe\r\n$1\r\nc\r\n:1\r\n");
    for round in 0..3 {
        // The key is remembered each time: the change is told once for each reading.
        reader.send(&request(&["HGETALL", "h"]));
        assert_eq!(reader.line(), format!("%{FIELDS}"));
        // The reader does not go on reading, and its reply is not made any further.
        let letter = ["w", "x", "y"][round];
        writer.ask(&["HSET", "h", "field000000", &letter.repeat(1000)], ":0\r\n");
        writer.ask(&["PUBLISH", "c", "news"], ":1\r\n");
        let list = writer.bulk(&["CLIENT", "LIST"]);
        let line = list.lines().find(|line| line.contains(" name=reader ")).expect("its line");
        let unsent = line.split_once(" omem=").expect("a field").1.split(' ').next().unwrap().parse::<usize>().unwrap();
        assert!(unsent < 2 << 20, "{unsent} of {} bytes are made: {line}", FIELDS * FIELD_BYTES);
        let mut reply = vec![0; FIELDS * FIELD_BYTES];
        reader.stream.read_exact(&mut reply).unwrap();
        let is_old = |field: &[u8]| field.ends_with(format!("{}\r\n", ["v", "w", "x"][round].repeat(1000)).as_bytes());
        let mut fields = reply.chunks(FIELD_BYTES);
        let first = fields.find(|field| field.starts_with(b"$11\r\nfield000000\r\n")).expect("a field");
        assert!(is_old(first), "it is as it was when the command began");
        assert!(reply.chunks(FIELD_BYTES).all(|field| field.starts_with(b"$11\r\nfield0")), "nothing stands in it");
        reader.expect(stale(&["h"]).as_bytes());
        reader.expect(b">3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$4\r\nnews\r\n");
    }
    reader.ask(&["ECHO", "end"], "$3\r\nend\r\n");
}

#[test]
fn issue_11_a_reply_that_nobody_wants_is_made_in_parts_too() {
    let server = Server::start(1, "");
    let mut client = server.connect();
    set_fields(&mut client, FIELDS, "v", 100);
    for (before, after) in [("OFF", request(&["CLIENT", "REPLY", "ON"])), ("SKIP", request(&["ECHO", "OK"]))] {
        let before_holds = holds(&server);
        client.send(&[request(&["CLIENT", "REPLY", before]), request(&["HGETALL", "h"]), after].concat());
        client.expect(if before == "OFF" { b"+OK\r\n" } else { b"$2\r\nOK\r\n" });
        let parts = holds(&server) - before_holds;
        assert!(parts > 10, "{parts} holds");
    }
    client.ask(&["HLEN", "h"], &format!(":{FIELDS}\r\n"));
}

/// Copies begin anew once a script has changed their source, and the scripts and transactions behind it wait until they end; none
/// waits for ever.
#[test]
fn issue_11_scripts_and_transactions_go_on_beside_copies_of_their_key() {
    const COPIES: usize = 10;
    // Of each, should the copies not end.
    const MOST: usize = 200_000;
    let server = Server::start(2, "");
    let (mut copier, mut script, mut transaction) = (server.connect(), server.connect(), server.connect());
    set_fields(&mut copier, FIELDS, "v", 100);
    let ended = AtomicBool::new(false);
    let [scripts, transactions] = std::thread::scope(|scope| {
        let script = scope.spawn(|| {
            let code = "return redis.call('HSET', KEYS[1], 'field000000', ARGV[1])";
            let mut ran = 0;
            while !ended.load(Ordering::Relaxed) && ran < MOST {
                script.ask(&["EVAL", code, "1", "h", "script"], ":0\r\n");
                ran += 1;
            }
            ran
        });
        let transaction = scope.spawn(|| {
            let mut ran = 0;
            while !ended.load(Ordering::Relaxed) && ran < MOST {
                transaction.ask(&["MULTI"], "+OK\r\n");
                transaction.ask(&["HSET", "h", "field000000", "transaction"], "+QUEUED\r\n");
                transaction.ask(&["EXEC"], "*1\r\n:0\r\n");
                ran += 1;
            }
            ran
        });
        for _ in 0..COPIES {
            copier.ask(&["COPY", "h", "to", "REPLACE"], ":1\r\n");
        }
        ended.store(true, Ordering::Relaxed);
        [script, transaction].map(|thread| thread.join().expect("it ends well"))
    });
    assert!(scripts > 0 && transactions > 0, "{scripts} scripts, {transactions} transactions");
    copier.ask(&["HLEN", "to"], &format!(":{FIELDS}\r\n"));
}
