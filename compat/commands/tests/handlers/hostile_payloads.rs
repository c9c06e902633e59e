//! Payloads of some kilobytes that say to be millions of things: RESTORE takes them in steps, within the limit, or refuses them.

use crate::common::Server;
use varve_exec::checks::{Denied, WritesDenied};
use varve_exec::pause::Pause;
use varve_protocol::Resp;
use varve_store::ReadBounds;
use varve_testkit::payload::{compressed, length, listpack, number, numbers, raw_id, stream, text};

/// Numbers of types.
const SET: u8 = 2;
const STREAM: u8 = 15;
const QUICKLIST2: u8 = 18;
const STREAM_WITH_NAMES: u8 = 26;

const BAD: &[u8] = b"-ERR Bad data format\r\n";

/// A server whose turns are one step each.
fn server() -> Server {
    of_workers(1)
}

/// A server whose worker is one of this number.
fn of_workers(workers: usize) -> Server {
    let mut server = Server::beside(Resp::V2, workers);
    server.read_in_parts(ReadBounds { long_elements: 200, hold_elements: 40 });
    server.run(&[b"SET", b"k", b"before"]);
    server
}

/// Restores a payload over turns; the reply, and how many turns that took.
fn restore(server: &mut Server, payload: &[u8]) -> (Vec<u8>, usize) {
    let (mut reply, mut ended) = server.turn_as(1, &[b"RESTORE", b"k", b"0", payload, b"REPLACE"]);
    let mut turns = 1;
    while !ended {
        assert_eq!(server.run(&[b"GET", b"k"]), b"$6\r\nbefore\r\n", "the key is there until the value is");
        let (more, now) = server.turn_as(1, &[]);
        reply.extend(more);
        (ended, turns) = (now, turns + 1);
    }
    (reply, turns)
}

/// The payload of a key, over turns.
fn dump(server: &mut Server, key: &[u8]) -> Vec<u8> {
    let (mut reply, mut ended) = server.turn_as(2, &[b"DUMP", key]);
    while !ended {
        let (more, now) = server.turn_as(2, &[]);
        reply.extend(more);
        ended = now;
    }
    let head = reply.iter().position(|&byte| byte == b'\n').expect("a bulk") + 1;
    reply[head..reply.len() - 2].to_vec()
}

/// Restores a payload inside MULTI, at once.
fn restore_at_once(server: &mut Server, payload: &[u8]) -> Vec<u8> {
    server.run(&[b"MULTI"]);
    server.run(&[b"RESTORE", b"k", b"0", payload, b"REPLACE"]);
    server.run(&[b"EXEC"]).strip_prefix(b"*1\r\n").expect("one reply").to_vec()
}

fn sealed(parts: &[&[u8]], version: u16) -> Vec<u8> {
    let mut payload = [&parts.concat()[..], &version.to_le_bytes()].concat();
    payload.extend_from_slice(&varve_rdb::crc::crc64(&payload).to_le_bytes());
    payload
}

/// A node of one entry with the ID 1-1.
fn one_entry() -> Vec<u8> {
    let body = numbers(&[1, 0, 1, 7, 0, 2, 0, 0, 1, 4]);
    text(&[&(7 + body.len() as u32).to_le_bytes()[..], &10u16.to_le_bytes(), &body, &[0xff]].concat())
}

#[test]
fn issue_11_a_long_element_is_expanded_in_steps_within_the_limit() {
    const BYTES: usize = 20 << 20;
    let element = compressed(b"a", 1, BYTES - 1, b"");
    let payload = sealed(&[&[SET, 1], &element], 10);
    let mut server = server();
    server.set_limit(12 << 20);
    let (reply, turns) = restore(&mut server, &payload);
    assert!(reply.starts_with(b"-OOM"), "{}", reply.escape_ascii());
    assert!(turns < 8, "{turns} turns: its memory is asked for before it is taken");
    assert!(restore_at_once(&mut server, &payload).starts_with(b"-OOM"));
    assert_eq!(server.run(&[b"GET", b"k"]), b"$6\r\nbefore\r\n");
    server.set_limit(0);
    let (reply, turns) = restore(&mut server, &payload);
    assert_eq!(reply, b"+OK\r\n");
    assert!(turns > 2 * (BYTES >> 18), "{turns} turns: it is expanded twice");
    assert_eq!(server.run(&[b"SISMEMBER", b"k", &vec![b'a'; BYTES]]), b":1\r\n");
}

/// The names of a set of 500 MB take a gigabyte by the end of the first reading. A client that left then had them freed at once.
#[test]
fn issue_11_the_names_of_a_client_that_leaves_are_given_back_in_steps() {
    const MEMBERS: u32 = 100_000;
    let members: Vec<u8> = (0..MEMBERS).flat_map(|n| [&[4][..], &n.to_le_bytes()].concat()).collect();
    let payload = sealed(&[&[SET], &length(MEMBERS as usize), &members], 10);
    let mut server = server();
    let begin = |server: &mut Server, turns: u32| {
        let (reply, ended) = server.turn_as(1, &[b"RESTORE", b"k", b"0", &payload, b"REPLACE"]);
        assert!(reply.is_empty() && !ended);
        assert!((1..turns).all(|_| !server.turn_as(1, &[]).1), "it is not done");
    };
    begin(&mut server, 1);
    assert_eq!(server.end_session(1), 0, "nothing is named yet");
    begin(&mut server, 20);
    let turns = server.end_session(1);
    assert!(turns > 20, "{turns} turns for a thousand tables");
    assert_eq!(server.run(&[b"GET", b"k"]), b"$6\r\nbefore\r\n");
    // So are those of one that is refused when the value is made.
    begin(&mut server, 49);
    let mut steps = 0;
    server.set_limit(1);
    let reply = loop {
        let (reply, ended) = server.turn_as(1, &[]);
        if ended {
            break reply;
        }
        steps += 1;
    };
    assert!(reply.starts_with(b"-OOM") && steps > 20, "{steps} steps: {}", reply.escape_ascii());
    server.set_limit(0);
    assert_eq!(restore(&mut server, &payload).0, b"+OK\r\n");
}

/// Payloads may have all names that XADD takes.
#[test]
fn issue_11_names_of_messages_are_as_long_as_payloads_may_have_them() {
    let mut server = server();
    let (long, longer) = (vec![b'n'; 64 << 10], vec![b'n'; (64 << 10) + 1]);
    for (producer, name) in [(&long, &longer), (&longer, &long)] {
        let reply = server.run(&[b"XADD", b"s", b"IDMP", producer, name, b"*", b"f", b"v"]);
        assert!(reply.starts_with(b"-ERR IDMP/IDMPAUTO take"), "{}", reply.escape_ascii());
    }
    assert!(server.run(&[b"XADD", b"s", b"IDMPAUTO", &longer, b"*", b"f", b"v"]).starts_with(b"-ERR IDMP/"));
    for _ in 0..2 {
        assert_eq!(server.run(&[b"XADD", b"s", b"IDMP", &long, &long, b"*", b"f", b"v"])[0], b'$');
    }
    assert!(server.run(&[b"XIDMPRECORD", b"s", &longer, b"n", b"1-1"]).starts_with(b"-ERR IDMP/"));
    let dumped = dump(&mut server, b"s");
    assert_eq!(restore(&mut server, &dumped).0, b"+OK\r\n");
    assert_eq!(server.run(&[b"XLEN", b"k"]), b":1\r\n");
}

#[test]
fn issue_11_things_that_are_no_parts_are_passed_over_with_no_shard_held() {
    const MANY: usize = 100_000;
    let live = numbers(&[2, 0, 0, 1, 4]);
    let front = [numbers(&[1]), number(MANY), numbers(&[1, 7, 0]), live, numbers(&[3, 0, 0, 1, 4])];
    let deleted = stream(&listpack(&front, 10, MANY - 1, &[]), &[1, 1, 1, 0]);
    let front = [numbers(&[1, 0]), number(MANY), numbers(&[1])];
    let master = stream(&listpack(&front, 2, MANY - 1, &[numbers(&[0, 0, 0, 0, 1, 6, 7, 6])]), &[1, 1, 1, 0]);
    let empty = [vec![2], text(&[7, 0, 0, 0, 0, 0, 0xff])].concat();
    let nodes = [length(MANY + 1), empty.repeat(MANY), vec![1], text(b"x")].concat();
    let cases = [
        ("deleted", sealed(&[&[STREAM], &deleted], 10), 3 * MANY * 32, "XLEN"),
        ("master", sealed(&[&[STREAM], &master], 10), MANY * 32, "XLEN"),
        ("nodes", sealed(&[&[QUICKLIST2], &nodes], 10), MANY * 64, "LLEN"),
    ];
    for (name, payload, work, len) in cases {
        let mut server = server();
        let (reply, turns) = restore(&mut server, &payload);
        assert_eq!(reply, b"+OK\r\n", "{name}");
        assert!(turns > 2 * (work >> 18), "{name}: {turns} turns, none of which reads it all");
        assert_eq!(server.run(&[len.as_bytes(), b"k"]), b":1\r\n", "{name}");
        server.run(&[b"DEBUG", b"VERIFY"]);
        server.run(&[b"SET", b"k", b"before"]);
        assert_eq!(restore_at_once(&mut server, &payload), b"+OK\r\n", "{name}");
        assert_eq!(server.run(&[len.as_bytes(), b"k"]), b":1\r\n", "{name}");
        server.run(&[b"DEBUG", b"VERIFY"]);
    }
}

/// A stream of one entry with groups, each with this number of pending entries, all of which are one consumer's.
fn with_groups(groups: usize, pending: usize) -> Vec<u8> {
    let mut value = stream(&one_entry(), &[&[1, 1, 1][..], &length(groups)].concat());
    for n in 0..groups {
        value.extend([text(format!("group:{n}").as_bytes()), vec![1, 1], length(pending)].concat());
        (1..=pending as u64).for_each(|n| value.extend([&raw_id(n)[..], &[0; 8], &[1]].concat()));
        value.extend([vec![1], text(b"c"), vec![0; 8], length(pending)].concat());
        (1..=pending as u64).for_each(|n| value.extend(raw_id(n)));
    }
    sealed(&[&[STREAM], &value], 10)
}

#[test]
fn issue_11_groups_and_pending_entries_are_made_in_steps() {
    for (groups, pending) in [(1, 20_000), (5000, 0), (200, 100)] {
        let (payload, mut server) = (with_groups(groups, pending), server());
        let (reply, turns) = restore(&mut server, &payload);
        assert_eq!(reply, b"+OK\r\n");
        let parts = groups * (2 + 2 * pending);
        assert!(turns > parts / 512 + groups / 64, "{groups} groups of {pending}: {turns} turns");
        let count = |server: &mut Server, group: &str| server.run(&[b"XPENDING", b"k", group.as_bytes()]);
        let wanted = format!("*4\r\n:{pending}\r\n");
        for group in [0, groups / 2, groups - 1] {
            let found = count(&mut server, &format!("group:{group}"));
            assert!(found.starts_with(wanted.as_bytes()), "{}", found.escape_ascii());
        }
        server.run(&[b"DEBUG", b"VERIFY"]);
        let wanted = server.run(&[b"DEBUG", b"DIGEST-VALUE", b"k"]);
        server.run(&[b"SET", b"k", b"before"]);
        assert_eq!(restore_at_once(&mut server, &payload), b"+OK\r\n");
        assert_eq!(server.run(&[b"DEBUG", b"DIGEST-VALUE", b"k"]), wanted);
        server.run(&[b"DEBUG", b"VERIFY"]);
    }
    // A group that comes twice, in another batch.
    let mut server = server();
    let whole = with_groups(200, 0);
    let (first, last) = (b"group:100", b"group:199");
    let at = whole.windows(last.len()).position(|window| window == last).expect("the last group");
    let mut twice = whole[..whole.len() - 10].to_vec();
    twice[at..at + first.len()].copy_from_slice(first);
    let twice = sealed(&[&twice], 10);
    assert_eq!(restore(&mut server, &twice).0, BAD);
    assert_eq!(restore_at_once(&mut server, &twice), BAD);
    assert_eq!(server.run(&[b"GET", b"k"]), b"$6\r\nbefore\r\n");
}

#[test]
fn issue_11_a_client_goes_in_the_middle_of_a_group() {
    let (payload, mut server) = (with_groups(1, 20_000), server());
    let mut ended = server.turn_as(1, &[b"RESTORE", b"k", b"0", &payload, b"REPLACE"]).1;
    for _ in 0..80 {
        ended = ended || server.turn_as(1, &[]).1;
    }
    assert!(!ended && server.has_readers(), "it is under way, and has begun to make the stream");
    server.hang_up(1);
    server.background();
    server.run(&[b"DEBUG", b"VERIFY"]);
    assert!(!server.has_readers(), "what was built is gone");
}

/// A server of two workers, of which one has begun to restore a stream whose group has 20 000 pending entries.
fn making_a_group() -> Server {
    let (payload, mut server) = (with_groups(1, 20_000), of_workers(2));
    server.turn_as(1, &[b"RESTORE", b"k", b"0", &payload, b"REPLACE"]);
    (0..80).for_each(|_| _ = server.turn_as(1, &[]));
    assert!(server.has_readers(), "it has begun to make the stream");
    server
}

/// The pending entries of a group were freed at once where their stream's shard was busy just then: up to millions of them.
#[test]
fn issue_11_a_client_goes_while_the_shard_of_its_stream_is_held() {
    let mut server = making_a_group();
    server.hang_up_while_all_is_held(1);
    server.background();
    server.run(&[b"DEBUG", b"VERIFY"]);
    assert!(!server.has_readers(), "what was built is gone");
}

/// So were those of a RESTORE that the server refuses in its midst.
#[test]
fn issue_11_a_restore_is_refused_while_the_shard_of_its_stream_is_held() {
    let mut server = making_a_group();
    server.restrain(Pause::None, Denied { writes: Some(WritesDenied::Unsaved), ..Denied::NONE });
    assert!(server.turns_while_all_is_held(1).is_empty(), "the stream is handed what was made of the group");
    let (reply, ended) = server.turn_as(1, &[]);
    assert!(ended && reply.starts_with(b"-MISCONF"), "{}", reply.escape_ascii());
    server.background();
    server.run(&[b"DEBUG", b"VERIFY"]);
    assert!(!server.has_readers() && server.run(&[b"GET", b"k"]) == b"$6\r\nbefore\r\n");
}

/// Milliseconds of Unix time at which the server stands.
const NOW_MS: u64 = 1_795_000_000_000;

/// A stream with names of one producer.
fn with_names(names: impl ExactSizeIterator<Item = u32>) -> Vec<u8> {
    let tail: [u8; 9] = [1, 1, 1, 1, 1, 0, 0, 1, 0];
    // Seconds, names that are kept, producers.
    let limits = [&[0x40, 100][..], &length(10_000), &[1], &text(b"p"), &length(names.len())].concat();
    // A message of this moment, so that its name is not forgotten at once.
    let long = |n: u64| [&[0x81][..], &n.to_be_bytes()].concat();
    let name = |n: u32| [text(n.to_string().as_bytes()), long(NOW_MS), long(n.into())].concat();
    let names: Vec<u8> = names.flat_map(name).collect();
    sealed(&[&[STREAM_WITH_NAMES], &stream(&one_entry(), &tail), &limits, &names, &[9, 3]], 13)
}

#[test]
fn issue_11_names_of_messages_are_made_in_steps() {
    const NAMES: u32 = 5000;
    let (payload, mut server) = (with_names(0..NAMES), server());
    let (reply, turns) = restore(&mut server, &payload);
    assert_eq!(reply, b"+OK\r\n");
    assert!(turns > NAMES as usize / 512 + NAMES as usize / 2048, "{turns} turns");
    server.run(&[b"DEBUG", b"VERIFY"]);
    let digest = server.run(&[b"XINFO", b"STREAM", b"k"]);
    for name in [0, NAMES / 2, NAMES - 1].map(|n| n.to_string()) {
        let again = server.run(&[b"XADD", b"k", b"IDMP", b"p", name.as_bytes(), b"*", b"f", b"v"]);
        let again = String::from_utf8(again).expect("an ID");
        assert!(again.ends_with(&format!("{NOW_MS}-{name}\r\n")), "{again}");
    }
    server.run(&[b"SET", b"k", b"before"]);
    assert_eq!(restore_at_once(&mut server, &payload), b"+OK\r\n");
    assert_eq!(server.run(&[b"XINFO", b"STREAM", b"k"]), digest);
    // A name that comes twice, in another part.
    server.run(&[b"SET", b"k", b"before"]);
    let twice = with_names((0..NAMES).map(|n| if n == NAMES - 1 { 7 } else { n }));
    assert_eq!(restore(&mut server, &twice).0, BAD);
    assert_eq!(restore_at_once(&mut server, &twice), BAD);
    assert_eq!(server.run(&[b"GET", b"k"]), b"$6\r\nbefore\r\n");
}

/// The times of fields are over when their hash is restored: their end stood in front of RESTORE in the journal, so that who did it
/// again kept the fields, and met another type in what followed.
#[test]
fn issue_11_fields_that_are_due_end_behind_their_restore() {
    for stays in [false, true] {
        let mut server = Server::new(Resp::V2);
        server.run(&[b"HSET", b"h", b"goes", b"1"]);
        if stays {
            server.run(&[b"HSET", b"h", b"stays", b"1"]);
        }
        server.run(&[b"HPEXPIRE", b"h", b"50", b"FIELDS", b"1", b"goes"]);
        let dump = server.run(&[b"DUMP", b"h"]);
        let payload = &dump[dump.iter().position(|&byte| byte == b'\n').expect("a length") + 1..dump.len() - 2];
        server.advance(100);
        server.run(&[b"FLUSHALL"]);
        let journal = server.keep_effects();
        assert_eq!(server.run(&[b"RESTORE", b"k", b"0", payload]), b"+OK\r\n");
        assert_eq!(server.run(&[b"HGET", b"k", b"goes"]), b"$-1\r\n");
        let words: Vec<String> = journal.take().concat();
        let at = |front: &str| words.iter().position(|line| line.starts_with(front)).expect(front);
        assert!(at("RESTORE k") < at("HDEL k goes"), "{words:?}");
        assert_eq!(server.run(&[b"EXISTS", b"k"]), if stays { &b":1\r\n"[..] } else { b":0\r\n" });
    }
}
