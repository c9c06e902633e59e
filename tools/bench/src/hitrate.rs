//! `hitrate`: a cache in front of a Zipf trace, each policy beside the peer's.
//!
//! ```text
//! GET key -- miss --> SET key value, at maxmemory: hits after half of the trace
//! ```
//! First the peer runs at a limit; then Varve at a limit that holds as many keys, found by its bytes a key, and at the
//! same limit, which holds more. The trace lasts seconds, since clocks have seconds.

use crate::contenders::PEER;
use crate::report::{Better, Figure, Findings, Form, Role, Series};
use crate::turns::{must, used_memory};
use crate::{say, screen};
use std::io;
use std::time::{Duration, Instant};
use varve_testkit::{Launch, Random, client::Client};

struct Scale {
    keys: f64,
    limit: u64,
    time: Duration,
    policies: &'static [&'static str],
}

const BATCH: usize = 100;
const VALUE: [u8; 200] = [b'v'; 200];

/// Runs the experiment.
///
/// # Errors
/// When a server cannot be started or is lost.
pub(crate) fn run(quick: bool) -> io::Result<Findings> {
    const ALL: &[&str] =
        &["allkeys-random", "allkeys-lru", "allkeys-lfu", "volatile-random", "volatile-lru", "volatile-lfu"];
    let scale = match quick {
        true => Scale { keys: 300_000.0, limit: 16 << 20, time: Duration::from_secs(8), policies: &ALL[..3] },
        false => Scale { keys: 5_000_000.0, limit: 256 << 20, time: Duration::from_secs(90), policies: ALL },
    };
    let unit = "percent of GETs that hit";
    let mut figure = Figure::new("Hit rates", unit, Better::More, Form::Dots).over("", scale.policies);
    let names = [("Varve, same limit", Role::Varve), (PEER, Role::Peer), ("Varve, as many keys", Role::Other)];
    let mut series = names.map(|(name, role)| Series::new(name, role));
    for (place, policy) in scale.policies.iter().enumerate() {
        let peer = trace(Launch::peer(), policy, scale.limit, None, &scale)?;
        let same = trace(Launch::varve(), policy, scale.limit, None, &scale)?;
        let like = trace(Launch::varve(), policy, scale.limit, Some(peer.keys), &scale)?;
        say!(
            "{policy}: {} keys of the peer, {} at the same limit, {} to have as many",
            peer.keys,
            same.keys,
            like.keys
        );
        [same, peer, like].iter().zip(&mut series).for_each(|(one, series)| series.push(place, one.hits));
    }
    figure.series = series.to_vec();
    Ok(Findings::new("hitrate", "Hit rates of the eviction policies")
        .with([figure])
        .note("A cache in front of a Zipf trace. Varve runs at the peer's limit, and at one that holds as many keys."))
}

struct Result {
    keys: u64,
    /// Percent.
    hits: f64,
}

/// Runs the trace; with a number of keys to hold, the limit follows it during the first half.
fn trace(launch: Launch, policy: &str, limit: u64, wanted: Option<u64>, scale: &Scale) -> io::Result<Result> {
    let server = launch
        .config(format!("maxmemory {limit}"))
        .config(format!("maxmemory-policy {policy}"))
        .config("io-threads 1")
        .start()?;
    let mut client = server.client();
    let mut random = Random::new(77);
    let expires = policy.starts_with("volatile");
    let start = Instant::now();
    let (mut hits, mut reads, mut batches) = (0, 0, 0u64);
    let (mut keys_sum, mut keys_seen) = (0, 0);
    let mut limit = limit;
    while start.elapsed() < scale.time {
        screen::go_on()?;
        let (found, asked) = batch(&mut client, &mut random, scale.keys, expires)?;
        batches += 1;
        let counts = start.elapsed() > scale.time / 2;
        if counts {
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
    Ok(Result { keys: keys_sum / u64::max(keys_seen, 1), hits: hits as f64 * 100.0 / f64::max(reads as f64, 1.0) })
}

/// Some reads at once, and a write for each that missed: hits and reads.
fn batch(client: &mut Client, random: &mut Random, keys: f64, expires: bool) -> io::Result<(usize, usize)> {
    // The n-th key about as often as 1/n.
    let mut draw = || keys.powf(random.below(1 << 30) as f64 / f64::from(1 << 30)) as u64;
    let names: Vec<String> = (0..BATCH).map(|_| format!("key:{:010}", draw())).collect();
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
        match expires {
            false => client.queue(&[b"SET".as_slice(), name.as_bytes(), &VALUE]),
            true => client.queue(&[b"SET".as_slice(), name.as_bytes(), &VALUE, b"EX", b"100000"]),
        }
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
