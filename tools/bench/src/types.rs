//! `types`: bytes and CPU of streams, pending entries, fields that expire, geo sets, HyperLogLogs and bitmaps, beside the
//! peer and the floor. A server without fields that expire has no figures of them: redis-server 7.0.15 is one, and `--rival` or
//! `VARVE_PEER` may name a newer one.

use crate::contenders::{self, Contender};
use crate::floor::Under;
use crate::load::Traffic;
use crate::report::{Findings, Role, Row, Target, figures};
use crate::turns::{beside, cpu_us, must, pace, push, random, resident, text};
use crate::{kept, say};
use std::io;
use std::time::Instant;
use varve_testkit::{Random, Server};

type Request = fn(&mut Vec<u8>, u64);
/// Measures, quickly or not, and adds its rows.
type Part = fn(bool, &mut Vec<Row>) -> io::Result<()>;

/// The parts, in order, and what each is.
const PARTS: [(&str, Part); 6] = [
    ("streams", streams),
    ("pending", pending),
    ("fields", fields),
    ("geo", geo),
    ("hyperloglog", hyperloglog),
    ("bitmaps", bitmaps),
];

/// Runs the experiment, or one part of it.
///
/// # Errors
/// When a server cannot be started or is lost, or there is no such part.
pub(crate) fn run(quick: bool, part: Option<&str>) -> io::Result<Findings> {
    let mut rows = Vec::new();
    let mut found = false;
    for (name, run) in PARTS {
        if part.is_none_or(|part| part == name) {
            found = true;
            run(quick, &mut rows)?;
        }
    }
    if !found {
        let names = PARTS.map(|(name, _)| name).join(", ");
        return Err(io::Error::other(format!("no such part: {names}")));
    }
    let findings = Findings::new("types", "Streams, geo, HyperLogLog, bitmaps, fields that expire");
    let findings = findings.with(figures("Types", &rows));
    Ok(match part.is_none_or(|part| part == "fields") {
        true => {
            findings.note("Only servers that have fields that expire are in HEXPIRE, HGETEX, HTTL and a field's time.")
        }
        false => findings,
    })
}

/// Sends the requests of these numbers, `pipeline` at a time on one connection; the server's CPU per request.
fn send(server: &Server, numbers: std::ops::Range<u64>, pipeline: usize, request: Request) -> io::Result<f64> {
    let mut n = numbers.start;
    let plan = Traffic { connections: 1, pipeline, requests: numbers.end - numbers.start };
    cpu_us(server, plan, &mut |out| {
        request(out, n);
        n += 1;
    })
}

/// Sends the requests of these numbers, 16 at a time on one connection; the server's CPU per request, and requests a second.
fn sent(server: &Server, numbers: std::ops::Range<u64>, request: Request) -> io::Result<Vec<f64>> {
    let mut n = numbers.start;
    let plan = Traffic { connections: 1, pipeline: 16, requests: numbers.end - numbers.start };
    let pace = pace(server, plan, &mut |out| {
        request(out, n);
        n += 1;
    })?;
    Ok(vec![pace.cpu_us, pace.per_s])
}

/// A row of bytes, of the figures that [`contenders::one_by_one`] found under this number.
fn bytes(name: &str, all: &[Vec<f64>], number: usize, target: Target) -> Row {
    let figures = contenders::column(all, number);
    say!("{name}: {figures:.1?}");
    Row::new(name, "B", figures).at_most(target)
}

/// Requests with random numbers below `below`, on all servers in turns.
fn cpu(
    rows: &mut Vec<Row>,
    contenders: &[Contender],
    (name, request): (&str, Request),
    (requests, turns, below): (u64, u64, u64),
    target: f64,
) -> io::Result<()> {
    let plan = Traffic { connections: 10, pipeline: 16, requests };
    let write = |out: &mut Vec<u8>, random: &mut Random| request(out, random.below(below as usize) as u64);
    let found = kept::case(name, || beside(contenders, plan, turns, &|_| Ok(()), &random(write)))?;
    rows.extend(found.rows(name, Some(Target::Ratio(target))));
    Ok(())
}

/// Figures that [`figure`] finds on each server in turn: those of a rival that fails are missing.
fn each(
    case: &str,
    contenders: &[Contender],
    figure: &mut dyn FnMut(&Server) -> io::Result<Vec<f64>>,
) -> io::Result<Vec<Vec<f64>>> {
    kept::case(case, || {
        let of =
            |one: &Contender| Ok(contenders::spared(&one.name, one.role, figure(&one.server))?.unwrap_or_default());
        contenders.iter().map(of).collect()
    })
}

/// Has a server touch the pages of its program, and begin anew.
fn warm(server: &Server, request: Request) -> io::Result<()> {
    send(server, 0..2_000, 100, request)?;
    must(&mut server.connect()?, "FLUSHALL")?;
    Ok(())
}

fn id(n: u64) -> Vec<u8> {
    format!("{}-{}", 1_700_000_000_000 + n / 3, n % 3).into_bytes()
}

/// Two fields with seven bytes together.
fn entry(out: &mut Vec<u8>, n: u64) {
    let value = format!("{:03}", n % 1000);
    push(out, &[b"XADD", b"stream", &id(n), b"a", value.as_bytes(), b"b", b"12"]);
}

fn small_stream(out: &mut Vec<u8>, n: u64) {
    push(out, &[b"XADD", format!("stream:{n:08}").as_bytes(), &id(n), b"a", b"123", b"b", b"12"]);
}

fn delete_nine_of_ten(out: &mut Vec<u8>, n: u64) {
    let ids: Vec<Vec<u8>> =
        (10 * n..10 * n + 10).filter(|n| !n.wrapping_mul(0x9e37_79b9).is_multiple_of(10)).map(id).collect();
    let mut args: Vec<&[u8]> = vec![b"XDEL", b"stream"];
    args.extend(ids.iter().map(Vec::as_slice));
    push(out, &args);
}

fn streams(quick: bool, rows: &mut Vec<Row>) -> io::Result<()> {
    let (entries, keys) = if quick { (20_000, 2_000) } else { (10_000_000, 100_000) };
    // Every one of these is named in an XDEL, which takes redis-server longer than adding it.
    let thinned_entries: u64 = if quick { 20_000 } else { 2_000_000 };
    let (requests, turns) = if quick { (2_000, 1) } else { (300_000, 5) };
    // Memory is measured on servers that hold nothing else.
    let all = kept::case("streams, bytes", || {
        contenders::one_by_one(&[], &mut |server| {
            warm(server, entry)?;
            let start = resident(server)?;
            send(server, 0..entries, 100, entry)?;
            let each = (resident(server)? - start) / entries as f64;
            let start = resident(server)?;
            send(server, 0..keys, 100, small_stream)?;
            Ok(vec![each, (resident(server)? - start) / keys as f64])
        })
    })?;
    rows.push(bytes("an entry of a stream, 7 B", &all, 0, Target::AtMost(20.0)));
    rows.push(bytes("a stream of one entry", &all, 1, Target::AtMost(160.0)));
    let contenders = contenders::start(&[])?;
    for one in &contenders {
        let filled =
            send(&one.server, 0..entries, 100, entry).and_then(|_| send(&one.server, 0..keys, 100, small_stream));
        contenders::spared(&one.name, one.role, filled)?;
    }
    let middle: Request = |out, n| push(out, &[b"XRANGE", b"stream", &id(n), b"+", b"COUNT", b"10"]);
    cpu(rows, &contenders, ("XRANGE of ten in the middle", middle), (requests, turns, entries), 0.5)?;
    let add: Request =
        |out, n| push(out, &[b"XADD", b"another", b"*", b"a", (n % 1000).to_string().as_bytes(), b"b", b"12"]);
    cpu(rows, &contenders, ("XADD", add), (requests, turns, entries), 0.5)?;
    let add: Request = |out, n| {
        let key = format!("stream:{:08}", n % 10_000);
        push(out, &[b"XADD", key.as_bytes(), b"MAXLEN", b"5", b"*", b"a", b"123", b"b", b"12"]);
    };
    cpu(rows, &contenders, ("XADD MAXLEN 5 to one of many", add), (requests, turns, entries), 0.5)?;
    let all = each("streams, DEL and XDEL", &contenders, &mut |server| {
        must(&mut server.connect()?, "DEL stream")?;
        let removed = call_us(server, "del")?;
        must(&mut server.connect()?, "FLUSHALL")?;
        send(server, 0..thinned_entries, 100, entry)?;
        let start = server.connect()?.try_cmd("MEMORY USAGE stream SAMPLES 0")?.integer().unwrap_or(0) as f64;
        send(server, 0..thinned_entries / 10, 100, delete_nine_of_ten)?;
        std::thread::sleep(std::time::Duration::from_millis(500));
        let left = server.connect()?.try_cmd("MEMORY USAGE stream SAMPLES 0")?.integer().unwrap_or(0) as f64;
        let live = must(&mut server.connect()?, "XLEN stream")?.integer().unwrap_or(1) as f64;
        Ok(vec![removed, left / (start * live / thinned_entries as f64)])
    })?;
    say!("DEL of the stream, us; after XDEL of nine of ten, over the live entries' bytes: {all:.2?}");
    let removed = Row::new("DEL of such a stream, its caller", "us", contenders::column(&all, 0));
    rows.push(removed.at_most(Target::AtMost(200.0)));
    let thinned = Row::new("bytes over the live ones, after XDEL", "times", contenders::column(&all, 1));
    rows.push(thinned.at_most(Target::AtMost(1.3)));
    Ok(())
}

/// Microseconds of the calls of a command so far, one for another, as the server counts them.
fn call_us(server: &Server, command: &str) -> io::Result<f64> {
    let info = must(&mut server.connect()?, "INFO commandstats")?.text();
    let line = info.lines().find(|line| line.starts_with(&format!("cmdstat_{command}:")));
    let figure = line.and_then(|line| line.split(',').find_map(|part| part.strip_prefix("usec_per_call=")));
    let us = figure.and_then(|figure| figure.parse().ok());
    us.ok_or_else(|| io::Error::other(format!("no time of {command} in {info}")))
}

fn read_group(out: &mut Vec<u8>, _: u64) {
    push(out, &[b"XREADGROUP", b"GROUP", b"g", b"c", b"COUNT", b"100", b"STREAMS", b"stream", b">"]);
}

fn pending(quick: bool, rows: &mut Vec<Row>) -> io::Result<()> {
    let entries: u64 = if quick { 20_000 } else { 1_000_000 };
    let all = kept::case("pending", || {
        contenders::one_by_one(&[], &mut |server| {
            warm(server, entry)?;
            send(server, 0..entries, 100, entry)?;
            must(&mut server.connect()?, "XGROUP CREATE stream g 0")?;
            let start = resident(server)?;
            let read = sent(server, 0..entries / 100, read_group)?;
            let each = (resident(server)? - start) / entries as f64;
            let calls = if quick { 100 } else { 2_000 };
            let idle = sent(server, 0..calls, claim)?;
            let acked = sent(server, 0..entries / 2, acknowledge)?;
            Ok([vec![each], read, idle, acked].concat())
        })
    })?;
    rows.push(bytes("a pending entry", &all, 0, Target::AtMost(24.0)));
    let requests: [(&str, Request); 3] =
        [("XREADGROUP of 100", read_group), ("XAUTOCLAIM of a million, none idle", claim), ("XACK", acknowledge)];
    for (number, (name, request)) in requests.into_iter().enumerate() {
        let floor = kept::case(&format!("{name}, floor"), || {
            let mut n = 0;
            let under = Under::load(&mut |out| {
                request(out, n);
                n += 1;
            })?;
            Ok(under.pace(Traffic { connections: 1, pipeline: 16, requests: entries / 10 })?.cpu_us)
        })?;
        let [cpu, per_s] = [1, 2].map(|column| contenders::column(&all, 2 * number + column));
        say!("{name}: {cpu:.3?} us, floor {floor:.3}");
        let row = Row::new(name, "us of CPU", cpu).at_most(Target::Ratio(0.5));
        rows.extend([row.with("floor", Role::Floor, floor), Row::new(name, "/s", per_s)]);
    }
    Ok(())
}

fn claim(out: &mut Vec<u8>, _: u64) {
    push(out, &[b"XAUTOCLAIM", b"stream", b"g", b"d", b"100000000", b"0", b"COUNT", b"100"]);
}

fn acknowledge(out: &mut Vec<u8>, n: u64) {
    push(out, &[b"XACK", b"stream", b"g", &id(2 * n)]);
}

fn field(n: u64) -> Vec<u8> {
    format!("field:{n:08}").into_bytes()
}

fn fields(quick: bool, rows: &mut Vec<Row>) -> io::Result<()> {
    let count: u64 = if quick { 10_000 } else { 1_000_000 };
    let (requests, turns) = if quick { (2_000, 1) } else { (200_000, 5) };
    let contenders = contenders::start(&[])?;
    let mut with_times = Vec::new();
    for one in contenders {
        let asked = one.server.connect().and_then(|mut client| client.try_cmd("HTTL none FIELDS 1 a"));
        if contenders::spared(&one.name, one.role, asked)?.is_some_and(|reply| !reply.is_error()) {
            with_times.push(one);
        }
    }
    let contenders = with_times;
    let set: Request = |out, n| push(out, &[b"HSET", b"hash", &field(n), b"12345678"]);
    let expire: Request = |out, n| {
        push(out, &[b"HEXPIRE", b"hash", (10_000 + n % 5_000).to_string().as_bytes(), b"FIELDS", b"1", &field(n)])
    };
    let all = each("fields, bytes", &contenders, &mut |server| {
        warm(server, set)?;
        send(server, 0..count, 100, set)?;
        let start = resident(server)?;
        send(server, 0..count, 100, expire)?;
        let grown = (resident(server)? - start) / count as f64;
        must(&mut server.connect()?, "FLUSHALL")?;
        Ok(vec![grown])
    })?;
    let row = Row::alone("a field's time", "B").at_most(Target::AtMost(10.0));
    let found = contenders.iter().zip(contenders::column(&all, 0));
    rows.push(found.fold(row, |row, (one, grown)| row.with(&one.name, one.role, grown)));
    for one in &contenders {
        contenders::spared(&one.name, one.role, send(&one.server, 0..count, 100, set))?;
    }
    cpu(rows, &contenders, ("HEXPIRE", expire), (requests, turns, count), 1.0)?;
    let get: Request = |out, n| push(out, &[b"HGETEX", b"hash", b"EX", b"9000", b"FIELDS", b"1", &field(n)]);
    cpu(rows, &contenders, ("HGETEX", get), (requests, turns, count), 1.0)?;
    cpu(
        rows,
        &contenders,
        ("HTTL", |out, n| push(out, &[b"HTTL", b"hash", b"FIELDS", b"1", &field(n)])),
        (requests, turns, count),
        1.0,
    )
}

fn place(n: u64) -> (String, String) {
    let mut random = Random::new(n.wrapping_mul(varve_base::hash::GOLDEN_RATIO));
    let degrees = |random: &mut Random, most: usize| {
        format!("{:.5}", random.below(2 * most * 1000) as f64 / 1000.0 - most as f64)
    };
    (degrees(&mut random, 20), degrees(&mut random, 20))
}

fn geo(quick: bool, rows: &mut Vec<Row>) -> io::Result<()> {
    let members: u64 = if quick { 5_000 } else { 1_000_000 };
    let (requests, turns) = if quick { (500, 1) } else { (50_000, 3) };
    let contenders = contenders::start(&[])?;
    let add: Request = |out, n| {
        let (lon, lat) = place(n);
        push(out, &[b"GEOADD", b"geo", lon.as_bytes(), lat.as_bytes(), format!("member:{n}").as_bytes()]);
    };
    for one in &contenders {
        contenders::spared(&one.name, one.role, send(&one.server, 0..members, 100, add))?;
    }
    let search: Request = |out, n| {
        let (lon, lat) = place(n ^ 0x55aa);
        let words: [&[u8]; 8] =
            [b"GEOSEARCH", b"geo", b"FROMLONLAT", lon.as_bytes(), lat.as_bytes(), b"BYRADIUS", b"10", b"km"];
        push(out, &words);
    };
    cpu(rows, &contenders, ("GEOSEARCH of 10 km in a million", search), (requests, turns, members), 0.5)?;
    cpu(rows, &contenders, ("GEOADD", add), (requests, turns, members), 1.0)
}

fn hyperloglog(quick: bool, rows: &mut Vec<Row>) -> io::Result<()> {
    let (requests, turns) = if quick { (300, 1) } else { (50_000, 5) };
    let contenders = contenders::start(&[])?;
    let add: Request = |out, n| push(out, &[b"PFADD", format!("log{}", n % 3).as_bytes(), &text(n, 12)]);
    for one in &contenders {
        let filled = send(&one.server, 0..if quick { 9_000 } else { 90_000 }, 100, add);
        contenders::spared(&one.name, one.role, filled)?;
    }
    cpu(rows, &contenders, ("PFADD to a dense one", add), (requests, turns, 1 << 30), 1.0)?;
    cpu(
        rows,
        &contenders,
        ("PFCOUNT of three", |out, _| push(out, &[b"PFCOUNT", b"log0", b"log1", b"log2"])),
        (requests, turns, 1),
        1.0,
    )?;
    let merge: Request = |out, _| push(out, &[b"PFMERGE", b"all", b"log0", b"log1", b"log2"]);
    cpu(rows, &contenders, ("PFMERGE of three", merge), (requests, turns, 1), 1.0)
}

fn bitmaps(quick: bool, rows: &mut Vec<Row>) -> io::Result<()> {
    let bits: u64 = if quick { 1 << 20 } else { 1 << 26 };
    let (requests, turns) = if quick { (500, 1) } else { (200_000, 5) };
    let contenders = contenders::start(&[])?;
    let set: Request = |out, n| {
        push(out, &[b"SETBIT", if n.is_multiple_of(2) { b"bits0" } else { b"bits1" }, n.to_string().as_bytes(), b"1"])
    };
    for one in &contenders {
        for key in ["bits0", "bits1"] {
            must(&mut one.server.connect()?, &format!("SETBIT {key} {} 1", bits - 1))?;
        }
    }
    cpu(rows, &contenders, ("SETBIT", set), (requests, turns, bits), 1.0)?;
    cpu(
        rows,
        &contenders,
        ("GETBIT", |out, n| push(out, &[b"GETBIT", b"bits0", n.to_string().as_bytes()])),
        (requests, turns, bits),
        1.0,
    )?;
    let few = if quick { 20 } else { 200 };
    cpu(rows, &contenders, ("BITCOUNT of 8 MB", |out, _| push(out, &[b"BITCOUNT", b"bits0"])), (few, turns, 1), 0.5)?;
    let and: Request = |out, _| push(out, &[b"BITOP", b"AND", b"both", b"bits0", b"bits1"]);
    cpu(rows, &contenders, ("BITOP AND of 8 MB", and), (few / 4, turns, 1), 1.0)?;
    let far = each("SETBIT far", &contenders, &mut |server| {
        let mut client = server.connect()?;
        must(&mut client, "SETBIT warm 100 1")?;
        let start = resident(server)?;
        must(&mut client, "SETBIT far 4294967295 1")?;
        Ok(vec![resident(server)? - start])
    })?;
    rows.push(bytes("SETBIT far 4294967295 1, resident", &far, 0, Target::AtMost(16_384.0)));
    drop(contenders);
    whole(quick, rows)
}

/// Bitmaps of 512 MB of which each byte is written, beside the time in which memory is read and copied.
fn whole(quick: bool, rows: &mut Vec<Row>) -> io::Result<()> {
    let megabytes: usize = if quick { 2 } else { 512 };
    let calls = if quick { 2 } else { 5 };
    let all = kept::case("whole bitmaps", || {
        contenders::one_by_one(&[], &mut |server| {
            let fill = "local some = string.rep('a7', 524288) \
                        for n = 0, ARGV[1] - 1 do redis.call('SETRANGE', KEYS[1], n * 1048576, some) end";
            let mut client = server.connect()?;
            client.queue(&["EVAL", fill, "1", "whole", &megabytes.to_string()]);
            client.flush()?;
            client.read()?;
            let counts = send(server, 0..calls, 1, |out, _| push(out, &[b"BITCOUNT", b"whole"]))?;
            let inverts = send(server, 0..calls, 1, |out, _| push(out, &[b"BITOP", b"NOT", b"other", b"whole"]))?;
            must(&mut client, "FLUSHALL")?;
            Ok(vec![counts, inverts])
        })
    })?;
    let (reading, copying) = memory_us(megabytes);
    for (number, (name, memory, target)) in
        [("BITCOUNT", reading, 0.5), ("BITOP NOT", copying, 1.0)].into_iter().enumerate()
    {
        let figures = contenders::column(&all, number);
        say!("{name} of {megabytes} MB: {figures:.0?} us, memory alone {memory:.0}");
        let row = Row::new(format!("{name} of {megabytes} MB"), "us", figures).at_most(Target::Ratio(target));
        rows.push(row.with("reading or copying that memory, no server", Role::Other, memory));
    }
    Ok(())
}

/// Microseconds in which this number of megabytes is read, and in which it is copied: the least of three times.
fn memory_us(megabytes: usize) -> (f64, f64) {
    let from = vec![1u64; megabytes << 17];
    let mut to = vec![2u64; megabytes << 17];
    let least = |work: &mut dyn FnMut()| {
        let times = (0..3).map(|_| {
            let began = Instant::now();
            work();
            began.elapsed().as_secs_f64() * 1e6
        });
        times.fold(f64::MAX, f64::min)
    };
    let reading = least(&mut || _ = std::hint::black_box(from.iter().fold(0u64, |sum, n| sum.wrapping_add(*n))));
    let copying = least(&mut || std::hint::black_box(&mut to).copy_from_slice(std::hint::black_box(&from)));
    (reading, copying)
}
