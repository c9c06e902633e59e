//! Commands that work on one key over several holds of its shard: others on the key wait, all else goes on, whoever looks at
//! everything waits, and their effects come together at the end.

use crate::common::{Journal, Server};
use varve_exec::checks::{Denied, WritesDenied};
use varve_exec::pause::Pause;
use varve_protocol::Resp;
use varve_store::ReadBounds;

const LEN: usize = 3000;

fn words(line: &str) -> Vec<&[u8]> {
    line.split(' ').map(str::as_bytes).collect()
}

fn run(server: &mut Server, line: &str) -> Vec<u8> {
    server.run(&words(line))
}

/// A list of which every third element is `x`, a set, a hash, a sorted set, and a stream with a group that was given nothing and one
/// that was given all.
fn filled() -> Server {
    let mut server = Server::new(Resp::V2);
    server.shorten_nodes(false);
    for n in 0..LEN {
        let element = if n % 3 == 0 { "x".to_string() } else { format!("element:{n}") };
        for line in [
            format!("RPUSH l {element}"),
            format!("SADD s member:{n}"),
            format!("HSET h field:{n} {n}"),
            format!("ZADD z {} member:{n}", n % 100),
            format!("XADD t 1-{} field {n}", n + 1),
        ] {
            run(&mut server, &line);
        }
    }
    for line in ["XGROUP CREATE t new 0", "XGROUP CREATE t given 0", "XREADGROUP GROUP given c STREAMS t >"] {
        run(&mut server, line);
    }
    server.read_in_parts(ReadBounds { long_elements: 200, hold_elements: 40 });
    server
}

/// A server to which effects are applied.
struct Replica(Server);

impl Replica {
    /// Applies what is new; how many units have changed `key`.
    fn follow(&mut self, journal: &Journal, key: &str) -> usize {
        let mut units = 0;
        for unit in journal.take() {
            units += usize::from(unit.iter().any(|effect| effect.split(' ').nth(1) == Some(key)));
            for effect in unit {
                let reply = run(&mut self.0, &effect);
                assert!(!reply.starts_with(b"-"), "{effect}: {}", String::from_utf8_lossy(&reply));
            }
        }
        units
    }
}

fn digest(server: &mut Server) -> Vec<u8> {
    run(server, "DEBUG DIGEST")
}

/// [`CASES`], and commands with many arguments, some of which name what is there.
fn cases() -> Vec<(String, &'static str, &'static str, &'static str)> {
    let names = |name: &str| (1500..1500 + 2000).map(|n| format!(" {name}:{n}")).collect::<String>();
    let scored = |name: &str| (1500..3500).map(|n| format!(" {} {name}:{n}", n % 70)).collect::<String>();
    let pairs = (2000..3500).map(|n| format!(" field:{n} value{n}")).collect::<String>();
    let many = [
        (format!("SADD s{}", names("member")), "s", "SCARD s", "SREM s member:1"),
        (format!("SREM s{}", names("member")), "s", "SISMEMBER s y", "SPOP s"),
        (format!("SREM none{}", names("member")), "none", "SCARD none", "SADD none y"),
        ("XREADGROUP GROUP new c STREAMS t >".to_string(), "t", "XLEN t", "XACK t given 1-1"),
        ("XREADGROUP GROUP new c COUNT 900 NOACK STREAMS t >".to_string(), "t", "XLEN t", "XDEL t 1-1"),
        ("XAUTOCLAIM t given d 0 - COUNT 2500".to_string(), "t", "XLEN t", "XACK t given 1-1"),
        (format!("SADD none{}", names("member")), "none", "EXISTS none", "DEL none"),
        (format!("HSET h{pairs}"), "h", "HLEN h", "HDEL h field:1"),
        (format!("HMSET h{pairs}"), "h", "HGETALL h", "HINCRBY h field:1 1"),
        (format!("HDEL h{}", names("field")), "h", "HGET h field:1", "HSET h y 1"),
        (format!("ZREM z{}", names("member")), "z", "ZSCORE z y", "ZADD z 1 y"),
        (format!("RPUSH l{}", names("new")), "l", "LINDEX l 5", "LPOP l"),
        (format!("LPUSH none{}", names("new")), "none", "LLEN none", "RPUSH none y"),
        (format!("LPUSHX l{}", names("new")), "l", "LRANGE l 0 5", "LSET l 0 y"),
        (format!("ZADD z{}", scored("member")), "z", "ZSCORE z y", "ZREM z member:1"),
        (format!("ZADD z XX GT CH{}", scored("member")), "z", "ZCARD z", "ZADD z 1 y"),
        (format!("ZADD none nx{}", scored("member")), "none", "ZRANK none y", "DEL none"),
    ];
    CASES.map(|(line, key, reads, writes)| (line.to_string(), key, reads, writes)).into_iter().chain(many).collect()
}

/// Whether a command chooses at random.
fn draws(line: &str) -> bool {
    line.contains("RAND") || line.starts_with("SPOP")
}

/// Commands, the key of each, and a reader and a writer of that key.
const CASES: [(&str, &str, &str, &str); 12] = [
    ("LREM l 0 x", "l", "LLEN l", "RPUSH l y"),
    ("LREM l 700 x", "l", "LLEN l", "LSET l 0 y"),
    ("LREM l -700 x", "l", "LRANGE l 0 0", "LPOP l"),
    ("LREM l 0 none", "l", "OBJECT ENCODING l", "DEL l"),
    ("LINSERT l BEFORE element:2999 new", "l", "LLEN l", "RENAME l other"),
    ("LINSERT l AFTER none new", "l", "LINDEX l 5", "LTRIM l 1 -1"),
    ("SPOP s 1000", "s", "SCARD s", "SADD s y"),
    ("SPOP s 2999", "s", "SMEMBERS s", "SREM s member:1"),
    ("SRANDMEMBER s 100", "s", "SISMEMBER s y", "SADD s y"),
    ("SRANDMEMBER s -150", "s", "SCARD s", "SMOVE s other member:1"),
    ("HRANDFIELD h 100 WITHVALUES", "h", "HGET h field:1", "HDEL h field:1"),
    ("ZRANDMEMBER z 100 WITHSCORES", "z", "ZCARD z", "ZREM z member:1"),
];

/// The reply of a command that draws says no more than how many elements it has: each may be any of all.
fn shape(line: &str, reply: &[u8]) -> Vec<u8> {
    if draws(line) { reply.split(|&b| b == b'\r').next().unwrap_or_default().to_vec() } else { reply.to_vec() }
}

#[test]
fn issue_11_others_wait_for_a_key_that_is_worked_on() {
    for (line, key, reads, writes) in cases() {
        let line = line.as_str();
        let mut server = filled();
        let journal = server.keep_effects();
        let (mut whole, mut replica) = (filled(), Replica(filled()));
        whole.read_in_parts(ReadBounds::default());
        let expected = run(&mut whole, line);
        for command in ["MULTI", reads] {
            server.run_as(3, &words(command));
        }
        let (mut reply, mut ended) = server.turn_as(1, &words(line));
        assert!(!ended, "{line} goes on");
        let mut turns = 1;
        while !ended {
            // A reply that is made part by part is of elements that were drawn: the key is free again.
            let waits = reply.is_empty();
            for (who, other) in [(2, reads), (4, writes), (3, "EXEC")] {
                assert_eq!(server.is_put_back(who, &words(other)), waits, "{other} waits for {line}");
            }
            for free in [format!("SET other:{turns} v"), format!("GET other:{turns}"), "DBSIZE".to_string()] {
                assert!(!server.is_put_back(5, &words(&free)), "{free} beside {line}");
            }
            if turns % 40 == 5 {
                server.background();
                assert_eq!(server.is_put_back(6, &words("SWAPDB 2 3")), waits, "nobody sees {line} half done");
                assert_eq!(replica.follow(&journal, key), 0, "{line}: half of it, after {turns} parts");
            }
            let (more, now) = server.turn_as(1, &[]);
            (reply, ended, turns) = ([reply, more].concat(), now, turns + 1);
        }
        assert!(turns >= 5, "{line}: {turns} turns");
        assert_eq!(shape(line, &reply), shape(line, &expected), "{line}");
        let units = replica.follow(&journal, key);
        assert_eq!(digest(&mut server), digest(&mut replica.0), "{line}: its effects");
        assert!(units <= 1, "{line}: its effects are {units} units");
        if !draws(line) {
            (1..turns).for_each(|n| _ = run(&mut whole, &format!("SET other:{n} v")));
            assert_eq!(digest(&mut server), digest(&mut whole), "{line}: the key");
        }
        for (who, other) in [(2, reads), (3, "EXEC"), (4, writes)] {
            assert!(!server.is_put_back(who, &words(other)), "{other} runs behind {line}, which has left {key}");
        }
        run(&mut server, "DEBUG VERIFY");
    }
}

#[test]
fn issue_11_members_that_are_popped_part_by_part_are_different_ones() {
    let mut server = filled();
    let text = String::from_utf8(run(&mut server, "SPOP s 1800")).expect("names");
    let mut popped: Vec<&str> = text.lines().filter(|line| line.starts_with("member:")).collect();
    let left = String::from_utf8(run(&mut server, "SMEMBERS s")).expect("names");
    let rises = popped.windows(2).filter(|pair| pair[0] < pair[1]).count();
    assert!((700..1100).contains(&rises), "{rises} of 1800 rise: they come in no order");
    assert_eq!(popped.len(), 1800);
    popped.extend(left.lines().filter(|line| line.starts_with("member:")));
    popped.sort_unstable();
    popped.dedup();
    assert_eq!(popped.len(), LEN, "each was popped or is left");
}

/// The command goes on to its end when its client is gone. Whoever empties or exchanges databases waits for that; the key's own
/// end ends the command.
#[test]
fn issue_11_a_key_is_left_whatever_comes_between() {
    for (line, key, reads, writes) in cases() {
        let line = line.as_str();
        for meanwhile in ["hang up", "FLUSHALL", "FLUSHDB", "SWAPDB 0 1", "expire", "pause", "writes wait"] {
            let mut server = filled();
            let (journal, mut replica) = (server.keep_effects(), Replica(filled()));
            if meanwhile == "expire" {
                run(&mut server, &format!("PEXPIRE {key} 10"));
            }
            assert!(!server.turn_as(1, &words(line)).1, "{line} goes on");
            let (reply, mut ended) = server.turn_as(1, &[]);
            assert!(!ended, "{line} goes on");
            let mut owed = None;
            match meanwhile {
                "hang up" => {
                    server.hang_up(1);
                    ended = true;
                }
                "expire" => server.advance(20),
                "pause" => {
                    let denied = Denied { writes: Some(WritesDenied::Unwritten(28)), ..Denied::NONE };
                    server.restrain(Pause::Writes, denied);
                }
                // Those who would end that writes wait for this command's end.
                "writes wait" => server.restrain(Pause::None, Denied { writes_wait: true, ..Denied::NONE }),
                command => {
                    owed = server.is_put_back(2, &words(command)).then_some(command);
                    assert_eq!(owed.is_some(), reply.is_empty(), "{command} beside {line}");
                }
            }
            let mut turns = 0;
            while !ended {
                ended = server.turn_as(1, &[]).1;
                turns += 1;
                assert!(turns < 5000, "{line} ends beside {meanwhile}");
            }
            server.restrain(Pause::None, Denied::NONE);
            if meanwhile == "hang up" && !draws(line) {
                let mut whole = filled();
                run(&mut whole, line);
                assert_eq!(
                    digest(&mut server),
                    digest(&mut whole),
                    "{line} is done whole, although its client is gone"
                );
            }
            if let Some(command) = owed {
                assert!(!server.is_put_back(2, &words(command)), "{command} runs behind {line}");
            }
            for (who, other) in [(2, reads), (4, writes)] {
                assert!(!server.is_put_back(who, &words(other)), "{other} runs behind {line} and {meanwhile}");
            }
            replica.follow(&journal, key);
            server.background();
            assert_eq!(digest(&mut server), digest(&mut replica.0), "{line} beside {meanwhile}");
            run(&mut server, "DEBUG VERIFY");
        }
    }
}

/// Fields go again and again because their time is over, while some are picked by number: the command begins anew once, and
/// nothing disturbs it then.
#[test]
fn issue_11_a_draw_begins_anew_once() {
    let mut server = filled();
    for n in 1..=9 {
        run(&mut server, &format!("HPEXPIRE h {} FIELDS 1 field:{n}", n * 10));
    }
    let (mut ended, mut waits) = (server.turn_as(1, &words("HRANDFIELD h 150")).1, Vec::new());
    while !ended {
        waits.push(server.is_put_back(2, &words("HGET h field:100")));
        server.advance(10);
        ended = server.turn_as(1, &[]).1;
    }
    waits.dedup();
    assert_eq!(waits, [true, false], "others wait for the key while fields are picked, and not again");
}

/// A key, or a field of it, whose time comes while some are picked by number is told of as removed, and once.
#[test]
fn issue_11_a_draw_tells_of_what_it_removes() {
    let (field, whole) = ("HPEXPIRE h 10 FIELDS 1 field:3", "PEXPIRE s 10");
    for (line, dated, told) in [("HRANDFIELD h 100", field, "HDEL h field:3"), ("SRANDMEMBER s 100", whole, "DEL s")] {
        let mut server = filled();
        run(&mut server, dated);
        let journal = server.keep_effects();
        assert!(!server.turn_as(1, &words(line)).1, "{line} goes on");
        server.advance(20);
        while !server.turn_as(1, &[]).1 {}
        assert_eq!(journal.take(), [[told]], "{line}");
        run(&mut server, "DEBUG VERIFY");
    }
}

/// The key, or a field of it, is removed because its time is over, by whoever meets it, while a command works on it: what the
/// command had done until then comes before the removal.
#[test]
fn issue_13_what_removes_a_key_that_is_worked_on_comes_behind_what_was_done() {
    let pairs: String = (0..2000).map(|n| format!(" field:{n} v")).collect();
    for meets in ["SORT by BY *->field:1 ALPHA", "background"] {
        let (mut server, mut replica) = (filled(), Replica(filled()));
        for server in [&mut server, &mut replica.0] {
            for line in ["RPUSH by hk", "HSET hk x 1", "HSET hf x 1"] {
                run(server, line);
            }
        }
        let journal = server.keep_effects();
        for line in ["PEXPIRE hk 10", "HPEXPIRE hf 10 FIELDS 1 x", "PEXPIRE hf 1000000"] {
            run(&mut server, line);
        }
        for (who, key) in [(1, "hk"), (7, "hf")] {
            assert!(!server.turn_as(who, &words(&format!("HSET {key}{pairs}"))).1, "it goes on");
            assert!(!server.turn_as(who, &[]).1, "it goes on");
        }
        server.advance(20);
        if meets == "background" {
            server.background();
        } else {
            server.run_as(2, &words(meets));
            server.background();
        }
        for who in [1, 7] {
            while !server.turn_as(who, &[]).1 {}
        }
        replica.follow(&journal, "hk");
        server.background();
        assert_eq!(digest(&mut server), digest(&mut replica.0), "{meets}");
        run(&mut server, "DEBUG VERIFY");
    }
}

/// Commands that overlap would leave nobody a moment to be alone: behind a refusal they begin no more until it has had its turn.
#[test]
fn issue_13_who_wants_to_be_alone_has_its_turn_beside_commands_that_overlap() {
    for (line, ..) in cases() {
        let mut server = filled();
        let first = if line.split(' ').nth(1) == Some("l") { "SPOP s 2000" } else { "LREM l 0 x" };
        assert!(!server.turn_as(1, &words(first)).1, "{first} goes on");
        assert!(server.is_put_back(2, &words("SWAPDB 2 3")));
        assert!(server.is_put_back(4, &words(&line)), "{line} gives way");
        while !server.turn_as(1, &[]).1 {}
        assert!(!server.is_put_back(2, &words("SWAPDB 2 3")), "its turn");
        assert!(!server.is_put_back(4, &words(&line)), "{line} runs");
    }
}
