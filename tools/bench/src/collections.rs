//! `collections`: resident bytes over payload of big and small collections, and the CPU of what people do with them, beside
//! the peer.
//!
//! Payload is what the user put in: field and value, member, member and 8 bytes of score, element. Collections by their
//! size are in `sizes`.

use crate::contenders::{self, Contender};
use crate::load::Traffic;
use crate::report::{Findings, Row, Target, figures};
use crate::turns::{beside, cpu_us, must, push, random, resident, text};
use crate::{kept, say, sizes};
use std::io;
use varve_testkit::{Random, Server};

/// A shape of data, how its `n`th part is written, its payload a part, and the most that it may take.
struct Shape {
    name: &'static str,
    target: f64,
    payload: f64,
    write: fn(&mut Vec<u8>, u64),
}

const BIG: [Shape; 4] = [
    Shape { name: "hash 16+32 B", target: 1.45, payload: 48.0, write: hash_field },
    Shape { name: "set 16 B", target: 2.1, payload: 16.0, write: set_member },
    Shape { name: "zset 16 B + score", target: 2.2, payload: 24.0, write: zset_member },
    Shape { name: "list 40 B", target: 1.07, payload: 40.0, write: list_element },
];

const SMALL: [Shape; 2] = [
    Shape { name: "hashes of 8 fields", target: 1.4, payload: 8.0 * (6.0 + 12.0) + 16.0, write: small_hash },
    Shape { name: "sets of 32 integers", target: 1.4, payload: 32.0 * 4.0 + 16.0, write: small_set },
];

fn name16(letter: u8, n: u64) -> Vec<u8> {
    let mut name = format!("{n:016}").into_bytes();
    name[0] = letter;
    name
}

fn hash_field(out: &mut Vec<u8>, n: u64) {
    push(out, &[b"HSET", b"hash", &name16(b'f', n), &text(n, 32)]);
}

fn set_member(out: &mut Vec<u8>, n: u64) {
    push(out, &[b"SADD", b"set", &name16(b'm', n)]);
}

/// The scores are a permutation of the first million numbers or so, scattered.
fn score(n: u64) -> String {
    (n.wrapping_mul(7_368_787) % 2_000_003).to_string()
}

fn zset_member(out: &mut Vec<u8>, n: u64) {
    push(out, &[b"ZADD", b"zset", score(n).as_bytes(), &name16(b'm', n)]);
}

fn list_element(out: &mut Vec<u8>, n: u64) {
    push(out, &[b"RPUSH", b"list", &text(n, 40)]);
}

fn small_hash(out: &mut Vec<u8>, n: u64) {
    let key = name16(b'h', n);
    let parts: Vec<Vec<u8>> = (0..8).flat_map(|i| [format!("field{i}").into_bytes(), text(n * 8 + i, 12)]).collect();
    let mut args: Vec<&[u8]> = vec![b"HSET", &key];
    args.extend(parts.iter().map(Vec::as_slice));
    push(out, &args);
}

fn small_set(out: &mut Vec<u8>, n: u64) {
    let key = name16(b's', n);
    let parts: Vec<Vec<u8>> = (0..32).map(|i| (70_000 + n * 31 + i * 977).to_string().into_bytes()).collect();
    let mut args: Vec<&[u8]> = vec![b"SADD", &key];
    args.extend(parts.iter().map(Vec::as_slice));
    push(out, &args);
}

/// Runs the experiment, or one part of it.
///
/// # Errors
/// When a server cannot be started or is lost.
pub(crate) fn run(quick: bool, part: Option<&str>) -> io::Result<Findings> {
    let mut rows = Vec::new();
    if part.is_none_or(|part| part == "memory") {
        memory(quick, &mut rows)?;
    }
    if part.is_none_or(|part| part == "cpu") {
        cpu(quick, &mut rows)?;
    }
    if part.is_none_or(|part| part == "table") {
        sizes::table(quick, &mut rows)?;
    }
    if part.is_none_or(|part| part == "sizes") {
        sizes::sizes(quick, &mut rows)?;
    }
    if part.is_none_or(|part| part == "ops") {
        sizes::ops(quick, &mut rows)?;
    }
    if rows.is_empty() {
        return Err(io::Error::other("no such part: cpu, memory, table, sizes, ops"));
    }
    Ok(Findings::new("collections", "Collections by size").with(figures("Collections", &rows)))
}

fn fill(server: &Server, from: u64, to: u64, write: fn(&mut Vec<u8>, u64)) -> io::Result<()> {
    let mut n = from;
    let plan = Traffic { connections: 1, pipeline: 100, requests: to - from };
    cpu_us(server, plan, &mut |out| {
        write(out, n);
        n += 1;
    })
    .map(|_| ())
}

fn memory(quick: bool, rows: &mut Vec<Row>) -> io::Result<()> {
    let counts: Vec<u64> = if quick { vec![5_000, 10_000] } else { (5..=20).step_by(3).map(|t| t * 100_000).collect() };
    for shape in &BIG {
        rows.push(ratios(shape, &counts)?);
    }
    let counts: &[u64] = if quick { &[2_000] } else { &[100_000] };
    for shape in &SMALL {
        rows.push(ratios(shape, counts)?);
    }
    Ok(())
}

/// Has a server run through what it will be asked for, so that the pages of its program are there before memory is
/// measured.
fn warm(server: &Server, shape: &Shape) -> io::Result<()> {
    fill(server, 0, 2_000, shape.write)?;
    must(&mut server.connect()?, "FLUSHALL")?;
    Ok(())
}

/// The worst of resident bytes over payload as a shape grows.
fn ratios(shape: &Shape, counts: &[u64]) -> io::Result<Row> {
    let name = format!("resident over payload, {}", shape.name);
    let all = kept::case(&name, || {
        contenders::one_by_one(&[], &mut |server| {
            warm(server, shape)?;
            let start = resident(server)?;
            let (mut there, mut worst) = (0, 0.0_f64);
            for &count in counts {
                fill(server, there, count, shape.write)?;
                there = count;
                let ratio = (resident(server)? - start) / (count as f64 * shape.payload);
                say!("{} x {count}: {ratio:.2}", shape.name);
                worst = worst.max(ratio);
            }
            Ok(vec![worst])
        })
    })?;
    Ok(Row::new(name, "times", contenders::column(&all, 0)).at_most(Target::AtMost(shape.target)))
}

type Request = fn(&mut Vec<u8>, u64);

/// Common requests on a collection of `n` elements, each made from a random number.
const OPS: [(&str, Request); 9] = [
    ("HGET", |out, n| push(out, &[b"HGET", b"hash", &name16(b'f', n)])),
    ("HSET", hash_field),
    ("SADD", set_member),
    ("SISMEMBER", |out, n| push(out, &[b"SISMEMBER", b"set", &name16(b'm', n)])),
    ("ZADD", |out, n| push(out, &[b"ZADD", b"zset", score(n ^ 0x2a5a5).as_bytes(), &name16(b'm', n)])),
    ("ZSCORE", |out, n| push(out, &[b"ZSCORE", b"zset", &name16(b'm', n)])),
    ("ZRANK", |out, n| push(out, &[b"ZRANK", b"zset", &name16(b'm', n)])),
    ("ZRANGE of ten", |out, n| {
        push(out, &[b"ZRANGE", b"zset", n.to_string().as_bytes(), (n + 9).to_string().as_bytes()]);
    }),
    ("ZRANGEBYSCORE of ten", |out, n| {
        push(out, &[b"ZRANGEBYSCORE", b"zset", n.to_string().as_bytes(), b"+inf", b"LIMIT", b"0", b"10"]);
    }),
];

fn cpu(quick: bool, rows: &mut Vec<Row>) -> io::Result<()> {
    let elements: u64 = if quick { 5_000 } else { 1_000_000 };
    let requests = if quick { 2_000 } else { 300_000 };
    let contenders = contenders::start(&[])?;
    for one in &contenders {
        let filled = BIG.iter().try_for_each(|shape| fill(&one.server, 0, elements, shape.write).map(drop));
        contenders::spared(&one.name, one.role, filled)?;
    }
    let turns = if quick { 1 } else { 5 };
    let plan = Traffic { connections: 10, pipeline: 100, requests };
    for (name, request) in OPS {
        let write = |out: &mut Vec<u8>, random: &mut Random| request(out, random.below(elements as usize) as u64);
        let found = kept::case(name, || beside(&contenders, plan, turns, &|_| Ok(()), &random(write)))?;
        rows.extend(found.rows(name, Some(Target::Ratio(0.5))));
    }
    for key in ["hash", "set", "zset", "list"] {
        let name = format!("DEL of the {key}, for the caller");
        let times = kept::case(&name, || {
            let of = |one: &Contender| contenders::spared(&one.name, one.role, delete_ms(&one.server, key));
            contenders.iter().map(of).collect::<io::Result<Vec<Option<f64>>>>()
        })?;
        let times = times.into_iter().map(|time| time.unwrap_or(f64::NAN));
        rows.push(Row::new(name, "ms", times).at_most(Target::AtMost(0.2)));
    }
    Ok(())
}

/// Milliseconds of a DEL by the server's own count: what a loaded machine adds on the way is not the command's.
fn delete_ms(server: &Server, key: &str) -> io::Result<f64> {
    let mut client = server.connect()?;
    must(&mut client, "CONFIG RESETSTAT")?;
    must(&mut client, &format!("DEL {key}"))?;
    let stats = must(&mut client, "INFO commandstats")?.text();
    let spent = stats.lines().find_map(|line| line.strip_prefix("cmdstat_del:calls=1,usec=")?.split(',').next());
    let spent = spent.and_then(|number| number.parse::<f64>().ok());
    Ok(spent.ok_or_else(|| io::Error::other("no figure of DEL"))? / 1000.0)
}
