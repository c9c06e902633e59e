//! DUMP and RESTORE of long values over several turns: what others see meanwhile, and what is left when nobody waits for
//! the end.

use crate::common::Server;
use varve_exec::checks::{Denied, WritesDenied};
use varve_exec::pause::Pause;
use varve_protocol::Resp;
use varve_store::ReadBounds;

/// Elements of a long collection.
const ELEMENTS: usize = 4000;

/// A command that makes a long value of a type at key `name`.
fn long(ty: &str, name: &str) -> Vec<Vec<u8>> {
    let mut words = vec![ty.into(), name.into()];
    if ty == "SET" {
        words.push(b"0123456789abcdef".repeat(40_000));
        return words;
    }
    for n in 0..ELEMENTS {
        if ty == "ZADD" {
            words.push((n % 700).to_string().into());
        }
        words.push(format!("an-element-with-a-name:{n}").into());
        if ty == "HSET" {
            words.push(n.to_string().into());
        }
    }
    words
}

const TYPES: [&str; 5] = ["SET", "RPUSH", "SADD", "HSET", "ZADD"];

fn slices(words: &[Vec<u8>]) -> Vec<&[u8]> {
    words.iter().map(Vec::as_slice).collect()
}

fn server() -> Server {
    let mut server = Server::new(Resp::V2);
    server.read_in_parts(ReadBounds { long_elements: 200, hold_elements: 40 });
    server
}

/// The bytes of a reply that is one string.
fn bulk(reply: &[u8]) -> &[u8] {
    let head = reply.iter().position(|&byte| byte == b'\n').expect("a head") + 1;
    &reply[head..reply.len() - 2]
}

fn digest(server: &mut Server, key: &str) -> Vec<u8> {
    server.run(&[b"DEBUG", b"DIGEST-VALUE", key.as_bytes()])
}

/// The payload of a key's value, made whole: in a transaction.
fn payload(server: &mut Server, key: &str) -> Vec<u8> {
    server.run(&[b"MULTI"]);
    server.run(&[b"DUMP", key.as_bytes()]);
    let reply = server.run(&[b"EXEC"]);
    bulk(reply.strip_prefix(b"*1\r\n").expect("one reply")).to_vec()
}

/// Turns of another session until its command has ended; its reply and how many turns it took.
fn finish(server: &mut Server, who: usize, (mut reply, mut ended): (Vec<u8>, bool)) -> (Vec<u8>, usize) {
    let mut turns = 1;
    while !ended {
        let (more, now) = server.turn_as(who, &[]);
        reply.extend(more);
        (ended, turns) = (now, turns + 1);
    }
    (reply, turns)
}

#[test]
fn issue_13_a_long_dump_is_of_one_instant() {
    // A long string is sent from where it lies, which is tested over a socket (`tests/dump.rs`).
    for ty in &TYPES[1..] {
        let mut server = server();
        server.run(&slices(&long(ty, "k")));
        let before = digest(&mut server, "k");
        let begun = server.turn_as(1, &[b"DUMP", b"k"]);
        // A change beyond the reader.
        server.run(&[b"RENAME", b"k", b"old"]);
        let more: &[&[u8]] = match *ty {
            "HSET" | "ZADD" => &[ty.as_bytes(), b"old", b"1", b"2"],
            _ => &[ty.as_bytes(), b"old", b"more"],
        };
        server.run(more);
        let (reply, turns) = finish(&mut server, 1, begun);
        assert!(turns > 1, "{ty}: {turns} turns");
        let restored = server.run(&[b"RESTORE", b"k", b"0", bulk(&reply)]);
        assert_eq!(restored, b"+OK\r\n", "{ty}");
        assert_eq!(digest(&mut server, "k"), before, "{ty}");
        server.background();
        assert!(!server.has_readers(), "{ty}");
    }
}

/// The groups of a stream are what is long of it, or come behind entries that are.
#[test]
fn issue_13_the_groups_of_a_stream_are_dumped_in_parts() {
    const PENDING: usize = 2400;
    for is_short in [true, false] {
        let mut server = server();
        let run = |server: &mut Server, line: &str| server.run(&line.split(' ').map(str::as_bytes).collect::<Vec<_>>());
        for n in 1..=PENDING {
            run(&mut server, &format!("XADD t 1-{n} f v"));
        }
        for group in ["g", "h"] {
            run(&mut server, &format!("XGROUP CREATE t {group} 0"));
            for consumer in ["a", "b", "c"] {
                run(&mut server, &format!("XREADGROUP GROUP {group} {consumer} COUNT 800 STREAMS t >"));
            }
        }
        if is_short {
            run(&mut server, "XTRIM t MAXLEN 5");
        }
        let before = payload(&mut server, "t");
        let begun = server.turn_as(1, &[b"DUMP", b"t"]);
        for n in 1..=PENDING {
            run(&mut server, &format!("XACK t g 1-{n}"));
            run(&mut server, &format!("XCLAIM t h c 0 1-{n} JUSTID"));
        }
        let (reply, turns) = finish(&mut server, 1, begun);
        // A part has some 2000 to 3000 of 4800 pending entries and of as many IDs below their consumers.
        assert!(turns >= 5, "{turns} turns");
        assert!(payload(&mut server, "t") != before);
        // A value that was restored has other nodes.
        assert_eq!(server.run(&[b"RESTORE", b"u", b"0", bulk(&reply)]), b"+OK\r\n");
        assert_eq!(server.run(&[b"RESTORE", b"v", b"0", &before]), b"+OK\r\n");
        assert!(payload(&mut server, "u") == payload(&mut server, "v"), "it is of the instant at which it began");
        server.background();
        assert!(!server.has_readers());
    }
}

#[test]
fn issue_13_a_long_restore_changes_its_key_at_one_instant() {
    for ty in TYPES {
        let mut server = server();
        server.run(&slices(&long(ty, "source")));
        let (payload, wanted) = (payload(&mut server, "source"), digest(&mut server, "source"));
        server.run(&[b"SET", b"k", b"before"]);
        server.notify("KEA");
        let mut turn = server.turn_as(1, &[b"RESTORE", b"k", b"5000", &payload, b"REPLACE"]);
        let mut turns = 1;
        while !turn.1 {
            assert_eq!(server.run(&[b"GET", b"k"]), b"$6\r\nbefore\r\n", "{ty}");
            assert_eq!(server.run(&[b"DBSIZE"]), b":2\r\n", "{ty}");
            server.background();
            server.run(&[b"DEBUG", b"VERIFY"]);
            assert!(server.events().is_empty(), "{ty}: nothing is reported before the key has changed");
            turn = server.turn_as(1, &[]);
            turns += 1;
        }
        assert_eq!(turn.0, b"+OK\r\n", "{ty}");
        assert!(turns > 3, "{ty}: {turns} turns");
        assert_eq!(server.run(&[b"PTTL", b"k"]), b":5000\r\n", "{ty}");
        server.run(&[b"PERSIST", b"k"]);
        assert_eq!(digest(&mut server, "k"), wanted, "{ty}");
        let events = server.events();
        assert!(events[0].contains("restore"), "{ty}: {events:?}");
        assert!(!server.has_readers(), "{ty}: nothing is unpublished");
    }
}

/// A client that writes in parts writes nothing while writes are paused, nor where a command that begins would be refused.
#[test]
fn a_long_restore_is_held_back_and_refused_like_any_write() {
    let mut server = server();
    server.run(&slices(&long("RPUSH", "source")));
    let (payload, wanted) = (payload(&mut server, "source"), digest(&mut server, "source"));
    let begin = |server: &mut Server, who, key: &[u8]| {
        let begun = server.turn_as(who, &[b"RESTORE", key, b"0", &payload]);
        assert!(!begun.1, "it is restored in parts");
        begun
    };
    let begun = begin(&mut server, 1, b"k");
    for pause in [Pause::Writes, Pause::All] {
        server.restrain(pause, Denied::NONE);
        for _ in 0..1000 {
            assert_eq!(server.turn_as(1, &[]), (Vec::new(), false), "{pause:?}");
        }
        server.restrain(Pause::None, Denied::NONE);
        assert_eq!(server.run(&[b"EXISTS", b"k"]), b":0\r\n", "{pause:?}");
    }
    assert_eq!(finish(&mut server, 1, begun).0, b"+OK\r\n");
    assert_eq!(digest(&mut server, "k"), wanted);
    for denied in
        [Denied { loading: true, ..Denied::NONE }, Denied { writes: Some(WritesDenied::Unwritten(28)), ..Denied::NONE }]
    {
        let begun = begin(&mut server, 1, b"refused");
        server.restrain(Pause::None, denied);
        let refused = finish(&mut server, 1, begun).0;
        assert_eq!(refused, server.run(&[b"SET", b"refused", b"v"]), "{denied:?}");
        server.restrain(Pause::None, Denied::NONE);
        assert_eq!(server.run(&[b"EXISTS", b"refused"]), b":0\r\n", "{denied:?}");
    }
    server.background();
    assert!(!server.has_readers(), "what was built is gone");
}

#[test]
fn issue_13_a_key_that_comes_during_a_restore_stays() {
    for ty in TYPES {
        let mut server = server();
        server.run(&slices(&long(ty, "source")));
        let payload = payload(&mut server, "source");
        let begun = server.turn_as(1, &[b"RESTORE", b"k", b"0", &payload]);
        assert!(!begun.1, "{ty} is restored in parts");
        server.run(&[b"SET", b"k", b"first"]);
        let (reply, _) = finish(&mut server, 1, begun);
        assert_eq!(reply, b"-BUSYKEY Target key name already exists.\r\n", "{ty}");
        assert_eq!(server.run(&[b"GET", b"k"]), b"$5\r\nfirst\r\n", "{ty}");
        server.background();
        assert!(!server.has_readers(), "{ty}: what was built is gone");
    }
}

#[test]
fn issue_13_a_restore_ends_with_its_connection_and_outlives_its_database() {
    for ty in TYPES {
        for turns in [1, 4, 5, 8] {
            let mut server = server();
            server.run(&slices(&long(ty, "source")));
            let (payload, wanted) = (payload(&mut server, "source"), digest(&mut server, "source"));
            let restore: &[&[u8]] = &[b"RESTORE", b"k", b"0", &payload];
            let (mut gone, mut stays) = (server.turn_as(1, restore).1, server.turn_as(2, restore));
            for _ in 0..turns {
                gone = gone || server.turn_as(1, &[]).1;
                if !stays.1 {
                    stays = server.turn_as(2, &[]);
                }
            }
            if gone {
                continue;
            }
            server.hang_up(1);
            server.run(match turns {
                1 => &[b"FLUSHALL"],
                4 => &[b"SWAPDB", b"0", b"1"],
                5 => &[b"FLUSHDB"],
                _ => &[b"DEL", b"source"],
            });
            server.background();
            server.run(&[b"DEBUG", b"VERIFY"]);
            let (reply, _) = finish(&mut server, 2, stays);
            assert_eq!(reply, b"+OK\r\n", "{ty}");
            assert_eq!(digest(&mut server, "k"), wanted, "{ty}");
            server.background();
            assert!(!server.has_readers(), "{ty}: what was built for the other is gone");
        }
    }
}

#[test]
fn issue_13_damage_is_found_before_the_key_changes() {
    let mut server = server();
    server.run(&slices(&long("HSET", "source")));
    let whole = payload(&mut server, "source");
    server.run(&[b"SET", b"k", b"before"]);
    let mut wrong_sum = whole.clone();
    *wrong_sum.last_mut().unwrap() ^= 1;
    // A field that comes twice, under a right checksum.
    let mut twice = whole[..whole.len() - 10].to_vec();
    let (first, second) = (b"an-element-with-a-name:1000", b"an-element-with-a-name:1001");
    let at = twice.windows(first.len()).position(|window| window == second).expect("a field that is not compressed");
    twice[at..at + first.len()].copy_from_slice(first);
    varve_rdb::dump::seal(&mut twice);
    let cases: [(Vec<u8>, &[u8]); 2] =
        [(wrong_sum, b"-ERR DUMP payload version or checksum are wrong\r\n"), (twice, b"-ERR Bad data format\r\n")];
    for (payload, error) in cases {
        let begun = server.turn_as(1, &[b"RESTORE", b"k", b"0", &payload, b"REPLACE"]);
        assert_eq!(finish(&mut server, 1, begun).0, error);
        assert_eq!(server.run(&[b"GET", b"k"]), b"$6\r\nbefore\r\n");
    }
    // A limit that has no room for the value is kept, be it found before the first part or behind the last element.
    let (mut refused, mut limit) = (0, 400_000);
    loop {
        server.set_limit(limit);
        let begun = server.turn_as(1, &[b"RESTORE", b"k", b"0", &whole, b"REPLACE"]);
        let (reply, turns) = finish(&mut server, 1, begun);
        if reply == b"+OK\r\n" {
            break;
        }
        assert!(reply.starts_with(b"-OOM"), "{}", String::from_utf8_lossy(&reply));
        assert_eq!(server.run(&[b"GET", b"k"]), b"$6\r\nbefore\r\n");
        refused += u64::from(turns > 2);
        limit += 50_000;
    }
    assert!(refused > 0, "a limit between the request and the value");
}

/// DUMP's payload of a string that repeats a text of at most 32 bytes, compressed: the text once, then copies of what stands before.
fn compressed(text: &[u8], bytes: usize) -> Vec<u8> {
    const LONGEST: usize = 264;
    let mut lzf = vec![text.len() as u8 - 1];
    lzf.extend_from_slice(text);
    let (copies, rest) = ((bytes - text.len()) / LONGEST, (bytes - text.len()) % LONGEST);
    assert!(rest >= 9, "a long copy has nine bytes at least");
    let copy = |len: usize| [0xe0, (len - 9) as u8, text.len() as u8 - 1];
    lzf.extend((0..copies).flat_map(|_| copy(LONGEST)).chain(copy(rest)));
    // A string; a compressed one; both lengths in four bytes.
    let length = |len: usize| [&[0x80][..], &(len as u32).to_be_bytes()].concat();
    let mut payload = [&[0, 0xc3][..], &length(lzf.len()), &length(bytes), &lzf].concat();
    varve_rdb::dump::seal(&mut payload);
    payload
}

/// A small payload may be a huge string: it is expanded piece by piece, each within the limit.
#[test]
fn issue_13_a_huge_string_is_restored_by_pieces_within_the_limit() {
    const BYTES: usize = 20 << 20;
    let whole = compressed(b"twelve bytes", BYTES);
    assert!(whole.len() < BYTES / 50);
    let mut server = server();
    server.run(&[b"SET", b"k", b"before"]);
    let mut longer = whole[..whole.len() - 10].to_vec();
    longer.push(0);
    varve_rdb::dump::seal(&mut longer);
    let restore = |server: &mut Server, payload: &[u8]| {
        let begun = server.turn_as(1, &[b"RESTORE", b"k", b"0", payload, b"REPLACE"]);
        finish(server, 1, begun)
    };
    assert_eq!(restore(&mut server, &longer).0, b"-ERR Bad data format\r\n");
    server.set_limit(12 << 20);
    let (reply, turns) = restore(&mut server, &whole);
    assert!(reply.starts_with(b"-OOM"), "{}", String::from_utf8_lossy(&reply));
    assert!((10..BYTES >> 18).contains(&turns), "{turns} turns: it is found on the way that there is no room");
    assert_eq!(server.run(&[b"GET", b"k"]), b"$6\r\nbefore\r\n");
    server.set_limit(0);
    let (reply, turns) = restore(&mut server, &whole);
    assert_eq!(reply, b"+OK\r\n");
    assert!(turns > BYTES >> 19, "{turns} turns");
    assert_eq!(server.run(&[b"STRLEN", b"k"]), format!(":{BYTES}\r\n").into_bytes());
    assert_eq!(server.run(&[b"GETRANGE", b"k", b"-20", b"-1"]), b"$20\r\ntwelve bytestwelve b\r\n");
}

#[test]
fn issue_13_those_who_wait_are_served_by_a_long_restore() {
    let mut server = server();
    server.run(&slices(&long("RPUSH", "source")));
    let payload = payload(&mut server, "source");
    server.run(&[b"DEL", b"source"]);
    let begun = server.turn_as(1, &[b"BLPOP", b"k", b"0"]);
    assert!(begun.0.is_empty());
    let begun = server.turn_as(2, &[b"RESTORE", b"k", b"0", &payload]);
    assert_eq!(finish(&mut server, 2, begun).0, b"+OK\r\n");
    assert_eq!(server.run(&[b"LLEN", b"k"]), format!(":{}\r\n", ELEMENTS - 1).into_bytes());
}

#[test]
fn issue_14_bits_of_a_large_string_are_looked_at_in_parts() {
    let mut server = server();
    server.run(&[b"SETRANGE", b"k", b"0", &[0; 5_000_001]]);
    server.run(&[b"SETBIT", b"k", b"40000000", b"1"]);
    server.run(&[b"SETBIT", b"k", b"12345678", b"1"]);
    server.run(&[b"SETRANGE", b"other", b"3999999", b"\xf0"]);
    let cases: [(&[&[u8]], &[u8]); 8] = [
        (&[b"BITCOUNT", b"k"], b":2\r\n"),
        (&[b"BITCOUNT", b"k", b"12345679", b"-1", b"BIT"], b":1\r\n"),
        (&[b"BITPOS", b"k", b"1"], b":12345678\r\n"),
        (&[b"BITPOS", b"k", b"1", b"12345679", b"-1", b"BIT"], b":40000000\r\n"),
        (&[b"BITOP", b"OR", b"d", b"k", b"other", b"none"], b":5000001\r\n"),
        (&[b"BITCOUNT", b"d"], b":6\r\n"),
        (&[b"BITOP", b"NOT", b"d", b"d"], b":5000001\r\n"),
        (&[b"BITPOS", b"d", b"0"], b":12345678\r\n"),
    ];
    for (words, reply) in cases {
        let begun = server.turn_as(1, words);
        assert!(!begun.1, "it is done in parts");
        let (found, turns) = finish(&mut server, 1, begun);
        assert_eq!(found, reply, "{} in {turns} turns", String::from_utf8_lossy(words[0]));
        assert!(turns > 1);
    }
    // A run is pinned while it is looked at: what is written meanwhile is not seen.
    let begun = server.turn_as(1, &[b"BITCOUNT", b"k"]);
    server.run(&[b"APPEND", b"k", b"\xff"]);
    // A write copies the block that it touches, and goes on at once.
    let changes: [(&[&[u8]], &[u8]); 4] = [
        (&[b"SETBIT", b"k", b"39999999", b"1"], b":0\r\n"),
        (&[b"SETBIT", b"k", b"39999999", b"1"], b":1\r\n"),
        (&[b"SETRANGE", b"k", b"100", b"abc"], b":5000002\r\n"),
        (&[b"BITFIELD", b"k", b"SET", b"u8", b"800", b"1", b"GET", b"u8", b"808"], b"*2\r\n:97\r\n:98\r\n"),
    ];
    for (at, (words, reply)) in changes.into_iter().enumerate() {
        let reader = 10 + at;
        assert!(!server.turn_as(reader, &[b"BITCOUNT", b"k"]).1, "it reads k where it lies");
        let kept = server.kept_bytes();
        assert_eq!(server.turn_as(2, words), (reply.to_vec(), true), "{}", words.concat().escape_ascii());
        assert!(server.kept_bytes() <= kept + (64 << 10), "a block was copied");
    }
    assert_eq!(server.run(&[b"GETRANGE", b"k", b"99", b"103"]), b"$5\r\n\0\x01bc\0\r\n");
    assert_eq!(finish(&mut server, 1, begun).0, b":2\r\n");
    // Whoever goes leaves nothing: no key, and no run.
    assert!(!server.turn_as(2, &[b"BITOP", b"AND", b"gone", b"k", b"d"]).1);
    server.hang_up(2);
    assert_eq!(server.run(&[b"EXISTS", b"gone"]), b":0\r\n");
}

#[test]
fn issue_14_a_write_to_a_string_that_is_read_copies_what_it_touches() {
    const MB: usize = 1 << 20;
    let mut server = server();
    server.run(&[b"SET", b"k", &[b'a'; 5 * MB]]);
    let pin = server.with_key("k", |tx, key| tx.pin(key)).expect("it has a run");
    let held = pin.read(MB..MB + 10);
    let bit = |byte: usize| (8 * byte).to_string().into_bytes();
    assert!(server.is_put_back(3, &[b"SETBIT", b"k", &bit(MB + 5), b"1"]), "its bytes are being read");
    assert_eq!(server.kept_bytes(), 64 << 10, "they are copied for others");
    let begun = server.turn_as(4, &[b"BITCOUNT", b"k", &MB.to_string().into_bytes(), b"-1"]);
    assert_eq!(finish(&mut server, 4, begun).0, format!(":{}\r\n", 3 * 4 * MB).into_bytes());
    assert_eq!(server.run(&[b"SETBIT", b"k", &bit(3 * MB), b"1"]), b":0\r\n", "nobody reads these");
    drop(held);
    assert_eq!(server.run(&[b"SETBIT", b"k", &bit(MB + 5), b"1"]), b":0\r\n");
    assert_eq!(server.kept_bytes(), 128 << 10);
    // A transaction copies its blocks at once; a command that touches many is put back between some of them.
    server.run(&[b"MULTI"]);
    server.run(&[b"SETRANGE", b"k", b"7", b"transaction"]);
    server.run(&[b"SETBIT", b"k", &bit(2 * MB), b"1"]);
    assert_eq!(server.run(&[b"EXEC"]), b"*2\r\n:5242880\r\n:0\r\n");
    assert_eq!(server.kept_bytes(), 256 << 10);
    let (times, reply) = server.run_put_back(&[b"SETRANGE", b"k", b"100", &vec![b'b'; 4 * MB]]);
    assert_eq!(reply, b":5242880\r\n");
    assert!((6..9).contains(&times), "put back {times} times for 4 MB, a quarter of which was copied before");
    // Bytes behind the old end are not copied.
    let kept = server.kept_bytes();
    assert_eq!(server.run(&[b"SETRANGE", b"k", b"5242879", b"bcd"]), b":5242882\r\n");
    assert!(server.kept_bytes() <= kept + (64 << 10));
    let mut sum = 0;
    pin.each_part(0..pin.len(), |part| sum += part.iter().filter(|&&byte| byte == b'a').count());
    assert_eq!((sum, pin.len()), (5 * MB, 5 * MB), "it reads what was there when it was made");
    drop(pin);
    server.background();
    assert_eq!(server.kept_bytes(), 0);
}

#[test]
fn issue_14_a_write_to_a_string_whose_reply_waits_copies_its_blocks() {
    let mut server = server();
    server.run(&[b"SETRANGE", b"k", b"0", &[b'a'; 5_000_000]]);
    let waits = server.unsent(&[&[b"GET", b"k"], &[b"GETRANGE", b"k", b"1000000", b"2000000"]]);
    assert_eq!(server.run(&[b"SETRANGE", b"k", b"1500000", b"abc"]), b":5000000\r\n");
    assert_eq!(server.kept_bytes(), 64 << 10, "one block for both replies");
    let newer = server.unsent(&[&[b"GETRANGE", b"k", b"1499999", b"1900000"]]);
    assert_eq!(server.run(&[b"SETRANGE", b"k", b"1500001", b"xyz"]), b":5000000\r\n");
    assert_eq!(server.kept_bytes(), 128 << 10, "the newer reply is of another instant");
    let part = waits.parts().nth(1).expect("the string behind its head");
    assert!(server.is_put_back(2, &[b"SETRANGE", b"k", b"7", b"read"]), "these bytes are being sent");
    drop(part);
    assert_eq!(server.run(&[b"SETRANGE", b"k", b"7", b"read"]), b":5000000\r\n");
    let all_a = |len: usize| [format!("${len}\r\n").as_bytes(), &vec![b'a'; len], b"\r\n"].concat();
    let (sent, expected) = (waits.to_vec(), [all_a(5_000_000), all_a(1_000_001)].concat());
    let first = sent.iter().zip(&expected).position(|(sent, expected)| sent != expected);
    assert_eq!((sent.len(), first), (expected.len(), None), "it is sent as it was");
    assert_eq!(&newer.to_vec()[..16], b"$400002\r\naabcaaa");
    drop((waits, newer));
    server.background();
    assert_eq!(server.kept_bytes(), 0);
}

#[test]
fn issue_14_what_was_never_written_of_a_string_is_passed_over() {
    let mut server = server();
    assert_eq!(server.run(&[b"SETBIT", b"far", b"536870911", b"1"]), b":0\r\n");
    server.run(&[b"SETBIT", b"far", b"268435456", b"1"]);
    server.run(&[b"SETBIT", b"other", b"268435458", b"1"]);
    let cases: [(&[&[u8]], &[u8]); 22] = [
        (&[b"BITCOUNT", b"far"], b":2\r\n"),
        (&[b"BITCOUNT", b"far", b"268435457", b"-1", b"BIT"], b":1\r\n"),
        (&[b"BITPOS", b"far", b"1"], b":268435456\r\n"),
        (&[b"BITPOS", b"far", b"1", b"268435457", b"-1", b"BIT"], b":536870911\r\n"),
        (&[b"BITPOS", b"far", b"0", b"77", b"-1", b"BIT"], b":77\r\n"),
        (&[b"BITPOS", b"far", b"0", b"268435456", b"-1", b"BIT"], b":268435457\r\n"),
        (&[b"GETRANGE", b"far", b"33554431", b"33554433"], b"$3\r\n\0\x80\0\r\n"),
        (&[b"BITOP", b"OR", b"d", b"far", b"other", b"none"], b":67108864\r\n"),
        (&[b"BITCOUNT", b"d"], b":3\r\n"),
        (&[b"BITOP", b"AND", b"d", b"far", b"other"], b":67108864\r\n"),
        (&[b"BITCOUNT", b"d"], b":0\r\n"),
        (&[b"BITOP", b"XOR", b"d", b"far", b"other"], b":67108864\r\n"),
        (&[b"BITCOUNT", b"d"], b":3\r\n"),
        (&[b"BITOP", b"DIFF", b"d", b"far", b"other"], b":67108864\r\n"),
        (&[b"BITCOUNT", b"d"], b":2\r\n"),
        (&[b"BITOP", b"DIFF1", b"d", b"far", b"other"], b":67108864\r\n"),
        (&[b"BITPOS", b"d", b"1"], b":268435458\r\n"),
        (&[b"BITOP", b"ANDOR", b"d", b"other", b"far"], b":67108864\r\n"),
        (&[b"BITCOUNT", b"d"], b":0\r\n"),
        (&[b"BITOP", b"ONE", b"d", b"other", b"far", b"far"], b":67108864\r\n"),
        (&[b"BITPOS", b"d", b"1"], b":268435458\r\n"),
        (&[b"COPY", b"far", b"copy"], b":1\r\n"),
    ];
    for (words, reply) in cases {
        let begun = server.turn_as(1, words);
        let (found, turns) = finish(&mut server, 1, begun);
        assert_eq!(found, reply, "{} in {turns} turns", words.concat().escape_ascii());
        assert!(turns <= 3, "{turns} turns");
    }
    for key in ["far", "other", "d", "copy"] {
        // Two blocks of 128 KB, each of which may lie across two of another value.
        let written = server.written_bytes(key);
        assert!(written <= 4 * (8 << 20) / 64, "{key}: {written} bytes may have been written");
    }
}

/// Every element that is added to a sparse HyperLogLog may move all of its bytes: no more are taken than registers have runs.
#[test]
fn issue_11_a_sparse_sketch_is_not_longer_than_its_registers() {
    let mut server = server();
    let forged = |runs: usize, more: usize| {
        let front = b"HYLL\x01\0\0\0\0\0\0\0\0\0\0\x80";
        [&front[..], &[0x40, 0].repeat(runs), &vec![0; more]].concat()
    };
    server.run(&[b"SET", b"k", &forged(16_384, 0)]);
    assert_eq!(server.run(&[b"PFADD", b"k", b"a"]), b":1\r\n", "a run for each register");
    server.run(&[b"SET", b"k", &forged(16_384, 1)]);
    for command in [&[b"PFADD", &b"k"[..], b"a"][..], &[b"PFCOUNT", b"k"], &[b"PFMERGE", b"d", b"k"]] {
        let reply = String::from_utf8(server.run(command)).expect("text");
        assert!(reply.starts_with("-INVALIDOBJ"), "{reply}");
    }
}

/// A string of which nothing is in common with an empty one is not copied, however long it is.
#[test]
fn issue_11_lcs_of_an_empty_string_takes_no_memory() {
    let mut server = server();
    server.run(&[b"SET", b"k", &vec![b'x'; 20 << 20]]);
    for (a, b) in [(b"k", b"e"), (b"e", b"k")] {
        assert_eq!(server.run(&[b"LCS", a, b]), b"$0\r\n\r\n");
        assert_eq!(server.run(&[b"LCS", a, b, b"LEN"]), b":0\r\n");
        assert_eq!(server.run(&[b"LCS", a, b, b"IDX"]), b"*4\r\n$7\r\nmatches\r\n*0\r\n$3\r\nlen\r\n:0\r\n");
    }
}

/// LCS of long strings was made in one hold, 230 ms of it by default. It is made in parts, of the strings as they were.
#[test]
fn issue_11_lcs_of_long_strings_goes_in_parts_of_one_instant() {
    let mut server = server();
    let text = |len: usize, step: usize| -> Vec<u8> { (0..len).map(|n| b'a' + (n * step / 7 % 23) as u8).collect() };
    for (first, second) in [(40_000, 3000), (3000, 40_000), (5_000_000, 2), (2, 5_000_000)] {
        server.run(&[b"SET", b"a", &text(first, 5)]);
        server.run(&[b"SET", b"b", &text(second, 3)]);
        for more in [&[][..], &[&b"LEN"[..]], &[b"IDX", b"MINMATCHLEN", b"2", b"WITHMATCHLEN"]] {
            let words = [&[&b"LCS"[..], b"a", b"b"], more].concat();
            server.run(&[b"MULTI"]);
            server.run(&words);
            let whole = server.run(&[b"EXEC"]);
            let begun = server.turn_as(1, &words);
            assert!(!begun.1, "{first} and {second} bytes are done at once");
            server.run(&[b"SETRANGE", b"a", b"1", b"????"]);
            server.run(&[b"SETRANGE", b"b", b"0", b"!!!!"]);
            let (found, turns) = finish(&mut server, 1, begun);
            assert!(turns > 1, "{turns} turns");
            assert_eq!([b"*1\r\n", &found[..]].concat(), whole, "{first} and {second} bytes {more:?}");
            server.run(&[b"SET", b"a", &text(first, 5)]);
            server.run(&[b"SET", b"b", &text(second, 3)]);
        }
    }
}

/// A payload with its version and its checksum.
fn payload_of(value: &[u8]) -> Vec<u8> {
    let mut payload = [value, &12_u16.to_le_bytes()].concat();
    payload.extend_from_slice(&varve_rdb::crc::crc64(&payload).to_le_bytes());
    payload
}

/// A length in the payload's form of eight bytes.
fn length64(length: u64) -> Vec<u8> {
    [&[0x81][..], &length.to_be_bytes()].concat()
}

/// Payloads of some kilobytes asked for any number of gigabytes, which ended the server.
#[test]
fn issue_11_a_payload_that_claims_more_than_any_value_has_is_refused() {
    let mut server = Server::new(Resp::V2);
    // A list of one element, which is compressed.
    let compressed = vec![0; 100_000];
    for claimed in [(1 << 30) + 1, 1 << 40, u64::MAX] {
        let value = [&[1, 1, 0xc3][..], &length64(compressed.len() as u64), &length64(claimed), &compressed].concat();
        let reply = server.run(&[b"RESTORE", b"k", b"0", &payload_of(&value)]);
        assert!(reply.starts_with(b"-ERR"), "{}", reply.escape_ascii());
    }
    // A stream whose one producer has a long name, which each of its messages would repeat.
    let (producer, names) = (vec![b'p'; 100_000], 20_000);
    let mut value = vec![26, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    value.extend([100, 100].map(|limit: u8| limit & 0x3f | 0x40).into_iter().flat_map(|byte| [byte, 100]));
    value.push(1);
    value.extend(length64(producer.len() as u64));
    value.extend_from_slice(&producer);
    value.extend(length64(names));
    value.extend((0..names).flat_map(|_| [1, b'n', 0, 0]));
    value.extend([0, 0]);
    let reply = server.run(&[b"RESTORE", b"s", b"0", &payload_of(&value)]);
    assert!(reply.starts_with(b"-ERR"), "{}", reply.escape_ascii());
    assert_eq!(server.run(&[b"DBSIZE"]), b":0\r\n");
}
