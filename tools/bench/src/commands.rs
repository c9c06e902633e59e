//! `commands`: server CPU per operation of redis-benchmark's default set and of MGET, HGET, ZRANGE, beside the peer and the floor.
//!
//! The requests are redis-benchmark's with its random keys: values of 3 bytes, 100 000 keys, one collection of each kind.
//! Commands that remove elements need a collection that holds enough of them: it is filled before each turn.

use crate::load::Traffic;
use crate::report::{Findings, figures};
use crate::turns::{beside, cpu_us, must, push, random};
use crate::{contenders, kept};
use std::io;
use varve_testkit::{Random, Server};

const CONNECTIONS: usize = 50;
const PIPELINES: [usize; 3] = [1, 16, 100];
const KEYS: usize = 100_000;
const DATA: &[u8] = b"xxx";
/// Requests with a random key after which nearly every key is there.
const FILL: u64 = 3 * KEYS as u64;
/// Requests of a quick fill.
const QUICK_FILL: u64 = 2_000;
/// Elements of the list that LRANGE reads.
const RANGE_LIST: u64 = 1000;

type Write = fn(&mut Vec<u8>, &mut Random);

/// A command of the table.
struct Case {
    name: &'static str,
    write: Write,
    before: Before,
    /// This command sends one `part`-th of the requests that the others send: for commands that take long.
    part: u64,
}

/// The data that is there when a turn begins.
enum Before {
    /// The data that the turns before have left.
    Nothing,
    /// A key is deleted and filled with as many requests as the turn is going to send.
    Enough(&'static str, Write),
    /// A key is deleted and filled with this number of requests.
    Filled(&'static str, Write, u64),
    /// All keys hold a value.
    Keys,
}

const fn case(name: &'static str, write: Write, before: Before) -> Case {
    Case { name, write, before, part: 1 }
}

const fn slow(name: &'static str, write: Write) -> Case {
    Case { name, write, before: Before::Filled("mylist", lpush, RANGE_LIST), part: 10 }
}

const CASES: &[Case] = &[
    case("PING_INLINE", |out, _| out.extend_from_slice(b"PING\r\n"), Before::Nothing),
    case("PING_MBULK", |out, _| push(out, &[b"PING"]), Before::Nothing),
    case("SET", set, Before::Nothing),
    case("GET", |out, random| push(out, &[b"GET", &key(b"key", random)]), Before::Keys),
    case("INCR", |out, random| push(out, &[b"INCR", &key(b"counter", random)]), Before::Nothing),
    case("LPUSH", lpush, Before::Filled("mylist", lpush, 0)),
    case("RPUSH", |out, _| push(out, &[b"RPUSH", b"mylist", DATA]), Before::Filled("mylist", lpush, 0)),
    case("LPOP", |out, _| push(out, &[b"LPOP", b"mylist"]), Before::Enough("mylist", lpush)),
    case("RPOP", |out, _| push(out, &[b"RPOP", b"mylist"]), Before::Enough("mylist", lpush)),
    case("SADD", sadd, Before::Filled("myset", sadd, 0)),
    case("HSET", hset, Before::Filled("myhash", hset, 0)),
    case("SPOP", |out, _| push(out, &[b"SPOP", b"myset"]), Before::Enough("myset", sadd_another)),
    case("ZADD", zadd, Before::Filled("myzset", zadd, 0)),
    case("ZPOPMIN", |out, _| push(out, &[b"ZPOPMIN", b"myzset"]), Before::Enough("myzset", zadd_another)),
    slow("LRANGE_100", |out, _| push(out, &[b"LRANGE", b"mylist", b"0", b"99"])),
    slow("LRANGE_300", |out, _| push(out, &[b"LRANGE", b"mylist", b"0", b"299"])),
    slow("LRANGE_500", |out, _| push(out, &[b"LRANGE", b"mylist", b"0", b"499"])),
    slow("LRANGE_600", |out, _| push(out, &[b"LRANGE", b"mylist", b"0", b"599"])),
    case("MSET (10 keys)", mset, Before::Nothing),
    case("MGET (10 keys)", mget, Before::Keys),
    case("HGET", hget, Before::Filled("myhash", hset, FILL)),
    case("ZRANGE (10)", zrange, Before::Filled("myzset", zadd, FILL)),
];

/// `prefix:` and twelve digits.
fn key(prefix: &[u8], random: &mut Random) -> Vec<u8> {
    numbered(prefix, random.below(KEYS))
}

/// A name from a range so large that it hardly comes twice.
fn another(random: &mut Random) -> Vec<u8> {
    numbered(b"element", random.below(1_000_000_000_000))
}

fn numbered(prefix: &[u8], number: usize) -> Vec<u8> {
    let mut key = prefix.to_vec();
    key.extend_from_slice(format!(":{number:012}").as_bytes());
    key
}

fn set(out: &mut Vec<u8>, random: &mut Random) {
    push(out, &[b"SET", &key(b"key", random), DATA]);
}

fn lpush(out: &mut Vec<u8>, _: &mut Random) {
    push(out, &[b"LPUSH", b"mylist", DATA]);
}

fn sadd(out: &mut Vec<u8>, random: &mut Random) {
    push(out, &[b"SADD", b"myset", &key(b"element", random)]);
}

fn sadd_another(out: &mut Vec<u8>, random: &mut Random) {
    push(out, &[b"SADD", b"myset", &another(random)]);
}

fn hget(out: &mut Vec<u8>, random: &mut Random) {
    push(out, &[b"HGET", b"myhash", &key(b"element", random)]);
}

fn hset(out: &mut Vec<u8>, random: &mut Random) {
    push(out, &[b"HSET", b"myhash", &key(b"element", random), DATA]);
}

fn zadd(out: &mut Vec<u8>, random: &mut Random) {
    push(out, &[b"ZADD", b"myzset", b"0", &key(b"element", random)]);
}

fn zadd_another(out: &mut Vec<u8>, random: &mut Random) {
    push(out, &[b"ZADD", b"myzset", b"0", &another(random)]);
}

fn zrange(out: &mut Vec<u8>, random: &mut Random) {
    let first = random.below(1000);
    push(out, &[b"ZRANGE", b"myzset", first.to_string().as_bytes(), (first + 9).to_string().as_bytes()]);
}

fn mset(out: &mut Vec<u8>, random: &mut Random) {
    let keys: Vec<Vec<u8>> = (0..10).map(|_| key(b"key", random)).collect();
    let mut words: Vec<&[u8]> = vec![b"MSET"];
    words.extend(keys.iter().flat_map(|key| [key.as_slice(), DATA]));
    push(out, &words);
}

fn mget(out: &mut Vec<u8>, random: &mut Random) {
    let keys: Vec<Vec<u8>> = (0..10).map(|_| key(b"key", random)).collect();
    let mut words: Vec<&[u8]> = vec![b"MGET"];
    words.extend(keys.iter().map(Vec::as_slice));
    push(out, &words);
}

/// Runs the table, or some commands of it, or one pipeline.
///
/// # Errors
/// When a server cannot be started, is lost, or answers an error.
pub(crate) fn run(quick: bool, only: Option<&str>, pipeline: Option<usize>) -> io::Result<Findings> {
    let turns = if quick { 1 } else { 3 };
    let contenders = contenders::start(&[])?;
    let mut rows = Vec::new();
    let wanted = |case: &&Case| only.is_none_or(|name| case.name.to_lowercase().starts_with(&name.to_lowercase()));
    let pipelines = PIPELINES.into_iter().filter(|&length| pipeline.is_none_or(|wanted| wanted == length));
    for pipeline in pipelines {
        let requests = match (quick, pipeline) {
            (true, _) => 2_000,
            (false, 1) => 100_000,
            (false, _) => 300_000,
        };
        for case in CASES.iter().filter(wanted) {
            let plan = Traffic { connections: CONNECTIONS, pipeline, requests: requests / case.part };
            let name = format!("{}, pipeline {pipeline}", case.name);
            let before = |server: &Server| prepare(server, case, plan.requests, quick);
            let found = kept::case(&name, || beside(&contenders, plan, turns, &before, &random(case.write)))?;
            rows.extend(found.rows(&name, None));
        }
    }
    if rows.is_empty() {
        return Err(io::Error::other("no such command or pipeline in the table"));
    }
    Ok(Findings::new("commands", "redis-benchmark's commands").with(figures("Commands", &rows)))
}

fn prepare(server: &Server, case: &Case, requests: u64, quick: bool) -> io::Result<()> {
    let (key, write, fill) = match case.before {
        Before::Nothing => return Ok(()),
        Before::Keys => ("mylist", set as Write, FILL),
        Before::Enough(key, write) => (key, write, requests),
        Before::Filled(key, write, fill) => (key, write, fill),
    };
    let fill = if quick { fill.min(QUICK_FILL) } else { fill };
    must(&mut server.connect()?, &format!("DEL {key}"))?;
    let mut random = Random::new(99);
    let plan = Traffic { connections: 1, pipeline: 100, requests: fill };
    if fill > 0 {
        cpu_us(server, plan, &mut |out| write(out, &mut random))?;
    }
    Ok(())
}
