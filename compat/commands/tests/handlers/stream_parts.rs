//! Streams' commands without a COUNT, or with a great one, answer all there is: part by part, and whole where a command is not to
//! be parted.

use crate::common::Server;
use varve_protocol::Resp;
use varve_store::{ReadBounds, StreamId};

/// Entries of the stream, more than any one hold of a shard gives.
const LEN: usize = 10_000;

fn run(server: &mut Server, line: &str) -> Vec<u8> {
    server.run(&line.split(' ').map(str::as_bytes).collect::<Vec<_>>())
}

/// A stream of [`LEN`] entries, and a group that was given none of them.
fn filled() -> Server {
    let mut server = Server::new(Resp::V2);
    for n in 1..=LEN {
        run(&mut server, &format!("XADD t 1-{n} f {n}"));
    }
    run(&mut server, "XGROUP CREATE t g 0");
    server
}

/// The reply of XREADGROUP with the entries of one stream that have these numbers.
fn entries(numbers: std::ops::RangeInclusive<usize>) -> Vec<u8> {
    [&b"*1\r\n"[..], &stream("t", numbers)].concat()
}

/// A stream of a reply, with the entries that have these numbers.
fn stream(key: &str, numbers: impl Iterator<Item = usize> + Clone) -> Vec<u8> {
    let mut text = format!("*2\r\n${}\r\n{key}\r\n*{}\r\n", key.len(), numbers.clone().count());
    for n in numbers {
        let (id, value) = (format!("1-{n}"), n.to_string());
        let (id_len, len) = (id.len(), value.len());
        text += &format!("*2\r\n${id_len}\r\n{id}\r\n*2\r\n$1\r\nf\r\n${len}\r\n{value}\r\n");
    }
    text.into_bytes()
}

fn pending(server: &mut Server) -> usize {
    let reply = String::from_utf8(run(server, "XPENDING t g")).expect("text");
    reply.lines().nth(1).and_then(|line| line.strip_prefix(':')).expect("a number").parse().expect("a number")
}

#[test]
fn issue_11_a_consumer_is_given_all_that_there_is() {
    let mut server = filled();
    assert!(run(&mut server, "XREADGROUP GROUP g c COUNT 6000 STREAMS t >") == entries(1..=6000));
    assert_eq!(pending(&mut server), 6000);
    assert!(run(&mut server, "XREADGROUP GROUP g c STREAMS t >") == entries(6001..=LEN));
    assert_eq!(pending(&mut server), LEN);
    assert_eq!(run(&mut server, "XREADGROUP GROUP g c STREAMS t >"), b"*-1\r\n");
    assert!(run(&mut server, "XREADGROUP GROUP g c STREAMS t 0") == entries(1..=LEN), "all that is pending");
    assert!(run(&mut server, "XREADGROUP GROUP g c COUNT 5000 STREAMS t 1-9") == entries(10..=5009));
    assert_eq!(run(&mut server, "XREADGROUP GROUP g d STREAMS t 0"), b"*1\r\n*2\r\n$1\r\nt\r\n*0\r\n");
    run(&mut server, "DEBUG VERIFY");
}

/// XSETID may go back behind an entry that was removed: what is added then has lesser IDs than some node once had.
#[test]
fn a_range_has_what_was_added_behind_an_id_that_went_back() {
    for before in [1, 300] {
        let mut server = Server::new(Resp::V2);
        for n in 1..=before {
            run(&mut server, &format!("XADD k 5-{n} f v"));
        }
        for line in
            ["XADD k 10-0 f v", "XDEL k 10-0", &format!("XSETID k 5-{before}"), "XADD k 6-0 f v", "XADD k 7-0 f v"]
        {
            let reply = run(&mut server, line);
            assert_ne!(reply[0], b'-', "{line}: {}", reply.escape_ascii());
        }
        let count = |reply: Vec<u8>| String::from_utf8(reply).expect("text").matches("$1\r\nf\r\n").count();
        for (range, expected) in [("- 6", before + 1), ("5-1 9", before + 2), ("6 6", 1), ("- +", before + 2)] {
            assert_eq!(count(run(&mut server, &format!("XRANGE k {range}"))), expected, "{range} of {before}");
            let (from, to) = range.split_once(' ').expect("two IDs");
            assert_eq!(count(run(&mut server, &format!("XREVRANGE k {to} {from}"))), expected, "{range} of {before}");
        }
        run(&mut server, "DEBUG VERIFY");
    }
}

/// The number of entries that a group was given may be the greatest that there is; what is sent to replicas is a number that they
/// take.
#[test]
fn a_group_that_was_given_the_most_entries_is_given_one_more() {
    let mut server = Server::new(Resp::V2);
    let journal = server.keep_effects();
    for line in [
        "XGROUP CREATE k g 0 MKSTREAM ENTRIESREAD 9223372036854775807",
        "XADD k 1-1 f v",
        "XREADGROUP GROUP g c NOACK STREAMS k >",
    ] {
        let reply = run(&mut server, line);
        assert_ne!(reply[0], b'-', "{line}: {}", reply.escape_ascii());
    }
    let sent = journal.take().concat().join("\n");
    assert!(sent.contains("9223372036854775807") && !sent.contains("9223372036854775808"), "{sent}");
}

/// A part may end exactly at the last entry.
#[test]
fn issue_11_the_last_part_may_be_empty() {
    let mut server = filled();
    for count in [512, 1024, LEN - 1536] {
        let reply = run(&mut server, &format!("XREADGROUP GROUP g c COUNT {count} STREAMS t >"));
        assert!(reply.windows(4).filter(|part| part == b"*2\r\n").count() > count, "{count} entries");
    }
    run(&mut server, "XTRIM t MAXLEN 512");
    run(&mut server, "XGROUP SETID t g 0");
    let reply = run(&mut server, "XREADGROUP GROUP g c STREAMS t >");
    assert!(reply == entries(LEN - 511..=LEN), "one part's entries and no more");
}

#[test]
fn issue_11_commands_that_are_not_parted_answer_all_as_well() {
    let mut server = filled();
    run(&mut server, "XGROUP CREATE t h 0");
    run(&mut server, "XADD u 1-1 a b");
    run(&mut server, "XGROUP CREATE u g 0");
    run(&mut server, "MULTI");
    run(&mut server, "XREADGROUP GROUP h c STREAMS t >");
    let reply = run(&mut server, "EXEC");
    assert!(reply == [b"*1\r\n".to_vec(), entries(1..=LEN)].concat(), "in EXEC");
    let reply = String::from_utf8(run(&mut server, "XREADGROUP GROUP g c STREAMS t u > >")).expect("text");
    assert!(reply.starts_with("*2\r\n") && reply.contains(&format!("*{LEN}\r\n")), "of two streams");
    assert_eq!(pending(&mut server), LEN);
    server.advance(100);
    // Claims alone are cut, and the next call goes on with the oldest that are left.
    for claimed in [4096, 4096, LEN - 8192] {
        server.advance(10);
        let reply = String::from_utf8(run(&mut server, "XREADGROUP GROUP g d CLAIM 60 STREAMS t >")).expect("text");
        assert!(reply.contains(&format!("\r\nt\r\n*{claimed}\r\n")), "{claimed} are claimed");
    }
}

#[test]
fn issue_11_pending_entries_are_listed_and_claimed_whatever_their_number() {
    let mut server = filled();
    run(&mut server, "XREADGROUP GROUP g c STREAMS t >");
    for (range, from, to) in [("- + 100000", 1, LEN), ("- + 7000", 1, 7000), ("1-11 1-9000 10000", 11, 9000)] {
        let mut expected = format!("*{}\r\n", to + 1 - from);
        for n in from..=to {
            expected += &format!("*4\r\n${}\r\n1-{n}\r\n$1\r\nc\r\n:0\r\n:1\r\n", 2 + n.to_string().len());
        }
        assert!(run(&mut server, &format!("XPENDING t g {range}")) == expected.as_bytes(), "{range}");
    }
    run(&mut server, "XDEL t 1-7 1-5000");
    let ids = |numbers: std::ops::RangeInclusive<usize>| {
        let there: Vec<usize> = numbers.filter(|n| ![7, 5000].contains(n)).collect();
        let bulk = |n: &usize| format!("${}\r\n1-{n}\r\n", 2 + n.to_string().len());
        format!("*{}\r\n", there.len()) + &there.iter().map(bulk).collect::<String>()
    };
    let reply = run(&mut server, "XAUTOCLAIM t g d 0 - COUNT 6000 JUSTID");
    let gone = "*2\r\n$3\r\n1-7\r\n$6\r\n1-5000\r\n";
    let expected = format!("*3\r\n$6\r\n1-6001\r\n{}{gone}", ids(1..=6000));
    assert!(reply == expected.as_bytes(), "the first 6000");
    let reply = run(&mut server, "XAUTOCLAIM t g d 0 1-6001 COUNT 100000 JUSTID");
    assert!(reply == format!("*3\r\n$3\r\n0-0\r\n{}*0\r\n", ids(6001..=LEN)).as_bytes(), "the rest");
    assert_eq!(pending(&mut server), LEN - 2);
    run(&mut server, "DEBUG VERIFY");
}

/// Streams that take long together are replied in parts, and so is one that is named again; each time that it is named is a
/// reader, and has a list of its leaves.
#[test]
fn issue_11_xread_of_several_streams_comes_in_parts() {
    let mut server = filled();
    for n in 1..=LEN {
        run(&mut server, &format!("XADD u 1-{n} f {n}"));
    }
    run(&mut server, "XADD few 1-1 f 1");
    let in_parts = |server: &mut Server, line: &str, meanwhile: &[&str]| {
        let (mut reply, mut ended) = server.turn_as(1, &line.split(' ').map(str::as_bytes).collect::<Vec<_>>());
        assert!(!ended, "{line}: at once");
        meanwhile.iter().for_each(|line| _ = run(server, line));
        while !ended {
            let (more, now) = server.turn_as(1, &[]);
            reply.extend(more);
            ended = now;
        }
        assert!(!server.has_readers(), "{line}: a reader is left");
        reply
    };
    let last = format!("XDEL u 1-{LEN}");
    let meanwhile = ["XADD t 1-20000 f 20000", &last, "XADD few 1-2 f 2"];
    let reply = in_parts(&mut server, "XREAD STREAMS t u few 0 0 0", &meanwhile);
    let expected = [b"*3\r\n".to_vec(), stream("t", 1..=LEN), stream("u", 1..=LEN), stream("few", 1..=1)].concat();
    assert!(reply == expected, "it is of one instant");
    let again = format!("XREAD STREAMS t u t few t 0 1-5 1-5 0 1-{}", LEN - 10);
    let expected = [
        b"*5\r\n".to_vec(),
        stream("t", (1..=LEN).chain([20_000])),
        stream("u", 6..LEN),
        stream("t", (6..=LEN).chain([20_000])),
        stream("few", 1..=2),
        stream("t", (LEN - 9..=LEN).chain([20_000])),
    ];
    let reply = in_parts(&mut server, &again, &["DEL t", "XADD t 1-20001 f 20001", "XADD few 1-3 f 3", "SET u text"]);
    assert!(reply == expected.concat(), "it is of one instant");
    run(&mut server, "DEBUG VERIFY");
}

#[test]
fn issue_11_a_long_stream_is_not_named_without_end() {
    let mut server = filled();
    let line = |times: usize| format!("XREAD STREAMS{}{}", " t".repeat(times), " 0".repeat(times));
    let reply = run(&mut server, &line(257));
    assert!(reply == [b"*257\r\n".to_vec(), stream("t", 1..=LEN).repeat(257)].concat(), "256 times again");
    assert_eq!(run(&mut server, &line(258)), b"-ERR XREAD of long streams names keys again more than 256 times\r\n");
    assert!(!server.has_readers());
    // A short reply may name a key as often as it likes.
    let last = format!("XREAD STREAMS{}{}", " t".repeat(500), format!(" 1-{}", LEN - 1).repeat(500));
    assert!(run(&mut server, &last) == [b"*500\r\n".to_vec(), stream("t", LEN..=LEN).repeat(500)].concat());
}

/// A reply in parts asks its ceiling for the lists of its readers, each of them once.
#[test]
fn issue_11_readers_of_a_reply_are_counted_once() {
    const TIMES: usize = 100;
    let mut server = Server::new(Resp::V2);
    server.set_node_entries(2);
    server.read_in_parts(ReadBounds::default());
    for n in 1..=2 * LEN {
        run(&mut server, &format!("XADD t 1-{n} f {n}"));
    }
    let ids = (StreamId::MIN, StreamId::MAX);
    let one = server.with_key("t", |tx, key| {
        let (reader, _) = tx.begin_reading_stream(key, ids, false, u64::MAX).expect("a stream").expect("a long one");
        reader.kept_bytes()
    });
    assert!(one > 10_000, "{one} bytes for the leaves");
    let line = format!("XREAD STREAMS{}{}", " t".repeat(TIMES), " 0".repeat(TIMES));
    let args: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
    for (ceiling, is_lost) in [(one * TIMES * 3 / 2, false), (one * TIMES * 2 / 3, true)] {
        assert_eq!(server.is_lost_under(ceiling, 1, &args), is_lost, "{ceiling} bytes");
        server.hang_up(1);
    }
}
