//! Commands that meet many fields whose time has come, or name one field many times.

use crate::common::Server;
use varve_protocol::Resp;
use varve_store::ReadBounds;

fn server() -> Server {
    Server::new(Resp::V2)
}

fn run(server: &mut Server, line: &str) -> String {
    let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
    String::from_utf8(server.run(&words)).expect("text")
}

/// A server with a hash of 20 000 fields whose time has come, and one that stays, in a database.
fn much_is_due_in(db: usize) -> Server {
    let mut server = much_will_be_due_in(db);
    server.advance(20);
    server
}

/// Like [`much_is_due_in`], 10 ms before the fields' time.
fn much_will_be_due_in(db: usize) -> Server {
    let mut server = server();
    let names: Vec<String> = (0..20_000).map(|n| format!("field:{n}")).collect();
    let pairs = ["HSET", "hash", "stays", "1"].into_iter().chain(names.iter().flat_map(|name| [name.as_str(), "v"]));
    run(&mut server, &format!("SELECT {db}"));
    server.run(&pairs.map(str::as_bytes).collect::<Vec<_>>());
    let words = ["HPEXPIRE", "hash", "10", "FIELDS", "20000"].into_iter().chain(names.iter().map(String::as_str));
    server.run(&words.map(str::as_bytes).collect::<Vec<_>>());
    run(&mut server, "SELECT 0");
    run(&mut server, if db == 0 { "SET text v" } else { "MSET text v hash v" });
    server
}

fn put_back(server: &mut Server, line: &str) -> (usize, String) {
    let (times, reply) = server.run_put_back(&line.split(' ').map(str::as_bytes).collect::<Vec<_>>());
    (times, String::from_utf8(reply).expect("text"))
}

/// Commands that are no hash's removed all due fields of their key in one hold.
#[test]
fn issue_11_any_command_meets_some_due_fields_at_a_time() {
    for (db, line, wanted) in [
        (0, "EXISTS hash", ":1\r\n"),
        (0, "TYPE hash", "+hash\r\n"),
        (0, "DEL none hash", ":1\r\n"),
        (0, "RENAME hash other", "+OK\r\n"),
        (0, "RENAME text hash", "+OK\r\n"),
        (0, "COPY text hash REPLACE", ":1\r\n"),
        (0, "EXPIRE hash 100", ":1\r\n"),
        (0, "LPUSH hash x", "-WRONGTYPE Operation against a key holding the wrong kind of value\r\n"),
        (1, "MOVE hash 1", ":0\r\n"),
        (1, "COPY text hash DB 1", ":0\r\n"),
        (0, "SETNX hash v", ":0\r\n"),
        (0, "SET hash v NX", "$-1\r\n"),
        (0, "SET hash v XX", "+OK\r\n"),
        (0, "SET hash v PXAT 1", "+OK\r\n"),
        (0, "MSETNX none v hash v", ":0\r\n"),
        (0, "MSETEX 2 none v hash v XX", ":0\r\n"),
        (0, "MSETEX 2 none v hash v PXAT 1", ":1\r\n"),
        (0, "DELEX hash", ":1\r\n"),
    ] {
        let mut server = much_is_due_in(db);
        let (times, reply) = put_back(&mut server, line);
        assert_eq!(reply, wanted, "{line}");
        assert!(times > 3, "{line} is put back {times} times");
        run(&mut server, "DEBUG VERIFY");
    }
    // To a command on strings it is a key of another type, whatever its fields.
    for line in ["SET hash v", "GET hash", "APPEND hash v", "LCS hash hash"] {
        let mut server = much_is_due_in(0);
        let journal = server.keep_effects();
        let (times, reply) = put_back(&mut server, line);
        assert!(times == 0 && (reply == "+OK\r\n") == line.starts_with("SET"), "{line}: {times} times, {reply}");
        assert!(!journal.take().concat().iter().any(|effect| effect.starts_with("HDEL")), "{line}");
        run(&mut server, "DEBUG VERIFY");
    }
}

/// Parts of a command are not put back: each of them removed all that was due.
#[test]
fn issue_11_a_command_in_parts_removes_some_due_fields_at_a_time() {
    let others = |each: &str| (0..1100).map(|n| format!(" other:{n}{each}")).collect::<String>();
    let (hdel, hset) = (format!("HDEL hash{}", others("")), format!("HSET hash{}", others(" v")));
    for line in [&hdel, &hset, "HRANDFIELD hash 1000", "COPY hash other"] {
        let turns = |is_due: bool| {
            let mut server = much_will_be_due_in(0);
            server.read_in_parts(ReadBounds { long_elements: 200, hold_elements: 20_000 });
            let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
            assert!(!server.turn_as(1, &words).1, "{line} goes on");
            server.advance(if is_due { 20 } else { 0 });
            let mut turns = 1;
            while !server.turn_as(1, &[]).1 {
                turns += 1;
            }
            run(&mut server, "DEBUG VERIFY");
            turns
        };
        let (plain, due) = (turns(false), turns(true));
        assert!(due > plain + 3, "{line:.20}: {due} turns, {plain} of a hash without due fields");
    }
}

/// Many hashes, of which each is cleared in one hold.
#[test]
fn issue_11_the_due_fields_of_many_hashes_are_removed_in_several_holds() {
    const HASHES: usize = 60;
    let mut server = server();
    let fields: Vec<String> = (0..2000).map(|n| format!("field:{n}")).collect();
    let hashes: Vec<String> = (0..HASHES).map(|n| format!("hash:{n}")).collect();
    for hash in &hashes {
        run(&mut server, &format!("HSET {hash} stays 1 {} v", fields.join(" v ")));
        run(&mut server, &format!("HPEXPIRE {hash} 10 FIELDS 2000 {}", fields.join(" ")));
    }
    server.advance(12);
    let (times, reply) = put_back(&mut server, &format!("DEL {}", hashes.join(" ")));
    assert_eq!(reply, format!(":{HASHES}\r\n"));
    assert!(times > 3, "{times} times");
}

/// To look for due fields is no use of a key.
#[test]
fn issue_11_a_key_of_a_store_with_due_fields_is_not_used_by_a_look() {
    let mut server = much_is_due_in(0);
    for n in 0..3000 {
        run(&mut server, &format!("SET due:{n} v PX 10"));
    }
    run(&mut server, "RPUSH list v");
    server.advance(60_000);
    for line in ["TTL list", "TYPE list", "EXISTS list"] {
        run(&mut server, line);
        assert_eq!(run(&mut server, "OBJECT IDLETIME list"), ":60\r\n", "{line}");
    }
}

/// Each mention of a field wrote its value anew: 90 KB of a request were 10 GB of memory.
#[test]
fn issue_11_a_field_that_is_named_many_times_is_written_once() {
    const TIMES: usize = 64;
    let mut server = server();
    let value = vec![b'v'; 1 << 20];
    server.run(&[b"HSET", b"h", b"large", &value, b"middle", &value[..2000], b"small", b"1"]);
    let names = ["large", "middle", "small"].map(|name| vec![name; TIMES].join(" ")).join(" ");
    let before = server.used_bytes();
    let commands = [
        ("HPEXPIREAT h 9999999999999 FIELDS", "1"),
        ("HPEXPIREAT h 9999999999000 FIELDS", "1"),
        ("HPEXPIREAT h 9999999999000 FIELDS", "1"),
        ("HPERSIST h FIELDS", "-1"),
    ];
    for (front, last) in commands {
        let reply = run(&mut server, &format!("{front} {} {names}", 3 * TIMES));
        assert!(reply.ends_with(&format!(":{last}\r\n")), "{front}: {reply}");
    }
    for life in ["PXAT 9999999999999", "PERSIST"] {
        run(&mut server, &format!("HGETEX h {life} FIELDS {} {names}", 3 * TIMES));
    }
    let more = server.used_bytes() - before;
    assert!(more < 200 << 10, "{more} bytes: the large value has a place for its time");
    assert_eq!(run(&mut server, "HPEXPIRETIME h FIELDS 2 large small"), "*2\r\n:-1\r\n:-1\r\n");
    assert_eq!(run(&mut server, "HSTRLEN h large"), ":1048576\r\n");
    run(&mut server, "HPEXPIRE h 10 FIELDS 1 large");
    server.advance(20);
    assert_eq!(run(&mut server, "HGET h large"), "$-1\r\n");
    assert_eq!(run(&mut server, "HLEN h"), ":2\r\n");
    run(&mut server, "DEBUG VERIFY");
}

/// A stream's number of entries beyond what is signed.
#[test]
fn issue_11_the_lag_of_a_group_is_told_for_any_number_of_entries() {
    let mut server = server();
    for line in [
        "XADD s 1-1 a b",
        "XGROUP CREATE s g 0 ENTRIESREAD 5",
        "XSETID s 1-1 ENTRIESADDED 9223372036854775807",
        "XADD s 2-1 a b",
    ] {
        assert!(!run(&mut server, line).starts_with('-'), "{line}");
    }
    assert!(run(&mut server, "XINFO GROUPS s").contains("lag"));
}
