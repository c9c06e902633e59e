//! Random commands over lists, hashes, sets and sorted sets: templates, one a line, whose marks are filled in.
//!
//! ```text
//! {l} {h} {s} {z}  a key of that type, now and then of another      {l+} {s+} {z+}  one or several
//! {g}              a key of a sorted set of positions               {pm+}  triples of longitude, latitude, member
//! {p}              a longitude and a latitude                       {r}    a length and its unit    {e}  a length
//! {q}              a key of a sorted set whose scores are all 0: ranges of members mean something there only
//! {v} {f} {m}      an element, a field, a member                    {v+} {f+} {m+}  one to several, rarely hundreds
//! {fv+}            pairs of field and value                         {xm+}  pairs of score and member
//! {i} {n} {j}      an index, a count, one that may be negative      {x}    a score
//! {b}              a bound of scores                                {y}    a bound of members
//! {a|b|c}          one of these words, {?a b} these words or nothing
//! ```
//! Elements come from small pools, so that commands meet them again, with sizes on both sides of every limit at which an
//! encoding changes; the limits themselves are changed in mid-run. Commands whose outcome is random and stays (SPOP of
//! some) are left out; those that only look are compared by form.

use crate::generate::{Generator, Kind, Step};
use crate::newer::NEWER;
use crate::spell::{self, Arg};
use varve_testkit::Random;

const LISTS: &[&str] = &[
    "{lpush|rpush|rpush} {l} {v+}",
    "{lpush|rpush} {l} {v+}",
    "{lpushx|rpushx} {l} {v+}",
    "{lpop|rpop} {l}",
    "{lpop|rpop} {l} {n}",
    "llen {l}",
    "lindex {l} {i}",
    "lrange {l} {i} {i}",
    "lrange {l} 0 -1",
    "lset {l} {i} {v}",
    "ltrim {l} {i} {i}",
    "linsert {l} {before|AFTER|x} {v} {v}",
    "lrem {l} {i} {v}",
    "lpos {l} {v} {?rank {i}} {?count {n}} {?maxlen {n}}",
    "lmove {l} {l} {left|RIGHT|x} {left|right}",
    "rpoplpush {l} {l}",
    "lmpop {n} {l+} {left|right} {?count {n}}",
    "blpop {l} {l} 0.001",
    "blmove {l} {l} {left|right} {left|right} 0.001",
    "sort {l} alpha {?desc} {?limit {i} {n}} {?store {l}}",
    "sort {l} {?by h*->f1} {?get #} {?get h*->f1} {?limit {i} {n}} {?desc}",
    "sort_ro {l} alpha {?by nosort}",
];

const HASHES: &[&str] = &[
    "{hset|hset|hmset} {h} {fv+}",
    "hset {h} {fv+}",
    "hsetnx {h} {f} {v}",
    "hget {h} {f}",
    "hmget {h} {f+}",
    "hgetall {h}",
    "{hkeys|hvals} {h}",
    "hlen {h}",
    "hstrlen {h} {f}",
    "hexists {h} {f}",
    "hdel {h} {f+}",
    "hdel {h} {f+}",
    "hincrby {h} {f} {i}",
    "hincrbyfloat {h} {f} {x}",
    "hrandfield {h}",
    "hrandfield {h} {j} {?withvalues}",
];

const SETS: &[&str] = &[
    "sadd {s} {m+}",
    "sadd {s} {m+}",
    "sadd {s} {i} {i} {i} {i}",
    "srem {s} {m+}",
    "srem {s} {m+}",
    "sismember {s} {m}",
    "smismember {s} {m+}",
    "smembers {s}",
    "scard {s}",
    "smove {s} {s} {m}",
    "spop {s} 100000",
    "srandmember {s}",
    "srandmember {s} {j}",
    "{sinter|sunion|sdiff} {s+}",
    "{sinterstore|sunionstore|sdiffstore} {s} {s+}",
    "sintercard {n} {s+} {?limit {n}}",
    "sort {s} alpha {?desc} {?limit {i} {n}}",
    "sort {s} {?get #} alpha store {l}",
];

const SORTED: &[&str] = &[
    "zadd {z} {?nx|xx|gt|lt} {?ch} {xm+}",
    "zadd {z} {xm+}",
    "zadd {z} {xm+}",
    "zadd {z} {?nx|xx|gt|lt} {?ch} incr {x} {m}",
    "zincrby {z} {x} {m}",
    "zrem {z} {m+}",
    "zrem {z} {m+}",
    "zcard {z}",
    "zscore {z} {m}",
    "zmscore {z} {m+}",
    "{zrank|zrevrank} {z} {m}",
    "zcount {z} {b} {b}",
    "zadd {q} 0 {m} 0 {m} 0 {m}",
    "zrem {q} {m+}",
    "zlexcount {q} {y} {y}",
    "{zrange|zrevrange} {z} {i} {i} {?withscores}",
    "zrange {z} {b} {b} byscore {?rev} {?limit {i} {n}} {?withscores}",
    "zrange {q} {y} {y} bylex {?rev} {?limit {i} {n}}",
    "zrangestore {z} {z} {i} {i} {?rev}",
    "zrangestore {z} {z} {b} {b} byscore {?rev} {?limit {i} {n}}",
    "{zrangebyscore|zrevrangebyscore} {z} {b} {b} {?withscores} {?limit {i} {n}}",
    "{zrangebylex|zrevrangebylex} {q} {y} {y} {?limit {i} {n}}",
    "zremrangebyrank {z} {i} {i}",
    "zremrangebyscore {z} {b} {b}",
    "zremrangebylex {q} {y} {y}",
    "{zpopmin|zpopmax} {z}",
    "{zpopmin|zpopmax} {z} {n}",
    "zmpop {n} {z+} {min|MAX} {?count {n}}",
    "bzpopmin {z} {z} 0.001",
    "zrandmember {z}",
    "zrandmember {z} {j} {?withscores}",
    "{zunion|zinter} 2 {z} {z|s} {?weights {x} {x}} {?aggregate {sum|min|max|x}} {?withscores}",
    "{zunionstore|zinterstore} {z} 2 {z} {z|s} {?weights {x} {x}} {?aggregate {sum|min|max}}",
    "zdiff 2 {z} {z|s} {?withscores}",
    "zdiffstore {z} {n} {z+}",
    "zintercard 2 {z} {z|s} {?limit {n}}",
    "sort {z} {?desc} alpha {?limit {i} {n}}",
    "sort {z} by nosort {?desc} alpha",
];

const GEO: &[&str] = &[
    "geoadd {g} {?nx|xx} {?ch} {pm+}",
    "geoadd {g} {pm+}",
    "geoadd {g} {pm+}",
    "zrem {g} {m+}",
    "geopos {g} {m+}",
    "geohash {g} {m+}",
    "geodist {g} {m} {m} {?m|KM|ft|mi|x}",
    "geosearch {g} fromlonlat {p} byradius {r} {?withcoord} {?withdist} {?withhash} {?count {n}} {?asc|desc}",
    "geosearch {g} frommember {m} byradius {r} {?withdist} {?asc|desc} {?count {n}} {?any}",
    "geosearch {g} fromlonlat {p} bybox {e} {r} {?withcoord} {?withdist} {?withhash} {?asc|desc}",
    "geosearch {g} frommember {m} bybox {e} {r} {?withdist} {?count {n} any} {?asc|desc}",
    "geosearch {g} {?frommember {m}} {?fromlonlat {p}} {?bybox {e} {r}} {?byradius {r}}",
    "geosearchstore {g} {g} fromlonlat {p} byradius {r} {?count {n}} {?asc|desc} {?storedist}",
    "geosearchstore {g} {g} frommember {m} bybox {e} {r} {?withdist} {?storedist}",
    "georadius {g} {p} {r} {?withcoord} {?withdist} {?withhash} {?count {n}} {?asc|desc} {?store {g}} {?storedist {g}}",
    "georadiusbymember {g} {m} {r} {?withdist} {?withhash} {?count {n} any} {?asc|desc} {?storedist {g}} {?store {g}}",
    "georadius_ro {g} {p} {r} {?withcoord} {?asc|desc} {?store {g}}",
    "georadiusbymember_ro {g} {m} {r} {?withdist} {?count {n}}",
    "zrange {g} 0 -1 withscores",
];

/// Streams. The clock makes no ID: it would be another one on the other server.
const STREAMS: &[&str] = &[
    "xadd {t} {?nomkstream} {w} {fv+}",
    "xadd {t} {w} f1 {v}",
    "xadd {t} {w} f1 {v} f2 {v}",
    "xadd {t} {?nomkstream} {?maxlen {n}} {?minid {d}} {?limit {n}} {w} f1 {v}",
    "xadd {t} {maxlen|maxlen|minid} {~|=} {n} {?limit {n}} {w} f1 {v}",
    "xlen {t}",
    "xrange {t} {a} {a} {?count {n}}",
    "xrange {t} - + {?count {n}}",
    "xrevrange {t} {a} {a} {?count {n}}",
    "xrevrange {t} + - {?count {n}}",
    "xdel {t} {d+}",
    "xdel {t} {d} {d}",
    "xtrim {t} maxlen {~|=} {n} {?limit {n}}",
    "xtrim {t} {maxlen|minid} {d}",
    "xtrim {t} minid {~|=} {d} {?limit {n}}",
    "xsetid {t} {d} {?entriesadded {n}} {?maxdeletedid {d}}",
    "xsetid {t} {d}",
    "xinfo stream {t}",
    "xinfo stream {t} full {?count {n}}",
    "xread {?count {n}} streams {t} {d}",
    "xread {?count {n}} streams {t} {t} {d} 0",
    "xread streams {t} $",
    "xgroup create {t} {g1|g2} $ mkstream",
    "xgroup create {t} {g1|g2} {d} {?mkstream} {?entriesread {n}}",
    "xgroup setid {t} {g1|g2} {d} {?entriesread {n}}",
    "xgroup destroy {t} {g1|g2}",
    "xgroup createconsumer {t} {g1|g2} {c1|c2|c3}",
    "xgroup delconsumer {t} {g1|g2} {c1|c2|c3}",
    "xreadgroup group {g1|g2} {c1|c2|c3} {?count {n}} streams {t} >",
    "xreadgroup group {g1|g2} {c1|c2|c3} {?count {n}} {?noack} streams {t} {t} > >",
    "xreadgroup group {g1|g2} {c1|c2|c3} {?count {n}} streams {t} {d}",
    "xack {t} {g1|g2} {d+}",
    "xpending {t} {g1|g2}",
    "xclaim {t} {g1|g2} {c1|c2|c3} 0 {d+} {?force} {?retrycount {n}} {?justid} {?lastid {d}}",
    "xclaim {t} {g1|g2} {c1|c2|c3} {0|1000000} {d} {d} idle 100000 {?retrycount {n}}",
    "xautoclaim {t} {g1|g2} {c1|c2|c3} 0 {d} {?count {n}} {?justid}",
    "xautoclaim {t} {g1|g2} {c1|c2|c3} 1000000000 {d} {?count {n}} {?justid}",
    "xinfo groups {t}",
    "xinfo help",
];

/// Settings that force encodings through their limits.
const LIMITS: &[&str] = &[
    "config set list-max-listpack-size {-1|-2|-3|-5|1|2|5|100|16384|0}",
    "config set list-max-ziplist-size {-2|4}",
    "config set list-compress-depth {0|0|1|2|5}",
    "config set hash-max-listpack-entries {0|1|4|16|128|512}",
    "config set hash-max-ziplist-value {0|8|64|64|1000}",
    "config set set-max-intset-entries {0|1|4|16|512}",
    "config set zset-max-listpack-entries {0|1|4|16|128}",
    "config set zset-max-ziplist-value {0|8|64|64|1000}",
    "config set stream-node-max-entries {1|2|3|100}",
    "config set stream-node-max-bytes {0|100|4096}",
    "config set stream-node-max-entries 100 stream-node-max-bytes 4096 hash-max-listpack-entries 512 hash-max-listpack-value 64 set-max-intset-entries 512 \
     zset-max-listpack-entries 128 zset-max-listpack-value 64 list-max-listpack-size -2",
];

const ABOUT: &[&str] = &[
    "object encoding {l|h|s|z|t}",
    "type {l|h|s|z|t}",
    "{del|unlink} {l|h|s|z|t}",
    "rename {l} {l}",
    "rename {h} {h}",
    "rename {s} {s}",
    "renamenx {z} {z}",
    "rename {t} {t}",
    "copy {l|h|s|z|t} {l|h|s|z|t} {?replace}",
    "move {l|h|s|z|t} {0|1}",
    "expire {l|h|s|z|t} 100000",
    "persist {l|h|s|z|t}",
    "debug digest-value {l|h|s|z|t}",
];

fn key(random: &mut Random, letter: char) -> Arg {
    let letter =
        if letter != 'q' && random.one_in(80) { *random.pick(&['l', 'h', 's', 'z', 't', 'k']) } else { letter };
    let n = if random.one_in(2) { random.below(3) } else { random.below(12) };
    format!("{letter}{n}").into_bytes()
}

/// An element: a number, a short word, or something on either side of the limits' sizes. No zero bytes: the peer's
/// SORT ALPHA compares up to the first, and leaves the order of what is equal up to there to chance.
fn element(random: &mut Random, pool: usize) -> Arg {
    let mut element = any_element(random, pool);
    element.iter_mut().filter(|byte| **byte == 0).for_each(|byte| *byte = b'0');
    element
}

fn any_element(random: &mut Random, pool: usize) -> Arg {
    match random.below(12) {
        0 => spell::number(random),
        1 => {
            let length = *random.pick(&[0, 7, 8, 9, 11, 12, 62, 63, 64, 65, 66, 127, 128, 255, 256, 1001]);
            vec![b'a' + random.below(3) as u8; length]
        }
        2 if random.one_in(40) => vec![b'L'; *random.pick(&[4000, 4096, 8100, 8192, 16_400, 70_000, 300_000])],
        3 => spell::value(random),
        4..=6 => (random.below(pool) as i64 - 5).to_string().into_bytes(),
        _ => format!("f{}", random.below(pool)).into_bytes(),
    }
}

fn score(random: &mut Random) -> Arg {
    match random.below(10) {
        0 => spell::float(random),
        1 => random.pick(&["inf", "-inf", "+inf", "nan", "1e300", "-1e300", "0", "-0", "x"]).as_bytes().to_vec(),
        2 | 3 => format!("{}.{}", random.below(20) as i64 - 5, random.below(100)).into_bytes(),
        _ => (random.below(30) as i64 - 5).to_string().into_bytes(),
    }
}

/// A longitude and a latitude: near a few places, so that searches find something, everywhere, or nowhere. With seven
/// digits, hardly any two are equally far from a third: the order of those would be chance.
fn position(random: &mut Random) -> [Arg; 2] {
    let mut degrees =
        |middle: f64, around: f64| middle + (random.below(20_000_001) as f64 / 10_000_000.0 - 1.0) * around;
    let (longitude, latitude) = match degrees(0.0, 5.0) {
        x if x < 0.0 => (degrees(13.4, 0.3), degrees(38.1, 0.3)),
        x if x < 2.0 => (degrees(179.9, 0.2), degrees(-17.0, 1.0)),
        x if x < 2.8 => (degrees(-20.0, 10.0), degrees(82.0, 3.1)),
        x if x < 4.8 => (degrees(0.0, 180.0), degrees(0.0, 85.05)),
        _ => (degrees(0.0, 200.0), degrees(0.0, 100.0)),
    };
    let text =
        |degrees: f64| if random.one_in(100) { spell::float(random) } else { format!("{degrees:.7}").into_bytes() };
    [longitude, latitude].map(text)
}

/// A length of any size, from a metre to the earth's, and now and then no number.
fn length(random: &mut Random) -> Arg {
    match random.below(40) {
        0 => spell::float(random),
        1 => random.pick(&["0", "-1", "x", "inf", "1e300"]).as_bytes().to_vec(),
        size => format!("{:.3}", 10_f64.powf(size as f64 / 5.0)).into_bytes(),
    }
}

/// The ID of an entry, near those that there are.
fn id(random: &mut Random) -> Arg {
    match random.below(20) {
        0 => random
            .pick(&["-", "+", "x", "0", "0-0", "5-x", "18446744073709551615-18446744073709551615"])
            .as_bytes()
            .to_vec(),
        1 | 2 => random.below(6).to_string().into_bytes(),
        _ => format!("{}-{}", 1 + random.below(4), random.below(30)).into_bytes(),
    }
}

fn several(random: &mut Random) -> usize {
    match random.below(40) {
        0 => 100 + random.below(500),
        1..=4 => 5 + random.below(30),
        _ => 1 + random.below(3),
    }
}

/// Pools of elements: mostly few, so that they are met again; now and then many, so that collections grow.
fn pool(random: &mut Random) -> usize {
    *random.pick(&[10, 40, 40, 1000])
}

/// Which collections the commands are on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Types {
    wanted: [bool; 6],
    alone: bool,
    /// Commands that are newer than 7.0.15, and nothing else.
    newer: bool,
    /// Nine of ten commands run scripts.
    scripts: bool,
}

const NAMES: [&str; 6] = ["lists", "hashes", "sets", "sorted", "geo", "streams"];

impl Types {
    /// All of them, among all other commands.
    pub const ALL: Types = Types { wanted: [true; 6], alone: false, newer: false, scripts: false };
    /// Scripts, and a few of all other commands, so that there are values that they find.
    pub const SCRIPTS: Types = Types { scripts: true, ..Types::ALL };
    /// Commands that are newer than 7.0.15, for a valkey-server as the peer.
    pub const NEWER: Types = Types { wanted: [false; 6], alone: true, newer: true, scripts: false };

    /// Those named, all if none is; with `alone` no other commands at all.
    #[must_use]
    pub fn named(names: &[String]) -> Types {
        let wanted = NAMES.map(|name| names.iter().any(|n| n == name));
        let none = !wanted.contains(&true);
        let wanted = if none { [true; 6] } else { wanted };
        Types { wanted, alone: names.iter().any(|n| n == "alone"), ..Types::ALL }
    }

    pub(crate) fn alone(self) -> bool {
        self.alone
    }

    pub(crate) fn are_scripts(self) -> bool {
        self.scripts
    }

    /// A pick of these is a pick of types, sorted sets with the greatest weight.
    fn tables(self) -> Vec<&'static [&'static str]> {
        let all = [(LISTS, 5), (HASHES, 4), (SETS, 4), (SORTED, 6), (GEO, 3), (STREAMS, 5)];
        let wanted = all.iter().zip(self.wanted).filter(|(_, wanted)| *wanted);
        wanted.flat_map(|((table, weight), _)| std::iter::repeat_n(*table, *weight)).collect()
    }
}

impl Generator {
    /// One command on collections.
    pub(crate) fn collection(&mut self) -> Vec<Arg> {
        let r = &mut self.random;
        let table = match r.below(100) {
            _ if self.types.newer => NEWER,
            90..=98 => ABOUT,
            99 => LIMITS,
            _ => r.pick(&self.types.tables()),
        };
        let template = *r.pick(table);
        let mut args = Vec::new();
        fill(r, template, &mut args);
        // The peer fails to sort by numbers once any command has met a number out of range: its error is excused, but the
        // counts of errors, which commands of other groups ask for, would differ from then on.
        let by_number = args[0].starts_with(b"sort") && !args.iter().any(|arg| arg == b"alpha");
        if by_number && !self.types.alone() {
            // Nor by what is equal: its order is chance.
            if let Some(at) = args.iter().position(|arg| arg == b"by") {
                args.drain(at..at + 2);
            }
            args.push(b"alpha".to_vec());
        }
        args
    }

    /// A whole HSCAN, SSCAN or ZSCAN.
    pub(crate) fn scan_within(&mut self) -> Step {
        let r = &mut self.random;
        let mut args = Vec::new();
        let template = r.pick(&[
            "hscan {h} 0 {?match f*} {?count {n}}",
            "sscan {s} 0 {?match *1*} {?count {n}}",
            "zscan {z} 0 {?match f?} {?count {n}}",
        ]);
        fill(r, template, &mut args);
        Step { args, kind: Kind::Scan }
    }
}

/// All templates.
#[must_use]
pub fn templates() -> Vec<&'static str> {
    [LISTS, HASHES, SETS, SORTED, GEO, STREAMS, LIMITS, ABOUT, NEWER].concat()
}

/// Expands a template.
///
/// # Panics
/// It has a mark that is none.
pub fn fill(random: &mut Random, template: &str, args: &mut Vec<Arg>) {
    for token in tokens(template) {
        let Some(mark) = token.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')) else {
            args.push(token.as_bytes().to_vec());
            continue;
        };
        if let Some(rest) = mark.strip_prefix('?') {
            if random.one_in(3) {
                let words: Vec<&str> = if rest.contains([' ', '{']) { vec![rest] } else { rest.split('|').collect() };
                let word = *random.pick(&words);
                fill(random, word, args);
            }
            continue;
        }
        fill_mark(random, mark, args);
    }
}

fn fill_mark(random: &mut Random, mark: &str, args: &mut Vec<Arg>) {
    if mark.contains('|') {
        let words: Vec<&str> = mark.split('|').collect();
        let word = *random.pick(&words);
        let is_key = word.len() == 1 && "lhszt".contains(word);
        let chosen = if is_key { key(random, word.chars().next().unwrap_or('k')) } else { word.as_bytes().to_vec() };
        return args.push(chosen);
    }
    let (name, many) = mark.strip_suffix('+').map_or((mark, false), |name| (name, true));
    if let ("l" | "h" | "s" | "z" | "q" | "g" | "t", letter) = (name, name.chars().next().unwrap_or('k')) {
        let count = if many { 1 + random.below(3) } else { 1 };
        return args.extend((0..count).map(|_| key(random, letter)));
    }
    let count = if many { several(random) } else { 1 };
    let pool = pool(random);
    for _ in 0..count {
        match name {
            "v" | "f" | "m" => args.push(element(random, pool)),
            "fv" => args.extend([element(random, pool), element(random, pool)]),
            "xm" => args.extend([score(random), element(random, pool)]),
            "pm" => args.extend(position(random).into_iter().chain([element(random, pool)])),
            "p" => args.extend(position(random)),
            "r" => {
                args.extend([length(random), random.pick(&["m", "m", "km", "KM", "ft", "mi", "x"]).as_bytes().to_vec()])
            }
            "e" => args.push(length(random)),
            "x" => args.push(score(random)),
            "d" => args.push(id(random)),
            "w" => args.push(match random.below(20) {
                0 => id(random),
                1 => random.pick(&["x", "5-x", "-", "0-0", "0-*", "18446744073709551615-*"]).as_bytes().to_vec(),
                2..=4 => format!("{}-*", 2 + random.below(4)).into_bytes(),
                _ => b"1-*".to_vec(),
            }),
            "a" => {
                let end = id(random);
                args.push(if random.one_in(4) { [b"(".as_slice(), &end].concat() } else { end });
            }
            "i" => args.push(spell::small(random)),
            "j" => args.push(random.pick(&["0", "1", "3", "-1", "-4", "20", "-50", "x"]).as_bytes().to_vec()),
            "n" => args.push(random.pick(&["0", "1", "1", "2", "2", "3", "10", "100", "-1", "x"]).as_bytes().to_vec()),
            "b" => {
                let bound = score(random);
                args.push(if random.one_in(4) { [b"(".as_slice(), &bound].concat() } else { bound });
            }
            "y" => {
                let bound = match random.below(8) {
                    0 => b"-".to_vec(),
                    1 => b"+".to_vec(),
                    2 => element(random, pool),
                    3..=5 => [b"[".as_slice(), &element(random, pool)].concat(),
                    _ => [b"(".as_slice(), &element(random, pool)].concat(),
                };
                args.push(bound);
            }
            other => unreachable!("no mark {other}"),
        }
    }
}

/// The tokens of a template: words, and marks with what is nested in them.
#[must_use]
pub fn tokens(template: &str) -> Vec<&str> {
    let (mut tokens, mut depth, mut start) = (Vec::new(), 0, 0);
    for (at, c) in template.char_indices() {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            ' ' if depth == 0 => {
                if at > start {
                    tokens.push(&template[start..at]);
                }
                start = at + 1;
            }
            _ => {}
        }
    }
    if start < template.len() {
        tokens.push(&template[start..]);
    }
    tokens
}
