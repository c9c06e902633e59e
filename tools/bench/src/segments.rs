//! `segments`: whether an operation costs more the more segments there are, in process.
//!
//! ```text
//!   ballast   two cold objects a segment of 4 KB: 0, 1/32, 1/4 and all of 131 072 segments, a terabyte of ordinary ones; the
//!             other cold keys of a store have a byte each: all stores have the same number of keys
//!   hot       the same few keys in each store: GET; GET beside keys that come due; SET
//!   grown     8000 values that have grown, which takes 64 segments of addresses each: none, all, the last one, none again
//! ```
//! A segment of 4 KB costs the bookkeeping of one of 8 MB. All stores have the same hot keys, the same geometry and an index of
//! the same size, so that what grows with the number of segments is what walks over them. Figures are CPU of the thread,
//! the least of some rounds, each behind a rest in which the background does what the round before has left. Not here: what the walks would be (the looks at entries are counted in the tests of the log).

use crate::engine::cpu_ns;
use crate::report::{Better, Figure, Findings, Form, Role, Series};
use crate::{kept, say};
use std::hint::black_box;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};
use varve_store::{LogGeometry, Options, Store, StoreWorker, StringForm, Ttl, Tx};
use varve_testkit::Random;

const SEGMENT_BYTES: usize = 4096;
/// Two of them fill a segment, with their keys and headers.
const BALLAST_BYTES: usize = 1900;
const COLD_EACH: u64 = 2;
const HOT_KEYS: u64 = 20_000;
const VALUE: [u8; 64] = [b'v'; 64];
/// Operations of a turn, and of these the keys that come due some milliseconds later.
const TURN: usize = 64;
const DUE: usize = 4;
const DUE_MS: i64 = 3;
const BACKGROUND: Duration = Duration::from_micros(100);
const START_MS: i64 = 1_795_000_000_000;
/// Operations of a store with all segments over those of a small one, at most, in CPU.
const TARGET: f64 = 1.05;
/// Appended twice, it makes a value that takes the addresses of 64 segments.
const GROWN_PART: [u8; 3000] = [b'g'; 3000];

struct Scale {
    /// Segments of the largest store.
    segments: u64,
    grown: u64,
    rounds: usize,
    time: Duration,
}

/// An operation that is measured.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Get,
    GetBesideExpiry,
    Set,
}

const KINDS: [(Kind, &str); 3] = [(Kind::Get, "GET"), (Kind::GetBesideExpiry, "GET beside expiry"), (Kind::Set, "SET")];

/// Runs the experiment.
///
/// # Errors
/// When a store cannot be made.
pub(crate) fn run(quick: bool) -> io::Result<Findings> {
    let scale = match quick {
        true => Scale { segments: 4096, grown: 200, rounds: 2, time: Duration::from_millis(30) },
        false => Scale { segments: 131_072, grown: 8000, rounds: 9, time: Duration::from_millis(400) },
    };
    let counts = [0, scale.segments / 32, scale.segments / 4, scale.segments];
    let mut by_count = Figure::new("CPU of an operation by segments", "ns", Better::Less, Form::Lines);
    by_count = by_count.over("segments of cold objects", counts);
    let sizes = kept::case("sizes", || sizes(&counts, &scale))?;
    for (at, (_, name)) in KINDS.iter().enumerate() {
        let mut series = Series::new(*name, if at == 1 { Role::Varve } else { Role::Other });
        sizes.iter().enumerate().for_each(|(place, ns)| series.push(place, ns[at]));
        by_count.series.push(series);
    }
    let states = ["fresh", "all grown values live", "all but the last are deleted", "all are deleted"];
    let mut by_state = Figure::new("CPU of a SET beside values that have grown", "ns", Better::Less, Form::Dots);
    by_state = by_state.over("", states);
    let grown = kept::case("grown", || grown(&scale))?;
    let mut series = Series::new("SET", Role::Varve);
    grown.iter().enumerate().for_each(|(place, ns)| series.push(place, *ns));
    by_state.series.push(series);
    let ratio = sizes[counts.len() - 1][1] / sizes[0][1];
    let dearest = grown.iter().fold(0.0_f64, |most, ns| most.max(*ns)) / grown[0];
    let verdict = format!(
        "GET beside expiry takes {ratio:.2} times the CPU with {} segments, the aim is {TARGET} at most. SET beside grown values takes \
         at most {dearest:.2} times that of a fresh store.",
        scale.segments
    );
    say!("{verdict}");
    let mut findings = Findings::new("segments", "What many segments cost, in process");
    findings.add([by_count, by_state]);
    Ok(findings.note("A value is the least of its rounds.").note(verdict))
}

/// Nanoseconds of CPU of each kind of operation, for each number of segments: rounds of all stores in turns.
fn sizes(counts: &[u64], scale: &Scale) -> io::Result<Vec<Vec<f64>>> {
    let new = |&count: &u64| Driver::new(count, scale.segments * COLD_EACH);
    let mut stores: Vec<Driver> = counts.iter().map(new).collect::<io::Result<_>>()?;
    let mut least = vec![vec![f64::INFINITY; KINDS.len()]; counts.len()];
    for _ in 0..scale.rounds {
        for (store, least) in stores.iter_mut().zip(&mut least) {
            for ((kind, _), least) in KINDS.iter().zip(least) {
                crate::screen::go_on()?;
                store.rest();
                *least = least.min(store.measure(*kind, scale.time));
            }
        }
    }
    for (store, ns) in stores.iter().zip(&least) {
        let count = store.store.log().stats().segments;
        let all: Vec<String> = KINDS.iter().zip(ns).map(|((_, name), ns)| format!("{name} {ns:.0} ns")).collect();
        say!("{count} segments: {}", all.join(", "));
    }
    Ok(least)
}

/// Nanoseconds of CPU of a SET: beside nothing, beside values that have grown, beside the last of them, beside none again.
fn grown(scale: &Scale) -> io::Result<Vec<f64>> {
    let mut store = Driver::new(0, 0)?;
    let name = |number: u64| format!("grown:{number}").into_bytes();
    let mut figures = Vec::new();
    for state in 0..4 {
        match state {
            0 => {}
            1 => (0..scale.grown).for_each(|number| {
                (0..2).for_each(|_| store.with_key(&name(number), |tx, key| _ = tx.append(key, &GROWN_PART)));
            }),
            2 => (0..scale.grown - 1).for_each(|number| store.with_key(&name(number), |tx, key| _ = tx.remove(key))),
            _ => store.with_key(&name(scale.grown - 1), |tx, key| _ = tx.remove(key)),
        }
        store.rest();
        let least = (0..scale.rounds).map(|_| store.measure(Kind::Set, scale.time)).fold(f64::INFINITY, f64::min);
        say!("SET, state {state} of the grown values: {least:.0} ns");
        figures.push(least);
    }
    Ok(figures)
}

/// A store, and the worker that drives it.
struct Driver {
    store: Arc<Store>,
    worker: StoreWorker,
    start: Instant,
    random: Random,
    /// Keys that were set to come due.
    due: u64,
    out: Vec<u8>,
}

impl Driver {
    /// A store with this number of segments of cold objects, this number of cold keys in all, and the hot keys.
    fn new(segments: u64, keys: u64) -> io::Result<Driver> {
        let geometry = LogGeometry {
            segment_bytes: SEGMENT_BYTES,
            piece_bytes: SEGMENT_BYTES / 2,
            extent_min_bytes: SEGMENT_BYTES / 2,
            release_bytes: SEGMENT_BYTES,
            reserve_bytes: 64 << 30,
        };
        let store = Store::new(&Options { workers: 1, seed: 7, geometry, ..Options::default() })?;
        let (worker, random) = (store.worker(0), Random::new(11));
        let mut driver = Driver { store, worker, start: Instant::now(), random, due: 0, out: Vec::new() };
        let cold = [b'c'; BALLAST_BYTES];
        for number in 0..keys.max(segments * COLD_EACH) {
            let value = if number < segments * COLD_EACH { &cold[..] } else { b"c" };
            let name = format!("cold:{number:012}").into_bytes();
            driver.with_key(&name, |tx, key| tx.set(key, value, Ttl::Clear, StringForm::Auto));
        }
        for number in 0..HOT_KEYS {
            driver.with_key(&hot(number), |tx, key| tx.set(key, &VALUE, Ttl::Clear, StringForm::Auto));
        }
        driver.rest();
        Ok(driver)
    }

    fn now_ms(&self) -> i64 {
        START_MS + self.start.elapsed().as_millis() as i64
    }

    fn with_key(&mut self, name: &[u8], act: impl FnOnce(&mut Tx<'_>, &varve_store::Key<'_>)) {
        let now_ms = self.now_ms();
        self.worker.set_now(now_ms);
        let (store, local) = self.worker.parts();
        let _inside = store.gate().enter(local.id());
        let mut tx = Tx::new(store, local, 0);
        let key = tx.key(name);
        tx.hold(&[tx.shard_of(key.hash)]);
        act(&mut tx, &key);
        tx.finish();
    }

    /// Runs the background until it has nothing to do for a while.
    fn rest(&mut self) {
        let mut idle = 0;
        while idle < 20 {
            let now_ms = self.now_ms();
            let next = self.worker.background(now_ms, BACKGROUND);
            idle = if next.is_none_or(|next| next > now_ms) { idle + 1 } else { 0 };
            std::thread::sleep(Duration::from_millis(if idle > 0 { 1 } else { 0 }));
        }
    }

    /// Nanoseconds of CPU of an operation, with the background's turns and the keys that come due.
    fn measure(&mut self, kind: Kind, time: Duration) -> f64 {
        let (begin, cpu, mut done) = (Instant::now(), cpu_ns(), 0);
        while begin.elapsed() < time {
            self.turn(kind);
            done += TURN;
            let now_ms = self.now_ms();
            self.worker.background(now_ms, BACKGROUND);
        }
        (cpu_ns() - cpu) as f64 / done as f64
    }

    fn turn(&mut self, kind: Kind) {
        let now_ms = self.now_ms();
        self.worker.set_now(now_ms);
        let (store, local) = self.worker.parts();
        let _inside = store.gate().enter(local.id());
        let mut tx = Tx::new(store, local, 0);
        self.out.clear();
        for _ in 0..TURN {
            let name = hot(self.random.below(HOT_KEYS as usize) as u64);
            let key = tx.key(&name);
            tx.release();
            tx.hold(&[tx.shard_of(key.hash)]);
            if kind == Kind::Set {
                tx.set(&key, &VALUE, Ttl::Clear, StringForm::Auto);
            } else if let Ok(Some(value)) = tx.get(&key) {
                self.out.extend_from_slice(value);
            }
        }
        if kind == Kind::GetBesideExpiry {
            for _ in 0..DUE {
                self.due += 1;
                let name = format!("due:{:012}", self.due).into_bytes();
                let key = tx.key(&name);
                tx.release();
                tx.hold(&[tx.shard_of(key.hash)]);
                tx.set(&key, &VALUE, Ttl::At(now_ms + DUE_MS), StringForm::Auto);
            }
        }
        tx.finish();
        black_box(&self.out);
    }
}

fn hot(number: u64) -> Vec<u8> {
    format!("hot:{number:012}").into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_has_the_segments_that_are_asked_for_and_keys_come_due() {
        let mut store = Driver::new(300, 1000).expect("a store");
        let stats = store.store.log().stats();
        assert!((300..3000).contains(&stats.segments), "{} segments", stats.segments);
        let keys = store.store.counts_of_all().iter().map(|(keys, _)| keys).sum::<u64>();
        assert!(store.measure(Kind::GetBesideExpiry, Duration::from_millis(30)) > 0.0);
        assert!(store.due > 0);
        std::thread::sleep(Duration::from_millis(DUE_MS as u64 + 2));
        store.rest();
        assert_eq!(store.store.counts_of_all().iter().map(|(keys, _)| keys).sum::<u64>(), keys, "what was due is gone");
    }
}
