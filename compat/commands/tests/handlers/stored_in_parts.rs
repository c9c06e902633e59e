//! Commands that store what they make of long collections over several turns: the key changes at one instant, at which the
//! whole command is done, whatever others do meanwhile.
//!
//! `VARVE_SEED` sets the seed.

use std::collections::BTreeMap;

use crate::common::Server;
use varve_base::rng::Rng;
use varve_exec::checks::Denied;
use varve_exec::pause::Pause;
use varve_protocol::Resp;
use varve_store::ReadBounds;

/// Elements of each source.
const ELEMENTS: usize = 1500;
/// Members of a set that is much shorter than the others.
const FEW: usize = 11;
/// Sessions that store: 1 to 3.
const STORERS: usize = 3;
/// The session that changes sources meanwhile.
const CHANGER: usize = 9;

/// Each command, with the event of its key. `TO` is the key that it stores its result in.
const COMMANDS: &[(&str, &str)] = &[
    ("SUNIONSTORE TO s0 s1", "sunionstore"),
    ("SINTERSTORE TO s0 s1", "sinterstore"),
    ("SDIFFSTORE TO s0 s1", "sdiffstore"),
    ("ZUNIONSTORE TO 3 z0 z1 s1 WEIGHTS 2 1 -1", "zunionstore"),
    ("ZINTERSTORE TO 2 z0 s0 AGGREGATE MAX", "zinterstore"),
    ("ZDIFFSTORE TO 2 z0 z1", "zdiffstore"),
    // Sets that are named several times are read once.
    ("SUNIONSTORE TO s0 s1 s0 s0 s0 s0 s0 s1 s0 s0", "sunionstore"),
    ("SINTERSTORE TO s0 s1 s0 s0 s0 s0 s0 s1 s0 s0", "sinterstore"),
    ("SDIFFSTORE TO s0 s1 s1 s1 s1 s1 s1 s1 s1 s1", "sdiffstore"),
    ("ZUNIONSTORE TO 5 z0 s1 s1 z0 z1 WEIGHTS 2 1 -1 7 3", "zunionstore"),
    ("ZINTERSTORE TO 4 z0 z1 z0 z1 WEIGHTS 1 2 3 4", "zinterstore"),
    ("ZUNIONSTORE TO 3 z0 z0 z0 WEIGHTS 3 -1 2 AGGREGATE MIN", "zunionstore"),
    ("ZDIFFSTORE TO 4 z0 z1 z1 s1", "zdiffstore"),
    // Sets that are much longer than the first are asked.
    ("ZINTERSTORE TO 4 few z0 s0 z0 WEIGHTS 1 2 3 -1", "zinterstore"),
    ("ZDIFFSTORE TO 2 few z1", "zdiffstore"),
    ("ZRANGESTORE TO z0 3 -5", "zrangestore"),
    ("ZRANGESTORE TO z1 80 3 BYSCORE REV LIMIT 5 1000", "zrangestore"),
    ("COPY z0 TO REPLACE", "copy_to"),
    ("COPY s0 TO REPLACE", "copy_to"),
    ("COPY h0 TO REPLACE", "copy_to"),
    ("COPY l0 TO REPLACE", "copy_to"),
    ("COPY t0 TO REPLACE", "copy_to"),
    ("COPY b0 TO REPLACE", "copy_to"),
    ("BITOP XOR TO b0 b1", "set"),
    ("SORT l0 DESC STORE TO", "sortstore"),
    ("SORT s0 BY nosort GET # GET nothing STORE TO", "sortstore"),
    ("SORT z0 ALPHA STORE TO LIMIT 3 900", "sortstore"),
    ("SORT l0 BY w_* GET # GET v_*->f DESC STORE TO", "sortstore"),
    ("SORT s0 BY w_*_x ALPHA GET w_*_x LIMIT 7 500 STORE TO", "sortstore"),
    ("GEOSEARCHSTORE TO g0 FROMLONLAT 15 37 BYBOX 6000 5000 km DESC COUNT 900", "geosearchstore"),
    ("GEORADIUS g0 15 37 4000 km STOREDIST TO", "georadiusstore"),
];

fn words(line: &str) -> Vec<Vec<u8>> {
    line.split(' ').map(|word| word.as_bytes().to_vec()).collect()
}

fn run(server: &mut Server, line: &str) -> Vec<u8> {
    let words = words(line);
    server.run(&words.iter().map(Vec::as_slice).collect::<Vec<_>>())
}

fn turn(server: &mut Server, who: usize, line: &str) -> (Vec<u8>, bool) {
    let words = if line.is_empty() { Vec::new() } else { words(line) };
    server.turn_as(who, &words.iter().map(Vec::as_slice).collect::<Vec<_>>())
}

fn member(n: usize) -> String {
    format!("a-member-whose-name-is-not-short:{n}")
}

/// A server with long sources: sets, sorted sets and lists, which overlap.
fn server() -> Server {
    let mut server = Server::new(Resp::V2);
    server.read_in_parts(ReadBounds { long_elements: 200, hold_elements: 40 });
    run(&mut server, &format!("SET b0 {}", "x".repeat(6_000_001)));
    run(&mut server, &format!("SET b1 {}", "y".repeat(3_000_001)));
    for n in 0..ELEMENTS {
        run(&mut server, &format!("SADD s0 {}", member(n)));
        run(&mut server, &format!("SADD s1 {}", member(2 * n)));
        run(&mut server, &format!("ZADD z0 {} {}", n % 97, member(n)));
        run(&mut server, &format!("ZADD z1 {}.5 {}", n % 89, member(3 * n)));
        run(&mut server, &format!("RPUSH l0 {}", n * 7919 % 1511));
        run(&mut server, &format!("XADD t0 {}-1 {} {n}", n + 1, member(n)));
        run(&mut server, &format!("HSET h0 {} {}", member(n), n));
        run(&mut server, &format!("SET w_{n} {}", n * 104_729 % 503));
        run(&mut server, &format!("SET w_{}_x {}", member(n), n * 7 % 1009));
        run(&mut server, &format!("HSET v_{} f {n}", 2 * n));
        run(&mut server, &format!("GEOADD g0 {} {} {}", n * 31 % 41, n * 17 % 67, member(n)));
    }
    for n in 0..FEW {
        run(&mut server, &format!("ZADD few {n} {}", member(n)));
    }
    server
}

fn digest(server: &mut Server, key: &str) -> Vec<u8> {
    run(server, &format!("DEBUG DIGEST-VALUE {key}"))
}

/// The reply and the value that a command gives that runs whole now.
fn whole(server: &mut Server, command: &str) -> (Vec<u8>, Vec<u8>, Vec<u8>) {
    run(server, "MULTI");
    run(server, &to(command, "whole"));
    let reply = run(server, "EXEC");
    let reply = reply.strip_prefix(b"*1\r\n").expect("the reply of one command").to_vec();
    let value = (reply, digest(server, "whole"), run(server, "OBJECT ENCODING whole"));
    run(server, "DEL whole");
    value
}

/// Goes on to the end; the reply, and how many turns there were.
fn finish(server: &mut Server, who: usize) -> (Vec<u8>, usize) {
    let (mut reply, mut turns) = (Vec::new(), 0);
    loop {
        let (more, ended) = turn(server, who, "");
        reply.extend(more);
        turns += 1;
        assert!(turns < 10_000, "it ends");
        if ended {
            return (reply, turns);
        }
    }
}

#[test]
fn the_copy_of_a_long_stream_has_its_groups_and_its_facts() {
    let mut server = server();
    run(&mut server, "XGROUP CREATE t0 g 0");
    run(&mut server, "XREADGROUP GROUP g c COUNT 700 STREAMS t0 >");
    run(&mut server, "XDEL t0 5-1 900-1 901-1");
    assert!(!turn(&mut server, 0, "COPY t0 to").1, "it goes on");
    assert!(finish(&mut server, 0).1 > 3, "it takes some turns");
    for question in ["XINFO STREAM", "XINFO GROUPS", "XLEN", "XRANGE"] {
        let [one, two] = ["t0", "to"].map(|key| {
            let end = if question == "XRANGE" { " 690-0 710-0" } else { "" };
            run(&mut server, &format!("{question} {key}{end}"))
        });
        assert_eq!(String::from_utf8_lossy(&one), String::from_utf8_lossy(&two), "{question}");
    }
    assert_eq!(run(&mut server, "XPENDING t0 g"), run(&mut server, "XPENDING to g"));
    run(&mut server, "XACK to g 1-1 2-1");
    assert_ne!(run(&mut server, "XPENDING t0 g"), run(&mut server, "XPENDING to g"), "the groups are two");
}

/// The reply of a command that runs whole now.
fn whole_reply(server: &mut Server, command: &str) -> Vec<u8> {
    run(server, "MULTI");
    run(server, command);
    run(server, "EXEC").strip_prefix(b"*1\r\n").expect("the reply of one command").to_vec()
}

/// The reply of a command that goes on over several turns, and their number; `changes` are made before turn number `at`.
fn stepped(server: &mut Server, command: &str, (at, changes): (usize, &str)) -> (Vec<u8>, usize) {
    let (mut reply, ended) = turn(server, 1, command);
    assert!(!ended, "{command}: it goes on");
    for number in 1..10_000 {
        if number == at {
            changes.split('|').for_each(|change| drop(run(server, change)));
        }
        let (more, ended) = turn(server, 1, "");
        reply.extend(more);
        if ended {
            return (reply, number);
        }
    }
    panic!("{command} ends");
}

/// The journal has a command as it was sent, and it is done again at once: sums of floating point are the same then only if
/// they are made in the same order.
#[test]
fn scores_of_a_set_that_is_named_twice_fold_in_the_order_of_names() {
    let mut server = server();
    for n in 0..600 {
        run(&mut server, &format!("ZADD x 1e16 {0} 1e16 {0}-", member(n)));
        run(&mut server, &format!("ZADD y 1 {0} -inf {0}-", member(n)));
    }
    for command in [
        "ZUNIONSTORE TO 3 x y x WEIGHTS 1 1 -1",
        "ZUNIONSTORE TO 5 x x y x y WEIGHTS 1 2 1 -3 inf",
        "ZINTERSTORE TO 3 x y x WEIGHTS 1 1 -1",
        "ZINTERSTORE TO 5 y x y y x WEIGHTS 1 1 7 -8 -1",
    ] {
        let whole = whole(&mut server, command);
        assert!(!turn(&mut server, 1, &to(command, "to")).1, "{command}: it goes on");
        let (reply, _) = finish(&mut server, 1);
        assert_eq!((reply, digest(&mut server, "to")), (whole.0, whole.1), "{command}");
    }
}

/// Issue 11: a set of ten million was asked for ten thousand members in one hold.
#[test]
fn a_long_set_that_is_asked_is_as_it_was_all_the_time() {
    let m = member(3);
    let changes = [
        format!("ZREM z0 {m}|ZADD z1 4 {m} 4 {}|SREM s0 {m}", member(4)),
        format!("ZADD z0 5 {m}|ZREM z1 {m}|SADD s0 {m}"),
        "DEL z0 z1 s0".to_owned(),
    ];
    for command in [
        "ZINTER 2 few z0 WITHSCORES",
        "ZINTER 4 few z0 s0 few WEIGHTS 3 1 -1 2 WITHSCORES",
        "ZINTERCARD 2 few z0",
        "ZINTERCARD 3 few z0 s0 LIMIT 11",
        "ZDIFF 2 few z1 WITHSCORES",
        "ZDIFF 3 few z1 z1 WITHSCORES",
    ] {
        let mut server = server();
        let (reply, turns) = stepped(&mut server, command, (0, ""));
        assert_eq!(reply, whole_reply(&mut server, command), "{command}");
        assert!(turns > 5, "{command}: {turns} turns");
        for (at, changes) in [2, 4, 3].into_iter().zip(&changes) {
            let before = whole_reply(&mut server, command);
            let (reply, _) = stepped(&mut server, command, (at, changes));
            let after = whole_reply(&mut server, command);
            assert_ne!(before, after, "{command}: the change is seen");
            assert_eq!(String::from_utf8_lossy(&reply), String::from_utf8_lossy(&after), "{command}: {changes}");
            assert!(!server.has_readers() && server.watched_keys() == 0, "{command}: nothing is left");
        }
    }
}

#[test]
fn issue_11_a_result_is_stored_at_one_instant_with_one_effect() {
    for (command, event) in COMMANDS {
        let mut server = server();
        let (reply, value, encoding) = whole(&mut server, command);
        run(&mut server, "SET to before");
        server.notify("KEA");
        let journal = server.keep_effects();
        let line = to(command, "to");
        assert!(!turn(&mut server, 1, &line).1, "{line}: it goes on");
        let mut turns = 1;
        let stored = loop {
            assert_eq!(run(&mut server, "GET to"), b"$6\r\nbefore\r\n", "{line}");
            assert!(server.events().is_empty() && journal.take().is_empty(), "{line}: nothing is reported yet");
            server.background();
            run(&mut server, "DEBUG VERIFY");
            let (reply, ended) = turn(&mut server, 1, "");
            turns += 1;
            if ended {
                break reply;
            }
        };
        assert!(turns > 5, "{line}: {turns} turns");
        assert_eq!((stored, digest(&mut server, "to")), (reply, value), "{line}");
        assert_eq!(run(&mut server, "OBJECT ENCODING to"), encoding, "{line}");
        let events = server.events();
        assert!(events.iter().any(|told| told.contains(event)), "{line}: {events:?}");
        assert_eq!(journal.take(), [[line.clone()]], "the journal has it once");
        server.background();
        assert!(!server.has_readers() && server.watched_keys() == 0, "{line}: nothing is left");
        run(&mut server, "DEBUG VERIFY");
    }
}

/// The result is made of the sources at the instant at which the key changes: else the journal, which has the command as
/// it was sent, would make another one of it.
#[test]
fn issue_11_a_source_that_changes_meanwhile_is_in_the_result() {
    for (command, _) in COMMANDS {
        for changes in [1, 50] {
            let mut server = server();
            let line = to(command, "to");
            let is_source = |word: &&str| word.len() == 2 && word.ends_with(['0', '1']);
            let source = line.split(' ').find(is_source).expect("a source");
            let journal = server.keep_effects();
            let mut turn_of = turn(&mut server, 1, &line);
            let (mut made, mut put_back) = (0, 0);
            while !turn_of.1 && made < changes * 5 {
                if made % 5 == 0 {
                    put_back += usize::from(is_put_back(&mut server, 2, &change(source, made)));
                }
                made += 1;
                turn_of = turn(&mut server, 1, "");
            }
            // One that begins anew keeps writers off, so that it does not begin again and again, and run whole at last.
            assert_eq!(put_back > 0, changes > 1, "{line}: {put_back} changes waited");
            let reply = if turn_of.1 { turn_of.0 } else { finish(&mut server, 1).0 };
            let units = journal.take();
            let stored = units.iter().filter(|unit| unit.contains(&line)).count();
            assert_eq!(stored, 1, "{line}: {units:?}");
            let last = units.iter().rposition(|unit| unit.contains(&line)) == Some(units.len() - 1);
            let got = (reply, digest(&mut server, "to"));
            let now = whole(&mut server, command);
            assert!(!last || got == (now.0, now.1), "{line} with {changes} changes");
            server.background();
            assert!(!server.has_readers() && server.watched_keys() == 0, "{line}: nothing is left");
        }
    }
}

/// A change of a source; another one for each number.
fn change(source: &str, number: usize) -> String {
    let element = member(100_000 + number);
    match &source[..1] {
        "s" => format!("SADD {source} {element}"),
        "z" => format!("ZADD {source} 5 {element}"),
        "b" => format!("SETBIT {source} {} 1", 8 * number + 7),
        "l" => format!("RPUSH {source} {number}"),
        "t" => format!("XADD {source} {}-1 a 1", 10_000 + number),
        "g" => format!("GEOADD {source} 15 37 {element}"),
        _ => format!("HSET {source} {element} v"),
    }
}

fn is_put_back(server: &mut Server, who: usize, line: &str) -> bool {
    server.is_put_back(who, &words(line).iter().map(Vec::as_slice).collect::<Vec<_>>())
}

/// A server whose first client's command has begun anew, and keeps others from its keys.
struct Kept {
    server: Server,
    line: String,
    /// One of the keys that it reads.
    source: String,
    /// The change of that key that was put back, of those that were tried.
    number: usize,
}

fn kept(command: &str) -> Kept {
    let mut server = server();
    let line = to(command, "to");
    let is_source = |word: &&str| word.len() == 2 && word.ends_with(['0', '1']);
    let source = line.split(' ').find(is_source).expect("a source").to_owned();
    assert!(!turn(&mut server, 1, &line).1, "{line}: it goes on");
    let mut number = 0;
    while !is_put_back(&mut server, 2, &change(&source, number)) {
        assert!(!turn(&mut server, 1, "").1, "{line}: it begins anew");
        number += 1;
    }
    Kept { server, line, source, number }
}

/// Commands that begin anew keep those off who name their keys and would change them, and nobody else.
#[test]
fn issue_11_a_command_that_begins_anew_keeps_writers_from_its_keys() {
    for (command, _) in COMMANDS {
        for end in ["itself", "hang up", "FLUSHALL"] {
            let Kept { mut server, line, source, number } = kept(command);
            let source = source.as_str();
            for read in [format!("TYPE {source}"), "GET to".into(), "SET other x".into()] {
                assert!(!is_put_back(&mut server, 3, &read), "{line}: {read} runs");
            }
            for write in ["SET to x".into(), format!("DEL {source}"), format!("RENAME other {source}")] {
                assert!(is_put_back(&mut server, 4, &write), "{line}: {write} waits");
            }
            server.run_as(5, &[b"MULTI"]);
            server.run_as(5, &[b"DEL", b"to"]);
            assert!(is_put_back(&mut server, 5, "EXEC"), "{line}: a transaction waits");
            match end {
                "hang up" => server.hang_up(1),
                "FLUSHALL" => {
                    run(&mut server, "FLUSHALL");
                    finish(&mut server, 1);
                }
                _ => {
                    let (_, turns) = finish(&mut server, 1);
                    assert!(turns > 3, "{line}: {turns} turns");
                }
            }
            server.background();
            assert!(!is_put_back(&mut server, 5, "EXEC"), "{line}, {end}: all run now");
            assert!(!is_put_back(&mut server, 4, &change(source, number)), "{line}, {end}: all run now");
            run(&mut server, "DEBUG VERIFY");
            assert!(!server.has_readers() && server.watched_keys() == 0, "{line}, {end}: nothing is left");
        }
    }
}

/// While a file's queue is full it waits with what it has. It lets its keys go for a pause, which is none of its tries.
#[test]
fn issue_11_a_command_lets_its_keys_go_for_a_pause_alone() {
    for (command, _) in COMMANDS {
        let Kept { mut server, line, source, .. } = kept(command);
        let write = format!("DEL {source}");
        server.restrain(Pause::None, Denied { writes_wait: true, ..Denied::NONE });
        (0..5).for_each(|_| assert!(!turn(&mut server, 1, "").1, "{line}: it waits"));
        server.restrain(Pause::None, Denied::NONE);
        assert!(is_put_back(&mut server, 4, &write), "{line}: it keeps its keys");
        for _ in 0..5 {
            server.restrain(Pause::Writes, Denied::NONE);
            (0..3).for_each(|_| assert!(!turn(&mut server, 1, "").1, "{line}: it waits"));
            assert!(!server.has_frozen(), "{line}: it has let its keys go");
            server.restrain(Pause::None, Denied::NONE);
            assert!(!turn(&mut server, 1, "").1, "{line}: it begins anew, in parts");
        }
        assert!(is_put_back(&mut server, 4, &write), "{line}: it keeps its keys again");
        assert!(finish(&mut server, 1).1 > 1, "{line}");
        assert!(!is_put_back(&mut server, 4, &write), "{line}: it has ended");
    }
}

#[test]
fn issue_11_what_ends_a_command_leaves_nothing() {
    for (command, _) in COMMANDS {
        for end in ["hang up", "FLUSHALL", "SWAPDB 0 1", "DEL s0 z0 l0 h0 b0 g0 t0"] {
            for turns in [1, 40] {
                let mut server = server();
                let line = to(command, "to");
                let mut ended = turn(&mut server, 1, &line).1;
                (0..turns).for_each(|_| ended = ended || turn(&mut server, 1, "").1);
                if ended {
                    continue;
                }
                let case = format!("{line}, {end} after {turns} turns");
                if end == "hang up" {
                    server.hang_up(1);
                    assert_eq!(run(&mut server, "EXISTS to"), b":0\r\n", "{case}");
                } else {
                    run(&mut server, end);
                    let (reply, _) = finish(&mut server, 1);
                    let (expected, value, _) = whole(&mut server, command);
                    assert_eq!((reply, digest(&mut server, "to")), (expected, value), "{case}");
                }
                server.background();
                run(&mut server, "DEBUG VERIFY");
                assert!(!server.has_readers() && server.watched_keys() == 0, "{case}: nothing is left");
            }
        }
    }
}

/// A key that is watched by another client, waited for and stored in: it changes when the result is stored, and not before.
#[test]
fn issue_11_watchers_of_the_key_see_one_change() {
    for (command, _) in COMMANDS {
        let mut server = server();
        let line = to(command, "to");
        assert!(!turn(&mut server, 1, &line).1, "{line}: it goes on");
        server.run_as(2, &[b"WATCH", b"to"]);
        server.run_as(2, &[b"MULTI"]);
        turn(&mut server, 1, "");
        assert_eq!(server.run_as(2, &[b"EXEC"]), b"*0\r\n", "{line}: nothing has changed yet");
        server.run_as(2, &[b"WATCH", b"to"]);
        server.run_as(2, &[b"MULTI"]);
        finish(&mut server, 1);
        assert_eq!(server.run_as(2, &[b"EXEC"]), b"*-1\r\n", "{line}: it has changed");
    }
}

/// Every result is the one that the whole command gives at the instant at which it ends.
#[test]
fn issue_11_storing_commands_among_changes_end_with_what_a_whole_command_gives() {
    let seed = std::env::var("VARVE_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(5);
    println!("VARVE_SEED={seed}");
    let (mut server, mut rng) = (server(), Rng::seeded(seed));
    let mut lines: BTreeMap<usize, &str> = BTreeMap::new();
    let (mut ended, mut put_back) = (0, 0);
    while ended < 100 {
        let who = 1 + rng.below(STORERS as u64) as usize;
        match (rng.below(60), lines.contains_key(&who)) {
            (0, _) => {
                let n = rng.below(3000) as usize;
                let command =
                    ["SADD s0", "SREM s0", "SADD s1", "ZREM z0", "HDEL h0", "RPUSH l0"][rng.below(6) as usize];
                let element = if command.ends_with("l0") { n.to_string() } else { member(n) };
                put_back += usize::from(is_put_back(&mut server, CHANGER, &format!("{command} {element}")));
            }
            (1, _) => {
                let line = format!("ZADD z{} {} {}", rng.below(2), n_of(&mut rng), member(n_of(&mut rng)));
                put_back += usize::from(is_put_back(&mut server, CHANGER, &line));
            }
            (2, _) => server.background(),
            (_, false) => {
                let (command, _) = COMMANDS[rng.below(COMMANDS.len() as u64) as usize];
                if !turn(&mut server, who, &to(command, &format!("to{who}"))).1 {
                    lines.insert(who, command);
                }
            }
            (_, true) => {
                let (reply, is_over) = turn(&mut server, who, "");
                if is_over {
                    // No source changes until all have ended, and no transaction waits for a key then.
                    let mut over = vec![(who, reply)];
                    let mut left: Vec<usize> = lines.keys().copied().filter(|one| *one != who).collect();
                    for round in 0.. {
                        assert!(round < 10_000, "all end");
                        left.retain(|one| {
                            let (reply, is_over) = turn(&mut server, *one, "");
                            is_over.then(|| over.push((*one, reply))).is_none()
                        });
                        if left.is_empty() {
                            break;
                        }
                    }
                    for (who, reply) in over {
                        let command = lines.remove(&who).expect("it has begun");
                        let got = (reply, digest(&mut server, &format!("to{who}")));
                        let (reply, value, _) = whole(&mut server, command);
                        assert!(got == (reply, value), "{command}");
                        ended += 1;
                    }
                }
            }
        }
    }
    assert!(put_back > 0, "some changes wait for commands that begin anew");
    run(&mut server, "DEBUG VERIFY");
}

fn n_of(rng: &mut Rng) -> usize {
    rng.below(1000) as usize
}

/// The command with this key for its result.
fn to(command: &str, key: &str) -> String {
    command.replace(" TO", &format!(" {key}"))
}

#[test]
fn issue_11_a_long_copy_keeps_the_expiry_and_replaces_no_key_that_came_meanwhile() {
    let mut server = server();
    for source in ["z0", "b0"] {
        run(&mut server, &format!("PEXPIRE {source} 5000"));
        assert!(!turn(&mut server, 1, &format!("COPY {source} to DB 1 REPLACE")).1, "it goes on");
        assert_eq!(finish(&mut server, 1).0, b":1\r\n");
        let here = digest(&mut server, source);
        run(&mut server, "SELECT 1");
        assert_eq!((digest(&mut server, "to"), run(&mut server, "PTTL to")), (here, b":5000\r\n".to_vec()));
        run(&mut server, "SELECT 0");
        assert!(!turn(&mut server, 1, &format!("COPY {source} to")).1, "it goes on");
        run(&mut server, "SET to mine");
        assert_eq!(finish(&mut server, 1).0, b":0\r\n");
        assert_eq!(run(&mut server, "GET to"), b"$4\r\nmine\r\n");
        run(&mut server, "DEL to");
        server.background();
        assert!(!server.has_readers() && server.watched_keys() == 0, "nothing is left");
    }
}

/// Where memory ends, the command does, and the key is as it was.
#[test]
fn issue_11_a_result_without_room_is_refused() {
    for (command, _) in COMMANDS.iter().filter(|(command, _)| !command.starts_with("BITOP")) {
        let mut server = server();
        run(&mut server, "SET to before");
        assert!(!turn(&mut server, 1, &to(command, "to")).1, "{command}: it goes on");
        server.set_limit(1 << 20);
        assert!(finish(&mut server, 1).0.starts_with(b"-OOM"), "{command}");
        assert_eq!(run(&mut server, "GET to"), b"$6\r\nbefore\r\n", "{command}");
        server.background();
        assert!(!server.has_readers() && server.watched_keys() == 0, "{command}: nothing is left");
    }
}

/// Many HyperLogLogs are read one a hold: what is counted or merged is of the instant at which the command ends.
#[test]
fn issue_11_many_hyperloglogs_are_one_instant() {
    let mut server = Server::new(Resp::V2);
    server.read_in_parts(ReadBounds { long_elements: 200, hold_elements: 40 });
    let keys: String = (0..40).map(|n| format!(" p{n}")).collect();
    for n in 0..40 {
        let elements: String = (0..20 + n % 3 * 900).map(|i| format!(" {}", 500 * n + i)).collect();
        run(&mut server, &format!("PFADD p{n}{elements}"));
    }
    let journal = server.keep_effects();
    for command in ["PFCOUNT", "PFMERGE"] {
        let line = format!("{command}{keys}");
        for changes in [0, 1, 100] {
            assert!(!turn(&mut server, 1, &line).1, "{command} goes on");
            let (mut turns, mut left, mut put_back) = (1, changes, 0);
            let reply = loop {
                if left > 0 && turns % 3 == 0 {
                    let add = words(&format!("PFADD p{} {command} {turns}", turns % 40));
                    let waits = server.is_put_back(2, &add.iter().map(Vec::as_slice).collect::<Vec<_>>());
                    (left, put_back) = (left - i32::from(!waits), put_back + i32::from(waits));
                }
                let (reply, ended) = turn(&mut server, 1, "");
                turns += 1;
                if ended {
                    break reply;
                }
            };
            assert!(turns > 40, "{command}: {turns} turns");
            // One that begins anew keeps writers off, so that it does not begin a third time, and run whole.
            assert_eq!(put_back > 10, changes == 100, "{command}: {put_back} changes waited");
            let counted = run(&mut server, &format!("PFCOUNT{keys} p0"));
            if command == "PFCOUNT" {
                assert_eq!(reply, counted, "{changes} changes");
            } else {
                assert_eq!(run(&mut server, "PFCOUNT p0"), counted, "{changes} changes");
                assert_eq!(journal.take().iter().filter(|unit| unit.contains(&line)).count(), 1, "it has one effect");
            }
            assert_eq!(server.watched_keys(), 0);
        }
    }
    // A fault in the middle is that of the instant at which the command ends.
    run(&mut server, "SET p7 text");
    assert!(!turn(&mut server, 1, &format!("PFCOUNT{keys}")).1);
    assert!(finish(&mut server, 1).0.starts_with(b"-WRONGTYPE"));
    assert!(!turn(&mut server, 1, &format!("PFMERGE{keys}")).1);
    turn(&mut server, 1, "");
    run(&mut server, "DEL p7");
    assert_eq!(finish(&mut server, 1).0, b"+OK\r\n");
    turn(&mut server, 1, &format!("PFMERGE{keys}"));
    server.hang_up(1);
    assert_eq!(server.watched_keys(), 0);
}

/// The end of a key whose time is over is handed on before a command that goes on lets its shards go (an assertion of the store's): it
/// stood in the journal behind what another worker wrote to the key meanwhile.
#[test]
fn issue_11_the_end_of_a_key_is_told_before_its_shard_is_let_go() {
    let reads = ["SUNION s0 s1 due", "SINTER s0 s1 due", "ZUNION 3 z0 z1 due", "SORT s0 BY w_* GET due"];
    let stores = COMMANDS.iter().map(|(command, _)| to(command, "due"));
    for line in reads.into_iter().map(String::from).chain(stores) {
        let mut server = server();
        let journal = server.keep_effects();
        run(&mut server, "SADD due x");
        run(&mut server, "PEXPIRE due 10");
        journal.take();
        server.advance(20);
        let (_, ended) = turn(&mut server, 1, &line);
        let units = journal.take();
        let told = units.iter().flatten().any(|effect| effect == "DEL due" || effect == "UNLINK due");
        assert!(told || ended || !line.contains("UNION s0 s1 due"), "{line}: {units:?}");
        if !ended {
            finish(&mut server, 1);
        }
        run(&mut server, "DEBUG VERIFY");
    }
}
