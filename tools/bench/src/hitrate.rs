//! `hitrate`: a cache in front of a Zipf trace, each policy beside the peer's.
//!
//! ```text
//! GET key -- miss --> SET key value, at maxmemory: hits after half of the trace
//! ```
//! All contenders run at one limit; then Varve at a limit that holds as many keys as the peer's, found by its bytes a key.
//! The trace lasts seconds, since clocks have seconds.

use crate::floor::Under;
use crate::load::Traffic;
use crate::report::{Better, Figure, Findings, Form, Role, Series};
use crate::turns::{must, push, used_memory};
use crate::{contenders, kept, say, screen};
use serde::{Deserialize, Serialize};
use std::io;
use std::time::{Duration, Instant};
use varve_testkit::{Random, Server, client::Client};

struct Scale {
    keys: f64,
    limit: u64,
    time: Duration,
    policies: &'static [&'static str],
}

const BATCH: usize = 100;
/// Varve at a limit that holds as many keys as the peer does.
const AS_MANY: &str = "Varve, as many keys";
const VALUE: [u8; 200] = [b'v'; 200];

/// Runs the experiment.
///
/// # Errors
/// When a server cannot be started or is lost.
pub(crate) fn run(quick: bool) -> io::Result<Findings> {
    const ALL: &[&str] =
        &["allkeys-random", "allkeys-lru", "allkeys-lfu", "volatile-random", "volatile-lru", "volatile-lfu"];
    let scale = match quick {
        true => Scale { keys: 300_000.0, limit: 16 << 20, time: Duration::from_secs(6), policies: &ALL[..3] },
        false => Scale { keys: 5_000_000.0, limit: 256 << 20, time: Duration::from_secs(90), policies: ALL },
    };
    let mut figures = [
        Figure::new("Hit rates", "percent of GETs that hit", Better::More, Form::Dots).over("", scale.policies),
        Figure::new("Server CPU", "microseconds of CPU per request", Better::Less, Form::Dots).over("", scale.policies),
        Figure::new("Requests", "requests a second", Better::More, Form::Dots).over("", scale.policies),
    ];
    let mut sides = contenders::sides();
    sides.push((AS_MANY.into(), Role::Other));
    for figure in &mut figures {
        figure.series = sides.iter().map(|(name, role)| Series::new(name.as_str(), *role)).collect();
    }
    figures[1].series.push(Series::new("floor", Role::Floor));
    let measured = every_policy(&scale, &mut figures);
    kept::or_unfinished(measured, || figures.to_vec())?;
    Ok(Findings::new("hitrate", "Hit rates of the eviction policies").with(figures).note(
        "A cache in front of a Zipf trace, one connection. Varve also runs at a limit that holds as many keys as the peer's. A \
         request is a GET or the SET that follows a miss, with pipelines of 100. The floor gets as many bytes in as many \
         requests, with the mean share of misses of all servers.",
    ))
}

/// Puts the values of every policy into the figures, whose series are the servers, and the floor in the one of CPU.
fn every_policy(scale: &Scale, figures: &mut [Figure; 3]) -> io::Result<()> {
    for (place, policy) in scale.policies.iter().enumerate() {
        let mut all = Vec::new();
        for entrant in contenders::entrants(&settings(policy, scale.limit)) {
            let found = kept::case(&format!("{policy}, {}", entrant.name), || {
                let found = entrant.start().and_then(|one| trace(&one.server, policy, None, scale));
                contenders::spared(&entrant.name, entrant.role, found)
            })?;
            all.push(found);
        }
        let peer = all.get(1).copied().flatten();
        let peer_keys = peer.map(|peer| peer.keys);
        all.push(kept::case(&format!("{policy}, {AS_MANY}"), || {
            let entrants = contenders::entrants(&settings(policy, scale.limit));
            trace(&entrants[0].start()?.server, policy, peer_keys, scale).map(Some)
        })?);
        let hits: Vec<f64> = all.iter().flatten().map(|one| one.hits).collect();
        let hits = hits.iter().sum::<f64>() / hits.len() as f64;
        let floor = kept::case(&format!("{policy}, floor"), || floor(policy, hits))?;
        if let Some(series) = figures[1].series.last_mut() {
            series.push(place, floor);
        }
        let keys: Vec<u64> = all.iter().flatten().map(|one| one.keys).collect();
        say!("{policy}: {keys:?} keys of {:?}", figures[0].series.iter().map(|one| &one.name).collect::<Vec<_>>());
        for (number, one) in all.into_iter().enumerate() {
            let Some(one) = one else { continue };
            for (figure, value) in figures.iter_mut().zip([one.hits, one.cpu_us, one.per_s]) {
                figure.series[number].push(place, value);
            }
        }
    }
    Ok(())
}

/// Requests with which the floor is measured.
const FLOOR_REQUESTS: u64 = 100_000;

/// Microseconds of CPU of a request at a server that parses nothing, where this percentage of GETs hits: batches of GETs and
/// of the SETs that follow are sent as batches of their mean length, and requests as requests of theirs.
fn floor(policy: &str, hits: f64) -> io::Result<f64> {
    let missed = ((100.0 - hits) / 100.0 * BATCH as f64).round() as usize;
    let (name, mut reads, mut writes) = (name(0), Vec::new(), Vec::new());
    push(&mut reads, &[b"GET", name.as_bytes()]);
    push(&mut writes, &set_words(name.as_bytes(), policy.starts_with("volatile")));
    let all = BATCH + missed;
    let under = Under::requests_of((BATCH * reads.len() + missed * writes.len()) / all)?;
    Ok(under.pace(Traffic { connections: 1, pipeline: all.div_ceil(2), requests: FLOOR_REQUESTS })?.cpu_us)
}

/// The name of a key.
fn name(number: u64) -> String {
    format!("key:{number:010}")
}

/// The words of a SET.
fn set_words(name: &[u8], expires: bool) -> Vec<&[u8]> {
    let mut words: Vec<&[u8]> = vec![b"SET", name, &VALUE];
    if expires {
        words.extend([b"EX".as_slice(), b"100000"]);
    }
    words
}

/// The lines of a cache.
fn settings(policy: &str, limit: u64) -> [String; 2] {
    [format!("maxmemory {limit}"), format!("maxmemory-policy {policy}")]
}

#[derive(Clone, Copy, Serialize, Deserialize)]
struct Result {
    keys: u64,
    /// Percent.
    hits: f64,
    /// The server's CPU a request, and requests a second.
    cpu_us: f64,
    per_s: f64,
}

/// Runs the trace; with a number of keys to hold, the limit follows it during the first half.
fn trace(server: &Server, policy: &str, wanted: Option<u64>, scale: &Scale) -> io::Result<Result> {
    let mut client = server.connect()?;
    let mut random = Random::new(77);
    let expires = policy.starts_with("volatile");
    let start = Instant::now();
    let (mut hits, mut reads, mut requests, mut batches) = (0, 0, 0, 0u64);
    let (mut keys_sum, mut keys_seen) = (0, 0);
    let mut limit = scale.limit;
    let mut second_half = None;
    while start.elapsed() < scale.time {
        screen::go_on()?;
        let (found, asked) = batch(&mut client, &mut random, scale.keys, expires)?;
        batches += 1;
        let counts = start.elapsed() > scale.time / 2;
        if counts {
            match second_half {
                None => second_half = Some((Instant::now(), server.cpu_ns()?)),
                Some(_) => requests += asked + asked - found,
            }
            hits += found;
            reads += asked;
        }
        if batches.is_multiple_of(100) {
            let keys = must(&mut client, "DBSIZE")?.integer().unwrap_or(0) as u64;
            if counts {
                keys_sum += keys;
                keys_seen += 1;
            }
            // Only a full cache tells what a key takes.
            if let Some(wanted) = wanted
                && keys.abs_diff(wanted) * 200 > wanted
                && used_memory(&mut client)? > limit as f64 * 0.97
            {
                let step = (limit as i64 / 200) * if keys > wanted { -1 } else { 1 };
                limit = limit.saturating_add_signed(step);
                must(&mut client, &format!("CONFIG SET maxmemory {limit}"))?;
            }
        }
    }
    let (begun, cpu) = second_half.ok_or_else(|| io::Error::other("the trace ended before its second half"))?;
    let (requests, spent_ns) = (f64::max(requests as f64, 1.0), server.cpu_ns()? - cpu);
    Ok(Result {
        keys: keys_sum / u64::max(keys_seen, 1),
        hits: hits as f64 * 100.0 / f64::max(reads as f64, 1.0),
        cpu_us: spent_ns as f64 / 1000.0 / requests,
        per_s: requests / begun.elapsed().as_secs_f64(),
    })
}

/// Some reads at once, and a write for each that missed: hits and reads.
fn batch(client: &mut Client, random: &mut Random, keys: f64, expires: bool) -> io::Result<(usize, usize)> {
    // The n-th key about as often as 1/n.
    let mut draw = || keys.powf(random.below(1 << 30) as f64 / f64::from(1 << 30)) as u64;
    let names: Vec<String> = (0..BATCH).map(|_| name(draw())).collect();
    for name in &names {
        client.queue(&[b"GET".as_slice(), name.as_bytes()]);
    }
    client.flush()?;
    let mut missed = Vec::new();
    for name in &names {
        if client.read()?.text().len() != VALUE.len() {
            missed.push(name);
        }
    }
    for name in &missed {
        client.queue(&set_words(name.as_bytes(), expires));
    }
    client.flush()?;
    for _ in &missed {
        let reply = client.read()?;
        if reply.is_error() {
            return Err(io::Error::other(format!("SET: {reply:?}")));
        }
    }
    Ok((BATCH - missed.len(), BATCH))
}
