//! Collections by size: resident bytes over payload, and the CPU of what people ask of them, beside the peer.
//!
//! ```text
//! table   collections as people keep them: records, tags, scores
//! sizes   each type with 1 to 1 000 000 elements a collection
//! ops     what is asked of collections of 10 to 1 000 000 elements, pipelines of 16
//! ```
//! Each figure of bytes has servers of its own. There are as many collections as have the same payload together, whatever
//! their size: key and elements, a score as 8 bytes. They are written by commands of at most 50 elements, and looked at
//! after a rest.

use crate::contenders::{self, Contender};
use crate::load::Traffic;
use crate::report::{Row, Target};
use crate::turns::{Beside, beside, cpu_us, must, push, text};
use crate::{kept, say};
use std::io;
use std::time::Duration;
use varve_testkit::{Random, Server};

/// Elements that one command of a fill brings.
const STEP: u64 = 50;
/// Numbers of elements of a collection.
const SIZES: [u64; 9] = [1, 3, 10, 50, 200, 1_000, 5_000, 50_000, 1_000_000];
const QUICK_SIZES: [u64; 4] = [1, 10, 200, 5_000];
/// A figure may exceed its aim by this factor.
const TOLERANCE: f64 = 1.1;

/// Elements of one type and size.
#[derive(Clone, Copy)]
enum Elements {
    /// Bytes of a field and of its value.
    Hash(usize, usize),
    /// Bytes of a member.
    Set(usize),
    /// Bytes of a member.
    Zset(usize),
    /// Bytes of an element.
    List(usize),
}

/// A kind of collection.
#[derive(Clone, Copy)]
struct Shape {
    elements: Elements,
    /// Number of elements.
    size: u64,
    key_bytes: usize,
}

impl Shape {
    fn payload(&self) -> u64 {
        let element = match self.elements {
            Elements::Hash(field, value) => field + value,
            Elements::Set(bytes) | Elements::List(bytes) => bytes,
            Elements::Zset(member) => member + 8,
        };
        self.size * element as u64 + self.key_bytes as u64
    }

    fn key(&self, number: u64) -> Vec<u8> {
        name(b'k', number, self.key_bytes)
    }

    /// Writes one command that adds the elements `from..to` to a collection.
    fn add(&self, out: &mut Vec<u8>, number: u64, from: u64, to: u64) {
        let key = self.key(number);
        let mut words: Vec<Vec<u8>> = Vec::new();
        for n in from..to {
            match self.elements {
                Elements::Hash(field, value) => words.extend([name(b'f', n, field), text(number + n, value)]),
                Elements::Set(member) => words.push(name(b'm', n, member)),
                Elements::Zset(member) => words.extend([score(number + n), name(b'm', n, member)]),
                Elements::List(bytes) => words.push(text(number + n, bytes)),
            }
        }
        let command: &[u8] = match self.elements {
            Elements::Hash(..) => b"HSET",
            Elements::Set(_) => b"SADD",
            Elements::Zset(_) => b"ZADD",
            Elements::List(_) => b"RPUSH",
        };
        let parts: Vec<&[u8]> = [command, &key].into_iter().chain(words.iter().map(Vec::as_slice)).collect();
        push(out, &parts);
    }

    /// Writes `count` collections.
    fn fill(&self, server: &Server, count: u64) -> io::Result<()> {
        let commands = self.size.div_ceil(STEP);
        let plan = Traffic { connections: 1, pipeline: 50, requests: count * commands };
        let mut n = 0;
        cpu_us(server, plan, &mut |out| {
            // Round by round over all collections, in the way in which they grow in life.
            let (number, step) = (n % count, n / count);
            self.add(out, number, step * STEP, ((step + 1) * STEP).min(self.size));
            n += 1;
        })
        .map(|_| ())
    }
}

/// A letter and a number, in `bytes` bytes: no number itself.
fn name(letter: u8, number: u64, bytes: usize) -> Vec<u8> {
    let mut name = format!("{number:0bytes$}").into_bytes();
    name[0] = letter;
    name
}

fn score(n: u64) -> Vec<u8> {
    (n.wrapping_mul(7_368_787) % 1_000_003).to_string().into_bytes()
}

/// A row of resident bytes beyond an empty server over payload.
fn ratios(name: String, shape: &Shape, quick: bool) -> io::Result<Row> {
    let payload: u64 = if quick { 1 << 20 } else { 64 << 20 };
    let count = (payload / shape.payload()).max(1);
    let all = kept::case(&name, || {
        contenders::one_by_one(&[], &mut |server| {
            // The pages of the program are there before memory is measured.
            Shape { size: shape.size.min(200), ..*shape }.fill(server, 20)?;
            must(&mut server.connect()?, "FLUSHALL")?;
            std::thread::sleep(Duration::from_millis(if quick { 100 } else { 300 }));
            let before = server.memory()?.resident;
            shape.fill(server, count)?;
            std::thread::sleep(Duration::from_millis(if quick { 100 } else { 10_000 }));
            Ok(vec![server.memory()?.resident.saturating_sub(before) as f64 / (count * shape.payload()) as f64])
        })
    })?;
    say!("{name}: {all:.3?}");
    Ok(Row::new(name, "times", contenders::column(&all, 0)))
}

/// Measures the collections that people keep.
///
/// # Errors
/// When a server cannot be started or is lost.
pub(crate) fn table(quick: bool, rows: &mut Vec<Row>) -> io::Result<()> {
    let small = |elements, size, key_bytes| Shape { elements, size, key_bytes };
    let shapes = [
        ("hash of 10 fields of 100 B", small(Elements::Hash(6, 94), 10, 16), 1.12),
        ("hash of 5 fields of 200 B", small(Elements::Hash(6, 194), 5, 16), 1.12),
        ("sorted set of 5 members of 80 B", small(Elements::Zset(80), 5, 16), 1.35),
        ("set of 3 short words", small(Elements::Set(6), 3, 23), 2.0),
        ("set of 20 members of 20 B", small(Elements::Set(20), 20, 16), 1.2),
        ("hash of 200 fields, values of 8 B", small(Elements::Hash(8, 8), 200, 16), 1.25),
        ("list of 5 elements of 100 B", small(Elements::List(100), 5, 16), 1.12),
        ("set of 1 M members of 16 B", small(Elements::Set(16), 1_000_000, 16), 1.40),
        ("hash of 1 M fields, 16 + 32 B", small(Elements::Hash(16, 32), 1_000_000, 16), 1.22),
        ("sorted set of 1 M members of 16 B", small(Elements::Zset(16), 1_000_000, 16), 1.50),
    ];
    for (name, shape, aim) in shapes {
        let shape = if quick { Shape { size: shape.size.min(2_000), ..shape } } else { shape };
        rows.push(ratios(name.to_string(), &shape, quick)?.at_most(Target::AtMost(aim * TOLERANCE)));
    }
    Ok(())
}

/// Measures each type by the number of elements.
///
/// # Errors
/// When a server cannot be started or is lost.
pub(crate) fn sizes(quick: bool, rows: &mut Vec<Row>) -> io::Result<()> {
    let types = [
        ("hash 16+32 B", Elements::Hash(16, 32)),
        ("set 16 B", Elements::Set(16)),
        ("zset 16 B", Elements::Zset(16)),
        ("list 40 B", Elements::List(40)),
    ];
    for (kind, elements) in types {
        for &size in if quick { &QUICK_SIZES[..] } else { &SIZES } {
            let name = format!("{kind}, {size} a collection");
            rows.push(ratios(name, &Shape { elements, size, key_bytes: 16 }, quick)?);
        }
    }
    Ok(())
}

/// The part of a collection that a request is about.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Asks {
    /// An element, drawn for each request.
    One,
    /// An element, drawn for two requests that follow each other.
    InTurn,
    /// All elements.
    All,
}

/// The words of a command: of a key, an element, and a number that is even and odd in turn.
type Words = fn(&[u8], &[u8], u64) -> Vec<Vec<u8>>;

/// A request on a collection.
struct Op {
    name: &'static str,
    elements: Elements,
    /// Most of the peer's CPU.
    most: f64,
    asks: Asks,
    words: Words,
}

fn words(parts: &[&[u8]]) -> Vec<Vec<u8>> {
    parts.iter().map(|part| part.to_vec()).collect()
}

const HASH: Elements = Elements::Hash(16, 32);
const SET: Elements = Elements::Set(16);
const ZSET: Elements = Elements::Zset(16);

const fn op(name: &'static str, elements: Elements, (most, asks): (f64, Asks), words: Words) -> Op {
    Op { name, elements, most, asks, words }
}

const OPS: [Op; 14] = [
    op("HGET", HASH, (0.5, Asks::One), |key, name, _| words(&[b"HGET", key, name])),
    op("HSET", HASH, (0.6, Asks::One), |key, name, n| words(&[b"HSET", key, name, &text(n, 32)])),
    op("HDEL, HSET in turn", HASH, (0.6, Asks::InTurn), |key, name, n| match n % 2 {
        0 => words(&[b"HDEL", key, name]),
        _ => words(&[b"HSET", key, name, &text(n, 32)]),
    }),
    op("HGETALL", HASH, (0.4, Asks::All), |key, _, _| words(&[b"HGETALL", key])),
    op("SISMEMBER", SET, (0.5, Asks::One), |key, name, _| words(&[b"SISMEMBER", key, name])),
    op("SADD of one that is there", SET, (0.6, Asks::One), |key, name, _| words(&[b"SADD", key, name])),
    op("SREM, SADD in turn", SET, (0.6, Asks::InTurn), |key, name, n| match n % 2 {
        0 => words(&[b"SREM", key, name]),
        _ => words(&[b"SADD", key, name]),
    }),
    op("SMEMBERS", SET, (0.4, Asks::All), |key, _, _| words(&[b"SMEMBERS", key])),
    // Behind the others of sets: it adds fewer than it takes.
    op("SPOP, SADD in turn", SET, (0.6, Asks::InTurn), |key, name, n| match n % 2 {
        0 => words(&[b"SPOP", key]),
        _ => words(&[b"SADD", key, name]),
    }),
    op("ZSCORE", ZSET, (0.5, Asks::One), |key, name, _| words(&[b"ZSCORE", key, name])),
    op("ZADD", ZSET, (0.6, Asks::One), |key, name, n| words(&[b"ZADD", key, &score(n), name])),
    op("ZREM, ZADD in turn", ZSET, (0.6, Asks::InTurn), |key, name, n| match n % 2 {
        0 => words(&[b"ZREM", key, name]),
        _ => words(&[b"ZADD", key, &score(n), name]),
    }),
    op("ZRANGE", ZSET, (0.4, Asks::All), |key, _, _| words(&[b"ZRANGE", key, b"0", b"-1"])),
    op("ZRANK", ZSET, (0.5, Asks::One), |key, name, _| words(&[b"ZRANK", key, name])),
];

/// Measures the CPU of requests on collections of some sizes.
///
/// # Errors
/// When a server cannot be started or is lost.
pub(crate) fn ops(quick: bool, rows: &mut Vec<Row>) -> io::Result<()> {
    let sizes: &[u64] = if quick { &[10, 200] } else { &[10, 200, 20_000, 1_000_000] };
    for &size in sizes {
        let elements: u64 = if quick { 2_000 } else { size.max(200_000) };
        let count = elements / size;
        for elements in [HASH, SET, ZSET] {
            let contenders = contenders::start(&[])?;
            let shape = Shape { elements, size, key_bytes: 16 };
            for one in &contenders {
                shape.fill(&one.server, count)?;
            }
            let same = std::mem::discriminant(&elements);
            for op in OPS.iter().filter(|op| std::mem::discriminant(&op.elements) == same) {
                let name = format!("{} of {size}", op.name);
                let found = kept::case(&name, || cost(op, &shape, count, &contenders, quick))?;
                rows.extend(found.rows(&name, Some(Target::Ratio(op.most))));
            }
        }
    }
    Ok(())
}

/// The cost of a request, by turns that alternate.
fn cost(op: &Op, shape: &Shape, count: u64, contenders: &[Contender], quick: bool) -> io::Result<Beside> {
    let all: u64 = if quick { 2_000 } else { 200_000 };
    let requests = if op.asks == Asks::All { (all * 10 / shape.size).clamp(2, all) } else { all };
    let plan = Traffic { connections: 4, pipeline: 16, requests };
    beside(contenders, plan, if quick { 1 } else { 5 }, &|_| Ok(()), &|turn| {
        let (mut random, mut n, mut drawn) = (Random::new(turn), 0, (0, 0));
        Box::new(move |out| {
            if n % 2 == 0 || op.asks != Asks::InTurn {
                drawn = (random.below(count as usize) as u64, random.below(shape.size as usize) as u64);
            }
            let words = (op.words)(&shape.key(drawn.0), &name(letter(shape.elements), drawn.1, 16), n);
            push(out, &words.iter().map(Vec::as_slice).collect::<Vec<_>>());
            n += 1;
        })
    })
}

fn letter(elements: Elements) -> u8 {
    if matches!(elements, Elements::Hash(..)) { b'f' } else { b'm' }
}
