//! `giveback`: how much memory goes back after mass deletion and mass expiry, how soon, and what others notice of it.
//!
//! ```text
//! return   fill -> delete 90% -> no command; resident memory, looked at from outside, for 5 s
//! instant  a million keys due at one instant; a client that asks all the time; when they are gone and drained
//! rate     keys that come due at 200 000 a second: when the last one is gone, and the CPU of each
//! ```
//! All of it beside the peer. Resident memory should fall below 15% of its peak + 16 MB within 5 s.

use crate::load::{self, Traffic};
use crate::report::{Findings, Row, Target, figures};
use crate::turns::{must, push, text, used_memory};
use crate::{contenders, kept, say};
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use varve_testkit::{Random, Server, client};

/// A shape of data: the request that writes the `n`th part, and the request that removes it.
struct Shape {
    name: &'static str,
    parts: u64,
    write: fn(&mut Vec<u8>, u64),
    remove: fn(&mut Vec<u8>, u64),
}

const SHAPES: [Shape; 5] = [
    Shape { name: "1 M strings 16+100 B", parts: 1_000_000, write: string, remove: remove_key },
    Shape { name: "100 k hashes of 8", parts: 100_000, write: hash, remove: remove_key },
    Shape { name: "200 k of all kinds", parts: 200_000, write: mixed, remove: remove_key },
    Shape { name: "hash of 1 M fields", parts: 1_000_000, write: field, remove: remove_field },
    Shape { name: "zset of 1 M members", parts: 1_000_000, write: member, remove: remove_member },
];

/// Of what was written this is removed, in percent.
const REMOVED_PERCENT: usize = 90;
/// How long memory is looked at afterwards, and in the quick form.
const LOOK: Duration = Duration::from_secs(5);
const QUICK_LOOK: Duration = Duration::from_secs(1);
/// Bytes that a process may keep beside a part of its peak.
const BESIDE_BYTES: f64 = (16 << 20) as f64;

fn key(n: u64) -> Vec<u8> {
    format!("{n:016}").into_bytes()
}

fn string(out: &mut Vec<u8>, n: u64) {
    push(out, &[b"SET", &key(n), &text(n, 100)]);
}

fn hash(out: &mut Vec<u8>, n: u64) {
    let (key, parts): (_, Vec<Vec<u8>>) = (key(n), (0..16).map(|i| text(n * 16 + i, 8)).collect());
    let mut args: Vec<&[u8]> = vec![b"HSET", &key];
    args.extend(parts.iter().map(Vec::as_slice));
    push(out, &args);
}

/// Strings, lists, sets, hashes and sorted sets, each as large as the last digits of its number say: mostly small.
fn mixed(out: &mut Vec<u8>, n: u64) {
    let (key, long) = (key(n), n % 1000 < 5);
    let many = if long { 600 } else { 4 + n % 13 };
    let parts: Vec<Vec<u8>> = (0..many).map(|i| text(n * 1000 + i, 20)).collect();
    let words = parts.iter().map(Vec::as_slice);
    let mut args: Vec<&[u8]> = match n % 5 {
        0 => return push(out, &[b"SET", &key, &text(n, 100 + (n % 900) as usize)]),
        1 => vec![b"RPUSH", &key],
        2 => vec![b"SADD", &key],
        3 => vec![b"HSET", &key],
        _ => vec![b"ZADD", &key],
    };
    match n % 5 {
        3 => args.extend(words.flat_map(|word| [word, b"value".as_slice()])),
        4 => args.extend(words.flat_map(|word| [b"7".as_slice(), word])),
        _ => args.extend(words),
    }
    push(out, &args);
}

fn remove_key(out: &mut Vec<u8>, n: u64) {
    push(out, &[b"DEL", &key(n)]);
}

fn field(out: &mut Vec<u8>, n: u64) {
    push(out, &[b"HSET", b"hash", &key(n), &text(n, 32)]);
}

fn remove_field(out: &mut Vec<u8>, n: u64) {
    push(out, &[b"HDEL", b"hash", &key(n)]);
}

fn member(out: &mut Vec<u8>, n: u64) {
    push(out, &[b"ZADD", b"zset", n.to_string().as_bytes(), &key(n)]);
}

fn remove_member(out: &mut Vec<u8>, n: u64) {
    push(out, &[b"ZREM", b"zset", &key(n)]);
}

/// Runs the experiment, or one part of it.
///
/// # Errors
/// When a server cannot be started or is lost.
pub(crate) fn run(quick: bool, part: Option<&str>) -> io::Result<Findings> {
    let scale = if quick { 50 } else { 1 };
    let wanted = |name: &str| part.is_none_or(|part| part == name);
    let mut findings = Findings::new("giveback", "Memory that goes back");
    if wanted("return") {
        let mut rows = Vec::new();
        for shape in &SHAPES {
            let look = if quick { QUICK_LOOK } else { LOOK };
            returned(shape, shape.parts / scale, look, &mut rows)?;
        }
        findings.add(kept::figures(figures("Resident after 90% was deleted, of the peak", &rows))?);
    }
    if wanted("instant") {
        let keys = 1_000_000 / scale;
        let all = kept::case("instant", || contenders::one_by_one(&[], &mut |server| instant(server, keys)))?;
        let name = |what: &str| format!("{keys} keys due at one instant: {what}");
        let row =
            |(at, (what, unit)): (usize, &(&str, &str))| Row::new(name(what), *unit, contenders::column(&all, at));
        let rows: Vec<Row> = INSTANT.iter().enumerate().map(row).collect();
        findings.add(kept::figures(figures("Keys due at one instant", &rows))?);
    }
    if wanted("rate") {
        let (per_s, seconds) = (200_000 / scale, if quick { 2 } else { 10 });
        let all = kept::case("rate", || contenders::one_by_one(&[], &mut |server| rate(server, per_s, seconds)))?;
        let name = |what: &str| format!("{per_s} keys due a second for {seconds} s: {what}");
        let rows = [
            Row::new(name("the last one is gone behind its time"), "ms", contenders::column(&all, 0)),
            Row::new(name("each"), "us of CPU", contenders::column(&all, 1)),
        ];
        findings.add(figures("Keys due one after another", &rows));
    }
    Ok(findings)
}

fn returned(shape: &Shape, parts: u64, look: Duration, rows: &mut Vec<Row>) -> io::Result<()> {
    let name = format!("{}: resident / allowed", shape.name);
    let mut random = Random::new(5);
    let removed: Vec<u64> = (0..parts).filter(|_| random.below(100) < REMOVED_PERCENT).collect();
    let all = kept::case(&name, || {
        contenders::one_by_one(&[], &mut |server| {
            send(server, (0..parts).collect(), shape.write)?;
            send(server, removed.clone(), shape.remove)?;
            Ok(vec![rested(server, shape.name, look)?])
        })
    })?;
    rows.push(Row::new(name, "", contenders::column(&all, 0)).at_most(Target::AtMost(1.0)));
    Ok(())
}

/// Looks at a server that is left alone: its resident bytes at the end over those that it may have.
fn rested(server: &Server, name: &str, look: Duration) -> io::Result<f64> {
    let begin = Instant::now();
    let most = |peak: u64| peak as f64 * (100 - REMOVED_PERCENT) as f64 * 1.5 / 100.0 + BESIDE_BYTES;
    let mut below = None;
    while begin.elapsed() < look {
        let memory = server.memory()?;
        if memory.resident as f64 <= most(memory.peak) {
            below = below.or(Some(begin.elapsed()));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    let memory = server.memory()?;
    say!(
        "{name:<22} peak {:>6.1} MB, after {:.0} s {:>6.1} MB of at most {:>6.1} MB, reached after {}",
        memory.peak as f64 / 1e6,
        look.as_secs_f64(),
        memory.resident as f64 / 1e6,
        most(memory.peak) / 1e6,
        below.map_or("never".into(), |after: Duration| format!("{:.2} s", after.as_secs_f64())),
    );
    Ok(memory.resident as f64 / most(memory.peak))
}

fn send(server: &Server, numbers: Vec<u64>, write: fn(&mut Vec<u8>, u64)) -> io::Result<()> {
    let mut next = numbers.iter();
    let plan = Traffic { connections: 4, pipeline: 64, requests: numbers.len() as u64 };
    let outcome = load::drive(server.address(), plan, &mut |out| {
        write(out, *next.next().expect("as many as there are requests"));
    })?;
    if outcome.errors > 0 {
        return Err(io::Error::other(format!("{} of {} replies were errors", outcome.errors, outcome.replies)));
    }
    Ok(())
}

fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis() as u64
}

/// The delays of a client that asks all the time, in microseconds, sorted.
fn delays(server: &Server, stop: &AtomicBool) -> io::Result<Vec<f64>> {
    let mut client = server.connect()?;
    let mut delays = Vec::new();
    while !stop.load(Ordering::Relaxed) {
        let begin = Instant::now();
        client.call(&["GET", "steady"])?;
        delays.push(begin.elapsed().as_nanos() as f64 / 1000.0);
        std::thread::sleep(Duration::from_micros(100));
    }
    delays.sort_by(f64::total_cmp);
    Ok(delays)
}

/// The figures of [`instant`], and their units.
const INSTANT: [(&str, &str); 6] = [
    ("all are gone after", "ms"),
    ("98% of their memory is free after", "ms"),
    ("a client's GET meanwhile, p50", "us"),
    ("a client's GET meanwhile, p99", "us"),
    ("a client's GET meanwhile, p99.9", "us"),
    ("a client's GET meanwhile, longest", "us"),
];

/// How long keys that are due at one instant may take to go.
const GONE_WITHIN_MS: u64 = 30_000;
/// Bytes that may be left beside 2% of their memory: what a server keeps however little it has.
const LEFT_BYTES: f64 = (256 << 10) as f64;

/// Keys due at one instant; what did not come about in time is no number.
fn instant(server: &Server, keys: u64) -> io::Result<Vec<f64>> {
    let mut client = server.connect()?;
    must(&mut client, "SET steady value")?;
    let before = used_memory(&mut client)?;
    let due = now_ms() + if keys > 100_000 { 15_000 } else { 2_000 };
    let at = due.to_string().into_bytes();
    let mut n = 0;
    let plan = Traffic { connections: 4, pipeline: 64, requests: keys };
    load::drive(server.address(), plan, &mut |out| {
        n += 1;
        client::encode(out, &[b"SET".as_slice(), &key(n), &text(n, 100), b"PXAT", &at]);
    })?;
    let full = used_memory(&mut client)? - before;
    let late = now_ms().saturating_sub(due);
    if late > 0 {
        return Err(io::Error::other(format!("writing took {late} ms too long: the machine is too busy")));
    }
    while now_ms() + 300 < due {
        std::thread::sleep(Duration::from_millis(50));
    }
    must(&mut client, "CONFIG RESETSTAT")?;
    let stop = AtomicBool::new(false);
    let (ended, delays) = std::thread::scope(|scope| {
        let asked = scope.spawn(|| delays(server, &stop));
        let ended = watch_the_end(&mut client, due, before + full / 50.0 + LEFT_BYTES);
        std::thread::sleep(Duration::from_millis(300));
        stop.store(true, Ordering::Relaxed);
        (ended, asked.join().expect("the asking thread ends"))
    });
    let ((gone, drained), delays) = (ended?, delays?);
    let ms = |time: Option<u64>| time.map_or(f64::NAN, |ms| ms as f64);
    let part = |p: f64| delays[((delays.len() - 1) as f64 * p) as usize];
    told(&mut client)?;
    let found = vec![ms(gone), ms(drained), part(0.5), part(0.99), part(0.999), part(1.0)];
    say!("{keys} keys due at one instant, {:.0} MB: {found:.0?} of {INSTANT:?}", full / 1e6);
    Ok(found)
}

/// Milliseconds behind `due` after which all keys but one were gone, and the memory in use was below a limit too; none where that
/// has taken too long.
fn watch_the_end(client: &mut client::Client, due: u64, limit: f64) -> io::Result<(Option<u64>, Option<u64>)> {
    let (mut gone, mut drained) = (None, None);
    while drained.is_none() && now_ms() < due + GONE_WITHIN_MS {
        std::thread::sleep(Duration::from_millis(5));
        let left = must(client, "DBSIZE")?.integer().unwrap_or(i64::MAX);
        let used = used_memory(client)?;
        let since = now_ms().saturating_sub(due);
        gone = gone.or((left <= 1).then_some(since));
        drained = drained.or((left <= 1 && used < limit).then_some(since));
    }
    Ok((gone, drained))
}

/// Shows the server's own measurements.
fn told(client: &mut client::Client) -> io::Result<()> {
    let info = must(client, "INFO background")?.text();
    for name in ["background_slices:", "background_rounds:", "lock_holds:", "expiry_lag:"] {
        info.lines().filter(|line| line.starts_with(name)).for_each(|line| say!("    {}", line.trim_end()));
    }
    Ok(())
}

/// Keys expire evenly, `per_s` a second, for some seconds, while none is written: the milliseconds from the time of the last one until
/// none is left, looked at each 5 ms, and the CPU of each.
fn rate(server: &Server, per_s: u64, seconds: u64) -> io::Result<Vec<f64>> {
    let mut client = server.connect()?;
    let keys = per_s * seconds;
    let begin = now_ms() + 1000 + keys / 100;
    let mut n = 0;
    let plan = Traffic { connections: 4, pipeline: 64, requests: keys };
    load::drive(server.address(), plan, &mut |out| {
        n += 1;
        let at = (begin + n * 1000 / per_s).to_string().into_bytes();
        client::encode(out, &[b"SET".as_slice(), &key(n), b"a value", b"PXAT", &at]);
    })?;
    if now_ms() > begin {
        return Err(io::Error::other("writing took too long: the machine is too busy"));
    }
    std::thread::sleep(Duration::from_millis(begin - now_ms()));
    must(&mut client, "CONFIG RESETSTAT")?;
    let cpu = server.cpu_ns()?;
    std::thread::sleep(Duration::from_secs(seconds));
    let end = begin + keys * 1000 / per_s;
    let mut late_ms = f64::NAN;
    while late_ms.is_nan() && now_ms() < end + GONE_WITHIN_MS {
        std::thread::sleep(Duration::from_millis(5));
        if must(&mut client, "DBSIZE")?.integer() == Some(0) {
            late_ms = now_ms().saturating_sub(end).max(1) as f64;
        }
    }
    let cpu_us = (server.cpu_ns()? - cpu) as f64 / 1000.0 / keys as f64;
    told(&mut client)?;
    say!(
        "{per_s} keys due a second for {seconds} s: the last one {late_ms} ms behind its time, {cpu_us:.2} us of CPU each"
    );
    Ok(vec![late_ms, cpu_us])
}
