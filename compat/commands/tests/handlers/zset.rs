//! Sorted sets beside the redis-server that is installed: random commands on a few keys, small sets and large ones, in
//! both protocols, reply by reply. And what counts as a hit or a miss.
//!
//! Not asked at random, because the answer is free: members that are picked at random, a scan's pages, ranges by member
//! over different scores.

use std::collections::HashSet;

use crate::common::Server;
use varve_base::rng::Rng;
use varve_protocol::Resp;
use varve_testkit::{Client, Launch, RespValue};

/// Commands of one run.
const COMMANDS: usize = 4000;

/// A generator of commands.
struct Commands {
    rng: Rng,
    /// Members are `m0`, `m1` ...: this number of them.
    members: u64,
}

impl Commands {
    fn one_of<'a>(&mut self, words: &[&'a str]) -> &'a str {
        words[self.rng.below(words.len() as u64) as usize]
    }

    fn key(&mut self) -> String {
        self.one_of(&["a", "b", "c", "d", "none"]).to_owned()
    }

    /// Sometimes one that is too long for a packed set, sometimes an integer.
    fn member(&mut self) -> String {
        let number = self.rng.below(self.members);
        match self.rng.below(400) {
            0 => format!("{number}{}", "x".repeat(70)),
            1..40 => number.to_string(),
            _ => format!("m{number}"),
        }
    }

    fn score(&mut self) -> String {
        match self.rng.below(12) {
            0 => "inf".to_owned(),
            1 => "-inf".to_owned(),
            2 => format!("{}e{}", self.rng.below(1000), self.rng.below(30)),
            3..6 => format!("{}", self.rng.unit_f64() * 10.0),
            _ => (self.rng.below(20) as i64 - 5).to_string(),
        }
    }

    fn bound(&mut self) -> String {
        let open = self.one_of(&["", "", "("]);
        format!("{open}{}", self.score())
    }

    /// The bound of a range by member.
    fn edge(&mut self) -> String {
        match self.rng.below(6) {
            0 => "-".to_owned(),
            1 => "+".to_owned(),
            n => format!("{}{}", if n < 4 { "[" } else { "(" }, self.member()),
        }
    }

    fn number(&mut self) -> i64 {
        let span = self.members as i64;
        self.rng.below(3 * span as u64) as i64 - span - span / 2
    }

    fn limit(&mut self) -> String {
        match self.rng.below(3) {
            0 => format!("LIMIT {} {}", self.number() / 3, self.number()),
            _ => String::new(),
        }
    }

    fn keys(&mut self) -> String {
        let count = 1 + self.rng.below(4);
        let one = |commands: &mut Commands| match commands.rng.below(8) {
            0 => "set".to_owned(),
            1 => "ints".to_owned(),
            _ => commands.key(),
        };
        let keys: Vec<String> = (0..count).map(|_| one(self)).collect();
        format!("{count} {}", keys.join(" "))
    }

    fn weights(&mut self, keys: &str) -> String {
        let count = keys.split(' ').count() - 1;
        let mut text = String::new();
        if self.rng.below(2) == 0 {
            text.push_str("WEIGHTS");
            (0..count).for_each(|_| text.push_str(&format!(" {}", self.score())));
        }
        let aggregate = self.one_of(&["", " AGGREGATE SUM", " AGGREGATE MIN", " AGGREGATE MAX"]);
        text + aggregate
    }

    fn next(&mut self) -> String {
        match self.rng.below(42) {
            40 => format!("SADD set {} {}", self.member(), self.member()),
            41 => format!("SADD ints {} {}", self.rng.below(self.members), self.rng.below(self.members)),
            0..12 => self.add(),
            12..15 => format!("ZINCRBY {} {} {}", self.key(), self.score(), self.member()),
            15..19 => format!("ZREM {} {} {}", self.key(), self.member(), self.member()),
            19..31 => self.read(),
            31..36 => self.combine(),
            _ => self.cut(),
        }
    }

    fn add(&mut self) -> String {
        let options = ["", "", "", "", "NX", "XX", "GT", "LT", "CH", "XX GT CH", "LT CH", "NX CH"];
        let mut text = format!("ZADD {} {}", self.key(), self.one_of(&options));
        if self.rng.below(8) == 0 {
            return format!("{text} INCR {} {}", self.score(), self.member());
        }
        // Now and then enough members to turn a packed set into a large one.
        let most = if self.rng.below(10) == 0 { self.members } else { 3 };
        let pairs = 1 + self.rng.below(most);
        (0..pairs).for_each(|_| text.push_str(&format!(" {} {}", self.score(), self.member())));
        text
    }

    fn read(&mut self) -> String {
        let (key, scores) = (self.key(), self.one_of(&["", "WITHSCORES"]));
        let rev = self.one_of(&["", "REV"]);
        match self.rng.below(11) {
            0 => format!("ZCARD {key}"),
            1 => format!("ZSCORE {key} {}", self.member()),
            2 => format!("ZMSCORE {key} {} {}", self.member(), self.member()),
            3 => format!("ZRANK {key} {}", self.member()),
            4 => format!("ZREVRANK {key} {}", self.member()),
            5 => format!("ZCOUNT {key} {} {}", self.bound(), self.bound()),
            6..8 => format!("ZRANGE {key} {} {} {rev} {scores}", self.number(), self.number()),
            8..10 => {
                let (a, b, limit) = (self.bound(), self.bound(), self.limit());
                format!("ZRANGE {key} {a} {b} BYSCORE {rev} {limit} {scores}")
            }
            _ => format!("OBJECT ENCODING {key}"),
        }
    }

    fn combine(&mut self) -> String {
        let keys = self.keys();
        let weights = self.weights(&keys);
        let scores = self.one_of(&["", "WITHSCORES"]);
        match self.rng.below(8) {
            0 => format!("ZUNION {keys} {weights} {scores}"),
            1 => format!("ZINTER {keys} {weights} {scores}"),
            2 => format!("ZDIFF {keys} {scores}"),
            3 => format!("ZUNIONSTORE {} {keys} {weights}", self.key()),
            4 => format!("ZINTERSTORE {} {keys} {weights}", self.key()),
            5 => format!("ZDIFFSTORE {} {keys}", self.key()),
            _ => format!("ZINTERCARD {keys} LIMIT {}", self.rng.below(5)),
        }
    }

    /// Commands that take parts out, and sets whose scores are all the same.
    fn cut(&mut self) -> String {
        let key = self.key();
        let low = self.number();
        match self.rng.below(10) {
            0 => format!("ZPOPMIN {key} {}", self.rng.below(4)),
            1 => format!("ZPOPMAX {key}"),
            2 => format!("ZMPOP {} {} COUNT {}", self.keys(), self.one_of(&["MIN", "MAX"]), 1 + self.rng.below(4)),
            3 => format!("ZREMRANGEBYRANK {key} {low} {}", low + 3),
            4 => format!("ZREMRANGEBYSCORE {key} {} ({}", self.bound(), self.score()),
            5 => format!("ZRANGESTORE {} {key} {} {}", self.key(), self.number(), self.number()),
            6 => format!("ZADD same 0 {} 0 {} 0 {}", self.member(), self.member(), self.member()),
            7 => format!("ZLEXCOUNT same {} {}", self.edge(), self.edge()),
            8 => {
                let (a, b, rev, limit) = (self.edge(), self.edge(), self.one_of(&["", "REV"]), self.limit());
                format!("ZRANGE same {a} {b} BYLEX {rev} {limit}")
            }
            _ => format!("ZREMRANGEBYLEX same [{} ({}", self.member(), self.member()),
        }
    }
}

fn ask(ours: &mut Server, peer: &mut Client, line: &str) -> [RespValue; 2] {
    let args: Vec<&str> = line.split_ascii_whitespace().collect();
    let bytes: Vec<&[u8]> = args.iter().map(|arg| arg.as_bytes()).collect();
    let reply = ours.run(&bytes);
    let (value, taken) = RespValue::decode(&reply).expect("a reply").expect("a whole one");
    assert_eq!(taken, reply.len());
    [value, peer.call(&args).expect("the peer's reply")]
}

fn run(resp: Resp, seed: u64, members: u64) {
    let server = Launch::peer().start().expect("redis-server, of the package of this name");
    let mut peer = server.client();
    if resp == Resp::V3 {
        peer.cmd("HELLO 3");
    }
    let mut ours = Server::new(resp);
    let mut commands = Commands { rng: Rng::seeded(seed), members };
    for i in 0..COMMANDS {
        let line = commands.next();
        let [ours, peer] = ask(&mut ours, &mut peer, &line);
        assert_eq!(ours, peer, "seed {seed}, command {i} in {resp:?}: {line}");
    }
}

#[test]
fn random_commands_are_answered_as_the_peer_answers_them() {
    let seed = std::env::var("VARVE_SEED").ok().and_then(|text| text.parse().ok());
    let seed = seed.unwrap_or_else(|| std::process::id().into());
    println!("VARVE_SEED={seed}");
    run(Resp::V2, seed, 20);
    run(Resp::V3, seed + 1, 20);
    run(Resp::V2, seed + 2, 300);
    run(Resp::V3, seed + 3, 300);
}

/// Command, hits, misses: recorded. `z` has two members, `y` one of them, `s` is a string, `zz` is not there.
const COUNTED: &[(&str, u64, u64)] = &[
    ("ZADD z 1 a", 0, 0),
    ("ZADD zz 1 a", 0, 0),
    ("ZINCRBY z 1 a", 0, 0),
    ("ZREM z a", 0, 0),
    ("ZCARD z", 1, 0),
    ("ZCARD zz", 0, 1),
    ("ZSCORE z a", 1, 0),
    ("ZSCORE zz a", 0, 1),
    ("ZMSCORE z a b c", 1, 0),
    ("ZMSCORE zz a b", 0, 1),
    ("ZRANK z a", 1, 0),
    ("ZREVRANK zz a", 0, 1),
    ("ZCOUNT z 0 1", 1, 0),
    ("ZLEXCOUNT zz - +", 0, 1),
    ("ZRANGE z 0 -1", 1, 0),
    ("ZRANGE z 5 1", 1, 0),
    ("ZRANGE zz 0 -1", 0, 1),
    ("ZRANGE z 0 1 BYSCORE", 1, 0),
    ("ZRANGEBYLEX z - +", 1, 0),
    ("ZRANGESTORE d z 0 -1", 1, 0),
    ("ZRANGESTORE d zz 0 -1", 0, 1),
    ("ZREMRANGEBYRANK z 0 0", 0, 0),
    ("ZREMRANGEBYSCORE zz 0 1", 0, 0),
    ("ZPOPMIN z", 0, 0),
    ("ZMPOP 2 zz z MIN", 0, 0),
    ("ZRANDMEMBER z", 1, 0),
    ("ZRANDMEMBER z 5", 1, 0),
    ("ZRANDMEMBER z -5", 1, 0),
    ("ZRANDMEMBER zz 2", 0, 1),
    ("ZRANDMEMBER z 0", 1, 0),
    ("ZSCAN z 0", 1, 0),
    ("ZSCAN zz 0", 0, 1),
    ("ZUNION 3 z y zz", 2, 1),
    ("ZUNION 2 z z", 2, 0),
    ("ZINTER 3 z y zz", 2, 1),
    ("ZINTER 2 z y", 2, 0),
    ("ZDIFF 2 z zz", 1, 1),
    ("ZINTERCARD 2 z y", 2, 0),
    ("ZUNIONSTORE z 2 z y", 2, 0),
    ("ZINTERSTORE d 2 z zz", 1, 1),
    ("ZDIFFSTORE d 1 z", 1, 0),
    ("ZUNION 2 z y FOO", 2, 0),
    ("ZSCORE s a", 1, 0),
    ("ZUNION 2 z s", 2, 0),
];

#[test]
fn hits_and_misses_are_the_peers() {
    for &(command, hits, misses) in COUNTED {
        let mut server = Server::new(Resp::V2);
        for line in ["ZADD z 1 a 2 b", "ZADD y 1 a", "SET s x", command] {
            let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
            server.run(&words);
        }
        assert_eq!(server.lookups(), (hits, misses), "{command}");
    }
}

/// Runs a command; its reply as texts, arrays opened up.
fn texts(server: &mut Server, line: &str) -> Vec<String> {
    fn open(value: RespValue, into: &mut Vec<String>) {
        match value {
            RespValue::Array(elements) | RespValue::Set(elements) => elements.into_iter().for_each(|e| open(e, into)),
            RespValue::Integer(n) => into.push(n.to_string()),
            other => into.push(other.text()),
        }
    }
    let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
    let reply = server.run(&words);
    let mut found = Vec::new();
    open(RespValue::decode(&reply).expect("a reply").expect("a whole one").0, &mut found);
    found
}

/// A set `z` of members `m0`, `m1`, ... whose scores are their numbers.
fn filled(members: usize) -> Server {
    let mut server = Server::new(Resp::V2);
    let pairs: Vec<String> = (0..members).map(|i| format!("{i} m{i}")).collect();
    assert_eq!(texts(&mut server, &format!("ZADD z {}", pairs.join(" "))), [members.to_string()]);
    server
}

/// The numbers of members that were answered with their scores.
fn numbers(pairs: &[String]) -> Vec<usize> {
    let number = |pair: &[String]| {
        assert_eq!(pair[0], format!("m{}", pair[1]), "another member's score");
        pair[1].parse().expect("a score of ours")
    };
    pairs.chunks(2).map(number).collect()
}

#[test]
fn members_are_picked_at_random() {
    for members in [10, 128, 257, 2000] {
        let mut server = filled(members);
        for picks in [1, members / 5, members / 2, members - 1, members, members + 1] {
            let picked = numbers(&texts(&mut server, &format!("ZRANDMEMBER z {picks} WITHSCORES")));
            assert_eq!(picked.len(), picks.min(members));
            let distinct: HashSet<usize> = picked.iter().copied().collect();
            assert_eq!(distinct.len(), picked.len(), "a member twice");
        }
        let picked = numbers(&texts(&mut server, &format!("ZRANDMEMBER z -{} WITHSCORES", 50 * members)));
        assert_eq!(picked.len(), 50 * members);
        let mut times = vec![0u32; members];
        picked.iter().for_each(|n| times[*n] += 1);
        assert!(times.iter().all(|n| (5..200).contains(n)), "{members} members: {times:?}");
        assert!(texts(&mut server, "ZRANDMEMBER z")[0].starts_with('m'));
    }
}

#[test]
fn a_scan_sees_every_member() {
    // Beyond the settings a set stays in one object up to 8 KB: 257 such members are far below that, 2000 are above.
    for (members, is_whole) in [(10, true), (128, true), (257, true), (2000, false), (5000, false)] {
        let mut server = filled(members);
        let (mut cursor, mut seen, mut calls) = (String::from("0"), HashSet::new(), 0);
        loop {
            let page = texts(&mut server, &format!("ZSCAN z {cursor} COUNT 7"));
            seen.extend(numbers(&page[1..]));
            calls += 1;
            cursor.clone_from(&page[0]);
            if cursor == "0" {
                break;
            }
        }
        assert_eq!(seen.len(), members);
        assert_eq!(calls == 1, is_whole, "{members} members: a set in one object is told whole");
    }
}

/// Commands, and the events that the peer told of them.
const EVENTS: &[(&str, &str)] = &[
    ("ZADD z 1 a|ZADD z 1 a|ZADD z CH 2 a|ZADD z XX 1 n|ZADD z 2 a 3 b", "zadd z, zadd z, zadd z"),
    ("ZINCRBY z 1 a|ZINCRBY z 0 a|ZADD z INCR 1 a|ZADD z NX INCR 1 a|ZADD z LT INCR 1 a", "zincr z, zincr z"),
    ("ZADD z 1 a 2 b|ZREM z n|ZREM z a n|ZREM z b", "zadd z, zrem z, zrem z, del z"),
    (
        "ZADD z 1 a 2 b 3 c|ZREMRANGEBYRANK z 5 6|ZREMRANGEBYRANK z 0 0|ZREMRANGEBYSCORE z 2 2|ZREMRANGEBYSCORE z 3 3",
        "zadd z, zremrangebyrank z, zremrangebyscore z, zremrangebyscore z, del z",
    ),
    (
        "ZADD z 0 a 0 b|ZREMRANGEBYLEX z [a [a|ZREMRANGEBYLEX z - +|ZREMRANGEBYLEX z - +",
        "zadd z, zremrangebylex z, zremrangebylex z, del z",
    ),
    ("ZADD z 1 a 2 b 3 c|ZPOPMIN z|ZPOPMAX z 0|ZPOPMAX z 5|ZPOPMAX z", "zadd z, zpopmin z, zpopmax z, del z"),
    ("ZADD z 1 a 2 b|ZMPOP 2 y z MIN|ZMPOP 2 y z MAX COUNT 3|ZMPOP 1 z MAX", "zadd z, zpopmin z, zpopmax z, del z"),
    (
        "ZADD z 1 a 2 b|ZUNIONSTORE d 1 z|ZINTERSTORE d 2 z z|ZDIFFSTORE d 1 z|ZDIFFSTORE d 2 z z|ZDIFFSTORE d 2 z z",
        "zadd z, zunionstore d, zinterstore d, zdiffstore d, del d",
    ),
    (
        "ZADD z 1 a 2 b|ZRANGESTORE d z 0 -1|ZRANGESTORE d z 5 6|ZRANGESTORE d z 5 6|ZRANGESTORE z z 0 0",
        "zadd z, zrangestore d, del d, zrangestore z",
    ),
];

#[test]
fn events_are_the_peers() {
    for (commands, expected) in EVENTS {
        let mut server = Server::new(Resp::V2);
        server.notify("EA");
        for command in commands.split('|') {
            let words: Vec<&[u8]> = command.split(' ').map(str::as_bytes).collect();
            let reply = server.run(&words);
            assert!(!reply.starts_with(b"-"), "{command}");
        }
        let events = server.events();
        let told: Vec<String> =
            events.iter().map(|event| event.trim_start_matches("__keyevent@0__:").to_owned()).collect();
        assert_eq!(told.join(", "), *expected, "{commands}");
    }
}
