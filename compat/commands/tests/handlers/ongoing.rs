//! Commands whose reply comes in parts: whatever others do between two parts, all of it is of the instant at which the
//! command began.
//!
//! The expected reply is asked for just before, inside EXEC, where the command runs whole. `VARVE_SEED` sets the seed.

use std::collections::BTreeMap;

use crate::common::Server;
use varve_base::rng::Rng;
use varve_exec::checks::{Denied, WritesDenied};
use varve_exec::pause::Pause;
use varve_protocol::Resp;
use varve_store::ReadBounds;

/// The session that asks what a reply must be.
const WHOLE: usize = 50;
/// Sessions that read in parts: 1 to 4.
const READERS: u64 = 4;
/// Keys of each type.
const KEYS: u64 = 3;
/// The beginning of members: some hundred of them are more than one object holds.
const MEMBER: &str = "a-member-whose-name-is-not-short:";
/// Members of the sets and fields of the hashes.
const NAMES: u64 = 1500;

fn small_bounds() -> ReadBounds {
    ReadBounds { long_elements: 200, hold_elements: 40 }
}

fn seed() -> u64 {
    let seed = std::env::var("VARVE_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(11);
    println!("VARVE_SEED={seed}");
    seed
}

fn words(line: &str) -> Vec<Vec<u8>> {
    line.split(' ').map(|word| word.as_bytes().to_vec()).collect()
}

fn slices(words: &[Vec<u8>]) -> Vec<&[u8]> {
    words.iter().map(Vec::as_slice).collect()
}

/// The lines of a reply in order, its head first.
fn sorted(reply: &[u8]) -> Vec<Vec<u8>> {
    let mut lines: Vec<Vec<u8>> = reply.split_inclusive(|&b| b == b'\n').map(<[u8]>::to_vec).collect();
    if let [_, rest @ ..] = &mut lines[..] {
        rest.sort();
    }
    lines
}

/// The reply to a command that runs whole.
fn whole(server: &mut Server, line: &str) -> Vec<u8> {
    server.run_as(WHOLE, &[b"MULTI"]);
    server.run_as(WHOLE, &slices(&words(line)));
    let reply = server.run_as(WHOLE, &[b"EXEC"]);
    reply.strip_prefix(b"*1\r\n").expect("the reply of one command").to_vec()
}

/// The command that shows what this one pops, if it pops: to run it whole would change its key.
fn shown_of_popped(line: &str) -> Option<String> {
    let words: Vec<&str> = line.split(' ').collect();
    let [command, key, count] = words[..] else { return None };
    let last = count.parse::<u64>().ok()?.checked_sub(1)?;
    match command {
        "LPOP" => Some(format!("LRANGE {key} 0 {last}")),
        "ZPOPMIN" => Some(format!("ZRANGE {key} 0 {last} WITHSCORES")),
        "ZPOPMAX" => Some(format!("ZREVRANGE {key} 0 {last} WITHSCORES")),
        _ => None,
    }
}

/// A reply that is being made.
struct Reading {
    who: usize,
    line: String,
    expected: Vec<u8>,
    reply: Vec<u8>,
    parts: usize,
}

struct World {
    server: Server,
    rng: Rng,
    readings: Vec<Reading>,
    ended: usize,
    /// Replies in three parts and more, by command.
    in_parts: BTreeMap<String, usize>,
}

impl World {
    fn new(seed: u64) -> World {
        let mut server = Server::new(Resp::V2);
        server.read_in_parts(small_bounds());
        server.shorten_nodes(seed.is_multiple_of(2));
        World { server, rng: Rng::seeded(seed), readings: Vec::new(), ended: 0, in_parts: BTreeMap::new() }
    }

    fn run(&mut self, line: &str) {
        self.server.run(&slices(&words(line)));
    }

    fn below(&mut self, n: u64) -> u64 {
        self.rng.below(n)
    }

    /// A change of some key, mostly of some elements.
    fn change(&mut self) {
        let (a, b) = (self.below(KEYS), self.below(KEYS));
        let some: Vec<u64> = (0..self.below(60) + 1).map(|_| self.below(NAMES)).collect();
        let list = |prefix: &str| some.iter().map(|n| format!(" {prefix}{n}")).collect::<String>();
        let pairs = some.iter().map(|n| format!(" f{n} v{}", n * 7)).collect::<String>();
        let line = match self.below(94) {
            0 => format!("SADD s9{}", list(MEMBER)),
            1 => {
                // A set that is much shorter than others.
                let few: String = some.iter().map(|n| format!(" {MEMBER}{}", n % 120)).collect();
                format!("{} s8{few}", ["SADD", "SADD", "SREM"][self.below(3) as usize])
            }
            2..=7 => format!("SADD s{a}{}", list(MEMBER)),
            8..=13 => format!("SREM s{a}{}", list(MEMBER)),
            14 => format!("SPOP s{a} {}", some.len()),
            15 => format!("SMOVE s{a} s{b} {MEMBER}{}", some[0]),
            16..=22 => format!("HSET h{a}{pairs}"),
            23..=28 => format!("HDEL h{a}{}", list("f")),
            29 => format!("HINCRBY h{a} n{} 5", some[0]),
            30 => format!("HSET h{a} f{} {}", some[0], "long".repeat(700)),
            31 => format!("SUNIONSTORE s{a} s{a} s{b}"),
            32 if self.below(16) == 0 => format!("DEL s{a} h{a}"),
            33 if self.below(8) == 0 => format!("RENAME s{a} s{b}"),
            34 if self.below(8) == 0 => format!("RENAME h{a} h{b}"),
            35 => format!("COPY s{a} s{b} REPLACE"),
            36 if self.below(32) == 0 => String::from("FLUSHALL"),
            37 if self.below(16) == 0 => format!("PEXPIRE s{a} 5"),
            38 if self.below(12) == 0 => {
                self.run(&format!("SET s{a} text"));
                format!("DEL s{a}")
            }
            39..=44 => format!("RPUSH l{a}{}", list("e")),
            45..=47 => format!("LPUSH l{a}{}", list("e")),
            48 => format!("RPOP l{a} {}", some.len()),
            49 => format!("LPOP l{a} {}", some.len() * 3),
            50..=51 => format!("LSET l{a} {} other{}", some[0], some[0]),
            52 => format!("LSET l{a} -1 {}", "long".repeat(3000)),
            53..=54 => format!("LINSERT l{a} BEFORE e{} new", some[0]),
            55 => format!("LREM l{a} 3 e{}", some[0]),
            56 => format!("LTRIM l{a} {} -{}", some.len(), some.len() + 1),
            57 if self.below(4) == 0 => format!("LTRIM l{a} {} -2", self.below(1500)),
            58 => format!("LMOVE l{a} l{b} LEFT RIGHT"),
            59 if self.below(12) == 0 => format!("RENAME l{a} l{b}"),
            60 if self.below(32) == 0 => format!("DEL l{a}"),
            61 => format!("COPY l{a} l{b} REPLACE"),
            kind @ 62..=76 => self.change_of_scores(kind, (a, b), &some),
            80..=82 => {
                let numbers = some.iter().map(|n| format!(" {}", (n * 7919 % 3001) as f64 / 4.0)).collect::<String>();
                format!("RPUSH n{a}{numbers}")
            }
            83 if self.below(8) == 0 => format!("LTRIM n{a} 5 -5"),
            84..=92 => self.change_of_places(a, &some),
            _ => {
                self.server.advance(1);
                self.server.background();
                return;
            }
        };
        self.run(&line);
    }

    /// A change of a sorted set, mostly an addition.
    fn change_of_scores(&mut self, kind: u64, (a, b): (u64, u64), some: &[u64]) -> String {
        let names = some.iter().map(|n| format!(" {MEMBER}{n}")).collect::<String>();
        match kind {
            63 => format!("ZREM z{a}{names}"),
            64 => format!("ZINCRBY z{a} 2.5 {MEMBER}{}", some[0]),
            65 => format!("ZPOPMIN z{a} {}", some.len()),
            66 if self.below(12) == 0 => format!("ZREMRANGEBYRANK z{a} {} {}", some[0] % 90, 1100 + some[0]),
            66 => format!("ZREMRANGEBYRANK z{a} {} {}", some[0], some[0] + 5),
            67 if self.below(12) == 0 => format!("RENAME z{a} z{b}"),
            68 if self.below(32) == 0 => format!("DEL z{a}"),
            69 => format!("ZADD z{a} {} {}", some[0], "long".repeat(700)),
            _ => {
                let scored = some.iter().map(|n| format!(" {} {MEMBER}{n}", n % 7)).collect::<String>();
                format!("ZADD z{a}{scored}")
            }
        }
    }

    fn change_of_places(&mut self, key: u64, some: &[u64]) -> String {
        if self.below(9) == 0 {
            return format!("ZREM g{key}{}", some.iter().map(|n| format!(" {MEMBER}{n}")).collect::<String>());
        }
        let place = |n: &u64| ((n * 7919 % 360) as i64 - 180, (n * 104_729 % 170) as i64 - 85);
        let places = some.iter().map(|n| (place(n), n)).map(|((x, y), n)| format!(" {x} {y} {MEMBER}{n}"));
        format!("GEOADD g{key}{}", places.collect::<String>())
    }

    /// A search around some place, of some hundred kilometres or of the whole world.
    fn search(&mut self, key: u64) -> String {
        let far = [500, 3000, 9000, 30_000][self.below(4) as usize];
        let place = format!("{} {}", self.below(360) as i64 - 180, self.below(160) as i64 - 80);
        match self.below(6) {
            0 => format!("GEOSEARCH g{key} FROMLONLAT {place} BYRADIUS {far} km"),
            1 => format!("GEOSEARCH g{key} FROMLONLAT {place} BYBOX {far} {} km ASC WITHDIST WITHCOORD", far / 2),
            2 => format!(
                "GEOSEARCH g{key} FROMLONLAT {place} BYRADIUS {far} km COUNT {} ANY WITHHASH",
                self.below(900) + 1
            ),
            3 => format!("GEORADIUS g{key} {place} {far} km COUNT {} DESC", self.below(900) + 1),
            4 => format!("GEORADIUS_RO g{key} {place} {far} km WITHDIST ASC"),
            _ => format!("GEORADIUSBYMEMBER_RO g{key} {MEMBER}{} {far} km", self.below(NAMES)),
        }
    }

    fn begin(&mut self, line: String) {
        let who = (1..).find(|who| self.readings.iter().all(|reading| reading.who != *who)).expect("a number");
        let expected = match shown_of_popped(&line) {
            None => whole(&mut self.server, &line),
            // A list that is not there has no elements for a reader, and is no list for one that pops.
            Some(shown) => match whole(&mut self.server, &shown) {
                empty if line.starts_with('L') && empty == b"*0\r\n" => b"*-1\r\n".to_vec(),
                shown => shown,
            },
        };
        let (reply, ended) = self.server.turn_as(who, &slices(&words(&line)));
        self.readings.push(Reading { who, line, expected, reply, parts: 1 });
        if ended {
            self.end(self.readings.len() - 1);
        }
    }

    fn go_on(&mut self, at: usize) {
        let reading = &mut self.readings[at];
        let (more, ended) = self.server.turn_as(reading.who, &[]);
        reading.reply.extend(more);
        reading.parts += 1;
        if ended {
            self.end(at);
        }
    }

    fn end(&mut self, at: usize) {
        let Reading { line, expected, reply, parts, .. } = self.readings.swap_remove(at);
        // Sets and hashes have no order, and draws any.
        let is_ordered = line.starts_with(['L', 'Z', 'G']) && !line.contains("RAND");
        let is_right = if is_ordered || line.starts_with("SORT") {
            reply == expected
        } else {
            sorted(&reply) == sorted(&expected)
        };
        assert!(is_right, "{line} in {parts} parts is of one instant");
        self.ended += 1;
        let command = line.split(' ').next().expect("a word").to_string();
        *self.in_parts.entry(command).or_default() += usize::from(parts > 2);
    }

    fn step(&mut self) {
        match self.below(24) {
            0..=1 if (self.readings.len() as u64) < READERS => {
                let key = self.below(KEYS);
                let line = match self.below(45) {
                    41 => format!("LPOP l{key} {}", 1 + self.below(900)),
                    42 => format!("ZPOPMIN z{key} {}", 1 + self.below(900)),
                    43 => format!("ZPOPMAX z{key} {}", 1 + self.below(900)),
                    44 => format!("LPOP l{key} 90000"),
                    38 => format!("SRANDMEMBER s{key} 9000"),
                    39 => format!("HRANDFIELD h{key} 9000 WITHVALUES"),
                    40 => format!("ZRANDMEMBER z{key} 9000 WITHSCORES"),
                    32..=37 => self.search(key),
                    26 => {
                        format!("ZUNION 3 z{key} s{} z{} WEIGHTS 2 3 -1 WITHSCORES", self.below(KEYS), self.below(KEYS))
                    }
                    27 => format!("ZUNION 2 s{key} z{} AGGREGATE MIN", self.below(KEYS)),
                    28 => format!("ZINTER 2 z{key} z{} AGGREGATE MAX WITHSCORES", self.below(KEYS)),
                    29 => format!("ZINTER 3 s{key} z{key} s{} WEIGHTS 1 0.5 0.25 WITHSCORES", self.below(KEYS)),
                    30 => format!("ZDIFF 2 z{key} s{} WITHSCORES", self.below(KEYS)),
                    31 => format!("ZINTERCARD 2 z{key} s{} LIMIT {}", self.below(KEYS), self.below(900)),
                    20 => format!("SORT s{key} ALPHA"),
                    21 => format!("SORT l{key} ALPHA DESC LIMIT {} 1000", self.below(200)),
                    22 => format!("SORT z{key} BY nosort DESC GET # GET nothing"),
                    23 => format!("SORT_RO n{key} DESC LIMIT {} -1", self.below(200)),
                    24 => format!("SORT n{key}"),
                    25 => format!("SORT l{key} ALPHA GET #"),
                    16 => format!("ZRANGE z{key} 0 -1 WITHSCORES"),
                    17 => format!("ZREVRANGE z{key} {} -{}", self.below(100), self.below(100)),
                    18 => format!("ZRANGEBYSCORE z{key} ({} 6 LIMIT {} 900", self.below(3), self.below(50)),
                    19 => format!("ZREVRANGEBYSCORE z{key} +inf {} WITHSCORES", self.below(3)),
                    13 => format!("SDIFF s8 s{key} s{}", self.below(KEYS)),
                    14 => format!("SINTER s{key} s8 s{}", self.below(KEYS)),
                    15 => format!("SINTERCARD 2 s8 s{key} LIMIT {}", self.below(200)),
                    0 => format!("HGETALL h{key}"),
                    8 => format!("SUNION s{key} s{} s9", self.below(KEYS)),
                    9 => format!("SDIFF s{key} s{}", self.below(KEYS)),
                    10 => format!("SINTER s{key} s{}", self.below(KEYS)),
                    11 => format!("SINTERCARD 2 s{key} s{} LIMIT {}", self.below(KEYS), self.below(200)),
                    3 => format!("LRANGE l{key} 0 -1"),
                    4 => format!("LRANGE l{key} {} -{}", self.below(300), self.below(300)),
                    5 => format!("LPOS l{key} e{} COUNT 0", self.below(NAMES)),
                    6 => format!("LPOS l{key} e{} RANK -2 COUNT 2", self.below(NAMES)),
                    7 => format!("LPOS l{key} e{} MAXLEN {}", self.below(NAMES), 4000 + self.below(2000)),
                    1 => format!("HKEYS h{key}"),
                    2 => format!("HVALS h{key}"),
                    _ => format!("SMEMBERS s{key}"),
                };
                self.begin(line);
            }
            2..=7 if !self.readings.is_empty() => {
                let at = self.below(self.readings.len() as u64) as usize;
                self.go_on(at);
            }
            8 if self.below(60) == 0 && !self.readings.is_empty() => {
                let gone = self.readings.swap_remove(0);
                self.server.hang_up(gone.who);
            }
            _ => self.change(),
        }
    }
}

#[test]
fn issue_11_a_reply_in_parts_is_of_one_instant() {
    let seed = seed();
    for run in 0..4 {
        let mut world = World::new(seed + run);
        (0..40_000).for_each(|_| world.step());
        while !world.readings.is_empty() {
            world.go_on(0);
        }
        let (ended, in_parts) = (world.ended, &world.in_parts);
        let of_kinds = in_parts.values().filter(|count| **count > 0).count();
        assert!(of_kinds >= 20 && in_parts.values().sum::<usize>() > 150, "in parts: {in_parts:?} of {ended} replies");
        world.server.background();
        assert!(!world.server.has_readers(), "readers end with their replies and their connections");
        // The log is as it is after FLUSHALL without readers: nothing keeps what they read.
        world.run("FLUSHALL");
        world.server.background();
    }
}

/// Elements that are drawn over several turns are of the instant at which the command began, as many as are wanted, and each
/// is as likely as any other.
#[test]
fn issue_11_elements_are_drawn_of_one_instant() {
    const LEN: usize = 500;
    let mut server = Server::new(Resp::V2);
    server.read_in_parts(small_bounds());
    for n in 0..LEN {
        server.run(&slices(&words(&format!("SADD s {MEMBER}{n}"))));
        server.run(&slices(&words(&format!("HSET h {MEMBER}{n} {n}"))));
        server.run(&slices(&words(&format!("ZADD z {n} {MEMBER}{n}"))));
    }
    for (command, lines_each) in
        [("SRANDMEMBER s COUNT", 1), ("HRANDFIELD h COUNT WITHVALUES", 2), ("ZRANDMEMBER z COUNT", 1)]
    {
        for count in [-20_000, -60, 60, 400, 3000] {
            let line = command.replace("COUNT", &count.to_string());
            let (mut reply, mut ended) = server.turn_as(1, &slices(&words(&line)));
            let mut turns = 1;
            while !ended {
                server.run(&slices(&words(&format!("SADD s other{count}{turns}"))));
                server.run(&slices(&words(&format!("HDEL h {MEMBER}{turns}"))));
                server.run(&slices(&words(&format!("ZADD z {turns} other{count}{turns}"))));
                let (more, is_over) = server.turn_as(1, &[]);
                reply.extend(more);
                (ended, turns) = (is_over, turns + 1);
            }
            assert!(turns > 1, "{line}: {turns} turns");
            for n in 0..LEN {
                server.run(&slices(&words(&format!("HSET h {MEMBER}{n} {n}"))));
            }
            for key in ["s", "z"] {
                let others = (0..turns).map(|turn| format!(" other{count}{turn}")).collect::<String>();
                let command = if key == "s" { "SREM" } else { "ZREM" };
                server.run(&slices(&words(&format!("{command} {key}{others}"))));
            }
            let mut counts = BTreeMap::new();
            let text = String::from_utf8(reply).expect("names");
            let names: Vec<&str> = text.lines().filter(|line| line.starts_with(MEMBER)).collect();
            names.iter().for_each(|name| *counts.entry(*name).or_insert(0) += 1);
            let wanted = if count < 0 { -count as usize } else { LEN.min(count as usize) };
            assert_eq!(names.len(), wanted, "{line}");
            assert!(text.starts_with(&format!("*{}\r\n", wanted * lines_each)), "{line}");
            match count {
                -20_000 => {
                    let (least, most) = (counts.values().min(), counts.values().max());
                    assert!(
                        counts.len() == LEN && least >= Some(&12) && most <= Some(&80),
                        "{line}: {least:?} to {most:?}"
                    );
                }
                1.. => {
                    assert_eq!(counts.len(), wanted, "{line}: they differ");
                    let rises = names.windows(2).filter(|pair| pair[0] < pair[1]).count();
                    assert!((wanted / 3..wanted * 2 / 3).contains(&rises), "{line}: {rises} of {wanted} rise");
                }
                _ => {}
            }
        }
    }
    server.background();
    assert!(!server.has_readers(), "nothing is left");
}

/// The keys to which patterns lead are read one by one: the reply is of one instant, at which nothing that it is made of has
/// changed between.
#[test]
fn issue_11_a_sort_by_other_keys_is_of_one_instant() {
    let commands = [
        "SORT n BY w_* LIMIT 5 600 GET # GET w_*",
        "SORT n BY w_* DESC",
        "SORT n ALPHA BY w_* GET v_*->f GET nothing",
        "SORT_RO n BY nosort GET w_*",
    ];
    for command in commands {
        for changes in [0, 1, 200] {
            let mut server = Server::new(Resp::V2);
            server.read_in_parts(small_bounds());
            let run = |server: &mut Server, line: &str| _ = server.run(&slices(&words(line)));
            for n in 0..900 {
                run(&mut server, &format!("RPUSH n {}", n * 7919 % 911));
                run(&mut server, &format!("SET w_{n} {}", n * 104_729 % 503));
                run(&mut server, &format!("HSET v_{n} f {n} g {n}"));
            }
            let mut states = vec![whole(&mut server, command)];
            let (mut reply, mut ended) = server.turn_as(1, &slices(&words(command)));
            assert!(!ended, "{command} goes on");
            let (mut turns, mut left) = (1, changes);
            while !ended {
                if left > 0 && turns % 6 == 5 && reply.is_empty() {
                    let (n, value) = (turns * 31 % 911, turns % 700);
                    run(&mut server, &format!("SET w_{n} {value}"));
                    run(&mut server, &format!("HSET v_{n} f {value}"));
                    if turns % 4 == 3 {
                        run(&mut server, &format!("LSET n {n} {value}"));
                    }
                    // A change of other names disturbs nobody.
                    run(&mut server, &format!("SET x_{n} {value}"));
                    states.push(whole(&mut server, command));
                    left -= 1;
                }
                let (more, now) = server.turn_as(1, &[]);
                (reply, ended) = ([reply, more].concat(), now);
                turns += 1;
            }
            assert!(turns > 12, "{command}: {turns} turns");
            assert!(states.contains(&reply), "{command} with {changes} changes");
            server.background();
            assert!(!server.has_readers());
        }
    }
    // Keys whose time has come are removed as they are met, which is a change.
    let mut server = Server::new(Resp::V2);
    server.read_in_parts(small_bounds());
    for n in 0..900 {
        server.run(&slices(&words(&format!("RPUSH n {n}"))));
        server.run(&slices(&words(&format!("SET w_{n} {n} PX {}", 5 + n % 2 * 1000))));
    }
    assert!(!server.turn_as(1, &slices(&words("SORT n BY w_*"))).1);
    server.advance(50);
    let (mut reply, mut ended) = (Vec::new(), false);
    while !ended {
        let (more, now) = server.turn_as(1, &[]);
        (reply, ended) = ([reply, more].concat(), now);
    }
    assert!(reply == whole(&mut server, "SORT n BY w_*"), "without the weights whose time has come");
}

/// KEYS shows the names of one instant, whatever comes and goes while they are listed.
#[test]
fn issue_11_keys_are_listed_as_they_were_when_it_began() {
    let mut rng = Rng::seeded(seed());
    let mut in_parts = 0;
    for pattern in ["*", "k*7*"] {
        let mut server = Server::new(Resp::V2);
        server.read_in_parts(small_bounds());
        let run = |server: &mut Server, line: &str| _ = server.run(&slices(&words(line)));
        for _ in 0..40 {
            (0..600).for_each(|_| run(&mut server, &format!("SET k{} v", rng.below(3000))));
            (0..50).for_each(|_| run(&mut server, &format!("SET k{} v PX {}", rng.below(3000), 1 + rng.below(60))));
            let line = format!("KEYS {pattern}");
            let expected = sorted(&whole(&mut server, &line));
            let (mut reply, mut ended) = server.turn_as(1, &slices(&words(&line)));
            let mut turns = 1;
            while !ended {
                for _ in 0..rng.below(6) {
                    let (a, b) = (rng.below(3000), rng.below(3000));
                    let change = match rng.below(300) {
                        0 => String::from("FLUSHALL"),
                        1 => String::from("FLUSHDB"),
                        2 => String::from("SWAPDB 0 1"),
                        3..=60 => format!("DEL k{a}"),
                        61..=120 => format!("RENAME k{a} k{b}"),
                        121..=140 => format!("COPY k{a} k{b}"),
                        141..=160 => format!("MOVE k{a} 1"),
                        161..=180 => format!("PEXPIRE k{a} {}", 1 + rng.below(30)),
                        181..=200 => format!("GETDEL k{a}"),
                        201..=220 => format!("SADD k{a} member"),
                        _ => format!("SET k{a} {}", "long".repeat(rng.below(20) as usize)),
                    };
                    run(&mut server, &change);
                }
                server.background();
                if rng.below(8) == 0 {
                    server.advance(1);
                }
                let (more, now) = server.turn_as(1, &[]);
                (reply, ended) = ([reply, more].concat(), now);
                turns += 1;
            }
            assert!(sorted(&reply) == expected, "{line} in {turns} parts");
            in_parts += usize::from(turns > 100);
            run(&mut server, "DEBUG VERIFY");
        }
        // One whose client goes is forgotten.
        (0..600).for_each(|n| run(&mut server, &format!("SET k{n} v")));
        assert!(!server.turn_as(1, &slices(&words("KEYS *"))).1);
        server.hang_up(1);
        run(&mut server, "FLUSHALL");
        server.background();
        run(&mut server, "DEBUG VERIFY");
    }
    assert!(in_parts > 60, "{in_parts} lists were made in parts");
}

/// Elements that are popped go at one instant, however many turns its reply takes: others see the rest from then on, and whatever they
/// do, or the client's end, changes nothing of it. No hold takes more than a bounded number of elements.
#[test]
fn issue_11_elements_that_are_popped_go_at_one_instant() {
    const LEN: usize = 3000;
    let cases = [
        ("LPOP l 2500", "LLEN l", "RPUSH l new", "l"),
        ("RPOP l 2999", "LLEN l", "RPUSH l new", "l"),
        ("LPOP l 3000", "EXISTS l", "RPUSH l new", "l"),
        ("LMPOP 2 none l RIGHT COUNT 2000", "LLEN l", "LPUSH l new", "l"),
        ("ZPOPMIN z 2500", "ZCARD z", "ZADD z 5 m0 6 m1", "z"),
        ("ZPOPMAX z 2999", "ZCARD z", "ZADD z 5 m0 6 m1", "z"),
        ("ZPOPMIN z 5000", "EXISTS z", "ZADD z 5 m0 6 m1", "z"),
        ("ZMPOP 2 none z MAX COUNT 1500", "ZCARD z", "ZADD z 5 m0 6 m1", "z"),
    ];
    for (line, count, add, key) in cases {
        for meanwhile in ["PING", "DEL l z", "FLUSHALL", "RENAME KEY other", "PEXPIRE KEY 1", "add", "hang up"] {
            let mut server = Server::new(Resp::V2);
            server.read_in_parts(small_bounds());
            let run = |server: &mut Server, line: &str| server.run(&slices(&words(line)));
            for n in 0..LEN {
                run(&mut server, &format!("RPUSH l {MEMBER}{n}"));
                run(&mut server, &format!("ZADD z {n} {MEMBER}{n}"));
            }
            // Another server replies at once.
            let mut other = Server::new(Resp::V2);
            for n in 0..LEN {
                run(&mut other, &format!("RPUSH l {MEMBER}{n}"));
                run(&mut other, &format!("ZADD z {n} {MEMBER}{n}"));
            }
            let expected = run(&mut other, line);
            let left = run(&mut other, count);
            let (mut reply, mut ended) = server.turn_as(1, &slices(&words(line)));
            assert!(!ended, "{line} goes on");
            assert_eq!(run(&mut server, count), left, "{line}: what is left is there at once");
            match meanwhile {
                "add" => _ = run(&mut server, add),
                "hang up" => {
                    server.hang_up(1);
                    (reply, ended) = (expected.clone(), true);
                }
                _ => _ = run(&mut server, &meanwhile.replace("KEY", key)),
            }
            server.advance(5);
            let mut turns = 1;
            while !ended {
                if turns % 3 == 0 {
                    server.background();
                }
                let (more, now) = server.turn_as(1, &[]);
                (reply, ended, turns) = ([reply, more].concat(), now, turns + 1);
            }
            assert!(reply == expected, "{line} beside {meanwhile}");
            assert!(meanwhile == "hang up" || turns > LEN / 3 / 100, "{line}: {turns} turns");
            server.background();
            assert!(!server.has_readers(), "{line} beside {meanwhile}");
            run(&mut server, "DEBUG VERIFY");
        }
    }
}

/// LPOP and its like are not timed by themselves, since most of them take no time: one that goes on is one call, of the time
/// of its parts.
#[test]
fn issue_11_a_pop_in_parts_is_one_call_beside_others() {
    let mut server = Server::new(Resp::V2);
    server.read_in_parts(small_bounds());
    server.shorten_nodes(false);
    for n in 0..3000 {
        server.run(&[b"RPUSH", b"l", format!("m{n}").as_bytes()]);
    }
    let holds = server.holds();
    let mut pipeline = b"LPOP l\r\nLPOP l\r\nLPOP l 2900\r\nLPOP l\r\n".to_vec();
    let replies = server.send(&mut pipeline);
    assert!(replies.starts_with(b"$2\r\nm0\r\n$2\r\nm1\r\n*2900\r\n") && replies.ends_with(b"$5\r\nm2902\r\n"));
    assert!(server.holds() - holds > 2900 / 120, "{} holds", server.holds() - holds);
    assert_eq!(server.calls(b"lpop"), (4, 4), "calls, and durations");
}

/// BLMPOP and BZMPOP that find something at once are LMPOP and ZMPOP.
#[test]
fn issue_11_a_blocking_pop_that_finds_much_takes_it_in_parts() {
    let mut server = Server::new(Resp::V2);
    server.read_in_parts(small_bounds());
    server.shorten_nodes(false);
    let (mut list, mut set) = (String::from("*2\r\n$1\r\nl\r\n*2900\r\n"), String::from("*2\r\n$1\r\nz\r\n*2900\r\n"));
    for n in 1000..4000 {
        server.run(&[b"RPUSH", b"l", format!("m{n}").as_bytes()]);
        server.run(&[b"ZADD", b"z", format!("{n}").as_bytes(), format!("m{n}").as_bytes()]);
        if n < 3900 {
            list += &format!("$5\r\nm{n}\r\n");
            set += &format!("*2\r\n$5\r\nm{n}\r\n$4\r\n{n}\r\n");
        }
    }
    for (line, expected) in [("BLMPOP 0 2 no l LEFT COUNT 2900", list), ("BZMPOP 0 2 no z MIN COUNT 2900", set)] {
        let (mut reply, mut ended) = server.turn_as(1, &slices(&words(line)));
        assert!(!ended, "{line} goes on");
        while !ended {
            let (more, now) = server.turn_as(1, &[]);
            (reply, ended) = ([reply, more].concat(), now);
        }
        assert!(reply == expected.into_bytes(), "{line}");
    }
    assert_eq!(server.run(&[b"LLEN", b"l"]), b":100\r\n");
    assert_eq!(server.run(&[b"ZCARD", b"z"]), b":100\r\n");
}

/// SORT has the flag of a command that writes: its reply would end in the middle.
#[test]
fn issue_11_a_sort_that_has_begun_is_neither_held_back_nor_refused() {
    let mut server = Server::new(Resp::V2);
    server.read_in_parts(small_bounds());
    for n in 0..9000 {
        server.run(&[b"RPUSH", b"l", format!("{}", n * 7919 % 9001).as_bytes()]);
    }
    let expected = whole(&mut server, "SORT l");
    let (mut reply, mut ended) = server.turn_as(1, &[b"SORT", b"l"]);
    assert!(!ended, "it goes on");
    server.restrain(Pause::All, Denied { writes: Some(WritesDenied::Unwritten(28)), ..Denied::NONE });
    while !ended {
        let (more, now) = server.turn_as(1, &[]);
        reply.extend(more);
        ended = now;
    }
    assert!(reply == expected, "all of it");
}

/// A short list may be shown with thousands of values an element: they were fetched in one hold of all shards.
#[test]
fn issue_11_a_short_list_with_thousands_of_patterns_is_sorted_in_parts() {
    const LEN: usize = 50;
    let mut server = Server::new(Resp::V2);
    let run = |server: &mut Server, line: &str| server.run(&slices(&words(line)));
    for n in 0..LEN {
        run(&mut server, &format!("RPUSH n {}", n * 7919 % 911));
        run(&mut server, &format!("SET w_{} {}", n * 7919 % 911, n * 104_729 % 503));
    }
    for n in 0..LEN {
        run(&mut server, &format!("ZADD z {} {}", n * 31 % 97, n * 7919 % 911));
    }
    let (far, near) = (" GET w_* GET #".repeat(1000), " GET #".repeat(4096));
    let commands = [
        format!("SORT n BY w_*{far}"),
        format!("SORT n BY nosort DESC{far}"),
        format!("SORT_RO n{near}"),
        format!("SORT z BY nosort{far}"),
        format!("SORT s DESC{near}"),
    ];
    // The set is one of texts: numbers alone would be in order.
    (0..LEN).for_each(|n| _ = run(&mut server, &format!("SADD s {}.5", n * 7919 % 911)));
    for (nth, command) in commands.into_iter().enumerate() {
        for changes in [false, true] {
            let mut states = vec![whole(&mut server, &command)];
            let (mut reply, mut ended) = server.turn_as(1, &slices(&words(&command)));
            assert!(!ended, "it goes on");
            if changes {
                run(&mut server, &format!("SET w_0 {}", 700 + nth));
                run(&mut server, &format!("LSET n 1 {}", 1200 + nth));
                run(&mut server, &format!("ZADD z 500 {}", 2000 + nth));
                run(&mut server, &format!("SADD s {}.5", 3000 + nth));
                states.push(whole(&mut server, &command));
            }
            while !ended {
                let (more, now) = server.turn_as(1, &[]);
                (reply, ended) = ([reply, more].concat(), now);
            }
            assert!(states.contains(&reply), "{}", &command[..20]);
        }
    }
    run(&mut server, &format!("SORT n BY w_* STORE d{far}"));
    assert_eq!(run(&mut server, "LLEN d"), format!(":{}\r\n", LEN * 2000).into_bytes());
    let reply = run(&mut server, &format!("SORT n{near} GET #"));
    assert_eq!(String::from_utf8_lossy(&reply), "-ERR SORT takes at most 4096 GET options\r\n");
}

#[test]
fn issue_11_requests_behind_a_reply_in_parts_wait_for_its_end() {
    let mut server = Server::new(Resp::V3);
    server.read_in_parts(small_bounds());
    for n in 0..3000 {
        server.run(&[b"SADD", b"s", format!("m{n}").as_bytes()]);
    }
    let mut pipeline = b"SMEMBERS s\r\nPING\r\nSCARD s\r\n".to_vec();
    let replies = server.send(&mut pipeline);
    assert!(replies.starts_with(b"~3000\r\n") && replies.ends_with(b"+PONG\r\n:3000\r\n"));
    assert!(server.holds() > 3000 / 80, "{} holds", server.holds());
}

/// The slow log had two entries of such a command, one of its first part, and the histogram had that part alone.
#[test]
fn issue_11_a_command_in_parts_is_one_call_of_all_its_parts() {
    let mut server = Server::new(Resp::V2);
    server.read_in_parts(small_bounds());
    for n in 0..3000 {
        server.run(&[b"SADD", b"s", format!("m{n}").as_bytes()]);
    }
    server.take_slow();
    let (holds, parts) = (server.holds(), 3000 / 120);
    let reply = server.run(&[b"SMEMBERS", b"s"]);
    assert!(reply.starts_with(b"*3000\r\n"));
    assert!(server.holds() - holds > parts, "{} holds", server.holds() - holds);
    assert_eq!(server.take_slow(), [[b"SMEMBERS".to_vec(), b"s".to_vec()]]);
    assert_eq!(server.calls(b"smembers"), (1, 1), "calls, and durations");
}
